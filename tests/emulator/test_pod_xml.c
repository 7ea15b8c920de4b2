// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <libxml/parser.h>
#include <libxml/relaxng.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emulator/topology.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

static const char good_pod[] =
    "<tpupod version=\"1\">\n"
    " <chip kind=\"TPU v5 lite\" cores=\"1\" megacore=\"false\">\n"
    "  <hbm bytes=\"17179869184\" usable=\"16911433728\" bps=\"8.20e11\"/>\n"
    "  <core hz=\"1.5e9\"><mxu count=\"4\" dim=\"128\"/><vpu lanes=\"128\" sublanes=\"8\" alus=\"4\"/>"
    "<vmem bytes=\"134217728\" bps=\"1.78e13\"/></core>\n"
    "  <peak dtype=\"bf16\" flops=\"1.97e14\"/><peak dtype=\"s8\" flops=\"3.94e14\"/></chip>\n"
    " <host bounds=\"2 2 1\" pcie_bps=\"1.5e10\" hwloc=\"host-v5e.xml\"/>\n"
    " <ici link_bps=\"5.5e10\" hop_ns=\"1000\" eff=\"0.9\" wrap=\"full-axis\"/>\n"
    " <slice name=\"v5e-16\" dims=\"4 4\" wrap=\"false false\"/>"
    " <slice name=\"ring\" dims=\"16 4\" wrap=\"true false\" count=\"2\"/>\n"
    " <dcn host_bps=\"2.5e10\" latency_ns=\"20000\"/>\n"
    " <calib key=\"mxu.eff\" value=\"0.92\" source=\"pallas matmul.ipynb 8192^3\"/>\n"
    "</tpupod>\n";

// The good pod with the first `from` replaced by `to`, in a file whose name goes to `path`.
static void write_pod(char *path, const char *from, const char *to) {
    const char *at = from ? strstr(good_pod, from) : good_pod;
    cr_assert_not_null(at, "%s", from);
    strcpy(path, "/tmp/meshlo-pod-XXXXXX.xml");
    const int descriptor = mkstemps(path, 4);
    FILE *file = fdopen(descriptor, "w");
    fwrite(good_pod, 1, (size_t)(at - good_pod), file);
    fputs(to ? to : "", file);
    fputs(at + (from ? strlen(from) : 0), file);
    fclose(file);
}

Test(emulator_pod_xml, reads_a_pod) {
    char path[64], spec[96];
    EmuTopology *topology = NULL;
    write_pod(path, NULL, NULL);
    HloStatus status = emu_topology_parse(path, &topology);
    cr_assert_null(status, "%s", hlo_status_message(status));
    cr_assert_eq(topology->device_count, 16);
    cr_assert_eq(topology->host_count, 4);
    cr_assert_str_eq(topology->device_kind, "TPU v5 lite");
    cr_assert_eq(topology->chip.link_bytes_per_second, 5.5e10);
    cr_assert_eq(topology->chip.host_bytes_per_second_per_chip, 1.5e10);
    cr_assert_eq(topology->chip.mxu_efficiency, 0.92);
    cr_assert_eq(topology->chip.dcn_picoseconds, 20000000);
    cr_assert_eq(topology->chip.hbm_reserved_bytes_per_device, 17179869184 - 16911433728);
    emu_topology_free(topology);
    snprintf(spec, sizeof(spec), "%s#ring", path);
    cr_assert_null(emu_topology_parse(spec, &topology));
    cr_assert_eq(topology->device_count, 128);
    cr_assert_eq(topology->slice_count, 2);
    cr_assert(topology->wrap[0] && !topology->wrap[1]);
    emu_topology_free(topology);
    unlink(path);
}

