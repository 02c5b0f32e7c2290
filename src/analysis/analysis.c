/* SPDX-License-Identifier: Apache-2.0 */
/* A run from a capture to tables: the order of its steps, and what it returns. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/head_lengths.h"
#include "analysis/run.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "settings/settings.h"

static void count_failures(qk_analysis_results *results)
{
    for (size_t i = 0; i < results->num_heads; i++) {
        if (results->heads[i].key_missing)
            results->num_missing++;
        else if (results->heads[i].status != QK_OK)
            results->num_failed++;
    }
}

static bool is_complete_failure(const qk_analysis_results *results)
{
    return results->num_failed + results->num_missing == results->num_heads;
}

static qk_status check_settings(const qk_analysis_settings *s, qk_error *err)
{
    const unsigned all =
        QK_ANALYSE_PCA | QK_ANALYSE_ROTATION | QK_ANALYSE_PLASTICITY | QK_ANALYSE_ATTENTION;
    if (s->analyses == 0 || (s->analyses & ~all) != 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "no known analysis asked for (%#x)", s->analyses);
    if (!s->combined && s->analyses != QK_ANALYSE_PCA)
        return qk__fail(err, QK_ERR_ARGUMENT, "fitting each kind by itself is a PCA only");
    if (s->ci > 0 && !s->combined)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "there are no intervals for kinds fitted by themselves");
    if (s->lengths && !(s->combined && (s->analyses & QK_ANALYSE_PCA)))
        return qk__fail(
            err, QK_ERR_ARGUMENT,
            "lengths are for categories, which the PCA of queries and keys together "
            "gives");
    return qk__settings_check(&qk_analysis_settings_table, s, err);
}

qk_status qk__run_conclude(const qk__run *run, qk_error *err)
{
    qk_analysis_results *results = run->results;
    count_failures(results);
    const qk_head_results *first = NULL;
    for (size_t i = 0; i < results->num_heads && !first; i++)
        if (results->heads[i].status != QK_OK &&
            !(run->settings->allow_missing && results->heads[i].key_missing))
            first = &results->heads[i];
    if (!first && is_complete_failure(results))
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "no query head has its key head in this capture");
    if (!first)
        return QK_OK;
    char name[QK_HEAD_NAME_SIZE];
    qk_head_name(first->id, name);
    return qk__fail(err, is_complete_failure(results) ? first->status : QK_ERR_PARTIAL,
                    "%zu of %zu heads have no numbers; the first is %s: %s",
                    results->num_failed + results->num_missing, results->num_heads, name,
                    first->message ? first->message : qk_status_text(first->status));
}

qk_status qk__write_results(qk__run *run, qk_error *err)
{
    double start = qk__now();
    QK_TRY(qk__write_tables(run, err));
    if (!run->settings->combined)
        QK_TRY(qk__write_summary(run, err));
    QK_TRY(qk__write_schema(run, err));
    run->seconds_tables = qk__now() - start;
    return qk__results_commit(run, err);
}

static size_t count_led_by_long_texts(const qk_analysis_results *results)
{
    size_t found = 0;
    for (size_t i = 0; i < results->num_heads; i++) {
        const qk_certainty *c = &results->heads[i].certainty;
        found += c->groups >= QK_FEW_TEXTS && c->effective < c->groups &&
                 isnan(c->category_probability);
    }
    return found;
}

/* Warns of more components than the default, and of more than vectors have dimensions. */
static void warn_of_components(qk__run *run)
{
    const qk_pca *pca = NULL;
    qk_pca_settings usual;
    qk_pca_settings_default(&usual);
    int wanted = run->settings->pca.components;
    for (size_t i = 0; i < run->results->num_heads && !pca; i++)
        pca = run->results->heads[i].pca;
    if (pca && wanted > usual.components && (size_t)wanted > pca->dim)
        qk__run_warn(run,
                     "--components %d: vectors have %zu dimensions, so a head has at most as "
                     "many components",
                     wanted, pca->dim);
}

