package compat;

import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/** Messages for an arbitrary time. The times are set as properties: not every client has methods for them. */
final class TimerScenarios {
    private static final String DELAY_SEC = "TIMER_DELAY_SEC";
    private static final String DELAY_MS = "TIMER_DELAY_MS";
    private static final String DELIVER_MS = "TIMER_DELIVER_MS";
    private static final String DELETE = "TIMER_DEL_UNIQKEY";

    private TimerScenarios() {
    }

    static void register() {
        Scenario.core("timer-deliver", 120, TimerScenarios::deliver);
        Scenario.core("timer-refused", 60, TimerScenarios::refused);
        Scenario.core("timer-delete", 60, TimerScenarios::delete);
        Scenario.part("timer-recall", 60, TimerScenarios::recall);
        Scenario.part("timer-recall-forbidden", 60, TimerScenarios::recallForbidden);
        Scenario.part("timer-produce", 120, TimerScenarios::produce);
        Scenario.part("timer-verify", 180, TimerScenarios::verify);
    }

    private static Message timed(String topic, String body, String property, long value) {
        Message message = Texts.message(topic, body);
        MessageAccessor.putProperty(message, property, Long.toString(value));
        return message;
    }

    /** Every message comes once, not before its time and soon after it. */
    private static String deliver(Context context) throws Exception {
        String topic = context.topic("deliver");
        DefaultMQProducer producer = context.producer();
        Texts.send(producer, topic, "now", 1);
        Map<String, Long> due = new TreeMap<>();
        for (int i = 0; i < 30; i++) {
            String body = "m" + i;
            long now = System.currentTimeMillis();
            long after;
            Message message;
            switch (i % 3) {
                case 0:
                    after = 1000 * (1 + i / 10);
                    message = timed(topic, body, DELAY_SEC, after / 1000);
                    break;
                case 1:
                    after = 700 + 133L * i;
                    message = timed(topic, body, DELAY_MS, after);
                    break;
                default:
                    after = 500 + 91L * i;
                    message = timed(topic, body, DELIVER_MS, now + after);
            }
            message.setTags("tag");
            message.setKeys("key" + i);
            SendResult result = Texts.sent(producer.send(message));
            Check.equal("queue that was asked for", topic, result.getMessageQueue().getTopic());
            // A delay counts from when the broker has the message: not before this.
            due.put(body, now + after);
        }
        SendResult past = Texts.sent(producer.send(timed(topic, "past", DELIVER_MS, System.currentTimeMillis() - 5000)));
        Check.that(past.getQueueOffset() >= 0, "a message for the past has an offset");
        due.put("past", 0L);
        DefaultMQPushConsumer consumer = context.pushConsumer(context.group("deliver"));
        consumer.subscribe(topic, "*");
        Received received = Received.by(consumer);
        context.start(consumer);
        received.await(context, due.size() + 1, 60);
        Set<String> seen = new HashSet<>();
        long latest = 0;
        for (MessageExt message : received.all()) {
            String body = Reader.text(message);
            Check.that(seen.add(body), body + " came twice");
            if (body.startsWith("now")) {
                continue;
            }
            long late = message.getStoreTimestamp() - due.get(body);
            Check.that(late >= 0, body + " came " + -late + " ms early");
            Check.equal("topic", topic, message.getTopic());
            if (!body.equals("past")) {
                latest = Math.max(latest, late);
                Check.equal("tag of " + body, "tag", message.getTags());
                Check.that(message.getProperty("TIMER_OUT_MS") != null, body + " says when it was due");
                Check.that(message.getProperty("TIMER_DEQUEUE_MS") != null, body + " says when it was delivered");
            }
        }
        Check.that(latest < 15_000, "a message came " + latest + " ms late");
        return due.size() + " messages, at most " + latest + " ms late";
    }

