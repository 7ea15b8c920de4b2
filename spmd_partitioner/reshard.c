// SPDX-License-Identifier: Apache-2.0
// The search is Dijkstra's over states (sharding, partial axes). Steps that cannot help are not tried: axes are
// gathered from the end of a dimension only, and axes that the target does not use are never added. States are few,
// because a mesh has few axes. If there are more than STATE_LIMIT nevertheless, everything is gathered and sliced
// again, and the path records it. Costs are bytes, or on a machine the prices of costs.h.
//
// A state is a sharding with the set of axes over which values are still partial. Steps lead from state to state, a
// collective each (or a slice, which sends nothing), and cost the bytes that one device sends in a ring algorithm. A
// step is taken only if shards before and after begin at the same elements (spmd_split_is_even()). Slices and gathers
// between others take what their shards lack from other devices by permutes (spmd_uneven_moves()). Invariant: the
// path's last sharding is the wanted one, and each step's `after` is the array's sharding after it, so that
// collective.c emits them one by one.
//
// f32[8,16] on a mesh x=2,y=2, from [{x}, {}] to [{}, {x}]; a shard has 256 bytes:
//     all-to-all over x                128 bytes sent
//     all-gather over x, then slice    256 bytes sent
// The first wins. The prices of steps on a shard of n bytes and a group of g devices:
//     slice 0            all-gather n(g-1)          all-to-all n(g-1)/g
//     permute n          reduce-scatter n(g-1)/g    all-reduce 2n(g-1)/g
//     permute and all-to-all at once, by a permute for each of the g parts, n
//     all-gather of a dimension of one element, which its owner broadcasts, n
//     uneven slice and gather: the same, and what the permutes send
//
// With s states reached, the search takes O(s^2) for finding the cheapest one, and each state tries O(rank^2 x atoms)
// steps; most searches end within ten states.
#include "spmd_partitioner/reshard.h"

#include <assert.h>
#include <string.h>

#include "spmd_partitioner/moves.h"

// A slice sends nothing; it weighs as little as a step can.
enum { SLICE_WEIGHT = 1, STATE_LIMIT = 3000 };
// Parts of a tile that are sent on their own, at most: each is a message.
enum { MOST_PARTS = 4 };

// A node of the search: a sharding with partial axes, and how it was reached.
// `cost` is in bytes plus the weights of the steps so far, or their prices on a machine.
typedef struct State {
    SpmdSharding *sharding;
    SpmdAtomSet partial;
    int64_t cost, bytes;
    int32_t parent;  // -1 at the start
    int32_t next;    // state of the same hash, -1 at the end
    bool done;
    SpmdStep step;  // the last step
} State;

// `keep` are the axes over which the result may stay partial.
typedef struct Search {
    HloArena *arena;
    SpmdCosts *costs;
    const SpmdMesh *mesh;
    const HloShape *global;
    const SpmdSharding *to;
    SpmdAtomSet keep;
    HLO_VECTOR(State) states;
    HloIntMap first;  // hash of a state -> its number + 1
    int32_t current;
} Search;

// States with one hash form a chain and are compared.
static uint64_t state_hash(const SpmdSharding *sharding, SpmdAtomSet partial) {
    uint64_t hash = partial + 1;
    for (int32_t i = 0; i < sharding->rank; i++) {
        hash = hlo_hash_mix(hash, hlo_hash_bytes(sharding->dims[i].items, sharding->dims[i].count));
        hash = hlo_hash_mix(hash, sharding->dims[i].count);
    }
    return hash;
}

// Adds a state or lowers the cost of a known one. `step` is NULL for the start alone. A state beyond the limit is
// dropped: the search then gives up by its count.
static void reach(Search *search, SpmdSharding *sharding, SpmdAtomSet partial, int64_t cost, int64_t bytes,
                  const SpmdStep *step) {
    assert(cost >= 0 && bytes >= 0); /* bytes and weights */
    uint64_t hash = state_hash(sharding, partial);
    int64_t *found = hlo_int_map_find(&search->first, hash);
    for (int64_t i = found ? *found - 1 : -1; i >= 0; i = search->states.items[i].next) {
        State *state = &search->states.items[i];
        if (state->partial != partial || !spmd_sharding_equal(state->sharding, sharding)) continue;
        if (state->done || state->cost <= cost) return;
        state->cost = cost;
        state->bytes = bytes;
        state->parent = search->current;
        state->step = *step;
        return;
    }
    if (search->states.count >= STATE_LIMIT) return;
    State state = {.sharding = sharding, .partial = partial, .cost = cost, .bytes = bytes, .parent = search->current};
    if (step) state.step = *step;
    state.next = found ? (int32_t)*found - 1 : -1;
    hlo_vector_push(search->arena, &search->states, state);
    hlo_int_map_set(search->arena, &search->first, hash, search->states.count);
}

