/* SPDX-License-Identifier: Apache-2.0 */
/* For the comparison with Hugging Face's tokenizers: many texts through one tokenizer.
 * tokenize_texts TOKENIZER TEXTS IDS [MAX_LENGTH [nospecial]]: TEXTS holds, for each text, its
 * size (4 bytes, little-endian) and its bytes; IDS gets the number of ids and the ids, the same
 * way. Prints the processor seconds that encoding took. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <qkscope/model.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int fail(const char *message)
{
    fprintf(stderr, "tokenize_texts: %s\n", message);
    return 1;
}

/* 1: a text was encoded, 0: there is none, -1: failed. */
static int encode_next(const qk_tokenizer *tokenizer, FILE *texts, FILE *ids, size_t max_length,
                       bool special, double *seconds)
{
    uint32_t size, count;
    qk_tokens tokens;
    qk_error err;
    if (fread(&size, sizeof size, 1, texts) != 1)
        return 0;
    char *text = malloc((size_t)size + 1);
    if (!text || fread(text, 1, size, texts) != size) {
        free(text);
        return -1;
    }
    double start = now();
    qk_status status =
        qk_tokenizer_encode(tokenizer, text, size, special, max_length, &tokens, &err);
    *seconds += now() - start;
    free(text);
    if (status != QK_OK) {
        fail(err.message);
        return -1;
    }
    count = (uint32_t)tokens.count;
    fwrite(&count, sizeof count, 1, ids);
    fwrite(tokens.ids, sizeof *tokens.ids, count, ids);
    qk_tokens_free(&tokens);
    return 1;
}

int main(int argc, char **argv)
{
    qk_error err;
    qk_tokenizer *tokenizer;
    double seconds = 0;
    int more;
    if (argc < 4)
        return fail("TOKENIZER TEXTS IDS [MAX_LENGTH [nospecial]]");
    if (qk_tokenizer_open(&tokenizer, argv[1], &err) != QK_OK)
        return fail(err.message);
    FILE *texts = fopen(argv[2], "rb"), *ids = fopen(argv[3], "wb");
    if (!texts || !ids)
        return fail("cannot open a file");
    size_t max_length = argc > 4 ? strtoul(argv[4], NULL, 10) : 0;
    while ((more = encode_next(tokenizer, texts, ids, max_length, argc <= 5, &seconds)) > 0)
        continue;
    fclose(texts);
    int closed = fclose(ids);
    qk_tokenizer_close(&tokenizer);
    printf("%.6f\n", seconds);
    return more < 0 || closed != 0;
}
