/* SPDX-License-Identifier: Apache-2.0 */
/* Findings over checkpoints: what changed from the first to the last, and where the largest
 * step is. Heads are compared with themselves; heads that share keys count once. One run says
 * nothing about another, and the sentences say so. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "report/evidence.h"
#include "results/headline.h"

static const char TOPIC[] = "Training";
static const char *const WATCHED[] = {"r_q",           "r_k",        "ev0",
                                      "bias_strength", "ap_overall", "ap_drop"};
enum { NUM_WATCHED = sizeof WATCHED / sizeof *WATCHED };

/* How a field differs between two checkpoints, head by head. */
typedef struct paired {
    double before, after; /* means over the heads both have */
    size_t heads;
    qk__estimate change; /* over groups of heads that share keys */
} paired;

static const qk__result_head *same_head(const qk__result_model *model,
                                        const qk__result_head *head, size_t *from)
{
    for (; *from < model->num_heads; (*from)++) {
        const qk__result_head *other = &model->heads[*from];
        if (other->layer == head->layer && other->q_head == head->q_head)
            return other;
        if (other->layer > head->layer ||
            (other->layer == head->layer && other->q_head > head->q_head))
            break;
    }
    return NULL;
}

/* groups holds as many numbers as a has heads. */
static paired compare_checkpoints(const qk__result_model *a, const qk__result_model *b,
                                  const qk__field *field, double *groups)
{
    paired out = {0};
    size_t count = 0, members = 0, next = 0;
    const qk__result_head *last = NULL;
    for (size_t h = 0; h < a->num_heads; h++) {
        const qk__result_head *head = &a->heads[h], *later = same_head(b, head, &next);
        double before = qk__field_number(head, field);
        double after = later ? qk__field_number(later, field) : NAN;
        if (!isfinite(before) || !isfinite(after))
            continue;
        if (!last || last->layer != head->layer || last->k_head != head->k_head) {
            groups[count++] = 0;
            members = 0;
        }
        members++;
        groups[count - 1] += (after - before - groups[count - 1]) / (double)members;
        out.before += before;
        out.after += after;
        out.heads++;
        last = head;
    }
    out.before /= (double)out.heads;
    out.after /= (double)out.heads;
    out.change = qk__estimate_mean(groups, count);
    return out;
}

/* A finding of which nothing was said. */
static void forget_last(qk__findings *findings)
{
    if (findings->status == QK_OK)
        findings->count--;
}

static void first_to_last(qk__findings *findings, const qk__results *results, double *groups)
{
    const qk__result_model *first = &results->models[0];
    const qk__result_model *last = &results->models[results->num_models - 1];
    size_t up = 0, down = 0, known = 0;
    qk__finding_begin(findings, "training-change", TOPIC, QK__UNSUPPORTED);
    for (size_t i = 0; i < NUM_WATCHED; i++) {
        const qk__field *field = qk__find_field(WATCHED[i]);
        paired p = compare_checkpoints(first, last, field, groups);
        if (p.heads == 0)
            continue;
        int side = qk__estimate_side(&p.change, 0);
        known++;
        up += side > 0;
        down += side < 0;
        qk__evidence(findings,
                     "Mean %s: %s → %s, change %s, %s, n = %zu groups of heads that "
                     "share keys (%s heads)%s.",
                     WATCHED[i], qk__show(p.before, 3).text, qk__show(p.after, 3).text,
                     qk__show(p.change.value, 2).text, qk__interval(&p.change, 3).text,
                     p.change.count, qk__show_count(p.heads).text,
                     side > 0   ? ": up"
                     : side < 0 ? ": down"
                                : ": no change that stands out from the spread of heads");
    }
    if (known == 0) {
        forget_last(findings);
        return;
    }
    qk__tell_held_keys(findings, &(qk__scope){.results = results});
    qk__short_name a = qk__short_name_of(first->label), b = qk__short_name_of(last->label);
    if (up + down > 0) {
        qk__finding_verdict(findings, QK__SUPPORTED);
        qk__claim(
            findings,
            "From %s to %s, of %zu numbers watched %zu rose and %zu fell by more than chance "
            "over heads explains.",
            a.text, b.text, known, up, down);
    } else {
        qk__claim(findings,
                  "From %s to %s no number changed by more than chance over heads "
                  "explains.",
                  a.text, b.text);
    }
    qk__evidence(findings, "One training run: another might go another way.");
}

/* ---- steps ------------------------------------------------------------------------------ */

typedef struct steps {
    size_t largest; /* from this checkpoint to the next */
    double size;    /* signed */
    bool boundary;  /* between two phases */
    double ratio;   /* |size| over the median of the other steps */
    double spread;  /* width of its 95 % interval over heads; NaN: none */
    size_t count;
} steps;

