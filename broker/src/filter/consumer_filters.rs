//! The expressions that groups have subscribed with: `config/consumerFilter.json`.
//!
//! They outlive the connection of the group and the broker: a pull that comes before the next heartbeat finds the old one,
//! and the bits of messages go on to be computed. A group that leaves makes its expressions dead; after
//! `filterDataCleanTimeSpan` they are dropped. An entry is replaced, never changed: pulls keep the [`Arc`].

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use config::{BrokerConfig, Live};
use parking_lot::RwLock;
use remoting::body::fastjson;
use remoting::body::heartbeat::SubscriptionData;
use serde::{Deserialize, Serialize};
use store::StoreError;
use store::record::RecordView;

use super::SQL92;
use super::bloom::{Bloom, Positions};
use super::sql::Expression;
use crate::config_file::{ConfigFile, encode};
use crate::stats::now_millis;

/// How long an expression that comes back from the file is taken to be dead already (ms).
const DEAD_BEFORE_START: i64 = 30_000;

/// The expressions of all groups.
pub struct ConsumerFilters {
    config: Arc<Live<BrokerConfig>>,
    bloom: Option<Bloom>,
    file: ConfigFile,
    /// By topic, then by group.
    topics: RwLock<HashMap<String, BTreeMap<String, Arc<ConsumerFilter>>>>,
    /// Whether the file is behind the table.
    changed: AtomicBool,
}

/// An expression of a group for a topic, as the file has it. Times are milliseconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerFilter {
    /// The group's bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bloom_filter_data: Option<Positions>,
    /// Since when the group has this expression: older messages have no bit for it.
    pub born_time: i64,
    /// The version of the client's subscription.
    pub client_version: i64,
    /// The group.
    pub consumer_group: String,
    /// Whether the group has left, by the two times.
    pub dead: bool,
    /// When the group left; 0 while it is there.
    pub dead_time: i64,
    /// The expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    /// Its language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expression_type: Option<String>,
    /// The topic.
    pub topic: String,
    /// The program; `None` when the expression cannot be compiled.
    #[serde(skip)]
    pub compiled: Option<Arc<Expression>>,
}

/// The file's shape.
#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Shape {
    filter_data_by_topic: BTreeMap<String, ShapeOfTopic>,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ShapeOfTopic {
    group_filter_data: BTreeMap<String, ConsumerFilter>,
    topic: String,
}

impl ConsumerFilters {
    /// Loads the expressions from `dir` (`config/` of the store). All of them are taken to be dead; those of a Bloom filter
    /// of another size are all dropped, as Java does.
    ///
    /// # Errors
    /// The file's backup is damaged.
    pub fn load(dir: &Path, config: Arc<Live<BrokerConfig>>) -> Result<ConsumerFilters, StoreError> {
        let keys = config.load();
        let bloom = Bloom::new(keys.max_error_rate_of_bloom_filter, keys.expect_consumer_num_use_filter);
        drop(keys);
        let file = ConfigFile::new(dir.join("consumerFilter.json"));
        let shape = file
            .load(|bytes| fastjson::from_slice::<Shape>(bytes).map_err(|error| error.to_string()))?
            .unwrap_or_default();
        let now = now_millis();
        let mut topics: HashMap<String, BTreeMap<String, Arc<ConsumerFilter>>> = HashMap::new();
        for (topic, shape) in shape.filter_data_by_topic {
            for (group, mut filter) in shape.group_filter_data {
                if !filter.bloom_filter_data.as_ref().zip(bloom).is_some_and(|(data, bloom)| bloom.owns(data)) {
                    tracing::info!(topic, group, "the Bloom filter has changed: no expression of before is kept");
                    topics.clear();
                    return Ok(ConsumerFilters::new(config, bloom, file, topics));
                }
                filter.compile();
                if filter.dead_time == 0 {
                    filter.dead_time = filter.born_time.max(now - DEAD_BEFORE_START);
                }
                topics.entry(topic.clone()).or_default().insert(group, Arc::new(filter));
            }
        }
        Ok(ConsumerFilters::new(config, bloom, file, topics))
    }

