// SPDX-License-Identifier: Apache-2.0
// Reads attributes of MLIR text, except for tensors and those of sdy. There are three families: those of builtin, which
// begin with a mark or a digit; structures and enumerations of #stablehlo and #chlo, whose fields and words are in
// mlir/dialect.def; and everything else, which is kept as its text, since an unknown dialect may still annotate a
// program that we can run. A structured attribute is returned as MLIR_STRUCT and split by asm_add(): bytecode has its
// fields as attributes of the operation, and the importer should see one form.
#include <assert.h>

#include "hlo/stablehlo/text/parser.h"

// ---------------------------------------------------------------------------------------------------------------------
// Numbers, lists, dictionaries

// An integer of the type in `attribute`. 255 : i8 and -1 : i8 are the same attribute in MLIR, which prints one and
// reads both.
static bool set_integer(AsmParser *parser, const AsmNumber *number, MlirAttribute *attribute) {
    const MlirType *type = attribute->type;
    const bool is_element = type->kind == MLIR_TYPE_ELEMENT;
    const HloTypeKind kind = is_element ? hlo_type_kind(type->element) : HLO_KIND_SIGNED;
    if (is_element && kind == HLO_KIND_FLOAT) {
        uint64_t pattern;
        if (!asm_number_of_bits(parser, number, type->element, &pattern)) return false;
        attribute->kind = MLIR_FLOAT;
        attribute->real = hlo_float_decode(type->element, pattern);
        return true;
    }
    if (is_element && kind != HLO_KIND_COMPLEX) {
        if (kind == HLO_KIND_PRED) attribute->kind = MLIR_BOOL;
        return asm_number_of_type(parser, number, type->element, &attribute->integer);
    }
    if (type->kind != MLIR_TYPE_INDEX && type->kind != MLIR_TYPE_OTHER)
        return asm_fail_at(parser, number->start, "an integer cannot have this type");
    if (number->magnitude > (uint64_t)INT64_MAX + number->negative)
        return asm_fail_at(parser, number->start, "integer out of range");
    attribute->integer = (int64_t)(number->negative ? 0 - number->magnitude : number->magnitude);
    return true;
}

// A number with an optional type after a colon; without one it is an i64 or f64. Bit patterns of floats are integers.
static const MlirAttribute *parse_number(AsmParser *parser) {
    const char *start = parser->at;
    const char *end = start + (*start == '-');
    while (*end == ' ') end++;
    bool hex = end[0] == '0' && end[1] == 'x';
    while (*end >= '0' && *end <= '9') end++;
    bool is_float = !hex && (*end == '.' || (*end | 32) == 'e');
    MlirAttribute attribute = {.kind = is_float ? MLIR_FLOAT : MLIR_INTEGER};
    AsmNumber number = {0};
    if (is_float ? !asm_double(parser, &attribute.real) : !asm_number(parser, &number)) return NULL;
    attribute.type =
        asm_eat(parser, ':') ? asm_type(parser) : mlir_element_type(parser->arena, is_float ? HLO_F64 : HLO_S64);
    if (!attribute.type) return NULL;
    if (!is_float) return set_integer(parser, &number, &attribute) ? asm_make(parser, attribute) : NULL;
    if (attribute.type->kind != MLIR_TYPE_ELEMENT || !hlo_type_is_float(attribute.type->element)) {
        asm_fail_at(parser, start, "a decimal number is not of an integer type");
        return NULL;
    }
    const HloType element = attribute.type->element;
    uint64_t pattern = hlo_float_encode(element, asm_double_of_type(element, attribute.real));
    attribute.real = hlo_float_decode(attribute.type->element, pattern);
    return asm_make(parser, attribute);
}

