// CUDA's `__half`: stored in 16 bits, rounded to nearest even, computed in float.
#pragma once

struct __half {
    unsigned short bits;

    __half() = default;
    __half(float value) {
        unsigned wide;
        __builtin_memcpy(&wide, &value, 4);
        unsigned sign = wide >> 16 & 0x8000, magnitude = wide & 0x7fffffff;
        if (magnitude > 0x7f800000) {
            bits = sign | 0x7e00; // NaN
        } else if (magnitude >= 0x477ff000) {
            bits = sign | 0x7c00; // rounds to infinity
        } else if (magnitude < 0x38800000) {
            // Below the smallest normal number: adding 0.5 rounds the value and moves its digits
            // to the end of the sum.
            float sum, half = 0.5f;
            __builtin_memcpy(&sum, &magnitude, 4);
            sum += half;
            unsigned low, base;
            __builtin_memcpy(&low, &sum, 4);
            __builtin_memcpy(&base, &half, 4);
            bits = sign | (low - base);
        } else {
            unsigned odd = magnitude >> 13 & 1;
            bits = sign | ((magnitude - (112u << 23) + 0xfff + odd) >> 13);
        }
    }
    operator float() const {
        unsigned sign = unsigned(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
        unsigned wide;
        float value;
        if (magnitude >= 0x7c00) {
            wide = sign | 0x7f800000 | (magnitude & 0x3ff) << 13;
        } else if (magnitude >= 0x400) {
            wide = sign | ((magnitude << 13) + (112u << 23));
        } else {
            value = magnitude * (1.0f / 16777216.0f);
            __builtin_memcpy(&wide, &value, 4);
            wide |= sign;
        }
        __builtin_memcpy(&value, &wide, 4);
        return value;
    }
};
