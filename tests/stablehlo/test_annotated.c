// SPDX-License-Identifier: Apache-2.0
// Random programs with all annotations that an instruction may have: shardings of all forms, frontend attributes with
// awkward characters, names and places, results of another float precision, aliased and donated arguments. Text and
// protobuf keep all of it; StableHLO, through text, generic text and bytecode, keeps the same in each form, and all
// that its operations have a place for. MESHLO_RANDOM_PROGRAMS and MESHLO_RANDOM_SEED as elsewhere.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/proto/proto.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "tests/support/cases.h"
#include "tests/support/random_module.h"

enum { PARTITIONS = 4 };

static void must(HloStatus status, const char *what) {
    cr_assert_null(status, "%s: %s", what, hlo_status_message(status));
}

static uint64_t next(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

// ---- annotations of instructions

// A sharding of an array over four devices: one of the forms that fit any rank, or a tiling of a random dimension.
static void write_sharding(uint64_t *state, int32_t rank, char *out, size_t size) {
    static const char *const plain[] = {"{replicated}", "{maximal device=2}", "{manual}"};
    const uint64_t form = next(state) % 6;
    if (rank == 0 || form < HLO_COUNT_OF(plain)) {
        snprintf(out, size, "%s", plain[form % HLO_COUNT_OF(plain)]);
        return;
    }
    const bool halves = form == 4;  // two tiles, each of which two devices have
    const int32_t tiled = (int32_t)(next(state) % (uint64_t)rank);
    size_t used = (size_t)snprintf(out, size, "{devices=[");
    for (int32_t d = 0; d < rank; d++)
        used += (size_t)snprintf(out + used, size - used, "%s%d", d ? "," : "", d != tiled ? 1 : halves ? 2 : 4);
    snprintf(out + used, size - used, "%s]%s%s}", halves ? ",2" : "", form == 5 ? "3,1,0,2" : "<=[4]",
             halves ? " last_tile_dim_replicate" : "");
}

static HloKeyValues some_attributes(uint64_t *state, HloArena *arena) {
    static const char *const values[] = {"plain",      "",       "a=b,{c}", "with \"quotes\" and \\ and %",
                                         "two\nlines", "ünïcode"};
    const int64_t count = 1 + (int64_t)(next(state) % 2);
    HloKeyValue *items = HLO_ARENA_NEW(arena, HloKeyValue, count);
    for (int64_t i = 0; i < count; i++)
        items[i] = (HloKeyValue){i ? "second.key" : "_first", values[next(state) % HLO_COUNT_OF(values)]};
    return (HloKeyValues){items, count};
}

static const HloMetadata *some_metadata(uint64_t *state, HloArena *arena) {
    static const char *const names[] = {"jit(f)/add", "jit(f)/while[cond=\"x\"]/body", "a b"};
    HloMetadata *metadata = HLO_ARENA_NEW(arena, HloMetadata, 1);
    metadata->op_name = names[next(state) % HLO_COUNT_OF(names)];
    if (next(state) % 2) {
        metadata->source_file = "dir/prog.py";
        metadata->source_line = 1 + (int64_t)(next(state) % 900);
    }
    return metadata;
}

// Another float type for the result, if the module is still a correct one with it.
static void change_precision(HloModule *module, HloInstruction *instruction) {
    const HloShape *old = instruction->shape;
    if (!hlo_shape_is_array(old) || !hlo_op_is(instruction->opcode, HLO_OP_IS_ELEMENTWISE) ||
        (old->type != HLO_F32 && old->type != HLO_F16))
        return;
    instruction->shape = hlo_shape_with_type(module->arena, old, old->type == HLO_F32 ? HLO_BF16 : HLO_F32);
    HloStatus status = hlo_verify(module);
    if (status) instruction->shape = old;
    hlo_status_free(status);
}

static void annotate_instruction(HloModule *module, HloInstruction *instruction, uint64_t *state) {
    const uint64_t dice = next(state);
    if (dice & 1 && hlo_shape_is_array(instruction->shape)) {
        char text[128];
        write_sharding(state, instruction->shape->rank, text, sizeof(text));
        must(hlo_parse_sharding(module->arena, text, strlen(text), &instruction->sharding), text);
    }
    if (dice >> 1 & 1) instruction->frontend_attributes = some_attributes(state, module->arena);
    if (dice >> 2 & 1) instruction->metadata = some_metadata(state, module->arena);
    if (dice >> 3 & 1) change_precision(module, instruction);
}

// Some arguments are donated, and one is the memory of a result of its shape, if there is one: in place of those that
// the program came with.
static void annotate_arguments(HloModule *module, uint64_t *state) {
    const HloInstruction *root = module->entry->root;
    const int64_t count = module->entry->parameters.count;
    HloDonor *donors = HLO_ARENA_NEW(module->arena, HloDonor, count + 1);
    module->aliases = (HloAliases){0};
    module->donor_count = 0;
    for (int64_t p = 0; p < count; p++) {
        const HloShape *shape = module->entry->parameters.items[p]->shape;
        if (!hlo_shape_is_array(shape)) continue;
        if (next(state) % 3 == 0) {
            donors[module->donor_count++] = (HloDonor){.parameter = p};
            continue;
        }
        for (int32_t i = 0; hlo_shape_is_tuple(root->shape) && i < root->shape->element_count; i++) {
            if (module->aliases.count || !hlo_shape_equal(shape, root->shape->elements[i], HLO_COMPARE_IGNORE_LAYOUT))
                continue;
            const int64_t index = i;
            HloAlias *alias = HLO_ARENA_NEW(module->arena, HloAlias, 1);
            *alias = (HloAlias){.output_index = hlo_ints(module->arena, &index, 1), .operand = p};
            module->aliases = (HloAliases){alias, 1};
        }
    }
    module->donors = donors;
}

// Every other argument lies in an order of its own, which its header says; the instruction keeps saying none.
static void annotate_layouts(HloModule *module, uint64_t *state) {
    const int64_t count = module->entry->parameters.count;
    HloArena *arena = module->arena;
    const HloShape **shapes = HLO_ARENA_NEW(arena, const HloShape *, count + 1);
    for (int64_t p = 0; p < count; p++) {
        shapes[p] = hlo_shape_with_default_layout(arena, module->entry->parameters.items[p]->shape);
        if (!hlo_shape_is_array(shapes[p]) || shapes[p]->rank < 2 || next(state) % 2) continue;
        HloLayout *layout = hlo_arena_copy(arena, shapes[p]->layout, sizeof(*layout));
        int64_t *order = hlo_arena_copy(arena, layout->minor_to_major.items, sizeof(int64_t) * (size_t)shapes[p]->rank);
        for (int32_t d = shapes[p]->rank - 1; d > 0; d--) {
            const uint64_t other = next(state) % ((uint64_t)d + 1);
            const int64_t kept = order[d];
            order[d] = order[other];
            order[other] = kept;
        }
        layout->minor_to_major = (HloInts){order, shapes[p]->rank};
        shapes[p] = hlo_shape_with_layout(arena, shapes[p], layout);
    }
    module->entry_parameter_layouts = shapes;
    module->entry_parameter_layout_count = count;
    module->entry_result_layout = hlo_shape_with_default_layout(arena, module->entry->root->shape);
}

static HloModule *annotated(uint64_t seed) {
    HloText text = {0};
    HloModule *module = NULL;
    random_portable_module(seed, 6 + (int)(seed % 25), &text);
    must(hlo_parse(text.data, text.length, NULL, &module), text.data);
    uint64_t state = seed * 7919 + 17;
    module->num_partitions = PARTITIONS;
    module->use_spmd_partitioning = true;
    annotate_arguments(module, &state);
    // Of a root only what it computes goes on: the annotations of a function's end are those of its results.
    for (HloInstruction *at = module->entry->first; at; at = at->next)
        if (at != module->entry->root) annotate_instruction(module, at, &state);
    annotate_layouts(module, &state);
    must(hlo_verify(module), text.data);
    hlo_text_free(&text);
    return module;
}

// ---- what has to come back

// True for instructions that become one operation each, which is read as the same instruction. Broadcasts are none of
// them: those of a clamp's scalar bounds, which are made on the way, get its frontend attributes, as in XLA.
static bool stays_itself(const HloInstruction *instruction) {
    switch (instruction->opcode) {
        case HLO_OP_PARAMETER:
        case HLO_OP_DOT:
        case HLO_OP_TRANSPOSE:
        case HLO_OP_RESHAPE:
        case HLO_OP_SLICE:
        case HLO_OP_PAD:
        case HLO_OP_CONCATENATE:
        case HLO_OP_REVERSE:
        case HLO_OP_IOTA:
        case HLO_OP_REDUCE:
        case HLO_OP_GATHER:
        case HLO_OP_DYNAMIC_SLICE:
        case HLO_OP_DYNAMIC_UPDATE_SLICE: return hlo_shape_is_array(instruction->shape);
        default:
            return hlo_op_is(instruction->opcode, HLO_OP_IS_ELEMENTWISE) && !hlo_is(instruction, HLO_OP_COPY) &&
                   !hlo_is(instruction, HLO_OP_MAP) && !hlo_is(instruction, HLO_OP_CONVERT);
    }
}

static int compare_lines(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// A line an instruction of the entry that stays itself and has annotations: its op, and its annotations. In the order
// of the alphabet, because the order of instructions is not part of a program.
static void list_annotations(const HloModule *module, HloText *list) {
    char *lines[256];
    size_t count = 0;
    for (const HloInstruction *at = module->entry->first; at; at = at->next) {
        if (!stays_itself(at) || !(at->sharding || at->frontend_attributes.count)) continue;
        HloText line = {0};
        hlo_text_format(&line, "%s ", hlo_op_text(at->opcode));
        hlo_shape_print(&line, at->shape, false);
        if (at->sharding) hlo_sharding_print(&line, at->sharding);
        for (int64_t i = 0; i < at->frontend_attributes.count; i++)
            hlo_text_format(&line, " %s=%s;", at->frontend_attributes.items[i].key,
                            at->frontend_attributes.items[i].value);
        cr_assert(!line.failed && count < HLO_COUNT_OF(lines));
        lines[count++] = line.data;
    }
    qsort(lines, count, sizeof(*lines), compare_lines);
    for (size_t i = 0; i < count; i++) {
        hlo_text_format(list, "%s\n", lines[i]);
        free(lines[i]);
    }
}

// The first line in which two texts differ.
static int line_from(const char *text, size_t at, const char **start) {
    while (at > 0 && text[at - 1] != '\n') at--;
    *start = text + at;
    return (int)strcspn(*start, "\n");
}

static void expect_text(const char *wanted, const char *got, uint64_t seed, const char *what) {
    size_t at = 0;
    while (wanted[at] && wanted[at] == got[at]) at++;
    const char *lines[2];
    const int lengths[] = {line_from(wanted, at, &lines[0]), line_from(got, at, &lines[1])};
    cr_assert_eq(wanted[at], got[at], "seed %llu, %s: this line\n%.*s\nis now\n%.*s", (unsigned long long)seed, what,
                 lengths[0], lines[0], lengths[1], lines[1]);
}

static void expect_annotations(const HloModule *module, const HloModule *again, uint64_t seed, const char *what) {
    HloText wanted = {0}, got = {0};
    list_annotations(module, &wanted);
    list_annotations(again, &got);
    expect_text(wanted.data ? wanted.data : "", got.data ? got.data : "", seed, what);
    cr_expect_eq(again->aliases.count, module->aliases.count, "seed %llu, %s", (unsigned long long)seed, what);
    cr_expect_eq(again->donor_count, module->donor_count, "seed %llu, %s", (unsigned long long)seed, what);
    hlo_text_free(&wanted);
    hlo_text_free(&got);
}

// ---- text and protobuf

static HloText print(const HloModule *module, bool metadata) {
    const HloPrintOptions options = metadata ? hlo_print_default() : hlo_print_short();
    HloText text = {0};
    must(hlo_print(module, &options, &text), "print");
    return text;
}

static void expect_same(const HloModule *a, const HloModule *b, bool metadata, uint64_t seed, const char *what) {
    HloText first = print(a, metadata), second = print(b, metadata);
    expect_text(first.data, second.data, seed, what);
    hlo_text_free(&first);
    hlo_text_free(&second);
}

static void expect_layouts(const HloModule *module, const HloModule *again, uint64_t seed) {
    cr_assert_eq(again->entry_parameter_layout_count, module->entry_parameter_layout_count);
    for (int64_t p = 0; p < module->entry_parameter_layout_count; p++)
        cr_expect(
            hlo_shape_equal(again->entry_parameter_layouts[p], module->entry_parameter_layouts[p], HLO_COMPARE_ALL),
            "seed %llu: the layout of argument %lld", (unsigned long long)seed, (long long)p);
}

static HloModule *through_text(const HloModule *module) {
    HloText text = print(module, true);
    HloModule *again = NULL;
    must(hlo_parse(text.data, text.length, NULL, &again), text.data);
    hlo_text_free(&text);
    return again;
}

static void check_text(const HloModule *module, uint64_t seed) {
    // The first pass puts computations into the order in which they are called.
    HloModule *once = through_text(module), *twice = through_text(once);
    expect_same(once, twice, true, seed, "text");
    expect_annotations(module, once, seed, "text");
    expect_layouts(module, once, seed);
    hlo_module_free(once);
    hlo_module_free(twice);
}

static void check_proto(const HloModule *module, uint64_t seed) {
    HloModule *once = through_text(module), *again = NULL;
    HloText bytes = {0};
    must(hlo_module_to_proto_with_config(once, &bytes), "to protobuf");
    must(hlo_module_from_proto(bytes.data, bytes.length, &again), "from protobuf");
    expect_same(once, again, true, seed, "protobuf");
    expect_annotations(module, again, seed, "protobuf");
    expect_layouts(module, again, seed);
    hlo_text_free(&bytes);
    hlo_module_free(once);
    hlo_module_free(again);
}

// ---- StableHLO

typedef enum Door { PRETTY, GENERIC, BYTECODE, DOORS } Door;

static HloModule *through(const HloModule *module, Door door) {
    HloText bytes = {0};
    HloModule *again = NULL;
    if (door == BYTECODE) {
        must(hlo_module_to_stablehlo_bytecode(module, NULL, &bytes), "to bytecode");
        must(hlo_module_from_stablehlo_bytecode(bytes.data, bytes.length, &again), "from bytecode");
    } else {
        must(door == PRETTY ? hlo_module_to_stablehlo_text(module, true, &bytes)
                            : hlo_module_to_stablehlo_generic(module, true, &bytes),
             "to StableHLO");
        must(hlo_module_from_stablehlo_text(bytes.data, bytes.length, "annotated.mlir", &again), bytes.data);
    }
    must(hlo_verify(again), "verify");
    hlo_text_free(&bytes);
    return again;
}

static void check_stablehlo(const HloModule *module, uint64_t seed) {
    HloModule *read[DOORS];
    for (Door door = PRETTY; door < DOORS; door++) {
        read[door] = through(module, door);
        expect_annotations(module, read[door], seed, door == BYTECODE ? "bytecode" : "StableHLO text");
        expect_layouts(module, read[door], seed);
        if (door != PRETTY) expect_same(read[PRETTY], read[door], false, seed, "two doors");
    }
    // A reduction that is written as the name of its operation has no place for the names of its arguments.
    expect_same(read[GENERIC], read[BYTECODE], true, seed, "two doors");
    // The module that was read is written and read as itself.
    HloModule *again = through(read[BYTECODE], BYTECODE);
    expect_same(read[BYTECODE], again, true, seed, "bytecode again");
    hlo_module_free(again);
    for (Door door = PRETTY; door < DOORS; door++) hlo_module_free(read[door]);
}

typedef void Check(const HloModule *module, uint64_t seed);
static Check *const checks[] = {check_text, check_proto, check_stablehlo};

CaseList(stablehlo_annotated, everything_comes_back) {
    return cases_numbered(HLO_COUNT_OF(checks));
}

CaseTest(const int *index, stablehlo_annotated, everything_comes_back, .timeout = 900) {
    const int64_t first = cases_setting("MESHLO_RANDOM_SEED", 0), count = cases_count("MESHLO_RANDOM_PROGRAMS", 400);
    for (int64_t seed = first; seed < first + count; seed++) {
        HloModule *module = annotated((uint64_t)seed);
        checks[*index](module, (uint64_t)seed);
        hlo_module_free(module);
    }
}
