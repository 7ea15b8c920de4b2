// SPDX-License-Identifier: Apache-2.0
// Operations without a counterpart in HLO: sizes that are computed, implicit broadcasts, legacy and chlo operations. No
// program has arguments; the evaluator's result is compared with values computed by hand. And composites: chlo
// operations come back from bytecode as themselves, and their decompositions compute the same.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hlo/eval/eval.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "tests/stablehlo/golden.h"
#include "tests/support/cases.h"

static HloModule *read_program(const char *text, const char *what) {
    HloModule *module = NULL;
    must(hlo_module_from_stablehlo_text(text, strlen(text), "test.mlir", &module), what);
    must(hlo_verify(module), what);
    return module;
}

typedef struct Program {
    const char *name, *text;
    const char *expected;  // the value of the result
} Program;

#define MAIN(type, lines, result) "func.func @main() -> " type " {\n" lines "\n  return " result " : " type "\n}\n"
#define IOTA23 "  %x = stablehlo.iota dim = 1 : tensor<2x3xi32>\n"

static const Program programs[] = {
    {"dot, which contracts the last dimension with the first",
     MAIN("tensor<2x2xi32>",
          IOTA23 "  %y = stablehlo.iota dim = 0 : tensor<3x2xi32>\n"
                 "  %0 = stablehlo.dot %x, %y : (tensor<2x3xi32>, tensor<3x2xi32>) -> tensor<2x2xi32>",
          "%0"),
     "{ { 5, 5 }, { 5, 5 } }"},
    {"a tuple, made and taken apart",
     MAIN("tensor<3xi32>",
          "  %x = stablehlo.iota dim = 0 : tensor<3xi32>\n  %y = stablehlo.constant dense<7> : tensor<i32>\n"
          "  %t = stablehlo.tuple %y, %x : tuple<tensor<i32>, tensor<3xi32>>\n"
          "  %0 = stablehlo.get_tuple_element %t[1] : (tuple<tensor<i32>, tensor<3xi32>>) -> tensor<3xi32>",
          "%0"),
     "{0, 1, 2}"},
    {"a constant of Shardy's", MAIN("tensor<2xi32>", "  %0 = sdy.constant dense<[4, 2]> : tensor<2xi32>", "%0"),
     "{4, 2}"},
    {"the number of elements as a size",
     MAIN("tensor<6xi32>",
          IOTA23 "  %s = shape.shape_of %x : tensor<2x3xi32> -> tensor<2xindex>\n"
                 "  %n = shape.num_elements %s : tensor<2xindex> -> index\n"
                 "  %i = arith.index_cast %n : index to i32\n"
                 "  %e = \"tensor.from_elements\"(%i) : (i32) -> tensor<1xi32>\n"
                 "  %d = stablehlo.dynamic_reshape %x, %e : (tensor<2x3xi32>, tensor<1xi32>) -> tensor<?xi32>\n"
                 "  %0 = tensor.cast %d : tensor<?xi32> to tensor<6xi32>",
          "%0"),
     "{0, 1, 2, 0, 1, 2}"},
    {"a window whose sizes are operands",
     MAIN("tensor<3xi32>",
          "  %x = stablehlo.iota dim = 0 : tensor<6xi32>\n  %z = stablehlo.constant dense<0> : tensor<i32>\n"
          "  %two = stablehlo.constant dense<2> : tensor<1xi64>\n  %one = stablehlo.constant dense<1> : tensor<1xi64>\n"
          "  %p = stablehlo.constant dense<0> : tensor<1x2xi64>\n"
          "  %0 = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %z, %two, %two, %one, %one, %p) "
          "{called_computations = [@add]} : (tensor<6xi32>, tensor<i32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, "
          "tensor<1xi64>, tensor<1x2xi64>) -> tensor<3xi32>",
          "%0") "func.func private @add(%a: tensor<i32>, %b: tensor<i32>) -> tensor<i32> {\n"
                "  %0 = stablehlo.add %a, %b : tensor<i32>\n  return %0 : tensor<i32>\n}\n",
     "{1, 5, 9}"},
    {"mhlo.topk of the smallest",
     MAIN("tensor<2xi32>",
          "  %x = stablehlo.constant dense<[3, 1, 2, 5, 4, 0]> : tensor<6xi32>\n"
          "  %0:2 = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {k = 2 : i64, largest = false}, "
          "mhlo.version = 1 : i64} : (tensor<6xi32>) -> (tensor<2xi32>, tensor<2xi32>)",
          "%0#0"),
     "{0, 1}"},
    {"mhlo.topk of the largest",
     MAIN("tensor<2xi32>",
          "  %x = stablehlo.constant dense<[3, 1, 2, 5, 4, 0]> : tensor<6xi32>\n"
          "  %0:2 = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {k = 2 : i64}, mhlo.version = 1 : i64} : "
          "(tensor<6xi32>) -> (tensor<2xi32>, tensor<2xi32>)",
          "%0#1"),
     "{3, 4}"},
    {"select_and_scatter that adds up in a wider type: 200 has no place in an i8",
     MAIN("tensor<4xi32>",
          "  %x = stablehlo.constant dense<[1, 5, 2, 9]> : tensor<4xi8>\n"
          "  %s = stablehlo.constant dense<100> : tensor<3xi8>\n  %z = stablehlo.constant dense<0> : tensor<i32>\n"
          "  %0 = \"stablehlo.select_and_scatter\"(%x, %s, %z) <{window_dimensions = array<i64: 2>}> ({\n"
          "  ^bb0(%a: tensor<i8>, %b: tensor<i8>):\n"
          "    %1 = stablehlo.compare GE, %a, %b, SIGNED : (tensor<i8>, tensor<i8>) -> tensor<i1>\n"
          "    stablehlo.return %1 : tensor<i1>\n  }, {\n  ^bb0(%a: tensor<i32>, %b: tensor<i32>):\n"
          "    %1 = stablehlo.add %a, %b : tensor<i32>\n    stablehlo.return %1 : tensor<i32>\n"
          "  }) : (tensor<4xi8>, tensor<3xi8>, tensor<i32>) -> tensor<4xi32>",
          "%0"),
     "{0, 200, 0, 100}"},
    {"reduce_window that adds up in a wider type",
     MAIN("tensor<3xi32>",
          "  %x = stablehlo.constant dense<100> : tensor<4xi8>\n  %z = stablehlo.constant dense<0> : tensor<i32>\n"
          "  %0 = \"stablehlo.reduce_window\"(%x, %z) <{window_dimensions = array<i64: 2>}> ({\n"
          "  ^bb0(%a: tensor<i32>, %b: tensor<i32>):\n"
          "    %1 = stablehlo.add %a, %b : tensor<i32>\n    stablehlo.return %1 : tensor<i32>\n"
          "  }) : (tensor<4xi8>, tensor<i32>) -> tensor<3xi32>",
          "%0"),
     "{200, 200, 200}"},
    {"dynamic_reshape",
     MAIN("tensor<3x2xi32>",
          IOTA23 "  %s = stablehlo.constant dense<[3, 2]> : tensor<2xi64>\n"
                 "  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<2x3xi32>, tensor<2xi64>) -> tensor<3x2xi32>",
          "%0"),
     "{ { 0, 1 }, { 2, 0 }, { 1, 2 } }"},
    {"dynamic_broadcast_in_dim, whose size follows from that of an array",
     MAIN("tensor<2x3xi32>",
          IOTA23 "  %n = stablehlo.get_dimension_size %x, dim = 1 : (tensor<2x3xi32>) -> tensor<i32>\n"
                 "  %n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n"
                 "  %two = stablehlo.constant dense<2> : tensor<1xi32>\n"
                 "  %s = stablehlo.concatenate %two, %n1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n"
                 "  %c = stablehlo.constant dense<[7, 8, 9]> : tensor<3xi32>\n"
                 "  %b = stablehlo.dynamic_broadcast_in_dim %c, %s, dims = [1] : (tensor<3xi32>, tensor<2xi32>) -> "
                 "tensor<?x?xi32>\n"
                 "  %d = stablehlo.add %b, %b : tensor<?x?xi32>\n"
                 "  %0 = tensor.cast %d : tensor<?x?xi32> to tensor<2x3xi32>",
          "%0"),
     "{ { 14, 16, 18 }, { 14, 16, 18 } }"},
    {"dynamic_iota of a computed size",
     MAIN("tensor<4xi64>",
          "  %a = stablehlo.constant dense<9> : tensor<1xi64>\n  %b = stablehlo.constant dense<2> : tensor<1xi64>\n"
          "  %s = stablehlo.divide %a, %b : tensor<1xi64>\n"
          "  %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi64>) -> tensor<4xi64>",
          "%0"),
     "{0, 1, 2, 3}"},
    {"dynamic_pad",
     MAIN("tensor<6xi32>",
          "  %x = stablehlo.iota dim = 0 : tensor<3xi32>\n  %v = stablehlo.constant dense<-1> : tensor<i32>\n"
          "  %l = stablehlo.constant dense<1> : tensor<1xi64>\n  %h = stablehlo.constant dense<0> : tensor<1xi64>\n"
          "  %0 = stablehlo.dynamic_pad %x, %v, %l, %h, %l : (tensor<3xi32>, tensor<i32>, tensor<1xi64>, "
          "tensor<1xi64>, tensor<1xi64>) -> tensor<6xi32>",
          "%0"),
     "{-1, 0, -1, 1, -1, 2}"},
    {"dynamic_gather",
     MAIN("tensor<2x2xi32>",
          "  %x = stablehlo.iota dim = 0 : tensor<5xi32>\n  %i = stablehlo.constant dense<[[1], [3]]> : "
          "tensor<2x1xi64>\n  %s = stablehlo.constant dense<2> : tensor<1xi64>\n"
          "  %0 = \"stablehlo.dynamic_gather\"(%x, %i, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], "
          "start_index_map = [0], index_vector_dim = 1>}> : (tensor<5xi32>, tensor<2x1xi64>, tensor<1xi64>) -> "
          "tensor<2x2xi32>",
          "%0"),
     "{ { 1, 2 }, { 3, 4 } }"},
    {"real_dynamic_slice of known parts",
     MAIN("tensor<2xi32>",
          "  %x = stablehlo.iota dim = 0 : tensor<5xi32>\n  %a = stablehlo.constant dense<1> : tensor<1xi32>\n"
          "  %b = stablehlo.constant dense<5> : tensor<1xi32>\n  %c = stablehlo.constant dense<2> : tensor<1xi32>\n"
          "  %0 = stablehlo.real_dynamic_slice %x, %a, %b, %c : (tensor<5xi32>, tensor<1xi32>, tensor<1xi32>, "
          "tensor<1xi32>) -> tensor<2xi32>",
          "%0"),
     "{1, 3}"},
    {"dynamic_conv",
     MAIN("tensor<1x1x4xi32>",
          "  %x = stablehlo.constant dense<[[[1, 2, 3]]]> : tensor<1x1x3xi32>\n"
          "  %k = stablehlo.constant dense<[[[1, 1]]]> : tensor<1x1x2xi32>\n"
          "  %p = stablehlo.constant dense<[[1, 1]]> : tensor<1x2xi64>\n"
          "  %0 = \"stablehlo.dynamic_conv\"(%x, %k, %p) <{batch_group_count = 1 : i64, dimension_numbers = "
          "#stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>, feature_group_count = 1 : i64}> : (tensor<1x1x3xi32>, "
          "tensor<1x1x2xi32>, tensor<1x2xi64>) -> tensor<1x1x4xi32>",
          "%0"),
     "{ { {1, 3, 5, 3} } }"},
    {"a function with open sizes, called with two shapes",
     "func.func @main() -> (tensor<2xi32>) {\n  %a = stablehlo.iota dim = 0 : tensor<3xi32>\n"
     "  %b = stablehlo.iota dim = 0 : tensor<5xi32>\n"
     "  %0 = call @size(%a) : (tensor<3xi32>) -> tensor<1xi32>\n"
     "  %1 = call @size(%b) : (tensor<5xi32>) -> tensor<1xi32>\n"
     "  %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n"
     "  return %2 : tensor<2xi32>\n}\n"
     "func.func private @size(%x: tensor<?xi32>) -> tensor<1xi32> {\n"
     "  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xi32>) -> tensor<i32>\n"
     "  %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n"
     "  %i = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>\n"
     "  %z = stablehlo.constant dense<0> : tensor<i32>\n"
     "  %t = stablehlo.reduce(%i init: %z) applies stablehlo.add across dimensions = [0] : (tensor<?xi32>, "
     "tensor<i32>) -> tensor<i32>\n"
     "  %r = stablehlo.reshape %t : (tensor<i32>) -> tensor<1xi32>\n  return %r : tensor<1xi32>\n}\n",
     "{3, 10}"},
    {"a loop over an array of open size",
     MAIN("tensor<3xi32>",
          "  %s = stablehlo.constant dense<3> : tensor<1xi32>\n  %n = stablehlo.constant dense<4> : tensor<i32>\n"
          "  %one = stablehlo.constant dense<1> : tensor<i32>\n  %z = stablehlo.constant dense<0> : tensor<i32>\n"
          "  %i = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>\n"
          "  %w:2 = stablehlo.while(%k = %z, %v = %i) : tensor<i32>, tensor<?xi32>\n  cond {\n"
          "    %p = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
          "    stablehlo.return %p : tensor<i1>\n  } do {\n    %k1 = stablehlo.add %k, %one : tensor<i32>\n"
          "    %o = stablehlo.dynamic_broadcast_in_dim %one, %s, dims = [] : (tensor<i32>, tensor<1xi32>) -> "
          "tensor<?xi32>\n    %v1 = stablehlo.add %v, %o : tensor<?xi32>\n"
          "    stablehlo.return %k1, %v1 : tensor<i32>, tensor<?xi32>\n  }\n"
          "  %0 = tensor.cast %w#1 : tensor<?xi32> to tensor<3xi32>",
          "%0"),
     "{4, 5, 6}"},
    {"custom calls that JAX writes for open sizes",
     MAIN("tensor<2xf32>",
          "  %x = stablehlo.constant dense<[3.0, 1.0, 2.0]> : tensor<3xf32>\n"
          "  %k = stablehlo.constant dense<2> : tensor<i64>\n  %t = stablehlo.constant dense<true> : tensor<i1>\n"
          "  %s = stablehlo.constant dense<3> : tensor<1xi64>\n"
          "  stablehlo.custom_call @shape_assertion(%t) {api_version = 2 : i32, error_message = \"no\", "
          "has_side_effect = true} : (tensor<i1>) -> ()\n"
          "  %y = stablehlo.custom_call @stablehlo.shape_refinement_operand_wrapper(%x, %s) : (tensor<3xf32>, "
          "tensor<1xi64>) -> tensor<?xf32>\n"
          "  %0:2 = stablehlo.custom_call @stablehlo.dynamic_top_k(%y, %k) : (tensor<?xf32>, tensor<i64>) -> "
          "(tensor<2xf32>, tensor<2xi32>)",
          "%0#0"),
     "{3, 2}"},
    {"sizes by the dialects shape and tensor",
     MAIN("tensor<2x3xi32>",
          IOTA23 "  %a = shape.shape_of %x : tensor<2x3xi32> -> tensor<2xindex>\n"
                 "  %c = shape.const_shape [3] : tensor<1xindex>\n"
                 "  %s = shape.broadcast %a, %c : tensor<2xindex>, tensor<1xindex> -> tensor<2xindex>\n"
                 "  %v = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>\n"
                 "  %0 = stablehlo.dynamic_broadcast_in_dim %v, %s, dims = [1] : (tensor<3xi32>, tensor<2xindex>) -> "
                 "tensor<2x3xi32>",
          "%0"),
     "{ { 1, 2, 3 }, { 1, 2, 3 } }"},
    {"implicit broadcasts",
     MAIN("tensor<2x3xi32>",
          IOTA23 "  %r = stablehlo.constant dense<[[10], [20]]> : tensor<2x1xi32>\n"
                 "  %0 = chlo.broadcast_add %x, %r : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>",
          "%0"),
     "{ { 10, 11, 12 }, { 20, 21, 22 } }"},
    {"an implicit broadcast along a named dimension",
     MAIN("tensor<2x3xi1>",
          IOTA23 "  %r = stablehlo.constant dense<[1, 2]> : tensor<2xi32>\n"
                 "  %0 = chlo.broadcast_compare %x, %r {broadcast_dimensions = array<i64: 0>, comparison_direction = "
                 "#chlo<comparison_direction LT>} : (tensor<2x3xi32>, tensor<2xi32>) -> tensor<2x3xi1>",
          "%0"),
     "{ { 1, 0, 0 }, { 1, 1, 0 } }"},
    {"a broadcasting choice",
     MAIN("tensor<2x3xi32>",
          IOTA23 "  %p = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>\n"
                 "  %n = stablehlo.constant dense<-1> : tensor<i32>\n"
                 "  %0 = chlo.broadcast_select %p, %x, %n : (tensor<3xi1>, tensor<2x3xi32>, tensor<i32>) -> "
                 "tensor<2x3xi32>",
          "%0"),
     "{ { 0, -1, 2 }, { 0, -1, 2 } }"},
    {"constant_like",
     MAIN("tensor<2x3xi32>",
          IOTA23 "  %0 = \"chlo.constant_like\"(%x) <{value = 5 : i32}> : (tensor<2x3xi32>) -> tensor<2x3xi32>", "%0"),
     "{ { 5, 5, 5 }, { 5, 5, 5 } }"},
    {"a scan from the end",
     MAIN("tensor<3xi32>",
          "  %x = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>\n  %z = stablehlo.constant dense<0> : "
          "tensor<i32>\n  %0:2 = chlo.scan(%x) inits (%z) dimension=0 attributes {is_reverse = true} {\n"
          "  ^bb0(%a: tensor<i32>, %c: tensor<i32>):\n    %s = stablehlo.add %a, %c : tensor<i32>\n"
          "    stablehlo.return %s, %s : tensor<i32>, tensor<i32>\n  } : (tensor<3xi32>, tensor<i32>) -> "
          "(tensor<3xi32>, tensor<i32>)",
          "%0#0"),
     "{6, 5, 3}"},
    {"a ragged dot",
     MAIN("tensor<3x1xf32>",
          "  %a = stablehlo.constant dense<[[1.0], [2.0], [3.0]]> : tensor<3x1xf32>\n"
          "  %b = stablehlo.constant dense<[[[10.0]], [[100.0]]]> : tensor<2x1x1xf32>\n"
          "  %g = stablehlo.constant dense<[1, 2]> : tensor<2xi32>\n"
          "  %0 = \"chlo.ragged_dot\"(%a, %b, %g) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<"
          "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], "
          "rhs_group_dimensions = [0]>}> : (tensor<3x1xf32>, tensor<2x1x1xf32>, tensor<2xi32>) -> tensor<3x1xf32>",
          "%0"),
     "{ {10}, {200}, {300} }"},
    {"the upper halves of products",
     MAIN("tensor<3xi8>",
          "  %a = stablehlo.constant dense<[127, -128, -1]> : tensor<3xi8>\n"
          "  %b = stablehlo.constant dense<[127, -128, 5]> : tensor<3xi8>\n"
          "  %0 = chlo.mulhi %a, %b : tensor<3xi8>, tensor<3xi8> -> tensor<3xi8>",
          "%0"),
     "{63, 64, -1}"},
    {"the upper halves of long products",
     MAIN("tensor<3xi64>",
          "  %a = stablehlo.constant dense<[9223372036854775807, -9223372036854775808, -1]> : tensor<3xi64>\n"
          "  %b = stablehlo.constant dense<[9223372036854775807, -9223372036854775808, 7]> : tensor<3xi64>\n"
          "  %0 = chlo.mulhi %a, %b : tensor<3xi64>, tensor<3xi64> -> tensor<3xi64>",
          "%0"),
     "{4611686018427387903, 4611686018427387904, -1}"},
    {"the square of a complex number",
     MAIN("tensor<2xcomplex<f32>>",
          "  %a = stablehlo.constant dense<[(3.0, 2.0), (1.0e30, 1.0e30)]> : tensor<2xcomplex<f32>>\n"
          "  %0 = chlo.square %a : tensor<2xcomplex<f32>> -> tensor<2xcomplex<f32>>",
          "%0"),
     "{(5, 12), (0, inf)}"},
    {"the real part by conversion",
     MAIN("tensor<2xi32>",
          "  %a = stablehlo.constant dense<[(3.0, 2.0), (-4.0, 1.0)]> : tensor<2xcomplex<f32>>\n"
          "  %0 = stablehlo.convert %a : (tensor<2xcomplex<f32>>) -> tensor<2xi32>",
          "%0"),
     "{3, -4}"},
    {"einsum with a batch, a sum and another order",
     MAIN("tensor<2x2xi32>",
          "  %a = stablehlo.constant dense<[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]> : tensor<2x2x2xi32>\n"
          "  %b = stablehlo.constant dense<[[1, 10], [1, 100]]> : tensor<2x2xi32>\n"
          "  %0 = stablehlo.einsum %a, %b, config = \"bij,bj->ib\" : (tensor<2x2x2xi32>, tensor<2x2xi32>) -> "
          "tensor<2x2xi32>",
          "%0"),
     "{ { 21, 605 }, { 43, 807 } }"},
    {"einsum with a letter of one input only",
     MAIN("tensor<2xi32>",
          "  %a = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>\n"
          "  %b = stablehlo.constant dense<[10, 1]> : tensor<2xi32>\n"
          "  %0 = stablehlo.einsum %a, %b, config = \"ij,k->i\" : (tensor<2x2xi32>, tensor<2xi32>) -> tensor<2xi32>",
          "%0"),
     "{33, 77}"},
    {"unary_einsum",
     MAIN("tensor<3xi32>",
          IOTA23 "  %0 = stablehlo.unary_einsum %x, config = \"ij->j\" : (tensor<2x3xi32>) -> tensor<3xi32>", "%0"),
     "{0, 2, 4}"},
    {"torch_index_select with a batch",
     MAIN("tensor<2x2xi32>",
          "  %a = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>\n"
          "  %i = stablehlo.constant dense<[[2, 0], [1, 1]]> : tensor<2x2xi32>\n"
          "  %0 = \"stablehlo.torch_index_select\"(%a, %i) <{batch_dims = 1 : i64, dim = 1 : i64}> : (tensor<2x3xi32>, "
          "tensor<2x2xi32>) -> tensor<2x2xi32>",
          "%0"),
     "{ { 3, 1 }, { 5, 5 } }"},
    {"a future",
     MAIN("tensor<3xi32>",
          "  %a = stablehlo.iota dim = 0 : tensor<3xi32>\n  %f = \"stablehlo.async_start\"(%a) ({\n"
          "  ^bb0(%x: tensor<3xi32>):\n    %y = stablehlo.add %x, %x : tensor<3xi32>\n"
          "    stablehlo.return %y : tensor<3xi32>\n  }) : (tensor<3xi32>) -> !stablehlo.future<tensor<3xi32>>\n"
          "  %0 = \"stablehlo.async_done\"(%f) : (!stablehlo.future<tensor<3xi32>>) -> tensor<3xi32>",
          "%0"),
     "{0, 2, 4}"},
};

