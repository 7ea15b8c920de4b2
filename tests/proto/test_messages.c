// SPDX-License-Identifier: Apache-2.0
// Impossible modules in protobuf, each written out in a small notation of the wire format, and the words that they are
// refused with. The reader is the first to see them: nothing was verified before it.
#include <assert.h>
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/hlo.h"
#include "hlo/proto/proto.h"
#include "hlo/proto/wire.h"
#include "tests/support/cases.h"

// ---------------------------------------------------------------------------------------------------------------------
// The notation: fields `number:value` with blanks between them. A value is a number, "text", [packed numbers], or a
// message in braces.

static const char *write_message(HloText *out, const char *at);

static const char *skip_blanks(const char *at) {
    while (isspace((unsigned char)*at)) at++;
    return at;
}

static const char *write_list(HloText *out, int32_t number, const char *at) {
    size_t mark = hlo_wire_begin(out, number);
    for (at = skip_blanks(at); *at != ']'; at = skip_blanks(at)) {
        char *end;
        hlo_wire_number(out, (uint64_t)strtoll(at, &end, 10));
        cr_assert_neq(end, at, "no number at '%s'", at);
        at = end;
    }
    hlo_wire_end(out, mark);
    return at + 1;
}

static const char *write_value(HloText *out, int32_t number, const char *at) {
    char *end;
    if (*at == '{') {
        size_t mark = hlo_wire_begin(out, number);
        at = write_message(out, at + 1);
        hlo_wire_end(out, mark);
        cr_assert_eq(*at, '}', "no end of the message at '%s'", at);
        return at + 1;
    }
    if (*at == '[') return write_list(out, number, at + 1);
    if (*at == '"') {
        const char *close = strchr(at + 1, '"');
        cr_assert_not_null(close);
        hlo_wire_bytes(out, number, at + 1, (size_t)(close - at - 1));
        return close + 1;
    }
    hlo_wire_varint_always(out, number, (uint64_t)strtoll(at, &end, 10));
    cr_assert_neq(end, at, "no value at '%s'", at);
    return end;
}

static const char *write_message(HloText *out, const char *at) {
    for (at = skip_blanks(at); *at && *at != '}'; at = skip_blanks(at)) {
        char *end;
        long number = strtol(at, &end, 10);
        cr_assert(end != at && *end == ':', "no field at '%s'", at);
        at = write_value(out, (int32_t)number, end + 1);
    }
    return at;
}

// The module of one computation `e`, whose instructions (fields of the computation) are given, and with more fields; an
// entry among these (first) is the only one.
static HloText module_of(const char *instructions, const char *rest) {
    HloText notation = {0}, bytes = {0};
    hlo_text_format(&notation, "1:\"m\" 2:\"e\" 3:{1:\"e\" %s 5:1 6:0} %s %s", instructions,
                    strncmp(rest, "6:", 2) ? "6:1" : "", rest);
    cr_assert_eq(*write_message(&bytes, notation.data), '\0');
    hlo_text_free(&notation);
    return bytes;
}

// ---------------------------------------------------------------------------------------------------------------------
// Cases. Field numbers are those of xla/service/hlo.proto and xla/xla_data.proto: of an instruction 1 name, 2 opcode,
// 3 shape, 8 literal, 9 parameter number, 35 id, 36 operands, 38 called, 40 sharding, 87 groups; of a shape 2 type, 3
// dimensions, 4 elements, 5 layout; types 2 s8, 4 s32, 11 f32, 13 tuple.

typedef struct MessageCase {
    const char *instructions, *rest;
    const char *part;  // of the message; NULL where the module is read
} MessageCase;

#define F32 "3:{2:11}"
#define F32_4 "3:{2:11 3:[4] 5:{1:[0]}}"
#define PARAMETER(more) "2:{1:\"p\" 2:\"parameter\" 3:{2:11} 35:0 " more "}"
#define LAID_OUT(layout) "2:{1:\"p\" 2:\"parameter\" 3:{2:11 3:[4] 5:{1:[0] " layout "}} 35:0}", ""
#define SHARDED(sharding) PARAMETER("40:{" sharding "}"), ""
#define NAMED(named) PARAMETER("40:{14:{" named "}}"), ""
#define MESH "2:{1:{1:\"x\" 2:2} 1:{1:\"y\" 2:4}}"
#define REDUCED(groups)                                        \
    "2:{1:\"q\" 2:\"parameter\" " F32_4                        \
    " 35:7} 2:{1:\"r\" 2:\"all-gather\" "                      \
    "3:{2:11 3:[8] 5:{1:[0]}} 14:[0] 35:0 36:[7] " groups "}", \
        ""
