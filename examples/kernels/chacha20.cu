// Encryption with ChaCha20 (RFC 8439), 64 bytes per thread: a block of the key stream is computed and combined with
// the text by exclusive or.

__device__ unsigned rotate_left(unsigned x, int bits)
{
    return (x << bits) | (x >> (32 - bits));
}

__device__ void quarter_round(unsigned &a, unsigned &b, unsigned &c, unsigned &d)
{
    a += b;
    d = rotate_left(d ^ a, 16);
    c += d;
    b = rotate_left(b ^ c, 12);
    a += b;
    d = rotate_left(d ^ a, 8);
    c += d;
    b = rotate_left(b ^ c, 7);
}

extern "C" __global__ void chacha20(const unsigned *key, const unsigned *nonce, unsigned counter, const uint4 *text,
                                    uint4 *cipher, int blocks)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= blocks)
        return;
    unsigned start[16], x[16];
    start[0] = 0x61707865;
    start[1] = 0x3320646e;
    start[2] = 0x79622d32;
    start[3] = 0x6b206574;
    for (int k = 0; k < 8; k++)
        start[4 + k] = key[k];
    start[12] = counter + i;
    for (int k = 0; k < 3; k++)
        start[13 + k] = nonce[k];
    for (int k = 0; k < 16; k++)
        x[k] = start[k];
    for (int round = 0; round < 10; round++) {
        quarter_round(x[0], x[4], x[8], x[12]);
        quarter_round(x[1], x[5], x[9], x[13]);
        quarter_round(x[2], x[6], x[10], x[14]);
        quarter_round(x[3], x[7], x[11], x[15]);
        quarter_round(x[0], x[5], x[10], x[15]);
        quarter_round(x[1], x[6], x[11], x[12]);
        quarter_round(x[2], x[7], x[8], x[13]);
        quarter_round(x[3], x[4], x[9], x[14]);
    }
    for (int k = 0; k < 4; k++) {
        uint4 word = text[4 * i + k];
        word.x ^= x[4 * k] + start[4 * k];
        word.y ^= x[4 * k + 1] + start[4 * k + 1];
        word.z ^= x[4 * k + 2] + start[4 * k + 2];
        word.w ^= x[4 * k + 3] + start[4 * k + 3];
        cipher[4 * i + k] = word;
    }
}
