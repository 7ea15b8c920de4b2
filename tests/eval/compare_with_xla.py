#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares `meshlo run` with XLA:CPU (jaxlib 0.10.2) over random programs: every op, type and attribute form.

usage: compare_with_xla.py [--meshlo PATH] [--seed S] [--rounds N] [--only REGEX] [--engines eval,compiled] [--list]

A round makes one program for each op and element type, with fresh shapes, attributes and inputs (edge values first). XLA
runs in a child process, since it aborts on some programs; what it refuses is counted, not compared. Results must agree
bit for bit where the op is exact, else within a few units of the type's precision. Prints what differs, exits 1 if
anything does.
"""
import argparse
import os
import pathlib
import pickle
import re
import struct
import subprocess
import sys
import tempfile
import zlib
from collections import Counter

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import ml_dtypes
import numpy as np

FLOATS = ["f16", "bf16", "f32", "f64"]
INTEGERS = ["s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"]
NARROW = ["s4", "u4", "s2", "u2"]
COMPLEX = ["c64", "c128"]
F8 = ["f8e5m2", "f8e4m3fn", "f8e4m3", "f8e3m4", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz"]
TINY = ["f4e2m1fn", "f8e8m0fnu"]
REAL = FLOATS + INTEGERS
EVERY = ["pred"] + NARROW + INTEGERS + F8 + TINY + FLOATS + COMPLEX

DTYPES = {"pred": np.dtype(bool), "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16),
          "f32": np.dtype(np.float32), "f64": np.dtype(np.float64), "c64": np.dtype(np.complex64),
          "c128": np.dtype(np.complex128), "f4e2m1fn": np.dtype(ml_dtypes.float4_e2m1fn),
          "f8e8m0fnu": np.dtype(ml_dtypes.float8_e8m0fnu)}
DTYPES.update({t: np.dtype(t.replace("s", "int").replace("u", "uint")) for t in INTEGERS})
DTYPES.update({t: np.dtype(getattr(ml_dtypes, t.replace("s", "int").replace("u", "uint"))) for t in NARROW})
DTYPES.update({t: np.dtype(getattr(ml_dtypes, "float8_" + t[2:])) for t in F8})
# One unit in the last place, relative.
EPSILON = {"f64": 2.0**-52, "c128": 2.0**-52, "f32": 2.0**-23, "c64": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7,
           "f8e5m2": 0.25, "f8e5m2fnuz": 0.25, "f8e4m3fn": 0.125, "f8e4m3": 0.125, "f8e4m3b11fnuz": 0.125,
           "f8e4m3fnuz": 0.125, "f8e3m4": 0.0625, "f4e2m1fn": 0.5, "f8e8m0fnu": 1.0}
EDGES = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 2.0, -2.0, 3e38, -3e38, 1e-7, 100.0, -100.0, 1.5, 2.5,
         -1.5, -2.5, 0.1, -0.9, 0.9, 3.14159265, 88.0, -88.0, 1e10, 7.0, 448.0, 57344.0, 65504.0, 240.0, 2147483648.0]


def is_float(t):
    return t[0] in "fb"


def is_complex(t):
    return t[0] == "c"


def is_integer(t):
    return t[0] in "su"


def width(t):
    return int(t[1:])


class Case:
    """A program under construction: parameters with their values, and lines of the entry computation."""

    def __init__(self, rng, name):
        self.rng, self.name = rng, name
        self.arrays, self.lines, self.before = [], [], ""
        self.ulps, self.floor = 0.0, 0.0

    def values(self, t, dims, mode):
        count = int(np.prod(dims)) if dims else 1
        rng = self.rng
        if t == "pred":
            return rng.integers(0, 2, count).astype(bool)
        if is_integer(t):
            bits, signed = width(t), t[0] == "s"
            low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
            if mode == "small":
                picks = [int(v) for v in rng.integers(max(low, -5), min(high, 5) + 1, count)]
            else:
                edges = [0, 1, low, high, low + 1, high - 1, bits - 1, bits, bits + 1, -1, 2, 3, high // 2]
                edges = [e for e in edges if low <= e <= high]
                picks = [edges[rng.integers(len(edges))] if rng.random() < 0.4 else
                         low + int.from_bytes(rng.bytes(8), "little") % (high - low + 1) for _ in range(count)]
            return np.array(picks, dtype=np.int8 if bits < 8 else DTYPES[t]).astype(DTYPES[t])
        smooth = rng.integers(-1000, 1000, (2, count)) / 256.0
        if mode == "edges":
            edge = np.array(EDGES)[rng.integers(0, len(EDGES), (2, count))]
            wide = smooth * 10.0 ** rng.integers(-12, 12, (2, count))
            choice = rng.random((2, count))
            smooth = np.where(choice < 0.3, edge, np.where(choice < 0.5, wide, smooth))
        with np.errstate(all="ignore"):
            if is_complex(t):
                return (smooth[0] + 1j * smooth[1]).astype(DTYPES[t])
            return smooth[0].astype(DTYPES[t])

    def parameter(self, t, dims, mode="small", values=None):
        number = len(self.arrays)
        array = self.values(t, dims, mode) if values is None else np.asarray(values).astype(DTYPES[t])
        self.arrays.append((t, array.reshape(dims)))
        self.lines.append(f"  p{number} = {shape(t, dims)} parameter({number})")
        return f"p{number}"

    def root(self, t, dims, expression):
        self.lines.append(f"  ROOT r = {t if dims is None else shape(t, dims)} {expression}")

    def line(self, text):
        self.lines.append("  " + text)

    def text(self):
        return f"HloModule {re.sub('[^a-z0-9_]', '_', self.name)}\n\n{self.before}ENTRY e {{\n" + "\n".join(self.lines) + "\n}\n"

    def dims(self, low=0, high=3, largest=6):
        return [int(d) for d in self.rng.integers(1, largest + 1, self.rng.integers(low, high + 1))]

    def chance(self, percent):
        return self.rng.random() * 100 < percent

    def between(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def choose(self, items):
        return items[self.rng.integers(len(items))]


def shape(t, dims):
    return f"{t}[{','.join(map(str, dims))}]"


def braces(items):
    return "{" + ",".join(map(str, items)) + "}"


def scalar_computation(name, t, body):
    return f"{name} {{\n  x = {t}[] parameter(0)\n  y = {t}[] parameter(1)\n  ROOT z = {body}\n}}\n\n"


# Where XLA:CPU is wrong or less exact and we are not:
#   popcnt of s4 and s2   it counts the bits of the sign-extended byte
#   convert of f4e2m1fn   6 and -6 become the ends of the integer types
#   log-plus-one of f64   1e-14 off near -0.5; exponential-minus-one of f16 one subnormal unit
KNOWN = r"^popcnt\.s|^convert\.f4e2m1fn|^log-plus-one\.f64|^exponential-minus-one\.f16"

GROUPS = []  # (name, function of a Case)


def group(name, types=None):
    def add(function):
        for t in types or [None]:
            GROUPS.append((f"{name}.{t}" if t else name, (lambda case, t=t: function(case, t)) if t else function))
        return function
    return add


# ---- elementwise

EXACT_UNARY = {"abs": ["s8", "s16", "s32", "s64", "s4"] + FLOATS + COMPLEX + F8, "negate": NARROW + REAL + COMPLEX + F8,
               "sign": ["s8", "s16", "s32", "s64", "s4"] + FLOATS + COMPLEX + F8, "ceil": FLOATS + F8, "floor": FLOATS + F8,
               "round-nearest-afz": FLOATS + F8, "round-nearest-even": FLOATS + F8, "not": ["pred"] + NARROW + INTEGERS,
               "popcnt": NARROW + INTEGERS, "count-leading-zeros": NARROW + INTEGERS, "is-finite": FLOATS + F8,
               "real": FLOATS + COMPLEX, "imag": FLOATS + COMPLEX, "copy": EVERY}
ROUNDED_UNARY = ["cbrt", "cosine", "erf", "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "rsqrt",
                 "sine", "sqrt", "tan", "tanh", "acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh"]
REAL_ONLY = ["cbrt", "erf", "acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh"]


def unary(op):
    def make(case, t):
        out = t
        if op in ("abs", "real", "imag") and is_complex(t):
            out = "f32" if t == "c64" else "f64"
        if op == "is-finite":
            out = "pred"
        dims = [case.between(1, 70)]
        p = case.parameter(t, dims, "edges" if not is_complex(t) or op in EXACT_UNARY else "small")
        if op in ROUNDED_UNARY or (op in ("abs", "sign") and is_complex(t)):
            case.ulps, case.floor = (64 if is_complex(t) else 8), 1e-37
        case.root(out, dims, f"{op}({p})")
    return make


for op, types in EXACT_UNARY.items():
    group(op, types)(unary(op))
for op in ROUNDED_UNARY:
    group(op, FLOATS + F8[:3] + ([] if op in REAL_ONLY else COMPLEX))(unary(op))

BINARY = {"add": EVERY, "multiply": EVERY, "maximum": ["pred"] + NARROW + REAL + F8, "minimum": ["pred"] + NARROW + REAL + F8,
          "subtract": NARROW + REAL + COMPLEX + F8 + TINY, "divide": NARROW + REAL + COMPLEX + F8,
          "remainder": NARROW + REAL + F8[:3], "power": NARROW + REAL + COMPLEX, "atan2": FLOATS + F8[:2] + COMPLEX,
          "and": ["pred"] + NARROW + INTEGERS, "or": ["pred"] + NARROW + INTEGERS, "xor": ["pred"] + NARROW + INTEGERS,
          "shift-left": NARROW + INTEGERS, "shift-right-logical": NARROW + INTEGERS,
          "shift-right-arithmetic": NARROW + INTEGERS, "complex": ["f32", "f64"]}


def binary(op):
    def make(case, t):
        dims = [case.between(1, 90)]
        mode = "small" if op.startswith("shift") and case.chance(50) or (is_complex(t) and op != "add") else "edges"
        first = case.parameter(t, dims, "edges" if op.startswith("shift") else mode)
        second = case.parameter(t, dims, "small" if op == "power" and is_integer(t) else mode)
        if op in ("power", "atan2") and not is_integer(t):
            case.ulps, case.floor = 64 if is_complex(t) else 8, 1e-37
        if is_complex(t) and op in ("divide", "multiply"):
            case.ulps, case.floor = 16, 1e-6
        out = {"f32": "c64", "f64": "c128"}[t] if op == "complex" else t
        case.root(out, dims, f"{op}({first}, {second})")
    return make


for op, types in BINARY.items():
    group(op, types)(binary(op))


@group("compare", EVERY)
def compare(case, t):
    dims = [case.between(1, 90)]
    direction = case.choose(["EQ", "NE"] if is_complex(t) else ["EQ", "NE", "GE", "GT", "LE", "LT"])
    total = ", type=TOTALORDER" if is_float(t) and case.chance(50) else ""
    a, b = case.parameter(t, dims, "edges"), case.parameter(t, dims, "edges")
    case.root("pred", dims, f"compare({a}, {b}), direction={direction}{total}")


@group("select", EVERY)
def select(case, t):
    dims = [case.between(1, 40)]
    p = case.parameter("pred", dims if case.chance(70) else [])
    a, b = case.parameter(t, dims, "edges"), case.parameter(t, dims, "edges")
    case.root(t, dims, f"select({p}, {a}, {b})")


@group("clamp", NARROW + REAL + F8)
def clamp(case, t):
    dims = [case.between(1, 60)]
    scalar = case.chance(50)
    low = case.parameter(t, [] if scalar else dims, "edges")
    a = case.parameter(t, dims, "edges")
    high = case.parameter(t, [] if scalar else dims, "edges")
    case.root(t, dims, f"clamp({low}, {a}, {high})")


@group("convert", EVERY)
def convert(case, t):
    dims = [case.between(1, 100)]
    p = case.parameter(t, dims, "edges")
    targets = [u for u in EVERY if is_complex(u) or not is_complex(t)]
    results = [f"c_{u}" for u in targets]
    for u in targets:
        case.line(f"c_{u} = {shape(u, dims)} convert({p})")
    case.root("(" + ", ".join(shape(u, dims) for u in targets) + ")", None, f"tuple({', '.join(results)})")


@group("reduce-precision", FLOATS)
def reduce_precision(case, t):
    dims = [case.between(1, 80)]
    p = case.parameter(t, dims, "edges")
    case.root(t, dims, f"reduce-precision({p}), exponent_bits={case.between(1, 8)}, mantissa_bits={case.between(0, 10)}")


@group("stochastic-convert", ["f32", "f64", "bf16", "f16"])
def stochastic_convert(case, t):
    dims = [case.between(1, 80)]
    p = case.parameter(t, dims, "edges")
    bits = case.parameter({"f32": "u32", "f64": "u64"}.get(t, "u16"), dims, "edges")
    case.root(case.choose(["s8", "s16", "s32", "bf16", "f16", "f8e5m2"]), dims, f"stochastic-convert({p}, {bits})")


@group("bitcast-convert", EVERY[1:])
def bitcast_convert(case, t):
    bits = DTYPES[t].itemsize * 8 if t not in NARROW + TINY[:1] else {"4": 4, "2": 2, "f": 4}[t[1] if t[0] != "f" else "f"]
    same = {2: "u2", 4: "u4", 8: "u8", 16: "u16", 32: "u32", 64: "s64", 128: "c128"}[bits]
    dims = [case.between(1, 40)]
    if case.chance(50) and bits in (16, 32, 64) and not is_complex(t):
        ratio = case.choose([2, bits // 8])
        part = {8: "u8", 16: "s16", 32: "f32"}[bits // ratio]
        p = case.parameter(part, dims + [ratio], "edges")
        return case.root(t, dims, f"bitcast-convert({p})")
    if is_complex(t):
        same = t
    case.root(same, dims, f"bitcast-convert({case.parameter(t, dims, 'edges')})")


# ---- movement

MOVED = ["pred", "s4", "u2", "s8", "u16", "s32", "f8e4m3fn", "f4e2m1fn", "bf16", "f32", "f64", "c64", "c128"]


@group("iota", ["s8", "u8", "s16", "s32", "u64", "f16", "bf16", "f32", "f64", "c64", "s4", "u4", "f8e5m2", "f8e4m3fn"])
def iota(case, t):
    dims = case.dims(1, 4, 7) if t in NARROW else case.dims(1, 4, 20)
    case.root(t, dims, f"iota(), iota_dimension={case.between(0, len(dims) - 1)}")


@group("broadcast", MOVED)
def broadcast(case, t):
    out = case.dims(1, 4)
    kept = sorted(case.rng.permutation(len(out))[:case.between(0, len(out))].tolist())
    p = case.parameter(t, [out[d] for d in kept], "edges")
    case.root(t, out, f"broadcast({p}), dimensions={braces(kept)}")


@group("transpose", MOVED)
def transpose(case, t):
    dims = case.dims(1, 5)
    order = case.rng.permutation(len(dims)).tolist()
    case.root(t, [dims[d] for d in order], f"transpose({case.parameter(t, dims, 'edges')}), dimensions={braces(order)}")


@group("reverse", MOVED)
def reverse(case, t):
    dims = case.dims(1, 4)
    which = sorted(case.rng.permutation(len(dims))[:case.between(0, len(dims))].tolist())
    case.root(t, dims, f"reverse({case.parameter(t, dims, 'edges')}), dimensions={braces(which)}")


@group("slice", MOVED)
def slice_(case, t):
    dims = case.dims(1, 4, 9)
    parts, out = [], []
    for d in dims:
        start = case.between(0, d)
        limit, stride = case.between(start, d), case.between(1, 3)
        parts.append(f"[{start}:{limit}:{stride}]")
        out.append((limit - start + stride - 1) // stride)
    case.root(t, out, f"slice({case.parameter(t, dims, 'edges')}), slice={{{','.join(parts)}}}")


@group("pad", MOVED)
def pad(case, t):
    dims = case.dims(1, 3)
    parts, out = [], []
    for d in dims:
        low, high, inner = case.between(-2, 3), case.between(-2, 3), case.between(0, 2)
        size = d + (d - 1) * inner + low + high
        if size < 0:
            low = high = 0
            size = d + (d - 1) * inner
        parts.append(f"{low}_{high}_{inner}")
        out.append(size)
    p, v = case.parameter(t, dims, "edges"), case.parameter(t, [], "edges")
    case.root(t, out, f"pad({p}, {v}), padding={'x'.join(parts)}")


@group("concatenate", MOVED)
def concatenate(case, t):
    dims = case.dims(1, 3)
    d, total, parts = case.between(0, len(dims) - 1), 0, []
    for _ in range(case.between(1, 4)):
        size = case.between(0, 5)
        parts.append(case.parameter(t, dims[:d] + [size] + dims[d + 1:], "edges"))
        total += size
    case.root(t, dims[:d] + [total] + dims[d + 1:], f"concatenate({', '.join(parts)}), dimensions={{{d}}}")


@group("reshape", MOVED)
def reshape(case, t):
    dims = case.dims(0, 4)
    case.root(t, case.choose([[int(np.prod(dims))], dims[::-1], [1] + dims]), f"reshape({case.parameter(t, dims, 'edges')})")


def starts(case, dims):
    t = case.choose(["s8", "s16", "s32", "s64", "u8", "u32"])
    return [case.parameter(t, [], "edges" if case.chance(20) else "small") for _ in dims]


@group("dynamic-slice", MOVED)
def dynamic_slice(case, t):
    dims = case.dims(1, 3, 8)
    sizes = [case.between(0, d) for d in dims]
    p = case.parameter(t, dims, "edges")
    case.root(t, sizes, f"dynamic-slice({', '.join([p] + starts(case, dims))}), dynamic_slice_sizes={braces(sizes)}")


@group("dynamic-update-slice", MOVED)
def dynamic_update_slice(case, t):
    dims = case.dims(1, 3, 8)
    p = case.parameter(t, dims, "edges")
    u = case.parameter(t, [case.between(0, d) for d in dims], "edges")
    case.root(t, dims, f"dynamic-update-slice({', '.join([p, u] + starts(case, dims))})")


# ---- reductions and order

def combiner(case, t):
    if t == "pred":
        return case.choose(["and", "or", "xor"])
    if is_complex(t):
        return case.choose(["add", "multiply"])
    return case.choose(["add", "multiply", "maximum", "minimum"] + (["and", "or", "xor"] if is_integer(t) else []))


def identity(t, op):
    if op in ("maximum", "minimum"):
        bits, signed = (width(t), t[0] == "s") if is_integer(t) else (0, True)
        if not bits:
            return np.inf if op == "minimum" else -np.inf
        ends = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        return np.array(ends[op == "minimum"], dtype=np.uint64 if ends[1] >= 2**63 else np.int64)
    if op == "and":
        return True if t == "pred" else np.array(-1).astype(DTYPES[t]) if t[0] == "s" else np.array(
            (1 << width(t)) - 1, dtype=np.uint64).astype(DTYPES[t])
    return 1 if op == "multiply" else 0


def loosen(case, t, op, count):
    if (is_float(t) or is_complex(t)) and op in ("add", "multiply"):
        case.ulps, case.floor = 4 * max(count, 2), 60 * EPSILON[t]


@group("reduce", ["pred", "s4"] + REAL + COMPLEX + F8[:2])
def reduce(case, t):
    dims = case.dims(1, 4, 8)
    op = combiner(case, t)
    gone = sorted(case.rng.permutation(len(dims))[:case.between(0, len(dims))].tolist())
    case.before = scalar_computation("c", t, f"{t}[] {op}(x, y)")
    loosen(case, t, op, int(np.prod([dims[d] for d in gone])))
    mode = "edges" if op in ("maximum", "minimum") or is_integer(t) else "small"
    # XLA leaves the initial value out where it reduces nothing, which only shows when it is not an identity.
    p, v = case.parameter(t, dims, mode), case.parameter(t, [], values=identity(t, op))
    case.root(t, [d for i, d in enumerate(dims) if i not in gone], f"reduce({p}, {v}), dimensions={braces(gone)}, to_apply=c")


@group("reduce.arg", ["f32", "bf16", "s32", "u8", "f64"])
def reduce_arg(case, t):
    dims = [d + 1 for d in case.dims(1, 3, 9)]
    gone = case.between(0, len(dims) - 1)
    case.before = (f"c {{\n  x = {t}[] parameter(0)\n  i = s32[] parameter(1)\n  y = {t}[] parameter(2)\n  j = s32[] parameter(3)\n"
                   f"  g = pred[] compare(x, y), direction={case.choose(['GT', 'GE', 'LT', 'LE'])}\n"
                   f"  e = pred[] compare(x, y), direction=EQ\n  l = pred[] compare(i, j), direction=LT\n"
                   "  k = pred[] and(e, l)\n  o = pred[] or(g, k)\n"
                   f"  a = {t}[] select(o, x, y)\n  b = s32[] select(o, i, j)\n  ROOT z = ({t}[], s32[]) tuple(a, b)\n}}\n\n")
    p, v = case.parameter(t, dims, "small"), case.parameter(t, [], "small")
    case.line(f"i = {shape('s32', dims)} iota(), iota_dimension={gone}")
    case.line("zero = s32[] constant(0)")
    out = dims[:gone] + dims[gone + 1:]
    case.root(f"({shape(t, out)}, {shape('s32', out)})", None, f"reduce({p}, i, {v}, zero), dimensions={{{gone}}}, to_apply=c")


def window(case, dims, dilate=True):
    sizes, parts, out = [], {"size": [], "stride": [], "pad": [], "lhs_dilate": [], "rhs_dilate": []}, []
    for d in dims:
        size, stride = case.between(1, min(d, 4)), case.between(1, 3)
        low, high = case.between(0, 2), case.between(0, 2)
        base, inner = (case.between(1, 2), case.between(1, 2)) if dilate and case.chance(40) else (1, 1)
        padded, reach = (d - 1) * base + 1 + low + high, (size - 1) * inner + 1
        out.append(0 if reach > padded else (padded - reach) // stride + 1)
        for key, value in zip(parts, [size, stride, f"{low}_{high}", base, inner]):
            parts[key].append(str(value))
        sizes.append(size)
    return "window={" + " ".join(f"{k}={'x'.join(v)}" for k, v in parts.items()) + "}", out, sizes


@group("reduce-window", ["s32", "u8", "f32", "bf16", "f64", "f16", "c64", "pred", "s8"])
def reduce_window(case, t):
    dims = case.dims(1, 3, 8)
    op = combiner(case, t)
    text, out, sizes = window(case, dims)
    case.before = scalar_computation("c", t, f"{t}[] {op}(x, y)")
    loosen(case, t, op, int(np.prod(sizes)))
    p, v = case.parameter(t, dims), case.parameter(t, [])
    case.root(t, out, f"reduce-window({p}, {v}), {text}, to_apply=c")


@group("select-and-scatter", ["s32", "f32", "f64", "bf16"])
def select_and_scatter(case, t):
    dims = case.dims(1, 3, 7)
    text, out, _ = window(case, dims, dilate=False)
    case.before = (scalar_computation("s", t, f"pred[] compare(x, y), direction={case.choose(['GE', 'LE', 'GT'])}") +
                   scalar_computation("c", t, f"{t}[] add(x, y)"))
    loosen(case, t, "add", 8)
    p, s, v = case.parameter(t, dims), case.parameter(t, out), case.parameter(t, [])
    case.root(t, dims, f"select-and-scatter({p}, {s}, {v}), {text}, select=s, scatter=c")


@group("sort", REAL + ["s4", "f8e4m3fn"])
def sort(case, t):
    dims = case.dims(1, 3, 12)
    d = case.between(0, len(dims) - 1)
    total = ", type=TOTALORDER" if is_float(t) else ""
    direction = case.choose(["LT", "GT"])
    pairs = case.chance(50)
    extra = "  i = s32[] parameter(2)\n  j = s32[] parameter(3)\n" if pairs else ""
    case.before = (f"c {{\n  x = {t}[] parameter(0)\n  y = {t}[] parameter(1)\n{extra}"
                   f"  ROOT z = pred[] compare(x, y), direction={direction}{total}\n}}\n\n")
    p = case.parameter(t, dims, "small" if is_float(t) and not total else "edges")
    tail = f"dimensions={{{d}}}, is_stable=true, to_apply=c"
    if not pairs:
        return case.root(t, dims, f"sort({p}), {tail}")
    case.line(f"i = {shape('s32', dims)} iota(), iota_dimension={d}")
    case.root(f"({shape(t, dims)}, {shape('s32', dims)})", None, f"sort({p}, i), {tail}")


@group("topk", ["f32", "bf16", "s32", "f64"])
def topk(case, t):
    dims = case.dims(0, 1, 4) + [case.between(3, 40)]
    k = case.between(1, dims[-1])
    out = dims[:-1] + [k]
    values = case.rng.permutation(int(np.prod(dims))) - 7
    p = case.parameter(t, dims, values=values if t != "bf16" else values % 200)
    if t == "bf16":
        case.ulps = 0
    case.root(f"({shape(t, out)}, {shape('s32', out)})", None, f"topk({p}), k={k}, largest=true")


@group("map", ["s32", "f32", "u8"])
def map_(case, t):
    dims = case.dims(1, 3)
    case.before = scalar_computation("c", t, f"{t}[] subtract(x, y)")
    a, b = case.parameter(t, dims), case.parameter(t, dims)
    case.root(t, dims, f"map({a}, {b}), dimensions={braces(range(len(dims)))}, to_apply=c")


# ---- products

@group("dot", ["s8", "u8", "s16", "s32", "s64", "u32", "pred"] + FLOATS + COMPLEX + F8)
def dot(case, t):
    batch, contract = case.dims(0, 2, 3), case.dims(0, 2, 6)
    left, right = case.dims(0, 2, 4), case.dims(0, 2, 4)

    def side(free):
        sizes = batch + contract + free
        order = case.rng.permutation(len(sizes)).tolist()
        place = [order.index(i) for i in range(len(sizes))]
        nb, nc = len(batch), len(contract)
        return [sizes[i] for i in order], place[:nb], place[nb:nb + nc]

    (ldims, lb, lc), (rdims, rb, rc) = side(left), side(right)
    left = [d for i, d in enumerate(ldims) if i not in lb + lc]
    right = [d for i, d in enumerate(rdims) if i not in rb + rc]
    wider = {"s8": ["s8", "s32"], "u8": ["u8", "u32"], "bf16": ["bf16", "f32"], "f16": ["f16", "f32"], "f32": ["f32"],
             "s16": ["s16", "s32"]}
    out = case.choose(wider.get(t, ["f32", t] if t in F8 else [t]))
    loosen(case, "f16" if out in F8 else out, "add", int(np.prod(contract)))
    if out in F8:
        case.ulps = 2
        case.floor = 0.1
    elif is_float(out) and out != t or is_float(t):
        case.floor = 40 * EPSILON[out] * max(1, int(np.prod(contract)))
    a, b = case.parameter(t, ldims), case.parameter(t, rdims)
    case.root(out, batch + left + right, f"dot({a}, {b}), lhs_batch_dims={braces(lb)}, lhs_contracting_dims={braces(lc)}, "
              f"rhs_batch_dims={braces(rb)}, rhs_contracting_dims={braces(rc)}")


@group("convolution", ["f32", "bf16", "f64", "f16", "s8", "s32", "c64", "u8"])
def convolution(case, t):
    rank = case.between(0, 3)
    spatial, kernel = case.dims(rank, rank, 7), []
    groups, batch_groups = case.choose([(1, 1), (1, 1), (2, 1), (1, 2), (3, 1)])
    features, outputs = groups * case.between(1, 3), groups * batch_groups * case.between(1, 2)
    batch = batch_groups * case.between(1, 2)
    parts = {k: [] for k in ["size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal"]}
    out = []
    for d in spatial:
        size, stride = case.between(1, 3), case.between(1, 2)
        low, high, base, inner = case.between(-1, 2), case.between(-1, 2), case.between(1, 2), case.between(1, 2)
        padded, reach = (d - 1) * base + 1 + low + high, (size - 1) * inner + 1
        if padded < reach:
            low, high, base, inner, size = 0, 0, 1, 1, 1
            padded, reach = d, 1
        out.append((padded - reach) // stride + 1)
        kernel.append(size)
        for k, v in zip(parts, [size, stride, f"{low}_{high}", base, inner, case.between(0, 1)]):
            parts[k].append(str(v))

    def arrange(head, tail, letters, sizes):
        order = case.rng.permutation(rank + 2).tolist()
        names = [head, tail] + [str(i) for i in range(rank)]
        return "".join(names[i] for i in order), [(letters + sizes)[i] for i in order]

    llabel, ldims = arrange("b", "f", [batch, features], spatial)
    rlabel, rdims = arrange("i", "o", [features // groups, outputs], kernel)
    olabel, odims = arrange("b", "f", [batch // batch_groups, outputs], out)
    result = case.choose({"s8": ["s32"], "u8": ["u32"], "bf16": ["bf16", "f32"]}.get(t, [t]))
    count = int(np.prod(kernel)) * features
    loosen(case, result, "add", count)
    if is_float(result) or is_complex(result):
        case.floor = 60 * EPSILON[result] * count
    a, b = case.parameter(t, ldims), case.parameter(t, rdims)
    text = "window={" + " ".join(f"{k}={'x'.join(v)}" for k, v in parts.items()) + "}, " if rank else ""
    case.root(result, odims, f"convolution({a}, {b}), {text}dim_labels={llabel}_{rlabel}->{olabel}, "
              f"feature_group_count={groups}, batch_group_count={batch_groups}")


# ---- indexed

@group("gather", ["f32", "s8", "c64", "bf16", "s4", "pred", "u16"])
def gather(case, t):
    dims = case.dims(1, 3, 6)
    rank = len(dims)
    batching = 1 if rank > 1 and case.chance(30) else 0
    mapped = [d for d in case.rng.permutation(rank).tolist() if d >= batching][:case.between(1, rank - batching)]
    sizes = [1 if d < batching else case.between(1, dims[d]) for d in range(rank)]
    collapsed = sorted(d for d in range(batching, rank) if sizes[d] == 1 and case.chance(60))
    lead = ([dims[0]] if batching else []) + case.dims(0, 2, 4)
    vector = case.between(0, len(lead))
    while batching and vector == 0:
        vector = case.between(0, len(lead))
    index_dims = lead[:vector] + [len(mapped)] + lead[vector:]
    inner = [sizes[d] for d in range(batching, rank) if d not in collapsed]
    out_rank = len(lead) + len(inner)
    offsets = sorted(case.rng.permutation(out_rank)[:len(inner)].tolist())
    out, batches, inners = [], iter(lead), iter(inner)
    for i in range(out_rank):
        out.append(next(inners) if i in offsets else next(batches))
    p = case.parameter(t, dims, "edges")
    it = case.choose(["s32", "s64", "s8", "u32"])
    i = case.parameter(it, index_dims, "small" if case.chance(80) else "edges")
    extra = ", operand_batching_dims={0}, start_indices_batching_dims={0}" if batching else ""
    case.root(t, out, f"gather({p}, {i}), offset_dims={braces(offsets)}, collapsed_slice_dims={braces(collapsed)}, "
              f"start_index_map={braces(mapped)}{extra}, index_vector_dim={vector}, slice_sizes={braces(sizes)}")


@group("scatter", ["f32", "s8", "c64", "bf16", "s4", "pred", "u16", "s32"])
def scatter(case, t):
    dims = case.dims(1, 3, 6)
    rank = len(dims)
    batching = 1 if rank > 1 and case.chance(30) else 0
    mapped = [d for d in case.rng.permutation(rank).tolist() if d >= batching][:case.between(1, rank - batching)]
    sizes = [1 if d < batching else case.between(1, dims[d]) for d in range(rank)]
    inserted = sorted(d for d in range(batching, rank) if sizes[d] == 1 and case.chance(60))
    lead = ([dims[0]] if batching else []) + case.dims(0, 2, 4)
    vector = len(lead)
    inner = [sizes[d] for d in range(batching, rank) if d not in inserted]
    out_rank = len(lead) + len(inner)
    offsets = sorted(case.rng.permutation(out_rank)[:len(inner)].tolist())
    updates, batches, inners = [], iter(lead), iter(inner)
    for i in range(out_rank):
        updates.append(next(inners) if i in offsets else next(batches))
    op = combiner(case, t)
    if case.chance(25):
        op, body = "set", f"{t}[] copy(y)"
    else:
        body = f"{t}[] {op}(x, y)"
    loosen(case, t, op, 8)
    case.before = scalar_computation("c", t, body)
    p = case.parameter(t, dims)
    i = case.parameter(case.choose(["s32", "s64", "s8", "u32"]), lead + [len(mapped)], "small" if case.chance(80) else "edges")
    u = case.parameter(t, updates)
    extra = ", input_batching_dims={0}, scatter_indices_batching_dims={0}" if batching else ""
    case.root(t, dims, f"scatter({p}, {i}, {u}), update_window_dims={braces(offsets)}, inserted_window_dims={braces(inserted)}, "
              f"scatter_dims_to_operand_dims={braces(mapped)}{extra}, index_vector_dim={vector}, to_apply=c")


# ---- numeric

@group("fft", ["c64", "c128"])
def fft(case, t):
    kind = case.choose(["FFT", "IFFT", "RFFT", "IRFFT"])
    rank = case.between(1, 3)
    lengths = case.dims(rank, rank, 17)
    lead = case.dims(0, 2, 3)
    half = lengths[:-1] + [lengths[-1] // 2 + 1]
    real = "f32" if t == "c64" else "f64"
    source, target = {"RFFT": ((real, lengths), (t, half)), "IRFFT": ((t, half), (real, lengths))}.get(kind, ((t, lengths),) * 2)
    case.ulps, case.floor = 64, EPSILON[t] * 400 * int(np.prod(lengths))
    p = case.parameter(source[0], lead + source[1])
    case.root(target[0], lead + target[1], f"fft({p}), fft_type={kind}, fft_length={braces(lengths)}")


@group("batch-norm", ["f32", "f64"])
def batch_norm(case, t):
    dims = case.dims(2, 4, 5)
    f = case.between(0, len(dims) - 1)
    vector = [dims[f]]
    tail = f"epsilon=0.125, feature_index={f}"
    case.ulps, case.floor = 256, EPSILON[t] * 2000
    p, kind = case.parameter(t, dims), case.between(0, 2)
    positive = np.abs(case.values(t, vector, "small")) + 1
    scale = case.parameter(t, vector)
    if kind == 0:
        offset = case.parameter(t, vector)
        return case.root(f"({shape(t, dims)}, {shape(t, vector)}, {shape(t, vector)})", None,
                         f"batch-norm-training({p}, {scale}, {offset}), {tail}")
    if kind == 1:
        rest = [case.parameter(t, vector), case.parameter(t, vector), case.parameter(t, vector, values=positive)]
        return case.root(t, dims, f"batch-norm-inference({', '.join([p, scale] + rest)}), {tail}")
    rest = [case.parameter(t, vector), case.parameter(t, vector, values=positive), case.parameter(t, dims)]
    case.root(f"({shape(t, dims)}, {shape(t, vector)}, {shape(t, vector)})", None,
              f"batch-norm-grad({', '.join([p, scale] + rest)}), {tail}")


@group("rng-bit-generator", ["u8", "u16", "u32", "u64"])
def rng_bits(case, t):
    dims, algorithm = case.dims(0, 3, 7), case.choose(["rng_three_fry", "rng_philox", "rng_default"])
    words = 2 if algorithm == "rng_three_fry" else case.choose([2, 3])
    p = case.parameter("u64", [words], "edges")
    case.root(f"(u64[{words}], {shape(t, dims)})", None, f"rng-bit-generator({p}), algorithm={algorithm}")


# ---- dynamic sizes and control

@group("dynamic", ["f32", "s32"])
def dynamic(case, t):
    size = case.between(2, 9)
    p = case.parameter(t, [size], "small")
    n = case.parameter("s32", [], values=case.between(0, size))
    case.before = scalar_computation("c", t, f"{t}[] add(x, y)")
    loosen(case, t, "add", 9)
    case.line(f"d = {t}[<={size}] set-dimension-size({p}, {n}), dimensions={{0}}")
    case.line(f"m = {t}[<={size}] {case.choose(['add', 'multiply'])}(d, d)")
    case.line(f"z = {t}[] constant(0)")
    case.line(f"s = {t}[] reduce(m, z), dimensions={{0}}, to_apply=c")
    case.line("g = s32[] get-dimension-size(m), dimensions={0}")
    case.root(f"({t}[], s32[])", None, "tuple(s, g)")


@group("while", ["s32", "f32"])
def while_(case, t):
    dims = case.dims(0, 2, 4)
    tuple_shape = f"(s32[], {shape(t, dims)})"
    case.before = (f"cond {{\n  a = {tuple_shape} parameter(0)\n  i = s32[] get-tuple-element(a), index=0\n"
                   f"  n = s32[] constant({case.between(0, 6)})\n  ROOT l = pred[] compare(i, n), direction=LT\n}}\n\n"
                   f"body {{\n  a = {tuple_shape} parameter(0)\n  i = s32[] get-tuple-element(a), index=0\n"
                   f"  x = {shape(t, dims)} get-tuple-element(a), index=1\n  o = s32[] constant(1)\n  j = s32[] add(i, o)\n"
                   f"  y = {shape(t, dims)} {case.choose(['add', 'maximum'])}(x, x)\n"
                   f"  ROOT t = {tuple_shape} tuple(j, y)\n}}\n\n")
    p = case.parameter(t, dims)
    case.line("zero = s32[] constant(0)")
    case.line(f"init = {tuple_shape} tuple(zero, {p})")
    case.root(tuple_shape, None, "while(init), condition=cond, body=body")


@group("conditional", ["s32", "f32"])
def conditional(case, t):
    dims, count = case.dims(0, 2, 4), case.between(1, 4)
    one = shape(t, dims)
    for i in range(count):
        case.before += f"b{i} {{\n  x = {one} parameter(0)\n  ROOT y = {one} {['negate(x)', 'add(x, x)', 'copy(x)', 'abs(x)'][i]}\n}}\n\n"
    p = case.parameter(t, dims)
    i = case.parameter("s32", [], values=case.between(-2, count + 1))
    case.root(t, dims, f"conditional({', '.join([i] + [p] * count)}), branch_computations={{{', '.join(f'b{k}' for k in range(count))}}}")


# ---- running

class Xla:
    """XLA:CPU in a child: asked with (text, arrays), answers with a list of arrays or a message."""

    CODE = """
