/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts on changes of heads. A loss that is not significant may still be harmful: with few texts nothing is
 * significant. So the interval is compared with a loss that the user accepts. It is of the tokens that the change reaches, and
 * of their texts: a window of 64 tokens costs nothing in texts of 70, whatever it costs in longer ones. Of many heads that do
 * nothing, one in forty has an interval above 0. So a head is needed only where p is small after correction. */
#include <assert.h>

#include "ablation/ablation.h"

qk_ablation_verdict qk_ablation_judge(const qk_ablation_effect *e, double tolerance)
{
    assert(e);
    return e->changed == 0 ? QK_VERDICT_UNCHANGED
           : e->changed_delta_hi < tolerance && e->changed_texts >= QK_CHANGED_TEXTS
               ? QK_VERDICT_HARMLESS
           : e->delta_lo > 0 && e->p_corrected <= QK__MOST_P ? QK_VERDICT_NEEDED
                                                             : QK_VERDICT_UNDECIDED;
}
