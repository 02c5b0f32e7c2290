/* SPDX-License-Identifier: Apache-2.0 */
/* Root finding by Chandrupatla's method (1997): inverse quadratic interpolation where the last
 * three points make it safe, bisection elsewhere. */
#include "stats/root.h"

#include <float.h>
#include <math.h>

enum { MAX_CALLS = 100 };

/* A point of the curve. */
typedef struct point {
    double x, y;
} point;

/* Next step from a towards b, as a share of their distance; c is the point before them. */
static double next_share(point a, point b, point c)
{
    double xi = (a.x - b.x) / (c.x - b.x), phi = (a.y - b.y) / (c.y - b.y);
    if (!(phi * phi < xi && (1 - phi) * (1 - phi) < 1 - xi))
        return 0.5;
    return a.y / (b.y - a.y) * (c.y / (b.y - c.y)) +
           (c.x - a.x) / (b.x - a.x) * (a.y / (c.y - a.y)) * (b.y / (c.y - b.y));
}

double qk__root(qk__function *f, void *context, double a, double at_a, double b, double at_b)
{
    point p = {a, at_a}, q = {b, at_b}; /* p is the newest, q of the other sign */
    double share = 0.5;
    for (int i = 0; i < MAX_CALLS; i++) {
        double x = p.x + share * (q.x - p.x);
        point before = p, next = {x, f(context, x)};
        if ((next.y > 0) != (p.y > 0)) {
            before = q;
            q = p;
        }
        p = next;
        point best = fabs(p.y) < fabs(q.y) ? p : q;
        double least = 2 * DBL_EPSILON * fabs(best.x) / fabs(q.x - p.x);
        if (best.y == 0 || !(least < 0.5))
            return best.x;
        share = next_share(p, q, before);
        share = fmin(fmax(share, least), 1 - least);
    }
    return fabs(p.y) < fabs(q.y) ? p.x : q.x;
}
