// Points rendered into a frame buffer with 64-bit atomics (Guenther et al. 2013): the upper half of a pixel has the
// inverse depth, so that the nearest point stays; the lower half has its number.

extern "C" __global__ void splat(const float *__restrict__ xs, const float *__restrict__ ys,
                                 const float *__restrict__ zs, unsigned long long *pixels, int n, int width, int height,
                                 float focal_length)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    float inverse = __frcp_rn(zs[i]);
    int column = width / 2 + int(floorf(focal_length * xs[i] * inverse));
    int row = height / 2 + int(floorf(focal_length * ys[i] * inverse));
    if (column >= 0 && column < width && row >= 0 && row < height)
        atomicMax(&pixels[row * width + column], (unsigned long long)__float_as_uint(inverse) << 32 | i);
}
