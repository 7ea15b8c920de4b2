// SPDX-License-Identifier: Apache-2.0
// Running a per-device program on a machine: splitting inputs, executing, reassembling results.
#ifndef MESHLO_TOOLS_EXECUTE_H_
#define MESHLO_TOOLS_EXECUTE_H_

#include "emulator/topology.h"
#include "hlo/eval/eval.h"
#include "targets/client.h"
#include "tools/arrays.h"
#include "tools/feeds.h"
#include "tools/hosts.h"
#include "tools/prepare.h"

// What to run, and how.
typedef struct CliExecution {
    const CliProgram *program;
    const char *machine;  // what the client is made from
    TargetNumerics numerics;
    const int64_t *assignment;  // device ids, one a partition of each replica; NULL: the client's order
    bool evaluate;              // by the reference evaluator instead of the compiled form
    bool per_device;            // arrays carry a leading axis of devices instead of being split by their shardings
    int64_t repeat;             // runs; the first result counts
    CliFeeds *feeds;            // of the program's infeeds and outfeeds; rewound at each run
    TargetClient *client;       // made by cli_execution_compile(); NULL for the evaluator
    TargetExecutable *executable;
    CliHosts hosts;  // the processes that run it, of which this is one
    double compile_seconds;
} CliExecution;

// The shapes of a program's global arguments and results, in the context's arena.
typedef struct CliBoundary {
    SpmdBoundary *spmd;           // shardings and local shapes; its lists may contain NULL
    const HloShape **parameters;  // what an input file must hold
    const HloShape **shared;      // what it may hold instead, for all replicas alike; NULL without replicas
    const HloShape **results;
} CliBoundary;

// Reads the boundary of a program; with `per_device`, shapes carry a leading axis of devices, else those of a program
// with several replicas one of replicas. Free with cli_boundary_free().
HLO_NODISCARD HloStatus cli_boundary_read(CliContext *context, const CliProgram *program, bool per_device,
                                          CliBoundary *boundary);
// The same boundary for the program before it was partitioned, whose devices have whole arrays. Lives in the context's
// arena and as long as `boundary`; not to be freed.
CliBoundary cli_boundary_whole(CliContext *context, const CliBoundary *boundary);
// Frees what cli_boundary_read() took.
void cli_boundary_free(CliBoundary *boundary);

// Times of a run.
typedef struct CliTimes {
    double compile_seconds;
    double *run_seconds;  // one a repeat, in the context's arena
    int64_t count;
} CliTimes;

// Compiles the program for its machine, before there are any inputs; for the evaluator only checks that this process is
// the only one. Free with cli_execution_free(), also after an error.
HLO_NODISCARD HloStatus cli_execution_compile(CliContext *context, CliExecution *execution);
// Frees what cli_execution_compile() made.
void cli_execution_free(CliExecution *execution);

// What a run takes of this host's memory.
typedef struct CliMemory {
    int64_t inputs, arguments;  // global arrays, and the devices' parts of them
    int64_t temporaries;        // of all devices
    int64_t results;            // the devices' parts, and global arrays
    int64_t total;
} CliMemory;

// Adds up what a run will take, from the shapes of its arrays and from buffer assignment. Counts end at INT64_MAX.
CliMemory cli_memory_of(const CliExecution *execution, const CliBoundary *boundary);
// The bytes that this host has for it: MESHLO_HOST_MEMORY, else what the system and its control group have left; 0 if
// unknown. A usage error for a value that is no size.
HLO_NODISCARD HloStatus cli_host_memory(CliContext *context, int64_t *bytes);

// Runs the program on global `inputs` and reassembles its global `results`, to be freed with cli_arrays_free(). Of
// several processes (tools/hosts.h) process 0 gets the results, and the others none.
HLO_NODISCARD HloStatus cli_execute(CliContext *context, const CliExecution *execution, const CliBoundary *boundary,
                                    const CliArrays *inputs, CliArrays *results, CliTimes *times);

// The device ids to which the partitions of a program are assigned: --device-assignment, else the make_mesh order of
// the program's mesh on that topology; NULL where the machine or the program has no such order (host devices,
// replicas). In the context's arena.
HLO_NODISCARD HloStatus cli_device_assignment(CliContext *context, const EmuTopology *topology,
                                              const CliProgram *program, const int64_t **ids);

#endif
