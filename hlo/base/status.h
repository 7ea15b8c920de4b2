// SPDX-License-Identifier: Apache-2.0
// Errors: the results of calls that can fail. A HloStatus is NULL on success, else an owned error object with a code, a
// message and, for text input, a place. Bugs of our own are never reported this way (see HLO_BUG_IF).
//
// Stability: stable.
#ifndef MESHLO_HLO_BASE_STATUS_H_
#define MESHLO_HLO_BASE_STATUS_H_

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "hlo/base/macros.h"

HLO_BEGIN_C

// Error codes: the names and numbers of absl::StatusCode.
typedef enum HloCode {
#define HLO_CODE(name, number, text) HLO_##name = number,
#include "hlo/base/status.def"
#undef HLO_CODE
} HloCode;

// An error object, or NULL for success. Its holder owns it: free it with hlo_status_free() or pass it on. Threads that
// share one need their own lock.
typedef struct HloError *HloStatus;

// Success.
#define HLO_SUCCESS ((HloStatus)0)

// The place of an error in a text. Strings may be NULL; line and column are 1-based, 0 if unknown.
typedef struct HloPlace {
    const char *file;         // file name as given by the user
    int64_t line;             // 1-based line
    int64_t column;           // 1-based byte column
    const char *line_text;    // the whole offending line, without its newline
    const char *instruction;  // name of the HLO instruction, without '%'
} HloPlace;

// Makes an error with a printf-style message. Never fails: when memory is short it returns a static out-of-memory
// error.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_error(HloCode code, const char *format, ...) HLO_PRINTF(2, 3);

// As hlo_error(), with a place; the strings of `place` are copied.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_error_at(HloCode code, const HloPlace *place, const char *format, ...)
    HLO_PRINTF(3, 4);

// Puts "context: " before the message of `status` and returns it (NULL stays NULL). Takes and returns ownership.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_status_annotate(HloStatus status, const char *format, ...) HLO_PRINTF(2, 3);

// The code; HLO_OK for NULL.
HLO_EXPORT HloCode hlo_status_code(const struct HloError *status);

// The message without the place; "" for NULL. Lives as long as `status`.
HLO_EXPORT const char *hlo_status_message(const struct HloError *status);

// The place, or NULL if it is unknown. Lives as long as `status`.
HLO_EXPORT const HloPlace *hlo_status_place(const struct HloError *status);
// Adds a place (copied) to an error. The message stays; an error that already has a place keeps it. Takes and returns
// ownership; NULL stays NULL.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_status_at_place(HloStatus status, const HloPlace *place);

// Returns the error code with this number, which comes from a file, a callback or another process: HLO_UNKNOWN for
// numbers that absl does not have, and for 0, which is no error.
HLO_EXPORT HloCode hlo_code_from_number(int64_t number);

// The absl name of a code ("INVALID_ARGUMENT"). Static storage.
HLO_EXPORT const char *hlo_code_name(HloCode code);

// The text for the user: `FILE:LINE:COL: error: MESSAGE` with the line and a caret if the place is known, else only
// `error: MESSAGE`. Ends with a newline. Free the result with hlo_free(). NULL when memory is short.
HLO_EXPORT char *hlo_status_to_text(const struct HloError *status);

// Frees an error; accepts NULL.
HLO_EXPORT void hlo_status_free(HloStatus status);

// Returns from the calling function (which must return HloStatus) if `expression` is an error.
#define HLO_TRY(expression)                          \
    do {                                             \
        HloStatus hlo_try_status_ = (expression);    \
        if (hlo_try_status_) return hlo_try_status_; \
    } while (0)

// Returns an error from the calling function if `condition` holds: HLO_FAIL_IF(rank < 0, HLO_INVALID_ARGUMENT, "…").
#define HLO_FAIL_IF(condition, ...)                   \
    do {                                              \
        if (condition) return hlo_error(__VA_ARGS__); \
    } while (0)

HLO_END_C

#endif
