// Which of the odd 32-bit numbers from `start` on are prime, one per thread: division by small primes, then tests of
// Miller and Rabin with the bases 2, 7 and 61, which are exact below 4759123141. A warp stores 32 answers as bits.

__device__ unsigned multiply(unsigned a, unsigned b, unsigned n)
{
    return (unsigned)((unsigned long long)a * b % n);
}

__device__ bool passes(unsigned n, unsigned base)
{
    unsigned exponent = n - 1;
    int twos = 0;
    while (exponent % 2 == 0) {
        exponent /= 2;
        twos++;
    }
    unsigned power = 1, square = base;
    while (exponent > 0) {
        if (exponent % 2 == 1)
            power = multiply(power, square, n);
        square = multiply(square, square, n);
        exponent /= 2;
    }
    if (power == 1 || power == n - 1)
        return true;
    for (int i = 1; i < twos; i++) {
        power = multiply(power, power, n);
        if (power == n - 1)
            return true;
    }
    return false;
}

__device__ bool is_prime(unsigned n)
{
    const unsigned small_primes[] = {3, 5, 7, 11, 13, 17, 19, 23};
    for (unsigned prime : small_primes)
        if (n % prime == 0)
            return n == prime;
    return passes(n, 2) && passes(n, 7) && passes(n, 61);
}

extern "C" __global__ void miller_rabin(unsigned *answers, unsigned start, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool prime = i < count && is_prime(start + 2u * i);
    unsigned bits = __ballot_sync(0xffffffff, prime);
    if (i < count && threadIdx.x % 32 == 0)
        answers[i / 32] = bits;
}
