// SPDX-License-Identifier: Apache-2.0
// Buffers: one array in one memory. A buffer is a shape, a memory and a storage that may come later. It is never
// written to once it is ready: copies to other memories and bitcasts share the storage, and only a donation may write
// over it, if it has no other user. `claims` counts the promises of the storage of a buffer, so that deleting it
// meanwhile takes nothing from the claimants.
//
// Life of the storage. A buffer begins pending (no storage, event not ready), created by an execution, a promise or a
// copy; target_buffer_fill() gives it the storage and then its event becomes ready. It is deleted by its owner or by a
// donation; from then on reading is rejected, but earlier claimants still get the content. So there are three states in
// which `storage` is NULL: not filled yet, deleted, and holding an error; the event and `deleted` distinguish them.
//
// The meter. A buffer in HBM is on its device's meter from the moment that it gets a content (or that an execution
// reserves memory for it) until it is deleted, donated or freed. The buffer counts and not the storage, which several
// devices may share here but could not on a chip. Arrays that were deleted after a launch that still reads them are not
// counted.
//
// Locks: the buffer's own guards storage, deletion, claims and the charge, and is never held while an event is set or a
// storage released, since both may call out.
#include <assert.h>
#include <string.h>

#include "targets/cpu/graph/bounded.h"
#include "targets/internal.h"

// ---- making

// Copies a shape and its dims to one heap block, without layout. Layouts are dropped: arrays are dense and row-major on
// devices. The array `dynamic` is kept only if some dimension is of dynamic size, so that shapes in both forms (NULL,
// all false) compare equal.
static HloShape *copy_shape(const HloShape *shape) {
    assert(shape);
    HloShape *copy = hlo_allocate(sizeof *copy + (sizeof(int64_t) + sizeof(bool)) * (size_t)shape->rank);
    if (!copy) return NULL;
    int64_t *dims = (int64_t *)(copy + 1);
    bool *dynamic = (bool *)(dims + shape->rank);
    if (shape->rank) memcpy(dims, shape->dims, sizeof(int64_t) * (size_t)shape->rank);
    if (hlo_shape_is_dynamic(shape)) memcpy(dynamic, shape->dynamic, sizeof(bool) * (size_t)shape->rank);
    *copy = (HloShape){.type = shape->type,
                       .rank = shape->rank,
                       .dims = dims,
                       .dynamic = hlo_shape_is_dynamic(shape) ? dynamic : NULL};
    return copy;
}

static TargetMeter *meter_of(const TargetBuffer *buffer) {
    return buffer->memory->kind_id == TARGET_MEMORY_DEVICE ? target_device_meter(buffer->memory->device) : NULL;
}

// Returns the error for a full HBM in XLA's wording on TPUs, which programs and people look for.
static HloStatus no_room(const TargetBuffer *buffer) {
    return hlo_error(HLO_RESOURCE_EXHAUSTED,
                     "Error allocating device buffer: Attempting to allocate %s. That was not "
                     "possible. There are %s free in the HBM of %s",
                     target_amount(cpu_buffer_bytes(buffer->shape)).text,
                     target_amount(target_meter_free(meter_of(buffer))).text, buffer->memory->device->text);
}

HloStatus target_buffer_charge(TargetBuffer *buffer) {
    assert(buffer);
    TargetMeter *meter = meter_of(buffer);
    if (!meter) return HLO_SUCCESS;
    pthread_mutex_lock(&buffer->lock);
    const bool wanted = !buffer->charged && (!buffer->deleted || buffer->claims > 0);
    const bool fits = !wanted || target_meter_add(meter, cpu_buffer_bytes(buffer->shape));
    buffer->charged = buffer->charged || (wanted && fits);
    pthread_mutex_unlock(&buffer->lock);
    return fits ? HLO_SUCCESS : no_room(buffer);
}

void target_buffer_discharge(TargetBuffer *buffer) {
    assert(buffer);
    if (buffer->charged) target_meter_remove(meter_of(buffer), cpu_buffer_bytes(buffer->shape));
    buffer->charged = false;
}

