// SPDX-License-Identifier: Apache-2.0
// meshlo run: real numbers on virtual devices, compared with the reference evaluator on request.
//
// The steps: prepare the program (prepare.c), choose machine and devices, read or make inputs, run (execute.c),
// compare, write and print. Everything on the command line that can be wrong is checked before the program runs;
// results are written before a NaN trap or a comparison ends the verb, so that they can be inspected.
#include <assert.h>
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "advice/difference.h"
#include "hlo/analysis/closeness.h"
#include "hlo/analysis/roundings.h"
#include "hlo/base/complex.h"
#include "hlo/ir/custom_call.h"
#include "hlo/pass/wide_floats.h"
#include "hlo/text/text.h"
#include "tools/execute.h"
#include "tools/machine.h"
#include "tools/sizes.h"

static const CliOption kOptions[] = {
    {"input", CLI_LIST, "K=F.npy",
     "Input K (a number, p0, or a parameter's name) from a file; or F.npz with arr_0, arr_1 …"},
    {"infeed", CLI_LIST, "[D=]F.npy",
     "The next array for the program's infeeds, on every device or on partition D; or F.npz with arr_0, arr_1 …"},
    {"seed", CLI_INTEGER, "S", "Seed of the inputs that are not given (default 0)."},
    {"output", CLI_TEXT, "DIR",
     "Write the results as DIR/0.npy, 1.npy …, and what outfeeds give on partition D as DIR/outfeed.D.0.npy …"},
    {"engine", CLI_TEXT, "compiled|eval", "How to run: compiled (default), or by the reference evaluator."},
    {"compare", CLI_TEXT, "eval", "Compare with the reference evaluator on the unpartitioned program."},
    {"rtol", CLI_NUMBER, "R", "Relative tolerance of the comparison (default: by type)."},
    {"atol", CLI_NUMBER, "A", "Absolute tolerance of the comparison (default: by type and size of the array)."},
    {"first-difference", CLI_FLAG, NULL,
     "If --compare finds a difference, name the first instruction whose value differs, and how the error grows."},
    {"numerics", CLI_TEXT, "exact|tpu",
     "f32 matrix products: exact f32, or rounded as on a TPU (default: depends on the machine)."},
    {"trap-nan", CLI_FLAG, NULL, "Fail (exit code 6) when a result has a NaN; the results are written nevertheless."},
    {"repeat", CLI_INTEGER, "N", "Run N times."},
    {"print", CLI_FLAG, NULL, "Print the results; with --json, as its key results."},
    {"per-device", CLI_FLAG, NULL, "Inputs and outputs carry a leading axis of devices."},
    {"json", CLI_FLAG, NULL, "Print a report as JSON."},
};
static const CliOptionTable kTable = CLI_TABLE(kOptions);

// All that one run of the verb holds.
typedef struct Run {
    CliContext *context;
    CliProgram program;
    CliBoundary boundary;
    CliExecution execution;
    CliArrays inputs, results, expected;
    CliFeeds feeds, expected_feeds;  // of the run, and of the evaluator's for comparison
    CliTimes times;
    CliMemory memory;  // that the run takes
    EmuTopology *topology;
    HloLiteral *evaluated;
    // The same in f64, for results that differ: made when the first one does.
    bool asked_for_reference;
    HloModule *wide;
    HloLiteral *wide_result;
    CliArrays reference;
    HloText no_reference;     // why there is no reference
    AdviceDifference *first;  // of --first-difference, if a result differs
    int64_t ill_conditioned;  // results that differ for that reason alone
} Run;

// The option overrides the environment, which overrides the machine's default.
static HloStatus read_numerics(CliContext *context, const EmuTopology *topology, TargetNumerics *numerics) {
    HloStatus status = cli_flag(context, "numerics")
                           ? target_numerics_parse(cli_text_or(context, "numerics", ""), "--numerics", numerics)
                           : target_numerics_from_environment(numerics);
    if (status) {
        HloStatus usage = cli_usage_error(context, "%s", hlo_status_message(status));
        hlo_status_free(status);
        return usage;
    }
    if (*numerics == TARGET_NUMERICS_DEFAULT)
        *numerics = emu_topology_is_tpu(topology) ? TARGET_NUMERICS_TPU : TARGET_NUMERICS_EXACT;
    return HLO_SUCCESS;
}

