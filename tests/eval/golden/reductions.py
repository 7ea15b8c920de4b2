# SPDX-License-Identifier: Apache-2.0
"""Reductions and windows."""
from golden.common import COMPLEX, F8, FLOATS, FLOOR, INTEGERS, NARROW, TINY, TOLERANCE, case, each, less, scalar_computation, simple


def reductions():
    sums = {"f32": 2e-6, "bf16": 5e-2, "f16": 1e-2, "f64": 1e-13, "c64": 4e-6, "c128": 1e-13}
    windows = [("size=2x3 stride=1x2 pad=1_0x0_1", "4,4"), ("size=1x8 pad=0_0x7_0", "4,8"), ("size=2x2 pad=-1_0x0_-1", "2,6"),
               ("size=2x2 stride=2x2 pad=0_1x1_1 lhs_dilate=2x1 rhs_dilate=1x2", "4,4")]
    for t in each(["f32", "s32", "bf16", "f16", "f64", "u8", "c64", "pred"], ["s8", "s16", "s64", "u16", "u32", "u64", "c128", "s4", "u4"]):
        ops = {"c64": ["add", "multiply"], "c128": ["add", "multiply"], "pred": ["and", "or", "xor"]}.get(
            t, ["add", "maximum", "minimum", "multiply"] + (["and", "or", "xor"] if t[0] in "su" else []))
        for op in ops:
            computation = scalar_computation("c", t, f"{t}[] {op}(x, y)")
            tolerance = {"rtol": sums.get(t, 0), "atol": sums.get(t, 0) * 10}
            for dims, out in each([("0", "5,6"), ("1", "4,6"), ("2", "4,5"), ("0,2", "5"), ("0,1,2", "")], [("0,1", "6"), ("1,2", "4")]):
                simple(f"reduce.{op}.{t}.{dims}", f"{t}[{out}]", "reduce", [f"{t}[4,5,6]", f"{t}[]"], "ss",
                       f", dimensions={{{dims}}}, to_apply=c", before=computation, **tolerance)
            for i, (window, out) in enumerate(windows if op in ("add", "maximum", "and") else []):
                simple(f"reduce-window.{op}.{t}.{i}", f"{t}[{out}]", "reduce-window", [f"{t}[4,8]", f"{t}[]"], "ss",
                       f", window={{{window}}}, to_apply=c", before=computation, **tolerance)
    for t in ["f32", "s32", "f64"]:
        simple(f"select-and-scatter.{t}", f"{t}[6,8]", "select-and-scatter", [f"{t}[6,8]", f"{t}[3,4]", f"{t}[]"], "sss",
               ", window={size=3x2 stride=2x2 pad=0_1x0_0}, select=s, scatter=c", rtol=1e-6,
               before=scalar_computation("s", t, "pred[] compare(x, y), direction=GE") +
               scalar_computation("c", t, f"{t}[] add(x, y)"))
    for t in each(["f32"], ["f64", "bf16", "s32", "u8", "s64"]):
        arguments_of_maxima(t)


def arguments_of_maxima(t):
    """Reductions and windows of an array and its indices: the larger value, of equal ones the lower index."""
    pair = (f"c {{\n  a = {t}[] parameter(0)\n  i = s32[] parameter(1)\n  b = {t}[] parameter(2)\n  j = s32[] parameter(3)\n"
            "  more = pred[] compare(a, b), direction=GT\n  same = pred[] compare(a, b), direction=EQ\n"
            "  before = pred[] compare(i, j), direction=LT\n  tie = pred[] and(same, before)\n  left = pred[] or(more, tie)\n"
            f"  v = {t}[] select(left, a, b)\n  k = s32[] select(left, i, j)\n  ROOT r = ({t}[], s32[]) tuple(v, k)\n}}\n")
    for dims, out in [("0", "6"), ("1", "5"), ("0,1", "")]:
        simple(f"reduce.argmax.{t}.{dims}", f"({t}[{out}], s32[{out}])", "reduce", [f"{t}[5,6]", "s32[5,6]", f"{t}[]", "s32[]"], "sisi",
               f", dimensions={{{dims}}}, to_apply=c", before=pair)
    simple(f"reduce-window.argmax.{t}", f"({t}[4,5], s32[4,5])", "reduce-window", [f"{t}[5,6]", "s32[5,6]", f"{t}[]", "s32[]"], "sisi",
           ", window={size=2x2}, to_apply=c", before=pair)


def orders():
    for t in ["f32", "s32", "bf16", "u8", "f64", "s64"]:
        order = ", direction=LT" + (", type=TOTALORDER" if t[0] in "fb" else "")
        for dim in [0, 1]:
            simple(f"sort.{t}.{dim}", f"{t}[9,11]", "sort", [f"{t}[9,11]"], "f", f", dimensions={{{dim}}}, to_apply=c",
                   before=scalar_computation("c", t, f"pred[] compare(x, y){order}"))
        two = (f"c {{\n  x = {t}[] parameter(0)\n  y = {t}[] parameter(1)\n  i = s32[] parameter(2)\n  j = s32[] parameter(3)\n"
               "  ROOT z = pred[] compare(x, y), direction=GT\n}\n")
        simple(f"sort.pairs.{t}", f"({t}[9,11], s32[9,11])", "sort", [f"{t}[9,11]", "s32[9,11]"], "sf",
               ", dimensions={1}, is_stable=true, to_apply=c", before=two)
    for t in ["f32", "s32", "bf16"]:
        simple(f"topk.{t}", f"({t}[4,5], s32[4,5])", "topk", [f"{t}[4,30]"], "s", ", k=5, largest=true")
