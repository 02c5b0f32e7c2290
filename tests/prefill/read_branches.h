/* SPDX-License-Identifier: Apache-2.0 */
/* Branches of a run, from a text file of whitespace-separated words, which tests in Python write:
 *
 *     branch SEQUENCE SUFFIX CHANGES
 *     LAYER HEAD KIND KEEP_FIRST PART WINDOW KEPT VALUES v.. FROZEN f.. POSITIONS p..
 *
 * a line for each change; VALUES, FROZEN and POSITIONS are how many follow, and none is NULL. */
#ifndef QK_TESTS_READ_BRANCHES_H
#define QK_TESTS_READ_BRANCHES_H

#include <stdbool.h>
#include <stddef.h>

#include <qkscope/model.h>

/* False: the file cannot be read so. What is read stays to the end of the program. */
bool read_branches(const char *path, qk_prefill_branch **branches, size_t *count);

#endif
