// SPDX-License-Identifier: Apache-2.0
// Whole arrays in, whole arrays out: a program that was written for one device, run on all devices of a machine. This
// combines client.h and spmd_partitioner/spmd.h in the way that most programs need.
//
//     TargetClient *client;
//     TargetProgram *program;
//     TargetArray *arguments[2], *result;
//     SpmdMeshAxis mesh[] = {{"batch", 4}, {"model", 2}};
//     const char *shards[] = {"p0=batch,-", "p1=-,model"};
//     TargetProgramOptions options = {
//         .spmd = {.mesh = mesh, .mesh_axis_count = 2, .shards = shards, .shard_count = 2}};
//     HLO_TRY(target_client_new("v2-8", &client));
//     HLO_TRY(target_program_new(client, module, &options, &program));
//     HLO_TRY(target_program_place(program, 0, x, &arguments[0]));         // each device gets its part
//     HLO_TRY(target_program_place(program, 1, w, &arguments[1]));
//     HLO_TRY(target_program_run(program, arguments, 2, &result));         // returns before it is done
//     HLO_TRY(target_array_to_literal(result, &value));                    // waits, assembles the parts
//     HLO_TRY(target_program_emulate(program, NULL, &report));             // how long the real slice takes
//
// Arrays stay on their devices between programs: a result may be the next program's argument. Threads, asynchrony,
// errors that travel and references are as in client.h.
//
// Stability: stable.
#ifndef MESHLO_TARGETS_PROGRAM_H_
#define MESHLO_TARGETS_PROGRAM_H_

#include "emulator/simulate.h"
#include "emulator/topology.h"
#include "spmd_partitioner/spmd.h"
#include "targets/client.h"

HLO_BEGIN_C

// ---- arrays

// A whole array in parts: a sharding and one buffer per device.
typedef struct TargetArray TargetArray;

// Adds a reference; returns `array`.
HLO_EXPORT TargetArray *target_array_retain(TargetArray *array);
// Takes a reference; accepts NULL. The last one releases the buffers.
HLO_EXPORT void target_array_release(TargetArray *array);
// Returns the shape of the whole array. Lives as long as the array.
HLO_EXPORT const HloShape *target_array_shape(const TargetArray *array);
// Returns the sharding. Lives as long as the array.
HLO_EXPORT const HloSharding *target_array_sharding(const TargetArray *array);
// Returns the number of devices that hold a part or a copy.
HLO_EXPORT int64_t target_array_device_count(const TargetArray *array);
// Returns the part of partition `index`; the array keeps its reference. NULL outside 0 .. device_count - 1.
HLO_EXPORT TargetBuffer *target_array_shard(const TargetArray *array, int64_t index);
// Waits for all parts and assembles them: a new literal (free with hlo_literal_free()). Returns the error of any part;
// RESOURCE_EXHAUSTED when memory is short.
HLO_EXPORT HLO_NODISCARD HloStatus target_array_to_literal(const TargetArray *array, HloLiteral **literal);
// Appends the drawing of jax.debug.visualize_array_sharding(), which shows the part of each device. Arrays of 1 or 2
// dimensions; INVALID_ARGUMENT for others, and if parts are uneven.
HLO_EXPORT HLO_NODISCARD HloStatus target_array_draw(const TargetArray *array, HloText *text);

// ---- programs

// Options for a program. Zero-initialise for the defaults.
typedef struct TargetProgramOptions {
    // Mesh and shardings; if omitted, the module's annotations. Plans are compared by the client's slice if
    // `spmd.machine` is NULL.
    SpmdOptions spmd;
    TargetNumerics numerics;
    // Device ids, one per partition; NULL: target_default_assignment().
    const int64_t *device_assignment;
} TargetProgramOptions;

// A program that is partitioned and compiled for the devices of a client.
typedef struct TargetProgram TargetProgram;

