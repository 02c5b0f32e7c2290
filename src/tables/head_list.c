/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of one folder, or of two side by side, as a list: those that a condition keeps, in an order, with chosen
 * columns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/spelling.h"
#include "base/utf8.h"
#include "settings/head_set.h"
#include "tables/store.h"

/* The columns of a list without --columns, as far as tables have them. */
static const char USUAL[] =
    "model,layer,q_head,k_head,category,category_probability,r_q,r_q_lo,r_q_hi,r_k,r_k_lo,"
    "r_k_hi,plane_var_fraction,bias_strength,bias_strength_lo,bias_strength_hi,ap_overall,"
    "ap_drop,position_r_q,position_r_k,remove_loss,freeze_share,profile_share";
static const char USUAL_OF_TWO[] =
    "layer,q_head,category,category_probability,r_q,diff.r_q,bias_strength";

static const char USUAL_BY_KEY[] =
    "model,layer,k_head,category,r_q,r_k,mean_distance,window_99,remove_loss";

static const char OF_ONE[] = "main.head_numbers";
static const char OF_TWO[] =
    "a.head_numbers AS a FULL JOIN b.head_numbers AS b USING (head_id, layer, q_head)"
    " LEFT JOIN main.diff AS diff USING (head_id)";

/* A column by its name in the list, and its place: main, a, b or diff. */
typedef struct list_column {
    char name[80], from[240];
    const qk__store_column *column;
    const char *set;
    size_t values; /* heads that have a value */
    bool read;     /* by a condition or an order */
} list_column;

typedef struct head_list {
    const qk_head_query *query;
    qk__store *store;
    const char *from;
    list_column *columns; /* those to list, then those that condition and order read */
    size_t count, listed, capacity;
    size_t models;
    qk_head_totals said;
    bool ablation; /* has a column of one */
} head_list;

/* ---- names of columns ------------------------------------------------------------------- */

static const qk__store_column *find_column(const head_list *l, const char *name,
                                           qk__guess *guess)
{
    const qk__store_table *numbers = qk__store_table_of(l->store->sets[0], "head_numbers");
    for (size_t i = 1; i < numbers->num_columns; i++) { /* head_id is internal */
        if (strcmp(numbers->columns[i].name, name) == 0)
            return &numbers->columns[i];
        if (guess)
            qk__guess_try(guess, numbers->columns[i].name);
    }
    return NULL;
}

static bool is_id(const char *name)
{
    return strcmp(name, "layer") == 0 || strcmp(name, "q_head") == 0 ||
           strcmp(name, "k_head") == 0;
}

static bool is_text(const qk__store_column *column)
{
    return column->column ? column->column->info.type == QK_COLUMN_TEXT
                          : strcmp(column->name, "model") == 0;
}

/* "a", "b" or "diff" before a name, else "main"; *name is what follows. */
static const char *side_of(const char **name)
{
    static const char *const SIDES[] = {"a", "b", "diff"};
    for (size_t i = 0; i < 3; i++) {
        size_t length = strlen(SIDES[i]);
        if (strncmp(*name, SIDES[i], length) == 0 && (*name)[length] == '.') {
            *name += length + 1;
            return SIDES[i];
        }
    }
    return "main";
}

static qk_status no_column(const head_list *l, const char *name, qk_error *err)
{
    const char *instead = qk_gone_column(name);
    qk__guess guess = qk__guess_begin(name, strlen(name));
    find_column(l, name, &guess);
    if (instead)
        return qk__fail(err, QK_ERR_ARGUMENT, "the column '%s' has left: use %s", name,
                        instead);
    if (guess.nearest)
        return qk__fail(err, QK_ERR_ARGUMENT, "there is no column '%.100s' (did you mean %s?)",
                        name, guess.nearest);
    return qk__fail(err, QK_ERR_ARGUMENT,
                    "there is no column '%.100s' of heads; there are category, r_q, r_k, "
                    "ap_overall and others ('qkscope explain' lists them)",
                    name);
}

