/* SPDX-License-Identifier: Apache-2.0 */
/* The line of progress of all commands: what is done, how long it still takes, and whatever else there is room for. It
 * is never longer than the terminal, so that it can be drawn over. A log gets one line a minute instead, so that long
 * work is seen to go on. */
#include "cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { LEAST_BAR = 8, WIDEST_BAR = 30, BAR_FRAME = 3, MAX_NAME = 30, PART_SIZE = 96 };

int cli_columns(int terminal)
{
    struct winsize size;
    const char *given = getenv("COLUMNS");
    if (ioctl(terminal, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    int columns = given ? atoi(given) : 0;
    return columns > 0 ? columns : 80;
}

/* A dumb terminal cannot go back to the start of a line that it then draws again. */
static bool can_draw(void)
{
    const char *terminal = getenv("TERM");
    return isatty(STDERR_FILENO) && !(terminal && strcmp(terminal, "dumb") == 0);
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Files that are fetched, texts that are read, heads that are computed: each count starts from 0. The time of work
 * whose first piece is done already counts. */
static void begin_phase(cli_messages *messages, const qk_progress *progress, double now)
{
    cli_phase *phase = &messages->phase;
    bool first = !*phase->what;
    phase->start = progress->done > progress->before && first ? messages->start : now;
    phase->first = first ? progress->before : progress->done;
    phase->first_bytes = first ? 0 : progress->bytes;
    snprintf(phase->what, sizeof phase->what, "%s", progress->what);
}

static void duration(double seconds, char text[PART_SIZE])
{
    if (seconds < 100)
        snprintf(text, PART_SIZE, ", %.0f s left", seconds);
    else if (seconds < 6000)
        snprintf(text, PART_SIZE, ", %.0f min left", seconds / 60);
    else
        snprintf(text, PART_SIZE, ", %.1f h left", seconds / 3600);
}

/* ---- parts of the line ------------------------------------------------------------------ */

/* In their order on the line, behind the bar. */
enum part { COUNT, TEXTS, NAME, RATE, LEFT, NUM_PARTS };

static void fill_parts(const cli_messages *messages, const qk_progress *at, double now,
                       char parts[NUM_PARTS][PART_SIZE])
{
    const cli_phase *phase = &messages->phase;
    double spent = now - phase->start, done = (double)(at->done - phase->first);
    double bytes = (double)(at->bytes - phase->first_bytes);
    memset(parts, 0, sizeof(char[NUM_PARTS][PART_SIZE]));
    if (at->total > 0)
        snprintf(parts[COUNT], PART_SIZE, "%" PRId64 "/%" PRId64 " %s", at->done, at->total,
                 at->what);
    else
        snprintf(parts[COUNT], PART_SIZE, "%" PRId64 " %s", at->done, at->what);
    if (at->texts > 0)
        snprintf(parts[TEXTS], PART_SIZE, ", %" PRId64 " text%s", at->texts, cli_s(at->texts));
    if (messages->of)
        snprintf(parts[NAME], PART_SIZE, ", %.*s", PART_SIZE - 4, messages->of);
    if (done <= 0 || spent <= 0)
        return;
    if (strcmp(at->what, "tokens") == 0)
        snprintf(parts[RATE], PART_SIZE, ", %.0f tokens/s", done / spent);
    else if (bytes > 0)
        snprintf(parts[RATE], PART_SIZE, ", %.0f MB/s", bytes / 1e6 / spent);
    if (at->total > at->done)
        duration(spent / done * (double)(at->total - at->done), parts[LEFT]);
}

/* Parts are added in this order while there is room; the bar gets the rest, up to its largest width. */
static int choose_parts(char parts[NUM_PARTS][PART_SIZE], int columns, bool bar)
{
    static const enum part ORDER[] = {LEFT, RATE, TEXTS, NAME};
    int room = columns - (int)cli_text_columns(parts[COUNT], -1);
    int width = 0;
    for (size_t i = 0; i < sizeof ORDER / sizeof *ORDER; i++) {
        char *part = parts[ORDER[i]];
        int wide = (int)cli_text_columns(part, ORDER[i] == NAME ? MAX_NAME + 2 : -1);
        if (wide <= room)
            room -= wide;
        else
            *part = 0;
        if (i == 0 && bar && room >= LEAST_BAR + BAR_FRAME) {
            width = LEAST_BAR;
            room -= LEAST_BAR + BAR_FRAME;
        }
    }
    int wider = WIDEST_BAR - width < room ? WIDEST_BAR - width : room;
    return width > 0 ? width + wider : 0;
}

static void draw_line(const cli_messages *messages, const qk_progress *at, double now)
{
    char parts[NUM_PARTS][PART_SIZE];
    int columns =
        cli_columns(STDERR_FILENO) - 1; /* in the last column a terminal may begin a line */
    fill_parts(messages, at, now, parts);
    int width = choose_parts(parts, columns, at->total > 0);
    cli_draw("\r\033[K");
    if (width > 0) {
        char bar[WIDEST_BAR + 1];
        int64_t done = at->done < at->total ? at->done : at->total;
        int full = (int)((double)done / (double)at->total * width);
        memset(bar, '.', (size_t)width);
        memset(bar, '#', (size_t)full);
        bar[width] = 0;
        cli_draw("[%s] ", bar);
    }
    cli_draw("%.*s%s%.*s%s%s", columns, parts[COUNT], parts[TEXTS], MAX_NAME + 2, parts[NAME],
             parts[RATE], parts[LEFT]);
}

static void log_line(const cli_messages *messages, const qk_progress *at, double now)
{
    char parts[NUM_PARTS][PART_SIZE];
    fill_parts(messages, at, now, parts);
    cli_error("%s%s%s%s%s", parts[COUNT], parts[TEXTS], parts[NAME], parts[RATE], parts[LEFT]);
}

/* ---- for commands ----------------------------------------------------------------------- */

void cli_messages_init(cli_messages *messages, const cli_common *common, qk_context *context)
{
    *messages = (cli_messages){.common = common};
    messages->start = messages->last = seconds_now();
    context->notice = cli_notice;
    context->progress = cli_progress;
    context->user = messages;
    cli_catch_interrupts();
}

void cli_restart(cli_messages *messages)
{
    messages->start = messages->last = seconds_now();
    *messages->phase.what = 0;
}

bool cli_progress(void *user, const qk_progress *progress)
{
    cli_messages *messages = user;
    double now = seconds_now();
    if (!*progress->what)
        return !cli_is_interrupted();
    if (strcmp(messages->phase.what, progress->what) != 0 ||
        progress->done < messages->phase.done)
        begin_phase(messages, progress, now);
    messages->phase.done = progress->done;
    bool draws = can_draw();
    double least_seconds = draws ? 0.1 : 60; /* between lines */
    if (now - messages->last > least_seconds && !messages->common->quiet && cli_is_first()) {
        (draws ? draw_line : log_line)(messages, progress, now);
        messages->drawn = draws;
        messages->last = now;
    }
    return !cli_is_interrupted();
}
