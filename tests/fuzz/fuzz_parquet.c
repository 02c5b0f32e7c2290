/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: any bytes as a Parquet file, read through every reading call. */
#include <stddef.h>
#include <stdint.h>

#include "../parquet/exercise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    exercise_bytes(data, size);
    return 0;
}
