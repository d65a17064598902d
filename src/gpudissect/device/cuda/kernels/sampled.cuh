// Single loads of one warp, timed one by one, see `Mix.sampled`. -DSAMPLED: one in so many. Part of mix.cu.
//
// The second clock read follows a store of the loaded value, so it waits for the load. The latency is counted in memory
// by an atomic without a result: the chain contains nothing of this but the store.
#pragma once

__device__ __forceinline__ u32 clock_now() {
    u32 cycles;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(cycles)::"memory");
    return cycles;
}

__device__ __forceinline__ void store_word(const Chain& chain, u32 sink) {
    asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(sink), "r"(chain.word) : "memory");
}

// Waits for the chain, and for all stores to shared memory: a load would queue behind them (see timed_load in
// chase.cu). The value read is the one stored, so the loop ends after one pass.
__device__ __forceinline__ void settle(const Chain& chain, u32 sink) {
    asm volatile(
        "{\n\t"
        ".reg .u32 value;\n\t"
        ".reg .pred more;\n\t"
        "st.volatile.shared.u32 [%0], %1;\n"
        "settle:\n\t"
        "ld.volatile.shared.u32 value, [%0];\n\t"
        "setp.ne.u32 more, value, %1;\n\t"
        "@more bra settle;\n\t"
        "}" ::"r"(sink), "r"(chain.word)
        : "memory");
}

// Cycles between two clock reads. Both are stored, next to the sink: a stored value needs an ordinary register;
// otherwise the assembler would read one of the clocks through the uniform datapath, at another cost.
__device__ __forceinline__ u32 between(u32 before, u32 after, u32 sink) {
    asm volatile("st.volatile.shared.u32 [%0+8], %1;\n\tst.volatile.shared.u32 [%0+8], %2;" ::"r"(sink), "r"(before),
                 "r"(after)
                 : "memory");
    return after - before;
}

// Records the cycles of a window without a load.
__device__ __forceinline__ void record_overhead(Samples* samples, const Chain& chain, u32 sink) {
    settle(chain, sink);
    const u32 before = clock_now();
    store_word(chain, sink);
    const u32 cycles = between(before, clock_now(), sink);
    if (threadIdx.x == 0) atomicMin(&samples->overhead, cycles);
}

__device__ __forceinline__ void record(Samples* samples, u32 cycles) {
    const u32 bin = cycles < SAMPLE_BINS ? cycles : SAMPLE_BINS - 1;
    if (threadIdx.x == 0) asm volatile("red.global.add.u32 [%0], 1;" ::"l"(&samples->bins[bin]) : "memory");
}

template <class Instruction>
__device__ constexpr bool IS_LOAD = false;
template <>
__device__ constexpr bool IS_LOAD<Ldg> = true;

template <class Instruction, u32 COUNT>
__device__ __forceinline__ void sampled_step(
    Chain& chain, const Operands& operands, Samples* samples, u32 sink, u32& position, u32& loads
) {
#pragma unroll
    for (u32 i = 0; i < COUNT; ++i, ++position) {
        if (IS_LOAD<Instruction> && loads++ % SAMPLED == 0) {
            settle(chain, sink);
            const u32 before = clock_now();
            Instruction::run(chain, operands, position);
            store_word(chain, sink);
            record(samples, between(before, clock_now(), sink));
        } else {
            Instruction::run(chain, operands, position);
        }
    }
}

template <class Instruction, u32 COUNT>
__device__ __forceinline__ void sampled_aside(
    Chain& chain, const Operands& operands, Samples* samples, u32 sink, u32& position, u32& loads
) {
    const u32 kept = chain.word;
    sampled_step<Instruction, COUNT>(chain, operands, samples, sink, position, loads);
    asm volatile("lop3.b32 %0, %1, %0, %2, 0xf8;" : "+r"(chain.word) : "r"(kept), "r"(operands.zero));
}

#undef STEP
#undef ASIDE
#define STEP(INSTRUCTION, COUNT) sampled_step<INSTRUCTION, COUNT>(chains[0], operands, samples, sink, position, loads);
#define ASIDE(INSTRUCTION, COUNT) \
    sampled_aside<INSTRUCTION, COUNT>(chains[0], operands, samples, sink, position, loads);

// As bodies. The same loads are timed in every iteration of the loop: it has a multiple of SAMPLED loads.
template <u32 TIMES>
__device__ __forceinline__ void sampled_bodies(
    Chain (&chains)[ILP], const Operands& operands, Samples* samples, u32 sink
) {
    u32 position = 0, loads = 0;
#pragma unroll
    for (u32 i = 0; i < TIMES; ++i) {
        BODY
    }
}
