// SPDX-License-Identifier: Apache-2.0
// Shardings and replica groups, each in three forms.
//
// V1: {devices=[2,2]0,1,2,3}, a tile assignment that lists devices. V2: {devices=[2,2]<=[4]}, the same order as an iota
// that is reshaped and transposed. V3: {mesh[a=2,b=2], [{a},{b}]}, named axes, Shardy's model in HLO. All become one
// HloSharding, which keeps the written form so that printing reproduces it. Everything that the rest of the program
// assumes about a sharding is checked here, at its position in the text: that the numbers of tiles and devices are
// equal, that axes exist and are used once, that sub-axes divide theirs.
#include <assert.h>

#include "hlo/text/parser.h"
#include "hlo/text/printer.h"

// True if the dims are positive, their product fits in 64 bits, and the permutation has each of them once.
static bool is_order(const HloIotaDevices *iota) {
    int64_t product = 1;
    uint64_t seen = 0;
    for (int64_t i = 0; i < iota->dims.count; i++) {
        if (iota->dims.items[i] < 1 || __builtin_mul_overflow(product, iota->dims.items[i], &product)) return false;
    }
    for (int64_t i = 0; i < iota->permutation.count; i++) {
        if (seen >> iota->permutation.items[i] & 1) return false;
        seen |= UINT64_C(1) << iota->permutation.items[i];
    }
    return true;
}

// [4,2]T(1,0) after `<=`, or [8]. Whether this is an order of devices is left to the caller; the permutation names dims
// that exist.
static bool parse_any_iota(HloParser *parser, HloIotaDevices *iota) {
    const char *where = parser->lexer.token.start;
    if (!hlo_parse_ints(parser, '[', ']', ',', &iota->dims)) return false;
    if (iota->dims.count == 0) return hlo_parser_fail(parser, where, "an iota needs at least one dimension");
    if (iota->dims.count == 1) return true;
    if (!hlo_parser_is_word(parser, "T")) return HLO_PARSER_FAIL(parser, "expected T(permutation)");
    hlo_lex(&parser->lexer);
    where = parser->lexer.token.start;
    if (!hlo_parse_ints(parser, '(', ')', ',', &iota->permutation)) return false;
    bool ok = iota->permutation.count == iota->dims.count && iota->dims.count <= 64;
    for (int64_t i = 0; ok && i < iota->permutation.count; i++) {
        ok = iota->permutation.items[i] >= 0 && iota->permutation.items[i] < iota->dims.count;
    }
    return ok || hlo_parser_fail(parser, where, "T(...) must name each dimension of the iota once");
}

// As parse_any_iota(), and it must be an order.
static bool parse_iota(HloParser *parser, HloIotaDevices *iota) {
    const char *where = parser->lexer.token.start;
    return parse_any_iota(parser, iota) &&
           (is_order(iota) ||
            hlo_parser_fail(parser, where, "an iota has positive dimensions, and its T(...) names each of them once"));
}

// -1 for sizes below one and for products beyond 64 bits: neither equals any count.
static int64_t product_of(HloInts ints) {
    int64_t product = 1;
    for (int64_t i = 0; i < ints.count; i++) {
        if (ints.items[i] < 1 || __builtin_mul_overflow(product, ints.items[i], &product)) return -1;
    }
    return product;
}

// ---------------------------------------------------------------------------------------------------------------------
// V3: meshes and named axes

// 'a'= of XLA's newer text, or a= of its older one.
static bool parse_axis_name(HloParser *parser, const char **name) {
    size_t length;
    if (hlo_parser_kind(parser) != HLO_TOKEN_STRING) return hlo_parse_attribute_name(parser, name, &length);
    return hlo_parse_string(parser, name) && hlo_parser_expect(parser, '=', "'='");
}

