/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions through Oniguruma. Patterns and texts come from outside: limits of going
 * back and of what is kept for that, and an allowance of processor time, bound what a pair of
 * them can cost. */
#include "tokenizer/regex.h"

#include <ctype.h>
#include <oniguruma.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/utf8.h"

enum {
    MAX_PATTERN_BYTES = 1 << 16,
    MATCH_RETRIES = 10000000, /* of a match from one place, as many as tokenizers allows */
    SEARCH_RETRIES = 1000,    /* of a search without looks at the clock */
    MAX_STACK = 1 << 22,      /* places to go back to */
    CALLS_PER_LOOK = 1 << 12, /* matches between looks at the clock */
};

/* Seconds allowed for a text, over all patterns and pieces of it: fifteen times what patterns of
 * known models take. Retries alone bound nothing: \s++$ goes over all blanks from each, and back from
 * none. Of this thread's processor, so that a busy machine makes no difference. */
static const double BASE_SECONDS = 0.5, SECONDS_PER_BYTE = 1e-6;

struct qk__regex {
    OnigRegex code;
    bool literal;
};

struct qk__regex_run {
    OnigRegion *range;
    OnigMatchParam *limits;
    qk__buffer older; /* a text as patterns see it */
    size_t size;      /* of the whole text */
    double deadline;  /* for it, in processor seconds of this thread; 0: not set yet */
    int calls;
};

/* ---- compiling -------------------------------------------------------------------------- */

static void start_oniguruma(void)
{
    OnigEncoding encoding = ONIG_ENCODING_UTF8;
    onig_initialize(&encoding, 1);
}

/* What Oniguruma of Unicode 14 would take otherwise than the one of tokenizers. */
static qk_status check_pattern(const char *pattern, size_t size, qk_error *err)
{
    const uint8_t *p = (const uint8_t *)pattern, *end = p + size;
    size_t length;
    for (; p < end; p += length) {
        uint32_t c = qk__utf8_read(p, &length);
        if (qk__older_character(c) != c)
            return qk__fail(err, QK_ERR_UNSUPPORTED,
                            "the pattern has U+%04X, of Unicode 15 or 16", (unsigned)c);
        size_t i = 0;
        while (i < 5 && p + i < end && tolower(p[i]) == "punct"[i])
            i++;
        if (i == 5 && p + i < end && (p[i] == ':' || p[i] == '}') &&
            p > (const uint8_t *)pattern && strchr(":^{", p[-1]))
            return qk__fail(err, QK_ERR_UNSUPPORTED,
                            "the pattern has the class punct, which versions of Oniguruma take "
                            "differently: write [\\p{P}\\p{S}]");
    }
    return QK_OK;
}

static qk_status fail_match(int code, OnigErrorInfo *info, const char *what, qk_error *err)
{
    OnigUChar message[ONIG_MAX_ERROR_MESSAGE_LEN];
    if (code == ONIGERR_MEMORY)
        return qk__nomem(err);
    onig_error_code_to_str(message, code, info);
    return qk__fail(err, QK_ERR_UNSUPPORTED, "the pattern cannot be %s: %s", what,
                    (char *)message);
}

qk_status qk__regex_compile(qk__regex **regex, const char *pattern, size_t size, bool literal,
                            qk_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    OnigErrorInfo info;
    *regex = NULL;
    if (size > MAX_PATTERN_BYTES)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "a pattern of %zu bytes, more than %d", size,
                        MAX_PATTERN_BYTES);
    if (qk__utf8_valid((const uint8_t *)pattern, size) != size)
        return qk__fail(err, QK_ERR_MALFORMED, "the pattern is not UTF-8");
    if (!literal)
        QK_TRY(check_pattern(pattern, size, err));
    pthread_once(&once, start_oniguruma);
    qk__regex *made = qk__calloc(1, sizeof *made);
    if (!made)
        return qk__nomem(err);
    made->literal = literal;
    const OnigUChar *text = (const OnigUChar *)pattern;
    int code = onig_new(&made->code, text, text + size, ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
                        literal ? ONIG_SYNTAX_ASIS : ONIG_SYNTAX_ONIGURUMA, &info);
    if (code != ONIG_NORMAL) {
        made->code = NULL;
        qk__regex_free(made);
        return fail_match(code, &info, "used", err);
    }
    *regex = made;
    return QK_OK;
}

void qk__regex_free(qk__regex *regex)
{
    if (!regex)
        return;
    onig_free(regex->code);
    free(regex);
}

/* ---- matching --------------------------------------------------------------------------- */

