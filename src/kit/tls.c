/* SPDX-License-Identifier: MIT */
/*
 * TLS by OpenSSL: the module holdfast-tls.so, whose one symbol is the table of tls.h.
 * Streams call it, each on one thread at a time; streams share only the BIO's method,
 * which is made once.
 *
 * A context is an SSL_CTX and a session an SSL, without a wrapper. TLS 1.2 or later,
 * security level 2 or what the system asks beyond that; the certificate must be for the
 * name, unless the settings say not to verify. The socket is read and written by a BIO
 * of the module's own, because OpenSSL's would raise SIGPIPE. Whole records are read
 * ahead: one recv(2) for a reply. OpenSSL reports errors in the thread's error queue;
 * it is cleared before and after each call, so that nothing of the module's stays in
 * it.
 */
#include "tls_errors.h"

#include "../base/error.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { LEAST_SECURITY = 2, NAME_MAX_LEN = 255 };

/* ---- The BIO ------------------------------------------------------------------- */

static pthread_once_t method_once = PTHREAD_ONCE_INIT;
static BIO_METHOD *method;

static int bio_fd(BIO *bio)
{
    return (int)(intptr_t)BIO_get_data(bio);
}

static bool is_again(int sys)
{
    return sys == EAGAIN || sys == EWOULDBLOCK || sys == EINTR;
}

static int bio_read(BIO *bio, char *data, size_t size, size_t *ret_got)
{
    ssize_t got = recv(bio_fd(bio), data, size, 0);
    BIO_clear_retry_flags(bio);
    if (got < 0 && is_again(errno))
        BIO_set_retry_read(bio);
    *ret_got = got > 0 ? (size_t)got : 0;
    return got > 0;
}

static int bio_write(BIO *bio, const char *data, size_t size, size_t *ret_sent)
{
    ssize_t sent = send(bio_fd(bio), data, size, MSG_NOSIGNAL);
    BIO_clear_retry_flags(bio);
    if (sent < 0 && is_again(errno))
        BIO_set_retry_write(bio);
    *ret_sent = sent > 0 ? (size_t)sent : 0;
    return sent > 0;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static void method_make(void)
{
    BIO_METHOD *made =
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "holdfast socket");
    if (made && BIO_meth_set_read_ex(made, bio_read) &&
        BIO_meth_set_write_ex(made, bio_write) && BIO_meth_set_ctrl(made, bio_ctrl))
        method = made;
    else
        BIO_meth_free(made);
}

static BIO *bio_make(int fd)
{
    BIO *bio = method ? BIO_new(method) : NULL;
    if (bio) {
        BIO_set_data(bio, (void *)(intptr_t)fd);
        BIO_set_init(bio, 1);
    }
    return bio;
}

/* ---- Context ------------------------------------------------------------------- */

static int load_ca(SSL_CTX *context, const char *path, hf_error *why)
{
    struct stat info;
    int done;

    if (!*path) {
        done = SSL_CTX_set_default_verify_paths(context);
        return done ? 0
                    : hf__fail(why, HF_ESYSTEM, "the system has no CA certificates");
    }
    if (stat(path, &info) != 0)
        return hf__fail_sys(why, HF_EURL, errno, "tls_ca: %s", path);
    done = S_ISDIR(info.st_mode) ? SSL_CTX_load_verify_dir(context, path)
                                 : SSL_CTX_load_verify_file(context, path);
    return done ? 0
                : hf__tls_fail_file(why, "tls_ca", path, "holds no CA certificates");
}

static int load_own(SSL_CTX *context, const struct hf_stream_settings *settings,
                    hf_error *why)
{
    const char *cert = settings->tls_cert;
    const char *key = *settings->tls_key ? settings->tls_key : cert;

    if (!*cert && !*key)
        return 0;
    if (!*cert)
        return hf__fail(why, HF_EURL, "tls_key is given without tls_cert");
    if (SSL_CTX_use_certificate_chain_file(context, cert) != 1)
        return hf__tls_fail_file(why, "tls_cert", cert,
                                 "holds no certificate we can use");
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
        return hf__tls_fail_file(why, "tls_key", key, "is not the key of tls_cert");
    return 0;
}

/* A library cannot ask for the passphrase of a key. */
static int no_passphrase(char *buffer, int size, int writing, void *user)
{
    (void)buffer, (void)size, (void)writing, (void)user;
    return -1;
}

