// SPDX-License-Identifier: Apache-2.0
// Kinds are found in this order, and the first that fits is taken:
//
//     one number                                             scalar
//     a sum that reaches a result of a parameter's shape     gradient synchronisation; FSDP if it is scattered
//     a sum of products with experts                         experts
//     another sum                                            tensor parallelism if it adds up a product or a lookup
//     a gather of a floating-point parameter                 FSDP if the axis also shards the data, else accidental
//     an exchange before or after a batched product with
//     a parameter                                            experts
//     an all-to-all that enters attention, where another
//     one over the same axes leaves it, or leaves it         sequence parallelism (heads inside, sequence outside)
//     a permute by one step along one axis                   sequence parallelism if attention multiplies what is sent,
//                                                            pipeline if whole arrays move in a loop, else neighbours
//     a gather over axes that products are scattered over    tensor parallelism (sequence parallel)
//     a gather of rows that a scatter adds up to a gradient  gradient synchronisation
//     a shift, or an exchange of experts over axes that a
//     loop shifts its products with a weight along           pipeline
//     a gather because two arrays claim an axis              resharding
//     anything else that the partitioner added               resharding
//
// The data's axes are those that shard inputs which are not weights, and those over which gradients are added up.
// Weights are parameters that enter products on the right, or from which a result of the same shape is computed
// (training). A collective of several arrays is that of the largest.
#include "advice/classify.h"

#include <assert.h>
#include <string.h>

#include "advice/flow.h"
#include "hlo/analysis/mesh_axes.h"

// ---- names

int64_t advice_leaf_of(const HloModule *module, const HloInstruction *parameter) {
    int64_t leaf = 0;
    if (!parameter || !hlo_shape_is_array(parameter->shape)) return -1;
    for (int64_t p = 0; p < module->entry->parameters.count; p++) {
        if (module->entry->parameters.items[p] == parameter) return leaf;
        leaf += hlo_shape_leaf_count(module->entry->parameters.items[p]->shape);
    }
    return -1;
}

const char *advice_parameter_name(HloArena *arena, const HloModule *module, int64_t leaf) {
    int64_t left = leaf;
    for (int64_t p = 0; p < module->entry->parameters.count; p++) {
        const HloInstruction *parameter = module->entry->parameters.items[p];
        const int64_t leaves = hlo_shape_leaf_count(parameter->shape);
        const char *name = spmd_argument_name(parameter);
        if (left < leaves && leaves == 1 && hlo_shape_is_array(parameter->shape) && strncmp(name, "Arg_", 4) != 0)
            return hlo_arena_text(arena, name);
        if (left < leaves) break;
        left -= leaves;
    }
    return hlo_arena_format(arena, "p%lld", (long long)leaf);
}

const char *advice_name_pattern(HloArena *arena, const char *name) {
    char *out = HLO_ARENA_NEW(arena, char, strlen(name) + 1);
    size_t count = 0;
    for (const char *at = name; *at; at++) {
        const bool digit = *at >= '0' && *at <= '9';
        const bool inside = at > name && strchr("[_./", at[-1]) != NULL;
        if (digit && inside) {
            out[count++] = '*';
            while (at[1] >= '0' && at[1] <= '9') at++;
        } else {
            out[count++] = *at;
        }
    }
    out[count] = 0;
    return out;
}

const char *advice_scope(HloArena *arena, const HloInstruction *op) {
    const char *path = op->metadata && op->metadata->op_name ? op->metadata->op_name : "";
    const char *end = strrchr(path, '/');
    return advice_name_pattern(arena, hlo_arena_string(arena, path, end ? (size_t)(end - path) : strlen(path)));
}

const char *advice_moved_parameter(HloArena *arena, const HloInstruction *collective) {
    const HloInstruction *parameter =
        collective->operand_count == 1 ? advice_origin_parameter(collective->operands[0]) : NULL;
    return parameter ? advice_name_pattern(arena, spmd_argument_name(parameter)) : "";
}

const HloInstruction *advice_instruction(const HloModule *module, const SpmdCollective *collective) {
    for (int64_t c = 0; c < module->computations.count; c++) {
        if (strcmp(module->computations.items[c]->name, collective->computation) != 0) continue;
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next)
            if (!strcmp(at->name, collective->name)) return at;
    }
    return NULL;
}

const char *advice_partition_spec(HloArena *arena, const char *spec) {
    HloText text = {0};
    hlo_text_string(&text, "P(");
    for (const char *at = spec; *spec && at;) {
        const size_t length = strcspn(at, ",");
        const char *item = hlo_arena_string(arena, at, length);
        if (at != spec) hlo_text_string(&text, ", ");
        if (!strcmp(item, "-") || !*item) {
            hlo_text_string(&text, "None");
        } else if (!strcmp(item, "?")) {
            hlo_text_string(&text, "P.UNCONSTRAINED");
        } else {
            const bool several = strchr(item, '+') != NULL;
            if (several) hlo_text_char(&text, '(');
            for (const char *axis = item; axis; axis = *axis ? axis + 1 : NULL) {
                const size_t name = strcspn(axis, "+");
                hlo_text_format(&text, "%s'%.*s'", axis == item ? "" : ", ", (int)name, axis);
                axis += name;
                if (!*axis) break;
            }
            if (several) hlo_text_char(&text, ')');
        }
        at = at[length] ? at + length + 1 : NULL;
    }
    hlo_text_char(&text, ')');
    return hlo_text_to_arena(arena, &text);
}

// ---- axes

const char *advice_axes_text(const AdviceFacts *facts, uint64_t axes) {
    HloText text = {0};
    for (int64_t a = 0; a < facts->axis_limit; a++) {
        if (!(axes >> a & 1)) continue;
        hlo_text_format(&text, "%s%s", text.length ? "," : "", facts->mesh[a].name);
    }
    if (!text.length) return "";
    return hlo_text_to_arena(facts->arena, &text);
}

