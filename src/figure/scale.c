/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the colours and the powers of ten of quantities. */
#include "figure/scale.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"

/* ---- powers of ten ---------------------------------------------------------------------- */

static qk__power power_of(double largest)
{
    qk__power power = {0, 1, ""};
    if (!(largest > 0) || !isfinite(largest))
        return power;
    power.exponent = -3 * (int)floor(log10(largest / 0.2) / 3);
    power.factor = pow(10, power.exponent);
    if (!isfinite(power.factor) || !(power.factor > 0))
        return (qk__power){0, 1, ""};
    if (power.exponent != 0)
        snprintf(power.text, sizeof power.text, " × 10<sup>%s%d</sup>",
                 power.exponent < 0 ? "−" : "",
                 power.exponent < 0 ? -power.exponent : power.exponent);
    return power;
}

static bool is_plain(const qk__field *field)
{
    static const char *const UNITS[] = {"share", "correlation", "plasticity", "probability"};
    for (size_t i = 0; field && i < sizeof UNITS / sizeof *UNITS; i++)
        if (field->info.unit && strcmp(field->info.unit, UNITS[i]) == 0)
            return true;
    return !field;
}

qk__power qk__power_for(const qk__field *field, double largest)
{
    return is_plain(field) ? (qk__power){0, 1, ""} : power_of(largest);
}

/* ---- colours ---------------------------------------------------------------------------- */

/* What has a sign is red above 0 and blue below, whatever it is a number of. */
static const struct {
    const qk__colormap *above, *below;
} RAMPS[] = {
    [QK__HUE_NONE] = {&qk__viridis, NULL},
    [QK__HUE_QUERIES] = {&qk__reds, &qk__blues},
    [QK__HUE_KEYS] = {&qk__reds, &qk__blues},
    [QK__HUE_BIAS] = {&qk__reds, &qk__blues},
    [QK__HUE_PLASTICITY] = {&qk__magma, &qk__magma},
};

qk__scale qk__scale_between(qk__hue hue, double low, double high)
{
    qk__scale s = {.above = RAMPS[hue].above, .below = RAMPS[hue].below, .power = {0, 1, ""}};
    bool from_low = hue == QK__HUE_PLASTICITY || (hue == QK__HUE_NONE && low > 0);
    s.low = from_low ? low : fmin(low, 0);
    s.high = from_low ? high : fmax(high, 0);
    if (!(s.high - s.low > 1e-9 * fmax(fabs(s.low), fabs(s.high)))) {
        s.low -= s.low != 0 ? 0.1 * fabs(s.low) : 0;
        s.high += s.high != 0 ? 0.1 * fabs(s.high) : 1;
    }
    s.first = from_low ? s.low : 0;
    if (s.low < 0 && hue == QK__HUE_NONE) { /* a ramp that is dark at 0 has no other side */
        s.above = &qk__reds;
        s.below = &qk__blues;
    }
    return s;
}

qk__scale qk__scale_of_change(double most)
{
    most = most > 0 ? most : 1;
    return (qk__scale){.above = &qk__reds,
                       .below = &qk__blues,
                       .low = -most,
                       .high = most,
                       .power = {0, 1, ""}};
}

qk__scale qk__scale_of_amount(double most)
{
    return (qk__scale){.above = &qk__oranges, .high = most > 0 ? most : 1, .power = {0, 1, ""}};
}

qk__scale qk__scale_of_weights(double least)
{
    return (qk__scale){.above = &qk__viridis,
                       .low = least,
                       .high = 1,
                       .first = least,
                       .logarithmic = true,
                       .power = {0, 1, ""}};
}

/* A cut must not change the sign of an end: colours begin at 0. */
qk__scale qk__scale_of_values(const qk__field *field, const double *sorted, size_t count)
{
    const char *unit = field->info.unit, *range = field->info.range;
    const bool correlation = unit && strcmp(unit, "correlation") == 0;
    if (correlation) {
        double least = count > 0 ? sorted[0] : 0;
        return qk__scale_between(field->hue,
                                 least < -0.005 ? fmax(-1, floor(10 * least) / 10) : 0, 1);
    }
    if (count == 0)
        return qk__scale_between(field->hue, 0, 1);
    size_t cut = count / 100;
    double low = sorted[cut], high = sorted[count - 1 - cut];
    bool from_zero = range && range[0] == '0' && field->hue != QK__HUE_PLASTICITY;
    qk__scale s = qk__scale_between(field->hue, from_zero ? fmin(low, 0) : low, high);
    s.cut = low > sorted[0] || high < sorted[count - 1];
    s.power = qk__power_for(field, fmax(-s.low, s.high));
    return s;
}

static unsigned category_color(const qk__theme *theme, double value)
{
    unsigned code = 0;
    return sscanf(qk__category_color(theme, (int)value), "#%6x", &code) == 1 ? code : 0;
}

unsigned qk__scale_color(const qk__scale *s, double value, bool *dark)
{
    unsigned char rgb[3];
    *dark = false;
    if (s->categories)
        return category_color(s->categories, value);
    bool below = s->first == 0 && value < 0 && s->below;
    double reach = s->first == 0 ? fmax(-s->low, s->high) : s->high - s->first;
    double size = fabs(value - s->first) / reach;
    if (s->logarithmic)
        size = log(value / s->low) / log(s->high / s->low);
    if (value < s->first && !below)
        size = 0;
    if (below && s->below->count > 1 && size * (double)(s->below->count - 1) < 1) {
        unsigned char pale[3], next[3]; /* between 0 and the ramp's second colour */
        double part = size * (double)(s->below->count - 1);
        qk__colormap_at(s->above, 0, pale);
        qk__colormap_at(s->below, 1.0 / (double)(s->below->count - 1), next);
        for (int c = 0; c < 3; c++)
            rgb[c] = (unsigned char)lround(pale[c] + part * (next[c] - pale[c]));
    } else {
        qk__colormap_at(below ? s->below : s->above, size, rgb);
    }
    *dark = qk__is_dark(rgb);
    return (unsigned)rgb[0] << 16 | (unsigned)rgb[1] << 8 | rgb[2];
}

const char *qk__hex(unsigned color, char out[8])
{
    snprintf(out, 8, "#%06x", color & 0xffffff);
    return out;
}

double qk__bar_value(const qk__scale *s, double share)
{
    return s->logarithmic ? s->low * pow(s->high / s->low, share)
                          : s->low + (s->high - s->low) * share;
}

double qk__bar_share(const qk__scale *s, double value)
{
    double share = s->logarithmic ? log(value / s->low) / log(s->high / s->low)
                                  : (value - s->low) / (s->high - s->low);
    return share > 0 ? fmin(share, 1) : 0;
}
