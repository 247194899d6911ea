//! Sends to very many topics: what a message touches of its topic and queue is in no processor cache then, and each piece leads
//! to the next. The requests of a read wait for the pieces together, before the first of them is handled.

use remoting::Request;
use remoting::server::Known;
use store::segment::ask_for_all;

use super::{LOCAL, Sender};
use crate::topics::mark_of;

impl Sender {
    /// See [`AnyHandler::look_ahead`](remoting::server::AnyHandler::look_ahead); `names` are those of the fields of topic and
    /// queue id. Nothing is done while the thread sends to topics that it has.
    ///
    /// `known` becomes the hash of the topic's name and the queue id, then the place of the topic among the thread's own.
    pub(crate) fn look_ahead(&self, request: &Request<'_>, names: [&str; 2], step: usize, known: &mut Known) -> bool {
        if step == 0 {
            let field = |name| request.fields.get(name).and_then(|text| text.as_plain());
            let Some(topic) = field(names[0]) else { return false };
            let here = LOCAL.with_borrow_mut(|local| local.targets.find(self.owner, self.generation(), topic));
            if here.is_some() {
                return false;
            }
            let mark = mark_of(topic);
            self.parts.topics.ask_where(mark);
            let id = field(names[1]).and_then(|id| id.parse().ok()).unwrap_or(0);
            *known = Some((mark, id));
            return true;
        }
        let Some((place, id)) = *known else { return false };
        if step == 1 {
            return self.parts.topics.ask_for(place);
        }
        LOCAL.with_borrow_mut(|local| {
            if step > 2 {
                // It may be another topic's meanwhile, when a later request has pushed this one out.
                if let Some(seat) = local.targets.peek(place as usize).and_then(|topic| topic.seats.known(id)) {
                    seat.queue.ask_for();
                }
                return false;
            }
            let generation = self.generation();
            let topic = self.parts.topics.marked(place).filter(|topic| topic.seats.sendable);
            let Some(topic) = topic else {
                *known = None;
                return false;
            };
            ask_for_all(&*topic.stats);
            topic.topic_name.as_bytes().first().into_iter().for_each(ask_for_all);
            if let Some(seat) = topic.seats.known(id) {
                ask_for_all(seat.latency(&topic.stats));
                ask_for_all(&*seat.queue);
            }
            *known = Some((self.keep(&mut local.targets, topic, generation) as u64, id));
            true
        })
    }
}
