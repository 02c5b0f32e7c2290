/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts on changes of heads, in words. */
#include "verdicts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const double MOST_CHANGED = 0.5;
enum { MOST_SENTENCES = 10, MOST_NAMED = 8, MOST_COLUMNS = 100 };

enum { NUM_VERDICTS = QK_VERDICT_UNDECIDED + 1 };

static const char *const VERDICTS[NUM_VERDICTS] = {"unchanged", "harmless", "needed",
                                                   "undecided"};

/* The effects of a list, which lie in the outcome. */
typedef struct told {
    const qk_ablation_outcome *outcome;
    const qk_ablation_effect *const *list;
    size_t count;
    double tolerance;
} told;

const char *cli_verdict(const qk_ablation_effect *effect, double tolerance)
{
    return VERDICTS[qk_ablation_judge(effect, tolerance)];
}

/* Controls get no verdict: others are compared with them. */
static bool is_told(const qk_ablation_effect *e)
{
    return strchr(e->what, '+') == NULL;
}

/* Rounds to enough digits to see on which side of a tolerance of hundredths it lies, without a minus before zero. */
static double plain(double loss)
{
    const double rounded = round(1e4 * loss) / 1e4;
    return rounded == 0 ? 0 : rounded;
}

static size_t count_tests(const told *t)
{
    size_t tests = 0;
    for (size_t i = 0; i < t->count; i++)
        tests += isfinite(t->list[i]->p);
    return tests;
}

/* How much of the texts the change reached, where that is little or keeps a small loss from being harmless. */
static void add_reach(FILE *text, const told *t, const qk_ablation_effect *e,
                      qk_ablation_verdict found)
{
    const bool decides = found == QK_VERDICT_UNDECIDED && e->delta_hi < t->tolerance,
               few = e->changed_texts < QK_CHANGED_TEXTS, one = isnan(e->changed_delta_hi);
    if (decides && few)
        fprintf(text, "; only %s changed", e->changed_texts == 1 ? "one text" : "two texts");
    else if (decides && one)
        fprintf(text, "; most of what changed is of one text");
    if (e->changed < MOST_CHANGED || (decides && !few && !one))
        fprintf(text, "; only %.2g %% of predictions changed", 100 * e->changed);
}

/* "without rotation the loss rises (0.0093, 0.0042 to 0.0144): it uses position". Only the first number of a sentence has its
 * unit. */
static void add_verdict(FILE *text, const told *t, const qk_ablation_effect *e,
                        const char *unit)
{
    static const char *const SAID[2][NUM_VERDICTS] = {
        {" changes nothing in these texts", " is harmless", " raises the loss",
         " is not decided"},
        {" nothing changes in these texts", " the loss hardly rises", " the loss rises",
         " the rise is not decided"}};
    qk_ablation_words words = {.needs = "it is needed", .spares = "it is not needed"};
    const qk_ablation_verdict found = qk_ablation_judge(e, t->tolerance);
    if (!qk_ablation_wording(e->what, &words))
        snprintf(words.called, sizeof words.called, "%s", e->what);
    const bool with = strncmp(words.called, "with", 4) == 0;
    if (found == QK_VERDICT_HARMLESS && e->delta_hi < 0)
        fprintf(text, "%s%s", words.called, with ? " the loss falls" : " lowers the loss");
    else
        fprintf(text, "%s%s", words.called, SAID[with][found]);
    if (found == QK_VERDICT_UNCHANGED) {
        long long window = 0,
                  kept = 0; /* a window may also change nothing as the head puts out 0 */
        if (sscanf(e->what, "window:%lld:%lld", &window, &kept) > 0 &&
            (double)window + (double)kept >= t->outcome->lengths.most - 1)
            fprintf(text, ", which have at most %.0f tokens", t->outcome->lengths.most);
        return;
    }
    fprintf(text, " (%.4f", plain(e->delta));
    if (isfinite(e->delta_lo) && isfinite(e->delta_hi))
        fprintf(text, ", %.4f to %.4f%s", plain(e->delta_lo), plain(e->delta_hi), unit);
    else
        fprintf(text, "%s; %s", unit,
                t->outcome->text_groups == 1 ? "one text has no interval"
                                             : "no interval, as most tokens are of one text");
    add_reach(text, t, e, found);
    if (found == QK_VERDICT_UNDECIDED && e->delta_lo > 0)
        fprintf(text, "; p %.2g, corrected for %zu tests %.2g", e->p, count_tests(t),
                e->p_corrected);
    fprintf(text, ")");
    if (found != QK_VERDICT_UNDECIDED)
        fprintf(text, ": %s", found == QK_VERDICT_HARMLESS ? words.spares : words.needs);
    if (found == QK_VERDICT_HARMLESS && e->changed < MOST_CHANGED)
        fprintf(text, " in these texts");
    if (found == QK_VERDICT_NEEDED && isfinite(e->beyond_lo))
        fprintf(text, ", %smore than %d random %s on average", e->beyond_lo > 0 ? "" : "no ",
                e->draws, strncmp(e->what, "direction", 9) == 0 ? "directions" : "groups");
}