// Unknown engines, and tolerances without a comparison, are errors to be reported before any work.
static HloStatus read_engine(CliContext *context, bool *evaluate) {
    const char *engine = cli_text_or(context, "engine", "compiled"), *compare = cli_text_or(context, "compare", "eval");
    *evaluate = strcmp(engine, "eval") == 0;
    if (!*evaluate && strcmp(engine, "compiled") != 0)
        return cli_usage_error(context, "--engine expects compiled or eval, not '%s'", engine);
    if (strcmp(compare, "eval") != 0) return cli_usage_error(context, "--compare expects eval, not '%s'", compare);
    if (!cli_flag(context, "compare") && (cli_flag(context, "rtol") || cli_flag(context, "atol"))) {
        return cli_usage_error(context, "--%s is a tolerance of --compare, which is missing",
                               cli_flag(context, "rtol") ? "rtol" : "atol");
    }
    if (cli_flag(context, "first-difference") &&
        (!cli_flag(context, "compare") || *evaluate || cli_flag(context, "per-device"))) {
        return cli_usage_error(context,
                               "--first-difference needs --compare eval, the compiled engine, and no --per-device");
    }
    return HLO_SUCCESS;
}

// Chooses machine, numerics and devices once the number of partitions is known. Without a machine the program gets as
// many host devices as it needs.
static HloStatus choose_machine(Run *run) {
    CliContext *context = run->context;
    CliExecution *execution = &run->execution;
    const char *spec = cli_machine(context);
    if (!spec) spec = hlo_arena_format(context->arena, "cpu:%lld", (long long)run->program.device_count);
    HLO_TRY(cli_topology_open(context, spec, NULL, &run->topology));
    execution->program = &run->program;
    execution->machine = spec;
    execution->per_device = cli_flag(context, "per-device");
    HLO_TRY(read_numerics(context, run->topology, &execution->numerics));
    return cli_device_assignment(context, run->topology, &run->program, &execution->assignment);
}

// The evaluator's results on the program of each device.
// `execution` is copied, so that the run's own options stay: one repeat, feeds of its own.
static HloStatus evaluate_per_device(Run *run) {
    CliExecution execution = run->execution;
    CliTimes times;
    execution.evaluate = true;
    execution.repeat = 1;
    execution.feeds = &run->expected_feeds;
    return cli_execute(run->context, &execution, &run->boundary, &run->inputs, &run->expected, &times);
}

// The evaluator's results on whole arrays, of the program as it was read.
// The oracle for partitioned runs: the program before partitioning, on one device, by hlo/eval. Its numerics follow the
// run's, or rounding of bf16 products would be taken for an error.
static HloStatus evaluate_whole(Run *run) {
    CliContext *context = run->context;
    const HloModule *module = run->program.original;
    const HloEvalHost host = cli_feeds_host(&run->expected_feeds);
    HloEvalOptions options = {
        .host = &host,
        .numerics = run->execution.numerics == TARGET_NUMERICS_TPU ? HLO_NUMERICS_TPU : HLO_NUMERICS_EXACT,
        .device_count = run->program.num_partitions};
    CliArrays parameters = cli_arrays_to_parameters(context, module->entry, &run->inputs);
    cli_ticker_start(context, "evaluating");
    const HloStatus status =
        hlo_evaluate(module, (const HloLiteral *const *)parameters.items, parameters.count, &options, &run->evaluated);
    cli_ticker_stop(context);
    HLO_TRY(status);
    run->expected = cli_arrays_from_result(context, run->evaluated);
    return HLO_SUCCESS;
}

