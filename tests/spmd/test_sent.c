// SPDX-License-Identifier: Apache-2.0
// Programs whose best plan is known: elements of neighbours are sent once, and only those that are needed.
#include <criterion/criterion.h>

#include "tests/spmd/check.h"
#include "tests/support/cases.h"

#define SPLIT(Shape, Body)                                                                                        \
    "HloModule m, num_partitions=4\nENTRY e {\n p = " Shape " parameter(0), sharding={devices=[4,1]<=[4]}\n" Body \
    "}"                                                                                                           \
    "\n"
#define CONVOLUTION(Devices, Input, Kernel, Window, Result)                                                  \
    "HloModule m, num_partitions=4\nENTRY e {\n p = " Input ",1,2] parameter(0), sharding={devices=" Devices \
    ",1,1]<=[4]}\n k = " Kernel ",2,3] parameter(1), sharding={replicated}\n ROOT t = " Result               \
    ",1,3] convolution(p, k), window={" Window "}, dim_labels=01bf_01io->01bf, sharding={devices=" Devices   \
    ",1,1]<=[4]}\n}\n"

// An array rotated by one each way, added up, as N "s". Less is Rows - 1.
#define NEIGHBOURS(X, N, Rows, Less)                                                                                \
    " " N "f = f32[1,3] slice(" X "), slice={[0:1],[0:3]}\n " N "r = f32[" Less ",3] slice(" X "), slice={[1:" Rows \
    "],[0:3]}\n " N "u = f32[" Rows ",3] concatenate(" N "r, " N                                                    \
    "f), dimensions={0}\n"                                                                                          \
    " " N "l = f32[1,3] slice(" X "), slice={[" Less ":" Rows "],[0:3]}\n " N "b = f32[" Less ",3] slice(" X        \
    "), slice={[0:" Less "],[0:3]}\n " N "d = f32[" Rows ",3] concatenate(" N "l, " N                               \
    "b), dimensions={0}\n"                                                                                          \
    " " N "s = f32[" Rows ",3] add(" N "u, " N "d)\n"

// An array without operands, made by `Devices` and needed as `Needed`.
#define MADE(Made, Shape, Devices, Needed)                                                          \
    "HloModule m, num_partitions=4\nENTRY e {\n c = " Shape " " Made ", sharding={devices=" Devices \
    "}\n ROOT t = " Shape " copy(c), sharding={" Needed "}\n}\n"

// An array of Devices, needed as it is in Needed.
#define MOVED(Shape, Devices, Needed)                                                                   \
    "HloModule m, num_partitions=8\nENTRY e {\n p = " Shape " parameter(0), sharding={devices=" Devices \
    "}\n ROOT t = " Shape " negate(p), sharding={" Needed "}\n}\n"

// Elements of an array, sharded as it is.
#define TAKEN(Devices, Shape, Result, Slice)                                                            \
    "HloModule m, num_partitions=8\nENTRY e {\n p = " Shape " parameter(0), sharding={devices=" Devices \
    "}\n"                                                                                               \
    " ROOT t = " Result " slice(p), slice={" Slice "}, sharding={devices=" Devices "}\n}\n"

// An array reversed, from the order of the devices into one that a list gives.
#define REVERSED(Count, Shape, Dims, From, Into)                                                             \
    "HloModule m, num_partitions=" Count "\nENTRY e {\n p = " Shape " parameter(0), sharding={devices=" From \
    "}\n"                                                                                                    \
    " ROOT t = " Shape " reverse(p), dimensions={" Dims "}, sharding={devices=" Into "}\n}\n"

// An array of 62 rows with one of its own rows at each end, over eight devices.
#define EDGES(First, Last)                                                                                   \
    "HloModule m, num_partitions=8\nENTRY e {\n p = f32[62,3] parameter(0), sharding={devices=[8,1]<=[8]}\n" \
    " a = f32[1,3] slice(p), slice={" First ",[0:3]}\n b = f32[1,3] slice(p), slice={" Last                  \
    ",[0:3]}\n ROOT c = f32[64,3] concatenate(a, p, b), dimensions={0}, sharding={devices=[8,1]<=[8]}\n}\n"

// Rows that every device has, before sharded ones.
#define PREFIX(Rows, More, All)                                           \
    "HloModule m, num_partitions=8\nENTRY e {\n p = f32[" Rows            \
    ",3] parameter(0), sharding={replicated}\n q = f32[" More             \
    ",3] parameter(1), sharding={devices=[8,1]<=[8]}\n ROOT c = f32[" All \
    ",3] concatenate(p, q), dimensions={0}, sharding={devices=[8,1]<=[8]}\n}\n"

// A triangular solve as JAX writes it, from a side.
#define SOLVE(Side, Shape, Devices)                                                                               \
    "HloModule m, num_partitions=8\nENTRY e {\n a = f32[6,6] parameter(0), sharding={replicated}\n b = f32" Shape \
    " parameter(1), sharding={devices=" Devices "}\n s = f32" Shape                                               \
    " custom-call(a, b), custom_call_target=\"lapack_strsm_ffi\", frontend_attributes={num_batch_dims=\"0\"}, "   \
    "backend_config={diag = 85 : ui8, side = " Side                                                               \
    " : ui8, trans_x = 78 : ui8, uplo = 76 : ui8}\n ROOT t = f32" Shape " copy(s), sharding={devices=" Devices    \
    "}\n}\n"

// The two largest numbers of each row.
#define BEST(Rows, Columns, Devices, Needed)                                                \
    "HloModule m, num_partitions=8\nENTRY e {\n p = f32[" Rows "," Columns                  \
    "] parameter(0), sharding={devices=" Devices "}\n ROOT t = (f32[" Rows ",2], s32[" Rows \
    ",2]) topk(p), k=2, largest=true, sharding={{" Needed "}, {" Needed "}}\n}\n"

// The gradient of a weight [D,H] from activations [B,S,D] and the gradient of what it made of them, [B,S,H], which are
// both sharded as Devices says.
#define WEIGHT_GRADIENT(N, B, S, D, H, Devices, Result)                       \
    "HloModule m, num_partitions=" N "\nENTRY e {\n p = f32[" B "," S "," D   \
    "] parameter(0), sharding={devices=" Devices "}\n q = f32[" B "," S "," H \
    "] parameter(1), sharding={devices=" Devices "}\n ROOT t = f32[" D "," H  \
    "] dot(p, q), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}, sharding={devices=" Result "}\n}\n"

