/* SPDX-License-Identifier: Apache-2.0 */
/* How the leading components of the heads of two models lie to each other. */
#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "results/comparison.h"

static const double DEGREES = 57.295779513082320877;

static int compare_ids(const void *key, const void *item)
{
    const qk__result_head *head = key;
    const qk_head_results *of = item;
    const qk_head_id id = {head->layer, head->q_head, QK_QUERY};
    return qk_head_compare(id, of->id);
}

const qk_head_results *qk__run_head(const qk__comparison *c, int side, size_t i)
{
    const qk_analysis_results *run = c->sides[side].run;
    return run ? bsearch(c->pairs[side][i], run->heads, run->num_heads, sizeof *run->heads,
                         compare_ids)
               : NULL;
}

const qk__kept_head *qk__kept_of(const qk__comparison *c, int side, size_t i)
{
    const qk__side *s = &c->sides[side];
    const qk_head_results *found = s->kept ? qk__run_head(c, side, i) : NULL;
    return found ? &s->kept[found - s->run->heads] : NULL;
}

static qk_status compare_one(const qk__comparison *c, size_t i, qk__space space,
                             const qk__leading *a, const qk__leading *b,
                             qk__compared_space *row, qk_error *err)
{
    const qk__result_head *head = c->pairs[0][i];
    double angles[QK_MOST_SUBSPACE];
    QK_TRY(qk__subspace_angles(a->axes, b->axes, a->count, a->dim, angles, err));
    *row = (qk__compared_space){
        .layer = head->layer,
        .q_head = head->q_head,
        .k_head = head->k_head,
        .space = qk__space_names[space],
        .components = a->count,
        .angle_least = angles[0] * DEGREES,
        .angle_most = angles[a->count - 1] * DEGREES,
        .overlap = qk__subspace_overlap(angles, a->count),
        .overlap_chance = (double)a->count / (double)a->dim,
        .overlap_halves_a = a->halves,
        .overlap_halves_b = b->halves,
        .share_a = a->share,
        .share_b = b->share,
    };
    return QK_OK;
}

static qk_status compare_head(qk__comparison *c, size_t i, qk_error *err)
{
    const qk__kept_head *a = qk__kept_of(c, 0, i), *b = qk__kept_of(c, 1, i);
    for (int s = 0; a && b && s < QK__NUM_SPACES; s++) {
        const qk__leading *x = &a->spaces[s], *y = &b->spaces[s];
        if (x->count == 0 || y->count == 0)
            continue;
        if (x->dim != y->dim) {
            c->no_spaces = "the heads of a and b have different dimensions";
            continue;
        }
        QK_TRY(compare_one(c, i, (qk__space)s, x, y, &c->spaces[c->num_spaces], err));
        c->num_spaces++;
    }
    return QK_OK;
}

qk_status qk__compare_spaces(qk__comparison *c, qk_error *err)
{
    if (!c->sides[0].kept || !c->sides[1].kept) {
        c->no_spaces = "tables do not have the components of heads; give captures";
        return QK_OK;
    }
    c->spaces = qk__calloc(c->num_paired, QK__NUM_SPACES * sizeof *c->spaces);
    if (!c->spaces)
        return qk__nomem(err);
    for (size_t i = 0; i < c->num_paired; i++)
        QK_TRY(compare_head(c, i, err));
    if (c->num_spaces == 0 && !c->no_spaces)
        c->no_spaces = "no head has as many components in both";
    return QK_OK;
}
