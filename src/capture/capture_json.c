/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing capture.json, what a capture says about itself. */
#include <assert.h>
#include <float.h>
#include <math.h>
#include <float.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_build.h"
#include "base/parse_number.h"
#include "base/tree.h"
#include "capture/capture.h"
#include "capture/capture_writer.h"

#include <qkscope/common.h>

/* ---- rotation frequencies --------------------------------------------------------------- */

bool qk__is_rope_frequency(double value)
{
    return value >= 0 && value <= DBL_MAX;
}

static qk_status read_frequencies(const qk__node *list, qk__rope_entry *entry, qk_error *err)
{
    entry->count = qk__node_count(list);
    entry->values = qk__calloc(entry->count, sizeof *entry->values);
    if (entry->count > 0 && !entry->values)
        return qk__nomem(err);
    for (size_t i = 0; i < entry->count; i++) {
        qk__node item = qk__node_item(list, i);
        double *value = &entry->values[i];
        *value = NAN; /* null would have left it as it was */
        if (qk__read_real(&item, NULL, 0, DBL_MAX, value, NULL) != QK_OK ||
            !qk__is_rope_frequency(*value))
            return qk__fail_expected(&item, "a number from 0 (radians per token)", err);
    }
    return QK_OK;
}

static qk_status read_rope(qk__rope_list *to, const qk__node *rope, qk_error *err)
{
    qk__node member = {0};
    bool list = qk__node_kind_of(rope) == QK__LIST;
    size_t count = list, known = 0;
    while (qk__node_next(rope, &member))
        count++;
    to->entries = qk__calloc(count, sizeof *to->entries);
    if (count > 0 && !to->entries)
        return qk__nomem(err);
    if (list) {
        to->count = 1;
        to->entries[0].layer = -1;
        return read_frequencies(rope, &to->entries[0], err);
    }
    for (member = (qk__node){0}; qk__node_next(rope, &member); known++) {
        int64_t layer;
        if (!qk__parse_integer(member.name, &layer) || layer < 0 ||
            layer > QK_MAX_HEAD_NUMBER || qk__node_kind_of(&member) != QK__LIST)
            break;
        qk__rope_entry *entry = &to->entries[to->count++];
        entry->layer = (int)layer;
        QK_TRY(read_frequencies(&member, entry, err));
    }
    return !qk__node_is_given(rope) || (qk__node_kind_of(rope) == QK__OBJECT && known == count)
               ? QK_OK
               : qk__fail_at(rope, err, QK_ERR_MALFORMED,
                             "expected a list, or lists by layer number");
}

/* Rotations that only turn need not state it. */
static qk_status read_factor(const qk__node *rope, double *factor, qk_error *err)
{
    static const char *const PLAIN[] = {"none",    "default", "linear",
                                        "dynamic", "llama3",  "proportional"};
    const char *type = "";
    if (qk__read_text(rope, "type", &type, NULL) == QK_OK)
        for (size_t i = 0; i < sizeof PLAIN / sizeof *PLAIN; i++)
            if (strcmp(type, PLAIN[i]) == 0)
                *factor = 1;
    return qk__read_real(rope, "attention_factor", 0, DBL_MAX, factor, err);
}

/* Which dimensions turn together, and before RoPE how fast they will. The other members of "rope" are for people. */
static qk_status read_rotation(qk_capture *capture, const qk__node *rope, qk_error *err)
{
    static const char *const WORDS[] = {"half", "interleaved", NULL};
    int word = 0;
    if (qk__node_kind_of(rope) != QK__OBJECT)
        return QK_OK;
    qk__node frequencies = qk__node_member(rope, "frequencies");
    QK_TRY(qk__read_word(rope, "pairing", WORDS, &word, err));
    capture->info.rope_interleaved = word == 1;
    QK_TRY(read_factor(rope, &capture->info.rope_factor, err));
    return read_rope(&capture->to_come, &frequencies, err);
}

/* Another tool may have written anything there, which counts as unknown. */
static qk_stage read_stage(const qk__node *root)
{
    const char *name = "";
    if (qk__read_text(root, "stage", &name, NULL) != QK_OK)
        return QK_STAGE_UNKNOWN;
    return strcmp(name, "pre-rope") == 0    ? QK_STAGE_PRE_ROPE
           : strcmp(name, "post-rope") == 0 ? QK_STAGE_POST_ROPE
                                            : QK_STAGE_UNKNOWN;
}