// Frees the client last: it may be freed with the buffer, and owns the pool that the storage came from.
static void free_buffer(TargetBuffer *buffer) {
    target_buffer_discharge(buffer);
    target_storage_release(buffer->storage);
    target_event_release(buffer->ready);
    hlo_free(buffer->shape);
    pthread_mutex_destroy(&buffer->lock);
    TargetClient *client = buffer->client;
    hlo_free(buffer);
    target_client_release(client);
}

// Creates a pending buffer without storage.
TargetBuffer *target_buffer_new(const HloShape *shape, TargetMemory *memory) {
    assert(shape && memory);
    TargetBuffer *buffer = hlo_allocate_zeroed(1, sizeof *buffer);
    if (!buffer) return NULL;
    buffer->references = 1;
    buffer->client = target_client_retain(memory->device->client);
    buffer->memory = memory;
    pthread_mutex_init(&buffer->lock, NULL);
    buffer->shape = copy_shape(shape);
    buffer->ready = target_event_new();
    if (buffer->shape && buffer->ready) return buffer;
    free_buffer(buffer);
    return NULL;
}

static HloStatus no_memory(const HloShape *shape) {
    return hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for a buffer of %lld bytes", (long long)hlo_shape_bytes(shape));
}

// Checks for a shape that a buffer may have: one array, or a token, of known sizes.
static HloStatus check_shape(const HloShape *shape) {
    HLO_FAIL_IF(!hlo_shape_is_array(shape) && shape->type != HLO_TOKEN, HLO_INVALID_ARGUMENT,
                "a buffer holds one array, not %s", hlo_type_text(shape->type));
    for (int32_t d = 0; d < shape->rank; d++)
        HLO_FAIL_IF(shape->dims[d] == HLO_UNBOUNDED, HLO_INVALID_ARGUMENT, "dimension %d has no size", (int)d);
    return hlo_shape_check_dims(shape->type, shape->dims, shape->rank);
}

// Creates a ready buffer; `dense` is its content, or NULL for an undefined one. A token too has a storage (of no
// bytes), so that code that takes storages needs no special case for tokens.
static HloStatus new_filled(const HloShape *shape, TargetMemory *memory, const void *dense, TargetBuffer **result) {
    assert(shape && memory && result);
    HLO_TRY(check_shape(shape));
    HLO_TRY(target_memory_check_local(memory));
    TargetBuffer *buffer = target_buffer_new(shape, memory);
    if (!buffer) return no_memory(shape);
    HloStatus status = target_buffer_charge(buffer);
    const int64_t bytes = cpu_buffer_bytes(shape);
    if (!status) {
        buffer->storage = dense ? target_storage_from_host(&buffer->client->store, dense, bytes)
                                : target_storage_new(&buffer->client->store, bytes);
        if (!buffer->storage) status = no_memory(shape);
    }
    if (status) {
        free_buffer(buffer);
        return status;
    }
    target_event_set(buffer->ready, HLO_SUCCESS);
    *result = buffer;
    return HLO_SUCCESS;
}

HloStatus target_buffer_uninitialized(const HloShape *shape, TargetMemory *memory, TargetBuffer **buffer) {
    HLO_TRY(new_filled(shape, memory, NULL, buffer));
    memset((*buffer)->storage->data, 0, (size_t)(*buffer)->storage->bytes);
    return HLO_SUCCESS;
}

// Copies between a dense row-major array and one with byte strides, in either direction. The array must have elements:
// a dimension of size 0 after a huge one would be visited once per element of that. Recursion is as deep as the rank.
// The innermost dimension is one memcpy if both sides are dense there. Negative and zero strides are allowed: every
// address is computed from the element's own indices.
static void copy_strided(char *to, const int64_t *to_strides, const char *from, const int64_t *from_strides,
                         const int64_t *dims, int64_t rank, int64_t width) {
    assert(rank >= 0 && width > 0);
    if (rank == 0) {
        memcpy(to, from, (size_t)width);
        return;
    }
    if (rank == 1 && to_strides[0] == width && from_strides[0] == width) {
        if (dims[0]) memcpy(to, from, (size_t)(dims[0] * width));
        return;
    }
    for (int64_t i = 0; i < dims[0]; i++)
        copy_strided(to + i * to_strides[0], to_strides + 1, from + i * from_strides[0], from_strides + 1, dims + 1,
                     rank - 1, width);
}

