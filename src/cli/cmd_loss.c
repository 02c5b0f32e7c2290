/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope loss: how well a model predicts texts. */
#include "tell.h"

#include <inttypes.h>
#include <math.h>

#include <qkscope/loss.h>

enum { MAX_LISTED = 20 };

typedef struct request {
    cli_common common;
    qk_recorder_settings settings;
} request;

static const qk_setting ROWS[] = {
    QK_SETTING_PART(request, settings, qk_recorder_settings_table),
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

static int settle_loss(const cli_call *call)
{
    const request *r = call->request;
    qk_error err;
    for (int i = 0; i < call->count; i++) /* the shell's *.txt */
        if (qk_settings_set(call->settings, "text", call->arguments[i], &err) != QK_OK)
            return cli_usage("'%s': %s", call->arguments[i], err.message);
    if (!r->settings.model)
        return cli_usage("which model? --model DIR");
    if (r->settings.num_texts == 0)
        return cli_usage("which texts? --text FILE");
    return -1;
}

/* ---- the outcome ------------------------------------------------------------------------ */

/* NaN, for no tokens, becomes null. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *texts_json(const qk_losses *l)
{
    json_t *list = json_array();
    for (size_t i = 0; i < l->num_texts; i++)
        json_array_append_new(
            list,
            cli_object(CLI_ROWS(CLI_OF(&l->texts[i], source), CLI_OF(&l->texts[i], window),
                                CLI_OF(&l->texts[i], tokens),
                                CLI_ROW("loss", number(l->texts[i].loss)))));
    return list;
}

static json_t *positions_json(const qk_losses *l)
{
    json_t *list = json_array();
    for (size_t i = 0; i < l->num_positions; i++) {
        const qk_position_loss *p = &l->positions[i];
        json_array_append_new(list, cli_object(CLI_ROWS(CLI_OF(p, first), CLI_OF(p, last),
                                                        CLI_OF(p, tokens), CLI_OF(p, loss))));
    }
    return list;
}

static void print_positions(const qk_losses *l)
{
    cli_print("\n      position   tokens    loss  perplexity\n");
    for (size_t i = 0; i < l->num_positions; i++) {
        const qk_position_loss *p = &l->positions[i];
        cli_print("%6" PRId64 " %7" PRId64 " %8" PRId64 " %7.3f %11.5g\n", p->first, p->last,
                  p->tokens, p->loss, exp(p->loss));
    }
}

static void print_texts(const qk_losses *l)
{
    cli_print("\n  tokens    loss  perplexity  text\n");
    for (size_t i = 0; i < l->num_texts && i < MAX_LISTED; i++) {
        const qk_text_loss *t = &l->texts[i];
        cli_print("%8" PRId64, t->tokens);
        if (t->tokens > 0)
            cli_print(" %7.3f %11.5g", t->loss, exp(t->loss));
        else
            cli_print("       -           -");
        cli_print(t->window > 0 ? "  %s#%" PRId64 "\n" : "  %s\n", t->source, t->window);
    }
    if (l->num_texts > MAX_LISTED)
        cli_print("... and %zu more: --json has all of them\n", l->num_texts - MAX_LISTED);
}

static void tell_losses(const request *r, const qk_losses *l)
{
    cli_tell(&r->common,
             "{model}: {tokens} token{s} of {sequences} text{s} in {seconds:.1f} s"
             "[, {skipped} text{s} passed over][, {empty} without tokens]\n"
             "loss {loss:.5f} nats a token, perplexity {perplexity:.5g}\n",
             CLI_ROWS(CLI_OF(l, model), CLI_OF(l, tokens), CLI_OF(l, loss),
                      CLI_OF(l, perplexity), CLI_ROW("positions", positions_json(l)),
                      CLI_ROW("texts", texts_json(l)), CLI_ROW("truncated", l->cut),
                      CLI_OF(l, skipped), CLI_OF(l, empty), CLI_OF(l, seconds),
                      CLI_SAY("sequences", (int64_t)l->num_texts)));
    if (r->common.json || r->common.quiet)
        return;
    print_positions(l);
    print_texts(l);
}

static int run_loss(cli_call *call)
{
    request *r = call->request;
    cli_messages messages;
    qk_losses *losses;
    qk_error err;
    int code = settle_loss(call);
    if (code >= 0)
        return code;
    cli_messages_init(&messages, &r->common, &r->settings.context);
    qk_status status = qk_loss_run(&r->settings, &losses, &err);
    cli_messages_end(&messages, status, &err);
    if (status == QK_OK)
        tell_losses(r, losses);
    qk_losses_free(&losses);
    return cli_settings_code(status);
}

const cli_command cmd_loss = {
    .name = "loss",
    .group = CLI_MORE,
    .summary = "how well a model predicts texts: loss and perplexity",
    .usage = "--model MODEL --text TEXT... [options]",
    .description =
        "Runs a model over texts and says how well each token is predicted by those "
        "before it: the mean of -ln of its probability (loss, in nats) and its "
        "exponential (perplexity), over all tokens, by position and by text. A "
        "text's first token has no loss: the BOS token, where the tokenizer puts one "
        "before texts.\n\nMODEL is a folder with config.json, *.safetensors and "
        "tokenizer.json, a GGUF file, or org/name of a model on the Hugging Face "
        "Hub.\n\nTEXT is as for qkscope capture. Texts of more than --max-length "
        "tokens are split into windows, each with positions from 0.",
    .usual = "model text dtype max-texts max-length long threads json help",
    .examples =
        "qkscope loss -m examples/kjv-tiny/step-2004 -t examples/kjv-tiny/passages.jsonl\n"
        "qkscope loss -m model.gguf -t book.txt --max-length 2048 --json\n",
    .table = &TABLE,
    .max_arguments = -1,
    .run = run_loss,
};
