/* SPDX-License-Identifier: Apache-2.0 */
/* Causal tests of heads: the order of events. A unit is a text, or a window of a long one, with all its branches. */
#include "ablation/ablation.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "base/json_build.h"
#include "prefill/prefill.h"
#include "tables/manifest.h"
#include "tokenizer/tokenizer.h"

enum { UNIT_NAME = 24 };

/* ---- what the run is --------------------------------------------------------------------- */

/* All that decides the sums. */
static qk_status name_run(qk__ablation *a, qk_error *err)
{
    const qk__recording *r = &a->recording;
    const qk_ablation_settings *s = a->settings;
    char hash[QK__FINGERPRINT_SIZE];
    size_t count;
    const qk__group *groups = qk__groups(a, &count);
    qk__buffer text = {0};
    qk_status status = qk__buffer_printf(
        &text, err, "%s %016" PRIx64 " %016" PRIx64 " %s %d %lld %d %lld %lld %lld %s",
        QK_VERSION, r->facts->fingerprint,
        r->tokenizer ? qk__tokenizer_fingerprint(r->tokenizer) : 0, r->texts_hash,
        (int)a->recorder.arithmetic, (long long)r->max_length, (int)a->recorder.long_texts,
        (long long)a->recorder.max_examples, (long long)s->suffix, (long long)s->seed,
        a->recorder.overrides ? a->recorder.overrides : "");
    for (size_t i = 0; i < a->num_whats && status == QK_OK; i++)
        status = qk__buffer_printf(&text, err, " %s", a->whats[i].name);
    for (size_t i = 0; i < a->num_directions && status == QK_OK; i++)
        if (a->directions[i].u) {
            const size_t size = (size_t)r->facts->head_dim * sizeof *a->directions[i].u;
            status = qk__buffer_append(&text, a->directions[i].u, size, err);
            if (status == QK_OK)
                status = qk__buffer_append(&text, &a->directions[i].part, sizeof(float), err);
        }
    for (size_t i = 0; i < count && status == QK_OK; i++) {
        status = qk__buffer_printf(&text, err, " %zu %d:", groups[i].count, groups[i].draw);
        for (size_t h = 0; h < groups[i].count && status == QK_OK; h++)
            status = qk__buffer_printf(&text, err, "%d,", groups[i].heads[h]);
    }
    if (status == QK_OK) {
        qk__fingerprint_bytes(text.data, text.size, hash);
        snprintf(a->name, sizeof a->name, "ablate-%.16s", hash);
    }
    qk__buffer_free(&text);
    return status;
}

static void forecast(qk__ablation *a)
{
    qk_ablation_outcome *o = a->outcome;
    const qk_prefill_settings settings = {.loss = qk__ignore_losses};
    size_t count;
    const qk__trial *trials = qk__trials(a, &count);
    o->texts = (int64_t)a->num_texts;
    o->branches = (int64_t)count;
    for (size_t t = 0; t < a->num_texts; t++) {
        const int64_t rounds = ((int64_t)count - 1) / qk__branches_at_once(a, a->lengths[t]) +
                               1 + qk__needs_profiles(a);
        o->flops +=
            (double)rounds * qk_prefill_flops(a->recording.model, &settings, a->lengths[t]);
        for (size_t i = 0; i < count; i++)
            o->flops += qk__prefill_branch_flops(a->recording.model, trials[i].first_layer,
                                                 a->lengths[t], a->settings->suffix);
    }
}

/* How long a forward of the first text takes, twice: the first one reads the weights. */
static qk_status time_text(qk__ablation *a, size_t number, qk_tokens *tokens, qk_error *err)
{
    const qk_prefill_settings settings = {.arithmetic = a->recorder.arithmetic,
                                          .loss = qk__ignore_losses,
                                          .context = {.threads = a->recorder.context.threads}};
    const qk_sequence sequence = {tokens->ids, (int64_t)tokens->count};
    qk_status status = QK_OK;
    (void)number;
    for (int i = 0; i < 2 && status == QK_OK; i++) {
        const double begin = qk__now();
        status = qk_prefill(a->recording.model, &settings, &sequence, 1, err);
        a->outcome->forecast = (qk__now() - begin) * a->outcome->flops /
                               qk_prefill_flops(a->recording.model, &settings, sequence.count);
    }
    qk_tokens_free(tokens);
    return status;
}

