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
    // Conversions name their result type; the text is complete only with it.
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
    {HLO_OP_COMPARE, "", "",
     "p = $[5] parameter(0)\n q = $[5] parameter(1)\n ROOT r = pred[5] compare(p, q), direction=LT"},
    {HLO_OP_REDUCE_PRECISION, "", "",
     "p = $[5] parameter(0)\n ROOT r = $[5] reduce-precision(p), exponent_bits=5, mantissa_bits=10"},
};

// Elementwise ops have no form of their own: number n of the cases is a form, or an opcode.
enum { FORMS = HLO_COUNT_OF(kForms) };

int bent_form_count(void) {
    return FORMS;
}

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

// Enough elements that bytes written past their end are not padding.
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

static void bend_type(HloModule *module, HloInstruction *instruction, const char *text, BentVisit *visit) {
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

// ---------------------------------------------------------------------------------------------------------------------
// Attributes

// One instruction whose attributes, a copy in `arena`, are changed in place.
typedef struct Bending {
    HloModule *module;
    HloInstruction *instruction;
    HloArena *arena;
    const char *text;
    BentVisit *visit;
} Bending;

static void try_it(const Bending *bending) {
    if (verifies(bending->module)) bending->visit(bending->module, bending->instruction, bending->text);
}

// Wraps: attributes may be the least number already.
static int64_t moved(int64_t number, int64_t by) {
    return (int64_t)((uint64_t)number + (uint64_t)by);
}

static void bend_number(const Bending *bending, const int64_t *place) {
    int64_t *number = (int64_t *)(uintptr_t)place;  // of a copy
    const int64_t was = *number;
    const int64_t others[] = {
        -1,           0, 1, 2, moved(was, 1), moved(was, -1), moved(was, INT64_C(1) << 32), INT64_C(1) << 31, INT64_MAX,
        INT64_MIN + 1};
    for (size_t i = 0; i < HLO_COUNT_OF(others); i++) {
        if (others[i] == was) continue;
        *number = others[i];
        try_it(bending);
    }
    *number = was;
}

static void bend_ints(const Bending *bending, HloInts *ints) {
    const HloInts was = *ints;
    for (int64_t i = 0; i < was.count; i++) bend_number(bending, &was.items[i]);
    int64_t *items = HLO_ARENA_NEW(bending->arena, int64_t, was.count + 1);
    for (int64_t i = 0; i < was.count; i++) items[i] = was.items[i];
    items[was.count] = was.count ? items[was.count - 1] : 0;  // the last twice
    ints->items = items;
    for (ints->count = 0; ints->count <= was.count + 1; ints->count++) {
        if (ints->count != was.count) try_it(bending);
    }
    *ints = was;
}

static void bend_integer(const Bending *bending, int32_t *value, int32_t count) {
    const int32_t was = *value;
    for (*value = -1; *value <= count; ++*value) {
        if (*value != was) try_it(bending);
    }
    *value = was;
}

static void bend_window(const Bending *bending, const HloWindow *window) {
    for (int64_t i = 0; window && i < window->count; i++) {
        const HloWindowDimension *dim = &window->dims[i];
        const int64_t *numbers[] = {&dim->size,         &dim->stride,        &dim->padding_low,
                                    &dim->padding_high, &dim->base_dilation, &dim->window_dilation};
        for (size_t k = 0; k < HLO_COUNT_OF(numbers); k++) bend_number(bending, numbers[k]);
    }
    if (!window || window->count == 0) return;
    ((HloWindow *)(uintptr_t)window)->count--;
    try_it(bending);
    ((HloWindow *)(uintptr_t)window)->count++;
}

static void bend_labels(const Bending *bending, const HloConvolutionLabels *labels) {
    if (!labels) return;
    const int64_t *numbers[] = {&labels->input_batch,           &labels->input_feature, &labels->kernel_input_feature,
                                &labels->kernel_output_feature, &labels->output_batch,  &labels->output_feature};
    const HloInts *lists[] = {&labels->input_spatial, &labels->kernel_spatial, &labels->output_spatial};
    for (size_t k = 0; k < HLO_COUNT_OF(numbers); k++) bend_number(bending, numbers[k]);
    for (size_t k = 0; k < HLO_COUNT_OF(lists); k++) bend_ints(bending, (HloInts *)(uintptr_t)lists[k]);
}

static void bend_groups(const Bending *bending, const HloReplicaGroups *groups) {
    if (!groups || groups->form != HLO_GROUPS_LIST) return;
    for (int64_t i = 0; i < groups->count; i++) bend_ints(bending, (HloInts *)(uintptr_t)&groups->groups[i]);
    int64_t *count = (int64_t *)(uintptr_t)&groups->count;
    const int64_t was = *count;
    for (*count = 0; *count < was; ++*count) try_it(bending);
}

static void bend_flag(const Bending *bending, bool *flag) {
    *flag = !*flag;
    try_it(bending);
    *flag = !*flag;
}

static void bend_field(const Bending *bending, const HloField *field, void *place) {
    const HloPadding *padding = place;
    const HloPairs *pairs = place;
    const HloIntsList *lists = place;
    switch (field->kind) {
        case HLO_FIELD_INT:
        case HLO_FIELD_OPTIONAL_INT:
        case HLO_FIELD_GROUP_COUNT: bend_number(bending, place); break;
        case HLO_FIELD_BOOL: bend_flag(bending, place); break;
        case HLO_FIELD_TRISTATE: bend_integer(bending, place, 3); break;
        case HLO_FIELD_ENUM: bend_integer(bending, place, field->enumeration->count); break;
        case HLO_FIELD_INTS: bend_ints(bending, place); break;
        case HLO_FIELD_INTS_LIST:
            for (int64_t i = 0; i < lists->count; i++) bend_ints(bending, (HloInts *)(uintptr_t)&lists->items[i]);
            break;
        case HLO_FIELD_PAIRS:
            for (int64_t i = 0; i < pairs->count; i++) {
                bend_number(bending, &pairs->items[i].source);
                bend_number(bending, &pairs->items[i].target);
            }
            break;
        case HLO_FIELD_PADDING:
            for (int64_t i = 0; i < padding->count; i++) {
                bend_number(bending, &padding->items[i].low);
                bend_number(bending, &padding->items[i].high);
                bend_number(bending, &padding->items[i].interior);
            }
            break;
        case HLO_FIELD_WINDOW: bend_window(bending, *(const HloWindow **)place); break;
        case HLO_FIELD_LABELS: bend_labels(bending, *(const HloConvolutionLabels **)place); break;
        case HLO_FIELD_REPLICA_GROUPS: bend_groups(bending, *(const HloReplicaGroups **)place); break;
        default: break;  // text, literals, shapes and shardings have tests of their own
    }
}

static void bend_attributes(HloModule *module, HloInstruction *instruction, const char *text, BentVisit *visit) {
    const HloFamily family = hlo_op_info(instruction->opcode)->family;
    const HloFamilyInfo *info = hlo_family_info(family);
    void *whole = instruction->attributes;
    if (family == HLO_FAMILY_None || !whole) return;
    HloArena *arena = hlo_arena_new();
    char *copy = hlo_attributes_copy(arena, family, whole);
    const Bending bending = {module, instruction, arena, text, visit};
    instruction->attributes = copy;
    for (int32_t i = 0; i < info->field_count; i++)
        bend_field(&bending, &info->fields[i], copy + info->fields[i].offset);
    instruction->attributes = whole;
    hlo_arena_free(arena);
}

// ---------------------------------------------------------------------------------------------------------------------

typedef void Bend(HloModule *module, HloInstruction *instruction, const char *text, BentVisit *visit);

static void for_each(int number, const HloType *bases, size_t count, Bend *change, BentVisit *visit) {
    const HloOpcode opcode = number < FORMS ? kForms[number].opcode : (HloOpcode)(number - FORMS);
    if (number >= FORMS && !hlo_op_is(opcode, HLO_OP_IS_ELEMENTWISE)) return;
    for (size_t b = 0; b < count; b++) {
        HloText text = {0};
        HloModule *module =
            number < FORMS ? make_form(&kForms[number], bases[b], &text) : make_elementwise(opcode, bases[b], &text);
        if (module && verifies(module)) {
            for (int64_t c = 0; c < module->computations.count; c++)
                for (HloInstruction *i = module->computations.items[c]->first; i; i = i->next)
                    change(module, i, text.data, visit);
        }
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}

void bent_for_each(int number, BentVisit *visit) {
    static const HloType bases[] = {HLO_F32, HLO_C64, HLO_S32, HLO_U64, HLO_PRED, HLO_F8E5M2};
    for_each(number, bases, HLO_COUNT_OF(bases), bend_type, visit);
}

void bent_attributes_for_each(int number, BentVisit *visit) {
    static const HloType bases[] = {HLO_F32, HLO_S32};  // what attributes allow hardly depends on the type
    for_each(number, bases, HLO_COUNT_OF(bases), bend_attributes, visit);
}
