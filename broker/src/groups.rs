//! The consumer groups of this broker and their settings: `config/subscriptionGroup.json`.
//!
//! Readers take a shared lock for one hash lookup and keep the [`Arc`]. Invariant: when a change returns it is on disk.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use config::{BrokerConfig, Live};
use parking_lot::{Mutex, RwLock};
use remoting::body::fastjson;
use remoting::body::subscription_group::{SubscriptionGroupConfig, SubscriptionGroupTable};
use remoting::body::topic::DataVersion;
use store::StoreError;
use store::lmq::is_lmq;

use crate::attributes::{self, AttributeError};
use crate::config_file::{ConfigFile, encode, off_worker};
use crate::names;

/// All consumer groups of the broker.
pub struct Groups {
    config: Arc<Live<BrokerConfig>>,
    table: RwLock<Table>,
    file: ConfigFile,
    /// The last change that is on disk.
    saved: Mutex<u64>,
    changes: AtomicU64,
    /// With `enableLmq` every group whose name begins like a light queue's exists, without being in the table.
    light: bool,
}

#[derive(Default)]
struct Table {
    groups: HashMap<String, Arc<SubscriptionGroupConfig>>,
    /// Bits that forbid a group a topic; bit 0 forbids reading.
    forbidden: BTreeMap<String, BTreeMap<String, i32>>,
    version: DataVersion,
}

impl Groups {
    /// Makes the groups that every broker has, and loads the others from `dir` (`config/` of the store).
    ///
    /// # Errors
    /// The file and its backup are damaged.
    pub fn load(dir: &Path, config: Arc<Live<BrokerConfig>>) -> Result<Groups, StoreError> {
        let file = ConfigFile::new(dir.join("subscriptionGroup.json"));
        let loaded = file
            .load_or_refuse(|bytes| {
                fastjson::from_slice::<SubscriptionGroupTable>(bytes).map_err(|error| error.to_string())
            })?
            .unwrap_or_else(|| SubscriptionGroupTable { data_version: DataVersion::new(), ..Default::default() });
        let mut table = Table { forbidden: loaded.forbidden_table, version: loaded.data_version, ..Table::default() };
        for name in names::STANDING_GROUPS {
            table.groups.insert(name.to_owned(), Arc::new(SubscriptionGroupConfig::named(name)));
        }
        for (name, mut group) in loaded.subscription_group_table {
            group.group_name = Some(name.clone());
            table.groups.insert(name, Arc::new(group));
        }
        Ok(Groups {
            config,
            table: RwLock::new(table),
            file,
            saved: Mutex::new(0),
            changes: AtomicU64::new(0),
            light: false,
        })
    }

    /// With light groups (`enableLmq`), which nobody makes or changes.
    pub fn with_light(mut self, light: bool) -> Groups {
        self.light = light;
        self
    }

    fn is_light(&self, name: &str) -> bool {
        self.light && is_lmq(name)
    }

    /// The group when it exists; nothing is made.
    pub fn get(&self, name: &str) -> Option<Arc<SubscriptionGroupConfig>> {
        if self.is_light(name) {
            return Some(Arc::new(SubscriptionGroupConfig::named(name)));
        }
        self.table.read().groups.get(name).cloned()
    }

    /// Whether the group exists.
    pub fn contains(&self, name: &str) -> bool {
        self.is_light(name) || self.table.read().groups.contains_key(name)
    }

    /// The group, made with default settings when it does not exist and may be made on the fly
    /// (`autoCreateSubscriptionGroup`, a legal name).
    pub fn find_or_create(&self, name: &str) -> Option<Arc<SubscriptionGroupConfig>> {
        if let Some(group) = self.get(name) {
            return Some(group);
        }
        let config = self.config.load();
        let system = config.enable_create_sys_group && name.starts_with(names::SYSTEM_GROUP_PREFIX);
        if !config.auto_create_subscription_group && !system {
            return None;
        }
        if names::check_group(name).is_err() {
            return None;
        }
        let created = {
            let mut table = self.table.write();
            if let Some(group) = table.groups.get(name) {
                return Some(group.clone());
            }
            let group = Arc::new(SubscriptionGroupConfig::named(name));
            table.groups.insert(name.to_owned(), group.clone());
            self.count(&mut table);
            group
        };
        // Saved within a second, with all others made meanwhile: a crash loses nothing that its next use does not make
        // again, and ten thousand new groups are not ten thousand writes of the whole table.
        tracing::info!(group = name, "made a consumer group");
        Some(created)
    }

    /// Makes or replaces groups as an administrator asks. Attributes of a request carry a sign, see
    /// [`attributes::alter`].
    ///
    /// # Errors
    /// An attribute that cannot be altered so; nothing is changed then.
    pub fn update(&self, requested: Vec<SubscriptionGroupConfig>) -> Result<(), AttributeError> {
        {
            let mut table = self.table.write();
            let mut ready = Vec::with_capacity(requested.len());
            for mut group in requested {
                let current = table.groups.get(group.name()).map(|old| old.attributes.clone().unwrap_or_default());
                let request = group.attributes.take().unwrap_or_default();
                group.attributes = Some(attributes::alter(attributes::GROUP, current.as_ref(), &request)?);
                ready.push(group);
            }
            for group in ready.into_iter().filter(|group| !self.is_light(group.name())) {
                tracing::info!(group = group.name(), settings = ?group, "set a consumer group");
                table.groups.insert(group.name().to_owned(), Arc::new(group));
                self.count(&mut table);
            }
        }
        self.persist();
        Ok(())
    }