int qk_capture_num_layers(const qk_capture *capture)
{
    int layers = capture->info.num_layers;
    if (capture->num_entries > 0) { /* in order of layers */
        int last = capture->entries[capture->num_entries - 1].head.id.layer;
        layers = last >= layers ? last + 1 : layers;
    }
    return layers;
}

static const double *find_frequencies(const qk__rope_list *list, int layer, size_t *count)
{
    for (size_t i = 0; i < list->count; i++) {
        const qk__rope_entry *entry = &list->entries[i];
        if (entry->layer == layer || entry->layer == -1) {
            *count = entry->count;
            return entry->values;
        }
    }
    *count = 0;
    return NULL;
}

const double *qk_capture_rope_frequencies(const qk_capture *capture, int layer, size_t *count)
{
    assert(capture && count);
    return find_frequencies(&capture->rope, layer, count);
}

const double *qk_capture_frequencies_to_come(const qk_capture *capture, int layer,
                                             size_t *count)
{
    assert(capture && count);
    return find_frequencies(&capture->to_come, layer, count);
}

static void free_list(qk__rope_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->entries[i].values);
    free(list->entries);
}

void qk__capture_free_manifest(qk_capture *capture)
{
    free_list(&capture->rope);
    free_list(&capture->to_come);
    free(capture->listed);
    free(capture->model);
    free(capture->fingerprint);
}

/* ---- heads ------------------------------------------------------------------------------ */

/* Likewise, 0 where there is no such number. */
static int64_t count_of(const qk__node *object, const char *name)
{
    int64_t count = 0;
    return qk__read_int64(object, name, INT64_MIN, INT64_MAX, &count, NULL) == QK_OK ? count
                                                                                     : 0;
}

static qk_status read_heads(qk_capture *capture, const qk__node *heads, qk_error *err)
{
    size_t count = qk__node_kind_of(heads) == QK__LIST ? qk__node_count(heads) : 0;
    capture->listed = qk__calloc(count, sizeof *capture->listed);
    if (count > 0 && !capture->listed)
        return qk__nomem(err);
    for (size_t i = 0; i < count; i++) {
        qk__node head = qk__node_item(heads, i);
        qk__listed_head *listed = &capture->listed[capture->num_listed];
        const char *name = NULL;
        if (qk__read_text(&head, "name", &name, NULL) != QK_OK || !name ||
            !qk_head_parse(name, &listed->id))
            continue;
        listed->rows = count_of(&head, "rows");
        listed->summed = count_of(&head, "summed");
        capture->num_listed++;
    }
    return QK_OK;
}

/* ---- what is kept ----------------------------------------------------------------------- */

static qk_status read_keep(qk_capture_info *info, const qk__node *root, qk_error *err)
{
    static const char *const WORDS[] = {[QK_ROWS_ALL] = "all",
                                        [QK_ROWS_NONE] = "none",
                                        [QK_ROWS_RESERVOIR] = "reservoir",
                                        NULL};
    qk__node keep = qk__node_member(root, "keep");
    int kept = QK_ROWS_ALL;
    if (!qk__node_is_given(&keep))
        return QK_OK;
    if (qk__node_kind_of(&keep) != QK__OBJECT)
        return qk__fail_expected(&keep, "an object", err);
    QK_TRY(qk__read_word(&keep, "rows", WORDS, &kept, err));
    QK_TRY(qk__read_int(&keep, "reservoir", 0, INT_MAX, &info->reservoir, err));
    QK_TRY(qk__read_bool(&keep, "moments", &info->has_moments, err));
    QK_TRY(qk__read_bool(&keep, "attention", &info->has_attention, err));
    QK_TRY(qk__read_int(&keep, "groups", 0, INT_MAX, &info->groups, err));
    QK_TRY(qk__read_int(&keep, "first", 0, INT_MAX, &info->first, err));
    info->kept = (qk_kept_rows)kept;
    if ((kept == QK_ROWS_RESERVOIR) != (info->reservoir > 0))
        return qk__fail_at(&keep, err, QK_ERR_INCONSISTENT,
                           "rows are \"%s\", and the reservoir has %d of a bucket and text: "
                           "fetch the file again, or capture again",
                           WORDS[kept], info->reservoir);
    if (kept != QK_ROWS_ALL && !info->has_moments)
        return qk__fail_at(&keep, err, QK_ERR_INCONSISTENT,
                           "rows are \"%s\", and there are no moments: fetch the file again, "
                           "or capture again",
                           WORDS[kept]);
    return QK_OK;
}

