// SPDX-License-Identifier: Apache-2.0
// Programs in which one array has another element type, or one attribute another value, than it was written with: what
// a protobuf file or a user of the C API may make.
#ifndef MESHLO_TESTS_SUPPORT_BENT_H_
#define MESHLO_TESTS_SUPPORT_BENT_H_

#include "hlo/ir/module.h"

// Called with a program that the verifier accepts although `bent` has an array of another type, or other attributes,
// than it was written with. `text` is the program as it was written, for messages. The module may not be changed.
typedef void BentVisit(const HloModule *module, const HloInstruction *bent, const char *text);

// How many cases there are: forms of forms.def and others, and elementwise ops.
int bent_case_count(void);

// Visits every program of one case that verifies: for some types of the whole program, each array of the shape of each
// instruction in turn has every other element type. Expects that what the verifier refuses is an invalid argument.
void bent_for_each(int number, BentVisit *visit);

// How many of the first cases are forms; the others, elementwise ops, have no attributes.
int bent_form_count(void);

// As bent_for_each(), of a form, with each number, flag and enumerated value of each attribute replaced by others in
// turn: negative ones, the next ones, those of the most bits; and with lists that are shorter, longer or empty.
void bent_attributes_for_each(int number, BentVisit *visit);

#endif
