// CUDA's `nvcuda::wmma` for 16 x 16 x 16: each lane of a warp holds eight elements of a matrix,
// and the sums are float. Which elements a lane holds is unspecified in CUDA as well.
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"

// d = a b + c for matrices of 16 x 16, of which this lane has eight elements each; d may be c.
void simulated_multiply(float *d, const __half *a, const __half *b, const float *c);
void simulated_multiply(float *d, const __nv_bfloat16 *a, const __nv_bfloat16 *b, const float *c);

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

template <typename Use, int M, int N, int K, typename T, typename Layout = void> struct fragment {
    static_assert(M == 16 && N == 16 && K == 16, "only this shape is simulated");
    static const int num_elements = 8;
    T x[num_elements];
};

// What CUDA demands of a matrix in memory.
template <typename T> void check(const T *from, unsigned stride) {
    if (reinterpret_cast<size_t>(from) % 32 != 0)
        simulated_fault("a tensor core's matrix is not aligned to 32 bytes");
    if (stride * sizeof(T) % 16 != 0)
        simulated_fault("a tensor core's matrix has rows that are no multiple of 16 bytes");
}

// A lane has half a row of a matrix in memory, or of its transpose: where that begins, and how far
// its elements are apart.
template <typename T> struct Part {
    T *start;
    unsigned step;

    Part(T *matrix, unsigned stride, bool is_row_major) {
        check(matrix, stride);
        unsigned row = simulated_lane() / 2, column = simulated_lane() % 2 * 8;
        start = matrix + (is_row_major ? row * stride + column : column * stride + row);
        step = is_row_major ? 1 : stride;
    }
};

template <typename Layout> struct IsRowMajor;
template <> struct IsRowMajor<row_major> {
    static const bool value = true;
};
template <> struct IsRowMajor<col_major> {
    static const bool value = false;
};

template <typename Use, int M, int N, int K, typename T, typename Layout>
void load_matrix_sync(fragment<Use, M, N, K, T, Layout> &to, const T *from, unsigned stride) {
    Part<const T> part(from, stride, IsRowMajor<Layout>::value);
    for (int i = 0; i < 8; i++)
        to.x[i] = part.start[i * part.step];
}

template <int M, int N, int K, typename T>
void load_matrix_sync(fragment<accumulator, M, N, K, T> &to, const T *from, unsigned stride,
                      layout_t layout) {
    Part<const T> part(from, stride, layout == mem_row_major);
    for (int i = 0; i < 8; i++)
        to.x[i] = part.start[i * part.step];
}

template <int M, int N, int K, typename T>
void store_matrix_sync(T *to, const fragment<accumulator, M, N, K, T> &from, unsigned stride,
                       layout_t layout) {
    Part<T> part(to, stride, layout == mem_row_major);
    for (int i = 0; i < 8; i++)
        part.start[i * part.step] = from.x[i];
}

template <typename Use, int M, int N, int K, typename T, typename Layout, typename V>
void fill_fragment(fragment<Use, M, N, K, T, Layout> &to, V value) {
    for (int i = 0; i < 8; i++)
        to.x[i] = T(value);
}

// d = a b + c; d may be c.
template <typename T, typename LayoutA, typename LayoutB>
void mma_sync(fragment<accumulator, 16, 16, 16, float> &d,
              const fragment<matrix_a, 16, 16, 16, T, LayoutA> &a,
              const fragment<matrix_b, 16, 16, 16, T, LayoutB> &b,
              const fragment<accumulator, 16, 16, 16, float> &c) {
    simulated_multiply(d.x, a.x, b.x, c.x);
}

} // namespace wmma
} // namespace nvcuda
