//! One connection: read, decode every whole frame, handle, write once.
//!
//! The task borrows its worker's buffers between two awaits; an idle connection holds only its state and what is left
//! of a frame that has not come whole. Invariant: bytes are handled in the order of the socket, and the answers that
//! handlers give inline leave in that order, in one write a read.
//!
//! Back-pressure: while more than the high-water mark of answers waits for this client, nothing is read from it and
//! no further frame is handled.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Instant;

use arrayvec::ArrayVec;
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::tcp::OwnedReadHalf;
use tokio_util::io::poll_read_buf;

use crate::command::Command;
use crate::frame::{self, Split};
use crate::reply::Reply;
use crate::request::Request;
use crate::server::buffers::{READ_SIZE, with_io};
use crate::server::handle::ConnHandle;
use crate::server::lanes::Lanes;
use crate::server::proxy::{self, First};
use crate::server::router::{Cx, Lane, Outcome, Router};
use crate::{RequestCode, ResponseCode};

/// Answers of one read beyond this are written before the next request is handled.
const WRITE_EARLY: usize = 256 * 1024;
/// So many requests are read before the first of them is handled.
const GROUP: usize = 8;

/// How many times the bytes that have come a frame's buffer may be long.
const ANNOUNCED_SHARE: usize = 8;

/// What connections share.
pub(crate) struct Shared {
    pub(crate) router: Arc<Router>,
    pub(crate) lanes: Lanes,
    pub(crate) max_frame: usize,
    pub(crate) high_water: usize,
}

/// Serves one connection until it ends, then tells whoever wants to know.
pub(crate) async fn serve(reader: OwnedReadHalf, conn: ConnHandle, shared: Arc<Shared>, proxied: bool) {
    let end = End { conn: conn.clone(), shared: shared.clone() };
    if let Some(opened) = &shared.router.opened {
        opened(&conn);
    }
    let mut task = Task { reader, conn, shared, rest: BytesMut::new(), more: false, first: proxied };
    std::future::poll_fn(|cx| task.poll(cx)).await;
    drop(end);
}

/// Runs the closing hooks however the task ends, also when a handler panics.
struct End {
    conn: ConnHandle,
    shared: Arc<Shared>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.conn.0.finish();
        if let Some(closed) = &self.shared.router.closed {
            closed(&self.conn);
        }
    }
}

struct Task {
    reader: OwnedReadHalf,
    conn: ConnHandle,
    shared: Arc<Shared>,
    /// Bytes read and not yet handled: an incomplete frame, or whole ones that back-pressure holds up.
    rest: BytesMut,
    /// `rest` holds whole frames.
    more: bool,
    /// The first bytes have not been looked at.
    first: bool,
}

/// Why a connection ends before the peer ends it.
enum Stop {
    /// The peer sent what is no frame.
    BadFrame(String),
}

impl Task {
    /// Goes on until there is nothing to do now. Ready: the connection is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let state = Arc::clone(&self.conn.0);
        state.register(cx.waker());
        loop {
            if !state.open.load(Ordering::Acquire) {
                return Poll::Ready(());
            }
            if state.queued.load(Ordering::Acquire) > 0 {
                match state.stream().poll_write_ready(cx) {
                    // A socket that took less than all is not ready any more: the next look registers for more room.
                    Poll::Ready(Ok(())) => {
                        state.write_queued();
                        continue;
                    }
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Pending => {}
                }
            }
            if state.draining.load(Ordering::Acquire)
                && state.elsewhere.load(Ordering::Acquire) == 0
                && state.queued.load(Ordering::Acquire) == 0
            {
                return Poll::Ready(());
            }
            if self.throttled() {
                return Poll::Pending;
            }
            if self.more {
                self.handle_rest();
                continue;
            }
            match self.poll_read(cx) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Whether so many answers wait for the client that it gets no more.
    fn throttled(&self) -> bool {
        self.conn.0.queued.load(Ordering::Acquire) > self.shared.high_water
    }

    /// Reads once and handles what came. False: the peer has closed, or must be closed.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        // A frame larger than the worker's buffer collects in a buffer of its own.
        if self.rest.len() >= READ_SIZE / 2 {
            self.rest.reserve(self.room());
            return match poll_read_buf(Pin::new(&mut self.reader), cx, &mut self.rest) {
                Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(false),
                Poll::Ready(Ok(_)) => {
                    self.conn.0.touch();
                    self.handle_rest();
                    Poll::Ready(true)
                }
                Poll::Pending => Poll::Pending,
            };
        }
        with_io(|buffer, out| {
            let kept = self.rest.len();
            buffer[..kept].copy_from_slice(&self.rest);
            let mut room = ReadBuf::new(&mut buffer[kept..]);
            match Pin::new(&mut self.reader).poll_read(cx, &mut room) {
                Poll::Ready(Ok(())) if !room.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(false),
                Poll::Pending => return Poll::Pending,
            }
            let filled = kept + room.filled().len();
            self.conn.0.touch();
            let used = self.handle(&buffer[..filled], out);
            // An idle connection holds no buffer.
            self.rest = if used == filled { BytesMut::new() } else { BytesMut::from(&buffer[used..filled]) };
            Poll::Ready(true)
        })
    }

