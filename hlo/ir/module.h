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

// Uninterpreted bytes that are passed through; they live in the module's arena.
typedef struct HloBytes {
    const void *data;
    size_t length;
} HloBytes;

// The stack tables that stack_frame_id refers to. Ids count rows from 1. A parent_frame_id of 0 means none, as in
// protobuf; the text form writes parent_frame_id + 1.
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

// The array that an instruction had in the program before it was transformed: the instruction's name there and the
// index in its tuple.
typedef struct HloOriginalArray {
    const char *name;  // never NULL
    HloInts index;
} HloOriginalArray;

// An entry of origin_recovery_table: an original array that no longer exists, and the one to compute it from.
typedef struct HloRecovery {
    HloOriginalArray lost, kept;
    HloModule *module;  // computes the first from the second; NULL: they are equal
    int64_t position;   // private to hlo_module_sort_recoveries()
} HloRecovery;

// The names in use in a module. Private to hlo/ir/names.c.
typedef struct HloNames {
    HloStringMap taken;                    // names, except those that their stem's counter implies
    HloStringMap counters;                 // stem -> its next number
    bool has_numbered;                     // a name in `taken` ends with a number above 0
    int64_t *of_opcode[HLO_OPCODE_COUNT];  // cached counters of the opcodes' texts
} HloNames;

struct HloModule {
    HloArena *arena;
    const char *name;
    HloComputationVector computations;  // in creation order, without removed ones
    HloComputation *entry;
    int32_t instruction_limit;  // the number of ids assigned so far
    int32_t computation_limit;
    HloNames instruction_names, computation_names;

    bool is_scheduled;
    int64_t replica_count;   // 1 by default
    int64_t num_partitions;  // 1 by default
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
    HLO_VECTOR(HloRecovery) recoveries;  // origin_recovery_table, in the order of the lost arrays
    HloBytes proto_rest, config_rest;    // fields of the two protobuf messages that text cannot express, unchanged
    HloStackTables stack;
    const char *source_file;  // where the text came from, for messages; NULL if unknown
};

// Reserves a name, so that no instruction gets it. The string must live as long as the module.
HLO_EXPORT void hlo_names_reserve(HloArena *arena, HloNames *names, const char *name);
// Returns an empty module with its own arena; NULL when memory is short. Free with hlo_module_free(). The name is
// sanitised like those of instructions.
HLO_EXPORT HloModule *hlo_module_new(const char *name);
// Renames the module; characters that HLO text cannot hold in a name are replaced as in XLA.
HLO_EXPORT void hlo_module_set_name(HloModule *module, const char *name);
// Frees the module and everything that lives in it; accepts NULL.
HLO_EXPORT void hlo_module_free(HloModule *module);
// Returns a deep copy of the reachable part, with compact ids. Names are kept. NULL when memory is short. Free with
// hlo_module_free().
HLO_EXPORT HloModule *hlo_module_clone(const HloModule *module);
// Copies the header, i.e. everything except the computations (counts, aliasing, layouts, stack tables, attributes).
HLO_EXPORT void hlo_module_copy_header(HloModule *module, const HloModule *from);
// Sets a frontend attribute of the module; key and value are copied. An existing key keeps its position.
HLO_EXPORT void hlo_module_set_frontend_attribute(HloModule *module, const char *key, const char *value);
// Appends an entry to the origin_recovery_table and takes ownership of `recovery` (NULL: none). Strings and indices are
// copied. Memory errors jump to hlo_protect(), after freeing `recovery`.
HLO_EXPORT void hlo_module_add_recovery(HloModule *module, const HloOriginalArray *lost, const HloOriginalArray *kept,
                                        HloModule *recovery);
// Sorts the origin_recovery_table by the names and indices of the lost arrays, and drops all entries of an array but
// its first, as XLA does.
HLO_EXPORT void hlo_module_sort_recoveries(HloModule *module);
// Appends an original array as HLO text has it: {"name" {1,2}}, {"name"}.
HLO_EXPORT void hlo_original_array_print(HloText *text, const HloOriginalArray *array);
// Sets the entry computation.
HLO_EXPORT void hlo_module_set_entry(HloModule *module, HloComputation *entry);
// The reachable computations, callees before callers, the entry last. Allocated in `arena`.
HLO_EXPORT HloComputation **hlo_module_post_order(const HloModule *module, HloArena *arena, int64_t *count);
// All computations, also unreachable ones: callees before callers, otherwise in the order of creation.
HLO_EXPORT HloComputation **hlo_module_whole_post_order(const HloModule *module, HloArena *arena, int64_t *count);
// Removes computations that are not reachable from the entry.
HLO_EXPORT void hlo_module_remove_unreachable(HloModule *module);
// Breaks cycles of parent frames: clears the parent that would lead back into the chain. Time and scratch memory are
// linear in the number of frames.
HLO_EXPORT void hlo_stack_end_cycles(HloStackTables *stack, HloArena *scratch);
// Removes the rows of the stack tables that no instruction refers to, numbers the others by first use, as XLA does, and
// merges equal ones. Ids of frames that do not exist become 0. Memory errors jump to hlo_protect().
HLO_EXPORT void hlo_module_renumber_frames(HloModule *module);
// A channel id, at least 1, that no collective or transfer of the module uses, nor any greater one: new collectives
// must not share a channel with those that are there.
HLO_EXPORT int64_t hlo_module_next_channel(const HloModule *module);
// A hash of everything that printing shows except names and, of the metadata, all but op_name; equal modules have equal
// hashes. The pass runner compares it, and the fingerprint of an executable is made of it. Memory errors jump to
// hlo_protect().
HLO_EXPORT uint64_t hlo_module_hash(const HloModule *module);
// Finds the source file and line of an instruction, through metadata or stack tables; *file is NULL and *line 0 if
// unknown.
HLO_EXPORT void hlo_instruction_source(const HloInstruction *instruction, const char **file, int64_t *line);
// The same as "file:line" in the arena; "" if unknown.
HLO_EXPORT const char *hlo_instruction_source_text(HloArena *arena, const HloInstruction *instruction);
// Adds the place to an error about an instruction: its name and, if known, the line of the user's program. The message
// stays; an error that already has a place keeps it. Takes and returns ownership; NULL stays NULL.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_status_at_instruction(HloStatus status, const HloInstruction *instruction);

HLO_END_C

#endif