static uint64_t axes_of(const AdviceFacts *facts, const HloInstruction *op) {
    return hlo_collective_axes(facts->arena, facts->module, op, facts->sizes, facts->mesh_axis_count);
}

// The axes in a specification, or in its entry for one dimension (-1: all).
static uint64_t axes_in_spec(const AdviceFacts *facts, const char *spec, int32_t dimension) {
    uint64_t axes = 0;
    for (int32_t d = 0; dimension > 0 && d < dimension && spec; d++) {
        spec = strchr(spec, ',');
        spec += spec != NULL;
    }
    const size_t limit = !spec ? 0 : dimension < 0 ? strlen(spec) : strcspn(spec, ",");
    for (int64_t a = 0; limit && a < facts->axis_limit; a++) {
        const size_t length = strlen(facts->mesh[a].name);
        for (const char *at = spec; (at = strstr(at, facts->mesh[a].name)) && at < spec + limit; at += length) {
            const bool begins = at == spec || strchr(",+", at[-1]), ends = strchr(",+:", at[length]) != NULL;
            if (begins && ends) axes |= UINT64_C(1) << a;  // the end of the text counts as found too
        }
    }
    return axes;
}

// The axes that shard an array of the boundary, or one of its dimensions (-1: all).
static uint64_t axes_of_sharding(const AdviceFacts *facts, const SpmdBoundaryArray *array, int32_t dimension) {
    const char *spec;
    if (!hlo_shape_is_array(array->global) || array->global->rank == 0) return 0;
    HloStatus status =
        spmd_spec_text(facts->arena, facts->mesh, facts->mesh_axis_count, array->sharding, array->global->rank, &spec);
    const uint64_t axes = status ? 0 : axes_in_spec(facts, spec, dimension);
    hlo_status_free(status);
    return axes;
}

// The sharding of a flattened parameter in JAX's words.
static const char *spec_of(const AdviceFacts *facts, int64_t leaf) {
    const SpmdBoundaryArray *array = &facts->boundary->parameters[leaf];
    const char *spec;
    HloStatus status =
        spmd_spec_text(facts->arena, facts->mesh, facts->mesh_axis_count, array->sharding, array->global->rank, &spec);
    const bool known = !status;
    hlo_status_free(status);
    return known ? advice_partition_spec(facts->arena, spec) : "in an order of its own";
}

// The name of a flattened parameter in tables: JAX's, without numbers, or its number and shape.
static const char *display_name(const AdviceFacts *facts, int64_t leaf) {
    HloArena *arena = facts->arena;
    const char *name = advice_parameter_name(arena, facts->module, leaf);
    if (strcmp(name, hlo_arena_format(arena, "p%lld", (long long)leaf)) != 0) return advice_name_pattern(arena, name);
    HloText text = {0};
    hlo_text_format(&text, "%s ", name);
    hlo_shape_print(&text, facts->boundary->parameters[leaf].global, false);
    return hlo_text_to_arena(arena, &text);
}

// ---- facts

static bool sums(const HloInstruction *op) {
    return hlo_is(op, HLO_OP_ALL_REDUCE) || hlo_is(op, HLO_OP_ALL_REDUCE_START) || hlo_is(op, HLO_OP_REDUCE_SCATTER);
}

static bool gathers(const HloInstruction *op) {
    return hlo_is(op, HLO_OP_ALL_GATHER) || hlo_is(op, HLO_OP_ALL_GATHER_START);
}

static bool is_scalar(const HloInstruction *op) {
    for (int32_t i = 0; i < op->operand_count; i++)
        if (!hlo_shape_is_array(op->operands[i]->shape) || hlo_shape_elements(op->operands[i]->shape) > 1) return false;
    return true;
}

static bool is_weight_array(const AdviceFacts *facts, const HloInstruction *op) {
    const int64_t leaf = advice_leaf_of(facts->module, advice_origin_parameter(op));
    return leaf >= 0 && leaf < facts->boundary->parameter_count && facts->is_weight[leaf];
}

// The largest operand: what a collective of several arrays is about.
static int32_t main_operand(const HloInstruction *op) {
    int32_t best = 0;
    int64_t most = -1;
    for (int32_t i = 0; i < op->operand_count; i++) {
        const int64_t bytes = hlo_shape_bytes(op->operands[i]->shape);
        if (bytes <= most) continue;
        most = bytes;
        best = i;
    }
    return best;
}

static const HloInstruction *main_array(const HloInstruction *op) {
    return op->operands[main_operand(op)];
}

static bool same_dims(const HloShape *a, const HloShape *b) {
    return hlo_shape_is_array(a) && hlo_shape_is_array(b) && hlo_shape_equal(a, b, HLO_COMPARE_DIMS_ONLY);
}

static int64_t count_results_like(const SpmdBoundary *boundary, const HloShape *shape) {
    int64_t count = 0;
    for (int64_t r = 0; r < boundary->result_count; r++)
        count += same_dims(boundary->results[r].global, shape) && boundary->results[r].global->type == shape->type;
    return count;
}

// Of the first `limit` parameters.
static int64_t count_weights_like(const AdviceFacts *facts, const HloShape *shape, int64_t limit) {
    int64_t count = 0;
    for (int64_t p = 0; p < limit; p++) {
        const HloShape *global = facts->boundary->parameters[p].global;
        count += facts->is_weight[p] && same_dims(global, shape) && global->type == shape->type;
    }
    return count;
}

static bool is_float_array(const HloShape *shape) {
    return hlo_shape_is_array(shape) && hlo_type_is_float(shape->type);
}

