// CUDA's built-ins for kernels that run on a CPU: included before every kernel's text.
//
// The text itself is the one that NVRTC would compile. Threads of a block are fibers of one
// thread (see device.cpp), so `threadIdx` is a variable that changes at every switch.
//
// No system header that defines `int64_t` may be included: the kernels define it themselves, and
// not as this system does.
#pragma once

typedef __SIZE_TYPE__ size_t;

#define __device__
#define __global__
#define __shared__
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))

static const int warpSize = 32;

struct Dimensions {
    unsigned x, y, z;
};

extern "C" {
extern Dimensions threadIdx, blockIdx, blockDim, gridDim;

// Waits until every thread of the block, or of the warp, is here; orders memory accesses.
void simulated_block_barrier();
void simulated_warp_barrier();
// The value of lane `own ^ mask`.
unsigned simulated_exchange(unsigned value, unsigned mask);
// This thread's lane.
unsigned simulated_lane();
// Ends the launch with an error.
[[noreturn]] void simulated_fault(const char *what);
}

static inline void __syncthreads() { simulated_block_barrier(); }
static inline void __syncwarp(unsigned = ~0u) { simulated_warp_barrier(); }
// Divergence within a warp is not modelled: a shuffle that not every lane reaches is a fault.
static inline unsigned __activemask() { return ~0u; }

static inline unsigned __shfl_xor_sync(unsigned, unsigned value, int mask) {
    return simulated_exchange(value, mask);
}
static inline int __shfl_xor_sync(unsigned, int value, int mask) {
    return int(simulated_exchange(unsigned(value), mask));
}
static inline float __shfl_xor_sync(unsigned, float value, int mask) {
    unsigned bits = simulated_exchange(__builtin_bit_cast(unsigned, value), mask);
    return __builtin_bit_cast(float, bits);
}

extern "C" {
float fminf(float, float);
float fmaxf(float, float);
float fmaf(float, float, float);
float expf(float);
float logf(float);
float sqrtf(float);
float fabsf(float);
float tanhf(float);
float sinf(float);
float cosf(float);
float powf(float, float);
float floorf(float);
float roundf(float);
}
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
static inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }
static inline float fma(float a, float b, float c) { return fmaf(a, b, c); }
static inline float exp(float x) { return expf(x); }
static inline float log(float x) { return logf(x); }
static inline float sqrt(float x) { return sqrtf(x); }
static inline float rsqrt(float x) { return 1.0f / sqrtf(x); }
static inline float fabs(float x) { return fabsf(x); }
static inline float tanh(float x) { return tanhf(x); }
static inline float sin(float x) { return sinf(x); }
static inline float cos(float x) { return cosf(x); }
static inline float pow(float x, float y) { return powf(x, y); }
static inline float floor(float x) { return floorf(x); }
static inline float round(float x) { return roundf(x); }

// Calls a kernel with an array of pointers to its arguments, as `cuLaunchKernel` does.
namespace simulated {
template <unsigned... I> struct List {};
template <unsigned N, unsigned... I> struct UpTo : UpTo<N - 1, N - 1, I...> {};
template <unsigned... I> struct UpTo<0, I...> {
    typedef List<I...> type;
};
template <typename... A, unsigned... I>
void enter(void (*kernel)(A...), void **arguments, List<I...>) {
    kernel(*static_cast<A *>(arguments[I])...);
}
template <typename... A> void enter(void (*kernel)(A...), void **arguments) {
    enter(kernel, arguments, typename UpTo<sizeof...(A)>::type());
}
} // namespace simulated