/* With two folders a column belongs to a, to b, or to their difference, unless both have the same. */
static qk_status check_side(const head_list *l, const char *side, const qk__store_column *c,
                            qk_error *err)
{
    const bool one = strcmp(side, "main") == 0, diff = strcmp(side, "diff") == 0,
               id = is_id(c->name);
    const char *name = c->name;
    if (!one && !l->query->other)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "%s.%s: a. and b. are of two folders of results, and one is given",
                        side, name);
    if (!one && id)
        return qk__fail(err, QK_ERR_ARGUMENT, "%s is the same in a and b: write %s", name,
                        name);
    if (diff && is_text(c))
        return qk__fail(err, QK_ERR_ARGUMENT, "%s is a text, and has no difference", name);
    if (one && l->query->other && !id)
        return qk__fail(err, QK_ERR_ARGUMENT, "%s: of which? Write a.%s or b.%s%s%s", name,
                        name, name, is_text(c) ? "" : ", or of both diff.",
                        is_text(c) ? "" : name);
    return QK_OK;
}

/* Adds a column once: two columns of one name look the same. */
static qk_status add_column(head_list *l, const char *side, const qk__store_column *column,
                            qk_error *err)
{
    list_column c = {.column = column, .set = side, .read = l->listed > 0};
    const char *name = column->name;
    const bool one = strcmp(side, "main") == 0;
    snprintf(c.name, sizeof c.name, "%s%s%s", one ? "" : side, one ? "" : ".", name);
    if (one)
        snprintf(c.from, sizeof c.from,
                 l->query->other && strcmp(name, "k_head") == 0 ? "coalesce(a.\"%s\", b.\"%s\")"
                                                                : "\"%s\"",
                 name, name);
    else
        snprintf(c.from, sizeof c.from, "%s.\"%s\"", side, name);
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->columns[i].name, c.name) == 0) {
            l->columns[i].read |= c.read;
            return QK_OK;
        }
    if (l->count == l->capacity) {
        list_column *grown = qk__grow(l->columns, &l->capacity, sizeof *grown);
        if (!grown)
            return qk__nomem(err);
        l->columns = grown;
    }
    l->columns[l->count++] = c;
    if (column->column && qk__find_table(column->column->file)->needs & QK__ABLATION)
        l->ablation = true;
    return QK_OK;
}

/* Adds a column; with two folders both columns of the name, unless a side is named. */
static qk_status add_named(head_list *l, const char *text, qk_error *err)
{
    const char *name = text, *side = side_of(&name);
    const qk__store_column *column = find_column(l, name, NULL);
    if (!column)
        return no_column(l, name, err);
    if (l->query->other && strcmp(side, "main") == 0 && !is_id(name)) {
        QK_TRY(add_column(l, "a", column, err));
        return add_column(l, "b", column, err);
    }
    QK_TRY(check_side(l, side, column, err));
    return add_column(l, side, column, err);
}

static qk_status read_names(head_list *l, qk_error *err)
{
    const char *names = l->query->columns  ? l->query->columns
                        : l->query->by_key ? USUAL_BY_KEY
                        : l->query->other  ? USUAL_OF_TWO
                                           : USUAL;
    for (const char *next = names;; next++) {
        char name[128];
        next += strspn(next, " ");
        size_t length = strcspn(next, ", ");
        snprintf(name, sizeof name, "%.*s", (int)(length < 120 ? length : 120), next);
        QK_TRY(qk__context(err, add_named(l, name, err), "columns"));
        next += length + strspn(next + length, " ");
        if (*next != ',')
            return *next == 0 ? QK_OK
                              : qk__fail(err, QK_ERR_ARGUMENT,
                                         "columns: expected a comma behind '%s'", name);
    }
}

/* ---- conditions and orders -------------------------------------------------------------- */

