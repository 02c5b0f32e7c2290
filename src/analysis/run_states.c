/* SPDX-License-Identifier: Apache-2.0 */
/* What a run reads from the moments that a capture keeps. */
#include "analysis/run_states.h"

#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "base/json_build.h"
#include "capture/capture.h"
#include "schema/schema.h"

/* ---- what moments cannot serve ---------------------------------------------------------- */

static const char *kept_of(const qk__run *run)
{
    return run->states.has_rows ? "moments and a reservoir of rows" : "moments and no rows";
}

static qk_status refuse(const qk__run *run, const char *what, qk_error *err)
{
    return qk__fail(err, QK_ERR_ARGUMENT,
                    "%s: keeps %s: %s needs all rows: capture again with --keep rows",
                    qk_capture_path(run->capture), kept_of(run), what);
}

/* First positions can be left out where their moments are apart. The rows of a reservoir stand for all rows of their
 * buckets. */
static qk_status check_first(const qk__run *run, qk_error *err)
{
    const int64_t from = run->settings->from_position;
    const int first = qk_capture_get_info(run->capture)->first;
    if (from == 0)
        return QK_OK;
    if (run->states.has_rows && qk__run_does(run, QK_ANALYSE_PLASTICITY))
        return refuse(run, "plasticity without first positions (--from-position)", err);
    if (from == first)
        return QK_OK;
    if (first > 0)
        return qk__fail(
            err, QK_ERR_ARGUMENT,
            "%s: keeps %s, of positions below %d apart: give --from-position %d, or "
            "capture again with --keep rows",
            qk_capture_path(run->capture), kept_of(run), first, first);
    return qk__fail(
        err, QK_ERR_ARGUMENT,
        "%s: keeps %s, with those of first positions among them, which are to be left out "
        "(--from-position %lld): capture again with --keep %s",
        qk_capture_path(run->capture), kept_of(run), (long long)from,
        from <= QK_MOST_FIRST ? "moments,first=K" : "rows");
}

static qk_status check_rows(const qk__run *run, qk_error *err)
{
    const qk_analysis_settings *s = run->settings;
    if (qk__run_does(run, QK__ANALYSE_STAGES))
        return refuse(run, "a comparison of stages", err);
    if (s->max_samples > 0)
        return refuse(run, "a number of rows to read (--max-samples)", err);
    QK_TRY(check_first(run, err));
    if (!run->states.has_rows && s->analyses == QK_ANALYSE_PLASTICITY)
        return qk__fail(
            err, QK_ERR_NOT_FOUND,
            "%s: keeps moments and no rows: plasticity needs keys: capture again with "
            "--keep moments,reservoir=8, or --keep rows",
            qk_capture_path(run->capture));
    return QK_OK;
}

/* From now on the run has the settings that are left. */
static void adapt(qk__run *run)
{
    qk_analysis_settings *s = &run->adapted;
    const qk_capture_info *info = qk_capture_get_info(run->capture);
    *s = *run->settings;
    if (!run->states.has_rows && qk__run_does(run, QK_ANALYSE_PLASTICITY)) {
        s->analyses &= ~(unsigned)QK_ANALYSE_PLASTICITY;
        qk__run_warn(run,
                     "%s: keeps moments and no rows: plasticity is left out; capture with "
                     "--keep moments,reservoir=8 for it",
                     qk_capture_path(run->capture));
    }
    if (s->lda && qk__run_does(run, QK_ANALYSE_PCA)) {
        s->lda = false;
        qk__run_warn(run, "%s: keeps %s: lda_accuracy needs all rows and stays empty",
                     qk_capture_path(run->capture), kept_of(run));
    }
    if (s->lengths) {
        s->lengths = NULL;
        qk__run_warn(run,
                     "%s: keeps %s: categories at other lengths need all rows and are left out",
                     qk_capture_path(run->capture), kept_of(run));
    }
    if (run->states.has_rows && info->reservoir == 1 &&
        qk__run_does(run, QK_ANALYSE_PLASTICITY))
        qk__run_warn(run,
                     "%s: keeps one row of each bucket and text, so no two keys of one bucket: "
                     "plasticity without such pairs is another number; keep 2 or more",
                     qk_capture_path(run->capture));
    if (s->ci > 0 && info->groups == 0)
        qk__run_warn(run,
                     "%s: its moments are not apart by groups of texts (--groups 0): intervals "
                     "are empty",
                     qk_capture_path(run->capture));
    run->settings = s;
}

