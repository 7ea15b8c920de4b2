// SPDX-License-Identifier: Apache-2.0
// Memory: the allocator below everything, arenas, and the behaviour when memory runs out.
//
// There are two ways to allocate memory, with one rule for each:
//  - hlo_allocate() and friends return NULL when memory is short; the caller turns that into RESOURCE_EXHAUSTED. Use
//    it for anything whose size comes from the user's data (literals, buffers, files).
//  - an arena never returns NULL: when memory is short it jumps to the innermost hlo_protect() of this thread, which
//    returns RESOURCE_EXHAUSTED. Every public entry point that builds or rewrites IR is protected in this way;
//    therefore code that allocates from arenas must not hold locks, files or heap memory that only it can release
//    across an allocation (keep such memory in a scratch arena, or register the arena with the protected call's
//    caller).
//
// Stability: stable.
#ifndef MESHLO_HLO_BASE_MEMORY_H_
#define MESHLO_HLO_BASE_MEMORY_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "hlo/base/macros.h"
#include "hlo/base/status.h"

HLO_BEGIN_C

// malloc/calloc/realloc/free that tests can make fail. Sizes in bytes; NULL when memory is short or a product
// overflows. A size of 0 gives a pointer that may be freed. Any thread.
HLO_EXPORT void *hlo_allocate(size_t bytes);
// Allocates count * bytes_each zeroed bytes.
HLO_EXPORT void *hlo_allocate_zeroed(size_t count, size_t bytes_each);
// Resizes a block, possibly moving it; on failure returns NULL, and the old block is unchanged.
HLO_EXPORT void *hlo_reallocate(void *pointer, size_t bytes);
// Returns a copy of a NUL-terminated text; NULL for NULL, and when memory is short.
HLO_EXPORT char *hlo_allocate_text(const char *text);
// Frees the result of the four functions above; accepts NULL.
HLO_EXPORT void hlo_free(void *pointer);
// Allocates `bytes` aligned to 64 (a cache line and a vector register); free with hlo_free(). NULL when memory is
// short.
HLO_EXPORT void *hlo_allocate_aligned(size_t bytes);

// For tests: makes the `countdown`-th allocation from now on in this thread fail (0: the next one), and all after it,
// until this is called with a negative number.
HLO_EXPORT void hlo_allocation_fail_after(int64_t countdown);

// A region: many small objects that are freed together. Not thread safe; one thread at a time.
typedef struct HloArena HloArena;

// The free part of the current block, with which every arena begins: allocating from it is a few instructions that are
// inlined into the caller. Private to this header and memory.c.
typedef struct HloArenaRoom {
    char *next, *end;
} HloArenaRoom;
enum { HLO_ARENA_ALIGNMENT = 16 };

