// SPDX-License-Identifier: Apache-2.0
#include "tests/support/shaped.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

// Whether a shape in the program has this size.
static bool has_size(const char *body, int size) {
    char first[8], middle[8], last[8], only[8];
    snprintf(first, sizeof first, "[%d,", size);
    snprintf(middle, sizeof middle, ",%d,", size);
    snprintf(last, sizeof last, ",%d]", size);
    snprintf(only, sizeof only, "[%d]", size);
    return strstr(body, first) || strstr(body, middle) || strstr(body, last) || strstr(body, only);
}

// ---- custom calls

typedef struct Row {
    const char *target, *signature;
    HloType type;
} Row;

static const Row kRows[] = {
#define CUSTOM_CALL(target, type, signature, evaluator, kernel, kind, configuration) {target, signature, HLO_##type},
#include "hlo/ir/custom_calls.def"
#undef CUSTOM_CALL
};

int32_t shaped_custom_call_rows(void) {
    return (int32_t)HLO_COUNT_OF(kRows);
}

const char *shaped_custom_call_target(int32_t row) {
    return kRows[row].target;
}

// Programs for the signatures that are words, by the word, and for the targets that have no signature, by the target.
// `@` is the target.
typedef struct Written {
    const char *key, *called, *body;
} Written;

#define ORDER                                                                                      \
    "more { a = f32[] parameter(0)\n b = f32[] parameter(1)\n i = s32[] parameter(2)\n j = s32[] " \
    "parameter(3)\n ROOT r = pred[] compare(a, b), direction=GT }\n"
#define ONE(key, from, to) \
    { key, "", "p = " from " parameter(0)\n ROOT r = " to " custom-call(p), custom_call_target=\"@\"\n" }
#define TOPS(from, to)                                                                                         \
    {                                                                                                          \
        "tops", ORDER,                                                                                         \
            "p = f32" from " parameter(0)\n q = s32" from                                                      \
            " iota(), iota_dimension=0\n z = f32[] constant(-inf)\n k = s32[] constant(-1)\n ROOT r = (f32" to \
            ", s32" to                                                                                         \
            ") custom-call(p, q, z, k), custom_call_target=\"@\", called_computations={more}, "                \
            "backend_config={reduction_dim = 1 : i64}\n"                                                       \
    }

// Programs with empty arrays.
static const Written kEmpty[] = {
    ONE("same", "f32[0]", "f32[0]"),
    ONE("same", "f32[2,0,3]", "f32[2,0,3]"),
    ONE("unary", "f32[0]", "f32[0]"),
    ONE("unary", "f32[2,0,3]", "f32[2,0,3]"),
    ONE("top", "f32[0,5]", "(f32[0,2], s32[0,2])"),
    ONE("top", "f32[3,0]", "(f32[3,0], s32[3,0])"),
    ONE("top", "f32[3,5]", "(f32[3,0], s32[3,0])"),
    ONE("top", "f32[0]", "(f32[0], s32[0])"),
    ONE("top", "f32[2,0,3]", "(f32[2,0,1], s32[2,0,1])"),
    TOPS("[0,5]", "[0,2]"),
    TOPS("[3,0]", "[3,0]"),
    TOPS("[3,5]", "[3,0]"),
    ONE("pad", "f32[<=3,0]", "(f32[3,0], s32[], s32[])"),
    {"slice", "",
     "p = f32[3,0] parameter(0)\n n = s32[] constant(2)\n k = s32[] constant(0)\n ROOT r = f32[<=3,0] custom-call(p, "
     "n, "
     "k), custom_call_target=\"@\"\n"},
    {"body", "twice { a = f32[2,0] parameter(0)\n ROOT r = f32[2,0] add(a, a) }\n",
     "p = f32[2,0] parameter(0)\n ROOT r = f32[2,0] custom-call(p), custom_call_target=\"@\", "
     "called_computations={twice}\n"},
    {"shard", "",
     "p = f32[2,0] parameter(0)\n s = f32[2,0] custom-call(p), custom_call_target=\"Sharding\", "
     "sharding={replicated}\n ROOT r = f32[2,0] custom-call(s), custom_call_target=\"@\", sharding={replicated}\n"},
    {"InspectSharding", "",
     "p = f32[0,3] parameter(0)\n i = () custom-call(p), custom_call_target=\"@\", "
     "custom_call_has_side_effect=true, sharding={replicated}\n ROOT r = f32[0,3] add(p, p)\n"},
    {"dce_sink", "",
     "p = f32[0,3] parameter(0)\n i = () custom-call(p), custom_call_target=\"@\", "
     "custom_call_has_side_effect=true\n ROOT r = f32[0,3] add(p, p)\n"},
    {"AllocateBuffer", "", "ROOT r = f32[0,3] custom-call(), custom_call_target=\"@\"\n"},
};

