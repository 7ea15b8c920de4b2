// SPDX-License-Identifier: Apache-2.0
// Layouts of arguments and results: what JAX leaves to the machine ("default") or to the compiler ("auto") is chosen
// here, once the program of one device and so the sizes of its arrays are known.
// Given layouts stay, defaults follow the machine's tiling, and those that the compiler may choose follow the data
// through transposes, so that none of those would move anything.
#include "compile/layouts.h"

#include <assert.h>
#include <string.h>

#include "compile/resolve_layouts.h"
#include "hlo/analysis/contents.h"
#include "hlo/ir/custom_call.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/verify/verify.h"

// ---- layouts in the program

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

// The mode at *at, "default;auto;{0,1}", after which *at is moved; the default where the list has ended.
static CompileLayoutMode next_mode(const char **at) {
    if (!*at) return COMPILE_LAYOUT_DEFAULT;
    const size_t length = strcspn(*at, ";");
    CompileLayoutMode mode = COMPILE_LAYOUT_GIVEN;
    if (length == strlen("default") && strncmp(*at, "default", length) == 0) mode = COMPILE_LAYOUT_DEFAULT;
    if (length == strlen("auto") && strncmp(*at, "auto", length) == 0) mode = COMPILE_LAYOUT_AUTO;
    *at = (*at)[length] ? *at + length + 1 : NULL;
    return mode;
}

// The modes that the module's attribute `key` lists, one for each of `count` arrays, in `arena`. The attribute is taken
// off.
static CompileLayoutMode *take_modes(HloArena *arena, HloModule *module, const char *key, int64_t count) {
    const char *text = take_attribute(module, key);
    CompileLayoutMode *modes = HLO_ARENA_NEW(arena, CompileLayoutMode, count + 1);
    for (int64_t i = 0; i < count; i++) modes[i] = next_mode(&text);
    return modes;
}

// ---- layouts inside

static bool is_plain_order(const HloLayout *layout) {
    return layout->tile_count == 0 && !layout->physical_shape && layout->element_size_in_bits == 0 &&
           layout->memory_space == 0;
}

static bool is_descending(HloInts order) {
    for (int64_t i = 0; i < order.count; i++)
        if (order.items[i] != order.count - 1 - i) return false;
    return true;
}

// The shape, in which arrays that only have another order of dimensions get the default one.
static const HloShape *in_default_order(HloArena *arena, const HloShape *shape) {
    if (hlo_shape_is_tuple(shape)) {
        const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, shape->element_count + 1);
        bool same = true;
        for (int32_t i = 0; i < shape->element_count; i++) {
            elements[i] = in_default_order(arena, shape->elements[i]);
            same &= elements[i] == shape->elements[i];
        }
        return same ? shape : hlo_shape_tuple(arena, elements, shape->element_count);
    }
    const HloLayout *layout = hlo_shape_is_array(shape) ? shape->layout : NULL;
    if (!layout || is_descending(layout->minor_to_major) || !is_plain_order(layout)) return shape;
    return hlo_shape_with_default_layout(arena, hlo_shape_without_layout(arena, shape));
}

// The program's results are its root and, where that is a tuple, what it lists.
static bool is_result(const HloModule *module, const HloInstruction *at) {
    const HloInstruction *root = module->entry->root;
    if (at == root || !hlo_is(root, HLO_OP_TUPLE)) return at == root;
    for (int64_t i = 0; i < at->users.count; i++)
        if (at->users.items[i] == root) return true;
    return false;
}

// JAX asks for the order of columns that the host's LAPACK wants; our routines take matrices in any order.
static bool is_routine(const HloInstruction *at) {
    return hlo_is(at, HLO_OP_CUSTOM_CALL) && hlo_custom_call_kind(at) == HLO_CALL_BATCHED;
}

static bool asks_for_order(const HloInstruction *at) {
    return hlo_is(at, HLO_OP_COPY) || (hlo_is(at, HLO_OP_CUSTOM_CALL) && !is_routine(at));
}

static void forget_operand_layouts(HloInstruction *call) {
    HloCustomCallAttributes attributes = *HLO_ATTRIBUTES(call, CustomCall);
    attributes.operand_layouts = (HloShapes){0};
    hlo_instruction_set_attributes(call, &attributes);
}

