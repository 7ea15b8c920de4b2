// SPDX-License-Identifier: Apache-2.0
// Terms:
//   place    the position of an instruction in the list of the entry computation, parameters not counted.
//   run      places that repeat with a period: the instruction at a place does the same as that one period before.
//   copy     one period of a run.
//   cut      the first copy that is left out. From each run the same number of copies is left out.
//
// Runs do not overlap, and operands come first in the list. So references between runs all point to an earlier run, and
// any copy of that run can take the place of another one without making a cycle.
#include "spmd_partitioner/search/repeats.h"

#include <assert.h>

#include "hlo/analysis/redundant.h"
#include "hlo/base/map.h"
#include "hlo/pass/pass.h"

enum {
    GRAM = 12,        // instructions that must agree before a period is tried
    MOST_TRIES = 32,  // periods that are tried from one place
    LEAST_COPIES = 4,
    SLACK = 2,  // by so many copies runs of one stack may differ: the first and the last layer are often special
};

typedef struct Run {
    int64_t begin, end, period;
    int64_t cut;  // -1: not decided yet
} Run;

typedef struct Shortening {
    HloModule *module;
    HloArena *scratch;
    HloInstruction **list;  // by place
    uint64_t *hashes;       // by place: of what the instruction does, without its operands
    int64_t *places;        // by instruction: its place, or -1
    int64_t *run_of;        // by place: number of its run, or -1
    bool *tainted;          // by place: outside of the runs, and computed from what is left out
    int64_t count;
    HLO_VECTOR(Run) runs;
    int64_t left_out;  // copies of each run
} Shortening;

static int64_t copies_of(const Run *run) {
    return (run->end - run->begin) / run->period;
}

// ---- the list

// Hashes what an instruction does; computations that it calls count by their content.
static uint64_t operation_hash(const HloInstruction *instruction, const uint64_t *computations) {
    const HloFamily family = hlo_op_info(instruction->opcode)->family;
    uint64_t hash = hlo_hash_mix((uint64_t)instruction->opcode, hlo_shape_hash(instruction->shape));
    hash = hlo_hash_mix(hash, (uint64_t)instruction->operand_count);
    for (int32_t i = 0; i < instruction->called_count; i++)
        hash = hlo_hash_mix(hash, computations[instruction->called[i]->id]);
    if (instruction->sharding) hash = hlo_hash_mix(hash, hlo_sharding_hash(instruction->sharding));
    return instruction->attributes ? hlo_hash_mix(hash, hlo_attributes_hash(family, instruction->attributes)) : hash;
}

// By computation: a hash of its content that does not depend on names.
static uint64_t *hash_computations(Shortening *shortening) {
    HloModule *module = shortening->module;
    uint64_t *hashes = HLO_ARENA_NEW(shortening->scratch, uint64_t, module->computation_limit + 1);
    int64_t *numbers = HLO_ARENA_NEW(shortening->scratch, int64_t, module->instruction_limit + 1);
    int64_t count;
    HloComputation **order = hlo_module_whole_post_order(module, shortening->scratch, &count);
    for (int64_t c = 0; c < count; c++) {
        uint64_t hash = 1;
        int64_t number = 0;
        if (order[c] == module->entry) continue;
        for (const HloInstruction *i = order[c]->first; i; i = i->next) {
            numbers[i->id] = number++;
            hash = hlo_hash_mix(hash, operation_hash(i, hashes));
            for (int32_t k = 0; k < i->operand_count; k++)
                hash = hlo_hash_mix(hash, (uint64_t)numbers[i->operands[k]->id]);
        }
        hashes[order[c]->id] = hash;
    }
    return hashes;
}

