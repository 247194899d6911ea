package compat;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * How soon queues have a new owner when a member of a group joins, leaves or dies, while messages come all the time. The broker tells the other
 * members of each change; without that they would find out at their next regular rebalance, up to 20 s later.
 */
final class RebalanceScenarios {
    /** From the event to the first message at the new owner; on an idle machine it takes up to a second: the client pauses so long between two. */
    private static final double LIMIT_SECONDS = 5;
    /** How long a broker keeps the queues of an orderly consumer that says nothing any more. */
    private static final long LOCK_LIFE_MILLIS = 60_000;

    private RebalanceScenarios() {
    }

    static void register() {
        Scenario.part("rebalance-join-leave", 120, RebalanceScenarios::joinAndLeave);
        Scenario.part("rebalance-crash", 120, RebalanceScenarios::crash);
        Scenario.part("rebalance-crash-orderly", 200, RebalanceScenarios::crashOrderly);
        Scenario.part("rebalance-victim", 200, RebalanceScenarios::victim);
    }

    /** Sends to all queues of a topic in turn until it is closed. */
    private static final class Stream implements AutoCloseable {
        private final AtomicBoolean stop = new AtomicBoolean();
        private final AtomicReference<Exception> failure = new AtomicReference<>();
        private final List<String> bodies = new ArrayList<>();
        private final Thread thread;

        Stream(DefaultMQProducer producer, List<MessageQueue> queues) {
            thread = new Thread(() -> {
                try {
                    for (int i = 0; !stop.get(); i++) {
                        String body = String.format("stream-%06d", i);
                        MessageQueue queue = queues.get(i % queues.size());
                        Message message = Texts.message(queue.getTopic(), body);
                        Texts.sent(producer.send(message, queue));
                        synchronized (bodies) {
                            bodies.add(body);
                        }
                        Thread.sleep(5);
                    }
                } catch (Exception e) {
                    failure.set(e);
                }
            });
            thread.start();
        }

        /** All that were sent; none after this. */
        Set<String> end() throws Exception {
            close();
            if (failure.get() != null) {
                throw failure.get();
            }
            return new TreeSet<>(bodies);
        }

        @Override
        public void close() throws InterruptedException {
            stop.set(true);
            thread.join();
        }
    }

    /** Whether a message of one of the queues has come that was stored at this time (ms) or later. */
    private static boolean has(Received received, Set<Integer> queueIds, long since) {
        for (MessageExt message : received.all()) {
            if (queueIds.contains(message.getQueueId()) && message.getStoreTimestamp() >= since) {
                return true;
            }
        }
        return false;
    }

    private static Set<Integer> ids(Set<MessageQueue> queues) {
        Set<Integer> ids = new TreeSet<>();
        queues.forEach(queue -> ids.add(queue.getQueueId()));
        return ids;
    }

    /** Waits for a message of each of these queues, and returns how long the slowest took since {@code begin} (ms since the epoch). */
    private static long awaitEach(Context context, String what, Received received, Set<Integer> queueIds, long begin) throws Exception {
        for (int id : queueIds) {
            Check.await(context, what + ": a message of queue " + id, LIMIT_SECONDS, () -> has(received, Set.of(id), begin));
        }
        long millis = System.currentTimeMillis() - begin;
        Check.that(millis <= LIMIT_SECONDS * 1000, what + ": the queues stood still for " + millis + " ms");
        return millis;
    }

    private static String joinAndLeave(Context context) throws Exception {
        String topic = context.topic("times");
        String group = context.group("times");
        DefaultMQProducer producer = context.producer();
        Texts.send(producer, topic, "first", 1);
        List<MessageQueue> queues = new Reader(context).queues(topic);
        PushScenarios.Member first = new PushScenarios.Member(context, group, topic, "*");
        Check.await(context, "all queues at the first", 45, () -> first.queues.size() == queues.size(), () -> first.queues);
        first.received.await(context, 1, 45);
        List<Long> joins = new ArrayList<>();
        List<Long> leaves = new ArrayList<>();
        Set<String> seen = new TreeSet<>();
        try (Stream stream = new Stream(producer, queues)) {
            for (int round = 0; round < 3; round++) {
                long begin = System.currentTimeMillis();
                PushScenarios.Member second = new PushScenarios.Member(context, group, topic, "*");
                Check.await(context, "the queues shared out after the join", LIMIT_SECONDS,
                    () -> second.queues.size() == 2 && first.queues.size() == 2, () -> first.queues + " " + second.queues);
                Set<Integer> taken = ids(second.queues);
                Check.that(ids(first.queues).stream().noneMatch(taken::contains), "a queue has two owners");
                joins.add(awaitEach(context, "join", second.received, taken, begin));
                begin = System.currentTimeMillis();
                // It says good-bye early in a shutdown that may take seconds.
                Thread leaving = new Thread(second.consumer::shutdown);
                leaving.start();
                Check.await(context, "all queues at the first after the leave", LIMIT_SECONDS, () -> first.queues.size() == queues.size(),
                    () -> first.queues);
                leaves.add(awaitEach(context, "leave", first.received, taken, begin));
                leaving.join();
                seen.addAll(second.received.bodies());
            }
            Set<String> sent = stream.end();
            // What moved with its queue may come twice; nothing may be missing.
            Check.await(context, "all messages", 45, () -> {
                Set<String> all = new TreeSet<>(first.received.bodies());
                all.addAll(seen);
                return all.containsAll(sent);
            }, () -> first.received.size() + " of " + sent.size());
        }
        return "to the first message of each moved queue: join " + joins + " ms, leave " + leaves + " ms";
    }

    /** A consumer in a process of its own, to be killed. */
    private static final class Victim {
        private final Process process;

