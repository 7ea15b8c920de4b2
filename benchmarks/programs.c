// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "benchmarks/bench.h"
#include "hlo/base/file.h"
#include "hlo/text/text.h"

#define NETWORK MESHLO_SOURCE_DIR "/examples/mlp_gradient_8192.hlo"

// The text with each 8192 replaced by `size`: shapes and the mean's divisor alike.
static HloStatus resize(const HloFileContent *content, int64_t size, HloText *text) {
    const char *at = content->data;
    for (const char *found; (found = strstr(at, "8192")); at = found + 4) {
        hlo_text_append(text, at, (size_t)(found - at));
        hlo_text_int64(text, size);
    }
    hlo_text_string(text, at);
    return hlo_text_status(text);
}

static void drop_annotations(HloModule *module) {
    module->num_partitions = 1;
    module->frontend_attributes.count = 0;
    for (HloInstruction *at = module->entry->first; at; at = at->next) {
        at->sharding = NULL;
        at->frontend_attributes.count = 0;
    }
}

HloStatus bench_network(int64_t size, bool annotated, HloModule **module) {
    HloFileContent content;
    HloText text = {0};
    HLO_TRY(hlo_file_read(NETWORK, SIZE_MAX / 4, &content));
    HloStatus status = resize(&content, size, &text);
    if (!status) status = hlo_parse(text.data, text.length, NULL, module);
    if (!status && !annotated) drop_annotations(*module);
    hlo_text_free(&text);
    hlo_file_content_free(&content);
    return status;
}

HloStatus bench_network_partitioned(int64_t size, int64_t batch, int64_t model, HloModule **per_device) {
    static const char *const kShards[] = {"p2=-,model", "p3=model", "p4=model,-", "p8=batch,-", "p9=batch,-"};
    const SpmdMeshAxis mesh[] = {{"batch", batch}, {"model", model}};
    SpmdOptions options = {.mesh = mesh, .mesh_axis_count = 2, .shards = kShards, .shard_count = HLO_COUNT_OF(kShards)};
    HloModule *module = NULL;
    HLO_TRY(bench_network(size, false, &module));
    HloStatus status = spmd_partition(module, &options, per_device, NULL);
    hlo_module_free(module);
    return status;
}

HloStatus bench_psum(HloModule **module) {
    static const char kText[] =
        "HloModule psum, num_partitions=8\n"
        "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}\n"
        "ENTRY main {\n x = f32[8] parameter(0)\n"
        " ROOT r = f32[8] all-reduce(x), channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true, "
        "to_apply=add\n}\n";
    return hlo_parse(kText, strlen(kText), NULL, module);
}
