// SPDX-License-Identifier: Apache-2.0
// How long one kernel takes on one device: a roofline over the systolic arrays, the vector unit and HBM.
//
// Stability: experimental.
#ifndef MESHLO_EMULATOR_COST_H_
#define MESHLO_EMULATOR_COST_H_

#include "emulator/fusion.h"
#include "emulator/topology.h"

HLO_BEGIN_C

// What limits a kernel.
typedef enum EmuBound {
    EMU_BOUND_NONE,
    EMU_BOUND_MATRIX,
    EMU_BOUND_VECTOR,
    EMU_BOUND_MEMORY,
    EMU_BOUND_NETWORK,
    EMU_BOUND_HOST,  // transfers between the device and the host's memory
    EMU_BOUND_COUNT
} EmuBound;

// "matrix", "vector", "memory", "network", "host" or "none". Static storage.
HLO_EXPORT const char *emu_bound_name(EmuBound bound);

// Where the work of a custom call comes from.
typedef enum EmuCallCost {
    EMU_CALL_NONE,    // no custom call with work of its own
    EMU_CALL_BODY,    // counted from the kernel's program
    EMU_CALL_STATED,  // by its author
} EmuCallCost;

// The work and time of a kernel.
typedef struct EmuCost {
    double matrix_flops;       // of products and convolutions, on the sizes as written
    double other_flops;        // one for each element that an elementwise operation or a reduction computes
    double vector_operations;  // instructions times elements, padded
    double
        transcendental_operations;  // of the unit beside it, in kernels that users wrote, where they are not in these
    double matrix_seconds;          // at the achieved rate, on padded sizes
    double kernel_seconds;          // of kernels that users wrote, whose units work beside each other in part
    double read_bytes, written_bytes;  // HBM, padded
    double moved_bytes;   // of the transfers in a kernel's own program, each as often as it runs; 0: unknown
    double ramp;          // share of the shorter of memory and matrix time that does not overlap
    int64_t picoseconds;  // of the whole kernel
    EmuBound bound;
    bool unknown;  // a custom call whose work is not known: only its arrays are counted
    EmuCallCost call;
} EmuCost;

// Where the cost of a kernel that a user wrote comes from. The body counts as known if every branch and loop around its
// products is; the stated cost is used for others, and the body, with every unknown branch taken, if none is stated.
typedef enum EmuKernelCosts {
    EMU_KERNEL_COSTS_BODY,    // its own program, else what it states
    EMU_KERNEL_COSTS_STATED,  // what it states, else its own program
} EmuKernelCosts;

// Makes an empty set of the bodies of kernels that users wrote, each with the work that was counted in it: a body is
// decoded and walked once, however often its call is priced, and however many calls have it with the same constants and
// shapes. The set is for one chip, whose rate of products may change in between. It grows in `arena`, and the programs
// whose calls are looked up must live as long. Memory errors jump to hlo_protect(). One thread at a time.
HLO_EXPORT EmuBodies *emu_bodies_new(HloArena *arena);

// The cost of a kernel on one device of a slice with chips like `chip`. `resident` tells by instruction id which arrays
// are in VMEM, besides those whose layouts say so; NULL: none. `bodies` keeps the work of users' kernels.
HLO_EXPORT EmuCost emu_kernel_cost(const EmuChip *chip, const EmuKernel *kernel, EmuKernelCosts costs,
                                   const bool *resident, EmuBodies *bodies);

// The sizes of a matrix product for the systolic arrays.
typedef struct EmuProduct {
    double batch, rows, depth, columns;
    double flops;     // on the sizes as written, if the others are padded already; 0: of these sizes
    bool is_divided;  // into products of their own, for which the array is loaded anew: batches
    bool is_kernel;   // in a kernel that a user wrote: rows stay rows
    // Positions of the window are products of their own, with the features in the lanes of what stays in the array, and
    // share its depth where they have fewer features than that.
    bool is_convolution;
    bool has_few_filters;  // of a convolution that makes an image: as rows, they pass what stays in the array
    int64_t passes;        // of bf16 multiplications for one of the operand type
    double peak_flops;     // operations a second of one device at one pass
} EmuProduct;

// The sizes of a dot or convolution instruction (also ragged and scaled dots).
HLO_EXPORT EmuProduct emu_product_of(const EmuChip *chip, const HloInstruction *instruction);
// The same of operands of these shapes, whose contracting and batch dimensions are given, at default precision.
HLO_EXPORT EmuProduct emu_product_of_shapes(const EmuChip *chip, const HloShape *left, const HloShape *right,
                                            const HloDotAttributes *dot);
// The instructions of the vector unit, times the elements of registers, that a convolution takes beside its product:
// depthwise ones are computed there, and others gather the positions of their window there.
HLO_EXPORT double emu_convolution_vector_operations(const EmuChip *chip, const HloInstruction *instruction);
// Seconds that a product takes on padded sizes: rows are padded to 8, depth and columns to the array's side, or with
// the roles of rows and columns swapped where that is less.
HLO_EXPORT double emu_product_seconds(const EmuChip *chip, const EmuProduct *product);

// How a copy of an array into another layout moves it.
typedef struct EmuCopyKind {
    bool turns;   // another dimension comes into the lanes
    bool in_hbm;  // both arrays are in HBM
} EmuCopyKind;

// Cycles of the vector unit that such a copy takes. Between arrays in VMEM copies cost next to nothing, and are none.
HLO_EXPORT double emu_copy_cycles(const EmuChip *chip, const HloShape *from, const HloShape *to, EmuCopyKind kind);

// The author's cost estimate of a custom call: the `cost_estimate` of a Pallas kernel's backend_config.
typedef struct EmuCallEstimate {
    double flops;            // counted at the rate of the systolic arrays
    double transcendentals;  // counted as exponentials
    double bytes;            // moved between HBM and the device, of all operands and results together
} EmuCallEstimate;

// Reads the estimate of a custom call; false if it has none or it cannot be read. Source of the names: jax
// _src/tpu_custom_call.py, CostEstimate.to_json. Any thread.
HLO_EXPORT bool emu_call_estimate(const HloInstruction *call, EmuCallEstimate *estimate);
// Adds the work of a Mosaic kernel, counted from its own program, to `cost`: products, instructions of the vector and
// the transcendental unit, and transfers. False if it has no program that can be read; *is_complete tells whether all
// of its control flow is known. The body is looked up in `bodies` first.
HLO_EXPORT bool emu_call_body(const EmuChip *chip, const HloInstruction *call, EmuBodies *bodies, EmuCost *cost,
                              bool *is_complete);
// Adds the work of an operation of a kernel on vectors: `elements` (padded) of what `opcode` computes.
HLO_EXPORT void emu_kernel_vector_work(const EmuChip *chip, HloOpcode opcode, double elements, EmuCost *cost);
// Whether a custom call only carries an annotation: it takes no time.
HLO_EXPORT bool emu_call_is_annotation(const HloInstruction *call);
// The opcode that does the same work as a known custom call: erf for mhlo.erf, cholesky for a decomposition.
// HLO_OPCODE_COUNT for other calls.
HLO_EXPORT HloOpcode emu_call_opcode(const HloInstruction *call);

HLO_END_C

#endif
