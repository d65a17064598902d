// Sums and counts of numbers of variable length (7 bits per byte, the last byte of a number is below 128): each thread
// decodes a chunk of 64 bytes. Numbers end with their chunk.

constexpr int CHUNK = 64;

extern "C" __global__ void varint_decode(const unsigned char *__restrict__ bytes, unsigned long long *__restrict__ sums,
                                         int *__restrict__ counts, int chunks)
{
    int chunk = threadIdx.x + blockDim.x * blockIdx.x;
    if (chunk >= chunks)
        return;
    const unsigned char *next = bytes + size_t(CHUNK) * chunk, *end = next + CHUNK;
    unsigned long long sum = 0;
    int count = 0;
#pragma unroll 1
    while (next < end) {
        unsigned value = 0, byte;
        int shift = 0;
#pragma unroll 1
        do {
            byte = *next++;
            value |= (byte & 127) << min(shift, 28);
            shift += 7;
        } while (byte >= 128 && next < end);
        sum += value;
        count++;
    }
    sums[chunk] = sum;
    counts[chunk] = count;
}
