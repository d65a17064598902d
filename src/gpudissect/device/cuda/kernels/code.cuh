// Straight-line code: a lap fetches its own instructions.
//
// CODE_BODY is PTX: 512 units of 1 KiB (CODE_UNIT in workload/chase.py), 64 instructions of 16 bytes each (Volta on). A
// unit ends with a compare and a branch to `done`, taken in the last unit of the lap, so one kernel serves every size,
// and a shorter lap is the start of a longer one. (The very last unit is followed by `done`: it has two other
// instructions instead.)
//
// The other 62 keep an SM busy in every cycle, so that a lap is bound by fetching as soon as that cannot keep up:
// additions and shifts alternate, because each alone has half the lanes it needs on some GPUs; eight of them are
// independent, because one takes about four cycles; none can be merged with the next by the assembler (a funnel shift
// by an unknown number of bits, unlike a logical operation; a floating-point addition, unlike one of integers). With
// `none` = 0 bits none of them changes its operand, so the result shows that all were executed.
//
// It needs the registers of CODE_REGISTERS and `units`, the index of the lap's last unit.
#pragma once

#define CODE_REGISTERS                    \
    ".reg .f32 a0, a1, a2, a3, zero;\n\t" \
    ".reg .b32 x0, x1, x2, x3, none;\n\t" \
    ".reg .u32 units;\n\t"                \
    ".reg .pred last;\n\t"

// Sets the operands of the code from the link %0, the number of lines COUNT, and NONE, which is 0 at run time.
#define CODE_BEGIN(NONE, COUNT)       \
    "mov.b32 none, " NONE ";\n\t"     \
    "mov.b32 zero, none;\n\t"         \
    "shr.u32 units, " COUNT ", 3;\n\t" \
    "sub.u32 units, units, 1;\n\t"    \
    "mov.u32 x0, %0;\n\t"             \
    "add.u32 x1, %0, 1;\n\t"          \
    "add.u32 x2, %0, 2;\n\t"          \
    "add.u32 x3, %0, 3;\n\t"          \
    "mov.b32 a0, x0;\n\t"             \
    "mov.b32 a1, x1;\n\t"             \
    "mov.b32 a2, x2;\n\t"             \
    "mov.b32 a3, x3;\n\t"

// The link again, eight times: 0 stays 0, and none of the code can be left out.
#define CODE_END                  \
    "add.u32 %0, x0, x1;\n\t"     \
    "add.u32 %0, %0, x2;\n\t"     \
    "add.u32 %0, %0, x3;\n\t"     \
    "mov.b32 x0, a0;\n\t"         \
    "mov.b32 x1, a1;\n\t"         \
    "mov.b32 x2, a2;\n\t"         \
    "mov.b32 x3, a3;\n\t"         \
    "add.u32 %0, %0, x0;\n\t"     \
    "add.u32 %0, %0, x1;\n\t"     \
    "add.u32 %0, %0, x2;\n\t"     \
    "add.u32 %0, %0, x3;\n\t"     \
    "sub.u32 %0, %0, 12;\n\t"

#define CODE_PAIR(I) "add.f32 a" #I ", a" #I ", zero;\n\tshf.r.wrap.b32 x" #I ", x" #I ", none, none;\n\t"
#define CODE_8 CODE_PAIR(0) CODE_PAIR(1) CODE_PAIR(2) CODE_PAIR(3)
#define CODE_62 CODE_8 CODE_8 CODE_8 CODE_8 CODE_8 CODE_8 CODE_8 CODE_PAIR(0) CODE_PAIR(1) CODE_PAIR(2)
#define CODE_1_UNIT(NUMBER) CODE_62 "setp.eq.u32 last, units, 0x" #NUMBER ";\n\t@last bra done;\n\t"
#define CODE_4_UNITS(H, A, B, C, D) CODE_1_UNIT(H##A) CODE_1_UNIT(H##B) CODE_1_UNIT(H##C) CODE_1_UNIT(H##D)
#define CODE_16_UNITS(H) \
    CODE_4_UNITS(H, 0, 1, 2, 3) CODE_4_UNITS(H, 4, 5, 6, 7) CODE_4_UNITS(H, 8, 9, a, b) CODE_4_UNITS(H, c, d, e, f)
#define CODE_64_UNITS(H, A, B, C, D) CODE_16_UNITS(H##A) CODE_16_UNITS(H##B) CODE_16_UNITS(H##C) CODE_16_UNITS(H##D)
#define CODE_256_UNITS(H)        \
    CODE_64_UNITS(H, 0, 1, 2, 3) \
    CODE_64_UNITS(H, 4, 5, 6, 7) CODE_64_UNITS(H, 8, 9, a, b) CODE_64_UNITS(H, c, d, e, f)
#define CODE_255_UNITS(H)                                                                                          \
    CODE_64_UNITS(H, 0, 1, 2, 3) CODE_64_UNITS(H, 4, 5, 6, 7) CODE_64_UNITS(H, 8, 9, a, b)                         \
    CODE_16_UNITS(H##c) CODE_16_UNITS(H##d) CODE_16_UNITS(H##e) CODE_4_UNITS(H##f, 0, 1, 2, 3)                     \
    CODE_4_UNITS(H##f, 4, 5, 6, 7) CODE_4_UNITS(H##f, 8, 9, a, b)                                                  \
    CODE_1_UNIT(H##fc) CODE_1_UNIT(H##fd) CODE_1_UNIT(H##fe)
#define CODE_BODY CODE_256_UNITS(0) CODE_255_UNITS(1) CODE_62 CODE_PAIR(3) "done:\n\t"

#ifdef PATH_CODE

// A lap: clock, code, store, clock. Replaces timed_lap in chase.cu.
__device__ __forceinline__ u64 timed_lap(Link& link, u64, u32 count, u32 slot) {
    u64 cycles;
    asm volatile(
        "{\n\t"
        ".reg .u64 before, after;\n\t"
        CODE_REGISTERS
        CODE_BEGIN("%2", "%4")
        "mov.u64 before, %%clock64;\n\t"
        CODE_BODY
        "st.shared.u32 [%3], x3;\n\t"
        "mov.u64 after, %%clock64;\n\t"
        "st.volatile.shared.u64 [%3], before;\n\t"
        "st.volatile.shared.u64 [%3], after;\n\t"
        "sub.u64 %1, after, before;\n\t"
        CODE_END
        "}"
        : "+r"(link), "=l"(cycles)
        : "r"(threadIdx.x), "r"(slot), "r"(count)
        : "memory");
    return cycles;
}

#elif defined(PRIOR_CODE)

// Runs untimed laps. Returns whether the code gave the right result.
__device__ __noinline__ bool run_code(u32 count, u32 laps) {
    u32 link = threadIdx.x & 31;  // 0: called by the first thread of a warp
#pragma unroll 1
    for (; laps != 0; --laps) {
        asm volatile("{\n\t" CODE_REGISTERS CODE_BEGIN("%1", "%2") CODE_BODY CODE_END "}"
                     : "+r"(link)
                     : "r"(threadIdx.x & 31), "r"(count)
                     : "memory");
    }
    return link == 0;
}

#endif
