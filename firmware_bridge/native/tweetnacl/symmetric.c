#include <string.h>

#include "symmetric.h"

#pragma GCC optimize("O2")

// Salsa20 (D. J. Bernstein)

static uint32_t load_32(const uint8_t *data) {
    return data[0] | data[1] << 8 | data[2] << 16 | (uint32_t)data[3] << 24;
}

static void store_32(uint8_t *out, uint32_t x) {
    for (int i = 0; i < 4; i++) {
        out[i] = (uint8_t)(x >> 8 * i);
    }
}

static inline uint32_t rotate_32(uint32_t x, int n) {
    return x << n | x >> (32 - n);
}

static void salsa20_input(uint32_t x[16], const uint8_t key[32], const uint8_t block[16]) {
    static const uint8_t sigma[] = "expand 32-byte k";
    for (int i = 0; i < 4; i++) {
        x[5 * i] = load_32(sigma + 4 * i);
        x[1 + i] = load_32(key + 4 * i);
        x[6 + i] = load_32(block + 4 * i);
        x[11 + i] = load_32(key + 16 + 4 * i);
    }
}

static void salsa20_rounds(uint32_t x[16]) {
    // Where a quarter-round's four words stand: four columns, then four rows.
    static const uint8_t quarters[8][4] = {
        {0, 4, 8, 12}, {5, 9, 13, 1}, {10, 14, 2, 6}, {15, 3, 7, 11},
        {0, 1, 2, 3}, {5, 6, 7, 4}, {10, 11, 8, 9}, {15, 12, 13, 14},
    };
    for (int i = 0; i < 10; i++) {
        for (int j = 0; j < 8; j++) {
            const uint8_t *q = quarters[j];
            uint32_t a = x[q[0]], b = x[q[1]], c = x[q[2]], d = x[q[3]];
            b ^= rotate_32(a + d, 7);
            c ^= rotate_32(b + a, 9);
            d ^= rotate_32(c + b, 13);
            a ^= rotate_32(d + c, 18);
            x[q[0]] = a;
            x[q[1]] = b;
            x[q[2]] = c;
            x[q[3]] = d;
        }
    }
}

void hsalsa20(uint8_t out[32], const uint8_t key[32], const uint8_t block[16]) {
    uint32_t x[16];
    salsa20_input(x, key, block);
    salsa20_rounds(x);
    for (int i = 0; i < 4; i++) {
        store_32(out + 4 * i, x[5 * i]);
        store_32(out + 16 + 4 * i, x[6 + i]);
    }
}

// The stream's first `skipped` bytes, 32 or none, are left out.
void salsa20_xor(uint8_t *data, size_t length, size_t skipped, const uint8_t nonce[8], const uint8_t key[32]) {
    uint8_t block[16] = {0};
    memcpy(block, nonce, 8);
    uint32_t start[16], x[16];
    salsa20_input(start, key, block);
    for (size_t at = 0; at < length; start[8]++) {
        memcpy(x, start, sizeof(x));
        salsa20_rounds(x);
        for (size_t i = skipped; i < 64 && at < length; i++) {
            data[at++] ^= (uint8_t)((x[i >> 2] + start[i >> 2]) >> (8 * (i & 3)));
        }
        skipped = 0;
    }
}

// Poly1305 (D. J. Bernstein) with ten limbs of 13 bits

static void poly1305_load(uint32_t limbs[10], const uint8_t block[17]) {
    for (int i = 0; i < 10; i++) {
        int j = (13 * i) >> 3;
        uint32_t third = j + 2 < 17 ? block[j + 2] : 0;
        limbs[i] = ((block[j] | block[j + 1] << 8 | third << 16) >> ((13 * i) & 7)) & 8191;
    }
}

