// SPDX-License-Identifier: Apache-2.0
// Ops that only move elements keep their bits, also those of signalling NaNs and of NaNs with a payload: each op that
// moves, for each type whose elements have several NaNs, gives what the same op gives of integers with the same bits.
// Operands come as parameters and as constants, which passes fold.
#include <criterion/criterion.h>
#include <stdlib.h>

#include "hlo/eval/eval.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

typedef struct Type {
    HloType type, integer;
    const char *bits[4];  // NaNs, one of them quiet
} Type;

static const Type kTypes[] = {
    {HLO_F16, HLO_U16, {"31798", "64513", "32341", "32255"}},
    {HLO_BF16, HLO_U16, {"32641", "65409", "32725", "32703"}},
    {HLO_F32, HLO_U32, {"2139095041", "4286653253", "2143289429", "2143289343"}},
    {HLO_F64, HLO_U64, {"9218868437227405313", "18442240474387710584", "9221120237041090645", "9221120237041090559"}},
    {HLO_F8E5M2, HLO_U8, {"125", "253", "126", "255"}},
    {HLO_F8E4M3, HLO_U8, {"121", "249", "124", "255"}},
    {HLO_F8E3M4, HLO_U8, {"113", "241", "120", "255"}},
    {HLO_F8E4M3FN, HLO_U8, {"127", "255", "128", "1"}},
    {HLO_F8E5M2FNUZ, HLO_U8, {"128", "127", "255", "1"}},
    {HLO_F8E4M3FNUZ, HLO_U8, {"128", "127", "255", "1"}},
    {HLO_F8E8M0FNU, HLO_U8, {"255", "0", "254", "1"}},
};

typedef struct Move {
    const char *name, *shape;  // of y, which is made of x, four elements; $ is the type
    const char *body;
} Move;

#define LOOP "i = s32[] constant(0)\n t = (s32[], $[4]) tuple(i, x)\n w = (s32[], $[4]) while(t), condition=few_, "
static const Move kMoves[] = {
    {"bits", "[4]", "y = $[4] copy(x)"},
    {"transpose", "[2,2]", "m = $[2,2] reshape(x)\n y = $[2,2] transpose(m), dimensions={1,0}"},
    {"broadcast", "[3,4]", "y = $[3,4] broadcast(x), dimensions={1}"},
    {"slice", "[2]", "y = $[2] slice(x), slice={[0:4:2]}"},
    {"concatenate", "[8]", "y = $[8] concatenate(x, x), dimensions={0}"},
    {"pad", "[9]", "s = $[1] slice(x), slice={[1:2]}\n z = $[] reshape(s)\n y = $[9] pad(x, z), padding=1_1_1"},
    {"reverse", "[4]", "y = $[4] reverse(x), dimensions={0}"},
    {"gather", "[3]",
     "i = s32[3] constant({3,0,1})\n y = $[3] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, "
     "start_index_map={0}, index_vector_dim=1, slice_sizes={1}"},
    {"scatter", "[4]",
     "i = s32[4,1] constant({{3},{0},{1},{2}})\n o = $[4] reverse(x), dimensions={0}\n y = $[4] scatter(o, i, x), "
     "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
     "to_apply=second_"},
    {"dynamic-slice", "[2]", "i = s32[] constant(1)\n y = $[2] dynamic-slice(x, i), dynamic_slice_sizes={2}"},
    {"dynamic-update-slice", "[4]",
     "i = s32[] constant(1)\n s = $[2] slice(x), slice={[2:4]}\n y = $[4] dynamic-update-slice(x, s, i)"},
    {"select", "[4]",
     "q = $[4] reverse(x), dimensions={0}\n c = pred[4] constant({true,false,true,false})\n y = $[4] select(c, x, q)"},
    {"the payload of a sort", "[4]",
     "k = s32[4] constant({3,1,2,0})\n s = (s32[4], $[4]) sort(k, x), dimensions={0}, to_apply=less_\n y = $[4] "
     "get-tuple-element(s), index=1"},
    {"while", "[4]", LOOP "body=turn_\n y = $[4] get-tuple-element(w), index=1"},
    {"updates in a loop", "[4]", LOOP "body=shift_\n y = $[4] get-tuple-element(w), index=1"},
    {"conditional", "[4]", "p = s32[] constant(1)\n y = $[4] conditional(p, x, x), branch_computations={back_, back_}"},
    {"map", "[4]", "y = $[4] map(x), dimensions={0}, to_apply=same_"},
    {"reduce", "[4]",
     "z = $[] constant(1)\n m = $[4,1] reshape(x)\n y = $[4] reduce(m, z), dimensions={1}, to_apply=second_"},
    {"reduce-window", "[4]", "z = $[] constant(1)\n y = $[4] reduce-window(x, z), window={size=1}, to_apply=second_"},
    {"opt-barrier", "[4]", "y = $[4] opt-barrier(x)"},
    {"all-gather", "[4]", "y = $[4] all-gather(x), replica_groups={{0}}, dimensions={0}"},
    {"all-to-all", "[4]", "y = $[4] all-to-all(x), replica_groups={{0}}, dimensions={0}"},
    {"collective-broadcast", "[4]", "y = $[4] collective-broadcast(x), replica_groups={{0}}"},
    {"collective-permute", "[4]", "y = $[4] collective-permute(x), source_target_pairs={{0,0}}"},
    {"custom-call", "[4]", "y = $[4] custom-call(x), custom_call_target=\"Sharding\", sharding={replicated}"},
};

