// A mix: warps that repeat a body of instructions, see mix.cuh. Compiled for one body:
//   BODY       STEP(Fadd, 4) ASIDE(Rsq, 2) ...: instructions of arithmetic.cuh, memory.cuh, matrix.cuh and their counts
//   UNROLL     copies of the body in the loop, REST copies behind it
//   ILP        chains of a warp
//   WIDTH      bytes of an operand in memory
//   USES_WORD, USES_WIDE, USES_SUMS, USES_PRODUCTS: the parts of a chain that the body changes, whose end is awaited
//   IN_SHARED, IN_GLOBAL: the chain goes through addresses there; for the latter LOADS in a body, and TILES or LINES if
//              they spread over more than a word for each lane
//   SAMPLED    one warp of an SM times one load in so many by itself, see sampled.cuh
//   REGISTERS  maximum for a thread, so that an SM can be full
//   PLACES     the body loads from or stores to a word of each lane in shared memory; STORES if it stores
//   COUNTER_STRIDE bytes between the counters of two warps in global memory; or SPREAD, the bytes of one counter or line
//              of them, for random ones that all warps share
//   SILENT     blocks from which no one needs a report end without
//   NEUTRAL    the body leaves the chain unchanged
//
// tests/sass checks that between the two clock reads the machine code has the copies of the body, each instruction
// dependent on the one before in its chain, and loop control.
#include "arithmetic.cuh"
#include "matrix.cuh"
#include "memory.cuh"
#include "permutation.cuh"

extern __shared__ __align__(16) u32 dynamic[];

#ifndef COUNTER_STRIDE  // unused without counters, but the assembler allocates registers otherwise if it is left out
#define COUNTER_STRIDE lane_bytes
#endif

#define SINK 512  // bytes at the start of shared memory: 16 for each lane, to which ends of chains are stored
#ifdef SAMPLED
#define SINK_BYTES (2 * SINK)  // the warp that times single loads reads what it stored, so it has its own
#else
#define SINK_BYTES SINK
#endif

// ---- The body --------------------------------------------------------------------------------------------------
template <class Instruction, u32 COUNT>
__device__ __forceinline__ void step(Chain (&chains)[ILP], const Operands& operands, u32& position) {
#pragma unroll
    for (u32 i = 0; i < COUNT; ++i, ++position) {
#pragma unroll
        for (Chain& chain : chains) Instruction::run(chain, operands, position);
    }
}

// For instructions that would change an address: they work on a copy, and one more instruction makes the address depend
// on the result. (Machine code needs no copy: the first instruction reads one register and writes another.)
template <class Instruction, u32 COUNT>
__device__ __forceinline__ void aside(Chain (&chains)[ILP], const Operands& operands, u32& position) {
    u32 kept[ILP];
#pragma unroll
    for (u32 i = 0; i < ILP; ++i) kept[i] = chains[i].word;
    step<Instruction, COUNT>(chains, operands, position);
#pragma unroll
    for (u32 i = 0; i < ILP; ++i)
        asm volatile("lop3.b32 %0, %1, %0, %2, 0xf8;" : "+r"(chains[i].word) : "r"(kept[i]), "r"(operands.zero));
}

#define STEP(INSTRUCTION, COUNT) step<INSTRUCTION, COUNT>(chains, operands, position);
#define ASIDE(INSTRUCTION, COUNT) aside<INSTRUCTION, COUNT>(chains, operands, position);

template <u32 TIMES>
__device__ __forceinline__ void bodies(Chain (&chains)[ILP], const Operands& operands) {
    u32 position = 0;
#pragma unroll
    for (u32 i = 0; i < TIMES; ++i) {
        BODY
    }
}

#ifdef SAMPLED
#include "sampled.cuh"
#endif

// Stores the end of a chain. Instructions issue in order, so later ones wait for the chain.
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
struct Layout {
    u64 memory;  // address of the links, or of the counters of atomics
    u32 stride;  // bytes between words of neighbouring lanes
    u32 count;   // TILES, LINES: their number
    u32 half;    // LINES: see permutation.cuh
    u32 blocks;  // that run at once and count
    u64 offset;  // TILES, LINES: position of the first chain, behind all positions already read
};

#define LINE_BYTES 128

#if defined(TILES) || defined(LINES)
// Address that a lane reads when its chain is at `position`. A chain of tiles (a word for each lane of a warp) advances
// by the number of chains, one of lines by one line of a permutation.
__device__ __forceinline__ u64 address_of(const Layout& layout, u64 position) {
    const u32 index = static_cast<u32>(position % layout.count);
#ifdef TILES
    return layout.memory + (static_cast<u64>(index) * MIX_LANES + threadIdx.x % MIX_LANES) * layout.stride;
#else
    return layout.memory + static_cast<u64>(permuted(index, layout.count, layout.half, 0)) * LINE_BYTES;
#endif
}

