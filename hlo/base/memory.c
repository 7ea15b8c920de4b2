// SPDX-License-Identifier: Apache-2.0
// Why jumps: otherwise IR code would check for memory in every second line, and none of those checks would ever be
// tested. One setjmp() at each entry point of the library and one longjmp() here do the same; tests let each allocation
// of a program fail in turn (hlo_allocation_fail_after()) and look for leaks.
#include "hlo/base/memory.h"

#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "hlo/base/countdown.h"
#include "hlo/base/decimal.h"

// The innermost hlo_protect() of this thread, and the countdown of injected failures: with the kept blocks below, the
// library's only mutable statics; per thread, because an arena may be used far below the call that protects it.
static _Thread_local struct Guard *innermost_guard;
static _Thread_local int64_t allocations_until_failure = -1;

typedef struct Guard {
    jmp_buf resume;
    struct Guard *outer;
    HloArena *scratch;  // arenas to free when jumping here
} Guard;

// Once the countdown has ended every allocation fails, as when memory is really short.
static bool must_fail(void) {
    if (allocations_until_failure < 0) return false;
    if (allocations_until_failure == 0) return true;
    allocations_until_failure--;
    return false;
}

void hlo_allocation_fail_after(int64_t countdown) {
    allocations_until_failure = countdown;
}

int64_t hlo_allocation_countdown(void) {
    return allocations_until_failure;
}

void *hlo_allocate(size_t bytes) {
    return must_fail() ? NULL : malloc(bytes ? bytes : 1);
}

void *hlo_allocate_zeroed(size_t count, size_t bytes_each) {
    return must_fail() ? NULL : calloc(count ? count : 1, bytes_each ? bytes_each : 1);
}

void *hlo_reallocate(void *pointer, size_t bytes) {
    return must_fail() ? NULL : realloc(pointer, bytes ? bytes : 1);
}

