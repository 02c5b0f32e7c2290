/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the files that hold the texts of a run, and goes through their texts. */
#include "recorder/texts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include <qkscope/capture.h>
#include <qkscope/hub.h>
#include <qkscope/model.h>

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "hub/hub.h"
#include "paths/part_names.h"
#include "paths/path_kind.h"

enum { MAX_DEPTH = 32 };

typedef struct file_list {
    char **paths;
    size_t count, capacity;
} file_list;

struct qk__texts {
    qk__text_columns columns;
    int64_t max_examples;
    const qk_recorder_engine *engine; /* has the texts; NULL: the files have them */
    file_list files;
    size_t file; /* the next file to open */
    const qk__text_format *format;
    void *reader;
    int64_t number; /* of the next text */
};

/* ---- formats ---------------------------------------------------------------------------- */

/* A file with a larger share of bytes that are no UTF-8 is no text. */
static const double MOST_BROKEN = 0.1;

static size_t count_broken(const uint8_t *text, size_t size)
{
    size_t broken = 0;
    for (size_t at = 0; at < size; at++) {
        at += qk__utf8_valid(text + at, size - at);
        broken += at < size;
    }
    return broken;
}

static qk_status check_text(const uint8_t *text, size_t size, qk_error *err)
{
    static const char REMEDY[] = "leave it out, or give the texts in it as UTF-8";
    bool wide = size >= 2 &&
                ((text[0] == 0xff && text[1] == 0xfe) || (text[0] == 0xfe && text[1] == 0xff));
    const uint8_t *zero = size > 0 ? memchr(text, 0, size) : NULL;
    if (wide)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "is text in UTF-16: write it as UTF-8");
    if (zero)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "is not a text (byte %zu is zero): %s",
                        (size_t)(zero - text), REMEDY);
    size_t broken = count_broken(text, size);
    if ((double)broken > MOST_BROKEN * (double)size)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "is not a text in UTF-8 (%.0f %% of its bytes are none): %s",
                        100 * (double)broken / (double)size, REMEDY);
    return QK_OK;
}

/* A file that is one text. */
typedef struct whole_file {
    const char *path; /* NULL: the text has been handed out */
    qk__buffer contents;
} whole_file;

static void close_whole(void *reader)
{
    qk__buffer_free(&((whole_file *)reader)->contents);
}

static qk_status open_whole(void *reader, const char *path, const qk__text_columns *columns,
                            qk_error *err)
{
    (void)columns, (void)err;
    ((whole_file *)reader)->path = path;
    return QK_OK;
}

static qk_status next_whole(void *reader, qk__input_text *text, bool *more, qk_error *err)
{
    whole_file *file = reader;
    *more = file->path != NULL;
    if (!*more)
        return QK_OK;
    QK_TRY(qk__read_file(file->path, QK_MAX_TEXT_BYTES, &file->contents, err));
    file->path = NULL;
    QK_TRY(check_text(file->contents.data, file->contents.size, err));
    const size_t mark = qk__utf8_mark(file->contents.data, file->contents.size);
    text->data = (const char *)file->contents.data + mark;
    text->size = file->contents.size - mark;
    return QK_OK;
}

static const qk__text_format WHOLE_FILE = {sizeof(whole_file), open_whole, next_whole,
                                           close_whole};

static const qk__text_format *format_of(const char *path)
{
    static const struct {
        const char *ending;
        const qk__text_format *format;
    } FORMATS[] = {{".jsonl", &qk__text_json},     {".ndjson", &qk__text_json},
                   {".jsonlines", &qk__text_json}, {".json", &qk__text_json},
                   {".csv", &qk__text_csv},        {".tsv", &qk__text_csv},
                   {".parquet", &qk__text_parquet}};
    for (size_t i = 0; i < sizeof FORMATS / sizeof *FORMATS && !qk__is_repeat(path); i++)
        if (qk__ends_with_any_case(path, FORMATS[i].ending))
            return FORMATS[i].format;
    return qk__is_repeat(path) ? &qk__text_repeat : &WHOLE_FILE;
}

/* ---- which files ------------------------------------------------------------------------ */

/* Takes path over. */
static qk_status add_path(file_list *list, char *path, qk_error *err)
{
    if (list->count == list->capacity) {
        char **paths = qk__grow(list->paths, &list->capacity, sizeof *paths);
        if (!paths) {
            free(path);
            return qk__nomem(err);
        }
        list->paths = paths;
    }
    list->paths[list->count++] = path;
    return QK_OK;
}

/* Links to files are followed (the Hugging Face cache consists of them). Links to folders are not: they may lead in
 * circles. */
