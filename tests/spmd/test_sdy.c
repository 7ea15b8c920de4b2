// SPDX-License-Identifier: Apache-2.0
// Shardy's terms: priorities of dimensions, barriers to propagation, its explicit collectives. The shardings expected
// are those that jaxlib 0.10.2 gave the results, compiled with Shardy.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/proto/proto.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/text/text.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"

#define T "tensor<8x4xf32>"
#define S "{sdy.sharding = #sdy.sharding<@mesh, "
#define ROWS "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"
#define MINOR_ROWS "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}"
#define COLUMNS "{devices=[1,2,2]<=[4] last_tile_dim_replicate}"

#define CALL(rule, operands) "%1 = stablehlo.custom_call @unheard_of(%x) {" rule "} : " operands " -> " T

static const struct {
    const char *name, *arguments, *body, *want;
} programs[] = {
    {"without priorities", "%x: " T S "[{\"a\"}, {?}]>}, %y: " T S "[{?}, {\"a\"}]>}", "%1 = stablehlo.add %x, %y : " T,
     ROWS},
    {"the first gives way to the second", "%x: " T S "[{\"a\"}p1, {?}]>}, %y: " T S "[{?}, {\"a\"}]>}",
     "%1 = stablehlo.add %x, %y : " T, COLUMNS},
    {"both are late", "%x: " T S "[{\"a\"}p2, {?}]>}, %y: " T S "[{?}, {\"a\"}p1]>}", "%1 = stablehlo.add %x, %y : " T,
     COLUMNS},
    {"in a product", "%x: " T S "[{\"a\"}p1, {\"b\"}]>}, %y: tensor<4x4xf32> " S "[{?}, {\"a\"}]>}",
     "%1 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (" T ", tensor<4x4xf32>) -> " T, COLUMNS},
    {"an open dimension that is late", "%x: " T S "[{\"a\", ?}p1, {?}p1]>}, %y: " T S "[{\"b\", ?}, {?}]>}",
     "%1 = stablehlo.add %x, %y : " T, MINOR_ROWS},
    {"three rounds", "%x: " T S "[{\"a\", ?}p1, {?}]>}, %y: " T S "[{?}, {\"b\"}p2]>}, %z: " T S "[{\"b\"}, {?}]>}",
     "%0 = stablehlo.add %x, %y : " T "\n%1 = stablehlo.add %0, %z : " T, MINOR_ROWS},
    {"rows against rows, as in attention: the first operand's win before sums have a say",
     "%x: " T S "[{\"a\"}, {}]>}, %y: " T S "[{\"a\"}, {}]>}, %z: " T S "[{\"a\"}, {}]>}",
     "%0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [1] : (" T ", " T ") -> tensor<8x8xf32>\n"
     "%1 = stablehlo.dot_general %0, %z, contracting_dims = [1] x [0] : (tensor<8x8xf32>, " T ") -> " T,
     ROWS},
    {"a barrier", "%x: " T S "[{\"a\"}, {\"b\"}]>}",
     "%0 = sdy.propagation_barrier %x allowed_direction=NONE : " T "\n%1 = stablehlo.cosine %0 : " T, "{replicated}"},
    {"a barrier that lets through", "%x: " T S "[{\"a\"}, {\"b\"}]>}",
     "%0 = sdy.propagation_barrier %x allowed_direction=FORWARD : " T "\n%1 = stablehlo.cosine %0 : " T,
     "{devices=[2,2]<=[4]}"},
    {"a barrier the other way", "%x: " T S "[{\"a\"}, {\"b\"}]>}",
     "%0 = sdy.propagation_barrier %x allowed_direction=BACKWARD : " T "\n%1 = stablehlo.cosine %0 : " T,
     "{replicated}"},
    {"a call without a rule", "%x: " T S "[{\"a\"}, {\"b\"}]>}", CALL("", "(" T ")"), "{replicated}"},
    {"a call with one", "%x: " T S "[{\"a\"}, {\"b\"}]>}",
     CALL("sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=4}, custom>", "(" T ")"),
     "{devices=[2,2]<=[4]}"},
    {"a call with one that needs a dimension whole, which Shardy propagates nevertheless",
     "%x: " T S "[{\"a\"}, {\"b\"}]>}",
     CALL("sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=4} need_replication={j}, custom>",
          "(" T ")"),
     "{devices=[2,2]<=[4]}"},
    {"a call with one that blocks a dimension", "%x: " T S "[{\"a\"}, {\"b\"}]>}",
     CALL("sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=4} blocked_propagation={i}>",
          "(" T ")"),
     "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"},
    {"a call with one of factors in other places", "%x: tensor<2x16xf32> " S "[{\"b\"}, {}]>}",
     CALL("sdy.sharding_rule = #sdy.op_sharding_rule<([k, ij])->([i, j]) {i=8, j=2, k=2}, custom>",
          "(tensor<2x16xf32>)"),
     "refused"},
    {"a call with one of another rank", "%x: " T S "[{\"a\"}, {\"b\"}]>}",
     CALL("sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i, j]) {i=8, j=4}, custom>", "(" T ")"), "refused"},
    {"a call with a text that is not a rule", "%x: " T S "[{\"a\"}, {\"b\"}]>}",
     CALL("sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=4} sideways={j}>", "(" T ")"),
     "refused"},
};

