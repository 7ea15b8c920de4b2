# SPDX-License-Identifier: Apache-2.0
"""What a case is, and the programs and helpers that the groups share."""
import collections

# name; arguments of the command; files: name -> text or bytes; codes: exit codes that are right (docs/cli.md); says: text that
# stderr must hold; survive: exit 0 is right too; environment: variables to set.
Case = collections.namedtuple("Case", "name arguments files codes says survive environment",
                              defaults=({}, frozenset({2, 3, 4, 5, 6}), "", False, {}))

PARSE = frozenset({3})
USAGE = frozenset({2})
NAMED = frozenset({4})
RUN = frozenset({6})
PARSE_OR_NAMED = frozenset({3, 4})

# A program that touches much of the syntax: attributes, nested computations, constants, shardings, metadata, aliasing.
RICH = """HloModule rich, is_scheduled=false, input_output_alias={ {0}: (0, {}, may-alias) }, \
entry_computation_layout={(f32[4,8]{1,0}, s32[4]{0})->(f32[4,8]{1,0}, f32[4]{0}, pred[])}, num_partitions=4

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}

%body (state: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {
  %state = (s32[], f32[4,8]{1,0}) parameter(0)
  %count = s32[] get-tuple-element(%state), index=0
  %array = f32[4,8]{1,0} get-tuple-element(%state), index=1
  %one = s32[] constant(1)
  %next = s32[] add(%count, %one)
  %grown = f32[4,8]{1,0} multiply(%array, %array), metadata={op_name="jit(f)/while/mul" source_file="a.py" source_line=3}
  ROOT %pair = (s32[], f32[4,8]{1,0}) tuple(%next, %grown)
}

%condition (state.1: (s32[], f32[4,8])) -> pred[] {
  %state.1 = (s32[], f32[4,8]{1,0}) parameter(0)
  %count.1 = s32[] get-tuple-element(%state.1), index=0
  %limit = s32[] constant(3)
  ROOT %go = pred[] compare(%count.1, %limit), direction=LT
}

ENTRY %main (p0: f32[4,8], p1: s32[4]) -> (f32[4,8], f32[4], pred[]) {
  %p0 = f32[4,8]{1,0} parameter(0), sharding={devices=[2,2]<=[4]}
  %p1 = s32[4]{0} parameter(1), sharding={devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  %table = f32[2,2]{1,0} constant({ { 1, -2.5 }, { inf, 1e-3 } })
  %zero = f32[] constant(0)
  %start = s32[] constant(0)
  %initial = (s32[], f32[4,8]{1,0}) tuple(%start, %p0)
  %loop = (s32[], f32[4,8]{1,0}) while(%initial), condition=%condition, body=%body
  %final = f32[4,8]{1,0} get-tuple-element(%loop), index=1
  %rows = f32[4]{0} reduce(%final, %zero), dimensions={1}, to_apply=%add, frontend_attributes={kind="row"}
  %cut = f32[2,8]{1,0} slice(%final), slice={[1:3], [0:8:1]}
  %padded = f32[4,8]{1,0} pad(%cut, %zero), padding=1_1x0_0
  %product = f32[4,4]{1,0} dot(%final, %padded), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %picked = f32[4,8]{1,0} gather(%final, %p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, \
index_vector_dim=1, slice_sizes={1,8}
  %everywhere = f32[4,8]{1,0} custom-call(%picked), custom_call_target="Sharding", sharding={replicated}
  %flag = pred[] constant(true)
  ROOT %result = (f32[4,8]{1,0}, f32[4]{0}, pred[]) tuple(%everywhere, %rows, %flag)
}
"""

# A small program that runs anywhere.
DOT = """HloModule dot
ENTRY main {
  x = f32[8,16] parameter(0)
  w = f32[16,4] parameter(1)
  ROOT y = f32[8,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""

SCALAR_ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n"


def program(*lines, before=""):
    """A module whose entry has these lines; the last is the root."""
    body = "".join(f"  {line}\n" for line in lines[:-1])
    return f"HloModule m\n{before}ENTRY e {{\n{body}  ROOT {lines[-1]}\n}}\n"


def mix(seed, index):
    """Pseudo-random 64 bits, the same on every machine (splitmix64)."""
    x = (seed * 0xD1342543DE82EF95 + index * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31
