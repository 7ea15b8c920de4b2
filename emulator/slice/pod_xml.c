// SPDX-License-Identifier: Apache-2.0
// Reads pod descriptions in XML. libxml2 parses them without network and without entities, they are validated against
// emulator/pod.rng (a copy of which is built in), and then checked for what a grammar cannot express.
//
// A file is read in four steps: parse (no network, no entities; a document type is rejected), validate against pod.rng,
// copy the given values over a known generation, build as for a name. The schema keeps the reading code short: every
// element has its required attributes.
//
//   <tpupod version="1"> <chip kind="TPU v5 lite"> .. </chip> .. <slice name="half" dims="8 16"/> </tpupod>
//   is what --topology pod.xml#half names
//
// Everything from libxml2 is copied into the arena and freed here. Its messages are stored in the reader, never written
// to standard error.
#include <errno.h>
#include <libxml/parser.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/pod_grammar.h"
#include "emulator/slice/topology_build.h"
#include "hlo/base/decimal.h"
#include "hlo/base/file.h"

// The largest description read, in bytes: a pod is a page of text.
#define MAX_BYTES (1 << 20)

// The state of the reader.
typedef struct PodReader {
    HloArena *arena;
    const char *path;
    const char *slice;  // the name after '#', or NULL
    const char *spec;
    xmlDocPtr document;
    EmuChip chip;
    EmuTopologyPlan plan;
    int64_t host_bounds[3];
    bool explicit_wrap;
    char message[512];  // first complaint of libxml2
    int line;
    bool no_memory;      // libxml2 had too little
    int64_t slice_line;  // of the slice that was taken
} PodReader;

// An error at a line of the file.
static HloStatus pod_error(const PodReader *reader, int64_t line, const char *message) {
    const HloPlace place = {.file = reader->path, .line = line, .column = line > 0};
    return hlo_error_at(HLO_INVALID_ARGUMENT, &place, "%s", message);
}

// Keeps the first error of libxml2, which would otherwise print it, unless a later one is more exact: errors about a
// choice end with a general one without a line.
static void keep_complaint(PodReader *reader, const xmlError *error) {
    reader->no_memory |= error->code == XML_ERR_NO_MEMORY;
    if (!error->message || (reader->message[0] && (reader->line || !error->line))) return;
    snprintf(reader->message, sizeof(reader->message), "%s", error->message);
    reader->message[strcspn(reader->message, "\n")] = 0;
    reader->line = error->line;
}

// A parser passes its context, which carries the reader, to its handlers.
static void keep_parse_complaint(void *user, xmlErrorPtr error) {
    const xmlParserCtxt *context = user;
    keep_complaint(context->_private, error);
}

static void keep_valid_complaint(void *user, xmlErrorPtr error) {
    keep_complaint(user, error);
}

// Parses the text into reader->document: no network, no external or expanded entities.
static HloStatus parse_document(PodReader *reader) {
    HloFileContent content = {0};
    HLO_TRY(hlo_file_read(reader->path, MAX_BYTES, &content));
    xmlParserCtxtPtr context = xmlNewParserCtxt();
    if (context) {
        // Set only on this context: the handler of the process, or of the thread, belongs to the host program.
        context->_private = reader;
        context->sax->serror = (xmlStructuredErrorFunc)keep_parse_complaint;
        reader->document = xmlCtxtReadMemory(context, content.data, (int)content.size, reader->path, NULL,
                                             XML_PARSE_NONET | XML_PARSE_NOCDATA);
        xmlFreeParserCtxt(context);
    }
    hlo_file_content_free(&content);
    // libxml2 reports an error for every bad file; without one it ran out of memory before parsing.
    const bool silent = !reader->document && !reader->message[0];
    HLO_FAIL_IF(!context || reader->no_memory || silent, HLO_RESOURCE_EXHAUSTED, "%s: no memory to parse it",
                reader->path);
    if (!reader->document) return pod_error(reader, reader->line, reader->message);
    if (reader->document->intSubset)
        return pod_error(reader, 0, "a document type and entities are not accepted in a pod description");
    return HLO_SUCCESS;
}

