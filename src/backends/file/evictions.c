/* SPDX-License-Identifier: MIT */
/*
 * Who evicted whom. An evicted hold is gone from the table at once, so that its client
 * could only say that it is no longer there. The last few evictions are therefore noted
 * in the head of the state file, by the hold's ticket, until its client has looked.
 * They are for messages alone: nothing is decided by them. All in the guard.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "queue.h"

void hf__file_eviction_note(struct file_queue *me, const struct hf_id *id)
{
    struct region_head *head = me->region.head;
    const struct region_session *session = &me->region.sessions[me->session];
    struct region_eviction *eviction =
        &head->evictions[head->eviction_next++ % EVICTIONS_KEPT];

    eviction->pid = 0; /* not whole */
    eviction->id = *id;
    snprintf(eviction->program, sizeof(eviction->program), "%.*s",
             (int)strnlen(session->program, sizeof(session->program)),
             session->program);
    eviction->pid = session->pid;
}

/* The file is anybody's who may write it: what is not a character is not passed on. */
static void eviction_words(const struct file_queue *me,
                           const struct region_eviction *eviction, char *text,
                           size_t size)
{
    int len = (int)strnlen(eviction->program, sizeof(eviction->program));
    int written = snprintf(text, size, "evicted by %.64s pid %d %.*s", me->host_name,
                           (int)eviction->pid, len, eviction->program);

    for (int i = 0; i < written && text[i]; i++)
        if (iscntrl((unsigned char)text[i]))
            text[i] = '?';
}

void hf__file_eviction_tell(struct file_queue *me, struct hf_ticket *ticket)
{
    struct region_eviction *evictions = me->region.head->evictions;
    char text[160];

    for (size_t i = 0; i < EVICTIONS_KEPT; i++)
        if (evictions[i].pid && id_same(&evictions[i].id, &ticket->id)) {
            eviction_words(me, &evictions[i], text, sizeof(text));
            evictions[i].pid = 0;
            me->host->ops->reason(me->host, ticket, text);
        }
}
