// A mix: warps that run a body of instructions again and again, see mix.cuh. Compiled for one body:
//   BODY    STEP(Fadd, 4) ASIDE(Rsq, 2) ...: instructions of arithmetic.cuh, memory.cuh, matrix.cuh and how often
//   UNROLL  how often the body stands in the loop, REST how often behind it
//   ILP     chains of a warp
//   WIDTH   bytes of an operand in memory
//   USES_WORD, USES_WIDE, USES_SUMS, USES_PRODUCTS: what of a chain the body changes, so that its end can be awaited
//   IN_SHARED, IN_GLOBAL: the chain runs through addresses there; of the latter LOADS in a body, and TILES or LINES if
//           they spread over more than a word for each lane
//   SAMPLED one warp of an SM times every so many-th load by itself, see sampled.cuh
//   REGISTERS of a thread, at most, so that an SM can be full
//   PLACES  the body loads from or stores to a word of each lane in shared memory; STORES if it stores
//   APART   bytes between the counters in global memory of two warps
//   NEUTRAL the body leaves the chain as it was
//
// tests/sass holds that the machine code between the two clock reads is the body so many times, each instruction
// dependent on the one before in its chain, and loop control.
#include "arithmetic.cuh"
#include "matrix.cuh"
#include "memory.cuh"
#include "permutation.cuh"

extern __shared__ __align__(16) u32 dynamic[];

#ifndef APART  // without counters it is nothing, but the assembler shares registers out otherwise if it is left out
#define APART room
#endif

#define SINK 512  // at the start of shared memory: 16 for each lane, where chains are stored that nobody reads
#ifdef SAMPLED
#define SINK_BYTES (2 * SINK)  // the warp that times single loads reads what it stored: no other may store there
#else
#define SINK_BYTES SINK
#endif

// ---- The body --------------------------------------------------------------------------------------------------
template <class Instruction, u32 COUNT>
__device__ __forceinline__ void step(Chain (&chains)[ILP], const Operands& operands, u32& turn) {
#pragma unroll
    for (u32 i = 0; i < COUNT; ++i, ++turn) {
#pragma unroll
        for (Chain& chain : chains) Instruction::run(chain, operands, turn);
    }
}

// For what would spoil an address: it works on a copy, and one more instruction makes the address depend on the result.
// (The copy is none in machine code: the first instruction reads one register and writes another.)
template <class Instruction, u32 COUNT>
__device__ __forceinline__ void aside(Chain (&chains)[ILP], const Operands& operands, u32& turn) {
    u32 kept[ILP];
#pragma unroll
    for (u32 i = 0; i < ILP; ++i) kept[i] = chains[i].word;
    step<Instruction, COUNT>(chains, operands, turn);
#pragma unroll
    for (u32 i = 0; i < ILP; ++i)
        asm volatile("lop3.b32 %0, %1, %0, %2, 0xf8;" : "+r"(chains[i].word) : "r"(kept[i]), "r"(operands.zero));
}

#define STEP(INSTRUCTION, COUNT) step<INSTRUCTION, COUNT>(chains, operands, turn);
#define ASIDE(INSTRUCTION, COUNT) aside<INSTRUCTION, COUNT>(chains, operands, turn);

template <u32 TIMES>
__device__ __forceinline__ void bodies(Chain (&chains)[ILP], const Operands& operands) {
    u32 turn = 0;
#pragma unroll
    for (u32 i = 0; i < TIMES; ++i) {
        BODY
    }
}

#ifdef SAMPLED
#include "sampled.cuh"
#endif

// Stores what a chain has come to. Instructions issue in order, so what comes behind it waits for the chain.
__device__ __forceinline__ void await(const Chain& chain, u32 sink) {
#ifdef USES_WORD
    asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(sink), "r"(chain.word) : "memory");
#endif
#ifdef USES_WIDE
    asm volatile("st.volatile.shared.f64 [%0], %1;" ::"r"(sink), "d"(chain.wide) : "memory");
