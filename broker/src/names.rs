//! Names of topics and groups: what is legal, which ones the broker keeps for itself, and names made from others.

use std::collections::HashSet;

use parking_lot::RwLock;
use thiserror::Error;

/// Prefix of the topic that holds a group's retries.
pub const RETRY_PREFIX: &str = "%RETRY%";
/// Prefix of the topic that holds what a group could not consume.
pub const DLQ_PREFIX: &str = "%DLQ%";
/// Prefix of light message queues.
pub const LMQ_PREFIX: &str = "%LMQ%";
/// Prefix of topics that only the broker writes.
pub const SYSTEM_PREFIX: &str = "rmq_sys_";
/// Prefix of groups of the broker itself.
pub const SYSTEM_GROUP_PREFIX: &str = "CID_RMQ_SYS_";
/// The topic whose settings an automatically created topic inherits.
pub const AUTO_CREATE_TOPIC: &str = "TBW102";
/// Delayed messages wait here, one queue a level.
pub const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";
/// The group that reads it, in statistics.
pub const SCHEDULE_GROUP: &str = "SCHEDULE_CONSUMER";
/// Messages with an arbitrary delay wait here.
pub const TIMER_TOPIC: &str = "rmq_sys_wheel_timer";
/// Prepared transactional messages.
pub const HALF_TOPIC: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
/// What became of prepared messages.
pub const OP_HALF_TOPIC: &str = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
/// See [`HALF_TOPIC`], for the RocksDB variant of transactions.
pub const ROCKSDB_HALF_TOPIC: &str = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC";
/// See [`OP_HALF_TOPIC`], for the RocksDB variant of transactions.
pub const ROCKSDB_OP_HALF_TOPIC: &str = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC";
/// Prepared messages that were checked too often.
pub const TRANS_CHECK_MAX_TIME_TOPIC: &str = "TRANS_CHECK_MAX_TIME_TOPIC";
/// Events of the broker about consumers whose offset was out of range.
pub const OFFSET_MOVED_TOPIC: &str = "OFFSET_MOVED_EVENT";
/// For tests of the broker itself.
pub const SELF_TEST_TOPIC: &str = "SELF_TEST_TOPIC";
/// For load generators.
pub const BENCHMARK_TOPIC: &str = "BenchmarkTest";
/// Traces of messages.
pub const TRACE_TOPIC: &str = "RMQ_SYS_TRACE_TOPIC";
/// Offsets kept in a topic (RocksDB).
pub const CHECKPOINT_TOPIC: &str = "CHECKPOINT_TOPIC";
/// Prefix of the topic that makes the members of a broker set known to each other.
pub const SYNC_MEMBER_PREFIX: &str = "rmq_sys_SYNC_BROKER_MEMBER_";
/// The group that mqadmin and the broker's own readers use.
pub const TOOLS_GROUP: &str = "TOOLS_CONSUMER";

/// Longest topic name in characters.
pub const TOPIC_MAX: usize = 127;
/// Longest retry or dead letter topic in characters.
pub const RETRY_TOPIC_MAX: usize = 255;
/// Longest group name in characters.
pub const GROUP_MAX: usize = 120;

