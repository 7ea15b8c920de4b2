// SPDX-License-Identifier: Apache-2.0
// Derivatives of programs, and programs mapped over an axis. Each function here takes a computation and adds another
// one to its module, built from the same ops, so transforms nest in any order: a gradient can be differentiated,
// called, made the entry, or sharded.
//
//     HloComputation *loss = ...;         // f32[] loss(parameters, batch), built with hlo/ir/builder.h or parsed
//     HloComputation *gradient;
//     status = hlo_value_and_gradient(loss, &(HloGradientOptions){.wrt = HLO_DIMS(0)}, &gradient);
//     ...
//     HloInstruction *both = hlo_build_call(b, (HloInstruction *[]){w, x}, 2, gradient);   // (loss, d loss / d w)
//
// Results are those of JAX's functions of the same names, by JAX's conventions: at a tie max and min give each side
// half of the derivative and a reduction shares it among the greatest elements; abs has derivative 1 at 0; comparisons,
// rounding, integers and random bits have none. For complex numbers the gradient of a real function is the conjugate of
// the direction of steepest ascent, as in JAX.
//
// Results are tuples without nesting: the leaves of the original result, then derivatives, leaf by leaf. An input of an
// integer type has no gradient: where one is asked for, it is an error. An input that the result does not depend on has
// the gradient zero.
//
// The reverse derivative of a ragged-all-to-all assumes that no device sends a row to two others, as JAX's does.
//
// What has no derivative: infeed and other transfers, fusions and scheduled ops of compiled programs, dynamic sizes,
// calls to unknown targets. UNIMPLEMENTED names the op and its place, but only if a derivative is to flow through it. A
// while is differentiated in reverse if its trip count is known, or a limit to it (hlo_trip_bound()); the values that
// its iterations need are stacked, in room for as many iterations as there may be. Without a limit it has a reverse
// derivative if its arrays are computed element by element, and each element keeps its value from an iteration of its
// own on (igamma and exp1 of JAX, and vmap of a while of numbers). hlo_jvp() differentiates any loop.
//
// Programs of JAX have lost the rules that JAX has for functions. Those of the table in jvp_named.c are known by the
// name of the computation that is called, its parameters and results, and what the formula contains: relu, relu6, frexp
// (and so ldexp), i0, sici, and samples of gamma distributions, whose derivative is that at a fixed probability. xlogy
// and xlog1py, logaddexp and the logistic function are known by their form. Of all others the formula is
// differentiated; docs/cli.md says where the result is another than JAX's.
//
// Instructions keep their metadata, and derivatives have that of the instruction they belong to. The tangent and the
// cotangent of an instruction with a sharding have the same sharding.
//
// Reverse mode in manual regions (jax.shard_map): an array that enters a region in copies gets the sum of the copies'
// cotangents, one that leaves it in copies shares its cotangent among them, and a sum over devices is its own
// transpose, without communication where the cotangent is known to be the same on all of them. HLO that Shardy has
// written (xla.sdy.GlobalToLocalShape) needs hlo_module_tile_shardy() first.
//
// Errors: INVALID_ARGUMENT for parameters, results and rules that do not fit; UNIMPLEMENTED as above;
// RESOURCE_EXHAUSTED. After an error the module may contain unfinished computations, which nothing calls. One thread at
// a time may work on a module. Time and memory are linear in the size of the program with its calls inlined.
//
// Stability: experimental.
#ifndef MESHLO_HLO_TRANSFORM_TRANSFORM_H_
#define MESHLO_HLO_TRANSFORM_TRANSFORM_H_

#include "hlo/ir/builder.h"

HLO_BEGIN_C

// A derivative given by the user for calls of one computation: jax.custom_jvp or jax.custom_vjp.
typedef struct HloDerivativeRule {
    const HloComputation *computation;
    // Parameters: those of `computation`, then the tangents of its continuous ones, in order. Result: a tuple of the
    // leaves of the original result, then of the tangents of its continuous leaves. NULL if the other two are given.
    HloComputation *jvp;
    // Parameters: those of `computation`. Result: a tuple of the leaves of the original result, then residuals.
    HloComputation *forward;
    // Parameters: the residuals, then the cotangents of the continuous leaves of the result. Result: a tuple of the
    // cotangents of the continuous parameters.
    HloComputation *backward;
} HloDerivativeRule;

// Which values of the original computation the backward part may use as they are. It computes the others again. In a
// loop or a branch the policy chooses among the values of each iteration, as jax.checkpoint of the body of a scan does:
// a loop stacks what the policy saves and the part of its state that the rest is computed from. Slices of arrays that a
// loop does not change are never stacked.
typedef enum HloRemat {
    HLO_REMAT_SAVE_EVERYTHING,  // nothing is computed twice
    HLO_REMAT_SAVE_NOTHING,     // only parameters
    HLO_REMAT_SAVE_DOTS,        // parameters, dots and convolutions
    HLO_REMAT_SAVE_NAMED,       // parameters, and values that have a name: hlo_build_checkpoint_name()
    // As JAX's policies of these names, from the device to pinned_host: the values wait in host memory, S(5).
    HLO_REMAT_OFFLOAD_DOTS,   // parameters, and dots without batch dimensions: offload_dot_with_no_batch_dims
    HLO_REMAT_OFFLOAD_NAMED,  // parameters, and values that have a name: save_and_offload_only_these_names
} HloRemat;

