// SPDX-License-Identifier: Apache-2.0
// Draws slices: as text with chips and wrap-around links, and as SVG with the load of each link. Planes of constant z
// are drawn one below the other.
#include <assert.h>
#include <math.h>

#include "emulator/draw.h"
#include "emulator/route.h"

// The chip at x, y, z of the first slice.
static int64_t chip_at(const EmuTopology *topology, int64_t x, int64_t y, int64_t z) {
    return x + topology->shape[0] * (y + topology->shape[1] * z);
}

// The first device of a chip of the first slice.
static const EmuDevice *device_at(const EmuTopology *topology, int64_t x, int64_t y, int64_t z) {
    return &topology->devices[emu_link_describe(topology, emu_ici_link(chip_at(topology, x, y, z), 0, 0)).from];
}

// "0" or "0,1": the devices of a chip, right-justified in `width` characters.
static void print_chip(const EmuTopology *topology, int64_t x, int64_t y, int64_t z, int width, HloText *text) {
    const EmuDevice *device = device_at(topology, x, y, z);
    HloText label = {0};
    for (int64_t core = 0; core < topology->devices_per_chip; core++)
        hlo_text_format(&label, "%s%lld", core ? "," : "", (long long)(device->id + core));
    hlo_text_format(text, "[%*s]", width, label.data ? label.data : "");
    hlo_text_free(&label);
}

// One plane z of the slice: rows are y, columns x; '=' and ':' at the edges show links that wrap.
static void draw_plane(const EmuTopology *topology, int64_t z, int width, HloText *text) {
    assert(z >= 0 && width > 0);
    const int64_t columns = topology->shape[0], rows = topology->shape[1];
    for (int64_t y = 0; y < rows; y++) {
        hlo_text_format(text, "  y=%-3lld %s", (long long)y, topology->wrap[0] ? "=" : " ");
        for (int64_t x = 0; x < columns; x++) {
            if (x) hlo_text_char(text, '-');
            print_chip(topology, x, y, z, width, text);
        }
        hlo_text_string(text, topology->wrap[0] ? "=\n" : "\n");
        if (y + 1 == rows && !topology->wrap[1]) break;
        hlo_text_string(text, "         ");
        for (int64_t x = 0; x < columns; x++)
            hlo_text_format(text, "%*s%c%*s", (width + 2) / 2, "", y + 1 == rows ? ':' : '|',
                            width + 2 - (width + 2) / 2 - 1 + (x + 1 < columns), "");
        while (text->length && text->data[text->length - 1] == ' ') text->length--;
        hlo_text_char(text, '\n');
    }
}

// Draws planes of z one below the other, each with its chips and links, with "=" and ":" for links that wrap. All ids
// are padded to the width of the widest, so that columns line up.
void emu_draw_topology(const EmuTopology *topology, HloText *text) {
    assert(topology && text);
    if (!emu_topology_is_tpu(topology)) {
        hlo_text_format(text, "%s: %lld host devices\n", topology->name, (long long)topology->device_count);
        return;
    }
    static const char axis_names[] = "xyz";
    hlo_text_format(text, "%s: %s, ", topology->name, topology->device_kind);
    if (topology->slice_count > 1) hlo_text_format(text, "%lld slices of ", (long long)topology->slice_count);
    emu_topology_print_shape(topology, text);
    hlo_text_format(
        text, " chips, %lld device%s, %lld host%s of %lldx%lldx%lld chips, wraps: ", (long long)topology->device_count,
        topology->device_count == 1 ? "" : "s", (long long)topology->host_count, topology->host_count == 1 ? "" : "s",
        (long long)topology->host_bounds[0], (long long)topology->host_bounds[1], (long long)topology->host_bounds[2]);
    bool any = false;
    for (int axis = 0; axis < 3; axis++)
        if (topology->wrap[axis]) {
            hlo_text_char(text, axis_names[axis]);
            any = true;
        }
    hlo_text_string(text, any ? "\n" : "none\n");
    HloText widest = {0};
    const int64_t last = emu_topology_slice_chips(topology) * topology->devices_per_chip - 1;
    hlo_text_format(&widest, "%lld", (long long)(last + (topology->slice_count > 1 ? EMU_SLICE_ID_STRIDE : 0)));
    const int digits = (int)widest.length, width = topology->devices_per_chip > 1 ? 2 * digits + 1 : digits;
    hlo_text_free(&widest);
    for (int64_t z = 0; z < topology->shape[2]; z++) {
        if (topology->chip.torus_axes == 3)
            hlo_text_format(text, "z=%lld%s\n", (long long)z, z == 0 && topology->wrap[2] ? " (z wraps)" : "");
        draw_plane(topology, z, width, text);
    }
}

// Sizes of the picture in pixels.
#define CELL 64
#define CHIP 40
#define MARGIN 48

// From green for an idle link to red for the busiest.
static void print_load_colour(double load, HloText *text) {
    if (!(load >= 0)) load = 0;
    if (load > 1) load = 1;
    hlo_text_format(text, "#%02x%02x40", (int)lround(60 + 180 * load), (int)lround(180 - 140 * load));
}

