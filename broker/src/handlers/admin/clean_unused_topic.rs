//! CLEAN_UNUSED_TOPIC (316): an administrator removes the queues of topics that the broker does not know.

use std::sync::Arc;

use config::{BrokerConfig, Live};
use remoting::Reply;
use remoting::header::Empty;
use remoting::server::{Cx, Handler, Outcome};
use store::Store;

use crate::names;
use crate::stats::Stats;
use crate::topics::TopicTable;

/// Removes what the store holds of topics that are not in the table, except the system's and light queues.
pub struct CleanUnusedTopic {
    /// The broker's keys.
    pub config: Arc<Live<BrokerConfig>>,
    /// Topics.
    pub topics: Arc<TopicTable>,
    /// Counters.
    pub stats: Arc<Stats>,
    /// Messages.
    pub store: Arc<Store>,
}

impl Handler for CleanUnusedTopic {
    type Request<'a> = Empty;

    fn handle(&self, cx: &mut Cx<'_>, _: Empty) -> Outcome {
        let drop_stats = self.config.load().auto_delete_unused_stats;
        let mut topics = 0;
        // The store's list first: a topic is in the table before it has a queue.
        for topic in self.store.topics_with_files() {
            let kept = self.topics.contains(&topic)
                || self.topics.system.contains(&topic)
                || topic.starts_with(names::LMQ_PREFIX);
            if kept {
                continue;
            }
            self.store.delete_topic(&topic);
            if drop_stats {
                self.stats.remove_topic(&topic);
            }
            topics += 1;
        }
        tracing::info!(topics, peer = %cx.conn().client(), "queues of unknown topics are deleted");
        Reply::ok().into()
    }
}
