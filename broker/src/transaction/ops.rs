//! The op topic: which halves have been ended, as Java writes it.
//!
//! ```text
//! topic RMQ_SYS_TRANS_OP_HALF_TOPIC, queue as that of the half, tag "d", body "123,124,"
//! ```
//!
//! The body lists queue offsets of halves, each with a comma behind it (old brokers wrote a single number). Ends are
//! gathered: a record is written when they fill `transactionOpMsgMaxSize` bytes, and every
//! `transactionOpBatchInterval`. What was gathered is lost with a crash: those halves are asked for again.

use std::sync::Arc;

use config::{BrokerConfig, Live};
use parking_lot::Mutex;
use store::{NewMessage, Store};

use crate::identity::Identity;
use crate::names;
use crate::stats::{Stats, now_millis};
use crate::topics::TopicTable;

/// The properties of an op record.
const PROPERTIES: &[u8] = b"TAGS\x01d\x02WAIT\x01true\x02";

/// The tag that says what the body is.
const TAG: &[u8] = b"d";

/// No record is longer, whatever is configured; nor is more kept when the store takes nothing.
const MOST: usize = 1 << 20;

/// What an [`OpLog`] works with.
pub struct OpLogParts {
    /// Broker keys.
    pub config: Arc<Live<BrokerConfig>>,
    /// Topics.
    pub topics: Arc<TopicTable>,
    /// The store.
    pub store: Arc<Store>,
    /// Counters.
    pub stats: Arc<Stats>,
    /// Names and addresses of the broker.
    pub identity: Arc<Identity>,
}

/// Writes the op topic.
pub struct OpLog {
    parts: OpLogParts,
    /// Ends of halves of queue 0, the only one that brokers write.
    gathered: Mutex<Vec<u8>>,
}

impl OpLog {
    /// Nothing is gathered.
    pub fn new(parts: OpLogParts) -> OpLog {
        OpLog { parts, gathered: Mutex::new(Vec::new()) }
    }

    /// Notes that a half has been ended. The caller sees to the dispatch.
    pub fn add(&self, queue_id: i32, offset: i64) {
        let mut number = itoa::Buffer::new();
        let text = number.format(offset).as_bytes();
        if queue_id != 0 {
            let mut body = text.to_vec();
            body.push(b',');
            self.write(queue_id, &body);
            return;
        }
        let most = usize::try_from(self.parts.config.load().transaction_op_msg_max_size).unwrap_or(0).min(MOST);
        let full = {
            let mut gathered = self.gathered.lock();
            gathered.extend_from_slice(text);
            gathered.push(b',');
            if gathered.len() <= most {
                return;
            }
            let room = gathered.capacity();
            std::mem::replace(&mut *gathered, Vec::with_capacity(room))
        };
        self.write_or_keep(full);
    }

    /// Writes what has been gathered; false when there was nothing. The caller sees to the dispatch.
    pub fn flush(&self) -> bool {
        let gathered = std::mem::take(&mut *self.gathered.lock());
        if gathered.is_empty() {
            return false;
        }
        self.write_or_keep(gathered);
        true
    }

    fn write_or_keep(&self, body: Vec<u8>) {
        if self.write(0, &body) {
            return;
        }
        let mut gathered = self.gathered.lock();
        if gathered.len() + body.len() <= MOST {
            gathered.extend_from_slice(&body);
        } else {
            tracing::error!(
                bytes = body.len(),
                "ends of transactions are not noted: their producers will be asked again"
            );
        }
    }

    fn write(&self, queue_id: i32, body: &[u8]) -> bool {
        let parts = &self.parts;
        let message = NewMessage {
            flag: 0,
            sys_flag: 0,
            born_timestamp: now_millis(),
            born_host: parts.identity.store_host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            properties: PROPERTIES,
            body,
        };
        let queue = parts.store.queue_or_create(names::OP_HALF_TOPIC, queue_id);
        match parts.store.append(&queue, &message) {
            Ok(appended) => {
                if let Some(topic) = parts.topics.get(names::OP_HALF_TOPIC) {
                    parts.stats.put(&topic.stats, 1, appended.end - appended.phys_offset, false);
                }
                true
            }
            Err(error) => {
                tracing::warn!(queue_id, %error, "cannot note ends of transactions");
                false
            }
        }
    }
}

/// The offsets that an op record lists; what is no offset is left out, and so is everything of a record with another tag.
pub(super) fn offsets<'r>(view: &store::record::RecordView<'r>) -> impl Iterator<Item = i64> + use<'r> {
    let body = match view.properties().get_bytes("TAGS") {
        Some(TAG) => view.body(),
        tag => {
            tracing::warn!(offset = view.queue_offset(), ?tag, "an op record of an unknown kind");
            &[]
        }
    };
    body.split(|byte| *byte == b',').filter_map(number)
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok().filter(|offset| *offset >= 0)
}

#[cfg(test)]
mod tests {
    use store::record::{NewRecord, RecordView, Version};

    use super::*;

    fn listed(properties: &[u8], body: &[u8]) -> Vec<i64> {
        let host = "127.0.0.1:1".parse().unwrap();
        let record = NewRecord {
            version: Version::V1,
            body_crc: 0,
            queue_id: 0,
            flag: 0,
            queue_offset: 0,
            phys_offset: 0,
            sys_flag: 0,
            born_timestamp: 0,
            born_host: host,
            store_timestamp: 0,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body,
            topic: names::OP_HALF_TOPIC,
            properties,
            crc_property: false,
        };
        let mut bytes = vec![0; record.encoded_len()];
        record.encode(&mut bytes);
        offsets(&RecordView::parse(&bytes).unwrap()).collect()
    }

    #[test]
    fn op_records_of_all_ages_and_kinds() {
        assert_eq!(listed(PROPERTIES, b"123,7,"), [123, 7]);
        assert_eq!(listed(b"TAGS\x01d\x02", b"123"), [123]);
        assert_eq!(listed(PROPERTIES, b",,12,x,-4,\xff,99999999999999999999,13"), [12, 13]);
        let nothing: Vec<i64> = Vec::new();
        assert_eq!(listed(PROPERTIES, b""), nothing);
        assert_eq!(listed(b"TAGS\x01e\x02", b"123,"), nothing);
        assert_eq!(listed(b"", b"123,"), nothing);
    }
}
