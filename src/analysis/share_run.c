/* SPDX-License-Identifier: Apache-2.0 */
/* Sharing a run: which units are this process's, which are there, and the end. */
#include "analysis/sharing.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/parallel.h"

/* ---- which units are there -------------------------------------------------------------- */

/* By a part of the name: until its files were looked at, of a unit only that is known. */
static int compare_start(const void *key, const void *item)
{
    const char *name = *(char *const *)item;
    size_t length = strlen(key);
    int order = strncmp(key, name, length);
    return order != 0 ? order : name[length] == '-' ? 0 : -1;
}

static bool is_there(const qk__names *names, const qk__unit *unit)
{
    if (unit->named || names->count == 0)
        return qk__names_have(names, unit->name);
    return bsearch(unit->name, names->items, names->count, sizeof *names->items,
                   compare_start) != NULL;
}

typedef struct naming {
    qk__run *run;
    const int64_t *owner; /* NULL: of all */
} naming;

static qk_status name_unit(void *context, size_t i, int worker, qk_error *err)
{
    (void)worker;
    const naming *n = context;
    qk__unit *unit = &n->run->units[i];
    if (unit->named || (n->owner && n->owner[i] != n->run->settings->shard.index))
        return QK_OK;
    return qk__name_unit(n->run, unit, err);
}

static qk_status name_units(qk__run *run, const int64_t *owner, qk_error *err)
{
    naming n = {run, owner};
    return qk__parallel_try(run->num_units, run->threads, name_unit, &n, err);
}

/* ---- whose units ------------------------------------------------------------------------ */

static qk_status add_size(void *user, const qk_head *head, qk_error *err)
{
    (void)err;
    int64_t *bytes = user;
    struct stat st;
    for (size_t f = 0; f < head->num_files; f++)
        if (stat(head->files[f], &st) == 0)
            *bytes += st.st_size;
    if (head->moments && stat(head->moments, &st) == 0)
        *bytes += st.st_size;
    return QK_OK;
}

static qk_status find_owners(const qk__run *run, int64_t *owner, qk_error *err)
{
    qk__unit_size *sizes = qk__calloc(run->num_units, sizeof *sizes);
    qk_status status = sizes ? QK_OK : qk__nomem(err);
    for (size_t i = 0; i < run->num_units && status == QK_OK; i++) {
        int64_t bytes = 0;
        status = qk__unit_heads(run, &run->units[i], add_size, &bytes, err);
        sizes[i] = (qk__unit_size){run->units[i].name, bytes};
    }
    if (status == QK_OK)
        status = qk__share_units(sizes, run->num_units, run->settings->shard.count, owner, err);
    free(sizes);
    return status;
}

static qk_status want_own(qk__run *run, const int64_t *owner, size_t *wanted, qk_error *err)
{
    qk__names names;
    QK_TRY(name_units(run, owner, err));
    QK_TRY(qk__units_list(&run->units_at, &names, err));
    run->own = *wanted = 0;
    for (size_t i = 0; i < run->num_units; i++) {
        qk__unit *unit = &run->units[i];
        bool own = owner[i] == run->settings->shard.index;
        unit->wanted = own && !run->settings->merge && !is_there(&names, unit);
        run->own += own;
        *wanted += unit->wanted;
    }
    qk__names_free(&names);
    return QK_OK;
}

/* What must be there before the first unit can be. */
static qk_status prepare_held(qk__run *run, qk_error *err)
{
    QK_TRY(qk__units_enter(&run->rank, &run->units_at, &run->settings->shard, err));
    return qk__plan_write(run, err);
}

/* No other command is at work there now; and from now on the units there keep one from replacing the
 * folder. The lock is let go, because who ends the run holds the folder alone. */
static qk_status prepare(qk__run *run, qk_error *err)
{
    qk__hold place = {.lock = -1};
    if (!run->folder.path)
        QK_TRY(qk__place_join(&place, run->settings->output, err));
    qk_status status = prepare_held(run, err);
    qk__place_release(&place);
    return status;
}

