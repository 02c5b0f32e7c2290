/* SPDX-License-Identifier: Apache-2.0 */
/* Running `hf download`, and what it says where it fails. */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/context.h"
#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "hub/hub.h"

#define GET_HF "pip install -U huggingface_hub, or uv tool install huggingface_hub"

/* ---- arguments ---------------------------------------------------------------------------- */

static void add_word(qk__hf_words *w, char *word)
{
    if (w->count == w->capacity) {
        void *grown = qk__grow(w->items, &w->capacity, sizeof *w->items);
        w->items = grown ? grown : w->items;
    }
    if (word && w->count < w->capacity) {
        w->items[w->count++] = word;
    } else {
        free(word);
        w->lost = true;
    }
}

static void add_pair(qk__hf_words *w, const char *option, const char *value, size_t length,
                     const char *end)
{
    add_word(w, qk__strdup(option));
    add_word(w, qk__format("%.*s%s", (int)length, value, end));
}

void qk__hf_include(qk__hf_words *w, const char *path, size_t length, const char *end)
{
    add_pair(w, "--include", path, length, end);
    char *at = w->lost ? NULL : strpbrk(w->items[w->count - 1], "[]");
    for (; at; at = strpbrk(at, "[]"))
        *at = '?'; /* signs of patterns */
}

void qk__hf_words_free(qk__hf_words *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->items[i]);
    free(w->items);
}

/* ---- hf ---------------------------------------------------------------------------------- */

/* The command line that fetches it by hand, without what would make it long. */
static void tell_command(const qk__fetch *f, const qk__hf_words *w, char *text, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < w->count && used < size; i++) {
        bool quoted = strpbrk(w->items[i], "*?[] ") != NULL;
        used += (size_t)snprintf(text + used, size - used, "%s%s%s%s", i > 0 ? " " : "",
                                 quoted ? "'" : "", w->items[i], quoted ? "'" : "");
    }
    if (used >= size || !f->known) /* of all, as it is not known what is wanted */
        snprintf(text, size, "hf download %s --repo-type %s --revision %s", f->name,
                 f->kind->what, f->revision);
}

/* The last words of a program: from "Error: " on, else the last line; in one line, without colours and hints. */
static void last_words(const char *from, char *text, size_t size)
{
    static const char ERROR[] = "Error: ";
    const char *last = from;
    for (const char *p = from; (p = strstr(p, ERROR)) != NULL; p += sizeof ERROR - 1)
        last = p + sizeof ERROR - 1;
    for (const char *p = from; last == from && *p; p++)
        if ((*p == '\n' || *p == '\r') && isprint((unsigned char)p[1]))
            from = last = p + 1;
    size_t used = 0;
    for (const char *p = last; *p && used + 1 < size; p++) {
        if (strncmp(p, "Hint: set HF_DEBUG", 18) == 0)
            break;
        if (*p == '\033') /* as far as the letter that ends it */
            while (p[1] && !isalpha((unsigned char)*++p))
                ;
        else if ((unsigned char)*p >= ' ')
            text[used++] = *p;
        else if (used > 0 && text[used - 1] != ' ')
            text[used++] = ' ';
    }
    while (used > 0 && (text[used - 1] == ' ' || text[used - 1] == '.'))
        used--;
    text[used] = 0;
}

static bool goes_on(void *user)
{
    const qk__fetch *f = user;
    return qk__tell_progress(&f->wanted->context, &(qk_progress){.what = ""});
}

static qk_status fail_no_hf(const qk__fetch *f, const qk__hf_words *w, qk_error *err)
{
    char command[400];
    tell_command(f, w, command, sizeof command);
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "not all of revision %s is in the cache, and there is no program hf to "
                    "fetch it: " GET_HF "; by hand: %s",
                    f->revision, command);
}

static qk_status fail_exit(qk__fetch *f, int code, const char *said, qk_error *err)
{
    char last[600];
    if (code == 128 + SIGINT || code == 128 + SIGTERM ||
        (f->wanted->context.progress && !goes_on(f)))
        return qk__fail(
            err, QK_ERR_CANCELLED,
            "stopped; what was fetched stays in the cache, and the same command goes on");
    last_words(said, last, sizeof last);
    return qk__fail(err, QK_ERR_IO, "hf download failed (exit status %d): %s%s", code, last,
                    qk__is_dir(f->folder) ? "" : "; nor is there a folder of this name");
}

/* hf download with these words behind it. */
qk_status qk__hf_download(qk__fetch *f, const qk__hf_words *rest, qk_error *err)
{
    qk__hf_words w = {0};
    add_word(&w, qk__strdup("hf"));
    add_pair(&w, "download", f->name, strlen(f->name), "");
    add_pair(&w, "--repo-type", f->kind->what, strlen(f->kind->what), "");
    const char *revision = *f->commit ? f->commit : f->revision;
    add_pair(&w, "--revision", revision, strlen(revision), "");
    if (f->given)
        add_pair(&w, "--cache-dir", f->given, strlen(f->given), "");
    for (size_t i = 0; i < rest->count; i++)
        add_word(&w, qk__strdup(rest->items[i]));
    const char **argv = qk__calloc(w.count + 1, sizeof *argv);
    qk_status status = w.lost || rest->lost || !argv ? qk__nomem(err) : QK_OK;
    for (size_t i = 0; status == QK_OK && i < w.count; i++)
        argv[i] = w.items[i];
    const qk_context *context = &f->wanted->context;
    bool shown = context->progress && !f->wanted->hides_progress && isatty(STDERR_FILENO);
    const qk__program program = {.argv = argv,
                                 .added = shown ? "TQDM_POSITION=-1"
                                                : "HF_HUB_DISABLE_PROGRESS_BARS=1", /* a pipe */
                                 .echoes = shown,
                                 .goes_on = context->progress ? goes_on : NULL,
                                 .user = f};
    qk__buffer said = {0};
    int code = 0;
    if (status == QK_OK)
        status = qk__process_run(&program, &said, &code, err);
    if (status == QK_ERR_NOT_FOUND)
        status = fail_no_hf(f, &w, err);
    else if (status == QK_OK && code != 0 &&
             (status = qk__buffer_append(&said, "", 1, err)) == QK_OK) /* ends the text */
        status = fail_exit(f, code, (const char *)said.data, err);
    qk__buffer_free(&said);
    free(argv);
    qk__hf_words_free(&w);
    return status;
}