// Computes the byte strides of a dense array whose dimensions have this order; NULL for row-major. Products cannot
// overflow: hlo_shape_check_dims() has bounded the whole array, counting sizes of zero as one.
static void dense_strides(const int64_t *dims, int64_t rank, int64_t width, const int64_t *minor_to_major,
                          int64_t *strides) {
    assert(rank >= 0 && width > 0);
    int64_t stride = width;
    for (int64_t i = 0; i < rank; i++) {
        const int64_t d = minor_to_major ? minor_to_major[i] : rank - 1 - i;
        strides[d] = stride;
        stride *= dims[d];
    }
}

static bool is_narrow(HloType type) {
    return hlo_type_info(type)->bits < 8 && type != HLO_PRED;
}

// Elements of less than a byte occupy a byte each here, with integers sign-extended, while a host may leave arbitrary
// bits above them (ml_dtypes does).
static void extend_narrow(HloType type, void *data, int64_t count) {
    assert(count >= 0);
    const int spare = 8 - hlo_type_info(type)->bits;
    const bool is_signed = hlo_type_kind(type) == HLO_KIND_SIGNED;
    uint8_t *bytes = data;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t high = (uint8_t)(bytes[i] << spare);
        bytes[i] = is_signed ? (uint8_t)((int8_t)high >> spare) : high >> spare;
    }
}

HloStatus target_buffer_from_host(const TargetHostArray *array, TargetMemory *memory, TargetBuffer **buffer) {
    assert(array && memory && buffer);
    HLO_FAIL_IF(!hlo_type_is_array(array->type), HLO_INVALID_ARGUMENT, "a host array of type %s",
                hlo_type_text(array->type));
    HLO_FAIL_IF(array->rank < 0 || array->rank > HLO_MAXIMUM_RANK, HLO_INVALID_ARGUMENT, "an array of rank %lld",
                (long long)array->rank);
    const HloShape shape = {.type = array->type, .rank = (int32_t)array->rank, .dims = array->dims};
    const int64_t width = hlo_type_bytes(array->type);
    int64_t dense[HLO_MAXIMUM_RANK];
    HLO_TRY(check_shape(&shape));
    dense_strides(array->dims, array->rank, width, NULL, dense);
    HLO_FAIL_IF(!array->data && hlo_shape_elements(&shape), HLO_INVALID_ARGUMENT,
                "a host array of %lld bytes at address zero", (long long)hlo_shape_bytes(&shape));
    const bool narrow = is_narrow(array->type);
    const int64_t *strides = array->byte_strides ? array->byte_strides : dense;
    if (!narrow && memcmp(dense, strides, sizeof(int64_t) * (size_t)array->rank) == 0)
        return new_filled(&shape, memory, array->data ? array->data : "", buffer);
    HLO_TRY(new_filled(&shape, memory, NULL, buffer));
    if (hlo_shape_elements(&shape))
        copy_strided((*buffer)->storage->data, dense, array->data, strides, array->dims, array->rank, width);
    if (narrow) extend_narrow(array->type, (*buffer)->storage->data, hlo_shape_elements(&shape));
    return HLO_SUCCESS;
}

HloStatus target_buffer_from_literal(const HloLiteral *literal, TargetMemory *memory, TargetBuffer **buffer) {
    HLO_FAIL_IF(literal->elided, HLO_INVALID_ARGUMENT, "a literal whose values were elided");
    if (literal->shape->type == HLO_TOKEN) return target_buffer_uninitialized(literal->shape, memory, buffer);
    const TargetHostArray array = {literal->data, literal->shape->type, literal->shape->rank, literal->shape->dims,
                                   NULL};
    return target_buffer_from_host(&array, memory, buffer);
}

