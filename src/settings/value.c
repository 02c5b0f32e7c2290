/* SPDX-License-Identifier: Apache-2.0 */
/* One setting: from text into its member, back to text, and whether its value is allowed. */
#include "settings/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/number.h"
#include "base/parse_number.h"
#include "base/spelling.h"
#include "base/utf8.h"
#include "settings/head_set.h"

static bool is_bounded(const qk_setting *row)
{
    return row->min != 0 || row->max != 0;
}

static bool is_within(const qk_setting *row, double value)
{
    return !is_bounded(row) || (value >= row->min && value <= row->max);
}

/* ---- words ------------------------------------------------------------------------------ */

/* The word of these letters; NULL if there is none. */
static const qk_word *find_word(const qk_setting *row, const char *text, size_t length)
{
    bool any_case = row->traits & QK_SETTING_ANY_CASE;
    for (const qk_word *w = row->words; w && w->text; w++)
        if (strlen(w->text) == length && (any_case ? strncasecmp(w->text, text, length)
                                                   : strncmp(w->text, text, length)) == 0)
            return w;
    return NULL;
}

const char *qk__setting_words(const qk_setting *row, char text[QK__WORDS_SIZE])
{
    size_t length = 0;
    *text = 0;
    for (const qk_word *w = row->words; w && w->text && length < QK__WORDS_SIZE; w++)
        length += (size_t)snprintf(text + length, QK__WORDS_SIZE - length, "%s%s",
                                   w == row->words ? ""
                                   : w[1].text     ? ", "
                                                   : " or ",
                                   w->text);
    return text;
}

static qk_status fail_words(const qk_setting *row, const char *text, size_t length,
                            qk_error *err)
{
    char words[QK__WORDS_SIZE];
    qk__guess guess = qk__guess_begin(text, length);
    for (const qk_word *w = row->words; w && w->text; w++)
        qk__guess_try(&guess, w->text);
    qk__setting_words(row, words);
    if (row->type == QK_SETTING_INTEGER)
        return qk__fail(err, QK_ERR_ARGUMENT, "expected %.15g to %.15g, or %s", row->min,
                        row->max, words);
    return qk__fail(err, QK_ERR_ARGUMENT, "expected %s%s%s%s%s", words,
                    row->type == QK_SETTING_SET ? ", or several with commas" : "",
                    guess.nearest ? " (did you mean " : "", guess.nearest ? guess.nearest : "",
                    guess.nearest ? "?)" : "");
}

static qk_status parse_set(const qk_setting *row, unsigned *value, const char *text,
                           qk_error *err)
{
    unsigned sum = 0;
    for (const char *p = text;; p++) {
        size_t length = strcspn(p, ",");
        const qk_word *word = find_word(row, p, length);
        if (!word || (sum & (unsigned)word->value) != 0)
            return fail_words(row, p, length, err);
        sum |= (unsigned)word->value;
        p += length;
        if (!*p)
            break;
    }
    *value = sum;
    return QK_OK;
}

/* ---- numbers ---------------------------------------------------------------------------- */

static qk_status fail_number(const qk_setting *row, const char *text, qk_error *err)
{
    const char *what = row->type == QK_SETTING_REAL ? "number" : "whole number";
    if (row->type == QK_SETTING_PERCENT)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "expected a percentage from 1 to below 100, e.g. 95");
    if (row->words)
        return fail_words(row, text, strlen(text), err);
    const char *of = row->unit ? " of " : "", *unit = row->unit ? row->unit : "";
    if (!is_bounded(row))
        return qk__fail(err, QK_ERR_ARGUMENT, "expected a %s%s%s", what, of, unit);
    return qk__fail(err, QK_ERR_ARGUMENT, "expected a %s%s%s from %.15g to %.15g", what, of,
                    unit, row->min, row->max);
}

