/* SPDX-License-Identifier: Apache-2.0 */
/* What two runs were told otherwise, so that their numbers differ whatever the models are. */
#include "tables/run_differences.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json_build.h"

enum { VALUE_SIZE = 64 };

/* A setting, and the table whose numbers it decides; "": those of all tables. Which heads there are, draws, intervals
 * and columns that stand alone are left out. Widths of buckets have a warning of their own. */
typedef struct decisive {
    const char *section, *name, *table;
} decisive;

static const decisive SETTINGS[] = {
    {"", "from_position", ""},
    {"", "max_samples", ""},
    {"", "allow_repeats", ""},
    {"pca", "taxonomy_low", "heads.csv"},
    {"pca", "taxonomy_high", "heads.csv"},
    {"pca", "correlation_threshold", "heads.csv"},
    {"rotation", "b_axis", "rotated.csv"},
    {"rotation", "complement_pairs", "rotated.csv"},
    {"plasticity", "convention", "head_metrics.csv"},
    {"plasticity", "max_pairs", "head_metrics.csv"},
    {"plasticity", "ks_alpha", "head_metrics.csv"},
    {"plasticity", "max_distance", "head_metrics.csv"},
    {"attention", "scale", "attention.csv"},
};
static const char *const TABLES[] = {"heads.csv", "rotated.csv", "head_metrics.csv",
                                     "attention.csv"};

/* Rows of "uniform" are a draw of those of "all". */
static const char *sampler_of(const json_t *run)
{
    const char *sampler = qk__json_string(run, "sampler");
    return strcmp(sampler, "all") == 0 ? "uniform" : sampler;
}

static const char *say(const json_t *value, char text[VALUE_SIZE])
{
    char *dumped = json_is_string(value) || json_is_null(value)
                       ? NULL
                       : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    snprintf(text, VALUE_SIZE, "%.60s",
             json_is_string(value) ? json_string_value(value)
             : dumped              ? dumped
                                   : "not given");
    free(dumped);
    return text;
}

/* Once, though several tables are of it. */
static qk_status add(qk__buffer *said, const char *name, const char *const sides[2],
                     const char *a, const char *b, qk_error *err)
{
    char *one = qk__format("%s (%s in %s, %s in %s)", name, a, sides[0], b, sides[1]);
    qk_status status = one ? QK_OK : qk__nomem(err);
    if (one && !(said->data && strstr((const char *)said->data, one)))
        status = qk__buffer_printf(said, err, "%s%s", said->size > 0 ? ", " : "", one);
    free(one);
    return status;
}

static qk_status add_captures(qk__buffer *said, const json_t *const runs[2],
                              const char *const sides[2], qk_error *err)
{
    const char *stage[] = {qk__json_string(runs[0], "stage"),
                           qk__json_string(runs[1], "stage")},
               *sampler[] = {sampler_of(runs[0]), sampler_of(runs[1])};
    if (*stage[0] && *stage[1] && strcmp(stage[0], stage[1]) != 0)
        QK_TRY(add(said, "stage", sides, stage[0], stage[1], err));
    if (*sampler[0] && *sampler[1] && strcmp(sampler[0], sampler[1]) != 0)
        QK_TRY(add(said, "sampler", sides, sampler[0], sampler[1], err));
    return QK_OK;
}

static const json_t *value_of(const json_t *run, const decisive *d)
{
    const json_t *settings = json_object_get(run, "settings");
    return json_object_get(*d->section ? json_object_get(settings, d->section) : settings,
                           d->name);
}

/* What an older version did not write is not known, and differs from nothing. */
static qk_status add_settings(qk__buffer *said, const json_t *const runs[2], const char *table,
                              const char *const sides[2], qk_error *err)
{
    for (size_t i = 0; i < sizeof SETTINGS / sizeof *SETTINGS; i++) {
        const decisive *d = &SETTINGS[i];
        const json_t *a = value_of(runs[0], d), *b = value_of(runs[1], d);
        char text[2][VALUE_SIZE];
        if ((!*d->table || strcmp(d->table, table) == 0) && a && b && !json_equal(a, b))
            QK_TRY(add(said, d->name, sides, say(a, text[0]), say(b, text[1]), err));
    }
    return QK_OK;
}

qk_status qk__runs_differ(const qk__manifest *const of[2], const char *const sides[2],
                          char **text, qk_error *err)
{
    qk__buffer said = {0};
    qk_status status = QK_OK;
    *text = NULL;
    for (size_t t = 0; t < sizeof TABLES / sizeof *TABLES && status == QK_OK; t++) {
        const json_t *const runs[] = {qk__manifest_owner(of[0], TABLES[t]),
                                      qk__manifest_owner(of[1], TABLES[t])};
        if (!runs[0] || !runs[1])
            continue;
        status = add_captures(&said, runs, sides, err);
        if (status == QK_OK)
            status = add_settings(&said, runs, TABLES[t], sides, err);
    }
    if (status == QK_OK && said.size > 0)
        status = qk__buffer_printf(
            &said, err, "%s",
            strncmp((const char *)said.data, "stage", 5) == 0
                ? "; numbers before and after RoPE differ by what RoPE does, whatever the models"
                : "");
    if (status == QK_OK)
        *text = (char *)said.data;
    else
        qk__buffer_free(&said);
    return status;
}