    /// Bytes to make room for behind `rest`: a little, or the whole frame once so much of it has come that this takes only
    /// [`ANNOUNCED_SHARE`] times what the peer has really sent.
    fn room(&self) -> usize {
        let (come, max_frame) = (self.rest.len(), self.shared.max_frame);
        match frame::split(&self.rest, max_frame) {
            Ok(Split::NeedMore { total: Some(total) }) if come >= total / ANNOUNCED_SHARE => {
                total.saturating_sub(come).max(READ_SIZE)
            }
            _ => READ_SIZE,
        }
    }

    /// Handles whole frames in `rest`.
    fn handle_rest(&mut self) {
        let mut rest = std::mem::take(&mut self.rest);
        let used = with_io(|_, out| self.handle(&rest, out));
        if used == rest.len() {
            rest = BytesMut::new();
        } else {
            bytes::Buf::advance(&mut rest, used);
        }
        self.rest = rest;
    }

    /// Handles every whole frame of `bytes`, as far as back-pressure allows, and writes the answers. Returns how many
    /// bytes were used; closes the connection on a bad frame.
    fn handle(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        self.more = false;
        let mut used = 0;
        if self.first {
            match proxy::detect(bytes) {
                First::Frames => self.first = false,
                First::NeedMore => return 0,
                First::Bad => {
                    self.refuse("a bad PROXY header");
                    return bytes.len();
                }
                First::Proxy { len, client } => {
                    if let Some(client) = client {
                        let _ = self.conn.0.proxied.set(client);
                    }
                    used = len;
                    self.first = false;
                }
            }
        }
        let max_frame = self.shared.max_frame;
        let stop = 'read: loop {
            let mut requests = ArrayVec::<(Request<'_>, usize), GROUP>::new();
            let mut end = used;
            // The group is whole, or the bytes end, or what follows is no frame.
            let rest = loop {
                if requests.is_full() {
                    break None;
                }
                match frame::split(&bytes[end..], max_frame) {
                    Ok(Split::NeedMore { .. }) => break Some(None),
                    Ok(Split::Frame { total, header, serialize, body }) => {
                        match Request::decode(serialize, header, body) {
                            Ok(request) => {
                                end += total;
                                requests.push((request, end));
                            }
                            Err(error) => break Some(Some(Stop::BadFrame(error.to_string()))),
                        }
                    }
                    Err(error) => break Some(Some(Stop::BadFrame(error.to_string()))),
                }
            };
            self.look_ahead(&requests);
            for (request, end) in &requests {
                self.one(request, &bytes[used..*end], out);
                used = *end;
                if out.len() > WRITE_EARLY {
                    self.conn.0.send(out);
                    out.clear();
                    if self.throttled() {
                        self.more = true;
                        break 'read None;
                    }
                }
            }
            if let Some(stop) = rest {
                break stop;
            }
        };
        if let Some(batch_end) = &self.shared.router.batch_end {
            batch_end();
        }
        self.conn.0.send(out);
        if let Some(Stop::BadFrame(what)) = stop {
            self.refuse(&what);
            return bytes.len();
        }
        used
    }