/* A whole number ("1000000" or "1e6") with nothing behind it, or the unit ("85mm"). */
static bool read_integer(const char *text, const char *unit, int64_t *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end != text && (*end == 'e' || *end == 'E') && end[1] >= '0' && end[1] <= '9') {
        long power = strtol(end + 1, &end, 10);
        for (; power > 0 && number != 0; power--)
            if (__builtin_mul_overflow(number, 10LL, &number))
                return false;
    }
    *value = number;
    bool ends = *end == 0 || (unit && strcmp(end, unit) == 0);
    return end != text && ends && errno == 0;
}

static qk_status parse_integer(const qk_setting *row, void *member, const char *text,
                               qk_error *err)
{
    const qk_word *word = find_word(row, text, strlen(text));
    int64_t value = word ? word->value : 0;
    bool narrow = row->size != sizeof(int64_t);
    if (!word && (!read_integer(text, row->unit, &value) || !is_within(row, (double)value) ||
                  (narrow && (value < INT32_MIN || value > INT32_MAX))))
        return fail_number(row, text, err);
    qk__setting_set_integer(row, member, value);
    return QK_OK;
}

static qk_status parse_real(const qk_setting *row, double *member, const char *text,
                            qk_error *err)
{
    double value;
    const bool is_number = qk__parse_number(text, &value);
    if (is_number && row->type == QK_SETTING_PERCENT && value > 0 && value < 1)
        return qk__fail(err, QK_ERR_ARGUMENT, "is a percentage; did you mean %g?", 100 * value);
    if (!is_number || !is_within(row, value))
        return fail_number(row, text, err);
    *member = value;
    return QK_OK;
}

/* ---- texts and lists -------------------------------------------------------------------- */

static qk_status parse_text(const qk_setting *row, const char **member, const char *text,
                            void **owned, qk_error *err)
{
    /* what a forgotten value or an unset variable of a shell leaves in its place */
    if (row->type != QK_SETTING_TEXT && *text == 0)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "expected a path, found nothing (for this folder: .)");
    if (row->type != QK_SETTING_TEXT && strncmp(text, "--", 2) == 0)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "is an option; for a path of that name write ./%s", text);
    if ((row->traits & QK_SETTING_UTF8) &&
        qk__utf8_valid((const uint8_t *)text, strlen(text)) < strlen(text))
        return qk__fail(err, QK_ERR_ARGUMENT, "is not UTF-8");
    char *copy = qk__strdup(text);
    if (!copy)
        return qk__nomem(err);
    free(*owned);
    *member = *owned = copy;
    return QK_OK;
}

static qk_status parse_heads(qk_head_set *member, const char *text, void **owned, qk_error *err)
{
    qk_head_set set;
    QK_TRY(qk_head_set_parse(text, &set, err));
    free(*owned);
    *owned = set.items;
    *member = set;
    return QK_OK;
}

static qk_status parse_list(qk_index_list *member, const char *text, void **owned,
                            qk_error *err)
{
    qk_index_list list;
    QK_TRY(qk_index_list_parse(text, &list, err));
    free(*owned);
    *owned = list.items;
    *member = list;
    return QK_OK;
}

qk_status qk__setting_parse(const qk_setting *row, void *member, const char *text, void **owned,
                            qk_error *err)
{
    const qk_word *word;
    switch (row->type) {
    case QK_SETTING_FLAG:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return qk__fail(err, QK_ERR_ARGUMENT, "expected true or false");
        *(bool *)member = *text == 't';
        return QK_OK;
    case QK_SETTING_INTEGER:
        return parse_integer(row, member, text, err);
    case QK_SETTING_REAL:
    case QK_SETTING_PERCENT:
        return parse_real(row, member, text, err);
    case QK_SETTING_CHOICE:
        word = find_word(row, text, strlen(text));
        if (!word)
            return fail_words(row, text, strlen(text), err);
        *(int *)member = word->value;
        return QK_OK;
    case QK_SETTING_SET:
        return parse_set(row, member, text, err);
    case QK_SETTING_LIST:
        return parse_list(member, text, owned, err);
    case QK_SETTING_HEADS:
        return parse_heads(member, text, owned, err);
    case QK_SETTING_TEXT:
    case QK_SETTING_PATH:
    case QK_SETTING_PATHS:
        return parse_text(row, member, text, owned, err);
    case QK_SETTING_NESTED:
        break;
    }
    return qk__fail(err, QK_ERR_ARGUMENT, "cannot be set by itself");
}

