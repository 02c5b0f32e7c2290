/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a and b: the tables of a folder, or of a model in it. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json_build.h"
#include "compare/compare.h"
#include "figure/figure_note.h"
#include "schema/schema.h"
#include "tables/run_differences.h"
#include "tables/tables.h"
#include "tables/text_lengths.h"

enum { MAX_NAMED = 4, FEW_TEXTS = QK_FEW_TEXTS };

/* ---- what is said ----------------------------------------------------------------------- */

void qk__compare_warn(qk__comparing *c, const char *fmt, ...)
{
    char message[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    c->warnings = qk__json_append(c->warnings, qk__json_text(message));
    qk__tell_notice(&c->settings->context, QK_NOTICE_WARNING, "%s", message);
}

static void warn_again(qk__comparing *c, const json_t *warnings)
{
    size_t i;
    const json_t *one;
    json_array_foreach(warnings, i, one)
    {
        if (json_is_string(one))
            qk__compare_warn(c, "%s: %s", c->sides[c->side].letter, json_string_value(one));
    }
}

/* ---- intervals ------------------------------------------------------------------------- */

/* In percent; 0: none. */
static double confidence_of(const json_t *run)
{
    return json_number_value(json_object_get(json_object_get(run, "settings"), "ci"));
}

/* Versions up to 0.2 had intervals along fixed axes, which leave out what texts do to the axes: differences of two
 * models with their own axes would look far surer than they are. Plasticity is hardly affected. */
static bool fixes_axes(const json_t *run, const char *table)
{
    const json_t *refit = json_object_get(json_object_get(run, "settings"), "ci_refit");
    return json_is_false(refit) && strcmp(table, "head_metrics.csv") != 0;
}

double qk__side_level(const qk__opened *side, const char *table)
{
    const json_t *run = side->manifest.is_study ? side->manifest.root
                                                : qk__manifest_owner(&side->manifest, table);
    double percent = confidence_of(run);
    return percent > 0 && !fixes_axes(run, table) ? percent / 100 : NAN;
}

/* Says why intervals of a folder are not used. */
static void warn_of_level(qk__comparing *c, const qk__opened *side, const char *folder)
{
    double level = c->settings->ci, other = 0;
    bool fixed = false;
    size_t count = side->manifest.is_study ? 1 : json_array_size(side->manifest.runs);
    for (size_t i = 0; i < count; i++) {
        const json_t *run = side->manifest.is_study ? side->manifest.root
                                                    : json_array_get(side->manifest.runs, i);
        double own = confidence_of(run);
        other = own > 0 && fabs(own - level) > 1e-7 ? own : other;
        fixed = fixed || (own > 0 && fixes_axes(run, ""));
    }
    if (other > 0)
        qk__compare_warn(c, "%s: %s has intervals of %g %%, not of %g %%: give --ci %g",
                         side->letter, folder, other, level, other);
    if (fixed)
        qk__compare_warn(
            c,
            "%s: the intervals of %s are along fixed axes, which makes differences "
            "look surer than they are: only those of plasticity are used; analyse it "
            "again with --ci %g",
            side->letter, folder, level);
}

/* ---- a folder ---------------------------------------------------------------------------- */

static json_t *describe_folder(const qk__opened *side, const char *folder)
{
    json_t *captures = json_array();
    for (size_t i = 0; i < json_array_size(side->manifest.runs); i++) {
        const json_t *run = json_array_get(side->manifest.runs, i);
        captures = qk__json_append(captures, qk__json_text(qk__json_string(run, "capture")));
    }
    const json_t *run = side->manifest.is_study
                            ? NULL
                            : qk__manifest_owner(&side->manifest, "head_metrics.csv");
    json_t *width = json_object_get(json_object_get(run, "buckets"), "width");
    return json_pack("{s:s, s:o, s:o, s:o, s:O?}", "kind", "results", "path",
                     qk__json_text(folder), "model", qk__json_text(side->model), "captures",
                     captures, "bucket_width", width);
}

/* Tables that were edited or cut short would be compared as if they were complete. */
static qk_status check_tables(qk__comparing *c, const qk__opened *side, const char *folder,
                              qk_error *err)
{
    json_t *changes;
    if (side->manifest.is_comparison)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "%s: is a comparison itself; give the results that it was made of",
                        folder);
    QK_TRY(qk__manifest_check(&side->manifest, folder, err));
    QK_TRY(qk__manifest_changes(&side->manifest, folder, &changes, err));
    const char *first = json_string_value(json_array_get(changes, 0));
    qk_status status = QK_OK;
    if (first && !c->settings->force)
        status = qk__fail(err, QK_ERR_INCONSISTENT,
                          "%s/%s; run the analysis again, or give --force to compare the "
                          "tables as they are",
                          folder, first);
    else if (first)
        qk__compare_warn(c, "%s: %s/%s; compared all the same", side->letter, folder, first);
    json_decref(changes);
    return status;
}

