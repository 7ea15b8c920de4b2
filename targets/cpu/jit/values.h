// SPDX-License-Identifier: Apache-2.0
// The values that a stretch of a program computes, element by element: every value is a constant, a memory location, or
// an operation on earlier values, and appears once. Memory is followed through the stretch, so that if one loop stores
// and another loads an element, it is one value, and equal computations of two loops run once.
#ifndef MESHLO_TARGETS_CPU_JIT_VALUES_H_
#define MESHLO_TARGETS_CPU_JIT_VALUES_H_

#include "targets/cpu/jit/internal.h"

// Operations are on the lowest element of a register, of 64 bits if the value is `wide`, else of 32. Predicates are
// bytes in memory and masks in registers.
typedef enum CpuJitOp {
    // Values.
    CPU_VALUE_OF_CONSTANT,
    CPU_VALUE_OF_MEMORY,
    CPU_VALUE_ADD_F,
    CPU_VALUE_SUBTRACT_F,
    CPU_VALUE_MULTIPLY_F,
    CPU_VALUE_DIVIDE_F,
    CPU_VALUE_SQRT_F,
    CPU_VALUE_MAXIMUM_F,
    CPU_VALUE_MINIMUM_F,
    CPU_VALUE_GREATER_F,  // extremes as the processor has them: the second operand where either is NaN or both are
                          // zeros
    CPU_VALUE_LESSER_F,
    CPU_VALUE_FUSED_F,  // operands 0 * 1 + 2, rounded once
    CPU_VALUE_FLOOR_F,
    CPU_VALUE_CEIL_F,
    CPU_VALUE_ROUND_EVEN_F,
    CPU_VALUE_TRUNCATE_F,
    CPU_VALUE_EQ_F,
    CPU_VALUE_NE_F,
    CPU_VALUE_LT_F,
    CPU_VALUE_LE_F,
    CPU_VALUE_GT_F,
    CPU_VALUE_GE_F,
    CPU_VALUE_NOT_LESS_F,  // also where either is NaN
    CPU_VALUE_ADD,
    CPU_VALUE_SUBTRACT,
    CPU_VALUE_MULTIPLY,
    CPU_VALUE_ABS,
    CPU_VALUE_MAXIMUM_S,
    CPU_VALUE_MINIMUM_S,
    CPU_VALUE_MAXIMUM_U,
    CPU_VALUE_MINIMUM_U,
    CPU_VALUE_EQ,
    CPU_VALUE_GT_S,
    CPU_VALUE_SHIFT_LEFT,
    CPU_VALUE_SHIFT_RIGHT_LOGICAL,
    CPU_VALUE_SHIFT_RIGHT_ARITHMETIC,
    CPU_VALUE_ROTATE,  // left by `bits`
    CPU_VALUE_AND,
    CPU_VALUE_OR,
    CPU_VALUE_XOR,
    CPU_VALUE_NOT,
    CPU_VALUE_SELECT,  // by the mask in operand 0
    CPU_VALUE_TO_MASK,
    CPU_VALUE_TO_BYTE,
    CPU_VALUE_S32_TO_F32,
    CPU_VALUE_S32_TO_F64,
    CPU_VALUE_F32_TO_F64,
    CPU_VALUE_F64_TO_F32,
    CPU_VALUE_F32_TO_S32,
    CPU_VALUE_S32_TO_S64,
    CPU_VALUE_U32_TO_U64,
    // Of vectors with AVX-512 only.
    CPU_VALUE_SCALE,  // operand 1 times 2 to the power of operand 2 where the mask in operand 0 is set, else 0
    // Of vectors with AVX2 only.
    CPU_VALUE_SCALE_EXP,  // e^x for x in operand 0: operand 1 times 2 to the power in the low bits of operand 2
    // Effects.
    CPU_EFFECT_STORE,
    CPU_EFFECT_SUM,  // of vectors only: the emitter's sum becomes the sum, the maximum or the minimum (`target`, an
                     // operation on f32) of itself and operand 0
    CPU_EFFECT_CALL,
    CPU_EFFECT_MOVE,    // moved[target] = the start of the buffer, by the starts in the operands
    CPU_EFFECT_LOCATE,  // the same by starts in memory
    CPU_EFFECT_UNLESS,  // jumps to step `target` unless operand 0 is true
    CPU_EFFECT_GO,
    CPU_EFFECT_LEAVE,  // with `target` as the number of the next step
    CPU_JIT_OP_COUNT
} CpuJitOp;

// A memory location: an offset from a base of the device, from a moved address, or in scratch memory.
enum { CPU_JIT_IN_SCRATCH = -1, CPU_JIT_CONSTANT = -2 };
typedef struct CpuJitAddress {
    int32_t base;
    int32_t moved;  // the number of a moved address that `offset` counts from, or -1
    int64_t offset;
    int64_t low, high;     // moved: the bytes of the base that contain all positions of the moving buffer
    const char *constant;  // of CPU_JIT_CONSTANT
} CpuJitAddress;

typedef struct CpuJitCall {
    CpuBlockKernel *kernel;
    CpuJitAddress addresses[CPU_SMALL_ADDRESSES];
    int64_t count, immediate;
} CpuJitCall;

typedef struct CpuJitValue {
    CpuJitOp op;
    bool wide, is_mask, needed;
    int width;  // of memory: bytes
    int32_t operands[3];
    int32_t target;
    uint64_t bits;
    CpuJitAddress address;
    const CpuJitCall *call;
    const CpuThunkBuffer *buffer;
    int32_t next;         // of those with the same hash
    int32_t next_use[3];  // the next one that uses the operand, or -1
} CpuJitValue;