static HloModule *read_program(const char *arguments, const char *body) {
    HloText text = {0};
    hlo_text_format(&text,
                    "module attributes {mhlo.num_partitions = 4 : i32} {\nsdy.mesh @mesh = <[\"a\"=2, \"b\"=2]>\n"
                    "func.func public @main(%s) -> " T " {\n%s\nreturn %%1 : " T "\n}\n}\n",
                    arguments, body);
    HloModule *module = NULL;
    HloStatus status = hlo_module_from_stablehlo_text(text.data, text.length, NULL, &module);
    cr_assert_null(status, "%s\nof\n%s", status ? hlo_status_message(status) : "", text.data);
    hlo_text_free(&text);
    return module;
}

CaseList(sdy, propagates_as_shardy_does) {
    return cases_numbered(HLO_COUNT_OF(programs));
}

CaseTest(const int *number, sdy, propagates_as_shardy_does) {
    HloModule *module = read_program(programs[*number].arguments, programs[*number].body), *annotated = NULL;
    HloStatus status = spmd_propagate(module, NULL, &annotated);
    if (!strcmp(programs[*number].want, "refused")) {
        cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "%s", programs[*number].name);
        cr_expect_not_null(strstr(hlo_status_message(status), "sharding rule"), "%s", programs[*number].name);
        hlo_status_free(status);
        hlo_module_free(module);
        return;
    }
    cr_assert_null(status, "%s", programs[*number].name);
    HloText text = {0};
    hlo_sharding_print(&text, annotated->entry->root->sharding);
    cr_expect_str_eq(text.data, programs[*number].want, "%s", programs[*number].name);
    hlo_text_free(&text);
    hlo_module_free(annotated);
    hlo_module_free(module);
}

// Each collective of Shardy gives the sharding of its result; we choose the collectives that produce it.
static const struct {
    const char *op, *want;
} collectives[] = {
    {"sdy.all_gather [{}, {\"b\"}] %x out_sharding=<@mesh, [{\"a\"}, {}]>", "1 all-gather"},
    {"sdy.all_slice [{}, {}] %x out_sharding=<@mesh, [{\"a\"}, {\"b\"}]>", ""},
    {"sdy.all_to_all [{\"b\"}: 1->0] %x out_sharding=<@mesh, [{\"a\", \"b\"}, {}]>", "1 all-to-all"},
    {"sdy.collective_permute %x out_sharding=<@mesh, [{\"b\"}, {\"a\"}]>", "1 collective-permute"},
    {"sdy.sharding_constraint %x <@mesh, [{\"a\"}, {\"b\"}]>", ""},
    {"sdy.reshard %x <@mesh, [{}, {\"b\"}]>", "1 all-gather"},
};

CaseList(sdy, collectives_move_arrays) {
    return cases_numbered(HLO_COUNT_OF(collectives));
}

CaseTest(const int *number, sdy, collectives_move_arrays) {
    HloText body = {0};
    hlo_text_format(&body, "%%1 = %s : " T, collectives[*number].op);
    HloModule *module = read_program("%x: " T S "[{\"a\"}, {\"b\"}]>}", body.data);
    HloText text = {0};
    cr_assert_null(hlo_print(module, NULL, &text));
    expect_collectives(text.data, NULL, collectives[*number].want);
    hlo_text_free(&text);
    hlo_text_free(&body);
    hlo_module_free(module);
}

