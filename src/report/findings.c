/* SPDX-License-Identifier: Apache-2.0 */
/* Asks all questions, in each family or of all heads together, and draws conclusions. */
#include "report/findings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "report/answers.h"
#include "report/scores.h"
#include "schema/schema.h"
#include "stats/false_discovery.h"
#include "stats/means.h"

const char *const qk__verdict_names[QK__NUM_VERDICTS] = {
    "supported",       "supported, against expectation", "divided", "not supported",
    "too few to tell",
};
const char *const qk__verdict_tokens[QK__NUM_VERDICTS] = {
    "supported", "opposite", "divided", "unsupported", "too-few",
};

/* ---- begin and end ---------------------------------------------------------------------- */

static qk__finding *begin_finding(qk__findings *findings, const qk__question *question)
{
    if (!findings->work.failed && findings->count == findings->capacity) {
        qk__finding *items =
            qk__grow(findings->items, &findings->capacity, sizeof *findings->items);
        findings->work.failed = !items;
        findings->items = items ? items : findings->items;
    }
    if (findings->work.failed)
        return NULL;
    qk__finding *begun = &findings->items[findings->count++];
    *begun = (qk__finding){.id = question->id,
                           .topic = question->topic,
                           .p = NAN,
                           .p_adjusted = NAN,
                           .effect = NAN};
    memcpy(begun->figures, question->figures, sizeof begun->figures);
    return begun;
}

static qk__verdict verdict_of(const qk__outcome *outcome)
{
    return isnan(outcome->p)   ? QK__TOO_FEW
           : outcome->side > 0 ? QK__SUPPORTED
           : outcome->side < 0 ? QK__OPPOSITE
                               : QK__UNSUPPORTED;
}

/* Adds a sentence of the question to a claim, with its place and what it is of. */
static void put_sentence(qk__phrase *claim, const char *words, const char *where,
                         const char *what)
{
    for (size_t size; *words; words += size + (words[size] != 0)) {
        size = strcspn(words, "@$");
        qk__add_words(claim->text, sizeof claim->text, "%.*s%s", (int)size, words,
                      words[size] == '@'   ? where
                      : words[size] == '$' ? what
                                           : "");
    }
}

static void conclude(qk__findings *findings, const qk__question *question, qk__verdict verdict,
                     const char *where, const char *what)
{
    findings->items[findings->count - 1].verdict =
        verdict == QK__OPPOSITE && question->both_ways ? QK__SUPPORTED : verdict;
    qk__phrase claim = {""};
    put_sentence(&claim,
                 verdict == QK__SUPPORTED     ? question->higher
                 : verdict == QK__OPPOSITE    ? question->lower
                 : verdict == QK__UNSUPPORTED ? question->either
                                              : question->too_few,
                 where, what);
    qk__claim(findings, "%s", claim.text);
}

/* ---- parts ------------------------------------------------------------------------------ */

static qk__ask *const ASK[QK__NUM_QUESTION_KINDS] = {
    [QK__MEAN] = qk__ask_mean,     [QK__SIGNED] = qk__ask_mean,
    [QK__SHARE] = qk__ask_mean,    [QK__FIRST] = qk__ask_first,
    [QK__GROUPS] = qk__ask_groups, [QK__RELATION] = qk__ask_relation,
    [QK__DEPTH] = qk__ask_depth,   [QK__TRAINING] = qk__ask_training,
};

/* The answers about several families or models, counted. */
typedef struct votes {
    size_t parts, up, down, untested;
    const char *parts_of; /* "family", "model"; NULL: it was asked of all at once */
    qk__answer last;
} votes;

/* The same numbers without other models: of one family, or of the models from `first` to before `end`. */
static qk__asked part_of(qk__work *work, const qk__asked *all, const char *family, size_t first,
                         size_t end)
{
    const qk__sample *of = all->of;
    double *y = qk__work_take(work, of->count + 1, sizeof *y);
    for (size_t m = 0; y && m < of->num_models; m++)
        for (size_t i = of->begin[m]; i < of->begin[m + 1]; i++)
            y[i] = m >= first && m < end && (!family || strcmp(of->families[m], family) == 0)
                       ? all->y[i]
                       : NAN;
    return (qk__asked){of, y, all->x, ""};
}

static void ask_part(qk__findings *findings, const qk__question *question, qk__asked part,
                     votes *all)
{
    qk__answer answer =
        part.y ? ASK[question->kind](findings, question, &part) : (qk__answer){0};
    if (!answer.any)
        return;
    all->parts++;
    all->up += answer.outcome.side > 0;
    all->down += answer.outcome.side < 0;
    all->untested += isnan(answer.outcome.p);
    all->last = answer;
}

