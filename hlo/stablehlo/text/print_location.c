// SPDX-License-Identifier: Apache-2.0
// Prints locations and their aliases. Each distinct location gets an alias; those with fewer parts are numbered first,
// and those that a block argument needs are defined before the module, all others after it.
//
//   #loc1 = loc("model.py":12:3)          depth 1: no parts
//   #loc5 = loc("jit(f)/dot"(#loc1))      depth 2: a name around a position
//   #loc7 = loc(callsite(#loc1 at #loc2))
//
// This order, odd as it is, is AsmPrinter's (mlir/lib/IR/AsmPrinter.cpp), so that the text equals that of MLIR's own
// tools. Locations are made unique by a key of their text and their parts' numbers: a module of a million operations
// has some thousand distinct ones.
#include <stdlib.h>
#include <string.h>

#include "hlo/stablehlo/text/printer.h"

// NULL for a child without information.
static const MlirAttribute *child_of(const MlirAttribute *location, int64_t index) {
    const MlirAttribute *child = location->items[index];
    // A name around an unknown location is just a name.
    bool unknown = location->string && !child->string && child->count == 0;
    return unknown ? NULL : child;
}

// Printing through printf() took half of the time of a text with locations.
static void add_number(HloText *key, char before, int64_t number) {
    hlo_text_char(key, before);
    hlo_text_int64(key, number);
}

static PrintLocation *intern(Printer *printer, const MlirAttribute *location);

// The record of a location whose callers have theirs. A location without parts has depth 1, any other one more than its
// deepest part.
static void intern_one(Printer *printer, const MlirAttribute *location) {
    PrintLocation record = {.attribute = location, .depth = 1};
    HloText key = {0};
    if (location->string) hlo_text_string(&key, location->string);
    add_number(&key, '\n', location->integer);
    add_number(&key, ' ', location->ints.count ? location->ints.items[0] : 0);
    for (int64_t i = 0; i < location->count && i < 2; i++) {
        const MlirAttribute *child = child_of(location, i);
        if (!child) continue;
        PrintLocation *part = intern(printer, child);
        record.children[record.child_count++] = part;
        if (part->depth >= record.depth) record.depth = part->depth + 1;
        add_number(&key, ' ', part->id);
    }
    add_number(&key, ' ', location->count);
    const size_t length = key.length;
    const char *kept = hlo_text_to_arena(printer->arena, &key);
    PrintLocation *shared = hlo_string_map_get(&printer->locations, kept, length);
    if (!shared) {
        record.id = printer->locations.count;
        shared = hlo_arena_copy(printer->arena, &record, sizeof(record));
        hlo_string_map_set(printer->arena, &printer->locations, kept, length, shared);
    }
    hlo_int_map_set(printer->arena, &printer->location_of, (uintptr_t)location, (int64_t)(uintptr_t)shared);
}

// The record of a location, shared by equal ones. Callers come first, so that a call stack of any depth needs no
// recursion.
static PrintLocation *intern(Printer *printer, const MlirAttribute *location) {
    HLO_VECTOR(const MlirAttribute *) path = {0};
    for (const MlirAttribute *at = location; !hlo_int_map_find(&printer->location_of, (uintptr_t)at);) {
        hlo_vector_push(printer->arena, &path, at);
        if (at->string || at->count != 2) break;
        at = at->items[1];
    }
    while (path.count > 0) intern_one(printer, path.items[--path.count]);
    return (PrintLocation *)(uintptr_t)*hlo_int_map_find(&printer->location_of, (uintptr_t)location);
}

// The locations in an early alias have to be defined before it, too.
static void mark_early(PrintLocation *location) {
    while (location && !location->is_early) {
        location->is_early = true;
        const int last = location->child_count - 1;
        for (int i = 0; i < last; i++) mark_early(location->children[i]);
        location = last >= 0 ? location->children[last] : NULL;
    }
}

// Lists locations in order of first occurrence, each once.
static void visit(Printer *printer, PrintLocation *location) {
    while (location && !location->visited) {
        location->visited = true;
        location->number = printer->visited.count;
        hlo_vector_push(printer->arena, &printer->visited, location);
        const int last = location->child_count - 1;
        for (int i = 0; i < last; i++) visit(printer, location->children[i]);
        location = last >= 0 ? location->children[last] : NULL;
    }
}

