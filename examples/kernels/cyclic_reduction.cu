// Tridiagonal systems of 1024 unknowns by parallel cyclic reduction (Hockney and Jesshope 1981), one system per block
// and one equation per thread in shared memory: each step eliminates neighbours at twice the distance of the last.

constexpr int SIZE = 1024;

extern "C" __global__ void cyclic_reduction(const float *lower, const float *diagonal, const float *upper,
                                            const float *right, float *x)
{
    __shared__ float a[SIZE], b[SIZE], c[SIZE], d[SIZE];
    int i = threadIdx.x;
    size_t element = (size_t)blockIdx.x * SIZE + i;
    a[i] = i > 0 ? lower[element] : 0.0f;
    b[i] = diagonal[element];
    c[i] = i < SIZE - 1 ? upper[element] : 0.0f;
    d[i] = right[element];
    __syncthreads();
    for (int distance = 1; distance < SIZE; distance *= 2) {
        float new_a = 0, new_b = b[i], new_c = 0, new_d = d[i];
        int before = i - distance, after = i + distance;
        if (before >= 0) {
            float factor = a[i] / b[before];
            new_a = -factor * a[before];
            new_b -= factor * c[before];
            new_d -= factor * d[before];
        }
        if (after < SIZE) {
            float factor = c[i] / b[after];
            new_c = -factor * c[after];
            new_b -= factor * a[after];
            new_d -= factor * d[after];
        }
        __syncthreads();
        a[i] = new_a;
        b[i] = new_b;
        c[i] = new_c;
        d[i] = new_d;
        __syncthreads();
    }
    x[element] = d[i] / b[i];
}
