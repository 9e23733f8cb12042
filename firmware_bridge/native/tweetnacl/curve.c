#include <string.h>

#include "comb.h"
#include "curve.h"
#include "field.h"

// "Twisted Edwards Curves Revisited" (Hisil and others, 2008): these formulas hold for all points.
typedef struct {
    element x, y, z, t;
} point;

// What is added to a point: y + x, y - x, 2 d x y of a point with z = 1.
typedef struct {
    element plus, minus, product;
} addend;

static const uint8_t D[32] = {
    0xa3, 0x78, 0x59, 0x13, 0xca, 0x4d, 0xeb, 0x75, 0xab, 0xd8, 0x41, 0x41, 0x4d, 0x0a, 0x70, 0x00,
    0x98, 0xe8, 0x79, 0x77, 0x79, 0x40, 0xc7, 0x8c, 0x73, 0xfe, 0x6f, 0x2b, 0xee, 0x6c, 0x03, 0x52,
};
static const uint8_t SQRT_M1[32] = {
    0xb0, 0xa0, 0x0e, 0x4a, 0x27, 0x1b, 0xee, 0xc4, 0x78, 0xe4, 0x2f, 0xad, 0x06, 0x18, 0x43, 0x2f,
    0xa7, 0xd7, 0xfb, 0x3d, 0x99, 0x00, 0x4d, 0x2b, 0x0b, 0xdf, 0xc1, 0x4f, 0x80, 0x24, 0x83, 0x2b,
};

static void set_small(element out, int32_t value) {
    memset(out, 0, sizeof(element));
    out[0] = value;
}

void curve_scalarmult(uint8_t out[32], const uint8_t n[32], const uint8_t p[32]) {
    element x1, x2, z2, x3, z3, a, b, c, d;
    field_load(x1, p);
    field_copy(x3, x1);
    set_small(x2, 1);
    set_small(z2, 0);
    set_small(z3, 1);
    uint32_t swapped = 0;
    for (int i = 254; i >= 0; i--) {
        // Clamping: bit 254 is set, bits 0 to 2 are not. These conditions are public.
        uint32_t bit = i == 254 ? 1 : i < 3 ? 0 : (n[i >> 3] >> (i & 7)) & 1;
        field_swap(x2, x3, swapped ^ bit);
        field_swap(z2, z3, swapped ^ bit);
        swapped = bit;
        field_add(a, x2, z2);
        field_subtract(b, x2, z2);
        field_add(c, x3, z3);
        field_subtract(d, x3, z3);
        field_multiply(d, d, a);
        field_multiply(c, c, b);
        field_add(x3, d, c);
        field_subtract(z3, d, c);
        field_square(x3, x3);
        field_square(z3, z3);
        field_multiply(z3, z3, x1);
        field_square(a, a);
        field_square(b, b);
        field_multiply(x2, a, b);
        field_subtract(b, a, b);
        field_add_a24(a, a, b);
        field_multiply(z2, b, a);
    }
    field_swap(x2, x3, swapped);
    field_swap(z2, z3, swapped);
    field_invert(z2, z2);
    field_multiply(x2, x2, z2);
    field_store(out, x2);
}

static void set_identity(point *p) {
    set_small(p->x, 0);
    set_small(p->y, 1);
    set_small(p->z, 1);
    set_small(p->t, 0);
}

static void from_four(point *p, const element e, const element f, const element g, const element h) {
    field_multiply(p->x, e, f);
    field_multiply(p->y, g, h);
    field_multiply(p->z, f, g);
    field_multiply(p->t, e, h);
}

static void double_point(point *p) {
    element a, b, e, f, g, h;
    field_add(e, p->x, p->y);
    field_square(e, e);
    field_square(a, p->x);
    field_square(b, p->y);
    field_square(f, p->z);
    field_add(f, f, f);
    field_add(h, a, b);
    field_subtract(g, a, b);
    field_subtract(e, h, e);
    field_carry(e);
    field_add(f, f, g);
    field_carry(f);
    from_four(p, e, f, g, h);
}

static void add_point(point *p, const addend *q) {
    element a, b, c, d, e;
    field_subtract(a, p->y, p->x);
    field_multiply(a, a, q->minus);
    field_add(b, p->y, p->x);
    field_multiply(b, b, q->plus);
    field_multiply(c, p->t, q->product);
    field_add(d, p->z, p->z);
    field_carry(d);
    field_subtract(e, b, a);
    field_add(b, b, a);
    field_subtract(a, d, c);
    field_add(d, d, c);
    from_four(p, e, a, d, b);
}