/* ---- units ------------------------------------------------------------------------------- */

typedef struct unit {
    qk__ablation *ablation;
    size_t number;
    const qk_tokens *tokens;
} unit;

static void name_unit(size_t number, char name[UNIT_NAME])
{
    snprintf(name, UNIT_NAME, "t%08zu", number);
}

static size_t sums_of_text(const qk__ablation *a)
{
    size_t trials;
    (void)qk__trials(a, &trials);
    return 1 + trials;
}

static qk_status fill_unit(void *context, const char *folder, qk_error *err)
{
    const unit *u = context;
    qk__ablation *a = u->ablation;
    const size_t count = sums_of_text(a);
    qk__text_sums *sums = qk__calloc(count, sizeof *sums);
    qk__outfile *file = NULL;
    if (!sums)
        return qk__nomem(err);
    qk_status status = qk__measure_text(a, u->number, u->tokens, sums, err);
    if (status == QK_OK)
        status = qk__outfile_open_in(&file, folder, "sums", err);
    if (status == QK_OK)
        status = qk__outfile_write(file, sums, count * sizeof *sums, err);
    if (status == QK_OK)
        status = qk__outfile_commit(&file, err);
    qk__outfile_discard(&file);
    free(sums);
    return status;
}

static qk_status run_unit(qk__ablation *a, size_t number, qk_tokens *tokens, qk_error *err)
{
    char name[UNIT_NAME];
    unit u = {a, number, tokens};
    name_unit(number, name);
    qk_status status = qk__unit_is_sealed(&a->units, name)
                           ? QK_OK
                           : qk__unit_put(&a->units, name, fill_unit, &u, err);
    qk_tokens_free(tokens);
    return status;
}

static int64_t count_there(const qk__ablation *a, int64_t first, int64_t end)
{
    int64_t there = 0;
    for (int64_t i = first; i < end; i++) {
        char name[UNIT_NAME];
        name_unit((size_t)i, name);
        there += qk__unit_is_sealed(&a->units, name);
    }
    return there;
}

/* The texts of this process. */
static void find_own(const qk__ablation *a, int64_t *first, int64_t *end)
{
    *first = 0;
    *end = (int64_t)a->num_texts;
    if (a->recorder.shard.count > 1)
        qk__share_alike((int64_t)a->num_texts, &a->recorder.shard, first, end);
}

static qk_status run_own(qk__ablation *a, qk_error *err)
{
    int64_t first, end;
    find_own(a, &first, &end);
    const int64_t there = count_there(a, first, end);
    a->total = (end - first) * a->outcome->branches;
    a->done = there * a->outcome->branches;
    if (there > 0)
        qk__tell_notice(&a->recorder.context, QK_NOTICE_INFO,
                        "%lld of %lld texts are done already", (long long)there,
                        (long long)(end - first));
    if (there == end - first)
        return QK_OK;
    QK_TRY(qk__fit_profiles(a, err));
    return qk__visit_windows(a, first, end, run_unit, err);
}