static void context_tune(SSL_CTX *context, bool insecure)
{
    if (SSL_CTX_get_security_level(context) < LEAST_SECURITY)
        SSL_CTX_set_security_level(context, LEAST_SECURITY);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_default_passwd_cb(context, no_passphrase);
    SSL_CTX_set_verify(context, insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
}

static int context_new(const struct hf_stream_settings *settings, void **ret_context,
                       hf_error *why)
{
    int rc = 0;

    pthread_once(&method_once, method_make);
    ERR_clear_error();
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (!context || !SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION))
        rc = hf__fail_code(why, HF_ENOMEM);
    if (rc == 0) {
        context_tune(context, settings->tls_insecure);
        rc = load_ca(context, settings->tls_ca, why);
    }
    if (rc == 0)
        rc = load_own(context, settings, why);
    if (rc == 0)
        *ret_context = context;
    else
        SSL_CTX_free(context);
    ERR_clear_error();
    return rc;
}

static void context_free(void *context)
{
    SSL_CTX_free(context);
}

/* ---- Session ------------------------------------------------------------------- */

static bool is_address(const char *name)
{
    struct in6_addr address;
    return inet_pton(AF_INET, name, &address) == 1 ||
           inet_pton(AF_INET6, name, &address) == 1;
}

/* Addresses are compared as addresses, and are not sent as SNI. */
static bool expect(SSL *ssl, const char *name)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    size_t len = strlen(name);
    char host[NAME_MAX_LEN + 1];

    if (len == 0)
        return true;
    if (is_address(name))
        return X509_VERIFY_PARAM_set1_ip_asc(param, name);
    len -= name[len - 1] == '.'; /* certificates do not have the trailing dot */
    if (len == 0 || len > NAME_MAX_LEN)
        return false;
    memcpy(host, name, len);
    host[len] = '\0';
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_host(param, host, len) &&
           SSL_set_tlsext_host_name(ssl, host);
}

static int session_new(void *context, int fd, const char *name, void **ret_session,
                       hf_error *why)
{
    ERR_clear_error();
    SSL *ssl = SSL_new(context);
    BIO *bio = bio_make(fd);
    bool made = ssl && bio;

    if (made)
        SSL_set_bio(ssl, bio, bio);
    else
        BIO_free(bio);
    if (made && expect(ssl, name)) {
        SSL_set_connect_state(ssl);
        *ret_session = ssl;
        return 0;
    }
    SSL_free(ssl);
    ERR_clear_error();
    if (!made)
        return hf__fail_code(why, HF_ENOMEM);
    return hf__fail(why, HF_EURL, "%s cannot be the name of a TLS server", name);
}

static void session_free(void *session, bool notify)
{
    if (notify)
        SSL_shutdown(session);
    SSL_free(session);
    ERR_clear_error();
}

/* The result of an OpenSSL call that did not succeed. */
static int outcome(SSL *ssl, int result, uint32_t *ret_wants, hf_error *why)
{
    int sys = errno;
    int rc = 0;

    switch (SSL_get_error(ssl, result)) {
    case SSL_ERROR_WANT_READ:
        *ret_wants = EPOLLIN;
        break;
    case SSL_ERROR_WANT_WRITE:
        *ret_wants = EPOLLOUT;
        break;
    case SSL_ERROR_ZERO_RETURN:
        rc = hf__fail(why, HF_EUNREACHABLE, "the server closed the connection");
        break;
    case SSL_ERROR_SYSCALL:
        rc = hf__fail_sys(why, HF_EUNREACHABLE, sys ? sys : ECONNRESET,
                          "the connection broke");
        break;
    default:
        rc = hf__tls_fail_session(why, ssl);
    }
    ERR_clear_error();
    return rc;
}

static int handshake(void *session, uint32_t *ret_wants, hf_error *why)
{
    ERR_clear_error();
    errno = 0;
    int result = SSL_do_handshake(session);
    return result == 1 ? 1 : outcome(session, result, ret_wants, why);
}

static ssize_t session_read(void *session, void *data, size_t size, uint32_t *ret_wants,
                            hf_error *why)
{
    size_t got = 0;
    ERR_clear_error();
    errno = 0;
    int result = SSL_read_ex(session, data, size, &got);
    return result == 1 ? (ssize_t)got : outcome(session, result, ret_wants, why);
}

static ssize_t session_write(void *session, const void *data, size_t size,
                             uint32_t *ret_wants, hf_error *why)
{
    size_t sent = 0;
    ERR_clear_error();
    errno = 0;
    int result = SSL_write_ex(session, data, size, &sent);
    return result == 1 ? (ssize_t)sent : outcome(session, result, ret_wants, why);
}

static bool session_pending(void *session)
{
    return SSL_has_pending(session);
}

extern const struct hf_tls hf__tls_openssl __attribute__((visibility("default")));
const struct hf_tls hf__tls_openssl = {
    .size = sizeof(struct hf_tls),
    .abi = HF_TLS_ABI,
    .context_new = context_new,
    .context_free = context_free,
    .session_new = session_new,
    .session_free = session_free,
    .handshake = handshake,
    .read = session_read,
    .write = session_write,
    .pending = session_pending,
};
