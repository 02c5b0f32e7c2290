/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of one table, from a CSV file (csv_reader.h) or from a run whose results are still in
 * memory: whoever takes them in does not see which. A number has the value that its field in the
 * file would be read as. */
#ifndef QK_RESULTS_FEED_H
#define QK_RESULTS_FEED_H

#include "base/csv_reader.h"
#include "schema/schema.h"

/* All zero: there is no such table. */
typedef struct qk__feed {
    qk__csv_reader *csv; /* owned; else the table of a run: */
    const qk__table *table;
    const qk_analysis_results *run;
    size_t head, item; /* of the next row: in the run, in the head */
    size_t number;     /* of the row at hand, as in the file */
    qk__row row;
} qk__feed;

static inline bool qk__feed_is_there(const qk__feed *feed)
{
    return feed->csv || feed->run;
}

void qk__feed_close(qk__feed *feed);

/* Each as its namesake in csv_reader.h. */
const char *qk__feed_path(const qk__feed *feed);
QK_MUST_CHECK qk_status qk__feed_find(const qk__feed *feed, const char *name, bool required,
                                      size_t *column, qk_error *err);
QK_MUST_CHECK qk_status qk__feed_next(qk__feed *feed, bool *more, qk_error *err);
size_t qk__feed_row(const qk__feed *feed);
const char *qk__feed_text(const qk__feed *feed, size_t column);
QK_MUST_CHECK qk_status qk__feed_number(const qk__feed *feed, size_t column, double *value,
                                        qk_error *err);
QK_MUST_CHECK qk_status qk__feed_integer(const qk__feed *feed, size_t column, int64_t least,
                                         int64_t most, int64_t *value, qk_error *err);
qk_status qk__feed_fail(const qk__feed *feed, size_t column, qk_status status, const char *what,
                        qk_error *err);

#endif
