/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the nodes of YAML and JSON trees, their place for messages, and their values by type. */
#include "base/tree.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/parse_number.h"
#include "base/tree_yaml.h"

/* ---- ways ------------------------------------------------------------------------------- */

static const qk__yaml *yaml_of(const qk__node *node)
{
    return node->tree ? node->value : NULL;
}

json_t *qk__node_json(const qk__node *node)
{
    union { /* jansson takes no pointer to const, and a cast would drop it */
        const void *in;
        json_t *out;
    } json = {.in = node->tree ? NULL : node->value};
    return json.out;
}

qk__node qk__tree_of_json(const json_t *root)
{
    return (qk__node){.value = root};
}

qk__node_kind qk__node_kind_of(const qk__node *node)
{
    const qk__yaml *yaml = yaml_of(node);
    const json_t *json = qk__node_json(node);
    if (!node->value)
        return QK__NOTHING;
    if (yaml)
        return qk__yaml_is_null(yaml) ? QK__NULL : yaml->kind;
    return json_is_null(json)                                  ? QK__NULL
           : json_is_object(json)                              ? QK__OBJECT
           : json_is_array(json) && !qk__json_odd_number(json) ? QK__LIST
                                                               : QK__SCALAR;
}

bool qk__node_is_given(const qk__node *node)
{
    return qk__node_kind_of(node) > QK__NULL;
}

qk__node qk__node_member(const qk__node *object, const char *name)
{
    qk__node member = {0};
    if (!object->tree) {
        member = (qk__node){NULL, json_object_get(object->value, name), object, name, 0};
        return member;
    }
    while (qk__node_next(object, &member))
        if (strcmp(member.name, name) == 0)
            return member;
    return (qk__node){object->tree, NULL, object, name, 0};
}

qk__node_kind qk__node_kind_in(const qk__node *object, const char *name)
{
    qk__node member = qk__node_member(object, name);
    return qk__node_kind_of(&member);
}

static bool next_json(const qk__node *object, qk__node *member)
{
    json_t *json = qk__node_json(object);
    void *at = member->value
                   ? json_object_iter_next(json, json_object_key_to_iter(member->name))
                   : json_object_iter(json);
    if (!at)
        return false;
    *member = (qk__node){NULL, json_object_iter_value(at), object, json_object_iter_key(at), 0};
    return true;
}

bool qk__node_next(const qk__node *object, qk__node *member)
{
    const qk__yaml *yaml = yaml_of(object);
    if (qk__node_kind_of(object) != QK__OBJECT)
        return false;
    if (!yaml)
        return next_json(object, member);
    size_t i = member->value ? member->index + 2 : 0;
    if (i >= qk__yaml_count(yaml))
        return false;
    const char *name = qk__yaml_text(qk__yaml_part(yaml, i));
    *member = (qk__node){object->tree, qk__yaml_part(yaml, i + 1), object,
                         name ? name : "(no text)", i};
    return true;
}

size_t qk__node_count(const qk__node *list)
{
    if (qk__node_kind_of(list) != QK__LIST)
        return qk__node_is_given(list);
    return list->tree ? qk__yaml_count(yaml_of(list)) : json_array_size(qk__node_json(list));
}

qk__node qk__node_item(const qk__node *list, size_t i)
{
    if (qk__node_kind_of(list) != QK__LIST)
        return *list;
    const void *value = list->tree ? (const void *)qk__yaml_part(yaml_of(list), i)
                                   : json_array_get(qk__node_json(list), i);
    return (qk__node){list->tree, value, list, NULL, i};
}

/* ---- failures --------------------------------------------------------------------------- */

const char *qk__node_path(const qk__node *node, char path[QK__PATH_SIZE])
{
    path[0] = 0;
    if (!node->parent)
        return path;
    qk__node_path(node->parent, path);
    size_t used = strlen(path);
    if (node->name)
        snprintf(path + used, QK__PATH_SIZE - used, "%s%.80s", used ? "." : "", node->name);
    else if (!node->tree)
        snprintf(path + used, QK__PATH_SIZE - used, "[%zu]", node->index);
    return path;
}

/* "line 3: data.layers: "; for a missing node, the place where it should be. */
static void write_place(const qk__node *node, char place[QK__PATH_SIZE + 40])
{
    char path[QK__PATH_SIZE];
    const qk__node *there = node;
    qk__node_path(node, path);
    while (!there->value && there->parent)
        there = there->parent;
    if (node->tree)
        snprintf(place, QK__PATH_SIZE + 40, "line %zu: %s: ", yaml_of(there)->line,
                 *path ? path : "the file");
    else
        snprintf(place, QK__PATH_SIZE + 40, "%s%s", path, *path ? ": " : "");
}