// The evaluator's results with all floats in f64.
static HloStatus evaluate_wide(Run *run) {
    CliContext *context = run->context;
    HLO_FAIL_IF(!run->evaluated, HLO_UNIMPLEMENTED, "the program was not evaluated on whole arrays");
    HLO_TRY(hlo_wide_floats(run->program.original, &run->wide));
    CliArrays parameters = cli_arrays_to_parameters(context, run->program.original->entry, &run->inputs);
    const HloLiteral **wide = HLO_ARENA_NEW(context->arena, const HloLiteral *, parameters.count);
    for (int64_t p = 0; p < parameters.count; ++p)
        wide[p] = hlo_wide_floats_literal(context->arena, parameters.items[p]);
    const HloEvalOptions options = {.device_count = run->program.num_partitions};
    cli_ticker_start(context, "evaluating in f64");
    const HloStatus status = hlo_evaluate(run->wide, wide, parameters.count, &options, &run->wide_result);
    cli_ticker_stop(context);
    HLO_TRY(status);
    run->reference = cli_arrays_from_result(context, run->wide_result);
    return HLO_SUCCESS;
}

// Whether there is a run in f64; it is made once.
static bool has_reference(Run *run) {
    if (run->asked_for_reference) return run->reference.count > 0;
    run->asked_for_reference = true;
    HloStatus status = evaluate_wide(run);
    if (status) hlo_text_string(&run->no_reference, hlo_status_message(status));
    hlo_status_free(status);
    return run->reference.count > 0;
}

// Whether a run in f64 shows that result `index`, which differs, is ill-conditioned; puts a sentence about it in
// *words.
static bool is_ill_conditioned(Run *run, int64_t index, const HloTolerance *tolerance, HloText *words) {
    if (!has_reference(run)) {
        hlo_text_format(words, "; it cannot be run in f64 to see whether it is ill-conditioned: %s",
                        run->no_reference.data);
        return false;
    }
    const HloLiteral *reference = run->reference.items[index], *expected = run->expected.items[index];
    if (!hlo_shape_equal(reference->shape, expected->shape, HLO_COMPARE_DIMS_ONLY)) {
        hlo_text_string(words, "; a run in f64 gives an array of a different size");
        return false;
    }
    const HloDistances far = hlo_literal_distances(reference, expected, run->results.items[index], tolerance);
    hlo_text_format(words, "%s the engine is %.2g and the evaluator %.2g of its root mean square from a run in f64",
                    far.ill_conditioned ? ":" : ";", far.actual, far.expected);
    return far.ill_conditioned;
}

// The evaluator's results of replicas, each with whole arrays: they are its devices, and talk to each other.
static HloStatus evaluate_replicas(Run *run) {
    CliExecution execution = run->execution;
    CliProgram program = run->program;
    CliTimes times;
    const CliBoundary whole = cli_boundary_whole(run->context, &run->boundary);
    program.per_device = program.original;
    program.num_partitions = 1;
    program.device_count = program.replica_count;
    execution.program = &program;
    execution.evaluate = true;
    execution.repeat = 1;
    execution.feeds = &run->expected_feeds;
    return cli_execute(run->context, &execution, &whole, &run->inputs, &run->expected, &times);
}

// Feeds belong to devices: what each one reads and writes has no meaning on whole arrays. Manual regions of replicas
// would need devices of two kinds.
static bool is_of_devices(const CliProgram *program) {
    const HloModule *module = program->original;
    for (int64_t c = 0; c < module->computations.count; ++c) {
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next) {
            if (hlo_is(at, HLO_OP_INFEED) || hlo_is(at, HLO_OP_OUTFEED)) return true;
            if (program->replica_count > 1 && hlo_custom_call_kind(at) == HLO_CALL_FULL_TO_SHARD) return true;
        }
    }
    return false;
}

// Computes the reference for the results. A program that has a meaning only on several devices (manual regions) is
// evaluated device by device. If the whole program is UNIMPLEMENTED, the run does not fail: the note names what the
// results were compared with instead.
static HloStatus evaluate(Run *run) {
    cli_feeds_rewind(&run->expected_feeds);
    const CliProgram *program = &run->program;
    if (program->was_partitioned || run->execution.per_device || (program->device_count > 1 && is_of_devices(program)))
        return evaluate_per_device(run);
    HloStatus status = program->replica_count > 1 ? evaluate_replicas(run) : evaluate_whole(run);
    if (hlo_status_code(status) != HLO_UNIMPLEMENTED || program->num_partitions == 1) return status;
    hlo_text_format(&run->context->complaint, "note: evaluated device by device, since %s\n",
                    hlo_status_message(status));
    hlo_status_free(status);
    return evaluate_per_device(run);
}

