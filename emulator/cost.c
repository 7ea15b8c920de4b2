// SPDX-License-Identifier: Apache-2.0
// Computes the time of one kernel with a roofline model. The matrix unit, the vector unit and memory each need some
// time for the kernel's work. They run in parallel, so the slowest of them dominates, and the chip's overhead per
// operation is added:
//
//   time = op + max(matrix, vector, memory) + ramp * min(matrix, memory)
//
//   matrix   cost_product.c, from the sizes of the systolic array
//   vector   padded elements * instructions an element (op_class.def) / (128 x 8 lanes x ALUs x clock)
//   memory   bytes that the kernel reads from outside and writes, each array once / (HBM bandwidth * efficiency)
//
// Members of a kernel pass values on in registers, so only its inputs and roots touch memory. Slices read only the part
// that they extract, and in-place updates write only the update, also through views and fusions. The ramp is explained
// in docs/machine-model.md. The constants of the chips are in chips.def.
#include "emulator/cost.h"

#include <assert.h>
#include <math.h>

#include "emulator/amount.h"
#include "emulator/layout/convolution.h"
#include "emulator/layout/layout.h"

// A kernel's cost while it is added up.
typedef struct Sum {
    const EmuChip *chip;
    EmuKernelCosts costs;
    EmuBodies *bodies;
    EmuCost cost;
    bool has_product;  // of the matrix unit
    bool has_batch;    // of such products
    bool gathers;      // positions of windows, in cycles that are those of whole kernels
} Sum;

const char *emu_bound_name(EmuBound bound) {
    static const char *const names[] = {"none", "matrix", "vector", "memory", "network", "host"};
    return names[bound];
}

static void add_computation(Sum *sum, const HloComputation *computation);

// The padded number of elements of the largest array in a shape, which the vector unit steps over.
static double vector_elements(const EmuChip *chip, const HloShape *shape) {
    if (hlo_shape_is_tuple(shape)) {
        double most = 0;
        for (int32_t i = 0; i < shape->element_count; i++) most = fmax(most, vector_elements(chip, shape->elements[i]));
        return most;
    }
    if (!hlo_shape_is_array(shape)) return 0;
    const double bits = hlo_type_info(shape->type)->bits;
    // 64-bit types are processed in parts.
    const double parts = bits > 32 ? bits / 16 : 1;
    return (double)emu_padded_bytes(chip, shape) * 8 / bits * parts;
}

double emu_copy_cycles(const EmuChip *chip, const HloShape *from, const HloShape *to, EmuCopyKind kind) {
    assert(chip && from && to);
    const double registers = 1024, a = vector_elements(chip, from) / registers,
                 b = vector_elements(chip, to) / registers;
    if (!kind.turns) return chip->copy_same_cycles * fmax(a, b);
    const double most = chip->copy_most_cycles + (kind.in_hbm ? chip->copy_turn_cycles : 0);
    return chip->copy_least_cycles * fmin(a, b) + most * fmax(a, b);
}

// A product of complex numbers costs four real ones.
static void add_product(Sum *sum, const HloInstruction *instruction) {
    const bool is_convolution = hlo_is(instruction, HLO_OP_CONVOLUTION);
    const double gathering = is_convolution ? emu_convolution_vector_operations(sum->chip, instruction) : 0;
    sum->cost.vector_operations += gathering;
    sum->gathers |= gathering > 0;
    const EmuProduct product = emu_product_of(sum->chip, instruction);
    const double multiplications = product.batch * product.rows * product.depth * product.columns;
    sum->has_batch |= product.is_divided;
    const double flops = product.flops > 0 ? product.flops : 2 * multiplications;
    sum->cost.matrix_flops += flops * (hlo_type_is_complex(instruction->shape->type) ? 4 : 1);
    if (is_convolution && emu_convolution_of(instruction).is_depthwise) return;
    sum->cost.matrix_seconds += emu_product_seconds(sum->chip, &product);
    sum->has_product |= multiplications > 0;
}

// Combinations for one result along one dimension of a window. Short windows are combined element by element. Long
// ones, such as those of a cumulative sum, are made from windows of half their size: two combinations for each
// doubling, of every element where the window moves by more than one.
static double window_steps(const HloWindowDimension *window) {
    const double size = (double)window->size;
    if (size < 2) return size;
    return fmin(size, 2 * ceil(log2(size)) * (double)window->stride);
}