// Programs with wrong shapes.
static const Written kBent[] = {
    ONE("same", "f32[4]", "f32[5]"),
    ONE("same", "f32[4]", "s32[4]"),
    ONE("same", "f32[4]", "(f32[4])"),
    ONE("unary", "f32[4]", "f32[4,1]"),
    {"unary", "", "p = f32[4] parameter(0)\n ROOT r = f32[4] custom-call(p, p), custom_call_target=\"@\"\n"},
    ONE("top", "f32[3,5]", "(f32[3,6], s32[3,6])"),
    ONE("top", "f32[3,5]", "(f32[2,5], s32[2,5])"),
    ONE("top", "f32[3,5]", "(f32[3,2], s32[3,3])"),
    ONE("top", "f32[3,5]", "(s32[3,2], s32[3,2])"),
    ONE("top", "f32[3,5]", "(f32[3,2], f32[3,2])"),
    ONE("top", "f32[3,5]", "f32[3,2]"),
    ONE("top", "f32[]", "(f32[], s32[])"),
    TOPS("[3,5]", "[3,6]"),
    TOPS("[3,5]", "[2,4]"),
    TOPS("[3,5]", "[3]"),
    ONE("pad", "f32[<=3]", "(f32[4], s32[])"),
    ONE("pad", "f32[<=3]", "(f32[3], f32[])"),
    ONE("pad", "f32[<=3]", "(f32[3], s32[], s32[])"),
    ONE("slice", "f32[3]", "f32[<=3]"),
    {"slice", "",
     "p = f32[3] parameter(0)\n n = f32[] parameter(1)\n ROOT r = f32[<=3] custom-call(p, n), "
     "custom_call_target=\"@\"\n"},
    {"slice", "",
     "p = f32[3] parameter(0)\n n = s32[] parameter(1)\n ROOT r = f32[<=4] custom-call(p, n), "
     "custom_call_target=\"@\"\n"},
    {"body", "twice { a = f32[3] parameter(0)\n ROOT r = f32[3] add(a, a) }\n",
     "p = f32[2] parameter(0)\n ROOT r = f32[2] custom-call(p), custom_call_target=\"@\", "
     "called_computations={twice}\n"},
    {"body", "twice { a = f32[2] parameter(0)\n ROOT r = f32[2] add(a, a) }\n",
     "p = f32[2] parameter(0)\n ROOT r = f32[2] custom-call(p, p), custom_call_target=\"@\", "
     "called_computations={twice}\n"},
    ONE("shard", "f32[4]", "s32[2]"),
    ONE("shard", "f32[4]", "(f32[2], f32[2])"),
};

static int run_written(const Written *programs, size_t count, const char *key, const char *target, ShapedFunction *each,
                       void *context) {
    int found = 0, valid = 0;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(programs[i].key, key)) continue;
        HloText text = {0};
        hlo_text_format(&text, "HloModule m\n%sENTRY e {\n", programs[i].called);
        for (const char *at = programs[i].body; *at; at++) {
            if (*at == '@')
                hlo_text_string(&text, target);
            else
                hlo_text_char(&text, *at);
        }
        hlo_text_string(&text, "}\n");
        found++;
        valid += each(text.data, context);
        hlo_text_free(&text);
    }
    return found ? valid : -1;
}

