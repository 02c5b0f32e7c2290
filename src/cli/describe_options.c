/* SPDX-License-Identifier: Apache-2.0 */
/* All commands and options as JSON, for what is generated from them. */
#include "cli.h"

#include <qkscope/common.h>

static json_t *text_or_null(const char *text)
{
    return text ? json_string(text) : json_null();
}

static json_t *describe_words(const qk_word *words)
{
    json_t *list = json_array();
    for (; words && words->text; words++)
        json_array_append_new(list, json_string(words->text));
    return list;
}

static json_t *describe_option(const qk_settings *settings, const cli_option *o)
{
    const qk_setting *s = o->setting;
    char letter[2] = {o->off ? (char)0 : s->letter}, missing[200];
    bool number = s->type == QK_SETTING_INTEGER || s->type == QK_SETTING_REAL ||
                  s->type == QK_SETTING_PERCENT;
    bool common =
        s >= cli_common_table.rows && s < cli_common_table.rows + cli_common_table.count;
    bool path = s->type == QK_SETTING_PATH || s->type == QK_SETTING_PATHS;
    cli_default_text(settings, o, missing, sizeof missing);
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:b}", "name",
        o->name, "letter", letter, "value", o->value, "help", o->help, "not_given", missing,
        "section", s->section, "unit", text_or_null(s->unit), "yaml", text_or_null(s->yaml),
        "words", describe_words(*o->value ? s->words : NULL), "range",
        number && (s->min != 0 || s->max != 0) ? json_pack("[f, f]", s->min, s->max)
                                               : json_null(),
        "path", path, "list", s->type == QK_SETTING_LIST, "optional",
        (s->traits & QK_SETTING_OPTIONAL) != 0, "common", common);
}

static json_t *describe_command(const cli_command *command)
{
    cli_option options[CLI_MAX_OPTIONS];
    qk_settings *settings;
    qk_error err;
    json_t *list = json_array();
    if (qk_settings_new(&settings, command->table, command->name, &err) != QK_OK)
        return NULL;
    size_t count = cli_list_options(settings, options);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, describe_option(settings, &options[i]));
    qk_settings_free(&settings);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "name", command->name, "summary",
                     command->summary, "usage", command->usage, "description",
                     command->description, "examples", command->examples, "options", list);
}

int cli_describe(const cli_command *const *commands)
{
    json_t *list = json_array();
    for (; *commands; commands++)
        if (json_array_append_new(list, describe_command(*commands)) != 0) {
            json_decref(list);
            cli_error("out of memory");
            return EXIT_CODE_FAILURE;
        }
    cli_json_print(json_pack("{s:s, s:s, s:o}", "version", qk_version(), "released",
                             QK_RELEASED, "commands", list));
    return EXIT_CODE_OK;
}
