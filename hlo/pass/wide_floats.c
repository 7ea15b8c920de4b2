// SPDX-License-Identifier: Apache-2.0
// Every shape in a copy of the module gets the wide types, and everything else that names the narrow types follows:
// constants, the names of LAPACK's routines, the algorithms of dots. Finally the module is verified, so that an op that
// cannot have the wide type gives an error instead of a different program.
#include "hlo/pass/wide_floats.h"

#include <assert.h>
#include <string.h>

#include "hlo/ir/attributes.h"
#include "hlo/ir/custom_call.h"
#include "hlo/pass/support.h"
#include "hlo/verify/verify.h"

HloType hlo_wide_float_type(HloType type) {
    switch (type) {
        case HLO_F16:
        case HLO_BF16:
        case HLO_F32: return HLO_F64;
        case HLO_C64: return HLO_C128;
        default: return type;
    }
}

static bool has_narrow(const HloShape *shape) {
    for (int32_t i = 0; hlo_shape_is_tuple(shape) && i < shape->element_count; i++)
        if (has_narrow(shape->elements[i])) return true;
    return hlo_wide_float_type(shape->type) != shape->type;
}

// Layouts are kept: they order dimensions, whatever the type.
static const HloShape *widened(HloArena *arena, const HloShape *shape) {
    if (!shape || !has_narrow(shape)) return shape;
    if (!hlo_shape_is_tuple(shape)) return hlo_shape_with_type(arena, shape, hlo_wide_float_type(shape->type));
    const HloShape **elements = HLO_ARENA_NEW(arena, const HloShape *, shape->element_count);
    for (int32_t i = 0; i < shape->element_count; i++) elements[i] = widened(arena, shape->elements[i]);
    return hlo_shape_tuple(arena, elements, shape->element_count);
}

static void widen_into(HloLiteral *to, const HloLiteral *from) {
    if (hlo_shape_is_tuple(from->shape)) {
        for (int32_t i = 0; i < from->shape->element_count; i++) widen_into(to->elements[i], from->elements[i]);
        return;
    }
    const int64_t count = hlo_shape_is_array(from->shape) ? hlo_shape_elements(from->shape) : 0;
    if (to->shape->type == from->shape->type) {
        if (count) memcpy(to->data, from->data, (size_t)hlo_shape_bytes(from->shape));
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        if (hlo_type_is_complex(to->shape->type))
            hlo_literal_set_complex(to, i, hlo_literal_get_complex(from, i));
        else
            hlo_literal_set_double(to, i, hlo_literal_get_double(from, i));
    }
}

HloLiteral *hlo_wide_floats_literal(HloArena *arena, const HloLiteral *literal) {
    HloLiteral *wide = hlo_literal_in_arena(arena, widened(arena, literal->shape));
    widen_into(wide, literal);
    return wide;
}

// ---- instructions that cannot be widened

static HloStatus refuse(const HloInstruction *i, const char *why) {
    return hlo_error(HLO_UNIMPLEMENTED, "%%%s (%s): %s", i->name, hlo_op_text(i->opcode), why);
}

static HloStatus check(const HloInstruction *i) {
    const HloShape *from = i->operand_count ? i->operands[0]->shape : NULL;
    switch (i->opcode) {
        case HLO_OP_BITCAST:
            return from->type != i->shape->type && (has_narrow(from) || has_narrow(i->shape))
                       ? refuse(i, "the bits of a floating-point number are reinterpreted")
                       : HLO_SUCCESS;
        case HLO_OP_BITCAST_CONVERT:
            return has_narrow(from) ? refuse(i, "the bits of a floating-point number are reinterpreted") : HLO_SUCCESS;
        case HLO_OP_RNG: return has_narrow(i->shape) ? refuse(i, "random floats depend on their type") : HLO_SUCCESS;
        case HLO_OP_STOCHASTIC_CONVERT: return refuse(i, "the rounding depends on the type");
        case HLO_OP_SEND:
        case HLO_OP_RECV:
        case HLO_OP_INFEED:
        case HLO_OP_OUTFEED: return refuse(i, "another program depends on the type");
        case HLO_OP_CUSTOM_CALL:
            return hlo_custom_call_row(i) < 0 ? refuse(i, "the custom call is not known") : HLO_SUCCESS;
        default: return HLO_SUCCESS;
    }
}

