// Forces of Lennard-Jones between atoms in a periodic box, as in molecular dynamics: each thread reads the list of
// neighbours of its atom, which is stored by column. Pairs beyond the cutoff have no force.

extern "C" __global__ void lennard_jones(const float4 *positions, const int *neighbours, float4 *forces, int n,
                                         int neighbours_per_atom, float box, float cutoff)
{
    int atom = threadIdx.x + blockDim.x * blockIdx.x;
    if (atom >= n)
        return;
    float4 own = positions[atom], force = {0, 0, 0, 0};
    for (int k = 0; k < neighbours_per_atom; k++) {
        float4 other = positions[neighbours[k * n + atom]];
        float x = own.x - other.x, y = own.y - other.y, z = own.z - other.z;
        x -= box * rintf(x / box);
        y -= box * rintf(y / box);
        z -= box * rintf(z / box);
        float square = x * x + y * y + z * z;
        if (square < cutoff * cutoff && square > 0) {
            float inverse = 1 / square, sixth = inverse * inverse * inverse;
            float strength = 24 * inverse * sixth * (2 * sixth - 1);
            force.x += strength * x;
            force.y += strength * y;
            force.z += strength * z;
            force.w += 4 * sixth * (sixth - 1);
        }
    }
    forces[atom] = force;
}
