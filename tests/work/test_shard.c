/* SPDX-License-Identifier: Apache-2.0 */
/* Which process this is: --shard, the variables of each launcher, and launchers within launchers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/common.h>

#include "unit.h"

static const char *const NAMES[] = {
    "SLURM_PROCID",
    "SLURM_STEP_ID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_NTASKS",
    "SLURM_STEP_NUM_NODES",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "PMIX_RANK",
    "PMIX_SIZE",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_ARRAY_TASK_MIN",
    "SLURM_ARRAY_TASK_COUNT",
    "SLURM_ARRAY_TASK_STEP",
    "RANK",
    "WORLD_SIZE",
};

/* "A=1 B=2" is the environment, of those variables. */
static void set_environment(const char *text)
{
    char copy[1000];
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        unsetenv(NAMES[i]);
    snprintf(copy, sizeof copy, "%s", text);
    for (char *rest = copy, *word; (word = strtok_r(rest, " ", &rest)) != NULL;) {
        char *value = strchr(word, '=');
        *value = 0;
        assert_int_equal(setenv(word, value + 1, 1), 0);
    }
}

static void expect(const char *environment, const char *text, int64_t index, int64_t count,
                   const char *source)
{
    qk_shard shard;
    qk_error err = {0};
    set_environment(environment);
    if (qk_shard_find(text, &shard, &err) != QK_OK)
        fail_msg("%s: %s", environment, err.message);
    if (shard.index != index || shard.count != count)
        fail_msg("%s: %lld of %lld", environment, (long long)shard.index,
                 (long long)shard.count);
    if (source)
        assert_string_equal(shard.source, source);
    else
        assert_null(shard.source);
}

/* The message has each of the words. */
static void expect_error(const char *environment, const char *text, const char *words)
{
    qk_shard shard;
    qk_error err = {0};
    char copy[500];
    set_environment(environment);
    assert_int_equal(qk_shard_find(text, &shard, &err), QK_ERR_ARGUMENT);
    snprintf(copy, sizeof copy, "%s", words);
    for (char *rest = copy, *word; (word = strtok_r(rest, " ", &rest)) != NULL;)
        if (!strstr(err.message, word))
            fail_msg("no '%s' in: %s", word, err.message);
}

