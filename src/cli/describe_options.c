/* SPDX-License-Identifier: Apache-2.0 */
/* All commands and options as JSON, for generated files. */
#include "tell.h"

#include <qkscope/common.h>

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
    bool ranged = number && (s->min != 0 || s->max != 0);
    return cli_object(
        CLI_ROWS(CLI_OF(o, name), CLI_ROW("letter", (char *)letter),
                 CLI_ROW("value", (const char *)o->value), CLI_OF(o, help),
                 CLI_ROW("not_given", (char *)missing), CLI_OF(s, section), CLI_OF(s, unit),
                 CLI_OF(s, yaml), CLI_ROW("words", describe_words(*o->value ? s->words : NULL)),
                 CLI_ROW("range", ranged ? json_pack("[f, f]", s->min, s->max) : NULL),
                 CLI_ROW("path", path), CLI_ROW("list", (bool)(s->type == QK_SETTING_LIST)),
                 CLI_ROW("optional", (bool)(s->traits & QK_SETTING_OPTIONAL)),
                 CLI_ROW("common", common)));
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
    json_t *arguments = json_array();
    const char *word;
    for (int i = 0; command->word && (word = command->word(i)); i++)
        json_array_append_new(arguments, json_string(word));
    return cli_object(CLI_ROWS(CLI_OF(command, name), CLI_OF(command, summary),
                               CLI_OF(command, usage), CLI_OF(command, description),
                               CLI_OF(command, examples), CLI_ROW("arguments", arguments),
                               CLI_ROW("options", list)));
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