// The first element that is a NaN, in either part; -1 without one.
// Both parts of a complex number are looked at. Types without NaN are converted too, and have none.
static int64_t first_nan(const HloLiteral *literal) {
    const HloType type = literal->shape->type;
    if (!hlo_shape_is_array(literal->shape) || !hlo_type_is_float(hlo_type_real_part(type))) return -1;
    const int64_t elements = hlo_shape_elements(literal->shape);
    for (int64_t i = 0; i < elements; ++i) {
        const double _Complex element = hlo_literal_get_complex(literal, i);
        if (isnan(creal(element)) || isnan(cimag(element))) return i;
    }
    return -1;
}

// The first result that has one; the results have been written by then.
// Findings by cli_fail(): the results have been written and are still printed.
static HloStatus trap_nan(Run *run) {
    for (int64_t i = 0; i < run->results.count; ++i) {
        const int64_t at = first_nan(run->results.items[i]);
        if (at < 0) continue;
        HloText place = {0};
        hlo_shape_print_index(&place, run->results.items[i]->shape, at);
        const HloStatus status = cli_fail(run->context, CLI_EXIT_RUN_TIME, "error: result %lld is not a number at %s",
                                          (long long)i, place.data ? place.data : "?");
        hlo_text_free(&place);
        return status;
    }
    return HLO_SUCCESS;
}

// Compares one array; the first that differs ends the verb with exit code 1, unless it is result number `index` (-1: no
// result) and ill-conditioned. *worst grows to the largest relative error.
// Only the first array that differs is complained about: later ones differ mostly because of it. `worst` is kept for
// all; a NaN error makes it NaN, by the negated comparison.
static HloStatus compare_array(Run *run, const char *what, int64_t index, const HloLiteral *expected,
                               const HloLiteral *actual, const HloTolerance *tolerance, double *worst) {
    assert(what && worst);
    CliContext *context = run->context;
    if (!hlo_shape_is_array(expected->shape)) return HLO_SUCCESS;
    if (!hlo_shape_equal(expected->shape, actual->shape, HLO_COMPARE_BOUNDS))
        return cli_fail(context, CLI_EXIT_CHECK_FAILED, "error: the size of %s differs from the evaluator's", what);
    HloDifference difference = hlo_literal_compare(expected, actual, tolerance);
    if (!(difference.largest_relative <= *worst)) *worst = difference.largest_relative;
    if (difference.count == 0 || context->exit_code != CLI_EXIT_OK) return HLO_SUCCESS;
    HloText place = {0}, verdict = {0};
    hlo_shape_print_index(&place, expected->shape, difference.first);
    const bool excused = index >= 0 && is_ill_conditioned(run, index, tolerance, &verdict);
    const char *words = hlo_arena_format(
        context->arena,
        "%s differs from the evaluator in %lld of %lld elements, first at %s: %.9g instead of %.9g (error %.3g)", what,
        (long long)difference.count, (long long)hlo_shape_elements(expected->shape), place.data ? place.data : "?",
        difference.actual, difference.expected, difference.error);
    HloStatus status = HLO_SUCCESS;
    run->ill_conditioned += excused;
    if (excused)
        hlo_text_format(&context->complaint, "note: %s, but is ill-conditioned%s\n", words, verdict.data);
    else
        status = cli_fail(context, CLI_EXIT_CHECK_FAILED, "error: %s%s", words, verdict.data ? verdict.data : "");
    hlo_text_free(&place);
    hlo_text_free(&verdict);
    return status;
}

