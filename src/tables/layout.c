/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the database and their columns: those of the schema, and those made from them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "tables/store.h"
#include "tables/text_lengths.h"

static const qk__column *column_of(const qk__table *table, const char *name)
{
    for (size_t i = 0; i < table->num_columns; i++)
        if (strcmp(table->columns[i].info.name, name) == 0)
            return &table->columns[i];
    return NULL;
}

static bool is_id(const char *name)
{
    static const char *const IDS[] = {"model", "layer", "q_head", "k_head"};
    for (size_t i = 0; i < sizeof IDS / sizeof *IDS; i++)
        if (strcmp(IDS[i], name) == 0)
            return true;
    return false;
}

static bool is_head_table(const char *name)
{
    for (size_t i = 0; qk__head_tables[i]; i++)
        if (strcmp(qk__head_tables[i], name) == 0)
            return true;
    return false;
}

/* ---- columns ---------------------------------------------------------------------------- */

static qk_status add_column(qk__store_table *table, size_t *capacity, qk__store_column column,
                            qk_error *err)
{
    if (table->num_columns == *capacity) {
        qk__store_column *grown = qk__grow(table->columns, capacity, sizeof *grown);
        if (!grown)
            return qk__nomem(err);
        table->columns = grown;
    }
    table->columns[table->num_columns++] = column;
    return QK_OK;
}

static const char *sql_type(const qk__store_column *c)
{
    static const char *const TYPES[] = {
        [QK_COLUMN_TEXT] = "TEXT", [QK_COLUMN_INTEGER] = "INTEGER", [QK_COLUMN_REAL] = "REAL"};
    if (c->column)
        return TYPES[c->column->info.type];
    for (size_t i = 0; i < QK__NUM_LENGTHS; i++)
        if (strcmp(c->name, qk__length_members[i].name) == 0)
            return TYPES[QK_COLUMN_REAL];
    static const char *const REALS[] = {"depth", "width", "value"},
                             *const INTEGERS[] = {"head_id", "model_id", "layer",      "q_head",
                                                  "k_head",  "tenth",    "query_heads"};
    for (size_t i = 0; i < sizeof REALS / sizeof *REALS; i++)
        if (strcmp(c->name, REALS[i]) == 0)
            return TYPES[QK_COLUMN_REAL];
    for (size_t i = 0; i < sizeof INTEGERS / sizeof *INTEGERS; i++)
        if (strcmp(c->name, INTEGERS[i]) == 0)
            return TYPES[QK_COLUMN_INTEGER];
    return TYPES[QK_COLUMN_TEXT];
}

static qk_status create(qk__store_table *table, qk_error *err)
{
    qk__buffer sql = {0};
    qk_status status = QK_OK;
    for (size_t i = 0; i < table->num_columns && status == QK_OK; i++) {
        const qk__store_column *c = &table->columns[i];
        const char *key = i == 0 && table->a_head ? " PRIMARY KEY"
                          : table->fill == qk__fill_models && strcmp(c->name, "model") == 0
                              ? " UNIQUE"
                              : "";
        status = qk__buffer_printf(&sql, err, "%s\"%s\" %s%s", i > 0 ? ", " : "", c->name,
                                   sql_type(c), key);
    }
    if (status == QK_OK)
        status = qk__store_do(table->set->store, err, "CREATE TABLE \"%w\".\"%w\" (%s)",
                              table->set->name, table->name, (const char *)sql.data);
    qk__buffer_free(&sql);
    return status;
}

/* ---- tables of files -------------------------------------------------------------------- */

static qk_status add_file(qk__store_table *table, const qk__table *file, qk_error *err)
{
    size_t capacity = 0;
    table->file = file;
    table->fill = qk__fill_csv;
    table->of_heads = column_of(file, "model") && column_of(file, "q_head");
    table->a_head = is_head_table(table->name);
    table->of_ablation = strcmp(table->name, "ablation") == 0;
    if (table->of_heads || table->of_ablation)
        QK_TRY(add_column(table, &capacity, (qk__store_column){.name = "head_id"}, err));
    if (table->of_ablation)
        QK_TRY(add_column(table, &capacity, (qk__store_column){.name = "model"}, err));
    if (strcmp(table->name, "models") == 0) {
        QK_TRY(add_column(table, &capacity, (qk__store_column){.name = "model_id"}, err));
        table->fill = qk__fill_models;
        table->a_head = true;
    }
    for (size_t i = 0; i < file->num_columns; i++)
        QK_TRY(add_column(
            table, &capacity,
            (qk__store_column){.name = file->columns[i].info.name, .column = &file->columns[i]},
            err));
    return create(table, err);
}

