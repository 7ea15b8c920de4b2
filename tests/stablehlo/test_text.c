// SPDX-License-Identifier: Apache-2.0
// MLIR text: JAX's output reads as the same module as its bytecode; every form is understood; errors have a place.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "hlo/base/file.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "tests/stablehlo/golden.h"
#include "tests/support/cases.h"

#include "tests/stablehlo/golden.inc"

// MLIR's output for the golden program. Free with hlo_file_content_free().
static HloFileContent golden_text(const Golden *golden, bool generic) {
    char path[300];
    const char *form = generic ? "generic" : "pretty";
    snprintf(path, sizeof(path), "%s/tests/stablehlo/golden/%s.%s.mlir", MESHLO_SOURCE_DIR, golden->name, form);
    HloFileContent content;
    must(hlo_file_read(path, (size_t)1 << 24, &content), path);
    return content;
}

static HloModule *read_text(const char *text, const char *what) {
    HloModule *module = NULL;
    must(hlo_module_from_stablehlo_text(text, strlen(text), "test.mlir", &module), what);
    must(hlo_verify(module), what);
    return module;
}

static HloText print(const HloModule *module) {
    HloPrintOptions options = hlo_print_default();
    options.print_large_constants = true;
    options.print_percent = false;
    return print_module(module, &options);
}

static struct criterion_test_params each_golden(void) {
    return cases_numbered(HLO_COUNT_OF(goldens));
}

CaseList(stablehlo_text, equals_bytecode) {
    return each_golden();
}

CaseTest(const int *index, stablehlo_text, equals_bytecode) {
    const Golden *golden = &goldens[*index];
    HloModule *module = NULL;
    must(hlo_module_from_stablehlo_bytecode(golden->bytes, golden->length, &module), golden->name);
    HloText expected = print(module);
    for (int i = 0; i < 2; i++) {
        HloFileContent content = golden_text(golden, i == 1);
        HloModule *again = read_text(content.data, golden->name);
        HloText text = print(again);
        cr_assert_str_eq(text.data, expected.data, "%s, form %d", golden->name, i);
        hlo_text_free(&text);
        hlo_module_free(again);
        hlo_file_content_free(&content);
    }
    hlo_text_free(&expected);
    hlo_module_free(module);
}

// Texts cut off or with a character changed are read or refused, and never do harm.
CaseList(stablehlo_text, hostile_text) {
    return each_golden();
}

// Any text gives a module that can be verified, or an error with a message, and never both.
static void try_text(const char *text, size_t length) {
    HloModule *module = NULL;
    HloStatus status = hlo_module_from_stablehlo_text(text, length, NULL, &module);
    cr_expect(!status == !!module);
    cr_expect(!status || hlo_status_message(status)[0]);
    if (!status) status = hlo_verify(module);
    hlo_status_free(status);
    hlo_module_free(module);
}

