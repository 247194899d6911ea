//! Counts what a slave copies as what it has stored, as Java does: `putTps` and the totals of `mqadmin brokerStatus`.

use std::sync::Arc;

use store::Store;
use store::record::{RecordView, sys_flag};

use crate::send::properties::Known;
use crate::stats::Stats;

/// Goes behind the log's end, once a second: the records that it looks at have just been copied.
pub struct Tally {
    store: Arc<Store>,
    stats: Arc<Stats>,
    at: u64,
}

impl Tally {
    /// Counts what is copied from now on.
    pub fn new(store: Arc<Store>, stats: Arc<Stats>) -> Tally {
        let at = store.wrote().get();
        Tally { store, stats, at }
    }

    /// Counts what has come since the last call.
    pub fn count(&mut self) {
        let end = self.store.wrote().get();
        if end <= self.at {
            return;
        }
        let (mut messages, mut bytes) = (0, 0);
        let mut walk = self.store.log().walk(self.at);
        while let Some((at, view)) = walk.next_record() {
            if at >= end {
                break;
            }
            messages += inner(&view);
            bytes += view.size() as u64;
            self.at = at + view.size() as u64;
        }
        // Blanks between files, or a gap that was passed over.
        self.at = self.at.max(end);
        self.stats.puts.add([messages, bytes]);
    }
}

/// Messages in a record.
fn inner(view: &RecordView<'_>) -> u64 {
    if view.sys_flag() & sys_flag::INNER_BATCH == 0 {
        return 1;
    }
    view.properties().get(Known::InnerNum.name()).and_then(|number| number.parse().ok()).unwrap_or(1)
}
