/* SPDX-License-Identifier: MIT */
/*
 * URLs of the redis store: which are refused, and with which text; what the others make
 * the client send and do. The server is played.
 */
#include "unit.h"

#include "../../src/base/clock.h"
#include "redis_peer.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- Refused --------------------------------------------------------------------- */

START_TEST(refused)
{
    static const struct {
        const char *url, *words;
    } rows[] = {
        { "redis+unix://host/run/redis.sock", "path of a socket" },
        { "redis+unix://:7/run/redis.sock", "" },
        { "redis+unix://", "path of a socket" },
        { "redis+unix:///", "path of a socket" },
        { "redis:///2", "names no host" },
        { "redis://a,b/2", "one server" },
        { "redis://localhost/?db=2", "goes into the path" },
        { "redis://localhost/x", "database is not a number" },
        { "redis://localhost/1000001", "database is not a number" },
        { "redis+unix:///run/redis.sock?db=x", "database is not a number" },
        { "redis+unix:///run/redis.sock?db=-1", "database is not a number" },
        { "redis://localhost/?tls_ca=x", "'tls_ca' needs rediss" },
        { "redis://localhost/?tls_cert=x", "'tls_cert' needs rediss" },
        { "redis://localhost/?tls_key=x", "'tls_key' needs rediss" },
        { "redis://localhost/?tls_name=x", "'tls_name' needs rediss" },
        { "redis://localhost/?tls_verify=on", "'tls_verify' needs rediss" },
        { "rediss://localhost/?tls_verify=maybe", "'tls_verify' must be 'on' or" },
        { "redis://localhost/?layout=other",
          "'layout' must be 'redisson' or 'simple'" },
        { "redis://localhost/?layout=", "'layout' must be 'redisson' or 'simple'" },
        { "redis://localhost/?layout=simple&script=no", "'script' must be" },
        { "redis://localhost/?layout=simple&strangers=no", "'strangers' must be" },
        { "redis://localhost/?script=off", "script=off works with layout=simple" },
        { "redis://localhost/?strangers=on", "strangers= works with layout=simple" },
        { "redis://localhost/?strangers=off", "strangers= works with layout=simple" },
        { "redis://localhost/?connect_timeout=0", "connect_timeout" },
        { "redis://localhost/?connect_timeout=601s", "connect_timeout" },
        { "redis://localhost/?timeout=0", "timeout" },
        { "redis://localhost/?timeout=601s", "timeout" },
        { "redis://localhost/?protocol=1", "protocol" },
        { "redis://localhost/?protocol=4", "protocol" },
        { "redis://localhost/?password_env=HF_NO_SUCH_VARIABLE", "password_env" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        hf_error why = { 0 };
        int rc = fake_open_why(&peer.host, &hf__backend_redis, rows[i].url, NULL, &why);
        ck_assert_msg(rc == HF_EURL, "%s: %d %s", rows[i].url, rc, why.text);
        ck_assert_msg(strstr(why.text, rows[i].words), "%s: %s", rows[i].url, why.text);
    }
}
END_TEST

/* ---- What is said first ---------------------------------------------------------- */

/* Opens with these options and compares what the client said. */
static void handshake(const char *url, const char *words)
{
    peer_open_url(url);
    ck_assert_msg(strncmp(peer.handshake, words, strlen(words)) == 0, "%s",
                  peer.handshake);
    peer_close();
}

START_TEST(who_we_are)
{
    setenv("HF_TEST_SECRET", "from env", 1);
    handshake("redis+unix://%s", "HELLO 3 SETNAME holdfast\nSUBSCRIBE holdfast:");
    handshake("redis+unix://%s?client_name=", "HELLO 3\nSUBSCRIBE holdfast:");
    handshake("redis+unix://%s?client_name=a%20b%7f~!&db=0",
              "HELLO 3 SETNAME a_b_~!\nSUBSCRIBE holdfast:");
    handshake("redis+unix://%s?db=3",
              "HELLO 3 SETNAME holdfast\nSELECT 3\nSUBSCRIBE holdfast:");
    handshake("redis+unix://%s?db=1000000",
              "HELLO 3 SETNAME holdfast\nSELECT 1000000\nSUBSCRIBE holdfast:");
    handshake("redis+unix://ann:word@%s",
              "HELLO 3 AUTH ann word SETNAME holdfast\nSUBSCRIBE holdfast:");
    handshake("redis+unix://:word@%s",
              "HELLO 3 AUTH default word SETNAME holdfast\nSUBSCRIBE holdfast:");
    handshake("redis+unix://%s?password_env=HF_TEST_SECRET",
              "HELLO 3 AUTH default from env SETNAME holdfast\nSUBSCRIBE holdfast:");
}
END_TEST

START_TEST(inboxes_differ)
{
    char first[64];
    peer_open("");
    snprintf(first, sizeof first, "%s", peer.inbox);
    ck_assert_uint_eq(strlen(first), 9 + 32);
    ck_assert_uint_eq(strspn(first + 9, "0123456789abcdef"), 32);
    peer_close();
    peer_open("");
    ck_assert_str_ne(first, peer.inbox);
    peer_close();
}
END_TEST

/* The database of a host stands in the path. */
START_TEST(over_tcp)
{
    struct sockaddr_in name = { .sin_family = AF_INET,
                                .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof name;
    char url[128];
    static const struct {
        const char *path, *words;
    } rows[] = {
        { "", "HELLO 3 SETNAME holdfast\nSUBSCRIBE" },
        { "/", "HELLO 3 SETNAME holdfast\nSUBSCRIBE" },
        { "/12", "HELLO 3 SETNAME holdfast\nSELECT 12\nSUBSCRIBE" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int listener = socket(AF_INET, SOCK_STREAM, 0);
        name.sin_port = 0;
        ck_assert_int_eq(bind(listener, (struct sockaddr *)&name, sizeof name), 0);
        ck_assert_int_eq(listen(listener, 1), 0);
        ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&name, &size), 0);
        snprintf(url, sizeof url, "redis://127.0.0.1:%d%s", ntohs(name.sin_port),
                 rows[i].path);
        peer_open_on(listener, url);
        ck_assert_msg(strncmp(peer.handshake, rows[i].words, strlen(rows[i].words)) ==
                          0,
                      "%s", peer.handshake);
        peer_close();
    }
}
END_TEST

/* ---- What it can ----------------------------------------------------------------- */

START_TEST(capabilities)
{
    const uint64_t redisson = HF_CAP_FAIR | HF_CAP_RW | HF_CAP_DOWNGRADE |
                              HF_CAP_PERMITS | HF_CAP_EXPIRING | HF_CAP_LATCH |
                              HF_CAP_CELL;
    const uint64_t scripts =
        HF_CAP_DETACH | HF_CAP_INSPECT | HF_CAP_EVICT | HF_CAP_REVOKE | HF_CAP_DURABLE;
    const uint64_t all = HF_CAP_MUTEX | HF_CAP_LEASE | HF_CAP_PROCESSES |
                         HF_CAP_HANDOFF | HF_CAP_DIAGNOSE;
    peer_open("");
    ck_assert_uint_eq(peer.host.capabilities, all | scripts | redisson);
    peer_close();
    peer_open("&layout=redisson&script=on");
    ck_assert_uint_eq(peer.host.capabilities, all | scripts | redisson);
    peer_close();
    peer_open("&layout=simple");
    ck_assert_uint_eq(peer.host.capabilities, all | scripts);
    peer_close();
    peer_open("&layout=simple&script=off");
    ck_assert_uint_eq(peer.host.capabilities, all);
    peer_close();
}
END_TEST

/* ---- Time ------------------------------------------------------------------------ */

static void ask(struct hf_request *request)
{
    *request = fake_request(HF_LATCH_GET, "name");
    peer.host.calls++;
    hf__backend_redis.ask(peer.host.session, request);
    peer.host.calls--;
    peer_expect("latch_get *");
}

/* How long an answer is waited for: not less, and no longer. */
static void waits(const char *options, int64_t ms)
{
    struct hf_request request;
    peer_open(options);
    ask(&request);
    peer.clock.now_ns += ms * HF_NS_PER_MS - 1;
    ck_assert_msg(fake_quiet(&peer.host), "%s: too short", options);
    peer.clock.now_ns += 1;
    struct fake_answer answer = fake_next(&peer.host);
    ck_assert_int_eq(answer.code, HF_EUNCERTAIN);
    ck_assert_ptr_nonnull(strstr(answer.why.text, "no answer"));
    peer_close();
}

START_TEST(timeouts)
{
    waits("", 3333); /* two thirds of the host's 5 s */
    waits("&timeout=1ms", 1);
    waits("&timeout=250ms", 250);
    waits("&timeout=600s", 600000);
}
END_TEST

/* The deadline is the same long after the last reply. */
START_TEST(timeouts_after_a_silence)
{
    struct hf_request request;
    peer_open("");
    peer.clock.now_ns += 4 * HF_NS_PER_S;
    fake_turn(&peer.host, 0);
    ask(&request);
    peer.clock.now_ns += 3333 * HF_NS_PER_MS;
    ck_assert_int_eq(fake_next(&peer.host).code, HF_EUNCERTAIN);
    peer_close();
}
END_TEST

/* ---- Details --------------------------------------------------------------------- */

/* Host, pid and program; a byte that would break the records becomes a '?'. */
START_TEST(details)
{
    char words[256], host[65] = "";
    gethostname(host, sizeof host - 1);
    peer_open("");
    struct hf_ticket ticket = peer_ticket(HF_MUTEX);
    fake_attempt(&peer.host, &ticket);
    snprintf(words, sizeof words,
             "* 1\x1f%s\x1f%ld\x1f"
             "fake\x1f  m 1 1",
             host, (long)getpid());
    peer_expect(words);
    peer_close();
    fake_program = "a\x01 b\x1f\nc";
    peer_open("");
    ticket = peer_ticket(HF_MUTEX);
    fake_attempt(&peer.host, &ticket);
    peer_expect("*\x1f"
                "a? b\x1f?c\x1f  m 1 1");
    peer_close();
}
END_TEST

UNIT_MAIN("redis_options", refused, who_we_are, inboxes_differ, over_tcp, capabilities,
          timeouts, timeouts_after_a_silence, details)
