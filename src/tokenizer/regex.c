/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions through PCRE2's just-in-time compiler. Patterns and texts come from
 * outside: a step limit per attempt, raised only for attempts that need it, a stack of fixed
 * size, and an allowance of processor time bound what a pair of them can cost. */
#include "tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdlib.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/utf8.h"

enum {
    MAX_PATTERN_BYTES = 1 << 16,
    FIRST_STEPS = 20000, /* of one attempt; a run of that many blanks needs as many */
    MAX_STEPS = 1 << 30,
    SLICE = 4096, /* places to begin tried in one call */
    JIT_STACK_START = 1 << 15,
    JIT_STACK_MAX = 1 << 26,
    HEAP_KILOBYTES = 1 << 17, /* where there is no just-in-time compiler */
    CALLS_PER_LOOK = 1 << 12, /* matches between looks at the clock */
};

/* Seconds allowed for a text, over all patterns and pieces of it: some hundred times what
 * patterns of known models take. */
static const double BASE_SECONDS = 10, SECONDS_PER_BYTE = 4e-6;

struct qk__regex {
    pcre2_code *search; /* begins anywhere */
    pcre2_code *here;   /* begins where it is told to */
    bool jit;
};

struct qk__regex_run {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    size_t size;     /* of the whole text */
    double deadline; /* for it, in processor seconds of this thread; 0: not set yet */
    int calls;
};

/* ---- compiling -------------------------------------------------------------------------- */

static qk_status compile(const char *pattern, size_t size, uint32_t options, pcre2_code **code,
                         bool *jit, qk_error *err)
{
    int number;
    size_t offset;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        return qk__nomem(err);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_max_pattern_length(context, 8 * MAX_PATTERN_BYTES);
    *code = pcre2_compile((PCRE2_SPTR)pattern, size, options | PCRE2_UTF | PCRE2_NO_UTF_CHECK,
                          &number, &offset, context);
    pcre2_compile_context_free(context);
    if (!*code) {
        PCRE2_UCHAR message[200];
        if (number == PCRE2_ERROR_HEAP_FAILED)
            return qk__nomem(err);
        pcre2_get_error_message(number, message, sizeof message);
        return qk__fail(err, QK_ERR_UNSUPPORTED, "the pattern cannot be used: %s",
                        (char *)message);
    }
    *jit = pcre2_jit_compile(*code, PCRE2_JIT_COMPLETE) == 0;
    return QK_OK;
}

qk_status qk__regex_compile(qk__regex **regex, const char *pattern, size_t size, bool literal,
                            qk_error *err)
{
    qk__buffer text = {0};
    bool jit = false, jit_here = false;
    *regex = NULL;
    if (size > MAX_PATTERN_BYTES)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "a pattern of %zu bytes, more than %d", size,
                        MAX_PATTERN_BYTES);
    if (qk__utf8_valid((const uint8_t *)pattern, size) != size)
        return qk__fail(err, QK_ERR_MALFORMED, "the pattern is not UTF-8");
    qk__regex *made = qk__calloc(1, sizeof *made);
    qk_status status = made ? QK_OK : qk__nomem(err);
    uint32_t options =
        PCRE2_USE_OFFSET_LIMIT | (literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE);
    if (status == QK_OK)
        status = literal ? qk__buffer_append(&text, pattern, size, err)
                         : qk__pattern_translate(pattern, size, &text, err);
    const char *translated = text.data ? (const char *)text.data : "";
    if (status == QK_OK)
        status = compile(translated, text.size, options, &made->search, &jit, err);
    if (status == QK_OK)
        status = compile(translated, text.size, options | PCRE2_ANCHORED, &made->here,
                         &jit_here, err);
    qk__buffer_free(&text);
    if (status != QK_OK) {
        qk__regex_free(made);
        return status;
    }
    made->jit = jit && jit_here;
    *regex = made;
    return QK_OK;
}

void qk__regex_free(qk__regex *regex)
{
    if (!regex)
        return;
    pcre2_code_free(regex->search);
    pcre2_code_free(regex->here);
    free(regex);
}

/* ---- matching --------------------------------------------------------------------------- */