// The bytes of one device's part.
static int64_t local_bytes(const Search *search, const SpmdSharding *sharding) {
    return spmd_local_bytes(search->mesh, search->global, sharding);
}

// The bytes that one device sends when `bytes` go round a ring of a group: all but its own share.
static int64_t ring(int64_t bytes, int64_t group) {
    assert(bytes >= 0); /* of an array */
    return group < 2 ? 0 : (bytes / group) * (group - 1);
}

// Records the result of a step on the current state.
static void step_to(Search *search, SpmdSharding *after, SpmdAtomSet partial, int64_t cost, int64_t bytes,
                    SpmdStep step) {
    assert(search->current >= 0); /* from a state that was reached */
    const State *now = &search->states.items[search->current];
    step.after = after;
    step.partial = partial;
    reach(search, after, partial, spmd_add_bytes(now->cost, cost), spmd_add_bytes(now->bytes, bytes), &step);
}

// The same for a step that sends `bytes` along `atoms`.
static void send_to(Search *search, SpmdSharding *after, SpmdAtomSet partial, SpmdTransferKind kind, SpmdAtomSet atoms,
                    int64_t bytes, SpmdStep step) {
    step.messages = 1;
    step_to(search, after, partial, spmd_transfer_cost(search->costs, kind, atoms, bytes, true), bytes, step);
}

// True if cutting dimension `dim` of `sharding` further by `times`, or gathering `times` parts to it, needs nothing of
// other shards.
static bool even(const Search *search, const SpmdSharding *sharding, int32_t dim, int64_t times) {
    return spmd_split_is_even(search->global->dims[dim], spmd_axes_product(search->mesh, &sharding->dims[dim]), times);
}

// The next atoms that dimension `dim` still needs, as far as they are in `from`. Empty where the dimension's axes are
// not a prefix of those it needs.
static SpmdAxes next_axes(const Search *search, const SpmdSharding *now, int32_t dim, SpmdAtomSet from) {
    SpmdAxes run = {0};
    const SpmdAxes *have = &now->dims[dim], *want = &search->to->dims[dim];
    if (!spmd_axes_is_prefix(have, want)) return run;
    for (int32_t i = have->count; i < want->count && (from >> want->items[i] & 1); i++) {
        spmd_axes_push(&run, want->items[i]);
    }
    return run;
}

// What the permutes of an uneven step send, `row` bytes an element of the dimension; *cost is theirs, and the step gets
// their number. Negative if there are too many.
static int64_t uneven_bytes(Search *search, const SpmdAxes *narrow, int32_t wide, int64_t row, SpmdStep *step,
                            int64_t *cost) {
    const SpmdMoves *moves =
        spmd_uneven_moves(search->arena, search->mesh, search->global->dims[step->dim], narrow, wide, step->kind);
    if (!moves) return -1;
    const int64_t bytes = spmd_times_bytes(moves->sent, row);
    step->messages += moves->rounds - moves->own_rounds;
    *cost = spmd_permutes_cost(search->costs, narrow, bytes, moves->rounds - moves->own_rounds, true);
    return bytes;
}

// The bytes of one element of dimension `dim` on a device.
static int64_t row_bytes(const Search *search, const SpmdSharding *sharding, int32_t dim) {
    const int64_t parts = spmd_axes_product(search->mesh, &sharding->dims[dim]);
    return local_bytes(search, sharding) / spmd_shard_size(search->global->dims[dim], parts);
}

// Cuts dimension `dim` further by `run`, at elements where its shards do not begin.
static void try_uneven_slice(Search *search, const SpmdSharding *now, SpmdAtomSet partial, int32_t dim,
                             const SpmdAxes *run) {
    SpmdSharding *after = spmd_sharding_copy(search->arena, now);
    spmd_axes_append(&after->dims[dim], run);
    int64_t cost = 0;
    SpmdStep step = {.kind = SPMD_STEP_UNEVEN_SLICE, .dim = dim, .axes = *run};
    const int64_t bytes =
        uneven_bytes(search, &after->dims[dim], now->dims[dim].count, row_bytes(search, now, dim), &step, &cost);
    if (bytes >= 0) step_to(search, after, partial, spmd_add_bytes(cost, SLICE_WEIGHT), bytes, step);
}

