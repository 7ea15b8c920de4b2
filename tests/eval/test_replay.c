// SPDX-License-Identifier: Apache-2.0
// Dumps of a TPU compiler give the numbers of the program that they came from: the tutorial network's gradient, data
// parallel on 8 devices (where the shared corpus is), against examples/mlp_gradient_8192.hlo, both shrunk by name of
// their dimensions, under the numerics of a TPU.
#include <criterion/criterion.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/file.h"
#include "hlo/base/text.h"
#include "tests/eval/run.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

#define DEVICES 8
#define PARAMETERS 10  // four weights and biases, then the batch's inputs and labels

// Sizes inside [..] after a type's name: 8192 becomes 64, and an eighth of it 8.
static void shrink(const char *text, size_t length, HloText *out) {
    for (size_t i = 0; i < length; i++) {
        hlo_text_char(out, text[i]);
        if (text[i] != '[' || i == 0 || !(isalnum((unsigned char)text[i - 1]))) continue;
        i++;
        while (i < length && text[i] != ']') {
            char *end;
            long size = strtol(text + i, &end, 10);
            if (end == text + i) {
                hlo_text_char(out, text[i++]);
                continue;
            }
            hlo_text_int64(out, size == 8192 ? 64 : size == 1024 ? 8 : size);
            i = (size_t)(end - text);
        }
        if (i < length) hlo_text_char(out, ']');
    }
}

// The shrunk program in a file, or NULL when it is not there.
static HloModule *load(const char *file) {
    const char *path = cases_path(file);
    if (!path) return NULL;
    HloFileContent content = {0};
    HloStatus status = hlo_file_read(path, (size_t)64 << 20, &content);
    cr_assert_null(status, "%s", hlo_status_message(status));
    HloText text = {0};
    shrink(content.data, content.size, &text);
    hlo_file_content_free(&content);
    HloModule *module = parse_text(text.data);
    hlo_text_free(&text);
    return module;
}

static HloLiteral *make_argument(const HloShape *shape, int64_t parameter) {
    HloLiteral *literal = hlo_literal_new(shape);
    for (int64_t i = 0; i < hlo_shape_elements(shape); i++) {
        uint32_t noise = (uint32_t)(i * 2654435761u + parameter * 40503u) * 2246822519u;
        hlo_literal_set_double(literal, i, ((double)(noise >> 8) / 16777216.0 - 0.5) * 0.6);
    }
    return literal;
}

// Rows [device * n, …) of a batch array, where the parameter is one.
static HloLiteral *shard(const HloLiteral *whole, const HloShape *shape, int64_t device) {
    HloLiteral *literal = hlo_literal_new(shape);
    int64_t bytes = hlo_shape_bytes(shape), offset = hlo_shape_bytes(whole->shape) > bytes ? device * bytes : 0;
    memcpy(literal->data, (const char *)whole->data + offset, (size_t)bytes);
    return literal;
}

static double largest_difference(const HloLiteral *a, const HloLiteral *b) {
    double difference = 0, size = 0;
    for (int64_t i = 0; i < hlo_shape_elements(a->shape); i++) {
        double x = hlo_literal_get_double(a, i);
        difference = fmax(difference, fabs(x - hlo_literal_get_double(b, i)));
        size = fmax(size, fabs(x));
    }
    return difference / size;
}

Test(replay, tpu_dump_gives_the_numbers_of_its_source) {
    HloModule *dump = load("corpus/tpu-optimized/mlp_dp8.v2-8.hlo.xz"),
              *source = load("examples/mlp_gradient_8192.hlo");
    if (!dump || !source) {
        hlo_module_free(dump);
        hlo_module_free(source);
        cr_skip_test("the corpus is not here");
    }
    HloEvalOptions options = {.numerics = HLO_NUMERICS_TPU};
    HloLiteral *arguments[PARAMETERS], *shards[DEVICES][PARAMETERS], *want = NULL, *got[DEVICES] = {NULL};
    HloLiteral *compiled[DEVICES] = {NULL}, **rows[DEVICES];
    for (int64_t p = 0; p < PARAMETERS; p++) arguments[p] = make_argument(source->entry->parameters.items[p]->shape, p);
    for (int64_t d = 0; d < DEVICES; d++) {
        for (int64_t p = 0; p < PARAMETERS; p++)
            shards[d][p] = shard(arguments[p], dump->entry->parameters.items[p]->shape, d);
        rows[d] = shards[d];
    }
    cr_assert_null(hlo_evaluate(source, (const HloLiteral *const *)arguments, PARAMETERS, &options, &want));
    cr_assert_null(
        hlo_evaluate_partitioned(dump, DEVICES, (const HloLiteral *const *const *)rows, PARAMETERS, &options, got));
    const CompiledCheck check = {.threads = 2, .numerics = TARGET_NUMERICS_TPU};
    HloText message = {0};
    cr_assert(compiled_run_with(dump, rows, &check, compiled, &message), "%s", message.data);
    for (int64_t g = 0; g < 8; g++) {  // the source returns the loss first
        cr_expect_lt(largest_difference(want->elements[g + 1], got[0]->elements[g]), 1e-6, "gradient %lld",
                     (long long)g);
        cr_expect(hlo_literal_equal(got[0]->elements[g], got[DEVICES - 1]->elements[g]), "devices agree");
        // The engine adds in f32: what lies beside a tie of bf16 may round to the other side.
        double error = largest_difference(got[0]->elements[g], compiled[0]->elements[g]);
        cr_expect_lt(error, 1e-3, "gradient %lld, compiled: %g", (long long)g, error);
    }
    for (int64_t d = 0; d < DEVICES; d++) {
        hlo_literal_free(got[d]);
        hlo_literal_free(compiled[d]);
        for (int64_t p = 0; p < PARAMETERS; p++) hlo_literal_free(shards[d][p]);
    }
    for (int64_t p = 0; p < PARAMETERS; p++) hlo_literal_free(arguments[p]);
    hlo_literal_free(want);
    hlo_text_free(&message);
    hlo_module_free(dump);
    hlo_module_free(source);
}
