// SPDX-License-Identifier: Apache-2.0
// The parser's internal interface, one file per topic. Every parse function returns false after an error, which is then
// in parser->status; on success, the current token is the one after the parsed text.
#ifndef MESHLO_HLO_TEXT_PARSER_H_
#define MESHLO_HLO_TEXT_PARSER_H_

#include "hlo/base/map.h"
#include "hlo/ir/infer.h"
#include "hlo/text/lexer.h"
#include "hlo/text/text.h"

// The maximal nesting depth of instructions, shapes, literals and computations.
enum { HLO_PARSE_DEPTH_LIMIT = 200 };
// The maximal length of a chain of computations that call one another.
enum { HLO_PARSE_CALL_LIMIT = 1000 };

// A power of two well above the number of opcodes.
enum { HLO_PARSE_OPCODE_SLOTS = 512 };
_Static_assert(HLO_OPCODE_COUNT < 255, "opcodes are kept in bytes");

typedef struct HloNameEntry {
    const char *name;
    uint32_t length;
    uint32_t hash;
    HloInstruction *instruction;
} HloNameEntry;

// The instruction names of a computation while it is being parsed.
typedef struct HloNameScope {
    HloNameEntry *entries;
    int64_t count;
    int64_t capacity;  // a power of two
} HloNameScope;

// An instruction and the position of its definition in the text.
typedef struct HloDefinition {
    const HloInstruction *instruction;
    const char *where;  // its name in the lexer's copy
} HloDefinition;

// A shape, keyed by its text.
typedef struct HloShapeEntry {
    const char *text;
    uint32_t length;
    uint32_t hash;
    const HloShape *shape;
} HloShapeEntry;

typedef struct HloParser {
    HloLexer lexer;
    const char *original;  // the text as given, for messages
    HloParseOptions options;
    HloArena *arena;    // what the result lives in
    HloArena *scratch;  // what lives as long as the parser
    HloArena *names;    // name scopes, as a stack
    HloModule *module;
    HloStatus status;
    int depth;
    unsigned char opcodes[HLO_PARSE_OPCODE_SLOTS];  // 1 + opcode, by a hash of the text
    HloComputation *computation;                    // being parsed
    HloNameScope *scope;                            // its names
    const char *instruction_name;                   // being parsed, for messages
    const char *alias_place;                        // of the module's input_output_alias, for messages
    bool single_instruction;                        // operands that do not exist become parameters
    bool has_nested;                                // computations written inside instructions, or renamed instructions
    HloStringMap computations;                      // by the name in the text
    HloComputationVector finished;                  // in the order of their closing braces
    HloStringVector text_names;                     // of instructions, by id: as the text has them
    HloStringVector computation_names;              // of computations, by id
    HloInt64Vector call_depths;                     // of computations, by id
    HloInstructionVector operands;                  // a stack
    HloInt64Vector numbers;                         // a stack
    HloShapeEntry *shapes;
    int64_t shape_count, shape_capacity;
    uint32_t elided_word;  // counters of HLO_ELIDED_FILL
    unsigned char elided_byte;
    int64_t elided_bytes;  // made so far
    bool verified_later;   // the sharding being read is one that the verifier checks
    bool keeps_places;     // whether `defined` is filled
    HLO_VECTOR(HloDefinition) defined;
} HloParser;

// ---- parser.c: errors, tokens, lists

// An error at `where` in the private copy of the text. Always false.
bool hlo_parser_fail(HloParser *parser, const char *where, const char *format, ...) HLO_PRINTF(3, 4);
// An error at the current token. Always false.
#define HLO_PARSER_FAIL(parser, ...) hlo_parser_fail((parser), (parser)->lexer.token.start, __VA_ARGS__)
// Enters one level of nesting; the caller leaves it with parser->depth--.
bool hlo_parser_enter(HloParser *parser);

// The kind of the current token.
static inline int hlo_parser_kind(const HloParser *parser) {
    return parser->lexer.token.kind;
}
// Advances to the next token if the current one is of this kind.
static inline bool hlo_parser_eat(HloParser *parser, int kind) {
    if (parser->lexer.token.kind != kind) return false;
    hlo_lex(&parser->lexer);
    return true;
}
// An error: the current token is not `what`. Always false.
bool hlo_parser_unexpected(HloParser *parser, const char *what);
// The token must be `kind`, described as `what` in the error.
bool hlo_parser_expect(HloParser *parser, int kind, const char *what);
// True if the current token is this identifier.
bool hlo_parser_is_word(const HloParser *parser, const char *word);
// True for the names of element types that are written out (not tuple and b).
bool hlo_parser_is_type(const char *text, size_t length);

