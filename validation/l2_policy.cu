// Probes of the replacement and coherence of the L2 of an H200, compiled and run by `l2_policy_probe.py`.
//
// An operation is a word: the number of a line in a list, plus 64 times one of `Operation`. Memory operations bypass the
// L1, and each one is complete before the next one begins.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

constexpr u32 LINE = 128, WAYS = 16, LISTED = 64, FAR_CYCLES = 385, MEMORY_CYCLES = 530, NOT_NEAR = 0xffffffff;

enum Operation {
    LOAD, LOAD_FIRST, LOAD_LAST, LOAD_UNCHANGED, LOAD_OTHER_SECTOR, STORE_SECTOR, STORE_WORD, REDUCTION, ATOMIC, DISCARD, PREFETCH,
    STORE_FIRST, STORE_LAST, STORE_UNCHANGED, STORE_REST, LOAD_NEXT_SECTOR
};

__device__ volatile u32 sink;

__device__ __forceinline__ u32 current_sm() {
    u32 number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
}

// The assembler merges weak loads of one address, but not relaxed ones.
__device__ __forceinline__ u32 load(const u8* address) {
    u32 value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

__device__ __forceinline__ u32 load(const u8* address, u64 policy) {
    u32 value;
    asm volatile("ld.relaxed.gpu.global.L2::cache_hint.u32 %0, [%1], %2;" : "=r"(value) : "l"(address), "l"(policy) : "memory");
    return value;
}

__device__ __forceinline__ u32 add(u8* address) {
    u32 value;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(value) : "l"(address) : "memory");
    return value;
}

// Latency in cycles. The store waits for the value, and the second clock is read after it. Both clocks are stored, too:
// otherwise the assembler may read one through the uniform datapath, which does not wait.
template <class Access>
__device__ __forceinline__ u32 timed(Access access) {
    __shared__ volatile u32 value, clocks[2];
    u32 before, after;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(before)::"memory");
    value = access();
    asm volatile("mov.u32 %0, %%clock;" : "=r"(after)::"memory");
    clocks[0] = before;
    clocks[1] = after;
    return after - before;
}

struct Policies {
    u64 first, last, unchanged;
};

__device__ Policies policies() {
    Policies all;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(all.first));
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(all.last));
    asm volatile("createpolicy.fractional.L2::evict_unchanged.b64 %0, 1.0;" : "=l"(all.unchanged));
    return all;
}

// One operation of a warp: cycles of a load or an atomic operation, otherwise 0.
__device__ __noinline__ u32 operate(u32 operation, u8* line, const Policies& policies) {
    u32 lane = threadIdx.x, cycles = 0;
    if (operation == STORE_SECTOR && lane < 2)
        asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(line + 16 * lane), "r"(lane) : "memory");
    if (operation >= STORE_FIRST && operation <= STORE_UNCHANGED && lane < 2) {
        u64 policy = operation == STORE_FIRST ? policies.first : operation == STORE_LAST ? policies.last : policies.unchanged;
        asm volatile("st.relaxed.gpu.global.L2::cache_hint.v4.u32 [%0], {%1, %1, %1, %1}, %2;" ::"l"(line + 16 * lane), "r"(lane), "l"(policy) : "memory");
    }
    if (operation == STORE_REST && lane > 0 && lane < 8)
        asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(line + 4 * lane), "r"(lane) : "memory");
    if (lane == 0) switch (operation) {
            case LOAD: cycles = timed([&] { return load(line); }); break;
            case LOAD_FIRST: cycles = timed([&] { return load(line, policies.first); }); break;
            case LOAD_LAST: cycles = timed([&] { return load(line, policies.last); }); break;
            case LOAD_UNCHANGED: cycles = timed([&] { return load(line, policies.unchanged); }); break;
            case LOAD_OTHER_SECTOR: cycles = timed([&] { return load(line + 64); }); break;
            case LOAD_NEXT_SECTOR: cycles = timed([&] { return load(line + 32); }); break;
            case STORE_WORD: asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(line), "r"(operation) : "memory"); break;
            case REDUCTION: asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(line), "r"(operation) : "memory"); break;
            case ATOMIC: cycles = timed([&] { return add(line); }); break;
            case PREFETCH: asm volatile("prefetch.global.L2 [%0];" ::"l"(line) : "memory"); break;
            case DISCARD: asm volatile("discard.global.L2 [%0], 128;" ::"l"(line) : "memory"); break;
        }
    if (operation >= STORE_SECTOR && operation != LOAD_NEXT_SECTOR) __threadfence();
    __syncwarp();
    return min(cycles, 65535u);
}

