/* SPDX-License-Identifier: Apache-2.0 */
/* Which of how many equal processes this one is: as --shard says, or the environment that a
 * launcher made.
 *
 * A launcher within another one sets its variables beside the outer one's, and then both cannot be
 * meant. Most of what is not meant can be told: a job script of Slurm is no step; a size of 1 says
 * nothing; a step with one task a node that has fewer tasks than another launcher has processes is
 * that launcher's daemons (mpirun and torchrun on several nodes are started so). What is left is
 * the user's to decide. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/parse_number.h"
#include "work/units.h"

#define REMEDY "--shard i/N, i from 0 to N - 1, or --shard none"

/* What one launcher says. */
typedef struct claim {
    const char *variable; /* the rank's; NULL: it says nothing */
    int64_t index, count; /* count 0: it does not say how many */
    char text[200];       /* "SLURM_PROCID=1 of SLURM_NTASKS=3" */
} claim;

/* In the order in which they are asked. */
enum { STEP, OPEN_MPI, PMI, PMIX, ARRAY, TORCH, LAUNCHERS };

static const struct {
    const char *rank, *sizes[2];
} VARIABLES[LAUNCHERS] = {
    [STEP] = {"SLURM_PROCID", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}},
    [OPEN_MPI] = {"OMPI_COMM_WORLD_RANK", {"OMPI_COMM_WORLD_SIZE", NULL}},
    [PMI] = {"PMI_RANK", {"PMI_SIZE", NULL}},
    [PMIX] = {"PMIX_RANK", {"PMIX_SIZE", NULL}},
    [ARRAY] = {"SLURM_ARRAY_TASK_ID", {"SLURM_ARRAY_TASK_COUNT", NULL}},
    [TORCH] = {"RANK", {"WORLD_SIZE", NULL}},
};

static const char *value_of(const char *variable)
{
    const char *value = variable ? getenv(variable) : NULL;
    return value && *value ? value : NULL;
}

static qk_status read_number(const char *variable, int64_t *number, qk_error *err)
{
    const char *value = value_of(variable);
    if (value && qk__parse_integer(value, number) && *number >= 0)
        return QK_OK;
    return qk__fail(err, QK_ERR_ARGUMENT, "%s=%.100s: not a number from 0; give " REMEDY,
                    variable, value ? value : "");
}

/* Steps of Slurm that are no srun's: batch, extern and interactive ones have numbers from here. */
static bool is_step(void)
{
    static const int64_t SPECIAL = 0xfffffff0;
    int64_t step;
    const char *value = value_of("SLURM_STEP_ID");
    return value && (!qk__parse_integer(value, &step) || step < SPECIAL);
}

/* Tasks of an array are counted from its least; --array=1,2,4 has no shard for 4. */
static qk_status settle_array(claim *c, qk_error *err)
{
    int64_t least = 0, step = 1, id = c->index;
    if (value_of("SLURM_ARRAY_TASK_MIN"))
        QK_TRY(read_number("SLURM_ARRAY_TASK_MIN", &least, err));
    if (value_of("SLURM_ARRAY_TASK_STEP"))
        QK_TRY(read_number("SLURM_ARRAY_TASK_STEP", &step, err));
    c->index = step > 0 && (id - least) % step == 0 ? (id - least) / step : -1;
    if (c->count == 1 || (c->index >= 0 && c->index < c->count))
        return QK_OK;
    return qk__fail(err, QK_ERR_ARGUMENT,
                    "SLURM_ARRAY_TASK_ID=%lld is none of SLURM_ARRAY_TASK_COUNT=%lld numbers "
                    "from SLURM_ARRAY_TASK_MIN=%lld in steps of %lld; give " REMEDY,
                    (long long)id, (long long)c->count, (long long)least, (long long)step);
}

static qk_status read_claim(int launcher, claim *c, qk_error *err)
{
    const char *rank = VARIABLES[launcher].rank, *size = VARIABLES[launcher].sizes[0];
    *c = (claim){0};
    if (!value_of(size) && value_of(VARIABLES[launcher].sizes[1]))
        size = VARIABLES[launcher].sizes[1];
    if (!value_of(rank) || (launcher == STEP && !is_step()) ||
        (launcher == TORCH && !value_of(size))) /* RANK alone may be anything */
        return QK_OK;
    QK_TRY(read_number(rank, &c->index, err));
    snprintf(c->text, sizeof c->text, "%s=%.20s", rank, value_of(rank));
    if (value_of(size)) {
        QK_TRY(read_number(size, &c->count, err));
        snprintf(c->text, sizeof c->text, "%s=%.20s of %s=%.20s", rank, value_of(rank), size,
                 value_of(size));
        if (launcher == ARRAY)
            QK_TRY(settle_array(c, err));
        else if (c->index >= c->count)
            return qk__fail(err, QK_ERR_ARGUMENT, "%s: ranks count from 0; give " REMEDY,
                            c->text);
    }
    if (c->count != 1)
        c->variable = rank;
    return QK_OK;
}