// Whether an instruction has the order that XLA's shape inference gives it: that of its operand, moved by a transpose.
static bool derives_order(const HloInstruction *at) {
    if (asks_for_order(at) || !hlo_shape_is_array(at->shape) || !at->shape->layout) return false;
    if (is_routine(at) || (hlo_is(at, HLO_OP_GET_TUPLE_ELEMENT) && is_routine(at->operands[0]))) return true;
    const HloInts order = at->shape->layout->minor_to_major;
    for (int32_t k = 0; k < at->operand_count; k++) {
        const HloShape *from = at->operands[k]->shape;
        if (!hlo_shape_is_array(from) || !from->layout || from->layout->minor_to_major.count != order.count) continue;
        bool same = true;
        for (int64_t i = 0; i < order.count; i++) {
            const int64_t dim = hlo_is(at, HLO_OP_TRANSPOSE)
                                    ? HLO_ATTRIBUTES(at, Dimensions)->dimensions.items[order.items[i]]
                                    : order.items[i];
            same &= from->layout->minor_to_major.items[i] == dim;
        }
        if (same) return true;
    }
    return false;
}

// The shape of a result in the header: in the default order if the header only repeats what its instruction derives.
static const HloShape *forget_result(HloArena *arena, const HloShape *given, const HloInstruction *at) {
    const bool derived = derives_order(at) && hlo_shape_equal(given, at->shape, HLO_COMPARE_ALL);
    return derived ? in_default_order(arena, given) : given;
}

// Before the instructions forget theirs.
static void forget_results(HloModule *module) {
    const HloInstruction *root = module->entry->root;
    const HloShape *given = module->entry_result_layout;
    if (!given) return;
    if (!hlo_is(root, HLO_OP_TUPLE)) {
        module->entry_result_layout = forget_result(module->arena, given, root);
        return;
    }
    const HloShape **elements = HLO_ARENA_NEW(module->arena, const HloShape *, root->operand_count + 1);
    for (int32_t i = 0; i < root->operand_count; i++)
        elements[i] = forget_result(module->arena, given->elements[i], root->operands[i]);
    module->entry_result_layout = hlo_shape_tuple(module->arena, elements, root->operand_count);
}

void compile_forget_derived_layouts(HloModule *module, bool results) {
    assert(module->entry);
    if (hlo_module_has(module, HLO_OP_FUSION) || hlo_module_has(module, HLO_OP_BITCAST)) return;
    if (results) forget_results(module);
    for (int64_t c = 0; c < module->computations.count; c++) {
        const bool entry = module->computations.items[c] == module->entry;
        for (HloInstruction *i = module->computations.items[c]->first; i; i = i->next) {
            const bool keeps = entry && (hlo_is(i, HLO_OP_PARAMETER) || (!results && is_result(module, i)));
            if (!keeps && !asks_for_order(i)) i->shape = in_default_order(module->arena, i->shape);
            if (is_routine(i)) forget_operand_layouts(i);
        }
    }
}

// ---- layouts that the caller requests

// The program's shape with the layouts of `asked`; the memory is the one that the program names. The shapes are equal
// except for layouts (check_asked()), so both trees have the same form.
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

static HloStatus ask_arguments(HloModule *module, const CompileLayouts *layouts, CompileLayoutMode *modes) {
    const int64_t count = module->entry->parameters.count;
    HLO_FAIL_IF(layouts->argument_count != count, HLO_INVALID_ARGUMENT,
                "the compile options have layouts of %lld arguments; the program takes %lld",
                (long long)layouts->argument_count, (long long)count);
    const HloShape **shapes = HLO_ARENA_NEW(module->arena, const HloShape *, count + 1);
    for (int64_t i = 0; i < count; i++) {
        const HloShape *asked = layouts->arguments[i], *shape = module->entry->parameters.items[i]->shape;
        if (module->entry_parameter_layouts) shape = module->entry_parameter_layouts[i];
        HLO_TRY(check_asked(shape, asked, "argument", i));
        shapes[i] = asked_for(module->arena, shape, asked);
        if (asked->layout) modes[i] = COMPILE_LAYOUT_GIVEN;
    }
    module->entry_parameter_layouts = shapes;
    module->entry_parameter_layout_count = count;
    return HLO_SUCCESS;
}