Test(emulator_pod_xml, new_kinds_start_from_a_known_one) {
    char path[64];
    EmuTopology *topology = NULL;
    write_pod(path, "kind=\"TPU v5 lite\"", "kind=\"TPU x\" like=\"v6e\"");
    cr_assert_null(emu_topology_parse(path, &topology));
    cr_assert_str_eq(topology->device_kind, "TPU x");
    cr_assert_eq(topology->chip.generation, 6);
    emu_topology_free(topology);
    unlink(path);
}

typedef struct BadPod {
    char from[48], to[128], says[80];
} BadPod;

CaseList(emulator_pod_xml, refused) {
    static BadPod cases[] = {
        {"dim=\"128\"", "dim=\"129\"", ":4:1: error: attribute dim of mxu cannot be '129'"},
        {"link_bps=\"5.5e10\"", "link_bps=\"-1\"", "attribute link_bps of ici cannot be '-1'"},
        {"<slice name", "<slicee name", "slicee"},
        {"</tpupod>", "", "Premature end"},
        {"<tpupod", "<!DOCTYPE tpupod [<!ENTITY x SYSTEM \"file:///etc/hostname\">]><tpupod", "entities"},
        {"kind=\"TPU v5 lite\"", "kind=\"TPU x\"", "like="},
        {"kind=\"TPU v5 lite\"", "kind=\"&x;\"", "x"},
        {"dims=\"4 4\"", "dims=\"3 3\"", "do not divide"},
        {"dims=\"4 4\"", "dims=\"4 4 4 4\"", "dims"},
        {"dims=\"4 4\"", "dims=\"4 0\"", "dims"},
        {"dims=\"4 4\"", "dims=\"9999999999999999999999 4\"", "out of range"},
        {"dims=\"4 4\"", "dims=\"256 256\"", "at most 128 chips"},
        {"wrap=\"false false\"", "wrap=\"true true false false\"", "more wrap flags"},
        {"dims=\"4 4\" wrap=\"false false\"", "dims=\"2 2\" wrap=\"true false\"", "cannot wrap"},
        {"wrap=\"full-axis\"/>", "wrap=\"sideways\"/>", "wrap"},
        {"wrap=\"full-axis\"/>", "wrap=\"explicit\"/><slice name=\"a\" dims=\"4 4\"/>", "flags on every slice"},
        {"usable=\"16911433728\"", "usable=\"26911433728\"", "the usable HBM is larger"},
        {"<vmem bytes=\"134217728\"", "<vmem bytes=\"934217728000\"", "VMEM must be smaller"},
        {"<vmem bytes=\"134217728\"", "<vmem bytes=\"99999999999999999999\"", "too large"},
        {"key=\"mxu.eff\"", "key=\"mxu.speed\"", "attribute key of calib cannot be 'mxu.speed'"},
        // Values that no machine has were taken, passed over, or ended the process in the middle of a simulation.
        {"value=\"0.92\"", "value=\"0\"", "an efficiency is a fraction"},
        {"value=\"0.92\"", "value=\"1.5\"", "an efficiency is a fraction"},
        {"key=\"mxu.eff\" value=\"0.92\"", "key=\"hbm.eff\" value=\"1e-9\"", "an efficiency is a fraction"},
        {"key=\"mxu.eff\" value=\"0.92\"", "key=\"op.ns\" value=\"1e300\"", "implausibly large"},
        {"key=\"mxu.eff\" value=\"0.92\"", "key=\"mxu.ramp_bytes\" value=\"1e13\"", "implausibly large"},
        {"hop_ns=\"1000\"", "hop_ns=\"1e20\"", "hop_ns"},
        {"latency_ns=\"20000\"", "latency_ns=\"1e13\"", "latency_ns"},
        {"bps=\"8.20e11\"", "bps=\"1e-310\"", "bps"},
        {"flops=\"1.97e14\"", "flops=\"1e-310\"", "attribute flops of peak cannot be '1e-310'"},
        {"hz=\"1.5e9\"", "hz=\"0.5\"", "attribute hz of core cannot be '0.5'"},
        {"link_bps=\"5.5e10\"", "link_bps=\"1e30\"", "link_bps"},
        {"host_bps=\"2.5e10\"", "host_bps=\"nan\"", "host_bps"},
        {"wrap=\"false false\"", "wrap=\"false\"", "fewer wrap flags"},
        {"dims=\"4 4\" wrap=\"false false\"", "dims=\"4 4 4\" wrap=\"true true\"", "fewer wrap flags"},
        {"dims=\"4 4\"", "dims=\"128 128\" count=\"4096\"", "too many chips"},
        {" source=\"pallas matmul.ipynb 8192^3\"", "", "calib lacks the attribute source"},
        {"link_bps=\"5.5e10\" ", "", ":7:1: error: ici lacks the attribute link_bps"},
        {"bounds=", "bound=", ":6:1: error: host has no attribute bound"},
        {"version=\"1\"", "version=\"2\"", "attribute version of tpupod cannot be '2'"},
    };
    return cr_make_param_array(BadPod, cases, sizeof(cases) / sizeof(cases[0]));
}

