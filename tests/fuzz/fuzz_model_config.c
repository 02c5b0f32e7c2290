/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: any bytes as a config.json, what follows a zero byte as overrides of it; of what
 * is accepted, the rotation is computed. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/architectures.h"
#include "model/model_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void turn(const qk__rope_settings *settings)
{
    qk__rope rope;
    if (qk__rope_init(&rope, settings, NULL) != QK_OK)
        return;
    size_t bytes = (size_t)rope.pairs * sizeof(float);
    float *frequencies = malloc(bytes), *cosines = malloc(bytes), *sines = malloc(bytes);
    if (frequencies && cosines && sines) {
        qk__rope_frequencies(&rope, 1 << 20, frequencies);
        qk__rope_cos_sin(&rope, frequencies, 131071, 1, cosines, sines);
    }
    free(frequencies);
    free(cosines);
    free(sines);
    qk__rope_free(&rope);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
    size_t length = zero ? (size_t)(zero - data) : size;
    char *overrides = NULL;
    if (zero) {
        overrides = malloc(size - length);
        if (!overrides)
            return 0;
        memcpy(overrides, zero + 1, size - length - 1);
        overrides[size - length - 1] = 0;
    }
    qk__model_config config;
    qk_error err;
    if (qk__model_config_parse(&config, (const char *)data, length, overrides, &err) == QK_OK) {
        for (int i = 0; i < (config.architecture->local_rope ? QK_NUM_ROPES : 1); i++)
            turn(&config.rope[i]);
        qk__model_config_free(&config);
    }
    free(overrides);
    return 0;
}
