// SPDX-License-Identifier: Apache-2.0
// How a fused loop looks inside: what the builder (builder.c) records, the plan (plan.c) decides and the
// interpreter (run.c) walks.
#ifndef MESHLO_TARGETS_CPU_LOOP_INTERNAL_H_
#define MESHLO_TARGETS_CPU_LOOP_INTERNAL_H_

#include "hlo/base/vector.h"
#include "targets/cpu/element/element.h"
#include "targets/cpu/isa/isa.h"
#include "targets/cpu/loop/loop.h"

// How often a value exists: once a loop, once a kept index, once an index of the whole domain.
typedef enum CpuLevel { CPU_LEVEL_UNIFORM, CPU_LEVEL_KEPT, CPU_LEVEL_FULL } CpuLevel;

typedef enum CpuValueKind {
    CPU_VALUE_LOAD,
    CPU_VALUE_INDEX,
    CPU_VALUE_CONSTANT,
    CPU_VALUE_KERNEL,  // one block kernel
    CPU_VALUE_ALIAS,   // the register of operand 0 under another type, from `immediate` bytes an element on
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
    CpuRegisterType held;                    // for raw narrow elements: the unsigned integer of their width
    int width;                               // bytes a element in the register
    CpuValue operands[3];                    // -1 where unused
    CpuBlockKernel *kernel, *kernel_of_one;  // the latter for blocks of one element
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
    bool streams;        // a STORE into an array that is larger than the caches, past them (CpuStreamKernel)
    int64_t slot;        // byte offset of the register in scratch memory, or -1
    int partial;         // number of a reduction
    bool whole_row;      // of a row in chunks: the register holds all of the row, since a later phase reads it
    int phase;           // of a row in chunks: where it is computed, see CpuLoopPhase
    uint64_t used_in;    // of a row in chunks: the phases that read it, by bits
} CpuLoopValue;

typedef HLO_VECTOR(CpuLoopValue) CpuLoopValueVector;
typedef HLO_VECTOR(CpuValue) CpuValueVector;

struct CpuLoopBuilder {
    HloArena *arena;
    int rank, outer, reduced, inner;
    int64_t *dims;
    CpuLoopValueVector values;
    HloStatus status;  // the first error
    const CpuLoopKernels *kernels, *kernels_of_one;
    bool in_combiner;
    int combine_count;
    bool combine_in_order;
    CpuValue *accumulators, *elements, *combined, *combine_inits, *combine_values;
    int reduce_count;
};

// One value of a list as the interpreter takes it in its stride.
typedef struct CpuLoopStep {
    CpuBlockKernel *kernel;  // NULL: not simply a kernel over registers
    int64_t immediate;
    CpuValue value, operands[3];
    bool full;  // else once a kept index
    bool slow;  // an f32 function whose block takes so long that it is called in parts, with fetching between them
} CpuLoopStep;

// Rows longer than a chunk are walked in phases, chunk by chunk: a reduction ends the phase of its operands, and what
// uses its result begins the next one. Only what a later phase reads again is kept for the whole row.
typedef struct CpuLoopPhase {
    CpuValueVector once;       // values of the row as such, and expansions of them to one chunk
    const CpuLoopStep *steps;  // what a chunk takes
    int64_t step_count;
    CpuValueVector moving;  // values with whole_row that chunks read or write
} CpuLoopPhase;

// How the interpreter walks the domain.
typedef enum CpuLoopMode {
    CPU_MODE_ROWS,     // one pass; a block is some whole rows (of length 1 when nothing is reduced)
    CPU_MODE_PARTIAL,  // rows in segments, then a pass over the kept domain
    CPU_MODE_COLUMNS,  // columns in segments, then a pass over the kept domain
} CpuLoopMode;

// A loop over a handful of elements as a list of calls (small.c).
typedef struct CpuTinyLoop CpuTinyLoop;

// Elements of its domain, bytes of its registers, buffers that it names, at most.
enum { CPU_TINY_ELEMENTS = 64, CPU_TINY_SCRATCH = 32768, CPU_TINY_BUFFERS = 32 };