// Slices send nothing; their weight only makes paths with fewer of them win among those that send as much.
static void try_slices(Search *search, const SpmdSharding *now, SpmdAtomSet partial) {
    SpmdAtomSet idle = ~(spmd_sharding_used(now) | partial | now->manual);
    for (int32_t dim = 0; dim < now->rank; dim++) {
        SpmdAxes run = next_axes(search, now, dim, idle);
        if (!run.count) continue;
        if (!even(search, now, dim, spmd_axes_product(search->mesh, &run))) {
            try_uneven_slice(search, now, partial, dim, &run);
            continue;
        }
        SpmdSharding *after = spmd_sharding_copy(search->arena, now);
        spmd_axes_append(&after->dims[dim], &run);
        step_to(search, after, partial, SLICE_WEIGHT, 0, (SpmdStep){.kind = SPMD_STEP_SLICE, .dim = dim, .axes = run});
    }
}

// A partial sum either becomes whole everywhere (all-reduce), or each device gets only the part that it needs
// (reduce-scatter), for half of the bytes.
static void try_reductions(Search *search, const SpmdSharding *now, SpmdAtomSet partial) {
    SpmdAtomSet open = partial & ~search->keep;
    if (!open) return;
    int64_t bytes = local_bytes(search, now);
    for (int32_t dim = 0; dim < now->rank; dim++) {
        SpmdAxes run = next_axes(search, now, dim, open);
        int64_t group = spmd_axes_product(search->mesh, &run);
        if (!run.count || !even(search, now, dim, group)) continue;
        SpmdSharding *after = spmd_sharding_copy(search->arena, now);
        spmd_axes_append(&after->dims[dim], &run);
        const SpmdAtomSet over = spmd_axes_set(&run);
        send_to(search, after, partial & ~over, SPMD_TRANSFER_SCATTER, over, ring(bytes, group),
                (SpmdStep){.kind = SPMD_STEP_REDUCE_SCATTER, .dim = dim, .axes = run});
    }
    SpmdStep step = {.kind = SPMD_STEP_ALL_REDUCE};
    spmd_axes_push_set(&step.axes, open);
    send_to(search, spmd_sharding_copy(search->arena, now), partial & ~open, SPMD_TRANSFER_REDUCE, open,
            spmd_times_bytes(ring(bytes, spmd_atoms_product(search->mesh, open)), 2), step);
}

// Whether gathering dimension `dim` to the sharding `after` delivers one element.
static bool delivers_one(const SpmdMesh *mesh, const HloShape *global, const SpmdSharding *after, int32_t dim) {
    return spmd_shard_size(global->dims[dim], spmd_axes_product(mesh, &after->dims[dim])) == 1;
}

bool spmd_gather_has_owner(const SpmdMesh *mesh, const HloShape *global, const SpmdSharding *after, int32_t dim,
                           const SpmdAxes *axes) {
    assert(dim >= 0 && dim < after->rank);
    return spmd_axes_product(mesh, axes) > 2 && delivers_one(mesh, global, after, dim);
}

// A gather of dimension `dim` over the axes `run`, to `after`. An uneven one must be the dimension's last, since
// gathering all of it at once is never uneven.
static void try_gather(Search *search, const SpmdSharding *now, SpmdSharding *after, SpmdAtomSet partial, int32_t dim,
                       const SpmdAxes *run) {
    assert(run->count > 0);
    const int64_t group = spmd_axes_product(search->mesh, run);
    int64_t bytes = ring(spmd_times_bytes(local_bytes(search, now), group), group), more = 0, cost = 0;
    if (spmd_gather_has_owner(search->mesh, search->global, after, dim, run)) bytes = local_bytes(search, now);
    SpmdStep step = {.kind = SPMD_STEP_ALL_GATHER, .dim = dim, .axes = *run, .messages = 1};
    if (!even(search, after, dim, group)) {
        if (!spmd_axes_is_prefix(&after->dims[dim], &search->to->dims[dim])) return;
        step.kind = SPMD_STEP_UNEVEN_GATHER;
        more = uneven_bytes(search, &now->dims[dim], after->dims[dim].count, row_bytes(search, now, dim), &step, &cost);
        if (more < 0) return;
    }
    cost =
        spmd_add_bytes(cost, spmd_transfer_cost(search->costs, SPMD_TRANSFER_GATHER, spmd_axes_set(run), bytes, true));
    step_to(search, after, partial, cost, spmd_add_bytes(bytes, more), step);
}

