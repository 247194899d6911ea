package compat;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Messages that come only when their transaction is done. */
final class TransactionScenarios {
    private static final String GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC";
    private static final String IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS";

    private TransactionScenarios() {
    }

    static void register() {
        Scenario.core("transaction-commit", 60, TransactionScenarios::commit);
        Scenario.core("transaction-rollback", 60, TransactionScenarios::rollback);
        Scenario.core("transaction-delay", 60, TransactionScenarios::delay);
        // These want a broker that asks often, but not within transactionOpBatchInterval: Java's asks again for what it has not noted yet.
        Scenario.part("transaction-check", 120, TransactionScenarios::check);
        Scenario.part("transaction-check-max", 120, TransactionScenarios::checkMax);
        Scenario.part("transaction-immunity", 120, TransactionScenarios::immunity);
        Scenario.part("transaction-group", 120, TransactionScenarios::group);
        Scenario.part("transaction-open", 60, TransactionScenarios::open);
        Scenario.part("transaction-close", 120, TransactionScenarios::close);
    }

    /** Says what a local transaction came to, and keeps the questions of the broker. */
    private static final class Listener implements TransactionListener {
        final Map<String, List<Question>> questions = new ConcurrentHashMap<>();
        private final Function<Message, LocalTransactionState> execute;
        private final BiFunction<MessageExt, Integer, LocalTransactionState> answer;

        Listener(Function<Message, LocalTransactionState> execute, BiFunction<MessageExt, Integer, LocalTransactionState> answer) {
            this.execute = execute;
            this.answer = answer;
        }

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return execute.apply(message);
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            List<Question> all = questions.computeIfAbsent(Reader.text(message), text -> Collections.synchronizedList(new ArrayList<>()));
            all.add(new Question(message));
            return answer.apply(message, all.size());
        }