#endif
#ifdef USES_SUMS
    asm volatile("st.volatile.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(sink), "r"(chain.sums[0]),
                 "r"(chain.sums[1]), "r"(chain.sums[2]), "r"(chain.sums[3])
                 : "memory");
#endif
#ifdef USES_PRODUCTS
    asm volatile("st.volatile.shared.v2.f64 [%0], {%1, %2};" ::"r"(sink), "d"(chain.products[0]), "d"(chain.products[1])
                 : "memory");
#endif
#if defined(IN_GLOBAL) && WIDTH > 4
    asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(sink), "r"(chain.rest) : "memory");
#endif
}

// ---- Where chains begin ----------------------------------------------------------------------------------------
struct Places {
    u64 memory;  // address of what the chains go through, or of the counters of atomics
    u32 stride;  // bytes between words of neighbouring lanes
    u32 count;   // TILES, LINES: how many there are
    u32 half;    // LINES: see permutation.cuh
    u32 blocks;  // that run at once and count
    u64 offset;  // TILES, LINES: position of the first chain, behind what was read before
};

#define LINE_BYTES 128

#if defined(TILES) || defined(LINES)
// Address of what a lane reads when its chain is at `position`. A chain of tiles (a word for each lane of a warp) goes
// on by as many tiles as there are chains, one of lines by one line of a permutation.
__device__ __forceinline__ u64 address_of(const Places& places, u64 position) {
    const u32 place = static_cast<u32>(position % places.count);
#ifdef TILES
    return places.memory + (static_cast<u64>(place) * MIX_LANES + threadIdx.x % MIX_LANES) * places.stride;
#else
    return places.memory + static_cast<u64>(permuted(place, places.count, places.half, 0)) * LINE_BYTES;
#endif
}

// Where chain `i` of this lane begins, in a block of this rank: where no other does, nor another went before.
__device__ __forceinline__ u64 first_position(const Places& places, u32 rank, u32 i, u64 loads) {
    const u64 chain = ((rank % places.blocks) * (blockDim.x / MIX_LANES) + threadIdx.x / MIX_LANES) * ILP + i;
    const u64 before = rank / places.blocks * loads;  // in each chain
    const u64 chains = places.blocks * (blockDim.x / MIX_LANES) * ILP;
#ifdef TILES
    return places.offset + chain + before * chains;
#else
    const u64 lanes = chains * MIX_LANES;
    return places.offset + (chain * MIX_LANES + threadIdx.x % MIX_LANES) * (places.count / lanes) + before;
#endif
}

__device__ __forceinline__ u64 position_after(const Places& places, u64 position, u64 loads) {
#ifdef TILES
    return position + loads * places.blocks * (blockDim.x / MIX_LANES) * ILP;
#else
    return position + loads;
#endif
}
#endif

// Halves of an address as a chain holds them.
__device__ __forceinline__ void set_address(Chain& chain, u64 address) {
    chain.word = static_cast<u32>(address);
    chain.rest = static_cast<u32>(address >> 32);
}

__device__ __forceinline__ u64 address_in(const Chain& chain) {
    return static_cast<u64>(chain.rest) << 32 | chain.word;
}

// `zero` and `one` are known only at run time; the lane's share in them tells the compiler that lanes may differ, or it
// would use the uniform datapath.
__device__ __forceinline__ Operands operands_of(u32 zero, u32 one, const Places& places) {
    Operands o;
    o.lane = threadIdx.x % MIX_LANES;
    o.zero = zero & o.lane;
    o.none = zero & threadIdx.x;
    o.one = one | o.zero;
    o.minus_zero = __uint_as_float(0x80000000 | o.zero);
    o.unity = __uint_as_float(0x3f800000 | o.zero);
    o.halves = 0x3c003c00 | o.zero;
    o.wide_minus_zero = __hiloint2double(0x80000000 | o.zero, o.zero);
    o.wide_unity = __hiloint2double(0x3ff00000 | o.zero, o.zero);
    const u32 base = static_cast<u32>(__cvta_generic_to_shared(dynamic)) + SINK_BYTES;
    const u32 warp = threadIdx.x / MIX_LANES;
    const u32 room = (31 * places.stride + WIDTH + 127) / 128 * 128;
#ifdef PLACES
    o.place = base + o.lane * places.stride;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) o.held[i] = o.place + i * o.zero;
    o.counter = base + room + warp * room + o.lane * places.stride;
