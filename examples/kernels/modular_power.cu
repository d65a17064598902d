// Powers of numbers of 256 bits modulo an odd number, as in RSA with the exponent 65537: 16 squarings and a product, by
// Montgomery's multiplication with limbs of 32 bits (Koc, Acar and Kaliski 1996). Numbers are in Montgomery's form.

constexpr int LIMBS = 8;

struct Number {
    unsigned limbs[LIMBS];
};

__device__ Number multiply(const Number &a, const Number &b, const Number &modulus, unsigned inverse)
{
    unsigned t[LIMBS + 2] = {};
#pragma unroll
    for (int i = 0; i < LIMBS; i++) {
        unsigned long long carry = 0;
#pragma unroll
        for (int j = 0; j < LIMBS; j++) {
            carry += (unsigned long long)a.limbs[j] * b.limbs[i] + t[j];
            t[j] = carry;
            carry >>= 32;
        }
        carry += t[LIMBS];
        t[LIMBS] = carry;
        t[LIMBS + 1] = carry >> 32;
        unsigned factor = t[0] * inverse;
        carry = (unsigned long long)factor * modulus.limbs[0] + t[0] >> 32;
#pragma unroll
        for (int j = 1; j < LIMBS; j++) {
            carry += (unsigned long long)factor * modulus.limbs[j] + t[j];
            t[j - 1] = carry;
            carry >>= 32;
        }
        carry += t[LIMBS];
        t[LIMBS - 1] = carry;
        t[LIMBS] = t[LIMBS + 1] + (carry >> 32);
    }
    Number reduced;
    long long borrow = 0;
#pragma unroll
    for (int j = 0; j < LIMBS; j++) {
        borrow += (long long)t[j] - modulus.limbs[j];
        reduced.limbs[j] = borrow;
        borrow >>= 32;
    }
    bool is_smaller = t[LIMBS] + borrow < 0;
#pragma unroll
    for (int j = 0; j < LIMBS; j++)
        reduced.limbs[j] = is_smaller ? t[j] : reduced.limbs[j];
    return reduced;
}

extern "C" __global__ void modular_power(const uint4 *in, uint4 *out, Number modulus, unsigned inverse, int squarings,
                                         int n)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    uint4 low = in[2 * i], high = in[2 * i + 1];
    Number base = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}, power = base;
#pragma unroll 1
    for (int k = 0; k < squarings; k++)
        power = multiply(power, power, modulus, inverse);
    power = multiply(power, base, modulus, inverse);
    out[2 * i] = {power.limbs[0], power.limbs[1], power.limbs[2], power.limbs[3]};
    out[2 * i + 1] = {power.limbs[4], power.limbs[5], power.limbs[6], power.limbs[7]};
}
