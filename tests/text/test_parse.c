// SPDX-License-Identifier: Apache-2.0
// Pieces of the syntax, places of errors, options, and text that means harm.
#include <criterion/criterion.h>

#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "tests/support/cases.h"

static HloModule *parse(const char *text) {
    HloModule *module;
    cr_assert_null(hlo_parse(text, strlen(text), NULL, &module), "%s", text);
    return module;
}

// ---------------------------------------------------------------------------------------------------------------------
// Errors

typedef struct ErrorCase {
    char text[160];
    int64_t line, column;
    char part[64];  // of the message
} ErrorCase;

CaseList(text_parse, errors_have_a_position) {
    static ErrorCase cases[] = {
        {"HloModule m\nENTRY e {\n  a = f32[] parameter(0)\n  b = f32[] negate(c)\n}", 4, 20, "'c' does not exist"},
        {"HloModule m\nENTRY e {\n  a = f32[] parameter(0)\n  a = f32[] negate(a)\n}", 4, 3, "already exists"},
        {"HloModule m\nENTRY e {\n  a = f32[] foo(b)\n}", 3, 13, "unknown opcode 'foo'"},
        {"HloModule m\nENTRY e {\n  a = f32[] addd(b)\n}", 3, 13, "unknown opcode 'addd'; did you mean add"},
        {"HloModule m\nENTRY e {\n  a = f32[] sien(b)\n}", 3, 13, "unknown opcode 'sien'; did you mean sine"},
        {"HloModule m\nENTRY e {\n  b = f32[4] parameter(0)\n  a = f32[4] reverse(b), dimension={0}\n}", 4, 26,
         "reverse has no attribute 'dimension'; did you mean dimensions"},
        {"HloModule m\nENTRY e {\n  a = f32[2] constant({1})\n}", 3, 25, "expected 2 elements"},
        {"HloModule m\nENTRY e {\n  a = s8[] constant(300)\n}", 3, 21, "out of range"},
        {"HloModule m\nENTRY e {\n  a = f32[2,2]{0} parameter(0)\n}", 3, 15, "layout orders 1"},
        {"HloModule m, what=1\nENTRY e { a = f32[] parameter(0) }", 1, 14, "what"},
        {"HloModule m\nENTRY e {\n  a = f32[] parameter(0)\n  b = f32[] add(a)\n}", 4, 16, "takes 2 operands"},
        {"HloModule m\nENTRY e {\n  a = f32[] parameter(0), sharding={devices=[2]0}\n}", 3, 45, "1 devices for 2"},
        {"HloModule m\nENTRY e {", 2, 10, "the text ends"},
    };
    return cr_make_param_array(ErrorCase, cases, sizeof(cases) / sizeof(cases[0]));
}

CaseTest(ErrorCase *error, text_parse, errors_have_a_position) {
    HloModule *module;
    HloParseOptions options = {.file = "a.hlo"};
    HloStatus status = hlo_parse(error->text, strlen(error->text), &options, &module);
    cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    const HloPlace *place = hlo_status_place(status);
    cr_assert_not_null(place);
    cr_expect_str_eq(place->file, "a.hlo");
    cr_expect(place->line == error->line && place->column == error->column, "%s: %lld:%lld", error->text,
              (long long)place->line, (long long)place->column);
    cr_expect_not_null(strstr(hlo_status_message(status), error->part), "%s", hlo_status_message(status));
    hlo_status_free(status);
}

Test(text_parse, an_error_names_the_instruction_and_shows_a_caret) {
    const char *text = "HloModule m\nENTRY e {\n  total = f32[] negate(gone)\n}";
    HloModule *module;
    HloStatus status = hlo_parse(text, strlen(text), NULL, &module);
    cr_assert_str_eq(hlo_status_place(status)->instruction, "total");
    cr_assert_str_eq(hlo_status_place(status)->line_text, "  total = f32[] negate(gone)");
    char *shown = hlo_status_to_text(status);
    cr_expect_not_null(strstr(shown, "\n                       ^\n"), "%s", shown);
    hlo_free(shown);
    hlo_status_free(status);
}

