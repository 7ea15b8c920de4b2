// SPDX-License-Identifier: Apache-2.0
// The time of a collective is taken to be linear in its bytes, as it is in the emulator: a latency, which depends on
// the group and its place in the machine, and a time for each byte, which depends on how many links the group uses and
// shares with others. Two questions to the machine, about a small and a large array, determine both:
//
//     all-gather over 8 of v5e-8      31.3 us and 0.14 links' time for a byte that a device sends
//     permute to the neighbour        10.1 us and 1
//
// The answers are kept for each kind of collective and set of atoms, so that a program asks a few dozen times.
#include "spmd_partitioner/costs.h"

#include <assert.h>

#include "hlo/analysis/cost.h"
#include "hlo/analysis/loop.h"

// The linear price of a kind of transfer, in bytes.
typedef struct SpmdPrice {
    double message, byte;
} SpmdPrice;

// The numbers of elements that each device sends to each other in the two questions.
static const int64_t QUESTIONS[2] = {1 << 8, 1 << 18};

void spmd_costs_open(SpmdCosts *costs, const SpmdMesh *mesh, const SpmdMachine *machine) {
    assert(costs && mesh);
    *costs = (SpmdCosts){.mesh = mesh, .flops_per_byte = SPMD_FLOPS_PER_BYTE, .memory_per_byte = SPMD_MEMORY_PER_BYTE};
    if (!machine) return;
    // An arena of its own: those of the caller are reset while plans are compared. Without memory for it the first
    // array of the program fails.
    costs->arena = hlo_arena_new();
    if (!costs->arena) return;
    costs->machine = machine;  // first: what a session has is also freed when memory ends while it is opened
    if (!machine->open(machine, costs->arena, mesh->axes, mesh->axis_count, mesh->device_count, &costs->session)) {
        costs->machine = NULL;
        costs->session = NULL;
        return;
    }
    costs->flops_per_byte = machine->flops_per_second / machine->link_bytes_per_second;
    costs->memory_per_byte = machine->memory_bytes_per_second / machine->link_bytes_per_second;
    costs->kernel_price = machine->kernel_seconds * machine->link_bytes_per_second;
}

void spmd_costs_close(SpmdCosts *costs) {
    if (costs->session && costs->machine->close) costs->machine->close(costs->session);
    hlo_module_free(costs->module);
    hlo_arena_free(costs->arena);
}

static const HloOpcode OPCODES[SPMD_TRANSFER_KINDS] = {
    [SPMD_TRANSFER_GATHER] = HLO_OP_ALL_GATHER,          [SPMD_TRANSFER_SCATTER] = HLO_OP_REDUCE_SCATTER,
    [SPMD_TRANSFER_REDUCE] = HLO_OP_ALL_REDUCE,          [SPMD_TRANSFER_EXCHANGE] = HLO_OP_ALL_TO_ALL,
    [SPMD_TRANSFER_PERMUTE] = HLO_OP_COLLECTIVE_PERMUTE, [SPMD_TRANSFER_SHIFT] = HLO_OP_COLLECTIVE_PERMUTE,
};

// Every device sends to the next one of its group, or to the one as far from the end as itself from the beginning.
static HloPairs pairs_of(const SpmdCosts *costs, SpmdTransferKind kind, const SpmdAxes *axes) {
    HloArena *arena = costs->module->arena;
    const int64_t group = spmd_axes_product(costs->mesh, axes);
    HloPair *pairs = HLO_ARENA_NEW(arena, HloPair, costs->mesh->device_count);
    const SpmdPlaces places = spmd_places(arena, costs->mesh, axes);
    for (int64_t device = 0; device < costs->mesh->device_count; device++) {
        const int64_t place = places.position[device];
        const int64_t to = kind == SPMD_TRANSFER_SHIFT ? (place + 1) % group : group - 1 - place;
        pairs[device] = (HloPair){device, spmd_device_at(&places, device, to)};
    }
    return (HloPairs){pairs, costs->mesh->device_count};
}