void onetimeauth(uint8_t tag[16], const uint8_t *message, size_t length, const uint8_t key[32]) {
    uint8_t block[17] = {0};
    uint32_t r[20], h[11] = {0}, m[10];
    memcpy(block, key, 16);
    for (int i = 3; i < 16; i += 4) {
        block[i] &= 15;
    }
    for (int i = 4; i < 16; i += 4) {
        block[i] &= 252;
    }
    poly1305_load(r + 10, block);
    for (int i = 0; i < 10; i++) {
        r[i] = 5 * r[10 + i];  // 2^130 is 5 in this field
    }
    while (length) {
        size_t n = length < 16 ? length : 16;
        memset(block, 0, sizeof(block));
        memcpy(block, message, n);
        block[n] = 1;
        message += n;
        length -= n;
        poly1305_load(m, block);
        for (int i = 0; i < 10; i++) {
            m[i] += h[i];
        }
        uint32_t x = 0;
        for (int k = 0; k < 10; k++) {
            // Ten products below 2^14.1 * 5 * 2^13 sum to less than 2^32.
            #pragma GCC unroll 10
            for (int i = 0; i < 10; i++) {
                x += m[i] * r[10 + k - i];
            }
            h[k] = x & 8191;
            x >>= 13;
        }
        x = 5 * x + h[0];
        h[0] = x & 8191;
        h[1] += x >> 13;
    }
    uint32_t g[10], x = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < 10; i++) {
            x += h[i];
            h[i] = x & 8191;
            x >>= 13;
        }
        x *= 5;
    }
    h[0] += x;
    x = 5;
    for (int i = 0; i < 10; i++) {  // h + 5 reaches 2^130 exactly where h is p or above
        x += h[i];
        g[i] = x & 8191;
        x >>= 13;
    }
    uint32_t mask = -x;
    for (int i = 0; i < 10; i++) {
        h[i] = (g[i] & mask) | (h[i] & ~mask);
    }
    x = 0;
    for (int i = 0; i < 16; i++) {
        int limb = 8 * i / 13, shift = 8 * i % 13;
        x += (uint8_t)(h[limb] >> shift | h[limb + 1] << (13 - shift));
        x += key[16 + i];
        tag[i] = (uint8_t)x;
        x >>= 8;
    }
}

// SHA-512 (FIPS 180-4)

static const uint64_t CONSTANTS[80] = {
    0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc,
    0x3956c25bf348b538, 0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118,
    0xd807aa98a3030242, 0x12835b0145706fbe, 0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2,
    0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235, 0xc19bf174cf692694,
    0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
    0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5,
    0x983e5152ee66dfab, 0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4,
    0xc6e00bf33da88fc2, 0xd5a79147930aa725, 0x06ca6351e003826f, 0x142929670a0e6e70,
    0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed, 0x53380d139d95b3df,
    0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
    0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30,
    0xd192e819d6ef5218, 0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8,
    0x19a4c116b8d2d0c8, 0x1e376c085141ab53, 0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8,
    0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373, 0x682e6ff3d6b2b8a3,
    0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
    0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b,
    0xca273eceea26619c, 0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178,
    0x06f067aa72176fba, 0x0a637dc5a2c898a6, 0x113f9804bef90dae, 0x1b710b35131c471b,
    0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc, 0x431d67c49c100d4c,
    0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
};
static const uint64_t INITIAL[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};

static uint64_t rotate_64(uint64_t x, int n) {
    return x >> n | x << (64 - n);
}

static void sha512_block(uint64_t state[8], const uint8_t block[128]) {
    uint64_t w[16], s[8];
    for (int i = 0; i < 16; i++) {
        w[i] = 0;
        for (int j = 0; j < 8; j++) {
            w[i] = w[i] << 8 | block[8 * i + j];
        }
    }
    memcpy(s, state, sizeof(s));
    for (int i = 0; i < 80; i++) {
        if (i >= 16) {
            uint64_t x = w[(i + 1) & 15], y = w[(i + 14) & 15];
            w[i & 15] += (rotate_64(x, 1) ^ rotate_64(x, 8) ^ x >> 7) + w[(i + 9) & 15]
                + (rotate_64(y, 19) ^ rotate_64(y, 61) ^ y >> 6);
        }
        uint64_t t = s[7] + (rotate_64(s[4], 14) ^ rotate_64(s[4], 18) ^ rotate_64(s[4], 41))
            + (s[6] ^ (s[4] & (s[5] ^ s[6]))) + CONSTANTS[i] + w[i & 15];
        uint64_t u = (rotate_64(s[0], 28) ^ rotate_64(s[0], 34) ^ rotate_64(s[0], 39))
            + ((s[0] & s[1]) | (s[2] & (s[0] | s[1])));
        memmove(s + 1, s, 7 * sizeof(s[0]));
        s[4] += t;
        s[0] = t + u;
    }
    for (int i = 0; i < 8; i++) {
        state[i] += s[i];
    }
}

