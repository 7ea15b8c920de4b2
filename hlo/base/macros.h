// SPDX-License-Identifier: Apache-2.0
// Compiler attributes and the invariant check that all modules use.
//
// Stability: stable.
#ifndef MESHLO_HLO_BASE_MACROS_H_
#define MESHLO_HLO_BASE_MACROS_H_

#include <assert.h>
#include <stddef.h>

#ifdef __cplusplus
#define HLO_BEGIN_C extern "C" {
#define HLO_END_C }
#else
#define HLO_BEGIN_C
#define HLO_END_C
#endif

// Marks a symbol that libmeshlo exports; everything else is hidden.
#define HLO_EXPORT __attribute__((visibility("default")))
// The caller must use the result.
#define HLO_NODISCARD __attribute__((warn_unused_result))
// The arguments from number `first` on are checked against the format, argument number `text`, like printf's.
#define HLO_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#define HLO_NORETURN __attribute__((noreturn))

// Number of elements of a true array (never of a pointer).
#define HLO_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

HLO_BEGIN_C

// Writes the violated invariant to stderr and aborts. Only a bug of ours can reach it, never bad input.
HLO_EXPORT HLO_NORETURN void hlo_bug(const char *file, int line, const char *condition);

HLO_END_C

// Aborts, in every build, if `condition` is true, i.e. if an invariant of ours is violated. Never use it on user input.
#define HLO_BUG_IF(condition) ((condition) ? hlo_bug(__FILE__, __LINE__, #condition) : (void)0)

#endif
