// SPDX-License-Identifier: Apache-2.0
// The pass host-offloader: stacks whose slices are offloaded move to host memory as a whole or not at all. A program
// that offloads in a loop and reads back, with one thing changed in each case; what the pass may not do is as important
// as what it does, and the results are the same bits always.
#include <criterion/criterion.h>

#include "check.h"
#include "tests/support/cases.h"

#define STATE "(s32[], f32[4]{0}, f32[3,4]{1,0})"

typedef struct OffloadCase {
    const char *put;    // the update of %stack by %row in the body: the loop returns %u
    const char *after;  // after the loop, whose stack is %stack: ends with the root
    int64_t transfers;  // asynchronous accesses to host memory
    int64_t in_host;    // values of the entry in host memory, parts of tuples too
} OffloadCase;

#define PUT "  u = f32[3,4]{1,0} dynamic-update-slice(stack, row, i, zero)\n"
#define READ                                                                                          \
    "  r = f32[1,4]{1,0} dynamic-slice(stack, one, zero), dynamic_slice_sizes={1,4}\n"                \
    "  v = f32[4]{0} reshape(r)\n  d = f32[4]{0} copy(v), frontend_attributes={_xla_buffer_placement" \
    "=\"device\"}\n"

static const OffloadCase cases[] = {
    // Filled in the loop and read after it.
    {PUT, READ "  ROOT o = f32[4]{0} add(d, x)\n", 2, 4},
    // Through a barrier, and read twice.
    {PUT,
     "  t = (f32[3,4]{1,0}, f32[4]{0}) tuple(stack, x)\n  b = (f32[3,4]{1,0}, f32[4]{0}) opt-barrier(t)\n"
     "  g = f32[3,4]{1,0} get-tuple-element(b), index=0\n"
     "  r = f32[1,4]{1,0} dynamic-slice(g, one, zero), dynamic_slice_sizes={1,4}\n"
     "  q = f32[1,4]{1,0} dynamic-slice(g, zero, zero), dynamic_slice_sizes={1,4}\n  ROOT o = f32[1,4]{1,0} add(r, "
     "q)\n",
     3, 7},
    // Brought back as a whole.
    {PUT, "  ROOT o = f32[3,4]{1,0} copy(stack)\n", 1, 4},
    // The empty array that the stack begins as is also used on the device.
    {PUT,
     READ "  s = f32[1,4]{1,0} slice(empty), slice={[0:1], [0:4]}\n  ROOT o = (f32[4]{0}, f32[1,4]{1,0}) tuple(d, s)\n",
     2, 4},
    // Computed with: the stack stays.
    {PUT, "  n = f32[3,4]{1,0} negate(stack)\n  ROOT o = f32[3,4]{1,0} add(n, n)\n", 0, 0},
    // A result of the program: its memory is the caller's to choose.
    {PUT, "  ROOT o = (f32[3,4]{1,0}, f32[4]{0}) tuple(stack, x)\n", 0, 0},
    // Computed with inside of the loop.
    {"  n = f32[3,4]{1,0} negate(stack)\n  u = f32[3,4]{1,0} dynamic-update-slice(n, row, i, zero)\n",
     READ "  ROOT o = f32[4]{0} add(d, x)\n", 0, 0},
    // Not put into a stack: a copy, as before.
    {"  m = f32[1,4]{1,0} add(row, row)\n  u = f32[3,4]{1,0} dynamic-update-slice(stack, m, i, zero)\n",
     READ "  ROOT o = f32[4]{0} add(d, x)\n", 0, 0},
};

static char *program(const OffloadCase *one) {
    HloText text = {0};
    hlo_text_format(
        &text,
        "HloModule m\n\nbody {\n  s = " STATE
        " parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
        "  x = f32[4]{0} get-tuple-element(s), index=1\n  stack = f32[3,4]{1,0} get-tuple-element(s), index=2\n"
        "  one = s32[] constant(1)\n  zero = s32[] constant(0)\n  next = s32[] add(i, one)\n"
        "  y = f32[4]{0} sine(x)\n  h = f32[4]{0:S(5)} copy(x)\n"
        "  row = f32[1,4]{1,0} broadcast(h), dimensions={1}\n%s"
        "  ROOT t = " STATE " tuple(next, y, u)\n}\n\nless {\n  s = " STATE
        " parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(3)\n"
        "  ROOT p = pred[] compare(i, n), direction=LT\n}\n\nENTRY main {\n  x = f32[4]{0} parameter(0)\n"
        "  zero = s32[] constant(0)\n  one = s32[] constant(1)\n  z = f32[] constant(0)\n"
        "  empty = f32[3,4]{1,0} broadcast(z), dimensions={}\n  init = " STATE " tuple(zero, x, empty)\n  w = " STATE
        " while(init), condition=less, body=body\n  stack = f32[3,4]{1,0} get-tuple-element(w), index=2\n%s}\n",
        one->put, one->after);
    return text.data;
}