CaseTest(const int *index, stablehlo_text, hostile_text) {
    for (int form = 0; form < 2; form++) {
        HloFileContent content = golden_text(&goldens[*index], form == 1);
        size_t length = content.size;
        char *copy = malloc(length);
        for (size_t cut = 0; cut < length; cut += 61 + length / 200) {
            memcpy(copy, content.data, length);
            try_text(copy, cut);
            copy[cut] ^= (char)(1 + cut % 31);
            try_text(copy, length);
        }
        free(copy);
        hlo_file_content_free(&content);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Forms

typedef struct Form {
    const char *name, *text;
    const char *expected;  // a part of the printed module
} Form;

static const Form forms[] = {
    {"the long spelling of dimension numbers",
     "func.func @main(%a: tensor<2x9x3xf32>, %k: tensor<2x3x4xf32>) -> tensor<2x8x4xf32> {\n"
     "  %0 = \"stablehlo.convolution\"(%a, %k) <{dimension_numbers = #stablehlo.conv<raw input_batch_dimension = 0, "
     "input_feature_dimension = 2, input_spatial_dimensions = [1], kernel_input_feature_dimension = 1, "
     "kernel_output_feature_dimension = 2, kernel_spatial_dimensions = [0], output_batch_dimension = 0, "
     "output_feature_dimension = 2, output_spatial_dimensions = [1]>, batch_group_count = 1 : i64, "
     "feature_group_count = 1 : i64}> : (tensor<2x9x3xf32>, tensor<2x3x4xf32>) -> tensor<2x8x4xf32>\n"
     "  return %0 : tensor<2x8x4xf32>\n}",
     "dim_labels=b0f_0io->b0f"},
    {"attributes that say nothing to HLO, and a comment",
     "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
     "  %0 = chlo.broadcast_add %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> // types of a function\n"
     "  %1 = \"stablehlo.abs\"(%0) {x = unit, y = affine_map<(d0) -> (d0)>, z = @a::@b, w = distinct[0]<unit>, "
     "v = #stablehlo.mesh_axis<name = \"x\", size = 2>, u = loc(\"here\"), t = memref<4xf32>, s = si8} : "
     "(tensor<4xf32>) -> tensor<4xf32>\n  return %1 : tensor<4xf32>\n}",
     "ROOT abs = f32[4]{0} abs(add)"},
    {"a sharding for each result",
     "sdy.mesh @mesh = <[\"x\"=2]>\nfunc.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {\n"
     "  %0:2 = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{\"x\"}]>, <@mesh, "
     "[{}]>]>} %a, %a : tensor<4xf32>, tensor<4xf32>\n  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>\n}",
     "opt-barrier(tuple), sharding={{devices=[2]<=[2]}, {replicated}}"},
    {"a sharding of a result that is a parameter",
     "sdy.mesh @mesh = <[\"x\"=2]>\nfunc.func @main(%a: tensor<4xf32>) -> (tensor<4xf32> {sdy.sharding = "
     "#sdy.sharding<@mesh, [{\"x\"}]>}) {\n  return %a : tensor<4xf32>\n}",
     "ROOT copy = f32[4]{0} copy(Arg_0), sharding={devices=[2]<=[2]}"},
    {"sizes of the run",
     "func.func @main(%a: tensor<4xf32>, %n: tensor<1xi32>) -> tensor<?xf32, #stablehlo.bounds<4>> {\n"
     "  %0 = stablehlo.dynamic_reshape %a, %n : (tensor<4xf32>, tensor<1xi32>) -> tensor<?xf32, "
     "#stablehlo.bounds<4>>\n  return %0 : tensor<?xf32, #stablehlo.bounds<4>>\n}",
     "dynamic-reshape(Arg_0, reshape)"},
    {"a slice of known length whose start moves",
     "func.func @main(%a: tensor<4xf32>, %s: tensor<1xi32>) -> tensor<2xf32> {\n"
     "  %c = stablehlo.constant dense<2> : tensor<1xi32>\n  %one = stablehlo.constant dense<1> : tensor<1xi32>\n"
     "  %l = stablehlo.add %s, %c : tensor<1xi32>\n  %0 = stablehlo.real_dynamic_slice %a, %s, %l, %one : "
     "(tensor<4xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<2xf32>\n  return %0 : tensor<2xf32>\n}",
     "dynamic-slice(Arg_0, reshape), dynamic_slice_sizes={2}"},
    {"a slice of a length that only its bounds tell",
     "func.func @main(%a: tensor<4xf32>, %s: tensor<1xi32>) -> tensor<?xf32, #stablehlo.bounds<2>> {\n"
     "  %c = stablehlo.constant dense<2> : tensor<1xi32>\n  %one = stablehlo.constant dense<1> : tensor<1xi32>\n"
     "  %l = stablehlo.add %c, %s : tensor<1xi32>\n  %0 = stablehlo.real_dynamic_slice %a, %s, %l, %one : "
     "(tensor<4xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32, #stablehlo.bounds<2>>\n  return "
     "%0 : tensor<?xf32, #stablehlo.bounds<2>>\n}",
     "dynamic_slice_sizes={2}"},
    {"a configuration of bytes",
     "func.func @main(%a: tensor<4xf32>) {\n  stablehlo.custom_call @InspectSharding(%a) {backend_config = "
     "\"\\01\\FE\", has_side_effect = true} : (tensor<4xf32>) -> ()\n  return\n}",
     "backend_config=\"01fe\""},
    {"memories",
     "func.func @main(%a: tensor<4xf32> {mhlo.memory_kind = \"pinned_host\"}) -> tensor<4xf32> {\n"
     "  %0 = stablehlo.custom_call @annotate_device_placement(%a) {has_side_effect = true, mhlo.frontend_attributes = "
     "{_xla_buffer_placement = \"unpinned_host\"}} : (tensor<4xf32>) -> tensor<4xf32>\n  return %0 : "
     "tensor<4xf32>\n}",
     "copy(Arg_0)"},
    {"a message with pairs and a device",
     "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  %t = stablehlo.create_token : !stablehlo.token\n"
     "  %r:2 = \"stablehlo.recv\"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, "
     "is_host_transfer = false, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> {mhlo.sharding = "
     "\"{maximal device=0}\"} : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)\n"
     "  return %r#0 : tensor<4xf32>\n}",
     "channel_id=1, sharding={{maximal device=0}, {maximal device=0}, {maximal device=0}}, "
     "frontend_attributes={_xla_send_recv_source_target_pairs={{0,1}}}"},
    {"a message from the host, with shardings of values of several ranks",
     "sdy.mesh @none = <[]>\nfunc.func @main(%a: tensor<2x4xf32>) -> tensor<2x4xf32> {\n"
     "  %t = stablehlo.create_token : !stablehlo.token\n"
     "  %r:2 = \"stablehlo.recv\"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 3>, "
     "is_host_transfer = true}> {sdy.sharding = #sdy.sharding_per_value<[<@none, [{}, {}]>, <@none, []>]>} : "
     "(!stablehlo.token) -> (tensor<2x4xf32>, !stablehlo.token)\n  return %r#0 : tensor<2x4xf32>\n}",
     "channel_id=3, is_host_transfer=true"},
    {"functions without a module",
     "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { %0 = func.call @f(%a) : (tensor<2xf32>) -> tensor<2xf32>\n"
     "return %0 : tensor<2xf32> }\n"
     "func.func private @f(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }",
     "to_apply=f"},
    {"hexadecimal values",
     "func.func @main() -> (tensor<2xf32>, tensor<f32>, tensor<2xi8>) { %0 = stablehlo.constant "
     "dense<\"0x0000803F00000040\"> : tensor<2xf32>\n"
     "%1 = stablehlo.constant dense<0xFF800000> : tensor<f32> %2 = stablehlo.constant dense<[0x7F, -1]> : "
     "tensor<2xi8>\n"
     "return %0, %1, %2 : tensor<2xf32>, tensor<f32>, tensor<2xi8> }",
     "constant({1, 2})"},
    {"complex values",
     "func.func @main() -> tensor<2xcomplex<f32>> {\n"
     "  %0 = stablehlo.constant dense<[(1.0, -2.0), (0x7F800000, 0.0)]> : tensor<2xcomplex<f32>>\n"
     "  return %0 : tensor<2xcomplex<f32>>\n}",
     "constant({(1, -2), (inf, 0)})"},
    {"resources",
     "func.func @main() -> tensor<2xi32> {\n  %0 = stablehlo.constant dense_resource<k> : tensor<2xi32>\n"
     "  return %0 : tensor<2xi32>\n}\n{-#\n  dialect_resources: {\n    builtin: {\n"
     "      k: \"0x040000000100000002000000\"\n    }\n  }\n#-}\n",
     "constant({1, 2})"},
    {"bounded dimensions",
     "func.func @main(%a: tensor<?xf32, #stablehlo.bounds<4>>) -> tensor<?xf32, #stablehlo.bounds<4>> {\n"
     "  %0 = stablehlo.abs %a : tensor<?xf32, #stablehlo.bounds<4>>\n"
     "  return %0 : tensor<?xf32, #stablehlo.type_extensions<bounds = [4]>>\n}",
     "f32[<=4]{0} abs"},
    {"aliases of types and attributes",
     "!t = tensor<3xf32>\n#d = array<i64: 0>\nfunc.func @main(%a: !t) -> !t {\n"
     "  %0 = \"stablehlo.reverse\"(%a) <{dimensions = #d}> : (!t) -> !t\n  return %0 : !t\n}",
     "reverse(Arg_0), dimensions={0}"},
    {"locations",
     "func.func @main(%a: tensor<f32> loc(\"x\")) -> tensor<f32> {\n"
     "  %0 = stablehlo.abs %a : tensor<f32> loc(\"layer/abs\"(callsite(\"f\"(\"a.py\":7:3 to :9) at fused[unknown, "
     "#l])))\n"
     "  return %0 : tensor<f32>\n}\n#l = loc(\"b.py\":1:2)\n",
     "metadata={op_name=\"layer/abs\" source_file=\"a.py\" source_line=7}"},
    {"a reduction of two arrays",
     "func.func @main(%a: tensor<4xf32>, %b: tensor<4xi32>, %c: tensor<f32>, %d: tensor<i32>) -> tensor<f32> {\n"
     "  %0:2 = stablehlo.reduce(%a init: %c), (%b init: %d) across dimensions = [0] : (tensor<4xf32>, tensor<4xi32>, "
     "tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)\n"
     "    reducer(%p: tensor<f32>, %q: tensor<f32>) (%r: tensor<i32>, %s: tensor<i32>) {\n"
     "    %1 = stablehlo.maximum %p, %q : tensor<f32>\n    %2 = stablehlo.add %r, %s : tensor<i32>\n"
     "    stablehlo.return %1, %2 : tensor<f32>, tensor<i32>\n  }\n  return %0#0 : tensor<f32>\n}",
     "reduce(Arg_0, Arg_1, Arg_2, Arg_3), dimensions={0}"},
    {"an old reduction",
     "func.func @main(%a: tensor<4x2xf32>, %c: tensor<f32>) -> tensor<2xf32> {\n"
     "  %0 = stablehlo.reduce(%a init: %c) applies stablehlo.maximum across dimensions = [0] : (tensor<4x2xf32>, "
     "tensor<f32>) -> tensor<2xf32>\n  return %0 : tensor<2xf32>\n}",
     "reduce(Arg_0, Arg_1), dimensions={0}"},
    {"a loop that captures",
     "func.func @main(%a: tensor<i32>, %n: tensor<i32>) -> tensor<i32> {\n"
     "  %0 = stablehlo.while(%i = %a) : tensor<i32>\n  cond {\n"
     "    %1 = stablehlo.compare  LT, %i, %n,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
     "    stablehlo.return %1 : tensor<i1>\n  } do {\n    %1 = stablehlo.add %i, %i : tensor<i32>\n"
     "    stablehlo.return %1 : tensor<i32>\n  }\n  return %0 : tensor<i32>\n}",
     "while("},
    {"a comparator within a branch that uses a constant from outside of both",
     "func.func @main(%a: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {\n  %c = stablehlo.constant dense<3.0> : "
     "tensor<f32>\n  %0 = \"stablehlo.if\"(%p) ({\n    %1 = \"stablehlo.sort\"(%a) <{dimension = 0 : i64}> ({\n"
     "    ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n      %2 = stablehlo.minimum %x, %c : tensor<f32>\n"
     "      %3 = stablehlo.compare LT, %2, %y, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
     "      stablehlo.return %3 : tensor<i1>\n    }) : (tensor<4xf32>) -> tensor<4xf32>\n"
     "    stablehlo.return %1 : tensor<4xf32>\n  }, {\n    stablehlo.return %a : tensor<4xf32>\n  }) : "
     "(tensor<i1>) -> tensor<4xf32>\n  return %0 : tensor<4xf32>\n}",
     "sort("},
    {"a random number's distribution",
     "func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<3xf32> {\n"
     "  %s = stablehlo.constant dense<3> : tensor<1xi64>\n"
     "  %0 = stablehlo.rng %a, %b, %s, distribution =  UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> "
     "tensor<3xf32>\n  return %0 : tensor<3xf32>\n}",
     "distribution=rng_uniform"},
    {"a named mesh and its shardings",
     "module attributes {mhlo.num_partitions = 8 : i32} {\n  sdy.mesh @mesh = <[\"a\"=4, \"b\"=2]>\n"
     "  func.func public @main(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"a\"}, {?}p1]>}) -> "
     "tensor<8x4xf32> {\n    %0 = sdy.sharding_constraint %x <@mesh, [{\"a\":(1)2, \"b\"}, {}]> : tensor<8x4xf32>\n"
     "    return %0 : tensor<8x4xf32>\n  }\n}",
     "sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}"},
#define SDY(lines)                                                                                   \
    "module attributes {mhlo.num_partitions = 4 : i32} {\n  sdy.mesh @mesh = <[\"a\"=2, \"b\"=2]>\n" \
    "  func.func public @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {\n" lines                     \
    "\n    return %0 : tensor<8x4xf32>\n"                                                            \
    "  }\n}"
    {"a gathering of shardy",
     SDY("    %0 = sdy.all_gather [{}, {\"b\"}] %x out_sharding=<@mesh, [{\"a\"}, {}]> : tensor<8x4xf32>"),
     "custom_call_target=\"Sharding\", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}"},
    {"an exchange of shardy",
     SDY("    %0 = sdy.all_to_all [{\"b\"}: 1->0] %x out_sharding=<@mesh, [{\"a\", \"b\"}, {}]> : tensor<8x4xf32>"),
     "custom_call_target=\"Sharding\", sharding={devices=[4,1]<=[4]}"},
    {"a sum of shardy", SDY("    %0 = sdy.all_reduce {\"b\"} %x out_sharding=<@mesh, [{\"a\"}, {}]> : tensor<8x4xf32>"),
     "custom_call_target=\"Sharding\", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}"},
    {"a sum that shardy leaves open",
     SDY("    %0 = sdy.sharded_to_unreduced [{\"a\"}, {}] %x out_sharding=<@mesh, [{}, {}], unreduced={\"a\"}> : "
         "tensor<8x4xf32>"),
     "last_tile_dims={unreduced"},
    {"a permutation of shardy, generic",
     SDY("    %0 = \"sdy.collective_permute\"(%x) <{out_sharding = #sdy.sharding<@mesh, [{\"b\"}, {}]>}> : "
         "(tensor<8x4xf32>) -> tensor<8x4xf32>"),
     "custom_call_target=\"Sharding\", sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}"},
    {"the end of an edge, with a sharding",
     SDY("    %0 = sdy.data_flow_edge %x sharding=<@mesh, [{\"a\"}, {}]> : tensor<8x4xf32>"),
     "custom_call_target=\"Sharding\", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}"},
    {"a barrier to propagation", SDY("    %0 = sdy.propagation_barrier %x allowed_direction=FORWARD : tensor<8x4xf32>"),
     "custom_call_target=\"xla.sdy.PropagationBarrier\", frontend_attributes={xla.sdy.allowed_direction=\"FORWARD\"}"},
    {"a named computation",
     SDY("    %0 = sdy.named_computation<\"square\"> (%x) out_shardings=[<@mesh, [{\"a\"}, {}]>] (%y: tensor<8x4xf32>) "
         "{\n"
         "      %1 = stablehlo.multiply %y, %y : tensor<8x4xf32>\n      sdy.return %1 : tensor<8x4xf32>\n    } : "
         "(tensor<8x4xf32>) -> tensor<8x4xf32>"),
     "custom-call(multiply), custom_call_target=\"Sharding\", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}"},
#undef SDY
#define GROUPS(mesh, groups)                                                                                     \
    "module attributes {mhlo.num_partitions = 4 : i32} {\n  sdy.mesh @mesh = <[\"a\"=2, \"b\"=2]>\n"             \
    "  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n    %0 = \"stablehlo.all_reduce\"(%x) ({\n"        \
    "      ^bb0(%p: tensor<f32>, %q: tensor<f32>):\n        %s = stablehlo.add %p, %q : tensor<f32>\n"           \
    "        stablehlo.return %s : tensor<f32>\n    }) {channel_handle = #stablehlo.channel_handle<handle = 1, " \
    "type = 1>, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = " mesh ", axes = [" groups            \
    "]>, use_global_device_ids} : (tensor<8xf32>) -> tensor<8xf32>\n    return %0 : tensor<8xf32>\n  }\n}"
    {"replica groups by an axis of a mesh", GROUPS("@mesh", "#stablehlo.axis_ref<name = \"b\">"),
     "replica_groups=mesh['a'=2,'b'=2] {'b'}"},
    {"replica groups by a part of an axis of a mesh that is written there",
     GROUPS("#stablehlo.mesh<axes=[<name = \"c\", size = 4>], device_ids=dense<[3, 2, 1, 0]> : tensor<4xi64>>",
            "#stablehlo.axis_ref<name = \"c\", sub_axis_info = (2)2>"),
     "{'c':(2)2}"},
#define RAGGED(options)                                                                                        \
    "module attributes {mhlo.num_partitions = 2 : i32} {\n  func.func @main(%a: tensor<4xf32>, %o: "           \
    "tensor<6xf32>, %i: tensor<2xi32>) -> tensor<6xf32> {\n    %0 = stablehlo.custom_call @ragged_all_to_all(" \
    "%a, %o, %i, %i, %i, %i) {api_version = 4 : i32, backend_config = {" options                               \
    "}} : (tensor<4xf32>, tensor<6xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> "      \
    "tensor<6xf32>\n    return %0 : tensor<6xf32>\n  }\n}"
    {"an exchange of uneven pieces, as JAX writes it",
     RAGGED("channel_id = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"),
     "/*index=5*/Arg_2), channel_id=1, replica_groups={{0,1}}"},
    {"an exchange of uneven pieces between replicas", RAGGED("replica_groups = dense<0> : tensor<1x1xi64>"),
     "/*index=5*/Arg_2), replica_groups={{0}}"},
#undef RAGGED
    {"a name of a function that no HLO text can have",
     "module @\"a b\" {\nfunc.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = call @\"-f g\"(%x) : "
     "(tensor<2xf32>) -> tensor<2xf32>\n  return %0 : tensor<2xf32>\n}\nfunc.func private @\"-f g\"(%x: "
     "tensor<2xf32>) -> tensor<2xf32> {\n  return %x : tensor<2xf32>\n}\n}",
     "to_apply=_f_g"},
    {"a module called as a type is",
     "module @f32 {\nfunc.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  return %x : tensor<2xf32>\n}\n}",
     "HloModule f32_,"},
    {"a tolerance as the bits of a number",
     "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = \"stablehlo.tanh\"(%x) {result_accuracy = "
     "#stablehlo.result_accuracy<atol = 0x3FF8000000000000, rtol = 0.0, ulps = 1, mode = "
     "#stablehlo.result_accuracy_mode<TOLERANCE>>} : (tensor<2xf32>) -> tensor<2xf32>\n  return %0 : tensor<2xf32>\n}",
     "atol=1.5"},
    {"a sharding of no bytes, which is replicated",
     "func.func @main(%x: tensor<2xf32> {mhlo.sharding = \"\"}) -> tensor<2xf32> {\n  return %x : tensor<2xf32>\n}",
     "parameter(0), sharding={replicated}"},
    {"a sharding as the bytes of a message",
     "func.func @main(%x: tensor<2xf32> {mhlo.sharding = \"\\08\\03\\1A\\01\\02\\22\\02\\00\\01\"}) -> "
     "tensor<2xf32> {\n  return %x : tensor<2xf32>\n}",
     "parameter(0), sharding={devices=[2]0,1}"},
};

CaseList(stablehlo_text, understands) {
    return cases_numbered(HLO_COUNT_OF(forms));
}

CaseTest(const int *index, stablehlo_text, understands) {
    const Form *form = &forms[*index];
    HloModule *module = read_text(form->text, form->name);
    HloText text = print(module);
    cr_assert(strstr(text.data, form->expected), "%s: no %s in\n%s", form->name, form->expected, text.data);
    hlo_text_free(&text);
    hlo_module_free(module);
}

// ---------------------------------------------------------------------------------------------------------------------
// Errors

typedef struct Refusal {
    const char *text;
    int64_t line, column;  // 0: without a place in the text
    const char *message;
} Refusal;

#define BODY(lines) "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n" lines "\n  return %a : tensor<2xf32>\n}"

static const Refusal refusals[] = {
    {"module {", 1, 9, "the text ends"},
    {BODY("  %0 = stablehlo.frob %a : tensor<2xf32>"), 2, 8, "unknown"},
    {BODY("  %0 = stablehlo.abs %b : tensor<2xf32>"), 2, 22, "%b is not defined"},
    {BODY("  %0 = stablehlo.abs %a#1 : tensor<2xf32>"), 2, 22, "has 1 values"},
    {BODY("  %0 = stablehlo.abs %a : tensor<3xf32>"), 2, 22, "a different type"},
    {BODY("  %0 = stablehlo.abs %a : tensor<2xf33>"), 2, 36, "not a type"},
    {BODY("  %a = stablehlo.abs %a : tensor<2xf32>"), 2, 4, "defined twice"},
    {BODY("  %0:2 = stablehlo.abs %a : tensor<2xf32>"), 2, 10, "1 results"},
    {BODY("  %0 = stablehlo.constant dense<[1.0]> : tensor<2xf32>"), 2, 37, "expected ','"},
    {BODY("  %0 = stablehlo.constant dense<1> : tensor<2xf32>"), 2, 33, "decimal"},
    {BODY("  %0 = stablehlo.constant dense<\"0x00\"> : tensor<2xf32>"), 2, 34, "has 1 bytes"},
    {BODY("  %0 = stablehlo.constant dense_resource<k> : tensor<2xf32>"), 2, 41, "no resource"},
    {BODY("  %0 = stablehlo.constant dense<0> : tensor<4294967296xi8>"), 2, 33, "larger than"},
    {BODY("  %0 = stablehlo.compare XX, %a, %a : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>"), 2, 26,
     "expected one"},
    {BODY("  %0 = stablehlo.abs %a : tensor<2xf32> loc(#nowhere)"), 2, 45, "not defined"},
    {BODY("  %0 = \"stablehlo.abs\"(%a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>"), 2, 24,
     "1 operands, but 2"},
    {"#a = loc(#b)\n#b = loc(#a)\nfunc.func @main() { return } loc(#a)", 1, 10, "part of itself"},
    {"func.func @main(%a: tensor<2x!quant.uniform<i8:f32, 1.0>>) { return }", 1, 1, "quantized"},
    {"func.func @main(%a: tensor<*xf32>) { return }", 1, 1, "unranked"},
    // Found by fuzz_stablehlo: the results' attributes were looked up by the declared number of results.
    {"func.func @main(%a: tensor<2xf32>) -> (tensor<2xf32> {a}, tensor<f32> {mhlo.sharding = \"{replicated}\"}) {\n"
     "  return %a : tensor<2xf32>\n}",
     1, 1, "types that differ from its declaration"},
    // Semantic errors have the place of the operation, that inside of regions too.
    {BODY("  %0 = stablehlo.reshape %a : (tensor<2xf32>) -> tensor<3xf32>"), 2, 8, "reshape"},
    {BODY("  %p = stablehlo.constant dense<true> : tensor<i1>\n  %0 = \"stablehlo.if\"(%p) ({\n    stablehlo.return %a "
          ": "
          "tensor<2xf32>\n  }, {\n    %1 = stablehlo.abs %p : tensor<i1>\n    stablehlo.return %a : tensor<2xf32>\n  "
          "}) : "
          "(tensor<i1>) -> tensor<2xf32>"),
     6, 10, "abs"},
    {"func.func @f() { return }\nfunc.func @g() { return }", 0, 0, "no function @main; it has @f, @g"},
    {"module @m {\n  func.func public @step() { return }\n}", 1, 1, "no function @main; it has @step"},
    {"module @m {\n}", 1, 1, "the module has no body"},
    {BODY("  %0 = stablehlo.abs %a {mhlo.sharding = \"{devices=[x]<=[4]}\"} : tensor<2xf32>"), 2, 8,
     "mhlo.sharding \"{devices=[x]<=[4]}\": expected an integer"},
    {BODY("  %0 = \"stablehlo.constant\"() {value = dense<1.0> : tensor<f32>} : () -> tensor<1000000xf32>"), 2, 8,
     "a different type than its result"},
    {BODY("  %0 = \"stablehlo.constant\"() {value = dense<1> : tensor<i32>} : () -> tensor<?xi32>"), 2, 8,
     "a different type than its result"},
    {BODY("  %z = stablehlo.constant dense<0.0> : tensor<f32>\n  %s = stablehlo.constant dense<2> : tensor<1xi64>\n  "
          "%0 = "
          "\"stablehlo.rng\"(%z, %z, %s) {rng_distribution} : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> "
          "tensor<2xf32>"),
     4, 8, "kind RandomDistribution"},
    {BODY("  %0 = \"stablehlo.all_reduce\"(%a) ({\n    ^bb0(%p: tensor<f32>, %q: tensor<f32>):\n      stablehlo.return "
          "%p : "
          "tensor<f32>\n  }) {replica_groups = dense<0> : tensor<1x1xi64>, use_global_device_ids} : (tensor<2xf32>) -> "
          "tensor<2xf32>"),
     2, 8, "needs a channel_handle"},
    {GROUPS("@none", "#stablehlo.axis_ref<name = \"b\">"), 4, 10, "a mesh that does not exist"},
    {GROUPS("@mesh", "#stablehlo.axis_ref<name = \"z\">"), 4, 10, "the axis \"z\""},
    {GROUPS("@mesh", "#stablehlo.axis_ref<name = \"b\", sub_axis_info = (2)2>"), 4, 10, "does not fit"},
    {GROUPS("@mesh", "\"b\""), 4, 10, "not a valid axis"},
    {"func.func @main(%x: tensor<2xf32> {mhlo.sharding = \"\\FF\"}) -> tensor<2xf32> {\n  return %x : tensor<2xf32>\n}",
     1, 1, "malformed protobuf"},
};

CaseList(stablehlo_text, refuses) {
    return cases_numbered(HLO_COUNT_OF(refusals));
}

CaseTest(const int *index, stablehlo_text, refuses) {
    const Refusal *refusal = &refusals[*index];
    HloModule *module = NULL;
    HloStatus status = hlo_module_from_stablehlo_text(refusal->text, strlen(refusal->text), "test.mlir", &module);
    cr_assert(status, "accepted: %s", refusal->text);
    char *text = hlo_status_to_text(status);
    cr_expect(strstr(text, refusal->message), "%s: no '%s' in %s", refusal->text, refusal->message, text);
    const HloPlace *place = hlo_status_place(status);
    cr_expect_eq(place ? place->line : 0, refusal->line, "%s", text);
    cr_expect_eq(place ? place->column : 0, refusal->column, "%s", text);
    hlo_free(text);
    hlo_status_free(status);
}

Test(stablehlo_text, deep_nesting_is_refused) {
    enum { DEPTH = 100000 };
    static const char *const openings[] = {"[", "{a = ", "(", "tuple<", "#stablehlo<"};
    for (size_t i = 0; i < HLO_COUNT_OF(openings); i++) {
        HloText text = {0};
        hlo_text_string(&text, "module attributes {x = ");
        for (int j = 0; j < DEPTH; j++) hlo_text_string(&text, openings[i]);
        HloModule *module = NULL;
        HloStatus status = hlo_module_from_stablehlo_text(text.data, text.length, NULL, &module);
        cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
        hlo_status_free(status);
        hlo_text_free(&text);
    }
}

// Bytecode has no enumerations of chlo: a composite's come as words, and were all taken for the first, then for errors.
Test(stablehlo_text, bug_enumerations_of_composites_are_words) {
    static const struct {
        const char *words, *precision;
    } cases[] = {{"[\"HIGHEST\", \"DEFAULT\"]", "operand_precision={highest,default}"},
                 {"[\"DEFAULT\", \"HIGH\"]", "operand_precision={default,high}"},
                 {"[\"DEFAULT\", \"DEFAULT\"]", NULL},
                 {"[\"DEFAULT\", \"UTMOST\"]", "unknown Precision 'UTMOST'"},
                 {"[\"a word that is longer than any of them\", \"HIGH\"]", "unknown Precision 'a word that"}};
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        HloText text = {0};
        hlo_text_format(
            &text,
            "func.func @main(%%a: tensor<8x4xf32>, %%b: tensor<3x4x5xf32>, %%g: tensor<3xi32>) -> tensor<8x5xf32> {\n"
            "  %%0 = stablehlo.composite \"chlo.ragged_dot\" %%a, %%b, %%g {composite_attributes = {precision_config = "
            "%s, "
            "ragged_dot_dimension_numbers = [dense<> : tensor<0xi64>, dense<> : tensor<0xi64>, dense<1> : "
            "tensor<1xi64>, "
            "dense<1> : tensor<1xi64>, dense<0> : tensor<1xi64>, dense<0> : tensor<1xi64>]}, decomposition = @impl, "
            "version = 1 : i32} : (tensor<8x4xf32>, tensor<3x4x5xf32>, tensor<3xi32>) -> tensor<8x5xf32>\n"
            "  return %%0 : tensor<8x5xf32>\n}\n"
            "func.func private @impl(%%a: tensor<8x4xf32>, %%b: tensor<3x4x5xf32>, %%g: tensor<3xi32>) -> "
            "tensor<8x5xf32> {\n"
            "  %%z = stablehlo.constant dense<0.0> : tensor<8x5xf32>\n  return %%z : tensor<8x5xf32>\n}\n",
            cases[i].words);
        HloModule *module = NULL;
        HloStatus status = hlo_module_from_stablehlo_text(text.data, text.length, "test.mlir", &module);
        if (status) {
            cr_expect(strstr(hlo_status_message(status), cases[i].precision), "%s", hlo_status_message(status));
        } else {
            HloText hlo = print(module);
            const char *found = strstr(hlo.data, "operand_precision=");
            cr_assert(strstr(hlo.data, "ragged-dot("), "%s", hlo.data);
            if (cases[i].precision)
                cr_expect(found && strstr(hlo.data, cases[i].precision), "%s", hlo.data);
            else
                cr_expect_null(found, "%s", hlo.data);
            hlo_text_free(&hlo);
        }
        cr_expect_eq(status != NULL, i >= 3, "%s", cases[i].words);
        hlo_status_free(status);
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}

// A module of one composite, whose decomposition is a composite too, that of @end. `message`: NULL where it is read.
static void check_nested_composite(const char *end, const char *message) {
    HloText text = {0};
    hlo_text_format(
        &text,
        "func.func @main(%%a: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %%0 = stablehlo.composite \"chlo.sinh\" %%a {decomposition = @outer} : (tensor<4xf32>) -> "
        "tensor<4xf32>\n  return %%0 : tensor<4xf32>\n}\n"
        "func.func private @outer(%%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %%0 = stablehlo.composite \"chlo.cosh\" %%x {decomposition = @%s} : (tensor<4xf32>) -> "
        "tensor<4xf32>\n  return %%0 : tensor<4xf32>\n}\n"
        "func.func private @same(%%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %%x : tensor<4xf32>\n}\n"
        "func.func private @shorter(%%x: tensor<3xf32>) -> tensor<3xf32> {\n  return %%x : tensor<3xf32>\n}\n",
        end);
    HloModule *module = NULL;
    HloStatus status = hlo_module_from_stablehlo_text(text.data, text.length, "test.mlir", &module);
    cr_expect_eq(status != NULL, message != NULL, "@%s: %s", end, hlo_status_message(status));
    if (status) cr_expect(strstr(hlo_status_message(status), message), "@%s: %s", end, hlo_status_message(status));
    if (module) cr_expect_eq(module->computations.count, 1, "the decompositions of known composites stay");
    hlo_status_free(status);
    hlo_module_free(module);
    hlo_text_free(&text);
}

// A composite in the decomposition of another was not checked, and ended the process.
// A composite with options that its name does not have computes the same as its decomposition.
Test(stablehlo_text, bug_a_blank_made_an_option_a_known_one) {
    static const char *const kKeys[] = {"k", "\" k\"", "\"k \"", "\"\""};
    for (size_t i = 0; i < HLO_COUNT_OF(kKeys); i++) {
        HloText text = {0};
        hlo_text_format(&text,
                        "func.func @main(%%a: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>) {\n"
                        "  %%0:2 = stablehlo.composite \"chlo.top_k\" %%a {composite_attributes = {%s = 2 : i64}, "
                        "decomposition = @d, version = 1 : i32} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)\n"
                        "  return %%0#0, %%0#1 : tensor<2xf32>, tensor<2xi32>\n}\n"
                        "func.func private @d(%%x: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>) {\n"
                        "  %%1 = stablehlo.slice %%x [0:2] : (tensor<4xf32>) -> tensor<2xf32>\n"
                        "  %%2 = stablehlo.iota dim = 0 : tensor<2xi32>\n"
                        "  return %%1, %%2 : tensor<2xf32>, tensor<2xi32>\n}\n",
                        kKeys[i]);
        HloModule *module = NULL;
        HloStatus status = hlo_module_from_stablehlo_text(text.data, text.length, "test.mlir", &module);
        cr_assert_null(status, "%s: %s", kKeys[i], hlo_status_message(status));
        cr_expect_eq(module->computations.count, i ? 2 : 1, "%s", kKeys[i]);
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}

Test(stablehlo_text, bug_composites_in_decompositions_of_others) {
    check_nested_composite("same", NULL);
    check_nested_composite("shorter", "computation shorter takes f32[3] as parameter 0, but f32[4] is passed");
    check_nested_composite("outer", "computation outer is part of a cycle of calls");
    check_nested_composite("absent", "there is no function @absent");
}

// The attributes of a composite and of a call came out as nothing, without its quotes' escapes, or as an integer where
// it was 1.0.
Test(stablehlo_text, bug_options_of_composites_and_calls_keep_their_types) {
    const char *options =
        "{f = 1.000000e+00 : f32, l = [1 : i64, true], n = 1 : i32, s = \"a\\22b\", t = dense<1> : tensor<2xi32>}";
    HloText text = {0};
    hlo_text_format(
        &text,
        "func.func @main(%%a: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %%0 = stablehlo.composite \"my.op\" %%a {composite_attributes = %s, decomposition = @d, version = 2 : "
        "i32} : (tensor<4xf32>) -> tensor<4xf32>\n"
        "  %%1 = \"stablehlo.custom_call\"(%%0) {call_target_name = \"t\", api_version = 4 : i32, "
        "backend_config = %s} : (tensor<4xf32>) -> tensor<4xf32>\n  return %%1 : tensor<4xf32>\n}\n"
        "func.func private @d(%%a: tensor<4xf32>) -> tensor<4xf32> {\n  return %%a : tensor<4xf32>\n}\n",
        options, options);
    HloModule *module = NULL;
    HloStatus status = hlo_module_from_stablehlo_text(text.data, text.length, "test.mlir", &module);
    cr_assert_null(status, "%s", hlo_status_message(status));
    HloText hlo = print(module), mlir = {0};
    const char *first = strstr(hlo.data, options);
    cr_expect(first && strstr(first + 1, options), "%s", hlo.data);
    status = hlo_module_to_stablehlo_text(module, false, &mlir);
    cr_assert_null(status, "%s", hlo_status_message(status));
    first = strstr(mlir.data, options);
    cr_expect(first && strstr(first + 1, options), "%s", mlir.data);
    hlo_text_free(&hlo);
    hlo_text_free(&mlir);
    hlo_text_free(&text);
    hlo_module_free(module);
}

// Formulas whose parts were arguments of one call came out in the order in which the compiler evaluates those.
Test(stablehlo_text, bug_formulas_of_chlo_depend_on_the_compiler) {
    const char *text =
        "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n  %0 = chlo.erfc %a : tensor<f32> -> tensor<f32>\n"
        "  return %0 : tensor<f32>\n}\n";
    HloModule *module = NULL;
    HloStatus status = hlo_module_from_stablehlo_text(text, strlen(text), "test.mlir", &module);
    cr_assert_null(status, "%s", hlo_status_message(status));
    HloText hlo = print(module);
    const char *size = strstr(hlo.data, "abs("), *limit = strstr(hlo.data, "constant(1)");
    cr_expect(size && limit && size < limit, "%s", hlo.data);
    hlo_text_free(&hlo);
    hlo_module_free(module);
}

// bug: bytecode gives a transfer with the host an empty list of pairs of any rank, and JAX's callbacks were refused.
Test(stablehlo_text, bug_transfers_have_empty_lists_of_pairs) {
    static const char *const lists[] = {"", ", source_target_pairs = dense<> : tensor<0xi64>",
                                        ", source_target_pairs = dense<> : tensor<0x2xi64>",
                                        ", source_target_pairs = dense<> : tensor<0x0xi64>"};
    for (size_t i = 0; i < HLO_COUNT_OF(lists); i++) {
        HloText text = {0}, bytes = {0};
        hlo_text_format(&text,
                        "func.func @main(%%x: tensor<3xf32>) -> !stablehlo.token {\n"
                        "  %%0 = stablehlo.create_token : !stablehlo.token\n"
                        "  %%1 = \"stablehlo.send\"(%%x, %%0) <{channel_handle = #stablehlo.channel_handle<handle = 2, "
                        "type = 2>, is_host_transfer = true%s}> : (tensor<3xf32>, !stablehlo.token) -> "
                        "!stablehlo.token\n  return %%1 : !stablehlo.token\n}\n",
                        lists[i]);
        HloModule *module = read_text(text.data, lists[i]), *again = NULL;
        must(hlo_module_to_stablehlo_bytecode(module, NULL, &bytes), lists[i]);
        must(hlo_module_from_stablehlo_bytecode(bytes.data, bytes.length, &again), lists[i]);
        HloText first = print(module), second = print(again);
        cr_expect_null(strstr(first.data, "source_target_pairs"), "%s", first.data);
        cr_expect_null(strstr(second.data, "source_target_pairs"), "%s", second.data);
        cr_expect(strstr(second.data, "is_host_transfer=true"), "%s", second.data);
        hlo_text_free(&first);
        hlo_text_free(&second);
        hlo_text_free(&bytes);
        hlo_text_free(&text);
        hlo_module_free(again);
        hlo_module_free(module);
    }
}

// The order of devices of {"a":(2)2, "b"} was written with a dimension for each part of an axis, which the next reading
// joined: two texts of one program.
Test(stablehlo_text, bug_orders_over_parts_of_axes_were_not_the_shortest) {
    HloModule *module = read_text(
        "module attributes {mhlo.num_partitions = 8 : i32} {\n  sdy.mesh @mesh = <[\"a\"=4, \"b\"=2]>\n"
        "  func.func public @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {\n"
        "    %0 = sdy.sharding_constraint %x <@mesh, [{\"a\":(2)2, \"b\"}, {}]> : tensor<8x4xf32>\n"
        "    return %0 : tensor<8x4xf32>\n  }\n}\n",
        "parts of axes");
    HloText text = print(module);
    cr_expect_not_null(strstr(text.data, "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"), "%s", text.data);
    hlo_text_free(&text);
    hlo_module_free(module);
}

// Every number that MLIR takes, at the ends of the types: a type without a sign has those of both readings.
static const struct {
    const char *value, *type, *want;
} numbers[] = {
    {"dense<255>", "tensor<i8>", "s8[] constant(-1)"},
    {"dense<-128>", "tensor<i8>", "s8[] constant(-128)"},
    {"dense<0x80>", "tensor<i8>", "s8[] constant(-128)"},
    {"dense<255>", "tensor<ui8>", "u8[] constant(255)"},
    {"dense<15>", "tensor<i4>", "s4[] constant(-1)"},
    {"dense<3>", "tensor<ui2>", "u2[] constant(3)"},
    {"dense<-1>", "tensor<i1>", "pred[] constant(true)"},
    {"dense<1>", "tensor<i1>", "pred[] constant(true)"},
    {"dense<4294967295>", "tensor<i32>", "s32[] constant(-1)"},
    {"dense<18446744073709551615>", "tensor<i64>", "s64[] constant(-1)"},
    {"dense<-9223372036854775808>", "tensor<i64>", "s64[] constant(-9223372036854775808)"},
    {"dense<18446744073709551615>", "tensor<ui64>", "u64[] constant(18446744073709551615)"},
    {"dense<0x7C01>", "tensor<f16>", "f16[] constant(nan(0x1))"},
    {"dense<1e39>", "tensor<f32>", "f32[] constant(inf)"},
    {"dense<0.0>", "tensor<f8E8M0FNU>", "f8e8m0fnu[] constant(5.9e-39)"},
    {"dense<(0x7F800000, -1.0)>", "tensor<complex<f32>>", "c64[] constant((inf, -1))"},
    {"dense<\"0xF5\">", "tensor<ui4>", "u4[] constant(5)"},
    {"dense<\"0xF5\">", "tensor<i4>", "s4[] constant(5)"},
    {"dense<\"0x02\">", "tensor<i1>", "pred[] constant(false)"},
};

Test(stablehlo_text, numbers_at_the_ends_of_their_types) {
    for (size_t i = 0; i < HLO_COUNT_OF(numbers); i++) {
        HloText text = {0}, printed = {0};
        hlo_text_format(&text, "func.func @main() -> %s {\n  %%0 = stablehlo.constant %s : %s\n  return %%0 : %s\n}\n",
                        numbers[i].type, numbers[i].value, numbers[i].type, numbers[i].type);
        HloModule *module = NULL;
        HloStatus status = hlo_module_from_stablehlo_text(text.data, text.length, NULL, &module);
        cr_assert_null(status, "%s: %s", text.data, hlo_status_message(status));
        cr_assert_null(hlo_print(module, NULL, &printed));
        cr_expect_not_null(strstr(printed.data, numbers[i].want), "no %s in %s", numbers[i].want, printed.data);
        hlo_module_free(module);
        hlo_text_free(&text);
        hlo_text_free(&printed);
    }
}

#define IDENTITY "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  return %a : tensor<4xf32>\n}"

// White space, comments and marks where MLIR takes them; `notes` are the notes about skipped parts.
static const struct {
    const char *text, *notes;
} spellings[] = {
    {"module{" IDENTITY "}", NULL},
    {"module\t@m {" IDENTITY "}", NULL},
    {"module\r\n@m\r\n{\r\n" IDENTITY "\r\n}\r\n", NULL},
    {"// c\rmodule @m {\r" IDENTITY "\r}\r", NULL},
    {"module\nattributes\n{mhlo.num_partitions = 1 : i32}\n{" IDENTITY "}", NULL},
    {"module@m attributes{}{" IDENTITY "}", NULL},
    {"// a\nmodule // b\n// c\n@m // d \"\n{ // e {\n" IDENTITY " // f\n} // g", NULL},
    {"\xEF\xBB\xBFmodule @m {\n" IDENTITY "}", NULL},
    {"\xEF\xBB\xBF#loc = loc(unknown)\nmodule {\n" IDENTITY "} loc(#loc)\n", NULL},
    {"  #loc = loc(\"x\")\n\t#loc1\n  = loc(fused[#loc])\nmodule{" IDENTITY "} loc(#loc1)", NULL},
    {"!t = tensor<4xf32>\nfunc.func @main(%a: !t) -> !t {return %a : !t}", NULL},
    {"func @main(%a: tensor\n<4xf32>) -> tensor <4xf32> {return %a : tensor<4xf32>}", NULL},
    {"\"builtin.module\"()({" IDENTITY "}){}:()->()", NULL},
    {"builtin.module{" IDENTITY "}loc(unknown)", NULL},
    {"{-# dialect_resources: {} #-}\nmodule{" IDENTITY "}", NULL},
    {"sdy.mesh @m = <[\"x\"=2]>\n" IDENTITY, NULL},
    {"module @m {\nllvm.module_flags [#llvm.mlir.module_flag<warning, \"D ]\", 3>,\n  #llvm.x<2>] // c ]\n" IDENTITY
     "}",
     "t.mlir:2:1: note: llvm.module_flags is of an unknown dialect and is ignored\n"},
    {"module {" IDENTITY " llvm.module_flags [#llvm.mlir.module_flag<warning, \"D\", 3>]}",
     "t.mlir:3:3: note: llvm.module_flags is of an unknown dialect and is ignored\n"},
    {"module {\n\"foo.bar\"() <{flags = [#foo.x<a, \"D\", 3>]}> : () -> ()\n" IDENTITY "}",
     "t.mlir:2:1: note: foo.bar is of an unknown dialect and is ignored\n"},
};

Test(stablehlo_text, white_space_and_what_says_nothing) {
    for (size_t i = 0; i < HLO_COUNT_OF(spellings); i++) {
        const char *text = spellings[i].text;
        HloText notes = {0};
        HloModule *module = NULL;
        const HloStablehloOptions options = {.file = "t.mlir", .notes = &notes};
        cr_expect(hlo_looks_like_mlir_text(text, strlen(text)), "%s", text);
        HloStatus status = hlo_module_from_stablehlo(text, strlen(text), &options, &module);
        cr_assert_null(status, "%s: %s", text, hlo_status_message(status));
        cr_expect_str_eq(notes.data ? notes.data : "", spellings[i].notes ? spellings[i].notes : "", "%s", text);
        hlo_module_free(module);
        hlo_text_free(&notes);
    }
}

// Syntax that may have a meaning in an unknown dialect.
Test(stablehlo_text, unknown_operations_that_carry_something_are_refused) {
    static const char *const texts[] = {
        "module {\nllvm.func @f() -> i32\n" IDENTITY "}",
        "module {\n%0 = foo.bar 3 : i32\n" IDENTITY "}",
        "module {\n\"foo.bar\"() ({ \"foo.x\"() : () -> () }) : () -> ()\n" IDENTITY "}",
        "module {\n\"foo.bar\"() {sym_name = \"f\"} : () -> ()\n" IDENTITY "}",
        "module {\nstablehlo.module_flags []\n" IDENTITY "}",
        "module {\n\"stablehlo.foo\"() : () -> ()\n" IDENTITY "}",
        "module {\nllvm.module_flags [\n" IDENTITY "}",
        "module {\nflags []\n" IDENTITY "}",
        "func.func @main() {\n llvm.flags []\n return\n}",
    };
    for (size_t i = 0; i < HLO_COUNT_OF(texts); i++) {
        HloModule *module = NULL;
        HloStatus status = hlo_module_from_stablehlo_text(texts[i], strlen(texts[i]), NULL, &module);
        cr_expect_not_null(status, "accepted: %s", texts[i]);
        hlo_status_free(status);
    }
}

Test(stablehlo_text, hlo_text_does_not_look_like_mlir) {
    static const char *const texts[] = {"HloModule m\nENTRY e { ROOT p = f32[] parameter(0) }",
                                        "/* module @m */ HloModule m",
                                        "module.1 { ROOT p = f32[] parameter(0) }",
                                        "func.1 (p: f32[]) -> f32[] { ROOT p = f32[] parameter(0) }",
                                        "sdy.x = f32[] parameter(0)",
                                        "modulex {",
                                        "// module {",
                                        "{",
                                        "module",
                                        ""};
    for (size_t i = 0; i < HLO_COUNT_OF(texts); i++)
        cr_expect_not(hlo_looks_like_mlir_text(texts[i], strlen(texts[i])), "%s", texts[i]);
}
