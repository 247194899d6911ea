package compat;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Push consumers without order. */
final class PushScenarios {
    private PushScenarios() {
    }

    static void register() {
        Scenario.core("push-cluster", 120, PushScenarios::cluster);
        Scenario.core("push-two-groups", 120, PushScenarios::twoGroups);
        Scenario.core("push-broadcast", 120, PushScenarios::broadcast);
        Scenario.core("push-tags", 120, PushScenarios::tags);
        Scenario.core("push-latency", 120, PushScenarios::latency);
        Scenario.core("push-rebalance", 120, PushScenarios::rebalance);
        Scenario.core("push-crowd", 120, PushScenarios::crowd);
        Scenario.core("push-suspend", 120, PushScenarios::suspend);
        Scenario.core("push-resubscribe", 120, PushScenarios::resubscribe);
    }

    /** Two consumers of one group: each message once, at one of them. */
    private static String cluster(Context context) throws Exception {
        String topic = context.topic("cluster");
        String group = context.group("cluster");
        DefaultMQProducer producer = context.producer();
        List<String> bodies = new ArrayList<>(Texts.send(producer, topic, "early", 40));
        List<Member> members = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            members.add(new Member(context, group, topic, "*"));
        }
        Check.await(context, "two queues for each", 45, () -> members.get(0).queues.size() == 2 && members.get(1).queues.size() == 2,
            () -> members.get(0).queues + " " + members.get(1).queues);
        bodies.addAll(Texts.send(producer, topic, "later", 40));
        Check.await(context, "80 messages", 45, () -> distinct(members).size() == 80, () -> distinct(members).size());
        // What was handed over during the rebalance may come twice, what was sent after it may not.
        List<String> later = new ArrayList<>();
        members.forEach(member -> member.received.bodies().stream().filter(body -> body.startsWith("later")).forEach(later::add));
        Collections.sort(later);
        Check.equal("messages after the rebalance", bodies.subList(40, 80), later);
        Check.equal("bodies", new TreeSet<>(bodies), distinct(members));
        members.forEach(member -> Check.that(member.received.size() >= 20, "both consumers work: " + member.received.size()));
        return "80 messages, " + members.get(0).received.size() + " + " + members.get(1).received.size();
    }

    private static Set<String> distinct(List<Member> members) {
        Set<String> bodies = new TreeSet<>();
        members.forEach(member -> bodies.addAll(member.received.bodies()));
        return bodies;
    }

    private static String twoGroups(Context context) throws Exception {
        String topic = context.topic("groups");
        DefaultMQProducer producer = context.producer();
        List<String> bodies = new ArrayList<>(Texts.send(producer, topic, "a", 20));
        Member one = new Member(context, context.group("one"), topic, "*");
        Member two = new Member(context, context.group("two"), topic, "*");
        bodies.addAll(Texts.send(producer, topic, "b", 20));
        one.received.await(context, 40, 45);
        two.received.await(context, 40, 45);
        Check.equal("bodies of the first group", bodies, one.received.bodies());
        Check.equal("bodies of the second group", bodies, two.received.bodies());
        return "40 messages for each group";
    }

    private static String broadcast(Context context) throws Exception {
        String topic = context.topic("broadcast");
        String group = context.group("broadcast");
        DefaultMQProducer producer = context.producer();
        Texts.send(producer, topic, "before", 1);
        List<Received> all = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            DefaultMQPushConsumer consumer = context.pushConsumer(group);
            broadcasting(consumer);
            consumer.subscribe(topic, "*");
            all.add(Received.by(consumer));
            context.start(consumer);
        }
        // Broadcasting keeps its offsets at the client; a new client begins at the first message as it was told.
        for (Received received : all) {
            received.await(context, 1, 45);
        }
        List<String> bodies = new ArrayList<>(Texts.send(producer, topic, "all", 30));
        bodies.add("before-0000");
        for (Received received : all) {
            received.await(context, 31, 45);
            Check.equal("bodies", bodies, received.bodies());
        }
        return "31 messages for each of 2 consumers";
    }

    /** The enum of the message model lives in another package in 4.9 than in 5.x. */
    static void broadcasting(DefaultMQPushConsumer consumer) throws ReflectiveOperationException {
        for (Method method : DefaultMQPushConsumer.class.getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                for (Object model : method.getParameterTypes()[0].getEnumConstants()) {
                    if (model.toString().equals("BROADCASTING")) {
                        method.invoke(consumer, model);
                        return;
                    }
                }
            }
        }
        throw new Check.Failed("the client has no broadcasting model");
    }

    private static String tags(Context context) throws Exception {
        String topic = context.topic("tags");
        DefaultMQProducer producer = context.producer();
        // "Aa" and "BB" have the same hash: the broker lets both pass, the client drops the other one.
        String[] tags = {"Aa", "BB", "C", null, "带标签"};
        for (int i = 0; i < 50; i++) {
            Message message = Texts.message(topic, String.format("%s-%04d", tags[i % 5], i));
            if (tags[i % 5] != null) {
                message.setTags(tags[i % 5]);
            }
            Texts.sent(producer.send(message));
        }
        String[][] subscriptions = {{"Aa", "10"}, {"Aa || C", "20"}, {"BB||带标签", "20"}, {"*", "50"}, {"none", "0"}};
        List<Member> members = new ArrayList<>();
        for (int i = 0; i < subscriptions.length; i++) {
            members.add(new Member(context, context.group("g" + i), topic, subscriptions[i][0]));
        }
        for (int i = 0; i < subscriptions.length; i++) {
            members.get(i).received.await(context, Integer.parseInt(subscriptions[i][1]), 45);
        }
        // One more round shows that a filter that matched nothing still moves on, and that nothing else slipped in before.
        for (String tag : new String[] {"Aa", "BB", "C", "带标签", "none"}) {
            Message message = Texts.message(topic, tag + "-last");
            message.setTags(tag);
            Texts.sent(producer.send(message));
        }
        int[] more = {1, 2, 2, 5, 1};
        for (int i = 0; i < subscriptions.length; i++) {
            Member member = members.get(i);
            int expected = Integer.parseInt(subscriptions[i][1]) + more[i];
            member.received.await(context, expected, 45);
            for (MessageExt message : member.received.all()) {
                String wanted = " " + subscriptions[i][0].replace("||", " ") + " ";
                Check.that(wanted.contains("*") || wanted.contains(" " + message.getTags() + " "), wanted + " got the tag " + message.getTags());
            }
            Check.equal("messages of " + subscriptions[i][0], expected, member.received.size());
        }
        return "5 subscriptions over 4 tags, two of one hash";
    }

    /** A waiting pull is answered by the arrival of a message, not by its time limit. */
    private static String latency(Context context) throws Exception {
        String topic = context.topic("latency");
        DefaultMQProducer producer = context.producer();
        Texts.send(producer, topic, "first", 1);
        Member member = new Member(context, context.group("latency"), topic, "*");
        member.received.await(context, 1, 45);
        Check.await(context, "all four queues", 45, () -> member.queues.size() == 4);
        List<Double> times = new ArrayList<>();
        for (int i = 0; i < 40; i++) {
            int expected = member.received.size() + 1;
            long begin = System.nanoTime();
            Texts.send(producer, topic, "message" + i, 1);
            member.received.await(context, expected, 4);
            times.add((System.nanoTime() - begin) / 1e6);
        }
        Collections.sort(times);
        Check.that(times.get(20) < 500, "half of the messages took longer than " + times.get(20) + " ms");
        return String.format("median %.0f ms, slowest %.0f ms", times.get(20), times.get(39));
    }

    /** A second consumer joins and leaves; the queues are always shared out, and nothing is lost. */
    private static String rebalance(Context context) throws Exception {
        String topic = context.topic("rebalance");
        String group = context.group("rebalance");
        DefaultMQProducer producer = context.producer();
        Set<String> bodies = new TreeSet<>(Texts.send(producer, topic, "alone", 20));
        List<Member> members = new ArrayList<>();
        Member first = new Member(context, group, topic, "*");
        members.add(first);
        Check.await(context, "four queues for the first", 45, () -> first.queues.size() == 4, () -> first.queues);
        long begin = System.nanoTime();
        Member second = new Member(context, group, topic, "*");
        members.add(second);
        Check.await(context, "two queues each after the join", 10, () -> first.queues.size() == 2 && second.queues.size() == 2,
            () -> first.queues + " " + second.queues);
        long joined = (System.nanoTime() - begin) / 1_000_000;
        Set<MessageQueue> shared = new TreeSet<>(first.queues);
        shared.addAll(second.queues);
        Check.equal("queues of both", 4, shared.size());
        bodies.addAll(Texts.send(producer, topic, "shared", 40));
        Check.await(context, "60 messages", 45, () -> distinct(members).size() == 60, () -> distinct(members).size());
        begin = System.nanoTime();
        second.consumer.shutdown();
        Check.await(context, "four queues after the leave", 10, () -> first.queues.size() == 4, () -> first.queues);
        long left = (System.nanoTime() - begin) / 1_000_000;
        first.received.clear();
        List<String> last = Texts.send(producer, topic, "last", 20);
        bodies.addAll(last);
        Check.await(context, "the last 20 at the first", 45, () -> first.received.bodies().containsAll(last), first.received::size);
        return "join " + joined + " ms, leave " + left + " ms";
    }

    /** More consumers than queues: four work, two wait, and one of them takes over. */
    private static String crowd(Context context) throws Exception {
        String topic = context.topic("crowd");
        String group = context.group("crowd");
        DefaultMQProducer producer = context.producer();
        Texts.send(producer, topic, "first", 4);
        List<Member> members = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
            members.add(new Member(context, group, topic, "*"));
        }
        Check.await(context, "one queue for each of four", 45, () -> sizes(members).equals(List.of(0, 0, 1, 1, 1, 1)), () -> sizes(members));
        Member leaver = members.stream().filter(member -> member.queues.size() == 1).findFirst().orElseThrow();
        members.remove(leaver);
        leaver.consumer.shutdown();
        Check.await(context, "a take-over", 15, () -> sizes(members).equals(List.of(0, 1, 1, 1, 1)), () -> sizes(members));
        List<String> bodies = Texts.send(producer, topic, "later", 20);
        Check.await(context, "20 messages", 45, () -> distinct(members).containsAll(bodies), () -> distinct(members).size());
        return "6 consumers, 4 queues";
    }

    private static List<Integer> sizes(List<Member> members) {
        List<Integer> sizes = new ArrayList<>();
        members.forEach(member -> sizes.add(member.queues.size()));
        Collections.sort(sizes);
        return sizes;
    }

    private static String suspend(Context context) throws Exception {
        String topic = context.topic("suspend");
        DefaultMQProducer producer = context.producer();
        Texts.send(producer, topic, "first", 4);
        Member member = new Member(context, context.group("suspend"), topic, "*");
        member.received.await(context, 4, 45);
        member.consumer.suspend();
        Texts.send(producer, topic, "kept", 40);
        Check.await(context, "40 messages stored", 10, () -> stored(context, topic) == 44);
        // A pull that was waiting when the consumer was suspended may still bring some.
        member.consumer.resume();
        member.received.await(context, 44, 45);
        Check.equal("messages", 44, new TreeSet<>(member.received.bodies()).size());
        return "suspended and resumed";
    }

    /**
     * A running consumer changes its tags. What the pulls bring that are under way, the client judges by the old ones: with a Java broker the first
     * messages of the new tag may be lost, and some of the old one come still. So this sends until a whole round comes.
     */
    private static String resubscribe(Context context) throws Exception {
        String topic = context.topic("resubscribe");
        DefaultMQProducer producer = context.producer();
        tagged(producer, topic, "first");
        Member member = new Member(context, context.group("resubscribe"), topic, "A");
        List<String> first = List.of("first-A-0", "first-A-1", "first-A-2", "first-A-3");
        member.received.await(context, first.size(), 45);
        Check.equal("bodies of tag A", first, member.received.bodies());
        member.received.clear();
        // The subscription goes out with a heartbeat before this returns.
        member.consumer.subscribe(topic, "B");
        int sent = 0;
        long begin = System.nanoTime();
        Set<String> round;
        do {
            Check.that((System.nanoTime() - begin) / 1e9 < 60, "the new tag does not come: " + member.received.bodies());
            String prefix = String.format("round%02d", sent / 4);
            round = new TreeSet<>(List.of(prefix + "-B-0", prefix + "-B-1", prefix + "-B-2", prefix + "-B-3"));
            tagged(producer, topic, prefix);
            sent += 4;
            long sentAt = System.nanoTime();
            while (!member.received.bodies().containsAll(round) && (System.nanoTime() - sentAt) / 1e9 < 3) {
                Thread.sleep(5);
            }
        } while (!member.received.bodies().containsAll(round));
        int came = (int) member.received.bodies().stream().filter(body -> body.contains("-B-")).distinct().count();
        member.received.clear();
        tagged(producer, topic, "last");
        Check.await(context, "the last round", 45, () -> member.received.bodies().stream().filter(body -> body.startsWith("last-B-")).count() == 4);
        Check.that(member.received.bodies().stream().noneMatch(body -> body.startsWith("last-A-")), "the old tag: " + member.received.bodies());
        return "tag A, then " + came + " of " + sent + " of tag B while it changed";
    }

    private static void tagged(DefaultMQProducer producer, String topic, String prefix) throws Exception {
        for (String tag : new String[] {"A", "B"}) {
            for (int i = 0; i < 4; i++) {
                Message message = Texts.message(topic, prefix + "-" + tag + "-" + i);
                message.setTags(tag);
                int queue = i;
                Texts.sent(producer.send(message, (queues, m, id) -> queues.get(queue % queues.size()), 0));
            }
        }
    }

    private static long stored(Context context, String topic) {
        try {
            return new Reader(context).count(topic);
        } catch (Exception e) {
            throw new Check.Failed(e.toString());
        }
    }

    /** A started consumer together with what it received and the queues that it was last given. */
    static final class Member {
        final DefaultMQPushConsumer consumer;
        final Received received;
        volatile Set<MessageQueue> queues = new TreeSet<>();

        Member(Context context, String group, String topic, String expression) throws Exception {
            consumer = context.pushConsumer(group);
            consumer.setAllocateMessageQueueStrategy(new AllocateMessageQueueAveragely() {
                @Override
                public List<MessageQueue> allocate(String name, String id, List<MessageQueue> all, List<String> ids) {
                    List<MessageQueue> mine = super.allocate(name, id, all, ids);
                    if (all.isEmpty() || all.get(0).getTopic().equals(topic)) {
                        queues = new TreeSet<>(mine);
                    }
                    return mine;
                }
            });
            consumer.subscribe(topic, expression);
            received = Received.by(consumer);
            context.start(consumer);
        }
    }
}
