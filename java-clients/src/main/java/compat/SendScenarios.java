package compat;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Every way to send. */
final class SendScenarios {
    private SendScenarios() {
    }

    static void register() {
        Scenario.core("send-sync", 120, SendScenarios::sync);
        Scenario.core("send-async", 120, SendScenarios::async);
        Scenario.core("send-oneway", 120, SendScenarios::oneway);
        Scenario.core("send-batch", 120, SendScenarios::batch);
        Scenario.core("send-selector", 120, SendScenarios::selector);
        Scenario.core("send-queue", 120, SendScenarios::queue);
        Scenario.core("send-threads", 120, SendScenarios::threads);
        Scenario.core("send-vip", 120, SendScenarios::vip);
    }

    private static String sync(Context context) throws Exception {
        String topic = context.topic("sync");
        DefaultMQProducer producer = context.producer();
        Map<Integer, Long> next = new TreeMap<>();
        Set<String> ids = new HashSet<>();
        List<String> bodies = new ArrayList<>();
        for (int i = 0; i < 40; i++) {
            String body = String.format("sync-%04d", i);
            bodies.add(body);
            SendResult result = Texts.sent(producer.send(Texts.message(topic, body)));
            MessageQueue queue = result.getMessageQueue();
            Check.equal("topic of the result", topic, queue.getTopic());
            Check.equal("queue offset", next.getOrDefault(queue.getQueueId(), 0L), result.getQueueOffset());
            next.put(queue.getQueueId(), result.getQueueOffset() + 1);
            Check.equal("digits of the offset id", 32, result.getOffsetMsgId().length());
            Check.that(ids.add(result.getMsgId()) & ids.add(result.getOffsetMsgId()), "a message id came twice");
            Check.equal("region", "DefaultRegion", result.getRegionId());
            Check.that(result.isTraceOn(), "trace is on by default");
        }
        // A topic that the client lets the broker create has the client's default of 4 queues.
        Check.equal("queues used", 4, next.size());
        Check.equal("bodies", bodies, Reader.bodies(new Reader(context).read(topic, 40)));
        return "40 messages in " + next.size() + " queues";
    }

