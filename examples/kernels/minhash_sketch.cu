// MinHash sketches of DNA sequences: a block hashes the canonical 21-mers of one and keeps the least hash of each bin.

typedef unsigned long long u64;

constexpr int K = 21;
constexpr int BINS = 1024;
constexpr int KMERS_PER_THREAD = 32;
constexpr u64 KMER_MASK = (1ull << 2 * K) - 1;

__device__ __forceinline__ u64 murmur_mix(u64 key)
{
    key ^= key >> 33;
    key *= 0xff51afd7ed558ccdull;
    key ^= key >> 33;
    key *= 0xc4ceb9fe1a85ec53ull;
    key ^= key >> 33;
    return key;
}

// Sequences have two bits per base, in slots of `slot_words` words.
extern "C" __global__ void minhash_sketch(const unsigned *__restrict__ sequences, const int *__restrict__ lengths,
                                          unsigned *__restrict__ sketches, int slot_words)
{
    __shared__ unsigned minima[BINS];
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x)
        minima[bin] = 0xffffffffu;
    __syncthreads();

    const unsigned *words = sequences + (size_t)blockIdx.x * slot_words;
    const int kmers = min(lengths[blockIdx.x], slot_words * 16) - K + 1;
    for (int first = threadIdx.x * KMERS_PER_THREAD; first < kmers; first += blockDim.x * KMERS_PER_THREAD) {
        const int end = min(first + KMERS_PER_THREAD, kmers) + K - 1;
        u64 forward = 0, reverse = 0;
        unsigned word = 0;
        for (int i = first; i < end; i++) {
            if (i % 16 == 0)
                word = words[i / 16];
            u64 base = word >> 2 * (i % 16) & 3;
            forward = (forward << 2 | base) & KMER_MASK;
            reverse = reverse >> 2 | (3 - base) << 2 * (K - 1);
            if (i < first + K - 1)
                continue;
            u64 hash = murmur_mix(forward < reverse ? forward : reverse);
            unsigned bin = (unsigned)(hash >> 54);
            unsigned rest = (unsigned)(hash >> 22);
            if (rest < minima[bin])
                atomicMin(&minima[bin], rest);
        }
    }
    __syncthreads();

    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x)
        sketches[(size_t)blockIdx.x * BINS + bin] = minima[bin];
}
