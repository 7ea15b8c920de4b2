// SPDX-License-Identifier: Apache-2.0
// HLO text as XLA prints and parses it, byte for byte. hlo_parse() makes a module from text, hlo_print() writes it back
// in the long, short or canonical form. Parsing checks syntax and attributes, with a position and a caret for every
// error; the verifier checks that shapes agree (hlo/verify/verify.h), as in XLA.
//
// Stability: stable.
#ifndef MESHLO_HLO_TEXT_TEXT_H_
#define MESHLO_HLO_TEXT_TEXT_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

// The treatment of constants whose values the text omits, `constant({...})`.
typedef enum HloElidedLiterals {
    HLO_ELIDED_KEEP,  // marked as elided: they print as {...} and cannot be evaluated
    HLO_ELIDED_ZERO,  // zeros, as XLA's parser makes by default
    HLO_ELIDED_FILL,  // distinct deterministic values, so that two of them are not taken for one constant
} HloElidedLiterals;

typedef struct HloParseOptions {
    const char *file;          // name for messages, or NULL
    HloElidedLiterals elided;  // what to do with {...}
} HloParseOptions;

// Options for printing a module; the fields are those of XLA's HloPrintOptions.
typedef struct HloPrintOptions {
    bool print_large_constants;  // constants of more than 10 elements in full instead of {...}
    bool print_metadata;         // metadata={...} and the stack tables
    bool print_backend_config;
    bool print_operand_shapes;  // before each operand
    bool print_operand_names;
    bool print_program_shape;  // (parameters) -> result after a computation's name
    bool print_percent;        // % before names
    bool print_result_shape;
    bool print_control_dependencies;
    bool print_extra_attributes;  // sharding, frontend attributes and the op's own attributes
    bool print_ids;               // names of the module and of computations
    bool include_layout;          // layouts in shapes
    bool number_operands;         // /*index=5*/ before every fifth operand
    bool compact_operands;        // "..." after four operands
    bool essential_constants;     // 0, 1 and integers; {...} for all others
    bool canonical_names;         // tmp_0, tmp_1 ... and called computations in full
    bool sort_computations;       // by content instead of by call order
    int indent;                   // levels of two spaces
} HloPrintOptions;

// XLA's presets. This one is the default of to_string(), the long form.
HLO_EXPORT HloPrintOptions hlo_print_default(void);
// short_parsable(): no metadata, no %, no parameter lists; constants in full.
HLO_EXPORT HloPrintOptions hlo_print_short(void);
// canonical(): no names but tmp_0, tmp_1 ..., called computations in full where they are called.
HLO_EXPORT HloPrintOptions hlo_print_canonical(void);
// fingerprint(): canonical, without any names, the values of constants or the order of computations.
HLO_EXPORT HloPrintOptions hlo_print_fingerprint(void);

// Parses `length` bytes of a whole module, of bare computations, or of a single instruction. `options` may be NULL. On
// success *module is new and owned by the caller (hlo_module_free()); it does not point into `text`. Errors:
// INVALID_ARGUMENT with a position, RESOURCE_EXHAUSTED. Any thread.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_parse(const char *text, size_t length, const HloParseOptions *options,
                                             HloModule **module);

// Adds a position in the text to an error about the module that hlo_parse() made of this text (an error of the
// verifier, for example): that of the instruction it names (none if the text does not have this instruction), else the
// module's first. A position in the user's own program moves into the message. Takes and returns ownership; NULL stays
// NULL. The text is parsed again.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_status_place_in_text(HloStatus status, const char *text, size_t length,
                                                            const HloParseOptions *options);

// Stand-alone pieces of the syntax, from `length` bytes that must contain nothing else. Results live in `arena`.
// INVALID_ARGUMENT with a position, RESOURCE_EXHAUSTED.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_parse_shape(HloArena *arena, const char *text, size_t length,
                                                   const HloShape **shape);
// {devices=[2,2]<=[4]} and every other form of a sharding.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_parse_sharding(HloArena *arena, const char *text, size_t length,
                                                      const HloSharding **sharding);
// {{0,1},{2,3}}, [2,2]<=[4] or mesh[...] {...}.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_parse_replica_groups(HloArena *arena, const char *text, size_t length,
                                                            const HloReplicaGroups **groups);
// A shape and its value: f32[2]{0} {1, 2}. Without a layout, the shape would consume the braces as its layout, as in
// XLA.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_parse_literal(HloArena *arena, const char *text, size_t length,
                                                     const HloLiteral **literal);
// size=3x3 stride=2x2, without or with braces.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_parse_window(HloArena *arena, const char *text, size_t length,
                                                    const HloWindow **window);
// 0_1_2x3_4_0
HLO_EXPORT HLO_NODISCARD HloStatus hlo_parse_padding(HloArena *arena, const char *text, size_t length,
                                                     HloPadding *padding);

// Appends the module's text. `options` NULL: the default (long) form, which omits large constants as XLA's does: set
// print_large_constants for a text that is to be read again. RESOURCE_EXHAUSTED. Any thread.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_print(const HloModule *module, const HloPrintOptions *options, HloText *text);
// Puts the lists of instructions and of computations into the order in which they are printed, so that a program whose
// text is read again prints the same text. Schedules are kept. Jumps to hlo_protect() when memory is short.
HLO_EXPORT void hlo_order_as_printed(HloModule *module);
// Appends one computation, without its module's header.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_print_computation(const HloComputation *computation,
                                                         const HloPrintOptions *options, HloText *text);
// Appends one instruction, without indentation or newline.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_print_instruction(const HloInstruction *instruction,
                                                         const HloPrintOptions *options, HloText *text);
// Appends a literal's value without its shape, on one line: { {1, 2}, {3, 4} }. {...} if elided.
HLO_EXPORT void hlo_print_literal(HloText *text, const HloLiteral *literal);
// Appends size=3x3 pad=0_1x1_1 without braces.
HLO_EXPORT void hlo_print_window(HloText *text, const HloWindow *window);
// Appends dim_labels: b01f_01io->b01f.
HLO_EXPORT void hlo_print_labels(HloText *text, const HloConvolutionLabels *labels);

// Appends a Graphviz graph: a cluster per computation, a node per instruction, an edge per operand or call.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_dot_draw(const HloModule *module, HloText *text);

HLO_END_C

#endif
