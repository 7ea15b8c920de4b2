# SPDX-License-Identifier: Apache-2.0
"""Collectives of four devices, each with inputs of its own. XLA:CPU has no collective-broadcast, and its text parser no ragged-all-to-all."""
from golden.common import INTEGERS, case, each, scalar_computation

REPLICAS = 4
GROUPS = {"all": "{{0,1,2,3}}", "pairs": "{{0,2},{3,1}}", "empty": "{}"}


def replicated(name, text, modes, rtol=0.0, atol=0.0):
    case(f"devices.{name}", text, modes, rtol, atol, replicas=REPLICAS)


def reductions():
    for t in each(["f32", "s32"], ["f64", "bf16", "f16", *(i for i in INTEGERS if i != "s32"), "pred", "c64"]):
        ops = ["and", "or"] if t == "pred" else ["add", "multiply"] if t == "c64" else ["add", "multiply", "maximum", "minimum"]
        for op in each(ops[:1], ops[1:]):
            reducer = scalar_computation("join", t, f"{t}[] {op}(x, y)")
            room = {"f32": 2e-6, "bf16": 3e-2, "f16": 4e-3, "f64": 1e-13, "c64": 4e-6}.get(t, 0.0)
            for name, groups in GROUPS.items():
                size = 2 if name == "pairs" else REPLICAS
                mode = "i" if t in ("f32", "f64", "bf16", "f16") else "s"
                replicated(f"all-reduce.{op}.{name}.{t}", f"{reducer}ENTRY e {{\n  p0 = {t}[3,2] parameter(0)\n  ROOT r = {t}[3,2] all-reduce(p0), "
                           f"replica_groups={groups}, to_apply=join\n}}\n", mode, room)
                replicated(f"reduce-scatter.{op}.{name}.{t}", f"{reducer}ENTRY e {{\n  p0 = {t}[3,8] parameter(0)\n  ROOT r = {t}[3,{8 // size}] "
                           f"reduce-scatter(p0), replica_groups={groups}, dimensions={{1}}, to_apply=join\n}}\n", mode, room)


def moves():
    for t in each(["f32", "s8"], ["f64", "bf16", "u64", "pred", "c64"]):
        for name, groups in GROUPS.items():
            size = 2 if name == "pairs" else REPLICAS
            for dimension in each([0], [1]):
                dims = [3, 2]
                dims[dimension] *= size
                replicated(f"all-gather.{name}.{dimension}.{t}", f"ENTRY e {{\n  p0 = {t}[3,2] parameter(0)\n  ROOT r = {t}[{dims[0]},{dims[1]}] all-gather(p0), "
                           f"replica_groups={groups}, dimensions={{{dimension}}}\n}}\n", "s")
                if name == "empty":  # XLA has none for it
                    continue
                replicated(f"all-to-all.{name}.{dimension}.{t}", f"ENTRY e {{\n  p0 = {t}[4,8] parameter(0)\n  ROOT r = {t}[4,8] all-to-all(p0), "
                           f"replica_groups={groups}, dimensions={{{dimension}}}\n}}\n", "s")
        for name, pairs in {"ring": "{{0,1},{1,2},{2,3},{3,0}}", "some": "{{0,2},{3,1}}", "self": "{{0,0},{1,2}}", "none": "{}"}.items():
            replicated(f"permute.{name}.{t}", f"ENTRY e {{\n  p0 = {t}[3,2] parameter(0)\n  ROOT r = {t}[3,2] collective-permute(p0), "
                       f"source_target_pairs={pairs}\n}}\n", "s")


def collectives():
    reductions()
    moves()
    replicated("replica-id", "ENTRY e {\n  ROOT r = u32[] replica-id()\n}\n", "")
    replicated("partition-id", "ENTRY e {\n  a = u32[] partition-id()\n  ROOT r = u32[] add(a, a)\n}\n", "")
    add = scalar_computation("join", "f32", "f32[] add(x, y)")
    replicated("all-reduce.several", f"{add}ENTRY e {{\n  p0 = f32[3] parameter(0)\n  p1 = f32[2,2] parameter(1)\n  ROOT r = (f32[3], f32[2,2]) "
               "all-reduce(p0, p1), replica_groups={{0,1},{2,3}}, to_apply=join\n}\n", "ii")
    replicated("all-reduce.own", f"{add}ENTRY e {{\n  a = u32[] replica-id()\n  b = f32[] convert(a)\n  c = f32[] add(b, b)\n  "
               "ROOT r = f32[] all-reduce(c), replica_groups={{1,0},{3,2}}, to_apply=join\n}\n", "")
