// SPDX-License-Identifier: Apache-2.0
// HLO as MLIR text and bytecode: the output reads back as the same program, in both forms; the golden texts in export/
// are ours, and MLIR (jaxlib 0.10.2) prints each of them byte for byte the same after parsing it.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "hlo/base/file.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "tests/stablehlo/golden.h"
#include "tests/support/cases.h"

#include "tests/stablehlo/golden.inc"

static HloText write_text(const HloModule *module, bool locations, const char *what) {
    HloText text = {0};
    must(hlo_module_to_stablehlo_text(module, locations, &text), what);
    return text;
}

static HloModule *read_text(HloText text, const char *what) {
    HloModule *module = NULL;
    must(hlo_module_from_stablehlo_text(text.data, text.length, what, &module), what);
    must(hlo_verify(module), what);
    return module;
}

static HloModule *through_bytecode(const HloModule *module, const char *release, const char *what) {
    HloText bytes = {0};
    HloModule *again = NULL;
    must(hlo_module_to_stablehlo_bytecode(module, release, &bytes), what);
    cr_assert(hlo_looks_like_mlir_bytecode(bytes.data, bytes.length));
    must(hlo_module_from_stablehlo_bytecode(bytes.data, bytes.length, &again), what);
    must(hlo_verify(again), what);
    hlo_text_free(&bytes);
    return again;
}

static void check_same(const HloModule *a, const HloModule *b, bool locations, const char *what) {
    HloText first = write_text(a, locations, what), second = write_text(b, locations, what);
    cr_assert_str_eq(second.data, first.data, "%s", what);
    hlo_text_free(&first);
    hlo_text_free(&second);
}

// Text and bytecode of the module read back as the same program. Names may change once, as the first reading makes
// metadata of them; then they stay.
static void check_doors(const HloModule *module, const char *release, const char *what) {
    HloText text = write_text(module, true, what);
    HloModule *from_text = read_text(text, what), *from_bytes = through_bytecode(module, release, what);
    HloModule *again = through_bytecode(from_text, release, what);
    check_same(module, from_text, false, what);
    check_same(from_text, from_bytes, true, what);
    check_same(from_text, again, true, what);
    cr_assert_eq(hlo_module_hash(from_text), hlo_module_hash(again), "%s", what);
    hlo_text_free(&text);
    hlo_module_free(from_text);
    hlo_module_free(from_bytes);
    hlo_module_free(again);
}

CaseList(stablehlo_export, programs_of_jax) {
    return cases_numbered(HLO_COUNT_OF(goldens));
}

CaseTest(const int *index, stablehlo_export, programs_of_jax) {
    const Golden *golden = &goldens[*index];
    HloModule *module = NULL;
    must(hlo_module_from_stablehlo_bytecode(golden->bytes, golden->length, &module), golden->name);
    HloText text = {0};
    HloStatus status = hlo_module_to_stablehlo_text(module, true, &text);
    hlo_text_free(&text);
    if (hlo_status_code(status) != HLO_UNIMPLEMENTED) {
        hlo_status_free(status);
        check_doors(module, NULL, golden->name);
        check_doors(module, "1.17.0", golden->name);
    } else {
        hlo_status_free(status);
    }
    hlo_module_free(module);
}

// ---------------------------------------------------------------------------------------------------------------------
// Golden texts

static const char *const own_programs[] = {"data", "control", "stack", "ragged"};

static HloFileContent own_file(const char *name, const char *ending) {
    char path[300];
    snprintf(path, sizeof(path), "%s/tests/stablehlo/export/%s.%s", MESHLO_SOURCE_DIR, name, ending);
    HloFileContent content;
    must(hlo_file_read(path, (size_t)1 << 20, &content), path);
    return content;
}

static HloModule *own_module(const char *name) {
    HloModule *module = NULL;
    HloFileContent content = own_file(name, "hlo");
    must(hlo_parse(content.data, content.size, NULL, &module), name);
    must(hlo_verify(module), name);
    hlo_file_content_free(&content);
    return module;
}

CaseList(stablehlo_export, own_programs) {
    return cases_numbered(HLO_COUNT_OF(own_programs));
}

CaseTest(const int *index, stablehlo_export, own_programs) {
    const char *name = own_programs[*index];
    HloModule *module = own_module(name);
    HloText text = write_text(module, true, name);
    HloFileContent expected = own_file(name, "mlir");
    cr_assert_str_eq(text.data, expected.data, "%s", name);
    // The generic form is another spelling of the same module.
    HloText generic = {0};
    must(hlo_module_to_stablehlo_generic(module, true, &generic), name);
    cr_assert(strstr(generic.data, "\"func.return\"("), "%s", generic.data);
    cr_assert_null(strstr(generic.data, " func.func"), "%s", generic.data);
    HloModule *from_pretty = read_text(text, name), *from_generic = read_text(generic, name);
    check_same(from_pretty, from_generic, true, name);
    hlo_module_free(from_pretty);
    hlo_module_free(from_generic);
    hlo_text_free(&generic);
    check_doors(module, NULL, name);
    hlo_text_free(&text);
    hlo_file_content_free(&expected);
    hlo_module_free(module);
}

