/* SPDX-License-Identifier: Apache-2.0 */
/* Results while their tables are read. builder.c leads: it keeps models and heads in order of
 * appearance and finds them by name and by ids. models.c, head_tables.c and series_tables.c each take in some of the
 * tables, scores.c asks for scores; finish.c, and models.c for names,
 * then put everything into the arrays of the results. */
#ifndef QK_RESULTS_BUILDER_H
#define QK_RESULTS_BUILDER_H

#include "results/grow.h"
#include "tables/manifest.h"
#include "tables/tables.h"
#include "results/results.h"
#include "results/series.h"
#include "base/csv_reader.h"

/* Tables with one row a head (qk.csv: one row a head and component), in the order in which they are read. */
typedef enum qk__head_table {
    QK__HEADS,
    QK__QK,
    QK__ROTATED,
    QK__METRICS,
    QK__STAGES,
    QK__ATTENDED,
    QK__ABLATED,
    QK__NUM_HEAD_TABLES,
} qk__head_table;

typedef struct qk__built_head {
    size_t model;
    qk__result_head head;            /* without its arrays */
    size_t row[QK__NUM_HEAD_TABLES]; /* where it is in each table; 0: not yet */
} qk__built_head;

typedef struct qk__built_model {
    const char *label, *family, *phase, *source; /* "" = not given */
    int layers;                                  /* 0: not given */
    qk_text_lengths lengths;                     /* of its texts */
} qk__built_model;

struct qk__builder {
    qk__results *results;
    qk__arena *arena;   /* of the results */
    const char *folder; /* of the results */
    qk__manifest manifest;
    qk__manifest ablation; /* of the folder in it, once a table of that was looked for */

    bool listed; /* by models.csv: there are no other models */
    qk__text_set names;
    qk__built_model *models; /* [names.count] */
    size_t model_capacity;

    qk__built_head *heads;
    size_t num_heads, head_capacity;
    qk__lookup head_lookup;
    size_t last_head; /* of the row before, which most often is that of this row */

    qk__series components, profile, score_curve, attention;
};

void qk__builder_free(qk__builder *builder);

/* The model of that name, a new one where it was not met before. */
QK_MUST_CHECK qk_status qk__builder_add_model(qk__builder *builder, const char *name,
                                              size_t *model, qk_error *err);

/* Columns that say whose a row is. */
typedef struct qk__id_columns {
    size_t model, layer, q_head, k_head;
} qk__id_columns;
QK_MUST_CHECK qk_status qk__find_ids(const qk__csv_reader *csv, qk__id_columns *ids,
                                     qk_error *err);

/* The head of the row at hand, a new one where it was not met before. Another key head than
 * before is QK_ERR_INCONSISTENT. */
QK_MUST_CHECK qk_status qk__builder_head(qk__builder *builder, const qk__csv_reader *csv,
                                         const qk__id_columns *ids, size_t *head,
                                         qk_error *err);

/* "model 'm', layer 1, query head 2" for messages. */
enum { QK__HEAD_TEXT_SIZE = 160 };
const char *qk__head_text(const qk__builder *builder, size_t head,
                          char text[QK__HEAD_TEXT_SIZE]);

/* *category of a field, -1 where it is empty. */
QK_MUST_CHECK qk_status qk__read_category(const qk__csv_reader *csv, size_t column,
                                          int *category, qk_error *err);

/* *csv is NULL where it is not there. */
QK_MUST_CHECK qk_status qk__open_table(qk__builder *builder, const char *name,
                                       qk__csv_reader **csv, qk_error *err);

/* An ablation in a folder of results is of one of their models; fails for one that is not. */
qk_status qk__refuse_ablation(const qk__builder *builder, const char *path, const char *model,
                              qk_error *err);

/* A model as models.csv has it; *is_new is false where it was there before. */
QK_MUST_CHECK qk_status qk__list_model(qk__builder *builder, const qk__listed_model *listed,
                                       bool *is_new, qk_error *err);

/* models.csv, then the others; each where it is there. */
QK_MUST_CHECK qk_status qk__read_models(qk__builder *builder, qk_error *err);
QK_MUST_CHECK qk_status qk__read_head_tables(qk__builder *builder, qk_error *err);
QK_MUST_CHECK qk_status qk__read_series_tables(qk__builder *builder, qk_error *err);
/* distance_map and scores, by SQL; scores: the file of these, NULL: that in the folder. */
QK_MUST_CHECK qk_status qk__ask_scores(qk__builder *builder, qk__store *tables, qk_error *err);

/* Then: names, labels, families, phases and slugs of the models; their heads; their curves. */
QK_MUST_CHECK qk_status qk__finish_models(qk__builder *builder, qk_error *err);
QK_MUST_CHECK qk_status qk__finish_heads(qk__builder *builder, qk_error *err);

#endif