#define UNARY(opcode, more) \
    "2:{1:\"q\" 2:\"parameter\" " F32_4 " 35:7} 2:{1:\"r\" 2:\"" opcode "\" " F32_4 " 35:0 36:[7] " more "}", ""
#define SCHEDULED(schedule) PARAMETER(""), "7:{1:{" schedule "}}"
#define FOUR                                                                       \
    "2:{1:\"a\" 2:\"parameter\" " F32_4 " 35:7} 2:{1:\"b\" 2:\"parameter\" " F32_4 \
    " 9:1 35:8} "                                                                  \
    "2:{1:\"i\" 2:\"parameter\" 3:{2:4} 9:2 35:9} 2:{1:\"j\" 2:\"parameter\" 3:{2:4} 9:3 35:10} "

static const MessageCase cases[] = {
    {PARAMETER(""), "", NULL},
    // instructions and computations
    {"2:{1:\"p\" 3:{2:11} 35:0}", "", "an instruction has no opcode or no shape"},
    {"2:{1:\"p\" 2:\"parameter\" 35:0}", "", "an instruction has no opcode or no shape"},
    {"2:{1:\"p\" 2:\"perimeter\" 3:{2:11} 35:0}", "", "unknown opcode \"perimeter\""},
    {PARAMETER("9:1"), "", "parameter p has number 1"},
    {PARAMETER("9:-1"), "", "parameter p has number -1"},
    {"2:{1:\"p\" 2:\"parameter\" " F32 " 9:1 35:7} 2:{1:\"n\" 2:\"negate\" " F32 " 35:0 36:[7]}", "",
     "computation e has no parameter 0"},
    {"2:{1:\"p\" 2:\"parameter\" " F32 " 35:7}", "", "computation e has no root"},
    {"2:{1:\"n\" 2:\"negate\" " F32 " 35:0 36:[7]} 2:{1:\"p\" 2:\"parameter\" " F32 " 35:7}", "",
     "n uses instruction id 7, which does not precede it"},
    {PARAMETER("37:[5]"), "", "p uses instruction id 5, which does not precede it"},
    {"2:{1:\"p\" 2:\"parameter\" " F32 " 35:7} 2:{1:\"c\" 2:\"call\" " F32 " 35:0 36:[7] 38:[1]}", "",
     "c calls computation id 1, which does not precede it"},  // its own
    {PARAMETER(""), "6:9", "the module has no entry computation"},
    // schedules
    {SCHEDULED("1:1 2:{1:[0]}"), NULL},
    {SCHEDULED("1:1 2:{1:[]}"), "the schedule of e has 0 instructions of 1"},
    {SCHEDULED("1:1"), "the schedule of e has 0 instructions of 1"},
    {SCHEDULED("1:1 2:{1:[5]}"), "the schedule of e names an unknown instruction id"},
    {SCHEDULED("1:3 2:{1:[0]}"), "the schedule names computation id 3, which does not exist"},
    // shapes and literals
    {"2:{1:\"p\" 2:\"parameter\" 3:{2:99} 35:0}", "", "a shape has no element type that exists"},
    {"2:{1:\"p\" 2:\"parameter\" 3:{} 35:0}", "", "a shape has no element type that exists"},
    {LAID_OUT("11:8"), "a layout has a type of indices, but the array is not sparse"},
    {LAID_OUT("11:99"), "a layout has a type of indices"},
    {LAID_OUT("12:4"), "a layout has a type of pointers, but the array is not sparse"},
    {LAID_OUT("10:{2:11 3:[4]}"), "a layout has a physical shape, but the array is not sparse"},
    {LAID_OUT("11:0 12:0 9:[0] 13:[1]"), NULL},
    {"2:{1:\"p\" 2:\"parameter\" 3:{2:11 3:[4] 6:[1 0]} 35:0}", "",
     "a shape of rank 1 says of 2 dimensions whether they are dynamic"},
    {"2:{1:\"p\" 2:\"parameter\" 3:{2:11 3:[-2]} 35:0}", "", "-2"},
    {"2:{1:\"p\" 2:\"parameter\" 3:{2:11 4:{2:11}} 35:0}", "", "a shape of type f32 has 1 elements"},
    {"2:{1:\"p\" 2:\"parameter\" 3:{2:13 3:[2]} 35:0}", "", "a shape of type tuple has dimensions"},
    {"2:{1:\"p\" 2:\"parameter\" 3:{2:11 3:[4 4] 5:{1:[0]}} 35:0}", "", "a shape of rank 2 has a layout of rank 1"},
    {"2:{1:\"p\" 2:\"parameter\" 3:{2:11 3:[4 4] 5:{1:[0 0]}} 35:0}", "",
     "the order of a layout is not a permutation of 2 dimensions"},
    {"2:{1:\"p\" 2:\"parameter\" 3:{2:11 3:[4 4] 5:{1:[0 2]}} 35:0}", "",
     "the order of a layout is not a permutation of 2 dimensions"},
    {"2:{1:\"c\" 2:\"constant\" 3:{2:2} 35:0 8:{1:{2:2} 15:\"a\"}}", "", NULL},
    {"2:{1:\"c\" 2:\"constant\" 3:{2:2} 35:0 8:{15:\"a\"}}", "", "a literal has no shape"},
    {"2:{1:\"c\" 2:\"constant\" 3:{2:2 3:[4]} 35:0 8:{1:{2:2 3:[4]} 15:\"abc\"}}", "",
     "a literal of 4 bytes comes with 3"},
    {"2:{1:\"c\" 2:\"constant\" 3:{2:2 3:[9000]} 35:0 8:{1:{2:2 3:[9000]} 15:\"abc\"}}", "",
     "a literal claims more elements than its bytes can hold"},
    {"2:{1:\"c\" 2:\"constant\" 3:{2:13 4:{2:2} 4:{2:2}} 35:0 8:{1:{2:13 4:{2:2} 4:{2:2}} 10:{1:{2:2} 15:\"a\"}}}", "",
     "a tuple literal of 2 elements comes with 1"},
    {"2:{1:\"c\" 2:\"constant\" 3:{2:13 4:{2:2}} 35:0 8:{1:{2:13 4:{2:2}} 10:{15:\"a\"}}}", "",
     "a literal has no shape"},
    // enumerators by name and by number
    {UNARY("reduce-precision", "18:8 19:7"), NULL},
    {"2:{1:\"q\" 2:\"parameter\" " F32_4 " 35:7} 2:{1:\"r\" 2:\"compare\" 3:{2:1 3:[4] 5:{1:[0]}} 35:0 36:[7 7] "
     "63:\"LESS\"}",
     "", "unknown ComparisonDirection \"LESS\""},
    {UNARY("fft", "31:9 32:[4]"), "unknown FftType number 9"},
    {"2:{1:\"q\" 2:\"parameter\" 3:{2:11 3:[4 4] 5:{1:[1 0]}} 35:7} 2:{1:\"r\" 2:\"dot\" 3:{2:11 3:[4 4] 5:{1:[1 0]}} "
     "35:0 36:[7 7] 30:{1:[1] 2:[0]} 51:{1:[0 77]}}",
     "", "unknown precision 77"},
    {"2:{1:\"q\" 2:\"parameter\" 3:{2:11 3:[4 4] 5:{1:[1 0]}} 35:7} 2:{1:\"r\" 2:\"dot\" 3:{2:11 3:[4 4] 5:{1:[1 0]}} "
     "35:0 36:[7 7] 30:{1:[1] 2:[0]} 51:{1:[-1 0]}}",
     "", "unknown precision -1"},
    // in-place collective permutes
    {FOUR "2:{1:\"r\" 2:\"collective-permute\" " F32_4 " 35:0 36:[7 8 9 10] 52:{1:0 2:1} 20:[2]}", "", NULL},
    {FOUR "2:{1:\"r\" 2:\"collective-permute\" " F32_4 " 35:0 36:[7] 52:{1:0 2:1} 20:[2]}", "",
     "r has slice sizes, but not the four operands of the in-place form"},
    {FOUR "2:{1:\"t\" 2:\"tuple\" 3:{2:13 4:{2:11 3:[4]} 4:{2:11 3:[4]}} 35:11 36:[7 8]} "
          "2:{1:\"u\" 2:\"tuple\" 3:{2:13 4:{2:4} 4:{2:4}} 35:12 36:[9 10]} 2:{1:\"r\" 2:\"collective-permute\" "
          "3:{2:13 4:{2:11 3:[4]} 4:{2:11 3:[4]}} 35:0 36:[11 11 12 12] 52:{1:0 2:1} 20:[2]}",
     "", "r has too few slice sizes"},
    // shardings
    {SHARDED("1:0"), NULL},
    {SHARDED("1:99"), "unknown sharding type 99"},
    {SHARDED("1:1 4:[0 1]"), "a maximal sharding names 2 devices"},
    {SHARDED("1:1"), "a maximal sharding names 0 devices"},
    {SHARDED("1:3 3:[0]"), "a sharding has a tile dimension of size 0"},
    {SHARDED("1:3 3:[2305843009213693952 8]"), "a sharding has a tile dimension of size 8"},
    {SHARDED("1:3 3:[2] 4:[0]"), "a sharding of 2 tiles names 1 devices"},
    {SHARDED("1:3 3:[2]"), "a sharding of 2 tiles names 0 devices"},
    {SHARDED("1:3 3:[2] 4:[0 1] 6:1 8:[0]"), "a sharding of 1 tile dimensions has 1 subgroup dimensions"},
    {SHARDED("1:3 3:[2] 4:[0 1] 8:[0 4]"), "a sharding of 1 tile dimensions has 2 subgroup dimensions"},
    {SHARDED("1:3 3:[2] 4:[0 1] 8:[99]"), "unknown subgroup type 99"},
    {SHARDED("1:3 3:[2 2] 9:[4] 8:[2]"), "unknown subgroup type 2"},
    {SHARDED("1:3 3:[2 2] 9:[4] 8:[5]"), "unknown subgroup type 5"},
    {SHARDED("1:3 3:[2 2] 9:[4] 6:1 8:[0]"), "has both subgroups and a replicated last tile dimension"},
    {SHARDED("1:3 3:[2] 9:[0]"), "an iota device order has a dimension of size 0"},
    {SHARDED("1:3 3:[2] 9:[4611686018427387904 4]"), "an iota device order has a dimension of size 4"},
    {SHARDED("1:3 3:[2] 9:[4]"), "an iota device order has 4 devices for 2 tiles"},
    {SHARDED("1:3 3:[2] 9:[2] 10:[0 1]"), "an iota device order of 1 dimensions has a transpose of 2"},
    {SHARDED("1:3 3:[2] 9:[2 1] 10:[0 0]"), "the transpose of an iota device order is not a permutation"},
    {SHARDED("1:3 3:[2] 9:[2 1] 10:[0 2]"), "the transpose of an iota device order is not a permutation"},
    {SHARDED("1:3 3:[1] 9:[1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1]"),
     "an iota device order has more than 32 dimensions"},
    // meshes
    {NAMED(MESH), NULL},
    {NAMED("2:{1:{1:\"x\" 2:0}}"), "mesh axis \"x\" has size 0"},
    {NAMED("2:{1:{1:\"x\" 2:-4}}"), "mesh axis \"x\" has size -4"},
    {NAMED("2:{1:{1:\"x\" 2:4294967296} 1:{1:\"y\" 2:4294967296}}"), "of size 4294967296"},
    {NAMED("2:{1:{1:\"x\" 2:2} 2:[0 1 2]}"), "a mesh of 2 devices lists 3"},
    {NAMED("2:{1:{1:\"x\" 2:2} 3:{1:[3]}}"), "an iota device order has 3 devices for 2 tiles"},
    {NAMED(MESH " 4:{1:2}"), "a sharding names an axis that its mesh does not have"},
    {NAMED(MESH " 5:{1:-1}"), "a sharding names an axis that its mesh does not have"},
    {NAMED(MESH " 7:{1:1 2:{1:1 2:3}}"), "a sharding names an axis that its mesh does not have"},
    {NAMED(MESH " 3:{1:{1:1 2:{1:4 2:4}}}"), "a sharding names an axis that its mesh does not have"},
    {NAMED(MESH " 3:{1:{1:1 2:{1:0 2:2}}}"), "a sharding names an axis that its mesh does not have"},
    {NAMED("4:{1:0} " MESH), NULL},  // the mesh may come last
    // replica groups
    {REDUCED("87:{1:{1:[0 1]}}"), NULL},
    {REDUCED("87:{2:{1:0 2:2 3:[2]}}"), "iota replica groups of 0 by 2"},
    {REDUCED("87:{2:{1:1 2:-2 3:[2]}}"), "iota replica groups of 1 by -2"},
    {REDUCED("87:{2:{1:4294967296 2:4294967296 3:[2]}}"), "iota replica groups of 4294967296 by 4294967296"},
    {REDUCED("87:{2:{1:1 2:2 3:[3]}}"), "an iota device order has 3 devices for 2 tiles"},
    {REDUCED("87:{2:{1:1 2:2 3:[2] 4:[1]}}"), "the transpose of an iota device order is not a permutation"},
    {REDUCED("87:{3:{1:{1:{1:\"x\" 2:2}} 2:{1:0}}}"), NULL},
    {REDUCED("87:{3:{1:{1:{1:\"x\" 2:2}} 2:{1:1}}}"), "replica groups name an axis that their mesh does not have"},
    {REDUCED("87:{3:{1:{1:{1:\"x\" 2:2}} 2:{1:0 2:{1:1 2:4}}}}"),
     "replica groups name an axis that their mesh does not have"},
};

