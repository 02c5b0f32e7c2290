/* SPDX-License-Identifier: Apache-2.0 */
/* Changes, from words and into words: "freeze:slow", "window:256:4". */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "ablation/ablation.h"
#include "base/error.h"
#include "base/parse_number.h"

static const double TURN = 6.283185307179586;
enum { MOST_LETTERS = 40 }; /* of a change; controls append more */

/* Every change: how its value is written, its name without and with a value (%s), and what is said where the loss
 * rises and where it does not. */
static const struct change {
    const char *word, *value;
    qk_head_change_kind kind;
    const char *called, *valued, *needs, *spares;
} CHANGES[] = {
    {"remove", "", QK_CHANGE_OUTPUT, "removing it", NULL, "the model needs it",
     "the model does without it"},
    {"mean", "", QK_CHANGE_OUTPUT, "with its mean output", NULL, "its output tells texts apart",
     "a constant would do"},
    {"freeze", "[:BAND]", QK_CHANGE_ROTATION, "without rotation", "without rotation (%s)",
     "it uses position", "it does not need this rotation"},
    {"shuffle", ":TOKENS", QK_CHANGE_ROTATION, NULL, "with keys shuffled (%s)",
     "it uses position at that scale", "it does not need position at that scale"},
    {"profile", "", QK_CHANGE_PROFILE, "with weights by distance alone", NULL,
     "distance is not enough", "distance is enough"},
    {"window", ":TOKENS[:KEPT]", QK_CHANGE_WINDOW, NULL, "with a window (%s)",
     "it uses keys farther away", "this window is enough"},
    {"no-sink", "", QK_CHANGE_NO_SINK, "without the sink", NULL, "it uses the sink",
     "it does not need the sink"},
    {"uniform", "", QK_CHANGE_UNIFORM, "with equal weights", NULL, "its attention is used",
     "its attention is not needed"},
    {"direction", ":pcN|a[:PART]", QK_CHANGE_DIRECTION, NULL, "without %s in its queries",
     "it uses that axis", "it does not need that axis"},
};
enum { NUM_CHANGES = sizeof CHANGES / sizeof *CHANGES };

/* The change that a text begins with: the whole text, or the part before a colon. */
static const struct change *find_change(const char *text)
{
    const size_t length = strcspn(text, ":");
    for (size_t i = 0; i < NUM_CHANGES; i++)
        if (strlen(CHANGES[i].word) == length && strncmp(CHANGES[i].word, text, length) == 0)
            return &CHANGES[i];
    return NULL;
}

bool qk_ablation_wording(const char *what, qk_ablation_words *words)
{
    const struct change *change = find_change(what);
    const char *colon = strchr(what, ':');
    const char *called = change ? colon ? change->valued : change->called : NULL;
    const char *gap = called ? strstr(called, "%s") : NULL;
    if (!called)
        return false;
    snprintf(words->called, sizeof words->called, "%.*s%s%s",
             (int)(gap ? gap - called : (ptrdiff_t)strlen(called)), called,
             gap ? colon + 1 : "", gap ? gap + 2 : "");
    words->needs = change->needs;
    words->spares = change->spares;
    return true;
}

static qk_status no_change(const char *word, size_t length, qk_error *err)
{
    char choices[256] = "";
    size_t at = 0;
    for (size_t i = 0; i < NUM_CHANGES; i++)
        at += (size_t)snprintf(choices + at, sizeof choices - at, "%s%s%s",
                               i == 0                 ? ""
                               : i + 1 == NUM_CHANGES ? " or "
                                                      : ", ",
                               CHANGES[i].word, CHANGES[i].value);
    return qk__fail(err, QK_ERR_ARGUMENT, "what: \"%.*s\": give %s", (int)length, word,
                    choices);
}

/* "64", "64:4": one or two numbers. */
static bool parse_numbers(const char *text, int64_t *a, int64_t *b)
{
    char first[24];
    const char *colon = strchr(text, ':');
    const size_t n = colon ? (size_t)(colon - text) : strlen(text);
    if (n == 0 || n >= sizeof first || (colon && !b))
        return false;
    memcpy(first, text, n);
    first[n] = 0;
    return qk__parse_integer(first, a) && *a >= 1 &&
           (!colon || (qk__parse_integer(colon + 1, b) && *b >= 0));
}

