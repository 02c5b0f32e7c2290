/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a tokenizer.json of the metadata of a GGUF file. The file has the vocabulary, merges or
 * scores, the kinds of tokens, and the name of a way to cut texts; what such a name means is
 * taken from the published tokenizers. */
#include "tokenizer/gguf_tokenizer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "base/tree.h"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE }; /* kinds of tokens */
#define PREFIX "tokenizer.ggml."

/* ---- ways to cut texts ------------------------------------------------------------------ */

#define SPLIT(pattern)                                                                         \
    "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"behavior\": "        \
    "\"Isolated\", \"invert\": false, \"pattern\": {\"Regex\": \"" pattern "\"}}, "            \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}]}"
#define DIGITS                                                                                 \
    "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\", "                     \
    "\"individual_digits\": true}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "    \
    "\"use_regex\": true}]}"
#define WORDS(digits)                                                                          \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}" digits     \
    "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define UPPER "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define LOWER "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define CASES                                                                                  \
    "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?" UPPER "*" LOWER "+|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?" UPPER  \
    "+" LOWER "*|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+"       \
    "|\\\\s+(?!\\\\S)|\\\\s+"

typedef struct way {
    const char *name; /* tokenizer.ggml.pre */
    const char *cut;  /* pre_tokenizer of tokenizer.json */
    bool nfc, ignore_merges, bos;
} way;

static const way WAYS[] = {
    {"llama-bpe", SPLIT(WORDS("{1,3}")), false, true, true},
    {"llama3", SPLIT(WORDS("{1,3}")), false, true, true},
    {"llama-v3", SPLIT(WORDS("{1,3}")), false, true, true},
    {"glm4", SPLIT(WORDS("{1,3}")), false, false, false},
    {"chatglm-bpe", SPLIT(WORDS("{1,3}")), false, false, false},
    {"qwen2", SPLIT(WORDS("")), true, false, false},
    {"deepseek-r1-qwen", SPLIT(WORDS("")), true, false, false},
    {"tekken", SPLIT(CASES), false, true, true},
    {"smollm", DIGITS, false, false, false},
    {"starcoder", DIGITS, false, false, false},
    {"refact", DIGITS, false, false, false},
    {"gpt-2", "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}",
     false, false, false},
};

static qk_status find_way(const char *name, const way **found, qk_error *err)
{
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++)
        if (name && strcmp(WAYS[i].name, name) == 0) {
            *found = &WAYS[i];
            return QK_OK;
        }
    return qk__fail(err, QK_ERR_UNSUPPORTED,
                    PREFIX "pre: the way \"%.60s\" to cut texts is not known",
                    name ? name : "");
}

/* ---- what is being made ----------------------------------------------------------------- */

typedef struct making {
    qk__node metadata;
    const json_t *tokens, *types, *scores;
    json_t *spelled;    /* tokens as tokenizer.json has them */
    json_t *vocabulary; /* {"text": id} */
    json_t *added;
    json_t *single, *special; /* of the post-processor: its steps, its tokens */
    bool llama, gemma;
    bool bos; /* whether one begins a text unless the file says otherwise */
} making;

static qk_status bad(const char *key, const char *what, size_t i, qk_error *err)
{
    return qk__fail(err, QK_ERR_MALFORMED, PREFIX "%s: item %zu: %s", key, i, what);
}

/* Runs of blanks that Gemma's files have as such are pieces like others. */
static bool is_blanks(const char *text, size_t length)
{
    size_t i = 0;
    while (i < length && text[i] == ' ')
        i++;
    return length > 0 && i == length;
}

static json_t *spell(const making *m, json_t *token)
{
    static const char MARK[3] = {'\xe2', '\x96', '\x81'}; /* U+2581 stands for a blank */
    size_t length = json_string_length(token), size = sizeof MARK;
    if (!m->gemma || !is_blanks(json_string_value(token), length))
        return json_incref(token);
    char *text = malloc(length * size);
    for (size_t i = 0; text && i < length; i++)
        memcpy(text + i * size, MARK, size);
    json_t *spelled = text ? json_stringn(text, length * size) : NULL;
    free(text);
    return spelled;
}

static qk_status add_token(making *m, size_t i, const json_t *spelled, int64_t type,
                           qk_error *err)
{
    const char *text = json_string_value(spelled);
    size_t length = json_string_length(spelled);
    if (type == UNUSED) /* a place without a token */
        return QK_OK;
    if (json_object_getn(m->vocabulary, text, length))
        return bad("tokens", "this token is there twice", i, err);
    if (json_object_setn_new(m->vocabulary, text, length, json_integer((json_int_t)i)) != 0)
        return qk__nomem(err);
    bool whole = spelled == json_array_get(m->tokens, i); /* and not one of blanks */
    bool special = type == CONTROL || type == UNKNOWN;
    if ((!special && type != USER_DEFINED) || !whole || length == 0)
        return QK_OK;
    json_t *token = json_pack("{s:I, s:O, s:b, s:b}", "id", (json_int_t)i, "content", spelled,
                              "special", special, "normalized", 0);
    return token && json_array_append_new(m->added, token) == 0 ? QK_OK : qk__nomem(err);
}

