// Instructions on registers. Each becomes one machine instruction, except Sin; tests/sass checks that.
//
// PTX does not bind the assembler: it merges consecutive additions, removes a reciprocal of a reciprocal, and inserts
// multiplications. Hence the forms below.
#pragma once
#include "mix.cuh"

#define ON_WORD(NAME, PTX, ...)                                                      \
    struct NAME {                                                                    \
        static __device__ __forceinline__ void run(Chain& c, const Operands& o, u32) { \
            asm volatile(PTX : "+r"(c.word) : __VA_ARGS__);                          \
        }                                                                            \
    };
// (On floating-point registers: see Lds.)
#define ON_FLOAT(NAME, PTX, ...)                                                     \
    struct NAME {                                                                    \
        static __device__ __forceinline__ void run(Chain& c, const Operands& o, u32) { \
            float value = __uint_as_float(c.word);                                   \
            asm volatile(PTX : "+f"(value) : __VA_ARGS__);                           \
            c.word = __float_as_uint(value);                                         \
        }                                                                            \
    };
#define ON_FLOAT_ONLY(NAME, PTX)                                                     \
    struct NAME {                                                                     \
        static __device__ __forceinline__ void run(Chain& c, const Operands&, u32) {  \
            float value = __uint_as_float(c.word);                                    \
            asm volatile(PTX : "+f"(value));                                          \
            c.word = __float_as_uint(value);                                          \
        }                                                                             \
    };

ON_FLOAT(Fadd, "add.rn.f32 %0, %0, %1;", "f"(o.minus_zero))
ON_FLOAT(Fmul, "mul.rn.f32 %0, %0, %1;", "f"(o.unity))
// The third operand of a fused multiply-add is a constant, -0 or negligible: three registers of one bank take twice as
// long to read (on an H200 such a chain ran at half the rate).
ON_FLOAT(Ffma, "fma.rn.f32 %0, %0, %1, 0f80000000;", "f"(o.unity))
// IADD3 adds three numbers; the assembler would merge two additions of two numbers into one.
ON_WORD(Iadd, "add.u32 %0, %0, %1;\n\tadd.u32 %0, %0, %2;", "r"(o.zero), "r"(o.none))
ON_WORD(Imad, "mad.lo.u32 %0, %0, %1, %2;", "r"(o.one), "r"(o.zero))
ON_WORD(Lop, "lop3.b32 %0, %0, %1, %2, 0xf8;", "r"(o.lane), "r"(o.zero))  // word | lane & 0
ON_WORD(Shift, "shf.l.wrap.b32 %0, %0, %0, %1;", "r"(o.zero))
ON_WORD(Hfma2, "{\n\t.reg .b32 a;\n\tmov.b32 a, 0x04000400;\n\tfma.rn.f16x2 %0, %0, %1, a;\n\t}", "r"(o.halves))
ON_FLOAT(Fmnmx, "max.f32 %0, %0, %1;", "f"(o.least))
ON_WORD(Prmt, "prmt.b32 %0, %0, %1, %2;", "r"(o.lane), "r"(o.selector))
// ISETP and SEL: without a predicate as state there is no chain of either alone.
ON_WORD(Select, "{\n\t.reg .pred p;\n\tsetp.eq.u32 p, %0, %1;\n\tselp.b32 %0, %2, %0, p;\n\t}", "r"(o.none), "r"(o.zero))
ON_WORD(Shuffle, "shfl.sync.idx.b32 %0, %0, %1, 31, 0xffffffff;", "r"(o.lane))

// Instructions of a warp. ISETP and VOTE; REDUX and the move of its result from a uniform register.
ON_WORD(Vote, "{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %0, %1;\n\tvote.sync.ballot.b32 %0, p, 0xffffffff;\n\t}", "r"(o.none))
#define ON_WORD_ONLY(NAME, PTX)                                                      \
    struct NAME {                                                                    \
        static __device__ __forceinline__ void run(Chain& c, const Operands&, u32) { \
            asm volatile(PTX : "+r"(c.word));                                        \
        }                                                                            \
    };
