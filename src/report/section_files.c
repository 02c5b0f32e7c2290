/* SPDX-License-Identifier: Apache-2.0 */
/* What the page carries beside what it shows: the packed numbers of each figure, which can be saved from a page that
 * was sent alone, and the models of collages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_build.h"
#include "base/number.h"
#include "base/parse_number.h"
#include "report/sections.h"

enum {
    MAX_FILE = 8 << 20, /* of numbers */
    ROOM = 3 << 18,     /* bytes of all these numbers on the page */
    FLOAT_DIGITS = 7,
};

static qk_status read_beside(const char *folder, const char *name, const char *ending,
                             qk__buffer *contents)
{
    char *path = qk__format("%s/%s.%s", folder, name, ending);
    qk_status status = path ? qk__read_file(path, MAX_FILE, contents, NULL) : qk__nomem(NULL);
    free(path);
    return status;
}

/* ---- numbers -------------------------------------------------------------------- */

/* The rest of ROOM, and the size of the smallest file that did not fit: larger files are not tried. */
typedef struct room {
    size_t packed, file;
} room;

/* A field of such a file, and what ends it. Numbers get as many digits as a float holds, like the numbers of heads on
 * the page. */
static qk_status put_field(qk__buffer *out, const char *field, size_t size, qk_error *err)
{
    char text[32], brief[32];
    double value;
    snprintf(text, sizeof text, "%.*s", (int)size, field);
    if (size > FLOAT_DIGITS && size < sizeof text && memchr(text, '.', size) &&
        qk__parse_number(text, &value)) {
        qk__print_plain(brief, sizeof brief, "%.*g", FLOAT_DIGITS, value);
        field = brief;
        size = strlen(brief);
    }
    return qk__buffer_append(out, field, size, err);
}

static qk_status shorten_numbers(const qk__buffer *file, qk__buffer *out, qk_error *err)
{
    const char *p = (const char *)file->data, *end = p + file->size;
    for (size_t size; p < end; p += size) {
        size = 0;
        if (*p == '"') /* a text: go on to the separator behind the closing quote */
            do
                size++;
            while (p + size < end && p[size] != '"');
        while (p + size < end && !strchr(",\n", p[size]))
            size++;
        QK_TRY(put_field(out, p, size, err));
        if (p + size < end)
            QK_TRY(qk__buffer_append(out, p + size++, 1, err));
    }
    return QK_OK;
}

static qk_status deflate_file(const qk__buffer *file, qk__buffer *packed)
{
    uLongf size = compressBound(file->size);
    QK_TRY(qk__buffer_reserve(packed, size, NULL));
    packed->size = compress(packed->data, &size, file->data, file->size) == Z_OK ? size : 0;
    return packed->size > 0 ? QK_OK : QK_ERR_NOMEM;
}

/* The file in zlib's format, as base64; NULL where it is absent or does not fit. */
static char *pack_file(qk__page *page, const char *folder, const char *name, room *left)
{
    qk__buffer file = {0}, brief = {0}, packed = {0};
    char *text = NULL;
    qk_status status = read_beside(folder, name, "csv", &file);
    if (status == QK_OK && file.size < left->file) {
        status = shorten_numbers(&file, &brief, NULL);
        if (status == QK_OK)
            status = deflate_file(&brief, &packed);
        if (status == QK_OK)
            text = qk__base64(packed.data, packed.size);
    }
    if (text && strlen(text) > left->packed) {
        left->file = file.size;
        free(text);
        text = NULL;
    }
    left->packed -= text ? strlen(text) : 0;
    if (status == QK_ERR_NOMEM)
        qk__page_nomem(page);
    qk__buffer_free(&packed);
    qk__buffer_free(&brief);
    qk__buffer_free(&file);
    return text;
}

/* The numbers of a figure, if there is room. */
static json_t *one_figure(qk__page *page, const char *folder, const char *name, room *left)
{
    json_t *files = json_object();
    char *packed = pack_file(page, folder, name, left);
    if (packed)
        files = qk__json_set(files, "csv", json_string(packed));
    free(packed);
    return files;
}

void qk__section_files(qk__page *page, const qk__report *report, const qk__collages *collages)
{
    room left = {ROOM, SIZE_MAX};
    json_t *figures = json_object(), *shown = json_array();
    for (size_t i = 0; i < report->drawn->count; i++) {
        const qk__drawn *d = &report->drawn->items[i];
        if (d->status == QK_OK)
            figures = qk__json_set(figures, d->name,
                                   one_figure(page, report->staging, d->name, &left));
    }
    for (size_t i = 0; i < collages->count; i++) {
        const qk__collage *c = &collages->items[i];
        if (c->model && c->picture.size > 0)
            shown = qk__json_append(
                shown, json_pack("{s:o, s:I}", "name", qk__clean_text(c->name), "model",
                                 (json_int_t)(c->model - report->results->models)));
    }
    qk__page_json(page, "qk-files",
                  json_pack("{s:o, s:o}", "figures", figures, "collages", shown), FLOAT_DIGITS);
}