// An integer; values from 2^63 to 2^64 - 1 wrap.
bool hlo_parse_int(HloParser *parser, int64_t *value);
// An integer or decimal number, inf, -inf or a NaN with its payload.
bool hlo_parse_double(HloParser *parser, double *value);
// true or false.
bool hlo_parse_bool(HloParser *parser, bool *value);
// A name with or without %, terminated by a NUL in place.
bool hlo_parse_name(HloParser *parser, const char **name, size_t *length);
// name= ; terminated by a NUL in place.
bool hlo_parse_attribute_name(HloParser *parser, const char **name, size_t *length);
// A quoted string, decoded.
bool hlo_parse_string(HloParser *parser, const char **string);
// A quoted string or {...}; *is_json tells which.
bool hlo_parse_string_or_json(HloParser *parser, const char **string, bool *is_json);
// `open` numbers separated by `separator` `close`.
bool hlo_parse_ints(HloParser *parser, int open, int close, int separator, HloInts *ints);
// {{1,2},{3}}
bool hlo_parse_ints_list(HloParser *parser, HloIntsList *list);
// {true,false}, or with `or_single` also one word without braces.
bool hlo_parse_bools(HloParser *parser, bool or_single, HloBools *bools);
// {0,1}, an index into a tuple.
bool hlo_parse_index(HloParser *parser, HloInts *index);
// Copies the items from `base` of the number stack and drops them.
HloInts hlo_parser_pop_numbers(HloParser *parser, int64_t base);
// At the end of a stand-alone piece.
bool hlo_parser_expect_end(HloParser *parser);

// ---- parser_shape.c

// True if the current token can begin a shape.
bool hlo_parser_at_shape(const HloParser *parser);
// A shape; missing layouts become the default ones.
bool hlo_parse_shape_here(HloParser *parser, const HloShape **shape);
// {shape, shape}
bool hlo_parse_shapes(HloParser *parser, HloShapes *shapes);

// ---- parser_literal.c

// The value of a literal whose shape is known.
bool hlo_parse_literal_value(HloParser *parser, const HloShape *shape, HloLiteral **literal);
// A shape and its value, or a tuple of these.
bool hlo_parse_literal_here(HloParser *parser, HloLiteral **literal);

// ---- parser_sharding.c

// A sharding in braces, of any of the three forms, brought into the form that XLA prints. With parser->verified_later,
// device orders are accepted that make no sense but that XLA's parser accepts ([2,0]<=[4], [2,2]<=[2,2]T(0,0)); the
// verifier refuses them, as XLA's does.
bool hlo_parse_sharding_here(HloParser *parser, const HloSharding **sharding);
// {{0,1},{2,3}}, [2,2]<=[4] or mesh[...] {...}.
bool hlo_parse_replica_groups_here(HloParser *parser, const HloReplicaGroups **groups);

// ---- parser_subgroup.c

// Brings the trailing tile dimensions of a tiled sharding into XLA's form; it may turn out to be replicated or manual.
bool hlo_parser_simplify_subgroups(HloParser *parser, const char *where, HloSharding *sharding);

// ---- parser_field.c: attribute values by kind

// Parses the value of `field` into the attribute struct at `attributes`.
bool hlo_parse_field(HloParser *parser, const HloField *field, void *attributes);
// size=3x3 stride=2x2 ..., in braces or up to the end of the text.
bool hlo_parse_window_here(HloParser *parser, bool braces, const HloWindow **window);
// low_high, with `interior` also low_high_interior, for each dimension; with `interior` none for a scalar.
bool hlo_parse_padding_here(HloParser *parser, bool interior, HloPadding *padding);
// {output index}: (operand, {index}[, must-alias]), ...
bool hlo_parse_aliasing(HloParser *parser, bool with_kind, HloAliases *aliases);
// {[0:4:2], [1:3]}
bool hlo_parse_slice(HloParser *parser, HloSliceAttributes *slice);
// {kind="sharding", entry={...}, exit={...}}
bool hlo_parse_domain(HloParser *parser, HloDomainAttributes *domain);