// The number of elements that a sort, transform or window processes, times the extra factor of its algorithm.
static double alone_elements(const Sum *sum, const HloInstruction *instruction, HloOpcode opcode) {
    const HloShape *shape = instruction->operand_count ? instruction->operands[0]->shape : instruction->shape;
    double elements = fmax(vector_elements(sum->chip, instruction->shape), 0);
    if (opcode == HLO_OP_SORT) {
        const HloInts dims = HLO_ATTRIBUTES(instruction, Sort)->dimensions;
        const double length = dims.count ? (double)shape->dims[dims.items[0]] : 1;
        const double levels = length > 1 ? ceil(log2(length)) : 0;
        // A bitonic network over every operand.
        return vector_elements(sum->chip, shape) * instruction->operand_count * levels * (levels + 1) / 2;
    }
    if (opcode == HLO_OP_REDUCE_WINDOW) {
        const HloWindow *window = HLO_ATTRIBUTES(instruction, Window)->window;
        for (int64_t i = 0; window && i < window->count; i++) elements *= window_steps(&window->dims[i]);
        return elements;
    }
    if (opcode == HLO_OP_SCATTER && instruction->operand_count >= 3)
        return vector_elements(sum->chip, instruction->operands[instruction->operand_count - 1]->shape);
    if (opcode == HLO_OP_GATHER) return elements;
    if ((opcode == HLO_OP_CHOLESKY || opcode == HLO_OP_TRIANGULAR_SOLVE) && shape->rank)
        return elements * (double)shape->dims[shape->rank - 1] / 3;
    return fmax(elements, instruction->operand_count ? vector_elements(sum->chip, shape) : 0);
}

void emu_kernel_vector_work(const EmuChip *chip, HloOpcode opcode, double elements, EmuCost *cost) {
    const double each = emu_chip_vector_cost(chip, opcode);
    // The transcendental unit is beside the vector unit, which only prepares the operand.
    const bool is_beside = emu_op_is_transcendental(opcode);
    cost->transcendental_operations += is_beside ? each * elements : 0;
    cost->vector_operations += (is_beside ? 1 : each) * elements;
}

// Elements that the vector unit of one device computes in a second, one instruction each.
static double vector_rate(const EmuChip *chip) {
    const double alus = (double)(chip->vector_alus * chip->cores_per_chip) / (double)chip->devices_per_chip;
    return 128 * 8 * alus * chip->clock_hz;
}

// The share of the shorter of matrix and vector time of a kernel that is not hidden by the longer one [RT: the
// schedules that libtpu 0.0.42 makes of attention kernels with two to five products, on v5e, v5p, v6e and v7: 0.24 for
// blocks of 2048 with five products, 0.5 to 0.85 for the eleven others].
#define KERNEL_EXPOSED_SHARE 0.7

// The time of a kernel that a user wrote. Each block of its grid is one piece of straight code, in which products wait
// for what the vector unit makes and the other way round, so the units work beside each other only in part. The
// systolic arrays run at their peak: what slows the products of a compiler down, such as waiting for memory, is not in
// there.
static double kernel_seconds(const EmuChip *chip, const EmuCost *cost) {
    const double matrix = cost->matrix_seconds * chip->mxu_efficiency;
    const double vector = fmax(cost->vector_operations, cost->transcendental_operations) / vector_rate(chip);
    const double blocks = fmax(matrix, vector) + KERNEL_EXPOSED_SHARE * fmin(matrix, vector);
    return fmax(blocks, cost->matrix_seconds);
}

static void add_kernel(Sum *sum, const EmuCost *counted, EmuCallCost call) {
    sum->cost.matrix_flops += counted->matrix_flops;
    sum->cost.other_flops += counted->other_flops;
    sum->cost.matrix_seconds += counted->matrix_seconds;
    sum->cost.vector_operations += counted->vector_operations;
    sum->cost.transcendental_operations += counted->transcendental_operations;
    sum->cost.moved_bytes += counted->moved_bytes;
    sum->cost.kernel_seconds += kernel_seconds(sum->chip, counted);
    sum->cost.call = call;
}

