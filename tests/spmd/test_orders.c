// SPDX-License-Identifier: Apache-2.0
// Programs whose annotations list devices in an order of their own send what they would send in the plain order.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/text/text.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"

#define ON(Devices, Body) "HloModule m, num_partitions=" #Devices "\nENTRY e {\n" Body "}\n"
#define PRODUCT(X, W, R)                                                                         \
    ON(8, " x = f32[16,32] parameter(0), sharding={devices=" X                                   \
          "}\n w = f32[32,64] parameter(1), "                                                    \
          "sharding={devices=" W                                                                 \
          "}\n"                                                                                  \
          " ROOT r = f32[16,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, " \
          "sharding={devices=" R "}\n")
// Half of the rows of one array and another, on six devices.
#define UNEVEN(P, Q)                                                                \
    ON(6, " p = f32[13,7] parameter(0), sharding={devices=" P                       \
          "}\n q = f32[13,7] parameter(1),"                                         \
          " sharding={devices=" Q                                                   \
          "}\n s = f32[13,7] subtract(p, q)\n"                                      \
          " t = f32[12,7] slice(s), slice={[1:13],[0:7]}\n z = f32[] constant(0)\n" \
          " u = f32[13,7] pad(t, z), padding=0_1x0_0\n ROOT v = f32[13,7] add(s, u), sharding={devices=" P "}\n")
// The same with positions that an op computes with: each device has its own random bits and numbers.
#define NUMBERED(P)                                                                       \
    ON(4, " p = s32[10] parameter(0), sharding={devices=" P                               \
          "}\n i = s32[10] iota(), "                                                      \
          "iota_dimension=0\n a = s32[10] multiply(p, i)\n ROOT r = s32[10] reverse(a), " \
          "dimensions={0}, sharding={devices=" P "}\n")

static const SentBytes programs[] = {
    {"the plain order",
     PRODUCT("[4,2]<=[8]", "[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate", "[4,1,2]<=[8] last_tile_dim_replicate"),
     1024},
    {"all reversed",
     PRODUCT("[4,2]7,6,5,4,3,2,1,0", "[2,1,4]7,5,3,1,6,4,2,0 last_tile_dim_replicate",
             "[4,1,2]7,6,5,4,3,2,1,0 last_tile_dim_replicate"),
     1024},
    {"any order",
     PRODUCT("[4,2]3,0,5,7,1,2,6,4", "[2,1,4]3,5,1,6,0,7,2,4 last_tile_dim_replicate",
             "[4,1,2]0,3,7,5,2,1,4,6 last_tile_dim_replicate"),
     1024},
    {"from parts with copies alone",
     PRODUCT("[4,1,2]3,0,5,7,1,2,6,4 last_tile_dim_replicate", "[1,2,4]3,5,1,6,0,7,2,4 last_tile_dim_replicate",
             "[4,2]3,0,5,7,1,2,6,4"),
     0},
    {"one array in another order",
     PRODUCT("[4,2]7,6,5,4,3,2,1,0", "[2,1,4]7,5,3,1,6,4,2,0 last_tile_dim_replicate", "[8,1]<=[8]"), 512 + 512},
    {"six devices", UNEVEN("[3,2]<=[6]", "[3,2]<=[6]"), 48},
    {"six devices in another order", UNEVEN("[3,2]4,1,0,5,3,2", "[3,2]4,1,0,5,3,2"), 48},
    {"positions are looked up, plain", NUMBERED("[4]<=[4]"), 12},
    {"positions are looked up", NUMBERED("[4]2,0,3,1"), 12},
    {"parts of a sum",
     ON(4,
        " p = f32[8,2] parameter(0), sharding={devices=[2,1,2]0,3,1,2 last_tile_dims={unreduced}}\n"
        " ROOT r = f32[8,2] negate(p), sharding={devices=[2,1,2]3,0,2,1 last_tile_dim_replicate}\n"),
     32},
    {"a named mesh",
     ON(4,
        " p = f32[8,2] parameter(0), sharding={mesh['x'=2,'y'=2], device_ids=(2,0,3,1), [{'x'}]}\n"
        " q = f32[8,2] parameter(1), sharding={mesh['x'=2,'y'=2], device_ids=(2,0,3,1), [{}, {'y'}]}\n"
        " ROOT r = f32[8,2] add(p, q), sharding={devices=[2,2]2,0,3,1}\n"),
     0},
};

