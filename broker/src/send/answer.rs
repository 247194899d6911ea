//! The answer to a send, written without an allocation.

use std::fmt::{self, Write};

use remoting::{FieldSink, WriteHeader};

/// Fields that every answer to a send carries, refusals included.
#[derive(Clone, Copy, Debug)]
pub struct Region<'a> {
    /// `MSG_REGION`.
    pub region: &'a str,
    /// `TRACE_ON`.
    pub trace_on: bool,
}

impl WriteHeader for Region<'_> {
    fn write(&self, sink: &mut dyn FieldSink) {
        sink.text("MSG_REGION", self.region);
        sink.flag("TRACE_ON", self.trace_on);
    }
}

/// Where a message went.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// See [`Region`].
    pub region: Region<'a>,
    /// The id, or the ids of a batch separated by commas.
    pub message_id: &'a str,
    /// The queue that was asked for (not the level's queue of a delayed message).
    pub queue_id: i32,
    /// Position of the (first) message in the queue that it went to.
    pub queue_offset: i64,
    /// The producer's unique key.
    pub transaction_id: Option<&'a str>,
    /// With what the message can be recalled while the timer has it.
    pub recall_handle: Option<&'a str>,
    /// The producer's unique key, when the messages of a batch stayed one record: that they did is news to the producer.
    pub batch_id: Option<&'a str>,
}

impl WriteHeader for Stored<'_> {
    fn write(&self, sink: &mut dyn FieldSink) {
        sink.text("msgId", self.message_id);
        sink.number("queueId", i64::from(self.queue_id));
        sink.number("queueOffset", self.queue_offset);
        if let Some(id) = self.transaction_id {
            sink.text("transactionId", id);
        }
        if let Some(handle) = self.recall_handle {
            sink.text("recallHandle", handle);
        }
        if let Some(id) = self.batch_id {
            sink.text("batchUniqId", id);
        }
        self.region.write(sink);
    }
}

/// A short ASCII text on the stack: a message id has 32 or 56 characters.
#[derive(Clone, Copy)]
pub struct IdText {
    bytes: [u8; 56],
    length: usize,
}

impl IdText {
    /// The text of an id.
    pub fn of(id: impl fmt::Display) -> IdText {
        let mut text = IdText { bytes: [0; 56], length: 0 };
        // Longer than any id: cut.
        let _ = write!(text, "{id}");
        text
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl fmt::Write for IdText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let free = self.bytes.get_mut(self.length..self.length + text.len()).ok_or(fmt::Error)?;
        free.copy_from_slice(text.as_bytes());
        self.length += text.len();
        Ok(())
    }
}

impl fmt::Debug for IdText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