// Add the table's entry for the four bits of a scalar that stand 64 apart (Lim and Lee, 1994), reading all entries.
static void add_comb_column(point *p, const uint8_t scalar[32], int column) {
    uint32_t wanted = 0;
    for (int tooth = 0; tooth < 4; tooth++) {
        wanted |= ((scalar[(column >> 3) + 8 * tooth] >> (column & 7)) & 1u) << tooth;
    }
    uint8_t entry[96] = {[0] = 1, [32] = 1};  // of the identity, which no row of the table is
    uint8_t mask = (uint8_t)((wanted - 1) >> 24);
    for (int i = 0; i < 96; i++) {
        entry[i] &= mask;
    }
    for (uint32_t j = 1; j < 16; j++) {
        mask = (uint8_t)(((j ^ wanted) - 1) >> 24);
        for (int i = 0; i < 96; i++) {
            entry[i] |= COMB[j - 1][i] & mask;
        }
    }
    addend q;
    field_load(q.plus, entry);
    field_load(q.minus, entry + 32);
    field_load(q.product, entry + 64);
    add_point(p, &q);
}

static void base_point_times(point *p, const uint8_t scalar[32]) {
    set_identity(p);
    for (int column = 63; column >= 0; column--) {
        double_point(p);
        add_comb_column(p, scalar, column);
    }
}

static void encode(uint8_t out[32], const point *p) {
    element inverse, a;
    uint8_t x[32];
    field_invert(inverse, p->z);
    field_multiply(a, p->x, inverse);
    field_store(x, a);
    field_multiply(a, p->y, inverse);
    field_store(out, a);
    out[31] |= (uint8_t)(x[0] << 7);
}

void curve_base_edwards(uint8_t out[32], const uint8_t scalar[32]) {
    point p;
    base_point_times(&p, scalar);
    encode(out, &p);
}

void curve_base_montgomery(uint8_t out[32], const uint8_t scalar[32]) {
    point p;
    element a, b;
    base_point_times(&p, scalar);
    field_subtract(a, p.z, p.y);
    field_invert(a, a);
    field_add(b, p.z, p.y);
    field_multiply(a, a, b);
    field_store(out, a);
}

// Verification: public data.

static int decode(point *p, const uint8_t public[32]) {
    element d, u, v, v3, root, a;
    uint8_t bytes[32];
    set_identity(p);
    field_load(p->y, public);
    field_store(bytes, p->y);
    if (memcmp(bytes, public, 31) != 0 || bytes[31] != (public[31] & 127)) {
        return 0;  // not canonical
    }
    field_load(d, D);
    // u = y^2 - 1, v = d y^2 + 1, x = u v^3 (u v^7)^((p - 5) / 8) (RFC 8032, section 5.1.3)
    field_square(u, p->y);
    field_multiply(v, u, d);
    v[0] += 1;
    u[0] -= 1;
    field_square(v3, v);
    field_multiply(v3, v3, v);
    field_square(a, v3);
    field_multiply(a, a, v);
    field_multiply(a, a, u);
    field_root_power(root, a);
    field_multiply(p->x, v3, u);
    field_multiply(p->x, p->x, root);
    field_square(a, p->x);
    field_multiply(a, a, v);
    element sum, difference;
    field_add(sum, a, u);
    field_subtract(difference, a, u);
    if (field_is_zero(sum)) {
        field_load(d, SQRT_M1);
        field_multiply(p->x, p->x, d);
    } else if (!field_is_zero(difference)) {
        return 0;
    }
    field_store(bytes, p->x);
    if ((bytes[0] & 1) != public[31] >> 7) {
        set_small(a, 0);
        field_subtract(p->x, a, p->x);
    }
    field_carry(p->y);  // doubling sums it
    field_multiply(p->t, p->x, p->y);
    return 1;
}

// Eight times a point of small order is the identity, the only multiple of 8 with x = 0.
static int small_order(point p) {
    double_point(&p);
    double_point(&p);
    double_point(&p);
    return field_is_zero(p.x);
}

int curve_verification_point(uint8_t out[32], const uint8_t public[32], const uint8_t s[32], const uint8_t h[32]) {
    point p;
    if (!decode(&p, public) || small_order(p)) {
        return 0;
    }
    addend minus;  // -A
    element d;
    field_subtract(minus.plus, p.y, p.x);
    field_carry(minus.plus);
    field_add(minus.minus, p.y, p.x);
    field_carry(minus.minus);
    field_load(d, D);
    field_multiply(d, p.t, d);
    field_add(d, d, d);
    set_small(minus.product, 0);
    field_subtract(minus.product, minus.product, d);
    field_carry(minus.product);
    set_identity(&p);
    for (int i = 252; i >= 0; i--) {
        double_point(&p);
        if ((h[i >> 3] >> (i & 7)) & 1) {
            add_point(&p, &minus);
        }
        if (i < 64) {
            add_comb_column(&p, s, i);
        }
    }
    if (small_order(p)) {
        return 0;
    }
    encode(out, &p);
    return 1;
}