// Adds the work that a kernel's own program does, where that is preferred: false if there is none, or if its control
// flow is not known and the author has stated the work.
static bool add_body(Sum *sum, const HloInstruction *call, bool is_stated) {
    if (is_stated && sum->costs == EMU_KERNEL_COSTS_STATED) return false;
    EmuCost counted = {0};
    bool is_complete;
    if (!emu_call_body(sum->chip, call, sum->bodies, &counted, &is_complete)) return false;
    if (is_stated && !is_complete) return false;
    add_kernel(sum, &counted, EMU_CALL_BODY);
    return true;
}

// Instructions beside each exponential of a kernel with products, which authors do not state: the mask (five), the
// largest of the row, the difference, the conversion [the program of the Pallas splash attention kernel of MaxText's
// recipes: 8.8].
#define STEPS_BESIDE_EXPONENTIAL 8

// Adds the work of a kernel, by its program or its author's estimate, or the cost of the instruction that a custom call
// is equivalent to.
static void add_custom_call(Sum *sum, const HloInstruction *call) {
    const HloOpcode opcode = emu_call_opcode(call);
    EmuCallEstimate estimate;
    const bool is_stated = emu_call_estimate(call, &estimate);
    if (add_body(sum, call, is_stated)) return;
    if (is_stated) {
        const double peak = sum->chip->bf16_flops_per_chip / (double)sum->chip->devices_per_chip;
        EmuCost counted = {.matrix_flops = estimate.flops,
                           .matrix_seconds = estimate.flops / (peak * sum->chip->mxu_efficiency)};
        emu_kernel_vector_work(sum->chip, HLO_OP_EXP, estimate.transcendentals, &counted);
        if (estimate.flops > 0) counted.vector_operations += estimate.transcendentals * STEPS_BESIDE_EXPONENTIAL;
        add_kernel(sum, &counted, EMU_CALL_STATED);
    } else if (opcode != HLO_OPCODE_COUNT) {
        sum->cost.vector_operations += emu_chip_vector_cost(sum->chip, opcode) * alone_elements(sum, call, opcode);
    } else if (!emu_call_is_annotation(call)) {
        sum->cost.unknown = true;
    }
}

// The members of a kernel share one pass over memory, so only their arithmetic is added up here; bytes are counted for
// the kernel as a whole.
static void add_member(Sum *sum, const HloInstruction *instruction) {
    const bool by_operands = instruction->opcode == HLO_OP_DOT || instruction->opcode == HLO_OP_DIVIDE;
    const double each =
        by_operands ? emu_instruction_vector_cost(instruction) : emu_chip_vector_cost(sum->chip, instruction->opcode);
    double elements = 0;
    switch (emu_instruction_class(instruction)) {
        case EMU_OP_MATRIX: add_product(sum, instruction); return;
        case EMU_OP_VECTOR:
            elements = vector_elements(sum->chip, instruction->shape);
            sum->cost.other_flops += (double)hlo_shape_elements(instruction->shape);
            break;
        case EMU_OP_MOVE: elements = vector_elements(sum->chip, instruction->shape); break;
        case EMU_OP_REDUCE:
            elements = vector_elements(sum->chip, instruction->operands[0]->shape);
            double flops = (double)hlo_shape_elements(instruction->operands[0]->shape);
            if (instruction->opcode == HLO_OP_DOT) {  // either operand may be the one with more dimensions
                elements = fmax(elements, vector_elements(sum->chip, instruction->operands[1]->shape));
                flops = 2 * fmax(flops, (double)hlo_shape_elements(instruction->operands[1]->shape));
            }
            sum->cost.other_flops += flops;
            break;
        case EMU_OP_ALONE:
            if (instruction->opcode == HLO_OP_FUSION) {
                add_computation(sum, instruction->called[0]);
                return;
            }
            if (instruction->opcode == HLO_OP_CUSTOM_CALL) {
                add_custom_call(sum, instruction);
                return;
            }
            elements = alone_elements(sum, instruction, instruction->opcode);
            break;
        default: return;
    }
    sum->cost.vector_operations += each * elements;
}

// Adds the body of a fusion that a compiler made: all of it is one kernel.
static void add_computation(Sum *sum, const HloComputation *computation) {
    for (const HloInstruction *i = computation->first; i; i = i->next) add_member(sum, i);
}

// The bytes of an array in HBM: padded to tiles, 0 for arrays kept in VMEM.
static double bytes_of(const EmuChip *chip, const HloShape *shape) {
    return (double)emu_hbm_bytes(chip, shape);
}