// One program with meshes of every kind: as StableHLO, as HLO text and as protobuf it is partitioned alike.
Test(sdy, meshes_mean_the_same_in_every_format) {
    static const char program[] =
        "module attributes {mhlo.num_partitions = 4 : i32} {\nsdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>\n"
        "sdy.mesh @\"an \\22odd\\22 one\" = <[\"y\\22\\\\\"=4]>\nsdy.mesh @turned = <[\"x\"=4], device_ids=[3,2,1,0]>\n"
        "sdy.mesh @empty = <[]>\nfunc.func @main(%a: " T S "[{\"x\", ?}, {\"y\"}]>}, %b: " T
        " {sdy.sharding = #sdy.sharding<@\"an \\22odd\\22 one\", [{\"y\\22\\\\\", ?}, {?}]>}, %c: " T
        " {sdy.sharding = #sdy.sharding<@turned, [{\"x\", ?}, {?}]>}, %d: " T
        " {sdy.sharding = #sdy.sharding<mesh<[\"q\"=4], device_ids=[1,0,3,2]>, [{\"q\", ?}p2, {?}]>}, %e: " T
        " {sdy.sharding = #sdy.sharding<@empty, [{}, {}]>, mhlo.sharding = \"{devices=[4,1]<=[4]}\"}) -> (" T ", " T
        ", " T ", " T ", " T ") {\nreturn %a, %b, %c, %d, %e : " T ", " T ", " T ", " T ", " T "\n}\n}\n";
    static const char *const wanted[] = {"{devices=[2,2]<=[4]}", "{devices=[4,1]<=[4]}", "{devices=[4,1]3,2,1,0}",
                                         "{devices=[4,1]1,0,3,2}", "{replicated}"};
    HloModule *modules[3] = {NULL};
    HloText text = {0}, bytes = {0};
    cr_assert_null(hlo_module_from_stablehlo_text(program, strlen(program), NULL, &modules[0]));
    cr_assert_null(hlo_print(modules[0], NULL, &text));
    cr_assert_null(hlo_parse(text.data, text.length, NULL, &modules[1]), "%s", text.data);
    cr_assert_null(hlo_module_to_proto(modules[0], &bytes));
    cr_assert_null(hlo_module_from_proto(bytes.data, bytes.length, &modules[2]));
    for (int i = 0; i < 3; i++) {
        HloModule *partitioned = NULL;
        HloStatus status = spmd_partition(modules[i], NULL, &partitioned, NULL);
        cr_assert_null(status, "%d: %s", i, hlo_status_message(status));
        for (size_t p = 0; p < HLO_COUNT_OF(wanted); p++) {
            HloText sharding = {0};
            hlo_sharding_print(&sharding, partitioned->entry->parameters.items[p]->sharding);
            cr_expect_str_eq(sharding.data, wanted[p], "door %d, parameter %zu", i, p);
            hlo_text_free(&sharding);
        }
        hlo_module_free(partitioned);
        hlo_module_free(modules[i]);
    }
    hlo_text_free(&text);
    hlo_text_free(&bytes);
}

// Results as jaxlib 0.10.2 leaves them: JAX names the sharding of a result by whole axes of the mesh, and fails on
// others.
static const struct {
    const char *from, *axes, *to, *want;
} boundaries[] = {
    {"10x7", "[{\"a\"}, {}]", "10x7", "{replicated}"},
    {"10x7", "[{\"b\", \"a\"}, {}]", "10x7", "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}"},
    {"12x6", "[{\"a\", \"b\"}, {}]", "12x6", "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"},
    {"8x3", "[{\"a\"}, {}]", "2x4x3", "{replicated}"},
    {"8x2", "[{}, {\"b\"}]", "4x2x2", "{devices=[1,1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}"},
};

CaseList(sdy, bug_a_result_was_sharded_by_a_sub_axis) {
    return cases_numbered(HLO_COUNT_OF(boundaries));
}

CaseTest(const int *number, sdy, bug_a_result_was_sharded_by_a_sub_axis) {
    HloText text = {0}, sharding = {0};
    const char *from = boundaries[*number].from, *to = boundaries[*number].to;
    hlo_text_format(&text,
                    "module attributes {mhlo.num_partitions = 8 : i32} {\nsdy.mesh @mesh = <[\"a\"=4, \"b\"=2]>\n"
                    "func.func public @main(%%x: tensor<%sxf32>) -> tensor<%sxf32> {\n"
                    "%%0 = sdy.sharding_constraint %%x <@mesh, %s> : tensor<%sxf32>\n"
                    "%%1 = stablehlo.reshape %%0 : (tensor<%sxf32>) -> tensor<%sxf32>\n"
                    "%%2 = stablehlo.cosine %%1 : tensor<%sxf32>\nreturn %%2 : tensor<%sxf32>\n}\n}\n",
                    from, to, boundaries[*number].axes, from, from, to, to, to);
    HloModule *module = NULL, *partitioned = NULL;
    SpmdBoundary *boundary = NULL;
    cr_assert_null(hlo_module_from_stablehlo_text(text.data, text.length, NULL, &module), "%s", text.data);
    cr_assert_null(spmd_partition(module, &(SpmdOptions){.even_boundary = true}, &partitioned, NULL));
    cr_assert_null(spmd_boundary_new(partitioned, &boundary));
    hlo_sharding_print(&sharding, boundary->results[0].sharding);
    cr_expect_str_eq(sharding.data, boundaries[*number].want, "%s cut by %s", from, boundaries[*number].axes);
    spmd_boundary_free(boundary);
    hlo_text_free(&sharding);
    hlo_text_free(&text);
    hlo_module_free(partitioned);
    hlo_module_free(module);
}