static qk_status list_models(const qk_columns *models, const char *folder, const char *wanted,
                             qk_error *err)
{
    const char *const *all = qk_columns_texts(models, "model");
    const size_t count = qk_columns_num_rows(models);
    qk__buffer names = {0};
    for (size_t i = 0; i < count && i < MAX_NAMED; i++)
        QK_TRY(qk__buffer_printf(&names, NULL, "%s'%.60s'", i ? ", " : "", all[i]));
    const char *text = names.data ? (const char *)names.data : "none";
    const char *more = count > MAX_NAMED ? ", ..." : "";
    qk_status status =
        wanted ? qk__fail(err, QK_ERR_NOT_FOUND, "%s: has no model '%.80s'; it has %s%s",
                          folder, wanted, text, more)
               : qk__fail(err, QK_ERR_ARGUMENT,
                          "%s: has %zu models: say which, as %s:MODEL; it has %s%s", folder,
                          count, folder, text, more);
    qk__buffer_free(&names);
    return status;
}

static qk_status take_model(qk__opened *side, const qk_columns *models, size_t i, qk_error *err)
{
    side->model = qk__strdup(qk_columns_texts(models, "model")[i]);
    side->model_label = qk__strdup(qk_columns_texts(models, "label")[i]);
    for (size_t k = 0; k < QK__NUM_LENGTHS; k++)
        *qk__length_of(&side->lengths, k) =
            qk_columns_reals(models, qk__length_members[k].name)[i];
    return side->model && side->model_label ? QK_OK : qk__nomem(err);
}

/* The only model, or the model with this name or label. */
static qk_status choose_model(qk__comparing *c, qk__opened *side, const char *folder,
                              const char *wanted, qk_error *err)
{
    qk_columns *models;
    QK_TRY(qk__store_ask(c->tables, &models, err,
                         "SELECT * FROM \"%w\".models ORDER BY model_id", side->letter));
    const char *const *names = qk_columns_texts(models, "model"), *const *labels =
                                                                      qk_columns_texts(models,
                                                                                       "label");
    const size_t count = qk_columns_num_rows(models);
    size_t at = 0;
    while (at < count &&
           (wanted ? strcmp(names[at], wanted) != 0 && strcmp(labels[at], wanted) != 0
                   : count != 1))
        at++;
    qk_status status = QK_OK;
    qk_columns *heads = NULL;
    /* an ablation of another model makes two of one; reading the heads says so */
    if (at == count)
        status = qk__store_ask(c->tables, &heads, err,
                               "SELECT count(*) AS heads FROM \"%w\".head_ids", side->letter);
    if (status == QK_OK)
        status = at < count ? take_model(side, models, at, err)
                            : list_models(models, folder, wanted, err);
    qk_columns_free(&heads);
    qk_columns_free(&models);
    return status;
}

/* Repetitions of another run say nothing of these intervals. */
static bool has_own_repeats(const qk__manifest *manifest)
{
    static const char *const TABLES[] = {"heads.csv", "rotated.csv", "head_metrics.csv"};
    const json_t *owner = qk__manifest_owner(manifest, "repeats.csv");
    for (size_t i = 0; i < sizeof TABLES / sizeof *TABLES; i++) {
        const json_t *other = qk__manifest_owner(manifest, TABLES[i]);
        if (other && other != owner)
            return false;
    }
    return true;
}

/* Reads what each head has without each group of texts, for differences over the same texts. */
static qk_status read_repeats(qk__comparing *c, qk__opened *side, qk_error *err)
{
    if (!qk__store_has(c->tables, side->letter, "repeats.csv") ||
        (!side->manifest.is_study && !has_own_repeats(&side->manifest)))
        return QK_OK;
    return qk__store_ask(c->tables, &side->repeats, err,
                         "SELECT * FROM \"%w\".repeats WHERE coalesce(model, '') = %Q "
                         "ORDER BY layer, q_head, text_group",
                         side->letter, side->model);
}

