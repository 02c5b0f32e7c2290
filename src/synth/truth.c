/* SPDX-License-Identifier: Apache-2.0 */
/* truth.json: the parameters of every head, and what follows from them without noise. */
#include "synth/parameters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/json_build.h"

static json_t *array_of(const double *x, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        array = qk__json_append(array, json_real(x[i]));
    return array;
}

static json_t *matrix_of(const double *x, size_t rows, size_t columns)
{
    json_t *array = json_array();
    for (size_t i = 0; i < rows; i++)
        array = qk__json_append(array, array_of(x + i * columns, columns));
    return array;
}

/* Mean of cos(omega u), and of u sin(omega u), over the n integers or half-integers
 * symmetric about 0: the Dirichlet kernel D and -dD/domega. Near omega = 0 the quotients
 * lose their digits and the first terms of the series are exact enough. */
static void kernel(double omega, double n, double *mean_cos, double *mean_u_sin)
{
    double half = omega / 2;
    if (fabs(n * omega) < 1e-3 || sin(half) == 0) {
        double variance = (n * n - 1) / 12;
        *mean_cos = 1 - omega * omega * variance / 2;
        *mean_u_sin = omega * variance;
        return;
    }
    double s = sin(half);
    *mean_cos = sin(n * half) / (n * s);
    *mean_u_sin = (sin(n * half) * cos(half) / s - n * cos(n * half)) / (2 * n * s);
}

/* What planes add to mean and slope, positions being uniform over the buckets. With u =
 * t - t0, cos(omega t + phi) = cos(omega u + psi), whose part even in u has the mean and
 * whose odd part has the slope. Returns the variance they add in all. */
static double add_planes(const qk_synth_settings *settings, const qk__synth_head *head,
                         double *mean, double *slope)
{
    double t0 = qk__synth_center(settings);
    double var_t = qk__synth_position_variance(settings);
    double n = (double)settings->buckets * (double)settings->bucket_width;
    double variance = 0;
    for (size_t p = 0; p < head->num_planes; p++) {
        const qk__synth_plane *plane = &head->planes[p];
        double mean_cos, mean_u_sin;
        kernel(plane->omega, n, &mean_cos, &mean_u_sin);
        double psi = plane->omega * t0 + plane->phase;
        double per_token = var_t > 0 ? mean_u_sin / var_t : 0;
        mean[plane->x] += plane->amplitude * cos(psi) * mean_cos;
        mean[plane->y] += plane->amplitude * sin(psi) * mean_cos;
        slope[plane->x] -= plane->amplitude * sin(psi) * per_token;
        slope[plane->y] += plane->amplitude * cos(psi) * per_token;
        variance += plane->amplitude * plane->amplitude * (1 - mean_cos * mean_cos);
    }
    return variance;
}

/* Means, regression slopes and total variance that infinitely many rows would show. */
static json_t *expect(const qk_synth_settings *settings, const qk__synth_head *head)
{
    size_t dim = head->dim;
    double var_t = qk__synth_position_variance(settings);
    double *mean = qk__calloc(2 * dim, sizeof *mean);
    if (!mean)
        return NULL;
    double *slope = mean + dim;
    for (size_t i = 0; i < dim; i++) {
        mean[i] = head->mean[i];
        slope[i] = head->alpha * head->a[i];
    }
    double variance = add_planes(settings, head, mean, slope);
    for (size_t j = 0; j < dim; j++)
        variance += head->lambda[j];
    double drift = head->alpha * head->alpha * var_t;
    double linear = qk__synth_dot(slope, slope, dim) * var_t;
    variance += drift;
    json_t *object =
        json_pack("{s:o, s:o, s:f, s:f}", "mean", array_of(mean, dim), "slope",
                  array_of(slope, dim), "total_variance", variance, "linear_variance_fraction",
                  variance > 0 ? linear / variance : 0.0);
    free(mean);
    return object;
}

