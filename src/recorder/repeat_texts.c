/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that are made, not read: "repeat:LENGTHxTIMES[:COUNT[:SEED]]". Tokens are drawn uniformly, so that what a head
 * does at the second copy owes nothing to the statistics of a language. */
#include <inttypes.h>
#include <string.h>

#include <qkscope/capture.h>

#include "base/error.h"
#include "base/rng.h"
#include "recorder/texts.h"

static const char BEGIN[] = "repeat:";

bool qk__is_repeat(const char *source)
{
    return strncmp(source, BEGIN, sizeof BEGIN - 1) == 0;
}

/* ---- what is asked for ------------------------------------------------------------------ */

#define FORM "texts that are made are repeat:LENGTHxTIMES[:COUNT[:SEED]], as in repeat:64x4:8:1"

typedef struct number {
    const char *name, *before; /* and the letters in front of it */
    int64_t least, most;
} number;

static const int64_t MOST_TOKENS = INT64_C(1) << 28; /* of a text */

/* Stops at the digit that makes the number too large. */
static bool take_number(const char **at, const number *of, int64_t *value)
{
    const char *begin = *at;
    *value = 0;
    for (; **at >= '0' && **at <= '9' && *value <= of->most; (*at)++)
        *value = 10 * *value + (**at - '0');
    return *at > begin && *value >= of->least && *value <= of->most;
}

qk_status qk__read_repeat(const char *source, qk__repeat *repeat, qk_error *err)
{
    static const number NUMBERS[] = {{"LENGTH", "", 1, 1 << 24},
                                     {"TIMES", "x", 1, 1 << 24},
                                     {"COUNT", ":", 1, 1000000},
                                     {"SEED", ":", 0, INT64_C(1000000000000000)}};
    enum { NEEDED = 2, ALL = sizeof NUMBERS / sizeof *NUMBERS };
    int64_t values[ALL] = {0, 0, 8, 1};
    const char *at = source + sizeof BEGIN - 1;
    for (size_t i = 0; i < ALL && (i < NEEDED || *at); i++) {
        const number *n = &NUMBERS[i];
        size_t letters = strlen(n->before);
        if (strncmp(at, n->before, letters) != 0)
            break;
        at += letters;
        if (!take_number(&at, n, &values[i]))
            return qk__fail(err, QK_ERR_ARGUMENT,
                            "%s: %s is not a whole number from %" PRId64 " to %" PRId64
                            "; " FORM,
                            source, n->name, n->least, n->most);
    }
    if (*at)
        return qk__fail(err, QK_ERR_ARGUMENT, "%s: \"%s\" is not understood; " FORM, source,
                        at);
    if (values[1] == 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "%s: there is no TIMES; " FORM, source);
    if (values[0] * values[1] > MOST_TOKENS)
        return qk__fail(err, QK_ERR_ARGUMENT, "%s: a text has at most %" PRId64 " tokens",
                        source, MOST_TOKENS);
    *repeat = (qk__repeat){values[0], values[1], values[2], (uint64_t)values[3]};
    return QK_OK;
}

/* ---- its texts -------------------------------------------------------------------------- */

typedef struct repeat_reader {
    qk__repeat repeat;
    const char *source;
    int64_t next;
    qk__buffer name;
} repeat_reader;

static void close_repeat(void *reader)
{
    qk__buffer_free(&((repeat_reader *)reader)->name);
}

static qk_status open_repeat(void *reader, const char *source, const qk__text_columns *columns,
                             qk_error *err)
{
    repeat_reader *r = reader;
    (void)columns;
    r->source = source;
    return qk__read_repeat(source, &r->repeat, err);
}

/* The same text has the same id in every run, an id that no numbered text of a file has. */
static qk_status next_repeat(void *reader, qk__input_text *text, bool *more, qk_error *err)
{
    repeat_reader *r = reader;
    *more = r->next < r->repeat.count;
    if (!*more)
        return QK_OK;
    r->name.size = 0;
    QK_TRY(qk__buffer_printf(&r->name, err, "%s#%" PRId64, r->source, r->next));
    text->id = qk_example_id_of_text((const char *)r->name.data, r->name.size);
    text->has_id = true;
    text->data = "";
    text->name = (const char *)r->name.data + strlen(r->source) + 1;
    text->repeat = &r->repeat;
    text->number = r->next++;
    return QK_OK;
}

const qk__text_format qk__text_repeat = {sizeof(repeat_reader), open_repeat, next_repeat,
                                         close_repeat};

void qk__draw_tokens(const qk__input_text *text, const int32_t *from, size_t count,
                     int32_t *tokens, size_t wanted)
{
    const size_t length = (size_t)text->repeat->length;
    const uint64_t key = (uint64_t)text->number;
    qk__rng rng;
    qk__rng_init(&rng, text->repeat->seed, &key, 1);
    for (size_t i = 0; i < wanted; i++)
        tokens[i] = i < length ? from[qk__rng_below(&rng, count)] : tokens[i - length];
}
