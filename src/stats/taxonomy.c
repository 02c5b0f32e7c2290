/* SPDX-License-Identifier: Apache-2.0 */
/* The five kinds of heads. */
#include <qkscope/stats.h>

#include <math.h>

const char *qk_category_name(qk_category category)
{
    switch (category) {
    case QK_POSITION_DOMINATED:
        return "position-dominated";
    case QK_Q_POSITIONAL:
        return "Q-positional";
    case QK_K_POSITIONAL:
        return "K-positional";
    case QK_CONTENT_FOCUSED:
        return "content-focused";
    case QK_MIXED:
    case QK_NUM_CATEGORIES:
        break;
    }
    return "mixed";
}

qk_category qk_classify(double r_q, double r_k, double low, double high)
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