// Gathers from the minor end of a dimension's axes, the only end where the result is a sharding again, and only as far
// as the goal does not share the remaining axes.
static void try_gathers(Search *search, const SpmdSharding *now, SpmdAtomSet partial) {
    for (int32_t dim = 0; dim < now->rank; dim++) {
        for (int32_t left = now->dims[dim].count - 1; left >= 0; left--) {
            if (spmd_axes_is_prefix(&now->dims[dim], &search->to->dims[dim])) break;
            SpmdSharding *after = spmd_sharding_copy(search->arena, now);
            after->dims[dim] = spmd_axes_head(&now->dims[dim], left);
            SpmdAxes run = spmd_axes_tail(&now->dims[dim], left);
            try_gather(search, now, after, partial, dim, &run);
        }
    }
}

// Moves the axes after the first `left` of `dim` to the end of `target`. Only moves after which the target is a prefix
// of the goal are steps: others would have to be undone.
static void try_all_to_all(Search *search, const SpmdSharding *now, SpmdAtomSet partial, int32_t dim, int32_t left,
                           int32_t target) {
    assert(dim >= 0 && left >= 0 && target >= 0);
    SpmdAxes run = spmd_axes_tail(&now->dims[dim], left);
    int64_t group = spmd_axes_product(search->mesh, &run);
    SpmdSharding *after = spmd_sharding_copy(search->arena, now);
    after->dims[dim] = spmd_axes_head(&now->dims[dim], left);
    spmd_axes_append(&after->dims[target], &run);
    if (!spmd_axes_is_prefix(&after->dims[target], &search->to->dims[target])) return;
    if (!even(search, after, dim, group) || !even(search, now, target, group)) return;
    send_to(search, after, partial, SPMD_TRANSFER_EXCHANGE, spmd_axes_set(&run), ring(local_bytes(search, now), group),
            (SpmdStep){.kind = SPMD_STEP_ALL_TO_ALL, .dim = dim, .target = target, .axes = run});
}

// Axes move from the end of one dimension to the end of another: the devices of a group exchange blocks, and no device
// ever holds more than before.
static void try_all_to_alls(Search *search, const SpmdSharding *now, SpmdAtomSet partial) {
    for (int32_t dim = 0; dim < now->rank; dim++) {
        if (spmd_axes_is_prefix(&now->dims[dim], &search->to->dims[dim])) continue;
        for (int32_t left = now->dims[dim].count - 1; left >= 0; left--) {
            for (int32_t target = 0; target < now->rank; target++) {
                if (target != dim) try_all_to_all(search, now, partial, dim, left, target);
            }
        }
    }
}

// Finds an atom in a sharding: its dimension and position, or false.
static bool find_atom(const SpmdSharding *sharding, uint8_t atom, int32_t *dim, int32_t *place) {
    for (*dim = 0; *dim < sharding->rank; ++*dim) {
        for (*place = 0; *place < sharding->dims[*dim].count; ++*place) {
            if (sharding->dims[*dim].items[*place] == atom) return true;
        }
    }
    return false;
}

// Puts `atom` in the position of another one of the same size, which goes where `atom` was. If `atom` was not in use,
// the displaced one no longer shards anything: the tiles are the same, on other devices.
static void swap_in(SpmdSharding *sharding, int32_t dim, int32_t place, uint8_t atom) {
    assert(place < sharding->dims[dim].count); /* a position that an atom has */
    int32_t other_dim, other_place;
    bool found = find_atom(sharding, atom, &other_dim, &other_place);
    uint8_t displaced = sharding->dims[dim].items[place];
    sharding->dims[dim].items[place] = atom;
    if (found) sharding->dims[other_dim].items[other_place] = displaced;
}

