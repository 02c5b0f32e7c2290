/* SPDX-License-Identifier: Apache-2.0 */
/* Deriving findings when memory runs out at any moment: the status says so and nothing is leaked. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "report/findings.h"
#include "tests/unit.h"

#include <stdio.h>

#include "tests/base/tree.h"
#include "tests/failing_memory.h"

enum { MODELS = 5, LAYERS = 4 };

/* A row for each head of each model, `fill` says what follows the ids. */
static void add_table(const char *name, const char *columns, const char *numbers)
{
    char text[1 << 14];
    size_t used =
        (size_t)snprintf(text, sizeof text, "model,layer,q_head,k_head,%s\n", columns);
    for (int m = 0; m < MODELS; m++)
        for (int layer = 0; layer < LAYERS; layer++)
            used += (size_t)snprintf(text + used, sizeof text - used, "m%d,%d,0,0,%s%d\n", m,
                                     layer, numbers, (m * 7 + layer * 3) % 10);
    assert_true(used < sizeof text);
    tree_add(name, text);
}

static void add_tables(bool checkpoints)
{
    tree_add("models.csv", checkpoints ? "model,label,family,phase\nm0,0,F,A\nm1,1,F,A\n"
                                         "m2,2,F,B\nm3,3,F,B\nm4,4,F,LC\n"
                                       : "model,label,family,phase\nm0,0,F,\nm1,1,F,\n"
                                         "m2,2,F,\nm3,3,G,\nm4,4,G,\n");
    add_table("qk.csv", "pc,n_q,n_k,r_k,r_q", "0,500,500,.5,.4");
    add_table("heads.csv", "category,positional_overhead,separation,mu_q_beta,ev0",
              "mixed,.3,2,-1,.2");
    add_table("rotated.csv",
              "alpha_q,alpha_k,separation_strength,plane_var_fraction,bias_strength",
              "1,2,.3,.4,.1");
    add_table("head_metrics.csv", "ap_drop,ap_overall", ".1,.5");
    add_table("stages.csv",
              "category_before,category_after,slow_score_share,r_squared_predicted",
              "mixed,position-dominated,.4,.5");
    tree_add("scores.csv", "model,s\nm0,1\nm1,4\nm2,2\nm3,9\nm4,3\n");
}

static void every_allocation(bool checkpoints)
{
    const qk__score_choice scores = {"ap_drop", NULL};
    const qk_context context = {0};
    add_tables(checkpoints);
    for (long n = 0;; n = next_failure(n, 1)) {
        qk__findings findings;
        qk__store *tables;
        qk_error err = {0};
        assert_int_equal(qk__store_open(&tables, &context, NULL), QK_OK);
        assert_int_equal(qk__store_add(tables, "main", tree_path(""), false, NULL), QK_OK);
        remaining = n;
        qk_status status = qk__findings_derive(tables, &scores, &findings, &err);
        bool reached = remaining < 0;
        remaining = -1;
        qk__store_close(&tables);
        if (status != QK_OK) {
            if (status != QK_ERR_NOMEM)
                fail_msg("allocation %ld: %s", n, err.message);
            assert_int_equal(findings.count, 0);
            continue;
        }
        assert_true(findings.count > 15 && findings.tests.count > 5);
        assert_int_equal(findings.tests.next, findings.tests.count);
        qk__findings_free(&findings);
        if (!reached) {
            assert_true(n > 100);
            break;
        }
    }
}

static void of_models(void **state)
{
    (void)state;
    every_allocation(false);
}

static void of_checkpoints(void **state)
{
    (void)state;
    every_allocation(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_models),
                                       cmocka_unit_test(of_checkpoints)};
    return cmocka_run_group_tests_name("findings_memory", tests, tree_setup_in_memory,
                                       tree_teardown);
}
