//! Free ports for servers.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the range from which Linux takes the ports of outgoing connections: nobody else grabs them between our check and the server's bind.
const FIRST: u32 = 12_000;
const COUNT: u32 = 20_000;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A port `p` for a broker: `p`, `p - 2` (its second port) and `p + 1` (replication) are free, and given to nobody else in this process.
///
/// # Panics
/// When no such port is left.
pub fn broker_port() -> u16 {
    for _ in 0..COUNT {
        // Ten apart, and each process begins elsewhere: two test processes rarely look at the same ports.
        let step = NEXT.fetch_add(10, Ordering::Relaxed);
        let port = (FIRST + (std::process::id().wrapping_mul(7919) + step) % COUNT) as u16;
        if [port - 2, port, port + 1].into_iter().all(is_free) {
            return port;
        }
    }
    panic!("no free ports between {FIRST} and {}", FIRST + COUNT);
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("0.0.0.0", port)).is_ok()
}
