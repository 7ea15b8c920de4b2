// SPDX-License-Identifier: Apache-2.0
// The compile pipeline: the operations that its stages leave, through each front end of the library; the result
// computes the same, does not change when compiled again, and keeps its source lines.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compile/donors.h"
#include "compile/pipeline.h"
#include "emulator/simulate.h"
#include "hlo/base/file.h"
#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "targets/program.h"
#include "tests/support/compiled.h"
#include "tests/support/simplified.h"

static HloModule *parse(const char *text) {
    HloModule *module = NULL;
    HloStatus status = hlo_parse(text, strlen(text), NULL, &module);
    if (!status) status = hlo_verify(module);
    cr_assert_null(status, "%s in\n%s", hlo_status_message(status), text);
    return module;
}

static CompiledModule *compile(const HloModule *module, const CompileOptions *options) {
    CompiledModule *compiled = NULL;
    HloStatus status = compile_module(module, options, &compiled);
    cr_assert_null(status, "%s", hlo_status_message(status));
    return compiled;
}

// The text without the marks of the boundary, which are not part of the computation.
static char *print(const HloModule *module) {
    HloText text = {0};
    cr_assert_null(hlo_print(module, NULL, &text));
    return text.data;
}

// ---- what is left

Test(compile_pipeline, leaves_what_xla_leaves) {
    for (size_t i = 0; simplified_case(i); i++) {
        const SimplifiedCase *test = simplified_case(i);
        HloModule *module = simplified_module(test, "");
        CompiledModule *compiled = compile(module, NULL);
        simplified_expect_operations(test, "compile_module", compiled->module);
        compiled_module_free(compiled);
        hlo_module_free(module);
    }
}

Test(compile_pipeline, leaves_the_same_of_a_program_of_several_devices) {
    for (size_t i = 0; simplified_case(i); i++) {
        const SimplifiedCase *test = simplified_case(i);
        const CompileOptions options = {.spmd = {.num_partitions = 2}};
        HloModule *module = simplified_module(test, ", sharding={replicated}");
        CompiledModule *compiled = compile(module, &options);
        simplified_expect_operations(test, "compile_module on 2 devices", compiled->module);
        cr_expect_eq(compiled->report->collective_count, 0);
        compiled_module_free(compiled);
        hlo_module_free(module);
    }
}

// On a host, and with the roundings of a slice.
Test(compile_pipeline, leaves_and_computes_the_same_through_the_c_interface) {
    static const struct {
        const char *machine;
        HloNumerics numerics;
    } clients[] = {{"cpu:1", HLO_NUMERICS_EXACT}, {"v5e-1", HLO_NUMERICS_TPU}};
    HloLiteral *arguments[SIMPLIFIED_ARGUMENTS];
    simplified_arguments(arguments);
    const HloLiteral *const given[] = {arguments[0], arguments[1]};
    for (size_t c = 0; c < HLO_COUNT_OF(clients); c++) {
        TargetClient *client = NULL;
        must_succeed(target_client_new(clients[c].machine, &client));
        for (size_t i = 0; simplified_case(i); i++) {
            const SimplifiedCase *test = simplified_case(i);
            HloModule *module = simplified_module(test, "");
            TargetProgram *program = NULL;
            HloLiteral *result = NULL;
            must_succeed(target_program_new(client, module, NULL, &program));
            simplified_expect_operations(test, clients[c].machine, target_program_module(program));
            must_succeed(target_program_call(program, given, SIMPLIFIED_ARGUMENTS, &result));
            simplified_expect_value(test, clients[c].machine, arguments, clients[c].numerics, result);
            target_program_free(program);
            hlo_module_free(module);
        }
        target_client_release(client);
    }
    for (int i = 0; i < SIMPLIFIED_ARGUMENTS; i++) hlo_literal_free(arguments[i]);
}

static EmuReport *emulate(const HloModule *module, const EmuTopology *topology) {
    EmuReport *report = NULL;
    must_succeed(emu_simulate(module, topology, NULL, &report));
    return report;
}

