/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope tokenize: the tokens of a text. */
#include "tell.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/hub.h>
#include <qkscope/model.h>

typedef struct request {
    cli_common common;
    const char *tokenizer, *file, *revision;
    int64_t max_length;
    bool no_special, count;
    qk_context context;
} request;

static const qk_setting ROWS[] = {
    {"max-length", QK_SETTING_INTEGER, QK_SETTING_AT(request, max_length), .min = 1, .max = 1e9,
     .value = "N", .unit = "tokens", .help = "keep at most N tokens, special ones included",
     .unset = "all", .section = "Tokens"},
    {"no-special", QK_SETTING_FLAG, QK_SETTING_AT(request, no_special),
     .help = "leave out the tokens that a model puts around a text (BOS)", .section = "Tokens"},
    {"count", QK_SETTING_FLAG, QK_SETTING_AT(request, count),
     .help = "print the number of tokens alone", .section = "Tokens"},
    {"revision", QK_SETTING_TEXT, QK_SETTING_AT(request, revision), .value = "REV",
     .help = "branch, tag or commit of a model on the Hub", .unset = "main",
     .section = "Input"},
    {"offline", QK_SETTING_FLAG, QK_SETTING_AT(request, context.offline),
     .help = "fetch nothing from the Hub: take what is in the cache, as with HF_HUB_OFFLINE=1",
     .section = "Input"},
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

/* Standard input in new memory, up to one byte more than a text may have; NULL after a message. */
static char *read_input(size_t *size)
{
    size_t capacity = 1 << 16;
    char *text = malloc(capacity);
    *size = 0;
    while (text) {
        *size += fread(text + *size, 1, capacity - *size, stdin);
        if (*size < capacity || *size > QK_MAX_TEXT_BYTES)
            break;
        capacity = 2 * capacity <= QK_MAX_TEXT_BYTES ? 2 * capacity : QK_MAX_TEXT_BYTES + 1;
        char *grown = realloc(text, capacity);
        if (!grown)
            free(text);
        text = grown;
    }
    if (!text) {
        cli_error("-: out of memory");
    } else if (ferror(stdin)) {
        cli_error("-: cannot read: %s", strerror(errno));
        free(text);
        text = NULL;
    }
    return text;
}

/* err->message is empty where a fault of standard input has been reported already. */
static qk_status encode(const request *r, const qk_tokenizer *tokenizer, qk_tokens *tokens,
                        qk_error *err)
{
    size_t size, limit = (size_t)r->max_length;
    if (strcmp(r->file, "-") != 0)
        return qk_tokenizer_encode_file(tokenizer, r->file, !r->no_special, limit, tokens, err);
    *err = (qk_error){0};
    char *text = read_input(&size);
    qk_status status = QK_ERR_IO;
    if (text && size > QK_MAX_TEXT_BYTES)
        snprintf(err->message, sizeof err->message, "-: more than %zu bytes",
                 QK_MAX_TEXT_BYTES);
    else if (text) {
        size_t mark = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        status = qk_tokenizer_encode(tokenizer, text + mark, size - mark, !r->no_special, limit,
                                     tokens, err);
    }
    free(text);
    return status;
}

static json_t *list_tokens(const qk_tokenizer *tokenizer, const qk_tokens *tokens)
{
    json_t *list = json_array();
    for (size_t i = 0; i < tokens->count; i++) {
        const char *piece = qk_tokenizer_piece(tokenizer, tokens->ids[i]);
        json_array_append_new(list, cli_object(CLI_ROWS(CLI_ROW("id", tokens->ids[i]),
                                                        CLI_ROW("piece", piece ? piece : ""))));
    }
    return list;
}

static void print_tokens(const request *r, const qk_tokenizer *tokenizer,
                         const qk_tokens *tokens)
{
    if (r->common.json) {
        cli_tell(&r->common, "",
                 CLI_ROWS(CLI_OF(tokens, count),
                          CLI_ROW("vocabulary", qk_tokenizer_vocabulary(tokenizer)),
                          CLI_ROW_IF(!r->count, "tokens", list_tokens(tokenizer, tokens))));
        return;
    }
    if (r->count) {
        cli_print("%zu\n", tokens->count);
        return;
    }
    for (size_t i = 0; i < tokens->count; i++) {
        const char *piece = qk_tokenizer_piece(tokenizer, tokens->ids[i]);
        cli_print("%d\t%s\n", (int)tokens->ids[i], piece ? piece : "");
    }
}

/* A name on the Hub is a model, and its tokenizer is fetched. */
static qk_status open_tokenizer(const request *r, qk_tokenizer **tokenizer, qk_error *err)
{
    cli_messages messages;
    if (!qk_hub_is_remote(r->tokenizer))
        return qk_tokenizer_open(tokenizer, r->tokenizer, err);
    qk_hub_wanted wanted = {.name = r->tokenizer,
                            .revision = r->revision,
                            .part = QK_HUB_TOKENIZER,
                            .context = r->context};
    cli_messages_init(&messages, &r->common, &wanted.context);
    qk_hub_place place;
    qk_status status = qk_hub_get(&wanted, &place, err);
    cli_clear(&messages);
    if (status == QK_OK)
        status = qk_tokenizer_open(tokenizer, place.path, err);
    free(place.path);
    return status;
}

static int tokenize(const request *r)
{
    qk_error err;
    qk_tokenizer *tokenizer;
    qk_tokens tokens;
    if (open_tokenizer(r, &tokenizer, &err) != QK_OK) {
        cli_error("%s", err.message);
        return EXIT_CODE_FAILURE;
    }
    int code = EXIT_CODE_FAILURE;
    if (encode(r, tokenizer, &tokens, &err) == QK_OK) {
        print_tokens(r, tokenizer, &tokens);
        qk_tokens_free(&tokens);
        code = EXIT_CODE_OK;
    } else if (err.message[0]) {
        cli_error("%s", err.message);
    }
    qk_tokenizer_close(&tokenizer);
    return code;
}

static int run_tokenize(cli_call *call)
{
    request *r = call->request;
    if (call->count == 0)
        return cli_usage(
            "which tokenizer? Give a tokenizer.json, a folder with one, a GGUF file, "
            "or org/name of a model on the Hub, and the text");
    if (call->count == 1)
        return cli_usage("which text? Give a file, or - for standard input");
    r->tokenizer = call->arguments[0];
    r->file = call->arguments[1];
    return tokenize(r);
}

const cli_command cmd_tokenize = {
    .name = "tokenize",
    .group = CLI_MORE,
    .summary = "the tokens of a text",
    .usage = "TOKENIZER FILE|- [options]",
    .description = "Says which tokens a model sees in a text, one a line: id, tab, piece of "
                   "the vocabulary.\n\nTOKENIZER is a tokenizer.json, a folder with one, a "
                   "GGUF file, or org/name of a model on the Hugging Face Hub. FILE is read as "
                   "one text; - is standard input.",
    .examples = "qkscope tokenize examples/kjv-tiny/step-2004 genesis.txt\n"
                "echo \"In the beginning\" | qkscope tokenize model.gguf - --count\n",
    .table = &TABLE,
    .max_arguments = 2,
    .run = run_tokenize,
};