/// A name that a client may not use. The text is the remark that Java answers with.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// Empty, or white space only.
    #[error("The specified {0} is blank.")]
    Blank(&'static str),
    /// A character outside `%|a-zA-Z0-9_-`.
    #[error("The specified {what}: {name}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$")]
    Illegal {
        /// `topic` or `group`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Longer than [`TOPIC_MAX`] or [`GROUP_MAX`].
    #[error("The specified {what}: {name}, is longer than {what} max length: {max}")]
    TooLong {
        /// `topic` or `group`.
        what: &'static str,
        /// The name.
        name: String,
        /// The limit in characters.
        max: usize,
    },
    /// A retry or dead letter topic longer than [`RETRY_TOPIC_MAX`].
    #[error("The specified topic is DLQ or Retry topic: {0}, and it's longer than topic max length: {RETRY_TOPIC_MAX}")]
    RetryTooLong(String),
}

/// Whether a client may use this topic name.
///
/// # Errors
/// Why not, as the remark to answer with INVALID_PARAMETER.
pub fn check_topic(name: &str) -> Result<(), NameError> {
    check_characters("topic", name)?;
    if name.starts_with(RETRY_PREFIX) || name.starts_with(DLQ_PREFIX) {
        if name.len() > RETRY_TOPIC_MAX {
            return Err(NameError::RetryTooLong(name.to_owned()));
        }
    } else if name.len() > TOPIC_MAX {
        return Err(NameError::TooLong { what: "topic", name: name.to_owned(), max: TOPIC_MAX });
    }
    Ok(())
}

/// Whether a client may use this group name.
///
/// # Errors
/// Why not, as the remark to answer with INVALID_PARAMETER.
pub fn check_group(name: &str) -> Result<(), NameError> {
    check_characters("group", name)?;
    if name.len() > GROUP_MAX {
        return Err(NameError::TooLong { what: "group", name: name.to_owned(), max: GROUP_MAX });
    }
    Ok(())
}

/// Legal characters are ASCII, so lengths in bytes and in characters agree after this check.
fn check_characters(what: &'static str, name: &str) -> Result<(), NameError> {
    if name.chars().all(char::is_whitespace) {
        return Err(NameError::Blank(what));
    }
    if !has_legal_characters(name) {
        return Err(NameError::Illegal { what, name: name.to_owned() });
    }
    Ok(())
}

/// Whether only characters occur that topic and group names may have.
pub fn has_legal_characters(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'%' | b'|' | b'-' | b'_'))
}

/// The group whose retry topic this is.
pub fn retried_group(retry_topic: &str) -> Option<&str> {
    let name = retry_topic.strip_prefix(RETRY_PREFIX)?;
    // The second form of pop's retry topics names the topic as well.
    Some(name.split_once('+').filter(|(_, topic)| !topic.contains('+')).map_or(name, |(group, _)| group))
}

/// The topic that holds the retries of a group.
pub fn retry_topic(group: &str) -> String {
    format!("{RETRY_PREFIX}{group}")
}

/// The topic that holds what a group could not consume.
pub fn dlq_topic(group: &str) -> String {
    format!("{DLQ_PREFIX}{group}")
}

/// The retry topic of a group that consumes `topic` by POP, in its first form (`_`).
pub fn pop_retry_topic_v1(topic: &str, group: &str) -> String {
    format!("{RETRY_PREFIX}{group}_{topic}")
}

/// The retry topic of a group that consumes `topic` by POP, in its second form (`+`).
pub fn pop_retry_topic_v2(topic: &str, group: &str) -> String {
    format!("{RETRY_PREFIX}{group}+{topic}")
}

/// Topics that a client may never send to.
pub fn is_send_forbidden(topic: &str) -> bool {
    matches!(
        topic,
        SCHEDULE_TOPIC
            | HALF_TOPIC
            | OP_HALF_TOPIC
            | TRANS_CHECK_MAX_TIME_TOPIC
            | SELF_TEST_TOPIC
            | OFFSET_MOVED_TOPIC
            | ROCKSDB_HALF_TOPIC
            | ROCKSDB_OP_HALF_TOPIC
    )
}

/// Groups of the broker and its tools: reads by them are no traffic, and pulls by them need no subscription.
pub fn is_system_group(group: &str) -> bool {
    group.starts_with(SYSTEM_GROUP_PREFIX)
        || matches!(
            group,
            "DEFAULT_CONSUMER"
                | TOOLS_GROUP
                | SCHEDULE_GROUP
                | "FILTERSRV_CONSUMER"
                | "__MONITOR_CONSUMER"
                | "SELF_TEST_C_GROUP"
                | "CID_ONS-HTTP-PROXY"
                | "CID_ONSAPI_PERMISSION"
                | "CID_ONSAPI_OWNER"
                | "CID_ONSAPI_PULL"
        )
}

