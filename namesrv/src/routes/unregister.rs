//! How brokers leave: by their own request, with their connection, or by silence.
//!
//! Java queues these and handles the queue in batches, because each batch goes through every topic. Here the topics of a
//! broker are known, so each is handled at once; and nothing that was decided earlier can hit a later registration.

use std::sync::Arc;

use remoting::body::topic::PERM_WRITE;

use super::brokers::{Brokers, Instance, MASTER_ID};
use super::{Members, MinIdChange, Routes};

impl Routes {
    /// Removes an instance as its broker asks (UNREGISTER_BROKER). An address that the broker name does not have leaves the
    /// route as it is.
    pub fn unregister(&self, instance: &Instance, broker: &str, id: i64, notify: bool) {
        let mut members = self.writer.lock();
        self.live.remove(instance);
        self.leave(&mut members, instance, broker, id, notify);
    }

    /// Removes the instances that registered on a connection which is gone. An instance that has registered again on
    /// another connection stays.
    pub fn connection_closed(&self, link: u64, notify: bool) {
        for (instance, entry) in self.live.select(|entry| entry.link.id() == link) {
            let mut members = self.writer.lock();
            if self.live.remove_if(&instance, &entry, |_| true) {
                tracing::warn!(addr = instance.addr, cluster = instance.cluster, "the broker's connection is gone");
                self.leave_by_address(&mut members, &instance, notify);
            }
        }
    }

    /// Whether any instance registered on this connection.
    pub fn has_registered(&self, link: u64) -> bool {
        !self.live.select(|entry| entry.link.id() == link).is_empty()
    }

    /// Removes the instances that were silent for too long and closes their connections.
    pub fn expire(&self, notify: bool) {
        for (instance, entry) in self.live.select(|entry| self.live.is_expired(entry)) {
            let mut members = self.writer.lock();
            if self.live.remove_if(&instance, &entry, |entry| self.live.is_expired(entry)) {
                tracing::warn!(
                    addr = instance.addr,
                    cluster = instance.cluster,
                    timeout_millis = entry.timeout_millis,
                    "the broker was silent for too long"
                );
                self.leave_by_address(&mut members, &instance, notify);
                drop(members);
                entry.link.close();
            }
        }
    }

    fn leave_by_address(&self, members: &mut Members, instance: &Instance, notify: bool) {
        let brokers = self.brokers.load_full();
        let found = brokers.by_name.iter().filter(|(_, broker)| broker.cluster == instance.cluster).find_map(
            |(name, broker)| {
                let id = broker.addrs.iter().find(|(_, addr)| **addr == instance.addr).map(|(id, _)| *id)?;
                Some((name, id))
            },
        );
        match found {
            Some((name, id)) => self.leave(members, instance, name, id, notify),
            None => self.drop_filters(instance),
        }
    }

    fn drop_filters(&self, instance: &Instance) {
        let mut brokers = self.brokers.load().edit();
        brokers.filters.remove(instance);
        self.publish(brokers);
    }

    /// Takes an instance out of its broker name, and the name out of the tables with its last instance.
    fn leave(&self, members: &mut Members, instance: &Instance, name: &str, id: i64, notify: bool) {
        let mut brokers = self.brokers.load().edit();
        brokers.filters.remove(instance);
        let Some(broker) = brokers.broker_mut(name) else {
            self.publish(brokers);
            return;
        };
        let was_least = broker.min_id() == Some(id);
        broker.addrs.retain(|_, addr| *addr != instance.addr);
        let (addrs, acting_master) = (broker.addrs.clone(), broker.acting_master);
        if addrs.is_empty() {
            remove_name(&mut brokers, &instance.cluster, name);
            for topic in members.0.remove(name).into_iter().flatten() {
                self.topics.remove_queue(&topic, name);
            }
            tracing::info!(broker = name, "the broker is gone");
        } else if acting_master && !addrs.contains_key(&MASTER_ID) {
            // Nobody takes messages until a master is back; the least slave may act as one for reading.
            self.wipe_write(members, name);
        }
        let notify = notify && was_least && acting_master && !addrs.is_empty();
        self.publish(brokers);
        if notify {
            let offline_addr = Some(instance.addr.clone());
            (self.min_id_changed)(MinIdChange { addrs, offline_addr, ha_addr: None });
        }
    }

    /// Takes write permission from every topic of a broker name; returns how many there are.
    pub(super) fn wipe_write(&self, members: &Members, name: &str) -> usize {
        self.set_perm(members, name, |perm| perm & !PERM_WRITE)
    }

    /// Changes the permission of every topic of a broker name; returns how many there are.
    pub(super) fn set_perm(&self, members: &Members, name: &str, perm: impl Fn(i32) -> i32) -> usize {
        let topics: Vec<Arc<str>> = members.of(name).cloned().collect();
        for topic in &topics {
            let Some(entry) = self.topics.find(topic) else { continue };
            let Some(queue) = entry.queue(name) else { continue };
            let changed = perm(queue.perm);
            if changed != queue.perm {
                let mut queue = queue.clone();
                queue.perm = changed;
                self.topics.put_queue(topic, queue);
            }
        }
        topics.len()
    }
}

fn remove_name(brokers: &mut Brokers, cluster: &str, name: &str) {
    brokers.by_name.remove(name);
    if let Some(names) = brokers.clusters.get_mut(cluster) {
        names.remove(name);
        if names.is_empty() {
            brokers.clusters.remove(cluster);
        }
    }
}
