/* SPDX-License-Identifier: MIT */
/*
 * The connection is lost and reconnects: how requests are answered, when the connection
 * is given up, how it reconnects. A private redis-server is killed, stopped and
 * started; the test sets the clock wherever time matters.
 */
#include "unit.h"

#include "../../src/base/clock.h"
#include "../../src/base/mem.h"
#include "conn_server.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static struct stage stage;
static struct fake_clock watch;

static void begin(int protocol)
{
    server_begin(NULL);
    watch.now_ns = 1000 * HF_NS_PER_S;
    open_fine(&stage, protocol, &watch);
}

static void end(void)
{
    stage_close(&stage);
    server_end();
}

static void start_again(void)
{
    raw_close(raw);
    redis_start(&server, directory, false, NULL);
    raw = raw_open(server.socket);
}

/* Moves the clock on, a little at a time, until the connection is up again. */
static void wait_for_up(unsigned ups)
{
    for (int i = 0; i < 1000 && stage.ups < ups; i++) {
        watch.now_ns += 10 * HF_NS_PER_MS;
        stage_turn(&stage);
    }
    ck_assert_uint_eq(stage.ups, ups);
}

static void server_stop(void)
{
    siginfo_t info;
    ck_assert_int_eq(kill(server.pid, SIGSTOP), 0);
    ck_assert_int_eq(waitid(P_PID, (id_t)server.pid, &info, WSTOPPED | WNOWAIT), 0);
}

/* ---- Answers --------------------------------------------------------------------- */

START_TEST(sent_is_uncertain_and_unsent_is_not)
{
    begin(0);
    server_stop();
    for (unsigned i = 0; i < 10; i++)
        stage_say(&stage, i, "INCR", "n", NULL);
    ck_assert_uint_eq(stage.reply_count, 0);
    redis_kill(&server);
    STAGE_UNTIL(&stage, stage.downs == 1);
    ck_assert_uint_eq(stage.reply_count, 10);
    for (unsigned i = 0; i < 10; i++) {
        ck_assert_uint_eq(stage.replies[i].word, i);
        ck_assert_int_eq(stage.replies[i].code,
                         i < 4 ? HF_EUNCERTAIN : HF_EUNREACHABLE);
    }
    ck_assert_int_eq(stage.why.code, HF_EUNREACHABLE);
    ck_assert_ptr_nonnull(strstr(stage.why.text, server.socket));

    stage_say(&stage, 99, "INCR", "n", NULL);
    ck_assert_uint_eq(stage.reply_count, 11); /* inside the call */
    ck_assert_int_eq(stage.replies[10].code, HF_EUNREACHABLE);
    ck_assert_str_eq(stage.replies[10].text, stage.why.text);
    end();
}
END_TEST

static void call_again(struct stage *at)
{
    if (at->reply_count < 20)
        stage_say(at, 1000, "INCR", "n", NULL);
}

START_TEST(calls_from_inside_of_a_bad_answer)
{
    begin(0);
    server_stop();
    for (unsigned i = 0; i < 10; i++)
        stage_say(&stage, i, "INCR", "n", NULL);
    stage.on_reply = call_again;
    redis_kill(&server);
    STAGE_UNTIL(&stage, stage.downs == 1);
    unsigned own = 0;
    for (unsigned i = 0; i < stage.reply_count; i++)
        own += stage.replies[i].word < 10;
    ck_assert_uint_eq(own, 10);
    end();
}
END_TEST

START_TEST(comes_back)
{
    for (int protocol = 2; protocol <= 3; protocol++) {
        begin(protocol);
        ck_assert_int_eq(stage_subscribe(&stage, "news"), 0);
        STAGE_UNTIL(&stage, stage.subscribed_count == 1);
        redis_kill(&server);
        STAGE_UNTIL(&stage, stage.downs == 1);
        ck_assert_int_eq(stage_subscribe(&stage, "more"), 0); /* while it is down */
        ck_assert_int_eq(stage_subscribe(&stage, "news"), 0);
        ck_assert_uint_eq(stage.subscribed_count, 1);
        ck_assert_int_eq(stage_subscribe(&stage, "less"), 0);
        stage_unsubscribe(&stage, "less");
        start_again();
        wait_for_up(1);
        STAGE_UNTIL(&stage, stage.subscribed_count == 3);
        ck_assert_int_eq(raw_number(raw, "PUBLISH news x"), 1);
        ck_assert_int_eq(raw_number(raw, "PUBLISH more x"), 1);
        ck_assert_int_eq(raw_number(raw, "PUBLISH less x"), 0);
        ck_assert_int_eq(raw_number(raw, "PUBLISH inbox x"), 1);
        STAGE_UNTIL(&stage, stage.message_count == 3);
        stage_say(&stage, 1, "INCR", "n", NULL);
        STAGE_UNTIL(&stage, stage.reply_count == 1);
        ck_assert_int_eq(stage.replies[0].number, 1);
        ck_assert_uint_eq(stage.downs, 1);
        end();
    }
}
END_TEST

