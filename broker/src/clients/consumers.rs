//! Consumer groups that are connected: members, subscriptions, and notices when they change.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use config::{BrokerConfig, Live};
use parking_lot::{Mutex, RwLock};
use remoting::body::heartbeat::{ConsumeFromWhere, ConsumeType, ConsumerData, MessageModel, SubscriptionData};
use remoting::server::ConnHandle;

use super::{Client, Member};
use crate::filter::ConsumerFilters;
use crate::push::ids_changed;

/// The connected consumers.
///
/// A member is a connection. Invariant: a group is in the table exactly while it has members. Notices are sent after the
/// table's lock is released, in the order of the changes of one connection.
pub struct Consumers {
    config: Arc<Live<BrokerConfig>>,
    /// The expressions among the subscriptions; they outlive the groups' connections.
    filters: Arc<ConsumerFilters>,
    table: RwLock<Table>,
    /// Groups whose members are to be told at the next round (`realTimeNotifyConsumerChange=false`).
    waiting: Mutex<HashMap<String, Vec<ConnHandle>>>,
}

#[derive(Default)]
struct Table {
    groups: HashMap<String, Group>,
    /// The groups that a connection is a member of.
    by_conn: HashMap<u64, HashSet<String>>,
}

#[derive(Default)]
struct Group {
    members: BTreeMap<u64, Member>,
    subscriptions: HashMap<String, Arc<SubscriptionData>>,
    consume_type: Option<ConsumeType>,
    message_model: Option<MessageModel>,
    from_where: Option<ConsumeFromWhere>,
}

/// What a heartbeat says of a group's subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subscriptions {
    /// The heartbeat carries all of them.
    Given,
    /// They have not changed since the last heartbeat and are left out.
    Unchanged,
}

/// A connected group, for a pull.
#[derive(Clone, Debug)]
pub struct Found {
    /// How the group gets messages.
    pub consume_type: Option<ConsumeType>,
    /// Who of it gets a message.
    pub message_model: Option<MessageModel>,
    /// Its subscription to the topic.
    pub subscription: Option<Arc<SubscriptionData>>,
}

/// A connected group, for lists.
#[derive(Clone)]
pub struct Membership {
    /// The members.
    pub members: Vec<Member>,
    /// The subscriptions by topic.
    pub subscriptions: BTreeMap<String, Arc<SubscriptionData>>,
    /// How the group gets messages.
    pub consume_type: Option<ConsumeType>,
    /// Who of it gets a message.
    pub message_model: Option<MessageModel>,
    /// Where it starts.
    pub from_where: Option<ConsumeFromWhere>,
}

impl Consumers {
    /// Nobody is connected.
    pub fn new(config: Arc<Live<BrokerConfig>>, filters: Arc<ConsumerFilters>) -> Consumers {
        Consumers { config, filters, table: RwLock::default(), waiting: Mutex::default() }
    }

    /// Takes a group of a heartbeat. When the client is new in the group, or the topics have changed, all members are
    /// told (`notify`, and not when the group consumes by broadcast). Returns whether something has changed.
    pub fn register(
        &self,
        client: &Client,
        data: &ConsumerData,
        subscriptions: Subscriptions,
        notify: bool,
        now: i64,
    ) -> bool {
        let name = data.group_name.as_str();
        // Members that are told pull at once: the expressions must be there by then.
        if subscriptions == Subscriptions::Given {
            self.filters.register(name, &data.subscription_data_set);
        }
        let members = {
            let mut table = self.table.write();
            let id = client.conn.id();
            table.by_conn.entry(id).or_default().insert(name.to_owned());
            let group = table.groups.entry(name.to_owned()).or_default();
            group.consume_type = data.consume_type;
            group.message_model = data.message_model;
            group.from_where = data.consume_from_where;
            let joined = group.members.insert(id, Member { client: client.clone(), seen: now }).is_none();
            if joined {
                tracing::info!(group = name, client = client.id, peer = %client.conn.client(), "a consumer joined");
            }
            let topics_changed = subscriptions == Subscriptions::Given && group.subscribe(&data.subscription_data_set);
            if !joined && !topics_changed {
                return false;
            }
            (notify && !group.is_broadcast()).then(|| group.connections())
        };
        if let Some(members) = members {
            self.tell(name, members);
        }
        true
    }

