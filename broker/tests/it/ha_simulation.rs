//! Replication without sockets and clocks: a master, two slaves and a bad network between them, each run from one seed.
//!
//! In the first part of a run bytes are late and come in pieces, connections are cut (within records as well), fall silent
//! without an end, or are made anew; slaves are killed and may lose what they had not on disk; the master is killed and
//! comes back with fewer messages, and takes others then. In the second part the network is good: whoever can must have
//! everything in the end.
//!
//! What must hold after every step is in [`World::check`]. A failure names its seed; `HA_SEED=17 cargo test -p broker --test
//! ha_simulation` runs that one alone.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use broker::ha::acks::{Acks, Slave};
use broker::ha::feeder::{Feeder, LogState, Settings};
use broker::ha::follower::{Close, Follower, Log};
use broker::ha::wire::{HEADER_LEN, Header};
use store::record::{BLANK_MIN, NewRecord, Version, write_blank};

const FILE: u64 = 4096;
const SLAVES: usize = 2;
const SETTINGS: Settings = Settings { heartbeat: 5000, housekeeping: 20_000, batch: 700, per_second: None };

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// A log in memory: whole records from `start` on.
#[derive(Clone, Default)]
struct MemoryLog {
    start: u64,
    bytes: Vec<u8>,
    /// Where records end.
    ends: Vec<u64>,
}

impl MemoryLog {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn part(&self, from: u64, to: u64) -> &[u8] {
        &self.bytes[(from - self.start) as usize..(to - self.start) as usize]
    }

    fn send(&mut self, serial: u64, len: usize) {
        let properties = format!("S\x01{serial}\x02");
        let host = SocketAddr::from(([127, 0, 0, 1], 1));
        let body = vec![serial as u8; len];
        let new = NewRecord {
            version: Version::V1,
            body_crc: 0,
            queue_id: 0,
            flag: 0,
            queue_offset: 0,
            phys_offset: 0,
            sys_flag: 0,
            born_timestamp: serial as i64,
            born_host: host,
            store_timestamp: serial as i64,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: &body,
            topic: "T",
            properties: properties.as_bytes(),
            crc_property: false,
        };
        let room = (FILE - self.end() % FILE) as usize;
        if new.encoded_len() + BLANK_MIN > room {
            let mut blank = vec![0; room];
            write_blank(blank.first_chunk_mut().unwrap(), room as u32);
            self.take(&blank);
        }
        let mut record = vec![0; new.encoded_len()];
        NewRecord { phys_offset: self.end() as i64, ..new }.encode(&mut record);
        self.take(&record);
    }

    fn take(&mut self, record: &[u8]) {
        self.bytes.extend_from_slice(record);
        self.ends.push(self.end());
    }

    /// Loses records at the end, at most a few.
    fn lose(&mut self, random: &mut Random) {
        let kept = self.ends.len() - random.below(8).min(self.ends.len());
        self.ends.truncate(kept);
        let end = self.ends.last().copied().unwrap_or(self.start);
        self.bytes.truncate((end - self.start) as usize);
        if self.bytes.is_empty() {
            *self = MemoryLog::default();
        }
    }

    /// What of `other` differs.
    fn differs_from(&self, other: &MemoryLog, to: u64) -> bool {
        let (from, to) = (self.start.max(other.start), to.min(self.end()));
        to > from && (to > other.end() || self.part(from, to) != other.part(from, to))
    }
}

impl Log for MemoryLog {
    fn matches(&self, offset: u64, bytes: &[u8]) -> bool {
        self.part(offset, offset + bytes.len() as u64) == bytes
    }

    fn append(&mut self, offset: u64, records: &[u8]) -> Result<(), String> {
        if self.bytes.is_empty() {
            self.start = offset;
        }
        if offset != self.end() {
            return Err(format!("at {offset}, the end is {}", self.end()));
        }
        let mut rest = records;
        while let Some((size, _)) = rest.split_first_chunk::<4>() {
            let (record, later) = rest.split_at(u32::from_be_bytes(*size) as usize);
            self.take(record);
            rest = later;
        }
        Ok(())
    }
}

