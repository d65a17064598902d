// Principal values and directions of symmetric tensors of 3x3 in double precision, by cyclic Jacobi rotations (Golub
// and Van Loan), a tensor per thread. A rotation is left out where its element is negligible.

__device__ void rotate(double &app, double &aqq, double &apq, double &arp, double &arq, double (&v)[3][3], int p, int q)
{
    if (fabs(apq) <= 1e-15 * (fabs(app) + fabs(aqq)))
        return;
    double theta = (aqq - app) / (2 * apq);
    double t = copysign(1.0, theta) / (fabs(theta) + sqrt(theta * theta + 1));
    double c = rsqrt(t * t + 1), s = t * c, along_p = arp;
    app -= t * apq;
    aqq += t * apq;
    apq = 0;
    arp = c * along_p - s * arq;
    arq = s * along_p + c * arq;
    for (int i = 0; i < 3; i++) {
        double old = v[i][p];
        v[i][p] = c * old - s * v[i][q];
        v[i][q] = s * old + c * v[i][q];
    }
}

extern "C" __global__ void principal_stresses(const double *tensors, double *values, double *directions, int n,
                                              int sweeps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const double *tensor = tensors + i;
    double xx = tensor[0], yy = tensor[n], zz = tensor[2 * n], yz = tensor[3 * n], xz = tensor[4 * n];
    double xy = tensor[5 * n], v[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    for (int sweep = 0; sweep < sweeps; sweep++) {
        rotate(xx, yy, xy, xz, yz, v, 0, 1);
        rotate(xx, zz, xz, xy, yz, v, 0, 2);
        rotate(yy, zz, yz, xy, xz, v, 1, 2);
    }
    values[i] = xx;
    values[n + i] = yy;
    values[2 * n + i] = zz;
    for (int row = 0; row < 3; row++)
        for (int column = 0; column < 3; column++)
            directions[(row * 3 + column) * n + i] = v[row][column];
}
