// SPDX-License-Identifier: Apache-2.0
// Instructions: name, shape, opcode, operands, and the parts that the text may omit. A missing shape is inferred, an
// async wrapper that is written as its op (all-gather-start, or -start of any op) gets its computation, and
// instructions that XLA accepts only with a shape are refused without one.
//
// The text of an instruction is read once, from left to right, though its parts depend on later ones: attributes are
// collected separately (HloParsedAttributes), operands on a stack that nested instructions share, and the instruction
// is made last, when everything is known. Until then no part of it is in the graph, so an error leaves no half-made
// instruction with users. Names of operands are looked up when they are read: definitions come before uses in HLO, and
// an undefined name is an error at its position, except in a stand-alone instruction, where it becomes a parameter.
#include <assert.h>
#include <limits.h>

#include "hlo/base/nearest.h"
#include "hlo/text/parser.h"

// ---------------------------------------------------------------------------------------------------------------------
// Names

// The entry of a name, or the free one for it. Linear probing; at most half of the entries are in use, so the search
// soon ends at a free one.
static HloNameEntry *name_slot(HloNameEntry *entries, int64_t capacity, const char *name, size_t length,
                               uint32_t hash) {
    assert(capacity > 0 && (capacity & (capacity - 1)) == 0);
    for (uint64_t i = hash & (uint64_t)(capacity - 1);; i = (i + 1) & (uint64_t)(capacity - 1)) {
        HloNameEntry *entry = &entries[i];
        if (!entry->instruction) return entry;
        if (entry->hash == hash && entry->length == length && memcmp(entry->name, name, length) == 0) return entry;
    }
}

// Names are looked up only in the current computation: HLO has no outer scopes.
HloInstruction *hlo_parser_find(const HloParser *parser, const char *name, size_t length) {
    const HloNameScope *scope = parser->scope;
    if (scope->count == 0) return NULL;
    uint32_t hash = (uint32_t)hlo_hash_bytes(name, length);
    return name_slot(scope->entries, scope->capacity, name, length, hash)->instruction;
}

// Adds a name to the scope; fails if it is already used. The name is not copied: it is in the module's arena or in the
// text.
static bool add_name(HloParser *parser, const char *name, size_t length, HloInstruction *instruction) {
    assert(instruction && name);
    HloNameScope *scope = parser->scope;
    if (2 * (scope->count + 1) > scope->capacity) {
        int64_t capacity = scope->capacity ? scope->capacity * 2 : 32;
        HloNameEntry *entries = HLO_ARENA_NEW(parser->names, HloNameEntry, capacity);
        for (int64_t i = 0; i < scope->capacity; i++) {
            const HloNameEntry *old = &scope->entries[i];
            if (old->instruction) *name_slot(entries, capacity, old->name, old->length, old->hash) = *old;
        }
        scope->entries = entries;
        scope->capacity = capacity;
    }
    if (parser->keeps_places) {
        HloDefinition definition = {instruction, name};
        hlo_vector_push(parser->scratch, &parser->defined, definition);
    }
    uint32_t hash = (uint32_t)hlo_hash_bytes(name, length);
    HloNameEntry *entry = name_slot(scope->entries, scope->capacity, name, length, hash);
    if (entry->instruction) return hlo_parser_fail(parser, name, "instruction '%s' already exists", name);
    *entry = (HloNameEntry){.name = name, .length = (uint32_t)length, .hash = hash, .instruction = instruction};
    scope->count++;
    return true;
}

// Makes an instruction and records its name in the text.
static HloInstruction *make(HloParser *parser, HloComputation *computation, HloOpcode opcode, const HloShape *shape,
                            HloInstruction *const *operands, int64_t operand_count, const void *attributes,
                            const char *name) {
    HloInstruction *instruction =
        hlo_instruction_new(computation, opcode, shape, operands, operand_count, attributes, name);
    hlo_vector_push(parser->scratch, &parser->text_names, name);
    return instruction;
}

// ---------------------------------------------------------------------------------------------------------------------
// Opcodes

// A table of opcodes by hash, filled once per parser; slots have the opcode plus one, so that zero is free.
static unsigned char *opcode_slot(HloParser *parser, const char *text, size_t length) {
    for (uint64_t i = hlo_hash_bytes(text, length) % HLO_PARSE_OPCODE_SLOTS;; i = (i + 1) % HLO_PARSE_OPCODE_SLOTS) {
        unsigned char *slot = &parser->opcodes[i];
        if (*slot == 0) return slot;
        const char *known = hlo_op_text((HloOpcode)(*slot - 1));
        if (strncmp(known, text, length) == 0 && known[length] == 0) return slot;
    }
}

