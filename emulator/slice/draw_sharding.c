// SPDX-License-Identifier: Apache-2.0
// Draws which device holds which part of an array, as jax.debug.visualize_array_sharding() does. The starts of the
// shards form a grid of cells, each cell lists its devices in its middle line, and the sizes follow JAX's rules, so
// that the output matches JAX's to the letter.
//
// The rules are those of jax/_src/debugging.py: base height 10, 2.5 characters per line of height, at least 9 columns
// per cell, at most 80 in total, and the same halving of blanks. The tests contain examples from JAX's documentation.
// Shards are ranges of the array, so that any tiling can be drawn whose parts form a grid; replicas share a cell.
#include <assert.h>
#include <stdlib.h>

#include "emulator/draw.h"
#include "emulator/mesh_order.h"
#include "hlo/base/arithmetic.h"
#include "hlo/base/vector.h"

// Sizes of JAX's drawing: an array of equal sides is 10 lines high, a character is 2.5 times as high as wide.
#define BASE_HEIGHT 10
#define HEIGHT_TO_WIDTH 2.5
#define MIN_WIDTH 9
#define MAX_WIDTH 80

// The mesh is row-major with its last axis fastest. A dimension that is sharded over several axes is split by the first
// of them first, as in a PartitionSpec. Only even splits are accepted, as in jax.sharding.
HloStatus emu_shards_of_spec(const int64_t *ids, const int64_t *mesh_sizes, int64_t mesh_rank, const int64_t *dims,
                             int64_t rank, const EmuSpecDimension *spec, EmuShard *shards) {
    assert(ids && shards);
    HLO_FAIL_IF(rank < 1 || rank > 2, HLO_INVALID_ARGUMENT, "only arrays of one or two dimensions can be drawn");
    HLO_FAIL_IF(mesh_rank < 0 || mesh_rank > EMU_MAX_MESH_AXES, HLO_INVALID_ARGUMENT, "a mesh has at most %d axes",
                EMU_MAX_MESH_AXES);
    int64_t parts[2] = {1, 1}, devices = 1;
    unsigned used = 0;
    for (int64_t axis = 0; axis < mesh_rank; axis++) devices *= mesh_sizes[axis];
    for (int64_t dim = 0; dim < rank; dim++) {
        for (int64_t i = 0; i < spec[dim].count; i++) {
            const int64_t axis = spec[dim].axes[i];
            HLO_FAIL_IF(axis < 0 || axis >= mesh_rank, HLO_INVALID_ARGUMENT, "mesh axis %lld does not exist",
                        (long long)axis);
            HLO_FAIL_IF(used >> axis & 1, HLO_INVALID_ARGUMENT, "mesh axis %lld is used twice", (long long)axis);
            used |= 1u << axis;
            parts[dim] *= mesh_sizes[axis];
        }
        HLO_FAIL_IF(dims[dim] < 1 || dims[dim] % parts[dim], HLO_INVALID_ARGUMENT,
                    "dimension %lld of size %lld is not divisible into %lld parts", (long long)dim,
                    (long long)dims[dim], (long long)parts[dim]);
    }
    for (int64_t place = 0; place < devices; place++) {
        int64_t index[EMU_MAX_MESH_AXES], rest = place;
        for (int64_t axis = mesh_rank - 1; axis >= 0; axis--) {
            index[axis] = rest % mesh_sizes[axis];
            rest /= mesh_sizes[axis];
        }
        shards[place].device_id = ids[place];
        for (int64_t dim = 0; dim < rank; dim++) {
            int64_t part = 0;
            for (int64_t i = 0; i < spec[dim].count; i++)
                part = part * mesh_sizes[spec[dim].axes[i]] + index[spec[dim].axes[i]];
            const int64_t size = dims[dim] / parts[dim];
            shards[place].start[dim] = part * size;
            shards[place].limit[dim] = (part + 1) * size;
        }
    }
    return HLO_SUCCESS;
}

// One box of the drawing.
typedef struct Cell {
    const char *label;
    int64_t label_length;
    int64_t left, right, above, below;  // blanks around the label
    double height, width;               // share of the array
} Cell;

// The drawing while it is made.
typedef struct Drawing {
    HloArena *arena;
    const char *label;
    const int64_t *dims;
    int64_t rank;
    const EmuShard *shards;
    int64_t count;
    EmuBoxStyle style;
    HloText *text;
    HloText name;  // of one cell while it is put together; freed outside of hlo_protect()
    int64_t rows, columns;
    Cell *cells;
    int64_t *column_width, *row_height;
} Drawing;

