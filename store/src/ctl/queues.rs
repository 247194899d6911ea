//! The units of consume queue files.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::{CtlError, list, offset_of, read_error};
use crate::queue::unit::{BATCH_UNIT_LEN, Entry, UNIT_LEN};

/// A queue's files.
#[derive(Debug)]
pub(super) struct QueueDump {
    pub(super) topic: String,
    pub(super) id: i32,
    pub(super) batch: bool,
    files: Vec<PathBuf>,
}

impl QueueDump {
    /// Every `DIR/TOPIC/ID`, in order of name and number.
    pub(super) fn all(dir: &Path, batch: bool) -> Result<Vec<QueueDump>, CtlError> {
        let mut queues = Vec::new();
        for topic in list(dir)?.into_iter().filter(|path| path.is_dir()) {
            for queue in list(&topic)?.into_iter().filter(|path| path.is_dir()) {
                let name =
                    |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                let Ok(id) = name(&queue).parse() else { continue };
                let files = list(&queue)?.into_iter().filter(|path| path.is_file()).collect();
                queues.push(QueueDump { topic: name(&topic), id, batch, files });
            }
        }
        queues.sort_by(|a, b| (&a.topic, a.id).cmp(&(&b.topic, b.id)));
        Ok(queues)
    }

    /// Visits the written units in order, fillers included: up to the first that was not written, as a broker does
    /// when it starts, but in every file.
    pub(super) fn walk(&self, mut each: impl FnMut(&Entry) -> Result<(), CtlError>) -> Result<(), CtlError> {
        let unit_len = if self.batch { BATCH_UNIT_LEN } else { UNIT_LEN };
        for path in &self.files {
            let base = offset_of(path)?;
            let mut file = File::open(path).map_err(|source| read_error(path, source))?;
            let len = file.metadata().map_err(|source| read_error(path, source))?.len();
            if !len.is_multiple_of(unit_len as u64) || !base.is_multiple_of(unit_len as u64) {
                let what = format!("{len} bytes from offset {base}: not units of {unit_len} bytes");
                return Err(CtlError::Bad { path: path.clone(), what });
            }
            let mut index = (base / unit_len as u64) as i64;
            let mut buffer = vec![0; unit_len * 3000];
            loop {
                let read = read_full(&mut file, &mut buffer).map_err(|source| read_error(path, source))?;
                for bytes in buffer[..read].chunks_exact(unit_len) {
                    match Entry::decode(index, bytes).filter(Entry::is_written) {
                        Some(entry) => each(&entry)?,
                        None => return Ok(()),
                    }
                    index += 1;
                }
                if read < buffer.len() {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn read_full(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read(&mut buffer[read..])? {
            0 => break,
            n => read += n,
        }
    }
    Ok(read)
}
