// SPDX-License-Identifier: Apache-2.0
// Device timelines in traces of jax.profiler: for each device a plane with a line of programs and one of instructions,
// as an XSpace (tsl/profiler/protobuf/xplane.proto). Times are those of this host, not those of the chip.
//
// The profiler's functions take no client: the active session is the only global state of the plugin.
//
// Threads. Executions record from any worker, under the profiler's lock; starting and stopping take the session's lock
// first. An execution that began during the session holds a reference (pjrt_profiler_trace()), so a profiler that its
// user has destroyed lives until the last of them has ended; what they record after the stop is dropped.
//
// Names are kept once and numbered, because XSpace refers to them by number (event metadata), and a step of a model
// runs the same few hundred instructions thousands of times.
#include <assert.h>
#include <string.h>
#include <time.h>

#include "hlo/base/map.h"
#include "hlo/proto/wire.h"
#include "pjrt/extensions.h"
#include "pjrt/objects.h"

enum { MOST_EVENTS = 4 * 1000 * 1000 };  // a hundred megabytes; what comes after is counted only

typedef struct Event {
    int32_t device, name;
    bool program;
    int64_t begin, end;  // nanoseconds since 1970
} Event;

struct PjrtProfiler {
    atomic_int references;  // the caller's and those of executions on their way
    bool wanted;            // the options request devices
    pthread_mutex_t lock;   // guards what follows
    bool running;
    int64_t start;
    HloArena *arena;     // owns the names
    HloStringMap known;  // name -> its number + 1
    HLO_VECTOR(const char *) names;
    HLO_VECTOR(const TargetDevice *) devices;  // by first appearance; they outlive the executions that name them
    HLO_VECTOR(char *) device_names;
    Event *events;
    int64_t count, capacity, lost;
    HloText bytes;  // the XSpace
};

static pthread_mutex_t session_lock = PTHREAD_MUTEX_INITIALIZER;
static PjrtProfiler *_Atomic session;  // the one that is on, or NULL

// The last of the caller and of the executions that were still writing to it.
static void release_profiler(void *object) {
    PjrtProfiler *profiler = object;
    if (atomic_fetch_sub(&profiler->references, 1) != 1) return;
    pthread_mutex_destroy(&profiler->lock);
    hlo_arena_free(profiler->arena);
    hlo_free(profiler->events);
    hlo_text_free(&profiler->bytes);
    hlo_free(profiler);
}

// ---- recording

typedef struct Naming {
    PjrtProfiler *profiler;
    const char *name;
    const TargetDevice *device;
    int32_t name_number, device_number;
} Naming;

// Runs under the lock; jumps when memory is short. Numbers of names begin with 1, as 0 is not an id in XSpace. Few
// devices record, so these are searched in order. A failure in the middle at most leaves a name registered twice, which
// readers accept.
static HloStatus find_names(void *argument) {
    Naming *naming = argument;
    PjrtProfiler *profiler = naming->profiler;
    const size_t length = strlen(naming->name);
    intptr_t number = (intptr_t)hlo_string_map_get(&profiler->known, naming->name, length);
    if (!number) {
        const char *copy = hlo_arena_string(profiler->arena, naming->name, length);
        hlo_vector_push(profiler->arena, &profiler->names, copy);
        number = (intptr_t)profiler->names.count;
        hlo_string_map_set(profiler->arena, &profiler->known, copy, length, (void *)number);
    }
    naming->name_number = (int32_t)number;
    for (int64_t i = 0; i < profiler->devices.count; i++)
        if (profiler->devices.items[i] == naming->device) naming->device_number = (int32_t)i + 1;
    if (naming->device_number) return HLO_SUCCESS;
    char *name = hlo_arena_format(profiler->arena, "/device:TPU:%lld", (long long)naming->device->id);
    hlo_vector_push(profiler->arena, &profiler->devices, naming->device);
    hlo_vector_push(profiler->arena, &profiler->device_names, name);
    naming->device_number = (int32_t)profiler->devices.count;
    return HLO_SUCCESS;
}

// Doubles the capacity, so that an event takes constant time; copying the events is cheap compared with the executions
// that made them. False when memory is short or the limit is reached.
static bool has_room(PjrtProfiler *profiler) {
    if (profiler->count < profiler->capacity) return true;
    if (profiler->capacity >= MOST_EVENTS) return false;
    const int64_t capacity = profiler->capacity ? 2 * profiler->capacity : 1024;
    Event *events = hlo_allocate((size_t)capacity * sizeof(Event));
    if (!events) return false;
    if (profiler->count) memcpy(events, profiler->events, (size_t)profiler->count * sizeof(Event));
    hlo_free(profiler->events);
    profiler->events = events;
    profiler->capacity = capacity;
    return true;
}

