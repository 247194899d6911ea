package compat;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullCallback;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers that pull by themselves. */
final class PullScenarios {
    private PullScenarios() {
    }

    static void register() {
        Scenario.core("pull-status", 120, PullScenarios::status);
        Scenario.core("pull-block", 120, PullScenarios::block);
        Scenario.core("pull-async", 120, PullScenarios::async);
        Scenario.core("lite-assign", 120, PullScenarios::assign);
        Scenario.core("lite-subscribe", 120, PullScenarios::subscribe);
        Scenario.core("lite-two", 120, PullScenarios::two);
    }

    /** Every result of a pull, with its next offset. */
    private static String status(Context context) throws Exception {
        String topic = context.topic("status");
        DefaultMQProducer producer = context.producer();
        for (int i = 0; i < 10; i++) {
            Message message = Texts.message(topic, "status-" + i);
            message.setTags(i < 5 ? "low" : "high");
            Texts.sent(producer.send(message, (queues, m, id) -> queues.get(0), 0));
        }
        Reader reader = new Reader(context);
        DefaultMQPullConsumer consumer = reader.consumer();
        MessageQueue queue = reader.queues(topic).get(0);
        Check.equal("min offset", 0L, consumer.minOffset(queue));
        reader.awaitEnd(queue, 10);
        check(consumer.pull(queue, "*", 0, 4), PullStatus.FOUND, 4, 4, 10);
        check(consumer.pull(queue, "*", 8, 32), PullStatus.FOUND, 2, 10, 10);
        check(consumer.pull(queue, "*", 10, 32), PullStatus.NO_NEW_MSG, 0, 10, 10);
        check(consumer.pull(queue, "*", 11, 32), PullStatus.OFFSET_ILLEGAL, 0, 10, 10);
        check(consumer.pull(queue, "*", 500, 32), PullStatus.OFFSET_ILLEGAL, 0, 10, 10);
        check(consumer.pull(queue, "high", 0, 32), PullStatus.FOUND, 5, 10, 10);
        check(consumer.pull(queue, "high", 0, 3), PullStatus.FOUND, 3, 8, 10);
        check(consumer.pull(queue, "low || none", 3, 32), PullStatus.FOUND, 2, 10, 10);
        check(consumer.pull(queue, "none", 0, 32), PullStatus.NO_MATCHED_MSG, 0, 10, 10);
        return "9 pulls";
    }

    private static void check(PullResult result, PullStatus status, int found, long next, long max) {
        Check.equal("status of " + result, status, result.getPullStatus());
        Check.equal("messages of " + result, found, result.getMsgFoundList() == null ? 0 : result.getMsgFoundList().size());
        Check.equal("next offset of " + result, next, result.getNextBeginOffset());
        Check.equal("min offset of " + result, 0L, result.getMinOffset());
        Check.equal("max offset of " + result, max, result.getMaxOffset());
    }

    /** A pull that waits for a message. */
    private static String block(Context context) throws Exception {
        String topic = context.topic("block");
        DefaultMQProducer producer = context.producer();
        Texts.sent(producer.send(Texts.message(topic, "first"), (queues, m, id) -> queues.get(0), 0));
        Reader reader = new Reader(context);
        MessageQueue queue = reader.queues(topic).get(0);
        reader.awaitEnd(queue, 1);
        AtomicReference<PullResult> result = new AtomicReference<>();
        AtomicReference<Throwable> error = new AtomicReference<>();
        Thread puller = new Thread(() -> {
            try {
                result.set(reader.consumer().pullBlockIfNotFound(queue, "*", 1, 32));
            } catch (Exception e) {
                error.set(e);
            }
        });
        puller.start();
        // Messages for other queues of the topic must not end the wait.
        for (int i = 0; i < 20; i++) {
            Texts.sent(producer.send(Texts.message(topic, "other"), (queues, m, id) -> queues.get(1), 0));
        }
        Check.that(result.get() == null && error.get() == null, "the pull did not wait: " + result.get() + " " + error.get());
        Texts.sent(producer.send(Texts.message(topic, "second"), (queues, m, id) -> queues.get(0), 0));
        Check.await(context, "the waiting pull", 5, () -> result.get() != null || error.get() != null);
        Check.equal("error", null, error.get());
        check(result.get(), PullStatus.FOUND, 1, 2, 2);
        Check.equal("body", "second", Reader.text(result.get().getMsgFoundList().get(0)));
        return "a waiting pull was woken";
    }

    private static String async(Context context) throws Exception {
        String topic = context.topic("async");
        DefaultMQProducer producer = context.producer();
        List<String> bodies = Texts.send(producer, topic, "async", 40);
        Reader reader = new Reader(context);
        reader.read(topic, 40);
        List<MessageExt> found = Collections.synchronizedList(new ArrayList<>());
        List<Throwable> errors = Collections.synchronizedList(new ArrayList<>());
        for (MessageQueue queue : reader.queues(topic)) {
            reader.consumer().pull(queue, "*", 0, 32, new PullCallback() {
                @Override
                public void onSuccess(PullResult result) {
                    found.addAll(result.getMsgFoundList());
                }

                @Override
                public void onException(Throwable e) {
                    errors.add(e);
                }
            });
        }
        Check.await(context, "40 messages", 10, () -> found.size() == 40 || !errors.isEmpty(), found::size);
        Check.that(errors.isEmpty(), "a pull failed: " + errors);
        Check.equal("bodies", bodies, Reader.bodies(new ArrayList<>(found)));
        return "40 messages";
    }

