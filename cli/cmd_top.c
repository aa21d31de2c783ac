/* SPDX-License-Identifier: MIT */
/*
 * `holdfast top`: the locks of a store, live.
 *
 * On a terminal it uses the alternate screen, reads keys without echo and hides the
 * cursor, and restores all of that at every end: q, a signal, exit(), Ctrl-Z. Signals
 * are blocked except while top waits; their handlers only set a flag. Signals that end
 * top are also unblocked during a request, and end it there at once. So no signal
 * interrupts the drawing of a frame. frame.c draws.
 *
 * Elsewhere it prints plain text once, or repeatedly if --every was given. The JSON is
 * that of ls (view.c).
 */
#include "commands.h"
#include "frame.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define EVERY_MS 1000
#define REQUEST_MS 3000

/* ---- Signals --------------------------------------------------------------------- */

static volatile sig_atomic_t ended_by, stop_asked, continued, resized, refreshing;

static void terminal_restore(void);

static void on_signal(int number)
{
    if (refreshing) { /* the store may not answer: end without waiting for it */
        terminal_restore();
        die_by(number);
    }
    if (number == SIGTSTP)
        stop_asked = 1;
    else if (number == SIGCONT)
        continued = 1;
    else if (number == SIGWINCH)
        resized = 1;
    else
        ended_by = number;
}

/* The first ENDING_COUNT end top. */
#define ENDING_COUNT 4
static const int caught[] = { SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                              SIGTSTP, SIGCONT, SIGWINCH };

static void catch_signals(sigset_t *ret_before)
{
    struct sigaction action = { .sa_handler = on_signal };
    sigset_t blocked;

    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++) {
        sigaction(caught[i], &action, NULL);
        sigaddset(&blocked, caught[i]);
    }
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &blocked, ret_before);
}

/* Takes the default action of a signal: dies of it, or stops until SIGCONT. */
static void signal_default(int number)
{
    struct sigaction action = { .sa_handler = SIG_DFL }, before;
    sigset_t only, mask;

    sigemptyset(&only);
    sigaddset(&only, number);
    sigaction(number, &action, &before);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &only, &mask);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    sigaction(number, &before, NULL);
}

/* ---- The terminal ---------------------------------------------------------------- */

/* Global because exit() restores it. */
static struct {
    int key_fd; /* -1: no keys */
    bool taken;
    struct termios before;
} terminal = { .key_fd = -1 };

static void terminal_write(const char *text, size_t len)
{
    while (len > 0) {
        ssize_t done = write(STDOUT_FILENO, text, len);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            ended_by = ended_by ? ended_by : SIGHUP; /* the terminal was closed */
            return;
        }
        text += done;
        len -= (size_t)done;
    }
}

static void terminal_say(const char *text)
{
    terminal_write(text, strlen(text));
}

static void terminal_setup(void)
{
    struct termios mode;

    if (!terminal.taken && terminal.key_fd >= 0 &&
        tcgetattr(terminal.key_fd, &terminal.before) != 0)
        terminal.key_fd = -1;
    if (terminal.key_fd >= 0) {
        mode = terminal.before;
        mode.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        mode.c_cc[VMIN] = 1;
        mode.c_cc[VTIME] = 0;
        tcsetattr(terminal.key_fd, TCSADRAIN, &mode);
    }
    terminal.taken = true;
    terminal_say("\033[?1049h\033[?25l\033[H\033[2J");
}

static void terminal_restore(void)
{
    if (!terminal.taken)
        return;
    terminal.taken = false;
    terminal_say("\033[0m\033[?25h\033[?1049l");
    if (terminal.key_fd >= 0)
        tcsetattr(terminal.key_fd, TCSADRAIN, &terminal.before);
}

static void terminal_open(void)
{
    terminal.key_fd = STDIN_FILENO;
    if (!isatty(STDIN_FILENO))
        terminal.key_fd = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY);
    atexit(terminal_restore);
    terminal_setup();
}

static void terminal_size(struct frame *frame)
{
    struct winsize size;

    frame->width = 80;
    frame->height = 24;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row) {
        frame->width = size.ws_col;
        frame->height = size.ws_row;
    }
}

