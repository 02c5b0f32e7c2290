/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts on changes of heads. Not significant is no reason to call a change harmless: with few texts nothing is
 * significant. So the interval is compared with a loss that the user accepts. */
#include "verdicts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { MOST_SENTENCES = 10, MOST_NAMED = 8 };

typedef enum verdict { HARMLESS, NEEDED, UNDECIDED, NUM_VERDICTS } verdict;

static const char *const VERDICTS[NUM_VERDICTS] = {"harmless", "needed", "undecided"};

/* The rules, in their order. */
static verdict verdict_of(const qk_ablation_effect *e, double tolerance)
{
    return e->delta_hi < tolerance ? HARMLESS : e->delta_lo > 0 ? NEEDED : UNDECIDED;
}

/* What a change asks: its beginning, how it is called, and what follows where the loss rises and where it does not.
 * %s: what is behind the colon. */
static const struct {
    const char *what, *called, *needs, *spares;
} ASKED[] = {
    {"remove", "removed", "the model needs this", "the model does without"},
    {"mean", "with its mean output", "the output tells texts apart", "a constant would do"},
    {"freeze:", "without rotation (%s)", "position is used", "that rotation is not needed"},
    {"freeze", "without rotation", "position is used", "rotation is not needed"},
    {"shuffle:", "with keys shuffled (%s)", "position at that scale is used",
     "position at that scale is not needed"},
    {"profile", "with weights by distance alone", "distance is not enough",
     "distance is enough"},
    {"window:", "with a window (%s)", "keys farther away are used", "this window is enough"},
    {"no-sink", "without the sink", "the sink is used", "the sink is not needed"},
    {"direction:", "without %s in the queries", "that axis is used", "that axis is not needed"},
    {"uniform", "with equal weights", "the attention is used", "the attention is not needed"},
};

static size_t asked_by(const char *what)
{
    size_t i = 0;
    while (i + 1 < sizeof ASKED / sizeof *ASKED &&
           strncmp(what, ASKED[i].what, strlen(ASKED[i].what)) != 0)
        i++;
    return i;
}

static void print_change(const char *what)
{
    const size_t i = asked_by(what);
    const char *called = ASKED[i].called, *gap = strstr(called, "%s");
    if (gap)
        cli_print("%.*s%s%s", (int)(gap - called), called, what + strlen(ASKED[i].what),
                  gap + 2);
    else
        cli_print("%s", called);
}

const char *cli_verdict(const qk_ablation_effect *effect, double tolerance)
{
    return VERDICTS[verdict_of(effect, tolerance)];
}

/* Controls are what others are compared with. */
static bool is_told(const qk_ablation_effect *e)
{
    return strchr(e->what, '+') == NULL;
}

/* In thousandths, and no minus before a zero. */
static double plain(double loss)
{
    const double rounded = round(1000 * loss) / 1000;
    return rounded == 0 ? 0 : rounded;
}

static void print_verdict(const qk_ablation_effect *e, double tolerance)
{
    const size_t asked = asked_by(e->what);
    const verdict found = verdict_of(e, tolerance);
    print_change(e->what);
    cli_print(found == HARMLESS ? " harmless"
              : found == NEEDED ? " the loss rises"
                                : " not decided");
    if (isfinite(e->delta_lo) && isfinite(e->delta_hi))
        cli_print(" (%.3f, %.3f to %.3f)", plain(e->delta), plain(e->delta_lo),
                  plain(e->delta_hi));
    else
        cli_print(" (%.3f; one text has no interval)", plain(e->delta));
    if (found != UNDECIDED)
        cli_print(": %s", found == HARMLESS ? ASKED[asked].spares : ASKED[asked].needs);
    if (found == NEEDED && e->draws > 0)
        cli_print(e->beyond_lo > 0 ? ", more than random heads"
                                   : ", no more than random heads");
}

/* The next change of a group in the order of the tables, which lie in one array. */
static const qk_ablation_effect *next_of(const qk_ablation_effect *const *list, size_t count,
                                         const char *group, const qk_ablation_effect *last)
{
    const qk_ablation_effect *next = NULL;
    for (size_t i = 0; i < count; i++)
        if ((!last || list[i] > last) && (!next || list[i] < next) && is_told(list[i]) &&
            strcmp(list[i]->group, group) == 0)
            next = list[i];
    return next;
}

static void print_sentence(const qk_ablation_effect *const *list, size_t count,
                           const char *group, double tolerance)
{
    const qk_ablation_effect *e = NULL;
    cli_print("  %s", group);
    for (const char *before = ": "; (e = next_of(list, count, group, e)); before = "; ") {
        cli_print("%s", before);
        print_verdict(e, tolerance);
    }
    cli_print(".\n");
}

static bool is_first(const qk_ablation_effect *const *list, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (is_told(list[k]) && strcmp(list[k]->group, list[i]->group) == 0)
            return false;
    return is_told(list[i]);
}

/* How many of a change have each verdict, and which are not decided. */
static void print_counts(const qk_ablation_effect *const *list, size_t count, const char *what,
                         double tolerance)
{
    size_t of[NUM_VERDICTS] = {0};
    for (size_t i = 0; i < count; i++)
        of[verdict_of(list[i], tolerance)] += strcmp(list[i]->what, what) == 0;
    cli_print("  ");
    print_change(what);
    for (int v = 0; v < NUM_VERDICTS; v++)
        cli_print("%s%zu %s", v ? ", " : ": ", of[v], VERDICTS[v]);
    size_t named = 0;
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i]->what, what) == 0 && verdict_of(list[i], tolerance) == UNDECIDED &&
            named++ < MOST_NAMED)
            cli_print("%s%s", named == 1 ? " (" : ", ", list[i]->group);
    cli_print("%s\n", named > MOST_NAMED ? ", ...)" : named ? ")" : "");
}

void cli_print_verdicts(const qk_ablation_effect *const *list, size_t count, double tolerance)
{
    size_t told = 0, groups = 0;
    const qk_ablation_effect *change = next_of(list, count, list[0]->group, NULL);
    cli_print("\nharmless: the interval ends below %g nats a token (--tolerance)\n", tolerance);
    for (size_t i = 0; i < count && told < MOST_SENTENCES; i++)
        if (is_first(list, i) && ++told > 0)
            print_sentence(list, count, list[i]->group, tolerance);
    for (size_t i = 0; change && i < count; i++)
        groups += strcmp(list[i]->what, change->what) == 0;
    if (groups > told)
        cli_print("  ... and %zu more\n", groups - told);
    for (; groups > 1 && change; change = next_of(list, count, list[0]->group, change))
        print_counts(list, count, change->what, tolerance);
}
