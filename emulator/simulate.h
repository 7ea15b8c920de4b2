// SPDX-License-Identifier: Apache-2.0
// Simulates one step of a per-device program on a slice: how long it takes and where the time is spent, its memory, and
// the traffic on each link. All devices run the same program, so one of them is simulated, with the collectives of all.
//
// Stability: stable.
#ifndef MESHLO_EMULATOR_SIMULATE_H_
#define MESHLO_EMULATOR_SIMULATE_H_

#include "emulator/cost.h"
#include "emulator/route.h"

HLO_BEGIN_C

// What to simulate. Zero-initialise for the defaults.
typedef struct EmuOptions {
    // Device ids of the participants (replica * num_partitions + partition); NULL: the devices in jax.devices() order.
    // emu_default_assignment() gives the order of JAX's mesh.
    const int64_t *device_assignment;
    int64_t device_assignment_count;
    const char *faults;  // faults to simulate (emulator/fault.h); NULL: none
    EmuKernelCosts kernel_costs;
    // What all devices do in a step by the author's count, for the utilisation: operations of the model, and tokens (or
    // samples). 0: the operations are counted from the program, and tokens are not reported.
    double model_flops, tokens;
    // The program before it was partitioned, for the utilisation: what several devices compute alike is one operation
    // of the model. NULL: what a device computes counts, as it does where the whole program has manual regions or loops
    // of unknown length.
    const HloModule *whole;
    // What the report says of the program's mesh, as "data=4,model=2", and who named it; NULL: nothing.
    const char *mesh, *mesh_source;
    bool keeps_program;  // the report has EmuReport.program
    // A network of the same devices that remembers transfers (emulator/collective.h): what it knows is not timed again,
    // and what it does not know is added. Not used with faults. NULL: none.
    const struct EmuNetwork *known;
} EmuOptions;

// One operation on the timeline of a device. Strings live as long as the report.
typedef struct EmuOp {
    const char *name;
    const char *opcode;
    const char *source;       // "file:line", or "" if unknown
    const char *axes;         // of collectives, those of the mesh that they are along: "data,model"; "" if unknown
    const char *scope;        // the op_name of its metadata, as "jit(step)/layer/dot_general", or ""
    int64_t start, duration;  // picoseconds; those of the first iteration if it is in a loop
    int64_t count;            // how often it runs
    int64_t depth;            // of calls and loops around it; 0 in the entry computation
    bool network;             // on the network's part of the timeline
    EmuBound bound;
    double flops;    // once
    double bytes;    // once: HBM traffic, or for collectives what one device sends
    int64_t waited;  // picoseconds that the device waits for it, over all runs; 0 for what runs on the device
    // Of what the network and the host's connection do, in the first iteration: when the device asks for it, and when
    // the device goes on after it (-1: another iteration does, or none).
    int64_t issued, awaited;
    double link_bytes;       // once, on the busiest link
    bool in_shorter_branch;  // of a conditional: the step has the time of another branch
} EmuOp;

// One link and its traffic.
typedef struct EmuLinkUse {
    int64_t link;      // number (emulator/route.h)
    int64_t from, to;  // device ids; -1: the network between slices
    double bytes;
    int64_t busy;  // picoseconds
} EmuLinkUse;

// One buffer in the memory report.
typedef struct EmuBufferUse {
    const char *instruction;
    const char *kind;     // "argument", "output", "temporary"
    const char *shape;    // with layout
    const char *op_name;  // from the metadata, or ""
    const char *source;   // "file:line", or ""
    const char *role;     // whose it is: "parameter 3 (params['w'])", "gathered copy of parameter 3", …
    const char *loop;     // the loop, branch or call in which it is alive, or ""
    int64_t bytes, unpadded_bytes;
} EmuBufferUse;

// An array among the program's parameters. Lives as long as the report.
typedef struct EmuParameter {
    const char *name;                     // JAX's where the program has it: "params['w']"
    const HloShape *shape, *local_shape;  // of the whole array, and of the part that a device holds
    const HloSharding *sharding;          // NULL if there is none
} EmuParameter;

// A point of the memory curve: the bytes that the device holds from this time on.
typedef struct EmuMemoryPoint {
    int64_t start;  // picoseconds
    int64_t bytes;
} EmuMemoryPoint;

// A kind of work that a step consists of, and how far measurements of it were from the model.
typedef struct EmuRangePart {
    const char *name;     // "matrix products"
    double share;         // of the step
    double below, above;  // the deviation, as shares of the predicted time
    int64_t rows;         // published measurements; 0: the deviation is a guess
    int64_t rows_here;    // of them on this generation
} EmuRangePart;

// What was tried to make a program fit that does not: another slice or mesh.
typedef struct EmuRemedy {
    const char *what;   // "v5e-16 with data=16"
    const char *error;  // why it cannot be tried; NULL: the numbers below say what came of it
    int64_t hbm_peak_bytes, hbm_capacity_bytes;
    int64_t step_picoseconds;
} EmuRemedy;

