//! SEND_REPLY_MESSAGE (324), SEND_REPLY_MESSAGE_V2 (325): a consumer answers a request that was sent as a message.

use std::sync::Arc;

use remoting::header::{SendMessage, SendMessageV2};
use remoting::server::{Cx, Handler, Outcome};

use crate::clients::Producers;
use crate::send::Sender;

/// The request with long field names.
pub struct ReplyMessage {
    sender: Arc<Sender>,
    producers: Arc<Producers>,
}

impl ReplyMessage {
    /// The handler.
    pub fn new(sender: Arc<Sender>, producers: Arc<Producers>) -> ReplyMessage {
        ReplyMessage { sender, producers }
    }
}

impl Handler for ReplyMessage {
    type Request<'a> = SendMessage<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        Sender::reply(&self.sender, cx, &request.into(), &self.producers)
    }
}

/// The request with field names of one letter.
pub struct ReplyMessageV2 {
    sender: Arc<Sender>,
    producers: Arc<Producers>,
}

impl ReplyMessageV2 {
    /// The handler.
    pub fn new(sender: Arc<Sender>, producers: Arc<Producers>) -> ReplyMessageV2 {
        ReplyMessageV2 { sender, producers }
    }
}

impl Handler for ReplyMessageV2 {
    type Request<'a> = SendMessageV2<'a>;

    fn handle(&self, cx: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        Sender::reply(&self.sender, cx, &request.into(), &self.producers)
    }
}
