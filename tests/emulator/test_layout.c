// SPDX-License-Identifier: Apache-2.0
// Padded sizes that the real TPU compiler printed, and the layouts it chose.
#include <criterion/criterion.h>
#include <string.h>

#include "emulator/layout/layout.h"
#include "hlo/text/text.h"
#include "tests/support/cases.h"

static const HloShape *parse_shape(HloArena *arena, const char *text) {
    const HloShape *shape = NULL;
    HloStatus status = hlo_parse_shape(arena, text, strlen(text), &shape);
    cr_assert_null(status, "%s: %s", text, hlo_status_message(status));
    return shape;
}

typedef struct PaddedCase {
    char shape[64];
    int64_t unpadded, padded;
} PaddedCase;

#define MIB INT64_C(1048576)

CaseList(emulator_layout, padded_sizes) {
    static PaddedCase cases[] = {
        // Out-of-memory reports: ColabFold 62, marin, vLLM and others; the u8 array is in xla's error documentation.
        {"f32[512,245,256]{2,1,0:T(8,128)}", 512 * 245 * 256 * 4, 124 * MIB},
        {"s32[8388608,8,4]{2,1,0:T(8,128)}", 1024 * MIB, 32768 * MIB},
        {"f32[4,128,128,9,18]{4,3,0,2,1:T(8,128)}", 4 * 128 * 128 * 9 * 18 * 4, 512 * MIB},
        {"bf16[4,512,512,64]{3,0,2,1:T(4,128)(2,1)}", 128 * MIB, 256 * MIB},
        {"pred[64,512,2048]{2,1,0:T(8,128)E(32)}", 64 * MIB, 256 * MIB},
        {"u8[327680,327680]{1,0:T(8,128)(4,1)}", INT64_C(107374182400), INT64_C(107374182400)},
        // The rule itself.
        {"f32[3,5]{1,0:T(2,2)}", 60, 4 * 6 * 4},
        {"f32[10]{0:T(256)}", 40, 1024},
        {"f32[]{:T(128)}", 4, 512},
        {"s4[256,256]{1,0:T(8,128)(8,1)}", 32768, 32768},
        {"f32[7,200]{0,1:T(8,128)}", 5600, 128 * 200 * 4},
        {"f32[0,5]{1,0:T(8,128)}", 0, 0},
        {"(f32[8,128]{1,0:T(8,128)}, token[])", 0, 4096},
    };
    return cr_make_param_array(PaddedCase, cases, sizeof(cases) / sizeof(cases[0]));
}

CaseTest(PaddedCase *param, emulator_layout, padded_sizes) {
    HloArena *arena = hlo_arena_new();
    const HloShape *shape = parse_shape(arena, param->shape);
    cr_assert_eq(emu_padded_bytes(emu_chip(EMU_GENERATION_v5e), shape), param->padded, "%s", param->shape);
    cr_assert_eq(emu_unpadded_bytes(shape), param->unpadded, "%s", param->shape);
    hlo_arena_free(arena);
}

typedef struct LayoutCase {
    EmuGeneration generation;
    char shape[32], layout[64];
} LayoutCase;

