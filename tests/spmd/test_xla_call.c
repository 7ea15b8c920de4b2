// SPDX-License-Identifier: Apache-2.0
// Custom calls that XLA's partitioner alone knows.
#include <criterion/criterion.h>

#include "hlo/eval/eval.h"
#include "hlo/hlo.h"
#include "spmd_partitioner/flatten.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"

// A call on %x, a sharding of which the sizes are a part, and what computes the same.
typedef struct Call {
    const char *call, *same;
} Call;

#define CALL(Target, Options) \
    "custom-call(x), custom_call_target=\"_SPMDInternalOp_" Target "\", backend_config=\"" Options "\""
#define PARTS(First, Last)                                                                                         \
    " a = f32[" #Last ",3] slice(x), slice={[0:" #Last "],[0:3]}\n b = f32[" #First ",3] slice(x), slice={[" #Last \
    ":10],[0:3]}\n s = f32[10,3] concatenate(b, a), dimensions={0}\n"

static const Call calls[] = {
    {" c = f32[10,3] " CALL("RotateRight", "dimension=0,amount=1"), PARTS(1, 9)},
    {" c = f32[10,3] " CALL("RotateRight", "dimension=0,amount=37"), PARTS(7, 3)},
    {" c = f32[10,3] " CALL("RotateRight", "dimension=0,amount=20"), " s = f32[10,3] copy(x)\n"},
    {" t = (f32[10,3], f32[10,3], f32[10,3], f32[10,3]) " CALL(
         "MultiRotate", "dimension=0,left_amount=2,right_amount=1") "\n c = f32[10,3] get-tuple-element(t), index=0",
     PARTS(8, 2)},
    {" t = (f32[10,3], f32[10,3], f32[10,3], f32[10,3]) " CALL(
         "MultiRotate", "dimension=0,left_amount=2,right_amount=1") "\n c = f32[10,3] get-tuple-element(t), index=3",
     PARTS(1, 9)},
    {" w = f32[13,3] " CALL(
         "Wrap", "dimension=0,left_amount=2,right_amount=1") "\n c = f32[10,3] slice(w), slice={[3:13],[0:3]}",
     PARTS(9, 1)},
    {" w = f32[30,3] " CALL(
         "Wrap", "dimension=0,left_amount=10,right_amount=10") "\n c = f32[10,3] slice(w), slice={[17:27],[0:3]}",
     PARTS(3, 7)},
    {" t = (f32[8,3], f32[8,3], f32[8,3]) " CALL("MultiSlice",
                                                 "dimension=0,amount=2,start_indices=[0,0],limit_indices=[8,3],strides="
                                                 "[1,1],bufferize=0") "\n"
                                                                      " o = f32[8,3] get-tuple-element(t), index=2\n z "
                                                                      "= f32[] constant(7)\n c = f32[10,3] pad(o, z), "
                                                                      "padding=0_2x0_0",
     " a = f32[8,3] slice(x), slice={[2:10],[0:3]}\n s = f32[10,3] pad(a, z), padding=0_2x0_0\n"},
    {" t = (f32[4,3], f32[4,3]) " CALL("MultiSlice",
                                       "dimension=0,amount=1,start_indices=[1,0],limit_indices=[9,3],strides=[2,1],"
                                       "bufferize=1") "\n"
                                                      " o = f32[4,3] get-tuple-element(t), index=1\n z = f32[] "
                                                      "constant(7)\n c = f32[10,3] pad(o, z), padding=0_6x0_0",
     " a = f32[4,3] slice(x), slice={[2:10:2],[0:3]}\n s = f32[10,3] pad(a, z), padding=0_6x0_0\n"},
    {" z = f32[] constant(7)\n t = (f32[13,3], f32[13,3], f32[13,3]) custom-call(x, z), "
     "custom_call_target=\"_SPMDInternalOp_MultiPad\", backend_config=\"dimension=0,amt=2,bufferize=0\"\n"
     " o = f32[13,3] get-tuple-element(t), index=0\n c = f32[10,3] slice(o), slice={[1:11],[0:3]}",
     " a = f32[11,3] pad(x, z), padding=1_0x0_0\n s = f32[10,3] slice(a), slice={[0:10],[0:3]}\n"},
    {" z = f32[] constant(7)\n t = (f32[13,3], f32[13,3], f32[13,3]) custom-call(x, z), "
     "custom_call_target=\"_SPMDInternalOp_MultiPad\", backend_config=\"dimension=0,amt=2,bufferize=0\"\n"
     " o = f32[13,3] get-tuple-element(t), index=2\n c = f32[10,3] slice(o), slice={[3:13],[0:3]}",
     " a = f32[13,3] pad(x, z), padding=0_3x0_0\n s = f32[10,3] slice(a), slice={[3:13],[0:3]}\n"},
};