static HloStatus ask_result(HloModule *module, const HloShape *asked, CompileLayoutMode *modes) {
    assert(module->entry && asked);
    const HloShape *result = module->entry_result_layout ? module->entry_result_layout : module->entry->root->shape;
    HLO_TRY(check_asked(result, asked, "result", 0));
    module->entry_result_layout = asked_for(module->arena, result, asked);
    const bool tuple = hlo_shape_is_tuple(asked);
    for (int32_t i = 0; i < (tuple ? asked->element_count : 1); i++)
        if ((tuple ? asked->elements[i] : asked)->layout) modes[i] = COMPILE_LAYOUT_GIVEN;
    return HLO_SUCCESS;
}

// A module whose layouts stay open keeps its attributes for the code that resolves them.
HloStatus compile_ask_layouts(HloModule *module, const CompileLayouts *layouts, HloArena *arena,
                              CompileEntryLayouts *entry) {
    assert(module->entry && layouts);
    if (!layouts->open && !layouts->argument_count && !layouts->result) return HLO_SUCCESS;
    const HloShape *result = module->entry->root->shape;
    const int64_t results = hlo_shape_is_tuple(result) ? result->element_count : 1;
    CompileLayoutMode *arguments =
        take_modes(arena, module, HLO_ARGUMENT_LAYOUT_MODES, module->entry->parameters.count);
    CompileLayoutMode *modes = take_modes(arena, module, HLO_RESULT_LAYOUT_MODES, results);
    if (layouts->argument_count) HLO_TRY(ask_arguments(module, layouts, arguments));
    if (layouts->result) HLO_TRY(ask_result(module, layouts->result, modes));
    *entry = (CompileEntryLayouts){arguments, module->entry->parameters.count, modes, results};
    return layouts->argument_count || layouts->result ? hlo_verify(module) : HLO_SUCCESS;
}

// ---- resolving layouts

typedef struct Resolution {
    HloModule *module;
    const CompileLayouts *layouts;
} Resolution;

// Returns a new shape in the module's arena with its dimensions in this order (NULL: the machine's) and the machine's
// tiles for its current memory. The memory is kept, as only order and tiles are chosen here.
static const HloShape *lay_out(const Resolution *resolution, const HloShape *shape, const HloInts *order) {
    HloArena *arena = resolution->module->arena;
    const CompileLayouts *layouts = resolution->layouts;
    assert(!order || order->count == shape->rank);
    HloLayout *layout =
        hlo_arena_copy(arena, layouts->machine(layouts->context, arena, shape, order), sizeof(HloLayout));
    layout->memory_space = hlo_shape_memory_space(shape);
    return hlo_shape_with_layout(arena, shape, layout);
}

// An order without tiles gets the machine's.
static HloStatus keep_given(const Resolution *resolution, const HloShape **shape) {
    const HloLayout *layout = (*shape)->layout;
    if (!layout || layout->minor_to_major.count != (*shape)->rank) {
        *shape = lay_out(resolution, *shape, NULL);
        return HLO_SUCCESS;
    }
    bool descending = layout->tile_count == 0;
    for (int32_t i = 0; i < (*shape)->rank; i++)
        descending &= layout->minor_to_major.items[i] == (*shape)->rank - 1 - i;
    HLO_FAIL_IF(hlo_shape_memory_space(*shape) == HLO_SPACE_UNPINNED_HOST && !descending, HLO_INVALID_ARGUMENT,
                "an argument or result in unpinned_host memory has a layout that is not row-major");
    if (layout->tile_count == 0) *shape = lay_out(resolution, *shape, &layout->minor_to_major);
    return HLO_SUCCESS;
}

// ---- where the compiler may choose

// The operand whose order of dimensions the instruction keeps, or NULL: elementwise ops follow the first array that is
// not just a broadcast scalar, collectives and slices their first operand.
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
// parameter, to a layout that the program specifies inside, or to an array that is row-major.
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