void hlo_parser_index_opcodes(HloParser *parser) {
    for (int opcode = 0; opcode < HLO_OPCODE_COUNT; opcode++) {
        const char *text = hlo_op_text((HloOpcode)opcode);
        *opcode_slot(parser, text, strlen(text)) = (unsigned char)(opcode + 1);
    }
}

// HLO_OPCODE_COUNT for words that are not opcodes.
static HloOpcode find_opcode(HloParser *parser, const char *text, size_t length) {
    unsigned char slot = *opcode_slot(parser, text, length);
    return slot ? (HloOpcode)(slot - 1) : HLO_OPCODE_COUNT;
}

// Fails at the token, and suggests what was probably meant.
static bool fail_unknown_opcode(HloParser *parser) {
    const HloToken *token = &parser->lexer.token;
    const char *names[HLO_OPCODE_COUNT];
    for (HloOpcode opcode = 0; opcode < HLO_OPCODE_COUNT; opcode++) names[opcode] = hlo_op_text(opcode);
    const char *word = hlo_arena_string(parser->scratch, token->text, token->length);
    const char *nearest = hlo_nearest_name(word, names, HLO_OPCODE_COUNT);
    return HLO_PARSER_FAIL(parser, "unknown opcode '%s'%s%s", word, nearest ? "; did you mean " : "",
                           nearest ? nearest : "");
}

// The opcode; for X-start, X-update and X-done of an op without these forms, also the wrapped one.
static bool parse_opcode(HloParser *parser, HloOpcode *opcode, HloOpcode *wrapped) {
    static const struct {
        const char *suffix;
        HloOpcode opcode;
    } suffixes[] = {{"-start", HLO_OP_ASYNC_START}, {"-update", HLO_OP_ASYNC_UPDATE}, {"-done", HLO_OP_ASYNC_DONE}};
    const HloToken *token = &parser->lexer.token;
    *wrapped = HLO_OPCODE_COUNT;
    if (token->kind != HLO_TOKEN_IDENTIFIER) return hlo_parser_unexpected(parser, "an opcode");
    *opcode = find_opcode(parser, token->text, token->length);
    for (size_t i = 0; *opcode == HLO_OPCODE_COUNT && i < HLO_COUNT_OF(suffixes); i++) {
        size_t length = strlen(suffixes[i].suffix);
        if (token->length <= length) continue;
        if (memcmp(token->text + token->length - length, suffixes[i].suffix, length) != 0) continue;
        *wrapped = find_opcode(parser, token->text, token->length - length);
        if (*wrapped != HLO_OPCODE_COUNT) *opcode = suffixes[i].opcode;
    }
    if (*opcode == HLO_OPCODE_COUNT) return fail_unknown_opcode(parser);
    hlo_lex(&parser->lexer);
    return true;
}

