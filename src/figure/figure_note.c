/* SPDX-License-Identifier: Apache-2.0 */
/* Writes NAME.md and README.md, and commands as a shell takes them. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "figure/figure_note.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/utf8.h"

enum { MAX_NOTE = 1 << 20, VALUE_SIZE = 4096 };

/* ---- text from outside ------------------------------------------------------------------ */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Whether Markdown would see more than a character. '_' within a word is plain. */
static bool is_markup(const char *start, const char *p)
{
    if (*p == '_')
        return p == start || !is_word(p[-1]) || !is_word(p[1]);
    return strchr("\\`*[]<>#|!~&", *p) != NULL;
}

/* Puts text so that Markdown shows it: nothing in it is markup, a link or a new line. */
static qk_status put_plain(qk__buffer *out, const char *text, qk_error *err)
{
    for (const char *rest = text; *rest;) {
        size_t size;
        if (is_markup(text, rest))
            QK_TRY(qk__buffer_append(out, "\\", 1, err));
        const char *character = qk__utf8_shown(&rest, &size);
        QK_TRY(qk__buffer_append(out, character, size, err));
    }
    return QK_OK;
}

/* ---- a note ----------------------------------------------------------------------------- */

static qk_status put_line(qk__buffer *out, const char *what, const char *text, qk_error *err)
{
    if (!text)
        return QK_OK;
    QK_TRY(qk__buffer_printf(out, err, "* %s: ", what));
    QK_TRY(put_plain(out, text, err));
    return qk__buffer_append(out, "\n", 1, err);
}

/* The heading, the picture, what it shows. */
static qk_status put_note_head(const qk__figure_note *note, qk__buffer *out, qk_error *err)
{
    QK_TRY(qk__buffer_printf(out, err, "%s\n# ", QK__NOTE_MARK));
    QK_TRY(put_plain(out, note->title, err));
    QK_TRY(qk__buffer_append(out, "\n\n", 2, err));
    QK_TRY(qk__buffer_append(out, "![", 2, err));
    QK_TRY(put_plain(out, note->title, err));
    QK_TRY(qk__buffer_printf(out, err, "](%s.svg)\n\n", note->name));
    QK_TRY(put_plain(out, note->caption, err));
    if (note->together > 0)
        QK_TRY(qk__buffer_printf(out, err, " All %zu checkpoints together.", note->together));
    return qk__buffer_append(out, "\n\n", 2, err);
}

qk_status qk__note_write(const qk__figure_note *note, qk__buffer *out, qk_error *err)
{
    QK_TRY(put_note_head(note, out, err));
    QK_TRY(put_line(out, "model", note->model, err));
    QK_TRY(put_line(out, "from", note->tables, err));
    QK_TRY(put_line(out, "rows", note->rows, err));
    QK_TRY(put_line(out, "numbers", note->numbers, err));
    QK_TRY(qk__buffer_printf(out, err,
                             "* numbers as drawn: `%s.csv`\n\n"
                             "In this folder, this draws it again:\n\n    %s\n",
                             note->name, note->command));
    if (note->num_say > 0)
        QK_TRY(qk__buffer_printf(out, err, "\n## What these data say\n\n"));
    for (size_t i = 0; i < note->num_say; i++) {
        QK_TRY(qk__buffer_append(out, "* ", 2, err));
        QK_TRY(put_plain(out, note->say[i], err));
        QK_TRY(qk__buffer_append(out, "\n", 1, err));
    }
    return QK_OK;
}

/* ---- the list --------------------------------------------------------------------------- */

static bool has_mark(const qk__buffer *file)
{
    return file->size >= strlen(QK__NOTE_MARK) &&
           memcmp(file->data, QK__NOTE_MARK, strlen(QK__NOTE_MARK)) == 0;
}

qk_status qk__note_look(const char *path, bool *foreign, qk_error *err)
{
    qk__buffer file = {0};
    qk_error why = {0};
    *foreign = qk__is_there(path) && !qk__is_file(path);
    if (*foreign)
        return QK_OK;
    qk_status status = qk__read_file(path, MAX_NOTE, &file, &why);
    *foreign = status == QK_ERR_MALFORMED || (status == QK_OK && !has_mark(&file));
    qk__buffer_free(&file);
    if (status == QK_OK || status == QK_ERR_MALFORMED || status == QK_ERR_NOT_FOUND)
        return QK_OK;
    if (err)
        *err = why;
    return status;
}

