/* SPDX-License-Identifier: MIT */
/*
 * What the man pages, `help exit`, `help environment` and `help url` say beyond the
 * tables of the commands. Texts are plain, in the markup of prose.h, and ASCII.
 *
 * A new store gets a section of its own in url_sections, beside that of `file`.
 */
#include "pages.h"

/* ---- Exit codes and environment -------------------------------------------------- */

const struct page_fact page_exit_codes[] = {
    { "0", "run hold look repair objects",
      "Done; for `run`, the command ended with 0" },
    { "1", "run hold look repair objects",
      "Somebody else holds it and `--wait 0` was given (-E changes this code), or "
      "there "
      "is no such hold or cell, or the version of a cell has moved on, or `doctor` "
      "found a trap" },
    { "64", "run hold look repair objects",
      "Wrong usage: an option, a duration, a name or a URL that cannot be understood" },
    { "69", "run hold look repair objects",
      "The store does not answer, or its answer was lost" },
    { "70", "run hold look repair objects",
      "The system failed us: memory, descriptors, a full or damaged store" },
    { "75", "run hold objects",
      "The time to wait (--wait) was over before it was our turn (-E changes this "
      "code)" },
    { "77", "run hold look repair objects",
      "The store refused: a password, a permission, a name that is in use as another "
      "kind of lock, or something this store cannot do" },
    { "78", "run hold",
      "The lock was lost while the command ran, or before it was released: the work "
      "may have run beside somebody else's" },
    { "126", "run", "The command was found but cannot be run" },
    { "127", "run", "There is no such command" },
    { "128+N", "run hold objects", "Signal N ended the command of `run`, or our wait" },
    { "anything else", "run", "The command's own exit code" },
    { 0 },
};

const struct page_fact page_environment[] = {
    { "HOLDFAST_URL", "run hold look repair objects url",
      "The store to use when --url is not given. `run` sets it for its command, so "
      "that "
      "a `holdfast` inside uses the same store" },
    { "HOLDFAST_NAME", "run",
      "Set for the command: the name of the lock it runs under. With several names "
      "this, the tokens and the ids are lists, separated by blanks" },
    { "HOLDFAST_TOKEN", "run",
      "Set for the command: the fencing token, a number larger than that of any "
      "earlier "
      "grant on this name. Hand it to what the lock guards and let that refuse smaller "
      "ones" },
    { "HOLDFAST_ID", "run",
      "Set for the command: the id of the hold. Whoever knows it can take the hold "
      "over" },
    { "HOLDFAST_RUN_ID", "run hold",
      "Set for the command: the ids of this hold and of those of the runs around it. "
      "`release` and `extend` refuse them: a `run` releases its lock itself" },
    { "HOLDFAST_OUTER", "run",
      "Set for the command if this `run` is within the command of another one: names "
      "and tokens of the runs around it, for --reentrant" },
    { "NO_COLOR", "look",
      "If it is set and not empty, nothing is coloured; neither is what does not go to "
      "a terminal" },
    { 0 },
};

const char page_files[] =
    "/var/tmp/holdfast-UID :: "
    "The store of this user when neither --url nor HOLDFAST_URL names one. It is made "
    "when it is needed. Do not delete files in it while somebody uses them.";

/* ---- Pages ----------------------------------------------------------------------- */

static const char holdfast_intro[] =
    "`holdfast` runs a command under a lock, and shows, explains and repairs locks. "
    "Without a URL the locks are those of this user on this host; no server is needed "
    "and nothing has to be set up. Past one host it uses a store that you run already; "
    "see holdfast-url(7).\n\n"
    "Every grant has a fencing token, a number larger than any before it on that name. "
    "A holder that dies frees its lock. A lock that is lost while `run` runs a command "
    "costs the command its life, before somebody else can be granted the lock, and "
    "the exit code says so.\n\n"
    "Durations are written as people write them: `500ms`, `10s`, `1m30s`, `2h`, `1d`; "
    "a plain number counts seconds. Names of locks are up to 1024 bytes of UTF-8; "
    "upper and lower case differ. A slash has no meaning of its own, but `holdfast ls "
    "jobs/` lists all names that begin so.\n\n"
    "Results go to stdout, everything else to stderr. Tables are aligned on a "
    "terminal; "
    "elsewhere columns are separated by one tab. Every command that reads has --json.";

