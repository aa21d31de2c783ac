/* SPDX-License-Identifier: MIT */
/* Fencing tokens for a directory of flock(2) files, whose locks carry no number. */
#ifndef HF_FILE_TOKENS_H
#define HF_FILE_TOKENS_H

#include "../../../include/holdfast/backend.h"

#include <stdatomic.h>
#include <sys/types.h>

#define HF_TOKENS_FILE ".holdfast-tokens"
#define HF_TOKENS_END (UINT64_MAX / 2)

struct hf_tokens {
    void *page;             /* the mapped file; NULL: the counter of this process */
    int fd;                 /* of `page`; locked (shared) while in use */
    _Atomic uint64_t *last; /* the largest number given out */
};

/* Maps the file, or uses the process's own counter if the file may not be written.
 * HF_EREFUSED (not a regular file), HF_ECORRUPT, HF_EFULL, HF_ESYSTEM. */
int hf__file_tokens_open(struct hf_tokens *tokens, int dir_fd, mode_t mode,
                         hf_error *why);
void hf__file_tokens_done(struct hf_tokens *tokens);

/* Before _done, for a session that was asked to diagnose: removes the file if no number
 * was ever drawn from it and no other process has it open. */
void hf__file_tokens_remove_unused(struct hf_tokens *tokens, int dir_fd);

/* The first of `span` numbers, larger than all before; called while the lock is held. 0
 * if the counter has reached its end, which only damage can cause. */
static inline uint64_t hf__file_tokens_draw(struct hf_tokens *tokens, uint32_t span,
                                            int64_t wall_us)
{
    uint64_t last = atomic_load_explicit(tokens->last, memory_order_relaxed);
    uint64_t token;

    do {
        token = last + 1;
        if (wall_us > 0 && (uint64_t)wall_us > token)
            token = (uint64_t)wall_us;
        if (last >= HF_TOKENS_END || token >= HF_TOKENS_END)
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(
        tokens->last, &last, token + span - 1, memory_order_acq_rel,
        memory_order_relaxed));
    return token;
}

#endif
