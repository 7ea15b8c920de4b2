// SPDX-License-Identifier: Apache-2.0
// Shared by the tests that call the plugin: errors as statuses, and a client that is made while there is memory.
#ifndef MESHLO_TESTS_MEMORY_PLUGIN_H_
#define MESHLO_TESTS_MEMORY_PLUGIN_H_

#include "tests/memory/doors.h"
#include "tests/pjrt/harness.h"

// Objects that are made before: memory is short while they are used, not while it is made.
typedef struct Ready {
    PjrtClient *client;  // v2-8
    PjrtLoadedExecutable *executable;
    PjrtBuffer *arguments[16];
} Ready;

// A pending error as a status; destroys it. NULL is success.
HloStatus status_of(PjrtError *error);
void destroy_event(PjrtEvent *event);
// The error that the event came with; success for NULL.
HloStatus wait_for(PjrtEvent *event);

PjrtClient *client_of(const World *world);
PjrtDevice *first_device(PjrtClient *client);
PjrtMemory *first_memory(PjrtClient *client);
// A new buffer of a literal's f32 elements.
HloStatus to_device(PjrtClient *client, const HloLiteral *literal, PjrtBuffer **buffer);
// Waits for a copy of `size` bytes.
HloStatus to_host(PjrtBuffer *buffer, float *out, size_t size);

// For NamedDoor: world->more becomes a Ready with a client; with the world's program and its arguments too; is freed.
void open_client(World *world);
void open_executable(World *world);
void close_all(World *world);

#endif