// The sizes of a spelled signature; the letters are those of hlo/ir/custom_call.h.
typedef struct Sizes {
    const char *batch;
    int m, n, r;
    bool thin;
} Sizes;

static const Sizes kSizes[] = {
    {"0,", 3, 3, 2, false},      {"2,0,", 4, 3, 2, true}, {"0,2,", 3, 4, 3, false}, {"", 0, 0, 0, false},
    {"2,", 0, 0, 0, true},       {"", 0, 3, 0, false},    {"", 3, 0, 0, false},     {"2,", 0, 3, 0, true},
    {"2,", 3, 0, 0, true},       {"2,", 3, 3, 0, false},  {"0,", 0, 0, 0, true},    {"0,", 3, 0, 0, false},
    {"1000000,", 0, 3, 0, true},
};

static int size_of(const Sizes *sizes, char letter) {
    const int k = sizes->m < sizes->n ? sizes->m : sizes->n;
    switch (letter) {
        case 'm':
        case 'p': return sizes->m; /* the calls multiply from the left unless an option says otherwise */
        case 'n': return sizes->n;
        case 'k': return k;
        case 'h': return sizes->n > 0 ? sizes->n - 1 : 0;
        case 'u': return sizes->thin ? k : sizes->m;
        case 'v': return sizes->thin ? k : sizes->n;
        default: return sizes->r < k ? sizes->r : k;
    }
}

static HloType type_of(HloType type, char letter) {
    switch (letter) {
        case 'R': return hlo_type_real_part(type);
        case 'C': return hlo_type_real_part(type) == HLO_F64 ? HLO_C128 : HLO_C64;
        case 'S': return HLO_S32;
        default: return type;
    }
}

// The error in the program of a signature: the size of dimension `dimension` of array `array` is one more, or, where
// `dimension` is negative, its element type is another one. None where `array` is negative.
typedef struct Bend {
    int array, dimension;
} Bend;

// Appends one TYPE:DIMS as a shape; returns what follows it. *bend counts down to the array.
static const char *put_shape(HloText *text, const char *at, HloType type, const Sizes *sizes, Bend *bend) {
    const bool bent = bend->array-- == 0;
    const HloType own = type_of(type, *at);
    hlo_text_format(text, "%s[", hlo_type_text(bent && bend->dimension < 0 ? own == HLO_S32 ? HLO_F32 : HLO_S32 : own));
    const size_t start = text->length;
    hlo_text_string(text, sizes->batch);
    at += 2;
    for (int d = 0; islower((unsigned char)*at); at++, d++)
        hlo_text_format(text, "%d,", size_of(sizes, *at) + (bent && d == bend->dimension));
    if (text->length > start) text->data[--text->length] = '\0';
    hlo_text_char(text, ']');
    return at + strspn(at, " ");
}

// Appends the program of a signature, with `extra` more operands; returns how many arrays it has.
static int put_spelled(HloText *text, const Row *row, HloType type, const Sizes *sizes, Bend bend, int extra) {
    const char *at = row->signature;
    HloText results = {0};
    int operands = 0, count = 0;
    hlo_text_string(text, "HloModule m\nENTRY e {\n");
    for (; *at != '>'; operands++) {
        hlo_text_format(text, "p%d = ", operands);
        at = put_shape(text, at, type, sizes, &bend);
        hlo_text_format(text, " parameter(%d)\n", operands);
    }
    for (at++, at += strspn(at, " "); *at && *at != '|'; count++) {
        if (count) hlo_text_string(&results, ", ");
        at = put_shape(&results, at, type, sizes, &bend);
    }
    hlo_text_format(text, count > 1 ? "ROOT r = (%s) custom-call(" : "ROOT r = %s custom-call(", results.data);
    for (int i = 0; i < operands + extra; i++) hlo_text_format(text, "%sp%d", i ? ", " : "", i % operands);
    hlo_text_format(text, "), custom_call_target=\"%s\"%s\n}\n", row->target,
                    strstr(row->target, "_ffi") ? ", api_version=API_VERSION_TYPED_FFI" : "");
    hlo_text_free(&results);
    return operands + count;
}

