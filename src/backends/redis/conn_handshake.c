/* SPDX-License-Identifier: MIT */
/*
 * The handshake: the first requests on a new socket, all sent at once.
 *
 *   RESP3            HELLO 3 with password and name, SELECT, SUBSCRIBE inbox, PING
 *   RESP2, commands  AUTH, CLIENT SETNAME, SELECT, INFO server, PING
 *   RESP2, channels  AUTH, CLIENT SETNAME, SUBSCRIBE inbox
 *
 * then, on the socket for subscriptions, SUBSCRIBE for each channel that is wanted:
 * these are sent before `up` is called. PING is sent because it may be refused: a
 * server that loads its data, or a replica without its master, accepts all the others.
 *
 * A server that does not know HELLO (before Redis 6) has executed part of the
 * handshake; the client connects again with RESP2.
 *
 * The server's error text goes into the error, but never the password, which some
 * servers repeat in it.
 */
#include "../../base/error.h"
#include "conn_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST_MAJOR = 5, ARGS_MAX = 8 };

struct command {
    struct resp_arg args[ARGS_MAX];
    size_t count;
};

static void add_arg(struct command *cmd, const char *text)
{
    cmd->args[cmd->count++] = (struct resp_arg){ text, strlen(text) };
}

static int put(struct conn_socket *sock, const struct command *cmd,
               enum request_type type)
{
    const struct conn_request request = { .sent_ns = sock->heard_ns, .type = type };
    int rc = hf__redis_socket_put(sock, cmd->args, cmd->count, &request);

    sock->handshake_left += rc == 0;
    return rc;
}

static int put_one(struct conn_socket *sock, enum request_type type,
                   const char *command, const char *argument)
{
    struct command cmd = { .count = 0 };

    add_arg(&cmd, command);
    if (argument)
        add_arg(&cmd, argument);
    return put(sock, &cmd, type);
}

static bool has_password(const struct redis_conn *conn)
{
    return *conn->settings.user || *conn->settings.password;
}

static int put_hello(struct conn_socket *sock)
{
    const struct conn_settings *s = &sock->conn->settings;
    struct command cmd = { .count = 0 };

    add_arg(&cmd, "HELLO");
    add_arg(&cmd, "3");
    if (has_password(sock->conn)) {
        add_arg(&cmd, "AUTH");
        add_arg(&cmd, *s->user ? s->user : "default");
        add_arg(&cmd, s->password);
    }
    if (*s->client_name) {
        add_arg(&cmd, "SETNAME");
        add_arg(&cmd, s->client_name);
    }
    return put(sock, &cmd, REQUEST_HELLO);
}

/* AUTH with a user is newer than Redis 5. */
static int put_auth(struct conn_socket *sock)
{
    const struct conn_settings *s = &sock->conn->settings;
    struct command cmd = { .count = 0 };

    add_arg(&cmd, "AUTH");
    if (*s->user)
        add_arg(&cmd, s->user);
    add_arg(&cmd, s->password);
    return put(sock, &cmd, REQUEST_AUTH);
}

static int put_name(struct conn_socket *sock)
{
    struct command cmd = { .count = 0 };

    add_arg(&cmd, "CLIENT");
    add_arg(&cmd, "SETNAME");
    add_arg(&cmd, sock->conn->settings.client_name);
    return put(sock, &cmd, REQUEST_NAME);
}

static int put_identity(struct conn_socket *sock)
{
    int rc = 0;

    if (sock->conn->protocol == 3)
        return put_hello(sock);
    if (has_password(sock->conn))
        rc = put_auth(sock);
    if (rc == 0 && *sock->conn->settings.client_name)
        rc = put_name(sock);
    return rc;
}

static int put_commands(struct conn_socket *sock)
{
    char number[16];
    int rc = 0;

    snprintf(number, sizeof number, "%u", (unsigned)sock->conn->settings.database);
    if (sock->conn->settings.database)
        rc = put_one(sock, REQUEST_SELECT, "SELECT", number);
    if (rc == 0 && sock->conn->protocol == 2)
        rc = put_one(sock, REQUEST_INFO, "INFO", "server");
    return rc;
}

int hf__redis_handshake_begin(struct conn_socket *sock)
{
    struct redis_conn *conn = sock->conn;
    bool commands = sock == &conn->sockets[0];
    bool channels = sock == channel_socket(conn);
    int rc = put_identity(sock);

    if (rc == 0 && commands)
        rc = put_commands(sock);
    if (rc == 0 && channels)
        rc = put_one(sock, REQUEST_INBOX, "SUBSCRIBE", conn->settings.inbox);
    if (rc == 0 && commands)
        rc = put_one(sock, REQUEST_READY, "PING", NULL);
    if (rc == 0 && channels)
        rc = hf__redis_channels_restore(conn);
    return rc;
}

/* ---- Answers --------------------------------------------------------------------- */

static bool begins_with_one_of(const struct resp *error, const char *const *prefixes)
{
    while (*prefixes && !hf__redis_resp_begins(error, *prefixes))
        prefixes++;
    return *prefixes != NULL;
}

