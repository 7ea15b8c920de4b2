// SPDX-License-Identifier: Apache-2.0
// Pieces and messages. A phase lists pieces: bytes of an array that go to a process, or come from it. Sender and
// receiver list the pieces between them in the same order: by array, sending member, receiving member. Pieces that fit
// into one small message are packed; larger ones travel by themselves, without a copy, in their order.
//
// Memory: what is received and cannot be stored in a result directly is staged in blocks, which are kept for the next
// iteration of a loop. They are the pool's scratch memory, which the next launch finds again: new memory would cost
// page faults.
#include "targets/cpu/run/remote.h"

#include <assert.h>
#include <string.h>

#include "targets/cpu/element/copy.h"
#include "targets/cpu/lower/ragged.h"

enum { kPackedBytes = 16 * 1024 };

typedef struct Piece {
    int64_t next;  // of the same process and direction, or -1
    char *data;
    int64_t bytes;
} Piece;

// The pieces of one phase from or to one process.
typedef struct Line {
    int64_t first, last, count;  // pieces
    int64_t bytes;
    char *packed;
} Line;

typedef struct Message {
    TransportRequest *request;
    int64_t process;
} Message;

typedef struct Block {
    char *data;
    int64_t bytes;
} Block;

struct CpuRemote {
    const CpuCollective *collective;
    const CpuCollectiveGroup *group;
    const CpuSpan *span;
    CpuLaunch *launch;
    CpuPool *pool;
    int64_t rendezvous;
    int64_t local_count, process_count, own;  // `own`: index of this process in the list
    int64_t *locals;                          // members of this process
    int64_t *processes;                       // of all members, rising
    int64_t *uncompared;                      // those whose announcement has not been compared
    int64_t uncompared_count;
    int phase;
    Line *sends, *receives;  // by index of the process
    Piece *pieces;
    int64_t piece_count, piece_capacity;
    Message *messages;
    int64_t message_count, message_capacity, messages_done;
    bool is_listening;  // the receives of this phase have been posted
    Block *blocks;
    int64_t block_count, block_capacity, blocks_used;
};

static HloStatus no_memory(const CpuRemote *remote) {
    return hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory to exchange %s %%%s between processes",
                     hlo_op_text(remote->collective->opcode), remote->collective->instruction->name);
}

static bool is_here(const CpuRemote *remote, int64_t member) {
    return !remote->span->elsewhere[remote->group->devices[member]];
}

