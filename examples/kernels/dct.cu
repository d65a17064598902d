// Discrete cosine transform of the blocks of 8 x 8 pixels of an image, as in JPEG: products with the matrix of cosines
// from the left and then from the right, through shared memory. A thread block has eight blocks of pixels side by side.

constexpr int SIZE = 8, WIDE = 64;

extern "C" __global__ void dct(const float *in, const float *cosines, float *out, int width)
{
    __shared__ float matrix[SIZE][SIZE], pixels[SIZE][WIDE], columns[SIZE][WIDE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int i = (SIZE * blockIdx.y + ty) * width + WIDE * blockIdx.x + tx;
    pixels[ty][tx] = in[i];
    if (tx < SIZE)
        matrix[ty][tx] = cosines[SIZE * ty + tx];
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < SIZE; k++)
        sum += matrix[ty][k] * pixels[k][tx];
    columns[ty][tx] = sum;
    __syncthreads();
    int frequency = tx % SIZE, left = tx - frequency;
    sum = 0;
    for (int k = 0; k < SIZE; k++)
        sum += columns[ty][left + k] * matrix[frequency][k];
    out[i] = sum;
}