// The result of emu_simulate(); read-only but for the remedies. Free with emu_report_free().
typedef struct EmuReport {
    const char *topology;
    const char *device_kind;
    const char *module;
    const char *mesh, *mesh_source;  // as in EmuOptions; "" where they are NULL
    int64_t num_devices;             // that take part
    int64_t slice_devices;           // that the slice has
    int64_t step_picoseconds;        // launch + compute + memory + vector … + exposed collectives and copies
    // Between which times a measured step is likely to be, by the residuals of published measurements. The upper end is
    // 0 if it is not known, because of loops of unknown length or calls of unknown cost.
    int64_t step_low_picoseconds, step_high_picoseconds;
    const EmuRangePart *range_parts;  // what the range is based on
    int64_t range_part_count;
    bool is_sustained;   // the systolic arrays work so long that their sustained rate counts
    bool routes_tokens;  // a mixture of experts: it selects the largest of some scores
    int64_t launch_picoseconds;
    int64_t compute_picoseconds;     // kernels bound by the systolic arrays or the vector unit
    int64_t memory_picoseconds;      // kernels bound by HBM
    int64_t collective_picoseconds;  // the network's work
    int64_t exposed_picoseconds;     // the part of it that the device waits for
    int64_t copy_picoseconds;        // waits for copies between memories, such as the host's
    double flops_per_device;
    double matrix_flops_per_device;
    double hbm_bytes_per_device;
    double recomputed_flops_per_device;  // of products that are made again for the backward pass (jax.checkpoint)
    double hfu;                          // matrix operations over what the device could do in a step at its bf16 peak
    double mfu;                          // the same of model_flops_per_device: model FLOP utilisation
    // The operations of mfu, those of the model over the devices: given, or counted (EmuOptions.model_flops and whole).
    double model_flops_per_device;
    double tokens;  // as in EmuOptions
    // Products have scopes (op_name), so that recomputed ones are recognised, or the model's operations were given;
    // without, mfu is hfu.
    bool names_scopes;
    int64_t argument_bytes, output_bytes, alias_bytes, temp_bytes;
    int64_t hbm_peak_bytes, hbm_capacity_bytes, hbm_reserved_bytes;
    int64_t collective_bytes_per_device;  // sum of what one device sends, ring algorithm
    int64_t unknown_trip_counts;          // loops whose body was counted once
    int64_t body_calls, stated_calls;     // custom calls priced by their own program, and by what they state
    int64_t unknown_calls;                // custom calls without a known cost: only their arrays are counted
    const char *unknown_call;             // the first of them, "\"target\" (%name at file:line)", or NULL
    bool unknown_call_runs;               // whether something here could run that one
    const char *faults;                   // as given, or ""
    int64_t healthy_step_picoseconds;     // the step without the faults
    // With stragglers, the ids of the slowest and of the fastest device, and how many times longer a kernel takes on
    // the former, whose operations are listed; -1, -1, 1 if all devices are equally fast.
    int64_t slowest_device, fastest_device;
    double slowness;
    const EmuOp *ops;
    int64_t op_count;
    const EmuLinkUse *links;  // those with traffic
    int64_t link_count;
    const EmuBufferUse *buffers;  // the largest that are held at the peak, also inside of loops: 99 % of its bytes
    int64_t buffer_count;
    const EmuMemoryPoint *memory;  // by time; of loops, the first, middle and last iteration
    int64_t memory_count;
    const EmuParameter *parameters;
    int64_t parameter_count;
    const int64_t *devices;  // the ids of the devices that take part, by replica * num_partitions + partition
    int64_t num_partitions;  // that share the work
    // With EmuOptions.keeps_program: the program with the places of its buffers, as a serialised HloProto with a
    // BufferAssignmentProto, which XLA's tools read. NULL if the program has no protobuf form.
    const void *program;
    size_t program_length;
    // The caller that tries them sets these before it writes the report; emu_simulate() tries none. They are borrowed
    // and must outlive the report.
    const EmuRemedy *remedies;
    int64_t remedy_count;
    HloArena *arena;
} EmuReport;

// Whether the program needs more memory than a device has. The command ends with exit code 5 then.
static inline bool emu_report_out_of_memory(const EmuReport *report) {
    return report->hbm_peak_bytes > report->hbm_capacity_bytes;
}

// Simulates one step of `module`, the program of one device (replica_count * num_partitions participants), on
// `topology`, as it is: compile/pipeline.h first turns a program as written into the one that a compiler would run
// (calls inlined, donors matched with results). On success *report is new. `options` may be NULL. INVALID_ARGUMENT when
// the participants do not fit the slice or a collective names devices that do not take part; UNIMPLEMENTED for host
// processors, which do not have a machine model, for arrays without bounds, and for loops and calls nested more than 64
// deep or more than 16 million kernels long; UNAVAILABLE when a fault keeps it from running; RESOURCE_EXHAUSTED when
// memory is short. Running out of the device's memory is not an error: use emu_report_out_of_memory(). Any thread.
HLO_EXPORT HLO_NODISCARD HloStatus emu_simulate(const HloModule *module, const EmuTopology *topology,
                                                const EmuOptions *options, EmuReport **report);
// Frees a report; accepts NULL.
HLO_EXPORT void emu_report_free(EmuReport *report);

// The default device ids for a program with this mesh: JAX's make_mesh order; over several slices the hybrid order with
// the slices along the first axis that they divide; where JAX rejects the mesh, the order of jax.devices(). `ids_out`
// must hold the product of the sizes. INVALID_ARGUMENT when the slice has fewer devices.
HLO_EXPORT HLO_NODISCARD HloStatus emu_default_assignment(const EmuTopology *topology, const int64_t *sizes,
                                                          int64_t count, int64_t *ids_out);

HLO_END_C

#endif
