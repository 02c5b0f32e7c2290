/* SPDX-License-Identifier: Apache-2.0 */
/* Telling captures, models, results, studies and texts from each other. */
#include "paths/path_kind.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "paths/model_files.h"

enum {
    MAX_SETTINGS = 256 << 10,
    MOST_BESIDE = 8, /* folders that are named; of more, none is */
};

static const struct {
    const char *what;
    const char *remedy;  /* with the path in it */
    qk__path_kind whole; /* of a part: what it is a part of, whose remedy holds */
} KINDS[] = {
    [QK__PATH_CAPTURE] = {"a capture", "analyse it with: qkscope analyze %s -o DIR", 0},
    [QK__PATH_UNFINISHED] = {"an unfinished capture",
                             "the command that began it, run again, completes %s", 0},
    [QK__PATH_MODEL] = {"a model",
                        "make a capture of it with: qkscope capture --model %s --text TEXT "
                        "-o DIR",
                        0},
    [QK__PATH_MODELS] = {"a folder of models", "give one of those in %s", 0},
    [QK__PATH_RESULTS] = {"a folder of results",
                          "draw figures and page with: qkscope report %s", 0},
    [QK__PATH_STUDY_FILE] = {"a study file", "run it with: qkscope study %s -o DIR", 0},
    [QK__PATH_SETTINGS] = {"a file of settings", "give it as --config %s", 0},
    [QK__PATH_TEXTS] = {"text",
                        "make a capture of it with: qkscope capture --model MODEL --text %s "
                        "-o DIR",
                        0},
    [QK__PATH_FILE_OF_CAPTURE] = {"a file of a capture", NULL, QK__PATH_CAPTURE},
    [QK__PATH_FILE_OF_MODEL] = {"a file of a model", NULL, QK__PATH_MODEL},
    [QK__PATH_TABLE] = {"a table of results", NULL, QK__PATH_RESULTS},
};

/* ---- names ------------------------------------------------------------------------------ */

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (**list == '.' ? qk__ends_with_any_case(name, *list) : strcmp(name, *list) == 0)
            return true;
    return false;
}

static bool is_text(const char *name)
{
    static const char *const TEXTS[] = {".txt", ".jsonl", ".ndjson", ".md", NULL};
    return is_one_of(name, TEXTS);
}

static const char *digits(const char *p, char letter)
{
    if (*p != letter)
        return "";
    size_t count = strspn(p + 1, "0123456789");
    return count > 0 ? p + 1 + count : "";
}

/* l00h00q, or packed l00q. */
static bool is_heads(const char *name)
{
    const char *p = digits(name, 'l');
    if (*p == 'h')
        p = digits(p, 'h');
    return strcmp(p, "q") == 0 || strcmp(p, "k") == 0;
}

static bool is_table(const char *name)
{
    static const char *const TABLES[] = {"qk.csv",           "heads.csv",  "rotated.csv",
                                         "correlations.csv", "models.csv", "head_metrics.csv",
                                         "model_report.csv", "stages.csv", NULL};
    return is_one_of(name, TABLES);
}

/* Weights, also of a form that is not read: what to do about them is said where a model is opened. */
static bool is_weights(const char *name)
{
    const qk__model_form *form = qk__model_form_of(name);
    return form && (form->part == QK__PART_WEIGHTS || form->part == QK__PART_OTHER_WEIGHTS);
}

static bool is_of_model(const char *name)
{
    const qk__model_form *form = qk__model_form_of(name);
    return qk__is_model_file(name) || (form && form->part == QK__PART_TOKENIZER);
}

/* ---- folders ---------------------------------------------------------------------------- */

static qk__path_kind look_at_names(const qk__names *names)
{
    static const char *const CAPTURES[] = {"capture.json", "moments", "attention", NULL};
    bool capture = false, partial = false, table = false, model = false, text = false,
         other = false;
    for (size_t i = 0; i < names->count; i++) {
        const char *name = names->items[i];
        capture |= is_heads(name) || is_one_of(name, CAPTURES);
        partial |= strcmp(name, ".partial") == 0;
        table |= is_table(name);
        model |= is_weights(name);
        text |= is_text(name);
        other |= is_of_model(name);
    }
    return partial   ? QK__PATH_UNFINISHED
           : capture ? QK__PATH_CAPTURE
           : table   ? QK__PATH_RESULTS
           : model   ? QK__PATH_MODEL
           : other   ? QK__PATH_OTHER /* of a model without weights, say */
           : text    ? QK__PATH_TEXTS
                     : QK__PATH_OTHER;
}

static bool is_folder_in(const char *path, const char *name)
{
    char *folder = qk__path_join(path, name);
    bool yes = folder && qk__is_dir(folder);
    free(folder);
    return yes;
}

static qk__path_kind look_inside(const char *path, const char *name)
{
    qk__names names;
    char *folder = qk__path_join(path, name);
    qk__path_kind kind = QK__PATH_OTHER;
    if (folder && qk__is_dir(folder) && qk__list_dir(folder, &names, NULL) == QK_OK) {
        kind = look_at_names(&names);
        qk__names_free(&names);
    }
    free(folder);
    return kind;
}

