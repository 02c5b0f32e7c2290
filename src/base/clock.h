/* SPDX-License-Identifier: Apache-2.0 */
/* Two clocks, whose values mean something only when one is subtracted from another, and the date. */
#ifndef QK_BASE_CLOCK_H
#define QK_BASE_CLOCK_H

/* Seconds of a clock that nobody can set: the time of day does not matter to it. */
double qk__now(void);

/* Seconds of processor time that this thread has used. */
double qk__thread_seconds(void);

/* The time of day in UTC, as datetime.isoformat writes it: "2026-11-22T16:00:00+00:00"; SOURCE_DATE_EPOCH in its place
 * gives the same bytes every time. "" where it is not known. */
enum { QK__DATE_SIZE = 40 };
const char *qk__date(char text[QK__DATE_SIZE]);

#endif
