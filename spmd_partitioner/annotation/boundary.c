// SPDX-License-Identifier: Apache-2.0
// The global arrays of a partitioned module. The program of one device has local shapes only, but splitting inputs and
// joining results takes the global ones. Shardings are annotated on the parameters and the root. Global sizes do not
// follow from them when a dimension is padded, so they are kept in a frontend attribute, which every format of a module
// carries.
//
//     %p = f32[3]{0} parameter(0), sharding={devices=[4]<=[4]}, frontend_attributes={meshlo.global_dims="10"}
// Four shards of 3 hold 10 elements; without the attribute they would be read as 12. The leaves of a tuple are
// separated by semicolons: "10;64,32".
//
// The attributes are written at the end of partitioning (spmd_boundary_write()) and read back from any module
// (spmd_boundary_new()), also from one that went through a file or that XLA partitioned. The module attribute
// meshlo.partitioned keeps a program from being partitioned twice.
#include "spmd_partitioner/boundary.h"

#include <assert.h>
#include <string.h>

static const char partitioned_key[] = "meshlo.partitioned", dims_key[] = HLO_GLOBAL_DIMS_KEY;

// The first attribute of that name counts; "false" means no.
bool spmd_is_partitioned(const HloModule *module) {
    for (int64_t i = 0; i < module->frontend_attributes.count; i++) {
        const HloKeyValue *attribute = &module->frontend_attributes.items[i];
        if (!strcmp(attribute->key, partitioned_key)) return !strcmp(attribute->value, "true");
    }
    return false;
}

// ---- writing ----

// "8,128;4": the dims of each leaf.
// Tokens and scalars are empty items, so that the number of items is that of the leaves.
static const char *dims_text(HloArena *arena, const HloShape *shape) {
    HloText text = {0};
    int64_t leaves = hlo_shape_leaf_count(shape);
    for (int64_t i = 0; i < leaves; i++) {
        const HloShape *leaf = hlo_shape_leaf(shape, i);
        if (i) hlo_text_char(&text, ';');
        for (int32_t d = 0; d < leaf->rank; d++) hlo_text_format(&text, d ? ",%lld" : "%lld", (long long)leaf->dims[d]);
    }
    return hlo_text_to_arena(arena, &text);
}

// Foreign device orders (convert.c) are written as the list that the annotation had.
static const HloSharding *written(const SpmdPlan *plan, HloArena *arena, const SpmdArray *array) {
    return spmd_sharding_to_hlo(arena, plan->mesh, array->sharding, array->devices);
}

// A leaf that is no array has an array's entry in the plan too, so every leaf gets a sharding.
static void write_parameters(const SpmdPlan *plan, HloModule *module) {
    assert(module->entry);
    for (int64_t p = 0; p < module->entry->parameters.count; p++) {
        const HloInstruction *source = plan->module->entry->parameters.items[p];
        HloInstruction *parameter = module->entry->parameters.items[p];
        int64_t count = hlo_shape_leaf_count(source->shape);
        const HloSharding **leaves = HLO_ARENA_NEW(module->arena, const HloSharding *, count + 1);
        for (int64_t i = 0; i < count; i++) leaves[i] = written(plan, module->arena, spmd_plan_array(plan, source, i));
        bool tuple = hlo_shape_is_tuple(source->shape);
        parameter->sharding = tuple ? hlo_sharding_tuple(module->arena, leaves, count) : leaves[0];
        hlo_instruction_set_frontend_attribute(parameter, dims_key, dims_text(module->arena, source->shape));
    }
}

SpmdResultMarks spmd_boundary_take_results(HloModule *module) {
    HloInstruction *root = module->entry->root;
    const SpmdResultMarks marks = {root->sharding, hlo_instruction_frontend_attribute(root, dims_key)};
    // A parameter's annotations are its own, and a copy of one is there to carry the result's.
    if (hlo_is(root, HLO_OP_PARAMETER) || (hlo_is(root, HLO_OP_COPY) && hlo_is(root->operands[0], HLO_OP_PARAMETER)))
        return (SpmdResultMarks){0};
    root->sharding = NULL;
    root->frontend_attributes = hlo_key_values_without(module->arena, root->frontend_attributes, dims_key);
    return marks;
}

void spmd_boundary_put_results(HloModule *module, const SpmdResultMarks *marks) {
    HloInstruction *root = module->entry->root;
    if (!marks->sharding && !marks->dims) return;
    if (hlo_is(root, HLO_OP_PARAMETER)) {
        const char *dims = hlo_instruction_frontend_attribute(root, dims_key);
        const bool same_dims = dims && marks->dims ? !strcmp(dims, marks->dims) : dims == marks->dims;
        if (same_dims && hlo_sharding_equal(root->sharding, marks->sharding)) return;
        root = hlo_instruction_new(module->entry, HLO_OP_COPY, root->shape, &root, 1, NULL, NULL);
        hlo_computation_set_root(module->entry, root);
    }
    root->sharding = marks->sharding;
    if (marks->dims) hlo_instruction_set_frontend_attribute(root, dims_key, marks->dims);
}

