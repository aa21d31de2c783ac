/* SPDX-License-Identifier: MIT */
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson's side of a pair: Peer ADDRESS WATCHDOG_MS. Understands the lines of
 * ../peer.c, each with the name of an actor before it, and puts that name before the
 * answer. An actor is a thread: to Redisson the thread is the owner. Besides:
 *
 *   permits-set NAME N    set | there        permits-left NAME   left N
 *   expiring-set NAME N   set | there        expiring-left NAME  left N
 *   count KIND NAME       count N (the hold count of this thread)
 */
public final class Peer implements Runnable {
    private static final TimeUnit MS = TimeUnit.MILLISECONDS;

    private final RedissonClient redisson;
    private final String actor;
    private final BlockingQueue<String[]> lines = new LinkedBlockingQueue<>();
    private final Map<String, Deque<String>> permitIds = new HashMap<>();

    private Peer(RedissonClient redisson, String actor) {
        this.redisson = redisson;
        this.actor = actor;
    }

    public static void main(String[] args) throws IOException {
        Config config = new Config();
        config.setLockWatchdogTimeout(Long.parseLong(args[1]));
        config.setThreads(2);
        config.setNettyThreads(2);
        config.useSingleServer().setAddress(args[0]).setConnectionMinimumIdleSize(2)
            .setConnectionPoolSize(16).setSubscriptionConnectionMinimumIdleSize(1);
        RedissonClient redisson = Redisson.create(config);
        say("main", "ready");
        dispatch(redisson);
        System.exit(0);
    }