// ---- parser_annotation.c: annotations that every instruction may have

// {op_name="..." stack_frame_id=3 ...}
bool hlo_parse_metadata(HloParser *parser, const HloMetadata **metadata);
// {key="value",key={json}}, sorted by key.
bool hlo_parse_frontend_attributes(HloParser *parser, HloKeyValues *attributes);
// {visualizing_index=0,name=1.5}; *text is NULL if it is empty.
bool hlo_parse_statistics(HloParser *parser, const char **text);
// {({"name" {0}}, {"name"})}; kept as the text between the outer braces.
bool hlo_parse_origin(HloParser *parser, const char **text);
// The value of origin_recovery_table, into the module.
bool hlo_parse_origin_table(HloParser *parser);

// ---- parser_stack.c

// FileNames ... StackFrames, if there.
bool hlo_parse_stack_tables(HloParser *parser);

// ---- parser_attribute.c

// The parsed attributes of one instruction.
typedef struct HloParsedAttributes {
    union {
        HloCollectiveAttributes collective;
        HloCallAttributes call;
        HloConvolutionAttributes convolution;
        HloDotAttributes dot;
        HloGatherAttributes gather;
        HloScatterAttributes scatter;
        HloCustomCallAttributes custom_call;
        HloParameterAttributes parameter;
        HloConstantAttributes constant;
        HloTopKAttributes top_k;
        HloReshapeAttributes reshape;
        HloCopyStartAttributes copy_start;
        HloDimensionsAttributes dimensions;
        HloAsyncAttributes async;
        HloPermuteAttributes permute;
        HloScanAttributes scan;
        HloSliceAttributes slice;
        HloDomainAttributes domain;
        HloCompareAttributes compare;
        HloOutfeedAttributes outfeed;
    } family;
    uint32_t seen_fields;       // by number of the field
    uint32_t seen;              // private to parser_attribute.c
    HloComputation *roles[8];   // called computations by role
    HloComputationVector list;  // branch_computations or called_computations
    const HloSharding *sharding;
    const HloMetadata *metadata;
    HloKeyValues frontend_attributes;
    const char *backend_config;
    bool backend_config_is_json;
    const char *statistics, *origin;
    HloInstructionVector predecessors;
    HloBools replication;
    const char *execution_thread;  // async_execution_thread of a wrapped op
    HloAliases async_aliasing;     // output_to_operand_aliasing of a wrapped op
} HloParsedAttributes;

// The attributes of an instruction of `opcode`; `async` if they are those of a wrapped op. If `allowed` is false, there
// may be none. Checks that the required attributes are present.
bool hlo_parse_attributes(HloParser *parser, HloOpcode opcode, bool async, bool allowed,
                          HloInstruction *const *operands, int64_t operand_count, HloParsedAttributes *parsed);
enum { HLO_PARSE_ROLES = 8 };
// The called computations that were parsed, in the order of HloInstruction.called; `buffer` holds up to
// HLO_PARSE_ROLES of them.
HloComputation *const *hlo_parser_called(const HloParsedAttributes *parsed, HloComputation **buffer, int64_t *count);

// ---- parser_instruction.c

// Fills parser->opcodes.
void hlo_parser_index_opcodes(HloParser *parser);

// [ROOT] name = ... ; sets *root for ROOT.
bool hlo_parse_instruction(HloParser *parser, HloInstruction **root);
// The part after `name =`.
bool hlo_parse_instruction_value(HloParser *parser, const char *name, HloInstruction **instruction);
// The instruction with this name in the computation being parsed, or NULL.
HloInstruction *hlo_parser_find(const HloParser *parser, const char *name, size_t length);

// ---- parser_computation.c

// A computation that remembers its name in the text.
HloComputation *hlo_parser_new_computation(HloParser *parser, const char *name);
// Parameters must be numbered without gaps.
bool hlo_parser_check_parameters(HloParser *parser, const HloComputation *computation);
// A name, or a computation in braces.
bool hlo_parse_called(HloParser *parser, HloComputation **computation);
// {name, name}
bool hlo_parse_called_list(HloParser *parser, HloComputationVector *list);
// [ENTRY] name [(parameters) -> shape] { ... } [, execution_thread="..."]
bool hlo_parse_computation(HloParser *parser, HloComputation **entry);

// ---- parser_module.c

// The whole text into parser->module.
bool hlo_parse_module(HloParser *parser);

#endif
