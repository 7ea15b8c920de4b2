// SPDX-License-Identifier: Apache-2.0
// Refusals of shape inference that the text parser makes before, or words differently: programs of one instruction that
// are read as text, bent where they are in memory, and asked for their shape. Readers of protobuf and users of the C
// API can make every one of them.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/hlo.h"
#include "hlo/ir/infer.h"
#include "hlo/ir/transfer.h"
#include "tests/support/cases.h"

// `attributes` is a copy that the request points to.
typedef void Bend(HloInferRequest *request, void *attributes);

typedef struct BentCase {
    const char *parameters;  // separated by semicolons: p0, p1, ...
    const char *root, *called;
    Bend *bend;        // NULL: the text is wrong enough
    const char *part;  // of the message
} BentCase;

#define ADD "c {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t = f32[] add(a,b)\n}\n"
#define SAME "c {\n ROOT a = f32[4] parameter(0)\n}\n"
#define BRANCHES "t {\n ROOT a = f32[4] parameter(0)\n}\nf {\n ROOT a = f32[4] parameter(0)\n}\n"
#define IMMENSE "2305843009213693952"  // 2^61: four of them are one more than the largest int64_t

static const int64_t two_dims[] = {0, 1};

static void two_dimensions(HloInferRequest *request, void *attributes) {
    (void)request;
    ((HloDimensionsAttributes *)attributes)->dimensions = (HloInts){two_dims, 2};
}
static void one_permuted_dimension(HloInferRequest *request, void *attributes) {
    (void)request;
    ((HloDimensionsAttributes *)attributes)->dimensions = (HloInts){two_dims, 1};
}
static void two_collective_dimensions(HloInferRequest *request, void *attributes) {
    (void)request;
    ((HloCollectiveAttributes *)attributes)->dimensions = (HloInts){two_dims, 2};
}
static void two_sort_dimensions(HloInferRequest *request, void *attributes) {
    (void)request;
    ((HloSortAttributes *)attributes)->dimensions = (HloInts){two_dims, 2};
}
static void two_scan_dimensions(HloInferRequest *request, void *attributes) {
    (void)request;
    ((HloScanAttributes *)attributes)->dimensions = (HloInts){two_dims, 2};
}
static void nothing_known(HloInferRequest *request, void *attributes) {
    (void)attributes;
    request->hint = NULL;
    request->replica_count = request->num_partitions = 0;
}
static void no_operands(HloInferRequest *request, void *attributes) {
    (void)attributes;
    request->operand_count = 0;
}
static void one_operand(HloInferRequest *request, void *attributes) {
    (void)attributes;
    request->operand_count = 1;
}
static void two_operands(HloInferRequest *request, void *attributes) {
    (void)attributes;
    request->operand_count = 2;
}
static void three_operands(HloInferRequest *request, void *attributes) {
    (void)attributes;
    request->operand_count = 3;
}
static void array_hint(HloInferRequest *request, void *attributes) {
    (void)attributes;
    request->hint = hlo_shape_scalar(request->arena, HLO_F32);
}
static void tuple_hint(HloInferRequest *request, void *attributes) {
    (void)attributes;
    request->hint = hlo_shape_tuple(request->arena, &request->hint, 1);
}
static void first_operand_scalar(HloInferRequest *request, void *attributes) {
    (void)attributes;
    const HloShape **operands = hlo_arena_copy(request->arena, request->operands, sizeof(*operands));
    operands[0] = hlo_shape_scalar(request->arena, HLO_F32);
    request->operands = operands;
}
static void negative_parameter(HloInferRequest *request, void *attributes) {
    (void)request;
    ((HloParameterAttributes *)attributes)->number = -1;
}
static void layout_of_another(HloInferRequest *request, void *attributes) {
    const HloShape **layouts = HLO_ARENA_NEW(request->arena, const HloShape *, 1);
    layouts[0] = hlo_shape_scalar(request->arena, HLO_S32);
    ((HloCustomCallAttributes *)attributes)->operand_layouts = (HloShapes){layouts, 1};
}
static void two_layouts(HloInferRequest *request, void *attributes) {
    layout_of_another(request, attributes);
    ((HloCustomCallAttributes *)attributes)->operand_layouts.count = 2;
}
static void no_computation(HloInferRequest *request, void *attributes) {
    (void)attributes;
    request->called = HLO_ARENA_NEW(request->arena, HloComputation *, request->called_count);
}
static void no_calls(HloInferRequest *request, void *attributes) {
    (void)attributes;
    request->called_count = 0;
}
static void no_parameter(HloInferRequest *request, void *attributes) {
    (void)attributes;
    request->called[0]->parameters.items[1] = NULL;
}
static void no_labels(HloInferRequest *request, void *attributes) {
    (void)request;
    ((HloConvolutionAttributes *)attributes)->labels = NULL;
}
static void fewer_spatial_dimensions(HloInferRequest *request, void *attributes) {
    HloConvolutionAttributes *convolution = attributes;
    HloConvolutionLabels *labels = hlo_arena_copy(request->arena, convolution->labels, sizeof(*labels));
    labels->kernel_spatial.count--;
    const HloShape **operands = hlo_arena_copy(request->arena, request->operands, 2 * sizeof(*operands));
    operands[1] = hlo_shape_array(request->arena, HLO_F32, (const int64_t[]){3, 3, 16}, 3);
    labels->kernel_input_feature = 1, labels->kernel_output_feature = 2;
    convolution->labels = labels;
    request->operands = operands;
}