// Names are unique and at most 64, so that a set of axes is a machine word.
static bool parse_mesh_axes(HloParser *parser, HloMesh *mesh) {
    HloStringVector names = {0};
    int64_t base = parser->numbers.count;
    if (!hlo_parser_expect(parser, '[', "'[' of a mesh")) return false;
    if (hlo_parser_kind(parser) != ']') {
        do {
            const char *name;
            int64_t size;
            const char *where = parser->lexer.token.start;
            if (!parse_axis_name(parser, &name) || !hlo_parse_int(parser, &size)) return false;
            if (size < 1) return hlo_parser_fail(parser, where, "the size of a mesh axis must be positive");
            if (names.count >= 64) return hlo_parser_fail(parser, where, "more than 64 mesh axes");
            for (int64_t i = 0; i < names.count; i++) {
                if (strcmp(names.items[i], name) == 0) {
                    return hlo_parser_fail(parser, where, "the mesh has axis %s twice", name);
                }
            }
            hlo_vector_push(parser->arena, &names, name);
            hlo_vector_push(parser->scratch, &parser->numbers, size);
        } while (hlo_parser_eat(parser, ','));
    }
    mesh->axis_names = names.items;
    mesh->axis_sizes = hlo_parser_pop_numbers(parser, base);
    return hlo_parser_expect(parser, ']', "']' of a mesh");
}

// device_ids=([4,2]T(1,0)) or device_ids=(0,2,1,3)
static bool parse_device_ids(HloParser *parser, HloMesh *mesh) {
    const char *where = parser->lexer.token.start;
    hlo_lex(&parser->lexer);
    if (hlo_lex_peek(&parser->lexer) == '[') {
        if (!hlo_parser_expect(parser, '(', "'('") || !parse_iota(parser, &mesh->iota)) return false;
        if (product_of(mesh->iota.dims) != product_of(mesh->axis_sizes)) {
            return hlo_parser_fail(parser, where, "device_ids do not match the axes of the mesh");
        }
        hlo_iota_devices_simplify(parser->arena, &mesh->iota);
        if (mesh->iota.permutation.count == 0) mesh->iota = (HloIotaDevices){0};
        return hlo_parser_expect(parser, ')', "')' of device_ids");
    }
    if (!hlo_parse_ints(parser, '(', ')', ',', &mesh->device_ids)) return false;
    return mesh->device_ids.count == product_of(mesh->axis_sizes) ||
           hlo_parser_fail(parser, where, "device_ids do not match the axes of the mesh");
}

// mesh[a=2,b=4], device_ids=(...) or maximal_mesh[device_id=3]. A comma after it is left unless device_ids follow.
static bool parse_mesh(HloParser *parser, HloMesh *mesh, bool *comma_eaten) {
    *comma_eaten = false;
    bool maximal = hlo_parser_is_word(parser, "maximal_mesh");
    hlo_lex(&parser->lexer);
    if (maximal) {
        const char *name;
        size_t length;
        int64_t device;
        const char *where = parser->lexer.token.start;
        if (!hlo_parser_expect(parser, '[', "'['") || !hlo_parse_attribute_name(parser, &name, &length)) return false;
        if (strcmp(name, "device_id") != 0) return hlo_parser_fail(parser, where, "expected device_id=");
        if (!hlo_parse_int(parser, &device)) return false;
        mesh->is_maximal = true;
        mesh->device_ids = hlo_ints(parser->arena, &device, 1);
        return hlo_parser_expect(parser, ']', "']' of maximal_mesh");
    }
    if (!parse_mesh_axes(parser, mesh)) return false;
    *comma_eaten = hlo_parser_eat(parser, ',');
    const HloToken *token = &parser->lexer.token;
    if (*comma_eaten && token->kind == HLO_TOKEN_ATTRIBUTE && token->length == 10 &&
        memcmp(token->text, "device_ids", 10) == 0) {
        *comma_eaten = false;
        return parse_device_ids(parser, mesh);
    }
    return true;
}

// By name, or by number if no axis has that number for a name: XLA prints either. -1: the mesh does not have this axis.
static int64_t find_axis(const HloMesh *mesh, const char *name, size_t length) {
    assert(mesh && name);
    int64_t index = 0;
    bool numeric = length > 0 && length < 10;
    for (int64_t i = 0; i < mesh->axis_sizes.count; i++) {
        if (strlen(mesh->axis_names[i]) == length && memcmp(mesh->axis_names[i], name, length) == 0) return i;
    }
    for (size_t i = 0; i < length && numeric; i++) {
        numeric = name[i] >= '0' && name[i] <= '9';
        index = index * 10 + (name[i] - '0');
    }
    return numeric && index < mesh->axis_sizes.count ? index : -1;
}