/* ---- back to text ----------------------------------------------------------------------- */

int64_t qk__setting_integer(const qk_setting *row, const void *member)
{
    return row->size == sizeof(int64_t) ? *(const int64_t *)member : *(const int *)member;
}

void qk__setting_set_integer(const qk_setting *row, void *member, int64_t value)
{
    if (row->size == sizeof(int64_t))
        *(int64_t *)member = value;
    else
        *(int *)member = (int)value;
}

const char *qk__setting_word(const qk_setting *row, const void *member)
{
    int64_t value = qk__setting_integer(row, member);
    for (const qk_word *w = row->words; w && w->text; w++)
        if (w->value == value)
            return w->text;
    return NULL;
}

/* Appends, as far as there is room, and counts on. */
static void put_word(char *text, size_t size, size_t *length, const char *word)
{
    for (; *word; word++, (*length)++)
        if (*length + 1 < size) {
            text[*length] = *word;
            text[*length + 1] = 0;
        }
}

static void put_items(const qk_setting *row, const void *member, char *text, size_t size,
                      size_t *length)
{
    char number[16];
    const qk_index_list *list = member;
    const char *const *paths = *(const char *const *const *)member;
    bool is_list = row->type == QK_SETTING_LIST;
    size_t count =
        is_list ? list->count
                : *(const size_t *)(const void *)((const char *)member + sizeof(char **));
    for (size_t i = 0; i < count; i++) {
        if (is_list)
            snprintf(number, sizeof number, "%d", list->items[i]);
        put_word(text, size, length, i ? "," : "");
        put_word(text, size, length, is_list ? number : paths[i]);
    }
}

static void put_heads(const qk_head_set *set, char *text, size_t size, size_t *length)
{
    char item[QK__HEAD_RANGE_SIZE];
    for (size_t i = 0; i < set->count; i++) {
        put_word(text, size, length, i ? "," : "");
        put_word(text, size, length, qk__head_range_text(&set->items[i], item));
    }
}

static void put_set(const qk_setting *row, unsigned value, char *text, size_t size,
                    size_t *length)
{
    for (const qk_word *w = row->words; w->text; w++)
        if (value & (unsigned)w->value) {
            put_word(text, size, length, *length ? "," : "");
            put_word(text, size, length, w->text);
        }
}

size_t qk__setting_format(const qk_setting *row, const void *member, char *text, size_t size)
{
    size_t length = 0;
    char number[40];
    const char *word = NULL;
    bool null = (row->traits & QK_SETTING_ZERO_IS_NULL) || row->type == QK_SETTING_PERCENT;
    if (size > 0)
        *text = 0;
    switch (row->type) {
    case QK_SETTING_FLAG:
        word = *(const bool *)member ? "true" : "false";
        break;
    case QK_SETTING_INTEGER:
    case QK_SETTING_CHOICE:
        word = qk__setting_word(row, member);
        snprintf(number, sizeof number, "%" PRId64, qk__setting_integer(row, member));
        if (!word && row->type == QK_SETTING_INTEGER && !(null && strcmp(number, "0") == 0))
            word = number;
        break;
    case QK_SETTING_REAL:
    case QK_SETTING_PERCENT:
        qk__format_number(*(const double *)member, number);
        put_word(text, size, &length, null && *(const double *)member == 0 ? "" : number);
        break;
    case QK_SETTING_TEXT:
    case QK_SETTING_PATH:
        word = *(const char *const *)member;
        break;
    case QK_SETTING_SET:
        put_set(row, *(const unsigned *)member, text, size, &length);
        break;
    case QK_SETTING_HEADS:
        put_heads(member, text, size, &length);
        break;
    case QK_SETTING_LIST:
    case QK_SETTING_PATHS:
        put_items(row, member, text, size, &length);
        break;
    case QK_SETTING_NESTED:
        break;
    }
    put_word(text, size, &length, word ? word : "");
    return length;
}