// Partitions `module` (unless it is already the program of one device) and compiles it. The module is only read. Errors
// are those of spmd_partition() and target_compile(), and INVALID_ARGUMENT if the machine has fewer devices than the
// program has partitions. `options` NULL: defaults.
HLO_EXPORT HLO_NODISCARD HloStatus target_program_new(TargetClient *client, const HloModule *module,
                                                      const TargetProgramOptions *options, TargetProgram **program);
// Frees a program; accepts NULL. Arrays that it created stay valid, runs in flight finish.
HLO_EXPORT void target_program_free(TargetProgram *program);
// Returns the module that each device runs, for printing and timing. Lives as long as the program; so do all answers
// below.
HLO_EXPORT const HloModule *target_program_module(const TargetProgram *program);
// Returns the collectives and the reasons for them.
HLO_EXPORT const SpmdReport *target_program_report(const TargetProgram *program);
// Returns the shapes and shardings of the flattened arguments and results.
HLO_EXPORT const SpmdBoundary *target_program_boundary(const TargetProgram *program);
// Returns the compiled form.
HLO_EXPORT TargetExecutable *target_program_executable(const TargetProgram *program);

// Splits `literal` (NULL: zeros) by the sharding of argument `index` and copies each part to its device: a new array.
// INVALID_ARGUMENT if the program has no such argument or its shape differs. After an error *array is NULL.
HLO_EXPORT HLO_NODISCARD HloStatus target_program_place(const TargetProgram *program, int64_t index,
                                                        const HloLiteral *literal, TargetArray **array);
// Runs the program once; results[i], of which there are target_program_boundary()->result_count, become new arrays that
// may not be ready yet. INVALID_ARGUMENT for a wrong number of arguments, and for one whose shape, sharding or devices
// differ from those that the program expects, naming both; nothing has run then and results are NULL. Any thread, also
// several concurrently.
HLO_EXPORT HLO_NODISCARD HloStatus target_program_run(TargetProgram *program, TargetArray *const *arguments,
                                                      int64_t argument_count, TargetArray **results);
// As target_program_run(), for a step that takes over its state: each result that takes over an argument
// (input_output_alias, buffer_donor; hlo_training_step_make_entry() makes them) replaces it in `arguments`, and the old
// array is released. The other results, in order, become results[0], results[1] … After an error `arguments` are as
// before.
HLO_EXPORT HLO_NODISCARD HloStatus target_program_advance(TargetProgram *program, TargetArray **arguments,
                                                          int64_t argument_count, TargetArray **results);
// Places, runs and assembles: takes literals and returns as many new literals as above (free each with
// hlo_literal_free()). After an error all results are NULL.
HLO_EXPORT HLO_NODISCARD HloStatus target_program_call(TargetProgram *program, const HloLiteral *const *arguments,
                                                       int64_t argument_count, HloLiteral **results);

// Times one step of the program on its machine, which must be a slice, with the devices of its partitions: the report
// of `meshlo emulate`, with computation beside collectives where the chip can. `options` may be NULL; a device
// assignment in it is ignored. Free *report with emu_report_free(). UNIMPLEMENTED on host processors; errors as
// emu_simulate(). Any thread.
HLO_EXPORT HLO_NODISCARD HloStatus target_program_emulate(const TargetProgram *program, const EmuOptions *options,
                                                          EmuReport **report);

// Sets the default device ids of the partitions of `module`: on a TPU slice JAX's make_mesh order for `mesh` (NULL: the
// mesh that the module was written for), on host devices 0, 1, 2 … `ids` has room for `partition_count`.
// INVALID_ARGUMENT if the machine has fewer devices or the module's annotations are inconsistent.
HLO_EXPORT HLO_NODISCARD HloStatus target_default_assignment(const EmuTopology *topology, const HloModule *module,
                                                             const SpmdMeshAxis *mesh, int64_t mesh_axis_count,
                                                             int64_t partition_count, int64_t *ids);

HLO_END_C

#endif