        int asked(String body) {
            return questions.getOrDefault(body, Collections.emptyList()).size();
        }
    }

    private static final class Question {
        final long at = System.currentTimeMillis();
        final MessageExt message;

        Question(MessageExt message) {
            this.message = message;
        }
    }

    private static LocalTransactionState nobodyAsks(MessageExt message, int times) {
        throw new Check.Failed("asked for " + Reader.text(message));
    }

    private static TransactionSendResult send(TransactionMQProducer producer, Message message) throws MQClientException {
        TransactionSendResult result = producer.sendMessageInTransaction(message, "argument");
        Texts.sent(result);
        Check.that(result.getTransactionId() != null && !result.getTransactionId().isEmpty(), "a transaction id");
        Check.equal("transaction id", result.getMsgId(), result.getTransactionId());
        return result;
    }

    /** Half of the messages are committed, with all their properties; the consumers see them in the queues that were chosen. */
    private static String commit(Context context) throws Exception {
        String topic = context.topic("commit");
        Listener listener = new Listener(message -> LocalTransactionState.COMMIT_MESSAGE, TransactionScenarios::nobodyAsks);
        TransactionMQProducer producer = context.transactionProducer(context.group("commit"), listener);
        Map<String, TransactionSendResult> sent = new ConcurrentHashMap<>();
        for (int i = 0; i < 20; i++) {
            Message message = new Message(topic, "tag" + i, "key" + i, ("commit-" + i).getBytes(StandardCharsets.UTF_8));
            message.setFlag(i);
            message.putUserProperty("user", "value" + i);
            TransactionSendResult result = send(producer, message);
            Check.equal("local state", LocalTransactionState.COMMIT_MESSAGE, result.getLocalTransactionState());
            sent.put("commit-" + i, result);
        }
        for (MessageExt message : new Reader(context).read(topic, 20)) {
            String body = Reader.text(message);
            int i = Integer.parseInt(body.substring("commit-".length()));
            TransactionSendResult result = sent.remove(body);
            Check.that(result != null, body + " twice");
            Check.equal("unique id", result.getMsgId(), message.getMsgId());
            Check.equal("queue", result.getMessageQueue().getQueueId(), message.getQueueId());
            Check.equal("tag", "tag" + i, message.getTags());
            Check.equal("keys", "key" + i, message.getKeys());
            Check.equal("flag", i, message.getFlag());
            Check.equal("user property", "value" + i, message.getUserProperty("user"));
            Check.equal("transaction bits", 8, message.getSysFlag() & 12);
            Check.equal("transaction id", result.getTransactionId(), message.getProperty("__transactionId__"));
            Check.equal("group", context.group("commit"), message.getProperty("PGROUP"));
            Check.equal("real topic", null, message.getProperty("REAL_TOPIC"));
        }
        return "20 committed";
    }

    /** What is rolled back never comes. */
    private static String rollback(Context context) throws Exception {
        String topic = context.topic("rollback");
        Listener listener = new Listener(
            message -> message.getTags().equals("yes") ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE,
            TransactionScenarios::nobodyAsks);
        TransactionMQProducer producer = context.transactionProducer(context.group("rollback"), listener);
        for (int i = 0; i < 20; i++) {
            String tag = i % 2 == 0 ? "yes" : "no";
            send(producer, new Message(topic, tag, (tag + i).getBytes(StandardCharsets.UTF_8)));
        }
        for (MessageExt message : new Reader(context).read(topic, 10)) {
            Check.equal("tag", "yes", message.getTags());
        }
        return "10 committed, 10 rolled back";
    }

    /** A transaction's message has no delay: a 5 client refuses it, a 4 client takes it off. */
    private static String delay(Context context) throws Exception {
        String topic = context.topic("delay");
        Listener listener = new Listener(message -> LocalTransactionState.COMMIT_MESSAGE, TransactionScenarios::nobodyAsks);
        TransactionMQProducer producer = context.transactionProducer(context.group("delay"), listener);
        Message message = Texts.message(topic, "no delay");
        message.setDelayTimeLevel(10);
        try {
            send(producer, message);
        } catch (MQClientException e) {
            Check.that(e.getErrorMessage() != null && e.getErrorMessage().contains("do not support delayed delivery"), "refused: " + e);
            return "refused by the client";
        }
        MessageExt read = new Reader(context).read(topic, 1).get(0);
        Check.equal("delay", 0, read.getDelayTimeLevel());
        return "came after " + (read.getStoreTimestamp() - read.getBornTimestamp()) + " ms";
    }

    /** The broker asks for what is unknown until it is known. */
    private static String check(Context context) throws Exception {
        String topic = context.topic("check");
        Listener listener = new Listener(message -> LocalTransactionState.UNKNOW, (message, times) -> {
            switch (message.getTags()) {
                case "commit":
                    return LocalTransactionState.COMMIT_MESSAGE;
                case "rollback":
                    return LocalTransactionState.ROLLBACK_MESSAGE;
                default:
                    return times < 2 ? LocalTransactionState.UNKNOW : LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        TransactionMQProducer producer = context.transactionProducer(context.group("check"), listener);
        Map<String, TransactionSendResult> sent = new ConcurrentHashMap<>();
        String[] tags = {"commit", "rollback", "later"};
        for (int i = 0; i < 12; i++) {
            String tag = tags[i % 3];
            Message message = new Message(topic, tag, "key" + i, (tag + i).getBytes(StandardCharsets.UTF_8));
            message.putUserProperty("user", "value" + i);
            sent.put(tag + i, send(producer, message));
        }
        List<MessageExt> read = new Reader(context).read(topic, 8);
        for (MessageExt message : read) {
            String body = Reader.text(message);
            Check.that(!message.getTags().equals("rollback"), body + " came");
            Check.equal("unique id", sent.get(body).getMsgId(), message.getMsgId());
            Check.equal("queue", sent.get(body).getMessageQueue().getQueueId(), message.getQueueId());
            Check.equal("questions", message.getTags().equals("later") ? "2" : "1", message.getProperty("TRANSACTION_CHECK_TIMES"));
            Check.equal("user property", "value" + message.getKeys().substring(3), message.getUserProperty("user"));
        }
        Check.equal("different messages", 8, new TreeSet<>(Reader.bodies(read)).size());
        Check.await(context, "questions for all", 30, () -> listener.questions.size() == 12, listener.questions::size);
        listener.questions.forEach((body, questions) -> {
            MessageExt asked = questions.get(0).message;
            Check.equal("topic of a question", topic, asked.getTopic());
            Check.equal("queue of a question", sent.get(body).getMessageQueue().getQueueId(), asked.getQueueId());
            Check.equal("transaction id of a question", sent.get(body).getTransactionId(), asked.getTransactionId());
        });
        return "12 asked for, 8 committed";
    }

    /** {@code --max N}: what stays unknown is asked for N times and then put aside. */
    private static String checkMax(Context context) throws Exception {
        String topic = context.topic("max");
        int max = context.number("max", 3);
        Listener listener = new Listener(message -> LocalTransactionState.UNKNOW, (message, times) -> LocalTransactionState.UNKNOW);
        TransactionMQProducer producer = context.transactionProducer(context.group("max"), listener);
        String key = "given-up-" + topic;
        TransactionSendResult result = send(producer, new Message(topic, "tag", key, "never known".getBytes(StandardCharsets.UTF_8)));
        Reader reader = new Reader(context);
        MessageQueue queue = new MessageQueue(GIVEN_UP, result.getMessageQueue().getBrokerName(), 0);
        List<MessageExt> found = new ArrayList<>();
        Check.await(context, "the message in " + GIVEN_UP, 60, () -> {
            found.clear();
            try {
                reader.read(queue).stream().filter(message -> key.equals(message.getKeys())).forEach(found::add);
            } catch (Exception e) {
                return false; // no such topic yet
            }
            return !found.isEmpty();
        }, () -> listener.asked("never known") + " questions");
        Check.equal("times given up", 1, found.size());
        Check.equal("questions", max, listener.asked("never known"));
        Check.equal("questions as noted", Integer.toString(max), found.get(0).getProperty("TRANSACTION_CHECK_TIMES"));
        Check.equal("topic as noted", topic, found.get(0).getProperty("REAL_TOPIC"));
        Check.equal("body", "never known", Reader.text(found.get(0)));
        return "given up after " + max + " questions";
    }

    /** Who wants to be left alone for a while is. */
    private static String immunity(Context context) throws Exception {
        String topic = context.topic("immunity");
        Listener listener = new Listener(message -> LocalTransactionState.UNKNOW, (message, times) -> LocalTransactionState.COMMIT_MESSAGE);
        TransactionMQProducer producer = context.transactionProducer(context.group("immunity"), listener);
        Message message = Texts.message(topic, "immune");
        message.putUserProperty(IMMUNITY, "5");
        long begin = System.currentTimeMillis();
        send(producer, message);
        send(producer, Texts.message(topic, "usual"));
        new Reader(context).read(topic, 2);
        long usual = listener.questions.get("usual").get(0).at - begin;
        long immune = listener.questions.get("immune").get(0).at - begin;
        Check.that(immune >= 4_900, "asked after " + immune + " ms, the other after " + usual);
        return "asked after " + immune + " ms, the other after " + usual;
    }

    /** Any producer of the group may answer. */
    private static String group(Context context) throws Exception {
        String topic = context.topic("group");
        String group = context.group("group");
        Listener gone = new Listener(message -> LocalTransactionState.UNKNOW, (message, times) -> LocalTransactionState.UNKNOW);
        Listener there = new Listener(message -> LocalTransactionState.UNKNOW, (message, times) -> LocalTransactionState.COMMIT_MESSAGE);
        TransactionMQProducer first = context.transactionProducer(group, gone);
        TransactionMQProducer second = context.transactionProducer(group, there);
        // The second one is known to the broker.
        send(second, Texts.message(topic, "second"));
        for (int i = 0; i < 4; i++) {
            send(first, Texts.message(topic, "first-" + i));
        }
        first.shutdown();
        new Reader(context).read(topic, 5);
        Check.equal("messages that the other one was asked for", 5, there.questions.size());
        return "5 answered by the other producer";
    }

    /** {@code --topic --group --file [--count]}: leaves transactions open, noted in a file. */
    private static String open(Context context) throws Exception {
        Listener listener = new Listener(message -> LocalTransactionState.UNKNOW, (message, times) -> LocalTransactionState.UNKNOW);
        TransactionMQProducer producer = context.transactionProducer(context.option("group"), listener);
        StringBuilder bodies = new StringBuilder();
        int count = context.number("count", 20);
        for (int i = 0; i < count; i++) {
            String body = context.option("prefix", "open") + "-" + i;
            send(producer, Texts.message(context.option("topic"), body));
            bodies.append(body).append('\n');
        }
        Files.writeString(Path.of(context.option("file")), bodies);
        return count + " open";
    }

    /** {@code --topic --group --file}: is asked for the transactions that are noted there, and commits them. */
    private static String close(Context context) throws Exception {
        List<String> wanted = Files.readAllLines(Path.of(context.option("file")));
        Listener listener = new Listener(message -> LocalTransactionState.UNKNOW, (message, times) -> LocalTransactionState.COMMIT_MESSAGE);
        String group = context.option("group");
        TransactionMQProducer producer = context.transactionProducer(group, listener);
        // A producer finds the broker by what it sends.
        Texts.sent(producer.send(Texts.message(context.topic("join"), "join")));
        Reader reader = new Reader(context);
        TreeSet<String> found = new TreeSet<>();
        Check.await(context, wanted.size() + " committed messages", 90, () -> {
            found.clear();
            try {
                for (MessageQueue queue : reader.queues(context.option("topic"))) {
                    found.addAll(Reader.bodies(reader.read(queue)));
                }
            } catch (Exception e) {
                throw new Check.Failed("reading " + context.option("topic") + ": " + e);
            }
            return found.containsAll(wanted);
        }, found::size);
        for (String body : wanted) {
            Check.that(listener.asked(body) > 0, "asked for " + body);
        }
        return wanted.size() + " committed when asked";
    }
}
