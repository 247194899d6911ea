//! Messages of compaction topics: sending them, and reading all that is left of them.
#![allow(dead_code)]

pub mod checks;

use store::record::{RecordView, properties};
use store::{All, AppendError, ReadRequest, ReadResult, ReadStatus, Store, TopicPolicy};

use crate::faults_support::message;

pub const COMPACTED: TopicPolicy = TopicPolicy { compaction: true, keep: None };

/// Offset, key and body.
pub type Message = (i64, String, String);

/// Appends a message and makes it readable, if that can be done; returns its queue offset.
pub fn try_send(store: &Store, topic: &str, id: i32, key: &str, body: &str) -> Result<i64, AppendError> {
    let mut bytes = Vec::new();
    if !key.is_empty() {
        properties::push(&mut bytes, "KEYS", key.as_bytes());
    }
    properties::push(&mut bytes, "TAGS", b"TagA");
    let message = message(&bytes, body.as_bytes());
    let appended = store.append(&store.queue_or_create(topic, id), &message)?;
    store.dispatch();
    Ok(appended.queue_offset)
}

/// What a read from an offset on returns.
pub fn page(store: &Store, topic: &str, id: i32, offset: i64) -> ReadResult {
    let mut result = ReadResult::default();
    let request = ReadRequest { offset, max_messages: 32, max_bytes: i32::MAX };
    store.read(&store.queue(topic, id).unwrap(), &request, &All, &mut result);
    result
}

/// Everything that can be read of a queue.
pub fn all_of(store: &Store, topic: &str, id: i32) -> Vec<Message> {
    let mut found = Vec::new();
    let mut offset = 0;
    loop {
        let result = page(store, topic, id, offset);
        if result.status != ReadStatus::Found {
            assert!(
                matches!(result.status, ReadStatus::OffsetOverflowOne | ReadStatus::NoMessageInQueue),
                "{result:?}"
            );
            return found;
        }
        found.extend(result.records.iter().map(|record| {
            let record = RecordView::parse(record).unwrap();
            assert!(record.body_crc_fits() && record.topic() == topic && record.queue_id() == id);
            message_of(&record)
        }));
        assert!(result.next_offset > offset && found.is_sorted());
        offset = result.next_offset;
    }
}

/// The message that a record holds.
pub fn message_of(record: &RecordView<'_>) -> Message {
    let body = String::from_utf8(record.body().to_vec()).unwrap();
    (record.queue_offset(), record.keys().unwrap_or_default().to_owned(), body)
}
