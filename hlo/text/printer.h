// SPDX-License-Identifier: Apache-2.0
// The printer's internal interface, one file per topic.
#ifndef MESHLO_HLO_TEXT_PRINTER_H_
#define MESHLO_HLO_TEXT_PRINTER_H_

#include "hlo/base/map.h"
#include "hlo/text/text.h"

// The position where a shape was printed before, to be copied from there.
typedef struct HloPrintedShape {
    const HloShape *shape;
    size_t offset, length;
} HloPrintedShape;
enum { HLO_PRINTED_SHAPES = 1024 };
// The canonical form prints every called computation in full at each call: computations that each call the next one
// twice make 2^depth of them. No program that is meant to be read has more bodies than this.
enum { HLO_MOST_NESTED_BODIES = 1 << 20 };

typedef struct HloPrinter {
    HloText *text;
    HloPrintOptions options;
    HloArena *scratch;
    int32_t *canonical;                         // by instruction id: 1 + number of its tmp_ name; 0 before it has one
    uint8_t *state;                             // by instruction id: 0 unseen, 1 being visited, 2 placed in the order
    HLO_VECTOR(const HloInstruction *) order;   // a stack: the instructions of the computations being printed
    HLO_VECTOR(const HloInstruction *) visits;  // a stack
    int32_t next_canonical;                     // in the computation being printed
    bool in_computation;
    int64_t nested;  // computations that were printed inside of instructions
    HloStatus status;
    HloPrintedShape *shapes;  // HLO_PRINTED_SHAPES of them, by a hash of the pointer
} HloPrinter;

// ---- printer.c

// The name of an instruction, according to the options.
void hlo_printer_name(HloPrinter *printer, const HloInstruction *instruction);
// A shape with or without layout, according to the options.
void hlo_printer_shape(HloPrinter *printer, const HloShape *shape);
// { instructions } of a computation; `indent` in levels.
void hlo_printer_body(HloPrinter *printer, const HloComputation *computation, int indent);
// True if async ops of this computation print as X-start and so on, and it is not printed itself.
bool hlo_printer_is_sugar(const HloComputation *computation);

// ---- printer_instruction.c

// One instruction; `indent` is that of the computations that it prints in full.
void hlo_printer_instruction(HloPrinter *printer, const HloInstruction *instruction, int indent);

// ---- printer_field.c

// ", name=value" for every field of the op's family that is printed.
void hlo_printer_fields(HloPrinter *printer, const HloInstruction *instruction);
// The value of result_accuracy.
void hlo_printer_accuracy(HloText *text, const HloAccuracy *accuracy);
// True if a string reads as a JSON object in braces, which needs no quotes.
bool hlo_printer_is_json(const char *value);
// {0}: (1, {}), ... ; `with_kind`: may-alias or must-alias too.
void hlo_printer_aliases(HloText *text, const HloAliases *aliases, bool with_kind);
// {0,1}
void hlo_printer_index(HloText *text, HloInts index);
// {key="value",key={json}}
void hlo_printer_key_values(HloText *text, HloKeyValues values);
// {true,false}
void hlo_printer_bools(HloText *text, HloBools bools);

// ---- printer_literal.c

#endif