qk_status qk__regex_run_new(qk__regex_run **run, size_t size, qk_error *err)
{
    qk__regex_run *r = *run = qk__calloc(1, sizeof *r);
    if (!r)
        return qk__nomem(err);
    uint32_t jit = 0;
    pcre2_config(PCRE2_CONFIG_JIT, &jit);
    r->size = size;
    r->data = pcre2_match_data_create(1, NULL);
    r->context = pcre2_match_context_create(NULL);
    r->stack = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_MAX, NULL);
    if (!r->data || !r->context || (jit && !r->stack))
        return qk__nomem(err);
    pcre2_set_heap_limit(r->context, HEAP_KILOBYTES);
    if (r->stack)
        pcre2_jit_stack_assign(r->context, NULL, r->stack);
    return QK_OK;
}

void qk__regex_run_free(qk__regex_run *run)
{
    if (!run)
        return;
    pcre2_match_data_free(run->data);
    pcre2_match_context_free(run->context);
    pcre2_jit_stack_free(run->stack);
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

/* Tries to match from `start` on, in at most so many steps; the value is PCRE2's. */
static int attempt(const qk__matches *m, const pcre2_code *code, size_t start, uint32_t steps)
{
    qk__regex_run *run = m->run;
    pcre2_set_match_limit(run->context, steps);
    return (m->regex->jit ? pcre2_jit_match : pcre2_match)(
        code, m->text, m->size, start, PCRE2_NO_UTF_CHECK, run->data, run->context);
}

static size_t step_over(const qk__matches *m, size_t at)
{
    return at < m->size ? at + qk__utf8_length(m->text + at) : at + 1;
}

static qk_status fail_match(const qk__matches *m, int code, qk_error *err)
{
    PCRE2_UCHAR message[200];
    if (code == PCRE2_ERROR_NOMEMORY)
        return qk__nomem(err);
    pcre2_get_error_message(code, message, sizeof message);
    return qk__fail(err, QK_ERR_UNSUPPORTED, "the pattern cannot be matched near byte %zu: %s",
                    m->next, (char *)message);
}

/* The places from `at` to `last` one by one, as an attempt at one of them needs many steps. */
static qk_status search_slowly(qk__matches *m, size_t at, size_t last, int *code, qk_error *err)
{
    pcre2_set_offset_limit(m->run->context, PCRE2_UNSET);
    for (*code = PCRE2_ERROR_NOMATCH; at <= last; at = step_over(m, at)) {
        uint32_t steps = FIRST_STEPS;
        while ((*code = attempt(m, m->regex->here, at, steps)) == PCRE2_ERROR_MATCHLIMIT &&
               steps < MAX_STEPS) {
            QK_TRY(look_at_clock(m, err));
            steps *= 2;
        }
        if (*code != PCRE2_ERROR_NOMATCH)
            break;
    }
    return QK_OK;
}

/* The first match that begins at `at` or later. */
static qk_status search(qk__matches *m, size_t at, bool *found, qk_error *err)
{
    int code = PCRE2_ERROR_NOMATCH;
    *found = false;
    while (at <= m->size) {
        size_t last = m->size - at > SLICE ? at + SLICE : m->size;
        while (last < m->size && (m->text[last] & 0xc0) == 0x80)
            last++;
        pcre2_set_offset_limit(m->run->context, last);
        code = attempt(m, m->regex->search, at, FIRST_STEPS);
        if (code == PCRE2_ERROR_MATCHLIMIT)
            QK_TRY(search_slowly(m, at, last, &code, err));
        if (code != PCRE2_ERROR_NOMATCH)
            break;
        QK_TRY(look_at_clock(m, err));
        at = step_over(m, last);
    }
    if (code < 0 && code != PCRE2_ERROR_NOMATCH)
        return fail_match(m, code, err);
    *found = code >= 0;
    return QK_OK;
}

qk_status qk__matches_next(qk__matches *m, bool *found, size_t *start, size_t *end,
                           qk_error *err)
{
    for (;;) {
        if (++m->run->calls >= CALLS_PER_LOOK)
            QK_TRY(look_at_clock(m, err));
        *found = false;
        if (m->next > m->size)
            return QK_OK;
        QK_TRY(search(m, m->next, found, err));
        if (!*found)
            return QK_OK;
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(m->run->data);
        *start = range[0];
        *end = range[1];
        if (*start < *end || !m->any || *end != m->end)
            break;
        m->next = step_over(m, m->next);
    }
    m->any = true;
    m->end = m->next = *end;
    return QK_OK;
}
