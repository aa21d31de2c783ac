/* SPDX-License-Identifier: MIT */
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.RetryNTimes;

/**
 * Curator's side of a pair: Peer HOSTS SESSION_MS. Understands the lines of ../peer.c,
 * each with the name of an actor before it, and puts that name before the answer. An
 * actor is a thread with lock objects of its own: to Curator both make the owner. All
 * actors share one session. Besides:
 *
 *   watch KIND NAME         watched; before the take, as Curator wants it
 *   participants KIND NAME  count N
 *
 * KIND is mutex, read, write, multi, permits:K:LIMIT (SemaphoreV2), semmutex
 * (InterProcessSemaphoreMutex) or leader (LeaderSelector). The token of a hold is the
 * czxid of its node, as holdfast's is, or 0 where Curator does not tell its node.
 */
public final class Peer implements Runnable {
    private static final TimeUnit MS = TimeUnit.MILLISECONDS;

    private final CuratorFramework client;
    private final String actor;
    private final BlockingQueue<String[]> lines = new LinkedBlockingQueue<>();
    private final Map<String, InterProcessLock> locks = new HashMap<>();
    private final Map<String, InterProcessReadWriteLock> pairs = new HashMap<>();
    private final Map<String, Deque<Collection<Lease>>> leases = new HashMap<>();
    private final Map<String, Semaphore> revoked = new HashMap<>();

