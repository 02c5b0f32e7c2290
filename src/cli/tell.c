/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the rows of an outcome as JSON, or as text by a form. */
#include "tell.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows ------------------------------------------------------------------------------- */

cli_row cli_flag_row(const char *name, bool value)
{
    return (cli_row){.name = name, .kind = CLI_FLAG, .integer = value};
}

cli_row cli_integer_row(const char *name, int64_t value)
{
    return (cli_row){.name = name, .kind = CLI_INTEGER, .integer = value};
}

cli_row cli_real_row(const char *name, double value)
{
    return (cli_row){.name = name, .kind = CLI_REAL, .real = value};
}

cli_row cli_text_row(const char *name, const char *value)
{
    return (cli_row){.name = name, .kind = CLI_TEXT, .text = value};
}

cli_row cli_json_row(const char *name, json_t *value)
{
    return (cli_row){.name = name, .kind = CLI_JSON, .json = value};
}

cli_row cli_unlisted(cli_row row)
{
    row.unlisted = true;
    return row;
}

/* ---- as text ---------------------------------------------------------------------------- */

/* A gap of a form: "{name:how}", and how it ends: "{name?}". */
typedef struct gap {
    char name[64], how[16], end;
} gap;

static const char *read_gap(const char *p, gap *g)
{
    *g = (gap){0};
    sscanf(p, "{%63[^:?!}]%*1[:]%15[^}]", g->name, g->how);
    p += strcspn(p, "}");
    g->end = p[-1];
    return p + 1;
}

static cli_row row_of(json_t *value)
{
    return json_is_integer(value)   ? cli_integer_row("", json_integer_value(value))
           : json_is_real(value)    ? cli_real_row("", json_real_value(value))
           : json_is_string(value)  ? cli_text_row("", json_string_value(value))
           : json_is_boolean(value) ? cli_flag_row("", json_is_true(value))
           : json_is_null(value)    ? cli_real_row("", NAN)
                                    : (cli_row){.name = ""};
}

/* "name", or "name.member" of an object or a list. Returns a row without a name where there is none. */
static cli_row find_row(const cli_row *rows, const char *name)
{
    size_t length = strcspn(name, ".");
    while (rows->name && (strncmp(rows->name, name, length) != 0 || rows->name[length]))
        rows++;
    if (rows->kind != CLI_JSON || name[length] == 0)
        return *rows;
    json_t *value = rows->json;
    for (const char *member = name + length; *member; member += length) {
        length = strcspn(++member, ".");
        char key[40];
        snprintf(key, sizeof key, "%.*s", (int)length, member);
        value = json_is_array(value) ? json_array_get(value, (size_t)atoi(key))
                                     : json_object_get(value, key);
    }
    return row_of(value);
}

static bool is_something(const cli_row *row)
{
    return (row->kind == CLI_REAL   ? isfinite(row->real) && row->real != 0
            : row->kind == CLI_TEXT ? row->text && *row->text
            : row->kind == CLI_JSON ? row->json != NULL
                                    : row->kind != CLI_ABSENT && row->integer != 0);
}