// Rows of a tile, all of which are read for one of them.
#define TILE_ROWS 8

// The bytes that a gather reads of the array in which it looks up: for each row that it chooses all rows of the tiles
// in which the row is [RT: bytes accessed by gathers of rows from tables that do not fit VMEM, f32 and bf16].
static double gathered_bytes(const EmuChip *chip, const HloInstruction *gather) {
    const HloInts sizes = HLO_ATTRIBUTES(gather, Gather)->slice_sizes;
    const double rows = sizes.count >= 2 ? (double)sizes.items[sizes.count - 2] : TILE_ROWS;
    const double read = ceil(rows / TILE_ROWS) * TILE_ROWS;
    return (double)emu_padded_bytes(chip, gather->shape) * (rows > 0 ? read / rows : 0);
}

// The bytes that `user` reads of its operand number `index`. A slice reads the part that it extracts, an in-place
// update reads nothing of the array that it changes, and a fusion reads what its body reads.
static double read_by(const EmuChip *chip, const HloInstruction *user, int64_t index, double full, int depth) {
    assert(index >= 0 && index < user->operand_count && full >= 0 && depth >= 0);
    double bytes = 0;
    switch (user->opcode) {
        case HLO_OP_SLICE:
        case HLO_OP_DYNAMIC_SLICE: return index ? full : fmin(full, (double)emu_padded_bytes(chip, user->shape));
        case HLO_OP_GATHER: return index ? full : fmin(full, gathered_bytes(chip, user));
        case HLO_OP_DYNAMIC_UPDATE_SLICE:
        case HLO_OP_SCATTER: return index ? full : 0;
        case HLO_OP_FUSION: {
            const HloInstruction *inner = user->called[0]->parameters.items[index];
            for (int64_t i = 0; depth < 16 && i < inner->users.count; i++) {
                const HloInstruction *next = inner->users.items[i];
                for (int32_t j = 0; j < next->operand_count; j++)
                    if (next->operands[j] == inner) bytes += read_by(chip, next, j, full, depth + 1);
            }
            return fmin(bytes, full);
        }
        default: break;
    }
    if (!emu_is_view(user) || hlo_instruction_is_root(user)) return full;
    for (int64_t i = 0; depth < 16 && i < user->users.count; i++) {
        const HloInstruction *next = user->users.items[i];
        for (int32_t j = 0; j < next->operand_count; j++)
            if (next->operands[j] == user) bytes += read_by(chip, next, j, full, depth + 1);
    }
    return fmin(bytes, full);
}

// The bytes that an instruction writes when its result is stored in memory: an in-place update writes only the update.
static double written_by(const EmuChip *chip, const HloInstruction *instruction, int depth) {
    assert(depth >= 0);
    const int update = instruction->opcode == HLO_OP_DYNAMIC_UPDATE_SLICE ? 1
                       : instruction->opcode == HLO_OP_SCATTER            ? instruction->operand_count - 1
                                                                          : 0;
    if (update) return bytes_of(chip, instruction->operands[update]->shape);
    if (instruction->opcode == HLO_OP_FUSION && depth < 16) {
        const HloInstruction *root = instruction->called[0]->root;
        if (!hlo_shape_is_tuple(root->shape))
            return fmin(written_by(chip, root, depth + 1), bytes_of(chip, instruction->shape));
    }
    double total = 0;
    const HloShape *shape = instruction->shape;
    if (!hlo_shape_is_tuple(shape)) return bytes_of(chip, shape);
    for (int32_t i = 0; i < shape->element_count; i++) total += bytes_of(chip, shape->elements[i]);
    return total;
}

// A kernel does not read its own values from memory.
static bool is_member(const EmuKernel *kernel, const HloInstruction *instruction) {
    for (int64_t i = 0; i < kernel->member_count; i++)
        if (kernel->members[i] == instruction) return true;
    return false;
}

// Whether operand `index` of member `member` is the first mention of that operand in the kernel.
static bool first_mention(const EmuKernel *kernel, int64_t member, int64_t index) {
    assert(member >= 0 && index >= 0);
    const HloInstruction *operand = kernel->members[member]->operands[index];
    for (int64_t m = 0; m <= member; m++)
        for (int32_t i = 0; i < kernel->members[m]->operand_count; i++) {
            if (m == member && i >= index) return true;
            if (kernel->members[m]->operands[i] == operand) return false;
        }
    return true;
}