// [a, b], with the bracket next. An empty list is an array too, which import_ints() treats as an empty list of
// integers.
static const MlirAttribute *parse_array(AsmParser *parser) {
    HLO_VECTOR(const MlirAttribute *) items = {0};
    parser->at++;
    while (!asm_eat(parser, ']')) {
        if (items.count && !asm_expect(parser, ',')) return NULL;
        const MlirAttribute *item = asm_attribute(parser);
        if (!item) return NULL;
        hlo_vector_push(parser->arena, &items, item);
    }
    return asm_make(parser, (MlirAttribute){.kind = MLIR_ARRAY, .items = items.items, .count = items.count});
}

// name, or "name".
static bool parse_key(AsmParser *parser, const char **key) {
    if (asm_peek(parser) == '"') return asm_string(parser, key);
    AsmSlice word = asm_word(parser);
    if (word.length == 0) return asm_expected(parser, "the name of an attribute");
    *key = hlo_arena_string(parser->arena, word.text, word.length);
    return true;
}

// The entries of a dictionary, starting at `{`.
static bool parse_entries(AsmParser *parser, AsmAttributes *entries) {
    if (!asm_expect(parser, '{')) return false;
    for (bool first = true; !asm_eat(parser, '}'); first = false) {
        const char *key = NULL;
        if (!first && !asm_expect(parser, ',')) return false;
        if (!parse_key(parser, &key)) return false;
        const MlirAttribute *value =
            asm_eat(parser, '=') ? asm_attribute(parser) : asm_make(parser, (MlirAttribute){.kind = MLIR_UNIT});
        if (parser->status || !value) return false;
        hlo_vector_push(parser->arena, &entries->names, key);
        hlo_vector_push(parser->arena, &entries->values, value);
    }
    return true;
}

// Keeps the dictionary whole, where asm_dictionary() adds to the attributes of an operation: for arg_attrs, backend
// configurations and the like, whose readers look entries up by mlir_entry().
static const MlirAttribute *parse_dictionary(AsmParser *parser) {
    AsmAttributes entries = {0};
    if (!parse_entries(parser, &entries)) return NULL;
    return asm_make(parser, (MlirAttribute){.kind = MLIR_DICTIONARY,
                                            .keys = entries.names.items,
                                            .items = entries.values.items,
                                            .count = entries.names.count});
}

void asm_add(AsmParser *parser, AsmAttributes *attributes, const char *name, const MlirAttribute *attribute) {
    if (!attribute) return;
    if (attribute->kind == MLIR_STRUCT) {
        for (int64_t i = 0; i < attribute->count; i++) {
            asm_add(parser, attributes, attribute->keys[i], attribute->items[i]);
        }
        return;
    }
    hlo_vector_push(parser->arena, &attributes->names, name);
    hlo_vector_push(parser->arena, &attributes->values, attribute);
}

bool asm_dictionary(AsmParser *parser, AsmAttributes *attributes) {
    AsmAttributes entries = {0};
    if (!parse_entries(parser, &entries)) return false;
    for (int64_t i = 0; i < entries.names.count; i++) {
        asm_add(parser, attributes, entries.names.items[i], entries.values.items[i]);
    }
    return true;
}

static bool parse_array_integer(AsmParser *parser, const MlirType *type, int64_t *value) {
    AsmNumber number;
    if (type->kind != MLIR_TYPE_ELEMENT || hlo_type_is_complex(type->element)) return asm_integer(parser, value);
    return asm_number(parser, &number) && asm_number_of_type(parser, &number, type->element, value);
}

