// SPDX-License-Identifier: Apache-2.0
// Attribute values, by the kind of their field: the switch in hlo_parse_field() has a reader for each kind of
// attributes.def, and the structured ones are here.
//
//   size=3x3 stride=2x2 pad=0_1x0_1 rhs_reversal=1x0     HloWindow, one record a dimension
//   b01f_01io->b01f                                     HloConvolutionLabels: the dimension of each role
//   padding=0_1x2_3_1                                   HloPadding: low_high, or low_high_interior
//   {[0:4:2], [1:3]}                                    slices
//   { {0}: (1, {}, may-alias) }                         aliases: output index, operand, operand index
//   {{0,1},{1,0}}                                       pairs
//
// Some of these are not sequences of ordinary tokens (3x3 would be a number and a word); they are read from the raw
// text, and the lexer is moved past them.
#include <assert.h>
#include <float.h>

#include "hlo/text/parser.h"

// ---------------------------------------------------------------------------------------------------------------------
// Patterns that are not made of ordinary tokens: 3x3, 0_1x-1_2, b01f_01io->b01f. They are read from the raw text.

// An integer at *at, which moves past its digits; false, and *value undefined, if there is none or it has more than 64
// bits.
static bool raw_number(const char **at, int64_t *value) {
    bool negative = **at == '-';
    const char *digits = *at + negative;
    const char *end = digits;
    *value = 0;
    for (; *end >= '0' && *end <= '9'; end++) {
        if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, *end - '0', value))
            return false;
    }
    if (end == digits) return false;
    if (negative) *value = -*value;
    *at = end;
    return true;
}

// Moves the lexer past the text that was read without it.
static bool end_raw(HloParser *parser, const char *at) {
    parser->lexer.at = parser->lexer.begin + (at - parser->lexer.begin);
    hlo_lex(&parser->lexer);
    return true;
}

// 3x3
static bool parse_by_x(HloParser *parser, HloInts *ints) {
    const char *at = parser->lexer.token.start;
    int64_t base = parser->numbers.count;
    for (;; at++) {
        int64_t value;
        if (!raw_number(&at, &value)) return hlo_parser_fail(parser, at, "expected numbers like 3x3");
        hlo_vector_push(parser->scratch, &parser->numbers, value);
        if (*at != 'x') break;
    }
    *ints = hlo_parser_pop_numbers(parser, base);
    return end_raw(parser, at);
}

// A pad of a scalar is printed as a bare "padding=", followed by nothing or a comma.
static bool is_padding_of_scalar(const char *at) {
    bool is_number = *at == '-' || (*at >= '0' && *at <= '9');
    return !is_number && (at[-1] != '=' || *at == ',');
}

bool hlo_parse_padding_here(HloParser *parser, bool interior, HloPadding *padding) {
    HLO_VECTOR(HloPadDimension) dims = {0};
    const char *at = parser->lexer.token.start;
    if (interior && is_padding_of_scalar(at)) {
        *padding = (HloPadding){0};
        return true;
    }
    for (;; at++) {
        HloPadDimension dim = {0};
        bool ok = raw_number(&at, &dim.low) && *at++ == '_' && raw_number(&at, &dim.high);
        if (ok && interior && *at == '_') {
            at++;
            ok = raw_number(&at, &dim.interior);
        }
        if (!ok) return HLO_PARSER_FAIL(parser, "expected padding like 0_1x2_3 or 0_1_0x2_3_1");
        hlo_vector_push(parser->arena, &dims, dim);
        if (*at != 'x') break;
    }
    *padding = (HloPadding){.items = dims.items, .count = dims.count};
    return end_raw(parser, at);
}

// The values of each column of a window; empty if absent.
typedef struct WindowColumns {
    HloInts size, stride, lhs_dilate, rhs_dilate, rhs_reversal;
    HloPadding pad;
} WindowColumns;