    fn new(
        config: Arc<Live<BrokerConfig>>,
        bloom: Option<Bloom>,
        file: ConfigFile,
        topics: HashMap<String, BTreeMap<String, Arc<ConsumerFilter>>>,
    ) -> ConsumerFilters {
        ConsumerFilters { config, bloom, file, topics: RwLock::new(topics), changed: AtomicBool::new(false) }
    }

    /// Takes the subscriptions of a group's heartbeat. Topics that the group has an expression for but does not subscribe
    /// to any more are dead from now on.
    pub fn register(&self, group: &str, subscriptions: &[SubscriptionData]) {
        for data in subscriptions.iter().filter(|data| !data.is_tag_type()) {
            self.register_one(group, data, now_millis());
        }
        let gone = |topic: &str| !subscriptions.iter().any(|data| data.topic == *topic);
        self.bury(group, gone);
    }

    /// The group has left.
    pub fn unregister(&self, group: &str) {
        self.bury(group, |_| true);
    }

    /// The expression of a group for a topic.
    pub fn get(&self, topic: &str, group: &str) -> Option<Arc<ConsumerFilter>> {
        self.topics.read().get(topic)?.get(group).cloned()
    }

    /// The bits of a message for the consume queue extension; `None` when they are not wanted
    /// (`enableCalcFilterBitMap`) or no group has an expression for its topic.
    pub fn bits(&self, record: &RecordView<'_>) -> Option<Vec<u8>> {
        if !self.config.load().enable_calc_filter_bit_map {
            return None;
        }
        let topics = self.topics.read();
        let filters = topics.get(std::str::from_utf8(record.topic_bytes()).ok()?)?;
        let mut bits = self.bloom?.empty();
        for filter in filters.values() {
            if let (Some(expression), Some(positions)) = (&filter.compiled, &filter.bloom_filter_data)
                && expression.matches(record.property_bytes())
            {
                positions.set(&mut bits);
            }
        }
        Some(bits)
    }

    /// Drops what has been dead for too long, and writes the file when it is behind the table.
    ///
    /// # Errors
    /// What the system says; the next call tries again.
    pub fn persist(&self) -> Result<(), StoreError> {
        self.clean(now_millis());
        if !self.changed.swap(false, Ordering::AcqRel) && self.file.path().exists() {
            return Ok(());
        }
        self.file.save(&self.encode(true)).inspect_err(|_| self.changed.store(true, Ordering::Release))
    }

    /// The table as the file has it, on one line or indented by tabs.
    pub fn encode(&self, pretty: bool) -> Vec<u8> {
        let topics = self.topics.read();
        let by_topic = topics.iter().map(|(topic, filters)| {
            let filters = filters.iter().map(|(group, filter)| (group.clone(), filter.shape()));
            (topic.clone(), ShapeOfTopic { group_filter_data: filters.collect(), topic: topic.clone() })
        });
        encode(&Shape { filter_data_by_topic: by_topic.collect() }, pretty)
    }

