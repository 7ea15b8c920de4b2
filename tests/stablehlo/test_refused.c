// SPDX-License-Identifier: Apache-2.0
// Refusals of StableHLO's readers and writers: text that is not a program, programs that HLO has no form for, modules
// that StableHLO has no form for. @@ marks the place that the message must name; without one the message names none.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/stablehlo/stablehlo.h"
#include "hlo/text/text.h"

typedef struct RefusedText {
    const char *text;
    const char *part;  // of the message
} RefusedText;

#define MAIN(body) "func.func @main(%a: tensor<4xf32>, %i: tensor<4xi32>) {\n  " body "\n  return\n}"

// Programs with one thing wrong: an attribute of a window or a convolution of one spatial dimension, or the region of a
// reduction over devices.
#define WINDOW(attribute)                                                                                  \
    MAIN(                                                                                                  \
        "%z = stablehlo.constant dense<0.0> : tensor<f32>\n  %0 = @@\"stablehlo.reduce_window\"(%a, %z) "  \
        "<{window_dimensions = array<i64: 2>, " attribute                                                  \
        "}> ({\n  ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n  %s = "                                        \
        "stablehlo.add %x, %y : tensor<f32>\n  stablehlo.return %s : tensor<f32>\n  }) : (tensor<4xf32>, " \
        "tensor<f32>) -> tensor<3xf32>")
#define CONVOLUTION(attribute)                                                                                     \
    "func.func @main(%a: tensor<2x9x3xf32>, %k: tensor<2x3x4xf32>) {\n  %0 = @@\"stablehlo.convolution\"(%a, %k) " \
    "<{dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, " attribute                            \
    "}> : (tensor<2x9x3xf32>, tensor<2x3x4xf32>) -> tensor<2x8x4xf32>\n  return\n}"
// The function comes first: it is looked up by its name.
#define APPROX(options)                                                                                               \
    "func.func private @greater(%x: tensor<f32>, %y: tensor<f32>) -> tensor<i1> {\n  %c = stablehlo.compare GT, %x, " \
    "%y : (tensor<f32>, tensor<f32>) -> tensor<i1>\n  return %c : tensor<i1>\n}\n"                                    \
    "func.func @main(%a: tensor<4xf32>, %z: tensor<f32>) {\n  %0 = @@stablehlo.custom_call @ApproxTopK(%a, %z) "      \
    "{called_computations = [@greater], mhlo.backend_config = {" options                                              \
    "}} : (tensor<4xf32>, tensor<f32>) -> tensor<2xf32>\n  return\n}"
#define ALL_REDUCE(first, second, body)                                                                       \
    MAIN(                                                                                                     \
        "%0 = @@\"stablehlo.all_reduce\"(%a) <{replica_groups = dense<0> : tensor<1x1xi64>}> ({\n  ^bb0(%x: " \
        "tensor<" first ">, %y: tensor<" second ">):\n  " body "\n  }) : (tensor<4xf32>) -> tensor<4xf32>")

#define SDY_ADD(list)                                                                                 \
    "sdy.mesh @m = <[\"x\"=4]>\nfunc.func @main(%a: tensor<4xf32>) {\n  %0 = @@stablehlo.add %a, %a " \
    "{sdy.sharding = #sdy.sharding_per_value<" list ">} : tensor<4xf32>\n  return\n}"

#define CONSTANT(value, type) \
    "func.func @main() -> " type " {\n  %0 = stablehlo.constant " value " : " type "\n  return %0 : " type "\n}"

#define COMPOSITE(name, function, more)                                                                    \
    MAIN("%0 = @@\"stablehlo.composite\"(%a) <{name = " name ", decomposition = @" function more           \
         "}> : (tensor<4xf32>) -> tensor<4xf32>")                                                          \
    "\nfunc.func private @shorter(%x: tensor<3xf32>) -> tensor<3xf32> {\n  return %x : tensor<3xf32>\n}\n" \
    "func.func private @other(%x: tensor<4xf32>) -> tensor<4xi32> {\n"                                     \
    "  %0 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xi32>\n  return %0 : tensor<4xi32>\n}\n"     \
    "func.func private @two(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}"

