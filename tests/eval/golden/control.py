# SPDX-License-Identifier: Apache-2.0
"""Loops, branches, calls, fusions, tuples, collectives of one device, dynamic sizes."""
from golden.common import INTEGERS, case, each, scalar_computation

TYPES = ["f32", "s32", "f64", "bf16", "u8", "s64", "c64"]


def control():
    for t in each(["f32", "s32"], TYPES[2:]):
        zero = "(0, 0)" if t == "c64" else "0"
        add = scalar_computation("plus", t, f"{t}[] add(x, y)")
        case(f"while.{t}", f"""body {{
  s = (s32[], {t}[5]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = {t}[5] get-tuple-element(s), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  d = {t}[5] add(a, a)
  ROOT r = (s32[], {t}[5]) tuple(n, d)
}}
condition {{
  s = (s32[], {t}[5]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  limit = s32[] constant(3)
  ROOT go = pred[] compare(i, limit), direction=LT
}}
ENTRY e {{
  p0 = s32[] parameter(0)
  p1 = {t}[5] parameter(1)
  s = (s32[], {t}[5]) tuple(p0, p1)
  ROOT w = (s32[], {t}[5]) while(s), condition=condition, body=body
}}
""", "is")
        branches = "".join(f"b{k} {{\n  x = {t}[5] parameter(0)\n  ROOT y = {t}[5] {body}\n}}\n" for k, body in enumerate(
            ["add(x, x)", "multiply(x, x)", "subtract(x, x)"]))
        operands = f"  p1 = {t}[5] parameter(1)\n  p2 = {t}[5] parameter(2)\n  p3 = {t}[5] parameter(3)\n"
        case(f"conditional.index.{t}", f"{branches}ENTRY e {{\n  p0 = s32[] parameter(0)\n{operands}  ROOT r = {t}[5] conditional(p0, p1, p2, p3), "
             "branch_computations={b0, b1, b2}\n}\n", "isss", 1e-6)
        case(f"conditional.pred.{t}", f"{branches}ENTRY e {{\n  p0 = pred[] parameter(0)\n{operands}  ROOT r = {t}[5] conditional(p0, p1, p2), "
             "true_computation=b0, false_computation=b1\n}\n", "isss", 1e-6)
        case(f"call.{t}", f"{branches}ENTRY e {{\n  p0 = {t}[5] parameter(0)\n  c = {t}[5] call(p0), to_apply=b1\n  ROOT r = {t}[5] call(c), "
             "to_apply=b0\n}\n", "s", 1e-6)
        case(f"map.{t}", f"{add}ENTRY e {{\n  p0 = {t}[5,2] parameter(0)\n  p1 = {t}[5,2] parameter(1)\n  ROOT r = {t}[5,2] map(p0, p1), "
             "dimensions={0,1}, to_apply=plus\n}\n", "ss")
        case(f"tuple.{t}", f"ENTRY e {{\n  p0 = {t}[5] parameter(0)\n  p1 = pred[3] parameter(1)\n  t = ({t}[5], pred[3]) tuple(p0, p1)\n"
             f"  b = ({t}[5], pred[3]) opt-barrier(t)\n  g = {t}[5] get-tuple-element(b), index=0\n  n = {t}[5] add(g, p0)\n"
             f"  ROOT r = ({t}[5], {t}[5], pred[3]) tuple(p0, n, p1)\n}}\n", "sf")
        case(f"all-reduce.one.{t}", f"{add}ENTRY e {{\n  p0 = {t}[5] parameter(0)\n  ROOT r = {t}[5] all-reduce(p0), replica_groups={{{{0}}}}, "
             "to_apply=plus\n}\n", "s")
        case(f"all-gather.one.{t}", f"ENTRY e {{\n  p0 = {t}[5] parameter(0)\n  ROOT r = {t}[5] all-gather(p0), replica_groups={{{{0}}}}, "
             "dimensions={0}\n}\n", "s")
        case(f"collective-permute.one.{t}", f"ENTRY e {{\n  p0 = {t}[5] parameter(0)\n  ROOT r = {t}[5] collective-permute(p0), "
             "source_target_pairs={{0,0}}\n}\n", "s")
        case(f"collective-permute.none.{t}", f"ENTRY e {{\n  p0 = {t}[5] parameter(0)\n  ROOT r = {t}[5] collective-permute(p0), "
             "source_target_pairs={}\n}\n", "s")
        case(f"constant.{t}", f"ENTRY e {{\n  c = {t}[] constant({zero})\n  b = {t}[3] broadcast(c), dimensions={{}}\n  p0 = {t}[3] parameter(0)\n"
             f"  ROOT r = {t}[3] add(b, p0)\n}}\n", "s")
    for t in each([], INTEGERS):
        # Any order gives the same: which one XLA takes depends on the processor.
        case(f"reduce.general.{t}", f"""c {{
  x = {t}[] parameter(0)
  y = {t}[] parameter(1)
  p = {t}[] multiply(x, y)
  s = {t}[] add(x, y)
  ROOT z = {t}[] add(p, s)
}}
ENTRY e {{
  p0 = {t}[2,3] parameter(0)
  p1 = {t}[] parameter(1)
  ROOT r = {t}[2] reduce(p0, p1), dimensions={{1}}, to_apply=c
}}
""", "ss")
    case("partition-id", "ENTRY e {\n  ROOT r = u32[] partition-id()\n}\n", "")
    case("replica-id", "ENTRY e {\n  ROOT r = u32[] replica-id()\n}\n", "")


def scans():
    """Along each dimension, both ways, with one and two carries, several inputs and outputs. Parameters: inputs first, then carries."""
    for t in each(["f32", "s32"], ["f64", "bf16", "u8", "s64"]):
        modes = "ssss" if t == "u8" else "iiii"
        step = f"step {{\n  x = {t}[2] parameter(0)\n  c = {t}[2] parameter(1)\n  s = {t}[2] add(c, x)\n  ROOT r = ({t}[2], {t}[2]) tuple(s, s)\n}}\n"
        for dims, dimension in each([([5, 2], 0)], [([2, 5], 1), ([2, 1], 1)]):
            shape = f"{t}[{dims[0]},{dims[1]}]"
            for name, more in {"forward": "", "reverse": ", is_reverse=true", "associative": ", is_associative=true"}.items():
                case(f"scan.{name}.{dims[0]}x{dims[1]}.{t}", f"{step}ENTRY e {{\n  p0 = {shape} parameter(0)\n  p1 = {t}[2] parameter(1)\n  ROOT r = ({shape}, "
                     f"{t}[2]) scan(p0, p1), dimensions={{{dimension}}}{more}, num_carries=1, to_apply=step\n}}\n", modes[:2])
        case(f"scan.several.{t}", f"""step {{
  x = {t}[] parameter(0)
  y = {t}[] parameter(1)
  a = {t}[] parameter(2)
  b = {t}[] parameter(3)
  m = {t}[] multiply(x, y)
  n = {t}[] add(a, m)
  o = {t}[] maximum(b, x)
  ROOT r = ({t}[], {t}[], {t}[], {t}[]) tuple(n, m, n, o)
}}
ENTRY e {{
  p0 = {t}[6] parameter(0)
  p1 = {t}[6] parameter(1)
  p2 = {t}[] parameter(2)
  p3 = {t}[] parameter(3)
  ROOT r = ({t}[6], {t}[6], {t}[], {t}[]) scan(p0, p1, p2, p3), dimensions={{0}}, num_carries=2, to_apply=step
}}
""", modes)