// Without blanks, of which there are more or fewer by how long a value is.
static void squeeze(char *text) {
    char *to = text;
    for (; *text; text++) {
        if (*text != ' ' && *text != '\n') *to++ = *text;
    }
    *to = 0;
}

CaseList(stablehlo_operations, computes) {
    return cases_numbered(HLO_COUNT_OF(programs));
}

CaseTest(const int *index, stablehlo_operations, computes) {
    const Program *program = &programs[*index];
    HloModule *module = read_program(program->text, program->name);
    HloLiteral *result = NULL;
    must(hlo_evaluate(module, NULL, 0, NULL, &result), program->name);
    HloText text = {0};
    hlo_print_literal(&text, result);
    char expected[200];
    cr_assert(strlen(program->expected) < sizeof(expected));
    strcpy(expected, program->expected);
    squeeze(expected);
    squeeze(text.data);
    cr_expect_str_eq(text.data, expected, "%s", program->name);
    hlo_text_free(&text);
    hlo_literal_free(result);
    hlo_module_free(module);
}

// ---------------------------------------------------------------------------------------------------------------------
// What cannot be known

typedef struct Refusal {
    const char *text;
    HloCode code;
    const char *message;
} Refusal;

#define TAKES(argument, lines) "func.func @main(" argument ") {\n" lines "\n  return\n}\n"