static qk_status add_first_components(qk__store_table *table, qk_error *err)
{
    table->first_component = true;
    return add_file(table, qk__find_table("qk.csv"), err);
}

/* ---- tables made of others -------------------------------------------------------------- */

static qk_status add_made(qk__store_table *table, size_t *capacity, const char *name,
                          const qk__column *column, char *from, qk_error *err)
{
    qk_status status =
        from ? add_column(table, capacity, (qk__store_column){name, column, from, false, false},
                          err)
             : qk__nomem(err);
    if (status != QK_OK)
        free(from);
    return status;
}

static qk_status add_ids(qk__store_table *table, size_t *capacity, const char *of,
                         qk_error *err)
{
    static const char *const IDS[] = {"head_id", "model", "layer", "q_head", "k_head"};
    table->a_head = true;
    for (size_t i = 0; i < sizeof IDS / sizeof *IDS; i++)
        QK_TRY(add_made(table, capacity, IDS[i], NULL, qk__format("%s.%s", of, IDS[i]), err));
    return QK_OK;
}

static bool is_number_of(const qk__column *column)
{
    const qk__field *field = qk__find_field(column->info.name);
    return field && strcmp(field->file, column->file) == 0;
}

/* Among columns of one name, one that is a number of a head counts, then that of the first table. */
static qk_status add_number(qk__store_table *table, size_t *capacity, const char *from,
                            const qk__column *column, qk_error *err)
{
    const char *name = column->info.name;
    for (size_t i = 0; i < table->num_columns; i++) {
        qk__store_column *before = &table->columns[i];
        if (strcmp(before->name, name) != 0)
            continue;
        bool first = is_number_of(column) && !(before->column && is_number_of(before->column));
        char *both = first ? qk__format("coalesce(%s.%s, %s)", from, name, before->from)
                           : qk__format("coalesce(%s, %s.%s)", before->from, from, name);
        if (!both)
            return qk__nomem(err);
        free(before->from);
        before->from = both;
        before->column = first ? column : before->column;
        return QK_OK;
    }
    return add_made(table, capacity, name, column, qk__format("%s.%s", from, name), err);
}

static qk_status add_numbers(qk__store_table *table, qk_error *err)
{
    static const char *const OF_MODEL[] = {"label", "family", "phase", "source"};
    const qk__table *models = qk__find_table("models.csv");
    size_t capacity = 0;
    table->fill = qk__fill_numbers;
    QK_TRY(add_ids(table, &capacity, "i", err));
    QK_TRY(add_made(table, &capacity, "depth", NULL,
                    qk__strdup("CASE WHEN l.last > 0 THEN 1.0 * i.layer / l.last ELSE 0.0 END"),
                    err));
    QK_TRY(add_made(table, &capacity, "tenth", NULL,
                    qk__strdup("CASE WHEN l.last > 0 THEN min(9, CAST(10 * (1.0 * i.layer / "
                               "l.last) AS INTEGER)) ELSE 0 END"),
                    err));
    for (size_t i = 0; i < sizeof OF_MODEL / sizeof *OF_MODEL; i++)
        QK_TRY(add_made(table, &capacity, OF_MODEL[i], column_of(models, OF_MODEL[i]),
                        qk__format("m.%s", OF_MODEL[i]), err));
    for (size_t t = 0; qk__head_tables[t]; t++) {
        const char *from = qk__head_tables[t];
        const qk__table *file = qk__store_table_of(table->set, from)->file;
        for (size_t i = 0; i < file->num_columns; i++)
            if (!is_id(file->columns[i].info.name) &&
                strcmp(file->columns[i].info.name, "pc") != 0)
                QK_TRY(add_number(table, &capacity, from, &file->columns[i], err));
    }
    QK_TRY(add_made(table, &capacity, "probability",
                    column_of(qk__find_table("heads.csv"), "category_probability"),
                    qk__strdup("heads.category_probability"), err));
    return create(table, err);
}

static qk_status add_list(qk__store_table *table, qk_error *err)
{
    size_t capacity = 0;
    table->fill = qk__fill_ids;
    QK_TRY(add_ids(table, &capacity, "t", err));
    return create(table, err);
}

