# SPDX-License-Identifier: Apache-2.0
"""HLO text that is not a program: cut, mutated, inconsistent, immense, nested, cyclic."""
import re

from cases import PARSE, PARSE_OR_NAMED, RICH, SCALAR_ADD, Case, mix, program

P = "p = f32[4,6] parameter(0)"
Q = "q = f32[4,6] parameter(1)"
I = "i = s32[] parameter(1)"


def sharded(sharding):
    return program(f"p = f32[8,8] parameter(0), sharding={sharding}")


# name -> text that must be refused as a parse or verify error, with a place.
WRONG = {
    # lexical
    "nul bytes": "HloModule m\nENTRY e {\n  ROOT p = f32[2] para\0meter(0)\n}\n",
    "only nul bytes": "\0" * 100,
    "a byte order mark and nothing": "\ufeff",
    "not UTF-8": b"HloModule m\nENTRY \xff\xfe {\n  ROOT p = f32[2] parameter(0)\n}\n",
    "a comment without end": "HloModule m /* never closed\nENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n",
    "a unterminated string": 'HloModule m\nENTRY e {\n  ROOT p = f32[2] parameter(0), metadata={op_name="x\n}\n',
    "a number of 10,000 digits": program("p = f32[" + "9" * 10000 + "] parameter(0)"),
    "a name of 1,000,000 letters used for an op": program(P, "r = f32[4,6] " + "x" * 1000000 + "(p)"),
    "a line of 10,000,000 blanks": "HloModule m\n" + " " * 10000000 + "}",
    "a lone percent": "HloModule m\nENTRY % {\n}\n",
    "a lone quote": '"',
    "unbalanced braces": "HloModule m\n}}}}\n",
    # structure
    "module without entry": "HloModule m\n",
    "module without a name and body": "HloModule",
    "empty entry": "HloModule m\nENTRY e {\n}\n",
    "two entries": "HloModule m\nENTRY a {\n  ROOT p = f32[] parameter(0)\n}\nENTRY b {\n  ROOT p = f32[] parameter(0)\n}\n",
    "two roots": program("ROOT p = f32[] parameter(0)", "r = f32[] negate(p)"),
    "two computations of one name": "HloModule m\n" + SCALAR_ADD + SCALAR_ADD + "ENTRY e {\n  ROOT p = f32[] parameter(0)\n}\n",
    "text after the module": program(P) + "garbage\n",
    "a computation that does not exist": program(P, "z = f32[] constant(0)",
                                                "r = f32[4] reduce(p, z), dimensions={1}, to_apply=nothing"),
    "a computation that calls itself": "HloModule m\nf {\n  p = f32[] parameter(0)\n  ROOT r = f32[] call(p), to_apply=f\n}\n"
                                       "ENTRY e {\n  p = f32[] parameter(0)\n  ROOT r = f32[] call(p), to_apply=f\n}\n",
    "two computations that call each other":
        "HloModule m\nf {\n  p = f32[] parameter(0)\n  ROOT r = f32[] call(p), to_apply=g\n}\n"
        "g {\n  p = f32[] parameter(0)\n  ROOT r = f32[] call(p), to_apply=f\n}\n"
        "ENTRY e {\n  p = f32[] parameter(0)\n  ROOT r = f32[] call(p), to_apply=f\n}\n",
    "an op that uses itself": program(P, "r = f32[4,6] add(p, r)"),
    "two ops that use each other": program(P, "a = f32[4,6] add(p, b)", "b = f32[4,6] add(p, a)"),
    "a control dependency on itself": program(P, "r = f32[4,6] negate(p), control-predecessors={r}"),
    "a control predecessor that does not exist": program(P, "r = f32[4,6] negate(p), control-predecessors={x}"),
    "a while loop inside its own body":
        "HloModule m\nc {\n  p = s32[] parameter(0)\n  ROOT t = pred[] constant(true)\n}\n"
        "b {\n  p = s32[] parameter(0)\n  ROOT w = s32[] while(p), condition=c, body=b\n}\n"
        "ENTRY e {\n  p = s32[] parameter(0)\n  ROOT w = s32[] while(p), condition=c, body=b\n}\n",
    "no parentheses": program("p = f32[4,6] parameter"),
    "no result shape": program("p = parameter(0)"),
    "no equals sign": program("p f32[4,6] parameter(0)"),
    "an operand that is a number": program(P, "r = f32[4,6] negate(3)"),
    "an operand of another computation": "HloModule m\n" + SCALAR_ADD + "ENTRY e {\n  ROOT r = f32[] negate(a)\n}\n",
    # parameters
    "parameter number below zero": program("p = f32[2] parameter(-1)"),
    "parameter number beyond 64 bits": program("p = f32[2] parameter(99999999999999999999)"),
    "parameter number of a billion": program("p = f32[2] parameter(1000000000)"),
    "one parameter number twice": program("p = f32[2] parameter(0)", "q = f32[2] parameter(0)", "r = f32[2] add(p, q)"),
    "parameter with an operand": program(P, "r = f32[4,6] parameter(p)"),
    # shapes
    "negative dimension": program("p = f32[-3] parameter(0)"),
    "dimensions whose product overflows": program("p = f32[3037000500,3037000500] parameter(0)"),
    "bytes that overflow": program("p = f64[4611686018427387904] parameter(0)"),
    "unclosed dimensions": program("p = f32[2,3 parameter(0)"),
    "dimension of letters": program("p = f32[two] parameter(0)"),
    "layout of another rank": program("p = f32[2,3]{0} parameter(0)"),
    "layout with a dimension twice": program("p = f32[2,3]{1,1} parameter(0)"),
    "layout beyond the rank": program("p = f32[2,3]{5,0} parameter(0)"),
    "layout with a broken tile": program("p = f32[2,3]{1,0:T(8,} parameter(0)"),
    "layout with a tile of zero": program("p = f32[2,3]{1,0:T(0,128)} parameter(0)"),
    "a tuple without end": program("p = (f32[2], s32[] parameter(0)"),
    "tuples 100,000 deep": program("p = " + "(" * 100000 + "f32[]" + ")" * 100000 + " parameter(0)"),
    "a type of no name": program("p = [2] parameter(0)"),
    "type f7": program("p = f7[2] parameter(0)"),
    "a bound that is larger than itself": program("p = f32[<=] parameter(0)"),
    "operand shape that disagrees": program(P, "r = f32[4,6] negate(f32[4,7] p)"),
    # constants
    "constant of too few numbers": program("c = f32[3] constant({1, 2})"),
    "constant of too many rows": program("c = f32[1,2] constant({{1, 2}, {3, 4}})"),
    "constant of wrong depth": program("c = f32[2,2] constant({1, 2, 3, 4})"),
    "constant of a word": program("c = f32[] constant(one)"),
    "constant of nothing": program("c = f32[] constant()"),
    "constant out of range": program("c = s8[] constant(300)"),
    "constant below an unsigned type": program("c = u8[] constant(-1)"),
    "constant of a fraction for an integer": program("c = s32[] constant(1.5)"),
    "constant without closing brace": program("c = f32[2] constant({1, 2)"),
    "constant of a terabyte": program("c = f32[1000000,1000000] constant({{1}})"),
    "constant nested 100,000 deep": program("c = f32[2] constant(" + "{" * 100000 + "1" + "}" * 100000 + ")"),
    "complex constant with three parts": program("c = c64[] constant((1, 2, 3))"),
    "predicate constant of a word": program("c = pred[] constant(maybe)"),
    # operands and shapes of ops
    "unary of two": program(P, Q, "r = f32[4,6] negate(p, q)"),
    "binary of one": program(P, "r = f32[4,6] add(p)"),
    "binary of none": program(P, "r = f32[4,6] add()"),
    "binary of two types": program(P, "q = s32[4,6] parameter(1)", "r = f32[4,6] add(p, q)"),
    "binary of two ranks": program(P, "q = f32[6] parameter(1)", "r = f32[4,6] add(p, q)"),
    "result of another type": program(P, "r = s32[4,6] negate(p)"),
    "compare without a direction": program(P, Q, "r = pred[4,6] compare(p, q)"),
    "compare with an unknown direction": program(P, Q, "r = pred[4,6] compare(p, q), direction=UP"),
    "compare that gives numbers": program(P, Q, "r = f32[4,6] compare(p, q), direction=LT"),
    "select by numbers": program(P, Q, "r = f32[4,6] select(p, p, q)"),
    "clamp of mixed shapes": program(P, "q = f32[3] parameter(1)", "r = f32[4,6] clamp(q, p, q)"),
    "and of floats": program(P, Q, "r = f32[4,6] and(p, q)"),
    "sine of integers": program("p = s32[4] parameter(0)", "r = s32[4] sine(p)"),
    "real part of another type": program("p = c64[4] parameter(0)", "r = s32[4] real(p)"),
    "not of floats": program(P, "r = f32[4,6] not(p)"),
    "iota of a dimension that does not exist": program("r = f32[4] iota(), iota_dimension=1"),
    "iota without a dimension": program("r = f32[4] iota()"),
    "iota with a dimension below zero": program("r = f32[4] iota(), iota_dimension=-1"),
    "broadcast to too few dimensions": program(P, "r = f32[4,6,2] broadcast(p), dimensions={0}"),
    "broadcast of another size": program(P, "r = f32[4,7,2] broadcast(p), dimensions={0,1}"),
    "broadcast beyond the rank": program(P, "r = f32[4,6,2] broadcast(p), dimensions={0,9}"),
    "broadcast with dimensions twice": program("p = f32[4,4] parameter(0)", "r = f32[4,4,2] broadcast(p), dimensions={0,0}"),
    "reshape to another count": program(P, "r = f32[5,5] reshape(p)"),
    "reshape to another type": program(P, "r = s32[24] reshape(p)"),
    "transpose of too few": program(P, "r = f32[6,4] transpose(p), dimensions={1}"),
    "transpose twice the same": program(P, "r = f32[4,4] transpose(p), dimensions={0,0}"),
    "transpose with no dimensions": program(P, "r = f32[6,4] transpose(p)"),
    "transpose beyond the rank": program(P, "r = f32[6,4] transpose(p), dimensions={1,2}"),
    "slice beyond the end": program(P, "r = f32[4,6] slice(p), slice={[0:4],[1:7]}"),
    "slice backwards": program(P, "r = f32[4,6] slice(p), slice={[3:1],[0:6]}"),
    "slice with stride 0": program(P, "r = f32[4,6] slice(p), slice={[0:4:0],[0:6]}"),
    "slice of too few dimensions": program(P, "r = f32[4,6] slice(p), slice={[0:4]}"),
    "slice with a broken range": program(P, "r = f32[4,6] slice(p), slice={[0:],[0:6]}"),
    "pad of another rank": program(P, "z = f32[] constant(0)", "r = f32[6,6] pad(p, z), padding=1_1"),
    "pad with negative interior": program(P, "z = f32[] constant(0)", "r = f32[6,6] pad(p, z), padding=1_1_-1x0_0"),
    "pad to a negative size": program(P, "z = f32[] constant(0)", "r = f32[6,6] pad(p, z), padding=-9_0x0_0"),
    "pad that overflows": program(P, "z = f32[] constant(0)", "r = f32[6,6] pad(p, z), padding=9223372036854775807_9x0_0"),
    "pad by an array": program(P, Q, "r = f32[6,6] pad(p, q), padding=1_1x0_0"),
    "concatenate of other sizes": program(P, "q = f32[5,6] parameter(1)", "r = f32[4,12] concatenate(p, q), dimensions={1}"),
    "concatenate of nothing": program("r = f32[4] concatenate(), dimensions={0}"),
    "concatenate beyond the rank": program(P, "r = f32[4,6] concatenate(p), dimensions={2}"),
    "reverse of a dimension twice": program(P, "r = f32[4,6] reverse(p), dimensions={1,1}"),
    "reduce without a computation": program(P, "z = f32[] constant(0)", "r = f32[4] reduce(p, z), dimensions={1}"),
    "reduce of odd operands": program(P, "r = f32[4] reduce(p), dimensions={1}, to_apply=add", before=SCALAR_ADD),
    "reduce beyond the rank": program(P, "z = f32[] constant(0)", "r = f32[4] reduce(p, z), dimensions={7}, to_apply=add",
                                       before=SCALAR_ADD),
    "reduce by a computation of other types": program("p = s32[4] parameter(0)", "z = s32[] constant(0)",
                                                       "r = s32[] reduce(p, z), dimensions={0}, to_apply=add", before=SCALAR_ADD),
    "map of too many": program(P, "r = f32[4,6] map(p), dimensions={0,1}, to_apply=add", before=SCALAR_ADD),
    "dot of sizes that differ": program(P, "q = f32[5,3] parameter(1)",
                                         "r = f32[4,3] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    "dot with lists of other lengths": program(P, Q, "r = f32[4,4] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={}"),
    "dot with a dimension twice": program(P, Q, "r = f32[] dot(p, q), lhs_contracting_dims={1,1}, rhs_contracting_dims={0,1}"),
    "dot beyond the rank": program(P, Q, "r = f32[4,4] dot(p, q), lhs_contracting_dims={2}, rhs_contracting_dims={2}"),
    "dot with an unknown precision": program(P, Q, "r = f32[4,4] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={1},"
                                                    " operand_precision={best,best}"),
    "convolution without labels": program("p = f32[1,8,8,3] parameter(0)", "k = f32[3,3,3,4] parameter(1)",
                                           "r = f32[1,6,6,4] convolution(p, k), window={size=3x3}"),
    "convolution with wrong labels": program("p = f32[1,8,8,3] parameter(0)", "k = f32[3,3,3,4] parameter(1)",
                                              "r = f32[1,6,6,4] convolution(p, k), window={size=3x3}, dim_labels=b01q_01io->b01f"),
    "convolution with stride 0": program("p = f32[1,8,8,3] parameter(0)", "k = f32[3,3,3,4] parameter(1)",
                                          "r = f32[1,6,6,4] convolution(p, k), window={size=3x3 stride=0x1},"
                                          " dim_labels=b01f_01io->b01f"),
    "convolution with groups that do not divide":
        program("p = f32[1,8,8,3] parameter(0)", "k = f32[3,3,3,4] parameter(1)",
                "r = f32[1,6,6,4] convolution(p, k), window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=2"),
    "reduce-window with a window of zero": program(P, "z = f32[] constant(0)",
                                                    "r = f32[4,6] reduce-window(p, z), window={size=0x1}, to_apply=add",
                                                    before=SCALAR_ADD),
    "reduce-window of another rank": program(P, "z = f32[] constant(0)",
                                              "r = f32[4,6] reduce-window(p, z), window={size=2}, to_apply=add", before=SCALAR_ADD),
    "window with an unknown word": program(P, "z = f32[] constant(0)",
                                            "r = f32[4,6] reduce-window(p, z), window={sise=1x1}, to_apply=add", before=SCALAR_ADD),
    "gather without its numbers": program(P, I, "r = f32[6] gather(p, i)"),
    "gather of slices larger than the array":
        program(P, "i = s32[2,1] parameter(1)", "r = f32[2,9] gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, "
                "start_index_map={0}, index_vector_dim=1, slice_sizes={1,9}"),
    "gather by floats":
        program(P, "i = f32[2,1] parameter(1)", "r = f32[2,6] gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, "
                "start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}"),
    "scatter of another update shape":
        program(P, "i = s32[2,1] parameter(1)", "u = f32[3,6] parameter(2)",
                "r = f32[4,6] scatter(p, i, u), update_window_dims={1}, inserted_window_dims={0}, "
                "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add", before=SCALAR_ADD),
    "dynamic-slice larger than the array": program("p = f32[4] parameter(0)", I, "r = f32[9] dynamic-slice(p, i), dynamic_slice_sizes={9}"),
    "dynamic-slice of too few indices": program(P, I, "r = f32[1,1] dynamic-slice(p, i), dynamic_slice_sizes={1,1}"),
    "dynamic-slice by a float": program("p = f32[4] parameter(0)", "i = f32[] parameter(1)",
                                         "r = f32[2] dynamic-slice(p, i), dynamic_slice_sizes={2}"),
    "dynamic-update-slice larger than the array": program("p = f32[4] parameter(0)", I, "u = f32[9] parameter(2)",
                                                           "r = f32[4] dynamic-update-slice(p, u, i)"),
    "sort of two shapes": program(P, "q = f32[4,7] parameter(1)",
                                   "r = (f32[4,6], f32[4,7]) sort(p, q), dimensions={1}, to_apply=add", before=SCALAR_ADD),
    "sort by a comparator that gives numbers": program(P, "r = f32[4,6] sort(p), dimensions={1}, to_apply=add", before=SCALAR_ADD),
    "sort beyond the rank": program(P, "r = f32[4,6] sort(p), dimensions={2}, to_apply=add", before=SCALAR_ADD),
    "topk of more than there are": program(P, "r = (f32[4,9], s32[4,9]) topk(p), k=9, largest=true"),
    "tuple index beyond the end": program(P, "t = (f32[4,6]) tuple(p)", "r = f32[4,6] get-tuple-element(t), index=1"),
    "tuple index below zero": program(P, "t = (f32[4,6]) tuple(p)", "r = f32[4,6] get-tuple-element(t), index=-1"),
    "element of an array": program(P, "r = f32[4,6] get-tuple-element(p), index=0"),
    "while with a condition of numbers": program("p = f32[] parameter(0)", "r = f32[] while(p), condition=add, body=add",
                                                  before=SCALAR_ADD),
    "conditional without branches": program("p = pred[] parameter(0)", "q = f32[] parameter(1)", "r = f32[] conditional(p, q, q)"),
    "conditional with too few operands":
        program("p = s32[] parameter(0)", "q = f32[] parameter(1)",
                "r = f32[] conditional(p, q), branch_computations={n, n}",
                before="n {\n  x = f32[] parameter(0)\n  ROOT y = f32[] negate(x)\n}\n"),
    "fft of odd lengths": program("p = c64[4,8] parameter(0)", "r = c64[4,8] fft(p), fft_type=FFT, fft_length={7}"),
    "fft of no kind": program("p = c64[4,8] parameter(0)", "r = c64[4,8] fft(p), fft_type=QFT, fft_length={8}"),
    "cholesky of a rectangle": program(P, "r = f32[4,6] cholesky(p), lower=true"),
    "triangular-solve of a rectangle": program(P, Q, "r = f32[4,6] triangular-solve(p, q), left_side=true, lower=true,"
                                                      " unit_diagonal=false, transpose_a=NO_TRANSPOSE"),
    "Eigh of a rectangle": program(P, "r = (f32[4,6], f32[6]) custom-call(p), custom_call_target=\"Eigh\""),
    "Qr with too many reflections": program(P, "r = (f32[4,6], f32[6]) custom-call(p), custom_call_target=\"Qr\""),
    "TopK of more than there are": program(P, "r = (f32[4,9], s32[4,9]) custom-call(p), custom_call_target=\"TopK\""),
    "ApproxTopK without a comparator":
        program(P, "z = f32[] constant(0)", "r = (f32[4,2]) custom-call(p, z), custom_call_target=\"ApproxTopK\""),
    "Hessenberg form of rows beyond the end":
        program("p = f32[4,4] parameter(0)", "r = (f32[4,4], f32[3], s32[]) custom-call(p),"
                " custom_call_target=\"lapack_sgehrd_ffi\", backend_config={low = 1 : i32, high = 5 : i32}"),
    "rng-bit-generator of a float state": program("p = f32[2] parameter(0)", "r = (f32[2], u32[4]) rng-bit-generator(p),"
                                                   " algorithm=rng_three_fry"),
    "rng-bit-generator of no algorithm": program("p = u64[2] parameter(0)", "r = (u64[2], u32[4]) rng-bit-generator(p),"
                                                  " algorithm=rng_dice"),
    "convert to a tuple": program(P, "r = (f32[4,6]) convert(p)"),
    "bitcast-convert of another size": program(P, "r = f64[4,6] bitcast-convert(p)"),
    "reduce-precision below one bit": program(P, "r = f32[4,6] reduce-precision(p), exponent_bits=0, mantissa_bits=-1"),
    "batch-norm beyond the rank": program(P, "v = f32[6] parameter(1)", "r = (f32[4,6], f32[6], f32[6]) "
                                           "batch-norm-training(p, v, v), epsilon=0.001, feature_index=2"),
    "set-dimension-size of a float": program(P, "z = f32[] constant(0)", "r = f32[4,<=6] set-dimension-size(p, z), dimensions={1}"),
    # collectives
    "all-reduce with a group twice": program(P, "r = f32[4,6] all-reduce(p), replica_groups={{0,0}}, to_apply=add", before=SCALAR_ADD),
    "all-reduce with a device below zero": program(P, "r = f32[4,6] all-reduce(p), replica_groups={{-1,0}}, to_apply=add",
                                                    before=SCALAR_ADD),
    "all-reduce with a broken iota list": program(P, "r = f32[4,6] all-reduce(p), replica_groups=[2,2]<=[5], to_apply=add",
                                                   before=SCALAR_ADD),
    "all-reduce with an immense iota list":
        program(P, "r = f32[4,6] all-reduce(p), replica_groups=[1000000000000,1]<=[1000000000000], to_apply=add",
                before=SCALAR_ADD),
    "all-gather of another size": program(P, "r = f32[9,6] all-gather(p), replica_groups={{0,1}}, dimensions={0}"),
    "reduce-scatter that does not divide": program(P, "r = f32[4,6] reduce-scatter(p), replica_groups={{0,1,2}}, dimensions={0},"
                                                       " to_apply=add", before=SCALAR_ADD),
    "collective-permute with a target twice": program(P, "r = f32[4,6] collective-permute(p), source_target_pairs={{0,1},{2,1}}"),
    "collective-permute with a broken pair": program(P, "r = f32[4,6] collective-permute(p), source_target_pairs={{0}}"),
    "all-to-all that does not divide": program(P, "r = f32[4,6] all-to-all(p), replica_groups={{0,1,2,3,4}}, dimensions={0}"),
    # shardings
    "sharding of another rank": sharded("{devices=[2,2,2]<=[8]}"),
    "sharding with too few devices": sharded("{devices=[2,2]0,1,2}"),
    "sharding with a device twice": sharded("{devices=[2,2]0,1,2,2}"),
    "sharding of zero parts": sharded("{devices=[0,2]<=[0]}"),
    "sharding with a broken iota": sharded("{devices=[2,2]<=[3]}"),
    "sharding with a broken transpose": sharded("{devices=[2,2]<=[2,2]T(0,0)}"),
    "sharding of an unknown word": sharded("{scattered}"),
    "sharding without end": program("p = f32[8,8] parameter(0), sharding={devices=[2,2]<=[4]"),
    "sharding of a billion devices": sharded("{devices=[1000000000,1000000000]<=[1000000000000000000]}"),
    "sharding nested 10,000 deep": sharded("{" * 10000 + "replicated" + "}" * 10000),
    "mesh sharding of an unknown axis": sharded('{mesh[\'a\'=2], [{"b"}, {}]}'),
    # module attributes
    "alias of an output that does not exist": "HloModule m, input_output_alias={ {5}: (0, {}, may-alias) }\n"
                                             "ENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n",
    "alias of a parameter that does not exist": "HloModule m, input_output_alias={ {}: (5, {}, may-alias) }\n"
                                               "ENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n",
    "module layout of another shape": "HloModule m, entry_computation_layout={(f32[3])->f32[3]}\n"
                                       "ENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n",
    "unknown module attribute": "HloModule m, colour=red\nENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n",
    "module attribute twice": "HloModule m, num_partitions=2, num_partitions=4\nENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n",
    "partitions below zero": "HloModule m, num_partitions=-2\nENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n",
    "schedule with a user before its operand":
        "HloModule m, is_scheduled=true\nENTRY e {\n  n = f32[2] negate(p)\n  p = f32[2] parameter(0)\n  ROOT r = f32[2] negate(n)\n}\n",
    "stack frame that does not exist": program(P, 'r = f32[4,6] negate(p), metadata={stack_frame_id=x}'),
    "metadata with an unknown word": program(P, 'r = f32[4,6] negate(p), metadata={colour="red"}'),
    "an attribute twice": program(P, "r = f32[6,4] transpose(p), dimensions={1,0}, dimensions={1,0}"),
    "frontend attributes without end": program(P, 'r = f32[4,6] negate(p), frontend_attributes={a="b"'),
}


def cuts():
    """The rich program without its end: at every 60th byte before the last line."""
    for at in range(30, len(RICH) - 2, 60):
        yield Case(f"cut at {at}", ["convert", "f.hlo"], {"f.hlo": RICH[:at]}, PARSE)


TOKENS = [match.span() for match in re.finditer(r'[%\w.-]+|"[^"]*"|[^\s\w]', RICH)]
ODD = ["", "}", "{", "(", ")", "[", "]", ",", "=", "-1", "99999999999999999999", "f32[0]", "%x", "ROOT", "{}", '"', "\0",
       "4611686018427387904", "parameter", "while", "nan", "->"]


def mutations(count):
    """One token of the rich program replaced, taken away or written twice. Some of these are programs still."""
    for i in range(count):
        begin, end = TOKENS[mix(1, i) % len(TOKENS)]
        odd = ODD[mix(2, i) % len(ODD)]
        text = RICH[:begin] + [odd, odd + RICH[begin:end], RICH[begin:end] * 2][mix(3, i) % 3] + RICH[end:]
        verb = [["convert", "f.hlo"], ["run", "f.hlo", "--on", "cpu:4"], ["emulate", "f.hlo", "--topology", "v5e-4"],
                ["opt", "f.hlo"]][mix(4, i) % 4]
        yield Case(f"mutation {i}", verb, {"f.hlo": text}, survive=True)


def all_cases(_):
    for name, text in WRONG.items():
        yield Case(name, ["convert", "f.hlo"], {"f.hlo": text}, PARSE_OR_NAMED, says="f.hlo:")
    # The program that is cut and bent is a good one.
    yield Case("the good program", ["run", "f.hlo", "--on", "cpu:4"], {"f.hlo": RICH}, frozenset({0}), survive=True)
    yield from cuts()
    yield from mutations(150)