static const Refusal refusals[] = {
    {TAKES("%x: tensor<4xi32>, %s: tensor<1xi64>",
           "  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<4xi32>, tensor<1xi64>) -> tensor<?xi32>"),
     HLO_UNIMPLEMENTED, "the sizes are not constant"},
    {TAKES("%x: tensor<4xi32>",
           "  %s = stablehlo.constant dense<[2, 3]> : tensor<2xi64>\n"
           "  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<4xi32>, tensor<2xi64>) -> tensor<?x?xi32>"),
     HLO_INVALID_ARGUMENT, "reshape"},
    {TAKES("%x: tensor<4xi32>",
           "  %s = stablehlo.constant dense<-4> : tensor<1xi64>\n"
           "  %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi64>) -> tensor<?xi32>"),
     HLO_INVALID_ARGUMENT, "cannot have size -4"},
    {TAKES("%x: tensor<4xi32>",
           "  %s = stablehlo.constant dense<4611686018427387904> : tensor<1xi64>\n"
           "  %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi64>) -> tensor<?xi32>"),
     HLO_INVALID_ARGUMENT, ""},
    {TAKES("%x: tensor<2xi32>, %y: tensor<3xi32>",
           "  %0 = chlo.broadcast_add %x, %y : (tensor<2xi32>, tensor<3xi32>) -> tensor<3xi32>"),
     HLO_INVALID_ARGUMENT, "are incompatible"},
    {TAKES("%x: tensor<2x2xi32>",
           "  %0 = stablehlo.unary_einsum %x, config = \"ii->i\" : (tensor<2x2xi32>) -> tensor<2xi32>"),
     HLO_UNIMPLEMENTED, "a diagonal"},
    {TAKES("%x: tensor<2x2xi32>",
           "  %0 = stablehlo.unary_einsum %x, config = \"ij\" : (tensor<2x2xi32>) -> tensor<2xi32>"),
     HLO_INVALID_ARGUMENT, "inputs->output"},
    {TAKES("%x: tensor<2xi1>",
           "  %f = stablehlo.constant dense<false> : tensor<i1>\n  stablehlo.custom_call @shape_assertion(%f) "
           "{error_message = \"b must be even\"} : (tensor<i1>) -> ()"),
     HLO_INVALID_ARGUMENT, "b must be even"},
    {TAKES("%x: tensor<?xi32>", "  %0 = tensor.cast %x : tensor<?xi32> to tensor<3xi32>"), HLO_UNIMPLEMENTED,
     "not known"},
    {TAKES("", "  %0 = stablehlo.constant dense<1.0> : tensor<4xf6E2M3FN>"), HLO_UNIMPLEMENTED, "6-bit float"},
    {TAKES("", "  %0 = stablehlo.constant dense<1> : tensor<4x!quant.uniform<i8:f32, 0.5>>"), HLO_UNIMPLEMENTED,
     "quantized type"},
    {"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
     "  %0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>\n"
     "  %1 = stablehlo.uniform_dequantize %0 : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32>\n"
     "  return %1 : tensor<4xf32>\n}",
     HLO_UNIMPLEMENTED, "quantized type"},
};

