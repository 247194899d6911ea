package compat;

import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/** What a message carries, and topics that come into being by a send. */
final class MessageScenarios {
    private static final int MAX_MESSAGE_SIZE = 4 * 1024 * 1024;

    private MessageScenarios() {
    }

    static void register() {
        Scenario.core("message-big", 120, MessageScenarios::big);
        Scenario.core("message-too-big", 120, MessageScenarios::tooBig);
        Scenario.core("message-compressed", 120, MessageScenarios::compressed);
        Scenario.core("message-properties", 120, MessageScenarios::properties);
        Scenario.core("message-refused", 120, MessageScenarios::refused);
        Scenario.core("topics-many", 120, MessageScenarios::manyTopics);
    }

    private static byte[] noise(int size, long seed) {
        byte[] bytes = new byte[size];
        new Random(seed).nextBytes(bytes);
        return bytes;
    }

    /** Bodies that do not compress, up to the largest that a broker takes with its defaults. */
    private static String big(Context context) throws Exception {
        String topic = context.topic("big");
        DefaultMQProducer producer = context.unstartedProducer();
        // Noise grows when it is compressed: the largest body would pass the limit.
        producer.setCompressMsgBodyOverHowmuch(2 * MAX_MESSAGE_SIZE);
        producer.start();
        int[] sizes = {1, 4_095, 4_096, 100_000, 1_000_000, 3_000_000, MAX_MESSAGE_SIZE};
        Map<Integer, byte[]> sent = new TreeMap<>();
        for (int size : sizes) {
            byte[] body = noise(size, size);
            sent.put(size, body);
            Texts.sent(producer.send(new Message(topic, body)));
        }
        for (MessageExt message : new Reader(context).read(topic, sizes.length)) {
            Check.equal("body of " + message.getBody().length, sent.get(message.getBody().length), message.getBody());
        }
        DefaultMQPushConsumer consumer = context.pushConsumer(context.group("big"));
        consumer.subscribe(topic, "*");
        Received received = Received.by(consumer);
        context.start(consumer);
        received.await(context, sizes.length, 45);
        for (MessageExt message : received.all()) {
            Check.equal("pushed body", sent.get(message.getBody().length), message.getBody());
        }
        return "1 byte to 4 MiB";
    }

    /** The broker itself refuses what is larger than its limit, and goes on serving. */
    private static String tooBig(Context context) throws Exception {
        String topic = context.topic("toobig");
        DefaultMQProducer producer = context.unstartedProducer();
        producer.setMaxMessageSize(3 * MAX_MESSAGE_SIZE);
        producer.setCompressMsgBodyOverHowmuch(3 * MAX_MESSAGE_SIZE);
        producer.start();
        List<String> bodies = Texts.send(producer, topic, "small", 1);
        MQBrokerException refused = Check.thrown("a body of 5 MiB", MQBrokerException.class,
            () -> producer.send(new Message(topic, noise(5 * 1024 * 1024, 1))));
        Check.equal("code", 13, refused.getResponseCode());
        StringBuilder value = new StringBuilder();
        while (value.length() < 40_000) {
            value.append("property-value-");
        }
        Message heavy = Texts.message(topic, "heavy");
        heavy.putUserProperty("heavy", value.toString());
        refused = Check.thrown("properties of 40,000 bytes", MQBrokerException.class, () -> producer.send(heavy));
        Check.equal("code", 13, refused.getResponseCode());
        List<String> expected = new ArrayList<>(bodies);
        expected.addAll(Texts.send(producer, topic, "still", 1));
        Check.equal("bodies", expected, Reader.bodies(new Reader(context).read(topic, 2)));
        return "refused with 13, then served";
    }

    private static String compressed(Context context) throws Exception {
        String topic = context.topic("compressed");
        DefaultMQProducer producer = context.producer();
        StringBuilder text = new StringBuilder();
        for (int i = 0; text.length() < 200_000; i++) {
            text.append("line ").append(i % 50).append(" of a long and dull text\n");
        }
        byte[] body = text.toString().getBytes(StandardCharsets.UTF_8);
        Texts.sent(producer.send(new Message(topic, body)));
        List<MessageExt> read = new Reader(context).read(topic, 1);
        Check.equal("pulled body", body, read.get(0).getBody());
        // The broker keeps what it was sent: the record stays small.
        Check.that(read.get(0).getStoreSize() < body.length / 4, "stored size " + read.get(0).getStoreSize() + " is not that of a compressed body");
        DefaultMQPushConsumer consumer = context.pushConsumer(context.group("compressed"));
        consumer.subscribe(topic, "*");
        Received received = Received.by(consumer);
        context.start(consumer);
        received.await(context, 1, 45);
        Check.equal("pushed body", body, received.all().get(0).getBody());
        return body.length + " bytes stored as " + read.get(0).getStoreSize();
    }