// The distinct starts of the shards along a dimension, ascending. O(n log n) for n shards. The list is in the arena.
static int64_t *distinct_starts(const Drawing *drawing, int64_t dim, int64_t *count) {
    assert(dim >= 0 && dim < 2 && count);
    int64_t *starts = HLO_ARENA_NEW(drawing->arena, int64_t, drawing->count);
    for (int64_t i = 0; i < drawing->count; i++) starts[i] = drawing->shards[i].start[dim];
    qsort(starts, (size_t)drawing->count, sizeof(*starts), hlo_compare_int64);
    *count = 0;
    for (int64_t i = 0; i < drawing->count; i++)
        if (!*count || starts[*count - 1] != starts[i]) starts[(*count)++] = starts[i];
    return starts;
}

// `start` is always found: the starts were made from the same shards.
static int64_t find_start(const int64_t *starts, int64_t count, int64_t start) {
    return (const int64_t *)bsearch(&start, starts, (size_t)count, sizeof(*starts), hlo_compare_int64) - starts;
}

// Puts every shard into its cell and writes the labels. A grid has as many cells as pairs of starts, and a shard in
// each: more cells than shards, or an empty cell, means that the shards do not form a grid. Widths and heights are
// proportional to the array; the last shard of an uneven split is smaller.
static HloStatus fill_cells(Drawing *drawing) {
    const bool flat = drawing->rank == 1;
    int64_t *row_starts = flat ? NULL : distinct_starts(drawing, 0, &drawing->rows);
    int64_t *column_starts = distinct_starts(drawing, flat ? 0 : 1, &drawing->columns);
    if (flat) drawing->rows = 1;
    const int64_t cells = drawing->rows * drawing->columns;
    HLO_FAIL_IF(cells > drawing->count, HLO_INVALID_ARGUMENT, "the shards do not tile the array as a grid");
    drawing->cells = HLO_ARENA_NEW(drawing->arena, Cell, cells);
    HloInt64Vector *members = HLO_ARENA_NEW(drawing->arena, HloInt64Vector, cells);
    for (int64_t i = 0; i < drawing->count; i++) {
        const EmuShard *shard = &drawing->shards[i];
        const int across = flat ? 0 : 1;
        const int64_t row = flat ? 0 : find_start(row_starts, drawing->rows, shard->start[0]);
        const int64_t at = row * drawing->columns + find_start(column_starts, drawing->columns, shard->start[across]);
        Cell *cell = &drawing->cells[at];
        hlo_vector_push(drawing->arena, &members[at], shard->device_id);
        cell->width = (double)(shard->limit[across] - shard->start[across]) / (double)drawing->dims[across];
        cell->height = flat ? 0 : (double)(shard->limit[0] - shard->start[0]) / (double)drawing->dims[0];
    }
    for (int64_t at = 0; at < cells; at++) {
        HLO_FAIL_IF(!members[at].count, HLO_INVALID_ARGUMENT, "the shards do not tile the array as a grid");
        qsort(members[at].items, (size_t)members[at].count, sizeof(int64_t), hlo_compare_int64);
        HloText *name = &drawing->name;
        name->length = 0;
        hlo_text_format(name, "%s ", drawing->label);
        for (int64_t i = 0; i < members[at].count; i++)
            hlo_text_format(name, "%s%lld", i ? "," : "", (long long)members[at].items[i]);
        drawing->cells[at].label_length = (int64_t)name->length;
        drawing->cells[at].label = name->data ? hlo_arena_string(drawing->arena, name->data, name->length) : "";
    }
    return HLO_SUCCESS;
}

// Splits the blanks of a cell beyond its label between the two sides; the second side gets the odd one. No blanks if
// negative. JAX divides with Python's //, which rounds down also below zero, where C rounds towards zero.
static void spread(int64_t extra, int64_t more, int64_t *first, int64_t *second) {
    const int64_t half = extra >= 0 ? extra / 2 : -((1 - extra) / 2);
    *first = half + more > 0 ? half + more : 0;
    *second = extra - half + more > 0 ? extra - half + more : 0;
}

