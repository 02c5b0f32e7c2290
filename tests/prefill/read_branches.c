/* SPDX-License-Identifier: Apache-2.0 */
#include "read_branches.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_BRANCHES = 4096 };

/* `count`, and so many numbers. */
static double *read_numbers(FILE *file, size_t *count)
{
    double *numbers = NULL;
    if (fscanf(file, "%zu", count) != 1 || *count > 1 << 20)
        return NULL;
    numbers = malloc((*count + 1) * sizeof *numbers);
    for (size_t i = 0; numbers && i < *count; i++)
        if (fscanf(file, "%lf", &numbers[i]) != 1)
            exit(2);
    return numbers;
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
    double *numbers = read_numbers(file, &n);
    float *values = calloc(n + 1, sizeof *values);
    for (size_t i = 0; numbers && values && i < n; i++)
        values[i] = (float)numbers[i];
    change->values = n > 0 ? values : NULL;
    numbers = read_numbers(file, &n);
    bool *frozen = calloc(n + 1, sizeof *frozen);
    for (size_t i = 0; numbers && frozen && i < n; i++)
        frozen[i] = numbers[i] != 0;
    change->frozen = n > 0 ? frozen : NULL;
    numbers = read_numbers(file, &n);
    int32_t *positions = calloc(n + 1, sizeof *positions);
    for (size_t i = 0; numbers && positions && i < n; i++)
        positions[i] = (int32_t)numbers[i];
    change->positions = n > 0 ? positions : NULL;
    return numbers && values && frozen && positions;
}

bool read_branches(const char *path, qk_prefill_branch **branches, size_t *count)
{
    FILE *file = fopen(path, "r");
    *branches = calloc(MAX_BRANCHES, sizeof **branches);
    *count = 0;
    if (!file || !*branches)
        return false;
    size_t sequence, changes;
    int64_t suffix;
    while (*count < MAX_BRANCHES &&
           fscanf(file, " branch %zu %" SCNd64 " %zu", &sequence, &suffix, &changes) == 3) {
        qk_head_change *list = calloc(changes + 1, sizeof *list);
        for (size_t i = 0; list && i < changes; i++)
            if (!read_change(file, &list[i]))
                return false;
        (*branches)[(*count)++] = (qk_prefill_branch){sequence, suffix, list, changes};
    }
    return fclose(file) == 0;
}
