// SPDX-License-Identifier: Apache-2.0
// The engine runs all that the evaluator accepts, with equal results: every op, element type and form of forms.def; and
// targets/cpu/lower/lowerings.def lists the ops that it leaves to the evaluator.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/verify/verify.h"
#include "targets/cpu/lower/fallbacks.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

typedef struct Form {
    HloOpcode opcode;
    const char *header, *computations, *body;
} Form;

static const Form kForms[] = {
#define FORM(opcode, header, computations, body) {HLO_OP_##opcode, header, computations, body},
#include "tests/support/forms.def"
#undef FORM
};

// The done halves of asynchronous ops and of transfers are in the forms of their start halves.
static const HloOpcode kWithOthers[] = {HLO_OP_ASYNC_UPDATE,
                                        HLO_OP_ASYNC_DONE,
                                        HLO_OP_ALL_GATHER_DONE,
                                        HLO_OP_ALL_REDUCE_DONE,
                                        HLO_OP_COLLECTIVE_PERMUTE_DONE,
                                        HLO_OP_COPY_DONE};
// Ops with tests of their own, which have another device or the host at the other end.
static const HloOpcode kElsewhere[] = {HLO_OP_SEND,      HLO_OP_SEND_DONE, HLO_OP_RECV,
                                       HLO_OP_RECV_DONE, HLO_OP_INFEED,    HLO_OP_OUTFEED};
// Makes arrays of dynamic size: test_bounded.c.
static const HloOpcode kDynamic[] = {HLO_OP_SET_DIMENSION_SIZE};

static const char *const kShapes[] = {"[]", "[7]", "[0]", "[2,0,3]", "[2,3,5]", "[1,2,1,3,1,2,1,2]"};

static bool is_among(const HloOpcode *list, size_t count, HloOpcode opcode) {
    for (size_t i = 0; i < count; i++)
        if (list[i] == opcode) return true;
    return false;
}

static bool verifies(const HloModule *module) {
    HloStatus status = hlo_verify(module);
    const bool ok = !status;
    hlo_status_free(status);
    return ok;
}

// Every line of `opcode name` must name an op that the table lists.
static void expect_listed(const char *fallbacks, const char *text) {
    for (const char *line = fallbacks; *line; line = strchr(line, '\n') + 1) {
        const HloOpcode opcode = hlo_op_from_text(line, strcspn(line, " "));
        cr_expect(cpu_fallback_reason(opcode), "the evaluator runs %.*s, which lowerings.def does not say:\n%s",
                  (int)strcspn(line, "\n"), line, text);
    }
}

// Runs the program in both engines if it means something: true if the evaluator had a result.
static bool check(const char *text, HloOpcode opcode) {
    // Batch normalisation is a dozen ops, each of which rounds.
    const double ulps = !strncmp(hlo_op_text(opcode), "batch-norm", 10) ? 12 : 3;
    HloText message = {0}, failure = {0}, fallbacks = {0};
    const CompiledCheck options = {.seed = 11,
                                   .threads = 1,
                                   .tolerance = 1e-4,
                                   .narrow_ulps = ulps,
                                   .allow_fallback = true,
                                   .fallbacks = &fallbacks};
    HloModule *module = compiled_parse(text, &message);
    bool accepted = false;
    if (module && verifies(module)) {
        const bool equal = compiled_equals_eval(module, &options, &failure);
        accepted = equal || strncmp(failure.data, "evaluate: UNIMPLEMENTED", 23) != 0;
        cr_expect(equal || !accepted, "%s\n%s", failure.data, text);
        if (fallbacks.length) expect_listed(fallbacks.data, text);
    }
    hlo_module_free(module);
    hlo_text_free(&message);
    hlo_text_free(&failure);
    hlo_text_free(&fallbacks);
    return accepted;
}

static void make_elementwise(HloText *text, HloOpcode opcode, HloType type, HloType result, const char *shape) {
    const HloOpInfo *info = hlo_op_info(opcode);
    const char *attributes = opcode == HLO_OP_COMPARE            ? ", direction=NE"
                             : opcode == HLO_OP_REDUCE_PRECISION ? ", exponent_bits=4, mantissa_bits=3"
                                                                 : "";
    hlo_text_string(text, "HloModule m\nENTRY e {\n");
    for (int i = 0; i < info->arity; i++)
        hlo_text_format(text, "p%d = %s%s parameter(%d)\n", i,
                        opcode == HLO_OP_SELECT && i == 0 ? "pred" : hlo_type_text(type), shape, i);
    hlo_text_format(text, "ROOT r = %s%s %s(p0%s%s)%s\n}\n", hlo_type_text(result), shape, info->text,
                    info->arity > 1 ? ", p1" : "", info->arity > 2 ? ", p2" : "", attributes);
}