// Fills `most`, one for each result and the last for the whole program, with the roundings that lead to it: those of
// `module`, if there are more.
static void add_roundings(CliContext *context, const HloModule *module, double *most, int64_t results) {
    HloRoundings roundings = {.arena = context->arena};
    const HloInstruction *root = module->entry->root;
    double *depths = HLO_ARENA_NEW(context->arena, double, module->instruction_limit + 1);
    hlo_roundings_fill(&roundings, module->entry, depths);
    const bool is_tuple = hlo_is(root, HLO_OP_TUPLE) && root->operand_count == results;
    for (int64_t i = 0; i < results; ++i) most[i] = fmax(most[i], depths[is_tuple ? root->operands[i]->id : root->id]);
    for (int64_t i = 0; i < module->instruction_limit; ++i) most[results] = fmax(most[results], depths[i]);
}

// Compares the arrays from the outfeeds with those of the evaluator. Their order and number are part of the result.
static HloStatus compare_feeds(Run *run, const HloTolerance *tolerance, double *worst) {
    HloArena *arena = run->context->arena;
    for (int64_t d = 0; d < run->feeds.devices; ++d) {
        if (run->feeds.elsewhere && run->feeds.elsewhere[d]) continue;
        const CliArrays *have = &run->feeds.given[d], *want = &run->expected_feeds.given[d];
        if (have->count != want->count)
            return cli_fail(run->context, CLI_EXIT_CHECK_FAILED,
                            "error: the outfeed of device %lld gave %lld arrays, the evaluator's %lld", (long long)d,
                            (long long)have->count, (long long)want->count);
        for (int64_t i = 0; i < have->count; ++i) {
            const char *what = hlo_arena_format(arena, "array %lld of outfeed %lld", (long long)i, (long long)d);
            HLO_TRY(compare_array(run, what, -1, want->items[i], have->items[i], tolerance, worst));
        }
    }
    return HLO_SUCCESS;
}

// Compares all arrays. *worst is the largest relative error.
static HloStatus compare(Run *run, double *worst) {
    CliContext *context = run->context;
    HloTolerance tolerance = {cli_number(context, "rtol", -1), cli_number(context, "atol", -1),
                              hlo_narrowest_float(run->program.original),
                              run->execution.numerics == TARGET_NUMERICS_TPU, 0};
    HLO_TRY(evaluate(run));
    *worst = 0;
    double *roundings = HLO_ARENA_NEW(context->arena, double, run->results.count + 1);
    add_roundings(context, run->program.original, roundings, run->results.count);
    add_roundings(context, run->program.per_device, roundings, run->results.count);
    for (int64_t i = 0; i < run->results.count; ++i) {
        const char *what = hlo_arena_format(context->arena, "result %lld", (long long)i);
        tolerance.roundings = roundings[i];
        HLO_TRY(compare_array(run, what, i, run->expected.items[i], run->results.items[i], &tolerance, worst));
    }
    tolerance.roundings = roundings[run->results.count];
    return compare_feeds(run, &tolerance, worst);
}

// Names the first instruction that differs. A program that cannot be searched keeps its verdict, with a note.
static void find_first_difference(Run *run) {
    CliContext *context = run->context;
    const CliArrays parameters = cli_arrays_to_parameters(context, run->program.original->entry, &run->inputs);
    const AdviceRun whole = {.numerics = run->execution.numerics};
    const AdviceRun machine = {
        .machine = run->execution.machine, .numerics = run->execution.numerics, .spmd = run->program.compile.spmd};
    const AdviceDifferenceOptions options = {.relative = cli_number(context, "rtol", 0),
                                             .absolute = cli_number(context, "atol", 0),
                                             .is_relative_set = cli_flag(context, "rtol"),
                                             .is_absolute_set = cli_flag(context, "atol")};
    cli_progress(context, "searching the first difference");
    HloStatus status = advice_first_difference(run->program.original, (const HloLiteral *const *)parameters.items,
                                               parameters.count, &whole, &machine, &options, &run->first);
    if (status) hlo_text_format(&context->complaint, "note: no first difference: %s\n", hlo_status_message(status));
    hlo_status_free(status);
}

static void print_results(HloText *text, const CliArrays *results) {
    for (int64_t i = 0; i < results->count; ++i) {
        hlo_shape_print(text, results->items[i]->shape, false);
        hlo_text_char(text, ' ');
        hlo_print_literal(text, results->items[i]);
        hlo_text_char(text, '\n');
    }
}

