// SPDX-License-Identifier: Apache-2.0
// Text that the parser must refuse, with the place that it must name: @@ in a case marks where the caret belongs.
#include <criterion/criterion.h>
#include <string.h>

#include "hlo/text/text.h"

typedef struct RefusedText {
    const char *text;  // with one @@
    const char *part;  // of the message
} RefusedText;

#define PARAMETER(rest) "HloModule m\nENTRY e {\n  p = f32[8,8] parameter(0), " rest "\n}\n"
#define ONE_OP(rest) "HloModule m\nENTRY e {\n  p = f32[8,8] parameter(0)\n  ROOT r = " rest "\n}\n"
#define SHARDED(sharding) PARAMETER("sharding={" sharding "}")
#define WRONG_SHARDING(sharding) PARAMETER("sharding=@@{" sharding "}")  // as a whole
#define CONSTANT(rest) "HloModule m\nENTRY e {\n  ROOT c = " rest "\n}\n"
#define ASYNC(rest)                                                                                                    \
    "HloModule m\nf {\n  x = f32[2] parameter(0)\n  ROOT n = f32[2] negate(x)\n}, execution_thread=\"t\"\nENTRY e {\n" \
    "  p = f32[2] parameter(0)\n  s = ((f32[2]), f32[2]) async-start(p), async_execution_thread=\"t\", calls=f\n"      \
    "  ROOT d = f32[2] " rest "\n}\n"
#define TABLES(tables) "HloModule m\n\nFileNames\n1 \"a.py\"\n\n" tables "\n\nENTRY e {\n  p = f32[] parameter(0)\n}\n"

