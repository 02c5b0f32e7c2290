/* SPDX-License-Identifier: Apache-2.0 */
#include "read_branches.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_BRANCHES = 4096, MAX_NUMBERS = 1 << 20 };

/* What is read stays to the end of the program, and can be reached until then. */
static qk_prefill_branch all[MAX_BRANCHES];
static double numbers[MAX_NUMBERS];

/* `count`, and so many numbers. */
static bool read_numbers(FILE *file, size_t *count)
{
    if (fscanf(file, "%zu", count) != 1 || *count > MAX_NUMBERS)
        return false;
    for (size_t i = 0; i < *count; i++)
        if (fscanf(file, "%lf", &numbers[i]) != 1)
            return false;
    return true;
}

static bool read_change(FILE *file, qk_head_change *change)
{
    int kind, keep;
    size_t n;
    *change = (qk_head_change){0};
    if (fscanf(file, "%d %d %d %d %f %" SCNd64 " %" SCNd64, &change->layer, &change->q_head,
               &kind, &keep, &change->part, &change->window, &change->kept) != 7)
        return false;
    change->kind = (qk_head_change_kind)kind;
    change->keep_first = keep;
    if (!read_numbers(file, &n))
        return false;
    float *values = n > 0 ? calloc(n, sizeof *values) : NULL;
    change->values = values;
    for (size_t i = 0; values && i < n; i++)
        values[i] = (float)numbers[i];
    if (!read_numbers(file, &n))
        return false;
    bool *frozen = n > 0 ? calloc(n, sizeof *frozen) : NULL;
    change->frozen = frozen;
    for (size_t i = 0; frozen && i < n; i++)
        frozen[i] = numbers[i] != 0;
    if (!read_numbers(file, &n))
        return false;
    int32_t *positions = n > 0 ? calloc(n, sizeof *positions) : NULL;
    change->positions = positions;
    for (size_t i = 0; positions && i < n; i++)
        positions[i] = (int32_t)numbers[i];
    return true;
}

bool read_branches(const char *path, qk_prefill_branch **branches, size_t *count)
{
    FILE *file = fopen(path, "r");
    *branches = all;
    *count = 0;
    if (!file)
        return false;
    size_t sequence, changes;
    int64_t suffix;
    while (*count < MAX_BRANCHES &&
           fscanf(file, " branch %zu %" SCNd64 " %zu", &sequence, &suffix, &changes) == 3) {
        qk_head_change *list = calloc(changes + 1, sizeof *list);
        for (size_t i = 0; list && i < changes; i++)
            if (!read_change(file, &list[i]))
                return false;
        all[(*count)++] = (qk_prefill_branch){sequence, suffix, list, changes};
    }
    return fclose(file) == 0;
}