static qk_status read_sums(qk__ablation *a, qk_error *err)
{
    const size_t count = sums_of_text(a), size = count * sizeof *a->sums;
    a->sums = qk__calloc(a->num_texts * count, sizeof *a->sums);
    if (!a->sums)
        return qk__nomem(err);
    for (size_t t = 0; t < a->num_texts; t++) {
        char name[UNIT_NAME];
        qk__buffer data = {0};
        name_unit(t, name);
        QK_TRY(qk__context(err, qk__unit_check(&a->units, name, "sums", err),
                           "%s/%s (remove it, and run the same command again)", a->units.path,
                           name));
        char *path = qk__units_path(&a->units, name, "sums");
        qk_status status = path ? qk__read_file(path, size, &data, err) : qk__nomem(err);
        if (status == QK_OK && data.size != size)
            status = qk__fail(err, QK_ERR_MALFORMED, "%s has not the size of its sums", path);
        if (status == QK_OK)
            memcpy(a->sums + t * count, data.data, size);
        qk__buffer_free(&data);
        free(path);
        QK_TRY(status);
    }
    return QK_OK;
}

/* ---- the run ----------------------------------------------------------------------------- */

/* Without a manifest nobody knows whose tables they are. */
static qk_status check_no_tables(const char *output, qk_error *err)
{
    for (size_t i = 0; i < sizeof qk__ablation_tables / sizeof *qk__ablation_tables; i++) {
        qk__path path;
        QK_TRY(qk__path_in(&path, output, qk__ablation_tables[i], err));
        if (qk__is_there(path.text))
            return qk__fail(err, QK_ERR_EXISTS,
                            "%s holds %s, and no manifest.json says of which ablation: give "
                            "another folder, or --force to replace it",
                            output, qk__ablation_tables[i]);
    }
    return QK_OK;
}

/* An output folder may have this ablation, another one where it is to be replaced, and nothing of another command. */
static qk_status check_output(const qk__ablation *a, qk_error *err)
{
    const char *output = a->recorder.output;
    qk__manifest manifest;
    QK_TRY(qk__manifest_read(&manifest, output, err));
    const json_t *root = manifest.root;
    qk_status status = QK_OK;
    if (!root && !manifest.broken)
        status = a->recorder.force ? QK_OK : check_no_tables(output, err);
    else if (strcmp(qk__json_string(root, "kind"), "ablation") != 0)
        status =
            qk__fail(err, QK_ERR_EXISTS,
                     "%s holds something else than an ablation: give another folder", output);
    else if (!a->recorder.force && strcmp(qk__json_string(root, "run"), a->name) != 0)
        status = qk__fail(err, QK_ERR_EXISTS,
                          "%s: holds an ablation of another model, other texts or settings "
                          "(%.300s); choose another folder, or --force to replace it",
                          output, qk__json_string(root, "command_line"));
    qk__manifest_free(&manifest);
    return status;
}

static qk_status put_together(qk__ablation *a, qk_error *err)
{
    bool mine = true;
    a->outcome->texts_there = count_there(a, 0, (int64_t)a->num_texts);
    if (a->outcome->texts_there < (int64_t)a->num_texts)
        return QK_OK;
    if (a->recorder.shard.count > 1)
        QK_TRY(qk__end_claim(&a->units, false, &mine, err));
    if (!mine)
        return QK_OK;
    QK_TRY(check_output(a, err));
    QK_TRY(qk__place_sweep(a->recorder.output, err));
    QK_TRY(read_sums(a, err));
    QK_TRY(qk__find_effects(a, err));
    QK_TRY(qk__ablation_write(a, err));
    a->outcome->complete = true;
    qk__rank_leave(&a->rank);
    QK_TRY(qk__units_remove(&a->units, err));
    /* Other ablations that were stopped here are replaced, too. */
    return a->recorder.force && a->recorder.shard.count < 2
               ? qk__remove_below(a->recorder.output, QK__UNITS_NAME, err)
               : QK_OK;
}

/* Shards of one ablation hold the folder together, and its units keep out those of another. */
static qk_status start_units(qk__ablation *a, qk_error *err)
{
    const bool shared = a->recorder.shard.count > 1;
    int64_t first, end;
    QK_TRY(name_run(a, err));
    QK_TRY(qk__units_open(&a->units, a->recorder.output, a->name, err));
    QK_TRY((shared ? qk__place_join : qk__place_claim)(&a->place, a->recorder.output, err));
    QK_TRY(check_output(a, err));
    QK_TRY(qk__ranks_ask(a->recorder.output, a->name, err));
    find_own(a, &first, &end);
    if (first == end) /* the run may be over, and is not begun again */
        return QK_OK;
    return qk__units_enter(&a->rank, &a->units, &a->recorder.shard, err);
}