    /** Times that no broker keeps. */
    private static String refused(Context context) throws Exception {
        String topic = context.topic("refused");
        DefaultMQProducer producer = context.producer();
        Texts.send(producer, topic, "now", 1);
        List<Message> messages = new ArrayList<>();
        messages.add(timed(topic, "far", DELAY_SEC, 3 * 86_400 + 100));
        messages.add(timed(topic, "far", DELAY_MS, 3 * 86_400_000L + 100_000));
        messages.add(timed(topic, "far", DELIVER_MS, System.currentTimeMillis() + 4 * 86_400_000L));
        Message odd = Texts.message(topic, "odd");
        MessageAccessor.putProperty(odd, DELIVER_MS, "tomorrow");
        messages.add(odd);
        Message late = timed(topic, "late", DELIVER_MS, 1000);
        MessageAccessor.putProperty(late, DELETE, "anything");
        messages.add(late);
        for (Message message : messages) {
            MQBrokerException refusal = Check.thrown("the message for " + message.getProperties(), MQBrokerException.class, () -> producer.send(message));
            Check.equal("code", 13, refusal.getResponseCode());
            Check.equal("reason", "timer message illegal, the delay time should not be bigger than the max delay 259200000ms; "
                + "or if set del msg, the delay time should be bigger than the current time", refusal.getErrorMessage());
        }
        Message both = timed(topic, "both", DELAY_SEC, 5 * 86_400);
        both.setDelayTimeLevel(1);
        Texts.sent(producer.send(both));
        return messages.size() + " refused, a delay level goes before a time";
    }

    /** A message of the same tick deletes another one by its unique key. */
    private static String delete(Context context) throws Exception {
        String topic = context.topic("delete");
        DefaultMQProducer producer = context.producer();
        Texts.send(producer, topic, "now", 1);
        long due = System.currentTimeMillis() + 4000;
        List<String> ids = new ArrayList<>();
        for (String body : new String[] {"a", "b", "c"}) {
            ids.add(Texts.sent(producer.send(timed(topic, body, DELIVER_MS, due))).getMsgId());
        }
        Message delete = timed(topic, "delete", DELIVER_MS, due);
        MessageAccessor.putProperty(delete, DELETE, ids.get(1));
        Texts.sent(producer.send(delete));
        Texts.sent(producer.send(timed(topic, "last", DELIVER_MS, due + 2000)));
        Reader reader = new Reader(context);
        Check.await(context, "the last message", 30, () -> {
            try {
                return reader.count(topic) >= 4;
            } catch (Exception e) {
                throw new Check.Failed("counting " + topic + ": " + e);
            }
        });
        Check.equal("bodies", List.of("a", "c", "last", "now-0000"), Reader.bodies(reader.read(topic, 4)));
        return "one of three deleted";
    }

    /** With {@code recallMessageEnable=true}: a producer takes a message back. */
    private static String recall(Context context) throws Exception {
        String topic = context.topic("recall");
        DefaultMQProducer producer = context.producer();
        Texts.send(producer, topic, "now", 1);
        long due = System.currentTimeMillis() + 4000;
        List<SendResult> results = new ArrayList<>();
        for (String body : new String[] {"a", "b", "c"}) {
            results.add(Texts.sent(producer.send(timed(topic, body, DELIVER_MS, due))));
        }
        String handle = handle(results.get(1));
        Check.that(handle != null && !handle.isEmpty(), "there is a handle");
        Check.equal("id of the recalled message", results.get(1).getMsgId(), recall(producer, topic, handle));
        // Once more does no harm; a handle of nothing finds nothing.
        recall(producer, topic, handle);
        for (String odd : new String[] {"zzz", handle.substring(4)}) {
            Exception refusal = Check.thrown("the handle " + odd, Exception.class, () -> recall(producer, topic, odd));
            Check.that(refusal.getMessage().contains("recall handle is invalid"), "refused: " + refusal.getMessage());
        }
        Texts.sent(producer.send(timed(topic, "last", DELIVER_MS, due + 2000)));
        Reader reader = new Reader(context);
        Check.await(context, "the last message", 30, () -> {
            try {
                return reader.count(topic) >= 4;
            } catch (Exception e) {
                throw new Check.Failed("counting " + topic + ": " + e);
            }
        });
        Check.equal("bodies", List.of("a", "c", "last", "now-0000"), Reader.bodies(reader.read(topic, 4)));
        return "one of three recalled";
    }

