/* SPDX-License-Identifier: Apache-2.0 */
/* What is sent of this machine's folders. A file is sent only if it lies in the capture, links followed. Texts in
 * capture.json, examples.csv and truth.json that are absolute paths, and those in README.md, are told, or shortened to
 * names of files. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/system.h"
#include "capture/capture.h"
#include "fetch/put.h"

/* ---- links ------------------------------------------------------------------------------- */

/* Whether a path is below a folder, neither of which has links in it. */
static bool is_below(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && path[length] == '/';
}

qk_status qk__put_resolve(const char *source, const char *folder, char **place, qk_error *err)
{
    char *home = realpath(folder, NULL);
    qk_status status = QK_OK;
    *place = realpath(source, NULL);
    if (home && !*place && errno == ENOENT)
        status =
            qk__fail(err, QK_ERR_INCONSISTENT,
                     "%s: a link that leads to nothing: nothing is sent; fetch or mend what it "
                     "leads to, or remove it",
                     source);
    else if (!home || !*place)
        status = qk__fail(err, QK_ERR_INCONSISTENT, "%s: not a file that can be sent", source);
    else if (!is_below(*place, home) && !qk__hub_is_of_repository(home, *place))
        status = qk__fail(err, QK_ERR_INCONSISTENT,
                          "%s: a link to %s, which is not in the capture: nothing is sent; if "
                          "it is to be, put a copy in the place of the link",
                          source, *place);
    free(home);
    if (status != QK_OK) {
        free(*place);
        *place = NULL;
    }
    return status;
}

/* ---- absolute paths in texts ------------------------------------------------------------- */

typedef struct texts texts;
struct texts {
    bool (*next)(texts *t); /* the strings of JSON, the fields of CSV, the paths of a card */
    const char *begin, *stop;
    const char *at;         /* what is still to be read */
    const char *text, *end; /* what was found */
};

/* Within quotation marks, two of them are one. */
static bool next_field(texts *t)
{
    const char *at = t->at;
    if (at == t->stop)
        return false;
    bool quoted = *at == '"';
    t->text = at += quoted;
    while (at < t->stop && (quoted ? *at != '"' || (t->stop - at > 1 && at[1] == '"')
                                   : *at != ',' && *at != '\r' && *at != '\n'))
        at += quoted && *at == '"' ? 2 : 1;
    t->end = at;
    while (at < t->stop && *at != ',' && *at != '\r' && *at != '\n')
        at++;
    t->at = at < t->stop ? at + 1 : at;
    return true;
}

/* Names of members are passed over: two of them might become the same. */
static bool next_string(texts *t)
{
    for (bool member = true; member;) {
        const char *at = t->at;
        while (at < t->stop && *at != '"')
            at++;
        if (at == t->stop)
            return false;
        t->text = ++at;
        while (at < t->stop && *at != '"')
            at += *at == '\\' && t->stop - at > 1 ? 2 : 1;
        t->end = at;
        at += at < t->stop;
        t->at = at;
        while (at < t->stop && (*at == ' ' || *at == '\n'))
            at++;
        member = at < t->stop && *at == ':';
    }
    return true;
}

#define BREAKS " \t\r\n`\"'()[]<>,;|*"

/* Whether the line up to here is one of a card's that have a name and nothing else. */
static bool is_value(const texts *t, const char *at)
{
    static const char *const LINES[] = {
        "\n- model: ", "\n- source: ", "\n# Query and key vectors: "};
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++) {
        size_t length = strlen(LINES[i]);
        if ((size_t)(at - t->begin) >= length && memcmp(at - length, LINES[i], length) == 0)
            return true;
    }
    return false;
}

/* What ends the path that begins here: a name may have blanks where something encloses it. */
static const char *ends(const texts *t, const char *at)
{
    switch (at > t->begin ? at[-1] : '\n') {
    case '`':
        return "`\n";
    case '"':
        return "\"\n";
    case '\'':
        return "'\n";
    case '(':
        return ")\n";
    case '[':
        return "]\n";
    case '<':
        return ">\n";
    default:
        return is_value(t, at) ? "\n" : BREAKS;
    }
}

/* In a card a path stands in a sentence; that of an address (https://) is none. */
static bool next_path(texts *t)
{
    const char *at = t->at;
    for (; at < t->stop; at++) {
        char before = at > t->begin ? at[-1] : '\n';
        bool address = before == ':' && t->stop - at > 1 && at[1] == '/';
        if (*at == '/' && !address && strchr(BREAKS "=:", before))
            break;
    }
    if (at == t->stop)
        return false;
    const char *marks = ends(t, at);
    for (t->text = at; at < t->stop && !strchr(marks, *at);)
        at++;
    t->at = t->end = at;
    return true;
}