typedef struct CpuJitMemory {
    CpuJitAddress address;
    int width;
    int32_t value;
} CpuJitMemory;

enum { CPU_JIT_BUCKETS = 256, CPU_JIT_MEMORY = 128 };

typedef struct CpuJitBlock {
    HloArena *arena;
    HLO_VECTOR(CpuJitValue) values;
    int32_t buckets[CPU_JIT_BUCKETS];
    CpuJitMemory memory[CPU_JIT_MEMORY];  // known contents; the oldest entry is forgotten first
    int32_t memory_count, memory_oldest;
    HLO_VECTOR(CpuJitMemory) scratch;  // everything that the loop has written
    bool keeps_scratch;                // called kernels read it there
    bool fits;                         // false: the block contains something that cannot be compiled
} CpuJitBlock;

// Forgets everything. Values of a block are reached by their numbers.
void cpu_jit_block_begin(CpuJitBlock *block);
// Begins a loop, which finds scratch memory empty.
void cpu_jit_block_begin_loop(CpuJitBlock *block, bool keeps_scratch);

// Returns the number of the value with these bits, the lower 32 if it is not wide; equal constants are one value.
int32_t cpu_jit_constant(CpuJitBlock *block, uint64_t bits, bool wide);
// Returns the number of `op` on the values a, b and c (-1 for missing operands): that of the same operation on the same
// operands if the block has it already, else of a new one.
int32_t cpu_jit_value(CpuJitBlock *block, CpuJitOp op, bool wide, int32_t a, int32_t b, int32_t c);
// Returns the 32 bits of `a` rotated left by `by` bits.
int32_t cpu_jit_rotation(CpuJitBlock *block, int32_t a, unsigned by);
// Returns a predicate as a mask of 32 bits, the form for selections and logic; a mask is returned unchanged.
int32_t cpu_jit_mask(CpuJitBlock *block, int32_t value);
// Returns a predicate as the byte 0 or 1 that is its form in memory.
int32_t cpu_jit_byte(CpuJitBlock *block, int32_t value);

// Returns the element of 1, 2, 4 or 8 bytes at the address: the value that was written or read there before, if nothing
// has overwritten it.
int32_t cpu_jit_read(CpuJitBlock *block, CpuJitAddress address, int width);
// Stores an element; in scratch memory only if a called kernel will read it.
void cpu_jit_write(CpuJitBlock *block, CpuJitAddress address, int width, int32_t value);
// True if the block knows the value there without reading it.
bool cpu_jit_knows(const CpuJitBlock *block, CpuJitAddress address, int width);
// Forgets values in these bytes, which something writes.
void cpu_jit_forget(CpuJitBlock *block, CpuJitAddress address, int64_t bytes);

// Adds an effect, which the caller fills in.
CpuJitValue *cpu_jit_effect(CpuJitBlock *block, CpuJitOp op);

// Marks the needed values, and sets next_use; `first_use` gets the first use of each value.
void cpu_jit_block_finish(CpuJitBlock *block, int32_t *first_use);

// ---- kernels as values (kernels.c)

// The operation of a kernel that can be expressed in values.
typedef struct CpuJitKernel {
    enum {
        CPU_JIT_OPERATION,
        CPU_JIT_CONVERT,
        CPU_JIT_PAIR,
        CPU_JIT_ROTATE,
        CPU_JIT_XOR_ROTATE,
        CPU_JIT_DECODE,  // of bf16, as are the next two
        CPU_JIT_ENCODE,
        CPU_JIT_ROUND,
        CPU_JIT_FUNCTION,
    } kind;
    int which;                 // the CpuLoopOp, the CpuPairInner
    int outer;                 // CpuPairOuter
    int lanes;                 // of a function: those of the code's vectors
    CpuRegisterType type, to;  // of the operands (the last one, where the first is a predicate); of the result
    unsigned ones;             // the set of operands that are one element for all, as bits
} CpuJitKernel;

// Finds the operation of a kernel; false if it is none of these.
bool cpu_jit_kernel_find(const CpuLoop *loop, CpuBlockKernel *kernel, CpuJitKernel *found);
// Does the same for the kernel of blocks of 32-bit lanes (cpu_jit_emit_vectors()), which may have more conversions and
// operands that are one element for all, but nothing of 64 bits.
bool cpu_jit_kernel_find_vector(const CpuLoop *loop, CpuBlockKernel *kernel, CpuJitKernel *found);
// Does the same for the kernel of a reduction; `found` combines two of its elements.
bool cpu_jit_kernel_find_reduce(const CpuLoop *loop, CpuReduceKernel *kernel, CpuJitKernel *found);
// Returns the lanes of the code's vectors for a loop with these kernels, 0 if there is none.
int cpu_jit_lanes(const CpuLoop *loop);
// Returns whether the f32 kernel of an operation of one operand is a function that code has for vectors of `lanes`, 8
// with AVX2 or 16 with AVX-512 (functions.c).
bool cpu_jit_is_function(CpuLoopOp op, int lanes);
// Returns the value of that function, with the bits of the kernel.
int32_t cpu_jit_function(CpuJitBlock *block, CpuLoopOp op, int lanes, int32_t x);
// Returns the number of the kernel's operands, at most 3.
int cpu_jit_kernel_arity(const CpuJitKernel *kernel);
// Returns the bytes of an operand's elements.
int cpu_jit_kernel_width(const CpuJitKernel *kernel, int operand);
// Returns the value that the kernel computes from one element of each operand, with the operations and roundings of the
// compiled kernel, so that their bits are the same; `immediate` is the kernel's.
int32_t cpu_jit_kernel_apply(CpuJitBlock *block, const CpuJitKernel *kernel, const int32_t *operands,
                             int64_t immediate);

#endif
