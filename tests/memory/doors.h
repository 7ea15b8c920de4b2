// SPDX-License-Identifier: Apache-2.0
// Short of memory at any allocation: an entry point (a door, here) is called again and again while the first, the
// second, the third … allocation of the calling thread fails, until it needs no more of them than there are.
#ifndef MESHLO_TESTS_MEMORY_DOORS_H_
#define MESHLO_TESTS_MEMORY_DOORS_H_

#include <criterion/parameterized.h>

#include "emulator/topology.h"
#include "hlo/hlo.h"
#include "targets/client.h"

// The data of a door: a program, in the forms that some of them read, and arguments for it.
typedef struct World {
    HloModule *module;
    HloText text, proto, stablehlo, bytecode;
    HloLiteral *arguments[16];
    int64_t argument_count;
    TargetClient *client;   // cpu:4
    EmuTopology *topology;  // v5e-4
    char path[64];          // of a file that a door may write
    void *more;             // made by a door's `open`
} World;

// Does one thing with the library; frees what it was given.
typedef HloStatus Door(const World *world);

typedef struct NamedDoor {
    const char *name;
    Door *door;
    void (*open)(World *world), (*close)(World *world);  // around all calls, with memory enough; or NULL
} NamedDoor;

// Makes a world and expects RESOURCE_EXHAUSTED of the door, and nothing else, for as long as memory is short.
void door_must_survive(const NamedDoor *door);

#endif
