/* SPDX-License-Identifier: Apache-2.0 */
/* Distribution of the two-sided Kolmogorov-Smirnov statistic, by the method that Simard and
 * L'Ecuyer (2011) found best for each n and d. With up to 140 values every method is exact. In
 * the middle of that range they use Pomeranz's recursion; Durbin's matrix here gives the same
 * number. With more values the middle is Pelz and Good's series. */
#include "stats/kolmogorov.h"

#include <math.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

enum {
    FEW = 140,       /* up to so many values, all is exact */
    MANY = 100000,   /* beyond so many, the series is good everywhere */
    MAX_ORDER = 117, /* of Durbin's matrix: 2 ceil(n d) - 1 where durbin_cdf is called */
    STEPS = 512,     /* one_sided has at most twice so many terms */
};

/* Powers of the matrix grow like e^n. With its entries multiplied by a number near 1 / e that
 * has few bits, nothing overflows and nothing is rounded. */
static const double SHRINK = 47. / 128;

/* ln k! - ln(sqrt(2 pi k) (k / e)^k) for k >= 1. */
static double stirling_error(double k)
{
    double sum = 0;
    while (k < 16) {
        sum += (k + 0.5) * log1p(1 / k) - 1;
        k++;
    }
    double u = 1 / (k * k);
    return sum + (1. / 12 - u * (1. / 360 - u * (1. / 1260 - u * (1. / 1680 - u / 1188)))) / k;
}

/* ln(1 + x) - x. Near 0, with r = x / (2 + x), ln(1 + x) = 2 artanh r and x = 2 r + r x. */
static double log1p_rest(double x)
{
    if (fabs(x) > 0.1)
        return log1p(x) - x;
    double r = x / (2 + x), u = r * r;
    double odd =
        1. / 3 + u * (1. / 5 + u * (1. / 7 + u * (1. / 9 + u * (1. / 11 + u * (1. / 13)))));
    return r * (2 * u * odd - x);
}

/* P(D+ >= d), Smirnov's sum of d C(n, j) x^(j-1) (1 - x)^(n-j) with x = d + j/n over
 * 0 <= j < n (1 - d). Each term is d / x times a binomial probability close to its mode, so
 * that written relative to the mode it loses no digits. The terms are a smooth bump over j: for
 * large n a sum over every s-th, times s, is the same number (a trapezoidal sum; with so many
 * points the difference is below rounding). */
static double one_sided(int64_t n, double d)
{
    double size = (double)n, a = size * d;
    int64_t s = n < 2 * STEPS ? 1 : n / STEPS;
    double error = stirling_error(size), sum = 0;
    for (int64_t i = s; (double)(n - i) > a; i += s) {
        double j = (double)i, rest = (double)(n - i);
        double exponent = j * log1p_rest(a / j) + rest * log1p_rest(-a / rest);
        if (exponent < -750)
            continue;
        exponent += error - stirling_error(j) - stirling_error(rest);
        sum += a / (a + j) * sqrt(size / (2 * PI * j * rest)) * exp(exponent);
    }
    return (s == 1 ? pow(1 - d, size) : 0) + (double)s * sum;
}

typedef struct durbin {
    int order;
    double matrix[MAX_ORDER][MAX_ORDER], square[MAX_ORDER][MAX_ORDER];
} durbin;

/* The matrix of Marsaglia, Tsang and Wang (2003) for n d = k - h, order 2k - 1. */
static void fill_matrix(durbin *w, double h)
{
    int m = w->order;
    double inverse[MAX_ORDER + 1], edge[MAX_ORDER + 1]; /* 1 / i!, (1 - h^i) / i! */
    inverse[0] = SHRINK;
    double power = 1;
    for (int i = 1; i <= m; i++) {
        inverse[i] = inverse[i - 1] / i;
        power *= h;
        edge[i] = inverse[i] * (1 - power);
    }
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < m; j++)
            w->matrix[i][j] = j > i + 1 ? 0 : inverse[i - j + 1];
        w->matrix[i][0] = edge[i + 1];
    }
    for (int j = 1; j < m; j++)
        w->matrix[m - 1][j] = edge[m - j];
    double twice = h > 0.5 ? pow(2 * h - 1, m) : 0;
    w->matrix[m - 1][0] = inverse[m] * (1 - 2 * power + twice);
}

/* All its powers are their own mirror images in the antidiagonal: half is enough. */
static void square(durbin *w)
{
    int m = w->order;
    for (int i = 0; i < m; i++) {
        double *out = w->square[i];
        memset(out, 0, sizeof w->square[i]);
        for (int l = 0; l < m; l++) {
            double factor = w->matrix[i][l];
            for (int j = 0; j < m - i; j++)
                out[j] += factor * w->matrix[l][j];
        }
    }
    for (int i = 0; i < m; i++)
        for (int j = 0; j < m; j++)
            w->matrix[i][j] = i + j < m ? w->square[i][j] : w->square[m - 1 - j][m - 1 - i];
}

static void times_matrix(const durbin *w, double *row)
{
    double out[MAX_ORDER] = {0};
    for (int l = 0; l < w->order; l++)
        for (int j = 0; j < w->order; j++)
            out[j] += row[l] * w->matrix[l][j];
    memcpy(row, out, (size_t)w->order * sizeof *row);
}

