/* SPDX-License-Identifier: MIT */
/* One screen of `holdfast top`, as text. */
#ifndef HOLDFAST_CLI_FRAME_H
#define HOLDFAST_CLI_FRAME_H

#include "view.h"

enum frame_sort { SORT_NAME, SORT_WAITERS, SORT_HELD, SORT_TOKEN };

struct frame {
    size_t width, height;
    bool colour;
    enum frame_sort sort;
    const char *url;     /* without secrets */
    const char *clock;   /* "12:30:59" */
    const char *trouble; /* why the last request failed, or NULL */
};

/* Draws the screen from its top left corner, no line wider than the screen. Needs a
 * locale that knows UTF-8 (LC_CTYPE). */
void frame_draw(FILE *out, const struct frame *frame, const struct view *view);

/* The same as plain text of any width, for pipes. */
void frame_plain(FILE *out, const struct frame *frame, const struct view *view);

#endif
