// Instructions on matrices: sums += factors x weights, the sums being the chain. All factors are equal and the signs of
// the weights alternate, so the products cancel exactly.
#pragma once
#include "mix.cuh"

#define ON_MATRIX(NAME, PTX)                                                                                      \
    struct NAME {                                                                                                 \
        static __device__ __forceinline__ void run(Chain& c, const Operands& o, u32) {                            \
            asm volatile(PTX " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                   \
                         : "+r"(c.sums[0]), "+r"(c.sums[1]), "+r"(c.sums[2]), "+r"(c.sums[3])                     \
                         : "r"(o.factors[0]), "r"(o.factors[1]), "r"(o.factors[2]), "r"(o.factors[3]),            \
                           "r"(o.weights[0]), "r"(o.weights[1]));                                                 \
        }                                                                                                         \
    };

ON_MATRIX(MmaF16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
ON_MATRIX(MmaBf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
ON_MATRIX(MmaTf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
ON_MATRIX(MmaS8, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32")

struct MmaF64 {
    static __device__ __forceinline__ void run(Chain& c, const Operands& o, u32) {
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                     : "+d"(c.products[0]), "+d"(c.products[1])
                     : "d"(o.factor), "d"(o.weight));
    }
};

// The signs of neighbours in a row of weights differ: in each register of packed numbers, or from one to the next.
__device__ __forceinline__ void fill_matrices(Operands& o) {
#if defined(MATRIX_F16)
    const u32 factor = 0x38003800, weights[] = {0xb8003800, 0xb8003800};  // 0.5
#elif defined(MATRIX_BF16)
    const u32 factor = 0x3f003f00, weights[] = {0xbf003f00, 0xbf003f00};
#elif defined(MATRIX_TF32)
    const u32 factor = 0x3f000000, weights[] = {0x3f000000, 0xbf000000};
#elif defined(MATRIX_S8)
    const u32 factor = 0x03030303, weights[] = {0xfd03fd03, 0xfd03fd03};
#else
    const u32 factor = 0, weights[] = {0, 0};
#endif
#pragma unroll
    for (u32 i = 0; i < 4; ++i) o.factors[i] = factor + i * o.zero;  // equal, but the compiler must not know
#pragma unroll
    for (u32 i = 0; i < 2; ++i) o.weights[i] = weights[i] + i * o.zero;
    o.factor = 0.5 + o.zero;
    o.weight = (threadIdx.x & 1 ? -0.5 : 0.5) + o.zero;
}
