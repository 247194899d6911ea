package compat;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;

/** The options of one scenario, names that no other run uses, and its clients, which are shut down at its end. */
final class Context {
    private static final AtomicInteger INSTANCES = new AtomicInteger();

    private final String scenario;
    private final Map<String, String> options;
    private final String run = Long.toString(System.currentTimeMillis() % 1_000_000_000, 36) + Integer.toString(INSTANCES.incrementAndGet(), 36);
    private final Deque<Runnable> closers = new ArrayDeque<>();
    private volatile String waitingFor = "nothing";
    private Reader routes;

    Context(String scenario, Map<String, String> options) {
        this.scenario = scenario;
        this.options = options;
    }

    String namesrv() {
        return options.get("namesrv");
    }

    String option(String key) {
        String value = options.get(key);
        if (value == null) {
            throw new Check.Failed("the option --" + key + " is missing");
        }
        return value;
    }

    String option(String key, String otherwise) {
        return options.getOrDefault(key, otherwise);
    }

    int number(String key, int otherwise) {
        return Integer.parseInt(option(key, Integer.toString(otherwise)));
    }

    /** A topic name that this run alone uses. */
    String topic(String part) {
        return "T-" + scenario + "-" + part + "-" + run;
    }

    /** A group name that this run alone uses. */
    String group(String part) {
        return "G-" + scenario + "-" + part + "-" + run;
    }

    /** A started producer. */
    DefaultMQProducer producer() throws MQClientException {
        DefaultMQProducer producer = unstartedProducer();
        producer.start();
        return producer;
    }

    /** A producer, not started yet; it sends again when a broker is busy. */
    DefaultMQProducer unstartedProducer() {
        DefaultMQProducer producer = new DefaultMQProducer(group("producer"));
        configure(producer);
        producer.setSendMsgTimeout(10_000);
        producer.setRetryTimesWhenSendFailed(2);
        closing(producer::shutdown);
        return producer;
    }

    /** A started producer of transactions. */
    TransactionMQProducer transactionProducer(String group, TransactionListener listener) throws MQClientException {
        TransactionMQProducer producer = new TransactionMQProducer(group);
        configure(producer);
        producer.setSendMsgTimeout(10_000);
        producer.setTransactionListener(listener);
        // A producer that sends nothing is known to the broker from its heartbeats.
        producer.setHeartbeatBrokerInterval(1_000);
        closing(producer::shutdown);
        producer.start();
        return producer;
    }

    /** A started producer that writes traces of its messages. */
    @SuppressWarnings("deprecation")
    DefaultMQProducer tracingProducer() throws MQClientException {
        DefaultMQProducer producer = new DefaultMQProducer(group("producer"), true, null);
        configure(producer);
        producer.setSendMsgTimeout(10_000);
        closing(producer::shutdown);
        producer.start();
        return producer;
    }

    /** As {@link #pushConsumer}, and it writes traces of what it consumes. */
    @SuppressWarnings("deprecation")
    DefaultMQPushConsumer tracingConsumer(String group) {
        return configured(new DefaultMQPushConsumer(group, true, null));
    }

    /** A push consumer, not started yet, that begins at the first message. */
    DefaultMQPushConsumer pushConsumer(String group) {
        return configured(new DefaultMQPushConsumer(group));
    }

    private DefaultMQPushConsumer configured(DefaultMQPushConsumer consumer) {
        configure(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        // A shutdown waits for what is being consumed: else the offset that it stores may be behind what the listener has seen.
        consumer.setAwaitTerminationMillisWhenShutdown(5_000);
        closing(consumer::shutdown);
        return consumer;
    }

    @SuppressWarnings("deprecation")
    DefaultMQPullConsumer pullConsumer(String group) throws MQClientException {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group);
        configure(consumer);
        closing(consumer::shutdown);
        consumer.start();
        return consumer;
    }

    DefaultLitePullConsumer litePullConsumer(String group) {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        configure(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        closing(consumer::shutdown);
        return consumer;
    }

    /**
     * Starts a consumer when the name server knows the topics that it subscribes: a consumer that finds no route waits for its next
     * regular rebalance, up to 20 s.
     */
    void start(DefaultMQPushConsumer consumer) throws MQClientException, InterruptedException {
        for (String topic : consumer.getSubscription().keySet()) {
            awaitRoute(topic);
        }
        consumer.start();
    }

    /** Waits until the name server knows a topic: its first message can be stored before that. */
    void awaitRoute(String topic) throws MQClientException, InterruptedException {
        if (routes == null) {
            routes = new Reader(this);
        }
        routes.queues(topic);
    }

    /**
     * Waits until the broker has a group's offsets at the ends of all queues of a topic. A consumer that shuts down sends its offsets one-way: its
     * successor could ask before they are there.
     */
    void awaitStoredOffsets(String group, String topic) throws Exception {
        Reader reader = new Reader(this);
        DefaultMQPullConsumer member = pullConsumer(group);
        for (MessageQueue queue : reader.queues(topic)) {
            long end = reader.consumer().maxOffset(queue);
            long[] stored = new long[1];
            Check.await(this, "the stored offset " + end + " of " + queue, 20, () -> {
                try {
                    stored[0] = member.fetchConsumeOffset(queue, true);
                } catch (MQClientException e) {
                    stored[0] = -1;
                }
                return stored[0] == end;
            }, () -> stored[0]);
        }
        // It must not stay a member of the group.
        member.shutdown();
    }

    /** An instance of its own for each client: connections, routes and heartbeats are not shared. */
    private void configure(ClientConfig client) {
        client.setNamesrvAddr(namesrv());
        client.setInstanceName(scenario + "-" + run + "-" + INSTANCES.incrementAndGet());
        client.setPollNameServerInterval(1_000);
        client.setPersistConsumerOffsetInterval(500);
        client.setVipChannelEnabled(Boolean.parseBoolean(option("vip", "false")));
    }

    void closing(Runnable closer) {
        synchronized (closers) {
            closers.push(closer);
        }
    }

    /** Shuts the clients down, the last one first. */
    void close() {
        while (true) {
            Runnable closer;
            synchronized (closers) {
                closer = closers.poll();
            }
            if (closer == null) {
                return;
            }
            closer.run();
        }
    }

    String waitingFor() {
        return waitingFor;
    }

    void waitingFor(String what) {
        waitingFor = what;
    }
}