static qk_status plan_shared(qk__run *run, qk_error *err)
{
    char name[QK__RUN_NAME_SIZE];
    size_t wanted = 0;
    QK_TRY(qk__name_run(run, name, err));
    QK_TRY(qk__units_open(&run->units_at, run->settings->output, name, err));
    if (run->settings->shard.count <= 1 && !run->settings->merge &&
        !qk__is_dir(run->units_at.path)) {
        run->shared = false; /* the units there are of another run */
        return QK_OK;
    }
    int64_t *owner = qk__calloc(run->num_units, sizeof *owner);
    if (!owner)
        return qk__nomem(err);
    qk_status status = run->settings->shard.count > 1 ? find_owners(run, owner, err) : QK_OK;
    if (status == QK_OK)
        status = want_own(run, owner, &wanted, err);
    if (status == QK_OK && wanted > 0)
        status = prepare(run, err);
    free(owner);
    if (status == QK_OK && run->settings->shard.count > 1)
        status = qk__plan_tell_others(run, err);
    if (status == QK_OK && run->settings->shard.count <= 1)
        qk__tell_notice(&run->context, QK_NOTICE_INFO, "%zu of %zu units are there already",
                        run->own - wanted, run->num_units);
    else if (status == QK_OK)
        qk__tell_notice(&run->context, QK_NOTICE_INFO,
                        "shard %lld of %lld (%s): %zu of %zu units, %zu of them there already",
                        (long long)run->settings->shard.index,
                        (long long)run->settings->shard.count,
                        run->settings->shard.source ? run->settings->shard.source : "settings",
                        run->own, run->num_units, run->own - wanted);
    return status;
}

qk_status qk__sharing_plan(qk__run *run, qk__unit *units, size_t count, qk_error *err)
{
    run->units = units;
    run->num_units = count;
    for (size_t i = 0; i < count; i++)
        units[i].wanted = true;
    run->relay.held_back = 0;
    return run->shared && count > 0 ? plan_shared(run, err) : QK_OK;
}

/* ---- while units are computed ----------------------------------------------------------- */

void qk__sharing_add(qk__run *run, qk__unit *unit, int64_t bytes, int64_t rows, bool constant)
{
    pthread_mutex_lock(&run->lock);
    unit->counts.bytes += bytes;
    unit->counts.rows += rows;
    unit->counts.constant += constant;
    pthread_mutex_unlock(&run->lock);
}

/* Memory that ran out is no result: with more of it there would be another one. */
static qk_status check_memory(const qk__run *run, const qk__unit *unit, qk_error *err)
{
    for (size_t i = unit->first; i < unit->first + unit->count; i++) {
        char name[QK_HEAD_NAME_SIZE];
        const qk_head_results *head = &run->results->heads[i];
        if (head->status != QK_ERR_NOMEM && (head->status == QK_OK || head->message))
            continue;
        qk_head_name(head->id, name);
        return qk__fail(err, QK_ERR_NOMEM, "%s: out of memory", name);
    }
    return QK_OK;
}

typedef struct writing {
    qk__run *run;
    const qk__unit *unit;
} writing;

static qk_status write_unit(void *context, const char *folder, qk_error *err)
{
    const writing *w = context;
    return qk__unit_write(w->run, w->unit, folder, err);
}

void qk__sharing_publish(qk__run *run, qk__unit *unit)
{
    qk_error err = {0};
    if (!run->shared)
        return;
    writing w = {run, unit};
    qk_status status = check_memory(run, unit, &err);
    if (status == QK_OK)
        status = qk__unit_put(&run->units_at, unit->name, write_unit, &w, &err);
    for (size_t i = 0; i < unit->count && status == QK_OK; i++)
        qk__long_tables_forget(run, unit->first + i);
    if (status == QK_OK)
        return;
    pthread_mutex_lock(&run->lock);
    if (run->unit_status == QK_OK) {
        run->unit_status = status;
        run->unit_error = err;
    }
    pthread_mutex_unlock(&run->lock);
    atomic_store(&run->cancelled, true);
}

/* ---- the end ---------------------------------------------------------------------------- */