static qk_status add_folder(file_list *list, const char *folder, int depth, qk_error *err);

/* Takes path over. Pipes and the like are passed over. A link that leads nowhere is kept: its text is missing. */
static qk_status add_entry(file_list *list, char *path, int depth, qk_error *err)
{
    struct stat entry;
    struct stat target;
    qk_status status = QK_OK;
    if (lstat(path, &entry) != 0 || stat(path, &target) != 0)
        status =
            qk__fail(err, QK_ERR_NOT_FOUND, "%s: cannot be read: %s", path, strerror(errno));
    else if (S_ISDIR(entry.st_mode))
        status = add_folder(list, path, depth + 1, err);
    else if (S_ISREG(target.st_mode))
        return add_path(list, path, err);
    free(path);
    return status;
}

static qk_status add_folder(file_list *list, const char *folder, int depth, qk_error *err)
{
    if (depth > MAX_DEPTH)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "%s: folders more than %d deep", folder,
                        MAX_DEPTH);
    qk__names names;
    QK_TRY(qk__list_dir(folder, &names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; status == QK_OK && i < names.count; i++) {
        if (names.items[i][0] == '.')
            continue;
        char *path = qk__path_join(folder, names.items[i]);
        status = path ? add_entry(list, path, depth, err) : qk__nomem(err);
    }
    qk__names_free(&names);
    return status;
}

/* Keeps the files from `first` on for which `keep` is true; keeps all if `some` is set and none would be left. */
typedef bool keep_fn(const char *path, const char *word);

static void filter(file_list *list, size_t first, size_t skip, keep_fn *keep, const char *word,
                   bool some)
{
    size_t wanted = 0;
    for (size_t i = first; i < list->count; i++)
        wanted += keep(list->paths[i] + skip, word);
    if (wanted == 0 && some)
        return;
    size_t kept = first;
    for (size_t i = first; i < list->count; i++) {
        if (keep(list->paths[i] + skip, word))
            list->paths[kept++] = list->paths[i];
        else
            free(list->paths[i]);
    }
    list->count = kept;
}

static bool keep_tables(const char *path, const char *word)
{
    (void)word;
    return format_of(path) != &WHOLE_FILE;
}

static qk_status add_place(file_list *list, const char *path,
                           const qk_recorder_settings *settings, qk_error *err)
{
    size_t first = list->count;
    size_t skip = strlen(path);
    bool dataset = settings->dataset_name || settings->dataset_split;
    QK_TRY(add_folder(list, path, 0, err));
    if (dataset)
        filter(list, first, skip, keep_tables, NULL, false);
    if (settings->dataset_name)
        filter(list, first, skip, qk__has_word, settings->dataset_name, true);
    if (settings->dataset_split)
        filter(list, first, skip, qk__has_word, settings->dataset_split, true);
    if (list->count == first)
        return qk__fail(err, QK_ERR_DEGENERATE, "%s: no %s in this folder", path,
                        dataset ? "Parquet, JSON or CSV files" : "files");
    return qk__parts_check(list->paths + first, list->count - first, err);
}

/* Of a dataset on the Hub, only the files with texts of the split. */
static qk_status add_dataset(file_list *list, const char *name,
                             const qk_recorder_settings *settings, qk_error *err)
{
    qk_recorder_settings with_split = *settings;
    if (!with_split.dataset_split)
        with_split.dataset_split = "train";
    const qk_hub_wanted wanted = {.name = name,
                                  .part = QK_HUB_TEXTS,
                                  .text_name = with_split.dataset_name,
                                  .text_split = with_split.dataset_split,
                                  .context = settings->context};
    qk_hub_place place;
    QK_TRY(qk_hub_get(&wanted, &place, err));
    qk_status status = add_place(list, place.path, &with_split, err);
    free(place.path);
    return status;
}

/* All files below a folder are taken for texts; a file of something else would be read for hours. */
static qk_status refuse_other(const char *path, qk_error *err)
{
    qk__path_kind kind = qk__path_look(path);
    bool texts = kind == QK__PATH_OTHER || kind == QK__PATH_TEXTS;
    return texts ? QK_OK : qk__path_tell(path, QK__PATH_TEXTS, QK_ERR_NOT_FOUND, err);
}

/* Spelt in full, so that the same texts have one name. */
static qk_status add_repeat(file_list *list, const char *source, qk_error *err)
{
    qk__repeat repeat;
    qk__buffer name = {0};
    QK_TRY(qk__read_repeat(source, &repeat, err));
    QK_TRY(qk__buffer_printf(&name, err, "repeat:%" PRId64 "x%" PRId64 ":%" PRId64 ":%" PRIu64,
                             repeat.length, repeat.times, repeat.count, repeat.seed));
    return add_path(list, (char *)name.data, err);
}

