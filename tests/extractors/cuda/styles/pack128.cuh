#include <cuda_bf16.h>
typedef __nv_bfloat16 elem;

template <class T>
struct alignas(16) Pack128 {
    Pack128() = default;
    __device__ explicit Pack128(int4 bits) { memcpy(&payload, &bits, sizeof(bits)); }
    __device__ static Pack128 constant(T value) {
        Pack128 made;
        for (int k = 0; k < size; ++k) { made.payload[k] = value; }
        return made;
    }
    __device__ T& operator[](int k) { return payload[k]; }
    __device__ const T& operator[](int k) const { return payload[k]; }
    __device__ int4 bits() const {
        int4 made;
        memcpy(&made, &payload, sizeof(made));
        return made;
    }
    static constexpr const size_t size = sizeof(int4) / sizeof(T);
    T payload[size];
};
template <class T> __device__ Pack128<T> load128(const T* p) { return Pack128<T>{*reinterpret_cast<const int4*>(p)}; }
template <class T> __device__ Pack128<T> load128cs(const T* p) { return Pack128<T>{__ldcs(reinterpret_cast<const int4*>(p))}; }
template <class T> __device__ void store128(T* p, Pack128<T> v) { *reinterpret_cast<int4*>(p) = v.bits(); }
template <class T> __device__ void store128cs(T* p, Pack128<T> v) { __stcs(reinterpret_cast<int4*>(p), v.bits()); }
typedef Pack128<elem> pack;

__device__ inline float warp_sum(float v) {
    for (int o = 16; o > 0; o /= 2) { v += __shfl_xor_sync(0xFFFFFFFF, v, o); }
    return v;
}