// The text of `status`, about the module of this text, once it has a place in the text.
static char *placed_text(HloStatus status, const char *text) {
    HloParseOptions options = {.file = "a.hlo"};
    status = hlo_status_place_in_text(status, text, strlen(text), &options);
    char *shown = hlo_status_to_text(status);
    hlo_status_free(status);
    return shown;
}

// The verifier knows the module, not its text; its errors find their line nevertheless.
Test(text_parse, an_error_of_the_verifier_gets_its_position_in_the_text) {
    const char *text =
        "HloModule m\nf {\n  a = f32[2] parameter(0)\n  ROOT b = f32[2] negate(a)\n}\n"
        "ENTRY e {\n  a = f32[2] parameter(0)\n  b = f32[3] negate(a), metadata={source_file=\"u.py\" source_line=7}\n"
        "  ROOT c = f32[2] call(a), to_apply=f\n}\n";
    HloModule *module;
    cr_assert_null(hlo_parse(text, strlen(text), NULL, &module));
    char *shown = placed_text(hlo_verify(module), text);
    cr_expect_not_null(strstr(shown, "a.hlo:8:3: error: "), "%s", shown);
    cr_expect_not_null(strstr(shown, "not f32[3] (u.py:7)\n  b = f32[3] negate(a)"), "%s", shown);
    hlo_free(shown);
    hlo_module_free(module);
}

Test(text_parse, an_error_without_an_instruction_gets_the_position_of_the_module) {
    const char *text = "// a comment\nHloModule m\nENTRY e {\n  a = f32[2] parameter(0)\n}\n";
    char *shown = placed_text(hlo_error(HLO_INVALID_ARGUMENT, "wrong"), text);
    cr_expect_str_eq(shown, "a.hlo:2:1: error: wrong\nHloModule m\n^\n");
    hlo_free(shown);
    cr_expect_null(hlo_status_place_in_text(NULL, text, strlen(text), NULL));
}

Test(text_parse, an_error_about_memory_or_another_text_keeps_its_position) {
    char *shown = placed_text(hlo_error(HLO_RESOURCE_EXHAUSTED, "full"), "HloModule m\n");
    cr_expect_str_eq(shown, "error: full\n");
    hlo_free(shown);
    shown = placed_text(hlo_error(HLO_INVALID_ARGUMENT, "wrong"), "no program");
    cr_expect_str_eq(shown, "error: wrong\n");
    hlo_free(shown);
}

// ---------------------------------------------------------------------------------------------------------------------
// Pieces

Test(text_parse, reads_single_pieces) {
    HloArena *arena = hlo_arena_new();
    HloText text = {0};
    const HloShape *shape;
    const HloSharding *sharding;
    const HloReplicaGroups *groups;
    const HloLiteral *literal;
    const HloWindow *window;
    HloPadding padding;
    const char *piece = "(f32[8,<=128]{1,0:T(8,128)}, token[])";
    cr_assert_null(hlo_parse_shape(arena, piece, strlen(piece), &shape));
    hlo_shape_print(&text, shape, true);
    cr_expect_str_eq(text.data, piece);
    text.length = 0;
    piece = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}";
    cr_assert_null(hlo_parse_sharding(arena, piece, strlen(piece), &sharding));
    hlo_sharding_print(&text, sharding);
    cr_expect_str_eq(text.data, piece);
    text.length = 0;
    piece = "[4,2]<=[2,4]T(1,0)";
    cr_assert_null(hlo_parse_replica_groups(arena, piece, strlen(piece), &groups));
    hlo_replica_groups_print(&text, groups);
    cr_expect_str_eq(text.data, piece);
    text.length = 0;
    piece = "f32[2,2] {{1, 2}, {3, nan}}";
    cr_assert_null(hlo_parse_literal(arena, piece, strlen(piece), &literal));
    hlo_print_literal(&text, literal);
    cr_expect_str_eq(text.data, "{ { 1, 2 }, { 3, nan } }");
    text.length = 0;
    piece = "size=3x3 stride=2x1 pad=0_1x-1_2 rhs_reversal=0x1";
    cr_assert_null(hlo_parse_window(arena, piece, strlen(piece), &window));
    hlo_print_window(&text, window);
    cr_expect_str_eq(text.data, piece);
    cr_assert_null(hlo_parse_padding(arena, "0_1_2x-3_4_0", 12, &padding));
    cr_expect_eq(padding.items[1].low, -3);
    HloStatus status = hlo_parse_shape(arena, "f32[2] x", 8, &shape);
    cr_expect_eq(hlo_status_place(status)->column, 8);
    hlo_status_free(status);
    hlo_text_free(&text);
    hlo_arena_free(arena);
}