import os, pickle, struct, sys
import jax, numpy as np
from jaxlib import _hlo, _jax
jax.config.update("jax_enable_x64", True)
client = jax.devices("cpu")[0].client
out = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
while True:
    head = sys.stdin.buffer.read(8)
    if len(head) < 8:
        break
    text, arrays = pickle.loads(sys.stdin.buffer.read(struct.unpack("<q", head)[0]))
    try:
        proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
        program = client.compile_and_load(_jax.mlir.hlo_to_stablehlo(proto), _jax.DeviceList(tuple(jax.devices()[:1])),
                                          _jax.CompileOptions())
        results = program.execute_sharded([jax.device_put(a) for a in arrays])
        answer = [np.asarray(r[0]) for r in results.disassemble_into_single_device_arrays()]
    except Exception as error:
        answer = str(error)
    data = pickle.dumps(answer)
    out.write(struct.pack("<q", len(data)) + data)
    out.flush()
"""

    def __init__(self):
        self.child = None

    def ask(self, text, arrays):
        if self.child is None:
            self.child = subprocess.Popen([sys.executable, "-c", self.CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=subprocess.DEVNULL)
        data = pickle.dumps((text, arrays))
        try:
            self.child.stdin.write(struct.pack("<q", len(data)) + data)
            self.child.stdin.flush()
            head = self.child.stdout.read(8)
            if len(head) == 8:
                return pickle.loads(self.child.stdout.read(struct.unpack("<q", head)[0]))
        except BrokenPipeError:
            pass
        self.child.wait()
        self.child = None
        return "XLA aborts"


def stored(t, array):
    """The array as the command's .npy files hold it."""
    if DTYPES[t].isbuiltin == 1:
        return array
    return array.view(f"V{DTYPES[t].itemsize}")


