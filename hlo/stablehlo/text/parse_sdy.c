// SPDX-License-Identifier: Apache-2.0
// Reads attributes of shardy in MLIR text: meshes, shardings, lists of axes. Source: shardy/dialect/sdy/ir/attrs.td,
// parsers.cc. They become attributes of kind MLIR_SDY with the codes and the members that shardy's bytecode has (see
// mlir/mlir.h), so that import/sharding.c reads one form. A sharding rule is kept as its text.
#include <assert.h>

#include "hlo/stablehlo/text/parser.h"

typedef HLO_VECTOR(const MlirAttribute *) AttributeList;

// Makes a list with its code.
static const MlirAttribute *make_sdy(AsmParser *parser, MlirSdyCode code, const AttributeList *items) {
    return asm_make(parser,
                    (MlirAttribute){.kind = MLIR_SDY, .code = code, .items = items->items, .count = items->count});
}

// Turns the axis into a part of itself: sizes[1] devices, with sizes[0] devices before a step.
static void set_part(AsmParser *parser, const int64_t sizes[2], MlirAttribute *axis) {
    const MlirAttribute **part = HLO_ARENA_NEW(parser->arena, const MlirAttribute *, 1);
    *part = asm_make(
        parser,
        (MlirAttribute){.kind = MLIR_SDY, .code = MLIR_SDY_SUB_AXIS, .ints = hlo_ints(parser->arena, sizes, 2)});
    axis->items = part;
    axis->count = 1;
}

// "a" or "a":(2)4
// A part `"a":(m)k` of an axis: k devices, with m devices before a step (Shardy calls them size and pre-size).
static const MlirAttribute *parse_axis(AsmParser *parser) {
    MlirAttribute axis = {.kind = MLIR_SDY, .code = MLIR_SDY_AXIS_REF};
    int64_t sizes[2];
    if (!asm_string(parser, &axis.string)) return NULL;
    if (!asm_eat(parser, ':')) return asm_make(parser, axis);
    bool done = asm_expect(parser, '(') && asm_integer(parser, &sizes[0]) && asm_expect(parser, ')') &&
                asm_integer(parser, &sizes[1]);
    if (!done) return NULL;
    set_part(parser, sizes, &axis);
    return asm_make(parser, axis);
}

// {"a", "b":(1)2, ?}; `open` is NULL where a question mark is not allowed.
static bool parse_axes(AsmParser *parser, AttributeList *axes, bool *open) {
    if (!asm_expect(parser, '{')) return false;
    for (bool first = true; !asm_eat(parser, '}'); first = false) {
        if (!first && !asm_expect(parser, ',')) return false;
        if (open && asm_eat(parser, '?')) {
            *open = true;
            return asm_expect(parser, '}');
        }
        const MlirAttribute *axis = parse_axis(parser);
        if (!axis) return false;
        hlo_vector_push(parser->arena, axes, axis);
    }
    return true;
}

// {"a", ?}p1
// A question mark leaves the dimension open to propagation; p1 is the priority, where lower ones come first.
static const MlirAttribute *parse_dimension(AsmParser *parser) {
    AttributeList axes = {0};
    bool open = false;
    int64_t flags[2] = {1, -1};
    if (!parse_axes(parser, &axes, &open)) return NULL;
    flags[0] = !open;
    if (*parser->at == 'p') {
        parser->at++;
        if (!asm_integer(parser, &flags[1])) return NULL;
    }
    return asm_make(parser, (MlirAttribute){.kind = MLIR_SDY,
                                            .code = MLIR_SDY_DIM_SHARDING,
                                            .items = axes.items,
                                            .count = axes.count,
                                            .ints = hlo_ints(parser->arena, flags, 2)});
}

static const MlirAttribute *list_of(AsmParser *parser, const AttributeList *items) {
    return asm_make(parser, (MlirAttribute){.kind = MLIR_ARRAY, .items = items->items, .count = items->count});
}

// , replicated={...}, unreduced={...}
// Unreduced axes have partial sums. HLO's shardings cannot express maxima and minima, which are refused by name.
static bool parse_axis_sets(AsmParser *parser, AttributeList *replicated, AttributeList *unreduced) {
    while (asm_eat(parser, ',')) {
        bool is_replicated = asm_eat_word(parser, "replicated");
        if (!is_replicated && !asm_expect_word(parser, "unreduced")) return false;
        // Shardy's parser accepts unreduced axes without the mark, too.
        const bool has_mark = asm_eat(parser, '=');
        if (is_replicated && !has_mark) return asm_expected(parser, "'='");
        bool other = !is_replicated && (asm_eat_word(parser, "max") || asm_eat_word(parser, "min"));
        if (other) return asm_fail_at(parser, parser->at, "axes with an unreduced maximum or minimum");
        if (!is_replicated) asm_eat_word(parser, "sum");
        if (!parse_axes(parser, is_replicated ? replicated : unreduced, NULL)) return false;
    }
    return true;
}

