// Instructions on memory. -DWIDTH: bytes of an operand, 4, 8 or 16.
//
// A load returns the address of the next one: its own again where accesses are resident. In global memory the lower
// half of an address is in Chain::word, so that arithmetic can stand between two loads (VV16 s5.1); with 4 bytes it is
// all that is loaded. mix/operands.py chooses addresses of which it is a normal number in floating point. (Of 16 bytes
// the assembler would load only the 8 that are needed, unless all are used.)
#pragma once
#include "mix.cuh"

// (The address is moved in PTX only: without that, the assembler would treat one that comes from a floating-point
// addition as a number to be rounded.)
struct Lds {
    static __device__ __forceinline__ void run(Chain& c, const Operands&, u32) {
#if WIDTH == 4
        asm volatile("{\n\t.reg .b32 at;\n\tmov.b32 at, %0;\n\tld.volatile.shared.u32 %0, [at];\n\t}"
                     : "+r"(c.word)::"memory");
#elif WIDTH == 8
        u32 unused;
        asm volatile("{\n\t.reg .b32 at;\n\tmov.b32 at, %0;\n\tld.volatile.shared.v2.u32 {%0, %1}, [at];\n\t}"
                     : "+r"(c.word), "=r"(unused)::"memory");
#else
        u32 unused[3];
        asm volatile("{\n\t.reg .b32 at;\n\tmov.b32 at, %0;\n\tld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [at];\n\t}"
                     : "+r"(c.word), "=r"(unused[0]), "=r"(unused[1]), "=r"(unused[2])::"memory");
#endif
    }
};

// Wider than 4 bytes they store what their place holds already: adjacent registers would need copies.
#if WIDTH == 4
#define STORE(SPACE, ADDRESS) \
    asm volatile("st.volatile." SPACE ".u32 [%0], %1;" ::ADDRESS, "r"(c.word) : "memory")
#elif WIDTH == 8
#define STORE(SPACE, ADDRESS) \
    asm volatile("st.volatile." SPACE ".v2.u32 [%0], {%1, %2};" ::ADDRESS, "r"(o.held[0]), "r"(o.held[1]) : "memory")
#else
#define STORE(SPACE, ADDRESS)                                                                       \
    asm volatile("st.volatile." SPACE ".v4.u32 [%0], {%1, %2, %3, %4};" ::ADDRESS, "r"(o.held[0]), \
                 "r"(o.held[1]), "r"(o.held[2]), "r"(o.held[3])                                     \
                 : "memory")
#endif

struct Sts {
    static __device__ __forceinline__ void run(Chain& c, const Operands& o, u32) { STORE("shared", "r"(o.place)); }
};

struct Stg {
    static __device__ __forceinline__ void run(Chain& c, const Operands& o, u32) { STORE("global", "l"(o.counter_at)); }
};

// The old value is added next.
struct Atoms {
    static __device__ __forceinline__ void run(Chain& c, const Operands& o, u32) {
        asm volatile("atom.shared.add.u32 %0, [%1], %0;" : "+r"(c.word) : "r"(o.counter) : "memory");
    }
};

// Address of a counter: the lane's own; with SPREAD a random one, or that of the lane in a random line.
__device__ __forceinline__ u64 next_counter(Chain& c, const Operands& o) {
#ifdef SPREAD
    c.rest = c.rest * 1664525u + 1013904223u;  // Numerical Recipes
    return o.counter_at + static_cast<u64>(__umulhi(c.rest, o.counters)) * SPREAD;
#else
    return o.counter_at;
#endif
}

struct Atomg {
    static __device__ __forceinline__ void run(Chain& c, const Operands& o, u32) {
        asm volatile("atom.global.add.u32 %0, [%1], %0;" : "+r"(c.word) : "l"(next_counter(c, o)) : "memory");
    }
};

struct Redg {
    static __device__ __forceinline__ void run(Chain& c, const Operands& o, u32) {
        asm volatile("red.global.add.u32 [%0], %1;" ::"l"(next_counter(c, o)), "r"(c.word) : "memory");
    }
};

// (Where additions stand between two loads, the assembler may copy the other half of the address, beside the chain.)
struct Ldg {
    static __device__ __forceinline__ void run(Chain& c, const Operands&, u32) {
#if WIDTH == 4
        asm volatile("{\n\t.reg .b64 at;\n\tmov.b64 at, {%0, %1};\n\tld.global.ca.u32 %0, [at];\n\t}"
                     : "+r"(c.word)
                     : "r"(c.rest)
                     : "memory");
#elif WIDTH == 16
        // The address passes through two LOP3 that leave it as it is: what is not used is not loaded, and registers of
        // 16 bytes would be copied to those of an address.
        u32 loaded[4];
        asm volatile("{\n\t.reg .b64 at;\n\tmov.b64 at, {%4, %5};\n\tld.global.ca.v4.u32 {%0, %1, %2, %3}, [at];\n\t}"
                     : "=r"(loaded[0]), "=r"(loaded[1]), "=r"(loaded[2]), "=r"(loaded[3])
                     : "r"(c.word), "r"(c.rest)
                     : "memory");
        asm volatile("lop3.b32 %0, %0, %1, %2, 0x80;" : "+r"(loaded[0]) : "r"(loaded[1]), "r"(loaded[2]));
        asm volatile("lop3.b32 %0, %0, %1, %2, 0xf8;" : "+r"(c.word) : "r"(loaded[0]), "r"(loaded[3]));
#else
        asm volatile("{\n\t.reg .b64 at;\n\tmov.b64 at, {%0, %1};\n\tld.global.ca.b64 at, [at];\n\tmov.b64 {%0, %1}, at;\n\t}"
                     : "+r"(c.word), "+r"(c.rest)::"memory");
#endif
    }
};
