/* SPDX-License-Identifier: Apache-2.0 */
/* Reading capture.json, what a capture says about itself. */
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "capture/capture.h"

/* A manifest is a page of text; extra keys of other tools may make it longer. */
enum { MAX_MANIFEST_BYTES = 16 << 20 };

/* A key that is absent or null says nothing. */
static json_t *get(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

static qk_status get_int(const json_t *object, const char *key, int *number, qk_error *err)
{
    json_t *value = get(object, key);
    if (!value)
        return QK_OK;
    json_int_t found = json_integer_value(value);
    if (!json_is_integer(value) || found < 0 || found > QK_MAX_HEAD_NUMBER)
        return qk__fail(err, QK_ERR_MALFORMED, "%s: expected a whole number from 0 to %d", key,
                        QK_MAX_HEAD_NUMBER);
    *number = (int)found;
    return QK_OK;
}

/* ---- rotation frequencies ---------------------------------------------------------------- */

static qk_status read_frequencies(const json_t *list, qk_rope_entry *entry, qk_error *err)
{
    entry->count = json_array_size(list);
    entry->values = qk__calloc(entry->count, sizeof *entry->values);
    if (entry->count > 0 && !entry->values)
        return qk__nomem(err);
    for (size_t i = 0; i < entry->count; i++) {
        entry->values[i] = json_number_value(json_array_get(list, i));
        if (!(entry->values[i] > 0))
            return qk__fail(err, QK_ERR_MALFORMED,
                            "rope_frequencies: expected numbers above 0 (radians per token)");
    }
    return QK_OK;
}

static qk_status read_rope(qk_capture *capture, json_t *rope, qk_error *err)
{
    if (!rope)
        return QK_OK;
    size_t count = json_is_object(rope) ? json_object_size(rope) : 1;
    capture->rope = qk__calloc(count, sizeof *capture->rope);
    if (count > 0 && !capture->rope)
        return qk__nomem(err);
    if (json_is_array(rope)) {
        capture->num_rope = 1;
        capture->rope[0].layer = -1;
        return read_frequencies(rope, &capture->rope[0], err);
    }
    const char *key;
    json_t *list;
    json_object_foreach(rope, key, list)
    {
        char *end;
        long layer = strtol(key, &end, 10);
        if (*key == 0 || *end != 0 || layer < 0 || layer > QK_MAX_HEAD_NUMBER ||
            !json_is_array(list))
            break;
        qk_rope_entry *entry = &capture->rope[capture->num_rope++];
        entry->layer = (int)layer;
        QK_TRY(read_frequencies(list, entry, err));
    }
    return json_is_object(rope) && capture->num_rope == count
               ? QK_OK
               : qk__fail(err, QK_ERR_MALFORMED,
                          "rope_frequencies: expected a list, or lists by layer number");
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

const double *qk_capture_rope_frequencies(const qk_capture *capture, int layer, size_t *count)
{
    assert(capture && count);
    for (size_t i = 0; i < capture->num_rope; i++) {
        const qk_rope_entry *entry = &capture->rope[i];
        if (entry->layer == layer || entry->layer == -1) {
            *count = entry->count;
            return entry->values;
        }
    }
    *count = 0;
    return NULL;
}

void qk__capture_free_manifest(qk_capture *capture)
{
    for (size_t i = 0; i < capture->num_rope; i++)
        free(capture->rope[i].values);
    free(capture->rope);
    free(capture->listed);
    free(capture->model);
}

/* ---- heads ---------------------------------------------------------------------------- */

/* What other tools may have put there says nothing. */
static qk_status read_heads(qk_capture *capture, const json_t *heads, qk_error *err)
{
    size_t count = json_array_size(heads);
    capture->listed = qk__calloc(count, sizeof *capture->listed);
    if (count > 0 && !capture->listed)
        return qk__nomem(err);
    for (size_t i = 0; i < count; i++) {
        const json_t *head = json_array_get(heads, i);
        const char *name = json_string_value(get(head, "name"));
        qk_listed_head *listed = &capture->listed[capture->num_listed];
        if (!name || !qk_head_parse(name, &listed->id))
            continue;
        listed->rows = (int64_t)json_integer_value(get(head, "rows"));
        capture->num_listed++;
    }
    return QK_OK;
}

/* ---- the rest --------------------------------------------------------------------------- */

static qk_status read_keys(qk_capture *capture, const json_t *object, qk_error *err)
{
    int version = QK_MANIFEST_VERSION;
    QK_TRY(get_int(object, "format_version", &version, err));
    if (version > QK_MANIFEST_VERSION)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "format_version is %d; this qkscope reads up to %d", version,
                        QK_MANIFEST_VERSION);
    QK_TRY(get_int(object, "q_per_kv_group", &capture->info.q_per_kv_group, err));
    QK_TRY(get_int(object, "num_layers", &capture->info.num_layers, err));

    const json_t *complete = get(object, "complete");
    if (complete && !json_is_boolean(complete))
        return qk__fail(err, QK_ERR_MALFORMED, "complete: expected true or false");
    capture->info.complete = !json_is_false(complete);

    if (json_is_true(get(object, "changing")))
        return qk__fail(
            err, QK_ERR_INCONSISTENT,
            "this capture was being put in its place when its run was stopped: run the "
            "same qkscope capture again, which completes it");

    const json_t *model = get(object, "model");
    if (model && !json_is_string(model))
        return qk__fail(err, QK_ERR_MALFORMED, "model: expected a string");
    capture->model = qk__strdup(model ? json_string_value(model) : "");
    if (!capture->model)
        return qk__nomem(err);
    QK_TRY(read_rope(capture, get(object, "rope_frequencies"), err));
    const json_t *texts = get(object, "texts");
    capture->info.num_texts = (int64_t)json_integer_value(get(texts, "count"));
    capture->info.num_windows = (int64_t)json_integer_value(get(texts, "windows"));
    if (capture->info.complete)
        QK_TRY(read_heads(capture, get(object, "heads"), err));
    capture->info.model = capture->model;
    capture->info.has_manifest = true;
    return QK_OK;
}

static qk_status parse(qk_capture *capture, const qk_buffer *text, qk_error *err)
{
    json_t *object;
    QK_TRY(qk__json_parse(&object, text->data, text->size, QK__JSON_NO_ZEROS, err));
    qk_status status = QK_OK;
    const char *format = json_string_value(get(object, "format"));
    if (!json_is_object(object))
        status = qk__fail(err, QK_ERR_MALFORMED, "expected a JSON object");
    else if (!format || strcmp(format, QK_MANIFEST_FORMAT) == 0)
        status = read_keys(capture, object, err);
    /* else: a file of the same name by another tool, none of our business */
    json_decref(object);
    return status;
}

/* *found is false when dir has no manifest. */
static qk_status read_in(qk_capture *capture, const char *dir, bool *found, qk_error *err)
{
    char *path = qk__path_join(dir, QK_MANIFEST_NAME);
    if (!path)
        return qk__nomem(err);
    qk_status status = QK_OK;
    *found = qk__is_there(path);
    if (*found) {
        qk_buffer text;
        status = qk__read_file(path, MAX_MANIFEST_BYTES, &text, err);
        if (status == QK_OK) {
            status = parse(capture, &text, err);
            qk__buffer_free(&text);
            if (status != QK_OK)
                qk__context(err, status, "%s", path);
        }
    }
    free(path);
    return status;
}

qk_status qk__capture_read_manifest(qk_capture *capture, const char *root, qk_error *err)
{
    capture->info = (qk_capture_info){.model = "", .complete = true};
    bool found;
    QK_TRY(read_in(capture, capture->path, &found, err));
    if (!found && strcmp(root, capture->path) != 0) {
        QK_TRY(read_in(capture, root, &found, err));
        capture->num_listed = 0; /* of which of the captures below it? */
    }
    return QK_OK;
}
