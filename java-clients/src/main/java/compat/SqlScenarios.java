package compat;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Filters by SQL92 expressions. A client does not filter again: what it gets is what the broker sent. */
final class SqlScenarios {
    private SqlScenarios() {
    }

    static void register() {
        // The broker must have enablePropertyFilter=true, but for the last one.
        Scenario.part("sql-push", 120, SqlScenarios::push);
        Scenario.part("sql-pull", 120, SqlScenarios::pull);
        Scenario.part("sql-lite", 120, SqlScenarios::lite);
        Scenario.part("sql-change", 120, SqlScenarios::change);
        Scenario.part("sql-retry", 120, SqlScenarios::retry);
        Scenario.part("sql-bad", 60, SqlScenarios::bad);
        Scenario.part("sql-off", 60, SqlScenarios::off);
    }

    /** Expressions, and the bodies that each selects from {@link #send}. */
    private static Map<String, List<String>> expressions() {
        Map<String, List<String>> all = new LinkedHashMap<>();
        all.put("a > 3", List.of("a=5", "a=7 TagA"));
        all.put("a IS NULL", List.of("none"));
        all.put("a IS NOT NULL AND a BETWEEN 0 AND 6", List.of("a=1", "a=5"));
        all.put("TAGS = 'TagA'", List.of("a=7 TagA"));
        all.put("TAGS in ('TagA','TagB') or a = 1", List.of("a=1", "a=7 TagA"));
        all.put("a = 'x'", List.of("a=x"));
        all.put("a <> 1", List.of("a=5", "a=7 TagA"));
        all.put("a NOT IN ('x', '1')", List.of("a=5", "a=7 TagA"));
        all.put("a CONTAINS 'x' OR TAGS STARTSWITH 'Tag'", List.of("a=7 TagA", "a=x"));
        all.put("NOT (a = 5) /* 5 */ AND a NOT BETWEEN 6 AND 9 -- the rest\n", List.of("a=1"));
        return all;
    }

    private static void send(DefaultMQProducer producer, String topic) throws Exception {
        send(producer, topic, "");
    }

    private static void send(DefaultMQProducer producer, String topic, String mark) throws Exception {
        for (String body : List.of("a=1", "a=5", "none", "a=x", "a=7 TagA")) {
            Message message = Texts.message(topic, mark.isEmpty() ? body : body + " " + mark);
            if (body.startsWith("a=")) {
                message.putUserProperty("a", body.substring(2, 3));
            }
            if (body.endsWith("TagA")) {
                message.setTags("TagA");
            }
            Texts.sent(producer.send(message));
        }
    }

    private static Received subscribe(Context context, String group, String topic, String expression) throws Exception {
        DefaultMQPushConsumer consumer = context.pushConsumer(group);
        consumer.subscribe(topic, MessageSelector.bySql(expression));
        Received received = Received.by(consumer);
        context.start(consumer);
        return received;
    }

    private static String push(Context context) throws Exception {
        String topic = context.topic("push");
        DefaultMQProducer producer = context.producer();
        send(producer, topic);
        Map<String, Received> consumers = new LinkedHashMap<>();
        int number = 0;
        for (String expression : expressions().keySet()) {
            consumers.put(expression, subscribe(context, context.group("g" + number++), topic, expression));
        }
        // Two rounds: the second meets pulls that wait.
        for (int round = 1; round <= 2; round++) {
            for (Map.Entry<String, List<String>> each : expressions().entrySet()) {
                List<String> expected = new ArrayList<>();
                for (int i = 0; i < round; i++) {
                    expected.addAll(each.getValue());
                }
                expected.sort(null);
                Received received = consumers.get(each.getKey());
                received.await(context, expected.size(), 45);
                Check.equal(each.getKey(), expected, received.bodies());
            }
            if (round == 1) {
                send(producer, topic);
            }
        }
        return consumers.size() + " expressions, twice";
    }

    private static String pull(Context context) throws Exception {
        String topic = context.topic("pull");
        DefaultMQProducer producer = context.producer();
        send(producer, topic);
        context.awaitRoute(topic);
        DefaultMQPullConsumer consumer = context.pullConsumer(context.group("pull"));
        MessageQueue some = consumer.fetchSubscribeMessageQueues(topic).iterator().next();
        consumer.pull(some, "*", 0, 1);
        // The client asks for nothing but tags until a heartbeat has told it the broker's version.
        Check.await(context, "the broker's version", 20, () -> {
            consumer.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory().sendHeartbeatToAllBrokerWithLock();
            try {
                consumer.pull(some, MessageSelector.bySql("a > 3"), 0, 1);
                return true;
            } catch (MQClientException e) {
                return false;
            } catch (Exception e) {
                throw new Check.Failed("a pull by expression: " + e);
            }
        });
        for (Map.Entry<String, List<String>> each : expressions().entrySet()) {
            Check.equal(each.getKey(), each.getValue(), selected(consumer, topic, each.getKey()));
        }
        // What cannot be compiled selects everything: the broker trusts that the client had it checked.
        Check.equal("a >>> 0", 5, selected(consumer, topic, "a >>> 0").size());
        return expressions().size() + " expressions";
    }

