/* SPDX-License-Identifier: MIT */
/* The functions that a scripted store of a test leaves out, if its session is nothing
 * but its host. */
#ifndef HF_TESTS_UNIT_STORE_H
#define HF_TESTS_UNIT_STORE_H

#include "../../include/holdfast/backend.h"

static inline void quiet_close(void *session, bool forked)
{
    (void)session;
    (void)forked;
}

static inline void quiet_interest(void *session, struct hf_ticket *ticket)
{
    (void)session;
    (void)ticket;
}

static inline void quiet_ask(void *session, struct hf_request *request)
{
    struct hf_host *host = *(struct hf_host **)session;
    host->ops->answered(host, request, HF_EUNSUPPORTED, NULL);
}

static inline void quiet_forget(void *session, const void *ticket_or_request)
{
    (void)session;
    (void)ticket_or_request;
}

#endif
