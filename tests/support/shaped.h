// SPDX-License-Identifier: Apache-2.0
// Programs of one operation each, written from the tables of the operations: with empty arrays (no matrices in a batch,
// no rows, no columns), and with shapes that contradict each other.
#ifndef MESHLO_TESTS_SUPPORT_SHAPED_H_
#define MESHLO_TESTS_SUPPORT_SHAPED_H_

#include "hlo/hlo.h"

// Takes the text of a program. Returns whether the program is valid and was run.
typedef bool ShapedFunction(const char *text, void *context);

// Calls `each` with programs of row `row` of hlo/ir/custom_calls.def: one for each way in which its batch, its rows or
// its columns can be missing. The shapes follow from the row's signature. Returns how many were valid; -1 where the
// signature does not say the shapes and no program is written for the target.
int shaped_custom_calls(int32_t row, ShapedFunction *each, void *context);
// The same with shapes that do not match the signature: one size, one type or the number of arrays is wrong. Returns
// how many programs there were.
int shaped_bent_custom_calls(int32_t row, ShapedFunction *each, void *context);
// How many rows that table has, and the target of one.
int32_t shaped_custom_call_rows(void);
const char *shaped_custom_call_target(int32_t row);

// Calls `each` with every form of forms.def of this opcode (elementwise ops: with one form) after one of its sizes has
// become zero wherever it occurs. Many of these are not valid. Returns how many were.
int shaped_forms(HloOpcode opcode, HloType type, ShapedFunction *each, void *context);

// The opcodes that have no operand or result which can be empty.
bool shaped_is_never_empty(HloOpcode opcode);

#endif