// The middle of a chip in the picture.
static void position(const EmuTopology *topology, int64_t x, int64_t y, int64_t z, int64_t at[2]) {
    at[0] = MARGIN + x * CELL + CHIP / 2 + z * (topology->shape[0] * CELL + MARGIN);
    at[1] = MARGIN + y * CELL + CHIP / 2;
}

// Draws both directions of the link from a chip along an axis (x or y), a line apart; wrapping ones as a stub at the
// edge.
static void draw_link(const EmuTopology *topology, const double *load, const int64_t chip_coords[3], int axis,
                      HloText *text) {
    assert(axis >= 0 && axis < 3);
    int64_t at[2], to[2], next[3] = {chip_coords[0], chip_coords[1], chip_coords[2]};
    const int64_t chip = chip_at(topology, next[0], next[1], next[2]);
    const bool edge = next[axis] + 1 == topology->shape[axis];
    if (topology->shape[axis] < 2 || (edge && !topology->wrap[axis])) return;
    position(topology, next[0], next[1], next[2], at);
    next[axis] = edge ? 0 : next[axis] + 1;
    position(topology, next[0], next[1], next[2], to);
    if (edge) {
        to[0] = axis == 0 ? at[0] + CELL / 2 : at[0];
        to[1] = axis == 1 ? at[1] + CELL / 2 : at[1];
    }
    for (int direction = 0; direction < 2; direction++) {
        const int64_t from = direction ? chip_at(topology, next[0], next[1], next[2]) : chip;
        const int64_t dx = axis == 1 ? direction * 6 - 3 : 0, dy = axis == 0 ? direction * 6 - 3 : 0;
        hlo_text_format(text, "<line x1='%lld' y1='%lld' x2='%lld' y2='%lld'%s stroke='", (long long)(at[0] + dx),
                        (long long)(at[1] + dy), (long long)(to[0] + dx), (long long)(to[1] + dy),
                        edge ? " stroke-dasharray='4 3'" : "");
        print_load_colour(load ? load[emu_ici_link(from, axis, direction)] : 0, text);
        hlo_text_string(text, "'/>\n");
    }
}

static void draw_chip(const EmuTopology *topology, int64_t x, int64_t y, int64_t z, HloText *text) {
    static const char *const host_colours[] = {"#dce8ff", "#ffe9d6", "#dff5df", "#f5e0f5", "#fff6cc", "#dcf3f5"};
    const EmuDevice *device = device_at(topology, x, y, z);
    int64_t at[2];
    position(topology, x, y, z, at);
    hlo_text_format(text, "<rect x='%lld' y='%lld' width='%d' height='%d' rx='5' fill='%s' stroke='#555'/>\n",
                    (long long)(at[0] - CHIP / 2), (long long)(at[1] - CHIP / 2), CHIP, CHIP,
                    host_colours[device->process_index % (int64_t)HLO_COUNT_OF(host_colours)]);
    hlo_text_format(text, "<text stroke='none' x='%lld' y='%lld'>%lld", (long long)at[0], (long long)(at[1] + 4),
                    (long long)device->id);
    if (topology->devices_per_chip > 1) hlo_text_format(text, ",%lld", (long long)(device->id + 1));
    hlo_text_format(text, "<title>chip (%lld,%lld,%lld) host %lld</title></text>\n", (long long)x, (long long)y,
                    (long long)z, (long long)device->process_index);
}

// Links come first, so that chips cover their ends. Links along z are not drawn: planes are side by side, and a bundle
// of parallel lines between them would not show anything. Characters that XML reads as markup are dropped from the
// name.
void emu_draw_topology_svg(const EmuTopology *topology, const double *link_load, HloText *text) {
    assert(topology && text);
    const int64_t *shape = topology->shape;
    const int64_t width = 2 * MARGIN + shape[2] * (shape[0] * CELL + MARGIN), height = 2 * MARGIN + shape[1] * CELL;
    hlo_text_format(text,
                    "<svg xmlns='http://www.w3.org/2000/svg' width='%lld' height='%lld' font-family='sans-serif' "
                    "font-size='11' text-anchor='middle' stroke-width='2'>\n<title>",
                    (long long)width, (long long)height);
    for (const char *c = topology->name; *c; c++)
        if (*c != '<' && *c != '&' && *c != '>') hlo_text_char(text, *c);
    hlo_text_string(text, "</title>\n");
    if (emu_topology_is_tpu(topology)) {
        for (int64_t z = 0; z < shape[2]; z++)
            for (int64_t y = 0; y < shape[1]; y++)
                for (int64_t x = 0; x < shape[0]; x++)
                    for (int axis = 0; axis < 2; axis++)
                        draw_link(topology, link_load, (int64_t[]){x, y, z}, axis, text);
        hlo_text_string(text, "<g stroke-width='1' fill='#222'>\n");
        for (int64_t z = 0; z < shape[2]; z++)
            for (int64_t y = 0; y < shape[1]; y++)
                for (int64_t x = 0; x < shape[0]; x++) draw_chip(topology, x, y, z, text);
        hlo_text_string(text, "</g>\n");
    }
    hlo_text_string(text, "</svg>\n");
}
