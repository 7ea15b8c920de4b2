// SPDX-License-Identifier: Apache-2.0
// Memory of buffers and executions. Blocks are kept by size class for the next step of the same program, which finds
// pages that are mapped already. Large arrays of the host that were created recently are remembered, so that equal ones
// (the shards of a replicated array come one by one) share one storage. Storage is immutable except to an execution
// that is its only owner.
//
// Sharing and writing. A storage may be read by every holder of a reference and is written to only (1) by its creator
// before anyone else has one, and (2) by an execution that took it over, which target_storage_take_over() allows to a
// sole owner. The list of recent storages is the only way to get a reference without having one; it is therefore
// searched and cleared under the pool's lock, and a storage is removed from it before it is written to or freed.
//
// The pool outlives its storages: it is part of the client, which buffers and executions keep.
#include "targets/storage.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kSmallestBytes = 64, kSharedBytes = 4096, kSteps = 4, kHugeBytes = 2 * 1024 * 1024 };

// Returns the size class. Classes are 64, 80, 96, 112, 128, 160, …: four per doubling, so at most a fifth is wasted.
// Four classes per doubling are the usual compromise of size-class allocators (jemalloc's spacing): fewer waste memory,
// more split the free lists so that blocks are found less often. -1 for sizes beyond the last class, 2^53 bytes and
// more, which no machine has.
static int32_t class_of(int64_t bytes) {
    int32_t number = 0;
    for (int64_t size = kSmallestBytes; number + kSteps <= kTargetSizeClasses; size *= 2, number += kSteps)
        for (int32_t i = 0; i < kSteps; i++)
            if (bytes <= size + size / kSteps * i) return number + i;
    return -1;
}

// Returns the bytes of a class, the inverse of class_of().
static int64_t class_bytes(int32_t size_class) {
    const int64_t size = (int64_t)kSmallestBytes << (size_class / kSteps);
    return size + size / kSteps * (size_class % kSteps);
}

// Up to half of the machine's memory may be kept for re-use.
void target_store_pool_init(TargetStorePool *pool) {
    *pool = (TargetStorePool){0};
    pthread_mutex_init(&pool->lock, NULL);
    pool->limit_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 2;
}

// Returns all unused memory to the system. Called when an allocation fails: kept blocks of other sizes may be the
// memory that the system lacks. O(blocks kept), under the lock.
static void flush(TargetStorePool *pool) {
    pthread_mutex_lock(&pool->lock);
    for (int32_t i = 0; i < kTargetSizeClasses; i++) {
        while (pool->free[i]) {
            TargetFreeBlock *block = pool->free[i];
            pool->free[i] = block->next;
            hlo_free(block);
        }
    }
    pool->kept_bytes = 0;
    pthread_mutex_unlock(&pool->lock);
}

void target_store_pool_destroy(TargetStorePool *pool) {
    flush(pool);
    pthread_mutex_destroy(&pool->lock);
}

void target_store_pool_after_fork(TargetStorePool *pool) {
    pthread_mutex_init(&pool->lock, NULL);
}

// The block used last comes first: its pages are most likely to be in the caches still.
static void *take_block(TargetStorePool *pool, int32_t size_class) {
    assert(size_class >= 0);
    pthread_mutex_lock(&pool->lock);
    TargetFreeBlock *block = pool->free[size_class];
    if (block) {
        pool->free[size_class] = block->next;
        pool->kept_bytes -= class_bytes(size_class);
    }
    pthread_mutex_unlock(&pool->lock);
    return block;
}

// Large blocks request huge pages: fewer faults and fewer misses.
static void *fresh_block(int32_t size_class) {
    assert(size_class >= 0);
    const size_t bytes = (size_t)class_bytes(size_class);
    void *block = hlo_allocate_aligned(bytes);
#ifdef MADV_HUGEPAGE
    if (block && bytes >= kHugeBytes) {
        const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)block + page - 1) / page * page;
        (void)madvise((void *)begin, bytes - (begin - (uintptr_t)block), MADV_HUGEPAGE);
    }
#endif
    return block;
}

// Takes a block of the size's class from the pool, else from the system; if that has none, the pool's other blocks are
// released first.
TargetStorage *target_storage_new(TargetStorePool *pool, int64_t bytes) {
    assert(pool && bytes >= 0);
    const int32_t size_class = class_of(bytes);
    TargetStorage *storage = size_class < 0 ? NULL : hlo_allocate(sizeof *storage);
    if (!storage) return NULL;
    void *data = take_block(pool, size_class);
    if (!data) data = fresh_block(size_class);
    if (!data) {
        flush(pool);
        data = fresh_block(size_class);
    }
    if (!data) {
        hlo_free(storage);
        return NULL;
    }
    *storage = (TargetStorage){.references = 1, .data = data, .bytes = bytes, .size_class = size_class, .pool = pool};
    return storage;
}

