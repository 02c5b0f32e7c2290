/* SPDX-License-Identifier: Apache-2.0 */
/* The tables with several rows a head: head_profile.csv, head_component_weights.csv,
 * rope_pairs.csv, score_by_distance.csv, attention_profile.csv and head_distance.csv. The last,
 * which can have a million rows, is summed up as it is read. */
#include <math.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "results/builder.h"

/* ---- curves of a head ------------------------------------------------------------------- */

enum { MOST_READ = QK__SERIES_VALUES + 2 };

typedef struct series_spec {
    const char *table, *index, *index_name; /* file, column, and what messages call that */
    int64_t least, most;                    /* index */
    const char *values[MOST_READ];          /* columns; NULL: no more */
    void (*make)(double *values); /* of these the first, which are kept; NULL: as they are */
} series_spec;

static const series_spec PROFILE = {
    "head_profile.csv", "q_bucket", "query bucket", INT64_MIN, INT64_MAX,
    {"position", "ap"}, NULL};
static const series_spec WEIGHTS = {"head_component_weights.csv", "component", "component",
                                    .most = INT32_MAX, .values = {"component_weight"}};
static const series_spec PAIRS = {
    "rope_pairs.csv", "pair", "rotary pair", .most = INT32_MAX,
    .values = {"wavelength", "energy_q", "energy_k", "score_share"}};
static const series_spec CURVE = {
    "score_by_distance.csv", "bin", "bin", .most = INT32_MAX,
    .values = {"distance", "measured", "predicted", "standard_error"}};

/* The middle of the distances; attention, and what is predicted, over what is uniform. */
static void over_uniform(double *values)
{
    double last = values[4], uniform = values[5] > 0 ? values[5] : NAN;
    values[0] = (values[0] + last) / 2;
    for (int i = 1; i < QK__SERIES_VALUES; i++)
        values[i] /= uniform;
}

static const series_spec ATTENTION = {"attention_profile.csv",
                                      "cell",
                                      "cell",
                                      .most = INT32_MAX,
                                      .make = over_uniform,
                                      .values = {"distance_first", "mass", "predicted_means",
                                                 "predicted_rotation", "distance_last",
                                                 "uniform"}};

static const series_spec LENGTHS = {"lengths.csv",          "length", "length", 1, INT64_MAX,
                                    {"length", "category"}, NULL};

typedef struct series_columns {
    qk__id_columns ids;
    size_t index, values[MOST_READ];
} series_columns;

static qk_status find_series(const qk__feed *feed, const series_spec *spec,
                             series_columns *columns, qk_error *err)
{
    QK_TRY(qk__find_ids(feed, &columns->ids, err));
    QK_TRY(qk__feed_find(feed, spec->index, true, &columns->index, err));
    for (int i = 0; i < MOST_READ; i++) {
        columns->values[i] = QK__NO_COLUMN;
        if (spec->values[i])
            QK_TRY(qk__feed_find(feed, spec->values[i], true, &columns->values[i], err));
    }
    return QK_OK;
}

static qk_status read_rows(qk__builder *builder, qk__feed *feed, const series_spec *spec,
                           qk__series *series, qk_error *err)
{
    series_columns columns;
    double values[MOST_READ];
    bool more;
    int category;
    QK_TRY(find_series(feed, spec, &columns, err));
    QK_TRY(qk__series_begin(series, qk__feed_path(feed), spec->index_name, err));
    for (;;) {
        QK_TRY(qk__feed_next(feed, &more, err));
        if (!more)
            return QK_OK;
        qk__series_row row = {.row = qk__feed_row(feed)};
        QK_TRY(qk__builder_head(builder, feed, &columns.ids, &row.head, err));
        QK_TRY(qk__feed_integer(feed, columns.index, spec->least, spec->most, &row.index, err));
        for (int i = 0; i < MOST_READ; i++)
            if (spec == &LENGTHS && i == 1)
                QK_TRY(qk__feed_category(feed, columns.values[i], &category, err));
            else
                QK_TRY(qk__feed_number(feed, columns.values[i], &values[i], err));
        if (spec == &LENGTHS)
            values[1] = category;
        if (spec->make)
            spec->make(values);
        memcpy(row.values, values, sizeof row.values);
        QK_TRY(qk__series_add(series, row, err));
    }
}

