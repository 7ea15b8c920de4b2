// SPDX-License-Identifier: Apache-2.0
// bitcasts between layouts, dynamic dimensions, scan, ragged and scaled dots: ops that XLA:CPU does not run
// unchanged.
#include <criterion/criterion.h>

#include "tests/eval/run.h"
#include "tests/support/cases.h"

typedef struct Program {
    char text[900];
    int64_t inputs, outputs;
    float want[16];
} Program;

// Inputs are 0, 1, 2, …
CaseList(layout, program) {
    static Program programs[] = {
        // Column-major bytes read as row-major: a transpose.
        {"HloModule m\nENTRY e { p = f32[2,3]{0,1} parameter(0)\n ROOT r = f32[3,2]{1,0} bitcast(p) }\n",
         6,
         6,
         {0, 3, 1, 4, 2, 5}},
        // The same order under other names.
        {"HloModule m\nENTRY e { p = f32[2,3]{1,0} parameter(0)\n ROOT r = f32[3,2]{0,1} bitcast(p) }\n",
         6,
         6,
         {0, 3, 1, 4, 2, 5}},
        {"HloModule m\nENTRY e { p = f32[2,3]{1,0} parameter(0)\n ROOT r = f32[6]{0} bitcast(p) }\n",
         6,
         6,
         {0, 1, 2, 3, 4, 5}},
        // Tiles T(2,2) over 2x4: each tile's four elements lie together.
        {"HloModule m\nENTRY e { p = f32[2,4]{1,0:T(2,2)} parameter(0)\n ROOT r = f32[8]{0} bitcast(p) }\n",
         8,
         8,
         {0, 1, 4, 5, 2, 3, 6, 7}},
        {"HloModule m\nENTRY e { p = f32[8]{0} parameter(0)\n ROOT r = f32[2,4]{1,0:T(2,2)} bitcast(p) }\n",
         8,
         8,
         {0, 1, 4, 5, 2, 3, 6, 7}},
        // A second tile splits the first.
        {"HloModule m\nENTRY e { p = f32[4,2]{1,0:T(4,2)(2,1)} parameter(0)\n ROOT r = f32[8]{0} bitcast(p) }\n",
         8,
         8,
         {0, 2, 1, 3, 4, 6, 5, 7}},
        // Unit dimensions before the tiled ones do not matter.
        {"HloModule m\nENTRY e { p = f32[2,4]{1,0:T(2,2)} parameter(0)\n ROOT r = f32[1,2,4]{2,1,0:T(2,2)} bitcast(p) "
         "}\n",
         8,
         8,
         {0, 1, 2, 3, 4, 5, 6, 7}},
        // Three of four rows count.
        {"HloModule m\nadd { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n"
         "ENTRY e { p = f32[4,2] parameter(0)\n n = s32[] constant(3)\n d = f32[<=4,2] set-dimension-size(p, n), "
         "dimensions={0}\n"
         " t = f32[<=4,2] add(d, d)\n zero = f32[] constant(0)\n ROOT r = f32[2] reduce(t, zero), dimensions={0}, "
         "to_apply=add }\n",
         8,
         2,
         {12, 18}},
        // Running sums, forwards and backwards.
        {"HloModule m\nstep { x = f32[2] parameter(0)\n c = f32[2] parameter(1)\n s = f32[2] add(x, c)\n"
         " ROOT t = (f32[2], f32[2]) tuple(s, s) }\n"
         "ENTRY e { p = f32[3,2] parameter(0)\n c = f32[2] constant({10, 20})\n"
         " s = (f32[3,2], f32[2]) scan(p, c), dimensions={0}, num_carries=1, to_apply=step\n"
         " ROOT r = f32[3,2] get-tuple-element(s), index=0 }\n",
         6,
         6,
         {10, 21, 12, 24, 16, 29}},
        {"HloModule m\nstep { x = f32[2] parameter(0)\n c = f32[2] parameter(1)\n s = f32[2] add(x, c)\n"
         " ROOT t = (f32[2], f32[2]) tuple(s, s) }\n"
         "ENTRY e { p = f32[3,2] parameter(0)\n c = f32[2] constant({10, 20})\n"
         " s = (f32[3,2], f32[2]) scan(p, c), dimensions={0}, is_reverse=true, num_carries=1, to_apply=step\n"
         " ROOT r = f32[3,2] get-tuple-element(s), index=0 }\n",
         6,
         6,
         {16, 29, 16, 28, 14, 25}},
        // Rows 0 and 1 by the first matrix, row 2 by the second, row 3 by none.
        {"HloModule m\nENTRY e { p = f32[4,2] parameter(0)\n w = f32[2,2,1] constant({{{1},{0}},{{0},{1}}})\n"
         " g = s32[2] constant({2, 1})\n ROOT r = f32[4,1] ragged-dot(p, w, g), lhs_contracting_dims={1}, "
         "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0} }\n",
         8,
         4,
         {0, 2, 5, 0}},
        {"HloModule m\nENTRY e { p = f32[2,4] parameter(0)\n w = f32[4,1] constant({{1},{1},{1},{1}})\n"
         " g = s32[2] constant({1, 2})\n ROOT r = f32[2,2,1] ragged-dot(p, w, g), lhs_contracting_dims={1}, "
         "rhs_contracting_dims={0}, lhs_ragged_dims={1} }\n",
         8,
         4,
         {0, 4, 3, 11}},
    };
    return cr_make_param_array(Program, programs, HLO_COUNT_OF(programs));
}

CaseTest(Program *program, layout, program) {
    float values[16];
    for (int i = 0; i < 16; i++) values[i] = (float)i;
    HloStatus status;
    HloLiteral *result = run_floats(program->text, values, NULL, &status);
    cr_assert_null(status, "%s: %s", program->text, hlo_status_message(status));
    expect_floats(result, program->want, program->outputs);
    hlo_literal_free(result);
}

Test(layout, single_instruction_is_evaluated_on_its_operands) {
    HloModule *module = parse_text(
        "HloModule m\nadd { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n"
        "ENTRY e { p = f32[3] parameter(0)\n zero = f32[] constant(0)\n"
        " ROOT r = f32[] reduce(p, zero), dimensions={0}, to_apply=add }\n");
    const HloInstruction *reduce = module->entry->root;
    HloLiteral *operands[2], *result = NULL;
    for (int k = 0; k < 2; k++) operands[k] = hlo_literal_new(reduce->operands[k]->shape);
    for (int i = 0; i < 3; i++) hlo_literal_set_double(operands[0], i, i + 1);
    cr_assert_null(hlo_evaluate_instruction(reduce, (const HloLiteral *const *)operands, NULL, &result));
    const float want[1] = {6};
    expect_floats(result, want, 1);
    hlo_literal_free(result);
    for (int k = 0; k < 2; k++) hlo_literal_free(operands[k]);
    hlo_module_free(module);
}
