/* SPDX-License-Identifier: Apache-2.0 */
/* The PCA of each kind by itself: every head of queries and every head of keys alone. */
#include <stdlib.h>

#include "analysis/head_data.h"
#include "analysis/run.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/parallel.h"
#include "stats/pca.h"

static void analyse_head(void *context, size_t i, int worker)
{
    qk__run *run = context;
    if (atomic_load(&run->cancelled))
        return;
    qk_head_results *results = &run->results->heads[i];
    const qk_head *head = qk_capture_find(run->capture, results->id);
    qk_error err = {0};
    qk__head_data data;
    qk_pca *pca = NULL;
    int64_t rows = 0;
    qk_status status = qk__head_data_read(run, worker, head, &data, &err);
    if (status == QK_OK) {
        rows = data.moments->count;
        results->rows_q = rows;
        results->texts_q = qk__run_count_texts(run, data.num_texts);
        results->lengths = data.lengths;
        status = qk__pca_single(data.moments, &run->settings->pca, &pca, &err);
        if (status != QK_OK)
            qk__context(&err, status, "%s: column 'vector'", head->files[0]);
    }
    if (status == QK_OK)
        results->pca = pca;
    else
        qk__run_fail_head(run, i, status, err.message);
    qk__head_data_free(run, &data);
    qk__run_progress(run, 1, data.bytes, rows);
}

qk_status qk__run_single(qk__run *run, qk_error *err)
{
    qk__targets targets;
    QK_TRY(qk__select_heads(run, run->settings->kinds, &targets, err));
    qk__tell_absent_heads(run);
    qk_status status = qk__run_set_heads(run, targets.ids, targets.count, err);
    free(targets.ids);
    if (status == QK_OK) {
        run->total_jobs = run->results->num_heads;
        qk__parallel_for(run->total_jobs, run->threads, analyse_head, run);
    }
    return status;
}