/* "* [NAME](NAME.md): title" for a note of ours; nothing for a foreign file. */
static qk_status put_entry(const char *folder, const char *name, qk__buffer *out, qk_error *err)
{
    size_t length = strlen(name);
    if (length < 4 || strcmp(name + length - 3, ".md") != 0 || strcmp(name, QK__LIST_NAME) == 0)
        return QK_OK;
    char *path = qk__path_join(folder, name);
    if (!path)
        return qk__nomem(err);
    qk__buffer file = {0};
    qk_status status = QK_OK;
    if (qk__is_file(path) && qk__read_file(path, MAX_NOTE, &file, NULL) == QK_OK &&
        has_mark(&file)) {
        const char *title = strstr((const char *)file.data, "\n# ");
        int stem = (int)length - 3, size = title ? (int)strcspn(title + 3, "\n") : 0;
        status = qk__buffer_printf(out, err, "* [%.*s](%s): %.*s\n", stem, name, name, size,
                                   title ? title + 3 : "");
    }
    qk__buffer_free(&file);
    free(path);
    return status;
}

qk_status qk__note_list(const char *folder, qk_error *err)
{
    qk__names names;
    qk__buffer out = {0};
    char *path = qk__path_join(folder, QK__LIST_NAME);
    if (!path)
        return qk__nomem(err);
    qk_status status = qk__list_dir(folder, &names, err);
    if (status != QK_OK) {
        free(path);
        return status;
    }
    for (size_t i = 0; i < names.count && status == QK_OK; i++)
        status = put_entry(folder, names.items[i], &out, err);
    qk__names_free(&names);
    qk__buffer page = {0};
    bool foreign = false;
    if (status == QK_OK)
        status = qk__note_look(path, &foreign, err);
    if (status == QK_OK && out.size > 0 && !foreign) {
        status = qk__buffer_printf(&page, err, "%s\n# Figures\n\n%s", QK__NOTE_MARK,
                                   (const char *)out.data);
        if (status == QK_OK)
            status = qk__write_file(path, page.data, page.size, err);
    } else if (status == QK_OK && out.size == 0 && qk__is_file(path) && !foreign) {
        status = qk__remove_file(folder, QK__LIST_NAME, err);
    }
    qk__buffer_free(&page);
    qk__buffer_free(&out);
    free(path);
    return status;
}

/* Whether the figure of a file has a note NAME.md of ours. */
static bool has_note(const char *folder, const char *file, size_t stem)
{
    char *path = qk__format("%s/%.*s.md", folder, (int)stem, file);
    bool foreign, ours = path && qk__is_file(path) &&
                         qk__note_look(path, &foreign, NULL) == QK_OK && !foreign;
    free(path);
    return ours;
}

size_t qk__figure_stem(const char *file)
{
    static const char *const ENDINGS[] = {".svg", ".csv", ".png", ".pdf", ".md", ".gp", ".dat"};
    size_t length = strlen(file);
    for (size_t i = 0; i < sizeof ENDINGS / sizeof *ENDINGS; i++) {
        size_t end = strlen(ENDINGS[i]);
        if (length > end && strcmp(file + length - end, ENDINGS[i]) == 0)
            return length - end;
    }
    return 0;
}

qk_status qk__note_files(const char *folder, qk__names *files, qk_error *err)
{
    QK_TRY(qk__list_dir(folder, files, err));
    size_t kept = 0;
    for (size_t i = 0; i < files->count; i++) {
        char *name = files->items[i];
        size_t stem = qk__figure_stem(name);
        if (stem > 0 && has_note(folder, name, stem))
            files->items[kept++] = name;
        else
            free(name);
    }
    files->count = kept;
    return QK_OK;
}

/* ---- commands --------------------------------------------------------------------------- */

static bool is_plain(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "/._-+:,=@%";
    return *word && word[strspn(word, plain)] == 0;
}

static bool has_control(const char *word)
{
    for (; *word; word++)
        if ((unsigned char)*word < 0x20 || *word == 0x7f)
            return true;
    return false;
}

/* Single quotes, which are left for each quote in the word; control characters as in bash and zsh, so that a command
 * stays a line. */
