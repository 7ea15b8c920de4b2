// SPDX-License-Identifier: Apache-2.0
// The storage of arrays in a TPU's memory: the layout that the compiler would choose, and their sizes in tiles.
//
// Stability: experimental.
#ifndef MESHLO_EMULATOR_LAYOUT_LAYOUT_H_
#define MESHLO_EMULATOR_LAYOUT_LAYOUT_H_

#include "emulator/chip.h"
#include "hlo/ir/shape.h"

HLO_BEGIN_C

// The layout of an array that the TPU compiler chooses by default: the two most minor dimensions are those that pad
// least (row-major when equal), tiled by 8 rows of 128 lanes, fewer rows where the array has fewer, with the packing
// tiles of narrow types. Allocated in `arena`.
HLO_EXPORT const HloLayout *emu_default_layout(HloArena *arena, const EmuChip *chip, const HloShape *shape);

// The layout of an array whose dimension order is given, the most minor one first (each of them once): the same order,
// with the tiles that emu_default_layout() would give it. Allocated in `arena`.
HLO_EXPORT const HloLayout *emu_layout_in_order(HloArena *arena, const EmuChip *chip, const HloShape *shape,
                                                HloInts minor_to_major);

// Whether the layout of a shape names an order of its own, other than row-major, which is what programs say that leave
// it open.
HLO_EXPORT bool emu_names_order(const HloShape *shape);

// The bytes that a buffer takes in HBM: with the tiles of its layout, or with those that emu_default_layout() chooses
// if it has none (emu_layout_in_order(), if its order is not row-major); element_size_in_bits of the layout applies.
// Tuples are the sum of their leaves; tokens take nothing; an array counts as 1 PiB at most. `chip` NULL (host
// processors): dense.
HLO_EXPORT int64_t emu_padded_bytes(const EmuChip *chip, const HloShape *shape);

// The padded bytes of an array in HBM: 0 for arrays whose layout puts them into VMEM or the host's memory.
HLO_EXPORT int64_t emu_hbm_bytes(const EmuChip *chip, const HloShape *shape);

// The bytes of the tables of addresses, 4 bytes for each element, that represent a tuple and the tuples in it in HBM,
// each rounded up to the chip's granule. 0 for arrays, empty tuples, and without a chip. Results of the entry that are
// tuples have such tables; tuples inside of a program have none.
HLO_EXPORT int64_t emu_tuple_table_bytes(const EmuChip *chip, const HloShape *shape);

// The bytes of one dense array in any memory, without tiles.
HLO_EXPORT int64_t emu_unpadded_bytes(const HloShape *shape);

// Whether the layout puts an array into VMEM, or into the common memory of a v4 (3), so that using it costs no HBM
// traffic.
static inline bool emu_in_vmem(const HloShape *shape) {
    const int64_t space = hlo_shape_memory_space(shape);
    return space == 1 || space == 3;
}

HLO_END_C

#endif
