// Look-up in a hash table with open addressing and linear probing: a random access, then a loop of random length.
// Multiples of 4 are empty slots, so that a table of random numbers is 3/4 full. The table has 2^(32 - shift) slots.

constexpr unsigned NOT_FOUND = ~0u, MAX_PROBES = 64;

extern "C" __global__ void hash_table(const unsigned *table, const unsigned *keys, unsigned *slots, int n, int shift)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    unsigned key = keys[i] | 1, last = ~0u >> shift, slot = key * 2654435761u >> shift, found = NOT_FOUND;
#pragma unroll 1
    for (int probe = 0; probe < MAX_PROBES; probe++) {
        unsigned entry = table[slot];
        if (entry == key)
            found = slot;
        if (entry == key || entry % 4 == 0)
            break;
        slot = slot + 1 & last;
    }
    slots[i] = found;
}