    /** Without it: nothing is taken back. */
    private static String recallForbidden(Context context) throws Exception {
        String topic = context.topic("forbidden");
        DefaultMQProducer producer = context.producer();
        Texts.send(producer, topic, "now", 1);
        SendResult result = Texts.sent(producer.send(timed(topic, "kept", DELAY_SEC, 3)));
        MQBrokerException refusal = Check.thrown("a recall", MQBrokerException.class, () -> recall(producer, topic, handle(result)));
        Check.equal("code", 16, refusal.getResponseCode());
        Check.equal("reason", "recall failed, operation is forbidden", refusal.getErrorMessage());
        new Reader(context).read(topic, 2);
        return "refused, and the message came";
    }

    private static String handle(SendResult result) throws Exception {
        return (String) SendResult.class.getMethod("getRecallHandle").invoke(result);
    }

    private static String recall(DefaultMQProducer producer, String topic, String handle) throws Exception {
        try {
            return (String) DefaultMQProducer.class.getMethod("recallMessage", String.class, String.class).invoke(producer, topic, handle);
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof Exception) {
                throw (Exception) e.getCause();
            }
            throw e;
        }
    }

    /** {@code --topic --file --after MS [--spread MS --count --prefix]}: messages that are due from {@code after} on, evenly. */
    private static String produce(Context context) throws Exception {
        DefaultMQProducer producer = context.producer();
        String topic = context.option("topic");
        int count = context.number("count", 200);
        long after = context.number("after", 5000);
        long spread = context.number("spread", 0);
        long start = System.currentTimeMillis();
        try (Acks acks = new Acks(Path.of(context.option("file")))) {
            for (int i = 0; i < count; i++) {
                String key = context.option("prefix", "t") + "-" + i;
                Message message = timed(topic, key, DELIVER_MS, start + after + spread * i / count);
                message.setKeys(key);
                Check.that(acks.answered(key, producer.send(message)), key + " was not confirmed");
            }
        }
        return count + " acked";
    }

    /** {@code --topic --file [--exact --prefix]}: every confirmed message comes, none early; with {@code exact} none twice. */
    private static String verify(Context context) throws Exception {
        String topic = context.option("topic");
        Set<String> wanted = new HashSet<>();
        Acks.load(Path.of(context.option("file"))).forEach((key, ack) -> {
            if (ack.result.equals("acked") && key.startsWith(context.option("prefix", ""))) {
                wanted.add(key);
            }
        });
        Reader reader = new Reader(context);
        Map<String, Integer> times = new HashMap<>();
        long[] latest = new long[1];
        Check.await(context, wanted.size() + " timed messages", 120, () -> {
            try {
                if (reader.count(topic) < wanted.size()) {
                    return false;
                }
                times.clear();
                for (MessageExt message : reader.read(topic, (int) reader.count(topic))) {
                    String key = new String(message.getBody(), StandardCharsets.UTF_8);
                    times.merge(key, 1, Integer::sum);
                    long late = message.getStoreTimestamp() - Long.parseLong(message.getProperty(DELIVER_MS));
                    Check.that(late >= 0, key + " came " + -late + " ms early");
                    latest[0] = Math.max(latest[0], late);
                }
                return times.keySet().containsAll(wanted);
            } catch (Check.Failed e) {
                // More came while we read.
                if (e.getMessage().startsWith("messages read from")) {
                    return false;
                }
                throw e;
            } catch (Exception e) {
                throw new Check.Failed("reading " + topic + ": " + e);
            }
        }, times::size);
        long repeated = times.values().stream().filter(count -> count > 1).count();
        if (context.option("exact", "false").equals("true")) {
            Check.equal("messages that came twice", 0L, repeated);
        }
        return wanted.size() + " of " + wanted.size() + " acked delivered, " + repeated + " repeated, at most " + latest[0] + " ms late";
    }
}