/* The server writes its answers at the end of a turn: who has asked in a later one
 * knows that those of this one are out. */
static void answers_are_out(void)
{
    raw_say(raw, "ECHO now");
}

/* ---- Time ------------------------------------------------------------------------ */

START_TEST(no_answer_in_time)
{
    begin(0);
    server_stop();
    stage_say(&stage, 1, "INCR", "n", NULL);
    watch.now_ns += 3 * HF_NS_PER_S;
    stage_say(&stage, 2, "INCR", "n", NULL);
    watch.now_ns += 2 * HF_NS_PER_S - 1;
    stage_turn(&stage);
    ck_assert_uint_eq(stage.downs, 0);
    watch.now_ns += 1; /* the deadline of the older one */
    stage_turn(&stage);
    ck_assert_uint_eq(stage.downs, 1);
    ck_assert_uint_eq(stage.reply_count, 2);
    ck_assert_int_eq(stage.replies[1].code, HF_EUNCERTAIN);
    ck_assert_ptr_nonnull(strstr(stage.why.text, "5000 ms"));
    ck_assert_int_eq(kill(server.pid, SIGCONT), 0);
    wait_for_up(1);
    end();
}
END_TEST

/* As after a suspend: late is the one who reads, not the one who answered. */
START_TEST(an_answer_that_waits_to_be_read)
{
    begin(0);
    for (unsigned i = 0; i < 3; i++)
        stage_say(&stage, i, "INCR", "n", NULL);
    for (int i = 0; i < 1000 && raw_number(raw, "INCRBY n 0") < 3; i++)
        ;
    answers_are_out();
    watch.now_ns += 100 * HF_NS_PER_S;
    stage_turn(&stage);
    ck_assert_uint_eq(stage.downs, 0);
    STAGE_UNTIL(&stage, stage.reply_count == 3);
    ck_assert_int_eq(stage.replies[2].number, 3);
    ck_assert_uint_eq(stage.downs, 0);
    end();
}
END_TEST

START_TEST(an_answer_moves_the_deadline)
{
    begin(0);
    for (unsigned i = 0; i < 5; i++) {
        watch.now_ns += 4 * HF_NS_PER_S;
        stage_say(&stage, i, "INCR", "n", NULL);
        STAGE_UNTIL(&stage, stage.reply_count == i + 1);
        ck_assert_int_eq(stage.replies[i].sent_ns, watch.now_ns);
    }
    ck_assert_uint_eq(stage.downs, 0);
    end();
}
END_TEST

/* The last words at the end of a session: a server that has not answered for longer
 * than one would wait for it is not waited for again. Time stands still here, so that a
 * wait would have no end. */
START_TEST(a_silent_server_is_not_settled_with)
{
    begin(0);
    stage_say(&stage, 1, "INCR", "n", NULL);
    hf__redis_conn_mute(stage.conn);
    hf__redis_conn_drain(stage.conn, HF_NS_PER_S);
    ck_assert_int_eq(raw_number(raw, "GET n"), 1);
    server_stop();
    stage_say(&stage, 2, "INCR", "n", NULL);
    watch.now_ns += HF_NS_PER_S;
    stage_say(&stage, 3, "INCR", "n", NULL);
    hf__redis_conn_drain(stage.conn, HF_NS_PER_S);
    ck_assert(hf__redis_conn_is_up(stage.conn));
    ck_assert_int_eq(kill(server.pid, SIGCONT), 0);
    end();
}
END_TEST

/* What has come meanwhile is looked at all the same. */
START_TEST(a_late_reader_settles)
{
    begin(0);
    stage_say(&stage, 1, "INCR", "n", NULL);
    for (int i = 0; i < 1000 && raw_number(raw, "INCRBY n 0") < 1; i++)
        ;
    answers_are_out();
    watch.now_ns += 3 * HF_NS_PER_S;
    hf__redis_conn_drain(stage.conn, HF_NS_PER_S);
    ck_assert_uint_eq(stage.reply_count, 1);
    end();
}
END_TEST

static int64_t pings(void)
{
    const char *at = strstr(raw_say(raw, "INFO commandstats"), "cmdstat_ping:calls=");
    return at ? strtol(at + strlen("cmdstat_ping:calls="), NULL, 10) : 0;
}