CaseList(proto_messages, say_why_they_are_refused) {
    return cases_numbered(HLO_COUNT_OF(cases));
}

CaseTest(const int *index, proto_messages, say_why_they_are_refused) {
    const MessageCase *message = &cases[*index];
    HloText bytes = module_of(message->instructions, message->rest);
    HloModule *module = NULL;
    HloStatus status = hlo_module_from_proto(bytes.data, bytes.length, &module);
    if (message->part) {
        cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "%s is taken", message->instructions);
        cr_expect(strstr(hlo_status_message(status), message->part), "%s: no '%s' in '%s'", message->instructions,
                  message->part, hlo_status_message(status));
        cr_expect_null(module);
    } else {
        cr_expect_null(status, "%s: %s", message->instructions, hlo_status_message(status));
    }
    hlo_status_free(status);
    hlo_module_free(module);
    hlo_text_free(&bytes);
}

// Fields that a reader must not pass over, with XLA's answers for those that it reads.
typedef struct MeaningCase {
    const char *instruction;  // the last one, whose id is 0
    const char *refused;      // part of the message; NULL where it is read
    const char *text;         // part of the module as text
} MeaningCase;

#define OPERAND "2:{1:\"q\" 2:\"parameter\" " F32_4 " 35:7} "
#define LAST_OF(opcode, more) "2:{1:\"r\" 2:\"" opcode "\" " F32_4 " 35:0 36:[7] " more "}"
#define CONSTANT(more) "2:{1:\"k\" 2:\"constant\" 3:{2:11 3:[1] 6:[1] 5:{1:[0]}} 35:0 8:{" more "}}"