    private Peer(CuratorFramework client, String actor) {
        this.client = client;
        this.actor = actor;
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
            args[0], Integer.parseInt(args[1]), 5000, new RetryNTimes(5, 100));
        client.start();
        client.blockUntilConnected();
        say("main", "ready");
        dispatch(client);
        client.close();
        System.exit(0);
    }

    private static void dispatch(CuratorFramework client) throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        Map<String, Peer> peers = new HashMap<>();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] parts = line.split(" ", 2);
            Peer peer = peers.get(parts[0]);
            if (peer == null) {
                peer = new Peer(client, parts[0]);
                peers.put(parts[0], peer);
                Thread thread = new Thread(peer, parts[0]);
                thread.setDaemon(true);
                thread.start();
            }
            peer.lines.add(parts[1].split(" "));
        }
    }

    private static synchronized void say(String actor, String answer) {
        System.out.println(actor + " " + answer);
    }

    @Override
    public void run() {
        while (true) {
            try {
                say(actor, obey(lines.take()));
            } catch (IllegalMonitorStateException e) {
                say(actor, "lost");
            } catch (Exception e) {
                say(actor, "error " + String.valueOf(e).replace('\n', ' '));
            }
        }
    }

    private String obey(String[] word) throws Exception {
        switch (word[0]) {
        case "take":
            return take(word[1], word[2], Long.parseLong(word[3]));
        case "drop":
            return drop(word[1], word[2]);
        case "downgrade":
            lock("read", word[2]).acquire();
            lock("write", word[2]).release();
            return "downgraded";
        case "watch":
            return watch(word[1], word[2]);
        case "revoked":
            Semaphore told = revoked.get(word[1] + " " + word[2]);
            return told.tryAcquire(Long.parseLong(word[3]), MS) ? "revoked" : "timeout";
        case "revoke":
            Revoker.attemptRevoke(client, participants(word[1], word[2]).iterator()
                .next());
            return "asked";
        case "participants":
            return "count " + participants(word[1], word[2]).size();
        case "loop":
            return loop(word[1], word[2], Long.parseLong(word[3]), word[4],
                        Integer.parseInt(word[5]));
        default:
            return "what?";
        }
    }

    // ---- Kinds ----------------------------------------------------------------------

    /** A mutex that tells which node is its own. */
    private static final class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework client, String path) {
            super(client, path);
        }

        String node() {
            return getLockPath();
        }
    }

    private InterProcessLock lock(String kind, String name) {
        return locks.computeIfAbsent(kind + " " + name, key -> make(kind, name));
    }

    private InterProcessLock make(String kind, String name) {
        String path = "/" + name;
        switch (kind) {
        case "read":
            return pair(name).readLock();
        case "write":
            return pair(name).writeLock();
        case "semmutex":
            return new InterProcessSemaphoreMutex(client, path);
        case "leader":
            return new Leader(client, path);
        case "multi":
            String[] names = name.split("\\+");
            return new InterProcessMultiLock(
                client, Arrays.asList("/" + names[0], "/" + names[1]));
        default:
            return new Mutex(client, path);
        }
    }

    private InterProcessReadWriteLock pair(String name) {
        return pairs.computeIfAbsent(
            name, key -> new InterProcessReadWriteLock(client, "/" + key));
    }

    private InterProcessSemaphoreV2 semaphore(String kind, String name) {
        int limit = Integer.parseInt(kind.split(":")[2]);
        return new InterProcessSemaphoreV2(client, "/" + name, limit);
    }

    // ---- Taking ---------------------------------------------------------------------

    private String take(String kind, String name, long wait) throws Exception {
        boolean held;
        if (kind.startsWith("permits:")) {
            held = takePermits(kind, name, wait);
        } else if (wait < 0) {
            lock(kind, name).acquire();
            held = true;
        } else {
            held = lock(kind, name).acquire(wait, MS);
        }
        if (!held) {
            return wait == 0 ? "busy" : "timeout";
        }
        return "held " + token(kind, name);
    }

    private boolean takePermits(String kind, String name, long wait) throws Exception {
        int count = Integer.parseInt(kind.split(":")[1]);
        Collection<Lease> got = semaphore(kind, name).acquire(count, wait, MS);
        if (got != null) {
            leases.computeIfAbsent(name, key -> new ArrayDeque<>()).push(got);
        }
        return got != null;
    }

    /** The writer's class hides its node from us: who writes is the first one. */
    private long token(String kind, String name) throws Exception {
        String node = null;
        if (kind.equals("mutex")) {
            node = ((Mutex) lock(kind, name)).node();
        } else if (kind.equals("write")) {
            node = participants(kind, name).iterator().next();
        }
        return node == null ? 0 : client.checkExists().forPath(node).getCzxid();
    }

    private String drop(String kind, String name) throws Exception {
        if (kind.startsWith("permits:")) {
            semaphore(kind, name).returnAll(leases.get(name).pop());
        } else {
            lock(kind, name).release();
        }
        if (kind.equals("leader")) {
            locks.remove(kind + " " + name);
        }
        return "dropped";
    }

    // ---- Revocation, participants ---------------------------------------------------

    private String watch(String kind, String name) {
        Semaphore told = new Semaphore(0);
        revoked.put(kind + " " + name, told);
        ((InterProcessMutex) lock(kind, name)).makeRevocable(mutex -> told.release());
        return "watched";
    }

    private Collection<String> participants(String kind, String name)
            throws Exception {
        if (kind.startsWith("permits:")) {
            return semaphore(kind, name).getParticipantNodes();
        }
        return ((InterProcessMutex) lock(kind, name)).getParticipantNodes();
    }

    // ---- Contention -----------------------------------------------------------------

    private String loop(String kind, String name, long ms, String path, int seat)
            throws Exception {
        long end = System.nanoTime() + ms * 1000000;
        boolean lingers = kind.startsWith("permits") || kind.equals("semmutex");
        long rounds = 0;
        try (Table table = new Table(kind, path, seat)) {
            while (System.nanoTime() < end) {
                String answer = take(kind, name, 60000);
                if (!answer.startsWith("held")) {
                    return answer;
                }
                table.sit(Long.parseLong(answer.substring(5)));
                if (lingers) {
                    Thread.sleep(3); // pause: so that one too many would be met
                }
                table.rise();
                rounds++;
                drop(kind, name);
                if (kind.equals("read")) {
                    Thread.sleep(1); // pause: as the readers of the other side
                }
            }
            return "done " + rounds + " " + table.wrong();
        }
    }
}
