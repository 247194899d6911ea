//! Which instances are alive: when each was last heard of, and what it last registered.
//!
//! Heartbeats and unchanged registrations only read the table and store a time, so they never wait for a registration
//! that is being applied.
//!
//! An entry that is being removed is marked first and looked at once more afterwards ([`LiveTable::remove_if`]); a refresh
//! stores the time first and looks at the mark afterwards. So of a refresh and a removal at the same moment at least one
//! sees the other, and an instance that was told that it is registered is not removed for having been silent.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Instant;

use crc32fast::Hasher;
use parking_lot::{Mutex, RwLock};
use remoting::body::data_version::DataVersion;
use remoting::server::ConnHandle;

use super::brokers::Instance;

/// How long an instance may be silent when it does not say so itself, milliseconds.
pub const DEFAULT_TIMEOUT_MILLIS: i64 = 120_000;

/// How many bodies of one version are remembered: a split registration comes in several.
const MAX_SEEN: usize = 64;

/// The connection that an instance registered on.
#[derive(Clone)]
pub struct Link {
    id: u64,
    conn: Option<ConnHandle>,
}

impl Link {
    /// A connection of the server.
    pub fn new(conn: &ConnHandle) -> Link {
        Link { id: conn.id(), conn: Some(conn.clone()) }
    }

    /// A connection that exists by its number only: for tests and benches of the tables.
    pub fn numbered(id: u64) -> Link {
        Link { id, conn: None }
    }

    /// The connection's number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether the connection is known to be gone.
    pub fn is_closed(&self) -> bool {
        self.conn.as_ref().is_some_and(|conn| !conn.is_open())
    }

    /// Closes the connection.
    pub fn close(&self) {
        if let Some(conn) = &self.conn {
            conn.close();
        }
    }
}

/// Tells one registration body from another without keeping it: length and CRC-32 of what stands before and behind the part
/// that differs each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Print {
    head: Part,
    tail: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    length: usize,
    crc: u32,
}

impl Part {
    fn of(bytes: &[u8]) -> Part {
        Part { length: bytes.len(), crc: crc32fast::hash(bytes) }
    }

    fn hasher(self) -> Hasher {
        Hasher::new_with_initial_len(self.crc, self.length as u64)
    }
}

impl Print {
    /// The print of a body but for the part `volatile`, and the CRC-32 of the whole.
    pub fn of(body: &[u8], volatile: Range<usize>) -> (Print, u32) {
        let part = |part: Option<&[u8]>| Part::of(part.unwrap_or_default());
        let print = Print { head: part(body.get(..volatile.start)), tail: part(body.get(volatile.end..)) };
        (print, print.whole(body.get(volatile).unwrap_or_default()))
    }

    /// The CRC-32 of the body with that volatile part.
    fn whole(&self, volatile: &[u8]) -> u32 {
        let mut whole = self.head.hasher();
        whole.combine(&Part::of(volatile).hasher());
        whole.combine(&self.tail.hasher());
        whole.finalize()
    }
}

/// What a broker says of its body without our going through it: the length of each part, the volatile part, and the
/// checksum in the header, which is Java's: a CRC-32 without its sign bit.
///
/// A claim that fits a known body is taken for that body. Were the bytes damaged on their way, the tables would still hold what
/// the broker meant, because the checksum is that of what it meant.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    head: usize,
    volatile: &'a [u8],
    tail: usize,
    checksum: i32,
}