/* The next change of a group of heads in the order of the tables, which lie in one array. */
static const qk_ablation_effect *next_of(const told *t, const char *group,
                                         const qk_ablation_effect *last)
{
    const qk_ablation_effect *next = NULL;
    for (size_t i = 0; i < t->count; i++)
        if ((!last || t->list[i] > last) && (!next || t->list[i] < next) &&
            is_told(t->list[i]) && strcmp(t->list[i]->group, group) == 0)
            next = t->list[i];
    return next;
}

static void print_indented(const char *text)
{
    cli_print("  ");
    cli_print_wrapped(text, 4, MOST_COLUMNS);
    cli_print("\n");
}

static void print_sentence(const told *t, const char *group)
{
    const qk_ablation_effect *e = NULL;
    char *said = NULL;
    size_t size;
    FILE *text = open_memstream(&said, &size);
    if (!text)
        return;
    fprintf(text, "%s: ", group);
    for (const char *unit = " nats"; (e = next_of(t, group, e)); unit = "") {
        fprintf(text, "%s", *unit ? "" : "; ");
        add_verdict(text, t, e, unit);
    }
    fprintf(text, ".");
    if (fclose(text) == 0)
        print_indented(said);
    free(said);
}

static bool is_first(const qk_ablation_effect *const *list, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (is_told(list[k]) && strcmp(list[k]->group, list[i]->group) == 0)
            return false;
    return is_told(list[i]);
}

/* For each change: the number of each verdict, and the undecided heads. */
static void print_counts(const told *t, const char *what)
{
    size_t of[NUM_VERDICTS] = {0}, named = 0;
    for (size_t i = 0; i < t->count; i++)
        of[qk_ablation_judge(t->list[i], t->tolerance)] += strcmp(t->list[i]->what, what) == 0;
    qk_ablation_words words;
    cli_print("  %s: ", qk_ablation_wording(what, &words) ? words.called : what);
    for (int v = of[QK_VERDICT_UNCHANGED] > 0 ? QK_VERDICT_UNCHANGED : QK_VERDICT_HARMLESS;
         v < NUM_VERDICTS; v++)
        cli_print("%zu %s%s", of[v], VERDICTS[v], v + 1 < NUM_VERDICTS ? ", " : "");
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->list[i]->what, what) == 0 &&
            qk_ablation_judge(t->list[i], t->tolerance) == QK_VERDICT_UNDECIDED &&
            named++ < MOST_NAMED)
            cli_print("%s%s", named == 1 ? " (" : ", ", t->list[i]->group);
    cli_print("%s\n", named > MOST_NAMED ? ", ...)" : named ? ")" : "");
}

void cli_print_verdicts(const qk_ablation_outcome *outcome,
                        const qk_ablation_effect *const *list, size_t count, double tolerance)
{
    const told t = {outcome, list, count, tolerance};
    size_t sentences = 0, groups = 0;
    const qk_ablation_effect *change = next_of(&t, list[0]->group, NULL);
    cli_print("\nVerdicts; harmless means that the interval ends below %g nats a token that "
              "changed (--tolerance):\n",
              tolerance);
    for (size_t i = 0; i < count && sentences < MOST_SENTENCES; i++)
        if (is_first(list, i) && ++sentences > 0)
            print_sentence(&t, list[i]->group);
    for (size_t i = 0; change && i < count; i++)
        groups += strcmp(list[i]->what, change->what) == 0;
    if (groups > sentences)
        cli_print("  ... and %zu more\n", groups - sentences);
    for (; groups > 1 && change; change = next_of(&t, list[0]->group, change))
        print_counts(&t, change->what);
}
