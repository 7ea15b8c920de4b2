// SPDX-License-Identifier: Apache-2.0
// Groups instructions into kernels as a TPU compiler would, without its detailed heuristics. The pass walks from users
// to producers. An instruction joins the kernels of its consumers if computing it there (again in each of them) is
// cheaper than writing it to memory. An instruction that neither fuses nor accepts producers is a kernel by itself.
// Afterwards kernels that share arrays are joined (schedule/multi_output.c). Rules and limits: docs/machine-model.md.
//
//   b = exp(a)
//   c = add(b, bias)        ->   where c is a result too: one kernel of members c, s, b, whose roots c and s are
//   s = reduce(c)                written to memory; b stays inside, and s is made while c is written
//
// A kernel is a list of members, roots first. An instruction may be a member of several kernels, each of which computes
// it again. The first part is one walk over the instructions; a search for a member is linear in the size of a kernel,
// which EMU_MAX_MEMBERS bounds.
#include "emulator/fusion.h"

#include <assert.h>
#include <string.h>

#include "emulator/cost.h"
#include "emulator/layout/convolution.h"
#include "emulator/layout/layout.h"
#include "emulator/schedule/multi_output.h"
#include "hlo/base/vector.h"

// Producers are copied into at most this many kernels, and those that read next to nothing, such as broadcasts of
// constants, into at most that many.
#define MAX_COPIES 8
#define MAX_GENERATED_COPIES 1024
// Vector instructions per element that are worth repeating on every chip.
#define CHEAP_COST 4
// The most that products hide: exponentials and roots, but not sines.
#define HIDDEN_COST 24
// The generation whose exponentials are made again from scores of a batch.
#define SCORES_AGAIN 6
// The generation that computes a convolution inside the gradient of its kernel.
#define GRADIENTS_INSIDE 6
// The last generation on which the product that a gate opens or closes makes what passes, and the most instructions
// that a gate takes there besides conversions: on a core that is a device, and where two are one.
#define GATES_IN_PRODUCTS 5
#define MAX_STEPS_OF_GATE 8
#define MAX_STEPS_OF_SHARED_GATE 16
// The most elements of a mask that is read again where scores are read; larger ones are applied as scores are written.
#define MOST_OF_MASK_AGAIN (1 << 20)
// Cheap instructions between a conversion to fewer bits and the array that would be written without it.
#define MAX_STEPS_TO_NARROW 8

// A kernel while it grows; numbered in reverse order.
typedef struct Draft {
    HloInstructionVector members;
    EmuOpClass kind;
    int64_t elements;  // of the root
    int32_t stage;     // of the root
} Draft;

typedef HLO_VECTOR(Draft *) DraftVector;

// The kernels that hold one instruction.
typedef HLO_VECTOR(Draft *) Holders;

typedef struct Planner {
    HloArena *arena;
    DraftVector drafts;
    Holders *holders;            // by position in the order
    int32_t *stages;             // by position: how many loops and branches must have run, one after the other
    bool *epilogues;             // by position: computed from a product of the same size that nothing else uses
    const int64_t *position_of;  // by instruction id: in the order
    const EmuChip *chip;
    double balance;      // vector instructions that the device executes in the time to move one byte
    bool spares_memory;  // expensive instructions are computed again where their results would take memory
    bool is_scheduled;   // each instruction is a kernel: a compiler has fused them and fixed their order
} Planner;

// Vector instructions that start in the time in which HBM moves a byte; 0 without a machine model.
static double vector_balance(const EmuChip *chip) {
    if (chip->hbm_bytes_per_second_per_chip <= 0) return 0;
    const double lanes = 128 * 8 * (double)(chip->vector_alus * chip->cores_per_chip);
    return lanes * chip->clock_hz / (chip->hbm_bytes_per_second_per_chip * chip->hbm_efficiency);
}

// Whether an op may be computed inside its consumers.
static bool fuses(EmuOpClass op_class) {
    return op_class == EMU_OP_VECTOR || op_class == EMU_OP_MOVE;
}

// Whether the operands of an op may be computed inside its kernel.
static bool takes_producers(EmuOpClass op_class) {
    return fuses(op_class) || op_class == EMU_OP_REDUCE || op_class == EMU_OP_MATRIX;
}

static bool cheap_to_repeat(const Planner *planner, const HloInstruction *instruction, int64_t consumers);