// array<i64: 1, 2>
static const MlirAttribute *parse_dense_array(AsmParser *parser) {
    HloInt64Vector items = {0};
    const MlirType *type = asm_type(parser);
    if (!type) return NULL;
    bool is_pred = type->kind == MLIR_TYPE_ELEMENT && type->element == HLO_PRED;
    bool is_float = type->kind == MLIR_TYPE_ELEMENT && hlo_type_is_float(type->element);
    if (asm_eat(parser, ':')) {
        do {
            int64_t value = 0;
            bool truth;
            double real;
            if (is_float) {
                // Nothing in HLO uses arrays of floats: they are skipped.
                if (!asm_double(parser, &real)) return NULL;
            } else if (is_pred && asm_peek(parser) > '9') {
                if (!asm_bool(parser, &truth)) return NULL;
                value = truth;
            } else if (!parse_array_integer(parser, type, &value)) {
                return NULL;
            }
            hlo_vector_push(parser->arena, &items, value);
        } while (asm_eat(parser, ','));
    }
    if (!asm_expect(parser, '>')) return NULL;
    return asm_make(parser, (MlirAttribute){.kind = MLIR_INTS, .type = type, .ints = {items.items, items.count}});
}

// ---------------------------------------------------------------------------------------------------------------------
// #stablehlo

// The kinds are those of the field lists of mlir/dialect.def: ints, bool, type, or a number of 64 bits.
static const MlirAttribute *field_value(AsmParser *parser, const MlirFieldInfo *field) {
    HloInts ints;
    int64_t integer;
    bool truth;
    if (strncmp(field->kind, "ints", field->kind_length) == 0) {
        if (!asm_int_list(parser, '[', ']', &ints)) return NULL;
        return asm_make(parser, (MlirAttribute){.kind = MLIR_INTS, .ints = ints});
    }
    if (strncmp(field->kind, "bool", field->kind_length) == 0) {
        if (!asm_bool(parser, &truth)) return NULL;
        return asm_make(parser, (MlirAttribute){.kind = MLIR_BOOL, .integer = truth});
    }
    if (strncmp(field->kind, "type", field->kind_length) == 0) {
        const MlirType *type = asm_type(parser);
        return type ? asm_make(parser, (MlirAttribute){.kind = MLIR_TYPE, .type = type}) : NULL;
    }
    if (!asm_integer(parser, &integer)) return NULL;
    const MlirType *type = mlir_element_type(parser->arena, HLO_S64);
    return asm_make(parser, (MlirAttribute){.kind = MLIR_INTEGER, .integer = integer, .type = type});
}

// The value of an omitted field: an empty list, or zero.
static const MlirAttribute *field_default(AsmParser *parser, const MlirFieldInfo *field) {
    if (strncmp(field->kind, "ints", field->kind_length) == 0)
        return asm_make(parser, (MlirAttribute){.kind = MLIR_INTS});
    const MlirType *type = mlir_element_type(parser->arena, HLO_S64);
    return asm_make(parser, (MlirAttribute){.kind = MLIR_INTEGER, .type = type});
}

// The number of the field with this word in a list of mlir/dialect.def; false past its end. There are a dozen fields at
// most, so a map would cost more than it saves.
static bool find_field(const char *fields, AsmSlice word, int64_t *index, MlirFieldInfo *field) {
    for (*index = 0; mlir_next_field(&fields, field); ++*index) {
        if (field->text_length == word.length && memcmp(field->text, word.text, word.length) == 0) return true;
    }
    return false;
}

// Reads the fields of a structure after its `<`. Fields may come in any order and be omitted, as in
// AssemblyFormat.cpp's parseStruct; the result has all of them, in the table's order, so that callers may index it.
// More than MOST_FIELDS cannot occur: the lists are our own table.
static const MlirAttribute *parse_fields(AsmParser *parser, const char *fields) {
    assert(fields);
    enum { MOST_FIELDS = 16 };
    const MlirAttribute *items[MOST_FIELDS] = {0};
    MlirFieldInfo field;
    int64_t index, count = 0;
    while (!asm_eat(parser, '>')) {
        AsmSlice word = asm_word(parser);
        if (!find_field(fields, word, &index, &field) || items[index]) {
            asm_fail_at(parser, word.text, "unknown field, or it is given twice");
            return NULL;
        }
        if (!asm_expect(parser, '=')) return NULL;
        items[index] = field_value(parser, &field);
        if (!items[index]) return NULL;
        if (!asm_eat(parser, ',') && asm_peek(parser) != '>') {
            asm_expected(parser, "',' or '>'");
            return NULL;
        }
    }
    const char **keys = HLO_ARENA_NEW(parser->arena, const char *, MOST_FIELDS);
    for (; mlir_next_field(&fields, &field); count++) {
        keys[count] = hlo_arena_string(parser->arena, field.flat, field.flat_length);
        if (!items[count]) items[count] = field_default(parser, &field);
    }
    const MlirAttribute *const *kept = hlo_arena_copy(parser->arena, items, sizeof(*items) * (size_t)count);
    return asm_make(parser, (MlirAttribute){.kind = MLIR_STRUCT, .keys = keys, .items = kept, .count = count});
}

