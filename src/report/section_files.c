/* SPDX-License-Identifier: Apache-2.0 */
/* What the page carries beside what it shows: script and data of each figure, packed, so that they
 * can be saved from a page that was sent alone; and which head stands where on a collage. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_build.h"
#include "report/sections.h"

enum {
    MAX_FILE = 8 << 20, /* of a script or its data */
    ROOM = 1 << 20,     /* bytes that all of them take on the page */
    MAX_PANELS = 64,    /* of a collage */
    DIGITS = 5,
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

/* The file in zlib's format, as base64; NULL where it is not there or too large. */
static char *pack_file(qk__page *page, const char *folder, const char *name, const char *ending)
{
    qk__buffer file = {0}, packed = {0};
    char *text = NULL;
    qk_status status = read_beside(folder, name, ending, &file);
    if (status == QK_OK) {
        uLongf size = compressBound(file.size);
        status = qk__buffer_reserve(&packed, size, NULL);
        if (status == QK_OK &&
            compress2(packed.data, &size, file.data, file.size, Z_BEST_COMPRESSION) == Z_OK)
            text = qk__base64(packed.data, size);
    }
    if (status == QK_ERR_NOMEM)
        qk__page_nomem(page);
    qk__buffer_free(&packed);
    qk__buffer_free(&file);
    return text;
}

static json_t *one_figure(qk__page *page, const char *folder, const char *name, size_t *room)
{
    static const char *const ENDINGS[] = {"gp", "dat"};
    json_t *files = json_object();
    for (size_t i = 0; i < 2; i++) {
        char *packed = pack_file(page, folder, name, ENDINGS[i]);
        size_t bytes = packed ? strlen(packed) : 0;
        if (bytes > 0 && bytes <= *room) {
            files = qk__json_set(files, ENDINGS[i], json_string(packed));
            *room -= bytes;
        }
        free(packed);
    }
    return files;
}

/* ---- collages --------------------------------------------------------------------------- */

typedef struct panel {
    int layer, head;
    double left, right, top, bottom; /* of the figure's width and height, from bottom left */
} panel;

/* Reads a line of the script that draws a collage; true: it completes a panel. */
static bool read_script_line(const char *line, panel *p)
{
    static const char *const EDGES[] = {"set lmargin at screen ", "set rmargin at screen ",
                                        "set tmargin at screen ", "set bmargin at screen "};
    double *const places[] = {&p->left, &p->right, &p->top, &p->bottom};
    for (size_t i = 0; i < sizeof EDGES / sizeof *EDGES; i++) {
        const char *edge = strstr(line, EDGES[i]); /* earlier versions have two in a line */
        if (edge)
            *places[i] = strtod(edge + strlen(EDGES[i]), NULL);
    }
    const char *title = strstr(line, "Layer ");
    if (title)
        return sscanf(title, "Layer %d, Head %d", &p->layer, &p->head) == 2;
    for (title = line; (title = strchr(title, 'L')); title++)
        if (sscanf(title, "L%d H%d", &p->layer, &p->head) == 2)
            return true;
    return false;
}

/* Panels of a collage, from the script that lies beside it; none where it is another's. */
static json_t *panels(const char *folder, const char *name)
{
    qk__buffer script = {0};
    json_t *list = json_array();
    panel p = {0};
    char *line = NULL, *rest;
    if (read_beside(folder, name, "gp", &script) == QK_OK &&
        qk__buffer_append(&script, "", 1, NULL) == QK_OK)
        line = strtok_r((char *)script.data, "\n", &rest);
    for (; line && json_array_size(list) < MAX_PANELS; line = strtok_r(NULL, "\n", &rest))
        if (read_script_line(line, &p) && p.right > p.left && p.top > p.bottom) {
            list = qk__json_append(list, json_pack("[i,i,f,f,f,f]", p.layer, p.head, p.left,
                                                   p.right, p.top, p.bottom));
            p = (panel){0};
        }
    qk__buffer_free(&script);
    return list;
}

void qk__section_files(qk__page *page, const qk__report *report, const qk__collages *collages)
{
    size_t room = ROOM;
    json_t *figures = json_object(), *shown = json_array();
    for (size_t i = 0; i < report->drawn->count; i++) {
        const qk__drawn *d = &report->drawn->items[i];
        if (d->status == QK_OK)
            figures = qk__json_set(figures, d->name,
                                   one_figure(page, report->staging, d->name, &room));
    }
    for (size_t i = 0; i < collages->count; i++) {
        const qk__collage *c = &collages->items[i];
        if (c->model && c->picture.size > 0)
            shown = qk__json_append(
                shown, json_pack("{s:o, s:I, s:o}", "name", qk__clean_text(c->name), "model",
                                 (json_int_t)(c->model - report->results->models), "panels",
                                 panels(report->figures, c->name)));
    }
    qk__page_json(page, "qk-files",
                  json_pack("{s:o, s:o}", "figures", figures, "collages", shown), DIGITS);
}
