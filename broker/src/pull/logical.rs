//! Pulls of logical queues of static topics: of an item that is ours as any other pull, of the others through the broker
//! that has them.

use std::borrow::Cow;
use std::sync::Arc;

use remoting::header::{PullMessage, PullMessageResponse};
use remoting::server::Outcome;
use remoting::{Command, Reply, RequestCode, ResponseCode};

use super::Puller;
use super::answer::Page;
use super::ask::{Ask, COMMIT, SUSPEND};
use crate::static_topics::{Mapping, PeerError, PulledItem, Seen};

/// A pull of a logical queue that waits at one of our queues.
pub(super) struct LogicalWait {
    id: i32,
    /// The offset that the client asked for, of the logical queue.
    offset: i64,
    item: PulledItem,
}

impl LogicalWait {
    pub(super) fn item(&self) -> &PulledItem {
        &self.item
    }
}

/// A pull of a logical queue, before it becomes one of a broker's queue.
pub(super) enum Turned {
    /// One of ours.
    Ours(LogicalWait),
    /// Not one of ours, or none at all.
    Done(Outcome),
}

impl Puller {
    /// Turns a pull of a logical queue into one of the queue that holds its offset.
    pub(super) fn turn(&self, ask: &mut Ask<'_>, header: &PullMessage<'_>, mapping: Arc<Mapping>) -> Turned {
        let (id, offset) = (ask.queue_id, ask.offset);
        let item = match PulledItem::find(mapping, id, offset) {
            Ok(item) => item,
            Err((code, remark)) => return Turned::Done(Reply::error(code, remark).into()),
        };
        ask.queue_id = item.item().queue_id;
        ask.offset = item.item().physical(offset);
        ask.max_messages = item.most(ask.max_messages);
        if !item.is_ours() {
            return Turned::Done(self.pass_on(ask, header, item));
        }
        // Java stores the logical offset for the broker's queue: after a move it is far behind the queue's end.
        match item.committed(ask.commit_offset) {
            Some(offset) => ask.commit_offset = offset,
            None => ask.sys_flag &= !COMMIT,
        }
        Turned::Ours(LogicalWait { id, offset, item })
    }

    /// Fetches the messages from the broker that has them.
    fn pass_on(&self, ask: &Ask<'_>, header: &PullMessage<'_>, item: PulledItem) -> Outcome {
        let broker = item.item().bname.clone().unwrap_or_default();
        let asked = PullMessage {
            lo: Some(false),
            bname: Some(Cow::Borrowed(&broker)),
            queue_id: ask.queue_id,
            queue_offset: ask.offset,
            max_msg_nums: ask.max_messages,
            sys_flag: ask.sys_flag & !(SUSPEND | COMMIT),
            ..header.clone()
        };
        let command = Command::request(RequestCode::PULL_MESSAGE).header(&asked);
        let (peers, offset) = (self.parts.peers.clone(), ask.offset);
        Outcome::Later(Box::pin(async move {
            match peers.call(&broker, command).await.and_then(|answer| passed_back(&broker, &item, offset, answer)) {
                Ok(reply) => reply,
                Err(PeerError::Code(_)) => {
                    let remark = "org.apache.rocketmq.remoting.rpc.RpcException: unexpected remote response code";
                    Reply::error(ResponseCode::SYSTEM_ERROR, remark)
                }
                Err(error) => Reply::error(ResponseCode::SYSTEM_ERROR, error.to_string()),
            }
        }))
    }

    /// What a page of the item's queue is for whoever waited for the logical queue; none when the queue has moved in the
    /// meantime.
    pub(super) fn revisit(&self, wait: &LogicalWait, offset: i64, page: &mut Page) -> Result<(), Reply> {
        let topic = wait.item.topic();
        let Some(mapping) = self.parts.static_topics.find(topic, None) else {
            page.see(&wait.item, offset);
            return Ok(());
        };
        match PulledItem::find(mapping, wait.id, wait.offset) {
            Err((code, remark)) => Err(Reply::error(code, remark)),
            Ok(now) if now.is_same(&wait.item) => {
                page.see(&now, offset);
                Ok(())
            }
            // It is in another item now: the client asks again, and is told where.
            Ok(_) => {
                page.ask_again(wait.offset);
                Ok(())
            }
        }
    }
}

/// Turns the answer of the broker that has the item into ours.
fn passed_back(broker: &str, item: &PulledItem, offset: i64, answer: Command) -> Result<Reply, PeerError> {
    let code = ResponseCode(answer.code);
    const READ: [ResponseCode; 4] = [
        ResponseCode::SUCCESS,
        ResponseCode::PULL_NOT_FOUND,
        ResponseCode::PULL_RETRY_IMMEDIATELY,
        ResponseCode::PULL_OFFSET_MOVED,
    ];
    if !READ.contains(&code) {
        return Err(PeerError::Code(answer.code));
    }
    let field = |name: &str| answer.get(name).and_then(|text| text.parse::<i64>().ok());
    let needed = |name: &str| field(name).ok_or_else(|| PeerError::Unreadable(broker.to_owned()));
    let flags = |name: &str| field(name).and_then(|flags| i32::try_from(flags).ok());
    let (next, min, max) = (needed("nextBeginOffset")?, needed("minOffset")?, needed("maxOffset")?);
    let theirs = Seen { code, next, min, max, delta: 0 };
    let seen = item.see(offset, theirs);
    let header = PullMessageResponse {
        suggest_which_broker_id: needed("suggestWhichBrokerId")?,
        next_begin_offset: seen.next,
        min_offset: seen.min,
        max_offset: seen.max,
        offset_delta: Some(seen.delta),
        topic_sys_flag: flags("topicSysFlag"),
        group_sys_flag: flags("groupSysFlag"),
        forbidden_type: flags("forbiddenType"),
    };
    let reply = Reply::code(seen.code).header(&header);
    Ok(match code {
        ResponseCode::SUCCESS => reply.remark("").body(answer.body),
        _ => reply,
    })
}