    /// See [`AnyHandler::look_ahead`](super::router::AnyHandler::look_ahead).
    fn look_ahead(&self, requests: &[(Request<'_>, usize)]) {
        let mut known = [None; GROUP];
        let mut look = |at: usize, step| {
            let request = &requests[at].0;
            let entry = self.shared.router.entry(request.code).filter(|_| !request.is_response());
            entry.is_some_and(|entry| entry.handler.look_ahead(request, step, &mut known[at]))
        };
        if requests.len() < 2 || !look(0, 0) {
            return;
        }
        (1..requests.len()).for_each(|at| _ = look(at, 0));
        let mut step = 1;
        // All of them, also behind one that says true.
        while (0..requests.len()).filter(|at| look(*at, step)).count() > 0 {
            step += 1;
        }
    }

    fn refuse(&self, what: &str) {
        tracing::debug!(peer = %self.conn.0.peer, "closing a connection: {what}");
        metrics::counter!("rocketmq_remoting_bad_frames_total").increment(1);
        self.conn.0.close();
    }

    /// Handles one request, or one answer to a request of ours.
    fn one(&self, request: &Request<'_>, raw: &[u8], out: &mut Vec<u8>) {
        if request.is_response() {
            self.conn.0.complete(owned(request));
            return;
        }
        let router = &self.shared.router;
        if let Some(reply) = router.gate.as_ref().and_then(|gate| gate(&self.conn, request)) {
            return self.answer(request, &reply, out);
        }
        let Some(entry) = router.entry(request.code) else {
            let remark = format!(" request type {} not supported", request.code);
            return self.answer(request, &Reply::error(ResponseCode::REQUEST_CODE_NOT_SUPPORTED, remark), out);
        };
        match entry.lane {
            Lane::Inline => {
                let started = entry.meter.start();
                let mut cx = Cx { conn: &self.conn, request, out, serialize: self.conn.0.serialize };
                let outcome = entry.handler.serve(&mut cx);
                entry.meter.end(started);
                match outcome {
                    Outcome::Done | Outcome::Parked => {}
                    Outcome::Reply(reply) => self.answer(request, &reply, out),
                    Outcome::Later(future) => {
                        let (opaque, oneway) = (request.opaque, request.is_oneway());
                        if !self.shared.lanes.later(&self.conn, opaque, oneway, future) {
                            self.answer(request, &busy(), out);
                        }
                    }
                }
            }
            Lane::Blocking => {
                if !self.shared.lanes.blocking(&self.conn, entry, raw, self.shared.max_frame) {
                    self.answer(request, &busy(), out);
                }
            }
        }
    }

    fn answer(&self, request: &Request<'_>, reply: &Reply, out: &mut Vec<u8>) {
        if !request.is_oneway() {
            reply.encode(self.conn.0.serialize, request.opaque, out);
        }
    }
}

/// The answer of an overloaded server; clients retry on it.
fn busy() -> Reply {
    metrics::counter!("rocketmq_remoting_overload_total").increment(1);
    Reply::error(ResponseCode::SYSTEM_BUSY, "[OVERLOAD]system busy, start flow control for a while")
}

/// An answer from the peer, for the caller that waits for it.
fn owned(answer: &Request<'_>) -> Command {
    Command {
        code: answer.code,
        language: answer.language,
        version: answer.version,
        opaque: answer.opaque,
        flag: answer.flag,
        remark: answer.remark.as_deref().map(str::to_owned),
        fields: answer.fields.iter().map(|f| (f.name.to_owned(), f.value.to_cow().into_owned())).collect(),
        body: Bytes::copy_from_slice(answer.body),
    }
}

/// Counts requests of one code and times those that run inline.
#[derive(Clone)]
pub(crate) struct Meter {
    requests: metrics::Counter,
    latency: metrics::Histogram,
    timed: bool,
}

impl Meter {
    /// A meter of a request code; `timed` costs two looks at the clock a request.
    pub(crate) fn new(code: RequestCode, timed: bool) -> Meter {
        let name = code.name().map_or_else(|| code.0.to_string(), str::to_owned);
        Meter {
            requests: metrics::counter!("rocketmq_rpc_requests_total", "request_code" => name.clone()),
            latency: metrics::histogram!("rocketmq_rpc_latency", "request_code" => name),
            timed,
        }
    }

    pub(crate) fn start(&self) -> Option<Instant> {
        self.requests.increment(1);
        self.timed.then(Instant::now)
    }

    pub(crate) fn end(&self, started: Option<Instant>) {
        if let Some(started) = started {
            self.latency.record(started.elapsed().as_secs_f64() * 1e3);
        }
    }
}
