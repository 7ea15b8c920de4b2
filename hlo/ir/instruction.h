// SPDX-License-Identifier: Apache-2.0
// Instructions: the nodes of a computation. Fields are read freely and changed only through the functions here, which
// keep users, control edges and caller lists right.
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
// Whether `item` stands in `vector`.
HLO_EXPORT bool hlo_instruction_vector_contains(const HloInstructionVector *vector, const HloInstruction *item);

// metadata={...}. Strings NULL and numbers 0 where absent.
struct HloMetadata {
    const char *op_type, *op_name, *source_file;
    int64_t source_line, source_end_line, source_column, source_end_column;
    const char *profile_type;  // text between the braces
    const char *deduplicated_name;
    const char *scheduling_name;
    int64_t stack_frame_id;
};
// A copy with its texts in `arena`; NULL for NULL. Memory errors jump to hlo_protect().
HLO_EXPORT const HloMetadata *hlo_metadata_copy(HloArena *arena, const HloMetadata *metadata);
// Appends what stands between the braces of metadata={...}, as XLA prints it.
HLO_EXPORT void hlo_metadata_print(HloText *text, const HloMetadata *metadata);
// Appends a string in double quotes, with XLA's escapes: \n, \r, \t, quotes and backslashes, other bytes in octal.
HLO_EXPORT void hlo_quoted_print(HloText *text, const char *string);
// Whether HLO text can hold a string as the key of an attribute, which stands there without quotes: letters, digits,
// '_', '.' and '-', no digit first.
HLO_EXPORT bool hlo_is_attribute_key(const char *key);
// The same in single quotes, as the axes of meshes have their names.
HLO_EXPORT void hlo_axis_name_print(HloText *text, const char *name);
// Decodes the C escapes of `length` bytes between quotes in place and ends them with a NUL (there is room for one); the
// decoded length, or -1 when malformed or when a NUL would stand inside, which our strings cannot hold.
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
    HloInstruction *previous, *next;  // order inside the computation: operands first; the schedule if scheduled
    HloInstruction **operands;
    int32_t operand_count;
    int32_t called_count;        // computations it calls, in order:
    HloComputation **called;     //   to_apply | condition, body | branches | select, scatter | calls
    HloInstructionVector users;  // one entry a user (not a use), in order of first use
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

