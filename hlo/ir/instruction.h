// SPDX-License-Identifier: Apache-2.0
// Instructions: the nodes of a computation. Any field may be read. Links (operands, called computations, users, control
// edges, list order, parent), names and attribute structs are changed only through the functions here, which keep
// users, control edges and caller lists consistent. The annotations (sharding, metadata, backend_config, frontend
// attributes, statistics, origin) and the shape are plain fields: assign them directly, with values that live in the
// module's arena.
//
// Stability: stable.
#ifndef MESHLO_HLO_IR_INSTRUCTION_H_
#define MESHLO_HLO_IR_INSTRUCTION_H_

#include "hlo/base/vector.h"
#include "hlo/ir/opcode.h"

HLO_BEGIN_C

typedef struct HloModule HloModule;
typedef struct HloComputation HloComputation;
typedef struct HloInstruction HloInstruction;

typedef HLO_VECTOR(HloInstruction *) HloInstructionVector;
// True if `vector` contains `item`.
HLO_EXPORT bool hlo_instruction_vector_contains(const HloInstructionVector *vector, const HloInstruction *item);

// metadata={...}. Absent strings are NULL, absent numbers 0.
struct HloMetadata {
    const char *op_type, *op_name, *source_file;
    int64_t source_line, source_end_line, source_column, source_end_column;
    const char *profile_type;  // text between the braces
    const char *deduplicated_name;
    const char *scheduling_name;
    int64_t stack_frame_id;
    const char *payload;  // metadata_payload, for tools; NULL if absent, while an empty one is kept
};
// Returns a copy with its strings in `arena`; NULL for NULL. Memory errors jump to hlo_protect().
HLO_EXPORT const HloMetadata *hlo_metadata_copy(HloArena *arena, const HloMetadata *metadata);
// Appends the text between the braces of metadata={...}, as XLA prints it.
HLO_EXPORT void hlo_metadata_print(HloText *text, const HloMetadata *metadata);
// Appends a string in double quotes, with XLA's escapes: \n, \r, \t, quotes and backslashes; other bytes in octal.
HLO_EXPORT void hlo_quoted_print(HloText *text, const char *string);
// True if HLO text can hold a string as the key of an attribute, which is written without quotes: letters, digits, '_',
// '.' and '-', no digit first.
HLO_EXPORT bool hlo_is_attribute_key(const char *key);
// As hlo_quoted_print(), in single quotes, as the names of mesh axes are written.
HLO_EXPORT void hlo_axis_name_print(HloText *text, const char *name);
// Decodes the C escapes of `length` bytes between quotes in place and appends a NUL (there is room for one). Returns
// the decoded length, or -1 if the text is malformed or contains an escaped NUL, which our strings cannot hold.
HLO_EXPORT int64_t hlo_quoted_unescape(char *text, size_t length);

// key="value" of frontend_attributes, in text order.
typedef struct HloKeyValue {
    const char *key, *value;
} HloKeyValue;
typedef struct HloKeyValues {
    const HloKeyValue *items;
    int64_t count;
} HloKeyValues;

struct HloInstruction {
    HloOpcode opcode;
    int32_t id;        // unique in the module, dense: 0 <= id < module->instruction_limit
    const char *name;  // unique in the module, without '%'
    const HloShape *shape;
    HloComputation *parent;           // NULL once removed
    HloInstruction *previous, *next;  // order in the computation: operands first; the schedule if scheduled
    HloInstruction **operands;
    int32_t operand_count;
    int32_t called_count;        // computations that it calls, in order:
    HloComputation **called;     //   to_apply | condition, body | branches | select, scatter | calls
    HloInstructionVector users;  // one entry per user (not per use), in order of first use
    HloInstructionVector control_predecessors, control_successors;
    void *attributes;             // the struct of its family; never NULL unless the family is None
    const HloSharding *sharding;  // NULL if absent; also for the fields below
    const HloMetadata *metadata;
    HloKeyValues frontend_attributes;
    const char *backend_config;  // as written: JSON without quotes around it, or the string's content
    bool backend_config_is_json;
    const char *statistics;  // text between the braces
    const char *origin;      // text between the braces
};

