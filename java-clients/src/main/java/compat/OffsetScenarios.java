package compat;

import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;

/** Where a consumer begins. */
final class OffsetScenarios {
    private OffsetScenarios() {
    }

    static void register() {
        Scenario.core("offset-first", 120, OffsetScenarios::first);
        Scenario.core("offset-last", 120, OffsetScenarios::last);
        Scenario.core("offset-restart", 120, OffsetScenarios::restart);
        Scenario.core("offset-update", 120, OffsetScenarios::update);
    }

    private static Received consume(Context context, String group, String topic, ConsumeFromWhere where) throws Exception {
        DefaultMQPushConsumer consumer = context.pushConsumer(group);
        consumer.setConsumeFromWhere(where);
        consumer.subscribe(topic, "*");
        Received received = Received.by(consumer);
        context.start(consumer);
        return received;
    }

    private static String first(Context context) throws Exception {
        String topic = context.topic("first");
        DefaultMQProducer producer = context.producer();
        List<String> bodies = new ArrayList<>(Texts.send(producer, topic, "a", 20));
        Received received = consume(context, context.group("first"), topic, ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        received.await(context, 20, 45);
        bodies.addAll(Texts.send(producer, topic, "b", 20));
        received.await(context, 40, 45);
        Check.equal("bodies", bodies, received.bodies());
        return "old and new messages";
    }

    /**
     * A group without offsets begins at the first message even when it asks for the last, as long as the queue is young: the broker
     * answers 0 while nothing of the queue was deleted and its start is in memory.
     */
    private static String last(Context context) throws Exception {
        String topic = context.topic("last");
        DefaultMQProducer producer = context.producer();
        List<String> bodies = new ArrayList<>(Texts.send(producer, topic, "a", 20));
        new Reader(context).read(topic, 20);
        Received received = consume(context, context.group("last"), topic, ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        received.await(context, 20, 45);
        bodies.addAll(Texts.send(producer, topic, "b", 20));
        received.await(context, 40, 45);
        Check.equal("bodies", bodies, received.bodies());
        return "a young queue is read from its start";
    }

    /** A consumer that stops and comes back goes on where it was. */
    private static String restart(Context context) throws Exception {
        String topic = context.topic("restart");
        String group = context.group("restart");
        DefaultMQProducer producer = context.producer();
        List<String> seen = new ArrayList<>();
        List<String> bodies = new ArrayList<>();
        for (int round = 0; round < 3; round++) {
            List<String> sent = Texts.send(producer, topic, "round" + round, 20);
            bodies.addAll(sent);
            DefaultMQPushConsumer consumer = context.pushConsumer(group);
            consumer.subscribe(topic, "*");
            Received received = Received.by(consumer);
            context.start(consumer);
            received.await(context, 20, 45);
            consumer.shutdown();
            context.awaitStoredOffsets(group, topic);
            Check.equal("bodies of round " + round, sent, received.bodies());
            seen.addAll(received.bodies());
        }
        Check.equal("bodies of all rounds", bodies, seen);
        return "3 rounds, none repeated";
    }

    /** Offsets set by hand: forwards, backwards, and read by another client of the group. */
    private static String update(Context context) throws Exception {
        String topic = context.topic("update");
        String group = context.group("update");
        DefaultMQProducer producer = context.producer();
        Texts.send(producer, topic, "update", 40);
        context.awaitRoute(topic);
        DefaultMQPullConsumer one = context.pullConsumer(group);
        DefaultMQPullConsumer two = context.pullConsumer(group);
        for (MessageQueue queue : new TreeSet<>(one.fetchSubscribeMessageQueues(topic))) {
            one.pull(queue, "*", 0, 1); // a group comes into being by its first pull; offsets of unknown groups are refused
            for (long offset : new long[] {7, 3, 10}) {
                one.getDefaultMQPullConsumerImpl().updateConsumeOffset(queue, offset);
                one.getOffsetStore().persist(queue);
                Check.await(context, "offset " + offset + " of " + queue, 10, () -> stored(two, queue) == offset, () -> stored(two, queue));
            }
        }
        return "12 offsets set";
    }

    private static long stored(DefaultMQPullConsumer consumer, MessageQueue queue) {
        try {
            return consumer.fetchConsumeOffset(queue, true);
        } catch (Exception e) {
            throw new Check.Failed("reading the stored offset: " + e);
        }
    }
}
