// SPDX-License-Identifier: Apache-2.0
// Graphviz drawings of modules. Each computation is a cluster, each instruction a node, each operand an edge; calls are
// dashed edges to the called computation's root, and control dependencies dotted ones. Nodes are numbered by the
// instructions' ids, which are unique in the module, so only labels need escaping.
#include <assert.h>

#include "hlo/text/text.h"

// The colour of a node by the kind of op.
static const char *colour(const HloInstruction *instruction) {
    HloOpcode opcode = instruction->opcode;
    if (opcode == HLO_OP_PARAMETER) return "#ffe0b2";
    if (opcode == HLO_OP_CONSTANT || opcode == HLO_OP_IOTA) return "#eeeeee";
    if (hlo_op_is(opcode, HLO_OP_IS_COLLECTIVE)) return "#ef9a9a";
    if (hlo_op_is(opcode, HLO_OP_IS_PRODUCT)) return "#90caf9";
    if (hlo_op_is(opcode, HLO_OP_IS_ELEMENTWISE)) return "#fff59d";
    if (hlo_op_is(opcode, HLO_OP_IS_CALLS)) return "#ce93d8";
    return "#c8e6c9";
}

// Text inside a quoted label.
static void label(HloText *text, const char *string, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (string[i] == '"' || string[i] == '\\') hlo_text_char(text, '\\');
        hlo_text_char(text, string[i]);
    }
}

static void draw_node(HloText *text, const HloInstruction *instruction) {
    assert(text && instruction->shape);
    HloText shape = {0};
    hlo_shape_print(&shape, instruction->shape, true);
    hlo_text_format(text, "    n%d [label=\"", instruction->id);
    label(text, instruction->name, strlen(instruction->name));
    hlo_text_format(text, "\\n%s\\n", hlo_op_text(instruction->opcode));
    // The shape of a long tuple would make the node as wide as the page.
    label(text, shape.data ? shape.data : "", shape.length > 80 ? 80 : shape.length);
    if (shape.length > 80) hlo_text_string(text, "...");
    if (instruction->sharding) {
        HloText sharding = {0};
        hlo_sharding_print(&sharding, instruction->sharding);
        hlo_text_string(text, "\\n");
        label(text, sharding.data ? sharding.data : "", sharding.length > 80 ? 80 : sharding.length);
        hlo_text_free(&sharding);
    }
    bool root = instruction->parent->root == instruction;
    hlo_text_format(text, "\", fillcolor=\"%s\"%s];\n", colour(instruction), root ? ", penwidth=3" : "");
    hlo_text_free(&shape);
}

// headlabel is the operand's number, if there are several.
static void draw_edges(HloText *text, const HloInstruction *instruction) {
    for (int32_t i = 0; i < instruction->operand_count; i++) {
        hlo_text_format(text, "  n%d -> n%d", instruction->operands[i]->id, instruction->id);
        if (instruction->operand_count > 1) hlo_text_format(text, " [headlabel=\"%d\"]", i);
        hlo_text_string(text, ";\n");
    }
    for (int64_t i = 0; i < instruction->control_predecessors.count; i++) {
        hlo_text_format(text, "  n%d -> n%d [style=dotted];\n", instruction->control_predecessors.items[i]->id,
                        instruction->id);
    }
    for (int32_t i = 0; i < instruction->called_count; i++) {
        const HloComputation *called = instruction->called[i];
        hlo_text_format(text, "  n%d -> n%d [style=dashed, lhead=cluster%d];\n", instruction->id, called->root->id,
                        called->id);
    }
}

// Draws the module: a cluster per computation, a box per instruction; edges come last, since they may lead into
// clusters that are drawn later.
HloStatus hlo_dot_draw(const HloModule *module, HloText *text) {
    assert(module && text);
    hlo_text_string(text, "digraph \"");
    label(text, module->name, strlen(module->name));
    hlo_text_string(text, "\" {\n  compound=true;\n  node [shape=box, style=filled, fontname=\"Helvetica\"];\n");
    for (int64_t i = 0; i < module->computations.count; i++) {
        const HloComputation *computation = module->computations.items[i];
        hlo_text_format(text, "  subgraph cluster%d {\n    label=\"%s", computation->id,
                        computation == module->entry ? "ENTRY " : "");
        label(text, computation->name, strlen(computation->name));
        hlo_text_string(text, "\";\n");
        for (const HloInstruction *at = computation->first; at; at = at->next) draw_node(text, at);
        hlo_text_string(text, "  }\n");
    }
    for (int64_t i = 0; i < module->computations.count; i++) {
        const HloComputation *computation = module->computations.items[i];
        for (const HloInstruction *at = computation->first; at; at = at->next) draw_edges(text, at);
    }
    hlo_text_string(text, "}\n");
    return hlo_text_status(text);
}