void qk__error_at(const qk__node *node, qk_error *err, qk_status status, const char *fmt, ...)
{
    char place[QK__PATH_SIZE + 40], message[700];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    write_place(node, place);
    qk__set_error(err, status, "%s%s", place, message);
}

qk_status qk__context_at(const qk__node *node, qk_error *err, qk_status status)
{
    char place[QK__PATH_SIZE + 40];
    if (status == QK_OK)
        return status;
    write_place(node, place);
    size_t length = strlen(place);
    return qk__context(err, status, "%.*s", length > 2 ? (int)(length - 2) : 0, place);
}

/* NULL: it is no text, or it has U+0000 in it. */
static const char *text_of(const qk__node *node)
{
    const json_t *json = qk__node_json(node);
    const char *text = node->tree ? qk__yaml_text(yaml_of(node)) : json_string_value(json);
    return text && json && strlen(text) != json_string_length(json) ? NULL : text;
}

/* What is there, in words. */
static void name_found(const qk__node *node, char found[80])
{
    const json_t *json = qk__node_json(node);
    const qk__yaml *yaml = yaml_of(node);
    const char *text = text_of(node);
    qk__node_kind kind = qk__node_kind_of(node);
    if (kind == QK__OBJECT || kind == QK__LIST)
        snprintf(found, 80,
                 kind == QK__LIST ? "a list"
                 : yaml           ? "keys and values"
                                  : "an object");
    else if (text)
        snprintf(found, 80, "\"%.60s\"", text);
    else if (yaml || !json || json_is_string(json))
        snprintf(found, 80, yaml ? "binary data" : json ? "a text with U+0000" : "nothing");
    else if (json_is_integer(json))
        snprintf(found, 80, "%" JSON_INTEGER_FORMAT, json_integer_value(json));
    else if (json_is_real(json))
        snprintf(found, 80, "%.17g", json_real_value(json));
    else if (qk__json_odd_number(json))
        snprintf(found, 80, "%.60s", qk__json_odd_number(json));
    else
        snprintf(found, 80,
                 json_is_null(json)   ? "null"
                 : json_is_true(json) ? "true"
                                      : "false");
}

qk_status qk__fail_expected(const qk__node *node, const char *what, qk_error *err)
{
    char found[80];
    qk_status status = node->tree ? QK_ERR_ARGUMENT
                       : json_is_string(qk__node_json(node)) && !text_of(node)
                           ? QK_ERR_UNSUPPORTED
                           : QK_ERR_MALFORMED;
    if (!node->value)
        return qk__fail_at(node, err, status, "missing");
    name_found(node, found);
    return qk__fail_at(node, err, status, "expected %s, found %s", what, found);
}

/* ---- values ----------------------------------------------------------------------------- */

/* The node that is meant; false: it is absent or null. */
static bool find_member(const qk__node *at, const char *name, qk__node *node)
{
    *node = name ? qk__node_member(at, name) : *at;
    return qk__node_is_given(node);
}

/* Of YAML; NULL also for text in quotation marks. */
static const char *plain_text(const qk__node *node)
{
    const qk__yaml *yaml = yaml_of(node);
    return yaml && yaml->plain ? qk__yaml_text(yaml) : NULL;
}

qk_status qk__read_text(const qk__node *at, const char *name, const char **value, qk_error *err)
{
    qk__node node;
    if (!find_member(at, name, &node))
        return QK_OK;
    const char *text = text_of(&node);
    if (!text || (node.tree && !*text))
        return qk__fail_expected(&node, "a text", err);
    *value = text;
    return QK_OK;
}

qk_status qk__read_bool(const qk__node *at, const char *name, bool *value, qk_error *err)
{
    static const char *const YES[] = {"true", "True", "TRUE", "yes", "Yes",
                                      "YES",  "on",   "On",   "ON",  NULL};
    static const char *const NO[] = {"false", "False", "FALSE", "no",  "No",
                                     "NO",    "off",   "Off",   "OFF", NULL};
    qk__node node;
    if (!find_member(at, name, &node))
        return QK_OK;
    bool yes = node.tree ? qk__yaml_is_one_of(yaml_of(&node), YES)
                         : json_is_true(qk__node_json(&node));
    bool no = node.tree ? qk__yaml_is_one_of(yaml_of(&node), NO)
                        : json_is_false(qk__node_json(&node));
    if (!yes && !no)
        return qk__fail_expected(&node, "true or false", err);
    *value = yes;
    return QK_OK;
}

/* A leading zero means octal to some YAML readers and nothing to others: it is refused. */
static bool parse_whole(const char *text, int64_t *value)
{
    const char *digits = text + (*text == '-' || *text == '+');
    return !(digits[0] == '0' && digits[1] != 0) && qk__parse_integer(text, value);
}

