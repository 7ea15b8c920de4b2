// SPDX-License-Identifier: Apache-2.0
// The reference evaluator: runs any module, computation or instruction on literals, plainly. It is the oracle that
// every fast path is tested against, so correctness comes first and speed second.
//
// Where HLO leaves results open, it computes:
// - Element-wise arithmetic in f16, bf16, f8 and f4 is done in f32 and rounded after each op. f32 transcendentals are
//   done in double and rounded once.
// - Sums and products by a plain add or multiply (reduce, reduce-window, all-reduce, select-and-scatter) run in
//   row-major order of the reduced elements, device after device, in double for every float type of 32 bits or less,
//   and are rounded once. Other reductions call the computation in the same order on rounded values.
// - Dots and convolutions multiply and add in double for floats (so that f32, bf16 and f16 results are rounded once),
//   in wrapping 64-bit integers for integers, in double complex for complex types.
// - Under HLO_NUMERICS_TPU the f32 operands of matrix products are first rounded to bf16 as in a TPU's matrix unit
//   (one pass, three for `high`, six for `highest`); matrix-vector products, in which one side has a single row or
//   column, stay f32. algorithm= attributes that name bf16 or tf32 passes follow the rule of each setting: exact
//   ignores them, as XLA's CPU target does.
// - Integer division by zero gives all ones, remainder by zero the dividend, INT_MIN / -1 wraps; shifts past the width
//   give 0 or the sign; float to integer saturates and NaN gives 0; min, max and clamp propagate NaN; dynamic-slice
//   starts are clamped, gather starts too, scatter windows out of bounds are dropped.
// - Constants whose text was elided ({...}) have no values: they are filled by hlo_eval_fill_elided().
// - `rng` draws from a counter-based generator (philox) whose counter starts from the seed of the options and the
//   number of the replica, and advances with each draw; partitioned programs draw the same numbers (draw.h).
//
// Layouts do not matter except for bitcast, which reinterprets the physical order of both layouts, tiles included.
//
// Modules must be verified (hlo_verify): types and shapes are trusted. Properties that depend on values (sizes,
// indices, the members of a rendezvous) are checked.
//
// Stability: experimental.
//
// Terms:
//   value        an array, tuple or token during a run; references to it are counted.
//   slot         where a value is kept while a computation runs.
//   device       one simulated device: replica and partition.
//   world        all devices of a run.
//   rendezvous   where the devices of a collective's group wait for each other.
//   decomposition   an op computed as a graph of simpler ones (hlo_decompose()).
//   elided constant   one whose text is {...}: its value is made up, the same one each time.
#ifndef MESHLO_HLO_EVAL_EVAL_H_
#define MESHLO_HLO_EVAL_EVAL_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

typedef enum HloNumerics { HLO_NUMERICS_EXACT, HLO_NUMERICS_TPU } HloNumerics;

// The channels on which `infeed` and `outfeed` transfer: each of their arrays separately, in the order of the leaves.
enum { HLO_EVAL_CHANNEL_INFEED = -1, HLO_EVAL_CHANNEL_OUTFEED = -2 };

// The host that a program sends to and receives from (send, recv with is_host_transfer, infeed, outfeed). It is called
// on the thread that runs `device`, for several devices at the same time; an error ends the run.
typedef struct HloEvalHost {
    HloStatus (*send)(void *context, int64_t device, int64_t channel, const HloShape *shape, const void *data);
    HloStatus (*receive)(void *context, int64_t device, int64_t channel, const HloShape *shape, void *data);
    void *context;
} HloEvalHost;

// How to evaluate. Zero-initialised is a good default; NULL means that too.
typedef struct HloEvalOptions {
    HloNumerics numerics;
    int64_t device_count;  // hlo_evaluate: devices that manual (shard_map) regions run on; 0 takes the module's count
    uint64_t seed;         // of rng
    bool trap_nan;         // FAILED_PRECONDITION naming the first instruction that makes a NaN
    int64_t memory_limit;  // bytes that values may take at any time; 0: nine tenths of the machine's memory
    int64_t thread_count;  // devices that run at the same time in a partitioned run; 0: one per processor
    const HloEvalHost *host;  // NULL: transfers with the host are rejected by name
} HloEvalOptions;

// Runs the entry computation on one logical device with whole arrays, the meaning of an unpartitioned program.
// `arguments` are read only and have the parameters' shapes (layouts ignored). On success *result is a heap literal of
// the root's shape, to be freed with hlo_literal_free(). INVALID_ARGUMENT for arguments that do not fit; UNIMPLEMENTED,
// by name, for instructions that cannot be evaluated and for calls that multiply beyond the limit of
// hlo_check_call_copies(); RESOURCE_EXHAUSTED; FAILED_PRECONDITION for a NaN trap or a deadlock. Any thread. Manual
// regions (SPMDFullToShardShape) run on `device_count` devices with real collectives.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_evaluate(const HloModule *module, const HloLiteral *const *arguments,
                                                int64_t count, const HloEvalOptions *options, HloLiteral **result);

// As hlo_evaluate(), for any computation of a module.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_evaluate_computation(const HloComputation *computation,
                                                            const HloLiteral *const *arguments, int64_t count,
                                                            const HloEvalOptions *options, HloLiteral **result);

// Evaluates one instruction on given operand values, as constant folding requires. Computations that it calls are run.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_evaluate_instruction(const HloInstruction *instruction,
                                                            const HloLiteral *const *operands,
                                                            const HloEvalOptions *options, HloLiteral **result);

// Runs a per-device program on `device_count` devices: replica_count replicas of partitions each, device number =
// replica * partitions + partition. arguments[device][parameter]; results[device] is set for every device on success
// and for none on failure. A collective waits for its group; when no device can continue, FAILED_PRECONDITION reports
// which device waits where for which others. Results do not depend on scheduling.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_evaluate_partitioned(const HloModule *module, int64_t device_count,
                                                            const HloLiteral *const *const *arguments, int64_t count,
                                                            const HloEvalOptions *options, HloLiteral **results);

// Checks that an engine may compute `instruction`, given the types that its handlers rely on: the verifier allows mixed
// float types (an f32 result of f64 operands), which only products and conversions define. UNIMPLEMENTED naming it
// otherwise. The module must be verified.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_eval_check_types(const HloInstruction *instruction);

// Writes the values that replace a constant printed as {...}: floats (i * 2654435761 mod 2^32) / 2^32 - 0.5 for element
// i, integers and predicates 0, in row-major order. Writes hlo_shape_bytes(shape) bytes of an array shape.
HLO_EXPORT void hlo_eval_fill_elided(const HloShape *shape, void *data);

HLO_END_C

#endif
