// A generation of Conway's Game of Life on a torus, 32 cells per word and thread: bitwise adders count the neighbours
// of all cells of a word.

__device__ void add(unsigned a, unsigned b, unsigned c, unsigned &sum, unsigned &carry)
{
    sum = a ^ b ^ c;
    carry = a & b | c & (a ^ b);
}

extern "C" __global__ void game_of_life(const unsigned *cells, unsigned *next, int width, int height)
{
    int x = threadIdx.x + blockDim.x * blockIdx.x, y = threadIdx.y + blockDim.y * blockIdx.y;
    if (x >= width || y >= height)
        return;
    int west = x == 0 ? width - 1 : x - 1, east = x == width - 1 ? 0 : x + 1;
    int rows[3] = {y == 0 ? height - 1 : y - 1, y, y == height - 1 ? 0 : y + 1};
    unsigned left[3], middle[3], right[3];
    for (int k = 0; k < 3; k++) {
        const unsigned *row = cells + rows[k] * width;
        middle[k] = row[x];
        left[k] = middle[k] << 1 | row[west] >> 31;
        right[k] = middle[k] >> 1 | row[east] << 31;
    }
    unsigned above, above2, below, below2, beside = left[1] ^ right[1], beside2 = left[1] & right[1];
    add(left[0], middle[0], right[0], above, above2);
    add(left[2], middle[2], right[2], below, below2);
    unsigned ones, carry, twos, fours, more;
    add(above, below, beside, ones, carry);
    add(above2, below2, beside2, twos, fours);
    more = twos & carry;
    twos ^= carry;
    next[y * width + x] = twos & ~fours & ~more & (ones | middle[1]);
}
