//! Requests that do not end on their connection's task: the blocking lane, and answers that come later.
//!
//! Admission: the bytes of waiting requests and the number of unfinished ones are bounded over all connections; what
//! does not fit is answered with SYSTEM_BUSY by the caller.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use crate::frame::{self, Split};
use crate::reply::Reply;
use crate::request::Request;
use crate::server::handle::{ConnHandle, ReplyTo};
use crate::server::router::{Cx, Entry, Outcome};

/// Bytes of copied requests that may wait for a blocking thread.
const WAITING_BYTES: usize = 256 * 1024 * 1024;
/// Answers that may be outstanding.
const UNFINISHED: usize = 200_000;
/// Blocking threads at work at once.
const THREADS: usize = 16;

/// See the module.
#[derive(Clone)]
pub(crate) struct Lanes {
    threads: Arc<Semaphore>,
    load: Arc<Load>,
}

#[derive(Default)]
struct Load {
    waiting_bytes: AtomicUsize,
    unfinished: AtomicUsize,
}

/// One admitted request: gives back what it took when it ends, however it ends.
struct Admitted {
    load: Arc<Load>,
    conn: ConnHandle,
    bytes: usize,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.load.waiting_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.load.unfinished.fetch_sub(1, Ordering::Relaxed);
        self.conn.0.elsewhere.fetch_sub(1, Ordering::AcqRel);
        if self.conn.0.draining.load(Ordering::Acquire) {
            self.conn.0.wake();
        }
    }
}

impl Lanes {
    pub(crate) fn new() -> Lanes {
        Lanes { threads: Arc::new(Semaphore::new(THREADS)), load: Arc::default() }
    }

    fn admit(&self, conn: &ConnHandle, bytes: usize) -> Option<Admitted> {
        let load = &self.load;
        let waiting = load.waiting_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let unfinished = load.unfinished.fetch_add(1, Ordering::Relaxed) + 1;
        conn.0.elsewhere.fetch_add(1, Ordering::AcqRel);
        let admitted = Admitted { load: load.clone(), conn: conn.clone(), bytes };
        (waiting <= WAITING_BYTES && unfinished <= UNFINISHED).then_some(admitted)
    }

    /// Waits for the answer and sends it. False: too much is unfinished, nothing was started.
    pub(crate) fn later(
        &self,
        conn: &ConnHandle,
        opaque: i32,
        oneway: bool,
        answer: Pin<Box<dyn Future<Output = Reply> + Send>>,
    ) -> bool {
        let Some(admitted) = self.admit(conn, 0) else { return false };
        let to = ReplyTo { conn: conn.clone(), opaque, oneway };
        tokio::spawn(async move {
            to.send(&answer.await);
            drop(admitted);
        });
        true
    }

    /// Copies the frame and handles it on a blocking thread. False: too much waits, nothing was started.
    pub(crate) fn blocking(&self, conn: &ConnHandle, entry: &Entry, raw: &[u8], max_frame: usize) -> bool {
        let Some(admitted) = self.admit(conn, raw.len()) else { return false };
        let (lanes, conn, entry, raw) = (self.clone(), conn.clone(), entry.clone(), raw.to_vec());
        tokio::spawn(async move {
            let Ok(permit) = lanes.threads.clone().acquire_owned().await else { return };
            let work = tokio::task::spawn_blocking(move || {
                let later = serve_copy(&conn, &entry, &raw, max_frame);
                drop(permit);
                (later, conn)
            });
            if let Ok((Some((future, opaque, oneway)), conn)) = work.await {
                ReplyTo { conn, opaque, oneway }.send(&future.await);
            }
            drop(admitted);
        });
        true
    }
}

type Deferred = (Pin<Box<dyn Future<Output = Reply> + Send>>, i32, bool);

/// Handles one copied frame on this thread and sends the answer; an answer that comes later is handed back.
fn serve_copy(conn: &ConnHandle, entry: &Entry, raw: &[u8], max_frame: usize) -> Option<Deferred> {
    // The connection's task has decoded these bytes once: they are a frame.
    let Ok(Split::Frame { header, serialize, body, .. }) = frame::split(raw, max_frame) else { return None };
    let Ok(request) = Request::decode(serialize, header, body) else { return None };
    let mut out = Vec::new();
    let started = entry.meter.start();
    let mut cx = Cx { conn, request: &request, out: &mut out, serialize: conn.0.serialize };
    let outcome = entry.handler.serve(&mut cx);
    entry.meter.end(started);
    match outcome {
        Outcome::Done | Outcome::Parked => conn.0.send(&out),
        Outcome::Reply(reply) => {
            ReplyTo { conn: conn.clone(), opaque: request.opaque, oneway: request.is_oneway() }.send(&reply);
        }
        Outcome::Later(future) => return Some((future, request.opaque, request.is_oneway())),
    }
    None
}