static qk_status read_series(qk__builder *builder, const series_spec *spec, qk__series *series,
                             qk_error *err)
{
    qk__feed feed;
    QK_TRY(qk__open_table(builder, spec->table, &feed, err));
    qk_status status =
        qk__feed_is_there(&feed) ? read_rows(builder, &feed, spec, series, err) : QK_OK;
    qk__feed_close(&feed);
    return status;
}

qk_status qk__read_series_tables(qk__builder *builder, qk_error *err)
{
    QK_TRY(read_series(builder, &PROFILE, &builder->profile, err));
    QK_TRY(read_series(builder, &WEIGHTS, &builder->weights, err));
    QK_TRY(read_series(builder, &PAIRS, &builder->rope_pairs, err));
    QK_TRY(read_series(builder, &CURVE, &builder->score_curve, err));
    QK_TRY(read_series(builder, &LENGTHS, &builder->at_lengths, err));
    return read_series(builder, &ATTENTION, &builder->attention, err);
}

/* ---- distances -------------------------------------------------------------------------- */

typedef struct distance_columns {
    qk__id_columns ids;
    size_t distance, lag, pairs, ap;
} distance_columns;

static qk_status find_distances(const qk__feed *feed, distance_columns *columns, qk_error *err)
{
    QK_TRY(qk__find_ids(feed, &columns->ids, err));
    QK_TRY(qk__feed_find(feed, "distance_bin", true, &columns->distance, err));
    QK_TRY(qk__feed_find(feed, "lag_bin", true, &columns->lag, err));
    QK_TRY(qk__feed_find(feed, "n_pairs", true, &columns->pairs, err));
    return qk__feed_find(feed, "ap", true, &columns->ap, err);
}

/* The rows before are not kept, so that a table that holds a head twice shows only by the head
 * coming back: rows of a head must be together, as they are written. */
static qk_status note_row(qk__builder *builder, const qk__feed *feed, size_t head,
                          size_t *current, qk_error *err)
{
    if (head == *current)
        return QK_OK;
    *current = head;
    size_t row = qk__feed_row(feed), before = builder->heads[head].distance_row;
    builder->heads[head].distance_row = row;
    if (before == 0)
        return QK_OK;
    char text[QK__HEAD_TEXT_SIZE];
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "%s: rows %zu and %zu are of the same head, with others between them: %s",
                    qk__feed_path(feed), before, row, qk__head_text(builder, head, text));
}

static qk_status add_distance(qk__builder *builder, const qk__feed *feed,
                              const distance_columns *columns, size_t head, qk_error *err)
{
    int64_t distance, lag, pairs;
    double ap;
    QK_TRY(qk__feed_integer(feed, columns->distance, 0, INT64_MAX, &distance, err));
    QK_TRY(qk__feed_integer(feed, columns->lag, INT64_MIN, INT64_MAX, &lag, err));
    QK_TRY(qk__feed_integer(feed, columns->pairs, 0, INT64_MAX, &pairs, err));
    QK_TRY(qk__feed_number(feed, columns->ap, &ap, err));
    if (lag < 0) /* keys ahead of the query, where buckets are not in order of position */
        return QK_OK;
    qk_status status = qk__distances_add(&builder->distances, builder->heads[head].model,
                                         distance, lag, (double)pairs, ap, err);
    return status == QK_OK ? QK_OK
                           : qk__context(err, status, "%s: row %zu", qk__feed_path(feed),
                                         qk__feed_row(feed));
}

static qk_status read_distances(qk__builder *builder, qk__feed *feed, qk_error *err)
{
    distance_columns columns;
    size_t head, current = QK__NOT_THERE;
    bool more;
    QK_TRY(find_distances(feed, &columns, err));
    for (;;) {
        QK_TRY(qk__feed_next(feed, &more, err));
        if (!more)
            return QK_OK;
        QK_TRY(qk__builder_head(builder, feed, &columns.ids, &head, err));
        QK_TRY(note_row(builder, feed, head, &current, err));
        QK_TRY(add_distance(builder, feed, &columns, head, err));
    }
}

qk_status qk__read_distances(qk__builder *builder, qk_error *err)
{
    qk__feed feed;
    QK_TRY(qk__open_table(builder, "head_distance.csv", &feed, err));
    qk_status status = qk__feed_is_there(&feed) ? read_distances(builder, &feed, err) : QK_OK;
    qk__feed_close(&feed);
    return status;
}
