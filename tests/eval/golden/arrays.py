# SPDX-License-Identifier: Apache-2.0
"""Movement of data, indexing, sorting."""
from golden.common import COMPLEX, F8, FLOATS, FLOOR, INTEGERS, NARROW, TINY, TOLERANCE, case, each, less, scalar_computation, simple


def forms(t):
    """Forms of the ops that movement() tries once: other paddings, permutations, ranks, single elements."""
    for _ in each([], [0]):
        for i, (padding, out) in enumerate([("0_0x0_0", "4,5"), ("2_0_0x0_3_0", "6,8"), ("-2_-1x1_1_3", "1,19"), ("0_0_2x-1_-1_1", "10,7"),
                                            ("3_-4x0_0", "3,5")]):
            simple(f"pad.form{i}.{t}", f"{t}[{out}]", "pad", [f"{t}[4,5]", f"{t}[]"], "fs", f", padding={padding}")
        for permutation in ["0,1,2", "0,2,1", "1,0,2", "1,2,0", "2,1,0"]:
            out = ",".join("354"[int(p)] for p in permutation.split(","))
            simple(f"transpose.{permutation}.{t}", f"{t}[{out}]", "transpose", [f"{t}[3,5,4]"], "f", f", dimensions={{{permutation}}}")
        for i, (limits, out) in enumerate([("[0:7],[0:9]", "7,9"), ("[3:4],[8:9]", "1,1"), ("[0:7:6],[1:9:3]", "2,3"), ("[2:2],[0:9]", "0,9")]):
            simple(f"slice.form{i}.{t}", f"{t}[{out}]", "slice", [f"{t}[7,9]"], "f", f", slice={{{limits}}}")
        simple(f"concatenate.three.{t}", f"{t}[9,5]", "concatenate", [f"{t}[2,5]", f"{t}[3,5]", f"{t}[4,5]"], "fff", ", dimensions={0}")
        simple(f"concatenate.one.{t}", f"{t}[2,5]", "concatenate", [f"{t}[2,5]"], "f", ", dimensions={0}")
        for i, (before, after) in enumerate([("1,30,1", "30"), ("30", "1,2,3,5"), ("2,0,3", "0,7"), ("1", ""), ("", "1,1")]):
            simple(f"reshape.form{i}.{t}", f"{t}[{after}]", "reshape", [f"{t}[{before}]"], "f")
        simple(f"broadcast.scalar.{t}", f"{t}[3,7]", "broadcast", [f"{t}[]"], "f", ", dimensions={}")
        simple(f"broadcast.first.{t}", f"{t}[3,7]", "broadcast", [f"{t}[3]"], "f", ", dimensions={0}")
        simple(f"reverse.one.{t}", f"{t}[9]", "reverse", [f"{t}[9]"], "f", ", dimensions={0}")
        simple(f"select.scalar.{t}", f"{t}[9]", "select", ["pred[]", f"{t}[9]", f"{t}[9]"], "fff")
        simple(f"copy.{t}", f"{t}[9,2]", "copy", [f"{t}[9,2]"], "f")


def movement():
    for t in each(["pred", "s8", "s16", "s32", "f16", "bf16", "f64", "c64", "c128", "s4"],
                  ["u8", "u16", "u32", "u64", "s64", "f32", "u4", "s2", "u2", "f8e5m2", "f8e4m3fn", "f8e3m4"]):
        simple(f"broadcast.{t}", f"{t}[2,3,4,5]", "broadcast", [f"{t}[3,5]"], "f", ", dimensions={1,3}")
        simple(f"transpose.{t}", f"{t}[4,3,5]", "transpose", [f"{t}[3,5,4]"], "f", ", dimensions={2,0,1}")
        simple(f"reverse.{t}", f"{t}[3,5,4]", "reverse", [f"{t}[3,5,4]"], "f", ", dimensions={2,0}")
        simple(f"slice.{t}", f"{t}[3,4]", "slice", [f"{t}[7,9]"], "f", ", slice={[1:7:2],[2:9:2]}")
        simple(f"pad.{t}", f"{t}[8,8]", "pad", [f"{t}[4,5]", f"{t}[]"], "fs", ", padding=-1_2_1x1_-2_1")
        simple(f"concatenate.{t}", f"{t}[2,8]", "concatenate", [f"{t}[2,5]", f"{t}[2,3]"], "ff", ", dimensions={1}")
        simple(f"reshape.{t}", f"{t}[6,5]", "reshape", [f"{t}[3,10]"], "f")
        for i in each(["s32", "u8", "s64"], ["s8", "s16", "u16", "u32", "u64"]):
            mode = "s" if i[0] == "u" else "i"
            simple(f"dynamic-slice.{t}.{i}", f"{t}[3,4]", "dynamic-slice", [f"{t}[7,9]", f"{i}[]", f"{i}[]"],
                   "f" + mode * 2, ", dynamic_slice_sizes={3,4}")
            simple(f"dynamic-update-slice.{t}.{i}", f"{t}[7,9]", "dynamic-update-slice",
                   [f"{t}[7,9]", f"{t}[3,4]", f"{i}[]", f"{i}[]"], "ff" + mode * 2)
        forms(t)
        if t != "pred":
            simple(f"iota.{t}", f"{t}[3,6,2]", "iota", [], "", ", iota_dimension=1")


