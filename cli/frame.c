/* SPDX-License-Identifier: MIT */
/*
 * The screen of `holdfast top`: totals, one line per lock, and the keys. Pure: from a
 * view and the size of the screen to text; cmd_top.c has the terminal.
 *
 * Widths are counted in columns of the terminal. Text that does not fit is cut and ends
 * with "~". A narrow screen drops the token first, then the kind, then the longest
 * wait, so that a name and its holder stay readable.
 */
#include "frame.h"

#include "utf8.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define GAP 2
#define CELL_MAX 2048
#define HEAD_LINES 4 /* two with totals, one empty, one with column heads */
#define KEYS "n name  w waiters  h held  t token  q quit"

/* ---- Cells ----------------------------------------------------------------------- */

/* Columns of the terminal that a code point takes. */
static size_t code_width(uint32_t code)
{
    int width = wcwidth((wchar_t)code);

    return width > 0 ? (size_t)width : 0;
}

static size_t text_width(const char *text)
{
    size_t width = 0, len;
    uint32_t code;

    for (; *text; text += len) {
        len = utf8_read(text, &code);
        width += len ? code_width(code) : 1;
        len += !len;
    }
    return width;
}

static void put_spaces(FILE *out, size_t count)
{
    fprintf(out, "%*s", (int)count, "");
}

/* `text`, cut to `width` columns. */
static void put_cut(FILE *out, const char *text, size_t width)
{
    size_t used = 0, len;
    uint32_t code = 0;

    if (text_width(text) <= width) {
        fputs(text, out);
        return;
    }
    for (; *text; text += len) {
        len = utf8_read(text, &code);
        if (!len || used + code_width(code) + 1 > width)
            break;
        fwrite(text, 1, len, out);
        used += code_width(code);
    }
    put_spaces(out, width > used ? width - used - 1 : 0);
    fputs(width ? "~" : "", out);
}

static void put_cell(FILE *out, const char *text, size_t width, bool right)
{
    char safe[CELL_MAX];
    size_t wide;

    text_escape(text, safe, sizeof safe);
    wide = text_width(safe);
    if (right && wide < width)
        put_spaces(out, width - wide);
    put_cut(out, safe, width);
    if (!right && wide < width)
        put_spaces(out, width - wide);
}

/* ---- Columns --------------------------------------------------------------------- */

enum column { NAME, KIND, HOLDER, HELD, TOKEN, WAITERS, OLDEST, COLUMNS };

static const struct {
    const char *head;
    size_t width; /* shares the remaining width */
    bool right;
} columns[COLUMNS] = {
    [NAME] = { "NAME", 0, false },      [KIND] = { "KIND", 8, false },
    [HOLDER] = { "HELD BY", 0, false }, [HELD] = { "HELD FOR", 8, true },
    [TOKEN] = { "TOKEN", 16, true },    [WAITERS] = { "WAITERS", 7, true },
    [OLDEST] = { "MAX WAIT", 8, true },
};

/* The order in which columns are dropped, and the width below which. */
static const struct {
    enum column column;
    size_t below;
} narrow[] = {
    { TOKEN, 92 }, { KIND, 72 }, { OLDEST, 56 }, { HELD, 44 }, { HOLDER, 30 }
};

/* Widths of all columns for a screen; 0: not shown. */
static void lay_out(size_t screen, size_t *widths)
{
    size_t taken = 0, rest;
    bool shown[COLUMNS];

    memset(shown, true, sizeof shown);
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
        if (screen < narrow[i].below)
            shown[narrow[i].column] = false;
    for (size_t i = 0; i < COLUMNS; i++) {
        widths[i] = shown[i] ? columns[i].width : 0;
        taken += shown[i] && i > 0 ? widths[i] + GAP : 0;
    }
    rest = screen > taken ? screen - taken : 1;
    widths[NAME] = shown[HOLDER] ? rest * 2 / 5 : rest;
    widths[HOLDER] = shown[HOLDER] ? rest - widths[NAME] : 0;
}

static void put_row(FILE *out, const size_t *widths, const char *const *cells)
{
    bool first = true;

    for (size_t i = 0; i < COLUMNS; i++) {
        if (widths[i] == 0)
            continue;
        put_spaces(out, first ? 0 : GAP);
        put_cell(out, cells[i], widths[i], columns[i].right);
        first = false;
    }
}

/* ---- Locks ----------------------------------------------------------------------- */

static uint64_t newest_token(const struct lock *lock)
{
    if (lock->kind == HF_CELL && lock->object)
        return lock->object->token;
    return lock->holder_count ? lock->holders[lock->holder_count - 1]->token : 0;
}

static int64_t held_ms(const struct lock *lock)
{
    return oldest_ms(lock->holders, lock->holder_count);
}

static int64_t sort_key(const struct lock *lock, enum frame_sort sort)
{
    switch (sort) {
    case SORT_WAITERS:
        return (int64_t)lock->waiter_count;
    case SORT_HELD:
        return held_ms(lock);
    case SORT_TOKEN:
        return (int64_t)newest_token(lock);
    default:
        return 0;
    }
}

/* The largest first, and by name where they are the same. */
static int lock_order(const void *left, const void *right, void *arg)
{
    const struct lock *a = *(const struct lock *const *)left;
    const struct lock *b = *(const struct lock *const *)right;
    enum frame_sort sort = *(const enum frame_sort *)arg;
    int64_t x = sort_key(a, sort), y = sort_key(b, sort);

    return x != y ? (x < y) - (x > y) : strcmp(a->name, b->name);
}

