// SPDX-License-Identifier: Apache-2.0
// Any bytes as HLO text: a program that is accepted and verifies is optimised and compiled without harm; where it is
// small it runs, and integers come out as the evaluator has them.
#include "hlo/pass/pass.h"
#include "hlo/verify/verify.h"
#include "targets/client.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/oracle.h"
#include "tests/support/compiled.h"

enum { DEVICES = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static TargetClient *the_client(void) {
    static TargetClient *client;
    if (!client) FUZZ_MUST(target_client_new_with_threads("cpu:4", 2, &client), NULL);
    return client;
}

// Passes can rewrite every program that verifies; their output verifies (or the runner reports it).
static HloModule *optimised(const HloModule *module, const HloText *text) {
    static const char *const names[] = {"expand", "simplify"};
    HloModule *copy = hlo_module_clone(module);
    HloStatus status = copy ? hlo_run_passes(copy, names, HLO_COUNT_OF(names), NULL) : NULL;
    if (hlo_status_code(status) != HLO_RESOURCE_EXHAUSTED && hlo_status_code(status) != HLO_UNIMPLEMENTED) {
        FUZZ_MUST(status, text);
        return copy;
    }
    hlo_status_free(status);
    hlo_module_free(copy);
    return NULL;
}

static bool compiles(const HloModule *module) {
    TargetExecutable *executable = NULL;
    HloStatus status = target_compile(the_client(), module, NULL, &executable);
    const bool compiled = !status;
    hlo_status_free(status);
    target_executable_release(executable);
    return compiled;
}

static void fail(const char *what, const HloText *message, const HloText *text) {
    fprintf(stderr, "%s: %.*s\n%.*s\n", what, (int)message->length, message->data, (int)text->length, text->data);
    abort();
}

// Runs `module`; where `exact`, the results must be the evaluator's.
static void run(const char *what, const HloModule *module, bool exact, const HloText *text) {
    bool refused = false;
    HloText message = {0};
    HloLiteral *results[DEVICES] = {NULL};
    const CompiledCheck check = {.client = the_client(), .seed = 1, .allow_fallback = true, .refused = &refused};
    if (!exact) {
        (void)compiled_run(module, &check, results, &message);
        for (int i = 0; i < DEVICES; i++) hlo_literal_free(results[i]);
    } else if (!compiled_equals_eval(module, &check, &message) && !refused) {
        fail(what, &message, text);
    }
    hlo_text_free(&message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    HloModule *module = NULL;
    const HloText text = {.data = (char *)(uintptr_t)data, .length = size};
    HloStatus status = hlo_parse((const char *)data, size, &(HloParseOptions){.elided = HLO_ELIDED_FILL}, &module);
    if (!status) status = hlo_verify(module);
    if (!status) {
        const FuzzSize kind = fuzz_size(module);
        HloModule *smaller = optimised(module, &text);
        const bool runs = compiles(module) && kind.small && kind.devices <= DEVICES;
        if (runs) run("compiled", module, kind.exact, &text);
        if (runs && smaller && compiles(smaller)) run("optimised and compiled", smaller, kind.exact, &text);
        hlo_module_free(smaller);
    }
    hlo_status_free(status);
    hlo_module_free(module);
    return 0;
}
