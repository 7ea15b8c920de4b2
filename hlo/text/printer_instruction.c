// SPDX-License-Identifier: Apache-2.0
// Prints instructions: one line each, with the parts in XLA's order; options omit or abbreviate parts.
//
//   %sum = f32[] reduce(%x, %zero), dimensions={0}, to_apply=%add, sharding={replicated}, metadata={..}, ..
//   name   shape opcode operands    fields          called         annotations            source
//
// An async op whose computation has only one op is printed as that op ("all-gather-start", or -start of any op):
// "sugar", which the parser undoes.
#include <assert.h>

#include "hlo/base/complex.h"
#include "hlo/text/printer.h"

// The op that an async op wraps, if it is printed as that op's -start, -update or -done; else NULL.
static const HloInstruction *sugar_of(const HloInstruction *instruction) {
    HloOpcode opcode = instruction->opcode;
    if (opcode != HLO_OP_ASYNC_START && opcode != HLO_OP_ASYNC_UPDATE && opcode != HLO_OP_ASYNC_DONE) return NULL;
    const HloInstruction *start = hlo_instruction_async_start(instruction);
    if (start->called_count != 1 || !hlo_printer_is_sugar(start->called[0])) return NULL;
    return start->called[0]->root;
}

// `wrapped`: the op that an async op wraps, or NULL.
static void print_opcode(HloText *text, const HloInstruction *instruction, const HloInstruction *wrapped) {
    if (wrapped) hlo_text_string(text, hlo_op_text(wrapped->opcode));
    // The opcodes of async ops are "async" and the suffix.
    hlo_text_string(text, hlo_op_text(instruction->opcode) + (wrapped ? strlen("async") : 0));
}

// True if every element equals `value`; zeros of either sign are equal.
static bool is_all(const HloLiteral *literal, double value) {
    if (!hlo_shape_is_array(literal->shape) || literal->elided) return false;
    int64_t count = hlo_shape_elements(literal->shape);
    for (int64_t i = 0; i < count; i++) {
        double _Complex element = hlo_literal_get_complex(literal, i);
        if (creal(element) != value || cimag(element) != 0) return false;
    }
    return true;
}

// For fingerprints: only values that affect simplifications.
static void print_essential_constant(HloText *text, const HloLiteral *literal) {
    assert(literal->shape);
    if (is_all(literal, 0)) {
        hlo_text_char(text, '0');
    } else if (is_all(literal, 1)) {
        hlo_text_char(text, '1');
    } else if (hlo_type_is_integer(literal->shape->type)) {
        hlo_print_literal(text, literal);
    } else {
        hlo_text_string(text, "{...}");
    }
}

// Ten elements is XLA's limit for large constants. Tuples are large, too.
static bool is_left_out(const HloPrintOptions *options, const HloLiteral *literal) {
    const bool small = hlo_shape_is_array(literal->shape) && hlo_shape_elements(literal->shape) <= 10;
    return !small && !options->print_large_constants && !literal->elided;
}

static void print_constant(HloPrinter *printer, const HloInstruction *instruction) {
    const HloLiteral *literal = hlo_constant_literal(instruction);
    if (printer->options.essential_constants) {
        print_essential_constant(printer->text, literal);
        return;
    }
    if (is_left_out(&printer->options, literal)) {
        hlo_text_string(printer->text, "{...}");
    } else {
        hlo_print_literal(printer->text, literal);
    }
}

// [shape] [name], by the options.
static void print_operand(HloPrinter *printer, const HloInstruction *operand) {
    const HloPrintOptions *options = &printer->options;
    bool named = options->canonical_names ? printer->in_computation : options->print_operand_names;
    if (options->print_operand_shapes) hlo_printer_shape(printer, operand->shape);
    if (!named) return;
    if (options->print_operand_shapes) hlo_text_char(printer->text, ' ');
    hlo_printer_name(printer, operand);
}

// Parameters have their number, constants their value in place of operands.
static void print_operands(HloPrinter *printer, const HloInstruction *instruction) {
    HloText *text = printer->text;
    if (instruction->opcode == HLO_OP_PARAMETER) {
        hlo_text_int64(text, hlo_parameter_number(instruction));
        return;
    }
    if (instruction->opcode == HLO_OP_CONSTANT) {
        print_constant(printer, instruction);
        return;
    }
    int32_t count = instruction->operand_count;
    int32_t shown = printer->options.compact_operands && count > 4 ? 4 : count;
    for (int32_t i = 0; i < shown; i++) {
        if (i > 0) hlo_text_append(text, ", ", 2);
        if (i > 0 && printer->options.number_operands && i % 5 == 0) hlo_text_format(text, "/*index=%d*/", i);
        print_operand(printer, instruction->operands[i]);
    }
    if (shown < count) hlo_text_format(text, ", ...(+%d)", count - shown);
}