// The elements come first and dense, then one s32 per dimension with its size (cpu_buffer_sizes() in
// targets/cpu/graph/bounded.h); the bytes between them in the buffer are undefined and masked by the program.
HloStatus target_buffer_from_literal_bounded(const HloLiteral *literal, const HloShape *bounds, TargetMemory *memory,
                                             TargetBuffer **buffer) {
    assert(literal && bounds && memory && buffer);
    if (!hlo_shape_is_dynamic(bounds)) return target_buffer_from_literal(literal, memory, buffer);
    const HloShape *shape = literal->shape;
    bool fits = shape->type == bounds->type && shape->rank == bounds->rank;
    for (int32_t d = 0; d < bounds->rank && fits; d++)
        fits = bounds->dynamic[d] ? shape->dims[d] <= bounds->dims[d] : shape->dims[d] == bounds->dims[d];
    HLO_FAIL_IF(!fits || literal->elided, HLO_INVALID_ARGUMENT, "a literal that does not fit the bounds of its buffer");
    HLO_TRY(target_buffer_uninitialized(bounds, memory, buffer));
    void *data = (*buffer)->storage->data;
    const int64_t bytes = hlo_shape_bytes(shape);
    if (bytes) memcpy(data, literal->data, (size_t)bytes);
    for (int32_t d = 0; d < bounds->rank; d++) cpu_buffer_sizes(bounds, data)[d] = (int32_t)shape->dims[d];
    if (is_narrow(shape->type)) extend_narrow(shape->type, data, hlo_shape_elements(shape));
    return HLO_SUCCESS;
}

HloStatus target_buffer_from_error(const HloShape *shape, TargetMemory *memory, HloStatus error,
                                   TargetBuffer **result) {
    assert(error && result);
    TargetBuffer *buffer = NULL;
    HloStatus status = target_buffer_pending(shape, memory, &buffer);
    if (status) {
        hlo_status_free(error);
        return status;
    }
    target_event_set(buffer->ready, error);
    *result = buffer;
    return HLO_SUCCESS;
}

// ---- life

TargetBuffer *target_buffer_retain(TargetBuffer *buffer) {
    atomic_fetch_add(&buffer->references, 1);
    return buffer;
}

// An execution or copy in flight has its own references to the memory that it needs.
void target_buffer_release(TargetBuffer *buffer) {
    if (buffer && atomic_fetch_sub(&buffer->references, 1) == 1) free_buffer(buffer);
}

// Storage that has a claim stays until it is taken.
void target_buffer_delete(TargetBuffer *buffer) {
    pthread_mutex_lock(&buffer->lock);
    TargetStorage *storage = buffer->claims ? NULL : buffer->storage;
    if (!buffer->claims) {
        buffer->storage = NULL;
        target_buffer_discharge(buffer);
    }
    buffer->deleted = true;
    pthread_mutex_unlock(&buffer->lock);
    target_storage_release(storage);
}

bool target_buffer_is_deleted(const TargetBuffer *constant) {
    TargetBuffer *buffer = (TargetBuffer *)(uintptr_t)constant;
    pthread_mutex_lock(&buffer->lock);
    const bool deleted = buffer->deleted;
    pthread_mutex_unlock(&buffer->lock);
    return deleted;
}

TargetStorage *target_buffer_take_storage(TargetBuffer *buffer) {
    pthread_mutex_lock(&buffer->lock);
    TargetStorage *storage = buffer->storage ? target_storage_retain(buffer->storage) : NULL;
    pthread_mutex_unlock(&buffer->lock);
    return storage;
}

// The last claimant of a deleted buffer gets the buffer's own reference, others one of their own.
TargetStorage *target_buffer_take_claimed(TargetBuffer *buffer) {
    assert(buffer);
    pthread_mutex_lock(&buffer->lock);
    TargetStorage *storage = buffer->storage;
    const bool last = --buffer->claims == 0 && buffer->deleted;
    if (last) {
        buffer->storage = NULL;
        target_buffer_discharge(buffer);
    } else if (storage) {
        target_storage_retain(storage);
    }
    pthread_mutex_unlock(&buffer->lock);
    return storage;
}

