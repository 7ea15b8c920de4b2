// SPDX-License-Identifier: Apache-2.0
// The internal structure of a fused loop: the builder (builder.c) records it, the planner (plan.c) completes it and the
// interpreter (run.c) walks it.
#ifndef MESHLO_TARGETS_CPU_LOOP_INTERNAL_H_
#define MESHLO_TARGETS_CPU_LOOP_INTERNAL_H_

#include "hlo/base/vector.h"
#include "targets/cpu/element/element.h"
#include "targets/cpu/isa/isa.h"
#include "targets/cpu/isa/move.h"
#include "targets/cpu/loop/loop.h"

// How often a value exists: once per loop, once per kept index, once per index of the whole domain.
typedef enum CpuLevel { CPU_LEVEL_UNIFORM, CPU_LEVEL_KEPT, CPU_LEVEL_FULL } CpuLevel;

typedef enum CpuValueKind {
    CPU_VALUE_LOAD,
    CPU_VALUE_INDEX,
    CPU_VALUE_CONSTANT,
    CPU_VALUE_KERNEL,  // one block kernel
    CPU_VALUE_ALIAS,   // the register of operand 0 as another type, from byte `immediate` of each element on
    CPU_VALUE_EXPAND,  // a kept value repeated over the reduced dimensions
    CPU_VALUE_REDUCE,
    CPU_VALUE_ACCUMULATOR,  // bound by the interpreter while it runs the combiner
    CPU_VALUE_ELEMENT,
    CPU_VALUE_COMBINED,  // the final accumulator of a generic reduction
    CPU_VALUE_STORE,
    CPU_VALUE_DROPPED,  // no longer exists
} CpuValueKind;

// Merged dimensions of an index map, innermost first, without sizes of 1.
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
    CpuRegisterType register_type;  // register type; for raw narrow elements, the unsigned integer of their width
    int width;                      // bytes per element in the register
    CpuValue operands[3];           // -1 where unused
    CpuBlockKernel *kernel, *kernel_of_one;  // the latter for blocks of one element
    CpuReduceKernel *reduce;
    CpuColumnKernel *columns;
    int64_t immediate;
    int buffer;
    CpuIndexMap map;
    CpuWalk walk;
    CpuReduceOp reduce_op;
    unsigned char constant[16];
    bool after_reduce;  // depends on a reduction's result
    bool in_combiner;   // between combine_begin and combine_end
    CpuValue expanded;  // the EXPAND of this value, 0 if there is none yet
    CpuValue
        stored_by;  // the contiguous STORE whose memory is this value's register (a LOAD's may be elsewhere), or -1
    bool streams;   // a STORE that bypasses the caches, into an array larger than them (CpuStreamKernel)
    int64_t slot;   // byte offset of the register in scratch memory, or -1
    int partial;    // number of a reduction
    bool few_read;  // of a value that exists once: code reads it, which needs the first elements only
    bool in_sums;   // of a REDUCE: code has added the elements of each row to CPU_REDUCE_LANES numbers
    bool in_rows;   // code reads the elements of a LOAD or INDEX, or writes those of a value with `stored_by`, in the
                    // array whose walk is rows; it reads the number of each row of an EXPAND
    const int32_t *table;    // of an INDEX with in_rows: one row's elements, or the element of each row
    bool is_written;         // of a STORE: code has written its elements
    bool is_merged;          // of a STORE: a later one writes its elements
    const CpuValue *merged;  // of a STORE: the values whose elements it writes in turn, one element of each; or NULL
    int64_t first_merged;    // of such: the element number of the first of these
    bool whole_row;          // of a row in chunks: the register holds the whole row, since a later phase reads it
    int phase;               // of a row in chunks: the phase that computes it, see CpuLoopPhase
    uint64_t used_in;        // of a row in chunks: the set of phases that read it, as bits
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
    const CpuMoveKernels *moves;
    bool in_combiner;
    int combine_count;
    bool combine_in_order;
    CpuValue *accumulators, *elements, *combined, *combine_inits, *combine_values;
    int reduce_count;
};

