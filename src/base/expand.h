/* SPDX-License-Identifier: Apache-2.0 */
/* Environment variables in text, as in a shell or Python's os.path.expandvars. */
#ifndef QK_BASE_EXPAND_H
#define QK_BASE_EXPAND_H

#include <stddef.h>

#include <qkscope/common.h>

#include "base/buffer.h"

/* Appends text to out with $NAME and ${NAME} replaced by their values; unset variables stay as written, and values are
 * not expanded again. QK_ERR_MALFORMED when the result would pass limit bytes. A zero byte follows the contents but is
 * not counted. */
QK_MUST_CHECK qk_status qk__expand_variables(const char *text, size_t size, size_t limit,
                                             qk__buffer *out, qk_error *err);

/* The value of an environment variable; NULL also where it is empty. */
const char *qk__environment(const char *name);

#endif
