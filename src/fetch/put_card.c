/* SPDX-License-Identifier: Apache-2.0 */
/* The card of the dataset, README.md, belongs to whoever wrote it last. One that differs from that of the
 * capture is replaced only if nobody has written in it, or if the caller says so. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fetch/put.h"

enum { MAX_CARD_BYTES = 8 << 20 };

typedef struct lines {
    char **items;
    size_t count;
} lines;

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Makes one 0 of each number: cards of two runs have other numbers, and the same lines else. */
static void mask_numbers(char *line)
{
    char *to = line;
    for (const char *from = line; *from; from++)
        if (!isdigit((unsigned char)*from))
            *to++ = *from;
        else if (to == line || to[-1] != '0')
            *to++ = '0';
    *to = 0;
}

/* The lines of a text, which is changed and must outlive them. */
static qk_status split(char *text, lines *out, qk_error *err)
{
    size_t most = 1;
    for (const char *p = text; *p; p++)
        most += *p == '\n';
    out->items = qk__calloc(most, sizeof *out->items);
    if (!out->items)
        return qk__nomem(err);
    for (char *at = text; at;) {
        char *end = strchr(at, '\n');
        if (end)
            *end++ = 0;
        mask_numbers(at);
        out->items[out->count++] = at;
        at = end;
    }
    return QK_OK;
}

/* Whether each line of the branch's card is one that the capture's has as well, numbers aside. */
static qk_status is_ours(char *there, char *here, bool *ours, qk_error *err)
{
    lines a = {0}, b = {0};
    *ours =
        strncmp(there, "---\nconfigs:", 12) == 0 && strstr(there, "\n- written by: qkscope ");
    if (!*ours)
        return QK_OK;
    qk_status status = split(there, &a, err);
    if (status == QK_OK)
        status = split(here, &b, err);
    if (status == QK_OK)
        qsort(b.items, b.count, sizeof *b.items, compare_lines);
    for (size_t i = 0; status == QK_OK && *ours && i < a.count; i++)
        *ours = bsearch(&a.items[i], b.items, b.count, sizeof *b.items, compare_lines) != NULL;
    free(a.items);
    free(b.items);
    return status;
}

/* Looks at the card of the branch. */
static qk_status compare_cards(qk__put *put, const qk__put_file *file,
                               const qk__repo_file *there, bool *ours, qk_error *err)
{
    qk__buffer address = {0}, theirs = {0}, here = {0};
    *ours = false;
    if (there->size > MAX_CARD_BYTES || file->size > MAX_CARD_BYTES)
        return QK_OK;
    qk_status status = qk__file_address(&put->fetch, there, &address, err);
    if (status == QK_OK)
        status =
            qk__connection_get_text(put->connection, (char *)address.data, &theirs, NULL, err);
    if (status == QK_OK)
        status = qk__read_file(file->source, MAX_CARD_BYTES, &here, err);
    if (status == QK_OK)
        status = is_ours((char *)theirs.data, (char *)here.data, ours, err);
    qk__buffer_free(&address);
    qk__buffer_free(&theirs);
    qk__buffer_free(&here);
    return qk__context(err, status, "%s", QK__CARD_NAME);
}

qk_status qk__put_settle_card(qk__put *put, qk__put_file *file, const qk__repo_file *there,
                              qk_error *err)
{
    bool ours;
    if (put->settings->replace_card || strcmp(file->path, QK__CARD_NAME) != 0)
        return QK_OK;
    QK_TRY(compare_cards(put, file, there, &ours, err));
    if (ours)
        return QK_OK;
    file->change = QK_HUB_KEPT;
    qk__tell_notice(&put->fetch.context, QK_NOTICE_REMARK,
                    "%s at %s: its %s is not the capture's, somebody has written in it: it "
                    "stays; --replace-card replaces it",
                    put->fetch.name, put->fetch.revision, QK__CARD_NAME);
    return QK_OK;
}
