/* SPDX-License-Identifier: Apache-2.0 */
/* Large files: the Hub says which ones they are, and where its store wants their bytes, unless it
 * has them already. Its answers are not believed: each file must be told of once, and addresses must be
 * such. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json_build.h"
#include "fetch/put.h"

enum {
    ASK_FILES = 256, /* in one question; the Hub takes no more */
    ASK_BYTES = 512, /* of a file, that tell whether it is text */
    MAX_PARTS = 10000,
    MAX_RENEWALS = 2, /* of addresses that have lapsed */
};
static const int64_t CHUNK_BYTES = (int64_t)256 << 20; /* one thread sends so many in a row */
static const int64_t MAX_REGULAR = (int64_t)10 << 20;  /* larger files are no text */

const char qk__put_attributes[] = "*.parquet filter=lfs diff=lfs merge=lfs -text\n"
                                  "*.safetensors filter=lfs diff=lfs merge=lfs -text\n";

static qk_status odd_answer(qk_error *err, const char *what, const char *path)
{
    return qk__fail(err, QK_ERR_MALFORMED, "the Hub's answer %s: %.200s", what, path);
}

/* ---- which files are large --------------------------------------------------------------- */

/* The first bytes of a file, as the Hub wants to see them. */
static json_t *sample(const qk__libraries *lib, const qk__put_file *file, qk_error *err)
{
    uint8_t bytes[ASK_BYTES];
    unsigned char text[ASK_BYTES * 4 / 3 + 8] = "";
    size_t count = file->size < ASK_BYTES ? (size_t)file->size : ASK_BYTES;
    int fd;
    int64_t size;
    if (qk__open_file(file->source, &fd, &size, err) != QK_OK)
        return NULL;
    qk_status status =
        size == file->size ? qk__read_at(fd, bytes, count, 0, err) : qk__put_changed(file, err);
    close(fd);
    if (status != QK_OK)
        return NULL;
    lib->EncodeBlock(text, bytes, (int)count);
    json_t *entry = json_pack("{s:s, s:s, s:I}", "path", file->path, "sample", (char *)text,
                              "size", (json_int_t)file->size);
    if (!entry)
        (void)qk__nomem(err);
    return entry;
}

static qk_status question(const qk__put *put, size_t first, size_t count, json_t **body,
                          qk_error *err)
{
    json_t *files = json_array();
    for (size_t i = first; i < first + count; i++) {
        json_t *entry =
            sample(&put->fetch.libraries, &put->files.items[put->differing[i]], err);
        if (!entry) {
            json_decref(files);
            return err->status;
        }
        files = qk__json_append(files, entry);
    }
    *body = json_pack("{s:o}", "files", files);
    if (!put->has_attributes)
        *body = qk__json_set(*body, "gitAttributes", json_string(qk__put_attributes));
    return *body ? QK_OK : qk__nomem(err);
}

/* Takes what the answer says of one file. */
static qk_status take_mode(qk__put_file *file, const json_t *entry, qk_error *err)
{
    const char *mode = json_string_value(json_object_get(entry, "uploadMode"));
    if (!mode || (strcmp(mode, "lfs") != 0 && strcmp(mode, "regular") != 0))
        return odd_answer(err, "does not say how to send", file->path);
    if (json_is_true(json_object_get(entry, "shouldIgnore")))
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "the .gitignore of the branch leaves out %s, and what is left would be "
                        "no capture: change it, or choose another branch",
                        file->path);
    file->lfs = file->size > 0 && (strcmp(mode, "lfs") == 0 || file->size > MAX_REGULAR);
    return QK_OK;
}

static const json_t *entry_of(const json_t *files, size_t likely, const char *path)
{
    const json_t *entry = json_array_get(files, likely);
    for (size_t i = 0; i <= json_array_size(files); i++) {
        const char *name = json_string_value(json_object_get(entry, "path"));
        if (name && strcmp(name, path) == 0)
            return entry;
        entry = json_array_get(files, i);
    }
    return NULL;
}

/* Question number i, for ASK_FILES of the files. */
static qk_status ask_some(void *context, size_t i, qk__connection *c, qk_error *err)
{
    qk__put *put = context;
    size_t first = i * ASK_FILES, left = put->num_differing - first;
    size_t count = left < ASK_FILES ? left : ASK_FILES;
    json_t *body = NULL, *answer = NULL;
    qk_error why = {.status = QK_OK};
    qk_status status = question(put, first, count, &body, &why);
    if (status != QK_OK)
        return qk__fail(err, status, "%s", why.message);
    char *address = qk__fetch_address(&put->fetch, "/preupload/", put->fetch.revision);
    status = qk__put_json(c, address, false, body, &answer, err);
    const json_t *files = json_object_get(answer, "files");
    for (size_t j = 0; status == QK_OK && j < count; j++) {
        qk__put_file *file = &put->files.items[put->differing[first + j]];
        status = take_mode(file, entry_of(files, j, file->path), err);
    }
    json_decref(answer);
    free(address);
    return status;
}

