/* SPDX-License-Identifier: Apache-2.0 */
/* DuoAttention's score from what a model loses where a head sees the first and the latest keys alone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "export/export.h"
#include "base/csv_reader.h"

typedef struct effects {
    const qk_export_settings *settings;
    int64_t shape[3];  /* layers, query heads, key heads of a layer */
    size_t columns[4]; /* of NAMES */
    char change[64];
    double *of; /* [layers][query heads] delta; NaN: no such row */
    size_t found;
} effects;

enum { LAYER, Q_HEAD, WHAT, DELTA };
static const char *const NAMES[] = {"layer", "q_head", "what", "delta"};

static qk_status read_shape(effects *e, const json_t *manifest, qk_error *err)
{
    static const char *const KEYS[] = {"num_layers", "num_q_heads", "num_k_heads"};
    enum { MOST = 65535 };
    for (int i = 0; i < 3; i++) {
        e->shape[i] = json_integer_value(json_object_get(manifest, KEYS[i]));
        if (e->shape[i] < 1 || e->shape[i] > MOST)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "%s/manifest.json: no %s: run qkscope ablate again",
                            e->settings->source, KEYS[i]);
    }
    return e->shape[1] % e->shape[2] == 0
               ? QK_OK
               : qk__fail(err, QK_ERR_INCONSISTENT,
                          "%s/manifest.json: %lld query heads are no groups of %lld key heads",
                          e->settings->source, (long long)e->shape[1], (long long)e->shape[2]);
}

static qk_status read_row(effects *e, const qk__csv_reader *r, qk_error *err)
{
    int64_t layer, head;
    double delta;
    if (strcmp(qk__reader_text(r, e->columns[WHAT]), e->change) != 0)
        return QK_OK;
    QK_TRY(qk__reader_integer(r, e->columns[LAYER], 0, e->shape[0] - 1, &layer, err));
    QK_TRY(qk__reader_integer(r, e->columns[Q_HEAD], 0, e->shape[1] - 1, &head, err));
    QK_TRY(qk__reader_number(r, e->columns[DELTA], &delta, err));
    double *of = &e->of[layer * e->shape[1] + head];
    if (!isfinite(delta) || !isnan(*of))
        return qk__reader_fail(r, e->columns[DELTA], QK_ERR_MALFORMED,
                               isfinite(delta) ? "the head has an earlier row" : "no number",
                               err);
    *of = delta;
    e->found++;
    return QK_OK;
}

static qk_status read_table(effects *e, qk_error *err)
{
    qk__csv_reader *reader = NULL;
    char *path = qk__path_join(e->settings->source, "ablation.csv");
    qk_status status = path ? qk__reader_open(&reader, path, err) : qk__nomem(err);
    free(path);
    for (int i = 0; i < 4 && status == QK_OK; i++)
        status = qk__reader_find(reader, NAMES[i], true, &e->columns[i], err);
    for (bool more = true; status == QK_OK && more;) {
        status = qk__reader_next(reader, &more, err);
        if (status == QK_OK && more)
            status = read_row(e, reader, err);
    }
    qk__reader_close(&reader);
    return status;
}

/* A key head's keys are kept if one of its query heads needs them, so the largest loss of these counts. Over
 * the largest of all: 0 is no loss, and heads keep their ratios. */
static qk_status bring_to_shares(const effects *e, size_t heads, double *of, qk_error *err)
{
    const size_t group = (size_t)(e->shape[1] / e->shape[2]);
    double most = 0;
    for (size_t i = 0; i < heads; i++) {
        if (isnan(e->of[i]))
            return qk__fail(
                err, QK_ERR_NOT_FOUND,
                "%s/ablation.csv: %zu of %zu heads have a row of %s, and layer %zu, "
                "head %zu has none: run qkscope ablate over all heads with --what %s",
                e->settings->source, e->found, heads, e->change, i / (size_t)e->shape[1],
                i % (size_t)e->shape[1], e->change);
        of[i / group] = fmax(of[i / group], e->of[i]);
        most = fmax(most, e->of[i]);
    }
    if (!(most > 0))
        return qk__fail(err, QK_ERR_DEGENERATE,
                        "%s/ablation.csv: no head loses anything by %s: the texts may be no "
                        "longer than what it leaves",
                        e->settings->source, e->change);
    for (size_t i = 0; i < heads / group; i++)
        of[i] /= most;
    return QK_OK;
}

qk_status qk__scores_by_loss(const qk_export_settings *settings, const json_t *manifest,
                             qk__duo_scores *scores, qk_error *err)
{
    effects e = {.settings = settings};
    snprintf(e.change, sizeof e.change, "window:%d:%d", settings->recent, settings->sink);
    QK_TRY(read_shape(&e, manifest, err));
    const size_t heads = (size_t)(e.shape[0] * e.shape[1]);
    scores->layers = (size_t)e.shape[0];
    scores->heads = (size_t)e.shape[2];
    QK_TRY(QK__CREATE_ARRAYS(err, {&e.of, heads, sizeof *e.of},
                             {&scores->of, heads, sizeof *scores->of}));
    for (size_t i = 0; i < heads; i++)
        e.of[i] = NAN;
    qk_status status = read_table(&e, err);
    if (status == QK_OK)
        status = bring_to_shares(&e, heads, scores->of, err);
    free(e.of);
    return status;
}