qk_status qk__regex_run_new(qk__regex_run **run, size_t size, qk_error *err)
{
    qk__regex_run *r = *run = qk__calloc(1, sizeof *r);
    if (!r)
        return qk__nomem(err);
    r->size = size;
    r->range = onig_region_new();
    r->limits = onig_new_match_param();
    if (!r->range || !r->limits)
        return qk__nomem(err);
    onig_set_match_stack_limit_size_of_match_param(r->limits, MAX_STACK);
    onig_set_retry_limit_in_match_of_match_param(r->limits, MATCH_RETRIES);
    return QK_OK;
}

void qk__regex_run_free(qk__regex_run *run)
{
    if (!run)
        return;
    if (run->range)
        onig_region_free(run->range, 1);
    if (run->limits)
        onig_free_match_param(run->limits);
    qk__buffer_free(&run->older);
    free(run);
}

static qk_status look_at_clock(const qk__matches *m, qk_error *err)
{
    double time = qk__thread_seconds();
    if (m->run->deadline <= 0)
        m->run->deadline = time + BASE_SECONDS + SECONDS_PER_BYTE * (double)m->run->size;
    m->run->calls = 0;
    if (time <= m->run->deadline)
        return QK_OK;
    return qk__fail(err, QK_ERR_UNSUPPORTED,
                    "the pattern takes too long on this text, at byte %zu", m->next);
}

/* The text with older characters in the place of those that Oniguruma may not know. */
static qk_status see_text(qk__matches *m, qk_error *err)
{
    qk__buffer *older = &m->run->older;
    size_t length;
    m->seen = m->text;
    for (size_t i = 0; i < m->size && !m->regex->literal; i += length) {
        length = 1;
        if (m->text[i] < 0xe0) /* the newer ones have three bytes or four */
            continue;
        uint32_t c = qk__utf8_read(m->text + i, &length), seen = qk__older_character(c);
        if (seen == c)
            continue;
        if (m->seen == m->text) {
            older->size = 0;
            QK_TRY(qk__buffer_append(older, m->text, m->size, err));
            m->seen = older->data;
        }
        qk__utf8_write(seen, older->data + i);
    }
    return QK_OK;
}

static size_t step_over(const qk__matches *m, size_t at)
{
    return at < m->size ? at + qk__utf8_length(m->text + at) : at + 1;
}

/* The places from m->next on one by one, as all of them together need much going back. */
static qk_status search_slowly(qk__matches *m, int *code, qk_error *err)
{
    qk__regex_run *run = m->run;
    onig_set_retry_limit_in_search_of_match_param(run->limits, 0);
    for (size_t at = m->next; at <= m->size; at = step_over(m, at)) {
        OnigOptionType option =
            at == m->next ? ONIG_OPTION_NONE : ONIG_OPTION_NOT_BEGIN_POSITION; /* of \G */
        QK_TRY(look_at_clock(m, err));
        *code = onig_match_with_param(m->regex->code, m->seen, m->seen + m->size, m->seen + at,
                                      run->range, option, run->limits);
        if (*code != ONIG_MISMATCH)
            break;
    }
    return QK_OK;
}

/* The first match that begins at m->next or later. */
static qk_status search(qk__matches *m, bool *found, qk_error *err)
{
    const OnigUChar *end = m->seen + m->size;
    onig_set_retry_limit_in_search_of_match_param(m->run->limits, SEARCH_RETRIES);
    int code = onig_search_with_param(m->regex->code, m->seen, end, m->seen + m->next, end,
                                      m->run->range, ONIG_OPTION_NONE, m->run->limits);
    if (code == ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER)
        QK_TRY(search_slowly(m, &code, err));
    *found = code >= 0;
    return *found || code == ONIG_MISMATCH ? QK_OK : fail_match(code, NULL, "matched", err);
}

qk_status qk__matches_next(qk__matches *m, bool *found, size_t *start, size_t *end,
                           qk_error *err)
{
    if (!m->seen)
        QK_TRY(see_text(m, err));
    for (;;) {
        if (++m->run->calls >= CALLS_PER_LOOK)
            QK_TRY(look_at_clock(m, err));
        *found = false;
        if (m->next > m->size)
            return QK_OK;
        QK_TRY(search(m, found, err));
        if (!*found)
            return QK_OK;
        *start = (size_t)m->run->range->beg[0];
        *end = (size_t)m->run->range->end[0];
        if (*start < *end || !m->any || *end != m->end)
            break;
        m->next = step_over(m, m->next);
    }
    m->any = true;
    m->end = m->next = *end;
    return QK_OK;
}
