/* SPDX-License-Identifier: Apache-2.0 */
/* Query models as the pair kernels take them. */
#include "stats/whitening.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"

void qk__whitening_free(qk__whitening **whitening)
{
    if (!*whitening)
        return;
    free((*whitening)->mean);
    free(*whitening);
    *whitening = NULL;
}

/* z does not change when mean, slope and standard deviations are all multiplied by one number.
 * A power of two brings the largest deviation near 1, without rounding: products with keys
 * then overflow or vanish only where the keys' own squares do. */
static void normalise(qk__whitening *p, double largest)
{
    int exponent;
    frexp(largest, &exponent);
    for (size_t i = 0; i < p->dim; i++) {
        p->mean[i] = ldexp(p->mean[i], -exponent);
        p->slope[i] = ldexp(p->slope[i], -exponent);
        p->scale[i] = ldexp(p->scale[i], -exponent);
    }
}

qk_status qk__whitening_create(qk__whitening **whitening, const qk__query_model *model,
                               qk_error *err)
{
    size_t d = model->dim, ld = (d + LANES - 1) / LANES * LANES;
    *whitening = NULL;
    qk__whitening *p = calloc(1, sizeof *p);
    if (!p)
        return qk__nomem(err);
    *p = (qk__whitening){.kernel = qk__best_pair_kernel(),
                         .dim = d,
                         .ld = ld,
                         .mean = qk__alloc_aligned(4 * ld, sizeof(double))};
    if (!p->mean) {
        qk__whitening_free(&p);
        return qk__nomem(err);
    }
    p->slope = p->mean + ld;
    p->mirror = p->slope + ld;
    p->scale = p->mirror + ld;
    memset(p->mean, 0, 4 * ld * sizeof(double));
    memcpy(p->mean, model->mean, d * sizeof(double));
    memcpy(p->slope, model->beta, d * sizeof(double));
    memcpy(p->mirror, model->mirror, d * sizeof(double));
    double largest = 0;
    for (size_t i = 0; i < d; i++) {
        p->scale[i] = sqrt(model->variance[i]);
        largest = fmax(largest, p->scale[i]);
    }
    normalise(p, largest);
    *whitening = p;
    return QK_OK;
}