/* Counts the units that are there, and looks at their files where all seem to be. */
static qk_status count_there(qk__run *run, qk_error *err)
{
    for (int look = 0; look < 2; look++) {
        qk__names names;
        qk_analysis_results *results = run->results;
        QK_TRY(qk__units_list(&run->units_at, &names, err));
        results->units_there = 0;
        run->missing = NULL;
        for (size_t i = 0; i < run->num_units; i++) {
            bool there = is_there(&names, &run->units[i]);
            results->units_there += there;
            if (!there && !run->missing)
                run->missing = &run->units[i];
        }
        qk__names_free(&names);
        if (look > 0 || results->units_there < run->num_units)
            return QK_OK;
        QK_TRY(name_units(run, NULL, err));
    }
    return QK_OK;
}

/* The heads of a unit that other processes computed, as if they had failed here. */
static void tell_failures(qk__run *run, const qk__unit *unit)
{
    for (size_t i = unit->first; i < unit->first + unit->count; i++) {
        const qk_head_results *head = &run->results->heads[i];
        char name[QK_HEAD_NAME_SIZE];
        if (head->status == QK_OK)
            continue;
        qk_head_name(head->id, name);
        qk__tell_notice(&run->context, QK_NOTICE_ERROR, "%s: %s", name,
                        head->message ? head->message : qk_status_text(head->status));
    }
}

static qk_status take_in_other(qk__run *run, qk__unit *unit, qk_error *err)
{
    QK_TRY(qk__unit_read(run, unit, err));
    run->done_bytes += unit->counts.bytes;
    run->done_rows += unit->counts.rows;
    run->num_constant += (size_t)unit->counts.constant;
    tell_failures(run, unit);
    return QK_OK;
}

/* Of an own unit, whose heads have lost their long rows. */
static qk_status read_again(qk__run *run, qk__unit *unit, qk_error *err)
{
    for (size_t i = 0; i < unit->count; i++)
        qk__head_results_clear(&run->results->heads[unit->first + i]);
    return qk__unit_read(run, unit, err);
}

/* Where long rows leave memory, one unit after the other has its own there. */
static qk_status take_in(qk__run *run, qk_error *err)
{
    const bool drop = run->settings->drop_written;
    QK_TRY(qk__long_tables_open(run, err));
    for (qk__unit *unit = run->units; unit < run->units + run->num_units; unit++) {
        if (!unit->wanted)
            QK_TRY(take_in_other(run, unit, err));
        else if (drop)
            QK_TRY(read_again(run, unit, err));
        for (size_t i = 0; i < unit->count && drop; i++)
            qk__long_tables_put(run, unit->first + i);
        QK_TRY(qk__long_tables_check(run, err));
    }
    return QK_OK;
}

/* Another process that ends the run at the same time holds the folder or has removed the units. */
static qk_status hold(qk__run *run, bool *held, qk_error *err)
{
    *held = run->folder.path != NULL;
    if (*held)
        return QK_OK;
    qk_status status = qk__place_claim(&run->folder, run->settings->output, err);
    if (status == QK_ERR_EXISTS && !run->settings->merge)
        return QK_OK;
    *held = status == QK_OK;
    return status == QK_OK ? qk__results_claim(run, err) : status;
}

qk_status qk__sharing_gather(qk__run *run, bool *whole, qk_error *err)
{
    bool held;
    *whole = !run->shared;
    if (!run->shared)
        return QK_OK;
    run->results->units = run->num_units;
    if (run->unit_status == QK_ERR_NOT_FOUND && !qk__is_dir(run->units_at.path)) {
        run->results->units_there = run->num_units;
        return QK_OK;
    }
    if (run->unit_status != QK_OK) {
        if (err)
            *err = run->unit_error;
        return run->unit_status;
    }
    QK_TRY(count_there(run, err));
    if (run->missing)
        return qk__plan_tell_others(run, err);
    QK_TRY(hold(run, &held, err));
    if (!held)
        return QK_OK;
    qk_status status = take_in(run, err);
    if (status == QK_ERR_NOT_FOUND && !qk__is_dir(run->units_at.path))
        return QK_OK;
    *whole = status == QK_OK;
    return status;
}

qk_status qk__sharing_end(qk__run *run, qk_error *err)
{
    return run->shared ? qk__units_remove(&run->units_at, err) : QK_OK;
}

void qk__sharing_free(qk__run *run)
{
    qk__rank_leave(&run->rank);
    qk__units_close(&run->units_at);
    free(run->units);
}
