//! The property string of a message: `name 0x01 value 0x02`, repeated.
//!
//! Clients send it with or without the last separator, and may send entries without a value or a name twice. What is
//! stored is always well formed: `Properties::normalise` rewrites the bytes in place and notes on the way where the
//! values are that the broker itself looks at.

use std::collections::HashMap;
use std::ops::Range;

use memchr::memchr;

/// Between a name and its value.
pub const NAME_VALUE_SEPARATOR: u8 = 1;
/// After a value.
pub const PROPERTY_SEPARATOR: u8 = 2;

macro_rules! known {
    ($($(#[$meta:meta])* $variant:ident = $name:literal,)*) => {
        /// A property that the broker itself reads or writes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Known { $($(#[$meta])* $variant,)* }

        impl Known {
            const COUNT: usize = [$(Known::$variant,)*].len();

            /// Its name on the wire and on disk.
            pub const fn name(self) -> &'static str {
                let name: &[u8] = match self { $(Known::$variant => $name,)* };
                match std::str::from_utf8(name) {
                    Ok(name) => name,
                    Err(_) => "",
                }
            }

            fn from_name(name: &[u8]) -> Option<Known> {
                match name {
                    $($name => Some(Known::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

known! {
    /// Keys for the index, separated by blanks.
    Keys = b"KEYS",
    /// The tag.
    Tags = b"TAGS",
    /// Whether the producer waits for the flush ("true" when missing).
    Wait = b"WAIT",
    /// The delay level.
    Delay = b"DELAY",
    /// Topic that a retried message was sent to first.
    RetryTopic = b"RETRY_TOPIC",
    /// Topic that a delayed message goes to.
    RealTopic = b"REAL_TOPIC",
    /// Queue that a delayed message goes to.
    RealQueueId = b"REAL_QID",
    /// "true" in the first half of a transaction.
    TransactionPrepared = b"TRAN_MSG",
    /// Message id of the first copy of a retried message.
    OriginMessageId = b"ORIGIN_MESSAGE_ID",
    /// The region of the broker that took the message.
    Region = b"MSG_REGION",
    /// Whether that broker wants traces.
    TraceOn = b"TRACE_ON",
    /// Id that the producer gave.
    UniqueKey = b"UNIQ_KEY",
    /// The cluster of the broker that took the message.
    Cluster = b"CLUSTER",
    /// Check point of a popped message: never from a producer.
    PopCheckPoint = b"POP_CK",
    /// Key that orders messages.
    ShardingKey = b"__SHARDINGKEY",
    /// Priority, which picks the queue.
    Priority = b"_SYS_MSG_PRIORITY_",
    /// Number of messages inside an inner batch.
    InnerNum = b"INNER_NUM",
    /// The lite topic.
    LiteTopic = b"__LITE_TOPIC",
    /// Queues that get an entry besides the topic's own.
    InnerMultiDispatch = b"INNER_MULTI_DISPATCH",
    /// Delay in seconds.
    TimerDelaySec = b"TIMER_DELAY_SEC",
    /// Delay in milliseconds.
    TimerDelayMs = b"TIMER_DELAY_MS",
    /// Time of delivery in milliseconds since the epoch.
    TimerDeliverMs = b"TIMER_DELIVER_MS",
    /// When the timer delivers a message that it has already taken.
    TimerOutMs = b"TIMER_OUT_MS",
    /// Key of the timed message that this one recalls.
    TimerDeleteKey = b"TIMER_DEL_UNIQKEY",
    /// Id of the client that a reply is for.
    ReplyToClient = b"REPLY_TO_CLIENT",
    /// When a reply was handed to that client, in milliseconds since the epoch.
    PushReplyTime = b"PUSH_REPLY_TIME",
    /// Id of a transaction: the producer's unique key.
    TransactionId = b"__transactionId__",
    /// How often the producer of a first half was asked.
    CheckTimes = b"TRANSACTION_CHECK_TIMES",
    /// Queue offset of a first half that was put back, as its producer knows it.
    PreparedQueueOffset = b"TRAN_PREPARED_QUEUE_OFFSET",
}

/// Up to so many entries are compared with one another for repeated names; beyond it a map does it.
const COMPARED: usize = 24;

/// A property string in a buffer that is reused from message to message.
#[derive(Debug, Default)]
pub struct Properties {
    bytes: Vec<u8>,
    /// Start and end of the values of known properties; an end of 0: not there.
    marks: [(u32, u32); Known::COUNT],
}

impl Properties {
    /// Empties it; `fill` appends the raw string, which is then normalised:
    /// every entry is `name 0x01 value 0x02` with a name and a value, the last of two with the same name counts, and the
    /// entries in `without` are gone.
    pub fn fill(&mut self, without: &[Known], fill: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.clear();
        fill(&mut self.bytes);
        self.normalise(without);
    }

    /// The stored form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The value of a property that the broker knows.
    pub fn get(&self, known: Known) -> Option<&[u8]> {
        let (start, end) = self.marks[known as usize];
        self.bytes.get(start as usize..end as usize).filter(|value| !value.is_empty())
    }

    /// As [`Properties::get`], as text. Values come from UTF-8 text and are cut at ASCII separators.
    pub fn text(&self, known: Known) -> Option<&str> {
        std::str::from_utf8(self.get(known)?).ok()
    }

    /// Whether the value is there and says "true" in any case.
    pub fn is_true(&self, known: Known) -> bool {
        self.get(known).is_some_and(|value| value.eq_ignore_ascii_case(b"true"))
    }

    /// Whether the producer waits until the message is safe (`WAIT`); it does when it says nothing of it.
    pub fn waits(&self) -> bool {
        self.get(Known::Wait).is_none() || self.is_true(Known::Wait)
    }

    /// Appends an entry whose name is not there yet.
    pub fn append(&mut self, known: Known, value: &[u8]) {
        self.bytes.extend_from_slice(known.name().as_bytes());
        self.bytes.push(NAME_VALUE_SEPARATOR);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.marks[known as usize] = (start as u32, self.bytes.len() as u32);
        self.bytes.push(PROPERTY_SEPARATOR);
    }

    /// Appends entries that are already in the stored form and that nobody asks for afterwards.
    pub fn append_encoded(&mut self, encoded: &[u8]) {
        self.bytes.extend_from_slice(encoded);
    }

    /// Sets an entry, whether it is there or not.
    pub fn put(&mut self, known: Known, value: &[u8]) {
        self.remove(known);
        self.append(known, value);
    }

    /// Sets an entry to the value of another one; nothing happens when that is not there.
    pub fn copy(&mut self, from: Known, to: Known) {
        if self.get(from).is_none() {
            return;
        }
        self.remove(to);
        let (value_start, value_end) = self.marks[from as usize];
        self.bytes.extend_from_slice(to.name().as_bytes());
        self.bytes.push(NAME_VALUE_SEPARATOR);
        let start = self.bytes.len();
        self.bytes.extend_from_within(value_start as usize..value_end as usize);
        self.marks[to as usize] = (start as u32, self.bytes.len() as u32);
        self.bytes.push(PROPERTY_SEPARATOR);
    }

    /// Removes an entry when it is there.
    pub fn remove(&mut self, known: Known) {
        let (start, end) = std::mem::take(&mut self.marks[known as usize]);
        if end == 0 {
            return;
        }
        let from = start - known.name().len() as u32 - 1;
        let to = end + 1;
        self.bytes.drain(from as usize..to as usize);
        let cut = to - from;
        for mark in &mut self.marks {
            if mark.0 >= to {
                *mark = (mark.0 - cut, mark.1 - cut);
            }
        }
    }

    fn normalise(&mut self, without: &[Known]) {
        self.marks = [(0, 0); Known::COUNT];
        if self.bytes.last().is_some_and(|last| *last != PROPERTY_SEPARATOR) {
            self.bytes.push(PROPERTY_SEPARATOR);
        }
        let mut pass = Pass { write: 0, count: 0, seen: [0; 4], repeated: false };
        let (mut start, mut name_end) = (0, None);
        let mut at = 0;
        while at < self.bytes.len() {
            // The entries before `at + i` are moved down at most: never over bytes that are still to be read.
            let (word, length) = load(&self.bytes[at..]);
            let mut found = separators(word);
            while found != 0 {
                let i = at + (found.trailing_zeros() / 8) as usize;
                found &= found - 1;
                if self.bytes[i] == NAME_VALUE_SEPARATOR {
                    name_end = name_end.or(Some(i));
                    continue;
                }
                if let Some(name_end) = name_end.filter(|end| *end > start && end + 1 < i) {
                    self.keep(&mut pass, without, start, name_end, i);
                }
                (start, name_end) = (i + 1, None);
            }
            at += length;
        }
        self.bytes.truncate(pass.write);
        if pass.repeated {
            self.drop_repeated();
        }
    }

    /// Moves the entry `start..end` (with its separator at `end`) down to where the well-formed ones end.
    fn keep(&mut self, pass: &mut Pass, without: &[Known], start: usize, name_end: usize, end: usize) {
        let name = &self.bytes[start..name_end];
        let known = Known::from_name(name);
        if known.is_some_and(|known| without.contains(&known)) {
            return;
        }
        pass.repeated |= pass.may_be_repeated(name) && pass.is_repeated(&self.bytes, name);
        let down = start - pass.write;
        if let Some(known) = known {
            self.marks[known as usize] = ((name_end + 1 - down) as u32, (end - down) as u32);
        }
        if down > 0 {
            self.bytes.copy_within(start..=end, pass.write);
        }
        pass.write += end + 1 - start;
        pass.count += 1;
    }

    /// Keeps the last of the entries with the same name.
    fn drop_repeated(&mut self) {
        let mut last: HashMap<&[u8], Range<usize>> = HashMap::new();
        let mut order: Vec<&[u8]> = Vec::new();
        for (entry, name) in entries(&self.bytes) {
            let name = &self.bytes[entry.start..entry.start + name];
            if last.insert(name, entry.start..entry.end + 1).is_none() {
                order.push(name);
            }
        }
        let mut bytes = Vec::with_capacity(self.bytes.len());
        for name in order {
            bytes.extend_from_slice(&self.bytes[last[name].clone()]);
        }
        self.bytes = bytes;
        self.marks = [(0, 0); Known::COUNT];
        for (entry, name) in entries(&self.bytes) {
            if let Some(known) = Known::from_name(&self.bytes[entry.start..entry.start + name]) {
                self.marks[known as usize] = ((entry.start + name + 1) as u32, entry.end as u32);
            }
        }
    }
}

/// The state of one pass over a property string.
struct Pass {
    /// End of the well-formed entries.
    write: usize,
    /// How many they are.
    count: usize,
    /// One bit a name; see [`Pass::may_be_repeated`].
    seen: [u64; 4],
    /// Whether a name occurs twice.
    repeated: bool,
}

impl Pass {
    /// False proves a name that was not there before. Notes the name.
    fn may_be_repeated(&mut self, name: &[u8]) -> bool {
        let length = name.len();
        let mixed = length
            .wrapping_mul(0x9E37)
            .wrapping_add(usize::from(name[0]).wrapping_mul(0x85EB))
            .wrapping_add(usize::from(name[length / 2]).wrapping_mul(0xC2B3))
            .wrapping_add(usize::from(name[length - 1]).wrapping_mul(0x27D5));
        let bit = 1 << (mixed >> 4 & 63);
        let word = &mut self.seen[mixed >> 10 & 3];
        let before = *word;
        *word |= bit;
        before & bit != 0
    }

    /// Looks for the name among the entries so far. Of very many entries none is looked at: a map sorts them out.
    fn is_repeated(&self, bytes: &[u8], name: &[u8]) -> bool {
        let same = |(entry, length): (Range<usize>, usize)| bytes[entry.start..entry.start + length] == *name;
        self.repeated || self.count > COMPARED || entries(&bytes[..self.write]).any(same)
    }
}

/// The first eight bytes, and how many there are of them.
fn load(bytes: &[u8]) -> (u64, usize) {
    match bytes.first_chunk::<8>() {
        Some(word) => (u64::from_le_bytes(*word), 8),
        None => {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            (u64::from_le_bytes(word), bytes.len())
        }
    }
}

/// The highest bit of every byte that is a separator.
fn separators(word: u64) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    // Exact for every byte: no carry leaves one.
    let zero = |word: u64| !((word & !(LOW << 7)).wrapping_add(!(LOW << 7)) | word) & LOW << 7;
    zero(word ^ (LOW * u64::from(NAME_VALUE_SEPARATOR))) | zero(word ^ (LOW * u64::from(PROPERTY_SEPARATOR)))
}

/// Length of the name and start of the value of `name 0x01 value`, both not empty.
fn split(entry: &[u8]) -> Option<(usize, usize)> {
    let name = memchr(NAME_VALUE_SEPARATOR, entry)?;
    (name > 0 && name + 1 < entry.len()).then_some((name, name + 1))
}

/// The entries of a well-formed property string: where each stands (without its separator), and how long its name is.
fn entries(bytes: &[u8]) -> impl Iterator<Item = (Range<usize>, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let skip = memchr(PROPERTY_SEPARATOR, &bytes[at..])?;
            let entry = at..at + skip;
            at = entry.end + 1;
            if let Some((name, _)) = split(&bytes[entry.clone()]) {
                return Some((entry, name));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalised(raw: &str) -> (String, Properties) {
        let mut properties = Properties::default();
        properties.fill(&[Known::Region, Known::PopCheckPoint], |out| out.extend_from_slice(raw.as_bytes()));
        (String::from_utf8(properties.bytes.clone()).unwrap().replace('\x01', "=").replace('\x02', ";"), properties)
    }

    #[test]
    fn m_05_forms_that_clients_send() {
        assert_eq!(normalised("A\x011").0, "A=1;");
        assert_eq!(normalised("A\x011\x02\x02B\x012\x02\x02").0, "A=1;B=2;");
        assert_eq!(normalised("A\x02B\x01\x02C\x01x\x02").0, "C=x;");
        assert_eq!(normalised("").0, "");
        assert_eq!(normalised("\x01\x02\x01\x01\x02a").0, "");
        assert_eq!(normalised("a\x01b\x01c").0, "a=b=c;");
    }

    #[test]
    fn the_last_of_a_name_counts() {
        let (text, properties) = normalised("TAGS\x01a\x02b\x01c\x02TAGS\x01d");
        assert_eq!(text, "TAGS=d;b=c;");
        assert_eq!(properties.text(Known::Tags), Some("d"));
        let many: String = (0..100).map(|i| format!("k{}\x01{i}\x02", i % 50)).collect();
        let (text, _) = normalised(&many);
        assert_eq!(text.matches(';').count(), 50);
        assert!(text.starts_with("k0=50;"), "{text}");
        let distinct: String = (0..100).map(|i| format!("k{i}\x01{i}\x02")).collect();
        assert_eq!(normalised(&distinct).0.matches(';').count(), 100);
    }

    #[test]
    fn known_values_survive_removals() {
        let (text, mut properties) = normalised(
            "POP_CK\x01x\x02MSG_REGION\x01r\x02UNIQ_KEY\x01id\x02DELAY\x013\x02POP_CKX\x01y\x02WAIT\x01False",
        );
        assert_eq!(text, "UNIQ_KEY=id;DELAY=3;POP_CKX=y;WAIT=False;");
        properties.remove(Known::Delay);
        properties.remove(Known::Delay);
        assert_eq!(properties.text(Known::Wait), Some("False"));
        assert_eq!(properties.text(Known::UniqueKey), Some("id"));
        properties.put(Known::UniqueKey, b"other");
        properties.append(Known::RealTopic, b"T");
        assert_eq!(properties.text(Known::UniqueKey), Some("other"));
        assert_eq!(properties.text(Known::Wait), Some("False"));
        assert_eq!(properties.as_bytes(), b"POP_CKX\x01y\x02WAIT\x01False\x02UNIQ_KEY\x01other\x02REAL_TOPIC\x01T\x02");
    }

    #[test]
    fn a_value_is_copied() {
        let (_, mut properties) = normalised("__transactionId__\x01old\x02UNIQ_KEY\x01id\x02KEYS\x01k");
        properties.copy(Known::UniqueKey, Known::TransactionId);
        properties.copy(Known::Delay, Known::Keys);
        assert_eq!(properties.as_bytes(), b"UNIQ_KEY\x01id\x02KEYS\x01k\x02__transactionId__\x01id\x02");
        assert_eq!((properties.text(Known::TransactionId), properties.text(Known::Keys)), (Some("id"), Some("k")));
    }

    /// What Java's string2messageProperties makes of a string, as an ordered list.
    fn model(raw: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut map: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for entry in raw.split(|byte| *byte == 2) {
            let Some(at) = entry.iter().position(|byte| *byte == 1) else { continue };
            if at == 0 || at + 1 == entry.len() {
                continue;
            }
            let (name, value) = (entry[..at].to_vec(), entry[at + 1..].to_vec());
            match map.iter_mut().find(|(known, _)| *known == name) {
                Some(pair) => pair.1 = value,
                None => map.push((name, value)),
            }
        }
        map
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_a_map(raw in proptest::collection::vec(proptest::sample::select(b"\x01\x02abTAGS".to_vec()), 0..120)) {
            let mut properties = Properties::default();
            properties.fill(&[], |out| out.extend_from_slice(&raw));
            let mut expected: Vec<u8> = Vec::new();
            for (name, value) in model(&raw) {
                expected.extend_from_slice(&name);
                expected.push(1);
                expected.extend_from_slice(&value);
                expected.push(2);
            }
            proptest::prop_assert_eq!(properties.as_bytes(), &expected[..]);
            let tags = store::record::Properties::new(&raw).get_bytes("TAGS");
            proptest::prop_assert_eq!(properties.get(Known::Tags), tags);
        }
    }
}
