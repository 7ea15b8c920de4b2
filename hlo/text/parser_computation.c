// SPDX-License-Identifier: Apache-2.0
// Computations: their heads, their lists of instructions, and the names by which instructions call them. A computation
// is known by its name from its closing brace on: in text, callees come before callers, and recursion cannot be
// written. One that is written inside an instruction has no name in the text and is called `_`. Computations are
// finished in the order of their closing braces, which is the order of the module.
#include <assert.h>

#include "hlo/text/parser.h"

// The lists by id grow together with the module's ids.
HloComputation *hlo_parser_new_computation(HloParser *parser, const char *name) {
    HloComputation *computation = hlo_computation_new(parser->module, name);
    hlo_vector_push(parser->scratch, &parser->computation_names, name);
    hlo_vector_push(parser->scratch, &parser->call_depths, 0);
    return computation;
}

bool hlo_parser_check_parameters(HloParser *parser, const HloComputation *computation) {
    assert(computation->module == parser->module);
    for (int64_t i = 0; i < computation->parameters.count; i++) {
        if (!computation->parameters.items[i]) {
            return HLO_PARSER_FAIL(parser, "computation %s has no parameter %lld", computation->name, (long long)i);
        }
    }
    return true;
}

// { instructions }
// Names of instructions are private to their computation: the enclosing scope is restored at the end. Without ROOT, the
// last instruction is the root, as in XLA.
static bool parse_body(HloParser *parser, const char *name, HloComputation **result) {
    assert(name && result);
    if (!hlo_parser_enter(parser)) return false;
    HloComputation *outer = parser->computation;
    HloNameScope *outer_scope = parser->scope;
    HloArenaMark mark = hlo_arena_mark(parser->names);
    HloNameScope scope = {0};
    HloComputation *computation = hlo_parser_new_computation(parser, name);
    HloInstruction *root = NULL;
    parser->computation = computation;
    parser->scope = &scope;
    if (!hlo_parser_expect(parser, '{', "'{' of a computation")) return false;
    do {
        if (!hlo_parse_instruction(parser, &root)) return false;
    } while (hlo_parser_kind(parser) != '}');
    hlo_lex(&parser->lexer);
    if (!hlo_parser_check_parameters(parser, computation)) return false;
    hlo_computation_set_root(computation, root ? root : computation->last);
    hlo_vector_push(parser->scratch, &parser->finished, computation);
    parser->computation = outer;
    parser->scope = outer_scope;
    hlo_arena_reset(parser->names, mark);
    parser->depth--;
    *result = computation;
    return true;
}

// The computation must be defined earlier in the text.
bool hlo_parse_called(HloParser *parser, HloComputation **computation) {
    assert(computation);
    if (hlo_parser_kind(parser) == '{') {
        const char *instruction_name = parser->instruction_name;
        parser->has_nested = true;
        if (!parse_body(parser, "_", computation)) return false;
        parser->instruction_name = instruction_name;
        return true;
    }
    const char *name;
    size_t length;
    const char *where = parser->lexer.token.start;
    if (!hlo_parse_name(parser, &name, &length)) return false;
    *computation = hlo_string_map_get(&parser->computations, name, length);
    return *computation || hlo_parser_fail(parser, where, "computation '%s' does not exist", name);
}

bool hlo_parse_called_list(HloParser *parser, HloComputationVector *list) {
    if (!hlo_parser_expect(parser, '{', "'{'")) return false;
    if (hlo_parser_kind(parser) != '}') {
        do {
            HloComputation *computation;
            if (!hlo_parse_called(parser, &computation)) return false;
            hlo_vector_push(parser->scratch, list, computation);
        } while (hlo_parser_eat(parser, ','));
    }
    return hlo_parser_expect(parser, '}', "'}'");
}

// (name: shape, ...) -> shape. Only the result is compared with the body, as in XLA.
static bool parse_program_shape(HloParser *parser, const HloShape **result) {
    if (!hlo_parser_expect(parser, '(', "'(' of the parameters")) return false;
    if (hlo_parser_kind(parser) != ')') {
        do {
            const char *name;
            size_t length;
            const HloShape *shape;
            if (!hlo_parse_name(parser, &name, &length) || !hlo_parse_shape_here(parser, &shape)) return false;
        } while (hlo_parser_eat(parser, ','));
    }
    return hlo_parser_expect(parser, ')', "')' of the parameters") &&
           hlo_parser_expect(parser, HLO_TOKEN_ARROW, "'->'") && hlo_parse_shape_here(parser, result);
}

// "main" is the default and is not kept.
static bool parse_execution_thread(HloParser *parser, HloComputation *computation) {
    while (hlo_parser_eat(parser, ',')) {
        const char *name;
        size_t length;
        const char *where = parser->lexer.token.start;
        if (!hlo_parse_attribute_name(parser, &name, &length)) return false;
        if (strcmp(name, "execution_thread") != 0 || computation->execution_thread) {
            return hlo_parser_fail(parser, where, "unknown or repeated attribute '%s' of a computation", name);
        }
        if (!hlo_parse_string(parser, &computation->execution_thread)) return false;
    }
    if (computation->execution_thread && strcmp(computation->execution_thread, "main") == 0) {
        computation->execution_thread = NULL;
    }
    return true;
}

// Without ENTRY, the last computation is the entry; parse_computations() sets it.
bool hlo_parse_computation(HloParser *parser, HloComputation **entry) {
    const char *entry_where = parser->lexer.token.start;
    bool is_entry = hlo_parser_is_word(parser, "ENTRY");
    if (is_entry) hlo_lex(&parser->lexer);
    const char *name;
    size_t length;
    const char *where = parser->lexer.token.start;
    parser->instruction_name = NULL;
    if (!hlo_parse_name(parser, &name, &length)) return false;
    if (hlo_string_map_get(&parser->computations, name, length)) {
        return hlo_parser_fail(parser, where, "computation '%s' already exists", name);
    }
    const HloShape *result = NULL;
    const char *shape_where = parser->lexer.token.start;
    if (hlo_parser_kind(parser) == '(' && !parse_program_shape(parser, &result)) return false;
    HloComputation *computation;
    if (!parse_body(parser, name, &computation)) return false;
    parser->instruction_name = NULL;
    if (result && result != computation->root->shape &&
        !hlo_shape_equal(result, computation->root->shape, HLO_COMPARE_IGNORE_LAYOUT)) {
        return hlo_parser_fail(parser, shape_where, "the result of computation %s is not that of its root %s", name,
                               computation->root->name);
    }
    if (!parse_execution_thread(parser, computation)) return false;
    if (is_entry && *entry) return hlo_parser_fail(parser, entry_where, "a second ENTRY computation");
    if (is_entry) *entry = computation;
    hlo_string_map_set(parser->scratch, &parser->computations, name, length, computation);
    return true;
}
