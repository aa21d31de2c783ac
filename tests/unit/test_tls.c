/* SPDX-License-Identifier: MIT */
/*
 * TLS against a real redis-server, with certificates that tls_certs.sh makes: the good
 * ones are accepted and each bad one is refused with its own message. The servers are
 * private to a test: a port of their own, no files, and they end with it. Skipped where
 * redis-server or openssl is missing, or the build has no TLS.
 */
#include "stream_rig.h"

#include "../../src/base/clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static char certs[64];     /* where they are */
static char paths[8][128]; /* of the settings of this test */
static size_t path_count;

static const char *path_of(const char *file)
{
    char *path = paths[path_count++ % 8];
    snprintf(path, sizeof(paths[0]), "%s/%s", certs, file);
    return path;
}

/* ---- Servers --------------------------------------------------------------------- */

static pid_t server;

/* Below the ports of outgoing connections: a connection to one of those without a
 * listener could connect to itself. Another process may still take it before the server
 * does. */
static uint16_t next_port(void)
{
    static unsigned next;
    if (next == 0)
        next = (unsigned)getpid() * 61;
    return (uint16_t)(10000 + next++ % 20000);
}

static bool answers(uint16_t port)
{
    struct hf_addresses where;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    hf__resolve_literal("127.0.0.1", port, &where);
    const struct sockaddr *name = (const struct sockaddr *)&where.list[0].name;
    bool connected = connect(fd, name, where.list[0].len) == 0;
    close(fd);
    return connected;
}

static void serve(const char *cert, const char *key, const char *clients,
                  const char *protocols, uint16_t port)
{
    char number[8], weak[128];
    int null = open("/dev/null", O_RDWR);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(null, 1);
    dup2(null, 2);
    snprintf(number, sizeof(number), "%u", (unsigned)port);
    snprintf(weak, sizeof(weak), "%s/weak.cnf", certs);
    setenv("OPENSSL_CONF", weak, 1);
    execlp("redis-server", "redis-server", "--port", "0", "--tls-port", number,
           "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", certs,
           "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file",
           path_of("ca.pem"), "--tls-auth-clients", clients, "--tls-protocols",
           protocols, NULL);
    _exit(127);
}

static void server_stop(void)
{
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
}

static bool server_try(const char *cert, const char *key, const char *clients,
                       const char *protocols, uint16_t port)
{
    if (answers(port))
        return false;
    server = fork();
    if (server == 0)
        serve(cert, key, clients, protocols, port);
    for (int i = 0; !answers(port); i++) {
        ck_assert_msg(i < 12000, "the server with %s does not start", cert);
        if (waitpid(server, NULL, WNOHANG) != 0)
            return false; /* another process has its port */
        poll(NULL, 0, 5);
    }
    return true;
}

/* Starts a server with certificate `cert`.pem, key `key`.key, and points the rig at
 * it. Ready when it accepts. */
static void server_start(struct rig *rig, const char *cert, const char *key,
                         const char *clients, const char *protocols)
{
    char cert_file[64], key_file[64];
    int tries = 0;

    rig_listen(rig, NULL);
    rig->settings = (struct hf_stream_settings){
        .host = "127.0.0.1",
        .connect_ns = 10 * HF_NS_PER_S,
        .tls = true,
        .tls_ca = path_of("ca.pem"),
    };
    snprintf(cert_file, sizeof(cert_file), "%s.pem", cert);
    snprintf(key_file, sizeof(key_file), "%s.key", key);
    do {
        ck_assert_msg(tries++ < 20, "the server with %s does not start", cert);
        rig->settings.port = next_port();
    } while (!server_try(path_of(cert_file), path_of(key_file), clients, protocols,
                         rig->settings.port));
}

/* The same for most tests: any client, TLS 1.2 and 1.3. */
static void server_with(struct rig *rig, const char *cert, const char *key)
{
    server_start(rig, cert, key, "no", "TLSv1.2 TLSv1.3");
}

static void tls_done(struct rig *rig)
{
    rig_done(rig);
    server_stop();
}

/* ---- What to expect -------------------------------------------------------------- */

static bool has_got(const struct rig *rig, const char *text)
{
    return rig->got_len == strlen(text) && memcmp(rig->got, text, rig->got_len) == 0;
}

