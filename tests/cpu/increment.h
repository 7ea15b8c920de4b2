// SPDX-License-Identifier: Apache-2.0
// The smallest program with a buffer in and a buffer out, and the same that takes its argument over.
#ifndef MESHLO_TESTS_CPU_INCREMENT_H_
#define MESHLO_TESTS_CPU_INCREMENT_H_

static const char kIncrement[] =
    "HloModule increment\n"
    "ENTRY main {\n  p = f32[4] parameter(0)\n  c = f32[] constant(1)\n  b = f32[4] broadcast(c), dimensions={}\n"
    "  ROOT r = f32[4] add(p, b)\n}\n";
static const char kDonated[] =
    "HloModule donated, input_output_alias={ {}: (0, {}, may-alias) }\n"
    "ENTRY main {\n  p = f32[4] parameter(0)\n  c = f32[] constant(1)\n  b = f32[4] broadcast(c), dimensions={}\n"
    "  ROOT r = f32[4] add(p, b)\n}\n";

#endif
