/* SPDX-License-Identifier: MIT */
/* Texts of the man pages beyond the tables of the commands. */
#ifndef HOLDFAST_CLI_PAGES_H
#define HOLDFAST_CLI_PAGES_H

#include <stddef.h>

struct page_section {
    const char *head;
    const char *text; /* see prose.h */
};

struct page {
    const char *group; /* struct command.group */
    const char *name;  /* "holdfast-run" */
    int section;
    const char *title;                   /* over its commands, in `holdfast help` */
    const char *summary;                 /* after the dash, under NAME */
    const char *intro;                   /* begins DESCRIPTION; may be NULL */
    const struct page_section *sections; /* before EXIT STATUS; end with head NULL */
};

/* All pages, in the order of the help; ends with group NULL. */
extern const struct page pages[];

/* An exit code or an environment variable, and the groups of commands that it concerns,
 * separated by blanks; "holdfast" has all of them. Both end with name NULL. */
struct page_fact {
    const char *name;
    const char *groups;
    const char *text;
};
extern const struct page_fact page_exit_codes[];
extern const struct page_fact page_environment[];

extern const char page_files[]; /* FILES of holdfast(1) */

#endif
