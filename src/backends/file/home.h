/* SPDX-License-Identifier: MIT */
/* `.holdfast`, the store's own directory inside the user's: it holds all files of the
 * queue layout. Files beside it belong to the user. */
#ifndef HF_FILE_HOME_H
#define HF_FILE_HOME_H

#include "../../../include/holdfast/backend.h"

#include <sys/types.h>

#define HF_HOME ".holdfast"
#define HF_HOME_STATE "state"
#define HF_HOME_LIVE "live"
#define HF_HOME_CELL "cell."

/*
 * Opens it in `top_fd`, or makes it (`ret_made`), for files of `mode`. HF_EREFUSED (a
 * symbolic link, not a directory, of a user who is not trusted, holds unknown files, no
 * permission), HF_EFULL, HF_ESYSTEM.
 */
int hf__file_home_open(int top_fd, mode_t mode, int *ret_fd, bool *ret_made,
                       hf_error *why);

/* Whether it was removed since; and: removes it, if it is empty. */
bool hf__file_home_removed(int home_fd);
void hf__file_home_remove(int top_fd);

/* The names of a session's files; `out` has room for 32 bytes. */
void hf__file_home_fifo(char *out, uint32_t session, uint32_t gen);
void hf__file_home_tmp(char *out, uint32_t session);

/* Remove a file of that name if it is what the store makes under it: a FIFO; a cell
 * that was being written. Other files stay. */
void hf__file_home_drop_fifo(int home_fd, const char *file);
void hf__file_home_drop_tmp(int home_fd, const char *file);

/* Removes the files of sessions that a reboot ended. True if there are cells, or if
 * that cannot be known. */
bool hf__file_home_clean(int home_fd);

#endif