static qk_status check_texts(const qk__ablation *a, qk_error *err)
{
    for (size_t t = 0; t < a->num_texts; t++)
        if (a->lengths[t] > 1)
            return QK_OK;
    return qk__fail(err, QK_ERR_DEGENERATE,
                    "no text has two tokens: there is nothing to predict");
}

static qk_status plan(qk__ablation *a, qk_error *err)
{
    const qk_ablation_settings *s = a->settings;
    if (s->recorder.engine)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "heads are changed of models that this library runs");
    if (!s->dry_run && (!s->recorder.output || !*s->recorder.output))
        return qk__fail(err, QK_ERR_ARGUMENT, "no output folder given");
    if (!s->what || s->suffix < 0 || s->suffix == 1 || s->draws < 0 || s->memory < 1 ||
        !(s->level > 0 && s->level < 100))
        return qk__fail(err, QK_ERR_ARGUMENT, "a setting of an ablation is out of range");
    QK_TRY(qk__parse_whats(a, err));
    QK_TRY(qk__recording_open(&a->recording, err));
    QK_TRY(qk__plan_trials(a, err));
    QK_TRY(qk__group_texts(a, err));
    QK_TRY(check_texts(a, err));
    QK_TRY(qk__check_profiles(a, err));
    QK_TRY(qk__find_directions(a, err));
    a->outcome->model = qk__strdup(a->recording.model_name);
    if (!a->outcome->model)
        return qk__nomem(err);
    forecast(a);
    return QK_OK;
}

static qk_status run_ablation(qk__ablation *a, qk_error *err)
{
    QK_TRY(plan(a, err));
    if (a->settings->dry_run)
        return qk__visit_windows(a, 0, 1, time_text, err);
    QK_TRY(start_units(a, err));
    QK_TRY(run_own(a, err));
    return put_together(a, err);
}

static void free_ablation(qk__ablation *a)
{
    size_t count;
    qk__group *groups = qk__groups(a, &count);
    for (size_t i = 0; i < count; i++) {
        free(groups[i].name);
        free((int *)(uintptr_t)groups[i].heads);
    }
    qk__buffer_free(&a->groups);
    qk__buffer_free(&a->trials);
    free(a->profiles);
    free(a->outputs);
    qk__free_directions(a);
    free(a->group_of);
    free(a->group_of_text);
    free(a->lengths);
    free(a->sums);
    qk__file_set_discard(&a->files);
    qk__rank_leave(&a->rank);
    qk__place_release(&a->place);
    qk__units_close(&a->units);
    qk__recording_close(&a->recording);
}

qk_status qk_ablation_run(const qk_ablation_settings *settings, qk_ablation_outcome *outcome,
                          qk_error *err)
{
    QK_NEED(err, settings, outcome);
    *outcome = (qk_ablation_outcome){.forecast = NAN};
    qk__ablation *a = qk__calloc(1, sizeof *a);
    if (!a)
        return qk__nomem(err);
    const double begin = qk__now();
    *a = (qk__ablation){.settings = settings,
                        .recorder = settings->recorder,
                        .outcome = outcome,
                        .place = {.lock = -1}};
    a->recording = (qk__recording){.settings = &a->recorder, .outcome = &a->ignored};
    qk_status status = run_ablation(a, err);
    free_ablation(a);
    free(a);
    outcome->seconds = qk__now() - begin;
    return status;
}

void qk_ablation_outcome_free(qk_ablation_outcome *outcome)
{
    for (size_t i = 0; i < outcome->num_effects; i++)
        free(outcome->effects[i].group);
    free(outcome->effects);
    free(outcome->model);
    *outcome = (qk_ablation_outcome){0};
}