#else
    o.counter = base + warp * room + o.lane * places.stride;
#endif
    o.counter_at = places.memory + static_cast<u64>(blockIdx.x * (blockDim.x / MIX_LANES) + warp) * APART + o.lane * places.stride;
    fill_matrices(o);
    return o;
}

// All chains begin alike, which the compiler must not know.
__device__ __forceinline__ void begin_chain(Chain& chain, const Operands& o, u32 i) {
    const u32 nothing = i * o.zero;
    chain.word = __float_as_uint(o.unity) + nothing;
    chain.wide = __hiloint2double(0x3ff00000, nothing);
#pragma unroll
    for (u32& sum : chain.sums) sum = nothing;
    chain.products[0] = chain.products[1] = nothing;
#ifdef IN_SHARED
    chain.word = o.place + nothing;
#endif
}

// Does a chain hold what it began with?
__device__ __forceinline__ bool unchanged(const Chain& chain, u32 word) {
    bool same = true;
#ifdef USES_WORD
    same &= chain.word == word;
#endif
#ifdef USES_WIDE
    same &= chain.wide == 1.0;
#endif
#ifdef USES_SUMS
#pragma unroll
    for (u32 sum : chain.sums) same &= sum == 0;
#endif
#ifdef USES_PRODUCTS
    same &= chain.products[0] == 0 && chain.products[1] == 0;
#endif
    return same;
}

// ---- The kernel ------------------------------------------------------------------------------------------------
// All blocks that fit at once meet before anything is timed, so that every SM has equally many; those on SMs that do not
// count (number `sms` on) then leave, or keep others off their SM until `awaited` warps have ended. Blocks from
// `resident` on take the places of those that end. Blocks that are there from the beginning run the loop once before,
// untimed: then instructions, and what stays in caches, are there. (Loops count down by `one`, known only at run time,
// because the assembler unrolls a loop whose length it can foresee.)
//
// `begin` is read where the body begins; in a block that takes another's place, where the kernel does. `end` is read
// when all chains of the warp have ended.
#ifndef REGISTERS
#define MOST_REGISTERS
#elif __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1204
#define MOST_REGISTERS __maxnreg__(REGISTERS)
#else
#define MOST_REGISTERS
#endif
extern "C" __global__ void MOST_REGISTERS mix(MixReport* reports, Meeting* meeting, u64 loops, u64 zero, u64 one, u64 resident, u64 sms,
                               u64 awaited, u64 last, u64 memory, u64 stride, u64 count, u64 half, u64 blocks,
                               Samples* samples, u64 offset) {
    const u64 entered = sm_cycles();
    const u32 sm = sm_number();
    const bool first = blockIdx.x < resident;
    if (first) {
        if (threadIdx.x == 0) arrive(&meeting->arrived, static_cast<u32>(resident));
        if (sm >= sms) {
            if (threadIdx.x == 0) hold(meeting, static_cast<u32>(awaited));
            return;
        }
    }
    const Places places{memory, static_cast<u32>(stride), static_cast<u32>(count), static_cast<u32>(half),
                        static_cast<u32>(blocks), offset};
    const Operands operands = operands_of(static_cast<u32>(zero), static_cast<u32>(one), places);
    const u32 sink = static_cast<u32>(__cvta_generic_to_shared(dynamic)) + 16 * operands.lane;
    Chain chains[ILP];
#pragma unroll
    for (u32 i = 0; i < ILP; ++i) begin_chain(chains[i], operands, i);
#ifdef PLACES  // every word holds its own address; the words behind it as well
    if (threadIdx.x < MIX_LANES)
        for (u32 i = 0; i < WIDTH; i += 4)
            asm volatile("st.shared.u32 [%0], %1;" ::"r"(operands.place + i), "r"(operands.place) : "memory");
    __syncthreads();
#endif
#if defined(TILES) || defined(LINES)
    const u64 loads_first = (UNROLL + REST) * LOADS, loads_then = (loops * UNROLL + REST) * LOADS;
    if (threadIdx.x == 0) dynamic[0] = atomicAdd(&meeting->ranks, 1u);
    __syncthreads();
    const u32 rank = dynamic[0];
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ILP; ++i)
        set_address(chains[i], address_of(places, first_position(places, rank, i, loads_first + loads_then)));
