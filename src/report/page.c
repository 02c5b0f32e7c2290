/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the page: elements, and texts escaped for them. */
#include "report/page.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json_build.h"
#include "base/utf8.h"

void qk__page_free(qk__page *page)
{
    qk__buffer_free(&page->out);
}

void qk__page_nomem(qk__page *page)
{
    if (page->status == QK_OK)
        page->status = qk__nomem(&page->err);
}

#define GENERATOR "qkscope"

static bool is_ours(const char *path)
{
    char begin[4096];
    FILE *file = fopen(path, "rbe");
    if (!file)
        return false;
    begin[fread(begin, 1, sizeof begin - 1, file)] = '\0';
    fclose(file);
    return strstr(begin, "<meta name=\"generator\" content=\"" GENERATOR "\">") != NULL;
}

qk_status qk__page_check_place(const char *folder, const char *name, qk_error *err)
{
    qk__path page;
    QK_TRY(qk__path_in(&page, folder, name, err));
    return !qk__is_there(page.text) || is_ours(page.text)
               ? QK_OK
               : qk__fail(err, QK_ERR_EXISTS,
                          "%s: is there and is no page of qkscope; choose another folder, or "
                          "--force to replace it",
                          page.text);
}

qk_status qk__page_write(qk__page *page, const char *path, qk__outfile **file, qk_error *err)
{
    if (page->status == QK_OK && page->depth > 0)
        page->status = qk__fail(&page->err, QK_ERR_ARGUMENT, "the page leaves <%s> open",
                                page->open[page->depth - 1]);
    if (page->status != QK_OK && err)
        *err = page->err;
    QK_TRY(page->status);
    QK_TRY(qk__outfile_open(file, path, err));
    QK_TRY(qk__outfile_write(*file, page->out.data, page->out.size, err));
    return qk__outfile_finish(*file, err);
}

/* ---- bytes and text --------------------------------------------------------------------- */

void qk__page_bytes(qk__page *page, const void *data, size_t size)
{
    if (page->status == QK_OK)
        page->status = qk__buffer_append(&page->out, data, size, &page->err);
}

void qk__page_asset(qk__page *page, const qk__asset *asset)
{
    qk__page_bytes(page, asset->data, asset->size);
}

void qk__page_markup(qk__page *page, const char *markup)
{
    qk__page_bytes(page, markup, strlen(markup));
}

/* NULL: the character stands for itself. */
static const char *html_escape(char c)
{
    return c == '&'    ? "&amp;"
           : c == '<'  ? "&lt;"
           : c == '>'  ? "&gt;"
           : c == '"'  ? "&quot;"
           : c == '\'' ? "&#39;"
                       : NULL;
}

/* The bytes that need no escape: most of a text. */
static size_t plain_bytes(const char *text, const char *end)
{
    const char *p = text;
    while (p < end && *p >= ' ' && *p < 0x7F && !html_escape(*p))
        p++;
    return (size_t)(p - text);
}

/* What is not UTF-8 becomes U+FFFD, control characters spaces. */
static void put_escaped(qk__page *page, const char *text, size_t length, size_t most)
{
    const char *end = text + length;
    for (size_t n = 0; text < end; n++) {
        size_t size = most == SIZE_MAX ? plain_bytes(text, end) : 0;
        if (n == most) {
            qk__page_markup(page, "…");
            return;
        }
        qk__page_bytes(page, text, size);
        text += size;
        if (text == end)
            return;
        const char *character = qk__utf8_shown(&text, &size);
        const char *escape = html_escape(*character);
        qk__page_bytes(page, escape ? escape : character, escape ? strlen(escape) : size);
    }
}

/* Writes a byte of a format. */
static void put_own(qk__page *page, const char *c)
{
    if (html_escape(*c))
        qk__page_markup(page, html_escape(*c));
    else
        qk__page_bytes(page, c, 1);
}

char *qk__percent(const char *text)
{
    static const char DIGITS[] = "0123456789ABCDEF";
    char *out = qk__calloc(strlen(text) + 1, 3), *p = out;
    for (; out && *text; text++) {
        bool plain = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
                     (*text >= '0' && *text <= '9') || strchr("-._", *text);
        *p++ = plain ? *text : '%';
        if (!plain) {
            *p++ = DIGITS[(unsigned char)*text >> 4];
            *p++ = DIGITS[*text & 15];
        }
    }
    return out;
}

/* ---- elements --------------------------------------------------------------------------- */

static bool listed(const char *name, const char *words)
{
    char word[QK__ELEMENT_NAME + 3];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(words, word) != NULL;
}

void qk__begin_tag(qk__page *page, const char *name, size_t size)
{
    if (page->status == QK_OK && (page->depth == QK__MOST_OPEN || size >= QK__ELEMENT_NAME))
        page->status = qk__fail(&page->err, QK_ERR_ARGUMENT, "<%.*s> is too deep in the page",
                                (int)size, name);
    if (page->status != QK_OK)
        return;
    char *open = page->open[page->depth++];
    memcpy(open, name, size);
    open[size] = 0;
    qk__page_markup(page, "<");
    qk__page_markup(page, open);
}

