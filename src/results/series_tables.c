/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the tables with several rows a head: head_profile.csv, head_component_weights.csv,
 * rope_pairs.csv, score_by_distance.csv and head_distance.csv. The last, which can have a
 * million rows, is summed up as it is read. */
#include "base/error.h"
#include "results/builder.h"

/* ---- curves of a head ------------------------------------------------------------------- */

typedef struct series_spec {
    size_t series;                         /* member of the builder */
    const char *table, *index;             /* file, and the column of the index */
    const char *index_name;                /* what messages call it */
    int64_t least;                         /* index */
    const char *values[QK__SERIES_VALUES]; /* columns; NULL: no more */
} series_spec;

static const series_spec SERIES[] = {
    {offsetof(qk__builder, profile),
     "head_profile.csv",
     "q_bucket",
     "query bucket",
     INT64_MIN,
     {"position", "ap"}},
    {offsetof(qk__builder, weights),
     "head_component_weights.csv",
     "component",
     "component",
     0,
     {"component_weight"}},
    {offsetof(qk__builder, rope_pairs),
     "rope_pairs.csv",
     "pair",
     "rotary pair",
     0,
     {"wavelength", "energy_q", "energy_k", "score_share"}},
    {offsetof(qk__builder, score_curve),
     "score_by_distance.csv",
     "bin",
     "bin",
     0,
     {"distance", "measured", "predicted", "standard_error"}},
};

typedef struct series_table {
    qk__builder *builder;
    const series_spec *spec;
    qk__series *series;
    qk__id_columns ids;
    size_t index, values[QK__SERIES_VALUES]; /* columns */
} series_table;

static qk_status find_series(void *table, qk__csv_reader *reader, qk_error *err)
{
    series_table *t = table;
    QK_TRY(qk__find_ids(reader, &t->ids, err));
    QK_TRY(qk__reader_find(reader, t->spec->index, true, &t->index, err));
    for (int i = 0; i < QK__SERIES_VALUES; i++) {
        t->values[i] = QK__NO_COLUMN;
        if (t->spec->values[i])
            QK_TRY(qk__reader_find(reader, t->spec->values[i], true, &t->values[i], err));
    }
    return qk__series_name(t->series, reader, t->spec->index_name, err);
}

static qk_status add_row(void *table, qk__csv_reader *reader, qk_error *err)
{
    const series_table *t = table;
    int64_t most = t->spec->least < 0 ? INT64_MAX : INT32_MAX;
    qk__series_row row = {.row = qk__reader_row(reader)};
    QK_TRY(qk__builder_head(t->builder, reader, &t->ids, &row.head, err));
    QK_TRY(qk__reader_integer(reader, t->index, t->spec->least, most, &row.index, err));
    for (int i = 0; i < QK__SERIES_VALUES; i++)
        QK_TRY(qk__reader_number(reader, t->values[i], &row.values[i], err));
    return qk__series_add(t->series, row, err);
}

qk_status qk__read_series_tables(qk__builder *builder, qk_error *err)
{
    for (size_t i = 0; i < sizeof SERIES / sizeof *SERIES; i++) {
        series_table t = {.builder = builder,
                          .spec = &SERIES[i],
                          .series = (void *)((char *)builder + SERIES[i].series)};
        QK_TRY(qk__read_table(builder, SERIES[i].table, find_series, add_row, &t, err));
    }
    return QK_OK;
}

/* ---- distances -------------------------------------------------------------------------- */

typedef struct distance_table {
    qk__builder *builder;
    qk__id_columns ids;
    size_t distance, lag, pairs, ap; /* columns */
    size_t current;                  /* head of the row before */
} distance_table;

static qk_status find_distances(void *table, qk__csv_reader *reader, qk_error *err)
{
    distance_table *t = table;
    QK_TRY(qk__find_ids(reader, &t->ids, err));
    QK_TRY(qk__reader_find(reader, "distance_bin", true, &t->distance, err));
    QK_TRY(qk__reader_find(reader, "lag_bin", true, &t->lag, err));
    QK_TRY(qk__reader_find(reader, "n_pairs", true, &t->pairs, err));
    return qk__reader_find(reader, "ap", true, &t->ap, err);
}

/* The rows before are not kept, so that a table that holds a head twice shows only by the head
 * coming back: rows of a head must be together, as they are written. */
static qk_status note_row(distance_table *t, const qk__csv_reader *reader, size_t head,
                          qk_error *err)
{
    if (head == t->current)
        return QK_OK;
    t->current = head;
    size_t row = qk__reader_row(reader), before = t->builder->heads[head].distance_row;
    t->builder->heads[head].distance_row = row;
    if (before == 0)
        return QK_OK;
    char text[QK__HEAD_TEXT_SIZE];
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "%s: rows %zu and %zu are of the same head, with others between them: %s",
                    qk__reader_path(reader), before, row,
                    qk__head_text(t->builder, head, text));
}

static qk_status add_distance(void *table, qk__csv_reader *reader, qk_error *err)
{
    distance_table *t = table;
    size_t head;
    int64_t distance, lag, pairs;
    double ap;
    QK_TRY(qk__builder_head(t->builder, reader, &t->ids, &head, err));
    QK_TRY(note_row(t, reader, head, err));
    QK_TRY(qk__reader_integer(reader, t->distance, 0, INT64_MAX, &distance, err));
    QK_TRY(qk__reader_integer(reader, t->lag, INT64_MIN, INT64_MAX, &lag, err));
    QK_TRY(qk__reader_integer(reader, t->pairs, 0, INT64_MAX, &pairs, err));
    QK_TRY(qk__reader_number(reader, t->ap, &ap, err));
    if (lag < 0) /* keys ahead of the query, where buckets are not in order of position */
        return QK_OK;
    qk_status status = qk__distances_add(&t->builder->distances, t->builder->heads[head].model,
                                         distance, lag, (double)pairs, ap, err);
    return status == QK_OK ? QK_OK
                           : qk__context(err, status, "%s: row %zu", qk__reader_path(reader),
                                         qk__reader_row(reader));
}

qk_status qk__read_distances(qk__builder *builder, qk_error *err)
{
    distance_table t = {.builder = builder, .current = QK__NOT_THERE};
    return qk__read_table(builder, "head_distance.csv", find_distances, add_distance, &t, err);
}
