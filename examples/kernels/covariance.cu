// Covariance matrix of centred data in FP64, X^T X / n, as in principal component analysis: tensor cores of FP64 by
// WMMA. A block computes 64 x 64 elements and their mirror image; rows of samples arrive by asynchronous copies into
// two buffers.

#include <cuda_pipeline.h>
#include <mma.h>

using namespace nvcuda;

constexpr int TILE = 64, DEPTH = 16, PITCH = TILE + 4, THREADS = 128;

typedef double Samples[DEPTH][PITCH];

__device__ void copy_samples(Samples &to, const double *from, int features)
{
    for (int i = threadIdx.x; i < DEPTH * TILE / 2; i += THREADS) {
        int row = i / (TILE / 2), column = i % (TILE / 2) * 2;
        __pipeline_memcpy_async(&to[row][column], from + (size_t)row * features + column, 16);
    }
}

// `features` is a multiple of 64, `samples` of 16.
extern "C" __global__ void __launch_bounds__(THREADS)
    covariance(const double *__restrict__ x, double *__restrict__ result, int samples, int features)
{
    __shared__ __align__(32) Samples left[2], right[2];
    if (blockIdx.x < blockIdx.y)
        return; // the mirror image of another tile
    const double *left_x = x + blockIdx.y * TILE, *right_x = x + blockIdx.x * TILE;
    const int warp = threadIdx.x / 32, row = warp / 2 * 32, column = warp % 2 * 32;

    wmma::fragment<wmma::accumulator, 8, 8, 4, double> sums[4][4];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            wmma::fill_fragment(sums[i][j], 0.0);

    copy_samples(left[0], left_x, features);
    copy_samples(right[0], right_x, features);
    __pipeline_commit();
    for (int first = 0, stage = 0; first < samples; first += DEPTH, stage ^= 1) {
        if (first + DEPTH < samples) {
            copy_samples(left[stage ^ 1], left_x + (size_t)(first + DEPTH) * features, features);
            copy_samples(right[stage ^ 1], right_x + (size_t)(first + DEPTH) * features, features);
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; k += 4) {
            wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::col_major> a[4];
            wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::row_major> b;
            for (int i = 0; i < 4; i++)
                wmma::load_matrix_sync(a[i], &left[stage][k][row + 8 * i], PITCH);
            for (int j = 0; j < 4; j++) {
                wmma::load_matrix_sync(b, &right[stage][k][column + 8 * j], PITCH);
                for (int i = 0; i < 4; i++)
                    wmma::mma_sync(sums[i][j], a[i], b, sums[i][j]);
            }
        }
        __syncthreads();
    }

    const double factor = 1.0 / samples;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            for (int element = 0; element < sums[i][j].num_elements; element++)
                sums[i][j].x[element] *= factor;
            size_t to_row = blockIdx.y * TILE + row + 8 * i, to_column = blockIdx.x * TILE + column + 8 * j;
            wmma::store_matrix_sync(result + to_row * features + to_column, sums[i][j], features, wmma::mem_row_major);
            if (blockIdx.x > blockIdx.y)
                wmma::store_matrix_sync(result + to_column * features + to_row, sums[i][j], features,
                                        wmma::mem_col_major);
        }
}
