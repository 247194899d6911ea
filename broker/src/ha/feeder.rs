//! The master's end of one replication connection: what to send, what the slave has, when to give up. No socket, no clock.
//!
//! A slave's first report says from where it wants the log: 0, an empty slave, stands for the start of the newest file, as
//! in Java; a negative one is no answer yet. Every report says how far the slave has the log. Java believes a report above
//! the end of its own log and counts every later message as replicated; such a slave has another log, and its connection
//! is closed here. The first report is only a question: a slave whose log is another one has yet to find that out, so what
//! it says to have then confirms nothing.
//!
//! What a slave asks for and the log has no longer (its file is deleted) is not sent, and nothing else is: only signs of
//! life, until somebody sets up the slave anew. As in Java.
//!
//! Times are milliseconds of one clock, whichever.

use thiserror::Error;

use super::flow::Flow;
use super::wire::{Gather, HEADER_LEN, Header, REPORT_LEN};

/// What is configured; may change from call to call.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// `haSendHeartbeatInterval`: after so many milliseconds without a frame comes an empty one.
    pub heartbeat: u64,
    /// `haHousekeepingInterval`: after so many milliseconds without a report the connection is given up.
    pub housekeeping: u64,
    /// `haTransferBatchSize`: most bytes of a frame.
    pub batch: u32,
    /// `maxHaTransferByteInSecond`, with `haFlowControlEnable`.
    pub per_second: Option<u64>,
}

/// The master's log at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogState {
    /// Where its newest file begins.
    pub newest_file: u64,
    /// Where it ends.
    pub end: u64,
}

/// Bytes to send: the head, then the log's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The head.
    pub header: [u8; HEADER_LEN],
    /// Where the bytes lie in the log.
    pub offset: u64,
    /// How many.
    pub len: u64,
}

/// Why the master closes a connection: the slave's fault, or the network's.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Close {
    /// The slave has another log, or more of it than the master.
    #[error("the slave reports {report}, but the log ends at {end}: it has messages that this master does not have")]
    AboveLog {
        /// What it said.
        report: i64,
        /// Where the log ends.
        end: u64,
    },
    /// Nothing came for too long.
    #[error("the slave has said nothing for {0} ms")]
    Silent(u64),
}

/// See the module's text.
#[derive(Debug)]
pub struct Feeder {
    report: Gather<REPORT_LEN>,
    acked: i64,
    confirmed: u64,
    next: Option<u64>,
    last_read: u64,
    last_write: u64,
    flow: Flow,
    throttled: bool,
}

impl Feeder {
    /// A connection that was just made.
    pub fn new(now: u64) -> Feeder {
        Feeder {
            report: Gather::default(),
            acked: -1,
            confirmed: 0,
            next: None,
            last_read: now,
            last_write: now,
            flow: Flow::default(),
            throttled: false,
        }
    }

    /// How far the slave has the log, as it said last; -1 before it said anything.
    pub fn acked(&self) -> i64 {
        self.acked
    }

    /// How far it certainly has the log: what it said since it has been sent the log.
    pub fn confirmed(&self) -> u64 {
        self.confirmed
    }

    /// Where the next frame begins; `None` before the slave has asked.
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// Bytes that went in the last whole second.
    pub fn per_second(&self, now: u64) -> u64 {
        self.flow.per_second(now)
    }

    /// Bytes have come. True: the slave has reported.
    ///
    /// # Errors
    /// The connection must be closed; what came does not count.
    pub fn received(&mut self, mut bytes: &[u8], log: LogState, now: u64) -> Result<bool, Close> {
        self.last_read = now;
        let mut reported = false;
        while let Some(report) = self.report.take(&mut bytes) {
            let report = i64::from_be_bytes(report);
            match (u64::try_from(report), self.next) {
                (Ok(position), _) if position > log.end => {
                    self.acked = -1;
                    return Err(Close::AboveLog { report, end: log.end });
                }
                (Ok(0), None) => self.next = Some(log.newest_file),
                (Ok(from), None) => self.next = Some(from),
                (Ok(position), Some(_)) => self.confirmed = position,
                (Err(_), _) => {}
            }
            self.acked = report;
            reported = true;
        }
        Ok(reported)
    }

    /// The next frame, when there is something to send now. `available` is how many bytes of the log stand in one piece at
    /// [`Feeder::next`]. The frame counts as sent.
    pub fn frame(&mut self, available: u64, settings: &Settings, now: u64) -> Option<Frame> {
        let offset = self.next?;
        let wanted = available.min(settings.batch.into());
        let len = wanted.min(self.flow.left(settings.per_second, now));
        self.throttled = len < wanted;
        if len == 0 {
            return None;
        }
        self.next = Some(offset + len);
        Some(self.make(offset, len, now))
    }

    /// Whether bytes wait only because of `maxHaTransferByteInSecond`.
    pub fn is_throttled(&self) -> bool {
        self.throttled
    }

    /// Looks at the clock: perhaps a sign of life is due. `idle`: nothing waits to be written.
    ///
    /// # Errors
    /// The connection must be closed.
    pub fn tick(&mut self, idle: bool, settings: &Settings, now: u64) -> Result<Option<Frame>, Close> {
        let silent = now.saturating_sub(self.last_read);
        if silent > settings.housekeeping {
            return Err(Close::Silent(silent));
        }
        let due = idle && now.saturating_sub(self.last_write) > settings.heartbeat;
        Ok(self.next.filter(|_| due).map(|offset| self.make(offset, 0, now)))
    }

