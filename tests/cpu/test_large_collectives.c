// SPDX-License-Identifier: Apache-2.0
// Collectives on arrays that are worth cutting into parts, with one worker, with fewer than devices and with more:
// every part must be computed, whichever thread does it. (An all-reduce above 256 KiB was finished in its first part
// only where a worker was alone, which it is too on machines with more cores than devices.)
#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/support/cases.h"
#include "tests/support/compiled.h"

typedef struct LargeCase {
    char body[128];
} LargeCase;

// Odd sizes, so that the last part is shorter.
CaseList(large_collectives, are_done_to_the_end) {
    static LargeCase cases[] = {
        {"ROOT r = f32[262148] all-reduce(p), replica_groups={{0,1,2,3}}, to_apply=add"},
        {"ROOT r = f32[262148] all-reduce(p), replica_groups={{0,2},{1,3}}, to_apply=add"},
        {"ROOT r = f32[65537] reduce-scatter(p), replica_groups={{0,1,2,3}}, dimensions={0}, to_apply=add"},
        {"ROOT r = f32[1048592] all-gather(p), replica_groups={{0,1,2,3}}, dimensions={0}"},
        {"ROOT r = f32[262148] all-to-all(p), replica_groups={{0,1,2,3}}, dimensions={0}"},
        {"ROOT r = f32[262148] collective-permute(p), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}"},
        {"ROOT r = f32[262148] collective-broadcast(p), replica_groups={{2,0,1,3}}"},
        {"ROOT r = f32[262148] collective-broadcast(p), replica_groups={{2,1}}"},
        {"ROOT r = f32[262148] collective-broadcast(p), replica_groups={{3}}"},
    };
    return cr_make_param_array(LargeCase, cases, sizeof(cases) / sizeof(cases[0]));
}

CaseTest(LargeCase *param, large_collectives, are_done_to_the_end) {
    char text[512];
    snprintf(text, sizeof(text),
             "HloModule m, replica_count=4\nadd {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
             " ROOT s = f32[] add(x, y)\n}\nENTRY e {\n p = f32[262148] parameter(0)\n %s\n}\n",
             param->body);
    HloModule *module = compiled_must_parse(text);
    static const int workers[] = {1, 2, 4, 7};
    for (size_t i = 0; i < sizeof(workers) / sizeof(workers[0]); i++) {
        const CompiledCheck check = {.spec = "cpu:4", .threads = workers[i], .seed = 5};
        HloText message = {0};
        cr_expect(compiled_equals_eval(module, &check, &message), "%d workers: %s", workers[i], message.data);
        hlo_text_free(&message);
    }
    hlo_module_free(module);
}
