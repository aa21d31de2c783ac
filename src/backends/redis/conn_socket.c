/* SPDX-License-Identifier: MIT */
/*
 * Output: a socket is a stream and a ring of the requests that were written to it.
 * Replies come in the order of the requests, so the ring is enough to find the request
 * of a reply. Nothing is allocated per request: both rings grow by doubling.
 *
 * A command is sent at once while few replies are due. Otherwise it waits for the next
 * input, which must come, and is sent in one write with all that was added by then.
 *
 * Scripts are called by their SHA. The command is kept until it is answered: if the
 * server does not know the script (restarted, flushed, failed over), the command is
 * sent once more with the full text, behind all others, and its caller does not notice.
 *
 * Everything runs under the session's lock. Callers may send requests inside a reply
 * callback; they may not close the connection there.
 */
#include "../../base/error.h"
#include "../../base/mem.h"
#include "conn_inside.h"
#include "scripts.h"

#include <string.h>

enum {
    REQUESTS_MIN = 16,
    KEPT_MIN = 4096,
    KEPT_IDLE = 64 << 10, /* kept allocated when nothing is in flight */
    GATHER_REPLIES = 4,   /* so many replies due: further commands wait for input */
};

/* ---- Rings ----------------------------------------------------------------------- */

static struct conn_request *request_at(const struct conn_socket *sock, uint32_t index)
{
    return &sock->requests[index & (sock->room - 1)];
}

static bool requests_reserve(struct conn_socket *sock)
{
    uint32_t count = sock->end - sock->first;

    if (count < sock->room)
        return true;
    uint32_t room = sock->room ? sock->room * 2 : REQUESTS_MIN;
    struct conn_request *requests = hf__alloc(room * sizeof *requests);
    if (!requests)
        return false;
    for (uint32_t i = 0; i < count; i++)
        requests[(sock->first + i) & (room - 1)] = *request_at(sock, sock->first + i);
    hf__free(sock->requests);
    sock->requests = requests;
    sock->room = room;
    return true;
}

static void kept_copy_out(const struct conn_socket *sock, size_t at, char *to,
                          size_t size)
{
    size_t offset = at & (sock->kept_room - 1);
    size_t head = sock->kept_room - offset < size ? sock->kept_room - offset : size;

    memcpy(to, sock->kept + offset, head);
    memcpy(to + head, sock->kept, size - head);
}

static bool kept_reserve(struct conn_socket *sock, size_t size)
{
    size_t used = sock->kept_end - sock->kept_first;
    size_t room = sock->kept_room ? sock->kept_room : KEPT_MIN;

    while (room - used < size)
        room *= 2;
    if (room == sock->kept_room)
        return true;
    char *kept = hf__alloc(room);
    if (!kept)
        return false;
    if (used)
        kept_copy_out(sock, sock->kept_first, kept, used);
    hf__free(sock->kept);
    sock->kept = kept;
    sock->kept_room = room;
    sock->kept_first = 0;
    sock->kept_end = used;
    return true;
}

static void kept_push(struct conn_socket *sock, const char *from, size_t size)
{
    size_t offset = sock->kept_end & (sock->kept_room - 1);
    size_t head = sock->kept_room - offset < size ? sock->kept_room - offset : size;

    memcpy(sock->kept + offset, from, head);
    memcpy(sock->kept, from + head, size - head);
    sock->kept_end += size;
}

void hf__redis_socket_trim(struct conn_socket *sock)
{
    if (sock->kept_first != sock->kept_end || sock->kept_room <= KEPT_IDLE)
        return;
    hf__free(sock->kept);
    sock->kept = NULL;
    sock->kept_room = sock->kept_first = sock->kept_end = 0;
}

struct conn_request hf__redis_socket_pop(struct conn_socket *sock)
{
    struct conn_request request = *request_at(sock, sock->first);

    if (sock->flushed == sock->first)
        sock->flushed++;
    sock->first++;
    sock->kept_first += request.kept;
    return request;
}

void hf__redis_socket_done(struct conn_socket *sock, bool forked)
{
    hf__stream_done(sock->stream, forked);
    hf__free(sock->requests);
    hf__free(sock->kept);
}

/* ---- Sending --------------------------------------------------------------------- */

