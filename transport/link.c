// SPDX-License-Identifier: Apache-2.0
#include "transport/link.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hlo/base/memory.h"

enum { kHeaderBytes = 8, kPiece = 4096, kMostInput = 1 << 20 };

static void set_broken(Link *link, int error) {
    if (link->is_broken) return;
    link->is_broken = true;
    link->error = error;
}

void link_open(Link *link, int file) {
    *link = (Link){.file = file};
}

void link_close(Link *link) {
    if (link->file >= 0) close(link->file);
    hlo_free(link->input);
    hlo_free(link->output);
    *link = (Link){.file = -1};
}

static bool grow(unsigned char **data, size_t *capacity, size_t needed) {
    if (needed <= *capacity) return true;
    const size_t size = needed > 2 * *capacity ? needed : 2 * *capacity;
    unsigned char *larger = hlo_reallocate(*data, size);
    if (!larger) return false;
    *data = larger;
    *capacity = size;
    return true;
}

void link_read(Link *link) {
    if (link->file < 0) return;
    if (link->input_start > 0) {
        memmove(link->input, link->input + link->input_start, link->input_bytes - link->input_start);
        link->input_bytes -= link->input_start;
        link->input_start = 0;
    }
    while (!link->is_broken && link->input_bytes < kMostInput) {
        if (!grow(&link->input, &link->input_capacity, link->input_bytes + kPiece)) {
            set_broken(link, LINK_NO_MEMORY);
            return;
        }
        const ssize_t count = recv(link->file, link->input + link->input_bytes, kPiece, MSG_DONTWAIT);
        if (count > 0) {
            link->input_bytes += (size_t)count;
        } else if (count == 0) {
            set_broken(link, 0);
        } else if (errno != EINTR) {
            if (errno != EAGAIN && errno != EWOULDBLOCK) set_broken(link, errno);
            return;
        }
    }
}

bool link_next(Link *link, size_t maximum, Frame *frame) {
    const size_t left = link->input_bytes - link->input_start;
    uint32_t head[2];
    if (left < kHeaderBytes) return false;
    memcpy(head, link->input + link->input_start, sizeof head);
    if (head[1] > maximum) {
        set_broken(link, LINK_NONSENSE);
        return false;
    }
    if (left - kHeaderBytes < head[1]) return false;
    *frame = (Frame){.kind = head[0], .data = link->input + link->input_start + kHeaderBytes, .bytes = head[1]};
    link->input_start += kHeaderBytes + head[1];
    return true;
}

void link_queue(Link *link, uint32_t kind, const void *data, size_t bytes) {
    const uint32_t head[2] = {kind, (uint32_t)bytes};
    if (link->file < 0 || link->is_broken) return;
    if (!grow(&link->output, &link->output_capacity, link->output_bytes + kHeaderBytes + bytes)) {
        set_broken(link, LINK_NO_MEMORY);
        return;
    }
    memcpy(link->output + link->output_bytes, head, sizeof head);
    if (bytes > 0) memcpy(link->output + link->output_bytes + kHeaderBytes, data, bytes);
    link->output_bytes += kHeaderBytes + bytes;
}

// An error of writing is left to be found by reading, which first gives what the other side said before it went.
bool link_flush(Link *link) {
    while (link->file >= 0 && link->output_bytes > 0) {
        const ssize_t count = send(link->file, link->output, link->output_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count < 0) {
            if (errno == EINTR) continue;
            if (errno != EAGAIN && errno != EWOULDBLOCK) link->output_bytes = 0;
            return link->output_bytes == 0;
        }
        link->output_bytes -= (size_t)count;
        memmove(link->output, link->output + count, link->output_bytes);
    }
    return true;
}

const char *link_reason(const Link *link) {
    switch (link->error) {
        case 0: return "was closed";
        case LINK_NONSENSE: return "carries data that makes no sense";
        case LINK_NO_MEMORY: return "has no memory";
        case ECONNRESET: return "was reset";
        case EPIPE: return "was closed for writing";
        case ETIMEDOUT: return "timed out";
        case EHOSTUNREACH:
        case ENETUNREACH: return "lost its route";
        default: return "failed";
    }
}