// The order of unconstrained arguments.
static HloInts row_major(HloArena *arena, int32_t rank) {
    int64_t *order = HLO_ARENA_NEW(arena, int64_t, rank + 1);
    for (int32_t i = 0; i < rank; i++) order[i] = rank - 1 - i;
    return (HloInts){order, rank};
}

// ---- arguments and results

// `made_by` is a result's instruction, NULL for an argument.
static HloStatus resolve(const Resolution *resolution, CompileLayoutMode mode, const HloInstruction *made_by,
                         const HloShape **shape) {
    if (!hlo_shape_is_array(*shape)) return HLO_SUCCESS;
    if (mode == COMPILE_LAYOUT_GIVEN) return keep_given(resolution, shape);
    if (mode == COMPILE_LAYOUT_DEFAULT || hlo_shape_memory_space(*shape) == HLO_SPACE_UNPINNED_HOST) {
        *shape = lay_out(resolution, *shape, NULL);
        return HLO_SUCCESS;
    }
    HloArena *arena = resolution->module->arena;
    const HloInts order = made_by ? free_order(arena, made_by) : row_major(arena, (*shape)->rank);
    *shape = lay_out(resolution, *shape, &order);
    return HLO_SUCCESS;
}

// The mode of array number `index` of a list; the default after its end.
static CompileLayoutMode mode_at(const CompileLayoutMode *modes, int64_t count, int64_t index) {
    return index < count ? modes[index] : COMPILE_LAYOUT_DEFAULT;
}

// The parameter's instruction gets the same shape as the entry's layout, or the verifier would find them at odds.
static HloStatus resolve_parameters(const Resolution *resolution, const CompileEntryLayouts *entry) {
    HloModule *module = resolution->module;
    const int64_t count = module->entry->parameters.count;
    const HloShape **shapes = HLO_ARENA_NEW(module->arena, const HloShape *, count + 1);
    const bool given = module->entry_parameter_layouts && module->entry_parameter_layout_count == count;
    for (int64_t i = 0; i < count; i++) {
        HloInstruction *parameter = module->entry->parameters.items[i];
        shapes[i] = given ? module->entry_parameter_layouts[i] : parameter->shape;
        HLO_TRY(resolve(resolution, mode_at(entry->arguments, entry->argument_count, i), NULL, &shapes[i]));
        parameter->shape = shapes[i];
    }
    module->entry_parameter_layouts = shapes;
    module->entry_parameter_layout_count = count;
    return HLO_SUCCESS;
}

// A root that is not a tuple instruction (a while, a call) hides where its elements come from; their free layouts fall
// back to the default.
static HloStatus resolve_results(const Resolution *resolution, const CompileEntryLayouts *entry) {
    HloModule *module = resolution->module;
    const HloInstruction *root = module->entry->root;
    const HloShape *result = module->entry_result_layout ? module->entry_result_layout : root->shape;
    if (!hlo_shape_is_tuple(result)) {
        HLO_TRY(resolve(resolution, mode_at(entry->results, entry->result_count, 0), root, &result));
        module->entry_result_layout = result;
        return HLO_SUCCESS;
    }
    const bool listed = hlo_is(root, HLO_OP_TUPLE) && root->operand_count == result->element_count;
    const HloShape **elements = HLO_ARENA_NEW(module->arena, const HloShape *, result->element_count + 1);
    for (int32_t i = 0; i < result->element_count; i++) {
        CompileLayoutMode mode = mode_at(entry->results, entry->result_count, i);
        if (mode == COMPILE_LAYOUT_AUTO && !listed) mode = COMPILE_LAYOUT_DEFAULT;
        elements[i] = result->elements[i];
        HLO_TRY(resolve(resolution, mode, listed ? root->operands[i] : NULL, &elements[i]));
    }
    module->entry_result_layout = hlo_shape_tuple(module->arena, elements, result->element_count);
    return HLO_SUCCESS;
}

HloStatus compile_resolve_layouts(HloModule *module, const CompileLayouts *layouts, const CompileEntryLayouts *entry) {
    assert(module->entry && layouts->machine);
    const Resolution resolution = {module, layouts};
    HLO_TRY(resolve_parameters(&resolution, entry));
    return resolve_results(&resolution, entry);
}
