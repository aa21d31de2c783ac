/* SPDX-License-Identifier: MIT */
/*
 * The handshake: what is said first on a new connection, all in one flight.
 *
 *   RESP3            HELLO 3 with password and name, SELECT, SUBSCRIBE inbox, PING
 *   RESP2, commands  AUTH, CLIENT SETNAME, SELECT, INFO server, PING
 *   RESP2, channels  AUTH, CLIENT SETNAME, SUBSCRIBE inbox
 *
 * then, where subscriptions go, SUBSCRIBE for each channel that is wanted: they are on
 * their way before anybody is told that the link is up. PING is there for its refusal:
 * a server that loads its data, or a replica without its master, takes all the others.
 *
 * A server that does not know HELLO (before Redis 6) has understood half of the flight;
 * it gets a new connection and RESP2.
 *
 * The server's words go into the error, but never the password, which some errors
 * repeat.
 */
#include "../../base/error.h"
#include "link_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST_MAJOR = 5, ARGS_MAX = 8 };

struct words {
    struct resp_arg args[ARGS_MAX];
    size_t count;
};

static void say(struct words *words, const char *text)
{
    words->args[words->count++] = (struct resp_arg){ text, strlen(text) };
}

static int put(struct wire *wire, const struct words *words, enum step step)
{
    const struct call call = { .sent_ns = wire->heard_ns, .step = step };
    int rc = link_put(wire, words->args, words->count, &call);

    wire->shaking += rc == 0;
    return rc;
}

static int put_one(struct wire *wire, enum step step, const char *command,
                   const char *argument)
{
    struct words words = { .count = 0 };

    say(&words, command);
    if (argument)
        say(&words, argument);
    return put(wire, &words, step);
}

static bool has_password(const struct link *link)
{
    return *link->settings.user || *link->settings.password;
}

static int put_hello(struct wire *wire)
{
    const struct link_settings *s = &wire->link->settings;
    struct words words = { .count = 0 };

    say(&words, "HELLO");
    say(&words, "3");
    if (has_password(wire->link)) {
        say(&words, "AUTH");
        say(&words, *s->user ? s->user : "default");
        say(&words, s->password);
    }
    if (*s->client_name) {
        say(&words, "SETNAME");
        say(&words, s->client_name);
    }
    return put(wire, &words, STEP_HELLO);
}

/* The form with a user is younger than Redis 5. */
static int put_auth(struct wire *wire)
{
    const struct link_settings *s = &wire->link->settings;
    struct words words = { .count = 0 };

    say(&words, "AUTH");
    if (*s->user)
        say(&words, s->user);
    say(&words, s->password);
    return put(wire, &words, STEP_AUTH);
}

static int put_name(struct wire *wire)
{
    struct words words = { .count = 0 };

    say(&words, "CLIENT");
    say(&words, "SETNAME");
    say(&words, wire->link->settings.client_name);
    return put(wire, &words, STEP_NAME);
}

static int put_who(struct wire *wire)
{
    int rc = 0;

    if (wire->link->speaks == 3)
        return put_hello(wire);
    if (has_password(wire->link))
        rc = put_auth(wire);
    if (rc == 0 && *wire->link->settings.client_name)
        rc = put_name(wire);
    return rc;
}

static int put_commands(struct wire *wire)
{
    char number[16];
    int rc = 0;

    snprintf(number, sizeof number, "%u", (unsigned)wire->link->settings.database);
    if (wire->link->settings.database)
        rc = put_one(wire, STEP_SELECT, "SELECT", number);
    if (rc == 0 && wire->link->speaks == 2)
        rc = put_one(wire, STEP_INFO, "INFO", "server");
    return rc;
}

int link_shake(struct wire *wire)
{
    struct link *link = wire->link;
    bool commands = wire == &link->wires[0];
    bool channels = wire == link_channel_wire(link);
    int rc = put_who(wire);

    if (rc == 0 && commands)
        rc = put_commands(wire);
    if (rc == 0 && channels)
        rc = put_one(wire, STEP_INBOX, "SUBSCRIBE", link->settings.inbox);
    if (rc == 0 && commands)
        rc = put_one(wire, STEP_READY, "PING", NULL);
    if (rc == 0 && channels)
        rc = link_channels_restore(link);
    return rc;
}

/* ---- Answers --------------------------------------------------------------------- */

static bool begins_with_one_of(const struct resp *error, const char *const *prefixes)
{
    while (*prefixes && !resp_begins(error, *prefixes))
        prefixes++;
    return *prefixes != NULL;
}