// Three layers x + tanh(x u) v of 64 rows, whose state is sharded along its columns and whose weights along the summed
// dimensions.
#define RESIDUAL                                                                                                       \
    "HloModule m, num_partitions=4\nmore {\n t = (s32[], f32[64,16], f32[16,32], f32[32,16]) parameter(0)\n"           \
    " i = s32[] get-tuple-element(t), index=0\n n = s32[] constant(3)\n ROOT l = pred[] compare(i, n), direction=LT\n" \
    "}\nstep {\n t = (s32[], f32[64,16], f32[16,32], f32[32,16]) parameter(0)\n"                                       \
    " i = s32[] get-tuple-element(t), index=0\n x = f32[64,16] get-tuple-element(t), index=1\n"                        \
    " u = f32[16,32] get-tuple-element(t), index=2\n v = f32[32,16] get-tuple-element(t), index=3\n"                   \
    " o = s32[] constant(1)\n j = s32[] add(i, o)\n"                                                                   \
    " a = f32[64,32] dot(x, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[1,4]<=[4]}\n"   \
    " s = f32[64,32] tanh(a)\n d = f32[64,16] dot(s, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"         \
    " y = f32[64,16] add(x, d), sharding={devices=[1,4]<=[4]}\n"                                                       \
    " ROOT r = (s32[], f32[64,16], f32[16,32], f32[32,16]) tuple(j, y, u, v)\n}\nENTRY e {\n"                          \
    " x = f32[64,16] parameter(0), sharding={devices=[1,4]<=[4]}\n"                                                    \
    " u = f32[16,32] parameter(1), sharding={devices=[1,4]<=[4]}\n"                                                    \
    " v = f32[32,16] parameter(2), sharding={devices=[4,1]<=[4]}\n z = s32[] constant(0)\n"                            \
    " t = (s32[], f32[64,16], f32[16,32], f32[32,16]) tuple(z, x, u, v)\n"                                             \
    " w = (s32[], f32[64,16], f32[16,32], f32[32,16]) while(t), condition=more, body=step\n"                           \
    " ROOT r = f32[64,16] get-tuple-element(w), index=1, sharding={devices=[1,4]<=[4]}\n}\n"

// The sum or difference of two products that each leave parts on the devices.
#define PRODUCTS(N, Op, Result)                                           \
    "HloModule m, num_partitions=4\nENTRY e {\n p = f32[" N               \
    ",16] parameter(0), sharding={devices=[1,4]<=[4]}\n"                  \
    " q = f32[16,8] parameter(1), sharding={devices=[4,1]<=[4]}\n"        \
    " r = f32[" N                                                         \
    ",16] parameter(2), sharding={devices=[1,4]<=[4]}\n"                  \
    " s = f32[16,8] parameter(3), sharding={devices=[4,1]<=[4]}\n"        \
    " a = f32[" N                                                         \
    ",8] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n" \
    " b = f32[" N                                                         \
    ",8] dot(r, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n" \
    " ROOT t = f32[" N ",8] " Op "(a, b), sharding={devices=" Result "}\n}\n"
#define TOTALS(Shape, Devices, Window)                                                                 \
    "HloModule m, num_partitions=16\nsum {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"        \
    " ROOT c = f32[] add(a, b)\n}\nENTRY e {\n p = " Shape " parameter(0), sharding={devices=" Devices \
    "}\n z = f32[] constant(0)\n ROOT t = " Shape " reduce-window(p, z), window={" Window              \
    "}, to_apply=sum, "                                                                                \
    "sharding={devices=" Devices "}\n}\n"

// The same between two reversals.
#define TOTALS_BETWEEN(Shape, Devices, Window)                                                         \
    "HloModule m, num_partitions=16\nsum {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"        \
    " ROOT c = f32[] add(a, b)\n}\nENTRY e {\n p = " Shape " parameter(0), sharding={devices=" Devices \
    "}\n z = f32[] constant(0)\n r = " Shape " reverse(p), dimensions={0}\n w = " Shape                \
    " reduce-window(r, z), window={" Window "}, to_apply=sum\n b = " Shape                             \
    " reverse(w), dimensions={0}\n ROOT t = " Shape " copy(b), sharding={devices=" Devices "}\n}\n"

#define EVERY_SECOND(Shape, Rows, N, Slice)                                                                      \
    "HloModule m, num_partitions=4\nset {\n x = f32[] parameter(0)\n ROOT y = f32[] parameter(1)\n}\n"           \
    "ENTRY e {\n p = " Shape " parameter(0), sharding={devices=[4,1]<=[4]}\n q = " Shape                         \
    " parameter(1), sharding={devices=[4,1]<=[4]}\n u = " Rows " slice(q), slice={" Slice ", [0:3]}\n v = " Rows \
    " exponential(u)\n o = s32[" N                                                                               \
    "] iota(), iota_dimension=0\n two = s32[] constant(2)\n"                                                     \
    " t = s32[" N "] broadcast(two), dimensions={}\n m = s32[" N "] multiply(t, o)\n i = s32[" N                 \
    ",1] reshape(m)\n ROOT c = " Shape                                                                           \
    " scatter(p, i, v), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "    \
    "index_vector_dim=1, to_apply=set, sharding={devices=[4,1]<=[4]}\n}\n"

// Running sums of exponentials, as logarithms, as JAX writes them.
#define LOGARITHMS(Shape, Devices, Window, Init)                                                                 \
    "HloModule m, num_partitions=16\njoin {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"                 \
    " x = f32[] maximum(a, b)\n d = f32[] subtract(a, b)\n c = pred[] compare(d, d), direction=NE\n"             \
    " s = f32[] add(a, b)\n m = f32[] abs(d)\n n = f32[] negate(m)\n e = f32[] exponential(n)\n"                 \
    " l = f32[] log-plus-one(e)\n y = f32[] add(x, l)\n ROOT r = f32[] select(c, s, y)\n}\n"                     \
    "ENTRY e {\n p = " Shape " parameter(0), sharding={devices=" Devices "}\n z = f32[] constant(" Init          \
    ")\n ROOT t = " Shape " reduce-window(p, z), window={" Window "}, to_apply=join, sharding={devices=" Devices \
    "}\n}\n"

// Rows shifted to the next place, written as a pad and a slice, beside Unused users of the pad.
#define SHIFTED_BY_PAD(Shape, Longer, Pad, Slice, Devices, Unused)                                      \
    "HloModule m, num_partitions=8\nENTRY e {\n p = " Shape " parameter(0), sharding={devices=" Devices \
    "}\n z = f32[] constant(0)\n q = " Longer " pad(p, z), padding=" Pad "\n" Unused " a = " Shape      \
    " slice(q), slice={" Slice "}\n ROOT t = " Shape " subtract(p, a), sharding={devices=" Devices "}\n}\n"

// A filter along both dimensions of N x M, padded by one: rows are added up, then columns of what comes of them.
#define SEPARABLE(N, M, Longer, Wider, Ends, Devices)                                                               \
    "HloModule m, num_partitions=8\nENTRY e {\n p = f32[" N "," M "] parameter(0), sharding={devices=" Devices      \
    "}\n z = f32[] constant(2)\n q = f32[" Longer "," Wider                                                         \
    "] pad(p, z), padding=1_1x1_1\n"                                                                                \
    " a = f32[" N "," Wider "] slice(q), slice={[0:" N "],[0:" Wider "]}\n b = f32[" N "," Wider                    \
    "] slice(q), slice={[2:" Longer "],[0:" Wider "]}\n e = f32[" N "," Wider                                       \
    "] exponential(b)\n"                                                                                            \
    " c = f32[" N "," Wider "] add(a, e)\n l = f32[" N "," M "] slice(c), slice={[0:" N "],[0:" M "]}\n r = f32[" N \
    "," M "] slice(c), slice={[0:" N "],[" Ends "]}\n ROOT t = f32[" N "," M                                        \
    "] subtract(r, l), sharding={devices=" Devices "}\n}\n"

