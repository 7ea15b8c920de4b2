// SPDX-License-Identifier: Apache-2.0
// Known custom calls: their rows in custom_calls.def, the shapes that they require, and their options.
//
// A row specifies the shapes of a call as a signature, one TYPE:DIMS for each operand and result, after any number of
// batch dimensions that all arrays share:
//
//   "T:nn > T:nn R:n"        one matrix in; its vectors and values out (R: the real type of T)
//   "T:mn > T:mn T:k S:"     k is min(m, n); S is s32; no letters: a scalar per matrix
//
// A letter is a size: bound by the first array that has it, and compared from then on. Some letters are sizes that
// follow from others (fits()). Words instead of a signature ("same", "top" ...) name rules that are not about single
// sizes: the table `rules`.
//
// Options are in backend_config, as JSON ("lower": true) or as MLIR attributes (uplo = 76 : ui8, a character by its
// number). They are found by name in the text; none of them is nested.
#include "hlo/ir/custom_call.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/arithmetic.h"
#include "hlo/ir/attributes.h"
#include "hlo/ir/computation.h"

typedef enum Configuration { CONFIGURATION_TEXT, CONFIGURATION_BYTES } Configuration;

static const struct {
    const char *target, *signature;
    HloType type;
    HloCustomCallKind kind;
    Configuration configuration;
    HloCallRoutine routine;
} rows[] = {
#define CUSTOM_CALL(target, type, signature, evaluator, kernel, kind, configuration) \
    {target, signature, HLO_##type, HLO_CALL_##kind, CONFIGURATION_##configuration, HLO_CALL_ROUTINE_##evaluator},
#include "hlo/ir/custom_calls.def"
#undef CUSTOM_CALL
};

static int32_t row_of(const char *target) {
    for (size_t i = 0; target && i < HLO_COUNT_OF(rows); i++)
        if (!strcmp(rows[i].target, target)) return (int32_t)i;
    return -1;
}

int32_t hlo_custom_call_row(const HloInstruction *instruction) {
    assert(hlo_is(instruction, HLO_OP_CUSTOM_CALL));
    return row_of(HLO_ATTRIBUTES(instruction, CustomCall)->target);
}

HloCallRoutine hlo_custom_call_routine(const HloInstruction *call) {
    const int32_t row = hlo_custom_call_row(call);
    return row < 0 ? HLO_CALL_ROUTINE_NONE : rows[row].routine;
}

HloCustomCallKind hlo_custom_call_kind(const HloInstruction *instruction) {
    const int32_t row = hlo_is(instruction, HLO_OP_CUSTOM_CALL) ? hlo_custom_call_row(instruction) : -1;
    return row < 0 ? HLO_CALL_UNKNOWN : rows[row].kind;
}

HloOpcode hlo_custom_call_opcode(const HloInstruction *call) {
    static const char prefix[] = "mhlo.";
    if (hlo_custom_call_kind(call) != HLO_CALL_ELEMENTWISE) return HLO_OPCODE_COUNT;
    const char *target = HLO_ATTRIBUTES(call, CustomCall)->target;
    if (strncmp(target, prefix, strlen(prefix)) != 0) return HLO_OPCODE_COUNT;
    target += strlen(prefix);
    return hlo_op_from_text(target, strlen(target));
}

bool hlo_custom_call_returns_operand(const HloInstruction *instruction) {
    const HloCustomCallKind kind = hlo_custom_call_kind(instruction);
    return kind == HLO_CALL_SHARDING || kind == HLO_CALL_IDENTITY;
}

bool hlo_custom_call_is_region_boundary(const HloInstruction *instruction) {
    const HloCustomCallKind kind = hlo_custom_call_kind(instruction);
    return kind == HLO_CALL_FULL_TO_SHARD || kind == HLO_CALL_SHARD_TO_FULL;
}

bool hlo_custom_call_takes_bytes(const char *target) {
    const int32_t row = row_of(target);
    return row >= 0 && rows[row].configuration == CONFIGURATION_BYTES;
}

// ---- calls that cannot be run

// True if a row of the hints matches a target.
static bool hint_fits(const char *pattern, const char *target) {
    const size_t length = strlen(pattern);
    return pattern[length - 1] == '*' ? !strncmp(pattern, target, length - 1) : !strcmp(pattern, target);
}

bool hlo_custom_call_is_unknown(const HloInstruction *instruction) {
    const int32_t row = hlo_custom_call_row(instruction);
    return row < 0 || (rows[row].routine == HLO_CALL_ROUTINE_called_body && instruction->called_count != 1);
}

HloStatus hlo_custom_call_refuse(const HloInstruction *instruction) {
    static const struct {
        const char *target, *what, *remedy;
    } hints[] = {
#define CUSTOM_CALL_HINT(target, what, remedy) {target, what, remedy},
#include "hlo/ir/custom_call_hints.def"
    };
    const char *written = HLO_ATTRIBUTES(instruction, CustomCall)->target, *target = written ? written : "";
    const char *kernel = hlo_instruction_frontend_attribute(instruction, "kernel_name");
    for (size_t i = 0; i < HLO_COUNT_OF(hints); i++) {
        if (!hint_fits(hints[i].target, target)) continue;
        return hlo_error(HLO_UNIMPLEMENTED, "%%%s: there is no implementation of %s (custom call \"%s\"%s%s%s); %s",
                         instruction->name, hints[i].what, target, kernel ? ", kernel \"" : "", kernel ? kernel : "",
                         kernel ? "\"" : "", hints[i].remedy);
    }
    return hlo_error(HLO_UNIMPLEMENTED,
                     "%%%s: there is no implementation of custom call \"%s\": it names a function outside of the "
                     "program, for example one of jax.ffi; write it in operations that XLA knows",
                     instruction->name, target);
}

// ---- signatures

// The end of the signature of a call whose options name rows of its matrix.
#define ROWS " | rows"

typedef struct Signature {
    const char *at;         // the text still to be read
    HloType type;           // T
    const HloShape *first;  // its leading dimensions are the batch dimensions
    int32_t batch;          // the number of batch dimensions
    int64_t sizes[128];     // by letter; -1: not bound yet
} Signature;

// T: the row's type, or that of operand 0; R its real part, C the complex type of it, S s32.
static HloType signature_type(const Signature *s, char letter) {
    switch (letter) {
        case 'R': return hlo_type_real_part(s->type);
        case 'C': return hlo_type_real_part(s->type) == HLO_F64 ? HLO_C128 : HLO_C64;
        case 'S': return HLO_S32;
        default: return s->type;
    }
}

// True if a dimension of this size matches the letter. k: min(m, n); h: n - 1, for the elements beside a diagonal; u,
// v: m (n) or min(m, n), as in full and thin decompositions; r: at most the size that it reflects.
static bool fits(Signature *s, char letter, int64_t size) {
    int64_t *bound = &s->sizes[(unsigned char)letter];
    const int64_t m = s->sizes['m'], n = s->sizes['n'], k = hlo_smaller(m, n);
    switch (letter) {
        case 'k': return size == k;
        case 'h': return size == (n > 0 ? n - 1 : 0);
        case 'u': return size == m || size == k;
        case 'v': return size == n || size == k;
        case 'r':
            if (*bound < 0 && m >= 0 && size > k) return false;
            if (*bound < 0 && s->sizes['p'] >= 0 && size > s->sizes['p']) return false;
            break;
        default: break;
    }
    if (*bound < 0) *bound = size;
    return *bound == size;
}

// Matches one TYPE:DIMS against a shape.
static bool read_shape(Signature *s, const HloShape *shape) {
    while (*s->at == ' ') s->at++;
    const char type = *s->at;
    if (!type || type == '>') return false;
    const char *dims = s->at += 2;
    while (islower((unsigned char)*s->at)) s->at++;
    const int32_t own = (int32_t)(s->at - dims);
    if (!hlo_shape_is_array(shape) || shape->type != signature_type(s, type) || shape->rank < own) return false;
    if (s->batch < 0) s->first = shape, s->batch = shape->rank - own;
    if (shape->rank != s->batch + own) return false;
    for (int32_t d = 0; d < s->batch; d++)
        if (shape->dims[d] != s->first->dims[d]) return false;
    for (int32_t d = 0; d < own; d++)
        if (!fits(s, dims[d], shape->dims[s->batch + d])) return false;
    return true;
}

// Matches operands, then results, against the row's signature.
static bool fits_spelled(const HloInstruction *instruction, const char *signature, HloType type) {
    const bool tuple = hlo_shape_is_tuple(instruction->shape);
    const int32_t results = tuple ? instruction->shape->element_count : 1;
    Signature s = {.at = signature, .type = type, .batch = -1};
    for (size_t i = 0; i < HLO_COUNT_OF(s.sizes); i++) s.sizes[i] = -1;
    if (s.type == HLO_INVALID && instruction->operand_count > 0) s.type = instruction->operands[0]->shape->type;
    bool good = hlo_type_is_float(s.type) || hlo_type_is_complex(s.type);
    for (int32_t i = 0; i < instruction->operand_count && good; i++)
        good = read_shape(&s, instruction->operands[i]->shape);
    while (*s.at == ' ') s.at++;
    good = good && *s.at++ == '>';
    for (int32_t i = 0; i < results && good; i++)
        good = read_shape(&s, tuple ? instruction->shape->elements[i] : instruction->shape);
    if (good && s.sizes['p'] >= 0) {  // a square matrix that multiplies from one side
        const bool left =
            hlo_custom_call_option(instruction, "left", hlo_custom_call_option(instruction, "side", 'L') == 'L');
        good = s.sizes['p'] == s.sizes[left ? 'm' : 'n'];
    }
    return good && (!*s.at || !strcmp(s.at, ROWS));
}

// True if the result has the shape of operand 0.
static bool fits_same(const HloInstruction *instruction) {
    return instruction->operand_count > 0 &&
           hlo_shape_equal(instruction->shape, instruction->operands[0]->shape, HLO_COMPARE_IGNORE_LAYOUT);
}

// Checks types and count: results are parts of the operands, and only the partitioner can compute their sizes.
static bool fits_shard(const HloInstruction *instruction) {
    const HloShape *shape = instruction->shape;
    const bool tuple = hlo_shape_is_tuple(shape);
    const int32_t count = tuple ? shape->element_count : 1;
    if (count > instruction->operand_count) return false;
    for (int32_t i = 0; i < count; i++) {
        const HloShape *part = tuple ? shape->elements[i] : shape, *whole = instruction->operands[i]->shape;
        if (!hlo_shape_is_array(part) || part->type != whole->type) return false;
    }
    return true;
}

// True if `part` has a part of `whole` along at most one dimension, and all of it along the others.
static bool is_part(const HloShape *part, const HloShape *whole) {
    if (!hlo_shape_is_array(part) || !hlo_shape_is_array(whole) || part->rank != whole->rank) return false;
    int32_t shorter = 0;
    for (int32_t d = 0; d < part->rank; d++) {
        if (part->dims[d] > whole->dims[d]) return false;
        shorter += part->dims[d] < whole->dims[d];
    }
    return shorter <= 1;
}

static bool same_dims(const HloShape *a, const HloShape *b) {
    // A scalar's dims may be NULL, which memcmp() must not get.
    return a->rank == b->rank && (!a->rank || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof(*a->dims)) == 0);
}