// The chain of nine is timed as the one sine that a compiler makes of it.
Test(compile_pipeline, leaves_the_same_to_the_emulator) {
    EmuTopology *topology = NULL;
    must_succeed(emu_topology_parse("v5e-1", &topology));
    HloModule *chain = simplified_module(simplified_chain(), "");
    HloModule *sine = parse(
        "HloModule t\nENTRY e {\n p = f32[6] parameter(0)\n n = s32[6] parameter(1)\n"
        " ROOT s = f32[6] sine(p)\n}\n");
    CompiledModule *compiled = compile(chain, NULL);
    EmuReport *of_chain = emulate(compiled->module, topology), *of_sine = emulate(sine, topology);
    cr_expect_eq(of_chain->op_count, 1);
    cr_expect_eq(of_chain->step_picoseconds, of_sine->step_picoseconds);
    cr_expect_eq(of_chain->flops_per_device, of_sine->flops_per_device);
    emu_report_free(of_chain);
    emu_report_free(of_sine);
    compiled_module_free(compiled);
    hlo_module_free(chain);
    hlo_module_free(sine);
    emu_topology_free(topology);
}

Test(compile_pipeline, keeps_everything_without_optimisation) {
    const CompileOptions options = {.no_optimise = true};
    for (size_t i = 0; simplified_case(i); i++) {
        const SimplifiedCase *test = simplified_case(i);
        HloModule *module = simplified_module(test, "");
        CompiledModule *compiled = compile(module, &options);
        cr_expect_eq(simplified_count(compiled->module), simplified_count(module), "%s", test->name);
        compiled_module_free(compiled);
        hlo_module_free(module);
    }
}

// ---- that it is right

Test(compile_pipeline, computes_the_same_bits) {
    HloLiteral *arguments[SIMPLIFIED_ARGUMENTS];
    simplified_arguments(arguments);
    for (size_t i = 0; simplified_case(i); i++) {
        const SimplifiedCase *test = simplified_case(i);
        HloModule *module = simplified_module(test, "");
        CompiledModule *compiled = compile(module, NULL);
        HloLiteral *expected = simplified_evaluate(module, arguments, HLO_NUMERICS_EXACT);
        HloLiteral *actual = simplified_evaluate(compiled->module, arguments, HLO_NUMERICS_EXACT);
        cr_expect_arr_eq(expected->data, actual->data, (size_t)hlo_shape_bytes(expected->shape), "%s", test->name);
        hlo_literal_free(expected);
        hlo_literal_free(actual);
        compiled_module_free(compiled);
        hlo_module_free(module);
    }
    for (int i = 0; i < SIMPLIFIED_ARGUMENTS; i++) hlo_literal_free(arguments[i]);
}

// Compiling the result once more finds nothing to do, also where the result is read back from its text.
Test(compile_pipeline, finds_nothing_to_do_in_its_own_result) {
    for (size_t i = 0; simplified_case(i / 2); i++) {
        const SimplifiedCase *test = simplified_case(i / 2);
        const CompileOptions options = {.spmd = {.num_partitions = 1 + (int64_t)(i % 2)}};
        HloModule *module = simplified_module(test, i % 2 ? ", sharding={replicated}" : "");
        CompiledModule *once = compile(module, &options);
        char *text = print(once->module);
        HloModule *again = parse(text);
        CompiledModule *twice = compile(again, NULL);
        char *second = print(twice->module);
        cr_expect(twice->was_per_device);
        cr_expect_str_eq(second, text, "%s", test->name);
        hlo_free(text);
        hlo_free(second);
        compiled_module_free(twice);
        hlo_module_free(again);
        compiled_module_free(once);
        hlo_module_free(module);
    }
}

