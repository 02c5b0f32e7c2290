/* SPDX-License-Identifier: Apache-2.0 */
/* A unit's file `seal` binds what it holds to the place it was made for. Copied to another unit's name, or to
 * another run, a unit is as whole as ever, so fingerprints of its files alone would not tell.
 *
 *     qkscope unit 1
 *     RUN/UNIT
 *     FINGERPRINT FILE       a line for each, by name
 *     FINGERPRINT            of all lines before */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "work/units.h"

#define SEAL       "seal"
#define FORMAT     "qkscope unit "
#define FIRST_LINE FORMAT "1\n"
enum { DIGITS = QK__FINGERPRINT_SIZE - 1, MAX_SEAL = 1 << 20 };

/* ---- writing ---------------------------------------------------------------------------- */

static const char *name_of_run(const qk__unit_folder *units)
{
    return strrchr(units->path, '/') + 1;
}

static qk_status add_file(qk__buffer *text, const char *folder, const char *name, qk_error *err)
{
    char hash[QK__FINGERPRINT_SIZE];
    int64_t size;
    char *path = qk__path_join(folder, name);
    qk_status status = path ? qk__fingerprint_file(path, &size, hash, err) : qk__nomem(err);
    if (status == QK_OK)
        status = qk__buffer_printf(text, err, "%s %s\n", hash, name);
    free(path);
    return status;
}

static qk_status put_unit_text(qk__buffer *text, const qk__unit_folder *units, const char *unit,
                               const char *folder, qk_error *err)
{
    char hash[QK__FINGERPRINT_SIZE];
    qk__names names;
    QK_TRY(qk__buffer_printf(text, err, FIRST_LINE "%s/%s\n", name_of_run(units), unit));
    QK_TRY(qk__list_dir(folder, &names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; i < names.count && status == QK_OK; i++)
        status = add_file(text, folder, names.items[i], err);
    qk__names_free(&names);
    QK_TRY(status);
    qk__fingerprint_bytes(text->data, text->size, hash);
    return qk__buffer_printf(text, err, "%s\n", hash);
}

qk_status qk__unit_seal(const qk__unit_folder *units, const char *unit, const char *folder,
                        qk_error *err)
{
    qk__buffer text = {0};
    if (qk__is_file_in(folder, SEAL)) /* a copy, which is what its seal says or nothing */
        return QK_OK;
    qk_status status = put_unit_text(&text, units, unit, folder, err);
    if (status == QK_OK)
        status = qk__write_file_in(folder, SEAL, text.data, text.size, err);
    qk__buffer_free(&text);
    return status;
}

/* ---- reading ---------------------------------------------------------------------------- */

bool qk__unit_is_sealed(const qk__unit_folder *units, const char *unit)
{
    char file[NAME_MAX + sizeof "/" SEAL];
    int length = snprintf(file, sizeof file, "%s/" SEAL, unit);
    return length > 0 && (size_t)length < sizeof file && qk__is_file_in(units->path, file);
}

static bool begins_with(const qk__buffer *text, const char *start)
{
    size_t length = strlen(start);
    return text->size >= length && memcmp(text->data, start, length) == 0;
}

/* Whether the last line is the fingerprint of those before. */
static bool is_whole(const qk__buffer *text)
{
    char hash[QK__FINGERPRINT_SIZE];
    if (text->size < DIGITS + 2 || memchr(text->data, 0, text->size))
        return false;
    size_t before = text->size - DIGITS - 1;
    qk__fingerprint_bytes(text->data, before, hash);
    return text->data[before - 1] == '\n' && memcmp(text->data + before, hash, DIGITS) == 0 &&
           text->data[text->size - 1] == '\n';
}

static qk_status check_place(const qk__buffer *text, const char *run, const char *unit,
                             qk_error *err)
{
    if (begins_with(text, FORMAT) && !begins_with(text, FIRST_LINE))
        return qk__fail(err, QK_ERR_UNSUPPORTED, "written by a later qkscope");
    if (!is_whole(text) || !begins_with(text, FIRST_LINE))
        return qk__fail(err, QK_ERR_MALFORMED, "its file " SEAL " is damaged");
    const char *place = (const char *)text->data + sizeof FIRST_LINE - 1;
    size_t length = strcspn(place, "\n"), of_run = strlen(run);
    if (length == of_run + 1 + strlen(unit) && strncmp(place, run, of_run) == 0 &&
        place[of_run] == '/' && strncmp(place + of_run + 1, unit, strlen(unit)) == 0)
        return QK_OK;
    return qk__fail(err, QK_ERR_MALFORMED, "it does not belong here: it was made as %.*s",
                    (int)length, place);
}

/* Names are not cut: a line begins behind a line. */
static qk_status check_file(const qk__buffer *text, const char *folder, const char *file,
                            qk_error *err)
{
    qk__buffer line = {0};
    qk_status status = qk__buffer_printf(&line, err, "\n");
    if (status == QK_OK)
        status = add_file(&line, folder, file, err);
    if (status == QK_OK && !strstr((const char *)text->data, (const char *)line.data))
        status = qk__fail(err, QK_ERR_MALFORMED,
                          "%s: its bytes are not those that were written", file);
    qk__buffer_free(&line);
    return status;
}

qk_status qk__unit_check(const qk__unit_folder *units, const char *unit, const char *file,
                         qk_error *err)
{
    qk__buffer text = {0};
    char *folder = qk__path_join(units->path, unit);
    char *path = folder ? qk__path_join(folder, SEAL) : NULL;
    qk_status status = path ? qk__read_file(path, MAX_SEAL, &text, err) : qk__nomem(err);
    if (status == QK_OK)
        status = check_place(&text, name_of_run(units), unit, err);
    if (status == QK_OK && file)
        status = check_file(&text, folder, file, err);
    qk__buffer_free(&text);
    free(folder);
    free(path);
    return status;
}
