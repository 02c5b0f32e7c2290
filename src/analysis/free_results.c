/* SPDX-License-Identifier: Apache-2.0 */
/* Frees the results of a run, or of a head. */
#include <assert.h>
#include <stdlib.h>

#include <qkscope/analysis.h>

#include "stats/attention_profile.h"
#include "stats/plasticity_core.h"
#include "stats/rotation.h"
#include "stats/token_lists.h"

static void free_head(qk_head_results *head)
{
    qk_pca_free(&head->pca);
    if (head->at_lengths)
        free(head->at_lengths->items);
    free(head->at_lengths);
    qk__rotation_free(&head->rotation);
    qk__plasticity_free(&head->plasticity);
    qk__attention_free(&head->attention);
    qk__tokens_free(&head->tokens);
    free(head->intervals);
    if (head->repeats)
        free(head->repeats->items);
    free(head->repeats);
    free(head->message);
}

void qk_analysis_results_free(qk_analysis_results **results)
{
    assert(results);
    qk_analysis_results *r = *results;
    if (!r)
        return;
    for (size_t i = 0; i < r->num_heads; i++)
        free_head(&r->heads[i]);
    free(r->heads);
    free(r->capture);
    free(r->model);
    free(r);
    *results = NULL;
}
