/* SPDX-License-Identifier: Apache-2.0 */
/* Reads tables with several rows a head that the page shows: head_profile.csv, score_by_distance.csv,
 * attention_profile.csv. */
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

typedef struct series_columns {
    qk__id_columns ids;
    size_t index, values[MOST_READ];
} series_columns;

static qk_status find_series(const qk__csv_reader *csv, const series_spec *spec,
                             series_columns *columns, qk_error *err)
{
    QK_TRY(qk__find_ids(csv, &columns->ids, err));
    QK_TRY(qk__reader_find(csv, spec->index, true, &columns->index, err));
    for (int i = 0; i < MOST_READ; i++) {
        columns->values[i] = QK__NO_COLUMN;
        if (spec->values[i])
            QK_TRY(qk__reader_find(csv, spec->values[i], true, &columns->values[i], err));
    }
    return QK_OK;
}

static qk_status read_rows(qk__builder *builder, qk__csv_reader *csv, const series_spec *spec,
                           qk__series *series, qk_error *err)
{
    series_columns columns;
    double values[MOST_READ];
    bool more;
    QK_TRY(find_series(csv, spec, &columns, err));
    QK_TRY(qk__series_begin(series, qk__reader_path(csv), spec->index_name, err));
    for (;;) {
        QK_TRY(qk__reader_next(csv, &more, err));
        if (!more)
            return QK_OK;
        qk__series_row row = {.row = qk__reader_row(csv)};
        QK_TRY(qk__builder_head(builder, csv, &columns.ids, &row.head, err));
        QK_TRY(
            qk__reader_integer(csv, columns.index, spec->least, spec->most, &row.index, err));
        for (int i = 0; i < MOST_READ; i++)
            QK_TRY(qk__reader_number(csv, columns.values[i], &values[i], err));
        if (spec->make)
            spec->make(values);
        memcpy(row.values, values, sizeof row.values);
        QK_TRY(qk__series_add(series, row, err));
    }
}

static qk_status read_series(qk__builder *builder, const series_spec *spec, qk__series *series,
                             qk_error *err)
{
    qk__csv_reader *csv;
    QK_TRY(qk__open_table(builder, spec->table, &csv, err));
    qk_status status = csv ? read_rows(builder, csv, spec, series, err) : QK_OK;
    qk__reader_close(&csv);
    return status;
}

qk_status qk__read_series_tables(qk__builder *builder, qk_error *err)
{
    QK_TRY(read_series(builder, &PROFILE, &builder->profile, err));
    QK_TRY(read_series(builder, &CURVE, &builder->score_curve, err));
    return read_series(builder, &ATTENTION, &builder->attention, err);
}
