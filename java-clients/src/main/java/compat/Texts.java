package compat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/** Messages with a text as body. */
final class Texts {
    private Texts() {
    }

    static Message message(String topic, String body) {
        return new Message(topic, body.getBytes(StandardCharsets.UTF_8));
    }

    /** Sends the numbered texts {@code prefix-0000 ...} one by one and returns them sorted. */
    static List<String> send(DefaultMQProducer producer, String topic, String prefix, int count) throws Exception {
        List<String> bodies = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            String body = String.format("%s-%04d", prefix, i);
            sent(producer.send(message(topic, body)));
            bodies.add(body);
        }
        return bodies;
    }

    /** Checks that a send was confirmed. */
    static SendResult sent(SendResult result) {
        Check.equal("send status", SendStatus.SEND_OK, result.getSendStatus());
        return result;
    }
}
