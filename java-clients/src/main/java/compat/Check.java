package compat;

import java.util.Objects;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;

/** What a scenario asserts and waits for. */
final class Check {
    /** A check that did not hold; its message is the verdict. */
    static final class Failed extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Failed(String message) {
            super(message);
        }
    }

    /** Something that may throw and is expected to. */
    @FunctionalInterface
    interface Action {
        void run() throws Exception;
    }

    private Check() {
    }

    static void that(boolean holds, String what) {
        if (!holds) {
            throw new Failed(what);
        }
    }

    static void equal(String what, Object expected, Object actual) {
        if (!Objects.equals(expected, actual)) {
            throw new Failed(what + ": expected <" + expected + ">, found <" + actual + ">");
        }
    }

    static void equal(String what, byte[] expected, byte[] actual) {
        if (!java.util.Arrays.equals(expected, actual)) {
            throw new Failed(what + ": " + expected.length + " bytes expected, other bytes (" + actual.length + ") found");
        }
    }

    /** Runs {@code action}, which must throw a {@code kind}, and returns what it threw. */
    static <E extends Exception> E thrown(String what, Class<E> kind, Action action) {
        try {
            action.run();
        } catch (Exception e) {
            if (kind.isInstance(e)) {
                return kind.cast(e);
            }
            throw new Failed(what + ": expected " + kind.getSimpleName() + ", found " + e);
        }
        throw new Failed(what + ": expected " + kind.getSimpleName() + ", nothing was thrown");
    }

    /** Polls {@code condition} until it holds; fails after {@code seconds}. */
    static void await(Context context, String what, double seconds, BooleanSupplier condition) throws InterruptedException {
        await(context, what, seconds, condition, () -> "");
    }

    /** As above; {@code state} tells in the verdict how far it came. */
    static void await(Context context, String what, double seconds, BooleanSupplier condition, Supplier<Object> state)
        throws InterruptedException {
        long deadline = System.nanoTime() + (long) (seconds * 1e9);
        context.waitingFor(what);
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                Object reached = state.get();
                throw new Failed(what + ": not within " + seconds + " s" + (reached.equals("") ? "" : "; reached " + reached));
            }
            Thread.sleep(5);
        }
        context.waitingFor("nothing");
    }
}
