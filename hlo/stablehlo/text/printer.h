// SPDX-License-Identifier: Apache-2.0
// The printer of MLIR text: the pretty form, byte for byte as MLIR prints it with debug information. Private to
// hlo/stablehlo.
#ifndef MESHLO_HLO_STABLEHLO_TEXT_PRINTER_H_
#define MESHLO_HLO_STABLEHLO_TEXT_PRINTER_H_

#include "hlo/stablehlo/mlir/dialect.h"

// A distinct location, shared by all equal ones.
typedef struct PrintLocation {
    const MlirAttribute *attribute;
    struct PrintLocation *children[2];  // of a name the one it names (NULL if unknown); of a call site callee, caller
    int child_count;
    int64_t id;  // by first occurrence
    int depth;   // 1 for those without children
    bool visited;
    bool is_early;   // defined before the module, because a block argument uses it
    int64_t number;  // of its alias
} PrintLocation;

typedef struct Printer {
    HloArena *arena;
    HloText *text;
    HloStringMap locations;  // key -> PrintLocation
    HloIntMap location_of;   // attribute's address -> PrintLocation's
    HLO_VECTOR(PrintLocation *) visited;
    HloIntMap names;  // value's address -> address of its name
    bool with_locations;
    bool is_generic;      // no operation in its pretty form
    const char *dialect;  // of the operation whose attributes are printed: "stablehlo", or "chlo"
    int indent;
} Printer;

// Types and attributes.
void print_type(Printer *printer, const MlirType *type);
// The same, with its type where MLIR prints one: 1 : i32, dense<...> : tensor<2xi32>.
void print_attribute(Printer *printer, const MlirAttribute *attribute);
// "..." with unprintable characters as \XX.
void print_string(Printer *printer, const char *string);
// The same for a string of `length` bytes, which may include NULs.
void print_bytes(Printer *printer, const char *bytes, int64_t length);
// name, or "name" if it is not a plain word.
void print_word(Printer *printer, const char *word);
// [1, 2]
void print_int_list(Printer *printer, HloInts ints);
// [b, 0, f]x[0, i, o]->[b, 0, f] of the operation's attributes.
void print_convolution_dimensions(Printer *printer, const MlirOperation *operation);
// A structured attribute that is flat in the operation: <offset_dims = [0], ...>.
void print_fields(Printer *printer, const MlirOperation *operation, const char *kind, size_t length);
// {name = value, ...} of the attributes that the pretty form does not print; nothing if there are none. In the generic
// form: only those that the op's row has, or only those that it does not have.
typedef enum PrintWhich { PRINT_NOT_SAID, PRINT_OWN, PRINT_OTHER } PrintWhich;
// Prints it between `before` and `after`; false, and nothing printed, when there are none.
bool print_dictionary(Printer *printer, const MlirOperation *operation, PrintWhich which, const char *before,
                      const char *after);

// Names all values below an operation, as MLIR numbers them.
void print_assign_names(Printer *printer, const MlirOperation *top);
// %name of a value; with #index for one of several results of an unnamed group.
void print_value(Printer *printer, const MlirValue *value);
// The names that an op specifies for its results, separated by blanks; NULL if it specifies none.
const char *print_result_names(const MlirOperation *operation);

// Finds all locations and numbers their aliases.
void print_collect_locations(Printer *printer, const MlirOperation *top);
// ` loc(#loc1)`, if locations are printed.
void print_location(Printer *printer, const MlirAttribute *location);
// ` loc("x")`: of a block argument, written out.
void print_argument_location(Printer *printer, const MlirAttribute *location);
// The aliases before the module, or those after it.
void print_aliases(Printer *printer, bool early);

// True if the reduction is printed with `applies`.
bool print_is_short_reduction(const MlirOperation *operation);
// An operation at the current indentation, followed by a newline.
void print_operation(Printer *printer, const MlirOperation *operation, bool in_function);

// Appends the text of a module; in the generic form every operation is "name"(operands) <{attributes}> : type.
void mlir_print(HloArena *arena, const MlirOperation *top, bool with_locations, bool is_generic, HloText *text);

#endif
