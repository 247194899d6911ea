package compat;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A compaction topic ({@code cleanup.policy=COMPACTION}), which somebody has made: of each key the last message stays. A file keeps what
 * was sent, a line a message: queue, offset, key, body. A message without body deletes its key.
 */
final class CompactionScenarios {
    private CompactionScenarios() {
    }

    static void register() {
        Scenario.part("compaction-fill", 120, CompactionScenarios::fill);
        Scenario.part("compaction-read", 120, CompactionScenarios::read);
        Scenario.part("compaction-consume", 120, CompactionScenarios::consume);
    }

    private static final class Sent {
        final String key;
        final String body;

        Sent(String key, String body) {
            this.key = key;
            this.body = body;
        }
    }

    /** What the file says, queue by queue and by offset. */
    private static TreeMap<Integer, TreeMap<Long, Sent>> sent(Context context) throws Exception {
        TreeMap<Integer, TreeMap<Long, Sent>> queues = new TreeMap<>();
        for (String line : Files.readAllLines(Path.of(context.option("file")), StandardCharsets.UTF_8)) {
            String[] fields = line.split("\t", 4);
            Sent before = queues.computeIfAbsent(Integer.parseInt(fields[0]), id -> new TreeMap<>())
                .put(Long.parseLong(fields[1]), new Sent(fields[2], fields[3]));
            Check.that(before == null, "two messages with one offset: " + line);
        }
        return queues;
    }

    /** The offset of the last message of each key, without the keys that were deleted. */
    private static Map<String, Long> last(TreeMap<Long, Sent> messages) {
        Map<String, Long> last = new TreeMap<>();
        messages.forEach((offset, message) -> {
            if (message.body.isEmpty()) {
                last.remove(message.key);
            } else {
                last.put(message.key, offset);
            }
        });
        return last;
    }