static const BentCase cases[] = {
    // collectives
    {"f32[4]", "f32[8] all-gather(p0), dimensions={0}, replica_groups={{0,1}}", "", two_collective_dimensions,
     "all-gather: 2 dimensions instead of one"},
    {"f32[4]", "f32[8] all-gather(p0), dimensions={0}, replica_groups={}", "", nothing_known,
     "all-gather: the result shape cannot be inferred without the number of devices"},
    {"f32[4]", "f32[8] all-gather(p0), dimensions={0}, replica_groups={{0,1}}", "", no_operands,
     "all-gather: no operands"},
    {"s8[" IMMENSE "]", "s8[8] all-gather(p0), dimensions={0}, replica_groups={{0,1,2,3}}", "", NULL,
     "all-gather: dimension 0 overflows"},
    {"f32[4]", "f32[9] all-gather(p0), dimensions={0}, replica_groups={}", "", NULL,
     "all-gather: dimension 0 goes from size 4 to 9"},
    {"f32[7]", "f32[3] reduce-scatter(p0), dimensions={0}, replica_groups={{0,1}}, to_apply=c", ADD, NULL,
     "reduce-scatter: dimension 0 of size 7 is not divisible by 2 devices"},
    {"f32[4];f32[4]", "(f32[4], f32[4]) all-to-all(p0,p1), replica_groups={{0,1,2,3}}", "", NULL,
     "all-to-all: 2 operands for groups of 4 devices"},
    {"f32[4];f32[5]", "(f32[4], f32[5]) all-to-all(p0,p1), replica_groups={{0,1}}", "", NULL,
     "all-to-all: operands of shapes f32[4] and f32[5]"},
    {"f32[4];f32[4]", "f32[4] all-to-all(p0,p1), replica_groups={{0,1}}, dimensions={0}", "", NULL,
     "all-to-all: 2 operands with a split dimension"},
    {"f32[5]", "f32[5] all-to-all(p0), replica_groups={{0,1}}, dimensions={0}", "", NULL,
     "all-to-all: dimension 0 of size 5 is not divisible by 2 devices"},
    {"f32[4];f32[4];s32[];s32[]",
     "f32[4] collective-permute(p0,p1,p2,p3), source_target_pairs={{0,1}}, slice_sizes={{2}}", "", three_operands,
     "collective-permute: the in-place form has 4 operands, not 3"},
    {"f32[4];f32[]", "(f32[4], u32[], token[]) send(p0,p1), channel_id=1", "", NULL,
     "send: operand 1 must be a token, not f32[]"},
    {"(f32[4],u32[])", "(f32[4], token[]) recv-done(p0), channel_id=1", "", NULL,
     "recv-done: operand 0 must be (data, context, token), not (f32[4], u32[])"},
    // control
    {"pred[];f32[4];f32[4]", "f32[4] conditional(p0,p1,p2), true_computation=t, false_computation=f", BRANCHES,
     two_operands, "conditional: 1 branches"},
    {"pred[];f32[4];f32[4]", "f32[4] conditional(p0,p1,p2), true_computation=t, false_computation=f", BRANCHES,
     no_operands, "conditional: no operands"},
    {"f32[4]", "token[] after-all(p0)", "", NULL, "after-all: operand 0 must be a token, not f32[4]"},
    {"f32[4];f32[4]", "f32[4] add-dependency(p0,p1)", "", NULL,
     "add-dependency: operand 1 must be a token, not f32[4]"},
    {"f32[4]", "f32[4] custom-call(p0), custom_call_target=\"x\"", "", layout_of_another,
     "custom-call: operand 0 is f32[4], but its layout is given for s32[]"},
    {"f32[4]", "f32[4] custom-call(p0), custom_call_target=\"x\"", "", two_layouts,
     "custom-call: 2 operand layouts for 1 operands"},
    {"f32[4]", "((f32[4]), f32[4]) async-start(p0), calls=c", SAME, array_hint,
     "async-start: the result must be ((operands), result, contexts...), not f32[]"},
    {"f32[4]", "((f32[4]), f32[4]) async-start(p0), calls=c", SAME, no_calls,
     "async-start: calls 0 computations, but needs 1"},
    {"f32[4];f32[]", "f32[] reduce(p0,p1), dimensions={0}, to_apply=c", ADD, no_computation,
     "reduce: called computation 0 has no root"},
    {"f32[4];f32[]", "f32[] reduce(p0,p1), dimensions={0}, to_apply=c", ADD, no_parameter,
     "reduce: computation c has no parameter 1"},
    // data
    {"f32[4]", "f32[4] parameter(1)", "", negative_parameter, "parameter: parameter number -1"},
    {"f32[2,3]", "f32[2,3] broadcast(p0), dimensions={0,1}", "", one_permuted_dimension,
     "broadcast: 1 dimensions for f32[2,3]"},
    {"f32[2]", "f32[3,4] broadcast(p0), dimensions={0}", "", NULL,
     "broadcast: dimension 0 of f32[2] has size 2, but becomes dimension 0 of size 3"},
    {"f32[2,3]", "f32[2,3] concatenate(p0), dimensions={0}", "", two_dimensions,
     "concatenate: 2 dimensions instead of one"},
    {"f32[2,3]", "f32[2,3] concatenate(p0), dimensions={0}", "", no_operands, "concatenate: nothing to concatenate"},
    {"s8[" IMMENSE "]", "s8[8] concatenate(p0,p0,p0,p0), dimensions={0}", "", NULL,
     "concatenate: dimension 0 overflows"},
    {"f32[4];s32[]", "f32[<=4] dynamic-reshape(p0,p1)", "", no_operands, "dynamic-reshape: no operand"},
    {"f32[4];s32[]", "f32[2,2] dynamic-reshape(p0,p1)", "", NULL, "dynamic-reshape: 1 sizes for f32[2,2]"},
    {"f32[4,4];s32[];s32[]", "f32[2,2] dynamic-slice(p0,p1,p2), dynamic_slice_sizes={2,2}", "", two_operands,
     "dynamic-slice: 1 start indices for an array of rank 2"},
    {"f32[4,4];s32[];s32[]", "f32[2,2] dynamic-slice(p0,p1,p2), dynamic_slice_sizes={2,2}", "", no_operands,
     "dynamic-slice: no operand"},
    {"f32[4];f32[2];s32[]", "f32[4] dynamic-update-slice(p0,p1,p2)", "", one_operand,
     "dynamic-update-slice: 1 operands"},
    {"f32[4];f32[5];s32[]", "f32[4] dynamic-update-slice(p0,p1,p2)", "", NULL,
     "dynamic-update-slice: the update has size 5 in dimension 0, the operand only 4"},
    {"f32[4];f32[]", "f32[4] pad(p0,p1), padding=0_0_-1", "", NULL, "pad: negative interior padding -1 in dimension 0"},
    {"f32[4];f32[2]", "f32[4] pad(p0,p1), padding=0_0", "", NULL,
     "pad: the padding value must be a scalar, not f32[2]"},
    {"f32[2,3]", "f32[3,2] transpose(p0), dimensions={1,0}", "", one_permuted_dimension,
     "transpose: permutation {0} of f32[2,3]"},
    {"f32[2,3]", "s32[] get-dimension-size(p0), dimensions={0}", "", two_dimensions,
     "get-dimension-size: 2 dimensions instead of one"},
    {"s8[4294967296]", "s32[] get-dimension-size(p0), dimensions={0}", "", NULL,
     "get-dimension-size: size 4294967296 of dimension 0 does not fit in s32"},
    {"f32[4];f32[]", "f32[<=4] set-dimension-size(p0,p1), dimensions={0}", "", NULL,
     "set-dimension-size: the size must be s32[], not f32[]"},
    {"f32[]", "f32[4] rng(p0), distribution=rng_uniform", "", NULL,
     "rng: 1 parameters of the distribution instead of two"},
    {"s32[];s32[]", "s32[4] rng(p0,p1), distribution=rng_normal", "", NULL,
     "rng: normally distributed numbers of type s32"},
    {"u64[2]", "(u64[2], pred[4]) rng-bit-generator(p0), algorithm=rng_default", "", NULL,
     "rng-bit-generator: cannot generate random bits as pred[4]"},
    {"s32[2]", "(s32[2], u32[4]) rng-bit-generator(p0), algorithm=rng_default", "", NULL,
     "rng-bit-generator: the state must be u64[2] or u64[3], not s32[2]"},
    // linear algebra
    {"f32[2,3];f32[3,2]", "f32[] dot(p0,p1), lhs_contracting_dims={0,1}, rhs_contracting_dims={0}", "", NULL,
     "dot: 2 contracting dimensions of the left operand, 1 of the right"},
    {"f32[2,3];f32[3,2];u16[2]", "f32[2,2] dot(p0,p1,p2), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "", NULL,
     "dot: takes 2 operands, but has 3"},
    {"f32[4,3];f32[2,3,5];f32[2]",
     "f32[4,5] ragged-dot(p0,p1,p2), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, "
     "rhs_group_dims={0}",
     "", NULL, "ragged-dot: group sizes must be a vector of integers, not f32[2]"},
    {"f32[2,3,3];f32[4,3,1]", "f32[4,3,1] triangular-solve(p0,p1), left_side=true, transpose_a=NO_TRANSPOSE", "", NULL,
     "triangular-solve: batch dimension 0 has sizes 2 and 4"},
    {"f32[2,3];f32[3];f32[3]", "(f32[2,3], f32[3], f32[3]) batch-norm-training(p0,p1,p2), epsilon=0.1, feature_index=5",
     "", NULL, "batch-norm-training: feature_index 5 of f32[2,3]"},
    {"s32[2,3];s32[3];s32[3]", "(s32[2,3], s32[3], s32[3]) batch-norm-training(p0,p1,p2), epsilon=0.1, feature_index=1",
     "", NULL, "batch-norm-training: operand 0 must be floating point, not s32[2,3]"},
    // elements
    {"u8[5,3]", "u32[5] bitcast-convert(p0)", "", NULL,
     "bitcast-convert: 4 elements of u8 make one u32, but the last dimension is 3"},
    {"f32[4]", "f32[4] reduce-precision(p0), exponent_bits=0, mantissa_bits=7", "", NULL,
     "reduce-precision: 0 exponent and 7 mantissa bits are not enough"},
    {"f32[4]", "s32[4] convert(p0)", "", tuple_hint, "convert: the result must be an array, not (s32[4])"},
    {"f32[4]", "s32[4] convert(p0)", "", nothing_known,
     "convert: the result shape cannot be inferred from the operands and must be given"},
    // gathers, scatters, windows
    {"f32[4];f32[2,1]",
     "f32[2] gather(p0,p1), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
     "slice_sizes={1}",
     "", NULL, "gather: indices must be integers, not f32[2,1]"},
    {"f32[4];s32[2,1];f32[2]",
     "f32[4] scatter(p0,p1,p2), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
     "index_vector_dim=1, to_apply=c",
     ADD, two_operands, "scatter: 2 operands: needs as many updates as inputs, and indices"},
    {"f32[4];f32[]", "f32[] reduce(p0,p1), dimensions={0}, to_apply=c", ADD, one_operand,
     "reduce: 1 operands: needs as many initial values as arrays"},
    {"f32[4]", "f32[4] sort(p0), dimensions={0}, to_apply=c",
     "c {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t = pred[] compare(a,b), direction=LT\n}\n",
     two_sort_dimensions, "sort: 2 dimensions instead of one"},
    {"f32[4]", "f32[4] sort(p0), dimensions={0}, to_apply=c",
     "c {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t = pred[] compare(a,b), direction=LT\n}\n",
     no_operands, "sort: no operands"},
    {"f32[4];f32[]", "(f32[4], f32[]) scan(p0,p1), dimensions={0}, num_carries=1, to_apply=c",
     "c {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t = (f32[],f32[]) tuple(a,b)\n}\n",
     two_scan_dimensions, "scan: 2 dimensions instead of one"},
    {"f32[4,8,8,3];f32[3,3,3,16]", "f32[4,6,6,16] convolution(p0,p1), window={size=3x3}, dim_labels=b01f_01io->b01f",
     "", no_labels, "convolution: no dim_labels"},
    {"f32[4,8,8,3];f32[3,3,3,16]", "f32[4,6,6,16] convolution(p0,p1), window={size=3x3}, dim_labels=b01f_01io->b01f",
     "", fewer_spatial_dimensions, "convolution: 1 spatial dimensions of the kernel, 2 of the input"},
};