static void expect_pong(struct rig *rig)
{
    rig_new(rig);
    rig_open(rig);
    RIG_WAIT(rig, rig->opened == 1 || rig->broken);
    ck_assert_msg(!rig->broken, "%s", rig->why.text);
    rig_send(rig, "PING\r\n");
    RIG_WAIT(rig, has_got(rig, "+PONG\r\n"));
    tls_done(rig);
}

/* Refused: before `opened`, or with the first read, where TLS 1.3 lets the client go on
 * without an answer. No byte of the server has come through. */
static void expect_refused(struct rig *rig, const char *words)
{
    rig_new(rig);
    rig_open(rig);
    RIG_WAIT(rig, rig->opened || rig->broken);
    if (!rig->broken)
        rig_send(rig, "PING\r\n");
    RIG_WAIT(rig, rig->broken == 1);
    ck_assert_msg(strstr(rig->why.text, words), "%s", rig->why.text);
    ck_assert_int_eq(rig->why.code, HF_EREFUSED);
    ck_assert_uint_eq(rig->got_len, 0);
    tls_done(rig);
}

/* As above, and the client refused: `opened` was never called. */
static void expect_distrust(struct rig *rig, const char *words)
{
    char sentence[HF_NAME_MAX];
    const char *name = rig->settings.tls_name ? rig->settings.tls_name : "127.0.0.1";

    snprintf(sentence, sizeof(sentence), "the certificate of %s %s", name, words);
    expect_refused(rig, sentence);
    ck_assert_uint_eq(rig->opened, 0);
}

/* ---- Accepted -------------------------------------------------------------------- */

START_TEST(address_is_accepted)
{
    struct rig rig;
    server_with(&rig, "good", "good");
    expect_pong(&rig);
}
END_TEST

START_TEST(name_is_accepted)
{
    struct rig rig;
    server_with(&rig, "good", "good");
    rig.settings.tls_name = "redis.test";
    expect_pong(&rig);
}
END_TEST

START_TEST(name_with_a_dot_is_accepted)
{
    struct rig rig;
    server_with(&rig, "good", "good");
    rig.settings.host = "localhost";
    rig.settings.tls_name = "redis.test.";
    expect_pong(&rig);
}
END_TEST

START_TEST(ca_directory_is_accepted)
{
    struct rig rig;
    server_with(&rig, "good", "good");
    rig.settings.tls_ca = path_of("hashed");
    expect_pong(&rig);
}
END_TEST

START_TEST(chain_is_accepted)
{
    struct rig rig;
    server_with(&rig, "below-chain", "below");
    expect_pong(&rig);
}
END_TEST

START_TEST(self_signed_is_accepted_if_trusted)
{
    struct rig rig;
    server_with(&rig, "self", "self");
    rig.settings.tls_ca = path_of("self.pem");
    expect_pong(&rig);
}
END_TEST

START_TEST(insecure_is_accepted_if_asked_for)
{
    struct rig rig;
    server_with(&rig, "self", "self");
    rig.settings.tls_insecure = true;
    expect_pong(&rig);
}
END_TEST

START_TEST(client_certificate_is_accepted)
{
    struct rig rig;
    server_start(&rig, "good", "good", "yes", "TLSv1.2 TLSv1.3");
    rig.settings.tls_cert = path_of("client.pem");
    rig.settings.tls_key = path_of("client.key");
    expect_pong(&rig);
    server_start(&rig, "good", "good", "yes", "TLSv1.2");
    rig.settings.tls_cert = path_of("client-both.pem");
    expect_pong(&rig);
}
END_TEST

/* ---- Refused --------------------------------------------------------------------- */

static const struct {
    const char *cert, *key, *name, *words;
} distrusted[] = {
    { "expired", "expired", NULL, "has expired" },
    { "not-yet", "not-yet", NULL, "is not valid yet" },
    { "elsewhere", "elsewhere", "redis.test", "is for another host" },
    { "elsewhere", "elsewhere", NULL, "is for another address" },
    { "self", "self", NULL, "is signed by itself" },
    { "unknown", "unknown", NULL, "comes from a CA that is not trusted here" },
    { "unknown-chain", "unknown", NULL, "comes from a CA that is not trusted here" },
    { "below", "below", NULL, "comes from a CA that is not trusted here (tls_ca), or" },
    { "below-plain-chain", "below-plain", NULL,
      "was issued by a certificate that is no" },
    { "client-only", "client-only", NULL, "is not meant for servers" },
    { "short", "short", NULL, "has a key that is too short" },
    { "sha1", "sha1", NULL, "has a signature that is too weak" },
};

