/* SPDX-License-Identifier: Apache-2.0 */
/* Typed values from a libyaml document. */
#include "study/yaml_node.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* Far beyond what a configuration needs. */
enum { MAX_DEPTH = 32, MAX_ANCHORS = 1000 };

static qk_status fail_parser(const yaml_parser_t *parser, qk_error *err)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return qk__nomem(err);
    const char *problem = parser->problem ? parser->problem : "not YAML";
    if (parser->error == YAML_READER_ERROR)
        return qk__fail(err, QK_ERR_ARGUMENT, "byte %zu: %s", parser->problem_offset, problem);
    return qk__fail(err, QK_ERR_ARGUMENT, "line %zu: %s%s%s", parser->problem_mark.line + 1,
                    problem, parser->context ? " " : "",
                    parser->context ? parser->context : "");
}

static bool has_anchor(const yaml_event_t *event)
{
    return (event->type == YAML_SCALAR_EVENT && event->data.scalar.anchor) ||
           (event->type == YAML_SEQUENCE_START_EVENT && event->data.sequence_start.anchor) ||
           (event->type == YAML_MAPPING_START_EVENT && event->data.mapping_start.anchor);
}

/* Reads the whole text once without building a tree: libyaml's time is quadratic in depth
 * and in the number of anchors, and a second document would be ignored below. */
static qk_status check_events(yaml_parser_t *parser, qk_error *err)
{
    int depth = 0;
    int anchors = 0;
    int documents = 0;
    for (;;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event))
            return fail_parser(parser, err);
        yaml_event_type_t type = event.type;
        size_t line = event.start_mark.line + 1;
        anchors += has_anchor(&event);
        yaml_event_delete(&event);
        documents += type == YAML_DOCUMENT_START_EVENT;
        depth += type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT;
        depth -= type == YAML_SEQUENCE_END_EVENT || type == YAML_MAPPING_END_EVENT;
        if (depth > MAX_DEPTH)
            return qk__fail(err, QK_ERR_ARGUMENT, "line %zu: nested more than %d deep", line,
                            MAX_DEPTH);
        if (anchors > MAX_ANCHORS)
            return qk__fail(err, QK_ERR_ARGUMENT, "line %zu: more than %d anchors", line,
                            MAX_ANCHORS);
        if (documents > 1)
            return qk__fail(err, QK_ERR_ARGUMENT, "line %zu: a second YAML document", line);
        if (type == YAML_STREAM_END_EVENT)
            return documents == 1 ? QK_OK : qk__fail(err, QK_ERR_ARGUMENT, "nothing in it");
    }
}

static qk_status build_tree(yaml_parser_t *parser, yaml_document_t *document, qk_error *err)
{
    return yaml_parser_load(parser, document) ? QK_OK : fail_parser(parser, err);
}

static qk_status with_parser(const qk_buffer *text, yaml_document_t *document, qk_error *err)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return qk__nomem(err);
    yaml_parser_set_input_string(&parser, text->data, text->size);
    qk_status status =
        document ? build_tree(&parser, document, err) : check_events(&parser, err);
    yaml_parser_delete(&parser);
    return status;
}

qk_status qk__yaml_parse(const qk_buffer *text, yaml_document_t *document, qk_error *err)
{
    QK_TRY(with_parser(text, NULL, err));
    return with_parser(text, document, err);
}

unsigned long long qk__yaml_line(const yaml_node_t *node)
{
    return (unsigned long long)node->start_mark.line + 1;
}

