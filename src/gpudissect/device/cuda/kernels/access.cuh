// One access of a stream: -DWIDTH bytes (4, 8 or 16) by one instruction, on the path that the including file says with
// LOAD_BY and STORE_BY (PTX) and with ADDRESS, the type of an address, and ADDRESS_IN, its PTX constraint.
#pragma once
#include "job.cuh"

#define ACCESS_WORDS (WIDTH / 4)

struct Access {
    u32 words[ACCESS_WORDS];
};

__device__ __forceinline__ Access load(ADDRESS at) {
    Access got;
#if WIDTH == 4
    asm volatile(LOAD_BY ".u32 %0, [%1];" : "=r"(got.words[0]) : ADDRESS_IN(at) : "memory");
#elif WIDTH == 8
    asm volatile(LOAD_BY ".v2.u32 {%0, %1}, [%2];"
                 : "=r"(got.words[0]), "=r"(got.words[1])
                 : ADDRESS_IN(at)
                 : "memory");
#else
    asm volatile(LOAD_BY ".v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(got.words[0]), "=r"(got.words[1]), "=r"(got.words[2]), "=r"(got.words[3])
                 : ADDRESS_IN(at)
                 : "memory");
#endif
    return got;
}

#ifdef STORE_BY
__device__ __forceinline__ void store(ADDRESS at, const Access& put) {
#if WIDTH == 4
    asm volatile(STORE_BY ".u32 [%0], %1;" ::ADDRESS_IN(at), "r"(put.words[0]) : "memory");
#elif WIDTH == 8
    asm volatile(STORE_BY ".v2.u32 [%0], {%1, %2};" ::ADDRESS_IN(at), "r"(put.words[0]), "r"(put.words[1]) : "memory");
#else
    asm volatile(STORE_BY ".v4.u32 [%0], {%1, %2, %3, %4};" ::ADDRESS_IN(at), "r"(put.words[0]), "r"(put.words[1]),
                 "r"(put.words[2]), "r"(put.words[3])
                 : "memory");
#endif
}
#endif