static const RefusedText imports[] = {
    // parts that are skipped, and numbers of operands and results
    {"func.func @main() attributes {x = #foo.bar@@<[", "'<' is not closed"},
    {MAIN("%0 = @@\"chlo.next_after\"(%a, %i) : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>"),
     "2 operands of one shape are needed"},
    {MAIN("%0 = @@\"chlo.nobody\"(%a) : (tensor<4xf32>) -> tensor<4xf32>"), "chlo.nobody"},
    {MAIN("%0 = @@\"stablehlo.optimization_barrier\"(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, "
          "tensor<4xf32>)"),
     "1 of 2 results are named"},
    // one for each error that is made
    {MAIN("%0 = stablehlo.abs %a : tensor<4xf32>\n  %@@0 = stablehlo.abs %a : tensor<4xf32>"), "%0 is defined twice"},
    {MAIN("%0 = stablehlo.abs %a : tensor<4x@@f99>"), "'f99' is not a type"},
    {MAIN("%0 = stablehlo.constant dense<@@[1.0, "), "unterminated tensor"},
    {MAIN("%0 = @@\"stablehlo.constant\"() : () -> tensor<4xf32>"), "a constant has no tensor value"},
    {MAIN(
         "%0 = @@\"stablehlo.while\"(%a) ({\n  ^bb0(%x: tensor<4xf32>):\n  stablehlo.return %x : tensor<4xf32>\n  }) : "
         "(tensor<4xf32>) -> tensor<4xf32>"),
     "a while must have two regions"},
    {MAIN("%0 = @@\"func.call\"(%a) : (tensor<4xf32>) -> tensor<4xf32>"), "a call names no function"},
    {MAIN("%0 = @@\"stablehlo.pad\"(%a, %a) <{edge_padding_low = array<i64: 0>, edge_padding_high = array<i64: 0, 1>, "
          "interior_padding = array<i64: 0>}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"),
     "the lists of paddings differ in length"},
    {MAIN("%0 = @@chlo.polygamma %i, %i : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>"), "a float type is needed"},
    {"@@\"func.func\"() ({\n}) {function_type = () -> ()} : () -> ()", "a function has no name"},
    {"func.func @main() { return }\n@@\"stablehlo.custom_call\"() {call_target_name = \"f\"} : () -> ()",
     "stablehlo.custom_call at the top level of a module"},
    {"@@func.func @main(%a: tensor<4xf32>) {\n  %0 = stablehlo.abs %a : tensor<4xf32>\n}",
     "a block does not end with a return"},
    // words, numbers, strings
    {MAIN("%0 = stablehlo.constant dense<\"0x@@000\"> : tensor<4xf32>"), "odd number of hexadecimal digits"},
    {MAIN("%0 = stablehlo.constant dense<\"0x@@GG\"> : tensor<4xf32>"), "not hexadecimal"},
    {MAIN("%0 = stablehlo.constant dense<\"@@text\"> : tensor<4xf32>"), "strings"},
    {MAIN("%0 = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0@@, 5.0]> : tensor<4xf32>"), "expected ']'"},
    {MAIN("%0 = stablehlo.constant dense<1@@.5> : tensor<4xi32>"), "expected '>'"},
    {MAIN("%0 = stablehlo.abs %a {x = @@\"} : tensor<4xf32>"), "unterminated string"},
    {MAIN("%0 = stablehlo.abs %a {x = @@\"\\q\"} : tensor<4xf32>"), "unknown escape in a string"},
    {MAIN("%0 = stablehlo.abs %a {x = @@99999999999999999999 : i64} : tensor<4xf32>"),
     "an integer of more than 64 bits"},
    {MAIN("%0 = stablehlo.abs %a {x = @@1.5 : i32} : tensor<4xf32>"), "a decimal number is not of an integer type"},
    {MAIN("%0 = stablehlo.abs %a {x = #foo.bar<[@@}>} : tensor<4xf32>"), "'}' closes nothing"},
    {"func.func @main(%a: tensor<@@99999999999999999999xf32>) { return }", "a dimension is too large"},
    {"func.func @main(%a: tuple<@@tensor<2xf32>, none>) { return }", "a tuple has an element without a shape"},
    {"module {\nfunc.func @main() { return }\n  @@#a = loc(unknown)\n}", "expected an operation, not '#'"},
    {"func.func @main() { return }\n{@@-# dialect_resources: {", "unterminated resources"},
    // parts of attributes and types
    {MAIN("%0 = stablehlo.abs %a {x = #stablehlo.conv<[b, @@64, f]x[i, 0, o]->[b, 0, f]>} : tensor<4xf32>"),
     "spatial dimension 64 is out of range"},
    {MAIN("%0 = stablehlo.abs %a {x = #stablehlo.conv<@@[b, 1, f]x[i, 0, o]->[b, 0, f]>} : tensor<4xf32>"),
     "spatial dimension 0 is missing"},
    {MAIN("%0 = stablehlo.abs %a {x = #stablehlo.conv<[b, 0, f]x@@[i, 0]->[b, 0, f]>} : tensor<4xf32>"),
     "dimension 'o' is missing"},
    {MAIN("%0 = stablehlo.abs %a {x = #stablehlo.conv<[b, 0, f]x[i, 0, o] @@[b, 0, f]>} : tensor<4xf32>"),
     "expected '->', not '['"},
    {MAIN("%0 = stablehlo.abs %a {x = #stablehlo.result_accuracy<@@atoll = 1.0>} : tensor<4xf32>"),
     "expected atol, rtol, ulps or mode, not 'atoll'"},
    {MAIN("%0 = stablehlo.abs %a {x = #stablehlo.result_accuracy<atol = @@much, >} : tensor<4xf32>"),
     "expected a number, not 'much'"},
    {MAIN("%0 = stablehlo.abs %a {x = #stablehlo.dot_algorithm<allow_imprecise_accumulation = @@maybe>} : "
          "tensor<4xf32>"),
     "expected true or false, not 'maybe'"},
    {MAIN("%0 = stablehlo.abs %a {x = #stablehlo.mesh<axes = [], device_ids = @@5 : i64>} : tensor<4xf32>"),
     "the device ids are not a tensor"},
    {MAIN("%0 = stablehlo.select %i, %a, %a : @@tensor<4xi1>"),
     "a select needs the types of its predicate and its choices, or a function type"},
    {MAIN("%0 = stablehlo.tuple %a : @@tensor<4xf32>"), "the type of a tuple is needed"},
    {MAIN("%0 = chlo.polygamma %a, %a : tensor<4xf32>, tensor<4xf32> @@loc(unknown)"), "expected '->', not 'loc'"},
    {"func.func @main(%a: !@@) { return }", "expected the name of a type, not ')'"},
    // regions and results
    {MAIN("\"stablehlo.while\"(%a) ({\n^bb0(%x: tensor<4xf32>):\n  stablehlo.return %x : tensor<4xf32>\n@@^bb1:\n  "
          "stablehlo.return "
          "%x : tensor<4xf32>\n}, {}) : (tensor<4xf32>) -> tensor<4xf32>"),
     "a region of several blocks"},
    {MAIN("\"cf.br\"()@@[^bb1] : () -> ()"), "a branch to other blocks"},
    {MAIN("%0, %1 = @@stablehlo.abs %a : tensor<4xf32>"), "has 1 results, but a different number is named"},
    // short forms
    {MAIN("%0 = stablehlo.reduce(%a init: %a) applies @@stablehlo.foo across dimensions = [0] : (tensor<4xf32>, "
          "tensor<4xf32>) -> "
          "tensor<f32>"),
     "expected a commutative operation of two operands"},
    {MAIN("%0 = stablehlo.slice %a [@@x:4] : (tensor<4xf32>) -> tensor<4xf32>"), "expected an integer, not 'x'"},
    // what an operation needs besides its operands, and the results of its regions
    {"func.func @main() attributes {x = @@\"abc\\", "unterminated string"},
    {"func.func @main(%a: tensor<4xf32>, %b: tensor<3x4xf32>) {\n  %0 = @@\"chlo.broadcast_add\"(%a, %b) "
     "<{broadcast_dimensions = array<i64: 2>}> : (tensor<4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>\n  return\n}",
     "broadcast dimension 2 is out of range"},
    {"func.func @main(%a: tensor<4xf32>, %b: tuple<tensor<3x4xf32>>) {\n  %0 = @@\"chlo.broadcast_add\"(%a, %b) : "
     "(tensor<4xf32>, tuple<tensor<3x4xf32>>) -> tensor<3x4xf32>\n  return\n}",
     "an operand is not an array"},
    {"func.func @main(%a: tensor<4xf32>, %b: tensor<?x4xf32, #stablehlo.bounds<3, ?>>) {\n  %0 = "
     "@@\"chlo.broadcast_add\"(%a, %b) : (tensor<4xf32>, tensor<?x4xf32, #stablehlo.bounds<3, ?>>) -> "
     "tensor<3x4xf32>\n  "
     "return\n}",
     "sizes to broadcast to are not constant"},
    {MAIN("%0 = @@\"chlo.constant_like\"(%a) : (tensor<4xf32>) -> tensor<4xf32>"), "a value and an array are needed"},
    {"func.func @main(%b: tensor<?xf32, #stablehlo.bounds<3>>) {\n  %0 = @@\"chlo.constant_like\"(%b) <{value = 1.0 : "
     "f32}> : (tensor<?xf32, #stablehlo.bounds<3>>) -> tensor<?xf32, #stablehlo.bounds<3>>\n  return\n}",
     "the sizes are not constant"},
    {MAIN("%0:2 = @@\"stablehlo.all_to_all\"(%a) <{concat_dimension = 0 : i64, replica_groups = dense<0> : "
          "tensor<1x1xi64>, split_count = 1 : i64, split_dimension = 0 : i64}> : (tensor<4xf32>) -> (tensor<4xf32>, "
          "tensor<4xf32>)"),
     "1 operands give 2 results"},
    {"func.func @main(%a: tensor<4x6xf32>) {\n  %0 = @@\"stablehlo.all_to_all\"(%a) <{concat_dimension = 1 : i64, "
     "replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>, split_count = 3 : i64, split_dimension = 0 : i64}> : "
     "(tensor<4x6xf32>) -> tensor<1x18xf32>\n  return\n}",
     "dimension 0 does not split into 3"},
    {"func.func @main(%a: tensor<?x6xf32, #stablehlo.bounds<4, ?>>) {\n  %0 = @@\"stablehlo.all_to_all\"(%a) "
     "<{concat_dimension = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_count = 2 : i64, "
     "split_dimension = 0 : i64}> : (tensor<?x6xf32, #stablehlo.bounds<4, ?>>) -> tensor<?x12xf32, "
     "#stablehlo.bounds<2, ?>>\n  return\n}",
     "the concatenated dimension differs from the split dimension, and sizes are unknown"},
    {MAIN("%0 = @@\"stablehlo.collective_broadcast\"(%a) <{replica_groups = dense<0> : tensor<1x1xi64>, "
          "has_dynamic_root "
          "= true}> : (tensor<4xf32>) -> tensor<4xf32>"),
     "the root is an operand"},
    {MAIN("%t = stablehlo.create_token : !stablehlo.token\n  @@\"stablehlo.recv\"(%t) <{channel_handle = "
          "#stablehlo.channel_handle<handle = 1, type = 1>}> : (!stablehlo.token) -> ()"),
     "the last result must be a token"},
    {MAIN("%0 = @@\"stablehlo.send\"() <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : () -> "
          "!stablehlo.token"),
     "a token is needed"},
    {MAIN("%0 = @@\"stablehlo.outfeed\"() : () -> !stablehlo.token"), "a token is needed"},
    {MAIN("%f = stablehlo.constant dense<0.0> : tensor<f32>\n  %one = stablehlo.constant dense<0> : tensor<1xi32>\n  "
          "%two "
          "= stablehlo.constant dense<0> : tensor<2xi32>\n  %0 = @@\"stablehlo.dynamic_pad\"(%a, %f, %one, %two, %one) "
          ": "
          "(tensor<4xf32>, tensor<f32>, tensor<1xi32>, tensor<2xi32>, tensor<1xi32>) -> tensor<4xf32>"),
     "the lists of paddings differ in length"},
    {MAIN("%k = stablehlo.constant dense<1> : tensor<2xi32>\n  %0:2 = @@\"stablehlo.custom_call\"(%a, %k) "
          "<{call_target_name = \"stablehlo.dynamic_top_k\"}> : (tensor<4xf32>, tensor<2xi32>) -> (tensor<1xf32>, "
          "tensor<1xi32>)"),
     "k is not a scalar"},
    {"func.func @main(%b: tensor<?xf32, #stablehlo.bounds<3>>) {\n  %0 = @@\"shape.shape_of\"(%b) : (tensor<?xf32, "
     "#stablehlo.bounds<3>>) -> tensor<1xindex>\n  return\n}",
     "the sizes are not constant"},
    {MAIN("%0 = @@\"shape.shape_of\"(%a) : (tensor<4xf32>) -> tensor<1xf32>"), "the result is not a list of integers"},
    {MAIN("%k = stablehlo.constant dense<[2, 2]> : tensor<2xi64>\n  %0 = @@\"tensor.from_elements\"(%k) : "
          "(tensor<2xi64>) -> tensor<1xi64>"),
     "an element is not a scalar"},
    {MAIN("%k = stablehlo.constant dense<2> : tensor<i64>\n  %0 = @@\"tensor.from_elements\"(%k, %k) : (tensor<i64>, "
          "tensor<i64>) -> tensor<i64>"),
     "the result does not have 2 elements"},
    {MAIN("%k = stablehlo.constant dense<7> : tensor<index>\n  %0 = @@\"tensor.dim\"(%a, %k) : (tensor<4xf32>, "
          "tensor<index>) -> tensor<index>"),
     "there is no such dimension"},
    {"func.func @main(%b: tensor<?xf32, #stablehlo.bounds<3>>) {\n  %k = stablehlo.constant dense<0> : tensor<index>\n "
     " "
     "%0 = @@\"tensor.dim\"(%b, %k) : (tensor<?xf32, #stablehlo.bounds<3>>, tensor<index>) -> tensor<index>\n  "
     "return\n}",
     "the size is not constant"},
    {MAIN("%k = stablehlo.constant dense<[2, 3]> : tensor<2xi64>\n  %l = stablehlo.constant dense<[2, 4]> : "
          "tensor<2xi64>\n  %0 = @@\"shape.broadcast\"(%k, %l) : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>"),
     "sizes 3 and 4 are incompatible"},
    {MAIN("%0 = @@\"stablehlo.custom_call\"(%a) <{call_target_name = \"LayoutConstraint\", operand_layouts = "
          "[dense<0> : tensor<1xindex>], result_layouts = [dense<1> : tensor<1xindex>]}> : (tensor<4xf32>) -> "
          "tensor<4xf32>"),
     "a layout that is not a permutation of the dimensions"},
    {MAIN("%0 = @@\"stablehlo.einsum\"(%a, %a) <{einsum_config = \"1,1->1\"}> : (tensor<4xf32>, tensor<4xf32>) -> "
          "tensor<4xf32>"),
     "'1' in an einsum"},
    {MAIN("%0 = @@\"stablehlo.async_start\"(%a) ({\n  ^bb0(%x: tensor<4xf32>):\n  \"stablehlo.return\"() : () -> ()\n  "
          "}) : (tensor<4xf32>) -> !stablehlo.future<tensor<4xf32>>"),
     "the region does not return as many values as the operation"},
    {"func.func @main(%a: !stablehlo.future<tensor<4xf32>>) {\n  @@\"stablehlo.async_done\"(%a) : "
     "(!stablehlo.future<tensor<4xf32>>) -> ()\n  return\n}",
     "one value per future is required"},
    {MAIN("%0 = @@\"sdy.named_computation\"(%a) <{name = \"f\"}> ({\n  ^bb0(%x: tensor<4xf32>, %y: tensor<4xf32>):\n  "
          "sdy.return %x : tensor<4xf32>\n  }) : (tensor<4xf32>) -> tensor<4xf32>"),
     "a body with one argument per operand is missing"},
    {MAIN("%t = stablehlo.create_token : !stablehlo.token\n  %0 = @@\"stablehlo.outfeed\"(%a, %t) <{outfeed_config = 1 "
          ": i32}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token"),
     "attribute outfeed_config is not a string"},
    {MAIN("%0 = @@\"stablehlo.custom_call\"(%a) <{call_target_name = \"x\", called_computations = [1 : i32]}> : "
          "(tensor<4xf32>) -> tensor<4xf32>"),
     "a called computation has no name"},
    {MAIN("%0:2 = @@\"stablehlo.custom_call\"(%a) <{call_target_name = \"mhlo.topk\"}> {mhlo.attributes = {k = "
          "1.0 : f32}} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)"),
     "@mhlo.topk needs the attributes k and largest"},
    {MAIN("%0 = @@\"stablehlo.composite\"(%a, %a, %i) <{name = \"chlo.ragged_dot\", decomposition = @main, "
          "composite_attributes = {ragged_dot_dimension_numbers = [1]}}> : (tensor<4xf32>, tensor<4xf32>, "
          "tensor<4xi32>) -> tensor<4xf32>"),
     "the dimensions of a ragged dot must be six lists"},
    {"@@func.func private @f(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {\n  return %x : tensor<?x2xf32>\n}\nfunc.func "
     "@main(%a: tensor<4xf32>) {\n  %0 = call @f(%a) : (tensor<4xf32>) -> tensor<?x2xf32>\n  return\n}",
     "argument 0 has a different shape in the call"},
    {"func.func private @f(%x: tensor<?xf32>) -> tensor<?xf32> {\n  return %x : tensor<?xf32>\n}\nfunc.func "
     "@main(%a: tensor<4xf32>) {\n  %0 = @@call @f(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<?xf32>\n  "
     "return\n}",
     "@f does not take 2 arguments"},
    {"sdy.mesh @m = <[\"x\"=2], device_ids=[0]>\nfunc.func @main(%a: tensor<4xf32>) {\n  %0 = "
     "@@\"stablehlo.all_reduce\"(%a) <{replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @m, axes = "
     "[#stablehlo.axis_ref<name = \"x\">]>}> ({\n  ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n  %s = stablehlo.add %x, "
     "%y : "
     "tensor<f32>\n  stablehlo.return %s : tensor<f32>\n  }) : (tensor<4xf32>) -> tensor<4xf32>\n  return\n}",
     "a mesh of 2 devices lists 1"},
    {"sdy.mesh @m = <[\"x\"=2]>\nfunc.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{}], "
     "unreduced=max@@{\"x\"}>}) {\n  return\n}",
     "axes with an unreduced maximum or minimum"},
// layouts of the entry, which the module says
#define LAYOUTS(attributes)                                       \
    "@@module attributes {mhlo.xla_entry_computation_" attributes \
    "} {\n  func.func @main(%a: tensor<2x3xf32>) -> "             \
    "tensor<2x3xf32> {\n    return %a : tensor<2x3xf32>\n  }\n}"
    {LAYOUTS("parameter_layouts = [dense<[1, 1]> : tensor<2xindex>]"), "layout 0 of the module is not a permutation"},
    {LAYOUTS("parameter_layouts = [dense<[0, 2]> : tensor<2xindex>]"), "layout 0 of the module is not a permutation"},
    {LAYOUTS("parameter_layouts = [dense<0> : tensor<1xindex>]"), "layout 0 of the module is not a permutation"},
    {LAYOUTS("result_layout = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>]"),
     "the number of layouts differs"},
    {LAYOUTS("result_layout = [\"x\"]"), "layout 0 of the module is not a permutation"},
    {LAYOUTS("parameter_layouts = 7 : i32"), "the number of layouts differs"},
    {LAYOUTS("parameter_layouts = [dense<[0, 1]> : tensor<2xindex>], mhlo.xla_entry_computation_parameter_tiles = [7]"),
     "the tiles of an argument or result are not a list"},
    {LAYOUTS(
         "parameter_layouts = [dense<[0, 1]> : tensor<2xindex>], mhlo.xla_entry_computation_parameter_tiles = [[7]]"),
     "is not a list of sizes"},
#undef LAYOUTS
    // programs that HLO has no form for
    {"func.func @main() {\n  func.call @f() : () -> ()\n  return\n}\n@@func.func private @f() {\n  func.call @f() : () "
     "-> ()\n  "
     "return\n}",
     "calls itself"},
    {"@@func.func private @main()", "the body of function main is not a single block"},
    // operations whose operands, attributes, regions or results are not theirs
    {MAIN("%0 = @@\"chlo.broadcast_add\"(%a) : (tensor<4xf32>) -> tensor<4xf32>"),
     "chlo.broadcast_add: 2 operands are needed, not 1"},
    {MAIN("%0 = @@\"chlo.erf\"(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"),
     "chlo.erf: 1 operands are needed, not 2"},
    {MAIN("%0 = @@\"chlo.nobody\"(%a) : (tensor<4xf32>) -> tensor<4xf32>"),
     "chlo.nobody: this operation has no HLO form"},
    {MAIN("%0 = @@\"chlo.constant_like\"(%a) {value = \"x\"} : (tensor<4xf32>) -> tensor<4xf32>"),
     "chlo.constant_like: the value is neither a number nor a boolean"},
    {MAIN("%0 = @@\"chlo.constant_like\"() {value = 1.0 : f32} : () -> tensor<4xf32>"),
     "chlo.constant_like: 1 operands are needed, not 0"},
    {MAIN("%0 = @@\"chlo.ragged_dot\"(%a, %a, %i) : (tensor<4xf32>, tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>"),
     "chlo.ragged_dot: ragged-dot: 0 ragged dimensions instead of one"},
    {MAIN("%0 = @@\"chlo.scan\"(%a, %a) ({ ^bb0(%x: tensor<4xf32>): stablehlo.return %x : tensor<4xf32> }) : "
          "(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"),
     "chlo.scan: the number of carried operands is missing"},
    {MAIN("%0 = @@\"stablehlo.all_to_all\"(%a) <{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = "
          "3 : i64, replica_groups = dense<[[0,1,2]]> : tensor<1x3xi64>}> : (tensor<4xf32>) -> tensor<4xf32>"),
     "stablehlo.all_to_all: all-to-all: dimension 0 of size 4 is not divisible by 3 devices"},
    {MAIN("%0 = @@\"stablehlo.collective_permute\"(%a) <{source_target_pairs = dense<[[0,1,2]]> : tensor<1x3xi64>}> : "
          "(tensor<4xf32>) -> tensor<4xf32>"),
     "stablehlo.collective_permute: source_target_pairs is not a list of pairs"},
    {MAIN("%0 = @@stablehlo.custom_call @ragged_all_to_all(%a, %a, %i, %i, %i) : (tensor<4xf32>, tensor<4xf32>, "
          "tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<4xf32>"),
     "@ragged_all_to_all takes 6 operands"},
    {MAIN("%0 = @@stablehlo.custom_call @ragged_all_to_all(%a, %a, %i, %i, %i, %i) : (tensor<4xf32>, tensor<4xf32>, "
          "tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<4xf32>"),
     "replica_groups is not a matrix"},
    {MAIN("%0 = @@stablehlo.custom_call @ragged_all_to_all(%a, %a, %i, %i, %i, %i) {backend_config = {channel_id = "
          "\"x\"}} : (tensor<4xf32>, tensor<4xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> "
          "tensor<4xf32>"),
     "channel_id is not an integer"},
    {MAIN("%0 = @@\"stablehlo.while\"(%a) ({ ^bb0(%x: tensor<4xf32>, %y: tensor<4xf32>): stablehlo.return %x : "
          "tensor<4xf32> }, { ^bb0(%x: tensor<4xf32>): stablehlo.return %x : tensor<4xf32> }) : (tensor<4xf32>) -> "
          "tensor<4xf32>"),
     "stablehlo.while: the regions of a while must take as many values as the while"},
    {MAIN("%0 = @@\"stablehlo.case\"(%i) : (tensor<4xi32>) -> tensor<4xf32>"),
     "stablehlo.case: one selector and at least one branch are needed"},
    {MAIN("%0 = @@\"stablehlo.if\"(%i) ({ stablehlo.return %a : tensor<4xf32> }) : (tensor<4xi32>) -> tensor<4xf32>"),
     "stablehlo.if: conditional: operand 0 must be pred[] or s32[], not s32[4]"},
    {MAIN("%0 = @@\"stablehlo.while\"(%a) ({ }, { }) : (tensor<4xf32>) -> tensor<4xf32>"),
     "stablehlo.while: the regions of a while must take as many values as the while"},
    // bug: the types of arguments and results were not checked.
    {MAIN("%0 = @@\"stablehlo.while\"(%a) ({ ^bb0(%x: tensor<5xf32>): stablehlo.return %i : tensor<4xi32> }, { "
          "^bb0(%x: tensor<4xf32>): stablehlo.return %x : tensor<4xf32> }) : (tensor<4xf32>) -> tensor<4xf32>"),
     "stablehlo.while: the condition's argument 0 is f32[5], and the operand f32[4]"},
    {MAIN("%0 = @@\"stablehlo.while\"(%a) ({ ^bb0(%x: tensor<4xf32>): stablehlo.return %i : tensor<4xi32> }, { "
          "^bb0(%x: tensor<4xi32>): stablehlo.return %x : tensor<4xi32> }) : (tensor<4xf32>) -> tensor<4xf32>"),
     "stablehlo.while: the body's argument 0 is s32[4], and the operand f32[4]"},
    {MAIN("%0 = @@\"stablehlo.while\"(%a) ({ ^bb0(%x: tensor<4xf32>): stablehlo.return %i : tensor<4xi32> }, { "
          "^bb0(%x: tensor<4xf32>): stablehlo.return %x : tensor<4xf32> }) : (tensor<4xf32>) -> tensor<4x1xf32>"),
     "stablehlo.while: result 0 is f32[4,1], and the operand f32[4]"},
    {MAIN("%0 = @@\"stablehlo.optimization_barrier\"(%a) : (tensor<4xf32>) -> tensor<5xf32>"),
     "stablehlo.optimization_barrier: result 0 is f32[5], and the operand f32[4]"},
    // bug: HLO's all-to-all has no count of pieces, and took the group's size for it.
    {MAIN("%0 = @@\"stablehlo.all_to_all\"(%a) <{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = "
          "2 : i64, replica_groups = dense<[[0,1,2,3]]> : tensor<1x4xi64>}> : (tensor<4xf32>) -> tensor<4xf32>"),
     "stablehlo.all_to_all: split_count is 2, and replica_groups has groups of 4"},
    // bug: a second result of one that has no second ended the program.
    {MAIN("%0:2 = @@\"stablehlo.optimization_barrier\"(%a) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)\n  "
          "%1 = stablehlo.abs %0#1 : tensor<4xf32>"),
     "stablehlo.optimization_barrier: 1 operands give 2 results"},
    {MAIN("%0:2 = @@\"stablehlo.cross-replica-sum\"(%a) <{replica_groups = dense<[[0]]> : tensor<1x1xi64>}> : "
          "(tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)\n  %1 = stablehlo.abs %0#1 : tensor<4xf32>"),
     "stablehlo.cross-replica-sum: it has 1 results, not 2"},
    {MAIN("%0 = @@\"stablehlo.custom_call\"(%a) <{call_target_name = \"x\", output_operand_aliases = [1]}> : "
          "(tensor<4xf32>) -> tensor<4xf32>"),
     "stablehlo.custom_call: bad output alias"},
    {MAIN("%0 = @@\"stablehlo.custom_call\"(%a) <{call_target_name = \"x\", called_computations = [\"y\"]}> : "
          "(tensor<4xf32>) -> tensor<4xf32>"),
     "stablehlo.custom_call: there is no function @y"},
    {MAIN("%0 = @@\"stablehlo.custom_call\"(%a) <{call_target_name = \"annotate_device_placement\"}> : (tensor<4xf32>) "
          "-> tensor<4xf32>"),
     "stablehlo.custom_call: one operand and a memory kind are needed"},
    {MAIN("%0 = @@\"stablehlo.custom_call\"(%a) <{call_target_name = \"annotate_device_placement\"}> "
          "{mhlo.frontend_attributes = {_xla_buffer_placement = \"moon\"}} : (tensor<4xf32>) -> tensor<4xf32>"),
     "stablehlo.custom_call: memory kind \"moon\""},
    {MAIN("%0 = @@\"stablehlo.custom_call\"(%a) <{call_target_name = \"x\", api_version = 4 : i32, backend_config = {k "
          "= #stablehlo.bounds<2>}}> : (tensor<4xf32>) -> tensor<4xf32>"),
     "stablehlo.custom_call: an option of a custom call is of an unknown dialect"},
    {MAIN("%0 = @@\"stablehlo.composite\"(%a) <{name = \"x.y\", composite_attributes = {i = 1 : i64, k = #foo.bar<1>}, "
          "decomposition = @d}> : (tensor<4xf32>) -> tensor<4xf32>"),
     "stablehlo.composite: attribute 'k' of composite x.y cannot be written in HLO"},
    {MAIN("%0 = @@\"stablehlo.composite\"(%a) <{name = \"x.y\", composite_attributes = {k = [#stablehlo.bounds<2>]}, "
          "decomposition = @d}> : (tensor<4xf32>) -> tensor<4xf32>"),
     "stablehlo.composite: attribute 'k' of composite x.y cannot be written in HLO"},
    {MAIN("%0 = @@\"stablehlo.composite\"(%a) <{name = \"x.y\"}> : (tensor<4xf32>) -> tensor<4xf32>"),
     "stablehlo.composite: composite x.y has no decomposition"},
    // bug: an operation of chlo that becomes several could have a result of any sizes.
    {MAIN("%0 = @@\"chlo.erf_inv\"(%a) : (tensor<4xf32>) -> tensor<5xf32>"),
     "chlo.erf_inv: f32[4] follows from the operands, but the text says f32[5]"},
    {MAIN("%0 = @@\"chlo.is_inf\"(%a) : (tensor<4xf32>) -> tensor<4x1xi1>"),
     "pred[4] follows from the operands, but the text says pred[4,1]"},
    {MAIN("%0 = @@\"chlo.zeta\"(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<0xf32>"),
     "f32[4] follows from the operands, but the text says f32[0]"},
    {MAIN("%z = stablehlo.constant dense<0.0> : tensor<f32>\n  %0 = @@\"stablehlo.rng\"(%z, %z, %i) <{rng_distribution "
          "= "
          "#stablehlo<rng_distribution UNIFORM>}> : (tensor<f32>, tensor<f32>, tensor<4xi32>) -> tensor<8xf32>"),
     "4 sizes for a result of 1 dimensions"},
    {MAIN(
         "%z = stablehlo.constant dense<0.0> : tensor<f32>\n  %s = stablehlo.constant dense<8> : tensor<1xi64>\n  %0 = "
         "@@\"stablehlo.rng\"(%z, %z, %s) <{rng_distribution = #stablehlo<rng_distribution UNIFORM>}> : (tensor<f32>, "
         "tensor<f32>, tensor<1xi64>) -> tensor<8xf16>"),
     "random numbers of type f16 between bounds of type f32"},
    {COMPOSITE("\"x.y\"", "absent", ""), "stablehlo.composite: there is no function @absent"},
    // bug: a composite with a name that we know was taken for it whatever else it said.
    {COMPOSITE("\"chlo.sinh\"", "absent", ""), "stablehlo.composite: there is no function @absent"},
    {COMPOSITE("\"chlo.erf\"", "shorter", ""),
     "call: computation shorter takes f32[3] as parameter 0, but f32[4] is passed"},
    {COMPOSITE("\"chlo.acosh\"", "other", ""), "s32[4] follows from the operands, but the text says f32[4]"},
    {COMPOSITE("\"chlo.cosh\"", "two", ""), "call: computation two takes 2 parameters, but 1 are passed"},
    {"func.func @main(%a: tensor<4xf32>) {\n  %0 = stablehlo.composite \"chlo.sinh\" %a {decomposition = @d} : "
     "(tensor<4xf32>) -> tensor<4xf32>\n  return\n}\nfunc.func private @d(%x: tensor<4xf32>) -> tensor<4xf32> {\n  "
     "%0 = @@stablehlo.reshape %x : (tensor<4xf32>) -> tensor<5xf32>\n  return %x : tensor<4xf32>\n}",
     "stablehlo.reshape: reshape: f32[4] has 4 elements, f32[5] has 5"},
    {COMPOSITE("\"sinh\"", "shorter", ""), "a composite needs a name like \"dialect.operation\""},
    {COMPOSITE("\"chlo..sinh\"", "shorter", ""), "a composite needs a name like \"dialect.operation\""},
    {COMPOSITE("\"chlo.sinh\"", "shorter", ", version = -1 : i32"), "composite chlo.sinh has version -1"},
    {COMPOSITE("\"chlo.sinh\"", "shorter", ", composite_attributes = [1]"),
     "the attributes of composite chlo.sinh are no dictionary"},
    {MAIN("@@func.call @absent(%a) : (tensor<4xf32>) -> ()"), "func.call: there is no function @absent"},
    {"func.func @main(%a: tensor<f32>) {\n  return\n}\n@@func.func private @main(%a: tensor<f32>) {\n  return\n}",
     "function @main is defined twice"},
    {("func.func @main(%a: tensor<4xf32>) {\n  @@func.call @f(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> ()\n  "
      "return\n}\nfunc.func private @f(%x: tensor<4xf32>) {\n  return\n}"),
     "func.call: call: computation f takes 1 parameters, but 2 are passed"},
    {("func.func @main(%a: tensor<4xf32>) {\n  @@func.call @f(%a) : (tensor<4xf32>) -> ()\n  return\n}\nfunc.func "
      "private @f(%x: tensor<3xf32>) {\n  return\n}"),
     "func.call: call: computation f takes f32[3] as parameter 0, but f32[4] is passed"},
    {MAIN("%0 = @@\"stablehlo.dynamic_reshape\"(%a, %i) : (tensor<4xf32>, tensor<4xi32>) -> tensor<?xf32>"),
     "stablehlo.dynamic_reshape: the sizes are not constant"},
    {MAIN("%0 = @@\"stablehlo.dynamic_broadcast_in_dim\"(%a, %i) <{broadcast_dimensions = array<i64: 0>}> : "
          "(tensor<4xf32>, tensor<4xi32>) -> tensor<?x?xf32>"),
     "stablehlo.dynamic_broadcast_in_dim: the sizes are not constant"},
    {MAIN("%0 = @@\"stablehlo.dynamic_iota\"(%i) <{iota_dimension = 0 : i64}> : (tensor<4xi32>) -> tensor<?xf32>"),
     "stablehlo.dynamic_iota: the sizes are not constant"},
    {MAIN("%0 = @@\"stablehlo.real_dynamic_slice\"(%a, %i, %i, %i) : (tensor<4xf32>, tensor<4xi32>, tensor<4xi32>, "
          "tensor<4xi32>) -> tensor<?xf32>"),
     "stablehlo.real_dynamic_slice: the size of the slice is not constant"},
    {MAIN("%0 = @@\"stablehlo.dynamic_pad\"(%a, %a, %i, %i, %i) : (tensor<4xf32>, tensor<4xf32>, tensor<4xi32>, "
          "tensor<4xi32>, tensor<4xi32>) -> tensor<?xf32>"),
     "stablehlo.dynamic_pad: the paddings are not constant"},
    {MAIN("%z = stablehlo.constant dense<[1, 2]> : tensor<2xi32>\n  %0 = @@\"stablehlo.dynamic_reshape\"(%a, %z) : "
          "(tensor<4xf32>, tensor<2xi32>) -> tensor<?xf32>"),
     "stablehlo.dynamic_reshape: 2 sizes for rank 1"},
    {MAIN("%z = stablehlo.constant dense<[3]> : tensor<1xi32>\n  %0 = @@\"stablehlo.dynamic_reshape\"(%a, %z) : "
          "(tensor<4xf32>, tensor<1xi32>) -> tensor<?xf32>"),
     "stablehlo.dynamic_reshape: reshape: f32[4] has 4 elements, f32[3] has 3"},
    {MAIN("%0 = @@\"stablehlo.get_dimension_size\"(%a) <{dimension = 5 : i64}> : (tensor<4xf32>) -> tensor<i32>"),
     "stablehlo.get_dimension_size: get-dimension-size: dimensions {5} has dimension 5, but the rank is 1"},
    {MAIN("%0 = @@\"tensor.dim\"(%a, %i) : (tensor<4xf32>, tensor<4xi32>) -> index"),
     "tensor.dim: the dimension is not constant"},
    {MAIN("%0 = @@\"tensor.from_elements\"(%a) : (tensor<4xf32>) -> tensor<1xindex>"),
     "tensor.from_elements: the elements are not constant"},
    {MAIN("%0 = @@\"arith.constant\"() {value = \"x\"} : () -> index"),
     "arith.constant: a constant is not a tensor, list or integer"},
    {MAIN("%0 = @@\"stablehlo.custom_call\"(%a, %i) <{call_target_name = \"stablehlo.dynamic_rng_bit_generator\", "
          "rng_algorithm = 2 : i32}> : "
          "(tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>"),
     "stablehlo.custom_call: the results must be a state and random numbers"},
    {MAIN("%0 = @@\"stablehlo.custom_call\"(%a, %i) <{call_target_name = \"stablehlo.dynamic_reduce_window\"}> : "
          "(tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>"),
     "stablehlo.custom_call: arrays, initial values, five lists and a reducer are needed"},
    {MAIN("%0 = @@\"stablehlo.einsum\"(%a, %a) <{einsum_config = \"ij,j->i\"}> : (tensor<4xf32>, tensor<4xf32>) -> "
          "tensor<4xf32>"),
     "stablehlo.einsum: 'ij' does not have a letter for each of 1 dimensions"},
    {MAIN("%0 = @@\"stablehlo.einsum\"(%a, %a) <{einsum_config = \"i?,j->i\"}> : (tensor<4xf32>, tensor<4xf32>) -> "
          "tensor<4xf32>"),
     "stablehlo.einsum: 'i?' does not have a letter for each of 1 dimensions"},
    {MAIN("%0 = @@\"stablehlo.einsum\"(%a, %a) <{einsum_config = \"i,j->k\"}> : (tensor<4xf32>, tensor<4xf32>) -> "
          "tensor<4xf32>"),
     "stablehlo.einsum: 'k' is in no input"},
    {MAIN("%0 = @@\"stablehlo.einsum\"(%a, %a) <{einsum_config = \"i,i->\"}> : (tensor<4xf32>, tensor<4xf32>) -> "
          "tensor<4xf32>"),
     "stablehlo.einsum: the shape of the result does not match its letters"},
    {MAIN("%0 = @@\"stablehlo.einsum\"(%a, %a) <{einsum_config = \"i,j\"}> : (tensor<4xf32>, tensor<4xf32>) -> "
          "tensor<4xf32>"),
     "stablehlo.einsum: an einsum without 'inputs->output'"},
    {MAIN("%0 = @@\"stablehlo.unary_einsum\"(%a) <{einsum_config = \"i->j\"}> : (tensor<4xf32>) -> tensor<4xf32>"),
     "stablehlo.unary_einsum: 'j' is in no input"},
    {MAIN("%0 = @@\"stablehlo.torch_index_select\"(%a, %i) <{dim = 4 : i64, batch_dims = 0 : i64}> : (tensor<4xf32>, "
          "tensor<4xi32>) -> tensor<4xf32>"),
     "stablehlo.torch_index_select: dimension 4 after 0 batch dimensions is out of range"},
    {MAIN("%0 = @@\"stablehlo.async_start\"(%a) : (tensor<4xf32>) -> !stablehlo.future<tensor<4xf32>>"),
     "stablehlo.async_start: a region that takes the operands is required"},
    {"sdy.mesh @m = <[\"x\"=4]>\n@@func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, "
     "[{\"x\":(3)2}]>}) {\n  return\n}",
     "a sub-axis does not fit axis \"x\""},
    {"sdy.mesh @m = <[\"x\"=4]>\n@@func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, "
     "[{\"x\":(1)4}]>}) {\n  return\n}",
     "a sub-axis does not fit axis \"x\""},
    {MAIN("%t = stablehlo.create_token : !stablehlo.token\n  %0 = @@\"stablehlo.send\"(%a, %t) <{channel_handle = "
          "#stablehlo.channel_handle<handle = 1, type = 3>, is_host_transfer = true}> : (tensor<4xf32>, "
          "!stablehlo.token) -> !stablehlo.token"),
     "a channel of type 3, but is_host_transfer=true needs 2"},
    {MAIN("%0 = @@\"chlo.constant_like\"(%a) <{value = 5.0 : f32}> : (tensor<4xf32>) -> tensor<1xf32>"),
     "the result has another shape than the operand"},
    {"sdy.mesh @m = <[\"x\"=4]>\n@@func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, "
     "[{\"x\":(4611686018427387904)4}]>}) {\n  return\n}",
     "a sub-axis does not fit axis \"x\""},
    {"sdy.mesh @m = <[\"x\"=12]>\n@@func.func @main(%a: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@m, "
     "[{\"x\":(1)4}, {\"x\":(1)6}]>}) {\n  return\n}",
     "argument 0: a sharding names the axis \"x\" twice"},
    {"sdy.mesh @m = <[\"x\"=12]>\n@@func.func @main(%a: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@m, "
     "[{\"x\":(1)2}, {\"x\":(3)2}]>}) {\n  return\n}",
     "axis \"x\" of size 12 cannot be split at 3"},
    {("sdy.mesh @m = <[\"x\"=99999999999]>\n@@func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, "
      "[{\"x\"}]>}) {\n  return\n}"),
     "a mesh has too many devices"},
    {("sdy.mesh @m = <[\"x\"=4], device_ids=[1,0]>\n@@func.func @main(%a: tensor<4xf32> {sdy.sharding = "
      "#sdy.sharding<@m, [{\"x\"}]>}) {\n  return\n}"),
     "a mesh of 4 devices lists 2"},
    {("sdy.mesh @m = <[\"x\"=4]>\n@@func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{\"x\"}, "
      "{}]>}) {\n  return\n}"),
     "the sharding has 2 dimensions, but the value has rank 1"},
    {("sdy.mesh @m = <[\"x\"=4]>\n@@func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{\"y\"}]>}) "
      "{\n  return\n}"),
     "a sharding names the axis \"y\", which its mesh does not have"},
    {("@@func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{\"y\"}]>}) {\n  return\n}"),
     "a sharding names a mesh that does not exist"},
    {("sdy.mesh @m = <[\"x\"=4]>\nfunc.func @main(%a: tensor<4xf32>) {\n  %0 = @@\"sdy.manual_computation\"(%a) : "
      "(tensor<4xf32>) -> tensor<4xf32>\n  return\n}"),
     "sdy.manual_computation: attributes or body are missing"},
    {("sdy.mesh @m = <[\"x\"=4]>\nfunc.func @main(%a: tensor<4xf32>) {\n  %0 = @@\"sdy.named_computation\"(%a) ({ "
      "^bb0(%x: tensor<4xf32>): sdy.return }) {name = \"f\"} : (tensor<4xf32>) -> tensor<4xf32>\n  return\n}"),
     "sdy.named_computation: the body returns a different number of values"},
    {MAIN("%0 = @@\"builtin.unrealized_conversion_cast\"(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"),
     "builtin.unrealized_conversion_cast: a cast that changes the number of values"},
    {("@@func.func @main(%a: tensor<4xf32> {mhlo.memory_kind = \"moon\"}) {\n  return\n}"), "memory kind \"moon\""},
    {("@@func.func @main(%a: tensor<4xf32> {mhlo.layout_mode = \"{1,0}\"}) {\n  return\n}"),
     "mhlo.layout_mode {1,0}: the shape has 1 dimensions, but its layout orders 2"},
    {("@@func.func @main(%a: tensor<4x4xf32> {mhlo.layout_mode = \"{0,0}\"}) {\n  return\n}"),
     "mhlo.layout_mode {0,0}: the layout does not name each dimension once"},
    {("@@func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32> {jax.result_info = \"x\"}, tensor<4xf32>) {\n  return %a "
      ": tensor<4xf32>\n}"),
     "function main takes or returns types that differ from its declaration"},
    {("@@func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  return\n}"),
     "function main takes or returns types that differ from its declaration"},
    {MAIN("%0 = stablehlo.constant dense<@@> : tensor<99999999999xf32>"), "a constant is larger than 2147483648 bytes"},
    {MAIN("%0 = stablehlo.constant dense<1.0> : tensor<4xf32> @@{"), "expected an operation, not '{'"},
    {MAIN("%0 = \"stablehlo.abs\"(%a) {x = #foo.x<(>@@} : (tensor<4xf32>) -> tensor<4xf32>"), "'}' closes nothing"},
    {MAIN("%0:2, %1 = @@\"stablehlo.abs\"(%a) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)"),
     "the operation has 2 results, but a different number is named"},
    {MAIN("%0 = stablehlo.pad @@%a, %a, low = [0], high = [0], interior = [0] : (!stablehlo.token, tensor<4xf32>) -> "
          "tensor<4xf32>"),
     "this value was defined with a different type"},
    {MAIN("%0 = stablehlo.convolution(%a, %a) dim_numbers = [b, f]x[i, o]->[b, f], window = {pad = [@@[0]]} "
          "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> "
          "tensor<4xf32>"),
     "expected a pair of numbers"},
    {MAIN("%0 = stablehlo.convolution(%a, %a) dim_numbers = [b, f]x[i, o]->[b, f], window = {@@foo = [0]} "
          "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> "
          "tensor<4xf32>"),
     "expected a property of a window"},
    {MAIN("%0 = stablehlo.compare  @@FOO, %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>"),
     "expected one of EQ NE GE GT LE LT, not 'FOO'"},
    {MAIN("%0 = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0], precision = [@@FOO, DEFAULT] : "
          "(tensor<4xf32>, tensor<4xf32>) -> tensor<f32>"),
     "expected one of DEFAULT HIGH HIGHEST"},
// bug: only the left type, the sums' and the number of products were checked
#define DOT(lhs, rhs, parts, products, imprecise)                                                                    \
    MAIN("%0 = @@stablehlo.dot_general %a, %a, contracting_dims = [0] x [0], algorithm = <lhs_precision_type = " lhs \
         ", rhs_precision_type = " rhs ", accumulation_type = f32, lhs_component_count = " parts                     \
         ", rhs_component_count = 1, num_primitive_operations = " products                                           \
         ", allow_imprecise_accumulation = " imprecise "> : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>"),         \
        "stablehlo.dot_general: this dot algorithm has no name in HLO"
    {DOT("f64", "f64", "1", "1", "false")},
    {DOT("f32", "f16", "1", "1", "false")},
    {DOT("bf16", "bf16", "2", "3", "false")},
    {DOT("f32", "f32", "1", "1", "true")},
    {DOT("tf32", "tf32", "1", "2", "false")},
    {DOT("f8E5M2", "f32", "1", "1", "false")},
    {DOT("f8E5M2", "f8E4M3", "1", "3", "false")},
    {DOT("f8E8M0FNU", "f8E8M0FNU", "1", "1", "false")},
    {DOT("tensor<f32>", "tensor<f32>", "1", "1", "false")},
    {MAIN("%0 = stablehlo.reduce(%a init: %a), (%a init: %a) applies @@stablehlo.add across dimensions = [0] : "
          "(tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<f32>, tensor<f32>)"),
     "the short form of a reduction must have one input of a tensor type"},
    {MAIN("%0 = stablehlo.transpose @@%a, dims = [0] : (!stablehlo.token) -> tensor<4xf32>"),
     "this value was defined with a different type"},
    {("#a = loc(unknown) @@#b = loc(unknown)\nfunc.func @main() {\n  return\n}"), "an alias must begin a line"},
    {MAIN("%0 = \"stablehlo.abs\"(%a) {x = @@\"abc"), "unterminated string"},
    // attributes that were misread, or not read at all
    {MAIN("@@\"stablehlo.custom_call\"() <{call_target_name = \"shape_assertion\"}> : () -> ()"),
     "@shape_assertion takes a condition"},
    {("sdy.mesh @m = <[\"x\"=2]>\n" MAIN("%0 = @@\"sdy.manual_computation\"(%a) <{in_shardings = [\"{replicated}\"], "
                                         "out_shardings = [\"{replicated}\"], "
                                         "manual_axes = #sdy<manual_axes{\"x\"}>}> ({\n  ^bb0(%b: tensor<4xf32>):\n    "
                                         "sdy.return %b : tensor<4xf32>\n  "
                                         "}) : (tensor<4xf32>) -> tensor<4xf32>")),
     "unexpected element of a sharding attribute"},
    {MAIN("%0 = @@\"stablehlo.all_gather\"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<> : "
          "tensor<3000000000x0xi64>}> : (tensor<4xf32>) -> tensor<4xf32>"),
     "3000000000 empty groups"},
    {MAIN(
         "%0 = @@\"stablehlo.broadcast\"(%a) <{broadcast_sizes = array<i64: 2>}> : (tensor<4xf32>) -> tensor<3x4xf32>"),
     "broadcast_sizes have 2, but the result's type has 3"},
    {MAIN("%0 = @@\"stablehlo.compare\"(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>"),
     "stablehlo.compare: it has no attribute comparison_direction"},
    {MAIN("%0:2 = @@\"chlo.top_k\"(%a) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)"),
     "chlo.top_k: it has no attribute k"},
    {MAIN("%0 = @@\"stablehlo.iota\"() : () -> tensor<4xi32>"), "stablehlo.iota: it has no attribute iota_dimension"},
    {"func.func @main(%a: tensor<2x2xf32>, %s: tensor<2xf32>) {\n  %0 = "
     "@@\"stablehlo.batch_norm_inference\"(%a, %s, %s, %s, %s) <{epsilon = 1 : i32, feature_index = 1 : i64}> : "
     "(tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x2xf32>\n  return\n}",
     "attribute epsilon is not a decimal number"},
    {"func.func @main(%a: tensor<f32>) {\n  return\n  @@return\n}", "func.return follows the terminator of its block"},
    {MAIN("%0 = @@builtin.unrealized_conversion_cast %a : tensor<4xf32> to tensor<8xf32>"),
     "it changes the type of a value"},
    {MAIN("@@\"sdy.sharding_group\"(%a) : (tensor<4xf32>) -> ()"), "a sharding group without a member or a number"},
    {MAIN("@@\"sdy.sharding_group\"() <{group_id = 1 : i64}> : () -> ()"),
     "a sharding group without a member or a number"},
    {MAIN(
         "@@\"stablehlo.custom_call\"(%a) <{call_target_name = \"xla.sdy.ShardingGroup\"}> {mhlo.frontend_attributes = "
         "{xla.sdy.sharding_group_id = \"x\"}} : (tensor<4xf32>) -> ()"),
     "a sharding group without a member or a number"},
    {MAIN("%0 = @@\"stablehlo.async_done\"(%a) : (tensor<4xf32>) -> tensor<4xf32>"), "the operand must be a future"},
    {MAIN("%0 = @@\"stablehlo.async_start\"(%a) ({\n  ^bb0(%x: tensor<4xf32>):\n  stablehlo.return %x : "
          "tensor<4xf32>\n  "
          "}) : (tensor<4xf32>) -> tensor<4xf32>"),
     "async_start must return a future"},
    {MAIN("%0 = @@\"stablehlo.async_start\"(%a) ({\n  ^bb0(%x: tensor<4xf32>):\n  stablehlo.return %x : "
          "tensor<4xf32>\n  "
          "}) : (tensor<4xf32>) -> !stablehlo.future<tensor<5xf32>>"),
     "it changes the type of a value"},
    // meshes, results and regions that do not fit what they belong to
    {"sdy.mesh @m = <[\"x\"=0]>\n" MAIN(
         "%0 = @@\"stablehlo.all_reduce\"(%a) <{replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @m, axes = "
         "[#stablehlo.axis_ref<name = \"x\">]>}> ({\n  ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n  %s = stablehlo.add "
         "%x, %y : tensor<f32>\n  stablehlo.return %s : tensor<f32>\n  }) : (tensor<4xf32>) -> tensor<4xf32>"),
     "stablehlo.all_reduce: replica_groups: an axis of the mesh has no valid size"},
    {"sdy.mesh @m = <[\"x\"=2]>\n" MAIN(
         "%0 = @@\"sdy.manual_computation\"(%a) <{in_shardings = #sdy.sharding_per_value<[<@m, [{\"x\"}]>]>, "
         "out_shardings = #sdy.sharding_per_value<[<@m, [{\"x\"}]>]>, manual_axes = #sdy<manual_axes{\"x\"}>}> ({\n  "
         "^bb0(%b: tensor<2xf32>):\n    sdy.return\n  }) : (tensor<4xf32>) -> tensor<4xf32>"),
     "sdy.manual_computation: the body returns a different number of values"},
    {"sdy.mesh @m = <[\"x\"=2]>\n" MAIN(
         "%0 = @@\"sdy.manual_computation\"(%a) <{in_shardings = #sdy.sharding_per_value<[<@m, [{\"x\"}]>]>, "
         "out_shardings = #sdy.sharding_per_value<[<@m, [{\"x\"}]>]>, manual_axes = #sdy<manual_axes{\"x\"}>}> ({\n  "
         "^bb0(%b: tensor<3xf32>):\n    sdy.return\n  }) : (tensor<4xf32>) -> tensor<4xf32>"),
     "sdy.manual_computation: dimension 0 is 3 inside and 4 outside of a manual region of 2 shards"},
    {"sdy.mesh @m = <[\"x\"=2]>\n" MAIN(
         "%0 = @@\"sdy.manual_computation\"(%a) <{in_shardings = #sdy.sharding_per_value<[<@m, [{\"x\"}]>]>, "
         "out_shardings = #sdy.sharding_per_value<[<@m, [{\"x\"}]>]>, manual_axes = #sdy<manual_axes{\"x\"}>}> ({\n  "
         "^bb0(%b: tensor<2x1xf32>):\n    sdy.return\n  }) : (tensor<4xf32>) -> tensor<4xf32>"),
     "sdy.manual_computation: f32[2,1] inside and f32[4] outside of the manual region"},
    {"sdy.mesh @m = <[\"x\"=2]>\n" MAIN(
         "%0 = @@\"sdy.manual_computation\"(%a) <{in_shardings = #sdy.sharding_per_value<[<@m, [{\"x\"}]>]>, "
         "out_shardings = #sdy.sharding_per_value<[<@m, [{\"x\"}]>]>, manual_axes = #sdy<manual_axes{\"x\"}>}> ({\n  "
         "^bb0(%b: tensor<2xf32>):\n    sdy.return %b : tensor<2xf32>\n  }) : (tensor<4xf32>) -> tensor<6xf32>"),
     "sdy.manual_computation: dimension 0 is 2 inside and 6 outside of a manual region of 2 shards"},
    {"@@\"func.func\"() <{function_type = () -> (), sym_name = \"main\", res_attrs = [{}]}> ({\n  \"func.return\"() : "
     "() "
     "-> ()\n}) : () -> ()",
     "attributes are given for 1 results, but the entry has 0"},
    {"@@\"func.func\"() <{function_type = (tensor<f32>) -> tensor<f32>, sym_name = \"main\", res_attrs = [{}, {}]}> "
     "({\n^bb0(%a: tensor<f32>):\n  \"func.return\"(%a) : (tensor<f32>) -> ()\n}) : () -> ()",
     "attributes are given for 2 results, but the entry has 1"},
    {MAIN("%0 = @@\"stablehlo.while\"(%a) ({\n  ^bb0(%x: tensor<4xf32>):\n  }, {\n  ^bb0(%x: tensor<4xf32>):\n  "
          "stablehlo.return %x : tensor<4xf32>\n  }) : (tensor<4xf32>) -> tensor<4xf32>"),
     "a region has no operations"},
    {MAIN(
         "%s = stablehlo.constant dense<4> : tensor<1xi64>\n  %z = stablehlo.constant dense<0.0> : tensor<f32>\n  %0 = "
         "@@\"stablehlo.rng\"(%z, %z, %s) {rng_distribution = 0 : i32} : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> "
         "tensor<4xf32>"),
     "stablehlo.rng: random numbers of an unknown distribution"},
    // bug: lists of a window of another length than the window were cut off or filled up, and other matrices of padding
    // read as pairs.
    {WINDOW("window_strides = array<i64: 1, 1>"), "a list of 2 strides, but 1 are needed"},
    {WINDOW("base_dilations = array<i64: 1, 1>"), "a list of 2 dilations of the base, but 1 are needed"},
    {WINDOW("window_dilations = array<i64: 1, 1>"), "a list of 2 dilations of the window, but 1 are needed"},
    {WINDOW("padding = dense<1> : tensor<2x2xi64>"), "a list of 4 paddings, but 2 are needed"},
    {WINDOW("padding = dense<1> : tensor<2x1xi64>"), "padding is not a matrix of two columns"},
    {WINDOW("padding = dense<1> : tensor<2xi64>"), "padding is not a matrix of two columns"},
    {CONVOLUTION("window_reversal = array<i1: true, true>"), "a list of 2 reversals, but 1 are needed"},
    {CONVOLUTION("window_strides = array<i64: 2, 2>"), "a list of 2 strides, but 1 are needed"},
    {CONVOLUTION("feature_group_count = 0 : i64"), "0 groups of features and 1 of the batch"},
    {CONVOLUTION("batch_group_count = 0 : i64"), "1 groups of features and 0 of the batch"},
    {CONVOLUTION("precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>, "
                 "#stablehlo<precision DEFAULT>]"),
     "precision_config has 3 entries for two operands"},
    {"func.func @main(%a: tensor<2x9x3xf32>, %k: tensor<2x3x4xf32>) {\n  %p = stablehlo.constant dense<1> : "
     "tensor<2x1xi64>\n  %0 = @@\"stablehlo.dynamic_conv\"(%a, %k, %p) <{dimension_numbers = #stablehlo.conv<[b, 0, "
     "f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<2x9x3xf32>, "
     "tensor<2x3x4xf32>, tensor<2x1xi64>) -> tensor<2x10x4xf32>\n  return\n}",
     "padding is not a matrix of two columns"},
    // bug: reducers of collectives were not checked (one of no results ended the process when it was compiled).
    {ALL_REDUCE("f32", "f32", "stablehlo.return"), "computation region returns () instead of a scalar"},
    {ALL_REDUCE("f32", "f32", "stablehlo.return %x, %y : tensor<f32>, tensor<f32>"),
     "computation region returns (f32[], f32[]) instead of a scalar"},
    {ALL_REDUCE("f32", "i32", "stablehlo.return %x : tensor<f32>"),
     "computation region takes s32[] as parameter 1, but returns f32[]"},
    {ALL_REDUCE("i32", "i32", "stablehlo.return %x : tensor<i32>"),
     "computation region returns s32[], but the elements are f32"},
    // bug: a select of another kind of number than the elements got them converted.
    {MAIN("%z = stablehlo.constant dense<0.0> : tensor<f32>\n  %0 = @@\"stablehlo.select_and_scatter\"(%a, %a, %z) "
          "<{window_dimensions = array<i64: 1>}> ({\n  ^bb0(%x: tensor<i32>, %y: tensor<i32>):\n  %c = "
          "stablehlo.compare GE, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>\n  stablehlo.return %c : "
          "tensor<i1>\n  }, {\n  ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n  stablehlo.return %x : tensor<f32>\n  }) : "
          "(tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>"),
     "computation region takes s32[] as parameter 0, but f32[] is passed"},
    // bug: any number below 0 filled up a group, also where all groups are of one size.
    {MAIN("%0 = @@\"stablehlo.all_gather\"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, -2]]> : "
          "tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>"),
     "replica_groups names device -2"},
    {MAIN("%0 = @@\"stablehlo.all_gather\"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1], [2, -1]]> : "
          "tensor<2x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>"),
     "replica_groups has groups of 2 and 1"},
    {MAIN("%0 = @@\"stablehlo.all_gather\"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : "
          "tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = -1, type = 0>, use_global_device_ids}> "
          ": "
          "(tensor<4xf32>) -> tensor<8xf32>"),
     "use_global_device_ids on channel -1"},
    {"func.func @main(%a: tensor<1x4xf32>, %b: tensor<4xf32>) {\n  %0 = @@chlo.broadcast_add %a, %b "
     "{broadcast_dimensions = array<i64: 1, 2>} : (tensor<1x4xf32>, tensor<4xf32>) -> tensor<1x4xf32>\n  return\n}",
     "2 broadcast dimensions for an operand of rank 1"},
    // bug: the operand with the sizes was not checked.
    {MAIN(
         "%s = stablehlo.constant dense<5> : tensor<1xi64>\n  %z = stablehlo.constant dense<0.0> : tensor<f32>\n  %0 = "
         "@@stablehlo.rng %z, %z, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> "
         "tensor<4xf32>"),
     "the sizes are {5}, and the result is f32[4]"},
    {MAIN(
         "%s = stablehlo.constant dense<4> : tensor<1x1xi64>\n  %z = stablehlo.constant dense<0.0> : tensor<f32>\n  %0 "
         "= @@stablehlo.rng %z, %z, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1x1xi64>) -> "
         "tensor<4xf32>"),
     "the sizes are s64[1,1], not a list"},
    // bug: a fact that is written twice was not compared.
    {MAIN("%0 = @@\"chlo.constant_like\"(%i) {value = 3.2 : f32} : (tensor<4xi32>) -> tensor<4xi32>"),
     "a value of type f32 in an array of s32"},
    {MAIN("%z = stablehlo.constant dense<0.0> : tensor<f32>\n  %0:2 = @@\"chlo.scan\"(%a, %z) <{dimension = 0 : i64, "
          "is_reverse = false, scan_dim_size = 3 : i64, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = "
          "array<i32: 1, 1>}> ({\n  ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n  stablehlo.return %x, %y : tensor<f32>, "
          "tensor<f32>\n  }) : (tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)"),
     "input 0 has 4 elements, but 3 are scanned"},
    // bug: a dimension that is not a number was dimension 0.
    {APPROX("reduction_dim = \"0\", top_k = 2 : i64"), "reduction_dim of an ApproxTopK has the wrong kind"},
    {APPROX("reduction_dim = 0 : i64, top_k = 2.0 : f32"), "top_k of an ApproxTopK has the wrong kind"},
    {APPROX("reduction_dim = 0 : i64, top_k = 2 : i64, aggregate_to_topk = 1 : i64"),
     "aggregate_to_topk of an ApproxTopK has the wrong kind"},
    {APPROX("reduction_dim = 0 : i64, top_k = 3 : i64"), "top_k is 3, and result 0 has 2 elements"},
    {APPROX("reduction_dim = -1 : i64, top_k = 2 : i64"), "dimension -1"},
    {APPROX("top_k = 2 : i64"), "ApproxTopK takes arrays, initial values, a comparator and the dimension"},
    {"func.func @main(%a: tensor<@@?x6xf32, #stablehlo.bounds<4>>) { return }", "1 bounds for 2 dimensions"},
    // numbers that were wrapped into their type
    {CONSTANT("dense<@@0x7F80000000>", "tensor<f32>"), "a bit pattern of more than 32 bits"},
    {CONSTANT("dense<[@@0x17F800000, 0x7F800000]>", "tensor<2xf32>"), "a bit pattern of more than 32 bits"},
    {CONSTANT("dense<@@0x1FFFF>", "tensor<f16>"), "a bit pattern of more than 16 bits"},
    {CONSTANT("dense<@@0x1FFFF>", "tensor<bf16>"), "a bit pattern of more than 16 bits"},
    {CONSTANT("dense<@@0x1FF>", "tensor<f8E4M3FN>"), "a bit pattern of more than 8 bits"},
    {CONSTANT("dense<@@0x10>", "tensor<f4E2M1FN>"), "a bit pattern of more than 4 bits"},
    {CONSTANT("dense<@@0x10000000000000000>", "tensor<f64>"), "an integer of more than 64 bits"},
    {CONSTANT("dense<-@@0x3F800000>", "tensor<f32>"), "a bit pattern has no sign"},
    {CONSTANT("dense<(1.0, @@0xFFFFFFFFF)>", "tensor<complex<f32>>"), "a bit pattern of more than 32 bits"},
    {CONSTANT("dense<@@300>", "tensor<i8>"), "300 is out of range for i8"},
    {CONSTANT("dense<-@@129>", "tensor<i8>"), "-129 is out of range for i8"},
    {CONSTANT("dense<@@0x100>", "tensor<i8>"), "256 is out of range for i8"},
    {CONSTANT("dense<[1, @@256]>", "tensor<2xi8>"), "256 is out of range for i8"},
    {CONSTANT("dense<@@2>", "tensor<i1>"), "2 is out of range for i1"},
    {CONSTANT("dense<-@@2>", "tensor<i1>"), "-2 is out of range for i1"},
    {CONSTANT("dense<-@@1>", "tensor<ui8>"), "-1 is out of range for ui8"},
    {CONSTANT("dense<@@256>", "tensor<ui8>"), "256 is out of range for ui8"},
    {CONSTANT("dense<@@16>", "tensor<i4>"), "16 is out of range for i4"},
    {CONSTANT("dense<-@@9>", "tensor<i4>"), "-9 is out of range for i4"},
    {CONSTANT("dense<@@4>", "tensor<ui2>"), "4 is out of range for ui2"},
    {CONSTANT("dense<@@65536>", "tensor<i16>"), "65536 is out of range for i16"},
    {CONSTANT("dense<@@99999999999>", "tensor<i32>"), "99999999999 is out of range for i32"},
    {CONSTANT("dense<-@@2147483649>", "tensor<i32>"), "-2147483649 is out of range for i32"},
    {CONSTANT("dense<-@@1>", "tensor<ui64>"), "-1 is out of range for ui64"},
    {CONSTANT("dense<@@18446744073709551616>", "tensor<i64>"), "an integer of more than 64 bits"},
    {CONSTANT("dense<-@@9223372036854775809>", "tensor<i64>"), "-9223372036854775809 is out of range for i64"},
    {MAIN("%0 = stablehlo.abs %a {x = @@256 : i8} : tensor<4xf32>"), "256 is out of range for i8"},
    {MAIN("%0 = stablehlo.abs %a {x = -@@1 : ui8} : tensor<4xf32>"), "-1 is out of range for ui8"},
    {MAIN("%0 = stablehlo.abs %a {x = @@2 : i1} : tensor<4xf32>"), "2 is out of range for i1"},
    {MAIN("%0 = stablehlo.abs %a {x = @@4294967296 : i32} : tensor<4xf32>"), "4294967296 is out of range for i32"},
    {MAIN("%0 = stablehlo.abs %a {x = -@@2147483649 : i32} : tensor<4xf32>"), "-2147483649 is out of range for i32"},
    {MAIN("%0 = stablehlo.abs %a {x = -@@9223372036854775809} : tensor<4xf32>"),
     "-9223372036854775809 is out of range for i64"},
    {MAIN("%0 = stablehlo.abs %a {x = @@9223372036854775808 : index} : tensor<4xf32>"), "integer out of range"},
    {MAIN("%0 = stablehlo.abs %a {x = @@1 : f32} : tensor<4xf32>"), "an integer is not a floating-point value"},
    {MAIN("%0 = stablehlo.abs %a {x = @@0x1FFFFFFFF : f32} : tensor<4xf32>"), "a bit pattern of more than 32 bits"},
    {MAIN("%0 = stablehlo.abs %a {x = -@@0x3C00 : f16} : tensor<4xf32>"), "a bit pattern has no sign"},
    {MAIN("%0 = stablehlo.abs %a {x = @@1 : tensor<f32>} : tensor<4xf32>"), "an integer cannot have this type"},
    {MAIN("%0 = stablehlo.abs %a {x = @@1 : complex<f32>} : tensor<4xf32>"), "an integer cannot have this type"},
    {MAIN("%0 = stablehlo.abs %a {x = array<i8: @@300>} : tensor<4xf32>"), "300 is out of range for i8"},
    {MAIN("%0 = stablehlo.abs %a {x = array<i32: 1, -@@2147483649>} : tensor<4xf32>"),
     "-2147483649 is out of range for i32"},
    {MAIN("%0 = stablehlo.abs %a {x = array<i1: @@2>} : tensor<4xf32>"), "2 is out of range for i1"},
    {MAIN("%0 = stablehlo.abs %a {x = array<i64: @@18446744073709551616>} : tensor<4xf32>"),
     "an integer of more than 64 bits"},
    {MAIN("%0 = stablehlo.transpose %a, dims = [@@18446744073709551615] : (tensor<4xf32>) -> tensor<4xf32>"),
     "an integer of more than 64 bits with its sign"},
    // shardings that were dropped
    {SDY_ADD("[<@m, [{\"x\"}]>, <@m, [{}]>]"), "stablehlo.add: sdy.sharding has 2 shardings for 1 results"},
    {SDY_ADD("[]"), "stablehlo.add: sdy.sharding has 0 shardings for 1 results"},
    {SDY_ADD("[<@m, [{\"z\"}]>]"), "the axis \"z\", which its mesh does not have; it has \"x\""},
    {"sdy.mesh @m = <[\"x\"=4]>\n@@sdy.mesh @m = <[\"x\"=2]>\nfunc.func @main() {\n  return\n}",
     "mesh @m is defined twice"},
    {"@@module attributes {mhlo.frontend_attributes = {xla.sdy.meshes = \"{m = #sdy.mesh<[\\22x\\22=4]>}\"}} {\n"
     "sdy.mesh @m = <[\"x\"=2]>\nfunc.func @main() {\n  return\n}\n}",
     "the mesh @m as an operation differs from the one in xla.sdy.meshes"},
    {"@@module attributes {mhlo.frontend_attributes = {xla.sdy.meshes = \"{m = 1}\"}} {\nfunc.func @main() {\n  "
     "return\n}\n}",
     "xla.sdy.meshes: 'm' is not a mesh"},
    {"sdy.mesh @m = <[\"x\"=4]>\n@@func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32> {mhlo.sharding = "
     "\"{replicated}\"}, tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{\"x\", ?}]>}) {\n  return %a, %a : "
     "tensor<4xf32>, tensor<4xf32>\n}",
     "some of its values have sdy.sharding and others mhlo.sharding"},
    {"sdy.mesh @m = <[\"x\"=2]>\n" MAIN(
         "%0 = @@\"sdy.manual_computation\"(%a) <{in_shardings = #sdy.sharding_per_value<[<@m, [{\"x\"}]>]>, "
         "out_shardings = #sdy.sharding_per_value<[<@m, [{\"x\"}]>]>, manual_axes = #sdy<manual_axes{\"q\"}>}> ({\n  "
         "^bb0(%b: tensor<2xf32>):\n    sdy.return %b : tensor<2xf32>\n  }) : (tensor<4xf32>) -> tensor<4xf32>"),
     "the axis \"q\", which its mesh does not have"},
};

