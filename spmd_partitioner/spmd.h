// SPDX-License-Identifier: Apache-2.0
// The SPMD partitioner: turns a module with sharding annotations into the program of one device, with a report that
// explains each collective. This header is the module's manual; docs/sharding.md explains the ideas.
//
// A partitioned module carries num_partitions=N and frontend_attributes={meshlo.partitioned="true"}. Its entry
// parameters keep their shardings and name their global dimensions in the frontend attribute meshlo.global_dims; its
// root does the same for the results. spmd_boundary_new() reads them back for splitting and reassembling arrays.
//
// Stability: stable.
//
// Terms:
//   mesh         the devices as a grid of named axes.
//   atom         a prime factor of a mesh axis. Shardings are made of atoms, so that no axis is ever split.
//   sharding     for each dimension the atoms that split it, major to minor, and the manual and unreduced axes.
//   shard        the part of an array that one device holds; an array in that form is local.
//   factor       an index of an op, as in an einsum: a dimension, or part of one, of operands and results that
//                belong together. A factor rule (rule.h) lists them for each op.
//   leaf         an array of an instruction's result; tuples have several.
//   partial      of an array: the devices hold terms that still have to be summed, over these axes. The axes are
//                unreduced where an annotation requests that.
//   free         of an array: made where it is needed (constants, iota), so that it has no sharding of its own.
//   stage        a level of priority in propagation: cheap and certain suggestions come first.
//   reshard      the collectives that bring an array from one sharding to another.
//   manual boundary   where a manual region begins or ends: inside, arrays are local to the manual axes.
//   boundary     the parameters and results of the program, with their shardings.
#ifndef MESHLO_SPMD_PARTITIONER_SPMD_H_
#define MESHLO_SPMD_PARTITIONER_SPMD_H_

#include "hlo/base/json.h"
#include "hlo/ir/builder.h"
#include "hlo/ir/module.h"

HLO_BEGIN_C

// A named mesh axis, as in --mesh x=4,y=2.
typedef struct SpmdMeshAxis {
    const char *name;
    int64_t size;
} SpmdMeshAxis;

// Someone who partitions custom calls of theirs, as XLA's CustomCallPartitioner does. Shardings are of whole arrays:
// one an operand, and one of the result, a tuple's for a tuple. What is given back lives in `arena`. The functions are
// called on the thread of spmd_partition(), and may be called several times for one call.
typedef struct SpmdCustomPartitioner {
    void *context;
    // Whether `call` is theirs.
    bool (*knows)(void *context, const HloInstruction *call);
    // *result: how the results are sharded if the operands are sharded in this way; NULL for no opinion. Called for
    // calls without a sharding rule.
    HloStatus (*infer)(void *context, HloArena *arena, const HloInstruction *call, const HloSharding *const *operands,
                       const HloSharding **result);
    // Changes the suggested shardings to those that the author requires, and makes the program of one device for them:
    // *body, a new verified module without calls in its entry, from local operands to local results.
    HloStatus (*partition)(void *context, HloArena *arena, const HloInstruction *call, const HloSharding **operands,
                           const HloSharding **result, HloModule **body);
} SpmdCustomPartitioner;

// A machine, as far as plans are compared by the time that they take on it. The functions are called on the thread of
// the partitioner; a machine may serve several threads at once. emulator/ is below it: target_spmd_machine()
// (targets/spmd_machine.h) makes one of a TPU slice.
typedef struct SpmdMachine {
    const void *context;
    double link_bytes_per_second;    // of a neighbour's link: what a cost of one byte is worth
    double memory_bytes_per_second;  // of a device
    double flops_per_second;         // of a device, in large products
    double kernel_seconds;           // that a kernel takes at least
    const int64_t *assignment;       // device ids by partition; NULL: the machine's own placement of a mesh
    int64_t assignment_count;
    // Places partitions 0 … devices-1 of a mesh (axes from major to minor). *session, in `arena`, is what the other
    // functions get. False where the machine has no model for them; then nothing is priced by it.
    bool (*open)(const struct SpmdMachine *machine, HloArena *arena, const SpmdMeshAxis *axes, int64_t axis_count,
                 int64_t devices, void **session);
    // The seconds that a synchronous collective takes if all groups run at once; negative if that is not known.
    double (*seconds)(void *session, const HloInstruction *collective);
    // Whether two collectives can run at the same time, each in the time that it takes alone. NULL: none can.
    bool (*beside)(void *session, const HloInstruction *a, const HloInstruction *b);
    // The seconds of a step of a program of one device, with collectives that run beside other work where the machine
    // does that; negative if that is not known, HUGE_VAL if it does not fit. Plans of small programs are compared by
    // it. NULL: plans are compared by the times of their collectives and products, one after the other.
    double (*program_seconds)(void *session, const HloModule *program);
    // Frees what a session has outside of its arena. NULL: nothing.
    void (*close)(void *session);
} SpmdMachine;

