// SPDX-License-Identifier: Apache-2.0
// The parser of MLIR text. It reads directly from a NUL-terminated copy of the text, without tokens; after the first
// error every call does nothing and returns failure. Private to hlo/stablehlo. How the parser is divided: lexer.c has
// words, marks, numbers and strings; parse_type.c, parse_attribute.c, parse_elements.c, parse_sdy.c and
// parse_location.c have the parts of an operation; parse_operation.c has values, operations in quotes and regions;
// parse_pretty.c reads the forms that mlir/dialect.def describes and parse_own.c those that it cannot; parse_file.c
// reads a whole file. The result is the in-memory module of mlir/mlir.h, the same that bytecode/reader.c makes.
//
// The grammar is MLIR's (mlir.llvm.org/docs/LangRef) with the assembly formats of StableHLO, CHLO and Shardy (their .td
// files and AssemblyFormat.cpp). There is no token stage because most of a program is types and numbers that are read
// once: `at` only ever moves forward, except into an alias and back.
//
// The rule for errors: `status` has the first one, and asm_peek() returns NUL from then on, so that every loop over a
// list ends and every function returns false or NULL. Incomplete objects are not freed; all of them are in the arena.
#ifndef MESHLO_HLO_STABLEHLO_TEXT_PARSER_H_
#define MESHLO_HLO_STABLEHLO_TEXT_PARSER_H_

#include <string.h>

#include "hlo/stablehlo/mlir/dialect.h"

// The maximal depth of nested regions, attributes, types and locations. A frame of the recursive descent takes some
// hundred bytes, so this depth fits any thread's stack; programs that people or JAX write stay below twenty. The same
// figure bounds the stack of asm_skip_balanced().
enum { ASM_DEEPEST = 200 };

// A run of characters of the text.
typedef struct AsmSlice {
    const char *text;
    size_t length;
} AsmSlice;

// A whole text, for messages.
typedef struct AsmText {
    const char *file;  // its name, or NULL
    const char *begin, *end;
} AsmText;

// A value name: `count` values that are called %name#0 and so on, in one isolated region only. Names are never removed:
// leaving a region only restores their meanings outside. A name whose `scope` is not that of the parser belongs to
// another isolated region, and counts as free.
typedef struct AsmName {
    MlirValue **values;
    int64_t count;
    int64_t scope;  // number of the isolated region
} AsmName;

// The meaning of a name before a region rebound it. Kept on one stack for all open regions: each region remembers the
// stack's height at its beginning.
typedef struct AsmUndo {
    AsmName *name, before;
} AsmUndo;

// `#name = attribute` or `!name = type`, parsed at its first use.
typedef struct AsmAlias {
    const char *at;  // after the equals sign
    const void *parsed;
    bool is_busy;
} AsmAlias;

typedef struct AsmParser {
    HloArena *arena;
    const char *file;  // name for messages, or NULL
    const char *begin, *end, *at;
    HloStatus status;
    int depth;
    int64_t string_length;           // of the last string that was read, NULs inside included
    HloStringMap ops;                // name -> MlirOpInfo
    HloStringMap types;              // text between tensor< and > -> MlirType
    HloStringMap aliases;            // with their # or ! -> AsmAlias
    HloStringMap resources;          // key -> AsmSlice: the hex digits after 0x
    HloStringMap functions;          // pointers of its inputs' types, NULL, those of its results -> MlirType
    HloStringMap names;              // value names, without % -> AsmName
    HLO_VECTOR(AsmName *) numbered;  // the same for names that are numbers, as nearly all are: by number, or NULL
    bool needs_marks;                // mlir_mark() has something to do: a cast, or a type that is open
    int64_t scope, scope_count;      // the innermost isolated region that is open; how many there were
    HLO_VECTOR(AsmUndo) undo;
    const MlirAttribute *unknown_location;
    bool in_module;  // the operation at the top that is being read is builtin.module
} AsmParser;

// The attributes of an op while it is parsed.
typedef struct AsmAttributes {
    HLO_VECTOR(const char *) names;
    HLO_VECTOR(const MlirAttribute *) values;
} AsmAttributes;

typedef HLO_VECTOR(MlirValue *) AsmValues;
typedef HLO_VECTOR(const MlirType *) AsmTypes;

// Operand names, looked up when their types are known. The position is kept because a mismatch is only found after the
// colon, and the message has to point to the operand.
typedef struct AsmOperand {
    const char *at;
    MlirValue *value;
} AsmOperand;
typedef HLO_VECTOR(AsmOperand) AsmOperands;

// ---------------------------------------------------------------------------------------------------------------------
// Words and marks