/* "in 1 of 3 families; in the others this is not settled" */
static qk__phrase where_of(const votes *all, size_t count)
{
    const char *plural = strcmp(all->parts_of, "family") == 0 ? "families" : "models";
    if (count == 0)
        return qk__phrase_of("in any %s", all->parts_of);
    if (count == all->parts)
        return qk__phrase_of("in every %s", all->parts_of);
    return qk__phrase_of(
        "in %zu of %zu %s%s", count, all->parts, plural,
        all->up + all->down < all->parts ? "; in the others this is not settled" : "");
}

static void conclude_votes(qk__findings *findings, const qk__question *question,
                           const votes *all)
{
    const char *what = all->last.what.text;
    if (all->up > 0 && all->down > 0) {
        qk__phrase claim = {""};
        put_sentence(&claim, question->higher, where_of(all, all->up).text, what);
        qk__add_words(claim.text, sizeof claim.text, " ");
        put_sentence(&claim, question->lower, where_of(all, all->down).text, what);
        findings->items[findings->count - 1].verdict = QK__DIVIDED;
        qk__claim(findings, "%s", claim.text);
        return;
    }
    conclude(findings, question,
             all->untested == all->parts ? QK__TOO_FEW
             : all->up > 0               ? QK__SUPPORTED
             : all->down > 0             ? QK__OPPOSITE
                                         : QK__UNSUPPORTED,
             where_of(all, all->up + all->down).text, what);
}

/* Tells what goes one way in families and the other way over all heads. */
static void tell_paradox(qk__findings *findings, const qk__asked *asked, const votes *all)
{
    double r = qk__fit_line(asked->x, asked->y, asked->of->count).r;
    if ((r > 0 && all->up == 0 && all->down > 0) || (r < 0 && all->down == 0 && all->up > 0))
        qk__evidence(
            findings,
            "Simpson's paradox: over all heads together it goes the other way, r = %.3g.", r);
}

static size_t models_with(const qk__asked *asked)
{
    size_t count = 0;
    for (size_t m = 0; m < asked->of->num_models; m++) {
        bool any = false;
        for (size_t i = asked->of->begin[m]; i < asked->of->begin[m + 1]; i++)
            any |= isfinite(asked->y[i]) != 0;
        count += any;
    }
    return count;
}

/* ---- questions -------------------------------------------------------------------------- */

static bool is_first(const qk__sample *of, size_t model)
{
    for (size_t m = 0; m < model; m++)
        if (strcmp(of->families[m], of->families[model]) == 0)
            return false;
    return true;
}

static void ask_families(qk__findings *findings, const qk__question *question,
                         const qk__asked *all, votes *of)
{
    for (size_t m = 0; m < all->of->num_models; m++) {
        const char *family = all->of->families[m];
        if (!is_first(all->of, m))
            continue;
        qk__asked part = part_of(&findings->work, all, family, 0, all->of->num_models);
        part.name = family;
        ask_part(findings, question, part, of);
    }
    of->parts_of = "family";
}

/* Asks about each model by itself, where there are too few models. */
static void ask_models(qk__findings *findings, const qk__question *question,
                       const qk__asked *all, votes *of)
{
    for (size_t m = 0; m < all->of->num_models; m++) {
        qk__asked part = part_of(&findings->work, all, NULL, m, m + 1);
        part.name = all->of->labels[m];
        ask_part(findings, question, part, of);
    }
    of->parts_of = "model";
}

static bool has_families(const qk__sample *of)
{
    size_t count = 0;
    for (size_t m = 0; m < of->num_models; m++)
        count += is_first(of, m);
    return count > 1 && !of->checkpoints;
}

/* Of checkpoints only the last one counts, except where the question is how they change. */
static void ask(qk__findings *findings, const qk__question *question, const qk__asked *all)
{
    const qk__sample *of = all->of;
    votes found = {0};
    if (!begin_finding(findings, question))
        return;
    bool last = of->checkpoints && question->kind != QK__TRAINING;
    if (question->by_family && has_families(of))
        ask_families(findings, question, all, &found);
    else if (question->kind == QK__DEPTH && !last && models_with(all) < QK__ENOUGH_MODELS &&
             models_with(all) > 1)
        ask_models(findings, question, all, &found);
    else
        ask_part(
            findings, question,
            part_of(&findings->work, all, NULL, last ? of->num_models - 1 : 0, of->num_models),
            &found);
    if (found.parts == 0) {
        findings->count--;
        return;
    }
    if (findings->work.failed)
        return;
    if (found.parts_of)
        conclude_votes(findings, question, &found);
    else if (found.last.told)
        findings->items[findings->count - 1].verdict = QK__SUPPORTED;
    else
        conclude(findings, question, verdict_of(&found.last.outcome), found.last.where.text,
                 found.last.what.text);
    if (question->kind == QK__RELATION && found.parts_of)
        tell_paradox(findings, all, &found);
    if (question->note)
        qk__evidence(findings, "%s", question->note);
}

/* ---- scores of models ------------------------------------------------------------------- */

/* What a column is called in a sentence. */
static qk__phrase noun_of(const char *name)
{
    const qk__field *field = qk__find_field(name);
    return qk__phrase_of("%s", field && field->info.label ? field->info.label
                                                          : qk__short_name_of(name).text);
}