// Whether an instruction makes an array of next to nothing.
static bool is_generated(const HloInstruction *instruction) {
    return instruction->opcode == HLO_OP_BROADCAST || instruction->opcode == HLO_OP_IOTA ||
           instruction->opcode == HLO_OP_CONSTANT;
}

// The one operand of an instruction that is about as large as its result and is not generated; NULL if there are
// several or none.
static const HloInstruction *large_operand(const HloInstruction *instruction, int64_t *count) {
    const int64_t elements = hlo_shape_elements(instruction->shape);
    const HloInstruction *found = NULL;
    *count = 0;
    for (int32_t i = 0; i < instruction->operand_count; i++) {
        const HloInstruction *operand = instruction->operands[i];
        if (is_generated(operand) || hlo_shape_elements(operand->shape) * 2 <= elements) continue;
        found = operand;
        ++*count;
    }
    return *count == 1 ? found : NULL;
}

// Whether an instruction makes a smaller array from one that would otherwise have to be written itself, or from a few
// cheap steps after such a one: then the smaller one is written instead.
static bool narrows_new_array(const Planner *planner, const HloInstruction *instruction, int64_t consumers) {
    if (instruction->opcode != HLO_OP_CONVERT) return false;
    const HloInstruction *operand = instruction->operands[0];
    const int bits = hlo_type_info(instruction->shape->type)->bits;
    for (int step = 0; operand && step < MAX_STEPS_TO_NARROW; step++) {
        if (!hlo_shape_is_array(operand->shape) || hlo_type_info(operand->shape->type)->bits <= bits) return false;
        if (!fuses(emu_instruction_class(operand)) || operand->users.count != 1) return false;
        if (!cheap_to_repeat(planner, operand, consumers)) return true;
        if (operand->opcode == HLO_OP_CONVERT) return false;
        int64_t count;
        operand = large_operand(operand, &count);
    }
    return false;
}

static bool has_batch(const HloInstruction *product);

// Instructions between an array in memory and what is made of it.
#define MAX_STEPS_FROM_SOURCE 48

// The search for the arrays in memory from which an instruction is computed.
typedef struct Sources {
    const HloInstruction *only;  // the one array that is about as large as the instruction
    int64_t elements;            // of the instruction
    int steps;
    bool failed;  // several, too many steps, or expensive ones
} Sources;

static void find_sources(const HloInstruction *instruction, Sources *sources) {
    for (int32_t i = 0; i < instruction->operand_count && !sources->failed; i++) {
        const HloInstruction *operand = instruction->operands[i];
        if (is_generated(operand) || hlo_shape_elements(operand->shape) * 2 <= sources->elements) continue;
        if (++sources->steps > MAX_STEPS_FROM_SOURCE) sources->failed = true;
        if (fuses(emu_instruction_class(operand)) || emu_is_view(operand)) {
            sources->failed |= emu_instruction_vector_cost(operand) > HIDDEN_COST;
            find_sources(operand, sources);
            continue;
        }
        sources->failed |= sources->only && sources->only != operand;
        sources->only = operand;
    }
}

// The array from which alone an instruction is computed, smaller ones aside: an argument or the result of a product
// without a batch, in at most `bits` bits. NULL if there is none. It is in memory where others read it too.
static const HloInstruction *source_in_memory(const HloInstruction *instruction, int bits) {
    Sources sources = {.elements = hlo_shape_elements(instruction->shape)};
    find_sources(instruction, &sources);
    const HloInstruction *only = sources.failed ? NULL : sources.only;
    if (!only || !hlo_shape_is_array(only->shape) || hlo_type_info(only->shape->type)->bits > bits) return NULL;
    const EmuOpClass op_class = emu_instruction_class(only);
    if (op_class == EMU_OP_MATRIX) return has_batch(only) ? NULL : only;
    return op_class == EMU_OP_FREE ? only : NULL;
}

static bool has_batch(const HloInstruction *product) {
    return hlo_is(product, HLO_OP_DOT) && HLO_ATTRIBUTES(product, Dot)->lhs_batch.count > 0;
}