#elif defined(IN_GLOBAL)
    const u64 own = memory + operands.lane * stride;
#pragma unroll
    for (u32 i = 0; i < ILP; ++i) set_address(chains[i], own + i * operands.zero);
#endif
    MixReport* const report = reports + blockIdx.x * (blockDim.x / MIX_LANES) + threadIdx.x / MIX_LANES;
    // What is known is noted now: registers are few while the body runs.
    if (!first && threadIdx.x % MIX_LANES == 0) report->begin = entered;
    u64 begin = 0, end = 0;
    bool sampling = false;
#pragma unroll 1
    for (u32 pass = first ? 0 : 1; pass < 2; pass += static_cast<u32>(one)) {
        if (first && pass == 1) {
            if (threadIdx.x == 0) {
                arrive(&meeting->warm, static_cast<u32>(blocks));
                dynamic[1] = await_start(meeting, sm);
            }
            if (threadIdx.x % MIX_LANES == 0) report->begin_ns = timer_ns();
            __syncthreads();
#ifdef SAMPLED
            sampling = dynamic[1] && threadIdx.x < MIX_LANES;
            if (sampling) note_overhead(samples, chains[0], sink + SINK);
#endif
        }
        u32 left = pass ? static_cast<u32>(loops) : static_cast<u32>(one);
        begin = sm_cycles();
#ifdef SAMPLED
        if (sampling) {
#pragma unroll 1
            do sampled_bodies<UNROLL>(chains, operands, samples, sink + SINK);
            while ((left -= static_cast<u32>(one)) != 0);
        } else
#endif
#pragma unroll 1
        do bodies<UNROLL>(chains, operands);
        while ((left -= static_cast<u32>(one)) != 0);
        bodies<REST>(chains, operands);
#ifdef STORES
        asm volatile(
            "{\n\t"
            ".reg .u32 seen;\n\t"
            "ld.volatile.shared.u32 seen, [%0];\n\t"  // comes back after all stores before it
            "st.volatile.shared.u32 [%1], seen;\n\t"
            "}" ::"r"(operands.place), "r"(sink)
            : "memory");
#endif
#pragma unroll
        for (const Chain& chain : chains) await(chain, sink);
        end = sm_cycles();
    }
    const u64 end_ns = blockIdx.x >= last ? timer_ns() : 0;
    bool broken = false;
#if defined(TILES) || defined(LINES)
#pragma unroll
    for (u32 i = 0; i < ILP; ++i) {
        const u64 loads = first ? loads_first + loads_then : loads_then;
        const u64 from = first_position(places, rank, i, loads_first + loads_then);
        broken |= address_in(chains[i]) != address_of(places, position_after(places, from, loads));
    }
#elif defined(IN_GLOBAL)
#pragma unroll
    for (const Chain& chain : chains) broken |= address_in(chain) != own;
#elif defined(IN_SHARED)
#pragma unroll
    for (const Chain& chain : chains) broken |= chain.word != operands.place;
#elif defined(NEUTRAL)
#pragma unroll
    for (const Chain& chain : chains) broken |= !unchanged(chain, __float_as_uint(operands.unity));
#endif
    broken = __any_sync(0xffffffff, broken);
    if (threadIdx.x % MIX_LANES == 0) {
        if (first) report->begin = begin;
        report->end = end;
        report->end_ns = end_ns;
        report->sm = sm;
        report->broken = broken;
        atomicAdd(&meeting->done, 1u);
    }
}