    /// When [`Feeder::tick`] or [`Feeder::frame`] is to be called at the latest.
    pub fn wakes_at(&self, settings: &Settings) -> u64 {
        let close = self.last_read.saturating_add(settings.housekeeping);
        let beat = self.next.map_or(u64::MAX, |_| self.last_write.saturating_add(settings.heartbeat));
        let turn = if self.throttled { self.flow.turns_at() } else { u64::MAX };
        close.min(beat).saturating_add(1).min(turn)
    }

    fn make(&mut self, offset: u64, len: u64, now: u64) -> Frame {
        self.last_write = now;
        self.flow.add(len + HEADER_LEN as u64, now);
        Frame { header: Header { offset, len: len as u32 }.encode(), offset, len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Settings = Settings { heartbeat: 5000, housekeeping: 20_000, batch: 32_768, per_second: None };
    const LOG: LogState = LogState { newest_file: 4096, end: 5000 };

    fn report(feeder: &mut Feeder, offset: i64) -> Result<bool, Close> {
        feeder.received(&offset.to_be_bytes(), LOG, 0)
    }

    #[test]
    fn where_it_begins() {
        for (first, next) in [(0, Some(4096)), (100, Some(100)), (5000, Some(5000)), (-1, None), (i64::MIN, None)] {
            let mut feeder = Feeder::new(0);
            assert_eq!(feeder.frame(10, &SETTINGS, 0), None);
            let _ = report(&mut feeder, first).unwrap();
            assert_eq!((feeder.next(), feeder.acked()), (next, first));
            assert_eq!(feeder.frame(10, &SETTINGS, 0).map(|frame| frame.offset), next);
        }
        // What it says later does not move what is sent.
        let mut feeder = Feeder::new(0);
        assert!(report(&mut feeder, 100).unwrap());
        assert_eq!((feeder.acked(), feeder.confirmed()), (100, 0));
        assert!(report(&mut feeder, 50).unwrap());
        assert_eq!((feeder.next(), feeder.acked(), feeder.confirmed()), (Some(100), 50, 50));
    }

    #[test]
    fn h_01_a_report_above_the_log_never_counts() {
        let mut feeder = Feeder::new(0);
        assert!(report(&mut feeder, 5000).unwrap());
        assert_eq!(report(&mut feeder, 6000), Err(Close::AboveLog { report: 6000, end: 5000 }));
        assert_eq!(feeder.acked(), -1);
        let mut feeder = Feeder::new(0);
        assert_eq!(report(&mut feeder, 10_000), Err(Close::AboveLog { report: 10_000, end: 5000 }));
        assert_eq!((feeder.acked(), feeder.next()), (-1, None));
        assert!(report(&mut Feeder::new(0), i64::MAX).is_err());
    }

    #[test]
    fn reports_come_in_pieces() {
        let mut feeder = Feeder::new(0);
        let bytes = [100i64, 200, 300].map(i64::to_be_bytes).concat();
        let seen: Vec<_> = bytes.chunks(5).map(|bytes| feeder.received(bytes, LOG, 0).unwrap()).collect();
        assert_eq!(seen, [false, true, false, true, true]);
        assert_eq!((feeder.acked(), feeder.next()), (300, Some(100)));
    }

    #[test]
    fn frames_are_cut_at_the_batch_size() {
        let mut feeder = Feeder::new(0);
        report(&mut feeder, 10).unwrap();
        let frame = feeder.frame(100_000, &SETTINGS, 0).unwrap();
        assert_eq!((frame.offset, frame.len), (10, 32_768));
        assert_eq!(Header::decode(&frame.header), Some(Header { offset: 10, len: 32_768 }));
        assert_eq!(feeder.frame(1, &SETTINGS, 0).map(|frame| frame.offset), Some(32_778));
        assert_eq!(feeder.frame(0, &SETTINGS, 0), None);
    }

    #[test]
    fn h_03_signs_of_life() {
        let mut feeder = Feeder::new(0);
        assert_eq!(feeder.tick(true, &SETTINGS, 19_000), Ok(None));
        feeder.received(&5000i64.to_be_bytes(), LOG, 19_000).unwrap();
        let beat = feeder.tick(true, &SETTINGS, 19_001).unwrap().unwrap();
        assert_eq!((beat.offset, beat.len), (5000, 0));
        assert_eq!(feeder.tick(true, &SETTINGS, 24_001), Ok(None));
        assert_eq!(feeder.wakes_at(&SETTINGS), 24_002);
        assert_eq!(feeder.tick(false, &SETTINGS, 24_002), Ok(None));
        assert!(feeder.tick(true, &SETTINGS, 24_002).unwrap().is_some());
        assert!(feeder.tick(true, &SETTINGS, 39_000).unwrap().is_some());
        assert_eq!(feeder.tick(true, &SETTINGS, 39_001), Err(Close::Silent(20_001)));
    }

    #[test]
    fn a_limit_a_second() {
        let slow = Settings { per_second: Some(50_000), ..SETTINGS };
        let mut feeder = Feeder::new(0);
        report(&mut feeder, 10).unwrap();
        let mut lens = || feeder.frame(100_000, &slow, 1500).map(|frame| frame.len);
        assert_eq!((lens(), lens(), lens()), (Some(32_768), Some(50_000 - 32_768 - 12), None));
        assert!(feeder.is_throttled());
        assert_eq!(feeder.wakes_at(&slow), 2500);
        assert_eq!(feeder.frame(7, &slow, 2500).map(|frame| frame.len), Some(7));
        assert!(!feeder.is_throttled());
    }
}
