#include <string.h>

#include "field.h"

// Unrolled, a product is two loads, a multiplication and an addition; in a loop it would be twice that.
#pragma GCC optimize("O2")

#define MASK 8191
#define HALF 4096
#define FOLD 608  // 2^260 in this field

void field_load(element out, const uint8_t data[32]) {
    uint8_t bytes[33];
    memcpy(bytes, data, 32);
    bytes[32] = 0;
    for (int i = 0; i < 20; i++) {
        int j = (13 * i) >> 3;
        out[i] = ((bytes[j] | bytes[j + 1] << 8 | bytes[j + 2] << 16) >> ((13 * i) & 7)) & MASK;
    }
    out[19] &= 255;  // bit 255 is ignored
}

static int32_t add_and_carry(int32_t w[20], int32_t x) {
    for (int i = 0; i < 20; i++) {
        x += w[i];
        w[i] = x & MASK;
        x >>= 13;
    }
    return x;
}

void field_store(uint8_t out[32], const element a) {
    int32_t w[21];
    memcpy(w, a, sizeof(element));
    int32_t x = 0;
    for (int i = 0; i < 3; i++) {  // a borrow out of the top comes back as -608, which the third pass has settled
        x = add_and_carry(w, FOLD * x);
    }
    for (int i = 0; i < 2; i++) {  // bits from 255 on are worth 19 each
        x = w[19] >> 8;
        w[19] &= 255;
        add_and_carry(w, 19 * x);
    }
    // At p or above exactly where 19 more reach bit 255; then dropping that bit subtracts p.
    x = 19;
    for (int i = 0; i < 19; i++) {
        x = (x + w[i]) >> 13;
    }
    x = (x + w[19]) >> 8;
    add_and_carry(w, 19 * x);
    w[19] &= 255;
    w[20] = 0;
    for (int i = 0; i < 32; i++) {
        int limb = 8 * i / 13, shift = 8 * i % 13;
        out[i] = (uint8_t)(w[limb] >> shift | w[limb + 1] << (13 - shift));
    }
}

void field_copy(element out, const element a) {
    memcpy(out, a, sizeof(element));
}

void field_add(element out, const element a, const element b) {
    for (int i = 0; i < 20; i++) {
        out[i] = a[i] + b[i];
    }
}

void field_subtract(element out, const element a, const element b) {
    for (int i = 0; i < 20; i++) {
        out[i] = a[i] - b[i];
    }
}

// What left the top comes back as 608 times as much at the bottom, and may ripple through two limbs.
static inline void wrap(element out, int32_t x) {
    x = x * FOLD + out[0] + HALF;
    out[0] = (x & MASK) - HALF;
    x = (x >> 13) + out[1] + HALF;
    out[1] = (x & MASK) - HALF;
    out[2] += x >> 13;
}

static inline void carry(element out, const int32_t column[20]) {
    int32_t x = 0;
    for (int i = 0; i < 20; i++) {
        x += column[i] + HALF;
        out[i] = (x & MASK) - HALF;
        x >>= 13;
    }
    wrap(out, x);
}

void field_carry(element a) {
    carry(a, a);
}

void field_add_a24(element out, const element a, const element b) {
    int32_t column[20];
    for (int i = 0; i < 20; i++) {
        column[i] = a[i] + 121665 * b[i];
    }
    carry(out, column);
}

// Columns 20 to 38 first, so that 608 times what they leave fits beside columns 0 to 19.
static void reduce(element out, int32_t column[40]) {
    int32_t x = 0;
    for (int i = 20; i < 39; i++) {
        x += column[i];
        column[i] = x & MASK;
        x >>= 13;
    }
    column[39] = x;
    x = 0;
    for (int i = 0; i < 20; i++) {
        x += column[i] + FOLD * column[20 + i] + HALF;
        out[i] = (x & MASK) - HALF;
        x >>= 13;
    }
    wrap(out, x);
}

void field_multiply(element out, const element a, const element b) {
    int32_t column[40];
    #pragma GCC unroll 39
    for (int k = 0; k < 39; k++) {
        int32_t sum = 0;
        #pragma GCC unroll 20
        for (int i = 0; i < 20; i++) {
            if (i <= k && k - i < 20) {
                sum += a[i] * b[k - i];
            }
        }
        column[k] = sum;
    }
    reduce(out, column);
}

void field_square(element out, const element a) {
    int32_t column[40];
    #pragma GCC unroll 39
    for (int k = 0; k < 39; k++) {
        int32_t sum = 0;
        #pragma GCC unroll 20
        for (int i = 0; i < 20; i++) {
            if (i < k - i && k - i < 20) {
                sum += a[i] * a[k - i];
            }
        }
        sum += sum;
        if (k % 2 == 0) {
            sum += a[k / 2] * a[k / 2];
        }
        column[k] = sum;
    }
    reduce(out, column);
}

void field_square_times(element out, const element a, int count) {
    field_square(out, a);
    while (--count) {
        field_square(out, out);
    }
}

void field_swap(element a, element b, uint32_t bit) {
    int32_t mask = -(int32_t)bit;
    for (int i = 0; i < 20; i++) {
        int32_t difference = (a[i] ^ b[i]) & mask;
        a[i] ^= difference;
        b[i] ^= difference;
    }
}

// b = a^(2^250 - 1), c = a^11 (D. J. Bernstein's chain).
static void power_250(element b, element c, const element a) {
    element d, e;
    field_square(c, a);
    field_square_times(b, c, 2);
    field_multiply(b, a, b);
    field_multiply(c, c, b);
    field_square(d, c);
    field_multiply(b, b, d);
    // From here on b = a^(2^5 - 1), and each line doubles the length or adds what is there.
    field_square_times(d, b, 5);
    field_multiply(b, d, b);
    field_square_times(d, b, 10);
    field_multiply(d, d, b);
    field_square_times(e, d, 20);
    field_multiply(d, e, d);
    field_square_times(d, d, 10);
    field_multiply(b, d, b);
    field_square_times(d, b, 50);
    field_multiply(d, d, b);
    field_square_times(e, d, 100);
    field_multiply(d, e, d);
    field_square_times(d, d, 50);
    field_multiply(b, d, b);
}

void field_invert(element out, const element a) {
    element b, c;
    power_250(b, c, a);
    field_square_times(b, b, 5);
    field_multiply(out, b, c);
}

void field_root_power(element out, const element a) {
    element b, c;
    power_250(b, c, a);
    field_square_times(b, b, 2);
    field_multiply(out, b, a);
}

int field_is_zero(const element a) {
    uint8_t bytes[32], any = 0;
    field_store(bytes, a);
    for (int i = 0; i < 32; i++) {
        any |= bytes[i];
    }
    return any == 0;
}
