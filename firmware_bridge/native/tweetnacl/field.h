// The field of 2^255 - 19: 20 signed limbs of 13 bits, the representation of ../../covey_boards/shared/tweetnacl_field.py.
//
// Products of two words are 32 bits wide, never 64: on a Cortex-M3 the long multiplication takes time that depends on
// its factors, the short one does not. No branch and no address depends on a value.
//
// field_multiply, field_square, field_carry and field_add_a24 leave limbs within 2^12 + 2; what was loaded stays below
// 2^13. Sums and differences are not carried, and no element is multiplied whose limbs may exceed 2^13 + 4.

#ifndef TWEETNACL_FIELD_H
#define TWEETNACL_FIELD_H

#include <stdint.h>

typedef int32_t element[20];

void field_load(element out, const uint8_t data[32]);
void field_store(uint8_t out[32], const element a);
void field_copy(element out, const element a);
void field_add(element out, const element a, const element b);
void field_subtract(element out, const element a, const element b);
void field_carry(element a);
void field_add_a24(element out, const element a, const element b);  // a + 121665 b
void field_multiply(element out, const element a, const element b);
void field_square(element out, const element a);
void field_square_times(element out, const element a, int count);
void field_swap(element a, element b, uint32_t bit);
void field_invert(element out, const element a);  // a^(p - 2), so zero for zero
void field_root_power(element out, const element a);  // a^((p - 5) / 8)
int field_is_zero(const element a);

#endif