int hf__redis_socket_put(struct conn_socket *sock, const struct resp_arg *args,
                         size_t count, const struct conn_request *request)
{
    size_t size = hf__redis_resp_command_size(args, count);
    bool keep = request->type == REQUEST_EVALSHA;
    char *at = NULL;

    if (size > UINT32_MAX || !requests_reserve(sock) ||
        (keep && !kept_reserve(sock, size)) ||
        !(at = hf__stream_room(sock->stream, size)))
        return HF_ENOMEM;
    hf__redis_resp_command_write(at, args, count);
    if (keep)
        kept_push(sock, at, size);
    hf__stream_wrote(sock->stream, size);

    struct conn_request *added = request_at(sock, sock->end++);
    *added = *request;
    added->kept = keep ? (uint32_t)size : 0;
    return 0;
}

void hf__redis_socket_flush(struct conn_socket *sock)
{
    if (sock->flushed == sock->end)
        return;
    uint32_t before = sock->flushed;
    sock->flushed = sock->end;
    if (!hf__stream_flush(sock->stream))
        sock->flushed = before; /* known not to have been sent */
}

void hf__redis_socket_flush_soon(struct conn_socket *sock)
{
    if (!sock->conn->reading && sock->flushed - sock->first < GATHER_REPLIES)
        hf__redis_socket_flush(sock);
}

void hf__redis_conn_answer(struct redis_conn *conn, const struct conn_request *request,
                           const struct resp *nodes, const hf_error *why)
{
    if (request->reply)
        request->reply(conn->session, request->subject, request->word, nodes,
                       request->sent_ns, why);
}

static void answer_down(struct redis_conn *conn, const struct conn_request *request)
{
    hf_error why = conn->why;
    why.code = HF_EUNREACHABLE;
    hf__redis_conn_answer(conn, request, NULL, &why);
}

static void answer_no_memory(struct redis_conn *conn,
                             const struct conn_request *request)
{
    hf_error why;
    hf__fail_code(&why, HF_ENOMEM);
    hf__redis_conn_answer(conn, request, NULL, &why);
}

static void send_request(struct redis_conn *conn, const struct resp_arg *args,
                         size_t count, struct conn_request *request)
{
    struct conn_socket *sock = &conn->sockets[0];

    request->sent_ns = conn_now(conn);
    if (conn->state != CONN_UP) {
        answer_down(conn, request);
        return;
    }
    if (hf__redis_socket_put(sock, args, count, request) < 0) {
        answer_no_memory(conn, request);
        return;
    }
    hf__redis_conn_expect_reply(conn, request->sent_ns);
    hf__redis_socket_flush_soon(sock);
}

void hf__redis_conn_send(struct redis_conn *conn, const struct resp_arg *args,
                         size_t count, conn_reply *reply, void *subject, uint64_t word)
{
    struct conn_request request = { .reply = reply, .subject = subject, .word = word };
    send_request(conn, args, count, &request);
}

