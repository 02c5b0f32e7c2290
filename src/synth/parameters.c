/* SPDX-License-Identifier: Apache-2.0 */
/* Drawing the parameters of a synthetic head. */
#include "synth/parameters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"

static const double TWO_PI = 6.283185307179586;

/* The numbers drawn for every head, in this order whatever is overridden: setting one of
 * them leaves the others of the same seed as they are. */
typedef struct draws {
    double r, separation, mean_offset, scale, exponent;
} draws;

void qk__synth_stream(qk__rng *rng, const qk_synth_settings *settings, qk_head_id id,
                      uint64_t purpose)
{
    const uint64_t words[4] = {(uint64_t)id.layer, (uint64_t)id.head, (uint64_t)id.kind,
                               purpose};
    qk__rng_init(rng, settings->seed, words, 4);
}

static double span(const qk_synth_settings *settings)
{
    return (double)settings->buckets * (double)settings->bucket_width;
}

double qk__synth_center(const qk_synth_settings *settings)
{
    return (double)settings->position_offset + (span(settings) - 1) / 2;
}

double qk__synth_position_variance(const qk_synth_settings *settings)
{
    return (span(settings) * span(settings) - 1) / 12;
}

static double between(qk__rng *rng, double low, double high)
{
    return low + (high - low) * qk__rng_uniform(rng);
}

static double given_or(double given, double drawn)
{
    return isnan(given) ? drawn : given;
}

static draws draw_numbers(const qk_synth_settings *s, qk_head_id id, qk__rng *rng)
{
    draws d;
    double sign = qk__rng_uniform(rng) < 0.5 ? -1 : 1;
    d.r = tanh(between(rng, 0, 3)); /* weak and overwhelming drifts alike */
    d.r = id.kind == QK_QUERY ? given_or(s->r_q, d.r) : given_or(s->r_k, sign * d.r);
    d.separation = given_or(s->separation, between(rng, 1, 16));
    d.mean_offset = given_or(s->mean_offset, between(rng, 0, 2));
    d.scale = given_or(s->scale, between(rng, 0.5, 2));
    d.exponent = given_or(s->exponent, between(rng, 0.5, 1.5));
    return d;
}