// 'a' or 'b':(1)2, with or without the quotes
static bool parse_axis(HloParser *parser, const HloMesh *mesh, HloAxisRef *axis) {
    const HloToken token = parser->lexer.token;
    bool named = token.kind == HLO_TOKEN_IDENTIFIER || token.kind == HLO_TOKEN_NAME || token.kind == HLO_TOKEN_STRING;
    if (!named && token.kind != HLO_TOKEN_INT) return hlo_parser_unexpected(parser, "a mesh axis");
    const char *name = token.text;
    size_t length = token.length;
    if (token.kind == HLO_TOKEN_STRING) {
        if (!hlo_parse_string(parser, &name)) return false;
        length = strlen(name);
    }
    *axis = (HloAxisRef){.axis = find_axis(mesh, name, length), .pre_size = 1};
    if (axis->axis < 0) return hlo_parser_fail(parser, token.start, "the mesh has no axis '%.*s'", (int)length, name);
    if (token.kind != HLO_TOKEN_STRING) hlo_lex(&parser->lexer);
    // The lexer makes the colon a part of a name: it is a token only after a string or a number.
    const bool colon =
        hlo_parser_eat(parser, ':') || token.kind == HLO_TOKEN_NAME || token.kind == HLO_TOKEN_IDENTIFIER;
    if (!colon || !hlo_parser_eat(parser, '(')) return true;
    if (!hlo_parse_int(parser, &axis->pre_size) || !hlo_parser_expect(parser, ')', "')' of a sub-axis") ||
        !hlo_parse_int(parser, &axis->size)) {
        return false;
    }
    int64_t product;
    int64_t whole = mesh->axis_sizes.items[axis->axis];
    if (axis->pre_size < 1 || axis->size < 2 || __builtin_mul_overflow(axis->pre_size, axis->size, &product) ||
        whole % product != 0 || axis->size == whole) {
        return hlo_parser_fail(parser, token.start, "the sub-axis does not divide its axis");
    }
    return true;
}

// {a, b:(1)2, ?}
static bool parse_axes(HloParser *parser, const HloMesh *mesh, bool may_be_open, HloAxisRefs *axes) {
    HLO_VECTOR(HloAxisRef) items = {0};
    if (!hlo_parser_expect(parser, '{', "'{' of an axis list")) return false;
    if (hlo_parser_kind(parser) != '}') {
        do {
            if (axes->open) return HLO_PARSER_FAIL(parser, "'?' must be last");
            if (may_be_open && hlo_parser_eat(parser, '?')) {
                axes->open = true;
                continue;
            }
            HloAxisRef axis;
            const char *where = parser->lexer.token.start;
            if (!parse_axis(parser, mesh, &axis)) return false;
            const HloAxisRef *last = items.count ? &items.items[items.count - 1] : NULL;
            if (last && last->axis == axis.axis && last->size && last->pre_size * last->size == axis.pre_size) {
                return hlo_parser_fail(parser, where, "neighbouring sub-axes must be written as one");
            }
            hlo_vector_push(parser->arena, &items, axis);
        } while (hlo_parser_eat(parser, ','));
    }
    axes->items = items.items;
    axes->count = items.count;
    return hlo_parser_expect(parser, '}', "'}' of an axis list");
}

// One metadata={...} or a list of them, after those that the sharding already has.
static bool parse_sharding_metadata(HloParser *parser, HloSharding *sharding) {
    HLO_VECTOR(const HloMetadata *) items = {0};
    for (int64_t i = 0; i < sharding->metadata_count; i++) {
        hlo_vector_push(parser->arena, &items, sharding->metadata[i]);
    }
    bool list = hlo_parser_kind(parser) == '{' && hlo_lex_peek(&parser->lexer) == '{';
    if (list) hlo_lex(&parser->lexer);
    do {
        const HloMetadata *metadata;
        if (!hlo_parse_metadata(parser, &metadata)) return false;
        hlo_vector_push(parser->arena, &items, metadata);
    } while (list && hlo_parser_eat(parser, ','));
    if (list && !hlo_parser_expect(parser, '}', "'}' of a metadata list")) return false;
    sharding->metadata = items.items;
    sharding->metadata_count = items.count;
    return true;
}