static steps find_steps(const qk__results *results, const qk__field *field, double *groups,
                        double *others)
{
    steps out = {.count = 0, .size = 0};
    for (size_t m = 0; m + 1 < results->num_models; m++) {
        paired p =
            compare_checkpoints(&results->models[m], &results->models[m + 1], field, groups);
        others[out.count] = NAN;
        if (p.heads == 0)
            continue;
        others[out.count] = fabs(p.after - p.before);
        if (out.count == 0 || fabs(p.after - p.before) > fabs(out.size)) {
            out.size = p.after - p.before;
            out.spread = p.change.high - p.change.low;
            out.largest = m;
        }
        out.count++;
    }
    size_t kept = 0;
    bool skipped = false;
    for (size_t i = 0; i < out.count; i++) {
        if (!skipped && others[i] == fabs(out.size)) {
            skipped = true;
            continue;
        }
        others[kept++] = others[i];
    }
    out.ratio = fabs(out.size) / qk__median(others, kept);
    out.boundary = out.count > 0 && results->models[out.largest].phase_index !=
                                        results->models[out.largest + 1].phase_index;
    return out;
}

static void largest_steps(qk__findings *findings, const qk__results *results, double *groups,
                          double *others)
{
    enum { ENOUGH_STEPS = 4 };
    /* Times the median of the other steps. The largest of a few is often that without any
     * cause, so it must also be clear of the spread of heads, by twice the usual distance. */
    const double stands_out = 3;
    size_t known = 0, at_boundary = 0, clear = 0, most_steps = 0;
    size_t inner = 0; /* steps within a phase */
    for (size_t m = 0; m + 1 < results->num_models; m++)
        inner += results->models[m].phase_index == results->models[m + 1].phase_index;
    qk__finding_begin(findings, "training-steps", TOPIC, QK__TOO_FEW);
    for (size_t i = 0; i < NUM_WATCHED; i++) {
        const qk__field *field = qk__find_field(WATCHED[i]);
        steps s = find_steps(results, field, groups, others);
        if (s.count < 2 || s.size == 0)
            continue;
        const qk__result_model *from = &results->models[s.largest], *to = from + 1;
        known++;
        most_steps = s.count > most_steps ? s.count : most_steps;
        bool clearly = s.ratio >= stands_out && fabs(s.size) > s.spread;
        clear += clearly;
        at_boundary += clearly && s.boundary;
        char phases[2 * sizeof(qk__short_name) + 40] = "within a phase";
        if (s.boundary)
            snprintf(phases, sizeof phases, "phase %s to %s",
                     qk__short_name_of(from->phase).text, qk__short_name_of(to->phase).text);
        qk__evidence(
            findings,
            "%s: largest step %s%s, %s to %s (%s), %s times the median of the others%s.",
            WATCHED[i], s.size > 0 ? "+" : "", qk__show(s.size, 2).text,
            qk__short_name_of(from->label).text, qk__short_name_of(to->label).text, phases,
            qk__show(s.ratio, 2).text, clearly ? "" : ": does not stand out");
    }
    if (known == 0) {
        forget_last(findings);
        return;
    }
    qk__verdict verdict = most_steps < ENOUGH_STEPS || inner == 0   ? QK__TOO_FEW
                          : at_boundary > 0 && at_boundary == clear ? QK__SUPPORTED
                          : at_boundary > 0                         ? QK__DIVIDED
                                                                    : QK__UNSUPPORTED;
    qk__finding_verdict(findings, verdict);
    if (verdict == QK__TOO_FEW)
        qk__claim(findings,
                  "Too few checkpoints (within phases) to tell whether the large steps "
                  "lie between phases.");
    else if (verdict == QK__UNSUPPORTED)
        qk__claim(
            findings,
            "No step between two phases stands out (%zu of %zu numbers have a step that does).",
            clear, known);
    else
        qk__claim(findings,
                  "Of %zu numbers watched, %zu have a step that stands out; it lies between "
                  "two phases "
                  "for %zu of these.",
                  known, clear, at_boundary);
}

void qk__findings_training(qk__findings *findings, const qk__results *results)
{
    size_t heads = 1;
    if (!results->checkpoints || results->num_models < 2)
        return;
    for (size_t m = 0; m < results->num_models; m++)
        heads = results->models[m].num_heads > heads ? results->models[m].num_heads : heads;
    double *groups = qk__calloc(heads, sizeof *groups);
    double *others = qk__calloc(results->num_models, sizeof *others);
    if (!groups || !others) {
        findings->status = qk__nomem(&findings->err);
    } else {
        first_to_last(findings, results, groups);
        largest_steps(findings, results, groups, others);
    }
    free(groups);
    free(others);
}
