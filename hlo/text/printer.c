// SPDX-License-Identifier: Apache-2.0
// Prints HLO text: byte for byte the output of XLA with the same options, so that dumps of both can be compared. The
// forms are the long one (everything), the short one for people, the canonical one, in which names are numbers and
// called computations appear inside their callers, and the fingerprint. One printer walks a module; it remembers shapes
// and their text, because most instructions repeat one.
#include "hlo/text/printer.h"

#include <assert.h>
#include <stdlib.h>

#include "hlo/ir/propagation.h"

HloPrintOptions hlo_print_default(void) {
    return (HloPrintOptions){.print_metadata = true,
                             .number_operands = true,
                             .print_backend_config = true,
                             .print_operand_names = true,
                             .print_program_shape = true,
                             .print_percent = true,
                             .print_result_shape = true,
                             .print_control_dependencies = true,
                             .print_extra_attributes = true,
                             .print_ids = true,
                             .include_layout = true};
}

HloPrintOptions hlo_print_short(void) {
    return (HloPrintOptions){.print_large_constants = true,
                             .print_backend_config = true,
                             .print_operand_names = true,
                             .print_result_shape = true,
                             .print_extra_attributes = true,
                             .print_ids = true,
                             .include_layout = true};
}

HloPrintOptions hlo_print_canonical(void) {
    return (HloPrintOptions){.print_operand_shapes = true,
                             .print_result_shape = true,
                             .print_extra_attributes = true,
                             .print_ids = true,
                             .include_layout = true,
                             .canonical_names = true};
}

HloPrintOptions hlo_print_fingerprint(void) {
    HloPrintOptions options = hlo_print_canonical();
    options.print_ids = false;
    options.sort_computations = true;
    options.essential_constants = true;
    return options;
}

// ---------------------------------------------------------------------------------------------------------------------
// Names and shapes

void hlo_printer_name(HloPrinter *printer, const HloInstruction *instruction) {
    assert(instruction->name);
    HloText *text = printer->text;
    if (printer->options.print_percent) hlo_text_char(text, '%');
    if (!printer->options.canonical_names) {
        hlo_text_string(text, instruction->name);
        return;
    }
    int32_t *number = &printer->canonical[instruction->id];
    if (*number == 0) *number = ++printer->next_canonical;
    hlo_text_append(text, "tmp_", 4);
    hlo_text_int64(text, *number - 1);
}

void hlo_printer_shape(HloPrinter *printer, const HloShape *shape) {
    assert(shape);
    HloText *text = printer->text;
    uint64_t hash = hlo_hash_mix(1, (uint64_t)(uintptr_t)shape);
    HloPrintedShape *known = &printer->shapes[hash % HLO_PRINTED_SHAPES];
    if (known->shape == shape) {
        char *end = hlo_text_reserve(text, known->length);
        if (!end) return;
        memcpy(end, text->data + known->offset, known->length);
        text->length += known->length;
        text->data[text->length] = 0;
        return;
    }
    size_t offset = text->length;
    hlo_shape_print(text, shape, printer->options.include_layout);
    *known = (HloPrintedShape){.shape = shape, .offset = offset, .length = text->length - offset};
}

