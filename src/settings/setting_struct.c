/* SPDX-License-Identifier: Apache-2.0 */
/* Fills and copies a settings struct by its table, and sets its members by name. */
#include "settings/settings.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"

/* ---- a struct by its table -------------------------------------------------------------- */

void qk__settings_each(const qk_settings_table *table, const void *values,
                       qk__settings_visit_fn *visit, void *user)
{
    for (size_t i = 0; i < table->count; i++) {
        const qk_setting *row = &table->rows[i];
        const void *member = (const char *)values + row->offset;
        if (row->type == QK_SETTING_NESTED)
            qk__settings_each(row->table, member, visit, user);
        else
            visit(user, row, member);
    }
}

static void set_default(const qk_setting *row, void *member)
{
    switch (row->type) {
    case QK_SETTING_FLAG:
        *(bool *)member = row->number != 0;
        break;
    case QK_SETTING_INTEGER:
    case QK_SETTING_CHOICE:
    case QK_SETTING_SET:
        qk__setting_set_integer(row, member, (int64_t)row->number);
        break;
    case QK_SETTING_REAL:
    case QK_SETTING_PERCENT:
        *(double *)member = row->number;
        break;
    case QK_SETTING_TEXT:
    case QK_SETTING_PATH:
        *(const char **)member = row->text;
        break;
    case QK_SETTING_PATHS:
    case QK_SETTING_LIST:
    case QK_SETTING_HEADS:
    case QK_SETTING_NESTED:
        break; /* empty */
    }
}

static void set_defaults(const qk_settings_table *table, char *values)
{
    for (int nested = 1; nested >= 0; nested--) /* a table has the last word on its parts */
        for (size_t i = 0; i < table->count; i++) {
            const qk_setting *row = &table->rows[i];
            if ((row->type == QK_SETTING_NESTED) != nested)
                continue;
            if (nested)
                set_defaults(row->table, values + row->offset);
            else
                set_default(row, values + row->offset);
        }
}

void qk_settings_default(const qk_settings_table *table, void *values)
{
    assert(values);
    memset(values, 0, table->size);
    set_defaults(table, values);
}

void qk__settings_copy(const qk_settings_table *table, void *to, const void *from,
                       unsigned traits)
{
    for (size_t i = 0; i < table->count; i++) {
        const qk_setting *row = &table->rows[i];
        void *target = (char *)to + row->offset;
        const void *source = (const char *)from + row->offset;
        if (row->type == QK_SETTING_NESTED)
            qk__settings_copy(row->table, target, source, traits);
        else if (row->traits & traits)
            memcpy(target, source, row->size);
    }
}

/* ---- one struct in memory --------------------------------------------------------------- */

/* A setting that the command takes. */
typedef struct one_setting {
    const qk_setting *row;
    char *member;
    bool given;
    void *owned;        /* text, or items of a list */
    size_t count, room; /* PATHS: of owned, whose texts are owned, too */
} one_setting;

struct qk_settings {
    const qk_settings_table *table;
    void *values;
    size_t count;
    one_setting *slots;
};

static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *p = words; p && (p = strstr(p, word)); p += length)
        if ((p == words || p[-1] == ' ') && (p[length] == ' ' || p[length] == 0))
            return true;
    return false;
}

static bool is_hidden(const qk_settings_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++)
        if (table->rows[i].name && strcmp(table->rows[i].name, name) == 0)
            return true;
    return false;
}

/* The tables that a nested table lies in: their rows hide its rows of the same name. */
typedef struct around {
    const qk_settings_table *table;
    const struct around *next;
} around;

/* Without memory for slots, counts. */
static void add_slots(qk_settings *s, const around *at, char *values, const char *command)
{
    for (size_t i = 0; i < at->table->count; i++) {
        const qk_setting *row = &at->table->rows[i];
        char *member = values ? values + row->offset : NULL;
        if (row->type == QK_SETTING_NESTED) {
            add_slots(s, &(around){row->table, at}, member, command);
            continue;
        }
        bool hidden =
            !row->name || (command && row->commands && !has_word(row->commands, command));
        for (const around *a = at->next; a && !hidden; a = a->next)
            hidden = is_hidden(a->table, row->name);
        if (hidden)
            continue;
        if (s->slots)
            s->slots[s->count] = (one_setting){.row = row, .member = member};
        s->count++;
    }
}