/// Bytes on their way.
#[derive(Default)]
struct Wire {
    up: VecDeque<u8>,
    down: VecDeque<u8>,
    /// Nothing comes through any more, and nobody is told.
    dead: bool,
}

struct Connection {
    wire: Wire,
    feeder: Feeder,
    slave: Arc<Slave>,
    follower: Follower,
}

#[derive(Default)]
struct Node {
    log: MemoryLog,
    link: Option<Connection>,
    last_close: Option<Close>,
    /// The master's end of a connection that only the slave knows to be over.
    half: Option<(Feeder, Arc<Slave>)>,
}

struct World {
    random: Random,
    now: u64,
    serial: u64,
    master: MemoryLog,
    acks: Arc<Acks>,
    slaves: [Node; SLAVES],
    /// Slaves lose what they have not on disk.
    losses: bool,
    /// Records end here that count as replicated once.
    replicated: u64,
    appended: u64,
    refused: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..10).for_each(|_| _ = random.next());
        let losses = random.one_in(2);
        World {
            random,
            now: 0,
            serial: 0,
            master: MemoryLog::default(),
            acks: Arc::default(),
            slaves: Default::default(),
            losses,
            replicated: 0,
            appended: 0,
            refused: 0,
        }
    }

    fn state(&self) -> LogState {
        let end = self.master.end();
        LogState { newest_file: end - end % FILE, end }
    }

    fn send(&mut self) {
        self.serial += 1;
        let longest = if self.random.one_in(5) { 1500 } else { 200 };
        let len = self.random.below(longest);
        self.master.send(self.serial, len);
    }

    fn connect(&mut self, slave: usize) {
        let node = &mut self.slaves[slave];
        let entry = Arc::new(Slave::new(SocketAddr::from(([127, 0, 0, 1], slave as u16))));
        self.acks.joined(entry.clone());
        let zeros = node.log.bytes.iter().rev().take_while(|byte| **byte == 0).count() as u64;
        let range = node.log.start..node.log.end();
        node.link = Some(Connection {
            wire: Wire::default(),
            feeder: Feeder::new(self.now),
            slave: entry,
            follower: Follower::new(range.clone(), range.end - zeros, FILE, self.now),
        });
    }

    /// Both ends know that the connection is over.
    fn cut(&mut self, slave: usize) {
        if let Some(link) = self.slaves[slave].link.take() {
            self.acks.left(&link.slave);
        }
    }

    /// One step of a slave's connection.
    fn work(&mut self, slave: usize) {
        let mut closed = None;
        let mut by_master = false;
        let log_state = self.state();
        let (now, random) = (self.now, &mut self.random);
        let node = &mut self.slaves[slave];
        let Some(link) = &mut node.link else { return };
        match random.below(4) {
            // The master sends.
            0 => {
                let beat = link.feeder.tick(true, &SETTINGS, now);
                by_master |= beat.is_err();
                if let Ok(Some(beat)) = beat {
                    link.wire.down.extend(beat.header);
                }
                while let Some(next) = link.feeder.next()
                    && link.wire.down.len() < 3000
                {
                    let end = self.master.end().min((next / FILE + 1) * FILE);
                    let there = if next < self.master.start { 0 } else { end.saturating_sub(next) };
                    let Some(frame) = link.feeder.frame(there, &SETTINGS, now) else { break };
                    assert!(frame.len <= SETTINGS.batch.into(), "a frame has {} bytes", frame.len);
                    let header = Header::decode(&frame.header).unwrap();
                    assert_eq!((header.offset, u64::from(header.len)), (frame.offset, frame.len));
                    link.wire.down.extend(frame.header);
                    link.wire.down.extend(self.master.part(frame.offset, frame.offset + frame.len));
                }
            }
            // The slave receives.
            1 if !link.wire.dead => {
                let len = random.below(link.wire.down.len().min(2000) + 1);
                let bytes: Vec<u8> = link.wire.down.drain(..len).collect();
                let before = node.log.end();
                if !bytes.is_empty()
                    && let Err(error) = link.follower.received(&bytes, &mut node.log, now)
                {
                    closed = Some(error);
                }
                if node.log.end() > before {
                    self.appended += 1;
                    assert!(!node.log.differs_from(&self.master, u64::MAX), "a slave appended to another log");
                }
            }
            // The slave reports.
            2 => {
                if let Err(error) = link.follower.tick(SETTINGS.housekeeping, now) {
                    closed = Some(error);
                } else if let Some(report) = link.follower.report(SETTINGS.heartbeat, now) {
                    link.wire.up.extend(report);
                }
            }
            // The master receives.
            3 if !link.wire.dead => {
                let len = random.below(link.wire.up.len().min(30) + 1);
                let bytes: Vec<u8> = link.wire.up.drain(..len).collect();
                if !bytes.is_empty() {
                    match link.feeder.received(&bytes, log_state, now) {
                        Ok(false) => {}
                        Ok(true) => {
                            let (acked, confirmed) = (link.feeder.acked(), link.feeder.confirmed());
                            assert!(
                                confirmed <= log_state.end && confirmed <= node.log.end(),
                                "{confirmed} is too much"
                            );
                            assert!(!node.log.differs_from(&self.master, confirmed), "{confirmed} is another log");
                            self.acks.reported(&link.slave, acked, confirmed);
                        }
                        Err(_) => by_master = true,
                    }
                }
            }
            _ => {}
        }
        let dead = link.wire.dead;
        if let Some(close) = closed {
            self.refused += u64::from(matches!(close, Close::Diverged(_) | Close::NotThere(_)));
            node.last_close = Some(close);
            if dead && let Some(link) = node.link.take() {
                // The master learns of it by the silence.
                if let Some((_, slave)) = node.half.replace((link.feeder, link.slave)) {
                    self.acks.left(&slave);
                }
                return;
            }
            return self.cut(slave);
        }
        if by_master {
            self.refused += 1;
            self.cut(slave);
        }
    }

    fn trouble(&mut self) {
        let slave = self.random.below(SLAVES);
        match self.random.below(40) {
            0..10 => self.cut(slave),
            10..13 => {
                if let Some(link) = &mut self.slaves[slave].link {
                    link.wire.dead = true;
                }
            }
            13..17 => {
                self.cut(slave);
                if self.losses {
                    let mut log = std::mem::take(&mut self.slaves[slave].log);
                    log.lose(&mut self.random);
                    self.slaves[slave].log = log;
                }
            }
            17 => {
                (0..SLAVES).for_each(|slave| self.cut(slave));
                self.slaves.iter_mut().for_each(|node| node.half = None);
                let mut log = std::mem::take(&mut self.master);
                log.lose(&mut self.random);
                self.master = log;
                self.acks = Arc::default();
                self.replicated = 0;
            }
            // An operator sets a slave up anew.
            18 => {
                self.cut(slave);
                self.slaves[slave].log = MemoryLog::default();
            }
            // The master's oldest file is deleted.
            19 => {
                let file = (self.master.start / FILE + 1) * FILE;
                if file + FILE < self.master.end() {
                    let old = (file - self.master.start) as usize;
                    self.master.bytes.drain(..old);
                    self.master.ends.retain(|end| *end > file);
                    self.master.start = file;
                }
            }
            _ => {}
        }
    }

    fn step(&mut self, trouble: bool) {
        self.now += self.random.next() % 400;
        if self.random.one_in(3) {
            self.send();
        }
        if trouble && self.random.one_in(12) {
            self.trouble();
        }
        for slave in 0..SLAVES {
            if self.slaves[slave].link.is_none() && self.random.one_in(6) {
                self.connect(slave);
            }
            self.work(slave);
            let node = &mut self.slaves[slave];
            if let Some((feeder, entry)) = &mut node.half
                && feeder.tick(true, &SETTINGS, self.now).is_err()
            {
                self.acks.left(entry);
                node.half = None;
            }
        }
        self.check();
    }

    /// What must hold at any time.
    fn check(&mut self) {
        let end = self.master.end();
        let by = |slaves| self.acks.by(slaves).unwrap().get();
        assert!(by(2) <= by(1) && by(1) <= end, "replicated {} {} of {end}", by(1), by(2));
        self.replicated = self.replicated.max(by(1));
        for node in &self.slaves {
            // Only whole records, whatever was cut.
            assert_eq!(node.log.ends.last().copied().unwrap_or(node.log.start), node.log.end());
            if let Some(link) = &node.link {
                assert!(link.follower.position() <= node.log.end());
            }
        }
    }

    /// Nothing that counts as replicated is on the master alone. With slaves that lose their disks' caches it may be.
    fn check_replicated(&self, wiped: bool) {
        if self.losses || wiped {
            return;
        }
        let has =
            |node: &Node| node.log.end() >= self.replicated && !node.log.differs_from(&self.master, self.replicated);
        assert!(self.replicated == 0 || self.slaves.iter().any(has), "{} is not on any slave", self.replicated);
    }

    fn heal(&mut self) {
        for slave in 0..SLAVES {
            self.cut(slave);
        }
        for node in &mut self.slaves {
            node.last_close = None;
        }
        for _ in 0..4000 {
            self.step(false);
        }
        // No more messages: what is under way arrives.
        for _ in 0..2000 {
            self.now += 50;
            for slave in 0..SLAVES {
                if self.slaves[slave].link.is_none() {
                    self.connect(slave);
                }
                self.work(slave);
            }
            self.check();
        }
    }
}