// What to do. Zero-initialise for the defaults.
typedef struct SpmdOptions {
    int64_t num_partitions;    // 0: from the mesh, the module or its annotations
    const SpmdMeshAxis *mesh;  // axes from major to minor, for spmd_remesh(); none: those of the module
    int64_t mesh_axis_count;
    // "TARGET=SPEC": p0=x,- or NAME=(a,b),? or r0=x (result 0). NAME is an instruction's, or an argument's as JAX knows
    // it: params['layers']['wq'], or params.layers.wq, or with patterns *.wq, whose arrays other options may name
    // alone.
    const char *const *shards;
    int64_t shard_count;
    const char *shard_option;  // the option that the user gave them by, for errors; NULL: --shard
    bool no_combine;           // leave each collective on its own
    bool async;                // split collectives into start/done pairs and schedule them for overlap
    bool overlaps;             // collectives run beside products on `machine`: multiply parts as they come (windows.c)
    bool no_optimize;          // no passes after partitioning at all
    // Propagation may shard parameters and results without annotations. Without it they stay whole in programs with HLO
    // shardings, as in XLA. It changes nothing where the header has allow_spmd_sharding_propagation_to_parameters and
    // _to_output, which decide, and in programs with Shardy's annotations or none at all, which are open in any case.
    bool propagate_boundary;
    // Parameters and results without annotations are sharded evenly or not at all, as JAX requires.
    bool even_boundary;
    // Called with the sharding of the operand of each custom-call InspectSharding; an error ends partitioning. The call
    // itself is removed. NULL: nothing is reported.
    HloStatus (*inspect)(void *context, const HloInstruction *call, const HloSharding *sharding);
    void *inspect_context;
    const SpmdCustomPartitioner *custom_partitioner;  // NULL: there is none
    const SpmdMachine *machine;  // prices plans by it; NULL: by the bytes that devices send, the same on all links
} SpmdOptions;

// One collective of a partitioned module. Strings live as long as the report.
typedef struct SpmdCollective {
    const char *name;          // instruction name in the partitioned module
    const char *opcode;        // "all-reduce"; the async forms count as their synchronous op
    const char *computation;   // name of its computation
    int64_t bytes_per_device;  // what one device sends each time, ring algorithm (spmd_collective_bytes())
    int64_t group_size;
    int64_t num_groups;
    int64_t trip_count;  // how often it runs: by the loops around it, and who calls them; 1 outside, -1 unknown
    const char *reason;  // op, dimension, the shardings that disagree
    const char *source;  // "file:line", or "" if unknown
    const char *remedy;  // the smallest annotation change that would remove it; "" if none is known
} SpmdCollective;

// What partitioning did. Free with spmd_report_free().
typedef struct SpmdReport {
    HloArena *arena;
    int64_t num_partitions;
    const char *mesh, *mesh_source;  // for printing: "data=4,model=2" and what named it; NULL: unknown
    const SpmdCollective *collectives;
    int64_t collective_count;
    int64_t total_bytes_per_device;  // sum of bytes_per_device * trip_count (unknown trips count once)
    double seconds;                  // time that the partitioner took
} SpmdReport;

// Partitions `module` for its mesh. On success *partitioned is a new module (free with hlo_module_free()) and *report,
// unless `report` is NULL, a new report. INVALID_ARGUMENT for annotations that do not fit the program or the mesh;
// UNIMPLEMENTED for an op without a rule, by name; RESOURCE_EXHAUSTED. The input is not changed. Any thread.
HLO_EXPORT HLO_NODISCARD HloStatus spmd_partition(const HloModule *module, const SpmdOptions *options,
                                                  HloModule **partitioned, SpmdReport **report);
// Only propagates: *annotated is a copy of `module` in which every array has the sharding that partitioning would give
// it. Errors as spmd_partition().
HLO_EXPORT HLO_NODISCARD HloStatus spmd_propagate(const HloModule *module, const SpmdOptions *options,
                                                  HloModule **annotated);

