//! The slave's end of one replication connection: what comes is checked, put into whole records, and appended. No socket,
//! no clock.
//!
//! **Only whole records** enter the slave's log: what has come of a record waits here. So the log ends in a record whenever
//! the process dies, and everything that reads it needs to know nothing of replication.
//!
//! **Another log is never taken for the master's.** A Java slave asks for its log from its own end on and appends what
//! comes. When its log has a tail that the master does not have (the master lost what it had not flushed, or another broker
//! was master meanwhile), that tail stays, and as soon as the master has grown past it, the rest of the master's log is
//! appended behind it. Here the slave asks for the last bytes of its own log again ([`OVERLAP`]) and compares them. When they
//! differ the connection is closed and nothing is appended; the tail may be all that is left of acknowledged messages, so
//! it is not cut off either. Until all of them have come nothing is reported but the position that is asked for. An operator has to decide: usually to empty the slave's store, which then copies the newest
//! file of the master and what follows.
//!
//! **Files of another size** show where a file's blank record does not end at the end of one of the slave's files, and in
//! records that would span two. The connection is closed. (Java appends as long as it fits.)
//!
//! Times are milliseconds of one clock, whichever.

use std::ops::Range;

use store::record::{BLANK_MAGIC, BLANK_MIN, MIN_RECORD, PHYS_OFFSET, Version};
use thiserror::Error;

use super::wire::{Gather, HEADER_LEN, Header, REPORT_LEN};

/// So many bytes at the end of the slave's log are asked for again and compared.
pub const OVERLAP: u64 = 64 * 1024;
/// Fewer bytes than these do not tell two logs apart.
const LEAST_OVERLAP: u64 = 64;
/// The longest record. Longer ones reach no master: a request has 16 MiB at most.
const LONGEST_RECORD: u64 = 64 << 20;

/// The slave's own log.
pub trait Log {
    /// Whether its bytes at an offset, which all lie before its end, are these.
    fn matches(&self, offset: u64, bytes: &[u8]) -> bool;

    /// Appends whole records at its end, which is `offset`; in an empty log that makes it begin there.
    ///
    /// # Errors
    /// They are not in the log.
    fn append(&mut self, offset: u64, records: &[u8]) -> Result<(), String>;
}

/// Why the slave closes a connection.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Close {
    /// The master does not speak this protocol.
    #[error("not a frame of a master: {0:?}")]
    BadFrame([u8; HEADER_LEN]),
    /// A frame does not go on where the last one ended.
    #[error("the master goes on at {got} instead of {expected}")]
    Gap {
        /// Where the frame should begin.
        expected: u64,
        /// Where it says that it begins.
        got: u64,
    },
    /// The slave's log is not a part of the master's.
    #[error(
        "this slave's log differs from the master's between {} and {}: nothing is copied until one of the two is removed",
        .0.start, .0.end
    )]
    Diverged(Range<u64>),
    /// The master sends nothing of what the slave has.
    #[error(
        "the master has nothing at {0}, where the last part of this slave's log begins: it has lost it, or deleted it"
    )]
    NotThere(u64),
    /// The commitlog files of the master are shorter or longer.
    #[error("the master's commitlog files have another size: its data at {0} does not fit into files of {1} bytes")]
    OtherFileSize(u64, u64),
    /// What came is no record.
    #[error("no record comes at {0}")]
    NotARecord(u64),
    /// The slave's store took nothing.
    #[error("cannot append at {0}: {1}")]
    Refused(u64, String),
    /// Nothing came for too long.
    #[error("the master has said nothing for {0} ms")]
    Silent(u64),
}

/// See the module's text.
#[derive(Debug)]
pub struct Follower {
    file_len: u64,
    /// What was asked for first; 0 for an empty log.
    start: u64,
    /// Where the own log ended then: what comes before it is compared.
    own_end: u64,
    header: Gather<HEADER_LEN>,
    /// Bytes of the frame that have not come.
    left: u32,
    /// The next byte that comes; `None` when the log is empty and the master says where it begins.
    at: Option<u64>,
    /// Where an empty log begins, until it has its first record.
    begins: Option<u64>,
    /// The beginning of a record.
    pending: Vec<u8>,
    /// The master had nothing more to send at a moment when it had not sent all that is in the own log.
    behind: bool,
    reported: Option<u64>,
    last_read: u64,
    last_write: u64,
}