// The first element with a blank list attribute, and that attribute; NULL if there is none. libxml2 fails on a blank
// list as if memory were short, even if the grammar allows it.
static const xmlNode *find_blank_list(const xmlNode *at, const xmlAttr **blank) {
    static const char *const lists[] = {"dims", "bounds", "wrap"};
    for (; at; at = at->next) {
        for (const xmlAttr *attr = at->type == XML_ELEMENT_NODE ? at->properties : NULL; attr; attr = attr->next)
            for (size_t i = 0; i < HLO_COUNT_OF(lists); i++) {
                const char *text = attr->children ? (const char *)attr->children->content : NULL;
                if (strcmp((const char *)attr->name, lists[i]) || (text && text[strspn(text, " \t\r\n")])) continue;
                *blank = attr;
                return at;
            }
        const xmlNode *found = at->type == XML_ELEMENT_NODE ? find_blank_list(at->children, blank) : NULL;
        if (found) return found;
    }
    return NULL;
}

// Refuses a blank list.
static HloStatus check_blank_lists(const PodReader *reader) {
    const xmlAttr *blank = NULL;
    const xmlNode *holder = find_blank_list(xmlDocGetRootElement(reader->document), &blank);
    if (!holder) return HLO_SUCCESS;
    // On the stack: the caller frees the document, and a jump out of the arena would bypass it.
    char message[128];
    snprintf(message, sizeof(message), "attribute %s of %.60s is empty", (const char *)blank->name,
             (const char *)holder->name);
    return pod_error(reader, xmlGetLineNo(holder), message);
}

// Validates reader->document against the grammar.
static HloStatus validate_with(PodReader *reader, EmuPodGrammar *grammar) {
    const int outcome =
        emu_pod_grammar_validate(grammar, reader->document, (xmlStructuredErrorFunc)keep_valid_complaint, reader);
    if (outcome == 0 && !reader->no_memory) return HLO_SUCCESS;
    HloText complaint = {0};
    const xmlNode *element =
        reader->no_memory ? NULL : emu_pod_attribute_complaint(grammar, reader->document, &complaint);
    HLO_FAIL_IF(!element && (outcome < 0 || reader->no_memory), HLO_RESOURCE_EXHAUSTED, "%s: no memory to validate it",
                reader->path);
    const HloStatus status = element && complaint.data
                                 ? pod_error(reader, xmlGetLineNo(element), complaint.data)
                                 : pod_error(reader, reader->line, reader->message[0] ? reader->message : "not a pod");
    hlo_text_free(&complaint);
    return status;
}

// Validates reader->document against `kept`, or against the grammar parsed for it alone.
static HloStatus validate_document(PodReader *reader, EmuPodGrammar *kept) {
    HLO_TRY(check_blank_lists(reader));
    EmuPodGrammar *grammar = kept ? kept : emu_pod_grammar_new();
    HLO_FAIL_IF(!grammar, HLO_RESOURCE_EXHAUSTED, "%s: no memory to validate it", reader->path);
    const HloStatus status = validate_with(reader, grammar);
    if (!kept) emu_pod_grammar_free(grammar);
    return status;
}

// A copy of an attribute in the arena, or NULL. Arena memory may jump: read_pod() runs under an
// hlo_protect() of its own, so that the document is freed.
static const char *attribute(PodReader *reader, const xmlNode *node, const char *name) {
    for (const xmlAttr *attr = node->properties; attr; attr = attr->next)
        if (!strcmp((const char *)attr->name, name)) {
            const char *text = attr->children && attr->children->content ? (const char *)attr->children->content : "";
            return hlo_arena_text(reader->arena, text);
        }
    return NULL;
}

// Overwrites a real number if the attribute is there.
static void read_real(PodReader *reader, const xmlNode *node, const char *name, double *value) {
    const char *text = attribute(reader, node, name);
    if (text) *value = hlo_strtod(text, NULL);
}

// Overwrites an integer if the attribute is there.
static HloStatus read_integer(PodReader *reader, const xmlNode *node, const char *name, int64_t *value) {
    const char *text = attribute(reader, node, name);
    if (!text) return HLO_SUCCESS;
    errno = 0;
    *value = strtoll(text, NULL, 10);
    if (errno) return pod_error(reader, xmlGetLineNo(node), "a number is too large");
    return HLO_SUCCESS;
}

// Overwrites picoseconds by an attribute in nanoseconds, of which the schema allows a thousand seconds.
static void read_nanoseconds(PodReader *reader, const xmlNode *node, const char *name, int64_t *picoseconds) {
    double nanoseconds = -1;
    read_real(reader, node, name, &nanoseconds);
    if (nanoseconds >= 0) *picoseconds = (int64_t)(nanoseconds * 1000);
}

