// SPDX-License-Identifier: MIT
//
// Curator's InterProcessMutex at work: PeerCurator PORT, spoken to as bench/drivers.h
// says.

import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryNTimes;

public final class PeerCurator {
    private static final OperatingSystemMXBean PROCESS =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private PeerCurator() {
    }

    private static String work(CuratorFramework client, String path, long ms)
        throws Exception {
        InterProcessMutex lock = new InterProcessMutex(client, path);
        long count = 0;
        long longest = 0;
        long cpu = PROCESS.getProcessCpuTime();
        long now = System.nanoTime();
        long end = now + ms * 1_000_000;
        while (now < end) {
            lock.acquire();
            longest = Math.max(longest, System.nanoTime() - now);
            lock.release();
            count++;
            now = System.nanoTime();
        }
        cpu = PROCESS.getProcessCpuTime() - cpu;
        return count + " " + longest / 1000 + " " + cpu / 1000;
    }

    private static void once(InterProcessMutex lock) {
        try {
            lock.acquire();
            lock.release();
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    private static String crowd(CuratorFramework client, String path, int count)
        throws Exception {
        InterProcessMutex lock = new InterProcessMutex(client, path);
        Thread[] threads = new Thread[count];
        lock.acquire();
        for (int i = 0; i < count; i++) {
            // One object each: the waiters of one object all wake up at each event.
            threads[i] = new Thread(() -> once(new InterProcessMutex(client, path)));
            threads[i].start();
        }
        while (client.getChildren().forPath(path).size() <= count) {
            Thread.sleep(50); // pause: the next look
        }
        Thread.sleep(500); // pause: the last of them are setting their watches
        long start = System.nanoTime();
        lock.release();
        for (Thread thread : threads) {
            thread.join();
        }
        return Long.toString(System.nanoTime() - start);
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
            "127.0.0.1:" + args[0], 30000, 5000, new RetryNTimes(5, 100));
        client.start();
        client.blockUntilConnected();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            System.out.println(words[0].equals("crowd")
                ? crowd(client, "/curator/" + words[1], Integer.parseInt(words[2]))
                : work(client, "/curator/" + words[0], Long.parseLong(words[1])));
        }
        client.close();
        System.exit(0);
    }
}