// A parameter that enters products on the right alone, or is looked up in.
static void find_multiplied(AdviceFacts *facts) {
    const HloComputation *entry = facts->module->entry;
    for (int64_t p = 0; p < entry->parameters.count; p++) {
        const HloInstruction *parameter = entry->parameters.items[p];
        const int64_t leaf = advice_leaf_of(facts->module, parameter);
        if (leaf < 0 || leaf >= facts->boundary->parameter_count) continue;
        if (!is_float_array(facts->boundary->parameters[leaf].global)) continue;
        const AdviceUses uses = advice_uses(facts->arena, parameter);
        facts->is_multiplied[leaf] = uses.tables || (uses.right && !uses.left);
        facts->is_weight[leaf] = facts->is_multiplied[leaf];
    }
}

HloInt64Vector advice_updated_leaves(const AdviceFacts *facts, int64_t result) {
    const SpmdBoundary *boundary = facts->boundary;
    const HloInt64Vector numbers = advice_updated_parameters(facts->arena, facts->module, result);
    HloInt64Vector leaves = {0};
    for (int64_t i = 0; i < numbers.count; i++) {
        const HloInstruction *parameter = facts->module->entry->parameters.items[numbers.items[i]];
        const int64_t leaf = advice_leaf_of(facts->module, parameter);
        if (leaf < 0 || leaf >= boundary->parameter_count) continue;
        if (same_dims(boundary->results[result].global, boundary->parameters[leaf].global))
            hlo_vector_push(facts->arena, &leaves, leaf);
    }
    return leaves;
}

// In a program that trains, parameters from which results of their shape are computed element by element are weights
// and their moments. Gradients alone do not show whose they are: what has a result of its shape is a weight, but where
// all of these results have their weights, as in a batch of the shape of a weight.
static void find_updated(AdviceFacts *facts) {
    const SpmdBoundary *boundary = facts->boundary;
    for (int64_t r = 0; r < boundary->result_count; r++) {
        const HloInt64Vector leaves = advice_updated_leaves(facts, r);
        for (int64_t i = 0; i < leaves.count; i++)
            facts->is_weight[leaves.items[i]] |= is_float_array(boundary->parameters[leaves.items[i]].global);
    }
    bool *is_like = HLO_ARENA_NEW(facts->arena, bool, boundary->parameter_count + 1);
    for (int64_t p = 0; p < boundary->parameter_count; p++) {
        const HloShape *shape = boundary->parameters[p].global;
        is_like[p] = !facts->is_weight[p] && is_float_array(shape) &&
                     count_weights_like(facts, shape, boundary->parameter_count) < count_results_like(boundary, shape);
    }
    for (int64_t p = 0; p < boundary->parameter_count; p++) facts->is_weight[p] |= is_like[p];
}

// A program trains if it returns arrays like what must be weights: new ones, or gradients.
static bool trains(const AdviceFacts *facts) {
    int64_t weights = 0, like = 0;
    for (int64_t i = 0; i < facts->boundary->parameter_count; i++) {
        const HloShape *shape = facts->boundary->parameters[i].global;
        if (!facts->is_weight[i] || shape->rank < 2) continue;
        weights++;
        like += count_weights_like(facts, shape, i) < count_results_like(facts->boundary, shape);
    }
    return weights > 0 && 2 * like > weights;
}

// The weights, and the axes of inputs that are none: the batch's.
static void find_weights(AdviceFacts *facts) {
    find_multiplied(facts);
    if (trains(facts)) find_updated(facts);
    for (int64_t p = 0; p < facts->boundary->parameter_count; p++)
        if (!facts->is_weight[p]) facts->batch |= axes_of_sharding(facts, &facts->boundary->parameters[p], -1);
}

// A product of two activations with batch dimensions; none of them is a mask, which chooses rows.
static bool is_batched(const AdviceFacts *facts, const HloInstruction *op) {
    if (!hlo_is(op, HLO_OP_DOT) || !HLO_ATTRIBUTES(op, Dot)->lhs_batch.count) return false;
    for (int32_t i = 0; i < 2; i++) {
        if (is_weight_array(facts, op->operands[i])) return false;
        if (hlo_is(advice_origin(op->operands[i]).op, HLO_OP_COMPARE)) return false;
    }
    return true;
}

// Whether an array, or result `index` of a collective of several, reaches a result like a weight: its gradient, or its
// new value.
static bool becomes_weight(const AdviceFacts *facts, const HloInstruction *op, int64_t index) {
    const HloInt64Vector results = advice_reached_results(facts->arena, op, index);
    for (int64_t i = 0; i < results.count; i++) {
        if (results.items[i] >= facts->boundary->result_count) continue;
        const HloShape *shape = facts->boundary->results[results.items[i]].global;
        for (int64_t p = 0; p < facts->boundary->parameter_count; p++)
            if (facts->is_weight[p] && same_dims(facts->boundary->parameters[p].global, shape)) return true;
    }
    return false;
}

// Attention is a pair of batched products, of which the second one takes what is computed element by element from the
// result of the first: scores and their weighted sum. Its derivatives are such pairs, too. A product that is a weight's
// gradient belongs to none.
static void find_attention(AdviceFacts *facts) {
    for (int64_t c = 0; c < facts->module->computations.count; c++) {
        for (const HloInstruction *at = facts->module->computations.items[c]->first; at; at = at->next) {
            const bool batched = is_batched(facts, at) && !becomes_weight(facts, at, -1);
            for (int32_t i = 0; batched && i < 2; i++) {
                const HloInstruction *scores = advice_source(at->operands[i]);
                if (!is_batched(facts, scores)) continue;
                hlo_int_map_set(facts->arena, &facts->attention, (uint64_t)at->id, 1);
                hlo_int_map_set(facts->arena, &facts->attention, (uint64_t)scores->id, 1);
            }
        }
    }
}