    /** Polls until {@code count} different bodies are there. */
    private static Set<String> poll(Context context, int count, DefaultLitePullConsumer... consumers) throws InterruptedException {
        Set<String> bodies = new TreeSet<>();
        Check.await(context, count + " messages by polling", 40, () -> {
            for (DefaultLitePullConsumer consumer : consumers) {
                consumer.poll(100).forEach(message -> bodies.add(Reader.text(message)));
            }
            return bodies.size() >= count;
        }, bodies::size);
        return bodies;
    }

    private static String assign(Context context) throws Exception {
        String topic = context.topic("assign");
        String group = context.group("assign");
        DefaultMQProducer producer = context.producer();
        Set<String> bodies = new TreeSet<>(Texts.send(producer, topic, "assign", 40));
        DefaultLitePullConsumer consumer = context.litePullConsumer(group);
        consumer.setAutoCommit(false);
        context.awaitRoute(topic);
        consumer.start();
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(topic);
        Check.equal("queues", 4, queues.size());
        consumer.assign(queues);
        Check.equal("bodies", bodies, poll(context, 40, consumer));
        for (MessageQueue queue : queues) {
            long end = producer.maxOffset(queue);
            Check.await(context, "the committed offset " + end + " of " + queue, 10, () -> committed(consumer, queue) == end,
                () -> committed(consumer, queue));
        }
        for (MessageQueue queue : queues) {
            consumer.seek(queue, 7);
        }
        Check.equal("messages from offset 7", 12, poll(context, 12, consumer).size());
        for (MessageQueue queue : queues) {
            consumer.seekToBegin(queue);
        }
        Check.equal("bodies from the begin", bodies, poll(context, 40, consumer));
        for (MessageQueue queue : queues) {
            consumer.seekToEnd(queue);
        }
        Set<String> last = new TreeSet<>(Texts.send(producer, topic, "last", 8));
        Check.equal("bodies after the end", last, poll(context, 8, consumer));
        MessageQueue any = queues.iterator().next();
        Check.equal("offset for a time in the past", 0L, consumer.offsetForTimestamp(any, 1L));
        return "assign, seek, commit";
    }

    private static long committed(DefaultLitePullConsumer consumer, MessageQueue queue) {
        try {
            consumer.commitSync();
            return consumer.committed(queue);
        } catch (Exception e) {
            throw new Check.Failed("reading the committed offset: " + e);
        }
    }

    private static String subscribe(Context context) throws Exception {
        String topic = context.topic("subscribe");
        String group = context.group("subscribe");
        DefaultMQProducer producer = context.producer();
        for (int i = 0; i < 40; i++) {
            Message message = Texts.message(topic, "subscribe-" + i);
            // The last message of every queue is wanted: only what was polled moves the offset.
            message.setTags(i < 20 ? "low" : "high");
            Texts.sent(producer.send(message));
        }
        DefaultLitePullConsumer consumer = context.litePullConsumer(group);
        consumer.subscribe(topic, "high");
        context.awaitRoute(topic);
        consumer.start();
        Set<String> bodies = poll(context, 20, consumer);
        bodies.forEach(body -> Check.that(Integer.parseInt(body.substring(10)) >= 20, "a message with another tag: " + body));
        // A shutdown alone does not commit what the last poll returned.
        consumer.commitSync();
        consumer.shutdown();
        context.awaitStoredOffsets(group, topic);
        DefaultLitePullConsumer successor = context.litePullConsumer(group);
        successor.subscribe(topic, "*");
        successor.start();
        Set<String> later = new TreeSet<>(Texts.send(producer, topic, "later", 8));
        Check.equal("bodies of the successor", later, poll(context, 8, successor));
        return "20 of 40 by tag, then a successor";
    }

    private static String two(Context context) throws Exception {
        String topic = context.topic("two");
        String group = context.group("two");
        DefaultMQProducer producer = context.producer();
        Set<String> bodies = new TreeSet<>(Texts.send(producer, topic, "early", 20));
        context.awaitRoute(topic);
        DefaultLitePullConsumer[] consumers = new DefaultLitePullConsumer[2];
        for (int i = 0; i < 2; i++) {
            consumers[i] = context.litePullConsumer(group);
            consumers[i].subscribe(topic, "*");
            consumers[i].start();
        }
        Check.await(context, "two queues each", 40, () -> assigned(consumers[0]) == 2 && assigned(consumers[1]) == 2,
            () -> assigned(consumers[0]) + " " + assigned(consumers[1]));
        bodies.addAll(Texts.send(producer, topic, "later", 20));
        Check.equal("bodies", bodies, poll(context, 40, consumers));
        return "two lite pull consumers share four queues";
    }

    private static int assigned(DefaultLitePullConsumer consumer) {
        try {
            return consumer.assignment().size();
        } catch (Exception e) {
            throw new Check.Failed("reading the assignment: " + e);
        }
    }
}
