/* SPDX-License-Identifier: Apache-2.0 */
/* journal.json: how far an unfinished run has come. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_build.h"
#include "recorder/recording.h"

#define JOURNAL_NAME "journal.json"
enum { MAX_JOURNAL_BYTES = 16 << 20 };

/* ---- writing ---------------------------------------------------------------------------- */

static json_t *list_rows(const qk__recording *r)
{
    json_t *rows = json_array();
    for (size_t i = 0; rows && i < 2 * (size_t)r->facts->num_layers; i++)
        rows = qk__json_append(rows, json_integer((json_int_t)r->journal.rows[i]));
    return rows;
}

qk_status qk__journal_write(const qk__recording *r, qk_error *err)
{
    const qk__journal *j = &r->journal;
    json_t *root = json_pack(
        "{s:s, s:b, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:O}",
        "fingerprint", r->fingerprint, "writing", j->writing, "built", j->built, "replaces",
        j->replaces, "texts", (json_int_t)j->texts, "tokens", (json_int_t)j->tokens, "empty",
        (json_int_t)j->empty, "split", (json_int_t)j->split, "cut", (json_int_t)j->cut,
        "skipped", (json_int_t)j->skipped, "windows", (json_int_t)j->windows, "window",
        (json_int_t)j->window, "done_weight", (json_int_t)j->done_weight, "example_bytes",
        (json_int_t)j->example_bytes, "rows", list_rows(r), "run", r->identity);
    qk__outfile *file;
    QK_TRY(qk__json_write(root, r->partial, JOURNAL_NAME, &file, err));
    return qk__outfile_commit(&file, err);
}

/* ---- reading ---------------------------------------------------------------------------- */

static bool take_count(const json_t *root, const char *key, int64_t *count)
{
    const json_t *value = json_object_get(root, key);
    *count = json_integer_value(value);
    return json_is_integer(value) && *count >= 0;
}

static bool take_rows(const json_t *root, size_t parts, int64_t *rows)
{
    const json_t *list = json_object_get(root, "rows");
    if (json_array_size(list) != parts)
        return false;
    for (size_t i = 0; i < parts; i++) {
        rows[i] = json_integer_value(json_array_get(list, i));
        if (rows[i] < 0)
            return false;
    }
    return true;
}

/* Of another run, whose model may have other layers, the number of texts is all that is of
 * interest. */
static bool take_state(qk__recording *r, const json_t *root)
{
    qk__journal *j = &r->journal;
    const char *fingerprint = json_string_value(json_object_get(root, "fingerprint"));
    if (!fingerprint || strcmp(fingerprint, r->fingerprint) != 0)
        return fingerprint && take_count(root, "texts", &j->texts);
    j->writing = json_is_true(json_object_get(root, "writing"));
    j->built = json_is_true(json_object_get(root, "built"));
    j->replaces = json_is_true(json_object_get(root, "replaces"));
    return take_count(root, "texts", &j->texts) && take_count(root, "tokens", &j->tokens) &&
           take_count(root, "empty", &j->empty) && take_count(root, "split", &j->split) &&
           take_count(root, "cut", &j->cut) && take_count(root, "skipped", &j->skipped) &&
           take_count(root, "windows", &j->windows) && take_count(root, "window", &j->window) &&
           take_count(root, "done_weight", &j->done_weight) &&
           take_count(root, "example_bytes", &j->example_bytes) &&
           take_rows(root, 2 * (size_t)r->facts->num_layers, j->rows);
}

static qk_status read_path(qk__recording *r, const char *path, json_t **identity, qk_error *err)
{
    qk__buffer text;
    json_t *root;
    QK_TRY(qk__read_file(path, MAX_JOURNAL_BYTES, &text, err));
    qk_status status = qk__json_parse(&root, text.data, text.size, QK__JSON_NO_ZEROS, err);
    qk__buffer_free(&text);
    if (status == QK_ERR_NOMEM)
        return status;
    json_t *run = json_object_get(root, "run");
    bool good = json_is_object(run) && take_state(r, root);
    *identity = good ? json_incref(run) : NULL;
    json_decref(root);
    return good ? QK_OK
                : qk__fail(err, QK_ERR_MALFORMED, "%s: not the journal of a capture", path);
}

qk_status qk__journal_read(qk__recording *r, bool *found, json_t **identity, qk_error *err)
{
    char *path = qk__path_join(r->partial, JOURNAL_NAME);
    if (!path)
        return qk__nomem(err);
    *identity = NULL;
    *found = qk__is_file(path);
    qk_status status = *found ? read_path(r, path, identity, err) : QK_OK;
    free(path);
    return status;
}
