// SPDX-License-Identifier: Apache-2.0
// Writes the report as one self-contained HTML page. The numbers are an object in the page (page_data.c), which a
// script draws (page.js): where the step goes, the timeline, operations, the roofline, memory, the links. The style
// sheet and the script are built into the library (cmake/embed.cmake).
//
// The page loads no other file, so it opens from an email or an archive of results. All text from the program passes
// through print_escaped() here, or is data that the script never takes for markup.
#include <assert.h>

#include "emulator/report/base_js.h"
#include "emulator/report/compare_js.h"
#include "emulator/report/page_css.h"
#include "emulator/report/page_data.h"
#include "emulator/report/page_js.h"
#include "hlo/base/version.h"

// Prints text without anything that a browser would take for a tag.
static void print_escaped(HloText *text, const char *plain) {
    assert(plain);
    for (; *plain; ++plain) {
        switch (*plain) {
            case '<': hlo_text_string(text, "&lt;"); break;
            case '>': hlo_text_string(text, "&gt;"); break;
            case '&': hlo_text_string(text, "&amp;"); break;
            case '"': hlo_text_string(text, "&quot;"); break;
            default: hlo_text_char(text, *plain);
        }
    }
}

// The beginning of a page with a title, up to the style sheet.
static void print_style(HloText *text, const char *title) {
    hlo_text_string(text,
                    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
    print_escaped(text, title);
    hlo_text_string(text, "</title>\n<style>\n");
    hlo_text_append(text, (const char *)emu_page_css, sizeof emu_page_css);
    hlo_text_string(text, "</style></head>\n<body><main>\n<h1>");
    print_escaped(text, title);
    hlo_text_string(text, "</h1>\n");
}

static void print_version(HloText *text) {
    const unsigned version = hlo_api_version();
    hlo_text_format(text, "emulated by Meshlo %u.%u.%u", version >> 16, version >> 8 & 255, version & 255);
}

static void print_head(HloText *text, const EmuReport *report) {
    HloText title = {0};
    hlo_text_format(&title, "%s on %s", report->module, report->topology);
    print_style(text, title.data ? title.data : "");
    text->failed |= title.failed;
    hlo_text_free(&title);
    hlo_text_format(text, "<p class=\"note\">One step on %lld × ", (long long)report->num_devices);
    print_escaped(text, report->device_kind);
    if (*report->mesh) {
        hlo_text_string(text, ", mesh ");
        print_escaped(text, report->mesh);
        if (*report->mesh_source) {
            hlo_text_string(text, " (");
            print_escaped(text, report->mesh_source);
            hlo_text_char(text, ')');
        }
    }
    if (*report->faults) {
        hlo_text_string(text, ", with the faults ");
        print_escaped(text, report->faults);
    }
    hlo_text_string(text, ", ");
    print_version(text);
    hlo_text_string(text, "</p>\n");
}

// The scripts, which end the page.
static void print_scripts(HloText *text, const unsigned char *script, size_t length) {
    hlo_text_string(text, "</script>\n<script>\n");
    hlo_text_append(text, (const char *)emu_base_js, sizeof emu_base_js);
    hlo_text_append(text, (const char *)script, length);
    hlo_text_string(text, "</script></body></html>\n");
}

// The places that the script fills.
static const char kBody[] =
    "<nav><a href=\"#timeline-part\">Timeline</a><a href=\"#profile-part\">Operations</a>"
    "<a href=\"#collectives-part\">Collectives</a><a href=\"#roofline-part\">Roofline</a>"
    "<a href=\"#shardings-part\">Shardings</a>"
    "<a href=\"#memory-part\">Memory</a><a href=\"#links-part\">Links</a></nav>\n"
    "<div class=\"tiles\" id=\"tiles\"></div>\n"
    "<section><div class=\"head\"><h2>Where the step goes</h2></div>\n"
    "<div class=\"bar\" id=\"parts\"></div><div class=\"key\" id=\"parts-key\"></div></section>\n"
    "<section id=\"timeline-part\"><div class=\"head\"><h2>Timeline</h2><div class=\"tools\">\n"
    "<span class=\"note\" id=\"found\"></span><input id=\"search\" placeholder=\"search: name, opcode, source, scope\" "
    "aria-label=\"search\">\n<button id=\"zoom-in\" title=\"w\">+</button><button id=\"zoom-out\" "
    "title=\"s\">−</button>"
    "<button id=\"zoom-all\" title=\"0\">all</button></div></div>\n"
    "<div class=\"box\" id=\"timeline\"></div>\n"
    "<p class=\"note\">Drag to move, Ctrl and wheel, w and s or two fingers to zoom, a double click shows one "
    "operation, Enter in "
    "the search goes to the next match. Iterations of loops are drawn like the first.</p></section>\n"
    "<section id=\"profile-part\"><div class=\"head\"><h2>Operations</h2><div class=\"tools\"><label>by <select "
    "id=\"group\">\n<option value=\"opcode\">opcode</option><option value=\"bound\">unit</option>"
    "<option value=\"scope\">scope</option><option value=\"source\">source line</option>"
    "<option value=\"name\">operation</option></select></label>\n<input id=\"filter\" placeholder=\"filter\" "
    "aria-label=\"filter\"></div></div>\n<p class=\"note\" id=\"profile-note\"></p><div "
    "id=\"profile\"></div></section>\n"
    "<div class=\"split\"><section id=\"collectives-part\"><div class=\"head\"><h2>Collectives</h2></div>"
    "<p class=\"note\" id=\"collectives-note\"></p><div id=\"collectives\"></div></section>\n"
    "<section id=\"roofline-part\"><div class=\"head\"><h2>Roofline</h2></div><p class=\"note\">Kernels by arithmetic "
    "and HBM traffic; the area is their share of the step.</p><div class=\"box\" "
    "id=\"roofline\"></div></section></div>\n"
    "<section id=\"shardings-part\"><div class=\"head\"><h2>Shardings of the parameters</h2></div>"
    "<p class=\"note\" id=\"shardings-note\"></p><div id=\"shardings\"></div></section>\n"
    "<section id=\"memory-part\"><div class=\"head\"><h2>Memory over time</h2></div>"
    "<div class=\"box\" id=\"memory\"></div><p class=\"note\" id=\"memory-key\"></p>\n"
    "<div class=\"head\"><h2>Largest buffers at the peak</h2></div><div id=\"buffers\"></div></section>\n"
    "<section id=\"links-part\"><div class=\"head\"><h2>Links</h2><div class=\"tools\" id=\"links-scale\"></div></div>"
    "<p class=\"note\" id=\"links-note\"></p><div id=\"links\"></div></section>\n"
    "</main><div id=\"tip\"></div>\n<script type=\"application/json\" id=\"data\">";

// Appends; failures of memory stay in `text` (hlo_text_status()).
void emu_report_write_html(const EmuReport *report, const EmuTopology *topology, HloText *text) {
    assert(report && topology && text);
    print_head(text, report);
    hlo_text_string(text, kBody);
    HloStatus status = emu_page_data_write(report, topology, text);
    text->failed |= status != HLO_SUCCESS;
    hlo_status_free(status);
    print_scripts(text, emu_page_js, sizeof emu_page_js);
}

// ---- several reports

static const char kComparison[] =
    "<nav><a href=\"#parts-part\">Where the step goes</a><a href=\"#profile-part\">Operations</a>"
    "<a href=\"#collectives-part\">Collectives</a><a href=\"#memory-part\">Memory</a>"
    "<a href=\"#shardings-part\">Shardings</a></nav>\n"
    "<section><div id=\"numbers\"></div></section>\n"
    "<section id=\"parts-part\"><div class=\"head\"><h2>Where the step goes</h2></div><div id=\"parts\"></div>"
    "<div class=\"key\" id=\"parts-key\"></div></section>\n"
    "<section id=\"timeline-part\"><div class=\"head\"><h2>Timelines</h2></div><div id=\"timelines\"></div>"
    "<p class=\"note\">All on one scale; the device above, the network below.</p></section>\n"
    "<section id=\"profile-part\"><div class=\"head\"><h2>Operations</h2><div class=\"tools\"><label>by <select "
    "id=\"group\">\n<option value=\"opcode\">opcode</option><option value=\"bound\">unit</option>"
    "<option value=\"scope\">scope</option><option value=\"source\">source line</option></select></label>\n<input "
    "id=\"filter\" placeholder=\"filter\" aria-label=\"filter\"></div></div>\n<div id=\"profile\"></div></section>\n"
    "<section id=\"collectives-part\"><div class=\"head\"><h2>Collectives</h2></div><div "
    "id=\"collectives\"></div></section>\n"
    "<section id=\"memory-part\"><div class=\"head\"><h2>Memory over time</h2></div>"
    "<div class=\"box\" id=\"memory\"></div><div class=\"key\" id=\"memory-key\"></div></section>\n"
    "<section id=\"shardings-part\"><div class=\"head\"><h2>Shardings of the parameters</h2></div>"
    "<p class=\"note\" id=\"shardings-note\"></p><div id=\"shardings\"></div></section>\n"
    "</main><div id=\"tip\"></div>\n<script type=\"application/json\" id=\"data\">[";

void emu_report_write_comparison_html(const EmuReport *const *reports, const EmuTopology *const *topologies,
                                      const char *const *names, int64_t count, HloText *text) {
    assert(reports && topologies && names && count > 0 && text);
    print_style(text, "Comparison");
    hlo_text_string(text, "<p class=\"note\">One step each, ");
    print_version(text);
    hlo_text_string(text, "</p>\n<ol type=\"A\">\n");
    for (int64_t i = 0; i < count; i++) {
        hlo_text_string(text, "<li>");
        print_escaped(text, names[i]);
        hlo_text_string(text, "</li>\n");
    }
    hlo_text_string(text, "</ol>\n");
    hlo_text_string(text, kComparison);
    for (int64_t i = 0; i < count; i++) {
        if (i) hlo_text_char(text, ',');
        HloStatus status = emu_page_data_write(reports[i], topologies[i], text);
        text->failed |= status != HLO_SUCCESS;
        hlo_status_free(status);
    }
    hlo_text_char(text, ']');
    print_scripts(text, emu_compare_js, sizeof emu_compare_js);
}
