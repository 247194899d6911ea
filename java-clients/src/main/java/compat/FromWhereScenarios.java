package compat;

import java.text.SimpleDateFormat;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Date;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Where a new group begins when its wish counts: it consumes by broadcast (the offsets are the client's), or the first messages of the queues
 * are deleted. {@link OffsetScenarios} has the young queues, of which the broker gives everything whatever the wish is.
 */
final class FromWhereScenarios {
    private FromWhereScenarios() {
    }

    static void register() {
        Scenario.core("from-where-broadcast", 120, FromWhereScenarios::broadcast);
        Scenario.core("from-where-young", 120, FromWhereScenarios::young);
        Scenario.part("from-where-deleted", 240, FromWhereScenarios::deleted);
    }

    /** A whole second, as clients name times, with messages right before and right after it. */
    private static final class Border {
        final long millis;
        final String text;
        /** Bodies of those stored at that time or later. */
        final List<String> after = new ArrayList<>();
        /** Bodies of the others. */
        final List<String> before = new ArrayList<>();

        /** Sends for two seconds; the border is the second second that begins meanwhile. */
        Border(Context context, DefaultMQProducer producer, String topic) throws Exception {
            // A producer's first message can take longer than those two seconds.
            Texts.sent(producer.send(Texts.message(topic, "border-0000")));
            int count = 1;
            millis = (System.currentTimeMillis() / 1000 + 2) * 1000;
            text = new SimpleDateFormat("yyyyMMddHHmmss").format(new Date(millis));
            while (System.currentTimeMillis() < millis + 500) {
                Texts.sent(producer.send(Texts.message(topic, String.format("border-%04d", count++))));
                Thread.sleep(3);
            }
            for (MessageExt message : all(context, topic, count)) {
                if (Reader.text(message).startsWith("border-")) {
                    (message.getStoreTimestamp() >= millis ? after : before).add(Reader.text(message));
                }
            }
            Collections.sort(after);
            Collections.sort(before);
            Check.equal("messages about the border", count, after.size() + before.size());
            Check.that(before.size() > 2 && after.size() > 2, before.size() + " before the border and " + after.size() + " after it");
        }

        /** What a topic holds, at least {@code count} messages of the border. */
        private static List<MessageExt> all(Context context, String topic, int count) throws Exception {
            Reader reader = new Reader(context);
            List<MessageExt> messages = new ArrayList<>();
            Check.await(context, count + " messages about the border", 20, () -> {
                messages.clear();
                try {
                    for (MessageQueue queue : reader.queues(topic)) {
                        messages.addAll(reader.readFromLowest(queue));
                    }
                } catch (Exception e) {
                    throw new Check.Failed("reading " + topic + ": " + e);
                }
                return messages.stream().filter(message -> Reader.text(message).startsWith("border-")).count() >= count;
            });
            return messages;
        }
    }

    /** A consumer that has found out where it begins in every queue. */
    private static final class Start {
        final DefaultMQPushConsumer consumer;
        final Received received;

        Start(Context context, String topic, String name, ConsumeFromWhere where, String time, boolean broadcasting) throws Exception {
            consumer = context.pushConsumer(context.group(name));
            consumer.setConsumeFromWhere(where);
            if (time != null) {
                consumer.setConsumeTimestamp(time);
            }
            if (broadcasting) {
                PushScenarios.broadcasting(consumer);
            }
            consumer.subscribe(topic, "*");
            received = Received.by(consumer);
            context.start(consumer);
            // A queue is in the table as soon as its first offset is known.
            Check.await(context, "the queues of " + name, 45, () -> {
                return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
                    .filter(queue -> queue.getTopic().equals(topic)).count() == 4;
            });
        }

        /** Waits for exactly these. */
        void check(Context context, String what, List<String> expected) throws InterruptedException {
            Check.await(context, expected.size() + " messages for " + what, 45, () -> received.size() >= expected.size(), received::size);
            List<String> sorted = new ArrayList<>(expected);
            Collections.sort(sorted);
            Check.equal("bodies for " + what, sorted, received.bodies());
        }
    }

    private static String broadcast(Context context) throws Exception {
        String topic = context.topic("broadcast");
        DefaultMQProducer producer = context.producer();
        Border border = new Border(context, producer, topic);
        Start first = new Start(context, topic, "first", ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, null, true);
        Start last = new Start(context, topic, "last", ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, null, true);
        Start time = new Start(context, topic, "time", ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, border.text, true);
        return finish(context, producer, topic, border, border.before, first, last, time);
    }

    /** Sends some more and checks what each has got. */
    private static String finish(Context context, DefaultMQProducer producer, String topic, Border border, List<String> old, Start first, Start last,
        Start time) throws Exception {
        List<String> late = Texts.send(producer, topic, "late", 20);
        last.check(context, "a group from the end", late);
        List<String> expected = new ArrayList<>(border.after);
        expected.addAll(late);
        time.check(context, "a group from " + border.text, expected);
        expected.addAll(old);
        first.check(context, "a group from the beginning", expected);
        return old.size() + " before the time, " + border.after.size() + " from it on, then " + late.size();
    }

    /** A group that shares its queues gets all of a young queue. */
    private static String young(Context context) throws Exception {
        String topic = context.topic("young");
        DefaultMQProducer producer = context.producer();
        Border border = new Border(context, producer, topic);
        List<String> all = new ArrayList<>(border.before);
        all.addAll(border.after);
        Start time = new Start(context, topic, "time", ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, border.text, false);
        time.check(context, "a group from " + border.text, all);
        return all.size() + " messages";
    }

    /**
     * Fills the first file of the log, says {@code FILLED}, and waits until somebody has deleted it; then the wish of a group counts. The file
     * may have a megabyte.
     */
    private static String deleted(Context context) throws Exception {
        String topic = context.topic("deleted");
        DefaultMQProducer producer = context.producer();
        byte[] body = new byte[100_000];
        for (int i = 0; i < body.length; i++) {
            body[i] = (byte) ('a' + i * i % 23);
        }
        producer.setCompressMsgBodyOverHowmuch(1 << 20);
        for (int i = 0; i < 12; i++) {
            SendResult sent = producer.send(new Message(topic, body));
            Texts.sent(sent);
        }
        Reader reader = new Reader(context);
        List<MessageQueue> queues = reader.queues(topic);
        System.out.println("FILLED");
        System.out.flush();
        Check.await(context, "the deletion of the first messages of each queue", 120, () -> {
            try {
                for (MessageQueue queue : queues) {
                    if (reader.consumer().minOffset(queue) == 0) {
                        return false;
                    }
                }
                return true;
            } catch (MQClientException e) {
                throw new Check.Failed("the lowest offsets: " + e);
            }
        });
        Border border = new Border(context, producer, topic);
        List<String> old = new ArrayList<>();
        for (MessageQueue queue : queues) {
            for (MessageExt message : reader.readFromLowest(queue)) {
                if (!border.after.contains(Reader.text(message))) {
                    old.add(Reader.text(message));
                }
            }
        }
        Start first = new Start(context, topic, "first", ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, null, false);
        Start last = new Start(context, topic, "last", ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, null, false);
        Start time = new Start(context, topic, "time", ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, border.text, false);
        return finish(context, producer, topic, border, old, first, last, time);
    }
}