// A deleted buffer without claims releases the storage immediately.
void target_buffer_fill(TargetBuffer *buffer, TargetStorage *storage) {
    pthread_mutex_lock(&buffer->lock);
    const bool wanted = !buffer->deleted || buffer->claims > 0;
    if (wanted)
        buffer->storage = storage;
    else
        target_buffer_discharge(buffer);
    pthread_mutex_unlock(&buffer->lock);
    if (!wanted) target_storage_release(storage);
}

// Raises a count, as several frameworks may have taken the address (dlpack, NumPy views). It is checked when a launch
// takes the buffer, not later: a request for the address after that gets the error of a deleted buffer.
void target_buffer_hold_external(TargetBuffer *buffer) {
    pthread_mutex_lock(&buffer->lock);
    buffer->external_holds++;
    pthread_mutex_unlock(&buffer->lock);
}

void target_buffer_drop_external(TargetBuffer *buffer) {
    pthread_mutex_lock(&buffer->lock);
    buffer->external_holds--;
    pthread_mutex_unlock(&buffer->lock);
}

const HloShape *target_buffer_shape(const TargetBuffer *buffer) {
    return buffer->shape;
}
TargetMemory *target_buffer_memory(const TargetBuffer *buffer) {
    return buffer->memory;
}
int64_t target_buffer_bytes(const TargetBuffer *buffer) {
    return cpu_buffer_bytes(buffer->shape);
}
TargetEvent *target_buffer_ready_event(TargetBuffer *buffer) {
    return target_event_retain(buffer->ready);
}

// ---- reading

static HloStatus deleted_error(void) {
    return hlo_error(HLO_INVALID_ARGUMENT, "the buffer has been deleted or donated");
}

// Returns the content with a reference, once it is ready. Deletion is checked twice, before the wait and after it: in
// between, another thread may delete or donate.
static HloStatus await_storage(TargetBuffer *buffer, TargetStorage **storage) {
    if (target_buffer_is_deleted(buffer)) return deleted_error();
    HLO_TRY(target_event_wait(buffer->ready));
    *storage = target_buffer_take_storage(buffer);
    return *storage ? HLO_SUCCESS : deleted_error();
}

// Copies the content of an array to the host, in its order of dimensions (NULL: row-major).
static void copy_out(const HloShape *shape, const TargetStorage *storage, void *destination, int64_t bytes,
                     const int64_t *minor_to_major) {
    assert(bytes == hlo_shape_bytes(shape)); /* callers reject other sizes */
    if (!minor_to_major || !bytes) {
        if (bytes) memcpy(destination, storage->data, (size_t)bytes);
        return;
    }
    int64_t from[HLO_MAXIMUM_RANK], to[HLO_MAXIMUM_RANK];
    const int64_t width = hlo_type_bytes(shape->type);
    dense_strides(shape->dims, shape->rank, width, NULL, from);
    dense_strides(shape->dims, shape->rank, width, minor_to_major, to);
    copy_strided(destination, to, storage->data, from, shape->dims, shape->rank, width);
}

static HloStatus check_host_bytes(const HloShape *shape, int64_t bytes) {
    HLO_FAIL_IF(bytes != hlo_shape_bytes(shape), HLO_INVALID_ARGUMENT, "%lld bytes for an array of %lld",
                (long long)bytes, (long long)hlo_shape_bytes(shape));
    return HLO_SUCCESS;
}

HloStatus target_buffer_to_host(TargetBuffer *buffer, void *destination, int64_t bytes, const int64_t *minor_to_major) {
    assert(buffer);
    HLO_TRY(check_host_bytes(buffer->shape, bytes));
    TargetStorage *storage;
    HLO_TRY(await_storage(buffer, &storage));
    copy_out(buffer->shape, storage, destination, bytes, minor_to_major);
    target_storage_release(storage);
    return HLO_SUCCESS;
}

