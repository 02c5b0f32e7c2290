/* SPDX-License-Identifier: Apache-2.0 */
/* What a run keeps of a head for a comparison. */
#include "stats/kept_head.h"

#include <stdlib.h>

const char *const qk__repeated_names[QK__NUM_REPEATED] = {
    [QK__R_Q] = "r_q",
    [QK__R_K] = "r_k",
    [QK__R_Q_A] = "r_q_a",
    [QK__R_K_A] = "r_k_a",
    [QK__ALPHA_Q] = "alpha_q",
    [QK__ALPHA_K] = "alpha_k",
    [QK__BIAS] = "bias_strength",
    [QK__SEPARATION] = "separation_strength",
    [QK__AP] = "ap_overall",
    [QK__AP_DROP] = "ap_drop",
};

const char *const qk__space_names[QK__NUM_SPACES] = {"qk", "q", "k"};

void qk__kept_heads_free(qk__kept_head **heads, size_t count)
{
    for (size_t i = 0; *heads && i < count; i++)
        for (int s = 0; s < QK__NUM_SPACES; s++)
            free((*heads)[i].spaces[s].axes);
    free(*heads);
    *heads = NULL;
}
