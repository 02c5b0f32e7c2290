/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a study: whose it is, that one run at a time writes there, what a killed run
 * left. */
#include "base/error.h"
#include "study/study.h"

static qk_status clean(const qk__study_work *work, qk_error *err)
{
    QK_TRY(qk__folder_sweep(work->run->output, err));
    for (size_t i = 0; i < work->plan->num_models; i++)
        QK_TRY(qk__folder_sweep(work->folders[i], err));
    return QK_OK;
}

static qk_status check_owner(const qk__study_work *work, bool is_study, qk_error *err)
{
    const char *folder = work->run->output;
    qk__names names;
    if (work->run->force || is_study)
        return QK_OK;
    QK_TRY(qk__list_dir(folder, &names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; i < names.count && status == QK_OK; i++)
        if (qk__temporary_stem(names.items[i]) == 0)
            status = qk__fail(err, QK_ERR_EXISTS,
                              "%s: holds other things than a study (%s); choose another "
                              "folder, or --force to write here nevertheless",
                              folder, names.items[i]);
    qk__names_free(&names);
    return status;
}

qk_status qk__study_claim_folder(qk__study_work *work, qk_error *err)
{
    const qk_study_settings *run = work->run;
    qk__manifest before;
    QK_TRY(qk__folder_claim(&work->folder, run->output, err));
    QK_TRY(qk__manifest_read(&before, run->output, err));
    qk_status status = check_owner(work, before.is_study, err);
    if (status == QK_OK && before.is_study && !before.complete && run->notice)
        run->notice(run->user, QK_NOTICE_WARNING,
                    "the last run of this study was stopped before its end; going on with it");
    qk__manifest_free(&before);
    return status == QK_OK ? clean(work, err) : status;
}