CaseList(stablehlo_operations, refuses) {
    return cases_numbered(HLO_COUNT_OF(refusals));
}

CaseTest(const int *index, stablehlo_operations, refuses) {
    const Refusal *refusal = &refusals[*index];
    HloModule *module = NULL;
    HloStatus status = hlo_module_from_stablehlo_text(refusal->text, strlen(refusal->text), NULL, &module);
    cr_assert(status, "accepted: %s", refusal->text);
    cr_expect_eq(hlo_status_code(status), refusal->code, "%s", refusal->text);
    cr_expect(strstr(hlo_status_message(status), refusal->message), "%s", hlo_status_message(status));
    hlo_status_free(status);
}

// Every level of calls with other shapes doubles what there is to convert: it is refused before it fills the memory.
Test(stablehlo_operations, calls_with_ever_other_shapes_are_refused) {
    enum { LEVELS = 40 };
    HloText text = {0};
    hlo_text_string(&text,
                    "func.func @main(%x: tensor<1xi32>) {\n  call @f0(%x) : (tensor<1xi32>) -> ()\n  return\n}\n");
    for (int i = 0; i < LEVELS; i++) {
        hlo_text_format(&text,
                        "func.func private @f%d(%%x: tensor<?xi32>) {\n"
                        "  %%a = stablehlo.concatenate %%x, %%x, dim = 0 : (tensor<?xi32>, tensor<?xi32>) -> "
                        "tensor<?xi32>\n"
                        "  %%b = stablehlo.concatenate %%a, %%x, dim = 0 : (tensor<?xi32>, tensor<?xi32>) -> "
                        "tensor<?xi32>\n",
                        i);
        if (i + 1 < LEVELS) {
            hlo_text_format(&text,
                            "  call @f%d(%%a) : (tensor<?xi32>) -> ()\n  call @f%d(%%b) : (tensor<?xi32>) -> ()\n",
                            i + 1, i + 1);
        }
        hlo_text_string(&text, "  return\n}\n");
    }
    HloModule *module = NULL;
    HloStatus status = hlo_module_from_stablehlo_text(text.data, text.length, NULL, &module);
    cr_assert(status);
    hlo_status_free(status);
    hlo_text_free(&text);
}

// ---------------------------------------------------------------------------------------------------------------------
// Composites