START_TEST(bad_certificates_are_refused)
{
    for (size_t i = 0; i < sizeof(distrusted) / sizeof(distrusted[0]); i++) {
        struct rig rig;
        server_with(&rig, distrusted[i].cert, distrusted[i].key);
        rig.settings.tls_name = distrusted[i].name;
        expect_distrust(&rig, distrusted[i].words);
    }
}
END_TEST

/* The test's CA is not one of the system's. */
START_TEST(system_store_is_the_default)
{
    struct rig rig;
    server_with(&rig, "good", "good");
    rig.settings.tls_ca = "";
    expect_distrust(&rig, "comes from a CA that is not trusted here");
}
END_TEST

START_TEST(old_tls_is_refused)
{
    struct rig rig;
    server_start(&rig, "good", "good", "no", "TLSv1.1");
    expect_refused(&rig, "does not speak TLS 1.2 or later");
    ck_assert_uint_eq(rig.opened, 0);
}
END_TEST

START_TEST(missing_client_certificate)
{
    struct rig rig;
    server_start(&rig, "good", "good", "yes", "TLSv1.3");
    expect_refused(&rig, "asks for a client certificate (tls_cert)");
    server_start(&rig, "good", "good", "yes", "TLSv1.2");
    expect_refused(&rig, "asks for a client certificate (tls_cert)");
}
END_TEST

START_TEST(wrong_client_certificate)
{
    static const char *const protocols[] = { "TLSv1.3", "TLSv1.2" };
    for (size_t i = 0; i < 2; i++) {
        struct rig rig;
        server_start(&rig, "good", "good", "yes", protocols[i]);
        rig.settings.tls_cert = path_of("client-unknown.pem");
        rig.settings.tls_key = path_of("client-unknown.key");
        expect_refused(&rig, "does not accept our client certificate (tls_cert)");
    }
}
END_TEST

/* ---- Peers that are no TLS servers ----------------------------------------------- */

static void plain_start(struct rig *rig)
{
    rig_listen(rig, "127.0.0.1");
    rig->settings.tls = true;
    rig->settings.tls_ca = path_of("ca.pem");
    rig_new(rig);
    rig_open(rig);
    rig_accept(rig);
    RIG_WAIT(rig, rig->stream->state == STREAM_HANDSHAKE);
}

START_TEST(plain_server_is_refused)
{
    struct rig rig;
    plain_start(&rig);
    rig_say(&rig, "-ERR unknown command\r\n");
    RIG_WAIT(&rig, rig.broken == 1);
    ck_assert_int_eq(rig.why.code, HF_EREFUSED);
    ck_assert_str_eq(rig.why.text, "the server does not speak TLS on this port");
    rig_done(&rig);
}
END_TEST

START_TEST(silent_server_meets_the_deadline)
{
    struct fake_clock clock = { HF_NS_PER_S };
    struct rig rig;
    rig_listen(&rig, "127.0.0.1");
    rig.clock = &clock;
    rig.settings.tls = true;
    rig_new(&rig);
    rig_open(&rig);
    RIG_WAIT(&rig, rig.stream->state == STREAM_HANDSHAKE);
    clock.now_ns += rig.settings.connect_ns;
    RIG_WAIT(&rig, rig.broken == 1);
    ck_assert_int_eq(rig.why.code, HF_EUNREACHABLE);
    ck_assert_ptr_nonnull(strstr(rig.why.text, "no TLS handshake from 127.0.0.1"));
    rig_done(&rig);
}
END_TEST

START_TEST(server_leaves_during_the_handshake)
{
    struct rig rig;
    plain_start(&rig);
    rig_close_peer(&rig);
    RIG_WAIT(&rig, rig.broken == 1);
    ck_assert_int_eq(rig.why.code, HF_EUNREACHABLE);
    rig_done(&rig);
}
END_TEST

/* ---- Open ------------------------------------------------------------------------ */

static void talk_start(struct rig *rig, const char *protocols)
{
    server_start(rig, "good", "good", "no", protocols);
    rig_new(rig);
    rig_open(rig);
    RIG_WAIT(rig, rig->opened == 1);
}

