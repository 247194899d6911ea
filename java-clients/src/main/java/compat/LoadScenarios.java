package compat;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Parts of stories in which a server goes away: what was confirmed is written to a file, and looked for later. */
final class LoadScenarios {
    private LoadScenarios() {
    }

    static void register() {
        Scenario.part("produce", 60, LoadScenarios::produce);
        Scenario.part("consume", 90, LoadScenarios::consume);
        Scenario.part("load", 300, LoadScenarios::load);
        Scenario.part("follow", 400, LoadScenarios::follow);
        Scenario.part("verify", 120, LoadScenarios::verify);
        Scenario.part("dump", 120, LoadScenarios::dump);
    }

    private static Path file(Context context) {
        return Path.of(context.option("file"));
    }

    private static Message message(Context context, String key) {
        StringBuilder body = new StringBuilder(key).append(' ');
        int size = context.number("size", 200);
        while (body.length() < size) {
            body.append((char) ('a' + body.length() % 26));
        }
        return new Message(context.option("topic"), "load", key, body.toString().getBytes(StandardCharsets.UTF_8));
    }

    /** {@code --topic --file [--count --prefix]}: every message is confirmed. */
    private static String produce(Context context) throws Exception {
        DefaultMQProducer producer = context.producer();
        int count = context.number("count", 100);
        try (Acks acks = new Acks(file(context))) {
            for (int i = 0; i < count; i++) {
                String key = context.option("prefix", "p") + "-" + i;
                Check.that(acks.answered(key, producer.send(message(context, key))), key + " was not confirmed");
            }
        }
        return count + " acked";
    }

    /** {@code --topic --group --file}: a push consumer gets every confirmed message that an earlier run of it has not confirmed. */
    private static String consume(Context context) throws Exception {
        DefaultMQPushConsumer consumer = context.pushConsumer(context.option("group"));
        consumer.subscribe(context.option("topic"), "*");
        Received received = Received.by(consumer);
        context.start(consumer);
        String details = awaitAcked(context, received);
        if (context.option("exact", "false").equals("true")) {
            Check.that(details.endsWith(" 0 repeated, 0 not confirmed"), details);
            consumer.shutdown();
            context.awaitStoredOffsets(context.option("group"), context.option("topic"));
        }
        return details;
    }

    /** {@code --topic --group --file}, beside {@code load}: a push consumer that lives through everything gets every confirmed message. */
    private static String follow(Context context) throws Exception {
        DefaultMQPushConsumer consumer = context.pushConsumer(context.option("group"));
        consumer.subscribe(context.option("topic"), "*");
        Received received = Received.by(consumer);
        context.start(consumer);
        received.await(context, 1, 60);
        System.out.println("FOLLOWING");
        Check.await(context, "the end of the load", 300, () -> Files.exists(done(context)), received::size);
        return awaitAcked(context, received);
    }

    /** The file that says that the load has ended and its acks are complete. */
    private static Path done(Context context) {
        return Path.of(context.option("file") + ".done");
    }

    /** Waits until every message that the file calls confirmed has been received; nothing else may come but what is unknown. */
    private static String awaitAcked(Context context, Received received) throws Exception {
        Map<String, Acks.Ack> acks = Acks.load(file(context));
        Set<String> wanted = new TreeSet<>();
        acks.forEach((key, ack) -> {
            if (ack.result.equals("acked") && key.startsWith(context.option("prefix", ""))) {
                wanted.add(key);
            }
        });
        // The size can pass the number of wanted messages by those whose answer was lost.
        Set<String> seen = new TreeSet<>();
        Check.await(context, wanted.size() + " confirmed messages", 75, () -> received.size() >= wanted.size() && keys(received, seen).containsAll(wanted),
            () -> seen.size());
        int repeated = received.size() - seen.size();
        for (String key : seen) {
            Check.that(acks.containsKey(key) && !acks.get(key).result.equals("failed"), key + " was consumed but not sent");
        }
        seen.removeAll(wanted);
        return wanted.size() + " of " + wanted.size() + " acked consumed, " + repeated + " repeated, " + seen.size() + " not confirmed";
    }

    private static Set<String> keys(Received received, Set<String> into) {
        into.clear();
        received.all().forEach(message -> into.add(message.getKeys()));
        return into;
    }

    /** {@code --topic --file --stop FILE [--threads --size --prefix --pause MS]}: sends until the file {@code stop} exists. */
    private static String load(Context context) throws Exception {
        DefaultMQProducer producer = context.unstartedProducer();
        producer.setSendMsgTimeout(5_000);
        // The first answer counts: a message that is sent again may be stored twice.
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        Path stop = Path.of(context.option("stop"));
        int threads = context.number("threads", 8);
        int pause = context.number("pause", 0);
        String prefix = context.option("prefix", "l");
        AtomicLong acked = new AtomicLong();
        AtomicLong others = new AtomicLong();
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        context.closing(pool::shutdownNow);
        try (Acks acks = new Acks(file(context))) {
            List<Future<?>> parts = new ArrayList<>();
            for (int thread = 0; thread < threads; thread++) {
                String name = prefix + thread + "-";
                parts.add(pool.submit(() -> {
                    for (long i = 0; !Files.exists(stop); i++) {
                        String key = name + i;
                        try {
                            (acks.answered(key, producer.send(message(context, key))) ? acked : others).incrementAndGet();
                            TimeUnit.MILLISECONDS.sleep(pause);
                        } catch (InterruptedException e) {
                            throw e;
                        } catch (java.io.IOException e) {
                            throw e;
                        } catch (Exception e) {
                            acks.threw(key, e);
                            others.incrementAndGet();
                            // A server that is away refuses at once: ask again a little later, not in a tight loop.
                            TimeUnit.MILLISECONDS.sleep(100);
                        }
                    }
                    return null;
                }));
            }
            for (Future<?> part : parts) {
                part.get();
            }
        }
        Files.createFile(done(context));
        return "acked " + acked + ", others " + others;
    }