CaseList(xla_call, rotations) {
    return cases_numbered(HLO_COUNT_OF(calls));
}

// The call is compared with what computes the same, whole and in parts.
CaseTest(const int *number, xla_call, rotations) {
    static const char *const shardings[] = {"devices=[4,1]<=[4]", "devices=[2,2]<=[4]", "devices=[1,4]<=[4]"};
    for (size_t i = 0; i < HLO_COUNT_OF(shardings); i++) {
        HloText text = {0};
        hlo_text_format(&text,
                        "HloModule m, num_partitions=4\nENTRY e {\n x = f32[10,3] parameter(0), sharding={%s}\n%s\n%s"
                        " ROOT d = pred[10,3] compare(c, s), direction=EQ, sharding={%s}\n}\n",
                        shardings[i], calls[*number].call, calls[*number].same, shardings[i]);
        HloModule *module = parse_text(text.data);
        HloArena *scratch = hlo_arena_new();
        cr_assert(spmd_needs_flattening(module));
        cr_assert_null(spmd_flatten(module, scratch));
        HloText flat = {0};
        cr_assert_null(hlo_print(module, NULL, &flat));
        cr_expect_null(hlo_verify(module));
        check_partitioned(flat.data, NULL, 3);
        HloLiteral *argument = hlo_literal_new(module->entry->parameters.items[0]->shape), *result = NULL;
        for (int64_t e = 0; e < 30; e++) hlo_literal_set_double(argument, e, (double)e);
        cr_assert_null(hlo_evaluate(module, (const HloLiteral *const[]){argument}, 1, NULL, &result));
        for (int64_t e = 0; e < 30; e++)
            cr_expect_eq(hlo_literal_get_int64(result, e), 1, "element %lld", (long long)e);
        hlo_literal_free(argument);
        hlo_literal_free(result);
        hlo_text_free(&flat);
        hlo_text_free(&text);
        hlo_arena_free(scratch);
        hlo_module_free(module);
    }
}

// Amounts and shapes that do not fit are left alone: the call stays, and each device makes all of it.
static const char *const others[] = {
    " ROOT c = f32[10,3] " CALL("RotateRight", "dimension=2,amount=1"),
    " ROOT c = f32[10,3] " CALL("RotateRight", "dimension=0,amount=-1"),
    " ROOT c = f32[10,3] " CALL("RotateRight", "amount=1"),
    " ROOT c = (f32[9,3], f32[9,3], f32[9,3]) " CALL(
        "MultiSlice", "dimension=0,amount=2,start_indices=[0,0],limit_indices=[9,3],strides=[1,1]"),
    " ROOT c = (f32[8,3], f32[8,3]) " CALL("MultiSlice",
                                           "dimension=0,amount=1,start_indices=[0],limit_indices=[8],strides=[1]"),
    " ROOT c = (f32[8,3], f32[8,3]) " CALL("MultiPad", "dimension=0,amt=1"),
    " ROOT c = f32[12,3] " CALL("Wrap", "dimension=0,left_amount=2,right_amount=1"),
    " ROOT c = f32[21,3] " CALL("Wrap", "dimension=0,left_amount=11,right_amount=0"),
    " ROOT c = (f32[10,3], f32[10,3]) " CALL("MultiRotate", "dimension=0,left_amount=2,right_amount=1"),
};

