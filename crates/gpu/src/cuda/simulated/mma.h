// CUDA's `nvcuda::wmma` for 16 x 16 x 16: each lane of a warp holds eight elements of a matrix,
// and the sums are float. Which elements a lane holds is unspecified in CUDA as well.
#pragma once

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

// The offset of element `i` of this lane.
inline unsigned offset(int i, unsigned stride, bool is_row_major) {
    unsigned element = simulated_lane() * 8 + i, row = element / 16, column = element % 16;
    return is_row_major ? row * stride + column : column * stride + row;
}

template <typename Layout> struct IsRowMajor;
template <> struct IsRowMajor<row_major> {
    static const bool value = true;
};
template <> struct IsRowMajor<col_major> {
    static const bool value = false;
};

template <typename Use, int M, int N, int K, typename T, typename Layout>
void load_matrix_sync(fragment<Use, M, N, K, T, Layout> &to, const T *from, unsigned stride) {
    check(from, stride);
    for (int i = 0; i < 8; i++)
        to.x[i] = from[offset(i, stride, IsRowMajor<Layout>::value)];
}

template <int M, int N, int K, typename T>
void load_matrix_sync(fragment<accumulator, M, N, K, T> &to, const T *from, unsigned stride,
                      layout_t layout) {
    check(from, stride);
    for (int i = 0; i < 8; i++)
        to.x[i] = from[offset(i, stride, layout == mem_row_major)];
}

template <int M, int N, int K, typename T>
void store_matrix_sync(T *to, const fragment<accumulator, M, N, K, T> &from, unsigned stride,
                       layout_t layout) {
    check(to, stride);
    for (int i = 0; i < 8; i++)
        to[offset(i, stride, layout == mem_row_major)] = from.x[i];
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
    float left[8], right[8];
    for (int i = 0; i < 8; i++) {
        left[i] = float(a.x[i]);
        right[i] = float(b.x[i]);
    }
    simulated_share(left, right);
    simulated_warp_meeting();
    float sums[8];
    for (int i = 0; i < 8; i++)
        sums[i] = c.x[i];
    simulated_multiply(sums);
    for (int i = 0; i < 8; i++)
        d.x[i] = sums[i];
}

} // namespace wmma
} // namespace nvcuda
