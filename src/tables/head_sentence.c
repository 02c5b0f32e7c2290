/* SPDX-License-Identifier: Apache-2.0 */
/* What a head is, in a sentence: what it attends to, whether its keys and queries follow position, its category and how sure
 * that is, and the length of the texts. The page fills its own numbers in, so that many heads share a sentence. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/number.h"
#include "tables/manifest.h"
#include "tables/store.h"
#include "tables/text_lengths.h"

/* ---- words ------------------------------------------------------------------------------ */

/* The arguments of head_sentence(): columns of head_numbers from CATEGORY on. */
enum {
    GAPS,
    LOW,
    HIGH,
    HEAD,
    TOKENS,
    TOKENS_LEAST,
    TOKENS_MOST,
    CATEGORY,
    PROBABILITY,
    DISTANCE,
    SINK,
    PREVIOUS,
    NEAR,
    INFORMATION,
    R_K,
    R_Q,
    NUM_ARGUMENTS
};
static const char *const COLUMNS[NUM_ARGUMENTS] = {[CATEGORY] = "category",
                                                   [PROBABILITY] = "category_probability",
                                                   [DISTANCE] = "mean_distance",
                                                   [SINK] = "sink_mass",
                                                   [PREVIOUS] = "previous_mass",
                                                   [NEAR] = "near_mass",
                                                   [INFORMATION] = "information",
                                                   [R_K] = "r_k",
                                                   [R_Q] = "r_q"};

static double number(sqlite3_value **arguments, int which)
{
    return sqlite3_value_type(arguments[which]) == SQLITE_NULL
               ? NAN
               : sqlite3_value_double(arguments[which]);
}

/* Or its name between braces. A distance has three digits, shares and correlations have two decimals. */
static void put_number(sqlite3_str *out, sqlite3_value **arguments, int which)
{
    const double value = number(arguments, which);
    char text[QK_NUMBER_SIZE];
    if (sqlite3_value_int(arguments[GAPS])) {
        sqlite3_str_appendf(out, "{%s}", COLUMNS[which]);
    } else if (which == DISTANCE) {
        snprintf(text, sizeof text, "%.2e", value);
        qk__format_number(strtod(text, NULL), text);
        sqlite3_str_appendall(out, text);
    } else {
        sqlite3_str_appendf(out, "%.2f", value);
    }
}

/* By the thresholds of the names of heads (stats/attention_numbers.c). */
static void put_attention(sqlite3_str *out, sqlite3_value **arguments)
{
    const char *way = number(arguments, PREVIOUS) > 0.4      ? "to the previous token"
                      : number(arguments, NEAR) > 0.5        ? "locally"
                      : number(arguments, INFORMATION) < 0.1 ? "evenly"
                                                             : "widely";
    sqlite3_str_appendf(out, " attends %s (mean distance ", way);
    put_number(out, arguments, DISTANCE);
    sqlite3_str_appendall(out, " tokens), leaves ");
    put_number(out, arguments, SINK);
    sqlite3_str_appendall(out, " on the first token");
}

/* By the thresholds of the categories, which are of PC0: a head may have its positions in other components. */
static void put_position(sqlite3_str *out, sqlite3_value **arguments, int which,
                         const char *before)
{
    const double size = fabs(number(arguments, which));
    const char *how = size >= number(arguments, HIGH)  ? "follow position"
                      : size >= number(arguments, LOW) ? "follow position in part"
                                                       : "do not follow position";
    sqlite3_str_appendf(out, "%s%s its %s %s (%s ", before, *before == ',' ? "" : " along PC0",
                        which == R_K ? "keys" : "queries", how, COLUMNS[which]);
    put_number(out, arguments, which);
    sqlite3_str_appendall(out, ")");
}

static void put_category(sqlite3_str *out, sqlite3_value **arguments, const char *before)
{
    sqlite3_str_appendf(out, "%s category %s, ", before,
                        (const char *)sqlite3_value_text(arguments[CATEGORY]));
    if (isnan(number(arguments, PROBABILITY))) {
        sqlite3_str_appendall(out, "its probability is not known");
    } else {
        sqlite3_str_appendall(out, "probability ");
        put_number(out, arguments, PROBABILITY);
    }
}

/* Nothing where nothing of the head is known. */
static void make_sentence(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
    const qk_text_lengths lengths = {.median = number(arguments, TOKENS),
                                     .least = number(arguments, TOKENS_LEAST),
                                     .most = number(arguments, TOKENS_MOST),
                                     .position_most = NAN};
    char words[QK_LENGTHS_SIZE];
    const char *before = ":";
    (void)count;
    sqlite3_str_appendall(out, (const char *)sqlite3_value_text(arguments[HEAD]));
    if (!isnan(number(arguments, DISTANCE)) && !isnan(number(arguments, SINK))) {
        put_attention(out, arguments);
        before = ";";
    }
    for (int which = R_K; which <= R_Q; which++)
        if (!isnan(number(arguments, which))) {
            put_position(out, arguments, which, before);
            before = which == R_K ? "," : ";";
        }
    before = *before == ',' ? ";" : before;
    if (sqlite3_value_type(arguments[CATEGORY]) != SQLITE_NULL) {
        put_category(out, arguments, before);
        before = ",";
    }
    sqlite3_str_appendf(out, "%s %s.", before, qk_text_lengths_say(&lengths, words));
    const int code = sqlite3_str_errcode(out);
    char *text = sqlite3_str_finish(out);
    if (code != SQLITE_OK)
        sqlite3_result_error_nomem(context);
    else if (*before != ':')
        sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
    sqlite3_free(text);
}

/* ---- for SQL ---------------------------------------------------------------------------- */

qk_status qk__sentence_function(qk__store *t, qk_error *err)
{
    int code = sqlite3_create_function_v2(t->db, "head_sentence", NUM_ARGUMENTS,
                                          SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS,
                                          NULL, make_sentence, NULL, NULL, NULL);
    return code == SQLITE_OK ? QK_OK : qk__sql_fail(t, code, err);
}

void qk__category_limits(const qk__store *t, const char *set, double limits[2])
{
    const qk__store_set *of = qk__store_set_of(t, set);
    limits[0] = limits[1] = NAN;
    bool found = false;
    for (size_t i = 0; i < of->num_sources; i++)
        qk__manifest_limits(&of->sources[i].manifest, limits, &found);
}

qk_status qk__put_sentence(qk__store *t, const char *set, const char *head, bool gaps,
                           qk__buffer *sql, qk_error *err)
{
    double limits[2];
    char low[QK_NUMBER_SIZE] = "0.3", high[QK_NUMBER_SIZE] = "0.7";
    qk__category_limits(t, set, limits);
    if (isfinite(limits[0])) {
        qk__format_number(limits[0], low);
        qk__format_number(limits[1], high);
    }
    QK_TRY(
        qk__buffer_printf(sql, err, ", head_sentence(%d, %s, %s, %s", gaps, low, high, head));
    for (int i = 0; i < CATEGORY - TOKENS; i++)
        QK_TRY(qk__buffer_printf(
            sql, err, ", (SELECT %s FROM \"%s\".models WHERE model_id = head_id >> %d)",
            qk__length_members[i].name, set, 2 * QK__ID_BITS));
    for (int i = CATEGORY; i < NUM_ARGUMENTS; i++)
        QK_TRY(qk__buffer_printf(sql, err, ", %s", COLUMNS[i]));
    return qk__buffer_printf(sql, err, ") AS sentence");
}