static void make_list(Shortening *shortening) {
    const HloModule *module = shortening->module;
    HloArena *scratch = shortening->scratch;
    const uint64_t *computations = hash_computations(shortening);
    const int64_t most = module->entry->instruction_count + 1;
    shortening->list = HLO_ARENA_NEW(scratch, HloInstruction *, most);
    shortening->hashes = HLO_ARENA_NEW(scratch, uint64_t, most);
    shortening->run_of = HLO_ARENA_NEW(scratch, int64_t, most);
    shortening->tainted = HLO_ARENA_NEW(scratch, bool, most);
    shortening->places = HLO_ARENA_NEW(scratch, int64_t, module->instruction_limit + 1);
    for (HloInstruction *i = module->entry->first; i; i = i->next) {
        shortening->places[i->id] = -1;
        if (i->opcode == HLO_OP_PARAMETER) continue;
        shortening->places[i->id] = shortening->count;
        shortening->hashes[shortening->count] = operation_hash(i, computations);
        shortening->list[shortening->count++] = i;
    }
}

// ---- runs

// By place: the next place from which GRAM instructions do the same, or -1.
static int64_t *find_next(const Shortening *shortening) {
    HloIntMap last = {0};
    int64_t *next = HLO_ARENA_NEW(shortening->scratch, int64_t, shortening->count + 1);
    for (int64_t i = shortening->count - 1; i >= 0; i--) {
        uint64_t gram = 1;
        next[i] = -1;
        if (i + GRAM > shortening->count) continue;
        for (int64_t k = 0; k < GRAM; k++) gram = hlo_hash_mix(gram, shortening->hashes[i + k]);
        const int64_t *found = hlo_int_map_find(&last, gram);
        if (found) next[i] = *found;
        hlo_int_map_set(shortening->scratch, &last, gram, i);
    }
    return next;
}

// The longest run that begins at a place; end == begin if there is none. What repeats with the period of *last up to
// its end does so from any place within: it is not compared again.
static Run run_from(const Shortening *shortening, const int64_t *next, int64_t begin, Run *last) {
    Run best = {.begin = begin, .end = begin, .period = 1, .cut = -1};
    int64_t second = next[begin];
    for (int tries = 0; second >= 0 && tries < MOST_TRIES; tries++, second = next[second]) {
        const int64_t period = second - begin;
        int64_t end = second;
        if (begin + LEAST_COPIES * period > shortening->count) break;
        if (period == last->period && second >= last->begin + period && second < last->end) end = last->end;
        while (end < shortening->count && shortening->hashes[end] == shortening->hashes[end - period]) end++;
        *last = (Run){.begin = begin, .end = end, .period = period};
        if (end - begin < LEAST_COPIES * period || end <= best.end) continue;
        best.end = end;
        best.period = period;
    }
    return best;
}

// Finds the runs, and keeps those that have as many copies as the longest one, or nearly. Returns how many copies all
// of them have.
static int64_t find_runs(Shortening *shortening) {
    const int64_t *next = find_next(shortening);
    const Run *longest = NULL;
    int64_t kept = 0, least = INT64_MAX;
    Run last = {.period = -1};
    for (int64_t i = 0; i < shortening->count;) {
        const Run run = run_from(shortening, next, i, &last);
        i = run.end > i ? run.end : i + 1;
        if (run.end > run.begin) hlo_vector_push(shortening->scratch, &shortening->runs, run);
    }
    for (int64_t r = 0; r < shortening->runs.count; r++) {
        const Run *run = &shortening->runs.items[r];
        if (!longest || run->end - run->begin > longest->end - longest->begin) longest = run;
    }
    if (!longest) return 0;
    const int64_t copies = copies_of(longest);
    for (int64_t r = 0; r < shortening->runs.count; r++) {
        const Run run = shortening->runs.items[r];
        if (copies_of(&run) < copies - SLACK || copies_of(&run) > copies + SLACK) continue;
        shortening->runs.items[kept++] = run;
        least = copies_of(&run) < least ? copies_of(&run) : least;
    }
    shortening->runs.count = kept;
    for (int64_t i = 0; i < shortening->count; i++) shortening->run_of[i] = -1;
    for (int64_t r = 0; r < kept; r++)
        for (int64_t i = shortening->runs.items[r].begin; i < shortening->runs.items[r].end; i++)
            shortening->run_of[i] = r;
    return least;
}

// ---- cuts

static const Run *run_at(const Shortening *shortening, int64_t place) {
    const int64_t run = place < 0 ? -1 : shortening->run_of[place];
    return run < 0 ? NULL : &shortening->runs.items[run];
}