// Checks the results (values, indices): operand 0, shortened along its last dimension.
static bool fits_top(const HloInstruction *instruction) {
    const HloShape *shape = instruction->shape;
    if (!hlo_shape_is_tuple(shape) || shape->element_count != 2 || instruction->operand_count < 1) return false;
    const HloShape *values = shape->elements[0], *positions = shape->elements[1];
    const HloShape *whole = instruction->operands[0]->shape;
    if (!is_part(values, whole) || !hlo_shape_is_array(positions) || !same_dims(values, positions)) return false;
    for (int32_t d = 0; d + 1 < whole->rank; d++)
        if (values->dims[d] != whole->dims[d]) return false;
    return whole->rank > 0 && values->type == whole->type && hlo_type_is_integer(positions->type);
}

// True if a comparator takes scalars of this type as parameter `number`.
static bool compares(const HloComputation *comparator, int64_t number, HloType type) {
    if (number >= comparator->parameters.count) return false;
    const HloShape *shape = comparator->parameters.items[number]->shape;
    return hlo_shape_is_scalar(shape) && shape->type == type;
}

// Checks any number of arrays, all shortened along one dimension, and a comparator of two scalars of each.
static bool fits_tops(const HloInstruction *instruction) {
    const HloShape *shape = instruction->shape;
    const int32_t count = instruction->operand_count / 2;
    if (!hlo_shape_is_tuple(shape) || shape->element_count != count || count < 1 || instruction->called_count != 1)
        return false;
    for (int32_t a = 0; a < count; a++) {
        const HloShape *part = shape->elements[a], *whole = instruction->operands[a]->shape;
        if (!is_part(part, whole) || part->type != whole->type || whole->rank < 1) return false;
        if (!same_dims(whole, instruction->operands[0]->shape) || !same_dims(part, shape->elements[0])) return false;
        if (!compares(instruction->called[0], 2 * a, whole->type) ||
            !compares(instruction->called[0], 2 * a + 1, whole->type))
            return false;
    }
    return true;
}

