/* SPDX-License-Identifier: Apache-2.0 */
/* Building, reading and writing the JSON files of a run. */
#include "base/json_build.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"

json_t *qk__json_append(json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) == 0)
        return array;
    json_decref(array);
    return NULL;
}

json_t *qk__json_set(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) == 0)
        return object;
    json_decref(object);
    return NULL;
}

/* json_string fails without memory and for bytes that are not UTF-8; question marks are for the latter only. */
json_t *qk__json_text(const char *text)
{
    json_t *value = text ? json_string(text) : NULL;
    if (value || !text || qk__utf8_valid((const uint8_t *)text, strlen(text)) == strlen(text))
        return value;
    char *ascii = qk__strdup(text);
    for (char *p = ascii; p && *p; p++)
        if ((unsigned char)*p >= 0x80)
            *p = '?';
    value = ascii ? json_string(ascii) : NULL;
    free(ascii);
    return value;
}

json_t *qk__json_text_or_null(const char *text)
{
    return text ? qk__json_text(text) : json_null();
}

const char *qk__json_string(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

json_t *qk__json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

qk_status qk__json_read_file(json_t **root, const char *path, qk__json_kind kind, qk_error *err)
{
    qk__buffer text;
    *root = NULL;
    QK_TRY(qk__read_file(path, qk__json_limits_of(kind)->text, &text, err));
    qk_status status = qk__json_parse(root, text.data, text.size, kind, err);
    qk__buffer_free(&text);
    return status == QK_OK ? QK_OK : qk__context(err, status, "%s", path);
}

json_t *qk__json_read(const char *path, qk__json_kind kind)
{
    json_t *root;
    return qk__json_read_file(&root, path, kind, NULL) == QK_OK ? root : NULL;
}

qk_status qk__json_write(json_t *root, const char *folder, const char *name, qk__outfile **file,
                         qk_error *err)
{
    *file = NULL;
    char *text = root ? qk__json_dumps(root, JSON_INDENT(2)) : NULL;
    qk_status status = text ? qk__outfile_open_in(file, folder, name, err) : qk__nomem(err);
    if (status == QK_OK) {
        size_t length = strlen(text);
        text[length] = '\n'; /* in place of the terminating zero, which is not written */
        status = qk__outfile_write(*file, text, length + 1, err);
    }
    if (status == QK_OK)
        status = qk__outfile_finish(*file, err);
    if (status != QK_OK)
        qk__outfile_discard(file);
    free(text);
    json_decref(root);
    return status;
}
