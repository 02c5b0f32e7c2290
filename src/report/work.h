/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the findings: taken piece by piece, released at once. */
#ifndef QK_REPORT_WORK_H
#define QK_REPORT_WORK_H

#include "base/arena.h"

/* To be zero-initialised. */
typedef struct qk__work {
    qk__arena memory;
    bool failed; /* memory ran out: results of this work must not be used */
} qk__work;

/* Zeroed memory. NULL: memory ran out, and the work has failed. */
static inline void *qk__work_take(qk__work *work, size_t count, size_t size)
{
    void *taken = qk__arena_alloc(&work->memory, count, size);
    if (!taken)
        work->failed = true;
    return taken;
}

static inline void qk__work_release(qk__work *work)
{
    qk__arena_free(&work->memory);
}

#endif