bool qk__states_tell_first(const qk__run *run)
{
    const int first = qk_capture_get_info(run->capture)->first;
    return run->settings->from_position > 0 ? first >= QK_FIRST_TOKENS
                                            : first == QK_FIRST_TOKENS;
}

bool qk__states_need_rows(const qk__run *run)
{
    return run->states.count == 0 || qk__run_does(run, QK_ANALYSE_PLASTICITY);
}

/* ---- layers ----------------------------------------------------------------------------- */

/* Adds the layers in a folder of sums. */
static qk_status list_layers(qk__run *run, const char *folder, qk_error *err)
{
    qk__states *states = &run->states;
    size_t heads = qk_capture_num_heads(run->capture), first = states->files;
    if (!states->layers) {
        states->layers = qk__calloc(2 * heads, sizeof *states->layers);
        if (!states->layers)
            return qk__nomem(err);
        pthread_mutex_init(&states->lock, NULL);
    }
    for (size_t i = 0; i < heads; i++) { /* in order of layers */
        const int layer = qk_capture_head(run->capture, i)->id.layer;
        char name[QK__SUMS_NAME_SIZE];
        if (states->files > first && states->layers[states->files - 1].layer == layer)
            continue;
        qk__sums_name(folder, layer, name);
        qk__state_layer *added = &states->layers[states->files++];
        *added = (qk__state_layer){.layer = layer,
                                   .path = qk__path_join(qk_capture_path(run->capture), name)};
        if (!added->path)
            return qk__nomem(err);
    }
    return QK_OK;
}

qk_status qk__states_open(qk__run *run, qk_error *err)
{
    const qk_capture_info *info = qk_capture_get_info(run->capture);
    if (!info->has_moments || info->kept == QK_ROWS_ALL)
        return QK_OK;
    run->states.has_rows = info->kept == QK_ROWS_RESERVOIR;
    QK_TRY(list_layers(run, QK__MOMENTS_FOLDER, err));
    run->states.count = run->states.files;
    QK_TRY(check_rows(run, err));
    adapt(run);
    return QK_OK;
}

qk_status qk__states_open_attention(qk__run *run, qk_error *err)
{
    return list_layers(run, QK__ATTENTION_FOLDER, err);
}

/* ---- a head ----------------------------------------------------------------------------- */

/* Sums of other texts, of another model or with other settings look like these. */
static qk_status check_capture(const qk__run *run, const qk__state_layer *layer, qk_error *err)
{
    const char *is = qk_capture_get_info(run->capture)->fingerprint;
    const char *of = qk__json_string(qk__layer_file_metadata(layer->file), QK__LAYER_CAPTURE);
    if (!*is || !*of || strcmp(is, of) == 0)
        return QK_OK;
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "%s: these sums are of another capture than that of capture.json: fetch "
                    "both again, or capture again",
                    layer->path);
}

/* Adds the file to the run's inputs, which do not exist yet while buckets are chosen. */
static qk_status open_layer(qk__run *run, qk__state_layer *layer, qk_error *err)
{
    const size_t i = (size_t)(layer - run->states.layers);
    QK_TRY(qk__states_find(layer->path, err));
    if (run->inputs && !layer->listed) {
        qk__input *input = &run->inputs[run->num_inputs - run->states.files + i];
        layer->listed = true;
        input->path = layer->path;
        QK_TRY(qk__fingerprint_file(layer->path, &input->print.bytes, input->print.hash, err));
    }
    if (layer->file)
        return QK_OK;
    QK_TRY(i < run->states.count ? qk__layer_file_open(&layer->file, layer->path, err)
                                 : qk__attention_file_open(&layer->file, layer->path, err));
    qk_status status = check_capture(run, layer, err);
    if (status != QK_OK)
        qk__layer_file_close(&layer->file);
    return status;
}

