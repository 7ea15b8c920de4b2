// SPDX-License-Identifier: Apache-2.0
// Memory of buffers and executions: counted references, and blocks kept in pools by size so that steps after the first
// neither allocate nor cause page faults.
#ifndef MESHLO_TARGETS_STORAGE_H_
#define MESHLO_TARGETS_STORAGE_H_

#include <pthread.h>
#include <stdatomic.h>

#include "targets/client.h"

HLO_BEGIN_C

enum { kTargetSizeClasses = 192, kTargetRecent = 16 };

typedef struct TargetFreeBlock {
    struct TargetFreeBlock *next;
} TargetFreeBlock;

// Free blocks by size class.
typedef struct TargetStorePool {
    pthread_mutex_t lock;
    TargetFreeBlock *free[kTargetSizeClasses];
    int64_t kept_bytes, limit_bytes;
    struct TargetStorage *recent[kTargetRecent];  // latest large storages made from host data, without references
    int64_t next_recent;
} TargetStorePool;

typedef struct TargetStorage {
    _Atomic int64_t references;
    void *data;     // aligned to 64, at least one byte
    int64_t bytes;  // requested size
    int32_t size_class;
    TargetStorePool *pool;
    // For memory of another owner: called when the last reference is released; NULL for our own.
    void (*release)(void *data, void *argument);
    void *release_argument;
    bool is_recent;  // in the pool's list
} TargetStorage;

// Initialises an empty pool.
void target_store_pool_init(TargetStorePool *pool);
// Returns all kept memory to the system.
void target_store_pool_destroy(TargetStorePool *pool);
// Makes the lock usable in the child of a fork.
void target_store_pool_after_fork(TargetStorePool *pool);

// Allocates `bytes` bytes with one reference; content undefined. NULL when memory is short.
TargetStorage *target_storage_new(TargetStorePool *pool, int64_t bytes);
// Returns storage with the content of `bytes` bytes at `data`: a storage recently made from the same bytes if there is
// one (the shards of a replicated array are), else a new one. NULL when memory is short.
TargetStorage *target_storage_from_host(TargetStorePool *pool, const void *data, int64_t bytes);
// Returns storage that is `bytes` bytes at `data`, which have another owner: release(data, argument) is called, on any
// thread, when they are no longer needed. NULL when memory is short; release is not called then.
TargetStorage *target_storage_view(void *data, int64_t bytes, void (*release)(void *data, void *argument),
                                   void *argument);
// Adds a reference; returns `storage`.
TargetStorage *target_storage_retain(TargetStorage *storage);
// True if the caller's reference is the only one, so that it may overwrite the content: equal arrays of the host do not
// find it from now on. (An array that found it before has a reference.)
bool target_storage_take_over(TargetStorage *storage);
// Releases a reference; the last one returns the memory to the pool. Accepts NULL.
void target_storage_release(TargetStorage *storage);

HLO_END_C

#endif