/* Says what SQLite does not understand, in the words of a list; "\n)" follows the text at the end of the statement. */
static qk_status fail_text(const head_list *l, const char *sql, const char *text, qk_error *err)
{
    static const char NONE[] = "no such column: ", BOTH[] = "ambiguous column name: ",
                      MANY[] = "misuse of ";
    const char *message = sqlite3_errmsg(l->store->db);
    const int place = sqlite3_error_offset(l->store->db);
    const int begin = (int)(strlen(sql) - strlen(text)) - 2, at = place - begin;
    char where[40] = "", name[128];
    qk_error why = {0};
    if (at >= 0) /* "-" may stand before an order */
        snprintf(where, sizeof where, "character %d: ",
                 qk__utf8_count(sql + begin, at) + 1 +
                     (text != l->query->where && text != l->query->sort));
    const bool both = strncmp(message, BOTH, strlen(BOTH)) == 0,
               many = strncmp(message, MANY, strlen(MANY)) == 0;
    if (!both && strncmp(message, NONE, strlen(NONE)) != 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "%s%s%s", where, message,
                        many ? ": 'qkscope sql' has what is of many heads"
                             : "; write it like \"category = 'mixed' and abs(r_k) >= 0.5\"");
    snprintf(name, sizeof name, "%s", message + (both ? strlen(BOTH) : strlen(NONE)));
    const char *plain = name, *side = side_of(&plain);
    const qk__store_column *column = find_column(l, plain, NULL);
    const char *category = at >= 0 ? qk__category_at(sql + place) : NULL;
    if (category)
        return qk__fail(err, QK_ERR_ARGUMENT, "%sa text stands in single quotes: '%s'", where,
                        category);
    if (column && check_side(l, side, column, &why) != QK_OK)
        return qk__fail(err, QK_ERR_ARGUMENT, "%s%s", where, why.message);
    no_column(l, name, &why);
    if (qk_gone_column(name))
        return qk__fail(err, QK_ERR_ARGUMENT, "%s%s", where, why.message);
    return qk__fail(err, QK_ERR_ARGUMENT, "%s%s; a text stands in single quotes: '%s'", where,
                    why.message, name);
}

/* Adds the columns that the text reads. */
static qk_status read_text(head_list *l, const char *text, qk_error *err)
{
    QK_TRY(qk__check_shifts(text, err));
    static const char *const SETS[] = {"main", "a", "b"};
    char *sql = sqlite3_mprintf("SELECT 1 FROM %s WHERE (%s\n)", l->from, text);
    sqlite3_stmt *statement = NULL;
    const char *rest = "";
    if (!sql)
        return qk__nomem(err);
    for (size_t s = 0; s < l->store->num_sets; s++)
        for (size_t i = 0; i < l->store->sets[s]->num_tables; i++)
            for (size_t k = 0; k < l->store->sets[s]->tables[i].num_columns; k++)
                l->store->sets[s]->tables[i].columns[k].wanted = false;
    l->store->outside = true;
    int code = sqlite3_prepare_v2(l->store->db, sql, -1, &statement, &rest);
    l->store->outside = false;
    qk_status status = code != SQLITE_OK ? fail_text(l, sql, text, err)
                       : *rest || sqlite3_bind_parameter_count(statement) > 0
                           ? qk__fail(err, QK_ERR_ARGUMENT, "this is no expression")
                           : QK_OK;
    sqlite3_finalize(statement);
    sqlite3_free(sql);
    for (size_t s = 0; s < l->store->num_sets && status == QK_OK; s++) {
        const qk__store_set *set = l->store->sets[s];
        const qk__store_table *read = qk__store_table_of(
            set, strcmp(set->name, "main") == 0 && l->query->other ? "diff" : "head_numbers");
        for (size_t i = 1; read && i < read->num_columns && status == QK_OK; i++)
            for (size_t k = 0; k < sizeof SETS / sizeof *SETS; k++)
                if (read->columns[i].wanted && strcmp(set->name, SETS[k]) == 0 &&
                    !is_id(read->columns[i].name))
                    status = add_column(l, k == 0 && l->query->other ? "diff" : SETS[k],
                                        &read->columns[i], err);
    }
    return status;
}

/* ---- what there is ---------------------------------------------------------------------- */

static const char *folder_of(const head_list *l, const char *set)
{
    return strcmp(set, "b") == 0 ? l->query->other : l->query->results;
}

/* A list that is empty because a table is missing would look like an answer. Empty fields do not. */
static qk_status need_column(head_list *l, const list_column *c, qk_error *err)
{
    const char *option = c->column->column ? c->column->column->info.option : NULL;
    const bool diff = strcmp(c->set, "diff") == 0;
    if (c->values > 0 || strcmp(c->column->name, "model") == 0) /* a name may be empty */
        return QK_OK;
    if (!c->read)
        return qk__note_empty(l->said.empty, c->name);
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "%s%s%s: no head has a %s here%s%s; 'qkscope explain %s' says what it is "
                    "and where it comes from",
                    folder_of(l, c->set), diff ? ", " : "", diff ? l->query->other : "",
                    c->name, option ? ", which needs " : "", option ? option : "",
                    c->column->name);
}

