/* SPDX-License-Identifier: MIT */
/*
 * The texts of the man pages, `help exit`, `help environment` and `help url` that are
 * not in the tables of the commands. Plain text in the markup of prose.h, ASCII.
 *
 * A new store gets a section of its own in url_sections.
 */
#include "pages.h"

/* ---- Exit codes and environment -------------------------------------------------- */

const struct page_fact page_exit_codes[] = {
    { "0", "run hold look repair objects",
      "Done; for `run`, the command ended with 0" },
    { "1", "run hold look repair objects",
      "The lock is held by another client and `--wait 0` was given (-E changes this "
      "code); or there is no such hold or cell, a cell has another version, or "
      "`doctor` found a trap" },
    { "64", "run hold look repair objects",
      "Wrong usage: an option, a duration, a name or a URL is not valid" },
    { "69", "run hold look repair objects",
      "The store does not answer, or its answer was lost" },
    { "70", "run hold look repair objects",
      "A system error: no memory, no descriptors, a full or damaged store" },
    { "75", "run hold objects",
      "The lock was not granted within --wait (-E changes this code)" },
    { "77", "run hold look repair objects",
      "The store refused: a password, a permission, a name that is in use as another "
      "kind of lock, or something this store cannot do" },
    { "78", "run hold",
      "`run`: the command was killed because its lease or --max-hold was about to end, "
      "or the lock was lost. `release`, `extend`: the lock had been lost before. If it "
      "was lost, the work may have overlapped with that of another client" },
    { "126", "run", "The command was found but cannot be run" },
    { "127", "run", "There is no such command" },
    { "128+N", "run hold objects", "Signal N ended the command of `run`, or the wait" },
    { "anything else", "run", "The command's own exit code" },
    { 0 },
};

const struct page_fact page_environment[] = {
    { "HOLDFAST_URL", "run hold look repair objects url",
      "The store to use when --url is not given. `run` sets it for its command, so "
      "that a `holdfast` inside uses the same store" },
    { "HOLDFAST_NAME", "run",
      "Set for the command: the name of its lock. If `run` was given several names, "
      "this variable, the token and the id are lists, separated by blanks" },
    { "HOLDFAST_TOKEN", "run",
      "Set for the command: the fencing token, a number larger than that of any "
      "earlier grant on this name. Pass it to the guarded resource, which can then "
      "refuse smaller tokens" },
    { "HOLDFAST_ID", "run",
      "Set for the command: the id of the hold. Any process that knows it can adopt "
      "the hold" },
    { "HOLDFAST_RUN_ID", "run hold",
      "Set for the command: the ids of this hold and of the holds of enclosing runs. "
      "`release` and `extend` refuse them, because `run` releases its lock itself" },
    { "HOLDFAST_OUTER", "run",
      "Set for the command of a `run` inside another `run`: the names and tokens of "
      "the enclosing runs, for --reentrant" },
    { "NO_COLOR", "look",
      "If set and not empty, no output is coloured. Output that does not go to a "
      "terminal is never coloured" },
    { 0 },
};

const char page_files[] =
    "/var/tmp/holdfast-UID :: The store of this user when neither --url nor "
    "HOLDFAST_URL names one. It is created when needed. Do not delete files in it "
    "while a process uses it.";

/* ---- Pages ----------------------------------------------------------------------- */

static const char holdfast_intro[] =
    "`holdfast` runs a command under a lock, and lists, examines and repairs locks. "
    "Without a URL the locks are those of this user on this host: no server and no "
    "setup are needed. To share locks between hosts, name a store that you run "
    "already; see holdfast-url(7).\n\n"
    "Every grant has a fencing token, a number larger than that of any earlier grant "
    "on that name. The lock of a process that ends becomes free: at once on `file:`, "
    "when its lease ends on `redis:` (30 s), when its session ends on `zookeeper:` (10 "
    "s). If `run` cannot renew the lease in time, it kills the command before another "
    "client can be granted the lock. If the lock was evicted or the store lost its "
    "data, `run` kills the command when it learns of it, which may be up to a third of "
    "the lease later; meanwhile another client may hold the lock. The exit code is 78 "
    "in both cases.\n\n"
    "Durations are written as `500ms`, `10s`, `1m30s`, `2h` or `1d`; a plain number is "
    "seconds. Names of locks are up to 1024 bytes of UTF-8 and case-sensitive. A slash "
    "has no special meaning, but `holdfast ls jobs/` lists all names with that "
    "prefix.\n\n"
    "Results go to stdout, everything else to stderr. Tables are aligned on a "
    "terminal; elsewhere columns are separated by one tab. Every command that reads "
    "has --json.";