/* Searches from entry i of the layers on. */
static qk_status find_layer(qk__run *run, const qk_head *head, size_t i,
                            qk__state_layer **found, qk_error *err)
{
    qk__states *states = &run->states;
    while (states->layers[i].layer != head->id.layer)
        i++;
    qk__state_layer *layer = *found = &states->layers[i];
    pthread_mutex_lock(&states->lock);
    if (!layer->tried || (run->inputs && !layer->listed))
        layer->status = open_layer(run, layer, &layer->error);
    layer->tried = true;
    qk_status status = layer->status;
    if (status != QK_OK)
        status = qk__fail(err, status, "%s", layer->error.message);
    pthread_mutex_unlock(&states->lock); /* another head may open the layer again */
    return status;
}

qk_status qk__states_read(qk__run *run, const qk_head *head, qk__head_state **state,
                          qk_error *err)
{
    qk__state_layer *layer;
    *state = NULL;
    if (head->missing)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%s: not there, but capture.json lists this head: fetch it again, or "
                        "capture again",
                        head->files[0]);
    QK_TRY(find_layer(run, head, 0, &layer, err));
    qk_status status = qk__states_head(layer->file, head, state, err);
    qk__layer_file_let_go(layer->file);
    return status;
}

qk_status qk__states_read_attention(qk__run *run, const qk_head *head,
                                    qk__attention_head *attention, qk_error *err)
{
    qk__state_layer *layer;
    *attention = (qk__attention_head){0};
    QK_TRY(find_layer(run, head, run->states.count, &layer, err));
    ptrdiff_t place = qk__layer_file_find(layer->file, QK_QUERY, head->id.head);
    if (qk__layer_file_layer(layer->file) != head->id.layer || place < 0)
        return qk__fail(
            err, QK_ERR_INCONSISTENT,
            "%s: has no sums of the attention of layer %d, head %d, which capture.json "
            "lists: fetch both again, or capture again",
            layer->path, head->id.layer, head->id.head);
    qk_status status = qk__attention_file_head(layer->file, (size_t)place, attention, err);
    qk__layer_file_let_go(layer->file);
    return status;
}

/* ---- the manifest ----------------------------------------------------------------------- */

static json_t *list_empty(const qk__run *run)
{
    const qk_capture_info *info = qk_capture_get_info(run->capture);
    const struct {
        bool is;
        const char *columns, *why;
    } empty[] = {
        {qk__run_does(run, QK_ANALYSE_PCA), "heads.csv: lda_accuracy", "needs all rows"},
        {qk__run_does(run, QK_ANALYSE_PCA), "heads.csv: octave_r_q, octave_r_k",
         "octaves of rows are not kept"},
        {!qk__states_tell_first(run) && qk__run_does(run, QK_ANALYSE_PCA),
         "heads.csv: pc0_first_share, pc0_first_cosine, category_without_first",
         "moments of positions 0 to 3 are not apart (first=4)"},
        {qk__run_does(run, QK_ANALYSE_ROTATION), "rotated.csv: omega, omega_r_squared",
         "angles of single rows are not kept"},
        {qk__run_does(run, QK_ANALYSE_ROTATION) && run->settings->rotation.planes > 0,
         "complement.csv: angle_r, omega, resultant, rope_frequency",
         "angles of single rows are not kept"},
        {info->groups == 0 && qk__run_does(run, QK_ANALYSE_PCA),
         "heads.csv: category_probability, effective_texts, r_q_width, position_r_q, "
         "position_r_k",
         "moments are not apart by texts (--groups 0)"},
        {info->groups == 0 && run->settings->ci > 0, "columns of --ci",
         "moments are not apart by texts (--groups 0)"},
    };
    json_t *array = json_array();
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        if (empty[i].is)
            array = qk__json_append(array, json_pack("{s:s, s:s}", "columns", empty[i].columns,
                                                     "reason", empty[i].why));
    return array;
}

json_t *qk__states_describe(const qk__run *run)
{
    const qk_capture_info *info = qk_capture_get_info(run->capture);
    return json_pack("{s:s, s:i, s:b, s:i, s:o}", "rows",
                     run->states.has_rows ? "reservoir" : "none", "reservoir", info->reservoir,
                     "moments", true, "groups", info->groups, "empty", list_empty(run));
}
