// SPDX-License-Identifier: Apache-2.0
// Modules: the header, the computations in any order, and the rules for the whole. A text without a header is one
// computation or one instruction.
//
//   HloModule name, is_scheduled=true, input_output_alias={...}      header
//   FileNames .. StackFrames ..                                      tables of source positions (parser_stack.c)
//   %add (..) -> f32[] {..}                                          computations, callees before their callers
//   ENTRY %main (..) -> .. {..}
//
// Some rules can only be checked at the end: that aliases refer to the entry's result, that an async wrapper has one
// caller, the entry's layouts if the header has none. Computations are listed in the order of their ends, so that
// nested bodies come before the computations that contain them; names are assigned in that order, as in XLA.
#include <assert.h>
#include <stdlib.h>

#include "hlo/text/parser.h"

// ---------------------------------------------------------------------------------------------------------------------
// The header

// {(shape, ...)->shape}
static bool parse_entry_layout(HloParser *parser) {
    HloModule *module = parser->module;
    HLO_VECTOR(const HloShape *) parameters = {0};
    if (!hlo_parser_expect(parser, '{', "'{' of entry_computation_layout") || !hlo_parser_expect(parser, '(', "'('")) {
        return false;
    }
    hlo_vector_reserve(parser->arena, &parameters, 1);  // NULL would mean that nothing is given
    if (hlo_parser_kind(parser) != ')') {
        do {
            const HloShape *shape;
            if (!hlo_parse_shape_here(parser, &shape)) return false;
            hlo_vector_push(parser->arena, &parameters, shape);
        } while (hlo_parser_eat(parser, ','));
    }
    if (!hlo_parser_expect(parser, ')', "')'") || !hlo_parser_expect(parser, HLO_TOKEN_ARROW, "'->'") ||
        !hlo_parse_shape_here(parser, &module->entry_result_layout)) {
        return false;
    }
    module->entry_parameter_layouts = parameters.items;
    module->entry_parameter_layout_count = parameters.count;
    return hlo_parser_expect(parser, '}', "'}' of entry_computation_layout");
}

// Compares by elements, then by length: an index comes before those that begin with it.
static int compare_indices(HloInts a, HloInts b) {
    for (int64_t i = 0; i < a.count && i < b.count; i++) {
        if (a.items[i] != b.items[i]) return a.items[i] < b.items[i] ? -1 : 1;
    }
    return a.count < b.count ? -1 : a.count > b.count;
}

static int compare_aliases(const void *a, const void *b) {
    return compare_indices(((const HloAlias *)a)->output_index, ((const HloAlias *)b)->output_index);
}

// Each index must exist in the result, and none may occur twice. Sorted by index, as they are printed.
static bool check_aliases(HloParser *parser) {
    HloAlias *items = (HloAlias *)(uintptr_t)parser->module->aliases.items;
    int64_t count = parser->module->aliases.count;
    assert(count == 0 || parser->alias_place);
    if (count) qsort(items, (size_t)count, sizeof(*items), compare_aliases);
    for (int64_t i = 0; i < count; i++) {
        const HloShape *shape = parser->module->entry->root->shape;
        HloInts index = items[i].output_index;
        bool ok = i == 0 || compare_indices(items[i - 1].output_index, index) != 0;
        for (int64_t j = 0; ok && j < index.count; j++) {
            ok = hlo_shape_is_tuple(shape) && index.items[j] >= 0 && index.items[j] < shape->element_count;
            if (ok) shape = shape->elements[index.items[j]];
        }
        if (!ok || items[i].operand < 0) {
            return hlo_parser_fail(parser, parser->alias_place, "input_output_alias does not fit the result");
        }
    }
    return true;
}

static int compare_donors(const void *a, const void *b) {
    const HloDonor *left = a, *right = b;
    if (left->parameter != right->parameter) return left->parameter < right->parameter ? -1 : 1;
    return compare_indices(left->index, right->index);
}

// { (parameter, {index}), ... }
static bool parse_donors(HloParser *parser) {
    HLO_VECTOR(HloDonor) items = {0};
    if (!hlo_parser_expect(parser, '{', "'{' of buffer_donor")) return false;
    while (hlo_parser_kind(parser) != '}') {
        HloDonor donor;
        if (!hlo_parser_expect(parser, '(', "'('")) return false;
        const char *where = parser->lexer.token.start;
        if (!hlo_parse_int(parser, &donor.parameter)) return false;
        if (donor.parameter < 0) return hlo_parser_fail(parser, where, "a donor has a negative parameter number");
        if (!hlo_parser_expect(parser, ',', "','") || !hlo_parse_index(parser, &donor.index) ||
            !hlo_parser_expect(parser, ')', "')'")) {
            return false;
        }
        hlo_vector_push(parser->arena, &items, donor);
        if (!hlo_parser_eat(parser, ',')) break;
    }
    if (items.count) qsort(items.items, (size_t)items.count, sizeof(*items.items), compare_donors);
    int64_t kept = 0;
    for (int64_t i = 0; i < items.count; i++) {
        if (kept && compare_donors(&items.items[kept - 1], &items.items[i]) == 0) continue;
        items.items[kept++] = items.items[i];
    }
    parser->module->donors = items.items;
    parser->module->donor_count = kept;
    return hlo_parser_expect(parser, '}', "'}' of buffer_donor");
}

