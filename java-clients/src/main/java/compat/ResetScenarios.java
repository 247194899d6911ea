package compat;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Groups that an administrator moves, and groups that begin at a time. */
final class ResetScenarios {
    private static final long TIMEOUT = 10_000;

    private ResetScenarios() {
    }

    static void register() {
        Scenario.core("reset-online", 200, ResetScenarios::online);
        Scenario.core("reset-offline", 120, ResetScenarios::offline);
        Scenario.core("reset-skip", 120, ResetScenarios::skip);
        Scenario.core("reset-time", 120, ResetScenarios::time);
        Scenario.core("clone-offset", 120, ResetScenarios::cloned);
        Scenario.core("consumer-status", 60, ResetScenarios::status);
        Scenario.core("offset-timestamp", 120, ResetScenarios::timestamp);
        // For a broker with useServerSideResetOffset=false.
        Scenario.part("reset-by-clients", 200, ResetScenarios::online);
    }

    /** An administrator's connection: that of some client. */
    private static final class Operator {
        private final MQClientInstance client;
        private final String topic;
        private final List<String> brokers = new ArrayList<>();

        Operator(Context context, String topic) throws Exception {
            Reader reader = new Reader(context);
            this.topic = topic;
            this.client = reader.consumer().getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory();
            List<MessageQueue> queues = reader.queues(topic);
            client.updateTopicRouteInfoFromNameServer(topic);
            for (MessageQueue queue : queues) {
                String address = client.findBrokerAddressInPublish(queue.getBrokerName());
                Check.that(address != null, "the address of " + queue.getBrokerName() + " is known");
                if (!brokers.contains(address)) {
                    brokers.add(address);
                }
            }
        }

        Map<MessageQueue, Long> reset(String group, long timestamp) throws Exception {
            Check.equal("brokers", 1, brokers.size());
            return client.getMQClientAPIImpl().invokeBrokerToResetOffset(brokers.get(0), topic, group, timestamp, true, TIMEOUT);
        }

        void cloneOffset(String from, String to) throws Exception {
            client.getMQClientAPIImpl().cloneGroupOffset(brokers.get(0), from, to, topic, true, TIMEOUT);
        }

        Map<String, Map<MessageQueue, Long>> status(String group) throws Exception {
            return client.getMQClientAPIImpl().invokeBrokerToGetConsumerStatus(brokers.get(0), topic, group, "", TIMEOUT);
        }
    }

    private static Received consume(Context context, String group, String topic) throws Exception {
        DefaultMQPushConsumer consumer = context.pushConsumer(group);
        consumer.subscribe(topic, "*");
        Received received = Received.by(consumer);
        context.start(consumer);
        return received;
    }

    /** A group that is running goes back to the start. A pull that waits is moved when it ends, after 15 s at the latest. */
    private static String online(Context context) throws Exception {
        String topic = context.topic("online");
        String group = context.group("online");
        DefaultMQProducer producer = context.producer();
        List<String> bodies = Texts.send(producer, topic, "m", 20);
        Received received = consume(context, group, topic);
        received.await(context, 20, 45);
        Operator operator = new Operator(context, topic);
        Map<MessageQueue, Long> offsets = new TreeMap<>();
        String[] refused = {""};
        // A broker that lets the clients move themselves refuses until the group has stored offsets.
        Check.await(context, "the reset", 20, () -> {
            try {
                offsets.putAll(operator.reset(group, 0));
                return true;
            } catch (MQClientException e) {
                refused[0] = e.toString();
                return false;
            } catch (Exception e) {
                throw new Check.Failed("the reset: " + e);
            }
        }, () -> refused[0]);
        offsets.forEach((queue, offset) -> Check.equal("offset of " + queue, 0L, offset));
        Check.equal("queues", 4, offsets.size());
        received.await(context, 40, 100);
        List<String> twice = new ArrayList<>(bodies);
        twice.addAll(bodies);
        twice.sort(null);
        Check.equal("bodies", twice, received.bodies());
        // It goes on from there, and not a third time.
        twice.addAll(Texts.send(producer, topic, "n", 8));
        received.await(context, 48, 45);
        Check.equal("bodies", twice, received.bodies());
        return "20 messages twice";
    }

    private static String offline(Context context) throws Exception {
        String topic = context.topic("offline");
        String group = context.group("offline");
        DefaultMQProducer producer = context.producer();
        List<String> bodies = Texts.send(producer, topic, "m", 20);
        DefaultMQPushConsumer first = context.pushConsumer(group);
        first.subscribe(topic, "*");
        Received received = Received.by(first);
        context.start(first);
        received.await(context, 20, 45);
        first.shutdown();
        context.awaitStoredOffsets(group, topic);
        new Operator(context, topic).reset(group, 0);
        Received again = consume(context, group, topic);
        again.await(context, 20, 90);
        Check.equal("bodies", bodies, again.bodies());
        return "20 messages again";
    }