static bool parse_band(const char *band, qk__what *what)
{
    static const char *const THIRDS[] = {"fast", "middle", "slow"};
    what->thirds = 3;
    if (!*band || strcmp(band, "all") == 0)
        return true;
    for (int i = 0; i < 3; i++)
        if (strcmp(band, THIRDS[i]) == 0) {
            what->third = i;
            what->thirds = 1;
            return true;
        }
    what->thirds = 0;
    what->longest = INFINITY;
    if (*band == '<')
        return qk__parse_number(band + 1, &what->longest) && what->longest > 0;
    if (*band == '>')
        return qk__parse_number(band + 1, &what->shortest) && what->shortest > 0;
    char least[24];
    const size_t n = strcspn(band, "-");
    if (n >= sizeof least || !band[n])
        return false;
    memcpy(least, band, n);
    least[n] = 0;
    return qk__parse_number(least, &what->shortest) && what->shortest >= 0 &&
           qk__parse_number(band + n + 1, &what->longest) && what->longest > what->shortest;
}

/* "pc0", "a", "pc1:0.5". */
static bool parse_direction(const char *text, qk__what *what)
{
    char axis[24];
    const size_t n = strcspn(text, ":");
    int64_t component = -1;
    double part = 1;
    if (n == 0 || n >= sizeof axis)
        return false;
    memcpy(axis, text, n);
    axis[n] = 0;
    if (strcmp(axis, "a") != 0 &&
        (strncmp(axis, "pc", 2) != 0 || !qk__parse_integer(axis + 2, &component) ||
         component < 0 || component >= QK_MAX_DIM))
        return false;
    if (text[n] && (!qk__parse_number(text + n + 1, &part) || !(fabs(part) <= 100)))
        return false;
    what->component = (int)component;
    what->part = (float)part;
    return true;
}

static bool parse_what(const char *text, qk__what *what)
{
    const struct change *change = find_change(text);
    const char *colon = strchr(text, ':');
    if (!change || !(colon ? change->valued : change->called))
        return false;
    what->kind = change->kind;
    what->profile = change->kind == QK_CHANGE_PROFILE;
    what->mean = strcmp(change->word, "mean") == 0;
    const char *value = colon ? colon + 1 : "";
    if (change->kind == QK_CHANGE_DIRECTION)
        return parse_direction(value, what);
    if (change->kind == QK_CHANGE_WINDOW)
        return parse_numbers(value, &what->window, &what->kept);
    if (strcmp(change->word, "shuffle") == 0)
        return parse_numbers(value, &what->block, NULL);
    return change->kind != QK_CHANGE_ROTATION || parse_band(value, what);
}

static qk_status add_what(qk__ablation *a, const char *word, size_t length, qk_error *err)
{
    qk__what what = {0};
    if (length == 0 || length >= MOST_LETTERS)
        return no_change(word, length, err);
    memcpy(what.name, word, length);
    if (!parse_what(what.name, &what))
        return no_change(word, length, err);
    for (size_t i = 0; i < a->num_whats; i++)
        if (strcmp(a->whats[i].name, what.name) == 0)
            return qk__fail(err, QK_ERR_ARGUMENT, "what: %s twice", what.name);
    if (a->num_whats + 2 > QK__MOST_WHATS)
        return qk__fail(err, QK_ERR_ARGUMENT, "what: at most %d changes", QK__MOST_WHATS / 2);
    a->whats[a->num_whats++] = what;
    const char *control = what.kind == QK_CHANGE_ROTATION ? "+first" : "+next";
    if (a->settings->controls && (what.kind == QK_CHANGE_ROTATION ||
                                  (what.kind == QK_CHANGE_DIRECTION && what.component >= 0))) {
        what.keep_first = what.kind == QK_CHANGE_ROTATION;
        what.next = what.kind == QK_CHANGE_DIRECTION;
        snprintf(what.name + length, sizeof what.name - length, "%s", control);
        a->whats[a->num_whats++] = what;
    }
    return QK_OK;
}

qk_status qk__parse_whats(qk__ablation *a, qk_error *err)
{
    const char *at = a->settings->what;
    for (;;) {
        const size_t length = strcspn(at, ",");
        QK_TRY(add_what(a, at, length, err));
        at += length;
        if (!*at)
            return QK_OK;
        at++;
    }
}

void qk__freeze_pairs(const qk__what *what, const qk_layer_facts *layer, bool *frozen)
{
    int turning = 0, seen = 0;
    for (size_t i = 0; i < layer->num_frequencies; i++)
        turning += layer->frequencies[i] > 0;
    for (size_t i = 0; i < layer->num_frequencies; i++) {
        frozen[i] = false;
        if (!(layer->frequencies[i] > 0))
            continue;
        const double wavelength = TURN / layer->frequencies[i];
        const int third = 3 * seen++ / turning;
        frozen[i] = what->thirds > 0
                        ? third >= what->third && third < what->third + what->thirds
                        : wavelength >= what->shortest && wavelength < what->longest;
    }
}