CaseTest(BadPod *param, emulator_pod_xml, refused) {
    char path[64];
    EmuTopology *topology = NULL;
    write_pod(path, param->from, param->to);
    HloStatus status = emu_topology_parse(path, &topology);
    unlink(path);
    cr_assert_eq(hlo_status_code(status), HLO_INVALID_ARGUMENT, "%s", param->to);
    char *text = hlo_status_to_text(status);
    cr_assert_not_null(strstr(text, param->says), "%s: %s", param->to, text);
    free(text);
    hlo_status_free(status);
}

Test(emulator_pod_xml, missing_files_and_slices_are_named) {
    char path[64], spec[96];
    EmuTopology *topology = NULL;
    HloStatus status = emu_topology_parse("/nonexistent/pod.xml", &topology);
    cr_assert_not_null(strstr(hlo_status_message(status), "/nonexistent/pod.xml"));
    hlo_status_free(status);
    write_pod(path, NULL, NULL);
    snprintf(spec, sizeof(spec), "%s#other", path);
    status = emu_topology_parse(spec, &topology);
    unlink(path);
    cr_assert_not_null(strstr(hlo_status_message(status), "no slice named 'other'"));
    hlo_status_free(status);
}

// Every calibrated value arrives where it belongs.
typedef struct Calibrated {
    char key[24], value[12];
    int64_t offset;
    bool is_integer;
    double want;
} Calibrated;

CaseList(emulator_pod_xml, calibrated_values_arrive) {
    static Calibrated cases[] = {
        {"mxu.eff", "0.5", offsetof(EmuChip, mxu_efficiency), false, 0.5},
        {"mxu.sustained", "0.25", offsetof(EmuChip, mxu_sustained_efficiency), false, 0.25},
        {"hbm.eff", "1", offsetof(EmuChip, hbm_efficiency), false, 1},
        {"ici.eff", "0.002", offsetof(EmuChip, link_efficiency), false, 0.002},
        {"dcn.eff", "0.75", offsetof(EmuChip, dcn_efficiency), false, 0.75},
        {"launch.ns", "0", offsetof(EmuChip, launch_picoseconds), true, 0},
        {"op.ns", "2.5", offsetof(EmuChip, op_picoseconds), true, 2500},
        {"collective.ns", "1e3", offsetof(EmuChip, collective_picoseconds), true, 1e6},
        {"collective.step_ns", "1e12", offsetof(EmuChip, collective_step_picoseconds), true, 1e15},
        {"mxu.ramp_bytes", "512", offsetof(EmuChip, ramp_bytes), true, 512},
    };
    return cr_make_param_array(Calibrated, cases, sizeof(cases) / sizeof(cases[0]));
}
CaseTest(Calibrated *one, emulator_pod_xml, calibrated_values_arrive) {
    char path[64], calib[96];
    EmuTopology *topology = NULL;
    snprintf(calib, sizeof(calib), "key=\"%s\" value=\"%s\"", one->key, one->value);
    write_pod(path, "key=\"mxu.eff\" value=\"0.92\"", calib);
    HloStatus status = emu_topology_parse(path, &topology);
    unlink(path);
    cr_assert_null(status, "%s", hlo_status_message(status));
    const char *at = (const char *)&topology->chip + one->offset;
    const double have =
        one->is_integer ? (double)*(const int64_t *)(const void *)at : *(const double *)(const void *)at;
    cr_expect_eq(have, one->want, "%s: %g", one->key, have);
    emu_topology_free(topology);
}