// Operations that no program of export/ has.
Test(stablehlo_export, rare_operations) {
    static const char *const bodies[] = {
        "p = f32[4] parameter(0)\n ROOT r = f32[4] collective-broadcast(p), replica_groups={{0,1}}, channel_id=1",
        "p = f32[4] parameter(0)\n ROOT r = f32[2] reduce-scatter(p), replica_groups={{0,1}}, channel_id=1, "
        "use_global_device_ids=true, dimensions={0}, to_apply=add",
        "ROOT r = u32[] replica-id()",
        "ROOT r = u32[] partition-id()",
        "t = token[] after-all()\n ROOT r = ((f32[4], s32[]), token[]) infeed(t), infeed_config=\"c\"",
        "p = f32[4] parameter(0)\n t = token[] after-all()\n ROOT r = token[] outfeed(p, t), outfeed_shape=f32[4], "
        "outfeed_config=\"c\"",
        "p = f32[4] parameter(0)\n s = ((f32[4]), f32[4]) async-start(p), calls=negative\n ROOT r = f32[4] "
        "async-done(s)",
        "p = f32[4,2] parameter(0)\n n = s32[] parameter(1)\n ROOT r = f32[<=4,2] set-dimension-size(p, n), "
        "dimensions={0}",
        "p = f32[4,6] parameter(0)\n m = s32[] parameter(1)\n n = s32[] parameter(2)\n"
        " q = f32[<=8,<=3] dynamic-reshape(p, m, n)\n ROOT r = f32[<=8,<=3] dynamic-reshape(q, m, n)",
        "p = f32[4] parameter(0)\n n = s64[] parameter(1)\n ROOT r = f32[<=4] dynamic-reshape(p, n)",
        "p = f32[4] parameter(0)\n ROOT r = (f32[4], f32[4]) tuple(p, p), sharding={{devices=[2]<=[2]}, {replicated}}",
        "p = c64[4] parameter(0)\n s = c64[4] sinh(p)\n c = c64[4] cosh(p)\n ROOT r = c64[4] add(s, c)",
    };
    for (size_t i = 0; i < HLO_COUNT_OF(bodies); i++) {
        HloText text = {0};
        HloModule *module = NULL;
        hlo_text_format(
            &text,
            "HloModule m, num_partitions=2\nadd {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT t "
            "= f32[] add(a, b)\n}\nnegative {\n a = f32[4] parameter(0)\n ROOT t = f32[4] "
            "negate(a)\n}\nENTRY main {\n %s\n}\n",
            bodies[i]);
        must(hlo_parse(text.data, text.length, NULL, &module), bodies[i]);
        must(hlo_verify(module), bodies[i]);
        check_doors(module, "1.13.0", bodies[i]);
        hlo_text_free(&text);
        hlo_module_free(module);
    }
}

// bug: algorithms of products have types in StableHLO, one of which no array has (tf32); that one was refused, and the
// algorithm lost where it was read. Any type of 8 bits means any of them, whatever the operands are.
Test(stablehlo_export, bug_dot_algorithms_that_were_lost) {
    for (int32_t a = HLO_DotAlgorithm_UNSET + 1; a < hlo_enum_DotAlgorithm.count; a++) {
        const char *name = hlo_enum_DotAlgorithm.texts[a];
        char program[512];
        snprintf(program, sizeof(program),
                 "HloModule m\nENTRY e { p = f32[4,4] parameter(0)\n ROOT r = f32[4,4] dot(p, p), "
                 "lhs_contracting_dims={1}, rhs_contracting_dims={0}, algorithm=%s }\n",
                 name);
        HloModule *module = NULL;
        must(hlo_parse(program, strlen(program), NULL, &module), name);
        HloText text = write_text(module, false, name);
        HloModule *read[] = {read_text(text, name), through_bytecode(module, NULL, name)};
        for (size_t i = 0; i < HLO_COUNT_OF(read); i++) {
            cr_expect_eq(HLO_ATTRIBUTES(read[i]->entry->root, Dot)->algorithm, a, "%s: %s", name, text.data);
            hlo_module_free(read[i]);
        }
        hlo_text_free(&text);
        hlo_module_free(module);
    }
}

// Orders and tiles of arguments and results are attributes of the module, as XLA writes them. bug: they were lost.
Test(stablehlo_export, layouts_of_the_entry) {
    static const char header[] =
        "entry_computation_layout={(f32[4,6]{0,1:T(8,128)(2,1)}, f32[2]{0}, f32[])->(f32[4,6]{0,1}, f32[2]{0:T(256)})}";
    char program[512];
    snprintf(program, sizeof(program),
             "HloModule m, %s\nENTRY e { p = f32[4,6] parameter(0)\n q = f32[2] parameter(1)\n z = f32[] parameter(2)\n"
             " r = f32[4,6] add(p, p)\n ROOT t = (f32[4,6], f32[2]) tuple(r, q) }\n",
             header);
    HloModule *module = NULL;
    must(hlo_parse(program, strlen(program), NULL, &module), "parse");
    HloText text = {0};
    must(hlo_module_to_stablehlo_text(module, true, &text), "write");
    HloModule *read[] = {read_text(text, "layouts"), through_bytecode(module, NULL, "layouts")};
    for (size_t i = 0; i < HLO_COUNT_OF(read); i++) {
        HloText printed = {0};
        const HloPrintOptions options = hlo_print_default();
        must(hlo_print(read[i], &options, &printed), "print");
        cr_expect(strstr(printed.data, header), "%s", printed.data);
        hlo_text_free(&printed);
        hlo_module_free(read[i]);
    }
    hlo_text_free(&text);
    hlo_module_free(module);
}