/* ---- values that a caller has put there ------------------------------------------------- */

static bool is_allowed(const qk_setting *row, const void *member)
{
    int64_t sum = 0, integer;
    double real;
    switch (row->type) {
    case QK_SETTING_INTEGER:
        integer = qk__setting_integer(row, member);
        return (double)integer == row->number || qk__setting_word(row, member) ||
               is_within(row, (double)integer);
    case QK_SETTING_CHOICE:
        return (double)qk__setting_integer(row, member) == row->number ||
               qk__setting_word(row, member);
    case QK_SETTING_SET:
        for (const qk_word *w = row->words; w && w->text; w++)
            sum |= w->value;
        integer = *(const int *)member;
        return integer != 0 && (integer & ~sum) == 0;
    case QK_SETTING_REAL:
    case QK_SETTING_PERCENT:
        real = *(const double *)member;
        return real == row->number || (isnan(real) && isnan(row->number)) ||
               (isfinite(real) && is_within(row, real));
    default:
        return true;
    }
}

/* A folder with the name of a file is what nobody means, unless it is there, or the slash says so. */
static bool names_a_file(const char *path)
{
    static const char *const ENDS[] = {".html", ".htm",     ".csv", ".json", ".jsonl",
                                       ".png",  ".svg",     ".pdf", ".txt",  ".md",
                                       ".yaml", ".parquet", ".yml", ".zip"};
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++)
        if (qk__ends_with_any_case(path, ENDS[i]))
            return !qk__is_dir(path);
    return false;
}

static qk_status check_folder(const qk_setting *row, const void *member, qk_error *err)
{
    if (row->type != QK_SETTING_PATH || !row->value || strcmp(row->value, "DIR") != 0)
        return QK_OK;
    const char *path = *(const char *const *)member;
    if (!path || !names_a_file(path))
        return QK_OK;
    return qk__fail(
        err, QK_ERR_ARGUMENT,
        "%s %s: the name of a file, but a folder is wanted: the files that lie in it "
        "have names of their own",
        row->name, path);
}

static qk_status check_range(const qk_setting *row, const void *member, qk_error *err)
{
    char value[QK__WORDS_SIZE];
    qk_error why = {0};
    QK_TRY(check_folder(row, member, err));
    if (is_allowed(row, member))
        return QK_OK;
    bool is_real = row->type == QK_SETTING_REAL || row->type == QK_SETTING_PERCENT;
    if (qk__setting_format(row, member, value, sizeof value) == 0) /* no word, no number */
        snprintf(value, sizeof value, "%.0f",
                 is_real ? NAN : (double)qk__setting_integer(row, member));
    qk_status status = row->words ? fail_words(row, "", 0, &why) : fail_number(row, "", &why);
    return qk__fail(err, status, "%s %s: %s", row->name, value, why.message);
}

/* Of rows that limit each other. */
static qk_status check_order(const qk_settings_table *table, const qk_setting *row,
                             const void *values, qk_error *err)
{
    for (size_t i = 0; row->not_above && i < table->count; i++) {
        const qk_setting *other = &table->rows[i];
        if (!other->name || strcmp(other->name, row->not_above) != 0)
            continue;
        const void *low = (const char *)values + row->offset;
        const void *high = (const char *)values + other->offset;
        if (*(const double *)low > *(const double *)high)
            return qk__fail(err, QK_ERR_ARGUMENT, "%s: %g is above %g, which is %s", row->name,
                            *(const double *)low, *(const double *)high, other->name);
    }
    return QK_OK;
}

qk_status qk__settings_check(const qk_settings_table *table, const void *values, qk_error *err)
{
    for (size_t i = 0; i < table->count; i++) {
        const qk_setting *row = &table->rows[i];
        const void *member = (const char *)values + row->offset;
        QK_TRY(row->type == QK_SETTING_NESTED ? qk__settings_check(row->table, member, err)
               : row->name                    ? check_range(row, member, err)
                                              : QK_OK);
        QK_TRY(check_order(table, row, values, err));
    }
    return QK_OK;
}
