package compat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Traces that clients write about their messages; the broker has traceTopicEnable=true. */
final class TraceScenarios {
    private static final String TOPIC = "RMQ_SYS_TRACE_TOPIC";
    private static final char FIELD = 1;
    private static final char RECORD = 2;

    private TraceScenarios() {
    }

    static void register() {
        Scenario.part("trace", 120, TraceScenarios::trace);
    }

    /** Each message has a record of its producer and two of its consumer, which are found by the message's key. */
    private static String trace(Context context) throws Exception {
        String topic = context.topic("trace");
        String group = context.group("trace");
        DefaultMQProducer producer = context.tracingProducer();
        List<SendResult> sent = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            sent.add(Texts.sent(producer.send(Texts.message(topic, "m" + i))));
        }
        DefaultMQPushConsumer consumer = context.tracingConsumer(group);
        consumer.subscribe(topic, "*");
        Received received = Received.by(consumer);
        context.start(consumer);
        received.await(context, 10, 45);
        DefaultMQPullConsumer reader = context.pullConsumer(context.group("reader"));
        Set<String> wanted = new TreeSet<>();
        for (SendResult result : sent) {
            for (String kind : List.of("Pub", "SubBefore", "SubAfter")) {
                wanted.add(kind + " " + result.getMsgId());
            }
        }
        Set<String> found = new TreeSet<>();
        Check.await(context, "30 records", 60, () -> {
            try {
                found.addAll(records(reader));
            } catch (Exception e) {
                throw new Check.Failed("reading the traces: " + e);
            }
            return found.containsAll(wanted);
        }, found::size);
        // The trace is a message with the keys of those that it is about.
        String key = sent.get(0).getMsgId();
        Check.await(context, "the trace by key", 20, () -> {
            try {
                return !reader.queryMessage(TOPIC, key, 32, 0, System.currentTimeMillis() + 60_000).getMessageList().isEmpty();
            } catch (MQClientException | InterruptedException e) {
                return false;
            }
        });
        return "10 messages, 30 records";
    }

    private static Set<String> records(DefaultMQPullConsumer reader) throws Exception {
        Set<String> found = new TreeSet<>();
        for (MessageQueue queue : reader.fetchSubscribeMessageQueues(TOPIC)) {
            long next = reader.minOffset(queue);
            while (true) {
                PullResult result = reader.pull(queue, "*", next, 32);
                if (result.getPullStatus() != PullStatus.FOUND) {
                    break;
                }
                next = result.getNextBeginOffset();
                for (MessageExt message : result.getMsgFoundList()) {
                    for (String record : new String(message.getBody(), StandardCharsets.UTF_8).split(String.valueOf(RECORD))) {
                        String[] fields = record.split(String.valueOf(FIELD));
                        // Pub: kind, time, region, group, topic, id; SubBefore: kind, time, region, group, request, id; SubAfter: kind, request, id.
                        int id = fields[0].equals("SubAfter") ? 2 : 5;
                        if (fields.length > id) {
                            found.add(fields[0] + " " + fields[id]);
                        }
                    }
                }
            }
        }
        return found;
    }
}