static int64_t copy_of(const Run *run, int64_t place) {
    return (place - run->begin) / run->period;
}

static bool is_left_out(const Shortening *shortening, int64_t place) {
    const Run *run = run_at(shortening, place);
    if (!run || run->cut < 0) return false;
    const int64_t copy = copy_of(run, place);
    return copy >= run->cut && copy < run->cut + shortening->left_out;
}

// Counts, by copy of a run, the references to and from copies of other runs that are left out.
static int64_t *count_references(const Shortening *shortening, const Run *run) {
    int64_t *counts = HLO_ARENA_NEW(shortening->scratch, int64_t, copies_of(run) + 2);
    for (int64_t i = 0; i < shortening->count; i++) {
        for (int32_t k = 0; k < shortening->list[i]->operand_count; k++) {
            const int64_t operand = shortening->places[shortening->list[i]->operands[k]->id];
            if (operand < 0) continue;
            if (run_at(shortening, i) == run && is_left_out(shortening, operand)) counts[copy_of(run, i)]++;
            if (run_at(shortening, operand) == run && is_left_out(shortening, i)) counts[copy_of(run, operand)]++;
        }
    }
    return counts;
}

// Cuts a run where it meets the layers that other runs have lost, so that a layer keeps its own weights and gradients.
// Elsewhere the program would be as valid, but its arrays would live for other times.
static void cut(const Shortening *shortening, Run *run) {
    const int64_t *counts = count_references(shortening, run);
    const int64_t copies = copies_of(run), last = copies - shortening->left_out - 1;
    int64_t most = 0, first = 0;
    for (int64_t k = 0; k <= copies; k++) most = counts[k] > most ? counts[k] : most;
    while (most && 2 * counts[first] <= most) first++;
    if (!most) first = (copies - shortening->left_out) / 2;
    run->cut = first < 1 ? 1 : first > last ? last : first;
    if (run->cut < 1) run->cut = 1;
}

static void cut_all(Shortening *shortening) {
    for (int64_t done = 0; done < shortening->runs.count; done++) {
        Run *longest = NULL;
        for (int64_t r = 0; r < shortening->runs.count; r++) {
            Run *run = &shortening->runs.items[r];
            if (run->cut < 0 && (!longest || run->end - run->begin > longest->end - longest->begin)) longest = run;
        }
        cut(shortening, longest);
    }
}

// ---- references

// The place that takes that of an operand which is left out, for an instruction of a run; -1 if there is none.
//
// Copy k of a run refers to copy k + d of another one, or to copy d - k, as backward layers do to forward ones. The
// copies after the cut move up by what is left out, and refer to what has moved up as well.
static int64_t stand_in(const Shortening *shortening, int64_t place, int32_t number, int64_t operand) {
    const Run *run = run_at(shortening, place), *other = run_at(shortening, operand);
    const bool is_after = copy_of(run, place) >= run->cut;
    const int64_t neighbour = place + run->period < run->end ? place + run->period : place - run->period;
    const int64_t reference = shortening->places[shortening->list[neighbour]->operands[number]->id];
    if (run_at(shortening, reference) != other) return -1;
    const int64_t step = (neighbour > place) == (reference > operand) ? 1 : -1;
    if (reference - operand != (neighbour > place ? step : -step) * other->period) return -1;
    const int64_t moved = shortening->left_out * other->period;
    const int64_t found = is_after == (step > 0) ? operand - moved : operand + moved;
    const bool valid = found >= other->begin && found < other->end && found < place;
    return valid && !is_left_out(shortening, found) ? found : -1;
}

// Redirects the operands of an instruction that stays. Returns whether that is possible.
static bool redirect(Shortening *shortening, int64_t place) {
    HloInstruction *instruction = shortening->list[place];
    const bool inside = run_at(shortening, place) != NULL;
    for (int32_t k = 0; k < instruction->operand_count; k++) {
        const int64_t operand = shortening->places[instruction->operands[k]->id];
        if (operand < 0) continue;
        if (!inside && (shortening->tainted[operand] || is_left_out(shortening, operand)))
            shortening->tainted[place] = true;
        if (inside && shortening->tainted[operand]) return false;
        if (!inside || !is_left_out(shortening, operand)) continue;
        const int64_t found = stand_in(shortening, place, k, operand);
        if (found < 0) return false;
        hlo_instruction_set_operand(instruction, k, shortening->list[found]);
    }
    return true;
}