static void visit_argument(Printer *printer, const MlirValue *argument) {
    PrintLocation *location = intern(printer, argument->location);
    visit(printer, location);
    mark_early(location);
}

static void visit_operation(Printer *printer, const MlirOperation *operation);

// The order in which AsmPrinter visits locations: arguments before operations.
static void visit_region(Printer *printer, const MlirOperation *parent, const MlirRegion *region) {
    if (region->block_count == 0) return;
    const MlirBlock *block = &region->blocks[0];
    // The generic form has all arguments, in their order.
    bool is_reduction = !printer->is_generic && strcmp(parent->name, "stablehlo.reduce") == 0;
    bool is_loop = !printer->is_generic && strcmp(parent->name, "stablehlo.while") == 0;
    int64_t half = block->argument_count / 2;
    for (int64_t i = 0; i < block->argument_count && !is_loop; i++) {
        // Reductions print the value and the accumulator of each pair side by side.
        visit_argument(printer, block->arguments[is_reduction ? i / 2 + i % 2 * half : i]);
    }
    for (int64_t i = 0; i < block->operation_count; i++) visit_operation(printer, block->operations[i]);
}

static void visit_operation(Printer *printer, const MlirOperation *operation) {
    visit(printer, intern(printer, operation->location));
    if (!printer->is_generic && print_is_short_reduction(operation)) return;
    for (int64_t r = 0; r < operation->region_count; r++) visit_region(printer, operation, &operation->regions[r]);
}

// By depth, and within one depth by first occurrence, which is the number so far.
static int compare_depths(const void *a, const void *b) {
    const PrintLocation *x = *(PrintLocation *const *)a, *y = *(PrintLocation *const *)b;
    if (x->depth != y->depth) return x->depth < y->depth ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

void print_collect_locations(Printer *printer, const MlirOperation *top) {
    if (!printer->with_locations) return;
    visit_operation(printer, top);
    PrintLocation **items = printer->visited.items;
    if (printer->visited.count) qsort(items, (size_t)printer->visited.count, sizeof(*items), compare_depths);
    for (int64_t i = 0; i < printer->visited.count; i++) items[i]->number = i;
}

// The first is #loc, without its number 0.
static void print_alias_name(Printer *printer, const PrintLocation *location) {
    hlo_text_string(printer->text, "#loc");
    if (location->number) hlo_text_int64(printer->text, location->number);
}

// The part between the parentheses.
static void print_content(Printer *printer, const PrintLocation *location) {
    const MlirAttribute *attribute = location->attribute;
    bool is_file = attribute->string && attribute->count == 0;
    if (is_file) {
        print_string(printer, attribute->string);
        int64_t column = attribute->ints.count ? attribute->ints.items[0] : 0;
        add_number(printer->text, ':', attribute->integer);
        add_number(printer->text, ':', column);
    } else if (attribute->string) {
        print_string(printer, attribute->string);
        if (location->child_count == 0) return;
        hlo_text_char(printer->text, '(');
        print_alias_name(printer, location->children[0]);
        hlo_text_char(printer->text, ')');
    } else if (location->child_count == 2) {
        hlo_text_string(printer->text, "callsite(");
        print_alias_name(printer, location->children[0]);
        hlo_text_string(printer->text, " at ");
        print_alias_name(printer, location->children[1]);
        hlo_text_char(printer->text, ')');
    } else {
        hlo_text_string(printer->text, "unknown");
    }
}

void print_location(Printer *printer, const MlirAttribute *location) {
    if (!printer->with_locations) return;
    hlo_text_string(printer->text, " loc(");
    print_alias_name(printer, intern(printer, location));
    hlo_text_char(printer->text, ')');
}

void print_argument_location(Printer *printer, const MlirAttribute *location) {
    if (!printer->with_locations) return;
    hlo_text_string(printer->text, " loc(");
    print_content(printer, intern(printer, location));
    hlo_text_char(printer->text, ')');
}

void print_aliases(Printer *printer, bool early) {
    if (!printer->with_locations) return;
    for (int64_t i = 0; i < printer->visited.count; i++) {
        const PrintLocation *location = printer->visited.items[i];
        if (location->is_early != early) continue;
        print_alias_name(printer, location);
        hlo_text_string(printer->text, " = loc(");
        print_content(printer, location);
        hlo_text_string(printer->text, ")\n");
    }
}
