# SPDX-License-Identifier: Apache-2.0
"""Attributes and corners that few programs use: algorithms of dots, odd comparators, dynamic sizes, complex edges."""
from golden.common import COMPLEX, F8, case, each, scalar_computation, simple

ALGORITHMS = ["dot_f32_f32_f32", "dot_bf16_bf16_f32_x3", "dot_bf16_bf16_f32_x6", "dot_tf32_tf32_f32", "dot_bf16_bf16_f32"]
# name -> what orders x before y, given comparators that know nothing of one another's sign, parity or size
COMPARATORS = {
    "magnitude": "  a = T[] abs(x)\n  b = T[] abs(y)\n  ROOT z = pred[] compare(a, b), direction=LT\n",
    "negated": "  a = T[] negate(x)\n  b = T[] negate(y)\n  ROOT z = pred[] compare(a, b), direction=GT\n",
    "not-less": "  a = pred[] compare(y, x), direction=LE\n  ROOT z = pred[] not(a)\n",
    "never": "  a = pred[] compare(x, x), direction=EQ\n  b = pred[] not(a)\n  c = pred[] compare(y, y), direction=NE\n  ROOT z = pred[] and(b, c)\n",
}


def precision():
    for t in each([], F8):
        for exponent, mantissa in [(2, 1), (3, 2), (4, 3), (5, 2), (8, 7), (5, 1), (1, 0)]:
            simple(f"reduce-precision.{t}.{exponent}.{mantissa}", f"{t}[64]", "reduce-precision", [f"{t}[64]"], "s",
                   f", exponent_bits={exponent}, mantissa_bits={mantissa}")
    dims = ", lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    for algorithm in each(ALGORITHMS[:1], ALGORITHMS[1:]):
        # XLA:CPU computes all of them in f32; so do we unless a TPU's numerics are asked for.
        simple(f"dot.{algorithm}", "f32[5,6]", "dot", ["f32[5,7]", "f32[7,6]"], "ss", f"{dims}, algorithm={algorithm}", 1e-5, 1e-4)
    for level in each([], ["high", "highest"]):
        simple(f"dot.{level}", "f32[5,6]", "dot", ["f32[5,7]", "f32[7,6]"], "ss", f"{dims}, operand_precision={{{level},{level}}}", 1e-5, 1e-4)


def comparators():
    for t in each(["f32", "s32"], ["f64", "bf16", "s8", "s64"]):
        for name, body in COMPARATORS.items():
            head = f"c {{\n  x = {t}[] parameter(0)\n  y = {t}[] parameter(1)\n{body.replace('T[', t + '[')}}}\n"
            simple(f"sort.{name}.{t}", f"{t}[9,30]", "sort", [f"{t}[9,30]"], "s", ", dimensions={1}, is_stable=true, to_apply=c", before=head)
    for t in each(["f32"], ["f16", "bf16", "f64", "s32", "u8"]):
        for largest in ["true", "false"]:
            simple(f"topk.{largest}.{t}", f"({t}[4,5], s32[4,5])", "topk", [f"{t}[4,33]"], "s", f", k=5, largest={largest}")


def dynamic_sizes():
    for t in each(["f32"], ["s32", "f64", "bf16"]):
        zero = scalar_computation("plus", t, f"{t}[] add(x, y)")
        # XLA fills missing elements with the first value, so that only neutral ones give what HLO says.
        head = f"ENTRY e {{\n  p0 = {t}[7,4] parameter(0)\n  p1 = {t}[] constant(0)\n  n = s32[] constant(5)\n" \
               f"  d = {t}[<=7,4] set-dimension-size(p0, n), dimensions={{0}}\n"
        case(f"dynamic.reduce.{t}", f"{zero}{head}  ROOT r = {t}[4] reduce(d, p1), dimensions={{0}}, to_apply=plus\n}}\n", "s", 1e-2, 1e-3)
        case(f"dynamic.size.{t}", f"{head}  q = {t}[<=7,4] add(d, d)\n  ROOT r = s32[] get-dimension-size(q), dimensions={{0}}\n}}\n", "s")
        case(f"dynamic.back.{t}", f"{head}  w = s32[] constant(7)\n  m = {t}[<=7,4] multiply(d, d)\n"
             f"  s = {t}[7,4] set-dimension-size(m, w), dimensions={{0}}\n  ROOT r = {t}[5,4] slice(s), slice={{[0:5], [0:4]}}\n}}\n", "s")


def complex_edges():
    for t in each([], COMPLEX):
        for op in ["add", "subtract", "multiply", "divide", "power", "atan2"]:
            if op != "atan2":
                simple(f"{op}.grid.{t}", f"{t}[121]", op, [f"{t}[121]", f"{t}[121]"], "gs", rtol=1e-5, atol=1e-6)
        for direction in ["EQ", "NE"]:
            simple(f"compare.grid.{direction}.{t}", "pred[121]", "compare", [f"{t}[121]"] * 2, "gg", f", direction={direction}")


def details():
    for group in (precision, comparators, dynamic_sizes, complex_edges):
        group()