static const MeaningCase meanings[] = {
    {LAST_OF("abs", "98:{1:{1:1 2:4}}"), "r: abs: sparse operands (sparsity_config) are not supported", NULL},
    {LAST_OF("convolution", "98:{2:{1:1 2:4}}"), "convolution: sparse operands (sparsity_config)", NULL},
    {LAST_OF("dot", "86:{1:1 2:0}"), "dot: sparse operands (dot_sparsity) are not supported", NULL},
    {LAST_OF("abs", "98:{}"), NULL, "abs(%q)"},
    {LAST_OF("abs", "100:1"), "abs: field 100 of an instruction is newer than this reader", NULL},
    {LAST_OF("abs", "78:1 26:3"), NULL, "abs(%q)"},  // removed, and of another opcode
    {LAST_OF("convolution", "51:{2:3}"), "field 2 of field 51 of an instruction is not supported", NULL},
    {LAST_OF("convolution", "51:{2:0}"), NULL, "convolution(%q)"},
    {LAST_OF("gather", "33:{1:0 7:1}"), "field 7 of field 33 of an instruction is not supported", NULL},
    {LAST_OF("all-reduce", "45:7"), NULL, "channel_id=7"},
    {LAST_OF("all-reduce", "26:7 45:0"), NULL, "channel_id=7"},
    {LAST_OF("all-reduce", "26:7 45:7"), "all-reduce has both a channel_id and an all_reduce_id", NULL},
    {LAST_OF("reduce-window", "15:{1:{1:2 2:1 5:1 6:1}}"), NULL, "window={size=2}"},
    {LAST_OF("reduce-window", "15:{1:{1:2}}"), NULL, "window={size=2 stride=0 lhs_dilate=0 rhs_dilate=0}"},
    {LAST_OF("copy-start", "73:1"), NULL, "cross_program_prefetch_index=0"},
    {LAST_OF("copy-start", "73:1 80:2"), NULL, "cross_program_prefetch_index=2"},
    {CONSTANT("1:{2:11 3:[1] 6:[1] 5:{1:[0]}} 34:[1]"), "a literal with dynamic_sizes is not supported", NULL},
};

