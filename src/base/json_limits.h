/* SPDX-License-Identifier: Apache-2.0 */
/* The limits on JSON from outside, by its kind. A value takes up to 100 times the memory of its text ("{}," is an
 * object of 224 bytes), so a limit on bytes alone would let a file of 30 MB take gigabytes, and many seconds in which
 * nobody can stop it. */
#ifndef QK_BASE_JSON_LIMITS_H
#define QK_BASE_JSON_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum qk__json_kind {
    QK__JSON_GIVEN,     /* by a caller, or by the library itself */
    QK__JSON_LINE,      /* of a file of texts */
    QK__JSON_CONFIG,    /* config.json */
    QK__JSON_INDEX,     /* model.safetensors.index.json */
    QK__JSON_HEADER,    /* of a safetensors file */
    QK__JSON_TOKENIZER, /* tokenizer.json, tokenizer_config.json */
    QK__JSON_CAPTURE,   /* capture.json */
    QK__JSON_RUN,       /* what a run keeps for itself */
    QK__JSON_MANIFEST,  /* manifest.json of results */
    QK__JSON_ANSWER,    /* of the Hub */
    QK__JSON_FILES,     /* all files of a commit, as the cache lists them */
    QK__JSON_METADATA,  /* of a GGUF file, whose values become the same in memory */
    QK__JSON_NUM_KINDS,
} qk__json_kind;

/* What jansson and malloc take for one value, without its texts. */
enum {
    QK__OBJECT_MEMORY = 224,
    QK__MEMBER_MEMORY = 96,
    QK__LIST_MEMORY = 128,
    QK__ITEM_MEMORY = 16,
    QK__STRING_MEMORY = 80,
    QK__NUMBER_MEMORY = 32,
};

typedef struct qk__json_limits {
    const char *what;
    size_t text; /* bytes */
    /* bytes of memory for the values, without their texts; each takes some, so this limits their number as well */
    size_t values;
    bool halves; /* half a surrogate pair spoils only its own text */
    bool zeros;  /* texts may hold \u0000: their readers take lengths, not C strings */
} qk__json_limits;

const qk__json_limits *qk__json_limits_of(qk__json_kind kind);

#endif
