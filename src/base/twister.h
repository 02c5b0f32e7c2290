/* SPDX-License-Identifier: Apache-2.0 */
/* The Mersenne Twister MT19937 (Matsumoto and Nishimura 1998), which Python and PyTorch share. */
#ifndef QK_BASE_TWISTER_H
#define QK_BASE_TWISTER_H

#include <stdint.h>

enum { QK__TWISTER_SIZE = 624 };

typedef struct qk__twister {
    uint32_t state[QK__TWISTER_SIZE];
    int next;
} qk__twister;

/* From one number, as PyTorch seeds it, and from `length` >= 1 numbers (at most
 * QK__TWISTER_SIZE), as Python does. */
void qk__twister_seed(qk__twister *twister, uint32_t seed);
void qk__twister_seed_by_array(qk__twister *twister, const uint32_t *key, uint32_t length);

uint32_t qk__twister_draw(qk__twister *twister);

#endif