// An error at the position `where` of a text; `arena` is for scratch.
HLO_NODISCARD HloStatus asm_error_at(const AsmText *text, HloArena *arena, const char *where, HloCode code,
                                     const char *message);
// Records an error at `where`, unless there is one. Always false.
bool asm_fail_at(AsmParser *parser, const char *where, const char *format, ...) HLO_PRINTF(3, 4);
// Records "expected WHAT" at the current position.
bool asm_expected(AsmParser *parser, const char *what);
// Takes over an error of another module, adding the position; false if there was one.
bool asm_take(AsmParser *parser, const char *where, HloStatus status);
// Skips blanks and // comments.
void asm_skip_slow(AsmParser *parser);
// Every mark that needs the slow function is below ' ' or is the slash of a comment; all else costs two comparisons.
static inline void asm_skip(AsmParser *parser) {
    while (*parser->at == ' ') parser->at++;
    if (*parser->at <= ' ' || *parser->at == '/') asm_skip_slow(parser);
}
// The next character that is not blank; NUL at the end, and after an error.
static inline char asm_peek(AsmParser *parser) {
    if (parser->status) return 0;
    asm_skip(parser);
    return *parser->at;
}
// Takes the character if it comes next.
static inline bool asm_eat(AsmParser *parser, char mark) {
    if (asm_peek(parser) != mark) return false;
    parser->at++;
    return true;
}
// Takes the character, or fails.
bool asm_expect(AsmParser *parser, char mark);
// Takes `->`, `::` and the like if they come next.
bool asm_eat_mark(AsmParser *parser, const char *mark);
// [A-Za-z_][A-Za-z0-9_$.]*; length 0 when there is none.
AsmSlice asm_word(AsmParser *parser);
// Takes this word if it comes next.
bool asm_eat_word(AsmParser *parser, const char *word);
// Takes this word, or fails.
bool asm_expect_word(AsmParser *parser, const char *word);
// True if the slice has exactly this text.
bool asm_slice_is(AsmSlice slice, const char *text);
// "..." with its escapes resolved. A NUL inside ends the string for its readers.
bool asm_string(AsmParser *parser, const char **string);
// @name or @"name".
bool asm_symbol(AsmParser *parser, const char **name);
// An integer as written, decimal or hexadecimal: its value depends on a type that comes later.
typedef struct AsmNumber {
    const char *start;  // of its digits
    uint64_t magnitude;
    bool negative, is_hex;
} AsmNumber;
// An integer of up to 64 bits and a sign.
bool asm_number(AsmParser *parser, AsmNumber *number);
// The value of the number in an integer type or as a boolean; fails at the number when it is out of range.
bool asm_number_of_type(AsmParser *parser, const AsmNumber *number, HloType type, int64_t *value);
// The bits of a float whose pattern is the number, which must be hexadecimal and no wider than the type.
bool asm_number_of_bits(AsmParser *parser, const AsmNumber *number, HloType type, uint64_t *pattern);
// An integer from -2^63 to 2^63 - 1, decimal or hexadecimal.
bool asm_integer(AsmParser *parser, int64_t *value);
// A decimal number.
bool asm_double(AsmParser *parser, double *value);
// The number that a decimal means in a float type: itself, except that MLIR reads zero as the least value of f8E8M0FNU,
// which has no zero (conversions make it NaN).
double asm_double_of_type(HloType type, double value);
// True or false.
bool asm_bool(AsmParser *parser, bool *value);
// [1, 2]; ? gives HLO_UNBOUNDED.
bool asm_int_list(AsmParser *parser, char open, char close, HloInts *ints);
// Skips the byte-order mark with which a text may begin.
const char *asm_skip_byte_order_mark(const char *text, size_t length);
// After one of ( [ { <: moves past the mark that closes it. Marks in strings do not count.
bool asm_skip_balanced(AsmParser *parser, char open);
// Counts a level of nesting; false (and an error) when it is too deep. Every success needs an asm_leave().
bool asm_enter(AsmParser *parser);
// Not called after an error: nothing more is read then, so the depth does not matter.
static inline void asm_leave(AsmParser *parser) {
    parser->depth--;
}

// ---------------------------------------------------------------------------------------------------------------------
// Types, attributes, locations: NULL after an error

// Any type; one that HLO cannot express becomes MLIR_TYPE_OTHER.
const MlirType *asm_type(AsmParser *parser);
// True if a type may begin here.
bool asm_at_type(AsmParser *parser);
// (t, t) -> t or (t) -> (t, t).
const MlirType *asm_function_type(AsmParser *parser);
// One or more types with commas between.
bool asm_type_list(AsmParser *parser, AsmTypes *types);
// Types in parentheses, or one type without them.
bool asm_result_types(AsmParser *parser, AsmTypes *types);