    /**
     * {@code --topic --file [--failures no]}: reads every queue and compares with the file. Nothing confirmed is missing or elsewhere, nothing is
     * there twice, nothing is there that was refused or never sent.
     */
    private static String verify(Context context) throws Exception {
        Map<String, Acks.Ack> acks = Acks.load(file(context));
        String topic = context.option("topic");
        Reader reader = new Reader(context);
        List<MessageQueue> queues = reader.queues(topic);
        Map<Integer, Long> ends = new HashMap<>();
        acks.values().forEach(ack -> ends.merge(ack.queue, ack.offset + 1, Math::max));
        ends.remove(-1);
        for (MessageQueue queue : queues) {
            long end = ends.getOrDefault(queue.getQueueId(), 0L);
            Check.await(context, "the end " + end + " of " + queue, 45, () -> max(reader, queue) >= end, () -> max(reader, queue));
        }
        Map<String, MessageExt> stored = new HashMap<>();
        long duplicates = 0;
        for (MessageQueue queue : queues) {
            for (MessageExt message : reader.read(queue)) {
                duplicates += stored.put(message.getKeys(), message) == null ? 0 : 1;
                Check.equal("body of " + message.getKeys(), message(context, message.getKeys()).getBody(), message.getBody());
            }
        }
        long lost = 0;
        long elsewhere = 0;
        long unknownStored = 0;
        long refusedStored = 0;
        String example = "";
        for (Map.Entry<String, Acks.Ack> entry : acks.entrySet()) {
            MessageExt message = stored.remove(entry.getKey());
            Acks.Ack ack = entry.getValue();
            if (ack.result.equals("acked") && message == null) {
                lost++;
                example = entry.getKey();
            } else if (ack.result.equals("acked") && (message.getQueueId() != ack.queue || message.getQueueOffset() != ack.offset)) {
                elsewhere++;
                example = entry.getKey();
            } else if (ack.result.equals("unknown") && message != null) {
                unknownStored++;
            } else if (ack.result.equals("failed") && message != null) {
                refusedStored++;
                example = entry.getKey();
            }
        }
        String counts = String.format("acked %d, failed %d, unknown %d (stored %d), lost %d, elsewhere %d, duplicates %d, refused but stored %d, never sent %d",
            Acks.count(acks, "acked"), Acks.count(acks, "failed"), Acks.count(acks, "unknown"), unknownStored, lost, elsewhere, duplicates,
            refusedStored, stored.size());
        Check.that(lost + elsewhere + duplicates + refusedStored + stored.size() == 0, counts + "; for example " + example + stored.keySet());
        Check.that(Acks.count(acks, "acked") > 0, "nothing was acked: " + counts);
        if (context.option("failures", "yes").equals("no")) {
            Check.equal("messages not acked", 0L, Acks.count(acks, "failed") + Acks.count(acks, "unknown"));
        }
        return counts;
    }

    private static long max(Reader reader, MessageQueue queue) {
        try {
            return reader.consumer().maxOffset(queue);
        } catch (Exception e) {
            return -1; // the server may still be starting
        }
    }

    /** {@code --topics A,B --file}: writes every message of the topics, a line each, its fields parted by tabs. */
    private static String dump(Context context) throws Exception {
        Reader reader = new Reader(context);
        List<String> lines = new ArrayList<>();
        for (String topic : context.option("topics").split(",")) {
            for (MessageQueue queue : reader.queues(topic)) {
                for (MessageExt message : reader.read(queue)) {
                    StringBuilder digest = new StringBuilder();
                    for (byte each : MessageDigest.getInstance("SHA-256").digest(message.getBody())) {
                        digest.append(String.format("%02x", each));
                    }
                    String[] fields = {topic, Integer.toString(message.getQueueId()), Long.toString(message.getQueueOffset()),
                        Long.toString(message.getCommitLogOffset()), Integer.toString(message.getStoreSize()), message.getMsgId(),
                        Long.toString(message.getBornTimestamp()), Long.toString(message.getStoreTimestamp()),
                        Integer.toString(message.getReconsumeTimes()), message.getTags(), message.getKeys(), digest.toString()};
                    lines.add(String.join("\t", fields).replace('\n', ' '));
                }
            }
        }
        Files.write(file(context), lines, StandardCharsets.UTF_8);
        return lines.size() + " messages";
    }
}
