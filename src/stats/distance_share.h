/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as a function of distance alone: a weight for the keys of each bin of distances, which a row scales to 1 over
 * the keys that it sees (docs/behaviour.md#numbers). Keys 0 to 3 are left out. */
#ifndef QK_STATS_DISTANCE_SHARE_H
#define QK_STATS_DISTANCE_SHARE_H

#include <qkscope/attention.h>

enum { QK__MOST_LENGTHS = 3 };

/* How many keys the rows see whose farthest key is in a bin: lengths, and the share of the rows that each stands for. */
typedef struct qk__far_rows {
    struct {
        int count;
        double keys[QK__MOST_LENGTHS], share[QK__MOST_LENGTHS];
    } last[QK_DISTANCE_BINS];
} qk__far_rows;

/* most: keys that a row sees at most, of a long text or in a window. windowed: rows that reach the last bin see a whole
 * window; else they are spread evenly over the numbers of keys up to `most`. */
qk__far_rows qk__far_rows_up_to(double most, bool windowed);

/* The weights of the largest likelihood for sums of rows, QK_ATTENTION_SUMS: from FAR_BINS and LAST_BINS. weight: where
 * the search begins; 0 where the sums have nothing in a bin. */
void qk__distance_fit(const qk__far_rows *rows, const double *sums,
                      double weight[QK_DISTANCE_BINS]);

/* Sum over other rows of w times their cross-entropy under the weights, in nats. A bin without a weight that these rows
 * attend to takes the weight of the bin before it, in `weight` too. */
double qk__distance_cross_entropy(const qk__far_rows *rows, const double *sums,
                                  double weight[QK_DISTANCE_BINS]);

#endif
