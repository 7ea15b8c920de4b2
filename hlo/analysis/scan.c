// SPDX-License-Identifier: Apache-2.0
#include "hlo/analysis/scan.h"

#include <assert.h>

HloScanParts hlo_scan_parts(const HloInstruction *scan) {
    assert(hlo_is(scan, HLO_OP_SCAN));
    const HloScanAttributes *attributes = HLO_ATTRIBUTES(scan, Scan);
    const int64_t results = hlo_shape_is_tuple(scan->shape) ? scan->shape->element_count : 1;
    const int64_t dimension = attributes->dimensions.items[0];
    return (HloScanParts){.dimension = dimension,
                          .length = scan->operands[0]->shape->dims[dimension],
                          .inputs = scan->operand_count - attributes->num_carries,
                          .outputs = results - attributes->num_carries,
                          .carries = attributes->num_carries,
                          .is_reverse = attributes->is_reverse};
}