    private static void dispatch(RedissonClient redisson) throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        Map<String, Peer> peers = new HashMap<>();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] parts = line.split(" ", 2);
            Peer peer = peers.get(parts[0]);
            if (peer == null) {
                peer = new Peer(redisson, parts[0]);
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
            return take(word[1], word[2], Long.parseLong(word[3]),
                        Long.parseLong(word[4]));
        case "drop":
            return drop(word[1], word[2]);
        case "state":
            return lock(word[1], word[2]).isHeldByCurrentThread() ? "held" : "lost";
        case "count":
            return "count " + lock(word[1], word[2]).getHoldCount();
        case "downgrade":
            return downgrade(word[2]);
        case "loop":
            return loop(word[1], word[2], Long.parseLong(word[3]), word[4],
                        Integer.parseInt(word[5]));
        default:
            return obeyObject(word);
        }
    }

    private String obeyObject(String[] word) throws Exception {
        int number = word.length > 2 ? Integer.parseInt(word[2]) : 0;
        RCountDownLatch latch = redisson.getCountDownLatch(word[1]);
        switch (word[0]) {
        case "latch-set":
            return latch.trySetCount(number) ? "set" : "busy";
        case "latch-down":
            for (int i = 0; i < number; i++) {
                latch.countDown();
            }
            return "left " + latch.getCount();
        case "latch-count":
            return "left " + latch.getCount();
        case "latch-wait":
            return latch.await(number, MS) ? "open" : "timeout";
        case "permits-set":
            return permits(word[1]).trySetPermits(number) ? "set" : "there";
        case "permits-left":
            return "left " + permits(word[1]).availablePermits();
        case "expiring-set":
            return expiring(word[1]).trySetPermits(number) ? "set" : "there";
        case "expiring-left":
            return "left " + expiring(word[1]).availablePermits();
        default:
            return "what?";
        }
    }

    private RSemaphore permits(String name) {
        return redisson.getSemaphore(name);
    }

    private RPermitExpirableSemaphore expiring(String name) {
        return redisson.getPermitExpirableSemaphore(name);
    }

    private RLock lock(String kind, String name) {
        switch (kind) {
        case "fair":
            return redisson.getFairLock(name);
        case "read":
            return redisson.getReadWriteLock(name).readLock();
        case "write":
            return redisson.getReadWriteLock(name).writeLock();
        case "fenced":
            return redisson.getFencedLock(name);
        case "spin":
            return redisson.getSpinLock(name);
        case "multi":
            String[] names = name.split("\\+");
            return redisson.getMultiLock(redisson.getLock(names[0]),
                                         redisson.getLock(names[1]));
        default:
            return redisson.getLock(name);
        }
    }

    private String take(String kind, String name, long wait, long ttl)
            throws Exception {
        boolean held;
        if (kind.startsWith("permits:")) {
            int permits = Integer.parseInt(kind.split(":")[1]);
            held = takePermits(permits(name), permits, wait);
        } else if (kind.startsWith("expiring:")) {
            held = takeExpiring(name, wait, ttl == 0 ? 30000 : ttl);
        } else {
            held = takeLock(lock(kind, name), wait, ttl == 0 ? -1 : ttl);
        }
        if (!held) {
            return wait == 0 ? "busy" : "timeout";
        }
        boolean fenced = kind.equals("fenced");
        return "held " + (fenced ? redisson.getFencedLock(name).getToken() : 0L);
    }

    private static boolean takeLock(RLock lock, long wait, long ttl) throws Exception {
        if (wait < 0 && lock instanceof RFencedLock) {
            ((RFencedLock) lock).lockAndGetToken();
        } else if (wait < 0) {
            lock.lock(ttl, MS);
        } else if (wait == 0 && ttl < 0) {
            return lock.tryLock();
        } else {
            return lock.tryLock(wait, ttl, MS);
        }
        return true;
    }

    private static boolean takePermits(RSemaphore semaphore, int permits, long wait)
            throws Exception {
        if (wait == 0) {
            return semaphore.tryAcquire(permits);
        }
        if (wait > 0) {
            return semaphore.tryAcquire(permits, wait, MS);
        }
        semaphore.acquire(permits);
        return true;
    }

    private boolean takeExpiring(String name, long wait, long ttl) throws Exception {
        String id = wait < 0 ? expiring(name).acquire(ttl, MS)
                             : expiring(name).tryAcquire(wait, ttl, MS);
        if (id == null) {
            return false;
        }
        permitIds.computeIfAbsent(name, n -> new ArrayDeque<>()).push(id);
        return true;
    }

    private String drop(String kind, String name) {
        if (kind.startsWith("permits:")) {
            permits(name).release(Integer.parseInt(kind.split(":")[1]));
        } else if (kind.startsWith("expiring:")) {
            boolean mine = expiring(name).tryRelease(permitIds.get(name).pop());
            return mine ? "dropped" : "lost";
        } else {
            lock(kind, name).unlock();
        }
        return "dropped";
    }

    private String downgrade(String name) {
        lock("read", name).lock();
        lock("write", name).unlock();
        return "downgraded";
    }

    private String loop(String kind, String name, long ms, String path, int seat)
            throws Exception {
        long end = System.nanoTime() + ms * 1000000;
        long rounds = 0;
        try (Table table = new Table(kind, path, seat)) {
            while (System.nanoTime() < end) {
                String answer = take(kind, name, kind.equals("fenced") ? -1 : 60000, 0);
                if (!answer.startsWith("held")) {
                    return answer;
                }
                table.sit(Long.parseLong(answer.substring(5)));
                table.rise();
                rounds++;
                answer = drop(kind, name);
                if (!answer.equals("dropped")) {
                    return answer;
                }
                if (kind.equals("read")) {
                    Thread.sleep(1); // pause: readers without end keep all writers out
                }
            }
            return "done " + rounds + " " + table.wrong;
        }
    }

    /** The witness of ../table.h. */
    private static final class Table implements AutoCloseable {
        private static final int HEAD = 42;
        private static final int SEATS = 16;
        private final RandomAccessFile file;
        private final int seat;
        private int weight = 9;
        private int room = 9;
        private long wrong;

        Table(String kind, String path, int seat) throws IOException {
            String[] parts = kind.split(":");
            if (kind.equals("read") || parts[0].equals("expiring")) {
                weight = 1;
            } else if (parts[0].equals("permits")) {
                weight = Integer.parseInt(parts[1]);
            }
            if (parts.length > 1) {
                room = Integer.parseInt(parts[parts.length - 1]);
            }
            this.seat = seat;
            file = new RandomAccessFile(path, "rw");
        }

        private int sum() throws IOException {
            byte[] seats = new byte[SEATS];
            file.seek(HEAD);
            file.readFully(seats);
            int sum = 0;
            for (byte digit : seats) {
                sum += digit - '0';
            }
            return sum;
        }

        void sit(long token) throws IOException {
            file.seek(HEAD + seat);
            file.write('0' + weight);
            if (sum() > room) {
                wrong++;
            }
            if (weight == room) {
                count(token);
            }
        }

        private void count(long token) throws IOException {
            byte[] head = new byte[HEAD];
            file.seek(0);
            file.readFully(head);
            String text = new String(head, StandardCharsets.US_ASCII);
            long count = Long.parseLong(text.substring(0, 20));
            long last = Long.parseLong(text.substring(21, 41));
            if (token != 0 && token <= last) {
                wrong++;
            }
            text = String.format("%020d %020d\n", count + 1, token == 0 ? last : token);
            file.seek(0);
            file.write(text.getBytes(StandardCharsets.US_ASCII));
        }

        void rise() throws IOException {
            if (sum() > room) {
                wrong++;
            }
            file.seek(HEAD + seat);
            file.write('0');
        }

        @Override
        public void close() throws IOException {
            file.close();
        }
    }
}