impl<'a> Claim<'a> {
    /// The claim of a body with that checksum. `None` without a checksum (0): then the body says nothing of itself.
    pub fn of(body: &'a [u8], volatile: Range<usize>, checksum: i32) -> Option<Claim<'a>> {
        let tail = body.len().checked_sub(volatile.end)?;
        let claim = Claim { head: volatile.start, volatile: body.get(volatile)?, tail, checksum };
        (checksum != 0).then_some(claim)
    }

    fn fits(&self, print: &Print) -> bool {
        (self.head, self.tail) == (print.head.length, print.tail.length)
            && checksum(print.whole(self.volatile)) == self.checksum
    }
}

/// Java's checksum of a body with that CRC-32.
pub fn checksum(crc: u32) -> i32 {
    (crc & 0x7FFF_FFFF) as i32
}

/// A live instance, as of its last registration that changed something.
pub struct LiveBroker {
    /// Version of its table.
    pub version: DataVersion,
    /// Where slaves fetch the log.
    pub ha_addr: String,
    /// How long it may be silent, milliseconds.
    pub timeout_millis: i64,
    /// Its connection.
    pub link: Link,
    /// When it was last heard of, on the table's clock.
    last_update: AtomicI64,
    /// It is being removed.
    gone: AtomicBool,
    /// Bodies of this version whose content is known to be in the tables; true: with their topics.
    seen: Mutex<Vec<(Print, bool)>>,
}

impl LiveBroker {
    /// Remembers a body.
    pub fn remember(&self, print: Print, with_topics: bool) {
        let mut seen = self.seen.lock();
        seen.retain(|(known, _)| *known != print);
        if seen.len() < MAX_SEEN {
            seen.push((print, with_topics));
        }
    }

    /// Takes over what another entry of the same version remembers.
    pub fn remember_all(&self, other: &LiveBroker) {
        let known = other.seen.lock().clone();
        self.seen.lock().extend(known);
    }

    /// Whether this body was seen, with its topics when they are wanted.
    pub fn has_seen(&self, print: Print, want_topics: bool) -> bool {
        self.seen.lock().iter().any(|(known, with_topics)| *known == print && (*with_topics || !want_topics))
    }

    /// Whether a body of this claim was seen, with its topics when they are wanted.
    pub fn has_seen_claim(&self, claim: &Claim<'_>, want_topics: bool) -> bool {
        self.seen.lock().iter().any(|(known, with_topics)| (*with_topics || !want_topics) && claim.fits(known))
    }