Test(text_parse, elided_constants_are_kept_zeroed_or_filled) {
    const char *text = "HloModule m\nENTRY e { ROOT c = f32[100] constant({...}) }";
    for (int elided = HLO_ELIDED_KEEP; elided <= HLO_ELIDED_FILL; elided++) {
        HloParseOptions options = {.elided = (HloElidedLiterals)elided};
        HloModule *module;
        cr_assert_null(hlo_parse(text, strlen(text), &options, &module));
        const HloLiteral *literal = hlo_constant_literal(module->entry->root);
        cr_expect_eq(literal->elided, elided == HLO_ELIDED_KEEP);
        cr_expect_eq(literal->data == NULL, elided == HLO_ELIDED_KEEP);
        HloText printed = {0};
        HloPrintOptions brief = hlo_print_short();
        cr_assert_null(hlo_print(module, &brief, &printed));
        cr_expect_eq(strstr(printed.data, "{...}") != NULL, elided == HLO_ELIDED_KEEP);
        cr_expect_eq(strstr(printed.data, "{0, 0, 0") != NULL, elided == HLO_ELIDED_ZERO);
        hlo_text_free(&printed);
        hlo_module_free(module);
    }
}

Test(text_parse, prints_one_computation_and_one_instruction) {
    HloModule *module =
        parse("HloModule m\nENTRY e { a = f32[2] parameter(0)\n ROOT b = f32[2] negate(a), sharding={replicated} }");
    HloText text = {0};
    cr_assert_null(hlo_print_instruction(module->entry->root, NULL, &text));
    cr_expect_str_eq(text.data, "%b = f32[2]{0} negate(%a), sharding={replicated}");
    text.length = 0;
    HloPrintOptions options = hlo_print_canonical();
    cr_assert_null(hlo_print_instruction(module->entry->root, &options, &text));
    cr_expect_str_eq(text.data, "f32[2]{0} negate(f32[2]{0}), sharding={replicated}");
    text.length = 0;
    options = hlo_print_short();
    options.include_layout = options.print_extra_attributes = false;
    options.indent = 1;
    cr_assert_null(hlo_print_computation(module->entry, &options, &text));
    cr_expect_str_eq(text.data, "  e {\n    a = f32[2] parameter(0)\n    ROOT b = f32[2] negate(a)\n  }");
    hlo_text_free(&text);
    hlo_module_free(module);
}

// The fingerprint has no names and does not depend on the order of computations.
Test(text_parse, fingerprints_leave_out_names) {
    static const char *const texts[] = {
        "HloModule m\nf { x = f32[] parameter(0)\n ROOT y = f32[] negate(x) }\ng { x = f32[] parameter(0)\n"
        " z = f32[] abs(x)\n ROOT y = f32[] negate(z) }\nENTRY e { a = f32[] parameter(0)\n"
        " b = f32[] call(a), to_apply=f\n c = f32[] call(a), to_apply=g\n ROOT d = f32[] add(b, c) }",
        "HloModule n\ng2 { p = f32[] parameter(0)\n q = f32[] abs(p)\n ROOT r = f32[] negate(q) }\n"
        "f2 { x = f32[] parameter(0)\n ROOT y = f32[] negate(x) }\nENTRY e { a = f32[] parameter(0)\n"
        " s = f32[] call(a), to_apply=f2\n t = f32[] call(a), to_apply=g2\n ROOT u = f32[] add(s, t) }"};
    HloText printed[2] = {{0}};
    HloPrintOptions options = hlo_print_fingerprint();
    for (int i = 0; i < 2; i++) {
        HloModule *module = parse(texts[i]);
        cr_assert_null(hlo_print(module, &options, &printed[i]));
        hlo_module_free(module);
    }
    cr_expect_str_eq(printed[0].data, printed[1].data);
    hlo_text_free(&printed[0]);
    hlo_text_free(&printed[1]);
}