qk_status qk__put_word(qk__buffer *out, const char *word, qk_error *err)
{
    bool escaped = has_control(word);
    if (is_plain(word))
        return qk__buffer_append(out, word, strlen(word), err);
    QK_TRY(qk__buffer_append(out, escaped ? "$'" : "'", escaped ? 2 : 1, err));
    for (; *word; word++) {
        unsigned char c = (unsigned char)*word;
        if (escaped && (c < 0x20 || c == 0x7f))
            QK_TRY(qk__buffer_printf(out, err, "\\%03o", c));
        else if (escaped && (c == '\'' || c == '\\'))
            QK_TRY(qk__buffer_printf(out, err, "\\%c", c));
        else if (c == '\'')
            QK_TRY(qk__buffer_append(out, "'\\''", 4, err));
        else
            QK_TRY(qk__buffer_append(out, &c, 1, err));
    }
    return qk__buffer_append(out, "'", 1, err);
}

/* Both begin with '/'; `more` follows the path. */
static char *path_between(const char *from, const char *to, const char *more)
{
    size_t same = 0;
    for (size_t i = 0;; i++) {
        bool from_ends = from[i] == 0 || from[i] == '/', to_ends = to[i] == 0 || to[i] == '/';
        if (from_ends && to_ends)
            same = i;
        if (from[i] != to[i] || from[i] == 0)
            break;
    }
    qk__buffer path = {0};
    qk_status status = QK_OK;
    for (const char *p = from + same; *p && status == QK_OK; p++)
        if (*p == '/' && p[1])
            status = qk__buffer_printf(&path, NULL, "%s..", path.size ? "/" : "");
    const char *rest = to + same + (to[same] == '/');
    if (status == QK_OK)
        status = qk__buffer_printf(&path, NULL, "%s%s%s",
                                   path.size && *rest   ? "/"
                                   : path.size || *rest ? ""
                                                        : ".",
                                   rest, more);
    if (status != QK_OK)
        qk__buffer_free(&path);
    return (char *)path.data;
}

char *qk__seen_from(const char *folder, const char *path)
{
    char *from = realpath(folder, NULL), *to = realpath(path, NULL);
    const char *colon = to ? NULL : strrchr(path, ':');
    if (colon) {
        char *before = qk__strdup(path);
        if (before) {
            before[colon - path] = 0;
            to = realpath(before, NULL);
        }
        free(before);
    }
    char *seen = from && to ? path_between(from, to, colon ? colon : "") : qk__strdup(path);
    free(from);
    free(to);
    return seen;
}

qk_status qk__put_path(qk__buffer *out, const char *folder, const char *path, qk_error *err)
{
    char *seen = qk__seen_from(folder, path);
    qk_status status = seen ? qk__put_word(out, seen, err) : qk__nomem(err);
    free(seen);
    return status;
}

static bool is_named(const char *const *names, const char *name)
{
    for (; *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

static qk_status put_option(qk__buffer *out, const char *folder, const qk_setting *row,
                            const char *value, qk_error *err)
{
    if (row->type == QK_SETTING_FLAG)
        return qk__buffer_printf(
            out, err, " --%s", strcmp(value, "true") == 0 || !row->off ? row->name : row->off);
    QK_TRY(qk__buffer_printf(out, err, " --%s ", row->name));
    return row->type == QK_SETTING_PATH ? qk__put_path(out, folder, value, err)
                                        : qk__put_word(out, value, err);
}

static qk_status put_others(const qk__command *command, const qk_settings *plain,
                            const qk_settings *given, qk__buffer *out, qk_error *err)
{
    char is[VALUE_SIZE], was[VALUE_SIZE];
    for (size_t i = 0; i < qk_settings_count(given); i++) {
        const qk_setting *row = qk_settings_row(given, i);
        if (row->type == QK_SETTING_PATHS || is_named(command->but, row->name))
            continue;
        size_t length = qk_settings_get(given, row->name, is, sizeof is);
        qk_settings_get(plain, row->name, was, sizeof was);
        if (length > 0 && length < sizeof is && strcmp(is, was) != 0)
            QK_TRY(put_option(out, command->folder, row, is, err));
    }
    return QK_OK;
}

qk_status qk__put_options(qk__buffer *out, const qk__command *command, qk_error *err)
{
    qk_settings *plain = NULL, *given = NULL;
    qk_status status = qk_settings_new(&plain, command->table, command->name, err);
    if (status == QK_OK)
        status = qk_settings_new(&given, command->table, command->name, err);
    if (status == QK_OK) {
        /* borrows what the values point to: only values set by name are released */
        memcpy(qk_settings_values(given), command->values, command->table->size);
        status = put_others(command, plain, given, out, err);
    }
    qk_settings_free(&plain);
    qk_settings_free(&given);
    return status == QK_OK ? qk__buffer_printf(out, err, "%s", "") : status; /* its zero byte */
}