/* The last name of an absolute path, of more than one name; NULL: the text is none. */
static const char *last_name(const texts *t)
{
    const char *at = t->end;
    while (at > t->text && at[-1] == '/')
        at--;
    while (at > t->text && at[-1] != '/')
        at--;
    return at > t->text + 1 && *t->text == '/' ? at : NULL;
}

/* The bytes without folders in front of names, into `out`, unless it is NULL. *first: such a path, with its length;
 * NULL: there is none. */
static qk_status scan(texts t, qk__buffer *out, const char **first, size_t *length,
                      qk_error *err)
{
    const char *kept = t.at;
    *first = NULL;
    while ((out || !*first) && t.next(&t)) {
        const char *name = last_name(&t);
        if (name && !*first) {
            *first = t.text;
            *length = (size_t)(t.end - t.text);
        }
        if (name && out) {
            QK_TRY(qk__buffer_append(out, kept, (size_t)(t.text - kept), err));
            kept = name;
        }
    }
    return out ? qk__buffer_append(out, kept, (size_t)(t.stop - kept), err) : QK_OK;
}

/* Sends these bytes in place of the file's: they lie in memory where that can be, and are read as a file is. */
static qk_status replace(qk__put_file *file, const qk__buffer *bytes, qk_error *err)
{
    char path[QK__UNNAMED_SIZE];
    int fd = qk__open_unnamed(path);
    qk_status status =
        fd < 0 ? qk__fail(err, QK_ERR_IO, "memory for %s: %s", file->path, strerror(errno))
               : qk__write_at(fd, bytes->data, bytes->size, 0, err);
    char *source = qk__strdup(path);
    if (status == QK_OK && !source)
        status = qk__nomem(err);
    if (status != QK_OK) {
        free(source);
        if (fd >= 0)
            close(fd);
        return status;
    }
    free(file->source);
    file->source = source;
    file->size = (int64_t)bytes->size;
    file->in_memory = true;
    file->fd = fd;
    return QK_OK;
}

/* Of one paper: *example is a path that stays in it, of the first that has one; *tells: whether this one has. */
static qk_status look_at_file(qk__put_file *file, bool hide, char **example, bool *tells,
                              qk_error *err)
{
    *tells = false;
    const uint8_t *bytes;
    size_t size, length = 0;
    const char *first;
    qk__buffer out = {0};
    if (file->size == 0)
        return QK_OK;
    QK_TRY(qk__map_file(file->source, &bytes, &size, err));
    const char *begin = (const char *)bytes, *dot = strrchr(file->path, '.');
    const texts t = {.next = strcmp(dot, ".csv") == 0  ? next_field
                             : strcmp(dot, ".md") == 0 ? next_path
                                                       : next_string,
                     .begin = begin,
                     .stop = begin + size,
                     .at = begin};
    qk_status status = scan(t, hide ? &out : NULL, &first, &length, err);
    *tells = first && !hide;
    if (status == QK_OK && first && hide)
        status = replace(file, &out, err);
    else if (status == QK_OK && first && !*example &&
             !(*example = qk__format("%.*s", (int)(length < 200 ? length : 200), first)))
        status = qk__nomem(err);
    qk__buffer_free(&out);
    qk__unmap_file(bytes, size);
    return status;
}

qk_status qk__put_settle_paths(qk__put *put, qk_error *err)
{
    char *example = NULL;
    qk__buffer in = {0};
    size_t count = 0;
    qk_status status = QK_OK;
    for (size_t i = 0; i < put->files.count && status == QK_OK; i++) {
        qk__put_file *file = &put->files.items[i];
        bool tells;
        if (strchr(file->path, '/'))
            continue; /* rows, moments */
        status = look_at_file(file, put->settings->hide_paths, &example, &tells, err);
        if (status == QK_OK && tells)
            status = qk__buffer_printf(&in, err, "%s%s", count++ > 0 ? ", " : "", file->path);
    }
    if (status == QK_OK && example)
        qk__tell_notice(&put->fetch.context, QK_NOTICE_WARNING,
                        "%.*s tell%s paths of this machine, %s for one, to whoever may see the "
                        "dataset; --hide-paths sends the names of files alone",
                        (int)in.size, (const char *)in.data, count == 1 ? "s" : "", example);
    qk__buffer_free(&in);
    free(example);
    return status;
}