// The parts after the dimensions, in any order.
static bool parse_named_parts(HloParser *parser, HloNamedSharding *named, HloSharding *sharding) {
    while (hlo_parser_kind(parser) != '}') {
        const char *name;
        size_t length;
        if (!hlo_parser_expect(parser, ',', "',' or '}'")) return false;
        const char *where = parser->lexer.token.start;
        if (!hlo_parse_attribute_name(parser, &name, &length)) return false;
        bool ok;
        if (strcmp(name, "replicated") == 0) {
            ok = parse_axes(parser, &named->mesh, false, &named->replicated);
        } else if (strcmp(name, "unreduced") == 0) {
            ok = parse_axes(parser, &named->mesh, false, &named->unreduced);
        } else if (strcmp(name, "manual") == 0) {
            ok = parse_axes(parser, &named->mesh, false, &named->manual);
        } else if (strcmp(name, "metadata") == 0) {
            ok = parse_sharding_metadata(parser, sharding);
        } else {
            return hlo_parser_fail(parser, where, "expected replicated, unreduced, manual or metadata");
        }
        if (!ok) return false;
    }
    return true;
}

// Each part of an axis may be used once: no more parts than the mesh has axes and their sizes have factors.
static bool check_axes(HloParser *parser, const char *where, const HloNamedSharding *named) {
    assert(named && where);
    HLO_VECTOR(const HloAxisRef *) used = {0};
    for (int64_t list = 0; list < named->dim_count + 3; list++) {
        const HloAxisRefs *others[] = {&named->replicated, &named->unreduced, &named->manual};
        const HloAxisRefs *axes = list < named->dim_count ? &named->dims[list] : others[list - named->dim_count];
        for (int64_t i = 0; i < axes->count; i++) {
            for (int64_t j = 0; j < used.count; j++) {
                if (hlo_axis_refs_overlap(used.items[j], &axes->items[i])) {
                    return hlo_parser_fail(parser, where, "axis %s is used twice",
                                           named->mesh.axis_names[axes->items[i].axis]);
                }
            }
            hlo_vector_push(parser->scratch, &used, &axes->items[i]);
        }
    }
    return true;
}

// One list of axes per dimension of the array, major first.
static bool parse_named_dims(HloParser *parser, HloNamedSharding *named) {
    HLO_VECTOR(HloAxisRefs) dims = {0};
    if (!hlo_parser_expect(parser, '[', "'[' of the dimensions")) return false;
    if (hlo_parser_kind(parser) != ']') {
        do {
            HloAxisRefs axes = {0};
            if (!parse_axes(parser, &named->mesh, true, &axes)) return false;
            hlo_vector_push(parser->arena, &dims, axes);
        } while (hlo_parser_eat(parser, ','));
    }
    named->dims = dims.items;
    named->dim_count = dims.count;
    return hlo_parser_expect(parser, ']', "']' of the dimensions");
}

// Either a whole array in one state (replicated, unreduced, manual) or dimension by dimension.
static bool parse_named(HloParser *parser, HloSharding *sharding) {
    static const struct {
        const char *word;
        HloShardingKind kind;
    } whole[] = {{"replicated", HLO_SHARDING_REPLICATED},
                 {"unreduced", HLO_SHARDING_UNREDUCED},
                 {"manual", HLO_SHARDING_MANUAL}};
    HloNamedSharding *named = HLO_ARENA_NEW(parser->arena, HloNamedSharding, 1);
    sharding->kind = HLO_SHARDING_NAMED;
    sharding->named = named;
    named->whole = HLO_SHARDING_TILED;
    bool comma;
    if (!parse_mesh(parser, &named->mesh, &comma)) return false;
    if (named->mesh.is_maximal) return parse_named_parts(parser, named, sharding);
    if (!comma) hlo_parser_eat(parser, ',');
    for (size_t i = 0; i < HLO_COUNT_OF(whole); i++) {
        if (!hlo_parser_is_word(parser, whole[i].word)) continue;
        hlo_lex(&parser->lexer);
        named->whole = whole[i].kind;
        return parse_named_parts(parser, named, sharding);
    }
    const char *where = parser->lexer.token.start;
    if (!parse_named_dims(parser, named) || !parse_named_parts(parser, named, sharding)) return false;
    bool plain = named->dim_count + named->replicated.count + named->unreduced.count + named->manual.count == 0;
    if (plain) named->whole = HLO_SHARDING_REPLICATED;
    return check_axes(parser, where, named);
}

