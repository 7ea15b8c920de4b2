// SPDX-License-Identifier: Apache-2.0
#include "transport/secret.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

HloStatus transport_make_nonce(unsigned char nonce[TRANSPORT_NONCE_BYTES]) {
    HLO_FAIL_IF(getrandom(nonce, TRANSPORT_NONCE_BYTES, 0) != TRANSPORT_NONCE_BYTES, HLO_UNAVAILABLE,
                "the system has no random bytes: %s", strerror(errno));
    return HLO_SUCCESS;
}

bool transport_same_proof(const unsigned char a[TRANSPORT_PROOF_BYTES], const unsigned char b[TRANSPORT_PROOF_BYTES]) {
    volatile unsigned char different = 0;
    for (int i = 0; i < TRANSPORT_PROOF_BYTES; i++) different |= a[i] ^ b[i];
    return different == 0;
}

#ifdef MESHLO_NETTLE

#include <dlfcn.h>
#include <nettle/hmac.h>
#include <pthread.h>

// nettle's functions, and whether they are there; written once.
static struct {
    __typeof__(&nettle_hmac_sha256_set_key) set_key;
    __typeof__(&nettle_hmac_sha256_update) update;
    __typeof__(&nettle_hmac_sha256_digest) digest;
    bool is_there;
} nettle;

static void open_once(void) {
    // The number is that of the interface with which this file was compiled.
    void *handle = dlopen("libnettle.so.8", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) return;
    void *set_key = dlsym(handle, "nettle_hmac_sha256_set_key");
    void *update = dlsym(handle, "nettle_hmac_sha256_update");
    void *digest = dlsym(handle, "nettle_hmac_sha256_digest");
    memcpy(&nettle.set_key, &set_key, sizeof set_key);
    memcpy(&nettle.update, &update, sizeof update);
    memcpy(&nettle.digest, &digest, sizeof digest);
    nettle.is_there = set_key && update && digest;
}

HloStatus transport_check_secrets(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
    HLO_FAIL_IF(
        !nettle.is_there, HLO_UNIMPLEMENTED,
        "libnettle.so.8 (Debian: libnettle8), with which processes prove that they know the secret, is missing");
    return HLO_SUCCESS;
}

void transport_prove(const char *secret, const void *text, size_t bytes, unsigned char proof[TRANSPORT_PROOF_BYTES]) {
    struct hmac_sha256_ctx context;
    nettle.set_key(&context, strlen(secret), (const uint8_t *)secret);
    nettle.update(&context, bytes, text);
    nettle.digest(&context, TRANSPORT_PROOF_BYTES, proof);
    explicit_bzero(&context, sizeof context);
}

#else

HloStatus transport_check_secrets(void) {
    return hlo_error(HLO_UNIMPLEMENTED,
                     "this build has no libnettle (nettle-dev), with which processes prove that they know the secret");
}

void transport_prove(const char *secret, const void *text, size_t bytes, unsigned char proof[TRANSPORT_PROOF_BYTES]) {
    (void)secret;
    (void)text;
    (void)bytes;
    memset(proof, 0, TRANSPORT_PROOF_BYTES);  // not reached: the check fails
}

#endif
