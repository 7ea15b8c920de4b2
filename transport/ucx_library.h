// SPDX-License-Identifier: Apache-2.0
// libucp, opened at the first join, so that neither the library nor the plugin needs it to load. Only for builds with
// UCX (MESHLO_UCX). Not a public header.
#ifndef MESHLO_TRANSPORT_UCX_LIBRARY_H_
#define MESHLO_TRANSPORT_UCX_LIBRARY_H_

#include <ucp/api/ucp.h>

#include "hlo/base/status.h"

// The functions that the transport calls.
#define UCX_FUNCTIONS(F)              \
    F(ucp_get_version)                \
    F(ucp_get_version_string)         \
    F(ucp_config_read)                \
    F(ucp_config_modify)              \
    F(ucp_config_release)             \
    F(ucp_init_version)               \
    F(ucp_cleanup)                    \
    F(ucp_worker_create)              \
    F(ucp_worker_destroy)             \
    F(ucp_worker_get_address)         \
    F(ucp_worker_release_address)     \
    F(ucp_worker_get_efd)             \
    F(ucp_worker_arm)                 \
    F(ucp_worker_progress)            \
    F(ucp_worker_set_am_recv_handler) \
    F(ucp_ep_create)                  \
    F(ucp_ep_close_nbx)               \
    F(ucp_am_send_nbx)                \
    F(ucp_tag_send_nbx)               \
    F(ucp_tag_recv_nbx)               \
    F(ucp_request_cancel)             \
    F(ucp_request_free)               \
    F(ucs_status_string)

typedef struct UcxLibrary {
#define UCX_MEMBER(name) __typeof__(&name) name;
    UCX_FUNCTIONS(UCX_MEMBER)
#undef UCX_MEMBER
} UcxLibrary;

// Opens the library, once in a process: sets *library, which stays valid for good. The dispositions of signals are as
// before, the C library's code is not
// changed, and no message is printed.
HloStatus ucx_library_open(const UcxLibrary **library);

#endif
