// SPDX-License-Identifier: Apache-2.0
// What the steps of random_module() share: the values made so far, chance, and text. Private to tests/support.
#ifndef MESHLO_TESTS_SUPPORT_RANDOM_INTERNAL_H_
#define MESHLO_TESTS_SUPPORT_RANDOM_INTERNAL_H_

#include <stdbool.h>
#include <stdint.h>

#include "hlo/base/text.h"
#include "hlo/ir/types.h"

enum { kMaximumValues = 128, kMaximumRank = 4, kMaximumElements = 4096 };

typedef struct Value {
    HloType type;
    int rank;
    int64_t dims[kMaximumRank];
    bool exact;     // free of rounding errors
    bool unscaled;  // a sum whose error grew with its length: only its scaled form is used further
} Value;

typedef struct Generator {
    uint64_t state;
    HloText *head;  // computations that instructions call
    HloText *text;  // the entry computation
    Value values[kMaximumValues];
    int count;
    int parameter_count;
    int called_count;
} Generator;

// Chance: 64 bits; a number in [0, limit); true in so many of 100 cases.
uint64_t random_draw(Generator *g);
int64_t random_below(Generator *g, int64_t limit);
bool random_chance(Generator *g, int64_t percent);

int64_t random_elements(const Value *value);
// NAME{1,2,3}
void random_print_list(HloText *text, const char *name, const int64_t *items, int count);
void random_print_shape(HloText *text, const Value *value);
// Begins the instruction "  v7 = f32[2,3] "; the caller goes on with the op. Returns the new value's number.
int random_begin(Generator *g, Value value);
// A new parameter of this form; returns its number.
int random_parameter(Generator *g, Value value);
// A value that `wanted` takes, or -1.
int random_pick_where(Generator *g, bool (*wanted)(const Value *value));
bool random_wants_exact(const Value *value);       // a number without rounding errors
bool random_wants_dimensions(const Value *value);  // rank 1 or more
// Another value of the same form: one that is there, or a new parameter.
int random_partner(Generator *g, Value form);
// The literal in every element of the form.
int random_splat(Generator *g, Value form, const char *literal);

// Steps: each appends some instructions, or none where no value suits.
void random_any_type(Generator *g);
void random_sort(Generator *g);
void random_window(Generator *g);
void random_gather(Generator *g);
void random_scatter(Generator *g);
void random_loop(Generator *g);
void random_branch(Generator *g);
void random_convolution(Generator *g);

#endif