// Of constants a fingerprint has those that passes look at: zeros, ones and integers.
Test(text_parse, fingerprints_have_the_constants_that_decide) {
    static const struct {
        const char *constant, *printed;
    } kConstants[] = {{"f32[2] constant({0, -0})", "f32[2]{0} constant(0)"},
                      {"c64[2] constant({(1, 0), (1, 0)})", "c64[2]{0} constant(1)"},
                      {"c64[] constant((1, 1))", "c64[] constant({...})"},
                      {"f32[2] constant({1, 0})", "f32[2]{0} constant({...})"},
                      {"s32[2] constant({1, 0})", "s32[2]{0} constant({1, 0})"},
                      {"s32[3] constant({1, 1, 1})", "s32[3]{0} constant(1)"},
                      {"(s32[], f32[]) constant((0, 0))", "constant({...})"},
                      {"f32[] constant(nan)", "f32[] constant({...})"}};
    const HloPrintOptions options = hlo_print_fingerprint();
    for (size_t i = 0; i < HLO_COUNT_OF(kConstants); i++) {
        HloText text = {0}, printed = {0};
        hlo_text_format(&text, "HloModule m\nENTRY e {\n ROOT c = %s\n}\n", kConstants[i].constant);
        HloModule *module = parse(text.data);
        cr_assert_null(hlo_print(module, &options, &printed));
        cr_expect(strstr(printed.data, kConstants[i].printed), "%s: %s", kConstants[i].constant, printed.data);
        hlo_module_free(module);
        hlo_text_free(&text);
        hlo_text_free(&printed);
    }
}

// Sorting by content prints each computation for its hash. Shapes were copied from text of the computation before,
// which was overwritten by then: two texts of one program had two fingerprints, and memcpy overlapping arguments.
Test(text_parse, bug_fingerprints_copy_shapes_from_text_that_is_gone) {
    static const char *const first =
        "f { a = f32[7,5] parameter(0)\n b = s32[2] parameter(1)\n ROOT r = (s32[2], f32[7,5]) tuple(b, a) }\n";
    static const char *const second =
        "g { a = s32[2] parameter(0)\n b = f32[7,5] parameter(1)\n ROOT r = (f32[7,5], s32[2]) tuple(b, a) }\n";
    static const char *const calls[] = {
        " c = (s32[2], f32[7,5]) call(x, y), to_apply=f\n d = (f32[7,5], s32[2]) call(y, x), to_apply=g\n",
        " d = (f32[7,5], s32[2]) call(y, x), to_apply=g\n c = (s32[2], f32[7,5]) call(x, y), to_apply=f\n"};
    HloText printed[2] = {{0}};
    HloPrintOptions options = hlo_print_fingerprint();
    options.print_ids = false;
    for (int i = 0; i < 2; i++) {
        HloText text = {0};
        hlo_text_format(&text, "HloModule m\n%s%sENTRY e { x = f32[7,5] parameter(0)\n y = s32[2] parameter(1)\n%s",
                        i ? second : first, i ? first : second, calls[i]);
        hlo_text_string(&text, " ROOT t = ((s32[2], f32[7,5]), (f32[7,5], s32[2])) tuple(c, d) }");
        HloModule *module = parse(text.data);
        cr_assert_null(hlo_print(module, &options, &printed[i]));
        hlo_module_free(module);
        hlo_text_free(&text);
    }
    // The entry calls them in another order; what precedes it does not change.
    const char *const entry = strstr(printed[0].data, "ENTRY");
    cr_assert_not_null(entry);
    cr_expect_arr_eq(printed[0].data, printed[1].data, (size_t)(entry - printed[0].data), "%s\n%s", printed[0].data,
                     printed[1].data);
    hlo_text_free(&printed[0]);
    hlo_text_free(&printed[1]);
}

