/* SPDX-License-Identifier: Apache-2.0 */
/* DuoAttention's score from what a model loses where a head sees the first and the latest keys alone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_build.h"
#include "export/duo_scores.h"
#include "results/csv_reader.h"

typedef struct effects {
    const qk_export_settings *settings;
    qk__csv_reader *reader;
    size_t layer, q_head, what, delta; /* columns */
    char change[64];
    double *of; /* [layers][q_heads] delta; NaN: no such row */
    size_t found;
} effects;

static qk_status find_shape(const qk__manifest *manifest, const qk_model_facts *model,
                            const char *source, qk__duo_scores *scores, qk_error *err)
{
    const char *const NAMES[] = {"num_layers", "num_q_heads", "num_k_heads"};
    size_t *const to[] = {&scores->layers, &scores->q_heads, &scores->k_heads};
    const int facts[] = {model ? model->num_layers : 0, model ? model->num_q_heads : 0,
                         model ? model->num_k_heads : 0};
    enum { MOST = 65535 };
    for (int i = 0; i < 3; i++) {
        const json_int_t told = json_integer_value(json_object_get(manifest->root, NAMES[i]));
        if (told < 0 || told > MOST || (told == 0 && !model))
            return qk__fail(
                err, QK_ERR_NOT_FOUND,
                "%s/manifest.json: does not say %s of the model: give --model MODEL", source,
                NAMES[i]);
        if (told > 0 && model && told != facts[i])
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "%s/manifest.json: %s is %lld, and %d of the model that is given",
                            source, NAMES[i], (long long)told, facts[i]);
        *to[i] = told > 0 ? (size_t)told : (size_t)facts[i];
    }
    return scores->q_heads % scores->k_heads == 0
               ? QK_OK
               : qk__fail(err, QK_ERR_INCONSISTENT,
                          "%s/manifest.json: %zu query heads are no groups of %zu key heads",
                          source, scores->q_heads, scores->k_heads);
}

static qk_status read_rows(effects *e, const qk__duo_scores *scores, qk_error *err)
{
    bool more;
    for (;;) {
        int64_t layer, head;
        double delta;
        QK_TRY(qk__reader_next(e->reader, &more, err));
        if (!more)
            return QK_OK;
        if (strcmp(qk__reader_text(e->reader, e->what), e->change) != 0)
            continue;
        QK_TRY(qk__reader_integer(e->reader, e->layer, 0, (int64_t)scores->layers - 1, &layer,
                                  err));
        QK_TRY(qk__reader_integer(e->reader, e->q_head, 0, (int64_t)scores->q_heads - 1, &head,
                                  err));
        QK_TRY(qk__reader_number(e->reader, e->delta, &delta, err));
        if (!isfinite(delta))
            return qk__reader_fail(e->reader, e->delta, QK_ERR_MALFORMED, "is no number", err);
        double *of = &e->of[(size_t)layer * scores->q_heads + (size_t)head];
        if (!isnan(*of))
            return qk__reader_fail(e->reader, e->q_head, QK_ERR_MALFORMED,
                                   "the head stands in an earlier row, too", err);
        *of = delta;
        e->found++;
    }
}

static qk_status read_table(effects *e, const qk__duo_scores *scores, qk_error *err)
{
    char *path = qk__path_join(e->settings->source, "ablation.csv");
    if (!path)
        return qk__nomem(err);
    qk_status status = qk__reader_open(&e->reader, path, err);
    free(path);
    if (status != QK_OK)
        return status;
    const struct {
        const char *name;
        size_t *column;
    } columns[] = {
        {"layer", &e->layer}, {"q_head", &e->q_head}, {"what", &e->what}, {"delta", &e->delta}};
    for (int i = 0; i < 4 && status == QK_OK; i++)
        status = qk__reader_find(e->reader, columns[i].name, true, columns[i].column, err);
    if (status == QK_OK)
        status = read_rows(e, scores, err);
    qk__reader_close(&e->reader);
    return status;
}

static qk_status check_whole(const effects *e, const qk__duo_scores *scores, qk_error *err)
{
    const size_t heads = scores->layers * scores->q_heads;
    size_t first = 0;
    if (e->found == heads)
        return QK_OK;
    while (!isnan(e->of[first]))
        first++;
    return qk__fail(
        err, QK_ERR_NOT_FOUND,
        "%s/ablation.csv: %zu of %zu heads have a row of %s, and layer %zu, head %zu "
        "has none: run qkscope ablate over all heads with --what %s",
        e->settings->source, e->found, heads, e->change, first / scores->q_heads,
        first % scores->q_heads, e->change);
}

/* A key head's keys are kept if one of its query heads needs them, so the largest loss of these counts. Over
 * the largest of all: 0 is no loss, and heads keep their ratios. */
static qk_status bring_to_shares(const effects *e, qk__duo_scores *scores, qk_error *err)
{
    const size_t keys = scores->layers * scores->k_heads;
    const size_t group = scores->q_heads / scores->k_heads;
    double most = 0;
    for (size_t i = 0; i < keys * group; i++) {
        double *of = &scores->of[i / group];
        *of = fmax(*of, e->of[i]);
        most = fmax(most, *of);
    }
    if (!(most > 0))
        return qk__fail(err, QK_ERR_DEGENERATE,
                        "%s/ablation.csv: no head loses anything by %s: the texts may be no "
                        "longer than what it leaves",
                        e->settings->source, e->change);
    for (size_t i = 0; i < keys; i++)
        scores->of[i] /= most;
    return QK_OK;
}

static qk_status score(effects *e, qk__duo_scores *scores, qk_error *err)
{
    const size_t heads = scores->layers * scores->q_heads;
    QK_TRY(
        QK__CREATE_ARRAYS(err, {&e->of, heads, sizeof *e->of},
                          {&scores->of, scores->layers * scores->k_heads, sizeof *scores->of}));
    for (size_t i = 0; i < heads; i++)
        e->of[i] = NAN;
    QK_TRY(read_table(e, scores, err));
    QK_TRY(check_whole(e, scores, err));
    return bring_to_shares(e, scores, err);
}

qk_status qk__duo_of_ablation(const qk_export_settings *settings, const qk_model_facts *model,
                              const qk__manifest *manifest, qk__duo_scores *scores,
                              qk_error *err)
{
    effects e = {.settings = settings};
    snprintf(e.change, sizeof e.change, "window:%d:%d", settings->recent, settings->sink);
    if (!manifest->complete)
        return qk__fail(
            err, QK_ERR_INCONSISTENT,
            "%s: manifest.json says that the ablation is not complete: run it again",
            settings->source);
    QK_TRY(find_shape(manifest, model, settings->source, scores, err));
    qk_status status = score(&e, scores, err);
    free(e.of);
    return status;
}