// Gives dimension `dim` the wanted atoms, position by position, as far as sizes allow and they are not `fixed`. True if
// any atom was exchanged.
static bool align_dim(const Search *search, SpmdSharding *sharding, int32_t dim, SpmdAtomSet fixed) {
    assert(dim >= 0);
    const SpmdAxes *want = &search->to->dims[dim];
    bool changed = false;
    for (int32_t place = 0; place < want->count && place < sharding->dims[dim].count; place++) {
        uint8_t atom = want->items[place], now = sharding->dims[dim].items[place];
        if (atom == now) continue;
        bool same = search->mesh->atoms[atom].size == search->mesh->atoms[now].size;
        if (!same || (fixed >> atom & 1)) break;
        swap_in(sharding, dim, place, atom);
        changed = true;
    }
    return changed;
}

// Puts the atoms that dimension `target` still needs at the end of `dim`, in the order in which it needs them: one
// all-to-all then moves them all.
static void order_leaving(const Search *search, SpmdSharding *sharding, int32_t dim, int32_t target) {
    const SpmdAxes *have = &sharding->dims[target], *want = &search->to->dims[target];
    if (dim == target || !spmd_axes_is_prefix(have, want)) return;
    const SpmdAxes needed = spmd_axes_tail(want, have->count), now = sharding->dims[dim];
    SpmdAxes staying = {0}, leaving = {0};
    for (int32_t i = 0; i < needed.count; i++) {
        if (spmd_axes_set(&now) >> needed.items[i] & 1) spmd_axes_push(&leaving, needed.items[i]);
    }
    for (int32_t i = 0; i < now.count; i++) {
        if (!(spmd_axes_set(&leaving) >> now.items[i] & 1)) spmd_axes_push(&staying, now.items[i]);
    }
    spmd_axes_append(&staying, &leaving);
    sharding->dims[dim] = staying;
}

// The atoms whose place in the sharding a permute changes: those that it concerns.
static SpmdAtomSet changed_atoms(const SpmdSharding *now, const SpmdSharding *after) {
    SpmdAtomSet changed = 0;
    for (int32_t dim = 0; dim < now->rank; dim++) {
        const SpmdAxes *before = &now->dims[dim], *then = &after->dims[dim];
        if (!spmd_axes_equal(before, then)) changed |= spmd_axes_set(before) | spmd_axes_set(then);
    }
    return changed;
}

// A permute to `permuted` and an all-to-all that moves the axes after the first `left` of `dim` to the end of `target`,
// at once: each part of a tile goes where it belongs, instead of to a device that sends it on.
static void try_parts(Search *search, const SpmdSharding *now, const SpmdSharding *permuted, SpmdAtomSet partial,
                      int32_t dim, int32_t left, int32_t target) {
    assert(dim != target && left >= 0);
    const SpmdAxes run = spmd_axes_tail(&permuted->dims[dim], left);
    const int64_t parts = spmd_axes_product(search->mesh, &run);
    SpmdSharding *after = spmd_sharding_copy(search->arena, permuted);
    after->dims[dim] = spmd_axes_head(&permuted->dims[dim], left);
    spmd_axes_append(&after->dims[target], &run);
    if (parts > MOST_PARTS || !spmd_axes_is_prefix(&after->dims[target], &search->to->dims[target])) return;
    if (!even(search, after, dim, parts) || !even(search, permuted, target, parts)) return;
    const int64_t bytes = local_bytes(search, now);
    const int64_t each =
        spmd_transfer_cost(search->costs, SPMD_TRANSFER_PERMUTE, changed_atoms(now, after), bytes / parts, true);
    step_to(search, after, partial, spmd_times_bytes(each, parts), bytes,
            (SpmdStep){.kind = SPMD_STEP_PERMUTE_PARTS, .dim = dim, .target = target, .axes = run, .messages = parts});
}

// A permute alone, and with each all-to-all after it.
static void permute_to(Search *search, const SpmdSharding *now, SpmdSharding *after, SpmdAtomSet partial,
                       int64_t bytes) {
    send_to(search, after, partial, SPMD_TRANSFER_PERMUTE, changed_atoms(now, after), bytes,
            (SpmdStep){.kind = SPMD_STEP_PERMUTE});
    for (int32_t dim = 0; dim < now->rank; dim++)
        for (int32_t left = after->dims[dim].count - 1; left >= 0; left--)
            for (int32_t target = 0; target < now->rank; target++)
                if (target != dim) try_parts(search, now, after, partial, dim, left, target);
}