// The axes over which results are scattered, since gathers over them are the other half of a pair, and those over which
// products of activations are added up to weights' gradients.
static void find_sums(AdviceFacts *facts) {
    for (int64_t c = 0; c < facts->module->computations.count; c++) {
        for (const HloInstruction *at = facts->module->computations.items[c]->first; at; at = at->next) {
            if (hlo_is(at, HLO_OP_REDUCE_SCATTER)) facts->reduced |= axes_of(facts, at);
            if (!sums(at) || is_scalar(at)) continue;
            for (int32_t i = 0; i < at->operand_count; i++) {
                const HloInstruction *source = advice_source(at->operands[i]);
                const bool of_weights = advice_is_product(source) && (is_weight_array(facts, source->operands[0]) ||
                                                                      is_weight_array(facts, source->operands[1]));
                if (advice_is_product(source) && !of_weights && becomes_weight(facts, at, i))
                    facts->summed |= axes_of(facts, at);
            }
        }
    }
}

static bool is_of_attention(const AdviceFacts *facts, const HloInstruction *op) {
    return op && hlo_int_map_find(&facts->attention, (uint64_t)op->id) != NULL;
}

// Whether an array goes into a product of attention, through elementwise operations alone.
static bool enters_attention(const AdviceFacts *facts, const HloInstruction *op) {
    int32_t operand = 0;
    const HloInstruction *at = advice_consumer(op, &operand);
    for (int step = 0; step < 12 && at && hlo_op_is(at->opcode, HLO_OP_IS_ELEMENTWISE); step++)
        at = advice_consumer(at, &operand);
    return is_of_attention(facts, at);
}

static bool leaves_attention(const AdviceFacts *facts, const HloInstruction *op) {
    return is_of_attention(facts, advice_source(main_array(op)));
}

// The axes that all-to-alls move from one dimension to another before attention, and back after it.
static void find_sequence_axes(AdviceFacts *facts) {
    uint64_t before = 0, after = 0;
    find_attention(facts);
    for (int64_t c = 0; c < facts->module->computations.count && facts->attention.count; c++) {
        for (const HloInstruction *at = facts->module->computations.items[c]->first; at; at = at->next) {
            if (!hlo_is(at, HLO_OP_ALL_TO_ALL)) continue;
            if (enters_attention(facts, at)) before |= axes_of(facts, at);
            if (leaves_attention(facts, at)) after |= axes_of(facts, at);
        }
    }
    facts->sequence = before & after;
}

// ---- whose update a result is

// Whether a weight names an update better than another one: weights that are multiplied come before their moments, and
// so do, as optimisers write them, the first parameters.
static bool is_better_name(const AdviceFacts *facts, int64_t leaf, int64_t other) {
    if (leaf < 0 || other < 0) return other < 0;
    if (facts->is_multiplied[leaf] != facts->is_multiplied[other]) return facts->is_multiplied[leaf];
    return leaf < other;
}

// The weight of a result's shape from which it is computed element by element, if there is one, else -1. Weights that
// are multiplied come before their moments.
static int64_t updated_weight(const AdviceFacts *facts, int64_t result) {
    const HloInt64Vector leaves = advice_updated_leaves(facts, result);
    int64_t found = -1;
    for (int64_t i = 0; i < leaves.count; i++)
        if (facts->is_weight[leaves.items[i]] && is_better_name(facts, leaves.items[i], found)) found = leaves.items[i];
    return found;
}

// The weight whose new value, or gradient, a result is: the one that gives it its memory or from which it is computed
// (a sharded result may get that of a moment, where the weight is whole), else the one of its shape if all that have it
// are of one name. -1 where there is none; *like tells whether there is any of that shape.
static int64_t weight_of_result(const AdviceFacts *facts, int64_t result, bool *like) {
    if (result >= facts->boundary->result_count) return -1;
    const HloAliases *aliases = &facts->module->aliases;
    const HloShape *shape = facts->boundary->results[result].global;
    int64_t found = -1, donor = -1;
    bool several = false;
    for (int64_t p = 0; p < facts->boundary->parameter_count; p++) {
        if (!facts->is_weight[p] || !same_dims(facts->boundary->parameters[p].global, shape)) continue;
        *like = true;
        for (int64_t i = 0; i < aliases->count; i++) {
            const HloAlias *alias = &aliases->items[i];
            const bool same = !alias->operand_index.count && alias->operand == p && alias->output_index.count == 1 &&
                              alias->output_index.items[0] == result;
            if (same && is_better_name(facts, p, donor)) donor = p;
        }
        if (!facts->is_multiplied[p]) continue;
        several |= found >= 0 && strcmp(display_name(facts, found), display_name(facts, p)) != 0;
        found = p;
    }
    const int64_t updated = *like ? updated_weight(facts, result) : -1;
    const int64_t named = is_better_name(facts, updated, donor) ? updated : donor;
    return named >= 0 ? named : several ? -1 : found;
}

// The weight whose gradient a scatter adds up from rows; -1 where there is none.
static int64_t scattered_weight(const AdviceFacts *facts, const HloInstruction *scatter) {
    int64_t weight = -1;
    bool like = false;
    const HloInt64Vector results = advice_reached_results(facts->arena, scatter, -1);
    for (int64_t i = 0; i < results.count; i++) {
        const int64_t found = weight_of_result(facts, results.items[i], &like);
        if (found >= 0 && is_better_name(facts, found, weight)) weight = found;
    }
    return weight;
}

// ---- what is moved

