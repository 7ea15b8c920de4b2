// SPDX-License-Identifier: Apache-2.0
// Shardy's annotations as they survive in HLO: text in frontend attributes. Whatever is not understood makes a function
// return false, and the caller falls back on the HLO sharding beside it.
#include "spmd_partitioner/sdy.h"

#include <stdlib.h>
#include <string.h>

// Reads Shardy's text form. Backslashes are skipped: the quotes come escaped from some writers.
typedef struct Scanner {
    const char *at;
} Scanner;

// The next character that means something.
static char peek(Scanner *scanner) {
    while (*scanner->at == ' ' || *scanner->at == '\\' || *scanner->at == '\n') scanner->at++;
    return *scanner->at;
}

// Moves past `token` if it stands there.
static bool take(Scanner *scanner, const char *token) {
    peek(scanner);
    size_t length = strlen(token);
    if (strncmp(scanner->at, token, length)) return false;
    scanner->at += length;
    return true;
}

// Unsigned, as all numbers of the form are.
static bool take_number(Scanner *scanner, int64_t *number) {
    if (peek(scanner) < '0' || *scanner->at > '9') return false;
    char *end;
    *number = strtoll(scanner->at, &end, 10);
    scanner->at = end;
    return true;
}

// A quoted axis name.
static bool take_name(Scanner *scanner, const char **name, size_t *length) {
    if (!take(scanner, "\"")) return false;
    *name = scanner->at;
    while (*scanner->at && *scanner->at != '"' && *scanner->at != '\\') scanner->at++;
    *length = (size_t)(scanner->at - *name);
    return take(scanner, "\"");
}

// The axes of one `#sdy.mesh<["a"=4, "b"=2]>`; false at anything else.
static bool take_mesh(HloArena *arena, Scanner *scanner, SpmdMeshAxis *axes, int64_t *count) {
    *count = 0;
    if (!take(scanner, "#sdy.mesh<[")) return false;
    while (!take(scanner, "]")) {
        const char *name;
        size_t length;
        int64_t size;
        if (*count == 64 || !take_name(scanner, &name, &length) || !take(scanner, "=") ||
            !take_number(scanner, &size)) {
            return false;
        }
        axes[(*count)++] = (SpmdMeshAxis){hlo_arena_string(arena, name, length), size};
        take(scanner, ",");
    }
    return take(scanner, ">");
}

// A module may have several meshes; the first that has as many devices as the program is the one that its axes are
// named by.
int64_t spmd_sdy_mesh(HloArena *arena, const char *text, int64_t device_count, const SpmdMeshAxis **axes) {
    SpmdMeshAxis found[64];
    for (const char *at = strstr(text, "#sdy.mesh<"); at; at = strstr(at + 1, "#sdy.mesh<")) {
        Scanner scanner = {at};
        int64_t count, product = 1;
        if (!take_mesh(arena, &scanner, found, &count) || count == 0) continue;
        for (int64_t i = 0; i < count; i++) {
            if (found[i].size < 1 || __builtin_mul_overflow(product, found[i].size, &product)) product = -1;
            if (product < 0) break;
        }
        if (product < 1 || (device_count && product != device_count)) continue;
        *axes = hlo_arena_copy(arena, found, (size_t)count * sizeof(SpmdMeshAxis));
        return count;
    }
    return 0;
}

// Atoms of the part `pre:size` of an axis, in order; false when the part does not fall on atom borders, or when `used`
// has one of them: the text is a user's, and an axis cuts an array once.
static bool push_part(const SpmdMesh *mesh, int32_t axis, int64_t pre, int64_t size, SpmdAtomSet *used, SpmdAxes *out) {
    int64_t before = 1, inside = 1;
    for (int32_t i = 0; i < mesh->atom_count; i++) {
        if (mesh->atoms[i].axis != axis) continue;
        if (before < pre) {
            before *= mesh->atoms[i].size;
        } else if (inside < size) {
            if (*used >> i & 1) return false;
            *used |= (SpmdAtomSet)1 << i;
            inside *= mesh->atoms[i].size;
            spmd_axes_push(out, i);
        }
    }
    return before == pre && inside == size;
}

