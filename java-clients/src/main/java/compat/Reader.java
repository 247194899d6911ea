package compat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Reads whole queues by pulling, without a group's stored offsets. */
final class Reader {
    private final Context context;
    private final DefaultMQPullConsumer consumer;

    Reader(Context context) throws MQClientException {
        this.context = context;
        this.consumer = context.pullConsumer(context.group("reader"));
    }

    DefaultMQPullConsumer consumer() {
        return consumer;
    }

    /** The queues of a topic, in order; waits until the name server knows it. */
    List<MessageQueue> queues(String topic) throws InterruptedException {
        Set<MessageQueue> found = new TreeSet<>();
        Check.await(context, "the route of " + topic, 20, () -> {
            try {
                found.addAll(consumer.fetchSubscribeMessageQueues(topic));
                return true;
            } catch (MQClientException e) {
                return false;
            }
        });
        return new ArrayList<>(found);
    }

    /** Messages in all queues of a topic. */
    long count(String topic) throws MQClientException, InterruptedException {
        long sum = 0;
        for (MessageQueue queue : queues(topic)) {
            sum += consumer.maxOffset(queue) - consumer.minOffset(queue);
        }
        return sum;
    }

    /** Waits until a topic holds {@code count} messages and reads them, queue by queue. */
    List<MessageExt> read(String topic, int count) throws Exception {
        long[] reached = new long[1];
        Check.await(context, count + " messages in " + topic, 20, () -> {
            try {
                reached[0] = count(topic);
            } catch (MQClientException | InterruptedException e) {
                throw new Check.Failed("counting " + topic + ": " + e);
            }
            return reached[0] >= count;
        }, () -> reached[0]);
        List<MessageExt> messages = new ArrayList<>();
        for (MessageQueue queue : queues(topic)) {
            messages.addAll(read(queue));
        }
        Check.equal("messages read from " + topic, count, messages.size());
        return messages;
    }

    /** Waits until a queue shows {@code end} messages: the queue entry follows the record at once, but not in the same instant. */
    void awaitEnd(MessageQueue queue, long end) throws InterruptedException {
        long[] reached = new long[1];
        Check.await(context, "the end " + end + " of " + queue, 20, () -> {
            try {
                reached[0] = consumer.maxOffset(queue);
            } catch (MQClientException e) {
                throw new Check.Failed("the end of " + queue + ": " + e);
            }
            return reached[0] >= end;
        }, () -> reached[0]);
        Check.equal("end of " + queue, end, reached[0]);
    }

    /** Everything in one queue at this moment; nothing of it may be deleted. */
    List<MessageExt> read(MessageQueue queue) throws Exception {
        Check.equal("min offset", 0L, consumer.minOffset(queue));
        return readFromLowest(queue);
    }

    /** What one queue still has at this moment. */
    List<MessageExt> readFromLowest(MessageQueue queue) throws Exception {
        List<MessageExt> messages = new ArrayList<>();
        long lowest = consumer.minOffset(queue);
        long next = lowest;
        long end = consumer.maxOffset(queue);
        while (next < end) {
            PullResult result = consumer.pull(queue, "*", next, 32);
            Check.equal("pull status at " + next + " of " + queue, PullStatus.FOUND, result.getPullStatus());
            for (MessageExt message : result.getMsgFoundList()) {
                Check.equal("queue offset in " + queue, next, message.getQueueOffset());
                Check.equal("queue id", queue.getQueueId(), message.getQueueId());
                messages.add(message);
                next++;
            }
            Check.equal("next offset after a pull of " + queue, next, result.getNextBeginOffset());
            Check.equal("min offset", lowest, result.getMinOffset());
        }
        return messages;
    }

    /** The bodies as sorted text. */
    static List<String> bodies(Collection<? extends MessageExt> messages) {
        List<String> bodies = new ArrayList<>();
        for (MessageExt message : messages) {
            bodies.add(text(message));
        }
        bodies.sort(null);
        return bodies;
    }

    static String text(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }
}
