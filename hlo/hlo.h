// SPDX-License-Identifier: Apache-2.0
// All of hlo/ for a C program that embeds it: modules (hlo/ir/module.h), the builder (hlo/ir/builder.h), random numbers
// (hlo/random/random.h), derivatives (hlo/transform/transform.h), the verifier (hlo/verify/verify.h), text
// (hlo/text/text.h) and passes (hlo/pass/pass.h). Each header is the manual of its part.
//
// Stability: stable.
//
// Terms:
//   module         a program: computations, one of which is the entry. It owns the memory of all that is in it.
//   computation    a function: parameters, instructions, and a root whose value is the result.
//   instruction    one op with operands, a result shape and attributes.
//   shape          an element type with dimensions and a layout; or a tuple of shapes, or a token.
//   leaf           an array of a tuple, depth first. An array has one leaf: itself.
//   literal        the value of an array or tuple, in memory.
//   called computation   what a loop, reduction, call or fusion runs.
//   replica, partition   one of several copies of the program; one of the devices that share the work of a copy.
//   replica groups       which devices take part in a collective together.
//   bound          the largest size of a dynamic dimension.
#ifndef MESHLO_HLO_HLO_H_
#define MESHLO_HLO_HLO_H_

#include "hlo/base/memory.h"
#include "hlo/base/status.h"
#include "hlo/base/text.h"
#include "hlo/base/version.h"
#include "hlo/ir/attributes.h"
#include "hlo/ir/builder.h"
#include "hlo/ir/computation.h"
#include "hlo/ir/infer.h"
#include "hlo/ir/instruction.h"
#include "hlo/ir/literal.h"
#include "hlo/ir/literal_values.h"
#include "hlo/ir/module.h"
#include "hlo/ir/opcode.h"
#include "hlo/ir/replica_groups.h"
#include "hlo/ir/shape.h"
#include "hlo/ir/sharding.h"
#include "hlo/ir/types.h"
#include "hlo/nn/nn.h"
#include "hlo/nn/optimizer.h"
#include "hlo/pass/pass.h"
#include "hlo/random/random.h"
#include "hlo/text/text.h"
#include "hlo/transform/transform.h"
#include "hlo/verify/verify.h"

#endif
