// SPDX-License-Identifier: Apache-2.0
// meshlo slices: what --on may name. Everything comes from emulator/chips.def and the rules of topology names.
#include "tools/machine.h"

static const CliOption kOptions[] = {
    {"json", CLI_FLAG, NULL, "Print JSON: an array of generations with their chip and their slices."},
};
static const CliOptionTable kTable = CLI_TABLE(kOptions);

static void print_name(void *argument, const EmuTopology *topology) {
    HloText *text = argument;
    hlo_text_format(text, " %s", topology->name);
}

static void write_slice(void *argument, const EmuTopology *topology) {
    HloJsonWriter *json = argument;
    HloText shape = {0};
    emu_topology_print_shape(topology, &shape);
    hlo_json_begin_object(json);
    hlo_json_member_string(json, "name", topology->name);
    hlo_json_member_string(json, "shape", shape.data ? shape.data : "");
    hlo_json_member_int64(json, "num_devices", topology->device_count);
    hlo_json_member_int64(json, "chips", topology->chip_count);
    hlo_json_member_int64(json, "hosts", topology->host_count);
    hlo_json_end_object(json);
    hlo_text_free(&shape);
}

static void write_chip(CliContext *context, HloJsonWriter *json, const EmuChip *chip) {
    const struct {
        const char *key;
        double value;
    } numbers[] = {
        {"bf16_flops_per_chip", chip->bf16_flops_per_chip},
        {"int8_flops_per_chip", chip->int8_flops_per_chip},
        {"hbm_bytes_per_device", (double)chip->hbm_bytes_per_device},
        {"hbm_bytes_per_second_per_chip", chip->hbm_bytes_per_second_per_chip},
        {"link_bytes_per_second", chip->link_bytes_per_second},
        {"dcn_bytes_per_second_per_host", chip->dcn_bytes_per_second_per_host},
        {"devices_per_chip", (double)chip->devices_per_chip},
        {"torus_axes", (double)chip->torus_axes},
        {"pod_chips", (double)(chip->pod_x * chip->pod_y * chip->pod_z)},
    };
    hlo_json_begin_object(json);
    hlo_json_member_string(json, "generation", chip->name);
    hlo_json_member_string(json, "device_kind", chip->device_kind);
    for (size_t i = 0; i < HLO_COUNT_OF(numbers); ++i) {
        hlo_json_member_double(json, numbers[i].key, numbers[i].value);
    }
    hlo_json_key(json, "slices");
    hlo_json_begin_array(json);
    cli_each_slice(context, chip, write_slice, json);
    hlo_json_end_array(json);
    hlo_json_end_object(json);
}

static void print_chip(CliContext *context, const EmuChip *chip) {
    HloText *out = &context->out;
    hlo_text_format(out,
                    "%s (%s): %.4g bf16 TFLOP/s and %.4g GB/s of HBM a chip, %.4g GiB a device, %lld device%s a chip\n"
                    "  links %.4g GB/s each way, %lld axes, pod of %lldx%lldx%lld chips\n ",
                    chip->name, chip->device_kind, chip->bf16_flops_per_chip * 1e-12,
                    chip->hbm_bytes_per_second_per_chip * 1e-9, (double)chip->hbm_bytes_per_device * 0x1p-30,
                    (long long)chip->devices_per_chip, chip->devices_per_chip == 1 ? "" : "s",
                    chip->link_bytes_per_second * 1e-9, (long long)chip->torus_axes, (long long)chip->pod_x,
                    (long long)chip->pod_y, (long long)chip->pod_z);
    cli_each_slice(context, chip, print_name, out);
    hlo_text_char(out, '\n');
}

static HloStatus run_slices(CliContext *context) {
    HloJsonWriter json = {.text = &context->out, .lines = 2};
    const bool as_json = cli_flag(context, "json");
    if (as_json) hlo_json_begin_array(&json);
    for (int i = 0; i < EMU_GENERATION_COUNT; ++i) {
        const EmuChip *chip = emu_chip((EmuGeneration)i);
        if (as_json)
            write_chip(context, &json, chip);
        else
            print_chip(context, chip);
    }
    if (as_json) {
        hlo_json_end_array(&json);
        hlo_text_char(&context->out, '\n');
    }
    return HLO_SUCCESS;
}

const CliVerb cli_verb_slices = {
    .name = "slices",
    .arguments = "",
    .summary = "List the generations and slices that --on may name, with FLOP/s, memory and links.",
    .description = "Shapes may be given too (v4:2x2x4), and several slices (2xv5e-16); see meshlo topology.",
    .examples = "meshlo slices\nmeshlo slices --json",
    .tables = {&kTable},
    .run = run_slices,
    .is_table = true,
};