// [b, 0, 1, f]: the dimension of each role. `batch` and `feature` are the letters of the non-spatial roles. Every
// number from 0 to the largest has to appear once; the bound of 64 only keeps `places` on the stack: no operation has
// that many dimensions.
static bool parse_roles(AsmParser *parser, const char *letters, int64_t *batch, int64_t *feature, HloInts *spatial) {
    assert(letters && batch && feature && spatial);
    enum { MOST_SPATIAL = 64 };
    int64_t places[MOST_SPATIAL], position = 0, largest = -1;
    for (int i = 0; i < MOST_SPATIAL; i++) places[i] = -1;
    *batch = *feature = -1;
    asm_peek(parser);
    const char *start = parser->at;
    if (!asm_expect(parser, '[')) return false;
    for (; !asm_eat(parser, ']'); position++) {
        int64_t number;
        if (position && !asm_expect(parser, ',')) return false;
        char next = asm_peek(parser);
        if (next == letters[0] || next == letters[1]) {
            *(next == letters[0] ? batch : feature) = position;
            parser->at++;
        } else if (next == '?') {
            parser->at++;  // a dimension without a role: such a program is refused when its shapes are checked
        } else {
            const char *where = parser->at;
            if (!asm_integer(parser, &number)) return false;
            if (number < 0 || number >= MOST_SPATIAL)
                return asm_fail_at(parser, where, "spatial dimension %lld is out of range", (long long)number);
            places[number] = position;
            if (number > largest) largest = number;
        }
    }
    for (int64_t i = 0; i <= largest; i++) {
        if (places[i] < 0) return asm_fail_at(parser, start, "spatial dimension %lld is missing", (long long)i);
    }
    if (*batch < 0 || *feature < 0)
        return asm_fail_at(parser, start, "dimension '%c' is missing", letters[*batch < 0 ? 0 : 1]);
    *spatial = hlo_ints(parser->arena, places, largest + 1);
    return true;
}

// Three groups: the input with its roles b and f, the kernel with i and o, the result with b and f again. `keys` are
// the names by which bytecode and the importer know the nine numbers.
const MlirAttribute *asm_convolution_dimensions(AsmParser *parser) {
    static const char *const keys[] = {
        "input_batch_dimension",          "input_feature_dimension",         "input_spatial_dimensions",
        "kernel_input_feature_dimension", "kernel_output_feature_dimension", "kernel_spatial_dimensions",
        "output_batch_dimension",         "output_feature_dimension",        "output_spatial_dimensions"};
    const MlirAttribute **items = HLO_ARENA_NEW(parser->arena, const MlirAttribute *, HLO_COUNT_OF(keys));
    const MlirType *type = mlir_element_type(parser->arena, HLO_S64);
    for (int part = 0; part < 3; part++) {
        int64_t roles[2];
        HloInts spatial;
        if (part == 1 && !asm_expect(parser, 'x')) return NULL;
        if (part == 2 && !asm_eat_mark(parser, "->")) {
            asm_expected(parser, "'->'");
            return NULL;
        }
        if (!parse_roles(parser, part == 1 ? "io" : "bf", &roles[0], &roles[1], &spatial)) return NULL;
        for (int i = 0; i < 2; i++) {
            items[part * 3 + i] =
                asm_make(parser, (MlirAttribute){.kind = MLIR_INTEGER, .integer = roles[i], .type = type});
        }
        items[part * 3 + 2] = asm_make(parser, (MlirAttribute){.kind = MLIR_INTS, .ints = spatial});
    }
    return asm_make(parser,
                    (MlirAttribute){.kind = MLIR_STRUCT, .keys = keys, .items = items, .count = HLO_COUNT_OF(keys)});
}

