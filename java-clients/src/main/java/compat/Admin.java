package compat;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Runs commands of mqadmin (package rocketmq-tools) one after the other in one process and prints what each wrote.
 *
 * <pre>Admin FILE      a command a line, its words parted by tabs</pre>
 *
 * The commands are found at run time: the build with the 4.9 client has none.
 */
public final class Admin {
    private Admin() {
    }

    /** What a command wrote. */
    static final class Output {
        final String stdout;
        final String stderr;

        Output(String stdout, String stderr) {
            this.stdout = stdout;
            this.stderr = stderr;
        }
    }

    public static void main(String[] args) throws Exception {
        for (String line : Files.readAllLines(Path.of(args[0]), StandardCharsets.UTF_8)) {
            Output output = run(line.split("\t"), Long.MAX_VALUE);
            System.out.println("$ mqadmin " + line.replace('\t', ' '));
            System.out.print("[stdout]\n" + withEnd(output.stdout) + "[stderr]\n" + withEnd(output.stderr) + "[end]\n");
            System.out.flush();
        }
        // Some commands leave threads behind.
        System.exit(0);
    }

    /** Runs a command; one that does not end within so many milliseconds is interrupted. */
    static Output run(String[] words, long limitMillis) throws Exception {
        Method tool = Class.forName("org.apache.rocketmq.tools.command.MQAdminStartup").getMethod("main", String[].class);
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream stdout = new ByteArrayOutputStream();
        ByteArrayOutputStream stderr = new ByteArrayOutputStream();
        System.setOut(new PrintStream(stdout, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(stderr, true, StandardCharsets.UTF_8));
        try {
            Thread thread = new Thread(() -> {
                try {
                    tool.invoke(null, (Object) words);
                } catch (ReflectiveOperationException error) {
                    error.printStackTrace();
                }
            });
            long start = System.nanoTime();
            thread.start();
            while (thread.isAlive()) {
                thread.join(20);
                if ((System.nanoTime() - start) / 1_000_000 > limitMillis) {
                    thread.interrupt();
                }
                hurry(thread);
            }
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        return new Output(stdout.toString(StandardCharsets.UTF_8), stderr.toString(StandardCharsets.UTF_8));
    }

    /** Every command ends its client, which waits for a thread that looks up every 3 s only. */
    private static void hurry(Thread command) {
        for (StackTraceElement frame : command.getStackTrace()) {
            if (frame.getMethodName().equals("shutdown") && frame.getClassName().endsWith("NettyRemotingClient")) {
                for (Thread thread : Thread.getAllStackTraces().keySet()) {
                    if (thread.getName().startsWith("NettyEventExecutor")) {
                        thread.interrupt();
                    }
                }
                return;
            }
        }
    }

    private static String withEnd(String string) {
        return string.isEmpty() || string.endsWith("\n") ? string : string + "\n";
    }
}