ON_WORD_ONLY(Redux, "redux.sync.or.b32 %0, %0, 0xffffffff;")
ON_WORD_ONLY(Match, "match.any.sync.b32 %0, %0, 0xffffffff;")
ON_WORD_ONLY(Popc, "popc.b32 %0, %0;")
ON_WORD_ONLY(Flo, "bfind.u32 %0, %0;")

// Instructions that change their chain. Operand modifiers, which cost nothing, keep the values finite: 2^-x, 1/|x| and
// log2|x| stay numbers.
ON_FLOAT_ONLY(Rcp, "{\n\t.reg .f32 a;\n\tabs.f32 a, %0;\n\trcp.approx.ftz.f32 %0, a;\n\t}")
ON_FLOAT_ONLY(Rsq, "rsqrt.approx.ftz.f32 %0, %0;")
ON_FLOAT_ONLY(Ex2, "{\n\t.reg .f32 a;\n\tneg.f32 a, %0;\n\tex2.approx.ftz.f32 %0, a;\n\t}")
ON_FLOAT_ONLY(Lg2, "{\n\t.reg .f32 a;\n\tabs.f32 a, %0;\n\tlg2.approx.ftz.f32 %0, a;\n\t}")
// FMUL by 1/2pi, then MUFU.SIN: the function unit takes revolutions, and no PTX leaves the multiplication out.
ON_FLOAT_ONLY(Sin, "sin.approx.ftz.f32 %0, %0;")

// Conversions. The next one takes the bits of the result: integers converted to floating point converge to the number
// whose bits are its own value, numbers converted to integers to 0.
struct I2f {
    static __device__ __forceinline__ void run(Chain& c, const Operands&, u32) {
        float value;
        asm volatile("cvt.rn.f32.u32 %0, %1;" : "=f"(value) : "r"(c.word));
        c.word = __float_as_uint(value);
    }
};

struct F2i {
    static __device__ __forceinline__ void run(Chain& c, const Operands&, u32) {
        asm volatile("cvt.rni.s32.f32 %0, %1;" : "=r"(c.word) : "f"(__uint_as_float(c.word)));
    }
};

// Single to double in even positions of the body, back in odd ones.
struct F2f {
    static __device__ __forceinline__ void run(Chain& c, const Operands&, u32 position) {
        if (position % 2 == 0) {
            asm volatile("cvt.f64.f32 %0, %1;" : "=d"(c.wide) : "f"(__uint_as_float(c.word)));
        } else {
            float value;
            asm volatile("cvt.rn.f32.f64 %0, %1;" : "=f"(value) : "d"(c.wide));
            c.word = __float_as_uint(value);
        }
    }
};

// A product of 64 bits, in the registers of a double: that of its own halves, so that both are needed. (The assembler
// computes a sum of 64 bits by separate additions.)
struct ImadWide {
    static __device__ __forceinline__ void run(Chain& c, const Operands&, u32) {
        asm volatile("{\n\t.reg .b64 product;\n\t.reg .b32 low, high;\n\tmov.b64 {low, high}, %0;\n\t"
                     "mul.wide.u32 product, low, high;\n\tmov.b64 %0, product;\n\t}"
                     : "+d"(c.wide));
    }
};

struct Dadd {
    static __device__ __forceinline__ void run(Chain& c, const Operands& o, u32) {
        asm volatile("add.rn.f64 %0, %0, %1;" : "+d"(c.wide) : "d"(o.wide_minus_zero));
    }
};

struct Dfma {
    static __device__ __forceinline__ void run(Chain& c, const Operands& o, u32) {
        asm volatile("fma.rn.f64 %0, %0, %1, 0d8000000000000000;" : "+d"(c.wide) : "d"(o.wide_unity));
    }
};

// Changed to a branch in the machine code, see mix/patches.py.
struct Branch {
    static __device__ __forceinline__ void run(Chain&, const Operands&, u32) { asm volatile("pmevent 7;" ::: "memory"); }
};

struct Barrier {
    static __device__ __forceinline__ void run(Chain&, const Operands&, u32) { asm volatile("bar.sync 0;" ::: "memory"); }
};