// bug: copies between memories were dropped, and arguments and results lost their memory kinds; a program that keeps
// its activations in the host's memory had them in the device's once it was converted.
Test(stablehlo_export, bug_placement_in_host_memory_was_lost) {
    static const char program[] =
        "HloModule m, entry_computation_layout={(f32[8,128]{1,0:S(5)}, f32[8,128]{1,0})->(f32[8,128]{1,0:S(6)}, "
        "f32[8,128]{1,0})}\n"
        "ENTRY e {\n  p = f32[8,128]{1,0:S(5)} parameter(0)\n  q = f32[8,128]{1,0} parameter(1)\n"
        "  d = f32[8,128]{1,0} copy(p)\n  s = f32[8,128]{1,0} add(d, q)\n"
        "  h = f32[8,128]{1,0:S(5)} copy(s), frontend_attributes={scope=\"layer\"}\n"
        "  b = f32[8,128]{1,0} copy(h), frontend_attributes={_xla_buffer_placement=\"device\"}\n"
        "  c = f32[8,128]{1,0} copy(b)\n  m = f32[8,128]{1,0} multiply(c, s)\n"
        "  u = f32[8,128]{1,0:S(6)} copy(m)\n"
        "  ROOT t = (f32[8,128]{1,0:S(6)}, f32[8,128]{1,0}) tuple(u, m)\n}\n";
    HloModule *module = NULL;
    must(hlo_parse(program, strlen(program), &(HloParseOptions){.file = "m"}, &module), "parse");
    check_doors(module, NULL, "placement");
    HloText text = write_text(module, false, "placement");
    HloModule *again = read_text(text, "placement");
    int64_t spaces[8] = {0};
    for (const HloInstruction *at = again->entry->first; at; at = at->next)
        if (hlo_is(at, HLO_OP_COPY)) spaces[hlo_shape_memory_space(at->shape)]++;
    cr_expect_eq(spaces[HLO_SPACE_DEVICE], 2, "the copy within the device is none in StableHLO");
    cr_expect_eq(spaces[HLO_SPACE_PINNED_HOST], 1);
    cr_expect_eq(spaces[HLO_SPACE_UNPINNED_HOST], 1);
    cr_expect_eq(hlo_shape_memory_space(again->entry_parameter_layouts[0]), HLO_SPACE_PINNED_HOST);
    cr_expect_eq(hlo_shape_memory_space(again->entry_parameter_layouts[1]), HLO_SPACE_DEVICE);
    cr_expect_eq(hlo_shape_memory_space(hlo_shape_leaf(again->entry_result_layout, 0)), HLO_SPACE_UNPINNED_HOST);
    cr_expect_eq(hlo_shape_memory_space(hlo_shape_leaf(again->entry_result_layout, 1)), HLO_SPACE_DEVICE);
    cr_expect_not_null(strstr(text.data, "scope = \"layer\""), "other attributes are kept");
    hlo_text_free(&text);
    hlo_module_free(again);
    hlo_module_free(module);
}

// bug: the parts that the pretty form leaves out (the body of a short reduction, the arguments of a loop) had no number
// in the table of locations, and the generic form, which has all of it, named another place.
Test(stablehlo_export, source_positions_of_the_generic_form) {
    static const char program[] =
        "HloModule m\nadd { x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
        " ROOT inner = f32[] add(x, y), metadata={op_name=\"body\" source_file=\"b.py\" source_line=7} }\n"
        "ENTRY e { p = f32[4] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[] reduce(p, z), dimensions={0}, "
        "to_apply=add, metadata={op_name=\"outer\"} }\n";
    HloModule *module = NULL, *again = NULL;
    HloText text = {0}, printed = {0};
    const HloPrintOptions options = hlo_print_default();
    must(hlo_parse(program, sizeof(program) - 1, NULL, &module), "parse");
    must(hlo_module_to_stablehlo_generic(module, true, &text), "write");
    must(hlo_module_from_stablehlo_text(text.data, text.length, "generic.mlir", &again), text.data);
    must(hlo_print(again, &options, &printed), "print");
    cr_expect(strstr(printed.data,
                     "add(%param, %param.1), metadata={op_name=\"body\" source_file=\"b.py\" "
                     "source_line=7}"),
              "%s", printed.data);
    hlo_text_free(&text);
    hlo_text_free(&printed);
    hlo_module_free(module);
    hlo_module_free(again);
}

// Operations that repeat become what the first of them became: with other operands, names, places and shardings of
// their own, in other computations, and where only one of attributes, operand types and result type differs.
static const char repeating[] =
    "HloModule repeating, num_partitions=2\n"
    "inner {\n  x = f32[4,1] parameter(0)\n  r = f32[4] reshape(x)\n  ROOT b = f32[4,8] broadcast(r), "
    "dimensions={0}\n}\n"
    "ENTRY e {\n  p = f32[4,8] parameter(0)\n  q = f32[8,4] parameter(1)\n  k = f32[4,1] parameter(2)\n"
    "  a = f32[4,8] add(p, p), metadata={op_name=\"first\" source_file=\"a.py\" source_line=1}\n"
    "  b = f32[4,8] add(a, p), metadata={op_name=\"second\" source_file=\"a.py\" source_line=2}\n"
    "  c = f32[4,8] add(p, b), sharding={devices=[2,1]0,1}\n  d = f32[4,8] add(c, b), sharding={devices=[1,2]0,1}\n"
    "  f = f32[4,8] add(d, d), sharding={devices=[2,1]0,1}, frontend_attributes={who=\"me\"}\n"
    "  g = f32[4,8] add(f, d), frontend_attributes={who=\"you\"}\n"
    "  t = f32[8,4] transpose(g), dimensions={1,0}\n  u = f32[8,4] add(t, q)\n  v = f32[4,8] transpose(u), "
    "dimensions={1,0}\n"
    "  m = f32[4,4] dot(g, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  n = f32[4,4] dot(v, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  o = f32[8,8] dot(v, t), lhs_contracting_dims={0}, rhs_contracting_dims={1}\n"
    "  s = f32[4] reshape(k)\n  w = f32[4,8] broadcast(s), dimensions={0}\n"
    "  y = f32[4,8] call(k), to_apply=inner\n  z = f32[4] reshape(k)\n  aa = f32[4,8] broadcast(z), dimensions={0}\n"
    "  bb = f32[] constant(1)\n  cc = f32[] constant(1)\n  dd = f32[] constant(2)\n  ee = f32[] add(bb, cc)\n"
    "  ff = f32[] add(ee, dd)\n  gg = pred[4,8] compare(w, y), direction=LT\n"
    "  hh = pred[4,8] compare(w, aa), direction=GT\n  ii = pred[4,8] compare(y, aa), direction=LT\n"
    "  ROOT tt = (f32[4,4], f32[4,4], f32[8,8], f32[], pred[4,8], pred[4,8], pred[4,8]) tuple(m, n, o, ff, gg, hh, "
    "ii)\n}\n";

