/* SPDX-License-Identifier: MIT */
/*
 * Calls, out: a wire is a stream and a ring of the commands that were written to
 * it; replies come in the order of the commands, so the ring is all that is needed to
 * find who asked. Nothing is allocated per call: ring and byte ring grow by doubling.
 *
 * A command goes out at once while few answers are awaited. Else it waits for the next
 * input, which must come, and shares one write with what else has gathered by then.
 *
 * Scripts are called by their SHA. The command is kept until it is answered: if the
 * server does not know the script (restarted, flushed, failed over), it goes out once
 * more with the full text, at the end of the line, and its caller never hears of it.
 *
 * Everything runs under the session's lock. Callers may make calls from inside of a
 * reply; they may not close the link there.
 */
#include "../../base/error.h"
#include "../../base/mem.h"
#include "link_inside.h"
#include "scripts.h"

#include <string.h>

enum {
    CALLS_MIN = 16,
    KEPT_MIN = 4096,
    KEPT_IDLE = 64 << 10, /* what may stay when nothing is in flight */
    GATHER = 4, /* answers on their way, from which on commands wait for them */
};

/* ---- Rings ----------------------------------------------------------------------- */

static struct call *call_at(const struct wire *wire, uint32_t index)
{
    return &wire->calls[index & (wire->room - 1)];
}

static bool calls_reserve(struct wire *wire)
{
    uint32_t count = wire->end - wire->first;

    if (count < wire->room)
        return true;
    uint32_t room = wire->room ? wire->room * 2 : CALLS_MIN;
    struct call *calls = hf__alloc(room * sizeof *calls);
    if (!calls)
        return false;
    for (uint32_t i = 0; i < count; i++)
        calls[(wire->first + i) & (room - 1)] = *call_at(wire, wire->first + i);
    hf__free(wire->calls);
    wire->calls = calls;
    wire->room = room;
    return true;
}

static void kept_copy_out(const struct wire *wire, size_t at, char *to, size_t size)
{
    size_t offset = at & (wire->kept_room - 1);
    size_t head = wire->kept_room - offset < size ? wire->kept_room - offset : size;

    memcpy(to, wire->kept + offset, head);
    memcpy(to + head, wire->kept, size - head);
}

static bool kept_reserve(struct wire *wire, size_t size)
{
    size_t used = wire->kept_end - wire->kept_first;
    size_t room = wire->kept_room ? wire->kept_room : KEPT_MIN;

    while (room - used < size)
        room *= 2;
    if (room == wire->kept_room)
        return true;
    char *kept = hf__alloc(room);
    if (!kept)
        return false;
    if (used)
        kept_copy_out(wire, wire->kept_first, kept, used);
    hf__free(wire->kept);
    wire->kept = kept;
    wire->kept_room = room;
    wire->kept_first = 0;
    wire->kept_end = used;
    return true;
}

static void kept_push(struct wire *wire, const char *from, size_t size)
{
    size_t offset = wire->kept_end & (wire->kept_room - 1);
    size_t head = wire->kept_room - offset < size ? wire->kept_room - offset : size;

    memcpy(wire->kept + offset, from, head);
    memcpy(wire->kept, from + head, size - head);
    wire->kept_end += size;
}

void link_trim(struct wire *wire)
{
    if (wire->kept_first != wire->kept_end || wire->kept_room <= KEPT_IDLE)
        return;
    hf__free(wire->kept);
    wire->kept = NULL;
    wire->kept_room = wire->kept_first = wire->kept_end = 0;
}

struct call link_pop(struct wire *wire)
{
    struct call call = *call_at(wire, wire->first);

    if (wire->flushed == wire->first)
        wire->flushed++;
    wire->first++;
    wire->kept_first += call.kept;
    return call;
}

void link_wire_done(struct wire *wire, bool forked)
{
    hf__stream_done(wire->stream, forked);
    hf__free(wire->calls);
    hf__free(wire->kept);
}

/* ---- Sending --------------------------------------------------------------------- */