// Returns the index of a member's process.
static int64_t process_of(const CpuRemote *remote, int64_t member) {
    const int64_t process = remote->span->processes[remote->group->devices[member]];
    int64_t low = 0, high = remote->process_count - 1;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (remote->processes[middle] < process)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// ---- lists that grow

// Makes room for one more entry of `bytes` bytes; false when memory is short.
static bool grow(void **items, int64_t count, int64_t *capacity, size_t bytes) {
    if (count < *capacity) return true;
    const int64_t more = *capacity ? 2 * *capacity : 8;
    void *larger = hlo_allocate_zeroed((size_t)more, bytes);
    if (!larger) return false;
    if (count) memcpy(larger, *items, (size_t)count * bytes);
    hlo_free(*items);
    *items = larger;
    *capacity = more;
    return true;
}

// Returns a block for this exchange; NULL when memory is short.
static char *stage(CpuRemote *remote, int64_t bytes) {
    if (!grow((void **)&remote->blocks, remote->block_count, &remote->block_capacity, sizeof(Block))) return NULL;
    Block *block = &remote->blocks[remote->blocks_used];
    if (remote->blocks_used == remote->block_count) remote->block_count++;
    if (block->bytes < bytes || !block->data) {
        cpu_pool_scratch_give(remote->pool, block->data);
        *block = (Block){cpu_pool_scratch_take(remote->pool, (size_t)bytes + 1), bytes};
        if (!block->data) return NULL;
    }
    remote->blocks_used++;
    return block->data;
}

// ---- pieces

static HloStatus add_piece(CpuRemote *remote, Line *line, const void *data, int64_t bytes) {
    if (bytes == 0) return HLO_SUCCESS;
    if (!grow((void **)&remote->pieces, remote->piece_count, &remote->piece_capacity, sizeof(Piece)))
        return no_memory(remote);
    const int64_t index = remote->piece_count++;
    remote->pieces[index] = (Piece){-1, (char *)(uintptr_t)data, bytes};
    if (line->count++)
        remote->pieces[line->last].next = index;
    else
        line->first = index;
    line->last = index;
    line->bytes += bytes;
    return HLO_SUCCESS;
}

static HloStatus add_send(CpuRemote *remote, int64_t process, const void *data, int64_t bytes) {
    return add_piece(remote, &remote->sends[process], data, bytes);
}

static HloStatus send_to_all(CpuRemote *remote, const void *data, int64_t bytes) {
    for (int64_t p = 0; p < remote->process_count; p++)
        if (p != remote->own) HLO_TRY(add_send(remote, p, data, bytes));
    return HLO_SUCCESS;
}

static HloStatus add_receive(CpuRemote *remote, int64_t process, void *data, int64_t bytes) {
    return add_piece(remote, &remote->receives[process], data, bytes);
}

// Receives into a new block. *data is NULL if there is nothing to receive.
static HloStatus receive_staged(CpuRemote *remote, int64_t process, int64_t bytes, void **data) {
    *data = NULL;
    if (bytes == 0) return HLO_SUCCESS;
    *data = stage(remote, bytes);
    if (!*data) return no_memory(remote);
    return add_receive(remote, process, *data, bytes);
}

// Makes a dense copy of `rows` pieces of `bytes` bytes, `stride` apart.
static void pack(char *to, const char *from, int64_t rows, int64_t bytes, int64_t stride) {
    for (int64_t o = 0; o < rows && bytes; o++) memcpy(to + o * bytes, from + o * stride, (size_t)bytes);
}

// Sends rows that may not be adjacent.
static HloStatus send_rows(CpuRemote *remote, int64_t process, const char *from, int64_t rows, int64_t bytes,
                           int64_t stride) {
    if (rows <= 1) return add_send(remote, process, from, rows * bytes);
    if (bytes == 0) return HLO_SUCCESS;
    char *packed = stage(remote, rows * bytes);
    if (!packed) return no_memory(remote);
    pack(packed, from, rows, bytes, stride);
    return add_send(remote, process, packed, rows * bytes);
}

// ---- messages

static void clear_lines(CpuRemote *remote) {
    for (int64_t p = 0; p < remote->process_count; p++) remote->sends[p] = remote->receives[p] = (Line){0};
    remote->piece_count = 0;
}

static HloStatus post(CpuRemote *remote, int64_t process, bool is_send, char *data, int64_t bytes) {
    if (!grow((void **)&remote->messages, remote->message_count, &remote->message_capacity, sizeof(Message)))
        return no_memory(remote);
    Transport *transport = cpu_launch_transport(remote->launch);
    const uint64_t tag = cpu_launch_tag(remote->launch, process, CPU_MESSAGE_EXCHANGE, remote->rendezvous);
    Message message = {NULL, process};
    if (is_send)
        HLO_TRY(transport_send(transport, process, tag, data, bytes, &message.request));
    else
        HLO_TRY(transport_receive(transport, process, tag, data, bytes, &message.request));
    remote->messages[remote->message_count++] = message;
    return HLO_SUCCESS;
}

// Several small pieces share a message, so that a device more costs no message more.
static HloStatus post_line(CpuRemote *remote, int64_t process, bool is_send, Line *line) {
    if (line->count > 1 && line->bytes <= kPackedBytes) {
        line->packed = stage(remote, line->bytes);
        if (!line->packed) return no_memory(remote);
        char *to = line->packed;
        for (int64_t i = line->first; is_send && i >= 0; to += remote->pieces[i].bytes, i = remote->pieces[i].next)
            memcpy(to, remote->pieces[i].data, (size_t)remote->pieces[i].bytes);
        return post(remote, process, is_send, line->packed, line->bytes);
    }
    for (int64_t i = line->count ? line->first : -1; i >= 0; i = remote->pieces[i].next)
        HLO_TRY(post(remote, process, is_send, remote->pieces[i].data, remote->pieces[i].bytes));
    return HLO_SUCCESS;
}

static HloStatus post_lines(CpuRemote *remote, bool is_send) {
    Line *lines = is_send ? remote->sends : remote->receives;
    for (int64_t p = 0; p < remote->process_count; p++)
        HLO_TRY(post_line(remote, remote->processes[p], is_send, &lines[p]));
    return HLO_SUCCESS;
}

static bool is_compared(CpuRemote *remote) {
    while (remote->uncompared_count &&
           cpu_launch_is_checked(remote->launch, remote->uncompared[remote->uncompared_count - 1]))
        remote->uncompared_count--;
    return remote->uncompared_count == 0;
}

// Posts receives when all senders are known to run this program: the sizes of others' messages would not fit.
static HloStatus listen_now(CpuRemote *remote) {
    if (remote->is_listening || !is_compared(remote)) return HLO_SUCCESS;
    remote->is_listening = true;
    return post_lines(remote, false);
}

// Receives come first if they can, so that they are there when the messages arrive.
static HloStatus post_all(CpuRemote *remote) {
    remote->is_listening = false;
    HLO_TRY(listen_now(remote));
    return post_lines(remote, true);
}

static void unpack_all(CpuRemote *remote) {
    for (int64_t p = 0; p < remote->process_count; p++) {
        const Line *line = &remote->receives[p];
        const char *from = line->packed;
        for (int64_t i = from ? line->first : -1; i >= 0; from += remote->pieces[i].bytes, i = remote->pieces[i].next)
            memcpy(remote->pieces[i].data, from, (size_t)remote->pieces[i].bytes);
    }
}

static void free_messages(CpuRemote *remote) {
    for (int64_t i = 0; i < remote->message_count; i++) transport_request_free(remote->messages[i].request);
    remote->message_count = remote->messages_done = 0;
}

bool cpu_remote_is_ready(CpuRemote *remote, HloStatus *status) {
    *status = listen_now(remote);
    while (remote->messages_done < remote->message_count && !*status) {
        if (!transport_request_is_done(remote->messages[remote->messages_done].request, status)) return false;
        remote->messages_done++;
    }
    return *status || remote->is_listening;
}

int64_t cpu_remote_rendezvous(const CpuRemote *remote) {
    return remote->rendezvous;
}

int64_t cpu_remote_awaited(CpuRemote *remote, int64_t after) {
    int64_t next = -1;
    for (int64_t i = 0; i < remote->message_count; i++) {
        const int64_t process = remote->messages[i].process;
        if (process <= after || (next >= 0 && process >= next)) continue;
        HloStatus status = HLO_SUCCESS;
        if (!transport_request_is_done(remote->messages[i].request, &status)) next = process;
        hlo_status_free(status);
    }
    for (int64_t i = 0; i < remote->uncompared_count; i++) {
        const int64_t process = remote->uncompared[i];
        if (process > after && (next < 0 || process < next)) next = process;
    }
    return next;
}

// ---- all-reduce

// The elements of an array that a process reduces for all, in bytes: some of the pieces that the loops are made for.
typedef struct Range {
    int64_t begin, end;
} Range;

static bool is_divided(const CpuRemote *remote) {
    return remote->collective->parts > 1;
}

static int64_t first_part(const CpuRemote *remote, int64_t process) {
    return process * remote->collective->parts / remote->process_count;
}

static Range range_of(const CpuRemote *remote, int32_t index, int64_t process) {
    const CpuCollectiveArray *array = &remote->collective->arrays[index];
    const int64_t bytes = hlo_shape_bytes(array->operand);
    if (!is_divided(remote)) return (Range){0, bytes};
    const int64_t piece = array->loop_elements * hlo_type_bytes(array->operand->type);
    const Range range = {first_part(remote, process) * piece, first_part(remote, process + 1) * piece};
    return (Range){range.begin < bytes ? range.begin : bytes, range.end < bytes ? range.end : bytes};
}

// A block holds a range only; its address is the one that the whole array would have.
static void *whole_address(void *block, Range range) {
    return block ? (void *)((uintptr_t)block - (uintptr_t)range.begin) : NULL;
}

static HloStatus start_all_reduce(CpuRemote *remote, void ***addresses) {
    for (int32_t i = 0; i < remote->collective->array_count; i++) {
        const Range own = range_of(remote, i, remote->own);
        for (int64_t m = 0; m < remote->group->count; m++) {
            if (is_here(remote, m)) {
                for (int64_t p = 0; p < remote->process_count; p++) {
                    const Range range = range_of(remote, i, p);
                    if (p != remote->own)
                        HLO_TRY(add_send(remote, p, (char *)addresses[i][m] + range.begin, range.end - range.begin));
                }
                continue;
            }
            void *block;
            HLO_TRY(receive_staged(remote, process_of(remote, m), own.end - own.begin, &block));
            addresses[i][m] = whole_address(block, own);
        }
    }
    return HLO_SUCCESS;
}

// Reduces the own pieces, and passes them on if they are not all. Results of members here are received in the first.
static HloStatus reduce(CpuRemote *remote, void ***addresses, CpuPool *pool) {
    const CpuCollective *collective = remote->collective;
    const int64_t begin = is_divided(remote) ? first_part(remote, remote->own) : 0;
    const int64_t end = is_divided(remote) ? first_part(remote, remote->own + 1) : 1;
    for (int64_t part = begin; part < end; part++)
        HLO_TRY(collective->exchange(collective, remote->group, (void *const *const *)addresses, part,
                                     collective->parts, pool));
    for (int32_t i = 0; is_divided(remote) && i < collective->array_count; i++) {
        char *result = addresses[collective->array_count + i][remote->locals[0]];
        const Range own = range_of(remote, i, remote->own);
        HLO_TRY(send_to_all(remote, result + own.begin, own.end - own.begin));
        for (int64_t p = 0; p < remote->process_count; p++) {
            const Range range = range_of(remote, i, p);
            if (p != remote->own) HLO_TRY(add_receive(remote, p, result + range.begin, range.end - range.begin));
        }
    }
    return HLO_SUCCESS;
}

// Copies the ranges of other processes from the first member here to the others.
static void spread_reduced(CpuRemote *remote, void ***addresses, CpuPool *pool) {
    for (int32_t i = 0; i < remote->collective->array_count; i++) {
        void *const *results = addresses[remote->collective->array_count + i];
        const char *from = results[remote->locals[0]];
        for (int64_t l = 1; l < remote->local_count; l++) {
            for (int64_t p = 0; p < remote->process_count; p++) {
                const Range range = range_of(remote, i, p);
                if (p == remote->own || range.begin == range.end) continue;
                cpu_copy_bytes(pool, (char *)results[remote->locals[l]] + range.begin, from + range.begin,
                               range.end - range.begin);
            }
        }
    }
}

// ---- reduce-scatter

static int64_t chunk_of(const CpuCollectiveArray *array) {
    return array->outer * array->chunk_bytes;
}

// Of each member elsewhere, a block holds the chunks of all members here.
static HloStatus start_reduce_scatter(CpuRemote *remote, void ***addresses) {
    const CpuCollectiveGroup *group = remote->group;
    for (int32_t i = 0; i < remote->collective->array_count; i++) {
        const CpuCollectiveArray *array = &remote->collective->arrays[i];
        const int64_t stride = array->chunk_bytes * group->count, chunk = chunk_of(array);
        for (int64_t m = 0; m < group->count; m++) {
            for (int64_t r = 0; is_here(remote, m) && r < group->count; r++)
                if (!is_here(remote, r))
                    HLO_TRY(send_rows(remote, process_of(remote, r), (char *)addresses[i][m] + r * array->chunk_bytes,
                                      array->outer, array->chunk_bytes, stride));
            if (is_here(remote, m)) continue;
            char *block = addresses[i][m] = stage(remote, chunk * remote->local_count);
            if (!block) return no_memory(remote);
            for (int64_t l = 0; l < remote->local_count; l++)
                HLO_TRY(add_receive(remote, process_of(remote, m), block + l * chunk, chunk));
        }
    }
    return HLO_SUCCESS;
}

// Reduces the chunk of local member number `l`. `packed` has room for the chunks of all members here, whose rows are
// not adjacent in the operand.
static HloStatus reduce_chunk(CpuRemote *remote, void ***addresses, int32_t i, int64_t l, char *packed, void **buffers,
                              CpuPool *pool) {
    const CpuCollective *collective = remote->collective;
    const CpuCollectiveArray *array = &collective->arrays[i];
    const CpuCollectiveGroup *group = remote->group;
    const int64_t chunk = chunk_of(array), r = remote->locals[l];
    for (int64_t m = 0; m < group->count; m++) {
        const char *own = (char *)addresses[i][m] + r * array->chunk_bytes;
        if (!is_here(remote, m)) {
            buffers[m] = (char *)addresses[i][m] + l * chunk;
        } else if (array->outer <= 1) {
            buffers[m] = (char *)(uintptr_t)own;
        } else {
            pack(packed, own, array->outer, array->chunk_bytes, array->chunk_bytes * group->count);
            buffers[m] = packed;
            packed += chunk;
        }
    }
    buffers[group->count] = addresses[collective->array_count + i][r];
    return hlo_shape_elements(array->result) ? cpu_loop_run(array->packed, pool, buffers) : HLO_SUCCESS;
}

static HloStatus reduce_chunks(CpuRemote *remote, void ***addresses, CpuPool *pool) {
    void **buffers = hlo_allocate(sizeof(void *) * (size_t)(remote->group->count + 1));
    HloStatus status = buffers ? HLO_SUCCESS : no_memory(remote);
    for (int32_t i = 0; i < remote->collective->array_count && !status; i++) {
        char *packed = stage(remote, chunk_of(&remote->collective->arrays[i]) * remote->local_count);
        if (!packed) status = no_memory(remote);
        for (int64_t l = 0; l < remote->local_count && !status; l++)
            status = reduce_chunk(remote, addresses, i, l, packed, buffers, pool);
    }
    hlo_free(buffers);
    return status;
}

// ---- collectives that only move

// Operands that are one run in the result are received there, in that of the first member here.
static HloStatus start_all_gather(CpuRemote *remote, void ***addresses) {
    for (int32_t i = 0; i < remote->collective->array_count; i++) {
        const CpuCollectiveArray *array = &remote->collective->arrays[i];
        const int64_t bytes = chunk_of(array);
        char *result = addresses[remote->collective->array_count + i][remote->locals[0]];
        for (int64_t m = 0; m < remote->group->count; m++) {
            const int64_t process = process_of(remote, m);
            if (is_here(remote, m)) {
                HLO_TRY(send_to_all(remote, addresses[i][m], bytes));
            } else if (array->outer == 1) {
                addresses[i][m] = result + m * bytes;
                HLO_TRY(add_receive(remote, process, addresses[i][m], bytes));
            } else {
                HLO_TRY(receive_staged(remote, process, bytes, &addresses[i][m]));
            }
        }
    }
    return HLO_SUCCESS;
}

static HloStatus start_all_to_all(CpuRemote *remote, void ***addresses) {
    const CpuCollectiveGroup *group = remote->group;
    const CpuCollectiveArray *array = &remote->collective->arrays[0];
    const int64_t chunk = array->chunk_bytes;
    for (int64_t m = 0; m < group->count; m++) {
        char *block = NULL;
        if (!is_here(remote, m) && array->outer > 1) {
            addresses[0][m] = block = stage(remote, chunk_of(array) * remote->local_count);
            if (!block) return no_memory(remote);
        }
        for (int64_t r = 0; r < group->count; r++) {
            if (is_here(remote, m) && !is_here(remote, r)) {
                HLO_TRY(send_rows(remote, process_of(remote, r), (char *)addresses[0][m] + r * chunk, array->outer,
                                  chunk, chunk * group->count));
            } else if (!is_here(remote, m) && is_here(remote, r)) {
                char *to = block ? block : (char *)addresses[1][r] + m * chunk;
                HLO_TRY(add_receive(remote, process_of(remote, m), to, chunk_of(array)));
                if (block) block += chunk_of(array);
            }
        }
    }
    return HLO_SUCCESS;
}

// Copies between the members here, and distributes the rows of staged chunks.
static HloStatus finish_all_to_all(CpuRemote *remote, void ***addresses, CpuPool *pool) {
    const CpuCollective *collective = remote->collective;
    const CpuCollectiveGroup *group = remote->group;
    const CpuCollectiveArray *array = &collective->arrays[0];
    for (int64_t m = 0; m < group->count; m++) {
        const char *block = is_here(remote, m) ? NULL : addresses[0][m];
        for (int64_t l = 0; block && l < remote->local_count; l++) {
            char *to = (char *)addresses[1][remote->locals[l]] + m * array->chunk_bytes;
            for (int64_t o = 0; o < array->outer; o++, block += array->chunk_bytes)
                memcpy(to + o * array->chunk_bytes * group->count, block, (size_t)array->chunk_bytes);
        }
        if (!is_here(remote, m)) addresses[0][m] = NULL;
    }
    return collective->exchange(collective, group, (void *const *const *)addresses, 0, 1, pool);
}

static HloStatus start_all_to_all_tuple(CpuRemote *remote, void ***addresses) {
    const CpuCollective *collective = remote->collective;
    const int64_t bytes = hlo_shape_bytes(collective->arrays[0].operand), count = remote->group->count;
    for (int64_t m = 0; m < count; m++) {
        for (int64_t r = 0; r < count; r++) {
            if (is_here(remote, m) && !is_here(remote, r))
                HLO_TRY(add_send(remote, process_of(remote, r), addresses[r][m], bytes));
            else if (!is_here(remote, m) && is_here(remote, r))
                HLO_TRY(add_receive(remote, process_of(remote, m), addresses[collective->array_count + m][r], bytes));
        }
    }
    return HLO_SUCCESS;
}

static HloStatus start_permute(CpuRemote *remote, void ***addresses) {
    const CpuCollective *collective = remote->collective;
    for (int32_t i = 0; i < collective->array_count; i++) {
        const int64_t bytes = hlo_shape_bytes(collective->arrays[i].operand);
        for (int64_t r = 0; r < remote->group->count; r++) {
            const int64_t source = collective->sources[remote->group->devices[r]];
            if (source < 0) continue;
            const int64_t from = collective->member_of[source];
            if (is_here(remote, from) == is_here(remote, r)) continue;
            if (is_here(remote, from))
                HLO_TRY(add_send(remote, process_of(remote, r), addresses[i][from], bytes));
            else
                HLO_TRY(
                    add_receive(remote, process_of(remote, from), addresses[collective->array_count + i][r], bytes));
        }
    }
    return HLO_SUCCESS;
}

static HloStatus start_broadcast(CpuRemote *remote, void ***addresses) {
    const CpuCollective *collective = remote->collective;
    for (int32_t i = 0; i < collective->array_count && !remote->group->is_left_out; i++) {
        const int64_t bytes = hlo_shape_bytes(collective->arrays[i].operand);
        if (is_here(remote, 0)) {
            HLO_TRY(send_to_all(remote, addresses[i][0], bytes));
        } else {
            addresses[i][0] = addresses[collective->array_count + i][remote->locals[0]];
            HLO_TRY(add_receive(remote, process_of(remote, 0), addresses[i][0], bytes));
        }
    }
    return HLO_SUCCESS;
}

// ---- ragged-all-to-all

enum { kFirstSizes = 2, kLastSizes = 4 };

// Every process learns all offsets and sizes: all find the same rows, and the same errors.
static HloStatus start_ragged(CpuRemote *remote, void ***addresses) {
    for (int32_t i = kFirstSizes; i <= kLastSizes; i++) {
        const int64_t bytes = hlo_shape_bytes(remote->collective->arrays[i].operand);
        for (int64_t m = 0; m < remote->group->count; m++) {
            if (is_here(remote, m))
                HLO_TRY(send_to_all(remote, addresses[i][m], bytes));
            else
                HLO_TRY(receive_staged(remote, process_of(remote, m), bytes, &addresses[i][m]));
        }
    }
    return HLO_SUCCESS;
}

// Rows from elsewhere are received in a copy of the sender's operand, as far as they are there. Two entries may send
// the same rows.
static HloStatus exchange_rows(CpuRemote *remote, void ***addresses, int64_t from, const CpuRaggedRows *rows) {
    const bool to_here = is_here(remote, rows->receiver);
    if (is_here(remote, from) == to_here) return HLO_SUCCESS;
    if (!to_here)
        return add_send(remote, process_of(remote, rows->receiver), (char *)addresses[0][from] + rows->from,
                        rows->bytes);
    return add_receive(remote, process_of(remote, from), (char *)addresses[0][from] + rows->from, rows->bytes);
}

// No message is posted before all rows are known to be in range: wrong ones are errors in all processes.
static HloStatus continue_ragged(CpuRemote *remote, void ***addresses) {
    const CpuCollective *collective = remote->collective;
    const int64_t bytes = hlo_shape_bytes(collective->arrays[0].operand);
    const int64_t entries = hlo_shape_elements(collective->arrays[kFirstSizes].operand);
    for (int64_t m = 0; m < remote->group->count; m++) {
        if (is_here(remote, m)) continue;
        addresses[0][m] = stage(remote, bytes);
        if (!addresses[0][m]) return no_memory(remote);
    }
    for (int64_t from = 0; from < remote->group->count; from++) {
        for (int64_t e = 0; e < entries; e++) {
            CpuRaggedRows rows;
            HLO_TRY(cpu_ragged_rows(collective, remote->group, (void *const *const *)addresses, from, e, &rows));
            if (rows.bytes) HLO_TRY(exchange_rows(remote, addresses, from, &rows));
        }
    }
    return HLO_SUCCESS;
}

// ---- phases

static HloStatus start(CpuRemote *remote, void ***addresses) {
    remote->blocks_used = 0;
    switch (remote->collective->opcode) {
        case HLO_OP_ALL_REDUCE: return start_all_reduce(remote, addresses);
        case HLO_OP_REDUCE_SCATTER: return start_reduce_scatter(remote, addresses);
        case HLO_OP_ALL_GATHER: return start_all_gather(remote, addresses);
        case HLO_OP_ALL_TO_ALL:
            return HLO_ATTRIBUTES(remote->collective->instruction, Collective)->dimensions.count
                       ? start_all_to_all(remote, addresses)
                       : start_all_to_all_tuple(remote, addresses);
        case HLO_OP_COLLECTIVE_PERMUTE: return start_permute(remote, addresses);
        case HLO_OP_COLLECTIVE_BROADCAST: return start_broadcast(remote, addresses);
        case HLO_OP_RAGGED_ALL_TO_ALL: return start_ragged(remote, addresses);
        default: HLO_BUG_IF(true);
    }
}

// Computes with the messages that have arrived.
static HloStatus proceed(CpuRemote *remote, void ***addresses, CpuPool *pool) {
    const CpuCollective *collective = remote->collective;
    const bool is_first = remote->phase == 1;
    switch (collective->opcode) {
        case HLO_OP_ALL_REDUCE:
            if (is_first) return reduce(remote, addresses, pool);
            spread_reduced(remote, addresses, pool);
            return HLO_SUCCESS;
        case HLO_OP_REDUCE_SCATTER: return reduce_chunks(remote, addresses, pool);
        case HLO_OP_ALL_TO_ALL:
            if (HLO_ATTRIBUTES(collective->instruction, Collective)->dimensions.count)
                return finish_all_to_all(remote, addresses, pool);
            break;
        case HLO_OP_RAGGED_ALL_TO_ALL:
            if (is_first) return continue_ragged(remote, addresses);
            break;
        default: break;
    }
    return collective->exchange(collective, remote->group, (void *const *const *)addresses, 0, 1, pool);
}

// The number of phases after the first.
static int phases_of(const CpuRemote *remote) {
    const HloOpcode opcode = remote->collective->opcode;
    return opcode == HLO_OP_RAGGED_ALL_TO_ALL || (opcode == HLO_OP_ALL_REDUCE && is_divided(remote)) ? 2 : 1;
}

HloStatus cpu_remote_advance(CpuRemote *remote, void ***addresses, bool *done) {
    assert(remote && addresses && done);
    CpuPool *pool = remote->pool;
    unpack_all(remote);
    free_messages(remote);
    clear_lines(remote);
    if (remote->phase == 0)
        HLO_TRY(start(remote, addresses));
    else
        HLO_TRY(proceed(remote, addresses, pool));
    *done = remote->phase == phases_of(remote);
    remote->phase = *done ? 0 : remote->phase + 1;
    return post_all(remote);
}

// ---- making and freeing

static void list_members(CpuRemote *remote) {
    const CpuCollectiveGroup *group = remote->group;
    for (int64_t m = 0; m < group->count; m++) {
        const int64_t process = remote->span->processes[group->devices[m]];
        if (is_here(remote, m)) remote->locals[remote->local_count++] = m;
        int64_t at = 0;
        while (at < remote->process_count && remote->processes[at] < process) at++;
        if (at < remote->process_count && remote->processes[at] == process) continue;
        memmove(&remote->processes[at + 1], &remote->processes[at],
                (size_t)(remote->process_count - at) * sizeof *remote->processes);
        remote->processes[at] = process;
        remote->process_count++;
    }
}

// Lists the processes whose data the exchange uses.
static void list_uncompared(CpuRemote *remote) {
    for (int64_t p = 0; p < remote->process_count; p++) {
        if (remote->processes[p] == remote->span->process) remote->own = p;
        for (int64_t i = 0; i < remote->span->peer_count; i++)
            if (remote->processes[p] == remote->span->peers[i] && !remote->group->is_left_out)
                remote->uncompared[remote->uncompared_count++] = remote->processes[p];
    }
}

HloStatus cpu_remote_new(const CpuCollective *collective, const CpuCollectiveGroup *group, int64_t rendezvous,
                         const CpuSpan *span, CpuLaunch *launch, CpuPool *pool, CpuRemote **result) {
    assert(collective && group && span && result);
    CpuRemote *remote = hlo_allocate_zeroed(1, sizeof *remote);
    HLO_FAIL_IF(!remote, HLO_RESOURCE_EXHAUSTED, "no memory for an exchange between processes");
    *remote = (CpuRemote){.collective = collective,
                          .group = group,
                          .span = span,
                          .launch = launch,
                          .pool = pool,
                          .rendezvous = rendezvous};
    const size_t members = (size_t)group->count + 1;
    remote->locals = hlo_allocate(members * sizeof *remote->locals);
    remote->processes = hlo_allocate(members * sizeof *remote->processes);
    remote->uncompared = hlo_allocate(members * sizeof *remote->uncompared);
    remote->sends = hlo_allocate_zeroed(members, sizeof(Line));
    remote->receives = hlo_allocate_zeroed(members, sizeof(Line));
    if (!remote->locals || !remote->processes || !remote->uncompared || !remote->sends || !remote->receives) {
        const HloStatus status = no_memory(remote);
        cpu_remote_free(remote);
        return status;
    }
    list_members(remote);
    list_uncompared(remote);
    *result = remote;
    return HLO_SUCCESS;
}

void cpu_remote_free(CpuRemote *remote) {
    if (!remote) return;
    free_messages(remote);
    for (int64_t i = 0; i < remote->block_count; i++) cpu_pool_scratch_give(remote->pool, remote->blocks[i].data);
    hlo_free(remote->blocks);
    hlo_free(remote->messages);
    hlo_free(remote->pieces);
    hlo_free(remote->sends);
    hlo_free(remote->receives);
    hlo_free(remote->locals);
    hlo_free(remote->processes);
    hlo_free(remote->uncompared);
    hlo_free(remote);
}