// The lookup in a parameter that an array of integers is the indices of; NULL if there is none within a few steps.
static const HloInstruction *find_lookup(const HloInstruction *op, int depth) {
    for (int64_t u = 0; depth && u < op->users.count; u++) {
        const HloInstruction *user = op->users.items[u];
        const bool by_it = hlo_is(user, HLO_OP_GATHER) && user->operand_count == 2 && user->operands[1] == op;
        if (by_it && advice_origin_parameter(user->operands[0])) return user;
        const bool passes = advice_moves(user) || hlo_op_is(user->opcode, HLO_OP_IS_ELEMENTWISE) ||
                            hlo_is(user, HLO_OP_GET_TUPLE_ELEMENT) || hlo_is(user, HLO_OP_CONCATENATE);
        const HloInstruction *found = passes ? find_lookup(user, depth - 1) : NULL;
        if (found) return found;
    }
    return NULL;
}

static const char *describe_indices(const AdviceFacts *facts, const HloInstruction *op, const HloInstruction *source,
                                    AdviceFinding *finding) {
    enum { DEPTH = 12 };
    const HloInstruction *lookup = find_lookup(advice_visible(op), DEPTH);
    const int64_t table = lookup ? advice_leaf_of(facts->module, advice_origin_parameter(lookup->operands[0])) : -1;
    if (table < 0) return NULL;
    finding->indices = advice_leaf_of(facts->module, advice_origin_parameter(source));
    finding->parameter = table;
    return hlo_arena_format(facts->arena, "indices of the embedding lookup in %s", display_name(facts, table));
}

// The parameter that indices are made of, by comparisons and clamps too.
static const HloInstruction *index_parameter(const HloInstruction *indices) {
    return advice_origin_parameter(advice_source(indices));
}

// `x` for an array that is a moved part of a parameter or computed from one by a lookup or a product; NULL otherwise.
static const char *describe_source(const AdviceFacts *facts, const HloInstruction *source, AdviceFinding *finding) {
    const HloInstruction *parameter = advice_origin_parameter(source);
    finding->parameter = advice_leaf_of(facts->module, parameter);
    if (finding->parameter >= 0) return display_name(facts, finding->parameter);
    if (hlo_is(source, HLO_OP_SCATTER)) finding->parameter = scattered_weight(facts, source);
    if (finding->parameter >= 0)
        return hlo_arena_format(facts->arena, "gradient of %s", display_name(facts, finding->parameter));
    const bool is_lookup = hlo_is(source, HLO_OP_GATHER);
    if (!is_lookup && !advice_is_product(source)) return NULL;
    for (int32_t i = is_lookup ? 0 : 1; i >= 0 && finding->parameter < 0; i--)
        finding->parameter = advice_leaf_of(facts->module, advice_origin_parameter(source->operands[i]));
    if (finding->parameter < 0) return is_lookup ? NULL : "a product of activations";
    if (is_lookup && !hlo_type_is_float(source->shape->type)) return NULL;
    if (is_lookup) finding->indices = advice_leaf_of(facts->module, index_parameter(source->operands[1]));
    return hlo_arena_format(facts->arena, is_lookup ? "embedding lookup in %s" : "product with %s",
                            display_name(facts, finding->parameter));
}

static void describe(const AdviceFacts *facts, const HloInstruction *op, AdviceFinding *finding) {
    const HloInstruction *array = op->operand_count ? main_array(op) : op, *source = advice_source(array);
    const bool integers = op->operand_count && !hlo_type_is_float(array->shape->type);
    finding->what = integers ? describe_indices(facts, op, source, finding) : NULL;
    if (!finding->what) finding->what = describe_source(facts, source, finding);
    if (!finding->what) {
        const bool carried = hlo_is(source, HLO_OP_PARAMETER) || hlo_is(source, HLO_OP_WHILE);
        HloText text = {0};
        hlo_text_format(&text, "%s ", carried ? "array that a loop carries," : hlo_op_text(source->opcode));
        hlo_shape_print(&text, array->shape, false);
        finding->what = hlo_text_to_arena(facts->arena, &text);
    }
    if (op->operand_count > 1)
        finding->what = hlo_arena_format(facts->arena, "%s and %d more", finding->what, op->operand_count - 1);
    finding->scope = advice_scope(facts->arena, op);
}

// ---- kinds

static bool is_backward(const HloInstruction *op) {
    return op->metadata && op->metadata->op_name && strstr(op->metadata->op_name, "transpose(");
}

// Products for gradients add up over the batch: neither operand is a weight, unless the program says that it belongs to
// the backward pass.
static bool is_gradient(const AdviceFacts *facts, const HloInstruction *op, const HloInstruction *source,
                        AdviceFinding *finding) {
    bool like = false;
    int64_t weight = -1;
    const HloInt64Vector results =
        advice_reached_results(facts->arena, op, op->operand_count > 1 ? main_operand(op) : -1);
    for (int64_t i = 0; i < results.count; i++) {
        const int64_t found = weight_of_result(facts, results.items[i], &like);
        if (found >= 0 && is_better_name(facts, found, weight)) weight = found;
    }
    if (!like || hlo_is(source, HLO_OP_GATHER)) return false;
    const bool forward = advice_is_product(source) && !is_backward(op) && !is_backward(source);
    if (forward && (is_weight_array(facts, source->operands[0]) || is_weight_array(facts, source->operands[1])))
        return false;
    finding->parameter = weight;
    if (weight < 0) return true;
    finding->what = op->operand_count > 1
                        ? hlo_arena_format(facts->arena, "gradient of %s and %d more", display_name(facts, weight),
                                           op->operand_count - 1)
                        : hlo_arena_format(facts->arena, "gradient of %s", display_name(facts, weight));
    return true;
}

