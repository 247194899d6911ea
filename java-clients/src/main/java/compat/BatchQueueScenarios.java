package compat;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A topic with batch consume queues ({@code queue.type=BatchCQ}), which somebody has made: a batch stays one record, and the client takes
 * it apart. A file keeps what was sent, a line a message: queue, offset, body.
 */
final class BatchQueueScenarios {
    private BatchQueueScenarios() {
    }

    static void register() {
        Scenario.part("batch-queue-fill", 120, BatchQueueScenarios::fill);
        Scenario.part("batch-queue-read", 120, BatchQueueScenarios::read);
        Scenario.part("batch-queue-consume", 120, BatchQueueScenarios::consume);
    }

    private static Path file(Context context) {
        return Path.of(context.option("file"));
    }

    private static void note(Context context, SendResult result, int ahead, Message message) throws Exception {
        String line = result.getMessageQueue().getQueueId() + "\t" + (result.getQueueOffset() + ahead) + "\t"
            + new String(message.getBody(), StandardCharsets.UTF_8) + "\n";
        Files.writeString(file(context), line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    /** What the file says, queue by queue: bodies by offset. */
    private static TreeMap<Integer, TreeMap<Long, String>> sent(Context context) throws Exception {
        TreeMap<Integer, TreeMap<Long, String>> queues = new TreeMap<>();
        for (String line : Files.readAllLines(file(context), StandardCharsets.UTF_8)) {
            String[] fields = line.split("\t", 3);
            String before = queues.computeIfAbsent(Integer.parseInt(fields[0]), id -> new TreeMap<>()).put(Long.parseLong(fields[1]), fields[2]);
            Check.that(before == null, "two messages with one offset: " + before + " and " + fields[2]);
        }
        return queues;
    }

    /** {@code --topic --file --prefix [--count]}: batches of 1 to 8 messages, and messages alone, into the first two queues. */
    private static String fill(Context context) throws Exception {
        String topic = context.option("topic");
        String prefix = context.option("prefix");
        int count = context.number("count", 24);
        DefaultMQProducer producer = context.producer();
        context.awaitRoute(topic);
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        queues.sort(null);
        int messages = 0;
        for (int i = 0; i < count; i++) {
            MessageQueue queue = queues.get(i % 2);
            List<Message> batch = new ArrayList<>();
            for (int j = 0; j < 1 + i % 8; j++) {
                Message message = Texts.message(topic, prefix + "-" + i + "-" + j);
                message.setTags("t" + j % 2);
                message.setKeys("inner-" + prefix + "-" + i + "-" + j);
                batch.add(message);
            }
            SendResult result = Texts.sent(producer.send(batch, queue));
            // One id: that of the whole batch.
            Check.equal("ids of a batch", 1, result.getMsgId().split(",").length);
            Check.equal("offset ids of a batch", 1, result.getOffsetMsgId().split(",").length);
            for (int j = 0; j < batch.size(); j++) {
                note(context, result, j, batch.get(j));
            }
            Message alone = Texts.message(topic, prefix + "-alone-" + i);
            alone.setKeys("alone-" + prefix + "-" + i);
            note(context, Texts.sent(producer.send(alone, queue)), 0, alone);
            messages += batch.size() + 1;
        }
        return messages + " messages in " + 2 * count + " records";
    }

    /** {@code --topic --file}: every message is where its producer was told, from whatever offset one begins. */
    private static String read(Context context) throws Exception {
        String topic = context.option("topic");
        Reader reader = new Reader(context);
        DefaultMQPullConsumer consumer = reader.consumer();
        int messages = 0;
        TreeMap<Integer, TreeMap<Long, String>> sent = sent(context);
        for (MessageQueue queue : reader.queues(topic)) {
            TreeMap<Long, String> expected = sent.getOrDefault(queue.getQueueId(), new TreeMap<>());
            reader.awaitEnd(queue, expected.size());
            if (expected.isEmpty()) {
                // Java says that such a queue begins at -1.
                Check.that(consumer.minOffset(queue) <= 0, "the beginning of " + queue);
                continue;
            }
            Check.equal("the beginning of " + queue, 0L, consumer.minOffset(queue));
            TreeMap<Long, String> found = new TreeMap<>();
            TreeMap<Long, Long> times = new TreeMap<>();
            long next = 0;
            while (next < expected.size()) {
                PullResult result = consumer.pull(queue, "*", next, 32);
                Check.equal("pull status at " + next + " of " + queue, PullStatus.FOUND, result.getPullStatus());
                Check.that(result.getNextBeginOffset() > next, "no progress at " + next + " of " + queue);
                for (MessageExt message : result.getMsgFoundList()) {
                    String before = found.put(message.getQueueOffset(), Reader.text(message));
                    Check.equal("a second message at " + message.getQueueOffset(), null, before);
                    times.put(message.getQueueOffset(), message.getStoreTimestamp());
                }
                next = result.getNextBeginOffset();
            }
            Check.equal("messages of " + queue, expected, found);
            messages += found.size();
            // From within a batch: the batch as a whole.
            for (long from = 0; from < expected.size(); from += 3) {
                PullResult result = consumer.pull(queue, "*", from, 1);
                List<MessageExt> batch = result.getMsgFoundList();
                Check.that(batch.get(0).getQueueOffset() <= from, "the batch of " + from + " begins at " + batch.get(0).getQueueOffset());
                Check.equal("the end of the batch of " + from, result.getNextBeginOffset(), batch.get(batch.size() - 1).getQueueOffset() + 1);
                Check.that(result.getNextBeginOffset() > from, "the batch of " + from + " ends at " + result.getNextBeginOffset());
            }
            Check.equal("status behind the end", PullStatus.NO_NEW_MSG, consumer.pull(queue, "*", expected.size(), 32).getPullStatus());
            Check.equal("earliest store time", times.firstEntry().getValue(), consumer.earliestMsgStoreTime(queue));
            // The last record is a message alone.
            Check.equal("behind all times", expected.size() - 1L, consumer.searchOffset(queue, times.lastEntry().getValue() + 1_000));
            Check.equal("before all times", 0L, consumer.searchOffset(queue, times.firstEntry().getValue() - 1_000));
        }
        return messages + " messages";
    }

    /** {@code --topic --group --file}: a push consumer gets everything. */
    private static String consume(Context context) throws Exception {
        DefaultMQPushConsumer consumer = context.pushConsumer(context.option("group"));
        consumer.subscribe(context.option("topic"), "*");
        Received received = Received.by(consumer);
        context.start(consumer);
        List<String> expected = new ArrayList<>();
        sent(context).values().forEach(queue -> expected.addAll(queue.values()));
        expected.sort(null);
        received.await(context, expected.size(), 60);
        Check.equal("what was consumed", expected, received.bodies());
        return expected.size() + " consumed";
    }
}