impl Follower {
    /// A connection that was just made, of a slave whose log has `log` in files of `file_len` bytes. `tail` is the end of
    /// what is not zero in it: the blank at the end of a file looks the same in every log.
    pub fn new(log: Range<u64>, tail: u64, file_len: u64, now: u64) -> Follower {
        let start = ask_from(&log, tail, file_len);
        Follower {
            file_len,
            start,
            own_end: log.end,
            header: Gather::default(),
            left: 0,
            at: (log.end > 0).then_some(start),
            begins: None,
            pending: Vec::new(),
            behind: false,
            reported: None,
            last_read: now,
            last_write: now,
        }
    }

    /// How far the slave certainly has the master's log; 0 until all has come that is compared.
    pub fn position(&self) -> u64 {
        let at = self.at.unwrap_or(0);
        if self.begins.is_some() || at < self.own_end { 0 } else { self.end() }
    }

    /// What is asked for first.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Where the next record begins.
    fn end(&self) -> u64 {
        self.at.map_or(0, |at| at - self.pending.len() as u64)
    }

    /// Whether the master's log ended before the own one. What it appends then is compared, too.
    pub fn master_is_behind(&self) -> bool {
        self.behind
    }

    /// Bytes have come.
    ///
    /// # Errors
    /// The connection must be closed.
    pub fn received(&mut self, mut bytes: &[u8], log: &mut impl Log, now: u64) -> Result<(), Close> {
        self.last_read = now;
        while !bytes.is_empty() {
            if self.left == 0 {
                if let Some(header) = self.header.take(&mut bytes) {
                    self.begin(Header::decode(&header).ok_or(Close::BadFrame(header))?)?;
                }
                continue;
            }
            let (body, rest) = bytes.split_at(bytes.len().min(self.left as usize));
            self.left -= body.len() as u32;
            bytes = rest;
            self.body(body, log)?;
        }
        Ok(())
    }

    /// The report that is due: the first one, one of progress, a sign of life.
    pub fn report(&mut self, heartbeat: u64, now: u64) -> Option<[u8; REPORT_LEN]> {
        let beat = now.saturating_sub(self.last_write) > heartbeat;
        let position = match self.reported {
            None => self.start,
            Some(reported) => {
                let position = self.position();
                // What was asked for counts as reported, but confirms nothing.
                if !beat && (position == reported || position == 0) {
                    return None;
                }
                position
            }
        };
        self.reported = Some(position);
        self.last_write = now;
        Some(position.to_be_bytes())
    }

    /// Looks at the clock.
    ///
    /// # Errors
    /// The connection must be closed.
    pub fn tick(&self, housekeeping: u64, now: u64) -> Result<(), Close> {
        let silent = now.saturating_sub(self.last_read);
        if silent > housekeeping { Err(Close::Silent(silent)) } else { Ok(()) }
    }

    /// When [`Follower::tick`] or [`Follower::report`] is to be called at the latest.
    pub fn wakes_at(&self, heartbeat: u64, housekeeping: u64) -> u64 {
        self.last_write.saturating_add(heartbeat).min(self.last_read.saturating_add(housekeeping)).saturating_add(1)
    }

    fn begin(&mut self, header: Header) -> Result<(), Close> {
        match self.at {
            Some(at) if header.offset != at => return Err(Close::Gap { expected: at, got: header.offset }),
            // Whoever had it would have sent it before.
            Some(at) if header.len == 0 && at == self.start && at < self.own_end => return Err(Close::NotThere(at)),
            Some(at) if header.len == 0 => self.behind |= at < self.own_end,
            None if header.len > 0 => {
                if !header.offset.is_multiple_of(self.file_len) {
                    return Err(Close::OtherFileSize(header.offset, self.file_len));
                }
                (self.at, self.begins) = (Some(header.offset), Some(header.offset));
            }
            _ => {}
        }
        self.left = header.len;
        Ok(())
    }

    fn body(&mut self, bytes: &[u8], log: &mut impl Log) -> Result<(), Close> {
        let at = self.at.unwrap_or(0);
        let (known, new) = bytes.split_at(bytes.len().min(self.own_end.saturating_sub(at) as usize));
        if !known.is_empty() {
            let end = at + known.len() as u64;
            if !log.matches(at, known) {
                return Err(Close::Diverged(at..end));
            }
            self.at = Some(end);
        }
        self.records(new, log)
    }