def more_indexed(t):
    """Index types, scalars gathered, negative and far indices, several updates of one place, batching, set without reading."""
    for index in each([], ["s64", "u32", "s8"]):
        mode = "s" if index == "u32" else "i"
        simple(f"gather.scalars.{t}.{index}", f"{t}[4]", "gather", [f"{t}[7,6]", f"{index}[4,2]"], "s" + mode,
               ", offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}")
        simple(f"gather.swapped.{t}.{index}", f"{t}[2,4,3]", "gather", [f"{t}[7,6]", f"{index}[2,4]"], "s" + mode,
               ", offset_dims={0,2}, collapsed_slice_dims={}, start_index_map={1,0}, index_vector_dim=0, slice_sizes={2,3}")
        second = scalar_computation("c", t, f"{t}[] copy(y)")
        simple(f"scatter.scalars.{t}.{index}", f"{t}[7,6]", "scatter", [f"{t}[7,6]", f"{index}[4,2]", f"{t}[4]"], "s" + mode + "s",
               ", update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=c",
               before=second)
        simple(f"scatter.batching.{t}.{index}", f"{t}[3,7,2]", "scatter", [f"{t}[3,7,2]", f"{index}[3,4,1]", f"{t}[3,4,2]"], "s" + mode + "s",
               ", update_window_dims={2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
               "scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=c", before=second)
    for op in each([], ["maximum", "minimum"]):
        if t not in COMPLEX + ["f8e5m2"]:
            simple(f"scatter.{op}.{t}", f"{t}[7]", "scatter", [f"{t}[7]", "s32[20,1]", f"{t}[20]"], "sis",
                   ", update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=c",
                   before=scalar_computation("c", t, f"{t}[] {op}(x, y)"))


def sorts():
    """Sorting of several arrays, by both orders, stable and not needed to be."""
    for t in each([], ["f32", "f64", "bf16", "f16", "s8", "s16", "s32", "s64", "u8", "u32", "u64", "pred"]):
        for direction in ["LT", "GT"]:
            simple(f"sort.{direction}.{t}", f"{t}[70]", "sort", [f"{t}[70]"], "f", ", dimensions={0}, is_stable=true, to_apply=c",
                   before=less("c", t, direction))
        three = (f"c {{\n  x = {t}[] parameter(0)\n  y = {t}[] parameter(1)\n  i = s32[] parameter(2)\n  j = s32[] parameter(3)\n"
                 "  k = f32[] parameter(4)\n  l = f32[] parameter(5)\n  first = pred[] compare(x, y), direction=LT\n"
                 "  same = pred[] compare(x, y), direction=EQ\n  second = pred[] compare(i, j), direction=GT\n"
                 "  both = pred[] and(same, second)\n  ROOT z = pred[] or(first, both)\n}\n")
        simple(f"sort.three.{t}", f"({t}[5,12], s32[5,12], f32[5,12])", "sort", [f"{t}[5,12]", "s32[5,12]", "f32[5,12]"], "sis",
               ", dimensions={1}, is_stable=true, to_apply=c", before=three)


def indexed():
    for t in each(["f32", "s8", "c64", "bf16"], ["f64", "f16", "s32", "u8", "u32", "s64", "c128", "pred", "s16", "f8e5m2"]):
        simple(f"gather.windows.{t}", f"{t}[6,2,1]", "gather", [f"{t}[7,6]", "s32[6,2]"], "si",
               ", offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={2,1}")
        simple(f"gather.columns.{t}", f"{t}[3,6,2]", "gather", [f"{t}[7,6]", "s32[6,2]"], "si",
               ", offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=2, slice_sizes={3,1}")
        simple(f"gather.batching.{t}", f"{t}[4,3,2]", "gather", [f"{t}[3,7,6]", "s32[4,3,1]"], "si",
               ", offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, "
               "start_indices_batching_dims={1}, index_vector_dim=2, slice_sizes={1,1,2}")
        more_indexed(t)
        if t == "pred" or t == "f8e5m2":
            continue
        for name, body in [("add", f"{t}[] add(x, y)"), ("set", f"{t}[] copy(y)"), ("multiply", f"{t}[] multiply(x, y)")]:
            tolerance = {"rtol": {"bf16": 1e-2, "f32": 1e-6, "c64": 1e-5}.get(t, 0), "before": scalar_computation("c", t, body)}
            simple(f"scatter.windows.{name}.{t}", f"{t}[7,6]", "scatter", [f"{t}[7,6]", "s32[6,2]", f"{t}[6,2,1]"], "sis",
                   ", update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}, "
                   "index_vector_dim=1, to_apply=c", **tolerance)
            simple(f"scatter.rows.{name}.{t}", f"{t}[7,6]", "scatter", [f"{t}[7,6]", "s32[6]", f"{t}[6,6]"], "sis",
                   ", update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
                   "index_vector_dim=1, to_apply=c", **tolerance)