bool hlo_printer_is_sugar(const HloComputation *computation) {
    const HloInstruction *root = computation->root;
    if (computation->callers.count != 1 || computation->callers.items[0]->opcode != HLO_OP_ASYNC_START) return false;
    if (root->operand_count != hlo_parameter_count(computation) ||
        computation->instruction_count != root->operand_count + 1) {
        return false;
    }
    for (int32_t i = 0; i < root->operand_count; i++) {
        if (root->operands[i]->opcode != HLO_OP_PARAMETER || hlo_parameter_number(root->operands[i]) != i) return false;
    }
    return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Order

// True for the bodies of fusions, which have no schedule.
static bool is_fused(const HloComputation *computation) {
    return computation->callers.count > 0 && computation->callers.items[0]->opcode == HLO_OP_FUSION;
}

// Appends the dependencies of `start` and itself, depth first: control predecessors before operands, the first operand
// first.
static void visit(HloPrinter *printer, const HloInstruction *start) {
    assert(start);
    HloArena *scratch = printer->scratch;
    uint8_t *states = printer->state;
    hlo_vector_push(scratch, &printer->visits, start);
    while (printer->visits.count > 0) {
        const HloInstruction *top = printer->visits.items[printer->visits.count - 1];
        uint8_t *state = &states[top->id];
        if (*state == 0) {
            *state = 1;
            for (int32_t i = top->operand_count - 1; i >= 0; i--) {
                if (states[top->operands[i]->id] == 0) hlo_vector_push(scratch, &printer->visits, top->operands[i]);
            }
            for (int64_t i = 0; i < top->control_predecessors.count; i++) {
                const HloInstruction *before = top->control_predecessors.items[i];
                if (states[before->id] == 0) hlo_vector_push(scratch, &printer->visits, before);
            }
            continue;
        }
        printer->visits.count--;
        if (*state == 1) hlo_vector_push(scratch, &printer->order, top);
        *state = 2;
    }
}

// Appends the instructions in the order of printing: the schedule, else depth first from the unused ones. A computation
// that is printed inside an instruction is printed without its schedule.
static void order_instructions(HloPrinter *printer, const HloComputation *computation) {
    bool scheduled = computation->module->is_scheduled && !is_fused(computation) && !printer->in_computation;
    for (const HloInstruction *i = computation->first; i; i = i->next) {
        printer->state[i->id] = 0;
        printer->canonical[i->id] = 0;
    }
    for (const HloInstruction *i = computation->first; i; i = i->next) {
        if (scheduled) {
            hlo_vector_push(printer->scratch, &printer->order, i);
        } else if (i->users.count == 0) {
            visit(printer, i);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Computations

static void print_indent(HloText *text, int indent) {
    for (int i = 0; i < indent; i++) hlo_text_append(text, "  ", 2);
}

static void print_program_shape(HloPrinter *printer, const HloComputation *computation) {
    HloText *text = printer->text;
    hlo_text_char(text, '(');
    for (int64_t i = 0; i < hlo_parameter_count(computation); i++) {
        const HloInstruction *parameter = computation->parameters.items[i];
        if (i > 0) hlo_text_append(text, ", ", 2);
        hlo_text_string(text, parameter->name);
        hlo_text_append(text, ": ", 2);
        hlo_shape_print(text, parameter->shape, false);
    }
    hlo_text_append(text, ") -> ", 5);
    hlo_shape_print(text, computation->root->shape, false);
}

// Braces and instructions. Canonical numbers restart in each computation, and continue after a nested one.
void hlo_printer_body(HloPrinter *printer, const HloComputation *computation, int indent) {
    assert(computation->root && indent >= 0);
    HloText *text = printer->text;
    if (printer->in_computation && printer->nested++ >= HLO_MOST_NESTED_BODIES) {
        if (!printer->status)
            printer->status =
                hlo_error(HLO_RESOURCE_EXHAUSTED, "the canonical form has more than %d called computations",
                          HLO_MOST_NESTED_BODIES);
        return;
    }
    int32_t outer_canonical = printer->next_canonical;
    bool outer = printer->in_computation;
    printer->next_canonical = 0;
    int64_t base = printer->order.count;
    order_instructions(printer, computation);
    int64_t end = printer->order.count;
    printer->in_computation = true;
    // The opening brace is on the line of the name, if there is one.
    if (outer) print_indent(text, indent);
    hlo_text_append(text, "{\n", 2);
    for (int64_t i = base; i < end; i++) {
        const HloInstruction *instruction = printer->order.items[i];
        print_indent(text, indent + 1);
        if (instruction == computation->root) hlo_text_append(text, "ROOT ", 5);
        hlo_printer_instruction(printer, instruction, indent + 1);
        hlo_text_char(text, '\n');
    }
    print_indent(text, indent);
    hlo_text_char(text, '}');
    if (printer->options.print_ids && computation->execution_thread) {
        hlo_text_string(text, ", execution_thread=");
        hlo_quoted_print(text, computation->execution_thread);
    }
    printer->order.count = base;
    printer->next_canonical = outer_canonical;
    printer->in_computation = outer;
}

// The caller has indented the line, before ENTRY if there is one.
static void print_computation(HloPrinter *printer, const HloComputation *computation) {
    HloText *text = printer->text;
    const HloPrintOptions *options = &printer->options;
    if (options->print_ids) {
        if (options->print_percent) hlo_text_char(text, '%');
        hlo_text_string(text, computation->name);
        hlo_text_char(text, ' ');
    }
    if (options->print_program_shape) {
        print_program_shape(printer, computation);
        hlo_text_char(text, ' ');
    }
    hlo_printer_body(printer, computation, options->indent);
}

// ---------------------------------------------------------------------------------------------------------------------
// The header

static void print_entry_layout(HloText *text, const HloModule *module) {
    const HloComputation *entry = module->entry;
    int64_t count = module->entry_parameter_layouts ? module->entry_parameter_layout_count : hlo_parameter_count(entry);
    hlo_text_string(text, ", entry_computation_layout={(");
    for (int64_t i = 0; i < count; i++) {
        if (i > 0) hlo_text_append(text, ", ", 2);
        if (i > 0 && i % 5 == 0) hlo_text_format(text, "/*index=%lld*/", (long long)i);
        hlo_shape_print(
            text,
            module->entry_parameter_layouts ? module->entry_parameter_layouts[i] : entry->parameters.items[i]->shape,
            true);
    }
    hlo_text_append(text, ")->", 3);
    hlo_shape_print(text, module->entry_result_layout ? module->entry_result_layout : entry->root->shape, true);
    hlo_text_char(text, '}');
}

static void print_donors(HloText *text, const HloModule *module) {
    hlo_text_string(text, ", buffer_donor={ ");
    for (int64_t i = 0; i < module->donor_count; i++) {
        if (i > 0) hlo_text_append(text, ", ", 2);
        hlo_text_format(text, "(%lld, ", (long long)module->donors[i].parameter);
        hlo_printer_index(text, module->donors[i].index);
        hlo_text_char(text, ')');
    }
    hlo_text_append(text, " }", 2);
}

static void print_propagation(HloText *text, const char *name, HloBools bools) {
    if (!hlo_propagation_is_stated(bools)) return;
    hlo_text_string(text, name);
    hlo_printer_bools(text, bools);
}

// The long form of a recovery's module, between quotes. XLA does not escape what is inside, so that it cannot read a
// module with a string again; a text without strings is the same here and there.
static void print_recovery_module(HloPrinter *printer, const HloModule *module) {
    enum { RECOVERY_INDENT = 2 };
    HloPrintOptions options = hlo_print_default();
    options.indent = printer->options.indent + RECOVERY_INDENT;
    options.print_large_constants = printer->options.print_large_constants;
    HloText content = {0};
    HloStatus status = hlo_print(module, &options, &content);
    for (size_t i = 0; !status && i < content.length; i++) {
        if (content.data[i] == '"' || content.data[i] == '\\') hlo_text_char(printer->text, '\\');
        hlo_text_char(printer->text, content.data[i]);
    }
    hlo_text_free(&content);
    if (printer->status) {
        hlo_status_free(status);
    } else {
        printer->status = status;
    }
}

// origin_recovery_table={...}, an entry a line:
//
//   {"a"} : {"b"}
//   {"c" {0}} : {"d"},
//   "
//     HloModule ...
//   "
static void print_recoveries(HloPrinter *printer, const HloModule *module) {
    HloText *text = printer->text;
    hlo_text_string(text, ", origin_recovery_table={\n");
    for (int64_t i = 0; i < module->recoveries.count; i++) {
        const HloRecovery *recovery = &module->recoveries.items[i];
        print_indent(text, printer->options.indent + 1);
        hlo_original_array_print(text, &recovery->lost);
        hlo_text_string(text, " : ");
        hlo_original_array_print(text, &recovery->kept);
        if (recovery->module) {
            hlo_text_string(text, ",\n");
            print_indent(text, printer->options.indent + 1);
            hlo_text_string(text, "\"\n");
            print_recovery_module(printer, recovery->module);
            hlo_text_char(text, '\n');
            print_indent(text, printer->options.indent + 1);
            hlo_text_char(text, '"');
        }
        hlo_text_char(text, '\n');
    }
    hlo_text_append(text, "}\n", 2);
}

// HloModule NAME, followed by every property that differs from its default, in XLA's order:
//
//   HloModule m, is_scheduled=true, input_output_alias={ {0}: (1, {}, may-alias) }, entry_computation_layout={..},
//   replica_count=2, num_partitions=4, frontend_attributes={..}
static void print_header(HloPrinter *printer, const HloModule *module) {
    HloText *text = printer->text;
    print_indent(text, printer->options.indent);
    hlo_text_string(text, "HloModule ");
    if (printer->options.print_ids) hlo_text_string(text, module->name);
    if (module->is_scheduled) hlo_text_string(text, ", is_scheduled=true");
    if (module->aliases.count) {
        hlo_text_string(text, ", input_output_alias={ ");
        hlo_printer_aliases(text, &module->aliases, true);
        hlo_text_append(text, " }", 2);
    }
    if (module->donor_count) print_donors(text, module);
    if (module->alias_passthrough.count) hlo_text_string(text, ", alias_passthrough_params=true");
    print_entry_layout(text, module);
    print_propagation(text, ", allow_spmd_sharding_propagation_to_parameters=", module->propagate_to_parameters);
    print_propagation(text, ", allow_spmd_sharding_propagation_to_output=", module->propagate_to_output);
    if (module->replica_count != 1) hlo_text_format(text, ", replica_count=%lld", (long long)module->replica_count);
    if (module->num_partitions != 1) hlo_text_format(text, ", num_partitions=%lld", (long long)module->num_partitions);
    if (module->frontend_attributes.count) {
        hlo_text_string(text, ", frontend_attributes=");
        hlo_printer_key_values(text, module->frontend_attributes);
    }
    if (module->recoveries.count) print_recoveries(printer, module);
    hlo_text_append(text, "\n\n", 2);
}

static void print_strings(HloText *text, const char *heading, const HloStringVector *strings) {
    hlo_text_string(text, heading);
    for (int64_t i = 0; i < strings->count; i++) {
        hlo_text_int64(text, i + 1);
        hlo_text_char(text, ' ');
        hlo_quoted_print(text, strings->items[i]);
        hlo_text_char(text, '\n');
    }
}

static void print_key(HloText *text, const char *key, int64_t value) {
    hlo_text_string(text, key);
    hlo_text_int64(text, value);
}

// The source positions of instructions, as four tables that metadata refers to (stack_frame_id), numbered from 1, each
// after a line with its name:
//
//   FileNames       1 "a.py"
//   FunctionNames   1 "f"
//   FileLocations   1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=9}
//   StackFrames     1 {file_location_id=1 parent_frame_id=1}
//
// A frame's parent is written one higher than it is stored: 1 is none.
static void print_stack_tables(HloText *text, const HloStackTables *stack) {
    print_strings(text, "FileNames\n", &stack->file_names);
    print_strings(text, "\nFunctionNames\n", &stack->function_names);
    hlo_text_string(text, "\nFileLocations\n");
    for (int64_t i = 0; i < stack->locations.count; i++) {
        const HloFileLocation *place = &stack->locations.items[i];
        hlo_text_int64(text, i + 1);
        print_key(text, " {file_name_id=", place->file_name_id);
        print_key(text, " function_name_id=", place->function_name_id);
        print_key(text, " line=", place->line);
        print_key(text, " end_line=", place->end_line);
        print_key(text, " column=", place->column);
        print_key(text, " end_column=", place->end_column);
        hlo_text_append(text, "}\n", 2);
    }
    hlo_text_string(text, "\nStackFrames\n");
    for (int64_t i = 0; i < stack->frames.count; i++) {
        hlo_text_int64(text, i + 1);
        print_key(text, " {file_location_id=", stack->frames.items[i].file_location_id);
        print_key(text, " parent_frame_id=", stack->frames.items[i].parent_frame_id + 1);
        hlo_text_append(text, "}\n", 2);
    }
    hlo_text_append(text, "\n\n", 2);
}

// ---------------------------------------------------------------------------------------------------------------------
// Modules

typedef struct CallWalk {
    const HloComputation **order;
    int64_t count;
    bool *seen;
} CallWalk;

// Post-order: callees first, in the order in which the instructions that call them are printed: it is the same when the
// text has been read. Recursion is bounded by the call depth of the program, which parsers limit. XLA stores the body
// of a loop before its condition, and prints them in that order.
static void visit_calls(HloPrinter *printer, CallWalk *walk, const HloComputation *computation) {
    if (walk->seen[computation->id]) return;
    walk->seen[computation->id] = true;
    const int64_t base = printer->order.count;
    order_instructions(printer, computation);
    for (int64_t k = base; k < printer->order.count; k++) {
        const HloInstruction *i = printer->order.items[k];
        bool backwards = i->opcode == HLO_OP_WHILE;
        for (int32_t j = 0; j < i->called_count; j++)
            visit_calls(printer, walk, i->called[backwards ? i->called_count - 1 - j : j]);
    }
    printer->order.count = base;
    walk->order[walk->count++] = computation;
}

typedef struct SortKey {
    const HloComputation *computation;
    int64_t instructions;
    uint64_t hash;
} SortKey;

// The last word is the id, so that equal computations have an order too.
static int compare_keys(const void *a, const void *b) {
    const SortKey *left = a, *right = b;
    if (left->instructions != right->instructions) return left->instructions < right->instructions ? -1 : 1;
    if (left->hash != right->hash) return left->hash < right->hash ? -1 : 1;
    return left->computation->id - right->computation->id;
}

// Sorts by size, then by printed content: an order that does not depend on the callers. XLA does the same with another
// hash.
static void sort_by_content(HloPrinter *printer, CallWalk *walk) {
    SortKey *keys = HLO_ARENA_NEW(printer->scratch, SortKey, walk->count);
    HloText *text = printer->text;
    size_t start = text->length;
    for (int64_t i = 0; i < walk->count; i++) {
        keys[i] = (SortKey){walk->order[i], walk->order[i]->instruction_count, 0};
        hlo_printer_body(printer, walk->order[i], 0);
        keys[i].hash = hlo_hash_bytes(text->data + start, text->length - start);
        text->length = start;
        // The shapes remembered so far refer to text that no longer exists.
        memset(printer->shapes, 0, HLO_PRINTED_SHAPES * sizeof(*printer->shapes));
    }
    if (walk->count) qsort(keys, (size_t)walk->count, sizeof(*keys), compare_keys);
    for (int64_t i = 0; i < walk->count; i++) walk->order[i] = keys[i].computation;
}

static CallWalk walk_calls(HloPrinter *printer, const HloModule *module) {
    CallWalk walk = {.order = HLO_ARENA_NEW(printer->scratch, const HloComputation *, module->computations.count),
                     .seen = HLO_ARENA_NEW(printer->scratch, bool, module->computation_limit)};
    for (int64_t i = 0; i < module->computations.count; i++) {
        const HloComputation *computation = module->computations.items[i];
        if (computation->callers.count == 0) visit_calls(printer, &walk, computation);
    }
    return walk;
}

// Callees come before their callers, as the parser requires; computations that only an async op's sugar contains are
// omitted.
static void print_module(HloPrinter *printer, const HloModule *module) {
    assert(module->entry);
    CallWalk walk = walk_calls(printer, module);
    if (printer->options.sort_computations) sort_by_content(printer, &walk);
    print_header(printer, module);
    if (printer->options.print_metadata && module->stack.frames.count)
        print_stack_tables(printer->text, &module->stack);
    for (int64_t i = 0; i < walk.count; i++) {
        const HloComputation *computation = walk.order[i];
        if (hlo_printer_is_sugar(computation)) continue;
        print_indent(printer->text, printer->options.indent);
        if (computation == module->entry) hlo_text_append(printer->text, "ENTRY ", 6);
        print_computation(printer, computation);
        hlo_text_append(printer->text, "\n\n", 2);
    }
}

typedef struct Job {
    HloPrinter printer;
    const HloModule *module;
    const HloComputation *computation;
    const HloInstruction *instruction;
} Job;

// Tables by instruction id, since ids are dense.
static void make_tables(HloPrinter *printer, const HloModule *module) {
    printer->canonical = HLO_ARENA_NEW(printer->scratch, int32_t, module->instruction_limit);
    printer->shapes = HLO_ARENA_NEW(printer->scratch, HloPrintedShape, HLO_PRINTED_SHAPES);
    printer->state = HLO_ARENA_NEW(printer->scratch, uint8_t, module->instruction_limit);
}

static HloStatus run_job(void *argument) {
    Job *job = argument;
    HloPrinter *printer = &job->printer;
    make_tables(printer, job->module);
    if (job->instruction) {
        hlo_printer_instruction(printer, job->instruction, printer->options.indent);
    } else if (job->computation) {
        print_indent(printer->text, printer->options.indent);
        print_computation(printer, job->computation);
    } else {
        print_module(printer, job->module);
    }
    return printer->status ? printer->status : hlo_text_status(printer->text);
}

static HloStatus run(Job *job, const HloPrintOptions *options, HloText *text) {
    assert(text);
    job->printer.text = text;
    job->printer.options = options ? *options : hlo_print_default();
    job->printer.scratch = hlo_arena_new();
    if (!job->printer.scratch) return hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloStatus status = hlo_protect(run_job, job);
    // When memory ran out after an error was already recorded, that error is dropped.
    if (job->printer.status && job->printer.status != status) hlo_status_free(job->printer.status);
    hlo_arena_free(job->printer.scratch);
    return status;
}

HloStatus hlo_print(const HloModule *module, const HloPrintOptions *options, HloText *text) {
    Job job = {.module = module};
    return run(&job, options, text);
}

HloStatus hlo_print_computation(const HloComputation *computation, const HloPrintOptions *options, HloText *text) {
    Job job = {.module = computation->module, .computation = computation};
    return run(&job, options, text);
}

HloStatus hlo_print_instruction(const HloInstruction *instruction, const HloPrintOptions *options, HloText *text) {
    Job job = {.module = instruction->parent->module, .instruction = instruction};
    return run(&job, options, text);
}

// The order of printing is one of dependencies, so that instructions can be relinked as they are.
static void relink_as_printed(HloPrinter *printer, HloComputation *computation) {
    printer->order.count = 0;
    order_instructions(printer, computation);
    HloInstruction *before = NULL;
    for (int64_t i = 0; i < printer->order.count; i++) {
        HloInstruction *at = (HloInstruction *)(intptr_t)printer->order.items[i];
        at->previous = before;
        if (before) before->next = at;
        before = at;
    }
    if (before) before->next = NULL;
    computation->first = printer->order.count ? (HloInstruction *)(intptr_t)printer->order.items[0] : NULL;
    computation->last = before;
}

void hlo_order_as_printed(HloModule *module) {
    HloPrinter printer = {.scratch = hlo_arena_scratch_new(), .options = hlo_print_default()};
    make_tables(&printer, module);
    for (int64_t i = 0; i < module->computations.count; i++) relink_as_printed(&printer, module->computations.items[i]);
    const CallWalk walk = walk_calls(&printer, module);
    HLO_BUG_IF(walk.count != module->computations.count);  // calls have no cycles
    for (int64_t i = 0; i < walk.count; i++) module->computations.items[i] = (HloComputation *)(intptr_t)walk.order[i];
    hlo_arena_free(printer.scratch);
}
