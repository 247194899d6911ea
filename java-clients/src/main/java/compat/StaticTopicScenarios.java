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
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Static topics, whose logical queues move from broker to broker. A file keeps what was sent, a line a message: logical queue, logical
 * offset, body.
 */
final class StaticTopicScenarios {
    private static final int NOT_LEADER_FOR_QUEUE = 501;

    private StaticTopicScenarios() {
    }

    static void register() {
        Scenario.part("static-fill", 120, StaticTopicScenarios::fill);
        Scenario.part("static-read", 120, StaticTopicScenarios::read);
        Scenario.part("static-consume", 300, StaticTopicScenarios::consume);
    }

    private static final class Sent {
        final long offset;
        final String body;

        Sent(long offset, String body) {
            this.offset = offset;
            this.body = body;
        }

        @Override
        public String toString() {
            return offset + "=" + body;
        }
    }

    /** What was sent, by logical queue, in order. */
    private static Map<Integer, List<Sent>> sent(Context context) throws Exception {
        Map<Integer, List<Sent>> sent = new TreeMap<>();
        Path file = Path.of(context.option("file"));
        for (String line : Files.exists(file) ? Files.readAllLines(file, StandardCharsets.UTF_8) : List.<String>of()) {
            String[] fields = line.split("\t", 3);
            sent.computeIfAbsent(Integer.parseInt(fields[0]), queue -> new ArrayList<>()).add(new Sent(Long.parseLong(fields[1]), fields[2]));
        }
        return sent;
    }