// An op's attributes, typed: `hlo_dot_attributes(instruction)->lhs_batch`. The family must be the instruction's.
static inline const void *hlo_attributes_checked(const HloInstruction *instruction, HloFamily family) {
    HLO_BUG_IF(hlo_op_info(instruction->opcode)->family != family);
    return instruction->attributes;
}
#define HLO_ATTRIBUTES(instruction, family) \
    ((const Hlo##family##Attributes *)hlo_attributes_checked((instruction), HLO_FAMILY_##family))

// Appends an instruction to the end of `computation`. Operands must already be in the same computation. `attributes` is
// shallow-copied (lists inside must live in the module's arena); NULL means all zero. The name is made unique from
// `name`, or from the opcode's text if NULL. The shape is taken as given: builders infer it first (hlo/ir/builder.h).
// Never fails except when memory is short.
HLO_EXPORT HloInstruction *hlo_instruction_new(HloComputation *computation, HloOpcode opcode, const HloShape *shape,
                                               HloInstruction *const *operands, int64_t operand_count,
                                               const void *attributes, const char *name);
// Sets the called computations (copied); updates the callers of the old and new ones.
HLO_EXPORT void hlo_instruction_set_called(HloInstruction *instruction, HloComputation *const *called, int64_t count);
// Replaces operand `index`; updates users.
HLO_EXPORT void hlo_instruction_set_operand(HloInstruction *instruction, int64_t index, HloInstruction *operand);
// Replaces the operand list (copied); updates users.
HLO_EXPORT void hlo_instruction_set_operands(HloInstruction *instruction, HloInstruction *const *operands,
                                             int64_t count);
// Appends one operand; updates users.
HLO_EXPORT void hlo_instruction_add_operand(HloInstruction *instruction, HloInstruction *operand);
// Makes every user of `instruction` use `replacement` instead, and the root too; control edges stay. Shapes may differ
// only in layout.
HLO_EXPORT void hlo_instruction_replace_uses(HloInstruction *instruction, HloInstruction *replacement);
// Makes `user` use `replacement` instead of `instruction` in every operand position.
HLO_EXPORT void hlo_instruction_replace_use(HloInstruction *instruction, HloInstruction *user,
                                            HloInstruction *replacement);
// Removes an instruction that is not the root and has no users from its computation.
HLO_EXPORT void hlo_instruction_remove(HloInstruction *instruction);
// Moves an instruction before another one of the same computation.
HLO_EXPORT void hlo_instruction_move_before(HloInstruction *instruction, HloInstruction *position);
// Moves an instruction after another one of the same computation.
HLO_EXPORT void hlo_instruction_move_after(HloInstruction *instruction, HloInstruction *position);
// Makes `before` run before `after`. Adding an edge twice does nothing.
HLO_EXPORT void hlo_instruction_add_control_edge(HloInstruction *before, HloInstruction *after);
// Removes the edge if it exists.
HLO_EXPORT void hlo_instruction_remove_control_edge(HloInstruction *before, HloInstruction *after);
// Copies sharding, metadata, frontend attributes, backend config, statistics and origin from another instruction;
// deeply if it belongs to another module.
HLO_EXPORT void hlo_instruction_copy_annotations(HloInstruction *instruction, const HloInstruction *from);
// Appends a copy to `computation` (possibly of another module) with new operands and shape. Attributes and annotations
// are copied; called computations are kept by pointer if the module is the same, else left empty for the caller to set.
// The name is made unique from the original's.
HLO_EXPORT HloInstruction *hlo_instruction_clone(HloComputation *computation, const HloInstruction *instruction,
                                                 const HloShape *shape, HloInstruction *const *operands,
                                                 int64_t operand_count);
// Attaches another attribute struct (shallow copy).
HLO_EXPORT void hlo_instruction_set_attributes(HloInstruction *instruction, const void *attributes);
// Renames the instruction; the name is made unique.
HLO_EXPORT void hlo_instruction_set_name(HloInstruction *instruction, const char *name);
// The items sorted by key, as in XLA's map; the last item of each key wins. The strings are shared. O(n log n), so that
// a long list costs no more than parsing it.
HLO_EXPORT HloKeyValues hlo_key_values_sorted(HloArena *arena, const HloKeyValue *items, int64_t count);
// The list without the keys that begin with `prefix`: a new list in `arena` that shares the strings.
HLO_EXPORT HloKeyValues hlo_key_values_without(HloArena *arena, HloKeyValues old, const char *prefix);
// Sets a frontend attribute; key and value are copied. An existing key keeps its position.
HLO_EXPORT void hlo_instruction_set_frontend_attribute(HloInstruction *instruction, const char *key, const char *value);
// The value of a frontend attribute, or NULL.
HLO_EXPORT const char *hlo_instruction_frontend_attribute(const HloInstruction *instruction, const char *key);

// The index of the operand, or -1.
HLO_EXPORT int64_t hlo_instruction_operand_index(const HloInstruction *instruction, const HloInstruction *operand);
// True if it must not be removed, duplicated or reordered: ops with side effects, custom calls that declare one, and
// callers of computations that contain either.
HLO_EXPORT bool hlo_instruction_has_side_effect(const HloInstruction *instruction);
// True if two equal instructions may give different results: ops that draw random numbers without an explicit state,
// and callers of computations that contain one. They must not be merged, nor computed once instead of many times.
HLO_EXPORT bool hlo_instruction_is_nondeterministic(const HloInstruction *instruction);
// The async-start that an async-update or async-done belongs to; an async-start itself.
HLO_EXPORT const HloInstruction *hlo_instruction_async_start(const HloInstruction *instruction);
// True if opcode, shape, attributes, sharding, frontend attributes and called computations are the same: for equal
// operands both give equal results. False for ops that draw random numbers.
HLO_EXPORT bool hlo_instruction_same_operation(const HloInstruction *a, const HloInstruction *b);
// True if the operands are the same as well: one can replace the other (unless it has side effects).
HLO_EXPORT bool hlo_instruction_identical(const HloInstruction *a, const HloInstruction *b);
// True if it is the root of its computation.
HLO_EXPORT bool hlo_instruction_is_root(const HloInstruction *instruction);

static inline bool hlo_is(const HloInstruction *instruction, HloOpcode opcode) {
    return instruction->opcode == opcode;
}
// The number of a parameter instruction, the literal of a constant.
static inline int64_t hlo_parameter_number(const HloInstruction *instruction) {
    return HLO_ATTRIBUTES(instruction, Parameter)->number;
}
static inline const HloLiteral *hlo_constant_literal(const HloInstruction *instruction) {
    return HLO_ATTRIBUTES(instruction, Constant)->literal;
}
// True if `instruction` is a constant, or a broadcast or reshape of one, with the same value everywhere; then all
// elements of *literal have that value.
HLO_EXPORT bool hlo_is_splat(const HloInstruction *instruction, const HloLiteral **literal);

HLO_END_C

#endif