// Generated code for neighbouring kernels of a loop (jit/chains.c): the values between them stay in the processor's
// registers.
typedef struct CpuLoopChain {
    // For `count` elements, a multiple of `lanes` above 0, or for rows of `row`.
    void (*run)(char **lists, int64_t count);
    const CpuValue *lists;  // the values whose elements are read, then those whose elements are written
    const bool *ones;       // by list: read as one element for all
    int list_count, read_count;
    int lanes;           // at most CPU_CHAIN_LANES
    int64_t row;         // the elements of rows that code takes whole, also several; 0: none
    bool sums;           // the last list is a reduction's CpuLoopValue.in_sums: parts are multiples of CPU_REDUCE_LANES
    CpuReduceOp sum_op;  // of these: a sum, a maximum or a minimum,
    CpuBlockKernel *sum_kernel;  // and the operation on two of them
    int kernel_count;            // that the code replaces
    bool full;                   // once per element, else once per kept index
} CpuLoopChain;
enum { CPU_CHAIN_LISTS = 11, CPU_CHAIN_LANES = 16 };
// The lanes of the tree in isa/loop_reduce.inc.
enum { CPU_REDUCE_LANES = 64 };
// Shorter rows of an array are copied to and from registers rather than given to a chain: several in one call, or one
// by one.
enum { CPU_CHAIN_LEAST_ROW = 16, CPU_CHAIN_LEAST_ROW_ALONE = 64 };

// One value of a list in the form that the interpreter executes.
typedef struct CpuLoopStep {
    CpuBlockKernel *kernel;     // NULL: not just a kernel over registers
    const CpuLoopChain *chain;  // or NULL; then nothing else is set
    int64_t immediate;
    CpuValue value, operands[3];
    bool full;  // else once per kept index
    bool slow;  // an f32 function whose block takes so long that it is called in parts, with prefetches between them
} CpuLoopStep;

typedef struct CpuLoopSteps {
    const CpuLoopStep *items;
    int64_t count;
    bool has_chains;  // jit/chains.c has been here
    int64_t block;    // kept indices of a block where only chains compute, in arrays; 0: that of the loop
} CpuLoopSteps;

// Rows longer than a chunk are walked in phases, chunk by chunk: a reduction ends the phase of its operands, and the
// users of its result belong to the next one. Only values that a later phase reads again are kept for the whole row.
typedef struct CpuLoopPhase {
    CpuValueVector once;    // values of the row itself, and their expansions to one chunk
    CpuLoopSteps steps;     // of a chunk
    CpuValueVector moving;  // values with whole_row that chunks read or write
} CpuLoopPhase;

// How the interpreter walks the domain.
typedef enum CpuLoopMode {
    CPU_MODE_ROWS,     // one pass; a block is some whole rows (of length 1 when nothing is reduced)
    CPU_MODE_PARTIAL,  // one pass; a block is some whole rows (of length 1 if there is no reduction)
    CPU_MODE_COLUMNS,  // columns in segments, then a pass over the kept domain
} CpuLoopMode;

// A small loop as a list of calls (small.c).
typedef struct CpuSmallLoop CpuSmallLoop;

// Limits of a small loop: elements of its domain, bytes of its registers, buffers that it uses.
enum { CPU_SMALL_ELEMENTS = 64, CPU_SMALL_SCRATCH = 32768, CPU_SMALL_BUFFERS = 32 };

struct CpuLoop {
    const CpuLoopKernels *kernels, *kernels_of_one;
    const CpuMoveKernels *moves;
    const CpuSmallLoop *small_loop;  // or NULL
    CpuLoopMode mode;
    int64_t outer, reduced, inner;  // sizes of the three groups
    int64_t kept;                   // outer * inner
    CpuLoopValue *values;
    int value_count;
    // Value numbers, by when they are computed.
    CpuValueVector uniform, before, body, combiner, after;
    CpuLoopSteps *steps;   // of the body: its values, except stores that a kernel has already done
    bool streams;          // has streaming stores
    CpuValueVector ahead;  // loads and stores whose next block is worth prefetching
    int64_t ahead_lines;   // cache lines to prefetch per kernel call
    CpuLoopPhase *phases;  // of rows in chunks, else NULL
    int phase_count;
    CpuValueVector reductions;  // REDUCE or COMBINED values, by index of the partial
    CpuBlockKernel **fold;      // by index of the partial: how two partials of a built-in reduction are combined
    int combine_count;
    bool combine_in_order;  // one segment, which starts from the inits
    CpuValue *accumulators, *elements, *combined, *combine_inits, *combine_values;
    int64_t row_run;         // kept indices of a block never cross a multiple of this
    int64_t blocks_per_run;  // blocks that a run is divided into
    int64_t block;           // maximum number of kept indices per block
    int64_t segment;         // reduced indices per segment
    int64_t rows_at_once;    // of columns: reduced indices whose values are computed together
    int64_t segments;
    int64_t piece;          // of rows in segments: how many elements are computed and reduced at a time
    int64_t uniform_count;  // elements that registers of uniform values are filled with
    size_t scratch_bytes;   // per worker
    const int64_t
        *slots;  // offset of each value's register in scratch memory, 0 if it has none; read when a run is opened
};