static const char chlo_program[] =
    "func.func @main() -> (tensor<4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<4xf64>, tensor<4xf64>, tensor<3xf32>, "
    "tensor<4xf64>, tensor<4xf64>, tensor<4xf16>, tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>, "
    "tensor<2xcomplex<f32>>, tensor<3xi32>, tensor<2xui64>, tensor<2xf32>, tensor<2xi32>) {\n"
    "  %a = stablehlo.constant dense<[0.5, -3.0, 0.0, 1.25]> : tensor<4xf32>\n"
    "  %u = stablehlo.constant dense<[0.5, -0.75, 0.0]> : tensor<3xf32>\n"
    "  %d = stablehlo.constant dense<[0.25, -3.0, 1.0e12, 20.0]> : tensor<4xf64>\n"
    "  %g = stablehlo.constant dense<[1.25, 3.0, 1.0e12, 1.0]> : tensor<4xf64>\n"
    "  %s = stablehlo.constant dense<[0.25, -3.0, 0.5, 5.0]> : tensor<4xf64>\n"
    "  %h = stablehlo.constant dense<[0.25, -3.0, 1.0, 5.0]> : tensor<4xf16>\n"
    "  %z = stablehlo.constant dense<[(0.5, 1.5), (-2.0, 0.25)]> : tensor<2xcomplex<f32>>\n"
    "  %i = stablehlo.constant dense<[2147483647, -2147483648, -7]> : tensor<3xi32>\n"
    "  %l = stablehlo.constant dense<[18446744073709551615, 12345678901234567890]> : tensor<2xui64>\n"
    "  %0 = chlo.erf %a : tensor<4xf32> -> tensor<4xf32>\n"
    "  %1 = chlo.acos %u : tensor<3xf32> -> tensor<3xf32>\n"
    "  %2 = chlo.asin %u : tensor<3xf32> -> tensor<3xf32>\n"
    "  %3 = chlo.asinh %d : tensor<4xf64> -> tensor<4xf64>\n"
    "  %4 = chlo.acosh %g : tensor<4xf64> -> tensor<4xf64>\n"
    "  %5 = chlo.atanh %u : tensor<3xf32> -> tensor<3xf32>\n"
    "  %6 = chlo.cosh %s : tensor<4xf64> -> tensor<4xf64>\n"
    "  %7 = chlo.sinh %s : tensor<4xf64> -> tensor<4xf64>\n"
    "  %8 = chlo.erf %h : tensor<4xf16> -> tensor<4xf16>\n"
    "  %9 = chlo.acos %z : tensor<2xcomplex<f32>> -> tensor<2xcomplex<f32>>\n"
    "  %10 = chlo.atanh %z : tensor<2xcomplex<f32>> -> tensor<2xcomplex<f32>>\n"
    "  %11 = chlo.acosh %z : tensor<2xcomplex<f32>> -> tensor<2xcomplex<f32>>\n"
    "  %12 = chlo.mulhi %i, %i : tensor<3xi32>, tensor<3xi32> -> tensor<3xi32>\n"
    "  %13 = chlo.mulhi %l, %l : tensor<2xui64>, tensor<2xui64> -> tensor<2xui64>\n"
    "  %14, %15 = chlo.top_k(%a, k = 2) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)\n"
    "  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15 : tensor<4xf32>, tensor<3xf32>, "
    "tensor<3xf32>, tensor<4xf64>, tensor<4xf64>, tensor<3xf32>, tensor<4xf64>, tensor<4xf64>, tensor<4xf16>, "
    "tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>, tensor<3xi32>, tensor<2xui64>, "
    "tensor<2xf32>, tensor<2xi32>\n}\n";

// Kept, contracting and batch dimensions that are ragged, sizes for each batch, groups that leave rows out.
static const char ragged_program[] =
    "func.func @main() -> (tensor<2x5x3xf32>, tensor<2x2x5x3xf32>, tensor<2x5x3xf32>, tensor<2x5x3xf32>, "
    "tensor<5x4x3xf32>) {\n"
    "  %a = stablehlo.iota dim = 1 : tensor<2x5x4xf32>\n  %b = stablehlo.iota dim = 0 : tensor<2x2x4x3xf32>\n"
    "  %c = stablehlo.iota dim = 2 : tensor<2x4x3xf32>\n  %d = stablehlo.iota dim = 3 : tensor<3x2x4x2xf32>\n"
    "  %s = stablehlo.constant dense<[3, 1]> : tensor<2xi32>\n"
    "  %t = stablehlo.constant dense<[[1, 4], [2, 2]]> : tensor<2x2xi64>\n"
    "  %u = stablehlo.constant dense<[[1, 1], [0, 2], [2, 0], [0, 0], [1, 0]]> : tensor<5x2xui8>\n"
    "  %0 = \"chlo.ragged_dot\"(%a, %b, %t) <{precision_config = [#chlo<precision HIGHEST>, #chlo<precision DEFAULT>], "
    "ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], "
    "lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2], lhs_ragged_dimensions = [1], "
    "rhs_group_dimensions = [0]>}> : (tensor<2x5x4xf32>, tensor<2x2x4x3xf32>, tensor<2x2xi64>) -> tensor<2x5x3xf32>\n"
    "  %1 = \"chlo.ragged_dot\"(%a, %c, %s) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<"
    "lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], "
    "rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [2]>}> : (tensor<2x5x4xf32>, tensor<2x4x3xf32>, "
    "tensor<2xi32>) -> tensor<2x2x5x3xf32>\n"
    "  %2 = \"chlo.ragged_dot\"(%a, %c, %s) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<"
    "lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], "
    "rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0]>}> : (tensor<2x5x4xf32>, tensor<2x4x3xf32>, "
    "tensor<2xi32>) -> tensor<2x5x3xf32>\n"
    "  %3 = \"chlo.ragged_dot\"(%a, %b, %s) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<"
    "lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [2], "
    "rhs_contracting_dimensions = [2], lhs_ragged_dimensions = [1], rhs_group_dimensions = [0]>}> : "
    "(tensor<2x5x4xf32>, tensor<2x2x4x3xf32>, tensor<2xi32>) -> tensor<2x5x3xf32>\n"
    "  %e = stablehlo.iota dim = 0 : tensor<5x2x4xf32>\n"
    "  %4 = \"chlo.ragged_dot\"(%e, %d, %u) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<"
    "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [2], "
    "rhs_group_dimensions = [3]>}> : (tensor<5x2x4xf32>, tensor<3x2x4x2xf32>, tensor<5x2xui8>) -> "
    "tensor<5x4x3x4xf32>\n"
    "  %5 = stablehlo.slice %4 [0:5, 0:4, 0:3, 1:2] : (tensor<5x4x3x4xf32>) -> tensor<5x4x3x1xf32>\n"
    "  %6 = stablehlo.reshape %5 : (tensor<5x4x3x1xf32>) -> tensor<5x4x3xf32>\n"
    "  return %0, %1, %2, %3, %6 : tensor<2x5x3xf32>, tensor<2x2x5x3xf32>, tensor<2x5x3xf32>, tensor<2x5x3xf32>, "
    "tensor<5x4x3xf32>\n}\n";

static HloText bytecode_of(const HloModule *module, const char *release) {
    HloText bytes = {0};
    must(hlo_module_to_stablehlo_bytecode(module, release, &bytes), "bytecode");
    return bytes;
}

static HloModule *read_bytecode(const HloText *bytes) {
    HloModule *module = NULL;
    must(hlo_module_from_stablehlo_bytecode(bytes->data, bytes->length, &module), "bytecode");
    must(hlo_verify(module), "bytecode");
    return module;
}

static HloText print(const HloModule *module) {
    HloPrintOptions options = hlo_print_default();
    options.print_metadata = false;
    return print_module(module, &options);
}

// Written as bytecode and read again it is the same program.
static void check_comes_back(const char *program) {
    HloModule *module = read_program(program, "chlo");
    HloText bytes = bytecode_of(module, NULL);
    HloModule *again = read_bytecode(&bytes);
    HloText expected = print(module), text = print(again);
    cr_assert_str_eq(text.data, expected.data);
    hlo_text_free(&expected);
    hlo_text_free(&text);
    hlo_text_free(&bytes);
    hlo_module_free(again);
    hlo_module_free(module);
}

Test(stablehlo_operations, chlo_comes_back_from_bytecode) {
    check_comes_back(chlo_program);
    check_comes_back(ragged_program);
}

