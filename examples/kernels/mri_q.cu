// Image of a magnetic resonance scan from samples off the grid (as in Stone et al. 2008): each thread sums the waves of
// all samples at its voxel, with approximate sine and cosine. `places` holds kx, ky, kz and the weight of a sample.

constexpr float TWO_PI = 6.28318531f;

extern "C" __global__ void mri_q(const float *x, const float *y, const float *z, const float4 *places,
                                 const float2 *samples, float *real, float *imaginary, int voxels, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= voxels)
        return;
    float px = x[i];
    float py = y[i];
    float pz = z[i];
    float sum_real = 0, sum_imaginary = 0;
    for (int k = 0; k < count; k++) {
        float4 place = places[k];
        float2 sample = samples[k];
        float angle = TWO_PI * (place.x * px + place.y * py + place.z * pz);
        float cosine = place.w * __cosf(angle);
        float sine = place.w * __sinf(angle);
        sum_real += sample.x * cosine - sample.y * sine;
        sum_imaginary += sample.x * sine + sample.y * cosine;
    }
    real[i] = sum_real;
    imaginary[i] = sum_imaginary;
}
