// SPDX-License-Identifier: Apache-2.0
// send, recv and permutes between devices: engine and evaluator agree, and a transfer by pairs is the permute that it
// came from.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/eval/eval.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

#define TYPE "f32[3,2]"
#define START "(" TYPE ", u32[], token[])"
#define PAIRS(list) "frontend_attributes={_xla_send_recv_source_target_pairs=\"" list "\"}"
// As XLA's collective-permute decomposer writes a permute of %x on a channel.
#define DECOMPOSED(n, x, list) \
    " a" n " = token[] after-all()\n recv" n " = " START " recv(a" n "), channel_id=" n ", " PAIRS(list) "\n" \
    " send" n " = " START " send(" x ", a" n "), channel_id=" n ", control-predecessors={recv" n "}, " PAIRS(list) \
    "\n rd" n " = (" TYPE ", token[]) recv-done(recv" n "), channel_id=" n "\n"                               \
    " sd" n " = token[] send-done(send" n "), channel_id=" n ", control-predecessors={rd" n "}\n"              \
    " y" n " = " TYPE " get-tuple-element(rd" n "), index=0\n"

static const char *const programs[] = {
    // A ring, and a line whose first device gets zeros.
    "HloModule m, num_partitions=4\nENTRY e {\n x = " TYPE " parameter(0)\n"
    DECOMPOSED("1", "x", "{{0,1},{1,2},{2,3},{3,0}}") DECOMPOSED("2", "y1", "{{0,1},{1,2},{2,3}}")
    " ROOT t = (" TYPE ", " TYPE ") tuple(y1, y2)\n}\n",
    // Replicas.
    "HloModule m, replica_count=3\nENTRY e {\n x = " TYPE " parameter(0)\n" DECOMPOSED("1", "x", "{{0,2},{2,1}}")
    " ROOT r = " TYPE " add(x, y1)\n}\n",
    // Two partitions of two replicas: pairs name partitions.
    "HloModule m, replica_count=2, num_partitions=2\nENTRY e {\n x = " TYPE " parameter(0)\n"
    DECOMPOSED("1", "x", "{{0,1},{1,0}}") " ROOT r = " TYPE " subtract(x, y1)\n}\n",
    // One device sends to several, and to itself.
    "HloModule m, num_partitions=3\nENTRY e {\n x = " TYPE " parameter(0)\n"
    DECOMPOSED("1", "x", "{{1,0},{1,1},{1,2}}") " ROOT r = " TYPE " negate(y1)\n}\n",
    // A pipeline: each iteration receives what the previous iteration sent.
    "HloModule m, num_partitions=4\n"
    "more {\n s = (s32[], " TYPE ", " START ", " START ") parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
    " n = s32[] constant(5)\n ROOT r = pred[] compare(i, n), direction=LT\n}\n"
    "round {\n s = (s32[], " TYPE ", " START ", " START ") parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
    " x = " TYPE " get-tuple-element(s), index=1\n one = s32[] constant(1)\n j = s32[] add(i, one)\n"
    " inr = " START " get-tuple-element(s), index=2\n ins = " START " get-tuple-element(s), index=3\n"
    " rd = (" TYPE ", token[]) recv-done(inr), channel_id=7\n sd = token[] send-done(ins), channel_id=7\n"
    " got = " TYPE " get-tuple-element(rd), index=0\n y = " TYPE " add(x, got)\n a = token[] after-all()\n"
    " recv = " START " recv(a), channel_id=7, " PAIRS("{{0,1},{1,2},{2,3},{3,0}}") "\n"
    " send = " START " send(y, a), channel_id=7, " PAIRS("{{0,1},{1,2},{2,3},{3,0}}") "\n"
    " ROOT t = (s32[], " TYPE ", " START ", " START ") tuple(j, y, recv, send)\n}\n"
    "ENTRY e {\n x = " TYPE " parameter(0)\n zero = s32[] constant(0)\n a = token[] after-all()\n"
    " recv = " START " recv(a), channel_id=7, " PAIRS("{{0,1},{1,2},{2,3},{3,0}}") "\n"
    " send = " START " send(x, a), channel_id=7, " PAIRS("{{0,1},{1,2},{2,3},{3,0}}") "\n"
    " s = (s32[], " TYPE ", " START ", " START ") tuple(zero, x, recv, send)\n"
    " w = (s32[], " TYPE ", " START ", " START ") while(s), condition=more, body=round\n"
    " last = " START " get-tuple-element(w), index=2\n y = " TYPE " get-tuple-element(w), index=1\n"
    " rd = (" TYPE ", token[]) recv-done(last), channel_id=7\n z = " TYPE " get-tuple-element(rd), index=0\n"
    " ROOT r = " TYPE " multiply(y, z)\n}\n",
    // A plain channel from one device to another, each in its branch.
    "HloModule m, num_partitions=3\n"
    "gives {\n x = " TYPE " parameter(0)\n a = token[] after-all()\n send = " START " send(x, a), channel_id=3\n"
    " d = token[] send-done(send), channel_id=3\n ROOT r = " TYPE " negate(x)\n}\n"
    "takes {\n x = " TYPE " parameter(0)\n a = token[] after-all()\n recv = " START " recv(a), channel_id=3\n"
    " d = (" TYPE ", token[]) recv-done(recv), channel_id=3\n y = " TYPE " get-tuple-element(d), index=0\n"
    " ROOT r = " TYPE " add(x, y)\n}\n"
    "rests {\n ROOT x = " TYPE " parameter(0)\n}\n"
    "ENTRY e {\n x = " TYPE " parameter(0)\n id = u32[] partition-id()\n i = s32[] convert(id)\n"
    " ROOT r = " TYPE " conditional(i, x, x, x), branch_computations={takes, rests, gives}\n}\n",
    // The same, where the branch depends on data: device 2 receives from 0 twice.
    "HloModule m, num_partitions=2\n"
    "gives {\n x = " TYPE " parameter(0)\n a = token[] after-all()\n send = " START " send(x, a), channel_id=3\n"
    " y = " TYPE " exponential(x)\n again = " START " send(y, a), channel_id=3\n ROOT r = " TYPE " negate(x)\n}\n"
    "takes {\n x = " TYPE " parameter(0)\n a = token[] after-all()\n recv = " START " recv(a), channel_id=3\n"
    " d = (" TYPE ", token[]) recv-done(recv), channel_id=3\n y = " TYPE " get-tuple-element(d), index=0\n"
    " b = " START " recv(a), channel_id=3\n c = (" TYPE ", token[]) recv-done(b), channel_id=3\n"
    " z = " TYPE " get-tuple-element(c), index=0\n ROOT r = " TYPE " subtract(y, z)\n}\n"
    "ENTRY e {\n x = " TYPE " parameter(0)\n id = u32[] partition-id()\n i = s32[] convert(id)\n"
    " ROOT r = " TYPE " conditional(i, x, x), branch_computations={gives, takes}\n}\n",
    // Permutes in branches: only devices that pairs link wait for one another. A bug: the engine waited for all.
    "HloModule m, num_partitions=4\n"
    "swaps {\n x = " TYPE " parameter(0)\n y = " TYPE " collective-permute(x), channel_id=1, "
    "source_target_pairs={{0,2},{2,0},{1,3},{3,1}}\n ROOT r = " TYPE " negate(y)\n}\n"
    "rests {\n ROOT x = " TYPE " parameter(0)\n}\n"
    "ENTRY e {\n x = " TYPE " parameter(0)\n id = u32[] partition-id()\n two = u32[] constant(2)\n"
    " h = u32[] remainder(id, two)\n i = s32[] convert(h)\n"
    " ROOT r = " TYPE " conditional(i, x, x), branch_computations={swaps, rests}\n}\n",
    // Replicas, one of which nothing links.
    "HloModule m, replica_count=3, num_partitions=2\n"
    "shifts {\n x = " TYPE " parameter(0)\n ROOT y = " TYPE
    " collective-permute(x), source_target_pairs={{2,0}}\n}\n"
    "rests {\n ROOT x = " TYPE " parameter(0)\n}\n"
    "ENTRY e {\n x = " TYPE " parameter(0)\n id = u32[] replica-id()\n one = u32[] constant(1)\n"
    " c = pred[] compare(id, one), direction=EQ\n"
    " ROOT r = " TYPE " conditional(c, x, x), true_computation=rests, false_computation=shifts\n}\n",
};