// With --print: each result's shape and its elements as HLO text writes them, so that the output stays JSON.
// Values as text and not as JSON numbers: JSON has no NaN, no infinity, and no 64-bit integers in most readers.
static void print_json_results(HloJsonWriter *json, const CliArrays *results) {
    hlo_json_key(json, "results");
    hlo_json_begin_array(json);
    for (int64_t i = 0; i < results->count; ++i) {
        HloText shape = {0}, value = {0};
        hlo_shape_print(&shape, results->items[i]->shape, false);
        hlo_print_literal(&value, results->items[i]);
        hlo_json_begin_object(json);
        hlo_json_member_string(json, "shape", shape.data ? shape.data : "");
        hlo_json_member_string(json, "value", value.data ? value.data : "");
        hlo_json_end_object(json);
        hlo_text_free(&shape);
        hlo_text_free(&value);
    }
    hlo_json_end_array(json);
}

// One line for each array that an outfeed gave.
static void print_feeds(HloText *text, const CliFeeds *feeds) {
    for (int64_t d = 0; d < feeds->devices; ++d) {
        for (int64_t i = 0; i < feeds->given[d].count; ++i) {
            hlo_text_format(text, "outfeed %lld.%lld: ", (long long)d, (long long)i);
            hlo_shape_print(text, feeds->given[d].items[i]->shape, false);
            hlo_text_char(text, ' ');
            hlo_print_literal(text, feeds->given[d].items[i]);
            hlo_text_char(text, '\n');
        }
    }
}

static void print_json(const Run *run, const double *worst) {
    HloJsonWriter json = {.text = &run->context->out, .lines = 1};
    hlo_json_begin_object(&json);
    hlo_json_member_string(&json, "machine", run->execution.machine);
    hlo_json_member_int64(&json, "num_devices", run->program.device_count);
    hlo_json_member_string(&json, "mesh", run->program.mesh);
    hlo_json_member_string(&json, "mesh_source", run->program.mesh_source);
    hlo_json_member_int64(&json, "num_replicas", run->program.replica_count);
    hlo_json_member_string(&json, "numerics", run->execution.numerics == TARGET_NUMERICS_TPU ? "tpu" : "exact");
    hlo_json_member_double(&json, "compile_seconds", run->times.compile_seconds);
    hlo_json_key(&json, "run_seconds");
    hlo_json_begin_array(&json);
    for (int64_t i = 0; i < run->times.count; ++i) hlo_json_double(&json, run->times.run_seconds[i]);
    hlo_json_end_array(&json);
    hlo_json_member_int64(&json, "host_memory_bytes", run->memory.total);
    hlo_json_member_int64(&json, "num_results", run->results.count);
    hlo_json_member_int64(&json, "collective_bytes_per_device", run->program.report->total_bytes_per_device);
    hlo_json_member_int64(&json, "collective_bytes",
                          run->program.report->total_bytes_per_device * run->program.device_count);
    if (worst) {
        hlo_json_member_double(&json, "max_relative_error", *worst);
        hlo_json_member_bool(&json, "equal", run->context->exit_code == CLI_EXIT_OK && run->ill_conditioned == 0);
        hlo_json_member_int64(&json, "ill_conditioned", run->ill_conditioned);
    }
    if (run->first) {
        hlo_json_key(&json, "first_difference");
        advice_difference_json(&json, run->first);
    }
    if (cli_flag(run->context, "print")) print_json_results(&json, &run->results);
    hlo_json_end_object(&json);
    hlo_text_char(&run->context->out, '\n');
}

// One line for each scalar result: a loss, a count.
static void print_scalars(HloText *text, const CliArrays *results) {
    for (int64_t i = 0; i < results->count; ++i) {
        if (!hlo_shape_is_scalar(results->items[i]->shape)) continue;
        hlo_text_format(text, "result %lld: ", (long long)i);
        hlo_shape_print(text, results->items[i]->shape, false);
        hlo_text_char(text, ' ');
        hlo_print_literal(text, results->items[i]);
        hlo_text_char(text, '\n');
    }
}

