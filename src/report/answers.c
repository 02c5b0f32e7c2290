/* SPDX-License-Identifier: Apache-2.0 */
/* Outcomes of tests, and sentences of findings. */
#include "report/answers.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/buffer.h"

/* ---- tests ------------------------------------------------------------------------------ */

/* The finding that is being made; NULL after a failure. */
static qk__finding *last_finding(qk__findings *findings)
{
    return !findings->work.failed && findings->count > 0 ? &findings->items[findings->count - 1]
                                                         : NULL;
}

/* The corrected p-values are in the second half. */
static bool grow_tests(qk__tests *tests)
{
    if (tests->count < tests->capacity)
        return true;
    double *p = qk__grow(tests->p, &tests->capacity, 2 * sizeof *p);
    tests->p = p ? p : tests->p;
    return p != NULL;
}

qk__outcome qk__tested(qk__findings *findings, qk__test test, double effect)
{
    qk__tests *tests = &findings->tests;
    qk__outcome out = {test.p, NAN, 0, qk__phrase_of("no p-value")};
    qk__finding *of = last_finding(findings);
    if (!of || isnan(test.p))
        return out;
    if (!tests->corrected) {
        if (grow_tests(tests))
            tests->p[tests->count++] = test.p;
        else
            findings->work.failed = true;
        return out;
    }
    if (tests->next < tests->count)
        out.adjusted = tests->p[tests->capacity + tests->next++];
    out.text = qk__phrase_of("p = %e, corrected %e", out.p, out.adjusted);
    out.side = out.adjusted <= QK__LEVEL ? test.side : 0;
    of->p = fmin(of->p, out.p);
    of->p_adjusted = fmin(of->p_adjusted, out.adjusted);
    if (out.side != 0)
        of->effect = fmin(of->effect, fabs(effect));
    return out;
}

/* ---- sentences -------------------------------------------------------------------------- */

/* Adds a line to a text that may be NULL. */
static void add_line(qk__findings *findings, char **text, const char *fmt, va_list args)
{
    char line[4000] = "";
    qk__add_words_v(line, sizeof line, fmt, args);
    char *longer = qk__format("%s%s%s", *text ? *text : "", *text ? "\n" : "", line);
    findings->work.failed = !longer;
    if (!longer)
        return;
    free(*text);
    *text = longer;
}

void qk__claim(qk__findings *findings, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (last_finding(findings))
        add_line(findings, &last_finding(findings)->claim, fmt, args);
    va_end(args);
}

void qk__evidence(qk__findings *findings, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (last_finding(findings))
        add_line(findings, &last_finding(findings)->evidence, fmt, args);
    va_end(args);
}

/* ---- phrases ---------------------------------------------------------------------------- */

qk__phrase qk__where(const qk__asked *asked, const qk__units *units)
{
    const char *label = asked->of->num_models > 0 ? asked->of->labels[units->first_model] : "";
    qk__short_name name = qk__short_name_of(label);
    if (units->of_models)
        return qk__phrase_of("across %zu models", units->models);
    if (units->models > 1)
        return qk__phrase_of("in these %zu models", units->models);
    if (asked->of->checkpoints)
        return qk__phrase_of("at the last checkpoint, %s", name.text);
    return qk__phrase_of("in %s", *label ? name.text : "this model");
}

qk__phrase qk__how_many(const qk__units *units)
{
    qk__phrase out = qk__phrase_of(
        "n = %zu %s (%zu heads)", units->count,
        units->of_models ? "models" : "groups of heads that share keys", units->heads);
    if (!units->of_models)
        qk__add_words(out.text, sizeof out.text, " in %zu layer%s", units->layers.count,
                      units->layers.count == 1 ? "" : "s");
    return out;
}

qk__phrase qk__interval(const qk__estimate *estimate)
{
    return isfinite(estimate->low)
               ? qk__phrase_of("95 %% interval %.3g to %.3g", estimate->low, estimate->high)
               : qk__phrase_of("no interval");
}

qk__phrase qk__of_name(const qk__asked *asked)
{
    return *asked->name ? qk__phrase_of("%s: ", qk__short_name_of(asked->name).text)
                        : (qk__phrase){""};
}
