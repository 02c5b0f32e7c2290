/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the page for readers: methods, definitions of columns, and the run's manifest. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <qkscope/common.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json_build.h"
#include "report/sections.h"

enum { MAX_ITEMS = 12, SHOWN_ITEMS = 3, MAX_DEPTH = 64 };

void qk__section_methods(qk__page *page, const qk__report *report)
{
    (void)report;
    qk__page_asset(page, &qk__asset_methods);
    qk__open(page, "details");
    qk__put(page, "summary", "Definitions of the columns");
    qk__open(page, "dl.columns");
    for (size_t i = 0; i < qk__num_fields; i++) {
        if (qk__fields[i].use == QK__LISTED)
            continue;
        qk__put(page, "dt", "`%s` ^%s^", qk__fields[i].info.name, qk__fields[i].file);
        qk__put(page, "dd", "%s", qk__fields[i].info.about);
    }
    qk__close(page, "dl details");
}

/* Long lists (of input files) by their first items and their length. */
static void shorten_lists(qk__page *page, json_t *value, int depth)
{
    size_t i;
    if (depth > MAX_DEPTH)
        return;
    if (json_is_array(value) && json_array_size(value) > MAX_ITEMS) {
        size_t left_out = json_array_size(value) - SHOWN_ITEMS;
        while (json_array_size(value) > SHOWN_ITEMS)
            json_array_remove(value, json_array_size(value) - 1);
        if (json_array_append_new(value, json_sprintf("... %zu more", left_out)) != 0)
            qk__page_nomem(page);
    }
    for (i = 0; i < json_array_size(value); i++) /* 0 for what is no array */
        shorten_lists(page, json_array_get(value, i), depth + 1);
    for (void *at = json_object_iter(value); at; at = json_object_iter_next(value, at))
        shorten_lists(page, json_object_iter_value(at), depth + 1);
}

/* What the capture kept in place of all rows, and what is empty for it. */
static void put_kept(qk__page *page, const json_t *what)
{
    size_t i;
    const json_t *one;
    json_int_t rows = json_integer_value(json_object_get(what, "reservoir"));
    if (!json_is_object(what))
        return;
    qk__put(page, "dt", "kept");
    qk__open(page, "dd");
    if (rows > 0)
        qk__say(page, "moments of all rows, and up to %lld rows of each bucket and text",
                (long long)rows);
    else
        qk__say(page, "moments of all rows, and no rows");
    json_array_foreach(json_object_get(what, "empty"), i, one)
    {
        const char *columns = json_string_value(json_object_get(one, "columns"));
        const char *reason = json_string_value(json_object_get(one, "reason"));
        qk__say(page, "%s%s (%s)", i ? "; " : ". Empty: ", columns ? columns : "?",
                reason ? reason : "?");
    }
    qk__close(page, "dd");
}

/* A few members that say what was run, as a list. */
static void put_run_members(qk__page *page, const json_t *root)
{
    static const char *const keys[] = {
        "program", "version", "command", "command_line", "started", "capture", "plan",
        "study",   "seed",    "threads", "model",        "heads",   "rows"};
    qk__open(page, "dl.columns");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = json_object_get(root, keys[i]);
        if (!json_is_string(value) && !json_is_integer(value))
            continue;
        qk__put(page, "dt", "%s", keys[i]);
        if (json_is_string(value))
            qk__put(page, "dd", "%s", json_string_value(value));
        else
            qk__put(page, "dd", "%lld", (long long)json_integer_value(value));
    }
    put_kept(page, json_object_get(root, "kept"));
    qk__close(page, "dl");
}

/* Each run with its tables: those of one folder may be of different heads. */
static void put_runs(qk__page *page, const json_t *list)
{
    size_t i, t;
    const json_t *run, *name;
    json_array_foreach(list, i, run)
    {
        qk__open(page, "h3");
        json_array_foreach(json_object_get(run, "tables"), t, name)
        {
            qk__say(page, "%s%s", t ? ", " : "",
                    json_is_string(name) ? json_string_value(name) : "?");
        }
        qk__close(page, "h3");
        put_run_members(page, run);
    }
}

static void put_manifest(qk__page *page, json_t *root)
{
    const json_t *list = json_object_get(root, "runs");
    if (json_is_array(list))
        put_runs(page, list);
    else
        put_run_members(page, root);
    json_object_del(root, "complete"); /* of a study: not before this page is written */
    shorten_lists(page, root, 0);
    char *text = qk__json_dumps(root, JSON_INDENT(2));
    if (!text)
        qk__page_nomem(page);
    qk__open(page, "details");
    qk__put(page, "summary", "manifest.json");
    qk__open(page, "pre[tabindex=0]");
    qk__put_lines(page, NULL, text ? text : "");
    qk__close(page, "pre details");
    free(text);
}

void qk__section_manifest(qk__page *page, const qk__report *report)
{
    json_t *root = NULL;
    char *path = qk__path_join(report->settings->results, "manifest.json");
    qk_status status =
        path ? qk__json_read_file(&root, path, QK__JSON_MANIFEST, NULL) : QK_ERR_NOMEM;
    if (status == QK_ERR_NOMEM)
        qk__page_nomem(page);
    else if (status == QK_OK)
        put_manifest(page, root);
    else
        qk__put(page, "p", "The results folder has no readable manifest.json.");
    qk__put(page, "p.note", "Page made by qkscope %s; charts by Chart.js (MIT licence).",
            qk_version());
    json_decref(root);
    free(path);
}