HloStatus target_buffer_to_host_raw(TargetBuffer *buffer, void *destination, int64_t offset, int64_t bytes) {
    const int64_t size = hlo_shape_bytes(buffer->shape);
    HLO_FAIL_IF(offset < 0 || bytes < 0 || offset > size || bytes > size - offset, HLO_INVALID_ARGUMENT,
                "%lld bytes at %lld of a buffer of %lld", (long long)bytes, (long long)offset, (long long)size);
    TargetStorage *storage;
    HLO_TRY(await_storage(buffer, &storage));
    if (bytes) memcpy(destination, (const char *)storage->data + offset, (size_t)bytes);
    target_storage_release(storage);
    return HLO_SUCCESS;
}

// Sizes come from memory that a program has written: they are clamped to the bounds, as is everything sized by them.
HloStatus target_buffer_sizes(TargetBuffer *buffer, int64_t *sizes) {
    assert(buffer && (sizes || buffer->shape->rank == 0));
    const HloShape *shape = buffer->shape;
    for (int32_t d = 0; d < shape->rank; d++) sizes[d] = shape->dims[d];
    if (!hlo_shape_is_dynamic(shape)) return HLO_SUCCESS;
    TargetStorage *storage;
    HLO_TRY(await_storage(buffer, &storage));
    for (int32_t d = 0; d < shape->rank; d++) {
        const int32_t size = cpu_buffer_sizes(shape, storage->data)[d];
        if (size >= 0 && size < sizes[d]) sizes[d] = size;
    }
    target_storage_release(storage);
    return HLO_SUCCESS;
}

// Returns the existing elements of an array of dynamic size: the first ones of the buffer.
static HloStatus to_actual_literal(TargetBuffer *buffer, HloLiteral **result) {
    HloShape shape = *buffer->shape;
    int64_t sizes[HLO_MAXIMUM_RANK];
    assert(shape.rank <= HLO_MAXIMUM_RANK); /* no array has more dimensions */
    HLO_TRY(target_buffer_sizes(buffer, sizes));
    shape.dims = sizes;
    shape.dynamic = NULL;
    HloLiteral *literal = hlo_literal_new(&shape);
    if (!literal) return no_memory(&shape);
    const HloStatus status = target_buffer_to_host_raw(buffer, literal->data, 0, hlo_shape_bytes(&shape));
    if (status)
        hlo_literal_free(literal);
    else
        *result = literal;
    return status;
}

HloStatus target_buffer_to_literal(TargetBuffer *buffer, HloLiteral **result) {
    assert(buffer && result);
    if (hlo_shape_is_dynamic(buffer->shape)) return to_actual_literal(buffer, result);
    HloLiteral *literal = hlo_literal_new(buffer->shape);
    if (!literal) return no_memory(buffer->shape);
    const HloStatus status = target_buffer_to_host(buffer, literal->data, hlo_shape_bytes(buffer->shape), NULL);
    if (status)
        hlo_literal_free(literal);
    else
        *result = literal;
    return status;
}

HloStatus target_buffer_data(TargetBuffer *buffer, const void **data) {
    TargetStorage *storage;
    HLO_TRY(await_storage(buffer, &storage));
    *data = storage->data;
    target_storage_release(storage);
    return HLO_SUCCESS;
}

// ---- asynchronous copies

typedef struct HostCopy {
    TargetBuffer *buffer;
    void *destination;
    int64_t bytes;
    int64_t minor_to_major[HLO_MAXIMUM_RANK];
    bool has_order;
    TargetEvent *event;
} HostCopy;

// Runs on the thread that made the buffer ready, or on the caller's; copies, releases the claim, and sets the event.
static void finish_host_copy(HloStatus status, void *argument) {
    HostCopy *copy = argument;
    TargetStorage *storage = target_buffer_take_claimed(copy->buffer);
    assert(status || storage); /* a claim keeps the content until it is taken */
    if (!status)
        copy_out(copy->buffer->shape, storage, copy->destination, copy->bytes,
                 copy->has_order ? copy->minor_to_major : NULL);
    target_storage_release(storage);
    target_event_set(copy->event, status);
    target_event_release(copy->event);
    target_buffer_release(copy->buffer);
    hlo_free(copy);
}