// The root may be any op. Its sharding is the array's, or a tuple of shardings for a tuple.
static void write_results(const SpmdPlan *plan, HloModule *module) {
    assert(module->entry);
    const HloShape *shape = plan->module->entry->root->shape;
    const HloSharding **leaves = HLO_ARENA_NEW(module->arena, const HloSharding *, plan->result_count + 1);
    for (int64_t i = 0; i < plan->result_count; i++) {
        leaves[i] = written(plan, module->arena, &plan->arrays.items[plan->results[i]]);
    }
    const bool tuple = hlo_shape_is_tuple(shape);
    const SpmdResultMarks marks = {tuple ? hlo_sharding_tuple(module->arena, leaves, plan->result_count) : leaves[0],
                                   dims_text(module->arena, shape)};
    spmd_boundary_put_results(module, &marks);
}

// Returns the shape with the layouts of `like` where ranks agree. Where the trees differ (an entry that was rewritten)
// it keeps the default layout. A layout orders dimensions, and partitioning keeps that order; tiles and memory spaces
// are copied too.
static const HloShape *with_layouts(HloArena *arena, const HloShape *shape, const HloShape *like) {
    if (!like || hlo_shape_is_tuple(shape) != hlo_shape_is_tuple(like))
        return hlo_shape_with_default_layout(arena, shape);
    if (!hlo_shape_is_tuple(shape)) {
        if (!hlo_shape_is_array(shape)) return shape;
        if (like->rank != shape->rank || !like->layout) return hlo_shape_with_default_layout(arena, shape);
        return hlo_shape_with_layout(arena, shape, hlo_shape_copy(arena, like)->layout);
    }
    const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, shape->element_count);
    for (int32_t i = 0; i < shape->element_count; i++) {
        const HloShape *other = i < like->element_count ? like->elements[i] : NULL;
        elements[i] = with_layouts(arena, shape->elements[i], other);
    }
    return hlo_shape_tuple(arena, elements, shape->element_count);
}

// Layouts that the caller requested are those of the whole array. Dimensions keep their order when an array is sharded,
// so the layouts hold for the shards too.
static void write_layouts(const SpmdPlan *plan, HloModule *module) {
    int64_t count = module->entry->parameters.count;
    const HloShape **parameters = HLO_ARENA_NEW(module->arena, const HloShape *, count);
    bool given = plan->module->entry_parameter_layouts && plan->module->entry_parameter_layout_count == count;
    for (int64_t p = 0; p < count; p++) {
        const HloShape *like = given ? plan->module->entry_parameter_layouts[p] : NULL;
        parameters[p] = with_layouts(module->arena, module->entry->parameters.items[p]->shape, like);
    }
    module->entry_parameter_layouts = parameters;
    module->entry_parameter_layout_count = count;
    module->entry_result_layout =
        with_layouts(module->arena, module->entry->root->shape, plan->module->entry_result_layout);
}

// Donation lets a result reuse an argument's memory. When the two are sharded differently, their shards have different
// shapes and the alias is dropped. Shapes are compared as they are after partitioning. Dropping an alias loses a
// donation and changes no value.
static void drop_aliases(HloModule *module) {
    HloAlias *kept = HLO_ARENA_NEW(module->arena, HloAlias, module->aliases.count);
    int64_t count = 0;
    for (int64_t i = 0; i < module->aliases.count; i++) {
        const HloAlias *alias = &module->aliases.items[i];
        const HloShape *output = hlo_shape_at(module->entry->root->shape, alias->output_index), *input = NULL;
        if (alias->operand >= 0 && alias->operand < module->entry->parameters.count) {
            input = hlo_shape_at(module->entry->parameters.items[alias->operand]->shape, alias->operand_index);
        }
        if (output && input && hlo_shape_equal(output, input, HLO_COMPARE_IGNORE_LAYOUT)) kept[count++] = *alias;
    }
    module->aliases = (HloAliases){kept, count};
}

void spmd_boundary_write(const SpmdPlan *plan, HloModule *module) {
    write_parameters(plan, module);
    write_results(plan, module);
    write_layouts(plan, module);
    drop_aliases(module);
    spmd_boundary_mark(module);
}

// Shardy's attributes describe the program before partitioning; who reads the result must not partition by them again.
void spmd_boundary_mark(HloModule *module) {
    module->frontend_attributes = hlo_key_values_without(module->arena, module->frontend_attributes, "xla.sdy.");
    hlo_module_set_frontend_attribute(module, partitioned_key, "true");
}