char *hlo_allocate_text(const char *text) {
    if (!text) return NULL;
    const size_t bytes = strlen(text) + 1;
    char *copy = hlo_allocate(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

void hlo_free(void *pointer) {
    free(pointer);
}

void *hlo_allocate_aligned(size_t bytes) {
    if (must_fail() || bytes > SIZE_MAX - 64) return NULL;
    size_t rounded = (bytes + 63) & ~(size_t)63;
    return aligned_alloc(64, rounded ? rounded : 64);
}

// ---------------------------------------------------------------------------------------------------------------------
// Arenas: a chain of blocks, newest first. Blocks double up to a limit; a large request gets its own block.
//
// A block of two megabytes or more requests huge pages: a program of a million instructions touches so much new memory
// that faults of 4 KiB took a third of the time to read it. Blocks are not larger, because untouched memory counts too.
//
// Some blocks are kept for the next arena when theirs is freed: the system zeroes pages before it provides them, and on
// a virtual machine first has to get them from the host, which takes longer than reading the program that is put there
// (5 ms for 2 MB measured). Under a sanitizer no blocks are kept, so that uses of freed memory are detected.

enum { FIRST_BLOCK_BYTES = 4096, LARGEST_BLOCK_BYTES = 1 << 21, HUGE_PAGE_BYTES = 1 << 21 };

typedef struct Block {
    struct Block *older;
    size_t size;  // usable bytes after this header, a multiple of the alignment
} Block;

_Static_assert(sizeof(Block) % HLO_ARENA_ALIGNMENT == 0, "the payload of a block must be aligned");

struct HloArena {
    HloArenaRoom room;  // must be first: the header is cast to it
    Block *newest;
    size_t total;
    size_t next_size;
    Guard *guard;  // of a scratch arena, with its neighbours in the guard's list
    HloArena *previous_scratch, *next_scratch;
};

HloArena *hlo_arena_new(void) {
    HloArena *arena = hlo_allocate_zeroed(1, sizeof(*arena));
    if (!arena) return NULL;
    arena->next_size = FIRST_BLOCK_BYTES;
    arena->room = (HloArenaRoom){(char *)arena, (char *)arena};  // no room, but a valid address for empty allocations
    return arena;
}

static char *payload(Block *block) {
    return (char *)(block + 1);
}

#if defined(__SANITIZE_ADDRESS__)
#define KEEPS_BLOCKS false
#elif defined(__has_feature)
#define KEEPS_BLOCKS (!__has_feature(address_sanitizer))
#else
#define KEEPS_BLOCKS true
#endif

// Kept blocks without an arena, some of each size by which arenas grow. A slot is emptied and filled by an exchange:
// any thread.
enum { SMALLEST_KEPT_BYTES = 1 << 17, KEPT_SIZES = 5, KEPT_EACH = 12 };
static _Atomic(Block *) kept_blocks[KEPT_SIZES][KEPT_EACH];

_Static_assert(SMALLEST_KEPT_BYTES << (KEPT_SIZES - 1) == LARGEST_BLOCK_BYTES, "the largest blocks are kept");
_Static_assert(KEPT_EACH *(2 * LARGEST_BLOCK_BYTES - SMALLEST_KEPT_BYTES) <= HLO_ARENA_KEPT_BYTES, "as promised");

// The slots for blocks of `bytes`, including the header; NULL if none of this size are kept.
static _Atomic(Block *) *kept_of(size_t bytes) {
    for (int i = 0; KEEPS_BLOCKS && bytes >= SMALLEST_KEPT_BYTES && i < KEPT_SIZES; i++)
        if (bytes == (size_t)SMALLEST_KEPT_BYTES << i) return kept_blocks[i];
    return NULL;
}

static Block *take_kept_block(size_t bytes) {
    _Atomic(Block *) *kept = kept_of(bytes);
    for (int i = 0; kept && i < KEPT_EACH; i++) {
        if (!atomic_load_explicit(&kept[i], memory_order_relaxed)) continue;
        Block *block = atomic_exchange_explicit(&kept[i], NULL, memory_order_acquire);
        if (block) return block;
    }
    return NULL;
}

static void free_block(Block *block) {
    const size_t bytes = sizeof(Block) + block->size;
    _Atomic(Block *) *kept = kept_of(bytes);
    for (int i = 0; kept && i < KEPT_EACH; i++) {
        Block *none = NULL;
        if (atomic_load_explicit(&kept[i], memory_order_relaxed)) continue;
        if (atomic_compare_exchange_strong_explicit(&kept[i], &none, block, memory_order_release, memory_order_relaxed))
            return;
    }
    hlo_free(block);
}

void hlo_arena_free_kept(void) {
    for (int i = 0; i < KEPT_SIZES; i++)
        for (Block *block; (block = take_kept_block((size_t)SMALLEST_KEPT_BYTES << i));) hlo_free(block);
}

// Frees blocks, newest first, up to but not including `stop` (NULL: all).
static void free_blocks_until(HloArena *arena, const Block *stop) {
    assert(arena);
    while (arena->newest != stop) {
        Block *block = arena->newest;
        arena->newest = block->older;
        arena->total -= block->size;
        free_block(block);
    }
}

// Removes a scratch arena from the list of its guard; they are freed in any order.
static void leave_guard(HloArena *arena) {
    assert(arena->guard);
    assert(arena->previous_scratch || arena->guard->scratch == arena);
    if (arena->previous_scratch) {
        arena->previous_scratch->next_scratch = arena->next_scratch;
    } else {
        arena->guard->scratch = arena->next_scratch;
    }
    if (arena->next_scratch) arena->next_scratch->previous_scratch = arena->previous_scratch;
}

void hlo_arena_free(HloArena *arena) {
    if (!arena) return;
    assert(arena->next_size >= FIRST_BLOCK_BYTES);  // else it is not an arena, or already freed
    if (arena->guard) leave_guard(arena);
    free_blocks_until(arena, NULL);
    hlo_free(arena);
}

void hlo_out_of_memory(void) {
    HLO_BUG_IF(!innermost_guard);  // an arena is used outside of hlo_protect()
    longjmp(innermost_guard->resume, 1);
}

HloArena *hlo_arena_scratch_new(void) {
    HloArena *arena = hlo_arena_new();
    if (!arena) hlo_out_of_memory();
    Guard *guard = innermost_guard;
    if (!guard) return arena;
    arena->guard = guard;
    arena->next_scratch = guard->scratch;
    if (guard->scratch) guard->scratch->previous_scratch = arena;
    guard->scratch = arena;
    return arena;
}

// Memory for a block; NULL if there is none. *bytes may grow.
static Block *allocate_block(size_t *bytes) {
    if (must_fail() || *bytes > SIZE_MAX - HUGE_PAGE_BYTES) return NULL;
    if (*bytes > HUGE_PAGE_BYTES) *bytes = (*bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    Block *kept = take_kept_block(*bytes);
    if (kept) return kept;
    if (*bytes < HUGE_PAGE_BYTES) return malloc(*bytes);
    Block *block = aligned_alloc(HUGE_PAGE_BYTES, *bytes);
#ifdef MADV_HUGEPAGE
    if (block) (void)madvise(block, *bytes, MADV_HUGEPAGE);  // a hint: smaller pages work as well
#endif
    return block;
}

// Adds a block; NULL when memory is short.
static Block *add_block(HloArena *arena, size_t bytes) {
    assert(bytes % HLO_ARENA_ALIGNMENT == 0); /* callers round up */
    size_t size = arena->next_size;
    if (bytes > size - sizeof(Block)) {
        if (bytes > SIZE_MAX - sizeof(Block)) return NULL;
        size = sizeof(Block) + bytes;
    } else if (arena->next_size < LARGEST_BLOCK_BYTES) {
        arena->next_size *= 2;
    }
    Block *block = allocate_block(&size);
    if (!block) return NULL;
    assert(size % HLO_ARENA_ALIGNMENT == 0); /* true for the first size, and preserved by growing */
    *block = (Block){.older = arena->newest, .size = size - sizeof(Block)};
    arena->newest = block;
    arena->total += block->size;
    return block;
}

bool hlo_arena_reserve(HloArena *arena, size_t bytes) {
    assert(arena);
    if (bytes > SIZE_MAX - HLO_ARENA_ALIGNMENT) return false;
    const size_t rounded = (bytes + HLO_ARENA_ALIGNMENT - 1) & ~(size_t)(HLO_ARENA_ALIGNMENT - 1);
    if (rounded <= (size_t)(arena->room.end - arena->room.next)) return true;
    const Block *block = add_block(arena, rounded);
    if (!block) return false;
    assert(block->size >= rounded);
    arena->room = (HloArenaRoom){payload(arena->newest), payload(arena->newest) + block->size};
    return true;
}

void *hlo_arena_allocate_block(HloArena *arena, size_t bytes) {
    assert(arena);
    if (!hlo_arena_reserve(arena, bytes)) hlo_out_of_memory();
    char *start = arena->room.next;
    arena->room.next += (bytes + HLO_ARENA_ALIGNMENT - 1) & ~(size_t)(HLO_ARENA_ALIGNMENT - 1);
    return start;
}

void *hlo_arena_allocate_zeroed_block(HloArena *arena, size_t bytes) {
    void *result = hlo_arena_allocate_block(arena, bytes);
    memset(result, 0, bytes);
    return result;
}

char *hlo_arena_string(HloArena *arena, const char *text, size_t length) {
    assert(text || length == 0);
    char *copy = hlo_arena_allocate_uninitialised(arena, length + 1);
    if (length) memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}

char *hlo_arena_text(HloArena *arena, const char *text) {
    return text ? hlo_arena_string(arena, text, strlen(text)) : NULL;
}

char *hlo_arena_format(HloArena *arena, const char *format, ...) {
    assert(format);
    va_list arguments;
    va_start(arguments, format);
    va_list again;
    va_copy(again, arguments);
    int length = hlo_vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    HLO_BUG_IF(length < 0);
    char *text = hlo_arena_allocate_uninitialised(arena, (size_t)length + 1);
    hlo_vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

size_t hlo_arena_bytes(const HloArena *arena) {
    assert(arena);
    return arena->total;
}

HloArenaMark hlo_arena_mark(const HloArena *arena) {
    return (HloArenaMark){.block = arena->newest, .next = arena->room.next};
}

void hlo_arena_reset(HloArena *arena, HloArenaMark mark) {
    assert(arena);
    if (arena->newest == mark.block) {
        assert(mark.next <= arena->room.next);  // a mark of this arena, and not later than a previous reset
        arena->room.next = mark.next;
        return;
    }
    free_blocks_until(arena, mark.block);
    Block *block = arena->newest;
    assert(!block || (mark.next >= payload(block) && mark.next <= payload(block) + block->size));
    arena->room = (HloArenaRoom){mark.next, block ? payload(block) + block->size : mark.next};
    // Block sizes stay in proportion to the arena's content: an arena that is filled and reset for every instruction
    // would otherwise eventually allocate, zero and free a huge page for a few bytes.
    size_t held = arena->total;
    arena->next_size = FIRST_BLOCK_BYTES;
    while (arena->next_size < held && arena->next_size < LARGEST_BLOCK_BYTES) arena->next_size *= 2;
}

HloStatus hlo_protect(HloStatus (*body)(void *argument), void *argument) {
    assert(body);
    Guard guard;
    guard.outer = innermost_guard;
    guard.scratch = NULL;
    if (setjmp(guard.resume)) {
        while (guard.scratch) hlo_arena_free(guard.scratch);
        innermost_guard = guard.outer;
        return hlo_error(HLO_RESOURCE_EXHAUSTED, "out of memory");
    }
    innermost_guard = &guard;
    HloStatus status = body(argument);
    HLO_BUG_IF(guard.scratch);  // a scratch arena must not outlive the call in which it was created
    innermost_guard = guard.outer;
    return status;
}
