// X25519 (RFC 7748) and Ed25519's points (RFC 8032), constant in time for secret scalars.

#ifndef TWEETNACL_CURVE_H
#define TWEETNACL_CURVE_H

#include <stdint.h>

void curve_scalarmult(uint8_t out[32], const uint8_t n[32], const uint8_t p[32]);  // zeros for a point of small order
void curve_base_montgomery(uint8_t out[32], const uint8_t scalar[32]);  // the scalar is clamped already
void curve_base_edwards(uint8_t out[32], const uint8_t scalar[32]);  // any 32 bytes
// s B - h A, for public data alone; 0 where A or the result is no point, or of small order.
int curve_verification_point(uint8_t out[32], const uint8_t public[32], const uint8_t s[32], const uint8_t h[32]);

#endif
