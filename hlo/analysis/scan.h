// SPDX-License-Identifier: Apache-2.0
// The parts of a scan: (outputs.., carries..) = scan(inputs.., initial carries..).
//
// Stability: experimental.
#ifndef MESHLO_HLO_ANALYSIS_SCAN_H_
#define MESHLO_HLO_ANALYSIS_SCAN_H_

#include "hlo/ir/module.h"

HLO_BEGIN_C

typedef struct HloScanParts {
    int64_t dimension, length;         // the scanned dimension of inputs and outputs, and its size
    int64_t inputs, outputs, carries;  // the operands are inputs and carries, the results outputs and carries
    bool is_reverse;                   // from the last position to the first
} HloScanParts;

// The parts of a scan that the verifier accepts. Any thread.
HLO_EXPORT HloScanParts hlo_scan_parts(const HloInstruction *scan);

HLO_END_C

#endif
