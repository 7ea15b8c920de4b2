// SPDX-License-Identifier: Apache-2.0
// Fourier transforms of sharded dimensions: in four steps, by exchanging dimensions, or gathered.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/text.h"
#include "tests/spmd/check.h"
#include "tests/support/cases.h"

// ENTRY of one transform; `in` and `out` are shardings, `out` may be empty.
#define TRANSFORM(devices, in_type, in, out_type, out, type, lengths)                                          \
    "HloModule m, num_partitions=" devices "\nENTRY e {\n p = " in_type " parameter(0), sharding={devices=" in \
    "}\n"                                                                                                      \
    " ROOT f = " out_type " fft(p), fft_type=" type ", fft_length={" lengths "}, sharding={devices=" out "}\n}\n"

// Per device: an exchange sends (p - 1) / p of a shard.
static const SentBytes plans[] = {
    {"a line", TRANSFORM("8", "c64[1024]", "[8]<=[8]", "c64[1024]", "[8]<=[8]", "FFT", "1024"), 3 * 7 * 16 * 8},
    {"a line backwards", TRANSFORM("8", "c64[1024]", "[8]<=[8]", "c64[1024]", "[8]<=[8]", "IFFT", "1024"),
     3 * 7 * 16 * 8},
    {"a line over two axes",
     TRANSFORM("8", "c64[1024]", "[8]<=[2,4]T(1,0)", "c64[1024]", "[8]<=[2,4]T(1,0)", "FFT", "1024"), 3 * 7 * 16 * 8},
    {"a line of real numbers", TRANSFORM("8", "f32[1024]", "[8]<=[8]", "c64[513]", "[8]<=[8]", "RFFT", "1024"),
     7 * (16 * 4 + 16 * 8 + 9 * 8)},
    {"a line to real numbers", TRANSFORM("8", "c64[513]", "[8]<=[8]", "f32[1024]", "[8]<=[8]", "IRFFT", "1024"),
     7 * (9 * 8 + 16 * 8 + 16 * 4) + 65 * 8},
    {"real numbers as complex ones",
     "HloModule m, num_partitions=8\nENTRY e {\n p = f32[1024] parameter(0), sharding={devices=[8]<=[8]}\n"
     " c = c64[1024] convert(p)\n ROOT f = c64[1024] fft(c), fft_type=FFT, fft_length={1024}, "
     "sharding={devices=[8]<=[8]}\n}\n",
     7 * (16 * 4 + 2 * 16 * 8)},
    {"a line whose columns are uneven", TRANSFORM("8", "c64[1000]", "[8]<=[8]", "c64[1000]", "[8]<=[8]", "FFT", "1000"),
     3 * 7 * 16 * 8},
    {"a line that the shards do not divide is gathered",
     TRANSFORM("8", "c64[1023]", "[8]<=[8]", "c64[1023]", "[8]<=[8]", "FFT", "1023"), 7 * 128 * 8},
    {"lines of one element a shard are gathered",
     TRANSFORM("4", "c64[4]", "[4]<=[4]", "c64[4]", "[4]<=[4]", "FFT", "4"), 3 * 8},
    {"a line of batches beside it",
     TRANSFORM("8", "c64[6,256]", "[2,4]<=[8]", "c64[6,256]", "[2,4]<=[8]", "FFT", "256"), 3 * 3 * 3 * 16 * 8},
    // One row a device is a batch that cannot be exchanged.
    {"a line a device along another axis",
     TRANSFORM("8", "c64[2,256]", "[2,4]<=[8]", "c64[2,256]", "[2,4]<=[8]", "FFT", "256"), 3 * 3 * 16 * 8},
    {"a plane by rows", TRANSFORM("4", "c64[16,8]", "[4,1]<=[4]", "c64[16,8]", "[4,1]<=[4]", "FFT", "16,8"),
     2 * 3 * 8 * 8},
    {"a plane from rows to columns",
     TRANSFORM("4", "c64[16,8]", "[4,1]<=[4]", "c64[16,8]", "[1,4]<=[4]", "FFT", "16,8"), 3 * 8 * 8},
    {"a plane by rows and columns",
     TRANSFORM("4", "c64[16,8]", "[2,2]<=[4]", "c64[16,8]", "[2,2]<=[4]", "IFFT", "16,8"), (16 + 24 + 16) * 8},
    {"a plane of real numbers", TRANSFORM("4", "f32[16,14]", "[4,1]<=[4]", "c64[16,8]", "[1,4]<=[4]", "RFFT", "16,14"),
     3 * 8 * 8},
    {"a plane to real numbers", TRANSFORM("4", "c64[16,8]", "[1,4]<=[4]", "f32[16,14]", "[4,1]<=[4]", "IRFFT", "16,14"),
     3 * 8 * 8},
    {"a cube by pencils", TRANSFORM("4", "c64[4,8,8]", "[2,2,1]<=[4]", "c64[4,8,8]", "[1,2,2]<=[4]", "FFT", "4,8,8"),
     2 * 32 * 8},
    // The second exchange moves both axes at once, and the third takes one of them away.
    {"a cube by rows and columns",
     TRANSFORM("8", "c64[16,16,16]", "[4,2,1]<=[8]", "c64[16,16,16]", "[4,2,1]<=[8]", "FFT", "16,16,16"),
     (384 + 448 + 256) * 8},
    // The result stays by columns, where the product takes it.
    {"a plane, filtered, and back",
     "HloModule m, num_partitions=4\nENTRY e {\n p = c64[16,8] parameter(0), sharding={devices=[4,1]<=[4]}\n"
     " f = c64[16,8] fft(p), fft_type=FFT, fft_length={16,8}\n n = c64[16,8] multiply(f, f)\n"
     " ROOT b = c64[16,8] fft(n), fft_type=IFFT, fft_length={16,8}, sharding={devices=[4,1]<=[4]}\n}\n",
     2 * 3 * 8 * 8},
    {"a line, filtered, and back",
     "HloModule m, num_partitions=8\nENTRY e {\n p = f32[1024] parameter(0), sharding={devices=[8]<=[8]}\n"
     " f = c64[513] fft(p), fft_type=RFFT, fft_length={1024}\n n = c64[513] multiply(f, f)\n"
     " ROOT b = f32[1024] fft(n), fft_type=IRFFT, fft_length={1024}, sharding={devices=[8]<=[8]}\n}\n",
     7 * (16 * 4 + 16 * 8 + 9 * 8) + 7 * (9 * 8 + 16 * 8 + 16 * 4) + 65 * 8},
};

