// SPDX-License-Identifier: Apache-2.0
// Moves of arrays between devices and the host keep their bits, for every type that has NaNs or signed zeros: each
// program runs on element numbers first, which show where each element goes. (Moves on one device:
// test_nan_bits.c.)
#include <criterion/criterion.h>
#include <stdlib.h>

#include "hlo/eval/eval.h"
#include "tests/support/cases.h"
#include "tests/support/compiled.h"

enum { kDevices = 2, kElements = 4, kMost = 2 * kElements };

// Every type of numbers with a sign bit and an exponent.
static const HloType kTypes[] = {
#define HLO_TYPE(name, text, number, kind, bits, bytes, exponent, mantissa) HLO_##name *((exponent) > 0 && (bits) > 0),
#include "hlo/ir/types.def"
#undef HLO_TYPE
};

// A signalling NaN with a payload, a negative quiet one, the sign alone (a NaN of the FNUZ types), and all ones.
static uint64_t pattern(const HloTypeInfo *info, int part_bits, int64_t index) {
    const uint64_t ones = part_bits == 64 ? UINT64_MAX : (UINT64_C(1) << part_bits) - 1;
    const uint64_t sign = UINT64_C(1) << (part_bits - 1), mantissa = (UINT64_C(1) << info->mantissa_bits) - 1;
    const uint64_t exponent = ones & ~sign & ~mantissa;
    const uint64_t patterns[] = {exponent | (mantissa & 1), sign | exponent | mantissa, sign, ones};
    return patterns[index % 4] & ones;
}

// Fills an array of this type with patterns, the first of them number `first`.
static void put_patterns(HloLiteral *literal, int64_t first) {
    const HloTypeInfo *info = hlo_type_info(literal->shape->type);
    const int parts = info->kind == HLO_KIND_COMPLEX ? 2 : 1, bytes = info->storage_bytes / parts;
    for (int64_t i = 0; i < parts * hlo_shape_elements(literal->shape); i++) {
        const uint64_t bits = pattern(info, info->bits / parts, first + i / parts + i % parts);
        memcpy((char *)literal->data + i * bytes, &bits, (size_t)bytes);
    }
}

typedef struct Move {
    const char *name, *shape, *body;  // y of this shape, of x, four elements; $ is the type
} Move;

#define PAIRS "frontend_attributes={_xla_send_recv_source_target_pairs=\"{{0,1},{1,0}}\"}"
static const Move kMoves[] = {
    {"all-gather", "[8]",
     "y = $[8] all-gather(x), dimensions={0}, channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true"},
    {"all-to-all", "[4]", "y = $[4] all-to-all(x), dimensions={0}, channel_id=1, replica_groups={{0,1}}"},
    {"collective-permute", "[4]", "y = $[4] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}}"},
    {"collective-broadcast", "[4]", "y = $[4] collective-broadcast(x), channel_id=1, replica_groups={{1,0}}"},
    {"asynchronous permute", "[4]",
     "s = ($[4], $[4]) collective-permute-start(x), channel_id=1, source_target_pairs={{0,1},{1,0}}\n"
     " y = $[4] collective-permute-done(s)"},
    {"send and recv", "[4]",
     "a = token[] after-all()\n r = ($[4], u32[], token[]) recv(a), channel_id=1, " PAIRS
     "\n s = ($[4], u32[], token[]) send(x, a), channel_id=1, control-predecessors={r}, " PAIRS
     "\n rd = ($[4], token[]) recv-done(r), channel_id=1\n sd = token[] send-done(s), channel_id=1, "
     "control-predecessors={rd}\n y = $[4] get-tuple-element(rd), index=0"},
    {"a permute of a transpose", "[4]",
     "m = $[2,2] reshape(x)\n t = $[2,2] transpose(m), dimensions={1,0}\n c = $[2,2] collective-permute(t), "
     "channel_id=1, source_target_pairs={{0,1},{1,0}}\n y = $[4] reshape(c)"},
};

static HloModule *program_of(const Move *move, const char *type) {
    HloText text = {0};
    hlo_text_string(&text, "HloModule m, num_partitions=2\nENTRY e {\n x = $[4] parameter(0)\n ");
    hlo_text_format(&text, "%s\n ROOT z = $%s copy(y)\n}\n", move->body, move->shape);
    HloText named = {0};
    for (const char *at = text.data; *at; at++) {
        if (*at == '$') hlo_text_string(&named, type);
        if (*at != '$') hlo_text_char(&named, *at);
    }
    HloModule *module = compiled_must_parse(named.data);
    hlo_text_free(&text);
    hlo_text_free(&named);
    return module;
}