static const qk__question SCORES = {
    .id = "scores",
    .topic = "Benchmark scores",
    .both_ways = true,
    .higher = "Over models, $ and @ go together: the larger the one, the higher the other.",
    .lower =
        "Over models, $ and @ go against each other: the larger the one, the lower the other.",
    .either =
        "The data do not show that $ goes with @: over so few models the correlation could "
        "be chance.",
    .too_few = "Too few models with a score to tell whether $ goes with @.",
    .figures = {"plasticity-05-score"},
};

static void state_scores(qk__findings *findings, const qk__line *line, const char *metric,
                         const char *column)
{
    enum { ENOUGH = 5 };
    double count = (double)line->count;
    qk__estimate r = qk__estimate_correlation(line->r, count);
    if (!begin_finding(findings, &SCORES))
        return;
    qk__outcome outcome = qk__tested(
        findings,
        line->count >= ENOUGH ? qk__test_correlation(line->r, count) : (qk__test){NAN, 0},
        line->r);
    conclude(findings, &SCORES, verdict_of(&outcome), noun_of(column).text,
             noun_of(metric).text);
    qk__evidence(findings, "r = %.3g, %s, n = %zu models; %s.", line->r, qk__interval(&r).text,
                 line->count, outcome.text.text);
    qk__evidence(findings,
                 "Models of one family are not independent, and models differ in much "
                 "else (size, training): a correlation is no cause.");
}

static void ask_scores(qk__findings *findings, const qk__score_choice *scores,
                       const qk_columns *scored)
{
    const size_t count = qk_columns_num_rows(scored);
    if (count == 0)
        return;
    qk__line line =
        qk__fit_line(qk_columns_reals(scored, "x"), qk_columns_reals(scored, "y"), count);
    if (line.count > 0)
        state_scores(findings, &line, scores->metric, qk_columns_texts(scored, "shown")[0]);
}

/* ---- all of them ------------------------------------------------------------------------ */

static void ask_all(qk__findings *findings, const qk__sample *sample,
                    const qk__score_choice *scores, const qk_columns *scored)
{
    for (size_t i = 0; sample->heads && i < qk__num_questions; i++) {
        const qk__question *question = &qk__questions[i];
        const qk__asked all = {sample, qk__sample_column(sample, 'y', i),
                               question->x ? qk__sample_column(sample, 'x', i) : NULL, ""};
        if (all.y && (all.x || !question->x))
            ask(findings, question, &all);
        qk__work_release(&findings->work);
    }
    ask_scores(findings, scores, scored);
    qk__work_release(&findings->work);
}

static void forget_sentences(qk__findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        free(findings->items[i].claim);
        free(findings->items[i].evidence);
    }
    findings->count = 0;
}

/* Corrects the gathered p-values, and finds the largest p that still holds. */
static void correct_tests(qk__findings *findings)
{
    qk__tests *tests = &findings->tests;
    double *adjusted = tests->p ? tests->p + tests->capacity : NULL;
    size_t holding = 0;
    findings->work.failed |=
        qk__correct_p_values(tests->p, tests->count, adjusted, NULL) != QK_OK;
    for (size_t i = 0; adjusted && i < tests->count; i++)
        holding += adjusted[i] <= QK__LEVEL;
    tests->level = QK__LEVEL * (double)(holding > 0 ? holding : 1) /
                   (double)(tests->count + !tests->count);
    tests->next = 0;
    tests->corrected = true;
}

/* What is said depends on the corrected p-values, and these depend on all findings: so all is said twice, and the
 * first time only gathers p-values. */
qk_status qk__findings_derive(qk__store *tables, const qk__score_choice *scores,
                              qk__findings *findings, qk_error *err)
{
    qk__sample sample = {0};
    qk_columns *scored = NULL;
    *findings = (qk__findings){0};
    qk_status status = qk__sample_read(tables, &sample, err);
    if (status == QK_OK)
        status = qk__read_scores(tables, scores, &scored, err);
    if (status == QK_OK) {
        ask_all(findings, &sample, scores, scored);
        forget_sentences(findings);
        correct_tests(findings);
        ask_all(findings, &sample, scores, scored);
        if (findings->work.failed)
            status = qk__nomem(err);
    }
    qk_columns_free(&scored);
    qk__sample_free(&sample);
    if (status != QK_OK)
        qk__findings_free(findings);
    return status;
}

bool qk__is_shown_by(const qk__finding *finding, const char *figure)
{
    for (size_t i = 0; finding->claim && i < QK__NUM_SHOWN && finding->figures[i]; i++)
        if (strcmp(finding->figures[i], figure) == 0)
            return true;
    return false;
}

void qk__findings_free(qk__findings *findings)
{
    forget_sentences(findings);
    free(findings->items);
    free(findings->tests.p);
    *findings = (qk__findings){0};
}
