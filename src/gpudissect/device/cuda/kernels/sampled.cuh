// Single loads of one warp, timed one by one, see `Mix.sampled`. -DSAMPLED: one in so many. Part of mix.cu.
//
// The second clock read stands behind a store of what came, so it waits for the load. How long it took is counted in
// memory by an addition that nobody waits for: nothing of this stands in the chain but the store.
#pragma once

__device__ __forceinline__ u32 clock_now() {
    u32 cycles;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(cycles)::"memory");
    return cycles;
}

__device__ __forceinline__ void store_word(const Chain& chain, u32 sink) {
    asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(sink), "r"(chain.word) : "memory");
}

// Waits until the chain has come this far, and until nothing is under way to shared memory: a load would queue behind it
// (see timed_load in chase.cu). What is read there is what was stored, so nobody goes back.
__device__ __forceinline__ void settle(const Chain& chain, u32 sink) {
    asm volatile(
        "{\n\t"
        ".reg .u32 seen;\n\t"
        ".reg .pred more;\n\t"
        "st.volatile.shared.u32 [%0], %1;\n"
        "settle:\n\t"
        "ld.volatile.shared.u32 seen, [%0];\n\t"
        "setp.ne.u32 more, seen, %1;\n\t"
        "@more bra settle;\n\t"
        "}" ::"r"(sink), "r"(chain.word)
        : "memory");
}

// Cycles between two clock reads. Both are stored, beside the sink: a value that is stored needs an ordinary register, or
// the assembler would read one of the clocks through the uniform datapath, at another cost.
__device__ __forceinline__ u32 between(u32 before, u32 after, u32 sink) {
    asm volatile("st.volatile.shared.u32 [%0+8], %1;\n\tst.volatile.shared.u32 [%0+8], %2;" ::"r"(sink), "r"(before),
                 "r"(after)
                 : "memory");
    return after - before;
}

// What the clock shows of a window with nothing to wait for.
__device__ __forceinline__ void note_overhead(Samples* samples, const Chain& chain, u32 sink) {
    settle(chain, sink);
    const u32 before = clock_now();
    store_word(chain, sink);
    const u32 took = between(before, clock_now(), sink);
    if (threadIdx.x == 0) atomicMin(&samples->overhead, took);
}

__device__ __forceinline__ void note(Samples* samples, u32 took) {
    const u32 bin = took < SAMPLE_BINS ? took : SAMPLE_BINS - 1;
    if (threadIdx.x == 0) asm volatile("red.global.add.u32 [%0], 1;" ::"l"(&samples->bins[bin]) : "memory");
}

template <class Instruction>
__device__ constexpr bool IS_LOAD = false;
template <>
__device__ constexpr bool IS_LOAD<Ldg> = true;

template <class Instruction, u32 COUNT>
__device__ __forceinline__ void sampled_step(
    Chain& chain, const Operands& operands, Samples* samples, u32 sink, u32& turn, u32& loads
) {
#pragma unroll
    for (u32 i = 0; i < COUNT; ++i, ++turn) {
        if (IS_LOAD<Instruction> && loads++ % SAMPLED == 0) {
            settle(chain, sink);
            const u32 before = clock_now();
            Instruction::run(chain, operands, turn);
            store_word(chain, sink);
            note(samples, between(before, clock_now(), sink));
        } else {
            Instruction::run(chain, operands, turn);
        }
    }
}

template <class Instruction, u32 COUNT>
__device__ __forceinline__ void sampled_aside(
    Chain& chain, const Operands& operands, Samples* samples, u32 sink, u32& turn, u32& loads
) {
    const u32 kept = chain.word;
    sampled_step<Instruction, COUNT>(chain, operands, samples, sink, turn, loads);
    asm volatile("lop3.b32 %0, %1, %0, %2, 0xf8;" : "+r"(chain.word) : "r"(kept), "r"(operands.zero));
}

#undef STEP
#undef ASIDE
#define STEP(INSTRUCTION, COUNT) sampled_step<INSTRUCTION, COUNT>(chains[0], operands, samples, sink, turn, loads);
#define ASIDE(INSTRUCTION, COUNT) sampled_aside<INSTRUCTION, COUNT>(chains[0], operands, samples, sink, turn, loads);

// As bodies. Which loads are timed is the same in every turn of the loop: it holds a whole number of SAMPLED of them.
template <u32 TIMES>
__device__ __forceinline__ void sampled_bodies(Chain (&chains)[ILP], const Operands& operands, Samples* samples, u32 sink) {
    u32 turn = 0, loads = 0;
#pragma unroll
    for (u32 i = 0; i < TIMES; ++i) {
        BODY
    }
}