// The mesh may be written out instead of named: `<mesh<["a"=2]>, [...]>`.
const MlirAttribute *asm_sdy_sharding(AsmParser *parser) {
    AttributeList dims = {0}, replicated = {0}, unreduced = {0};
    if (!asm_expect(parser, '<')) return NULL;
    const MlirAttribute *mesh = asm_eat_word(parser, "mesh") ? asm_sdy_mesh(parser) : asm_attribute(parser);
    if (!mesh || !asm_expect(parser, ',') || !asm_expect(parser, '[')) return NULL;
    while (!asm_eat(parser, ']')) {
        if (dims.count && !asm_expect(parser, ',')) return NULL;
        const MlirAttribute *dimension = parse_dimension(parser);
        if (!dimension) return NULL;
        hlo_vector_push(parser->arena, &dims, dimension);
    }
    if (!parse_axis_sets(parser, &replicated, &unreduced) || !asm_expect(parser, '>')) return NULL;
    const MlirAttribute **parts = HLO_ARENA_NEW(parser->arena, const MlirAttribute *, 4);
    parts[0] = mesh;
    parts[1] = list_of(parser, &dims);
    parts[2] = list_of(parser, &replicated);
    parts[3] = list_of(parser, &unreduced);
    return asm_make(parser, (MlirAttribute){.kind = MLIR_SDY, .code = MLIR_SDY_SHARDING, .items = parts, .count = 4});
}

const MlirAttribute *asm_sdy_sharding_list(AsmParser *parser) {
    AttributeList shardings = {0};
    if (!asm_expect(parser, '[')) return NULL;
    while (!asm_eat(parser, ']')) {
        if (shardings.count && !asm_expect(parser, ',')) return NULL;
        const MlirAttribute *sharding = asm_sdy_sharding(parser);
        if (!sharding) return NULL;
        hlo_vector_push(parser->arena, &shardings, sharding);
    }
    return make_sdy(parser, MLIR_SDY_PER_VALUE, &shardings);
}

const MlirAttribute *asm_sdy_axes(AsmParser *parser) {
    AttributeList axes = {0};
    if (!asm_expect(parser, '{')) return NULL;
    while (!asm_eat(parser, '}')) {
        MlirAttribute name = {.kind = MLIR_STRING};
        if (axes.count && !asm_expect(parser, ',')) return NULL;
        if (!asm_string(parser, &name.string)) return NULL;
        hlo_vector_push(parser->arena, &axes, asm_make(parser, name));
    }
    return make_sdy(parser, MLIR_SDY_MANUAL_AXES, &axes);
}