CaseList(p2p, equal_the_evaluator) {
    return cases_numbered(HLO_COUNT_OF(programs));
}

CaseTest(const int *index, p2p, equal_the_evaluator) {
    HloModule *module = compiled_must_parse(programs[*index]);
    HloText message = {0};
    for (int threads = 1; threads <= 3; threads++) {
        for (uint64_t seed = 0; seed < 5; seed++) {
            const CompiledCheck check = {.threads = threads, .seed = seed};
            cr_assert(compiled_equals_eval(module, &check, &message), "program %d: %s", *index, message.data);
        }
    }
    hlo_text_free(&message);
    hlo_module_free(module);
}

// The same numbers as the equivalent collective-permute.
Test(p2p, are_permutes_in_two_halves) {
    HloModule *apart =
        compiled_must_parse("HloModule m, num_partitions=4\nENTRY e {\n x = " TYPE " parameter(0)\n" DECOMPOSED(
            "1", "x", "{{0,3},{3,1},{2,2}}") " ROOT r = " TYPE " copy(y1)\n}\n");
    HloModule *whole = compiled_must_parse("HloModule m, num_partitions=4\nENTRY e {\n x = " TYPE
                                           " parameter(0)\n"
                                           " ROOT r = " TYPE
                                           " collective-permute(x), channel_id=1, "
                                           "source_target_pairs={{0,3},{3,1},{2,2}}\n}\n");
    const CompiledCheck check = {.seed = 9};
    HloLiteral *have[4] = {0}, *want[4] = {0};
    HloText message = {0};
    cr_assert(compiled_run(apart, &check, have, &message), "%s", message.data);
    cr_assert(compiled_run(whole, &check, want, &message), "%s", message.data);
    for (int d = 0; d < 4; d++) {
        cr_expect(hlo_literal_equal(have[d], want[d]), "device %d", d);
        hlo_literal_free(have[d]);
        hlo_literal_free(want[d]);
    }
    hlo_module_free(apart);
    hlo_module_free(whole);
}