// MLIR's own text of the operations, which JAX reads.
Test(stablehlo_operations, ragged_dots_are_written_with_the_words_of_chlo) {
    HloModule *module = read_program(ragged_program, "ragged"), *again = NULL;
    HloText text = {0};
    must(hlo_module_to_stablehlo_text(module, false, &text), "text");
    cr_expect(
        strstr(text.data,
               "\"chlo.ragged_dot\"(%0, %1, %c_0) <{precision_config = [#chlo<precision HIGHEST>, #chlo<precision "
               "DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [0], "
               "rhs_batching_dimensions = [1], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = "
               "[2], lhs_ragged_dimensions = [1], rhs_group_dimensions = [0]>}> : (tensor<2x5x4xf32>, "
               "tensor<2x2x4x3xf32>, tensor<2x2xi64>) -> tensor<2x5x3xf32>"),
        "%s", text.data);
    must(hlo_module_from_stablehlo_text(text.data, text.length, NULL, &again), "text");
    HloText expected = print(module), read = print(again);
    cr_assert_str_eq(read.data, expected.data);
    hlo_text_free(&expected);
    hlo_text_free(&read);
    hlo_text_free(&text);
    hlo_module_free(again);
    hlo_module_free(module);
}

static void check_close(const HloLiteral *a, const HloLiteral *b, int64_t output) {
    const HloType type = a->shape->type;
    const bool is_exact = hlo_type_is_integer(type);
    const double tolerance = is_exact ? 0 : type == HLO_F64 ? 1e-14 : type == HLO_F16 ? 1e-3 : 1e-6;
    const bool is_complex = hlo_type_is_complex(type);
    for (int64_t i = 0; i < hlo_shape_elements(a->shape); i++) {
        for (int part = 0; part < (is_complex ? 2 : 1); part++) {
            const double x = is_complex ? ((const float *)a->data)[2 * i + part] : hlo_literal_get_double(a, i);
            const double y = is_complex ? ((const float *)b->data)[2 * i + part] : hlo_literal_get_double(b, i);
            cr_expect(fabs(x - y) <= tolerance * fmax(fabs(x), 1), "output %lld, element %lld: %.17g and %.17g",
                      (long long)output, (long long)i, x, y);
        }
    }
}

// Compares what two forms of the program compute.
static void check_same_values(const HloModule *a, const HloModule *b) {
    HloLiteral *first = NULL, *second = NULL;
    must(hlo_evaluate(a, NULL, 0, NULL, &first), "evaluate");
    must(hlo_evaluate(b, NULL, 0, NULL, &second), "evaluate");
    for (int64_t i = 0; i < first->shape->element_count; i++) check_close(first->elements[i], second->elements[i], i);
    hlo_literal_free(first);
    hlo_literal_free(second);
}

// A reader that does not know the composites' names runs their decompositions.
static void check_decompositions(const char *program, int64_t least) {
    HloModule *module = read_program(program, "chlo");
    HloText bytes = bytecode_of(module, NULL);
    int64_t renamed = 0;
    for (size_t i = 0; i + 5 < bytes.length; i++) {
        if (memcmp(bytes.data + i, "chlo.", 5) != 0) continue;
        size_t end = i;
        while (bytes.data[end] && bytes.data[end] != '.') end++;
        end++;
        while (bytes.data[end] && bytes.data[end] != '.') end++;
        if (bytes.data[end]) continue;  // chlo.erf.impl
        bytes.data[i] = 'k';
        renamed++;
    }
    cr_assert_geq(renamed, least);
    HloModule *again = read_bytecode(&bytes);
    check_same_values(module, again);
    hlo_text_free(&bytes);
    hlo_module_free(again);
    hlo_module_free(module);
}

Test(stablehlo_operations, decompositions_compute_the_same) {
    check_decompositions(chlo_program, 10);
    check_decompositions(ragged_program, 1);
}

// A function of the program may already be called as a decomposition is.
Test(stablehlo_operations, decompositions_take_no_names) {
    HloModule *module = read_program(
        "func.func @main() -> tensor<2xf32> {\n"
        "  %a = stablehlo.constant dense<[0.5, 2.0]> : tensor<2xf32>\n"
        "  %0 = call @chlo.erf.impl(%a) : (tensor<2xf32>) -> tensor<2xf32>\n"
        "  %1 = chlo.erf %0 : tensor<2xf32> -> tensor<2xf32>\n"
        "  return %1 : tensor<2xf32>\n}\n"
        "func.func private @chlo.erf.impl(%a: tensor<2xf32>) -> tensor<2xf32> {\n"
        "  %0 = stablehlo.add %a, %a : tensor<2xf32>\n  return %0 : tensor<2xf32>\n}\n",
        "names");
    HloText bytes = bytecode_of(module, "1.0.0");
    HloModule *again = read_bytecode(&bytes);
    HloLiteral *first = NULL, *second = NULL;
    must(hlo_evaluate(module, NULL, 0, NULL, &first), "evaluate");
    must(hlo_evaluate(again, NULL, 0, NULL, &second), "evaluate");
    check_close(first, second, 0);
    hlo_literal_free(first);
    hlo_literal_free(second);
    hlo_text_free(&bytes);
    hlo_module_free(again);
    hlo_module_free(module);
}

static void check_calls(const char *program) {
    HloModule *module = read_program(program, "chlo");
    HloText bytes = bytecode_of(module, "1.0.0");
    HloModule *again = read_bytecode(&bytes);
    check_same_values(module, again);
    hlo_text_free(&bytes);
    hlo_module_free(again);
    hlo_module_free(module);
}

Test(stablehlo_operations, releases_without_composites_get_calls) {
    check_calls(chlo_program);
    check_calls(ragged_program);
}

// How many instructions of the module, in all computations, have this opcode and at least this many elements.
static int count_large(const HloModule *module, HloOpcode opcode, int64_t elements) {
    int count = 0;
    for (int64_t c = 0; c < module->computations.count; c++) {
        const HloComputation *computation = module->computations.items[c];
        for (const HloInstruction *instruction = computation->first; instruction; instruction = instruction->next) {
            count += instruction->opcode == opcode && hlo_shape_is_array(instruction->shape) &&
                     hlo_shape_elements(instruction->shape) >= elements;
        }
    }
    return count;
}

// JAX's decompositions of special functions hold dozens of them: as arrays of their own they took jax.random.normal of
// a million numbers 1.4 s to compile.
Test(stablehlo_operations, bug_large_splats_were_arrays_of_their_own) {
    HloModule *module = read_program(MAIN("tensor<64x64xf32>",
                                          "  %x = stablehlo.iota dim = 1 : tensor<64x64xf32>\n"
                                          "  %c = stablehlo.constant dense<1.5> : tensor<64x64xf32>\n"
                                          "  %0 = stablehlo.add %x, %c : tensor<64x64xf32>",
                                          "%0"),
                                     "a large splat");
    cr_expect_eq(count_large(module, HLO_OP_CONSTANT, 2), 0);
    cr_expect_eq(count_large(module, HLO_OP_BROADCAST, 4096), 1);
    hlo_module_free(module);
}

// Each was written out as it was read, also in functions that are never called: erf of 4 M numbers took 0.4 s to
// compile through JAX, and these would take 60 TB.
Test(stablehlo_operations, bug_splats_of_large_arrays_took_their_memory) {
    HloText text = {0};
    hlo_text_string(&text, "func.func private @unused() -> tensor<16384x16384xf32> {\n");
    for (int i = 0; i < 60000; i++)
        hlo_text_format(&text, "  %%c%d = stablehlo.constant dense<%s> : tensor<16384x16384xf32>\n", i,
                        i % 2 ? "1.5" : "\"0x0000C03F\"");
    hlo_text_string(&text,
                    "  return %c0 : tensor<16384x16384xf32>\n}\n"
                    "func.func @main() -> tensor<16384x16384xf32> {\n"
                    "  %0 = func.call @unused() : () -> tensor<16384x16384xf32>\n"
                    "  return %0 : tensor<16384x16384xf32>\n}\n");
    cr_assert_null(hlo_text_status(&text));
    HloModule *module = read_program(text.data, "splats of a gigabyte each");
    cr_expect_eq(count_large(module, HLO_OP_CONSTANT, 2), 0);
    for (const HloInstruction *at = module->computations.items[0]->first; at; at = at->next) {
        if (!hlo_is(at, HLO_OP_CONSTANT)) continue;
        const HloConstantAttributes *constant = at->attributes;
        cr_expect_eq(hlo_literal_get_double(constant->literal, 0), 1.5);
    }
    hlo_module_free(module);
    hlo_text_free(&text);
}