    /// Takes a client out of a group at its own wish.
    pub fn unregister(&self, group: &str, conn: &ConnHandle, notify: bool) {
        let members = self.table.write().leave(group, conn.id());
        self.forget_filters(group);
        if let Some(members) = members.filter(|_| notify) {
            self.tell(group, members);
        }
    }

    /// Takes a connection that is gone out of all its groups and tells the other members.
    pub fn closed(&self, conn: &ConnHandle) {
        let changed: Vec<_> = {
            let mut table = self.table.write();
            let groups = table.by_conn.remove(&conn.id()).unwrap_or_default();
            groups.into_iter().map(|name| (table.leave(&name, conn.id()), name)).collect()
        };
        for (members, group) in changed {
            self.forget_filters(&group);
            if let Some(members) = members {
                self.tell(&group, members);
            }
        }
    }

    /// Takes out every membership without a heartbeat for `timeout` (ms), tells the other members, and returns the
    /// connections that lost one.
    pub fn expire(&self, now: i64, timeout: i64) -> Vec<ConnHandle> {
        let mut lost = Vec::new();
        let changed: Vec<_> = {
            let mut table = self.table.write();
            let silent: Vec<_> = table
                .groups
                .iter()
                .flat_map(|(name, group)| group.members.values().map(move |member| (name, member)))
                .filter(|(_, member)| member.is_expired(now, timeout))
                .map(|(name, member)| (name.clone(), member.client.conn.clone()))
                .collect();
            let mut changed = HashMap::new();
            for (name, conn) in silent {
                tracing::warn!(group = name, peer = %conn.client(), "a consumer sends no heartbeats any more");
                changed.insert(name.clone(), table.leave(&name, conn.id()));
                lost.push(conn);
            }
            changed.into_iter().collect()
        };
        for (group, members) in changed {
            self.forget_filters(&group);
            if let Some(members) = members {
                self.tell(&group, members);
            }
        }
        lost
    }

    /// The latest heartbeat of a connection in any group.
    pub fn last_seen(&self, conn: &ConnHandle) -> Option<i64> {
        let table = self.table.read();
        let groups = table.by_conn.get(&conn.id())?;
        groups.iter().filter_map(|name| table.groups.get(name)?.members.get(&conn.id()).map(|member| member.seen)).max()
    }

    /// The group and its subscription to a topic; `None` when no member is connected.
    pub fn find(&self, group: &str, topic: &str) -> Option<Found> {
        let table = self.table.read();
        let group = table.groups.get(group)?;
        Some(Found {
            consume_type: group.consume_type,
            message_model: group.message_model,
            subscription: group.subscriptions.get(topic).cloned(),
        })
    }

    /// A connected group's subscription to a topic.
    pub fn subscription(&self, group: &str, topic: &str) -> Option<Arc<SubscriptionData>> {
        self.table.read().groups.get(group)?.subscriptions.get(topic).cloned()
    }

    /// Whether any member of the group is connected.
    pub fn is_online(&self, group: &str) -> bool {
        self.table.read().groups.contains_key(group)
    }

    /// How many topics a connected group subscribes to.
    pub fn subscription_count(&self, group: &str) -> usize {
        self.table.read().groups.get(group).map_or(0, |group| group.subscriptions.len())
    }

    /// Everything about a connected group.
    pub fn membership(&self, group: &str) -> Option<Membership> {
        let table = self.table.read();
        let group = table.groups.get(group)?;
        Some(Membership {
            members: group.members.values().cloned().collect(),
            subscriptions: group.subscriptions.iter().map(|(topic, data)| (topic.clone(), data.clone())).collect(),
            consume_type: group.consume_type,
            message_model: group.message_model,
            from_where: group.from_where,
        })
    }

