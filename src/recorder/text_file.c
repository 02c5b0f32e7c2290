/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is one text. */
#include <stdlib.h>

#include <qkscope/model.h>

#include "base/error.h"
#include "base/file.h"
#include "recorder/texts.h"

typedef struct file_reader {
    char *path;
    qk__buffer contents;
    bool done;
} file_reader;

static void close_reader(void *reader)
{
    file_reader *r = reader;
    qk__buffer_free(&r->contents);
    free(r->path);
    free(r);
}

static qk_status open_reader(void **reader, const char *path, const qk__text_columns *columns,
                             qk_error *err)
{
    (void)columns;
    *reader = NULL;
    file_reader *r = calloc(1, sizeof *r);
    if (!r || !(r->path = qk__strdup(path))) {
        free(r);
        return qk__nomem(err);
    }
    *reader = r;
    return QK_OK;
}

static qk_status next_text(void *reader, qk__input_text *text, bool *more, qk_error *err)
{
    file_reader *r = reader;
    *more = !r->done;
    if (r->done)
        return QK_OK;
    r->done = true;
    QK_TRY(qk__read_file(r->path, QK_MAX_TEXT_BYTES, &r->contents, err));
    text->data = (const char *)r->contents.data;
    text->size = r->contents.size;
    return QK_OK;
}

const qk__text_format qk__text_file = {NULL, open_reader, next_text, close_reader};