double qk__synth_dot(const double *x, const double *y, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

static void normalise(double *x, size_t n)
{
    double length = sqrt(qk__synth_dot(x, x, n));
    for (size_t i = 0; i < n; i++)
        x[i] /= length;
}

static void draw_gaussians(qk__rng *rng, double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = qk__rng_gaussian(rng);
}

/* base + length * (a random unit vector). */
static void draw_away(qk__rng *rng, const double *base, double length, double *x, size_t n)
{
    draw_gaussians(rng, x, n);
    normalise(x, n);
    for (size_t i = 0; i < n; i++)
        x[i] = (base ? base[i] : 0) + length * x[i];
}

/* Gram-Schmidt on Gaussian vectors gives a uniformly random basis. Each vector is
 * projected twice: once leaves errors that grow with dim. */
static void draw_basis(qk__rng *rng, double *basis, size_t n)
{
    draw_gaussians(rng, basis, n * n);
    for (size_t j = 0; j < n; j++) {
        double *b = basis + j * n;
        for (int pass = 0; pass < 2; pass++)
            for (size_t k = 0; k < j; k++) {
                double along = qk__synth_dot(b, basis + k * n, n);
                for (size_t i = 0; i < n; i++)
                    b[i] -= along * basis[k * n + i];
            }
        normalise(b, n);
    }
}

static void set_eigenvalues(qk__synth_head *head)
{
    double sum = 0;
    for (size_t j = 0; j < head->dim; j++)
        sum += head->lambda[j] = pow((double)j + 1, -head->exponent);
    double mean = sum / (double)head->dim;
    for (size_t j = 0; j < head->dim; j++)
        head->lambda[j] *= head->scale * head->scale / mean;
}

static size_t plane_coordinate(const qk_synth_settings *s, size_t p)
{
    return p * (s->dim / 2) / (size_t)s->rope_planes;
}

double qk__synth_frequency(const qk_synth_settings *settings, size_t p)
{
    return settings->rope_frequencies
               ? settings->rope_frequencies[p]
               : pow(settings->rope_theta,
                     -2.0 * (double)plane_coordinate(settings, p) / (double)settings->dim);
}

/* Planes at evenly spread RoPE coordinates, so that with the default frequencies fast and
 * slow ones are both there. */
static void draw_planes(const qk_synth_settings *s, qk__synth_head *head, qk__rng *rng)
{
    for (size_t p = 0; p < head->num_planes; p++) {
        qk__synth_plane *plane = &head->planes[p];
        plane->x = plane_coordinate(s, p);
        plane->y = plane->x + head->dim / 2;
        plane->omega = qk__synth_frequency(s, p);
        plane->amplitude = head->scale * given_or(s->rope_amplitude, between(rng, 0.5, 2));
        plane->phase = between(rng, 0, TWO_PI);
    }
}

/* The drift stays out of the turning planes, so that each of the two can be measured alone. */
static void draw_drift(qk__synth_head *head, qk__rng *rng)
{
    draw_gaussians(rng, head->a, head->dim);
    for (size_t p = 0; p < head->num_planes; p++)
        head->a[head->planes[p].x] = head->a[head->planes[p].y] = 0;
    normalise(head->a, head->dim);
}

/* With content variance v along a, r = alpha sd(t) / sqrt(alpha^2 var(t) + v). */
static void set_slope(const qk_synth_settings *s, qk__synth_head *head, double r)
{
    double var_t = qk__synth_position_variance(s);
    double given = head->id.kind == QK_QUERY ? s->slope_q : s->slope_k;
    double content = 0;
    for (size_t j = 0; j < head->dim; j++) {
        double along = qk__synth_dot(head->a, head->basis + j * head->dim, head->dim);
        content += head->lambda[j] * along * along;
    }
    if (var_t == 0)
        head->alpha = given_or(given, 0);
    else
        head->alpha = given_or(given, r * sqrt(content / ((1 - r * r) * var_t)));
    double drift = head->alpha * head->alpha * var_t;
    head->r = drift > 0 ? copysign(sqrt(drift / (drift + content)), head->alpha) : 0;
}

static qk_status allocate_head(const qk_synth_settings *s, qk_head_id id, qk__synth_head **head,
                               qk_error *err)
{
    qk__synth_head *h = calloc(1, sizeof *h);
    if (!h)
        return qk__nomem(err);
    h->id = h->key = id;
    if (id.kind == QK_QUERY)
        h->key = (qk_head_id){id.layer, id.head / s->group, QK_KEY};
    h->dim = s->dim;
    h->num_planes = (size_t)s->rope_planes;
    h->mean = qk__calloc(s->dim, sizeof *h->mean);
    h->key_mean = qk__calloc(s->dim, sizeof *h->key_mean);
    h->a = qk__calloc(s->dim, sizeof *h->a);
    h->lambda = qk__calloc(s->dim, sizeof *h->lambda);
    h->basis = qk__calloc(s->dim * s->dim, sizeof *h->basis);
    h->planes = qk__calloc(h->num_planes, sizeof *h->planes);
    *head = h;
    if (h->mean && h->key_mean && h->a && h->lambda && h->basis &&
        (h->planes || h->num_planes == 0))
        return QK_OK;
    qk__synth_head_free(head);
    return qk__nomem(err);
}

/* Draws what a head has by itself; what a query head takes from its key head comes later. */
static qk_status draw_alone(const qk_synth_settings *s, qk_head_id id, qk__rng *rng,
                            qk__synth_head **head, draws *numbers, qk_error *err)
{
    QK_TRY(allocate_head(s, id, head, err));
    qk__synth_head *h = *head;
    qk__synth_stream(rng, s, id, SYNTH_BASIS);
    draw_basis(rng, h->basis, h->dim);
    qk__synth_stream(rng, s, id, SYNTH_PARAMETERS);
    *numbers = draw_numbers(s, id, rng);
    h->scale = numbers->scale;
    h->exponent = numbers->exponent;
    set_eigenvalues(h);
    draw_planes(s, h, rng);
    return QK_OK;
}

static qk_status draw_key(const qk_synth_settings *s, qk_head_id id, qk__synth_head **head,
                          qk_error *err)
{
    qk__rng rng;
    draws numbers;
    QK_TRY(draw_alone(s, id, &rng, head, &numbers, err));
    qk__synth_head *h = *head;
    draw_drift(h, &rng);
    draw_away(&rng, NULL, numbers.mean_offset * h->scale, h->mean, h->dim);
    memcpy(h->key_mean, h->mean, h->dim * sizeof *h->mean);
    set_slope(s, h, numbers.r);
    h->key_alpha = h->alpha;
    return QK_OK;
}

qk_status qk__synth_head_draw(const qk_synth_settings *settings, qk_head_id id,
                              qk__synth_head **head, qk_error *err)
{
    if (id.kind == QK_KEY)
        return draw_key(settings, id, head, err);
    qk__rng rng;
    draws numbers;
    QK_TRY(draw_alone(settings, id, &rng, head, &numbers, err));
    qk__synth_head *h = *head;
    qk__synth_head *key;
    qk_status status = draw_key(settings, h->key, &key, err);
    if (status != QK_OK) {
        qk__synth_head_free(head);
        return status;
    }
    memcpy(h->a, key->a, h->dim * sizeof *h->a);
    memcpy(h->key_mean, key->mean, h->dim * sizeof *h->mean);
    h->key_alpha = key->alpha;
    draw_away(&rng, key->mean, numbers.separation * h->scale, h->mean, h->dim);
    set_slope(settings, h, numbers.r);
    qk__synth_head_free(&key);
    return QK_OK;
}

void qk__synth_head_free(qk__synth_head **head)
{
    qk__synth_head *h = *head;
    if (!h)
        return;
    free(h->mean);
    free(h->key_mean);
    free(h->a);
    free(h->lambda);
    free(h->basis);
    free(h->planes);
    free(h);
    *head = NULL;
}