// Reads two or three sizes; the third is 1 by default. Sizes are bounded here as well, since their products are
// computed before the slice is built.
static HloStatus read_sizes(PodReader *reader, const xmlNode *node, const char *name, int64_t sizes[3]) {
    const char *at = attribute(reader, node, name);
    for (int axis = 0; axis < 3; axis++) {
        char *end = NULL;
        const long long value = strtoll(at, &end, 10);
        sizes[axis] = end == at ? 1 : value;
        at = end;
        if (sizes[axis] > EMU_MAX_DEVICES) return pod_error(reader, xmlGetLineNo(node), "a size is out of range");
    }
    return HLO_SUCCESS;
}

static bool is_true(const char *text) {
    return !strcmp(text, "true") || !strcmp(text, "1");
}

static HloStatus read_core(PodReader *reader, const xmlNode *node) {
    read_real(reader, node, "hz", &reader->chip.clock_hz);
    for (const xmlNode *child = node->children; child; child = child->next) {
        if (child->type != XML_ELEMENT_NODE) continue;
        HLO_TRY(read_integer(reader, child, "dim", &reader->chip.mxu_dimension));
        HLO_TRY(read_integer(reader, child, "alus", &reader->chip.vector_alus));
        HLO_TRY(read_integer(reader, child, "bytes", &reader->chip.vmem_bytes_per_core));
    }
    return HLO_SUCCESS;
}

// The file describes the memory of a chip; the devices of a chip share it.
static HloStatus read_hbm(PodReader *reader, const xmlNode *node) {
    EmuChip *chip = &reader->chip;
    int64_t bytes = 0, usable = 0;
    HLO_TRY(read_integer(reader, node, "bytes", &bytes));
    usable = bytes;
    HLO_TRY(read_integer(reader, node, "usable", &usable));
    if (usable > bytes) return pod_error(reader, xmlGetLineNo(node), "the usable HBM is larger than the HBM");
    chip->hbm_bytes_per_device = bytes / chip->devices_per_chip;
    chip->hbm_reserved_bytes_per_device = (bytes - usable) / chip->devices_per_chip;
    read_real(reader, node, "bps", &chip->hbm_bytes_per_second_per_chip);
    return HLO_SUCCESS;
}

static void read_peak(PodReader *reader, const xmlNode *node) {
    const char *type = attribute(reader, node, "dtype");
    double *peak = !strcmp(type, "bf16") ? &reader->chip.bf16_flops_per_chip
                   : !strcmp(type, "s8") ? &reader->chip.int8_flops_per_chip
                                         : &reader->chip.fp8_flops_per_chip;
    read_real(reader, node, "flops", peak);
}

// Starts from the generation that `kind` or `like` names and overwrites it with the values in the file. `like` names
// the generation that supplies the missing values; without it the chip's kind must be a known one.
static HloStatus read_chip(PodReader *reader, const xmlNode *node) {
    const char *kind = attribute(reader, node, "kind"), *like = attribute(reader, node, "like");
    const EmuChip *base = emu_chip_by_kind(kind);
    if (like) base = NULL;  // a generation that is named must be known
    for (int i = 0; like && i < EMU_GENERATION_COUNT; i++)
        if (!strcmp(emu_chip((EmuGeneration)i)->name, like) || !strcmp(emu_chip((EmuGeneration)i)->device_kind, like))
            base = emu_chip((EmuGeneration)i);
    if (!base)
        return pod_error(reader, xmlGetLineNo(node),
                         "an unknown chip kind needs like=\"v5e\" (or another known generation) as its base");
    reader->chip = *base;
    reader->chip.device_kind = kind;
    HLO_TRY(read_integer(reader, node, "cores", &reader->chip.cores_per_chip));
    const char *megacore = attribute(reader, node, "megacore");
    if (megacore) reader->chip.devices_per_chip = is_true(megacore) ? 1 : reader->chip.cores_per_chip;
    if (reader->chip.devices_per_chip > reader->chip.cores_per_chip) reader->chip.devices_per_chip = 1;
    for (const xmlNode *child = node->children; child; child = child->next) {
        if (child->type != XML_ELEMENT_NODE) continue;
        const char *name = (const char *)child->name;
        if (!strcmp(name, "hbm")) HLO_TRY(read_hbm(reader, child));
        if (!strcmp(name, "core")) HLO_TRY(read_core(reader, child));
        if (!strcmp(name, "peak")) read_peak(reader, child);
    }
    if (reader->chip.vmem_bytes_per_core >= reader->chip.hbm_bytes_per_device)
        return pod_error(reader, xmlGetLineNo(node), "VMEM must be smaller than HBM");
    return HLO_SUCCESS;
}

