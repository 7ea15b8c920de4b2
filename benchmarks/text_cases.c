// SPDX-License-Identifier: Apache-2.0
// The readers and writers on the corpus of real modules (../shared/corpus, or MESHLO_SHARED), where it exists: HLO text
// in and out, and the same modules as protobuf, StableHLO text and StableHLO bytecode.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/bench.h"
#include "hlo/base/file.h"
#include "hlo/proto/proto.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/text/text.h"

// Totals over all modules.
typedef struct Totals {
    double bytes_in, seconds_in, bytes_out, seconds_out;
    double largest_ratio;  // peak memory of parsing to the text's size
    int64_t modules;
    // The writer of the format; NULL for HLO text.
    HloStatus (*write)(const HloModule *module, HloText *bytes);
    HloStatus (*read)(const char *bytes, size_t length, HloModule **module);
} Totals;

static HloStatus measure_text(const HloFileContent *content, Totals *totals) {
    HloModule *module = NULL;
    HloText text = {0};
    hlo_arena_free_kept();  // what parsing needs is new memory then
    bench_forget_peak();
    double before = bench_peak_bytes(), start = bench_seconds();
    HLO_TRY(hlo_parse(content->data, content->size, NULL, &module));
    totals->seconds_in += bench_seconds() - start;
    totals->bytes_in += (double)content->size;
    double ratio = (bench_peak_bytes() - before) / (double)content->size;
    if (content->size > 1 << 20 && ratio > totals->largest_ratio) totals->largest_ratio = ratio;
    start = bench_seconds();
    HloStatus status = hlo_print(module, NULL, &text);
    totals->seconds_out += bench_seconds() - start;
    totals->bytes_out += (double)text.length;
    ++totals->modules;
    hlo_text_free(&text);
    hlo_module_free(module);
    return status;
}

// ---- the other formats

static HloStatus write_text(const HloModule *module, HloText *bytes) {
    return hlo_module_to_stablehlo_text(module, true, bytes);
}

static HloStatus read_text(const char *bytes, size_t length, HloModule **module) {
    return hlo_module_from_stablehlo_text(bytes, length, NULL, module);
}

static HloStatus write_bytecode(const HloModule *module, HloText *bytes) {
    return hlo_module_to_stablehlo_bytecode(module, NULL, bytes);
}

static HloStatus read_bytecode(const char *bytes, size_t length, HloModule **module) {
    return hlo_module_from_stablehlo_bytecode(bytes, length, module);
}

static HloStatus read_proto(const char *bytes, size_t length, HloModule **module) {
    return hlo_module_from_proto(bytes, length, module);
}

// Skips modules that a format cannot represent (those whose constants were left out of the text).
static HloStatus measure_door(const HloFileContent *content, Totals *totals) {
    HloModule *module = NULL, *again = NULL;
    HloText bytes = {0};
    HLO_TRY(hlo_parse(content->data, content->size, NULL, &module));
    double start = bench_seconds();
    HloStatus status = totals->write(module, &bytes);
    if (!status) {
        totals->seconds_out += bench_seconds() - start;
        totals->bytes_out += (double)bytes.length;
        start = bench_seconds();
        status = totals->read(bytes.data, bytes.length, &again);
        totals->seconds_in += bench_seconds() - start;
        totals->bytes_in += (double)bytes.length;
        ++totals->modules;
        if (!status) hlo_module_free(again);
    } else {
        hlo_status_free(status);
        status = HLO_SUCCESS;
    }
    hlo_text_free(&bytes);
    hlo_module_free(module);
    return status;
}

static HloStatus measure_file(const char *path, Totals *totals) {
    HloFileContent content;
    HLO_TRY(hlo_file_read(path, SIZE_MAX / 4, &content));
    HloStatus status = totals->write ? measure_door(&content, totals) : measure_text(&content, totals);
    hlo_file_content_free(&content);
    return status;
}

static HloStatus measure_corpus(Totals *totals) {
    const char *shared = getenv("MESHLO_SHARED");
    char folder[512], path[1024];
    snprintf(folder, sizeof folder, "%s/corpus", shared ? shared : MESHLO_SOURCE_DIR "/../shared");
    DIR *directory = opendir(folder);
    HloStatus status = HLO_SUCCESS;
    for (struct dirent *entry; directory && !status && (entry = readdir(directory));) {
        if (!strstr(entry->d_name, ".hlo")) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        status = measure_file(path, totals);
    }
    if (directory) closedir(directory);
    return status;
}

HloStatus bench_text_in(BenchResult *result) {
    Totals totals = {0};
    HLO_TRY(measure_corpus(&totals));
    result->skipped = totals.modules == 0;
    result->value = totals.bytes_in / totals.seconds_in * 1e-6;
    return HLO_SUCCESS;
}

HloStatus bench_text_out(BenchResult *result) {
    Totals totals = {0};
    HLO_TRY(measure_corpus(&totals));
    result->skipped = totals.modules == 0;
    result->value = totals.bytes_out / totals.seconds_out * 1e-6;
    return HLO_SUCCESS;
}

HloStatus bench_text_memory(BenchResult *result) {
    Totals totals = {0};
    HLO_TRY(measure_corpus(&totals));
    result->skipped = totals.modules == 0;
    result->value = totals.largest_ratio;
    return HLO_SUCCESS;
}

static HloStatus report(Totals totals, bool in, BenchResult *result) {
    HLO_TRY(measure_corpus(&totals));
    result->skipped = totals.modules == 0;
    result->value = (in ? totals.bytes_in / totals.seconds_in : totals.bytes_out / totals.seconds_out) * 1e-6;
    return HLO_SUCCESS;
}

HloStatus bench_proto_in(BenchResult *result) {
    return report((Totals){.write = hlo_module_to_proto, .read = read_proto}, true, result);
}

HloStatus bench_proto_out(BenchResult *result) {
    return report((Totals){.write = hlo_module_to_proto, .read = read_proto}, false, result);
}

HloStatus bench_stablehlo_in(BenchResult *result) {
    return report((Totals){.write = write_text, .read = read_text}, true, result);
}

HloStatus bench_bytecode_in(BenchResult *result) {
    return report((Totals){.write = write_bytecode, .read = read_bytecode}, true, result);
}