    /// Takes bytes behind the end of the own log.
    fn records(&mut self, mut bytes: &[u8], log: &mut impl Log) -> Result<(), Close> {
        while !self.pending.is_empty() && !bytes.is_empty() {
            let start = self.end();
            let need = match size_at(&self.pending, start, self.file_len)? {
                Some(size) => size,
                None => BLANK_MIN,
            };
            let (now, rest) = bytes.split_at(bytes.len().min(need - self.pending.len()));
            self.pending.extend_from_slice(now);
            self.at = Some(start + self.pending.len() as u64);
            bytes = rest;
            if size_at(&self.pending, start, self.file_len)? == Some(self.pending.len()) {
                check(&self.pending, start)?;
                log.append(start, &self.pending).map_err(|why| Close::Refused(start, why))?;
                self.begins = None;
                // What a long record took is given back.
                self.pending = Vec::new();
            }
        }
        let start = self.end();
        let mut whole = 0;
        while let rest = &bytes[whole..]
            && let Some(size) = size_at(rest, start + whole as u64, self.file_len)?
            && let Some(record) = rest.get(..size)
        {
            check(record, start + whole as u64)?;
            whole += size;
        }
        let (records, rest) = bytes.split_at(whole);
        if !records.is_empty() {
            log.append(start, records).map_err(|why| Close::Refused(start, why))?;
            self.begins = None;
        }
        self.pending.extend_from_slice(rest);
        self.at = self.at.map(|at| at + bytes.len() as u64);
        Ok(())
    }
}

/// What a slave with that log asks for first.
fn ask_from(log: &Range<u64>, tail: u64, file_len: u64) -> u64 {
    if log.end == 0 {
        return 0;
    }
    // The master has the file where the log ends; older ones it may have deleted.
    let file = tail.saturating_sub(1) / file_len * file_len;
    let file = if tail - file < LEAST_OVERLAP { file.saturating_sub(file_len) } else { file };
    // 0 would stand for the newest file of the master, wherever that begins.
    tail.saturating_sub(OVERLAP).max(file).max(log.start).max(1)
}