// Whether an instruction is a few steps away from one narrower array that is written in any case, such as the scores of
// attention in bf16: then reading it again moves less than writing the instruction's result. A selection ends the
// steps: libtpu 0.0.42 writes the exponentials of masked scores, and but for v6e those of all products with a batch.
static bool widens_product(const Planner *planner, const HloInstruction *instruction) {
    const int bits = hlo_type_info(instruction->shape->type)->bits;
    const HloInstruction *at = instruction;
    for (int step = 0; step < MAX_STEPS_TO_NARROW; step++) {
        int64_t count;
        if (at->opcode == HLO_OP_SELECT) return false;
        at = large_operand(at, &count);
        if (!at || !hlo_shape_is_array(at->shape)) return false;
        const EmuOpClass op_class = emu_instruction_class(at);
        if (op_class == EMU_OP_MATRIX)
            return hlo_type_info(at->shape->type)->bits < bits &&
                   (planner->chip->generation == SCORES_AGAIN || !has_batch(at));
        if (op_class != EMU_OP_VECTOR && at->opcode != HLO_OP_TRANSPOSE && !emu_is_view(at)) return false;
    }
    return false;
}

// The product with a batch that an instruction is a few elementwise steps away from, as exponentials are from the
// scores of attention; NULL if there is none.
static const HloInstruction *scores_of(const HloInstruction *instruction) {
    const HloInstruction *at = instruction;
    for (int step = 0; step < MAX_STEPS_TO_NARROW; step++) {
        int64_t count;
        at = large_operand(at, &count);
        if (!at || !hlo_shape_is_array(at->shape)) return NULL;
        const EmuOpClass op_class = emu_instruction_class(at);
        if (op_class == EMU_OP_MATRIX) return has_batch(at) ? at : NULL;
        if (op_class != EMU_OP_VECTOR && at->opcode != HLO_OP_TRANSPOSE && !emu_is_view(at)) return NULL;
    }
    return NULL;
}

// Whether a product reads an array, or what a few steps make of it, in f32.
static bool is_multiplied_wide(const HloInstruction *array) {
    const HloInstruction *at = array;
    for (int step = 0; step < MAX_STEPS_TO_NARROW && at; step++) {
        const HloInstruction *next = NULL;
        if (hlo_type_info(at->shape->type)->bits < 32) return false;
        for (int64_t i = 0; i < at->users.count; i++) {
            const HloInstruction *user = at->users.items[i];
            const EmuOpClass op_class = emu_instruction_class(user);
            if (op_class == EMU_OP_MATRIX) return true;
            const bool passes = op_class == EMU_OP_VECTOR || user->opcode == HLO_OP_TRANSPOSE || emu_is_view(user);
            if (passes && hlo_shape_elements(user->shape) == hlo_shape_elements(array->shape) && !next) next = user;
        }
        at = next;
    }
    return false;
}

// Whether the results of a product are transposed by the few steps that alone read them.
static bool is_transposed(const HloInstruction *product) {
    const HloInstruction *at = product;
    for (int step = 0; step < MAX_STEPS_TO_NARROW && at->users.count == 1; step++) {
        at = at->users.items[0];
        if (at->opcode == HLO_OP_TRANSPOSE) return true;
        if (emu_instruction_class(at) != EMU_OP_VECTOR) return false;
    }
    return false;
}

// Whether one of several batch dimensions of a product is 1.
static bool has_unit_batch(const HloInstruction *product) {
    const HloInts batch = HLO_ATTRIBUTES(product, Dot)->lhs_batch;
    bool found = false;
    for (int64_t i = 0; i < batch.count; i++) found |= product->operands[0]->shape->dims[batch.items[i]] == 1;
    return found && batch.count > 1;
}

// Whether the exponentials of a softmax are made where they are added up and again where they are multiplied, from
// scores in memory. libtpu 0.0.42 has one kernel for the largest of each row, the exponentials and their sum, but not
// where a product reads these in f32, nor of scores that are transposed (grouped queries) if a batch of 1 is in the way
// or several products read the exponentials, as in the backward pass.
static bool keeps_scores(const HloInstruction *instruction, int64_t products) {
    const HloInstruction *scores = hlo_is(instruction, HLO_OP_EXP) ? scores_of(instruction) : NULL;
    if (!scores) return false;
    return is_multiplied_wide(instruction) || (is_transposed(scores) && (has_unit_batch(scores) || products > 1));
}

// Whether an instruction reads at most one array that is as large as its result.
static bool reads_little(const HloInstruction *instruction) {
    int64_t large;
    large_operand(instruction, &large);
    return large <= 1 && instruction->opcode != HLO_OP_CONCATENATE;
}

