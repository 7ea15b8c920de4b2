// SPDX-License-Identifier: Apache-2.0
// A program made ready to run: partitioned by the options of the command line.
#ifndef MESHLO_TOOLS_PREPARE_H_
#define MESHLO_TOOLS_PREPARE_H_

#include "compile/pipeline.h"
#include "targets/spmd_machine.h"
#include "tools/machine.h"
#include "tools/program.h"

// The options of every verb that partitions. A verb lists its tables in the order in which people need them: the
// machine (--on), how to shard (--mesh, --shard, --num-partitions), its own, and last how to compile
// (--device-assignment, --partitioned, --dump-to and the like) and to read the program (cli_program_options).
extern const CliOptionTable cli_partition_options, cli_compile_options;
// Verbs that partition have this, or an --on of their own that must be a slice.
extern const CliOptionTable cli_machine_options;

// The machine that the options name (--on or --topology), else MESHLO_TOPOLOGY; NULL where neither names more than
// "cpu".
const char *cli_machine(CliContext *context);

// Whether a module is the program of one device: `partition` has marked it, or it looks like the output of some
// compiler's partitioner and nothing explicit (--mesh, --shard, --num-partitions) overrides that guess.
bool cli_is_per_device(const HloModule *module, bool is_explicit);

// A program that runs on replica_count * num_partitions devices: device number = replica * num_partitions + partition.
typedef struct CliProgram {
    HloModule *original;       // as read
    CompiledModule *compiled;  // owns the two below
    HloModule *per_device;     // what each device runs
    CompileOptions compile;    // how it was compiled; shards and mesh live as long as the context
    SpmdReport *report;        // collectives of per_device; never NULL
    // The slice that the options name, by which plans are compared; NULL for none.
    EmuTopology *topology;
    SpmdMachine machine;
    int64_t num_partitions, replica_count, device_count;
    // The mesh as --mesh takes it and who named it, for every output; "" for the mesh of one device.
    const char *mesh, *mesh_source;
    bool was_partitioned;  // the file already held the program of one device
    bool overlap;          // requested by the verb: collectives in halves that overlap with computation (as --async)
} CliProgram;

// Loads the first argument of the verb and partitions it if it is not the program of one device already. Free with
// cli_program_free(), also after an error; `program` must not be moved.
HLO_NODISCARD HloStatus cli_program_prepare(CliContext *context, CliProgram *program);
// Frees what the program holds.
void cli_program_free(CliProgram *program);

// Returns `status`, an error of partitioning `module`, and makes it one of usage where the program alone, without the
// options of the command line, is good.
HLO_NODISCARD HloStatus cli_blame_options(CliContext *context, const HloModule *module, HloStatus status);

// Refuses a mesh with an axis that neither the program nor one of `shards` uses, in a program that names axes or with
// shards: exit code 2, with near matches.
HLO_NODISCARD HloStatus cli_mesh_check(CliContext *context, const HloModule *module, const CliMesh *mesh,
                                       const HloStringVector *shards);
// The mesh that `module` is partitioned for with this --mesh (without axes: with none), and who named it. "" for one
// device.
void cli_mesh_describe(CliContext *context, const HloModule *module, const CliMesh *mesh, const char **text,
                       const char **source);

// Fills `options` from the command line. Its lists live in the context's arena.
HLO_NODISCARD HloStatus cli_spmd_options(CliContext *context, const HloModule *module, SpmdOptions *options);

#endif