static bool is_gone(const Shortening *shortening, const HloInstruction *instruction) {
    const int64_t place = shortening->places[instruction->id];
    return place >= 0 && (shortening->tainted[place] || is_left_out(shortening, place));
}

// Gives each result that is gone the value of the nearest one that is computed in the same way.
static bool redirect_results(const Shortening *shortening, HloInstruction *root) {
    const int64_t count = root->operand_count;
    HloInstruction **elements = HLO_ARENA_NEW(shortening->scratch, HloInstruction *, count + 1);
    for (int64_t i = 0; i < count; i++) {
        const HloInstruction *gone = root->operands[i];
        elements[i] = root->operands[i];
        if (!is_gone(shortening, gone)) continue;
        elements[i] = NULL;
        for (int64_t k = 1; k < count && !elements[i]; k++) {
            for (int64_t sign = -1; sign <= 1 && !elements[i]; sign += 2) {
                const int64_t near = i + sign * k;
                if (near < 0 || near >= count || is_gone(shortening, root->operands[near])) continue;
                const int64_t place = shortening->places[root->operands[near]->id];
                if (place >= 0 && shortening->hashes[place] == shortening->hashes[shortening->places[gone->id]])
                    elements[i] = root->operands[near];
            }
        }
        if (!elements[i]) return false;
    }
    hlo_instruction_set_operands(root, elements, count);
    return true;
}

static bool must_stay(const HloInstruction *instruction) {
    return instruction->control_predecessors.count || instruction->control_successors.count ||
           hlo_instruction_has_side_effect(instruction);
}

static bool leave_out(Shortening *shortening) {
    HloInstruction *root = shortening->module->entry->root;
    if (root->opcode != HLO_OP_TUPLE || run_at(shortening, shortening->places[root->id])) return false;
    for (int64_t i = 0; i < shortening->count; i++) {
        if (shortening->list[i] == root) continue;
        if (is_left_out(shortening, i) && must_stay(shortening->list[i])) return false;
        if (!is_left_out(shortening, i) && !redirect(shortening, i)) return false;
        if (shortening->tainted[i] && must_stay(shortening->list[i])) return false;
    }
    if (!redirect_results(shortening, root)) return false;
    hlo_computation_remove_dead(shortening->module->entry);
    hlo_module_remove_unreachable(shortening->module);
    return true;
}

typedef struct Request {
    HloModule *module;
    int64_t layers, all;
    bool made;
} Request;

static HloStatus shorten(void *argument) {
    static const char *const kPasses[] = {"call-inliner", "tuple-simplifier", "dce"};
    Request *request = argument;
    Shortening shortening = {.module = request->module};
    const HloPassOptions options = {.skip_verify = true};
    if (!request->module->entry || request->module->is_scheduled) return HLO_SUCCESS;
    HLO_TRY(hlo_run_passes(request->module, kPasses, HLO_COUNT_OF(kPasses), &options));
    shortening.scratch = hlo_arena_scratch_new();
    make_list(&shortening);
    request->all = find_runs(&shortening);
    shortening.left_out = request->all - request->layers;
    if (request->all > request->layers + 1) {
        cut_all(&shortening);
        request->made = leave_out(&shortening);
    }
    hlo_arena_free(shortening.scratch);
    return HLO_SUCCESS;
}

HloStatus spmd_search_shorten(const HloModule *module, int64_t layers, HloModule **shorter, int64_t *all) {
    assert(module && layers >= 2 && shorter && all);
    Request request = {.module = hlo_module_clone(module), .layers = layers};
    *shorter = NULL;
    HLO_FAIL_IF(!request.module, HLO_RESOURCE_EXHAUSTED, "no memory for a copy of the program");
    HloStatus status = hlo_protect(shorten, &request);
    *all = request.all;
    if (!status && request.made)
        *shorter = request.module;
    else
        hlo_module_free(request.module);
    return status;
}