// ---------------------------------------------------------------------------------------------------------------------
// Called computations

// By name, or as a whole body in the canonical form.
static void print_called(HloPrinter *printer, const HloComputation *computation, int indent) {
    assert(computation && indent >= 0);
    if (printer->options.canonical_names) {
        hlo_text_char(printer->text, '\n');
        hlo_printer_body(printer, computation, indent);
    } else {
        if (printer->options.print_percent) hlo_text_char(printer->text, '%');
        hlo_text_string(printer->text, computation->name);
    }
}

// ", to_apply=%add" and similar.
static void print_role(HloPrinter *printer, const char *role, const HloComputation *computation, int indent) {
    hlo_text_append(printer->text, ", ", 2);
    hlo_text_string(printer->text, role);
    hlo_text_char(printer->text, '=');
    print_called(printer, computation, indent);
}

// ", branch_computations={%a, %b}": bodies have no blanks between them, as in XLA.
static void print_list(HloPrinter *printer, const char *role, const HloInstruction *instruction, int indent) {
    assert(instruction->called_count >= 0);
    HloText *text = printer->text;
    bool bodies = printer->options.canonical_names;
    hlo_text_append(text, ", ", 2);
    hlo_text_string(text, role);
    hlo_text_append(text, "={", 2);
    for (int32_t i = 0; i < instruction->called_count; i++) {
        if (i > 0) hlo_text_string(text, bodies ? "," : ", ");
        print_called(printer, instruction->called[i], indent);
    }
    hlo_text_string(text, bodies ? "\n}" : "}");
}