/* ---- Requests -------------------------------------------------------------------- */

struct top {
    struct args *args;
    hf_client *client;
    const char *prefix;
    int64_t every_ms;
    struct frame frame;
    struct view view;
    hf_error why;
    char url[512];
    char clock[16];
    char trouble[512];
};

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Unblocks or blocks the signals that end top; unblocked during a request. */
static void ending_signals_mask(int how)
{
    sigset_t set;

    if (!terminal.taken)
        return; /* nothing is caught */
    sigemptyset(&set);
    for (size_t i = 0; i < ENDING_COUNT; i++)
        sigaddset(&set, caught[i]);
    if (how == SIG_UNBLOCK)
        refreshing = 1;
    sigprocmask(how, &set, NULL);
    if (how == SIG_BLOCK)
        refreshing = 0;
}

static int refresh(struct top *top)
{
    struct view view;
    time_t now = time(NULL);
    struct tm parts;
    int rc;

    ending_signals_mask(SIG_UNBLOCK);
    rc = view_take(top->client, top->prefix, true, &view, &top->why);
    ending_signals_mask(SIG_BLOCK);
    localtime_r(&now, &parts);
    strftime(top->clock, sizeof top->clock, "%H:%M:%S", &parts);
    top->frame.clock = top->clock;
    top->frame.trouble = NULL;
    if (rc == 0) {
        view_done(&top->view);
        top->view = view;
        return 0;
    }
    snprintf(top->trouble, sizeof top->trouble,
             "%s: these are the locks of the last answer", top->why.text);
    top->frame.trouble = top->trouble;
    return rc;
}

static void draw(struct top *top)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    if (!out) {
        cli_say("out of memory");
        exit(EXIT_INTERNAL);
    }
    terminal_size(&top->frame);
    frame_draw(out, &top->frame, &top->view);
    fclose(out);
    terminal_write(text, len);
    free(text);
}

/* ---- Keys, waiting --------------------------------------------------------------- */

/* False if it is time to end. */
static bool take_key(struct top *top, char key)
{
    switch (key) {
    case 'q':
        return false;
    case 'n':
        top->frame.sort = SORT_NAME;
        break;
    case 'w':
        top->frame.sort = SORT_WAITERS;
        break;
    case 'h':
        top->frame.sort = SORT_HELD;
        break;
    case 't':
        top->frame.sort = SORT_TOKEN;
        break;
    default:
        break;
    }
    return true;
}

/* The last byte of an arrow or function key (ESC [ 1 ; 5 B); the NUL if it is cut. */
static const char *sequence_end(const char *key)
{
    if (key[1] != '[' && key[1] != 'O')
        return key;
    for (key += 2; *key >= 0x20 && *key < 0x40; key++)
        continue;
    return key;
}

static bool take_keys(struct top *top)
{
    char keys[64];
    ssize_t got = read(terminal.key_fd, keys, sizeof keys - 1);

    if (got < 0)
        return errno == EINTR || errno == EAGAIN;
    if (got == 0)
        return false; /* end of input: the terminal was closed */
    keys[got] = '\0';
    for (const char *key = keys; *key; key++) {
        if (*key == '\033')
            key = sequence_end(key);
        else if (!take_key(top, *key))
            return false;
        if (!*key)
            break;
    }
    return true;
}

static void handle_signals(void)
{
    if (stop_asked) {
        stop_asked = 0;
        terminal_restore();
        signal_default(SIGTSTP);
        continued = 1;
    }
    if (continued) {
        continued = 0;
        terminal_setup();
    }
    if (resized) {
        resized = 0;
        terminal_say("\033[2J");
    }
}

/* Draws and waits, again after each key and signal, until the next refresh. False:
 * top ends. */
static bool draw_and_wait(struct top *top, int64_t until, const sigset_t *mask)
{
    for (;;) {
        int64_t left = until - now_ms();
        struct timespec timeout = { left / 1000, left % 1000 * 1000000 };
        struct pollfd keys = { .fd = terminal.key_fd, .events = POLLIN };

        draw(top);
        if (left <= 0)
            return true;
        if (ppoll(&keys, 1, &timeout, mask) < 0 && errno != EINTR)
            return false;
        if (ended_by)
            return false;
        handle_signals();
        if (keys.revents && !take_keys(top))
            return false;
    }
}