Test(stablehlo_export, operations_that_repeat) {
    HloModule *module = NULL;
    must(hlo_parse(repeating, sizeof(repeating) - 1, NULL, &module), "repeating");
    must(hlo_verify(module), "repeating");
    check_doors(module, NULL, "repeating");
    HloModule *again = through_bytecode(module, NULL, "repeating");
    HloText text = {0};
    const HloPrintOptions options = hlo_print_default();
    must(hlo_print(again, &options, &text), "repeating");
    static const char *const parts[] = {
        "%add.1 = f32[4,8]{1,0} add(%add, %Arg_0), metadata={op_name=\"second\" source_file=\"a.py\" source_line=2}",
        "%add.2 = f32[4,8]{1,0} add(%Arg_0, %add.1), sharding={devices=[2,1]0,1}",
        "%add.3 = f32[4,8]{1,0} add(%add.2, %add.1), sharding={devices=[1,2]0,1}",
        "add(%add.3, %add.3), sharding={devices=[2,1]0,1}, frontend_attributes={who=\"me\"}",
        "add(%add.4, %add.3), frontend_attributes={who=\"you\"}",
        "f32[8,4]{1,0} add(%transpose, %Arg_1), metadata",
        "f32[8,8]{1,0} dot(%transpose.1, %transpose), lhs_contracting_dims={0}, rhs_contracting_dims={1}",
        "direction=GT",
    };
    for (size_t i = 0; i < HLO_COUNT_OF(parts); i++)
        cr_expect(strstr(text.data, parts[i]), "%s\n%s", parts[i], text.data);
    hlo_text_free(&text);
    hlo_module_free(module);
    hlo_module_free(again);
}

// Every release that can express these programs.
Test(stablehlo_export, releases) {
    static const char *const releases[] = {
        "0.9.0",  "0.10.0", "0.11.0", "0.12.0", "0.13.0", "0.14.0", "0.15.0", "0.16.0", "0.17.0", "0.18.0", "0.19.0",
        "0.20.0", "1.0.0",  "1.1.0",  "1.2.0",  "1.3.0",  "1.4.0",  "1.5.0",  "1.6.0",  "1.7.0",  "1.8.0",  "1.9.0",
        "1.11.0", "1.12.0", "1.13.0", "1.14.0", "1.15.0", "1.16.0", "1.17.0", "1.18.0", "1.19.0", "1.20.0"};
    HloModule *control = own_module("control"), *stack = own_module("stack");
    for (size_t i = 0; i < HLO_COUNT_OF(releases); i++) {
        check_doors(control, releases[i], "control");
        check_doors(stack, releases[i], "stack");
    }
    hlo_module_free(control);
    hlo_module_free(stack);
}

// ---------------------------------------------------------------------------------------------------------------------
// Refusals

typedef struct Refusal {
    const char *program, *release;
    HloCode code;
    const char *message;
} Refusal;

static const Refusal refusals[] = {
    {"ENTRY e { ROOT c = f32[4] constant({...}) }", NULL, HLO_UNIMPLEMENTED, "left out"},
    {"ENTRY e { p = f32[2,3]{1,0} parameter(0)\n ROOT b = f32[3,2]{0,1} bitcast(p) }", NULL, HLO_UNIMPLEMENTED,
     "bitcast b"},
    {"ENTRY e { ROOT s = u64[2] rng-get-and-update-state(), delta=1 }", NULL, HLO_UNIMPLEMENTED, "no such operation"},
    {"ENTRY e { p = f32[4] parameter(0)\n n = s32[] parameter(1)\n ROOT r = f32[4] dynamic-reshape(p, n) }", NULL,
     HLO_UNIMPLEMENTED, "dynamic-reshape r: sizes of a result that has none of its own"},
    {"ENTRY e { p = f32[4,2] parameter(0)\n n = s32[] parameter(1)\n m = s64[] parameter(2)\n"
     " ROOT r = f32[<=4,<=2] dynamic-reshape(p, n, m) }",
     NULL, HLO_UNIMPLEMENTED, "dynamic-reshape r: sizes of several types"},
    {"ENTRY e { p = s2[2] parameter(0)\n ROOT b = s2[2] add(p, p) }", "1.1.0", HLO_UNIMPLEMENTED,
     "StableHLO 1.1.0 has no type s2"},
    {"ENTRY e { p = f32[2] parameter(0)\n ROOT b = f32[2] tan(p) }", "1.3.0", HLO_UNIMPLEMENTED, "no operation tan"},
    {"ENTRY e { p = f32[2] parameter(0)\n ROOT b = f32[2] exponential(p), result_accuracy={mode=highest} }", "1.8.0",
     HLO_UNIMPLEMENTED, "result_accuracy of stablehlo.exponential"},
    {"ENTRY e { p = f32[2] parameter(0)\n ROOT r = f32[2] reduce-precision(p), exponent_bits=4294967301, "
     "mantissa_bits=7 }",
     NULL, HLO_UNIMPLEMENTED, "exponent_bits 4294967301 has more than 32 bits"},
    {"ENTRY e { ROOT p = f32[2] parameter(0) }", "0.8.0", HLO_INVALID_ARGUMENT, "not among the releases"},
    {"ENTRY e { ROOT p = f32[2] parameter(0) }", "1.x", HLO_INVALID_ARGUMENT, "not a release"},
};

