// SPDX-License-Identifier: Apache-2.0
// Proofs that a process knows the shared secret: HMAC-SHA256 by libnettle, opened when it is needed. Not a public
// header.
#ifndef MESHLO_TRANSPORT_SECRET_H_
#define MESHLO_TRANSPORT_SECRET_H_

#include <stdbool.h>
#include <stddef.h>

#include "hlo/base/status.h"

enum { TRANSPORT_NONCE_BYTES = 32, TRANSPORT_PROOF_BYTES = 32 };

// UNIMPLEMENTED in a build without libnettle, or where the library is missing.
HloStatus transport_check_secrets(void);
// Fills `nonce` with random bytes of the system.
HloStatus transport_make_nonce(unsigned char nonce[TRANSPORT_NONCE_BYTES]);
// Computes the proof over `bytes` bytes at `text`. transport_check_secrets() has succeeded.
void transport_prove(const char *secret, const void *text, size_t bytes, unsigned char proof[TRANSPORT_PROOF_BYTES]);
// Compares two proofs in a time that does not depend on them.
bool transport_same_proof(const unsigned char a[TRANSPORT_PROOF_BYTES], const unsigned char b[TRANSPORT_PROOF_BYTES]);

#endif
