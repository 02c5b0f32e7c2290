/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as text. */
#ifndef QK_BASE_BASE64_H
#define QK_BASE_BASE64_H

#include <stddef.h>

/* To free(); NULL: memory ran out. */
char *qk__base64(const void *data, size_t size);

#endif