// The options of a call are text to HLO: those that we have no form for (types that bytecode has no number for, places,
// attributes of dialects) stay text; each was an internal error. Narrow numbers have one.
Test(stablehlo_export, options_of_unusual_types_stay_text) {
    static const char *const options[] = {"7 : i13",
                                          "5 : i4",
                                          "1.0 : f4E2M1FN",
                                          "5 : none",
                                          "1 : tensor<f32>",
                                          "loc(unknown)",
                                          "#stablehlo.bounds<2>",
                                          "#stablehlo.gather<index_vector_dim = 1>",
                                          "#sdy.mesh<[\"x\"=2]>",
                                          "(i13) -> i13",
                                          "tuple<i32>",
                                          "[#stablehlo.bounds<2>]",
                                          "dense<1> : tensor<2xi13>"};
    for (size_t i = 0; i < HLO_COUNT_OF(options); i++) {
        HloText program = {0}, bytes = {0}, text = {0};
        hlo_text_format(&program,
                        "HloModule m\n\nENTRY e {\n  p = f32[2]{0} parameter(0)\n  ROOT c = f32[2]{0} custom-call(p), "
                        "custom_call_target=\"f\", api_version=API_VERSION_TYPED_FFI, backend_config={a = %s}\n}\n",
                        options[i]);
        HloModule *module = NULL, *again = NULL;
        must(hlo_parse(program.data, program.length, NULL, &module), options[i]);
        must(hlo_module_to_stablehlo_bytecode(module, NULL, &bytes), options[i]);
        must(hlo_module_to_stablehlo_text(module, false, &text), options[i]);
        must(hlo_module_from_stablehlo_text(text.data, text.length, NULL, &again), text.data);
        hlo_text_free(&program);
        hlo_text_free(&bytes);
        hlo_text_free(&text);
        hlo_module_free(module);
        hlo_module_free(again);
    }
}

CaseList(stablehlo_export, refuses) {
    return cases_numbered(HLO_COUNT_OF(refusals));
}

CaseTest(const int *index, stablehlo_export, refuses) {
    const Refusal *refusal = &refusals[*index];
    HloModule *module = NULL;
    HloText bytes = {0};
    must(hlo_parse(refusal->program, strlen(refusal->program), NULL, &module), refusal->program);
    HloStatus status = hlo_module_to_stablehlo_bytecode(module, refusal->release, &bytes);
    cr_assert_eq(hlo_status_code(status), refusal->code, "%s", refusal->program);
    cr_assert(strstr(hlo_status_message(status), refusal->message), "%s", hlo_status_message(status));
    hlo_status_free(status);
    hlo_text_free(&bytes);
    hlo_module_free(module);
}

// bug: a dynamic-reshape could be read and not be written, and had an attribute of plain reshapes in HLO text, which
// XLA does not read.
Test(stablehlo_export, bug_dynamic_reshapes_could_not_be_written) {
    const char *program =
        "func.func @main(%x: tensor<4x6xf32>, %s: tensor<2xi32>) -> tensor<?x?xf32, #stablehlo.bounds<8, 3>> {\n"
        "  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<4x6xf32>, tensor<2xi32>) -> tensor<?x?xf32, "
        "#stablehlo.bounds<8, 3>>\n  return %0 : tensor<?x?xf32, #stablehlo.bounds<8, 3>>\n}\n";
    HloModule *module = NULL;
    HloText hlo = {0};
    cr_assert_null(hlo_module_from_stablehlo_text(program, strlen(program), NULL, &module));
    must(hlo_print(module, NULL, &hlo), program);
    cr_expect(strstr(hlo.data, "dynamic-reshape(") && !strstr(hlo.data, "inferred_dimension"), "%s", hlo.data);
    check_doors(module, NULL, program);
    hlo_text_free(&hlo);
    hlo_module_free(module);
}

