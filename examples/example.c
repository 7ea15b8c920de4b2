// SPDX-License-Identifier: Apache-2.0
#include "example.h"

#include <stdio.h>
#include <string.h>

int example_end(HloStatus status) {
    if (!status) return 0;
    char *message = hlo_status_to_text(status);
    fputs(message ? message : "error: out of memory\n", stderr);
    hlo_free(message);
    hlo_status_free(status);
    return 1;
}

void example_print(const char *title, const char *format, const HloLiteral *array) {
    int64_t count = hlo_shape_elements(array->shape);
    int64_t row = array->shape->rank ? array->shape->dims[array->shape->rank - 1] : 1;
    printf("%s\n", title);
    for (int64_t i = 0; i < count; i++) {
        fputs(i % row ? " " : "  ", stdout);
        printf(format, hlo_literal_get_double(array, i));
        if ((i + 1) % row == 0) putchar('\n');
    }
}

HloStatus example_draw(const char *title, const TargetArray *array) {
    HloText text = {0};
    HLO_TRY(target_array_draw(array, &text));
    printf("%s\n%s\n", title, text.data);
    hlo_text_free(&text);
    return HLO_SUCCESS;
}

// ---- pmap

struct Pmap {
    TargetExecutable *executable;
    int64_t devices;
};

HloStatus pmap_new(TargetClient *client, const HloModule *module, Pmap **result) {
    int64_t devices = module->replica_count;
    HLO_FAIL_IF(devices > 8 || devices > target_client_device_count(client), HLO_INVALID_ARGUMENT,
                "compiling computation that requires %lld devices, but only %lld are there", (long long)devices,
                (long long)target_client_device_count(client));
    Pmap *pmap = hlo_allocate_zeroed(1, sizeof *pmap);
    HLO_FAIL_IF(!pmap, HLO_RESOURCE_EXHAUSTED, "out of memory");
    pmap->devices = devices;
    TargetCompileOptions options = {.replica_count = devices};
    HloStatus status = target_compile(client, module, &options, &pmap->executable);
    if (status)
        pmap_free(pmap);
    else
        *result = pmap;
    return status;
}

void pmap_free(Pmap *pmap) {
    if (pmap) target_executable_release(pmap->executable);
    hlo_free(pmap);
}

// Device d gets the array at `data` + d * `stride` bytes.
static HloStatus place_rows(Pmap *pmap, const HloLiteral *array, HloInts dims, int64_t stride, PmapArray *result) {
    *result = (PmapArray){.count = pmap->devices};
    for (int64_t d = 0; d < pmap->devices; d++) {
        TargetHostArray row = {(const char *)array->data + d * stride, array->shape->type, dims.count, dims.items,
                               NULL};
        TargetMemory *memory = target_device_default_memory(target_executable_device(pmap->executable, d));
        HLO_TRY(target_buffer_from_host(&row, memory, &result->rows[d]));
    }
    return HLO_SUCCESS;
}

HloStatus pmap_shard(Pmap *pmap, const HloLiteral *array, PmapArray *result) {
    const HloShape *shape = array->shape;
    *result = (PmapArray){0};
    HLO_FAIL_IF(shape->rank < 1 || shape->dims[0] != pmap->devices, HLO_INVALID_ARGUMENT,
                "the leading dimension must be the number of devices, %lld", (long long)pmap->devices);
    return place_rows(pmap, array, (HloInts){shape->dims + 1, shape->rank - 1}, hlo_shape_bytes(shape) / pmap->devices,
                      result);
}

HloStatus pmap_replicate(Pmap *pmap, const HloLiteral *array, PmapArray *result) {
    return place_rows(pmap, array, hlo_shape_dims(array->shape), 0, result);
}

HloStatus pmap_run(Pmap *pmap, const PmapArray *arguments, int64_t argument_count, PmapArray *results,
                   int64_t result_count) {
    enum { kMost = 8 };
    TargetBuffer *inputs[kMost][kMost], *outputs[kMost][kMost] = {{0}}, **input_rows[kMost], **output_rows[kMost];
    HLO_FAIL_IF(argument_count > kMost || result_count != target_executable_result_count(pmap->executable) ||
                    result_count > kMost,
                HLO_INVALID_ARGUMENT, "wrong number of arguments or results");
    for (int64_t d = 0; d < pmap->devices; d++) {
        for (int64_t i = 0; i < argument_count; i++) inputs[d][i] = arguments[i].rows[d];
        input_rows[d] = inputs[d];
        output_rows[d] = outputs[d];
    }
    HLO_TRY(target_execute(pmap->executable, NULL, (TargetBuffer *const *const *)input_rows, argument_count,
                           (TargetBuffer * *const *)output_rows, NULL));
    for (int64_t i = 0; i < result_count; i++) {
        results[i].count = pmap->devices;
        for (int64_t d = 0; d < pmap->devices; d++) results[i].rows[d] = outputs[d][i];
    }
    return HLO_SUCCESS;
}

HloStatus pmap_gather(const PmapArray *array, HloLiteral **result) {
    const HloShape *row = target_buffer_shape(array->rows[0]);
    int64_t dims[9] = {array->count}, bytes = hlo_shape_bytes(row);
    HLO_FAIL_IF(row->rank > 8, HLO_INVALID_ARGUMENT, "too many dimensions");
    for (int64_t i = 0; i < row->rank; i++) dims[i + 1] = row->dims[i];
    HloLiteral *all = hlo_literal_of(row->type, (HloInts){dims, row->rank + 1}, NULL);
    HLO_FAIL_IF(!all, HLO_RESOURCE_EXHAUSTED, "out of memory");
    HloStatus status = HLO_SUCCESS;
    for (int64_t d = 0; d < array->count && !status; d++)
        status = target_buffer_to_host(array->rows[d], (char *)all->data + d * bytes, bytes, NULL);
    if (status)
        hlo_literal_free(all);
    else
        *result = all;
    return status;
}

void pmap_release(PmapArray *array) {
    for (int64_t d = 0; d < array->count; d++) target_buffer_release(array->rows[d]);
    *array = (PmapArray){0};
}
