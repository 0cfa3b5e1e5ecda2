#include "functions.h"

static const float smallest_exponent = -87.33654f, largest_exponent = 88.37626f;

/* x = n ln 2 + r with |r| <= ln 2 / 2, so e^x = 2^n e^r. The polynomial is that of Cephes (Moshier 1989, expf). */
f32x4 exp4(f32x4 x)
{
    i32x4 too_small = x < splat4(smallest_exponent), too_large = x > splat4(largest_exponent);
    /* Also replaces NaN, whose conversion to an integer is not defined. */
    i32x4 usual = (x >= splat4(smallest_exponent)) & (x <= splat4(largest_exponent));
    f32x4 bounded = (f32x4)(usual & (i32x4)x);
    f32x4 scaled = bounded * splat4(1.44269504088896341f);
    f32x4 half = (f32x4)(((i32x4)scaled & (int32_t)0x80000000) | (i32x4)splat4(0.5f));
    i32x4 n = __builtin_convertvector(scaled + half, i32x4);
    f32x4 whole = to_floats(n);
    f32x4 r = bounded - whole * splat4(0.693359375f);
    r = r - whole * splat4(-2.12194440e-4f);
    f32x4 p = splat4(1.9875691500e-4f);
    p = p * r + splat4(1.3981999507e-3f);
    p = p * r + splat4(8.3334519073e-3f);
    p = p * r + splat4(4.1665795894e-2f);
    p = p * r + splat4(1.6666665459e-1f);
    p = p * r + splat4(5.0000001201e-1f);
    p = p * (r * r) + r + splat4(1.0f);
    f32x4 power = (f32x4)((n + 127) << 23);
    i32x4 result = (i32x4)(p * power);
    result = (result & ~too_small & ~too_large) | (too_large & (i32x4)splat4(3.4028235e38f));
    i32x4 is_nan = x != x;
    return (f32x4)((result & ~is_nan) | ((i32x4)x & is_nan));
}

float exp1(float x)
{
    return exp4(splat4(x))[0];
}

/* e^x for x <= 0, in double: as exp4, with the series of Taylor. */
static double exp_of_negative(double x)
{
    if (!(x > -700.0))
        return 0;
    int32_t n = (int32_t)(x * 1.4426950408889634 - 0.5);
    double r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10, term = 1, sum = 1;
    for (int i = 1; i < 14; i++) {
        term *= r / i;
        sum += term;
    }
    uint64_t bits = (uint64_t)(int64_t)(n + 1023) << 52;
    double power;
    memcpy(&power, &bits, 8);
    return sum * power;
}

float erf1(float x)
{
    static const double coefficients[] = {-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806,
        0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277};
    double z = x < 0 ? -(double)x : x, t = 1 / (1 + 0.5 * z), sum = 0;
    if (x != x)
        return x;
    for (int i = 9; i >= 0; i--)
        sum = sum * t + coefficients[i];
    double exponent = sum - z * z;
    double result = 1 - t * exp_of_negative(exponent < 0 ? exponent : 0);
    return (float)(x < 0 ? -result : result);
}

/* x = 2^n m with m from 1 / sqrt 2 to sqrt 2; the series of artanh((m - 1) / (m + 1)). */
double logarithm(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, 8);
    int32_t n = (int32_t)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffff) | (uint64_t)1023 << 52;
    double m;
    memcpy(&m, &bits, 8);
    if (m > 1.4142135623730951) {
        m /= 2;
        n++;
    }
    double s = (m - 1) / (m + 1), square = s * s, sum = 0;
    for (int i = 23; i >= 1; i -= 2)
        sum = sum * square + 1.0 / i;
    return 2 * s * sum + n * 0.69314718055994531;
}

