// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/lower/ragged.h"

#include "targets/cpu/element/integer.h"

// Operands are input, output, input offsets, send sizes, output offsets (at the receiver), receive sizes. Entry e of
// the lists belongs to member e / (entries / members). Sizes and offsets are values of the program: each is checked
// before any data moves, and values that do not fit are a run-time error. Sums are written so that they cannot
// overflow.
HloStatus cpu_ragged_rows(const CpuCollective *collective, const CpuCollectiveGroup *group,
                          void *const *const *addresses, int64_t from, int64_t entry, CpuRaggedRows *rows) {
    const CpuCollectiveArray *arrays = collective->arrays;
    const int64_t each = hlo_shape_elements(arrays[2].operand) / group->count;
    const int64_t start = cpu_read_integer(addresses[2][from], arrays[2].operand->type, entry);
    const int64_t count = cpu_read_integer(addresses[3][from], arrays[3].operand->type, entry);
    const int64_t target = cpu_read_integer(addresses[4][from], arrays[4].operand->type, entry);
    const int64_t sent = arrays[0].operand->dims[0], room = arrays[0].result->dims[0];
    HLO_FAIL_IF(count < 0 || start < 0 || target < 0 || count > sent || start > sent - count || count > room ||
                    target > room - count,
                HLO_INVALID_ARGUMENT, "rows from %lld on, %lld of them, do not fit", (long long)start,
                (long long)count);
    const int64_t width = arrays[0].chunk_bytes;
    *rows = (CpuRaggedRows){entry / each, start * width, target * width, count * width};
    return HLO_SUCCESS;
}