// Maximum numbers of operands of a generic reduction and of dimensions of a domain.
enum { CPU_LOOP_COMBINE_LIMIT = 16, CPU_LOOP_RANK_LIMIT = 64 };

// Rows up to this many elements are processed whole.
enum { CPU_LOOP_BLOCK = 1024, CPU_LOOP_ROW_ELEMENTS = 4096, CPU_LOOP_COLUMN_SEGMENT = 512 };
// The most rows of a block whose sums a chain computes.
enum { CPU_CHAIN_ROWS = CPU_LOOP_BLOCK / CPU_CHAIN_LEAST_ROW_ALONE };
// Maximum total size of the registers of rows that must be kept whole.
enum { CPU_LOOP_ROW_BYTES = 1 << 20 };
// Loops over fewer bytes than this find their arrays in the second-level cache, so nothing is prefetched.
enum { CPU_LOOP_FAR_BYTES = 1 << 20 };

// Number of elements in a part of a slow step.
enum { CPU_LOOP_SLOW_PART = 128 };

// The free slots of one size as a stack, the most recently freed on top.
typedef struct CpuSlotSize {
    int64_t bytes;
    int free;  // the top of the stack, or -1
} CpuSlotSize;
typedef HLO_VECTOR(CpuSlotSize) CpuSlotSizeVector;

// State that plan.c and chunks.c share while planning a loop: the registers' slots in scratch memory.
typedef struct CpuLoopPlanner {
    CpuLoopBuilder *b;
    CpuLoop *loop;
    int *last_use;        // position of the last value that reads a register, by value
    int *slot_of;         // index of its slot or -1, by value
    int64_t *slot_bytes;  // of every slot so far
    int64_t *slot_offsets;
    bool *slot_free;
    int *slot_next;  // the slot below it on the stack of free ones of its size, or -1
    int slot_count;
    CpuSlotSizeVector slot_sizes;
    int64_t scratch;  // bytes of scratch memory so far
} CpuLoopPlanner;

// Assigns to value `v` the smallest free slot that can hold it, if it needs a register, and frees the slots of operands
// for which it is the last reader.
void cpu_loop_assign_register(CpuLoopPlanner *p, CpuValue v);

// Frees a slot; it may already be free.
void cpu_loop_free_slot(CpuLoopPlanner *p, int slot);

// Whether an expansion is the kept register itself: in the columns form, where a block is one reduced index.
bool cpu_loop_expands_in_place(const CpuLoop *loop, const CpuLoopValue *value);

// Whether the value is a store whose operand is computed directly in the output's memory. One of a load is not: the
// load may find its elements in one piece and leave them where they are.
bool cpu_loop_is_done(const CpuLoop *loop, CpuValue v);

// Returns a value as a step of the interpreter.
CpuLoopStep cpu_loop_step(const CpuLoop *loop, CpuValue v);

// Returns the elements [start, start + count) of a load's walk: in place where they are contiguous, else copied to
// `reg`.
void *cpu_walk_load(const CpuMoveKernels *moves, const CpuLoopValue *value, const void *buffer, void *reg,
                    int64_t start, int64_t count);

// Stores a range of elements, as the inverse of cpu_walk_load(). Copies nothing if `reg` is the output's own memory.
void cpu_walk_store(const CpuLoopValue *value, void *buffer, const void *reg, int64_t start, int64_t count);

// Finds groups of stores that write every element of an array in turn, as those of a stack of coordinates do, and lets
// the last one of a group write for all.
void cpu_loop_merge_stores(const CpuLoopBuilder *builder, CpuLoop *loop);

// Returns the number of a width in tables of moves, -1 if it has none.
int cpu_loop_move_width(int width);

