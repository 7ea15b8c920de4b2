// SPDX-License-Identifier: Apache-2.0
// Internal: what a TPU compiler makes of a convolution. It is computed
//
//   by the systolic arrays, with the features in the lanes of a register and the batch in its sublanes, position by
//   position of the window;
//   by the systolic arrays, with the batch in the lanes, if the few features of an image or of a group would leave more
//   of the lanes empty; the window's positions are then gathered in the sublanes;
//   by the systolic arrays, with the batch in the lanes of an image that is made, through which the few filters pass;
//   by the vector unit, if each feature has a filter of its own (depthwise).
//
// Groups are computed one after another, as positions of a window over the groups. Kernel gradients have the batch
// where others have the features, and a window that is as large as the image; they gather positions too. Source:
// programs compiled by libtpu 0.0.42 (docs/machine-model.md).
#ifndef MESHLO_EMULATOR_LAYOUT_CONVOLUTION_H_
#define MESHLO_EMULATOR_LAYOUT_CONVOLUTION_H_

#include <stdbool.h>
#include <stdint.h>

#include "hlo/ir/attributes.h"
#include "hlo/ir/instruction.h"

// Features of images: fewer than the sublanes.
#define EMU_IMAGE_FEATURES 4
// The least batch that fills the sublanes of a register; smaller ones leave them to the last dimension of the window.
#define EMU_LEAST_BATCH 8

// The sizes of a convolution that decide how it is computed.
typedef struct EmuConvolution {
    const HloConvolutionLabels *labels;
    int64_t groups;           // of features, or of the batch in a kernel gradient; at least 1
    int64_t batch;            // of the result
    int64_t inputs, outputs;  // features of a group
    int64_t window, places;   // positions of the window, and of the result
    bool is_depthwise;        // computed by the vector unit
    bool is_gradient;         // of a kernel: the window is larger than the result
    bool has_batch_in_lanes;  // of what it reads
    bool makes_batch_in_lanes;
    bool makes_image;  // its few features: it reads features in the lanes and makes the batch there
} EmuConvolution;

// The sizes of a convolution instruction.
EmuConvolution emu_convolution_of(const HloInstruction *instruction);
// Whether fewer lanes stay empty with `batch` elements in the lanes of registers than with `features`.
bool emu_batch_fills_lanes(int64_t batch, int64_t features);

#endif