// ---------------------------------------------------------------------------------------------------------------------
// V1 and V2

// In the order in which they count if a sharding has several, which XLA allows.
static const struct {
    const char *word;
    HloShardingKind kind;
} simple_kinds[] = {{"replicated", HLO_SHARDING_REPLICATED},
                    {"maximal", HLO_SHARDING_MAXIMAL},
                    {"manual", HLO_SHARDING_MANUAL},
                    {"unknown", HLO_SHARDING_UNKNOWN},
                    {"unreduced", HLO_SHARDING_UNREDUCED}};

// False, and nothing consumed, for other words.
static bool parse_kind(HloParser *parser, HloShardingKind *kind) {
    for (size_t i = 0; i < HLO_COUNT_OF(simple_kinds); i++) {
        if (!hlo_parser_is_word(parser, simple_kinds[i].word)) continue;
        hlo_lex(&parser->lexer);
        *kind = simple_kinds[i].kind;
        return true;
    }
    return false;
}

// [2,2]<=[4] or [2,2]0,1,2,3
static bool parse_tiles(HloParser *parser, HloSharding *sharding) {
    const char *where = parser->lexer.token.start;
    if (!hlo_parse_ints(parser, '[', ']', ',', &sharding->tile_dims)) return false;
    int64_t product = product_of(sharding->tile_dims);
    bool later = parser->verified_later && sharding->tile_dims.count > 0;
    if (hlo_parser_eat(parser, HLO_TOKEN_LESS_EQUAL)) {
        if (!(later ? parse_any_iota : parse_iota)(parser, &sharding->iota)) return false;
        if (product > 0 && is_order(&sharding->iota) && product_of(sharding->iota.dims) == product) {
            hlo_iota_devices_simplify(parser->arena, &sharding->iota);
            return true;
        }
        return later || hlo_parser_fail(parser, where,
                                        product < 0 ? "the tile dimensions must be positive"
                                                    : "the iota does not have as many devices as "
                                                      "there are tiles");
    }
    if (product < 0 || sharding->tile_dims.count == 0) {
        return hlo_parser_fail(parser, where, "the tile dimensions must be positive");
    }
    int64_t base = parser->numbers.count;
    do {
        int64_t device;
        if (!hlo_parse_int(parser, &device)) return false;
        hlo_vector_push(parser->scratch, &parser->numbers, device);
    } while (hlo_parser_eat(parser, ','));
    sharding->devices = hlo_parser_pop_numbers(parser, base);
    return sharding->devices.count == product ||
           hlo_parser_fail(parser, where, "there are %lld devices for %lld tiles", (long long)sharding->devices.count,
                           (long long)product);
}

// The kinds follow those that the sharding already has.
static bool parse_subgroups(HloParser *parser, HloSharding *sharding) {
    HLO_VECTOR(HloShardingKind) kinds = {0};
    for (int64_t i = 0; i < sharding->subgroup_count; i++)
        hlo_vector_push(parser->arena, &kinds, sharding->subgroups[i]);
    if (!hlo_parser_expect(parser, '{', "'{'")) return false;
    if (hlo_parser_kind(parser) != '}') {
        do {
            HloShardingKind kind;
            if (!parse_kind(parser, &kind) || kind == HLO_SHARDING_UNKNOWN) {
                return HLO_PARSER_FAIL(parser, "expected maximal, replicated, manual or unreduced");
            }
            hlo_vector_push(parser->arena, &kinds, kind);
        } while (hlo_parser_eat(parser, ','));
    }
    sharding->subgroups = kinds.items;
    sharding->subgroup_count = kinds.count;
    return hlo_parser_expect(parser, '}', "'}'");
}

// What check_sharding() needs to know besides the sharding.
typedef struct Seen {
    unsigned kinds;  // a bit for each of simple_kinds
    bool device;     // device=N
} Seen;