// The word of a row whose signature does not spell the shapes, else NULL.
static const char *word_of(const Row *row) {
    if (!row->signature) return row->target;
    return strchr(row->signature, ':') ? NULL : row->signature;
}

static HloType element_type(const Row *row) {
    return row->type == HLO_INVALID ? HLO_F32 : row->type;
}

int shaped_custom_calls(int32_t row, ShapedFunction *each, void *context) {
    const Row *call = &kRows[row];
    if (word_of(call)) return run_written(kEmpty, HLO_COUNT_OF(kEmpty), word_of(call), call->target, each, context);
    int valid = 0;
    for (size_t i = 0; i < HLO_COUNT_OF(kSizes); i++) {
        HloText text = {0};
        put_spelled(&text, call, element_type(call), &kSizes[i], (Bend){-1, 0}, 0);
        valid += has_size(text.data, 0) && each(text.data, context);
        hlo_text_free(&text);
    }
    return valid;
}

int shaped_bent_custom_calls(int32_t row, ShapedFunction *each, void *context) {
    static const Sizes sizes = {"2,", 5, 3, 3, false};
    const Row *call = &kRows[row];
    if (!call->signature) return 0;
    if (word_of(call)) {
        run_written(kBent, HLO_COUNT_OF(kBent), word_of(call), call->target, each, context);
        return 1;
    }
    int arrays = 1, programs = 0;
    for (int array = 0; array < arrays; array++) {
        for (int dimension = -1; dimension < 2; dimension++) {
            HloText right = {0}, text = {0};
            arrays = put_spelled(&right, call, element_type(call), &sizes, (Bend){-1, 0}, 0);
            put_spelled(&text, call, element_type(call), &sizes, (Bend){array, dimension}, 0);
            if (strcmp(right.data, text.data)) programs++, each(text.data, context);
            hlo_text_free(&right);
            hlo_text_free(&text);
        }
    }
    HloText text = {0};
    put_spelled(&text, call, element_type(call), &sizes, (Bend){-1, 0}, 1);
    each(text.data, context);
    hlo_text_free(&text);
    return programs + 1;
}

// ---- the forms of forms.def

typedef struct Form {
    HloOpcode opcode;
    const char *header, *computations, *body;
} Form;

static const Form kForms[] = {
#define FORM(opcode, header, computations, body) {HLO_OP_##opcode, header, computations, body},
#include "tests/support/forms.def"
#undef FORM
};

// Which sizes of a form become zero, and whether its last shape is left to be inferred.
typedef struct Emptied {
    int size;
    bool in_braces, infer;
    HloType type;
} Emptied;

// Appends the text with the element type for every dollar sign, and zero for the size in brackets (in braces too, where
// slices and transforms have their sizes).
static void put_emptied(HloText *out, const char *text, const Emptied *how) {
    bool brackets = false, sizes = false;
    for (const char *at = text; *at; at++) {
        if (how->in_braces && (!strncmp(at, "sizes={", 7) || !strncmp(at, "length={", 8))) sizes = true;
        if (*at == '[') brackets = true;
        if (*at == ']') brackets = false;
        if (*at == '}') sizes = false;
        if (*at == '$') {
            hlo_text_string(out, hlo_type_text(how->type));
        } else if ((brackets || sizes) && isdigit((unsigned char)*at) && !isalnum((unsigned char)at[-1])) {
            int size = 0, length = 0;
            sscanf(at, "%d%n", &size, &length);
            hlo_text_format(out, "%d", size == how->size ? 0 : size);
            at += length - 1;
        } else {
            hlo_text_char(out, *at);
        }
    }
}

