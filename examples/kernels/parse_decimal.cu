// Parses a column of decimal numbers of a CSV file to FP64, a field per thread, with a bit mask of the valid ones.

typedef unsigned long long u64;

constexpr int EXACT_POWERS = 23;
constexpr u64 MANTISSA_LIMIT = 1000000000000000000ull;

__constant__ double powers_of_ten[EXACT_POWERS] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

__device__ bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

__device__ double scale_by_ten(double value, int exponent)
{
    if (exponent >= 0 && exponent < EXACT_POWERS)
        return value * powers_of_ten[exponent];
    if (exponent < 0 && -exponent < EXACT_POWERS)
        return value / powers_of_ten[-exponent];
    return value * exp10((double)exponent);
}

__device__ bool parse(const char *text, const char *end, char delimiter, double &result)
{
    bool negative = text < end && *text == '-';
    if (text < end && (*text == '-' || *text == '+'))
        text++;

    u64 mantissa = 0;
    int exponent = 0, digits = 0;
    bool fraction = false;
    for (; text < end; text++) {
        char c = *text;
        if (is_digit(c)) {
            digits++;
            if (mantissa < MANTISSA_LIMIT) {
                mantissa = mantissa * 10 + (c - '0');
                exponent -= fraction;
            } else {
                exponent += !fraction;
            }
        } else if (c == '.' && !fraction) {
            fraction = true;
        } else {
            break;
        }
    }

    if (digits > 0 && text < end && (*text == 'e' || *text == 'E')) {
        text++;
        bool negative_power = text < end && *text == '-';
        if (text < end && (*text == '-' || *text == '+'))
            text++;
        int power = 0;
        for (; text < end && is_digit(*text); text++)
            power = min(power * 10 + (*text - '0'), 9999);
        exponent += negative_power ? -power : power;
    }

    double value = scale_by_ten((double)mantissa, exponent);
    result = negative ? -value : value;
    return digits > 0 && (text == end || *text == delimiter);
}

// Field i begins at byte starts[i] and ends at a delimiter, or where the next field begins.
extern "C" __global__ void parse_decimal(const char *__restrict__ bytes, const int *__restrict__ starts,
                                         double *__restrict__ values, unsigned *__restrict__ valid_mask, int fields,
                                         int delimiter)
{
    for (int base = blockIdx.x * blockDim.x; base < fields; base += blockDim.x * gridDim.x) {
        int field = base + threadIdx.x;
        double value = 0;
        bool valid = false;
        if (field < fields) {
            valid = parse(bytes + starts[field], bytes + starts[field + 1], (char)delimiter, value);
            values[field] = value;
        }
        unsigned mask = __ballot_sync(0xffffffffu, valid);
        if (threadIdx.x % 32 == 0 && field < fields)
            valid_mask[field / 32] = mask;
    }
}