    /// Ids of the group's members; `None` when none is connected.
    pub fn client_ids(&self, group: &str) -> Option<Vec<String>> {
        let table = self.table.read();
        Some(table.groups.get(group)?.members.values().map(|member| member.client.id.clone()).collect())
    }

    /// The member with that id.
    pub fn client(&self, group: &str, client_id: &str) -> Option<Client> {
        let table = self.table.read();
        let mut members = table.groups.get(group)?.members.values();
        members.find(|member| member.client.id == client_id).map(|member| member.client.clone())
    }

    /// Connected groups that subscribe to a topic, sorted.
    pub fn groups_of(&self, topic: &str) -> Vec<String> {
        let table = self.table.read();
        let subscribed = table.groups.iter().filter(|(_, group)| group.subscriptions.contains_key(topic));
        let mut groups: Vec<_> = subscribed.map(|(name, _)| name.clone()).collect();
        groups.sort();
        groups
    }

    /// Names of all connected groups with the number of their members.
    pub fn counts(&self) -> Vec<(String, usize)> {
        self.table.read().groups.iter().map(|(name, group)| (name.clone(), group.members.len())).collect()
    }

    /// Sends the notices that were put off (`realTimeNotifyConsumerChange=false`).
    pub fn tell_waiting(&self) {
        for (group, members) in std::mem::take(&mut *self.waiting.lock()) {
            ids_changed::push(&group, &members);
        }
    }

    /// A group without members has left: its expressions are dead, until one comes back.
    fn forget_filters(&self, group: &str) {
        if !self.is_online(group) {
            self.filters.unregister(group);
        }
    }

    fn tell(&self, group: &str, members: Vec<ConnHandle>) {
        let config = self.config.load();
        if !config.notify_consumer_ids_changed_enable {
            return;
        }
        if config.real_time_notify_consumer_change {
            ids_changed::push(group, &members);
        } else {
            self.waiting.lock().insert(group.to_owned(), members);
        }
    }
}

impl Table {
    /// Removes a member. Returns the connections that stay, or `None` when it was no member or nobody is to be told:
    /// members that consume by broadcast do not share queues.
    fn leave(&mut self, name: &str, conn: u64) -> Option<Vec<ConnHandle>> {
        if let Some(groups) = self.by_conn.get_mut(&conn) {
            groups.remove(name);
            if groups.is_empty() {
                self.by_conn.remove(&conn);
            }
        }
        let group = self.groups.get_mut(name)?;
        let left = group.members.remove(&conn)?;
        tracing::info!(group = name, client = left.client.id, peer = %left.client.conn.client(), "a consumer left");
        let told = (!group.is_broadcast()).then(|| group.connections());
        if group.members.is_empty() {
            self.groups.remove(name);
        }
        told
    }
}

impl Group {
    fn is_broadcast(&self) -> bool {
        self.message_model == Some(MessageModel::Broadcasting)
    }

    fn connections(&self) -> Vec<ConnHandle> {
        self.members.values().map(|member| member.client.conn.clone()).collect()
    }

    /// Takes the subscriptions of a heartbeat. Returns whether topics came or went; a newer version of a known one is
    /// taken, but is no change of what the members share.
    fn subscribe(&mut self, given: &[SubscriptionData]) -> bool {
        let mut changed = false;
        for data in given {
            let old = self.subscriptions.get(&data.topic);
            changed |= old.is_none();
            if old.is_none_or(|old| data.sub_version > old.sub_version) {
                self.subscriptions.insert(data.topic.clone(), Arc::new(data.clone()));
            }
        }
        let before = self.subscriptions.len();
        self.subscriptions.retain(|topic, _| given.iter().any(|data| data.topic == *topic));
        changed || self.subscriptions.len() != before
    }
}