static bool parse_passthrough(HloParser *parser) {
    bool value;
    int64_t one = 1;
    if (!hlo_parse_bool(parser, &value)) return false;
    parser->module->alias_passthrough = value ? hlo_ints(parser->arena, &one, 1) : (HloInts){0};
    return true;
}

typedef enum Header {
    IS_SCHEDULED,
    REPLICA_COUNT,
    NUM_PARTITIONS,
    INPUT_OUTPUT_ALIAS,
    BUFFER_DONOR,
    ALIAS_PASSTHROUGH,
    ENTRY_LAYOUT,
    FRONTEND_ATTRIBUTES,
    PROPAGATE_TO_PARAMETERS,
    PROPAGATE_TO_OUTPUT,
    ORIGIN_RECOVERY_TABLE,
    HEADER_COUNT
} Header;

static const char *const header_names[HEADER_COUNT] = {"is_scheduled",
                                                       "replica_count",
                                                       "num_partitions",
                                                       "input_output_alias",
                                                       "buffer_donor",
                                                       "alias_passthrough_params",
                                                       "entry_computation_layout",
                                                       "frontend_attributes",
                                                       "allow_spmd_sharding_propagation_to_parameters",
                                                       "allow_spmd_sharding_propagation_to_output",
                                                       "origin_recovery_table"};

// The caller checks counts if the value is just a count.
static bool parse_header_value(HloParser *parser, Header header) {
    HloModule *module = parser->module;
    switch (header) {
        case IS_SCHEDULED: return hlo_parse_bool(parser, &module->is_scheduled);
        case REPLICA_COUNT: return hlo_parse_int(parser, &module->replica_count);
        case NUM_PARTITIONS: return hlo_parse_int(parser, &module->num_partitions);
        case INPUT_OUTPUT_ALIAS: return hlo_parse_aliasing(parser, true, &module->aliases);
        case BUFFER_DONOR: return parse_donors(parser);
        case ALIAS_PASSTHROUGH: return parse_passthrough(parser);
        case ENTRY_LAYOUT: return parse_entry_layout(parser);
        case FRONTEND_ATTRIBUTES: return hlo_parse_frontend_attributes(parser, &module->frontend_attributes);
        case PROPAGATE_TO_PARAMETERS: return hlo_parse_bools(parser, true, &module->propagate_to_parameters);
        case PROPAGATE_TO_OUTPUT: return hlo_parse_bools(parser, true, &module->propagate_to_output);
        case ORIGIN_RECOVERY_TABLE: return hlo_parse_origin_table(parser);
        default: return false;
    }
}