static void print_summary(const Run *run, const double *worst) {
    HloText *out = &run->context->out;
    hlo_text_format(out, "ran on %lld device%s of %s: compile %.2f ms, run %.2f ms",
                    (long long)run->program.device_count, run->program.device_count == 1 ? "" : "s",
                    run->execution.machine, run->times.compile_seconds * 1e3,
                    run->times.run_seconds[run->times.count - 1] * 1e3);
    if (*run->program.mesh) hlo_text_format(out, ", mesh %s (%s)", run->program.mesh, run->program.mesh_source);
    if (worst)
        hlo_text_format(out, "; largest error against the evaluator %.2g of the array's root mean square", *worst);
    hlo_text_char(out, '\n');
    if (!cli_flag(run->context, "print")) print_scalars(out, &run->results);
}

// The stage is usage by now: only writing files can still fail.
static HloStatus report(Run *run) {
    CliContext *context = run->context;
    double worst = 0;
    bool compared = cli_flag(context, "compare");
    const char *folder = cli_text(context, "output");
    if (run->execution.hosts.process_index > 0) {  // process 0 has the results
        context->stage = CLI_STAGE_USAGE;
        hlo_text_free(&context->complaint);  // notes, of which one is enough
        return folder ? cli_feeds_write(folder, &run->feeds) : HLO_SUCCESS;
    }
    if (compared) HLO_TRY(compare(run, &worst));
    if (compared && cli_flag(context, "first-difference") && context->exit_code == CLI_EXIT_CHECK_FAILED)
        find_first_difference(run);
    context->stage = CLI_STAGE_USAGE;
    if (folder) HLO_TRY(cli_arrays_write(folder, &run->results));
    if (folder) HLO_TRY(cli_feeds_write(folder, &run->feeds));
    if (cli_flag(context, "trap-nan")) HLO_TRY(trap_nan(run));
    if (cli_flag(context, "json")) {
        print_json(run, compared ? &worst : NULL);
        return HLO_SUCCESS;
    }
    if (cli_flag(context, "print")) print_results(&context->out, &run->results);
    if (cli_flag(context, "print")) print_feeds(&context->out, &run->feeds);
    if (!cli_flag(context, "print") || compared) print_summary(run, compared ? &worst : NULL);
    if (run->first) advice_difference_print(&context->out, run->first);
    return HLO_SUCCESS;
}

static bool lacks_values(const HloLiteral *literal) {
    if (literal->elided) return true;
    for (int32_t i = 0; literal->shape->type == HLO_TUPLE && i < literal->shape->element_count; i++)
        if (lacks_values(literal->elements[i])) return true;
    return false;
}

// Made-up numbers must never be mistaken for the program's.
static void say_what_is_made_up(CliContext *context, const HloModule *module) {
    int64_t count = 0;
    for (int64_t c = 0; c < module->computations.count; c++)
        for (const HloInstruction *at = module->computations.items[c]->first; at; at = at->next)
            count += hlo_is(at, HLO_OP_CONSTANT) && lacks_values(hlo_constant_literal(at));
    if (count) {
        hlo_text_format(&context->complaint,
                        "note: the text omits the values of %lld constant%s ({...}): floating-point ones are filled "
                        "with numbers in [-0.5, 0.5), others with zeros\n",
                        (long long)count, count == 1 ? "" : "s");
    }
}

// Says what the run will take of this host, and refuses what it does not have before any array is made. Small needs are
// not worth a line.
static HloStatus check_memory(Run *run) {
    CliContext *context = run->context;
    const int64_t kNotable = (int64_t)1 << 30;
    int64_t available;
    run->memory = cli_memory_of(&run->execution, &run->boundary);
    const CliMemory *memory = &run->memory;
    HLO_TRY(cli_host_memory(context, &available));
    const char *words = hlo_arena_format(
        context->arena,
        "the run needs %s of this host: inputs %s, arguments of %lld device%s %s, temporaries %s, results %s",
        cli_size(context, memory->total), cli_size(context, memory->inputs), (long long)run->program.device_count,
        run->program.device_count == 1 ? "" : "s", cli_size(context, memory->arguments),
        cli_size(context, memory->temporaries), cli_size(context, memory->results));
    if (available > 0 && memory->total > available) {
        context->stage = CLI_STAGE_COMPILE;  // a prediction
        return hlo_error(HLO_RESOURCE_EXHAUSTED, "%s; it has %s (MESHLO_HOST_MEMORY sets another limit)", words,
                         cli_size(context, available));
    }
    if (memory->total >= kNotable || context->progress || context->log) cli_note(context, words);
    return HLO_SUCCESS;
}