// A collective of `operand` among the groups along `axes`. It has no reducer: it is only timed.
static HloInstruction *make_collective(const SpmdCosts *costs, SpmdTransferKind kind, const SpmdAxes *axes,
                                       HloInstruction *operand) {
    HloComputation *computation = operand->parent;
    HloArena *arena = costs->module->arena;
    if (OPCODES[kind] == HLO_OP_COLLECTIVE_PERMUTE) {
        const HloPermuteAttributes attributes = {.channel_id = 1, .source_target_pairs = pairs_of(costs, kind, axes)};
        return hlo_instruction_new(computation, OPCODES[kind], operand->shape, &operand, 1, &attributes, NULL);
    }
    const int64_t group = spmd_axes_product(costs->mesh, axes), dim = 0;
    int64_t elements = operand->shape->dims[0];
    if (kind == SPMD_TRANSFER_GATHER) elements *= group;
    if (kind == SPMD_TRANSFER_SCATTER) elements /= group;
    HloCollectiveAttributes attributes = {.channel_id = 1, .use_global_device_ids = kind != SPMD_TRANSFER_EXCHANGE};
    attributes.replica_groups = spmd_mesh_groups(arena, costs->mesh, 1, axes->items, axes->count);
    if (kind != SPMD_TRANSFER_REDUCE) attributes.dimensions = hlo_ints(arena, &dim, 1);
    const HloShape *shape = hlo_shape_array(arena, HLO_F32, &elements, 1);
    return hlo_instruction_new(computation, OPCODES[kind], shape, &operand, 1, &attributes, NULL);
}

// A parameter of as many elements as each device has of an array in question `number`.
static HloInstruction *make_operand(const SpmdCosts *costs, int64_t group, int number) {
    HloComputation *computation = costs->module->computations.items[0];
    const int64_t elements = group * QUESTIONS[number];
    const HloParameterAttributes attributes = {.number = computation->parameters.count};
    const HloShape *shape = hlo_shape_array(costs->module->arena, HLO_F32, &elements, 1);
    return hlo_instruction_new(computation, HLO_OP_PARAMETER, shape, NULL, 0, &attributes, NULL);
}

// Asks the machine. What it does not know costs its bytes.
static SpmdPrice ask(SpmdCosts *costs, SpmdTransferKind kind, SpmdAtomSet atoms) {
    SpmdAxes axes = {0};
    spmd_axes_push_set(&axes, atoms);
    const int64_t group = spmd_axes_product(costs->mesh, &axes);
    double seconds[2], sent[2];
    if (!costs->module) {
        costs->module = hlo_module_new("prices");
        if (!costs->module) return (SpmdPrice){SPMD_MESSAGE_BYTES, 1};
        costs->module->num_partitions = costs->mesh->device_count;
        hlo_computation_new(costs->module, "prices");
    }
    for (int i = 0; i < 2; i++) {
        const HloInstruction *made = make_collective(costs, kind, &axes, make_operand(costs, group, i));
        seconds[i] = costs->machine->seconds(costs->session, made);
        sent[i] = (double)spmd_collective_bytes(made, group);
        if (seconds[i] < 0) return (SpmdPrice){SPMD_MESSAGE_BYTES, 1};
    }
    const double each = (seconds[1] - seconds[0]) / (sent[1] - sent[0]), latency = seconds[0] - sent[0] * each;
    const double rate = costs->machine->link_bytes_per_second;
    return (SpmdPrice){latency > 0 ? latency * rate : 0, each > 0 ? each * rate : 0};
}

// The price of a kind of transfer on the machine.
static SpmdPrice price_of(SpmdCosts *costs, SpmdTransferKind kind, SpmdAtomSet atoms) {
    const uint64_t key = (uint64_t)atoms * SPMD_TRANSFER_KINDS + (uint64_t)kind;
    const int64_t *found = hlo_int_map_find(&costs->known, key);
    if (found) return costs->prices.items[*found - 1];
    const SpmdPrice price = ask(costs, kind, atoms);
    hlo_vector_push(costs->arena, &costs->prices, price);
    hlo_int_map_set(costs->arena, &costs->known, key, costs->prices.count);
    return price;
}

int64_t spmd_price_cost(double price) {
    return price < (double)SPMD_MOST_BYTES ? (int64_t)price : SPMD_MOST_BYTES;
}

double spmd_work_price(const SpmdCosts *costs, double bytes, double points) {
    return bytes / costs->memory_per_byte + 2 * points / costs->flops_per_byte;
}