// Zero-initialised, this is the derivative with respect to parameter 0.
typedef struct HloGradientOptions {
    HloInts wrt;   // parameter numbers, without duplicates; empty: parameter 0
    bool has_aux;  // only the first leaf of the result is differentiated, the others are passed through
    HloRemat remat;
    const HloDerivativeRule *rules;
    int64_t rule_count;
} HloGradientOptions;

// Adds a computation with the parameters of `computation` that returns (leaves of the result..., gradients...), and
// sets *result to it. The first leaf of the result must be a floating-point scalar; without has_aux it must be the only
// one. There is a gradient for each leaf of each parameter in `wrt`, with its shape.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_value_and_gradient(HloComputation *computation,
                                                          const HloGradientOptions *options, HloComputation **result);
// As hlo_value_and_gradient(), without the result's first leaf: (auxiliary leaves..., gradients...).
HLO_EXPORT HLO_NODISCARD HloStatus hlo_gradient(HloComputation *computation, const HloGradientOptions *options,
                                                HloComputation **result);
// Adds a computation with more parameters: for each continuous leaf of the result a cotangent of its shape. It returns
// (leaves of the result..., cotangents of the leaves of the parameters in `wrt`...): the reverse derivative. has_aux is
// as above: one cotangent.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_vjp(HloComputation *computation, const HloGradientOptions *options,
                                           HloComputation **result);
// Adds a computation with more parameters: for each leaf of the parameters in `wrt` a tangent of its shape. It returns
// (leaves of the result..., tangents of its continuous leaves...): the forward derivative. `remat` is ignored.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_jvp(HloComputation *computation, const HloGradientOptions *options,
                                           HloComputation **result);

// What the backward part of a training step computes again, to hold fewer activations.
typedef enum HloRecompute {
    HLO_RECOMPUTE_ELEMENTWISE,       // what is cheap: all but products, convolutions, gathers, loops, calls
    HLO_RECOMPUTE_SCOPES,            // all but what is passed from one part of the program to the next
    HLO_RECOMPUTE_SCOPES_OFFLOADED,  // the same, and what is passed waits in host memory
} HloRecompute;

// Makes a computation that has its backward part already, which uses values of the forward part, compute them again.
// The results have the same bits. The forward part ends where the most bytes are held that have been used before;
// scopes are cut where the least is passed on. Returns whether anything changed: false for programs without a backward
// part. Calls are not looked into, and loops keep what they stack, unlike in the passes of these names. Memory errors
// jump to hlo_protect().
HLO_EXPORT bool hlo_recompute(HloComputation *computation, HloRecompute how);
// True for work that costs much more than to read its operands and write its result: what HLO_RECOMPUTE_ELEMENTWISE
// keeps.
HLO_EXPORT bool hlo_recompute_is_expensive(const HloInstruction *instruction);

// How hlo_vmap() maps.
typedef struct HloVmapOptions {
    HloInts axes;  // per parameter: the axis to map over, of each of its leaves; -1: the same for all; empty: all 0
    int64_t size;  // of that axis
    // A collective with this name (hlo_build_with_axis_name()) exchanges among the items along the axis instead of
    // among devices: all-reduce, all-gather, reduce-scatter, all-to-all, collective-permute, collective-broadcast.
    // NULL: the axis has no name.
    const char *axis_name;
} HloVmapOptions;

// Adds a computation that applies `computation` to each item along an axis of its parameters: jax.vmap. Mapped
// parameters have that axis of `size` inserted into each leaf; leaves of the result have it in front. The ops work on
// whole batches: a product of a batch and a matrix is one product. A loop or branch that goes different ways for
// different items computes both and selects, which effects forbid. Shardings of mapped arrays are dropped.
// UNIMPLEMENTED names ops that cannot be mapped.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_vmap(HloComputation *computation, const HloVmapOptions *options,
                                            HloComputation **result);

// The collective `x` over an axis with this name, which hlo_vmap() knows; without it, x is what it was.
HLO_EXPORT HloInstruction *hlo_build_with_axis_name(HloBuilder *builder, HloInstruction *x, const char *name);

// Makes `computation` the entry of its module, and drops from the module's header what concerns the parameters and the
// results of the old one: layouts, aliases, donors, which shardings may be propagated to them.
HLO_EXPORT void hlo_make_entry(HloModule *module, HloComputation *computation);

// x, through which no derivative flows.
HLO_EXPORT HloInstruction *hlo_build_stop_gradient(HloBuilder *builder, HloInstruction *x);
// x, which HLO_REMAT_SAVE_NAMED saves.
HLO_EXPORT HloInstruction *hlo_build_checkpoint_name(HloBuilder *builder, HloInstruction *x, const char *name);

HLO_END_C

#endif