static bool is_passing(const struct resp *error)
{
    static const char *const passing[] = {
        "LOADING",     "MASTERDOWN", "BUSY",
        "CLUSTERDOWN", "TRYAGAIN",   "ERR max number of clients",
        NULL,
    };
    return begins_with_one_of(error, passing);
}

static bool is_about_password(const struct resp *error)
{
    static const char *const words[] = { "NOAUTH", "WRONGPASS", "ERR invalid password",
                                         NULL };
    return begins_with_one_of(error, words);
}

static bool knows_no_hello(const struct resp *error)
{
    static const char *const words[] = { "ERR unknown command", "NOPROTO", "NOPERM",
                                         NULL };
    return begins_with_one_of(error, words);
}

/* How much of the server's words may be repeated: what it was sent may follow them. */
static int words_len(const struct link *link, const struct resp *error)
{
    const char *password = link->settings.password;
    size_t len =
        error->len < sizeof link->why.text ? error->len : sizeof link->why.text;
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

static void give_up(struct wire *wire, int code, bool hopeless,
                    const struct resp *error)
{
    hf_error why;

    hf__error_set(&why, code, "%s: %.*s", hf__stream_peer(wire->stream),
                  words_len(wire->link, error), error->text);
    wire->link->hopeless = hopeless;
    link_lost(wire->link, &why);
}

static void refused(struct wire *wire, enum step step, const struct resp *error)
{
    struct link *link = wire->link;
    bool hello = step == STEP_HELLO && knows_no_hello(error);

    if (is_passing(error)) {
        give_up(wire, HF_EUNREACHABLE, false, error);
    } else if (hello && link->settings.protocol == 3) {
        give_up(wire, HF_EUNSUPPORTED, true, error);
    } else if (hello) {
        link->speaks = 2;
        link_again(link);
    } else {
        give_up(wire, HF_EREFUSED, true, error);
    }
}

/* Steps that may fail: the name is a courtesy, INFO and PING are only asked to learn
 * something. But not for want of a password. */
static bool may_fail(enum step step, const struct resp *error)
{
    return (step == STEP_NAME || step == STEP_INFO || step == STEP_READY) &&
           !is_passing(error) && !is_about_password(error);
}

static void note_version(struct link *link, const char *text, size_t len)
{
    size_t size = 0;

    while (size < len && size < sizeof link->version - 1 &&
           ((text[size] >= '0' && text[size] <= '9') || text[size] == '.'))
        size++;
    memcpy(link->version, text, size);
    link->version[size] = '\0';
}

static void take_hello(struct link *link, const struct resp *nodes)
{
    for (size_t i = 0; i + 1 < nodes[0].len && nodes[0].type == RESP_ARRAY; i += 2) {
        const struct resp *value = resp_at(nodes, 0, i + 1);
        if (resp_is(resp_at(nodes, 0, i), "version") && value->type == RESP_TEXT)
            note_version(link, value->text, value->len);
    }
}

static void take_info(struct link *link, const struct resp *nodes)
{
    static const char field[] = "redis_version:";
    const char *at = nodes[0].type == RESP_TEXT
                         ? memmem(nodes[0].text, nodes[0].len, field, sizeof field - 1)
                         : NULL;
    if (!at)
        return;
    at += sizeof field - 1;
    note_version(link, at, nodes[0].len - (size_t)(at - nodes[0].text));
}

static bool is_too_old(const struct link *link)
{
    return link->version[0] && strtol(link->version, NULL, 10) < OLDEST_MAJOR;
}

static void too_old(struct wire *wire)
{
    hf_error why;

    hf__error_set(&why, HF_EUNSUPPORTED, "%s runs Redis %s; %d.0 or newer is needed",
                  hf__stream_peer(wire->stream), wire->link->version, OLDEST_MAJOR);
    wire->link->hopeless = true;
    link_lost(wire->link, &why);
}

void link_shook(struct wire *wire, enum step step, const struct resp *nodes)
{
    struct link *link = wire->link;

    if (nodes && nodes[0].type == RESP_ERROR && !may_fail(step, nodes)) {
        refused(wire, step, nodes);
        return;
    }
    if (nodes && step == STEP_HELLO)
        take_hello(link, nodes);
    if (nodes && step == STEP_INFO)
        take_info(link, nodes);
    if (is_too_old(link)) {
        too_old(wire);
        return;
    }
    if (--wire->shaking == 0)
        link_wire_ready(wire);
}