// Any attribute, including the type after its colon.
const MlirAttribute *asm_attribute(AsmParser *parser);
// {name = attribute, unit_attribute}: appended to `attributes`, with structured ones split into their fields.
bool asm_dictionary(AsmParser *parser, AsmAttributes *attributes);
// Appends one attribute; a structured one is split into its fields.
void asm_add(AsmParser *parser, AsmAttributes *attributes, const char *name, const MlirAttribute *attribute);
// The body of a structured attribute, starting at its `<`.
const MlirAttribute *asm_struct(AsmParser *parser, AsmSlice kind);
// [b, 0, f]x[0, i, o]->[b, 0, f]
const MlirAttribute *asm_convolution_dimensions(AsmParser *parser);
// The part after `dense`: <...> : type.
const MlirAttribute *asm_dense(AsmParser *parser);
// The part after `dense_resource`.
const MlirAttribute *asm_dense_resource(AsmParser *parser);
// The part after `#sdy.`: the name has been read, the body is read from `<` on.
const MlirAttribute *asm_sdy_attribute(AsmParser *parser, AsmSlice name);
// StableHLO's attributes for replica groups by mesh axes: replica_group_mesh_axes, axis_ref, mesh_axis and mesh, after
// the name. NULL with *known false for others.
const MlirAttribute *asm_mesh_attribute(AsmParser *parser, AsmSlice name, bool *known);
// <@mesh, [{"a"}, {}]>
const MlirAttribute *asm_sdy_sharding(AsmParser *parser);
// [<@mesh, [..]>, ...]
const MlirAttribute *asm_sdy_sharding_list(AsmParser *parser);
// {"a", "b"}
const MlirAttribute *asm_sdy_axes(AsmParser *parser);
// <["a"=2], device_ids=[..]>
const MlirAttribute *asm_sdy_mesh(AsmParser *parser);
// #name or !name, resolved. The parser is after the name.
const void *asm_alias(AsmParser *parser, AsmSlice name, bool is_type);
// loc(...), the word included.
const MlirAttribute *asm_location(AsmParser *parser);
// The same if it comes next, else the unknown location.
const MlirAttribute *asm_optional_location(AsmParser *parser);

// Makes attributes.
static inline const MlirAttribute *asm_make(AsmParser *parser, MlirAttribute attribute) {
    return mlir_new_attribute(parser->arena, attribute);
}

// ---------------------------------------------------------------------------------------------------------------------
// Values, operations, regions

// %name or %name#1; with the value looked up.
bool asm_operand(AsmParser *parser, AsmOperands *operands);
// Operands with commas between, up to something else; there may be none.
bool asm_operand_list(AsmParser *parser, AsmOperands *operands);
// Sets the operation's operands, whose types must be these.
bool asm_set_operands(AsmParser *parser, MlirOperation *operation, const AsmOperands *operands,
                      const MlirType *const *types, int64_t type_count);
// Gives the operation results of these types.
void asm_set_results(AsmParser *parser, MlirOperation *operation, const MlirType *const *types, int64_t count);
// `%name: type [loc(...)]` of a block argument.
bool asm_argument(AsmParser *parser, AsmValues *arguments, AsmSlice *name);
// A region in braces. `names` are those of the arguments of its first block, if they were given outside.
bool asm_region(AsmParser *parser, MlirRegion *region, const AsmValues *arguments, const AsmSlice *names,
                bool isolated);
// Appends `count` zeroed regions.
void asm_new_regions(AsmParser *parser, MlirOperation *operation, int64_t count);
// A new operation.
MlirOperation *asm_new_operation(AsmParser *parser, const char *name);

// Reads one operation; the caller appends it to a block.
MlirOperation *asm_operation(AsmParser *parser);
// The part after the name in the pretty form of a row of the table; `attributes` is filled too.
bool asm_pretty(AsmParser *parser, MlirOperation *operation, const MlirOpInfo *info, AsmAttributes *attributes);
// The same for rows with type OWN. False with an error when the op has no pretty form.
bool asm_own(AsmParser *parser, MlirOperation *operation, AsmAttributes *attributes);

// Reads a whole file: the module, or the functions that form one.
HLO_NODISCARD HloStatus mlir_read_text(HloArena *arena, const char *file, const char *text, size_t length,
                                       MlirOperation **top);

// Reads a text that consists of one attribute.
HLO_NODISCARD HloStatus mlir_parse_attribute(HloArena *arena, const char *text, size_t length,
                                             const MlirAttribute **attribute);

#endif