static const RefusedText cases[] = {
    // shardings
    {SHARDED("mesh['a'=4], [{@@'a':(2)1}, {}]"), "the sub-axis does not divide its axis"},
    {SHARDED("mesh['a'=4], [{'a'@@(2)2}, {}]"), "expected '}' of an axis list"},
    {SHARDED("devices=[2,2]<=[4] metadata=@@({op_name=\"x\"},{op_name=\"y\"}}"), "expected '{'"},
    {ONE_OP("f32[8,8] all-gather(p), dimensions={0}, replica_groups=[2,2]<=@@[2,-2]T(1,0)"), "positive dimensions"},
    {ONE_OP("f32[8,8] all-gather(p), dimensions={0}, replica_groups=[2,2]<=@@[9223372036854775807,4]T(1,0)"),
     "positive dimensions"},
    {ONE_OP("f32[8,8] all-gather(p), dimensions={0}, replica_groups=[2,2]<=@@[2,2]T(1,1)"),
     "its T(...) names each of them once"},
    {ONE_OP("f32[8,8] domain(p), domain={kind=\"sharding\", entry={devices=[2,2]<=@@[2,2]T(1,1)}, exit={replicated}}"),
     "its T(...) names each of them once"},
    {WRONG_SHARDING("devices=[2,2]<=[2,2]T(0,0) last_tile_dim_replicate"), "subgroups need tiles for all devices"},
    {SHARDED("devices=[2,2]<=[4] @@devices=[4,1]<=[4]"), "devices= is given twice"},
    {WRONG_SHARDING("devices=[2,2]<=[4] device=1"), "device= belongs to a maximal sharding"},
    {WRONG_SHARDING("devices=[2,2]0,1,2,3 replicated"), "this kind of sharding has no devices"},
    {WRONG_SHARDING("maximal devices=[2,2]<=[4]"), "a maximal sharding needs device="},
    {"HloModule m, buffer_donor={ (@@-1, {}) }\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}", "negative parameter"},
    {"HloModule m, origin_recovery_table={{\"a\"} : {\"b\"}, @@{\"c\"} : {\"d\"}}\nENTRY e {\n  ROOT p = f32[] "
     "parameter(0)\n}",
     "expected a string"},
    {"HloModule m, origin_recovery_table={{\"a\"} : {\"b\"}, @@\"\"}\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}",
     "invalid recovery module"},
    {SHARDED("devices=[2,2]<=@@[]"), "an iota needs at least one dimension"},
    {SHARDED("devices=[2,2]<=[2,2]@@"), "expected T(permutation)"},
    {SHARDED("devices=[2,2]<=[2,2]T@@(1,2)"), "must name each dimension of the iota once"},
    {SHARDED("devices=[2,2]<=[2,2]T@@(0)"), "must name each dimension of the iota once"},
    {SHARDED("@@<=[4]"), "sharding"},
    {WRONG_SHARDING("devices=[1]0"), "a tiled sharding needs more than one device"},
    {WRONG_SHARDING("devices=[2,1]0,1 last_tile_dims={replicated,replicated,manual}"),
     "more subgroups than tile dimensions"},
    {WRONG_SHARDING("maximal"), "a maximal sharding needs device="},
    {WRONG_SHARDING("replicated device=1"), "this kind of sharding has no devices"},
    {SHARDED("mesh[@@a=0], [{a},{}]"), "the size of a mesh axis must be positive"},
    {SHARDED("mesh[a=2,@@a=2], [{a},{}]"), "the mesh has axis a twice"},
    {SHARDED("mesh[a=2,b=2], @@device_ids=([4,2]T(1,0)), [{a},{b}]"), "device_ids do not match the axes of the mesh"},
    {SHARDED("mesh[a=2,b=2], @@device_ids=(0,1,2), [{a},{b}]"), "device_ids do not match the axes of the mesh"},
    {SHARDED("maximal_mesh@@[device=3]"), "expected device_id="},
    {SHARDED("mesh[a=2,b=2], [{?,@@a},{b}]"), "'?' must be last"},
    {SHARDED("mesh[a=2,b=2], [{a},{b}], @@partial={a}"), "expected replicated, unreduced, manual or metadata"},
    {SHARDED("mesh[a=2,b=2], @@[{a},{a}]"), "axis a is used twice"},
    {SHARDED("mesh[a=4], @@[{a:(1)2},{a:(1)2}]"), "axis a is used twice"},
    {SHARDED("mesh[a=4], @@[{a:(1)2},{a}]"), "axis a is used twice"},
    {SHARDED("mesh[a=1,b=2], @@[{a},{a}]"), "axis a is used twice"},  // bug: axes of size 1 were not compared
    {SHARDED("mesh[a=2], @@[{a},{}], replicated={a}"), "axis a is used twice"},
    {SHARDED("mesh[a=2], [{@@c},{}]"), "c"},
    {WRONG_SHARDING(
         "devices=[2,2,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
         "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]<=[4] last_tile_dims={manual,replicated}"),
     "tile dimensions"},
    // attributes
    {ONE_OP("f32[8,8] reduce-window(p, p), window={size=1x1 pad=0_0x0_0 @@pad=0_0x0_0}, to_apply=e"),
     "pad= is given twice"},
    {ONE_OP("f32[8,8] domain(p), domain={kind=\"sharding\", @@what={replicated}, exit={replicated}}"),
     "expected kind, entry and exit, each once"},
    {ONE_OP("f32[8,8] negate(p), origin={({\"a\"}@@}"), "unbalanced tuple of origins"},
    {ONE_OP("f32[8,8] negate(p), origin={@@)}"), "unbalanced tuple of origins"},
    // stack tables
    {TABLES("FunctionNames\n1 \"f\"\n\nFileLocations\n1 {file_name_id=1 function_name_id=1 line=1 end_line=1 column=1 "
            "@@colour=2}\n\nStackFrames\n"),
     "unknown or repeated 'colour'"},
    {TABLES("FunctionNames\n1 \"f\"\n\nFileLocations\n1 {file_name_id=1 @@file_name_id=1}\n\nStackFrames\n"),
     "unknown or repeated 'file_name_id'"},
    {TABLES("FunctionNames\n1 \"f\"\n\nFileLocations\n1 {@@file_name_id=4294967296}\n\nStackFrames\n"), "32 bits"},
    {TABLES("FunctionNames\n1 \"f\"\n\nFileLocations\n1 @@{file_name_id=1}\n\nStackFrames\n"),
     "the row is not complete"},
    {TABLES("FunctionNames\n1 \"f\"\n\n@@Nothing\n"), "expected FileLocations"},
    // literals and operands
    {"HloModule m\nENTRY e {\n  ROOT c = f32[2] constant(@@})\n}\n", "'}'"},
    {"HloModule m\nENTRY e {\n  ROOT c = token[] constant(@@{...})\n}\n", "there are no literals of type token"},
    {"HloModule m\nENTRY e {\n  ROOT c = (f32[1],token[]) constant({...@@})\n}\n",
     "there are no literals of type token"},
    {"ROOT r = f32[2] negate(@@p)", "an operand of a single instruction needs a shape"},
    // computations
    {"HloModule m\nf {\n  ROOT a = f32[2] parameter(0)\n}\nENTRY e {\n  p = f32[2] parameter(0)\n  s = "
     "((f32[2]),f32[2]) "
     "async-start(p), calls=f\n  d = f32[2] async-done(s)\n  ROOT c = f32[2] call(d), to_apply=f\n}\n@@",
     "called by more than one async op"},
    // one of each place that makes an error
    {PARAMETER("metadata={profile_type=@@{7}}"), "unknown profile type"},
    {ONE_OP("f32[8,8] negate(p), origin={[@@what]}"), "expected synthetic_call"},
    {ONE_OP("f32[8,8] negate(p), origin={{\"a\"@@x}}"), "'}' of an original array"},
    {"HloModule m, origin_recovery_table={{\"a\"} : {\"b\"}, @@\"HloModule\"}\nENTRY e {\n  ROOT p = f32[] "
     "parameter(0)\n}\n",
     "invalid recovery module"},
    {"HloModule m\nENTRY a {\n  ROOT p = f32[] parameter(0)\n}\n@@ENTRY b {\n  ROOT q = f32[] parameter(0)\n}\n",
     "a second ENTRY computation"},
    {CONSTANT("f64[] constant(@@1e999)"), "the number does not fit in a double"},
    {ONE_OP("f32[8,8] custom-call(p), custom_call_target=@@\"\\q\""), "malformed escape in a string"},
    {ONE_OP("f32[8,8] reduce-window(p, p), window={size=3x@@y}, to_apply=e"), "expected numbers like 3x3"},
    {ONE_OP("f32[8,8] pad(p, p), padding=@@0_xx"), "expected padding like 0_1x2_3"},
    {ONE_OP("f32[8,8] reduce-window(p, p), window={@@colour=1x1}, to_apply=e"), "unknown part 'colour' of a window"},
    {ONE_OP("f32[8,8] convolution(p, p), dim_labels=bf@@-io->bf"), "expected '_' and the labels of the kernel"},
    {ONE_OP("f32[8,8] slice(p), slice={@@[1], [0:8]}"), "expected [start:limit] or [start:limit:stride]"},
    {"HloModule m, input_output_alias={ {}: (0, {}, @@never-alias) }\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}\n",
     "expected may-alias or must-alias"},
    {ONE_OP("f32[8,8] exponential(p), result_accuracy={tolerance={@@colour=1}}"), "expected atol, rtol or ulps"},
    {ONE_OP("f32[8,8] exponential(p), result_accuracy={@@colour=1}"), "expected mode or tolerance"},
    {ONE_OP("f32[8,8] compare(p, p), direction=@@UP"), "'UP' is not a"},
    {ONE_OP("f32[4,4] dynamic-slice@@(p), dynamic_slice_sizes={4,4}"), "wrong number of start indices"},
    {ASYNC("async-done@@(p)"), "the operand must be an async-start or async-update"},
    {ASYNC("abs-done@@(s)"), "the operand wraps negate, not abs"},
    {ASYNC("@@async-done(s), async_execution_thread=\"u\""), "the async-start runs in thread t, not u"},
    {CONSTANT("f8e4m3fn[] constant(@@nan(0x1))"), "has no payload"},
    {CONSTANT("bf16[] constant(@@nan(0xfff))"), "does not fit in bf16"},
    {CONSTANT("f32[1,2] constant({{1,2},@@{3,4}})"), "more than 1 rows in dimension 0"},
    {CONSTANT("f32[2] constant({1,2,@@3})"), "more than 2 elements in a row"},
    {CONSTANT("f32[100000,100000] constant(@@{1})"), "the text is too short for the 10000000000 elements"},
    {ONE_OP("f32[8,@@-8] negate(p)"), "a dimension cannot be negative"},
    {ONE_OP("f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
            "1,1,1,1,1,1,1,1,1,1,1,1,1,@@1] negate(p)"),
     "more than 64 dimensions"},
    {ONE_OP("f32[8,8]{1,0:D(@@X)} negate(p)"), "expected a dimension level type"},
    {ONE_OP("f32[8,8]{1,0:#(@@s32)} negate(p)"), "expected an unsigned integer type"},
    {ONE_OP("f32[8,8]{1,0:@@P(f32[8])} negate(p)"), "a layout has a physical shape"},
    {ONE_OP("b(@@(f32[8])) negate(p)"), "a buffer must hold an array"},
    {SHARDED("mesh[a0=1,a1=1,a2=1,a3=1,a4=1,a5=1,a6=1,a7=1,a8=1,a9=1,a10=1,a11=1,a12=1,a13=1,a14=1,a15=1,a16=1,a17=1,"
             "a18=1,a19=1,a20=1,a21=1,a22=1,a23=1,a24=1,a25=1,a26=1,a27=1,a28=1,a29=1,a30=1,a31=1,a32=1,a33=1,a34=1,"
             "a35=1,a36=1,a37=1,a38=1,a39=1,a40=1,a41=1,a42=1,a43=1,a44=1,a45=1,a46=1,a47=1,a48=1,a49=1,a50=1,a51=1,"
             "a52=1,a53=1,a54=1,a55=1,a56=1,a57=1,a58=1,a59=1,a60=1,a61=1,a62=1,a63=1,@@z=1], [{},{}]"),
     "more than 64 mesh axes"},
    {SHARDED("mesh[a=4], [{a:(1)2, @@a:(2)2},{}]"), "neighbouring sub-axes must be written as one"},
    {SHARDED("mesh[a=4], [{@@c:(1)2},{}]"), "the mesh has no axis 'c'"},
    {ONE_OP("f32[8,8] all-gather(p), dimensions={0}, replica_groups=@@[2]<=[2]"),
     "expected [number of groups, devices a group]"},
    // attributes that are given twice, or numbers that do not fit
    {PARAMETER("metadata={op_name=\"a\"}, @@metadata={op_name=\"b\"}"), "attribute metadata is given twice"},
    {PARAMETER("parameter_replication={false}, @@parameter_replication={true}"),
     "attribute parameter_replication is given twice"},
    {"HloModule m\nt {\n  ROOT a = f32[2] parameter(0)\n}\nENTRY e {\n  i = s32[] parameter(0)\n  p = f32[2] "
     "parameter(1)\n  ROOT c = f32[2] conditional(i, p)@@, branch_computations={t, t}\n}\n",
     "conditional has 2 branches, but 1 operands for them"},
    {WRONG_SHARDING("last_tile_dims={manual}"), "the sharding names no tiles"},
    {WRONG_SHARDING("devices=[1,6,1000003]<=[2,3000009]T(1,0) last_tile_dims={replicated,manual}"),
     "too many devices to write out"},
};