static qk_status add_tokens(making *m, qk_error *err)
{
    for (size_t i = 0; i < json_array_size(m->tokens); i++) {
        json_t *token = json_array_get(m->tokens, i);
        const json_t *type = json_array_get(m->types, i);
        if (!json_is_string(token))
            return bad("tokens", "expected a string", i, err);
        if (m->types && !json_is_integer(type))
            return bad("token_type", "expected a whole number", i, err);
        json_t *spelled = spell(m, token);
        if (!spelled || json_array_append_new(m->spelled, spelled) != 0)
            return qk__nomem(err);
        QK_TRY(add_token(m, i, spelled, type ? json_integer_value(type) : NORMAL, err));
    }
    return QK_OK;
}

/* NULL: absent. */
static qk_status read_list(const making *m, const char *key, size_t least, const json_t **list,
                           qk_error *err)
{
    qk__node found;
    QK_TRY(qk__read_list(&m->metadata, key, least, &found, err));
    *list = qk__node_is_given(&found) ? qk__node_json(&found) : NULL;
    return QK_OK;
}

static qk_status read_lists(making *m, qk_error *err)
{
    QK_TRY(read_list(m, PREFIX "tokens", 1, &m->tokens, err));
    if (!m->tokens)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        PREFIX "tokens: missing: the file has no tokenizer");
    size_t count = json_array_size(m->tokens);
    QK_TRY(read_list(m, PREFIX "token_type", count, &m->types, err));
    if (!m->llama)
        return QK_OK;
    QK_TRY(qk__need(&m->metadata, PREFIX "scores", err));
    QK_TRY(read_list(m, PREFIX "scores", count, &m->scores, err));
    for (size_t i = 0; i < count; i++)
        if (!json_is_number(json_array_get(m->scores, i)))
            return bad("scores", "expected a finite number", i, err);
    return QK_OK;
}

/* ---- special tokens around a text ------------------------------------------------------- */

/* A token's text by the key with its id; usual -1: the key has to be there. */
static qk_status read_token(const making *m, const char *key, int64_t usual, int64_t *id,
                            const char **text, qk_error *err)
{
    int64_t last = (int64_t)json_array_size(m->tokens) - 1;
    *id = usual;
    QK_TRY(qk__read_int64(&m->metadata, key, 0, last, id, err));
    if (*id < 0 || *id > last)
        return qk__fail(err, QK_ERR_MALFORMED, "%s: missing", key);
    *text = json_string_value(json_array_get(m->spelled, (size_t)*id));
    return QK_OK;
}

static qk_status add_special(const making *m, const char *key, int64_t usual, qk_error *err)
{
    int64_t id;
    const char *text;
    QK_TRY(read_token(m, key, usual, &id, &text, err));
    json_t *step = json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", text, "type_id", 0);
    json_t *token =
        json_pack("{s:s, s:[I], s:[s]}", "id", text, "ids", (json_int_t)id, "tokens", text);
    int failed = json_array_append_new(m->single, step);
    failed |= json_object_set_new(m->special, text, token);
    return failed ? qk__nomem(err) : QK_OK;
}

static qk_status surround(const making *m, qk_error *err)
{
    bool bos = m->bos, eos = false;
    QK_TRY(qk__read_bool(&m->metadata, PREFIX "add_bos_token", &bos, err));
    QK_TRY(qk__read_bool(&m->metadata, PREFIX "add_eos_token", &eos, err));
    if (bos)
        QK_TRY(add_special(m, PREFIX "bos_token_id", m->llama ? 1 : -1, err));
    json_t *text = json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0);
    if (json_array_append_new(m->single, text) != 0)
        return qk__nomem(err);
    return eos ? add_special(m, PREFIX "eos_token_id", m->llama ? 2 : -1, err) : QK_OK;
}

/* ---- the two kinds ---------------------------------------------------------------------- */

/* Takes model, normalizer and cut; a NULL among them stands for memory that ran out. */
static qk_status assemble(const making *m, json_t *model, json_t *normalizer, json_t *cut,
                          json_t **root, qk_error *err)
{
    *root = json_pack("{s:s, s:O, s:o, s:o, s:{s:s, s:O, s:O}, s:o}", "version", "1.0",
                      "added_tokens", m->added, "normalizer", normalizer, "pre_tokenizer", cut,
                      "post_processor", "type", "TemplateProcessing", "single", m->single,
                      "special_tokens", m->special, "model", model);
    return *root ? QK_OK : qk__nomem(err);
}