    private static String properties(Context context) throws Exception {
        String topic = context.topic("properties");
        DefaultMQProducer producer = context.producer();
        long before = System.currentTimeMillis();
        Message message = new Message(topic, "标签", "", 77, "正文 ünïcødé \uD83D\uDE80\u0000end".getBytes(StandardCharsets.UTF_8), true);
        message.setKeys(Arrays.asList("order-1", "schlüssel", "键"));
        message.setBuyerId("käufer");
        Map<String, String> users = new TreeMap<>();
        users.put("plain", "value");
        users.put("spaces", "  two  words  ");
        users.put("unicode-ключ", "значение \uD83D\uDE80");
        users.put("json", "{\"a\":[1,2,\"x\\\"y\"],\"b\":null}");
        users.put("equals", "a=b&c=d;e:f");
        users.put("lines", "one\r\ntwo\tthree");
        users.forEach(message::putUserProperty);
        SendResult result = Texts.sent(producer.send(message));
        MessageExt read = new Reader(context).read(topic, 1).get(0);
        Check.equal("body", message.getBody(), read.getBody());
        Check.equal("tag", "标签", read.getTags());
        Check.equal("keys", "order-1 schlüssel 键", read.getKeys());
        Check.equal("flag", 77, read.getFlag());
        Check.equal("buyer", "käufer", read.getBuyerId());
        for (Map.Entry<String, String> user : users.entrySet()) {
            Check.equal("property " + user.getKey(), user.getValue(), read.getUserProperty(user.getKey()));
        }
        Check.equal("cluster property", true, read.getProperty("CLUSTER") != null);
        Check.equal("WAIT", "true", read.getProperty("WAIT"));
        Check.equal("unique id", result.getMsgId(), read.getMsgId());
        Check.equal("topic", topic, read.getTopic());
        Check.equal("reconsume times", 0, read.getReconsumeTimes());
        Check.equal("prepared offset", 0L, read.getPreparedTransactionOffset());
        Check.equal("born host", "127.0.0.1", ((InetSocketAddress) read.getBornHost()).getAddress().getHostAddress());
        Check.that(read.getBornTimestamp() >= before && read.getStoreTimestamp() >= read.getBornTimestamp()
            && read.getStoreTimestamp() <= System.currentTimeMillis(), "born and store time are in order");
        Check.that(read.getBodyCRC() != 0, "a body crc is there");
        return users.size() + " user properties, 3 keys";
    }

    /** What is refused before and by the broker; the producer goes on working. */
    private static String refused(Context context) throws Exception {
        DefaultMQProducer producer = context.producer();
        Check.thrown("an illegal topic name", MQClientException.class, () -> producer.send(Texts.message("no topic!", "x")));
        Check.thrown("an empty body", MQClientException.class, () -> producer.send(new Message(context.topic("empty"), new byte[0])));
        Check.thrown("a topic of the system", MQClientException.class, () -> producer.send(Texts.message("SCHEDULE_TOPIC_XXXX", "x")));
        String topic = context.topic("fine");
        List<String> bodies = new ArrayList<>(Texts.send(producer, topic, "before", 1));
        Message malformed = Texts.message(topic, "malformed");
        MessageAccessor.putProperty(malformed, "DELAY", "abc");
        // The client takes code 1 for a reason to try again, so it wraps what the broker said.
        MQClientException refused = Check.thrown("a delay level that is no number", MQClientException.class, () -> producer.send(malformed));
        Check.equal("code", 1, refused.getResponseCode());
        bodies.addAll(Texts.send(producer, topic, "later", 1));
        Check.equal("bodies", bodies, Reader.bodies(new Reader(context).read(topic, 2)));
        return "refused by client and broker";
    }

    private static String manyTopics(Context context) throws Exception {
        DefaultMQProducer producer = context.producer();
        List<String> expected = new ArrayList<>();
        DefaultMQPushConsumer consumer = context.pushConsumer(context.group("many"));
        for (int i = 0; i < 60; i++) {
            String topic = context.topic(i % 2 == 0 ? "many_" + i : "many%|" + i);
            expected.addAll(Texts.send(producer, topic, String.format("many-%02d", i), 3));
            consumer.subscribe(topic, "*");
        }
        Received received = Received.by(consumer);
        context.start(consumer);
        received.await(context, expected.size(), 40);
        Check.equal("bodies", expected, received.bodies());
        Check.equal("topics", 60, topics(received));
        return "60 topics created by sends, " + expected.size() + " messages consumed";
    }

    private static int topics(Received received) {
        HashSet<String> topics = new HashSet<>();
        received.all().forEach(message -> topics.add(message.getTopic()));
        return topics.size();
    }
}