static qk_status count_values(head_list *l, qk_error *err)
{
    qk__buffer sql = {0};
    sqlite3_stmt *statement = NULL;
    qk_status status = qk__buffer_printf(&sql, err, "SELECT count(*)");
    for (size_t i = 0; i < l->count && status == QK_OK; i++)
        status = qk__buffer_printf(&sql, err,
                                   is_text(l->columns[i].column) ? ", count(nullif(%s, ''))"
                                                                 : ", count(%s)",
                                   l->columns[i].from);
    if (status == QK_OK)
        status = qk__buffer_printf(&sql, err, " FROM %s", l->from);
    if (status == QK_OK)
        status = qk__sql_prepare(l->store, (const char *)sql.data, &statement, err);
    qk__buffer_free(&sql);
    if (status == QK_OK && sqlite3_step(statement) != SQLITE_ROW)
        status = qk__sql_fail(l->store, SQLITE_ERROR, err);
    l->said.heads = status == QK_OK ? (size_t)sqlite3_column_int64(statement, 0) : 0;
    for (size_t i = 0; i < l->count && status == QK_OK; i++)
        l->columns[i].values = (size_t)sqlite3_column_int64(statement, (int)i + 1);
    sqlite3_finalize(statement);
    return status;
}

/* Of the usual columns, those with values; the model in a study only. */
static qk_status choose_columns(head_list *l, qk_error *err)
{
    const bool usual = !l->query->columns;
    size_t kept = 0;
    double models;
    QK_TRY(count_values(l, err));
    if (l->said.heads == 0)
        return qk__fail(err, QK_ERR_NOT_FOUND, "%s: no heads in the tables here",
                        l->query->results);
    QK_TRY(qk__sql_number(l->store, &models, err,
                          "SELECT count(DISTINCT model) FROM \"%w\".head_ids",
                          l->query->other ? "a" : "main"));
    l->models = (size_t)models;
    for (size_t i = 0; i < l->count; i++)
        if (!usual || l->columns[i].read)
            QK_TRY(need_column(l, &l->columns[i], err));
    for (size_t i = 0; i < l->listed; i++) {
        const list_column c = l->columns[i];
        bool spared = models == 1 && strcmp(c.name, "model") == 0;
        if (!usual || (!spared && c.values > 0))
            l->columns[kept++] = c;
    }
    l->listed = kept;
    return QK_OK;
}

static qk_status need_one_model(const head_list *l, const char *set, qk_error *err)
{
    double models;
    QK_TRY(qk__sql_number(l->store, &models, err,
                          "SELECT count(DISTINCT model) FROM \"%w\".head_ids", set));
    if (models == 0)
        return qk__fail(err, QK_ERR_NOT_FOUND, "%s: no heads in the tables here",
                        folder_of(l, set));
    if (models == 1)
        return QK_OK;
    return qk__fail(err, QK_ERR_ARGUMENT,
                    "%s: tables of %.0f models: beside another folder, give that of one model "
                    "(of a study, STUDY/models/NAME)",
                    folder_of(l, set), models);
}

static qk_status open_folders(head_list *l, qk_error *err)
{
    static const qk_context NOBODY = {0};
    const qk_head_query *q = l->query;
    QK_TRY(qk__store_open(&l->store, &NOBODY, err));
    QK_TRY(qk__store_add(l->store, q->other ? "a" : "main", q->results, q->force, err));
    if (!q->other)
        return QK_OK;
    QK_TRY(qk__store_add(l->store, "b", q->other, q->force, err));
    return qk__store_add_diff(l->store, err);
}

/* ---- rows ------------------------------------------------------------------------------- */

static qk_status add_conditions(const head_list *l, qk__buffer *sql, qk_error *err)
{
    const qk_head_query *q = l->query;
    QK_TRY(qk__buffer_printf(sql, err, " FROM %s WHERE (%s\n)", l->from,
                             q->where ? q->where : "1"));
    return qk__put_named_heads(&q->heads, sql, err);
}

static const char *order_of(const qk_head_query *q, bool *down)
{
    *down = q->sort && *q->sort == '-';
    return q->sort ? q->sort + *down : "head_id";
}

