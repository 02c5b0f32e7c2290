/* SPDX-License-Identifier: Apache-2.0 */
/* YAML documents from libyaml's events. Not by its own loader, whose time is quadratic in depth
 * and in the number of anchors, and which leaves a second document unread. */
#include "yaml/document.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "base/error.h"
#include "base/tree_yaml.h"

/* Far beyond what a file of settings needs. */
enum { MAX_DEPTH = 32, MAX_ANCHORS = 1000 };

typedef struct loader {
    qk__tree *tree;
    qk__yaml *open[MAX_DEPTH]; /* lists and objects that have not ended */
    int depth, anchors, documents;
    size_t line; /* of the event */
    qk_error *err;
} loader;

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

/* ---- building --------------------------------------------------------------------------- */

/* The last one of that name, as YAML has it. */
static qk__yaml *find_anchor(const loader *l, const char *name)
{
    qk__yaml *value = l->tree->anchors;
    while (value && strcmp(value->anchor, name) != 0)
        value = value->next_anchor;
    return value;
}

static qk_status set_anchor(loader *l, qk__yaml *value, const char *name)
{
    if (!name)
        return QK_OK;
    if (++l->anchors > MAX_ANCHORS)
        return qk__fail(l->err, QK_ERR_ARGUMENT, "line %zu: more than %d anchors", l->line,
                        MAX_ANCHORS);
    value->anchor = qk__strdup(name);
    if (!value->anchor)
        return qk__nomem(l->err);
    value->next_anchor = l->tree->anchors;
    l->tree->anchors = value;
    return QK_OK;
}

/* Puts a value, which belongs to the tree, into what is open. */
static qk_status place(loader *l, qk__yaml *value)
{
    if (l->depth > 0)
        return qk__buffer_append(&l->open[l->depth - 1]->parts, &value, sizeof value, l->err);
    l->tree->root = value;
    return QK_OK;
}

static qk_status add_node(loader *l, qk__node_kind kind, const char *text, size_t length,
                          const char *anchor)
{
    qk__yaml *value = calloc(1, sizeof *value + length + 1);
    if (!value)
        return qk__nomem(l->err);
    value->next = l->tree->values;
    l->tree->values = value;
    value->kind = kind;
    value->line = l->line;
    value->length = length;
    if (length > 0)
        memcpy(value->text, text, length);
    QK_TRY(set_anchor(l, value, anchor));
    QK_TRY(place(l, value));
    if (kind == QK__SCALAR)
        return QK_OK;
    if (l->depth == MAX_DEPTH)
        return qk__fail(l->err, QK_ERR_ARGUMENT, "line %zu: nested more than %d deep", l->line,
                        MAX_DEPTH);
    l->open[l->depth++] = value;
    return QK_OK;
}

static qk_status take_event(loader *l, const yaml_event_t *event)
{
    l->line = event->start_mark.line + 1;
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return ++l->documents == 1 ? QK_OK
                                   : qk__fail(l->err, QK_ERR_ARGUMENT,
                                              "line %zu: a second YAML document", l->line);
    case YAML_SCALAR_EVENT:
        QK_TRY(add_node(l, QK__SCALAR, (const char *)event->data.scalar.value,
                        event->data.scalar.length, (const char *)event->data.scalar.anchor));
        l->tree->values->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        return QK_OK;
    case YAML_SEQUENCE_START_EVENT:
        return add_node(l, QK__LIST, "", 0, (const char *)event->data.sequence_start.anchor);
    case YAML_MAPPING_START_EVENT:
        return add_node(l, QK__OBJECT, "", 0, (const char *)event->data.mapping_start.anchor);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        l->depth--;
        return QK_OK;
    case YAML_ALIAS_EVENT: {
        const char *name = (const char *)event->data.alias.anchor;
        qk__yaml *value = find_anchor(l, name);
        return value ? place(l, value)
                     : qk__fail(l->err, QK_ERR_ARGUMENT,
                                "line %zu: no anchor %.60s before *%.60s", l->line, name, name);
    }
    default:
        return QK_OK;
    }
}

static qk_status load_events(loader *l, yaml_parser_t *parser)
{
    for (bool more = true; more;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event))
            return fail_parser(parser, l->err);
        more = event.type != YAML_STREAM_END_EVENT;
        qk_status status = take_event(l, &event);
        yaml_event_delete(&event);
        QK_TRY(status);
    }
    return l->tree->root ? QK_OK : qk__fail(l->err, QK_ERR_ARGUMENT, "nothing in it");
}

qk_status qk__tree_parse(qk__tree **tree, const void *text, size_t size, qk_error *err)
{
    yaml_parser_t parser;
    *tree = calloc(1, sizeof **tree);
    if (!*tree || !yaml_parser_initialize(&parser)) {
        qk__tree_free(tree);
        return qk__nomem(err);
    }
    loader l = {.tree = *tree, .err = err};
    yaml_parser_set_input_string(&parser, size > 0 ? text : "", size);
    qk_status status = load_events(&l, &parser);
    yaml_parser_delete(&parser);
    if (status != QK_OK)
        qk__tree_free(tree);
    return status;
}

void qk__tree_free(qk__tree **tree)
{
    qk__tree *t = *tree;
    for (qk__yaml *value = t ? t->values : NULL, *next; value; value = next) {
        next = value->next;
        qk__buffer_free(&value->parts);
        free(value->anchor);
        free(value);
    }
    for (size_t i = 0; t && i < t->num_notes; i++)
        free(t->notes[i]);
    free(t);
    *tree = NULL;
}

qk__node qk__tree_root(qk__tree *tree)
{
    return (qk__node){.tree = tree, .value = tree->root};
}

/* ---- notes ------------------------------------------------------------------------------ */

qk_status qk__tree_note(qk__tree *tree, qk_error *err, const char *fmt, ...)
{
    char text[240];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (tree->num_notes == QK__MAX_NOTES)
        return QK_OK;
    char *copy = qk__strdup(text);
    if (!copy)
        return qk__nomem(err);
    tree->notes[tree->num_notes++] = copy;
    return QK_OK;
}

size_t qk__tree_num_notes(const qk__tree *tree)
{
    return tree->num_notes;
}

const char *qk__tree_get_note(const qk__tree *tree, size_t i)
{
    return tree->notes[i];
}