// Whether an operand of a product is a weight with one matrix an expert: a dimension that these axes shard is the
// product's batch dimension, or has one element on each device, which a manual region takes out.
static bool is_expert_weight(const AdviceFacts *facts, const HloInstruction *dot, int operand, uint64_t axes) {
    const HloDotAttributes *attributes = HLO_ATTRIBUTES(dot, Dot);
    const HloInts *batch = operand ? &attributes->rhs_batch : &attributes->lhs_batch;
    const int64_t leaf = advice_leaf_of(facts->module, advice_origin_parameter(dot->operands[operand]));
    if (leaf < 0) return false;
    const SpmdBoundaryArray *array = &facts->boundary->parameters[leaf];
    const HloShape *shape = dot->operands[operand]->shape;
    for (int32_t d = 0; d < array->local->rank; d++) {
        const bool sharded = array->local->dims[d] < array->global->dims[d];
        const bool is_batch = batch->count ? array->local->dims[d] == shape->dims[batch->items[0]]
                                           : array->local->dims[d] == 1 && shape->rank < array->local->rank;
        if (sharded && is_batch && (axes_of_sharding(facts, array, d) & axes)) return true;
    }
    return false;
}

static bool multiplies_experts(const AdviceFacts *facts, const HloInstruction *op, uint64_t axes) {
    if (!op || !hlo_is(op, HLO_OP_DOT)) return false;
    return is_expert_weight(facts, op, 0, axes) || is_expert_weight(facts, op, 1, axes);
}

typedef struct ExpertUse {
    const AdviceFacts *facts;
    uint64_t axes;
} ExpertUse;

static bool is_expert_use(const void *context, const HloInstruction *user, int32_t operand) {
    const ExpertUse *use = context;
    (void)operand;
    return multiplies_experts(use->facts, user, use->axes);
}

// Before or after the experts' products, or the products with masks that dispatch and combine tokens.
static bool is_expert_exchange(const AdviceFacts *facts, const HloInstruction *op, uint64_t axes) {
    const ExpertUse use = {facts, axes};
    if (advice_reaches(facts->arena, op, 1, is_expert_use, &use)) return true;
    const HloInstruction *source = advice_source(main_array(op));
    if (multiplies_experts(facts, source, axes)) return true;
    for (int32_t i = 0; advice_is_product(source) && i < 2; i++)
        if (multiplies_experts(facts, advice_source(source->operands[i]), axes)) return true;
    return false;
}

static bool is_sequence_exchange(const AdviceFacts *facts, const HloInstruction *op, uint64_t axes) {
    const bool turns = hlo_is(op, HLO_OP_ALL_TO_ALL) && axes && !(axes & ~facts->sequence);
    return turns && (enters_attention(facts, op) || leaves_attention(facts, op));
}

// The axes that shard both the table and the indices of an embedding lookup. Activations that come from a lookup
// without any are gathered for other reasons.
static uint64_t claimed_twice(const AdviceFacts *facts, const AdviceFinding *finding) {
    if (finding->indices < 0 || finding->parameter < 0) return 0;
    return axes_of_sharding(facts, &facts->boundary->parameters[finding->parameter], -1) &
           axes_of_sharding(facts, &facts->boundary->parameters[finding->indices], -1);
}

static AdviceKind kind_of_sum(const AdviceFacts *facts, const HloInstruction *op, AdviceFinding *finding) {
    const HloInstruction *source = advice_source(main_array(op));
    if (is_gradient(facts, op, source, finding))
        return hlo_is(op, HLO_OP_REDUCE_SCATTER) ? ADVICE_KIND_GRADIENT_SCATTER : ADVICE_KIND_GRADIENT;
    if (advice_is_product(source) && is_expert_exchange(facts, op, finding->axes)) return ADVICE_KIND_EXPERT;
    if (hlo_is(source, HLO_OP_REDUCE) && multiplies_experts(facts, advice_source(source->operands[0]), finding->axes)) {
        finding->what = "sum over the experts";
        return ADVICE_KIND_EXPERT;
    }
    if (hlo_is(source, HLO_OP_GATHER) && claimed_twice(facts, finding) & finding->axes) return ADVICE_KIND_RESHARDING;
    return advice_is_product(source) || hlo_is(source, HLO_OP_GATHER) ? ADVICE_KIND_TENSOR_PARALLEL
                                                                      : ADVICE_KIND_PARTIAL;
}

// Whether all pairs go one step along one axis.
static bool is_shift(const AdviceFacts *facts, const HloInstruction *op, uint64_t axes) {
    const HloPairs pairs = HLO_ATTRIBUTES(op, Permute)->source_target_pairs;
    int64_t stride = 1, size = 0;
    if (!axes || (axes & (axes - 1))) return false;
    for (int64_t a = facts->axis_limit; a-- > 0 && !size;) {
        if (axes >> a & 1) size = facts->mesh[a].size;
        if (!size) stride *= facts->mesh[a].size;
    }
    for (int64_t i = 0; i < pairs.count; i++) {
        const int64_t from = pairs.items[i].source / stride % size, to = pairs.items[i].target / stride % size;
        if (from != to && (from + 1) % size != to && (to + 1) % size != from) return false;
    }
    return true;
}

static bool is_in_loop(const AdviceFacts *facts, const HloInstruction *op) {
    const HloComputation *computation = advice_visible(op)->parent;
    return computation != facts->module->entry && computation->callers.count &&
           hlo_is(computation->callers.items[0], HLO_OP_WHILE);
}

static bool is_permute(const HloInstruction *op) {
    return hlo_op_info(op->opcode)->family == HLO_FAMILY_Permute;
}