// Claims the content, whether it is ready or not: if the buffer is deleted or donated from now on, the content is left
// to the claimant, who gets it with target_buffer_take_claimed(). An error if the buffer has been deleted before.
static HloStatus claim(TargetBuffer *buffer) {
    pthread_mutex_lock(&buffer->lock);
    const bool gone = buffer->deleted;
    if (!gone) buffer->claims++;
    pthread_mutex_unlock(&buffer->lock);
    return gone ? deleted_error() : HLO_SUCCESS;
}

// Starts a copy whose event has two references: the caller's, and the copy's own.
HloStatus target_buffer_to_host_async(TargetBuffer *buffer, void *destination, int64_t bytes,
                                      const int64_t *minor_to_major, TargetEvent **event) {
    assert(buffer && event);
    HLO_TRY(check_host_bytes(buffer->shape, bytes));
    HostCopy *copy = hlo_allocate_zeroed(1, sizeof *copy);
    TargetEvent *done = target_event_new();
    HloStatus status = copy && done ? claim(buffer) : no_memory(buffer->shape);
    if (status) {
        hlo_free(copy);
        target_event_release(done);
        return status;
    }
    *copy = (HostCopy){.buffer = target_buffer_retain(buffer),
                       .destination = destination,
                       .bytes = bytes,
                       .has_order = minor_to_major != NULL,
                       .event = target_event_retain(done)};
    if (minor_to_major) memcpy(copy->minor_to_major, minor_to_major, sizeof(int64_t) * (size_t)buffer->shape->rank);
    status = target_event_on_ready(buffer->ready, finish_host_copy, copy);
    if (status) {
        target_storage_release(target_buffer_take_claimed(buffer));
        target_event_release(copy->event);
        target_event_release(done);
        target_buffer_release(buffer);
        hlo_free(copy);
        return status;
    }
    *event = done;
    return HLO_SUCCESS;
}

// All memories are this host's, and buffers do not change: the copy is another name for the same storage.
typedef struct MemoryCopy {
    TargetBuffer *from, *to;
    bool is_renaming;  // on a chip this creates no second array
} MemoryCopy;

// Counts the new buffer on its meter, in place of the old one if a chip would have one array under two names.
static HloStatus charge_copy(const MemoryCopy *copy) {
    if (copy->is_renaming && copy->from->memory == copy->to->memory) {
        pthread_mutex_lock(&copy->from->lock);
        target_buffer_discharge(copy->from);
        pthread_mutex_unlock(&copy->from->lock);
    }
    return target_buffer_charge(copy->to);
}

static void finish_memory_copy(HloStatus status, void *argument) {
    MemoryCopy *copy = argument;
    TargetStorage *storage = target_buffer_take_claimed(copy->from);
    assert(status || storage); /* a claim keeps the content until it is taken */
    if (!status) status = charge_copy(copy);
    if (!status)
        target_buffer_fill(copy->to, storage);
    else
        target_storage_release(storage);
    target_event_set(copy->to->ready, status);
    target_buffer_release(copy->from);
    target_buffer_release(copy->to);
    hlo_free(copy);
}

// Moves no bytes: the pending buffer gets a reference to the storage of the other, which therefore is no longer the
// only owner; a later donation of either does not overwrite it.
static HloStatus copy_when_ready(TargetBuffer *pending, TargetBuffer *with, bool is_renaming) {
    assert(pending && with && pending != with);
    MemoryCopy *copy = hlo_allocate(sizeof *copy);
    if (!copy) return no_memory(with->shape);
    *copy = (MemoryCopy){target_buffer_retain(with), target_buffer_retain(pending), is_renaming};
    const HloStatus gone = claim(with);
    HloStatus status = gone ? gone : target_event_on_ready(with->ready, finish_memory_copy, copy);
    if (!status) return HLO_SUCCESS;
    if (!gone) target_storage_release(target_buffer_take_claimed(with));
    target_buffer_release(with);
    target_buffer_release(pending);
    hlo_free(copy);
    return status;
}

