// SPDX-License-Identifier: Apache-2.0
#include "tests/support/hosts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/compiled.h"

void hosts_new(Hosts *hosts, int64_t count, int64_t devices, HostsOrder order, int threads, double timeout) {
    int64_t processes[64];
    char spec[32];
    snprintf(spec, sizeof spec, "cpu:%d", (int)devices);
    for (int64_t d = 0; d < devices; d++) processes[d] = order == HOSTS_IN_ROWS ? d * count / devices : d % count;
    *hosts = (Hosts){.count = count};
    must_succeed(transport_in_process(count, hosts->transports));
    for (int64_t p = 0; p < count; p++) {
        const TargetConnectOptions options = {processes, timeout};
        must_succeed(target_client_new_with_threads(spec, threads, &hosts->clients[p]));
        must_succeed(target_client_connect(hosts->clients[p], hosts->transports[p], &options));
    }
}

void hosts_free(Hosts *hosts) {
    for (int64_t p = 0; p < hosts->count; p++) target_client_release(hosts->clients[p]);
}

typedef struct HostCall {
    Hosts *hosts;
    int64_t process;
    HostFunction *function;
    void *context;
} HostCall;

static void *host_main(void *argument) {
    const HostCall *call = argument;
    call->function(call->hosts, call->process, call->context);
    return NULL;
}

void hosts_run(Hosts *hosts, HostFunction *function, void *context) {
    pthread_t threads[kMostHosts];
    HostCall calls[kMostHosts];
    for (int64_t p = 0; p < hosts->count; p++) {
        calls[p] = (HostCall){hosts, p, function, context};
        if (pthread_create(&threads[p], NULL, host_main, &calls[p]) != 0) {
            perror("pthread_create");
            _Exit(1);
        }
    }
    for (int64_t p = 0; p < hosts->count; p++) pthread_join(threads[p], NULL);
}