int link_put(struct wire *wire, const struct resp_arg *args, size_t count,
             const struct call *call)
{
    size_t size = resp_command_size(args, count);
    bool keep = call->step == STEP_EVALSHA;
    char *at = NULL;

    if (size > UINT32_MAX || !calls_reserve(wire) ||
        (keep && !kept_reserve(wire, size)) ||
        !(at = hf__stream_room(wire->stream, size)))
        return HF_ENOMEM;
    resp_command_write(at, args, count);
    if (keep)
        kept_push(wire, at, size);
    hf__stream_wrote(wire->stream, size);

    struct call *slot = call_at(wire, wire->end++);
    *slot = *call;
    slot->kept = keep ? (uint32_t)size : 0;
    return 0;
}

void link_flush(struct wire *wire)
{
    if (wire->flushed == wire->end)
        return;
    uint32_t before = wire->flushed;
    wire->flushed = wire->end;
    if (!hf__stream_flush(wire->stream))
        wire->flushed = before; /* these were never sent, and we know it */
}

void link_flush_soon(struct wire *wire)
{
    if (!wire->link->reading && wire->flushed - wire->first < GATHER)
        link_flush(wire);
}

void link_answer(struct link *link, const struct call *call, const struct resp *nodes,
                 const hf_error *why)
{
    if (call->reply)
        call->reply(link->session, call->subject, call->word, nodes, call->sent_ns,
                    why);
}

static void answer_down(struct link *link, const struct call *call)
{
    hf_error why = link->why;
    why.code = HF_EUNREACHABLE;
    link_answer(link, call, NULL, &why);
}

static void answer_no_memory(struct link *link, const struct call *call)
{
    hf_error why;
    hf__fail_code(&why, HF_ENOMEM);
    link_answer(link, call, NULL, &why);
}

static void send_call(struct link *link, const struct resp_arg *args, size_t count,
                      struct call *call)
{
    struct wire *wire = &link->wires[0];

    call->sent_ns = link_now(link);
    if (link->state != LINK_UP) {
        answer_down(link, call);
        return;
    }
    if (link_put(wire, args, count, call) < 0) {
        answer_no_memory(link, call);
        return;
    }
    link_watch(link, call->sent_ns);
    link_flush_soon(wire);
}

void link_call(struct link *link, const struct resp_arg *args, size_t count,
               link_reply *reply, void *subject, uint64_t word)
{
    struct call call = { .reply = reply, .subject = subject, .word = word };
    send_call(link, args, count, &call);
}

/* Room for `count` arguments in link->args. */
static bool args_reserve(struct link *link, size_t count)
{
    if (count <= link->args_room)
        return true;
    size_t room = count * 2;
    struct resp_arg *args = hf__alloc(room * sizeof *args);
    if (!args)
        return false;
    hf__free(link->args);
    link->args = args;
    link->args_room = room;
    return true;
}

