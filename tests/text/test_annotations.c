// SPDX-License-Identifier: Apache-2.0
// Annotations of instructions and modules in text: XLA's output for each spelling (from jaxlib 0.10.2), and the errors
// that its parser leaves to its verifier.
#include <criterion/criterion.h>

#include "hlo/text/text.h"
#include "hlo/verify/verify.h"

static HloModule *parse(const char *text) {
    HloModule *module = NULL;
    HloStatus status = hlo_parse(text, strlen(text), NULL, &module);
    cr_assert_null(status, "%s: %s", text, hlo_status_message(status));
    return module;
}

// The long form.
static HloText print(const HloModule *module) {
    HloText text = {0};
    cr_assert_null(hlo_print(module, NULL, &text));
    return text;
}

// `written` is printed with `wanted` in it, and that text prints the same again.
static void expect_printed(const char *written, const char *wanted) {
    HloModule *module = parse(written);
    HloText text = print(module);
    cr_expect(strstr(text.data, wanted), "no '%s' in\n%s", wanted, text.data);
    HloModule *again = parse(text.data);
    HloText second = print(again);
    cr_expect_str_eq(second.data, text.data);
    hlo_text_free(&second);
    hlo_text_free(&text);
    hlo_module_free(again);
    hlo_module_free(module);
}

#define ONE(attributes) \
    "HloModule m\nENTRY e {\n  p = f32[4,8] parameter(0)\n  ROOT n = f32[4,8] negate(p), " attributes "\n}\n"

Test(text_annotations, a_payload_is_printed_last) {
    static const struct {
        const char *written, *wanted;
    } cases[] = {
        {ONE("metadata={metadata_payload=\"x\" op_name=\"a\"}"), "metadata={op_name=\"a\" metadata_payload=\"x\"}"},
        {ONE("metadata={metadata_payload=\"\"}"), "negate(%p), metadata={metadata_payload=\"\"}"},
        {ONE("metadata={op_name=\"a\" metadata_payload=\"\\001\\n\\\"\"}"),
         "metadata={op_name=\"a\" metadata_payload=\"\\001\\n\\\"\"}"},
        {ONE("metadata={metadata_payload=\"z\" scheduling_name=\"s\" deduplicated_name=\"d\" profile_type={1} "
             "source_line=3 op_name=\"aa\"}"),
         "metadata={op_name=\"aa\" source_line=3 profile_type={1} deduplicated_name=\"d\" scheduling_name=\"s\" "
         "metadata_payload=\"z\"}"},
        {ONE("sharding={replicated metadata={op_name=\"a\" metadata_payload=\"x\"}}"),
         "sharding={replicated metadata={op_name=\"a\" metadata_payload=\"x\"}}"},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) expect_printed(cases[i].written, cases[i].wanted);
}

// The kinds of which the first counts, as in XLA; an iota beside one does not count at all.
Test(text_annotations, one_of_several_kinds_of_a_sharding_counts) {
    static const struct {
        const char *written, *wanted;
    } cases[] = {
        {ONE("sharding={manual replicated}"), "sharding={replicated}\n"},
        {ONE("sharding={replicated unreduced}"), "sharding={replicated}\n"},
        {ONE("sharding={manual unknown}"), "sharding={manual}\n"},
        {ONE("sharding={unreduced unknown}"), "sharding={unknown}\n"},
        {ONE("sharding={maximal manual device=1}"), "sharding={maximal device=1}\n"},
        {ONE("sharding={devices=[2,2]<=[4] replicated}"), "sharding={replicated}\n"},
        {ONE("sharding={devices=[2,2]<=[4] last_tile_dims={manual} last_tile_dims={replicated}}"),
         "sharding={devices=[2,2]<=[4] last_tile_dims={manual, replicated}}\n"},
        {ONE("sharding={replicated shard_as 1 shard_like 2}"), "sharding={replicated shard_as 2}\n"},
        {ONE("sharding={replicated metadata={op_name=\"a\"} metadata={op_name=\"b\"}}"),
         "sharding={replicated metadata={{op_name=\"a\"}, {op_name=\"b\"}}}\n"},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) expect_printed(cases[i].written, cases[i].wanted);
}

// Parsing and printing keep them; the verifier refuses them at their place.
Test(text_annotations, orders_that_make_no_sense_are_left_to_the_verifier) {
    static const struct {
        const char *sharding, *why;
    } cases[] = {
        {"{devices=[2,0]<=[4]}", "empty or excessively large tiling"},
        {"{devices=[-2,-2]<=[4]}", "empty or excessively large tiling"},
        {"{devices=[1000000,1000000]<=[8]}", "tiles for 8 devices"},
        {"{devices=[4611686018427387904,4]<=[8]}", "empty or excessively large tiling"},
        {"{devices=[2,2]<=[-4]}", "4 tiles for 0 devices"},
        {"{devices=[2,2]<=[5]}", "4 tiles for 5 devices"},
        {"{devices=[2,2]<=[2,2]T(0,0)}", "transposes dimension 0 twice"},
        {"{devices=[2,2]<=[2,2]T(1,1)}", "transposes dimension 1 twice"},
        {"{devices=[4]<=[2,2]T(1,0)}", "tiles 1 dimensions"},
        {"{}", "0 leaves"},
    };
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        HloText written = {0};
        hlo_text_format(&written, ONE("sharding=%s"), cases[i].sharding);
        expect_printed(written.data, cases[i].sharding);
        HloModule *module = parse(written.data);
        HloStatus status = hlo_status_place_in_text(hlo_verify(module), written.data, written.length, NULL);
        cr_assert_not_null(status, "%s", cases[i].sharding);
        cr_expect(strstr(hlo_status_message(status), cases[i].why), "%s: %s", cases[i].sharding,
                  hlo_status_message(status));
        cr_expect_eq(hlo_status_place(status)->line, 4);
        hlo_status_free(status);
        hlo_module_free(module);
        hlo_text_free(&written);
    }
}