// A wavelet of four elements at every second one of N, of which the first two follow the last (Longer).
#define WAVELET(N, Longer, Half, Limits0, Limits1, Limits2, Limits3, Devices)                                  \
    "HloModule m, num_partitions=8\nENTRY e {\n p = f32[" N ",3] parameter(0), sharding={devices=" Devices     \
    "}\n h = f32[2,3] slice(p), slice={[0:2],[0:3]}\n q = f32[" Longer                                         \
    ",3] concatenate(p, h), dimensions={0}\n"                                                                  \
    " a = f32[" Half ",3] slice(q), slice={" Limits0 ",[0:3]}\n b = f32[" Half ",3] slice(q), slice={" Limits1 \
    ",[0:3]}\n c = f32[" Half ",3] slice(q), slice={" Limits2 ",[0:3]}\n d = f32[" Half                        \
    ",3] slice(q), slice={" Limits3 ",[0:3]}\n e = f32[" Half ",3] subtract(a, b)\n f = f32[" Half             \
    ",3] multiply(c, d)\n ROOT t = f32[" Half ",3] add(e, f), sharding={devices=" Devices "}\n}\n"

// One element of each sorted row of Rows x Columns, with the columns sharded.
#define SORTED_ROWS(Rows, Columns, Devices)                                                                   \
    "HloModule m, num_partitions=8\nless {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"               \
    " ROOT c = pred[] compare(a, b), direction=LT\n}\nENTRY e {\n p = f32[" Rows "," Columns                  \
    "] parameter(0), sharding={devices=" Devices "}\n s = f32[" Rows "," Columns                              \
    "] sort(p), dimensions={1}, to_apply=less\n e = f32[" Rows "," Columns "] exponential(s)\n r = f32[" Rows \
    ",1] slice(e), slice={[0:" Rows "],[20:21]}\n ROOT t = f32[" Rows ",1] negate(r), sharding={replicated}\n}\n"

// Three rows of a table of Rows for each of Bags, added up.
#define BAGS(Rows, Bags, Devices, Result)                                                                      \
    "HloModule m, num_partitions=8\nsum {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"                 \
    " ROOT c = f32[] add(a, b)\n}\nENTRY e {\n p = f32[" Rows ",5] parameter(0), sharding={devices=" Devices   \
    "}\n i = s32[" Bags ",3,1] parameter(1), sharding={replicated}\n g = f32[" Bags                            \
    ",3,5] gather(p, i), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, " \
    "slice_sizes={1,5}\n z = f32[] constant(0)\n r = f32[" Bags                                                \
    ",5] reduce(g, z), dimensions={1}, to_apply=sum\n"                                                         \
    " ROOT t = f32[" Bags ",5] negate(r), sharding={" Result "}\n}\n"

// What every device has, Operand, and a part of the result of Op on each.
#define OF_WHOLE(Operand, Result, Op, Devices)                                                 \
    "HloModule m, num_partitions=8\nsum {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n" \
    " ROOT c = f32[] add(a, b)\n}\nENTRY e {\n p = " Operand                                   \
    " parameter(0), sharding={replicated}\n"                                                   \
    " z = f32[] constant(1)\n ROOT t = " Result " " Op ", sharding={devices=" Devices "}\n}\n"

// Rows of an array over some devices, which all of them need, or those with the same columns.
#define ROWS(Count, Array, Devices, Slice, Limits, Out)                                                         \
    "HloModule m, num_partitions=" Count "\nENTRY e {\n p = " Array " parameter(0), sharding={devices=" Devices \
    "}\n ROOT s = " Slice " slice(p), slice={" Limits "}, sharding=" Out "\n}\n"

// Attention over 8 devices whose heads are sharded inside, of so many batches and groups of heads.
#define GROUPS(Batches, Groups, Devices)                                                                          \
    "HloModule m, num_partitions=8\nENTRY e {\n p = f32[" Batches "," Groups                                      \
    ",32,8] parameter(0), sharding={devices=" Devices "}\n q = f32[" Batches "," Groups                           \
    ",32,8] parameter(1), sharding={devices=" Devices "}\n v = f32[" Batches "," Groups                           \
    ",32,8] parameter(2), sharding={devices=" Devices "}\n s = f32[" Batches "," Groups                           \
    ",32,32] dot(p, q), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, "                   \
    "rhs_contracting_dims={3}\n x = f32[" Batches "," Groups ",32,32] tanh(s)\n ROOT t = f32[" Batches "," Groups \
    ",32,8] dot(x, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, "                    \
    "rhs_contracting_dims={2}, sharding={devices=" Devices "}\n}\n"

