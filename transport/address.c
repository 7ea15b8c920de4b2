// SPDX-License-Identifier: Apache-2.0
#include "transport/address.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/base/text.h"

static bool is_loopback(const struct sockaddr_storage *socket) {
    if (socket->ss_family == AF_INET) {
        const struct sockaddr_in *address = (const struct sockaddr_in *)socket;
        return ntohl(address->sin_addr.s_addr) >> 24 == 127;
    }
    return socket->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)socket)->sin6_addr);
}

// Divides the text at the colon before the port; an IPv6 address is in brackets.
static HloStatus divide(const char *text, bool port_is_optional, char *host, size_t capacity, const char **port) {
    const char *begin = text, *end, *rest;
    if (*text == '[') {
        begin = text + 1;
        end = strchr(begin, ']');
        rest = end ? end + 1 : NULL;
    } else {
        end = rest = strchr(text, ':') ? strchr(text, ':') : text + strlen(text);
    }
    const bool has_port = rest && *rest == ':';
    HLO_FAIL_IF(!end || end == begin || (!has_port && (*rest || !port_is_optional)) ||
                    (size_t)(end - begin) >= capacity ||
                    (has_port && (!rest[1] || strspn(rest + 1, "0123456789") != strlen(rest + 1))),
                HLO_INVALID_ARGUMENT, "'%s' is not the address of a process, which is 'host:port'", text);
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = 0;
    *port = has_port ? rest + 1 : "0";
    HLO_FAIL_IF(strlen(*port) > 5 || atoi(*port) > 65535 || (has_port && atoi(*port) == 0), HLO_INVALID_ARGUMENT,
                "'%s' has no port between 1 and 65535", text);
    return HLO_SUCCESS;
}

HloStatus transport_resolve(const char *text, bool port_is_optional, TransportAddress *address) {
    char host[256];
    const char *port = NULL;
    HLO_TRY(divide(text, port_is_optional, host, sizeof host, &port));
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    const int error = getaddrinfo(host, port, &hints, &list);
    HLO_FAIL_IF(error != 0, HLO_NOT_FOUND, "the address '%s' is unknown: %s", text, gai_strerror(error));
    // Of a name with addresses of both kinds the IPv4 one, in all processes.
    const struct addrinfo *chosen = list;
    for (const struct addrinfo *one = list; one && chosen->ai_family != AF_INET; one = one->ai_next)
        if (one->ai_family == AF_INET) chosen = one;
    memset(address, 0, sizeof *address);
    memcpy(&address->socket, chosen->ai_addr, chosen->ai_addrlen);
    address->bytes = chosen->ai_addrlen;
    address->is_loopback = is_loopback(&address->socket);
    freeaddrinfo(list);
    return HLO_SUCCESS;
}

void transport_print_address(const TransportAddress *address, char *text, size_t capacity) {
    char host[INET6_ADDRSTRLEN] = "?", port[8] = "?";
    (void)getnameinfo((const struct sockaddr *)&address->socket, address->bytes, host, sizeof host, port, sizeof port,
                      NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(text, capacity, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

static bool has_same_host(const struct sockaddr *a, const struct sockaddr_storage *b) {
    if (!a || a->sa_family != b->ss_family) return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr == ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    return a->sa_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr, &((const struct sockaddr_in6 *)b)->sin6_addr,
                  sizeof(struct in6_addr)) == 0;
}

// Appends ",NAME:PORT" for each port of each device below `root`.
static void append_rdma(HloText *text, const char *root) {
    DIR *devices = opendir(root);
    for (const struct dirent *device; devices && (device = readdir(devices));) {
        char path[512];
        if (device->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s/ports", root, device->d_name);
        DIR *ports = opendir(path);
        for (const struct dirent *port; ports && (port = readdir(ports));)
            if (port->d_name[0] != '.') hlo_text_format(text, ",%s:%s", device->d_name, port->d_name);
        if (ports) closedir(ports);
    }
    if (devices) closedir(devices);
}

HloStatus transport_find_devices(const TransportAddress *address, char **devices) {
    struct ifaddrs *list = NULL;
    HloText text = {0};
    HLO_FAIL_IF(getifaddrs(&list) != 0, HLO_UNAVAILABLE, "the network interfaces of this machine cannot be listed");
    for (const struct ifaddrs *one = list; one && text.length == 0; one = one->ifa_next)
        if (has_same_host(one->ifa_addr, &address->socket)) hlo_text_string(&text, one->ifa_name);
    freeifaddrs(list);
    if (text.length > 0) append_rdma(&text, "/sys/class/infiniband");
    if (text.failed || text.length == 0) {
        char printed[80];
        const bool failed = text.failed;
        hlo_text_free(&text);
        transport_print_address(address, printed, sizeof printed);
        return failed ? hlo_error(HLO_RESOURCE_EXHAUSTED, "no memory for the names of network devices")
                      : hlo_error(HLO_INVALID_ARGUMENT, "no network interface of this machine has the address %s",
                                  printed);
    }
    *devices = text.data;
    return HLO_SUCCESS;
}
