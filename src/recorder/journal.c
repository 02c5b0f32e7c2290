/* SPDX-License-Identifier: Apache-2.0 */
/* journal.json: how far an unfinished run has come. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json_build.h"
#include "recorder/recording.h"

#define JOURNAL_NAME "journal.json"
enum { MAX_JOURNAL_BYTES = 16 << 20 };

/* The numbers in it. */
#define AT(member) #member, offsetof(qk__journal, member)
static const struct {
    const char *key;
    size_t at;
} COUNTS[] = {{AT(texts)},       {AT(tokens)},       {AT(empty)},   {AT(split)},
              {AT(cut)},         {AT(skipped)},      {AT(windows)}, {AT(window)},
              {AT(done_weight)}, {AT(example_bytes)}};
enum { NUM_COUNTS = sizeof COUNTS / sizeof *COUNTS };

static int64_t *count_at(qk__journal *journal, size_t i)
{
    return (int64_t *)(void *)((char *)journal + COUNTS[i].at);
}

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
    qk__journal j = r->journal;
    json_t *root = json_pack("{s:s, s:b, s:b, s:b}", "fingerprint", r->fingerprint, "writing",
                             j.writing, "built", j.built, "replaces", j.replaces);
    for (size_t i = 0; i < NUM_COUNTS; i++)
        root = qk__json_set(root, COUNTS[i].key, json_integer(*count_at(&j, i)));
    root = qk__json_set(root, "rows", list_rows(r));
    root = qk__json_set(root, "run", json_incref(r->identity));
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
    for (size_t i = 0; i < NUM_COUNTS; i++)
        if (!take_count(root, COUNTS[i].key, count_at(j, i)))
            return false;
    return take_rows(root, 2 * (size_t)r->facts->num_layers, j->rows);
}

static qk_status read_path(qk__recording *r, const char *path, json_t **identity, qk_error *err)
{
    json_t *root;
    qk_status status =
        qk__json_read_file(&root, path, MAX_JOURNAL_BYTES, QK__JSON_NO_ZEROS, err);
    if (status != QK_OK && status != QK_ERR_MALFORMED)
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