def ours(meshlo, engine, case, folder):
    """What `meshlo run` gives: a list of arrays as stored, or its message."""
    command = [meshlo, "run", str(folder / "m.hlo"), "--engine", engine, "--output", str(folder / engine)]
    for i in range(len(case.arrays)):
        command += ["--input", f"{i}={folder}/{i}.npy"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return f"exit {done.returncode}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ''}"
    count = len(list((folder / engine).glob("*.npy")))
    results = [np.load(folder / engine / f"{i}.npy") for i in range(count)]
    for i in range(count):
        (folder / engine / f"{i}.npy").unlink()
    return results


def type_of(array):
    for t, dtype in DTYPES.items():
        if dtype == array.dtype:
            return t
    return None


def difference(case, expected, got):
    """A message, or None when the arrays agree."""
    t = type_of(expected)
    if got.dtype.kind == "V":
        got = got.view(expected.dtype)
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"{expected.dtype}{list(expected.shape)} expected, {got.dtype}{list(got.shape)} found"
    if t is None or is_integer(t) or t == "pred":
        bad = np.asarray(expected != got)
    else:
        wide = np.complex128 if is_complex(t) else np.float64
        a, b = expected.astype(wide).reshape(-1), got.astype(wide).reshape(-1)
        if is_complex(t):
            a, b = a.view(np.float64), b.view(np.float64)
        tiny = {"f32": 1.2e-38, "c64": 1.2e-38, "bf16": 1.2e-38, "f64": 2.3e-308, "c128": 2.3e-308}.get(t, 0)
        with np.errstate(all="ignore"):
            size = np.maximum(np.abs(a), np.abs(b))
            if is_complex(t):
                size = np.repeat(np.max(size.reshape(-1, 2), axis=1), 2)
            near = np.abs(a - b) <= case.ulps * EPSILON[t] * size + case.floor + tiny
        same = (a == b) & (np.signbit(a) == np.signbit(b)) if case.ulps == 0 and case.floor == 0 else a == b
        flushed = (np.abs(a) <= tiny) & (np.abs(b) <= tiny) if tiny else np.zeros_like(same)
        bad = ~(same | near | flushed | (np.isnan(a) & np.isnan(b)))
        if case.ulps == 0 and case.floor == 0:
            bad |= (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
        expected, got = a, b
    if not bad.any():
        return None
    at = int(np.argmax(bad.reshape(-1)))
    return f"{int(bad.sum())} of {bad.size} differ, [{at}]: XLA {expected.reshape(-1)[at]!r}, ours {got.reshape(-1)[at]!r}"


def run(case, xla, options, folder, tally):
    text = case.text()
    (folder / "m.hlo").write_text(text)
    for i, (t, array) in enumerate(case.arrays):
        np.save(folder / f"{i}.npy", stored(t, np.ascontiguousarray(array).reshape(array.shape)))
    expected = xla.ask(text, [array for _, array in case.arrays])
    failed = False
    for engine in options.engines.split(","):
        got = ours(options.meshlo, engine, case, folder)
        if isinstance(expected, str) and isinstance(got, str):
            tally["both refuse"] += 1
            continue
        if isinstance(expected, str):
            tally["XLA refuses"] += 1
            if options.verbose:
                print(f"{case.name}: XLA refuses: {expected.splitlines()[0][:160]}")
            continue
        if isinstance(got, str):
            message = got
        elif len(got) != len(expected):
            message = f"{len(expected)} results expected, {len(got)} found"
        else:
            messages = [f"result {i}: {m}" for i, (e, g) in enumerate(zip(expected, got))
                        for m in [difference(case, e, g)] if m]
            message = "; ".join(messages[:4])
        if not message:
            tally["agree"] += 1
            continue
        if re.search(KNOWN, case.name):
            tally["known"] += 1
            continue
        tally["differ"] += 1
        failed = True
        print(f"{case.name} ({engine}): {message[:400]}", flush=True)
    return failed


def keep(case, folder, destination):
    target = pathlib.Path(destination) / case.name
    target.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.npy"):
        (target / path.name).write_bytes(path.read_bytes())
    (target / "m.hlo").write_text(case.text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--meshlo", default=str(root / "build/release/bin/meshlo"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="", help="regular expression over case names")
    parser.add_argument("--engines", default="eval,compiled")
    parser.add_argument("--keep", help="folder for the programs and inputs that differ")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="also say what XLA refuses")
    options = parser.parse_args()
    wanted = [(n, f) for n, f in GROUPS if re.search(options.only, n)]
    if options.list:
        print("\n".join(n for n, _ in wanted))
        return 0
    tally, xla = Counter(), Xla()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for number in range(options.rounds):
            for case_name, make in wanted:
                for path in folder.glob("*.npy"):
                    path.unlink()
                seed = [options.seed + number, zlib.crc32(case_name.encode())]
                case = Case(np.random.default_rng(seed), f"{case_name}.{options.seed + number}")
                make(case)
                if run(case, xla, options, folder, tally) and options.keep:
                    keep(case, folder, options.keep)
    print(", ".join(f"{k}: {v}" for k, v in tally.items()))
    return 1 if tally["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