/* 1.23 in the unit that leaves about three digits before the point. */
static void say_bytes(double bytes)
{
    static const char *const UNITS[] = {"kB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;
    for (bytes /= 1e3; bytes >= 1000 && unit < 4; unit++)
        bytes /= 1e3;
    cli_print(bytes < 10 ? "%.2f %s" : "%.1f %s", bytes, UNITS[unit]);
}

static void say_number(const cli_row *row, const char *how)
{
    double value = row->kind == CLI_REAL ? row->real : (double)row->integer;
    char kind = *how ? how[strlen(how) - 1] : 'd';
    bool share = kind == '%', bytes = kind == 'B';
    char format[32];
    if (strcmp(how, "B") == 0) {
        say_bytes(value);
    } else if (bytes) {
        const char *unit = how + strlen(how) - 2;
        cli_print("%.*f %s", *how == '.' ? atoi(how + 1) : 1,
                  value / (*unit == 'M' ? 1e6 : 1e3), unit);
    } else if (!isfinite(value)) {
        cli_print("%*s", share && atoi(how) ? atoi(how) + 2 : atoi(how), "-");
    } else if (kind == 'd') {
        cli_print("%*" PRId64, atoi(how), row->integer);
    } else {
        snprintf(format, sizeof format, "%%%.*s%c%s", (int)strlen(how) - 1, how,
                 share ? 'f' : kind, share ? " %%" : "");
        cli_print_number(format, share ? 100 * value : value);
    }
}

/* Returns the value, by which a following word is chosen. */
static int64_t say_value(const cli_row *row, const gap *g)
{
    const char *most = strchr(g->how, '.');
    if (!row->name)
        cli_print("{%s?}", g->name); /* the form names a row that does not exist */
    else if (row->kind == CLI_TEXT)
        cli_print("%*.*s", atoi(g->how), most ? atoi(most + 1) : -1,
                  row->text ? row->text : "");
    else if (row->kind == CLI_FLAG || row->kind == CLI_INTEGER || row->kind == CLI_REAL)
        say_number(row, g->how);
    return row->kind == CLI_INTEGER ? row->integer : 0;
}

/* "s", or "one|several". */
static void say_word(const char *word, int64_t count)
{
    const char *bar = strchr(word, '|');
    if (!bar)
        cli_print("%s", cli_s(count));
    else if (count == 1)
        cli_print("%.*s", (int)(bar - word), word);
    else
        cli_print("%s", bar + 1);
}

/* Says a part up to its closing bracket or the end, where *form then is. Returns whether its deciding values are
 * there. */
static bool say_part(const char **form, const cli_row *rows, bool aloud)
{
    int64_t count = 0;
    bool first = true, all = true;
    const char *p = *form;
    while (*p && *p != ']') {
        gap g;
        for (const char *end = p + strcspn(p, "{[]"); p < end; p++)
            if (aloud)
                putchar(*p);
        if (*p == '[') {
            const char *behind = ++p;
            bool told = say_part(&behind, rows, false);
            say_part(&p, rows, aloud && told);
            p++;
        } else if (*p == '{') {
            p = read_gap(p, &g);
            cli_row row = find_row(rows, g.name);
            bool word = strcmp(g.name, "s") == 0 || strchr(g.name, '|');
            bool silent = g.end == '?' || g.end == '!';
            if (!word && (first || silent))
                all = all && is_something(&row) == (g.end != '!');
            first = first && word;
            if (aloud && word)
                say_word(g.name, count);
            else if (aloud && !silent)
                count = say_value(&row, &g);
        }
    }
    *form = p;
    return all;
}

void cli_say(const char *form, const cli_row *rows)
{
    say_part(&form, rows, true);
}

/* ---- as JSON ---------------------------------------------------------------------------- */

atomic_bool cli_json_is_lost;

void *cli_json_take(size_t size)
{
    void *memory = malloc(size);
    if (!memory)
        atomic_store(&cli_json_is_lost, true);
    return memory;
}

json_t *cli_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *cli_json_text(const char *text)
{
    if (!text)
        return json_null();
    json_t *value = json_string(text);
    return value ? value : json_string("(not UTF-8)");
}

json_t *cli_json_texts(char *const *texts, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, cli_json_text(texts[i]));
    return list;
}

json_t *cli_json_numbers(const double *values, int count)
{
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, cli_json_number(values[i]));
    return list;
}

json_t *cli_object(cli_row *rows)
{
    json_t *object = json_object();
    for (const cli_row *row = rows; row->name; row++) {
        json_t *value = row->kind == CLI_FLAG      ? json_boolean(row->integer)
                        : row->kind == CLI_INTEGER ? json_integer((json_int_t)row->integer)
                        : row->kind == CLI_REAL    ? cli_json_number(row->real)
                        : row->kind == CLI_TEXT    ? cli_json_text(row->text)
                        : row->kind == CLI_ABSENT  ? NULL
                        : row->json                ? row->json
                                                   : json_null();
        if (row->unlisted)
            json_decref(value);
        else if (value)
            json_object_set_new(object, row->name, value);
    }
    return object;
}

/* Prints as many digits as a number needs: jansson gives 0.29999999999999999 for 0.3. A number comes in one piece, and
 * so do the quotes around a text. */
static void put_number(const char *text, size_t size)
{
    enum { SURE = 15, MOST = 17, ROOM = 40 };
    char number[ROOM], shorter[ROOM];
    snprintf(number, sizeof number, "%.*s", (int)size, text);
    const double value = strtod(number, NULL);
    for (int digits = SURE; digits < MOST; digits++) {
        snprintf(shorter, sizeof shorter, "%.*g", digits, value);
        if (strtod(shorter, NULL) == value && strpbrk(shorter, ".e")) {
            cli_print("%s", shorter);
            return;
        }
    }
    cli_print("%s", number);
}

/* The one control character that JSON allows in a text is escaped like others. */
static int put_json(const char *text, size_t size, void *within_text)
{
    bool *within = within_text;
    *within ^= size == 1 && *text == '"';
    if (!*within && size > 1 && strchr("-0123456789", *text) && memchr(text, '.', size)) {
        put_number(text, size);
        return 0;
    }
    for (size_t i = 0; i < size; i++) {
        if (text[i] == 0x7F)
            fputs("\\u007F", stdout);
        else
            putchar(text[i]);
    }
    return 0;
}

void cli_json_print(json_t *root)
{
    bool within = false;
    if (!atomic_load(&cli_json_is_lost))
        json_dump_callback(root, put_json, &within, JSON_INDENT(2) | JSON_ENSURE_ASCII);
    putchar('\n');
    json_decref(root);
}

void cli_tell(const cli_common *common, const char *form, cli_row *rows)
{
    if (!common->json && !common->quiet)
        cli_say(form, rows);
    json_t *object = cli_object(rows);
    if (common->json)
        cli_json_print(object);
    else
        json_decref(object);
}