static void text_is_read(void **state)
{
    (void)state;
    expect("", NULL, 0, 1, NULL);
    expect("", "none", 0, 1, NULL);
    expect("", "0/1", 0, 1, NULL);
    expect("", "0/3", 0, 3, "--shard");
    expect("", "63/64", 63, 64, "--shard");
    const char *const wrong[] = {
        "",      "/",   "3/3", "-1/3",  "1",     "1/",
        "/3",    "1/0", "0/0", "1 /3",  "1/3 ",  "0x1/3",
        "1/3/5", "a/b", "+/3", "1.0/3", "RANKS", "1/99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_error("", wrong[i], "--shard i/N 0/3");
}

#define SRUN "SLURM_STEP_ID=0 "

static void each_launcher_is_known(void **state)
{
    (void)state;
    expect(SRUN "SLURM_PROCID=2 SLURM_NTASKS=3", NULL, 2, 3, "SLURM_PROCID");
    /* a step of fewer tasks than the job */
    expect(SRUN "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_NTASKS=8", NULL, 1, 2,
           "SLURM_PROCID");
    expect("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 PMIX_RANK=1", NULL, 1, 4,
           "OMPI_COMM_WORLD_RANK");
    expect("PMI_RANK=1 PMI_SIZE=4", NULL, 1, 4, "PMI_RANK");
    expect("PMIX_RANK=3 PMIX_SIZE=4", NULL, 3, 4, "PMIX_RANK");
    expect("PMIX_RANK=3 RANK=3 WORLD_SIZE=4", NULL, 3, 4, "RANK");
    expect("RANK=0 WORLD_SIZE=2", NULL, 0, 2, "RANK");
    expect("SLURM_ARRAY_TASK_ID=7 SLURM_ARRAY_TASK_MIN=5 SLURM_ARRAY_TASK_COUNT=4", NULL, 2, 4,
           "SLURM_ARRAY_TASK_ID");
    expect("SLURM_ARRAY_TASK_ID=9 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_COUNT=3 "
           "SLURM_ARRAY_TASK_STEP=4",
           NULL, 2, 3, "SLURM_ARRAY_TASK_ID");
}

static void what_says_nothing_is_passed_over(void **state)
{
    (void)state;
    expect("SLURM_PROCID=0 SLURM_NTASKS=8", NULL, 0, 1, NULL); /* a job script */
    expect("SLURM_STEP_ID=4294967291 SLURM_PROCID=0 SLURM_NTASKS=8", NULL, 0, 1, NULL);
    expect("RANK=captain", NULL, 0, 1, NULL);
    expect("WORLD_SIZE=8", NULL, 0, 1, NULL);
    expect("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 PMIX_RANK=", NULL, 0, 1, NULL);
    /* one task of an array sent again by itself */
    expect("SLURM_ARRAY_TASK_ID=7 SLURM_ARRAY_TASK_MIN=7 SLURM_ARRAY_TASK_COUNT=1", NULL, 0, 1,
           NULL);
    /* srun of one task in an array; mpirun in a job script */
    expect(SRUN "SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_ARRAY_TASK_ID=2 SLURM_ARRAY_TASK_MIN=0 "
                "SLURM_ARRAY_TASK_COUNT=4",
           NULL, 2, 4, "SLURM_ARRAY_TASK_ID");
    expect("SLURM_PROCID=0 SLURM_NTASKS=3 OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=3", NULL,
           2, 3, "OMPI_COMM_WORLD_RANK");
    /* daemons of mpirun, one a node, by srun */
    expect(SRUN "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=3 SLURM_STEP_NUM_NODES=3 "
                "OMPI_COMM_WORLD_RANK=9 OMPI_COMM_WORLD_SIZE=16",
           NULL, 9, 16, "OMPI_COMM_WORLD_RANK");
    expect(SRUN "SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_NUM_NODES=2 RANK=5 WORLD_SIZE=8",
           NULL, 5, 8, "RANK");
    /* several that agree */
    expect(SRUN "SLURM_PROCID=1 SLURM_NTASKS=2 PMI_RANK=1 PMI_SIZE=2 PMIX_RANK=1", NULL, 1, 2,
           "SLURM_PROCID");
}

static void disagreement_is_an_error(void **state)
{
    (void)state;
    expect_error("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 RANK=2 WORLD_SIZE=4", NULL,
                 "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 RANK=2 WORLD_SIZE=4 --shard");
    expect_error(SRUN "SLURM_PROCID=1 SLURM_NTASKS=2 OMPI_COMM_WORLD_RANK=1 "
                      "OMPI_COMM_WORLD_SIZE=4",
                 NULL, "SLURM_PROCID=1 SLURM_NTASKS=2 OMPI_COMM_WORLD_SIZE=4");
    expect_error("PMI_RANK=0 PMI_SIZE=4 PMIX_RANK=1", NULL, "PMI_RANK=0 PMIX_RANK=1 --shard");
    /* ranks in an array, though the numbers are equal */
    expect_error(SRUN "SLURM_PROCID=1 SLURM_NTASKS=3 SLURM_ARRAY_TASK_ID=1 "
                      "SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_COUNT=3",
                 NULL, "SLURM_PROCID=1 SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_COUNT=3");
    expect_error("PMIX_RANK=1", NULL, "PMIX_RANK=1 --shard");
    expect_error("PMI_RANK=4 PMI_SIZE=4", NULL, "PMI_RANK=4 PMI_SIZE=4 --shard");
    expect_error("PMI_RANK=x PMI_SIZE=4", NULL, "PMI_RANK=x --shard");
    expect_error("PMI_RANK=-1 PMI_SIZE=4", NULL, "PMI_RANK=-1 --shard");
    expect_error("PMI_RANK=0 PMI_SIZE=0", NULL, "PMI_SIZE=0 --shard");
    expect_error("SLURM_ARRAY_TASK_ID=4 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_COUNT=3", NULL,
                 "SLURM_ARRAY_TASK_ID=4 SLURM_ARRAY_TASK_MIN=1 --shard");
}

static void text_decides(void **state)
{
    (void)state;
    const char *both = SRUN "SLURM_PROCID=1 SLURM_NTASKS=3 SLURM_ARRAY_TASK_ID=2 "
                            "SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_COUNT=4";
    expect(both, "5/12", 5, 12, "--shard");
    expect(both, "none", 0, 1, NULL);
    expect(both, "0/1", 0, 1, NULL);
    expect(both, "SLURM_PROCID", 1, 3, "SLURM_PROCID");
    expect(both, "SLURM_ARRAY_TASK_ID", 2, 4, "SLURM_ARRAY_TASK_ID");
    expect_error(both, "PMI_RANK", "PMI_RANK not set");
    expect("PMI_RANK=0 PMI_SIZE=1", "PMI_RANK", 0, 1, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_read),
        cmocka_unit_test(each_launcher_is_known),
        cmocka_unit_test(what_says_nothing_is_passed_over),
        cmocka_unit_test(disagreement_is_an_error),
        cmocka_unit_test(text_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