/* ---- the rest --------------------------------------------------------------------------- */

static const char *text_of(const qk__node *at, const char *name)
{
    const char *text = "";
    return qk__read_text(at, name, &text, NULL) == QK_OK ? text : "";
}

/* The run of the model, as the sink was told; another program may have written anything there. Other engines have
 * their own fingerprints. */
static void read_run(qk_capture_info *info, const qk__node *root)
{
    qk__node run = qk__node_member(root, "run"), model = qk__node_member(&run, "model");
    qk__node engine = qk__node_member(&run, "engine");
    if (qk__node_kind_of(&engine) == QK__NOTHING)
        snprintf(info->model_fingerprint, sizeof info->model_fingerprint, "%s",
                 text_of(&model, "fingerprint"));
    qk__node texts = qk__node_member(&run, "texts");
    snprintf(info->texts, sizeof info->texts, "%s", text_of(&texts, "xxh3_128"));
    qk__node sink = qk__node_member(&run, "sink");
    qk__node sampler = qk__node_member(&sink, "sampler");
    snprintf(info->sampler, sizeof info->sampler, "%s", text_of(&sampler, "type"));
    const int64_t q = count_of(&sink, "q_heads"), k = count_of(&sink, "k_heads");
    info->num_q_heads = q > 0 && q <= QK_MAX_HEAD_NUMBER ? (int)q : 0;
    info->num_k_heads = k > 0 && k <= QK_MAX_HEAD_NUMBER ? (int)k : 0;
}

static qk_status read_keys(qk_capture *capture, const qk__node *root, qk_error *err)
{
    int version = QK_MANIFEST_VERSION;
    bool changing = false;
    const char *model = "";
    qk_capture_info *info = &capture->info;
    QK_TRY(qk__read_int(root, "format_version", 0, INT_MAX, &version, err));
    if (version > QK_MANIFEST_VERSION)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "format_version is %d; this qkscope reads up to %d", version,
                        QK_MANIFEST_VERSION);
    QK_TRY(qk__read_int(root, "q_per_kv_group", 0, QK_MAX_HEAD_NUMBER, &info->q_per_kv_group,
                        err));
    QK_TRY(qk__read_int(root, "num_layers", 0, QK_MAX_HEAD_NUMBER, &info->num_layers, err));
    QK_TRY(qk__read_bool(root, "complete", &info->complete, err));
    QK_TRY(qk__read_bool(root, "changing", &changing, err));
    if (changing)
        return qk__fail(
            err, QK_ERR_INCONSISTENT,
            "this capture was being put in its place when its run was stopped: run the "
            "same qkscope capture again, which completes it");
    QK_TRY(qk__read_real(root, "attention_scale", 0, DBL_MAX, &info->attention_scale, err));
    QK_TRY(qk__read_text(root, "model", &model, err));
    capture->model = qk__strdup(model);
    capture->fingerprint = qk__strdup(text_of(root, "fingerprint"));
    if (!capture->model || !capture->fingerprint)
        return qk__nomem(err);
    qk__node rope = qk__node_member(root, "rope_frequencies");
    qk__node texts = qk__node_member(root, "texts"), heads = qk__node_member(root, "heads");
    qk__node pairs = qk__node_member(root, "rope");
    QK_TRY(read_rope(&capture->rope, &rope, err));
    QK_TRY(read_rotation(capture, &pairs, err));
    QK_TRY(read_keep(info, root, err));
    info->stage = read_stage(root);
    read_run(info, root);
    info->num_texts = count_of(&texts, "count");
    info->num_windows = count_of(&texts, "windows");
    if (info->complete)
        QK_TRY(read_heads(capture, &heads, err));
    info->model = capture->model;
    info->fingerprint = capture->fingerprint;
    info->has_manifest = true;
    return QK_OK;
}

