//! Sends to very many topics: what a message touches of its topic and queue is in no processor cache then, and each piece leads
//! to the next. The requests of a read wait for the pieces together, before the first of them is handled.

use remoting::Request;
use store::segment::ask_for_all;

use super::{LOCAL, Sender};

impl Sender {
    /// See [`AnyHandler::look_ahead`](remoting::server::AnyHandler::look_ahead); `names` are those of the fields of topic and
    /// queue id. Nothing is done while the thread sends to topics that it has.
    pub(crate) fn look_ahead(&self, request: &Request<'_>, names: [&str; 2], step: usize) -> bool {
        let [topic, id] = names.map(|name| request.fields.get(name).and_then(|text| text.as_plain()));
        let Some(name) = topic else { return false };
        let generation = self.generation();
        LOCAL.with_borrow_mut(|local| {
            let known = local.targets.find(self.owner, generation, name);
            if step == 0 {
                let topics = &self.parts.topics;
                let strange = known.is_none().then(|| topics.get(name)).flatten();
                let Some(topic) = strange.filter(|topic| topic.seats.sendable) else { return false };
                ask_for_all(&*topic);
                self.keep(&mut local.targets, topic, name, generation);
                return true;
            }
            let Some(at) = known else { return false };
            let topic = &local.targets.get(at).topic;
            let Some(seat) = id.and_then(|id| topic.seats.known(id.parse().ok()?)) else { return false };
            match step {
                1 => {
                    ask_for_all(&*topic.stats);
                    ask_for_all(seat.latency(&topic.stats));
                    ask_for_all(&*seat.queue);
                }
                _ => seat.queue.ask_for(),
            }
            step == 1
        })
    }
}
