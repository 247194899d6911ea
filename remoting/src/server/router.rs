//! Which handler answers which request code, and what a handler sees of a request.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::code::{RequestCode, ResponseCode};
use crate::command::SerializeType;
use crate::fields::FieldError;
use crate::header::{Header, WriteHeader};
use crate::reply::{self, Reply};
use crate::request::Request;
use crate::server::conn::Meter;
use crate::server::handle::{ConnHandle, ReplyTo};

/// How a request ended, as its handler reports it.
pub enum Outcome {
    /// The handler has written the answer with [`Cx::write`], or there is none to give.
    Done,
    /// An answer that the server writes now.
    Reply(Reply),
    /// The answer comes when the future ends: it waits for a flush, a replica or a client.
    Later(Pin<Box<dyn Future<Output = Reply> + Send>>),
    /// Somebody holds the [`ReplyTo`] and answers in time (long polling).
    Parked,
}

impl From<Reply> for Outcome {
    fn from(reply: Reply) -> Self {
        Outcome::Reply(reply)
    }
}

/// Where a handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// On the connection's task, between read and write. Must not wait: no disk read, no lock that is held long.
    Inline,
    /// On a bounded pool of blocking threads: cold reads, scans, file writes.
    Blocking,
}

/// Answers one request code.
///
/// A handler owns the few services that it uses; nothing hands it "the broker".
pub trait Handler: Send + Sync + 'static {
    /// The typed header; [`header::Empty`](crate::header::Empty) when there is none.
    type Request<'a>: Header<'a>;

    /// Handles one request. The body is [`Cx::body`].
    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome;

    /// The answer to a header that cannot be read. Java's answer is SYSTEM_ERROR.
    fn bad_header(&self, error: FieldError) -> Reply {
        Reply::error(ResponseCode::SYSTEM_ERROR, error.to_string())
    }

    /// See [`AnyHandler::look_ahead`].
    fn look_ahead(&self, _request: &Request<'_>, _step: usize, _known: &mut Known) -> bool {
        false
    }
}

/// What a handler keeps of a request from one step of [`AnyHandler::look_ahead`] to the next, two numbers of its choice.
pub type Known = Option<(u64, i32)>;

/// A [`Handler`] whose header type is hidden, for tables.
pub trait AnyHandler: Send + Sync + 'static {
    /// Reads the header and handles the request.
    fn serve(&self, cx: &mut Cx<'_>) -> Outcome;

    /// Asks for memory that a request which is handled soon will need, and changes nothing that anybody could see. Called for
    /// several requests of a read one after the other, so that they wait for the memory together; as long as one says
    /// true, again for all of them with the next step: what is known then leads further. The first one that says false to step 0
    /// says it for all.
    ///
    /// `known` is the request's own, `None` with step 0: what was found out then need not be found out again.
    fn look_ahead(&self, request: &Request<'_>, step: usize, known: &mut Known) -> bool;
}

impl<H: Handler> AnyHandler for H {
    fn serve(&self, cx: &mut Cx<'_>) -> Outcome {
        match H::Request::read(&cx.request().fields) {
            Ok(header) => self.handle(cx, header),
            Err(error) => self.bad_header(error).into(),
        }
    }

    fn look_ahead(&self, request: &Request<'_>, step: usize, known: &mut Known) -> bool {
        Handler::look_ahead(self, request, step, known)
    }
}

/// What a handler sees of one request.
pub struct Cx<'s> {
    pub(crate) conn: &'s ConnHandle,
    pub(crate) request: &'s Request<'s>,
    /// Answers of this read batch, in order; written with one write.
    pub(crate) out: &'s mut Vec<u8>,
    pub(crate) serialize: SerializeType,
}

impl<'s> Cx<'s> {
    /// The connection that the request came on.
    pub fn conn(&self) -> &'s ConnHandle {
        self.conn
    }

    /// The whole request.
    pub fn request(&self) -> &'s Request<'s> {
        self.request
    }

    /// The body; empty when there is none.
    pub fn body(&self) -> &'s [u8] {
        self.request.body
    }

    /// Writes the answer into the batch's output: no allocation, no owned values. Nothing happens for a one-way request.
    pub fn write(
        &mut self,
        code: ResponseCode,
        remark: Option<&str>,
        header: &dyn WriteHeader,
        body: &[u8],
    ) -> Outcome {
        self.write_with(code, remark, header, |out| out.extend_from_slice(body))
    }

    /// As [`Cx::write`], with a body that is appended to the output by `body`.
    pub fn write_with(
        &mut self,
        code: ResponseCode,
        remark: Option<&str>,
        header: &dyn WriteHeader,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> Outcome {
        if !self.request.is_oneway() {
            reply::encode(self.out, self.serialize, self.request.opaque, code.0, remark, header, body);
        }
        Outcome::Done
    }

    /// A way to answer this request later, from any thread.
    pub fn reply_to(&self) -> ReplyTo {
        ReplyTo { conn: self.conn.clone(), opaque: self.request.opaque, oneway: self.request.is_oneway() }
    }
}

