// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/mutate.h"

#include <stdio.h>
#include <string.h>

#include "hlo/analysis/cost.h"
#include "hlo/analysis/loop.h"
#include "hlo/ir/infer.h"
#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "tests/support/words.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);  // libFuzzer's own, on bytes

// ---- words

enum { MOST_CHANGES = 4, ATTEMPTS = 8, NUMBER_LENGTH = 24, INSTRUCTIONS_INFERRED = 20000 };

typedef struct Mutation {
    Words words;
    uint64_t chance;
    char numbers[MOST_CHANGES][NUMBER_LENGTH];  // what changes have written
} Mutation;

static uint64_t draw(Mutation *mutation, uint64_t below) {
    mutation->chance ^= mutation->chance << 13;
    mutation->chance ^= mutation->chance >> 7;
    mutation->chance ^= mutation->chance << 17;
    return (mutation->chance >> 16) % below;
}

static Word *any_word(Mutation *mutation) {
    return &mutation->words.items[draw(mutation, (uint64_t)mutation->words.count)];
}

// A word of the same kind from elsewhere in the program, or the word itself.
static Word another(Mutation *mutation, const Word *word) {
    for (int tries = 0; tries < 40; tries++) {
        const Word *other = any_word(mutation);
        if (word_is_number(word) ? word_is_number(other) : word_is_name(other)) return *other;
    }
    return *word;
}

static void change_number(Mutation *mutation, Word *word, int change) {
    static const char *const extreme[] = {"-1",         "127",        "65536",      "2147483647",
                                          "2147483648", "4294967296", "1000000007", "9223372036854775807"};
    char *number = mutation->numbers[change];
    long long value = 0;
    sscanf(word->text, "%18lld", &value);
    switch (draw(mutation, 8)) {
        case 0: *word = word_of(extreme[draw(mutation, HLO_COUNT_OF(extreme))]); return;
        case 1: value++; break;
        case 2: value--; break;
        case 3: value *= 2; break;
        case 4: *word = another(mutation, word); return;
        default: value = (long long)draw(mutation, 6);
    }
    snprintf(number, NUMBER_LENGTH, "%lld", value);
    *word = word_of(number);
}

static bool same_word(const Word *a, const Word *b) {
    return a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
}

// One type here, or everywhere: then constants lose what integers cannot hold.
static void change_type(Mutation *mutation, Word *word) {
    static const HloType likely[] = {HLO_S32, HLO_S32, HLO_U8, HLO_S64, HLO_PRED, HLO_F32, HLO_BF16, HLO_C64};
    const HloType type =
        draw(mutation, 2) ? likely[draw(mutation, HLO_COUNT_OF(likely))] : (HloType)draw(mutation, HLO_TYPE_COUNT);
    const Word from = *word, to = word_of(hlo_type_text(type));
    *word = to;
    if (!draw(mutation, 3)) return;
    for (int64_t i = 0; i < mutation->words.count; i++) {
        Word *each = &mutation->words.items[i];
        if (same_word(each, &from)) *each = to;
        const char *dot = word_is_number(each) ? memchr(each->text, '.', each->length) : NULL;
        if (dot && !hlo_type_is_float(type)) each->length = (size_t)(dot - each->text);
    }
}

// An opcode of the same attributes and, where that is fixed, as many operands.
static void change_opcode(Mutation *mutation, Word *word, HloOpcode opcode) {
    const HloOpInfo *from = hlo_op_info(opcode);
    for (int tries = 0; tries < 200; tries++) {
        const HloOpInfo *to = hlo_op_info((HloOpcode)draw(mutation, HLO_OPCODE_COUNT));
        if (to->arity != from->arity || to->family != from->family) continue;
        *word = word_of(to->text);
        return;
    }
}

// Opcodes may have hyphens, which are words of their own here.
static HloOpcode opcode_at(Mutation *mutation, int64_t index, int64_t *words) {
    const Word *first = &mutation->words.items[index];
    HloOpcode found = HLO_OPCODE_COUNT;
    size_t length = 0;
    for (int64_t i = index; i < mutation->words.count && i < index + 7; i++) {
        if (mutation->words.items[i].text != first->text + length) break;  // was replaced
        length += mutation->words.items[i].length;
        const HloOpcode opcode = hlo_op_from_text(first->text, length);
        if (opcode == HLO_OPCODE_COUNT) continue;
        found = opcode;
        *words = i - index + 1;
    }
    return found;
}

