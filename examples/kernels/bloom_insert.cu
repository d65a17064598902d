// Inserts keys into a Bloom filter (Bloom 1970), one key per thread: the positions of its bits follow from the two
// halves of a hash (Kirsch and Mitzenmacher 2006). The number of bits is a power of two.

__device__ unsigned long long mix(unsigned long long key)
{
    key ^= key >> 33;
    key *= 0xff51afd7ed558ccdull;
    key ^= key >> 33;
    key *= 0xc4ceb9fe1a85ec53ull;
    return key ^ (key >> 33);
}

extern "C" __global__ void bloom_insert(const unsigned long long *keys, unsigned *filter, int n, int hashes,
                                        unsigned bit_mask)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned long long hash = mix(keys[i]);
    unsigned position = (unsigned)hash;
    unsigned increment = (unsigned)(hash >> 32) | 1;
    for (int j = 0; j < hashes; j++) {
        unsigned bit = position & bit_mask;
        atomicOr(&filter[bit / 32], 1u << (bit % 32));
        position += increment;
    }
}