Test(proto_messages, bug_fields_with_a_meaning_were_passed_over) {
    for (size_t i = 0; i < HLO_COUNT_OF(meanings); i++) {
        HloText instructions = {0}, text = {0};
        hlo_text_format(&instructions, OPERAND "%s", meanings[i].instruction);
        HloText bytes = module_of(instructions.data, "");
        HloModule *module = NULL;
        HloStatus status = hlo_module_from_proto(bytes.data, bytes.length, &module);
        cr_expect_eq(status != NULL, meanings[i].refused != NULL, "%s: %s", meanings[i].instruction,
                     hlo_status_message(status));
        if (status) {
            cr_expect(strstr(hlo_status_message(status), meanings[i].refused), "%s: %s", meanings[i].instruction,
                      hlo_status_message(status));
        } else {
            cr_assert_null(hlo_print(module, NULL, &text));
            cr_expect(strstr(text.data, meanings[i].text), "no '%s' in %s", meanings[i].text, text.data);
        }
        hlo_status_free(status);
        hlo_module_free(module);
        hlo_text_free(&text);
        hlo_text_free(&bytes);
        hlo_text_free(&instructions);
    }
}

// Orders that writers may leave unsimplified, and tiles on one device, printed as text that is not read.
Test(proto_messages, bug_shardings_of_messages_print_as_text_that_reads_back) {
    static const struct {
        const char *sharding, *printed;
    } forms[] = {{"1:3 3:[4] 9:[2 2] 10:[0 1]", "{devices=[4]<=[4]}"},
                 {"1:3 3:[4] 9:[2 2]", "{devices=[4]<=[4]}"},
                 {"1:3 3:[2] 9:[2 1] 10:[1 0]", "{devices=[2]<=[2]}"},
                 {"1:3 3:[4] 9:[2 2] 10:[1 0]", "{devices=[4]<=[2,2]T(1,0)}"},
                 {"1:3 3:[1] 4:[0]", "{replicated}"},
                 {"1:3 3:[1] 9:[1] 10:[0]", "{replicated}"},
                 {"1:3 4:[0]", "{replicated}"},
                 {"14:{2:{1:{1:\"x\" 2:4} 3:{1:[2 2] 2:[0 1]}} 3:{1:{1:0} 2:1}}", "{mesh['x'=4], [{'x'}]}"}};
    for (size_t i = 0; i < HLO_COUNT_OF(forms); i++) {
        HloText bytes = {0}, text = {0};
        HloArena *arena = hlo_arena_new();
        const HloSharding *sharding = NULL, *again = NULL;
        write_message(&bytes, forms[i].sharding);
        cr_assert_null(hlo_sharding_from_proto(arena, bytes.data, bytes.length, &sharding), "%s", forms[i].sharding);
        hlo_sharding_print(&text, sharding);
        cr_expect_str_eq(text.data, forms[i].printed);
        cr_assert_null(hlo_parse_sharding(arena, text.data, text.length, &again), "%s", text.data);
        cr_expect(hlo_sharding_equal(sharding, again), "%s", text.data);
        hlo_text_free(&bytes);
        hlo_text_free(&text);
        hlo_arena_free(arena);
    }
}