static void change(Mutation *mutation, int number) {
    Word *word = any_word(mutation);
    for (int tries = 0; tries < 40 && !word_is_number(word) && !word_is_name(word); tries++) word = any_word(mutation);
    if (word_is_number(word)) {
        change_number(mutation, word, number);
        return;
    }
    const int64_t index = word - mutation->words.items;
    int64_t opcode_words = 0;
    const HloOpcode opcode = opcode_at(mutation, index, &opcode_words);
    if (opcode != HLO_OPCODE_COUNT) {
        change_opcode(mutation, word, opcode);
        for (int64_t i = 1; i < opcode_words; i++) word[i].length = 0;
    } else if (hlo_type_from_text(word->text, word->length) != HLO_INVALID) {
        change_type(mutation, word);
    } else if (word->length == 4 && memcmp(word->text, "true", 4) == 0) {
        *word = word_of("false");
    } else if (word->length == 5 && memcmp(word->text, "false", 5) == 0) {
        *word = word_of("true");
    } else {
        *word = another(mutation, word);
    }
}

// ---- shapes

typedef struct Inference {
    HloModule *module;
    int64_t budget;  // computations are looked at once a caller: of callers of callers there may be too many
} Inference;

// The shape that an instruction has on its operands now: where the one that is written says too much, with the type or
// all of the first operand's. Unchanged where none is right: the verifier will tell.
static void infer_again(const Inference *inference, HloInstruction *instruction) {
    const HloShape *first = instruction->operand_count ? instruction->operands[0]->shape : NULL;
    const HloShape *hints[3] = {instruction->shape};
    if (first && hlo_shape_is_array(first) && hlo_shape_is_array(instruction->shape)) {
        hints[1] = hlo_shape_with_type(inference->module->arena, instruction->shape, first->type);
        hints[2] = first;
    }
    for (size_t i = 0; i < HLO_COUNT_OF(hints) && hints[i]; i++) {
        const HloShape *result;
        HloInferRequest request = hlo_infer_request_of(inference->module->arena, instruction);
        request.hint = hints[i];
        HloStatus status = hlo_infer_shape(&request, &result);
        hlo_status_free(status);
        if (status) continue;
        if (!hlo_shape_equal(result, instruction->shape, HLO_COMPARE_IGNORE_LAYOUT)) instruction->shape = result;
        return;
    }
}

// Returns the operand of parameter `number` of called computation `index`; NULL where it is not known.
static const HloShape *argument_shape(HloArena *arena, const HloInstruction *caller, int32_t index, int64_t number) {
    const int64_t count = caller->operand_count;
    int64_t operand = number, period = count;
    bool elements = true;
    switch (caller->opcode) {
        case HLO_OP_CALL:
        case HLO_OP_FUSION: elements = false; break;
        case HLO_OP_WHILE: elements = false; break;
        case HLO_OP_CONDITIONAL:
            operand = number + index + 1;
            elements = false;
            break;
        case HLO_OP_REDUCE:
        case HLO_OP_REDUCE_WINDOW: period = count / 2; break;
        case HLO_OP_SCATTER: period = (count - 1) / 2; break;
        case HLO_OP_SORT: operand = number / 2; break;
        case HLO_OP_ALL_REDUCE:
        case HLO_OP_REDUCE_SCATTER:
        case HLO_OP_SELECT_AND_SCATTER: period = 1; break;
        case HLO_OP_MAP: break;
        default: return NULL;
    }
    if (elements && period > 0) operand %= period;
    if (operand >= count) return NULL;
    const HloShape *shape = caller->operands[operand]->shape;
    if (!elements) return shape;
    return hlo_shape_is_array(shape) ? hlo_shape_scalar(arena, shape->type) : NULL;
}

static void infer_computation(Inference *inference, HloComputation *computation) {
    for (HloInstruction *i = computation->first; i && inference->budget-- > 0; i = i->next) {
        if (i->opcode == HLO_OP_PARAMETER) continue;
        for (int32_t c = 0; c < i->called_count; c++) {
            HloComputation *called = i->called[c];
            for (int64_t p = 0; p < called->parameters.count; p++) {
                const HloShape *shape = argument_shape(inference->module->arena, i, c, p);
                if (shape && called->parameters.items[p]) called->parameters.items[p]->shape = shape;
            }
            infer_computation(inference, called);
        }
        infer_again(inference, i);
    }
}

static HloStatus infer_module(void *argument) {
    Inference inference = {argument, INSTRUCTIONS_INFERRED};
    inference.module->entry_parameter_layouts = NULL;
    inference.module->entry_parameter_layout_count = 0;
    inference.module->entry_result_layout = NULL;
    infer_computation(&inference, inference.module->entry);
    return HLO_SUCCESS;
}

// ---- programs

// The text of a module with its shapes inferred anew; whether the verifier takes it.
static bool write_inferred(HloModule *module, HloText *text) {
    HloStatus status = hlo_protect(infer_module, module);
    HloPrintOptions options = hlo_print_short();
    options.print_large_constants = true;
    if (!status) status = hlo_print(module, &options, text);
    if (!status) status = hlo_verify(module);
    const bool taken = !status;
    hlo_status_free(status);
    return taken;
}

