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
#define TABLES(tables) "HloModule m\n\nFileNames\n1 \"a.py\"\n\n" tables "\n\nENTRY e {\n  p = f32[] parameter(0)\n}\n"

static const RefusedText cases[] = {
    // shardings
    {SHARDED("devices=[2,2]<=@@[2,-2]T(1,0)"), "the dimensions of an iota must be positive"},
    {SHARDED("devices=[2,2]<=@@[9223372036854775807,4]T(1,0)"), "the dimensions of an iota must be positive"},
    {SHARDED("devices=[2,2]<=@@[]"), "an iota needs at least one dimension"},
    {SHARDED("devices=[2,2]<=[2,2]@@"), "expected T(permutation)"},
    {SHARDED("devices=[2,2]<=[2,2]T@@(1,1)"), "must name each dimension of the iota once"},
    {SHARDED("devices=[2,2]<=[2,2]T@@(0)"), "must name each dimension of the iota once"},
    {SHARDED("@@<=[4]"), "sharding"},
    {WRONG_SHARDING("devices=[1]0"), "a tiled sharding needs more than one device"},
    {WRONG_SHARDING("devices=[2,1]0,1 last_tile_dims={replicated,replicated,manual}"),
     "more subgroups than tile dimensions"},
    {WRONG_SHARDING("maximal"), "a maximal sharding needs device="},
    {WRONG_SHARDING("replicated device=1"), "this kind of sharding has no devices"},
    {SHARDED("mesh[@@a=0], [{a},{}]"), "the size of a mesh axis must be positive"},
    {SHARDED("mesh[a=2,@@a=2], [{a},{}]"), "the mesh has two axes a"},
    {SHARDED("mesh[a=2,b=2], @@device_ids=([4,2]T(1,0)), [{a},{b}]"), "device_ids do not match the axes of the mesh"},
    {SHARDED("mesh[a=2,b=2], @@device_ids=(0,1,2), [{a},{b}]"), "device_ids do not match the axes of the mesh"},
    {SHARDED("maximal_mesh@@[device=3]"), "expected device_id="},
    {SHARDED("mesh[a=2,b=2], [{?,@@a},{b}]"), "'?' must be last"},
    {SHARDED("mesh[a=2,b=2], [{a},{b}], @@partial={a}"), "expected replicated, unreduced, manual or metadata"},
    {SHARDED("mesh[a=2,b=2], @@[{a},{a}]"), "axis a is used twice"},
    {SHARDED("mesh[a=4], @@[{a:(1)2},{a:(1)2}]"), "axis a is used twice"},
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
};

// Takes the mark out of `marked`; where it stood, 1-based.
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

Test(text_refused, every_error_names_its_place) {
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
