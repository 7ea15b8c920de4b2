// SPDX-License-Identifier: Apache-2.0
// The names of values, as MLIR assigns them: numbers for results, arg0, arg1 ... for block arguments, and words that
// some ops specify. A region sees the names around it, and continues counting from the end of the block around it.
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "hlo/stablehlo/text/printer.h"

// The names in use, and the counters, at the beginning of a region.
typedef struct Scope {
    const struct Scope *parent;
    HloStringMap taken;
    int64_t next_value, next_argument, next_conflict;
} Scope;

const char *print_result_names(const MlirOperation *operation) {
    static const struct {
        const char *op, *names;
    } table[] = {{"stablehlo.batch_norm_training", "output batch_mean batch_var"},
                 {"stablehlo.batch_norm_grad", "grad_operand grad_scale grad_offset"},
                 {"stablehlo.rng_bit_generator", "output_state output"},
                 {"chlo.top_k", "values indices"}};
    if (strcmp(operation->name, "stablehlo.constant") == 0) {
        HloType type = operation->results[0]->type->shape->type;
        return hlo_type_is_integer(type) || type == HLO_PRED ? "c" : "cst";
    }
    for (size_t i = 0; i < HLO_COUNT_OF(table); i++) {
        if (strcmp(table[i].op, operation->name) == 0) return table[i].names;
    }
    return NULL;
}

// True if the name is used in this region or any around it.
static bool is_taken(const Scope *scope, const char *name, size_t length) {
    for (; scope; scope = scope->parent) {
        if (hlo_string_map_get(&scope->taken, name, length)) return true;
    }
    return false;
}

// A name in use gets the suffix _0, _1 and so on, from one counter for the region.
static void set_name(Printer *printer, Scope *scope, const MlirValue *value, const char *wanted, size_t length) {
    assert(value && wanted);
    const char *name = hlo_arena_string(printer->arena, wanted, length);
    while (is_taken(scope, name, strlen(name))) {
        name = hlo_arena_format(printer->arena, "%.*s_%lld", (int)length, wanted, (long long)scope->next_conflict++);
    }
    hlo_string_map_set(printer->arena, &scope->taken, name, strlen(name), (void *)(uintptr_t)name);
    hlo_int_map_set(printer->arena, &printer->names, (uintptr_t)value, (int64_t)(uintptr_t)name);
}

// Several results share a number: %3#0, %3#1. Operations with words for their results have a name for each.
static void name_results(Printer *printer, Scope *scope, const MlirOperation *operation) {
    if (operation->result_count == 0) return;
    const char *names = print_result_names(operation);
    if (!names) {
        HloText digits = {0};
        hlo_text_int64(&digits, scope->next_value++);
        const char *number = hlo_text_to_arena(printer->arena, &digits);
        for (int64_t i = 0; i < operation->result_count; i++) {
            const char *name = number;
            if (operation->result_count > 1) name = hlo_arena_format(printer->arena, "%s#%lld", number, (long long)i);
            hlo_int_map_set(printer->arena, &printer->names, (uintptr_t)operation->results[i],
                            (int64_t)(uintptr_t)name);
        }
        return;
    }
    for (int64_t i = 0; i < operation->result_count; i++) {
        size_t length = strcspn(names, " ");
        set_name(printer, scope, operation->results[i], names, length);
        names += length + (names[length] == ' ');
    }
}

// Results of all operations are named before any region inside: MLIR numbers a block before it descends.
static void name_region(Printer *printer, const Scope *around, const MlirOperation *parent, const MlirRegion *region) {
    // The counters are those at the end of the enclosing block; each region of an op starts from them.
    Scope scope = {.parent = around,
                   .next_value = around ? around->next_value : 0,
                   .next_argument = around ? around->next_argument : 0,
                   .next_conflict = around ? around->next_conflict : 0};
    if (region->block_count == 0) return;
    const MlirBlock *block = &region->blocks[0];
    bool is_loop = strcmp(parent->name, "stablehlo.while") == 0;
    for (int64_t i = 0; i < block->argument_count; i++) {
        char name[32] = "iterArg";
        if (!is_loop) snprintf(name, sizeof(name), "arg%lld", (long long)scope.next_argument++);
        set_name(printer, &scope, block->arguments[i], name, strlen(name));
    }
    for (int64_t i = 0; i < block->operation_count; i++) name_results(printer, &scope, block->operations[i]);
    for (int64_t i = 0; i < block->operation_count; i++) {
        const MlirOperation *operation = block->operations[i];
        for (int64_t r = 0; r < operation->region_count; r++) {
            name_region(printer, &scope, operation, &operation->regions[r]);
        }
    }
}

void print_assign_names(Printer *printer, const MlirOperation *top) {
    for (int64_t r = 0; r < top->region_count; r++) name_region(printer, NULL, top, &top->regions[r]);
}

void print_value(Printer *printer, const MlirValue *value) {
    const int64_t *name = hlo_int_map_find(&printer->names, (uintptr_t)value);
    HLO_BUG_IF(!name);
    hlo_text_char(printer->text, '%');
    hlo_text_string(printer->text, (const char *)(uintptr_t)*name);
}
