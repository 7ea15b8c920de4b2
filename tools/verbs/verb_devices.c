// SPDX-License-Identifier: Apache-2.0
// meshlo devices: the devices of a slice as JAX lists them.
//
// The text is Device.__str__ of JAX, the keys of --json are attributes of jax.Device, so that scripts can compare both
// with a real slice.
#include "tools/machine.h"

static const CliOption kOptions[] = {
    {"json", CLI_FLAG, NULL, "Print JSON: an array of objects in jax.devices() order."},
};
static const CliOptionTable kTable = CLI_TABLE(kOptions);

// In jax.devices() order, which is that of the topology.
static void print_json(HloText *text, const EmuTopology *topology) {
    HloJsonWriter json = {.text = text, .lines = 1};
    hlo_json_begin_array(&json);
    for (int64_t i = 0; i < topology->device_count; ++i) {
        const EmuDevice *device = &topology->devices[i];
        hlo_json_begin_object(&json);
        hlo_json_member_int64(&json, "id", device->id);
        hlo_json_member_int64(&json, "process_index", device->process_index);
        hlo_json_key(&json, "coords");
        hlo_json_int64_array(&json, device->coords, 3);
        hlo_json_member_int64(&json, "core_on_chip", device->core_on_chip);
        hlo_json_member_int64(&json, "slice_index", device->slice_index);
        hlo_json_member_string(&json, "device_kind", topology->device_kind);
        hlo_json_end_object(&json);
    }
    hlo_json_end_array(&json);
    hlo_text_char(text, '\n');
}

static HloStatus run_devices(CliContext *context) {
    EmuTopology *topology = NULL;
    const char *spec = context->arguments.count ? context->arguments.items[0] : NULL;
    HLO_TRY(cli_topology_open(context, spec, NULL, &topology));
    if (cli_flag(context, "json")) {
        print_json(&context->out, topology);
    } else {
        for (int64_t i = 0; i < topology->device_count; ++i) {
            emu_device_print(topology, &topology->devices[i], &context->out);
            hlo_text_char(&context->out, '\n');
        }
    }
    emu_topology_free(topology);
    return HLO_SUCCESS;
}

const CliVerb cli_verb_devices = {
    .name = "devices",
    .arguments = "TOPOLOGY",
    .summary = "List the devices of a slice, one a line, as JAX prints them.",
    .description =
        "TOPOLOGY is an accelerator type (v5e-16, v2-8), a runtime name (v4:2x2x2, v5:2x2x2 for v5p), several "
        "slices\n(2xv5e-16), host devices (cpu:8), or an XML description; default: MESHLO_TOPOLOGY.",
    .examples = "meshlo devices v2-8\nmeshlo devices v4:2x2x2 --json",
    .most_arguments = 1,
    .tables = {&kTable},
    .run = run_devices,
};
