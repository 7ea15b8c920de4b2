// SPDX-License-Identifier: Apache-2.0
// All of hlo/ for a C program that embeds it: modules (hlo/ir/module.h), the builder (hlo/ir/builder.h), random numbers
// (hlo/random/random.h), the verifier (hlo/verify/verify.h), text (hlo/text/text.h) and passes (hlo/pass/pass.h). Each
// header is the manual of its part.
//
// Stability: stable.
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
#include "hlo/ir/module.h"
#include "hlo/ir/opcode.h"
#include "hlo/ir/replica_groups.h"
#include "hlo/ir/shape.h"
#include "hlo/ir/sharding.h"
#include "hlo/ir/types.h"
#include "hlo/pass/pass.h"
#include "hlo/random/random.h"
#include "hlo/text/text.h"
#include "hlo/verify/verify.h"

#endif