static bool is_temporary(const struct resp *error)
{
    static const char *const temporary[] = {
        "LOADING",     "MASTERDOWN", "BUSY",
        "CLUSTERDOWN", "TRYAGAIN",   "ERR max number of clients",
        NULL,
    };
    return begins_with_one_of(error, temporary);
}

static bool is_about_password(const struct resp *error)
{
    static const char *const prefixes[] = { "NOAUTH", "WRONGPASS",
                                            "ERR invalid password", NULL };
    return begins_with_one_of(error, prefixes);
}

static bool knows_no_hello(const struct resp *error)
{
    static const char *const prefixes[] = { "ERR unknown command", "NOPROTO", "NOPERM",
                                            NULL };
    return begins_with_one_of(error, prefixes);
}

/* How much of the server's error may be quoted: arguments of ours may follow it. */
static int quotable_len(const struct redis_conn *conn, const struct resp *error)
{
    const char *password = conn->settings.password;
    size_t len =
        error->len < sizeof conn->why.text ? error->len : sizeof conn->why.text;
    const char *args = memmem(error->text, len, ", with args", 11);

    if (args)
        len = (size_t)(args - error->text);
    if (*password) {
        const char *at = memmem(error->text, error->len, password, strlen(password));
        if (at && (size_t)(at - error->text) < len)
            len = (size_t)(at - error->text);
    }
    return (int)len;
}

static void fail_handshake(struct conn_socket *sock, int code, bool no_retry,
                           const struct resp *error)
{
    hf_error why;

    hf__error_set(&why, code, "%s: %.*s", hf__stream_peer(sock->stream),
                  quotable_len(sock->conn, error), error->text);
    sock->conn->no_retry = no_retry;
    hf__redis_conn_lost(sock->conn, &why);
}

static void refused(struct conn_socket *sock, enum request_type type,
                    const struct resp *error)
{
    struct redis_conn *conn = sock->conn;
    bool hello = type == REQUEST_HELLO && knows_no_hello(error);

    if (is_temporary(error)) {
        fail_handshake(sock, HF_EUNREACHABLE, false, error);
    } else if (hello && conn->settings.protocol == 3) {
        fail_handshake(sock, HF_EUNSUPPORTED, true, error);
    } else if (hello) {
        conn->protocol = 2;
        hf__redis_conn_reopen(conn);
    } else {
        fail_handshake(sock, HF_EREFUSED, true, error);
    }
}

/* Requests that may fail: the name is only shown to users, INFO and PING are sent to
 * learn something. A missing password is still an error. */
static bool may_fail(enum request_type type, const struct resp *error)
{
    return (type == REQUEST_NAME || type == REQUEST_INFO || type == REQUEST_READY) &&
           !is_temporary(error) && !is_about_password(error);
}

static void note_version(struct redis_conn *conn, const char *text, size_t len)
{
    size_t size = 0;

    while (size < len && size < sizeof conn->version - 1 &&
           ((text[size] >= '0' && text[size] <= '9') || text[size] == '.'))
        size++;
    memcpy(conn->version, text, size);
    conn->version[size] = '\0';
}

static void read_hello(struct redis_conn *conn, const struct resp *nodes)
{
    for (size_t i = 0; i + 1 < nodes[0].len && nodes[0].type == RESP_ARRAY; i += 2) {
        const struct resp *value = hf__redis_resp_at(nodes, 0, i + 1);
        if (hf__redis_resp_is(hf__redis_resp_at(nodes, 0, i), "version") &&
            value->type == RESP_TEXT)
            note_version(conn, value->text, value->len);
    }
}

static void read_info(struct redis_conn *conn, const struct resp *nodes)
{
    static const char field[] = "redis_version:";
    const char *at = nodes[0].type == RESP_TEXT
                         ? memmem(nodes[0].text, nodes[0].len, field, sizeof field - 1)
                         : NULL;
    if (!at)
        return;
    at += sizeof field - 1;
    note_version(conn, at, nodes[0].len - (size_t)(at - nodes[0].text));
}

static bool is_too_old(const struct redis_conn *conn)
{
    return conn->version[0] && strtol(conn->version, NULL, 10) < OLDEST_MAJOR;
}

static void too_old(struct conn_socket *sock)
{
    hf_error why;

    hf__error_set(&why, HF_EUNSUPPORTED, "%s runs Redis %s; %d.0 or newer is needed",
                  hf__stream_peer(sock->stream), sock->conn->version, OLDEST_MAJOR);
    sock->conn->no_retry = true;
    hf__redis_conn_lost(sock->conn, &why);
}

void hf__redis_handshake_reply(struct conn_socket *sock, enum request_type type,
                               const struct resp *nodes)
{
    struct redis_conn *conn = sock->conn;

    if (nodes && nodes[0].type == RESP_ERROR && !may_fail(type, nodes)) {
        refused(sock, type, nodes);
        return;
    }
    if (nodes && type == REQUEST_HELLO)
        read_hello(conn, nodes);
    if (nodes && type == REQUEST_INFO)
        read_info(conn, nodes);
    if (is_too_old(conn)) {
        too_old(sock);
        return;
    }
    if (--sock->handshake_left == 0)
        hf__redis_socket_ready(sock);
}