// `"x"` or `"x":(2)4`; appends its atoms.
static bool take_axis(const SpmdMesh *mesh, Scanner *scanner, SpmdAtomSet *used, SpmdAxes *out) {
    const char *name;
    size_t length;
    if (!take_name(scanner, &name, &length)) return false;
    int32_t axis = spmd_mesh_axis(mesh, name, length);
    if (axis < 0) return false;
    int64_t pre = 1, size = mesh->axes[axis].size;
    if (take(scanner, ":(") && !(take_number(scanner, &pre) && take(scanner, ")") && take_number(scanner, &size))) {
        return false;
    }
    return push_part(mesh, axis, pre, size, used, out);
}

// `{"x", "y":(1)2, ?}p1`: a priority, 0 without one. `used` are the atoms that the annotation has named so far.
static bool take_axes(const SpmdMesh *mesh, Scanner *scanner, SpmdAtomSet *used, SpmdAxes *out, bool *open,
                      int32_t *priority) {
    if (!take(scanner, "{")) return false;
    while (!take(scanner, "}")) {
        if (take(scanner, "?")) {
            *open = true;
        } else if (!take_axis(mesh, scanner, used, out)) {
            return false;
        }
        take(scanner, ",");
    }
    int64_t number = 0;
    if (take(scanner, "p") && !take_number(scanner, &number)) return false;
    *priority = number < INT32_MAX ? (int32_t)number : INT32_MAX;
    return true;
}

// What stands between the `<` and `>` of one sharding.
static bool take_sharding(HloArena *arena, const SpmdMesh *mesh, Scanner *scanner, int64_t rank,
                          SpmdAnnotation *annotation) {
    *annotation = (SpmdAnnotation){.sharding = spmd_sharding_new(arena, rank, 0)};
    annotation->open = HLO_ARENA_NEW(arena, bool, rank);
    int32_t *priorities = HLO_ARENA_NEW(arena, int32_t, rank + 1), none;
    SpmdAtomSet used = 0;
    if (!take(scanner, "@")) return false;
    while (*scanner->at && *scanner->at != ',' && *scanner->at != '>') scanner->at++;
    if (!take(scanner, ",") || !take(scanner, "[")) return false;
    for (int64_t i = 0; !take(scanner, "]"); i++) {
        if (i == rank) return false;
        SpmdAxes *dim = &annotation->sharding->dims[i];
        if (!take_axes(mesh, scanner, &used, dim, &annotation->open[i], &priorities[i])) return false;
        if (priorities[i] > 0) annotation->priorities = priorities;
        take(scanner, ",");
    }
    while (take(scanner, ",")) {
        SpmdAxes axes = {0};
        bool open = false;
        bool unreduced = take(scanner, "unreduced=");
        if (!unreduced && !take(scanner, "replicated=")) return false;
        if (!take_axes(mesh, scanner, &used, &axes, &open, &none)) return false;
        *(unreduced ? &annotation->sharding->unreduced : &annotation->replicated) |= spmd_axes_set(&axes);
    }
    return take(scanner, ">");
}

// Skips one `<...>`, brackets nested.
static bool skip_sharding(Scanner *scanner) {
    int depth = 0;
    for (; *scanner->at; scanner->at++) {
        depth += (*scanner->at == '<') - (*scanner->at == '>');
        if (depth == 0 && *scanner->at == '>') {
            scanner->at++;
            return true;
        }
    }
    return false;
}

// Value `index` of a list, or the only one.
bool spmd_sdy_sharding(HloArena *arena, const SpmdMesh *mesh, const char *text, int64_t index, int64_t rank,
                       SpmdAnnotation *annotation) {
    Scanner scanner = {text};
    if (take(&scanner, "#sdy.sharding<")) return index == 0 && take_sharding(arena, mesh, &scanner, rank, annotation);
    if (!take(&scanner, "#sdy.sharding_per_value<[")) return false;
    for (int64_t i = 0; i < index; i++) {
        peek(&scanner);
        if (!skip_sharding(&scanner)) return false;
        take(&scanner, ",");
    }
    return take(&scanner, "<") && take_sharding(arena, mesh, &scanner, rank, annotation);
}

// Two spellings are in use: of Shardy's own printer, and of programs that JAX exports.
bool spmd_sdy_manual_axes(const SpmdMesh *mesh, const char *text, SpmdAtomSet *axes) {
    Scanner scanner = {text};
    SpmdAxes list = {0};
    SpmdAtomSet used = 0;
    bool open = false;
    int32_t none;
    if (!take(&scanner, "#sdy<manual_axes") && !take(&scanner, "#sdy.manual_axes<")) return false;
    if (!take_axes(mesh, &scanner, &used, &list, &open, &none)) return false;
    *axes = spmd_axes_set(&list);
    return true;
}