static qk_status hash_one(void *context, size_t i, qk__connection *c, qk_error *err)
{
    qk__put *put = context;
    qk__put_file *file = &put->files.items[put->differing[i]];
    (void)c;
    return *(file->lfs ? file->sha256 : file->oid)
               ? QK_OK
               : qk__put_hash(&put->fetch, file, file->lfs, err);
}

qk_status qk__put_ask_modes(qk__put *put, qk_error *err)
{
    size_t questions = (put->num_differing + ASK_FILES - 1) / ASK_FILES;
    int64_t bytes = 0;
    QK_TRY(qk__crew_run(&put->crew, questions, ask_some, put, err));
    for (size_t i = 0; i < put->num_differing; i++)
        bytes += put->files.items[put->differing[i]].size;
    qk__put_measure(put, bytes);
    return qk__crew_run(&put->crew, put->num_differing, hash_one, put, err);
}

/* ---- an answer of the store -------------------------------------------------------------- */

/* An address must be one of http or https; from an encrypted Hub to what is not encrypted nothing
 * goes. */
static qk_status check_address(const qk__fetch *f, const char *address, const char *path,
                               qk_error *err)
{
    char *origin = NULL;
    if (!address || strlen(address) > QK__MAX_ADDRESS)
        return odd_answer(err, "has no address to send to", path);
    for (const char *p = address; *p; p++)
        if ((unsigned char)*p <= 0x20 || *p == 0x7f)
            return odd_answer(err, "has an address with a space or control character", path);
    qk_status status = qk__context(err, qk__origin_of(&f->libraries, address, &origin, err),
                                   "the Hub's answer for %.200s", path);
    if (status == QK_OK && strncmp(f->access.origin, "https:", 6) == 0 &&
        strncmp(origin, "https:", 6) != 0)
        status = qk__fail(err, QK_ERR_MALFORMED,
                          "the Hub's answer for %.200s sends to %s, which is not encrypted: "
                          "refused",
                          path, origin);
    free(origin);
    return status;
}

static const char *action_address(const json_t *object, const char *action)
{
    const json_t *actions = json_object_get(object, "actions");
    return json_string_value(json_object_get(json_object_get(actions, action), "href"));
}

/* A size in "header" of an action, which is a text or a number; -1: there is none; 0: it is none. */
static int64_t part_size(const json_t *header)
{
    const json_t *value = json_object_get(header, "chunk_size");
    const char *text = json_string_value(value);
    if (!value)
        return -1;
    if (!text)
        return json_integer_value(value);
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits <= 15 && !text[digits] ? strtoll(text, NULL, 10) : 0;
}

/* Addresses of parts are members named by number, 1 to count, perhaps with zeros before it. */
static qk_status read_parts(const qk__fetch *f, const qk__put_file *file, const json_t *header,
                            qk__put_target *target, qk_error *err)
{
    const char *key;
    json_t *value;
    size_t found = 0;
    json_object_foreach((json_t *)(uintptr_t)header, key, value)
    {
        size_t digits = strspn(key, "0123456789");
        if (digits == 0 || key[digits] || digits > 9)
            continue;
        size_t number = (size_t)strtol(key, NULL, 10);
        if (number < 1 || number > target->count || target->addresses[number - 1])
            return odd_answer(err, "has parts that are none", file->path);
        QK_TRY(check_address(f, json_string_value(value), file->path, err));
        target->addresses[number - 1] = json_string_value(value);
        found++;
    }
    return found == target->count ? QK_OK
                                  : odd_answer(err, "has no address for a part", file->path);
}

static qk_status read_target(const qk__fetch *f, const qk__put_file *file, const json_t *object,
                             qk__put_target *target, qk_error *err)
{
    const json_t *upload = json_object_get(json_object_get(object, "actions"), "upload");
    const json_t *header = json_object_get(upload, "header");
    int64_t size = part_size(header);
    QK_TRY(check_address(f, action_address(object, "upload"), file->path, err));
    if (size == 0 || (size > 0 && (file->size - 1) / size >= MAX_PARTS))
        return odd_answer(err, "wants parts of no size that will do", file->path);
    target->part = size;
    target->count = size > 0 ? (size_t)((file->size - 1) / size) + 1 : 1;
    target->addresses = qk__calloc(target->count, sizeof *target->addresses);
    target->etags = size > 0 ? qk__calloc(target->count, sizeof *target->etags) : NULL;
    if (!target->addresses || (size > 0 && !target->etags))
        return qk__nomem(err);
    if (size > 0)
        return read_parts(f, file, header, target, err);
    target->addresses[0] = action_address(object, "upload");
    return QK_OK;
}