// The shape of a legacy random number is a constant operand in StableHLO only: each time that a program was written it
// got another one, which stayed as a constant without users.
// More than a hundred elements are written as their bytes, which MLIR reads too: those of a predicate or of an integer
// below a byte have one each.
Test(stablehlo_export, large_constants_are_bytes) {
    static const struct {
        HloType type;
        const char *begins;  // of the elements 0, 1, 2 ... in as many bits as the type has
    } kTypes[] = {{HLO_PRED, "0x000100010001"},
                  {HLO_S4, "0x000102030405060708090A0B0C0D0E0F00"},
                  {HLO_U2, "0x000102030001"},
                  {HLO_BF16, "0x000001000200"},
                  {HLO_F64, "0x0000000000000000010000"},
                  {HLO_C64, "0x00000000000000000100000001000000"}};
    for (size_t t = 0; t < HLO_COUNT_OF(kTypes); t++) {
        HloModule *module = hlo_module_new("m");
        HloComputation *entry = hlo_computation_new(module, "main");
        const HloShape *shape = hlo_shape_array(module->arena, kTypes[t].type, (int64_t[]){101}, 1);
        HloLiteral *literal = hlo_literal_in_arena(module->arena, shape);
        const bool parts = hlo_type_is_complex(kTypes[t].type);
        const int width = hlo_type_bytes(kTypes[t].type) / (parts ? 2 : 1), bits = hlo_type_info(kTypes[t].type)->bits;
        for (int i = 0; i < (parts ? 202 : 101); i++) {
            int number = kTypes[t].type == HLO_PRED ? i % 2 : bits < 8 ? i % (1 << bits) : parts ? i / 2 : i;
            if (kTypes[t].type == HLO_S4 && number > 7) number -= 16;
            const int64_t element = number;
            memcpy((char *)literal->data + i * width, &element, (size_t)width);
        }
        const HloConstantAttributes attributes = {literal};
        hlo_computation_set_root(entry, hlo_instruction_new(entry, HLO_OP_CONSTANT, shape, NULL, 0, &attributes, "c"));
        hlo_module_set_entry(module, entry);
        HloText text = write_text(module, false, hlo_type_text(kTypes[t].type));
        cr_expect(strstr(text.data, kTypes[t].begins), "%s: %.200s", kTypes[t].begins, text.data);
        HloModule *again = read_text(text, text.data);
        cr_expect(hlo_literal_equal(literal, hlo_constant_literal(again->entry->root)), "%.200s", text.data);
        check_doors(module, NULL, hlo_type_text(kTypes[t].type));
        hlo_text_free(&text);
        hlo_module_free(again);
        hlo_module_free(module);
    }
}

Test(stablehlo_export, bug_random_numbers_grow_a_program) {
    const char *program =
        "func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<3xf32> {\n"
        "  %s = stablehlo.constant dense<3> : tensor<1xi64>\n"
        "  %0 = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> "
        "tensor<3xf32>\n  return %0 : tensor<3xf32>\n}\n";
    HloModule *module = NULL;
    cr_assert_null(hlo_module_from_stablehlo_text(program, strlen(program), NULL, &module));
    HloText first = write_text(module, false, "rng");
    HloModule *again = read_text(first, "rng");
    HloText second = write_text(again, false, "rng");
    cr_expect_str_eq(first.data, second.data);
    const char *constant = strstr(first.data, "stablehlo.constant");
    cr_assert_not_null(constant);
    cr_expect_null(strstr(constant + 1, "stablehlo.constant"), "%s", first.data);
    hlo_text_free(&first);
    hlo_text_free(&second);
    hlo_module_free(module);
    hlo_module_free(again);
}

// bug: an empty group means all devices, which were counted; and it was written as an empty one beside the number of
// its members, which no reader accepts.
Test(stablehlo_export, bug_all_to_all_among_everybody) {
    static const char text[] =
        "HloModule m, replica_count=2, num_partitions=3\nENTRY main {\n  p = f32[4,6] parameter(0)\n"
        "  a = f32[4,6] all-to-all(p), replica_groups={}, dimensions={0}\n"
        "  b = f32[4,6] all-to-all(a), channel_id=1, replica_groups={}, dimensions={1}\n"
        "  ROOT g = f32[8,6] all-gather(b), replica_groups={}, dimensions={0}\n}\n";
    HloModule *module = NULL;
    must(hlo_parse(text, strlen(text), NULL, &module), text);
    HloText written = write_text(module, false, text);
    cr_expect_not_null(strstr(written.data, "dense<[[0, 1]]> : tensor<1x2xi64>, split_count = 2 : i64"), "%s",
                       written.data);
    cr_expect_not_null(strstr(written.data, "dense<[[0, 1, 2]]> : tensor<1x3xi64>, split_count = 3 : i64"), "%s",
                       written.data);
    check_doors(module, NULL, text);
    hlo_text_free(&written);
    hlo_module_free(module);
}

// bug: what the header lets propagation shard was lost, so that a plan's results were gathered. A list that is no list
// is refused.
Test(stablehlo_export, bug_propagation_to_the_boundary_was_lost) {
    static const char text[] =
        "HloModule m, allow_spmd_sharding_propagation_to_parameters={false,true}, "
        "allow_spmd_sharding_propagation_to_output={true}, num_partitions=2, frontend_attributes={k=\"v\"}\nENTRY main "
        "{\n"
        "  p = f32[4] parameter(0)\n  q = f32[4] parameter(1)\n  ROOT a = f32[4] add(p, q)\n}\n";
    HloModule *module = NULL;
    must(hlo_parse(text, strlen(text), NULL, &module), text);
    HloText written = write_text(module, false, text);
    HloModule *again[] = {read_text(written, text), through_bytecode(module, NULL, text)};
    for (size_t i = 0; i < HLO_COUNT_OF(again); i++) {
        cr_assert_eq(again[i]->propagate_to_parameters.count, 2);
        cr_expect(!again[i]->propagate_to_parameters.items[0] && again[i]->propagate_to_parameters.items[1]);
        cr_assert_eq(again[i]->propagate_to_output.count, 1);
        cr_expect(again[i]->propagate_to_output.items[0]);
        cr_expect_eq(again[i]->frontend_attributes.count, 1);
        hlo_module_free(again[i]);
    }
    char *flag = strstr(written.data, "false,true");
    cr_assert_not_null(flag, "%s", written.data);
    memcpy(flag, "maybe", 5);
    HloModule *refused = NULL;
    HloStatus status = hlo_module_from_stablehlo_text(written.data, written.length, text, &refused);
    cr_expect_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(hlo_status_message(status), "maybe,true\" is not a list of true and false"), "%s",
                       hlo_status_message(status));
    hlo_status_free(status);
    hlo_text_free(&written);
    hlo_module_free(module);
}

