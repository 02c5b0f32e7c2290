/* SPDX-License-Identifier: Apache-2.0 */
/* Seconds, to be subtracted from each other. */
#ifndef QK_BASE_CLOCK_H
#define QK_BASE_CLOCK_H

/* Of a clock that nobody sets. */
double qk__now(void);

/* Of processor time of this thread. */
double qk__thread_seconds(void);

#endif
