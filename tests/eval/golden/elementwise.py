# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops and conversions."""
from golden.common import COMPLEX, F8, FLOATS, FLOOR, INTEGERS, NARROW, TINY, TOLERANCE, case, each, less, scalar_computation, simple


def elementwise():
    exact = ["abs", "ceil", "floor", "negate", "round-nearest-afz", "round-nearest-even", "sign", "real", "imag"]
    rounded = ["cbrt", "cosine", "erf", "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "rsqrt",
               "sine", "sqrt", "tan", "tanh"]
    real_only = ["ceil", "floor", "round-nearest-afz", "round-nearest-even", "erf", "cbrt"]
    newest = ["acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh"]
    for op in each(exact + rounded, newest):
        for t in FLOATS + COMPLEX:
            if t in COMPLEX and op in real_only:
                continue
            out = {"c64": "f32", "c128": "f64"}[t] if t in COMPLEX and op in ("abs", "real", "imag") else t
            loose = op in rounded or t in COMPLEX
            simple(f"{op}.{t}", f"{out}[64]", op, [f"{t}[64]"], "f", rtol=TOLERANCE[t] * loose, atol=FLOOR[t] * loose)
            # XLA's log-plus-one of c64 loses 1e-30 to underflow; ours does not.
            if t in COMPLEX and op not in ("real", "imag") and (op, t) != ("log-plus-one", "c64"):
                simple(f"{op}.grid.{t}", f"{out}[121]", op, [f"{t}[121]"], "g", rtol=1e-5, atol=1e-6)
        for t in each([], F8):
            if op not in ("real", "imag"):
                simple(f"{op}.{t}", f"{t}[64]", op, [f"{t}[64]"], "s", rtol=0.3 * (op in rounded), atol=2e-2 * (op in rounded))
    for t in each(FLOATS, F8):
        simple(f"is-finite.{t}", "pred[64]", "is-finite", [f"{t}[64]"], "f")
    for op in ["abs", "negate", "not", "sign", "popcnt", "count-leading-zeros"]:
        for t in each(INTEGERS, NARROW):
            # XLA counts the bits of the byte that holds an s4.
            if (t[0] == "s" or op not in ("abs", "sign")) and (op, t) != ("popcnt", "s4"):
                simple(f"{op}.{t}", f"{t}[40]", op, [f"{t}[40]"], "f")
    for op in ["add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder", "power", "atan2"]:
        for t in FLOATS + COMPLEX:
            if t in COMPLEX and op in ("maximum", "minimum", "remainder"):
                continue
            loose = op in ("power", "atan2") or t in COMPLEX
            simple(f"{op}.{t}", f"{t}[96]", op, [f"{t}[96]"] * 2, "ff", rtol=TOLERANCE[t] * loose,
                   atol=max(FLOOR[t] * loose, 1e-37))
    for op in ["add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder", "power", "and", "or", "xor",
               "shift-left", "shift-right-arithmetic", "shift-right-logical"]:
        for t in INTEGERS + NARROW:
            simple(f"{op}.{t}", f"{t}[96]", op, [f"{t}[96]"] * 2, "fs" if op == "power" else "ff")
            if op.startswith("shift"):
                simple(f"{op}.near.{t}", f"{t}[40]", op, [f"{t}[40]"] * 2, "fs")
    for op in each(["add", "multiply", "divide", "maximum"], ["subtract", "minimum", "remainder", "power", "atan2"]):
        for t in F8:
            loose = 0.2 * (op in ("power", "atan2"))
            simple(f"{op}.{t}", f"{t}[96]", op, [f"{t}[96]"] * 2, "ss", rtol=loose, atol=loose / 10)
            for _ in each([], [0]):
                simple(f"{op}.edges.{t}", f"{t}[96]", op, [f"{t}[96]"] * 2, "ff", rtol=loose, atol=loose / 10)
    for op in each([], ["and", "or", "xor", "maximum", "minimum", "add", "multiply", "not"]):
        simple(f"{op}.pred", "pred[40]", op, ["pred[40]"] * (1 if op == "not" else 2), "ff")
    for t in each([], INTEGERS):
        simple(f"mulhi.{t}", f"{t}[96]", "mulhi", [f"{t}[96]"] * 2, "ff")
    for t in each(FLOATS + INTEGERS + NARROW + ["pred"] + COMPLEX + F8[:2], F8[2:]):
        for direction in ["EQ", "NE", "GE", "GT", "LE", "LT"]:
            if t in COMPLEX and direction not in ("EQ", "NE"):
                continue
            simple(f"compare.{direction}.{t}", "pred[96]", "compare", [f"{t}[96]"] * 2, "ff", f", direction={direction}")
            if t in FLOATS + F8:
                # In types without -0 XLA puts NaN, which has its bits, right below 0; here it is above all numbers.
                modes = "ss" if t.endswith("fnuz") else "ff"
                simple(f"compare.total.{direction}.{t}", "pred[96]", "compare", [f"{t}[96]"] * 2, modes,
                       f", direction={direction}, type=TOTALORDER")
        simple(f"select.{t}", f"{t}[40]", "select", ["pred[40]"] + [f"{t}[40]"] * 2, "fff")
        if t not in COMPLEX:
            simple(f"clamp.{t}", f"{t}[96]", "clamp", [f"{t}[96]"] * 3, "fff")
            simple(f"clamp.scalar.{t}", f"{t}[40]", "clamp", [f"{t}[]", f"{t}[40]", f"{t}[]"], "sfs")
    for t in ["f32", "f64"]:
        simple(f"complex.{t}", f"{'c64' if t == 'f32' else 'c128'}[40]", "complex", [f"{t}[40]"] * 2, "ff")