CaseList(ir_infer_bent, says_what_does_not_fit) {
    return cases_numbered(HLO_COUNT_OF(cases));
}

CaseTest(const int *index, ir_infer_bent, says_what_does_not_fit) {
    const BentCase *bent = &cases[*index];
    HloText text = {0};
    cases_program(&text, bent->parameters, bent->root, bent->called);
    HloModule *module = NULL;
    HloStatus status = hlo_parse(text.data, text.length, NULL, &module);
    cr_assert_null(status, "%s: %s", bent->root, hlo_status_message(status));
    const HloInstruction *root = module->entry->root;
    HloArena *arena = hlo_arena_new();
    HloInferRequest request = hlo_infer_request_of(arena, root);
    size_t bytes = hlo_family_info(hlo_op_info(root->opcode)->family)->bytes;
    void *attributes = root->attributes ? hlo_arena_copy(arena, root->attributes, bytes) : NULL;
    const HloShape *shape = NULL;
    request.attributes = attributes;
    if (bent->bend) bent->bend(&request, attributes);
    status = hlo_infer_shape(&request, &shape);
    cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "%s: %s", bent->root, hlo_status_message(status));
    cr_expect(strstr(hlo_status_message(status), bent->part), "%s: '%s' is not in '%s'", bent->root, bent->part,
              hlo_status_message(status));
    hlo_status_free(status);
    hlo_arena_free(arena);
    hlo_module_free(module);
    hlo_text_free(&text);
}

