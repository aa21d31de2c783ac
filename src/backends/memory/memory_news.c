/* SPDX-License-Identifier: MIT */
/*
 * How a session of the mem store hears what other sessions did to its entries.
 *
 * News (granted, revoked, lost, an alarm) may be posted from any thread, with the space
 * locked. They wait in session->news; a write to the session's eventfd makes its loop
 * call this file, and hf__memory_drain() tells the host, on that thread and with the
 * space unlocked. News that a call leaves for its own session need no eventfd: every
 * call drains before it returns.
 *
 * The eventfd is made, and the timer set, when a session first waits or watches. From
 * then on the timer is always set, if only to HF_NEVER, because setting a new one may
 * fail and moving it cannot.
 */
#include "memory.h"

#include "../../base/clock.h"
#include "../../base/error.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct memory_entry *entry_at(struct hf_list_node *link)
{
    return HF_CONTAINER(link, struct memory_entry, in_session);
}

void hf__memory_post(struct memory_session *me, struct memory_entry *entry,
                     uint32_t news)
{
    struct memory_session *to = entry->session;

    if (!entry->ticket)
        return;
    entry->news |= news;
    if (!hf__list_linked(&entry->in_news))
        hf__list_push_back(&to->news, &entry->in_news);
    if (to == me || to->woken || to->wake_fd < 0)
        return;
    to->woken = true;
    eventfd_write(to->wake_fd, 1);
}

static void news_tell(struct memory_session *me, struct hf_ticket *ticket,
                      uint32_t news, const struct hf_grant *grant)
{
    if (news & MEMORY_GRANTED)
        me->host->ops->granted(me->host, ticket, grant);
    if (news & MEMORY_REVOKED)
        me->host->ops->event(me->host, ticket, HF_EVENT_REVOKED);
    if (news & MEMORY_LOST)
        me->host->ops->event(me->host, ticket, HF_EVENT_LOST);
}

void hf__memory_drain(struct memory_session *me)
{
    while (me->due) {
        hf__memory_lock(me);
        struct hf_list_node *link = hf__list_first(&me->news);
        struct memory_entry *entry = HF_CONTAINER(link, struct memory_entry, in_news);
        struct hf_ticket *ticket = entry->ticket;
        struct hf_grant grant = hf__memory_grant(entry);
        int64_t alarm_ns = entry->alarm_ns;
        uint32_t news = entry->news;

        entry->news = 0;
        hf__list_remove(link);
        if ((news & MEMORY_GRANTED) && entry->kind == HF_LATCH) {
            ticket->store[0] = 0;
            hf__memory_unbind(me, entry);
        }
        hf__memory_unlock(me);
        if ((news & MEMORY_ALARM) && alarm_ns < me->timer.at_ns)
            me->host->ops->set_timer(me->host, &me->timer, alarm_ns);
        news_tell(me, ticket, news, &grant);
    }
}

static void session_woken(void *arg, uint32_t events)
{
    struct memory_session *me = arg;
    eventfd_t count;

    (void)events;
    eventfd_read(me->wake_fd, &count);
    hf__memory_lock(me);
    me->woken = false;
    hf__memory_unlock(me);
    hf__memory_drain(me);
}

static struct memory_entry *session_due(struct memory_session *me, int64_t now)
{
    for (HF_EACH(link, &me->waiting))
        if (entry_at(link)->alarm_ns <= now)
            return entry_at(link);
    return NULL;
}

/* The timer: the lease of a holder that a ticket waits for should be over. */
static void session_look(void *arg)
{
    struct memory_session *me = arg;
    int64_t now = me->host->ops->now(me->host);
    int64_t next_ns = HF_NEVER;
    struct memory_entry *entry;

    hf__memory_lock(me);
    while ((entry = session_due(me, now))) {
        entry->alarm_ns = HF_NEVER;
        hf__memory_update(me, entry->name);
    }
    for (HF_EACH(link, &me->waiting))
        if (entry_at(link)->alarm_ns < next_ns)
            next_ns = entry_at(link)->alarm_ns;
    hf__memory_unlock(me);
    me->host->ops->set_timer(me->host, &me->timer, next_ns);
    hf__memory_drain(me);
}

int hf__memory_listen(struct memory_session *me, hf_error *why)
{
    int fd, rc;

    if (me->wake_fd >= 0)
        return 0;
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return hf__fail_sys(why, HF_ESYSTEM, errno, "no eventfd to wait with");
    me->timer.callback = session_look;
    me->timer.arg = me;
    rc = me->host->ops->set_timer(me->host, &me->timer, HF_NEVER);
    if (rc == 0)
        rc = me->host->ops->add_fd(me->host, fd, EPOLLIN, session_woken, me);
    if (rc < 0) {
        close(fd);
        return hf__fail_code(why, rc);
    }
    hf__memory_lock(me);
    me->wake_fd = fd;
    hf__memory_unlock(me);
    return 0;
}
