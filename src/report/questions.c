/* SPDX-License-Identifier: Apache-2.0 */
/* The table of questions (questions.def). */
#include "report/questions.h"

#define QUERIES "the position correlation of queries on PC0"
#define KEYS    "the size of the position correlation of keys on PC0"
#define Y(...)  #__VA_ARGS__
#define X(...)  .x = #__VA_ARGS__
/* A head of a third category is in neither group. */
#define KINDS(a, b)                                                                            \
    .more = a, .less = b,                                                                      \
    .x = "CASE WHEN category = '" a "' THEN 1.0 WHEN category = '" b                           \
         "' THEN 0.0 WHEN category <> '' THEN 0.5 END"
#define FIGURES(...) .figures = {__VA_ARGS__}
#define QUESTION(of_id, of_topic, of_kind, of_y, of_what, is_higher, is_lower, is_either,      \
                 is_too_few, ...)                                                              \
    {.id = of_id,                                                                              \
     .topic = of_topic,                                                                        \
     .kind = QK__##of_kind,                                                                    \
     .y = of_y,                                                                                \
     .what = of_what,                                                                          \
     .higher = is_higher,                                                                      \
     .lower = is_lower,                                                                        \
     .either = is_either,                                                                      \
     .too_few = is_too_few,                                                                    \
     __VA_ARGS__},

const qk__question qk__questions[] = {
#include "report/questions.def"
};
const size_t qk__num_questions = sizeof qk__questions / sizeof *qk__questions;
