// SPDX-License-Identifier: Apache-2.0
// meshlo topology: what a slice looks like, and where the devices of a mesh are in it.
//
// Three forms of output: a description with a drawing, the ids of a mesh, JSON with both; and files for browsers (SVG)
// and for hwloc's tools. The slice comes from emulator/topology.h, the order of a mesh from emulator/mesh_order.h,
// which follows JAX's mesh_utils.
#include "tools/machine.h"
#include "tools/program.h"

#include <string.h>
#include <unistd.h>

static const CliOption kOptions[] = {
    {"mesh", CLI_TEXT, "4,2", "Print the device ids of such a mesh in the order of JAX's make_mesh."},
    {"split", CLI_FLAG, NULL, "Let the mesh split physical axes."},
    {"json", CLI_FLAG, NULL, "Print JSON."},
    {"svg", CLI_OUTPUT, "FILE", "Write a drawing of the slice to FILE."},
    {"hwloc", CLI_OUTPUT, "FILE", "Write the slice as an hwloc topology in XML, for lstopo, to FILE."},
};
static const CliOptionTable kTable = CLI_TABLE(kOptions);

// Everything that the two forms of output show.
typedef struct Report {
    const EmuTopology *topology;
    int64_t sizes[EMU_MAX_MESH_AXES];
    int64_t axis_count;
    const int64_t *ids;  // NULL without --mesh
    int64_t id_count;
    int64_t links[3];  // directed links by EmuLinkKind
} Report;

// Counts directed links, two for each wire. Link numbers have gaps (the ends of axes that do not close), so each is
// checked for existence.
static void count_links(Report *report) {
    int64_t limit = emu_topology_is_tpu(report->topology) ? emu_link_limit(report->topology) : 0;
    for (int64_t i = 0; i < limit; ++i) {
        EmuLink link = emu_link_describe(report->topology, i);
        if (link.exists) ++report->links[link.kind];
    }
}

// The keys are those of docs/cli.md, more may be added. `ids` is flat, row-major over the mesh.
static void print_json(HloText *text, const Report *report) {
    const EmuTopology *topology = report->topology;
    HloJsonWriter json = {.text = text, .lines = 1};
    hlo_json_begin_object(&json);
    hlo_json_member_string(&json, "name", topology->name);
    hlo_json_member_string(&json, "kind", topology->device_kind);
    hlo_json_key(&json, "shape");
    hlo_json_int64_array(&json, topology->shape, 3);
    hlo_json_key(&json, "wrap");
    hlo_json_begin_array(&json);
    for (int i = 0; i < 3; ++i) hlo_json_bool(&json, topology->wrap[i]);
    hlo_json_end_array(&json);
    hlo_json_key(&json, "host_bounds");
    hlo_json_int64_array(&json, topology->host_bounds, 3);
    const struct {
        const char *key;
        int64_t value;
    } counts[] = {{"slices", topology->slice_count},
                  {"hosts", topology->host_count},
                  {"chips", topology->chip_count},
                  {"num_devices", topology->device_count},
                  {"ici_links", report->links[EMU_LINK_ICI]},
                  {"dcn_links", report->links[EMU_LINK_DCN]}};
    for (size_t i = 0; i < HLO_COUNT_OF(counts); ++i) {
        hlo_json_member_int64(&json, counts[i].key, counts[i].value);
    }
    if (report->ids) {
        hlo_json_key(&json, "mesh");
        hlo_json_int64_array(&json, report->sizes, report->axis_count);
        hlo_json_key(&json, "ids");
        hlo_json_int64_array(&json, report->ids, report->id_count);
    }
    hlo_json_end_object(&json);
    hlo_text_char(text, '\n');
}

static void print_chip(HloText *text, const EmuChip *chip) {
    hlo_text_format(text, "chip: %.4g bf16 TFLOP/s, %.4g GB/s of HBM, ", chip->bf16_flops_per_chip * 1e-12,
                    chip->hbm_bytes_per_second_per_chip * 1e-9);
    emu_print_size(chip->hbm_bytes_per_device, text);
    hlo_text_format(text, " a device, links of %.4g GB/s each way\n", chip->link_bytes_per_second * 1e-9);
}

// The drawing without its title, which repeats the lines above it.
static void print_drawing(HloText *text, const EmuTopology *topology) {
    HloText drawing = {0};
    emu_draw_topology(topology, &drawing);
    const char *rest = drawing.data ? strchr(drawing.data, '\n') : NULL;
    if (rest) hlo_text_string(text, rest);
    hlo_text_free(&drawing);
}

static void print_slice(HloText *text, const Report *report) {
    const EmuTopology *topology = report->topology;
    hlo_text_format(text, "%s: %s, %lld devices on %lld chips\nshape: ", topology->name, topology->device_kind,
                    (long long)topology->device_count, (long long)topology->chip_count);
    emu_topology_print_shape(topology, text);
    if (topology->slice_count > 1) hlo_text_format(text, " x %lld slices", (long long)topology->slice_count);
    hlo_text_format(text, "\nhosts: %lld, each %lldx%lldx%lld chips\nwrap: ", (long long)topology->host_count,
                    (long long)topology->host_bounds[0], (long long)topology->host_bounds[1],
                    (long long)topology->host_bounds[2]);
    bool any = false;
    for (int i = 0; i < 3; ++i) {
        if (!topology->wrap[i]) continue;
        hlo_text_format(text, "%s%c", any ? " " : "", "xyz"[i]);
        any = true;
    }
    hlo_text_format(text, "%s\nlinks: %lld ICI, %lld between slices\n", any ? "" : "none",
                    (long long)report->links[EMU_LINK_ICI], (long long)report->links[EMU_LINK_DCN]);
    if (!emu_topology_is_tpu(topology)) return;
    print_chip(text, &topology->chip);
    print_drawing(text, topology);
}