/* Four megabytes there and back: many records, short writes, reads that stop inside of
 * a record. */
static void echo_large(const char *protocols)
{
    const size_t size = (size_t)4 << 20;
    char head[64];
    struct rig rig;

    talk_start(&rig, protocols);
    int len = snprintf(head, sizeof(head), "*2\r\n$4\r\nECHO\r\n$%zu\r\n", size);
    char *room = hf__stream_room(rig.stream, (size_t)len + size + 2);
    memcpy(room, head, (size_t)len);
    for (size_t i = 0; i < size; i++)
        room[(size_t)len + i] = (char)(i * 31 + i / 251);
    memcpy(room + (size_t)len + size, "\r\n", 2);
    hf__stream_wrote(rig.stream, (size_t)len + size + 2);
    hf__stream_flush(rig.stream);
    size_t front = (size_t)snprintf(head, sizeof(head), "$%zu\r\n", size);
    RIG_WAIT(&rig, rig.got_len >= front + size + 2);
    ck_assert_mem_eq(rig.got, head, front);
    for (size_t i = 0; i < size; i++)
        UNIT_ASSERT(rig.got[front + i] == (char)(i * 31 + i / 251));
    tls_done(&rig);
}

START_TEST(large_echo)
{
    echo_large("TLSv1.3");
    echo_large("TLSv1.2");
}
END_TEST

START_TEST(pipelined_replies_all_come)
{
    struct rig rig;
    talk_start(&rig, "TLSv1.3");
    for (int i = 0; i < 1000; i++)
        rig_send(&rig, "PING\r\n");
    RIG_WAIT(&rig, rig.got_len == 7 * 1000);
    unsigned adds = rig.adds;
    for (unsigned i = 1; i <= 50; i++) {
        rig_send(&rig, "PING\r\n");
        RIG_WAIT(&rig, rig.got_len == 7 * (1000 + i));
    }
    ck_assert_uint_eq(rig.adds, adds);
    tls_done(&rig);
}
END_TEST

START_TEST(server_dies)
{
    struct rig rig;
    talk_start(&rig, "TLSv1.3");
    server_stop();
    for (int i = 0; i < 20; i++)
        rig_send(&rig, "PING\r\n");
    RIG_WAIT(&rig, rig.broken == 1);
    ck_assert_int_eq(rig.why.code, HF_EUNREACHABLE);
    rig_open(&rig);
    RIG_WAIT(&rig, rig.broken == 2);
    rig_done(&rig);
}
END_TEST