Test(stablehlo_operations, small_and_sharded_splats_and_others_stay_constants) {
    static const char *const lines[] = {
        "  %c = stablehlo.constant dense<1.5> : tensor<32x31xf32>",
        "  %c = stablehlo.constant {mhlo.sharding = \"{devices=[2,1]<=[2]}\"} dense<1.5> : tensor<32x31xf32>",
    };
    char text[400];
    for (int i = 0; i < 2; i++) {
        const char *dims = i ? "64x64" : "32x31";
        snprintf(text, sizeof text, "func.func @main() -> tensor<%sxf32> {\n%s\n  return %%c : tensor<%sxf32>\n}\n",
                 dims, lines[i], dims);
        for (char *at = text; i && (at = strstr(at, "32x31"));) memcpy(at, "64x64", 5);
        HloModule *module = read_program(text, lines[i]);
        cr_expect_eq(count_large(module, HLO_OP_BROADCAST, 1), 0, "%s", lines[i]);
        cr_expect_eq(count_large(module, HLO_OP_CONSTANT, 900), 1, "%s", lines[i]);
        hlo_module_free(module);
    }
}

// A loop does not carry a splat from outside: it has its own, as it has of other constants.
Test(stablehlo_operations, loops_have_their_own_splats) {
    HloModule *module = read_program(
        "func.func @main(%x: tensor<2048xf32>) -> tensor<2048xf32> {\n"
        "  %c = stablehlo.constant dense<2.0> : tensor<2048xf32>\n"
        "  %n = stablehlo.constant dense<0> : tensor<i32>\n"
        "  %0:2 = stablehlo.while(%i = %n, %y = %x) : tensor<i32>, tensor<2048xf32>\n"
        "  cond {\n"
        "    %most = stablehlo.constant dense<3> : tensor<i32>\n"
        "    %p = stablehlo.compare LT, %i, %most : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "    stablehlo.return %p : tensor<i1>\n"
        "  } do {\n"
        "    %one = stablehlo.constant dense<1> : tensor<i32>\n"
        "    %j = stablehlo.add %i, %one : tensor<i32>\n"
        "    %z = stablehlo.multiply %y, %c : tensor<2048xf32>\n"
        "    stablehlo.return %j, %z : tensor<i32>, tensor<2048xf32>\n"
        "  }\n"
        "  return %0#1 : tensor<2048xf32>\n"
        "}\n",
        "a loop");
    for (const HloInstruction *at = module->entry->first; at; at = at->next)
        if (hlo_is(at, HLO_OP_WHILE)) cr_expect_eq(at->shape->element_count, 2, "the splat is carried");
    hlo_module_free(module);
}

// bug: the derivative of a cond passed ones, a broadcast of a constant, to its branches, where JAX's HLO has none.
Test(stablehlo_operations, branches_have_their_own_broadcasts_of_constants) {
    HloModule *module = read_program(
        "func.func @main(%i: tensor<i32>, %x: tensor<8xf32>) -> tensor<8xf32> {\n"
        "  %c = stablehlo.constant dense<1.0> : tensor<f32>\n"
        "  %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<8xf32>\n"
        "  %0 = \"stablehlo.case\"(%i) ({\n"
        "    %1 = stablehlo.multiply %b, %x : tensor<8xf32>\n"
        "    stablehlo.return %1 : tensor<8xf32>\n"
        "  }, {\n"
        "    %1 = stablehlo.add %b, %x : tensor<8xf32>\n"
        "    stablehlo.return %1 : tensor<8xf32>\n"
        "  }) : (tensor<i32>) -> tensor<8xf32>\n"
        "  return %0 : tensor<8xf32>\n"
        "}\n",
        "a conditional");
    for (const HloInstruction *at = module->entry->first; at; at = at->next)
        for (int32_t k = 1; hlo_is(at, HLO_OP_CONDITIONAL) && k < at->operand_count; k++)
            cr_expect(hlo_is(at->operands[k], HLO_OP_PARAMETER), "branch %d gets more than x", k);
    hlo_module_free(module);
}

// The output of jax.export for a function with symbolic shapes: sizes are open, conditions on them are checked by name.
static const char kOpen[] =
    "module @open {\n"
    "  func.func public @main(%arg0: tensor<?x3xf32>, %arg1: tensor<3xf32>) -> tensor<?xf32> {\n"
    "    %two = stablehlo.constant dense<2> : tensor<i32>\n"
    "    %n = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>\n"
    "    %c = stablehlo.compare GE, %n, %two, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
    "    stablehlo.custom_call @shape_assertion(%c, %n, %arg1) {api_version = 2 : i32, error_message = "
    "\"{n} is {0}, not {1} or {7}\", has_side_effect = true} : (tensor<i1>, tensor<i32>, tensor<3xf32>) -> ()\n"
    "    %0 = func.call @inner(%n, %arg0, %arg1) : (tensor<i32>, tensor<?x3xf32>, tensor<3xf32>) -> tensor<?xf32>\n"
    "    return %0 : tensor<?xf32>\n"
    "  }\n"
    "  func.func private @inner(%n: tensor<i32>, %x: tensor<?x3xf32>, %w: tensor<3xf32>) -> tensor<?xf32> {\n"
    "    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<?x3xf32>, tensor<3xf32>) -> "
    "tensor<?xf32>\n"
    "    %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n"
    "    %i = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>\n"
    "    %r = stablehlo.add %y, %i : tensor<?xf32>\n"
    "    return %r : tensor<?xf32>\n"
    "  }\n"
    "}\n";

static HloStatus read_open(const int64_t *dims, int64_t rank, int64_t arguments, HloModule **module) {
    const HloInts sizes[] = {{dims, rank}, {NULL, 0}, {NULL, 0}};
    return hlo_module_from_stablehlo_sized(kOpen, strlen(kOpen), "open.mlir", sizes, arguments, module);
}

Test(stablehlo_sizes, are_given_by_the_caller) {
    const int64_t dims[] = {5, 3};
    for (int64_t arguments = 1; arguments <= 2; arguments++) {
        HloModule *module = NULL;
        HloStatus status = read_open(dims, 2, arguments, &module);
        cr_assert_null(status, "%s", hlo_status_message(status));
        HloText shape = {0};
        hlo_shape_print(&shape, module->entry->root->shape, false);
        cr_expect_str_eq(shape.data, "f32[5]");
        hlo_text_free(&shape);
        hlo_module_free(module);
    }
}

Test(stablehlo_sizes, that_do_not_fit_are_refused) {
    static const struct {
        int64_t dims[3], rank, arguments;
        const char *part;
    } cases[] = {
        {{1, 3}, 2, 1, "the sizes break a condition: {n} is 1, not {1} or {7}"},
        {{5, 4}, 2, 1, "argument 0 cannot have the size 4 along dimension 1"},
        {{5}, 1, 1, "argument 0 does not have the 1 sizes that it is given"},
        {{-5, 3}, 2, 1, ""},
        {{HLO_UNBOUNDED, 3}, 2, 1, "cannot have the size"},
        {{INT64_C(1) << 61, 3}, 2, 1, ""},
        {{5, 3}, 2, 3, "sizes are given for argument 2, but the program has 2 arguments"},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        HloModule *module = NULL;
        HloStatus status = read_open(cases[i].dims, cases[i].rank, cases[i].arguments, &module);
        cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "case %zu", i);
        cr_expect(strstr(hlo_status_message(status), cases[i].part), "%s", hlo_status_message(status));
        hlo_status_free(status);
    }
}

