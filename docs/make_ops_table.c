// SPDX-License-Identifier: Apache-2.0
// Prints the op support table (docs/ops.md) from hlo/ops.def and hlo/ir/attributes.def.
#include <stdio.h>
#include <string.h>

typedef struct Row {
    const char *name, *text, *family, *flags, *shape, *eval, *partition, *cost;
    int arity;
} Row;

static const Row kRows[] = {
#define HLO_OP(name, text, arity, flags, family, kinds, shape, eval, partition, cost, jvp, transpose, batching) \
    {#name, text, #family, #flags, #shape, #eval, #partition, #cost, arity},
#include "hlo/ops.def"
#undef HLO_OP
};

typedef struct Field {
    const char *family, *text;
} Field;

static const Field kFields[] = {
#define HLO_FAMILY(family)
#define HLO_FIELD(family, field, kind, text, presence) {#family, text},
#define HLO_FIELD_RULE(opcode, family, field, presence)
#define HLO_FAMILY_END(family)
#include "hlo/ir/attributes.def"
#undef HLO_FAMILY
#undef HLO_FIELD
#undef HLO_FIELD_RULE
#undef HLO_FAMILY_END
};

// Where the compiled engine leaves an op to the evaluator.
static const char *engine_column(const char *name) {
    static const struct {
        const char *name, *when;
    } kFallbacks[] = {
#define CPU_LOWERING(opcode, lowering, evaluated) {#opcode, evaluated},
#include "targets/cpu/lower/lowerings.def"
#undef CPU_LOWERING
    };
    for (size_t i = 0; i < sizeof kFallbacks / sizeof *kFallbacks; ++i) {
        if (!strcmp(kFallbacks[i].name, name)) return kFallbacks[i].when;
    }
    return NULL;
}

static void print_attributes(const char *family) {
    const char *separator = "";
    for (size_t i = 0; i < sizeof kFields / sizeof *kFields; ++i) {
        if (strcmp(kFields[i].family, family) != 0 || !*kFields[i].text) continue;
        printf("%s%s", separator, kFields[i].text);
        separator = ", ";
    }
}

static void print_row(const Row *row) {
    printf("| `%s` | ", row->text);
    if (row->arity < 0) printf("any");
    if (row->arity >= 0) printf("%d", row->arity);
    printf(" | ");
    print_attributes(row->family);
    const char *evaluated = engine_column(row->name);
    printf(" | %s | %s | %s%s | %s | %s |\n", row->shape, row->eval, evaluated ? "compiled; evaluated " : "compiled",
           evaluated ? evaluated : "", row->partition, row->cost);
}

int main(void) {
    printf("# HLO ops\n\n");
    printf(
        "Generated from `hlo/ops.def` by the build; %zu ops. Each column names the rule that a module uses for the "
        "op:\n"
        "the shape rule (`hlo/ir`), the evaluator (`hlo/eval`), the compiled engine (`targets/cpu`: what is not "
        "compiled is run by the evaluator), the\n"
        "partition rule (`spmd_partitioner`), the cost "
        "rule\n"
        "(`hlo/analysis`). `unsupported` means that the module refuses the op by name (exit code 4 of the "
        "command).\n\n",
        sizeof kRows / sizeof *kRows);
    printf(
        "| op | operands | attributes | shape | evaluator | engine | partition | cost "
        "|\n|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof kRows / sizeof *kRows; ++i) print_row(&kRows[i]);
    return ferror(stdout) ? 1 : 0;
}
