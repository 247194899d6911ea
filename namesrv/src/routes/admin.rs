//! What tools change and list.

use std::collections::BTreeSet;

use remoting::body::broker_member::BrokerMemberGroup;
use remoting::body::route::QueueData;
use remoting::body::topic::{FLAG_UNIT, FLAG_UNIT_SUB, PERM_READ, PERM_WRITE};
use remoting::body::topic_list::TopicList;

use super::Routes;
use super::topics::Topic;

impl Routes {
    /// Takes write permission from all topics of a broker, until a registration of a higher version; returns how many.
    pub fn wipe_write_perm(&self, broker: &str) -> usize {
        let members = self.writer.lock();
        self.wipe_write(&members, broker)
    }

    /// Gives all topics of a broker read and write permission; returns how many there are.
    pub fn add_write_perm(&self, broker: &str) -> usize {
        let members = self.writer.lock();
        self.set_perm(&members, broker, |_| PERM_READ | PERM_WRITE)
    }

    /// Removes a topic until a broker that has it registers next.
    pub fn delete_topic(&self, topic: &str) {
        let mut members = self.writer.lock();
        let Some(entry) = self.topics.remove(topic) else { return };
        for queue in &entry.queues {
            members.remove(&queue.broker_name, topic);
        }
        self.live.forget_all(None);
    }

    /// Removes the queues of a topic on the brokers of a cluster.
    pub fn delete_topic_in_cluster(&self, topic: &str, cluster: &str) {
        let mut members = self.writer.lock();
        let brokers = self.brokers.load();
        for broker in brokers.clusters.get(cluster).into_iter().flatten() {
            if self.topics.remove_queue(topic, broker).is_some() {
                members.remove(broker, topic);
            }
        }
        self.live.forget_all(None);
    }

    /// Enters queues of a topic on behalf of brokers. Ends at the first broker that is not known; a new topic is then not
    /// entered at all, a known one keeps what was entered before, as in Java.
    pub fn register_topic(&self, topic: &str, queues: Vec<QueueData>) {
        let mut members = self.writer.lock();
        let brokers = self.brokers.load();
        let known = |queue: &QueueData| brokers.by_name.contains_key(&queue.broker_name);
        if self.topics.find(topic).is_none() && !queues.iter().all(known) {
            return;
        }
        for queue in queues {
            if !known(&queue) {
                tracing::warn!(topic, broker = queue.broker_name, "topic registered for an unknown broker");
                break;
            }
            let broker = queue.broker_name.clone();
            let name = self.topics.put_queue(topic, queue);
            members.add(&broker, name);
        }
        self.live.forget_all(None);
    }

    /// Makes every broker's next registration be read in full: how registrations are taken has changed.
    pub fn forget_seen(&self) {
        self.live.forget_all(None);
    }

    /// All topics.
    pub fn all_topics(&self) -> TopicList {
        list(self.topics.names(|_| true))
    }

    /// The topics of the brokers of a cluster.
    pub fn topics_of_cluster(&self, cluster: &str) -> TopicList {
        let brokers = self.brokers.load();
        let empty = BTreeSet::new();
        let names = brokers.clusters.get(cluster).unwrap_or(&empty);
        list(self.topics.names(|topic| topic.queues.iter().any(|queue| names.contains(&queue.broker_name))))
    }

    /// Clusters and brokers: a broker has a topic of each of these names. With the address of some broker.
    pub fn system_topics(&self) -> TopicList {
        let brokers = self.brokers.load();
        let names: BTreeSet<&String> =
            brokers.clusters.iter().flat_map(|(cluster, names)| std::iter::once(cluster).chain(names)).collect();
        let broker_addr = brokers.by_name.values().find_map(|broker| broker.addrs.values().next().cloned());
        TopicList { broker_addr, topic_list: names.into_iter().cloned().collect() }
    }

    /// Topics of a unit.
    pub fn unit_topics(&self) -> TopicList {
        list(self.topics.names(|topic| flags(topic) & FLAG_UNIT != 0))
    }

    /// Topics that consumers of a unit read.
    pub fn unit_sub_topics(&self) -> TopicList {
        list(self.topics.names(|topic| flags(topic) & FLAG_UNIT_SUB != 0))
    }

    /// Topics of no unit that consumers of a unit read.
    pub fn unit_sub_ununit_topics(&self) -> TopicList {
        list(self.topics.names(|topic| flags(topic) & (FLAG_UNIT | FLAG_UNIT_SUB) == FLAG_UNIT_SUB))
    }

    /// The members of a broker name; none when it is not known.
    pub fn member_group(&self, cluster: Option<&str>, name: Option<&str>) -> BrokerMemberGroup {
        let brokers = self.brokers.load();
        let broker = name.and_then(|name| brokers.by_name.get(name));
        BrokerMemberGroup {
            broker_addrs: broker.map(|broker| broker.addrs.clone()).unwrap_or_default(),
            broker_name: name.map(str::to_owned),
            cluster: cluster.map(str::to_owned),
        }
    }
}

fn list(topic_list: Vec<String>) -> TopicList {
    TopicList { broker_addr: None, topic_list }
}

/// The flags of the first broker count for the topic.
fn flags(topic: &Topic) -> i32 {
    topic.queues.first().map_or(0, |queue| queue.topic_sys_flag)
}