// Each op's attributes, typed: `hlo_dot_attributes(instruction)->lhs_batch`. The family must be the instruction's.
static inline const void *hlo_attributes_checked(const HloInstruction *instruction, HloFamily family) {
    HLO_BUG_IF(hlo_op_info(instruction->opcode)->family != family);
    return instruction->attributes;
}
#define HLO_ATTRIBUTES(instruction, family) \
    ((const Hlo##family##Attributes *)hlo_attributes_checked((instruction), HLO_FAMILY_##family))

// Appends an instruction to the end of `computation`. Operands must be in the same computation already. `attributes` is
// shallow-copied (lists inside must live in the module's arena); NULL means all zero. The name is made unique from
// `name`, or from the opcode's text when NULL. The shape is what the caller says: builders infer it first
// (hlo/ir/builder.h). Never fails but for memory.
HLO_EXPORT HloInstruction *hlo_instruction_new(HloComputation *computation, HloOpcode opcode, const HloShape *shape,
                                               HloInstruction *const *operands, int64_t operand_count,
                                               const void *attributes, const char *name);
// The called computations, copied; updates the callers of the old and new ones.
HLO_EXPORT void hlo_instruction_set_called(HloInstruction *instruction, HloComputation *const *called, int64_t count);
// Replaces operand `index`; updates users.
HLO_EXPORT void hlo_instruction_set_operand(HloInstruction *instruction, int64_t index, HloInstruction *operand);
// Another operand list (copied); updates users.
HLO_EXPORT void hlo_instruction_set_operands(HloInstruction *instruction, HloInstruction *const *operands,
                                             int64_t count);
// Appends one operand; updates users.
HLO_EXPORT void hlo_instruction_add_operand(HloInstruction *instruction, HloInstruction *operand);
// Every user of `instruction` uses `replacement` instead; the root too; control edges stay. Shapes may differ only in
// layout.
HLO_EXPORT void hlo_instruction_replace_uses(HloInstruction *instruction, HloInstruction *replacement);
// `user` uses `replacement` instead of `instruction`, in every operand position.
HLO_EXPORT void hlo_instruction_replace_use(HloInstruction *instruction, HloInstruction *user,
                                            HloInstruction *replacement);
// Takes an instruction without users (and not the root) out of its computation.
HLO_EXPORT void hlo_instruction_remove(HloInstruction *instruction);
// Moves an instruction in front of / behind another one of the same computation.
HLO_EXPORT void hlo_instruction_move_before(HloInstruction *instruction, HloInstruction *position);
// The same, behind it.
HLO_EXPORT void hlo_instruction_move_after(HloInstruction *instruction, HloInstruction *position);
// `before` must run before `after`. Adding an edge twice does nothing.
HLO_EXPORT void hlo_instruction_add_control_edge(HloInstruction *before, HloInstruction *after);
// Removes the edge if it is there.
HLO_EXPORT void hlo_instruction_remove_control_edge(HloInstruction *before, HloInstruction *after);
// Copies sharding, metadata, frontend attributes, backend config, statistics and origin from another instruction, deep
// if it belongs to another module.
HLO_EXPORT void hlo_instruction_copy_annotations(HloInstruction *instruction, const HloInstruction *from);
// A copy appended to `computation` (possibly of another module) with new operands and shape; attributes and annotations
// are copied, called computations are kept by pointer if the module is the same and else left empty for the caller to
// set. The name is made unique from the original's.
HLO_EXPORT HloInstruction *hlo_instruction_clone(HloComputation *computation, const HloInstruction *instruction,
                                                 const HloShape *shape, HloInstruction *const *operands,
                                                 int64_t operand_count);
// Attaches another attribute struct (shallow copy).
HLO_EXPORT void hlo_instruction_set_attributes(HloInstruction *instruction, const void *attributes);
// Another name, made unique.
HLO_EXPORT void hlo_instruction_set_name(HloInstruction *instruction, const char *name);
// The items in the order of their keys, as XLA's map keeps them; the last of several with one key counts. The texts are
// shared. O(n log n), so that a long list costs no more than its reading.
HLO_EXPORT HloKeyValues hlo_key_values_sorted(HloArena *arena, const HloKeyValue *items, int64_t count);
// The list without the keys that begin with `prefix`: a new list in `arena`, its texts those of the old one.
HLO_EXPORT HloKeyValues hlo_key_values_without(HloArena *arena, HloKeyValues old, const char *prefix);
// Sets a frontend attribute; key and value are copied, an old value of the key is replaced in its place.
HLO_EXPORT void hlo_instruction_set_frontend_attribute(HloInstruction *instruction, const char *key, const char *value);
// The value of a frontend attribute, or NULL.
HLO_EXPORT const char *hlo_instruction_frontend_attribute(const HloInstruction *instruction, const char *key);

// Position of the operand, or -1.
HLO_EXPORT int64_t hlo_instruction_operand_index(const HloInstruction *instruction, const HloInstruction *operand);
// True if it must not be removed, duplicated or reordered: side-effect ops, custom calls that say so, and callers of
// computations that hold one.
HLO_EXPORT bool hlo_instruction_has_side_effect(const HloInstruction *instruction);
// True if two equal ones may give different results: ops that draw random numbers without a state of their own, and
// callers of computations that hold one. They must not be joined, nor computed once instead of many times.
HLO_EXPORT bool hlo_instruction_is_nondeterministic(const HloInstruction *instruction);
// The async-start that an async-update or async-done belongs to; an async-start itself.
HLO_EXPORT const HloInstruction *hlo_instruction_async_start(const HloInstruction *instruction);
// True if same opcode, shape, attributes, sharding, frontend attributes and called computations: of equal operands both
// make equal results. False for ops that draw random numbers.
HLO_EXPORT bool hlo_instruction_same_operation(const HloInstruction *a, const HloInstruction *b);
// True if they are also of the same operands: one can stand for the other (unless it has side effects).
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

HLO_END_C

#endif
