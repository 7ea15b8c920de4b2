// SPDX-License-Identifier: Apache-2.0
// Counting the contents of a device's HBM. The numbers may be read at slightly different times: each is correct by
// itself. Two threads must not both find room for the last bytes, so `in_use` is raised first and checked after, and
// lowered again if it was too much; a third thread may then be refused bytes that are free a moment later, as it might
// on a chip.
#include "targets/meter.h"

#include <assert.h>
#include <stdio.h>

static void raise_to(_Atomic int64_t *maximum, int64_t value) {
    int64_t known = atomic_load(maximum);
    while (value > known && !atomic_compare_exchange_weak(maximum, &known, value)) {
    }
}

bool target_meter_add(TargetMeter *meter, int64_t bytes) {
    assert(meter && bytes >= 0);
    const int64_t now = atomic_fetch_add(&meter->in_use, bytes) + bytes;
    if (meter->limit && now > meter->limit) {
        atomic_fetch_sub(&meter->in_use, bytes);
        return false;
    }
    raise_to(&meter->peak, now);
    raise_to(&meter->largest, bytes);
    atomic_fetch_add(&meter->count, 1);
    return true;
}

void target_meter_remove(TargetMeter *meter, int64_t bytes) {
    assert(meter && bytes >= 0 && atomic_load(&meter->count) > 0);
    atomic_fetch_sub(&meter->in_use, bytes);
    atomic_fetch_sub(&meter->count, 1);
}

int64_t target_meter_free(TargetMeter *meter) {
    assert(meter);
    const int64_t free = meter->limit - atomic_load(&meter->in_use);
    return free > 0 ? free : 0;
}

TargetAmount target_amount(int64_t bytes) {
    assert(bytes >= 0);
    static const char *const units[] = {"B", "K", "M", "G", "T", "P"};
    double amount = (double)bytes;
    size_t unit = 0;
    for (; amount >= 1024 && unit + 1 < HLO_COUNT_OF(units); unit++) amount /= 1024;
    TargetAmount spelled;
    snprintf(spelled.text, sizeof spelled.text, unit ? "%.2f%s" : "%.0f%s", amount, units[unit]);
    return spelled;
}
