// SPDX-License-Identifier: MIT
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;

/**
 * Curator's InterProcessMutex behind a pipe: CuratorLock HOST:PORT TTL_MS.
 *
 * Lines as driver_peer.c tells. The session's time is the lease. As its documentation
 * advises, a connection state listener watches: from SUSPENDED on, until the hold ends,
 * the answer to "held" is no.
 */
public final class CuratorLock {
    private static final int CONNECT_MS = 1000;

    private final CuratorFramework client;
    private InterProcessMutex mutex;
    private volatile boolean doubtful;

    private CuratorLock(String server, int sessionMs) {
        client = CuratorFrameworkFactory.newClient(server, sessionMs,
                Math.min(sessionMs, CONNECT_MS), new RetryNTimes(2, 100));
        client.getConnectionStateListenable().addListener((any, state) -> {
            if (state == ConnectionState.SUSPENDED || state == ConnectionState.LOST) {
                doubtful = true;
            }
        });
        client.start();
    }

    private String acquire(String name, long timeoutMs) {
        InterProcessMutex wanted = new InterProcessMutex(client, "/peer/" + name);
        doubtful = !client.getZookeeperClient().isConnected();
        try {
            if (!wanted.acquire(timeoutMs, TimeUnit.MILLISECONDS)) {
                return timeoutMs == 0 ? "busy" : "timeout";
            }
        } catch (Exception error) {
            return "unknown " + error.getClass().getSimpleName();
        }
        mutex = wanted;
        return "ok";
    }

    private String release() {
        InterProcessMutex held = mutex;
        mutex = null;
        if (held == null) {
            return "late";
        }
        try {
            held.release();
            return "ok";
        } catch (IllegalMonitorStateException error) {
            return "late";
        } catch (Exception error) {
            return "unknown " + error.getClass().getSimpleName();
        }
    }

    private String obey(String[] words) {
        switch (words[0]) {
        case "acquire":
            return acquire(words[1], Long.parseLong(words[2]));
        case "release":
            return release();
        default:
            boolean held = mutex != null && mutex.isAcquiredInThisProcess();
            return held && !doubtful ? "yes" : "no";
        }
    }

    public static void main(String[] args) throws Exception {
        CuratorLock peer = new CuratorLock(args[0], Integer.parseInt(args[1]));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = input.readLine()) != null;) {
            System.out.println(peer.obey(line.split(" ")));
            System.out.flush();
        }
        peer.client.close();
        System.exit(0);
    }
}
