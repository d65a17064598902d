// Cyclic products of pairs of polynomials modulo 998244353 by number-theoretic transforms in shared memory, a block per
// pair. Numbers are in Montgomery form.

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int LOG_SIZE = 11;
constexpr int SIZE = 1 << LOG_SIZE;
constexpr u32 PRIME = 998244353u;
constexpr u32 NEGATED_INVERSE = 998244351u;

__device__ __forceinline__ u32 multiply(u32 a, u32 b)
{
    u64 product = (u64)a * b;
    u32 factor = (u32)product * NEGATED_INVERSE;
    u32 result = (u32)((product + (u64)factor * PRIME) >> 32);
    return result >= PRIME ? result - PRIME : result;
}

__device__ __forceinline__ u32 add(u32 a, u32 b)
{
    u32 sum = a + b;
    return sum >= PRIME ? sum - PRIME : sum;
}

__device__ __forceinline__ u32 subtract(u32 a, u32 b)
{
    return a >= b ? a - b : a + PRIME - b;
}

template <bool INVERSE>
__device__ void transform(u32 *data, const u32 *__restrict__ roots)
{
    for (int stage = 0; stage < LOG_SIZE; stage++) {
        int log_half = INVERSE ? stage : LOG_SIZE - 1 - stage;
        int half = 1 << log_half;
        for (int i = threadIdx.x; i < SIZE / 2; i += blockDim.x) {
            int j = i & (half - 1);
            int low = ((i >> log_half) << (log_half + 1)) + j;
            u32 root = roots[half + j];
            u32 a = data[low], b = data[low + half];
            if (INVERSE) {
                b = multiply(b, root);
                data[low] = add(a, b);
                data[low + half] = subtract(a, b);
            } else {
                data[low] = add(a, b);
                data[low + half] = multiply(subtract(a, b), root);
            }
        }
        __syncthreads();
    }
}

extern "C" __global__ void ntt_multiply(const u32 *__restrict__ first, const u32 *__restrict__ second,
                                        u32 *__restrict__ products, const u32 *__restrict__ roots,
                                        const u32 *__restrict__ inverse_roots, u32 scale)
{
    __shared__ u32 a[SIZE];
    __shared__ u32 b[SIZE];
    const size_t offset = (size_t)blockIdx.x * SIZE;
    for (int i = threadIdx.x; i < SIZE; i += blockDim.x) {
        a[i] = first[offset + i];
        b[i] = second[offset + i];
    }
    __syncthreads();

    transform<false>(a, roots);
    transform<false>(b, roots);
    for (int i = threadIdx.x; i < SIZE; i += blockDim.x)
        a[i] = multiply(a[i], b[i]);
    __syncthreads();
    transform<true>(a, inverse_roots);

    for (int i = threadIdx.x; i < SIZE; i += blockDim.x)
        products[offset + i] = multiply(a[i], scale);
}
