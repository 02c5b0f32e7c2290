/* SPDX-License-Identifier: Apache-2.0 */
/* Changes, from words: "freeze:slow", "window:256:4". */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ablation/ablation.h"
#include "base/error.h"
#include "base/parse_number.h"

static const double TURN = 6.283185307179586;
static const char WORDS[] =
    "remove, mean, freeze[:BAND], shuffle:TOKENS, profile, window:TOKENS[:KEPT], no-sink, "
    "uniform or direction:pcN|a[:PART]";

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

static bool parse_what(const char *word, const char *rest, qk__what *what)
{
    static const struct {
        const char *word;
        qk_head_change_kind kind;
    } PLAIN[] = {{"remove", QK_CHANGE_OUTPUT},
                 {"mean", QK_CHANGE_OUTPUT},
                 {"profile", QK_CHANGE_PROFILE},
                 {"no-sink", QK_CHANGE_NO_SINK},
                 {"uniform", QK_CHANGE_UNIFORM}};
    for (size_t i = 0; i < sizeof PLAIN / sizeof *PLAIN; i++)
        if (strcmp(word, PLAIN[i].word) == 0) {
            what->kind = PLAIN[i].kind;
            what->profile = what->kind == QK_CHANGE_PROFILE;
            what->mean = strcmp(word, "mean") == 0;
            return !rest;
        }
    if (strcmp(word, "direction") == 0) {
        what->kind = QK_CHANGE_DIRECTION;
        return rest && parse_direction(rest, what);
    }
    what->kind = strcmp(word, "window") == 0 ? QK_CHANGE_WINDOW : QK_CHANGE_ROTATION;
    if (strcmp(word, "window") == 0)
        return rest && parse_numbers(rest, &what->window, &what->kept);
    if (strcmp(word, "shuffle") == 0)
        return rest && parse_numbers(rest, &what->block, NULL);
    return strcmp(word, "freeze") == 0 && parse_band(rest ? rest : "all", what);
}

static qk_status add_what(qk__ablation *a, const char *word, size_t length, qk_error *err)
{
    qk__what what = {0};
    char text[40];
    if (length == 0 || length >= sizeof text)
        return qk__fail(err, QK_ERR_ARGUMENT, "what: \"%.*s\": give %s", (int)length, word,
                        WORDS);
    memcpy(text, word, length);
    text[length] = 0;
    memcpy(what.name, text, length + 1);
    char *colon = strchr(text, ':');
    if (colon)
        *colon = 0;
    if (!parse_what(text, colon ? colon + 1 : NULL, &what))
        return qk__fail(err, QK_ERR_ARGUMENT, "what: \"%s\": give %s", what.name, WORDS);
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
