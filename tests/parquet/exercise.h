/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a file, sound or not, through every reading call; for tests on hostile bytes. */
#ifndef QK_TESTS_PARQUET_EXERCISE_H
#define QK_TESTS_PARQUET_EXERCISE_H

#include <stddef.h>
#include <stdint.h>

/* Writes the bytes to a memory file, reads it and returns how many columns could be read to
 * their end, -1 if the file could not be opened. */
int exercise_bytes(const uint8_t *data, size_t size);

#endif