static qk_status read_root(qk_capture *capture, const json_t *object, qk_error *err)
{
    qk__node root = qk__tree_of_json(object);
    const char *format = QK_MANIFEST_FORMAT;
    if (qk__node_kind_of(&root) != QK__OBJECT)
        return qk__fail_expected(&root, "an object", err);
    if (qk__read_text(&root, "format", &format, NULL) != QK_OK ||
        strcmp(format, QK_MANIFEST_FORMAT) == 0)
        return read_keys(capture, &root, err);
    return QK_OK; /* a file of the same name by another tool */
}

qk_status qk__capture_check_manifest(const json_t *object, qk_error *err)
{
    qk_capture capture = {0};
    qk_error why = {0};
    qk__node root = qk__tree_of_json(object);
    qk_status status = read_keys(&capture, &root, &why);
    qk__capture_free_manifest(&capture);
    if (status == QK_OK || status == QK_ERR_NOMEM)
        return status == QK_OK ? QK_OK : qk__nomem(err);
    return qk__fail(err, QK_ERR_ARGUMENT, "capture.json would not be readable: %s",
                    why.message);
}

/* *found is false when dir has no manifest. */
static qk_status read_in(qk_capture *capture, const char *dir, bool *found, qk_error *err)
{
    json_t *object = NULL;
    char *path = qk__path_join(dir, QK_MANIFEST_NAME);
    if (!path)
        return qk__nomem(err);
    qk_status status = QK_OK;
    *found = qk__is_there(path);
    if (*found)
        status = qk__json_read_file(&object, path, QK__JSON_CAPTURE, err);
    if (object)
        status = qk__context(err, read_root(capture, object, err), "%s", path);
    json_decref(object);
    free(path);
    return status;
}

qk_status qk__capture_read_manifest(qk_capture *capture, const char *root, qk_error *err)
{
    capture->info = (qk_capture_info){.model = "", .fingerprint = "", .complete = true};
    bool found;
    QK_TRY(read_in(capture, capture->path, &found, err));
    if (!found && strcmp(root, capture->path) != 0) {
        QK_TRY(read_in(capture, root, &found, err));
        capture->num_listed =
            0; /* the root may hold several captures, and the list may be of another one */
    }
    return QK_OK;
}

/* ---- writing ---------------------------------------------------------------------------- */

static json_t *list_heads(const qk_capture_writer *writer)
{
    json_t *heads = json_array();
    for (size_t i = 0; i < writer->num_records; i++) {
        const qk__head_record *record = &writer->records[i];
        char name[QK_HEAD_NAME_SIZE];
        qk_head_name(record->id, name);
        json_t *head = json_pack("{s:s, s:I, s:I}", "name", name, "rows",
                                 (json_int_t)record->rows, "dim", (json_int_t)record->dim);
        if (record->summed > 0)
            head = qk__json_set(head, "summed", json_integer((json_int_t)record->summed));
        heads = qk__json_append(heads, head);
    }
    return heads;
}

qk_status qk__capture_write_manifest(const qk_capture_writer *writer, bool complete,
                                     qk_error *err)
{
    json_t *root =
        json_pack("{s:s, s:i, s:s, s:s, s:i, s:s, s:b, s:o}", "format", QK_MANIFEST_FORMAT,
                  "format_version", QK_MANIFEST_VERSION, "tool", "qkscope " QK_VERSION, "model",
                  writer->model, "q_per_kv_group", writer->q_per_kv_group, "source",
                  writer->source, "complete", complete, "heads", list_heads(writer));
    if (writer->layout == QK_LAYOUT_PACKED)
        root = qk__json_set(root, "layout", json_string("packed"));
    const char *key;
    json_t *value;
    json_object_foreach(writer->extra, key, value)
    {
        if (root && !json_object_get(root, key)) /* our own keys are not replaced */
            root = qk__json_set(root, key, json_incref(value));
    }
    if (!root)
        return qk__nomem(err);
    qk_status status = qk__capture_check_manifest(root, err);
    if (status != QK_OK) {
        json_decref(root);
        return status;
    }
    qk__outfile *file;
    QK_TRY(qk__json_write(root, writer->dir, QK_MANIFEST_NAME, &file, err));
    return qk__outfile_commit(&file, err);
}
