// A dependent pointer chase by one thread, in the three timings. See path.cuh for the load itself.
//
// Every timed window is one asm statement, and tests/sass checks for every architecture that the machine code between
// its two clock reads is exactly this.
//
// There is no separate warm-up loop: the laps before timing run the same code, and their records fall outside the
// window of slots (see Window). So nothing can be deleted as unused, the code is in the instruction cache when timing
// starts, and a lap before timing treats the caches exactly as a timed one.
#ifdef PATH_CLUSTER
#include "cluster.cuh"
#endif
#include "clocks.cuh"
#include "path.cuh"
#include "on_sm.cuh"
#include "prior.cuh"

extern __shared__ __align__(16) u64 dynamic[];

// ---- Recording -------------------------------------------------------------------------------------------------
__device__ __forceinline__ u32 shared_base() { return static_cast<u32>(__cvta_generic_to_shared(dynamic)); }

__device__ __forceinline__ void store32(u32 address, u32 value) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

__device__ __forceinline__ void store64(u32 address, u64 value) {
    asm volatile("st.shared.u64 [%0], %1;" ::"r"(address), "l"(value) : "memory");
}

__device__ __forceinline__ u64 load64(u32 address) {
    u64 value;
    asm volatile("ld.shared.u64 %0, [%1];" : "=l"(value) : "r"(address) : "memory");
    return value;
}

// Records are numbered; a launch keeps those in [0, slots). Earlier ones go to the first slot, which record 0
// overwrites, later ones to a spare slot behind the last. Hence no branch.
struct Window {
    u32 base;    // address of the slots in shared memory
    i32 number;  // of the next record
    i32 slots;

    __device__ Window(const Job& job)
        : base(shared_base() + job.slots_offset), number(job.first), slots(static_cast<i32>(job.slots)) {
#pragma unroll 4
        for (u32 i = 0; i <= job.slots; ++i) store64(base + 8 * i, 0);
    }

    __device__ u32 slot() const { return base + 8 * min(max(number, 0), slots); }
};

#ifndef PATH_CODE  // for that see code.cuh
// ---- The timed windows -----------------------------------------------------------------------------------------
// One access: clock, load, store of the loaded link to shared memory, clock. The store needs the link and
// instructions issue in order, so the second clock read waits for the load. Returns the cycles.
//
// Before the window, a read of shared memory waits for all earlier stores: otherwise the timed load queues behind them
// and takes 16 cycles longer. The loop around that read, never taken (the slots are cleared at the start), keeps the
// assembler from moving the window before it. Then follows the load that never runs, see path.cuh. So the window adds 2
// cycles to what a lap takes per load, 11 on the texture path (H200).
//
// After the window both clocks are stored, only to be overwritten: a stored value needs an ordinary register; otherwise
// the assembler would read one of the two clocks through the uniform datapath, at another cost.
__device__ __forceinline__ u32 timed_load(Link& link, u64 texture, u32 slot) {
    u32 cycles;
    asm volatile(
        "{\n\t"
        ".reg .u32 before, after, idle, value;\n\t"
        ".reg .pred never, more;\n\t"
        "mov.u32 idle, %3;\n\t"
        "setp.ne.u32 never, %3, 0;\n"
        "settle:\n\t"
        "ld.volatile.shared.u32 value, [%4+4];\n\t"
        "setp.eq.u32 more, value, 0xffffffff;\n\t"
        "@more bra settle;\n\t"
        NEVER_LOAD
        "mov.u32 before, %%clock;\n\t"
        LOAD
        "st.shared.u32 [%4], %0;\n\t"
        "mov.u32 after, %%clock;\n\t"
        "st.volatile.shared.u32 [%4+4], before;\n\t"
        "st.volatile.shared.u32 [%4+4], after;\n\t"
        "sub.u32 %1, after, before;\n\t"
        "add.u32 %1, %1, idle;\n\t"
        "st.volatile.shared.u32 [%4+4], %1;\n\t"
        "}"
        : "+" LINK(link), "=r"(cycles)
        : "l"(texture), "r"(threadIdx.x), "r"(slot)
        : "memory");
    return cycles;
}

