/* SPDX-License-Identifier: Apache-2.0 */
/* summary.json of the PCA of each kind: the strongest correlations and how many pass the threshold, under the names of
 * the original tool. */
#include <math.h>
#include <stdlib.h>

#include "analysis/run.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/clock.h"
#include "base/json_build.h"

enum { TOP_CORRELATIONS = 20 };

/* A component of a head that was fitted by itself. */
typedef struct hit {
    const qk_head_results *head;
    size_t pc;
    double r;
} hit;

/* Descending |r|; equal ones in table order, which is that of the heads' addresses. */
static int compare_hits(const void *a, const void *b)
{
    const hit *x = a, *y = b;
    if (fabs(x->r) != fabs(y->r))
        return fabs(x->r) > fabs(y->r) ? -1 : 1;
    if (x->head != y->head)
        return x->head < y->head ? -1 : 1;
    return x->pc < y->pc ? -1 : x->pc > y->pc;
}

static json_t *describe_hit(const hit *h)
{
    const qk_component *c = &h->head->pca->components[h->pc];
    return json_pack("{s:i, s:i, s:s, s:I, s:o, s:o, s:o}", "layer", h->head->id.layer, "head",
                     h->head->id.head, "kind", h->head->id.kind == QK_QUERY ? "q" : "k",
                     "pca_dim", (json_int_t)h->pc, "correlation", qk__json_number(c->r_q),
                     "p_value", qk__json_number(c->p_q), "explained_variance_ratio",
                     qk__json_number(c->explained_variance));
}

/* Lists in table order what reaches the threshold, and the strongest, for which it sorts the hits. */
static void list_hits(hit *hits, size_t count, double threshold, json_t **high, json_t **top)
{
    *high = json_array();
    *top = json_array();
    for (size_t i = 0; i < count; i++)
        if (fabs(hits[i].r) >= threshold)
            *high = qk__json_append(*high, describe_hit(&hits[i]));
    if (count > 0)
        qsort(hits, count, sizeof *hits, compare_hits);
    for (size_t i = 0; i < count && i < TOP_CORRELATIONS; i++)
        *top = qk__json_append(*top, describe_hit(&hits[i]));
}

static qk_status find_hits(const qk__run *run, json_t **high, json_t **top, qk_error *err)
{
    hit *hits = qk__calloc(run->results->high.components + 1, sizeof *hits);
    size_t count = 0;
    if (!hits)
        return qk__nomem(err);
    for (size_t i = 0; i < run->results->num_heads; i++) {
        const qk_head_results *head = &run->results->heads[i];
        for (size_t pc = 0; head->pca && pc < head->pca->num_components; pc++)
            hits[count++] = (hit){head, pc, head->pca->components[pc].r_q};
    }
    list_hits(hits, count, run->settings->correlation_threshold, high, top);
    free(hits);
    return QK_OK;
}

qk_status qk__write_summary(qk__run *run, qk_error *err)
{
    const qk_analysis_settings *s = run->settings;
    qk_high_correlations n = run->results->high;
    json_t *hits, *top;
    QK_TRY(find_hits(run, &hits, &top, err));
    json_t *high = json_pack(
        "{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "threshold",
        qk__json_number(s->correlation_threshold), "total_components", (json_int_t)n.components,
        "high_abs_components", (json_int_t)n.high, "high_neg_components",
        (json_int_t)n.high_negative, "heads_total", (json_int_t)n.heads, "heads_with_high_abs",
        (json_int_t)n.heads_high, "heads_with_high_neg", (json_int_t)n.heads_high_negative,
        "high_abs_hits", hits);
    char timestamp[QK__DATE_SIZE];
    json_t *root = json_pack(
        "{s:o, s:o, s:s, s:o, s:i, s:s, s:I, s:I, s:o, s:o}", "dataset",
        qk__json_text(s->capture), "split", qk__json_text_or_null(s->prefix), "timestamp",
        qk__date(timestamp), "device", qk__json_text(s->device ? s->device : "auto"),
        "n_components", s->pca.components, "pca_backend",
        s->pca_backend ? s->pca_backend : "sklearn", "heads_analyzed", (json_int_t)n.heads,
        "total_samples", (json_int_t)run->results->num_rows, "high_correlation_summary", high,
        "top_correlations", top);
    qk__outfile *file;
    QK_TRY(qk__json_write(root, s->output, "summary.json", &file, err));
    return qk__run_add_output(run, "summary.json", file, QK_OK);
}
