/* SPDX-License-Identifier: Apache-2.0 */
/* Makes arrays of the schema (tables.def), and finds tables and columns in them. */
#include "schema/schema.h"

#include <string.h>

#include <qkscope/common.h>

#include "base/json.h"
#include "base/spelling.h"
#include "stats/cross_fit.h"

/* Where the value of a column is: a member of one of the structs of a row. */
#define VALUE(as, how, of, owner, member)                                                      \
    .info.type = QK_COLUMN_##as, .storage = QK__##how, .origin = QK__OF_##of,                  \
    .offset = offsetof(owner, member)
#define REAL(of, owner, member)     VALUE(REAL, REAL, of, owner, member)
#define INT(of, owner, member)      VALUE(INTEGER, INT, of, owner, member)
#define INT64(of, owner, member)    VALUE(INTEGER, INT64, of, owner, member)
#define POSITIVE(of, owner, member) VALUE(INTEGER, POSITIVE, of, owner, member)
#define KNOWN(of, owner, member)    VALUE(INTEGER, KNOWN, of, owner, member)
#define COUNT(of, owner, member)    VALUE(INTEGER, COUNT, of, owner, member)
#define TEXT(of, owner, member)     VALUE(TEXT, TEXT, of, owner, member)
#define LETTERS(of, owner, member)  VALUE(TEXT, LETTERS, of, owner, member)
#define CATEGORY(of, owner, member) VALUE(TEXT, CATEGORY, of, owner, member)
#define KIND(of, owner, member)     VALUE(TEXT, KIND, of, owner, member)

#define ARRAY(of, owner, member) VALUE(REAL, ARRAY, of, owner, member)
#define WIDTH(of, owner, member) VALUE(REAL, WIDTH, of, owner, member)
#define FEWER(of, owner, member) VALUE(REAL, FEWER, of, owner, member)
#define ASKED(as)                .info.type = QK_COLUMN_##as
#define INDEX                    .info.type = QK_COLUMN_INTEGER, .storage = QK__INDEX

/* Where the rows of a table are (qk__rows). */
#define ANALYSIS_IN(analysis_) .rows.analysis = offsetof(qk_head_results, analysis_)
#define ITEMS(owner, items_)                                                                   \
    .rows.items = offsetof(owner, items_), .rows.size = sizeof *((owner *)0)->items_
#define EACH(analysis, owner, items, count_)                                                   \
    .rows.each = QK__AN_ITEM, ANALYSIS_IN(analysis), ITEMS(owner, items),                      \
    .rows.count = offsetof(owner, count_)
#define EACH_HEAD(analysis)                    .rows.each = QK__A_HEAD, ANALYSIS_IN(analysis)
#define HEAD_AND_FIRST(analysis, owner, items) EACH_HEAD(analysis), ITEMS(owner, items)
#define FOR_MODEL(analysis, owner, item)                                                       \
    .rows.each = QK__A_MODEL, ANALYSIS_IN(analysis), .rows.items = offsetof(owner, item)
#define ELSEWHERE .rows.each = QK__NO_ROWS

#define UNIT(text)   .info.unit = text
#define RANGE(text)  .info.range = text
#define SYMBOL(text) .info.symbol = text
#define LABEL(text)  .info.label = text
#define ABOUT(text)  .info.about = text
#define READ(text)   .info.read = text
#define METHOD(text) .info.method = text
#define ROWS(text)   .info.rows = text
#define HUE(of)      .hue = QK__HUE_##of
#define USE(as)      .use = QK__##as
#define WITH_CI      .needs = QK__INTERVALS, .info.option = "--ci"
#define OF_RESERVOIR .needs = QK__RESERVOIR, .info.option = "capture --keep moments,reservoir=N"

#define ROW(table, column, ...) {.info.name = #column, .file = #table ".csv", __VA_ARGS__},

/* The columns of each table. */
#define TABLE(id, ...) static const qk__column columns_##id[] = {
#define COLUMN         ROW
#define NUMBER         ROW
#define END(id)                                                                                \
    }                                                                                          \
    ;
#include "schema/tables.def"

/* The tables. */
#define TABLE(id, file, needs_, ...)                                                           \
    {.info.name = file,                                                                        \
     .needs = needs_,                                                                          \
     .columns = columns_##id,                                                                  \
     .num_columns = sizeof columns_##id / sizeof *columns_##id,                                \
     __VA_ARGS__},
#define NO_COLUMNS(file, needs_, ...) {.info.name = file, .needs = needs_, __VA_ARGS__},
const qk__table qk__tables[] = {
#include "schema/tables.def"
};
const size_t qk__num_tables = sizeof qk__tables / sizeof *qk__tables;

/* The numbers of a head. */
#define NUMBER ROW
const qk__field qk__fields[] = {
#include "schema/tables.def"
};
const size_t qk__num_fields = sizeof qk__fields / sizeof *qk__fields;

/* ---- finding ---------------------------------------------------------------------------- */

