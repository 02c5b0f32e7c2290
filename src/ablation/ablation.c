/* SPDX-License-Identifier: Apache-2.0 */
/* Causal tests of heads: the order of events. A unit is some texts, or windows of long texts, with all their branches:
 * the sums of one text behind those of another. */
#include "ablation/ablation.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "base/json_build.h"
#include "prefill/prefill.h"
#include "tables/manifest.h"
#include "tokenizer/tokenizer.h"

enum { UNIT_NAME = 24, MOST_UNITS = 64 };
#define UNITS ".units"

/* ---- what the run is --------------------------------------------------------------------- */

/* All that decides the sums. */
static qk_status name_run(qk__ablation *a, qk_error *err)
{
    const qk__recording *r = &a->recording;
    const qk_ablation_settings *s = a->settings;
    char hash[QK__FINGERPRINT_SIZE];
    size_t count;
    const qk__head_group *groups = qk__head_groups(a, &count);
    qk__buffer text = {0};
    qk_status status = qk__buffer_printf(
        &text, err, "%s %zu %016" PRIx64 " %016" PRIx64 " %s %d %lld %d %lld %lld %lld %s",
        QK_VERSION, sizeof(qk__text_sums), r->facts->fingerprint,
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

/* Measures a forward of the first text twice: the first one also reads the weights. */
static qk_status time_text(void *user, qk__window *window, qk_error *err)
{
    qk__ablation *a = user;
    const qk_prefill_settings settings = {.arithmetic = a->recorder.arithmetic,
                                          .loss = qk__ignore_losses,
                                          .context = {.threads = a->recorder.context.threads}};
    const qk_sequence sequence = {window->tokens.ids, (int64_t)window->tokens.count};
    qk_status status = QK_OK;
    for (int i = 0; i < 2 && status == QK_OK; i++) {
        const double begin = qk__now();
        status = qk_prefill(a->recording.model, &settings, &sequence, 1, err);
        a->outcome->forecast = (qk__now() - begin) * a->outcome->flops /
                               qk_prefill_flops(a->recording.model, &settings, sequence.count);
    }
    qk_tokens_free(&window->tokens);
    return status;
}

/* ---- units ------------------------------------------------------------------------------- */

static void name_unit(int64_t number, char name[UNIT_NAME])
{
    snprintf(name, UNIT_NAME, "t%06lld", (long long)number);
}

static int64_t texts_of_unit(const qk__ablation *a, int64_t number)
{
    const int64_t left = (int64_t)a->num_texts - number * a->unit_texts;
    return left < a->unit_texts ? left : a->unit_texts;
}

static size_t sums_of_text(const qk__ablation *a)
{
    size_t trials;
    (void)qk__trials(a, &trials);
    return 1 + trials;
}

static bool is_missing(const qk__ablation *a, int64_t unit)
{
    return qk__is_own(unit, &a->recorder.shard) && !a->there[unit];
}

static qk_status begin_unit(qk__ablation *a, int64_t unit, qk_error *err)
{
    char name[UNIT_NAME];
    name_unit(unit, name);
    return qk__unit_begin(&a->unit, a->units, name, err);
}

static qk_status add_text(qk__ablation *a, size_t number, const qk_tokens *tokens,
                          qk_error *err)
{
    const size_t count = sums_of_text(a);
    int64_t offset;
    qk__text_sums *sums = qk__calloc(count, sizeof *sums);
    if (!sums)
        return qk__nomem(err);
    qk_status status = qk__measure_text(a, number, tokens, sums, err);
    if (status == QK_OK)
        status = qk__unit_append(&a->unit, sums, count * sizeof *sums, &offset, err);
    free(sums);
    return status;
}

static qk_status run_text(void *user, qk__window *window, qk_error *err)
{
    qk__ablation *a = user;
    const int64_t unit = window->number / a->unit_texts;
    const int64_t at = window->number % a->unit_texts;
    qk_status status = QK_OK;
    if (is_missing(a, unit)) {
        if (at == 0)
            status = begin_unit(a, unit, err);
        if (status == QK_OK)
            status = add_text(a, (size_t)window->number, &window->tokens, err);
        if (status == QK_OK && at + 1 == texts_of_unit(a, unit)) {
            status = qk__unit_finish(&a->unit, a->name, "", err);
            a->there[unit] = status == QK_OK;
        }
    }
    qk_tokens_free(&window->tokens);
    return status;
}

/* Finds the finished units, how many texts are in them, and how many of these are this process's. */
static qk_status look_at_units(qk__ablation *a, int64_t *texts, int64_t *own, qk_error *err)
{
    *texts = *own = 0;
    for (int64_t u = 0; u < a->num_units; u++) {
        char name[UNIT_NAME];
        name_unit(u, name);
        QK_TRY(qk__unit_look(a->units, name, a->name, NULL, &a->there[u], err));
        *texts += a->there[u] ? texts_of_unit(a, u) : 0;
        *own += a->there[u] && qk__is_own(u, &a->recorder.shard) ? texts_of_unit(a, u) : 0;
    }
    return QK_OK;
}

static int64_t count_own(const qk__ablation *a)
{
    int64_t own = 0;
    for (int64_t u = 0; u < a->num_units; u++)
        own += qk__is_own(u, &a->recorder.shard) ? texts_of_unit(a, u) : 0;
    return own;
}

static qk_status run_own(qk__ablation *a, qk_error *err)
{
    int64_t all, there, own = count_own(a), first = 0, end = a->num_units;
    QK_TRY(look_at_units(a, &all, &there, err));
    a->total = own * a->outcome->branches;
    a->done = there * a->outcome->branches;
    if (there > 0)
        qk__tell_notice(&a->recorder.context, QK_NOTICE_INFO,
                        "%lld of %lld texts are done already", (long long)there,
                        (long long)own);
    if (there == own)
        return QK_OK;
    while (!is_missing(a, first))
        first++;
    while (!is_missing(a, end - 1))
        end--;
    QK_TRY(qk__fit_profiles(a, err));
    return qk__visit_windows(&a->recording, first * a->unit_texts,
                             (end - 1) * a->unit_texts + texts_of_unit(a, end - 1), run_text, a,
                             err);
}

static qk_status read_unit(qk__ablation *a, int64_t unit, qk_error *err)
{
    char name[UNIT_NAME];
    int fd;
    const size_t count = sums_of_text(a);
    const size_t size = (size_t)texts_of_unit(a, unit) * count * sizeof *a->sums;
    name_unit(unit, name);
    qk_status status = qk__unit_open(a->units, name, a->name, &fd, NULL, err);
    if (status == QK_OK) {
        status =
            qk__read_at(fd, a->sums + (size_t)(unit * a->unit_texts) * count, size, 0, err);
        close(fd);
    }
    return qk__context(err, status, "%s/%s (remove it, and run the same command again)",
                       a->units, name);
}

static qk_status read_sums(qk__ablation *a, qk_error *err)
{
    a->sums = qk__calloc(a->num_texts * sums_of_text(a), sizeof *a->sums);
    if (!a->sums)
        return qk__nomem(err);
    for (int64_t u = 0; u < a->num_units; u++)
        QK_TRY(read_unit(a, u, err));
    return QK_OK;
}

/* ---- the run ----------------------------------------------------------------------------- */

/* Without a manifest the origin of tables is unknown. */
static qk_status check_no_tables(const char *output, qk_error *err)
{
    for (size_t i = 0; i < sizeof qk__ablation_tables / sizeof *qk__ablation_tables; i++) {
        qk__path path;
        QK_TRY(qk__path_in(&path, output, qk__ablation_tables[i], err));
        if (qk__is_there(path.text))
            return qk__fail(err, QK_ERR_EXISTS,
                            "%s holds %s, without a manifest.json that says which ablation it "
                            "is of: give another folder, or --force to replace it",
                            output, qk__ablation_tables[i]);
    }
    return QK_OK;
}

/* An output folder may hold this ablation, another one that is to be replaced, and nothing of another command. */
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

/* Units of other ablations that were stopped here are replaced with what is there. */
static qk_status remove_units(const qk__ablation *a, qk_error *err)
{
    const char *output = a->recorder.output;
    qk__path top, name;
    if (a->recorder.force && a->recorder.shard.count < 2)
        return qk__remove_below(output, UNITS, err);
    QK_TRY(qk__path_in(&name, UNITS, a->name, err));
    QK_TRY(qk__remove_below(output, name.text, err));
    QK_TRY(qk__path_in(&top, output, UNITS, err));
    rmdir(top.text); /* other runs may have units there */
    return QK_OK;
}

/* Of several processes that see all units one puts them together. */
static qk_status put_together(qk__ablation *a, qk_error *err)
{
    int64_t texts, own;
    qk__path top;
    QK_TRY(qk__path_in(&top, a->recorder.output, UNITS, err));
    QK_TRY(look_at_units(a, &a->outcome->texts_there, &own, err));
    if (a->outcome->texts_there < (int64_t)a->num_texts ||
        (a->recorder.shard.count > 1 && !qk__place_try(top.text, &a->end)))
        return QK_OK;
    QK_TRY(look_at_units(a, &texts, &own, err));
    if (texts < (int64_t)a->num_texts) /* another shard put them together, and removed them */
        return QK_OK;
    QK_TRY(check_output(a, err));
    QK_TRY(qk__place_sweep(a->recorder.output, err));
    QK_TRY(read_sums(a, err));
    QK_TRY(qk__find_effects(a, err));
    QK_TRY(qk__ablation_write(a, err));
    a->outcome->complete = true;
    return remove_units(a, err);
}

/* Whether the units in the folder are of a run at work; *stopped counts the others. */
static qk_status ask_run(const qk__ablation *a, const char *top, const char *run, int *stopped,
                         qk_error *err)
{
    qk__path folder;
    int lock;
    QK_TRY(qk__path_in(&folder, top, run, err));
    if (strcmp(run, a->name) == 0 || !qk__is_dir(folder.text))
        return QK_OK;
    if (!qk__place_try(folder.text, &lock))
        return qk__fail(err, QK_ERR_EXISTS,
                        "%s: another run is at work in this folder; wait for it to end, or "
                        "choose another folder",
                        a->recorder.output);
    close(lock);
    ++*stopped;
    return QK_OK;
}

/* Shards of one ablation hold the output folder together, so a different ablation asks whose units are there. */
static qk_status ask_others(const qk__ablation *a, qk_error *err)
{
    bool there;
    int stopped = 0;
    qk__path top;
    qk__names names = {0};
    QK_TRY(qk__look_below(a->recorder.output, UNITS, &there, err));
    QK_TRY(qk__path_in(&top, a->recorder.output, UNITS, err));
    qk_status status = there ? qk__list_dir(top.text, &names, err) : QK_OK;
    for (size_t i = 0; status == QK_OK && i < names.count; i++)
        status = ask_run(a, top.text, names.items[i], &stopped, err);
    qk__names_free(&names);
    if (stopped > 0 && !a->recorder.force && a->recorder.shard.index == 0)
        qk__tell_notice(
            &a->recorder.context, QK_NOTICE_WARNING,
            "%s: an ablation of another model, other texts or settings was stopped "
            "here, and this run does not go on with it; --force removes what it left",
            a->recorder.output);
    return status;
}

static qk_status start_units(qk__ablation *a, qk_error *err)
{
    const bool shared = a->recorder.shard.count > 1;
    qk__path name;
    QK_TRY(name_run(a, err));
    QK_TRY(qk__path_in(&name, UNITS, a->name, err));
    a->units = qk__path_join(a->recorder.output, name.text);
    a->unit_texts = ((int64_t)a->num_texts + MOST_UNITS - 1) / MOST_UNITS;
    a->num_units = ((int64_t)a->num_texts + a->unit_texts - 1) / a->unit_texts;
    a->there = qk__calloc((size_t)a->num_units, sizeof *a->there);
    if (!a->units || !a->there)
        return qk__nomem(err);
    QK_TRY((shared ? qk__place_join : qk__place_claim)(&a->place, a->recorder.output, err));
    QK_TRY(check_output(a, err));
    QK_TRY(ask_others(a, err));
    if (count_own(a) == 0) /* a finished run is not begun again */
        return QK_OK;
    QK_TRY(qk__make_below(a->recorder.output, name.text, err));
    QK_TRY(qk__place_join(&a->run, a->units, err));
    return qk__units_sweep(a->recorder.output, name.text, err);
}

static qk_status check_texts(const qk__ablation *a, qk_error *err)
{
    if (a->settings->suffix > 0 && (double)a->settings->suffix >= a->outcome->lengths.most)
        qk__tell_notice(&a->recorder.context, QK_NOTICE_WARNING,
                        "suffix: no text has more than %.0f tokens, so all rows change",
                        a->outcome->lengths.most);
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
        return qk__visit_windows(&a->recording, 0, 1, time_text, a, err);
    QK_TRY(start_units(a, err));
    QK_TRY(run_own(a, err));
    return put_together(a, err);
}

static void free_ablation(qk__ablation *a)
{
    size_t count;
    qk__head_group *groups = qk__head_groups(a, &count);
    for (size_t i = 0; i < count; i++) {
        free(groups[i].name);
        free((int *)(uintptr_t)groups[i].heads);
    }
    qk__buffer_free(&a->groups);
    qk__buffer_free(&a->trials);
    free(a->profiles);
    free(a->outputs);
    qk__free_directions(a);
    free(a->window_group);
    free(a->window_text);
    free(a->text_group);
    free(a->sums);
    qk__file_set_discard(&a->files);
    qk__unit_discard(&a->unit);
    if (a->end >= 0)
        close(a->end);
    qk__place_release(&a->run);
    qk__place_release(&a->place);
    free(a->units);
    free(a->there);
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
                        .unit = {.fd = -1},
                        .end = -1,
                        .place = {.lock = -1},
                        .run = {.lock = -1}};
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