    /** {@code --topic --file --prefix [--count --keys]}: messages with few keys, each key in a queue of its own choice. */
    private static String fill(Context context) throws Exception {
        String topic = context.option("topic");
        String prefix = context.option("prefix");
        int count = context.number("count", 2000);
        int keys = context.number("keys", 20);
        DefaultMQProducer producer = context.producer();
        context.awaitRoute(topic);
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        queues.sort(null);
        Message keyless = Texts.message(topic, "no keys");
        MQBrokerException refused = Check.thrown("a message without keys", MQBrokerException.class, () -> producer.send(keyless, queues.get(0)));
        Check.equal("code for a message without keys", 13, refused.getResponseCode());
        StringBuilder lines = new StringBuilder();
        for (int i = 0; i < count; i++) {
            int number = i % keys;
            Message message = Texts.message(topic, prefix + "-" + i);
            message.setKeys("key-" + number);
            message.setTags("t" + i % 2);
            SendResult result = Texts.sent(producer.send(message, queues.get(number % queues.size())));
            lines.append(result.getMessageQueue().getQueueId()).append('\t').append(result.getQueueOffset()).append('\t')
                .append(message.getKeys()).append('\t').append(prefix).append('-').append(i).append('\n');
        }
        Files.writeString(Path.of(context.option("file")), lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        return count + " messages with " + keys + " keys";
    }

    /** A message without body has none at all. */
    private static String text(MessageExt message) {
        return message.getBody() == null ? "" : Reader.text(message);
    }

    /** Everything that can be pulled from an offset on; checks what must hold of each page. */
    private static TreeMap<Long, MessageExt> all(DefaultMQPullConsumer consumer, MessageQueue queue, long from) throws Exception {
        TreeMap<Long, MessageExt> found = new TreeMap<>();
        long next = from;
        while (true) {
            PullResult result = consumer.pull(queue, "*", next, 32);
            if (result.getPullStatus() == PullStatus.NO_NEW_MSG) {
                return found;
            }
            Check.equal("status at " + next + " of " + queue, PullStatus.FOUND, result.getPullStatus());
            long end = next;
            for (MessageExt message : result.getMsgFoundList()) {
                Check.that(message.getQueueOffset() >= end, "offset " + message.getQueueOffset() + " after " + end + " of " + queue);
                Check.equal("topic", queue.getTopic(), message.getTopic());
                Check.equal("queue id", queue.getQueueId(), message.getQueueId());
                found.put(message.getQueueOffset(), message);
                end = message.getQueueOffset() + 1;
            }
            Check.equal("next offset after a pull of " + queue, end, result.getNextBeginOffset());
            next = end;
        }
    }

    /**
     * {@code --topic --file [--closed N]}: the last message of each key is there, everything is what was sent, and a pull from anywhere
     * begins with the next message that is left. With {@code --closed} waits until no more than so many replaced messages are left in a
     * queue.
     */
    private static String read(Context context) throws Exception {
        TreeMap<Integer, TreeMap<Long, Sent>> sent = sent(context);
        int closed = context.number("closed", Integer.MAX_VALUE);
        Reader reader = new Reader(context);
        DefaultMQPullConsumer consumer = reader.consumer();
        int total = 0;
        int kept = 0;
        for (MessageQueue queue : reader.queues(context.option("topic"))) {
            TreeMap<Long, Sent> messages = sent.getOrDefault(queue.getQueueId(), new TreeMap<>());
            if (messages.isEmpty()) {
                continue;
            }
            reader.awaitEnd(queue, messages.lastKey() + 1);
            Map<String, Long> last = last(messages);
            int[] left = new int[1];
            Check.await(context, "the compaction of " + queue, 100, () -> {
                try {
                    left[0] = all(consumer, queue, 0).size() - last.size();
                } catch (Check.Failed failed) {
                    throw failed;
                } catch (Exception e) {
                    throw new Check.Failed("reading " + queue + ": " + e);
                }
                return left[0] <= closed;
            }, () -> left[0] + " replaced messages");
            TreeMap<Long, MessageExt> found = all(consumer, queue, 0);
            for (Map.Entry<Long, MessageExt> each : found.entrySet()) {
                Sent expected = messages.get(each.getKey());
                Check.that(expected != null, "nobody sent a message with offset " + each.getKey() + " of " + queue);
                Check.equal("body at " + each.getKey(), expected.body, text(each.getValue()));
                Check.equal("key at " + each.getKey(), expected.key, each.getValue().getKeys());
            }
            for (Map.Entry<String, Long> each : last.entrySet()) {
                Check.that(found.containsKey(each.getValue()), "the last message of " + each.getKey() + " is missing: " + each.getValue() + " of " + queue);
            }
            places(consumer, queue, found, messages.lastKey() + 1);
            total += messages.size();
            kept += found.size();
        }
        return kept + " of " + total + " messages are left";
    }

    /** Pulls from offsets with and without a message, and from behind the end. */
    private static void places(DefaultMQPullConsumer consumer, MessageQueue queue, TreeMap<Long, MessageExt> found, long end)
        throws Exception {
        long first = found.firstKey();
        List<Long> offsets = new ArrayList<>(List.of(0L, first, end - 1));
        for (long offset : found.keySet()) {
            if (!found.containsKey(offset + 1) && offset + 1 < end) {
                offsets.add(offset + 1);
            }
        }
        for (long offset : offsets) {
            PullResult result = consumer.pull(queue, "*", offset, 1);
            Check.equal("status at " + offset + " of " + queue, PullStatus.FOUND, result.getPullStatus());
            Check.equal("message at " + offset + " of " + queue, found.ceilingKey(offset), result.getMsgFoundList().get(0).getQueueOffset());
            Check.equal("min offset of " + queue, first, result.getMinOffset());
            Check.equal("max offset of " + queue, end, result.getMaxOffset());
        }
        Check.equal("status at the end of " + queue, PullStatus.NO_NEW_MSG, consumer.pull(queue, "*", end, 32).getPullStatus());
        PullResult beyond = consumer.pull(queue, "*", end + 100, 32);
        Check.equal("status behind the end of " + queue, PullStatus.OFFSET_ILLEGAL, beyond.getPullStatus());
        Check.equal("next offset behind the end of " + queue, first == 0 ? 0 : end, beyond.getNextBeginOffset());
    }

    /** {@code --topic --file}: a new group that begins at the first message ends up with the last message of each key. */
    private static String consume(Context context) throws Exception {
        String topic = context.option("topic");
        Map<String, String> values = new ConcurrentHashMap<>();
        Map<Integer, Long> reached = new ConcurrentHashMap<>();
        List<String> wrong = new java.util.concurrent.CopyOnWriteArrayList<>();
        DefaultMQPushConsumer consumer = context.pushConsumer(context.group("consume"));
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, orderly) -> {
            for (MessageExt message : messages) {
                Long before = reached.put(message.getQueueId(), message.getQueueOffset());
                if (before != null && before >= message.getQueueOffset()) {
                    wrong.add(message.getQueueOffset() + " after " + before);
                }
                if (text(message).isEmpty()) {
                    values.remove(message.getKeys());
                } else {
                    values.put(message.getKeys(), text(message));
                }
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        Map<String, String> expected = new TreeMap<>();
        Map<Integer, Long> ends = new TreeMap<>();
        sent(context).forEach((queue, messages) -> {
            last(messages).forEach((key, offset) -> expected.put(key, messages.get(offset).body));
            ends.put(queue, messages.lastKey());
        });
        context.start(consumer);
        Check.await(context, "the ends " + ends, 60, () -> reached.equals(ends), () -> reached);
        Check.that(wrong.isEmpty(), "out of order: " + wrong);
        Check.equal("last messages", expected, new TreeMap<>(values));
        return expected.size() + " keys";
    }
}