// The bytes of all arrays that the kernel reads from outside, each array once.
static double kernel_reads(const EmuChip *chip, const EmuKernel *kernel, const bool *resident) {
    assert(chip && kernel);
    double total = 0;
    for (int64_t m = 0; m < kernel->member_count; m++)
        for (int32_t i = 0; i < kernel->members[m]->operand_count; i++) {
            const HloInstruction *operand = kernel->members[m]->operands[i];
            if (!hlo_shape_is_array(operand->shape) || is_member(kernel, operand)) continue;
            if (operand->opcode == HLO_OP_CONSTANT && hlo_shape_elements(operand->shape) <= 1) continue;
            if (!first_mention(kernel, m, i) || (resident && resident[operand->id])) continue;
            const double full = bytes_of(chip, operand->shape);
            double bytes = 0;
            for (int64_t other = m; other < kernel->member_count; other++)
                for (int32_t j = 0; j < kernel->members[other]->operand_count; j++)
                    if (kernel->members[other]->operands[j] == operand)
                        bytes += other > 0 && kernel->members[other]->opcode == HLO_OP_DYNAMIC_UPDATE_SLICE
                                     ? full
                                     : read_by(chip, kernel->members[other], j, full, 0);
            total += fmin(bytes, full);
        }
    return total;
}

// Cycles that a core takes for the results of products that are narrower than the 32 bits in which the arrays add them
// up: they leave the arrays one register after the other, are rounded, and written: *stored_bytes to HBM, in
// *store_cycles. Wide ones only take memory's time. Registers are full but for convolutions, whose layouts are not free
// to choose.
static double narrow_cycles(const EmuChip *chip, const EmuKernel *kernel, const bool *resident, double *stored_bytes,
                            double *store_cycles) {
    bool is_padded = false;
    for (int64_t i = 0; i < kernel->member_count; i++) is_padded |= hlo_is(kernel->members[i], HLO_OP_CONVOLUTION);
    double cycles = 0;
    *stored_bytes = *store_cycles = 0;
    for (int64_t i = 0; i < kernel->root_count; i++) {
        const HloInstruction *root = kernel->members[i];
        const HloShape *shape = root->opcode == HLO_OP_DYNAMIC_UPDATE_SLICE ? root->operands[1]->shape : root->shape;
        if (!hlo_shape_is_array(shape) || hlo_type_info(shape->type)->bits >= 32) continue;
        const bool stays = (resident && resident[root->id]) || bytes_of(chip, shape) == 0;
        const double elements = is_padded ? vector_elements(chip, shape) : (double)hlo_shape_elements(shape);
        if (stays) {
            cycles += chip->narrow_cycles * elements / 1024;
        } else {
            *store_cycles += chip->narrow_store_cycles * elements / 1024;
            *stored_bytes += bytes_of(chip, shape);
        }
    }
    return cycles + *store_cycles;
}

// Steps between the scores of attention and what a kernel reads of them.
#define MAX_STEPS_FROM_SCORES 8

// Whether an array is the result of a product with a batch, as the scores of attention are, or made from one step by
// step.
static bool is_of_scores(const HloInstruction *array) {
    const HloInstruction *at = array;
    for (int step = 0; at && step < MAX_STEPS_FROM_SCORES; step++) {
        const EmuOpClass op_class = emu_instruction_class(at);
        if (op_class == EMU_OP_MATRIX)
            return hlo_is(at, HLO_OP_DOT) && HLO_ATTRIBUTES(at, Dot)->lhs_batch.count > 0 &&
                   hlo_shape_elements(at->shape) == hlo_shape_elements(array->shape);
        if (op_class != EMU_OP_VECTOR && at->opcode != HLO_OP_TRANSPOSE && !emu_is_view(at)) return false;
        const HloInstruction *next = NULL;
        for (int32_t i = 0; i < at->operand_count && !next; i++) {
            const EmuOpClass of = emu_instruction_class(at->operands[i]);
            const bool passes = of == EMU_OP_MATRIX || of == EMU_OP_VECTOR || of == EMU_OP_MOVE || of == EMU_OP_FREE;
            if (passes && at->operands[i]->opcode != HLO_OP_BROADCAST && hlo_shape_is_array(at->operands[i]->shape) &&
                hlo_shape_elements(at->operands[i]->shape) == hlo_shape_elements(array->shape))
                next = at->operands[i];
        }
        at = next;
    }
    return false;
}

