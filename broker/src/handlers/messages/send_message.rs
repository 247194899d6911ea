//! SEND_MESSAGE (10), SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320): a producer sends a message, or a row of them.

use std::sync::Arc;

use remoting::Request;
use remoting::header::{SendMessage, SendMessageV2};
use remoting::server::{Cx, Handler, Known, Outcome};

use crate::send::Sender;

/// The request with long field names.
pub struct Send {
    sender: Arc<Sender>,
}

impl Send {
    /// The handler.
    pub fn new(sender: Arc<Sender>) -> Send {
        Send { sender }
    }
}

impl Handler for Send {
    type Request<'a> = SendMessage<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        self.sender.send(cx, &request.into())
    }

    fn look_ahead(&self, request: &Request<'_>, step: usize, known: &mut Known) -> bool {
        self.sender.look_ahead(request, ["topic", "queueId"], step, known)
    }
}

/// The request with field names of one letter; a batch is one of its fields.
pub struct SendV2 {
    sender: Arc<Sender>,
}

impl SendV2 {
    /// The handler.
    pub fn new(sender: Arc<Sender>) -> SendV2 {
        SendV2 { sender }
    }
}

impl Handler for SendV2 {
    type Request<'a> = SendMessageV2<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        self.sender.send(cx, &request.into())
    }

    fn look_ahead(&self, request: &Request<'_>, step: usize, known: &mut Known) -> bool {
        self.sender.look_ahead(request, ["b", "e"], step, known)
    }
}