void sha512_start(sha512 *hash) {
    memcpy(hash->state, INITIAL, sizeof(INITIAL));
    hash->length = 0;
}

void sha512_add(sha512 *hash, const uint8_t *data, size_t length) {
    while (length) {
        size_t at = hash->length & 127;
        size_t n = length < 128 - at ? length : 128 - at;
        memcpy(hash->block + at, data, n);
        hash->length += n;
        data += n;
        length -= n;
        if (at + n == 128) {
            sha512_block(hash->state, hash->block);
        }
    }
}

void sha512_finish(sha512 *hash, uint8_t out[64]) {
    static const uint8_t padding[128] = {0x80};
    uint64_t bits = 8 * hash->length;
    uint8_t length[16] = {0};
    for (int i = 0; i < 8; i++) {
        length[15 - i] = (uint8_t)(bits >> 8 * i);
    }
    sha512_add(hash, padding, 1 + ((111 - hash->length) & 127));
    sha512_add(hash, length, 16);
    for (int i = 0; i < 64; i++) {
        out[i] = (uint8_t)(hash->state[i >> 3] >> (56 - 8 * (i & 7)));
    }
}

// Scalars modulo L = 2^252 + 27742317777372353535851937790883648493, after TweetNaCl's `modL`; its 64-bit words are not
// needed for what comes here, which stays below 2^22 in each.

static const uint8_t L[32] = {
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
};

static void modulo_l(uint8_t out[32], int32_t x[64]) {
    int32_t carry = 0;
    for (int i = 0; i < 63; i++) {
        carry += x[i];
        x[i] = carry & 255;
        carry >>= 8;
    }
    x[63] += carry;
    for (int i = 63; i >= 32; i--) {
        carry = 0;
        for (int j = i - 32; j < i - 12; j++) {
            int32_t t = x[j] + carry - 16 * x[i] * L[j - (i - 32)];
            carry = (t + 128) >> 8;
            x[j] = t - carry * 256;
        }
        x[i - 12] += carry;
        x[i] = 0;
    }
    carry = 0;
    int32_t top = x[31] >> 4;
    for (int j = 0; j < 32; j++) {
        carry += x[j] - top * L[j];
        x[j] = carry & 255;
        carry >>= 8;
    }
    for (int j = 0; j < 32; j++) {
        x[j] -= carry * L[j];
    }
    for (int i = 0; i < 31; i++) {
        x[i + 1] += x[i] >> 8;
        out[i] = (uint8_t)x[i];
    }
    out[31] = (uint8_t)x[31];
}

void scalar_multiply_add(uint8_t out[32], const uint8_t a[32], const uint8_t b[32], const uint8_t c[32]) {
    int32_t x[64] = {0};
    for (int i = 0; i < 32; i++) {
        x[i] += c[i];
        for (int j = 0; j < 32; j++) {
            x[i + j] += a[i] * b[j];
        }
    }
    modulo_l(out, x);
}

void scalar_reduce(uint8_t out[32], const uint8_t in[64]) {
    static const uint8_t r[32] = {  // 2^256 modulo L
        0x1d, 0x95, 0x98, 0x8d, 0x74, 0x31, 0xec, 0xd6, 0x70, 0xcf, 0x7d, 0x73, 0xf4, 0x5b, 0xef, 0xc6,
        0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f,
    };
    scalar_multiply_add(out, in + 32, r, in);
}

int scalar_is_canonical(const uint8_t s[32]) {
    for (int i = 31; i >= 0; i--) {
        if (s[i] != L[i]) {
            return s[i] < L[i];
        }
    }
    return 0;
}
