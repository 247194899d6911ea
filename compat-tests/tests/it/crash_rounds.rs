//! Thirty rounds of `rmq-crash`, half with each flush mode: the broker is killed under load and everything that it acknowledged is there afterwards.

use std::process::Command;

fn rounds(flush: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_rmq-crash"))
        .args(["--rounds", "15", "--longest", "150", "--producers", "3", "--flush", flush])
        .output()
        .expect("rmq-crash runs");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    println!("{text}");
    assert!(
        output.status.success() && text.contains(" lost=0 duplicates=0 "),
        "rmq-crash --flush {flush} found faults"
    );
}

#[test]
fn asynchronous_flush() {
    rounds("ASYNC_FLUSH");
}

#[test]
fn synchronous_flush() {
    rounds("SYNC_FLUSH");
}