// Everything that can be refused is refused before the program runs.
// The order matters: options that need no program come first, then those that need its number of partitions, then
// files.
static HloStatus run_all(Run *run) {
    CliContext *context = run->context;
    HLO_TRY(read_engine(context, &run->execution.evaluate));
    run->execution.repeat = cli_integer(context, "repeat", 1);
    if (run->execution.repeat < 1) return cli_usage_error(context, "--repeat must be at least 1");
    HLO_TRY(cli_program_prepare(context, &run->program));
    HLO_TRY(choose_machine(run));
    say_what_is_made_up(context, run->program.original);
    context->stage = CLI_STAGE_PROGRAM;
    HLO_TRY(cli_boundary_read(context, &run->program, run->execution.per_device, &run->boundary));
    HLO_TRY(cli_execution_compile(context, &run->execution));
    HLO_TRY(check_memory(run));
    HLO_TRY(cli_inputs_read(context, run->program.original, run->boundary.parameters, run->boundary.shared,
                            run->boundary.spmd->parameter_count, &run->inputs));
    HLO_TRY(cli_feeds_read(context, run->program.device_count, &run->feeds));
    HLO_TRY(cli_feeds_read(context, run->program.device_count, &run->expected_feeds));
    run->execution.feeds = &run->feeds;
    HLO_TRY(cli_execute(context, &run->execution, &run->boundary, &run->inputs, &run->results, &run->times));
    return report(run);
}

static HloStatus run_run(CliContext *context) {
    Run run = {.context = context};
    HloStatus status = run_all(&run);
    cli_arrays_free(&run.inputs);
    cli_arrays_free(&run.results);
    cli_arrays_free(&run.expected);
    cli_feeds_free(&run.feeds);
    cli_feeds_free(&run.expected_feeds);
    advice_difference_free(run.first);
    hlo_literal_free(run.evaluated);
    hlo_literal_free(run.wide_result);
    hlo_module_free(run.wide);
    hlo_text_free(&run.no_reference);
    cli_execution_free(&run.execution);
    cli_boundary_free(&run.boundary);
    cli_program_free(&run.program);
    emu_topology_free(run.topology);
    return status;
}

const CliVerb cli_verb_run = {
    .name = "run",
    .arguments = "FILE",
    .summary = "Run a program on virtual devices with real numbers.",
    .description =
        "Inputs and outputs are global arrays: sharded ones are split and reassembled. Inputs that are not given are "
        "made\n"
        "from --seed, the same on every machine: with u = splitmix64(seed, input, element) uniform in [0, 1), floating "
        "types\n"
        "get 2u-1, from rank 2 on times sqrt(3/n) with n the last but one dimension; integers get floor(16u), or up "
        "to\n"
        "their type's largest number; pred gets both values with equal chance. An unsharded input of a per-device "
        "program\n"
        "goes to every device. With several replicas inputs and outputs carry a leading axis of replicas; a file "
        "without it\n"
        "goes to all of them.",
    .examples =
        "meshlo run examples/mlp_gradient_512.hlo --on v2-8 --compare eval\n"
        "meshlo run step.hlo --on cpu:8 --mesh x=4,y=2 --shard p0=x,y --input p0=x.npy --output results\n"
        "meshlo run scalar.hlo --print\n"
        "meshlo run loop.hlo --infeed first.npy --infeed second.npy --output results",
    .least_arguments = 1,
    .most_arguments = 1,
    .tables = {&cli_machine_options, &cli_partition_options, &kTable, &cli_compile_options, &cli_program_options},
    .run = run_run,
};