static const SentBytes programs[] = {
    // The rows that a device has are added up there.
    {"a bag of embeddings", BAGS("128", "8", "[8,1]<=[8]", "devices=[8,1]<=[8]"), 7 * 5 * 4},
    {"a bag of embeddings on every device", BAGS("128", "8", "[8,1]<=[8]", "replicated"), 2 * 7 * 5 * 4},
    {"a bag of embeddings, uneven", BAGS("125", "7", "[8,1]<=[8]", "devices=[8,1]<=[8]"), 7 * 5 * 4},
    {"a bag of embeddings, one row a device", BAGS("200", "1", "[8,1]<=[8]", "replicated"), 2 * 35 * 4 / 8},
    {"a bag of embeddings, of two axes", BAGS("128", "8", "[8,1]<=[2,4]T(1,0)", "devices=[8,1]<=[2,4]T(1,0)"),
     7 * 5 * 4},
    // Rows are exchanged for columns, and one element of each is gathered.
    {"sorted rows", SORTED_ROWS("16", "32", "[1,8]<=[8]"), 7 * 2 * 4 * 4 + 7 * 2 * 4},
    {"sorted rows, uneven", SORTED_ROWS("16", "31", "[1,8]<=[8]"), 7 * 2 * 4 * 4 + 7 * 2 * 4},
    {"sorted rows, one a device", SORTED_ROWS("8", "32", "[1,8]<=[8]"), 7 * 1 * 4 * 4 + 7 * 1 * 4},
    {"sorted rows, of two axes", SORTED_ROWS("16", "32", "[1,8]<=[2,4]T(1,0)"), 7 * 2 * 4 * 4 + 7 * 2 * 4},
    // Each device cuts its window out of what it has.
    {"a pad of what every device has", OF_WHOLE("f32[20,3]", "f32[64,3]", "pad(p, z), padding=2_4_2x0_0", "[8,1]<=[8]"),
     0},
    {"a pad of what every device has, uneven",
     OF_WHOLE("f32[20,3]", "f32[61,3]", "pad(p, z), padding=2_1_2x0_0", "[8,1]<=[8]"), 0},
    {"a pad of one element that every device has",
     OF_WHOLE("f32[1,3]", "f32[8,3]", "pad(p, z), padding=2_5x0_0", "[8,1]<=[8]"), 0},
    {"a slice of what every device has",
     OF_WHOLE("f32[40,3]", "f32[16,3]", "slice(p), slice={[3:35:2],[0:3]}", "[8,1]<=[8]"), 0},
    {"a slice of what every device has, uneven",
     OF_WHOLE("f32[40,3]", "f32[19,3]", "slice(p), slice={[3:22],[0:3]}", "[8,1]<=[2,4]T(1,0)"), 0},
    {"a reversal of what every device has",
     OF_WHOLE("f32[10,6]", "f32[10,6]", "reverse(p), dimensions={0,1}", "[4,2]<=[8]"), 0},
    {"windows of what every device has",
     OF_WHOLE("f32[14,6]", "f32[14,6]", "reduce-window(p, z), window={size=3x3 pad=1_1x1_1}, to_apply=sum",
              "[4,2]<=[8]"),
     0},
    {"windows of what some devices have, along two axes",
     OF_WHOLE("f32[14,6]", "f32[14,6]", "reduce-window(p, z), window={size=3x3 pad=1_1x1_1}, to_apply=sum",
              "[8,1]<=[2,4]T(1,0)"),
     0},
    {"a convolution of what every device has",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[1,15,2] parameter(0), sharding={replicated}\n k = f32[4,2,3] "
     "parameter(1), sharding={replicated}\n ROOT t = f32[1,8,3] convolution(p, k), window={size=4 stride=2 pad=2_1}, "
     "dim_labels=b0f_0io->b0f, sharding={devices=[1,4,1]<=[4]}\n}\n",
     0},
    // Two elements of the next device.
    {"a wavelet", WAVELET("32", "34", "16", "[0:31:2]", "[1:32:2]", "[2:33:2]", "[3:34:2]", "[8,1]<=[8]"), 2 * 3 * 4},
    {"a wavelet of one result a device",
     WAVELET("16", "18", "8", "[0:15:2]", "[1:16:2]", "[2:17:2]", "[3:18:2]", "[8,1]<=[8]"), 2 * 3 * 4},
    {"a wavelet of two axes",
     WAVELET("32", "34", "16", "[0:31:2]", "[1:32:2]", "[2:33:2]", "[3:34:2]", "[8,1]<=[2,4]T(1,0)"), 2 * 3 * 4},
    {"a wavelet, uneven", WAVELET("30", "32", "15", "[0:29:2]", "[1:30:2]", "[2:31:2]", "[3:32:2]", "[8,1]<=[8]"),
     2 * 3 * 4},
    // A row up and one down, then a column to each side.
    {"a filter along rows, then along columns", SEPARABLE("8", "16", "10", "18", "2:18", "[2,4]<=[8]"),
     2 * (4 + 4) * 4},
    {"a filter along rows, then along columns, uneven", SEPARABLE("7", "15", "9", "17", "2:17", "[2,4]<=[8]"),
     2 * (4 + 4) * 4},
    {"a filter along rows, then along columns, of one element", SEPARABLE("2", "4", "4", "6", "2:6", "[2,4]<=[8]"),
     2 * (1 + 1) * 4},
    {"a filter along rows, then along columns, of two axes",
     SEPARABLE("8", "16", "10", "18", "2:18", "[1,8]<=[2,4]T(1,0)"), 2 * 8 * 4},
    // The pad by itself would be made by an all-to-all, but nothing needs it.
    {"a shift by a shard, written as a pad",
     SHIFTED_BY_PAD("f32[8,16]", "f32[9,16]", "1_0x0_0", "[0:8],[0:16]", "[8,1]<=[8]", ""), 16 * 4},
    {"a shift by a shard, written as a pad, uneven",
     SHIFTED_BY_PAD("f32[15,16]", "f32[17,16]", "2_0x0_0", "[0:15],[0:16]", "[8,1]<=[8]", ""), 2 * 16 * 4},
    {"a shift by a shard, written as a pad, of one element",
     SHIFTED_BY_PAD("f32[8,1]", "f32[9,1]", "1_0x0_0", "[0:8],[0:1]", "[8,1]<=[8]", ""), 4},
    {"a shift by a shard, written as a pad, along two axes",
     SHIFTED_BY_PAD("f32[8,16]", "f32[9,16]", "1_0x0_0", "[0:8],[0:16]", "[8,1]<=[2,4]T(1,0)", ""), 16 * 4},
    {"a shift by a shard beside what nothing uses",
     SHIFTED_BY_PAD("f32[8,16]", "f32[9,16]", "1_0x0_0", "[0:8],[0:16]", "[8,1]<=[8]",
                    " n = f32[9,16] negate(q)\n w = f32[9,16] reverse(n), dimensions={0}\n"),
     16 * 4},
    // Of 64 elements a device keeps an eighth: one exchange among all.
    {"axes of two dimensions to two others",
     "HloModule m, num_partitions=8\nENTRY e {\n p = s32[4,8,4,4] parameter(0), sharding={devices=[1,4,2,1]<=[8]}\n"
     " ROOT c = s32[4,8,4,4] copy(p), sharding={devices=[2,1,1,4]<=[4,2]T(1,0)}\n}\n",
     7 * 8 * 4},
    // One exchange among all, whose parts are in another order of devices.
    {"axes that come to another dimension in another order",
     "HloModule m, num_partitions=4\nENTRY e {\n p = s32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}\n"
     " ROOT c = s32[8,8] copy(p), sharding={devices=[1,4]<=[2,2]T(1,0)}\n}\n",
     3 * 4 * 4},
    {"three axes that come in another order",
     "HloModule m, num_partitions=8\nENTRY e {\n p = s32[8,16,1] parameter(0), sharding={devices=[8,1,1]<=[8]}\n"
     " ROOT c = s32[8,16,1] copy(p), sharding={devices=[1,8,1]<=[2,2,2]T(2,0,1)}\n}\n",
     7 * 2 * 4},
    {"axes in another order, uneven",
     "HloModule m, num_partitions=4\nENTRY e {\n p = s32[8,7] parameter(0), sharding={devices=[4,1]<=[4]}\n"
     " ROOT c = s32[8,7] copy(p), sharding={devices=[1,4]<=[2,2]T(1,0)}\n}\n",
     2 * 4 * 4 + 4 * 2 * 4},
    // One row to each side, twice.
    {"neighbours of neighbours",
     SPLIT("f32[16,3]", NEIGHBOURS("p", "a", "16", "15") NEIGHBOURS(
                            "as", "b", "16", "15") " ROOT t = f32[16,3] copy(bs), sharding={devices=[4,1]<=[4]}\n"),
     2 * 2 * 3 * 4},
    {"neighbours of neighbours, uneven",
     SPLIT("f32[15,3]", NEIGHBOURS("p", "a", "15", "14") NEIGHBOURS(
                            "as", "b", "15", "14") " ROOT t = f32[15,3] copy(bs), sharding={devices=[4,1]<=[4]}\n"),
     2 * 2 * 3 * 4},
    // As it is written out when every array has been annotated: the pad and the slice are one shift.
    {"annotated shifts",
     SPLIT("f32[16,3]",
           " z = f32[] constant(0)\n q = f32[17,3] pad(p, z), padding=1_0x0_0, sharding={devices=[4,1]<=[4]}\n"
           " ROOT a = f32[16,3] slice(q), slice={[0:16],[0:3]}, sharding={devices=[4,1]<=[4]}\n"),
     3 * 4},
    {"annotated rotation",
     SPLIT("f32[16,3]",
           " a = f32[1,3] slice(p), slice={[15:16],[0:3]}, sharding={devices=[1,1,4]<=[4] last_tile_dim_replicate}\n"
           " b = f32[15,3] slice(p), slice={[0:15],[0:3]}, sharding={devices=[4,1]<=[4]}\n"
           " ROOT c = f32[16,3] concatenate(a, b), dimensions={0}, sharding={devices=[4,1]<=[4]}\n"),
     3 * 4},
    {"three shifts",
     SPLIT("f32[16,3]",
           " z = f32[] constant(0)\n q = f32[19,3] pad(p, z), padding=3_0x0_0\n"
           " a = f32[16,3] slice(q), slice={[0:16],[0:3]}\n b = f32[16,3] slice(q), slice={[1:17],[0:3]}\n"
           " c = f32[16,3] slice(q), slice={[2:18],[0:3]}\n d = f32[16,3] multiply(a, b)\n e = f32[16,3] add(c, d)\n"
           " ROOT t = f32[16,3] multiply(e, p), sharding={devices=[4,1]<=[4]}\n"),
     3 * 3 * 4},
    {"shifts, uneven",
     SPLIT("f32[15,3]",
           " z = f32[] constant(0)\n q = f32[17,3] pad(p, z), padding=2_0x0_0\n"
           " a = f32[15,3] slice(q), slice={[0:15],[0:3]}\n b = f32[15,3] slice(q), slice={[1:16],[0:3]}\n"
           " d = f32[15,3] multiply(a, b)\n ROOT t = f32[15,3] multiply(d, p), sharding={devices=[4,1]<=[4]}\n"),
     2 * 3 * 4},
    {"shifts by whole shards of one row",
     SPLIT("f32[4,1]",
           " z = f32[] constant(0)\n q = f32[5,1] pad(p, z), "
           "padding=1_0x0_0\n a = f32[4,1] slice(q), slice={[0:4],[0:1]}\n n = f32[4,1] negate(p)\n r = f32[5,1] "
           "pad(p, z), "
           "padding=1_0x0_0\n b = f32[4,1] slice(r), slice={[0:4],[0:1]}\n d = f32[4,1] multiply(a, b)\n "
           "ROOT t = f32[4,1] multiply(d, n), sharding={devices=[4,1]<=[4]}\n"),
     4},
    {"shifts both ways",
     SPLIT("f32[16,3]",
           " z = f32[] constant(0)\n q = f32[20,3] pad(p, z), padding=2_2x0_0\n"
           " a = f32[16,3] slice(q), slice={[0:16],[0:3]}\n b = f32[16,3] slice(q), slice={[1:17],[0:3]}\n"
           " c = f32[16,3] slice(q), slice={[3:19],[0:3]}\n f = f32[16,3] slice(q), slice={[4:20],[0:3]}\n"
           " d = f32[16,3] multiply(a, b)\n e = f32[16,3] multiply(c, f)\n"
           " ROOT t = f32[16,3] add(d, e), sharding={devices=[4,1]<=[4]}\n"),
     (2 + 2) * 3 * 4},
    // Output o takes elements o / 2 and (o - 1) / 2 of the dilated input, one of which is a hole.
    {"a transposed convolution",
     CONVOLUTION("[4,1", "f32[8,1", "f32[2,1", "size=2x1 pad=1_1x0_0 lhs_dilate=2x1", "f32[16,1"), 0},
    {"a transposed convolution of two axes",
     CONVOLUTION("[2,2", "f32[8,6", "f32[2,2",
                 "size=2x2 pad=1_1x1_1 "
                 "lhs_dilate=2x2",
                 "f32[16,12"),
     0},
    {"a transposed convolution with a halo",
     CONVOLUTION("[4,1", "f32[8,1", "f32[4,1",
                 "size=4x1 pad=2_2x0_0 "
                 "lhs_dilate=2x1",
                 "f32[16,1"),
     2 * 2 * 4},
    {"a transposed convolution of single rows",
     CONVOLUTION("[4,1", "f32[4,1", "f32[3,1",
                 "size=3x1 pad=2_2x0_0 "
                 "lhs_dilate=3x1",
                 "f32[12,1"),
     0},
    {"a transposed convolution, uneven",
     CONVOLUTION("[4,1", "f32[7,1", "f32[2,1",
                 "size=2x1 pad=1_1x0_0 "
                 "lhs_dilate=2x1",
                 "f32[14,1"),
     0},
    {"two axes exchanged together",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[8,4,6] parameter(0), sharding={devices=[4,1,1]<=[4]}\n"
     " ROOT t = f32[8,4,6] copy(p), sharding={devices=[1,2,2]<=[4]}\n}\n",
     3 * 2 * 4 * 6 * 4 / 4},
    {"two axes exchanged together, in the other order",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[8,4,6] parameter(0), sharding={devices=[4,1,1]<=[4]}\n"
     " ROOT t = f32[8,4,6] copy(p), sharding={devices=[1,2,2]<=[2,2]T(1,0)}\n}\n",
     3 * 2 * 4 * 6 * 4 / 4},
    // Padded, the second exchange sends half of f32[4,4,3].
    {"two axes, uneven, one after the other",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[8,3,6] parameter(0), sharding={devices=[4,1,1]<=[4]}\n"
     " ROOT t = f32[8,3,6] copy(p), sharding={devices=[1,2,2]<=[4]}\n}\n",
     (2 * 3 * 6 + 4 * 4 * 3) * 4 / 2},
    {"three axes exchanged together",
     "HloModule m, num_partitions=8\nENTRY e {\n p = f32[8,4,2,6] parameter(0), sharding={devices=[8,1,1,1]<=[8]}\n"
     " ROOT t = f32[8,4,2,6] copy(p), sharding={devices=[1,2,2,2]<=[8]}\n}\n",
     7 * 4 * 2 * 6 * 4 / 8},
    // By rows, and back.
    {"a transform and its inverse",
     "HloModule m, num_partitions=4\nENTRY e {\n p = c64[8,16] parameter(0), sharding={devices=[1,4]<=[4]}\n"
     " f = c64[8,16] fft(p), fft_type=FFT, fft_length={16}\n n = c64[8,16] negate(f)\n"
     " ROOT t = c64[8,16] fft(n), fft_type=IFFT, fft_length={16}, sharding={devices=[1,4]<=[4]}\n}\n",
     2 * 3 * 2 * 4 * 8},
    {"a transform and its inverse, of two axes",
     "HloModule m, num_partitions=4\nENTRY e {\n p = c64[8,16] parameter(0), sharding={devices=[2,2]<=[4]}\n"
     " f = c64[8,16] fft(p), fft_type=FFT, fft_length={16}\n n = c64[8,16] negate(f)\n"
     " ROOT t = c64[8,16] fft(n), fft_type=IFFT, fft_length={16}, sharding={devices=[2,2]<=[4]}\n}\n",
     2 * 2 * 8 * 8},
    {"a transform of rows that do not divide evenly",
     "HloModule m, num_partitions=4\nENTRY e {\n p = c64[6,16] parameter(0), sharding={devices=[1,4]<=[4]}\n"
     " f = c64[6,16] fft(p), fft_type=FFT, fft_length={16}\n n = c64[6,16] negate(f)\n"
     " ROOT t = c64[6,16] fft(n), fft_type=IFFT, fft_length={16}, sharding={devices=[1,4]<=[4]}\n}\n",
     2 * 3 * 2 * 4 * 8},
    {"a transform of one row",
     "HloModule m, num_partitions=4\nENTRY e {\n p = c64[1,16] parameter(0), sharding={devices=[1,4]<=[4]}\n"
     " f = c64[1,16] fft(p), fft_type=FFT, fft_length={16}\n n = c64[1,16] negate(f)\n"
     " ROOT t = c64[1,16] fft(n), fft_type=IFFT, fft_length={16}, sharding={devices=[1,4]<=[4]}\n}\n",
     3 * 4 * 8},
    // Both operands by batches, 3 * 4 * 8 * 4 bytes in all for each, and the result gathered. Of an all-reduce it would
    // be 2 * 3 * 4 * 64 * 4 / 4.
    {"a contraction sharded on both sides, of batches",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[4,32,8] parameter(0), sharding={devices=[1,1,4]<=[4]}\n"
     " q = f32[4,32,8] parameter(1), sharding={devices=[1,1,4]<=[4]}\n"
     " ROOT t = f32[4,32,32] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
     "rhs_contracting_dims={2}, sharding={replicated}\n}\n",
     2 * 3 * 4 * 32 * 8 * 4 / 16 + 3 * 4 * 32 * 32 * 4 / 4},
    {"a contraction sharded on both sides, uneven batches",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[23,32,8] parameter(0), sharding={devices=[1,1,4]<=[4]}\n"
     " q = f32[23,32,8] parameter(1), sharding={devices=[1,1,4]<=[4]}\n"
     " ROOT t = f32[23,32,32] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
     "rhs_contracting_dims={2}, sharding={replicated}\n}\n",
     2 * 3 * 24 * 32 * 8 * 4 / 16 + 3 * 24 * 32 * 32 * 4 / 4},
    // Batches and groups hold together what neither holds alone.
    {"a contraction of heads, for batches and groups", GROUPS("4", "2", "[1,1,1,8]<=[8]"), 4 * 7 * 32 * 8 * 4 / 8},
    // Queries are exchanged, and the result; keys and values are gathered.
    {"a contraction of heads, for uneven batches", GROUPS("5", "2", "[1,1,1,8]<=[8]"),
     (2 + 2 * 8) * 7 * 10 * 32 * 8 * 4 / 64},
    {"a contraction of heads, for one batch", GROUPS("1", "8", "[1,1,1,8]<=[8]"), 4 * 7 * 32 * 8 * 4 / 8},
    {"a contraction of heads, of batches that another axis splits", GROUPS("4", "2", "[2,1,1,4]<=[8]"),
     4 * 3 * 32 * 8 * 4 / 4},
    // The gradient of a weight: people expect one all-reduce.
    {"a contraction sharded on both sides, without batches",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[8,16] parameter(0), sharding={devices=[4,1]<=[4]}\n"
     " q = f32[8,16] parameter(1), sharding={devices=[4,1]<=[4]}\n"
     " ROOT t = f32[16,16] dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}, sharding={replicated}\n}\n",
     2 * 3 * 16 * 16 * 4 / 4},
    // Activations [B,S,D] and [B,S,H] are exchanged for batches, and parts of the sum [D,H] scattered. Gathering one of
    // them would send (n - 1) B S D / n elements.
    {"the gradient of a weight of sharded activations",
     WEIGHT_GRADIENT("4", "8", "16", "8", "12", "[1,1,4]<=[4]", "[1,4]<=[4]"),
     3 * 8 * 16 * (8 + 12) * 4 / 16 + 3 * 8 * 12 * 4 / 4},
    {"the gradient of a weight, uneven", WEIGHT_GRADIENT("4", "8", "16", "7", "12", "[1,1,4]<=[4]", "[1,4]<=[4]"),
     3 * 8 * 16 * (8 + 12) * 4 / 16 + 3 * 7 * 12 * 4 / 4},
    {"the gradient of a weight, of one batch", WEIGHT_GRADIENT("4", "1", "32", "8", "12", "[1,1,4]<=[4]", "[1,4]<=[4]"),
     3 * 32 * (8 + 12) * 4 / 16 + 3 * 8 * 12 * 4 / 4},
    {"the gradient of a weight, two axes", WEIGHT_GRADIENT("8", "8", "16", "8", "12", "[2,1,4]<=[8]", "[2,4]<=[8]"),
     3 * 4 * 16 * (8 + 12) * 4 / 16 + 7 * 8 * 12 * 4 / 8},
    // What a product adds to the state of a loop is no sum that waits for its end if the body reads that state too.
    {"a residual connection in a loop", RESIDUAL, 3 * 2 * 3 * 64 * 16 * 4 / 16 + 2 * 3 * 16 * 32 * 4 / 4},
    {"parts of two products, scattered once", PRODUCTS("8", "add", "[4,1]<=[4]"), 3 * 8 * 8 * 4 / 4},
    {"parts of two products, uneven", PRODUCTS("7", "add", "[4,1]<=[4]"), 3 * 8 * 8 * 4 / 4},
    {"parts of two products of one row", PRODUCTS("1", "add", "[1,4]<=[4]"), 3 * 8 * 4 / 4},
    {"the difference of two products, everywhere", PRODUCTS("8", "subtract", "[1,1,4]<=[4] last_tile_dim_replicate"),
     2 * 3 * 8 * 8 * 4 / 4},
    {"parts of two products, of two axes", PRODUCTS("8", "add", "[2,2]<=[4]"), 3 * 8 * 8 * 4 / 4},
    // What the first product gathers the second one has: it does not exchange its weight and add up parts.
    {"an operand that is whole already",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[64,64] parameter(0), sharding={devices=[1,4]<=[4]}\n"
     " q = f32[64,64] parameter(1), sharding={devices=[1,4]<=[4]}\n"
     " r = f32[64,4] parameter(2), sharding={devices=[1,4]<=[4]}\n x = f32[64,64] tanh(p)\n"
     " a = f32[64,64] dot(x, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[1,4]<=[4]}\n"
     " b = f32[64,4] dot(x, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[1,4]<=[4]}\n"
     " ROOT t = (f32[64,64], f32[64,4]) tuple(a, b), sharding={{devices=[1,4]<=[4]}, {devices=[1,4]<=[4]}}\n}\n",
     3 * 64 * 64 * 4 / 4},
    // Each device has the elements of its part, whether they come first in it or not.
    {"elements between holes",
     SPLIT("f32[8,3]",
           " z = f32[] constant(0)\n ROOT t = f32[16,3] pad(p, z), padding=1_0_1x0_0, "
           "sharding={devices=[4,1]<=[4]}\n"),
     0},
    {"elements between holes, uneven",
     SPLIT("f32[7,3]",
           " z = f32[] constant(0)\n ROOT t = f32[14,3] pad(p, z), padding=1_0_1x0_0, "
           "sharding={devices=[4,1]<=[4]}\n"),
     0},
    {"elements between wide holes",
     SPLIT("f32[4,3]",
           " z = f32[] constant(0)\n ROOT t = f32[16,3] pad(p, z), padding=2_1_3x0_0, "
           "sharding={devices=[4,1]<=[4]}\n"),
     0},
    // Two levels of four groups: 3 rows in each. At once it would be 15.
    {"a cumulative sum over many shards", TOTALS("f32[16,8]", "[16,1]<=[16]", "size=16x1 pad=15_0x0_0"), 2 * 3 * 8 * 4},
    {"a cumulative sum over many shards, from the end", TOTALS("f32[32,8]", "[16,1]<=[16]", "size=32x1 pad=0_31x0_0"),
     2 * 3 * 8 * 4},
    {"a cumulative sum over many shards, uneven", TOTALS("f32[29,8]", "[16,1]<=[16]", "size=29x1 pad=28_0x0_0"),
     2 * 3 * 8 * 4},
    {"a cumulative sum over shards of two axes", TOTALS("f32[32,8]", "[16,1]<=[4,4]T(1,0)", "size=32x1 pad=31_0x0_0"),
     2 * 3 * 8 * 4},
    // The owner sends it to all.
    {"the last row everywhere", ROWS("4", "f32[16,8]", "[4,1]<=[4]", "f32[1,8]", "[15:16],[0:8]", "{replicated}"),
     8 * 4},
    {"the last row everywhere, uneven",
     ROWS("4", "f32[14,8]", "[4,1]<=[4]", "f32[1,8]", "[13:14],[0:8]", "{replicated}"), 8 * 4},
    {"a row of one a shard everywhere", ROWS("4", "f32[4,8]", "[4,1]<=[4]", "f32[1,8]", "[2:3],[0:8]", "{replicated}"),
     8 * 4},
    {"rows of two shards everywhere", ROWS("4", "f32[16,8]", "[4,1]<=[4]", "f32[2,8]", "[7:9],[0:8]", "{replicated}"),
     2 * 8 * 4},
    {"rows with a stride of two shards everywhere",
     ROWS("4", "f32[16,8]", "[4,1]<=[4]", "f32[2,6]", "[5:10:3],[2:8]", "{replicated}"), 2 * 6 * 4},
    {"a row over two axes everywhere",
     ROWS("4", "f32[16,8]", "[4,1]<=[2,2]T(1,0)", "f32[1,8]", "[6:7],[0:8]", "{replicated}"), 8 * 4},
    {"a row with its columns as they are",
     ROWS("8", "f32[16,8]", "[4,2]<=[8]", "f32[1,8]", "[6:7],[0:8]",
          "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}"),
     4 * 4},
    // Between two reversals everything is computed from the other end.
    {"what is between reversals",
     SPLIT("f32[16,3]",
           " z = f32[] constant(0)\n r = f32[16,3] reverse(p), dimensions={0}\n"
           " s = f32[15,3] slice(r), slice={[0:15],[0:3]}\n q = f32[16,3] pad(s, z), padding=1_0x0_0\n"
           " d = f32[16,3] subtract(r, q)\n b = f32[16,3] reverse(d), dimensions={0}\n"
           " ROOT t = f32[16,3] copy(b), sharding={devices=[4,1]<=[4]}\n"),
     3 * 4},
    {"slices and concatenations between reversals, uneven",
     SPLIT("f32[14,3]",
           " z = f32[] constant(2)\n u = f32[14,3] broadcast(z), dimensions={}\n"
           " r = f32[14,3] reverse(p), dimensions={0}\n s = f32[7,3] slice(r), slice={[1:14:2],[0:3]}\n"
           " e = f32[7,3] slice(r), slice={[0:13:2],[0:3]}\n a = f32[7,3] power(e, s)\n"
           " c = f32[14,3] concatenate(a, s), dimensions={0}\n d = f32[14,3] multiply(c, u)\n"
           " b = f32[14,3] reverse(d), dimensions={0}\n"
           " ROOT t = f32[14,3] copy(b), sharding={devices=[4,1]<=[4]}\n"),
     60},
    {"two reversed dimensions of two axes",
     "HloModule m, num_partitions=4\nENTRY e {\n p = f32[8,6] parameter(0), sharding={devices=[2,2]<=[4]}\n"
     " z = f32[] constant(0)\n r = f32[8,6] reverse(p), dimensions={0,1}\n"
     " q = f32[8,6] pad(r, z), padding=1_-1x0_0\n d = f32[8,6] add(r, q)\n"
     " b = f32[8,6] reverse(d), dimensions={0,1}\n ROOT t = f32[8,6] copy(b), sharding={devices=[2,2]<=[4]}\n}\n",
     3 * 4},
    {"windows between reversals", TOTALS_BETWEEN("f32[32,8]", "[16,1]<=[16]", "size=32x1 pad=31_0x0_0"), 2 * 3 * 8 * 4},
    {"windows between reversals, of one element a shard",
     TOTALS_BETWEEN("f32[16,1]", "[16,1]<=[4,4]T(1,0)", "size=3x1 pad=2_0x0_0"), 2 * 4},
    // Half of them needs the array as it is.
    {"a reversal that is needed",
     SPLIT("f32[16,3]",
           " r = f32[16,3] reverse(p), dimensions={0}\n d = f32[16,3] negate(r)\n"
           " b = f32[16,3] reverse(d), dimensions={0}\n"
           " ROOT t = f32[16,3] add(b, r), sharding={devices=[4,1]<=[4]}\n"),
     2 * 4 * 3 * 4},
    // Each pad is a shift by the time that the slice is taken, of one row and of two.
    {"the derivative of a sum of shifts",
     SPLIT("f32[16,3]",
           " z = f32[] constant(0)\n h = f32[] constant(2)\n k = f32[16,3] broadcast(h), dimensions={}\n"
           " m = f32[16,3] multiply(p, k)\n n = f32[16,3] exponential(p)\n"
           " a = f32[18,3] pad(p, z), padding=2_0x0_0\n b = f32[18,3] pad(m, z), padding=1_1x0_0\n"
           " c = f32[18,3] pad(n, z), padding=0_2x0_0\n d = f32[18,3] add(a, b)\n e = f32[18,3] add(d, c)\n"
           " ROOT t = f32[16,3] slice(e), slice={[2:18],[0:3]}, sharding={devices=[4,1]<=[4]}\n"),
     (1 + 2) * 3 * 4},
    {"the derivative of a sum of shifts, uneven",
     SPLIT("f32[15,3]",
           " z = f32[] constant(0)\n n = f32[15,3] exponential(p)\n"
           " a = f32[16,3] pad(p, z), padding=1_0x0_0\n c = f32[16,3] pad(n, z), padding=0_1x0_0\n"
           " d = f32[16,3] add(a, c)\n"
           " ROOT t = f32[15,3] slice(d), slice={[1:16],[0:3]}, sharding={devices=[4,1]<=[4]}\n"),
     3 * 4},
    // Each device has the rows that go into its part.
    {"every second row set", EVERY_SECOND("f32[16,3]", "f32[8,3]", "8", "[0:16:2]"), 0},
    {"every second row set, uneven", EVERY_SECOND("f32[14,3]", "f32[7,3]", "7", "[0:14:2]"), 0},
    {"every second row set, shifted", EVERY_SECOND("f32[16,3]", "f32[8,3]", "8", "[1:16:2]"), 3 * 4},
    {"running sums of exponentials", LOGARITHMS("f32[32,8]", "[16,1]<=[16]", "size=32x1 pad=31_0x0_0", "-inf"),
     2 * 3 * 8 * 4},
    {"running sums of exponentials, from the end, uneven",
     LOGARITHMS("f32[29,8]", "[16,1]<=[16]", "size=29x1 pad=0_28x0_0", "-inf"), 2 * 3 * 8 * 4},
    {"running sums of exponentials, of one a shard",
     LOGARITHMS("f32[16]", "[16]<=[4,4]T(1,0)", "size=16 pad=15_0", "-inf"), 15 * 4},
    // Each device would count what is not the identity.
    {"running sums that begin with one", LOGARITHMS("f32[16]", "[16]<=[16]", "size=16 pad=15_0", "0"), 15 * 4},
    // Every second row from 0 on is where the rows are; those from 2 on are the same but one to the next device.
    {"a level of an associative scan",
     SPLIT("f32[16,3]",
           " o = f32[8,3] slice(p), slice={[1:16:2],[0:3]}\n e = f32[8,3] slice(p), slice={[0:15:2],[0:3]}\n"
           " s = f32[8,3] add(e, o)\n l = f32[7,3] slice(s), slice={[0:7],[0:3]}\n"
           " r = f32[7,3] slice(p), slice={[2:16:2],[0:3]}\n a = f32[7,3] add(l, r)\n"
           " f = f32[1,3] slice(p), slice={[0:1],[0:3]}\n c = f32[8,3] concatenate(f, a), dimensions={0}\n"
           " ROOT t = f32[8,3] multiply(c, s), sharding={devices=[4,1]<=[4]}\n"),
     3 * 4},
    // Each device makes the form that it needs.
    {"equal elements, needed whole",
     MADE("constant({{1,1},{1,1},{1,1},{1,1}})", "s32[4,2]", "[4,1]<=[4]", "replicated"), 0},
    {"a constant of two axes, uneven",
     MADE("constant({{1,2,3},{4,5,6},{7,8,9}})", "s32[3,3]", "[2,2]<=[4]", "devices=[1,4]<=[2,2]T(1,0)"), 0},
    {"a constant of one element a shard", MADE("constant({1,2,3,4})", "s32[4]", "[4]<=[4]", "replicated"), 0},
    {"an iota, uneven", MADE("iota(), iota_dimension=0", "s32[5,3]", "[4,1]<=[4]", "devices=[1,4]<=[4]"), 0},
    // All but one of the shards are padding.
    {"one row of eight shards", MOVED("f32[1,16]", "[8,1]<=[8]", "replicated"), 16 * 4},
    {"one element of eight shards", MOVED("f32[1]", "[8]<=[8]", "replicated"), 4},
    {"one row of shards of two axes, uneven",
     MOVED("f32[1,15]", "[4,2]<=[8]", "devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate"), 8 * 4},
    {"one row in a group of two",
     MOVED("f32[1,16]", "[2,4]<=[8]", "devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate"), 4 * 4},
    // Shards of the result that are padding need nothing.
    {"a first element that stays", TAKEN("[8]<=[8]", "f32[512]", "f32[1]", "[0:1]"), 0},
    {"first elements, one a shard", TAKEN("[8]<=[8]", "f32[512]", "f32[3]", "[0:3]"), 2 * 4},
    {"a first element in groups", TAKEN("[4,2]<=[8] last_tile_dim_replicate", "f32[16]", "f32[1]", "[0:1]"), 0},
    {"every second element, uneven", TAKEN("[8]<=[8]", "f32[61]", "f32[9]", "[3:20:2]"), 4 * 4},
    // One device has the row of both dimensions.
    {"one row in two dimensions of shards", MOVED("f32[1,1,6]", "[4,2,1]<=[8]", "replicated"), 6 * 4},
    {"one element in groups of two", MOVED("f32[1,1]", "[2,2,2]<=[8] last_tile_dim_replicate", "replicated"), 4},
    // Half of each tile goes to each of two devices.
    {"axes that change places", MOVED("f32[16,16]", "[4,2]<=[8]", "devices=[2,4]<=[4,2]T(1,0)"), 4 * 8 * 4},
    {"axes that change places, of bytes", MOVED("u8[64,64]", "[4,2]<=[8]", "devices=[2,4]<=[4,2]T(1,0)"), 16 * 32},
    {"axes that change places beside a third one",
     MOVED("f32[16,16,2]", "[2,2,2]<=[2,2,2]T(1,2,0)", "devices=[4,1,2]<=[2,2,2]T(2,0,1)"), 8 * 8 * 4},
    {"axes that change places, uneven", MOVED("f32[12,10]", "[4,2]<=[8]", "devices=[2,4]<=[4,2]T(1,0)"), 168},
    {"axes that change places, elements of one", MOVED("f32[4,4]", "[4,2]<=[8]", "devices=[2,4]<=[4,2]T(1,0)"), 2 * 4},
    // The whole shard to the other end of both dimensions, then two rows and a column of the neighbours.
    {"a reversal of two uneven dimensions", REVERSED("8", "f32[62,61]", "0,1", "[4,2]<=[8]", "[4,2]<=[8]"),
     16 * 31 * 4 + 2 * 31 * 4 + 16 * 4},
    {"a reversal of an even dimension and an uneven one",
     REVERSED("8", "f32[64,61]", "0,1", "[4,2]<=[8]", "[4,2]<=[8]"), 16 * 31 * 4 + 16 * 4},
    // A permute of single elements does all of it.
    {"a reversal of three elements of size one", REVERSED("8", "f32[3,2]", "0,1", "[4,2]<=[8]", "[4,2]<=[8]"), 4},
    // Right-hand sides are independent of each other: columns on the left, rows on the right. The unknowns are not.
    {"columns of a triangular solve", SOLVE("76", "[6,16]", "[1,8]<=[8]"), 0},
    {"columns of a triangular solve, uneven", SOLVE("76", "[6,13]", "[1,8]<=[8]"), 0},
    {"columns of a triangular solve, two axes", SOLVE("76", "[6,16]", "[1,8]<=[2,4]T(1,0)"), 0},
    {"rows of a triangular solve on the right", SOLVE("82", "[16,6]", "[8,1]<=[8]"), 0},
    {"one row of a triangular solve on the right", SOLVE("82", "[1,6]", "[1,1,8]<=[8] last_tile_dim_replicate"), 0},
    {"unknowns of a triangular solve", SOLVE("76", "[6,16]", "[2,1,4]<=[8] last_tile_dim_replicate"), 6 * 16 * 4 / 2},
    // Of four rounds none sends more than a quarter of the tile.
    {"axes that join another one", MOVED("f32[32,32]", "[4,2]<=[8]", "devices=[1,8]<=[8]"), 8 * 16 * 4},
    // Edges that are mirrored or come from the other end: each row goes to the next position once.
    {"mirrored edges", EDGES("[1:2]", "[60:61]"), 3 * 4},
    {"edges of the other end", EDGES("[61:62]", "[0:1]"), 2 * 3 * 4},
    // What every device has is not sent.
    {"a prefix that every device has", PREFIX("2", "30", "32"), 2 * 3 * 4},
    {"a prefix of one row", PREFIX("1", "15", "16"), 3 * 4},
    {"a prefix longer than a shard, uneven", PREFIX("5", "14", "19"), 3 * 3 * 4},
    // Candidates are exchanged for those of whole rows: two of each row, of eight bytes each.
    {"the best of sharded rows", BEST("8", "64", "[1,8]<=[8]", "devices=[8,1]<=[8]"), 8 * 2 * 8 * 7 / 8},
    {"the best of rows of two axes", BEST("8", "64", "[2,4]<=[8]", "devices=[8,1]<=[8]"), 4 * 2 * 8 * 3 / 4},
    {"the best of sharded rows, everywhere", BEST("64", "128", "[1,8]<=[8]", "replicated"), 2 * 64 * 2 * 8 * 7 / 8},
    // Seven rows are not divided: all candidates are gathered.
    {"the best of uneven rows", BEST("7", "63", "[1,8]<=[8]", "replicated"), 7 * 2 * 8 * 7},
    // The devices are reversed as the elements are.
    {"a reversal by an order of devices", REVERSED("4", "f32[8]", "0", "[4]0,1,2,3", "[4]3,2,1,0"), 0},
    {"a reversal by an order of devices, of one element", REVERSED("2", "f32[2,3]", "0", "[2,1]0,1", "[2,1]1,0"), 0},
    {"a reversal of two axes by an order of devices", REVERSED("4", "f32[4,6]", "0,1", "[2,2]0,1,2,3", "[2,2]3,2,1,0"),
     0},
    {"a reversal by an order of devices, of uneven columns",
     REVERSED("4", "f32[4,5]", "0", "[2,2]0,1,2,3", "[2,2]2,3,0,1"), 0},
};

CaseList(sent, at_most_the_plan) {
    return cases_numbered(HLO_COUNT_OF(programs));
}

CaseTest(const int *number, sent, at_most_the_plan) {
    expect_bytes(&programs[*number]);
}