static bool run_emptied(const Form *form, const Emptied *how, ShapedFunction *each, void *context) {
    HloText text = {0};
    hlo_text_format(&text, "HloModule m%s\n", form->header);
    put_emptied(&text, form->computations, how);
    hlo_text_string(&text, "ENTRY e {\n");
    const char *root = strstr(form->body, "ROOT r = ");
    if (how->infer && root) {
        HloText head = {0};
        hlo_text_format(&head, "%.*sROOT r = ", (int)(root - form->body), form->body);
        put_emptied(&text, head.data, how);
        root += strlen("ROOT r = ");
        root += *root == '(' ? strcspn(root, ")") + 2 : strcspn(root, " ") + 1;
        put_emptied(&text, root, how);
        hlo_text_free(&head);
    } else {
        put_emptied(&text, form->body, how);
    }
    hlo_text_string(&text, "\n}\n");
    const bool valid = each(text.data, context);
    hlo_text_free(&text);
    return valid;
}

static int run_form(const Form *form, HloType type, ShapedFunction *each, void *context) {
    int valid = 0;
    for (int size = 0; size < 100; size++) {
        if (!has_size(form->body, size)) continue;
        for (int way = 0; way < (size ? 4 : 1); way++) {
            const Emptied how = {size, way & 1, way & 2, type};
            valid += run_emptied(form, &how, each, context);
        }
    }
    return valid;
}

int shaped_forms(HloOpcode opcode, HloType type, ShapedFunction *each, void *context) {
    int valid = 0;
    for (size_t f = 0; f < HLO_COUNT_OF(kForms); f++)
        if (kForms[f].opcode == opcode) valid += run_form(&kForms[f], type, each, context);
    if (!hlo_op_is(opcode, HLO_OP_IS_ELEMENTWISE) && opcode != HLO_OP_BITCAST_CONVERT) return valid;
    HloText body = {0};
    const HloOpInfo *info = hlo_op_info(opcode);
    for (int i = 0; i < info->arity; i++)
        hlo_text_format(&body, "p%d = %s[2,3] parameter(%d)\n", i,
                        opcode == HLO_OP_SELECT && i == 0               ? "pred"
                        : opcode == HLO_OP_STOCHASTIC_CONVERT && i == 1 ? "u32"
                                                                        : "$",
                        i);
    hlo_text_format(&body, "ROOT r = %s[2,3] %s(p0%s%s)%s",
                    opcode == HLO_OP_COMPARE || opcode == HLO_OP_IS_FINITE ? "pred"
                    : opcode == HLO_OP_COMPLEX                             ? "c64"
                                                                           : "$",
                    info->text, info->arity > 1 ? ", p1" : "", info->arity > 2 ? ", p2" : "",
                    opcode == HLO_OP_COMPARE            ? ", direction=NE"
                    : opcode == HLO_OP_REDUCE_PRECISION ? ", exponent_bits=4, mantissa_bits=3"
                                                        : "");
    const Form form = {opcode, "", "", body.data};
    valid += run_form(&form, type, each, context);
    hlo_text_free(&body);
    return valid;
}

bool shaped_is_never_empty(HloOpcode opcode) {
    static const HloOpcode kNever[] = {HLO_OP_PARTITION_ID, HLO_OP_REPLICA_ID, HLO_OP_RNG_GET_AND_UPDATE_STATE,
                                       HLO_OP_AFTER_ALL,
                                       // the forms of these begin with another op
                                       HLO_OP_ASYNC_UPDATE, HLO_OP_ASYNC_DONE, HLO_OP_ALL_GATHER_DONE,
                                       HLO_OP_ALL_REDUCE_DONE, HLO_OP_COLLECTIVE_PERMUTE_DONE, HLO_OP_COPY_DONE,
                                       // they meet the host or another device, or make arrays of dynamic size
                                       HLO_OP_SEND, HLO_OP_SEND_DONE, HLO_OP_RECV, HLO_OP_RECV_DONE, HLO_OP_INFEED,
                                       HLO_OP_OUTFEED, HLO_OP_SET_DIMENSION_SIZE};
    for (size_t i = 0; i < HLO_COUNT_OF(kNever); i++)
        if (kNever[i] == opcode) return true;
    return false;
}