/* Room for `count` arguments in conn->args. */
static bool args_reserve(struct redis_conn *conn, size_t count)
{
    if (count <= conn->args_room)
        return true;
    size_t room = count * 2;
    struct resp_arg *args = hf__alloc(room * sizeof *args);
    if (!args)
        return false;
    hf__free(conn->args);
    conn->args = args;
    conn->args_room = room;
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

static void send_script(struct redis_conn *conn, struct conn_request *request,
                        const struct resp_arg *keys, size_t key_count,
                        const struct resp_arg *args, size_t arg_count)
{
    size_t count = 3 + key_count + arg_count;
    char number[20];

    request->type = REQUEST_EVALSHA;
    if (!args_reserve(conn, count)) {
        answer_no_memory(conn, request);
        return;
    }
    conn->args[0] = (struct resp_arg){ "EVALSHA", 7 };
    conn->args[1] = (struct resp_arg){ request->script->sha, 40 };
    conn->args[2] = (struct resp_arg){ number, write_decimal(number, key_count) };
    if (key_count)
        memcpy(conn->args + 3, keys, key_count * sizeof *keys);
    if (arg_count)
        memcpy(conn->args + 3 + key_count, args, arg_count * sizeof *args);
    send_request(conn, conn->args, count, request);
}

void hf__redis_conn_eval(struct redis_conn *conn, const struct script *script,
                         const struct resp_arg *keys, size_t key_count,
                         const struct resp_arg *args, size_t arg_count,
                         conn_reply *reply, void *subject, uint64_t word)
{
    struct conn_request request = {
        .reply = reply, .subject = subject, .word = word, .script = script
    };
    send_script(conn, &request, keys, key_count, args, arg_count);
}

void hf__redis_conn_eval_undoable(struct redis_conn *conn, const struct script *script,
                                  const struct resp_arg *keys, size_t key_count,
                                  const struct resp_arg *args, size_t arg_count,
                                  conn_reply *reply, void *subject, uint64_t word)
{
    struct conn_request request = { .reply = reply,
                                    .subject = subject,
                                    .word = word,
                                    .script = script,
                                    .undoable = true };
    send_script(conn, &request, keys, key_count, args, arg_count);
}

/* Writes the oldest kept command with EVAL and the text for EVALSHA and the SHA. */
static int put_whole_script(struct conn_socket *sock,
                            const struct conn_request *request)
{
    enum { SHA_PART = sizeof "$7\r\nEVALSHA\r\n$40\r\n\r\n" - 1 + 40 };
    const struct resp_arg args[] = { { "EVAL", 4 },
                                     { request->script->text, request->script->len } };
    size_t text_part =
        hf__redis_resp_command_size(args, 2) - 4; /* without its own "*2\r\n" */
    size_t from =
        sock->kept_first - request->kept; /* popped, but not overwritten yet */
    char head[24] = "";

    kept_copy_out(sock, from, head, sizeof head);
    size_t head_len = (size_t)((char *)memchr(head, '\n', sizeof head) - head) + 1;
    size_t tail_len = request->kept - head_len - SHA_PART;
    size_t size = head_len + text_part + tail_len;
    char *at = requests_reserve(sock) ? hf__stream_room(sock->stream, size) : NULL;
    if (!at)
        return HF_ENOMEM;
    hf__redis_resp_command_write(at + head_len - 4, args, 2);
    memcpy(at, head, head_len);
    kept_copy_out(sock, from + head_len + SHA_PART, at + head_len + text_part,
                  tail_len);
    hf__stream_wrote(sock->stream, size);
    return 0;
}

static bool is_undone(struct conn_socket *sock, const struct conn_request *request)
{
    bool revoked = !request->reply;

    for (uint32_t i = sock->first; i != sock->end && !revoked; i++)
        revoked = request_at(sock, i)->subject == request->subject;
    return request->undoable && revoked;
}

void hf__redis_socket_send_again(struct conn_socket *sock,
                                 const struct conn_request *request)
{
    struct redis_conn *conn = sock->conn;
    struct conn_request next = *request;
    hf_error why;

    if (is_undone(sock, request)) {
        hf__fail(&why, HF_EUNREACHABLE, "the server did not know the script");
        hf__redis_conn_answer(conn, request, NULL, &why);
        return;
    }
    next.sent_ns = conn_now(conn);
    next.type = REQUEST_COMMAND;
    next.kept = 0;
    if (put_whole_script(sock, request) < 0) {
        answer_no_memory(conn, request);
        return;
    }
    *request_at(sock, sock->end++) = next;
    hf__redis_conn_expect_reply(conn, next.sent_ns);
}

void hf__redis_conn_forget(struct redis_conn *conn, const void *subject)
{
    struct conn_socket *sock = &conn->sockets[0];

    for (uint32_t i = sock->first; i != sock->end; i++)
        if (request_at(sock, i)->subject == subject)
            request_at(sock, i)->reply = NULL;
}

void hf__redis_socket_forget_all(struct conn_socket *sock)
{
    for (uint32_t i = sock->first; i != sock->end; i++)
        request_at(sock, i)->reply = NULL;
}

void hf__redis_socket_fail_requests(struct conn_socket *sock, const hf_error *why)
{
    hf_error uncertain = *why, unsent = *why;

    uncertain.code = HF_EUNCERTAIN;
    unsent.code = HF_EUNREACHABLE;
    while (sock->first != sock->end) {
        bool sent = sock->flushed != sock->first;
        struct conn_request request = hf__redis_socket_pop(sock);
        hf__redis_conn_answer(sock->conn, &request, NULL, sent ? &uncertain : &unsent);
    }
}