// Without device_ids, the devices are numbered along the axes, the last one fastest.
const MlirAttribute *asm_sdy_mesh(AsmParser *parser) {
    AttributeList axes = {0};
    MlirAttribute mesh = {.kind = MLIR_SDY, .code = MLIR_SDY_MESH};
    if (!asm_expect(parser, '<') || !asm_expect(parser, '[')) return NULL;
    while (!asm_eat(parser, ']')) {
        MlirAttribute axis = {.kind = MLIR_SDY, .code = MLIR_SDY_MESH_AXIS};
        int64_t size;
        if (axes.count && !asm_expect(parser, ',')) return NULL;
        if (!asm_string(parser, &axis.string) || !asm_expect(parser, '=') || !asm_integer(parser, &size)) return NULL;
        axis.ints = hlo_ints(parser->arena, &size, 1);
        hlo_vector_push(parser->arena, &axes, asm_make(parser, axis));
    }
    if (asm_eat(parser, ',')) {
        bool done = asm_expect_word(parser, "device_ids") && asm_expect(parser, '=') &&
                    asm_int_list(parser, '[', ']', &mesh.ints);
        if (!done) return NULL;
    }
    mesh.items = axes.items;
    mesh.count = axes.count;
    return asm_expect(parser, '>') ? asm_make(parser, mesh) : NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// StableHLO's variants for replica groups, with named fields

// `<name = "x"`, and the comma after it if there is one.
static bool parse_named(AsmParser *parser, const char **name, bool *more) {
    bool done = asm_expect(parser, '<') && asm_expect_word(parser, "name") && asm_expect(parser, '=') &&
                asm_string(parser, name);
    *more = done && asm_eat(parser, ',');
    return done;
}

// <name = "x", sub_axis_info = (1)2>
static const MlirAttribute *parse_axis_ref(AsmParser *parser) {
    MlirAttribute axis = {.kind = MLIR_SDY, .code = MLIR_SDY_AXIS_REF};
    int64_t sizes[2];
    bool more;
    if (!parse_named(parser, &axis.string, &more)) return NULL;
    if (more) {
        bool done = asm_expect_word(parser, "sub_axis_info") && asm_expect(parser, '=') && asm_expect(parser, '(') &&
                    asm_integer(parser, &sizes[0]) && asm_expect(parser, ')') && asm_integer(parser, &sizes[1]);
        if (!done) return NULL;
        set_part(parser, sizes, &axis);
    }
    return asm_expect(parser, '>') ? asm_make(parser, axis) : NULL;
}

// <name = "x", size = 2>
static const MlirAttribute *parse_mesh_axis(AsmParser *parser) {
    MlirAttribute axis = {.kind = MLIR_SDY, .code = MLIR_SDY_MESH_AXIS};
    int64_t size;
    bool more;
    bool done = parse_named(parser, &axis.string, &more) && (more || asm_expect(parser, ',')) &&
                asm_expect_word(parser, "size") && asm_expect(parser, '=') && asm_integer(parser, &size) &&
                asm_expect(parser, '>');
    axis.ints = done ? hlo_ints(parser->arena, &size, 1) : (HloInts){0};
    return done ? asm_make(parser, axis) : NULL;
}

// <axes=[<name = "x", size = 2>], device_ids=dense<[1, 0]> : tensor<2xi64>>
// The devices are a tensor here, where sdy has a list of numbers.
static const MlirAttribute *parse_mesh(AsmParser *parser) {
    AttributeList axes = {0};
    HloInt64Vector devices = {0};
    bool done = asm_expect(parser, '<') && asm_expect_word(parser, "axes") && asm_expect(parser, '=') &&
                asm_expect(parser, '[');
    while (done && !asm_eat(parser, ']')) {
        if (axes.count && !asm_expect(parser, ',')) return NULL;
        const MlirAttribute *axis = asm_peek(parser) == '<' ? parse_mesh_axis(parser) : asm_attribute(parser);
        if (!axis) return NULL;
        hlo_vector_push(parser->arena, &axes, axis);
    }
    if (done && asm_eat(parser, ',')) {
        if (!asm_expect_word(parser, "device_ids") || !asm_expect(parser, '=')) return NULL;
        asm_peek(parser);
        const char *where = parser->at;
        const MlirAttribute *ids = asm_attribute(parser);
        if (ids && ids->kind != MLIR_TENSOR) asm_fail_at(parser, where, "the device ids are not a tensor");
        if (parser->status) return NULL;
        const HloLiteral *literal = mlir_tensor_literal(parser->arena, ids);
        for (int64_t i = 0; i < hlo_shape_elements(literal->shape); i++) {
            hlo_vector_push(parser->arena, &devices, hlo_literal_get_int64(literal, i));
        }
    }
    if (!done || !asm_expect(parser, '>')) return NULL;
    return asm_make(parser, (MlirAttribute){.kind = MLIR_SDY,
                                            .code = MLIR_SDY_MESH,
                                            .items = axes.items,
                                            .count = axes.count,
                                            .ints = {devices.items, devices.count}});
}

// <mesh = @mesh, axes = [#stablehlo.axis_ref<...>]>
// Groups by axes: devices that differ only along these axes are in one group.
static const MlirAttribute *parse_mesh_groups(AsmParser *parser) {
    const MlirAttribute **parts = HLO_ARENA_NEW(parser->arena, const MlirAttribute *, 2);
    bool done = asm_expect(parser, '<') && asm_expect_word(parser, "mesh") && asm_expect(parser, '=') &&
                (parts[0] = asm_attribute(parser)) && asm_expect(parser, ',') && asm_expect_word(parser, "axes") &&
                asm_expect(parser, '=') && (parts[1] = asm_attribute(parser)) && asm_expect(parser, '>');
    return done ? asm_make(parser, (MlirAttribute){.kind = MLIR_MESH_GROUPS, .items = parts, .count = 2}) : NULL;
}

const MlirAttribute *asm_mesh_attribute(AsmParser *parser, AsmSlice name, bool *known) {
    assert(known);
    *known = true;
    if (asm_slice_is(name, "replica_group_mesh_axes")) return parse_mesh_groups(parser);
    if (asm_slice_is(name, "axis_ref")) return parse_axis_ref(parser);
    if (asm_slice_is(name, "mesh_axis")) return parse_mesh_axis(parser);
    if (asm_slice_is(name, "mesh")) return parse_mesh(parser);
    *known = false;
    return NULL;
}

const MlirAttribute *asm_sdy_attribute(AsmParser *parser, AsmSlice name) {
    if (asm_slice_is(name, "sharding")) return asm_sdy_sharding(parser);
    if (asm_slice_is(name, "mesh")) return asm_sdy_mesh(parser);
    bool list = asm_slice_is(name, "sharding_per_value"), axes = asm_slice_is(name, "manual_axes");
    if (list || axes) {
        // The list has its own angle brackets, the axes need none.
        bool wrapped = asm_eat(parser, '<');
        const MlirAttribute *attribute = list ? asm_sdy_sharding_list(parser) : asm_sdy_axes(parser);
        return attribute && (!wrapped || asm_expect(parser, '>')) ? attribute : NULL;
    }
    // A sharding rule is kept as its text, which the partitioner reads. Other attributes have no information that is
    // read here.
    const char *start = parser->at;
    if (*parser->at == '<') {
        parser->at++;
        if (!asm_skip_balanced(parser, '<')) return NULL;
    }
    MlirAttribute rule = {.kind = MLIR_SDY, .code = MLIR_SDY_RULE};
    if (asm_slice_is(name, "op_sharding_rule"))
        rule.string = hlo_arena_format(parser->arena, "#sdy.op_sharding_rule%.*s", (int)(parser->at - start), start);
    return asm_make(parser, rule);
}