// Whether a kernel without a product steps over scores of attention in memory: a softmax or its gradient.
static bool reads_scores(const EmuKernel *kernel) {
    for (int64_t m = 0; m < kernel->member_count; m++)
        for (int32_t i = 0; i < kernel->members[m]->operand_count; i++) {
            const HloInstruction *operand = kernel->members[m]->operands[i];
            if (!is_member(kernel, operand) && hlo_shape_is_array(operand->shape) && is_of_scores(operand)) return true;
        }
    return false;
}

// Whether the vector unit multiplies matrices of a batch that are narrower than f32 by vectors.
static bool has_narrow_vector_product(const EmuChip *chip, const EmuKernel *kernel) {
    for (int64_t i = 0; i < kernel->member_count; i++) {
        const HloInstruction *member = kernel->members[i];
        if (!hlo_is(member, HLO_OP_DOT) || emu_instruction_class(member) != EMU_OP_REDUCE) continue;
        const EmuProduct product = emu_product_of(chip, member);
        if (product.depth < 2 || (product.rows > 1) == (product.columns > 1)) continue;
        if (hlo_type_info(member->operands[product.rows > 1 ? 0 : 1]->shape->type)->bits < 32) return true;
    }
    return false;
}

static bool has_reduction(const EmuKernel *kernel) {
    bool found = false;
    for (int64_t i = 0; i < kernel->member_count; i++)
        found |= emu_instruction_class(kernel->members[i]) == EMU_OP_REDUCE;
    return found;
}

// Cycles in which a core moves what a kernel reads and writes in HBM, where libtpu states more of them than HBM needs;
// 0 where it does not. A product writes narrow results (narrow_cycles()) after it has read what they are made from, and
// a softmax its exponentials after the largest of a row is known.
static double product_moving_cycles(const EmuChip *chip, const EmuCost *cost, double stored_bytes,
                                    double store_cycles) {
    if (chip->product_bytes_per_cycle == 0) return 0;
    const double wide = fmax(cost->read_bytes + cost->written_bytes - stored_bytes, 0);
    return store_cycles + wide / chip->product_bytes_per_cycle;
}

static double score_moving_cycles(const EmuChip *chip, const EmuKernel *kernel, const EmuCost *cost) {
    if (chip->score_bytes_per_cycle == 0 || !reads_scores(kernel)) return 0;
    const double reading = cost->read_bytes / chip->score_bytes_per_cycle;
    if (!has_reduction(kernel)) return fmax(reading, cost->written_bytes / chip->score_bytes_per_cycle);
    return reading + (chip->product_bytes_per_cycle > 0 ? cost->written_bytes / chip->product_bytes_per_cycle : 0);
}

// The time in which a kernel's bytes move, and that in which narrow results of its product are made.
static double moving_seconds(const EmuChip *chip, const EmuKernel *kernel, const EmuCost *cost, const bool *resident,
                             bool is_product, double *narrow_seconds) {
    const double devices = (double)chip->devices_per_chip;
    const double cycles_a_second = chip->clock_hz * (double)chip->cores_per_chip / devices;  // of all cores
    double stored_bytes = 0, store_cycles = 0, cycles;
    *narrow_seconds = 0;
    if (is_product) {
        *narrow_seconds = narrow_cycles(chip, kernel, resident, &stored_bytes, &store_cycles) / cycles_a_second;
        cycles = product_moving_cycles(chip, cost, stored_bytes, store_cycles);
    } else {
        cycles = score_moving_cycles(chip, kernel, cost);
    }
    if (chip->vector_product_bytes_per_cycle > 0 && has_narrow_vector_product(chip, kernel))
        cycles = fmax(cycles, cost->read_bytes / chip->vector_product_bytes_per_cycle);
    const double in_hbm = (cost->read_bytes + cost->written_bytes) * devices /
                          (chip->hbm_bytes_per_second_per_chip * chip->hbm_efficiency);
    return fmax(in_hbm, cycles / cycles_a_second);
}