static json_t *list_planes(const qk__synth_head *head)
{
    json_t *planes = json_array();
    for (size_t p = 0; p < head->num_planes; p++) {
        const qk__synth_plane *plane = &head->planes[p];
        planes = qk__json_append(planes, json_pack("{s:[I,I], s:f, s:f, s:f}", "coordinates",
                                                   (json_int_t)plane->x, (json_int_t)plane->y,
                                                   "omega", plane->omega, "amplitude",
                                                   plane->amplitude, "phase", plane->phase));
    }
    return planes;
}

/* What follows for a query head and its key head together. */
static json_t *pair_up(const qk__synth_head *head)
{
    char name[QK_HEAD_NAME_SIZE];
    double separation = 0;
    double mu_q = qk__synth_dot(head->mean, head->a, head->dim);
    double mu_k = qk__synth_dot(head->key_mean, head->a, head->dim);
    qk_head_name(head->key, name);
    for (size_t i = 0; i < head->dim; i++)
        separation += pow(head->mean[i] - head->key_mean[i], 2);
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f}", "key_head", name, "separation",
                     sqrt(separation), "mu_q_a", mu_q, "mu_k_a", mu_k, "bias_strength",
                     mu_q * head->key_alpha, "alpha_product", head->alpha * head->key_alpha);
}

json_t *qk__synth_truth_head(const qk_synth_settings *settings, const qk__synth_head *head)
{
    char name[QK_HEAD_NAME_SIZE];
    qk_head_name(head->id, name);
    bool query = head->id.kind == QK_QUERY;
    json_t *basis =
        settings->truth_matrices ? matrix_of(head->basis, head->dim, head->dim) : NULL;
    json_t *pair = query ? pair_up(head) : NULL;
    if ((settings->truth_matrices && !basis) || (query && !pair)) {
        json_decref(basis);
        json_decref(pair);
        return NULL;
    }
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:o*, s:o, s:o*, s:o}", "name",
                     name, "scale", head->scale, "exponent", head->exponent, "r", head->r,
                     "alpha", head->alpha, "mean", array_of(head->mean, head->dim), "a",
                     array_of(head->a, head->dim), "eigenvalues",
                     array_of(head->lambda, head->dim), "basis", basis, "planes",
                     list_planes(head), "pair", pair, "expected", expect(settings, head));
}

static json_t *shape_of(const qk_synth_settings *s)
{
    return json_pack("{s:i, s:i, s:i, s:I, s:i, s:I, s:i, s:i, s:I, s:i, s:I, s:b, s:b, s:i}",
                     "layers", s->layers, "query_heads", s->query_heads, "group", s->group,
                     "dim", (json_int_t)s->dim, "examples", s->examples, "rows_per_example",
                     (json_int_t)s->rows_per_example, "buckets", s->buckets, "bucket_width",
                     s->bucket_width, "position_offset", (json_int_t)s->position_offset,
                     "sliding_window", s->sliding_window, "seed", (json_int_t)s->seed,
                     "bfloat16", s->bfloat16, "strings", s->strings, "shards", s->shards);
}

/* JSON has no NaN: null stands for "drawn for every head". */
json_t *qk__synth_truth_settings(const qk_synth_settings *s)
{
    json_t *object = shape_of(s);
    json_t *model = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:f, s:o, s:o}", "r_q",
        qk__json_number(s->r_q), "r_k", qk__json_number(s->r_k), "slope_q",
        qk__json_number(s->slope_q), "slope_k", qk__json_number(s->slope_k), "separation",
        qk__json_number(s->separation), "mean_offset", qk__json_number(s->mean_offset), "scale",
        qk__json_number(s->scale), "exponent", qk__json_number(s->exponent), "rope_planes",
        s->rope_planes, "rope_theta", s->rope_theta, "rope_amplitude",
        qk__json_number(s->rope_amplitude), "rope_frequencies",
        s->rope_frequencies ? array_of(s->rope_frequencies, (size_t)s->rope_planes)
                            : json_null());
    if (!object || !model || json_object_update(object, model) != 0) {
        json_decref(object);
        object = NULL;
    }
    json_decref(model);
    return object;
}