// Results of the operands' type, of their parts, of what makes complex numbers of them, and predicates.
static int check_elementwise(HloOpcode opcode, HloType type) {
    const HloType results[] = {type, HLO_PRED, hlo_type_real_part(type), HLO_C64, HLO_C128};
    int accepted = 0;
    for (size_t s = 0; s < HLO_COUNT_OF(kShapes); s++) {
        for (size_t r = 0; r < HLO_COUNT_OF(results); r++) {
            bool again = false;
            for (size_t k = 0; k < r; k++) again = again || results[k] == results[r];
            if (again) continue;
            HloText text = {0};
            make_elementwise(&text, opcode, type, results[r], kShapes[s]);
            accepted += check(text.data, opcode);
            hlo_text_free(&text);
        }
    }
    return accepted;
}

// Adds to taken[f] where form `f` means something with this type.
static int check_forms(HloOpcode opcode, HloType type, int *taken) {
    int accepted = 0;
    for (size_t f = 0; f < HLO_COUNT_OF(kForms); f++) {
        if (kForms[f].opcode != opcode) continue;
        HloText text = {0};
        hlo_text_format(&text, "HloModule m%s\n", kForms[f].header);
        cases_with_type(&text, kForms[f].computations, type);
        hlo_text_string(&text, "ENTRY e {\n");
        cases_with_type(&text, kForms[f].body, type);
        hlo_text_string(&text, "\n}\n");
        const bool means_something = check(text.data, opcode);
        accepted += means_something;
        taken[f] += means_something;
        hlo_text_free(&text);
    }
    return accepted;
}

// Conversions have two types: all pairs.
static int check_pairs(HloOpcode opcode, HloType from) {
    int accepted = 0;
    for (int t = 0; t < HLO_TYPE_COUNT; t++) {
        const HloTypeInfo *to = hlo_type_info((HloType)t), *have = hlo_type_info(from);
        if (to->bits == 0) continue;
        HloText text = {0};
        hlo_text_format(&text, "HloModule m\nENTRY e {\np = %s[5] parameter(0)\n", have->text);
        if (opcode == HLO_OP_STOCHASTIC_CONVERT)
            hlo_text_format(&text, "q = u%d[5] parameter(1)\nROOT r = %s[5] stochastic-convert(p, q)\n}\n", have->bits,
                            to->text);
        else
            hlo_text_format(&text, "ROOT r = %s[5] %s(p)\n}\n", to->text, hlo_op_text(opcode));
        accepted += check(text.data, opcode);
        hlo_text_free(&text);
    }
    return accepted;
}

CaseList(every_op, runs_compiled) {
    HloOpcode *opcodes = cr_malloc(sizeof(HloOpcode) * HLO_OPCODE_COUNT);
    for (int i = 0; i < HLO_OPCODE_COUNT; i++) opcodes[i] = (HloOpcode)i;
    return cr_make_param_array(HloOpcode, opcodes, HLO_OPCODE_COUNT);
}

CaseTest(HloOpcode *opcode, every_op, runs_compiled) {
    int accepted = 0, taken[HLO_COUNT_OF(kForms)] = {0};
    const bool needs_zero = !strncmp(hlo_op_text(*opcode), "batch-norm", 10) || *opcode == HLO_OP_CONVOLUTION;
    const bool converts =
        *opcode == HLO_OP_CONVERT || *opcode == HLO_OP_BITCAST_CONVERT || *opcode == HLO_OP_STOCHASTIC_CONVERT;
    for (int t = 0; t < HLO_TYPE_COUNT; t++) {
        if (hlo_type_info((HloType)t)->bits == 0) continue;
        // Powers of two cannot hold the differences of a normalisation, nor what holes and padding add up to.
        if (needs_zero && t == HLO_F8E8M0FNU) continue;
        if (converts)
            accepted += check_pairs(*opcode, (HloType)t);
        else if (hlo_op_is(*opcode, HLO_OP_IS_ELEMENTWISE))
            accepted += check_elementwise(*opcode, (HloType)t);
        accepted += check_forms(*opcode, (HloType)t, taken);
    }
    // A form that no type makes a program of is a mistake in forms.def, and would check nothing.
    for (size_t f = 0; f < HLO_COUNT_OF(kForms); f++)
        cr_expect(kForms[f].opcode != *opcode || taken[f], "no type runs the form\n%s", kForms[f].body);
    if (is_among(kWithOthers, HLO_COUNT_OF(kWithOthers), *opcode) ||
        is_among(kElsewhere, HLO_COUNT_OF(kElsewhere), *opcode) || is_among(kDynamic, HLO_COUNT_OF(kDynamic), *opcode))
        return;
    cr_expect_gt(accepted, 0, "%s has no form that means something", hlo_op_text(*opcode));
}