static qk_status add_source(file_list *list, const char *path,
                            const qk_recorder_settings *settings, qk_error *err)
{
    struct stat st;
    if (qk__is_repeat(path))
        return add_repeat(list, path, err);
    if (qk__is_dir(path)) {
        QK_TRY(refuse_other(path, err));
        return add_place(list, path, settings, err);
    }
    if (stat(path, &st) == 0) {
        if (!S_ISREG(st.st_mode))
            return qk__fail(err, QK_ERR_NOT_FOUND, "%s: neither a file nor a folder", path);
        char *copy = qk__strdup(path);
        return copy ? add_path(list, copy, err) : qk__nomem(err);
    }
    if (!qk_hub_is_remote(path))
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%s: no such file or folder (nor the name of a Hub dataset, org/name)",
                        path);
    return add_dataset(list, path, settings, err);
}

qk_status qk__texts_open(qk__texts **texts, const qk_recorder_settings *settings, qk_error *err)
{
    *texts = NULL;
    qk__texts *t = calloc(1, sizeof *t);
    if (!t)
        return qk__nomem(err);
    t->columns = (qk__text_columns){settings->text_column ? settings->text_column : "text",
                                    settings->id_column};
    t->max_examples = settings->max_examples;
    t->engine = settings->engine && settings->engine->next ? settings->engine : NULL;
    qk_status status = QK_OK;
    for (size_t i = 0; status == QK_OK && i < settings->num_texts; i++)
        status = add_source(&t->files, settings->texts[i], settings, err);
    if (status != QK_OK)
        qk__texts_close(&t);
    *texts = t;
    return status;
}

/* ---- going through them ----------------------------------------------------------------- */

static void close_file(qk__texts *texts)
{
    if (texts->reader)
        texts->format->close(texts->reader);
    free(texts->reader);
    texts->reader = NULL;
}

void qk__texts_rewind(qk__texts *texts)
{
    close_file(texts);
    texts->file = 0;
    texts->number = 0;
}

void qk__texts_close(qk__texts **texts)
{
    if (!*texts)
        return;
    close_file(*texts);
    qk__strings_free((*texts)->files.paths, (*texts)->files.count);
    free(*texts);
    *texts = NULL;
}

static qk_status next_of_engine(const qk__texts *texts, qk__input_text *text, bool *more,
                                qk_error *err)
{
    const qk_recorder_engine *engine = texts->engine;
    qk_recorder_text given = {0};
    if (texts->number == 0 && !engine->rewind(engine->user))
        return qk__fail(err, QK_ERR_CANCELLED, "%s: rewind failed", engine->tool);
    if (!engine->next(engine->user, &given, more))
        return qk__fail(err, QK_ERR_CANCELLED, "%s: next failed", engine->tool);
    *text = (qk__input_text){.data = given.data,
                             .size = given.size,
                             .has_id = given.has_id,
                             .id = given.id,
                             .name = given.name ? given.name : "",
                             .path = given.path ? given.path : ""};
    return QK_OK;
}

/* The next text of the files, from the open file on. */
static qk_status next_of_files(qk__texts *texts, qk__input_text *text, bool *more,
                               qk_error *err)
{
    *more = false;
    while (!*more) {
        if (!texts->reader) {
            if (texts->file == texts->files.count)
                return QK_OK;
            const char *path = texts->files.paths[texts->file++];
            texts->format = format_of(path);
            texts->reader = qk__calloc(1, texts->format->reader_size);
            if (!texts->reader)
                return qk__nomem(err);
            QK_TRY(texts->format->open(texts->reader, path, &texts->columns, err));
        }
        const char *path = texts->files.paths[texts->file - 1];
        *text = (qk__input_text){.name = ""};
        qk_status status = texts->format->next(texts->reader, text, more, err);
        QK_TRY(texts->format == &qk__text_csv ? status : qk__context(err, status, "%s", path));
        text->path = path;
        if (!*more)
            close_file(texts);
    }
    return QK_OK;
}

qk_status qk__texts_next(qk__texts *texts, qk__input_text *text, bool *more, qk_error *err)
{
    *more = false;
    if (texts->max_examples > 0 && texts->number == texts->max_examples)
        return QK_OK;
    QK_TRY(texts->engine ? next_of_engine(texts, text, more, err)
                         : next_of_files(texts, text, more, err));
    if (*more && !text->has_id)
        text->id = texts->number;
    texts->number += *more;
    return QK_OK;
}