/* The angle is reduced to |r| <= pi / 4 with pi / 2 in three parts (Cody and Waite 1980). */
void sine_cosine(double angle, float *sine, float *cosine)
{
    double quarters = angle * 0.63661977236758134;
    if (!(quarters > -1e9 && quarters < 1e9))
        quarters = angle = 0;
    int32_t n = (int32_t)(quarters + (quarters < 0 ? -0.5 : 0.5));
    double r = ((angle - n * 1.5707963267341256) - n * 6.0771005063039660e-11) - n * 2.0222662487959506e-21;
    double square = r * r, s = 0, c = 0;
    static const double inverse[] = {1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
        1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
    for (int i = 10; i >= 0; i -= 2) {
        c = inverse[i] - c * square;
        s = inverse[i + 1] - s * square;
    }
    double sin_r = r - r * square * s, cos_r = 1 - square * c;
    double sines[] = {sin_r, cos_r, -sin_r, -cos_r};
    *sine = (float)sines[n & 3];
    *cosine = (float)sines[(n + 1) & 3];
}

static f32x4 sigmoid4(f32x4 x)
{
    return splat4(1.0f) / (splat4(1.0f) + exp4(-x));
}

static f32x4 activate4(Activation activation, f32x4 x)
{
    switch (activation) {
    case SILU:
        return x * sigmoid4(x);
    case GELU_TANH: /* (1 + tanh(u)) / 2 is the sigmoid of 2 u. */
        return x * sigmoid4(splat4(1.5957691216057308f) * (x + splat4(0.044715f) * x * x * x));
    case GELU:
        for (int i = 0; i < 4; i++)
            x[i] = 0.5f * x[i] * (1.0f + erf1(x[i] * 0.70710678118654752f));
        return x;
    default: {
        f32x4 positive = (f32x4)((i32x4)x & ~(x < splat4(0.0f)));
        return activation == RELU ? positive : positive * positive;
    }
    }
}

void activate(Activation activation, float *x, uint64_t count)
{
    uint64_t i = 0;
    for (; i + 4 <= count; i += 4)
        store4(x + i, activate4(activation, load4(x + i)));
    for (; i < count; i++)
        x[i] = activate4(activation, splat4(x[i]))[0];
}

/* The derivatives of `activate4`. */
static f32x4 slope4(Activation activation, f32x4 x)
{
    f32x4 one = splat4(1.0f), s;
    switch (activation) {
    case SILU:
        s = sigmoid4(x);
        return s * (one + x * (one - s));
    case GELU_TANH:
        s = sigmoid4(splat4(1.5957691216057308f) * (x + splat4(0.044715f) * x * x * x));
        return s + x * s * (one - s) * splat4(1.5957691216057308f) * (one + splat4(0.134145f) * x * x);
    case GELU: /* The normal distribution, and its density times x. */
        for (int i = 0; i < 4; i++)
            s[i] = 0.5f * (1.0f + erf1(x[i] * 0.70710678118654752f));
        return s + x * exp4(splat4(-0.5f) * x * x) * splat4(0.3989422804014327f);
    default: {
        f32x4 scale = activation == RELU ? one : x + x;
        return (f32x4)((i32x4)scale & (x > splat4(0.0f)));
    }
    }
}

void multiply_by_slopes(Activation activation, const float *x, float *gradients, uint64_t count)
{
    uint64_t i = 0;
    for (; i + 4 <= count; i += 4)
        store4(gradients + i, load4(gradients + i) * slope4(activation, load4(x + i)));
    for (; i < count; i++)
        gradients[i] *= slope4(activation, splat4(x[i]))[0];
}

float dot(const float *a, const float *b, uint32_t size)
{
    f32x4 sums = {0};
    uint32_t i = 0;
    for (; i + 4 <= size; i += 4)
        sums += load4(a + i) * load4(b + i);
    float sum = sum4(sums);
    for (; i < size; i++)
        sum += a[i] * b[i];
    return sum;
}

void softmax(float *scores, uint32_t count)
{
    float largest = scores[0], sum = 0;
    for (uint32_t i = 1; i < count; i++)
        largest = scores[i] > largest ? scores[i] : largest;
    uint32_t i = 0;
    for (; i + 4 <= count; i += 4)
        store4(scores + i, exp4(load4(scores + i) - splat4(largest)));
    for (; i < count; i++)
        scores[i] = exp1(scores[i] - largest);
    for (i = 0; i < count; i++)
        sum += scores[i];
    float inverse = 1.0f / sum;
    for (i = 0; i < count; i++)
        scores[i] *= inverse;
}