/* ---- one file ---------------------------------------------------------------------------- */

/* Has the store put the parts together. */
static qk_status join_parts(qk__connection *c, const qk__put_file *file, const char *address,
                            const qk__put_target *target, qk_error *err)
{
    json_t *parts = json_array();
    for (size_t i = 0; i < target->count; i++)
        parts = qk__json_append(parts, json_pack("{s:I, s:s}", "partNumber", (json_int_t)i + 1,
                                                 "etag", target->etags[i]));
    return qk__put_post(c, address, true,
                        json_pack("{s:s, s:o}", "oid", file->sha256, "parts", parts), err);
}

static qk_status send_one(qk__put *put, qk__connection *c, const qk__put_file *file,
                          const json_t *object, bool *stale, qk_error *err)
{
    const qk__fetch *f = &put->fetch;
    const json_t *actions = json_object_get(object, "actions");
    qk__put_target target = {0};
    *stale = false;
    if (!actions || json_is_null(actions)) { /* it is there */
        qk__fetch_tick(&put->fetch, file->size, 0);
        return QK_OK;
    }
    qk_status status = read_target(f, file, object, &target, err);
    if (status == QK_OK)
        status = qk__put_send(c, file, &target, stale, err);
    if (status == QK_OK && target.etags)
        status = join_parts(c, file, action_address(object, "upload"), &target, err);
    free(target.addresses);
    free(target.etags);
    return qk__context(err, status, "%s", file->path);
}

/* ---- many files -------------------------------------------------------------------------- */

static qk_status ask_store(qk__put *put, qk__connection *c, qk__put_file *const *files,
                           size_t count, json_t **answer, qk_error *err)
{
    const qk__fetch *f = &put->fetch;
    json_t *objects = json_array();
    for (size_t i = 0; i < count; i++)
        objects = qk__json_append(objects, json_pack("{s:s, s:I}", "oid", files[i]->sha256,
                                                     "size", (json_int_t)files[i]->size));
    char *address =
        qk__format("%s/datasets/%s.git/info/lfs/objects/batch", f->access.endpoint, f->name);
    qk_status status =
        qk__put_json(c, address, true,
                     json_pack("{s:s, s:[s,s], s:o, s:s, s:{s:s}}", "operation", "upload",
                               "transfers", "basic", "multipart", "objects", objects,
                               "hash_algo", "sha256", "ref", "name", f->revision),
                     answer, err);
    free(address);
    return status;
}

/* What the answer says of a file; NULL with an error. */
static const json_t *object_of(const json_t *answer, const qk__put_file *file, qk_error *err)
{
    const json_t *objects = json_object_get(answer, "objects"), *found = NULL;
    for (size_t i = 0; i < json_array_size(objects); i++) {
        const json_t *object = json_array_get(objects, i);
        const char *oid = json_string_value(json_object_get(object, "oid"));
        if (!oid || strcmp(oid, file->sha256) != 0)
            continue;
        if (found || json_integer_value(json_object_get(object, "size")) != file->size) {
            (void)odd_answer(err, "has two of one file, or another size", file->path);
            return NULL;
        }
        found = object;
    }
    const json_t *fault = json_object_get(found, "error");
    const char *message = json_string_value(json_object_get(fault, "message"));
    if (!found)
        (void)odd_answer(err, "leaves out a file", file->path);
    else if (fault)
        (void)qk__fail(err, QK_ERR_IO, "%s: the Hub does not store it: %.300s (code %lld)",
                       file->path, message ? message : "",
                       (long long)json_integer_value(json_object_get(fault, "code")));
    return fault ? NULL : found;
}

/* Asks anew for the address of one file, and sends it. */
static qk_status renew(qk__put *put, qk__connection *c, qk__put_file *file, bool *stale,
                       qk_error *err)
{
    json_t *answer = NULL;
    qk_status status = ask_store(put, c, &file, 1, &answer, err);
    const json_t *object = status == QK_OK ? object_of(answer, file, err) : NULL;
    if (status == QK_OK)
        status = object ? send_one(put, c, file, object, stale, err) : err->status;
    json_decref(answer);
    return status;
}

