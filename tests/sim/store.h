/* SPDX-License-Identifier: MIT */
/* The session of a client with the simulated server: store.c, and store_ask.c for what
 * is not about a place in a queue. */
#ifndef HF_TESTS_SIM_STORE_H
#define HF_TESTS_SIM_STORE_H

#include "sim.h"

#include "../../src/base/list.h"

struct seat { /* a ticket the server may know of */
    struct hf_list_node link;
    struct hf_ticket *ticket;
};

struct about { /* that a call is about something */
    struct hf_list_node link;
    void *subject; /* a ticket, or a request; NULL: forgotten */
    struct call *call;
};

struct call {
    struct hf_list_node link;
    uint64_t number;
    int kind;
    enum hf_renew_mode mode;
    int64_t sent_ns;
    uint32_t count;
    struct about about[ITEMS_MAX];
    int64_t ttl_ns[ITEMS_MAX];
};

enum { ABOUT_BITS = 8 };

struct session {
    struct hf_host *host;
    int client, wake_fd;
    bool up;
    uint64_t last_call;
    struct hf_timer reconnect;
    struct hf_list_node seats, calls;
    struct hf_list_node about[1 << ABOUT_BITS]; /* by the subject's address */
    struct msg *inbox, **inbox_end;
    struct hf_list_node evictions; /* requests that are asked again */
    struct hf_timer evict_timer;
};

/* What the store keeps in a ticket. */
enum {
    SEAT = 0,  /* struct seat */
    NOW = 1,   /* the number that holds, after a hand-off; 0: the first one */
    SENT = 2,  /* when it was queued, by our clock ... */
    QUEUED = 3 /* ... and by the server's */
};

int64_t session_now(const struct session *me);
void session_end_call(struct call *call);
struct call *session_call(struct session *me, int kind, void *subject);
struct msg *session_msg(const struct session *me, const struct call *call);
bool session_seat(struct session *me, struct hf_ticket *ticket);
void session_unseat(struct session *me, struct hf_ticket *ticket);
void item_fill(struct item *item, const struct hf_ticket *ticket);

void ask_open(struct session *me);
void ask_close(struct session *me);
void ask_send(void *session, struct hf_request *request);
void ask_forget(struct session *me, const void *gone);
void ask_answered(struct session *me, struct hf_request *request, const struct msg *msg,
                  int64_t sent_ns);
void ask_which(struct session *me, struct hf_ticket *ticket, const struct msg *msg);

#endif