// The answers of libtpu 0.0.42 for arguments of these shapes.
CaseList(emulator_layout, default_layouts) {
    static LayoutCase cases[] = {
        {EMU_GENERATION_v2, "f32[8192,8192]", "f32[8192,8192]{1,0:T(8,128)}"},
        {EMU_GENERATION_v2, "f32[8192,10]", "f32[8192,10]{0,1:T(8,128)}"},
        {EMU_GENERATION_v2, "f32[2048,784]", "f32[2048,784]{0,1:T(8,128)}"},
        {EMU_GENERATION_v2, "f32[784,8192]", "f32[784,8192]{1,0:T(8,128)}"},
        {EMU_GENERATION_v2, "f32[1024,10]", "f32[1024,10]{0,1:T(8,128)}"},
        {EMU_GENERATION_v2, "f32[8192]", "f32[8192]{0:T(1024)}"},
        {EMU_GENERATION_v2, "f32[10]", "f32[10]{0:T(256)}"},
        {EMU_GENERATION_v2, "f32[]", "f32[]{:T(256)}"},
        {EMU_GENERATION_v2, "bf16[1024,8192]", "bf16[1024,8192]{1,0:T(8,128)(2,1)}"},
        {EMU_GENERATION_v5e, "f32[]", "f32[]{:T(128)}"},
        {EMU_GENERATION_v5e, "u8[256,256]", "u8[256,256]{1,0:T(8,128)(4,1)}"},
        {EMU_GENERATION_v5e, "f32[4,128]", "f32[4,128]{1,0:T(4,128)}"},
        {EMU_GENERATION_v5e, "f32[1,128]", "f32[1,128]{1,0:T(1,128)}"},
        {EMU_GENERATION_v2, "f32[1,128]", "f32[1,128]{1,0:T(2,128)}"},
        {EMU_GENERATION_v2, "bf16[2,300]", "bf16[2,300]{1,0:T(4,128)(2,1)}"},
        {EMU_GENERATION_v2, "s8[64,3,9]", "s8[64,3,9]{0,2,1:T(8,128)(4,1)}"},
        {EMU_GENERATION_v5e, "bf16[]", "bf16[]{:T(256)}"},
        {EMU_GENERATION_v5e, "s8[129]", "s8[129]{0:T(512)(128)(4,1)}"},
        {EMU_GENERATION_v5e, "s4[7]", "s4[7]{0:T(1024)(128)(8,1)E(4)}"},
        {EMU_GENERATION_v7x, "bf16[1024,8192]", "bf16[1024,8192]{1,0:T(8,128)(2,1)}"},
        {EMU_GENERATION_v7x, "bf16[17,300]", "bf16[17,300]{1,0:T(8,128)(2,1)}"},
        {EMU_GENERATION_v7x, "s8[17,300]", "s8[17,300]{1,0:T(8,128)(4,1)}"},
        {EMU_GENERATION_v7x, "s8[96,128]", "s8[96,128]{1,0:T(32,128)(4,1)}"},
        {EMU_GENERATION_v7x, "s4[96,128]", "s4[96,128]{1,0:T(8,128)(8,1)E(4)}"},
        {EMU_GENERATION_v7x, "u8[256,256]", "u8[256,256]{1,0:T(32,128)(4,1)}"},
    };
    return cr_make_param_array(LayoutCase, cases, sizeof(cases) / sizeof(cases[0]));
}

CaseTest(LayoutCase *param, emulator_layout, default_layouts) {
    HloArena *arena = hlo_arena_new();
    const HloShape *shape = parse_shape(arena, param->shape);
    const HloLayout *layout = emu_default_layout(arena, emu_chip(param->generation), shape);
    HloText text = {0};
    hlo_shape_print(&text, hlo_shape_with_layout(arena, shape, layout), true);
    cr_assert_str_eq(text.data, param->layout);
    hlo_text_free(&text);
    // The size without a layout is the size with the default one.
    cr_assert_eq(emu_padded_bytes(emu_chip(param->generation), shape),
                 emu_padded_bytes(emu_chip(param->generation), hlo_shape_with_layout(arena, shape, layout)));
    hlo_arena_free(arena);
}

// No layout choice is smaller than the array, and padding never needs more than one tile in each of two dimensions.
Test(emulator_layout, padding_is_bounded) {
    HloArena *arena = hlo_arena_new();
    const EmuChip *chip = emu_chip(EMU_GENERATION_v5p);
    for (int64_t rows = 1; rows < 40; rows += 3)
        for (int64_t columns = 1; columns < 400; columns += 37) {
            const HloShape *shape = hlo_shape_array(arena, HLO_F32, (int64_t[]){3, rows, columns}, 3);
            const int64_t padded = emu_padded_bytes(chip, shape);
            cr_assert_geq(padded, emu_unpadded_bytes(shape));
            cr_assert_leq(padded, 3 * (rows + 7) * (columns + 127) * 4);
        }
    cr_assert_eq(emu_padded_bytes(NULL, hlo_shape_array(arena, HLO_F32, (int64_t[]){3, 5}, 2)), 60);
    hlo_arena_free(arena);
}
