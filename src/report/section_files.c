/* SPDX-License-Identifier: Apache-2.0 */
/* What the page carries beside what it shows: script and data of each figure, packed, so that they
 * can be saved from a page that was sent alone; and which head stands where on a collage. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/error.h"
#include "base/file.h"
#include "report/sections.h"

enum {
    MAX_FILE = 8 << 20, /* of a script or its data */
    ROOM = 1 << 20,     /* bytes that all of them take on the page */
    MAX_PANELS = 64,    /* of a collage */
};

static qk_status read_beside(const char *folder, const char *name, const char *ending,
                             qk__buffer *contents)
{
    char *path = qk__format("%s/%s.%s", folder, name, ending);
    qk_status status = path ? qk__read_file(path, MAX_FILE, contents, NULL) : qk__nomem(NULL);
    free(path);
    return status;
}

/* ---- script and data -------------------------------------------------------------------- */

/* The file in zlib's format; empty where it is not there or too large. */
static void pack_file(qk__page *page, const char *folder, const char *name, const char *ending,
                      qk__buffer *packed)
{
    qk__buffer file = {0};
    qk_status status = read_beside(folder, name, ending, &file);
    if (status == QK_OK) {
        uLongf size = compressBound(file.size);
        status = qk__buffer_reserve(packed, size, NULL);
        if (status == QK_OK &&
            compress2(packed->data, &size, file.data, file.size, Z_BEST_COMPRESSION) == Z_OK)
            packed->size = size;
    }
    if (status == QK_ERR_NOMEM)
        qk__page_nomem(page);
    qk__buffer_free(&file);
}

static void one_figure(qk__page *page, const char *folder, const char *name, size_t *room)
{
    static const char *const ENDINGS[] = {"gp", "dat"};
    bool any = false;
    qk__page_json_text(page, name);
    qk__page_raw(page, ":{");
    for (size_t i = 0; i < 2; i++) {
        qk__buffer packed = {0};
        pack_file(page, folder, name, ENDINGS[i], &packed);
        size_t bytes = (packed.size + 2) / 3 * 4;
        if (bytes > 0 && bytes <= *room) {
            qk__page_print(page, "%s\"%s\":\"", any ? "," : "", ENDINGS[i]);
            qk__page_base64(page, packed.data, packed.size);
            qk__page_raw(page, "\"");
            *room -= bytes;
            any = true;
        }
        qk__buffer_free(&packed);
    }
    qk__page_raw(page, "}");
}

/* ---- collages --------------------------------------------------------------------------- */

typedef struct panel {
    int layer, head;
    double left, right, top,
        bottom; /* of the whole figure's width and height, from bottom left */
} panel;

/* Reads a line of the script that draws a collage; true: it completes a panel. */
static bool read_line(const char *line, panel *p)
{
    sscanf(line, "set lmargin at screen %lf; set rmargin at screen %lf", &p->left, &p->right);
    sscanf(line, "set tmargin at screen %lf; set bmargin at screen %lf", &p->top, &p->bottom);
    const char *title = strstr(line, "Layer ");
    if (title)
        return sscanf(title, "Layer %d, Head %d", &p->layer, &p->head) == 2;
    for (title = line; (title = strchr(title, 'L')); title++)
        if (sscanf(title, "L%d H%d", &p->layer, &p->head) == 2)
            return true;
    return false;
}

static void put_number(qk__page *page, const char *before, double value)
{
    qk__page_raw(page, before);
    qk__page_json_number(page, value, 5);
}

/* Panels of a collage, from the script that lies beside it; none where it is another's. */
static void panels(qk__page *page, const char *folder, const char *name)
{
    qk__buffer script = {0};
    size_t count = 0;
    panel p = {0};
    char *rest = NULL;
    if (read_beside(folder, name, "gp", &script) == QK_OK &&
        qk__buffer_append(&script, "", 1, NULL) == QK_OK)
        rest = (char *)script.data;
    while (rest && *rest && count < MAX_PANELS) {
        char *end = strchr(rest, '\n');
        if (end)
            *end = 0;
        if (read_line(rest, &p) && p.right > p.left && p.top > p.bottom) {
            qk__page_print(page, "%s[%d,%d", count++ ? "," : "", p.layer, p.head);
            put_number(page, ",", p.left);
            put_number(page, ",", p.right);
            put_number(page, ",", p.top);
            put_number(page, ",", p.bottom);
            qk__page_raw(page, "]");
            p = (panel){0};
        }
        rest = end ? end + 1 : NULL;
    }
    qk__buffer_free(&script);
}

static void list_collages(qk__page *page, const qk__report *report,
                          const qk__collages *collages)
{
    size_t shown = 0;
    for (size_t i = 0; i < collages->count; i++) {
        const qk__collage *c = &collages->items[i];
        if (!c->model || c->picture.size == 0)
            continue;
        qk__page_print(page, "%s{\"name\":", shown++ ? ",\n" : "");
        qk__page_json_text(page, c->name);
        qk__page_print(page, ",\"model\":%zu,\"panels\":[",
                       (size_t)(c->model - report->results->models));
        panels(page, report->figures, c->name);
        qk__page_raw(page, "]}");
    }
}

void qk__section_files(qk__page *page, const qk__report *report, const qk__collages *collages)
{
    size_t room = ROOM, shown = 0;
    qk__page_raw(page, "<script type=\"application/json\" id=\"qk-files\">{\"figures\":{");
    for (size_t i = 0; i < report->drawn->count; i++) {
        const qk__drawn *d = &report->drawn->items[i];
        if (d->status != QK_OK)
            continue;
        qk__page_raw(page, shown++ ? ",\n" : "\n");
        one_figure(page, report->staging, d->name, &room);
    }
    qk__page_raw(page, "},\n\"collages\":[");
    list_collages(page, report, collages);
    qk__page_raw(page, "]}</script>\n");
}
