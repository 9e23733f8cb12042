// Salsa20, Poly1305, SHA-512 and scalars modulo L, the order of Ed25519's base point.

#ifndef TWEETNACL_SYMMETRIC_H
#define TWEETNACL_SYMMETRIC_H

#include <stddef.h>
#include <stdint.h>

void salsa20_xor(uint8_t *data, size_t length, size_t skipped, const uint8_t nonce[8], const uint8_t key[32]);
void hsalsa20(uint8_t out[32], const uint8_t key[32], const uint8_t block[16]);
void onetimeauth(uint8_t tag[16], const uint8_t *message, size_t length, const uint8_t key[32]);

typedef struct {
    uint64_t state[8];
    uint64_t length;
    uint8_t block[128];
} sha512;

void sha512_start(sha512 *hash);
void sha512_add(sha512 *hash, const uint8_t *data, size_t length);
void sha512_finish(sha512 *hash, uint8_t out[64]);

void scalar_reduce(uint8_t out[32], const uint8_t in[64]);
void scalar_multiply_add(uint8_t out[32], const uint8_t a[32], const uint8_t b[32], const uint8_t c[32]);
int scalar_is_canonical(const uint8_t s[32]);  // for public scalars

#endif