// Blocks of a product that the part of VMEM which a kernel has for itself holds at a time: two of each array, as one is
// moved while the other is used [RT: iteration bounds of 32 products, 1 to 3 MB a block on v5e and v5p, 2 to 7 on v6e].
#define BLOCKS_IN_VMEM 8

// The share of the shorter of memory and matrix time of a product that does not overlap: that of the first block that
// is read and the last one that is written (measured, or from the size of VMEM), and more between the products of a
// batch.
static double ramp_of(const EmuChip *chip, const EmuCost *cost, bool has_batch) {
    const double block =
        chip->ramp_bytes > 0 ? (double)chip->ramp_bytes : (double)chip->vmem_scoped_bytes_per_core / BLOCKS_IN_VMEM;
    const double moved = cost->read_bytes + cost->written_bytes;
    const double ramp = moved > block ? block / moved : moved > 0;
    return has_batch ? fmax(ramp, chip->batch_ramp) : ramp;
}

// Whether a kernel only gives data another name.
static bool is_nothing(const EmuKernel *kernel) {
    for (int64_t i = 0; i < kernel->member_count; i++)
        if (!emu_is_view(kernel->members[i]) && !emu_call_is_annotation(kernel->members[i])) return false;
    return true;
}

// A roofline: matrix unit, vector unit and memory work in parallel, and the slowest dominates. Memory and matrix time
// of products overlap only in part: the ramp adds the share of the shorter one that does not overlap.
EmuCost emu_kernel_cost(const EmuChip *chip, const EmuKernel *kernel, EmuKernelCosts costs, const bool *resident,
                        EmuBodies *bodies) {
    assert(chip && kernel && bodies);
    Sum sum = {.chip = chip, .costs = costs, .bodies = bodies};
    if (is_nothing(kernel)) return sum.cost;
    for (int64_t i = 0; i < kernel->member_count; i++) add_member(&sum, kernel->members[i]);
    EmuCost *cost = &sum.cost;
    cost->read_bytes = kernel_reads(chip, kernel, resident);
    for (int64_t i = 0; i < kernel->root_count; i++)
        if (!resident || !resident[kernel->members[i]->id])
            cost->written_bytes += written_by(chip, kernel->members[i], 0);
    // Authors count an array for each block that reads it, or only hint at the scheduler: no kernel moves more than all
    // of its arrays, which stay on the chip between blocks.
    EmuCallEstimate estimate;
    if (cost->call == EMU_CALL_STATED && kernel->member_count == 1 &&
        emu_call_estimate(kernel->members[0], &estimate) && estimate.bytes > 0 &&
        estimate.bytes < cost->read_bytes + cost->written_bytes) {
        cost->read_bytes = estimate.bytes;
        cost->written_bytes = 0;
    }
    // A block that does not stay on the chip until it is needed again is read again.
    cost->read_bytes = fmax(cost->read_bytes, cost->moved_bytes - cost->written_bytes);
    const bool is_product = sum.has_product;
    double narrow_seconds;
    const double memory_seconds = moving_seconds(chip, kernel, cost, resident, is_product, &narrow_seconds);
    const double vector_seconds = fmax(cost->vector_operations / vector_rate(chip), narrow_seconds);
    const bool is_kernel = cost->kernel_seconds > 0;
    const double computing = is_kernel ? cost->kernel_seconds : fmax(cost->matrix_seconds, vector_seconds);
    double seconds = fmax(computing, memory_seconds);
    const double matrix_seconds = cost->matrix_seconds * (is_kernel ? chip->mxu_efficiency : 1);
    cost->bound = seconds == 0                       ? EMU_BOUND_NONE
                  : seconds > computing              ? EMU_BOUND_MEMORY
                  : matrix_seconds >= vector_seconds ? EMU_BOUND_MATRIX
                                                     : EMU_BOUND_VECTOR;
    if (is_product && !sum.gathers) {
        const double shorter = fmin(cost->matrix_seconds, fmax(narrow_seconds, memory_seconds));
        cost->ramp = ramp_of(chip, cost, sum.has_batch);
        if (cost->ramp > 0) seconds += cost->ramp * shorter;  // 0 times an infinite time is NaN
    }
    assert(seconds >= 0 && cost->read_bytes >= 0 && cost->written_bytes >= 0);  // also: none is NaN
    cost->picoseconds = emu_add(chip->op_picoseconds, emu_picoseconds(seconds));
    return *cost;
}
