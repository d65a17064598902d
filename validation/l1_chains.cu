// Kernels of the probes of the L1, compiled by `l1_chains.py`, and what `l1_texture_probe.py` times.
//
// Chains are followed by the first thread of each block, and there is a block for each SM. A word of a chain holds where
// the next one is: its address for loads, its number for texture fetches.

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr u32 MAX_HIT_CYCLES = 192;  // an access that misses takes 230 and more

extern __shared__ u32 missed[];

__device__ __forceinline__ u32 current_sm() {
    u32 number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
}

struct Global {
    typedef u64 Link;
    static __device__ Link load(Link link, u64) {
        Link next;
        asm volatile("ld.global.ca.u64 %0, [%1];" : "=l"(next) : "l"(link) : "memory");
        return next;
    }
};

struct ReadOnly {
    typedef u64 Link;
    static __device__ Link load(Link link, u64) {
        Link next;
        asm volatile("ld.global.nc.u64 %0, [%1];" : "=l"(next) : "l"(link) : "memory");
        return next;
    }
};

struct Texture {
    typedef u32 Link;
    static __device__ Link load(Link link, u64 texture) {
        u32 next;
        asm volatile("tex.1d.v4.u32.s32 {%0, _, _, _}, [%1, {%2}];" : "=r"(next) : "l"(texture), "r"(link) : "memory");
        return next;
    }
};

// Follows a chain for `count` accesses; bit i of `out`, which has `words` words for each SM, states whether access i missed.
template <class Memory>
__device__ void follow(u64 start, u64 texture, u32 count, u32* out, u32 words) {
    __shared__ volatile typename Memory::Link value;
    __shared__ volatile u32 clocks[2];
    typename Memory::Link link = start;
    u32 bits = 0;
    for (u32 i = 0; i < count; ++i) {
        u32 before, after;
        asm volatile("mov.u32 %0, %%clock;" : "=r"(before)::"memory");
        link = Memory::load(link, texture);
        value = link;  // waits for the link
        asm volatile("mov.u32 %0, %%clock;" : "=r"(after)::"memory");
        clocks[0] = before;
        clocks[1] = after;
        bits |= (after - before > MAX_HIT_CYCLES) << i % 32;
        if (i % 32 == 31 || i == count - 1) {
            missed[i / 32] = bits;
            bits = 0;
        }
    }
    if (out) {
        u32* own = out + current_sm() * words;
        for (u32 i = 0; i < (count + 31) / 32; ++i) own[i] = missed[i];
    }
}

extern "C" __global__ void follow_global(u64 start, u64 texture, u32 count, u32* out, u32 words) {
    follow<Global>(start, texture, count, out, words);
}

extern "C" __global__ void follow_readonly(u64 start, u64 texture, u32 count, u32* out, u32 words) {
    follow<ReadOnly>(start, texture, count, out, words);
}

extern "C" __global__ void follow_texture(u64 start, u64 texture, u32 count, u32* out, u32 words) {
    follow<Texture>(start, texture, count, out, words);
}

// Each block loads its own part of an array again and again, as a kernel without shared memory would.
extern "C" __global__ void repeat_loads(u64 array, u64, u32 words, u32 laps, u32* out) {
    const u64 own = array + 4ull * words * blockIdx.x;
    u32 sum = 0;
    for (u32 lap = 0; lap < laps; ++lap) {
#pragma unroll 4
        for (u32 i = threadIdx.x; i < words; i += blockDim.x) {
            u32 value;
            asm volatile("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(own + 4ull * i) : "memory");
            sum += value;
        }
    }
    if (sum == 1) *out = sum;  // never, as the array is zero
}

// The same with texture fetches.
extern "C" __global__ void repeat_fetches(u64, u64 texture, u32 words, u32 laps, u32* out) {
    u32 sum = 0;
    for (u32 lap = 0; lap < laps; ++lap) {
#pragma unroll 4
        for (u32 i = threadIdx.x; i < words; i += blockDim.x) {
            u32 value;
            asm volatile("tex.1d.v4.u32.s32 {%0, _, _, _}, [%1, {%2}];" : "=r"(value) : "l"(texture), "r"(words * blockIdx.x + i) : "memory");
            sum += value;
        }
    }
    if (sum == 1) *out = sum;
}

// Runs with another carve-out than the others.
extern "C" __global__ void change_carveout() {}
