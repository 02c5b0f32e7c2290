/* SPDX-License-Identifier: Apache-2.0 */
/* The table of limits. Each admits the largest known file several times over: tests/base/test_json_limits.c makes such
 * files. */
#include "base/json_limits.h"

#include <assert.h>
#include <stdint.h>

#define MB ((size_t)1 << 20)

static const qk__json_limits LIMITS[] = {
    [QK__JSON_GIVEN] = {"JSON that is given", 64 * MB, 256 * MB, false, false},
    [QK__JSON_LINE] = {"a line of texts", 1024 * MB, 256 * MB, true, true},
    [QK__JSON_CONFIG] = {"config.json", 16 * MB, 64 * MB, false, false},
    [QK__JSON_INDEX] = {"an index of weights", 64 * MB, 128 * MB, false, false},
    [QK__JSON_HEADER] = {"the header of a safetensors file", 16 * MB, 256 * MB, false, false},
    [QK__JSON_TOKENIZER] = {"a tokenizer", 256 * MB, 1024 * MB, false, true},
    [QK__JSON_CAPTURE] = {"capture.json", 64 * MB, 256 * MB, false, false},
    [QK__JSON_RUN] = {"a file of a run", 64 * MB, 256 * MB, false, false},
    [QK__JSON_MANIFEST] = {"manifest.json", 64 * MB, 256 * MB, false, false},
    [QK__JSON_ANSWER] = {"an answer of the Hub", 32 * MB, 128 * MB, false, false},
    [QK__JSON_FILES] = {"a list of files", 512 * MB, 768 * MB, false, false},
    [QK__JSON_METADATA] = {"the metadata of a GGUF file", SIZE_MAX, 512 * MB, false, true},
};

const qk__json_limits *qk__json_limits_of(qk__json_kind kind)
{
    static_assert(sizeof LIMITS / sizeof *LIMITS == QK__JSON_NUM_KINDS,
                  "a kind without limits");
    assert((unsigned)kind < QK__JSON_NUM_KINDS);
    return &LIMITS[kind];
}
