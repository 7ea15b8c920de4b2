// SPDX-License-Identifier: Apache-2.0
// compiled == eval, and text and protobuf lose nothing, over random programs. MESHLO_RANDOM_PROGRAMS sets their number,
// MESHLO_RANDOM_SEED the first. A failure is shown on the shortest program of its seed that still fails.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "hlo/proto/proto.h"
#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"
#include "tests/support/random_module.h"

static HloStatus print(const HloModule *module, HloText *text) {
    HloPrintOptions options = hlo_print_default();
    options.print_large_constants = true;
    return hlo_print(module, &options, text);
}

// The module that its own text gives, and that text; NULL with a message on error.
static HloModule *reread(const HloModule *module, HloText *text, HloText *message) {
    HloStatus status = print(module, text);
    if (!status) return compiled_parse(text->data, message);
    hlo_text_string(message, hlo_status_message(status));
    hlo_status_free(status);
    return NULL;
}

static bool is_lossless(const HloModule *module, const char *text, HloText *message) {
    HloText wire = {0}, again = {0};
    HloModule *decoded = NULL;
    HloStatus status = hlo_module_to_proto(module, &wire);
    if (!status) status = hlo_module_from_proto(wire.data, wire.length, &decoded);
    if (!status) {  // these are fields of ExecutableBuildOptions, not of HloModuleProto
        decoded->replica_count = module->replica_count;
        decoded->num_partitions = module->num_partitions;
    }
    if (!status) status = print(decoded, &again);
    bool ok = !status && strcmp(text, again.data) == 0;
    if (!ok)
        hlo_text_format(message, "the protobuf reads back as\n%s", status ? hlo_status_message(status) : again.data);
    hlo_status_free(status);
    hlo_module_free(decoded);
    hlo_text_free(&wire);
    hlo_text_free(&again);
    return ok;
}

// Returns false with a message if the printed form, read back from text or protobuf, prints differently. Compares
// second prints: a first printing may put computations into XLA's order.
static bool keeps_its_form(const HloModule *module, HloText *message) {
    HloText first = {0}, second = {0}, third = {0};
    HloModule *once = reread(module, &first, message);
    HloModule *twice = once ? reread(once, &second, message) : NULL;
    HloModule *thrice = twice ? reread(twice, &third, message) : NULL;
    bool ok = thrice && strcmp(second.data, third.data) == 0;
    if (thrice && !ok) hlo_text_format(message, "%s\nreads back as\n%s", second.data, third.data);
    ok = ok && is_lossless(twice, third.data, message);
    hlo_module_free(once);
    hlo_module_free(twice);
    hlo_module_free(thrice);
    hlo_text_free(&first);
    hlo_text_free(&second);
    hlo_text_free(&third);
    return ok;
}

typedef enum Kind { USUAL, EXACT, LARGE, DEVICES } Kind;

// The numbers of devices of programs.
enum { MOST_DEVICES = 8 };
typedef struct Clients {
    TargetClient *of[MOST_DEVICES + 1];
} Clients;

// All programs of a run share a client: examining the machine takes longer than such a program.
static TargetClient *client_for(Clients *clients, const HloModule *module, Kind kind) {
    const int64_t devices = (int64_t)module->replica_count * module->num_partitions;
    cr_assert_leq(devices, MOST_DEVICES);
    char machine[16];
    snprintf(machine, sizeof machine, "cpu:%d", (int)devices);
    const int threads = kind == LARGE ? 3 : kind == DEVICES ? 2 : 1;
    if (!clients->of[devices]) must_succeed(target_client_new_with_threads(machine, threads, &clients->of[devices]));
    return clients->of[devices];
}

// One program; false with a message and its text.
static bool holds(Clients *clients, int64_t seed, int operations, Kind kind, HloText *text, HloText *message) {
    static void (*const make[])(uint64_t seed, int operations, HloText *text) = {
        random_module, random_exact_module, random_large_module, random_devices_module};
    const bool exact = kind == EXACT || (kind == LARGE && seed % 2 == 0) || (kind == DEVICES && seed % 3 == 0);
    make[kind]((uint64_t)seed, operations, text);
    HloModule *module = compiled_parse(text->data, message);
    if (!module) return false;
    // Sometimes two neighbours have equal arguments.
    const CompiledCheck check = {.client = client_for(clients, module, kind),
                                 .seed = (uint64_t)seed,
                                 .replicas = kind == DEVICES && seed % 5 == 0 ? 2 : 1,
                                 .extremes = exact,
                                 .allow_fallback = true};
    HloStatus status = hlo_verify(module);
    if (status) hlo_text_string(message, hlo_status_message(status));
    bool ok = !status && compiled_equals_eval(module, &check, message) && keeps_its_form(module, message);
    hlo_status_free(status);
    hlo_module_free(module);
    return ok;
}

// The shortest program of the seed that fails too.
static void shrink(Clients *clients, int64_t seed, int operations, Kind kind) {
    for (int fewer = 1; fewer <= operations; fewer++) {
        HloText text = {0}, message = {0};
        bool ok = holds(clients, seed, fewer, kind, &text, &message);
        cr_assert(ok, "seed %lld, %d operations: %s\n%s", (long long)seed, fewer, message.data, text.data);
        hlo_text_free(&text);
        hlo_text_free(&message);
    }
}

static void run(Kind kind, int64_t count) {
    const int64_t first = cases_setting("MESHLO_RANDOM_SEED", 0);
    Clients clients = {0};
    for (int64_t seed = first; seed < first + count; seed++) {
        HloText text = {0}, message = {0};
        int operations = 10 + (int)(seed % 30);
        bool ok = holds(&clients, seed, operations, kind, &text, &message);
        if (!ok) shrink(&clients, seed, operations, kind);
        cr_assert(ok, "seed %lld: %s\n%s", (long long)seed, message.data, text.data);
        hlo_text_free(&text);
        hlo_text_free(&message);
    }
    for (int i = 0; i <= MOST_DEVICES; i++) target_client_release(clients.of[i]);
}

Test(random, compiled_equals_eval, .timeout = 600) {
    run(USUAL, cases_count("MESHLO_RANDOM_PROGRAMS", 1500));
}

// Of operations with one right result, on numbers at the ends of their types.
Test(random, compiled_equals_eval_at_the_ends, .timeout = 600) {
    run(EXACT, cases_count("MESHLO_RANDOM_PROGRAMS", 1500));
}

// Large enough for several threads: a tenth as many.
Test(random, compiled_equals_eval_on_large_arrays, .timeout = 600) {
    run(LARGE, cases_count("MESHLO_RANDOM_PROGRAMS", 1500) / 10);
}

// Replicas and partitions that meet in collectives and messages: a fifth as many.
Test(random, compiled_equals_eval_on_several_devices, .timeout = 600) {
    run(DEVICES, cases_count("MESHLO_RANDOM_PROGRAMS", 1500) / 5);
}
