// One access of a stream: -DWIDTH bytes (1, 2, 4, 8 or 16) by one instruction. The including file defines the path: LOAD_BY
// and STORE_BY (PTX), ADDRESS, the type of an address, and ADDRESS_IN, its PTX constraint.
#pragma once
#include "job.cuh"

#define ACCESS_WORDS ((WIDTH + 3) / 4)

struct Access {
    u32 words[ACCESS_WORDS];
};

__device__ __forceinline__ Access load(ADDRESS address) {
    Access access;
#ifdef PATH_TEXTURE  // a fetch returns four words, of which one to four are used
    u32 texel[4];
    asm volatile("tex.1d.v4.u32.s32 {%0, %1, %2, %3}, [%4, {%5}];"
                 : "=r"(texel[0]), "=r"(texel[1]), "=r"(texel[2]), "=r"(texel[3])
                 : "l"(address.texture), "r"(address.texel)
                 : "memory");
#pragma unroll
    for (u32 w = 0; w < ACCESS_WORDS; ++w) access.words[w] = texel[w];
#elif WIDTH == 1
    asm volatile(LOAD_BY ".u8 %0, [%1];" : "=r"(access.words[0]) : ADDRESS_IN(address) : "memory");
#elif WIDTH == 2
    asm volatile(LOAD_BY ".u16 %0, [%1];" : "=r"(access.words[0]) : ADDRESS_IN(address) : "memory");
#elif WIDTH == 4
    asm volatile(LOAD_BY ".u32 %0, [%1];" : "=r"(access.words[0]) : ADDRESS_IN(address) : "memory");
#elif WIDTH == 8
    asm volatile(LOAD_BY ".v2.u32 {%0, %1}, [%2];"
                 : "=r"(access.words[0]), "=r"(access.words[1])
                 : ADDRESS_IN(address)
                 : "memory");
#else
    asm volatile(LOAD_BY ".v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(access.words[0]), "=r"(access.words[1]), "=r"(access.words[2]), "=r"(access.words[3])
                 : ADDRESS_IN(address)
                 : "memory");
#endif
    return access;
}

#ifdef STORE_BY
__device__ __forceinline__ void store(ADDRESS address, const Access& access) {
#if WIDTH == 1
    asm volatile(STORE_BY ".u8 [%0], %1;" ::ADDRESS_IN(address), "r"(access.words[0]) : "memory");
#elif WIDTH == 2
    asm volatile(STORE_BY ".u16 [%0], %1;" ::ADDRESS_IN(address), "r"(access.words[0]) : "memory");
#elif WIDTH == 4
    asm volatile(STORE_BY ".u32 [%0], %1;" ::ADDRESS_IN(address), "r"(access.words[0]) : "memory");
#elif WIDTH == 8
    asm volatile(STORE_BY ".v2.u32 [%0], {%1, %2};" ::ADDRESS_IN(address), "r"(access.words[0]), "r"(access.words[1])
                 : "memory");
#else
    asm volatile(STORE_BY ".v4.u32 [%0], {%1, %2, %3, %4};" ::ADDRESS_IN(address), "r"(access.words[0]),
                 "r"(access.words[1]), "r"(access.words[2]), "r"(access.words[3])
                 : "memory");
#endif
}
#endif