// StableHLO's reduce_scatter and collective_permute take one array; HLO's take several.
Test(stablehlo_export, collectives_of_several_arrays_are_written_one_by_one) {
    static const char text[] =
        "HloModule m, num_partitions=2\nc {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
        "  ROOT t = f32[] add(a, b)\n}\nENTRY main {\n  p = f32[4,6] parameter(0)\n  q = f32[2] parameter(1)\n"
        "  s = (f32[2,6], f32[1]) reduce-scatter(p, q), channel_id=1, replica_groups={{0,1}}, dimensions={0}, "
        "use_global_device_ids=true, to_apply=c\n"
        "  x = f32[2,6] get-tuple-element(s), index=0\n  y = f32[1] get-tuple-element(s), index=1\n"
        "  n = s8[3] parameter(2)\n"
        "  ROOT r = (f32[2,6], f32[1], s8[3]) collective-permute(x, y, n), channel_id=2, "
        "source_target_pairs={{0,1},{1,0}}\n}\n";
    HloModule *module = NULL;
    must(hlo_parse(text, strlen(text), NULL, &module), text);
    HloText written = write_text(module, false, text);
    int scatters = 0, permutes = 0;
    for (const char *at = written.data; (at = strstr(at, "stablehlo.reduce_scatter")); at++) scatters++;
    for (const char *at = written.data; (at = strstr(at, "stablehlo.collective_permute")); at++) permutes++;
    cr_expect_eq(scatters, 2, "%s", written.data);
    cr_expect_eq(permutes, 3, "%s", written.data);
    check_doors(module, NULL, text);
    hlo_text_free(&written);
    hlo_module_free(module);
}

// bug: the number of participants was inferred from the first operand alone, which is empty.
Test(stablehlo_export, bug_an_empty_operand_hid_how_much_the_others_grow) {
    static const char text[] =
        "HloModule m, replica_count=4\nENTRY main {\n  a = f32[5,0] parameter(0)\n  b = s32[5,2] parameter(1)\n"
        "  ROOT r = (f32[5,0], s32[5,4]) all-gather(a, b), channel_id=2, replica_groups={{3,2},{0,1}}, "
        "dimensions={1}\n}\n";
    HloModule *module = NULL;
    must(hlo_parse(text, strlen(text), NULL, &module), text);
    check_doors(module, NULL, text);
    hlo_module_free(module);
}

// bug: each get-tuple-element copied the list of all values in the tuple: here 29 GB of lists.
Test(stablehlo_export, bug_wide_tuples_took_their_square_of_memory) {
    enum { WIDTH = 60000 };
    HloText text = {0};
    hlo_text_string(&text, "HloModule m\n\nENTRY e {\n  p = (");
    for (int i = 0; i < WIDTH; i++) hlo_text_string(&text, i ? ", f32[]" : "f32[]");
    hlo_text_string(&text, ") parameter(0)\n");
    for (int i = 0; i < WIDTH; i++) hlo_text_format(&text, "  g%d = f32[] get-tuple-element(p), index=%d\n", i, i);
    hlo_text_string(&text, "  ROOT r = (f32[]");
    for (int i = 1; i < WIDTH; i++) hlo_text_string(&text, ", f32[]");
    hlo_text_string(&text, ") tuple(");
    for (int i = 0; i < WIDTH; i++) hlo_text_format(&text, i ? ", g%d" : "g%d", WIDTH - 1 - i);
    hlo_text_string(&text, ")\n}\n");
    HloModule *module = NULL;
    cr_assert_null(hlo_parse(text.data, text.length, NULL, &module));
    HloText written = write_text(module, false, "a wide tuple");
    HloModule *again = read_text(written, "a wide tuple");
    cr_expect_eq(again->entry->root->operand_count, WIDTH);
    cr_expect_eq(again->entry->root->operands[0]->shape->type, HLO_F32);
    hlo_text_free(&text);
    hlo_text_free(&written);
    hlo_module_free(module);
    hlo_module_free(again);
}

// bug: the digits that the reader makes of a callback's bytes were written as bytes, and read as other digits.
Test(stablehlo_export, bug_configuration_of_bytes_changed_with_each_writing) {
    static const char source[] =
        "func.func @main(%a: tensor<4xf32>) {\n  stablehlo.custom_call @InspectSharding(%a) {backend_config = "
        "\"\\01\\00\\FE\\00\", has_side_effect = true} : (tensor<4xf32>) -> ()\n  return\n}";
    HloModule *module = read_text((HloText){.data = (char *)source, .length = sizeof source - 1}, source);
    HloText text = {0};
    must(hlo_print(module, NULL, &text), source);
    cr_expect(strstr(text.data, "backend_config=\"0100fe00\""), "%s", text.data);
    hlo_text_free(&text);
    text = write_text(module, false, source);
    cr_expect(strstr(text.data, "backend_config = \"\\01\\00\\FE\\00\""), "%s", text.data);
    check_doors(module, NULL, source);
    hlo_text_free(&text);
    hlo_module_free(module);
}

