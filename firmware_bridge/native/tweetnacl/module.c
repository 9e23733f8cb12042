// `_tweetnacl`: what ../../covey_boards/shared/tweetnacl.py asks of a native module, with the arguments, results and
// refusals of tweetnacl_soft.py. That module has checked all lengths but those of messages.

#include <string.h>

#include "py/obj.h"
#include "py/runtime.h"

#include "curve.h"
#include "symmetric.h"

typedef struct {
    const uint8_t *data;
    size_t length;
} span;

static span bytes_of(mp_obj_t object) {
    mp_buffer_info_t buffer;
    mp_get_buffer_raise(object, &buffer, MP_BUFFER_READ);
    return (span) {buffer.buf, buffer.len};
}

static const uint8_t *exactly(mp_obj_t object, size_t length) {
    span given = bytes_of(object);
    if (given.length != length) {
        mp_raise_ValueError(NULL);
    }
    return given.data;
}

static mp_obj_t new_32(const uint8_t data[32]) {
    return mp_obj_new_bytes(data, 32);
}

// In time that does not depend on where they differ.
static int equal(const uint8_t *x, const uint8_t *y, size_t length) {
    uint8_t difference = 0;
    for (size_t i = 0; i < length; i++) {
        difference |= x[i] ^ y[i];
    }
    return difference == 0;
}

static void clamp(uint8_t out[32], const uint8_t n[32]) {
    memcpy(out, n, 32);
    out[0] &= 248;
    out[31] = (out[31] & 127) | 64;
}

static mp_obj_t verify(mp_obj_t x, mp_obj_t y) {
    span a = bytes_of(x);
    return mp_obj_new_bool(equal(a.data, exactly(y, a.length), a.length));
}
static MP_DEFINE_CONST_FUN_OBJ_2(verify_object, verify);

// X25519

static mp_obj_t scalarmult(mp_obj_t n, mp_obj_t p) {
    uint8_t out[32];
    curve_scalarmult(out, exactly(n, 32), exactly(p, 32));
    return new_32(out);
}
static MP_DEFINE_CONST_FUN_OBJ_2(scalarmult_object, scalarmult);

static mp_obj_t scalarmult_base(mp_obj_t n) {
    uint8_t clamped[32], out[32];
    clamp(clamped, exactly(n, 32));
    curve_base_montgomery(out, clamped);
    return new_32(out);
}
static MP_DEFINE_CONST_FUN_OBJ_1(scalarmult_base_object, scalarmult_base);

static const uint8_t ZEROS[32];

static mp_obj_t box_beforenm(mp_obj_t public, mp_obj_t secret) {
    uint8_t shared[32], key[32];
    curve_scalarmult(shared, exactly(secret, 32), exactly(public, 32));
    if (equal(shared, ZEROS, 32)) {
        return mp_const_none;
    }
    hsalsa20(key, shared, ZEROS);
    return new_32(key);
}
static MP_DEFINE_CONST_FUN_OBJ_2(box_beforenm_object, box_beforenm);

// XSalsa20-Poly1305

static void xsalsa20_xor(uint8_t *data, size_t length, size_t skipped, const uint8_t nonce[24], const uint8_t key[32]) {
    uint8_t derived[32];
    hsalsa20(derived, key, nonce);
    salsa20_xor(data, length, skipped, nonce + 16, derived);
}

static mp_obj_t stream_xor(mp_obj_t message, mp_obj_t nonce, mp_obj_t key) {
    span data = bytes_of(message);
    vstr_t out;
    vstr_init_len(&out, data.length);
    memcpy(out.buf, data.data, data.length);
    xsalsa20_xor((uint8_t *)out.buf, data.length, 0, exactly(nonce, 24), exactly(key, 32));
    return mp_obj_new_bytes_from_vstr(&out);
}
static MP_DEFINE_CONST_FUN_OBJ_3(stream_xor_object, stream_xor);

static mp_obj_t one_time(mp_obj_t message, mp_obj_t key) {
    span data = bytes_of(message);
    uint8_t tag[16];
    onetimeauth(tag, data.data, data.length, exactly(key, 32));
    return mp_obj_new_bytes(tag, 16);
}
static MP_DEFINE_CONST_FUN_OBJ_2(onetimeauth_object, one_time);

static mp_obj_t secretbox(mp_obj_t message, mp_obj_t nonce, mp_obj_t key) {
    span data = bytes_of(message);
    const uint8_t *n = exactly(nonce, 24), *k = exactly(key, 32);
    uint8_t first[32] = {0};
    xsalsa20_xor(first, 32, 0, n, k);
    vstr_t out;
    vstr_init_len(&out, 16 + data.length);
    uint8_t *box = (uint8_t *)out.buf;
    memcpy(box + 16, data.data, data.length);
    xsalsa20_xor(box + 16, data.length, 32, n, k);
    onetimeauth(box, box + 16, data.length, first);
    return mp_obj_new_bytes_from_vstr(&out);
}
static MP_DEFINE_CONST_FUN_OBJ_3(secretbox_object, secretbox);

static mp_obj_t secretbox_open(mp_obj_t box, mp_obj_t nonce, mp_obj_t key) {
    span data = bytes_of(box);
    const uint8_t *n = exactly(nonce, 24), *k = exactly(key, 32);
    if (data.length < 16) {
        return mp_const_none;
    }
    uint8_t first[32] = {0}, tag[16];
    xsalsa20_xor(first, 32, 0, n, k);
    size_t length = data.length - 16;
    onetimeauth(tag, data.data + 16, length, first);
    if (!equal(tag, data.data, 16)) {
        return mp_const_none;
    }
    vstr_t out;
    vstr_init_len(&out, length);
    memcpy(out.buf, data.data + 16, length);
    xsalsa20_xor((uint8_t *)out.buf, length, 32, n, k);
    return mp_obj_new_bytes_from_vstr(&out);
}
static MP_DEFINE_CONST_FUN_OBJ_3(secretbox_open_object, secretbox_open);

