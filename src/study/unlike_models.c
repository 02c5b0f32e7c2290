/* SPDX-License-Identifier: Apache-2.0 */
/* Warns of models whose numbers differ for another cause than the models: lengths of texts, settings, stages. */
#include <stdlib.h>

#include "base/error.h"
#include "study/study.h"
#include "tables/run_differences.h"
#include "tables/text_lengths.h"

static bool has_results(const qk__study_work *work, size_t i)
{
    return qk__study_has_results(&work->outcome->models[i]);
}

static qk_status read_manifest(const qk__study_work *work, size_t i, qk__manifest *manifest,
                               qk_error *err)
{
    *manifest = (qk__manifest){0};
    return has_results(work, i) ? qk__manifest_read(manifest, work->places[i].folder, err)
                                : QK_OK;
}

/* *text: how model i was computed otherwise than the first; NULL: in the same way. */
static qk_status find_settings(const qk__study_work *work, const qk__manifest *first,
                               const char *name, size_t i, char **text, qk_error *err)
{
    const char *const names[] = {name, work->plan->models[i].name};
    qk__manifest own;
    QK_TRY(read_manifest(work, i, &own, err));
    const qk__manifest *const of[] = {first, &own};
    qk_status status = qk__runs_differ(of, names, text, err);
    qk__manifest_free(&own);
    return status;
}

/* One warning: what is told is of the first that differs. */
static qk_status warn_of_settings(const qk__study_work *work, size_t first, qk_error *err)
{
    const qk_study_model *models = work->plan->models;
    qk__manifest manifest;
    char *said = NULL;
    size_t count = 0;
    QK_TRY(read_manifest(work, first, &manifest, err));
    qk_status status = QK_OK;
    for (size_t i = first + 1; i < work->plan->num_models && status == QK_OK; i++) {
        char *text = NULL;
        status = find_settings(work, &manifest, models[first].name, i, &text, err);
        count += text != NULL;
        if (!said)
            said = text;
        else
            free(text);
    }
    if (said && status == QK_OK)
        qk__tell_notice(
            &work->run->context, QK_NOTICE_WARNING,
            "%zu model%s computed otherwise than %s, and differences are of that, too: %s",
            count, count == 1 ? " was" : "s were", models[first].name, said);
    free(said);
    qk__manifest_free(&manifest);
    return status;
}

static void warn_of_lengths(const qk__study_work *work, size_t first)
{
    const qk_study_result *results = work->outcome->models;
    char text[2][QK_LENGTHS_SIZE];
    for (size_t i = first + 1; i < work->plan->num_models; i++)
        for (size_t j = first; j < i; j++)
            if (has_results(work, i) && has_results(work, j) &&
                qk__lengths_differ(&results[j].lengths, &results[i].lengths)) {
                qk__tell_notice(
                    &work->run->context, QK_NOTICE_WARNING,
                    "%s is of %s; %s is of %s: categories and most numbers depend on the "
                    "length of the texts",
                    work->plan->models[j].name,
                    qk_text_lengths_say(&results[j].lengths, text[0]),
                    work->plan->models[i].name,
                    qk_text_lengths_say(&results[i].lengths, text[1]));
                return;
            }
}

qk_status qk__study_warn_of_unlike(const qk__study_work *work, qk_error *err)
{
    size_t first = 0;
    while (first < work->plan->num_models && !has_results(work, first))
        first++;
    if (first == work->plan->num_models || work->run->dry_run)
        return QK_OK;
    warn_of_lengths(work, first);
    return warn_of_settings(work, first, err);
}