struct CpuLoop {
    const CpuLoopKernels *kernels, *kernels_of_one;
    const CpuTinyLoop *tiny;  // or NULL
    CpuLoopMode mode;
    int64_t outer, reduced, inner;  // sizes of the three groups
    int64_t kept;                   // outer * inner
    CpuLoopValue *values;
    int value_count;
    // Value numbers by when they run.
    CpuValueVector uniform, before, body, combiner, after;
    const CpuLoopStep *steps;  // of the body: its values without stores that a kernel has done already
    int64_t step_count;
    bool streams;          // has such stores
    CpuValueVector ahead;  // loads and stores whose next block is worth fetching early
    int64_t ahead_lines;   // cache lines of it for each call of a kernel
    CpuLoopPhase *phases;  // of rows in chunks, else NULL
    int phase_count;
    CpuValueVector reductions;  // REDUCE or COMBINED values, by number of partial
    CpuBlockKernel **fold;      // by number of partial: how two partials of a built-in reduction are combined
    int combine_count;
    bool combine_in_order;  // one segment, which starts from the inits
    CpuValue *accumulators, *elements, *combined, *combine_inits, *combine_values;
    int64_t row_run;         // kept indices of a block never cross a multiple of this
    int64_t blocks_per_run;  // blocks that a run is cut into
    int64_t block;           // kept indices of a block at most
    int64_t segment;         // reduced indices of a segment
    int64_t segments;
    int64_t piece;          // of rows in segments: how many elements are computed and reduced at a time
    int64_t uniform_count;  // elements that registers of uniform values are filled with
    size_t scratch_bytes;   // of one worker
    const int64_t *slots;   // where each value's register is in scratch memory, 0 without one: what opening a run reads
};

// Operands of a generic reduction, dimensions of a domain.
enum { CPU_LOOP_COMBINE_LIMIT = 16, CPU_LOOP_RANK_LIMIT = 64 };

// Rows up to this many elements are processed whole.
enum { CPU_LOOP_BLOCK = 1024, CPU_LOOP_ROW_ELEMENTS = 4096, CPU_LOOP_COLUMN_SEGMENT = 512 };
// Registers of rows that must be kept whole may take this much together.
enum { CPU_LOOP_ROW_BYTES = 1 << 20 };
// Loops over fewer bytes than this find their arrays in the second-level cache: nothing is fetched early.
enum { CPU_LOOP_FAR_BYTES = 1 << 20 };

// Elements of a part of a slow step.
enum { CPU_LOOP_SLOW_PART = 128 };

// The free slots of one size, the one freed last on top.
typedef struct CpuSlotSize {
    int64_t bytes;
    int free;  // the top of the stack, or -1
} CpuSlotSize;
typedef HLO_VECTOR(CpuSlotSize) CpuSlotSizeVector;

// What plan.c and chunks.c share while a loop is planned: the registers' slots in scratch memory.
typedef struct CpuLoopPlanner {
    CpuLoopBuilder *b;
    CpuLoop *loop;
    int *last_use;        // position of the last value that reads a register, by value
    int *slot_of;         // number of its slot or -1, by value
    int64_t *slot_bytes;  // of every slot so far
    int64_t *slot_offsets;
    bool *slot_free;
    int *slot_next;  // the slot below it on the stack of free ones of its size, or -1
    int slot_count;
    CpuSlotSizeVector slot_sizes;
    int64_t scratch;  // bytes of scratch memory so far
} CpuLoopPlanner;

// Gives value `v` the smallest free slot that holds it, if it needs a register, and frees those of operands that it is
// the last to read.
void cpu_loop_assign_register(CpuLoopPlanner *p, CpuValue v);

// Makes a slot free, which it may be already.
void cpu_loop_free_slot(CpuLoopPlanner *p, int slot);

// True for a store whose value is computed in the output's own memory.
bool cpu_loop_is_done(const CpuLoop *loop, CpuValue v);

// One value as a step of the interpreter.
CpuLoopStep cpu_loop_step(const CpuLoop *loop, CpuValue v);