def conversions():
    usual = ["pred"] + NARROW[:2] + INTEGERS + FLOATS + COMPLEX + F8
    types = usual + NARROW[2:] + TINY
    pairs = [(source, target) for source in types for target in types]
    compact = [p for p in pairs if p[0] in usual and p[1] in usual]
    for source, target in each(compact, [p for p in pairs if p not in compact]):
        # Of an f4e2m1fn's 6 XLA:CPU makes the largest integer, though it is finite.
        infinite = source == "f4e2m1fn" and target in INTEGERS + NARROW
        # f4e2m1fn has no NaN: of a negative one the engine makes 0 and XLA -0.
        mode = "s" if (source, target) == ("f8e4m3fn", "f4e2m1fn") else "f"
        if (source not in COMPLEX or target in COMPLEX) and not infinite:
            simple(f"convert.{source}.{target}", f"{target}[64]", "convert", [f"{source}[64]"], mode)
    for t in FLOATS:
        for exponent, mantissa in each([(5, 10), (8, 7), (4, 3), (5, 2), (2, 1)], [(1, 0), (3, 0), (8, 23), (11, 52), (2, 30), (6, 9)]):
            simple(f"reduce-precision.{t}.{exponent}.{mantissa}", f"{t}[64]", "reduce-precision", [f"{t}[64]"], "f",
                   f", exponent_bits={exponent}, mantissa_bits={mantissa}")
    for source, target in [("f32[8]", "u32[8]"), ("f32[8]", "u8[8,4]"), ("u8[8,4]", "f32[8]"), ("f64[3]", "u32[3,2]"),
                           ("s4[4,2]", "u8[4]"), ("u8[4]", "s4[4,2]"), ("bf16[4]", "u16[4]")]:
        simple(f"bitcast-convert.{source}.{target}", target, "bitcast-convert", [source], "s")
    widths = {8: ["s8", "u8", "f8e5m2", "f8e4m3fn"], 16: ["s16", "u16", "f16", "bf16"], 32: ["s32", "u32", "f32"], 64: ["s64", "u64", "f64"]}
    for bits, types in each([], widths.items()):
        for source in types:
            for target in types:
                simple(f"bitcast-convert.{source}.{target}", f"{target}[40]", "bitcast-convert", [f"{source}[40]"], "s")
            for other, narrower in widths.items():
                if other < bits:
                    simple(f"bitcast-convert.{source}.{narrower[0]}", f"{narrower[0]}[7,{bits // other}]", "bitcast-convert",
                           [f"{source}[7]"], "s")
                    simple(f"bitcast-convert.{narrower[0]}.{source}", f"{source}[7]", "bitcast-convert",
                           [f"{narrower[0]}[7,{bits // other}]"], "s")