// Whether computing an instruction again in every consumer costs no more than writing its result would: at most one
// operand is as large as the result, and the vector unit finishes before HBM.
static bool cheap_to_repeat(const Planner *planner, const HloInstruction *instruction, int64_t consumers) {
    assert(consumers >= 0);
    const double cost = emu_instruction_vector_cost(instruction);
    const double bytes =
        hlo_shape_is_array(instruction->shape) ? hlo_type_info(instruction->shape->type)->bits / 8.0 : 0;
    if (cost > CHEAP_COST && cost * (double)(consumers - 1) > bytes * planner->balance) return false;
    return !narrows_new_array(planner, instruction, consumers) && reads_little(instruction);
}

// Lists of holders are short: at most MAX_COPIES.
static bool contains(const Holders *holders, const Draft *draft) {
    for (int64_t i = 0; i < holders->count; i++)
        if (holders->items[i] == draft) return true;
    return false;
}

// Users have been placed before their operands.
static Holders *holders_of(Planner *planner, const HloInstruction *instruction) {
    return &planner->holders[planner->position_of[instruction->id]];
}

static int32_t *stage_of(const Planner *planner, const HloInstruction *instruction) {
    return &planner->stages[planner->position_of[instruction->id]];
}

static bool is_epilogue(const Planner *planner, const HloInstruction *instruction) {
    return planner->epilogues[planner->position_of[instruction->id]];
}

// Operands come before users in the order.
static void mark_epilogues(Planner *planner, const EmuPlan *plan) {
    planner->epilogues = HLO_ARENA_NEW(planner->arena, bool, plan->order_count);
    for (int64_t i = 0; i < plan->order_count; i++) {
        const HloInstruction *at = plan->order[i];
        if (!fuses(emu_instruction_class(at))) continue;
        for (int32_t o = 0; o < at->operand_count && !planner->epilogues[i]; o++) {
            const HloInstruction *operand = at->operands[o];
            if (operand->users.count != 1 || hlo_shape_elements(operand->shape) != hlo_shape_elements(at->shape))
                continue;
            planner->epilogues[i] = emu_instruction_class(operand) == EMU_OP_MATRIX || is_epilogue(planner, operand);
        }
    }
}

// Operands come before users in the order.
static void count_stages(Planner *planner, const EmuPlan *plan) {
    planner->stages = HLO_ARENA_NEW(planner->arena, int32_t, plan->order_count);
    for (int64_t i = 0; i < plan->order_count; i++) {
        const HloInstruction *at = plan->order[i];
        for (int32_t o = 0; o < at->operand_count; o++) {
            const int32_t stage = *stage_of(planner, at->operands[o]);
            if (stage > planner->stages[i]) planner->stages[i] = stage;
        }
        planner->stages[i] += emu_op_class(at->opcode) == EMU_OP_CONTROL;
    }
}

// Collects the kernels that use an instruction. False if a user needs it in memory, or if there are more kernels than
// it may be copied into.
static bool collect_consumers(Planner *planner, const HloInstruction *instruction, Holders *consumers) {
    if (hlo_instruction_is_root(instruction)) return false;
    for (int64_t i = 0; i < instruction->users.count; i++) {
        const HloInstruction *user = instruction->users.items[i];
        if (!takes_producers(emu_instruction_class(user))) return false;
        const Holders *holders = holders_of(planner, user);
        for (int64_t j = 0; j < holders->count; j++)
            if (!contains(consumers, holders->items[j])) hlo_vector_push(planner->arena, consumers, holders->items[j]);
        if (consumers->count > (is_generated(instruction) ? MAX_GENERATED_COPIES : MAX_COPIES)) return false;
    }
    return consumers->count > 0;
}

// Whether products narrow an array again that others read too. Where two cores are one device they do not [RT: v5p].
static bool narrows_in_products(const Planner *planner, const HloInstruction *narrow) {
    return planner->chip->cores_per_chip == planner->chip->devices_per_chip &&
           source_in_memory(narrow, hlo_type_info(narrow->shape->type)->bits);
}

static bool may_compute_twice(const Planner *planner, const HloInstruction *product, const Holders *consumers);

// Whether the largest of each row is found in one of two kernels, and exponentials of the rows are made in the other.
static bool makes_softmax(const Holders *consumers, int64_t elements);

// The elements of what an instruction broadcasts, or its own.
static int64_t elements_before_broadcast(const HloInstruction *at) {
    while (at->opcode == HLO_OP_BROADCAST || emu_is_view(at)) at = at->operands[0];
    return hlo_shape_elements(at->shape);
}