// The levels of all that nests without bound are counted: shapes in shapes, literals and shardings in their own kind.
Test(proto_messages, bug_a_module_without_a_name_was_printed_as_text_that_cannot_be_read) {
    HloText bytes = module_of(PARAMETER(""), "1:\"\""), text = {0};
    HloModule *module = NULL, *again = NULL;
    cr_assert_null(hlo_module_from_proto(bytes.data, bytes.length, &module));
    cr_assert_null(hlo_print(module, NULL, &text));
    cr_expect(strstr(text.data, "HloModule _"), "%s", text.data);
    HloStatus status = hlo_parse(text.data, text.length, NULL, &again);
    cr_expect_null(status, "%s", hlo_status_message(status));
    hlo_status_free(status);
    hlo_module_free(again);
    hlo_module_free(module);
    hlo_text_free(&text);
    hlo_text_free(&bytes);
}

Test(proto_messages, of_64_levels_are_read_and_no_deeper) {
    static const struct {
        const char *before, *level, *innermost, *after;
    } kinds[] = {
        {"2:{1:\"p\" 2:\"parameter\" 3:{", "2:13 4:{", "2:11", "} 35:0}"},
        {"2:{1:\"p\" 2:\"parameter\" 3:{2:11} 35:0 40:{", "1:2 5:{", "1:0", "}}"},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(kinds); i++) {
        for (int depth = 60; depth < 70; depth++) {
            HloText notation = {0};
            hlo_text_string(&notation, kinds[i].before);
            for (int level = 1; level < depth; level++) hlo_text_string(&notation, kinds[i].level);
            hlo_text_string(&notation, kinds[i].innermost);
            for (int level = 1; level < depth; level++) hlo_text_char(&notation, '}');
            hlo_text_string(&notation, kinds[i].after);
            HloText bytes = module_of(notation.data, "");
            HloModule *module = NULL;
            HloStatus status = hlo_module_from_proto(bytes.data, bytes.length, &module);
            if (depth <= 64) {
                cr_expect_null(status, "kind %zu, %d levels: %s", i, depth, hlo_status_message(status));
            } else {
                cr_expect(strstr(hlo_status_message(status), "nest deeper than 64 levels"), "kind %zu, %d levels: %s",
                          i, depth, hlo_status_message(status));
            }
            hlo_status_free(status);
            hlo_module_free(module);
            hlo_text_free(&bytes);
            hlo_text_free(&notation);
        }
    }
}

