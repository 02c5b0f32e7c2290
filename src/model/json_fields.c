/* SPDX-License-Identifier: Apache-2.0 */
/* Checked access to the members of a JSON object. */
#include "model/json_fields.h"

#include <math.h>

#include "base/error.h"

const json_t *qk__json_field(const qk__json_fields *fields, const char *key)
{
    const json_t *value = json_object_get(fields->object, key);
    return json_is_null(value) ? NULL : value;
}

bool qk__json_field_present(const qk__json_fields *fields, const char *key)
{
    return json_object_get(fields->object, key) != NULL;
}

qk_status qk__json_field_int(const qk__json_fields *fields, const char *key, int64_t least,
                             int64_t most, int64_t *value, qk_error *err)
{
    const json_t *found = qk__json_field(fields, key);
    if (!found)
        return QK_OK;
    json_int_t number = json_integer_value(found);
    if (!json_is_integer(found) || number < least || number > most)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "%s%s: expected a whole number from %lld to %lld", fields->path, key,
                        (long long)least, (long long)most);
    *value = number;
    return QK_OK;
}

qk_status qk__json_field_positive(const qk__json_fields *fields, const char *key, double *value,
                                  qk_error *err)
{
    const json_t *found = qk__json_field(fields, key);
    if (!found)
        return QK_OK;
    double number = json_number_value(found);
    if (!(number > 0) || !isfinite(number))
        return qk__fail(err, QK_ERR_MALFORMED, "%s%s: expected a number above 0", fields->path,
                        key);
    *value = number;
    return QK_OK;
}

qk_status qk__json_field_bool(const qk__json_fields *fields, const char *key, bool *value,
                              qk_error *err)
{
    const json_t *found = qk__json_field(fields, key);
    if (!found)
        return QK_OK;
    if (!json_is_boolean(found))
        return qk__fail(err, QK_ERR_MALFORMED, "%s%s: expected true or false", fields->path,
                        key);
    *value = json_is_true(found);
    return QK_OK;
}

qk_status qk__json_field_text(const qk__json_fields *fields, const char *key,
                              const char **value, qk_error *err)
{
    const json_t *found = qk__json_field(fields, key);
    if (!found)
        return QK_OK;
    if (!json_is_string(found))
        return qk__fail(err, QK_ERR_MALFORMED, "%s%s: expected a string", fields->path, key);
    *value = json_string_value(found);
    return QK_OK;
}

qk_status qk__json_field_array(const qk__json_fields *fields, const char *key, size_t count,
                               const json_t **value, qk_error *err)
{
    *value = qk__json_field(fields, key);
    if (*value && (!json_is_array(*value) || json_array_size(*value) < count))
        return qk__fail(err, QK_ERR_MALFORMED, "%s%s: expected a list of at least %zu",
                        fields->path, key, count);
    return QK_OK;
}