/// Groups with a fixed meaning: consumers of these names keep no account of their own (Java's `PREDEFINE_GROUP_SET`).
pub fn is_predefined_group(group: &str) -> bool {
    matches!(
        group,
        "DEFAULT_CONSUMER"
            | "DEFAULT_PRODUCER"
            | TOOLS_GROUP
            | SCHEDULE_GROUP
            | "FILTERSRV_CONSUMER"
            | "__MONITOR_CONSUMER"
            | "CLIENT_INNER_PRODUCER"
            | "SELF_TEST_P_GROUP"
            | "SELF_TEST_C_GROUP"
            | "CID_ONS-HTTP-PROXY"
            | "CID_ONSAPI_PERMISSION"
            | "CID_ONSAPI_OWNER"
            | "CID_RMQ_SYS_TRANS"
    )
}

/// Groups that exist from the start.
pub const STANDING_GROUPS: [&str; 8] = [
    TOOLS_GROUP,
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
];

/// The topics that the broker keeps for itself: a fixed set, and those named after the broker and its cluster.
#[derive(Debug)]
pub struct SystemTopics {
    /// Grows at start only.
    names: RwLock<HashSet<String>>,
}

impl Default for SystemTopics {
    fn default() -> Self {
        let fixed = [
            AUTO_CREATE_TOPIC,
            SCHEDULE_TOPIC,
            BENCHMARK_TOPIC,
            HALF_TOPIC,
            TRACE_TOPIC,
            OP_HALF_TOPIC,
            TRANS_CHECK_MAX_TIME_TOPIC,
            SELF_TEST_TOPIC,
            OFFSET_MOVED_TOPIC,
            CHECKPOINT_TOPIC,
            ROCKSDB_HALF_TOPIC,
            ROCKSDB_OP_HALF_TOPIC,
        ];
        SystemTopics { names: RwLock::new(fixed.iter().map(|name| (*name).to_owned()).collect()) }
    }
}

impl SystemTopics {
    /// Adds a name.
    pub fn add(&self, name: &str) {
        self.names.write().insert(name.to_owned());
    }

    /// Whether the broker keeps this topic for itself.
    pub fn contains(&self, name: &str) -> bool {
        name.starts_with(SYSTEM_PREFIX) || self.names.read().contains(name)
    }

    /// All names, in no order.
    pub fn names(&self) -> Vec<String> {
        self.names.read().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case M-01: the remarks of illegal topic names.
    #[test]
    fn m_01_topic_names() {
        for name in ["a b", "a/b", "a.b", "\u{4e2d}\u{6587}"] {
            let remark = check_topic(name).unwrap_err().to_string();
            assert!(remark.contains("contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"), "{remark}");
        }
        assert!(
            check_topic(&"x".repeat(128)).unwrap_err().to_string().ends_with("is longer than topic max length: 127")
        );
        assert_eq!(check_topic("").unwrap_err().to_string(), "The specified topic is blank.");
        assert_eq!(check_topic(" \t").unwrap_err().to_string(), "The specified topic is blank.");
        assert_eq!(check_topic(&"x".repeat(127)), Ok(()));
    }

    #[test]
    fn retry_topics_may_be_longer() {
        assert_eq!(check_topic(&format!("%RETRY%{}", "g".repeat(248))), Ok(()));
        assert!(matches!(check_topic(&format!("%DLQ%{}", "g".repeat(251))), Err(NameError::RetryTooLong(_))));
    }

    #[test]
    fn group_names() {
        assert_eq!(check_group(&"g".repeat(120)), Ok(()));
        assert!(
            check_group(&"g".repeat(121)).unwrap_err().to_string().ends_with("is longer than group max length: 120")
        );
        assert_eq!(check_group("").unwrap_err().to_string(), "The specified group is blank.");
    }

    #[test]
    fn system_topics() {
        let system = SystemTopics::default();
        assert!(system.contains("TBW102") && system.contains("rmq_sys_anything") && !system.contains("DefaultCluster"));
        system.add("DefaultCluster");
        assert!(system.contains("DefaultCluster"));
        assert!(is_send_forbidden(SELF_TEST_TOPIC) && !is_send_forbidden(BENCHMARK_TOPIC));
    }
}