const qk__table *qk__find_table(const char *name)
{
    for (size_t i = 0; i < qk__num_tables; i++) {
        const char *file = qk__tables[i].info.name;
        size_t length = strlen(name);
        if (strncmp(file, name, length) == 0 &&
            (file[length] == 0 || strcmp(file + length, ".csv") == 0))
            return &qk__tables[i];
    }
    return NULL;
}

const qk__field *qk__find_field(const char *name)
{
    for (size_t i = 0; i < qk__num_fields; i++)
        if (strcmp(qk__fields[i].info.name, name) == 0)
            return &qk__fields[i];
    return NULL;
}

/* ---- which run makes what --------------------------------------------------------------- */

/* A run makes either our tables of queries and keys together, or other ones instead. */
static const unsigned VARIANTS = QK__SINGLE | QK__STUDY | QK__COMPARISON | QK__ABLATION;

unsigned qk__contents_of(const qk_analysis_settings *settings)
{
    unsigned contents = settings->analyses;
    contents |= settings->combined ? 0 : QK__SINGLE;
    contents |= settings->rotation.planes > 0 ? QK__PLANES : 0;
    contents |= settings->ci > 0 ? QK__INTERVALS : 0;
    contents |= settings->lengths ? QK__AT_LENGTHS : 0;
    return contents;
}

bool qk__is_result(const qk__table *table)
{
    return (table->needs & (QK__STUDY | QK__COMPARISON | QK__ABLATION)) == 0;
}

bool qk__is_table_of(const qk__table *table, unsigned contents)
{
    const unsigned options = QK__PLANES | QK__AT_LENGTHS | QK__INTERVALS | QK__TOKENS;
    return (table->needs & ~(contents | options)) == 0 &&
           ((table->needs ^ contents) & VARIANTS) == 0;
}

bool qk__has_table(const qk__table *table, unsigned contents)
{
    return qk__is_table_of(table, contents) && (table->needs & ~contents) == 0;
}

bool qk__has_column(const qk__column *column, unsigned contents)
{
    return (column->needs & ~contents) == 0;
}

/* ---- for callers of the library --------------------------------------------------------- */

const qk_table_info *qk_schema_table(size_t i)
{
    return i < qk__num_tables ? &qk__tables[i].info : NULL;
}

const qk_table_info *qk_schema_find(const char *name)
{
    const qk__table *table = name ? qk__find_table(name) : NULL;
    return table ? &table->info : NULL;
}

const qk_column_info *qk_table_column(const qk_table_info *table, size_t i)
{
    const qk__table *t = (const qk__table *)table; /* its first member */
    return t && i < t->num_columns ? &t->columns[i].info : NULL;
}

const char *qk_column_type_name(qk_column_type type)
{
    return type == QK_COLUMN_TEXT ? "text" : type == QK_COLUMN_INTEGER ? "integer" : "real";
}

const char *qk_schema_suggest(const char *name)
{
    if (!name)
        return NULL;
    qk__guess guess = qk__guess_begin(name, strlen(name));
    for (size_t i = 0; i < qk__num_tables; i++) {
        qk__guess_try(&guess, qk__tables[i].info.name);
        for (size_t c = 0; c < qk__tables[i].num_columns; c++)
            qk__guess_try(&guess, qk__tables[i].columns[c].info.name);
    }
    return guess.nearest;
}

/* ---- as JSON ---------------------------------------------------------------------------- */

/* Members without a value are left out. */
static int put_text(json_t *object, const char *key, const char *text)
{
    return text ? json_object_set_new(object, key, json_string(text)) : 0;
}

static json_t *column_json(const qk_column_info *c)
{
    json_t *object = json_object();
    if (put_text(object, "name", c->name) ||
        put_text(object, "type", qk_column_type_name(c->type)) ||
        put_text(object, "unit", c->unit) || put_text(object, "range", c->range) ||
        put_text(object, "symbol", c->symbol) || put_text(object, "label", c->label) ||
        put_text(object, "about", c->about) || put_text(object, "read", c->read) ||
        put_text(object, "method", c->method) || put_text(object, "option", c->option)) {
        json_decref(object);
        return NULL;
    }
    return object;
}

json_t *qk__describe_columns(const qk__table *table, unsigned contents)
{
    json_t *columns = json_array();
    int failed = columns ? 0 : -1;
    for (size_t i = 0; i < table->num_columns && !failed; i++)
        if (qk__has_column(&table->columns[i], contents))
            failed = json_array_append_new(columns, column_json(&table->columns[i].info));
    if (failed) {
        json_decref(columns);
        return NULL;
    }
    return json_pack("{s:s, s:s, s:s, s:o}", "rows", table->info.rows, "about",
                     table->info.about, "method", table->info.method, "columns", columns);
}

char *qk_schema_json(void)
{
    json_t *tables = json_object();
    int failed = tables ? 0 : -1;
    for (size_t i = 0; i < qk__num_tables && !failed; i++)
        failed = json_object_set_new(tables, qk__tables[i].info.name,
                                     qk__describe_columns(&qk__tables[i], ~0U));
    char *text = failed ? NULL : qk__json_dumps(tables, JSON_INDENT(2));
    json_decref(tables);
    return text;
}