static size_t write_decimal(char text[20], size_t number)
{
    char reversed[20];
    size_t len = 0;

    do {
        reversed[len++] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    for (size_t i = 0; i < len; i++)
        text[i] = reversed[len - 1 - i];
    return len;
}

static void send_script(struct link *link, struct call *call,
                        const struct resp_arg *keys, size_t key_count,
                        const struct resp_arg *args, size_t arg_count)
{
    size_t count = 3 + key_count + arg_count;
    char number[20];

    call->step = STEP_EVALSHA;
    if (!args_reserve(link, count)) {
        answer_no_memory(link, call);
        return;
    }
    link->args[0] = (struct resp_arg){ "EVALSHA", 7 };
    link->args[1] = (struct resp_arg){ call->script->sha, 40 };
    link->args[2] = (struct resp_arg){ number, write_decimal(number, key_count) };
    if (key_count)
        memcpy(link->args + 3, keys, key_count * sizeof *keys);
    if (arg_count)
        memcpy(link->args + 3 + key_count, args, arg_count * sizeof *args);
    send_call(link, link->args, count, call);
}

void link_eval(struct link *link, const struct script *script,
               const struct resp_arg *keys, size_t key_count,
               const struct resp_arg *args, size_t arg_count, link_reply *reply,
               void *subject, uint64_t word)
{
    struct call call = {
        .reply = reply, .subject = subject, .word = word, .script = script
    };
    send_script(link, &call, keys, key_count, args, arg_count);
}

void link_eval_revocable(struct link *link, const struct script *script,
                         const struct resp_arg *keys, size_t key_count,
                         const struct resp_arg *args, size_t arg_count,
                         link_reply *reply, void *subject, uint64_t word)
{
    struct call call = { .reply = reply,
                         .subject = subject,
                         .word = word,
                         .script = script,
                         .revocable = true };
    send_script(link, &call, keys, key_count, args, arg_count);
}

/* The oldest command kept, with EVAL and the text in place of EVALSHA and the SHA. */
static int put_whole_script(struct wire *wire, const struct call *call)
{
    enum { SHA_PART = sizeof "$7\r\nEVALSHA\r\n$40\r\n\r\n" - 1 + 40 };
    const struct resp_arg args[] = { { "EVAL", 4 },
                                     { call->script->text, call->script->len } };
    size_t text_part = resp_command_size(args, 2) - 4; /* without its own "*2\r\n" */
    size_t from = wire->kept_first - call->kept;       /* popped, but still there */
    char head[24] = "";

    kept_copy_out(wire, from, head, sizeof head);
    size_t head_len = (size_t)((char *)memchr(head, '\n', sizeof head) - head) + 1;
    size_t tail_len = call->kept - head_len - SHA_PART;
    size_t size = head_len + text_part + tail_len;
    char *at = calls_reserve(wire) ? hf__stream_room(wire->stream, size) : NULL;
    if (!at)
        return HF_ENOMEM;
    resp_command_write(at + head_len - 4, args, 2);
    memcpy(at, head, head_len);
    kept_copy_out(wire, from + head_len + SHA_PART, at + head_len + text_part,
                  tail_len);
    hf__stream_wrote(wire->stream, size);
    return 0;
}

static bool is_revoked(struct wire *wire, const struct call *call)
{
    bool revoked = !call->reply;

    for (uint32_t i = wire->first; i != wire->end && !revoked; i++)
        revoked = call_at(wire, i)->subject == call->subject;
    return call->revocable && revoked;
}

void link_send_again(struct wire *wire, const struct call *call)
{
    struct link *link = wire->link;
    struct call next = *call;
    hf_error why;

    if (is_revoked(wire, call)) {
        hf__fail(&why, HF_EUNREACHABLE, "the server did not know the script");
        link_answer(link, call, NULL, &why);
        return;
    }
    next.sent_ns = link_now(link);
    next.step = STEP_CALL;
    next.kept = 0;
    if (put_whole_script(wire, call) < 0) {
        answer_no_memory(link, call);
        return;
    }
    *call_at(wire, wire->end++) = next;
    link_watch(link, next.sent_ns);
}

void link_forget(struct link *link, const void *subject)
{
    struct wire *wire = &link->wires[0];

    for (uint32_t i = wire->first; i != wire->end; i++)
        if (call_at(wire, i)->subject == subject)
            call_at(wire, i)->reply = NULL;
}

void link_forget_all(struct wire *wire)
{
    for (uint32_t i = wire->first; i != wire->end; i++)
        call_at(wire, i)->reply = NULL;
}

void link_fail_calls(struct wire *wire, const hf_error *why)
{
    hf_error uncertain = *why, unsent = *why;

    uncertain.code = HF_EUNCERTAIN;
    unsent.code = HF_EUNREACHABLE;
    while (wire->first != wire->end) {
        bool sent = wire->flushed != wire->first;
        struct call call = link_pop(wire);
        link_answer(wire->link, &call, NULL, sent ? &uncertain : &unsent);
    }
}