static void record(void *context, const TargetDevice *device, const char *name, bool program, int64_t begin,
                   int64_t end) {
    assert(name); /* but `end` may lie before `begin`: this clock may be set back */
    PjrtProfiler *profiler = context;
    Naming naming = {.profiler = profiler, .name = name, .device = device};
    pthread_mutex_lock(&profiler->lock);
    if (profiler->running) {
        HloStatus status = has_room(profiler) ? hlo_protect(find_names, &naming) : NULL;
        if (!status && naming.name_number)
            profiler->events[profiler->count++] =
                (Event){naming.device_number - 1, naming.name_number, program, begin, end};
        else
            profiler->lost++;
        hlo_status_free(status);
    }
    pthread_mutex_unlock(&profiler->lock);
}

// First checks without the lock: every launch calls this, and a profile is rarely in progress. A session that starts
// just then applies from the next launch on.
bool pjrt_profiler_trace(TargetTrace *trace) {
    if (!atomic_load_explicit(&session, memory_order_relaxed)) return false;
    pthread_mutex_lock(&session_lock);
    PjrtProfiler *profiler = atomic_load(&session);
    if (profiler) atomic_fetch_add(&profiler->references, 1);
    pthread_mutex_unlock(&session_lock);
    if (!profiler) return false;
    *trace = (TargetTrace){record, release_profiler, profiler};
    return true;
}

// ---- the XSpace

// Times in XSpace are picoseconds after the line's timestamp (offset_ps, duration_ps), ours nanoseconds. Events of a
// launch that began before the session are clipped to its start.
static void print_line(const PjrtProfiler *profiler, int32_t device, bool programs, HloText *text) {
    const size_t line = hlo_wire_begin(text, 3);
    hlo_wire_varint(text, 1, programs ? 1 : 2);
    hlo_wire_string_field(text, 2, programs ? "XLA Modules" : "XLA Ops");
    hlo_wire_varint(text, 3, (uint64_t)profiler->start);
    for (int64_t i = 0; i < profiler->count; i++) {
        const Event *event = &profiler->events[i];
        if (event->device != device || event->program != programs) continue;
        const int64_t offset = event->begin > profiler->start ? event->begin - profiler->start : 0;
        const size_t mark = hlo_wire_begin(text, 4);
        hlo_wire_varint(text, 1, (uint64_t)event->name);
        hlo_wire_varint_always(text, 2, (uint64_t)offset * 1000);
        hlo_wire_varint_always(text, 3, (uint64_t)(event->end > event->begin ? event->end - event->begin : 0) * 1000);
        hlo_wire_end(text, mark);
    }
    hlo_wire_end(text, line);
}

// The metadata map is repeated in each plane, since ids are the plane's own.
static void print_names(const PjrtProfiler *profiler, HloText *text) {
    for (int64_t i = 0; i < profiler->names.count; i++) {
        const size_t entry = hlo_wire_begin(text, 4);
        hlo_wire_varint(text, 1, (uint64_t)i + 1);
        const size_t value = hlo_wire_begin(text, 2);
        hlo_wire_varint(text, 1, (uint64_t)i + 1);
        hlo_wire_string_field(text, 2, profiler->names.items[i]);
        hlo_wire_end(text, value);
        hlo_wire_end(text, entry);
    }
}

// XSpace {1: planes {1: id, 2: name, 3: lines {1: id, 2: name, 3: timestamp_ns, 4: events {1: metadata_id,
// 2: offset_ps, 3: duration_ps}}, 4: event_metadata {1: key, 2: {1: id, 2: name}}}, 3: warnings}
static void print_space(PjrtProfiler *profiler) {
    HloText *text = &profiler->bytes;
    hlo_text_free(text);
    for (int32_t d = 0; d < (int32_t)profiler->devices.count; d++) {
        const size_t plane = hlo_wire_begin(text, 1);
        hlo_wire_varint(text, 1, (uint64_t)d + 1);
        hlo_wire_string_field(text, 2, profiler->device_names.items[d]);
        print_line(profiler, d, true, text);
        print_line(profiler, d, false, text);
        print_names(profiler, text);
        hlo_wire_end(text, plane);
    }
    if (profiler->lost) {
        HloText warning = {0};
        hlo_text_format(&warning, "%lld events of devices were lost", (long long)profiler->lost);
        hlo_wire_string_field(text, 3, warning.data);
        hlo_text_free(&warning);
    }
}

