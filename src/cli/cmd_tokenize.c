/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope tokenize: the tokens of a text. */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <qkscope/tokenizer.h>

static const char COMMAND[] = "qkscope tokenize";

static const char DESCRIPTION[] =
    "Says which tokens a model sees in a text, one a line: id, tab, the vocabulary's piece.\n"
    "TOKENIZER is a tokenizer.json or a folder with one; FILE is read as one text, - is\n"
    "standard input. What is not UTF-8 becomes U+FFFD.";

typedef struct request {
    const char *tokenizer, *file;
    int64_t max_length;
    bool no_special, count;
    cli_common common;
} request;

/* The whole file in new memory; NULL after a message. */
static char *read_all(FILE *file, const char *name, size_t *size)
{
    size_t capacity = 1 << 16;
    char *text = malloc(capacity);
    *size = 0;
    while (text) {
        *size += fread(text + *size, 1, capacity - *size, file);
        if (*size < capacity)
            break;
        char *grown = capacity <= SIZE_MAX / 2 ? realloc(text, capacity *= 2) : NULL;
        if (!grown)
            free(text);
        text = grown;
    }
    if (!text) {
        cli_error(COMMAND, "%s: out of memory", name);
    } else if (ferror(file)) {
        cli_error(COMMAND, "%s: cannot read: %s", name, strerror(errno));
        free(text);
        text = NULL;
    }
    return text;
}

static char *read_text(const char *name, size_t *size)
{
    bool standard = strcmp(name, "-") == 0;
    FILE *file = standard ? stdin : fopen(name, "rb");
    if (!file) {
        cli_error(COMMAND, "%s: cannot open: %s", name, strerror(errno));
        return NULL;
    }
    char *text = read_all(file, name, size);
    if (!standard)
        fclose(file);
    return text;
}

static void print_json(const qk_tokenizer *tokenizer, const qk_tokens *tokens, bool count_only)
{
    json_t *root = json_object(), *list = json_array();
    json_object_set_new(root, "count", json_integer((json_int_t)tokens->count));
    json_object_set_new(root, "vocabulary",
                        json_integer((json_int_t)qk_tokenizer_vocabulary(tokenizer)));
    for (size_t i = 0; !count_only && i < tokens->count; i++) {
        const char *piece = qk_tokenizer_piece(tokenizer, tokens->ids[i]);
        json_t *token = json_object();
        json_object_set_new(token, "id", json_integer(tokens->ids[i]));
        json_object_set_new(token, "piece", cli_json_text(piece ? piece : ""));
        json_array_append_new(list, token);
    }
    if (count_only)
        json_decref(list);
    else
        json_object_set_new(root, "tokens", list);
    cli_json_print(root);
}

static void print_tokens(const request *r, const qk_tokenizer *tokenizer,
                         const qk_tokens *tokens)
{
    if (r->common.json) {
        print_json(tokenizer, tokens, r->count);
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

static int tokenize(const request *r)
{
    qk_error err;
    qk_tokenizer *tokenizer;
    qk_tokens tokens;
    size_t size;
    if (qk_tokenizer_open(&tokenizer, r->tokenizer, &err) != QK_OK) {
        cli_error(COMMAND, "%s", err.message);
        return EXIT_CODE_FAILURE;
    }
    char *text = read_text(r->file, &size);
    int code = EXIT_CODE_FAILURE;
    if (text && qk_tokenizer_encode(tokenizer, text, size, !r->no_special,
                                    (size_t)r->max_length, &tokens, &err) != QK_OK) {
        cli_error(COMMAND, "%s: %s", r->file, err.message);
    } else if (text) {
        print_tokens(r, tokenizer, &tokens);
        qk_tokens_free(&tokens);
        code = EXIT_CODE_OK;
    }
    free(text);
    qk_tokenizer_close(&tokenizer);
    return code;
}

int cmd_tokenize(int argc, char **argv)
{
    request r = {0};
    const cli_option options[] = {
        {0, "max-length", "N", "at most N tokens, special ones included", OPTION_INT64,
         &r.max_length, 1, 1e9},
        {0, "no-special", NULL, "without the tokens a model puts around a text (BOS)",
         OPTION_FLAG, &r.no_special, 0, 0},
        {0, "count", NULL, "print the number of tokens alone", OPTION_FLAG, &r.count, 0, 0},
    };
    const cli_syntax syntax = {.command = COMMAND,
                               .usage = "TOKENIZER FILE|- [options]",
                               .description = DESCRIPTION,
                               .options = options,
                               .num_options = sizeof options / sizeof *options,
                               .common = &r.common,
                               .max_arguments = 2};
    const char *arguments[2];
    int count, code = cli_parse(&syntax, argc, argv, arguments, &count);
    if (code >= 0)
        return code;
    if (count < 2) {
        cli_error(COMMAND, "which %s",
                  count == 0
                      ? "tokenizer? Give a tokenizer.json or a folder with one, and the text"
                      : "text? Give a file, or - for standard input");
        return EXIT_CODE_USAGE;
    }
    r.tokenizer = arguments[0];
    r.file = arguments[1];
    return cli_finish(COMMAND, tokenize(&r));
}
