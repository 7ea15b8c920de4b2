// SPDX-License-Identifier: Apache-2.0
// Reshards are searched once: a kept answer is the one that a new search gives, for random shardings that come again
// and again.
#include <criterion/criterion.h>

#include "spmd_partitioner/reshard.h"
#include "tests/spmd/check.h"

enum { kCases = 4000, kRank = 3 };

static int64_t draw(uint64_t *state, int64_t count) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)(*state >> 33) % count;
}

// Each atom shards some dimension or none, in a random order.
static SpmdSharding *random_sharding(HloArena *arena, uint64_t *state, SpmdAtomSet without) {
    SpmdSharding *sharding = spmd_sharding_new(arena, kRank, 0);
    for (int32_t atom = 0; atom < 3; atom++) {
        const int64_t dim = draw(state, kRank + 1);
        const int32_t which = (int32_t)((atom + draw(state, 2)) % 3);
        if (dim == kRank || ((spmd_sharding_used(sharding) | without) >> which & 1)) continue;
        spmd_axes_push(&sharding->dims[dim], which);
    }
    return sharding;
}

static bool same_path(const SpmdPath *a, const SpmdPath *b) {
    bool same = a->count == b->count && a->bytes == b->bytes && a->fell_back == b->fell_back;
    for (int32_t i = 0; same && i < a->count; i++) {
        const SpmdStep *x = &a->steps[i], *y = &b->steps[i];
        same = x->kind == y->kind && x->dim == y->dim && x->target == y->target && x->partial == y->partial &&
               spmd_axes_equal(&x->axes, &y->axes) && spmd_sharding_equal(x->after, y->after);
    }
    return same;
}

Test(spmd_paths, a_path_that_is_kept_is_the_one_that_a_search_gives) {
    HloArena *arena = hlo_arena_new(), *kept = hlo_arena_new();
    const SpmdMeshAxis axes[] = {{"x", 2}, {"y", 4}};
    const SpmdMesh *mesh;
    cr_assert_null(spmd_mesh_new(arena, axes, 2, &mesh));
    SpmdPaths paths = {.arena = kept};
    uint64_t state = 7;
    int64_t found_again = 0;
    for (int i = 0; i < kCases; i++) {
        const HloArenaMark mark = hlo_arena_mark(arena);
        const int64_t dims[2][kRank] = {{8, 16, 4}, {6, 16, 4}};
        const HloShape *shape =
            hlo_shape_array(arena, draw(&state, 2) ? HLO_F32 : HLO_BF16, dims[draw(&state, 2)], kRank);
        const SpmdAtomSet partial = draw(&state, 3) ? 0 : (SpmdAtomSet)1 << draw(&state, 3);
        const SpmdAtomSet keep = draw(&state, 2) ? partial : 0;
        uint64_t first = (uint64_t)draw(&state, 12), second = (uint64_t)draw(&state, 12);
        const SpmdSharding *from = random_sharding(arena, &first, partial);
        const SpmdSharding *to = random_sharding(arena, &second, keep);
        const int64_t before = paths.paths.count;
        const SpmdPath *path = spmd_reshard_path(&paths, arena, mesh, shape, from, partial, to, keep);
        const SpmdPath searched = spmd_reshard_plan(arena, NULL, mesh, shape, from, partial, to, keep);
        cr_assert(same_path(path, &searched), "case %d", i);
        found_again += paths.paths.count == before && path->count > 0;
        hlo_arena_reset(arena, mark);
    }
    cr_assert_gt(found_again, kCases / 4);
    hlo_arena_free(arena);
    hlo_arena_free(kept);
}