void qk__end_tag(qk__page *page, bool holds)
{
    qk__page_markup(page, holds ? ">" : "/>");
    page->depth -= page->status == QK_OK && !holds;
}

static void close_one(qk__page *page, const char *name, size_t size)
{
    static const char BLOCKS[] =
        " body caption dd details div dl fieldset figcaption figure h1 h2 h3 head header li "
        "main nav ol p pre script section style summary table tbody thead title tr ul ";
    if (page->status != QK_OK)
        return;
    const char *open = page->depth > 0 ? page->open[page->depth - 1] : "";
    if (strncmp(open, name, size) != 0 || open[size]) {
        page->status =
            qk__fail(&page->err, QK_ERR_ARGUMENT, "the page closes <%.*s>, but <%s> is open",
                     (int)size, name, open);
        return;
    }
    page->depth--;
    qk__page_markup(page, "</");
    qk__page_markup(page, open);
    qk__page_markup(page, listed(open, BLOCKS) ? ">\n" : ">");
}

void qk__close(qk__page *page, const char *names)
{
    for (size_t size; (size = strcspn(names, " ")) > 0; names += size + (names[size] == ' '))
        close_one(page, names, size);
}

/* Reads the next part of a selector: `part` says which, c ends it. Returns the part that follows. */
static char put_selector(qk__page *page, char part, char c)
{
    bool value = part == '=' || part == '[';
    if (part == '[' && c == '=') {
        qk__page_markup(page, "=\"");
        return '=';
    }
    if (value && c == ']') {
        qk__page_markup(page, part == '=' ? "\"" : "");
        return 0;
    }
    if (!value && strchr(".#[", c)) {
        qk__page_markup(page, part == '.' && c == '.'      ? " "
                              : part == '.' || part == '#' ? "\" "
                                                           : " ");
        qk__page_markup(page, c == '#' ? "id=\"" : c == '.' && part != '.' ? "class=\"" : "");
        return c;
    }
    put_own(page, &c);
    return part;
}

static void open_element(qk__page *page, qk__words *words)
{
    qk__word_piece piece;
    size_t name = strcspn(words->rest, ".#[");
    char part = 0;
    qk__begin_tag(page, words->rest, name);
    for (words->rest += name; qk__next_piece(words, &piece);) {
        if (piece.given)
            put_escaped(page, piece.text, piece.size, SIZE_MAX);
        for (size_t i = 0; !piece.given && i < piece.size; i++)
            part = put_selector(page, part, piece.text[i]);
    }
    qk__page_markup(page, part == '.' || part == '#' ? "\">" : ">");
    if (page->status == QK_OK && listed(page->open[page->depth - 1], " br img link meta "))
        page->depth--;
}

void qk__open(qk__page *page, const char *selector, ...)
{
    qk__words words = {.rest = selector, .plain = true};
    va_start(words.args, selector);
    open_element(page, &words);
    va_end(words.args);
}

/* ---- text ------------------------------------------------------------------------------- */

static bool is_open(const qk__page *page, const char *name)
{
    return page->depth > 0 && strcmp(page->open[page->depth - 1], name) == 0;
}

/* A character of a format; *href: it is part of the address of a link. */
static void put_mark(qk__page *page, const char *c, bool *href)
{
    static const char MARKS[] = "*`^~";
    static const char *const NAMES[] = {"strong", "code", "small", "sub"};
    const char *mark = *href ? NULL : strchr(MARKS, *c);
    if (mark && is_open(page, NAMES[mark - MARKS]))
        qk__close(page, NAMES[mark - MARKS]);
    else if (mark || (*c == '{' && !*href)) {
        const char *name = mark ? NAMES[mark - MARKS] : "bdi";
        qk__begin_tag(page, name, strlen(name));
        qk__end_tag(page, true);
    } else if (*c == '[' || (*c == '|' && *href)) {
        *href = *c == '[';
        if (*href)
            qk__begin_tag(page, "a", 1);
        qk__page_markup(page, *href ? " href=\"" : "\">");
    } else if (*c == ']' || *c == '}')
        qk__close(page, *c == ']' ? "a" : "bdi");
    else
        put_own(page, c);
}

static void put_words(qk__page *page, qk__words *words)
{
    qk__word_piece piece;
    bool href = false;
    while (qk__next_piece(words, &piece)) {
        if (piece.given)
            put_escaped(page, piece.text, piece.size,
                        is_open(page, "bdi") ? QK__NAME_POINTS : SIZE_MAX);
        for (size_t i = 0; !piece.given && i < piece.size; i++)
            put_mark(page, piece.text + i, &href);
    }
}

void qk__say(qk__page *page, const char *fmt, ...)
{
    qk__words words = {.rest = fmt};
    va_start(words.args, fmt);
    put_words(page, &words);
    va_end(words.args);
}

void qk__put(qk__page *page, const char *selector, const char *fmt, ...)
{
    qk__words words = {.rest = fmt}, element = {.rest = selector, .plain = true};
    va_start(words.args, fmt);
    open_element(page, &element);
    put_words(page, &words);
    if (page->status == QK_OK && page->depth > 0)
        qk__close(page, page->open[page->depth - 1]);
    va_end(words.args);
}

