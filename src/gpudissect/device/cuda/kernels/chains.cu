// Writes chains to global memory, many at once: the word at every position holds the link to the next position.
#include "permutation.cuh"

struct ChainSpec {
    u64 region;            // address of offset 0
    u64 origin;            // link to offset 0: address, texel index or 0, by path
    u64 table;             // EXPLICIT: address of the offsets (u64) in order
    u64 picks;             // address of the picked positions (u32), 0 if all are picked
    u64 mark;              // the bit set in the words of picked positions, 0 for none
    u64 stride, start;     // SEQUENTIAL, SHUFFLED: bytes
    u64 first;             // written: the link to the first position
    u32 count;             // links; 0: nothing to write
    u32 pick_count;        // picked positions
    u32 kind;              // SEQUENTIAL, SHUFFLED or EXPLICIT
    u32 seed, half;        // SHUFFLED: seed, bits of one Feistel half
    u32 link_bytes;        // bytes of a link: 8 or 4
    u32 shift;             // a link counts offset >> shift
    u32 reserved;
};

enum Kind : u32 { SEQUENTIAL, SHUFFLED, EXPLICIT };

__device__ u64 offset(const ChainSpec& chain, u32 position) {
    if (chain.kind == EXPLICIT) return reinterpret_cast<const u64*>(chain.table)[position];
    const u32 value = chain.kind == SHUFFLED ? permuted(position, chain.count, chain.half, chain.seed) : position;
    return chain.start + value * chain.stride;
}

// Writes a word unless it is there already. The load brings the whole sector into the L2: a partly written sector would
// be fetched from DRAM when the chase first reads it, and look like a miss of the L2.
template <typename Word>
__device__ void write_word(u64 address, Word word) {
    Word* target = reinterpret_cast<Word*>(address);
    if (__ldcg(target) != word) *target = word;
}

// Changes the carve-out of the SMs, see `ChaseRunner`.
extern "C" __global__ void empty() {}

// blockIdx.y is the chain, the threads of x share its links.
extern "C" __global__ void write_chains(ChainSpec* chains) {
    const ChainSpec chain = chains[blockIdx.y];
    const u64 mark = chain.picks ? 0 : chain.mark;
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < chain.count; i += gridDim.x * blockDim.x) {
        const u64 address = chain.region + offset(chain, i);
        const u64 next = offset(chain, i + 1 == chain.count ? 0 : i + 1);
        const u64 link = (chain.origin + (next >> chain.shift)) | mark;
        if (chain.link_bytes == 8)
            write_word<u64>(address, link);
        else
            write_word<u32>(address, static_cast<u32>(link));
        if (i == 0) chains[blockIdx.y].first = chain.origin + (offset(chain, 0) >> chain.shift);
    }
}

// Writes the links at which `threads` threads begin that share a chain: the first count % threads of them have a link
// more than the others.
extern "C" __global__ void write_starts(const ChainSpec* chains, u64 number, u64* starts, u64 threads) {
    const ChainSpec chain = chains[number];
    const u32 size = chain.count / static_cast<u32>(threads), longer = chain.count % static_cast<u32>(threads);
    for (u32 i = threadIdx.x; i < threads; i += blockDim.x)
        starts[i] = chain.origin + (offset(chain, i * size + min(i, longer)) >> chain.shift);
}

// Marks the picked positions of chains that `write_chains` has written.
extern "C" __global__ void mark_picks(const ChainSpec* chains) {
    const ChainSpec chain = chains[blockIdx.y];
    const u32* picks = reinterpret_cast<const u32*>(chain.picks);
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < chain.pick_count; i += gridDim.x * blockDim.x) {
        const u64 address = chain.region + offset(chain, picks[i]);
        if (chain.link_bytes == 8)
            *reinterpret_cast<u64*>(address) |= chain.mark;
        else
            *reinterpret_cast<u32*>(address) |= static_cast<u32>(chain.mark);
    }
}

// Writes to a buffer several times the L2, so that nothing else is left in it.
extern "C" __global__ void sweep(ulonglong2* buffer, u64 count) {
    for (u64 i = blockIdx.x * static_cast<u64>(blockDim.x) + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        buffer[i] = make_ulonglong2(i, i);
}

// Reads the whole buffer, so that nothing in the L2 has yet to be written to memory. (`result` is written only if a
// word differs from what `sweep` wrote: never.)
extern "C" __global__ void read_back(const ulonglong2* buffer, u64 count, u64* result) {
    u64 difference = 0;
    for (u64 i = blockIdx.x * static_cast<u64>(blockDim.x) + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        difference |= buffer[i].x ^ buffer[i].y;
    if (difference != 0) *result = difference;
}