// Returns a storage of the list with this many bytes, with a reference; NULL if there is none from `*place` on. The
// caller compares contents without the lock, as that takes long; the reference keeps the storage meanwhile. A count of
// 0 is a storage that is being freed and must not be revived, hence the exchange instead of an addition.
static TargetStorage *next_recent(TargetStorePool *pool, int64_t bytes, int64_t *place) {
    TargetStorage *found = NULL;
    pthread_mutex_lock(&pool->lock);
    for (; *place < kTargetRecent && !found; ++*place) {
        TargetStorage *storage = pool->recent[*place];
        if (!storage || storage->bytes != bytes) continue;
        int64_t references = atomic_load(&storage->references);
        while (references > 0 && !atomic_compare_exchange_weak(&storage->references, &references, references + 1)) {
        }
        if (references > 0) found = storage;
    }
    pthread_mutex_unlock(&pool->lock);
    return found;
}

// Replaces the oldest entry of the list. The list holds no references.
static void remember(TargetStorePool *pool, TargetStorage *storage) {
    pthread_mutex_lock(&pool->lock);
    TargetStorage **place = &pool->recent[pool->next_recent++ % kTargetRecent];
    if (*place) (*place)->is_recent = false;
    *place = storage;
    storage->is_recent = true;
    pthread_mutex_unlock(&pool->lock);
}

// Removes the storage from the list before it is freed or overwritten.
static void forget(TargetStorePool *pool, TargetStorage *storage) {
    pthread_mutex_lock(&pool->lock);
    for (int64_t i = 0; i < kTargetRecent && storage->is_recent; i++)
        if (pool->recent[i] == storage) pool->recent[i] = NULL;
    storage->is_recent = false;
    pthread_mutex_unlock(&pool->lock);
}

// Looks for equal recent storage only from 4096 bytes on, since comparing with sixteen candidates costs more than
// copying a small array.
TargetStorage *target_storage_from_host(TargetStorePool *pool, const void *data, int64_t bytes) {
    assert(pool && bytes >= 0);
    const bool large = bytes >= kSharedBytes;
    TargetStorage *found;
    for (int64_t place = 0; large && (found = next_recent(pool, bytes, &place));) {
        if (memcmp(found->data, data, (size_t)bytes) == 0) return found;
        target_storage_release(found);
    }
    TargetStorage *storage = target_storage_new(pool, bytes);
    if (!storage) return NULL;
    if (bytes) memcpy(storage->data, data, (size_t)bytes);
    if (large) remember(pool, storage);
    return storage;
}

TargetStorage *target_storage_view(void *data, int64_t bytes, void (*release)(void *data, void *argument),
                                   void *argument) {
    TargetStorage *storage = hlo_allocate(sizeof *storage);
    if (!storage) return NULL;
    *storage = (TargetStorage){
        .references = 1, .data = data, .bytes = bytes, .release = release, .release_argument = argument};
    return storage;
}

TargetStorage *target_storage_retain(TargetStorage *storage) {
    atomic_fetch_add(&storage->references, 1);
    return storage;
}

// The list is searched only under the pool's lock: once the storage is removed from it, no one else can get a
// reference.
bool target_storage_take_over(TargetStorage *storage) {
    assert(storage && atomic_load(&storage->references) > 0); /* the caller's own */
    if (storage->release) return false;                       // another owner's memory
    forget(storage->pool, storage);
    return atomic_load(&storage->references) == 1;
}

// The last reference returns the block to its pool, as long as that keeps no more than its limit; memory of the caller
// is released by the function that came with it.
void target_storage_release(TargetStorage *storage) {
    if (!storage || atomic_fetch_sub(&storage->references, 1) != 1) return;
    if (storage->release) {
        storage->release(storage->data, storage->release_argument);
        hlo_free(storage);
        return;
    }
    TargetStorePool *pool = storage->pool;
    forget(pool, storage);
    const int64_t bytes = class_bytes(storage->size_class);
    TargetFreeBlock *block = storage->data;
    pthread_mutex_lock(&pool->lock);
    const bool keep = pool->kept_bytes + bytes <= pool->limit_bytes;
    if (keep) {
        block->next = pool->free[storage->size_class];
        pool->free[storage->size_class] = block;
        pool->kept_bytes += bytes;
    }
    pthread_mutex_unlock(&pool->lock);
    if (!keep) hlo_free(block);
    hlo_free(storage);
}
