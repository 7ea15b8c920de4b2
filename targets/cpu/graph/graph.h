// SPDX-License-Identifier: Apache-2.0
// The program graph between HLO and thunks: arrays and nodes, in which tuples, calls, fusions, copies, async pairs and
// other ops that compute nothing have been resolved. A tuple is its leaves, a call is its callee's nodes.
#ifndef MESHLO_TARGETS_CPU_GRAPH_GRAPH_H_
#define MESHLO_TARGETS_CPU_GRAPH_GRAPH_H_

#include "hlo/base/map.h"
#include "hlo/ir/module.h"

HLO_BEGIN_C

typedef struct CpuNode CpuNode;
typedef struct CpuRegion CpuRegion;
typedef struct CpuArray CpuArray;

// One array (or token) value.
struct CpuArray {
    int32_t id;             // its index in CpuProgram.arrays
    const HloShape *shape;  // an array or token shape; layouts are ignored
    int64_t elements;
    int64_t bytes;
    CpuNode *producer;           // NULL for parameters of the program
    CpuArray *view;              // holds the same bytes in the same order (reshape, parameter of a region), or NULL
    const HloLiteral *literal;   // of a constant
    bool splat;                  // all elements of the literal are equal: loops use it as an immediate
    int32_t parameter;           // number of the program's argument, or -1
    bool materialized;           // has a buffer; otherwise it is computed inside loops (decided by lower/fuse.c)
    bool rematerialisable;       // rematerialisable: recomputing it in several loops costs next to nothing
    int32_t use_count;           // uses by live nodes and region results
    struct CpuStorage *storage;  // where a materialised array is stored (thunk/buffers.c)
};

// An operand or the result of a dot into which transposes have been folded.
typedef struct CpuView {
    int64_t rank;
    const int64_t *dims;     // as the dot sees them
    const int64_t *strides;  // in elements of the array's own memory
} CpuView;

// A copy of a side of a product pays from this many multiplications on, and from this many per element that it moves.
enum { CPU_COPY_MULTIPLICATIONS = 4096, CPU_COPY_REUSE = 4 };

// The rows of one side of a product that are not zeros, one range of them for each group.
typedef struct CpuRowRanges {
    int64_t group, row;  // dimensions of the view of that side
} CpuRowRanges;

typedef enum CpuNodeState {
    CPU_NODE_NORMAL,
    CPU_NODE_UNFUSABLE,  // must not be fused with anything
    CPU_NODE_FALLBACK,   // has no compiled form: the evaluator runs it
} CpuNodeState;

// One operation.
struct CpuNode {
    HloOpcode opcode;
    const HloInstruction *instruction;  // source of attributes, names and metadata
    CpuArray **operands;
    int32_t operand_count;
    int32_t result_count;
    CpuArray **results;
    CpuRegion **regions;  // while: condition, body; conditional: branches
    int32_t region_count;
    CpuRegion *parent;
    CpuNodeState state;
    bool live;
    bool elementwise_map;  // comes from the inlined computation of a map: the instruction's own shape is a scalar's
    int32_t order;         // position among all nodes
    const CpuView *views;  // of a dot: left side, right side, result; else NULL
    // Of a dot whose left side has zeros outside of ranges of rows, or NULL. The view then repeats the rows for each
    // group (stride 0); the ranges' first rows and their ends are two more operands.
    const CpuRowRanges *ranges;
    // Of a gather: the constant that is written in place of the slices whose mask is false, or NULL. The mask, one
    // predicate for each index vector, is then the last operand.
    const CpuArray *fill;
    // Of a gather or scatter: what is added to indices below 0, by component, or NULL.
    const int64_t *wraps;
    // Decided by lower/fuse.c for the root of a loop over rows: what its reductions reduce, and how many leading
    // dimensions they keep; else NULL.
    const HloShape *row_shape;
    int32_t row_kept;
    bool row_unfusable;  // a reduction that could not be fused with the loop of its users
    bool ungrouped;      // has a loop of its own (lower/group.c)
};

typedef HLO_VECTOR(CpuNode *) CpuNodeVector;
typedef HLO_VECTOR(CpuArray *) CpuArrayVector;

// A list of nodes with parameters and results: the entry, a loop's condition and body, a branch.
struct CpuRegion {
    CpuNodeVector nodes;  // operands before users
    HloIntMap scalars;    // during building: from the hash of an operation on scalars to its index in `nodes`
    CpuArrayVector parameters;
    CpuArrayVector results;
};

typedef struct CpuProgram {
    HloArena *arena;
    const HloModule *module;
    CpuRegion *entry;
    CpuArrayVector arrays;
    int32_t node_count;
    int64_t replica_count, partition_count;
} CpuProgram;

// Builds the graph of a module's entry computation in `arena`, without dead nodes. UNIMPLEMENTED for ops that have no
// meaning on this target (host transfers, dynamic sizes). Constants whose values were elided ({...}) get the
// evaluator's values. Jumps to hlo_protect() when memory is short.
HLO_NODISCARD HloStatus cpu_program_build(HloArena *arena, const HloModule *module, CpuProgram **program);

// Rewrites the graph before fusion. Transposes before and after dots become strides of the dot, and widenings of narrow
// floats before them disappear, as products of any float types are summed in f32. (`tpu_numerics`: only where both
// sides are widened, because f32 operands are rounded there.) A left side that is a selection of rows, one range for
// each group, and of zeros elsewhere is read without the selection (CpuNode.ranges). A gather by index vectors that are
// concatenated for it reads the parts of the concatenation: its operands are then the array and one array of indices
// per component. Gathers and scatters count negative indices from the end themselves (CpuNode.wraps), and the indices
// are read in any shape; a gather writes a constant in place of slices that are masked (CpuNode.fill).
void cpu_program_simplify(CpuProgram *program, bool tpu_numerics);

// Returns the view of a whole array of these dims in row-major order, whose strides live in the arena.
CpuView cpu_view_row_major(HloArena *arena, int64_t rank, const int64_t *dims);

// Adds a new array of this shape.
CpuArray *cpu_program_new_array(CpuProgram *program, const HloShape *shape);

// Returns the array that `array` is a view of, at the end of the chain.
static inline CpuArray *cpu_array_root(CpuArray *array) {
    while (array->view) array = array->view;
    return array;
}

HLO_END_C

#endif
