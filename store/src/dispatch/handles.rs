//! Handles of the queues that records are for, without a look into the table of all queues.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::lmq::is_lmq;
use crate::queue::{ByMark, Queue, QueueTable, mark};
use crate::record::RecordView;

/// With fewer handles nothing is looked for that was deleted.
const FEW: usize = 1024;

/// Handles of all queues that records were for, by a hash of topic and id. Of queues with the same hash it has one.
pub(super) struct Kept {
    by_mark: ByMark<Arc<Queue>>,
    /// With more of them those go whose topic was deleted.
    most: usize,
    /// The last light queue: these come and go, and are forgotten when nobody holds them.
    light: Option<Arc<Queue>>,
}

impl Kept {
    pub(super) fn new() -> Kept {
        Kept { by_mark: ByMark::default(), most: FEW, light: None }
    }

    /// The queue of a record, made when it is not there.
    pub(super) fn queue(&mut self, queues: &QueueTable, record: &RecordView<'_>) -> &Arc<Queue> {
        let (topic, id) = (record.topic_bytes(), record.queue_id());
        let find = || {
            let topic = String::from_utf8_lossy(topic);
            (is_lmq(&topic), queues.get_or_create(&topic, id))
        };
        let mark = mark(topic, id);
        if self.by_mark.len() > self.most {
            self.by_mark.retain(|_, queue| !queue.is_deleted());
            self.most = FEW.max(2 * self.by_mark.len());
        }
        match self.by_mark.entry(mark) {
            Entry::Occupied(mut kept) => {
                let queue = kept.get();
                if queue.id() != id || queue.topic().as_bytes() != topic || queue.is_deleted() {
                    match find() {
                        (true, light) => return self.light.insert(light),
                        (false, queue) => kept.insert(queue),
                    };
                }
                kept.into_mut()
            }
            Entry::Vacant(place) => match find() {
                (true, light) => self.light.insert(light),
                (false, queue) => place.insert(queue),
            },
        }
    }
}