CaseList(xla_call, others) {
    return cases_numbered(HLO_COUNT_OF(others));
}

CaseTest(const int *number, xla_call, others) {
    HloText text = {0};
    hlo_text_format(&text, "HloModule m, num_partitions=4\nENTRY e {\n x = f32[10,3] parameter(0)\n%s\n}\n",
                    others[*number]);
    HloModule *module = parse_text(text.data);
    for (const HloInstruction *at = module->entry->first; at; at = at->next) cr_expect_not(spmd_is_xla_call(at));
    hlo_module_free(module);
    hlo_text_free(&text);
}

// Products with a scale for each block are partitioned like other products.
static const SentBytes products[] = {
    {"rows of one side",
     "HloModule m, num_partitions=2\nENTRY e {\n a = f8e4m3fn[4,64] parameter(0), sharding={devices=[2,1]<=[2]}\n"
     " b = f8e4m3fn[6,64] parameter(1)\n s = f8e5m2[4,2] parameter(2), sharding={devices=[2,1]<=[2]}\n"
     " t = f8e5m2[6,2] parameter(3)\n ROOT c = f32[4,6] custom-call(a, b, s, t), "
     "custom_call_target=\"__op$block_scaled_dot\", sharding={devices=[2,1]<=[2]}\n}\n",
     0},
    {"batches",
     "HloModule m, num_partitions=2\nENTRY e {\n a = f8e4m3fn[2,4,64] parameter(0), sharding={devices=[2,1,1]<=[2]}\n"
     " b = f8e4m3fn[2,6,64] parameter(1), sharding={devices=[2,1,1]<=[2]}\n"
     " s = f8e5m2[2,4,2] parameter(2), sharding={devices=[2,1,1]<=[2]}\n"
     " t = f8e5m2[2,6,2] parameter(3), sharding={devices=[2,1,1]<=[2]}\n"
     " ROOT c = f32[2,4,6] custom-call(a, b, s, t), custom_call_target=\"__op$block_scaled_dot\", "
     "sharding={devices=[2,1,1]<=[2]}\n}\n",
     0},
};

CaseList(xla_call, products) {
    return cases_numbered(HLO_COUNT_OF(products));
}

CaseTest(const int *number, xla_call, products) {
    HloModule *module = parse_text(products[*number].text), *partitioned;
    SpmdReport *report;
    cr_assert_null(spmd_partition(module, NULL, &partitioned, &report));
    cr_expect_eq(report->total_bytes_per_device, products[*number].bytes);
    cr_expect(hlo_is(partitioned->entry->root, HLO_OP_SCALED_DOT));
    spmd_report_free(report);
    hlo_module_free(partitioned);
    HloArena *scratch = hlo_arena_new();
    cr_assert_null(spmd_flatten(module, scratch));
    HloText flat = {0};
    cr_assert_null(hlo_print(module, NULL, &flat));
    check_partitioned(flat.data, NULL, 5);
    hlo_text_free(&flat);
    hlo_arena_free(scratch);
    hlo_module_free(module);
}

// Shards choose first where an annotation asks for a sharding of the call's results, too: two of them send 128 bytes of
// values and as much of places. Rows would send 512 bytes before.
Test(xla_call, an_annotated_top_k_chooses_in_each_shard) {
    expect_bytes(&(SentBytes){
        "top-k",
        "HloModule m, num_partitions=2\n"
        "greater {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
        " ROOT c = pred[] compare(a, b), direction=GT, type=TOTALORDER\n}\n"
        "ENTRY e {\n p = f32[8,64] parameter(0), sharding={devices=[1,2]<=[2]}\n"
        " ROOT t = (f32[8,4], s32[8,4]) custom-call(p), custom_call_target=\"TopK\", called_computations={greater}, "
        "sharding={{devices=[1,2]<=[2]}, {devices=[1,2]<=[2]}}\n}\n",
        256});
}
