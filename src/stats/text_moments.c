/* SPDX-License-Identifier: Apache-2.0 */
/* What groups of texts do along an axis. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "stats/moments.h"
#include "stats/project.h"

void qk_text_moments_free(qk_text_moments **texts)
{
    assert(texts);
    if (!*texts)
        return;
    free((*texts)->pilot);
    free((*texts)->memory);
    qk__text_groups_free(&(*texts)->groups);
    free(*texts);
    *texts = NULL;
}

qk__spare_sums qk__text_moments_end(qk_text_moments **texts)
{
    qk__spare_sums spare = {0};
    if (*texts) {
        spare = (qk__spare_sums){(*texts)->memory, (*texts)->panels};
        (*texts)->memory = NULL;
    }
    qk_text_moments_free(texts);
    return spare;
}

size_t qk_text_moments_count(const qk_text_moments *texts)
{
    return texts ? texts->groups.num_texts : 0;
}

void qk__text_moments_along(const qk_text_moments *texts, const double *axis,
                            qk__line_sums lines[QK_TEXT_GROUPS])
{
    memset(lines, 0, QK_TEXT_GROUPS * sizeof *lines);
    for (uint32_t g = 0; g < texts->groups.count; g++) {
        const qk__sums *s = &texts->sums[g];
        lines[g] = (qk__line_sums){.n = (double)s->count,
                                   .t = s->sum_t,
                                   .tt = s->sum_tt,
                                   .x = qk__dot(axis, s->sum, texts->dim),
                                   .xt = qk__dot(axis, s->sum_xt, texts->dim),
                                   .xx = texts->kernel->form(s->gram, texts->panels, axis)};
    }
}
