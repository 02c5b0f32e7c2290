/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table, from a file or from memory. */
#include "results/feed.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

void qk__feed_close(qk__feed *feed)
{
    qk__reader_close(&feed->csv);
    *feed = (qk__feed){0};
}

const char *qk__feed_path(const qk__feed *feed)
{
    return feed->csv ? qk__reader_path(feed->csv) : feed->table->info.name;
}

qk_status qk__feed_find(const qk__feed *feed, const char *name, bool required, size_t *column,
                        qk_error *err)
{
    if (feed->csv)
        return qk__reader_find(feed->csv, name, required, column, err);
    *column = QK__NO_COLUMN;
    for (size_t i = 0; i < feed->table->num_columns; i++) {
        const qk__column *c = &feed->table->columns[i];
        if (strcmp(c->info.name, name) == 0 && qk__has_column(c, feed->run->contents))
            *column = i;
    }
    if (required && *column == QK__NO_COLUMN)
        return qk__fail(err, QK_ERR_MALFORMED, "%s: there is no column '%s'",
                        feed->table->info.name, name);
    return QK_OK;
}

qk_status qk__feed_next(qk__feed *feed, bool *more, qk_error *err)
{
    if (feed->csv)
        return qk__reader_next(feed->csv, more, err);
    const qk_analysis_results *run = feed->run;
    for (; feed->head < run->num_heads; feed->head++, feed->item = 0)
        if (qk__find_row(feed->table, run, &run->heads[feed->head], feed->item, &feed->row))
            break;
    *more = feed->head < run->num_heads;
    feed->item++;
    feed->number = feed->number > 0 ? feed->number + 1 : 2; /* row 1 is the header */
    return QK_OK;
}

size_t qk__feed_row(const qk__feed *feed)
{
    return feed->csv ? qk__reader_row(feed->csv) : feed->number;
}

/* NULL: no column, or nothing in its field. */
static const qk__column *column_at(const qk__feed *feed, size_t column)
{
    const qk__column *found = column == QK__NO_COLUMN ? NULL : &feed->table->columns[column];
    bool empty =
        found && found->storage == QK__POSITIVE && qk__integer_of(found, &feed->row) <= 0;
    return empty ? NULL : found;
}

const char *qk__feed_text(const qk__feed *feed, size_t column)
{
    if (feed->csv)
        return qk__reader_text(feed->csv, column);
    const qk__column *found = column_at(feed, column);
    return found && found->info.type == QK_COLUMN_TEXT ? qk__text_of(found, &feed->row) : "";
}

qk_status qk__feed_fail(const qk__feed *feed, size_t column, qk_status status, const char *what,
                        qk_error *err)
{
    if (feed->csv)
        return qk__reader_fail(feed->csv, column, status, what, err);
    return qk__fail(err, status, "%s: row %zu, column '%s': %s", feed->table->info.name,
                    feed->number, feed->table->columns[column].info.name, what);
}

qk_status qk__feed_number(const qk__feed *feed, size_t column, double *value, qk_error *err)
{
    if (feed->csv)
        return qk__reader_number(feed->csv, column, value, err);
    const qk__column *found = column_at(feed, column);
    *value = NAN;
    if (!found)
        return QK_OK;
    if (found->info.type == QK_COLUMN_TEXT)
        return qk__feed_fail(feed, column, QK_ERR_MALFORMED, "is not a number", err);
    double number = found->info.type == QK_COLUMN_REAL
                        ? qk__real_of(found, &feed->row)
                        : (double)qk__integer_of(found, &feed->row);
    if (isfinite(number))
        *value = number + 0.0; /* files know no -0 */
    return QK_OK;
}

qk_status qk__feed_integer(const qk__feed *feed, size_t column, int64_t least, int64_t most,
                           int64_t *value, qk_error *err)
{
    if (feed->csv)
        return qk__reader_integer(feed->csv, column, least, most, value, err);
    const qk__column *found = column_at(feed, column);
    *value = 0;
    if (found && found->info.type == QK_COLUMN_INTEGER) {
        int64_t number = qk__integer_of(found, &feed->row);
        if (number >= least && number <= most) {
            *value = number;
            return QK_OK;
        }
    }
    return qk__feed_fail(feed, column, QK_ERR_MALFORMED,
                         "is not a whole number, or out of range", err);
}
