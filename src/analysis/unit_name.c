/* SPDX-License-Identifier: Apache-2.0 */
/* What the results of a unit follow from, as names: the run's, of everything that all units have in
 * common, and behind a unit's, of its own files. A unit under its name is thus always of these
 * settings, this version and this capture.
 *
 * Files are not read for it, which is what the units are about: of each, its size and three places
 * count. That tells two captures apart, since floats of other rows differ everywhere; times of files
 * do not, since each machine may have a copy of its own. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/config.h"
#include "analysis/run_manifest.h"
#include "analysis/sharing.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "base/json.h"
#include "settings/settings.h"

/* ---- settings as texts ------------------------------------------------------------------ */

typedef struct visit {
    qk__see_setting_fn *see;
    void *user;
    qk_status status;
    qk_error *err;
} visit;

static void visit_setting(void *user, const qk_setting *row, const void *member)
{
    visit *v = user;
    if (v->status != QK_OK || !row->name)
        return;
    size_t size = qk__setting_format(row, member, NULL, 0) + 1;
    char *text = malloc(size);
    if (!text)
        v->status = qk__nomem(v->err);
    else if (qk__setting_format(row, member, text, size) > 0)
        v->status = v->see(v->user, row->name, text, v->err);
    free(text);
}

qk_status qk__each_setting(const qk_analysis_settings *settings, qk__see_setting_fn *see,
                           void *user, qk_error *err)
{
    visit v = {see, user, QK_OK, err};
    qk__settings_each(&qk_analysis_settings_table, settings, visit_setting, &v);
    return v.status;
}

/* ---- the run ---------------------------------------------------------------------------- */

/* All but settings that say where things are and how a run goes, and the model's name, which the
 * results know better. */
bool qk__setting_decides(const char *name)
{
    static const char *const NAMES[] = {"output",     "force",      "threads",
                                        "capture",    "local-root", "split",
                                        "model-name", "revision",   "offline"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(name, NAMES[i]) == 0)
            return false;
    return true;
}

static qk_status add_setting(void *user, const char *name, const char *text, qk_error *err)
{
    return qk__setting_decides(name) ? qk__buffer_printf(user, err, "%s=%s\n", name, text)
                                     : QK_OK;
}

static long long size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (long long)st.st_size : -1;
}

static qk_status add_file(const qk__run *run, qk__input input, qk__buffer *text, qk_error *err)
{
    char *name = qk__input_name(run, &input);
    qk_status status =
        name ? qk__buffer_printf(text, err, "%s %lld\n", name, size_of(input.path))
             : qk__nomem(err);
    free(name);
    return status;
}

static qk_status add_files(const qk__run *run, qk__buffer *text, qk_error *err)
{
    for (size_t i = 0; i < qk_capture_num_heads(run->capture); i++) {
        const qk_head *head = qk_capture_head(run->capture, i);
        for (size_t f = 0; f < head->num_files; f++)
            QK_TRY(add_file(run, (qk__input){head->files[f], head, f, {0}}, text, err));
    }
    for (size_t i = 0; i < run->states.files; i++)
        QK_TRY(add_file(run, (qk__input){.path = run->states.layers[i].path}, text, err));
    return QK_OK;
}

static qk_status add_capture_json(const qk__run *run, qk__buffer *text, qk_error *err)
{
    json_t *of = qk__describe_capture_json(run);
    char *dump = qk__json_dumps(of, JSON_COMPACT | JSON_ENCODE_ANY);
    qk_status status =
        dump ? qk__buffer_printf(text, err, "capture.json %s\n", dump) : qk__nomem(err);
    free(dump);
    json_decref(of);
    return status;
}

static qk_status put_settings_text(const qk__run *run, qk__buffer *text, qk_error *err)
{
    const qk_analysis_results *results = run->results;
    const qk__buckets *b = &run->buckets;
    QK_TRY(qk__buffer_printf(text, err, "qkscope %s\nmodel %s\nlayers %d\ngroup %d\n",
                             QK_VERSION, results->model, results->num_layers,
                             results->group.size));
    QK_TRY(qk__buffer_printf(text, err, "buckets %d %lld %lld %a\n", b->count,
                             (long long)b->first, (long long)b->last,
                             run->settings->plasticity.bucket_width));
    QK_TRY(qk__unit_layout(text, err));
    QK_TRY(qk__each_setting(run->settings, add_setting, text, err));
    QK_TRY(add_capture_json(run, text, err));
    return add_files(run, text, err);
}

qk_status qk__name_run(const qk__run *run, char name[QK__RUN_NAME_SIZE], qk_error *err)
{
    qk__buffer text = {0};
    char hash[QK__FINGERPRINT_SIZE];
    qk_status status = put_settings_text(run, &text, err);
    if (status == QK_OK) {
        qk__fingerprint_bytes(text.data, text.size, hash);
        snprintf(name, QK__RUN_NAME_SIZE, "%.*s", QK__RUN_NAME_SIZE - 1, hash);
    }
    qk__buffer_free(&text);
    return status;
}

/* ---- a unit ----------------------------------------------------------------------------- */

enum { PLACES = 3, PLACE_BYTES = 4096, UNIT_DIGITS = 12 };

/* The beginning, the middle and the end of a file; one that cannot be read is another file. */
static qk_status add_places(const char *path, qk__buffer *bytes, qk_error *err)
{
    uint8_t place[PLACE_BYTES];
    int64_t size = -1;
    int fd;
    if (qk__open_file(path, &fd, &size, NULL) != QK_OK)
        return qk__buffer_append(bytes, "unreadable", sizeof "unreadable", err);
    qk_status status = qk__buffer_append(bytes, &size, sizeof size, err);
    int64_t room = size > PLACE_BYTES ? size - PLACE_BYTES : 0;
    for (int64_t i = 0; i < PLACES && status == QK_OK; i++) {
        ssize_t got = pread(fd, place, sizeof place, (off_t)(room * i / (PLACES - 1)));
        status = qk__buffer_append(bytes, place, got > 0 ? (size_t)got : 0, err);
    }
    close(fd);
    return status;
}

static qk_status add_head(void *user, const qk_head *head, qk_error *err)
{
    for (size_t f = 0; f < head->num_files; f++)
        QK_TRY(add_places(head->files[f], user, err));
    return head->moments ? add_places(head->moments, user, err) : QK_OK;
}

qk_status qk__name_unit(const qk__run *run, qk__unit *unit, qk_error *err)
{
    qk__buffer bytes = {0};
    char hash[QK__FINGERPRINT_SIZE];
    qk_status status = qk__unit_heads(run, unit, add_head, &bytes, err);
    if (status == QK_OK) {
        size_t length = strlen(unit->name);
        qk__fingerprint_bytes(bytes.data, bytes.size, hash);
        snprintf(unit->name + length, sizeof unit->name - length, "-%.*s", UNIT_DIGITS, hash);
        unit->named = true;
    }
    qk__buffer_free(&bytes);
    return status;
}
