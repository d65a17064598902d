// One thread of each block has bulk copies of `width` bytes from global into shared memory under way, `depth` at a
// time, and awaits them in their order. Copy number c of a pass goes to block c mod blocks.
#include "stream.cuh"

extern __shared__ __align__(128) u64 stages[];  // `depth` buffers, then as many mbarriers

// What the footprint holds: every 8-byte word its own byte offset and one, so that no word is 0.
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
        ".reg .pred here;\n"
        "come:\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 here, [%0], %1;\n\t"
        "@!here bra come;\n\t"
        "}" ::"r"(barrier), "r"(parity)
        : "memory");
}

__device__ __forceinline__ u64 last_word(u32 buffer, u32 bytes) {
    u64 word;
    asm volatile("ld.shared.u64 %0, [%1];" : "=l"(word) : "r"(buffer + bytes - 8) : "memory");
    return word;
}

// Byte offsets of a block's copies, one after the other, pass after pass.
struct Offsets {
    u64 next, first, step, footprint;

    __device__ u64 take() {
        const u64 taken = next;
        next += step;
        if (next >= footprint) next = first;
        return taken;
    }
};

// Stages in turn; the parity of a stage's barrier changes every time round.
struct Turn {
    u32 stage, parity, depth;

    __device__ void pass() {
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
    Turn turn{0, 0, depth};
    u64 left = copies, wrong = 0;
    const u64 begin = timer_ns(), born = sm_cycles();
#pragma unroll 1
    for (u32 i = 0; i < depth && left != 0; ++i, --left)
        start_copy(buffers + i * width, source + started.take(), width, barriers + 8 * i);
#pragma unroll 1
    for (u64 n = 0; n < copies; ++n) {
        const u32 buffer = buffers + turn.stage * width, barrier = barriers + 8 * turn.stage;
        await_copy(barrier, turn.parity);
        wrong += last_word(buffer, width) != awaited.take() + width - 7;
        if (left != 0) {
            start_copy(buffer, source + started.take(), width, barrier);
            --left;
        }
        turn.pass();
    }
    // Whether all was right must be known before the end is read.
    const u32 any = __syncthreads_or(wrong != 0);
    const u64 end = timer_ns(), died = sm_cycles();
    StreamReport* const report = reports + blockIdx.x;
    tell(report, begin, end, died - born, 0);
    report->sum = any ? wrong : 0;
}
