/* SPDX-License-Identifier: Apache-2.0 */
/* The share of the sampling distribution of r_q and r_k that each category has. */
#include <math.h>
#include <string.h>

#include "stats/certainty.h"
#include "stats/pca.h"
#include "stats/student.h"

/* Nodes and weights of Gauss and Legendre on (-1, 1), the positive half (Abramowitz and Stegun,
 * table 25.4, n = 16). */
static const double NODES[] = {0.0950125098376374, 0.2816035507792589, 0.4580167776572274,
                               0.6178762444026438, 0.7554044083550030, 0.8656312023878318,
                               0.9445750230732326, 0.9894009349916499};
static const double WEIGHTS[] = {0.1894506104550685, 0.1826034150449236, 0.1691565193950025,
                                 0.1495959888165767, 0.1246289712555339, 0.0951585116824928,
                                 0.0622535239386479, 0.0271524594117541};
enum { HALF = sizeof NODES / sizeof *NODES, PIECES = 4 };

/* Thresholds of z, from the least to the largest. A category holds on both sides of 0: the sign of an axis has no
 * meaning. */
enum { BOUNDS = 4, REGIONS = BOUNDS + 1 };
typedef struct integral {
    double bound[BOUNDS];
    double middle[REGIONS]; /* an r in each region */
    qk_pca_settings settings;
    double *probability;
} integral;

/* Adds weight, in the region of r_q `of_q`, to the categories that z_k = center + scale T gives. */
static void add_regions(integral *in, int of_q, double center, double scale, double degrees,
                        double weight)
{
    double below = 0;
    for (int i = 0; i < REGIONS; i++) {
        double up_to = 1;
        if (i < BOUNDS) {
            double step = in->bound[i] - center;
            up_to = scale > 0 ? qk__student_below(step / scale, degrees) : step > 0;
        }
        qk_category category = qk__classify(fabs(in->middle[of_q]), in->middle[i],
                                            in->settings.low, in->settings.high);
        in->probability[category] += weight * (up_to - below);
        below = up_to;
    }
}

/* Of z_q = s->z_q + sqrt(var_q) T with T = sqrt(degrees) tan(angle), the angles from..to, whose density
 * is cos(angle)^(degrees - 1). Given T, z_k has a t distribution with one degree more. */
static void add_angles(integral *in, const qk__sampling_spread *s, int of_q, double from,
                       double to)
{
    double slope = s->var_q > 0 ? s->cov / sqrt(s->var_q) : 0;
    double rest = fmax(s->var_k - slope * slope, 0);
    double half = (to - from) / 2, middle = (to + from) / 2;
    for (int i = 0; i < 2 * HALF; i++) {
        double node = i < HALF ? -NODES[i] : NODES[i - HALF];
        double angle = middle + half * node, t = sqrt(s->degrees) * tan(angle);
        double weight = half * WEIGHTS[i % HALF] * pow(cos(angle), s->degrees - 1);
        double scale = sqrt(rest * (s->degrees + t * t) / (s->degrees + 1));
        add_regions(in, of_q, s->z_k + slope * t, scale, s->degrees + 1, weight);
    }
}

/* The angle at which z_q reaches a bound, within the range whose density counts. */
static double angle_of(const qk__sampling_spread *s, double bound, double widest)
{
    double step = bound - s->z_q;
    double angle =
        s->var_q > 0 ? atan(step / sqrt(s->var_q * s->degrees)) : copysign(widest, step);
    return fmin(fmax(angle, -widest), widest);
}

void qk__category_shares(const qk__sampling_spread *spread, const qk_pca_settings *settings,
                         double probability[QK_NUM_CATEGORIES])
{
    double low = settings->low, high = settings->high, total = 0;
    integral in = {
        .bound = {-atanh(high), -atanh(low), atanh(low), atanh(high)},
        .middle = {-(1 + high) / 2, -(low + high) / 2, 0, (low + high) / 2, (1 + high) / 2},
        .settings = *settings,
        .probability = probability};
    double widest = acos(pow(1e-16, 1 / spread->degrees)), from = -widest;
    memset(probability, 0, QK_NUM_CATEGORIES * sizeof *probability);
    for (int i = 0; i < REGIONS; i++) {
        double to = i < BOUNDS ? angle_of(spread, in.bound[i], widest) : widest;
        for (int piece = 0; piece < PIECES && to > from; piece++)
            add_angles(&in, spread, i, from + (to - from) * piece / PIECES,
                       from + (to - from) * (piece + 1) / PIECES);
        from = to;
    }
    for (int i = 0; i < QK_NUM_CATEGORIES; i++)
        total += probability[i];
    for (int i = 0; i < QK_NUM_CATEGORIES; i++)
        probability[i] /= total;
}
