// SPDX-License-Identifier: Apache-2.0
// Locates the sizes in a buffer of bounded dynamic size (bounded.h).
#include "targets/cpu/graph/bounded.h"

#include <assert.h>

// Returns the offset of the sizes, rounded up so that they are aligned for any element width.
static int64_t sizes_offset(const HloShape *shape) {
    return (hlo_shape_bytes(shape) + (int64_t)sizeof(int32_t) - 1) / (int64_t)sizeof(int32_t) *
           (int64_t)sizeof(int32_t);
}

int64_t cpu_buffer_bytes(const HloShape *shape) {
    if (!hlo_shape_is_array(shape) || !hlo_shape_is_dynamic(shape)) return hlo_shape_bytes(shape);
    return sizes_offset(shape) + shape->rank * (int64_t)sizeof(int32_t);
}

int32_t *cpu_buffer_sizes(const HloShape *shape, void *buffer) {
    assert(hlo_shape_is_dynamic(shape));
    return (int32_t *)(void *)((char *)buffer + sizes_offset(shape));
}