// Takes the mark out of `marked`, and returns its position, 1-based, 0 without a mark.
static void unmark(const char *marked, HloText *text, int64_t *line, int64_t *column) {
    const char *mark = strstr(marked, "@@");
    *line = *column = mark != NULL;
    for (const char *at = marked; mark && at < mark; at++) {
        *column = *at == '\n' ? 1 : *column + 1;
        *line += *at == '\n';
    }
    if (mark) hlo_text_append(text, marked, (size_t)(mark - marked));
    hlo_text_string(text, mark ? mark + 2 : marked);
}

static void expect_refused(const char *marked, const char *part) {
    HloText text = {0};
    int64_t line, column;
    unmark(marked, &text, &line, &column);
    HloModule *module = NULL;
    HloStatus status = hlo_module_from_stablehlo_text(text.data, text.length, "t.mlir", &module);
    cr_expect(status, "accepted: %s", text.data);
    cr_expect(strstr(hlo_status_message(status), part), "%s: '%s' is not in '%s'", text.data, part,
              hlo_status_message(status));
    const HloPlace *place = hlo_status_place(status);
    int64_t at_line = place ? place->line : 0, at_column = place ? place->column : 0;
    cr_expect(at_line == line && at_column == column, "%s: %s at %lld:%lld, not %lld:%lld", text.data,
              hlo_status_message(status), (long long)at_line, (long long)at_column, (long long)line, (long long)column);
    hlo_status_free(status);
    hlo_module_free(module);
    hlo_text_free(&text);
}