static bool is_of_daemons(const claim *step, const claim *other)
{
    int64_t nodes;
    const char *value = value_of("SLURM_STEP_NUM_NODES");
    return other->variable && other->count > step->count && value &&
           qk__parse_integer(value, &nodes) && nodes == step->count;
}

/* A task of an array is beside any rank in it, even where the numbers happen to be equal. */
static bool agree(const claim *a, const claim *b, bool array)
{
    return !array && a->index == b->index &&
           (a->count == b->count || a->count == 0 || b->count == 0);
}

static qk_status choose(claim *claims, const claim **chosen, qk_error *err)
{
    *chosen = NULL;
    for (int i = STEP + 1; i < LAUNCHERS; i++)
        if (i != ARRAY && is_of_daemons(&claims[STEP], &claims[i]))
            claims[STEP].variable = NULL;
    for (int i = 0; i < LAUNCHERS; i++) {
        const claim *c = &claims[i];
        if (!c->variable)
            continue;
        if (*chosen && !agree(*chosen, c, *chosen == &claims[ARRAY] || i == ARRAY))
            return qk__fail(err, QK_ERR_ARGUMENT,
                            "%s, and %s: which shard is this process? Give --shard %s, --shard "
                            "%s, or " REMEDY,
                            (*chosen)->text, c->text, (*chosen)->variable, c->variable);
        if (!*chosen || (*chosen)->count == 0)
            *chosen = c;
    }
    return QK_OK;
}

static qk_status take_shard(const claim *c, qk_shard *shard, qk_error *err)
{
    if (c->count == 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "%s, and nothing says of how many; give " REMEDY,
                        c->text);
    *shard = (qk_shard){c->index, c->count, c->variable};
    return QK_OK;
}

static qk_status find_in_environment(qk_shard *shard, qk_error *err)
{
    claim claims[LAUNCHERS];
    const claim *chosen;
    for (int i = 0; i < LAUNCHERS; i++)
        QK_TRY(read_claim(i, &claims[i], err));
    QK_TRY(choose(claims, &chosen, err));
    return chosen ? take_shard(chosen, shard, err) : QK_OK;
}

/* --shard OMPI_COMM_WORLD_RANK: that launcher's, whatever the others say. */
static qk_status find_named(int launcher, qk_shard *shard, qk_error *err)
{
    claim c;
    QK_TRY(read_claim(launcher, &c, err));
    if (!c.text[0])
        return qk__fail(err, QK_ERR_ARGUMENT, "--shard %s: it is not set here; give " REMEDY,
                        VARIABLES[launcher].rank);
    return c.variable ? take_shard(&c, shard, err) : QK_OK;
}

static qk_status parse(const char *text, qk_shard *shard, qk_error *err)
{
    char first[32];
    int64_t index, count;
    const char *slash = strchr(text, '/');
    size_t length = slash ? (size_t)(slash - text) : 0;
    if (length > 0 && length < sizeof first) {
        snprintf(first, sizeof first, "%.*s", (int)length, text);
        if (qk__parse_integer(first, &index) && qk__parse_integer(slash + 1, &count) &&
            index >= 0 && index < count) {
            if (count > 1)
                *shard = (qk_shard){index, count, "--shard"};
            return QK_OK;
        }
    }
    return qk__fail(
        err, QK_ERR_ARGUMENT,
        "--shard '%.100s': not i/N with i from 0 to N - 1 (of three processes: 0/3, "
        "1/3 and 2/3), nor none, nor a launcher's variable such as %s",
        text, VARIABLES[OPEN_MPI].rank);
}

qk_status qk_shard_find(const char *text, qk_shard *shard, qk_error *err)
{
    QK_NEED(err, shard);
    *shard = (qk_shard){0, 1, NULL};
    if (!text)
        return find_in_environment(shard, err);
    if (strcmp(text, "none") == 0)
        return QK_OK;
    for (int i = 0; i < LAUNCHERS; i++)
        if (strcmp(text, VARIABLES[i].rank) == 0)
            return find_named(i, shard, err);
    return parse(text, shard, err);
}