    /// Becomes a copy of the table of the master that this broker copies, and saves it: groups that the master does not know
    /// go. Does nothing when the version is ours already.
    pub fn take_over(&self, of_master: SubscriptionGroupTable) {
        {
            let mut table = self.table.write();
            if table.version == of_master.data_version {
                return;
            }
            let groups = of_master.subscription_group_table.into_iter().map(|(name, mut group)| {
                group.group_name = Some(name.clone());
                (name, Arc::new(group))
            });
            table.groups = groups.collect();
            table.forbidden = of_master.forbidden_table;
            table.version = of_master.data_version;
            self.changes.fetch_add(1, Ordering::SeqCst);
        }
        self.persist();
        tracing::info!("took over the groups of the master");
    }

    /// Stops all consumption by a group (slow consumers, `disableConsumeIfConsumerReadSlowly`).
    pub fn disable_consume(&self, name: &str) {
        let mut table = self.table.write();
        if let Some(group) = table.groups.get(name) {
            let disabled = SubscriptionGroupConfig { consume_enable: false, ..(**group).clone() };
            table.groups.insert(name.to_owned(), Arc::new(disabled));
            self.count(&mut table);
        }
    }

    /// Forgets a group; false when there was none.
    pub fn delete(&self, name: &str) -> bool {
        {
            let mut table = self.table.write();
            table.forbidden.remove(name);
            if table.groups.remove(name).is_none() {
                return false;
            }
            self.count(&mut table);
        }
        tracing::info!(group = name, "deleted a consumer group");
        self.persist();
        true
    }

    /// Whether bit `index` forbids the group this topic; bit 0 forbids reading.
    pub fn is_forbidden(&self, group: &str, topic: &str, index: u32) -> bool {
        let bits = self.forbidden(group, topic);
        1i32.checked_shl(index).is_some_and(|bit| bits & bit == bit)
    }

    /// The bits that forbid the group this topic.
    pub fn forbidden(&self, group: &str, topic: &str) -> i32 {
        let table = self.table.read();
        if table.forbidden.is_empty() {
            return 0;
        }
        table.forbidden.get(group).and_then(|topics| topics.get(topic)).copied().unwrap_or(0).max(0)
    }

    /// Sets or clears a bit. As in Java, a topic left without bits frees the whole group.
    pub fn set_forbidden(&self, group: &str, topic: &str, index: u32, forbid: bool) {
        let bit = 1i32.checked_shl(index).unwrap_or(0);
        {
            let mut table = self.table.write();
            let topics = table.forbidden.get(group);
            let old = topics.and_then(|topics| topics.get(topic)).copied().unwrap_or(0).max(0);
            let bits = if forbid { old | bit } else { old & !bit };
            if bits <= 0 {
                table.forbidden.remove(group);
            } else {
                table.forbidden.entry(group.to_owned()).or_default().insert(topic.to_owned(), bits);
            }
            self.count(&mut table);
        }
        self.persist();
    }

    /// All groups sorted by name, with forbidden topics and version: the answer to GET_ALL_SUBSCRIPTIONGROUP_CONFIG.
    pub fn snapshot(&self) -> SubscriptionGroupTable {
        let table = self.table.read();
        SubscriptionGroupTable {
            data_version: table.version,
            forbidden_table: table.forbidden.clone(),
            subscription_group_table: table
                .groups
                .iter()
                .map(|(name, group)| (name.clone(), (**group).clone()))
                .collect(),
        }
    }

    /// Names of all groups, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.table.read().groups.keys().cloned().collect();
        names.sort();
        names
    }

    /// The version of the table; it moves with every change.
    pub fn data_version(&self) -> DataVersion {
        self.table.read().version
    }

    /// Writes the file when it is behind the table. A failure is logged; the next change or the stop tries again.
    pub fn persist(&self) {
        off_worker(|| {
            let mut saved = self.saved.lock();
            let changes = self.changes.load(Ordering::SeqCst);
            if *saved >= changes && self.file.path().exists() {
                return;
            }
            match self.file.save(&encode(&self.snapshot(), true)) {
                Ok(()) => *saved = changes,
                Err(error) => tracing::error!(file = %self.file.path().display(), %error, "cannot save the groups"),
            }
        });
    }

    /// Called under the table's lock, so that a save which starts later contains the change.
    fn count(&self, table: &mut Table) {
        table.version = table.version.next(0);
        self.changes.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(dir: &Path, config: BrokerConfig) -> Groups {
        Groups::load(dir, Arc::new(Live::new(config))).unwrap()
    }

    #[test]
    fn made_on_the_fly_and_back_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let first = groups(dir.path(), BrokerConfig::default());
        assert!(first.find_or_create("G1").is_some() && first.find_or_create("bad.name").is_none());
        first.set_forbidden("G1", "T1", 0, true);
        let second = groups(dir.path(), BrokerConfig::default());
        assert_eq!(second.get("G1"), first.get("G1"));
        assert!(second.is_forbidden("G1", "T1", 0) && !second.is_forbidden("G1", "T2", 0));
        assert_eq!(second.data_version().counter, first.data_version().counter);
        assert!(second.delete("G1") && !second.delete("G1") && !second.is_forbidden("G1", "T1", 0));
    }

    #[test]
    fn nothing_is_made_when_that_is_off() {
        let dir = tempfile::tempdir().unwrap();
        let config = BrokerConfig { auto_create_subscription_group: false, ..BrokerConfig::default() };
        let groups = groups(dir.path(), config);
        assert!(groups.find_or_create("G1").is_none());
        assert!(groups.get(names::TOOLS_GROUP).is_some());
    }
}
