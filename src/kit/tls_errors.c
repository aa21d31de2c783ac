/* SPDX-License-Identifier: MIT */
/*
 * The messages of TLS. Part of the module holdfast-tls.so; tls.c calls it when
 * something has failed. Reads the session and the thread's error queue and leaves both
 * as they are.
 *
 * Three sources, used in this order: what verification found wrong with the server's
 * certificate, the alert that the server sent, and the reason that OpenSSL gives. A
 * reason without a message here is reported in OpenSSL's words.
 */
#include "tls_errors.h"

#include "../base/error.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

struct explanation {
    long code;
    const char *sentence;
};

#define NOT_A_CA "was issued by a certificate that is no CA"
#define UNKNOWN_CA                                                                     \
    "comes from a CA that is not trusted here (tls_ca), or the server leaves out an "  \
    "intermediate certificate"

/* "the certificate of HOST ..." */
static const struct explanation cert_errors[] = {
    { X509_V_ERR_CERT_HAS_EXPIRED, "has expired" },
    { X509_V_ERR_CERT_NOT_YET_VALID, "is not valid yet, or the clock is wrong" },
    { X509_V_ERR_HOSTNAME_MISMATCH, "is for another host" },
    { X509_V_ERR_IP_ADDRESS_MISMATCH, "is for another address" },
    { X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
      "is signed by itself, and not trusted here (tls_ca)" },
    { X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN,
      "comes from a CA that is not trusted here (tls_ca)" },
    { X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, UNKNOWN_CA },
    { X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, UNKNOWN_CA },
    { X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, UNKNOWN_CA },
    { X509_V_ERR_CERT_UNTRUSTED, UNKNOWN_CA },
    { X509_V_ERR_INVALID_CA, NOT_A_CA },
    { X509_V_ERR_INVALID_NON_CA, NOT_A_CA },
    { X509_V_ERR_KEYUSAGE_NO_CERTSIGN, NOT_A_CA },
    { X509_V_ERR_INVALID_PURPOSE, "is not meant for servers" },
    { X509_V_ERR_EE_KEY_TOO_SMALL, "has a key that is too short to be safe" },
    { X509_V_ERR_CA_KEY_TOO_SMALL,
      "comes from a CA whose key is too short to be safe" },
    { X509_V_ERR_CA_MD_TOO_WEAK, "has a signature that is too weak to be safe" },
    { X509_V_ERR_CERT_SIGNATURE_FAILURE, "has a signature that does not match" },
    { X509_V_ERR_CERT_REVOKED, "has been revoked" },
};

#define OUR_CERT "the server does not accept our client certificate (tls_cert)"
#define OLD_TLS "the server does not speak TLS 1.2 or later"
#define NO_TLS "the server does not speak TLS on this port"

static const struct explanation reasons[] = {
    { SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED,
      "the server asks for a client certificate (tls_cert)" },
    { SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, OUR_CERT },
    { SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, OUR_CERT },
    { SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED, OUR_CERT },
    { SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, OUR_CERT },
    { SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, OUR_CERT },
    { SSL_R_TLSV1_ALERT_UNKNOWN_CA, OUR_CERT },
    { SSL_R_TLSV1_ALERT_ACCESS_DENIED, OUR_CERT },
    { SSL_R_TLSV1_ALERT_DECRYPT_ERROR, OUR_CERT },
    { SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE,
      "the server refuses the handshake: no common cipher, or it asks for a client "
      "certificate (tls_cert)" },
    { SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, OLD_TLS },
    { SSL_R_UNSUPPORTED_PROTOCOL, OLD_TLS },
    { SSL_R_WRONG_VERSION_NUMBER, NO_TLS },
    { SSL_R_BAD_RECORD_TYPE, NO_TLS },
    { SSL_R_PACKET_LENGTH_TOO_LONG, NO_TLS },
    { SSL_R_HTTP_REQUEST, NO_TLS },
    { SSL_R_TLSV1_UNRECOGNIZED_NAME, "the server does not know that name (tls_name)" },
    { SSL_R_DH_KEY_TOO_SMALL, "the server's key exchange is too weak to be safe" },
    { SSL_R_EE_KEY_TOO_SMALL, "a certificate has a key that is too short to be safe" },
};

static const char *explanation_find(const struct explanation *list, size_t count,
                                    long code)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].code == code)
            return list[i].sentence;
    return NULL;
}

#define FIND(list, code)                                                               \
    explanation_find((list), sizeof(list) / sizeof((list)[0]), (long)(code))

static const char *server_name(SSL *ssl, char **ret_address)
{
    const char *name = X509_VERIFY_PARAM_get0_host(SSL_get0_param(ssl), 0);
    if (!name)
        name = *ret_address = X509_VERIFY_PARAM_get1_ip_asc(SSL_get0_param(ssl));
    return name ? name : "the server";
}

static int fail_verify(hf_error *why, SSL *ssl, long result)
{
    const char *sentence = FIND(cert_errors, result);
    char *address = NULL;
    const char *name = server_name(ssl, &address);

    if (sentence)
        hf__error_set(why, HF_EREFUSED, "the certificate of %s %s", name, sentence);
    else
        hf__error_set(why, HF_EREFUSED, "the certificate of %s is not good: %s", name,
                      X509_verify_cert_error_string(result));
    OPENSSL_free(address);
    return HF_EREFUSED;
}

int hf__tls_fail_session(hf_error *why, SSL *ssl)
{
    int reason = ERR_GET_REASON(ERR_peek_error());
    long verified = SSL_get_verify_result(ssl);

    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK)
        return fail_verify(why, ssl, verified);
    if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)
        return hf__fail(why, HF_EUNREACHABLE, "the server closed the connection");
    const char *sentence = FIND(reasons, reason);
    if (sentence)
        return hf__fail(why, HF_EREFUSED, "%s", sentence);
    sentence = ERR_reason_error_string(ERR_peek_error());
    return hf__fail(why, HF_EREFUSED, "TLS failed: %s",
                    sentence ? sentence : "no reason");
}

int hf__tls_fail_file(hf_error *why, const char *setting, const char *path,
                      const char *otherwise)
{
    unsigned long error = ERR_peek_error();
    if (ERR_SYSTEM_ERROR(error))
        return hf__fail_sys(why, HF_EURL, ERR_GET_REASON(error), "%s: %s", setting,
                            path);
    if (ERR_GET_LIB(error) == ERR_LIB_SSL && FIND(reasons, ERR_GET_REASON(error)))
        otherwise = FIND(reasons, ERR_GET_REASON(error));
    return hf__fail(why, HF_EURL, "%s: %s %s", setting, path, otherwise);
}
