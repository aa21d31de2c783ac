/* SPDX-License-Identifier: MIT */
/*
 * What the files of the link share. link.c leads: it opens, loses and opens again, and
 * keeps the time. link_shake.c is what is said first on a connection, link_wire.c the
 * calls on it, link_read.c their replies, link_channels.c the subscriptions.
 *
 *     WAITING --timer--> CONNECTING --opened--> SHAKING --answered--> UP
 *        ^_________________________________________________________|  link_lost()
 */
#ifndef HF_REDIS_LINK_INSIDE_H
#define HF_REDIS_LINK_INSIDE_H

#include "../../base/rand.h"
#include "link.h"

enum link_state { LINK_WAITING = 0, LINK_CONNECTING, LINK_SHAKING, LINK_UP };

/* What a command in flight is, which says what becomes of its reply. */
enum step {
    STEP_CALL = 0,    /* a caller's */
    STEP_EVALSHA,     /* a caller's script, whose text the server may not have */
    STEP_SUBSCRIBE,   /* subject: the channel */
    STEP_UNSUBSCRIBE, /* subject: the channel */
    STEP_PING,        /* only to hear whether somebody is there */
    STEP_HELLO,       /* from here on: the handshake */
    STEP_AUTH,
    STEP_NAME,
    STEP_SELECT,
    STEP_INFO,
    STEP_INBOX,
    STEP_READY,
};

struct call {
    link_reply *reply; /* NULL: nobody wants to know */
    void *subject;
    uint64_t word;
    int64_t sent_ns;
    const struct script *script;
    uint32_t kept; /* bytes of the command, in the wire's `kept` */
    uint16_t step; /* enum step */
    bool revocable;
};

/* A connection with its calls in flight, first to end; those before `flushed` have been
 * given to the stream. All three run freely; the ring's size cuts them. */
struct wire {
    struct link *link;
    struct hf_stream *stream;
    bool talking;     /* the handshake was written */
    unsigned shaking; /* answers that the handshake waits for */
    int64_t heard_ns; /* something came at this moment or later */
    int64_t moved_ns; /* a reply came, and others were still to come */
    struct call *calls;
    uint32_t room, first, flushed, end;
    char *kept; /* ring of bytes: the commands of script calls in flight */
    size_t kept_room, kept_first, kept_end;
};

struct channel {
    struct channel *next; /* in its bucket */
    uint32_t hash, len;
    uint32_t count;   /* who wants it; 0: about to go */
    uint32_t pending; /* commands about it in flight */
    bool on;          /* confirmed, and nothing is pending */
    char name[];
};

struct link {
    struct hf_host *host;
    struct link_settings settings; /* its texts lie in `texts` */
    char *texts;
    size_t texts_size;
    const struct link_user *user;
    void *session;

    enum link_state state;
    int speaks;          /* 2 or 3 */
    unsigned wire_count; /* 1, or with RESP2 2; subscriptions go over the last one */
    struct wire wires[2];
    unsigned reading;      /* inside of the handling of input: flushed at its end */
    struct resp *nodes;    /* of the reply at hand */
    struct resp_arg *args; /* of the script call being written */
    size_t args_room;
    char version[24];

    struct hf_timer timer;
    unsigned attempts; /* since it was up for a while */
    int64_t up_ns;
    bool distrusted; /* the reply at hand was not the answer to its call */
    bool opening;    /* inside of link_open() */
    bool hopeless;   /* and trying again will not help */
    hf_error why;    /* the last reason to be down */
    struct hf_random random;

    struct channel **buckets;
    uint32_t bucket_count, channel_count;
};

static inline int64_t link_now(struct link *link)
{
    return link->host->ops->now(link->host);
}

static inline struct wire *link_channel_wire(struct link *link)
{
    return &link->wires[link->wire_count - 1];
}

/* ---- link.c ---------------------------------------------------------------------- */

/* The connection is no good: closes it, answers what was in flight, tries again later,
 * or at once where nothing was wrong but the way to speak. */
void link_lost(struct link *link, const hf_error *why);
void link_again(struct link *link);
/* The handshake on this wire is done. */
void link_wire_ready(struct wire *wire);
/* A command was written at `now_ns`: its deadline counts. */
void link_watch(struct link *link, int64_t now_ns);

/* ---- link_shake.c ---------------------------------------------------------------- */

/* Writes the whole handshake. 0 or HF_ENOMEM. */
int link_shake(struct wire *wire);
/* The answer to one of its steps, NULL for a confirmation; may lose the link. */
void link_shook(struct wire *wire, enum step step, const struct resp *nodes);

/* ---- link_wire.c ----------------------------------------------------------------- */

/* Appends a command to the wire. 0 or HF_ENOMEM: then nothing is changed. */
int link_put(struct wire *wire, const struct resp_arg *args, size_t count,
             const struct call *call);
/* Sends what was written, now; or now only if few answers are on their way. */
void link_flush(struct wire *wire);
void link_forget_all(struct wire *wire); /* nobody wants to know the answers */
void link_flush_soon(struct wire *wire);
/* Gives back the room that many commands at once have taken, once all are answered. */
void link_trim(struct wire *wire);
/* The oldest call, which is taken off the wire. */
struct call link_pop(struct wire *wire);
void link_answer(struct link *link, const struct call *call, const struct resp *nodes,
                 const hf_error *why);
/* The server did not know the script of this call, the last one popped, so it did
 * nothing: the call begins anew, with the full text, unless it has been revoked. */
void link_send_again(struct wire *wire, const struct call *call);
/* Answers every call on the wire with `why`, as uncertain or never sent. */
void link_fail_calls(struct wire *wire, const hf_error *why);
void link_wire_done(struct wire *wire, bool forked);

/* ---- link_read.c ----------------------------------------------------------------- */

/* Handles all input that is there. */
void link_read(struct wire *wire);

/* ---- link_channels.c ------------------------------------------------------------- */

/* A new connection: SUBSCRIBE for all. 0 or HF_ENOMEM. */
int link_channels_restore(struct link *link);
/* The connection is gone, and with it every subscription. */
void link_channels_lost(struct link *link);
/* The server confirmed the command, or refused it. */
void link_channel_settled(struct link *link, struct channel *channel, enum step step,
                          bool refused);
void link_channels_done(struct link *link);

#endif