// Each column may occur once, in any order.
static bool parse_window_column(HloParser *parser, WindowColumns *columns) {
    const char *name;
    size_t length;
    const char *where = parser->lexer.token.start;
    if (!hlo_parse_attribute_name(parser, &name, &length)) return false;
    struct {
        const char *name;
        HloInts *ints;
    } table[] = {{"size", &columns->size},
                 {"stride", &columns->stride},
                 {"lhs_dilate", &columns->lhs_dilate},
                 {"rhs_dilate", &columns->rhs_dilate},
                 {"rhs_reversal", &columns->rhs_reversal}};
    if (strcmp(name, "pad") == 0) {
        if (columns->pad.count) return hlo_parser_fail(parser, where, "pad= is given twice");
        return hlo_parse_padding_here(parser, false, &columns->pad);
    }
    for (size_t i = 0; i < HLO_COUNT_OF(table); i++) {
        if (strcmp(name, table[i].name) != 0) continue;
        if (table[i].ints->count) return hlo_parser_fail(parser, where, "%s= is given twice", name);
        return parse_by_x(parser, table[i].ints);
    }
    return hlo_parser_fail(parser, where, "unknown part '%s' of a window", name);
}

// The columns become one record per dimension; missing ones have their defaults (stride and dilations 1, padding 0).
bool hlo_parse_window_here(HloParser *parser, bool braces, const HloWindow **result) {
    const char *where = parser->lexer.token.start;
    WindowColumns c = {0};
    if (braces && !hlo_parser_expect(parser, '{', "'{' of a window")) return false;
    int end = braces ? '}' : HLO_TOKEN_END;
    while (hlo_parser_kind(parser) != end) {
        if (!parse_window_column(parser, &c)) return false;
    }
    int64_t rank = c.size.count;
    const int64_t counts[] = {c.stride.count, c.lhs_dilate.count, c.rhs_dilate.count, c.rhs_reversal.count,
                              c.pad.count};
    for (size_t i = 0; i < HLO_COUNT_OF(counts); i++) {
        if (counts[i] && counts[i] != rank) {
            return hlo_parser_fail(parser, where, "the parts of the window differ in their number of dimensions");
        }
    }
    HloWindowDimension *dims = HLO_ARENA_NEW(parser->arena, HloWindowDimension, rank);
    for (int64_t i = 0; i < rank; i++) {
        dims[i] = (HloWindowDimension){.size = c.size.items[i],
                                       .stride = c.stride.count ? c.stride.items[i] : 1,
                                       .padding_low = c.pad.count ? c.pad.items[i].low : 0,
                                       .padding_high = c.pad.count ? c.pad.items[i].high : 0,
                                       .base_dilation = c.lhs_dilate.count ? c.lhs_dilate.items[i] : 1,
                                       .window_dilation = c.rhs_dilate.count ? c.rhs_dilate.items[i] : 1,
                                       .reversal = c.rhs_reversal.count && c.rhs_reversal.items[i] == 1};
    }
    HloWindow *window = HLO_ARENA_NEW(parser->arena, HloWindow, 1);
    *window = (HloWindow){.dims = dims, .count = rank};
    *result = window;
    return !braces || hlo_parser_expect(parser, '}', "'}' of a window");
}

// One side of dim_labels: `first` and `second` are its two letters.
static bool parse_side(HloParser *parser, const char **at, char first, char second, int64_t *first_dim,
                       int64_t *second_dim, HloInts *spatial, HloInts *unknown) {
    assert(first_dim && second_dim && spatial);
    int64_t positions[64], unknowns[64], count = 0, unknown_count = 0, spatial_count = 0;
    uint64_t seen = 0;
    *first_dim = *second_dim = -1;
    for (; count < 64; count++, ++*at) {
        char c = **at;
        if (c == '?') {
            unknowns[unknown_count++] = count;
        } else if (c == first && *first_dim < 0) {
            *first_dim = count;
        } else if (c == second && *second_dim < 0) {
            *second_dim = count;
        } else if (c >= '0' && c <= '9' && !(seen >> (c - '0') & 1)) {
            seen |= UINT64_C(1) << (c - '0');
            positions[c - '0'] = count;
            spatial_count++;
        } else {
            break;
        }
    }
    if (count < 2 || *first_dim < 0 || *second_dim < 0 || seen != (UINT64_C(1) << spatial_count) - 1) {
        return hlo_parser_fail(parser, *at, "expected dimension labels like b01f_01io->b01f");
    }
    *spatial = hlo_ints(parser->arena, positions, spatial_count);
    *unknown = hlo_ints(parser->arena, unknowns, unknown_count);
    return true;
}