// Every attribute may occur once, in any order.
static bool parse_header(HloParser *parser) {
    size_t length;
    hlo_lex(&parser->lexer);
    if (!hlo_parse_name(parser, &parser->module->name, &length)) return false;
    uint32_t seen = 0;
    while (hlo_parser_eat(parser, ',')) {
        const char *name;
        const char *where = parser->lexer.token.start;
        if (!hlo_parse_attribute_name(parser, &name, &length)) return false;
        int header = 0;
        while (header < HEADER_COUNT && strcmp(header_names[header], name) != 0) header++;
        if (header == HEADER_COUNT || seen >> header & 1) {
            return hlo_parser_fail(parser, where, "unknown or repeated attribute '%s' of a module", name);
        }
        seen |= UINT32_C(1) << header;
        where = parser->lexer.token.start;
        if (header == INPUT_OUTPUT_ALIAS) parser->alias_place = where;
        if (!parse_header_value(parser, (Header)header)) return false;
        if (parser->module->replica_count < 1 || parser->module->num_partitions < 1) {
            return hlo_parser_fail(parser, where, "%s must be positive", name);
        }
    }
    parser->module->use_spmd_partitioning = parser->module->num_partitions != 1;
    return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// After the last computation

// Assigns names as XLA does: computation by computation in the order of their ends, so that nested ones come first.
static void rename_in_order(HloParser *parser) {
    HloModule *module = parser->module;
    module->instruction_names = module->computation_names = (HloNames){0};
    for (int64_t i = 0; i < parser->finished.count; i++) {
        HloComputation *computation = parser->finished.items[i];
        hlo_computation_set_name(computation, parser->computation_names.items[computation->id]);
        for (HloInstruction *at = computation->first; at; at = at->next) {
            hlo_instruction_set_name(at, parser->text_names.items[at->id]);
        }
    }
}

// Without entry_computation_layout the layouts are those of the parameters and the root.
static void derive_entry_layout(HloParser *parser) {
    assert(parser->module->entry);
    HloModule *module = parser->module;
    if (module->entry_result_layout) return;
    int64_t count = hlo_parameter_count(module->entry);
    const HloShape **layouts = HLO_ARENA_NEW(parser->arena, const HloShape *, count);
    for (int64_t i = 0; i < count; i++) layouts[i] = module->entry->parameters.items[i]->shape;
    module->entry_parameter_layouts = layouts;
    module->entry_parameter_layout_count = count;
    module->entry_result_layout = module->entry->root->shape;
}

// Checks that every computation that async-start wraps has only that caller.
static bool check_async(HloParser *parser) {
    for (int64_t i = 0; i < parser->finished.count; i++) {
        const HloComputation *computation = parser->finished.items[i];
        for (int64_t j = 0; j < computation->callers.count && computation->callers.count > 1; j++) {
            if (computation->callers.items[j]->opcode == HLO_OP_ASYNC_START) {
                return HLO_PARSER_FAIL(parser, "computation %s is called by more than one async op", computation->name);
            }
        }
    }
    return true;
}

// All computations have been read: completes and checks the module as a whole.
static bool finish(HloParser *parser, HloComputation *entry) {
    assert(entry);
    HloModule *module = parser->module;
    parser->instruction_name = NULL;
    hlo_module_set_entry(module, entry);
    HLO_BUG_IF(parser->finished.count != module->computations.count);
    memcpy(module->computations.items, parser->finished.items, (size_t)parser->finished.count * sizeof(entry));
    if (parser->has_nested) rename_in_order(parser);
    derive_entry_layout(parser);
    hlo_module_renumber_frames(module);
    if (parser->options.file) {
        module->source_file = hlo_arena_text(parser->arena, parser->options.file);
    }
    return check_aliases(parser) && check_async(parser);
}

// A text without header is named after its entry, as in XLA.
static bool parse_computations(HloParser *parser, bool with_header) {
    HloModule *module = parser->module;
    HloComputation *entry = NULL;
    do {
        if (!hlo_parse_computation(parser, &entry)) return false;
    } while (hlo_parser_kind(parser) != HLO_TOKEN_END);
    if (!entry) entry = parser->finished.items[parser->finished.count - 1];
    if (!with_header) module->name = hlo_arena_format(parser->arena, "module_%s", entry->name);
    return finish(parser, entry);
}

// The entry of a single instruction has default layouts, whatever those of its parameters are.
static void set_default_layouts(HloParser *parser, const HloComputation *entry) {
    assert(entry);
    HloModule *module = parser->module;
    HloArena *arena = parser->arena;
    int64_t count = hlo_parameter_count(entry);
    const HloShape **layouts = HLO_ARENA_NEW(arena, const HloShape *, count + 1);
    for (int64_t i = 0; i < count; i++) {
        const HloShape *bare = hlo_shape_without_layout(arena, entry->parameters.items[i]->shape);
        layouts[i] = hlo_shape_with_default_layout(arena, bare);
    }
    module->entry_parameter_layouts = layouts;
    module->entry_parameter_layout_count = count;
    module->entry_result_layout =
        hlo_shape_with_default_layout(arena, hlo_shape_without_layout(arena, entry->root->shape));
}

// A single instruction, with or without `name =`: operands that have a shape become parameters. Everything without a
// name is called _, and XLA marks the result as scheduled.
static bool parse_single(HloParser *parser) {
    HloNameScope scope = {0};
    HloComputation *entry = hlo_parser_new_computation(parser, "_");
    HloInstruction *root = NULL;
    parser->module->name = "_";
    parser->module->is_scheduled = true;
    parser->computation = entry;
    parser->scope = &scope;
    parser->single_instruction = true;
    hlo_vector_push(parser->scratch, &parser->finished, entry);
    bool ok = hlo_parser_at_shape(parser) ? hlo_parse_instruction_value(parser, "_", &root)
                                          : hlo_parse_instruction(parser, &root);
    if (!ok || !hlo_parser_expect_end(parser) || !hlo_parser_check_parameters(parser, entry)) return false;
    hlo_computation_set_root(entry, entry->last);
    set_default_layouts(parser, entry);
    return finish(parser, entry);
}

// The first token distinguishes a module, computations and a single instruction.
bool hlo_parse_module(HloParser *parser) {
    if (hlo_parser_is_word(parser, "HloModule")) {
        return parse_header(parser) && hlo_parse_stack_tables(parser) && parse_computations(parser, true);
    }
    if (hlo_parser_is_word(parser, "ENTRY") || hlo_lex_peek(&parser->lexer) == '{') {
        return hlo_parse_stack_tables(parser) && parse_computations(parser, false);
    }
    return parse_single(parser);
}
