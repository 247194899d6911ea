//! QUERY_CORRECTION_OFFSET (308): the offsets that all groups have consumed up to, for a group that has gone astray.

use std::collections::BTreeMap;
use std::sync::Arc;

use remoting::body::offset_table::CorrectionOffsets;
use remoting::header::QueryCorrectionOffset;
use remoting::server::{Cx, Handler, Outcome};
use store::Store;

use crate::handlers::json;
use crate::offsets::Offsets;

/// Answers with the least offset of any group in each queue; the greatest number where the compared group has less.
pub struct CorrectionOffset {
    offsets: Arc<Offsets>,
    store: Arc<Store>,
}

impl CorrectionOffset {
    /// The handler.
    pub fn new(offsets: Arc<Offsets>, store: Arc<Store>) -> CorrectionOffset {
        CorrectionOffset { offsets, store }
    }

    /// Offsets before the queue's begin do not count. Java forgets the offsets of the groups that are left out, as well as
    /// leaving them out; a query that loses offsets helps nobody.
    fn least(&self, topic: &str, left_out: &str) -> BTreeMap<i32, i64> {
        let mut least = BTreeMap::new();
        for group in self.offsets.groups_of(topic) {
            if left_out.split(',').any(|name| name == group) {
                continue;
            }
            for (id, offset) in self.offsets.queues(&group, topic).unwrap_or_default() {
                if offset >= self.store.queue(topic, id).map_or(0, |queue| queue.min_offset()) {
                    let known = least.entry(id).or_insert(offset);
                    *known = offset.min(*known);
                }
            }
        }
        least
    }
}

impl Handler for CorrectionOffset {
    type Request<'a> = QueryCorrectionOffset<'a>;

    fn handle(&self, _: &mut Cx<'_>, request: Self::Request<'_>) -> Outcome {
        let topic = request.topic.as_ref();
        let mut offsets = self.least(topic, request.filter_groups.as_deref().unwrap_or_default());
        for (id, compared) in self.offsets.queues(&request.compare_group, topic).unwrap_or_default() {
            if let Some(offset) = offsets.get_mut(&id).filter(|offset| **offset > compared) {
                *offset = i64::MAX;
            }
        }
        json(&CorrectionOffsets { correction_offsets: offsets }).into()
    }
}
