package compat;

import java.io.BufferedWriter;
import java.io.Closeable;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.remoting.exception.RemotingConnectException;
import org.apache.rocketmq.remoting.exception.RemotingTooMuchRequestException;

/**
 * A file with one JSON object a line: what became of each message that was sent. {@code acked}: the broker confirmed it, it must be
 * there. {@code failed}: it was never stored. {@code unknown}: no answer, or an answer that promises nothing; it may be there.
 */
final class Acks implements Closeable {
    private static final Pattern LINE = Pattern.compile("\\{\"key\":\"([^\"]+)\",\"result\":\"(acked|failed|unknown)\",\"queue\":(-?\\d+),\"offset\":(-?\\d+),\"detail\":\"[^\"]*\"\\}");

    /** One line. */
    static final class Ack {
        final String result;
        final int queue;
        final long offset;

        Ack(String result, int queue, long offset) {
            this.result = result;
            this.queue = queue;
            this.offset = offset;
        }
    }

    private final BufferedWriter writer;

    Acks(Path file) throws IOException {
        writer = Files.newBufferedWriter(file, StandardCharsets.UTF_8, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    static Map<String, Ack> load(Path file) throws IOException {
        Map<String, Ack> acks = new LinkedHashMap<>();
        for (String line : Files.readAllLines(file, StandardCharsets.UTF_8)) {
            Matcher matcher = LINE.matcher(line);
            Check.that(matcher.matches(), "an unreadable line in " + file + ": " + line);
            Ack ack = new Ack(matcher.group(2), Integer.parseInt(matcher.group(3)), Long.parseLong(matcher.group(4)));
            Check.that(acks.put(matcher.group(1), ack) == null, "the key " + matcher.group(1) + " was sent twice");
        }
        return acks;
    }

    static long count(Map<String, Ack> acks, String result) {
        return acks.values().stream().filter(ack -> ack.result.equals(result)).count();
    }

    /** Records an answer; says whether it confirms the message. */
    boolean answered(String key, SendResult result) throws IOException {
        boolean acked = result.getSendStatus() == SendStatus.SEND_OK;
        write(key, acked ? "acked" : "unknown", result.getMessageQueue().getQueueId(), result.getQueueOffset(), result.getSendStatus().toString());
        return acked;
    }

    void threw(String key, Exception e) throws IOException {
        write(key, neverSent(e) ? "failed" : "unknown", -1, -1, e.toString());
    }

    /** Only what was refused, or found nobody to talk to, is known not to be stored. */
    private static boolean neverSent(Exception e) {
        Throwable innermost = e;
        while (innermost.getCause() != null) {
            innermost = innermost.getCause();
        }
        return innermost instanceof MQBrokerException || innermost instanceof MQClientException || innermost instanceof RemotingConnectException
            || innermost instanceof RemotingTooMuchRequestException;
    }

    private synchronized void write(String key, String result, int queue, long offset, String detail) throws IOException {
        String plain = detail.replaceAll("[\\p{Cntrl}\"\\\\]", " ");
        writer.write(String.format("{\"key\":\"%s\",\"result\":\"%s\",\"queue\":%d,\"offset\":%d,\"detail\":\"%s\"}%n", key, result, queue, offset, plain));
        writer.flush();
    }

    @Override
    public synchronized void close() throws IOException {
        writer.close();
    }
}