/* ---- JSON and pictures ------------------------------------------------------------------ */

json_t *qk__clean_text(const char *text)
{
    qk__buffer clean = {0};
    qk_status status = QK_OK;
    for (size_t size; *text && status == QK_OK;) {
        const char *character = qk__utf8_shown(&text, &size);
        status = qk__buffer_append(&clean, character, size, NULL);
    }
    json_t *value =
        status == QK_OK ? json_stringn(clean.data ? (char *)clean.data : "", clean.size) : NULL;
    qk__buffer_free(&clean);
    return value;
}

json_t *qk__whole_text(const char *text)
{
    json_t *value = json_string(text); /* NULL: no UTF-8 */
    return value ? value : qk__clean_text(text);
}

/* '<' would end the block. */
static void escape_block(qk__page *page, const char *text)
{
    for (size_t size; *text; text += size) {
        size = strcspn(text, "<>&");
        qk__page_bytes(page, text, size);
        if (text[size])
            qk__page_markup(page, text[size] == '<'   ? "\\u003c"
                                  : text[size] == '>' ? "\\u003e"
                                                      : "\\u0026");
        size += text[size] != 0;
    }
}

void qk__page_json(qk__page *page, const char *id, json_t *root, int digits)
{
    char *text = qk__json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(digits));
    qk__open(page, "script[type=application/json]#%s", id);
    if (text)
        escape_block(page, text);
    else
        qk__page_nomem(page);
    qk__close(page, "script");
    free(text);
    json_decref(root);
}

/* ---- parts of a page -------------------------------------------------------------------- */

void qk__page_begin(qk__page *page)
{
    qk__phrase scripts =
        qk__phrase_of("script-src '%s' '%s'; ", qk__asset_chart.hash, qk__asset_script.hash);
    qk__page_markup(page, "<!DOCTYPE html>\n");
    qk__open(page, "html[lang=en]");
    qk__open(page, "head");
    qk__open(page, "meta[charset=utf-8]");
    /* Everything comes from the page itself: pictures are data: in it, or its scripts make them (blob:) to be
     * saved. */
    qk__open(
        page,
        "meta[http-equiv=Content-Security-Policy][content=default-src 'none'; %s"
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none']",
        scripts.text);
    qk__open(page, "meta[name=viewport][content=width=device-width, initial-scale=1]");
    qk__open(page, "meta[name=color-scheme][content=light dark]");
    qk__open(page, "meta[name=generator][content=" GENERATOR "]");
    qk__open(page, "link[rel=icon][href=data:,]");
    qk__open(page, "style");
    qk__page_asset(page, &qk__asset_style);
    qk__close(page, "style");
}

static void put_script(qk__page *page, const qk__asset *asset)
{
    qk__open(page, "script");
    qk__page_asset(page, asset);
    qk__close(page, "script");
}

void qk__page_scripts(qk__page *page)
{
    put_script(page, &qk__asset_chart);
    put_script(page, &qk__asset_script);
}

void qk__page_contents_begin(qk__page *page)
{
    qk__open(page, "nav#contents[aria-label=Contents]");
    qk__put(page,
            "button#contents-open[type=button][aria-expanded=false]"
            "[aria-controls=contents-list][hidden]",
            "Contents");
    qk__open(page, "ul#contents-list");
}

void qk__page_contents_end(qk__page *page)
{
    qk__close(page, "ul");
    qk__put(page, "button#unfold[type=button][hidden]", "Open all sections");
    qk__put(page, "button#theme[type=button][hidden]", "Theme: system");
    qk__close(page, "nav");
}

static void open_fold(qk__page *page, const char *title, const char *heading, bool open)
{
    qk__open(page, open ? "details.fold[open]" : "details.fold");
    qk__open(page, "summary");
    qk__put(page, heading, "%s", title);
    qk__close(page, "summary");
}

void qk__page_section(qk__page *page, const char *id, const char *title)
{
    qk__open(page, "section#%s[tabindex=-1]", id);
    open_fold(page, title, "h2", false);
}

void qk__page_section_end(qk__page *page)
{
    qk__close(page, "details section");
}

void qk__page_part(qk__page *page, const char *id, const char *title)
{
    qk__open(page, "div.part#%s[tabindex=-1]", id);
    open_fold(page, title, "h3", true);
}

void qk__page_part_end(qk__page *page)
{
    qk__close(page, "details div");
}

void qk__table_begin(qk__page *page, const char *caption)
{
    qk__open(page, "div.scroll[tabindex=0][role=region][aria-label=%s]", caption);
    qk__open(page, "table.numbers");
    qk__put(page, "caption", "%s", caption);
    qk__open(page, "thead");
    qk__open(page, "tr");
}

void qk__table_head(qk__page *page, const char *column)
{
    qk__put(page, "th[scope=col]", "%s", column);
}

void qk__table_body(qk__page *page)
{
    qk__close(page, "tr thead");
    qk__open(page, "tbody");
}

void qk__table_end(qk__page *page)
{
    qk__close(page, "tbody table div");
}
