/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope explain: what the columns of the tables mean. */
#include "tell.h"
#include "word_meanings.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/results.h>

enum { MAX_LINE = 94 };

typedef struct request {
    cli_common common;
} request;

static const qk_setting ROWS[] = {
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

static const char *method_of(const qk_table_info *table, const qk_column_info *column)
{
    return column->method ? column->method : table->method;
}

static void print_line(const char *what, const char *text)
{
    if (text)
        cli_print("  %-8s %s\n", what, text);
}

static void print_column(const qk_table_info *table, const qk_column_info *column)
{
    cli_print("%s (%s)\n  %s\n\n", column->name, table->name, column->about);
    print_line("type", qk_column_type_name(column->type));
    print_line("unit", column->unit);
    print_line("range", column->range);
    print_line("symbol", column->symbol);
    print_line("read it", column->read);
    print_line("option", column->option);
    cli_print("  table    %s, one row for each %s\n  method   docs/%s\n", table->name,
              table->rows, method_of(table, column));
}

/* Names alone, or each with its meaning. */
static void print_table(const qk_table_info *table, bool in_full)
{
    const qk_column_info *column;
    size_t width = 0, at = 0;
    cli_print("%s: %s\n  one row for each %s; docs/%s\n", table->name, table->about,
              table->rows, table->method);
    for (size_t i = 0; (column = qk_table_column(table, i)); i++)
        width = strlen(column->name) > width ? strlen(column->name) : width;
    for (size_t i = 0; (column = qk_table_column(table, i)); i++) {
        if (in_full) {
            cli_print("  %-*s  %s\n", (int)width, column->name, column->about);
            continue;
        }
        bool wraps = at + strlen(column->name) > MAX_LINE;
        cli_print(wraps ? "\n  %s" : i == 0 ? "  %s" : " %s", column->name);
        at = (wraps ? 0 : at) + strlen(column->name) + 1;
    }
    cli_print(in_full || width == 0 ? "" : "\n");
}

static void print_all(void)
{
    const qk_table_info *table;
    for (size_t i = 0; (table = qk_schema_table(i)); i++) {
        print_table(table, false);
        cli_print("\n");
    }
}

/* ---- words ------------------------------------------------------------------------------ */

/* A letter or digit of a word. Hyphens, underscores and spaces are the same, and so are large and small letters. */
static int letter_of(char c)
{
    return c == '-' || c == '_' ? ' ' : tolower((unsigned char)c);
}

/* A plural matches its singular, and "head" may be left out. */
static bool is_word(const char *word, const char *name)
{
    size_t i = 0;
    while (word[i] && letter_of(word[i]) == letter_of(name[i]))
        i++;
    return i > 0 && (word[i] == 0 || strcmp(word + i, " head") == 0) &&
           (name[i] == 0 || strcmp(name + i, "s") == 0);
}

static const cli_word *find_word(const cli_word *words, const char *name)
{
    while (words->name && !is_word(words->name, name))
        words++;
    return words->name ? words : NULL;
}

static void print_typical(const char *name)
{
    const cli_word *typical = find_word(cli_typical_values, name);
    if (!typical)
        return;
    cli_print("  typical  %s\n", typical->whole);
    for (const char *line = typical->more; *line; line += strspn(line, "\n")) {
        cli_print("           %.*s\n", (int)strcspn(line, "\n"), line);
        line += strcspn(line, "\n");
    }
}

static bool print_word(const char *name)
{
    const cli_word *word = find_word(cli_words_of_glossary, name);
    if (!word)
        return false;
    cli_print("%s\n  %s\n", word->whole, word->about);
    print_line("method", word->more);
    return true;
}

static json_t *word_json(const char *name)
{
    const cli_word *word = find_word(cli_words_of_glossary, name);
    const cli_word *typical = find_word(cli_typical_values, name);
    return word ? cli_object(CLI_ROWS(CLI_ROW("word", word->whole),
                                      CLI_ROW("about", word->about),
                                      CLI_ROW_IF(typical, "typical", typical->more),
                                      CLI_ROW("method", word->more)))
                : NULL;
}

/* There are more words and columns than a reader would look through, so the nearest ones are suggested. */
static const char *suggest(const char *name)
{
    const char *column = qk_schema_suggest(name), *nearest[3] = {column, NULL, NULL};
    for (const cli_word *word = cli_words_of_glossary; word->name; word++) {
        nearest[column != NULL] = word->name;
        if (qk_nearest_word(name, nearest) == word->name)
            return word->name;
    }
    return column;
}

/* Every table that has the name explains it, in its own words. */
static bool print_named(const char *name)
{
    const qk_table_info *table = qk_schema_find(name);
    const qk_column_info *column;
    bool found = print_word(name) || table;
    if (table)
        print_table(table, true);
    for (size_t t = 0; (table = qk_schema_table(t)); t++)
        for (size_t i = 0; (column = qk_table_column(table, i)); i++)
            if (strcmp(column->name, name) == 0) {
                cli_print(found ? "\n" : "");
                print_column(table, column);
                found = true;
            }
    if (found)
        print_typical(name);
    return found;
}

/* ---- as JSON ---------------------------------------------------------------------------- */

/* Removes what has another name; false: nothing is left. */
static bool keep_named(json_t *tables, const char *name)
{
    const qk_table_info *whole = qk_schema_find(name);
    void *next;
    const char *key;
    json_t *table;
    json_object_foreach_safe(tables, next, key, table)
    {
        json_t *columns = json_object_get(table, "columns");
        if (whole && strcmp(whole->name, key) == 0)
            continue;
        for (size_t i = json_array_size(columns); i-- > 0;)
            if (strcmp(json_string_value(json_object_get(json_array_get(columns, i), "name")),
                       name) != 0)
                json_array_remove(columns, i);
        if (json_array_size(columns) == 0)
            json_object_del(tables, key);
    }
    return json_object_size(tables) > 0;
}

static bool print_json(const char *name)
{
    char *text = qk_schema_json();
    json_t *tables = text ? json_loads(text, 0, NULL) : NULL;
    free(text);
    if (name && !keep_named(tables, name)) {
        json_decref(tables);
        tables = word_json(name);
    }
    if (tables)
        cli_json_print(tables);
    return tables != NULL;
}

static int run_explain(cli_call *call)
{
    const cli_common *common = &((const request *)call->request)->common;
    const char *name = call->count > 0 ? call->arguments[0] : NULL;
    bool found = true;
    if (common->json)
        found = print_json(name);
    else if (name)
        found = print_named(name);
    else
        print_all();
    if (found)
        return EXIT_CODE_OK;
    const char *instead = qk_gone_column(name);
    if (instead)
        return cli_usage("the column '%s' has left: use %s", name, instead);
    const char *meant = suggest(name);
    return cli_usage("there is no column, table or word '%.100s'%s%s%s", name,
                     meant ? " (did you mean " : "; 'qkscope explain' lists them",
                     meant ? meant : "", meant ? "?)" : "");
}

/* Tables and columns, in the order of the schema. */
static const char *name_of(int number)
{
    const qk_table_info *table;
    for (size_t t = 0; (table = qk_schema_table(t)); t++) {
        if (number-- == 0)
            return table->name;
        const qk_column_info *column;
        for (size_t i = 0; (column = qk_table_column(table, i)); i++)
            if (number-- == 0)
                return column->name;
    }
    return NULL;
}

const cli_command cmd_explain = {
    .name = "explain",
    .group = "Look",
    .summary = "what a number, or a word, means, and which values are typical",
    .usage = "[NAME] [options]",
    .description =
        "Says what a number of the tables means: its unit and range, how to read it, "
        "which table it is in, where its method is described, and for some numbers "
        "typical values. NAME is a column, such as bias_strength, a table, such as "
        "rotated.csv, or a word that the program says, such as plasticity. Without a "
        "name, all tables and their columns are listed.",
    .examples = "qkscope explain bias_strength\n"
                "qkscope explain plasticity\n"
                "qkscope explain heads.csv\n",
    .table = &TABLE,
    .max_arguments = 1,
    .word = name_of,
    .run = run_explain,
};