// b01f_01io->b01f: input, kernel, result. '?' marks a dimension without a role, which older programs have.
static bool parse_labels(HloParser *parser, const HloConvolutionLabels **result) {
    HloConvolutionLabels *labels = HLO_ARENA_NEW(parser->arena, HloConvolutionLabels, 1);
    const char *where = parser->lexer.token.start;
    const char *at = where;
    if (!parse_side(parser, &at, 'b', 'f', &labels->input_batch, &labels->input_feature, &labels->input_spatial,
                    &labels->input_unknown)) {
        return false;
    }
    if (*at++ != '_') return hlo_parser_fail(parser, at - 1, "expected '_' and the labels of the kernel");
    if (!parse_side(parser, &at, 'i', 'o', &labels->kernel_input_feature, &labels->kernel_output_feature,
                    &labels->kernel_spatial, &labels->kernel_unknown)) {
        return false;
    }
    if (at[0] != '-' || at[1] != '>') return hlo_parser_fail(parser, at, "expected '->' and the labels of the result");
    at += 2;
    if (!parse_side(parser, &at, 'b', 'f', &labels->output_batch, &labels->output_feature, &labels->output_spatial,
                    &labels->output_unknown)) {
        return false;
    }
    if (labels->input_spatial.count != labels->kernel_spatial.count ||
        labels->input_spatial.count != labels->output_spatial.count) {
        return hlo_parser_fail(parser, where, "input, kernel and result must have as many spatial dimensions");
    }
    *result = labels;
    return end_raw(parser, at);
}

// ---------------------------------------------------------------------------------------------------------------------
// Structures

// {[0:4:2], [1:3]}
bool hlo_parse_slice(HloParser *parser, HloSliceAttributes *slice) {
    HLO_VECTOR(HloInts) ranges = {0};
    if (!hlo_parser_expect(parser, '{', "'{' of slice ranges")) return false;
    if (hlo_parser_kind(parser) != '}') {
        do {
            HloInts range;
            const char *where = parser->lexer.token.start;
            if (!hlo_parse_ints(parser, '[', ']', ':', &range)) return false;
            if (range.count != 2 && range.count != 3) {
                return hlo_parser_fail(parser, where, "expected [start:limit] or [start:limit:stride]");
            }
            hlo_vector_push(parser->scratch, &ranges, range);
        } while (hlo_parser_eat(parser, ','));
    }
    int64_t rank = ranges.count;
    int64_t *all = HLO_ARENA_NEW(parser->arena, int64_t, 3 * rank);
    for (int64_t i = 0; i < rank; i++) {
        all[i] = ranges.items[i].items[0];
        all[rank + i] = ranges.items[i].items[1];
        all[2 * rank + i] = ranges.items[i].count == 3 ? ranges.items[i].items[2] : 1;
    }
    slice->starts = (HloInts){all, rank};
    slice->limits = (HloInts){all + rank, rank};
    slice->strides = (HloInts){all + 2 * rank, rank};
    return hlo_parser_expect(parser, '}', "'}' of slice ranges");
}

// may-alias is the default kind.
bool hlo_parse_aliasing(HloParser *parser, bool with_kind, HloAliases *aliases) {
    HLO_VECTOR(HloAlias) items = {0};
    if (!hlo_parser_expect(parser, '{', "'{' of aliasing")) return false;
    while (hlo_parser_kind(parser) != '}') {
        HloAlias alias = {0};
        if (!hlo_parse_index(parser, &alias.output_index) || !hlo_parser_expect(parser, ':', "':'") ||
            !hlo_parser_expect(parser, '(', "'('") || !hlo_parse_int(parser, &alias.operand) ||
            !hlo_parser_expect(parser, ',', "','") || !hlo_parse_index(parser, &alias.operand_index)) {
            return false;
        }
        if (with_kind && hlo_parser_eat(parser, ',')) {
            alias.must_alias = hlo_parser_is_word(parser, "must-alias");
            if (!alias.must_alias && !hlo_parser_is_word(parser, "may-alias")) {
                return HLO_PARSER_FAIL(parser, "expected may-alias or must-alias");
            }
            hlo_lex(&parser->lexer);
        }
        hlo_vector_push(parser->arena, &items, alias);
        if (!hlo_parser_expect(parser, ')', "')'")) return false;
        if (!hlo_parser_eat(parser, ',')) break;
    }
    *aliases = (HloAliases){.items = items.items, .count = items.count};
    return hlo_parser_expect(parser, '}', "'}' of aliasing");
}