// Bytes that are no message: the place of the first bad one is named.
Test(proto_messages, malformed_bytes_are_named_by_their_position) {
    static const struct {
        const char *bytes;
        size_t length;
        const char *part;
    } inputs[] = {
        {"\x0a\x01m\x12", 4, "malformed protobuf at byte 4: "},  // a tag without value
        {"\x0a\x01m\x12\x05"
         "e",
         6, "malformed protobuf at byte 5: "},                // a length beyond the end
        {"\x0a\x01m\x00", 4, "malformed protobuf at byte "},  // field 0
        {"\x0a\x01m\x33", 4, "malformed protobuf at byte "},  // a group, which protobuf dropped
        {"\x0a\x01m\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 15, "malformed protobuf at byte "},
        {"\x0a\x01m\x35\x01\x02", 6, "malformed protobuf at byte "},      // a fixed32 of two bytes
        {"\x0a\x01m\x31\x01\x02\x03", 7, "malformed protobuf at byte "},  // a fixed64 of three
    };
    for (size_t i = 0; i < HLO_COUNT_OF(inputs); i++) {
        HloModule *module = NULL;
        HloStatus status = hlo_module_from_proto(inputs[i].bytes, inputs[i].length, &module);
        cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "input %zu", i);
        cr_expect(strstr(hlo_status_message(status), inputs[i].part), "input %zu: %s", i, hlo_status_message(status));
        hlo_status_free(status);
    }
}

Test(proto_messages, a_module_without_entry_is_not_written) {
    HloModule *module = hlo_module_new("m");
    HloText bytes = {0};
    HloStatus status = hlo_module_to_proto(module, &bytes);
    cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    cr_expect_str_eq(hlo_status_message(status), "a module without entry computation has no protobuf form");
    hlo_status_free(status);
    hlo_text_free(&bytes);
    hlo_module_free(module);
}