// Whether an instruction is the mask of scores that are narrower, and that are written because they are not computed
// again for the exponentials: then the product writes them masked and in the wide type [RT: v4, v5e and v5p, masks of
// 1,536 x 1,536 and more; with smaller ones (1,024 x 1,024, 512 x 2,048), and without one, it writes the narrow
// scores].
static bool is_written_masked(const Planner *planner, const HloInstruction *instruction, const Holders *consumers) {
    const HloInstruction *at = instruction;
    if (at->opcode != HLO_OP_SELECT || planner->chip->generation >= SCORES_AGAIN || !is_epilogue(planner, at))
        return false;
    if (elements_before_broadcast(at->operands[0]) <= MOST_OF_MASK_AGAIN) return false;
    if (!makes_softmax(consumers, hlo_shape_elements(at->shape))) return false;
    while (at && emu_instruction_class(at) != EMU_OP_MATRIX) {
        const HloInstruction *next = NULL;
        for (int32_t i = 0; i < at->operand_count && !next; i++) {
            const HloInstruction *operand = at->operands[i];
            if (operand->users.count == 1 && hlo_shape_elements(operand->shape) == hlo_shape_elements(at->shape) &&
                (emu_instruction_class(operand) == EMU_OP_MATRIX || is_epilogue(planner, operand)))
                next = operand;
        }
        at = next;
    }
    return at && has_batch(at) &&
           hlo_type_info(at->shape->type)->bits < hlo_type_info(instruction->shape->type)->bits &&
           !may_compute_twice(planner, at, consumers);
}

// Whether the several consumers of an instruction may each compute it, whatever memory its result takes. Products
// compute what they multiply and what is combined with their results again, since they hide it: an activation is kept
// as what it is made from, unless that is a product which can write the activation itself. Other kernels do not repeat
// expensive functions: the exponentials of a softmax are written, with their sum, unless they are wider than the
// product that they are made from and another product reads them.
static bool may_repeat(const Planner *planner, const HloInstruction *instruction, const Holders *consumers) {
    const double cost = emu_instruction_vector_cost(instruction);
    if (is_written_masked(planner, instruction, consumers)) return false;
    bool only_products = cost <= HIDDEN_COST && !is_epilogue(planner, instruction);
    bool with_sums = cost <= HIDDEN_COST;
    int64_t products = 0;
    for (int64_t i = 0; i < consumers->count; i++) {
        const EmuOpClass kind = consumers->items[i]->kind;
        only_products &= kind == EMU_OP_MATRIX;
        with_sums &= kind == EMU_OP_MATRIX || kind == EMU_OP_REDUCE;
        products += kind == EMU_OP_MATRIX;
    }
    if (with_sums && products > 0 && cost > CHEAP_COST &&
        (widens_product(planner, instruction) || keeps_scores(instruction, products)))
        return true;
    const int bits = hlo_type_info(instruction->shape->type)->bits;
    const bool with_sources = cost > CHEAP_COST && cost <= HIDDEN_COST && !is_epilogue(planner, instruction);
    if (with_sources && source_in_memory(instruction, bits)) return true;
    if (only_products && !planner->spares_memory)
        return instruction->opcode != HLO_OP_CONCATENATE &&
               (!narrows_new_array(planner, instruction, consumers->count) ||
                narrows_in_products(planner, instruction));
    if (!planner->spares_memory && cost > CHEAP_COST) return false;
    return cheap_to_repeat(planner, instruction, consumers->count);
}

// Whether an operand of a product is stored as the product reads it, its batch outermost, or may be: a kernel chooses
// the layout of what it makes.
static bool is_in_order(const Planner *planner, const HloInstruction *operand, HloInts batch) {
    const HloShape *shape = operand->shape;
    const HloInts order = emu_names_order(shape)
                              ? shape->layout->minor_to_major
                              : emu_default_layout(planner->arena, planner->chip, shape)->minor_to_major;
    bool leads = order.count == shape->rank;
    for (int64_t place = 0; leads && place < shape->rank - batch.count; place++)
        for (int64_t i = 0; i < batch.count; i++) leads &= order.items[place] != batch.items[i];
    if (leads) return true;
    while (emu_is_view(operand) || operand->opcode == HLO_OP_TRANSPOSE) operand = operand->operands[0];
    return emu_op_class(operand->opcode) != EMU_OP_FREE;
}

