package compat;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Runs commands of mqadmin one after the other in one process, next to a live producer and two live consumers, and prints what each wrote without
 * what differs from run to run.
 *
 * <pre>Mqadmin FILE NAMESRV BROKER CLOSED TOPIC MESSAGES</pre>
 *
 * FILE has a command a line, its words parted by tabs; {@code {namesrv}}, {@code {broker}} and {@code {closed}} stand for the addresses, {@code {id}}
 * for the first half of the broker's message ids. A first word {@code @8000} ends the command after so many milliseconds; {@code !cat} prints a
 * file, {@code !sleep} waits, {@code !help} lists the commands. TOPIC has MESSAGES messages, which both consumers must get first.
 */
public final class Mqadmin {
    private final Map<String, String> names = new LinkedHashMap<>();

    private Mqadmin(String namesrv, String broker, String closed) {
        names.put("{namesrv}", namesrv);
        names.put("{broker}", broker);
        names.put("{closed}", closed);
        int port = Integer.parseInt(broker.substring(broker.lastIndexOf(':') + 1));
        names.put("{id}", String.format("7F000001%08X", port));
    }

    public static void main(String[] args) throws Exception {
        Mqadmin mqadmin = new Mqadmin(args[1], args[2], args[3]);
        int messages = Integer.parseInt(args[5]);
        DefaultMQProducer producer = new DefaultMQProducer("PG_alive");
        producer.setNamesrvAddr(args[1]);
        producer.setClientIP("127.0.0.1");
        producer.setInstanceName("producer");
        producer.start();
        // The broker knows it from the first heartbeat after it has learnt the broker's address.
        producer.send(new Message("WireOrder", "alive".getBytes(StandardCharsets.UTF_8)));
        producer.getDefaultMQProducerImpl().getmQClientFactory().sendHeartbeatToAllBrokerWithLock();
        Set<String> got = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer sharing = consumer(args[1], "CG_alive", "consumer", args[4], "TagA || TagB", got);
        Set<String> gotAll = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer all = consumer(args[1], "CG_alive_bc", "bc", args[4], "*", gotAll);
        long limit = System.currentTimeMillis() + 60_000;
        // The offset of the retry topic is committed, too: it shows in what is asked about the group.
        while (got.size() < messages || gotAll.size() < messages || committed(sharing, args[4]) < messages || committed(sharing, "%RETRY%CG_alive") < 0) {
            if (System.currentTimeMillis() > limit) {
                throw new IllegalStateException("the consumers got " + got.size() + " and " + gotAll.size() + " of " + messages);
            }
            Thread.sleep(50);
        }
        for (String line : Files.readAllLines(Path.of(args[0]), StandardCharsets.UTF_8)) {
            mqadmin.run(line);
        }
        producer.shutdown();
        sharing.shutdown();
        all.shutdown();
        // Some commands leave threads behind.
        System.exit(0);
    }

    @SuppressWarnings("deprecation")
    private static DefaultMQPushConsumer consumer(
            String namesrv, String group, String instance, String topic, String tags, Set<String> got) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setClientIP("127.0.0.1");
        consumer.setInstanceName(instance);
        if (instance.equals("bc")) {
            PushScenarios.broadcasting(consumer);
        }
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.subscribe(topic, tags);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> got.add(message.getMsgId()));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    private static long committed(DefaultMQPushConsumer consumer, String topic) throws Exception {
        long sum = 0;
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
            sum += consumer.getDefaultMQPushConsumerImpl().getOffsetStore().readOffset(queue, ReadOffsetType.READ_FROM_STORE);
        }
        return sum;
    }

    private void run(String line) throws Exception {
        List<String> words = new ArrayList<>();
        for (String word : line.split("\t")) {
            for (Map.Entry<String, String> name : names.entrySet()) {
                word = word.replace(name.getKey(), name.getValue());
            }
            words.add(word);
        }
        long limit = 60_000;
        if (words.get(0).startsWith("@")) {
            limit = Long.parseLong(words.remove(0).substring(1));
        }
        System.out.println("$ mqadmin " + line.replace('\t', ' '));
        long start = System.currentTimeMillis();
        switch (words.get(0)) {
            case "!cat":
                String text = Files.readString(Path.of(words.get(1)), StandardCharsets.UTF_8);
                System.out.print("[stdout]\n" + plain(text) + "[stderr]\n[end]\n");
                break;
            case "!help":
                Admin.Output help = Admin.run(new String[0], limit);
                System.out.print("[stdout]\n" + plain(help.stdout) + "[stderr]\n" + plain(help.stderr) + "[end]\n");
                break;
            case "!sleep":
                Thread.sleep(Long.parseLong(words.get(1)));
                System.out.print("[stdout]\n[stderr]\n[end]\n");
                break;
            default:
                Admin.Output output = Admin.run(words.toArray(new String[0]), limit);
                System.out.println("[" + (System.currentTimeMillis() - start) + " ms]");
                System.out.print("[stdout]\n" + plain(output.stdout) + "[stderr]\n" + plain(output.stderr) + "[end]\n");
        }
        System.out.flush();
    }

    /** What a command wrote, with names for what another run has different. */
    private String plain(String text) {
        for (Map.Entry<String, String> name : names.entrySet()) {
            text = text.replace(name.getValue(), name.getKey());
        }
        StringBuilder out = new StringBuilder();
        for (String line : text.split("\n")) {
            line = line.stripTrailing();
            if (!line.startsWith("\tat ") && !line.startsWith("\t... ")) {
                out.append(line).append('\n');
            }
        }
        return out.toString()
            .replaceAll("\n+$", "\n")
            .replaceAll("^\n$", "")
            .replaceAll("\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d(,\\d{3})?", "TIME")
            .replaceAll("\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d#\\d+", "TIME")
            .replaceAll("\\b1[5-9]\\d{11}\\b", "MILLIS")
            .replaceAll("127\\.0\\.0\\.1@\\d+#\\d+", "CLIENT")
            .replaceAll("\\$\\$Lambda\\S*|@[0-9a-f]{5,8}\\b", "@")
            .replaceAll("\\{id\\}[0-9A-F]{16}", "OFFSETID")
            .replaceAll("\\b(?!7F00000152214E0E)[0-9A-F]{32,56}\\b", "UNIQID")
            .replaceAll("TPS: [0-9.]+", "TPS: N")
            .replaceAll("/tmp/ferromq-\\w+", "SCRATCH")
            .replaceAll(", org\\.apache\\.\\S+\\(\\w+\\.java:\\d+\\)", "")
            .replaceAll("127\\.0\\.0\\.1:\\d+", "ADDRESS");
    }
}