static qk__path_kind look_at_folder(const char *path)
{
    qk__names names;
    if (qk__list_dir(path, &names, NULL) != QK_OK)
        return QK__PATH_OTHER;
    qk__path_kind kind = look_at_names(&names);
    bool vague = kind == QK__PATH_TEXTS || kind == QK__PATH_OTHER;
    for (size_t i = 0; i < names.count && vague; i++)
        if (look_inside(path, names.items[i]) == QK__PATH_MODEL) {
            kind = QK__PATH_MODELS;
            break;
        }
    qk__names_free(&names);
    return kind;
}

char *qk__path_beside(const char *path)
{
    char *folder, *list = NULL;
    qk__names names;
    size_t count = 0;
    if (!strchr(path, '/') || qk__parent_folder(path, &folder, NULL) != QK_OK)
        return NULL;
    if (!qk__is_dir(folder) || qk__list_dir(folder, &names, NULL) != QK_OK) {
        free(folder);
        return NULL;
    }
    for (size_t i = 0; i < names.count && count <= MOST_BESIDE; i++) {
        if (names.items[i][0] == '.' || !is_folder_in(folder, names.items[i]))
            continue;
        char *longer = qk__format("%s%s%s", list ? list : "", list ? ", " : "", names.items[i]);
        free(list);
        list = longer;
        count++;
    }
    qk__names_free(&names);
    free(folder);
    if (count <= MOST_BESIDE)
        return list;
    free(list);
    return NULL;
}

/* ---- files ------------------------------------------------------------------------------ */

/* A study lists models. */
static qk__path_kind look_at_settings(const char *path)
{
    qk__buffer text = {0};
    qk__path_kind kind = QK__PATH_OTHER;
    if (qk__read_file(path, MAX_SETTINGS, &text, NULL) == QK_OK) {
        const char *settings = (const char *)text.data;
        bool study = strncmp(settings, "models:", 7) == 0 || strstr(settings, "\nmodels:");
        kind = study ? QK__PATH_STUDY_FILE : QK__PATH_SETTINGS;
    }
    qk__buffer_free(&text);
    return kind;
}

/* The folder that is `up` levels above; NULL without memory. */
static char *folder_above(const char *path, int up)
{
    char *folder = NULL;
    for (; up > 0; up--) {
        char *above;
        if (qk__parent_folder(folder ? folder : path, &above, NULL) != QK_OK)
            above = NULL;
        free(folder);
        folder = above;
        if (!folder)
            return NULL;
    }
    return folder;
}

/* A file of a head lies in the folder of that head, which lies in that of the capture. */
static bool is_of_heads(const char *path)
{
    char *folder = folder_above(path, 1);
    bool yes =
        folder && qk__ends_with_any_case(path, ".parquet") && is_heads(qk__file_name(folder));
    free(folder);
    return yes;
}

qk__path_kind qk__path_look(const char *path)
{
    static const char *const YAML[] = {".yaml", ".yml", NULL};
    const char *name = qk__file_name(path);
    if (qk__is_dir(path))
        return look_at_folder(path);
    if (!qk__is_file(path))
        return QK__PATH_OTHER;
    if (is_one_of(name, YAML))
        return look_at_settings(path);
    if (qk__is_whole_model(name))
        return QK__PATH_MODEL;
    return is_table(name)                                           ? QK__PATH_TABLE
           : is_of_model(name)                                      ? QK__PATH_FILE_OF_MODEL
           : is_of_heads(path) || strcmp(name, "capture.json") == 0 ? QK__PATH_FILE_OF_CAPTURE
           : is_text(name)                                          ? QK__PATH_TEXTS
                                                                    : QK__PATH_OTHER;
}

/* ---- saying it -------------------------------------------------------------------------- */

/* A part is useful by the folder it belongs to. */
static char *useful_path(const char *path, qk__path_kind kind)
{
    bool file = KINDS[kind].whole != QK__PATH_OTHER;
    char *folder = file ? folder_above(path, is_of_heads(path) ? 2 : 1) : NULL;
    return folder ? folder : qk__strdup(path);
}

qk_status qk__path_tell(const char *path, qk__path_kind wanted, qk_status status, qk_error *err)
{
    qk__path_kind kind = qk__path_look(path);
    bool slip = kind == QK__PATH_SETTINGS && wanted == QK__PATH_STUDY_FILE; /* "model:" */
    if (kind == QK__PATH_OTHER || kind == wanted || slip)
        return status;
    qk__path_kind whole = KINDS[kind].whole != QK__PATH_OTHER ? KINDS[kind].whole : kind;
    char *useful = useful_path(path, kind);
    if (!useful)
        return status;
    const char *remedy = whole == wanted ? "give the folder %s" : KINDS[whole].remedy;
    const char *at = strstr(remedy, "%s");
    bool begun = kind == QK__PATH_UNFINISHED && wanted == QK__PATH_CAPTURE;
    qk__set_error(err, QK_ERR_NOT_FOUND, "%s: %s%s%s; %.*s%s%s", path, KINDS[kind].what,
                  begun ? "" : ", not ", begun ? "" : KINDS[wanted].what, (int)(at - remedy),
                  remedy, useful, at + 2);
    free(useful);
    return QK_ERR_NOT_FOUND;
}
