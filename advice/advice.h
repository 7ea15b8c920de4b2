// SPDX-License-Identifier: Apache-2.0
// Advice about a partitioned program: what each of its collectives is for, what it costs, and which changes of
// shardings make the step faster. Changes are tried before they are suggested: the program is partitioned and timed
// again with each of them, and only those that help are kept.
//
//     AdviceOptions options = {.topology = topology, .budget_seconds = 10};
//     AdviceReport *report;
//     HLO_TRY(advice_new(module, &compile, &options, &report));
//     advice_print(&text, report);
//     advice_free(report);
//
// Terms:
//   kind         what a collective is for (kinds.def), found from the data flow of the program of one device.
//   group        collectives of one kind that move arrays of the same name but for numbers, over the same axes: those
//                of equal layers.
//   suggestion   values of --shard, a mesh, or an order of the devices that make the step faster or let the program
//                fit.
//
// Stability: experimental.
#ifndef MESHLO_ADVICE_ADVICE_H_
#define MESHLO_ADVICE_ADVICE_H_

#include "compile/pipeline.h"
#include "emulator/emulator.h"

HLO_BEGIN_C

typedef enum AdviceKind {
#define ADVICE_KIND(id, key, title, warned) ADVICE_KIND_##id,
#include "advice/kinds.def"
#undef ADVICE_KIND
    ADVICE_KIND_COUNT
} AdviceKind;

// The key of a kind in JSON. Static storage.
HLO_EXPORT const char *advice_kind_key(AdviceKind kind);
// The title of a kind in tables. Static storage.
HLO_EXPORT const char *advice_kind_title(AdviceKind kind);

// Zero-initialise for the defaults.
typedef struct AdviceOptions {
    const EmuTopology *topology;       // NULL or host processors: no times, and nothing is tried
    const int64_t *device_assignment;  // as in EmuOptions; NULL: target_default_assignment()
    int64_t device_assignment_count;
    const char *mesh_source;  // who named the mesh, for printing; NULL: unknown
    double budget_seconds;    // for trying suggestions; 0: none are tried
    bool constraints_only;    // try nothing but constraints on values inside of the program
    // Called before each trial, and with the share of the budget that is used up; may be NULL.
    void (*progress)(void *context, int64_t tried, double share);
    void *progress_context;
} AdviceOptions;

// Amounts of one device in one step. Times are 0 without a slice.
typedef struct AdviceAmount {
    int64_t sites;        // collectives in the program
    int64_t count;        // how often they run
    int64_t bytes;        // that one device sends
    int64_t picoseconds;  // of the network
    int64_t waited;       // picoseconds of it that the device waits for
} AdviceAmount;

// Collectives that are one line of the table. Strings live as long as the report.
typedef struct AdviceGroup {
    AdviceKind kind;
    const char *opcode;  // "all-gather"
    const char *axes;    // of the mesh, "data,model"; "" if unknown
    const char *what;    // the parameter or the result that is moved
    const char *scope;   // where, as jax.named_scope has it, or ""
    const char *source;  // "file:line", or ""
    const char *cause;   // for kinds that are warned about: the shardings that disagree; else ""
    AdviceAmount amount;
} AdviceGroup;

// A sum over groups.
typedef struct AdviceTotal {
    const char *name;  // of a kind or of axes
    AdviceAmount amount;
} AdviceTotal;

// A change that helps. Strings live as long as the report.
typedef struct AdviceSuggestion {
    const char *text;            // in JAX's words
    const char *const *options;  // to paste: "--shard", "params['wq']=data,-" …
    int64_t option_count;
    int64_t step_picoseconds, hbm_peak_bytes, bytes_per_device;
    bool fits;
} AdviceSuggestion;

// Free with advice_free().
typedef struct AdviceReport {
    HloArena *arena;
    const SpmdReport *collectives;  // of the program; lives as long as the report
    CompiledModule *compiled;       // owned where advice_new() made it, else NULL
    const char *mesh, *mesh_source;
    const char *topology;  // "" without a slice
    int64_t num_partitions;
    int64_t step_picoseconds, exposed_picoseconds, hbm_peak_bytes, bytes_per_device;
    bool fits;
    const AdviceGroup *groups;  // by what they cost: those the device waits for longest first, or by bytes
    int64_t group_count;
    const AdviceTotal *kinds, *axes;  // likewise
    int64_t kind_count, axis_count;
    const AdviceSuggestion *suggestions;  // the fastest first
    int64_t suggestion_count;
    // A donation of arguments that the program lacks and that lowers the peak, tried too; without options. NULL: none.
    const AdviceSuggestion *donation;
    int64_t tried;       // changes that were partitioned and timed
    bool is_incomplete;  // the budget ended before all were tried
} AdviceReport;

// Partitions `module` as `compile` says, explains its collectives and tries changes. `compile->spmd.async` should be
// what the slice does (chip.overlaps_collectives). Errors as compile_module() and emu_simulate(). Any thread.
HLO_EXPORT HLO_NODISCARD HloStatus advice_new(const HloModule *module, const CompileOptions *compile,
                                              const AdviceOptions *options, AdviceReport **report);
// The same for a program that has been compiled already, by these options; `compiled` must outlive the report.
HLO_EXPORT HLO_NODISCARD HloStatus advice_of_compiled(const HloModule *module, const CompileOptions *compile,
                                                      const CompiledModule *compiled, const AdviceOptions *options,
                                                      AdviceReport **report);
// Frees a report; accepts NULL.
HLO_EXPORT void advice_free(AdviceReport *report);
// The table of `meshlo explain`: groups that cost at least one percent, totals, warnings, suggestions.
HLO_EXPORT void advice_print(HloText *text, const AdviceReport *report);
// The object of `meshlo explain --json`: that of `meshlo partition --json` with more members.
HLO_EXPORT void advice_json(HloJsonWriter *writer, const AdviceReport *report);
// The same as text with a newline at the end.
HLO_EXPORT void advice_write_json(const AdviceReport *report, HloText *text);

// ---- names

// A name with `*` in place of the numbers in it, as in params['layers'][*]['wq']: equal layers have one. In `arena`.
HLO_EXPORT const char *advice_name_pattern(HloArena *arena, const char *name);
// The name of a flattened parameter for people and for --shard: JAX's if it has one, else pN. In `arena`.
HLO_EXPORT const char *advice_parameter_name(HloArena *arena, const HloModule *module, int64_t leaf);
// A spec of the command in JAX's words: P('data', None, ('data', 'model')) for data,-,data+model. In `arena`.
HLO_EXPORT const char *advice_partition_spec(HloArena *arena, const char *spec);
// A collective's reason with its shardings, [{data}, {}], in JAX's words, P('data', None), as explanations have them.
HLO_EXPORT const char *advice_reason_words(HloArena *arena, const char *reason);
// What a collective of a per-device program is about: the parameter that it moves (its name pattern), or "". In
// `arena`.
HLO_EXPORT const char *advice_moved_parameter(HloArena *arena, const HloInstruction *collective);
// The named scope of an instruction (jit(step)/layers_*/attention), without numbers and its own operation; "" if
// unknown. In `arena`.
HLO_EXPORT const char *advice_scope(HloArena *arena, const HloInstruction *instruction);
// The instruction of a report's collective; NULL if the module does not have it.
HLO_EXPORT const HloInstruction *advice_instruction(const HloModule *module, const SpmdCollective *collective);

HLO_END_C

#endif