// <raw input_batch_dimension = 0, ...>: the long spelling, after the word `raw`.
static const MlirAttribute *parse_raw_convolution(AsmParser *parser) {
    static const char fields[] =
        "input_batch_dimension:i64 input_feature_dimension:i64 input_spatial_dimensions:ints "
        "kernel_input_feature_dimension:i64 kernel_output_feature_dimension:i64 kernel_spatial_dimensions:ints "
        "output_batch_dimension:i64 output_feature_dimension:i64 output_spatial_dimensions:ints";
    return parse_fields(parser, fields);
}

// <atol = 1.0, rtol = ..., ulps = 2, mode = #stablehlo.result_accuracy_mode<DEFAULT>>
static const MlirAttribute *parse_accuracy(AsmParser *parser) {
    HloAccuracy *accuracy = HLO_ARENA_NEW(parser->arena, HloAccuracy, 1);
    if (!asm_expect(parser, '<')) return NULL;
    while (!asm_eat_word(parser, "mode")) {
        bool done = asm_eat_word(parser, "atol")   ? asm_expect(parser, '=') && asm_double(parser, &accuracy->atol)
                    : asm_eat_word(parser, "rtol") ? asm_expect(parser, '=') && asm_double(parser, &accuracy->rtol)
                    : asm_eat_word(parser, "ulps") ? asm_expect(parser, '=') && asm_integer(parser, &accuracy->ulps)
                                                   : asm_expected(parser, "atol, rtol, ulps or mode");
        if (!done || !asm_expect(parser, ',')) return NULL;
    }
    const MlirAttribute *mode = asm_expect(parser, '=') ? asm_attribute(parser) : NULL;
    if (!mode || !asm_expect(parser, '>')) return NULL;
    mlir_accuracy_set_mode(accuracy, mode->integer);
    return asm_make(parser, (MlirAttribute){.kind = MLIR_ACCURACY, .accuracy = accuracy});
}

// An alias of custom-call operands is a structure of three fields.
static const MlirAttribute *parse_operand_alias(AsmParser *parser, const char *table) {
    const MlirAttribute *fields = parse_fields(parser, table);
    if (!fields) return NULL;
    const MlirAttribute **lists = HLO_ARENA_NEW(parser->arena, const MlirAttribute *, 2);
    lists[0] = fields->items[0];
    lists[1] = fields->items[2];
    return asm_make(
        parser, (MlirAttribute){.kind = MLIR_ALIAS, .integer = fields->items[1]->integer, .items = lists, .count = 2});
}

// An enumerator: `words` is the row of mlir/dialect.def with all of them, in the order of StableHLO's ordinals.
static const MlirAttribute *parse_word(AsmParser *parser, AsmSlice kind, const char *words) {
    assert(words);
    AsmSlice word = asm_word(parser);
    int64_t number = mlir_word_number(words, word.text, word.length);
    if (number < 0) {
        asm_fail_at(parser, word.text, "'%.*s' is not a valid %.*s", (int)word.length, word.text, (int)kind.length,
                    kind.text);
        return NULL;
    }
    const char *name = hlo_arena_string(parser->arena, kind.text, kind.length);
    return asm_make(parser, (MlirAttribute){.kind = MLIR_ENUM, .integer = number, .string = name});
}

