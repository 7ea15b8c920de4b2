// SPDX-License-Identifier: Apache-2.0
// How a fused loop looks inside: what the builder (loop_builder.c) records, the plan (loop_plan.c) decides and the
// interpreter (loop_run.c) walks.
#ifndef MESHLO_TARGETS_CPU_LOOP_INTERNAL_H_
#define MESHLO_TARGETS_CPU_LOOP_INTERNAL_H_

#include "hlo/base/vector.h"
#include "targets/cpu/isa/isa.h"
#include "targets/cpu/loop.h"

// How often a value exists: once a loop, once a kept index, once an index of the whole domain.
typedef enum CpuLevel { CPU_LEVEL_UNIFORM, CPU_LEVEL_KEPT, CPU_LEVEL_FULL } CpuLevel;

typedef enum CpuValueKind {
    CPU_VALUE_LOAD,
    CPU_VALUE_INDEX,
    CPU_VALUE_CONSTANT,
    CPU_VALUE_KERNEL,  // one block kernel
    CPU_VALUE_ALIAS,   // the register of operand 0 under another type
    CPU_VALUE_EXPAND,  // a kept value repeated over the reduced dimensions
    CPU_VALUE_REDUCE,
    CPU_VALUE_ACCUMULATOR,  // bound by the interpreter while it runs the combiner
    CPU_VALUE_ELEMENT,
    CPU_VALUE_COMBINED,  // the final accumulator of a generic reduction
    CPU_VALUE_STORE,
    CPU_VALUE_DROPPED,  // does not exist any more
} CpuValueKind;

// Merged dimensions of an index map, innermost first; sizes of 1 are left out.
typedef struct CpuWalk {
    int64_t offset;
    int count;
    int64_t *sizes;
    int64_t *strides;
    bool contiguous;  // element number = offset + flat index
} CpuWalk;

typedef struct CpuLoopValue {
    CpuValueKind kind;
    CpuLevel level;
    HloType type;
    CpuRegisterType held;  // for raw narrow elements: the unsigned integer of their width
    int width;             // bytes a element in the register
    CpuValue operands[3];  // -1 where unused
    CpuBlockKernel *kernel;
    CpuReduceKernel *reduce;
    int64_t immediate;
    int buffer;
    CpuIndexMap map;
    CpuWalk walk;
    CpuReduceOp reduce_op;
    unsigned char constant[16];
    bool after_reduce;   // depends on a reduction's result
    bool in_combiner;    // between combine_begin and combine_end
    CpuValue expanded;   // the EXPAND of this value, 0 where there is none yet
    CpuValue stored_by;  // the contiguous STORE whose memory is this value's register, or -1
    int64_t slot;        // byte offset of the register in scratch memory, or -1
    int partial;         // number of a reduction
} CpuLoopValue;

typedef HLO_VECTOR(CpuLoopValue) CpuLoopValueVector;
typedef HLO_VECTOR(CpuValue) CpuValueVector;

struct CpuLoopBuilder {
    HloArena *arena;
    int rank, outer, reduced, inner;
    int64_t *dims;
    CpuLoopValueVector values;
    HloStatus status;  // the first error
    const CpuLoopKernels *kernels;
    bool in_combiner;
    int combine_count;
    CpuValue *accumulators, *elements, *combined, *combine_inits, *combine_values;
    int reduce_count;
};

// One value of a list as the interpreter takes it in its stride.
typedef struct CpuLoopStep {
    CpuBlockKernel *kernel;  // NULL: not simply a kernel over registers
    int64_t immediate;
    CpuValue value, operands[3];
    bool full;  // else once a kept index
} CpuLoopStep;

// How the interpreter walks the domain.
typedef enum CpuLoopMode {
    CPU_MODE_ROWS,     // one pass; a block is some whole rows (of length 1 when nothing is reduced)
    CPU_MODE_PARTIAL,  // rows in segments, then a pass over the kept domain
    CPU_MODE_COLUMNS,  // columns in segments, then a pass over the kept domain
} CpuLoopMode;

struct CpuLoop {
    const CpuLoopKernels *kernels;
    CpuLoopMode mode;
    CpuLoopCode *code;
    int64_t outer, reduced, inner;  // sizes of the three groups
    int64_t kept;                   // outer * inner
    CpuLoopValue *values;
    int value_count;
    // Value numbers by when they run.
    CpuValueVector uniform, before, body, combiner, after;
    const CpuLoopStep *steps;   // of the body, as many as it has values
    CpuValueVector reductions;  // REDUCE or COMBINED values, by number of partial
    CpuBlockKernel **fold;      // by number of partial: how two partials of a built-in reduction are combined
    int combine_count;
    CpuValue *accumulators, *elements, *combined, *combine_inits, *combine_values;
    int64_t row_run;         // kept indices of a block never cross a multiple of this
    int64_t blocks_per_run;  // blocks that a run is cut into
    int64_t block;           // kept indices of a block at most
    int64_t segment;         // reduced indices of a segment
    int64_t segments;
    int64_t uniform_count;  // elements that registers of uniform values are filled with
    size_t scratch_bytes;   // of one worker
};

// Operands of a generic reduction, dimensions of a domain.
enum { CPU_LOOP_COMBINE_LIMIT = 16, CPU_LOOP_RANK_LIMIT = 64 };

// Rows up to this many elements are processed whole.
enum { CPU_LOOP_BLOCK = 1024, CPU_LOOP_ROW_ELEMENTS = 4096, CPU_LOOP_COLUMN_SEGMENT = 512 };
// Registers of rows that must be kept whole may take this much together.
enum { CPU_LOOP_ROW_BYTES = 1 << 20 };

// Joins operations that one kernel does, and drops values without users (loop_peephole.c).
void cpu_loop_peephole(CpuLoopBuilder *builder);

// The register type that holds a type, and the register type of its stored form.
CpuRegisterType cpu_register_of(HloType type);
// Of the form in memory: floats narrower than f32 are unsigned integers of their width there.
CpuRegisterType cpu_register_raw(HloType type);
// Bytes of a register type's elements.
int cpu_register_bytes(CpuRegisterType type);

#endif
