/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the page for readers: methods, definitions of columns, and the run's manifest. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <qkscope/common.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "report/assets.h"
#include "report/sections.h"

enum { MAX_MANIFEST = 64 << 20, MAX_ITEMS = 12, SHOWN_ITEMS = 3, MAX_DEPTH = 64 };

void qk__section_methods(qk__page *page, const qk__report *report)
{
    (void)report;
    qk__page_section(page, "methods", "Methods", false);
    qk__page_bytes(page, qk__asset_methods.data, qk__asset_methods.size);
    qk__page_raw(page, "<details>\n<summary>Definitions of the columns</summary>\n"
                       "<dl class=\"columns\">\n");
    for (size_t i = 0; i < qk__num_fields; i++) {
        qk__page_print(page, "<dt><code>%s</code> <small>%s</small></dt><dd>",
                       qk__fields[i].info.name, qk__fields[i].file);
        qk__page_text(page, qk__fields[i].info.about);
        qk__page_raw(page, "</dd>\n");
    }
    qk__page_raw(page, "</dl>\n</details>\n");
    qk__page_section_end(page);
}

/* Long lists (of input files) by their first items and their length. */
static void shorten(qk__page *page, json_t *value, int depth)
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
        shorten(page, json_array_get(value, i), depth + 1);
    for (void *at = json_object_iter(value); at; at = json_object_iter_next(value, at))
        shorten(page, json_object_iter_value(at), depth + 1);
}

/* What the capture kept in place of all rows, and what is empty for it. */
static void kept(qk__page *page, const json_t *what)
{
    size_t i;
    const json_t *one;
    json_int_t rows = json_integer_value(json_object_get(what, "reservoir"));
    if (!json_is_object(what))
        return;
    qk__page_raw(page, "<dt>kept</dt><dd>moments of all rows, and ");
    if (rows > 0)
        qk__page_print(page, "up to %lld rows of each bucket and text", (long long)rows);
    else
        qk__page_raw(page, "no rows");
    json_array_foreach(json_object_get(what, "empty"), i, one)
    {
        const char *columns = json_string_value(json_object_get(one, "columns"));
        const char *reason = json_string_value(json_object_get(one, "reason"));
        qk__page_raw(page, i ? "; " : ". Empty: ");
        qk__page_text(page, columns ? columns : "?");
        qk__page_raw(page, " (");
        qk__page_text(page, reason ? reason : "?");
        qk__page_raw(page, ")");
    }
    qk__page_raw(page, "</dd>\n");
}

/* A few members that say what was run, as a list. */
static void overview(qk__page *page, const json_t *root)
{
    static const char *const keys[] = {
        "program", "version", "command", "command_line", "started", "capture", "plan",
        "study",   "seed",    "threads", "model",        "heads",   "rows"};
    qk__page_raw(page, "<dl class=\"columns\">\n");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = json_object_get(root, keys[i]);
        if (!json_is_string(value) && !json_is_integer(value))
            continue;
        qk__page_print(page, "<dt>%s</dt><dd>", keys[i]);
        if (json_is_string(value))
            qk__page_text(page, json_string_value(value));
        else
            qk__page_print(page, "%lld", (long long)json_integer_value(value));
        qk__page_raw(page, "</dd>\n");
    }
    kept(page, json_object_get(root, "kept"));
    qk__page_raw(page, "</dl>\n");
}

static void tables_of(qk__page *page, const json_t *run)
{
    size_t i;
    const json_t *name;
    json_array_foreach(json_object_get(run, "tables"), i, name)
    {
        qk__page_raw(page, i ? ", " : "");
        qk__page_text(page, json_is_string(name) ? json_string_value(name) : "?");
    }
}

/* Each run with its tables: those of one folder may be of different heads. */
static void runs(qk__page *page, const json_t *list)
{
    size_t i;
    const json_t *run;
    json_array_foreach(list, i, run)
    {
        qk__page_raw(page, "<h3>");
        tables_of(page, run);
        qk__page_raw(page, "</h3>\n");
        overview(page, run);
    }
}

static void manifest(qk__page *page, const qk__buffer *contents)
{
    json_t *root;
    qk_status status =
        qk__json_parse(&root, contents->data, contents->size, QK__JSON_NO_ZEROS, NULL);
    if (status == QK_ERR_NOMEM) {
        qk__page_nomem(page);
        return;
    }
    if (status != QK_OK) {
        qk__page_raw(page, "<p>The folder’s manifest.json is not JSON.</p>\n");
        return;
    }
    const json_t *list = json_object_get(root, "runs");
    if (json_is_array(list))
        runs(page, list);
    else
        overview(page, root);
    json_object_del(root, "complete"); /* of a study: not before this page is written */
    shorten(page, root, 0);
    char *text = qk__json_dumps(root, JSON_INDENT(2));
    qk__page_raw(page, "<details>\n<summary>manifest.json</summary>\n<pre tabindex=\"0\">");
    if (text)
        qk__page_lines(page, text, "", "\n");
    else
        qk__page_nomem(page);
    qk__page_raw(page, "</pre>\n</details>\n");
    free(text);
    json_decref(root);
}

void qk__section_manifest(qk__page *page, const qk__report *report)
{
    qk__buffer contents = {0};
    qk_error err;
    qk__page_section(page, "manifest", "Manifest", false);
    char *path = qk__path_join(report->settings->results, "manifest.json");
    if (!path)
        page->status = qk__nomem(&page->err);
    else if (qk__read_file(path, MAX_MANIFEST, &contents, &err) == QK_OK)
        manifest(page, &contents);
    else
        qk__page_raw(page, "<p>The results folder has no readable manifest.json.</p>\n");
    qk__page_print(page,
                   "<p class=\"note\">Page made by qkscope %s; charts by Chart.js (MIT "
                   "licence).</p>\n",
                   qk_version());
    qk__page_section_end(page);
    qk__page_raw(page, "</main>\n");
    qk__buffer_free(&contents);
    free(path);
}
