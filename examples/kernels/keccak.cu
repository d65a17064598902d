// A layer of a Merkle tree with SHA3-256 (FIPS 202): each thread hashes two digests of 32 bytes to one.

typedef unsigned long long u64;

constexpr int ROUNDS = 24;

__constant__ u64 round_constants[ROUNDS] = {
    0x0000000000000001ull, 0x0000000000008082ull, 0x800000000000808aull, 0x8000000080008000ull, 0x000000000000808bull,
    0x0000000080000001ull, 0x8000000080008081ull, 0x8000000000008009ull, 0x000000000000008aull, 0x0000000000000088ull,
    0x0000000080008009ull, 0x000000008000000aull, 0x000000008000808bull, 0x800000000000008bull, 0x8000000000008089ull,
    0x8000000000008003ull, 0x8000000000008002ull, 0x8000000000000080ull, 0x000000000000800aull, 0x800000008000000aull,
    0x8000000080008081ull, 0x8000000000008080ull, 0x0000000080000001ull, 0x8000000080008008ull};

__device__ __forceinline__ u64 rotate(u64 x, int by)
{
    return x << by | x >> (64 - by);
}

__device__ __forceinline__ void keccak_round(u64 (&a)[25], u64 constant)
{
    constexpr int to[24] = {10, 7, 11, 17, 18, 3, 5, 16, 8, 21, 24, 4, 15, 23, 19, 13, 12, 2, 20, 14, 22, 9, 6, 1};
    constexpr int by[24] = {1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 2, 14, 27, 41, 56, 8, 25, 43, 62, 18, 39, 61, 20, 44};
    u64 parity[5];
#pragma unroll
    for (int x = 0; x < 5; x++)
        parity[x] = a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20];
#pragma unroll
    for (int x = 0; x < 5; x++) {
        u64 mix = parity[(x + 4) % 5] ^ rotate(parity[(x + 1) % 5], 1);
#pragma unroll
        for (int y = 0; y < 25; y += 5)
            a[x + y] ^= mix;
    }
    u64 moved = a[1];
#pragma unroll
    for (int i = 0; i < 24; i++) {
        u64 next = a[to[i]];
        a[to[i]] = rotate(moved, by[i]);
        moved = next;
    }
#pragma unroll
    for (int y = 0; y < 25; y += 5) {
        u64 row[5] = {a[y], a[y + 1], a[y + 2], a[y + 3], a[y + 4]};
#pragma unroll
        for (int x = 0; x < 5; x++)
            a[x + y] = row[x] ^ (~row[(x + 1) % 5] & row[(x + 2) % 5]);
    }
    a[0] ^= constant;
}

extern "C" __global__ void merkle_layer(const ulonglong2 *__restrict__ children, ulonglong2 *__restrict__ parents,
                                        int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    u64 state[25] = {};
#pragma unroll
    for (int word = 0; word < 4; word++) {
        ulonglong2 pair = children[(size_t)i * 4 + word];
        state[2 * word] = pair.x;
        state[2 * word + 1] = pair.y;
    }
    state[8] = 0x06;                   // padding after 64 bytes
    state[16] = 0x8000000000000000ull; // end of the rate of 136 bytes
#pragma unroll 1
    for (int round = 0; round < ROUNDS; round++)
        keccak_round(state, round_constants[round]);
    parents[(size_t)i * 2] = make_ulonglong2(state[0], state[1]);
    parents[(size_t)i * 2 + 1] = make_ulonglong2(state[2], state[3]);
}