// Ops whose result shape the text must contain: those for which hlo_parser.cc calls no ShapeInference, because the
// shape has information that operands and attributes lack, or because XLA never implemented the inference.
static bool needs_shape(HloOpcode opcode) {
    switch (opcode) {
        case HLO_OP_ASYNC_START:
        case HLO_OP_ASYNC_UPDATE:
        case HLO_OP_ASYNC_DONE:
        case HLO_OP_ALL_GATHER:
        case HLO_OP_ALL_GATHER_START:
        case HLO_OP_ALL_GATHER_DONE:
        case HLO_OP_ALL_REDUCE:
        case HLO_OP_ALL_REDUCE_START:
        case HLO_OP_ALL_REDUCE_DONE:
        case HLO_OP_ALL_TO_ALL:
        case HLO_OP_COLLECTIVE_BROADCAST:
        case HLO_OP_COLLECTIVE_PERMUTE:
        case HLO_OP_COLLECTIVE_PERMUTE_START:
        case HLO_OP_COLLECTIVE_PERMUTE_DONE:
        case HLO_OP_COPY_DONE:
        case HLO_OP_COPY_START:
        case HLO_OP_DYNAMIC_RESHAPE:
        case HLO_OP_DYNAMIC_SLICE:
        case HLO_OP_DYNAMIC_UPDATE_SLICE:
        case HLO_OP_RAGGED_ALL_TO_ALL:
        case HLO_OP_RECV:
        case HLO_OP_RECV_DONE:
        case HLO_OP_REDUCE_SCATTER:
        case HLO_OP_SEND:
        case HLO_OP_SEND_DONE:
        case HLO_OP_SLICE:
        case HLO_OP_BITCAST:
        case HLO_OP_BITCAST_CONVERT:
        case HLO_OP_CONSTANT:
        case HLO_OP_CONVERT:
        case HLO_OP_CUSTOM_CALL:
        case HLO_OP_FUSION:
        case HLO_OP_INFEED:
        case HLO_OP_IOTA:
        case HLO_OP_OUTFEED:
        case HLO_OP_PARAMETER:
        case HLO_OP_REDUCE_PRECISION:
        case HLO_OP_RESHAPE:
        case HLO_OP_RNG:
        case HLO_OP_RNG_BIT_GENERATOR:
        case HLO_OP_RNG_GET_AND_UPDATE_STATE:
        case HLO_OP_STOCHASTIC_CONVERT: return true;
        default: return false;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Operands

// An undefined value in an instruction of a stand-alone text becomes a parameter.
static bool invent_parameter(HloParser *parser, const char *name, size_t length, const HloShape *shape,
                             HloInstruction **result) {
    assert(shape); /* the callers refuse an operand without one, at its own place */
    HloParameterAttributes attributes = {.number = hlo_parameter_count(parser->computation)};
    if (!name) {
        name = hlo_arena_format(parser->arena, "_%lld", (long long)attributes.number);
        length = strlen(name);
    }
    *result = make(parser, parser->computation, HLO_OP_PARAMETER, shape, NULL, 0, &attributes, name);
    return add_name(parser, name, length, *result);
}

static bool parse_value(HloParser *parser, const HloShape *shape, const char *name, HloInstruction **instruction);

// [shape] name, or [shape] opcode(operands) without attributes.
static bool parse_operand(HloParser *parser, HloInstruction **operand) {
    const HloShape *shape = NULL;
    const char *name;
    size_t length;
    if (hlo_parser_at_shape(parser) && !hlo_parse_shape_here(parser, &shape)) return false;
    const char *where = parser->lexer.token.start;
    int kind = hlo_parser_kind(parser);
    bool invents = parser->single_instruction && parser->computation->parameters.count < INT32_MAX &&
                   parser->module->computations.items[0] == parser->computation;
    if (invents && shape && (kind == ',' || kind == ')')) return invent_parameter(parser, NULL, 0, shape, operand);
    if (kind == HLO_TOKEN_IDENTIFIER) {
        char next = hlo_lex_peek(&parser->lexer);
        if (next != ',' && next != ')') return parse_value(parser, shape, NULL, operand);
    }
    if (!shape && kind != HLO_TOKEN_IDENTIFIER && kind != HLO_TOKEN_NAME) {
        return hlo_parser_unexpected(parser, "an operand");
    }
    if (!hlo_parse_name(parser, &name, &length)) return false;
    *operand = hlo_parser_find(parser, name, length);
    if (!*operand && invents && !shape) {
        return hlo_parser_fail(parser, where, "an operand of a single instruction needs a shape");
    }
    if (!*operand && invents) return invent_parameter(parser, name, length, shape, operand);
    if (!*operand) return hlo_parser_fail(parser, where, "instruction '%s' does not exist", name);
    if (shape && shape != (*operand)->shape && !hlo_shape_equal(shape, (*operand)->shape, HLO_COMPARE_BOUNDS)) {
        return hlo_parser_fail(parser, where, "operand '%s' does not have the shape given here", name);
    }
    return true;
}

// ( operand, ... ), pushed on the operand stack.
static bool parse_operands(HloParser *parser) {
    if (!hlo_parser_expect(parser, '(', "'(' of the operands")) return false;
    if (hlo_parser_kind(parser) != ')') {
        do {
            HloInstruction *operand;
            if (!parse_operand(parser, &operand)) return false;
            hlo_vector_push(parser->scratch, &parser->operands, operand);
        } while (hlo_parser_eat(parser, ','));
    }
    return hlo_parser_expect(parser, ')', "')' of the operands");
}

// The minimal number of operands of ops with a variable number.
static int least_operands(HloOpcode opcode) {
    assert(opcode >= 0 && opcode < HLO_OPCODE_COUNT);
    switch (opcode) {
        case HLO_OP_DOT:
        case HLO_OP_DYNAMIC_UPDATE_SLICE: return 2;
        case HLO_OP_DYNAMIC_RESHAPE:
        case HLO_OP_DYNAMIC_SLICE:
        case HLO_OP_CONDITIONAL:
        case HLO_OP_CONCATENATE:
        case HLO_OP_SORT: return 1;
        default: return 0;
    }
}

// Start indices are scalars, one per dimension, or all in one vector as in programs of 2018.
static bool check_indices(HloParser *parser, const char *where, HloInstruction *const *operands, int64_t count,
                          int64_t first) {
    bool vector = count == first + 1 && operands[first]->shape->rank == 1;
    return vector || count == first + operands[0]->shape->rank ||
           hlo_parser_fail(parser, where, "wrong number of start indices");
}

// Checks the assumptions of shape inference, which all other callers have checked already: the number of operands, and
// the structure of those that it inspects.
static bool check_operands(HloParser *parser, const char *where, HloOpcode opcode, const HloShape *shape,
                           HloInstruction *const *operands, int64_t count) {
    assert(count >= 0 && where);
    int arity = hlo_op_info(opcode)->arity;
    const char *text = hlo_op_text(opcode);
    if (arity >= 0 && count != arity) {
        return hlo_parser_fail(parser, where, "%s takes %d operands, not %lld", text, arity, (long long)count);
    }
    if (count < least_operands(opcode)) {
        return hlo_parser_fail(parser, where, "%s takes at least %d operands", text, least_operands(opcode));
    }
    if ((opcode == HLO_OP_REDUCE || opcode == HLO_OP_REDUCE_WINDOW) && (count == 0 || count % 2)) {
        return hlo_parser_fail(parser, where, "%s takes an even number of operands, not %lld", text, (long long)count);
    }
    if (opcode == HLO_OP_SCATTER && (count % 2 == 0 || count < 3)) {
        return hlo_parser_fail(parser, where, "%s takes an odd number of operands, not %lld", text, (long long)count);
    }
    if (opcode == HLO_OP_INFEED && (shape->type != HLO_TUPLE || shape->element_count == 0)) {
        return hlo_parser_fail(parser, where, "the shape of an infeed must be a tuple that is not empty");
    }
    if (opcode == HLO_OP_TUPLE && shape && (shape->type != HLO_TUPLE || shape->element_count != count)) {
        return hlo_parser_fail(parser, where, "the shape of the tuple does not have %lld elements", (long long)count);
    }
    if (opcode == HLO_OP_RECV_DONE && operands[0]->shape->type != HLO_TUPLE) {
        return hlo_parser_fail(parser, where, "the operand of recv-done must be a tuple");
    }
    if (opcode == HLO_OP_DYNAMIC_SLICE) return check_indices(parser, where, operands, count, 1);
    if (opcode == HLO_OP_DYNAMIC_UPDATE_SLICE) return check_indices(parser, where, operands, count, 2);
    return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Async ops

// True if an update or a done may follow.
static bool is_open_async(const HloInstruction *instruction) {
    return instruction->opcode == HLO_OP_ASYNC_START || instruction->opcode == HLO_OP_ASYNC_UPDATE;
}

// Checks the shape and operand of async-start, -update and -done. `wrapped`: by the sugar, or HLO_OPCODE_COUNT.
static bool check_async(HloParser *parser, const char *where, HloOpcode opcode, HloOpcode wrapped,
                        const HloShape *shape, HloInstruction *const *operands, int64_t count) {
    assert(count >= 0 && where);
    if (opcode == HLO_OP_ASYNC_START) {
        bool ok = shape->type == HLO_TUPLE && shape->element_count >= 2 && shape->elements[0]->type == HLO_TUPLE;
        return ok || hlo_parser_fail(parser, where, "the shape of async-start must be ((operands), result, ...)");
    }
    if (opcode != HLO_OP_ASYNC_UPDATE && opcode != HLO_OP_ASYNC_DONE) return true;
    if (count != 1 || !is_open_async(operands[0])) {
        return hlo_parser_fail(parser, where, "the operand must be an async-start or async-update");
    }
    const HloInstruction *start = hlo_instruction_async_start(operands[0]);
    if (wrapped != HLO_OPCODE_COUNT && start->called[0]->root->opcode != wrapped) {
        return hlo_parser_fail(parser, where, "the operand wraps %s, not %s",
                               hlo_op_text(start->called[0]->root->opcode), hlo_op_text(wrapped));
    }
    if (opcode == HLO_OP_ASYNC_UPDATE && !hlo_shape_equal(shape, operands[0]->shape, HLO_COMPARE_ALL)) {
        return hlo_parser_fail(parser, where, "async-update must have the shape of its operand");
    }
    return true;
}

// Checks what an async-update or -done may repeat of its async-start: the computation and its execution thread.
static bool check_repeated(HloParser *parser, const char *where, const HloInstruction *operand,
                           const HloParsedAttributes *parsed) {
    assert(is_open_async(operand));  // check_async() saw to it
    const HloInstruction *start = hlo_instruction_async_start(operand);
    HloComputation *buffer[HLO_PARSE_ROLES];
    int64_t count;
    HloComputation *const *called = hlo_parser_called(parsed, buffer, &count);
    if (count > 0 && called[0] != start->called[0]) {
        return hlo_parser_fail(parser, where, "the async-start calls %s, not %s", start->called[0]->name,
                               called[0]->name);
    }
    const char *thread = parsed->family.async.execution_thread, *wanted = start->called[0]->execution_thread;
    if (!wanted) wanted = "main";
    return !thread || strcmp(thread, wanted) == 0 ||
           hlo_parser_fail(parser, where, "the async-start runs in thread %s, not %s", wanted, thread);
}

// Sets the annotations that every instruction may have and no op uses.
static void annotate(HloInstruction *instruction, const HloParsedAttributes *parsed) {
    instruction->metadata = parsed->metadata;
    instruction->frontend_attributes = parsed->frontend_attributes;
    instruction->backend_config = parsed->backend_config;
    instruction->backend_config_is_json = parsed->backend_config_is_json;
    instruction->statistics = parsed->statistics;
    instruction->origin = parsed->origin;
}

// Annotations of an async-start apply to the op in it too.
static void share_annotations(HloInstruction *wrapped, const HloParsedAttributes *parsed) {
    if (parsed->frontend_attributes.count) wrapped->frontend_attributes = parsed->frontend_attributes;
    if (parsed->statistics) wrapped->statistics = parsed->statistics;
}

// Attaches called computations and limits the length of call chains, because much of the compiler recurses along them.
static bool set_called(HloParser *parser, HloInstruction *instruction, HloComputation *const *called, int64_t count) {
    assert(count >= 0);
    if (count == 0) return true;
    int64_t *depth = &parser->call_depths.items[instruction->parent->id];
    for (int64_t i = 0; i < count; i++) {
        int64_t through = parser->call_depths.items[called[i]->id] + 1;
        if (through > *depth) *depth = through;
    }
    hlo_instruction_set_called(instruction, called, count);
    return *depth <= HLO_PARSE_CALL_LIMIT ||
           HLO_PARSER_FAIL(parser, "calls nest more than %d levels deep", HLO_PARSE_CALL_LIMIT);
}

static bool attach_called(HloParser *parser, HloInstruction *instruction, const HloParsedAttributes *parsed) {
    HloComputation *buffer[HLO_PARSE_ROLES];
    int64_t count;
    HloComputation *const *called = hlo_parser_called(parsed, buffer, &count);
    return set_called(parser, instruction, called, count);
}

// The computation for X-start: X of as many parameters.
static bool wrap(HloParser *parser, HloOpcode wrapped, const HloShape *shape, HloInstruction *const *operands,
                 int64_t count, const HloParsedAttributes *parsed, HloComputation **result) {
    HloComputation *computation = hlo_parser_new_computation(parser, "async_wrapped");
    HloInstruction **parameters = HLO_ARENA_NEW(parser->scratch, HloInstruction *, count);
    for (int64_t i = 0; i < count; i++) {
        HloParameterAttributes attributes = {.number = i};
        parameters[i] =
            make(parser, computation, HLO_OP_PARAMETER, operands[i]->shape, NULL, 0, &attributes, "async_param");
    }
    HloInstruction *root =
        make(parser, computation, wrapped, shape->elements[1], parameters, count, &parsed->family, "async_op");
    if (!attach_called(parser, root, parsed)) return false;
    if (parsed->execution_thread && strcmp(parsed->execution_thread, "main") != 0) {
        computation->execution_thread = parsed->execution_thread;
        // The op's called computations run there too.
        for (int64_t i = 0; i < root->called_count; i++) root->called[i]->execution_thread = parsed->execution_thread;
    }
    annotate(root, parsed);
    hlo_computation_set_root(computation, root);
    hlo_vector_push(parser->scratch, &parser->finished, computation);
    parser->has_nested = true;
    *result = computation;
    return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Instructions

// Reads the (number) of a parameter.
static bool parse_parameter(HloParser *parser, HloParsedAttributes *parsed) {
    HloParameterAttributes *parameter = &parsed->family.parameter;
    if (!hlo_parser_expect(parser, '(', "'(' and the parameter's number")) return false;
    const char *where = parser->lexer.token.start;
    if (!hlo_parse_int(parser, &parameter->number)) return false;
    const HloInstructionVector *known = &parser->computation->parameters;
    // Each parameter takes more than one character, so that the length of the text bounds their number.
    if (parameter->number < 0 || parameter->number > parser->lexer.end - parser->lexer.begin) {
        return hlo_parser_fail(parser, where, "parameter number out of range");
    }
    if (parameter->number < known->count && known->items[parameter->number]) {
        return hlo_parser_fail(parser, where, "parameter %lld is defined twice", (long long)parameter->number);
    }
    return hlo_parser_expect(parser, ')', "')'");
}

static bool parse_constant(HloParser *parser, const HloShape *shape, HloParsedAttributes *parsed) {
    HloLiteral *literal;
    if (!hlo_parser_expect(parser, '(', "'(' and the literal")) return false;
    if (!hlo_parse_literal_value(parser, shape, &literal)) return false;
    parsed->family.constant.literal = literal;
    return hlo_parser_expect(parser, ')', "')' after the literal");
}

// The message names the op, since it occurs nowhere else in the text.
static bool infer(HloParser *parser, const char *where, HloOpcode opcode, HloInstruction *const *operands,
                  int64_t count, const HloParsedAttributes *parsed, const HloShape **shape) {
    assert(count >= 0 && shape);
    HloComputation *buffer[HLO_PARSE_ROLES];
    int64_t called_count;
    HloComputation *const *called = hlo_parser_called(parsed, buffer, &called_count);
    const HloShape **shapes = HLO_ARENA_NEW(parser->scratch, const HloShape *, count);
    for (int64_t i = 0; i < count; i++) shapes[i] = operands[i]->shape;
    HloInferRequest request = {.arena = parser->arena,
                               .opcode = opcode,
                               .operands = shapes,
                               .operand_count = count,
                               .attributes = &parsed->family,
                               .called = called,
                               .called_count = called_count};
    HloStatus status = hlo_infer_shape(&request, shape);
    if (!status) {
        *shape = hlo_infer_layout(&request, *shape);
        return true;
    }
    hlo_parser_fail(parser, where, "cannot infer the result shape of %s: %s", hlo_op_text(opcode),
                    hlo_status_message(status));
    hlo_status_free(status);
    return false;
}

// XLA puts one sharding on every leaf of a tuple that was given a single one.
static const HloSharding *spread(HloParser *parser, const HloSharding *sharding, const HloShape *shape) {
    if (!sharding || shape->type != HLO_TUPLE || sharding->kind == HLO_SHARDING_TUPLE) return sharding;
    int64_t leaves = hlo_shape_leaf_count(shape);
    int64_t count = leaves > 0 ? leaves : 1;
    const HloSharding **elements = HLO_ARENA_NEW(parser->arena, const HloSharding *, count);
    for (int64_t i = 0; i < count; i++) elements[i] = sharding;
    return hlo_sharding_tuple(parser->arena, elements, count);
}

// The layout E(4) of a constant is not kept: its values have a byte each.
static const HloShape *without_element_size(HloParser *parser, const HloShape *shape) {
    if (!shape->layout || !shape->layout->element_size_in_bits) return shape;
    HloShape *copy = HLO_ARENA_NEW(parser->arena, HloShape, 1);
    HloLayout *layout = HLO_ARENA_NEW(parser->arena, HloLayout, 1);
    *copy = *shape;
    *layout = *shape->layout;
    layout->element_size_in_bits = 0;
    copy->layout = layout;
    return copy;
}

// The result shape of ops for which XLA always computes it from the operands, regardless of the text; else `shape`.
static const HloShape *fixed_shape(HloParser *parser, HloOpcode opcode, HloInstruction *const *operands, int64_t count,
                                   const HloShape *shape) {
    HloArena *arena = parser->arena;
    const HloShape *parts[3];
    bool tuple = count > 0 && operands[0]->shape->type == HLO_TUPLE && operands[0]->shape->element_count > 0;
    switch (opcode) {
        case HLO_OP_OUTFEED:
        case HLO_OP_SEND_DONE: return shape->type == HLO_TOKEN ? shape : hlo_shape_token(arena);
        case HLO_OP_SEND:
            parts[0] = operands[0]->shape;
            parts[1] = hlo_shape_array(arena, HLO_U32, NULL, 0);
            parts[2] = hlo_shape_token(arena);
            return hlo_shape_tuple(arena, parts, 3);
        case HLO_OP_RECV:
            if (shape->type != HLO_TUPLE || shape->element_count == 0) return shape;
            parts[0] = shape->elements[0];
            parts[1] = hlo_shape_array(arena, HLO_U32, NULL, 0);
            parts[2] = hlo_shape_token(arena);
            return hlo_shape_tuple(arena, parts, 3);
        case HLO_OP_RECV_DONE:
            if (!tuple) return shape;
            parts[0] = operands[0]->shape->elements[0];
            parts[1] = hlo_shape_token(arena);
            return hlo_shape_tuple(arena, parts, 2);
        default: return shape;
    }
}

// Sets fields that XLA fills in, or resets because they are the default, when it makes the op.
static void complete(HloParser *parser, HloOpcode opcode, HloInstruction *const *operands, HloParsedAttributes *parsed,
                     const HloShape *shape) {
    if (opcode == HLO_OP_MAP) {
        int64_t dims[64];
        int64_t rank = shape->rank < 64 ? shape->rank : 0;
        for (int64_t i = 0; i < rank; i++) dims[i] = i;
        parsed->family.dimensions.dimensions = hlo_ints(parser->arena, dims, rank);
    } else if (opcode == HLO_OP_COMPARE) {
        int32_t *type = &parsed->family.compare.type;
        if (*type == hlo_comparison_default(operands[0]->shape->type)) *type = HLO_ComparisonType_DEFAULT;
    } else if (opcode == HLO_OP_OUTFEED) {
        if (!parsed->family.outfeed.shape) parsed->family.outfeed.shape = operands[0]->shape;
    } else if (opcode == HLO_OP_ASYNC_UPDATE || opcode == HLO_OP_ASYNC_DONE) {
        // Their called computations are given by the async-start.
        memset(parsed->roles, 0, sizeof(parsed->roles));
    }
}

// The operand stack from `base` on. Without operands there may be no list at all: adding to its null pointer would be
// undefined.
static HloInstruction **operands_from(const HloParser *parser, int64_t base) {
    return parser->operands.items ? parser->operands.items + base : NULL;
}

// Parses the part of the instruction in parentheses. Leaves operands on the stack.
static bool parse_head(HloParser *parser, HloOpcode opcode, HloOpcode wrapped, const HloShape *shape,
                       HloParsedAttributes *parsed) {
    assert(parsed);
    int64_t base = parser->operands.count;
    const char *where = parser->lexer.token.start;
    if (opcode == HLO_OP_PARAMETER) return parse_parameter(parser, parsed);
    if (opcode == HLO_OP_CONSTANT) return parse_constant(parser, shape, parsed);
    if (!parse_operands(parser)) return false;
    HloInstruction **operands = operands_from(parser, base);
    int64_t count = parser->operands.count - base;
    if (!check_async(parser, where, opcode, wrapped, shape, operands, count)) return false;
    bool sugar = opcode == HLO_OP_ASYNC_START && wrapped != HLO_OPCODE_COUNT;
    return check_operands(parser, where, sugar ? wrapped : opcode, sugar ? shape->elements[1] : shape, operands, count);
}

// Runs last, when nothing can fail any more: an edge is stored at both ends.
static void attach_predecessors(HloInstruction *instruction, const HloParsedAttributes *parsed) {
    for (int64_t i = 0; i < parsed->predecessors.count; i++) {
        hlo_instruction_add_control_edge(parsed->predecessors.items[i], instruction);
    }
}

// Parses everything after the shape, in the order of the text: opcode, operands, attributes; then infers the shape if
// it was not written. A wrapped op (X-start) is parsed as X and put into its own computation.
static bool parse_value(HloParser *parser, const HloShape *shape, const char *name, HloInstruction **result) {
    if (!hlo_parser_enter(parser)) return false;
    HloParsedAttributes parsed = {0};
    HloOpcode opcode, wrapped;
    const char *where = parser->lexer.token.start;
    int64_t base = parser->operands.count;
    if (!parse_opcode(parser, &opcode, &wrapped)) return false;
    if (!shape && needs_shape(opcode)) {
        return hlo_parser_fail(parser, where, "%s needs an explicit result shape", hlo_op_text(opcode));
    }
    if (opcode == HLO_OP_CONSTANT) shape = without_element_size(parser, shape);
    if (!parse_head(parser, opcode, wrapped, shape, &parsed)) return false;
    HloInstruction **operands = operands_from(parser, base);
    int64_t count = parser->operands.count - base;
    bool sugar = opcode == HLO_OP_ASYNC_START && wrapped != HLO_OPCODE_COUNT;
    if (!hlo_parse_attributes(parser, sugar ? wrapped : opcode, sugar, name != NULL, operands, count, &parsed)) {
        return false;
    }
    // Nested computations may have moved the stack.
    operands = operands_from(parser, base);
    if (!shape && !infer(parser, where, opcode, operands, count, &parsed, &shape)) return false;
    bool follows = opcode == HLO_OP_ASYNC_UPDATE || opcode == HLO_OP_ASYNC_DONE;
    if (follows && !check_repeated(parser, where, operands[0], &parsed)) return false;
    complete(parser, opcode, operands, &parsed, shape);
    shape = fixed_shape(parser, opcode, operands, count, shape);
    HloComputation *body = NULL;
    if (sugar && !wrap(parser, wrapped, shape, operands, count, &parsed, &body)) return false;
    if (parsed.execution_thread && strcmp(parsed.execution_thread, "main") == 0) parsed.execution_thread = NULL;
    HloAsyncAttributes async = {.execution_thread = parsed.execution_thread, .aliasing = parsed.async_aliasing};
    if (!name) name = hlo_arena_format(parser->arena, "%s.anon", hlo_op_text(opcode));
    HloInstruction *made = make(parser, parser->computation, opcode, shape, operands, count,
                                sugar ? (const void *)&async : &parsed.family, name);
    parser->operands.count = base;
    if (!(sugar ? set_called(parser, made, &body, 1) : attach_called(parser, made, &parsed))) return false;
    annotate(made, &parsed);
    made->sharding = spread(parser, parsed.sharding, shape);
    if (opcode == HLO_OP_ASYNC_START && made->called_count > 0) share_annotations(made->called[0]->root, &parsed);
    attach_predecessors(made, &parsed);
    parser->depth--;
    *result = made;
    return true;
}

bool hlo_parse_instruction_value(HloParser *parser, const char *name, HloInstruction **instruction) {
    const HloShape *shape = NULL;
    if (hlo_parser_at_shape(parser) && !hlo_parse_shape_here(parser, &shape)) return false;
    return parse_value(parser, shape, name, instruction);
}

// The name is added last: an instruction cannot be its own operand.
bool hlo_parse_instruction(HloParser *parser, HloInstruction **root) {
    const char *root_where = parser->lexer.token.start;
    const char *name;
    size_t length;
    HloInstruction *instruction;
    bool is_root = hlo_parser_is_word(parser, "ROOT");
    parser->instruction_name = NULL;
    if (is_root) hlo_lex(&parser->lexer);
    const char *where = parser->lexer.token.start;
    if (!hlo_parse_name(parser, &name, &length)) return false;
    parser->instruction_name = name;
    if (length <= 13 && hlo_parser_is_type(name, length)) {
        return hlo_parser_fail(parser, where, "'%s' is a type and cannot be a name", name);
    }
    if (!hlo_parser_expect(parser, '=', "'='")) return false;
    if (is_root && *root) return hlo_parser_fail(parser, root_where, "a second ROOT in the computation");
    if (!hlo_parse_instruction_value(parser, name, &instruction)) return false;
    if (is_root) *root = instruction;
    return add_name(parser, name, length, instruction);
}