typedef struct StuckCase {
    const char *program;
    bool before;  // found before anything runs
    HloCode code;
    const char *words;
} StuckCase;

#define ONE_RECV(n, list) \
    " a" n " = token[] after-all()\n r" n " = " START " recv(a" n "), channel_id=" n ", " PAIRS(list) "\n"     \
    " d" n " = (" TYPE ", token[]) recv-done(r" n "), channel_id=" n "\n"                                     \
    " y" n " = " TYPE " get-tuple-element(d" n "), index=0\n"

static const StuckCase stuck[] = {
    // Every device waits before it sends.
    {"HloModule m, num_partitions=2\nENTRY e {\n x = " TYPE " parameter(0)\n" ONE_RECV(
         "1", "{{0,1},{1,0}}") " s = " START " send(y1, a1), channel_id=1, " PAIRS("{{0,1},{1,0}}") "\n ROOT r = " TYPE
                                                                                                    " copy(y1)\n}\n",
     true, HLO_FAILED_PRECONDITION,
     "device 0 would wait forever at recv-done %d1 for a message on channel 1 from device 1"},
    // No device sends.
    {"HloModule m, num_partitions=2\nENTRY e {\n x = " TYPE
     " parameter(0)\n" ONE_RECV("1", "{{0,1}}") " ROOT r = " TYPE " add(x, y1)\n}\n",
     true, HLO_FAILED_PRECONDITION, "device 1 would wait"},
    // Both send on a plain channel.
    {"HloModule m, num_partitions=2\nENTRY e {\n x = " TYPE " parameter(0)\n a = token[] after-all()\n"
     " s = " START " send(x, a), channel_id=4\n r = " START " recv(a), channel_id=4\n"
     " d = (" TYPE ", token[]) recv-done(r), channel_id=4\n ROOT y = " TYPE " get-tuple-element(d), index=0\n}\n",
     true, HLO_FAILED_PRECONDITION, "both send on channel 4"},
    // In a loop, which is found while it runs.
    {"HloModule m, num_partitions=2\nmore {\n s = (s32[], " TYPE
     ") parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
     " n = s32[] constant(50)\n ROOT r = pred[] compare(i, n), direction=LT\n}\n"
     "round {\n s = (s32[], " TYPE
     ") parameter(0)\n i = s32[] get-tuple-element(s), index=0\n one = s32[] constant(1)\n"
     " j = s32[] add(i, one)\n" ONE_RECV(
         "1", "{{0,1}}") " ROOT t = (s32[], " TYPE ") tuple(j, y1)\n}\n"
                         "ENTRY e {\n x = " TYPE " parameter(0)\n z = s32[] constant(0)\n s = (s32[], " TYPE
                         ") tuple(z, x)\n"
                         " w = (s32[], " TYPE ") while(s), condition=more, body=round\n ROOT r = " TYPE
                         " get-tuple-element(w), index=1\n}\n",
     false, HLO_FAILED_PRECONDITION, "device 1 waits at recv-done %d1 for a message on channel 1 from device 0"},
    {"HloModule m, num_partitions=2\nENTRY e {\n x = " TYPE
     " parameter(0)\n" DECOMPOSED("1", "x", "{{0,7}}") " ROOT r = " TYPE " copy(y1)\n}\n",
     true, HLO_INVALID_ARGUMENT, "names a device outside"},
    {"HloModule m, num_partitions=2\nENTRY e {\n x = " TYPE
     " parameter(0)\n" DECOMPOSED("1", "x", "{{0,1}") " ROOT r = " TYPE " copy(y1)\n}\n",
     true, HLO_INVALID_ARGUMENT, "not a list of pairs"},
};