// Operations of one warp; results in the place of their words, so that the probe stores nothing meanwhile.
extern "C" __global__ void operations(u32 sm, u8* memory, const u32* lines, const u16* words, u32 count, u16* out, u32* ran) {
    extern __shared__ u16 buffer[];
    __shared__ u32 held[LISTED];
    if (current_sm() != sm) return;
    for (u32 i = threadIdx.x; i < count; i += 32) buffer[i] = words[i];
    for (u32 i = threadIdx.x; i < LISTED; i += 32) held[i] = lines[i];
    __syncwarp();
    Policies all = policies();
    for (u32 i = 0; i < count; i++) {
        u32 word = buffer[i], cycles = operate(word / LISTED, memory + (u64)held[word % LISTED] * LINE, all);
        if (threadIdx.x == 0) buffer[i] = cycles;
        __syncwarp();
    }
    for (u32 i = threadIdx.x; i < count; i += 32) out[i] = buffer[i];
    if (threadIdx.x == 0) *ran = 1;
}

// Operations of two SMs in turn: those of the second one have 1024 added to their words.
extern "C" __global__ void turns(u32 sm, u32 other, u8* memory, const u32* lines, const u16* words, u32 count, u16* out, u32* ran, u32* turn) {
    u32 own = current_sm() == other;
    if (current_sm() != sm && !own) return;
    Policies all = policies();
    for (u32 i = 0; i < count; i++) {
        u32 word = words[i], now;
        if (word / 1024 != own) continue;
        do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(turn) : "memory");
        while (now != i);
        u32 cycles = operate(word % 1024 / LISTED, memory + (u64)lines[word % LISTED] * LINE, all);
        if (threadIdx.x == 0) {
            out[i] = cycles;
            asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(turn), "r"(i + 1) : "memory");
        }
        __syncwarp();
    }
    if (threadIdx.x == 0) atomicAdd(ran, 1);
}

// A 32-bit hash of a number, as in `l2_map.py`.
__device__ u32 hash(u64 number) {
    number ^= number >> 33;
    number *= 0xff51afd7ed558ccdull;
    number ^= number >> 33;
    number *= 0xc4ceb9fe1a85ec53ull;
    number ^= number >> 33;
    return (u32)(number >> 20);
}

// Random loads of lines a step apart; two bits each: 0 near, 1 the other partition, 2 memory.
extern "C" __global__ void scattered(u32 sm, const u8* memory, u32 step, u32 count, u32 accesses, u32* out, u32* ran) {
    extern __shared__ u32 outcomes[];
    if (current_sm() != sm || threadIdx.x) return;
    u32 word = 0;
    for (u32 i = 0; i < accesses; i++) {
        u32 line = ((u64)hash(i + (1ull << 40)) * count >> 32) * step;
        u32 cycles = timed([&] { return load(memory + (u64)line * LINE); });
        word |= (cycles <= FAR_CYCLES ? 0u : cycles <= MEMORY_CYCLES ? 1u : 2u) << (2 * (i & 15));
        if ((i & 15) == 15) outcomes[i / 16] = word, word = 0;
    }
    for (u32 i = 0; i < accesses / 16; i++) out[i] = outcomes[i];
    *ran = 1;
}

// How often each set of a partition lost its least recently used line in a time. SMs near to it watch a part of its sets each.
extern "C" __global__ void watch(const u32* places, u32 watching, u8* memory, const u32* lines, u32 sets, u64 nanoseconds, u32 rounds, u32* out, u32* ran) {
    extern __shared__ u32 held[];
    u32 place = places[current_sm()];
    if (place == NOT_NEAR) return;
    u32 own = (sets - place + watching - 1) / watching, *lost = held + own * WAYS;
    for (u32 i = threadIdx.x; i < own * WAYS; i += blockDim.x) held[i] = lines[(place + i / WAYS * watching) * WAYS + i % WAYS];
    for (u32 i = threadIdx.x; i < own; i += blockDim.x) lost[i] = 0;
    __syncthreads();
    for (u32 round = 0; round < rounds; round++) {
        for (u32 i = 0; i < 2 * WAYS; i++) {
            u32 sum = 0;
            for (u32 j = threadIdx.x; j < own; j += blockDim.x) sum += load(memory + (u64)held[j * WAYS + i % WAYS] * LINE);
            if (sum == 1) sink = sum;
            __threadfence();
            __syncthreads();
        }
        u64 start, now;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start)::"memory");
        do {
            __nanosleep(2000);
            asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
        } while (now - start < nanoseconds);
        __syncthreads();
        if (threadIdx.x == 0)
            for (u32 i = 0; i < own; i++) lost[i] += timed([&] { return load(memory + (u64)held[i * WAYS] * LINE); }) > FAR_CYCLES;
        __syncthreads();
    }
    for (u32 i = threadIdx.x; i < own; i += blockDim.x) out[place + i * watching] = lost[i];
    if (threadIdx.x == 0) atomicAdd(ran, 1);
}
