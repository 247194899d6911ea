//! Up to which queue offset each queue has been compacted: `compaction/position-checkpoint`.
//!
//! JSON as Java writes it. What is lost of it is only work that is done again.

use std::collections::BTreeMap;
use std::path::Path;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::layout::ROOT;
use crate::error::StoreError;
use crate::failpoint::{self, Point};
use crate::json_file::{JsonFile, Parsed};

/// The file.
#[derive(Debug)]
pub(super) struct Positions {
    file: JsonFile,
    offsets: Mutex<BTreeMap<String, i64>>,
}

/// The file's text. Fields in Java's order.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Shape {
    empty: bool,
    queue_offset_map: BTreeMap<String, i64>,
}

impl Positions {
    /// Reads the file of a store. A damaged one is as good as none.
    pub(super) fn load(root: &Path) -> Positions {
        let file = JsonFile::new(root.join(ROOT).join("position-checkpoint"));
        let parse = |text: &str| serde_json::from_str::<Shape>(text).map_err(|error| error.to_string());
        let offsets = match file.load_with(parse) {
            Ok(Parsed::Text { value, .. }) => value.queue_offset_map,
            Ok(_) => BTreeMap::new(),
            Err(error) => {
                tracing::warn!(%error, "not known what has been compacted: it will be done again");
                BTreeMap::new()
            }
        };
        Positions { file, offsets: Mutex::new(offsets) }
    }

    /// Forgets the queues that `exists` does not know; on disk with the next save.
    pub(super) fn keep(&self, exists: impl Fn(&str, i32) -> bool) {
        let of_queue =
            |key: &str| key.rsplit_once('_').is_some_and(|(topic, id)| id.parse().is_ok_and(|id| exists(topic, id)));
        self.offsets.lock().retain(|key, _| of_queue(key));
    }

    /// The last queue offset that the last compaction looked at; -1 before the first.
    pub(super) fn get(&self, topic: &str, id: i32) -> i64 {
        self.offsets.lock().get(&key(topic, id)).copied().unwrap_or(-1)
    }

    /// Notes it; on disk when it returns.
    ///
    /// # Errors
    /// The disk.
    pub(super) fn set(&self, topic: &str, id: i32, offset: i64) -> Result<(), StoreError> {
        self.offsets.lock().insert(key(topic, id), offset);
        failpoint::hit(Point::CompactPosition)
            .map_err(|source| StoreError::Io { path: self.file.path().to_owned(), source })?;
        self.save()
    }

    /// Forgets a queue.
    ///
    /// # Errors
    /// The disk.
    pub(super) fn remove(&self, topic: &str, id: i32) -> Result<(), StoreError> {
        let known = self.offsets.lock().remove(&key(topic, id)).is_some();
        if known { self.save() } else { Ok(()) }
    }

    fn save(&self) -> Result<(), StoreError> {
        let queue_offset_map = self.offsets.lock().clone();
        let shape = Shape { empty: queue_offset_map.is_empty(), queue_offset_map };
        let mut text = Vec::new();
        let tabs = serde_json::ser::PrettyFormatter::with_indent(b"\t");
        let mut writer = serde_json::Serializer::with_formatter(&mut text, tabs);
        // Strings and numbers: nothing that cannot be written.
        let _ = shape.serialize(&mut writer);
        let text = String::from_utf8(text).unwrap_or_default().replace("\": ", "\":");
        self.file.save(&text)
    }
}

fn key(topic: &str, id: i32) -> String {
    format!("{topic}_{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_java_writes_it() {
        let dir = tempfile::tempdir().unwrap();
        let positions = Positions::load(dir.path());
        assert_eq!(positions.get("T", 0), -1);
        positions.set("T", 0, 17).unwrap();
        positions.set("T", 12, 4).unwrap();
        let text = std::fs::read_to_string(dir.path().join("compaction/position-checkpoint")).unwrap();
        assert_eq!(text, "{\n\t\"empty\":false,\n\t\"queueOffsetMap\":{\n\t\t\"T_0\":17,\n\t\t\"T_12\":4\n\t}\n}");
        positions.remove("T", 0).unwrap();
        let again = Positions::load(dir.path());
        assert_eq!((again.get("T", 0), again.get("T", 12)), (-1, 4));
        std::fs::write(dir.path().join("compaction/position-checkpoint"), "{]").unwrap();
        std::fs::remove_file(dir.path().join("compaction/position-checkpoint.bak")).unwrap();
        assert_eq!(Positions::load(dir.path()).get("T", 12), -1);
    }
}