        /** Starts it and waits until it has received a message of each of {@code count} queues; returns with their ids in {@code owned}. */
        Victim(Context context, String topic, String group, boolean orderly, int count, Set<Integer> owned) throws Exception {
            List<String> command = new ArrayList<>();
            command.add(System.getProperty("java.home") + "/bin/java");
            command.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
            command.addAll(List.of("-cp", System.getProperty("java.class.path"), "compat.Scenario", "rebalance-victim"));
            command.addAll(List.of("--namesrv", context.namesrv(), "--topic", topic, "--group", group, "--orderly", Boolean.toString(orderly)));
            process = new ProcessBuilder(command).redirectErrorStream(true).start();
            context.closing(process::destroyForcibly);
            Thread reader = new Thread(() -> read(process, owned));
            reader.setDaemon(true);
            reader.start();
            Check.await(context, "messages of " + count + " queues at the other process", 90, () -> {
                Check.that(process.isAlive(), "the other process has ended");
                return owned.size() >= count;
            }, () -> owned);
        }

        private static void read(Process process, Set<Integer> owned) {
            try (BufferedReader lines = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    if (line.startsWith("QUEUE ")) {
                        owned.add(Integer.parseInt(line.substring(6)));
                    } else {
                        System.out.println("victim: " + line);
                    }
                }
            } catch (IOException e) {
                // It was killed.
            }
        }

        /** SIGKILL. */
        void kill() throws InterruptedException {
            process.destroyForcibly();
            process.waitFor();
        }
    }

    /** {@code --topic --group --orderly}: a consumer that says of which queues it receives messages, and waits for its death. */
    private static String victim(Context context) throws Exception {
        Thread parent = new Thread(RebalanceScenarios::endWithParent);
        parent.setDaemon(true);
        parent.start();
        DefaultMQPushConsumer consumer = context.pushConsumer(context.option("group"));
        consumer.subscribe(context.option("topic"), "*");
        Received received = context.option("orderly").equals("true") ? orderly(consumer) : Received.by(consumer);
        context.start(consumer);
        Set<Integer> told = new TreeSet<>();
        while (true) {
            for (int id : received.queueIds()) {
                if (told.add(id)) {
                    System.out.println("QUEUE " + id);
                    System.out.flush();
                }
            }
            received.clear();
            Thread.sleep(5);
        }
    }

    /** Our input ends when the process goes that has started us: nobody would kill us then. */
    private static void endWithParent() {
        try {
            while (System.in.read() >= 0) {
                // Nobody writes anything.
            }
        } catch (IOException e) {
            // The same end.
        }
        Runtime.getRuntime().halt(1);
    }

    private static Received orderly(DefaultMQPushConsumer consumer) {
        Received received = new Received();
        consumer.registerMessageListener((MessageListenerOrderly) (batch, orderly) -> {
            received.add(batch);
            return ConsumeOrderlyStatus.SUCCESS;
        });
        return received;
    }

    /** A member whose process is killed: its queues go to the other one as soon as the connection is closed. */
    private static String crash(Context context) throws Exception {
        String topic = context.topic("crash");
        String group = context.group("crash");
        DefaultMQProducer producer = context.producer();
        Texts.send(producer, topic, "first", 1);
        List<MessageQueue> queues = new Reader(context).queues(topic);
        PushScenarios.Member first = new PushScenarios.Member(context, group, topic, "*");
        Check.await(context, "all queues at the first", 45, () -> first.queues.size() == queues.size(), () -> first.queues);
        List<Long> times = new ArrayList<>();
        try (Stream stream = new Stream(producer, queues)) {
            for (int round = 0; round < 2; round++) {
                Set<Integer> dead = ConcurrentHashMap.newKeySet();
                Victim victim = new Victim(context, topic, group, false, 2, dead);
                Check.await(context, "the queues shared out", 10, () -> first.queues.size() == 2, () -> first.queues);
                dead.removeAll(ids(first.queues));
                Check.equal("queues of the other process", 2, dead.size());
                long begin = System.currentTimeMillis();
                victim.kill();
                times.add(awaitEach(context, "crash", first.received, dead, begin));
                Check.equal("queues at the first", queues.size(), first.queues.size());
            }
            stream.end();
        }
        return "to the first message of each queue of a killed member: " + times + " ms";
    }

    /** As {@link #crash}, in order: nobody may have the queues before the lock of the dead one has run out. */
    private static String crashOrderly(Context context) throws Exception {
        String topic = context.topic("orderly");
        String group = context.group("orderly");
        DefaultMQProducer producer = context.producer();
        Texts.send(producer, topic, "first", 1);
        List<MessageQueue> queues = new Reader(context).queues(topic);
        Set<Integer> dead = ConcurrentHashMap.newKeySet();
        long began = System.currentTimeMillis();
        try (Stream stream = new Stream(producer, queues)) {
            Victim victim = new Victim(context, topic, group, true, queues.size(), dead);
            victim.kill();
            long begin = System.currentTimeMillis();
            DefaultMQPushConsumer heir = context.pushConsumer(group);
            heir.subscribe(topic, "*");
            Received received = orderly(heir);
            context.start(heir);
            long[] first = new long[1];
            // The heir asks for the lock every 20 s.
            Check.await(context, "a message of each queue", LOCK_LIFE_MILLIS / 1000 + 45, () -> {
                if (first[0] == 0 && received.size() > 0) {
                    first[0] = System.currentTimeMillis();
                }
                return received.queueIds().size() == queues.size();
            }, received::queueIds);
            long waited = first[0] - began;
            Check.that(waited >= LOCK_LIFE_MILLIS, "a queue was given away " + waited + " ms after its first lock was taken at the earliest");
            stream.end();
            return "locks of a killed member ended after " + (first[0] - begin) + " ms";
        }
    }
}