// Runs the program on both devices, compiled or evaluated.
static void run(const HloModule *module, HloLiteral *arguments[kDevices], bool evaluate,
                HloLiteral *results[kDevices]) {
    HloLiteral **lists[kDevices] = {&arguments[0], &arguments[1]};
    HloText message = {0};
    if (evaluate) {
        const HloLiteral *const *constant[kDevices] = {(const HloLiteral *const *)lists[0],
                                                       (const HloLiteral *const *)lists[1]};
        must_succeed(hlo_evaluate_partitioned(module, kDevices, constant, 1, NULL, results));
        return;
    }
    const CompiledCheck check = {.threads = 2};
    cr_assert(compiled_run_with(module, lists, &check, results, &message), "%s", message.data);
    hlo_text_free(&message);
}

// The array of device `device` whose elements are numbered across the devices.
static HloLiteral *new_array(HloArena *arena, HloType type) {
    const int64_t count = kElements;
    HloLiteral *literal = hlo_literal_new(hlo_shape_array(arena, type, &count, 1));
    cr_assert(literal);
    return literal;
}

// places[device][element of y]: the number of the element of x that arrives there.
static void find_places(HloArena *arena, const Move *move, int64_t places[kDevices][kMost], int64_t *count) {
    HloModule *module = program_of(move, "s32");
    HloLiteral *arguments[kDevices], *results[kDevices];
    for (int d = 0; d < kDevices; d++) {
        arguments[d] = new_array(arena, HLO_S32);
        for (int i = 0; i < kElements; i++) ((int32_t *)arguments[d]->data)[i] = d * kElements + i;
    }
    run(module, arguments, true, results);
    *count = hlo_shape_elements(results[0]->shape);
    for (int d = 0; d < kDevices; d++) {
        for (int64_t i = 0; i < *count; i++) places[d][i] = hlo_literal_get_int64(results[d], i);
        hlo_literal_free(arguments[d]);
        hlo_literal_free(results[d]);
    }
    hlo_module_free(module);
}

static void check_type(HloArena *arena, const Move *move, HloType type, bool evaluate) {
    int64_t places[kDevices][kMost], count;
    find_places(arena, move, places, &count);
    HloModule *module = program_of(move, hlo_type_text(type));
    HloLiteral *arguments[kDevices], *results[kDevices];
    for (int d = 0; d < kDevices; d++) put_patterns(arguments[d] = new_array(arena, type), d);
    run(module, arguments, evaluate, results);
    const size_t bytes = (size_t)hlo_type_info(type)->storage_bytes;
    for (int d = 0; d < kDevices; d++) {
        for (int64_t i = 0; i < count; i++) {
            const int64_t place = places[d][i];
            const char *want = (const char *)arguments[place / kElements]->data + (size_t)(place % kElements) * bytes;
            const char *have = (const char *)results[d]->data + (size_t)i * bytes;
            cr_expect(memcmp(have, want, bytes) == 0, "%s of %s, %s: element %d of device %d", move->name,
                      hlo_type_text(type), evaluate ? "evaluated" : "compiled", (int)i, d);
        }
    }
    for (int d = 0; d < kDevices; d++) {
        hlo_literal_free(arguments[d]);
        hlo_literal_free(results[d]);
    }
    hlo_module_free(module);
}

CaseList(bits_between_devices, are_moved) {
    return cases_numbered(HLO_COUNT_OF(kMoves));
}

CaseTest(const int *index, bits_between_devices, are_moved) {
    HloArena *arena = hlo_arena_new();
    for (size_t t = 0; t < HLO_COUNT_OF(kTypes); t++) {
        for (int evaluate = 0; evaluate < 2 && kTypes[t]; evaluate++) {
            check_type(arena, &kMoves[*index], kTypes[t], evaluate);
        }
    }
    hlo_arena_free(arena);
}

// ---- the host

static TargetMemory *memory_of(TargetClient *client, int64_t device) {
    return target_device_default_memory(target_client_device(client, device));
}

