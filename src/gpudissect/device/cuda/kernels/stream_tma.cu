// One thread of each block keeps `depth` bulk copies of `width` bytes from global into shared memory in flight, and
// awaits them in order. Copy number c of a pass belongs to block c mod blocks.
#include "stream.cuh"

extern __shared__ __align__(128) u64 stages[];  // `depth` buffers, then as many mbarriers

// Writes the footprint: every 8-byte word holds its byte offset plus one, so that no word is 0.
extern "C" __global__ void fill(u64* to, u64 words) {
    for (u64 i = blockIdx.x * static_cast<u64>(blockDim.x) + threadIdx.x; i < words; i += gridDim.x * blockDim.x)
        to[i] = 8 * i + 1;
}

__device__ __forceinline__ void start_copy(u32 to, u64 from, u32 bytes, u32 barrier) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%3], %2;\n\t"
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        ::"r"(to), "l"(from), "r"(bytes), "r"(barrier)
        : "memory");
}

__device__ __forceinline__ void await_copy(u32 barrier, u32 parity) {
    asm volatile(
        "{\n\t"
        ".reg .pred done;\n"
        "wait:\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
        "@!done bra wait;\n\t"
        "}" ::"r"(barrier), "r"(parity)
        : "memory");
}

__device__ __forceinline__ u64 last_word(u32 buffer, u32 bytes) {
    u64 word;
    asm volatile("ld.shared.u64 %0, [%1];" : "=l"(word) : "r"(buffer + bytes - 8) : "memory");
    return word;
}

// Byte offsets of a block's copies in order, pass after pass.
struct Offsets {
    u64 next, first, step, footprint;

    __device__ u64 take() {
        const u64 offset = next;
        next += step;
        if (next >= footprint) next = first;
        return offset;
    }
};

// Cycles through the stages; the parity of a stage's barrier changes with every cycle.
struct StageCounter {
    u32 stage, parity, depth;

    __device__ void advance() {
        if (++stage == depth) {
            stage = 0;
            parity ^= 1;
        }
    }
};

extern "C" __global__ void __launch_bounds__(1)
    stream_tma(u64 source, StreamReport* reports, u64 footprint, u64 passes, u64 width_, u64 depth_) {
    const u32 width = static_cast<u32>(width_), depth = static_cast<u32>(depth_);
    const u32 buffers = static_cast<u32>(__cvta_generic_to_shared(stages)), barriers = buffers + depth * width;
#pragma unroll 1
    for (u32 i = 0; i < depth; ++i)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers + 8 * i) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");

    const u64 first = static_cast<u64>(blockIdx.x) * width, step = static_cast<u64>(gridDim.x) * width;
    const u64 copies = first < footprint ? passes * ((footprint - first + step - 1) / step) : 0;
    Offsets started{first, first, step, footprint}, awaited = started;
    StageCounter current{0, 0, depth};
    u64 left = copies, wrong = 0;
    const u64 begin = timer_ns(), begin_cycles = sm_cycles();
#pragma unroll 1
    for (u32 i = 0; i < depth && left != 0; ++i, --left)
        start_copy(buffers + i * width, source + started.take(), width, barriers + 8 * i);
#pragma unroll 1
    for (u64 n = 0; n < copies; ++n) {
        const u32 buffer = buffers + current.stage * width, barrier = barriers + 8 * current.stage;
        await_copy(barrier, current.parity);
        wrong += last_word(buffer, width) != awaited.take() + width - 7;
        if (left != 0) {
            start_copy(buffer, source + started.take(), width, barrier);
            --left;
        }
        current.advance();
    }
    // All copies are checked before the end is read.
    const u32 any = __syncthreads_or(wrong != 0);
    const u64 end = timer_ns(), end_cycles = sm_cycles();
    StreamReport* const report = reports + blockIdx.x;
    write_report(report, begin, end, end_cycles - begin_cycles, 0);
    report->sum = any ? wrong : 0;
}
