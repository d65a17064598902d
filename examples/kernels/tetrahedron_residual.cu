// Residual of heat conduction in a mesh of tetrahedra by linear finite elements, one element per thread: gathers four
// nodes, computes the gradient of the temperature and adds a contribution to each node. Nodes are in no special order.

struct Vector {
    float x, y, z;
};

__device__ Vector difference(Vector a, Vector b)
{
    return {a.x - b.x, a.y - b.y, a.z - b.z};
}

__device__ Vector cross(Vector a, Vector b)
{
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

__device__ float dot(Vector a, Vector b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

extern "C" __global__ void tetrahedron_residual(const int4 *elements, const Vector *nodes, const float *temperatures,
                                                const float *conductivities, float *residual, int count)
{
    int element = blockIdx.x * blockDim.x + threadIdx.x;
    if (element >= count)
        return;
    int4 corner = elements[element];
    Vector origin = nodes[corner.x];
    Vector a = difference(nodes[corner.y], origin);
    Vector b = difference(nodes[corner.z], origin);
    Vector c = difference(nodes[corner.w], origin);
    Vector bc = cross(b, c), ca = cross(c, a), ab = cross(a, b);
    float determinant = dot(a, bc); // six times the volume
    if (fabsf(determinant) < 1e-9f)
        return;
    float t0 = temperatures[corner.x];
    float ta = temperatures[corner.y] - t0;
    float tb = temperatures[corner.z] - t0;
    float tc = temperatures[corner.w] - t0;
    Vector gradient = {ta * bc.x + tb * ca.x + tc * ab.x, ta * bc.y + tb * ca.y + tc * ab.y,
                       ta * bc.z + tb * ca.z + tc * ab.z};
    float factor = conductivities[element] / (6 * fabsf(determinant));
    float ra = factor * dot(gradient, bc);
    float rb = factor * dot(gradient, ca);
    float rc = factor * dot(gradient, ab);
    atomicAdd(&residual[corner.x], -(ra + rb + rc));
    atomicAdd(&residual[corner.y], ra);
    atomicAdd(&residual[corner.z], rb);
    atomicAdd(&residual[corner.w], rc);
}
