// SPDX-License-Identifier: Apache-2.0
// Processes that tests fork.
#ifndef MESHLO_TESTS_SUPPORT_CHILD_H_
#define MESHLO_TESTS_SUPPORT_CHILD_H_

// Runs body(context) in a child of this process and returns its result, or minus the number of the signal that ended
// it: SIGALRM after kChildSeconds. The other threads of this process may be anywhere, also in the sanitizer's
// allocator, which does not release its locks in a child as that of the C library does: under AddressSanitizer a child
// that does not end is given up for another one, kChildTrials times in all.
int run_in_child(int (*body)(void *context), void *context);

enum { kChildSeconds = 15, kChildTrials = 4 };

#endif
