// SPDX-License-Identifier: Apache-2.0
// A control connection: frames over a TCP socket that does not block. Not a public header.
//
// A frame is a kind and up to a number of bytes that the reader sets, small until the other side has authenticated.
#ifndef MESHLO_TRANSPORT_LINK_H_
#define MESHLO_TRANSPORT_LINK_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LINK_NONSENSE = -1, LINK_NO_MEMORY = -2 };

typedef struct Link {
    int file;  // -1: closed
    unsigned char *input, *output;
    size_t input_bytes, input_capacity, input_start;
    size_t output_bytes, output_capacity;
    bool is_broken;  // the other side has closed it, or sends what makes no sense
    int error;       // why it is broken: an errno, 0 for an orderly end, or one of the above
} Link;

typedef struct Frame {
    uint32_t kind;
    const unsigned char *data;  // valid until the next call on the link
    size_t bytes;
} Frame;

// Wraps an open socket, which becomes the link's.
void link_open(Link *link, int file);
void link_close(Link *link);
// Reads the bytes that have arrived; afterwards link_next() gives the frames. Sets is_broken at the end.
void link_read(Link *link);
// Takes the next whole frame of at most `maximum` bytes; false if there is none (yet).
bool link_next(Link *link, size_t maximum, Frame *frame);
// Adds a frame to those to be written.
void link_queue(Link *link, uint32_t kind, const void *data, size_t bytes);
// Writes what the socket takes; true if nothing is left.
bool link_flush(Link *link);
// Why it is broken, to follow "the connection" in a message: "was closed", "was reset".
const char *link_reason(const Link *link);

#endif