static bool is_plain(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

/* Whether a plain scalar is one of the words; the list ends in NULL. */
static bool is_one_of(const yaml_node_t *node, const char *const *words)
{
    const char *text = qk__yaml_text(node);
    if (!is_plain(node) || !text)
        return false;
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

bool qk__yaml_is_null(const yaml_node_t *node)
{
    static const char *const WORDS[] = {"", "~", "null", "Null", "NULL", NULL};
    return is_one_of(node, WORDS);
}

const char *qk__yaml_text(const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE)
        return NULL;
    const char *text = (const char *)node->data.scalar.value;
    return strlen(text) == node->data.scalar.length ? text : NULL;
}

static qk_status fail_value(const yaml_node_t *node, const char *key, const char *expected,
                            qk_error *err)
{
    const char *text = qk__yaml_text(node);
    const char *found = node->type == YAML_SEQUENCE_NODE  ? "a list"
                        : node->type == YAML_MAPPING_NODE ? "a mapping"
                        : text                            ? text
                                                          : "binary data";
    return qk__fail(err, QK_ERR_ARGUMENT, "line %llu: %s: expected %s, found %s%.60s%s",
                    qk__yaml_line(node), key, expected, text ? "\"" : "", found,
                    text ? "\"" : "");
}

qk_status qk__yaml_string(const yaml_node_t *node, const char *key, const char **value,
                          qk_error *err)
{
    const char *text = qk__yaml_text(node);
    if (!text || !*text)
        return fail_value(node, key, "a text", err);
    *value = text;
    return QK_OK;
}

qk_status qk__yaml_bool(const yaml_node_t *node, const char *key, bool *value, qk_error *err)
{
    static const char *const YES[] = {"true", "True", "TRUE", "yes", "Yes",
                                      "YES",  "on",   "On",   "ON",  NULL};
    static const char *const NO[] = {"false", "False", "FALSE", "no",  "No",
                                     "NO",    "off",   "Off",   "OFF", NULL};
    *value = is_one_of(node, YES);
    if (!*value && !is_one_of(node, NO))
        return fail_value(node, key, "true or false", err);
    return QK_OK;
}

/* Decimal digits with a sign. A leading zero means octal to some YAML readers and nothing
 * to others: it is refused. */
static bool parse_int(const char *text, int64_t *value)
{
    bool negative = *text == '-';
    const char *p = text + (*text == '-' || *text == '+');
    if (p[0] == 0 || (p[0] == '0' && p[1] != 0) || strspn(p, "0123456789") != strlen(p))
        return false;
    uint64_t limit = (uint64_t)INT64_MAX + negative;
    uint64_t magnitude = 0;
    for (; *p; p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (magnitude > (limit - digit) / 10)
            return false;
        magnitude = magnitude * 10 + digit;
    }
    *value = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

qk_status qk__yaml_int(const yaml_node_t *node, const char *key, int64_t min, int64_t max,
                       int64_t *value, qk_error *err)
{
    const char *text = is_plain(node) ? qk__yaml_text(node) : NULL;
    if (text && parse_int(text, value) && *value >= min && *value <= max)
        return QK_OK;
    char expected[96] = "a whole number";
    if (max < INT64_MAX)
        snprintf(expected, sizeof expected, "a whole number from %lld to %lld", (long long)min,
                 (long long)max);
    else if (min > INT64_MIN)
        snprintf(expected, sizeof expected, "a whole number, at least %lld", (long long)min);
    return fail_value(node, key, expected, err);
}

/* strtod would read a decimal comma in some locales. Up to 15 digits, so that the one
 * division rounds correctly. */
static bool parse_decimal(const char *text, double *value)
{
    static const char DIGITS[] = "0123456789";
    size_t whole = strspn(text, DIGITS);
    const char *p = text + whole;
    size_t decimals = *p == '.' ? strspn(p + 1, DIGITS) : 0;
    if (p[decimals + (*p == '.')] != 0 || whole + decimals == 0 || whole + decimals > 15)
        return false;
    double digits = 0;
    double scale = 1;
    for (const char *d = text; *d; d++)
        if (*d != '.')
            digits = digits * 10 + (*d - '0');
    for (size_t i = 0; i < decimals; i++)
        scale *= 10;
    *value = digits / scale;
    return true;
}

qk_status qk__yaml_decimal(const yaml_node_t *node, const char *key, double max, double *value,
                           qk_error *err)
{
    const char *text = is_plain(node) ? qk__yaml_text(node) : NULL;
    if (text && parse_decimal(text, value) && *value <= max)
        return QK_OK;
    char expected[64];
    snprintf(expected, sizeof expected, "a number from 0 to %.15g", max);
    return fail_value(node, key, expected, err);
}
