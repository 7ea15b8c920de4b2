// SPDX-License-Identifier: Apache-2.0
// Loops of several results: which nodes become one step (counted in the text of the compiled program), and that the
// numbers are the evaluator's, whatever the shapes, the types and the number of threads.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "hlo/text/text.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

typedef struct GroupCase {
    const char *name;
    int steps;         // loops of the program
    const char *text;  // T is the type, D the dims
} GroupCase;

static const GroupCase kCases[] = {
    {"two functions of one array", 1,
     "ENTRY e { x = T[D] parameter(0)  a = T[D] negate(x)  b = T[D] multiply(x, x)  ROOT r = (T[D], T[D]) tuple(a, b) "
     "}"},
    {"a result that the other one reads", 1,
     "ENTRY e { x = T[D] parameter(0)  y = T[D] parameter(1)  a = T[D] add(x, y)  b = T[D] multiply(a, y)\n"
     " ROOT r = (T[D], T[D]) tuple(a, b) }"},
    {"a middle value that only the results read", 1,
     "ENTRY e { x = T[D] parameter(0)  y = T[D] parameter(1)  m = T[D] multiply(x, y)  a = T[D] add(m, x)\n"
     " b = T[D] subtract(m, y)  ROOT r = (T[D], T[D]) tuple(a, b) }"},
    {"moments and weights of an optimiser", 1,
     "ENTRY e { w = T[D] parameter(0)  g = T[D] parameter(1)  m = T[D] parameter(2)  v = T[D] parameter(3)\n"
     " c = T[] constant(2)  cb = T[D] broadcast(c), dimensions={}  m1 = T[D] multiply(m, cb)  m2 = T[D] add(m1, g)\n"
     " v1 = T[D] multiply(g, g)  v2 = T[D] add(v, v1)  s = T[D] maximum(v2, cb)  q = T[D] divide(m2, s)\n"
     " w2 = T[D] subtract(w, q)  ROOT r = (T[D], T[D], T[D]) tuple(w2, m2, v2) }"},
    {"nothing in common", 2,
     "ENTRY e { x = T[D] parameter(0)  y = T[D] parameter(1)  a = T[D] negate(x)  b = T[D] multiply(y, y)\n"
     " ROOT r = (T[D], T[D]) tuple(a, b) }"},
    {"the other one reads backwards", 2,
     "ENTRY e { x = T[D] parameter(0)  a = T[D] add(x, x)  v = T[D] reverse(a), dimensions={0}  b = T[D] multiply(v, "
     "x)\n"
     " ROOT r = (T[D], T[D]) tuple(a, b) }"},
    {"a sum of the first is in between", 3,
     "add { p = T[] parameter(0)  q = T[] parameter(1)  ROOT s = T[] add(p, q) }\n"
     "ENTRY e { x = T[D] parameter(0)  zero = T[] constant(0)  a = T[D] multiply(x, x)\n"
     " s = T[] reduce(a, zero), dimensions={0,1}, to_apply=add  sb = T[D] broadcast(s), dimensions={}\n"
     " b = T[D] add(a, sb)  ROOT r = (T[D], T[D]) tuple(a, b) }"},
};
enum { kCaseCount = sizeof kCases / sizeof kCases[0] };

typedef struct Group {
    int number;
    char type[8], dims[16];
} Group;

static HloModule *group_module(const Group *given) {
    HloText text = {0}, message = {0};
    hlo_text_string(&text, "HloModule groups\n");
    for (const char *at = kCases[given->number].text; *at; at++) {
        if (*at == 'T' && at[1] == '[')
            hlo_text_string(&text, given->type);
        else if (*at == 'D' && at[1] == ']')
            hlo_text_string(&text, given->dims);
        else
            hlo_text_append(&text, at, 1);
    }
    HloModule *module = compiled_parse(text.data, &message);
    cr_assert_not_null(module, "%s\n%s", message.data, text.data);
    hlo_text_free(&text);
    hlo_text_free(&message);
    return module;
}

CaseList(groups, compiled_equals_eval) {
    static const char *const kTypes[] = {"f32", "f64", "bf16", "s32", "u8", "f16"};
    static const char *const kDims[] = {"1,1", "3,5", "100,70", "33,2048"};
    enum { kTypeCount = sizeof kTypes / sizeof kTypes[0], kDimsCount = sizeof kDims / sizeof kDims[0] };
    Group *all = cr_malloc(sizeof(Group) * kCaseCount * kTypeCount * kDimsCount);
    size_t count = 0;
    for (int c = 0; c < kCaseCount; c++)
        for (int t = 0; t < kTypeCount; t++)
            for (int d = 0; d < kDimsCount; d++) {
                Group *group = &all[count++];
                group->number = c;
                snprintf(group->type, sizeof group->type, "%s", kTypes[t]);
                snprintf(group->dims, sizeof group->dims, "%s", kDims[d]);
            }
    return cr_make_param_array(Group, all, count);
}