CaseList(orders, programs) {
    return cases_numbered(HLO_COUNT_OF(programs));
}

// bug: a program with every list reversed sent eight times what it sends in the plain order.
CaseTest(const int *number, orders, programs) {
    expect_bytes(&programs[*number]);
}

static const char *const numbered[] = {
    // what counts devices itself keeps the plain order
    "HloModule m, num_partitions=4\nsum {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, "
    "b)\n}\nENTRY e {\n p = f32[8,2] parameter(0), sharding={devices=[4,1]3,2,1,0}\n m = f32[2,2] custom-call(p), "
    "custom_call_target=\"SPMDFullToShardShape\", sharding={manual}\n s = f32[2,2] all-reduce(m), channel_id=1, "
    "use_global_device_ids=true, replica_groups={{0,2},{1,3}}, to_apply=sum\n ROOT r = f32[8,2] custom-call(s), "
    "custom_call_target=\"SPMDShardToFullShape\", sharding={devices=[4,1]3,2,1,0}\n}\n",
    // in loops and branches
    "HloModule m, num_partitions=4\nbody {\n t = (s32[], f32[8,4]) parameter(0)\n i = s32[] get-tuple-element(t), "
    "index=0\n o = s32[] constant(1)\n n = s32[] add(i, o)\n x = f32[8,4] get-tuple-element(t), index=1\n"
    " f = f32[1,4] slice(x), slice={[0:1],[0:4]}\n l = f32[7,4] slice(x), slice={[1:8],[0:4]}\n"
    " r = f32[8,4] concatenate(l, f), dimensions={0}\n y = f32[8,4] add(x, r)\n"
    " ROOT u = (s32[], f32[8,4]) tuple(n, y)\n}\ncondition {\n t = (s32[], f32[8,4]) parameter(0)\n"
    " i = s32[] get-tuple-element(t), index=0\n m = s32[] constant(3)\n ROOT c = pred[] compare(i, m), "
    "direction=LT\n}\n"
    "ENTRY e {\n z = s32[] constant(0)\n p = f32[8,4] parameter(0), sharding={devices=[4,1]1,3,0,2}\n"
    " t = (s32[], f32[8,4]) tuple(z, p)\n w = (s32[], f32[8,4]) while(t), condition=condition, body=body\n"
    " ROOT r = f32[8,4] get-tuple-element(w), index=1, sharding={devices=[2,2]1,3,0,2}\n}\n",
};

Test(orders, devices_keep_their_numbers) {
    for (size_t i = 0; i < HLO_COUNT_OF(numbered); i++) check_partitioned(numbered[i], NULL, i);
}

// The program of one device lists what the annotations listed, so that arrays are split as before, and the devices of
// each replica are numbered alike.
Test(orders, programs_name_devices) {
    static const char *const wanted[] = {"parameter(0), sharding={devices=[2,2]3,1,0,2}",
                                         "parameter(1), sharding={devices=[2,2]3,0,1,2}",
                                         "replica_groups={{3,1},{0,2},{7,5},{4,6}}"};
    HloModule *module = parse_text(
        "HloModule m, replica_count=2, num_partitions=4\nENTRY e {\n"
        " p = f32[8,4] parameter(0), sharding={devices=[2,2]3,1,0,2}\n"
        " q = f32[4,8] parameter(1), sharding={devices=[2,2]3,0,1,2}\n"
        " ROOT r = f32[8,8] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        "sharding={devices=[2,2]3,1,0,2}\n}\n");
    HloModule *partitioned;
    HloText text = {0};
    cr_assert_null(spmd_partition(module, NULL, &partitioned, NULL));
    cr_assert_null(hlo_print(partitioned, NULL, &text));
    for (size_t i = 0; i < HLO_COUNT_OF(wanted); i++) cr_expect(strstr(text.data, wanted[i]), "%s", text.data);
    hlo_text_free(&text);
    hlo_module_free(partitioned);
    hlo_module_free(module);
}