// Position at which chain `i` of this lane begins, in a block of this rank: one that no chain has read.
__device__ __forceinline__ u64 first_position(const Layout& layout, u32 rank, u32 i, u64 loads) {
    const u64 chain = ((rank % layout.blocks) * (blockDim.x / MIX_LANES) + threadIdx.x / MIX_LANES) * ILP + i;
    const u64 before = rank / layout.blocks * loads;  // in each chain
    const u64 chains = layout.blocks * (blockDim.x / MIX_LANES) * ILP;
#ifdef TILES
    return layout.offset + chain + before * chains;
#else
    const u64 lanes = chains * MIX_LANES;
    return layout.offset + (chain * MIX_LANES + threadIdx.x % MIX_LANES) * (layout.count / lanes) + before;
#endif
}

__device__ __forceinline__ u64 position_after(const Layout& layout, u64 position, u64 loads) {
#ifdef TILES
    return position + loads * layout.blocks * (blockDim.x / MIX_LANES) * ILP;
#else
    return position + loads;
#endif
}
#endif

// Sets the halves of an address in a chain.
__device__ __forceinline__ void set_address(Chain& chain, u64 address) {
    chain.word = static_cast<u32>(address);
    chain.rest = static_cast<u32>(address >> 32);
}

__device__ __forceinline__ u64 address_in(const Chain& chain) {
    return static_cast<u64>(chain.rest) << 32 | chain.word;
}

// `zero` and `one` are known only at run time; they are combined with the lane, so that the compiler does not use the
// uniform datapath.
__device__ __forceinline__ Operands operands_of(u32 zero, u32 one, const Layout& layout) {
    Operands o;
    o.lane = threadIdx.x % MIX_LANES;
    o.zero = zero & o.lane;
    o.none = zero & threadIdx.x;
    o.one = one | o.zero;
    o.minus_zero = __uint_as_float(0x80000000 | o.zero);
    o.unity = __uint_as_float(0x3f800000 | o.zero);
    o.least = __uint_as_float(0xff800000 | o.zero);
    o.halves = 0x3c003c00 | o.zero;
    o.selector = 0x3210 | o.zero;
    o.wide_minus_zero = __hiloint2double(0x80000000 | o.zero, o.zero);
    o.wide_unity = __hiloint2double(0x3ff00000 | o.zero, o.zero);
    const u32 base = static_cast<u32>(__cvta_generic_to_shared(dynamic)) + SINK_BYTES;
    const u32 warp = threadIdx.x / MIX_LANES;
    const u32 lane_bytes = (31 * layout.stride + WIDTH + 127) / 128 * 128;
#ifdef PLACES
    o.place = base + o.lane * layout.stride;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) o.held[i] = o.place + i * o.zero;
    o.counter = base + lane_bytes + warp * lane_bytes + o.lane * layout.stride;
#else
    o.counter = base + warp * lane_bytes + o.lane * layout.stride;
#endif
    const u64 warp_of_grid = blockIdx.x * (blockDim.x / MIX_LANES) + warp;
#ifdef SPREAD
    o.counter_at = layout.memory + (SPREAD > 4 ? o.lane * layout.stride : 0);
    o.counters = layout.count;
#else
    o.counter_at = layout.memory + warp_of_grid * COUNTER_STRIDE + o.lane * layout.stride;
#endif
    fill_matrices(o);
    return o;
}

#ifdef SPREAD
// The last step of MurmurHash3: neighbouring numbers become independent.
__device__ __forceinline__ u32 scrambled(u32 number) {
    number = (number ^ number >> 16) * 0x85ebca6bu;
    number = (number ^ number >> 13) * 0xc2b2ae35u;
    return number ^ number >> 16;
}
#endif

// All chains begin equal, which the compiler must not know.
__device__ __forceinline__ void begin_chain(Chain& chain, const Operands& o, u32 i) {
    const u32 zero = i * o.zero;
    chain.word = __float_as_uint(o.unity) + zero;
    chain.wide = __hiloint2double(0x3ff00000, zero);
#pragma unroll
    for (u32& sum : chain.sums) sum = zero;
    chain.products[0] = chain.products[1] = zero;
#ifdef IN_SHARED
    chain.word = o.place + zero;
#endif
#ifdef SPREAD
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    chain.rest = scrambled((SPREAD > 4 ? thread / MIX_LANES : thread) * ILP + i);
#endif
}

// Returns whether a chain holds its initial value.
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