Test(stablehlo_refused, text_is_refused_with_its_position) {
    for (size_t i = 0; i < HLO_COUNT_OF(imports); i++) expect_refused(imports[i].text, imports[i].part);
}

// Texts that are refused because they are too large.
Test(stablehlo_refused, limits_of_text) {
    enum { AXES = 1025, LEVELS = 200, SHAPES = 10001 };
    HloText axes = {0}, levels = {0}, shapes = {0};
    for (int i = 0; i < AXES; i++) hlo_text_format(&axes, "%s\"x%d\"=1", i ? ", " : "sdy.mesh @m = <[", i);
    hlo_text_string(&axes,
                    "]>\n@@func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{}]>}) {\n  return\n}");
    expect_refused(axes.data, "a mesh has more than 1024 axes");
    hlo_text_string(&levels, "func.func @main() attributes {x = #foo.bar<");
    for (int i = 1; i < LEVELS; i++) hlo_text_char(&levels, '[');
    hlo_text_string(&levels, "@@[]>} { return }");
    expect_refused(levels.data, "nested more than 200 levels deep");
    // Each call has a shape of its own, for which the function is converted again.
    hlo_text_string(&shapes,
                    "func.func private @f(%x: tensor<?xf32>) -> tensor<?xf32> {\n  return %x : tensor<?xf32>\n}\n"
                    "func.func @main() {\n");
    for (int i = 1; i <= SHAPES; i++) {
        hlo_text_format(&shapes, "  %%c%d = stablehlo.constant dense<1.0> : tensor<%dxf32>\n", i, i);
        hlo_text_format(&shapes, "  %%%d = %scall @f(%%c%d) : (tensor<%dxf32>) -> tensor<?xf32>\n", i,
                        i == SHAPES ? "@@" : "", i, i);
    }
    hlo_text_string(&shapes, "  return\n}\n");
    expect_refused(shapes.data, "functions are called with too many different shapes");
    hlo_text_free(&axes);
    hlo_text_free(&levels);
    hlo_text_free(&shapes);
}

