// SPDX-License-Identifier: Apache-2.0
#include "tests/support/bent.h"

#include <criterion/criterion.h>
#include <string.h>

#include "hlo/verify/verify.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

typedef struct Form {
    HloOpcode opcode;
    const char *header, *computations, *body;
} Form;

static const Form kForms[] = {
#define FORM(opcode, header, computations, body) {HLO_OP_##opcode, header, computations, body},
#include "tests/support/forms.def"
#undef FORM
    // Conversions say what they give; the text is only whole with it.
    {HLO_OP_CONVERT, "", "", "p = $[5] parameter(0)\n ROOT r = f32[5] convert(p)"},
    {HLO_OP_BITCAST_CONVERT, "", "", "p = $[5,4] parameter(0)\n ROOT r = u8[5,4,4] bitcast-convert(p)"},
    {HLO_OP_BITCAST_CONVERT, "", "", "p = $[5,2] parameter(0)\n ROOT r = $[5,2] bitcast-convert(p)"},
    {HLO_OP_STOCHASTIC_CONVERT, "", "",
     "p = f32[5] parameter(0)\n q = u32[5] parameter(1)\n ROOT r = s8[5] stochastic-convert(p, q)"},
    {HLO_OP_SET_DIMENSION_SIZE, "", "",
     "p = $[5] parameter(0)\n n = s32[] constant(3)\n ROOT r = $[<=5] set-dimension-size(p, n), dimensions={0}"},
    {HLO_OP_SELECT, "", "",
     "c = pred[] parameter(0)\n p = $[3,4] parameter(1)\n q = $[3,4] parameter(2)\n ROOT r = $[3,4] select(c, p, q)"},
    {HLO_OP_CLAMP, "", "",
     "a = $[] parameter(0)\n p = $[3,4] parameter(1)\n b = $[] parameter(2)\n ROOT r = $[3,4] clamp(a, p, b)"},
    {HLO_OP_COLLECTIVE_PERMUTE, ", num_partitions=2", "",
     "p = $[4] parameter(0)\n q = $[8] parameter(1)\n z = s32[] constant(0)\n ROOT r = $[8] collective-permute(p, q, "
     "z, z), "
     "channel_id=1, source_target_pairs={{0,1}}, slice_sizes={{4}}"},
    {HLO_OP_COLLECTIVE_PERMUTE_START, ", num_partitions=2", "",
     "p = $[4] parameter(0)\n q = $[8] parameter(1)\n z = s32[] constant(0)\n s = ($[4], $[8], u32[], u32[]) "
     "collective-permute-start(p, q, z, z), channel_id=1, source_target_pairs={{0,1}}, slice_sizes={{4}}\n ROOT r = "
     "$[8] "
     "collective-permute-done(s)"},
    {HLO_OP_SEND, "", "",
     "p = $[4] parameter(0)\n t = token[] after-all()\n s = ($[4], u32[], token[]) send(p, t), channel_id=1\n"
     " d = token[] send-done(s), channel_id=1\n v = ($[4], u32[], token[]) recv(d), channel_id=1\n"
     " w = ($[4], token[]) recv-done(v), channel_id=1\n ROOT r = $[4] get-tuple-element(w), index=0"},
    {HLO_OP_INFEED, "", "",
     "t = token[] after-all()\n i = (($[4], s32[]), token[]) infeed(t)\n a = ($[4], s32[]) get-tuple-element(i), "
     "index=0\n u = token[] get-tuple-element(i), index=1\n o = token[] outfeed(a, u), outfeed_shape=($[4], s32[])\n"
     " ROOT r = $[4] get-tuple-element(a), index=0"},
};

// Elementwise ops have no form of their own: number n of the cases is a form, or an opcode.
enum { FORMS = HLO_COUNT_OF(kForms) };

static const HloType kBases[] = {HLO_F32, HLO_C64, HLO_S32, HLO_U64, HLO_PRED, HLO_F8E5M2};

int bent_case_count(void) {
    return FORMS + HLO_OPCODE_COUNT;
}

