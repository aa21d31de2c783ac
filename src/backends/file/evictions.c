/* SPDX-License-Identifier: MIT */
/*
 * Which process evicted which hold. An evicted hold is removed from the table at once,
 * so its client could only report that it is no longer there. The head of the state
 * file therefore keeps the last few evictions, by the ticket of the hold, until its
 * client has read them. They are for messages only: nothing is decided by them. Guard
 * held.
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

    eviction->pid = 0; /* not complete */
    eviction->id = *id;
    snprintf(eviction->program, sizeof(eviction->program), "%.*s",
             (int)strnlen(session->program, sizeof(session->program)),
             session->program);
    eviction->pid = session->pid;
}

/* Other users may be able to write the file: control characters are not passed on. */
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
