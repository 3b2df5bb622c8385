// CUDA's `__nv_bfloat16`: the upper half of a float, rounded to nearest even.
#pragma once

struct __nv_bfloat16 {
    unsigned short bits;

    __nv_bfloat16() = default;
    // Otherwise a copy is a call of `memcpy`, which a sanitizer makes slow.
    __attribute__((always_inline)) __nv_bfloat16(const __nv_bfloat16 &from) : bits(from.bits) {}
    __attribute__((always_inline)) __nv_bfloat16 &operator=(const __nv_bfloat16 &from) {
        bits = from.bits;
        return *this;
    }
    __nv_bfloat16(float value) {
        unsigned wide = __builtin_bit_cast(unsigned, value);
        if ((wide & 0x7fffffff) > 0x7f800000) {
            bits = 0x7fff; // NaN
        } else {
            bits = (wide + 0x7fff + (wide >> 16 & 1)) >> 16;
        }
    }
    operator float() const { return __builtin_bit_cast(float, unsigned(bits) << 16); }
};