static const struct page_section run_sections[] = {
    { "LOSS",
      "A lock is lost when its lease ends before it could be renewed, when its "
      "--max-hold "
      "is reached, when somebody breaks it (`holdfast break`), or when its store "
      "forgets "
      "it. With --on-lost=kill, the default, the command and everything it has started "
      "gets SIGTERM and, after --grace, SIGKILL: in time before the lease can pass to "
      "somebody else. This also holds when `holdfast` itself is stopped or killed, "
      "because "
      "a second process, the warden, which stands between it and the command, has the "
      "deadline too. The exit code is 78 whatever the command made of it." },
    { "JOB CONTROL",
      "The command runs in a process group of its own, which gets the terminal: "
      "Ctrl-C, "
      "Ctrl-Z, `fg` and reading from the terminal work as without `holdfast`. SIGINT, "
      "SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGWINCH that reach `holdfast` "
      "are "
      "passed on.\n\n"
      "Ctrl-Z stops the command and `holdfast`. A hold without a lease stays: others "
      "wait "
      "until the job goes on. A lease is not renewed meanwhile, and the command is "
      "ended "
      "before it is over: `fg` then shows exit code 78." },
    { 0 },
};

static const struct page_section look_sections[] = {
    { "JSON",
      "With --json a command prints one document on one line. `ls`, `show` and `top` "
      "share one form:\n\n"
      " {\"url\": \"file:/srv/locks\", \"locks\": [\n"
      "   {\"name\": \"jobs/nightly\", \"kind\": \"mutex\",\n"
      "    \"limit\": null, \"available\": null, \"left\": null, \"version\": null,\n"
      "    \"holders\": [{\"kind\": \"mutex\", \"host\": \"db3\", \"pid\": 8123,\n"
      "      \"program\": \"backup.sh\", \"note\": \"\", \"permits\": 1,\n"
      "      \"since_ms\": 4200, \"token\": 17, \"lease_ms\": null, \"place\": "
      "null}],\n"
      "    \"waiters\": []}]}\n\n"
      "The kind of a lock is mutex, rw, permits, expiring, latch or cell; that of a "
      "holder or waiter is mutex, reentrant, fair, read, write, permits, expiring or "
      "latch. `limit` and `available` are of semaphores, `left` is what is left of a "
      "latch, `version` is of a cell. Durations are milliseconds, tokens are numbers "
      "of up to 64 bits. null means not known, or that there is none: a waiter has no "
      "token, a holder no place, a hold without a lease no `lease_ms`." },
    { 0 },
};

static const char url_intro[] =
    "A URL names the store that keeps the locks: for `holdfast`, with --url or in "
    "HOLDFAST_URL, and for programs that call the library (`hf_open()`). Whoever names "
    "the same store "
    "sees the same locks.\n\n"
    " SCHEME:[//"
    "[USER[:PASSWORD]@]HOST[:PORT]][PATH][?OPTION=VALUE&...]\n\n"
    "Characters with a meaning of their own are written as %XX. An option that the "
    "store does not know, or one given twice, is an error: a lock is no place for a "
    "typing mistake. A time is written with its unit, as in 500ms, 30s or 1m30s. "
    "`holdfast version` lists the stores of this build, `holdfast "
    "doctor` examines one.";