static bool finds_largest(const HloInstruction *reduction) {
    return hlo_is(reduction, HLO_OP_REDUCE) && hlo_is(reduction->called[0]->root, HLO_OP_MAXIMUM);
}

static bool makes_softmax(const Holders *consumers, int64_t elements) {
    if (consumers->count != 2) return false;
    const Draft *a = consumers->items[0], *b = consumers->items[1];
    const Draft *reduction = a->kind == EMU_OP_REDUCE ? a : b, *other = reduction == a ? b : a;
    return reduction->kind == EMU_OP_REDUCE && other->kind == EMU_OP_VECTOR && other->elements == elements &&
           finds_largest(reduction->members.items[0]);
}

// Whether the results of a product are masked by the few steps that alone read them, as the scores of causal attention.
static bool is_masked(const HloInstruction *product) {
    const HloInstruction *at = product;
    for (int step = 0; step < MAX_STEPS_TO_NARROW && at->users.count == 1; step++) {
        at = at->users.items[0];
        if (at->opcode == HLO_OP_SELECT) return true;
        if (emu_instruction_class(at) != EMU_OP_VECTOR && at->opcode != HLO_OP_TRANSPOSE && !emu_is_view(at))
            return false;
    }
    return false;
}

// Whether a product is computed for the largest number of each row, and again for the exponentials, rather than written
// and read twice: the scores of masked attention. libtpu 0.0.42 does so where the product takes less time than HBM, but
// writes results of operands that it has to rearrange: on v6e only narrow ones without a mask, on v7 none.
static bool may_compute_twice(const Planner *planner, const HloInstruction *product, const Holders *consumers) {
    if (!hlo_is(product, HLO_OP_DOT) || !makes_softmax(consumers, hlo_shape_elements(product->shape))) return false;
    const int32_t stage = *stage_of(planner, product);
    if (consumers->items[0]->stage != stage || consumers->items[1]->stage != stage) return false;
    const HloDotAttributes *dot = HLO_ATTRIBUTES(product, Dot);
    const bool is_narrow = hlo_type_info(product->shape->type)->bits < 32 && !is_masked(product);
    const int64_t generation = planner->chip->generation;
    if ((generation < SCORES_AGAIN || (generation == SCORES_AGAIN && is_narrow)) &&
        (!is_in_order(planner, product->operands[0], dot->lhs_batch) ||
         !is_in_order(planner, product->operands[1], dot->rhs_batch)))
        return false;
    const EmuProduct work = emu_product_of(planner->chip, product);
    const double rate = planner->chip->hbm_bytes_per_second_per_chip * planner->chip->hbm_efficiency /
                        (double)planner->chip->devices_per_chip;
    const double moved = 3 * (double)emu_hbm_bytes(planner->chip, product->shape);
    return rate > 0 && emu_product_seconds(planner->chip, &work) * rate < moved;
}

// Whether a convolution is computed inside the gradient of a kernel that is made from its result: the gradient stays on
// the chip while blocks of the result pass [RT: v6e].
static bool enters_gradient(const Planner *planner, const HloInstruction *product, const Holders *consumers) {
    if (planner->chip->generation != GRADIENTS_INSIDE || !hlo_is(product, HLO_OP_CONVOLUTION)) return false;
    const HloInstruction *root = consumers->count == 1 ? consumers->items[0]->members.items[0] : product;
    return root != product && hlo_is(root, HLO_OP_CONVOLUTION) && emu_convolution_of(root).is_gradient &&
           consumers->items[0]->stage == *stage_of(planner, product);
}

// The steps from results of products, at most two of which are found, to an array of their size.
typedef struct Gate {
    const HloInstruction *products[2], *seen[2 * MAX_STEPS_OF_SHARED_GATE];
    int64_t elements;
    int products_found, seen_count, steps, most_steps;
    bool failed;  // another source, or too many steps
} Gate;

static void follow_gate(const HloInstruction *at, Gate *gate) {
    for (int i = 0; i < gate->seen_count; i++)
        if (gate->seen[i] == at) return;
    gate->failed |= gate->seen_count == (int)HLO_COUNT_OF(gate->seen);
    if (!gate->failed) gate->seen[gate->seen_count++] = at;
    gate->steps += at->opcode != HLO_OP_CONVERT;
    gate->failed |= !fuses(emu_instruction_class(at)) || gate->steps > gate->most_steps;
    for (int32_t i = 0; i < at->operand_count && !gate->failed; i++) {
        const HloInstruction *operand = at->operands[i];
        if (is_generated(operand)) continue;
        if (emu_instruction_class(operand) != EMU_OP_MATRIX) {
            follow_gate(operand, gate);
        } else if (operand != gate->products[0] && operand != gate->products[1]) {
            gate->failed |= gate->products_found == 2 || hlo_shape_elements(operand->shape) != gate->elements;
            if (!gate->failed) gate->products[gate->products_found++] = operand;
        }
    }
}

