// SPDX-License-Identifier: Apache-2.0
// Errors and events. An error is a status preceded by the table of functions that the ABI requires, so that other
// libraries can read it without knowing its origin. Events wrap those of targets/client.h.
#include <assert.h>
#include <stdarg.h>
#include <string.h>

#include "pjrt/objects.h"

// ---- errors

// The ABI's tables have typed pointers, our handlers untyped ones (pjrt/functions.def); these four bridge the types.
static void table_destroy(PjrtErrorDestroyArgs *arguments) {
    pjrt_error_destroy(arguments);
}
static void table_message(PjrtErrorMessageArgs *arguments) {
    pjrt_error_message(arguments);
}
static PjrtError *table_code(PjrtErrorGetCodeArgs *arguments) {
    return pjrt_error_get_code(arguments);
}
static PjrtError *table_payload(PjrtErrorForEachPayloadArgs *arguments) {
    return pjrt_error_for_each_payload(arguments);
}

static const PjrtErrorFunctionTable error_table = {
    .struct_size = sizeof(PjrtErrorFunctionTable),
    .instance_size = sizeof(PjrtError),
    .destroy = table_destroy,
    .message = table_message,
    .get_code = table_code,
    .for_each_payload = table_payload,
};

// Replaces errors for which there is no memory; never freed.
static PjrtError out_of_memory = {.table = &error_table};

// The readable form of an error in a program's text: the position, the message, the line and a mark below it. NULL for
// all other errors, whose message is complete. A caller in Python sees only the message: XLA's errors carry their
// position in it too.
static char *placed_message(HloStatus status) {
    const HloPlace *place = hlo_status_place(status);
    if (!place || place->line <= 0) return NULL;
    char *text = hlo_status_to_text(status);
    if (text) text[strlen(text) - 1] = 0;  // it ends with a newline, which jaxlib's exceptions do not
    return text;
}

PjrtError *pjrt_error_from(HloStatus status) {
    if (!status) return NULL;
    PjrtError *error = hlo_allocate(sizeof(*error));
    if (!error) {
        hlo_status_free(status);
        return &out_of_memory;
    }
    *error = (PjrtError){&error_table, status, placed_message(status)};
    return error;
}

HloStatus pjrt_status_of(int32_t code, const char *message, size_t size) {
    return hlo_error(hlo_code_from_number(code), "%.*s", (int)size, message ? message : "");
}

PjrtError *pjrt_fail(HloCode code, const char *format, ...) {
    assert(code != HLO_OK && format);
    HloText text = {0};
    va_list arguments;
    va_start(arguments, format);
    hlo_text_format_list(&text, format, arguments);
    va_end(arguments);
    HloStatus status = hlo_error(code, "%s", text.data ? text.data : "out of memory");
    hlo_text_free(&text);
    return pjrt_error_from(status);
}

// The static error for lack of memory is never freed.
PjrtError *pjrt_error_destroy(void *arguments) {
    PjrtErrorDestroyArgs *args = arguments;
    if (!args->object || args->object == &out_of_memory) return NULL;
    hlo_status_free(args->object->status);
    hlo_free(args->object->text);
    hlo_free(args->object);
    return NULL;
}

// The text lives as long as the error.
PjrtError *pjrt_error_message(void *arguments) {
    PjrtErrorMessageArgs *args = arguments;
    args->message = args->error->status ? hlo_status_message(args->error->status) : "out of memory";
    if (args->error->text) args->message = args->error->text;
    args->message_size = strlen(args->message);
    return NULL;
}

PjrtError *pjrt_error_get_code(void *arguments) {
    PjrtErrorGetCodeArgs *args = arguments;
    args->code = args->error->status ? (int32_t)hlo_status_code(args->error->status) : HLO_RESOURCE_EXHAUSTED;
    return NULL;
}

// Our errors carry no payloads. An error returned here would make jaxlib request its payloads, without end.
PjrtError *pjrt_error_for_each_payload(void *arguments) {
    (void)arguments;
    return NULL;
}

// ---- events

PjrtEvent *pjrt_event_from(TargetEvent *event) {
    PjrtEvent *handle = event ? hlo_allocate(sizeof(*handle)) : NULL;
    if (!handle) {
        target_event_release(event);
        return NULL;
    }
    handle->event = event;
    return handle;
}

PjrtEvent *pjrt_event_ready(void) {
    TargetEvent *event = target_event_new();
    if (event) target_event_set(event, NULL);
    return pjrt_event_from(event);
}

PjrtError *pjrt_event_destroy(void *arguments) {
    PjrtEventDestroyArgs *args = arguments;
    if (!args->object) return NULL;
    target_event_release(args->object->event);
    hlo_free(args->object);
    return NULL;
}

PjrtError *pjrt_event_is_ready(void *arguments) {
    PjrtEventIsReadyArgs *args = arguments;
    args->is_ready = target_event_is_ready(args->event->event);
    return NULL;
}

// A copy of the event's error, NULL while it is pending.
PjrtError *pjrt_event_error(void *arguments) {
    PjrtEventErrorArgs *args = arguments;
    return pjrt_error_from(target_event_error(args->object->event));
}

PjrtError *pjrt_event_await(void *arguments) {
    PjrtEventAwaitArgs *args = arguments;
    return pjrt_error_from(target_event_wait(args->object->event));
}

typedef struct Callback {
    PjrtOnReady *function;
    void *user_arg;
} Callback;

// The callback owns the error that it gets.
// `argument` is freed first: the callback may destroy the event, and with it everything but this copy.
static void run_callback(HloStatus status, void *argument) {
    Callback callback = *(Callback *)argument;
    hlo_free(argument);
    callback.function(pjrt_error_from(status), callback.user_arg);
}

// Called immediately, on this thread, if the event is ready already; else on the thread that makes it ready.
PjrtError *pjrt_event_on_ready(void *arguments) {
    PjrtEventOnReadyArgs *args = arguments;
    Callback *callback = hlo_allocate(sizeof(*callback));
    if (!callback) return pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
    *callback = (Callback){args->callback, args->user_arg};
    HloStatus status = target_event_on_ready(args->event->event, run_callback, callback);
    if (status) hlo_free(callback);
    return pjrt_error_from(status);
}

PjrtError *pjrt_event_create(void *arguments) {
    PjrtEventCreateArgs *args = arguments;
    args->object = pjrt_event_from(target_event_new());
    return args->object ? NULL : pjrt_fail(HLO_RESOURCE_EXHAUSTED, "out of memory");
}

// For events of Event_Create. The first time counts.
PjrtError *pjrt_event_set(void *arguments) {
    PjrtEventSetArgs *args = arguments;
    HloStatus status = NULL;
    if (args->error_code) status = pjrt_status_of(args->error_code, args->error_message, args->error_message_size);
    target_event_set(args->event->event, status);
    return NULL;
}