static void read_ici(PodReader *reader, const xmlNode *node) {
    static const struct {
        const char *name;
        EmuWrapRule rule;
    } rules[] = {{"never", EMU_WRAP_NEVER},
                 {"full-pod", EMU_WRAP_FULL_POD},
                 {"full-axis", EMU_WRAP_FULL_AXIS},
                 {"cube4", EMU_WRAP_CUBES}};
    EmuChip *chip = &reader->chip;
    read_real(reader, node, "link_bps", &chip->link_bytes_per_second);
    read_nanoseconds(reader, node, "hop_ns", &chip->hop_picoseconds);
    read_real(reader, node, "eff", &chip->link_efficiency);
    const char *wrap = attribute(reader, node, "wrap");
    for (size_t i = 0; wrap && i < HLO_COUNT_OF(rules); i++)
        if (!strcmp(wrap, rules[i].name)) chip->wrap_rule = rules[i].rule;
    reader->explicit_wrap = wrap && !strcmp(wrap, "explicit");
}

// Overwrites one fitted constant. The schema defines the keys but cannot restrict the values of each.
static HloStatus read_calibration(PodReader *reader, const xmlNode *node) {
    EmuChip *chip = &reader->chip;
    const struct {
        const char *key;
        double *efficiency;
        int64_t *picoseconds;
        int64_t *integer;
    } keys[] = {{"mxu.eff", &chip->mxu_efficiency, NULL, NULL},
                {"mxu.sustained", &chip->mxu_sustained_efficiency, NULL, NULL},
                {"hbm.eff", &chip->hbm_efficiency, NULL, NULL},
                {"ici.eff", &chip->link_efficiency, NULL, NULL},
                {"dcn.eff", &chip->dcn_efficiency, NULL, NULL},
                {"launch.ns", NULL, &chip->launch_picoseconds, NULL},
                {"op.ns", NULL, &chip->op_picoseconds, NULL},
                {"collective.ns", NULL, &chip->collective_picoseconds, NULL},
                {"collective.step_ns", NULL, &chip->collective_step_picoseconds, NULL},
                {"mxu.ramp_bytes", NULL, NULL, &chip->ramp_bytes}};
    const char *key = attribute(reader, node, "key");
    double value = 0;
    read_real(reader, node, "value", &value);
    for (size_t i = 0; i < HLO_COUNT_OF(keys); i++) {
        if (strcmp(keys[i].key, key)) continue;
        if (keys[i].efficiency && !(value > 0.001 && value <= 1))
            return pod_error(reader, xmlGetLineNo(node),
                             "an efficiency is a fraction of the peak: above 0.001, at most 1");
        if (!keys[i].efficiency && value > 1e12)
            return pod_error(reader, xmlGetLineNo(node), "a calibrated value is implausibly large");
        if (keys[i].efficiency) *keys[i].efficiency = value;
        if (keys[i].picoseconds) *keys[i].picoseconds = (int64_t)(value * 1000);
        if (keys[i].integer) *keys[i].integer = (int64_t)value;
    }
    return HLO_SUCCESS;
}

// Reads the requested slice, or the first; the others are skipped.
static HloStatus read_slice(PodReader *reader, const xmlNode *node) {
    const char *name = attribute(reader, node, "name");
    if (reader->plan.name || (reader->slice && strcmp(reader->slice, name))) return HLO_SUCCESS;
    reader->plan.name = reader->spec;
    reader->slice_line = xmlGetLineNo(node);
    HLO_TRY(read_sizes(reader, node, "dims", reader->plan.shape));
    reader->plan.slice_count = 1;
    HLO_TRY(read_integer(reader, node, "count", &reader->plan.slice_count));
    const char *wrap = attribute(reader, node, "wrap");
    if (!wrap && reader->explicit_wrap)
        return pod_error(reader, xmlGetLineNo(node), "wrap=\"explicit\" requires wrap flags on every slice");
    reader->plan.wrap_given = wrap != NULL;
    int axis = 0;
    for (; wrap && *wrap; wrap += strcspn(wrap, " \t\n")) {
        wrap += strspn(wrap, " \t\n");
        if (!*wrap) break;
        if (axis == 3) return pod_error(reader, xmlGetLineNo(node), "more wrap flags than axes");
        const bool wraps = *wrap == 't' || *wrap == '1';
        if (wraps && reader->plan.shape[axis] < 3)
            return pod_error(reader, xmlGetLineNo(node), "an axis of fewer than three chips cannot wrap");
        reader->plan.wrap[axis++] = wraps;
    }
    if (wrap && axis < (reader->plan.shape[2] > 1 ? 3 : 2))
        return pod_error(reader, xmlGetLineNo(node), "fewer wrap flags than axes");
    return HLO_SUCCESS;
}