HloStatus target_buffer_fulfil(TargetBuffer *pending, TargetBuffer *with) {
    return copy_when_ready(pending, with, true);
}

// Returns the content of `buffer` as an array of `shape` in `memory`.
static HloStatus copy_content(TargetBuffer *buffer, const HloShape *shape, TargetMemory *memory, bool is_renaming,
                              TargetBuffer **result) {
    HLO_FAIL_IF(memory->device->client != buffer->client, HLO_INVALID_ARGUMENT, "a memory of another client");
    if (target_buffer_is_deleted(buffer)) return deleted_error();
    TargetBuffer *to = target_buffer_new(shape, memory);
    if (!to) return no_memory(shape);
    const HloStatus status = copy_when_ready(to, buffer, is_renaming);
    if (status)
        target_buffer_release(to);
    else
        *result = to;
    return status;
}

HloStatus target_buffer_copy_to_memory(TargetBuffer *buffer, TargetMemory *memory, TargetBuffer **result) {
    HLO_TRY(target_memory_check_local(memory));
    return copy_content(buffer, buffer->shape, memory, false, result);
}

HloStatus target_buffer_bitcast(TargetBuffer *buffer, const HloShape *shape, TargetBuffer **result) {
    assert(buffer && shape && result);
    HLO_FAIL_IF(!hlo_shape_is_array(shape), HLO_INVALID_ARGUMENT, "a bitcast to %s", hlo_type_text(shape->type));
    HLO_TRY(check_shape(shape));
    HLO_FAIL_IF(hlo_shape_is_dynamic(shape) || hlo_shape_is_dynamic(buffer->shape), HLO_UNIMPLEMENTED,
                "a bitcast of an array of dynamic size");
    HLO_FAIL_IF(hlo_shape_bytes(shape) != hlo_shape_bytes(buffer->shape), HLO_INVALID_ARGUMENT,
                "a bitcast of %lld bytes to an array of %lld", (long long)hlo_shape_bytes(buffer->shape),
                (long long)hlo_shape_bytes(shape));
    return copy_content(buffer, shape, buffer->memory, true, result);
}

// ---- promises and views

HloStatus target_buffer_pending(const HloShape *shape, TargetMemory *memory, TargetBuffer **result) {
    HLO_TRY(check_shape(shape));
    HLO_TRY(target_memory_check_local(memory));
    *result = target_buffer_new(shape, memory);
    return *result ? HLO_SUCCESS : no_memory(shape);
}

void target_buffer_fail(TargetBuffer *pending, HloStatus error) {
    target_event_set(pending->ready, error);
}

// Copies memory that is not aligned as our kernels require (64 bytes, a cache line and the widest vector), and releases
// it immediately. After an error `release` is not called: the memory stays the caller's.
HloStatus target_buffer_view(const HloShape *shape, TargetMemory *memory, void *data,
                             void (*release)(void *data, void *argument), void *argument, TargetBuffer **result) {
    assert(shape && memory && result);
    enum { kAlignment = 64 };
    assert(release); /* it also marks the memory as another owner's */
    // Kernels need this much; and the caller's bytes may have arbitrary bits beside narrow elements, which we must not
    // change.
    if ((uintptr_t)data % kAlignment || is_narrow(shape->type)) {
        HLO_TRY(new_filled(shape, memory, data, result));
        if (is_narrow(shape->type)) extend_narrow(shape->type, (*result)->storage->data, hlo_shape_elements(shape));
        release(data, argument);
        return HLO_SUCCESS;
    }
    HLO_TRY(target_buffer_pending(shape, memory, result));
    HloStatus status = target_buffer_charge(*result);
    TargetStorage *storage = status ? NULL : target_storage_view(data, hlo_shape_bytes(shape), release, argument);
    if (!storage) {
        target_buffer_release(*result);
        return status ? status : no_memory(shape);
    }
    (*result)->storage = storage;
    target_event_set((*result)->ready, HLO_SUCCESS);
    return HLO_SUCCESS;
}