static qk_status add_query_heads(const head_list *l, qk__buffer *sql, qk_error *err)
{
    bool down;
    const char *order = order_of(l->query, &down), *way = down ? " DESC" : "";
    QK_TRY(qk__buffer_printf(sql, err, "SELECT "));
    if (l->query->by_key)
        QK_TRY(qk__buffer_printf(sql, err, "head_id, model, layer, k_head, (%s\n) AS place, ",
                                 order));
    for (size_t i = 0; i < l->listed; i++)
        QK_TRY(qk__buffer_printf(sql, err,
                                 is_text(l->columns[i].column) ? "%scoalesce(%s, '') AS \"%s\""
                                                               : "%s%s AS \"%s\"",
                                 i > 0 ? ", " : "", l->columns[i].from, l->columns[i].name));
    if (l->query->sentence && !l->query->by_key && !l->query->other)
        QK_TRY(qk__put_sentence(l->store, "main",
                                l->models > 1 ? "model || ' L' || layer || 'H' || q_head"
                                              : "'L' || layer || 'H' || q_head",
                                false, sql, err));
    QK_TRY(add_conditions(l, sql, err));
    return l->query->by_key
               ? QK_OK
               : qk__buffer_printf(sql, err, " ORDER BY (%s\n) IS NULL, (%s\n)%s, head_id",
                                   order, order, way);
}

/* Wraps the statement of query heads in the statement of key heads. */
static qk_status group_by_key(const head_list *l, qk__buffer *sql, qk_error *err)
{
    qk__buffer query_heads = *sql;
    qk__listed *columns = qk__calloc(l->listed + 1, sizeof *columns);
    bool down;
    order_of(l->query, &down);
    *sql = (qk__buffer){0};
    qk_status status = columns ? QK_OK : qk__nomem(err);
    for (size_t i = 0; i < l->listed && columns; i++)
        columns[i] = (qk__listed){l->columns[i].name, is_text(l->columns[i].column),
                                  is_id(l->columns[i].name)};
    if (status == QK_OK)
        status = qk__list_key_heads(sql, columns, l->listed, (const char *)query_heads.data,
                                    down, err);
    qk__buffer_free(&query_heads);
    free(columns);
    return status;
}

static qk_status list_rows(const head_list *l, qk_columns **columns, qk_error *err)
{
    qk__buffer sql = {0};
    qk_status status = add_query_heads(l, &sql, err);
    if (status == QK_OK && l->query->by_key)
        status = group_by_key(l, &sql, err);
    if (status == QK_OK && l->query->top > 0)
        status = qk__buffer_printf(&sql, err, " LIMIT %zu", l->query->top);
    if (status == QK_OK)
        status =
            qk__store_query(l->store, (const char *)sql.data, QK_SQL_SECONDS, columns, err);
    qk__buffer_free(&sql);
    return status;
}

/* ---- for callers of the library --------------------------------------------------------- */

static qk_status read_query(head_list *l, qk_error *err)
{
    const qk_head_query *q = l->query;
    if (q->by_key && q->other)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "key heads are listed of one folder of results: give one");
    QK_TRY(open_folders(l, err));
    QK_TRY(read_names(l, err));
    l->listed = l->count;
    if (q->where)
        QK_TRY(qk__context(err, read_text(l, q->where, err), "where"));
    if (q->sort)
        QK_TRY(qk__context(err, read_text(l, q->sort + (*q->sort == '-'), err), "sort"));
    for (int i = 0; i < 2 && q->other; i++)
        QK_TRY(need_one_model(l, i ? "b" : "a", err));
    QK_TRY(choose_columns(l, err));
    return qk__need_named_heads(l->store, l->from, &q->heads, err);
}

qk_status qk_head_list(const qk_head_query *query, qk_columns **columns, qk_head_totals *totals,
                       qk_error *err)
{
    QK_NEED(err, columns);
    *columns = NULL;
    QK_NEED(err, query);
    QK_NEED(err, query->results);
    static const char *const SETS[] = {"a", "b"};
    head_list l = {.query = query, .from = query->other ? OF_TWO : OF_ONE};
    qk_status status = read_query(&l, err);
    if (totals)
        *totals = l.said;
    for (int i = 0; i < (query->other ? 2 : 1) && totals && status == QK_OK; i++)
        status =
            qk__tell_side(l.store, query->other ? SETS[i] : "main",
                          query->other ? SETS[!i] : NULL, l.ablation, &totals->sides[i], err);
    if (status == QK_OK)
        status = list_rows(&l, columns, err);
    if (status == QK_OK && query->where && qk_columns_num_rows(*columns) == 0)
        /* an empty list looks like an answer */
        status = qk__context(err, qk__check_categories(query->where, err), "where");
    if (status != QK_OK)
        qk_columns_free(columns);
    qk__store_close(&l.store);
    free(l.columns);
    return status;
}
