// SPDX-License-Identifier: Apache-2.0
// bobbin, "How to use tpmap", in C: arguments that are broadcast, sharded, or random keys of their own for each device.
//
// A matrix product with noise runs on eight TPU cores, a part of the batch and a key on each; then each device rolls
// ten dice, and the copies of a variable on all devices are compared.
#include <stdio.h>
#include <string.h>

#include "example.h"

enum { kDevices = 8, kBatch = 16, kInputs = 8, kOutputs = 5, kRolls = 10 };

// xs · matrix + 0.1 · noise, and the number of the device that did it.
static HloStatus build_matmul(HloModule *module) {
    HloBuilder *b = hlo_builder_new(module, "data_parallel_noisy_matmul");
    HloInstruction *matrix = hlo_build_parameter(b, 0, HLO_F32, HLO_DIMS(kInputs, kOutputs), "matrix");
    HloInstruction *xs = hlo_build_parameter(b, 1, HLO_F32, HLO_DIMS(kBatch / kDevices, kInputs), "xs");
    HloInstruction *key = hlo_build_parameter(b, 2, HLO_U32, HLO_DIMS(2), "key");
    HloInstruction *noise = hlo_random_normal(b, HLO_RANDOM_ORIGINAL, key, HLO_F32, HLO_DIMS(1, kOutputs));
    noise = hlo_build_mul(b, noise, hlo_build_splat_like(b, noise, 0.1));
    HloInstruction *product = hlo_build_matmul(b, xs, matrix);
    HloInstruction *results[] = {
        hlo_build_add(b, product, hlo_build_broadcast_to(b, noise, HLO_DIMS(kBatch / kDevices, kOutputs))),
        hlo_build_replica_id(b),
    };
    return hlo_builder_finish_entry(b, hlo_build_tuple(b, results, 2));
}

// How often a six came up in kRolls dice.
static HloStatus build_dice(HloModule *module, HloRandomForm form) {
    HloBuilder *b = hlo_builder_new(module, "roll_dice");
    HloInstruction *key = hlo_build_parameter(b, 0, HLO_U32, HLO_DIMS(2), "key");
    HloInstruction *rolls = hlo_random_integers(b, form, key, HLO_S32, HLO_DIMS(kRolls), 1, 7);
    HloInstruction *sixes =
        hlo_build_compare(b, rolls, hlo_build_splat(b, HLO_S32, HLO_DIMS(kRolls), 6), HLO_ComparisonDirection_EQ);
    HloInstruction *count = hlo_build_reduce_op(b, HLO_OP_ADD, hlo_build_convert(b, sixes, HLO_F32), HLO_DIMS(0));
    return hlo_builder_finish_entry(b, count);
}

