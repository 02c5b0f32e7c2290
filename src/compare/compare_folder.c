/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a comparison: whether it may be written into, its figures, its manifest, and how all takes its place.
 * Meanwhile manifest.json says that the folder is not complete. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json_build.h"
#include "compare/compare.h"
#include "figure/figure_note.h"
#include "settings/settings_json.h"

/* ---- whose it is ------------------------------------------------------------------------ */

static qk_status check_names(const char *folder, qk_error *err)
{
    qk__names names;
    QK_TRY(qk__list_dir(folder, &names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; i < names.count && status == QK_OK; i++)
        if (qk__temporary_stem(names.items[i]) == 0)
            status = qk__fail(err, QK_ERR_EXISTS,
                              "%s: holds other things than a comparison (%s); choose another "
                              "folder",
                              folder, names.items[i]);
    qk__names_free(&names);
    return status;
}

/* Whether an input is that of an earlier run, however its path is spelt and wherever the command runs; manifests of
 * older versions have only the spelling. */
static bool is_as_before(const qk__comparing *c, const json_t *run, const char *key,
                         const char *given_before, const char *given)
{
    const char *before = qk__json_string(run, key);
    char *now = *before ? qk__seen_from(c->settings->output, given) : NULL;
    bool same = now ? strcmp(before, now) == 0 : strcmp(given_before, given) == 0;
    free(now);
    return same;
}

static qk_status check_earlier(qk__comparing *c, const qk__manifest *before, qk_error *err)
{
    const qk_compare_settings *s = c->settings;
    const json_t *run = json_array_get(before->runs, 0);
    const char *a = qk__json_string(run, "a_given"), *b = qk__json_string(run, "b_given");
    c->outcome->replaced = (size_t)json_integer_value(json_object_get(run, "heads"));
    if (s->force || !run ||
        (is_as_before(c, run, "a_seen", a, s->a) && is_as_before(c, run, "b_seen", b, s->b)))
        return QK_OK;
    return qk__fail(err, QK_ERR_EXISTS,
                    "%s: holds a comparison of %.200s and %.200s; choose another folder, or "
                    "--force to replace it",
                    s->output, a, b);
}

qk_status qk__compare_claim(qk__comparing *c, qk_error *err)
{
    const char *output = c->settings->output;
    qk__manifest before;
    QK_TRY(qk__place_claim(&c->folder, output, err));
    QK_TRY(qk__manifest_read(&before, output, err));
    qk_status status =
        before.is_comparison ? check_earlier(c, &before, err) : check_names(output, err);
    qk__manifest_free(&before);
    return status == QK_OK ? qk__place_sweep(output, err) : status;
}

/* ---- figures ---------------------------------------------------------------------------- */

/* The command that draws all figures, as called from their folder. */
static qk_status put_command(const qk__comparing *c, const char *figures, qk__buffer *out,
                             qk_error *err)
{
    static const char *const BUT[] = {"output", "force", "threads", "a", "b", NULL};
    const qk_compare_settings *s = c->settings;
    const qk__command command = {"compare", figures, &qk_compare_settings_table, s, BUT};
    QK_TRY(qk__buffer_printf(out, err, "qkscope compare "));
    QK_TRY(qk__put_path(out, figures, s->a, err));
    QK_TRY(qk__buffer_printf(out, err, " "));
    QK_TRY(qk__put_path(out, figures, s->b, err));
    QK_TRY(qk__buffer_printf(out, err, " -o .."));
    return qk__put_options(out, &command, err);
}

static qk_status write_note(const qk__comparing *c, const qk__drawn *drawn, const char *command,
                            qk_error *err)
{
    const qk__figure_note note = {.name = drawn->name,
                                  .title = drawn->kind->title,
                                  .caption = drawn->kind->caption,
                                  .tables = drawn->kind->tables,
                                  .rows = drawn->kind->rows,
                                  .numbers = drawn->kind->numbers,
                                  .command = command};
    qk__buffer text = {0};
    qk_status status = qk__note_write(&note, &text, err);
    qk__path path;
    if (status == QK_OK)
        status = qk__path_set(&path, err, "%s/%s.md", c->staging, drawn->name);
    if (status == QK_OK)
        status = qk__write_file(path.text, text.data, text.size, err);
    qk__buffer_free(&text);
    return status;
}

static qk_status write_notes(const qk__comparing *c, const char *figures, qk_error *err)
{
    qk__buffer command = {0};
    qk_status status = put_command(c, figures, &command, err);
    for (size_t i = 0; i < c->drawn.count && status == QK_OK; i++)
        if (c->drawn.items[i].status == QK_OK)
            status = write_note(c, &c->drawn.items[i], (const char *)command.data, err);
    qk__buffer_free(&command);
    return status;
}

static qk_status draw_page(qk__comparing *c, const char *folder, qk_error *err)
{
    qk_error why;
    const qk__results none = {.title = ""};
    const qk__subject subject = {.results = &none,
                                 .tables = c->tables,
                                 .sides = {c->sides[0].label, c->sides[1].label},
                                 .score_metric = "ap_drop", /* there are no scores */
                                 .in_page = true};
    qk_status status = qk__draw_figures(&subject, c->staging, &c->settings->figures,
                                        &c->settings->context, &c->drawn, &why);
    for (size_t i = 0; i < c->drawn.count; i++)
        c->outcome->num_figures += c->drawn.items[i].status == QK_OK;
    bool goes_on = status != QK_ERR_CANCELLED && status != QK_ERR_NOMEM;
    if (goes_on)
        QK_TRY(qk__check_written(&c->drawn, err));
    else if (err)
        *err = why;
    return goes_on ? write_notes(c, folder, err)
                   : status; /* the page says which figures failed */
}

qk_status qk__compare_draw(qk__comparing *c, qk_error *err)
{
    const char *output = c->settings->output;
    qk__path folder;
    QK_TRY(qk__path_in(&folder, output, "figures", err));
    QK_TRY(qk__stage_below(output, "figures", "compare", &c->staging, err));
    return draw_page(c, folder.text, err);
}

/* ---- the manifest ----------------------------------------------------------------------- */

static qk_status describe_run(const qk__comparing *c, json_t **run, qk_error *err)
{
    const qk_compare_settings *s = c->settings;
    char *a = qk__seen_from(s->output, s->a), *b = qk__seen_from(s->output, s->b);
    *run = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:O, s:O, s:o, s:I, s:O, s:f}", "qkscope",
                     QK_VERSION, "command_line", qk__json_text_or_null(s->command_line),
                     "a_given", qk__json_text(s->a), "b_given", qk__json_text(s->b), "a_seen",
                     qk__json_text(a ? a : ""), "b_seen", qk__json_text(b ? b : ""), "a",
                     c->sides[0].facts, "b", c->sides[1].facts, "settings",
                     json_pack("{s:f, s:b}", "ci", s->ci, "any_length", s->any_length), "heads",
                     (json_int_t)c->outcome->paired, "warnings", c->warnings, "seconds",
                     c->outcome->seconds);
    free(a);
    free(b);
    return qk__describe_files(run, &c->files, err);
}