static bool parse_sharding_attribute(HloParser *parser, HloSharding *sharding, Seen *seen) {
    const char *name;
    size_t length;
    const char *where = parser->lexer.token.start;
    if (!hlo_parse_attribute_name(parser, &name, &length)) return false;
    if (strcmp(name, "devices") == 0) {
        if (sharding->tile_dims.count) return hlo_parser_fail(parser, where, "devices= is given twice");
        return parse_tiles(parser, sharding);
    }
    if (strcmp(name, "last_tile_dims") == 0) return parse_subgroups(parser, sharding);
    if (strcmp(name, "metadata") == 0) return parse_sharding_metadata(parser, sharding);
    if (strcmp(name, "device") != 0)
        return hlo_parser_fail(parser, where, "unknown attribute '%s' of a sharding", name);
    seen->device = true;
    return hlo_parse_int(parser, &sharding->maximal_device);
}

// One word or attribute inside the braces.
static bool parse_part(HloParser *parser, HloSharding *sharding, Seen *seen) {
    if (hlo_parser_kind(parser) == HLO_TOKEN_ATTRIBUTE) return parse_sharding_attribute(parser, sharding, seen);
    HloShardingKind kind;
    if (parse_kind(parser, &kind)) {
        seen->kinds |= 1U << kind;
        return true;
    }
    if (hlo_parser_is_word(parser, "last_tile_dim_replicate")) {
        sharding->last_tile_dim_replicate = true;
        hlo_lex(&parser->lexer);
        return true;
    }
    bool as = hlo_parser_is_word(parser, "shard_as");
    if (as || hlo_parser_is_word(parser, "shard_like")) {
        if (sharding->group != HLO_SHARD_AS) sharding->group = as ? HLO_SHARD_AS : HLO_SHARD_LIKE;
        hlo_lex(&parser->lexer);
        return hlo_parse_int(parser, &sharding->group_id);
    }
    return hlo_parser_expect(parser, '}', "'}' of a sharding");
}

// The kind of a sharding that is not tiled, which has no other parts than metadata and a group: XLA ignores an iota.
static bool finish_simple(HloParser *parser, const char *where, HloSharding *sharding, const Seen *seen) {
    bool maximal = sharding->kind == HLO_SHARDING_MAXIMAL;
    if (sharding->devices.count || (!maximal && seen->device)) {
        return hlo_parser_fail(parser, where, "this kind of sharding has no devices");
    }
    if (maximal && !seen->device) return hlo_parser_fail(parser, where, "a maximal sharding needs device=");
    sharding->tile_dims = (HloInts){0};
    sharding->iota = (HloIotaDevices){0};
    sharding->last_tile_dim_replicate = false;
    sharding->subgroup_count = 0;
    return true;
}

// Tile dimensions for subgroups are the last ones.
static bool check_sharding(HloParser *parser, const char *where, HloSharding *sharding, const Seen *seen) {
    assert(sharding && where);
    for (size_t i = HLO_COUNT_OF(simple_kinds); i-- > 0;) {
        if (seen->kinds >> simple_kinds[i].kind & 1) sharding->kind = simple_kinds[i].kind;
    }
    if (sharding->kind != HLO_SHARDING_TILED) return finish_simple(parser, where, sharding, seen);
    if (seen->device) return hlo_parser_fail(parser, where, "device= belongs to a maximal sharding");
    if (sharding->tile_dims.count == 0) return hlo_parser_fail(parser, where, "the sharding names no tiles");
    if (sharding->iota.dims.count == 0 && sharding->devices.count <= 1) {
        return hlo_parser_fail(parser, where, "a tiled sharding needs more than one device");
    }
    int64_t subgroups = sharding->subgroup_count + sharding->last_tile_dim_replicate;
    if (subgroups > sharding->tile_dims.count || (sharding->subgroup_count && sharding->last_tile_dim_replicate)) {
        return hlo_parser_fail(parser, where, "more subgroups than tile dimensions");
    }
    bool sound = sharding->iota.dims.count == 0 ||
                 (is_order(&sharding->iota) && product_of(sharding->tile_dims) == product_of(sharding->iota.dims));
    if (!sound && subgroups) return hlo_parser_fail(parser, where, "subgroups need tiles for all devices, each once");
    return !sound || hlo_parser_simplify_subgroups(parser, where, sharding);
}