// The chain of an async op, whose first operand the parser looks into.
Test(ir_infer_bent, an_async_done_follows_a_start) {
    const char *text = "HloModule m\n" SAME
                       "ENTRY e {\n p = f32[4] parameter(0)\n s = ((f32[4]), f32[4]) async-start(p), calls=c\n"
                       " ROOT d = f32[4] async-done(s)\n}\n";
    HloModule *module = NULL;
    cr_assert_null(hlo_parse(text, strlen(text), NULL, &module));
    HloArena *arena = hlo_arena_new();
    HloInferRequest request = hlo_infer_request_of(arena, module->entry->root);
    const HloShape *shape = NULL;
    first_operand_scalar(&request, NULL);
    HloStatus status = hlo_infer_shape(&request, &shape);
    cr_expect(strstr(hlo_status_message(status), "operand 0 must be the result of an async-start, not f32[]"), "%s",
              hlo_status_message(status));
    hlo_status_free(status);
    hlo_arena_free(arena);
    hlo_module_free(module);
}

// Pairs of a transfer are text in an attribute that is parsed here for the first time.
Test(ir_infer_bent, pairs_of_a_transfer_that_are_none) {
    static const struct {
        const char *pairs;
        bool fits;
    } lists[] = {{"{}", true},        {"{{0,1}}", true},    {" { {0,1}, {1,0} } ", true},
                 {"", false},         {"{0,1}", false},     {"{{0;1}}", false},
                 {"{{0,1}", false},   {"{{0,1}} x", false}, {"{{-1,0}}", false},
                 {"{{0,-1}}", false}, {"{{a,b}}", false},   {"{{0,1},x}", false},
                 {"{{0,1}{", false},  {"{{0,}}", false}};
    for (size_t i = 0; i < HLO_COUNT_OF(lists); i++) {
        HloText text = {0};
        hlo_text_format(&text,
                        "HloModule m\nENTRY e {\n p = f32[4] parameter(0)\n t = token[] after-all()\n"
                        " s = (f32[4], u32[], token[]) send(p, t), channel_id=1, "
                        "frontend_attributes={_xla_send_recv_source_target_pairs=\"%s\"}\n"
                        " ROOT d = token[] send-done(s), channel_id=1\n}\n",
                        lists[i].pairs);
        HloModule *module = NULL;
        cr_assert_null(hlo_parse(text.data, text.length, NULL, &module));
        HloArena *arena = hlo_arena_new();
        HloTransferRoute route;
        for (int done = 0; done < 2; done++) {  // the done has the pairs of its start
            const HloInstruction *root = module->entry->root;
            HloStatus status = hlo_transfer_route(arena, done ? root : root->operands[0], &route);
            cr_expect_eq(!status, lists[i].fits, "'%s': %s", lists[i].pairs, hlo_status_message(status));
            if (status)
                cr_expect(strstr(hlo_status_message(status), "is not a list of pairs"), "%s",
                          hlo_status_message(status));
            hlo_status_free(status);
        }
        hlo_arena_free(arena);
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}

// Groups over a mesh that only memory can hold.
Test(ir_infer_bent, groups_over_a_mesh_without_devices) {
    const char *const names[] = {"x"};
    const int64_t sizes[] = {0};
    const HloAxisRef axis = {.pre_size = 1};
    const HloReplicaGroups groups = {.form = HLO_GROUPS_MESH,
                                     .mesh = {.axis_names = names, .axis_sizes = {sizes, 1}},
                                     .axes = &axis,
                                     .axis_count = 1};
    HloArena *arena = hlo_arena_new();
    const HloInts *lists;
    int64_t count;
    HloStatus status = hlo_replica_groups_expand(&groups, 4, arena, &lists, &count);
    cr_expect(strstr(hlo_status_message(status), "an axis of the replica groups' mesh has size 0"), "%s",
              hlo_status_message(status));
    hlo_status_free(status);
    hlo_arena_free(arena);
}