Test(text_parse, draws_a_graph) {
    HloModule *module = parse(
        "HloModule m\nf { x = f32[] parameter(0)\n ROOT y = f32[] negate(x) }\n"
        "ENTRY e { a = f32[] parameter(0)\n ROOT b = f32[] call(a), to_apply=f }");
    HloText text = {0};
    cr_assert_null(hlo_dot_draw(module, &text));
    cr_expect_not_null(strstr(text.data, "digraph \"m\""));
    cr_expect_not_null(strstr(text.data, "label=\"ENTRY e\""));
    cr_expect_not_null(strstr(text.data, "n2 -> n3;"));
    cr_expect_not_null(strstr(text.data, "n3 -> n1 [style=dashed"));
    hlo_text_free(&text);
    hlo_module_free(module);
}

Test(text_parse, keeps_the_text_apart_from_the_module) {
    char text[] = "HloModule m\nENTRY first { argument = f32[] parameter(0), metadata={op_name=\"where\"} }";
    HloModule *module = parse(text);
    memset(text, 'x', sizeof(text) - 1);
    cr_expect_str_eq(module->entry->name, "first");
    cr_expect_str_eq(module->entry->root->name, "argument");
    cr_expect_str_eq(module->entry->root->metadata->op_name, "where");
    hlo_module_free(module);
}

// ---------------------------------------------------------------------------------------------------------------------
// Harm

static void expect_refusal(const char *text, size_t length) {
    HloModule *module;
    HloStatus status = hlo_parse(text, length, NULL, &module);
    cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "%.60s", text);
    hlo_status_free(status);
    hlo_module_free(module);
}

// `count` times `piece` after `start`.
static void expect_refusal_of(const char *start, const char *piece, int64_t count) {
    HloText text = {0};
    hlo_text_string(&text, start);
    for (int64_t i = 0; i < count; i++) hlo_text_string(&text, piece);
    expect_refusal(text.data, text.length);
    hlo_text_free(&text);
}

Test(text_parse, nesting_has_a_limit) {
    expect_refusal_of("HloModule m ENTRY e { a = ", "(", 1000000);
    expect_refusal_of("HloModule m ENTRY e { a = f32[] parameter(0) b = ", "negate(", 1000000);
    expect_refusal_of("HloModule m ENTRY e { a = f32[] parameter(0) ",
                      "b = f32[] call(a), to_apply={ a = f32[] parameter(0) ", 100000);
    expect_refusal_of("HloModule m ENTRY e { a = f32[] constant(", "{", 1000000);
    expect_refusal_of("HloModule m ENTRY e { a = f32[] custom-call(), custom_call_target=\"\", literal=", "(", 1000000);
    expect_refusal_of("HloModule m ENTRY e { a = f32[] parameter(0), sharding=", "{", 1000000);
    expect_refusal_of("HloModule m ENTRY e { a = f32[] parameter(0), backend_config=", "{", 1000000);
}

Test(text_parse, counts_are_checked_before_memory_is_taken) {
    static const char *const texts[] = {
        "HloModule m ENTRY e { a = f32[1000000000000] constant(1) }",
        "HloModule m ENTRY e { a = f32[9223372036854775807] parameter(0) }",
        "HloModule m ENTRY e { a = f32[] parameter(1000000000000) }",
        "HloModule m ENTRY e { a = f32[] parameter(9223372036854775807) }",
        "HloModule m ENTRY e { a = f32[1000000000000] constant({1}) }",
        "HloModule m ENTRY e { a = f32[] parameter(0), sharding={devices=[1000000,1000000,1000000,1000000]0,1} }",
        "HloModule m ENTRY e { a = f32[] parameter(0), sharding={devices=[4611686018427387904,4]0,1} }",
        ("HloModule m ENTRY e { a = "
         "f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
         "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] parameter(0) }")};
    for (size_t i = 0; i < HLO_COUNT_OF(texts); i++) expect_refusal(texts[i], strlen(texts[i]));
}

Test(text_parse, long_chains_of_calls_are_refused) {
    HloText text = {0};
    hlo_text_string(&text, "HloModule m\nf0 { ROOT a = f32[] parameter(0) }\n");
    for (int i = 1; i < 5000; i++) {
        hlo_text_format(&text, "f%d { a = f32[] parameter(0) ROOT b = f32[] call(a), to_apply=f%d }\n", i, i - 1);
    }
    expect_refusal(text.data, text.length);
    hlo_text_free(&text);
}

