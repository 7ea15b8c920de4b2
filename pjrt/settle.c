// SPDX-License-Identifier: Apache-2.0
// The layouts of a program's arguments and results: what JAX leaves to the machine ("default") or to the compiler
// ("auto") is chosen here, once the program of one device and so the sizes of its arrays are known.
// Layouts are names (arrays are row-major in memory), but programs ask for them and are told them, so they are chosen
// as the real compiler would: what was given stays, defaults follow the machine's tiling, and free ones follow the data
// through transposes, so that none of those would move anything.
#include <assert.h>
#include <string.h>

#include "hlo/stablehlo/stablehlo.h"
#include "pjrt/objects.h"
#include "pjrt/options.h"

// ---- what the program says

typedef enum Mode { MODE_DEFAULT, MODE_AUTO, MODE_GIVEN } Mode;

// Takes the attribute `key` off the module; its value, or NULL.
static const char *take_attribute(HloModule *module, const char *key) {
    const char *value = NULL;
    HloKeyValue *items = HLO_ARENA_NEW(module->arena, HloKeyValue, module->frontend_attributes.count + 1);
    int64_t count = 0;
    for (int64_t i = 0; i < module->frontend_attributes.count; i++) {
        const HloKeyValue item = module->frontend_attributes.items[i];
        if (strcmp(item.key, key) == 0)
            value = item.value;
        else
            items[count++] = item;
    }
    module->frontend_attributes = (HloKeyValues){items, count};
    return value;
}

// The mode at *at, "default;auto;{0,1}", moved behind it; the default where the list has ended.
static Mode next_mode(const char **at) {
    if (!*at) return MODE_DEFAULT;
    const size_t length = strcspn(*at, ";");
    Mode mode = MODE_GIVEN;
    if (length == strlen("default") && strncmp(*at, "default", length) == 0) mode = MODE_DEFAULT;
    if (length == strlen("auto") && strncmp(*at, "auto", length) == 0) mode = MODE_AUTO;
    *at = (*at)[length] ? *at + length + 1 : NULL;
    return mode;
}

// ---- what the compile options ask for

// The mode that stands in a list for this shape: its layout, or as the program has it where there is none.
static void append_mode(HloText *text, const HloShape *asked, const char **program) {
    assert(text && asked && program);
    const char *start = *program;
    (void)next_mode(program);
    const size_t length = start ? (*program ? (size_t)(*program - start) - 1 : strlen(start)) : 0;
    if (asked->layout)
        pjrt_layout_print(text, asked);
    else
        hlo_text_format(text, "%.*s", start ? (int)length : (int)strlen("default"), start ? start : "default");
}

// The list of modes `key` with the layouts of `asked` in it: whoever settles the layouts finds them given.
static void note_asked(HloModule *module, const char *key, const HloShape *const *asked, int64_t count) {
    const char *program = take_attribute(module, key);
    HloText text = {0};
    for (int64_t i = 0; i < count; i++) {
        if (i) hlo_text_char(&text, ';');
        append_mode(&text, asked[i], &program);
    }
    if (count) hlo_module_set_frontend_attribute(module, key, hlo_text_to_arena(module->arena, &text));
}

// The program's shape with the layouts that `asked` has; the memory is the one that the program names.
// The shapes are equal but for layouts (check_asked()), so both trees have the same form.
static const HloShape *asked_for(HloArena *arena, const HloShape *shape, const HloShape *asked) {
    assert(hlo_shape_equal(shape, asked, HLO_COMPARE_IGNORE_LAYOUT));
    if (hlo_shape_is_tuple(shape)) {
        const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, shape->element_count + 1);
        for (int32_t i = 0; i < shape->element_count; i++)
            elements[i] = asked_for(arena, shape->elements[i], asked->elements[i]);
        return hlo_shape_tuple(arena, elements, shape->element_count);
    }
    if (!hlo_shape_is_array(shape) || !asked->layout) return shape;
    HloLayout *layout = hlo_arena_copy(arena, hlo_shape_copy(arena, asked)->layout, sizeof(HloLayout));
    if (shape->layout) layout->memory_space = shape->layout->memory_space;
    return hlo_shape_with_layout(arena, shape, layout);
}

