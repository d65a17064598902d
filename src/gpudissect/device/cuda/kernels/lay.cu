// Laying rings in global memory, many at once: the word at every position holds the link to the next position.
#include "permutation.cuh"

struct Ring {
    u64 region;            // address of offset 0
    u64 origin;            // link to offset 0: address, texel index or 0, as the path has it
    u64 table;             // EXPLICIT: address of the offsets (u64) in visiting order
    u64 picks;             // address of the picked positions (u32), 0 if all are picked
    u64 mark;              // the bit set in the words of picked positions, 0 for none
    u64 stride, start;     // SEQUENTIAL, SHUFFLED: bytes
    u64 first;             // `lay` writes here the link to the first position
    u32 count;             // links; 0: there is nothing to lay
    u32 pick_count;        // picked positions
    u32 kind;              // SEQUENTIAL, SHUFFLED or EXPLICIT
    u32 seed, half;        // SHUFFLED: seed, bits of one Feistel half
    u32 word;              // bytes of a link: 8 or 4
    u32 shift;             // a link counts offset >> shift
    u32 reserved;
};

enum Kind : u32 { SEQUENTIAL, SHUFFLED, EXPLICIT };

__device__ u64 offset(const Ring& ring, u32 position) {
    if (ring.kind == EXPLICIT) return reinterpret_cast<const u64*>(ring.table)[position];
    const u32 value = ring.kind == SHUFFLED ? permuted(position, ring.count, ring.half, ring.seed) : position;
    return ring.start + value * ring.stride;
}

// Writes a word unless it is there already. The look beforehand brings the whole sector into the L2: a sector written
// only in part would be fetched from DRAM when the chase first reads it, and seem a miss of the L2.
template <typename Word>
__device__ void put(u64 at, Word word) {
    Word* there = reinterpret_cast<Word*>(at);
    if (__ldcg(there) != word) *there = word;
}

// blockIdx.y is the ring, the threads of x share its links.
extern "C" __global__ void lay(Ring* rings) {
    const Ring ring = rings[blockIdx.y];
    const u64 mark = ring.picks ? 0 : ring.mark;
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < ring.count; i += gridDim.x * blockDim.x) {
        const u64 at = ring.region + offset(ring, i);
        const u64 next = offset(ring, i + 1 == ring.count ? 0 : i + 1);
        const u64 link = (ring.origin + (next >> ring.shift)) | mark;
        if (ring.word == 8)
            put<u64>(at, link);
        else
            put<u32>(at, static_cast<u32>(link));
        if (i == 0) rings[blockIdx.y].first = ring.origin + (offset(ring, 0) >> ring.shift);
    }
}

// Marks the picked positions of rings that `lay` has laid.
extern "C" __global__ void mark(const Ring* rings) {
    const Ring ring = rings[blockIdx.y];
    const u32* picks = reinterpret_cast<const u32*>(ring.picks);
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < ring.pick_count; i += gridDim.x * blockDim.x) {
        const u64 at = ring.region + offset(ring, picks[i]);
        if (ring.word == 8)
            *reinterpret_cast<u64*>(at) |= ring.mark;
        else
            *reinterpret_cast<u32*>(at) |= static_cast<u32>(ring.mark);
    }
}

// Writes over a buffer several times the L2, so that nothing else is left in it.
extern "C" __global__ void sweep(ulonglong2* buffer, u64 count) {
    for (u64 i = blockIdx.x * static_cast<u64>(blockDim.x) + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        buffer[i] = make_ulonglong2(i, i);
}

// Reads it all, so that nothing in the L2 has yet to be written to memory. (What is read sums up to nothing.)
extern "C" __global__ void skim(const ulonglong2* buffer, u64 count, u64* sum) {
    u64 found = 0;
    for (u64 i = blockIdx.x * static_cast<u64>(blockDim.x) + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        found |= buffer[i].x ^ buffer[i].y;
    if (found != 0) *sum = found;
}
