package compat;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Single messages and positions, looked up. */
final class QueryScenarios {
    private QueryScenarios() {
    }

    static void register() {
        Scenario.core("query-key", 120, QueryScenarios::byKey);
        Scenario.core("query-id", 120, QueryScenarios::byId);
        Scenario.core("query-time", 120, QueryScenarios::byTime);
    }

    /** Queries until {@code count} messages are found: the index follows the log. */
    private static Set<String> query(Context context, DefaultMQProducer producer, String topic, String key, int max, int count)
        throws InterruptedException {
        Set<String> bodies = new TreeSet<>();
        Check.await(context, count + " messages with the key " + key, 15, () -> {
            bodies.clear();
            try {
                QueryResult result = producer.queryMessage(topic, key, max, 0, System.currentTimeMillis() + 60_000);
                result.getMessageList().forEach(message -> bodies.add(Reader.text(message)));
            } catch (MQClientException | InterruptedException e) {
                return false;
            }
            return bodies.size() >= count;
        }, bodies::size);
        return bodies;
    }

    private static String byKey(Context context) throws Exception {
        String topic = context.topic("key");
        DefaultMQProducer producer = context.producer();
        for (int i = 0; i < 20; i++) {
            Message message = Texts.message(topic, "key-" + i);
            message.setKeys("each" + i + " all group" + i % 4 + (i == 0 ? " Aa" : i == 1 ? " BB" : ""));
            Texts.sent(producer.send(message));
        }
        Check.equal("one key", Set.of("key-7"), query(context, producer, topic, "each7", 32, 1));
        Check.equal("a key of five", Set.of("key-2", "key-6", "key-10", "key-14", "key-18"), query(context, producer, topic, "group2", 32, 5));
        Check.equal("a key of all", 20, query(context, producer, topic, "all", 32, 20).size());
        Check.equal("at most 5, the newest", Set.of("key-15", "key-16", "key-17", "key-18", "key-19"), query(context, producer, topic, "all", 5, 5));
        // Two keys with one hash code are told apart.
        Check.equal("the key Aa", Set.of("key-0"), query(context, producer, topic, "Aa", 32, 1));
        Check.equal("the key BB", Set.of("key-1"), query(context, producer, topic, "BB", 32, 1));
        Check.thrown("an unknown key", MQClientException.class,
            () -> producer.queryMessage(topic, "nobody", 32, 0, System.currentTimeMillis() + 60_000));
        Check.thrown("a time before the messages", MQClientException.class, () -> producer.queryMessage(topic, "all", 32, 0, 1_000_000));
        return "by 6 keys";
    }

    private static String byId(Context context) throws Exception {
        String topic = context.topic("id");
        DefaultMQProducer producer = context.producer();
        List<SendResult> results = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            results.add(Texts.sent(producer.send(Texts.message(topic, "id-" + i))));
        }
        for (int i = 0; i < 10; i++) {
            SendResult result = results.get(i);
            MessageExt byOffsetId = producer.viewMessage(topic, result.getOffsetMsgId());
            Check.equal("body by offset id", "id-" + i, Reader.text(byOffsetId));
            Check.equal("queue offset", result.getQueueOffset(), byOffsetId.getQueueOffset());
            Check.equal("queue", result.getMessageQueue().getQueueId(), byOffsetId.getQueueId());
            Check.equal("unique id", result.getMsgId(), byOffsetId.getMsgId());
            String expected = "id-" + i;
            Check.await(context, expected + " by its unique id", 15, () -> {
                try {
                    MessageExt found = producer.viewMessage(topic, result.getMsgId());
                    return found != null && Reader.text(found).equals(expected);
                } catch (Exception e) {
                    return false;
                }
            });
        }
        String id = results.get(0).getOffsetMsgId();
        Check.thrown("an offset behind the log", Exception.class, () -> {
            MessageExt found = producer.viewMessage(topic, id.substring(0, 16) + "0000000FFFFFFFFF");
            if (found == null) {
                throw new Check.Failed("null");
            }
        });
        return "10 messages by both ids";
    }

    private static String byTime(Context context) throws Exception {
        String topic = context.topic("time");
        DefaultMQProducer producer = context.producer();
        long before = System.currentTimeMillis() - 1;
        for (int i = 0; i < 12; i++) {
            Texts.sent(producer.send(Texts.message(topic, "time-" + i), (queues, m, id) -> queues.get(0), 0));
        }
        Reader reader = new Reader(context);
        List<MessageExt> messages = reader.read(topic, 12);
        DefaultMQPullConsumer consumer = reader.consumer();
        MessageQueue queue = reader.queues(topic).get(0);
        Check.equal("earliest store time", messages.get(0).getStoreTimestamp(), consumer.earliestMsgStoreTime(queue));
        Check.equal("before all", 0L, consumer.searchOffset(queue, before));
        Check.equal("after all", 12L, consumer.searchOffset(queue, messages.get(11).getStoreTimestamp() + 1_000));
        for (MessageExt message : messages) {
            long expected = 0;
            while (messages.get((int) expected).getStoreTimestamp() < message.getStoreTimestamp()) {
                expected++;
            }
            Check.equal("offset at the time of " + message.getQueueOffset(), expected, consumer.searchOffset(queue, message.getStoreTimestamp()));
        }
        MessageQueue empty = reader.queues(topic).get(1);
        Check.equal("min of an empty queue", 0L, consumer.minOffset(empty));
        Check.equal("max of an empty queue", 0L, consumer.maxOffset(empty));
        Check.equal("earliest time of an empty queue", -1L, consumer.earliestMsgStoreTime(empty));
        return "12 messages by time";
    }
}
