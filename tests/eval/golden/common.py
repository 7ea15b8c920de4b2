# SPDX-License-Identifier: Apache-2.0
"""The list of cases, and what the groups of cases share: element types, tolerances, program makers."""
FLOATS = ["f16", "bf16", "f32", "f64"]
INTEGERS = ["s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"]
NARROW = ["s4", "u4", "s2", "u2"]
COMPLEX = ["c64", "c128"]
F8 = ["f8e5m2", "f8e4m3fn", "f8e4m3", "f8e3m4", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz"]
TINY = ["f4e2m1fn", "f8e8m0fnu"]  # without negative numbers, or without zero: converted, and little else
TOLERANCE = {"f16": 1e-3, "bf16": 8e-3, "f32": 1e-6, "f64": 1e-14, "c64": 4e-6, "c128": 1e-13}
FLOOR = {"f16": 1e-7, "bf16": 1e-37, "f32": 1e-37, "f64": 1e-300, "c64": 1e-6, "c128": 1e-13}

# (name, text, modes, rtol, atol, whether it is in the full set only)
CASES = []
_full_only = False


def each(compact, more=()):
    """The values of `compact`, then those of `more`; cases made under the latter are in the full set only."""
    global _full_only
    outside = _full_only
    for value in compact:
        yield value
    _full_only = True
    for value in more:
        yield value
    _full_only = outside


def case(name, text, modes, rtol=0.0, atol=0.0, replicas=1):
    header = f"HloModule m, replica_count={replicas}\n" if replicas > 1 else "HloModule m\n"
    CASES.append((name, header + text, modes, rtol, atol, _full_only))


def simple(name, result, op, operands, modes, attributes="", rtol=0.0, atol=0.0, before=""):
    """ENTRY that applies `op` to parameters of these shapes."""
    lines = [f"  p{i} = {shape} parameter({i})\n" for i, shape in enumerate(operands)]
    arguments = ", ".join(f"p{i}" for i in range(len(operands)))
    text = f"{before}ENTRY e {{\n{''.join(lines)}  ROOT r = {result} {op}({arguments}){attributes}\n}}\n"
    case(name, text, modes, rtol, atol)


def scalar_computation(name, type_name, body):
    return f"{name} {{\n  x = {type_name}[] parameter(0)\n  y = {type_name}[] parameter(1)\n  ROOT z = {body}\n}}\n"


def less(name, type_name, direction="LT"):
    """A comparator, of total order for floats as JAX writes it."""
    order = ", type=TOTALORDER" if type_name[0] in "fb" else ""
    return scalar_computation(name, type_name, f"pred[] compare(x, y), direction={direction}{order}")
