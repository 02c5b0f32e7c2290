/* SPDX-License-Identifier: Apache-2.0 */
/* Values of tokenizer.json with checks. */
#include "tokenizer/checked_json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

const char *qk__place_text(const qk__json_place *place, char text[QK__PLACE_SIZE])
{
    size_t used = 0;
    text[0] = 0;
    if (!place)
        return text;
    if (place->parent) {
        qk__place_text(place->parent, text);
        used = strlen(text);
    }
    if (!place->key)
        snprintf(text + used, QK__PLACE_SIZE - used, "[%zu]", place->index);
    else
        snprintf(text + used, QK__PLACE_SIZE - used, "%s%.80s", used ? "." : "", place->key);
    return text;
}

/* ---- values ----------------------------------------------------------------------------- */

void qk__set_error_at(const qk__json_place *place, qk_error *err, qk_status status,
                      const char *fmt, ...)
{
    char path[QK__PLACE_SIZE], message[700];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    qk__place_text(place, path);
    qk__set_error(err, status, "%s%s%s", path, *path ? ": " : "", message);
}

static const char *type_name(const json_t *value)
{
    static const char *const NAMES[] = {"an object", "a list", "a string", "a number",
                                        "a number",  "true",   "false",    "null"};
    return !value                       ? "nothing"
           : qk__json_odd_number(value) ? "a number too large"
                                        : NAMES[json_typeof(value)];
}

static qk_status wrong(const json_t *value, const char *wanted, const char *key,
                       const qk__json_place *at, qk_error *err)
{
    qk__json_place place = {at, key, 0};
    if (!value)
        return qk__fail_at(&place, err, QK_ERR_MALFORMED, "missing");
    return qk__fail_at(&place, err, QK_ERR_MALFORMED, "expected %s, found %s", wanted,
                       type_name(value));
}

qk_status qk__need_bool(const json_t *object, const char *key, const qk__json_place *at,
                        bool *value, qk_error *err)
{
    const json_t *found = json_object_get(object, key);
    if (!json_is_boolean(found))
        return wrong(found, "true or false", key, at, err);
    *value = json_is_true(found);
    return QK_OK;
}

qk_status qk__get_bool(const json_t *object, const char *key, bool missing,
                       const qk__json_place *at, bool *value, qk_error *err)
{
    const json_t *found = json_object_get(object, key);
    *value = missing;
    if (!found || json_is_null(found))
        return QK_OK;
    return qk__need_bool(object, key, at, value, err);
}

qk_status qk__get_string(const json_t *object, const char *key, const qk__json_place *at,
                         const char **value, size_t *length, qk_error *err)
{
    const json_t *found = json_object_get(object, key);
    *value = NULL;
    *length = 0;
    if (!found || json_is_null(found))
        return QK_OK;
    return qk__need_string(object, key, at, value, length, err);
}

qk_status qk__need_string(const json_t *object, const char *key, const qk__json_place *at,
                          const char **value, size_t *length, qk_error *err)
{
    const json_t *found = json_object_get(object, key);
    if (!json_is_string(found))
        return wrong(found, "a string", key, at, err);
    *value = json_string_value(found);
    *length = json_string_length(found);
    const qk__json_place place = {at, key, 0};
    return strlen(*value) != *length ? qk__fail_at(&place, err, QK_ERR_UNSUPPORTED, "U+0000")
                                     : QK_OK;
}

qk_status qk__need_list(const json_t *object, const char *key, const qk__json_place *at,
                        const json_t **value, qk_error *err)
{
    *value = json_object_get(object, key);
    return json_is_array(*value) ? QK_OK : wrong(*value, "a list", key, at, err);
}

qk_status qk__need_object(const json_t *object, const char *key, const qk__json_place *at,
                          const json_t **value, qk_error *err)
{
    *value = json_object_get(object, key);
    return json_is_object(*value) ? QK_OK : wrong(*value, "an object", key, at, err);
}

qk_status qk__token_id(const json_t *value, const qk__json_place *at, int32_t *id,
                       qk_error *err)
{
    if (!json_is_integer(value))
        return qk__fail_at(at, err, QK_ERR_MALFORMED, "expected a token id, found %s",
                           type_name(value));
    json_int_t number = json_integer_value(value);
    if (number < 0 || number > QK__MAX_ID)
        return qk__fail_at(at, err, QK_ERR_MALFORMED, "token id %lld is not within 0 to %d",
                           (long long)number, QK__MAX_ID);
    *id = (int32_t)number;
    return QK_OK;
}

qk_status qk__part_type(const json_t *part, const qk__json_place *at, const char **type,
                        qk_error *err)
{
    size_t length;
    if (!json_is_object(part))
        return qk__fail_at(at, err, QK_ERR_MALFORMED, "expected an object, found %s",
                           type_name(part));
    return qk__need_string(part, "type", at, type, &length, err);
}