static const struct lock **sorted(const struct frame *frame, const struct view *view)
{
    const struct lock **locks = calloc(view->lock_count + 1, sizeof *locks);
    enum frame_sort sort = frame->sort;

    if (!locks) {
        cli_say("out of memory");
        exit(EXIT_INTERNAL);
    }
    for (size_t i = 0; i < view->lock_count; i++)
        locks[i] = &view->locks[i];
    qsort_r(locks, view->lock_count, sizeof *locks, lock_order, &sort);
    return locks;
}

struct row {
    char holder[CELL_MAX];
    char held[32], token[32], waiters[32], oldest[32];
    const char *cells[COLUMNS];
};

static void fill_row(struct row *row, const struct lock *lock)
{
    lock_describe(lock, row->holder, sizeof row->holder);
    cell_duration(held_ms(lock), "-", row->held, sizeof row->held);
    snprintf(row->token, sizeof row->token, newest_token(lock) ? "%llu" : "-",
             (unsigned long long)newest_token(lock));
    snprintf(row->waiters, sizeof row->waiters, "%zu", lock->waiter_count);
    cell_duration(oldest_ms(lock->waiters, lock->waiter_count), "-", row->oldest,
                  sizeof row->oldest);
    row->cells[NAME] = lock->name;
    row->cells[KIND] = lock_kind_name(lock);
    row->cells[HOLDER] = row->holder;
    row->cells[HELD] = row->held;
    row->cells[TOKEN] = row->token;
    row->cells[WAITERS] = row->waiters;
    row->cells[OLDEST] = row->oldest;
}

static void totals(const struct view *view, char *buffer, size_t size)
{
    size_t holders = 0, waiters = 0;

    for (size_t i = 0; i < view->lock_count; i++) {
        holders += view->locks[i].holder_count;
        waiters += view->locks[i].waiter_count;
    }
    snprintf(buffer, size, "%zu name%s, %zu holder%s, %zu waiter%s", view->lock_count,
             view->lock_count == 1 ? "" : "s", holders, holders == 1 ? "" : "s",
             waiters, waiters == 1 ? "" : "s");
}

/* ---- The screen ------------------------------------------------------------------ */

static void put_line(FILE *out, const struct frame *frame, const char *style,
                     const char *text)
{
    fputs(frame->colour ? style : "", out);
    put_cell(out, text, frame->width, false);
    fputs(frame->colour && *style ? "\033[0m" : "", out);
}

static void next_line(FILE *out)
{
    fputs("\033[K\r\n", out);
}

static void draw_head(FILE *out, const struct frame *frame, const struct view *view,
                      const size_t *widths)
{
    static const char *const sorts[] = { "name", "waiters", "held", "token" };
    const char *heads[COLUMNS];
    char line[CELL_MAX], sums[128];

    totals(view, sums, sizeof sums);
    snprintf(line, sizeof line, "holdfast top  %s  %s", frame->clock, frame->url);
    put_line(out, frame, "", line);
    next_line(out);
    if (frame->trouble)
        snprintf(line, sizeof line, "%s", frame->trouble);
    else
        snprintf(line, sizeof line, "%s; sorted by %s", sums, sorts[frame->sort]);
    put_line(out, frame, frame->trouble ? "\033[31;1m" : "", line);
    next_line(out);
    next_line(out);
    for (size_t i = 0; i < COLUMNS; i++)
        heads[i] = columns[i].head;
    fputs(frame->colour ? "\033[7m" : "", out);
    put_row(out, widths, heads);
    fputs(frame->colour ? "\033[0m" : "", out);
    next_line(out);
}

void frame_draw(FILE *out, const struct frame *frame, const struct view *view)
{
    size_t room = frame->height > HEAD_LINES + 1 ? frame->height - HEAD_LINES - 1 : 0;
    const struct lock **locks = sorted(frame, view);
    size_t widths[COLUMNS];
    struct row row;

    lay_out(frame->width, widths);
    fputs("\033[H", out);
    draw_head(out, frame, view, widths);
    for (size_t i = 0; i < view->lock_count && i < room; i++) {
        char more[64];

        if (i + 1 == room && view->lock_count > room) {
            snprintf(more, sizeof more, "... and %zu more", view->lock_count - i);
            put_line(out, frame, "", more);
        } else {
            fill_row(&row, locks[i]);
            put_row(out, widths, row.cells);
        }
        next_line(out);
    }
    fputs("\033[J", out);
    if (frame->height > HEAD_LINES) {
        fprintf(out, "\033[%zu;1H", frame->height);
        put_line(out, frame, "\033[2m", KEYS);
    }
    free(locks);
}

void frame_plain(FILE *out, const struct frame *frame, const struct view *view)
{
    static const char *const heads[] = { "NAME",  "KIND",    "HELD BY",  "HELD FOR",
                                         "TOKEN", "WAITERS", "MAX WAIT", NULL };
    const struct lock **locks = sorted(frame, view);
    struct table *table = table_new(heads);
    char sums[128], safe[CELL_MAX];

    totals(view, sums, sizeof sums);
    text_escape(frame->url, safe, sizeof safe);
    fprintf(out, "%s  %s  %s\n", frame->clock, safe, sums);
    for (size_t i = 0; i < view->lock_count; i++) {
        struct row row;

        fill_row(&row, locks[i]);
        for (size_t column = 0; column < COLUMNS; column++)
            table_cell(table, "%s", row.cells[column]);
    }
    table_print(table, out);
    table_free(table);
    free(locks);
}