static HloStatus check_asked(const HloShape *shape, const HloShape *asked, const char *what, int64_t index) {
    assert(shape && asked && what);
    if (hlo_shape_equal(shape, asked, HLO_COMPARE_IGNORE_LAYOUT)) return HLO_SUCCESS;
    HloText texts[2] = {{0}, {0}};
    hlo_shape_print(&texts[0], asked, false);
    hlo_shape_print(&texts[1], shape, false);
    HloStatus status = hlo_text_status(&texts[0]);
    if (!status) status = hlo_text_status(&texts[1]);
    if (!status)
        status = hlo_error(HLO_INVALID_ARGUMENT, "the compile options say %s for %s %lld, which is %s", texts[0].data,
                           what, (long long)index, texts[1].data);
    hlo_text_free(&texts[0]);
    hlo_text_free(&texts[1]);
    return status;
}

static HloStatus ask_arguments(HloModule *module, const PjrtCompileOptions *options, bool is_mlir) {
    const int64_t count = module->entry->parameters.count;
    HLO_FAIL_IF(options->argument_shape_count != count, HLO_INVALID_ARGUMENT,
                "the compile options have layouts of %lld arguments; the program takes %lld",
                (long long)options->argument_shape_count, (long long)count);
    const HloShape **shapes = HLO_ARENA_NEW(module->arena, const HloShape *, count + 1);
    for (int64_t i = 0; i < count; i++) {
        const HloShape *asked = options->argument_shapes[i], *shape = module->entry->parameters.items[i]->shape;
        if (module->entry_parameter_layouts) shape = module->entry_parameter_layouts[i];
        HLO_TRY(check_asked(shape, asked, "argument", i));
        shapes[i] = asked_for(module->arena, shape, asked);
    }
    module->entry_parameter_layouts = shapes;
    module->entry_parameter_layout_count = count;
    if (is_mlir) note_asked(module, HLO_ARGUMENT_LAYOUT_MODES, options->argument_shapes, count);
    return HLO_SUCCESS;
}

static HloStatus ask_result(HloModule *module, const HloShape *asked, bool is_mlir) {
    assert(module->entry && asked);
    const HloShape *result = module->entry_result_layout ? module->entry_result_layout : module->entry->root->shape;
    HLO_TRY(check_asked(result, asked, "result", 0));
    module->entry_result_layout = asked_for(module->arena, result, asked);
    if (!is_mlir) return HLO_SUCCESS;
    const bool tuple = hlo_shape_is_tuple(asked);
    note_asked(module, HLO_RESULT_LAYOUT_MODES, tuple ? asked->elements : &asked, tuple ? asked->element_count : 1);
    return HLO_SUCCESS;
}

HloStatus pjrt_ask_layouts(HloModule *module, const PjrtCompileOptions *options, bool is_mlir) {
    assert(module->entry && options);
    if (options->argument_shape_count) HLO_TRY(ask_arguments(module, options, is_mlir));
    return options->result_shape ? ask_result(module, options->result_shape, is_mlir) : HLO_SUCCESS;
}

// ---- where an array lies

typedef struct Settling {
    HloModule *module;
    const TargetDevice *device;
} Settling;

// The shape with its dimensions in this order (NULL: the machine's), tiled as the machine does, where it lies now.
// Returns a new shape in the module's arena; the memory that the old one lies in is kept, as only order and tiles are
// chosen here.
static const HloShape *lay_out(const Settling *settling, const HloShape *shape, const HloInts *order) {
    HloArena *arena = settling->module->arena;
    const TargetMemory *memory = target_device_memory(settling->device, target_memory_kind_of(shape));
    assert(!order || order->count == shape->rank);
    HloLayout *layout = hlo_arena_copy(arena, target_memory_layout(memory, shape, order, arena), sizeof(HloLayout));
    layout->memory_space = hlo_shape_memory_space(shape);
    return hlo_shape_with_layout(arena, shape, layout);
}

