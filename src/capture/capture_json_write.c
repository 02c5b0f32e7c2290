/* SPDX-License-Identifier: Apache-2.0 */
/* Writing capture.json, what a capture says about itself. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "capture/capture.h"
#include "capture/capture_writer.h"

#include <qkscope/common.h>

/* The heads as a JSON array, NULL when out of memory. */
static json_t *list_heads(const qk_capture_writer *writer)
{
    json_t *heads = json_array();
    for (size_t i = 0; heads && i < writer->num_records; i++) {
        const qk__head_record *record = &writer->records[i];
        char name[QK_HEAD_NAME_SIZE];
        qk_head_name(record->id, name);
        json_t *head = json_pack("{s:s, s:I, s:I}", "name", name, "rows",
                                 (json_int_t)record->rows, "dim", (json_int_t)record->dim);
        if (json_array_append_new(heads, head) != 0) {
            json_decref(heads);
            return NULL;
        }
    }
    return heads;
}

/* Keys of `extra` come after ours and do not replace them. */
static json_t *build(const qk_capture_writer *writer, bool complete)
{
    json_t *heads = list_heads(writer);
    if (!heads)
        return NULL;
    json_t *object =
        json_pack("{s:s, s:i, s:s, s:s, s:i, s:s, s:b, s:o}", "format", QK_MANIFEST_FORMAT,
                  "format_version", QK_MANIFEST_VERSION, "tool", "qkscope " QK_VERSION, "model",
                  writer->model, "q_per_kv_group", writer->q_per_kv_group, "source",
                  writer->source, "complete", complete, "heads", heads);
    const char *key;
    json_t *value;
    json_object_foreach(writer->extra, key, value)
    {
        if (object && !json_object_get(object, key) &&
            json_object_set(object, key, value) != 0) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}

qk_status qk__capture_write_manifest(const qk_capture_writer *writer, bool complete,
                                     qk_error *err)
{
    json_t *object = build(writer, complete);
    char *text =
        object ? qk__json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    char *path = qk__path_join(writer->dir, QK_MANIFEST_NAME);
    qk_status status = QK_OK;
    if (!text || !path) {
        status = qk__nomem(err);
    } else {
        /* The final newline takes the place of the terminating zero. */
        size_t length = strlen(text);
        text[length] = '\n';
        status = qk__write_file(path, text, length + 1, err);
    }
    free(path);
    free(text);
    json_decref(object);
    return status;
}