// ---- The kernel ------------------------------------------------------------------------------------------------ All
// blocks of the first wave wait for each other before anything is timed, so that every SM has equally many; those on
// SMs that do not count (from number `sms` on) then exit, or occupy their SM until `awaited` warps have ended. Blocks
// from `resident` on replace those that end. Blocks of the first wave run the loop once before, untimed: then
// instructions and cached data are there. (Loops count down by `one`, known only at run time, because the assembler
// unrolls a loop of known length.)
//
// `begin` is read where the body begins; in blocks of later waves, where the kernel begins. `end` is read when all
// chains of the warp have ended.
#ifndef REGISTERS
#define MAX_REGISTERS
#elif __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1204
#define MAX_REGISTERS __maxnreg__(REGISTERS)
#else
#define MAX_REGISTERS
#endif
extern "C" __global__ void MAX_REGISTERS
    mix(MixReport* reports, GridBarrier* barrier, u64 loops, u64 zero, u64 one, u64 resident, u64 sms, u64 awaited,
        u64 last, u64 memory, u64 stride, u64 count, u64 half, u64 blocks, Samples* samples, u64 offset) {
    const u64 entered = sm_cycles();
    const u32 sm = sm_number();
    const bool first = blockIdx.x < resident;
    if (first) {
        if (threadIdx.x == 0) arrive(&barrier->arrived, static_cast<u32>(resident));
        if (sm >= sms) {
            if (threadIdx.x == 0) hold(barrier, static_cast<u32>(awaited));
            return;
        }
    }
    const Layout layout{memory, static_cast<u32>(stride), static_cast<u32>(count), static_cast<u32>(half),
                        static_cast<u32>(blocks), offset};
    const Operands operands = operands_of(static_cast<u32>(zero), static_cast<u32>(one), layout);
    const u32 sink = static_cast<u32>(__cvta_generic_to_shared(dynamic)) + 16 * operands.lane;
    Chain chains[ILP];
#pragma unroll
    for (u32 i = 0; i < ILP; ++i) begin_chain(chains[i], operands, i);
#ifdef PLACES  // every operand holds its own address, in each of its words
    if (threadIdx.x < MIX_LANES)
        for (u32 i = 0; i < WIDTH; i += 4)
            asm volatile("st.shared.u32 [%0], %1;" ::"r"(operands.place + i), "r"(operands.place) : "memory");
    __syncthreads();
#endif
#if defined(TILES) || defined(LINES)
    const u64 loads_first = (UNROLL + REST) * LOADS, loads_then = (loops * UNROLL + REST) * LOADS;
    if (threadIdx.x == 0) dynamic[0] = atomicAdd(&barrier->ranks, 1u);
    __syncthreads();
    const u32 rank = dynamic[0];
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ILP; ++i)
        set_address(chains[i], address_of(layout, first_position(layout, rank, i, loads_first + loads_then)));
#elif defined(IN_GLOBAL)
    const u64 address = memory + operands.lane * stride;
#pragma unroll
    for (u32 i = 0; i < ILP; ++i) set_address(chains[i], address + i * operands.zero);
#endif
    MixReport* const report = reports + blockIdx.x * (blockDim.x / MIX_LANES) + threadIdx.x / MIX_LANES;
    // Stored now: registers are scarce while the body runs.
    if (!first && threadIdx.x % MIX_LANES == 0) report->begin = entered;
    u64 begin = 0, end = 0;
    bool sampling = false;
#pragma unroll 1
    for (u32 pass = first ? 0 : 1; pass < 2; pass += static_cast<u32>(one)) {
        if (first && pass == 1) {
            if (threadIdx.x == 0) {
                arrive(&barrier->warm, static_cast<u32>(blocks));
                dynamic[1] = await_start(barrier, sm);
            }
            if (threadIdx.x % MIX_LANES == 0) report->begin_ns = timer_ns();
            __syncthreads();
#ifdef SAMPLED
            sampling = dynamic[1] && threadIdx.x < MIX_LANES;
            if (sampling) record_overhead(samples, chains[0], sink + SINK);
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
            ".reg .u32 value;\n\t"
            "ld.volatile.shared.u32 value, [%0];\n\t"  // waits for all earlier stores
            "st.volatile.shared.u32 [%1], value;\n\t"
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
        const u64 from = first_position(layout, rank, i, loads_first + loads_then);
        broken |= address_in(chains[i]) != address_of(layout, position_after(layout, from, loads));
    }
#elif defined(IN_GLOBAL)
#pragma unroll
    for (const Chain& chain : chains) broken |= address_in(chain) != address;
#elif defined(IN_SHARED)
#pragma unroll
    for (const Chain& chain : chains) broken |= chain.word != operands.place;
#elif defined(NEUTRAL)
#pragma unroll
    for (const Chain& chain : chains) broken |= !unchanged(chain, __float_as_uint(operands.unity));
#endif
    broken = __any_sync(0xffffffff, broken);
#ifdef SILENT
    if (blockIdx.x < last && !broken) return;
#endif
    if (threadIdx.x % MIX_LANES == 0) {
        if (first) report->begin = begin;
        report->end = end;
        report->end_ns = end_ns;
        report->sm = sm;
        report->broken = broken;
        atomicAdd(&barrier->done, 1u);
    }
}
