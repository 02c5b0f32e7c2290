/* SPDX-License-Identifier: Apache-2.0 */
/* What a command tells of its outcome: rows of a name and a value, gathered once. As JSON they are
 * an object; as text they fill the gaps of a form, the text with names in braces:
 *
 *     "{heads} head{s} in {files} file{s}[, {removed} {was|were} removed], {bytes:MB}\n"
 *
 * {name}         the value, {name.member} of an object, {name.0} of a list; no number: "-"
 * {name:5.1f}    as printf has it: f, g and d of numbers, s of texts; {name:5.1%} of a share
 * {name:MB}      1.0 MB of 1e6 bytes; {name:.0MB}, kB, and B for the unit that suits
 * {s} {is|are}   by the number before it: the first of two words for 1, else the second; {s} is {|s}
 * [ ... ]        left out where the first value in it is 0, false, "" or not there
 * {name?}        says nothing, but decides for the brackets around it; {name!} the other way
 */
#ifndef QK_CLI_TELL_H
#define QK_CLI_TELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "cli.h"

typedef enum cli_kind {
    CLI_ABSENT, /* in neither text nor JSON */
    CLI_FLAG,
    CLI_INTEGER,
    CLI_REAL,
    CLI_TEXT, /* NULL: null */
    CLI_JSON, /* an object or a list; whoever takes the rows releases it */
} cli_kind;

typedef struct cli_row {
    const char *name;
    cli_kind kind;
    bool unlisted; /* in the form alone */
    union {
        int64_t integer;
        double real;
        const char *text;
        json_t *json;
    };
} cli_row;

cli_row cli_flag_row(const char *name, bool value);
cli_row cli_integer_row(const char *name, int64_t value);
cli_row cli_real_row(const char *name, double value);
cli_row cli_text_row(const char *name, const char *value);
cli_row cli_json_row(const char *name, json_t *value);
cli_row cli_unlisted(cli_row row);

/* A row by the type of its value; a comparison counts as an int. */
#ifdef __CPPCHECK__ /* which cannot read _Generic within ?: */
cli_row cli_any_row(const char *called, ...);
#define CLI_ROW(called, value) cli_any_row((called), (value))
#else
#define CLI_ROW(called, value)                                                                 \
    _Generic((value),                                                                          \
        bool: cli_flag_row,                                                                    \
        float: cli_real_row,                                                                   \
        double: cli_real_row,                                                                  \
        char *: cli_text_row,                                                                  \
        const char *: cli_text_row,                                                            \
        json_t *: cli_json_row,                                                                \
        default: cli_integer_row)((called), (value))
#endif
#define CLI_OF(owner, member) CLI_ROW(#member, (owner)->member)
#define CLI_ROW_IF(has, called, value)                                                         \
    ((has) ? CLI_ROW(called, value) : (cli_row){.name = (called)})
#define CLI_ROW_OR_NULL(has, called, value)                                                    \
    ((has) ? CLI_ROW(called, value) : cli_text_row((called), NULL))
#define CLI_SAY(called, value) cli_unlisted(CLI_ROW(called, value))
#define CLI_ROWS(...)          ((cli_row[]){__VA_ARGS__, {0}})

/* Prints rows on standard output: as JSON with --json, else by the form unless --quiet. */
void cli_tell(const cli_common *common, const char *form, cli_row *rows);

/* Prints by the form alone, and releases nothing. */
void cli_say(const char *form, const cli_row *rows);

/* The rows as an object, for a row of others. */
json_t *cli_object(cli_row *rows);

/* ---- values of JSON --------------------------------------------------------------------- */

/* A text as JSON, null for NULL. JSON must be UTF-8, which file names need not be: then it is
 * "(not UTF-8)". */
json_t *cli_json_text(const char *text);
json_t *cli_json_texts(char *const *texts, size_t count);

/* A number, or null where it is none. */
json_t *cli_json_number(double value);
json_t *cli_json_numbers(const double *values, int count);

/* Memory for jansson. Where there is none, an object would lack a value: then no JSON is printed. */
void *cli_json_take(size_t size);
extern atomic_bool cli_json_is_lost;

/* Prints root on standard output and releases it. Letters beyond ASCII are written as \u, since a terminal obeys some
 * of them; the values are exact. */
void cli_json_print(json_t *root);

#endif
