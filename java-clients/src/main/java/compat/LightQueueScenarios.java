package compat;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Light queues ({@code enableLmq} and {@code enableMultiDispatch}): messages that name several {@code %LMQ%} queues. A file keeps what was
 * sent, a line a message: names parted by commas, body.
 */
final class LightQueueScenarios {
    private static final String DISPATCH = "INNER_MULTI_DISPATCH";

    private LightQueueScenarios() {
    }

    static void register() {
        Scenario.part("light-queue-fill", 120, LightQueueScenarios::fill);
        Scenario.part("light-queue-read", 120, LightQueueScenarios::read);
        Scenario.part("light-queue-wait", 120, LightQueueScenarios::await);
        Scenario.part("light-queue-offsets", 120, LightQueueScenarios::offsets);
    }

    private static Path file(Context context) {
        return Path.of(context.option("file"));
    }

    /** {@code --topic --file --prefix [--count]}. */
    private static String fill(Context context) throws Exception {
        String topic = context.option("topic");
        DefaultMQProducer producer = context.producer();
        int count = context.number("count", 30);
        for (int i = 0; i < count; i++) {
            String names = i % 5 == 4 ? "" : "%LMQ%all,%LMQ%of-" + i % 3;
            String body = context.option("prefix") + "-" + i;
            Message message = Texts.message(topic, body);
            message.setTags("t" + i % 2);
            if (!names.isEmpty()) {
                message.putUserProperty(DISPATCH, names);
            }
            Texts.sent(producer.send(message));
            Files.writeString(file(context), names + "\t" + body + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }
        return count + " messages";
    }

    /** A light queue of the broker that has a topic. */
    private static MessageQueue light(Reader reader, String topic, String name) throws Exception {
        return light(reader.consumer(), reader.queues(topic).get(0), name);
    }

    private static MessageQueue light(DefaultMQPullConsumer consumer, MessageQueue other, String name) throws Exception {
        // The client learns the broker's address with the route of another topic: a light queue has none.
        consumer.maxOffset(other);
        return new MessageQueue(name, other.getBrokerName(), 0);
    }

    /** {@code --topic --file}: every light queue holds, in order, what named it. */
    private static String read(Context context) throws Exception {
        String topic = context.option("topic");
        Map<String, List<String>> expected = new TreeMap<>();
        List<String> sent = new ArrayList<>();
        for (String line : Files.readAllLines(file(context), StandardCharsets.UTF_8)) {
            String[] fields = line.split("\t", 2);
            for (String name : fields[0].isEmpty() ? new String[0] : fields[0].split(",")) {
                expected.computeIfAbsent(name, key -> new ArrayList<>()).add(fields[1]);
            }
            sent.add(fields[1]);
        }
        Reader reader = new Reader(context);
        DefaultMQPullConsumer consumer = reader.consumer();
        for (Map.Entry<String, List<String>> entry : expected.entrySet()) {
            MessageQueue queue = light(reader, topic, entry.getKey());
            reader.awaitEnd(queue, entry.getValue().size());
            Check.equal("the beginning of " + queue, 0L, consumer.minOffset(queue));
            List<String> found = new ArrayList<>();
            List<String> odd = new ArrayList<>();
            long next = 0;
            while (next < entry.getValue().size()) {
                PullResult result = consumer.pull(queue, "*", next, 32);
                Check.equal("pull status at " + next + " of " + queue, PullStatus.FOUND, result.getPullStatus());
                long at = next;
                for (MessageExt message : result.getMsgFoundList()) {
                    Check.equal("the topic of the record", topic, message.getTopic());
                    found.add(Reader.text(message));
                    if ("t1".equals(message.getTags())) {
                        odd.add(Reader.text(message));
                    }
                    String[] names = message.getProperty(DISPATCH).split(",");
                    String[] offsets = message.getProperty("INNER_MULTI_QUEUE_OFFSET").split(",");
                    Check.equal("offsets", names.length, offsets.length);
                    for (int i = 0; i < names.length; i++) {
                        if (names[i].equals(entry.getKey())) {
                            Check.equal("the offset in " + names[i], Long.toString(at), offsets[i]);
                        }
                    }
                    at++;
                }
                next = result.getNextBeginOffset();
                Check.equal("the next offset", at, next);
            }
            Check.equal("messages of " + queue, entry.getValue(), found);
            Check.equal("messages of " + queue + " with a tag", odd, tagged(consumer, queue));
        }
        Check.equal("messages of the topic", (long) sent.size(), reader.count(topic));
        List<String> odd = new ArrayList<>();
        for (MessageQueue queue : reader.queues(topic)) {
            odd.addAll(tagged(consumer, queue));
        }
        sent.removeIf(body -> Integer.parseInt(body.substring(body.lastIndexOf('-') + 1)) % 2 == 0);
        sent.sort(null);
        odd.sort(null);
        Check.equal("messages of the topic with a tag", sent, odd);
        return expected.size() + " light queues";
    }

    /** What a queue has with the tag t1: the broker leaves the others out. */
    private static List<String> tagged(DefaultMQPullConsumer consumer, MessageQueue queue) throws Exception {
        List<String> found = new ArrayList<>();
        long end = consumer.maxOffset(queue);
        for (long next = 0; next < end;) {
            PullResult result = consumer.pull(queue, "t1", next, 32);
            if (result.getPullStatus() == PullStatus.FOUND) {
                result.getMsgFoundList().forEach(message -> found.add(Reader.text(message)));
            }
            Check.that(result.getNextBeginOffset() > next, "no progress at " + next + " of " + queue);
            next = result.getNextBeginOffset();
        }
        return found;
    }

    /** {@code --topic}: a pull waits at a light queue that nobody has sent to. */
    private static String await(Context context) throws Exception {
        String topic = context.option("topic");
        Reader reader = new Reader(context);
        DefaultMQProducer producer = context.producer();
        Texts.sent(producer.send(Texts.message(topic, "route")));
        MessageQueue queue = light(reader, topic, "%LMQ%wait-" + System.nanoTime());
        Check.equal("the end of a new light queue", 0L, reader.consumer().maxOffset(queue));
        for (int i = 0; i < 3; i++) {
            String body = "late-" + i;
            Message message = Texts.message(topic, body);
            message.putUserProperty(DISPATCH, queue.getTopic());
            Thread sender = new Thread(() -> {
                try {
                    Thread.sleep(300);
                    producer.send(message);
                } catch (Exception e) {
                    System.out.println("the message was not sent: " + e);
                }
            });
            sender.start();
            long start = System.nanoTime();
            PullResult result = reader.consumer().pullBlockIfNotFound(queue, "*", i, 32);
            long millis = (System.nanoTime() - start) / 1_000_000;
            sender.join();
            Check.equal("pull status", PullStatus.FOUND, result.getPullStatus());
            Check.equal("bodies", List.of(body), Reader.bodies(result.getMsgFoundList()));
            Check.that(millis < 5_000, "the pull waited " + millis + " ms");
        }
        return "3 messages waited for";
    }

    /** {@code --topic --offset [--before]}: offsets of a light group survive, as those of another one do. */
    private static String offsets(Context context) throws Exception {
        String topic = context.option("topic");
        for (String group : List.of("%LMQ%group", "G-light")) {
            Reader reader = new Reader(context);
            DefaultMQPullConsumer consumer = context.pullConsumer(group);
            MessageQueue queue = light(consumer, reader.queues(topic).get(0), "%LMQ%all");
            // A pull makes the group.
            Check.equal("pull status", PullStatus.FOUND, consumer.pull(queue, "*", 0, 1).getPullStatus());
            long before = Long.parseLong(context.option("before", "-1"));
            if (before >= 0) {
                Check.equal("the stored offset of " + group, before, consumer.fetchConsumeOffset(queue, true));
            }
            long offset = Long.parseLong(context.option("offset"));
            consumer.getDefaultMQPullConsumerImpl().updateConsumeOffset(queue, offset);
            consumer.getDefaultMQPullConsumerImpl().getOffsetStore().updateConsumeOffsetToBroker(queue, offset, false);
            Check.equal("the offset of " + group, offset, consumer.fetchConsumeOffset(queue, true));
        }
        return "two groups";
    }
}