// Two axes of one dimension go to two others in one exchange among all devices, which sends less than two.
Test(spmd_paths, all_to_alls_that_are_made_as_one_are_priced_as_one) {
    HloArena *arena = hlo_arena_new();
    const SpmdMeshAxis axes[] = {{"x", 2}, {"y", 4}};
    const SpmdMesh *mesh;
    cr_assert_null(spmd_mesh_new(arena, axes, 2, &mesh));
    const int64_t even[kRank] = {8, 8, 8}, uneven[kRank] = {8, 8, 7};
    SpmdSharding *from = spmd_sharding_new(arena, kRank, 0), *to = spmd_sharding_new(arena, kRank, 0);
    for (int32_t atom = 0; atom < 3; atom++) {
        spmd_axes_push(&from->dims[0], atom);
        spmd_axes_push(&to->dims[atom ? 1 : 2], atom);
    }
    const SpmdPath one =
        spmd_reshard_plan(arena, NULL, mesh, hlo_shape_array(arena, HLO_F32, even, kRank), from, 0, to, 0);
    cr_assert_eq(one.count, 2);
    cr_assert_eq(one.bytes, 64 * 4 / 8 * 7);
    cr_assert_eq(one.cost, one.bytes);
    const HloShape *shape = hlo_shape_array(arena, HLO_F32, uneven, kRank);
    const SpmdPath two = spmd_reshard_plan(arena, NULL, mesh, shape, from, 0, to, 0);
    for (int32_t i = 0; i < two.count; i++)
        cr_assert_eq(spmd_steps_together(mesh, shape, i ? two.steps[i - 1].after : from, &two.steps[i], two.count - i),
                     1);
    hlo_arena_free(arena);
}

// Shards that begin at other elements than those they are cut from take what they lack from other devices, and no
// dimension is gathered whole for it. One element, fewer than shards, partly empty shards, and two dimensions.
Test(spmd_paths, uneven_shards_take_what_they_lack_from_others) {
    static const char *const shardings[] = {"devices=[8,1]<=[8]",
                                            "devices=[4,1,2]<=[8] last_tile_dim_replicate",
                                            "devices=[2,1,4]<=[8] last_tile_dim_replicate",
                                            "devices=[4,2]<=[8]",
                                            "devices=[2,4]<=[8]",
                                            "devices=[2,1,4]<=[2,4]T(1,0) last_tile_dim_replicate"};
    for (size_t a = 0; a < HLO_COUNT_OF(shardings); a++)
        for (size_t b = 0; b < HLO_COUNT_OF(shardings); b++)
            for (int rows = 1; rows < 20; rows += rows < 7 ? 1 : 3) {
                HloText text = {0};
                hlo_text_format(&text,
                                "HloModule m, num_partitions=8\nENTRY e {\n x = f32[%d,6] parameter(0), sharding={%s}\n"
                                " ROOT c = f32[%d,6] copy(x), sharding={%s}\n}\n",
                                rows, shardings[a], rows, shardings[b]);
                check_partitioned(text.data, NULL, 1);
                hlo_text_free(&text);
            }
}

// 601 rows are in four parts of 151 or in eight of 76. Rows 76 to 151 are the second of eight: the first of four lacks
// the last of them. The fourth of eight lacks two, the sixth three; every device sends as much.
Test(spmd_paths, an_uneven_path_sends_the_rows_that_are_missing) {
    HloArena *arena = hlo_arena_new();
    const SpmdMeshAxis axes[] = {{"x", 4}, {"y", 2}};
    const SpmdMesh *mesh;
    cr_assert_null(spmd_mesh_new(arena, axes, 2, &mesh));
    const HloShape *shape = hlo_shape_array(arena, HLO_F32, (const int64_t[]){601, 100}, 2);
    SpmdSharding *wide = spmd_sharding_new(arena, 2, 0), *narrow = spmd_sharding_new(arena, 2, 0);
    const int32_t atoms = mesh->atom_count;
    for (int32_t atom = 0; atom < atoms; atom++) spmd_axes_push(&narrow->dims[0], atom);
    wide->dims[0] = spmd_axes_head(&narrow->dims[0], atoms - 1);
    const SpmdPath cut = spmd_reshard_plan(arena, NULL, mesh, shape, wide, 0, narrow, 0);
    cr_assert_eq(cut.count, 1);
    cr_expect_eq(cut.steps[0].kind, SPMD_STEP_UNEVEN_SLICE);
    cr_expect_eq(cut.bytes, 3 * 400, "%lld", (long long)cut.bytes);
    const SpmdPath joined = spmd_reshard_plan(arena, NULL, mesh, shape, narrow, 0, wide, 0);
    cr_assert_eq(joined.count, 1);
    cr_expect_eq(joined.steps[0].kind, SPMD_STEP_UNEVEN_GATHER);
    cr_expect_eq(joined.bytes, (76 + 3) * 400, "%lld", (long long)joined.bytes);
    hlo_arena_free(arena);
}
