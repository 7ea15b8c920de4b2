// SPDX-License-Identifier: Apache-2.0
// Faults whose cost a user wants to see: slower links, slower devices, dead chips. They are parsed into tables by link,
// device and chip. A table is NULL if it would be empty, so that a healthy slice costs nothing.
//
//   link:0-2:0.5     the link between devices 0 and 2, both directions, at half its speed
//   straggler:3:1.5  device 3 takes one and a half times as long, and all others wait for it
//   dead:5           the chip of device 5: a program with a part there cannot run, nor a route across it
//
// Several faults are separated by commas; those that affect the same link or device multiply.
#include "emulator/fault.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/decimal.h"

// The state of parsing faults.
typedef struct Reader {
    HloArena *arena;
    const EmuTopology *topology;
    EmuFaults *faults;
    const char *spec;
    const char *at;
} Reader;

static HloStatus expected(const Reader *reader, const char *what) {
    return hlo_error(HLO_INVALID_ARGUMENT,
                     "fault '%s': %s; known are link:A-B:SPEED, straggler:D:TIMES and dead:D, as in link:0-2:0.5",
                     reader->spec, what);
}

// An array of ones, one for each of `count`.
static double *ones(HloArena *arena, int64_t count) {
    double *values = HLO_ARENA_NEW(arena, double, count);
    for (int64_t i = 0; i < count; i++) values[i] = 1;
    return values;
}

// Reads a device id and returns its position.
static HloStatus read_device(Reader *reader, int64_t *place) {
    char *end = NULL;
    if (!isdigit((unsigned char)*reader->at)) return expected(reader, "a device id is missing");
    const long long id = strtoll(reader->at, &end, 10);
    reader->at = end;
    *place = emu_topology_find_device(reader->topology, id);
    HLO_FAIL_IF(*place < 0, HLO_INVALID_ARGUMENT, "fault '%s': there is no device %lld on %s", reader->spec, id,
                reader->topology->name);
    return HLO_SUCCESS;
}

// Reads `:NUMBER`, which must be positive.
static HloStatus read_factor(Reader *reader, double *factor) {
    char *end = NULL;
    if (*reader->at != ':') return expected(reader, "a number is missing");
    *factor = hlo_strtod(++reader->at, &end);
    if (end == reader->at || !(*factor > 1e-9 && *factor < 1e9)) return expected(reader, "the number must be positive");
    reader->at = end;
    return HLO_SUCCESS;
}

// Reads a link fault, for both directions; several faults of one link multiply.
static HloStatus read_link(Reader *reader) {
    const EmuTopology *topology = reader->topology;
    int64_t from = 0, to = 0, there[EMU_MAX_ROUTE], back[EMU_MAX_ROUTE];
    double speed = 1;
    HLO_TRY(read_device(reader, &from));
    if (*reader->at++ != '-') return expected(reader, "two devices are expected");
    HLO_TRY(read_device(reader, &to));
    HLO_TRY(read_factor(reader, &speed));
    HLO_FAIL_IF(topology->devices[from].slice_index != topology->devices[to].slice_index ||
                    emu_route(topology, from, to, there) != 1 || emu_route(topology, to, from, back) != 1,
                HLO_INVALID_ARGUMENT, "fault '%s': there is no link between devices %lld and %lld", reader->spec,
                (long long)topology->devices[from].id, (long long)topology->devices[to].id);
    if (!reader->faults->link_slowness) reader->faults->link_slowness = ones(reader->arena, emu_link_limit(topology));
    reader->faults->link_slowness[there[0]] /= speed;
    reader->faults->link_slowness[back[0]] /= speed;
    return HLO_SUCCESS;
}

// Reads how many times slower a device is.
static HloStatus read_straggler(Reader *reader) {
    int64_t place = 0;
    double times = 1;
    HLO_TRY(read_device(reader, &place));
    HLO_TRY(read_factor(reader, &times));
    if (!reader->faults->device_slowness)
        reader->faults->device_slowness = ones(reader->arena, reader->topology->device_count);
    reader->faults->device_slowness[place] *= times;
    return HLO_SUCCESS;
}

// Marks the whole chip of the device as dead, since cores share power and links.
static HloStatus read_dead(Reader *reader) {
    int64_t place = 0;
    HLO_TRY(read_device(reader, &place));
    if (!reader->faults->dead_chips)
        reader->faults->dead_chips = HLO_ARENA_NEW(reader->arena, bool, reader->topology->chip_count);
    reader->faults->dead_chips[emu_topology_chip_of(reader->topology, &reader->topology->devices[place])] = true;
    return HLO_SUCCESS;
}

// Parses a list separated by commas; NULL is an empty list.
HloStatus emu_faults_parse(HloArena *arena, const EmuTopology *topology, const char *spec, EmuFaults *faults) {
    static const struct {
        const char *word;
        HloStatus (*read)(Reader *reader);
    } kinds[] = {{"link:", read_link}, {"straggler:", read_straggler}, {"dead:", read_dead}};
    *faults = (EmuFaults){0};
    if (!spec) return HLO_SUCCESS;
    Reader reader = {arena, topology, faults, spec, spec};
    for (;;) {
        size_t kind = 0;
        while (kind < HLO_COUNT_OF(kinds) && strncmp(reader.at, kinds[kind].word, strlen(kinds[kind].word))) kind++;
        if (kind == HLO_COUNT_OF(kinds)) return expected(&reader, "unknown kind of fault");
        reader.at += strlen(kinds[kind].word);
        HLO_TRY(kinds[kind].read(&reader));
        if (!*reader.at) return HLO_SUCCESS;
        if (*reader.at++ != ',') return expected(&reader, "faults are separated by commas");
    }
}

// Reports before anything is timed that a program cannot run, with the first eight participants that are lost.
// Otherwise the first collective that reaches the dead chip would report it.
HloStatus emu_faults_check_devices(const EmuFaults *faults, const EmuTopology *topology, const int64_t *places,
                                   int64_t count) {
    assert(faults && count >= 0);
    if (!faults->dead_chips) return HLO_SUCCESS;
    HloText lost = {0};
    int64_t total = 0;
    for (int64_t i = 0; i < count; i++) {
        const EmuDevice *device = &topology->devices[places[i]];
        if (!faults->dead_chips[emu_topology_chip_of(topology, device)]) continue;
        if (total++ < 8)
            hlo_text_format(&lost, "%sparticipant %lld on device %lld", total > 1 ? ", " : "", (long long)i,
                            (long long)device->id);
    }
    HloStatus status = NULL;
    if (total)
        status = hlo_error(HLO_UNAVAILABLE,
                           "the program cannot run: dead chips take %lld of its %lld participants (%s%s); every "
                           "collective of their groups would wait forever",
                           (long long)total, (long long)count, lost.data ? lost.data : "", total > 8 ? ", …" : "");
    hlo_text_free(&lost);
    return status;
}