qk_status qk__read_int64(const qk__node *at, const char *name, int64_t least, int64_t most,
                         int64_t *value, qk_error *err)
{
    qk__node node;
    if (!find_member(at, name, &node))
        return QK_OK;
    const char *text = plain_text(&node);
    int64_t found = 0;
    bool good = text && parse_whole(text, &found);
    const double number = json_number_value(qk__node_json(&node));
    if (json_is_real(qk__node_json(&node)) && fabs(number) < 0x1p53) { /* 2.0 is 2 */
        found = (int64_t)number;
        good = (double)found == number;
    }
    if (json_is_integer(qk__node_json(&node))) {
        good = true;
        found = json_integer_value(qk__node_json(&node));
    }
    if (good && found >= least && found <= most) {
        *value = found;
        return QK_OK;
    }
    char expected[96] = "a whole number";
    if (most < INT64_MAX)
        snprintf(expected, sizeof expected, "a whole number from %" PRId64 " to %" PRId64,
                 least, most);
    else if (least > INT64_MIN)
        snprintf(expected, sizeof expected, "a whole number, at least %" PRId64, least);
    return qk__fail_expected(&node, expected, err);
}

qk_status qk__read_int(const qk__node *at, const char *name, int least, int most, int *value,
                       qk_error *err)
{
    int64_t wide = *value;
    qk_status status = qk__read_int64(at, name, least, most, &wide, err);
    *value = (int)wide;
    return status;
}

static qk_status read_number(const qk__node *at, const char *name, double least, double most,
                             const char *expected, double *value, qk_error *err)
{
    qk__node node;
    if (!find_member(at, name, &node))
        return QK_OK;
    const char *text = plain_text(&node);
    double found = json_number_value(qk__node_json(&node));
    bool good = text ? qk__parse_number(text, &found) : json_is_number(qk__node_json(&node));
    if (good && found >= least && found <= most) {
        *value = found;
        return QK_OK;
    }
    return qk__fail_expected(&node, expected, err);
}

qk_status qk__read_real(const qk__node *at, const char *name, double least, double most,
                        double *value, qk_error *err)
{
    char expected[96];
    snprintf(expected, sizeof expected,
             most < DBL_MAX ? "a number from %.15g to %.15g" : "a number, at least %.15g",
             least, most);
    return read_number(at, name, least, most, expected, value, err);
}

qk_status qk__read_above_0(const qk__node *at, const char *name, double *value, qk_error *err)
{
    return read_number(at, name, DBL_TRUE_MIN, DBL_MAX, "a number above 0", value, err);
}

qk_status qk__read_word(const qk__node *at, const char *name, const char *const *words,
                        int *value, qk_error *err)
{
    qk__node node;
    if (!find_member(at, name, &node))
        return QK_OK;
    const char *text = text_of(&node);
    char expected[120] = "";
    for (int i = 0; words[i]; i++) {
        size_t used = strlen(expected);
        if (text && strcmp(text, words[i]) == 0) {
            *value = i;
            return QK_OK;
        }
        snprintf(expected + used, sizeof expected - used, "%s%s",
                 i == 0         ? ""
                 : words[i + 1] ? ", "
                                : " or ",
                 words[i]);
    }
    return qk__fail_expected(&node, expected, err);
}

qk_status qk__read_list(const qk__node *at, const char *name, size_t least, qk__node *list,
                        qk_error *err)
{
    if (!find_member(at, name, list))
        return QK_OK;
    QK_TRY(qk__need_kind(list, NULL, QK__LIST, list, err));
    return qk__node_count(list) >= least
               ? QK_OK
               : qk__fail_at(list, err, list->tree ? QK_ERR_ARGUMENT : QK_ERR_MALFORMED,
                             "expected a list of at least %zu, found %zu", least,
                             qk__node_count(list));
}

/* ---- what has to be there --------------------------------------------------------------- */

qk_status qk__need(const qk__node *at, const char *name, qk_error *err)
{
    qk__node node;
    return find_member(at, name, &node) ? QK_OK : qk__fail_expected(&node, "a value", err);
}

qk_status qk__need_text(const qk__node *at, const char *name, const char **value, qk_error *err)
{
    QK_TRY(qk__need(at, name, err));
    return qk__read_text(at, name, value, err);
}

qk_status qk__need_bool(const qk__node *at, const char *name, bool *value, qk_error *err)
{
    QK_TRY(qk__need(at, name, err));
    return qk__read_bool(at, name, value, err);
}

qk_status qk__need_kind(const qk__node *at, const char *name, qk__node_kind kind,
                        qk__node *found, qk_error *err)
{
    find_member(at, name, found);
    const char *what = kind == QK__LIST ? "a list" : at->tree ? "keys and values" : "an object";
    return qk__node_kind_of(found) == kind ? QK_OK : qk__fail_expected(found, what, err);
}
