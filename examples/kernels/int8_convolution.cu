// Quantized convolution of 3 x 3 with ReLU, channels last, as in an 8-bit ResNet: an implicit product of matrices with
// tensor cores by WMMA. A block has 128 pixels and 64 output channels; each step has one tap and 32 input channels.

#include <mma.h>

using namespace nvcuda;

constexpr int PIXELS = 128, CHANNELS = 64, DEPTH = 32, THREADS = 256;

typedef wmma::fragment<wmma::accumulator, 16, 16, 16, int> Sums;

// Weights are by tap, output channel and input channel. A row of 16 bytes of a tile is half of the depth of a step.
extern "C" __global__ void __launch_bounds__(THREADS)
    int8_convolution(const signed char *__restrict__ input, const signed char *__restrict__ weights,
                     const int *__restrict__ bias, const float *__restrict__ scales, signed char *__restrict__ out,
                     int height, int width, int in_channels, int out_channels)
{
    __shared__ __align__(32) signed char pixel_tile[DEPTH / 16][PIXELS][16];
    __shared__ __align__(32) signed char weight_tile[DEPTH / 16][CHANNELS][16];
    __shared__ __align__(32) int stage[THREADS / 32][16][16];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_pixel = warp / 2 * 32, warp_channel = warp % 2 * 32, first_channel = blockIdx.y * CHANNELS;

    // A thread loads 16 bytes of a pixel, and half of the threads as much of the weights of a channel.
    const int row = threadIdx.x / 2, half = threadIdx.x % 2;
    const int pixel = blockIdx.x * PIXELS + row;
    const int x = pixel % width, y = pixel / width % height;

    Sums sums[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::fill_fragment(sums[i][j], 0);

    for (int tap = 0; tap < 9; tap++) {
        int dx = tap % 3 - 1, dy = tap / 3 - 1;
        bool inside = x + dx >= 0 && x + dx < width && y + dy >= 0 && y + dy < height;
        const signed char *from = input + (long long)(pixel + dy * width + dx) * in_channels + half * 16;
        const signed char *weight = weights + ((size_t)tap * out_channels + first_channel + row) * in_channels;
        for (int depth = 0; depth < in_channels; depth += DEPTH) {
            int4 value = make_int4(0, 0, 0, 0);
            if (inside)
                value = *reinterpret_cast<const int4 *>(from + depth);
            *reinterpret_cast<int4 *>(pixel_tile[half][row]) = value;
            if (row < CHANNELS)
                *reinterpret_cast<int4 *>(weight_tile[half][row]) =
                    *reinterpret_cast<const int4 *>(weight + depth + half * 16);
            __syncthreads();
#pragma unroll
            for (int k = 0; k < DEPTH / 16; k++) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a[2];
                wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> b[2];
                for (int i = 0; i < 2; i++) {
                    wmma::load_matrix_sync(a[i], pixel_tile[k][warp_pixel + 16 * i], 16);
                    wmma::load_matrix_sync(b[i], weight_tile[k][warp_channel + 16 * i], 16);
                }
                for (int i = 0; i < 2; i++)
                    for (int j = 0; j < 2; j++)
                        wmma::mma_sync(sums[i][j], a[i], b[j], sums[i][j]);
            }
            __syncthreads();
        }
    }

    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            wmma::store_matrix_sync(&stage[warp][0][0], sums[i][j], 16, wmma::mem_row_major);
            __syncwarp();
            int channel = first_channel + warp_channel + 16 * j + lane % 2 * 8;
            char4 packed[2];
            signed char *bytes = reinterpret_cast<signed char *>(packed);
            for (int e = 0; e < 8; e++) {
                float value = (stage[warp][lane / 2][lane % 2 * 8 + e] + bias[channel + e]) * scales[channel + e];
                bytes[e] = (signed char)fminf(fmaxf(rintf(value), 0.0f), 127.0f);
            }
            size_t to = (size_t)(blockIdx.x * PIXELS + warp_pixel + 16 * i + lane / 2) * out_channels + channel;
            *reinterpret_cast<int2 *>(out + to) = *reinterpret_cast<int2 *>(packed);
            __syncwarp();
        }
}