// <2, ?>, or <bounds = [2, ?]> where the attribute is called type_extensions: two spellings of one attribute.
static const MlirAttribute *parse_bounds(AsmParser *parser, bool named) {
    HloInts bounds;
    bool done = named ? asm_expect(parser, '<') && asm_expect_word(parser, "bounds") && asm_expect(parser, '=') &&
                            asm_int_list(parser, '[', ']', &bounds) && asm_expect(parser, '>')
                      : asm_int_list(parser, '<', '>', &bounds);
    return done ? asm_make(parser, (MlirAttribute){.kind = MLIR_BOUNDS, .ints = bounds}) : NULL;
}

// `kind` is the word after `#stablehlo.`. Tries the tables first, then the kinds with their own syntax.
const MlirAttribute *asm_struct(AsmParser *parser, AsmSlice kind) {
    const char *fields = mlir_fields(kind.text, kind.length), *words = mlir_words(kind.text, kind.length);
    if (fields) {
        if (!asm_expect(parser, '<')) return NULL;
        bool is_alias = asm_slice_is(kind, "output_operand_alias");
        return is_alias ? parse_operand_alias(parser, fields) : parse_fields(parser, fields);
    }
    if (words) {
        if (!asm_expect(parser, '<')) return NULL;
        const MlirAttribute *attribute = parse_word(parser, kind, words);
        return attribute && asm_expect(parser, '>') ? attribute : NULL;
    }
    if (asm_slice_is(kind, "conv")) {
        if (!asm_expect(parser, '<')) return NULL;
        if (asm_eat_word(parser, "raw")) return parse_raw_convolution(parser);
        const MlirAttribute *attribute = asm_convolution_dimensions(parser);
        return attribute && asm_expect(parser, '>') ? attribute : NULL;
    }
    if (asm_slice_is(kind, "result_accuracy")) return parse_accuracy(parser);
    if (asm_slice_is(kind, "bounds")) return parse_bounds(parser, false);
    if (asm_slice_is(kind, "type_extensions")) return parse_bounds(parser, true);
    bool known;
    const MlirAttribute *attribute = asm_mesh_attribute(parser, kind, &known);
    if (known) return attribute;
    asm_fail_at(parser, kind.text, "the attribute '%.*s' is unknown", (int)kind.length, kind.text);
    return NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// Attributes that begin with a mark or a word

// Keeps an attribute of an unknown dialect as its text.
static const MlirAttribute *keep_text(AsmParser *parser, const char *start) {
    if (*parser->at == '<') {
        parser->at++;
        if (!asm_skip_balanced(parser, '<')) return NULL;
    }
    const char *text = hlo_arena_string(parser->arena, start, (size_t)(parser->at - start));
    return asm_make(parser, (MlirAttribute){.kind = MLIR_STRING, .string = text, .is_foreign = true});
}

// #stablehlo.gather<...>, #stablehlo<comparison_direction LT>, #sdy.sharding<...>, #alias
// MLIR has two spellings: #dialect.kind<body>, and #dialect<kind body>, which it prints if the mnemonic is not a valid
// identifier. A name without dot or angle bracket is an alias.
static const MlirAttribute *parse_dialect_attribute(AsmParser *parser) {
    const char *start = parser->at++;
    AsmSlice name = asm_word(parser);
    if (name.length == 0) {
        asm_expected(parser, "the name of an attribute");
        return NULL;
    }
    const char *dot = memchr(name.text, '.', name.length);
    size_t prefix = dot ? (size_t)(dot - name.text) : name.length;
    AsmSlice dialect = {name.text, prefix};
    bool known = asm_slice_is(dialect, "stablehlo") || asm_slice_is(dialect, "chlo");
    AsmSlice kind = {dot ? dot + 1 : NULL, dot ? name.length - prefix - 1 : 0};
    if (!dot && *parser->at != '<') return asm_alias(parser, (AsmSlice){start, name.length + 1}, false);
    if (known && dot) return asm_struct(parser, kind);
    bool sdy = asm_slice_is(dialect, "sdy");
    if (sdy && dot) return asm_sdy_attribute(parser, kind);
    if ((!known && !sdy) || dot) return keep_text(parser, start);
    parser->at++;
    kind = asm_word(parser);
    if (sdy) {
        const MlirAttribute *attribute = asm_sdy_attribute(parser, kind);
        return attribute && asm_expect(parser, '>') ? attribute : NULL;
    }
    const char *words = mlir_words(kind.text, kind.length);
    const MlirAttribute *attribute = words ? parse_word(parser, kind, words) : asm_struct(parser, kind);
    return attribute && asm_expect(parser, '>') ? attribute : NULL;
}

static const MlirAttribute *parse_string(AsmParser *parser) {
    MlirAttribute attribute = {.kind = MLIR_STRING};
    if (!asm_string(parser, &attribute.string)) return NULL;
    attribute.string_length = parser->string_length;
    if (asm_eat(parser, ':') && !asm_type(parser)) return NULL;
    return asm_make(parser, attribute);
}

// In a nested reference @a::@b, only the outermost name is kept: HLO has one level of symbols.
static const MlirAttribute *parse_symbol(AsmParser *parser) {
    MlirAttribute attribute = {.kind = MLIR_SYMBOL};
    if (!asm_symbol(parser, &attribute.string)) return NULL;
    const char *nested;
    while (asm_eat_mark(parser, "::")) {
        if (!asm_symbol(parser, &nested)) return NULL;
    }
    return asm_make(parser, attribute);
}

// Words of builtin attributes; any other word may be a type, which is an attribute too (function_type = ...). The order
// matters: `opaque` and the like are not prefixes of types, but types are found by prefixes.
static const MlirAttribute *parse_worded(AsmParser *parser) {
    const char *start = parser->at;
    if (strncmp(start, "loc(", 4) == 0) return asm_location(parser);
    AsmSlice word = asm_word(parser);
    if (asm_slice_is(word, "true") || asm_slice_is(word, "false")) {
        return asm_make(parser, (MlirAttribute){.kind = MLIR_BOOL, .integer = word.length == 4});
    }
    if (asm_slice_is(word, "unit")) return asm_make(parser, (MlirAttribute){.kind = MLIR_UNIT});
    if (asm_slice_is(word, "dense")) return asm_dense(parser);
    if (asm_slice_is(word, "dense_resource")) return asm_dense_resource(parser);
    if (asm_slice_is(word, "array") && asm_eat(parser, '<')) return parse_dense_array(parser);
    bool opaque = asm_slice_is(word, "affine_map") || asm_slice_is(word, "affine_set") ||
                  asm_slice_is(word, "strided") || asm_slice_is(word, "distinct") || asm_slice_is(word, "opaque");
    if (opaque) {
        if (*parser->at == '[') {
            parser->at++;
            if (!asm_skip_balanced(parser, '[')) return NULL;
        }
        return keep_text(parser, start);
    }
    parser->at = start;
    if (asm_at_type(parser)) {
        const MlirType *type = asm_type(parser);
        return type ? asm_make(parser, (MlirAttribute){.kind = MLIR_TYPE, .type = type}) : NULL;
    }
    asm_expected(parser, "an attribute");
    return NULL;
}

static const MlirAttribute *parse_attribute(AsmParser *parser) {
    char next = asm_peek(parser);
    if (next == '[') return parse_array(parser);
    if (next == '{') return parse_dictionary(parser);
    if (next == '"') return parse_string(parser);
    if (next == '@') return parse_symbol(parser);
    if (next == '#') return parse_dialect_attribute(parser);
    if (next == '-' || (next >= '0' && next <= '9')) return parse_number(parser);
    return parse_worded(parser);
}

const MlirAttribute *asm_attribute(AsmParser *parser) {
    if (!asm_enter(parser)) return NULL;
    const MlirAttribute *attribute = parse_attribute(parser);
    asm_leave(parser);
    return attribute;
}