// What spmd_partition() does for one device, in place: drops annotations, and marks the module.
HLO_EXPORT HLO_NODISCARD HloStatus spmd_keep_whole(HloModule *module);
// The number of devices that spmd_partition() would partition `module` for. Errors as there.
HLO_EXPORT HLO_NODISCARD HloStatus spmd_device_count(const HloModule *module, const SpmdOptions *options,
                                                     int64_t *count);

// The collectives of any per-device module (also one that was written by XLA): *report is a new report; reasons and
// sources come from the module's metadata.
HLO_EXPORT HLO_NODISCARD HloStatus spmd_report_new(const HloModule *partitioned, SpmdReport **report);
// Frees a report; accepts NULL.
HLO_EXPORT void spmd_report_free(SpmdReport *report);
// The table of `meshlo partition --explain`: one block a collective, totals at the end.
HLO_EXPORT void spmd_report_print(HloText *text, const SpmdReport *report);
// The object of `meshlo partition --json`.
HLO_EXPORT void spmd_report_json(HloJsonWriter *writer, const SpmdReport *report);
// The members of that object, into one that the caller has begun.
HLO_EXPORT void spmd_report_json_members(HloJsonWriter *writer, const SpmdReport *report);
// Bytes that one device sends for a collective instruction, ring algorithm: all-gather and reduce-scatter (g-1)/g of
// the full array, all-reduce twice that, all-to-all (g-1)/g of its operand, collective-permute and -broadcast the
// operand.
HLO_EXPORT int64_t spmd_collective_bytes(const HloInstruction *collective, int64_t group_size);

// The mesh that a module was written for, from major to minor: the axes of its annotations, or unnamed ones that fit
// their device orders; one axis of all devices where nothing is annotated. *axes lives in `arena`. INVALID_ARGUMENT
// when the annotations do not agree. Memory errors jump to hlo_protect().
HLO_EXPORT HLO_NODISCARD HloStatus spmd_module_mesh(HloArena *arena, const HloModule *module, const SpmdMeshAxis **axes,
                                                    int64_t *count);

// The axes that the annotations of a module name, from major to minor: those of the first mesh that it declares or
// uses. *count is 0 where none are named, as in programs with device lists only. *axes lives in `arena`.
// INVALID_ARGUMENT for annotations that cannot be read. Memory errors jump to hlo_protect().
HLO_EXPORT HLO_NODISCARD HloStatus spmd_named_axes(HloArena *arena, const HloModule *module, const SpmdMeshAxis **axes,
                                                   int64_t *count);
// A mesh as --mesh takes it: "data=4,model=2". In `arena`. Memory errors jump to hlo_protect().
HLO_EXPORT const char *spmd_mesh_text(HloArena *arena, const SpmdMeshAxis *axes, int64_t count);
// Whether annotations name devices by number, as {devices=[4,2]<=[8]} does.
HLO_EXPORT bool spmd_has_device_lists(const HloModule *module);
// Lays the annotations of `module` out on another mesh, axis by axis, also on one of another number of devices:
// *remeshed is a new module (free with hlo_module_free()), or NULL where `module` is for that mesh already or names no
// axes. spmd_partition(), spmd_propagate() and spmd_device_count() do it for SpmdOptions.mesh. INVALID_ARGUMENT, with
// the first annotation that is in the way, for an axis that the mesh lacks and for programs that fix their own split:
// manual regions and collectives along an axis whose size changes, partition-id, device lists that are no product of
// whole axes. Any thread.
HLO_EXPORT HLO_NODISCARD HloStatus spmd_remesh(const HloModule *module, const SpmdMeshAxis *axes, int64_t count,
                                               HloModule **remeshed);

// JAX's name of an argument (params['layers']['wq']), from the metadata of its parameter; else the instruction's name.
// Lives as long as the module.
HLO_EXPORT const char *spmd_argument_name(const HloInstruction *parameter);
// Whether a pattern of SpmdOptions.shards (`*` is any text, `?` one letter, punctuation does not count) names this
// parameter. `arena` is for scratch. Memory errors jump to hlo_protect().
HLO_EXPORT bool spmd_argument_matches(HloArena *arena, const char *pattern, const HloInstruction *parameter);

// A sharding as a spec that spmd_spec_parse() reads, "data,-", on this mesh. In `arena`. INVALID_ARGUMENT for device
// orders that the mesh does not express, and another rank. Memory errors jump to hlo_protect().
HLO_EXPORT HLO_NODISCARD HloStatus spmd_spec_text(HloArena *arena, const SpmdMeshAxis *axes, int64_t count,
                                                  const HloSharding *sharding, int64_t rank, const char **text);

