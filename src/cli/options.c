/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a command, from its table of settings. */
#include "cli.h"

#define AT(member) QK_SETTING_AT(cli_common, member)

static const qk_setting COMMON[] = {
    {"quiet", QK_SETTING_FLAG, AT(quiet), .letter = 'q', .help = "print errors only",
     .section = "Running"},
    {"verbose", QK_SETTING_FLAG, AT(verbose), .letter = 'v',
     .help = "print what was decided along the way", .section = "Running"},
    {"json", QK_SETTING_FLAG, AT(json), .help = "print the outcome as JSON",
     .section = "Running"},
    {"help", QK_SETTING_FLAG, AT(help), .letter = 'h',
     .help = "print all options and stop; -h: the usual ones", .section = "Running"},
    {"version", QK_SETTING_FLAG, AT(version), .letter = 'V',
     .help = "print the version and stop", .section = "Running"},
};

const qk_settings_table cli_common_table = {QK_SETTINGS_ROWS(cli_common, COMMON)};

/* The name of an option's value; for a choice, its words. */
static void name_value(cli_option *option)
{
    const qk_setting *s = option->setting;
    size_t length = 0;
    if (s->type == QK_SETTING_FLAG)
        return;
    for (const qk_word *w = s->words; s->type == QK_SETTING_CHOICE && w->text; w++)
        if (length < sizeof option->value)
            length += (size_t)snprintf(option->value + length, sizeof option->value - length,
                                       "%s%s", w == s->words ? "" : "|", w->text);
    if (length == 0)
        snprintf(option->value, sizeof option->value, "%s", s->value);
}

size_t cli_list_options(const qk_settings *settings, cli_option options[CLI_MAX_OPTIONS])
{
    size_t count = 0;
    for (size_t i = 0; i < qk_settings_count(settings) && count + 2 <= CLI_MAX_OPTIONS; i++) {
        const qk_setting *s = qk_settings_row(settings, i);
        if (!s->off || s->help)
            options[count++] = (cli_option){.setting = s, .name = s->name, .help = s->help};
        if (s->off)
            options[count++] =
                (cli_option){.setting = s, .name = s->off, .help = s->off_help, .off = true};
    }
    for (size_t i = 0; i < count; i++)
        name_value(&options[i]);
    return count;
}

void cli_default_text(const qk_settings *settings, const cli_option *option, char *text,
                      size_t size)
{
    *text = 0;
    if (!*option->value)
        return;
    if (option->setting->unset)
        snprintf(text, size, "%s", option->setting->unset);
    else
        qk_settings_get(settings, option->setting->name, text, size);
}
