/* SPDX-License-Identifier: Apache-2.0 */
/* Reading results and lists of heads when memory runs out at any moment: the status says so and nothing is leaked.
 */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "results/results.h"
#include "tests/unit.h"

#include "tests/base/tree.h"
#include "tests/failing_memory.h"

static void add_tables(void)
{
    tree_add("models.csv", "model,label,family,phase,source\nm,M,F,P,\nn,,,,s\n");
    tree_add("qk.csv", "model,layer,q_head,k_head,pc,explained_variance,r_q,r_k\n"
                       "m,0,0,0,0,.5,1,1\nm,0,0,0,1,.2,0,0\nn,1,2,1,0,.4,.5,.5\n");
    tree_add("heads.csv", "model,layer,q_head,k_head,category,ev0\nm,0,0,0,mixed,.5\n");
    tree_add("head_metrics.csv", "model,layer,q_head,k_head,bucket_width\nm,0,0,0,128\n");
    tree_add("head_profile.csv", "model,layer,q_head,k_head,q_bucket,position,ap\n"
                                 "m,0,0,0,2,5,1\nm,0,0,0,1,6,1\n");
    tree_add("scores.csv", "model,family,s\nm,F,1\nz,,2\n");
    tree_add("manifest.json", "{\"title\": \"T\"}");
}

static void every_allocation(void **state)
{
    (void)state;
    const qk_context context = {0};
    add_tables();
    for (long n = 0;; n++) {
        qk__results *results;
        qk__store *tables;
        qk_error err = {0};
        assert_int_equal(qk__store_open(&tables, &context, NULL), QK_OK);
        assert_int_equal(qk__store_add(tables, "main", tree_path(""), true, NULL), QK_OK);
        remaining = n;
        qk_status status = qk__results_read(&results, tables, tree_path(""), &err);
        bool reached = remaining < 0;
        remaining = -1;
        qk__store_close(&tables);
        if (status != QK_OK) {
            if (status != QK_ERR_NOMEM)
                fail_msg("allocation %ld: %s", n, err.message);
            assert_null(results);
            continue;
        }
        assert_int_equal(results->num_models, 2);
        qk__results_free(&results);
        if (!reached) {
            assert_true(n > 40);
            break;
        }
    }
}

static void list_without_memory(const qk_head_query *query)
{
    for (long n = 0;; n = next_failure(n, 3)) {
        qk_columns *columns;
        qk_head_totals totals;
        qk_error err = {0};
        remaining = n;
        qk_status status = qk_head_list(query, &columns, &totals, &err);
        bool reached = remaining < 0;
        remaining = -1;
        if (status != QK_OK) {
            assert_int_equal(status, QK_ERR_NOMEM);
            assert_null(columns);
            continue;
        }
        assert_int_equal(qk_columns_num_rows(columns), 2);
        qk_columns_free(&columns);
        if (!reached) {
            assert_true(n > 40);
            break;
        }
    }
}

static void every_allocation_of_a_list(void **state)
{
    (void)state;
    qk_head_query query = {.results = tree_path(""),
                           .columns = "model,layer,category,r_q",
                           .where = "r_q > 0 and (category == 'mixed' or layer == 1)",
                           .sort = "-abs(r_q)",
                           .force = true};
    list_without_memory(&query);
    tree_add("a/heads.csv", "model,layer,q_head,k_head,category,r_q\n"
                            "m,0,0,0,mixed,.5\nm,0,1,0,mixed,.25\n");
    tree_add("a/manifest.json", "{\"qkscope\": \"0\"}");
    tree_add("b/qk.csv", "model,layer,q_head,k_head,pc,explained_variance,r_q,r_k\n"
                         "n,0,0,0,0,.5,1,1\nn,0,1,0,0,.5,.5,1\nn,0,2,0,0,.5,.5,1\n");
    tree_add("a/qk.csv", "model,layer,q_head,k_head,pc,explained_variance,r_q,r_k\n"
                         "m,0,0,0,0,.5,1,1\nm,0,1,0,0,.5,.25,1\n");
    query.results = tree_path("a");
    query.other = tree_path("b");
    query.columns = "layer,r_q,diff.r_q";
    query.where = "a.r_q > 0 and b.r_q > 0 and (a.category == 'mixed' or layer == 1)";
    query.sort = "-abs(diff.r_q)";
    list_without_memory(&query);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation),
                                       cmocka_unit_test(every_allocation_of_a_list)};
    return cmocka_run_group_tests_name("out_of_memory", tests, tree_setup_in_memory,
                                       tree_teardown);
}