// Tries three candidates: one dimension aligned, all of them aligned, and all with the leaving axes put where one
// all-to-all can take them. Partial and manual axes keep their positions: their devices hold different data. The cost
// is a whole shard, although devices whose tile does not change send nothing: a permute takes as long as its longest
// message.
static void try_permutes(Search *search, const SpmdSharding *now, SpmdAtomSet partial) {
    SpmdAtomSet fixed = partial | now->manual;
    const int64_t bytes = local_bytes(search, now);
    SpmdSharding *all = spmd_sharding_copy(search->arena, now);
    for (int32_t dim = 0; dim < now->rank; dim++) {
        SpmdSharding *one = spmd_sharding_copy(search->arena, now);
        if (align_dim(search, one, dim, fixed)) {
            permute_to(search, now, one, partial, bytes);
        }
        align_dim(search, all, dim, fixed);
    }
    if (!spmd_sharding_equal(all, now)) permute_to(search, now, all, partial, bytes);
    SpmdSharding *ordered = spmd_sharding_copy(search->arena, all);
    for (int32_t dim = 0; dim < now->rank; dim++) {
        for (int32_t target = 0; target < now->rank; target++) order_leaving(search, ordered, dim, target);
    }
    if (spmd_sharding_equal(ordered, all)) return;
    permute_to(search, now, ordered, partial, bytes);
}

// The open state of least cost, or -1.
// A scan, not a heap: states are few, and most searches end within ten.
static int32_t cheapest(const Search *search) {
    int32_t best = -1;
    for (int32_t i = 0; i < (int32_t)search->states.count; i++) {
        const State *state = &search->states.items[i];
        if (state->done || (best >= 0 && state->cost >= search->states.items[best].cost)) continue;
        best = i;
    }
    return best;
}

// Partial axes that the caller keeps do not count.
static bool at_goal(const Search *search, const State *state) {
    return !(state->partial & ~search->keep) && spmd_sharding_equal(state->sharding, search->to);
}

// Whether a step takes axes from a dimension that one of the steps before it gives axes to, or gives axes to one that
// they come from.
static bool step_follows(const SpmdStep *steps, int32_t count, const SpmdStep *step) {
    for (int32_t i = 0; i < count; i++)
        if (steps[i].target == step->dim || steps[i].dim == step->target) return true;
    return false;
}

// How many gathers from `steps` on deliver one element of their dimension each. The owner of all of them broadcasts.
static int32_t gathers_of_one_owner(const SpmdMesh *mesh, const HloShape *global, const SpmdStep *steps,
                                    int32_t count) {
    int32_t together = 0;
    while (together < count && steps[together].kind == SPMD_STEP_ALL_GATHER &&
           delivers_one(mesh, global, steps[together].after, steps[together].dim))
        together++;
    return together;
}

int32_t spmd_steps_together(const SpmdMesh *mesh, const HloShape *global, const SpmdSharding *from,
                            const SpmdStep *steps, int32_t count) {
    assert(mesh && global && from && steps && count > 0);
    int32_t together = gathers_of_one_owner(mesh, global, steps, count);
    if (together) return together;
    for (const SpmdSharding *before = from; together < count; together++) {
        const SpmdStep *step = &steps[together];
        if (step->kind != SPMD_STEP_ALL_TO_ALL || step_follows(steps, together, step)) break;
        const int64_t group = spmd_axes_product(mesh, &step->axes);
        const int64_t given = spmd_axes_product(mesh, &before->dims[step->dim]);
        const int64_t taken = spmd_axes_product(mesh, &step->after->dims[step->target]);
        const int64_t size = global->dims[step->target];
        const bool splits = group * spmd_shard_size(size, taken) == spmd_shard_size(size, taken / group);
        const int64_t source = global->dims[step->dim];
        const bool joins = group * spmd_shard_size(source, given) == spmd_shard_size(source, given / group);
        if (!splits || !joins) break;
        before = step->after;
    }
    return together ? together : 1;
}