// bug: reading a pod took libxml2's handler of errors from the program around it.
static void keep_silent(void *user, xmlErrorPtr error) {
    (void)error;
    ++*(int *)user;
}

Test(emulator_pod_xml, bug_the_error_handler_of_the_process_was_reset) {
    static const char *const wrongs[][2] = {{"</tpupod>", ""}, {"dim=\"128\"", "dim=\"129\""}, {NULL, ""}};
    int heard = 0;
    xmlSetStructuredErrorFunc(&heard, (xmlStructuredErrorFunc)keep_silent);
    for (size_t i = 0; i < HLO_COUNT_OF(wrongs); i++) {
        char path[64];
        EmuTopology *topology = NULL;
        write_pod(path, wrongs[i][0], wrongs[i][1]);
        HloStatus status = emu_topology_parse(path, &topology);
        cr_expect_eq(!status, wrongs[i][0] == NULL);
        hlo_status_free(status);
        emu_topology_free(topology);
        unlink(path);
        cr_expect_eq(xmlStructuredError, (xmlStructuredErrorFunc)keep_silent);
        cr_expect_eq(xmlStructuredErrorContext, &heard);
    }
    cr_expect_eq(heard, 0, "the error of a pod is reported once");
    xmlSetStructuredErrorFunc(NULL, NULL);
}

// libxml2 has an allocator of its own, which the tests of memory cannot make fail.
static int64_t allocations_left = -1;

static bool is_out_of_memory(void) {
    if (allocations_left < 0) return false;
    if (allocations_left > 0) allocations_left--;
    return allocations_left == 0;
}

static void *short_malloc(size_t size) {
    return is_out_of_memory() ? NULL : malloc(size);
}

static void *short_realloc(void *memory, size_t size) {
    return is_out_of_memory() ? NULL : realloc(memory, size);
}

static char *short_strdup(const char *text) {
    return is_out_of_memory() ? NULL : strdup(text);
}

static const struct {
    int64_t allocations;
    const char *says;
} shortages[] = {{1, "no memory to parse it"},       {10, "no memory to parse it"},
                 {100, "no memory to parse it"},     {300, "no memory to validate it"},
                 {1000, "no memory to validate it"}, {2000, "no memory to validate it"}};

// bug: most failures of libxml2 for lack of memory were reported as faults of the pod. Each case is a process of its
// own: libxml2 2.9.14 does not survive many of them.
CaseList(emulator_pod_xml, bug_too_little_memory_for_libxml2) {
    return cases_numbered(HLO_COUNT_OF(shortages));
}
CaseTest(const int *number, emulator_pod_xml, bug_too_little_memory_for_libxml2) {
    char path[64];
    int heard = 0;
    EmuTopology *topology = NULL;
    write_pod(path, NULL, NULL);
    cr_assert_eq(xmlMemSetup(free, short_malloc, short_realloc, short_strdup), 0);
    xmlInitParser();
    xmlRelaxNGInitTypes();
    xmlSetStructuredErrorFunc(&heard, (xmlStructuredErrorFunc)keep_silent);
    allocations_left = shortages[*number].allocations;
    HloStatus status = emu_topology_parse(path, &topology);
    allocations_left = -1;
    must_fail(status, HLO_RESOURCE_EXHAUSTED, shortages[*number].says);
    unlink(path);
}