// A lap: clock, `count` loads, store, clock. Between the loads there is only loop control, every 16 loads; it waits for
// no load, so it overlaps one. A remainder of `count` by 16 runs in a loop of single loads, which the fastest loads do
// not hide (shared memory, H200: 8 cycles a load). (The loops are PTX because the compiler would copy the link between
// two iterations, and a copy waits. With 4 to 8 loads an iteration the assembler does so, too.)
__device__ __forceinline__ u64 timed_lap(Link& link, u64 texture, u32 count, u32 slot) {
    u64 cycles;
    asm volatile(
        "{\n\t"
        ".reg .u64 before, after;\n\t"
        ".reg .u32 sixteens, rest;\n\t"
        ".reg .pred none, even, more;\n\t"
        "shr.u32 sixteens, %5, 4;\n\t"
        "and.b32 rest, %5, 15;\n\t"
        "setp.eq.u32 none, sixteens, 0;\n\t"
        "setp.eq.u32 even, rest, 0;\n\t"
        "mov.u64 before, %%clock64;\n\t"
#ifndef PATH_NOTHING
        "@none bra remainder;\n"
        "sixteen:\n\t"
        ".pragma \"nounroll\";\n\t"
        LOAD LOAD LOAD LOAD LOAD LOAD LOAD LOAD LOAD LOAD LOAD LOAD LOAD LOAD LOAD LOAD
        "sub.u32 sixteens, sixteens, 1;\n\t"
        "setp.ne.u32 more, sixteens, 0;\n\t"
        "@more bra sixteen;\n"
        "remainder:\n\t"
        "@even bra done;\n"
        "one:\n\t"
        ".pragma \"nounroll\";\n\t"
        LOAD
        "sub.u32 rest, rest, 1;\n\t"
        "setp.ne.u32 more, rest, 0;\n\t"
        "@more bra one;\n"
        "done:\n\t"
#endif
        "st.shared.u32 [%4], %0;\n\t"
        "mov.u64 after, %%clock64;\n\t"
        "st.volatile.shared.u64 [%4], before;\n\t"
        "st.volatile.shared.u64 [%4], after;\n\t"
        "sub.u64 %1, after, before;\n\t"
        "}"
        : "+" LINK(link), "=l"(cycles)
        : "l"(texture), "r"(threadIdx.x), "r"(slot), "r"(count)
        : "memory");
    return cycles;
}
#endif

// Removes the mark of a link; returns whether it was set. The link stays in its register: a copy of its upper half
// would wait for the load, and the assembler tends to put such a copy inside the window.
__device__ __forceinline__ bool unmark(Link& link) {
#ifdef PATH_NOTHING
    return true;
#else
    Link mark;
    asm volatile("and" BITS " %0, %1, %2;" : "=" LINK(mark) : LINK(link), "n"(MARK));
    link ^= mark;
    return static_cast<u32>(mark) != 0;
#endif
}

// ---- Before and after ------------------------------------------------------------------------------------------
// Returns whether this is the timed thread: after all prior accesses; if it is on the required SM; in a cluster, once
// the chain is there.
__device__ __forceinline__ bool ready(const Job* jobs, const Job& job, u64 texture) {
#if defined(ON_SM)
#ifdef PRIOR
    const u32 sm = sm_number();
    const bool is_helper = sm != job.sm && makes_prior(job.prior, job.prior_count, sm);
    if (!is_helper && !__syncthreads_or(thread_index() == 0 && takes_job(jobs, job))) return false;
    run_prior(job.prior, job.prior_count, sm, texture);
    return !is_helper && thread_index() == 0;
#else
    return takes_job(jobs, job);
#endif
#elif defined(PRIOR)
    run_prior(job.prior, job.prior_count, blockIdx.x, texture);
    return blockIdx.x == 0 && thread_index() == 0;
#elif defined(PATH_CLUSTER)
    return join_cluster(job, dynamic);
#else
    return true;
#endif
}

struct Tick {
    u64 cycles, ns;
};

// Both clocks, read just after a step of the global timer.
__device__ __forceinline__ Tick tick() {
    const u64 ns = next_ns();
    return {sm_cycles(), ns};
}

// The first link. Adding the thread's index, always 0, prevents the uniform datapath and its caches: to the compiler, a
// link may differ from lane to lane.
__device__ __forceinline__ Link begin(const Job& job) {
#if defined(PATH_NOTHING)
    return 0;
#elif defined(PATH_CODE)
    return threadIdx.x;  // 0, known only at run time
#else
    Link start = static_cast<Link>(__ldcg(reinterpret_cast<const u64*>(job.start))) + 8 * threadIdx.x;
#ifdef PATH_SHARED
    const u32 base = shared_base();
    const u32* chain = reinterpret_cast<const u32*>(job.chain);
#pragma unroll 8
    for (u32 i = 0; i < job.chain_bytes / 4; ++i) store32(base + 4 * i, __ldcg(chain + i) + base);
    start += base;
#elif defined(PATH_CLUSTER)
    start += window_of(dynamic, job.peer);
#elif defined(PATH_TMA)
    init_barrier();
#endif
    return start;
#endif
}