// What the steps of a path send: those that are made as one send less than one after the other. `states` are those
// before each step, and the last one.
static void price_path(const Search *search, const int32_t *states, SpmdPath *path) {
    for (int32_t i = 0, together; i < path->count; i += together) {
        const State *before = &search->states.items[states[i]];
        together =
            spmd_steps_together(search->mesh, search->global, before->sharding, &path->steps[i], path->count - i);
        const State *after = &search->states.items[states[i + together]];
        int64_t bytes = after->bytes - before->bytes, cost = after->cost - before->cost;
        if (together > 1) {
            SpmdAxes axes = {0};
            for (int32_t k = 0; k < together; k++) spmd_axes_append(&axes, &path->steps[i + k].axes);
            const bool gathers = path->steps[i].kind == SPMD_STEP_ALL_GATHER;
            const SpmdTransferKind transfer = gathers ? SPMD_TRANSFER_GATHER : SPMD_TRANSFER_EXCHANGE;
            bytes = local_bytes(search, before->sharding);
            if (!gathers) bytes = ring(bytes, spmd_axes_product(search->mesh, &axes));
            cost = spmd_transfer_cost(search->costs, transfer, spmd_axes_set(&axes), bytes, true);
        }
        path->bytes = spmd_add_bytes(path->bytes, bytes);
        path->cost = spmd_add_bytes(path->cost, cost);
        path->messages += path->steps[i].messages;  // one for those that are made as one
    }
    if (!search->costs || !search->costs->machine) path->cost = path->bytes;
}

// The steps from the start to a state.
static SpmdPath path_to(const Search *search, int32_t goal) {
    assert(goal >= 0 && goal < search->states.count); /* a state that was reached */
    SpmdPath path = {0};
    for (int32_t i = goal; search->states.items[i].parent >= 0; i = search->states.items[i].parent) path.count++;
    SpmdStep *steps = HLO_ARENA_NEW(search->arena, SpmdStep, path.count + 1);
    int32_t *states = HLO_ARENA_NEW(search->arena, int32_t, path.count + 1);
    int32_t at = path.count;
    for (int32_t i = goal; at > 0; i = search->states.items[i].parent) {
        states[at] = i;
        steps[--at] = search->states.items[i].step;
    }
    path.steps = steps;  // state 0 is the start
    price_path(search, states, &path);
    return path;
}

// Finishes partial results, gathers every dimension that differs, and slices: the fallback when the search gives up. It
// always succeeds, since slices of whole dimensions may begin anywhere.
static SpmdPath gather_everything(Search *search, const SpmdSharding *from, SpmdAtomSet partial) {
    SpmdStep *steps = HLO_ARENA_NEW(search->arena, SpmdStep, 2 * from->rank + 1);
    SpmdPath path = {.steps = steps, .fell_back = true};
    SpmdSharding *now = spmd_sharding_copy(search->arena, from);
    SpmdStep reduce = {.kind = SPMD_STEP_ALL_REDUCE};
    spmd_axes_push_set(&reduce.axes, partial & ~search->keep);
    partial &= search->keep;
    reduce.after = from;
    reduce.partial = partial;
    if (reduce.axes.count) steps[path.count++] = reduce;
    path.messages = path.count;
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t dim = 0; dim < from->rank; dim++) {
            const SpmdAxes *axes = pass ? &search->to->dims[dim] : &from->dims[dim];
            if (!axes->count || spmd_axes_equal(&from->dims[dim], &search->to->dims[dim])) continue;
            now = spmd_sharding_copy(search->arena, now);
            now->dims[dim] = pass ? *axes : (SpmdAxes){0};
            steps[path.count++] = (SpmdStep){.kind = pass ? SPMD_STEP_SLICE : SPMD_STEP_ALL_GATHER,
                                             .dim = dim,
                                             .axes = *axes,
                                             .after = now,
                                             .partial = partial};
            if (pass) continue;
            path.messages++;
            int64_t sent = local_bytes(search, now);
            if (!spmd_gather_has_owner(search->mesh, search->global, now, dim, axes))
                sent = ring(sent, spmd_axes_product(search->mesh, axes));
            path.bytes = spmd_add_bytes(path.bytes, sent);
            path.cost = spmd_add_bytes(
                path.cost, spmd_transfer_cost(search->costs, SPMD_TRANSFER_GATHER, spmd_axes_set(axes), sent, false));
        }
    }
    return path;
}