static const struct page_section url_sections[] = {
    { "OPTIONS OF EVERY STORE",
      "ttl=DURATION :: "
      "The lease of a hold that asks for none itself. A lease is renewed as long as "
      "its "
      "holder lives. Default: what the store suggests; `file` and `mem` need none.\n\n"
      "handoff=COUNT :: "
      "How often a lock may go from thread to thread of one process before others get "
      "their turn; 0 to 1000000, default 64. Without meaning for the command, which "
      "has one thread." },
    { "PASSWORDS",
      "A password in a URL can be read by everybody who sees the command line. Better "
      "places, for stores that have passwords:\n\n"
      "password_file=PATH :: "
      "The first line of this file. A file that others may read is refused.\n\n"
      "password_env=NAME :: "
      "The value of this environment variable.\n\n"
      "No message and no listing ever shows a password." },
    { "FILE",
      "The default: locks between the processes of one host, kept in a directory on a "
      "local disk. Every kind of lock; a killed holder's lock is free at once.\n\n"
      "file: :: "
      "The directory of this user, /var/tmp/holdfast-UID. It is made when it is "
      "missing. Each user has locks of its own there.\n\n"
      "file:/DIR :: "
      "That directory, which must exist, belong to you or to root, and not be writable "
      "by everybody unless it is sticky. Symbolic links and network file systems are "
      "refused. `file:///DIR` is the same.\n\n"
      "layout=queue :: "
      "All locks in one file `state`, with queues, leases and everything else. The "
      "default.\n\n"
      "layout=flock :: "
      "One lock file per name, locked by flock(2), so that flock(1) and `holdfast` "
      "exclude each other. No fair locks, semaphores, latches, cells, leases, lists "
      "or repair. The two layouts do not see each other's locks.\n\n"
      "mode=MODE :: "
      "The permissions of the files made there, in octal, 0600 to 0666; default 0600. "
      "`mode=0660` and a directory of a common group share locks between users." },
    { "REDIS",
      "Locks between hosts, kept by a Redis (5 or newer) or Valkey server. A hold has "
      "a "
      "lease, 30 s unless `ttl` says otherwise, which is renewed as long as its holder "
      "lives.\n\n"
      "redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE] :: "
      "A server by TCP; port 6379 and database 0 unless they are given.\n\n"
      "rediss://... :: "
      "The same through TLS.\n\n"
      "redis+unix:///PATH[?db=DATABASE] :: "
      "A server on this host, by its socket.\n\n"
      "layout=redisson :: "
      "Every kind of lock, kept as Redisson keeps it: holdfast and Java services that "
      "use it stand in one queue. The default.\n\n"
      "layout=simple :: "
      "One key per lock, set with NX and PX to a random value, as redis-py, redsync "
      "and "
      "node-redlock do it. Mutexes only.\n\n"
      "script=off :: "
      "Without EVAL, for servers that forbid it; `layout=simple` only.\n\n"
      "strangers=off :: "
      "No other library takes these locks: the key need not be left open for them now "
      "and then. `layout=simple` only.\n\n"
      "timeout=DURATION :: "
      "No reply for so long: the connection is given up and made anew. Default "
      "3.3s, two thirds of the time a request has.\n\n"
      "connect_timeout=DURATION :: "
      "For name, connection and TLS together. Default 5s.\n\n"
      "tls_ca=PATH :: "
      "Whom to trust, a file or a directory. Default: whom this system trusts.\n\n"
      "tls_cert=PATH, tls_key=PATH :: "
      "A certificate of our own and its key.\n\n"
      "tls_name=NAME :: "
      "The name that the server's certificate must have. Default: HOST.\n\n"
      "tls_verify=off :: "
      "Let anybody in between read and change everything. For tests.\n\n"
      "client_name=TEXT :: "
      "Shown by CLIENT LIST. Default: holdfast.\n\n"
      "protocol=2, protocol=3 :: "
      "The version of RESP. Default: the best there is." },
    { "ZOOKEEPER",
      "Locks between hosts, kept by a ZooKeeper ensemble (3.5 or newer). A hold is an "
      "ephemeral node: its lease is the session, which is kept alive as long as its "
      "holder lives.\n\n"
      "zookeeper://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][/CHROOT] :: "
      "An ensemble; port 2181 unless it is given. Everything lies below the chroot.\n\n"
      "zookeepers://... :: "
      "The same through TLS.\n\n"
      "layout=curator :: "
      "Every kind of lock, as Curator's recipes keep it: holdfast and Java services "
      "that "
      "use it stand in one queue. The default.\n\n"
      "layout=kazoo :: "
      "Mutexes, read, write and permits as kazoo for Python lays them out.\n\n"
      "layout=single :: "
      "One node, which everybody watches; mutexes only. All waiters wake up at each "
      "release.\n\n"
      "session=DURATION :: "
      "The session's time to ask for: how long the lock of a killed holder stays "
      "taken. "
      "Default: `ttl`, else 10s. The server may grant another one.\n\n"
      "acl=creator :: "
      "Nodes belong to USER alone. Default: open, to everyone.\n\n"
      "timeout=DURATION, connect_timeout=DURATION :: "
      "As for REDIS; the latter for all hosts together.\n\n"
      "tls_ca=PATH, tls_cert=PATH, tls_key=PATH, tls_name=NAME, tls_verify=off :: "
      "As for REDIS." },
    { "MEM",
      "Locks between the threads of one process, for programs and tests. The command "
      "can open it, but shares it with nobody.\n\n"
      "mem:[SPACE] :: "
      "Clients that name the same space see the same locks." },
    { 0 },
};

const struct page pages[] = {
    { "run", "holdfast-run", 1, "Run a command under a lock",
      "run a command while holding a lock", NULL, run_sections },
    { "hold", "holdfast-hold", 1, "Hold a lock across several commands",
      "take, extend and release a lock in a script",
      "For scripts that cannot put what they do into one command. A hold taken here "
      "belongs to no process; its lease, which nobody renews, is all that ends it if "
      "it "
      "is not released. Where one command is enough, holdfast-run(1) is safer.",
      NULL },
    { "look", "holdfast-look", 1, "Look",
      "see who holds and who waits, examine a store", NULL, look_sections },
    { "repair", "holdfast-repair", 1, "Repair", "take a lock away, or ask for it",
      "Both change what others rely on. Look first: `holdfast show` NAME.", NULL },
    { "objects", "holdfast-objects", 1, "Latches, cells, semaphores",
      "count-down latches, versioned cells, semaphores", NULL, NULL },
    { "holdfast", "holdfast", 1, "Help", "locks across processes and machines",
      holdfast_intro, NULL },
    { "url", "holdfast-url", 7, "", "how holdfast names stores", url_intro,
      url_sections },
    { 0 },
};