/* Numbers from few rows look like any others. */
void qk__run_warn_of_few(qk__run *run)
{
    const qk_analysis_results *results = run->results;
    qk_analysis_totals totals;
    qk_analysis_totals_of(results, &totals);
    bool judging = run->settings->combined && qk__run_does(run, QK_ANALYSE_PCA);
    if (totals.no_texts > 0 && judging)
        qk__run_warn(run,
                     "%zu of %zu heads have no integers in a column 'example_id': how sure "
                     "their categories are cannot be told; number the texts ('qkscope "
                     "capture' hashes their ids)",
                     totals.no_texts, results->num_heads);
    if (totals.few_rows > 0)
        qk__run_warn(run,
                     "%zu of %zu heads have fewer than %d rows of a kind (the fewest %.0f): "
                     "their numbers are mostly chance; capture more rows",
                     totals.few_rows, results->num_heads, QK_FEW_ROWS, totals.rows_least);
    if (run->num_constant > 0)
        qk__run_warn(run,
                     "all positions are equal in %zu heads of queries or keys: their "
                     "correlations are 0 and say nothing",
                     run->num_constant);
    warn_of_components(run);
    if (totals.degenerate > 0)
        qk__run_warn(run,
                     "%zu of %zu heads have no drift with position, or fewer than 3 rows of a "
                     "kind: their rows in rotated.csv have no numbers",
                     totals.degenerate, results->num_heads);
    if (totals.few_texts > 0)
        qk__run_warn(run,
                     "%zu of %zu heads have fewer than %d texts (the fewest %.0f): other texts "
                     "may give other numbers, no category is certain, and one text gives no "
                     "intervals; capture more texts",
                     totals.few_texts, results->num_heads, QK_FEW_TEXTS, totals.texts_least);
    size_t long_ones = count_led_by_long_texts(results);
    if (long_ones > 0)
        qk__run_warn(run,
                     "in %zu of %zu heads a few long texts decide what r is (effective_texts "
                     "in heads.csv): "
                     "nothing is certain there; capture more texts, or cut them where most end "
                     "(--max-length, --long cut)",
                     long_ones, results->num_heads);
    if (totals.wide_r_q > 0) {
        char name[QK_HEAD_NAME_SIZE];
        qk_head_name(totals.widest->id, name);
        qk__run_warn(
            run,
            "%zu of %zu heads have a 95 %% interval of r_q on PC0 wider than %.1f (the "
            "widest is %.2f, of %s): capture more texts, or more rows of each",
            totals.wide_r_q, results->num_heads, QK_WIDE_INTERVAL, totals.widest_r_q, name);
    }
    if (totals.other_without_first > 0)
        qk__run_warn(run,
                     "%zu of %zu heads have another category without positions 0 to %d: see "
                     "category_without_first in heads.csv, and --from-position %d",
                     totals.other_without_first, results->num_heads, QK_FIRST_TOKENS - 1,
                     QK_FIRST_TOKENS);
}

static qk_status finish_run(qk__run *run, qk_error *err)
{
    qk_analysis_results *results = run->results;
    results->bytes_read = run->done_bytes;
    results->num_rows = (size_t)run->done_rows;
    qk_status verdict = qk__run_conclude(run, err);
    if (!is_complete_failure(results)) {
        qk__find_totals(run);
        QK_TRY(qk__find_lengths(run, err));
        qk__run_warn_of_few(run);
        if (run->settings->output)
            QK_TRY(qk__write_results(run, err));
    }
    return verdict;
}

static qk_status run_all(qk__run *run, qk_error *err)
{
    double start = qk__now();
    QK_TRY(qk__run_set_buckets(run, err));
    QK_TRY(qk__run_set_lengths(run, err));
    qk__run_tell_choices(run);
    if (run->settings->output)
        QK_TRY(qk__run_list_inputs(run, err));
    QK_TRY(run->settings->combined ? qk__run_gqa_groups(run, err) : qk__run_single(run, err));
    run->seconds_heads = qk__now() - start;
    QK_TRY(qk__long_tables_check(run, err));
    if (atomic_load(&run->cancelled))
        return qk__fail(err, QK_ERR_CANCELLED, "stopped before the end; nothing was written");
    return finish_run(run, err);
}

qk_status qk_analysis_run(const qk_analysis_settings *settings, qk_analysis_results **results,
                          qk_error *err)
{
    double start = qk__now();
    qk__run run;
    QK_NEED(err, results);
    *results = NULL;
    QK_NEED(err, settings);
    QK_TRY(check_settings(settings, err));
    qk_status status = qk__run_open(&run, settings, err);
    if (status == QK_OK && settings->output)
        status = qk__results_claim(&run, err);
    if (status == QK_OK)
        status = run_all(&run, err);
    if (run.results)
        run.results->seconds = qk__now() - start;
    bool there = status == QK_OK || status == QK_ERR_PARTIAL;
    if (there)
        *results = run.results;
    else
        qk_analysis_results_free(&run.results);
    qk__run_close(&run);
    return status;
}