// Dijkstra's invariant: when a state is the cheapest open one, no cheaper way to it exists. Costs are bytes plus a
// little for each step, so that among equals the shorter path wins.
SpmdPath spmd_reshard_plan(HloArena *arena, SpmdCosts *costs, const SpmdMesh *mesh, const HloShape *global,
                           const SpmdSharding *from, SpmdAtomSet partial, const SpmdSharding *to,
                           SpmdAtomSet keep_partial) {
    assert(arena && mesh && from && to);
    Search search = {
        .arena = arena, .costs = costs, .mesh = mesh, .global = global, .to = to, .keep = keep_partial, .current = -1};
    SpmdSharding *start = spmd_sharding_copy(arena, from);
    SpmdSharding *goal = spmd_sharding_copy(arena, to);
    goal->manual = start->manual;  // a region's manual axes are no difference: the data is the same
    goal->unreduced = start->unreduced;
    search.keep |= to->unreduced;
    search.to = goal;
    if (!(partial & ~search.keep) && spmd_sharding_equal(start, goal)) return (SpmdPath){0};
    reach(&search, start, partial, 0, 0, NULL);
    for (;;) {
        int32_t best = cheapest(&search);
        if (best < 0 || search.states.count >= STATE_LIMIT) return gather_everything(&search, from, partial);
        search.states.items[best].done = true;
        if (at_goal(&search, &search.states.items[best])) return path_to(&search, best);
        search.current = best;
        const SpmdSharding *now = search.states.items[best].sharding;
        SpmdAtomSet open = search.states.items[best].partial;
        try_slices(&search, now, open);
        try_reductions(&search, now, open);
        try_gathers(&search, now, open);
        try_all_to_alls(&search, now, open);
        try_permutes(&search, now, open);
    }
}

// All that a path depends on, one after another without gaps, so that it can be compared as bytes: the manual axes of
// the goal are those of the start.
typedef struct PathKey {
    uint32_t type, rank;
    SpmdAtomSet manual, unreduced, partial, to_unreduced, keep;
} PathKey;
typedef struct PathKeyDim {
    int64_t size;
    SpmdAxes from, to;
} PathKeyDim;
static_assert(sizeof(PathKey) == 7 * 4 && sizeof(PathKeyDim) == 8 + 2 * sizeof(SpmdAxes), "no padding");

static char *path_key(HloArena *arena, const HloShape *global, const SpmdSharding *from, SpmdAtomSet partial,
                      const SpmdSharding *to, SpmdAtomSet keep_partial, size_t *length) {
    const PathKey head = {.type = (uint32_t)global->type,
                          .rank = (uint32_t)from->rank,
                          .manual = from->manual,
                          .unreduced = from->unreduced,
                          .partial = partial,
                          .to_unreduced = to->unreduced,
                          .keep = keep_partial};
    *length = sizeof(head) + (size_t)from->rank * sizeof(PathKeyDim);
    char *key = HLO_ARENA_NEW(arena, char, *length);
    memcpy(key, &head, sizeof(head));
    for (int32_t d = 0; d < from->rank; d++) {
        const PathKeyDim dim = {global->dims[d], from->dims[d], to->dims[d]};
        memcpy(key + sizeof(head) + (size_t)d * sizeof(dim), &dim, sizeof(dim));
    }
    return key;
}

static SpmdPath *copy_path(HloArena *arena, const SpmdPath *path) {
    SpmdPath *copy = hlo_arena_copy(arena, path, sizeof(*path));
    SpmdStep *steps = hlo_arena_copy(arena, path->steps, (size_t)path->count * sizeof(*steps));
    for (int32_t i = 0; i < path->count; i++) steps[i].after = spmd_sharding_copy(arena, steps[i].after);
    copy->steps = steps;
    return copy;
}

const SpmdPath *spmd_reshard_path(SpmdPaths *paths, HloArena *scratch, const SpmdMesh *mesh, const HloShape *global,
                                  const SpmdSharding *from, SpmdAtomSet partial, const SpmdSharding *to,
                                  SpmdAtomSet keep_partial) {
    static const SpmdPath nothing = {0};
    if (!(partial & ~(keep_partial | to->unreduced)) && spmd_same_dims(from, to)) return &nothing;
    const HloArenaMark mark = hlo_arena_mark(scratch);
    size_t length;
    const char *key = path_key(scratch, global, from, partial, to, keep_partial, &length);
    const SpmdPath *path = hlo_string_map_get(&paths->paths, key, length);
    if (!path) {
        const SpmdPath found = spmd_reshard_plan(scratch, paths->costs, mesh, global, from, partial, to, keep_partial);
        SpmdPath *kept = copy_path(paths->arena, &found);
        key = hlo_arena_copy(paths->arena, key, length);
        hlo_string_map_set(paths->arena, &paths->paths, key, length, kept);
        path = kept;
    }
    hlo_arena_reset(scratch, mark);
    return path;
}