static HloModule *make_form(const Form *form, HloType type, HloText *text) {
    HloText message = {0};
    hlo_text_format(text, "HloModule m%s\n\n", form->header);
    cases_with_type(text, form->computations, type);
    hlo_text_string(text, "\nENTRY e {\n ");
    cases_with_type(text, form->body, type);
    hlo_text_string(text, "\n}\n");
    HloModule *module = compiled_parse(text->data, &message);
    hlo_text_free(&message);
    return module;
}

// Enough elements that what is written past their end is no padding.
static HloModule *make_elementwise(HloOpcode opcode, HloType type, HloText *text) {
    const HloOpInfo *info = hlo_op_info(opcode);
    HloText message = {0};
    hlo_text_string(text, "HloModule m\nENTRY e {\n");
    for (int i = 0; i < info->arity; i++)
        hlo_text_format(text, "p%d = %s[57] parameter(%d)\n", i,
                        opcode == HLO_OP_SELECT && i == 0 ? "pred" : hlo_type_text(type), i);
    hlo_text_format(text, "ROOT r = %s%s(p0%s%s)%s\n}\n", opcode == HLO_OP_REDUCE_PRECISION ? hlo_type_text(type) : "",
                    opcode == HLO_OP_REDUCE_PRECISION ? "[57] reduce-precision" : info->text,
                    info->arity > 1 ? ", p1" : "", info->arity > 2 ? ", p2" : "",
                    opcode == HLO_OP_COMPARE            ? ", direction=NE"
                    : opcode == HLO_OP_REDUCE_PRECISION ? ", exponent_bits=4, mantissa_bits=3"
                                                        : "");
    HloModule *module = compiled_parse(text->data, &message);
    hlo_text_free(&message);
    return module;
}

static bool verifies(const HloModule *module) {
    HloStatus status = hlo_verify(module);
    const bool good = !status;
    if (status) cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "%s", hlo_status_message(status));
    hlo_status_free(status);
    return good;
}

// A copy of `shape` whose array number *leaf has the type; counts down.
static const HloShape *bent_shape(HloArena *arena, const HloShape *shape, int *leaf, HloType type) {
    if (hlo_shape_is_tuple(shape)) {
        const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, shape->element_count);
        for (int32_t i = 0; i < shape->element_count; i++)
            elements[i] = bent_shape(arena, shape->elements[i], leaf, type);
        return hlo_shape_tuple(arena, elements, shape->element_count);
    }
    return (*leaf)-- == 0 && hlo_shape_is_array(shape) ? hlo_shape_with_type(arena, shape, type) : shape;
}

static void bend(HloModule *module, HloInstruction *instruction, const char *text, BentVisit *visit) {
    const HloShape *whole = instruction->shape;
    for (int leaf = 0; leaf < hlo_shape_leaf_count(whole); leaf++) {
        for (int t = 0; t < HLO_TYPE_COUNT; t++) {
            if (hlo_type_info((HloType)t)->bits == 0) continue;
            int at = leaf;
            HloArena *arena = hlo_arena_new();
            instruction->shape = bent_shape(arena, whole, &at, (HloType)t);
            const bool same = hlo_shape_equal(instruction->shape, whole, HLO_COMPARE_IGNORE_LAYOUT);
            if (!same && verifies(module)) visit(module, instruction, text);
            instruction->shape = whole;
            hlo_arena_free(arena);
        }
    }
}

void bent_for_each(int number, BentVisit *visit) {
    const HloOpcode opcode = number < FORMS ? kForms[number].opcode : (HloOpcode)(number - FORMS);
    if (number >= FORMS && !hlo_op_is(opcode, HLO_OP_IS_ELEMENTWISE)) return;
    for (size_t b = 0; b < HLO_COUNT_OF(kBases); b++) {
        HloText text = {0};
        HloModule *module =
            number < FORMS ? make_form(&kForms[number], kBases[b], &text) : make_elementwise(opcode, kBases[b], &text);
        if (module && verifies(module)) {
            for (int64_t c = 0; c < module->computations.count; c++)
                for (HloInstruction *i = module->computations.items[c]->first; i; i = i->next)
                    bend(module, i, text.data, visit);
        }
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}