// Whether a product only multiplies what two others and a few steps make, such as a swish of one times the other: the
// later of the two makes it, rather than the product that reads it [RT: v4, v5e and v5p; gates of more steps on v5e, as
// with a GELU, and all on v6e are made where they are read].
static bool is_gated(const Planner *planner, const HloInstruction *instruction, const Holders *consumers) {
    const EmuChip *chip = planner->chip;
    if (chip->generation > GATES_IN_PRODUCTS || consumers->items[0]->kind != EMU_OP_MATRIX) return false;
    if (!is_epilogue(planner, instruction)) return false;
    Gate gate = {
        .elements = hlo_shape_elements(instruction->shape),
        .most_steps = chip->cores_per_chip == chip->devices_per_chip ? MAX_STEPS_OF_GATE : MAX_STEPS_OF_SHARED_GATE};
    follow_gate(instruction, &gate);
    return !gate.failed && gate.products_found == 2;
}

// Whether an instruction may be computed inside all of its consumers.
static bool may_join(const Planner *planner, const HloInstruction *instruction, const Holders *consumers) {
    assert(consumers);
    const EmuOpClass op_class = emu_instruction_class(instruction);
    for (int64_t i = 0; i < consumers->count; i++)
        if (consumers->items[i]->members.count >= EMU_MAX_MEMBERS) return false;
    // The consumer of a matrix product becomes its epilogue when it is elementwise and of the same size, and when it
    // need not wait for a loop that the product need not wait for: a gradient that is scaled by the norm of all
    // gradients is made before the loop that makes the others, so that what it is made of can be freed.
    if (op_class == EMU_OP_MATRIX && may_compute_twice(planner, instruction, consumers)) return true;
    if (op_class == EMU_OP_MATRIX && enters_gradient(planner, instruction, consumers)) return true;
    if (op_class == EMU_OP_MATRIX)
        return consumers->count == 1 && fuses(consumers->items[0]->kind) &&
               consumers->items[0]->elements == hlo_shape_elements(instruction->shape) &&
               consumers->items[0]->stage == *stage_of(planner, instruction);
    if (!fuses(op_class)) return false;
    if (consumers->count == 1) return !is_gated(planner, instruction, consumers);
    return may_repeat(planner, instruction, consumers);
}

// Puts an instruction into its consumers' kernels or into a new one.
static void place(Planner *planner, HloInstruction *instruction, Holders *holders) {
    Holders consumers = {0};
    const EmuOpClass op_class = emu_instruction_class(instruction);
    if (op_class == EMU_OP_FREE) return;
    const bool may_fuse = !planner->is_scheduled && (fuses(op_class) || op_class == EMU_OP_MATRIX);
    if (may_fuse && collect_consumers(planner, instruction, &consumers) && may_join(planner, instruction, &consumers)) {
        for (int64_t i = 0; i < consumers.count; i++) {
            hlo_vector_push(planner->arena, &consumers.items[i]->members, instruction);
            if (op_class == EMU_OP_MATRIX) consumers.items[i]->kind = EMU_OP_MATRIX;
        }
        *holders = consumers;
        return;
    }
    Draft *draft = HLO_ARENA_NEW(planner->arena, Draft, 1);
    draft->kind = op_class;
    draft->elements = hlo_shape_elements(instruction->shape);
    draft->stage = *stage_of(planner, instruction);
    hlo_vector_push(planner->arena, &draft->members, instruction);
    hlo_vector_push(planner->arena, &planner->drafts, draft);
    hlo_vector_push(planner->arena, holders, draft);
}

void emu_plan_number(const EmuPlan *plan, int32_t *kernel_of) {
    for (int64_t i = 0; i < plan->kernel_count; i++)
        for (int64_t r = 0; r < plan->kernels[i].root_count; r++)
            kernel_of[plan->kernels[i].members[r]->id] = (int32_t)i;
}

// What append() has seen of an instruction that has no position yet.
enum { UNSEEN = -2, SEEN = -1 };