// Twenty lines that name 4^18 places, or 2^40 types, and lines that each began another look through all that follows:
// the first two never ended, the third took the square of the text.
Test(stablehlo_refused, bug_texts_that_share_their_parts_took_for_ever) {
    HloText place = {0}, type = {0}, resources = {0};
    HloModule *module = NULL;
    hlo_text_string(&place, "#l0 = loc(unknown)\n");
    for (int i = 1; i <= 18; i++)
        hlo_text_format(&place, "#l%d = loc(fused[#l%d,#l%d,#l%d,#l%d])\n", i, i - 1, i - 1, i - 1, i - 1);
    hlo_text_string(&place,
                    "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n  %0 = stablehlo.add %a, %a : tensor<f32> "
                    "loc(#l18)\n  return %0 : tensor<f32>\n}\n");
    HloStatus status = hlo_module_from_stablehlo_text(place.data, place.length, NULL, &module);
    cr_expect_null(status, "%s", hlo_status_message(status));
    hlo_module_free(module);
    hlo_text_string(&type, "!t0 = tensor<f32>\n");
    for (int i = 1; i <= 40; i++) hlo_text_format(&type, "!t%d = tuple<!t%d, !t%d>\n", i, i - 1, i - 1);
    hlo_text_string(&type, "func.func @main(%a: !t40) -> !t40 {\n  return %a : !t40\n}\n");
    status = hlo_module_from_stablehlo_text(type.data, type.length, NULL, &module);
    cr_expect(strstr(hlo_status_message(status), "a tuple has more than"), "%s", hlo_status_message(status));
    hlo_status_free(status);
    hlo_text_string(&resources, "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n  return %a : tensor<f32>\n}\n");
    for (int i = 0; i < 20000; i++) hlo_text_string(&resources, "{-#\n");
    for (int i = 0; i < 20000; i++) hlo_text_string(&resources, "k: \"0x00\"\n");
    hlo_text_string(&resources, "#-}\n");
    status = hlo_module_from_stablehlo_text(resources.data, resources.length, NULL, &module);
    cr_expect_null(status, "%s", hlo_status_message(status));
    hlo_module_free(module);
    hlo_text_free(&place);
    hlo_text_free(&type);
    hlo_text_free(&resources);
}