qk_status qk_settings_new(qk_settings **settings, const qk_settings_table *table,
                          const char *command, qk_error *err)
{
    QK_NEED(err, settings);
    *settings = NULL;
    QK_NEED(err, table);
    qk_settings *s = calloc(1, sizeof *s);
    if (!s)
        return qk__nomem(err);
    const around whole = {table, NULL};
    s->table = table;
    add_slots(s, &whole, NULL, command);
    s->values = malloc(table->size);
    s->slots = qk__calloc(s->count, sizeof *s->slots);
    if (!s->values || !s->slots) {
        s->count = 0;
        qk_settings_free(&s);
        return qk__nomem(err);
    }
    qk_settings_default(table, s->values);
    s->count = 0;
    add_slots(s, &whole, s->values, command);
    *settings = s;
    return QK_OK;
}

static void release_text(one_setting *slot)
{
    for (size_t i = 0; i < slot->count; i++)
        free(((char **)slot->owned)[i]);
    free(slot->owned);
}

void qk_settings_free(qk_settings **settings)
{
    assert(settings);
    qk_settings *s = *settings;
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++)
        release_text(&s->slots[i]);
    free(s->slots);
    free(s->values);
    free(s);
    *settings = NULL;
}

void *qk_settings_values(const qk_settings *settings)
{
    assert(settings);
    return settings->values;
}

qk_status qk_settings_check(const qk_settings *settings, qk_error *err)
{
    QK_NEED(err, settings);
    return qk__settings_check(settings->table, settings->values, err);
}

size_t qk_settings_count(const qk_settings *settings)
{
    assert(settings);
    return settings->count;
}

const qk_setting *qk_settings_row(const qk_settings *settings, size_t i)
{
    assert(settings && i < settings->count);
    return settings->slots[i].row;
}

/* ---- by name ---------------------------------------------------------------------------- */

static one_setting *find_setting(const qk_settings *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->slots[i].row->name, name) == 0)
            return &s->slots[i];
    return NULL;
}

/* One more path; the first takes the place of what a file or the caller had put there. */
static qk_status add_path(one_setting *slot, const char *text, qk_error *err)
{
    void *copy = NULL;
    const char *path;
    QK_TRY(qk__setting_parse(slot->row, &path, text, &copy, err));
    if (slot->count == slot->room) {
        size_t room = slot->room ? 2 * slot->room : 4;
        void *grown = realloc(slot->owned, room * sizeof(char *));
        if (!grown) {
            free(copy);
            return qk__nomem(err);
        }
        slot->owned = grown;
        slot->room = room;
    }
    ((char **)slot->owned)[slot->count++] = copy;
    *(void **)slot->member = slot->owned;
    *(size_t *)(slot->member + sizeof(char **)) = slot->count;
    return QK_OK;
}

qk_status qk_settings_set(qk_settings *settings, const char *name, const char *text,
                          qk_error *err)
{
    QK_NEED(err, settings, name, text);
    one_setting *slot = find_setting(settings, name);
    if (!slot)
        return qk__fail(err, QK_ERR_NOT_FOUND, "there is no setting '%.60s'", name);
    if (slot->row->type == QK_SETTING_PATHS)
        QK_TRY(add_path(slot, text, err));
    else
        QK_TRY(qk__setting_parse(slot->row, slot->member, text, &slot->owned, err));
    slot->given = true;
    return QK_OK;
}

bool qk_settings_given(const qk_settings *settings, const char *name)
{
    assert(settings && name);
    const one_setting *slot = find_setting(settings, name);
    return slot && slot->given;
}

size_t qk_settings_get(const qk_settings *settings, const char *name, char *text, size_t size)
{
    assert(settings && name && (text || size == 0));
    const one_setting *slot = find_setting(settings, name);
    if (size > 0)
        *text = 0;
    return slot ? qk__setting_format(slot->row, slot->member, text, size) : 0;
}