// Chooses the blanks of every cell as JAX does, from the proportions of the array. base_width is clamped before it
// becomes an integer, because the aspect of a row of 2^40 elements does not fit into one. The widest cell sets the
// width of its column, and the highest the height of its row.
static void size_cells(Drawing *drawing) {
    const double aspect = (drawing->rank == 2 ? (double)drawing->dims[1] : 1.0) / (double)drawing->dims[0];
    const double scaled = BASE_HEIGHT * aspect;
    const int64_t base_width = scaled < 1e6 ? (int64_t)scaled : 1000000;
    const int64_t more = drawing->style == EMU_BOX_PLAIN, borders = drawing->columns + 1;
    const int64_t room = (MAX_WIDTH - borders) / drawing->columns + 2;
    drawing->column_width = HLO_ARENA_NEW(drawing->arena, int64_t, drawing->columns);
    drawing->row_height = HLO_ARENA_NEW(drawing->arena, int64_t, drawing->rows);
    for (int64_t at = 0; at < drawing->rows * drawing->columns; at++) {
        Cell *cell = &drawing->cells[at];
        int64_t width = (int64_t)(cell->width * (double)base_width * HEIGHT_TO_WIDTH);
        if (width > room) width = room;
        if (width < MIN_WIDTH) width = MIN_WIDTH;
        const int64_t height = drawing->rank == 1 ? 1 : (int64_t)(cell->height * BASE_HEIGHT);
        spread(width - cell->label_length - 2, more, &cell->left, &cell->right);
        spread(height - 2, more, &cell->above, &cell->below);
        int64_t *column = &drawing->column_width[at % drawing->columns],
                *row = &drawing->row_height[at / drawing->columns];
        const int64_t full = cell->left + cell->label_length + cell->right, lines = cell->above + 1 + cell->below;
        if (full > *column) *column = full;
        if (lines > *row) *row = lines;
    }
}

// Draws a line of the frame; `left`, `between` and `right` are the corners and crossings. The plain style of Python's
// rich has no frame.
static void draw_frame(const Drawing *drawing, const char *left, const char *between, const char *right) {
    if (drawing->style == EMU_BOX_PLAIN) return;
    hlo_text_string(drawing->text, left);
    for (int64_t column = 0; column < drawing->columns; column++) {
        if (column) hlo_text_string(drawing->text, between);
        for (int64_t i = 0; i < drawing->column_width[column]; i++) hlo_text_string(drawing->text, "─");
    }
    hlo_text_string(drawing->text, right);
    hlo_text_char(drawing->text, '\n');
}

// One line of one cell.
static void draw_cell_line(const Drawing *drawing, int64_t row, int64_t column, int64_t line) {
    assert(row >= 0 && column >= 0 && line >= 0);
    const Cell *cell = &drawing->cells[row * drawing->columns + column];
    const int64_t width = drawing->column_width[column];
    const bool labelled = line == cell->above;
    // In a column that another cell made wider, the label is centred between this cell's own blanks.
    const int64_t before = cell->left + (width - cell->left - cell->label_length - cell->right) / 2;
    for (int64_t i = 0; i < (labelled ? before : width); i++) hlo_text_char(drawing->text, ' ');
    if (!labelled) return;
    hlo_text_append(drawing->text, cell->label, (size_t)cell->label_length);
    for (int64_t i = before + cell->label_length; i < width; i++) hlo_text_char(drawing->text, ' ');
}

// Runs under hlo_protect(), since cells are allocated in an arena.
static HloStatus draw(void *argument) {
    Drawing *drawing = argument;
    HLO_TRY(fill_cells(drawing));
    size_cells(drawing);
    const char *edge = drawing->style == EMU_BOX_PLAIN ? "" : "│";
    draw_frame(drawing, "┌", "┬", "┐");
    for (int64_t row = 0; row < drawing->rows; row++) {
        if (row) draw_frame(drawing, "├", "┼", "┤");
        for (int64_t line = 0; line < drawing->row_height[row]; line++) {
            for (int64_t column = 0; column < drawing->columns; column++) {
                hlo_text_string(drawing->text, edge);
                draw_cell_line(drawing, row, column, line);
            }
            hlo_text_string(drawing->text, edge);
            hlo_text_char(drawing->text, '\n');
        }
    }
    draw_frame(drawing, "└", "┴", "┘");
    return hlo_text_status(drawing->text);
}

HloStatus emu_draw_sharding(const char *label, const int64_t *dims, int64_t rank, const EmuShard *shards, int64_t count,
                            EmuBoxStyle style, HloText *text) {
    assert(label && shards && count > 0 && text);
    HLO_FAIL_IF(rank < 1 || rank > 2, HLO_INVALID_ARGUMENT, "only arrays of one or two dimensions can be drawn");
    HLO_FAIL_IF(count < 1 || dims[0] < 1 || dims[rank - 1] < 1, HLO_INVALID_ARGUMENT, "there is nothing to draw");
    Drawing drawing = {.arena = hlo_arena_new(),
                       .label = label,
                       .dims = dims,
                       .rank = rank,
                       .shards = shards,
                       .count = count,
                       .style = style,
                       .text = text};
    HLO_FAIL_IF(!drawing.arena, HLO_RESOURCE_EXHAUSTED, "no memory to draw");
    HloStatus status = hlo_protect(draw, &drawing);
    hlo_text_free(&drawing.name);
    hlo_arena_free(drawing.arena);
    return status;
}
