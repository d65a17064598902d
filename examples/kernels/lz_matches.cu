// Matches of an LZ4-like compressor: a warp has a chunk of 4096 bytes and a table of hashes of four bytes in shared
// memory. It looks at 32 positions at once, takes the first that has a match, and lengthens it, 32 bytes at a time.

constexpr int CHUNK = 4096, LEAST = 4, HASH_BITS = 10, WARPS = 4, NONE = 0xffff;

__device__ unsigned four_bytes(const unsigned char *bytes)
{
    return bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (unsigned)bytes[3] << 24;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
lz_matches(const unsigned char *bytes, unsigned *matches, int *counts)
{
    __shared__ unsigned short tables[WARPS][1 << HASH_BITS];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, chunk = blockIdx.x * WARPS + warp;
    unsigned short *table = tables[warp];
    for (int i = lane; i < 1 << HASH_BITS; i += 32)
        table[i] = NONE;
    __syncwarp();
    bytes += (size_t)chunk * CHUNK;
    matches += (size_t)chunk * (CHUNK / LEAST);
    int count = 0;
    for (int position = 0; position + LEAST <= CHUNK;) {
        int here = position + lane, candidate = NONE;
        bool is_inside = here + LEAST <= CHUNK, is_match = false;
        unsigned hash = 0;
        if (is_inside) {
            unsigned word = four_bytes(bytes + here);
            hash = word * 2654435761u >> 32 - HASH_BITS;
            candidate = table[hash];
            is_match = candidate != NONE && four_bytes(bytes + candidate) == word;
        }
        unsigned found = __ballot_sync(~0u, is_match);
        int first = found ? __ffs(found) - 1 : 31;
        bool is_entered = is_inside && lane <= first;
        unsigned same = __match_any_sync(~0u, is_entered ? hash : 1u << HASH_BITS | lane);
        if (is_entered && lane == 31 - __clz(same))
            table[hash] = here;
        __syncwarp();
        if (!found) {
            position += 32;
            continue;
        }
        position += first;
        candidate = __shfl_sync(~0u, candidate, first);
        int length = LEAST;
        for (;;) {
            int offset = length + lane;
            bool is_equal = position + offset < CHUNK && bytes[candidate + offset] == bytes[position + offset];
            unsigned different = __ballot_sync(~0u, !is_equal);
            if (different) {
                length += __ffs(different) - 1;
                break;
            }
            length += 32;
        }
        if (lane == 0)
            matches[count] = length << 16 | position - candidate;
        count++;
        position += length;
    }
    if (lane == 0)
        counts[chunk] = count;
}