/* Byte-level BPE. */
static qk_status make_gpt2(making *m, json_t **root, qk_error *err)
{
    const char *name = NULL;
    const way *w;
    const json_t *merges;
    json_t *cut;
    QK_TRY(qk__read_text(&m->metadata, PREFIX "pre", &name, err));
    QK_TRY(find_way(name, &w, err));
    m->bos = w->bos;
    QK_TRY(read_lists(m, err));
    QK_TRY(add_tokens(m, err));
    QK_TRY(qk__need(&m->metadata, PREFIX "merges", err));
    QK_TRY(read_list(m, PREFIX "merges", 0, &merges, err));
    QK_TRY(surround(m, err));
    QK_TRY(qk__json_parse(&cut, w->cut, strlen(w->cut), QK__JSON_GIVEN, err));
    json_t *model = json_pack("{s:s, s:b, s:O, s:O}", "type", "BPE", "ignore_merges",
                              w->ignore_merges, "vocab", m->vocabulary, "merges", merges);
    json_t *normalizer = w->nfc ? json_pack("{s:s}", "type", "NFC") : json_null();
    return assemble(m, model, normalizer, cut, root, err);
}

/* A blank becomes a mark, and one is put in front of a text; spelled out as the published
 * tokenizers of Llama 2 and Mistral do it. Gemma's have nothing in front. */
static json_t *mark_blanks(bool prefix)
{
    static const char MARK[] = "\xe2\x96\x81";
    json_t *replace = json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String",
                                " ", "content", MARK);
    return prefix ? json_pack("{s:s, s:[{s:s, s:s}, o]}", "type", "Sequence", "normalizers",
                              "type", "Prepend", "prepend", MARK, replace)
                  : replace;
}

static qk_status refuse_changes(const making *m, qk_error *err)
{
    bool changed = false;
    QK_TRY(qk__read_bool(&m->metadata, PREFIX "remove_extra_whitespaces", &changed, err));
    if (changed)
        return qk__fail(err, QK_ERR_UNSUPPORTED, PREFIX "remove_extra_whitespaces: not known");
    return qk__node_kind_in(&m->metadata, PREFIX "precompiled_charsmap") > QK__NULL
               ? qk__fail(err, QK_ERR_UNSUPPORTED, PREFIX "precompiled_charsmap: not known")
               : QK_OK;
}

/* Pieces with scores, and bytes for what they lack. */
static qk_status make_llama(making *m, json_t **root, qk_error *err)
{
    const char *name = "", *unknown;
    int64_t id;
    bool prefix = true;
    json_t *merges;
    m->llama = m->bos = true;
    QK_TRY(qk__read_text(&m->metadata, "general.architecture", &name, err));
    m->gemma = strncmp(name, "gemma", strlen("gemma")) == 0;
    QK_TRY(refuse_changes(m, err));
    QK_TRY(qk__read_bool(&m->metadata, PREFIX "add_space_prefix", &prefix, err));
    QK_TRY(read_lists(m, err));
    QK_TRY(add_tokens(m, err));
    QK_TRY(read_token(m, PREFIX "unknown_token_id", 0, &id, &unknown, err));
    QK_TRY(surround(m, err));
    QK_TRY(
        qk__gguf_merges(m->spelled, m->gemma ? NULL : m->scores, m->vocabulary, &merges, err));
    json_t *model =
        json_pack("{s:s, s:s, s:b, s:b, s:O, s:o}", "type", "BPE", "unk_token", unknown,
                  "fuse_unk", 1, "byte_fallback", 1, "vocab", m->vocabulary, "merges", merges);
    return assemble(m, model, mark_blanks(prefix), json_null(), root, err);
}

/* ---- all of it -------------------------------------------------------------------------- */

static qk_status make_tokenizer(making *m, json_t **root, qk_error *err)
{
    const char *model = NULL;
    QK_TRY(qk__read_text(&m->metadata, PREFIX "model", &model, err));
    if (!model)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        PREFIX "model: missing: the file has no tokenizer");
    if (strcmp(model, "gpt2") == 0)
        return make_gpt2(m, root, err);
    if (strcmp(model, "llama") == 0)
        return make_llama(m, root, err);
    return qk__fail(err, QK_ERR_UNSUPPORTED,
                    PREFIX "model: \"%.60s\" is not known; gpt2 and llama are", model);
}

qk_status qk__gguf_tokenizer(const json_t *metadata, char **text, qk_error *err)
{
    making m = {.metadata = qk__tree_of_json(metadata),
                .spelled = json_array(),
                .vocabulary = json_object(),
                .added = json_array(),
                .single = json_array(),
                .special = json_object()};
    json_t *root = NULL;
    qk_error why;
    bool all = m.spelled && m.vocabulary && m.added && m.single && m.special;
    qk_status status = all ? make_tokenizer(&m, &root, &why) : qk__nomem(&why);
    *text = NULL;
    if (status == QK_OK) {
        *text = qk__json_dumps(root, JSON_COMPACT);
        status = *text ? QK_OK : qk__nomem(&why);
    }
    json_decref(root);
    json_decref(m.spelled);
    json_decref(m.vocabulary);
    json_decref(m.added);
    json_decref(m.single);
    json_decref(m.special);
    return status == QK_OK
               ? QK_OK
               : qk__fail(err, status, "%s; give the published tokenizer.json with --tokenizer",
                          why.message);
}

bool qk__is_gguf(const char *path)
{
    char magic[4] = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool found = fd >= 0 && read(fd, magic, sizeof magic) == (ssize_t)sizeof magic &&
                 memcmp(magic, "GGUF", sizeof magic) == 0;
    if (fd >= 0)
        close(fd);
    return found;
}