/* Columns of a file that is summed while it is read. */
static qk_status add_sums(qk__store_table *table, const char *file, const char *const columns[],
                          qk_error *err)
{
    size_t capacity = 0;
    table->fill = qk__fill_sums;
    for (size_t i = 0; columns[i]; i++)
        QK_TRY(add_column(
            table, &capacity,
            (qk__store_column){.name = columns[i],
                               .column = column_of(qk__find_table(file), columns[i])},
            err));
    return create(table, err);
}

static qk_status add_distances(qk__store_table *table, qk_error *err)
{
    static const char *const COLUMNS[] = {"model", "distance_bin", "lag_bin", "n_pairs",
                                          "ap",    "width",        NULL};
    return add_sums(table, "head_distance.csv", COLUMNS, err);
}

static qk_status add_weights(qk__store_table *table, qk_error *err)
{
    static const char *const COLUMNS[] = {"model", "component", "component_weight", NULL};
    return add_sums(table, "head_component_weights.csv", COLUMNS, err);
}

/* For a file with unknown columns. */
static qk_status add_scores(qk__store_table *table, qk_error *err)
{
    static const char *const COLUMNS[] = {"model", "family", "score", "value", "scored"};
    size_t capacity = 0;
    table->fill = qk__fill_scores;
    for (size_t i = 0; i < sizeof COLUMNS / sizeof *COLUMNS; i++)
        QK_TRY(add_column(table, &capacity, (qk__store_column){.name = COLUMNS[i]}, err));
    return create(table, err);
}

static qk_status add_ablated(qk__store_table *table, qk_error *err)
{
    size_t capacity = 0;
    table->fill = qk__fill_ablated;
    QK_TRY(add_column(table, &capacity, (qk__store_column){.name = "model"}, err));
    QK_TRY(add_column(table, &capacity, (qk__store_column){.name = "query_heads"}, err));
    for (size_t i = 0; i < QK__NUM_LENGTHS; i++)
        QK_TRY(add_column(table, &capacity,
                          (qk__store_column){.name = qk__length_members[i].name}, err));
    return create(table, err);
}

/* ---- all of them ------------------------------------------------------------------------ */

/* Each table is made from tables before it. */
static const struct {
    const char *name;
    qk_status (*add)(qk__store_table *table, qk_error *err);
} MADE[] = {{"pc0", add_first_components},
            {"head_ids", add_list},
            {"head_numbers", add_numbers},
            {"distance_map", add_distances},
            {"dimension_weights", add_weights},
            {"scores", add_scores},
            {"ablated", add_ablated}};
enum { NUM_MADE = sizeof MADE / sizeof *MADE };

static qk__store_table *begin_table(qk__store_set *set, const char *name)
{
    qk__store_table *table = &set->tables[set->num_tables++];
    set->store->num_tables++;
    table->set = set;
    snprintf(table->name, sizeof table->name, "%.*s", (int)strcspn(name, "."), name);
    return table;
}

qk_status qk__layout_create(qk__store_set *set, qk_error *err)
{
    set->tables = qk__calloc(qk__num_tables + NUM_MADE + 1, sizeof *set->tables); /* and diff */
    if (!set->tables)
        return qk__nomem(err);
    for (size_t i = 0; i < qk__num_tables; i++)
        if (qk__tables[i].columns)
            QK_TRY(add_file(begin_table(set, qk__tables[i].info.name), &qk__tables[i], err));
    for (size_t i = 0; i < NUM_MADE; i++)
        QK_TRY(MADE[i].add(begin_table(set, MADE[i].name), err));
    set->ready = true;
    return QK_OK;
}

/* b less a, in each number of heads. */
qk_status qk__layout_add_diff(qk__store_set *set, qk_error *err)
{
    const qk__store_table *numbers = qk__store_table_of(set, "head_numbers");
    qk__store_table *diff = begin_table(set, "diff");
    size_t capacity = 0;
    diff->fill = qk__fill_diff;
    diff->a_head = true;
    QK_TRY(add_made(diff, &capacity, "head_id", NULL, qk__strdup("a.head_id"), err));
    for (size_t i = 0; i < numbers->num_columns; i++) {
        const qk__store_column *c = &numbers->columns[i];
        if (c->column && c->column->info.type != QK_COLUMN_TEXT)
            QK_TRY(add_made(diff, &capacity, c->name, c->column,
                            qk__format("b.%s - a.%s", c->name, c->name), err));
    }
    return create(diff, err);
}