/// The size of the record that begins with these bytes; `None` when too few have come.
fn size_at(bytes: &[u8], at: u64, file_len: u64) -> Result<Option<usize>, Close> {
    let Some((size, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let Some(magic) = rest.first_chunk::<4>() else { return Ok(None) };
    let (size, magic) = (u64::from(u32::from_be_bytes(*size)), u32::from_be_bytes(*magic));
    let room = file_len - at % file_len;
    let fits = match Version::of_magic(magic) {
        Some(_) if size < MIN_RECORD as u64 || size > LONGEST_RECORD => return Err(Close::NotARecord(at)),
        Some(_) => size <= room,
        None if magic == BLANK_MAGIC => size == room,
        None => return Err(Close::NotARecord(at)),
    };
    if fits { Ok(Some(size as usize)) } else { Err(Close::OtherFileSize(at, file_len)) }
}

/// A record says itself where it is.
fn check(record: &[u8], at: u64) -> Result<(), Close> {
    let blank = record.get(4..8) == Some(&BLANK_MAGIC.to_be_bytes());
    let there = || record.get(PHYS_OFFSET..PHYS_OFFSET + 8) == Some(&at.to_be_bytes());
    if blank || there() { Ok(()) } else { Err(Close::NotARecord(at)) }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use store::record::{NewRecord, write_blank};

    use super::*;

    const FILE: u64 = 4096;

    #[derive(Default)]
    struct Bytes {
        start: u64,
        bytes: Vec<u8>,
        refuse: bool,
    }

    impl Log for Bytes {
        fn matches(&self, offset: u64, bytes: &[u8]) -> bool {
            let at = (offset - self.start) as usize;
            self.bytes[at..at + bytes.len()] == *bytes
        }

        fn append(&mut self, offset: u64, records: &[u8]) -> Result<(), String> {
            if self.refuse {
                return Err("full".into());
            }
            if self.bytes.is_empty() {
                self.start = offset;
            }
            assert_eq!(offset, self.end());
            self.bytes.extend_from_slice(records);
            Ok(())
        }
    }

    impl Bytes {
        fn end(&self) -> u64 {
            self.start + self.bytes.len() as u64
        }

        fn push(&mut self, body: &[u8]) {
            let mut record = record(self.end(), body);
            let room = FILE - self.end() % FILE;
            if record.len() as u64 + 8 > room {
                let mut blank = vec![0; room as usize];
                write_blank(blank.first_chunk_mut().unwrap(), room as u32);
                self.bytes.extend(blank);
                record = self::record(self.end(), body);
            }
            self.bytes.extend(record);
        }

        fn follow(&self) -> Follower {
            let zeros = self.bytes.iter().rev().take_while(|byte| **byte == 0).count() as u64;
            Follower::new(self.start..self.end(), self.end() - zeros, FILE, 0)
        }
    }

    fn record(at: u64, body: &[u8]) -> Vec<u8> {
        let host = SocketAddr::from(([127, 0, 0, 1], 1));
        let new = NewRecord {
            version: Version::V1,
            body_crc: 0,
            queue_id: 0,
            flag: 0,
            queue_offset: 0,
            phys_offset: at as i64,
            sys_flag: 0,
            born_timestamp: 0,
            born_host: host,
            store_timestamp: 0,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body,
            topic: "T",
            properties: b"",
            crc_property: false,
        };
        let mut bytes = vec![0; new.encoded_len()];
        new.encode(&mut bytes);
        bytes
    }

    fn frame(offset: u64, bytes: &[u8]) -> Vec<u8> {
        [&Header { offset, len: bytes.len() as u32 }.encode()[..], bytes].concat()
    }

    fn log(bodies: &[&[u8]]) -> Bytes {
        let mut log = Bytes::default();
        bodies.iter().for_each(|body| log.push(body));
        log
    }

    fn reported(follower: &mut Follower, now: u64) -> Option<u64> {
        follower.report(5000, now).map(u64::from_be_bytes)
    }

    #[test]
    fn whole_records_whatever_the_pieces() {
        let master = log(&[b"first", &[7; 3000], b"second", &[8; 2000], b"third"]);
        for cut in 0..400 {
            let mut own = Bytes::default();
            let mut follower = own.follow();
            assert_eq!(reported(&mut follower, 0), Some(0));
            // Frames end where the master likes, and bytes come as the network likes.
            let mut stream = Vec::new();
            let mut at = 0;
            for frame_len in [50 + cut, 900, 33, 4096] {
                let end = (at + frame_len).min(master.bytes.len());
                // None spans two files.
                let end = end.min((at / 4096 + 1) * 4096);
                stream.extend(frame(at as u64, &master.bytes[at..end]));
                at = end;
            }
            for piece in stream.chunks(61 + cut * 7) {
                follower.received(piece, &mut own, 1).unwrap();
                let end = own.end();
                assert_eq!((follower.position(), &own.bytes[..]), (end, &master.bytes[..end as usize]));
                let _ = size_at(&master.bytes[end as usize..], end, FILE).unwrap();
            }
            assert!(own.end() > 3000, "{cut}");
        }
    }

    #[test]
    fn it_asks_for_its_last_bytes_again() {
        let master = log(&[b"first", b"second", b"third"]);
        let mut own = log(&[b"first", b"second"]);
        let mut follower = own.follow();
        assert_eq!(reported(&mut follower, 0), Some(1));
        follower.received(&frame(1, &master.bytes[1..]), &mut own, 0).unwrap();
        assert_eq!((reported(&mut follower, 0), &own.bytes), (Some(master.end()), &master.bytes));
        assert_eq!(reported(&mut follower, 5000), None);
        assert_eq!(reported(&mut follower, 5001), Some(master.end()));
    }

    #[test]
    fn a_log_that_differs_is_left_alone() {
        let (master, mut own) = (log(&[b"first", b"other", b"third"]), log(&[b"first", b"tail!"]));
        let (before, mut follower) = (own.bytes.clone(), own.follow());
        let error = follower.received(&frame(1, &master.bytes[1..]), &mut own, 0).unwrap_err();
        assert!(matches!(error, Close::Diverged(_)), "{error}");
        assert_eq!(own.bytes, before);
        // The master is shorter at first: nothing above its end is reported, and what it appends is compared.
        let mut short = log(&[b"first"]);
        let mut follower = own.follow();
        follower.received(&frame(1, &short.bytes[1..]), &mut own, 0).unwrap();
        follower.received(&frame(short.end(), b""), &mut own, 0).unwrap();
        assert!(follower.master_is_behind());
        assert_eq!((reported(&mut follower, 0), reported(&mut follower, 0)), (Some(1), None));
        assert_eq!((reported(&mut follower, 5001), follower.position()), (Some(0), 0));
        let end = short.end();
        short.push(b"other");
        let error = follower.received(&frame(end, &short.bytes[end as usize..]), &mut own, 0).unwrap_err();
        assert!(matches!(error, Close::Diverged(_)), "{error}");
        assert_eq!(own.bytes, before);
    }

    #[test]
    fn a_master_without_what_the_slave_has() {
        let mut own = log(&[b"first", b"tail!"]);
        let mut follower = own.follow();
        assert_eq!(follower.received(&frame(1, b""), &mut own, 0), Err(Close::NotThere(1)));
        // A sign of life is nothing special for a slave that has all, or nothing.
        let mut empty = Bytes::default();
        empty.follow().received(&frame(3 * FILE, b""), &mut empty, 0).unwrap();
    }

    #[test]
    fn blanks_tell_no_logs_apart() {
        let mut own = log(&[&[1; 2000]]);
        let end = own.end();
        own.push(&[2; 3000]);
        own.bytes.truncate(FILE as usize);
        assert!(end < FILE && own.follow().start == 1);
        // Zeros to the end of the file: what is before them counts.
        assert_eq!(ask_from(&(0..1 << 30), (1 << 30) - (1 << 20), 1 << 30), (1 << 30) - (1 << 20) - OVERLAP);
    }

    #[test]
    fn where_it_begins_to_compare() {
        const BIG: u64 = 1 << 30;
        for (log, from) in [
            (0..0, 0),
            (0..40, 1),
            (0..OVERLAP, 1),
            (0..OVERLAP + 5, 5),
            (0..BIG + 10, BIG + 10 - OVERLAP),
            (0..BIG + 64, BIG),
            (BIG..BIG + 10, BIG),
            (0..BIG, BIG - OVERLAP),
            (BIG..BIG, BIG),
        ] {
            assert_eq!(ask_from(&log, log.end, BIG), from, "{log:?}");
        }
    }

    #[test]
    fn files_of_another_size() {
        let master = log(&[&[1; 2000], &[2; 3000]]);
        for (file, at) in [(2 * FILE, 2089), (3000, 4096)] {
            let mut own = Bytes::default();
            let mut follower = Follower::new(0..0, 0, file, 0);
            let error = follower
                .received(&frame(0, &master.bytes[..4096]), &mut own, 0)
                .and_then(|()| follower.received(&frame(4096, &master.bytes[4096..]), &mut own, 0));
            assert!(matches!(error, Err(Close::OtherFileSize(_, len)) if len == file), "{error:?} {at}");
        }
        let mut own = Bytes::default();
        let error = own.follow().received(&frame(100, b"x"), &mut own, 0);
        assert_eq!(error, Err(Close::OtherFileSize(100, FILE)));
    }

    #[test]
    fn what_no_master_sends() {
        let mut own = log(&[b"first"]);
        let end = own.end();
        let mut close = |bytes: &[u8]| {
            let mut follower = own.follow();
            follower.received(&frame(1, &own.bytes.clone()[1..]), &mut own, 0).unwrap();
            follower.received(bytes, &mut own, 0).unwrap_err()
        };
        assert!(matches!(close(&[255; 12]), Close::BadFrame(_)));
        assert_eq!(close(&frame(end + 1, b"x")), Close::Gap { expected: end, got: end + 1 });
        assert_eq!(close(&frame(end, &[0; 8])), Close::NotARecord(end));
        assert_eq!(close(&frame(end, &record(end + 1, b"moved"))), Close::NotARecord(end));
        let mut short = record(end, b"short");
        short[3] = 10;
        assert_eq!(close(&frame(end, &short)), Close::NotARecord(end));
        let mut long = record(end, b"long");
        long[..4].copy_from_slice(&5000u32.to_be_bytes());
        assert_eq!(close(&frame(end, &long)), Close::OtherFileSize(end, FILE));
        own.refuse = true;
        let mut follower = own.follow();
        follower.received(&frame(1, &own.bytes.clone()[1..]), &mut own, 0).unwrap();
        let error = follower.received(&frame(end, &record(end, b"x")), &mut own, 0).unwrap_err();
        assert_eq!((error, follower.position()), (Close::Refused(end, "full".into()), end));
    }

    #[test]
    fn silence() {
        let follower = Bytes::default().follow();
        assert_eq!(follower.wakes_at(5000, 20_000), 5001);
        assert_eq!(follower.tick(20_000, 20_000), Ok(()));
        assert_eq!(follower.tick(20_000, 20_001), Err(Close::Silent(20_001)));
    }
}
