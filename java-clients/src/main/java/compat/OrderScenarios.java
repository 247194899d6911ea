package compat;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageExt;

/** Order: at the producer, at the orderly consumer, and when the queues change hands. */
final class OrderScenarios {
    private static final int ORDERS = 12;

    private OrderScenarios() {
    }

    static void register() {
        Scenario.core("order-send", 120, OrderScenarios::send);
        Scenario.core("order-consume", 120, OrderScenarios::consume);
        Scenario.core("order-suspend", 120, OrderScenarios::suspendQueue);
        Scenario.core("order-handover", 200, OrderScenarios::handover);
    }

    /** Sends {@code steps} of every order, each order to one queue; bodies are {@code order/step}. */
    private static void sendOrders(DefaultMQProducer producer, String topic, int from, int to) throws Exception {
        for (int step = from; step < to; step++) {
            for (int order = 0; order < ORDERS; order++) {
                SendResult result = producer.send(Texts.message(topic, order + "/" + step),
                    (queues, message, id) -> queues.get(id.hashCode() % queues.size()), order);
                Texts.sent(result);
            }
        }
    }

    /** Checks that the steps of each order came as 0, 1, 2 ...; returns how many orders were seen. */
    private static int checkOrders(List<MessageExt> messages, int steps) {
        Map<String, Integer> next = new HashMap<>();
        for (MessageExt message : messages) {
            String[] parts = Reader.text(message).split("/");
            int step = Integer.parseInt(parts[1]);
            Check.equal("step of order " + parts[0], next.getOrDefault(parts[0], 0), step);
            next.put(parts[0], step + 1);
        }
        next.forEach((order, count) -> Check.equal("steps of order " + order, steps, count));
        return next.size();
    }

    private static String send(Context context) throws Exception {
        String topic = context.topic("send");
        sendOrders(context.producer(), topic, 0, 10);
        Check.equal("orders", ORDERS, checkOrders(new Reader(context).read(topic, ORDERS * 10), 10));
        return ORDERS + " orders of 10 steps";
    }

    private static String consume(Context context) throws Exception {
        String topic = context.topic("consume");
        DefaultMQProducer producer = context.producer();
        sendOrders(producer, topic, 0, 5);
        DefaultMQPushConsumer consumer = context.pushConsumer(context.group("consume"));
        consumer.subscribe(topic, "*");
        Received received = new Received();
        Map<Integer, AtomicInteger> busy = new ConcurrentHashMap<>();
        AtomicInteger overlaps = new AtomicInteger();
        consumer.registerMessageListener((MessageListenerOrderly) (batch, orderly) -> {
            AtomicInteger inside = busy.computeIfAbsent(orderly.getMessageQueue().getQueueId(), id -> new AtomicInteger());
            if (inside.incrementAndGet() > 1) {
                overlaps.incrementAndGet();
            }
            received.add(batch);
            inside.decrementAndGet();
            return ConsumeOrderlyStatus.SUCCESS;
        });
        context.start(consumer);
        sendOrders(producer, topic, 5, 20);
        received.await(context, ORDERS * 20, 45);
        Check.equal("overlapping calls for one queue", 0, overlaps.get());
        Check.equal("orders", ORDERS, checkOrders(received.all(), 20));
        return ORDERS + " orders of 20 steps, no queue twice at a time";
    }

    /** A message that fails is offered again, before the ones behind it. */
    private static String suspendQueue(Context context) throws Exception {
        String topic = context.topic("suspend");
        DefaultMQProducer producer = context.producer();
        sendOrders(producer, topic, 0, 6);
        DefaultMQPushConsumer consumer = context.pushConsumer(context.group("suspend"));
        consumer.subscribe(topic, "*");
        consumer.setSuspendCurrentQueueTimeMillis(50);
        Received received = new Received();
        Map<String, Integer> attempts = Collections.synchronizedMap(new TreeMap<>());
        consumer.registerMessageListener((MessageListenerOrderly) (batch, orderly) -> {
            String text = Reader.text(batch.get(0));
            if (text.endsWith("/2") && attempts.merge(text, 1, Integer::sum) < 3) {
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            received.add(batch);
            return ConsumeOrderlyStatus.SUCCESS;
        });
        context.start(consumer);
        received.await(context, ORDERS * 6, 45);
        Check.equal("orders", ORDERS, checkOrders(received.all(), 6));
        attempts.forEach((text, count) -> Check.equal("attempts for " + text, 3, count));
        Check.equal("messages that failed twice", ORDERS, attempts.size());
        return "12 messages failed twice, the order stayed";
    }

    /** Queues move to a joining consumer and back; their locks keep the order. */
    private static String handover(Context context) throws Exception {
        String topic = context.topic("handover");
        String group = context.group("handover");
        DefaultMQProducer producer = context.producer();
        sendOrders(producer, topic, 0, 1);
        List<String> log = Collections.synchronizedList(new ArrayList<>());
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            DefaultMQPushConsumer consumer = context.pushConsumer(group);
            consumer.subscribe(topic, "*");
            String name = "c" + i + " ";
            consumer.registerMessageListener((MessageListenerOrderly) (batch, orderly) -> {
                batch.forEach(message -> log.add(name + Reader.text(message)));
                return ConsumeOrderlyStatus.SUCCESS;
            });
            consumers.add(consumer);
        }
        context.start(consumers.get(0));
        Check.await(context, "the first step of all orders", 45, () -> distinct(log, "c0 ") == ORDERS);
        context.start(consumers.get(1));
        int step = 1;
        // The first consumer keeps the lock of a queue 20 s longer while it has messages of it, and the second tries every 20 s.
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (distinct(log, "c1 ") == 0) {
            Check.that(System.nanoTime() < deadline, "the second consumer never got a message");
            sendOrders(producer, topic, step, ++step);
            int sent = step * ORDERS;
            Check.await(context, "all steps so far", 75, () -> distinct(log, "") == sent, () -> distinct(log, "") + " of " + sent);
        }
        consumers.get(1).shutdown();
        sendOrders(producer, topic, step, ++step);
        int sent = step * ORDERS;
        // The leaver has given its locks back: without that they would be its own for 60 s.
        Check.await(context, "all steps after the leave", 45, () -> distinct(log, "") == sent, () -> distinct(log, "") + " of " + sent);
        // A hand-over may repeat a message; what counts is that no step is seen for the first time before its predecessor.
        Map<String, Integer> next = new HashMap<>();
        for (String line : new ArrayList<>(log)) {
            String[] parts = line.substring(3).split("/");
            int seen = Integer.parseInt(parts[1]);
            int wanted = next.getOrDefault(parts[0], 0);
            Check.that(seen <= wanted, "order " + parts[0] + " jumped from step " + (wanted - 1) + " to " + seen);
            next.put(parts[0], Math.max(wanted, seen + 1));
        }
        return step + " steps, " + (log.size() - sent) + " repeated";
    }

    private static int distinct(List<String> log, String prefix) {
        synchronized (log) {
            return (int) log.stream().filter(line -> line.startsWith(prefix)).map(line -> line.substring(3)).distinct().count();
        }
    }
}