// Buffers of a device: from the host, to another device, and back.
Test(bits_between_devices, are_kept_by_buffers) {
    TargetClient *client = NULL;
    HloArena *arena = hlo_arena_new();
    must_succeed(target_client_new("cpu:2", &client));
    for (size_t t = 0; t < HLO_COUNT_OF(kTypes); t++) {
        if (!kTypes[t]) continue;
        HloLiteral *sent = new_array(arena, kTypes[t]), *got = new_array(arena, kTypes[t]);
        const size_t bytes = (size_t)kElements * (size_t)hlo_type_info(kTypes[t])->storage_bytes;
        TargetBuffer *first = NULL, *second = NULL;
        put_patterns(sent, 0);
        must_succeed(target_buffer_from_literal(sent, memory_of(client, 0), &first));
        must_succeed(target_buffer_copy_to_memory(first, memory_of(client, 1), &second));
        must_succeed(target_buffer_to_host(second, got->data, (int64_t)bytes, NULL));
        cr_expect(memcmp(got->data, sent->data, bytes) == 0, "%s", hlo_type_text(kTypes[t]));
        target_buffer_release(first);
        target_buffer_release(second);
        hlo_literal_free(sent);
        hlo_literal_free(got);
    }
    hlo_arena_free(arena);
    target_client_release(client);
}

typedef struct Feeds {
    const HloLiteral *fed;
    char drained[kElements * 16];
} Feeds;

static HloStatus feed(void *context, int64_t place, int64_t channel, const HloShape *shape, void *data) {
    const Feeds *feeds = context;
    (void)place;
    (void)channel;
    memcpy(data, feeds->fed->data, (size_t)hlo_shape_bytes(shape));
    return HLO_SUCCESS;
}

static HloStatus drain(void *context, int64_t place, int64_t channel, const HloShape *shape, const void *data) {
    Feeds *feeds = context;
    (void)place;
    (void)channel;
    memcpy(feeds->drained, data, (size_t)hlo_shape_bytes(shape));
    return HLO_SUCCESS;
}

Test(bits_between_devices, are_kept_by_feeds) {
    TargetClient *client = NULL;
    HloArena *arena = hlo_arena_new();
    must_succeed(target_client_new("cpu:1", &client));
    for (size_t t = 0; t < HLO_COUNT_OF(kTypes); t++) {
        if (!kTypes[t]) continue;
        const char *type = hlo_type_text(kTypes[t]);
        HloText text = {0};
        hlo_text_format(
            &text,
            "HloModule m\nENTRY e {\n p = f32[] parameter(0)\n t = token[] after-all()\n in = (%s[4], "
            "token[]) infeed(t)\n x = %s[4] get-tuple-element(in), index=0\n k = token[] "
            "get-tuple-element(in), index=1\n r = %s[4] reverse(x), dimensions={0}\n o = token[] outfeed(r, "
            "k), outfeed_shape=%s[4]\n ROOT q = f32[] copy(p)\n}\n",
            type, type, type, type);
        TargetExecutable *executable = compiled_must_compile(client, text.data, NULL);
        Feeds feeds = {.fed = new_array(arena, kTypes[t])};
        put_patterns((HloLiteral *)(uintptr_t)feeds.fed, 0);
        const TargetHostTransfers transfers = {drain, feed, NULL, &feeds};
        const TargetExecuteOptions options = {.transfers = &transfers};
        HloLiteral *zero = hlo_literal_new(hlo_shape_array(arena, HLO_F32, NULL, 0));
        TargetBuffer *argument = NULL, *result = NULL, *const * arguments[] = {&argument}, **results[] = {&result};
        must_succeed(target_buffer_from_literal(zero, memory_of(client, 0), &argument));
        must_succeed(target_execute(executable, &options, arguments, 1, results, NULL));
        float nothing;
        must_succeed(target_buffer_to_host(result, &nothing, sizeof(nothing), NULL));
        const size_t bytes = (size_t)hlo_type_info(kTypes[t])->storage_bytes;
        for (size_t i = 0; i < kElements; i++) {
            const char *want = (const char *)feeds.fed->data + (kElements - 1 - i) * bytes;
            cr_expect(memcmp(feeds.drained + i * bytes, want, bytes) == 0, "element %zu of %s", i, type);
        }
        target_buffer_release(argument);
        target_buffer_release(result);
        target_executable_release(executable);
        hlo_literal_free(zero);
        hlo_literal_free((HloLiteral *)(uintptr_t)feeds.fed);
        hlo_text_free(&text);
    }
    hlo_arena_free(arena);
    target_client_release(client);
}
