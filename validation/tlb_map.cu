// Kernels of `tlb_map_probe.py`: loads of one thread, timed, and many random loads at once. All bypass the L1.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

constexpr u32 REPEATS = 3, UNROLLED = 8, LONGEST = 65535;
constexpr u64 LINE = 128;

__device__ volatile u32 sink;

__device__ u32 this_sm() {
    u32 number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
}

__device__ u32 load(u64 address) {
    u32 value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

// Latency of a load in cycles; see `l2_map.cu`.
__device__ u32 timed(u64 address) {
    __shared__ volatile u32 value, clocks[2];
    u32 before, after;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(before)::"memory");
    value = load(address);
    asm volatile("mov.u32 %0, %%clock;" : "=r"(after)::"memory");
    clocks[0] = before;
    clocks[1] = after;
    return after - before;
}

// Minimum latency of each line of a list when it is loaded again.
extern "C" __global__ void repeat(u32 sm, const u64* list, u32 count, u16* out) {
    if (this_sm() != sm || threadIdx.x) return;
    for (u32 i = 0; i < count; i++) {
        u32 least = LONGEST;
        sink = load(list[i]);
        for (u32 k = 0; k < REPEATS; k++) least = min(least, timed(list[i]));
        out[i] = least;
    }
}

// Latencies of loads, one after the other.
extern "C" __global__ void follow(u32 sm, const u64* list, u32 count, u16* out) {
    extern __shared__ u64 addresses[];
    u16* cycles = (u16*)(addresses + count);
    if (this_sm() != sm) return;
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) addresses[i] = list[i];
    __syncthreads();
    if (threadIdx.x == 0)
        for (u32 i = 0; i < count; i++) {
            u64 address = addresses[i];
            if (address == 0) sink = 0;  // waits for the address, so that the load below does not
            cycles[i] = min(timed(address), LONGEST);
        }
    __syncthreads();
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) out[i] = cycles[i];
}

// Random loads of the first `lanes` threads of each warp: lines of the first `lines` of a page, of `pages` pages that lie
// 2^shift bytes apart. SMs with window 0 do not load; others start (window - 1) * pages pages later.
extern "C" __global__ void scatter(u64 start, u32 shift, u32 pages, u32 lines, u32 loads, u32 lanes, const u8* windows, u32* out) {
    u32 window = windows[this_sm()];
    if (!window || threadIdx.x % 32 >= lanes) return;
    start += (u64)((window - 1) * pages) << shift;
    u32 state = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u + 12345u, sum = 0;
    state = (state ^ state >> 15) * 2246822519u;
    for (u32 i = 0; i < loads; i += UNROLLED) {
#pragma unroll
        for (u32 j = 0; j < UNROLLED; j++) {
            state = state * 1664525u + 1013904223u;
            u32 page = (state ^ state >> 16) * 2246822519u;
            page ^= page >> 13;
            u32 line = page * 3266489917u;
            u32 value;
            asm volatile("ld.global.cg.u32 %0, [%1];"
                         : "=r"(value)
                         : "l"(start + ((u64)__umulhi(page, pages) << shift) + (u64)__umulhi(line, lines) * LINE));
            sum += value;
        }
    }
    if (sum == 12345) *out = sum;
}

__device__ void wait(u32* turn, u32 awaited) {
    u32 now;
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(turn) : "memory");
    while (now != awaited);
}

__device__ void pass(u32* turn, u32 next) { asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(turn), "r"(next) : "memory"); }

__device__ void load_all(const u64* addresses, u32 count) {
    for (u32 i = 0; i < count; i++) timed(addresses[i]);
}

// The first SM and then the second one load the first `flush` lines of a list. Then the first loads the next `count` lines, unless
// it is to do nothing, and the second one loads `count` others: latency of each when it is loaded first, and again.
extern "C" __global__ void relay(u32 first, u32 second, u32 idle, const u64* list, u32 flush, u32 count, u16* out, u32* turn) {
    extern __shared__ u64 addresses[];
    bool is_first = this_sm() == first, is_second = this_sm() == second;
    if ((!is_first && !is_second) || threadIdx.x) return;
    for (u32 i = 0; i < flush + 2 * count; i++) addresses[i] = list[i];
    if (is_first && !is_second) {
        load_all(addresses, flush);
        pass(turn, 1);
        wait(turn, 2);
        if (!idle) load_all(addresses + flush, count);
        pass(turn, 3);
        return;
    }
    if (!is_first) wait(turn, 1);
    load_all(addresses, flush);
    pass(turn, 2);
    if (!is_first) wait(turn, 3);
    else if (!idle) load_all(addresses + flush, count);
    for (u32 i = 0; i < count; i++) {
        u64 address = addresses[flush + count + i];
        out[2 * i] = min(timed(address), LONGEST);
        out[2 * i + 1] = min(timed(address), LONGEST);
    }
}