// {kind="sharding", entry={...}, exit={...}}
bool hlo_parse_domain(HloParser *parser, HloDomainAttributes *domain) {
    const char *start = parser->lexer.token.start;
    if (!hlo_parser_expect(parser, '{', "'{' of a domain")) return false;
    do {
        const char *name;
        size_t length;
        hlo_parser_eat(parser, ',');
        const char *where = parser->lexer.token.start;
        if (!hlo_parse_attribute_name(parser, &name, &length)) return false;
        bool ok;
        if (strcmp(name, "kind") == 0 && !domain->kind) {
            ok = hlo_parse_string(parser, &domain->kind);
        } else if (strcmp(name, "entry") == 0 && !domain->entry) {
            ok = hlo_parse_sharding_here(parser, &domain->entry);
        } else if (strcmp(name, "exit") == 0 && !domain->exit) {
            ok = hlo_parse_sharding_here(parser, &domain->exit);
        } else {
            ok = hlo_parser_fail(parser, where, "expected kind, entry and exit, each once");
        }
        if (!ok) return false;
    } while (hlo_parser_kind(parser) != '}');
    if (!domain->kind || !domain->entry || !domain->exit) {
        return hlo_parser_fail(parser, start, "a domain needs kind, entry and exit");
    }
    if (strcmp(domain->kind, "sharding") != 0) {
        return hlo_parser_fail(parser, start, "unknown kind of domain '%s'", domain->kind);
    }
    hlo_lex(&parser->lexer);
    return true;
}

// ulps is an integer in XLA's message; decimals are truncated.
static bool parse_tolerance(HloParser *parser, HloAccuracy *accuracy) {
    accuracy->has_tolerance = true;
    if (!hlo_parser_expect(parser, '{', "'{' of a tolerance")) return false;
    if (hlo_parser_kind(parser) != '}') {
        do {
            const char *name;
            size_t length;
            double value;
            const char *where = parser->lexer.token.start;
            if (!hlo_parse_attribute_name(parser, &name, &length) || !hlo_parse_double(parser, &value)) return false;
            if (strcmp(name, "atol") == 0) {
                accuracy->atol = value;
            } else if (strcmp(name, "rtol") == 0) {
                accuracy->rtol = value;
            } else if (strcmp(name, "ulps") == 0 && value >= -9e18 && value <= 9e18) {
                accuracy->ulps = (int64_t)value;
            } else {
                return hlo_parser_fail(parser, where, "expected atol, rtol or ulps");
            }
        } while (hlo_parser_eat(parser, ','));
    }
    return hlo_parser_expect(parser, '}', "'}' of a tolerance");
}

// Enumerations whose words XLA compares without regard to case.
static bool folds_case(const HloEnumTable *table) {
    return table == &hlo_enum_RandomDistribution || table == &hlo_enum_RandomAlgorithm ||
           table == &hlo_enum_Precision || table == &hlo_enum_DotAlgorithm || table == &hlo_enum_CustomCallSchedule ||
           table == &hlo_enum_CustomCallApi || table == &hlo_enum_AccuracyMode;
}

// A word of the enumeration.
static bool parse_enum(HloParser *parser, const HloEnumTable *table, int32_t *value) {
    const HloToken *token = &parser->lexer.token;
    *value = -1;
    if (token->kind == HLO_TOKEN_IDENTIFIER) {
        *value = folds_case(table) ? hlo_enum_from_any_case(table, token->text, token->length)
                                   : hlo_enum_from_text(table, token->text, token->length);
    }
    bool unspecified = table == &hlo_enum_CustomCallApi && *value == HLO_CustomCallApi_UNSPECIFIED;
    if (*value < 0 || unspecified) {
        return HLO_PARSER_FAIL(parser, "'%.*s' is not a %s", (int)token->length, token->text, table->name);
    }
    hlo_lex(&parser->lexer);
    return true;
}

// {mode=highest} or {tolerance={atol=1,rtol=2,ulps=3}}
static bool parse_accuracy(HloParser *parser, const HloAccuracy **result) {
    HloAccuracy *accuracy = HLO_ARENA_NEW(parser->arena, HloAccuracy, 1);
    const char *name;
    size_t length;
    if (!hlo_parser_expect(parser, '{', "'{' of result_accuracy")) return false;
    const char *where = parser->lexer.token.start;
    if (!hlo_parse_attribute_name(parser, &name, &length)) return false;
    if (strcmp(name, "mode") == 0) {
        if (!parse_enum(parser, &hlo_enum_AccuracyMode, &accuracy->mode)) return false;
    } else if (strcmp(name, "tolerance") == 0) {
        if (!parse_tolerance(parser, accuracy)) return false;
    } else {
        return hlo_parser_fail(parser, where, "expected mode or tolerance");
    }
    *result = accuracy;
    return hlo_parser_expect(parser, '}', "'}' of result_accuracy");
}

