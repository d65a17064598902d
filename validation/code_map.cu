// Probes of the instruction caches of an H200, compiled and run by `code_map_probe.py`.
//
// A visit is a call of a line: 128 bytes of code that begin with a return (patched into the cubin). Its duration shows
// which cache has the line. An address below `CONSTANT_BYTES` is an offset in constant memory, and its visit a load.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

constexpr u32 CONSTANT_BYTES = 65536;

#ifdef LINES

#define TIMES_16(X) X X X X X X X X X X X X X X X X
#define LINE_16 TIMES_16("add.u32 %0, %0, %1;\n\txor.b32 %0, %0, %1;\n\tadd.u32 %0, %0, %1;\n\txor.b32 %0, %0, %1;\n\t" \
                         "add.u32 %0, %0, %1;\n\txor.b32 %0, %0, %1;\n\tadd.u32 %0, %0, %1;\n\txor.b32 %0, %0, %1;\n\t")
#define LINE_256 asm volatile(TIMES_16(LINE_16) : "+r"(x) : "r"(z));

__device__ __noinline__ u32 lines(u32 x, u32 z) {
    TIMES_16(LINE_256) TIMES_16(LINE_256)
    return x;
}

__device__ u32 (*const volatile first_line)(u32, u32) = lines;

extern "C" __global__ void locate(u64* address) { *address = (u64)first_line; }

#else

typedef u32 (*Line)(u32, u32);

__constant__ u32 constants[CONSTANT_BYTES / 4];
__device__ volatile u32 sink;

__device__ __forceinline__ u32 current_sm() {
    u32 number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
}

__device__ __forceinline__ u32 clock_now(u32 after) {
    u32 now;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(now) : "r"(after) : "memory");
    return now;
}

// Cycles of visits, one after the other. The loop has PAD additional lines.
extern "C" __global__ void visit(u32 sm, const u64* list, u32 count, u16* out) {
    extern __shared__ u64 visits[];
    u16* cycles = (u16*)(visits + count);
    if (current_sm() != sm) return;
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) visits[i] = list[i];
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 x = 0;
#pragma unroll 1
        for (u32 i = 0; i < count; i++) {
            u64 address = visits[i];
            u32 before, after;
            if (address < CONSTANT_BYTES) {
                before = clock_now((u32)address);
                x += constants[address / 4];
                after = clock_now(x);
            } else {
                before = clock_now((u32)address);
                x = ((Line)address)(x, i);
                after = clock_now(x);
            }
            cycles[i] = min(after - before, 65535u);
#if PAD > 0
#pragma unroll
            for (u32 j = 0; j < 4 * PAD; j++) asm volatile("add.u32 %0, %0, %1;\n\txor.b32 %0, %0, %1;" : "+r"(x) : "r"(i));
#endif
        }
        sink = x;
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) out[i] = cycles[i];
}

// Cycles of visits, each by a given warp: the upper 16 bits of the entry.
extern "C" __global__ void visit_by_warps(u32 sm, const u64* list, u32 count, u16* out) {
    if (current_sm() != sm) return;
    u32 x = 0;
#pragma unroll 1
    for (u32 i = 0; i < count; i++) {
        u64 address = list[i];
        __syncthreads();
        if (threadIdx.x == address >> 48 << 5) {
            u32 before = clock_now((u32)address);
            x = ((Line)(address & 0xffffffffffff))(x, i);
            out[i] = min(clock_now(x) - before, 65535u);
        }
    }
    sink = x;
}

#endif