/* n! / n^n / SHRINK^n */
static double factorial_factor(int64_t n)
{
    double size = (double)n, product = 1;
    if (n > FEW)
        return sqrt(2 * PI * size) * exp(stirling_error(size) - size * (1 + log(SHRINK)));
    for (int64_t i = 1; i <= n; i++)
        product *= (double)i / (SHRINK * size);
    return product;
}

/* P(D < d) = n! / n^n times the entry in the middle of the n-th power. The middle row r of the
 * power n / 2 suffices, since its middle column is r reversed. Squaring costs as much as
 * multiplying `order` / 2 rows, so the last steps are done row by row. */
static double durbin_cdf(int64_t n, double d)
{
    double nd = (double)n * d, k = ceil(nd);
    durbin w = {.order = 2 * (int)k - 1};
    int m = w.order;
    double row[MAX_ORDER] = {0}, sum = 0;
    fill_matrix(&w, k - nd);
    row[m / 2] = 1;
    int64_t left = n / 2;
    for (; left > m; left /= 2) {
        if (left % 2 == 1)
            times_matrix(&w, row);
        square(&w);
    }
    for (; left > 0; left--)
        times_matrix(&w, row);
    double other[MAX_ORDER];
    memcpy(other, row, sizeof row);
    if (n % 2 == 1) {
        fill_matrix(&w, k - nd);
        times_matrix(&w, other);
    }
    for (int i = 0; i < m; i++)
        sum += other[i] * row[m - 1 - i];
    return sum * factorial_factor(n);
}

/* Pelz and Good's (1976) series K0 + K1 / sqrt(n) + K2 / n + K3 / n^(3/2) for P(D < d), with
 * z = d sqrt(n). Its sums over all k are here twice those over k > 0. */
static double pelz_good_cdf(int64_t n, double d)
{
    double root = sqrt((double)n), z = root * d, z2 = z * z, z4 = z2 * z2, z6 = z4 * z2;
    double k0 = 0, k1 = 0, k2 = 0, k3 = 0, k2_rest = 0, k3_rest = 0;
    for (int k = 5; k >= 1; k--) { /* z < 1.5: the sixth is below 10^-28 */
        double u = PI * PI * (k - 0.5) * (k - 0.5), e = exp(-u / (2 * z2));
        k0 += e;
        k1 += e * (u - z2);
        k2 += e * (6 * z6 + 2 * z4 + u * (2 * z4 - 5 * z2 + u * (1 - 2 * z2)));
        k3 += e * (u * (135 * z4 - 96 * z6 + u * (212 * z4 - 60 * z2 + u * (5 - 30 * z2))) -
                   30 * z6 - 90 * z4 * z4);
        u = PI * PI * k * k;
        e = exp(-u / (2 * z2)) * u;
        k2_rest += e;
        k3_rest += e * (3 * z2 - u);
    }
    k1 /= 6 * z2 * z;
    k2 = k2 / (72 * z6) - k2_rest / (36 * z2);
    k3 = k3 / (6480 * z6 * z2 * z) + k3_rest / (216 * z4 * z);
    return sqrt(2 * PI) / z * (k0 + (k1 + (k2 + k3 / root) / root) / root);
}

/* 1 - P(D < d) between the ends. The series is a few 10^-6 off where it begins; there p is held
 * below its last exact value, so that it does not rise with d. */
static double middle(int64_t n, double d)
{
    double size = (double)n;
    if (size * d * d < 0.02) /* P(D < d) is below 10^-25 */
        return 1;
    if (n <= FEW)
        return 1 - durbin_cdf(n, d);
    double join = n <= MANY ? pow(1.4 / size, 2. / 3) : 0;
    if (d <= join)
        return 1 - durbin_cdf(n, d);
    double p = 1 - pelz_good_cdf(n, d);
    return d < join * (1 + 1e-4) ? fmin(p, 1 - durbin_cdf(n, join)) : p;
}

/* 2 P(D+ >= d), which counts P(D+ >= d and D- >= d), below 2 exp(-8 n d^2), twice. Again p is
 * held below its value at the border of the region, n d^2 = border. */
static double upper_tail(int64_t n, double d, double border)
{
    double size = (double)n, p = 2 * one_sided(n, d);
    if (size * d * d < border * (1 + 1e-4))
        p = fmin(p, middle(n, sqrt(border / size)));
    return p;
}

double qk__kolmogorov_p(int64_t n, double d)
{
    double size = (double)n, nd = size * d, p;
    double border = n > FEW ? 2.2 : 4;
    if (n < 1 || isnan(d))
        return NAN;
    if (nd <= 0.5)
        return 1;
    if (d >= 1 || nd * d >= 370) /* below the smallest normal number */
        return 0;
    if (nd <= 1) /* the ends, by Ruben and Gambino (1982) */
        p = n > FEW ? 1 : 1 - factorial_factor(n) * pow(SHRINK * (2 * nd - 1), size);
    else if (nd >= size - 1)
        p = 2 * pow(1 - d, size);
    else if (d >= 0.5)
        p = 2 * one_sided(n, d);
    else if (nd * d > border)
        p = upper_tail(n, d, border);
    else
        p = middle(n, d);
    return p < 0 ? 0 : p > 1 ? 1 : p;
}
