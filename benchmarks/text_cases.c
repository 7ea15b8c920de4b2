// SPDX-License-Identifier: Apache-2.0
// Text in and out over the corpus of real modules (../shared/corpus, or MESHLO_SHARED), where it is there.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/bench.h"
#include "hlo/base/file.h"
#include "hlo/text/text.h"

// Totals over all modules.
typedef struct Totals {
    double bytes_in, seconds_in, bytes_out, seconds_out;
    double largest_ratio;  // peak memory of parsing to the text's size
    int64_t modules;
} Totals;

static HloStatus measure_text(const HloFileContent *content, Totals *totals) {
    HloModule *module = NULL;
    HloText text = {0};
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

static HloStatus measure_file(const char *path, Totals *totals) {
    HloFileContent content;
    HLO_TRY(hlo_file_read(path, SIZE_MAX / 4, &content));
    HloStatus status = measure_text(&content, totals);
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
