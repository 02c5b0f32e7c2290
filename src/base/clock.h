/* SPDX-License-Identifier: Apache-2.0 */
/* Two clocks, whose values mean something only when one is subtracted from another. */
#ifndef QK_BASE_CLOCK_H
#define QK_BASE_CLOCK_H

/* Seconds of a clock that nobody can set: the time of day does not matter to it. */
double qk__now(void);

/* Seconds of processor time that this thread has used. */
double qk__thread_seconds(void);

#endif
