/* SPDX-License-Identifier: Apache-2.0 */
/* What the differences of all heads have in common, in SQL: means and spreads of each metric, and the heads that
 * changed most. */
#include <math.h>

#include "base/error.h"
#include "base/number.h"
#include "compare/compare.h"

/* Without numbers whose sign is open: with the other sign the difference would be another. */
static const char TOLD[] =
    "CREATE TEMP VIEW told AS SELECT c.* FROM compare c JOIN temp.pairs p ON p.layer = c.layer "
    "AND p.q_head = c.q_head WHERE c.difference IS NOT NULL AND NOT (p.open AND c.metric IN "
    "(" QK__SIGNED_ON_PC0 "))";

/* The query heads of a key head are not independent: so temp.groups has a row for each key head, with the mean of its
 * query heads. */
static const char GROUPS[] =
    "CREATE TABLE temp.groups AS SELECT metric, layer, avg(difference) AS difference FROM temp.told "
    "GROUP BY metric, layer, k_head ORDER BY metric, layer, k_head";

/* spread: standard deviation about the common mean of a and b. */
static const char METRICS[] =
    "CREATE TABLE temp.metrics AS WITH "
    "listed(metric, place) AS (VALUES %s), "
    "both AS (SELECT * FROM temp.told), "
    "means AS (SELECT metric, count(*) AS heads, avg(a) AS mean_a, avg(b) AS mean_b, "
    "count(p) AS tested, sum(coalesce(p_corrected < %g, 0)) AS supported FROM both "
    "GROUP BY metric), "
    "spreads AS (SELECT metric, sqrt((avg((a - mean) * (a - mean)) + avg((b - mean) * (b - "
    "mean))) / 2) AS spread FROM both JOIN (SELECT metric, (mean_a + mean_b) / 2 AS mean "
    "FROM means) USING (metric) GROUP BY metric), "
    "over_keys AS (SELECT metric, avg(difference) AS mean FROM temp.groups GROUP BY metric) "
    "SELECT * FROM listed JOIN means USING (metric) JOIN spreads USING (metric) "
    "JOIN over_keys USING (metric) ORDER BY place";

static const char SIZES[] =
    "UPDATE compare SET size = CASE WHEN difference = 0 THEN 0 ELSE difference / (SELECT "
    "spread FROM temp.metrics m WHERE m.metric = compare.metric) END "
    "WHERE difference IS NOT NULL";

/* The largest change of each head. A change that the choice of texts explains is no news, however large: supported
 * changes come first. */
static const char TOP[] =
    "CREATE TABLE temp.top AS SELECT * FROM (SELECT c.layer, c.q_head, c.metric, "
    "c.difference, c.size, c.p_corrected, row_number() OVER (PARTITION BY c.layer, c.q_head "
    "ORDER BY coalesce(c.p_corrected < %g, 0) DESC, abs(c.size) DESC, m.place) AS rank "
    "FROM temp.told c JOIN temp.metrics m ON m.metric = c.metric WHERE c.size <> 0) "
    "WHERE rank = 1";

static const char HEADS[] =
    "INSERT INTO compare_heads WITH "
    "of_a AS (SELECT layer, q_head, k_head, category, category_probability, "
    "coalesce(min(n_q, n_k), n_q, n_k) AS size, texts FROM a.head_numbers WHERE model = %Q), "
    "of_b AS (SELECT layer, q_head, k_head, category, category_probability, "
    "coalesce(min(n_q, n_k), n_q, n_k) AS size, texts FROM b.head_numbers WHERE model = %Q), "
    "heads AS (SELECT coalesce(a.layer, b.layer) AS layer, coalesce(a.q_head, "
    "b.q_head) AS q_head, coalesce(a.k_head, b.k_head) AS k_head, "
    "CASE WHEN a.layer IS NULL THEN 'b' WHEN b.layer IS NULL THEN 'a' ELSE 'both' END AS "
    "place, a.category AS category_a, b.category AS category_b, "
    "a.category_probability AS probability_a, b.category_probability AS probability_b, "
    "a.size AS rows_a, b.size AS rows_b, a.texts AS texts_a, b.texts AS texts_b FROM of_a a "
    "FULL JOIN of_b b ON b.layer = a.layer AND b.q_head = a.q_head) "
    "SELECT h.*, %s, %s, t.metric, t.difference, t.size, t.p_corrected FROM heads h "
    "LEFT JOIN temp.top t ON t.layer = h.layer AND t.q_head = h.q_head ORDER BY h.layer, "
    "h.q_head";

/* NULL where it is not known. */
static const char *tokens_of(const qk__opened *side, char text[QK_NUMBER_SIZE])
{
    if (!isfinite(side->lengths.median))
        return "NULL";
    qk__format_number(side->lengths.median, text);
    return text;
}

qk_status qk__compare_means(qk__comparing *c, qk_error *err)
{
    char a[QK_NUMBER_SIZE], b[QK_NUMBER_SIZE];
    QK_TRY(qk__store_own(c->tables, "compare_heads", err));
    QK_TRY(qk__store_do(c->tables, err, TOLD));
    QK_TRY(qk__store_do(c->tables, err, GROUPS));
    QK_TRY(
        qk__store_do(c->tables, err, METRICS, (const char *)c->metrics.data, QK__CHANGE_LEVEL));
    QK_TRY(qk__store_do(c->tables, err, SIZES));
    QK_TRY(qk__store_do(c->tables, err, TOP, QK__CHANGE_LEVEL));
    return qk__store_do(c->tables, err, HEADS, c->sides[0].model, c->sides[1].model,
                        tokens_of(&c->sides[0], a), tokens_of(&c->sides[1], b));
}