static const struct page_section run_sections[] = {
    { "LOSS",
      "A lock is lost when its lease ends before it could be renewed, when its "
      "--max-hold ends, when another client evicts the holder (`holdfast break`), or "
      "when the store loses its data.\n\n"
      "With --on-lost=kill, the default, the command and every process it has started "
      "get SIGTERM before the end of a lease that cannot be renewed, and before the "
      "end of --max-hold or of a lease with --no-renew. SIGKILL follows after --grace "
      "(2 s), and a safety margin before the end: 1 s, or a tenth of the lease if that "
      "is less. Grace and margin together are at most a third of the lease. So with a "
      "lease or --max-hold of 10 s or more SIGTERM comes 3 s before the end and "
      "SIGKILL "
      "1 s before it; with 5 s, SIGTERM comes at 3.3 s and SIGKILL at 4.5 s.\n\n"
      "If the store reports that the lock is already lost, they get SIGKILL at once. "
      "An eviction is reported at once, a loss of the store's data at the next "
      "renewal, up to a third of the lease later. Until then another client may hold "
      "the lock while the command runs.\n\n"
      "The command is also killed in time when `holdfast` itself is stopped or killed: "
      "a second process between `holdfast` and the command, the warden, knows the "
      "deadline. The exit code is 78, whatever the command's own exit code was." },
    { "JOB CONTROL",
      "The command runs in a process group of its own, which gets the terminal: "
      "Ctrl-C, Ctrl-Z, `fg` and reading from the terminal work as without `holdfast`. "
      "SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGWINCH that reach "
      "`holdfast` are passed on to the command.\n\n"
      "Ctrl-Z stops the command and `holdfast`. A lock without a lease stays held, and "
      "waiters wait until the job continues. A lease is not renewed while `holdfast` "
      "is stopped, and the warden kills the command before the lease ends: `fg` then "
      "shows exit code 78." },
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
    "HOLDFAST_URL, and for programs that call the library (`hf_open()`). All clients "
    "that name the same store see the same locks.\n\n"
    " SCHEME:[//[USER[:PASSWORD]@]HOST[:PORT]][PATH][?OPTION=VALUE&...]\n\n"
    "Characters with a special meaning are written as %XX. An option that the store "
    "does not know, or one given twice, is an error. A time is written with its unit, "
    "as in 500ms, 30s or 1m30s. `holdfast version` lists the stores of this build, "
    "`holdfast doctor` examines one.";

static const struct page_section url_sections[] = {
    { "OPTIONS OF EVERY STORE",
      "ttl=DURATION :: The lease of a hold that does not ask for one. A unit is "
      "required in a URL: `?ttl=30s`, not `?ttl=30`. A lease is renewed as long as its "
      "holder lives. Default: chosen by the store; `file` and `mem` need none.\n\n"
      "handoff=COUNT :: The most hand-offs in a row between threads of one client; "
      "then "
      "the store's queue decides. 0 (off) to 1000000, default 64. No effect on the "
      "command, which has one thread." },
    { "PASSWORDS",
      "A password in a URL can be read by every user who may list processes. Better "
      "places, for stores that have passwords:\n\n"
      "password_file=PATH :: The first line of this file. A file that other users may "
      "read is refused.\n\n"
      "password_env=NAME :: The value of this environment variable.\n\n"
      "No message and no listing ever shows a password." },
    { "FILE",
      "The default: locks between the processes of one host, kept in a directory on a "
      "local disk. It has every kind of lock; the lock of a killed holder is free at "
      "once.\n\n"
      "file: :: The directory of this user, /var/tmp/holdfast-UID, created if it is "
      "missing. Each user has separate locks there.\n\n"
      "file:/DIR :: This directory, which must exist, belong to you or to root, and "
      "not be writable by all users unless it is sticky. Symbolic links and network "
      "file systems are refused. `file:///DIR` is the same.\n\n"
      "layout=queue :: All locks in one file `state`, with queues, leases and all "
      "other features. The default.\n\n"
      "layout=flock :: One lock file per name, locked by flock(2), so that flock(1) "
      "and `holdfast` exclude each other. No fair locks, semaphores, latches, cells, "
      "leases, lists or repair. The two layouts do not see each other's locks.\n\n"
      "mode=MODE :: The permissions of the files created there, in octal, 0600 to "
      "0666; default 0600. `mode=0660` and a directory of a common group share locks "
      "between users." },
    { "REDIS",
      "Locks between hosts, kept by a Redis (5 or newer) or Valkey server. A hold has "
      "a lease, 30 s unless `ttl` says otherwise, which is renewed as long as its "
      "holder lives.\n\n"
      "redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE] :: A server by TCP; default port "
      "6379, database 0.\n\n"
      "rediss://... :: The same through TLS.\n\n"
      "redis+unix:///PATH[?db=DATABASE] :: A server on this host, by its socket.\n\n"
      "layout=redisson :: Every kind of lock, in Redisson's layout: holdfast and Java "
      "services with Redisson share one queue. The default.\n\n"
      "layout=simple :: One key per lock, set with NX and PX to a random value, as "
      "redis-py, redsync and node-redlock do. Mutexes only.\n\n"
      "script=off :: Without EVAL, for servers that forbid it; `layout=simple` "
      "only.\n\n"
      "strangers=off :: No foreign clients (of other libraries) take these locks, so "
      "holdfast does not leave the key open for them from time to time. "
      "`layout=simple` only.\n\n"
      "timeout=DURATION :: After this time without a reply the connection is closed "
      "and opened anew. Default 3.3s, two thirds of the time limit of a request.\n\n"
      "connect_timeout=DURATION :: For name lookup, connection and TLS handshake "
      "together. Default 5s.\n\n"
      "tls_ca=PATH :: The trusted certificate authorities, a file or a directory. "
      "Default: those of this system.\n\n"
      "tls_cert=PATH, tls_key=PATH :: The client's certificate and its key.\n\n"
      "tls_name=NAME :: The name that the server's certificate must have. Default: "
      "HOST.\n\n"
      "tls_verify=off :: Do not check the server's certificate, so that an attacker in "
      "between can read and change everything. For tests.\n\n"
      "client_name=TEXT :: Shown by CLIENT LIST. Default: holdfast.\n\n"
      "protocol=2, protocol=3 :: The version of RESP. Default: the highest that the "
      "server has." },
    { "ZOOKEEPER",
      "Locks between hosts, kept by a ZooKeeper ensemble (3.5 or newer). A hold is an "
      "ephemeral node: its lease is the session, which is kept alive as long as its "
      "holder lives.\n\n"
      "zookeeper://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][/CHROOT] :: An "
      "ensemble; default port 2181. All nodes are below the chroot.\n\n"
      "zookeepers://... :: The same through TLS.\n\n"
      "layout=curator :: Every kind of lock, in the layout of Curator's recipes: "
      "holdfast and Java services with Curator share one queue. The default.\n\n"
      "layout=kazoo :: Mutexes, read, write and permits in the layout of kazoo for "
      "Python.\n\n"
      "layout=single :: One node, which all waiters watch, so that each release wakes "
      "all of them; mutexes only.\n\n"
      "session=DURATION :: The session timeout to ask for: how long the lock of a "
      "killed holder stays held. Default: `ttl`, else 10s. The server may grant "
      "another one.\n\n"
      "acl=creator :: Only USER may access the nodes. Default: open, every client "
      "may.\n\n"
      "timeout=DURATION, connect_timeout=DURATION :: As for REDIS; the latter for all "
      "hosts together.\n\n"
      "tls_ca=PATH, tls_cert=PATH, tls_key=PATH, tls_name=NAME, tls_verify=off :: As "
      "for REDIS." },
    { "MEM",
      "Locks between the threads of one process, for programs and tests. The command "
      "can open it, but no other process sees its locks.\n\n"
      "mem:[SPACE] :: Clients that name the same space see the same locks." },
    { 0 },
};

const struct page pages[] = {
    { "run", "holdfast-run", 1, "Run a command under a lock",
      "run a command while holding a lock", NULL, run_sections },
    { "hold", "holdfast-hold", 1, "Hold a lock across several commands",
      "acquire, extend and release a lock in a script",
      "For scripts that cannot put their work into one command. A hold acquired here "
      "belongs to no process. No process renews its lease: if the hold is not "
      "released, it ends with its lease. Where one command is enough, holdfast-run(1) "
      "is safer.",
      NULL },
    { "look", "holdfast-look", 1, "Inspect",
      "list holders and waiters, examine a store", NULL, look_sections },
    { "repair", "holdfast-repair", 1, "Repair", "evict a holder, or ask it to release",
      "Both affect other clients. Run `holdfast show` NAME first.", NULL },
    { "objects", "holdfast-objects", 1, "Latches, cells, semaphores",
      "count-down latches, versioned cells, semaphores", NULL, NULL },
    { "holdfast", "holdfast", 1, "Help", "locks across processes and machines",
      holdfast_intro, NULL },
    { "url", "holdfast-url", 7, "", "store URLs of holdfast", url_intro, url_sections },
    { 0 },
};