// Returns a new, empty arena; NULL when memory is short. Free with hlo_arena_free().
HLO_EXPORT HloArena *hlo_arena_new(void);
// The maximum number of bytes of freed arenas that the process keeps for new ones: only blocks of large arenas are
// kept, those of small programs are returned to the system immediately.
enum { HLO_ARENA_KEPT_BYTES = 48 << 20 };
// Returns that memory to the system: for a process that has finished with large programs and keeps running. Any thread.
HLO_EXPORT void hlo_arena_free_kept(void);
// Returns a new arena for scratch memory: never NULL (jumps to hlo_protect() when memory is short), and freed by that
// hlo_protect() too if a later allocation jumps past its owner. Free with hlo_arena_free(), in the same thread.
HLO_EXPORT HloArena *hlo_arena_scratch_new(void);
// Frees the arena and everything allocated from it; accepts NULL.
HLO_EXPORT void hlo_arena_free(HloArena *arena);
// Allocates when the current block has no room for `bytes`; called by the two functions below. The bytes are undefined.
HLO_EXPORT void *hlo_arena_allocate_block(HloArena *arena, size_t bytes);
// As hlo_arena_allocate_block(), zeroed.
HLO_EXPORT void *hlo_arena_allocate_zeroed_block(HloArena *arena, size_t bytes);
// Allocates `bytes` bytes with undefined content, aligned to 16. Never NULL.
static inline void *hlo_arena_allocate_uninitialised(HloArena *arena, size_t bytes) {
    HloArenaRoom *room = (HloArenaRoom *)arena;
    // The free part is a multiple of the alignment: `bytes` fits rounded up, or not at all.
    if (bytes > PTRDIFF_MAX || bytes > (size_t)(room->end - room->next)) return hlo_arena_allocate_block(arena, bytes);
    char *result = room->next;
    room->next += (bytes + HLO_ARENA_ALIGNMENT - 1) & ~(size_t)(HLO_ARENA_ALIGNMENT - 1);
    return result;
}
// Allocates `bytes` zeroed bytes aligned to 16. Never NULL.
static inline void *hlo_arena_allocate(HloArena *arena, size_t bytes) {
    HloArenaRoom *room = (HloArenaRoom *)arena;
    if (bytes > PTRDIFF_MAX || bytes > (size_t)(room->end - room->next))
        return hlo_arena_allocate_zeroed_block(arena, bytes);
    char *result = room->next;
    room->next += (bytes + HLO_ARENA_ALIGNMENT - 1) & ~(size_t)(HLO_ARENA_ALIGNMENT - 1);
    memset(result, 0, bytes);
    return result;
}
// Returns a copy of `bytes` bytes at `data`.
static inline void *hlo_arena_copy(HloArena *arena, const void *data, size_t bytes) {
    void *copy = hlo_arena_allocate_uninitialised(arena, bytes);
    if (bytes > 0 && bytes <= PTRDIFF_MAX) memcpy(copy, data, bytes);  // a larger allocation has failed
    return copy;
}
// Returns a NUL-terminated copy of `length` characters.
HLO_EXPORT char *hlo_arena_string(HloArena *arena, const char *text, size_t length);
// Returns a copy of a NUL-terminated text; NULL for NULL.
HLO_EXPORT char *hlo_arena_text(HloArena *arena, const char *text);
// Formats into the arena, like printf.
HLO_EXPORT char *hlo_arena_format(HloArena *arena, const char *format, ...) HLO_PRINTF(2, 3);
// Makes room for `bytes`, so that the next allocation of at most this size cannot jump; false when memory is short. For
// callers that hold something which a jump would lose.
HLO_EXPORT HLO_NODISCARD bool hlo_arena_reserve(HloArena *arena, size_t bytes);
// The number of bytes taken from the system so far.
HLO_EXPORT size_t hlo_arena_bytes(const HloArena *arena);
// A point to return to: hlo_arena_reset() to it drops everything allocated after hlo_arena_mark().
typedef struct HloArenaMark {
    void *block;
    char *next;
} HloArenaMark;
// Returns the current point.
HLO_EXPORT HloArenaMark hlo_arena_mark(const HloArena *arena);
// Drops everything allocated since `mark`; marks taken in between become invalid.
HLO_EXPORT void hlo_arena_reset(HloArena *arena, HloArenaMark mark);

// Allocates zeroed memory for `count` objects of `type`.
#define HLO_ARENA_NEW(arena, type, count) \
    ((type *)hlo_arena_allocate((arena), hlo_array_bytes((size_t)(count), sizeof(type))))

// count * bytes_each, or SIZE_MAX if the product overflows (which no allocation can satisfy).
static inline size_t hlo_array_bytes(size_t count, size_t bytes_each) {
    size_t bytes;
    return __builtin_mul_overflow(count, bytes_each, &bytes) ? SIZE_MAX : bytes;
}

// Runs body(argument) and returns its status; if an arena runs out of memory inside, returns RESOURCE_EXHAUSTED
// instead. Calls may be nested. The body must not own anything that only it could free (see the top of this file).
HLO_EXPORT HLO_NODISCARD HloStatus hlo_protect(HloStatus (*body)(void *argument), void *argument);
// Jumps to the innermost hlo_protect() of this thread, like an arena that runs out of memory. It is a bug if there is
// none.
HLO_EXPORT HLO_NORETURN void hlo_out_of_memory(void);

HLO_END_C

#endif