// Writes the element numbers of an index's walk to `reg`: s32 where they fit, else s64.
void cpu_walk_index(const CpuLoopKernels *kernels, const CpuLoopValue *value, void *reg, int64_t start, int64_t count);

// Divides the rows of a loop with reductions into phases if they are longer than a chunk (chunks.c). Returns false if
// they are not, or if the loop has too many phases. Sets `whole_row` of values.
bool cpu_loop_plan_phases(CpuLoopPlanner *p);

// Whether a value that only the store `store` writes may be computed in the output's memory.
bool cpu_loop_phase_may_place(const CpuLoop *loop, CpuValue value, CpuValue store);

// Assigns the registers and steps of the phases; uniform values already have their registers.
void cpu_loop_assign_phases(CpuLoopPlanner *p);

// Lets operations on an expansion of a per-row scalar read the scalar, if each block is one row (ones.c).
void cpu_loop_read_ones(CpuLoop *loop);

// Sets loop->small_loop if the planned loop is a small loop.
void cpu_small_loop_plan(HloArena *arena, CpuLoop *loop);
// Runs the loop over its whole domain, on this thread.
void cpu_small_loop_run(const CpuSmallLoop *small_loop, void *const *buffers);

// The locations of a call's target and operands: byte offsets from a base.
enum { CPU_SMALL_ADDRESSES = 4 };
enum { CPU_SMALL_IN_SCRATCH, CPU_SMALL_IN_CONSTANTS, CPU_SMALL_IN_FIRST_BUFFER };
typedef struct CpuSmallAddress {
    int32_t base, offset;
} CpuSmallAddress;

// Copies: one element; all in order; element i from element table[i]; element i to element table[i]. The table,
// int32_t, is at address 2.
typedef enum CpuSmallForm {
    CPU_SMALL_COPY_ONE,
    CPU_SMALL_COPY_ALL,
    CPU_SMALL_COPY_FROM,
    CPU_SMALL_COPY_TO,
    CPU_SMALL_KERNEL,
    CPU_SMALL_REDUCE,  // address 2 holds the address of the reduction's own kernel; `immediate` is the elements per row
} CpuSmallForm;

// One call of a kernel; copies and reductions are kernel calls too. The target comes first, then the operands.
typedef struct CpuSmallStep {
    CpuBlockKernel *kernel;
    CpuSmallAddress addresses[CPU_SMALL_ADDRESSES];
    int64_t count, immediate;
    CpuSmallForm form;
    int width;  // bytes per element of the target
} CpuSmallStep;

// One call of the list, bound to addresses.
typedef struct CpuSmallCall {
    CpuBlockKernel *kernel;
    char *addresses[CPU_SMALL_ADDRESSES];
    int64_t count, immediate;
} CpuSmallCall;

// Returns the number of calls.
int64_t cpu_small_loop_length(const CpuSmallLoop *small_loop);
// Returns the calls in execution order; they live as long as the loop.
const CpuSmallStep *cpu_small_loop_steps(const CpuSmallLoop *small_loop);
// Returns the base of addresses in CPU_SMALL_IN_CONSTANTS: constants of the program, tables of copies and addresses of
// reductions. Written only while the loop is planned.
char *cpu_small_loop_constants(const CpuSmallLoop *small_loop);
// Writes the bound calls, for a list that runs several times with the same buffers. Buffers that it does not use may be
// NULL. `scratch` has CPU_SMALL_SCRATCH bytes, aligned to 64, which nothing else uses while the list runs.
void cpu_small_loop_bind(const CpuSmallLoop *small_loop, char *scratch, char *const *buffers, CpuSmallCall *calls);
// Whether that address of that call is in that buffer; *offset is then its byte offset.
bool cpu_small_loop_names(const CpuSmallLoop *small_loop, int64_t step, int address, int buffer, int64_t *offset);
// Returns a kernel that copies `bytes` bytes when it is called with that count; target and source may be the same.
CpuBlockKernel *cpu_small_copy(int64_t bytes);

// Sets the value's kernels to the given entry of the builder's tables.
void cpu_loop_set_kernel(const CpuLoopBuilder *builder, CpuLoopValue *value, CpuBlockKernel *const *kernel);

// Merges operations that one kernel can do, and drops unused values (peephole.c).
void cpu_loop_peephole(CpuLoopBuilder *builder);

#endif
