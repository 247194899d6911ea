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

    public static void main(String[] args) throws Exception {
        Method tool = Class.forName("org.apache.rocketmq.tools.command.MQAdminStartup").getMethod("main", String[].class);
        PrintStream out = System.out;
        PrintStream err = System.err;
        for (String line : Files.readAllLines(Path.of(args[0]), StandardCharsets.UTF_8)) {
            ByteArrayOutputStream stdout = new ByteArrayOutputStream();
            ByteArrayOutputStream stderr = new ByteArrayOutputStream();
            System.setOut(new PrintStream(stdout, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(stderr, true, StandardCharsets.UTF_8));
            try {
                tool.invoke(null, (Object) line.split("\t"));
            } finally {
                System.setOut(out);
                System.setErr(err);
            }
            out.println("$ mqadmin " + line.replace('\t', ' '));
            out.print("[stdout]\n" + withEnd(stdout) + "[stderr]\n" + withEnd(stderr) + "[end]\n");
            out.flush();
        }
        // Some commands leave threads behind.
        System.exit(0);
    }

    private static String withEnd(ByteArrayOutputStream text) {
        String string = text.toString(StandardCharsets.UTF_8);
        return string.isEmpty() || string.endsWith("\n") ? string : string + "\n";
    }
}