    private static String async(Context context) throws Exception {
        String topic = context.topic("async");
        DefaultMQProducer producer = context.producer();
        Texts.sent(producer.send(Texts.message(topic, "async-first")));
        ConcurrentLinkedQueue<String> places = new ConcurrentLinkedQueue<>();
        ConcurrentLinkedQueue<Throwable> errors = new ConcurrentLinkedQueue<>();
        List<String> bodies = new ArrayList<>();
        bodies.add("async-first");
        for (int i = 0; i < 300; i++) {
            String body = String.format("async-%04d", i);
            bodies.add(body);
            producer.send(Texts.message(topic, body), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    places.add(Texts.sent(result).getMessageQueue().getQueueId() + ":" + result.getQueueOffset());
                }

                @Override
                public void onException(Throwable e) {
                    errors.add(e);
                }
            });
        }
        Check.await(context, "300 callbacks", 45, () -> places.size() + errors.size() == 300, places::size);
        Check.that(errors.isEmpty(), "a send failed: " + errors.peek());
        Check.equal("different places", 300, new HashSet<>(places).size());
        bodies.sort(null);
        Check.equal("bodies", bodies, Reader.bodies(new Reader(context).read(topic, 301)));
        return "300 callbacks";
    }

    private static String oneway(Context context) throws Exception {
        String topic = context.topic("oneway");
        DefaultMQProducer producer = context.producer();
        List<String> bodies = new ArrayList<>(Texts.send(producer, topic, "first", 1));
        for (int i = 0; i < 50; i++) {
            String body = String.format("oneway-%04d", i);
            bodies.add(body);
            producer.sendOneway(Texts.message(topic, body));
        }
        bodies.sort(null);
        Check.equal("bodies", bodies, Reader.bodies(new Reader(context).read(topic, 51)));
        return "50 messages";
    }

    private static String batch(Context context) throws Exception {
        String topic = context.topic("batch");
        DefaultMQProducer producer = context.producer();
        List<Message> messages = new ArrayList<>();
        List<String> bodies = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            String body = String.format("batch-%04d", i);
            Message message = Texts.message(topic, body);
            message.setTags(i % 2 == 0 ? "even" : "odd");
            message.setKeys("key-" + i);
            message.putUserProperty("number", Integer.toString(i));
            messages.add(message);
            bodies.add(body);
        }
        SendResult result = Texts.sent(producer.send(messages));
        String[] uniqueIds = result.getMsgId().split(",");
        String[] offsetIds = result.getOffsetMsgId().split(",");
        Check.equal("unique ids", 20, uniqueIds.length);
        Check.equal("offset ids", 20, new HashSet<>(Arrays.asList(offsetIds)).size());
        Check.equal("offset of the first", 0L, result.getQueueOffset());
        Reader reader = new Reader(context);
        List<MessageExt> read = reader.read(topic, 20);
        Check.equal("bodies in their order", bodies, textsInOrder(read));
        for (int i = 0; i < 20; i++) {
            MessageExt message = read.get(i);
            Check.equal("queue", result.getMessageQueue().getQueueId(), message.getQueueId());
            Check.equal("offset", (long) i, message.getQueueOffset());
            Check.equal("tag", i % 2 == 0 ? "even" : "odd", message.getTags());
            Check.equal("key", "key-" + i, message.getKeys());
            Check.equal("user property", Integer.toString(i), message.getUserProperty("number"));
            Check.equal("unique id", uniqueIds[i], message.getMsgId());
            Check.equal("store time of one batch", read.get(0).getStoreTimestamp(), message.getStoreTimestamp());
        }
        // A second batch to a queue of our choice goes on where the queue ends.
        MessageQueue queue = new MessageQueue(topic, result.getMessageQueue().getBrokerName(), 0);
        List<Message> more = Arrays.asList(Texts.message(topic, "more-0"), Texts.message(topic, "more-1"), Texts.message(topic, "more-2"));
        long expected = result.getMessageQueue().getQueueId() == 0 ? 20 : 0;
        SendResult second = Texts.sent(producer.send(more, queue));
        Check.equal("queue of the second batch", 0, second.getMessageQueue().getQueueId());
        Check.equal("offset of the second batch", expected, second.getQueueOffset());
        Check.equal("messages", 23, reader.read(topic, 23).size());
        return "20 + 3 messages";
    }

    private static List<String> textsInOrder(List<MessageExt> messages) {
        List<String> texts = new ArrayList<>();
        messages.forEach(message -> texts.add(Reader.text(message)));
        return texts;
    }

    private static String selector(Context context) throws Exception {
        String topic = context.topic("selector");
        DefaultMQProducer producer = context.producer();
        for (int i = 0; i < 30; i++) {
            SendResult result = Texts.sent(producer.send(Texts.message(topic, "selector-" + i), (queues, message, wanted) -> {
                Check.equal("queues offered", 4, queues.size());
                return queues.get((Integer) wanted % queues.size());
            }, i));
            Check.equal("queue", i % 4, result.getMessageQueue().getQueueId());
            Check.equal("offset", (long) (i / 4), result.getQueueOffset());
        }
        List<MessageExt> read = new Reader(context).read(topic, 30);
        for (MessageExt message : read) {
            Check.equal("body", "selector-" + (message.getQueueOffset() * 4 + message.getQueueId()), Reader.text(message));
        }
        return "30 messages, each in its queue";
    }

    private static String queue(Context context) throws Exception {
        String topic = context.topic("queue");
        DefaultMQProducer producer = context.producer();
        Texts.send(producer, topic, "first", 1);
        Reader reader = new Reader(context);
        reader.read(topic, 1);
        List<MessageQueue> queues = reader.queues(topic);
        MessageQueue last = queues.get(queues.size() - 1);
        long begin = reader.consumer().maxOffset(last);
        for (int i = 0; i < 10; i++) {
            SendResult result = Texts.sent(producer.send(Texts.message(topic, "queue-" + i), last));
            Check.equal("queue", last, result.getMessageQueue());
            Check.equal("offset", begin + i, result.getQueueOffset());
        }
        return "10 messages in queue " + last.getQueueId();
    }

    private static String threads(Context context) throws Exception {
        String topic = context.topic("threads");
        DefaultMQProducer producer = context.producer();
        List<String> bodies = new ArrayList<>(Texts.send(producer, topic, "first", 1));
        ExecutorService pool = Executors.newFixedThreadPool(8);
        context.closing(pool::shutdownNow);
        List<Future<List<String>>> parts = new ArrayList<>();
        for (int thread = 0; thread < 8; thread++) {
            String prefix = "thread" + thread;
            parts.add(pool.submit(() -> Texts.send(producer, topic, prefix, 100)));
        }
        for (Future<List<String>> part : parts) {
            bodies.addAll(part.get());
        }
        bodies.sort(null);
        Check.equal("bodies", bodies, Reader.bodies(new Reader(context).read(topic, 801)));
        return "8 threads, 801 messages";
    }

    /** The second port of a broker (listenPort - 2) takes sends. */
    private static String vip(Context context) throws Exception {
        String topic = context.topic("vip");
        DefaultMQProducer producer = context.unstartedProducer();
        producer.setVipChannelEnabled(true);
        producer.start();
        List<String> bodies = Texts.send(producer, topic, "vip", 10);
        Check.equal("bodies", bodies, Reader.bodies(new Reader(context).read(topic, 10)));
        return "10 messages";
    }
}