// Sizes that a function without open types computes (JAX's divmod), paddings that are joined as rows of a matrix, a
// scalar predicate on arrays of open sizes, and custom calls that take the sizes of their results as operands.
static const char kComputed[] =
    "module @computed {\n"
    "  func.func public @main(%arg0: tensor<?x4xi32>) -> (tensor<?x?xi32>, tensor<?x2xi32>, tensor<?x4xi32>) {\n"
    "    %n = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x4xi32>) -> tensor<i32>\n"
    "    %two = stablehlo.constant dense<2> : tensor<i32>\n"
    "    %zero = stablehlo.constant dense<0> : tensor<i32>\n"
    "    %t = stablehlo.constant dense<true> : tensor<i1>\n"
    "    %d:2 = call @divmod(%n, %two) : (tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)\n"
    "    %even = stablehlo.compare EQ, %d#1, %zero, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
    "    stablehlo.custom_call @shape_assertion(%even, %d#1) {api_version = 2 : i32, error_message = "
    "\"the remainder is {0}\", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()\n"
    "    %half = stablehlo.reshape %d#0 : (tensor<i32>) -> tensor<1x1xi32>\n"
    "    %none = stablehlo.reshape %zero : (tensor<i32>) -> tensor<1x1xi32>\n"
    "    %row0 = stablehlo.concatenate %half, %none, dim = 1 : (tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<1x2xi32>\n"
    "    %row1 = stablehlo.concatenate %none, %half, dim = 1 : (tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<1x2xi32>\n"
    "    %rows = stablehlo.concatenate %row0, %row1, dim = 0 : (tensor<1x2xi32>, tensor<1x2xi32>) -> tensor<2x2xi32>\n"
    "    %columns = stablehlo.transpose %rows, dims = [1, 0] : (tensor<2x2xi32>) -> tensor<2x2xi32>\n"
    "    %l = stablehlo.slice %columns [0:1, 0:2] : (tensor<2x2xi32>) -> tensor<1x2xi32>\n"
    "    %h = stablehlo.slice %columns [1:2, 0:2] : (tensor<2x2xi32>) -> tensor<1x2xi32>\n"
    "    %low = stablehlo.reshape %l : (tensor<1x2xi32>) -> tensor<2xi32>\n"
    "    %high = stablehlo.reshape %h : (tensor<1x2xi32>) -> tensor<2xi32>\n"
    "    %no = stablehlo.constant dense<0> : tensor<2xi32>\n"
    "    %y = stablehlo.dynamic_pad %arg0, %zero, %low, %high, %no : (tensor<?x4xi32>, tensor<i32>, tensor<2xi32>, "
    "tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xi32>\n"
    "    %i = stablehlo.iota dim = 1 : tensor<2x1xi32>\n"
    "    %i1 = stablehlo.reshape %i : (tensor<2x1xi32>) -> tensor<2xi32>\n"
    "    %n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n"
    "    %two1 = stablehlo.reshape %two : (tensor<i32>) -> tensor<1xi32>\n"
    "    %n2 = stablehlo.concatenate %n1, %two1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n"
    "    %s = stablehlo.add %n2, %i1 : tensor<2xi32>\n"
    "    %top = stablehlo.custom_call @ApproxTopK(%arg0, %zero, %s) {called_computations = [@greater], "
    "indices_of_shape_operands = dense<2> : tensor<1xi64>, mhlo.backend_config = {aggregate_to_topk = true, "
    "reduction_dim = 1 : i64, top_k = 2 : i64}} : (tensor<?x4xi32>, tensor<i32>, tensor<2xi32>) -> tensor<?x2xi32>\n"
    "    %same = stablehlo.select %t, %arg0, %arg0 : tensor<i1>, tensor<?x4xi32>\n"
    "    return %y, %top, %same : tensor<?x?xi32>, tensor<?x2xi32>, tensor<?x4xi32>\n"
    "  }\n"
    "  func.func private @greater(%a: tensor<i32>, %b: tensor<i32>) -> tensor<i1> {\n"
    "    %0 = stablehlo.compare GT, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
    "    return %0 : tensor<i1>\n"
    "  }\n"
    "  func.func private @divmod(%a: tensor<i32>, %b: tensor<i32>) -> (tensor<i32>, tensor<i32>) {\n"
    "    %0 = call @divide(%a, %b) : (tensor<i32>, tensor<i32>) -> tensor<i32>\n"
    "    %1 = stablehlo.remainder %a, %b : tensor<i32>\n"
    "    return %0, %1 : tensor<i32>, tensor<i32>\n"
    "  }\n"
    "  func.func private @divide(%a: tensor<i32>, %b: tensor<i32>) -> tensor<i32> {\n"
    "    %0 = stablehlo.divide %a, %b : tensor<i32>\n"
    "    return %0 : tensor<i32>\n"
    "  }\n"
    "}\n";

static HloStatus read_computed(const char *text, int64_t rows, HloModule **module) {
    const int64_t dims[] = {rows, 4};
    const HloInts sizes[] = {{dims, rows ? 2 : 0}};
    return hlo_module_from_stablehlo_sized(text, strlen(text), "computed.mlir", sizes, rows ? 1 : 0, module);
}

Test(stablehlo_sizes, are_computed_by_functions_and_matrices) {
    HloModule *module = NULL;
    HloStatus status = read_computed(kComputed, 6, &module);
    cr_assert_null(status, "%s", hlo_status_message(status));
    HloText shape = {0};
    hlo_shape_print(&shape, module->entry->root->shape, false);
    cr_expect_str_eq(shape.data, "(s32[9,7], s32[6,2], s32[6,4])");
    hlo_text_free(&shape);
    hlo_module_free(module);
}

Test(stablehlo_sizes, that_are_computed_are_checked) {
    static const struct {
        const char *old_text, *new_text;
        int64_t rows;
        HloCode code;
        const char *part;
    } cases[] = {
        {"", "", 5, HLO_INVALID_ARGUMENT, "the sizes break a condition: the remainder is 1"},
        {"", "", 0, HLO_UNIMPLEMENTED,
         "the condition on sizes is not constant: the sizes of argument 0, s32[?,4], are "
         "open"},
        {"operands = dense<2>", "operands = dense<3>", 6, HLO_INVALID_ARGUMENT, "names operand 3 of 3"},
        {"operands = dense<2>", "operands = dense<-1>", 6, HLO_INVALID_ARGUMENT, "names operand -1 of 3"},
        {"operands = dense<2>", "operands = dense<1>", 6, HLO_INVALID_ARGUMENT, "1 sizes for rank 2"},
        {"dense<2> : tensor<1xi64>, mhlo", "dense<2> : tensor<2xi64>, mhlo", 6, HLO_INVALID_ARGUMENT,
         "indices_of_shape_operands has 2 numbers for 1 results"},
        {"%two1 = stablehlo.reshape %two ", "%two1 = stablehlo.reshape %zero", 6, HLO_INVALID_ARGUMENT,
         "dimension 1 cannot have size 0"},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        char text[sizeof(kComputed) + 16];
        const char *at = strstr(kComputed, cases[i].old_text);
        cr_assert(at, "case %zu", i);
        snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - kComputed), kComputed, cases[i].new_text,
                 at + strlen(cases[i].old_text));
        HloModule *module = NULL;
        HloStatus status = read_computed(text, cases[i].rows, &module);
        cr_expect_eq(hlo_status_code(status), cases[i].code, "case %zu", i);
        cr_expect(strstr(hlo_status_message(status), cases[i].part), "%s", hlo_status_message(status));
        hlo_status_free(status);
    }
}