    /** {@code --topic --file --prefix --queues [--count]}: messages to every queue in turn; offsets go on where they were, or higher. */
    private static String fill(Context context) throws Exception {
        String topic = context.option("topic");
        context.awaitRoute(topic);
        DefaultMQProducer producer = context.producer();
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        queues.sort(null);
        Check.equal("queues of " + topic, context.number("queues", 0), queues.size());
        Map<Integer, List<Sent>> before = sent(context);
        int count = context.number("count", 40);
        StringBuilder lines = new StringBuilder();
        for (int i = 0; i < count; i++) {
            MessageQueue queue = queues.get(i % queues.size());
            Check.equal("the id of a queue", i % queues.size(), queue.getQueueId());
            String body = context.option("prefix") + "-" + i;
            SendResult result = Texts.sent(send(context, producer, topic, body, queue));
            Check.equal("queue of the answer", queue.getQueueId(), result.getMessageQueue().getQueueId());
            List<Sent> earlier = before.computeIfAbsent(queue.getQueueId(), id -> new ArrayList<>());
            long last = earlier.isEmpty() ? -1 : earlier.get(earlier.size() - 1).offset;
            long offset = result.getQueueOffset();
            if (i < queues.size()) {
                Check.that(offset > last, "offset " + offset + " after " + last + " of " + queue);
            } else {
                Check.equal("the next offset of " + queue, last + 1, offset);
            }
            earlier.add(new Sent(offset, body));
            lines.append(queue.getQueueId()).append('\t').append(offset).append('\t').append(body).append('\n');
        }
        Files.writeString(Path.of(context.option("file")), lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        return count + " messages";
    }

    /** Sends; the producer may know the new leader of a queue a moment later than the name server. */
    private static SendResult send(Context context, DefaultMQProducer producer, String topic, String body, MessageQueue queue) throws Exception {
        SendResult[] result = new SendResult[1];
        Exception[] failed = new Exception[1];
        Check.await(context, "the leader of " + queue, 20, () -> {
            try {
                result[0] = producer.send(Texts.message(topic, body), queue);
            } catch (MQBrokerException e) {
                failed[0] = e;
                return e.getResponseCode() != NOT_LEADER_FOR_QUEUE;
            } catch (Exception e) {
                failed[0] = e;
            }
            return true;
        }, () -> failed[0]);
        if (result[0] == null) {
            throw failed[0];
        }
        return result[0];
    }

    /** {@code --topic --file}: every logical queue from its beginning to its end, whoever holds its parts. */
    private static String read(Context context) throws Exception {
        String topic = context.option("topic");
        Reader reader = new Reader(context);
        DefaultMQPullConsumer consumer = reader.consumer();
        Map<Integer, List<Sent>> sent = sent(context);
        int count = 0;
        // A broker asks others for what is theirs; one of Java's that has just started does not know their addresses yet.
        AtomicReference<Exception> unknown = new AtomicReference<>();
        List<MessageQueue> queues = reader.queues(topic);
        Check.await(context, "brokers that know one another", 60, () -> {
            try {
                for (MessageQueue queue : queues) {
                    consumer.minOffset(queue);
                    consumer.maxOffset(queue);
                }
                return true;
            } catch (MQClientException e) {
                unknown.set(e);
                return false;
            }
        }, unknown::get);
        for (MessageQueue queue : queues) {
            List<Sent> expected = sent.getOrDefault(queue.getQueueId(), List.of());
            long end = expected.isEmpty() ? 0 : expected.get(expected.size() - 1).offset + 1;
            reader.awaitEnd(queue, end);
            Check.equal("the beginning of " + queue, 0L, consumer.minOffset(queue));
            List<String> found = new ArrayList<>();
            for (long next = 0; next < end;) {
                PullResult result = consumer.pull(queue, "*", next, 7);
                if (result.getPullStatus() == PullStatus.FOUND) {
                    for (MessageExt message : result.getMsgFoundList()) {
                        Check.equal("queue id", queue.getQueueId(), message.getQueueId());
                        found.add(new Sent(message.getQueueOffset(), Reader.text(message)).toString());
                    }
                } else {
                    // The end of a part: the answer leads to the next one.
                    Check.equal("pull status at " + next + " of " + queue, PullStatus.NO_MATCHED_MSG, result.getPullStatus());
                }
                Check.that(result.getNextBeginOffset() > next, "no progress at " + next + " of " + queue + ": " + result);
                next = result.getNextBeginOffset();
            }
            List<String> wanted = new ArrayList<>();
            expected.forEach(message -> wanted.add(message.toString()));
            Check.equal("messages of " + queue, wanted, found);
            count += found.size();
        }
        return count + " messages";
    }

    /**
     * {@code --topic --file --group --count [--ready FILE]}: a group consumes {@code count} messages, each queue in order and none twice. Once it has the
     * first ones it makes the file {@code ready}; the queues may move after that.
     */
    private static String consume(Context context) throws Exception {
        String topic = context.option("topic");
        int count = context.number("count", 0);
        Map<Integer, List<String>> got = new ConcurrentHashMap<>();
        AtomicInteger total = new AtomicInteger();
        DefaultMQPushConsumer consumer = context.pushConsumer(context.option("group"));
        // One thread: what a pull has brought is consumed in its order.
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, position) -> {
            for (MessageExt message : messages) {
                got.computeIfAbsent(message.getQueueId(), id -> new ArrayList<>()).add(new Sent(message.getQueueOffset(), Reader.text(message)).toString());
                total.incrementAndGet();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        context.start(consumer);
        String ready = context.option("ready", "");
        if (!ready.isEmpty()) {
            Check.await(context, "the first messages", 60, () -> total.get() >= context.number("first", 1), total::get);
            Files.writeString(Path.of(ready), "ready");
        }
        Check.await(context, count + " messages", 200, () -> total.get() >= count, total::get);
        // A message too many would come soon.
        Thread.sleep(500);
        consumer.shutdown();
        Map<Integer, List<String>> wanted = new TreeMap<>();
        int skip = context.number("skip", 0);
        sent(context).forEach((queue, messages) -> {
            List<String> rest = new ArrayList<>();
            messages.subList(skip, messages.size()).forEach(message -> rest.add(message.toString()));
            wanted.put(queue, rest);
        });
        Check.equal("consumed of " + topic, wanted.toString(), new TreeMap<>(got).toString());
        return total + " messages";
    }
}