/* Of a study: the manifest in the folder of the model, which lists the runs. */
static qk_status read_own(qk__opened *side, const char *folder, qk_error *err)
{
    size_t i;
    const json_t *model;
    json_array_foreach(json_object_get(side->manifest.root, "models"), i, model)
    {
        const char *name = qk__json_string(model, "folder");
        qk__path path;
        if (strcmp(qk__json_string(model, "model"), side->model) != 0 || !*name)
            continue;
        QK_TRY(qk__path_in(&path, folder, name, err));
        return qk__manifest_read(&side->own, path.text, err);
    }
    return QK_OK;
}

/* The manifest that lists the runs of a side. */
static const qk__manifest *runs_of(const qk__opened *side)
{
    return side->manifest.is_study ? &side->own : &side->manifest;
}

static qk_status read_folder(qk__comparing *c, qk__opened *side, const char *folder,
                             const char *model, qk_error *err)
{
    QK_TRY(qk__place_watch(&side->watched, folder, c->side ? &c->sides[0].watched : NULL, err));
    QK_TRY(qk__manifest_read(&side->manifest, folder, err));
    QK_TRY(check_tables(c, side, folder, err));
    QK_TRY(qk__store_add(c->tables, side->letter, folder, c->settings->force, err));
    QK_TRY(choose_model(c, side, folder, model, err));
    QK_TRY(read_own(side, folder, err));
    for (size_t i = 0; i < json_array_size(side->manifest.runs); i++) {
        const json_t *run = json_array_get(side->manifest.runs, i);
        if (strcmp(qk__json_string(run, "model"), side->model) == 0)
            warn_again(c, json_object_get(run, "warnings"));
    }
    const char *failed;
    const size_t failures = qk__manifest_failures(runs_of(side), &failed);
    if (failures > 0)
        qk__compare_warn(c, "%s: %s/manifest.json: %zu head%s no numbers; the first is %s",
                         side->letter, folder, failures, failures == 1 ? " has" : "s have",
                         failed);
    warn_of_level(c, side, folder);
    side->facts = describe_folder(side, folder);
    return read_repeats(c, side, err);
}

/* ---- which of them it is ---------------------------------------------------------------- */

/* Whether tables of heads are there, or a manifest. */
static bool is_results(const char *folder)
{
    static const char *const NAMES[] = {"manifest.json", "heads.csv",        "qk.csv",
                                        "rotated.csv",   "head_metrics.csv", "stages.csv"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (qk__is_file_in(folder, NAMES[i]))
            return true;
    return false;
}

static qk_status open_side(qk__comparing *c, const char *name, qk_error *err)
{
    qk__opened *side = &c->sides[c->side];
    const char *colon = strrchr(name, ':');
    if (is_results(name))
        return read_folder(c, side, name, NULL, err);
    if (qk__is_dir(name))
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "%s: has no tables of results, and captures are not compared; first "
                        "qkscope analyze %s -o DIR --ci %g, then give DIR",
                        name, name, c->settings->ci);
    char *folder = qk__strdup(name);
    if (!folder)
        return qk__nomem(err);
    if (colon)
        folder[colon - name] = 0;
    qk_status status =
        colon && is_results(folder)
            ? read_folder(c, side, folder, colon + 1, err)
            : qk__fail(err, QK_ERR_NOT_FOUND,
                       "%s: no folder of results; for a capture, first qkscope analyze %s -o "
                       "DIR --ci %g, then give DIR",
                       name, name, c->settings->ci);
    free(folder);
    return status;
}

/* ---- what the two are ------------------------------------------------------------------- */

static void warn_of_widths(qk__comparing *c)
{
    const json_t *a = json_object_get(c->sides[0].facts, "bucket_width");
    const json_t *b = json_object_get(c->sides[1].facts, "bucket_width");
    if (json_is_number(a) && json_is_number(b) && !json_equal(a, b))
        qk__compare_warn(
            c,
            "plasticity of a is of buckets of %g tokens and that of b of %g: its differences "
            "are of that, too; capture both with one --bucket, or analyse both with one "
            "--buckets",
            json_number_value(a), json_number_value(b));
}

/* Differences of settings would be taken for those of models. */
static qk_status warn_of_settings(qk__comparing *c, qk_error *err)
{
    static const char *const SIDES[] = {"a", "b"};
    const qk__manifest *const of[] = {runs_of(&c->sides[0]), runs_of(&c->sides[1])};
    char *text = NULL;
    qk_status status = qk__runs_differ(of, SIDES, &text, err);
    if (text)
        qk__compare_warn(
            c, "a and b were computed differently, and differences are of that, too: %s", text);
    free(text);
    return status;
}