static bool fits_unary(const HloInstruction *instruction) {
    return fits_same(instruction) && instruction->operand_count == 1;
}

static bool is_size(const HloShape *shape) {
    return hlo_shape_is_scalar(shape) && shape->type == HLO_S32;
}

// Checks the results (the array, the size of each dimension).
static bool fits_pad(const HloInstruction *instruction) {
    const HloShape *shape = instruction->shape;
    if (instruction->operand_count != 1 || !hlo_shape_is_tuple(shape)) return false;
    const HloShape *array = instruction->operands[0]->shape;
    if (!hlo_shape_is_array(array) || shape->element_count != array->rank + 1) return false;
    for (int32_t i = 1; i < shape->element_count; i++)
        if (!is_size(shape->elements[i])) return false;
    return hlo_shape_equal(shape->elements[0], array, HLO_COMPARE_BOUNDS);
}

static bool fits_slice(const HloInstruction *instruction) {
    const HloShape *shape = instruction->shape;
    if (!hlo_shape_is_array(shape) || instruction->operand_count != shape->rank + 1) return false;
    for (int32_t i = 1; i < instruction->operand_count; i++)
        if (!is_size(instruction->operands[i]->shape)) return false;
    return hlo_shape_equal(shape, instruction->operands[0]->shape, HLO_COMPARE_BOUNDS);
}

