package compat;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;

/** Clients with a namespace: it stands before the names of their topics and groups on the wire, and they do not see it. */
final class NamespaceScenarios {
    private NamespaceScenarios() {
    }

    static void register() {
        Scenario.core("namespace", 120, NamespaceScenarios::namespace);
    }

    @SuppressWarnings("deprecation")
    private static void set(ClientConfig client, String namespace) {
        client.setNamespace(namespace);
    }

    /** The same topic and group in two namespaces and in none have nothing to do with each other, retries included. */
    private static String namespace(Context context) throws Exception {
        String topic = context.topic("shared");
        String group = context.group("shared");
        Map<String, Map<String, Integer>> attempts = new ConcurrentHashMap<>();
        String[] namespaces = {"one", "two", ""};
        for (String namespace : namespaces) {
            DefaultMQProducer producer = context.unstartedProducer();
            if (!namespace.isEmpty()) {
                set(producer, namespace);
            }
            producer.start();
            Texts.send(producer, topic, "in" + namespace, 8);
            String wire = namespace.isEmpty() ? topic : namespace + "%" + topic;
            Check.equal("messages of " + wire, 8, new Reader(context).read(wire, 8).size());
        }
        for (String namespace : namespaces) {
            DefaultMQPushConsumer consumer = context.pushConsumer(group);
            if (!namespace.isEmpty()) {
                set(consumer, namespace);
            }
            consumer.subscribe(topic, "*");
            Map<String, Integer> mine = new ConcurrentHashMap<>();
            attempts.put(namespace, mine);
            consumer.registerMessageListener((MessageListenerConcurrently) (batch, concurrently) -> {
                MessageExt message = batch.get(0);
                int count = mine.merge(Reader.text(message), message.getTopic().equals(topic) ? 1 : 100, Integer::sum);
                if (count == 1 && Reader.text(message).endsWith("3")) {
                    concurrently.setDelayLevelWhenNextConsume(1);
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            context.start(consumer);
        }
        for (String namespace : namespaces) {
            Map<String, Integer> mine = attempts.get(namespace);
            Map<String, Integer> expected = new ConcurrentHashMap<>();
            for (int i = 0; i < 8; i++) {
                expected.put(String.format("in%s-%04d", namespace, i), i == 3 ? 2 : 1);
            }
            Check.await(context, "the messages of namespace '" + namespace + "'", 60, () -> mine.equals(expected), mine::toString);
        }
        return "8 messages in each of 3 namespaces, one of them twice";
    }
}
