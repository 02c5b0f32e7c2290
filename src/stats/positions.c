/* SPDX-License-Identifier: Apache-2.0 */
/* The lattice that positions lie on, and waves as products of two short tables. */
#include "stats/positions.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/row_order.h"

void qk__positions_free(qk__positions **positions)
{
    if (!*positions)
        return;
    free((*positions)->order);
    free((*positions)->first);
    free((*positions)->place);
    free((*positions)->tau);
    free((*positions)->coarse);
    free((*positions)->fine);
    free(*positions);
    *positions = NULL;
}

/* Distance of two positions; any two of them have one in 64 bits. */
static uint64_t distance(int64_t from, int64_t to)
{
    return (uint64_t)to - (uint64_t)from;
}

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
    while (b > 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static qk_status find_places(qk__positions *p, const int64_t *t, qk_error *err)
{
    size_t rows = p->rows;
    p->count = 1;
    for (size_t i = 1; i < rows; i++)
        p->count += t[p->order[i]] != t[p->order[i - 1]];
    QK_TRY(QK__CREATE_ARRAYS(err, {&p->first, p->count + 1, sizeof *p->first},
                             {&p->place, p->count, sizeof *p->place},
                             {&p->tau, p->count, sizeof *p->tau}));
    int64_t smallest = t[p->order[0]];
    uint64_t step = 0;
    for (size_t i = 0, next = 0; i < rows; i++) {
        if (i > 0 && t[p->order[i]] == t[p->order[i - 1]])
            continue;
        p->first[next] = i;
        p->place[next] = distance(smallest, t[p->order[i]]);
        if (step != 1)
            step = greatest_common_divisor(p->place[next], step);
        next++;
    }
    p->first[p->count] = rows;
    if (step == 0)
        step = 1;
    p->step = (double)step;
    p->range = (double)p->place[p->count - 1];
    for (size_t i = 0; i < p->count; i++) {
        p->tau[i] = (double)p->place[i] - p->range / 2;
        p->place[i] /= step;
    }
    p->last_place = p->place[p->count - 1];
    return QK_OK;
}

/* Two tables of about the square root of the lattice's length, unless computing them would
 * take longer than the positions one by one. */
static qk_status create_tables(qk__positions *p, qk_error *err)
{
    int bits = 0;
    while (bits < 31 && p->last_place >> (2 * bits) > 0)
        bits++;
    uint64_t coarse = (p->last_place >> bits) + 1, fine = UINT64_C(1) << bits;
    p->fine_bits = -1;
    if (coarse + fine > p->count / 2)
        return QK_OK;
    p->fine_bits = bits;
    p->num_coarse = (size_t)coarse;
    return QK__CREATE_ARRAYS(err, {&p->coarse, p->num_coarse, 2 * sizeof(double)},
                             {&p->fine, (size_t)fine, 2 * sizeof(double)});
}

qk_status qk__positions_create(qk__positions **positions, const int64_t *t, size_t rows,
                               qk_error *err)
{
    *positions = NULL;
    if (rows >= UINT32_MAX)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "%zu rows in one head", rows);
    qk__positions *p = calloc(1, sizeof *p);
    if (!p)
        return qk__nomem(err);
    p->rows = rows;
    qk_status status = qk__rows_in_order(&p->order, rows, &t, 1, err);
    if (status == QK_OK)
        status = find_places(p, t, err);
    if (status == QK_OK)
        status = create_tables(p, err);
    if (status != QK_OK)
        qk__positions_free(&p);
    *positions = p;
    return status;
}

/* ---- waves ------------------------------------------------------------------------------ */

void qk__wave(qk__positions *p, double omega, double *cosine, double *sine)
{
    if (p->fine_bits < 0) {
        for (size_t i = 0; i < p->count; i++) {
            cosine[i] = cos(omega * p->tau[i]);
            sine[i] = sin(omega * p->tau[i]);
        }
        return;
    }
    size_t num_fine = (size_t)1 << p->fine_bits;
    for (size_t i = 0; i < p->num_coarse; i++) {
        double tau = p->step * (double)(i << p->fine_bits) - p->range / 2;
        p->coarse[2 * i] = cos(omega * tau);
        p->coarse[2 * i + 1] = sin(omega * tau);
    }
    for (size_t i = 0; i < num_fine; i++) {
        double tau = p->step * (double)i;
        p->fine[2 * i] = cos(omega * tau);
        p->fine[2 * i + 1] = sin(omega * tau);
    }
    for (size_t i = 0; i < p->count; i++) {
        const double *a = p->coarse + 2 * (p->place[i] >> p->fine_bits);
        const double *b = p->fine + 2 * (p->place[i] & (num_fine - 1));
        cosine[i] = a[0] * b[0] - a[1] * b[1];
        sine[i] = a[0] * b[1] + a[1] * b[0];
    }
}