CaseList(fft, at_the_plan) {
    return cases_numbered(HLO_COUNT_OF(plans));
}

CaseTest(const int *number, fft, at_the_plan) {
    expect_bytes(&plans[*number]);
}

// What annotations can change has a remedy, what the transform itself needs has none.
static void expect_reason(const char *text, const char *reason, bool has_remedy) {
    HloModule *module = parse_text(text), *partitioned;
    SpmdReport *report;
    cr_assert_null(spmd_partition(module, NULL, &partitioned, &report));
    for (int64_t i = 0; i < report->collective_count; i++) {
        cr_expect(strstr(report->collectives[i].reason, reason), "%s", report->collectives[i].reason);
        cr_expect_eq(*report->collectives[i].remedy != 0, has_remedy, "%s", report->collectives[i].remedy);
    }
    cr_expect_gt(report->collective_count, 0);
    spmd_report_free(report);
    hlo_module_free(partitioned);
    hlo_module_free(module);
}

Test(fft, says_why) {
    expect_reason(TRANSFORM("8", "c64[1024]", "[8]<=[8]", "c64[1024]", "[8]<=[8]", "FFT", "1024"),
                  "exchange between the steps of fft f", false);
    expect_reason(TRANSFORM("4", "c64[16,8]", "[4,1]<=[4]", "c64[16,8]", "[1,4]<=[4]", "FFT", "16,8"),
                  "the next dimension of fft f", false);
    expect_reason(TRANSFORM("8", "c64[1023]", "[8]<=[8]", "c64[1023]", "[8]<=[8]", "FFT", "1023"),
                  "operand 0 of fft f is [{axis0}], needed as [{}]", true);
}