// {default,highest}: one word per operand.
static bool parse_precisions(HloParser *parser, HloPrecisions *precisions) {
    HLO_VECTOR(int32_t) items = {0};
    if (!hlo_parser_expect(parser, '{', "'{'")) return false;
    if (hlo_parser_kind(parser) != '}') {
        do {
            int32_t value;
            if (!parse_enum(parser, &hlo_enum_Precision, &value)) return false;
            hlo_vector_push(parser->arena, &items, value);
        } while (hlo_parser_eat(parser, ','));
    }
    *precisions = (HloPrecisions){.items = items.items, .count = items.count};
    return hlo_parser_expect(parser, '}', "'}'");
}

// {{0,1},{1,0}}
static bool parse_pairs(HloParser *parser, HloPairs *pairs) {
    HLO_VECTOR(HloPair) items = {0};
    if (!hlo_parser_expect(parser, '{', "'{'")) return false;
    if (hlo_parser_kind(parser) != '}') {
        do {
            HloPair pair;
            if (!hlo_parser_expect(parser, '{', "'{' of a pair") || !hlo_parse_int(parser, &pair.source) ||
                !hlo_parser_expect(parser, ',', "',' of a pair") || !hlo_parse_int(parser, &pair.target) ||
                !hlo_parser_expect(parser, '}', "'}' of a pair")) {
                return false;
            }
            hlo_vector_push(parser->arena, &items, pair);
        } while (hlo_parser_eat(parser, ','));
    }
    *pairs = (HloPairs){.items = items.items, .count = items.count};
    return hlo_parser_expect(parser, '}', "'}'");
}

static bool parse_float(HloParser *parser, float *result) {
    const char *where = parser->lexer.token.start;
    double value;
    if (!hlo_parse_double(parser, &value)) return false;
    if (value > FLT_MAX || value < -FLT_MAX) return hlo_parser_fail(parser, where, "the value is out of range for f32");
    *result = (float)value;
    return true;
}

// `attributes` is the record of the field's family.
bool hlo_parse_field(HloParser *parser, const HloField *field, void *attributes) {
    assert(field && attributes);
    void *to = (char *)attributes + field->offset;
    bool value;
    switch (field->kind) {
        case HLO_FIELD_INT:
        case HLO_FIELD_OPTIONAL_INT:
        case HLO_FIELD_GROUP_COUNT: return hlo_parse_int(parser, to);
        case HLO_FIELD_BOOL: return hlo_parse_bool(parser, to);
        case HLO_FIELD_TRISTATE:
            if (!hlo_parse_bool(parser, &value)) return false;
            *(int32_t *)to = value ? 1 : 2;
            return true;
        case HLO_FIELD_FLOAT: return parse_float(parser, to);
        case HLO_FIELD_STRING: return hlo_parse_string(parser, to);
        case HLO_FIELD_INTS: return hlo_parse_ints(parser, '{', '}', ',', to);
        case HLO_FIELD_INTS_LIST: return hlo_parse_ints_list(parser, to);
        case HLO_FIELD_BOOL_LIST: return hlo_parse_bools(parser, false, to);
        case HLO_FIELD_PAIRS: return parse_pairs(parser, to);
        case HLO_FIELD_ENUM: return parse_enum(parser, field->enumeration, to);
        case HLO_FIELD_ACCURACY: return parse_accuracy(parser, to);
        case HLO_FIELD_LITERAL: return hlo_parse_literal_here(parser, to);
        case HLO_FIELD_REPLICA_GROUPS: return hlo_parse_replica_groups_here(parser, to);
        case HLO_FIELD_ALIASING: return hlo_parse_aliasing(parser, false, to);
        case HLO_FIELD_SHARDING: return hlo_parse_sharding_here(parser, to);
        case HLO_FIELD_WINDOW: return hlo_parse_window_here(parser, true, to);
        case HLO_FIELD_LABELS: return parse_labels(parser, to);
        case HLO_FIELD_PRECISIONS: return parse_precisions(parser, to);
        case HLO_FIELD_PADDING: return hlo_parse_padding_here(parser, true, to);
        case HLO_FIELD_SHAPE: return hlo_parse_shape_here(parser, to);
        case HLO_FIELD_SHAPES: return hlo_parse_shapes(parser, to);
    }
    HLO_BUG_IF(true);  // the switch has every kind
    return false;
}