    private static List<String> selected(DefaultMQPullConsumer consumer, String topic, String expression) throws Exception {
        List<MessageExt> found = new ArrayList<>();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
            long next = 0;
            long end = consumer.maxOffset(queue);
            while (next < end) {
                PullResult result = consumer.pull(queue, MessageSelector.bySql(expression), next, 32);
                Check.that(result.getPullStatus() == PullStatus.FOUND || result.getPullStatus() == PullStatus.NO_MATCHED_MSG,
                    "status " + result.getPullStatus());
                Check.that(result.getNextBeginOffset() > next, "the pull moves on");
                next = result.getNextBeginOffset();
                if (result.getMsgFoundList() != null) {
                    found.addAll(result.getMsgFoundList());
                }
            }
        }
        return Reader.bodies(found);
    }

    private static String lite(Context context) throws Exception {
        String topic = context.topic("lite");
        DefaultMQProducer producer = context.producer();
        send(producer, topic);
        context.awaitRoute(topic);
        DefaultLitePullConsumer consumer = context.litePullConsumer(context.group("lite"));
        consumer.subscribe(topic, MessageSelector.bySql("a > 3"));
        consumer.start();
        List<MessageExt> found = new ArrayList<>();
        for (int round = 1; round <= 2; round++) {
            int wanted = 2 * round;
            Check.await(context, wanted + " messages", 45, () -> {
                found.addAll(consumer.poll(200));
                return found.size() >= wanted;
            }, found::size);
            if (round == 1) {
                send(producer, topic);
            }
        }
        Check.equal("bodies", List.of("a=5", "a=5", "a=7 TagA", "a=7 TagA"), Reader.bodies(found));
        return "4 of 10 messages";
    }

    /** A group comes back with another expression: from then on it gets what that one selects, and nothing else. */
    private static String change(Context context) throws Exception {
        String topic = context.topic("change");
        String group = context.group("change");
        DefaultMQProducer producer = context.producer();
        int round = 0;
        for (Map.Entry<String, List<String>> each : expressions().entrySet()) {
            String mark = "round " + round++;
            send(producer, topic, mark);
            DefaultMQPushConsumer consumer = context.pushConsumer(group);
            consumer.subscribe(topic, MessageSelector.bySql(each.getKey()));
            Received received = Received.by(consumer);
            context.start(consumer);
            List<String> expected = new ArrayList<>();
            each.getValue().forEach(body -> expected.add(body + " " + mark));
            Check.await(context, each.getKey(), 45, () -> received.bodies().containsAll(expected), received::bodies);
            consumer.shutdown();
            // What was passed over before may come again: offsets of it are stored now and then only.
            for (String body : received.bodies()) {
                String plain = body.substring(0, body.indexOf(" round"));
                Check.that(each.getValue().contains(plain), each.getKey() + " selected " + body);
            }
        }
        return expressions().size() + " expressions of one group";
    }

    /** A message that failed comes back, whatever the expression. */
    private static String retry(Context context) throws Exception {
        String topic = context.topic("retry");
        DefaultMQProducer producer = context.producer();
        send(producer, topic);
        DefaultMQPushConsumer consumer = context.pushConsumer(context.group("retry"));
        consumer.subscribe(topic, MessageSelector.bySql("a = 'x'"));
        Received received = new Received();
        consumer.registerMessageListener((org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently) (batch, listening) -> {
            received.add(batch);
            listening.setDelayLevelWhenNextConsume(1);
            return received.size() < 2
                ? org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus.RECONSUME_LATER
                : org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        context.start(consumer);
        received.await(context, 2, 60);
        Check.equal("bodies", List.of("a=x", "a=x"), received.bodies());
        return "failed once, consumed at last";
    }

    private static MQClientException refused(Context context, String expression) throws Exception {
        String topic = context.topic("refused");
        DefaultMQProducer producer = context.producer();
        send(producer, topic);
        context.awaitRoute(topic);
        DefaultMQPushConsumer consumer = context.pushConsumer(context.group("refused"));
        consumer.subscribe(topic, MessageSelector.bySql(expression));
        Received.by(consumer);
        return Check.thrown("start with " + expression, MQClientException.class, consumer::start);
    }

    private static String bad(Context context) throws Exception {
        MQClientException e = refused(context, "a >>> 0");
        String text = e.toString() + " " + e.getCause();
        Check.that(text.contains("org.apache.rocketmq.filter.parser.ParseException: Encountered \" \">\" \"> \"\" at line 1, column 4."), text);
        Check.that(text.contains("    \"-\" ...\n    \"+\" ...\n"), text);
        text = refused(context, "a > 'text'").toString();
        Check.that(text.contains("java.lang.RuntimeException: Value ''text'' cannot be compared."), text);
        return "two expressions refused";
    }

    private static String off(Context context) throws Exception {
        String text = refused(context, "a > 3").toString();
        Check.that(text.contains("The broker does not support consumer to filter message by SQL92"), text);
        return "refused";
    }
}