// Lists that were sorted by insertion took the square of their length, and bodies that are repeated wherever they are
// called doubled with every level: these never came to an end.
Test(text_parse, bug_lists_in_falling_order_and_chains_of_calls_took_for_ever) {
    enum { MANY = 60000, LEVELS = 40 };
    HloText attributes = {0}, devices = {0}, calls = {0}, printed = {0};
    HloModule *module = NULL;
    hlo_text_string(&attributes, "HloModule m\nENTRY e {\n ROOT p = f32[2] parameter(0), frontend_attributes={");
    for (int i = 0; i < MANY; i++) hlo_text_format(&attributes, "%sk%06d=\"%d\"", i ? "," : "", (MANY - i) / 2, i);
    hlo_text_string(&attributes, "}\n}\n");
    cr_assert_null(hlo_parse(attributes.data, attributes.length, NULL, &module));
    const HloKeyValues kept = module->entry->root->frontend_attributes;
    cr_expect_eq(kept.count, MANY / 2 + 1);
    cr_expect_str_eq(kept.items[0].key, "k000000");
    cr_expect_str_eq(kept.items[1].value, "59998", "the last of two values counts");
    hlo_module_free(module);
    hlo_text_string(&devices, "HloModule m\nENTRY e {\n ROOT p = f32[2] parameter(0), sharding={devices=[2,30000]");
    for (int i = 0; i < MANY; i++) hlo_text_format(&devices, "%s%d", i ? "," : "", MANY - 1 - i);
    hlo_text_string(&devices, " last_tile_dim_replicate}\n}\n");
    cr_assert_null(hlo_parse(devices.data, devices.length, NULL, &module));
    cr_expect_eq(module->entry->root->sharding->devices.items[0], MANY / 2);
    hlo_module_free(module);
    hlo_text_string(&calls, "HloModule m\nc0 {\n ROOT p = f32[] parameter(0)\n}\n");
    for (int i = 1; i < LEVELS; i++)
        hlo_text_format(&calls,
                        "c%d {\n p = f32[] parameter(0)\n a = f32[] call(p), to_apply=c%d\n ROOT b = f32[] call(a), "
                        "to_apply=c%d\n}\n",
                        i, i - 1, i - 1);
    hlo_text_format(&calls, "ENTRY e {\n p = f32[] parameter(0)\n ROOT a = f32[] call(p), to_apply=c%d\n}\n",
                    LEVELS - 1);
    cr_assert_null(hlo_parse(calls.data, calls.length, NULL, &module));
    const HloPrintOptions options = hlo_print_canonical();
    HloStatus status = hlo_print(module, &options, &printed);
    cr_expect_eq(hlo_status_code(status), HLO_RESOURCE_EXHAUSTED, "%s", hlo_status_message(status));
    hlo_status_free(status);
    hlo_module_free(module);
    hlo_text_free(&attributes);
    hlo_text_free(&devices);
    hlo_text_free(&calls);
    hlo_text_free(&printed);
}

Test(text_parse, a_nul_is_not_a_character) {
    expect_refusal("HloModule m\nENTRY e { a = f32[] \0parameter(0) }", 42);
    expect_refusal("HloModule m\nENTRY e { a = f32[] parameter(0), metadata={op_name=\"\0", 60);
}

// The printer wrote a bare "padding=" that the parser refused.
static void reads_what_it_prints(const char *text) {
    HloModule *module = parse(text);
    HloText printed = {0}, reprinted = {0};
    cr_assert_null(hlo_print(module, NULL, &printed));
    HloModule *again = parse(printed.data);
    cr_assert_null(hlo_print(again, NULL, &reprinted));
    cr_expect_str_eq(printed.data, reprinted.data);
    hlo_text_free(&printed);
    hlo_text_free(&reprinted);
    hlo_module_free(module);
    hlo_module_free(again);
}

Test(text_parse, a_pad_of_a_scalar_reads_what_it_prints) {
    reads_what_it_prints("HloModule m\nENTRY e {\n  a = f32[] parameter(0)\n  ROOT p = f32[] pad(a, a), padding=\n}");
    reads_what_it_prints(
        "HloModule m\nENTRY e {\n  a = f32[] parameter(0)\n  p = f32[] pad(a, a), padding=, "
        "metadata={op_name=\"x\"}\n  ROOT n = f32[] negate(p)\n}");
    expect_refusal("HloModule m\nENTRY e { a = f32[] parameter(0) ROOT p = f32[] pad(a, a), padding=x }", 82);
}

