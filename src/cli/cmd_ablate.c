/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope ablate: what a model loses without a head, or without a part of it. */
#include "tell.h"
#include "verdicts.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/ablate.h>

enum { MAX_LISTED = 20 };

typedef struct request {
    cli_common common;
    qk_ablation_settings settings;
    double tolerance;
} request;

static const qk_setting ROWS[] = {
    QK_SETTING_PART(request, settings, qk_ablation_settings_table),
    {"tolerance", QK_SETTING_REAL, QK_SETTING_AT(request, tolerance), .number = 0.01,
     .max = 100, .value = "NATS", .unit = "nats a token",
     .help = "a change is harmless where the interval of its loss, over what it "
             "changed, ends below this",
     .section = "Output"},
    CLI_SHARD(request, NULL),
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

static int settle_ablation(const cli_call *call)
{
    const request *r = call->request;
    qk_error err;
    for (int i = 0; i < call->count; i++) /* the shell's *.txt */
        if (qk_settings_set(call->settings, "text", call->arguments[i], &err) != QK_OK)
            return cli_usage("'%s': %s", call->arguments[i], err.message);
    if (!r->settings.recorder.model)
        return cli_usage("which model? --model DIR");
    if (r->settings.recorder.num_texts == 0)
        return cli_usage("which texts? --text FILE");
    if (!r->settings.recorder.output && !r->settings.dry_run)
        return cli_usage("where to? -o DIR, or --dry-run");
    return -1;
}

/* ---- the outcome ------------------------------------------------------------------------ */

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

#define NUMBER(name) CLI_ROW(#name, number(e->name))

/* As the tables have them, and the verdict. */
static json_t *effects_json(const qk_ablation_outcome *o, double tolerance)
{
    json_t *list = json_array();
    for (size_t i = 0; i < o->num_effects; i++) {
        const qk_ablation_effect *e = &o->effects[i];
        json_array_append_new(
            list,
            cli_object(CLI_ROWS(
                CLI_ROW("what", json_string(e->what)), CLI_OF(e, group), CLI_OF(e, layer),
                CLI_OF(e, q_head), CLI_ROW("heads", (int64_t)e->heads), NUMBER(delta),
                NUMBER(delta_lo), NUMBER(delta_hi),
                CLI_ROW("verdict", cli_verdict(e, tolerance)), NUMBER(p), NUMBER(p_corrected),
                NUMBER(drift), NUMBER(drift_lo), NUMBER(drift_hi), NUMBER(changed),
                CLI_OF(e, changed_texts), NUMBER(changed_delta_hi), NUMBER(repeated),
                NUMBER(novel), NUMBER(share), NUMBER(share_lo), NUMBER(share_hi),
                CLI_OF(e, draws), NUMBER(random), NUMBER(random_least), NUMBER(random_most),
                NUMBER(beyond), NUMBER(beyond_lo), NUMBER(beyond_hi))));
    }
    return list;
}

static int by_delta(const void *a, const void *b)
{
    const double one = (*(const qk_ablation_effect *const *)a)->delta,
                 other = (*(const qk_ablation_effect *const *)b)->delta;
    return one < other ? 1 : one > other ? -1 : 0;
}

/* A number with its interval, or dashes. */
static void print_interval(int width, int digits, double value, double lo, double hi)
{
    const double numbers[] = {value, lo, hi};
    for (size_t i = 0; i < 3; i++)
        if (isfinite(numbers[i]))
            cli_print(" %+*.*f", width, digits, numbers[i]);
        else
            cli_print(" %*s", width, "-");
}

/* What stands beside the losses in a list, where there is any: for single heads the share of what they are worth, for
 * groups of heads how far they are beyond random heads, random directions of the same heads, or some of each. */
typedef enum extra { NOTHING, SHARE, HEADS, DIRECTIONS, BOTH } extra;

#define BEYOND "    beyond        lo        hi"
static const struct {
    const char *header, *note;
} EXTRAS[] = {
    [NOTHING] = {"", ""},
    [SHARE] = {"  share     lo     hi", "share: of what the loss rises by without the head, or "
                                        "- where that rise is not decided "
                                        "(its corrected p is above 0.05)"},
    [HEADS] = {BEYOND, "beyond: the loss less that of random heads in the same layers"},
    [DIRECTIONS] = {BEYOND, "beyond: the loss less that of random directions"},
    [BOTH] = {BEYOND, "beyond: the loss less that of random heads in the same layers, or of "
                      "random directions"},
};

static extra find_extra(const qk_ablation_effect *const *list, size_t count, bool singles)
{
    bool there[] = {false, false}; /* of heads, of directions */
    for (size_t i = 0; i < count; i++)
        if (isfinite(singles ? list[i]->share : list[i]->beyond))
            there[strncmp(list[i]->what, "direction", 9) == 0] = true;
    if (singles)
        return there[0] || there[1] ? SHARE : NOTHING;
    return there[0] && there[1] ? BOTH : there[0] ? HEADS : there[1] ? DIRECTIONS : NOTHING;
}

static void print_effect(const qk_ablation_effect *e, extra beside)
{
    print_interval(9, 5, e->delta, e->delta_lo, e->delta_hi);
    cli_print(" %10.5f", e->drift);
    if (beside == SHARE)
        print_interval(6, 2, e->share, e->share_lo, e->share_hi);
    if (beside >= HEADS)
        print_interval(9, 5, e->beyond, e->beyond_lo, e->beyond_hi);
    cli_print("  %-16s %s\n", e->what, e->group);
}

/* Prints the changes that cost the model most. */
static void print_effects(const qk_ablation_outcome *o, bool singles, double tolerance)
{
    const qk_ablation_effect **list = calloc(o->num_effects + 1, sizeof *list);
    size_t count = 0;
    for (size_t i = 0; list && i < o->num_effects; i++)
        if ((o->effects[i].layer >= 0) == singles)
            list[count++] = &o->effects[i];
    const extra beside = find_extra(list, count, singles);
    if (count > 0) {
        qsort(list, count, sizeof *list, by_delta);
        cli_print("\n      loss        lo        hi      drift%s  change           %s\n",
                  EXTRAS[beside].header, singles ? "head" : "group");
    }
    for (size_t i = 0; i < count && i < MAX_LISTED; i++)
        print_effect(list[i], beside);
    if (count > MAX_LISTED)
        cli_print("... and %zu more, in %s\n", count - MAX_LISTED,
                  singles ? "ablation.csv" : "ablation_groups.csv");
    if (*EXTRAS[beside].note)
        cli_print("%s\n", EXTRAS[beside].note);
    if (count > 0)
        cli_print_verdicts(o, list, count, tolerance);
    free(list);
}

static void tell_ablation(const request *r, const qk_ablation_outcome *o)
{
    char lengths[QK_LENGTHS_SIZE];
    const char *text =
        r->settings.dry_run
            ? "{model}: {texts} text{s}, {branches} change{s} of each, {flops:.3g} operations, "
              "about {forecast:.0f} s\n"
        : !o->complete
            ? "{model}: {texts_there} of {texts} texts are there; the rest is other shards'\n"
            : "{model}: {texts} text{s}, {branches} change{s} of each in {seconds:.1f} s\n"
              "loss {loss:.5f} nats a token of {tokens}\n";
    cli_tell(&r->common, text,
             CLI_ROWS(CLI_OF(o, model), CLI_OF(o, complete), CLI_OF(o, texts),
                      CLI_OF(o, texts_there), CLI_OF(o, tokens),
                      CLI_ROW("lengths", qk_text_lengths_say(&o->lengths, lengths)),
                      CLI_OF(o, branches), CLI_OF(o, flops), CLI_OF(o, forecast),
                      CLI_OF(o, loss), CLI_ROW("tolerance", r->tolerance),
                      CLI_ROW("level", r->settings.level),
                      CLI_ROW("effects", effects_json(o, r->tolerance)), CLI_OF(o, seconds)));
    if (r->common.json || r->common.quiet || !o->complete)
        return;
    print_effects(o, true, r->tolerance);
    print_effects(o, false, r->tolerance);
}

static int run_ablate(cli_call *call)
{
    request *r = call->request;
    cli_messages messages;
    qk_ablation_outcome outcome;
    qk_error err;
    int code = settle_ablation(call);
    if (code < 0)
        code = cli_find_shard(call, &r->settings.recorder.shard);
    if (code >= 0)
        return code;
    r->settings.command_line = call->line;
    cli_messages_init(&messages, &r->common, &r->settings.recorder.context);
    qk_status status = qk_ablation_run(&r->settings, &outcome, &err);
    cli_messages_end(&messages, status, &err);
    if (status == QK_OK)
        tell_ablation(r, &outcome);
    qk_ablation_outcome_free(&outcome);
    return cli_settings_code(status);
}

const cli_command cmd_ablate = {
    .name = "ablate",
    .group = "Analyse",
    .summary = "what a model loses without a head, or without its sense of position",
    .usage = "--model MODEL --text TEXT... -o DIR [options]",
    .description =
        "Runs a model over texts, and once more for each change of each attention head: the "
        "head is removed; its queries and keys are not rotated, so that it knows no position "
        "(freeze); or it gets the mean profile of its attention over distance, so that it knows "
        "nothing but position (profile); and others. Says by how much the loss rises (nats a "
        "token), with intervals over texts, and writes tables into DIR.\n\nMODEL and TEXT are "
        "as for qkscope capture. Heads are changed one by one; --groups changes several "
        "together, and random ones beside them.\n\nThe same command continues a run that was "
        "stopped; --dry-run says beforehand how long it takes.",
    .usual = "output force tolerance what groups results suffix layers heads dry-run model "
             "text max-texts max-length threads json help",
    .examples =
        "qkscope ablate -m examples/kjv-tiny/step-2004 -t repeat:64x2:8 -o ablation\n"
        "qkscope ablate -m org/name -t texts/ -o out --what remove,freeze:slow,window:128:4\n"
        "qkscope ablate -m org/name -t texts/ -o out --results results "
        "--groups \"where r_q > 0.7\"\n"
        "qkscope ablate -m org/name -t texts/ --dry-run\n",
    .table = &TABLE,
    .max_arguments = -1,
    .run = run_ablate,
};
