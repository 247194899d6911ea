package compat;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Runs scenarios against a name server and a broker.
 *
 * <pre>Scenario NAME[,NAME...] --namesrv ADDR [--parallel N] [--KEY VALUE ...]
 * Scenario list</pre>
 *
 * Each scenario ends in exactly one line {@code VERDICT NAME PASS|FAIL details}; the exit code is 0 when all passed, 1 when
 * one failed, 2 when the arguments are wrong. {@code core} stands for every scenario that needs nothing but the two servers.
 */
public final class Scenario {
    /** What a scenario does; it returns the details of its verdict and throws when it fails. */
    @FunctionalInterface
    interface Body {
        String run(Context context) throws Exception;
    }

    private static final class Entry {
        final Body body;
        final long limitSeconds;
        final boolean core;

        Entry(Body body, long limitSeconds, boolean core) {
            this.body = body;
            this.limitSeconds = limitSeconds;
            this.core = core;
        }
    }

    private static final Map<String, Entry> ALL = new TreeMap<>();

    static {
        SendScenarios.register();
        MessageScenarios.register();
        PushScenarios.register();
        RebalanceScenarios.register();
        OrderScenarios.register();
        PullScenarios.register();
        RetryScenarios.register();
        RequestScenarios.register();
        NamespaceScenarios.register();
        TimerScenarios.register();
        OffsetScenarios.register();
        FromWhereScenarios.register();
        QueryScenarios.register();
        TransactionScenarios.register();
        SqlScenarios.register();
        ResetScenarios.register();
        TraceScenarios.register();
        LoadScenarios.register();
        BatchQueueScenarios.register();
        LightQueueScenarios.register();
        CompactionScenarios.register();
        StaticTopicScenarios.register();
    }

    private Scenario() {
    }

    /** A scenario that needs nothing but the two servers. */
    static void core(String name, long limitSeconds, Body body) {
        ALL.put(name, new Entry(body, limitSeconds, true));
    }

    /** A scenario that is a part of a longer story, told by options. */
    static void part(String name, long limitSeconds, Body body) {
        ALL.put(name, new Entry(body, limitSeconds, false));
    }

    public static void main(String[] args) throws InterruptedException {
        if (args.length == 1 && args[0].equals("list")) {
            ALL.forEach((name, entry) -> System.out.println(name + (entry.core ? " core" : " part")));
            return;
        }
        Map<String, String> options = new LinkedHashMap<>();
        List<String> names = new ArrayList<>();
        try {
            parse(args, names, options);
        } catch (IllegalArgumentException e) {
            System.err.println(e.getMessage());
            System.err.println("usage: Scenario NAME[,NAME...] --namesrv ADDR [--parallel N] [--KEY VALUE ...]   (Scenario list: the names)");
            System.exit(2);
        }
        // Clients leave threads behind that are no daemons: only an explicit exit ends the process.
        System.exit(runAll(names, options) ? 0 : 1);
    }

    private static void parse(String[] args, List<String> names, Map<String, String> options) {
        if (args.length == 0) {
            throw new IllegalArgumentException("which scenario?");
        }
        for (String name : args[0].split(",")) {
            if (name.equals("core")) {
                ALL.forEach((each, entry) -> {
                    if (entry.core) {
                        names.add(each);
                    }
                });
            } else if (ALL.containsKey(name)) {
                names.add(name);
            } else {
                throw new IllegalArgumentException("no scenario is called " + name);
            }
        }
        for (int i = 1; i < args.length; i += 2) {
            if (!args[i].startsWith("--") || i + 1 == args.length) {
                throw new IllegalArgumentException("expected --KEY VALUE at " + args[i]);
            }
            options.put(args[i].substring(2), args[i + 1]);
        }
        if (!options.containsKey("namesrv")) {
            throw new IllegalArgumentException("--namesrv is missing");
        }
    }

    private static boolean runAll(List<String> names, Map<String, String> options) throws InterruptedException {
        int parallel = Integer.parseInt(options.getOrDefault("parallel", "6"));
        ExecutorService pool = Executors.newFixedThreadPool(parallel);
        List<Future<Boolean>> verdicts = new ArrayList<>();
        for (String name : names) {
            verdicts.add(pool.submit(() -> runOne(name, ALL.get(name), options)));
        }
        boolean passed = true;
        for (Future<Boolean> verdict : verdicts) {
            try {
                passed &= verdict.get();
            } catch (ExecutionException e) {
                passed = false;
            }
        }
        pool.shutdownNow();
        return passed;
    }

    private static boolean runOne(String name, Entry entry, Map<String, String> options) throws InterruptedException {
        long begin = System.nanoTime();
        long limitSeconds = Long.parseLong(options.getOrDefault("limit", Long.toString(entry.limitSeconds)));
        Context context = new Context(name, options);
        ExecutorService alone = Executors.newSingleThreadExecutor(task -> {
            Thread thread = new Thread(task, name);
            thread.setDaemon(true);
            return thread;
        });
        String verdict;
        boolean passed = false;
        Future<String> future = alone.submit(() -> entry.body.run(context));
        try {
            verdict = future.get(limitSeconds, TimeUnit.SECONDS);
            passed = true;
        } catch (TimeoutException e) {
            verdict = "not finished after " + limitSeconds + " s, waiting for: " + context.waitingFor();
        } catch (ExecutionException e) {
            Throwable cause = e.getCause();
            verdict = cause instanceof Check.Failed ? cause.getMessage() : cause.toString();
            if (!(cause instanceof Check.Failed)) {
                cause.printStackTrace();
            }
        }
        // The clients are shut down beside the next scenarios: a shutdown can take seconds when a server is gone.
        future.cancel(true);
        alone.submit(context::close);
        alone.shutdown();
        if (passed) {
            passed = alone.awaitTermination(30, TimeUnit.SECONDS);
            verdict = passed ? verdict : "the clients did not shut down within 30 s";
        }
        long ms = (System.nanoTime() - begin) / 1_000_000;
        String line = String.format("VERDICT %s %s %s (%d ms)", name, passed ? "PASS" : "FAIL", verdict.replace('\n', ' '), ms);
        synchronized (System.out) {
            System.out.println(line);
            System.out.flush();
        }
        return passed;
    }
}
