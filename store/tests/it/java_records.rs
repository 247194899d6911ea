//! Records that the Java broker wrote come out byte for byte the same when they are read and written again, and an
//! append with the same inputs writes the same bytes.

use std::sync::atomic::AtomicI64;

use crate::golden_support::Golden;
use store::NewMessage;
use store::commitlog::{AppendLimits, CommitLog, NextOffset};
use store::record::{MessageId, NewRecord, RecordView, Version};

fn log_of(golden: &Golden) -> CommitLog {
    let dir = golden.root().join("commitlog");
    let file = std::fs::read_dir(&dir).unwrap().next().unwrap().unwrap().path();
    CommitLog::load(dir, std::fs::metadata(file).unwrap().len() as usize).unwrap()
}

fn each_record(log: &CommitLog, mut each: impl FnMut(&RecordView<'_>)) -> usize {
    let mut count = 0;
    let mut walk = log.walk(0);
    while let Some((phys, record)) = walk.next_record() {
        assert_eq!(record.phys_offset() as u64, phys);
        each(&record);
        count += 1;
    }
    count
}

#[test]
fn written_again() {
    let mut long_topics = 0;
    for name in ["basic", "default_size", "pop", "pop_long_names", "retry_delay_timer", "sql_filter_ext", "transaction"]
    {
        let golden = Golden::unpack(name);
        let count = each_record(&log_of(&golden), |view| {
            let record = NewRecord {
                version: Version::for_topic(view.topic().len()),
                body_crc: store::record::crc32(view.body()),
                queue_id: view.queue_id(),
                flag: view.flag(),
                queue_offset: view.queue_offset(),
                phys_offset: view.phys_offset(),
                sys_flag: view.sys_flag(),
                born_timestamp: view.born_timestamp(),
                born_host: view.born_host(),
                store_timestamp: view.store_timestamp(),
                store_host: view.store_host(),
                reconsume_times: view.reconsume_times(),
                prepared_transaction_offset: view.prepared_transaction_offset(),
                body: view.body(),
                topic: view.topic(),
                properties: view.property_bytes(),
                crc_property: false,
            };
            let mut bytes = vec![0; record.encoded_len()];
            record.encode(&mut bytes);
            assert_eq!(bytes, view.bytes(), "{name} at {}", view.phys_offset());
            assert!(view.body_crc_fits());
            long_topics += usize::from(view.version() == Version::V2);
        });
        let messages = golden.manifest["messages"].as_array().unwrap().len();
        assert!(count > 0 && count >= messages, "{name}: {count} of {messages}");
    }
    assert_eq!(long_topics, 4);
}

/// Appending the messages of a Java log to an empty one gives the same files, but for the store timestamps.
#[test]
fn appended_again() {
    let golden = Golden::unpack("basic");
    let java = log_of(&golden);
    let dir = tempfile::tempdir().unwrap();
    let ours = CommitLog::load(dir.path().join("commitlog"), java.segments().segment_len()).unwrap();
    let count = each_record(&java, |view| {
        let limits =
            AppendLimits { max_body: 4 << 20, long_topics: true, crc_property: false, store_host: view.store_host() };
        let message = NewMessage {
            flag: view.flag(),
            sys_flag: view.sys_flag(),
            born_timestamp: view.born_timestamp(),
            born_host: view.born_host(),
            reconsume_times: view.reconsume_times(),
            prepared_transaction_offset: view.prepared_transaction_offset(),
            properties: view.property_bytes(),
            body: view.body(),
        };
        let next = AtomicI64::new(view.queue_offset());
        let queue = NextOffset { topic: view.topic(), queue_id: view.queue_id(), next: &next };
        let appended = ours.append(queue, &message, &limits).unwrap();
        // The same place means that files are rolled at the same records.
        assert_eq!(appended.phys_offset as i64, view.phys_offset());
    });
    let mut theirs = java.walk(0);
    let compared = each_record(&ours, |view| {
        let (_, java) = theirs.next_record().unwrap();
        let timestamp = 48 + 8;
        assert_eq!(view.bytes()[..timestamp], java.bytes()[..timestamp]);
        assert_eq!(view.bytes()[timestamp + 8..], java.bytes()[timestamp + 8..]);
    });
    assert_eq!(compared, count);
    // The blank records, too.
    for (ours, java) in ours.segments().snapshot().iter().zip(java.segments().snapshot().iter()) {
        if ours.published() == ours.len() {
            let mut at = 0;
            while let Ok(view) = RecordView::parse(&ours.bytes()[at..]) {
                at += view.size();
            }
            assert_eq!(ours.bytes()[at..], java.bytes()[at..]);
        }
    }
}

#[test]
fn message_ids() {
    let golden = Golden::unpack("basic");
    let log = log_of(&golden);
    let mut checked = 0;
    for message in golden.manifest["messages"].as_array().unwrap() {
        let Some(id) = message["offsetMsgId"].as_str().or(message["msgId"].as_str()) else { continue };
        let Some(parsed) = MessageId::parse(id) else { continue };
        let Some(record) = log.record_at(parsed.phys_offset) else { continue };
        let host = RecordView::parse(&record).unwrap().store_host();
        assert_eq!(MessageId { host, phys_offset: parsed.phys_offset }.to_string(), id);
        checked += 1;
    }
    assert!(checked > 0);
}