// The sharding of an outfeed has nothing to do with the shape of its token, but it must make sense by itself.
Test(text_annotations, the_sharding_of_an_outfeed_is_verified) {
    static const char text[] =
        "HloModule m\nENTRY e {\n  p = f32[4,8] parameter(0)\n  t = token[] after-all()\n  ROOT o = token[] outfeed(p, "
        "t), "
        "outfeed_shape=f32[4,8]{1,0}, sharding={{devices=[2,2]<=[2,2]T(%s)}, {maximal device=0}}\n}\n";
    for (int good = 0; good < 2; good++) {
        HloText written = {0};
        hlo_text_format(&written, text, good ? "1,0" : "1,1");
        HloModule *module = parse(written.data);
        HloStatus status = hlo_verify(module);
        cr_expect(good == !status, "%s", hlo_status_message(status));
        hlo_status_free(status);
        hlo_module_free(module);
        hlo_text_free(&written);
    }
}

#define TABLE(entries) "HloModule m, origin_recovery_table={" entries "}\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}\n"

Test(text_annotations, recoveries_are_sorted_and_the_first_of_two_counts) {
    expect_printed(TABLE("{\"a\" {10}} : {\"b\"} {\"a\"} : {\"c\" {1,2}} {\"B\"} : {} {} : {\"d\"} {\"a\" {9}} : "
                         "{\"b\"} {\"a\"} : {\"e\"}"),
                   "->f32[]}, origin_recovery_table={\n  {\"\"} : {\"d\"}\n  {\"B\"} : {\"\"}\n  {\"a\"} : {\"c\" "
                   "{1,2}}\n  {\"a\" {9}} : {\"b\"}\n  {\"a\" {10}} : {\"b\"}\n}\n");
    expect_printed(TABLE(""), "->f32[]}\n\nENTRY");
}

Test(text_annotations, a_recovery_has_a_module) {
    expect_printed(
        TABLE("{\"a\"} : {\"b\"}, \"HloModule q ENTRY e { ROOT p = f32[] parameter(0) }\" {\"c\"} : {\"d\"}"),
        "origin_recovery_table={\n  {\"a\"} : {\"b\"},\n  \"\n    HloModule q, "
        "entry_computation_layout={(f32[])->f32[]}\n\n    ENTRY %e (p: f32[]) -> f32[] {\n      ROOT %p = "
        "f32[] parameter(0)\n    }\n\n\n  \"\n  {\"c\"} : {\"d\"}\n}\n");
    // XLA writes this without the escapes, and cannot read it again.
    expect_printed(TABLE("{\"a\"} : {\"b\"}, 'HloModule q ENTRY e { ROOT p = f32[] parameter(0), "
                         "metadata={op_name=\"x\\\\\"y\"} }'"),
                   "metadata={op_name=\\\"x\\\\\\\"y\\\"}");
}

// A copy has modules of its own.
Test(text_annotations, recoveries_are_copied) {
    HloModule *module = parse(TABLE("{\"a\"} : {\"b\"}, \"HloModule q ENTRY e { ROOT p = f32[] parameter(0) }\""));
    HloModule *copy = hlo_module_clone(module);
    HloText before = print(module);
    cr_assert_neq(copy->recoveries.items[0].module, module->recoveries.items[0].module);
    hlo_module_free(module);
    HloText after = print(copy);
    cr_expect_str_eq(after.data, before.data);
    hlo_text_free(&before);
    hlo_text_free(&after);
    hlo_module_free(copy);
}

// One device is what a module has that counts none; then lists of groups may name any, since XLA reads them, but each
// device only once.
Test(text_annotations, groups_of_a_module_without_counts_may_name_any_device) {
    static const struct {
        const char *header, *groups;
        bool good;
    } cases[] = {{"", "{{4,5,6,7}}", true},
                 {"", "{{0,1},{2,3}}", true},
                 {"", "{{7,1},{4,3}}", true},
                 {"", "{{0,1},{1,2}}", false},
                 {"", "{{-1,0}}", false},
                 {"", "{{0,1},{}}", false},
                 {"", "{{9223372036854775807}}", false},
                 {", replica_count=4", "{{4,5,6,7}}", false},
                 {", replica_count=4", "{{0,3},{1,2}}", true}};
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        HloText text = {0};
        hlo_text_format(&text,
                        "HloModule m%s\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] "
                        "add(a, b)\n}\nENTRY e {\n  p = f32[4] parameter(0)\n  ROOT n = f32[4] all-reduce(p), "
                        "replica_groups=%s, to_apply=add\n}\n",
                        cases[i].header, cases[i].groups);
        HloModule *module = parse(text.data);
        HloStatus status = hlo_verify(module);
        cr_expect(!status == cases[i].good, "%s%s: %s", cases[i].groups, cases[i].header, hlo_status_message(status));
        hlo_status_free(status);
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}
