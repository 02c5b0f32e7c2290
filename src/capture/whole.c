/* SPDX-License-Identifier: Apache-2.0 */
/* Whether all that a finished capture lists is there. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "capture/capture.h"

#define REMEDY "capture again with --force, or put it back"

static qk_status check_file(const char *head, const char *path, qk_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return qk__fail(err, errno == ENOENT ? QK_ERR_INCONSISTENT : QK_ERR_IO,
                        "%s: head %s of a finished capture: %s; " REMEDY, path, head,
                        errno == ENOENT ? "is missing" : strerror(errno));
    return st.st_size > 0
               ? QK_OK
               : qk__fail(err, QK_ERR_INCONSISTENT,
                          "%s: head %s of a finished capture: is empty; " REMEDY, path, head);
}

static qk_status check_head(const qk_head *head, qk_error *err)
{
    char name[QK_HEAD_NAME_SIZE];
    qk_head_name(head->id, name);
    for (size_t i = 0; i < head->num_files; i++)
        QK_TRY(check_file(name, head->files[i], err));
    if (head->moments)
        QK_TRY(check_file(name, head->moments, err));
    return !head->missing ? QK_OK
                          : qk__fail(err, QK_ERR_INCONSISTENT,
                                     "%s: head %s of a finished capture: is missing; " REMEDY,
                                     head->num_files > 0 ? head->files[0] : name, name);
}

qk_status qk__capture_check_whole(const char *folder, qk_error *err)
{
    qk_capture *capture;
    QK_TRY(qk_capture_open(&capture, folder, "", err));
    qk_status status = QK_OK;
    if (!qk_capture_get_info(capture)->complete)
        status = qk__fail(err, QK_ERR_INCONSISTENT,
                          "%s: capture.json says that this capture was not finished: capture "
                          "again",
                          folder);
    for (size_t i = 0; status == QK_OK && i < qk_capture_num_heads(capture); i++)
        status = check_head(qk_capture_head(capture, i), err);
    qk_capture_close(&capture);
    return status;
}
