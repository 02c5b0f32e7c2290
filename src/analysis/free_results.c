/* SPDX-License-Identifier: Apache-2.0 */
/* Giving back what a run, or a head of it, has found. */
#include <assert.h>
#include <stdlib.h>

#include "analysis/run.h"
#include "stats/attention_profile.h"

void qk__head_results_clear(qk_head_results *head)
{
    qk_pca_free(&head->pca);
    if (head->at_lengths)
        free(head->at_lengths->items);
    free(head->at_lengths);
    qk_rotation_free(&head->rotation);
    qk_plasticity_free(&head->plasticity);
    qk__attention_free(&head->attention);
    free(head->intervals);
    free(head->message);
    *head = (qk_head_results){.id = head->id, .k_head = head->k_head};
}

void qk__run_drop_heads(qk_analysis_results *r)
{
    for (size_t i = 0; i < r->num_heads; i++)
        qk__head_results_clear(&r->heads[i]);
    free(r->heads);
    r->heads = NULL;
    r->num_heads = 0;
}

void qk_analysis_results_free(qk_analysis_results **results)
{
    assert(results);
    qk_analysis_results *r = *results;
    if (!r)
        return;
    qk__run_drop_heads(r);
    free(r->capture);
    free(r->model);
    free(r);
    *results = NULL;
}