// ---- the functions of the profiler; their callers do not fill in struct_size

// False for tpu_trace_mode=TRACE_ONLY_HOST, which is text in the map advanced_configuration of ProfileOptions.
// Searching the bytes replaces parsing the map: the word has no meaning anywhere else in ProfileOptions.
static bool needs_devices(const char *options, size_t size) {
    static const char word[] = "TRACE_ONLY_HOST";
    for (size_t i = 0; i + sizeof(word) - 1 <= size; i++)
        if (memcmp(options + i, word, sizeof(word) - 1) == 0) return false;
    return true;
}

static PjrtError *profiler_create(void *arguments) {
    PjrtProfilerCreateArgs *args = arguments;
    PjrtProfiler *profiler = hlo_allocate_zeroed(1, sizeof(*profiler));
    if (!profiler) return pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
    atomic_init(&profiler->references, 1);
    pthread_mutex_init(&profiler->lock, NULL);
    profiler->wanted = needs_devices(args->options, args->options_size);
    profiler->arena = hlo_arena_new();
    if (!profiler->arena) {
        release_profiler(profiler);
        return pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
    }
    args->profiler = profiler;
    return NULL;
}

// One session at a time: executions have no client, and so could not tell two profilers apart. Starting a profiler that
// is running is not an error.
static PjrtError *profiler_start(void *arguments) {
    PjrtProfiler *profiler = ((PjrtProfilerArgs *)arguments)->profiler;
    if (!profiler->wanted) return NULL;
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    PjrtError *error = NULL;
    pthread_mutex_lock(&session_lock);
    if (atomic_load(&session) && atomic_load(&session) != profiler) {
        error = pjrt_fail(HLO_FAILED_PRECONDITION, "another profiling session is active");
    } else {
        pthread_mutex_lock(&profiler->lock);
        profiler->running = true;
        profiler->start = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
        pthread_mutex_unlock(&profiler->lock);
        atomic_store(&session, profiler);
    }
    pthread_mutex_unlock(&session_lock);
    return error;
}

static PjrtError *profiler_stop(void *arguments) {
    PjrtProfiler *profiler = ((PjrtProfilerArgs *)arguments)->profiler;
    pthread_mutex_lock(&session_lock);
    if (atomic_load(&session) == profiler) atomic_store(&session, NULL);
    pthread_mutex_unlock(&session_lock);
    pthread_mutex_lock(&profiler->lock);
    profiler->running = false;
    pthread_mutex_unlock(&profiler->lock);
    return NULL;
}

// A profiler that still runs is stopped first; NULL is allowed, as for all destroyers of the API.
static PjrtError *profiler_destroy(void *arguments) {
    PjrtProfilerArgs *args = arguments;
    if (!args->profiler) return NULL;
    PjrtError *error = profiler_stop(arguments);
    release_profiler(args->profiler);
    return error;
}

// With buffer NULL the bytes stay the profiler's; else they are copied.
static PjrtError *profiler_collect(void *arguments) {
    PjrtProfilerCollectArgs *args = arguments;
    PjrtProfiler *profiler = args->profiler;
    pthread_mutex_lock(&profiler->lock);
    print_space(profiler);
    const bool failed = profiler->bytes.failed;
    if (!failed) {
        args->buffer_size_in_bytes = profiler->bytes.length;
        if (!args->buffer)
            args->buffer = (uint8_t *)(profiler->bytes.data ? profiler->bytes.data : "");
        else if (profiler->bytes.length)
            memcpy(args->buffer, profiler->bytes.data, profiler->bytes.length);
    }
    pthread_mutex_unlock(&profiler->lock);
    return failed ? pjrt_fail(HLO_RESOURCE_EXHAUSTED, "no memory for a profile") : NULL;
}

static const PjrtProfilerApi api = {
    .struct_size = sizeof(PjrtProfilerApi),
    .error_destroy = pjrt_error_destroy,
    .error_message = pjrt_error_message,
    .error_get_code = pjrt_error_get_code,
    .create = profiler_create,
    .destroy = profiler_destroy,
    .start = profiler_start,
    .stop = profiler_stop,
    .collect_data = profiler_collect,
};

// The last of the chain.
PjrtProfilerExtension pjrt_profiler_extension = {
    .node = {.struct_size = sizeof(PjrtProfilerExtension), .type = PJRT_EXTENSION_PROFILER}, .api = &api};
