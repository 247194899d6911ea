package compat;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Messages that come later: after a failure, after a delay, or no more. */
final class RetryScenarios {
    private RetryScenarios() {
    }

    static void register() {
        Scenario.core("retry-later", 120, RetryScenarios::later);
        Scenario.core("retry-dead-letter", 120, RetryScenarios::deadLetter);
        Scenario.core("retry-orderly", 120, RetryScenarios::orderly);
        Scenario.core("delay-level", 120, RetryScenarios::delay);
    }

    /** One delivery of a message, as the consumer saw it. */
    private static final class Delivery {
        final long at = System.currentTimeMillis();
        final MessageExt message;

        Delivery(MessageExt message) {
            this.message = message;
        }
    }

    /** Each message fails once and comes back after the chosen delay, as the same message. */
    private static String later(Context context) throws Exception {
        String topic = context.topic("later");
        DefaultMQProducer producer = context.producer();
        for (int i = 0; i < 8; i++) {
            Message message = new Message(topic, "tag" + i, "key" + i, ("later-" + i).getBytes());
            message.putUserProperty("user", "value" + i);
            Texts.sent(producer.send(message));
        }
        DefaultMQPushConsumer consumer = context.pushConsumer(context.group("later"));
        consumer.subscribe(topic, "*");
        Map<String, List<Delivery>> deliveries = new ConcurrentHashMap<>();
        AtomicInteger confirmed = new AtomicInteger();
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, concurrently) -> {
            List<Delivery> all = deliveries.computeIfAbsent(Reader.text(batch.get(0)), text -> Collections.synchronizedList(new ArrayList<>()));
            all.add(new Delivery(batch.get(0)));
            if (all.size() == 1) {
                concurrently.setDelayLevelWhenNextConsume(1);
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            confirmed.incrementAndGet();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        context.start(consumer);
        Check.await(context, "8 messages the second time", 60, () -> confirmed.get() >= 8, confirmed::get);
        long shortest = Long.MAX_VALUE;
        for (Map.Entry<String, List<Delivery>> entry : deliveries.entrySet()) {
            Check.equal("deliveries of " + entry.getKey(), 2, entry.getValue().size());
            MessageExt first = entry.getValue().get(0).message;
            MessageExt second = entry.getValue().get(1).message;
            Check.equal("times before", 0, first.getReconsumeTimes());
            Check.equal("times after", 1, second.getReconsumeTimes());
            Check.equal("topic shown", topic, second.getTopic());
            Check.equal("unique id", first.getMsgId(), second.getMsgId());
            Check.equal("tag", first.getTags(), second.getTags());
            Check.equal("keys", first.getKeys(), second.getKeys());
            Check.equal("user property", first.getUserProperty("user"), second.getUserProperty("user"));
            Check.equal("born time", first.getBornTimestamp(), second.getBornTimestamp());
            Check.that(second.getProperty("ORIGIN_MESSAGE_ID") != null, "the first message's id is kept");
            shortest = Math.min(shortest, entry.getValue().get(1).at - entry.getValue().get(0).at);
        }
        Check.that(shortest >= 900, "a message came back after " + shortest + " ms already");
        return "8 messages came back, the fastest after " + shortest + " ms";
    }

    /** After the last attempt a message goes to the group's dead letter topic. */
    private static String deadLetter(Context context) throws Exception {
        String topic = context.topic("dead");
        String group = context.group("dead");
        DefaultMQProducer producer = context.producer();
        SendResult good = Texts.sent(producer.send(Texts.message(topic, "good")));
        Texts.sent(producer.send(Texts.message(topic, "bad")));
        DefaultMQPushConsumer consumer = context.pushConsumer(group);
        consumer.subscribe(topic, "*");
        consumer.setMaxReconsumeTimes(1);
        AtomicInteger attempts = new AtomicInteger();
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, concurrently) -> {
            if (Reader.text(batch.get(0)).equals("good")) {
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            }
            attempts.incrementAndGet();
            concurrently.setDelayLevelWhenNextConsume(1);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        context.start(consumer);
        Reader reader = new Reader(context);
        String dead = "%DLQ%" + group;
        MessageQueue queue = new MessageQueue(dead, good.getMessageQueue().getBrokerName(), 0);
        long[] size = new long[1];
        Check.await(context, "a dead letter", 40, () -> {
            try {
                size[0] = reader.consumer().maxOffset(queue);
            } catch (Exception e) {
                size[0] = -1; // no such topic yet
            }
            return size[0] >= 1;
        }, () -> size[0] + " dead letters after " + attempts.get() + " attempts");
        Check.equal("attempts", 2, attempts.get());
        Check.equal("dead letters", 1L, size[0]);
        MessageExt letter = reader.read(queue).get(0);
        Check.equal("body", "bad", Reader.text(letter));
        Check.equal("topic that it came from", topic, letter.getProperty("RETRY_TOPIC"));
        Check.equal("times", 2, letter.getReconsumeTimes());
        return "2 attempts, then a dead letter";
    }

    /**
     * An orderly consumer tries a message again by itself, before the ones behind it. After the last attempt it sends the message to the retry
     * topic as a producer would, and the broker puts it among the dead letters at once, whatever delay it carries.
     */
    private static String orderly(Context context) throws Exception {
        String topic = context.topic("orderly");
        String group = context.group("orderly");
        DefaultMQProducer producer = context.producer();
        Message bad = new Message(topic, "tag", "key", "bad".getBytes());
        bad.putUserProperty("user", "value");
        SendResult sent = Texts.sent(producer.send(bad, (queues, message, id) -> queues.get(0), 0));
        MessageQueue queue = sent.getMessageQueue();
        for (String body : List.of("good-1", "good-2")) {
            Texts.sent(producer.send(Texts.message(topic, body), queue));
        }
        DefaultMQPushConsumer consumer = context.pushConsumer(group);
        consumer.subscribe(topic, "*");
        consumer.setMaxReconsumeTimes(2);
        consumer.setSuspendCurrentQueueTimeMillis(20);
        List<String> attempts = Collections.synchronizedList(new ArrayList<>());
        consumer.registerMessageListener((MessageListenerOrderly) (batch, orderly) -> {
            String text = Reader.text(batch.get(0));
            attempts.add(text + " " + batch.get(0).getReconsumeTimes());
            return text.equals("bad") ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT : ConsumeOrderlyStatus.SUCCESS;
        });
        context.start(consumer);
        Check.await(context, "the messages behind the bad one", 60, () -> attempts.contains("good-2 0"), () -> attempts);
        Check.equal("attempts", List.of("bad 0", "bad 1", "bad 2", "good-1 0", "good-2 0"), new ArrayList<>(attempts));
        Reader reader = new Reader(context);
        MessageQueue dead = new MessageQueue("%DLQ%" + group, queue.getBrokerName(), 0);
        reader.queues(dead.getTopic());
        reader.awaitEnd(dead, 1);
        MessageExt letter = reader.read(dead).get(0);
        Check.equal("body", "bad", Reader.text(letter));
        // A 4.9 client counts the attempt no more that failed last: its message is a dead letter because its group holds locks.
        Check.that(letter.getReconsumeTimes() == (MQVersion.CURRENT_VERSION < MQVersion.Version.V5_0_0.ordinal() ? 2 : 3),
            "times: " + letter.getReconsumeTimes());
        Check.equal("unique id", sent.getMsgId(), letter.getMsgId());
        Check.equal("tag", "tag", letter.getTags());
        Check.equal("keys", "key", letter.getKeys());
        Check.equal("user property", "value", letter.getUserProperty("user"));
        Check.equal("topic that it came from", topic, letter.getProperty("RETRY_TOPIC"));
        Check.equal("first id", sent.getMsgId(), letter.getProperty("ORIGIN_MESSAGE_ID"));
        Check.equal("delay", "-1", letter.getProperty("DELAY"));
        Check.equal("messages to be tried again", 0L, reader.count("%RETRY%" + group));
        return "3 attempts in order, then a dead letter";
    }

    /** Delay levels 1 (1 s) and 2 (5 s). */
    private static String delay(Context context) throws Exception {
        String topic = context.topic("delay");
        DefaultMQProducer producer = context.producer();
        Texts.send(producer, topic, "now", 1);
        DefaultMQPushConsumer consumer = context.pushConsumer(context.group("delay"));
        consumer.subscribe(topic, "*");
        Map<String, Delivery> deliveries = new ConcurrentHashMap<>();
        AtomicInteger calls = new AtomicInteger();
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, concurrently) -> {
            deliveries.put(Reader.text(batch.get(0)), new Delivery(batch.get(0)));
            calls.incrementAndGet();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        context.start(consumer);
        Check.await(context, "the message without delay", 45, () -> deliveries.containsKey("now-0000"));
        int[] seconds = {0, 1, 5};
        for (int level = 1; level <= 2; level++) {
            for (int i = 0; i < 5; i++) {
                Message message = Texts.message(topic, "level" + level + "-" + i);
                message.setDelayTimeLevel(level);
                message.setKeys("delayed");
                Texts.sent(producer.send(message));
            }
        }
        Check.await(context, "10 delayed messages", 45, () -> calls.get() == 11, calls::get);
        long worst = 0;
        for (int level = 1; level <= 2; level++) {
            for (int i = 0; i < 5; i++) {
                Delivery delivery = deliveries.get("level" + level + "-" + i);
                long waited = delivery.message.getStoreTimestamp() - delivery.message.getBornTimestamp();
                Check.that(waited >= seconds[level] * 1000 - 50, "level " + level + " was stored after " + waited + " ms");
                Check.equal("topic", topic, delivery.message.getTopic());
                Check.equal("keys", "delayed", delivery.message.getKeys());
                Check.equal("times", 0, delivery.message.getReconsumeTimes());
                worst = Math.max(worst, waited - seconds[level] * 1000);
            }
        }
        Check.that(worst < 3_000, "a message was " + worst + " ms late");
        return "levels 1 and 2, at most " + worst + " ms late";
    }
}