CaseTest(Group *given, groups, compiled_equals_eval) {
    HloModule *module = group_module(given);
    HloText message = {0};
    HloLiteral *one[64] = {0}, *three[64] = {0};
    CompiledCheck check = {.seed = 5, .threads = 1, .tolerance = 1e-4};
    cr_assert(compiled_equals_eval(module, &check, &message), "%s of %s[%s]: %s", kCases[given->number].name,
              given->type, given->dims, message.data);
    cr_assert(compiled_run(module, &check, one, &message), "%s", message.data);
    check.threads = 3;
    cr_assert(compiled_run(module, &check, three, &message), "%s", message.data);
    for (int d = 0; d < 64 && one[d]; d++) {
        cr_assert(hlo_literal_equal(one[d], three[d]), "%s: other bits with three threads", kCases[given->number].name);
        hlo_literal_free(one[d]);
        hlo_literal_free(three[d]);
    }
    hlo_text_free(&message);
    hlo_module_free(module);
}

Test(groups, become_one_step) {
    TargetClient *client;
    must_succeed(target_client_new("cpu:1", &client));
    for (int c = 0; c < kCaseCount; c++) {
        const Group given = {c, "f32", "100,70"};
        HloModule *module = group_module(&given);
        TargetExecutable *executable;
        must_succeed(target_compile(client, module, NULL, &executable));
        char *text = target_executable_to_text(executable);
        int steps = 0;
        for (const char *at = text; (at = strstr(at, "loops %")); at++) steps++;
        cr_expect_eq(steps, kCases[c].steps, "%s: %d steps\n%s", kCases[c].name, steps, text);
        hlo_free(text);
        target_executable_release(executable);
        hlo_module_free(module);
    }
    target_client_release(client);
}

// Each result of the group may take over the argument that was donated for it.
Test(groups, results_take_over_donated_arguments) {
    static const char kText[] =
        "HloModule donated, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }\n"
        "ENTRY e { m = f32[1000] parameter(0)  v = f32[1000] parameter(1)  g = f32[1000] parameter(2)\n"
        " a = f32[1000] add(m, g)  q = f32[1000] multiply(g, g)  b = f32[1000] add(v, q)\n"
        " ROOT r = (f32[1000], f32[1000]) tuple(a, b) }\n";
    HloModule *module = compiled_must_parse(kText);
    TargetClient *client;
    TargetExecutable *executable;
    HloText message = {0};
    const CompiledCheck check = {.seed = 3, .threads = 2};
    cr_assert(compiled_equals_eval(module, &check, &message), "%s", message.data);
    must_succeed(target_client_new("cpu:1", &client));
    must_succeed(target_compile(client, module, NULL, &executable));
    char *text = target_executable_to_text(executable);
    cr_expect_null(strstr(text, "copy"), "a donated argument is copied:\n%s", text);
    hlo_free(text);
    target_executable_release(executable);
    target_client_release(client);
    hlo_text_free(&message);
    hlo_module_free(module);
}

// A slice's start was computed in the loop that reads the slice, or not at all when nothing else read it: the slice
// came from where the start of an earlier run, or memory's last content, said.
typedef struct StartCase {
    char text[600];
} StartCase;

CaseList(groups, bug_a_result_is_the_start_of_a_slice) {
    static const struct {
        const char *type, *text;
    } kKept[] = {{"s32[]", "k = s32[] copy(r)"},
                 {"s32[1]", "k = s32[1] broadcast(s), dimensions={}"},
                 {"s32[1]", "k = s32[1] reshape(s)"},
                 {"s32[]", "k = s32[] multiply(s, s)"}},
      kUses[] = {{"f32[]", "u = f32[] negate(dr)"},
                 {"f32[1]", "u = f32[1] negate(d)"},
                 {"s32[]", "u = s32[] convert(dr)"},
                 {"s32[]", "ds = s32[] convert(dr)  u = s32[] add(ds, s)"}};
    enum { kKeptCount = sizeof kKept / sizeof kKept[0], kUseCount = sizeof kUses / sizeof kUses[0] };
    StartCase *all = cr_malloc(sizeof(StartCase) * kKeptCount * kUseCount);
    size_t count = 0;
    for (int k = 0; k < kKeptCount; k++)
        for (int u = 0; u < kUseCount; u++)
            snprintf(all[count++].text, sizeof all->text,
                     "HloModule starts\n"
                     "ENTRY e { x = f32[64] parameter(0)  r = s32[] parameter(1)  mask = s32[] constant(63)\n"
                     " s = s32[] and(r, mask)  d = f32[1] dynamic-slice(x, s), dynamic_slice_sizes={1}\n"
                     " dr = f32[] reshape(d)  %s  %s  ROOT t = (%s, %s) tuple(u, k) }\n",
                     kUses[u].text, kKept[k].text, kUses[u].type, kKept[k].type);
    return cr_make_param_array(StartCase, all, count);
}

CaseTest(StartCase *given, groups, bug_a_result_is_the_start_of_a_slice) {
    HloModule *module = compiled_must_parse(given->text);
    HloText message = {0};
    for (uint64_t seed = 1; seed < 5; seed++) {
        const CompiledCheck check = {.seed = seed, .threads = 1};
        cr_expect(compiled_equals_eval(module, &check, &message), "%s\n%s", message.data, given->text);
    }
    hlo_text_free(&message);
    hlo_module_free(module);
}