    /// Forgets all bodies: the tables were changed by somebody else.
    pub fn forget(&self) {
        self.seen.lock().clear();
    }
}

/// All live instances.
pub struct LiveTable {
    table: RwLock<HashMap<Instance, Arc<LiveBroker>>>,
    start: Instant,
}

impl Default for LiveTable {
    fn default() -> Self {
        LiveTable { table: RwLock::default(), start: Instant::now() }
    }
}

impl LiveTable {
    /// Milliseconds on a clock that never jumps.
    fn now(&self) -> i64 {
        i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// The entry of an instance.
    pub fn find(&self, instance: &Instance) -> Option<Arc<LiveBroker>> {
        self.table.read().get(instance).cloned()
    }

    /// Enters an instance that was heard of just now; returns the former entry.
    pub fn enter(
        &self,
        instance: Instance,
        version: DataVersion,
        ha_addr: &str,
        timeout_millis: i64,
        link: Link,
    ) -> (Arc<LiveBroker>, Option<Arc<LiveBroker>>) {
        let entry = Arc::new(LiveBroker {
            version,
            ha_addr: ha_addr.to_owned(),
            timeout_millis,
            link,
            last_update: AtomicI64::new(self.now()),
            gone: AtomicBool::new(false),
            seen: Mutex::default(),
        });
        let former = self.table.write().insert(instance, entry.clone());
        (entry, former)
    }

    /// Notes that an instance was heard of. False: it is being removed.
    pub fn touch(&self, entry: &LiveBroker) -> bool {
        entry.last_update.store(self.now(), Ordering::SeqCst);
        !entry.gone.load(Ordering::SeqCst)
    }

    /// Removes an instance.
    pub fn remove(&self, instance: &Instance) -> Option<Arc<LiveBroker>> {
        let entry = self.table.write().remove(instance)?;
        entry.gone.store(true, Ordering::SeqCst);
        Some(entry)
    }

    /// Removes an instance if its entry still is `entry` and `condition` still holds once nobody can refresh it unnoticed.
    pub fn remove_if(
        &self,
        instance: &Instance,
        entry: &Arc<LiveBroker>,
        condition: impl Fn(&LiveBroker) -> bool,
    ) -> bool {
        let mut table = self.table.write();
        if !table.get(instance).is_some_and(|now| Arc::ptr_eq(now, entry)) {
            return false;
        }
        entry.gone.store(true, Ordering::SeqCst);
        if condition(entry) {
            table.remove(instance);
            return true;
        }
        entry.gone.store(false, Ordering::SeqCst);
        false
    }

    /// Whether an entry was silent for longer than it may.
    pub fn is_expired(&self, entry: &LiveBroker) -> bool {
        entry.last_update.load(Ordering::SeqCst).saturating_add(entry.timeout_millis) < self.now()
    }

    /// The instances for which `condition` holds now.
    pub fn select(&self, condition: impl Fn(&LiveBroker) -> bool) -> Vec<(Instance, Arc<LiveBroker>)> {
        let table = self.table.read();
        table.iter().filter(|(_, entry)| condition(entry)).map(|(key, entry)| (key.clone(), entry.clone())).collect()
    }

    /// Makes every instance's next registration be read in full, but for `except`.
    pub fn forget_all(&self, except: Option<&Instance>) {
        for (instance, entry) in self.table.read().iter() {
            if Some(instance) != except {
                entry.forget();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refresh_while_an_entry_is_removed_saves_it_or_knows() {
        let live = LiveTable::default();
        let instance = Instance::new("c", "a:1");
        let (entry, _) = live.enter(instance.clone(), DataVersion::default(), "", -1, Link::numbered(1));
        let silent = |entry: &LiveBroker| entry.last_update.load(Ordering::SeqCst) == i64::MIN;
        entry.last_update.store(i64::MIN, Ordering::SeqCst);
        // The refresh comes after the entry was chosen and before it is removed.
        assert!(live.touch(&entry));
        assert!(!live.remove_if(&instance, &entry, silent));
        assert!(live.touch(&entry), "the entry is whole again");
        entry.last_update.store(i64::MIN, Ordering::SeqCst);
        assert!(live.remove_if(&instance, &entry, silent));
        assert!(!live.touch(&entry), "a late refresh sees the removal");
        assert!(live.find(&instance).is_none());
    }

    #[test]
    fn a_print_leaves_out_what_always_differs() {
        let (print, crc) = Print::of(b"head 1 tail", 5..6);
        let (same, other_crc) = Print::of(b"head 2 tail", 5..6);
        assert_eq!(print, same);
        assert_eq!((crc, other_crc), (crc32fast::hash(b"head 1 tail"), crc32fast::hash(b"head 2 tail")));
        assert_ne!(print, Print::of(b"head 1 tale", 5..6).0);
        assert_ne!(print, Print::of(b"head 1 tail", 0..0).0);
        assert_eq!(Print::of(b"", 0..0).1, 0);
    }

    #[test]
    fn a_claim_fits_the_body_that_it_is_of() {
        let (print, _) = Print::of(b"head 1 tail", 5..6);
        let claim = |body: &'static [u8], of: &[u8]| Claim::of(body, 5..6, checksum(crc32fast::hash(of))).unwrap();
        assert!(claim(b"head 2 tail", b"head 2 tail").fits(&print));
        assert!(!claim(b"head 2 tail", b"head 1 tail").fits(&print), "the checksum of another volatile part");
        assert!(!claim(b"head 2 tale", b"head 2 tale").fits(&print), "another content");
        assert!(!claim(b"head 2 tail.", b"head 2 tail").fits(&print), "another length");
        // The broker meant the known body, so the tables are right.
        assert!(claim(b"head 2 tale", b"head 2 tail").fits(&print));
        assert!(Claim::of(b"head 1 tail", 5..6, 0).is_none() && Claim::of(b"head", 5..6, 1).is_none());
    }

    #[test]
    fn expiry_is_the_instances_own() {
        let live = LiveTable::default();
        live.enter(Instance::new("c", "a:1"), DataVersion::default(), "", -1, Link::numbered(1));
        live.enter(Instance::new("c", "b:1"), DataVersion::default(), "", 60_000, Link::numbered(2));
        let expired = live.select(|entry| live.is_expired(entry));
        assert_eq!(expired.len(), 1);
        assert_eq!(expired[0].0, Instance::new("c", "a:1"));
    }
}