// Accepts a call without a computation, so that it is passed through; running it reports the missing computation.
static bool fits_body(const HloInstruction *instruction) {
    if (instruction->called_count == 0) return true;
    const HloComputation *body = instruction->called[0];
    if (instruction->called_count > 1 || body->parameters.count != instruction->operand_count) return false;
    for (int32_t p = 0; p < instruction->operand_count; p++) {
        if (!hlo_shape_equal(body->parameters.items[p]->shape, instruction->operands[p]->shape,
                             HLO_COMPARE_IGNORE_LAYOUT))
            return false;
    }
    return hlo_shape_equal(body->root->shape, instruction->shape, HLO_COMPARE_IGNORE_LAYOUT);
}

// The words that name a rule.
static const struct {
    const char *word;
    bool (*fits)(const HloInstruction *instruction);
} rules[] = {{"same", fits_same}, {"unary", fits_unary}, {"shard", fits_shard}, {"top", fits_top},
             {"tops", fits_tops}, {"pad", fits_pad},     {"slice", fits_slice}, {"body", fits_body}};

static bool fits_signature(const HloInstruction *instruction, const char *signature, HloType type) {
    for (size_t i = 0; i < HLO_COUNT_OF(rules); i++)
        if (!strcmp(signature, rules[i].word)) return rules[i].fits(instruction);
    return fits_spelled(instruction, signature, type);
}

// True if all sizes are known: only these are compared.
static bool has_static_sizes(const HloInstruction *instruction) {
    for (int32_t i = 0; i < instruction->operand_count; i++)
        if (hlo_shape_is_unbounded(instruction->operands[i]->shape)) return false;
    return !hlo_shape_is_unbounded(instruction->shape);
}

// Returns INVALID_ARGUMENT with the shapes of the call and the rule that they violate.
static HloStatus refuse(const HloInstruction *instruction, const char *target, const char *signature) {
    HloText shapes = {0};
    for (int32_t i = 0; i < instruction->operand_count; i++) {
        hlo_text_string(&shapes, i ? ", " : "");
        hlo_shape_print(&shapes, instruction->operands[i]->shape, false);
    }
    hlo_text_string(&shapes, " -> ");
    hlo_shape_print(&shapes, instruction->shape, false);
    const HloStatus status = hlo_error(
        HLO_INVALID_ARGUMENT, "%%%s: the shapes of custom call \"%s\" are inconsistent: %s does not match \"%s\"",
        instruction->name, target, shapes.data, signature);
    hlo_text_free(&shapes);
    return status;
}

// The options low and high are rows of the matrix. A matrix without rows has no first one either.
static HloStatus check_rows(const HloInstruction *instruction) {
    const HloShape *matrix = instruction->operands[0]->shape;
    const int64_t n = matrix->dims[matrix->rank - 1];
    const int64_t low = hlo_custom_call_option(instruction, "low", 1),
                  high = hlo_custom_call_option(instruction, "high", n);
    HLO_FAIL_IF(n > 0 && (low < 1 || low > high || high > n), HLO_INVALID_ARGUMENT,
                "%%%s: rows %lld to %lld of a matrix of %lld", instruction->name, (long long)low, (long long)high,
                (long long)n);
    return HLO_SUCCESS;
}