static int run_live(struct top *top)
{
    sigset_t before;
    int64_t next;

    if (refresh(top) != 0)
        return cli_fail(top->args, NULL, &top->why);
    catch_signals(&before);
    terminal_open();
    for (next = now_ms() + top->every_ms; draw_and_wait(top, next, &before);
         next = now_ms() + top->every_ms)
        refresh(top);
    terminal_restore();
    return EXIT_DONE;
}

/* ---- Without a terminal ---------------------------------------------------------- */

static void print_once(struct top *top)
{
    struct json *json;

    if (!args_get(top->args, "json")->flag) {
        frame_plain(stdout, &top->frame, &top->view);
        return;
    }
    json = json_document(top->args, NULL);
    view_json(json, &top->view);
    json_end(json);
}

/* Waits for the next time; false if the reader has closed the pipe. */
static bool pause_plain(int64_t every_ms)
{
    struct pollfd out = { .fd = STDOUT_FILENO, .events = 0 };

    if (fflush(stdout) != 0) {
        clearerr(stdout);
        return false;
    }
    return poll(&out, 1, (int)every_ms) == 0;
}

static int run_plain(struct top *top)
{
    bool again = args_get(top->args, "every")->given;

    if (again)
        signal(SIGPIPE, SIG_IGN);
    do {
        if (refresh(top) != 0)
            return cli_fail(top->args, NULL, &top->why);
        print_once(top);
    } while (again && pause_plain(top->every_ms));
    return EXIT_DONE;
}

/* ---- The command ----------------------------------------------------------------- */

static bool live(const struct top *top)
{
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0 &&
           !args_get(top->args, "json")->flag;
}

static int run_top(struct args *args)
{
    const struct value *every = args_get(args, "every");
    hf_options options = HF_OPTIONS_INIT;
    struct top top = { .args = args, .every_ms = every->given ? every->ms : EVERY_MS };
    int code = EXIT_DONE;

    if (top.every_ms < 10 || top.every_ms > 86400000)
        return cli_usage(args, "--every must be from 10ms to 1d");
    options.request_timeout_ms = REQUEST_MS;
    top.prefix = args_operand(args, 0) ? args_operand(args, 0) : "";
    top.client = cli_open(args, &options, &code);
    if (!top.client)
        return code;
    store_url(args, top.url, sizeof top.url);
    top.frame.url = top.url;
    top.frame.colour = colours_on(stdout);
    setlocale(LC_CTYPE, "C.UTF-8"); /* for wcwidth() alone */
    code = live(&top) ? run_live(&top) : run_plain(&top);
    view_done(&top.view);
    cli_close(top.client, ended_by ? 128 + ended_by : code);
    if (ended_by)
        signal_default(ended_by);
    return code;
}

static const struct option top_options[] = {
    { "every", 'e', OPT_DURATION, "DURATION", "refresh interval (1s)", 0, 0 },
    { "json", 0, OPT_FLAG, NULL, "print JSON, as ls does", 0, 0 },
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

static const char *const top_examples[] = {
    "holdfast top jobs/", "a live screen of the locks whose names begin with jobs/",
    "holdfast top --every 10s >> locks.log", "plain text, every ten seconds", NULL
};

const struct command cmd_top = {
    .name = "top",
    .operands = "[PREFIX]",
    .summary = "show all locks on a live screen",
    .group = "look",
    .about =
        "Shows the locks of the store and keeps the screen up to date: the holder of "
        "each lock, how long it has held it, the number of waiters and the longest "
        "wait. Keys: n, w, h and t sort by name, waiters, time held and token; q "
        "quits.\n\n"
        "If stdout is not a terminal, `top` prints plain text once, or once every "
        "--every if that is given.",
    .examples = top_examples,
    .options = top_options,
    .run = run_top,
    .min_operands = 0,
    .max_operands = 1,
};