// ---- reading ----

// An array's sharding may apply to all leaves of a tuple. NULL where the sharding has fewer elements than the shape has
// leaves; such a leaf counts as replicated.
static const HloSharding *leaf_sharding(const HloSharding *sharding, int64_t leaf) {
    if (sharding && sharding->kind == HLO_SHARDING_TUPLE) {
        return leaf < sharding->element_count ? sharding->elements[leaf] : NULL;
    }
    return sharding;
}

// Modules partitioned by other compilers have no attribute. The product of shard and tiles is then the best estimate;
// it is right wherever the shards are even.
static HloStatus read_array(HloArena *arena, const HloInstruction *at, int64_t leaf, SpmdBoundaryArray *array) {
    assert(leaf >= 0 && array);
    array->local = hlo_shape_leaf(at->shape, leaf);
    array->sharding = leaf_sharding(at->sharding, leaf);
    if (!array->sharding) array->sharding = hlo_sharding_simple(arena, HLO_SHARDING_REPLICATED);
    array->global = array->local;
    if (!hlo_shape_is_array(array->local)) return HLO_SUCCESS;
    const char *text = hlo_instruction_frontend_attribute(at, dims_key);
    const int64_t *dims = hlo_global_dims(arena, text, leaf, array->local->rank);
    if (!dims) {
        int64_t *product = HLO_ARENA_NEW(arena, int64_t, array->local->rank + 1);
        for (int32_t d = 0; d < array->local->rank; d++) {
            product[d] = array->local->dims[d] * spmd_tiles_of_dim(array->sharding, d);
        }
        dims = product;
    }
    HLO_TRY(hlo_shape_check_dims(array->local->type, dims, array->local->rank));
    HloShape *global =
        hlo_arena_copy(arena, hlo_shape_with_dims(arena, array->local, dims, array->local->rank), sizeof *global);
    global->dynamic = array->local->dynamic;  // dimensions of dynamic size are whole on every device
    array->global = global;
    return HLO_SUCCESS;
}

typedef struct Reading {
    const HloModule *module;
    SpmdBoundary *boundary;
} Reading;

// Under hlo_protect(), as everything here that takes memory from an arena.
// Leaves in the order of the parameters, then those of the root: the numbering that client.h uses for flattened
// arguments and results.
static HloStatus read_boundary(void *argument) {
    Reading *reading = argument;
    SpmdBoundary *boundary = reading->boundary;
    const HloComputation *entry = reading->module->entry;
    for (int64_t p = 0; p < entry->parameters.count; p++) {
        boundary->parameter_count += hlo_shape_leaf_count(entry->parameters.items[p]->shape);
    }
    boundary->result_count = hlo_shape_leaf_count(entry->root->shape);
    SpmdBoundaryArray *parameters = HLO_ARENA_NEW(boundary->arena, SpmdBoundaryArray, boundary->parameter_count);
    SpmdBoundaryArray *results = HLO_ARENA_NEW(boundary->arena, SpmdBoundaryArray, boundary->result_count);
    int64_t at = 0;
    for (int64_t p = 0; p < entry->parameters.count; p++) {
        int64_t count = hlo_shape_leaf_count(entry->parameters.items[p]->shape);
        for (int64_t i = 0; i < count; i++) {
            HLO_TRY(read_array(boundary->arena, entry->parameters.items[p], i, &parameters[at++]));
        }
    }
    for (int64_t i = 0; i < boundary->result_count; i++)
        HLO_TRY(read_array(boundary->arena, entry->root, i, &results[i]));
    boundary->parameters = parameters;
    boundary->results = results;
    return HLO_SUCCESS;
}

HloStatus spmd_boundary_new(const HloModule *module, SpmdBoundary **result) {
    assert(module && result);
    HLO_FAIL_IF(!module->entry, HLO_INVALID_ARGUMENT, "the module has no entry computation");
    SpmdBoundary *boundary = hlo_allocate_zeroed(1, sizeof(*boundary));
    HloArena *arena = hlo_arena_new();
    if (!boundary || !arena) {
        hlo_free(boundary);
        hlo_arena_free(arena);
        return hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
    }
    boundary->arena = arena;
    boundary->num_partitions = module->num_partitions > 0 ? module->num_partitions : 1;
    Reading reading = {module, boundary};
    HloStatus status = hlo_protect(read_boundary, &reading);
    if (status) {
        spmd_boundary_free(boundary);
        return status;
    }
    *result = boundary;
    return HLO_SUCCESS;
}

void spmd_boundary_free(SpmdBoundary *boundary) {
    if (!boundary) return;
    hlo_arena_free(boundary->arena);
    hlo_free(boundary);
}