// The names of roles as XLA prints them; a loop's condition comes first.
static void print_calls(HloPrinter *printer, const HloInstruction *instruction, int indent) {
    HloComputation **called = instruction->called;
    if (instruction->called_count == 0) return;
    switch (instruction->opcode) {
        case HLO_OP_WHILE:
            print_role(printer, "condition", called[0], indent);
            print_role(printer, "body", called[1], indent);
            break;
        case HLO_OP_SELECT_AND_SCATTER:
            print_role(printer, "select", called[0], indent);
            print_role(printer, "scatter", called[1], indent);
            break;
        case HLO_OP_CONDITIONAL:
            if (instruction->operands[0]->shape->type == HLO_PRED) {
                print_role(printer, "true_computation", called[0], indent);
                print_role(printer, "false_computation", called[1], indent);
            } else {
                print_list(printer, "branch_computations", instruction, indent);
            }
            break;
        case HLO_OP_FUSION:
        case HLO_OP_ASYNC_START: print_role(printer, "calls", called[0], indent); break;
        case HLO_OP_ASYNC_UPDATE:
        case HLO_OP_ASYNC_DONE: break;
        case HLO_OP_REDUCE_SCATTER:
        case HLO_OP_SCAN:
            print_role(printer, printer->options.canonical_names ? "calls" : "to_apply", called[0], indent);
            break;
        case HLO_OP_CUSTOM_CALL: print_list(printer, "called_computations", instruction, indent); break;
        default: print_role(printer, "to_apply", called[0], indent); break;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Annotations

// Metadata with neither an op name, a source nor a payload is not printed.
static void print_metadata(HloText *text, const HloMetadata *metadata) {
    const char *const names[] = {metadata->op_type, metadata->op_name, metadata->source_file,
                                 metadata->scheduling_name};
    bool any = metadata->stack_frame_id != 0 || metadata->payload;
    for (size_t i = 0; i < HLO_COUNT_OF(names); i++) any |= names[i] && *names[i];
    if (!any) return;
    hlo_text_string(text, ", metadata={");
    hlo_metadata_print(text, metadata);
    hlo_text_char(text, '}');
}

static void print_braced(HloText *text, const char *start, const char *content) {
    hlo_text_string(text, start);
    hlo_text_string(text, content);
    hlo_text_char(text, '}');
}

static void print_predecessors(HloPrinter *printer, const HloInstruction *instruction) {
    hlo_text_string(printer->text, ", control-predecessors={");
    for (int64_t i = 0; i < instruction->control_predecessors.count; i++) {
        if (i > 0) hlo_text_append(printer->text, ", ", 2);
        hlo_printer_name(printer, instruction->control_predecessors.items[i]);
    }
    hlo_text_char(printer->text, '}');
}

static void print_backend_config(HloText *text, const HloInstruction *instruction) {
    hlo_text_string(text, ", backend_config=");
    if (hlo_printer_is_json(instruction->backend_config)) {
        hlo_text_string(text, instruction->backend_config);
    } else {
        hlo_quoted_print(text, instruction->backend_config);
    }
}

// `frontend`: with the frontend attributes.
static void print_annotations(HloPrinter *printer, const HloInstruction *instruction, bool frontend) {
    HloText *text = printer->text;
    const HloPrintOptions *options = &printer->options;
    if (instruction->sharding) {
        hlo_text_string(text, ", sharding=");
        hlo_sharding_print_with(text, instruction->sharding, options->print_metadata);
    }
    if (frontend && instruction->frontend_attributes.count) {
        hlo_text_string(text, ", frontend_attributes=");
        hlo_printer_key_values(text, instruction->frontend_attributes);
    }
    if (options->print_control_dependencies && instruction->control_predecessors.count) {
        print_predecessors(printer, instruction);
    }
    if (instruction->statistics) print_braced(text, ", statistics={", instruction->statistics);
}

// For a wrapped op, both its own fields and those of the async op are printed.
static void print_extras(HloPrinter *printer, const HloInstruction *instruction, const HloInstruction *wrapped,
                         int indent) {
    HloText *text = printer->text;
    const HloPrintOptions *options = &printer->options;
    if (wrapped && instruction->opcode == HLO_OP_ASYNC_START) {
        hlo_printer_fields(printer, instruction);
        hlo_printer_fields(printer, wrapped);
        print_calls(printer, wrapped, indent);
        // The frontend attributes of the async-start, which come below, hide those of the op in it.
        print_annotations(printer, wrapped, instruction->frontend_attributes.count == 0);
        if (options->canonical_names) print_calls(printer, instruction, indent);
    } else if (!wrapped) {
        hlo_printer_fields(printer, instruction);
        print_calls(printer, instruction, indent);
        if (instruction->opcode == HLO_OP_CALL && HLO_ATTRIBUTES(instruction, Call)->is_composite) {
            hlo_text_string(text, ", is_composite=true");
        }
    }
    print_annotations(printer, instruction, true);
    if (hlo_op_info(instruction->opcode)->family == HLO_FAMILY_Accuracy) {
        const HloAccuracy *accuracy = HLO_ATTRIBUTES(instruction, Accuracy)->accuracy;
        if (accuracy && (accuracy->has_tolerance || accuracy->mode != HLO_AccuracyMode_DEFAULT)) {
            hlo_text_string(text, ", result_accuracy=");
            hlo_printer_accuracy(text, accuracy);
        }
    }
}

// %add.3 = f32[8]{0} add(%a, %b), attributes, sharding={..}, origin={..}, metadata={..}, backend_config={..}
void hlo_printer_instruction(HloPrinter *printer, const HloInstruction *instruction, int indent) {
    assert(instruction->shape && instruction->parent);
    HloText *text = printer->text;
    const HloPrintOptions *options = &printer->options;
    const HloInstruction *wrapped = sugar_of(instruction);
    if (!options->canonical_names || printer->in_computation) {
        hlo_printer_name(printer, instruction);
        hlo_text_append(text, " = ", 3);
    }
    if (options->print_result_shape) {
        hlo_printer_shape(printer, instruction->shape);
        hlo_text_char(text, ' ');
    }
    print_opcode(text, instruction, wrapped);
    hlo_text_char(text, '(');
    print_operands(printer, instruction);
    hlo_text_char(text, ')');
    if (options->print_extra_attributes) print_extras(printer, instruction, wrapped, indent);
    if (instruction->origin) print_braced(text, ", origin={", instruction->origin);
    if (options->print_metadata && instruction->metadata) print_metadata(text, instruction->metadata);
    if (options->print_backend_config && instruction->backend_config && *instruction->backend_config) {
        print_backend_config(text, instruction);
    }
}