// One try: false where the changed program does not even parse.
static bool try_mutation(Mutation *mutation, const char *data, size_t size, HloText *text, bool *taken) {
    words_split(&mutation->words, data, size);
    if (!mutation->words.count) return false;
    const int changes = 1 + (int)draw(mutation, MOST_CHANGES);
    for (int i = 0; i < changes; i++) change(mutation, i);
    HloText changed = words_join(&mutation->words);
    HloModule *module = NULL;
    HloStatus status = hlo_parse(changed.data, changed.length, NULL, &module);
    const bool parsed = !status;
    if (parsed) *taken = write_inferred(module, text);
    hlo_status_free(status);
    hlo_module_free(module);
    hlo_text_free(&changed);
    return parsed;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    static Mutation mutation;
    mutation.chance = seed * UINT64_C(2654435761) + UINT64_C(88172645463325252);
    char *input = hlo_allocate(size + 1);
    if (!input) return size;
    memcpy(input, data, size);
    input[size] = 0;  // numbers are read by sscanf()
    bool taken = false;
    HloText text = {0};
    for (int i = 0; i < ATTEMPTS && !taken; i++) {
        HloText next = {0};
        if (try_mutation(&mutation, input, size, &next, &taken)) {
            hlo_text_free(&text);
            text = next;
        }
    }
    hlo_free(input);
    const bool fits = text.length > 0 && text.length <= max_size;
    if (fits) memcpy(data, text.data, text.length);
    const size_t length = fits ? text.length : LLVMFuzzerMutate(data, size, max_size);
    hlo_text_free(&text);
    return length;
}

// ---- sizes

enum { MOST_INSTRUCTIONS = 300, MOST_ELEMENTS = 4096, MOST_ROUNDS = 40 };
static const double kMostWork = 3e6;

static bool is_exact(const HloShape *shape) {
    for (int64_t k = 0; k < hlo_shape_leaf_count(shape); k++) {
        const HloTypeKind kind = hlo_type_kind(hlo_shape_leaf(shape, k)->type);
        if (kind == HLO_KIND_FLOAT || kind == HLO_KIND_COMPLEX) return false;
    }
    return true;
}

static bool is_small(const HloInstruction *instruction) {
    for (int64_t k = 0; k < hlo_shape_leaf_count(instruction->shape); k++) {
        const HloShape *leaf = hlo_shape_leaf(instruction->shape, k);
        // An empty array times a large one is empty, but the padding of a division on the way need not be.
        double elements = 1;
        for (int32_t d = 0; hlo_shape_is_array(leaf) && d < leaf->rank; d++)
            elements *= leaf->dims[d] > 0 ? (double)leaf->dims[d] : 1;
        if (elements > MOST_ELEMENTS) return false;
    }
    HloCountedLoop loop;
    return instruction->opcode != HLO_OP_WHILE ||
           (!instruction->backend_config && hlo_counted_loop(instruction, &loop) && loop.trip_count <= MOST_ROUNDS);
}

// The order in which elements are reduced does not matter where any order gives the same.
static bool has_order(const HloInstruction *instruction) {
    switch (instruction->opcode) {
        case HLO_OP_REDUCE:
        case HLO_OP_REDUCE_WINDOW:
        case HLO_OP_SCATTER:
        case HLO_OP_SELECT_AND_SCATTER:
        case HLO_OP_ALL_REDUCE:
        case HLO_OP_REDUCE_SCATTER: break;
        default: return false;
    }
    switch (hlo_computation_binary_opcode(instruction->called[instruction->called_count - 1])) {
        case HLO_OP_ADD:
        case HLO_OP_MULTIPLY:
        case HLO_OP_MINIMUM:
        case HLO_OP_MAXIMUM:
        case HLO_OP_AND:
        case HLO_OP_OR:
        case HLO_OP_XOR: return false;
        default: return true;
    }
}

FuzzSize fuzz_size(const HloModule *module) {
    FuzzSize size = {.small = true, .exact = true};
    int64_t instructions = 0;
    for (int64_t c = 0; c < module->computations.count; c++) {
        for (const HloInstruction *i = module->computations.items[c]->first; i; i = i->next) {
            instructions++;
            size.exact = size.exact && is_exact(i->shape) && !hlo_instruction_is_nondeterministic(i) && !has_order(i);
            size.small = size.small && is_small(i);
            size.is_annotated |= i->sharding != NULL;
        }
    }
    if (__builtin_mul_overflow(module->replica_count, module->num_partitions, &size.devices)) size.devices = INT64_MAX;
    size.small = size.small && instructions <= MOST_INSTRUCTIONS;
    if (!size.small) return size;
    HloCostAnalysis *analysis = hlo_cost_analysis_new(module);
    const HloCost cost = hlo_cost_of_computation(analysis, module->entry);
    size.small = cost.flops + cost.transcendentals * 10 + cost.bytes_read + cost.bytes_written < kMostWork;
    hlo_cost_analysis_free(analysis);
    return size;
}
