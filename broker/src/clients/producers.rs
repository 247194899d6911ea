//! Producer groups that are connected: for lists, transaction checks and replies.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use config::{BrokerConfig, Live};
use parking_lot::RwLock;
use remoting::server::ConnHandle;

use super::{Client, Member};

/// The connected producers. A member is a connection; a group is in the table exactly while it has members.
pub struct Producers {
    config: Arc<Live<BrokerConfig>>,
    table: RwLock<Table>,
    /// Spreads [`Producers::available`] over a group's members.
    turn: AtomicUsize,
}

#[derive(Default)]
struct Table {
    groups: HashMap<String, BTreeMap<u64, Member>>,
    by_conn: HashMap<u64, HashSet<String>>,
    by_client: HashMap<String, ConnHandle>,
}

impl Producers {
    /// Nobody is connected.
    pub fn new(config: Arc<Live<BrokerConfig>>) -> Producers {
        Producers { config, table: RwLock::default(), turn: AtomicUsize::new(0) }
    }

    /// Takes a group of a heartbeat.
    pub fn register(&self, group: &str, client: &Client, now: i64) {
        let id = client.conn.id();
        let mut table = self.table.write();
        if let Some(member) = table.groups.get_mut(group).and_then(|members| members.get_mut(&id)) {
            member.seen = now;
            return;
        }
        let config = self.config.load();
        if !config.enable_register_producer && config.reject_transaction_message {
            return;
        }
        tracing::info!(group, client = client.id, peer = %client.conn.client(), "a producer joined");
        let member = Member { client: client.clone(), seen: now };
        table.groups.entry(group.to_owned()).or_default().insert(id, member);
        table.by_conn.entry(id).or_default().insert(group.to_owned());
        table.by_client.insert(client.id.clone(), client.conn.clone());
    }

    /// Takes a client out of a group at its own wish.
    pub fn unregister(&self, group: &str, conn: &ConnHandle) {
        self.table.write().leave(group, conn.id());
    }

    /// Takes a connection that is gone out of all its groups.
    pub fn closed(&self, conn: &ConnHandle) {
        let mut table = self.table.write();
        for group in table.by_conn.remove(&conn.id()).unwrap_or_default() {
            table.leave(&group, conn.id());
        }
    }

    /// Takes out every membership without a heartbeat for `timeout` (ms), and returns the connections that lost one.
    pub fn expire(&self, now: i64, timeout: i64) -> Vec<ConnHandle> {
        let mut table = self.table.write();
        let silent: Vec<_> = table
            .groups
            .iter()
            .flat_map(|(name, members)| members.values().map(move |member| (name, member)))
            .filter(|(_, member)| member.is_expired(now, timeout))
            .map(|(name, member)| (name.clone(), member.client.conn.clone()))
            .collect();
        for (group, conn) in &silent {
            tracing::warn!(group, peer = %conn.client(), "a producer sends no heartbeats any more");
            table.leave(group, conn.id());
        }
        silent.into_iter().map(|(_, conn)| conn).collect()
    }

    /// The latest heartbeat of a connection in any group.
    pub fn last_seen(&self, conn: &ConnHandle) -> Option<i64> {
        let table = self.table.read();
        let groups = table.by_conn.get(&conn.id())?;
        groups.iter().filter_map(|name| table.groups.get(name)?.get(&conn.id()).map(|member| member.seen)).max()
    }

    /// The connection of the producer with that id (request-reply).
    pub fn find(&self, client_id: &str) -> Option<ConnHandle> {
        self.table.read().by_client.get(client_id).cloned()
    }

    /// Any connected member of a group, each in turn.
    pub fn available(&self, group: &str) -> Option<ConnHandle> {
        let table = self.table.read();
        let members = table.groups.get(group)?;
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % members.len().max(1);
        let mut in_turn = members.values().cycle().skip(first).take(members.len());
        in_turn.find(|member| member.client.conn.is_open()).map(|member| member.client.conn.clone())
    }

    /// The members of a group; `None` when none is connected.
    pub fn members(&self, group: &str) -> Option<Vec<Member>> {
        Some(self.table.read().groups.get(group)?.values().cloned().collect())
    }

    /// All groups with their members.
    pub fn all(&self) -> BTreeMap<String, Vec<Member>> {
        let table = self.table.read();
        table.groups.iter().map(|(name, members)| (name.clone(), members.values().cloned().collect())).collect()
    }
}

impl Table {
    fn leave(&mut self, name: &str, conn: u64) {
        if let Some(groups) = self.by_conn.get_mut(&conn) {
            groups.remove(name);
            if groups.is_empty() {
                self.by_conn.remove(&conn);
            }
        }
        let Some(members) = self.groups.get_mut(name) else { return };
        let Some(left) = members.remove(&conn) else { return };
        if members.is_empty() {
            self.groups.remove(name);
        }
        tracing::info!(group = name, client = left.client.id, peer = %left.client.conn.client(), "a producer left");
        if self.by_client.get(&left.client.id).is_some_and(|found| found.id() == conn)
            && !self.by_conn.contains_key(&conn)
        {
            self.by_client.remove(&left.client.id);
        }
    }
}
