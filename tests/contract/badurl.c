/* SPDX-License-Identifier: MIT */
/*
 * Bad URLs and bad client options: refused by hf_open() with a sentence, and without a
 * client.
 */
#include <stdio.h>
#include <string.h>

#include "contract.h"

static void open_refused(const char *url, const hf_options *options, int code)
{
    hf_error why = { 0 };
    hf_client *mark = (hf_client *)&why;
    hf_client *client = mark;
    int rc = hf_open(url, options, &client, &why);
    if (rc != code)
        check_failed(__FILE__, __LINE__, "hf_open(%s) gave %s: %s", url,
                     hf_error_name(rc), why.text);
    CHECK_EQ(why.code, code);
    CHECK(strlen(why.text) >= 8 && strchr(why.text, '\n') == NULL);
    CHECK(client == mark);
    CHECK_RC(hf_open(url, options, &client, NULL), code);
    CHECK(client == mark);
}

static void bad_urls_are_refused(struct env *e)
{
    static const char *const bad[] = {
        "",          "no-colon", ":",          "gopher:x",      "gopher://host/x",
        "MEM+:x",    "mem :x",   "//host/x",   "1mem:x",        "mem:%zz",
        "mem:%0",    "mem:%00",  "mem:x#part", "mem://host:x/", "mem://host:99999/",
        "file:a%00", "\xff:x",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        open_refused(bad[i], NULL, HF_EURL);
    CHECK(e->form != NULL);
}

/* On the scenario's own URL, so that every store shows how it minds its options. */
static void bad_url_options_are_refused(struct env *e)
{
    static const char *const bad[] = {
        "?nonsense=1",
        "?ttl=1s&nonsense=1",
        "?ttl=1s&ttl=1s",
        "?ttl=1000",
        "?ttl=",
        "?ttl=-1",
        "?ttl=soon",
        "?ttl=0",
        "?ttl=1e3",
        "?ttl=99999999999999999999",
        "?handoff=x",
        "?handoff=-5",
        "?=1",
        "?TTL=1s",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char url[512];
        char first = strchr(e->url, '?') ? '&' : '?';
        snprintf(url, sizeof url, "%s%c%s", e->url, first, bad[i] + 1);
        open_refused(url, NULL, HF_EURL);
    }
}

static void good_url_options_work(struct env *e)
{
    char url[512];
    hf_client *client = NULL;
    hf_hold *hold = NULL;
    char first = strchr(e->url, '?') ? '&' : '?';
    snprintf(url, sizeof url, "%s%cttl=%dms&handoff=3", e->url, first, 50000);
    CHECK_RC(hf_open(url, NULL, &client, NULL), 0);
    CHECK_RC(hf_lock(client, THING, 0, &hold, NULL), 0);
    CHECK(hf_hold_left_ms(hold) > 25000 && hf_hold_left_ms(hold) <= 50000);
    let_go(hold);
    hf_close(client);
}

static void bad_client_options_are_refused(struct env *e)
{
    static const int64_t far = INT64_C(11) * 366 * 24 * 3600 * 1000;
    const size_t size = sizeof(hf_options);
    const hf_options bad[] = {
        { .size = 0 },
        { .size = 1 },
        { .size = size + 8 },
        { .size = SIZE_MAX },
        { .size = size, .driver = 2 },
        { .size = size, .driver = -1 },
        { .size = size, .handoff = -2 },
        { .size = size, .handoff = INT32_MAX },
        { .size = size, .request_timeout_ms = -1 },
        { .size = size, .request_timeout_ms = far },
        { .size = size, .ttl_ms = -1 },
        { .size = size, .ttl_ms = far },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        open_refused(e->url, &bad[i], HF_EINVAL);
    hf_error why = { 0 };
    CHECK_RC(hf_open(e->url, NULL, NULL, &why), HF_EINVAL);
    CHECK(why.code == HF_EINVAL && why.text[0]);
}

/* A password in a URL that cannot be opened does not show up in the sentence. */
static void secrets_stay_secret(struct env *e)
{
    static const char *const bad[] = {
        "gopher://user:hunter2@host/x",
        "mem://user:hunter2@host:99999/x",
        "mem://user:hunter2@host/x?nonsense=1",
        "file://user:hunter2@host/x%zz",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hf_error why = { 0 };
        hf_client *client = NULL;
        CHECK_RC(hf_open(bad[i], NULL, &client, &why), HF_EURL);
        CHECK(why.text[0] && strstr(why.text, "hunter2") == NULL);
    }
    CHECK(e->form != NULL);
}

static void errors_have_names(struct env *e)
{
    for (int code = -30; code <= 3; code++) {
        CHECK(hf_error_name(code) && hf_error_name(code)[0]);
        CHECK(hf_error_sentence(code) && hf_error_sentence(code)[0]);
    }
#define EACH(name, value, sentence)                                                    \
    CHECK_TEXT(hf_error_name(name), #name);                                            \
    CHECK_TEXT(hf_error_sentence(name), sentence);                                     \
    CHECK_EQ(name, value);
    HF_ERRORS(EACH)
#undef EACH
    CHECK_TEXT(hf_version(), "0.1.0");
    CHECK(hf_stores() && hf_stores()[0]);
    CHECK(e->form != NULL);
}

const struct scenario scenarios_badurl[] = {
    { "bad-urls-are-refused", MUTEX, 0, 0, bad_urls_are_refused },
    { "bad-url-options-are-refused", MUTEX, 0, 0, bad_url_options_are_refused },
    { "good-url-options-work", MUTEX, HF_CAP_LEASE, 0, good_url_options_work },
    { "bad-client-options-are-refused", MUTEX, 0, 0, bad_client_options_are_refused },
    { "secrets-stay-secret", MUTEX, 0, 0, secrets_stay_secret },
    { "errors-have-names", MUTEX, 0, 0, errors_have_names },
    { NULL, 0, 0, 0, NULL },
};