// An order without tiles gets the machine's.
static HloStatus keep_given(const Settling *settling, const HloShape **shape) {
    const HloLayout *layout = (*shape)->layout;
    if (!layout || layout->minor_to_major.count != (*shape)->rank) {
        *shape = lay_out(settling, *shape, NULL);
        return HLO_SUCCESS;
    }
    bool descending = layout->tile_count == 0;
    for (int32_t i = 0; i < (*shape)->rank; i++)
        descending &= layout->minor_to_major.items[i] == (*shape)->rank - 1 - i;
    HLO_FAIL_IF(target_memory_kind_of(*shape) == TARGET_MEMORY_UNPINNED_HOST && !descending, HLO_INVALID_ARGUMENT,
                "an argument or result in unpinned_host memory wants another order than row-major");
    if (layout->tile_count == 0) *shape = lay_out(settling, *shape, &layout->minor_to_major);
    return HLO_SUCCESS;
}

// ---- where the compiler may choose

// The operand whose order of dimensions the instruction keeps, or NULL: elementwise ops follow the first array that is
// no mere scalar spread out, collectives and cuts their first one.
static const HloInstruction *source_of(const HloInstruction *at) {
    if (at->operand_count == 0 || !hlo_shape_is_array(at->shape)) return NULL;
    switch (at->opcode) {
        case HLO_OP_TRANSPOSE:
        case HLO_OP_COPY:
        case HLO_OP_ALL_REDUCE:
        case HLO_OP_ALL_GATHER:
        case HLO_OP_REDUCE_SCATTER:
        case HLO_OP_COLLECTIVE_PERMUTE:
        case HLO_OP_DYNAMIC_SLICE:
        case HLO_OP_SLICE:
        case HLO_OP_PAD: break;
        default:
            if (!hlo_op_is(at->opcode, HLO_OP_IS_ELEMENTWISE)) return NULL;
    }
    for (int32_t i = 0; i < at->operand_count; i++) {
        const HloInstruction *operand = at->operands[i];
        if (hlo_shape_is_array(operand->shape) && operand->shape->rank == at->shape->rank &&
            !hlo_is(operand, HLO_OP_BROADCAST) && !hlo_is(operand, HLO_OP_CONSTANT))
            return operand;
    }
    return NULL;
}

// The order in which no transpose on the way to a result moves anything: its dimensions are followed back to a
// parameter, to a layout that the program asked for inside, or to an array that is row-major.
static HloInts free_order(HloArena *arena, const HloInstruction *at) {
    const int32_t rank = at->shape->rank;
    int64_t *place = HLO_ARENA_NEW(arena, int64_t, rank + 1);  // where each dimension of the result is in `at`
    int64_t *order = HLO_ARENA_NEW(arena, int64_t, rank + 1);
    for (int32_t d = 0; d < rank; d++) place[d] = d;
    for (const HloInstruction *source; (source = source_of(at)); at = source) {
        if (!hlo_is(at, HLO_OP_TRANSPOSE)) continue;
        const HloInts permutation = HLO_ATTRIBUTES(at, Dimensions)->dimensions;
        for (int32_t d = 0; d < rank; d++) place[d] = permutation.items[place[d]];
    }
    const HloLayout *base = at->shape->layout;
    for (int32_t k = 0; k < rank; k++) {
        const int64_t dim = base && base->minor_to_major.count == rank ? base->minor_to_major.items[k] : rank - 1 - k;
        for (int32_t d = 0; d < rank; d++)
            if (place[d] == dim) order[k] = d;
    }
    return (HloInts){order, rank};
}

