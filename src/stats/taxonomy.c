/* SPDX-License-Identifier: Apache-2.0 */
/* The five categories of heads. */
#include <qkscope/stats.h>

#include <math.h>

#include "stats/pca.h"

const char *qk_category_name(qk_category category)
{
    static const char *const NAMES[QK_NUM_CATEGORIES] = {
        [QK_POSITION_DOMINATED] = "position-dominated",
        [QK_Q_POSITIONAL] = "Q-positional",
        [QK_K_POSITIONAL] = "K-positional",
        [QK_CONTENT_FOCUSED] = "content-focused",
        [QK_MIXED] = "mixed",
    };
    return NAMES[(unsigned)category < QK_NUM_CATEGORIES ? category : QK_MIXED];
}

qk_category qk__classify(double r_q, double r_k, double low, double high)
{
    double k = fabs(r_k);
    if (r_q > high && k > high)
        return QK_POSITION_DOMINATED;
    if (r_q > high && k < low)
        return QK_Q_POSITIONAL;
    if (r_q < low && k > high)
        return QK_K_POSITIONAL;
    if (r_q < low && k < low)
        return QK_CONTENT_FOCUSED;
    return QK_MIXED;
}