static void put(HloText *text, const char *form, HloType type) {
    for (; *form; form++) {
        if (*form == '$')
            hlo_text_string(text, hlo_type_text(type));
        else
            hlo_text_char(text, *form);
    }
}

// The program that moves elements of `type`, with the bits of `row` in and out as integers.
static void put_program(HloText *text, const Move *move, const Type *row, HloType type, bool constant) {
    put(text,
        "HloModule m\nsecond_ { a = $[] parameter(0)\n ROOT b = $[] parameter(1) }\nsame_ { ROOT a = $[] parameter(0) "
        "}\nless_ { a = s32[] parameter(0)\n b = s32[] parameter(1)\n c = $[] parameter(2)\n d = $[] parameter(3)\n "
        "ROOT r = pred[] compare(a, b), direction=LT }\nback_ { a = $[4] parameter(0)\n ROOT b = $[4] reverse(a), "
        "dimensions={0} }\nfew_ { t = (s32[], $[4]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n n = s32[] "
        "constant(3)\n ROOT r = pred[] compare(i, n), direction=LT }\nturn_ { t = (s32[], $[4]) parameter(0)\n i = "
        "s32[] get-tuple-element(t), index=0\n o = s32[] constant(1)\n j = s32[] add(i, o)\n a = $[4] "
        "get-tuple-element(t), index=1\n b = $[4] reverse(a), dimensions={0}\n ROOT r = (s32[], $[4]) tuple(j, b) "
        "}\nshift_ { t = (s32[], $[4]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n o = s32[] "
        "constant(1)\n j = s32[] add(i, o)\n a = $[4] get-tuple-element(t), index=1\n s = $[1] dynamic-slice(a, i), "
        "dynamic_slice_sizes={1}\n b = $[4] dynamic-update-slice(a, s, j)\n ROOT r = (s32[], $[4]) tuple(j, b) "
        "}\nENTRY e {\n",
        type);
    const char *integer = hlo_type_text(row->integer);
    hlo_text_format(text, " bits = %s[4] ", integer);
    if (constant)
        hlo_text_format(text, "constant({%s,%s,%s,%s})\n x = ", row->bits[0], row->bits[1], row->bits[2], row->bits[3]);
    else
        hlo_text_string(text, "parameter(0)\n x = ");
    hlo_text_format(text, "%s[4] %s(bits)\n ", hlo_type_text(type), type == row->integer ? "copy" : "bitcast-convert");
    put(text, move->body, type);
    hlo_text_format(text, "\n ROOT r = %s%s %s(y)\n}\n", integer, move->shape,
                    type == row->integer ? "copy" : "bitcast-convert");
}

static HloLiteral *run(const char *text, const Type *row, bool constant, bool evaluate) {
    HloModule *module = compiled_must_parse(text);
    HloLiteral *argument = NULL, *result = NULL;
    if (!constant) {
        argument = compiled_random(module->entry->parameters.items[0]->shape, 1);
        for (int i = 0; i < 4; i++) hlo_literal_set_int64(argument, i, (int64_t)strtoull(row->bits[i], NULL, 10));
    }
    if (evaluate) {
        must_succeed(hlo_evaluate(module, (const HloLiteral *const *)&argument, !constant, NULL, &result));
    } else {
        const CompiledCheck check = {.threads = 1, .allow_fallback = true};
        HloText message = {0};
        cr_assert(compiled_run_on_one(module, &argument, &check, &result, &message), "%s\n%s", message.data, text);
        hlo_text_free(&message);
    }
    hlo_literal_free(argument);
    hlo_module_free(module);
    return result;
}

// The instruction sets that there may be; a machine that lacks one runs its best instead.
static const char *const kLevels[] = {
#define CPU_FEATURE(name, text, use) text,
#include "targets/cpu/host/features.def"
#undef CPU_FEATURE
};

// One move of one type in every way, against the same bits as integers.
static void check_move(const Move *move, const Type *row, const HloLiteral *want) {
    for (int constant = 0; constant < 2; constant++) {
        HloText text = {0};
        put_program(&text, move, row, row->type, constant);
        for (size_t level = 0; level <= HLO_COUNT_OF(kLevels); level++) {
            const bool evaluate = level == HLO_COUNT_OF(kLevels);
            setenv("MESHLO_CPU_FEATURES", evaluate ? "" : kLevels[level], 1);
            HloLiteral *have = run(text.data, row, constant, evaluate);
            cr_expect(hlo_literal_equal(have, want), "%s of %s, %s, %s", move->name, hlo_type_text(row->type),
                      constant ? "a constant" : "a parameter", evaluate ? "evaluated" : kLevels[level]);
            hlo_literal_free(have);
        }
        hlo_text_free(&text);
    }
}

CaseList(nan_bits, are_moved) {
    return cases_numbered(HLO_COUNT_OF(kMoves));
}

CaseTest(const int *index, nan_bits, are_moved) {
    const Move *move = &kMoves[*index];
    for (size_t t = 0; t < HLO_COUNT_OF(kTypes); t++) {
        const Type *row = &kTypes[t];
        HloText integers = {0};
        put_program(&integers, move, row, row->integer, false);
        HloLiteral *want = run(integers.data, row, false, true);
        check_move(move, row, want);
        hlo_literal_free(want);
        hlo_text_free(&integers);
    }
}