// ---- widening

// lapack_sgetrf_ffi -> lapack_dgetrf_ffi, and c -> z.
static void widen_call(HloArena *arena, HloInstruction *i) {
    HloCustomCallAttributes *call = hlo_arena_copy(arena, i->attributes, sizeof(*call));
    static const char prefix[] = "lapack_";
    const size_t at = sizeof(prefix) - 1;
    i->attributes = call;
    call->operand_layouts.count = 0;
    if (strncmp(call->target, prefix, at) != 0) return;
    char *target = hlo_arena_copy(arena, call->target, strlen(call->target) + 1);
    if (target[at] == 's') target[at] = 'd';
    if (target[at] == 'c') target[at] = 'z';
    call->target = target;
}

static void widen_instruction(HloArena *arena, HloInstruction *i) {
    i->shape = widened(arena, i->shape);
    if (hlo_is(i, HLO_OP_CONSTANT)) {
        HloConstantAttributes *constant = hlo_arena_copy(arena, i->attributes, sizeof(*constant));
        constant->literal = hlo_wide_floats_literal(arena, constant->literal);
        i->attributes = constant;
    } else if (hlo_op_info(i->opcode)->family == HLO_FAMILY_Dot) {
        HloDotAttributes *dot = hlo_arena_copy(arena, i->attributes, sizeof(*dot));
        dot->algorithm = 0;
        dot->precision.count = 0;
        i->attributes = dot;
    } else if (hlo_is(i, HLO_OP_CUSTOM_CALL)) {
        widen_call(arena, i);
    }
}

// Reinterprets the bits of integers as the narrow float, and converts that.
static void convert_bits(HloInstruction *i, const HloShape *narrow) {
    HloInstruction *bits = hlo_pass_make(
        i, &(HloBuildRequest){.opcode = i->opcode, .operands = i->operands, .operand_count = 1, .shape = narrow});
    hlo_instruction_replace_uses(i, hlo_pass_convert(i, bits, i->shape->type));
    i->shape = narrow;  // unused now, but still verified
}

static HloStatus widen_module(HloModule *module) {
    HloArena *arena = module->arena;
    for (int64_t c = 0; c < module->computations.count; c++)
        for (const HloInstruction *i = module->computations.items[c]->first; i; i = i->next) HLO_TRY(check(i));
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (HloInstruction *i = module->computations.items[c]->first, *next; i; i = next) {
            const HloShape *narrow = i->shape;
            next = i->next;
            widen_instruction(arena, i);
            if (hlo_is(i, HLO_OP_BITCAST_CONVERT) && narrow != i->shape) convert_bits(i, narrow);
        }
    }
    const HloShape **layouts = HLO_ARENA_NEW(arena, const HloShape *, module->entry_parameter_layout_count);
    for (int64_t p = 0; p < module->entry_parameter_layout_count; p++)
        layouts[p] = widened(arena, module->entry_parameter_layouts[p]);
    if (module->entry_parameter_layouts) module->entry_parameter_layouts = layouts;
    module->entry_result_layout = widened(arena, module->entry_result_layout);
    return hlo_verify(module);
}

static HloStatus widen_body(void *argument) {
    return widen_module(argument);
}

HloStatus hlo_wide_floats(const HloModule *module, HloModule **wide) {
    assert(module && wide);
    *wide = hlo_module_clone(module);
    HLO_FAIL_IF(!*wide, HLO_RESOURCE_EXHAUSTED, "no memory for a copy of the program");
    const HloStatus status = hlo_protect(widen_body, *wide);
    if (status) hlo_module_free(*wide), *wide = NULL;
    return status;
}
