// SPDX-License-Identifier: Apache-2.0
// Addresses of processes, as "host:port". Not a public header.
#ifndef MESHLO_TRANSPORT_ADDRESS_H_
#define MESHLO_TRANSPORT_ADDRESS_H_

#include <stdbool.h>
#include <sys/socket.h>

#include "hlo/base/status.h"

typedef struct TransportAddress {
    struct sockaddr_storage socket;
    socklen_t bytes;
    bool is_loopback;
} TransportAddress;

// Resolves "host:port", "[IPv6 address]:port" or, with `port_is_optional`, "host" (port 0). Asks the name service,
// which can take seconds.
HloStatus transport_resolve(const char *text, bool port_is_optional, TransportAddress *address);
// Writes an address as "host:port" with a numeric host.
void transport_print_address(const TransportAddress *address, char *text, size_t capacity);
// Returns the name of the network device that has this address, with the devices for RDMA of this machine:
// "eth0,mlx5_0:1". To be freed with hlo_free().
HloStatus transport_find_devices(const TransportAddress *address, char **devices);

#endif
