/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope sql: any other question to the tables of results. */
#include "row_formats.h"

#include <string.h>

typedef struct request {
    cli_common common;
    qk_sql_query query;
    int format;
} request;

static const qk_setting ROWS[] = {
    {"seconds", QK_SETTING_REAL, QK_SETTING_AT(request, query.seconds), .min = 0, .max = 1e9,
     .value = "S", .help = "seconds that the statement may take", .number = QK_SQL_SECONDS,
     .section = "Statement"},
    {"force", QK_SETTING_FLAG, QK_SETTING_AT(request, query.force),
     .help = "also read tables that are incomplete or were changed", .section = "Statement"},
    {"format", QK_SETTING_CHOICE, QK_SETTING_AT(request, format), .words = cli_row_formats,
     .help = "how the rows are printed; longtable: LaTeX over several pages",
     .section = "Output"},
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

/* A statement has a space. The name of a folder may have one, too, but then the folder exists. */
static bool is_statement(const char *text)
{
    return strpbrk(text, " \t\n;(") != NULL;
}

static int print_rows(const request *r, const cli_call *call, const qk_columns *columns)
{
    char count[40];
    size_t rows = qk_columns_num_rows(columns);
    snprintf(count, sizeof count, "%zu rows", rows);
    const char *const comments[3] = {call->line ? call->line : "qkscope sql", count, NULL};
    int code = cli_print_rows(columns, r->common.json ? CLI_AS_JSON : r->format, comments);
    if (r->format == CLI_AS_TABLE && !r->common.json && !r->common.quiet && rows == 0)
        cli_print("no rows\n");
    return code;
}

static int run_sql(cli_call *call)
{
    request *r = call->request;
    cli_messages messages;
    qk_columns *columns;
    qk_error err;
    size_t count = call->count;
    if (count > 1 && is_statement(call->arguments[count - 1]))
        r->query.sql = call->arguments[--count];
    if (count == 0 || (!r->query.sql && count > 1))
        return cli_usage(
            "which results, and which statement? qkscope sql RESULTS \"select ...\"");
    r->query.folders = (const char *const *)call->arguments;
    r->query.count = count;
    cli_messages_init(&messages, &r->common, &r->query.context);
    qk_status status = qk_sql(&r->query, &columns, &err);
    cli_messages_end(&messages, status, &err);
    if (status != QK_OK)
        return cli_settings_code(status);
    int code = print_rows(r, call, columns);
    qk_columns_free(&columns);
    return code;
}

const cli_command cmd_sql = {
    .name = "sql",
    .group = "Look",
    .summary = "what a SELECT finds in the tables",
    .usage = "RESULTS [RESULTS ...] [\"SELECT ...\"] [options]",
    .description =
        "Runs one SELECT, in the language of SQLite, on the tables of a folder of "
        "results, of a study, a comparison or an ablation; without one it lists the "
        "tables and columns that are there.\n\nheads.csv is the table heads, and so "
        "on; an empty field is NULL. head_numbers has a row a head with every number "
        "of a head; models has the models. Beside SQLite's functions there are "
        "median(x), quantile(x, p), corr(x, y), slope(x, y) and sd(x). With several "
        "folders the tables have the rows of all; a.heads, b.heads, ... have those "
        "of each.\n\nNothing is written or changed. Numbers are rounded, except as "
        "CSV and JSON. docs/sql.md has ten questions and their SELECTs.",
    .examples =
        "qkscope sql results\n"
        "qkscope sql results \"select category, count(*), avg(r_k) from head_numbers group by "
        "1\"\n"
        "qkscope sql results \"select corr(r_k, bias_strength) from head_numbers\" --json\n",
    .table = &TABLE,
    .max_arguments = 27,
    .run = run_sql,
};
