// SPDX-License-Identifier: Apache-2.0
// CompileOptionsProto: the part of it that decides anything here. Private to pjrt/.
#ifndef MESHLO_PJRT_OPTIONS_H_
#define MESHLO_PJRT_OPTIONS_H_

#include "hlo/ir/module.h"

typedef struct PjrtCompileOptions {
    int64_t num_replicas, num_partitions;  // at least 1
    HloInts assignment;                    // device ids, replica-major; empty if not given
    HloBools propagate_to_parameters, propagate_to_output;
    // Requested arguments and result: shapes of the whole program, with layouts where the caller requests one; NULL for
    // none. The result of a program with several is a tuple.
    const HloShape *const *argument_shapes;
    int64_t argument_shape_count;
    const HloShape *result_shape;
    bool portable;  // compiled for any one device
} PjrtCompileOptions;

// Reads serialised options; lists live in `arena`. INVALID_ARGUMENT for malformed bytes, counts that make no sense and
// unknown options of the caller.
HLO_NODISCARD HloStatus pjrt_options_parse(HloArena *arena, const void *bytes, size_t length,
                                           PjrtCompileOptions *options);
// Appends a DeviceAssignmentProto of `replicas` x `partitions` device ids (replica-major).
void pjrt_assignment_print(HloText *bytes, const int64_t *ids, int64_t replicas, int64_t partitions);

#endif