// On one line, as scripts read them.
static void print_ids(HloText *text, const Report *report) {
    for (int64_t i = 0; i < report->id_count; ++i) {
        hlo_text_format(text, "%s%lld", i ? " " : "", (long long)report->ids[i]);
    }
    hlo_text_char(text, '\n');
}

// In the shape of the mesh, as NumPy prints arrays: the last axis to the right, the one before it down, an empty line
// between such tables for each axis more.
static void print_id_table(HloText *text, const Report *report) {
    int width = 1;
    for (int64_t most = report->topology->device_count - 1; most >= 10; most /= 10) ++width;
    for (int64_t i = 0; i < report->id_count; ++i) {
        hlo_text_format(text, "%*lld", width, (long long)report->ids[i]);
        int64_t row = 1, ends = 0;
        for (int64_t axis = report->axis_count - 1; axis >= 0; --axis) {
            row *= report->sizes[axis];
            if ((i + 1) % row == 0) ++ends;
        }
        hlo_text_char(text, ends ? '\n' : ' ');
        for (int64_t end = 1; end < ends && i + 1 < report->id_count; ++end) hlo_text_char(text, '\n');
    }
}

// Fills the mesh part of the report. If JAX refuses the mesh, sets *refused, and the verb ends with exit code 1. JAX's
// refusals come as UNIMPLEMENTED from the mesh order, with JAX's own reason; they are a finding, since scripts test
// whether a mesh is possible. Wrong options stay errors.
static HloStatus place_mesh(CliContext *context, Report *report, bool *refused) {
    CliMesh mesh;
    HLO_TRY(cli_mesh_parse(context, cli_text(context, "mesh"), &mesh));
    if (mesh.count > EMU_MAX_MESH_AXES)
        return cli_usage_error(context, "a mesh has at most %d axes", EMU_MAX_MESH_AXES);
    report->axis_count = mesh.count;
    report->id_count = mesh.devices;
    for (int64_t i = 0; i < mesh.count; ++i) report->sizes[i] = mesh.axes[i].size;
    HloStatus status =
        cli_mesh_ids(context, report->topology, report->sizes, mesh.count, cli_flag(context, "split"), &report->ids);
    *refused = hlo_status_code(status) == HLO_UNIMPLEMENTED;
    if (!*refused) return status;
    HloStatus done = cli_fail(context, CLI_EXIT_CHECK_FAILED, "%s", hlo_status_message(status));
    hlo_status_free(status);
    return done;
}

static HloStatus write_svg(CliContext *context, const EmuTopology *topology, const char *path) {
    HloText svg = {0};
    emu_draw_topology_svg(topology, NULL, &svg);
    HloStatus status = cli_write_file(context, path, &svg);
    hlo_text_free(&svg);
    return status;
}

static HloStatus write_hwloc(CliContext *context, const EmuTopology *topology, const char *path) {
    HloText xml = {0};
    HloStatus status = emu_export_hwloc(topology, &xml);
    if (!status) status = cli_write_file(context, path, &xml);
    hlo_text_free(&xml);
    return status;
}

// Decides everything about standard output before a file is written.
static HloStatus report_topology(CliContext *context, const EmuTopology *topology) {
    Report report = {.topology = topology};
    bool refused = false, taken;
    static const char *const kOutputs[] = {"svg", "hwloc", "json"};
    HLO_TRY(cli_standard_output(context, kOutputs, HLO_COUNT_OF(kOutputs), &taken));
    if (taken && cli_flag(context, "mesh")) {
        return cli_usage_error(context, "the ids of --mesh and a file cannot both go to standard output");
    }
    if (cli_flag(context, "split") && !cli_flag(context, "mesh")) {
        return cli_usage_error(context, "--split needs --mesh");
    }
    if (cli_text(context, "mesh")) HLO_TRY(place_mesh(context, &report, &refused));
    if (refused) return HLO_SUCCESS;
    if (cli_text(context, "svg")) HLO_TRY(write_svg(context, topology, cli_text(context, "svg")));
    if (cli_text(context, "hwloc")) HLO_TRY(write_hwloc(context, topology, cli_text(context, "hwloc")));
    count_links(&report);
    if (cli_flag(context, "json")) {
        print_json(&context->out, &report);
    } else if (report.ids) {
        (isatty(STDOUT_FILENO) ? print_id_table : print_ids)(&context->out, &report);
    } else if (!taken) {
        print_slice(&context->out, &report);
    }
    return HLO_SUCCESS;
}

static HloStatus run_topology(CliContext *context) {
    EmuTopology *topology = NULL;
    const char *spec = context->arguments.count ? context->arguments.items[0] : NULL;
    HLO_TRY(cli_topology_open(context, spec, NULL, &topology));
    HloStatus status = report_topology(context, topology);
    emu_topology_free(topology);
    return status;
}

const CliVerb cli_verb_topology = {
    .name = "topology",
    .arguments = "TOPOLOGY",
    .summary = "Describe a slice: shape, hosts, wrapping links; or the device order of a mesh on it.",
    .description =
        "With --mesh, prints the device ids in the order of jax.make_mesh, row-major. A mesh that JAX refuses ends "
        "with\nexit code 1 and its reason.",
    .examples =
        "meshlo topology v5e:4x8\nmeshlo topology v2-8 --mesh 4,2\nmeshlo topology v4:4x4x4 --mesh 16,4 --split "
        "--json\nmeshlo topology v5p-64 --svg slice.svg",
    .most_arguments = 1,
    .tables = {&kTable},
    .run = run_topology,
};