/* Zeros everywhere would be taken for a finding. */
static qk_status warn_of_same(qk__comparing *c, qk_error *err)
{
    const qk_compare_settings *s = c->settings;
    char *a = qk__seen_from(s->output, s->a), *b = qk__seen_from(s->output, s->b);
    qk_status status = a && b ? QK_OK : qk__nomem(err);
    bool same = status == QK_OK && strcmp(a, b) == 0;
    if (same)
        qk__compare_warn(c, "a and b are the same: every difference is 0");
    free(a);
    free(b);
    return status;
}

/* Names each side by its model, unless both have the same name or one has none. */
static qk_status name_sides(qk__comparing *c, qk_error *err)
{
    const char *names[2], *paths[2] = {c->settings->a, c->settings->b};
    for (int s = 0; s < 2; s++)
        names[s] = *c->sides[s].model ? c->sides[s].model_label : "";
    bool same = strcmp(names[0], names[1]) == 0;
    for (int s = 0; s < 2; s++) {
        const char *last = strrchr(paths[s], '/');
        const char *base = last && last[1] ? last + 1 : paths[s];
        char *label = same || !*names[s] ? qk__strdup(base) : qk__strdup(names[s]);
        if (!label)
            return qk__nomem(err);
        c->sides[s].label = label;
    }
    if (strcmp(c->sides[0].label, c->sides[1].label) != 0)
        return QK_OK;
    for (int s = 0; s < 2; s++) { /* two folders of one name, or one folder */
        free(c->sides[s].label);
        char *seen = qk__seen_from(c->settings->output, paths[s]);
        c->sides[s].label = seen ? qk__format("%s %s", c->sides[s].letter, seen) : NULL;
        free(seen);
        if (!c->sides[s].label)
            return qk__nomem(err);
    }
    return QK_OK;
}

/* The first of all warnings; and beside every number, in the names of a and b. */
static qk_status tell_lengths(qk__comparing *c, qk_error *err)
{
    const qk_text_lengths *of[2] = {&c->sides[0].lengths, &c->sides[1].lengths};
    char text[2][QK_LENGTHS_SIZE], message[512];
    c->unlike = qk__lengths_differ(of[0], of[1]);
    c->silent = c->unlike && !c->settings->any_length;
    for (int s = 0; s < 2; s++)
        c->outcome->tokens[s] = qk__length_shown(of[s], of[1 - s]);
    if (!c->unlike)
        return QK_OK;
    snprintf(message, sizeof message,
             "a is of %s; b is of %s: categories and most numbers depend on the length of the "
             "texts%s",
             qk_text_lengths_say(of[0], text[0]), qk_text_lengths_say(of[1], text[1]),
             c->settings->any_length
                 ? ""
                 : ", so no change is tested and no categories are compared; compare texts of "
                   "one length (analyze --lengths gives categories at others), or give "
                   "--any-length");
    if (json_array_insert_new(c->warnings, 0, qk__json_text(message)) != 0)
        return qk__nomem(err);
    qk__tell_notice(&c->settings->context, QK_NOTICE_WARNING, "%s", message);
    for (int s = 0; s < 2; s++) {
        char *label = qk__format("%s (%.15g tokens)", c->sides[s].label, c->outcome->tokens[s]);
        free(c->sides[s].label);
        c->sides[s].label = label;
        if (!label)
            return qk__nomem(err);
    }
    return QK_OK;
}

qk_status qk__open_sides(qk__comparing *c, qk_error *err)
{
    const char *names[2] = {c->settings->a, c->settings->b};
    QK_TRY(qk__store_open(&c->tables, &c->settings->context, err));
    for (c->side = 0; c->side < 2; c->side++) {
        qk_status status = open_side(c, names[c->side], err);
        if (status != QK_OK)
            return status;
        if (!c->sides[c->side].facts)
            return qk__nomem(err);
    }
    QK_TRY(warn_of_same(c, err));
    warn_of_widths(c);
    QK_TRY(warn_of_settings(c, err));
    QK_TRY(name_sides(c, err));
    return tell_lengths(c, err);
}

void qk__close_sides(qk__comparing *c)
{
    for (int s = 0; s < 2; s++) {
        qk__opened *o = &c->sides[s];
        free(o->model);
        free(o->model_label);
        qk__manifest_free(&o->manifest);
        qk__manifest_free(&o->own);
        qk_columns_free(&o->heads);
        qk_columns_free(&o->repeats);
        qk__place_release(&o->watched);
        json_decref(o->facts);
        free(o->label);
    }
    qk__store_close(&c->tables);
}
