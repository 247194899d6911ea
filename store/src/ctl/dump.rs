//! Prints what is in a store, one thing a line, fields as `name=value`.

use std::io::Write;
use std::str::FromStr;

use super::{CtlError, StoreDir, list, log, read_error};
use crate::json_file::{JsonFile, Loaded, Source};
use crate::record::RecordError;

/// A part of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum What {
    CommitLog,
    ConsumeQueue,
    Index,
    Checkpoint,
    Config,
}

impl FromStr for What {
    type Err = String;

    fn from_str(text: &str) -> Result<What, String> {
        Ok(match text {
            "commitlog" => What::CommitLog,
            "consumequeue" => What::ConsumeQueue,
            "index" => What::Index,
            "checkpoint" => What::Checkpoint,
            "config" => What::Config,
            _ => return Err("expected commitlog, consumequeue, index, checkpoint or config".to_owned()),
        })
    }
}

/// Which records and units are printed.
#[derive(Clone, Debug, Default)]
pub struct DumpFilter {
    /// Of this topic only.
    pub topic: Option<String>,
    /// Of this queue id only.
    pub queue: Option<i32>,
}

impl DumpFilter {
    fn takes(&self, topic: &str, queue: i32) -> bool {
        self.topic.as_ref().is_none_or(|wanted| wanted == topic) && self.queue.is_none_or(|wanted| wanted == queue)
    }
}

/// Prints a part of the store, or all of it.
///
/// # Errors
/// A file that cannot be read, or the output.
pub fn dump(store: &StoreDir, what: Option<What>, filter: &DumpFilter, out: &mut dyn Write) -> Result<(), CtlError> {
    let wants = |part| what.is_none_or(|what| what == part);
    if wants(What::CommitLog) {
        commit_log(store, filter, out)?;
    }
    if wants(What::ConsumeQueue) {
        consume_queues(store, filter, out)?;
    }
    if wants(What::Index) {
        index(store, out)?;
    }
    if wants(What::Checkpoint) {
        for (name, value) in store.checkpoint()? {
            writeln!(out, "checkpoint {name}={value}")?;
        }
    }
    if wants(What::Config) {
        configuration(store, out)?;
    }
    Ok(())
}

fn commit_log(store: &StoreDir, filter: &DumpFilter, out: &mut dyn Write) -> Result<(), CtlError> {
    let (end, error) = log::walk(&store.log_files()?, |offset, record| {
        if !filter.takes(record.topic(), record.queue_id()) {
            return Ok(());
        }
        write!(
            out,
            "record offset={offset} size={} magic={:08x} topic={} queue={} queueOffset={} storeTime={} bornTime={} \
             bornHost={} storeHost={} sysFlag={} flag={} reconsume={} prepared={} body={} crc={}",
            record.size(),
            record.version().magic(),
            record.topic(),
            record.queue_id(),
            record.queue_offset(),
            record.store_timestamp(),
            record.born_timestamp(),
            record.born_host(),
            record.store_host(),
            record.sys_flag(),
            record.flag(),
            record.reconsume_times(),
            record.prepared_transaction_offset(),
            record.body().len(),
            if record.body_crc_fits() { "ok" } else { "WRONG" },
        )?;
        for (name, value) in record.properties() {
            write!(out, " {}={:?}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))?;
        }
        Ok(writeln!(out)?)
    })?;
    match error {
        // Zeros: nothing was written there yet.
        Some(error) if error != RecordError::Magic(0) => writeln!(out, "log end={end} ({error})")?,
        _ => writeln!(out, "log end={end}")?,
    }
    Ok(())
}

fn consume_queues(store: &StoreDir, filter: &DumpFilter, out: &mut dyn Write) -> Result<(), CtlError> {
    for queue in store.queues()?.iter().filter(|queue| filter.takes(&queue.topic, queue.id)) {
        queue.walk(|entry| {
            if entry.unit.is_filler() {
                return Ok(writeln!(out, "filler topic={} queue={} offset={}", queue.topic, queue.id, entry.offset)?);
            }
            let unit = entry.unit;
            write!(out, "unit topic={} queue={} offset={}", queue.topic, queue.id, entry.offset)?;
            write!(out, " phys={} size={} tagsCode={}", unit.phys, unit.size, unit.tags_code)?;
            if queue.batch {
                write!(out, " count={} storeTime={}", entry.count, entry.store_timestamp)?;
            }
            Ok(writeln!(out)?)
        })?;
    }
    Ok(())
}

fn index(store: &StoreDir, out: &mut dyn Write) -> Result<(), CtlError> {
    for file in store.index_files()? {
        writeln!(
            out,
            "index file={} beginTime={} endTime={} beginPhys={} endPhys={} slots={} count={}",
            file.path.display(),
            file.begin_timestamp,
            file.end_timestamp,
            file.begin_phys,
            file.end_phys,
            file.slot_count,
            file.count
        )?;
        for (number, entry) in file.entries.iter().enumerate().skip(1) {
            writeln!(
                out,
                "entry number={number} hash={} phys={} seconds={} older={}",
                entry.hash, entry.phys, entry.seconds, entry.older
            )?;
        }
    }
    Ok(())
}

/// The texts of `config/`, each as the broker would take it.
fn configuration(store: &StoreDir, out: &mut dyn Write) -> Result<(), CtlError> {
    for path in list(&store.root().join("config"))? {
        let text = path.extension().is_some_and(|extension| extension == "json");
        if !text || !path.is_file() {
            continue;
        }
        match JsonFile::new(&path).load() {
            Ok(Loaded::Text { text, source }) => {
                let source = if source == Source::Backup { " (from its backup)" } else { "" };
                writeln!(out, "config file={}{source}", path.display())?;
                writeln!(out, "{}", text.trim_end())?;
            }
            Ok(Loaded::Missing) => {}
            Ok(Loaded::Damaged) => writeln!(out, "config file={} DAMAGED, no backup", path.display())?,
            Err(crate::StoreError::Io { path, source }) => return Err(read_error(&path, source)),
            Err(error) => writeln!(out, "config file={} DAMAGED: {error}", path.display())?,
        }
    }
    Ok(())
}
