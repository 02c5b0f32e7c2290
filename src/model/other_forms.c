/* SPDX-License-Identifier: Apache-2.0 */
/* Folders that are no model in the form that is read here: what they are. */
#include "model/checkpoint.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <qkscope/model.h>

#include "base/error.h"
#include "base/file.h"
#include "paths/model_files.h"
#include "paths/path_kind.h"

bool qk__folder_lacks(const char *folder, const char *path)
{
    return qk__is_dir(folder) && access(path, F_OK) != 0 && errno == ENOENT;
}

qk_status qk__refuse_folder(const char *folder, const char *missing, qk_error *err)
{
    qk__names names;
    const qk__model_form *there = NULL;
    bool tokenizer = strcmp(missing, "tokenizer.json") == 0;
    QK_TRY(qk__list_dir(folder, &names, err));
    for (size_t i = 0; i < names.count; i++) {
        const qk__model_form *form = qk__model_form_of(names.items[i]);
        bool takes_its_place = form && form->remedy && form->part != QK__PART_ARRAYS &&
                               tokenizer == (form->part == QK__PART_OTHER_TOKENIZER);
        if (takes_its_place && (!there || form < there))
            there = form;
    }
    qk__names_free(&names);
    qk__set_error(err, QK_ERR_NOT_FOUND, "%s: there is no %s%s%s", folder, missing,
                  there ? "; " : "", there ? there->remedy : "");
    return qk__path_tell(folder, QK__PATH_MODEL, QK_ERR_NOT_FOUND, err);
}

/* model.safetensors or its parts; an adapter's weights are beside a model, not of it. */
static bool is_weights(const char *name)
{
    const qk__model_form *form = qk__model_form_of(name);
    return form && form->part == QK__PART_WEIGHTS && !form->remedy &&
           strncmp(name, "model", strlen("model")) == 0;
}

static bool holds(const char *folder, bool (*is)(const char *name))
{
    qk__names names;
    bool found = false;
    if (qk__list_dir(folder, &names, NULL) != QK_OK)
        return false;
    for (size_t i = 0; i < names.count && !found; i++)
        found = is(names.items[i]);
    qk__names_free(&names);
    return found;
}

bool qk_model_is_there(const char *path)
{
    assert(path);
    if (!qk__is_dir(path))
        return qk__is_file(path) && qk__is_model_file(qk__file_name(path));
    return qk__path_look(path) != QK__PATH_CAPTURE && holds(path, qk__is_model_file);
}

bool qk_model_has_weights(const char *folder)
{
    assert(folder);
    return holds(folder, is_weights);
}
