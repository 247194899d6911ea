//! The version of a broker's table of topics (and of its other tables): what a name server compares instead of the table.

use std::cmp::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Java's `DataVersion`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DataVersion {
    /// Counts changes since the broker started.
    pub counter: i64,
    /// The epoch of the master in controller mode, else 0.
    pub state_version: i64,
    /// When the last change was made, milliseconds since 1970.
    pub timestamp: i64,
}

impl DataVersion {
    /// The version of a table that was never changed, as Java makes it: counter 0, timestamp now.
    pub fn new() -> DataVersion {
        DataVersion { counter: 0, state_version: 0, timestamp: now_millis() }
    }

    /// The version after one more change, in the given state version.
    pub fn next(&self, state_version: i64) -> DataVersion {
        DataVersion { counter: self.counter.wrapping_add(1), state_version, timestamp: now_millis() }
    }

    /// Which of two versions is newer: state version first, then counter, then timestamp.
    pub fn compare(&self, other: &DataVersion) -> Ordering {
        let key = |version: &DataVersion| (version.state_version, version.counter, version.timestamp);
        key(self).cmp(&key(other))
    }
}

fn now_millis() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::fastjson;

    #[test]
    fn state_version_then_counter_then_timestamp() {
        let version = |state_version, counter, timestamp| DataVersion { counter, state_version, timestamp };
        assert_eq!(version(1, 0, 0).compare(&version(0, 9, 9)), Ordering::Greater);
        assert_eq!(version(0, 1, 9).compare(&version(0, 2, 0)), Ordering::Less);
        assert_eq!(version(0, 1, 9).compare(&version(0, 1, 8)), Ordering::Greater);
        assert_eq!(version(0, 1, 9).compare(&version(0, 1, 9)), Ordering::Equal);
        let next = version(0, 1, 9).next(4);
        assert_eq!((next.counter, next.state_version), (2, 4));
    }

    #[test]
    fn as_java_writes_it() {
        let text = br#"{"counter":1,"stateVersion":0,"timestamp":1795972465661}"#;
        let version: DataVersion = fastjson::from_slice(text).unwrap();
        assert_eq!(fastjson::to_vec(&version).unwrap(), text);
    }
}
