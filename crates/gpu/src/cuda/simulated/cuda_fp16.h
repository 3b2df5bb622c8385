// CUDA's `__half`: stored in 16 bits, rounded to nearest even, computed in float.
#pragma once

struct __half {
    unsigned short bits;

    __half() = default;
    // Otherwise a copy is a call of `memcpy`, which a sanitizer makes slow.
    __attribute__((always_inline)) __half(const __half &from) : bits(from.bits) {}
    __attribute__((always_inline)) __half &operator=(const __half &from) {
        bits = from.bits;
        return *this;
    }
    __half(float value) {
        unsigned wide = __builtin_bit_cast(unsigned, value);
        unsigned sign = wide >> 16 & 0x8000, magnitude = wide & 0x7fffffff;
        if (magnitude > 0x7f800000) {
            bits = sign | 0x7e00; // NaN
        } else if (magnitude >= 0x477ff000) {
            bits = sign | 0x7c00; // rounds to infinity
        } else if (magnitude < 0x38800000) {
            // Below the smallest normal number: adding 0.5 rounds the value and moves its digits
            // to the end of the sum.
            float sum = __builtin_bit_cast(float, magnitude) + 0.5f;
            bits = sign | (__builtin_bit_cast(unsigned, sum) - __builtin_bit_cast(unsigned, 0.5f));
        } else {
            unsigned odd = magnitude >> 13 & 1;
            bits = sign | ((magnitude - (112u << 23) + 0xfff + odd) >> 13);
        }
    }
    operator float() const {
        unsigned sign = unsigned(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
        unsigned wide;
        if (magnitude >= 0x7c00) {
            wide = sign | 0x7f800000 | (magnitude & 0x3ff) << 13;
        } else if (magnitude >= 0x400) {
            wide = sign | ((magnitude << 13) + (112u << 23));
        } else {
            wide = sign | __builtin_bit_cast(unsigned, magnitude * (1.0f / 16777216.0f));
        }
        return __builtin_bit_cast(float, wide);
    }
};