    /** What has piled up is passed over. */
    private static String skip(Context context) throws Exception {
        String topic = context.topic("skip");
        String group = context.group("skip");
        DefaultMQProducer producer = context.producer();
        Texts.send(producer, topic, "old", 20);
        DefaultMQPushConsumer first = context.pushConsumer(group);
        first.subscribe(topic, "*");
        Received received = Received.by(first);
        context.start(first);
        received.await(context, 20, 45);
        first.shutdown();
        context.awaitStoredOffsets(group, topic);
        Texts.send(producer, topic, "skipped", 20);
        Map<MessageQueue, Long> offsets = new Operator(context, topic).reset(group, -1);
        Check.equal("the ends", 40L, offsets.values().stream().mapToLong(offset -> offset).sum());
        Received later = consume(context, group, topic);
        List<String> bodies = Texts.send(producer, topic, "new", 20);
        later.await(context, 20, 90);
        Check.equal("bodies", bodies, later.bodies());
        return "20 messages passed over";
    }

    /** A time between two lots. */
    private static String time(Context context) throws Exception {
        String topic = context.topic("time");
        String group = context.group("time");
        DefaultMQProducer producer = context.producer();
        Texts.send(producer, topic, "before", 20);
        long between = later(context, topic);
        List<String> after = Texts.send(producer, topic, "later", 20);
        DefaultMQPushConsumer first = context.pushConsumer(group);
        first.subscribe(topic, "*");
        Received received = Received.by(first);
        context.start(first);
        received.await(context, 40, 45);
        first.shutdown();
        context.awaitStoredOffsets(group, topic);
        Map<MessageQueue, Long> offsets = new Operator(context, topic).reset(group, between);
        Check.equal("offsets", 20L, offsets.values().stream().mapToLong(offset -> offset).sum());
        Received again = consume(context, group, topic);
        again.await(context, 20, 90);
        Check.equal("bodies", after, again.bodies());
        return "20 of 40 messages again";
    }

    /** A time after all messages that are there, by the broker's clock, and before all that come. */
    private static long later(Context context, String topic) throws Exception {
        long last = 0;
        for (MessageExt message : new Reader(context).read(topic, 20)) {
            last = Math.max(last, message.getStoreTimestamp());
        }
        long time = last + 10;
        Check.await(context, "the clock", 10, () -> System.currentTimeMillis() > time);
        return time;
    }

    private static String cloned(Context context) throws Exception {
        String topic = context.topic("clone");
        String from = context.group("from");
        String to = context.group("to");
        DefaultMQProducer producer = context.producer();
        Texts.send(producer, topic, "old", 20);
        DefaultMQPushConsumer first = context.pushConsumer(from);
        first.subscribe(topic, "*");
        Received received = Received.by(first);
        context.start(first);
        received.await(context, 20, 45);
        first.shutdown();
        context.awaitStoredOffsets(from, topic);
        new Operator(context, topic).cloneOffset(from, to);
        Received second = consume(context, to, topic);
        List<String> bodies = Texts.send(producer, topic, "new", 20);
        second.await(context, 20, 45);
        Check.equal("bodies", bodies, second.bodies());
        return "the second group begins behind the first";
    }

    private static String status(Context context) throws Exception {
        String topic = context.topic("status");
        String group = context.group("status");
        DefaultMQProducer producer = context.producer();
        Texts.send(producer, topic, "m", 20);
        DefaultMQPushConsumer consumer = context.pushConsumer(group);
        consumer.subscribe(topic, "*");
        Received received = Received.by(consumer);
        context.start(consumer);
        received.await(context, 20, 45);
        Operator operator = new Operator(context, topic);
        long[] sum = new long[1];
        Check.await(context, "the consumer's offsets", 20, () -> {
            try {
                Map<String, Map<MessageQueue, Long>> all = operator.status(group);
                Check.equal("members", 1, all.size());
                sum[0] = all.values().iterator().next().values().stream().mapToLong(offset -> offset).sum();
            } catch (Exception e) {
                throw new Check.Failed("asking for the status: " + e);
            }
            return sum[0] == 20;
        }, () -> sum[0]);
        return "a consumer tells 20";
    }

    /** A group without offsets that wants to begin at a time, when the queues' beginnings are gone or not to be had. */
    private static String timestamp(Context context) throws Exception {
        String topic = context.topic("timestamp");
        String group = context.group("timestamp");
        DefaultMQProducer producer = context.producer();
        Texts.send(producer, topic, "before", 20);
        long between = later(context, topic);
        List<String> after = Texts.send(producer, topic, "later", 20);
        DefaultMQPullConsumer asker = context.pullConsumer(group);
        context.awaitRoute(topic);
        // The queues need not have got the same number: the route may have come in the middle.
        List<MessageExt> stored = new Reader(context).read(topic, 40);
        for (MessageQueue queue : asker.fetchSubscribeMessageQueues(topic)) {
            long earlier = stored.stream()
                .filter(message -> message.getQueueId() == queue.getQueueId() && Reader.text(message).startsWith("before"))
                .count();
            Check.equal("the offset of the time in " + queue, earlier, asker.searchOffset(queue, between));
        }
        // A young queue is read from its start, whatever the consumer asks for: the same as with the last offset.
        DefaultMQPushConsumer consumer = context.pushConsumer(context.group("young"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP);
        consumer.subscribe(topic, "*");
        Received received = Received.by(consumer);
        context.start(consumer);
        received.await(context, 40, 45);
        Check.that(received.bodies().containsAll(after), "the later ones are there");
        return "offsets of a time";
    }
}