// Appends an instruction after everything that it reads.
static void append(HloArena *arena, HloInstruction *start, int64_t *position_of, HloInstruction **order,
                   int64_t *count) {
    HloInstructionVector stack = {0};
    hlo_vector_push(arena, &stack, start);
    while (stack.count) {
        HloInstruction *top = stack.items[stack.count - 1];
        if (position_of[top->id] != UNSEEN) {
            stack.count--;
            if (position_of[top->id] != SEEN) continue;
            position_of[top->id] = *count;
            order[(*count)++] = top;
            continue;
        }
        position_of[top->id] = SEEN;
        for (int64_t i = top->operand_count - 1; i >= 0; i--)
            if (position_of[top->operands[i]->id] == UNSEEN) hlo_vector_push(arena, &stack, top->operands[i]);
        for (int64_t i = top->control_predecessors.count - 1; i >= 0; i--)
            if (position_of[top->control_predecessors.items[i]->id] == UNSEEN)
                hlo_vector_push(arena, &stack, top->control_predecessors.items[i]);
    }
}

// All instructions, operands first, in the order of a walk from the root. What the root does not need comes after it,
// in the order of the list.
static HloInstruction **order_from_root(const HloComputation *computation, HloArena *arena, HloArena *scratch,
                                        int64_t *position_of, int64_t *count) {
    HloInstruction **order = HLO_ARENA_NEW(arena, HloInstruction *, computation->instruction_count);
    *count = 0;
    for (const HloInstruction *i = computation->first; i; i = i->next) position_of[i->id] = UNSEEN;
    append(scratch, computation->root, position_of, order, count);
    for (HloInstruction *i = computation->first; i; i = i->next)
        if (position_of[i->id] == UNSEEN) append(scratch, i, position_of, order, count);
    assert(*count == computation->instruction_count);
    return order;
}

// Drafts are made from the last instruction to the first and numbered in reverse, so that kernels are in program order
// by their roots.
EmuPlan *emu_plan(HloArena *arena, HloArena *scratch, const HloComputation *computation, const EmuChip *chip,
                  bool spares_memory, int64_t *position_of, int32_t *kernel_of) {
    assert(computation->root && chip && position_of && kernel_of);
    const HloArenaMark mark = hlo_arena_mark(scratch);
    EmuPlan *plan = HLO_ARENA_NEW(arena, EmuPlan, 1);
    plan->computation = computation;
    plan->order = computation->module->is_scheduled
                      ? hlo_computation_post_order(computation, arena, &plan->order_count)
                      : order_from_root(computation, arena, scratch, position_of, &plan->order_count);
    Planner planner = {.arena = scratch,
                       .holders = HLO_ARENA_NEW(scratch, Holders, plan->order_count),
                       .chip = chip,
                       .balance = vector_balance(chip),
                       .position_of = position_of,
                       .spares_memory = spares_memory,
                       .is_scheduled = computation->module->is_scheduled};
    for (int64_t i = 0; i < plan->order_count; i++) {
        position_of[plan->order[i]->id] = i;
        kernel_of[plan->order[i]->id] = -1;
    }
    count_stages(&planner, plan);
    mark_epilogues(&planner, plan);
    for (int64_t i = plan->order_count - 1; i >= 0; i--) place(&planner, plan->order[i], &planner.holders[i]);
    plan->kernel_count = planner.drafts.count;
    plan->kernels = HLO_ARENA_NEW(arena, EmuKernel, plan->kernel_count);
    int32_t *stages = HLO_ARENA_NEW(scratch, int32_t, plan->kernel_count);
    for (int64_t i = 0; i < plan->kernel_count; i++) {
        const Draft *draft = planner.drafts.items[plan->kernel_count - 1 - i];
        plan->kernels[i] = (EmuKernel){draft->members.items, draft->members.count, 1, draft->kind, 0, 0};
        stages[i] = draft->stage;
    }
    emu_plan_number(plan, kernel_of);
    if (!planner.is_scheduled) emu_join_outputs(scratch, plan, stages, kernel_of);
    for (int64_t i = 0; i < plan->kernel_count; i++) {
        EmuKernel *kernel = &plan->kernels[i];
        kernel->members =
            hlo_arena_copy(arena, kernel->members, (size_t)kernel->member_count * sizeof(HloInstruction *));
    }
    hlo_arena_reset(scratch, mark);
    return plan;
}