// bug: each entry copied the list of those before it: 100000 would have taken 80 GB.
Test(stablehlo_refused, bug_many_frontend_attributes_took_all_memory) {
    enum { MANY = 100000 };
    HloText text = {0};
    HloModule *module = NULL;
    hlo_text_string(&text,
                    "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n  %0 = stablehlo.abs %a "
                    "{mhlo.frontend_attributes = {");
    for (int i = 0; i < MANY; i++) hlo_text_format(&text, "%sk%06d = \"%d\"", i ? ", " : "", MANY - 1 - i, i);
    hlo_text_string(&text, "}} : tensor<f32>\n  return %0 : tensor<f32>\n}\n");
    HloStatus status = hlo_module_from_stablehlo_text(text.data, text.length, NULL, &module);
    cr_assert_null(status, "%s", hlo_status_message(status));
    const HloKeyValues kept = module->entry->root->frontend_attributes;
    cr_assert_eq(kept.count, MANY);
    cr_expect_str_eq(kept.items[0].key, "k000000");
    cr_expect_str_eq(kept.items[MANY - 1].value, "0");
    hlo_module_free(module);
    hlo_text_free(&text);
}

#define ENTRY(body)                               \
    "HloModule m, num_partitions=4\n" ADD GREATER \
    "ENTRY e {\n  p = f32[8,8] parameter(0)\n  z = f32[] constant(0)\n  " body "\n}\n"