// ---- any sizes and shardings

// A number below `count`, from a state that changes.
static int64_t draw(uint64_t *state, int64_t count) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((*state >> 33) % (uint64_t)count);
}

static void add_array(HloText *text, const char *type, const int64_t *dims, int64_t rank) {
    hlo_text_format(text, "%s[", type);
    for (int64_t d = 0; d < rank; d++) hlo_text_format(text, d ? ",%lld" : "%lld", (long long)dims[d]);
    hlo_text_string(text, "]");
}

// A sharding by axes of 2 and 3 devices, each on a dimension or on none.
static void add_sharding(HloText *text, uint64_t *state, int64_t rank) {
    const int64_t first = draw(state, rank + 1), second = draw(state, rank + 1);
    const bool swapped = first == second && first < rank && draw(state, 2);
    int64_t left = 6;
    hlo_text_string(text, ", sharding={devices=[");
    for (int64_t d = 0; d < rank; d++) {
        const int64_t parts = (d == first ? 2 : 1) * (d == second ? 3 : 1);
        left /= parts;
        hlo_text_format(text, d ? ",%lld" : "%lld", (long long)parts);
    }
    if (left > 1) hlo_text_format(text, ",%lld", (long long)left);
    // The order of the tile follows from the dimensions of the axes; the rest comes last.
    const bool turned = second < first || swapped;
    hlo_text_format(text, "]<=%s%s}", turned ? "[2,3]T(1,0)" : "[6]", left > 1 ? " last_tile_dim_replicate" : "");
}

static char *random_transform(uint64_t seed) {
    static const char *const types[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
    uint64_t state = seed * 2 + 1;
    HloText text = {0};
    const int64_t type = draw(&state, 4), count = 1 + draw(&state, 3), rank = count + draw(&state, 4 - count);
    int64_t in[4] = {0}, out[4] = {0}, lengths[4] = {0};
    for (int64_t d = 0; d < rank; d++) {
        const int64_t most = rank == 1 ? 100 : rank == 2 ? 40 : 13;
        in[d] = out[d] = lengths[d] = draw(&state, 2) ? 6 * (1 + draw(&state, most / 6)) : 1 + draw(&state, most);
    }
    if (type == 2) out[rank - 1] = lengths[rank - 1] / 2 + 1;
    if (type == 3) in[rank - 1] = lengths[rank - 1] / 2 + 1;
    const bool wide = draw(&state, 4) == 0;
    const char *complex = wide ? "c128" : "c64", *real = wide ? "f64" : "f32";
    hlo_text_string(&text, "HloModule m, num_partitions=6\nENTRY e {\n p = ");
    add_array(&text, type == 2 ? real : complex, in, rank);
    hlo_text_string(&text, " parameter(0)");
    add_sharding(&text, &state, rank);
    hlo_text_string(&text, "\n f = ");
    add_array(&text, type == 3 ? real : complex, out, rank);
    hlo_text_format(&text, " fft(p), fft_type=%s, fft_length={", types[type]);
    for (int64_t d = rank - count; d < rank; d++)
        hlo_text_format(&text, d > rank - count ? ",%lld" : "%lld", (long long)lengths[d]);
    hlo_text_string(&text, "}");
    if (draw(&state, 2)) add_sharding(&text, &state, rank);
    hlo_text_string(&text, "\n ROOT r = ");
    add_array(&text, type == 3 ? real : complex, out, rank);
    hlo_text_string(&text, " negate(f)");
    if (draw(&state, 2)) add_sharding(&text, &state, rank);
    hlo_text_string(&text, "\n}\n");
    return text.data;
}

Test(fft, of_any_sizes_and_shardings) {
    const char *trials = getenv("MESHLO_SPMD_TRIALS");
    const uint64_t count = trials ? strtoull(trials, NULL, 10) / 10 : 400;
    for (uint64_t seed = 1; seed <= count; seed++) {
        char *text = random_transform(seed);
        check_partitioned(text, NULL, seed);
        hlo_free(text);
    }
}
