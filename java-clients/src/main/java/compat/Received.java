package compat;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.message.MessageExt;

/** What a push consumer was given, in the order of arrival. */
final class Received {
    private final List<MessageExt> messages = new ArrayList<>();

    /** Lets {@code consumer} collect here and confirm everything. */
    static Received by(DefaultMQPushConsumer consumer) {
        Received received = new Received();
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            received.add(batch);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        return received;
    }

    synchronized void add(List<MessageExt> batch) {
        messages.addAll(batch);
    }

    synchronized int size() {
        return messages.size();
    }

    synchronized List<MessageExt> all() {
        return new ArrayList<>(messages);
    }

    synchronized void clear() {
        messages.clear();
    }

    /** The bodies, sorted; a message that came twice is there twice. */
    List<String> bodies() {
        return Reader.bodies(all());
    }

    synchronized Set<Integer> queueIds() {
        Set<Integer> ids = new TreeSet<>();
        messages.forEach(message -> ids.add(message.getQueueId()));
        return ids;
    }

    /** Waits for {@code count} messages. */
    void await(Context context, int count, double seconds) throws InterruptedException {
        Check.await(context, count + " messages at the consumer", seconds, () -> size() >= count, this::size);
    }
}