// Of free arguments, where nothing says more.
static HloInts row_major(HloArena *arena, int32_t rank) {
    int64_t *order = HLO_ARENA_NEW(arena, int64_t, rank + 1);
    for (int32_t i = 0; i < rank; i++) order[i] = rank - 1 - i;
    return (HloInts){order, rank};
}

// ---- arguments and results

// `made_by` is a result's instruction, NULL for an argument.
static HloStatus settle(const Settling *settling, Mode mode, const HloInstruction *made_by, const HloShape **shape) {
    if (!hlo_shape_is_array(*shape)) return HLO_SUCCESS;
    if (mode == MODE_GIVEN) return keep_given(settling, shape);
    if (mode == MODE_DEFAULT || target_memory_kind_of(*shape) == TARGET_MEMORY_UNPINNED_HOST) {
        *shape = lay_out(settling, *shape, NULL);
        return HLO_SUCCESS;
    }
    HloArena *arena = settling->module->arena;
    const HloInts order = made_by ? free_order(arena, made_by) : row_major(arena, (*shape)->rank);
    *shape = lay_out(settling, *shape, &order);
    return HLO_SUCCESS;
}

// The parameter's instruction gets the same shape as the entry's layout, or the verifier would find them at odds. Modes
// are used up in the order of parameters.
static HloStatus settle_parameters(const Settling *settling, const char *modes) {
    HloModule *module = settling->module;
    const int64_t count = module->entry->parameters.count;
    const HloShape **shapes = HLO_ARENA_NEW(module->arena, const HloShape *, count + 1);
    const bool given = module->entry_parameter_layouts && module->entry_parameter_layout_count == count;
    for (int64_t i = 0; i < count; i++) {
        HloInstruction *parameter = module->entry->parameters.items[i];
        shapes[i] = given ? module->entry_parameter_layouts[i] : parameter->shape;
        HLO_TRY(settle(settling, next_mode(&modes), NULL, &shapes[i]));
        parameter->shape = shapes[i];
    }
    module->entry_parameter_layouts = shapes;
    module->entry_parameter_layout_count = count;
    return HLO_SUCCESS;
}

// A root that is no tuple instruction (a while, a call) hides where its elements come from; their free layouts fall
// back to the default.
static HloStatus settle_results(const Settling *settling, const char *modes) {
    HloModule *module = settling->module;
    const HloInstruction *root = module->entry->root;
    const HloShape *result = module->entry_result_layout ? module->entry_result_layout : root->shape;
    if (!hlo_shape_is_tuple(result)) {
        HLO_TRY(settle(settling, next_mode(&modes), root, &result));
        module->entry_result_layout = result;
        return HLO_SUCCESS;
    }
    const bool listed = hlo_is(root, HLO_OP_TUPLE) && root->operand_count == result->element_count;
    const HloShape **elements = HLO_ARENA_NEW(module->arena, const HloShape *, result->element_count + 1);
    for (int32_t i = 0; i < result->element_count; i++) {
        Mode mode = next_mode(&modes);
        if (mode == MODE_AUTO && !listed) mode = MODE_DEFAULT;  // nothing tells where the result comes from
        elements[i] = result->elements[i];
        HLO_TRY(settle(settling, mode, listed ? root->operands[i] : NULL, &elements[i]));
    }
    module->entry_result_layout = hlo_shape_tuple(module->arena, elements, result->element_count);
    return HLO_SUCCESS;
}

// To be called once a module: the attributes that say what is open are taken away.
HloStatus pjrt_settle_layouts(HloModule *module, const TargetDevice *device) {
    assert(module->entry && device);
    const Settling settling = {module, device};
    const char *arguments = take_attribute(module, HLO_ARGUMENT_LAYOUT_MODES);
    const char *results = take_attribute(module, HLO_RESULT_LAYOUT_MODES);
    HLO_TRY(settle_parameters(&settling, arguments));
    return settle_results(&settling, results);
}