// bug: the device of a recv was read as three shardings for two results, and dropped by the next reader.
Test(stablehlo_export, bug_device_of_a_recv_was_lost) {
    static const char source[] =
        "HloModule m\n\nENTRY e {\n  t = token[] after-all()\n  r = (f32[4]{0}, u32[], token[]) recv(t), channel_id=1, "
        "sharding={{maximal device=0}, {maximal device=0}, {maximal device=0}}\n  d = (f32[4]{0}, token[]) "
        "recv-done(r), "
        "channel_id=1\n  ROOT v = f32[4]{0} get-tuple-element(d), index=0\n}\n";
    HloModule *module = NULL;
    must(hlo_parse(source, sizeof source - 1, NULL, &module), source);
    HloText text = write_text(module, false, source);
    cr_expect(strstr(text.data, "mhlo.sharding = \"{maximal device=0}\""), "%s", text.data);
    HloModule *again = read_text(text, source);
    HloText printed = {0};
    must(hlo_print(again, NULL, &printed), source);
    cr_expect(strstr(printed.data, "sharding={{maximal device=0}, {maximal device=0}, {maximal device=0}}"), "%s",
              printed.data);
    check_doors(module, NULL, source);
    hlo_text_free(&text);
    hlo_text_free(&printed);
    hlo_module_free(module);
    hlo_module_free(again);
}

// bug: each searched all that had been written for the lists of its sizes; 20,000 of each took more than half a minute.
Test(stablehlo_export, bug_many_dynamic_reshapes_and_random_numbers_took_the_square_of_their_number) {
    enum { MANY = 20000 };
    HloText text = {0};
    hlo_text_string(&text,
                    "HloModule m\nadd {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT t = f32[] add(x, "
                    "y)\n}\nENTRY main {\n p = f32[4,2] parameter(0)\n one = s32[] constant(1)\n n0 = s32[] "
                    "parameter(1)\n a = f32[] parameter(2)\n z = f32[] constant(0)\n"
                    " r0 = f32[<=4,<=2] dynamic-reshape(p, one, n0)\n q0 = f32[] negate(a)\n");
    for (int i = 1; i <= MANY; i++)
        hlo_text_format(&text,
                        " n%d = s32[] add(n%d, one)\n r%d = f32[<=4,<=2] dynamic-reshape(r%d, n%d, n%d)\n"
                        " g%d = f32[%d] rng(q%d, a), distribution=rng_uniform\n q%d = f32[] reduce(g%d, z), "
                        "dimensions={0}, to_apply=add\n",
                        i, i - 1, i, i - 1, i, i - 1, i, i, i - 1, i, i);
    hlo_text_format(&text, " ROOT t = (f32[<=4,<=2], f32[]) tuple(r%d, q%d)\n}\n", MANY, MANY);
    HloModule *module = NULL;
    must(hlo_parse(text.data, text.length, NULL, &module), "many");
    must(hlo_verify(module), "many");
    HloText first = write_text(module, false, "many");
    HloModule *again = read_text(first, "many");
    HloText second = write_text(again, false, "many");
    cr_assert(second.length == first.length && memcmp(second.data, first.data, first.length) == 0);
    hlo_text_free(&first);
    hlo_text_free(&second);
    hlo_text_free(&text);
    hlo_module_free(again);
    hlo_module_free(module);
}

// bug: stacks of more than a hundred calls were truncated silently, and those of as many calls as fit in a file could
// have overflowed ours. The innermost line is what HLO keeps of them when it is read again.
Test(stablehlo_export, bug_the_outer_callers_of_deep_calls_were_dropped) {
    static const int depths[] = {1, 100, 101, 250, 3000};
    for (size_t i = 0; i < HLO_COUNT_OF(depths); i++) {
        HloText source = {0};
        hlo_text_string(&source, "HloModule m\n\nFileNames\n1 \"a.py\"\n\nFunctionNames\n");
        for (int f = 1; f <= depths[i]; f++) hlo_text_format(&source, "%d \"f%d\"\n", f, f);
        hlo_text_string(&source, "\nFileLocations\n");
        for (int f = 1; f <= depths[i]; f++)
            hlo_text_format(&source,
                            "%d {file_name_id=1 function_name_id=%d line=%d end_line=%d column=0 end_column=0}\n", f, f,
                            f, f);
        hlo_text_string(&source, "\nStackFrames\n");
        // A parent is written one higher than its number.
        for (int f = 1; f <= depths[i]; f++)
            hlo_text_format(&source, "%d {file_location_id=%d parent_frame_id=%d}\n", f, f, f);
        hlo_text_format(&source,
                        "\nENTRY e {\n  p = f32[] parameter(0)\n  ROOT r = f32[] negate(p), "
                        "metadata={stack_frame_id=%d}\n}\n",
                        depths[i]);
        HloModule *module = NULL;
        must(hlo_parse(source.data, source.length, NULL, &module), "deep");
        HloText text = write_text(module, true, "deep");
        for (int f = 1; f <= depths[i]; f++) {
            char line[64];
            snprintf(line, sizeof(line), "loc(\"a.py\":%d:0)", f);
            cr_assert(strstr(text.data, line), "%d of %d", f, depths[i]);
        }
        HloModule *from_text = read_text(text, "deep"), *from_bytes = through_bytecode(module, NULL, "deep");
        for (int door = 0; door < 2; door++) {
            const HloMetadata *metadata = (door ? from_bytes : from_text)->entry->root->metadata;
            cr_assert(metadata, "%d", door);
            cr_expect_str_eq(metadata->source_file, "a.py");
            cr_expect_eq(metadata->source_line, depths[i]);
        }
        hlo_module_free(from_text);
        hlo_module_free(from_bytes);
        hlo_module_free(module);
        hlo_text_free(&text);
        hlo_text_free(&source);
    }
}