// The stages of a pipeline in one array, as a loop that shifts what it multiplies by the stages' weights has them.
static void find_stages(AdviceFacts *facts) {
    for (int64_t c = 0; c < facts->module->computations.count; c++) {
        uint64_t shifted = 0, multiplied = 0;
        for (const HloInstruction *at = facts->module->computations.items[c]->first; at; at = at->next) {
            if (!is_in_loop(facts, at)) continue;
            const uint64_t axes = is_permute(at) ? axes_of(facts, at) : 0;
            if (axes && is_shift(facts, at, axes)) shifted |= axes;
            for (int64_t a = 0; hlo_is(at, HLO_OP_DOT) && a < facts->axis_limit; a++)
                if (multiplies_experts(facts, at, UINT64_C(1) << a)) multiplied |= UINT64_C(1) << a;
        }
        facts->stages |= shifted & multiplied;
    }
}

static bool is_attention_use(const void *context, const HloInstruction *user, int32_t operand) {
    (void)operand;
    return is_of_attention(context, user);
}

// Whether keys or values go around a ring: what is sent on is also multiplied in attention.
static bool is_ring_of_attention(const AdviceFacts *facts, const HloInstruction *op) {
    const HloInstruction *at = op->operands[0];
    while (advice_moves(at) && at->operand_count) at = at->operands[0];
    return advice_reaches(facts->arena, at, 0, is_attention_use, facts);
}

static AdviceKind kind_of_permute(const AdviceFacts *facts, const HloInstruction *op, uint64_t axes) {
    // Of a product in parts (spmd_partitioner/passes/windows.c): what a gather or a scatter of activations did.
    if (hlo_instruction_frontend_attribute(op, "meshlo.part_of")) return ADVICE_KIND_TENSOR_PARALLEL;
    if (!is_shift(facts, op, axes)) return ADVICE_KIND_RESHARDING;
    if (is_ring_of_attention(facts, op)) return ADVICE_KIND_SEQUENCE;
    const HloOpcode before = op->operands[0]->opcode;
    const bool is_part = before == HLO_OP_SLICE || before == HLO_OP_DYNAMIC_SLICE || before == HLO_OP_PAD;
    return is_in_loop(facts, op) && !is_part ? ADVICE_KIND_PIPELINE : ADVICE_KIND_NEIGHBOUR;
}

typedef struct TableUse {
    const AdviceFacts *facts;
    const HloInstruction *scatter;
    int64_t weight;
} TableUse;

static bool is_table_use(const void *context, const HloInstruction *user, int32_t operand) {
    TableUse *use = *(TableUse *const *)context;
    if (!hlo_is(user, HLO_OP_SCATTER) || operand == 0) return false;
    use->weight = scattered_weight(use->facts, user);
    use->scatter = user;
    return use->weight >= 0;
}

// Whether a collective brings the rows, or their positions, that are added up for the gradient of a table: every device
// has those of its own part of the batch.
static bool is_gradient_of_table(const AdviceFacts *facts, const HloInstruction *op, AdviceFinding *finding) {
    TableUse use = {.facts = facts, .weight = -1}, *found = &use;
    const HloInstruction *array = main_array(op);
    // Looked-up rows are on the way to the layers, although residual connections lead from there to the gradient.
    if (hlo_type_is_float(array->shape->type) && hlo_is(advice_origin(array).op, HLO_OP_GATHER)) return false;
    if (!advice_reaches(facts->arena, op, 0, is_table_use, &found)) return false;
    bool rows = false;
    for (int32_t i = 0; i < op->operand_count; i++) rows |= hlo_type_is_float(op->operands[i]->shape->type);
    finding->parameter = use.weight;
    finding->indices = advice_leaf_of(facts->module, index_parameter(use.scatter->operands[1]));
    finding->what = hlo_arena_format(facts->arena, "%s for the gradient of %s", rows ? "rows" : "positions",
                                     display_name(facts, use.weight));
    return true;
}

static AdviceKind kind_of_gather(const AdviceFacts *facts, const HloInstruction *op, uint64_t axes,
                                 AdviceFinding *finding) {
    if (is_weight_array(facts, main_array(op))) {
        const bool shards_data = axes && !(axes & ~(facts->batch | facts->summed));
        return shards_data ? ADVICE_KIND_WEIGHT_GATHER : ADVICE_KIND_ACCIDENTAL;
    }
    if (claimed_twice(facts, finding) & axes) return ADVICE_KIND_RESHARDING;
    if (is_gradient_of_table(facts, op, finding)) return ADVICE_KIND_GRADIENT;
    if (axes && !(axes & ~facts->reduced) && !(axes & facts->batch)) return ADVICE_KIND_TENSOR_PARALLEL;
    if (finding->indices >= 0) return ADVICE_KIND_RESHARDING;
    return is_expert_exchange(facts, op, axes) ? ADVICE_KIND_EXPERT : ADVICE_KIND_ACCIDENTAL;
}

// Whether two annotations, or what was propagated from them, disagree about an array. Other exchanges belong to the
// operation: the totals of a cumulative sum, the candidates of a sort.
static bool disagrees(const SpmdCollective *collective) {
    return strstr(collective->reason, "needed as") != NULL;
}

// Whether two arrays of an operation claim an axis for different dimensions: no plan leaves both as they are.
static bool conflicts(const SpmdCollective *collective) {
    return strstr(collective->reason, "shard different dimensions by") != NULL;
}