HloStatus hlo_custom_call_check(const HloInstruction *instruction) {
    assert(hlo_is(instruction, HLO_OP_CUSTOM_CALL));
    const int32_t row = hlo_custom_call_row(instruction);
    const char *signature = row < 0 ? NULL : rows[row].signature;
    if (!signature || !has_static_sizes(instruction)) return HLO_SUCCESS;
    if (!fits_signature(instruction, signature, rows[row].type))
        return refuse(instruction, rows[row].target, signature);
    return strstr(signature, ROWS) ? check_rows(instruction) : HLO_SUCCESS;
}

// ---- options

// The text after `name =` or `"name":`; NULL if it is absent.
static const char *option_value(const HloInstruction *instruction, const char *name) {
    const size_t length = strlen(name);
    const char *at = instruction->backend_config;
    while (at && (at = strstr(at, name)) != NULL) {
        const bool whole = at == instruction->backend_config || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        at += length;
        const char *value = at + strspn(at, " ");
        if (whole && *value == '"') value += 1 + strspn(value + 1, " ");
        if (whole && (*value == '=' || *value == ':')) return value + 1 + strspn(value + 1, " ");
    }
    return NULL;
}

int64_t hlo_custom_call_option(const HloInstruction *instruction, const char *name, int64_t fallback) {
    assert(hlo_is(instruction, HLO_OP_CUSTOM_CALL) && name);
    const char *value = option_value(instruction, name);
    if (!value) return fallback;
    if (!strncmp(value, "true", 4)) return 1;
    if (!strncmp(value, "false", 5)) return 0;
    return strtoll(value, NULL, 10);
}

bool hlo_custom_call_list_option(const HloInstruction *instruction, const char *name, int64_t *items, int64_t count) {
    assert(hlo_is(instruction, HLO_OP_CUSTOM_CALL) && name && (items || count == 0));
    const char *at = option_value(instruction, name);
    if (!at || *at++ != '[') return false;
    for (int64_t i = 0; i < count; i++) {
        char *end;
        if (i > 0 && *at++ != ',') return false;
        items[i] = strtoll(at, &end, 10);
        if (end == at) return false;
        at = end + strspn(end, " ");
    }
    return *at == ']';
}

int64_t hlo_custom_call_top_k_dimension(const HloInstruction *instruction) {
    assert(instruction->operand_count > 0 && hlo_shape_is_tuple(instruction->shape));
    const HloShape *whole = instruction->operands[0]->shape, *part = instruction->shape->elements[0];
    assert(whole->rank > 0 && part->rank == whole->rank);
    for (int32_t d = 0; d < whole->rank; d++)
        if (part->dims[d] < whole->dims[d]) return d;
    const int64_t said = hlo_custom_call_option(instruction, "reduction_dim", whole->rank - 1);
    return said >= 0 && said < whole->rank ? said : whole->rank - 1;
}

// The parameter that a comparator's key is computed from: keys are select(test, replacement, x), or x through
// conversions.
static const HloInstruction *key_source(const HloInstruction *key) {
    while (!hlo_is(key, HLO_OP_PARAMETER) && key->operand_count > 0) key = key->operands[key->operand_count - 1];
    return hlo_is(key, HLO_OP_PARAMETER) ? key : NULL;
}

bool hlo_custom_call_takes_largest(const HloInstruction *instruction) {
    assert(hlo_is(instruction, HLO_OP_CUSTOM_CALL));
    if (instruction->called_count != 1 || !hlo_is(instruction->called[0]->root, HLO_OP_COMPARE)) return true;
    const HloInstruction *root = instruction->called[0]->root, *first = key_source(root->operands[0]);
    int32_t direction = HLO_ATTRIBUTES(root, Compare)->direction;
    // Parameters come in pairs (left, right): an odd one is the right element.
    if (first && hlo_parameter_number(first) % 2) direction = hlo_comparison_exchanged(direction);
    return direction != HLO_ComparisonDirection_LT && direction != HLO_ComparisonDirection_LE;
}

void hlo_custom_call_eigh(const HloInstruction *instruction, bool *lower, bool *sort) {
    const char *config = instruction->backend_config, *comma = config ? strchr(config, ',') : NULL;
    *lower = !config || config[0] != '0';
    *sort = !comma || comma[1] != '0';
}
