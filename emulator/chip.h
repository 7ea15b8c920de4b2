// SPDX-License-Identifier: Apache-2.0
// What a TPU chip is: one EmuChip a generation, filled from emulator/chips.def, where every number has its source.
//
// Stability: experimental.
#ifndef MESHLO_EMULATOR_CHIP_H_
#define MESHLO_EMULATOR_CHIP_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hlo/base/macros.h"

HLO_BEGIN_C

// Which axes of a slice have links from their last chip back to the first.
typedef enum EmuWrapRule {
    EMU_WRAP_NEVER,      // no axis
    EMU_WRAP_FULL_POD,   // all axes, when the slice is the whole pod
    EMU_WRAP_FULL_AXIS,  // each axis that is as long as the pod's
    EMU_WRAP_CUBES,      // all axes, when every one is a multiple of 4
} EmuWrapRule;

// A chip generation. Field names give the meaning and unit of integers and reals; chips.def gives the sources.
typedef struct EmuChip {
    const char *name;         // "v5e"
    const char *device_kind;  // what jax.Device.device_kind says: "TPU v5 lite"
    // Identity and shape.
    int64_t generation;
    int64_t cores_per_chip;
    int64_t devices_per_chip;  // JAX devices; a megacore chip is one device of two cores
    int64_t torus_axes;
    int64_t pod_x, pod_y, pod_z;     // chips along each axis of the largest slice
    int64_t host_x, host_y, host_z;  // chips of one host along each axis
    int64_t wrap_rule;               // an EmuWrapRule
    // Compute.
    double clock_hz;
    int64_t mxu_dimension;  // rows and columns of the systolic array: matrix dimensions are padded to it
    double bf16_flops_per_chip;
    double int8_flops_per_chip;
    double fp8_flops_per_chip;
    int64_t vector_alus;          // vector instructions a core can start in one cycle
    double transcendental_scale;  // of the cost of exponentials, logarithms and roots in op_class.def
    // Cycles of a core for each register of 1024 results of a product that it makes narrower than the arrays add them
    // up: where they stay on the chip, and where they leave for HBM.
    double narrow_cycles, narrow_store_cycles;
    // Bytes that a core moves between HBM and the chip in a cycle: for a product, beside results that are narrower, and
    // what a kernel without a product reads of the scores of attention. 0: as fast as HBM.
    double product_bytes_per_cycle, score_bytes_per_cycle;
    // The same of batches of matrices narrower than f32 that the vector unit multiplies by vectors.
    double vector_product_bytes_per_cycle;
    // Cycles of a core in which the vector unit puts what a position of a window reads, a register of eight features
    // with the batch in the lanes, where the systolic array finds it.
    double gather_cycles;
    // Cycles of a copy into another layout, for each register of 1024 elements. Where the same dimension stays in the
    // lanes: of the larger of its two arrays, as padded. Where another one comes there: of the smaller and of the
    // larger array, and more of the larger if both are in HBM.
    double copy_same_cycles, copy_least_cycles, copy_most_cycles, copy_turn_cycles;
    int64_t copy_offload_bytes;  // of the smaller array in HBM, from which on a SparseCore makes the copy; 0: none does
    // Memory.
    int64_t hbm_bytes_per_device;
    int64_t hbm_reserved_bytes_per_device;
    double hbm_bytes_per_second_per_chip;
    int64_t vmem_bytes_per_core;
    int64_t vmem_scoped_bytes_per_core;     // of it, what the kernel that runs has for its blocks
    int64_t cmem_bytes_per_chip;            // of a memory beside VMEM that both cores share; most chips have none
    int64_t tuple_table_granule_bytes;      // sizes of the tables of tuples are multiples of it (layout.h)
    double host_bytes_per_second_per_chip;  // to and from the host's memory (PCIe), each direction
    // Network; one direction each.
    double link_bytes_per_second;
    double package_bytes_per_second;  // between the two devices of one chip
    int64_t hop_picoseconds;
    double dcn_bytes_per_second_per_host;  // of hosts with the chips above; larger ones have as much for each chip
    int64_t dcn_picoseconds;
    // Constants fitted to measurements.
    double mxu_efficiency;            // share of the peak that one large product reaches
    double mxu_sustained_efficiency;  // the same in programs whose products take long (program.h)
    double hbm_efficiency;
    double link_efficiency;
    double dcn_efficiency;
    int64_t launch_picoseconds;           // once per step
    int64_t op_picoseconds;               // once per kernel
    int64_t collective_picoseconds;       // once per collective
    int64_t collective_step_picoseconds;  // once per step of a ring
    int64_t ramp_bytes;                   // of a product, that move before or after it; 0: an eighth of the scoped VMEM
    double batch_ramp;                    // the least share of memory's or matrix time that a batch of products exposes
    int64_t overlaps_collectives;         // 0: a collective occupies the core
} EmuChip;

// The generations of chips.def, in its order.
typedef enum EmuGeneration {
#define EMU_CHIP_BEGIN(id, name, device_kind) EMU_GENERATION_##id,
#include "emulator/chips.def"
    EMU_GENERATION_COUNT
} EmuGeneration;

// The chip of a generation. Static storage; any thread.
HLO_EXPORT const EmuChip *emu_chip(EmuGeneration generation);
// The chip whose device_kind is `kind` ("TPU v4"), or NULL. Static storage; any thread.
HLO_EXPORT const EmuChip *emu_chip_by_kind(const char *kind);

// The bytes of HBM that one device has for programs, which is what the real compiler prints as capacity: all of it less
// what the chip's own software keeps.
static inline int64_t emu_chip_capacity(const EmuChip *chip) {
    return chip->hbm_bytes_per_device - chip->hbm_reserved_bytes_per_device;
}

// The bytes of VMEM that one device has for arrays between kernels, or of the common memory that v4 has for them. Other
// devices of two cores have none: each core makes a part of the result, which the other one reads through HBM [RT:
// programs compiled for v4 and v5p].
static inline int64_t emu_chip_vmem(const EmuChip *chip) {
    const bool has_common = chip->cmem_bytes_per_chip > 0;
    const int64_t all = has_common ? chip->cmem_bytes_per_chip / chip->devices_per_chip : chip->vmem_bytes_per_core;
    const int64_t bytes = all - chip->vmem_scoped_bytes_per_core;
    return bytes > 0 && (has_common || chip->cores_per_chip == chip->devices_per_chip) ? bytes : 0;
}

// One number of a chip with its source, for tables in reports and docs.
typedef struct EmuChipFact {
    const char *chip;    // name of the chip on the first row of each, which has no field; else NULL
    const char *field;   // field of EmuChip, NULL on the first row of a chip
    const char *source;  // where the number comes from (device_kind on the first row)
    double value;
} EmuChipFact;
// All facts of all chips in chips.def order; `*count` of them. Static storage; any thread.
HLO_EXPORT const EmuChipFact *emu_chip_facts(size_t *count);

HLO_END_C

#endif