/* Takes run over; without it the folder is not complete. */
static qk_status write_manifest(const qk__comparing *c, json_t *run, qk__outfile **file,
                                qk_error *err)
{
    const qk_compare_settings *s = c->settings;
    bool complete = run != NULL;
    json_t *runs = json_array();
    if (run)
        runs = qk__json_append(runs, run);
    json_t *root = json_pack("{s:s, s:s, s:b, s:o, s:o}", "qkscope", QK_VERSION, "kind",
                             "comparison", "complete", complete, "command_line",
                             qk__json_text_or_null(s->command_line), "runs", runs);
    return qk__json_write(root, s->output, QK__MANIFEST_NAME, file, err);
}

/* ---- into their places ------------------------------------------------------------------ */

static qk_status install_figures(const qk__comparing *c, qk_error *err)
{
    qk__path figures, none; /* where nothing was drawn */
    QK_TRY(qk__path_in(&figures, c->settings->output, "figures", err));
    QK_TRY(qk__path_in(&none, figures.text, ".none", err));
    return qk__is_dir(figures.text)
               ? qk__install_figures(&c->drawn, true, c->staging ? c->staging : none.text,
                                     figures.text, err)
               : QK_OK;
}

/* Removes the files and figures of an earlier run that this one does not write. */
static qk_status clear(const void *context, qk_error *err)
{
    const qk__comparing *c = context;
    if (!qk__file_set_has(&c->files, QK__COMPARE_PAGE))
        QK_TRY(qk__remove_file(c->settings->output, QK__COMPARE_PAGE, err));
    return install_figures(c, err);
}

static qk_status list_outputs(qk__comparing *c, qk_error *err)
{
    qk_compare_outcome *o = c->outcome;
    o->outputs = qk__calloc(c->files.count, sizeof *o->outputs);
    if (!o->outputs)
        return qk__nomem(err);
    for (size_t i = 0; i < c->files.count; i++) {
        if (!(o->outputs[i] = qk__strdup(c->files.names[i])))
            return qk__nomem(err);
        o->num_outputs++;
    }
    return QK_OK;
}

qk_status qk__compare_commit(qk__comparing *c, qk_error *err)
{
    json_t *run;
    qk__outfile *last, *mark;
    QK_TRY(describe_run(c, &run, err));
    QK_TRY(write_manifest(c, run, &last, err));
    QK_TRY(qk__file_set_add(&c->files, QK__MANIFEST_NAME, last, QK_OK));
    QK_TRY(list_outputs(c, err));
    QK_TRY(write_manifest(c, NULL, &mark, err));
    return qk__file_set_install(&c->files, mark, clear, c, err);
}

void qk__compare_release(qk__comparing *c)
{
    qk__file_set_discard(&c->files);
    if (c->staging)
        qk__remove_staging(c->staging);
    free(c->staging);
    qk__path figures;
    if (c->folder.path && qk__path_in(&figures, c->folder.path, "figures", NULL) == QK_OK)
        rmdir(figures.text); /* where it is empty */
    qk__drawn_list_free(&c->drawn);
    json_decref(c->warnings);
    qk__place_release(&c->folder);
}