// bug: the number of elements was compared with that of the whole state of a tuple-start, as XLA prints a computation
// that only packs its parameters.
Test(text_parse, bug_an_asynchronous_tuple_was_not_read_again) {
    reads_what_it_prints(
        "HloModule m\nwork {\n  a = f32[] parameter(0)\n  ROOT t = (f32[]) tuple(a)\n}\nENTRY e {\n"
        "  a = f32[] parameter(0)\n  s = ((f32[]), (f32[]), s32[]) async-start(a), calls=work\n"
        "  ROOT d = (f32[]) async-done(s)\n}");
    const char two[] =
        "HloModule m\nENTRY e { a = f32[] parameter(0) ROOT s = ((f32[]), (f32[]), s32[]) tuple-start(a, a) }";
    expect_refusal(two, strlen(two));
}

// bug: a shape that had been read before was taken from a table by its text, and the layout after a blank was left for
// an opcode. XLA reads it as part of the shape whether it is the first of its kind or not.
Test(text_parse, bug_a_layout_after_a_blank_belongs_to_the_shape) {
    const char *heads[] = {"", "  q = f32[2,3] parameter(1)\n  t = (f32[2,3]) tuple(q)\n"};
    for (size_t i = 0; i < HLO_COUNT_OF(heads); i++) {
        HloText text = {0}, printed = {0};
        hlo_text_format(
            &text,
            "HloModule m\nENTRY e {\n  p = f32[2,3]{1,0} parameter(0)\n%s  ROOT n = f32[2,3] {0,1} negate(p)\n}\n",
            heads[i]);
        HloModule *module = NULL;
        HloStatus status = hlo_parse(text.data, text.length, NULL, &module);
        cr_assert_null(status, "%s", hlo_status_message(status));
        cr_assert_null(hlo_print(module, NULL, &printed));
        cr_expect_not_null(strstr(printed.data, "ROOT %n = f32[2,3]{0,1} negate(%p)"), "%s", printed.data);
        hlo_module_free(module);
        hlo_text_free(&text);
        hlo_text_free(&printed);
    }
}

// Braces that look like a layout are not one where a body or a value begins.
Test(text_parse, a_brace_after_a_shape_may_open_something_else) {
    const char *text =
        "HloModule m\nf (x: f32[2]) -> f32[2] {\n  ROOT x = f32[2] parameter(0)\n}\n"
        "g (x: f32[2]) -> f32[2] {\n  ROOT x = f32[2] parameter(0)\n}\n"
        "ENTRY e (x: f32[2]) -> f32[2] {\n  x = f32[2] parameter(0)\n  y = f32[2] call(x), to_apply=f\n"
        "  ROOT z = f32[2] call(y), to_apply=g\n}\n";
    HloModule *module = NULL;
    HloStatus status = hlo_parse(text, strlen(text), NULL, &module);
    cr_expect_null(status, "%s", hlo_status_message(status));
    hlo_status_free(status);
    hlo_module_free(module);
    HloArena *arena = hlo_arena_new();
    const HloLiteral *literal = NULL;
    const char *tuple = "(s32[2]{0} {1, 2}, s32[2]{0} {0, 0})";  // the second shape is one that is known
    status = hlo_parse_literal(arena, tuple, strlen(tuple), &literal);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_expect_eq(hlo_literal_get_int64(literal->elements[1], 0), 0);
    hlo_arena_free(arena);
}

// bug: the size of a group over several axes was counted modulo 2^64, which may give one or none.
Test(text_parse, bug_immense_groups_are_counted) {
    HloArena *arena = hlo_arena_new();
    const HloReplicaGroups *groups = NULL;
    const char *text = "mesh['a'=4294967296,'b'=4294967296] {'a','b'}";
    cr_expect_null(hlo_parse_replica_groups(arena, text, strlen(text), &groups));
    HloText printed = {0};
    hlo_replica_groups_print(&printed, groups);
    cr_expect_str_eq(printed.data, text);
    hlo_text_free(&printed);
    hlo_arena_free(arena);
}
