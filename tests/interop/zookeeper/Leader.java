/* SPDX-License-Identifier: MIT */
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessLock;

/** A LeaderSelector that is used like a lock: who leads holds. It leads once. */
final class Leader extends LeaderSelectorListenerAdapter implements InterProcessLock {
    private final LeaderSelector selector;
    private final CountDownLatch leads = new CountDownLatch(1);
    private final CountDownLatch leaves = new CountDownLatch(1);

    Leader(CuratorFramework client, String path) {
        selector = new LeaderSelector(client, path, this);
        selector.setId("a leader");
    }

    @Override
    public void takeLeadership(CuratorFramework client) throws Exception {
        leads.countDown();
        leaves.await();
    }

    @Override
    public boolean acquire(long time, TimeUnit unit) throws Exception {
        selector.start();
        if (!leads.await(time, unit)) {
            selector.close();
            return false;
        }
        return true;
    }

    @Override
    public void acquire() throws Exception {
        acquire(1, TimeUnit.DAYS);
    }

    /** Returns when the selector has let go or is about to. */
    @Override
    public void release() {
        leaves.countDown();
    }

    @Override
    public boolean isAcquiredInThisProcess() {
        return selector.hasLeadership();
    }
}
