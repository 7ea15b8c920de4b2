// SPDX-License-Identifier: Apache-2.0
// Shared by the steps of random_module(): the values made so far, random numbers, and text. Private to tests/support.
#ifndef MESHLO_TESTS_SUPPORT_RANDOM_INTERNAL_H_
#define MESHLO_TESTS_SUPPORT_RANDOM_INTERNAL_H_

#include <stdbool.h>
#include <stdint.h>

#include "hlo/base/text.h"
#include "hlo/ir/types.h"
#include "tests/support/random.h"

// Values have up to kUsualRank dimensions to begin with; some steps make more.
// A step makes fewer than kMostOfAStep of them.
enum { kMaximumValues = 256, kMostOfAStep = 80, kUsualRank = 4, kMaximumRank = 6, kMostDevices = 8 };

typedef struct Value {
    HloType type;
    int rank;
    int64_t dims[kMaximumRank];
    int bounds[kMaximumRank];  // where the dimension's size is dynamic: which one it is, else 0
    bool exact;                // free of rounding errors
    bool unscaled;             // a sum whose error grew with its length: only its scaled form is used further
} Value;

typedef struct Generator {
    Random random;
    HloText *head;  // computations that instructions call
    HloText *text;  // the computation that is being written
    Value values[kMaximumValues];
    int count;
    int parameters[kMaximumValues];  // numbers of values
    int parameter_count;
    bool takes_tuple;  // its parameters are elements of one
    int depth;         // how many computations are around it
    int called_count;
    bool exact;  // nothing may round but single operations
    int replicas, partitions;
    bool apart;                        // devices go their own ways here, and cannot meet
    bool portable;                     // nothing that StableHLO does not have
    int64_t most_elements;             // of an array
    uint8_t reducers[HLO_TYPE_COUNT];  // those that are written
} Generator;

// Arrays are large: enough for several threads and blocks.
bool random_is_large(const Generator *g);
// Chance: 64 bits; a number in [0, limit); true in so many of 100 cases.
uint64_t random_draw(Generator *g);
int64_t random_below(Generator *g, int64_t limit);
bool random_chance(Generator *g, int64_t percent);

int64_t random_elements(const Value *value);
// Of bounded dynamic size, for the steps of random_bounded() only.
bool random_is_bounded(const Value *value);
// Of one type and of the same dimensions and sizes.
bool random_same_form(const Value *a, const Value *b);
// A number for the name of a computation, or of a value that other steps must not see.
int random_called(Generator *g);
// One of the types of values.
HloType random_type(Generator *g);
// A value of rank 0.
Value random_scalar(HloType type);
// A size from 1 to `most`.
int64_t random_size(Generator *g, int64_t most);
// The numbers below `count` in random order.
void random_permutation(Generator *g, int64_t *items, int count);
// NAME{1,2,3}
void random_print_list(HloText *text, const char *name, const int64_t *items, int count);
void random_print_shape(HloText *text, const Value *value);
// Begins the instruction "  v7 = f32[2,3] "; the caller goes on with the op. Returns the new value's number.
int random_begin(Generator *g, Value value);
// The same with the op, in the words of printf(), and the end of the line.
int random_put(Generator *g, Value value, const char *format, ...) __attribute__((__format__(__printf__, 3, 4)));
// The value without NaNs where there may be some: their signs are not defined.
int random_ordered(Generator *g, int number);
// The value times the number, without rounding errors that grow.
int random_scaled(Generator *g, int number, const char *factor);
// A new parameter of this form; returns its number.
int random_parameter(Generator *g, Value value);
// Any value made so far.
int random_pick(Generator *g);
// A value that `wanted` takes, or -1.
int random_pick_where(Generator *g, bool (*wanted)(const Value *value));
bool random_wants_exact(const Value *value);        // a number without rounding errors
bool random_wants_dimensions(const Value *value);   // rank 1 or more
bool random_wants_exact_array(const Value *value);  // both
// Another value of the same form: one that is there, or a new parameter.
int random_partner(Generator *g, Value form);
// One that is as exact as the form.
int random_equal_partner(Generator *g, Value form);
// The literal in every element of the form.
int random_splat(Generator *g, Value form, const char *literal);

// The name of the computation that applies an operation to two scalars, which is written where it is not there.
typedef enum Reducer { ADD, MAXIMUM, MINIMUM, MULTIPLY, AND, OR, XOR, REDUCERS } Reducer;
typedef struct ReducerName {
    char text[32];
} ReducerName;
ReducerName random_reducer(Generator *g, Reducer reducer, HloType type);
// One whose result does not depend on the order of its elements, bit for bit.
Reducer random_exact_reducer(Generator *g, HloType type);

// So many steps of any kind.
void random_steps(Generator *g, int count);

// Begins another computation: until random_leave() steps append to that one, and *outer keeps the one around. Each of
// the operands, values around, becomes a parameter, element `number` of a tuple or a parameter of its own. Steps may
// make more parameters.
void random_enter(Generator *g, Generator *outer, const int *operands, int count, bool takes_tuple);
// Writes the computation "NAME NUMBER {...}" with these results, a tuple unless `single`, and goes back to the one
// around. The parameters beyond the first `count` are values there: arguments[] becomes all operands of a call.
// Returns how many there are.
int random_leave(Generator *g, Generator *outer, const char *name, const int *results, int result_count, bool single,
                 const int *operands, int count, int *arguments);
// (f32[2], s32[]): the forms as a tuple.
void random_print_forms(HloText *text, const Value *forms, int count);
// Makes each element of a tuple of these forms, "NAMEnumber", a value.
void random_take_apart(Generator *g, const char *name, int number, const Value *forms, int count);

// The number of the device that runs this: an s32.
int random_device_number(Generator *g);
// An s32 that is the same on every device.
int random_agreed(Generator *g);

// Steps: each appends some instructions, or none where no value suits.
void random_any_type(Generator *g);
void random_sort(Generator *g);
void random_window(Generator *g);
void random_gather(Generator *g);
void random_scatter(Generator *g);
void random_loop(Generator *g);
void random_branch(Generator *g);
void random_convolution(Generator *g);
void random_dot(Generator *g);
void random_any_convolution(Generator *g);
void random_fft(Generator *g);
void random_linear_algebra(Generator *g);
void random_batch_norm(Generator *g);
void random_any_gather(Generator *g);
void random_any_scatter(Generator *g);
void random_sort_by_keys(Generator *g);
void random_topk(Generator *g);
void random_argument(Generator *g);
void random_select_and_scatter(Generator *g);
void random_transcendental(Generator *g);
void random_complex(Generator *g);
void random_bits(Generator *g);
void random_precision(Generator *g);
void random_map(Generator *g);
void random_barrier(Generator *g);
void random_generator(Generator *g);
void random_call(Generator *g);
void random_fusion(Generator *g);
void random_async(Generator *g);
void random_choice(Generator *g);
void random_stacking_loop(Generator *g);
void random_scan(Generator *g);
void random_ragged_dot(Generator *g);
void random_scaled_dot(Generator *g);
void random_stochastic(Generator *g);
void random_high_product(Generator *g);
void random_copy(Generator *g);
void random_bounded(Generator *g);
void random_own_number(Generator *g);
void random_all_reduce(Generator *g);
void random_reduce_scatter(Generator *g);
void random_all_gather(Generator *g);
void random_all_to_all(Generator *g);
void random_collective_broadcast(Generator *g);
void random_permute(Generator *g);
void random_messages(Generator *g);
void random_ragged_exchange(Generator *g);

#endif
