package compat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Requests that are messages, and replies that the broker brings to the client that asked. */
final class RequestScenarios {
    private static final long LIMIT_MILLIS = 20_000;

    private RequestScenarios() {
    }

    static void register() {
        // The client 5.3.3 gives some requests up at once, against the Java broker as well.
        if (MQVersion.CURRENT_VERSION == MQVersion.Version.V5_3_3.ordinal()) {
            Scenario.part("request-reply", 120, RequestScenarios::reply);
        } else {
            Scenario.core("request-reply", 120, RequestScenarios::reply);
        }
        Scenario.core("request-unanswered", 120, RequestScenarios::unanswered);
    }

    /** A consumer that answers every request with its text in capitals; it has its queues when this returns. */
    private static void responder(Context context, String topic) throws Exception {
        DefaultMQProducer answers = context.producer();
        DefaultMQPushConsumer consumer = context.pushConsumer(context.group("responder"));
        consumer.subscribe(topic, "*");
        Received others = new Received();
        AtomicReference<Exception> failure = new AtomicReference<>();
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, concurrently) -> {
            for (MessageExt request : batch) {
                if (request.getProperty("REPLY_TO_CLIENT") == null) {
                    others.add(batch);
                    continue;
                }
                try {
                    byte[] body = Reader.text(request).toUpperCase().getBytes(StandardCharsets.UTF_8);
                    Texts.sent(answers.send(MessageUtil.createReplyMessage(request, body)));
                } catch (Exception e) {
                    e.printStackTrace();
                    failure.set(e);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        context.start(consumer);
        others.await(context, 1, 45);
        Check.that(failure.get() == null, "a reply: " + failure.get());
    }

    /** A topic with one message that is no request. */
    private static String topic(Context context, String part) throws Exception {
        String topic = context.topic(part);
        Texts.send(context.producer(), topic, "first", 1);
        return topic;
    }

    private static String reply(Context context) throws Exception {
        String topic = topic(context, "reply");
        responder(context, topic);
        // Two clients ask: each gets its own answers. A client that has only just learned the topic's route tells the broker of itself first.
        List<DefaultMQProducer> askers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            DefaultMQProducer asker = context.unstartedProducer();
            asker.setProducerGroup(context.group("asker" + i));
            asker.start();
            askers.add(asker);
        }
        long slowest = 0;
        for (int i = 0; i < 20; i++) {
            String text = "question-" + i;
            long begin = System.nanoTime();
            Message answer = askers.get(i % 2).request(Texts.message(topic, text), LIMIT_MILLIS);
            slowest = Math.max(slowest, (System.nanoTime() - begin) / 1_000_000);
            Check.equal("answer", text.toUpperCase(), new String(answer.getBody(), StandardCharsets.UTF_8));
            Check.equal("topic of the answer", context.option("cluster", "DefaultCluster") + "_REPLY_TOPIC", answer.getTopic());
        }
        Map<String, String> answers = new ConcurrentHashMap<>();
        for (int i = 0; i < 20; i++) {
            String text = "later-" + i;
            askers.get(i % 2).request(Texts.message(topic, text), new RequestCallback() {
                @Override
                public void onSuccess(Message message) {
                    answers.put(text, new String(message.getBody(), StandardCharsets.UTF_8));
                }

                @Override
                public void onException(Throwable e) {
                    answers.put(text, e.toString());
                }
            }, LIMIT_MILLIS);
        }
        Check.await(context, "20 answers", LIMIT_MILLIS / 1000.0 + 5, () -> answers.size() == 20, answers::size);
        answers.forEach((text, answer) -> Check.equal("answer", text.toUpperCase(), answer));
        return "40 requests of 2 clients, the slowest " + slowest + " ms";
    }

    /** Nobody answers: the client gives up at its time limit, and the request is a message like others. */
    private static String unanswered(Context context) throws Exception {
        String topic = topic(context, "unanswered");
        DefaultMQProducer asker = context.unstartedProducer();
        asker.setProducerGroup(context.group("asker"));
        asker.start();
        Check.thrown("a request that nobody answers", RequestTimeoutException.class, () -> asker.request(Texts.message(topic, "anybody?"), 1_000));
        Check.equal("messages", new TreeSet<>(List.of("anybody?", "first-0000")), new TreeSet<>(Reader.bodies(new Reader(context).read(topic, 2))));
        return "given up";
    }
}