#define GREATER \
    "g {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT t = pred[] compare(a, b), direction=GE\n}\n"
#define ADD "c {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT t = f32[] add(a, b)\n}\n"

static const RefusedText exports[] = {
    {ENTRY("ROOT r = f32[7,7] reduce-window(p, z), window={size=2x2 rhs_reversal=1x1}, to_apply=c"),
     "a reversed window"},
    {ENTRY("ROOT r = (f32[8,2], s32[8,2]) topk(p), k=2, largest=false"), "the smallest elements"},
    {ENTRY("s = u64[2] constant({1,2})\n  ROOT r = u32[4] rng-bit-generator(s), algorithm=rng_default"),
     "random bits without their state"},
    {ENTRY("i = s32[2] constant({0,0})\n  ROOT r = f32[2,2] dynamic-slice(p, i), dynamic_slice_sizes={2,2}"),
     "start indices in one array"},
    {ENTRY("ROOT r = (f32[], f32[]) constant((1, 2))"), "a constant of a structure"},
    // bug: invalid attributes of a composite, and a name that no reader takes, were written as nothing.
    {ENTRY("ROOT r = f32[] call(z, z), to_apply=c, is_composite=true, frontend_attributes={composite.attributes=\"{n = "
           "\",composite.name=\"a.b\"}"),
     "composite.attributes is no dictionary of MLIR: {n = "},
    {ENTRY("ROOT r = f32[] call(z, z), to_apply=c, is_composite=true, "
           "frontend_attributes={composite.attributes={},composite.name=\"ab\",composite.version=\"1\"}"),
     "composite.name must be like \"dialect.operation\", not \"ab\""},
    {ENTRY("ROOT r = (f32[8,8], f32[8,8]) all-to-all(p, p), replica_groups={{0,1}}"), "all-to-all"},
    {ENTRY("ROOT r = u1[8,8] convert(p)"), "StableHLO has no type for u1"},
    {ENTRY("ROOT r = f32[8,8] dot(p, p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
     "a dot of more than two operands"},
    {ENTRY("o = s32[2] constant({0,0})\n  i = (s32[], s32[]) tuple(z, z)\n  ROOT r = f32[8,8] collective-permute(p, p, "
           "i, "
           "i), source_target_pairs={{0,1}}, slice_sizes={{4,8}}"),
     "a permutation in place"},
    {ENTRY("ROOT r = f32[8,8] custom-call(p), custom_call_target=\"x\", window={size=1x1}"),
     "a window, labels, literal or schedule"},
    {ENTRY("ROOT r = f32[8,8] select-and-scatter(p, p, z), window={size=1x1 rhs_dilate=2x2}, select=g, scatter=c"),
     "a window with dilations"},
    {ENTRY("ROOT r = f32[8,8] select-and-scatter(p, p, z), window={size=1x1 lhs_dilate=2x2}, select=g, scatter=c"),
     "a window with dilations"},
    {"HloModule m\nmain {\n  ROOT p = f32[] parameter(0)\n}\nENTRY e {\n  p = f32[] parameter(0)\n  ROOT r = f32[] "
     "call(p), "
     "to_apply=main\n}\n",
     "a called computation has the name of the entry, main"},
    // bug: these were written as a word that does not exist
    {ENTRY("ROOT r = f32[8,8] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
           "operand_precision={packed_nibble,default}"),
     "dot r: the precision packed_nibble"},
    {ENTRY("q = f32[1,1,8,8] reshape(p)\n  ROOT r = f32[1,1,8,8] convolution(q, q), window={size=8x8 pad=3_4x3_4}, "
           "dim_labels=bf01_oi01->bf01, operand_precision={default,packed_nibble}"),
     "convolution r: the precision packed_nibble"},
    {"HloModule m, replica_count=2000000\nENTRY e {\n  p = f32[2000000] parameter(0)\n  ROOT r = f32[2000000] "
     "all-to-all(p), replica_groups={}, dimensions={0}\n}\n",
     "all-to-all r: a group of 2000000 members"},
    {ENTRY("ROOT r = f32[8] rng(z, z), distribution=rng_invalid"), "rng r: random numbers of an unknown distribution"},
};

// Releases that have no form for an op, and ops that none has a form for.
static const struct {
    const char *text, *release, *part;
} versions[] = {
    {ENTRY("ROOT r = (f32[8,8], f32[8,8]) all-reduce(p, p), replica_groups={{0,1,2,3}}, to_apply=c"), "1.4.0",
     "StableHLO 1.4.0 has no stablehlo.all_reduce of several operands"},
    {ENTRY("q = s32[8,8] convert(p)\n  ROOT r = s32[8,8] erf(q)"), NULL,
     "chlo.erf has no decomposition for elements of type s32"},
};

Test(stablehlo_refused, modules_without_a_form_in_a_release_are_refused_by_name) {
    for (size_t i = 0; i < HLO_COUNT_OF(versions); i++) {
        HloModule *module = NULL;
        HloText bytes = {0};
        cr_assert_null(hlo_parse(versions[i].text, strlen(versions[i].text), NULL, &module), "%s", versions[i].text);
        HloStatus status = hlo_module_to_stablehlo_bytecode(module, versions[i].release, &bytes);
        cr_expect_eq(hlo_status_code(status), HLO_UNIMPLEMENTED, "%s", versions[i].text);
        cr_expect(strstr(hlo_status_message(status), versions[i].part), "'%s' is not in '%s'", versions[i].part,
                  hlo_status_message(status));
        hlo_status_free(status);
        hlo_text_free(&bytes);
        hlo_module_free(module);
    }
}

// No text gives a ragged dot an algorithm, but a file of protobuf may.
Test(stablehlo_refused, ragged_dots_with_an_algorithm) {
    static const char text[] =
        "HloModule m\nENTRY e {\n  p = f32[4,2] parameter(0)\n  q = f32[2,2,3] parameter(1)\n  s = s32[2] "
        "parameter(2)\n  ROOT r = f32[4,3] ragged-dot(p, q, s), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}, rhs_group_dims={0}\n}\n";
    HloModule *module = NULL;
    HloText mlir = {0};
    cr_assert_null(hlo_parse(text, strlen(text), NULL, &module));
    HloDotAttributes *changed = hlo_arena_copy(module->arena, module->entry->root->attributes, sizeof(*changed));
    changed->algorithm = HLO_DotAlgorithm_F32_F32_F32;
    module->entry->root->attributes = changed;
    HloStatus status = hlo_module_to_stablehlo_text(module, false, &mlir);
    cr_expect_eq(hlo_status_code(status), HLO_UNIMPLEMENTED);
    cr_expect(strstr(hlo_status_message(status), "ragged-dot r: an algorithm, which chlo does not have"), "%s",
              hlo_status_message(status));
    hlo_status_free(status);
    hlo_module_free(module);
    hlo_text_free(&mlir);
}

// A chain of calls, the last of which is one too many.
Test(stablehlo_refused, calls_that_nest_too_deep) {
    enum { CALLS = 200 };
    HloText text = {0}, mlir = {0};
    HloModule *module = NULL;
    hlo_text_string(&text, "HloModule m\ncall0 {\n  ROOT p = f32[] parameter(0)\n}\n");
    for (int i = 1; i <= CALLS; i++) {
        hlo_text_format(&text, "%scall%d {\n  p = f32[] parameter(0)\n  ROOT r = f32[] call(p), to_apply=call%d\n}\n",
                        i == CALLS ? "ENTRY " : "", i, i - 1);
    }
    cr_assert_null(hlo_parse(text.data, text.length, NULL, &module));
    HloStatus status = hlo_module_to_stablehlo_text(module, false, &mlir);
    cr_expect_eq(hlo_status_code(status), HLO_UNIMPLEMENTED);
    cr_expect(strstr(hlo_status_message(status), "computation call0: calls nest more than 200 levels deep"), "%s",
              hlo_status_message(status));
    hlo_status_free(status);
    hlo_module_free(module);
    hlo_text_free(&text);
    hlo_text_free(&mlir);
}

Test(stablehlo_refused, a_module_without_an_entry) {
    HloModule *module = hlo_module_new("m");
    HloText mlir = {0};
    HloStatus status = hlo_module_to_stablehlo_text(module, false, &mlir);
    cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    cr_expect(strstr(hlo_status_message(status), "the module has no entry computation"), "%s",
              hlo_status_message(status));
    hlo_status_free(status);
    hlo_module_free(module);
    hlo_text_free(&mlir);
}

Test(stablehlo_refused, modules_without_a_form_are_refused_by_name) {
    for (size_t i = 0; i < HLO_COUNT_OF(exports); i++) {
        HloModule *module = NULL;
        HloStatus parsed = hlo_parse(exports[i].text, strlen(exports[i].text), NULL, &module);
        cr_assert_null(parsed, "%s", hlo_status_message(parsed));
        HloText text = {0};
        HloStatus status = hlo_module_to_stablehlo_text(module, false, &text);
        cr_expect_eq(hlo_status_code(status), HLO_UNIMPLEMENTED, "%s: %s", exports[i].text, hlo_status_message(status));
        cr_expect(strstr(hlo_status_message(status), exports[i].part), "%s: '%s' is not in '%s'", exports[i].text,
                  exports[i].part, hlo_status_message(status));
        hlo_status_free(status);
        hlo_text_free(&text);
        hlo_module_free(module);
    }
}