static AdviceKind kind_of(const AdviceFacts *facts, const SpmdCollective *collective, const HloInstruction *op,
                          AdviceFinding *finding) {
    if (!op->operand_count) return ADVICE_KIND_OTHER;
    if (is_scalar(op)) return ADVICE_KIND_SCALAR;
    if (sums(op)) return kind_of_sum(facts, op, finding);
    if (finding->axes && !(finding->axes & ~facts->stages) && is_in_loop(facts, op)) return ADVICE_KIND_PIPELINE;
    if (hlo_is(op, HLO_OP_COLLECTIVE_BROADCAST)) return *collective->reason ? ADVICE_KIND_OWNER : ADVICE_KIND_OTHER;
    AdviceKind kind = ADVICE_KIND_RESHARDING;
    if (gathers(op)) {
        kind = kind_of_gather(facts, op, finding->axes, finding);
    } else if (is_permute(op)) {
        kind = kind_of_permute(facts, op, finding->axes);
    } else if (is_expert_exchange(facts, op, finding->axes)) {
        kind = ADVICE_KIND_EXPERT;
    } else if (is_sequence_exchange(facts, op, finding->axes)) {
        kind = ADVICE_KIND_SEQUENCE;
    } else if (is_gradient_of_table(facts, op, finding)) {
        kind = claimed_twice(facts, finding) & finding->axes ? ADVICE_KIND_RESHARDING : ADVICE_KIND_GRADIENT;
    }
    if (kind == ADVICE_KIND_ACCIDENTAL && conflicts(collective) && !is_weight_array(facts, main_array(op)))
        kind = ADVICE_KIND_RESHARDING;
    const bool warned = kind == ADVICE_KIND_RESHARDING || kind == ADVICE_KIND_ACCIDENTAL;
    if (!warned || disagrees(collective)) return kind;
    // What the program itself requests is no accident, and has no reason.
    if (!*collective->reason) return ADVICE_KIND_OTHER;
    if (strstr(collective->reason, " of fft ")) return ADVICE_KIND_TRANSFORM;
    return is_permute(op) ? ADVICE_KIND_NEIGHBOUR : ADVICE_KIND_PARTIAL;
}

void advice_facts_new(HloArena *arena, const CompiledModule *compiled, const SpmdMeshAxis *mesh, int64_t axis_count,
                      AdviceFacts *facts) {
    int64_t devices = 1;
    for (int64_t a = 0; a < axis_count; a++) devices *= mesh[a].size;
    const bool known = devices == compiled->module->num_partitions;
    *facts = (AdviceFacts){.arena = arena,
                           .module = compiled->module,
                           .boundary = compiled->boundary,
                           .mesh = mesh,
                           .mesh_axis_count = known ? axis_count : 0,
                           .axis_limit = !known            ? 0
                                         : axis_count < 63 ? axis_count
                                                           : 63};
    int64_t *sizes = HLO_ARENA_NEW(arena, int64_t, axis_count + 1);
    for (int64_t a = 0; a < axis_count; a++) sizes[a] = mesh[a].size;
    facts->sizes = sizes;
    facts->is_weight = HLO_ARENA_NEW(arena, bool, facts->boundary->parameter_count + 1);
    facts->is_multiplied = HLO_ARENA_NEW(arena, bool, facts->boundary->parameter_count + 1);
    find_weights(facts);
    find_sums(facts);
    find_sequence_axes(facts);
    find_stages(facts);
}

// ---- causes

// One dimension of a sharding as reasons write it, "{data, model}", in the notation of --shard.
static const char *read_dimension(HloText *spec, const char *at) {
    bool first = true;
    for (at++; *at && *at != '}'; at++) {
        if (*at == ' ') continue;
        if (*at == ',')
            hlo_text_char(spec, '+');
        else
            hlo_text_char(spec, *at);
        first = false;
    }
    if (first) hlo_text_char(spec, '-');
    return *at ? at + 1 : at;
}

const char *advice_reason_words(HloArena *arena, const char *reason) {
    HloText text = {0};
    for (const char *at = reason; *at;) {
        if (at[0] != '[' || at[1] != '{') {
            hlo_text_char(&text, *at++);
            continue;
        }
        HloText spec = {0};
        for (at++; *at == '{'; at += strspn(at, ", ")) {
            if (spec.length) hlo_text_char(&spec, ',');
            at = read_dimension(&spec, at);
        }
        at += *at == ']';
        hlo_text_string(&text, advice_partition_spec(arena, hlo_text_to_arena(arena, &spec)));
    }
    return hlo_text_to_arena(arena, &text);
}

// Why two annotations disagree, in terms of the arrays that the user knows.
static const char *cause_of(const AdviceFacts *facts, const SpmdCollective *collective, const HloInstruction *op,
                            const AdviceFinding *finding) {
    HloArena *arena = facts->arena;
    const uint64_t both = claimed_twice(facts, finding);
    if (both)
        return hlo_arena_format(
            arena, "the embedding %s is sharded %s and its indices %s %s: both claim %s for the result of the lookup",
            advice_parameter_name(arena, facts->module, finding->parameter), spec_of(facts, finding->parameter),
            advice_parameter_name(arena, facts->module, finding->indices), spec_of(facts, finding->indices),
            advice_axes_text(facts, both));
    if (finding->kind == ADVICE_KIND_ACCIDENTAL && is_weight_array(facts, main_array(op)))
        return hlo_arena_format(arena,
                                "%s is sharded %s, but no input's data is sharded by %s: every device needs all of it",
                                advice_parameter_name(arena, facts->module, finding->parameter),
                                spec_of(facts, finding->parameter), advice_axes_text(facts, finding->axes));
    return advice_reason_words(arena, collective->reason);
}

void advice_classify(const AdviceFacts *facts, const SpmdCollective *collective, const HloInstruction *op,
                     AdviceFinding *finding) {
    *finding = (AdviceFinding){.what = "", .scope = "", .cause = "", .parameter = -1, .indices = -1};
    finding->kind = ADVICE_KIND_OTHER;
    if (!op) return;
    finding->axes = axes_of(facts, op);
    describe(facts, op, finding);
    finding->kind = kind_of(facts, collective, op, finding);
    if (finding->kind == ADVICE_KIND_RESHARDING || finding->kind == ADVICE_KIND_ACCIDENTAL)
        finding->cause = cause_of(facts, collective, op, finding);
}
