/* SPDX-License-Identifier: Apache-2.0 */
/* Running `hf download`, and what it says where it fails. */
#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/context.h"
#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "hub/hub.h"

/* The last words of a program: from "Error: " on, in one line, without colours and hints. */
static void last_words(const char *said, char *text, size_t size)
{
    static const char ERROR[] = "Error: ", HINT[] = "Hint: set HF_DEBUG";
    size_t used = 0, length = strlen(said);
    const char *last = said + (length < size ? 0 : length - size + 1);
    for (const char *p = said; (p = strstr(p, ERROR)) != NULL;)
        last = p += sizeof ERROR - 1;
    for (const char *p = last; *p && used + 1 < size; p++) {
        if (strncmp(p, HINT, sizeof HINT - 1) == 0)
            break;
        if (*p == '\033') /* as far as the letter that ends it */
            while (p[1] && !isalpha((unsigned char)*++p))
                ;
        else if ((unsigned char)*p > ' ')
            text[used++] = *p;
        else if (used > 0 && text[used - 1] != ' ')
            text[used++] = ' ';
    }
    while (used > 0 && strchr(" .", text[used - 1]))
        used--;
    text[used] = 0;
}

static bool goes_on(void *context)
{
    return qk__tell_progress(context, &(qk_progress){.what = ""});
}

static qk_status fail_exit(const qk__repo *repo, qk_context *context, int code,
                           const char *said, qk_error *err)
{
    char last[600];
    if (code == 128 + SIGINT || code == 128 + SIGTERM ||
        (context->progress && !goes_on(context)))
        return qk__fail(
            err, QK_ERR_CANCELLED,
            "stopped; what was fetched stays in the cache, and the same command goes on");
    last_words(said, last, sizeof last);
    return qk__fail(err, QK_ERR_IO, "hf download failed (exit status %d): %s%s", code, last,
                    qk__is_dir(repo->folder.text) ? ""
                                                  : "; nor is there a folder of this name");
}

/* Progress bars are for a terminal: they come through a pipe, so that the end of what hf says is known. */
static qk_status run(const qk__repo *repo, const qk_hub_wanted *wanted,
                     const char *const *words, qk__buffer *said, qk_error *err)
{
    qk_context context = wanted->context;
    bool shown = context.progress && !wanted->hides_progress && isatty(STDERR_FILENO);
    const qk__program program = {.argv = words,
                                 .added = shown ? "TQDM_POSITION=-1"
                                                : "HF_HUB_DISABLE_PROGRESS_BARS=1",
                                 .echoes = shown,
                                 .goes_on = context.progress ? goes_on : NULL,
                                 .user = &context};
    int code = 0;
    qk_status status = qk__process_run(&program, said, &code, err);
    if (status == QK_ERR_NOT_FOUND)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "not all of revision %s is in the cache, and there is no program hf to "
                        "fetch it: pip install -U huggingface_hub, or uv tool install "
                        "huggingface_hub; by hand, with --include for a part: hf download %s "
                        "--repo-type %s --revision %s",
                        repo->revision, repo->name, repo->kind, repo->revision);
    QK_TRY(status);
    QK_TRY(qk__buffer_append(said, "", 1, err)); /* ends the text */
    return code == 0 ? QK_OK : fail_exit(repo, &context, code, (const char *)said->data, err);
}

qk_status qk__hf_download(const qk__repo *repo, const qk_hub_wanted *wanted,
                          char *const *patterns, size_t count, qk_error *err)
{
    const char *front[] = {"hf",
                           "download",
                           repo->name,
                           "--repo-type",
                           repo->kind,
                           "--revision",
                           *repo->commit ? repo->commit : repo->revision};
    enum { FRONT = sizeof front / sizeof *front };
    const char **words = qk__calloc(FRONT + 2 * count + 1, sizeof *words);
    if (!words)
        return qk__nomem(err);
    memcpy(words, front, sizeof front);
    for (size_t i = 0; i < count; i++) {
        words[FRONT + 2 * i] = "--include";
        words[FRONT + 2 * i + 1] = patterns[i];
    }
    qk__buffer said = {0};
    qk_status status = run(repo, wanted, words, &said, err);
    qk__buffer_free(&said);
    free(words);
    return status;
}