// Cuts the rows of a loop with reductions into phases where they are longer than a chunk (chunks.c); false where
// they are not, or the loop has too many phases. Sets `whole_row` of values.
bool cpu_loop_plan_phases(CpuLoopPlanner *p);

// True if a value that only the store `store` writes may be computed in the output's memory.
bool cpu_loop_phase_may_place(const CpuLoop *loop, CpuValue value, CpuValue store);

// Registers and steps of the phases; uniform values have their registers already.
void cpu_loop_assign_phases(CpuLoopPlanner *p);

// Where each block is one row: operations on an expansion of the row's own number read the number (ones.c).
void cpu_loop_read_ones(CpuLoop *loop);

// Sets loop->tiny of a planned loop that is so small.
void cpu_tiny_loop_plan(HloArena *arena, CpuLoop *loop);
// Runs it over the whole domain, on this thread.
void cpu_tiny_loop_run(const CpuTinyLoop *tiny, void *const *buffers);

// Where a call's target and operands stand: so many bytes behind a base.
enum { CPU_TINY_PLACES = 4 };
enum { CPU_TINY_IN_SCRATCH, CPU_TINY_IN_CONSTANTS, CPU_TINY_IN_FIRST_BUFFER };
typedef struct CpuTinyPlace {
    int32_t base, offset;
} CpuTinyPlace;

// Copies: one element; all in order; element number i from number table[i]; element number i to number table[i]. The
// table, int32_t, is in place 2.
typedef enum CpuTinyForm {
    CPU_TINY_COPY_ONE,
    CPU_TINY_COPY_ALL,
    CPU_TINY_COPY_FROM,
    CPU_TINY_COPY_TO,
    CPU_TINY_KERNEL,
    CPU_TINY_REDUCE,  // place 2 holds the address of the reduction's own kernel, `immediate` elements make a row
} CpuTinyForm;

// One call of a kernel; copies and reductions are such calls too. The target comes first, then the operands.
typedef struct CpuTinyStep {
    CpuBlockKernel *kernel;
    CpuTinyPlace places[CPU_TINY_PLACES];
    int64_t count, immediate;
    CpuTinyForm form;
    int width;  // bytes an element of the target
} CpuTinyStep;

// One call of such a list when it is known where everything stands.
typedef struct CpuTinyCall {
    CpuBlockKernel *kernel;
    char *places[CPU_TINY_PLACES];
    int64_t count, immediate;
} CpuTinyCall;

// The number of calls.
int64_t cpu_tiny_loop_length(const CpuTinyLoop *tiny);
// As many calls, in the order in which they run; they live as long as the loop.
const CpuTinyStep *cpu_tiny_loop_steps(const CpuTinyLoop *tiny);
// Where the places that stand in CPU_TINY_IN_CONSTANTS are counted from: constants of the program, tables of copies and
// addresses of reductions. Written only while the loop is planned.
char *cpu_tiny_loop_constants(const CpuTinyLoop *tiny);
// Writes as many calls, for a list that runs several times with the same buffers (those that it does not name may be
// NULL) and CPU_TINY_SCRATCH bytes at `scratch`, aligned to 64, which nothing else uses while it runs.
void cpu_tiny_loop_bind(const CpuTinyLoop *tiny, char *scratch, char *const *buffers, CpuTinyCall *calls);
// True if that place of that call stands in that buffer, so many bytes behind its beginning.
bool cpu_tiny_loop_names(const CpuTinyLoop *tiny, int64_t step, int place, int buffer, int64_t *offset);
// A kernel that copies `bytes` bytes when it is called with that count; target and source may be the same.
CpuBlockKernel *cpu_tiny_copy(int64_t bytes);

// Sets the value's kernels to what stands at that place of the builder's tables.
void cpu_loop_set_kernel(const CpuLoopBuilder *builder, CpuLoopValue *value, CpuBlockKernel *const *kernel);

// Joins operations that one kernel does, and drops values without users (peephole.c).
void cpu_loop_peephole(CpuLoopBuilder *builder);

#endif
