//! The entries of a record in light queues.

use std::sync::Arc;

use super::{State, number};
use crate::error::StoreError;
use crate::lmq;
use crate::queue::Put;
use crate::queue::unit::{Entry, Unit};
use crate::record::RecordView;
use crate::record::properties::name;

impl State {
    /// Adds an entry to each light queue that the record names, at the offset that it says. Names without an offset are
    /// passed over.
    #[cold]
    pub(super) fn put_light(
        &mut self,
        phys: u64,
        record: &RecordView<'_>,
        tags_code: i64,
        follows: bool,
    ) -> Result<(), StoreError> {
        let properties = record.properties();
        let Some(names) = properties.get_bytes(name::INNER_MULTI_DISPATCH) else { return Ok(()) };
        let Some(offsets) = properties.get_bytes(name::INNER_MULTI_QUEUE_OFFSET) else { return Ok(()) };
        if !lmq::goes_on_from(record.topic_bytes()) {
            return Ok(());
        }
        let unit = Unit { phys: phys as i64, size: record.size() as i32, tags_code };
        for (name, offset) in lmq::pieces(names).zip(lmq::pieces(offsets)) {
            let Some(name) = lmq::queue_of(name) else { continue };
            let Some(offset) = number(offset).filter(|offset| *offset >= 0) else {
                tracing::warn!(phys, queue = name, "no possible place in a light queue: passed over");
                continue;
            };
            if follows && offset == 0 {
                self.begin_anew(name, lmq::QUEUE_ID, phys)?;
            }
            let queue = self.queues.get_or_create(name, lmq::QUEUE_ID);
            let entry = Entry { unit, offset, count: 1, store_timestamp: 0 };
            if queue.append(&entry, false, None)? == Put::Written {
                self.queues.note_dirty(&queue);
                if self.arrived.is_some() && queue.list() {
                    self.touched.push(Arc::clone(&queue));
                }
            }
        }
        Ok(())
    }
}
