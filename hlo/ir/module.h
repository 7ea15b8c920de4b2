// SPDX-License-Identifier: Apache-2.0
// Modules: whole programs. A module owns one arena in which its computations, instructions, shapes, attributes and
// names live until the module is freed. One thread at a time may change a module; any number may read it.
//
// Stability: stable.
#ifndef MESHLO_HLO_IR_MODULE_H_
#define MESHLO_HLO_IR_MODULE_H_

#include "hlo/base/map.h"
#include "hlo/ir/computation.h"

HLO_BEGIN_C

// (parameter, {index}) of buffer_donor.
typedef struct HloDonor {
    int64_t parameter;
    HloInts index;
} HloDonor;

// Bytes that are carried from one place to another unread; they live in the module's arena.
typedef struct HloBytes {
    const void *data;
    size_t length;
} HloBytes;

// The stack tables behind stack_frame_id. Ids count rows from 1. A parent_frame_id of 0 means none, as in protobuf; the
// text form writes parent_frame_id + 1.
typedef struct HloFileLocation {
    int64_t file_name_id, function_name_id, line, end_line, column, end_column;
} HloFileLocation;
typedef struct HloStackFrame {
    int64_t file_location_id, parent_frame_id;
} HloStackFrame;
typedef struct HloStackTables {
    HloStringVector file_names, function_names;
    HLO_VECTOR(HloFileLocation) locations;
    HLO_VECTOR(HloStackFrame) frames;
} HloStackTables;

typedef HLO_VECTOR(HloComputation *) HloComputationVector;

// The names that a module has given out. Private to hlo/ir/names.c.
typedef struct HloNames {
    HloStringMap taken;                    // names, but for those that their stem's counter implies
    HloStringMap counters;                 // stem -> its next number
    bool has_numbered;                     // a name in `taken` ends with a number above 0
    int64_t *of_opcode[HLO_OPCODE_COUNT];  // the counters of opcodes' texts, where they have been found
} HloNames;

struct HloModule {
    HloArena *arena;
    const char *name;
    HloComputationVector computations;  // in creation order, removed ones taken out
    HloComputation *entry;
    int32_t instruction_limit;  // ids given out so far
    int32_t computation_limit;
    HloNames instruction_names, computation_names;

    bool is_scheduled;
    int64_t replica_count;   // 1 unless said
    int64_t num_partitions;  // 1 unless said
    bool use_spmd_partitioning;
    const HloShape *const *entry_parameter_layouts;  // entry_computation_layout; NULL if not given
    int64_t entry_parameter_layout_count;
    const HloShape *entry_result_layout;
    HloAliases aliases;      // input_output_alias
    const HloDonor *donors;  // buffer_donor
    int64_t donor_count;
    HloInts alias_passthrough;         // alias_passthrough_params as written: {1} for true, empty if absent
    HloBools propagate_to_parameters;  // allow_spmd_sharding_propagation_to_parameters
    HloBools propagate_to_output;
    HloKeyValues frontend_attributes;
    const char *origin_recovery_table;  // text as written, or NULL
    HloBytes proto_rest, config_rest;   // fields of the two protobuf messages that text has no words for, as they came
    HloStackTables stack;
    const char *source_file;  // where the text came from, for messages; NULL if unknown
};

// Keeps a name from being given out. The text must live as long as the module.
HLO_EXPORT void hlo_names_reserve(HloArena *arena, HloNames *names, const char *name);
// An empty module with its own arena; NULL when memory is short. Free with hlo_module_free(). The name is sanitised as
// those of instructions are.
HLO_EXPORT HloModule *hlo_module_new(const char *name);
// Renames the module; what HLO text cannot hold in a name is replaced, as by XLA.
HLO_EXPORT void hlo_module_set_name(HloModule *module, const char *name);
// Frees the module and everything that lives in it; accepts NULL.
HLO_EXPORT void hlo_module_free(HloModule *module);
// A deep copy of the living part: compact ids, garbage left behind. Names are kept. NULL when memory is short. Free
// with hlo_module_free().
HLO_EXPORT HloModule *hlo_module_clone(const HloModule *module);
// Copies everything of the header but the computations (counts, aliasing, layouts, stack tables, attributes).
HLO_EXPORT void hlo_module_copy_header(HloModule *module, const HloModule *from);
// Sets a frontend attribute of the module; key and value are copied, an old value of the key is replaced in its place.
HLO_EXPORT void hlo_module_set_frontend_attribute(HloModule *module, const char *key, const char *value);
// Names the entry computation.
HLO_EXPORT void hlo_module_set_entry(HloModule *module, HloComputation *entry);
// Reachable computations, callees before callers, the entry last. Allocated in `arena`.
HLO_EXPORT HloComputation **hlo_module_post_order(const HloModule *module, HloArena *arena, int64_t *count);
// All computations, also those that nothing reaches, callees before callers and else in the order of their creation.
HLO_EXPORT HloComputation **hlo_module_whole_post_order(const HloModule *module, HloArena *arena, int64_t *count);
// Drops computations that the entry does not reach.
HLO_EXPORT void hlo_module_remove_unreachable(HloModule *module);
// Takes the parents away from frames that come to themselves again by way of their parents, or to one that does. In
// time and scratch memory of the number of frames.
HLO_EXPORT void hlo_stack_end_cycles(HloStackTables *stack, HloArena *scratch);
// Drops the rows of the stack tables that no instruction refers to, numbers the others by first use, as XLA does, and
// makes equal ones one. Frames that do not exist are none afterwards. Memory errors jump to hlo_protect().
HLO_EXPORT void hlo_module_renumber_frames(HloModule *module);
// A hash of everything that printing shows except names, and of metadata the op_name alone; equal modules have equal
// hashes. What the pass runner compares, and what the fingerprint of an executable is made of. Memory errors jump to
// hlo_protect().
HLO_EXPORT uint64_t hlo_module_hash(const HloModule *module);
// The source file and line of an instruction, through metadata or stack tables; *file NULL and *line 0 if unknown.
HLO_EXPORT void hlo_instruction_source(const HloInstruction *instruction, const char **file, int64_t *line);
// Gives an error about an instruction its place: the name and, where it is known, the line of the user's program. The
// message stays; an error that has a place keeps it. Takes and returns ownership; NULL stays NULL.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_status_at_instruction(HloStatus status, const HloInstruction *instruction);

HLO_END_C

#endif
