// A step of the lattice Boltzmann method in two dimensions with nine directions (Qian et al. 1992): each cell pulls the
// populations of its neighbours on a torus and relaxes them. Populations are stored by direction.

constexpr int DIRECTIONS = 9;
__constant__ int across[DIRECTIONS] = {0, 1, 0, -1, 0, 1, -1, -1, 1};
__constant__ int down[DIRECTIONS] = {0, 0, 1, 0, -1, 1, 1, -1, -1};

extern "C" __global__ void lattice_boltzmann(const float *__restrict__ in, float *__restrict__ out, int width,
                                             int height, float relaxation)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x, cells = width * height;
    if (i >= cells)
        return;
    int x = i % width, y = i / width;
    float f[DIRECTIONS], density = 0, x_momentum = 0, y_momentum = 0;
#pragma unroll
    for (int k = 0; k < DIRECTIONS; k++) {
        int from_x = (x - across[k] + width) % width, from_y = (y - down[k] + height) % height;
        f[k] = in[k * cells + from_y * width + from_x];
        density += f[k];
        x_momentum += across[k] * f[k];
        y_momentum += down[k] * f[k];
    }
    float u = x_momentum / density, v = y_momentum / density, square = 1.5f * (u * u + v * v);
#pragma unroll
    for (int k = 0; k < DIRECTIONS; k++) {
        float weight = k == 0 ? 4.0f / 9 : k < 5 ? 1.0f / 9 : 1.0f / 36, along = 3 * (across[k] * u + down[k] * v);
        float equilibrium = weight * density * (1 + along + 0.5f * along * along - square);
        out[k * cells + i] = f[k] + relaxation * (equilibrium - f[k]);
    }
}