/* Tells the Hub that its store has a file. */
static qk_status tell_one(qk__put *put, qk__connection *c, const qk__put_file *file,
                          const char *address, qk_error *err)
{
    QK_TRY(check_address(&put->fetch, address, file->path, err));
    qk_status status = qk__put_post(
        c, address, true,
        json_pack("{s:s, s:I}", "oid", file->sha256, "size", (json_int_t)file->size), err);
    if (status == QK_ERR_NOT_FOUND && qk__connection_answer(c)->status == 404)
        status =
            qk__fail(err, QK_ERR_IO, "its store took it, and the Hub does not find it there");
    return qk__context(err, status, "%s", file->path);
}

/* The Hub may want to be told of each file that is stored, by a request. So it is asked once more
 * for all: what it knows by now needs none. */
static qk_status tell_stored(qk__put *put, qk__connection *c, qk__put_file *const *files,
                             size_t count, qk_error *err)
{
    json_t *answer = NULL;
    qk_status status = ask_store(put, c, files, count, &answer, err);
    for (size_t i = 0; status == QK_OK && i < count; i++) {
        const json_t *object = object_of(answer, files[i], err);
        const char *address = action_address(object, "verify");
        if (!object)
            status = err->status;
        else if (address)
            status = tell_one(put, c, files[i], address, err);
    }
    json_decref(answer);
    return status;
}

static qk_status store_some(void *context, size_t i, qk__connection *c, qk_error *err)
{
    qk__put *put = context;
    qk__put_file *const *files = put->large + put->chunks[i];
    size_t count = put->chunks[i + 1] - put->chunks[i];
    json_t *answer = NULL;
    qk_error why = {.status = QK_OK};
    bool any = false;
    qk_status status = ask_store(put, c, files, count, &answer, &why);
    if (status == QK_OK && json_array_size(json_object_get(answer, "objects")) != count)
        status = qk__fail(&why, QK_ERR_MALFORMED,
                          "the Hub's answer is not about the %zu files asked for", count);
    for (size_t j = 0; status == QK_OK && j < count; j++) {
        bool stale = false;
        const json_t *object = object_of(answer, files[j], &why);
        any |= action_address(object, "verify") != NULL;
        status = object ? send_one(put, c, files[j], object, &stale, &why) : why.status;
        for (int k = 0; status != QK_OK && stale && k < MAX_RENEWALS; k++)
            status = renew(put, c, files[j], &stale, &why);
    }
    json_decref(answer);
    if (status == QK_OK && any)
        status = tell_stored(put, c, files, count, &why);
    return status == QK_OK ? QK_OK : qk__fail(err, status, "%s", why.message);
}

static int compare_hashes(const void *a, const void *b)
{
    return strcmp((*(qk__put_file *const *)a)->sha256, (*(qk__put_file *const *)b)->sha256);
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp((*(qk__put_file *const *)a)->path, (*(qk__put_file *const *)b)->path);
}

/* Files of the same bytes are one to the store. */
static void leave_out_equals(qk__put *put)
{
    size_t kept = 0;
    qsort(put->large, put->num_large, sizeof(qk__put_file *), compare_hashes);
    for (size_t i = 0; i < put->num_large; i++)
        if (kept == 0 || strcmp(put->large[kept - 1]->sha256, put->large[i]->sha256) != 0)
            put->large[kept++] = put->large[i];
    put->num_large = kept;
    qsort(put->large, put->num_large, sizeof(qk__put_file *), compare_paths);
}

/* Splits them into what is asked about, and sent by one thread, at a time; returns the number. */
static size_t split(qk__put *put)
{
    size_t chunks = 0;
    int64_t bytes = 0, total = 0;
    for (size_t i = 0; i < put->num_large; i++) {
        bool full = chunks == 0 || i - put->chunks[chunks - 1] == ASK_FILES ||
                    bytes + put->large[i]->size > CHUNK_BYTES;
        if (full)
            put->chunks[chunks++] = i;
        bytes = (full ? 0 : bytes) + put->large[i]->size;
        total += put->large[i]->size;
    }
    put->chunks[chunks] = put->num_large;
    qk__put_measure(put, total);
    return chunks;
}

qk_status qk__put_store(qk__put *put, qk_error *err)
{
    put->large = qk__calloc(put->num_differing + 1, sizeof(qk__put_file *));
    put->chunks = qk__calloc(put->num_differing + 1, sizeof *put->chunks);
    if (!put->large || !put->chunks)
        return qk__nomem(err);
    for (size_t i = 0; i < put->num_differing; i++) {
        qk__put_file *file = &put->files.items[put->differing[i]];
        if (file->lfs)
            put->large[put->num_large++] = file;
    }
    if (put->num_large > 1)
        leave_out_equals(put);
    return qk__crew_run(&put->crew, split(put), store_some, put, err);
}
