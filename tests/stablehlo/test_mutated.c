// SPDX-License-Identifier: Apache-2.0
// Programs with a few words changed: numbers become extreme, types change, words are removed, exchanged or repeated.
// Most are refused; those that are accepted are written in every form, and the HLO text and protobuf are read again.
// The changes are always the same, so that failures can be repeated.
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "hlo/base/file.h"
#include "hlo/proto/proto.h"
#include "hlo/stablehlo/stablehlo.h"
#include "hlo/text/text.h"
#include "hlo/verify/verify.h"
#include "tests/support/cases.h"
#include "tests/support/words.h"

enum { ROUNDS = 60, MOST_BYTES = 40000, KINDS = 6 };

typedef struct Program {
    Words words;
    uint64_t chance;
} Program;

static uint64_t draw(Program *program, uint64_t below) {
    program->chance ^= program->chance << 13;
    program->chance ^= program->chance >> 7;
    program->chance ^= program->chance << 17;
    return (program->chance >> 16) % below;
}

static void change(Program *program) {
    static const char *const numbers[] = {"0",
                                          "1",
                                          "-1",
                                          "3",
                                          "64",
                                          "2147483648",
                                          "-2147483649",
                                          "4611686018427387904",
                                          "9223372036854775807",
                                          "99999999999999999999",
                                          "1.5",
                                          "?"};
    static const char *const sizes[] = {"0x", "1x", "?x", "3x", "4294967296x", "9223372036854775807x"};
    static const char *const types[] = {"f32", "f64", "i1", "pred", "i32", "s32", "ui8", "u8", "bf16", "c64", "token"};
    Words *words = &program->words;
    Word *word = &words->items[draw(program, (uint64_t)words->count)];
    Word *other = &words->items[draw(program, (uint64_t)words->count)];
    switch (draw(program, KINDS)) {
        case 0:
        case 1:
            if (!word_is_number(word)) return;
            // The dimensions and the element type of a tensor are one word; its first dimension changes.
            *word = memchr(word->text, 'x', word->length) ? word_of(sizes[draw(program, HLO_COUNT_OF(sizes))])
                                                          : word_of(numbers[draw(program, HLO_COUNT_OF(numbers))]);
            return;
        case 2:
            if (word_is_name(word)) *word = word_of(types[draw(program, HLO_COUNT_OF(types))]);
            return;
        case 3: word->length = 0; return;
        case 4: *word = *other; return;
        default: {
            const Word first = *word;
            *word = *other;
            *other = first;
        }
    }
}

static void expect_again(HloStatus status, HloModule *again, const char *door, const HloText *program) {
    cr_expect_null(status, "%s cannot be read again: %s\n%s", door, hlo_status_message(status), program->data);
    hlo_status_free(status);
    hlo_module_free(again);
}

static void leave_through_every_door(const HloModule *module, const HloText *program) {
    HloModule *again = NULL;
    HloText text = {0}, proto = {0}, mlir = {0}, bytecode = {0};
    cr_assert_null(hlo_print(module, NULL, &text));
    HloStatus status = hlo_parse(text.data, text.length, NULL, &again);
    expect_again(status, status ? NULL : again, "HLO text", program);
    status = hlo_module_to_proto(module, &proto);
    if (!status) {
        status = hlo_module_from_proto(proto.data, proto.length, &again);
        expect_again(status, status ? NULL : again, "protobuf", program);
    } else {
        hlo_status_free(status);
    }
    hlo_status_free(hlo_module_to_stablehlo_text(module, true, &mlir));
    hlo_status_free(hlo_module_to_stablehlo_bytecode(module, NULL, &bytecode));
    HloText *const all[] = {&text, &proto, &mlir, &bytecode};
    for (size_t i = 0; i < HLO_COUNT_OF(all); i++) hlo_text_free(all[i]);
}

static int64_t try_changed(const HloFileContent *content, bool is_mlir, Program *program) {
    int64_t taken = 0;
    for (int round = 0; round < ROUNDS; round++) {
        words_split(&program->words, content->data, content->size);
        program->chance = (uint64_t)round * 2654435761U + 88172645463325252U;
        for (uint64_t i = draw(program, 3) + 1; i > 0; i--) change(program);
        HloText text = words_join(&program->words);
        HloModule *module = NULL;
        HloStatus status = is_mlir ? hlo_module_from_stablehlo_text(text.data, text.length, NULL, &module)
                                   : hlo_parse(text.data, text.length, NULL, &module);
        if (!status) {
            status = hlo_verify(module);
            if (!status) {
                taken++;
                leave_through_every_door(module, &text);
            }
            hlo_module_free(module);
        }
        hlo_status_free(status);
        hlo_text_free(&text);
    }
    return taken;
}

static const char *const folders[] = {"tests/stablehlo/golden", "tests/stablehlo/export", "benchmarks/programs"};

CaseList(stablehlo_mutated, programs_leave_as_they_came_or_are_refused) {
    int *indices = cr_malloc(sizeof(*indices) * HLO_COUNT_OF(folders));
    for (size_t i = 0; i < HLO_COUNT_OF(folders); i++) indices[i] = (int)i;
    return cr_make_param_array(int, indices, HLO_COUNT_OF(folders));
}

CaseTest(const int *index, stablehlo_mutated, programs_leave_as_they_came_or_are_refused) {
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s", MESHLO_SOURCE_DIR, folders[*index]);
    DIR *folder = opendir(path);
    cr_assert(folder, "%s", path);
    Program *program = hlo_allocate(sizeof(*program));
    int64_t taken = 0;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        HloFileContent content;
        const bool is_mlir = strstr(entry->d_name, ".mlir") != NULL;
        if (!is_mlir && !strstr(entry->d_name, ".hlo")) continue;
        snprintf(path, sizeof(path), "%s/%s/%s", MESHLO_SOURCE_DIR, folders[*index], entry->d_name);
        cr_assert_null(hlo_file_read(path, SIZE_MAX / 4, &content));
        if (content.size < MOST_BYTES) taken += try_changed(&content, is_mlir, program);
        hlo_file_content_free(&content);
    }
    closedir(folder);
    hlo_free(program);
    cr_expect_gt(taken, 20, "nearly all were refused: nothing was tried");
}