// A bf16 product's operands and result are rounded; nothing may take a rounding away or add one. A product of constants
// is rounded by the machine that runs it, which is not known here.
Test(compile_pipeline, leaves_the_roundings_of_products_to_the_machine) {
    HloModule *module = parse(
        "HloModule t\nENTRY e {\n a = f32[2,2] constant({{1.001,1},{1,1}})\n p = f32[2,2] parameter(0)\n"
        " d = f32[2,2] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " ROOT r = f32[2,2] dot(d, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n");
    CompiledModule *compiled = compile(module, NULL);
    int64_t dots = 0;
    for (const HloInstruction *at = compiled->module->entry->first; at; at = at->next) dots += hlo_is(at, HLO_OP_DOT);
    cr_expect_eq(dots, 2);
    compiled_module_free(compiled);
    hlo_module_free(module);
}

Test(compile_pipeline, keeps_source_lines_on_what_it_rewrites) {
    HloModule *module = parse(
        "HloModule t\nENTRY e {\n p = f32[6] parameter(0)\n a = f32[2,3] reshape(p)\n"
        " b = f32[3,2] reshape(a), metadata={op_name=\"fold\" source_file=\"model.py\" source_line=7}\n"
        " ROOT c = f32[3,2] sine(b), metadata={op_name=\"sin\" source_file=\"model.py\" source_line=8}\n}\n");
    CompiledModule *compiled = compile(module, NULL);
    for (const HloInstruction *at = compiled->module->entry->first; at; at = at->next) {
        const char *file = NULL;
        int64_t line = 0;
        hlo_instruction_source(at, &file, &line);
        if (!hlo_is(at, HLO_OP_PARAMETER)) cr_expect(file && !strcmp(file, "model.py"), "%s", at->name);
    }
    compiled_module_free(compiled);
    hlo_module_free(module);
}

// A program that another compiler has scheduled is timed and run unchanged.
Test(compile_pipeline, changes_nothing_in_a_scheduled_program) {
    HloModule *module = parse(
        "HloModule t, is_scheduled=true\nENTRY e {\n p = f32[6] parameter(0)\n a = f32[6] negate(p)\n"
        " ROOT b = f32[6] negate(a)\n}\n");
    CompiledModule *compiled = compile(module, NULL);
    cr_expect_eq(simplified_count(compiled->module), 2);
    compiled_module_free(compiled);
    hlo_module_free(module);
}

Test(compile_pipeline, inlines_calls) {
    HloModule *module = parse(
        "HloModule t\nf { x = f32[6] parameter(0)\n ROOT n = f32[6] negate(x) }\n"
        "ENTRY e { p = f32[6] parameter(0)\n a = f32[6] call(p), to_apply=f\n ROOT b = f32[6] call(a), to_apply=f }\n");
    CompiledModule *compiled = compile(module, NULL);
    cr_expect_eq(simplified_count(compiled->module), 0);
    compiled_module_free(compiled);
    hlo_module_free(module);
}

// Bug: all-reduces were joined in the order that inlining leaves, which depends on how calls were read.
Test(compile_pipeline, joins_collectives_alike_however_calls_are_ordered) {
#define LAYER                                                                                 \
    "sum {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}\n" \
    "column {\n a = f32[1024,512] parameter(0)\n z = f32[] constant(0)\n"                     \
    " ROOT r = f32[512] reduce(a, z), dimensions={0}, to_apply=sum\n}\n"
#define X " x = f32[1024,512] parameter(0), sharding={devices=[4,1]<=[4]}\n"
#define A " a = f32[512] call(x), to_apply=column\n"
#define B " n = f32[1024,512] negate(x)\n b = f32[512] call(n), to_apply=column\n"
#define C " m = f32[1024,512] cosine(x)\n c = f32[512] call(m), to_apply=column\n"
#define SUM " ROOT t = (f32[512], f32[512], f32[512]) tuple(a, b, c)\n}\n"
    static const char *const orders[] = {
        "HloModule m, num_partitions=4\n" LAYER "ENTRY e {\n" X A B C SUM,
        "HloModule m, num_partitions=4\n" LAYER "ENTRY e {\n" X C A B SUM,
        "HloModule m, num_partitions=4\n" LAYER "ENTRY e {\n" X B C A SUM,
    };
    for (size_t i = 0; i < HLO_COUNT_OF(orders); i++) {
        HloModule *module = parse(orders[i]);
        CompiledModule *compiled = compile(module, NULL);
        HloText joined = {0};
        for (const HloInstruction *at = compiled->module->entry->first; at; at = at->next)
            for (int32_t k = 0; hlo_is(at, HLO_OP_ALL_REDUCE) && k < at->operand_count; k++)
                hlo_text_format(&joined, "%s%s", k ? " " : "", hlo_op_text(at->operands[k]->operands[0]->opcode));
        cr_expect_str_eq(joined.data, "parameter negate cosine", "%zu: %s", i, joined.data);
        hlo_text_free(&joined);
        compiled_module_free(compiled);
        hlo_module_free(module);
    }
}

// ---- donation

typedef struct Donation {
    const char *header, *wanted;  // of the module; "result:argument" of each alias afterwards, in order of results
} Donation;

// Arguments: f32[4], f32[8], f32[4], f32[2,2]; results: f32[8], f32[4], f32[2,2], f32[4].
static const Donation kDonations[] = {
    {"", ""},
    {", buffer_donor={ (0, {}) }", "1:0"},
    {", buffer_donor={ (1, {}), (0, {}) }", "0:1 1:0"},
    {", buffer_donor={ (2, {}), (0, {}), (3, {}) }", "1:0 2:2 3:3"},
    {", input_output_alias={ {3}: (0, {}, may-alias) }, buffer_donor={ (2, {}) }", "1:2 3:0"},
    {", input_output_alias={ {0}: (1, {}, must-alias) }, buffer_donor={ (0, {}) }", "0:1 1:0"},
};

static void list_aliases(const HloModule *module, HloText *text) {
    for (int64_t result = 0; result < 4; result++) {
        for (int64_t i = 0; i < module->aliases.count; i++) {
            const HloAlias *alias = &module->aliases.items[i];
            if (alias->output_index.items[0] != result) continue;
            hlo_text_format(text, "%s%d:%d", text->length ? " " : "", (int)result, (int)alias->operand);
        }
    }
}

// The first result that fits, in the order in which donors are listed. Arrays of one size take each other's place.
Test(compile_pipeline, matches_donors_with_results) {
    for (size_t i = 0; i < HLO_COUNT_OF(kDonations); i++) {
        HloText text = {0}, aliases = {0};
        hlo_text_format(&text,
                        "HloModule t%s\nENTRY e {\n a = f32[4] parameter(0)\n b = f32[8] parameter(1)\n"
                        " c = f32[4] parameter(2)\n d = f32[2,2] parameter(3)\n w = f32[8] sine(b)\n"
                        " x = f32[4] sine(a)\n y = f32[2,2] sine(d)\n z = f32[4] cosine(c)\n"
                        " ROOT t = (f32[8], f32[4], f32[2,2], f32[4]) tuple(w, x, y, z)\n}\n",
                        kDonations[i].header);
        HloModule *module = parse(text.data);
        CompiledModule *compiled = compile(module, NULL);
        list_aliases(compiled->module, &aliases);
        cr_expect_str_eq(aliases.data ? aliases.data : "", kDonations[i].wanted, "%s: %s", kDonations[i].header,
                         aliases.data);
        cr_expect_eq(compiled->module->donor_count, 0);
        cr_expect_null(hlo_verify(compiled->module));
        hlo_text_free(&text);
        hlo_text_free(&aliases);
        compiled_module_free(compiled);
        hlo_module_free(module);
    }
}

// Memory holds elements in one order: a result in another order cannot reuse it, nor one in another memory.
Test(compile_pipeline, donors_need_results_of_their_layout_and_memory) {
    static const char *const kResults[] = {"{1,0}", "{0,1}", "{1,0:S(5)}"};
    for (int i = 0; i < 3; i++) {
        HloText text = {0};
        hlo_text_format(
            &text,
            "HloModule t, buffer_donor={ (0, {}) }, entry_computation_layout={(f32[2,3]{1,0})->f32[2,3]%s}\n"
            "ENTRY e {\n a = f32[2,3]{1,0} parameter(0)\n ROOT b = f32[2,3]%s sine(a)\n}\n",
            kResults[i], kResults[i]);
        HloModule *module = parse(text.data);
        CompiledModule *compiled = compile(module, NULL);
        cr_expect_eq(compiled->module->aliases.count, i == 0, "%s", kResults[i]);
        hlo_text_free(&text);
        compiled_module_free(compiled);
        hlo_module_free(module);
    }
}

// The text of a compiled program is freed by the caller.
static char *compiled_text(const char *text, const CompileOptions *options) {
    HloModule *module = parse(text);
    CompiledModule *compiled = compile(module, options);
    char *result = print(compiled->module);
    compiled_module_free(compiled);
    hlo_module_free(module);
    return result;
}

// JAX's HLO text has the orders of dimensions that XLA's shape inference derives; its StableHLO has none. What a
// program is estimated to take may not depend on it: `top_k` took 137.8 and 139.5 us. Orders that somebody asks for
// stay.
Test(compile_pipeline, orders_that_xla_derives_are_forgotten) {
    static const struct {
        const char *order, *body, *wanted;
    } kPrograms[] = {
        {"{0,1}", "t = f32[3,2]{0,1} transpose(a), dimensions={1,0}\n ROOT r = f32[3,2]{0,1} sine(t)", NULL},
        {"{1,0}", "t = f32[3,2]{0,1} transpose(a), dimensions={1,0}\n ROOT r = f32[3,2]{1,0} sine(t)", NULL},
        {"{0,1}", "t = f32[3,2]{1,0} transpose(a), dimensions={1,0}\n ROOT r = f32[3,2]{0,1} copy(t)", "f32[3,2]{0,1}"},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(kPrograms); i++) {
        HloText text = {0};
        hlo_text_format(&text,
                        "HloModule t, entry_computation_layout={(f32[2,3]{1,0})->f32[3,2]%s}\n"
                        "ENTRY e {\n a = f32[2,3]{1,0} parameter(0)\n %s\n}\n",
                        kPrograms[i].order, kPrograms[i].body);
        char *result = compiled_text(text.data, NULL);
        cr_expect_eq(strstr(result, "{0,1}") != NULL, kPrograms[i].wanted != NULL, "%s", result);
        if (kPrograms[i].wanted) cr_expect_not_null(strstr(result, kPrograms[i].wanted), "%s", result);
        hlo_free(result);
        hlo_text_free(&text);
    }
}

// The order of columns in which JAX's HLO text calls the host's LAPACK is in its StableHLO too, where nothing reads it:
// a gradient of `solve` took 1,375.3 and 1,376.9 us.
Test(compile_pipeline, orders_of_the_hosts_lapack_are_forgotten) {
    char *result = compiled_text(
        "HloModule t, entry_computation_layout={(f32[4,4]{1,0})->(f32[4,4]{0,1}, s32[])}\n"
        "ENTRY e {\n a = f32[4,4]{1,0} parameter(0)\n"
        " ROOT r = (f32[4,4]{0,1}, s32[]) custom-call(a), custom_call_target=\"lapack_spotrf_ffi\", "
        "operand_layout_constraints={f32[4,4]{0,1}}, api_version=API_VERSION_TYPED_FFI, backend_config={uplo = 76 : "
        "ui8}\n}\n",
        NULL);
    cr_expect_null(strstr(result, "operand_layout_constraints"), "%s", result);
    hlo_free(result);
}

// ---- dumps

static bool exists(const char *folder, const char *name) {
    HloText path = {0};
    hlo_text_format(&path, "%s/%s", folder, name);
    const bool found = access(path.data, R_OK) == 0;
    if (found) unlink(path.data);
    hlo_text_free(&path);
    return found;
}

Test(compile_pipeline, dumps_under_the_names_of_xla) {
    char folder[] = "/tmp/meshlo_dump_XXXXXX";
    cr_assert_not_null(mkdtemp(folder));
    HloModule *module = simplified_module(simplified_chain(), ", sharding={replicated}");
    const CompileOptions options = {.spmd = {.num_partitions = 2},
                                    .dump = {.folder = folder,
                                             .stages = "inline,simplify",
                                             .pass_pattern = "^constant-folding$",
                                             .as_text = true,
                                             .as_proto = true,
                                             .must_succeed = true,
                                             .number = 7}};
    CompiledModule *compiled = compile(module, &options);
    cr_expect_null(compiled->dump_failure);
    cr_expect(exists(folder, "module_0007.t.before_optimizations.txt"));
    cr_expect(exists(folder, "module_0007.t.before_optimizations.hlo.pb"));
    cr_expect(exists(folder, "module_0007.t.after_spmd_partitioning.txt"));
    cr_expect(exists(folder, "module_0007.t.after_optimizations.txt"));
    cr_expect(exists(folder, "module_0007.t.after_optimizations.hlo.pb"));
    cr_expect(exists(folder, "module_0007.t.0001.inline.after_inline.txt"));
    cr_expect(exists(folder, "module_0007.t.0002.simplify-before-partitioning.after_constant-folding.txt"));
    cr_expect_not(exists(folder, "module_0007.t.0003.partition.after_partition.txt"));
    compiled_module_free(compiled);
    hlo_module_free(module);
    cr_expect_eq(system("rm -r /tmp/meshlo_dump_*"), 0);
}

// A dump requested by the environment does not stop the compiler; one requested on the command line does.
Test(compile_pipeline, a_dump_that_cannot_be_written_is_reported) {
    HloModule *module = simplified_module(simplified_case(0), "");
    CompileOptions options = {.dump = {.folder = "/dev/null/dumps"}};
    CompiledModule *compiled = compile(module, &options);
    cr_expect_not_null(compiled->dump_failure);
    compiled_module_free(compiled);
    options.dump.must_succeed = true;
    HloStatus status = compile_module(module, &options, &compiled);
    cr_expect_not_null(status);
    hlo_status_free(status);
    options.dump = (CompileDump){.folder = "/tmp", .stages = "partition,simplyfy", .must_succeed = true};
    status = compile_module(module, &options, &compiled);
    cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(hlo_status_message(status), "'simplyfy' is not a stage"));
    hlo_status_free(status);
    hlo_module_free(module);
}

Test(compile_pipeline, the_environment_asks_for_dumps) {
    HloArena *arena = hlo_arena_new();
    CompileDump dump;
    unsetenv("MESHLO_DUMP");
    setenv("XLA_FLAGS",
           "--xla_other=3 --xla_dump_to='some folder' --xla_dump_hlo_as_proto --xla_dump_hlo_pass_re=spmd.*", 1);
    compile_dump_from_environment(arena, &dump);
    cr_expect_str_eq(dump.folder, "some folder");
    cr_expect_str_eq(dump.pass_pattern, "spmd.*");
    cr_expect(dump.as_proto && !dump.as_text && !dump.must_succeed);
    setenv("MESHLO_DUMP", "here:inline,layouts", 1);
    compile_dump_from_environment(arena, &dump);
    cr_expect_str_eq(dump.folder, "here");
    cr_expect_str_eq(dump.stages, "inline,layouts");
    unsetenv("MESHLO_DUMP");
    setenv("XLA_FLAGS", "--xla_dump_to=-", 1);
    compile_dump_from_environment(arena, &dump);
    cr_expect_null(dump.folder);
    unsetenv("XLA_FLAGS");
    hlo_arena_free(arena);
}

Test(compile_pipeline, refuses_programs_that_are_not_well_formed) {
    HloModule *module = parse("HloModule t\nENTRY e {\n ROOT p = f32[6] parameter(0)\n}\n");
    CompiledModule *compiled = NULL;
    module->replica_count = 0;
    HloStatus status = compile_module(module, NULL, &compiled);
    cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    cr_expect_null(compiled);
    hlo_status_free(status);
    hlo_module_free(module);
}