// Whether propagation may shard the parameters and results of `module` that have no annotation, where its header leaves
// that out: it has Shardy's annotations or none at all. As in XLA (SpmdOptions.propagate_boundary).
HLO_EXPORT bool spmd_opens_boundary(const HloModule *module);

// True if `module` is marked as the program of one device.
HLO_EXPORT bool spmd_is_partitioned(const HloModule *module);

// One array that enters or leaves a per-device program.
typedef struct SpmdBoundaryArray {
    const HloShape *local;        // what one device holds
    const HloShape *global;       // the whole array
    const HloSharding *sharding;  // never NULL: replicated where no annotation exists
} SpmdBoundaryArray;

// The arrays of a per-device program's entry: leaves of parameters and result, flattened in order.
typedef struct SpmdBoundary {
    HloArena *arena;
    int64_t num_partitions;
    const SpmdBoundaryArray *parameters;
    int64_t parameter_count;
    const SpmdBoundaryArray *results;
    int64_t result_count;
} SpmdBoundary;

// Reads the boundary of a per-device module: one that spmd_partition() made, or a foreign one whose parameters and root
// carry shardings (global sizes are then local size times shards). Free with spmd_boundary_free(). INVALID_ARGUMENT for
// annotations that do not fit their arrays; RESOURCE_EXHAUSTED.
HLO_EXPORT HLO_NODISCARD HloStatus spmd_boundary_new(const HloModule *module, SpmdBoundary **boundary);
// Frees a boundary; accepts NULL.
HLO_EXPORT void spmd_boundary_free(SpmdBoundary *boundary);

// The shape of one device's part of a global array: each dimension divided by its number of shards, rounded up.
// INVALID_ARGUMENT when the sharding does not fit the rank. The result lives in `arena`.
HLO_EXPORT HLO_NODISCARD HloStatus spmd_shard_shape(HloArena *arena, const HloShape *global,
                                                    const HloSharding *sharding, const HloShape **local);
// Splits a global array into `num_partitions` new literals, one a device, padded with zeros where shards are uneven.
// Along unreduced axes the first device has everything, the others zeros. Free each with hlo_literal_free().
// RESOURCE_EXHAUSTED leaves nothing behind.
HLO_EXPORT HLO_NODISCARD HloStatus spmd_shard_literal(const HloLiteral *global, const HloSharding *sharding,
                                                      int64_t num_partitions, HloLiteral **shards);
// Reassembles the global array from one literal a device: each element is taken from the first device that has it, and
// summed over unreduced axes. *global is a new literal (free with hlo_literal_free()). INVALID_ARGUMENT when the
// sharding or a shard does not fit; RESOURCE_EXHAUSTED.
HLO_EXPORT HLO_NODISCARD HloStatus spmd_unshard_literal(const HloLiteral *const *shards, const HloSharding *sharding,
                                                        int64_t num_partitions, const HloShape *global_shape,
                                                        HloLiteral **global);
// The offset, per dimension and in elements, of the part of `global` that `device` holds: `offsets` has room for the
// rank. A shard that is all padding begins at or after the end. INVALID_ARGUMENT when the sharding does not fit the
// rank, or has no such device.
HLO_EXPORT HLO_NODISCARD HloStatus spmd_shard_offsets(const HloShape *global, const HloSharding *sharding,
                                                      int64_t device, int64_t *offsets);

// Reads a PartitionSpec-like string: one item a dimension, separated by commas: `-` or nothing for unsharded, `?` to
// let propagation decide, an axis, or several: `a+b` or `(a,b)`. `a:(2)4` is a part of an axis, as Shardy writes it:
// four pieces, after a part of two. INVALID_ARGUMENT for unknown axes (near matches are suggested), parts that do not
// divide their axis, repeated axes and wrong rank. P('x', None) and PartitionSpec('x', None) are read too. The result
// is a V3 sharding in `arena`.
HLO_EXPORT HLO_NODISCARD HloStatus spmd_spec_parse(HloArena *arena, const SpmdMeshAxis *mesh, int64_t axis_count,
                                                   const char *spec, int64_t rank, const HloSharding **sharding);
// Gives an array of a program under construction, a parameter for example, the sharding that a spec of
// spmd_spec_parse() means on this mesh, and returns it (NULL stays NULL). Errors, as there, go to the builder.
HLO_EXPORT HloInstruction *spmd_build_sharded(HloBuilder *builder, HloInstruction *array, const SpmdMeshAxis *mesh,
                                              int64_t axis_count, const char *spec);

HLO_END_C

#endif
