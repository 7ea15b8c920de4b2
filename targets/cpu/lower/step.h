// SPDX-License-Identifier: Apache-2.0
// Steps: the form to which the program graph is lowered before buffers are known. A step is one unit of work of a
// region, with the arrays it reads and writes. Addresses come later (thunk/buffers.c), then thunks (thunk/thunk.h).
#ifndef MESHLO_TARGETS_CPU_LOWER_STEP_H_
#define MESHLO_TARGETS_CPU_LOWER_STEP_H_

#include "targets/cpu/dense/matmul.h"
#include "targets/cpu/executable.h"
#include "targets/cpu/graph/graph.h"
#include "targets/cpu/loop/loop.h"

HLO_BEGIN_C

// A start index that is known only at run time: element `index`, clamped to [0, limit], moves a base address by
// index * stride_bytes.
typedef struct CpuDynamicStart {
    CpuArray *index;  // scalar integer
    int64_t limit;
    int64_t stride_bytes;
} CpuDynamicStart;

// One buffer of a fused loop.
typedef struct CpuLoopBuffer {
    CpuArray *array;
    bool written;
    bool in_place;  // read elementwise with the map of the loop's first store: may share its memory
    const CpuDynamicStart *starts;
    int32_t start_count;
} CpuLoopBuffer;

// A fused loop with the buffers it uses.
typedef struct CpuFusedLoop {
    CpuLoop *loop;
    const CpuLoopBuffer *buffers;
    int32_t buffer_count;
} CpuFusedLoop;

// Random numbers that depend on the device's earlier draws.
typedef struct CpuDraw {
    const HloShape *shape;  // of the result
    bool normal;            // rng: else uniform
    bool is_state;          // rng-get-and-update-state, by `delta`
    uint64_t delta;
} CpuDraw;

typedef enum CpuStepKind {
    CPU_STEP_LOOPS,       // fused loops, one after the other
    CPU_STEP_COPY_LOOPS,  // results[0] := operand 0 (no copy if they share memory), then the loops
    CPU_STEP_KERNEL,      // one call of a kernel thunk: see `kernel`
    CPU_STEP_WHILE,
    CPU_STEP_CONDITIONAL,
    CPU_STEP_COLLECTIVE,
    CPU_STEP_DEVICE_ID,  // partition-id, replica-id
    CPU_STEP_DRAW,       // rng, rng-get-and-update-state: `kernel` is a CpuDraw
    CPU_STEP_FALLBACK,   // the evaluator runs the node
    CPU_STEP_TRANSFER,   // to or from the host: `kernel` is a CpuTransfer
    CPU_STEP_SEND,       // to other devices: `kernel` is a CpuP2pTransfer
    CPU_STEP_RECEIVE,    // from another device: `kernel` is a CpuP2pTransfer
} CpuStepKind;

typedef struct CpuSteps CpuSteps;

// Runs a kernel step: `arguments` are the addresses of reads, then of writes; `kernel` is the step's own data.
typedef HloStatus CpuKernelFunction(const void *kernel, void *const *arguments, CpuPool *pool);

// The same for a kernel of a few nanoseconds with up to three reads and one write, in the form of the block
// kernels of isa/isa.h; `kernel` is the address of the step's own data. It cannot fail.
typedef void CpuSmallKernel(void *write, const void *first, const void *second, const void *third, int64_t n,
                            int64_t kernel);

// A small kernel that is a matrix product, for generated code that computes it itself.
typedef struct CpuSmallProduct {
    const CpuSmallMatmul *matmul;
    bool swapped;  // the kernel's first operand is the product's right side
} CpuSmallProduct;

typedef struct CpuStep {
    CpuStepKind kind;
    CpuNode *node;
    CpuArray **reads;
    int32_t read_count;
    CpuArray **writes;
    int32_t write_count;
    // The operand (index in reads) whose memory writes[0] should take over if it dies here; -1 for none.
    int32_t update_in_place;
    const CpuFusedLoop *loops;
    int32_t loop_count;
    CpuKernelFunction *run;          // of a kernel step
    CpuSmallKernel *small;           // its small form, or NULL
    const CpuSmallProduct *product;  // what `small` computes if it is a product, else NULL
    const void *kernel;
    CpuSteps *regions;  // of while and conditional: one per region of the node
    double cost;  // approximate number of elementary operations; a double, so that products of sizes cannot overflow
    int64_t begin, end;  // positions in the whole program (thunk/buffers.c); end > begin for nested steps
} CpuStep;

struct CpuSteps {
    HLO_VECTOR(CpuStep) steps;
    CpuRegion *region;
    int64_t begin, end;  // positions where it begins, and where its results are read (thunk/buffers.c)
};

HLO_END_C

#endif