double spmd_transfer_price(SpmdCosts *costs, SpmdTransferKind kind, SpmdAtomSet atoms, double bytes) {
    if (!costs || !costs->machine || !atoms) return bytes;
    const SpmdPrice price = price_of(costs, kind, atoms);
    return price.message + price.byte * bytes;
}

int64_t spmd_transfer_cost(SpmdCosts *costs, SpmdTransferKind kind, SpmdAtomSet atoms, int64_t bytes,
                           bool counts_message) {
    if (!costs || !costs->machine) return spmd_add_bytes(bytes, counts_message ? SPMD_MESSAGE_BYTES : 0);
    return spmd_price_cost(spmd_transfer_price(costs, kind, atoms, (double)bytes));
}

int64_t spmd_permutes_cost(SpmdCosts *costs, const SpmdAxes *axes, int64_t bytes, int64_t count, bool counts_messages) {
    if (!costs || !costs->machine || !axes->count)
        return spmd_add_bytes(bytes, counts_messages ? spmd_times_bytes(count, SPMD_MESSAGE_BYTES) : 0);
    const SpmdPrice price = price_of(costs, SPMD_TRANSFER_SHIFT, spmd_axes_set(axes));
    return spmd_price_cost(price.message * (double)count + price.byte * (double)bytes);
}

// ---- whole programs

// How many kernels run for an instruction that would not run without it. What is elementwise or only rearranges is
// computed inside of others, unless a collective sends it.
static int64_t kernels_of(const HloInstruction *at) {
    int64_t count = 0;
    if (hlo_op_is(at->opcode, HLO_OP_IS_COLLECTIVE))
        for (int32_t i = 0; i < at->operand_count; i++)
            count += hlo_op_is(at->operands[i]->opcode, HLO_OP_IS_ELEMENTWISE | HLO_OP_IS_REARRANGES);
    switch (at->opcode) {
        case HLO_OP_DOT:
        case HLO_OP_CONVOLUTION:
        case HLO_OP_REDUCE:
        case HLO_OP_REDUCE_WINDOW:
        case HLO_OP_GATHER:
        case HLO_OP_SCATTER:
        case HLO_OP_FFT:
        case HLO_OP_SORT: return 1;
        default: return count;
    }
}

// The seconds of one instruction.
static double seconds_of(const SpmdCosts *costs, const HloCostAnalysis *analysis, const HloInstruction *at) {
    const SpmdMachine *machine = costs->machine;
    if (hlo_op_is(at->opcode, HLO_OP_IS_ASYNC_DONE)) return 0;
    if (hlo_op_is(at->opcode, HLO_OP_IS_COLLECTIVE)) {
        const double seconds = machine->seconds(costs->session, at);
        return (double)kernels_of(at) * machine->kernel_seconds + (seconds > 0 ? seconds : 0);
    }
    if (at->called_count && hlo_is(at, HLO_OP_WHILE)) return 0;
    const HloCost cost = hlo_cost_of_instruction(analysis, at);
    const double starts = (double)kernels_of(at) * machine->kernel_seconds;
    const bool multiplies = hlo_is(at, HLO_OP_DOT) || hlo_is(at, HLO_OP_CONVOLUTION);
    const double bytes = cost.bytes_written + (multiplies ? cost.bytes_read : 0);
    return starts + (multiplies ? cost.flops / machine->flops_per_second : 0) +
           bytes / machine->memory_bytes_per_second;
}

double spmd_program_seconds(SpmdCosts *costs, const HloModule *module, HloArena *scratch) {
    assert(costs->machine && module->entry);
    double seconds = 0, *runs = HLO_ARENA_NEW(scratch, double, module->computation_limit);
    HloCostAnalysis *analysis = hlo_cost_analysis_new(module);
    for (int64_t c = 0; analysis && c < module->computations.count; c++) {
        const HloComputation *computation = module->computations.items[c];
        double once = 0;
        for (const HloInstruction *at = computation->first; at; at = at->next) once += seconds_of(costs, analysis, at);
        seconds += once * hlo_computation_runs(computation, runs);
    }
    hlo_cost_analysis_free(analysis);
    return seconds;
}
