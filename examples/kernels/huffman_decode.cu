// Decodes chunks of a stream of prefix codes with a table of 1024 entries in shared memory: a thread per chunk of
// 32 words. Codes have 2 to 9 bits.

constexpr int WINDOW_BITS = 10;
constexpr int TABLE_SIZE = 1 << WINDOW_BITS;
constexpr int CHUNK_WORDS = 32;
constexpr int SLOT_WORDS = CHUNK_WORDS * 32 / 2 / 4;

extern "C" __global__ void huffman_decode(const unsigned *__restrict__ stream,
                                          const unsigned short *__restrict__ table,
                                          unsigned *__restrict__ symbols, unsigned short *__restrict__ counts,
                                          int chunks)
{
    __shared__ unsigned short entries[TABLE_SIZE];
    for (int i = threadIdx.x; i < TABLE_SIZE; i += blockDim.x)
        entries[i] = table[i];
    __syncthreads();

    int chunk = blockIdx.x * blockDim.x + threadIdx.x;
    if (chunk >= chunks)
        return;
    const unsigned *words = stream + (size_t)chunk * CHUNK_WORDS;
    unsigned *out = symbols + (size_t)chunk * SLOT_WORDS;

    unsigned long long buffer = 0;
    int available = 0, next_word = 0, count = 0;
    unsigned pending = 0;
    while (true) {
        if (available < WINDOW_BITS && next_word < CHUNK_WORDS) {
            buffer |= (unsigned long long)words[next_word++] << (32 - available);
            available += 32;
        }
        unsigned entry = entries[buffer >> (64 - WINDOW_BITS)];
        int length = 2 + ((entry >> 8) & 7);
        if (length > available)
            break;
        buffer <<= length;
        available -= length;
        pending |= (entry & 255) << (8 * (count & 3));
        if ((++count & 3) == 0) {
            out[count / 4 - 1] = pending;
            pending = 0;
        }
    }
    if (count & 3)
        out[count / 4] = pending;
    counts[chunk] = count;
}
