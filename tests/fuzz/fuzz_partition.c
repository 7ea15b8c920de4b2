// SPDX-License-Identifier: Apache-2.0
// Any bytes as HLO text: a program that is accepted and verifies is partitioned without harm, by its own annotations or
// by some that follow from the bytes; the result verifies and, where the program is small and of integers, computes the
// same.
#include "hlo/verify/verify.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/oracle.h"
#include "tests/support/partitioned.h"
#include "tests/support/random.h"

enum { MOST_DEVICES = 8, MOST_SHARDS = 8, MOST_PARAMETERS = 64, SPEC_LENGTH = 96 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Shardings of parameters on a small mesh, as the command line takes them.
typedef struct Cut {
    SpmdMeshAxis mesh[2];
    char specs[MOST_SHARDS][SPEC_LENGTH];
    const char *shards[MOST_SHARDS];
    SpmdOptions options;
} Cut;

static void append(char *spec, const char *item) {
    const size_t length = strlen(spec);
    snprintf(spec + length, SPEC_LENGTH - length, "%s", item);
}

// p3=x,-,?: each axis at most once.
static void choose_spec(char *spec, int64_t parameter, int64_t rank, Random *random) {
    static const char *const items[] = {"-", "?", "x", "y", "x+y", "y+x"};
    bool used = false;
    snprintf(spec, SPEC_LENGTH, "p%d=", (int)parameter);
    for (int64_t d = 0; d < rank; d++) {
        const uint64_t item = random_under(random, used ? 2 : HLO_COUNT_OF(items));
        used |= item >= 2;
        if (d) append(spec, ",");
        append(spec, items[item]);
    }
}

static void choose_cut(Cut *cut, const HloModule *module, Random *random) {
    cut->mesh[0] = (SpmdMeshAxis){"x", 1 + (int64_t)random_under(random, 3)};
    cut->mesh[1] = (SpmdMeshAxis){"y", 1 + (int64_t)random_under(random, 2)};
    for (int64_t p = 0; p < module->entry->parameters.count && cut->options.shard_count < MOST_SHARDS; p++) {
        const HloShape *shape = module->entry->parameters.items[p]->shape;
        if (!hlo_shape_is_array(shape) || shape->rank == 0 || shape->rank > 16 || !random_under(random, 3)) continue;
        const int64_t number = cut->options.shard_count++;
        choose_spec(cut->specs[number], p, shape->rank, random);
        cut->shards[number] = cut->specs[number];
    }
    cut->options.mesh = cut->mesh;
    cut->options.mesh_axis_count = 2;
    cut->options.shards = cut->shards;
}

// Both forms can run: parameters are arrays of known sizes, and the program is not that of one device already.
static bool can_compare(const HloModule *module, const FuzzSize *size) {
    if (!size->small || !size->exact || module->replica_count > 1 || spmd_is_partitioned(module)) return false;
    if (module->entry->parameters.count > MOST_PARAMETERS || hlo_shape_is_dynamic(module->entry->root->shape))
        return false;
    for (int64_t p = 0; p < module->entry->parameters.count; p++) {
        const HloShape *shape = module->entry->parameters.items[p]->shape;
        if (!hlo_shape_is_array(shape) || hlo_shape_is_dynamic(shape) || shape->rank > 16) return false;
    }
    return true;
}

static void check(const HloModule *module, const FuzzSize *size, const SpmdOptions *options, const HloText *text) {
    bool refused = false;
    char *problem = NULL;
    HloModule *partitioned = NULL;
    if (can_compare(module, size)) {
        problem = partitioned_difference(module, options, 1, &refused);
    } else {
        HloStatus status = spmd_partition(module, options, &partitioned, NULL);
        if (!status) FUZZ_MUST(hlo_verify(partitioned), text);
        hlo_status_free(status);
    }
    if (problem && !refused) {
        fprintf(stderr, "%s\nof the program, with mesh x=%lld,y=%lld", problem,
                options->mesh ? (long long)options->mesh[0].size : 0LL,
                options->mesh ? (long long)options->mesh[1].size : 0LL);
        for (int64_t i = 0; i < options->shard_count; i++) fprintf(stderr, " %s", options->shards[i]);
        fprintf(stderr, "\n%.*s\n", (int)text->length, text->data);
        abort();
    }
    hlo_free(problem);
    hlo_module_free(partitioned);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    HloModule *module = NULL;
    const HloText text = {.data = (char *)(uintptr_t)data, .length = size};
    HloStatus status = hlo_parse((const char *)data, size, &(HloParseOptions){.elided = HLO_ELIDED_FILL}, &module);
    if (!status) status = hlo_verify(module);
    if (!status) {
        const FuzzSize kind = fuzz_size(module);
        Random random = {size};
        for (size_t i = 0; i < size; i++) random.state = random.state * 31 + data[i];
        Cut cut = {0};
        if (!kind.is_annotated || !random_under(&random, 4)) choose_cut(&cut, module, &random);
        if (kind.devices <= MOST_DEVICES) check(module, &kind, &cut.options, &text);
    }
    hlo_status_free(status);
    hlo_module_free(module);
    return 0;
}