// Parses a sharding whose '{' has already been consumed.
static bool parse_braced(HloParser *parser, const char *where, const HloSharding **result) {
    HloSharding *sharding = HLO_ARENA_NEW(parser->arena, HloSharding, 1);
    *result = sharding;
    if (hlo_parser_is_word(parser, "mesh") || hlo_parser_is_word(parser, "maximal_mesh")) {
        return parse_named(parser, sharding) && hlo_parser_expect(parser, '}', "'}' of a sharding");
    }
    sharding->kind = HLO_SHARDING_TILED;
    Seen seen = {0};
    while (hlo_parser_kind(parser) != '}') {
        if (!parse_part(parser, sharding, &seen)) return false;
    }
    hlo_lex(&parser->lexer);
    return check_sharding(parser, where, sharding, &seen);
}

// {{...}, {...}} is one sharding per leaf of a tuple; {} is that of a tuple without leaves.
bool hlo_parse_sharding_here(HloParser *parser, const HloSharding **sharding) {
    assert(sharding);
    const char *where = parser->lexer.token.start;
    if (!hlo_parser_expect(parser, '{', "'{' of a sharding")) return false;
    if (hlo_parser_kind(parser) != '{' && hlo_parser_kind(parser) != '}') return parse_braced(parser, where, sharding);
    HLO_VECTOR(const HloSharding *) elements = {0};
    if (hlo_parser_kind(parser) != '}') {
        do {
            const HloSharding *element;
            where = parser->lexer.token.start;
            if (!hlo_parser_expect(parser, '{', "'{' of a sharding") || !parse_braced(parser, where, &element)) {
                return false;
            }
            hlo_vector_push(parser->arena, &elements, element);
        } while (hlo_parser_eat(parser, ','));
    }
    *sharding = hlo_sharding_tuple(parser->arena, elements.items, elements.count);
    return hlo_parser_expect(parser, '}', "'}' of a sharding");
}

// ---------------------------------------------------------------------------------------------------------------------
// Replica groups

// mesh[a=2,b=2] {a}: groups of devices that differ only along a.
static bool parse_mesh_groups(HloParser *parser, HloReplicaGroups *groups) {
    bool comma;
    HloAxisRefs axes = {0};
    groups->form = HLO_GROUPS_MESH;
    const char *where = parser->lexer.token.start;
    if (!parse_mesh(parser, &groups->mesh, &comma) || !parse_axes(parser, &groups->mesh, false, &axes)) return false;
    groups->axes = axes.items;
    groups->axis_count = axes.count;
    int64_t size = 1;
    for (int64_t i = 0; i < axes.count; i++) {
        int64_t part = axes.items[i].size ? axes.items[i].size : groups->mesh.axis_sizes.items[axes.items[i].axis];
        if (__builtin_mul_overflow(size, part, &size)) size = INT64_MAX;  // only whether it is one counts here
    }
    return size > 1 || hlo_parser_fail(parser, where, "a group must have more than one device");
}

// [groups,size]<=[dims]T(permutation)
static bool parse_iota_groups(HloParser *parser, HloReplicaGroups *groups) {
    const char *where = parser->lexer.token.start;
    HloInts sizes;
    groups->form = HLO_GROUPS_IOTA;
    if (!hlo_parse_ints(parser, '[', ']', ',', &sizes)) return false;
    if (sizes.count != 2 || product_of(sizes) < 0) {
        return hlo_parser_fail(parser, where, "expected [number of groups, devices a group]");
    }
    groups->count = sizes.items[0];
    groups->size = sizes.items[1];
    if (!hlo_parser_expect(parser, HLO_TOKEN_LESS_EQUAL, "'<='") || !parse_iota(parser, &groups->iota)) return false;
    if (product_of(groups->iota.dims) != product_of(sizes)) {
        return hlo_parser_fail(parser, where, "the iota does not have as many devices as the groups");
    }
    hlo_iota_devices_simplify(parser->arena, &groups->iota);
    return true;
}

bool hlo_parse_replica_groups_here(HloParser *parser, const HloReplicaGroups **result) {
    assert(result);
    HloReplicaGroups *groups = HLO_ARENA_NEW(parser->arena, HloReplicaGroups, 1);
    *result = groups;
    if (hlo_parser_is_word(parser, "mesh")) return parse_mesh_groups(parser, groups);
    if (hlo_parser_kind(parser) == '[') return parse_iota_groups(parser, groups);
    HloIntsList list;
    if (!hlo_parse_ints_list(parser, &list)) return false;
    groups->form = HLO_GROUPS_LIST;
    groups->groups = list.items;
    groups->count = list.count;
    return true;
}