// Takes the mark out of `marked`, and returns its position, 1-based.
static void unmark(const char *marked, HloText *text, int64_t *line, int64_t *column) {
    const char *mark = strstr(marked, "@@");
    *line = *column = 0;
    if (!mark) {
        hlo_text_string(text, marked);
        return;
    }
    hlo_text_append(text, marked, (size_t)(mark - marked));
    *line = *column = 1;
    for (const char *at = marked; at < mark; at++) {
        *column = *at == '\n' ? 1 : *column + 1;
        *line += *at == '\n';
    }
    hlo_text_string(text, mark + 2);
}

Test(text_refused, every_error_names_its_position) {
    for (size_t i = 0; i < HLO_COUNT_OF(cases); i++) {
        HloText text = {0};
        int64_t line, column;
        unmark(cases[i].text, &text, &line, &column);
        HloModule *module = NULL;
        HloStatus status = hlo_parse(text.data, text.length, NULL, &module);
        cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "%s: %s", text.data, hlo_status_message(status));
        cr_expect_not_null(strstr(hlo_status_message(status), cases[i].part), "%s: '%s' is not in '%s'", text.data,
                           cases[i].part, hlo_status_message(status));
        const HloPlace *place = hlo_status_place(status);
        cr_assert_not_null(place, "%s", text.data);
        cr_expect(place->line == line && place->column == column, "%s: %s at %lld:%lld, not %lld:%lld", text.data,
                  hlo_status_message(status), (long long)place->line, (long long)place->column, (long long)line,
                  (long long)column);
        hlo_status_free(status);
        hlo_text_free(&text);
    }
}

