//! The reply of request-reply messaging: it goes to the client that asked, on the connection of that client's producer,
//! and into the log when `storeReplyMessageEnable` says so.
//!
//! The producer of the reply hears whether it was handed over, not whether it was stored; where it was stored is told in
//! either case.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use config::BrokerConfig;
use remoting::header::{ReplyMessage, SendRequest};
use remoting::server::{ConnHandle, Cx, Outcome};
use remoting::{Command, Reply, ResponseCode, Text};

use super::answer::{IdText, Region, Stored};
use super::properties::{Known, Properties};
use super::put::Message;
use super::{LOCAL, Sender};
use crate::clients::Producers;
use crate::push;
use crate::stats::now_millis;

/// A reply that is not stored gets this id: clients expect one.
const NO_ID: &str = "0";

/// Replies wait for clients that may be slow: more bytes than this are refused.
const UNCONFIRMED: usize = 128 << 20;

/// A reply that was taken. It outlives its request: the client that asked has time to confirm.
struct Taken {
    topic: String,
    queue_id: i32,
    flag: i32,
    born_timestamp: i64,
    born_host: SocketAddr,
    reconsume_times: i32,
    body: Bytes,
    properties: Properties,
    _waiting: Waiting,
}

/// Counts the bytes of a reply as long as it lives.
struct Waiting {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Waiting {
    /// `None` when too much waits already.
    fn admit(all: &Arc<AtomicUsize>, bytes: usize) -> Option<Waiting> {
        let before = all.fetch_add(bytes, Ordering::Relaxed);
        let waiting = Waiting { bytes, all: Arc::clone(all) };
        (before + bytes <= UNCONFIRMED).then_some(waiting)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The way to the client that asked.
enum Way {
    Open {
        client: String,
        conn: ConnHandle,
        command: Command,
    },
    /// There is none; the text says why.
    None(String),
}

impl Sender {
    /// Handles a reply with either header.
    pub fn reply(sender: &Arc<Sender>, cx: &mut Cx<'_>, incoming: &SendRequest<'_>, producers: &Producers) -> Outcome {
        let config = sender.parts.config.load();
        let checked = LOCAL.with_borrow_mut(|local| sender.check(&mut local.targets, &config, cx, incoming));
        let queue_id = match checked {
            Ok(seat) => seat.queue_id,
            Err(refusal) => {
                return cx.write(refusal.code, Some(&refusal.remark), &sender.region(&config), &[]);
            }
        };
        let properties = sender.reply_properties(&config, incoming);
        // The properties are there twice: for the client and for the store.
        let bytes = cx.body().len() + 2 * properties.as_bytes().len();
        let Some(waiting) = Waiting::admit(&sender.unconfirmed, bytes) else {
            let remark = "[OVERLOAD]system busy, start flow control for a while";
            return cx.write(ResponseCode::SYSTEM_BUSY, Some(remark), &sender.region(&config), &[]);
        };
        let taken = Taken {
            topic: incoming.topic.as_ref().to_owned(),
            queue_id,
            flag: incoming.flag,
            born_timestamp: incoming.born_timestamp,
            born_host: cx.conn().peer(),
            reconsume_times: incoming.reconsume_times,
            body: Bytes::copy_from_slice(cx.body()),
            properties,
            _waiting: waiting,
        };
        let way = sender.way(incoming, &taken, producers);
        let sender = Arc::clone(sender);
        Outcome::Later(Box::pin(async move {
            let handed = way.hand_over().await;
            sender.finish_reply(taken, handed).await
        }))
    }

    fn reply_properties(&self, config: &BrokerConfig, incoming: &SendRequest<'_>) -> Properties {
        let mut properties = Properties::default();
        properties.fill(&[Known::Region, Known::TraceOn], |out| {
            if let Some(text) = incoming.properties {
                text.write_to(out);
            }
        });
        properties.append(Known::Region, self.parts.identity.region.as_bytes());
        properties.append(Known::TraceOn, if config.trace_on { b"true" } else { b"false" });
        properties
    }

    /// Looks for the client that the reply names.
    fn way(&self, incoming: &SendRequest<'_>, taken: &Taken, producers: &Producers) -> Way {
        let Some(client) = taken.properties.text(Known::ReplyToClient) else {
            return Way::None(format!("reply message properties[{}] is null", Known::ReplyToClient.name()));
        };
        let Some(conn) = producers.find(client) else {
            return Way::None(format!("push reply message fail, channel of <{client}> not found."));
        };
        let now = now_millis();
        // The time is for the client alone: what is stored does not have it.
        let mut pushed = Properties::default();
        pushed.fill(&[Known::PushReplyTime], |out| out.extend_from_slice(taken.properties.as_bytes()));
        pushed.append(Known::PushReplyTime, itoa::Buffer::new().format(now).as_bytes());
        let header = ReplyMessage {
            producer_group: Cow::Borrowed(&incoming.producer_group),
            topic: Cow::Borrowed(&incoming.topic),
            default_topic: Cow::Borrowed(&incoming.default_topic),
            default_topic_queue_nums: incoming.default_topic_queue_nums,
            queue_id: incoming.queue_id,
            sys_flag: incoming.sys_flag,
            born_timestamp: incoming.born_timestamp,
            flag: incoming.flag,
            properties: Some(Text::plain(std::str::from_utf8(pushed.as_bytes()).unwrap_or_default())),
            reconsume_times: Some(incoming.reconsume_times),
            unit_mode: incoming.unit_mode,
            born_host: Cow::Owned(host_text(taken.born_host)),
            store_host: Cow::Owned(host_text(self.parts.identity.store_host)),
            store_timestamp: now,
            ..ReplyMessage::default()
        };
        let command = push::reply_message::command(&header, taken.body.clone());
        Way::Open { client: client.to_owned(), conn, command }
    }

    /// Stores the reply when that is wanted, and makes the answer to whoever sent it.
    async fn finish_reply(&self, taken: Taken, handed: Result<(), String>) -> Reply {
        let queue_id = taken.queue_id;
        let (store, trace_on) = {
            let config = self.parts.config.load();
            (config.store_reply_message_enable, config.trace_on)
        };
        let place = if store { self.store_reply(taken).await } else { None };
        let place = place.or_else(|| handed.is_ok().then(|| (IdText::of(NO_ID), 0)));
        let reply = match handed {
            Ok(()) => Reply::ok(),
            Err(remark) => Reply::error(ResponseCode::SYSTEM_ERROR, remark),
        };
        let region = Region { region: &self.parts.identity.region, trace_on };
        let Some((id, queue_offset)) = place else { return reply.header(&region) };
        let message_id = id.as_str();
        reply.header(&Stored {
            region,
            message_id,
            queue_id,
            queue_offset,
            transaction_id: None,
            recall_handle: None,
            batch_id: None,
        })
    }

    /// The id and the queue offset of the stored reply; `None` when the store refuses it.
    async fn store_reply(&self, mut taken: Taken) -> Option<(IdText, i64)> {
        // Java stores replies without their flags, compressed ones too.
        let message = Message {
            flag: taken.flag,
            sys_flag: 0,
            born_timestamp: taken.born_timestamp,
            born_host: taken.born_host,
            reconsume_times: taken.reconsume_times,
            body: &taken.body,
        };
        let waits = taken.properties.waits();
        let put = self
            .need(waits)
            .and_then(|need| Ok((need, self.put(&taken.topic, taken.queue_id, &message, &mut taken.properties)?)));
        let (need, put) = match put {
            Ok(put) => put,
            Err(refusal) => {
                tracing::warn!(topic = taken.topic, remark = %refusal.remark, "a reply is not stored");
                return None;
            }
        };
        self.parts.store.dispatch();
        if !need.is_nothing() {
            // Late or not: the answer is the same.
            let _ = self.durable(need, put.appended.end).reached().await;
        }
        Some((IdText::of(self.message_id(put.appended.phys_offset)), put.appended.queue_offset))
    }
}

impl Way {
    /// Hands the reply over; the error is the remark that the sender of the reply gets.
    async fn hand_over(self) -> Result<(), String> {
        let (client, conn, command) = match self {
            Way::Open { client, conn, command } => (client, conn, command),
            Way::None(why) => {
                tracing::warn!("{why}");
                return Err(why);
            }
        };
        let why = match push::reply_message::call(&conn, command).await {
            Ok(answer) if answer.code == ResponseCode::SUCCESS.0 => return Ok(()),
            Ok(answer) => answer.remark.unwrap_or_else(|| format!("code {}", answer.code)),
            Err(error) => error.to_string(),
        };
        tracing::warn!(client, peer = %conn.client(), why, "a reply could not be handed over");
        Err(format!("push reply message to {client}fail."))
    }
}

/// `ip:port` as Java writes it: an IPv6 address in full and without brackets.
fn host_text(addr: SocketAddr) -> String {
    match addr.ip().to_canonical() {
        IpAddr::V4(ip) => format!("{ip}:{}", addr.port()),
        IpAddr::V6(ip) => {
            let groups = ip.segments().map(|group| format!("{group:x}"));
            format!("{}:{}", groups.join(":"), addr.port())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unconfirmed_replies_have_a_limit() {
        let all = Arc::default();
        let most = Waiting::admit(&all, UNCONFIRMED).unwrap();
        assert!(Waiting::admit(&all, 1).is_none());
        drop(most);
        assert!(Waiting::admit(&all, 1).is_some());
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn hosts_as_java_writes_them() {
        assert_eq!(host_text("127.0.0.1:10911".parse().unwrap()), "127.0.0.1:10911");
        assert_eq!(host_text("[::ffff:10.0.0.7]:1".parse().unwrap()), "10.0.0.7:1");
        assert_eq!(host_text("[::1]:80".parse().unwrap()), "0:0:0:0:0:0:0:1:80");
        assert_eq!(host_text("[2001:db8::ff]:80".parse().unwrap()), "2001:db8:0:0:0:0:0:ff:80");
    }
}