static int64_t count_transfers(const HloModule *module) {
    int64_t count = 0;
    for (int64_t c = 0; c < module->computations.count; c++)
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next)
            count += hlo_is(at, HLO_OP_ASYNC_START);
    return count;
}

static int64_t count_in_host(const HloComputation *computation) {
    int64_t count = 0;
    for (const HloInstruction *at = computation->first; at; at = at->next) {
        const int64_t leaves = hlo_is(at, HLO_OP_ASYNC_START) ? 0 : hlo_shape_leaf_count(at->shape);
        for (int64_t i = 0; i < leaves; i++) {
            const HloShape *leaf = hlo_shape_leaf(at->shape, i);
            count += leaf->layout && leaf->layout->memory_space == HLO_SPACE_PINNED_HOST;
        }
    }
    return count;
}

CaseList(pass_host_offloader, stacks_move_whole_or_not_at_all) {
    return cases_numbered(HLO_COUNT_OF(cases));
}

CaseTest(const int *index, pass_host_offloader, stacks_move_whole_or_not_at_all) {
    const OffloadCase *one = &cases[*index];
    char *text = program(one);
    HloModule *module = check_parse(text);
    cr_assert_null(hlo_run_passes(module, (const char *const[]){"host-offloader", "dce"}, 2, NULL));
    cr_expect_eq(count_transfers(module), one->transfers, "%lld", (long long)count_transfers(module));
    cr_expect_eq(count_in_host(module->entry), one->in_host, "%lld", (long long)count_in_host(module->entry));
    hlo_module_free(module);
    check_same_results("host-offloader", text, 0);
    check_same_results("host-offloader,dce,memory-copies", text, 0);
    hlo_free(text);
}

// A transposing broadcast of what is offloaded is more than another shape.
static const char kTransposed[] =
    "HloModule m\n"
    "\n"
    "body {\n"
    "  s = (s32[], f32[2,2]{1,0}, f32[3,2,2]{2,1,0}) parameter(0)\n"
    "  i = s32[] get-tuple-element(s), index=0\n"
    "  x = f32[2,2]{1,0} get-tuple-element(s), index=1\n"
    "  stack = f32[3,2,2]{2,1,0} get-tuple-element(s), index=2\n"
    "  one = s32[] constant(1)\n"
    "  zero = s32[] constant(0)\n"
    "  next = s32[] add(i, one)\n"
    "  y = f32[2,2]{1,0} sine(x)\n"
    "  h = f32[2,2]{1,0:S(5)} copy(x)\n"
    "  row = f32[1,2,2]{2,1,0} broadcast(h), dimensions={2,1}\n"
    "  u = f32[3,2,2]{2,1,0} dynamic-update-slice(stack, row, i, zero, zero)\n"
    "  ROOT t = (s32[], f32[2,2]{1,0}, f32[3,2,2]{2,1,0}) tuple(next, y, u)\n"
    "}\n"
    "\n"
    "less {\n"
    "  s = (s32[], f32[2,2]{1,0}, f32[3,2,2]{2,1,0}) parameter(0)\n"
    "  i = s32[] get-tuple-element(s), index=0\n"
    "  n = s32[] constant(3)\n"
    "  ROOT p = pred[] compare(i, n), direction=LT\n"
    "}\n"
    "\n"
    "ENTRY main {\n"
    "  x = f32[2,2]{1,0} parameter(0)\n"
    "  zero = s32[] constant(0)\n"
    "  one = s32[] constant(1)\n"
    "  z = f32[] constant(0)\n"
    "  empty = f32[3,2,2]{2,1,0} broadcast(z), dimensions={}\n"
    "  init = (s32[], f32[2,2]{1,0}, f32[3,2,2]{2,1,0}) tuple(zero, x, empty)\n"
    "  w = (s32[], f32[2,2]{1,0}, f32[3,2,2]{2,1,0}) while(init), condition=less, body=body\n"
    "  stack = f32[3,2,2]{2,1,0} get-tuple-element(w), index=2\n"
    "  r = f32[1,2,2]{2,1,0} dynamic-slice(stack, one, zero, zero), dynamic_slice_sizes={1,2,2}\n"
    "  q = f32[2,2]{1,0} reshape(r)\n"
    "  ROOT d = f32[2,2]{1,0} copy(q)\n"
    "}\n";

Test(pass_host_offloader, bug_rows_that_a_broadcast_transposes_were_taken_for_reshapes) {
    check_same_results("host-offloader", kTransposed, 0);
}