// A chain of `length` computations, each of which calls the one before.
static void call_chain(HloText *text, int length) {
    hlo_text_string(text, "HloModule m\nc0 {\n ROOT a = f32[] parameter(0)\n}\n");
    for (int i = 1; i < length; i++) {
        hlo_text_format(text, "d%d {\n a = f32[] parameter(0)\n ROOT t = f32[] call(a), to_apply=%c%d\n}\n", i,
                        i > 1 ? 'd' : 'c', i - 1);
    }
    hlo_text_format(text, "ENTRY e {\n p = f32[] parameter(0)\n ROOT r = f32[] call(p), to_apply=d%d\n}\n", length - 1);
}

Test(text_refused, calls_of_more_than_1000_levels) {
    for (int length = 999; length <= 1002; length++) {
        HloText text = {0};
        call_chain(&text, length);
        HloModule *module = NULL;
        HloStatus status = hlo_parse(text.data, text.length, NULL, &module);
        if (length <= 1000) {
            cr_expect_null(status, "%d: %s", length, hlo_status_message(status));
        } else {
            cr_expect(strstr(hlo_status_message(status), "calls nest more than 1000 levels deep"), "%d: %s", length,
                      hlo_status_message(status));
        }
        hlo_status_free(status);
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}

// A sharding of f32[8] by `count` axes of size 1.
static void axes_sharding(HloText *text, int count) {
    hlo_text_string(text, "HloModule m\nENTRY e {\n ROOT p = f32[8] parameter(0), sharding={mesh[");
    for (int i = 0; i < count; i++) hlo_text_format(text, "%sa%d=1", i ? "," : "", i);
    hlo_text_string(text, "], [{");
    for (int i = 0; i < count; i++) hlo_text_format(text, "%sa%d", i ? "," : "", i);
    hlo_text_string(text, "}]}\n}\n");
}

Test(text_refused, more_axes_than_a_sharding_may_name) {
    for (int count = 63; count <= 66; count++) {
        HloText text = {0};
        axes_sharding(&text, count);
        HloModule *module = NULL;
        HloStatus status = hlo_parse(text.data, text.length, NULL, &module);
        if (count <= 64) {
            cr_expect_null(status, "%d: %s", count, hlo_status_message(status));
        } else {
            cr_expect(strstr(hlo_status_message(status), "more than 64 mesh axes"), "%d: %s", count,
                      hlo_status_message(status));
        }
        hlo_status_free(status);
        hlo_module_free(module);
        hlo_text_free(&text);
    }
}
