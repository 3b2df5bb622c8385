// CUDA's `__nv_bfloat16`: the upper half of a float, rounded to nearest even.
#pragma once

struct __nv_bfloat16 {
    unsigned short bits;

    __nv_bfloat16() = default;
    __nv_bfloat16(float value) {
        unsigned wide;
        __builtin_memcpy(&wide, &value, 4);
        if ((wide & 0x7fffffff) > 0x7f800000) {
            bits = 0x7fff; // NaN
        } else {
            bits = (wide + 0x7fff + (wide >> 16 & 1)) >> 16;
        }
    }
    operator float() const {
        unsigned wide = unsigned(bits) << 16;
        float value;
        __builtin_memcpy(&value, &wide, 4);
        return value;
    }
};