CaseList(p2p, deadlocks_are_named) {
    return cases_numbered(HLO_COUNT_OF(stuck));
}

CaseTest(const int *index, p2p, deadlocks_are_named) {
    const StuckCase *test = &stuck[*index];
    HloModule *module = compiled_must_parse(test->program);
    TargetClient *client;
    must_succeed(target_client_new("cpu:2", &client));
    TargetExecutable *executable = NULL;
    HloStatus status = target_compile(client, module, NULL, &executable);
    if (test->before) {
        must_fail(status, test->code, test->words);
    } else {
        must_succeed(status);
        HloLiteral *results[2] = {0};
        HloText message = {0};
        const CompiledCheck check = {.seed = 1};
        cr_assert(!compiled_run(module, &check, results, &message));
        cr_assert(strstr(message.data, test->words), "%s", message.data);
        hlo_text_free(&message);
    }
    target_executable_release(executable);
    target_client_release(client);
    hlo_module_free(module);
}

// The evaluator finds the same, while it runs.
Test(p2p, the_evaluator_names_deadlocks) {
    HloModule *module = compiled_must_parse(stuck[0].program);
    HloLiteral *argument = compiled_random(module->entry->parameters.items[0]->shape, 1), *results[2] = {0};
    const HloLiteral *arguments[] = {argument};
    const HloLiteral *const *both[] = {arguments, arguments};
    must_fail(hlo_evaluate_partitioned(module, 2, both, 1, NULL, results), HLO_FAILED_PRECONDITION,
              "device 0 waits at %d1 (recv-done) for a message");
    must_fail(hlo_evaluate(module, arguments, 1, &(HloEvalOptions){.device_count = 1}, results),
              HLO_FAILED_PRECONDITION, "deadlock");
    hlo_literal_free(argument);
    hlo_module_free(module);
}