START_TEST(child_leaves_the_parent_alone)
{
    struct rig rig;
    int status;
    talk_start(&rig, "TLSv1.3");
    pid_t child = fork();
    if (child == 0) {
        hf__stream_done(rig.stream, true);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    rig_send(&rig, "PING\r\n");
    RIG_WAIT(&rig, has_got(&rig, "+PONG\r\n"));
    tls_done(&rig);
}
END_TEST

/* The whole opening without a loop, and again on the same stream. */
START_TEST(pump_and_reopen)
{
    struct rig rig;
    server_with(&rig, "good", "good");
    rig_new(&rig);
    for (unsigned i = 1; i <= 3; i++) {
        rig_open(&rig);
        while (rig.opened < i)
            ck_assert(hf__stream_pump(rig.stream, hf__now() + 10 * HF_NS_PER_S));
        rig_send(&rig, "PING\r\n");
        while (rig.got_len < 7 * i)
            ck_assert(hf__stream_pump(rig.stream, hf__now() + 10 * HF_NS_PER_S));
        hf__stream_close(rig.stream);
    }
    ck_assert_uint_eq(rig.broken, 0);
    tls_done(&rig);
}
END_TEST

/* ---- Settings -------------------------------------------------------------------- */

static const struct {
    const char *ca, *cert, *key, *words;
} wrong_files[] = {
    { "nothing.pem", NULL, NULL, "tls_ca: " },
    { "nothing.pem", NULL, NULL, "No such file" },
    { "good.key", NULL, NULL, "holds no CA certificates" },
    { "ca.pem", "nothing.pem", NULL, "tls_cert: " },
    { "ca.pem", "weak.cnf", NULL, "holds no certificate" },
    { "ca.pem", "client.pem", "good.key", "is not the key of tls_cert" },
    { "ca.pem", "client.pem", "nothing.key", "tls_key: " },
    { "ca.pem", NULL, "client.key", "tls_key is given without tls_cert" },
};

START_TEST(wrong_files_are_named)
{
    struct rig rig;
    rig_listen(&rig, "127.0.0.1");
    rig_new(&rig);
    for (size_t i = 0; i < sizeof(wrong_files) / sizeof(wrong_files[0]); i++) {
        struct hf_stream_settings settings = rig.settings;
        struct hf_stream_user user = { NULL, NULL, NULL };
        struct hf_stream *stream;
        hf_error why;
        settings.tls = true;
        settings.tls_ca = path_of(wrong_files[i].ca);
        settings.tls_cert = wrong_files[i].cert ? path_of(wrong_files[i].cert) : "";
        settings.tls_key = wrong_files[i].key ? path_of(wrong_files[i].key) : "";
        ck_assert_int_eq(
            hf__stream_new(&rig.fake.host, &settings, &user, NULL, &stream, &why),
            HF_EURL);
        ck_assert_msg(strstr(why.text, wrong_files[i].words), "%s", why.text);
    }
    rig_done(&rig);
}
END_TEST

/* Without the variable, or with an empty one, the module is looked for where it is
 * installed: it is there, or the path is named. */
START_TEST(module_is_looked_for)
{
    const struct hf_tls *tls;
    for (int i = 0; i < 2; i++) {
        hf_error why = { 0 };
        unsetenv("HOLDFAST_MODULES");
        if (i)
            setenv("HOLDFAST_MODULES", "", 1);
        int rc = hf__tls_load(&tls, &why);
        ck_assert(rc == 0 || rc == HF_EUNSUPPORTED);
        ck_assert(rc == 0 || !strstr(why.text, "cannot be loaded: /holdfast"));
    }
    hf_error why = { 0 };
    setenv("HOLDFAST_MODULES", "/nowhere", 1);
    ck_assert_int_eq(hf__tls_load(&tls, &why), HF_EUNSUPPORTED);
    ck_assert_msg(strstr(why.text, "/nowhere/"), "%s", why.text);
}
END_TEST

/* ---- All of it ------------------------------------------------------------------- */

static int run(const char *const *args)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 1);
        dup2(null, 2);
        execvp(args[0], (char *const *)args);
        _exit(127);
    }
    return waitpid(child, &status, 0) == child ? status : -1;
}

static bool is_there(const char *program, const char *question)
{
    return run((const char *const[]){ program, question, NULL }) == 0;
}

static bool has_tls(void)
{
    const struct hf_tls *tls;
    return hf__tls_load(&tls, NULL) == 0;
}

static void certs_remove(const char *directory)
{
    run((const char *const[]){ "rm", "-rf", directory, NULL });
}

int main(void)
{
    const TTest *const tests[] = {
        address_is_accepted,
        name_is_accepted,
        name_with_a_dot_is_accepted,
        ca_directory_is_accepted,
        chain_is_accepted,
        self_signed_is_accepted_if_trusted,
        insecure_is_accepted_if_asked_for,
        client_certificate_is_accepted,
        bad_certificates_are_refused,
        system_store_is_the_default,
        old_tls_is_refused,
        missing_client_certificate,
        wrong_client_certificate,
        plain_server_is_refused,
        silent_server_meets_the_deadline,
        server_leaves_during_the_handshake,
        large_echo,
        pipelined_replies_all_come,
        server_dies,
        child_leaves_the_parent_alone,
        pump_and_reopen,
        wrong_files_are_named,
        module_is_looked_for,
    };
    const char *script = getenv("TLS_CERTS");

    if (!script || !is_there("redis-server", "--version") ||
        !is_there("openssl", "version") || !has_tls()) {
        puts("1..0 # SKIP no redis-server, no openssl or no TLS in this build");
        return EXIT_SUCCESS;
    }
    snprintf(certs, sizeof(certs), "/tmp/hf-tls-XXXXXX");
    if (!mkdtemp(certs) ||
        run((const char *const[]){ "sh", script, certs, NULL }) != 0) {
        puts("Bail out! the certificates cannot be made");
        return EXIT_FAILURE;
    }
    int rc = unit_run("tls", tests, sizeof(tests) / sizeof(tests[0]));
    certs_remove(certs);
    return rc;
}
