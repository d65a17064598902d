// Decodes segments of an entropy coder of the rANS family (Duda 2013, Giesen 2014) with 32 interleaved states: a warp
// per segment, a state per lane. Lanes whose state is small take the next words of the stream, in order of lanes. A
// table of 4096 slots in shared memory has the symbol, its frequency and the place of the slot within the symbol.

constexpr int SLOT_BITS = 12, SLOTS = 1 << SLOT_BITS, THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS)
    rans_decode(const unsigned short *__restrict__ words, const unsigned *__restrict__ first_states,
                const unsigned char *__restrict__ symbols, const unsigned short *__restrict__ frequencies,
                const unsigned short *__restrict__ offsets, unsigned char *__restrict__ out,
                int *__restrict__ words_used, int segments, int capacity, int steps)
{
    __shared__ unsigned table[SLOTS];
    for (int slot = threadIdx.x; slot < SLOTS; slot += THREADS)
        table[slot] = (unsigned)symbols[slot] << 24 | (frequencies[slot] & 0xfffu) << 12 | (offsets[slot] & 0xfffu);
    __syncthreads();

    const int segment = (blockIdx.x * THREADS + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (segment >= segments)
        return;
    const unsigned short *stream = words + (size_t)segment * capacity;
    unsigned char *to = out + (size_t)segment * steps * 32 + lane;
    unsigned state = first_states[segment * 32 + lane];
    int position = 0;
    for (int step = 0; step < steps; step++) {
        unsigned entry = table[state & (SLOTS - 1)];
        to[step * 32] = (unsigned char)(entry >> 24);
        state = (entry >> 12 & 0xfff) * (state >> SLOT_BITS) + (entry & 0xfff);
        bool is_small = state < 1u << 16;
        unsigned small = __ballot_sync(~0u, is_small);
        if (is_small) {
            int place = position + __popc(small & ((1u << lane) - 1));
            state = state << 16 | stream[min(place, capacity - 1)];
        }
        position += __popc(small);
    }
    if (lane == 0)
        words_used[segment] = min(position, capacity);
}