fn run(seed: u64) -> (u64, u64) {
    let mut world = World::new(seed);
    let mut wiped = false;
    for _ in 0..3000 {
        let before: Vec<bool> = world.slaves.iter().map(|node| node.log.bytes.is_empty()).collect();
        world.step(true);
        let empty = world.slaves.iter().zip(before).any(|(node, before)| !before && node.log.bytes.is_empty());
        // A master that forgets begins to count anew.
        wiped = (wiped || empty) && world.replicated > 0;
        world.check_replicated(wiped);
    }
    // Slaves that are no part of the master's log, or too old, stay as they are; the others get everything.
    let own: Vec<MemoryLog> = world.slaves.iter().map(|node| node.log.clone()).collect();
    let fits = |log: &MemoryLog, master: &MemoryLog| {
        log.bytes.is_empty() || log.end() > master.start + FILE && !log.differs_from(master, u64::MAX)
    };
    let able: Vec<bool> = own.iter().map(|log| fits(log, &world.master)).collect();
    world.heal();
    for (node, (own, able)) in world.slaves.iter().zip(own.iter().zip(able)) {
        if able {
            assert_eq!(node.log.end(), world.master.end(), "{:?}", node.last_close);
            assert!(!node.log.differs_from(&world.master, u64::MAX));
        } else if own.differs_from(&world.master, u64::MAX) {
            assert!(node.log.bytes == own.bytes, "a log that differs was changed");
        }
    }
    (world.appended, world.refused)
}

#[test]
fn two_slaves_and_a_bad_network() {
    assert_eq!(HEADER_LEN, 12);
    let seeds = match std::env::var("HA_SEED") {
        Ok(seed) => {
            let seed = seed.parse().unwrap();
            seed..seed + 1
        }
        Err(_) => 1..121,
    };
    let (mut appended, mut refused) = (0, 0);
    for seed in seeds.clone() {
        let result = std::panic::catch_unwind(|| run(seed));
        let (more, closed) = result.unwrap_or_else(|_| panic!("seed {seed} failed"));
        appended += more;
        refused += closed;
    }
    println!("{appended} appends, {refused} connections closed for what came, seeds {seeds:?}");
    // The runs mean something.
    assert!(appended > 0 && (refused > 0 || seeds.end - seeds.start == 1));
}