START_TEST(silence_is_looked_into)
{
    for (int protocol = 2; protocol <= 3; protocol++) {
        begin(protocol);
        int64_t before = pings(), sockets = protocol == 2 ? 2 : 1;
        watch.now_ns += 14 * HF_NS_PER_S;
        stage_turn(&stage);
        ck_assert_int_eq(pings(), before);
        watch.now_ns += HF_NS_PER_S;
        STAGE_UNTIL(&stage, pings() == before + sockets);
        answers_are_out();
        watch.now_ns += 14 * HF_NS_PER_S; /* the answers are there, if not yet read */
        stage_turn(&stage);
        stage_turn(&stage);
        ck_assert_uint_eq(stage.downs, 0);
        server_stop();
        watch.now_ns += HF_NS_PER_S;
        stage_turn(&stage);
        watch.now_ns += 5 * HF_NS_PER_S;
        STAGE_UNTIL(&stage, stage.downs == 1);
        kill(server.pid, SIGCONT);
        end();
    }
}
END_TEST

/* Each try waits longer than the one before, up to two seconds, and never exactly. */
START_TEST(tries_back_off)
{
    int64_t most = 40 * HF_NS_PER_MS;
    int64_t former = 0;
    unsigned different = 0;

    begin(0);
    watch.now_ns += 10 * HF_NS_PER_S;
    redis_kill(&server);
    STAGE_UNTIL(&stage, stage.downs == 1);
    for (unsigned i = 0; i < 70; i++) {
        int64_t wait = stage.conn->timer.at_ns - watch.now_ns;
        ck_assert_msg(wait >= most / 2 && wait <= most, "%u: %lld", i, (long long)wait);
        different += most == 2 * HF_NS_PER_S && wait != former;
        former = wait;
        watch.now_ns = stage.conn->timer.at_ns;
        unsigned attempts = stage.conn->attempts;
        STAGE_UNTIL(&stage, stage.conn->attempts == attempts + 1);
        most = most * 2 < 2 * HF_NS_PER_S ? most * 2 : 2 * HF_NS_PER_S;
    }
    ck_assert_uint_ge(different, 10);
    ck_assert_uint_eq(stage.downs, 1);
    start_again();
    wait_for_up(1);
    end();
}
END_TEST

/* ---- Forks and memory ------------------------------------------------------------ */

START_TEST(a_forked_child_leaves_it_alone)
{
    begin(0);
    stage_say(&stage, 1, "ECHO", "one", NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        size_t live = hf__mem_live();
        fake_close_forked(&stage.host);
        _exit(stage.reply_count == 0 && hf__mem_live() < live ? 0 : 1);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    STAGE_UNTIL(&stage, stage.reply_count == 1);
    stage_say(&stage, 2, "ECHO", "two", NULL);
    STAGE_UNTIL(&stage, stage.reply_count == 2);
    ck_assert_str_eq(stage.replies[1].text, "two");
    ck_assert_uint_eq(stage.downs, 0);
    end();
}
END_TEST

START_TEST(opening_without_memory)
{
    server_begin(NULL);
    size_t live = hf__mem_live();
    unsigned failures = 0;
    for (uint64_t nth = 1;; nth++) {
        struct conn_settings settings = settings_of(2);
        hf__mem_fail(nth, 0);
        int rc = stage_open(&stage, &settings, NULL);
        hf__mem_fail(0, 0);
        if (rc == 0)
            break;
        ck_assert_msg(rc == HF_ENOMEM || rc == HF_EUNREACHABLE, "%d", rc);
        ck_assert_uint_eq(hf__mem_live(), live);
        failures++;
    }
    ck_assert_uint_gt(failures, 5);
    stage_close(&stage);
    ck_assert_uint_eq(hf__mem_live(), live);
    server_end();
}
END_TEST

START_TEST(calling_without_memory)
{
    begin(0);
    unsigned failed = 0;
    hf__mem_fail(1, 1);
    for (unsigned i = 0; i < 1000; i++)
        stage_say(&stage, i, "INCR", "n", NULL);
    ck_assert_int_eq(stage_subscribe(&stage, "news"), HF_ENOMEM);
    hf__mem_fail(0, 0);
    STAGE_UNTIL(&stage, stage.reply_count == 1000);
    for (unsigned i = 0; i < 1000; i++)
        failed += stage.replies[i].code == HF_ENOMEM;
    ck_assert_uint_gt(failed, 0);
    ck_assert_uint_lt(failed, 1000);
    ck_assert_int_eq(raw_number(raw, "GET n"), 1000 - failed);
    ck_assert_int_eq(stage_subscribe(&stage, "news"), 0);
    STAGE_UNTIL(&stage, stage.subscribed_count == 1);
    end();
}
END_TEST

UNIT_MAIN("conn_loss", sent_is_uncertain_and_unsent_is_not,
          calls_from_inside_of_a_bad_answer, comes_back, no_answer_in_time,
          an_answer_that_waits_to_be_read, an_answer_moves_the_deadline,
          silence_is_looked_into, tries_back_off, a_forked_child_leaves_it_alone,
          opening_without_memory, calling_without_memory,
          a_silent_server_is_not_settled_with, a_late_reader_settles)