// SHA-512 and Ed25519

static void hash_of(uint8_t out[64], const span *parts, size_t count) {
    sha512 hash;
    sha512_start(&hash);
    for (size_t i = 0; i < count; i++) {
        sha512_add(&hash, parts[i].data, parts[i].length);
    }
    sha512_finish(&hash, out);
}

static mp_obj_t sha512_of_parts(size_t count, const mp_obj_t *parts) {
    sha512 hash;
    uint8_t out[64];
    sha512_start(&hash);
    for (size_t i = 0; i < count; i++) {
        span part = bytes_of(parts[i]);
        sha512_add(&hash, part.data, part.length);
    }
    sha512_finish(&hash, out);
    return mp_obj_new_bytes(out, 64);
}
static MP_DEFINE_CONST_FUN_OBJ_VAR(sha512_object, 0, sha512_of_parts);

static mp_obj_t sign_seed_keypair(mp_obj_t seed) {
    uint8_t expanded[64], secret[64];
    memcpy(secret, exactly(seed, 32), 32);
    hash_of(expanded, &(span) {secret, 32}, 1);
    clamp(expanded, expanded);
    curve_base_edwards(secret + 32, expanded);
    mp_obj_t pair[] = {new_32(secret + 32), mp_obj_new_bytes(secret, 64)};
    return mp_obj_new_tuple(2, pair);
}
static MP_DEFINE_CONST_FUN_OBJ_1(sign_seed_keypair_object, sign_seed_keypair);

// S = r + h a (RFC 8032, section 5.1.6)
static mp_obj_t sign_detached(mp_obj_t message, mp_obj_t secret) {
    span data = bytes_of(message);
    const uint8_t *key = exactly(secret, 64);
    uint8_t expanded[64], hashed[64], r[32], signature[64];
    hash_of(expanded, &(span) {key, 32}, 1);
    hash_of(hashed, (span[]) {{expanded + 32, 32}, data}, 2);
    scalar_reduce(r, hashed);
    curve_base_edwards(signature, r);
    hash_of(hashed, (span[]) {{signature, 32}, {key + 32, 32}, data}, 3);
    scalar_reduce(hashed, hashed);
    clamp(expanded, expanded);
    scalar_multiply_add(signature + 32, hashed, expanded, r);
    return mp_obj_new_bytes(signature, 64);
}
static MP_DEFINE_CONST_FUN_OBJ_2(sign_detached_object, sign_detached);

// By libsodium's rules, which tweetnacl_soft.py lists.
static mp_obj_t sign_verify_detached(mp_obj_t signature, mp_obj_t message, mp_obj_t public) {
    const uint8_t *given = exactly(signature, 64), *key = exactly(public, 32);
    span data = bytes_of(message);
    uint8_t hashed[64], expected[32];
    if (!scalar_is_canonical(given + 32)) {
        return mp_const_false;
    }
    hash_of(hashed, (span[]) {{given, 32}, {key, 32}, data}, 3);
    scalar_reduce(hashed, hashed);
    return mp_obj_new_bool(
        curve_verification_point(expected, key, given + 32, hashed) && equal(expected, given, 32));
}
static MP_DEFINE_CONST_FUN_OBJ_3(sign_verify_detached_object, sign_verify_detached);

static const mp_rom_map_elem_t names[] = {
    {MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR__tweetnacl)},
    {MP_ROM_QSTR(MP_QSTR_IMPLEMENTATION), MP_ROM_QSTR(MP_QSTR_native)},
    {MP_ROM_QSTR(MP_QSTR_box_beforenm), MP_ROM_PTR(&box_beforenm_object)},
    {MP_ROM_QSTR(MP_QSTR_onetimeauth), MP_ROM_PTR(&onetimeauth_object)},
    {MP_ROM_QSTR(MP_QSTR_scalarmult), MP_ROM_PTR(&scalarmult_object)},
    {MP_ROM_QSTR(MP_QSTR_scalarmult_base), MP_ROM_PTR(&scalarmult_base_object)},
    {MP_ROM_QSTR(MP_QSTR_secretbox), MP_ROM_PTR(&secretbox_object)},
    {MP_ROM_QSTR(MP_QSTR_secretbox_open), MP_ROM_PTR(&secretbox_open_object)},
    {MP_ROM_QSTR(MP_QSTR_sha512), MP_ROM_PTR(&sha512_object)},
    {MP_ROM_QSTR(MP_QSTR_sign_detached), MP_ROM_PTR(&sign_detached_object)},
    {MP_ROM_QSTR(MP_QSTR_sign_seed_keypair), MP_ROM_PTR(&sign_seed_keypair_object)},
    {MP_ROM_QSTR(MP_QSTR_sign_verify_detached), MP_ROM_PTR(&sign_verify_detached_object)},
    {MP_ROM_QSTR(MP_QSTR_stream_xor), MP_ROM_PTR(&stream_xor_object)},
    {MP_ROM_QSTR(MP_QSTR_verify_16), MP_ROM_PTR(&verify_object)},
    {MP_ROM_QSTR(MP_QSTR_verify_32), MP_ROM_PTR(&verify_object)},
};
static MP_DEFINE_CONST_DICT(globals, names);

const mp_obj_module_t tweetnacl_module = {
    .base = {&mp_type_module},
    .globals = (mp_obj_dict_t *)&globals,
};
MP_REGISTER_MODULE(MP_QSTR__tweetnacl, tweetnacl_module);