// Gives the chip hosts of other bounds, which have as much of the data centre's network for each chip.
static void change_hosts(EmuChip *chip, const int64_t bounds[3]) {
    const double before = (double)(chip->host_x * chip->host_y * chip->host_z);
    chip->dcn_bytes_per_second_per_host *= (double)bounds[0] * (double)bounds[1] * (double)bounds[2] / before;
    chip->host_x = bounds[0];
    chip->host_y = bounds[1];
    chip->host_z = bounds[2];
}

// Reads the elements in their order, which the schema fixes: the chip is first, and the others overwrite parts of it.
static HloStatus read_elements(PodReader *reader) {
    for (const xmlNode *node = xmlDocGetRootElement(reader->document)->children; node; node = node->next) {
        if (node->type != XML_ELEMENT_NODE) continue;
        const char *name = (const char *)node->name;
        if (!strcmp(name, "chip")) HLO_TRY(read_chip(reader, node));
        if (!strcmp(name, "host")) {
            HLO_TRY(read_sizes(reader, node, "bounds", reader->host_bounds));
            change_hosts(&reader->chip, reader->host_bounds);
            read_real(reader, node, "pcie_bps", &reader->chip.host_bytes_per_second_per_chip);
        }
        if (!strcmp(name, "ici")) read_ici(reader, node);
        if (!strcmp(name, "slice")) HLO_TRY(read_slice(reader, node));
        if (!strcmp(name, "dcn")) {
            read_real(reader, node, "host_bps", &reader->chip.dcn_bytes_per_second_per_host);
            read_nanoseconds(reader, node, "latency_ns", &reader->chip.dcn_picoseconds);
        }
        if (!strcmp(name, "calib")) HLO_TRY(read_calibration(reader, node));
    }
    return HLO_SUCCESS;
}

// A user's slice may have any size: the bounds of the pod grow with it.
static void grow_pod(PodReader *reader) {
    EmuChip *chip = &reader->chip;
    const int64_t *shape = reader->plan.shape;
    if (shape[2] > 1) chip->torus_axes = 3;
    if (shape[0] > chip->pod_x) chip->pod_x = shape[0];
    if (shape[1] > chip->pod_y) chip->pod_y = shape[1];
    if (shape[2] > chip->pod_z) chip->pod_z = shape[2];
}

// Everything is bounded before it is multiplied.
static HloStatus read_pod(void *argument) {
    PodReader *reader = argument;
    HLO_TRY(read_elements(reader));
    HLO_FAIL_IF(!reader->plan.name, HLO_INVALID_ARGUMENT, "%s: there is no slice named '%s'", reader->path,
                reader->slice);
    const int64_t *shape = reader->plan.shape;
    if (shape[0] > EMU_MAX_AXIS || shape[1] > EMU_MAX_AXIS || shape[2] > EMU_MAX_AXIS)
        return pod_error(reader, reader->slice_line,
                         hlo_arena_format(reader->arena, "an axis of a slice has at most %d chips", EMU_MAX_AXIS));
    if (shape[0] * shape[1] * shape[2] * reader->plan.slice_count > EMU_MAX_DEVICES / 2)
        return pod_error(reader, reader->slice_line, "the slices have too many chips");
    grow_pod(reader);
    memcpy(reader->plan.host_bounds, reader->host_bounds, sizeof(reader->host_bounds));
    reader->plan.chip = &reader->chip;
    return HLO_SUCCESS;
}

HloStatus emu_topology_read_xml(HloArena *arena, const char *spec, EmuPodGrammar *grammar, EmuTopology **topology) {
    PodReader *reader = HLO_ARENA_NEW(arena, PodReader, 1);
    const char *hash = strchr(spec, '#');
    reader->arena = arena;
    reader->spec = spec;
    reader->path = hlo_arena_string(arena, spec, hash ? (size_t)(hash - spec) : strlen(spec));
    reader->slice = hash ? hash + 1 : NULL;
    HloStatus status = parse_document(reader);
    if (!status) status = validate_document(reader, grammar);
    // Arena memory may run out from here on; control returns here to free the document.
    if (!status) status = hlo_protect(read_pod, reader);
    xmlFreeDoc(reader->document);
    if (status) return status;
    status = emu_topology_build(arena, &reader->plan, topology);
    if (hlo_status_code(status) != HLO_INVALID_ARGUMENT) return status;
    const HloStatus placed = pod_error(reader, reader->slice_line, hlo_status_message(status));
    hlo_status_free(status);
    return placed;
}