// One key a device, split from PRNGKey(0).
static HloStatus split_keys(TargetClient *client, HloRandomForm form, HloLiteral **keys) {
    HloModule *module = hlo_module_new("keys");
    TargetProgram *program = NULL;
    HLO_FAIL_IF(!module, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloBuilder *b = hlo_builder_new(module, "main");
    HloStatus status = hlo_builder_finish_entry(b, hlo_random_split(b, form, hlo_random_key(b, 0), kDevices));
    if (!status) status = target_program_new(client, module, NULL, &program);
    if (!status) status = target_program_call(program, NULL, 0, keys);
    target_program_free(program);
    hlo_module_free(module);
    return status;
}

// Numbers like np.random's, made plainly: what they are does not matter here.
static HloLiteral *make_numbers(int64_t rows, int64_t columns) {
    HloLiteral *literal = hlo_literal_of(HLO_F32, HLO_DIMS(rows, columns), NULL);
    for (int64_t i = 0; literal && i < rows * columns; i++)
        hlo_literal_set_double(literal, i, (double)(i * 7919 % 101) / 50 - 1);
    return literal;
}

// argtypes=("broadcast", "shard", "rng"), wrap_return=reshape to (16, 5).
static HloStatus run_matmul(Pmap *f, const HloLiteral *keys) {
    const int64_t rows = kBatch / kDevices;
    HloLiteral *matrix = make_numbers(kInputs, kOutputs), *data = make_numbers(kBatch, kInputs), *all = NULL,
               *ids = NULL;
    HLO_FAIL_IF(!matrix || !data, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloLiteral *split = hlo_literal_of(HLO_F32, HLO_DIMS(kDevices, rows, kInputs), data->data);
    HLO_FAIL_IF(!split, HLO_RESOURCE_EXHAUSTED, "out of memory");
    PmapArray arguments[3], results[2];
    HLO_TRY(pmap_replicate(f, matrix, &arguments[0]));
    HLO_TRY(pmap_shard(f, split, &arguments[1]));
    HLO_TRY(pmap_shard(f, keys, &arguments[2]));
    HLO_TRY(pmap_run(f, arguments, 3, results, 2));
    HLO_TRY(pmap_gather(&results[0], &all));
    HLO_TRY(pmap_gather(&results[1], &ids));
    for (int64_t d = 0; d < kDevices; d++) {
        const HloShape *part = target_buffer_shape(arguments[1].rows[d]);
        printf("device %lld: parameter (%d, %d), data (%lld, %lld)\n", (long long)hlo_literal_get_int64(ids, d),
               kInputs, kOutputs, (long long)part->dims[0], (long long)part->dims[1]);
    }
    HloLiteral *result = hlo_literal_of(HLO_F32, HLO_DIMS(kBatch, kOutputs), all->data);
    HLO_FAIL_IF(!result, HLO_RESOURCE_EXHAUSTED, "out of memory");
    printf("Result shape = (%lld, %lld)\n", (long long)result->shape->dims[0], (long long)result->shape->dims[1]);
    HloLiteral *literals[] = {matrix, data, split, all, ids, result};
    for (size_t i = 0; i < sizeof literals / sizeof literals[0]; i++) hlo_literal_free(literals[i]);
    for (int i = 0; i < 3; i++) pmap_release(&arguments[i]);
    for (int i = 0; i < 2; i++) pmap_release(&results[i]);
    return HLO_SUCCESS;
}

// unshard: one result a device.
static HloStatus run_dice(Pmap *f, const HloLiteral *keys) {
    PmapArray argument, result;
    HloLiteral *counts = NULL;
    HLO_TRY(pmap_shard(f, keys, &argument));
    HLO_TRY(pmap_run(f, &argument, 1, &result, 1));
    HLO_TRY(pmap_gather(&result, &counts));
    printf("six_count");
    for (int64_t d = 0; d < kDevices; d++) printf(" %g", hlo_literal_get_double(counts, d));
    putchar('\n');
    for (int64_t d = 0; d < kDevices; d++) {
        double rate = hlo_literal_get_double(counts, d) / kRolls;
        if (rate > 0.3)
            printf("Device #%lld was lucky! six-rate=%.0f%%!!\n", (long long)d, 100 * rate);
        else
            printf("Device #%lld is normal.\n", (long long)d);
    }
    hlo_literal_free(counts);
    pmap_release(&argument);
    pmap_release(&result);
    return HLO_SUCCESS;
}

// assert_replica_integrity: all devices hold the same bits.
static HloStatus check_replicas(const char *title, const PmapArray *array) {
    HloLiteral *all = NULL;
    HLO_TRY(pmap_gather(array, &all));
    int64_t bytes = hlo_shape_bytes(all->shape) / array->count;
    bool same = true;
    for (int64_t d = 1; d < array->count; d++)
        same = same && !memcmp(all->data, (const char *)all->data + d * bytes, (size_t)bytes);
    printf("%s: replicas %s\n", title, same ? "agree" : "differ");
    hlo_literal_free(all);
    return HLO_SUCCESS;
}

static HloStatus run_integrity(Pmap *f, const HloLiteral *keys) {
    PmapArray copies, own;
    HloLiteral *key = hlo_literal_of(HLO_U32, HLO_DIMS(2), keys->data);
    HLO_FAIL_IF(!key, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HLO_TRY(pmap_replicate(f, key, &copies));
    HLO_TRY(check_replicas("one key for all", &copies));
    HLO_TRY(pmap_shard(f, keys, &own));
    HLO_TRY(check_replicas("a key for each", &own));
    hlo_literal_free(key);
    pmap_release(&copies);
    pmap_release(&own);
    return HLO_SUCCESS;
}

// Builds one of the programs, compiles it for all devices and runs it on the keys.
static HloStatus with_module(TargetClient *client, HloModule *module, HloStatus built,
                             HloStatus (*run)(Pmap *, const HloLiteral *), const HloLiteral *keys) {
    Pmap *pmap = NULL;
    HloStatus status = built;
    if (!status) status = pmap_new(client, module, &pmap);
    if (!status) status = run(pmap, keys);
    pmap_free(pmap);
    hlo_module_free(module);
    return status;
}

static HloModule *new_module(const char *name) {
    HloModule *module = hlo_module_new(name);
    if (module) module->replica_count = kDevices;
    return module;
}

static HloStatus run(TargetClient *client, HloLiteral *keys[2]) {
    HloModule *matmul = new_module("matmul"), *dice[2] = {new_module("dice"), new_module("dice")};
    HLO_FAIL_IF(!matmul || !dice[0] || !dice[1], HLO_RESOURCE_EXHAUSTED, "out of memory");
    for (int form = 0; form < 2; form++) HLO_TRY(split_keys(client, (HloRandomForm)form, &keys[form]));
    HLO_TRY(with_module(client, matmul, build_matmul(matmul), run_matmul, keys[HLO_RANDOM_ORIGINAL]));
    printf("\nten dice on each device, keys and numbers as JAX drew them before 0.5\n");
    HLO_TRY(
        with_module(client, dice[0], build_dice(dice[0], HLO_RANDOM_ORIGINAL), run_dice, keys[HLO_RANDOM_ORIGINAL]));
    printf("\nthe same as JAX draws them now\n");
    HLO_TRY(with_module(client, dice[1], build_dice(dice[1], HLO_RANDOM_PARTITIONABLE), run_dice,
                        keys[HLO_RANDOM_PARTITIONABLE]));
    HloModule *again = new_module("dice");
    HLO_FAIL_IF(!again, HLO_RESOURCE_EXHAUSTED, "out of memory");
    putchar('\n');
    return with_module(client, again, build_dice(again, HLO_RANDOM_ORIGINAL), run_integrity, keys[HLO_RANDOM_ORIGINAL]);
}

int main(void) {
    TargetClient *client = NULL;
    HloLiteral *keys[2] = {0};
    HloStatus status = target_client_new("v2-8", &client);
    if (!status) status = run(client, keys);
    for (int i = 0; i < 2; i++) hlo_literal_free(keys[i]);
    target_client_release(client);
    return example_end(status);
}