/// The table of handlers, and what surrounds every request.
#[derive(Clone, Default)]
pub struct Router {
    /// Indexed by code: nearly all codes are small numbers.
    small: Vec<Option<Entry>>,
    large: HashMap<i32, Entry>,
    timed: bool,
    pub(crate) gate: Option<Arc<Gate>>,
    pub(crate) batch_end: Option<Arc<dyn Fn() + Send + Sync>>,
    pub(crate) opened: Option<Arc<Heard>>,
    pub(crate) closed: Option<Arc<Heard>>,
}

/// Codes below this are in the indexed part of the table.
const SMALL: i32 = 1024;

/// Looks at a request before its handler does; a reply ends the request there (flow control, authorization, shutdown).
pub type Gate = dyn Fn(&ConnHandle, &Request<'_>) -> Option<Reply> + Send + Sync;

/// Hears once of every connection.
type Heard = dyn Fn(&ConnHandle) + Send + Sync;

#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) lane: Lane,
    pub(crate) meter: Meter,
    pub(crate) handler: Arc<dyn AnyHandler>,
}

impl Router {
    /// An empty table: every code gets REQUEST_CODE_NOT_SUPPORTED.
    pub fn new() -> Router {
        Router::default()
    }

    /// Times every request for the metrics exporter. Call it before the first [`Router::on`].
    pub fn set_timed(&mut self, timed: bool) {
        self.timed = timed;
    }

    /// Adds a handler for a code; the last one wins.
    pub fn on(&mut self, code: RequestCode, lane: Lane, handler: Arc<dyn AnyHandler>) {
        let entry = Entry { lane, meter: Meter::new(code, self.timed), handler };
        match usize::try_from(code.0) {
            Ok(at) if code.0 < SMALL => {
                if self.small.len() <= at {
                    self.small.resize(at + 1, None);
                }
                self.small[at] = Some(entry);
            }
            _ => {
                self.large.insert(code.0, entry);
            }
        }
    }

    /// The same table without some codes (the VIP port serves no pulls).
    pub fn without(&self, codes: &[RequestCode]) -> Router {
        let mut router = self.clone();
        for code in codes {
            router.large.remove(&code.0);
            if let Some(entry) = usize::try_from(code.0).ok().and_then(|at| router.small.get_mut(at)) {
                *entry = None;
            }
        }
        router
    }

    /// Sets the check that runs before every handler.
    pub fn set_gate(&mut self, gate: impl Fn(&ConnHandle, &Request<'_>) -> Option<Reply> + Send + Sync + 'static) {
        self.gate = Some(Arc::new(gate));
    }

    /// Sets what runs after all requests of one read were handled and before their answers are written: the store's
    /// dispatch.
    pub fn set_batch_end(&mut self, hook: impl Fn() + Send + Sync + 'static) {
        self.batch_end = Some(Arc::new(hook));
    }

    /// Sets what runs once for a new connection.
    pub fn set_opened(&mut self, hook: impl Fn(&ConnHandle) + Send + Sync + 'static) {
        self.opened = Some(Arc::new(hook));
    }

    /// Sets what runs once after a connection is gone.
    pub fn set_closed(&mut self, hook: impl Fn(&ConnHandle) + Send + Sync + 'static) {
        self.closed = Some(Arc::new(hook));
    }

    /// The registered codes, ascending.
    pub fn codes(&self) -> Vec<RequestCode> {
        let small = (0..).zip(&self.small).filter(|(_, entry)| entry.is_some()).map(|(code, _)| code);
        let mut codes: Vec<_> = small.chain(self.large.keys().copied()).map(RequestCode).collect();
        codes.sort();
        codes
    }

    pub(crate) fn entry(&self, code: i32) -> Option<&Entry> {
        match usize::try_from(code) {
            Ok(at) if code < SMALL => self.small.get(at)?.as_ref(),
            _ => self.large.get(&code),
        }
    }
}
