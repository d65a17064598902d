// Forces and energy of periodic dihedral angles of polymers in molecular dynamics, an angle per thread, with atomics.

struct Vector {
    float x, y, z;
};

__device__ __forceinline__ Vector scaled(Vector a, float factor)
{
    return {a.x * factor, a.y * factor, a.z * factor};
}

__device__ __forceinline__ Vector difference(Vector a, Vector b)
{
    return {a.x - b.x, a.y - b.y, a.z - b.z};
}

__device__ __forceinline__ Vector sum(Vector a, Vector b)
{
    return {a.x + b.x, a.y + b.y, a.z + b.z};
}

__device__ __forceinline__ Vector cross(Vector a, Vector b)
{
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

__device__ __forceinline__ float dot(Vector a, Vector b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

__device__ __forceinline__ Vector nearest_image(float4 a, float4 b, float box)
{
    float x = a.x - b.x, y = a.y - b.y, z = a.z - b.z;
    return {x - box * rintf(x / box), y - box * rintf(y / box), z - box * rintf(z / box)};
}

__device__ __forceinline__ void add_force(float *forces, int atom, Vector force)
{
    atomicAdd(&forces[3 * atom], force.x);
    atomicAdd(&forces[3 * atom + 1], force.y);
    atomicAdd(&forces[3 * atom + 2], force.z);
}

// An angle has its first atom, the distances from each atom to the next in the list of atoms, and its multiplicity.
extern "C" __global__ void dihedral_forces(const float4 *__restrict__ positions, const int *__restrict__ first_atoms,
                                           const uchar4 *__restrict__ chains, const unsigned char *__restrict__ types,
                                           const float2 *__restrict__ parameters, float *forces, float *energy,
                                           int angles, float box)
{
    int angle = blockIdx.x * blockDim.x + threadIdx.x;
    float own_energy = 0.0f;
    if (angle < angles) {
        uchar4 chain = chains[angle];
        int i = first_atoms[angle], j = i + chain.x, k = j + chain.y, l = k + chain.z;
        float4 at_j = positions[j], at_k = positions[k];
        Vector ij = nearest_image(positions[i], at_j, box);
        Vector kj = nearest_image(at_k, at_j, box);
        Vector kl = nearest_image(at_k, positions[l], box);

        Vector m = cross(ij, kj), n = cross(kj, kl);
        float mm = fmaxf(dot(m, m), 1e-12f), nn = fmaxf(dot(n, n), 1e-12f), kj2 = fmaxf(dot(kj, kj), 1e-12f);
        float inverse_length = rsqrtf(kj2);
        float length = kj2 * inverse_length;
        float phi = atan2f(length * dot(ij, n), dot(m, n));

        float2 parameter = parameters[types[angle]]; // force constant and phase
        float multiplicity = chain.w;
        float sine, cosine;
        sincosf(multiplicity * phi - parameter.y, &sine, &cosine);
        own_energy = parameter.x * (1.0f + cosine);
        float slope = -parameter.x * multiplicity * sine;

        Vector force_i = scaled(m, -slope * length / mm);
        Vector force_l = scaled(n, slope * length / nn);
        Vector u = scaled(force_i, dot(ij, kj) * inverse_length * inverse_length);
        Vector v = scaled(force_l, dot(kl, kj) * inverse_length * inverse_length);
        Vector shared_part = difference(u, v);
        add_force(forces, i, force_i);
        add_force(forces, j, difference(shared_part, force_i));
        add_force(forces, k, scaled(sum(shared_part, force_l), -1.0f));
        add_force(forces, l, force_l);
    }

    for (int offset = 16; offset > 0; offset /= 2)
        own_energy += __shfl_down_sync(0xffffffffu, own_energy, offset);
    if (threadIdx.x % 32 == 0)
        atomicAdd(energy, own_energy);
}