// Minimum lifetime of a block in cycles, so that the clock rate is accurate to one part in a thousand.
#define MIN_LIFETIME 100000

__device__ __forceinline__ void finish(const Job& job, Link start, Link end, u32 slots_base, Tick begin_tick) {
    while (sm_cycles() - begin_tick.cycles < MIN_LIFETIME) {
    }
    const Tick end_tick = tick();
    Report* report = reinterpret_cast<Report*>(job.results);
    u64* slots = reinterpret_cast<u64*>(report + 1);
#pragma unroll 4
    for (u32 i = 0; i < job.slots; ++i) slots[i] = load64(slots_base + 8 * i);
    u64 base = 0;
#if defined(PATH_SHARED)
    base = shared_base();
#elif defined(PATH_CLUSTER)
    base = window_of(dynamic, job.peer);
#endif
    report->start = start - base;
    report->end = end - base;
    report->base = base;
    report->sm = sm_number();
    report->cycles = end_tick.cycles - begin_tick.cycles;
    report->ns = end_tick.ns - begin_tick.ns;
#ifdef PATH_CLUSTER
    cluster_barrier();
#endif
}

// ---- The kernels: one-thread blocks, one job a block (but see on_sm.cuh and prior.cuh)
// ------------------------------- The loops count down by job.one because the assembler unrolls a loop of known length,
// pragma or not.

// With prior accesses to code, which is long, only the kernel that is needed is compiled.
#if !defined(PATH_CODE) && (!defined(PRIOR_CODE) || defined(TIMING_EACH))
// EACH: a record holds the loaded link (low 32 bits, with its mark) and, above it, the cycles. Links of positions that
// are not picked have no mark, and the next record overwrites theirs.
extern "C" __global__ void chase_each(const Job* jobs, u64 texture) {
    const Job job = fetch(jobs);
    if (job.laps == 0 || !ready(jobs, job, texture)) return;
    const Tick begin_tick = tick();
    Window window(job);
    const Link start = begin(job);
    Link link = start;
    u32 slot = window.slot();
#pragma unroll 1
    for (u32 left = job.count * job.laps; left != 0; left -= job.one) {
        timed_load(link, texture, slot);
        window.number += unmark(link);
        slot = window.slot();
    }
    finish(job, start, link, window.base, begin_tick);
}
#endif

#if !defined(PATH_CODE) && (!defined(PRIOR_CODE) || defined(TIMING_COUNT))
// COUNT: a record holds the hits of a lap (low 32 bits) and, above them, its misses.
extern "C" __global__ void chase_count(const Job* jobs, u64 texture) {
    const Job job = fetch(jobs);
    if (job.laps == 0 || !ready(jobs, job, texture)) return;
    const Tick begin_tick = tick();
    Window window(job);
    const Link start = begin(job);
    Link link = start;
    u32 slot = window.slot();
#pragma unroll 1
    for (u32 lap = 0; lap != job.laps; ++lap) {
        u32 hits = 0, misses = 0;
#pragma unroll 1
        for (u32 left = job.count; left != 0; left -= job.one) {
            const u32 cycles = timed_load(link, texture, slot);
            hits += cycles <= job.hit_max;
            misses += cycles >= job.miss_min && cycles <= job.miss_max;
        }
        store64(slot, static_cast<u64>(misses) << 32 | hits);
        ++window.number;
        slot = window.slot();
    }
    finish(job, start, link, window.base, begin_tick);
}
#endif

#if !defined(PRIOR_CODE) || defined(TIMING_LAP)
// LAP: a record holds the cycles of a lap.
extern "C" __global__ void chase_lap(const Job* jobs, u64 texture) {
    const Job job = fetch(jobs);
    if (job.laps == 0 || !ready(jobs, job, texture)) return;
    const Tick begin_tick = tick();
    Window window(job);
    const Link start = begin(job);
    Link link = start;
    u32 slot = window.slot();
#pragma unroll 1
    for (u32 lap = 0; lap != job.laps; ++lap) {
        const u64 cycles = timed_lap(link, texture, job.count, slot);
        store64(slot, cycles);
        ++window.number;
        slot = window.slot();
    }
    finish(job, start, link, window.base, begin_tick);
}
#endif
