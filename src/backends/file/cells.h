/* SPDX-License-Identifier: MIT */
/* Cells, for inspect.c; the rest is in queue.h. */
#ifndef HF_FILE_CELLS_H
#define HF_FILE_CELLS_H

#include "queue.h"

#define CELL_MAGIC UINT64_C(0x6c6c656373666c68) /* "hlfscell": a file begins with it */

typedef void cell_cb(void *arg, const char *name, size_t len, uint64_t version);

/* Calls `callback` with each cell that the request names (`prefix`: each whose name
 * begins so). A listing skips damaged files; asked for by name they are HF_ECORRUPT. */
int hf__file_cells_each(struct file_queue *me, const struct hf_request *request,
                        cell_cb *callback, void *arg, hf_error *why);

#endif
