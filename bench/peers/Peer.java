// SPDX-License-Identifier: MIT
//
// Redisson at work: Peer PORT, spoken to as peer.py is.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public final class Peer {
    private Peer() {
    }

    private static String work(RedissonClient client, String name, long ms) {
        RLock lock = client.getLock(name);
        long count = 0;
        long longest = 0;
        long now = System.nanoTime();
        long end = now + ms * 1_000_000;
        while (now < end) {
            lock.lock();
            longest = Math.max(longest, System.nanoTime() - now);
            lock.unlock();
            count++;
            now = System.nanoTime();
        }
        return count + " " + longest / 1000;
    }

    public static void main(String[] args) throws Exception {
        Config config = new Config();
        config.useSingleServer()
            .setAddress("redis://127.0.0.1:" + args[0])
            .setConnectionMinimumIdleSize(1)
            .setConnectionPoolSize(4);
        RedissonClient client = Redisson.create(config);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            System.out.println(work(client, words[0], Long.parseLong(words[1])));
        }
        client.shutdown();
    }
}