    /// Takes a subscription that is newer than what is known. An expression that cannot be compiled is not kept, nor the
    /// one before it: the group's pulls are told that there is none.
    fn register_one(&self, group: &str, data: &SubscriptionData, now: i64) {
        let Some(expression) = data.sub_string.as_deref().filter(|expression| !expression.is_empty()) else { return };
        if let Some(known) = self.get(&data.topic, group)
            && (data.sub_version < known.client_version || data.sub_version == known.client_version && !known.is_dead())
        {
            // A heartbeat like the one before, the common case: nothing is compiled, no lock is taken exclusively.
            return;
        }
        let mut topics = self.topics.write();
        let filters = topics.entry(data.topic.clone()).or_default();
        let positions = self.bloom.map(|bloom| bloom.positions(group, &data.topic));
        let known = filters.get(group);
        if let Some(known) = known.filter(|known| data.sub_version <= known.client_version) {
            if data.sub_version == known.client_version && known.is_dead() {
                filters.insert(group.to_owned(), Arc::new(ConsumerFilter { dead_time: 0, ..(**known).clone() }));
                self.changed.store(true, Ordering::Release);
            }
            return;
        }
        self.changed.store(true, Ordering::Release);
        let same = known.filter(|known| {
            known.expression.as_deref() == Some(expression)
                && known.expression_type == data.expression_type
                && known.bloom_filter_data == positions
        });
        let filter = match same {
            Some(known) => ConsumerFilter { client_version: data.sub_version, dead_time: 0, ..(**known).clone() },
            None => ConsumerFilter {
                bloom_filter_data: positions,
                born_time: now,
                client_version: data.sub_version,
                ..ConsumerFilter::build(group, &data.topic, expression, data.expression_type.as_deref())
            },
        };
        if filter.compiled.is_some() {
            tracing::info!(
                group,
                topic = data.topic,
                expression,
                version = data.sub_version,
                "an expression was registered"
            );
            filters.insert(group.to_owned(), Arc::new(filter));
        } else {
            filters.remove(group);
        }
        if filters.is_empty() {
            topics.remove(&data.topic);
        }
    }

    fn bury(&self, group: &str, is_gone: impl Fn(&str) -> bool) {
        let lives = |topic: &str, filters: &BTreeMap<String, Arc<ConsumerFilter>>| {
            filters.get(group).is_some_and(|filter| !filter.is_dead()) && is_gone(topic)
        };
        if !self.topics.read().iter().any(|(topic, filters)| lives(topic, filters)) {
            return;
        }
        let now = now_millis();
        for (topic, filters) in self.topics.write().iter_mut() {
            if lives(topic, filters)
                && let Some(filter) = filters.get_mut(group)
            {
                tracing::info!(group, topic, "the group left: its expression is dead");
                *filter = Arc::new(ConsumerFilter { dead_time: now, ..(**filter).clone() });
                self.changed.store(true, Ordering::Release);
            }
        }
    }

    fn clean(&self, now: i64) {
        let span = self.config.load().filter_data_clean_time_span;
        let is_over = |filter: &ConsumerFilter| filter.is_dead() && now - filter.dead_time >= span;
        if !self.topics.read().values().flat_map(|filters| filters.values()).any(|filter| is_over(filter)) {
            return;
        }
        self.topics.write().retain(|topic, filters| {
            filters.retain(|group, filter| {
                let over = is_over(filter);
                if over {
                    tracing::info!(group, topic, "an expression has been dead for too long");
                }
                !over
            });
            !filters.is_empty()
        });
        self.changed.store(true, Ordering::Release);
    }
}

impl ConsumerFilter {
    /// A filter of an expression that lives, without bits.
    pub fn build(group: &str, topic: &str, expression: &str, kind: Option<&str>) -> ConsumerFilter {
        let mut filter = ConsumerFilter {
            consumer_group: group.to_owned(),
            topic: topic.to_owned(),
            expression: Some(expression.to_owned()),
            expression_type: kind.map(str::to_owned),
            ..ConsumerFilter::default()
        };
        filter.compile();
        filter
    }

    /// As the file has it, over several lines.
    pub fn to_json(&self) -> String {
        String::from_utf8_lossy(&encode(&self.shape(), true)).into_owned()
    }

    fn shape(&self) -> ConsumerFilter {
        ConsumerFilter { dead: self.is_dead(), ..self.clone() }
    }

    /// Whether the group has left.
    pub fn is_dead(&self) -> bool {
        self.dead_time >= self.born_time
    }

    fn compile(&mut self) {
        let expression = self.expression.as_deref().unwrap_or_default();
        if self.expression_type.as_deref() != Some(SQL92) {
            tracing::warn!(group = self.consumer_group, topic = self.topic, kind = ?self.expression_type, "no such filter");
            return;
        }
        match Expression::compile(expression) {
            Ok(compiled) => self.compiled = Some(Arc::new(compiled)),
            Err(error) => {
                tracing::warn!(group = self.consumer_group, topic = self.topic, expression, %error, "no expression");
            }
        }
    }
}
