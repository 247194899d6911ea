//! A record written in place.

use std::net::{IpAddr, SocketAddr};

use super::crc::crc32;
use super::layout::*;
use super::properties::{NAME_END, VALUE_END, name};

/// Everything that a record holds. The IPv6 bits of the sys flag follow from the hosts.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct NewRecord<'a> {
    pub version: Version,
    /// See [`crc32`].
    pub body_crc: u32,
    pub queue_id: i32,
    pub flag: i32,
    pub queue_offset: i64,
    pub phys_offset: i64,
    pub sys_flag: i32,
    pub born_timestamp: i64,
    pub born_host: SocketAddr,
    pub store_timestamp: i64,
    pub store_host: SocketAddr,
    pub reconsume_times: i32,
    pub prepared_transaction_offset: i64,
    pub body: &'a [u8],
    pub topic: &'a str,
    pub properties: &'a [u8],
    /// Adds a property with a crc over the whole record (`enabledAppendPropCRC`).
    pub crc_property: bool,
}

impl NewRecord<'_> {
    /// Its size in bytes.
    pub fn encoded_len(&self) -> usize {
        BORN_HOST
            + host_len(is_v6(self.born_host))
            + 8
            + host_len(is_v6(self.store_host))
            + 4
            + 8
            + 4
            + self.body.len()
            + self.version.topic_len_bytes()
            + self.topic.len()
            + 2
            + self.properties_len()
    }

    /// Bytes of the property string, the crc property included.
    pub fn properties_len(&self) -> usize {
        let added = if self.crc_property { usize::from(self.needs_separator()) + CRC_PROPERTY_LEN } else { 0 };
        self.properties.len() + added
    }

    fn needs_separator(&self) -> bool {
        self.properties.last().is_some_and(|&last| last != VALUE_END)
    }

    /// Writes the record over `out`.
    ///
    /// # Panics
    /// When `out` has not exactly [`encoded_len`](Self::encoded_len) bytes. The lengths must fit their fields (topic,
    /// properties: the appender checks).
    pub fn encode(&self, out: &mut [u8]) {
        let total = self.encoded_len();
        assert_eq!(out.len(), total);
        let v6 = |host, bit| if is_v6(host) { bit } else { 0 };
        let sys_flag = self.sys_flag & !(sys_flag::BORN_HOST_V6 | sys_flag::STORE_HOST_V6)
            | v6(self.born_host, sys_flag::BORN_HOST_V6)
            | v6(self.store_host, sys_flag::STORE_HOST_V6);

        let mut to = Cursor { out, at: 0 };
        debug_assert_eq!((to.at, SIZE), (0, 0));
        to.put((total as u32).to_be_bytes());
        to.put(self.version.magic().to_be_bytes());
        to.put(self.body_crc.to_be_bytes());
        to.put(self.queue_id.to_be_bytes());
        to.put(self.flag.to_be_bytes());
        to.put(self.queue_offset.to_be_bytes());
        to.put(self.phys_offset.to_be_bytes());
        to.put(sys_flag.to_be_bytes());
        to.put(self.born_timestamp.to_be_bytes());
        to.put_host(self.born_host);
        to.put(self.store_timestamp.to_be_bytes());
        to.put_host(self.store_host);
        to.put(self.reconsume_times.to_be_bytes());
        to.put(self.prepared_transaction_offset.to_be_bytes());
        to.put((self.body.len() as u32).to_be_bytes());
        to.put_slice(self.body);
        match self.version {
            Version::V1 => to.put([self.topic.len() as u8]),
            Version::V2 => to.put((self.topic.len() as u16).to_be_bytes()),
        }
        to.put_slice(self.topic.as_bytes());
        to.put((self.properties_len() as u16).to_be_bytes());
        to.put_slice(self.properties);
        if self.crc_property {
            if self.needs_separator() {
                to.put([VALUE_END]);
            }
            let (covered, property) = to.out.split_at_mut(to.at);
            property.copy_from_slice(&crc_property(crc32(covered)));
        }
    }
}

/// Writes the blank record that closes a file over its first 8 bytes; `rest` is all that is left of the file.
pub fn write_blank(out: &mut [u8; BLANK_MIN], rest: u32) {
    out[..4].copy_from_slice(&rest.to_be_bytes());
    out[4..].copy_from_slice(&BLANK_MAGIC.to_be_bytes());
}

fn is_v6(host: SocketAddr) -> bool {
    match host {
        SocketAddr::V4(_) => false,
        SocketAddr::V6(host) => host.ip().to_ipv4_mapped().is_none(),
    }
}

/// The value has ten digits, the lowest first.
fn crc_property(crc: u32) -> [u8; CRC_PROPERTY_LEN] {
    let mut property = [0; CRC_PROPERTY_LEN];
    let mut to = Cursor { out: &mut property, at: 0 };
    to.put_slice(name::CRC32.as_bytes());
    to.put([NAME_END]);
    let mut rest = crc;
    for _ in 0..10 {
        to.put([b'0' + (rest % 10) as u8]);
        rest /= 10;
    }
    to.put([VALUE_END]);
    property
}

struct Cursor<'o> {
    out: &'o mut [u8],
    at: usize,
}

impl Cursor<'_> {
    #[inline]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.put_slice(&bytes);
    }

    #[inline]
    fn put_slice(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn put_host(&mut self, host: SocketAddr) {
        match host.ip().to_canonical() {
            IpAddr::V4(ip) => self.put(ip.octets()),
            IpAddr::V6(ip) => self.put(ip.octets()),
        }
        self.put(u32::from(host.port()).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::view::{Entry, RecordError, RecordView};
    use super::*;

    /// Reads a record and writes it again.
    fn again(view: &RecordView<'_>) -> Vec<u8> {
        let record = NewRecord {
            version: view.version(),
            body_crc: view.body_crc(),
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
        bytes
    }

    fn sample<'a>(topic: &'a str, body: &'a [u8], properties: &'a [u8]) -> NewRecord<'a> {
        NewRecord {
            version: Version::for_topic(topic.len()),
            body_crc: crc32(body),
            queue_id: 3,
            flag: -1,
            queue_offset: 77,
            phys_offset: 123_456,
            sys_flag: sys_flag::TRANSACTION_COMMIT | sys_flag::BORN_HOST_V6,
            born_timestamp: 1_700_000_000_000,
            born_host: "10.1.2.3:4567".parse().unwrap(),
            store_timestamp: 1_700_000_000_001,
            store_host: "127.0.0.1:10911".parse().unwrap(),
            reconsume_times: 2,
            prepared_transaction_offset: 99,
            body,
            topic,
            properties,
            crc_property: false,
        }
    }

    fn encoded(record: &NewRecord<'_>) -> Vec<u8> {
        let mut bytes = vec![0; record.encoded_len()];
        record.encode(&mut bytes);
        bytes
    }

    #[test]
    fn all_fields_come_back() {
        let bytes = encoded(&sample("T", b"body", b"TAGS\x01TagA\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01U\x02"));
        let view = RecordView::parse(&bytes).unwrap();
        assert_eq!((view.size(), view.version(), view.topic()), (bytes.len(), Version::V1, "T"));
        assert_eq!((view.queue_id(), view.flag(), view.queue_offset(), view.phys_offset()), (3, -1, 77, 123_456));
        // The IPv6 bit that came in does not fit the address: cleared.
        assert_eq!(view.sys_flag(), sys_flag::TRANSACTION_COMMIT);
        assert_eq!((view.born_timestamp(), view.store_timestamp()), (1_700_000_000_000, 1_700_000_000_001));
        assert_eq!(view.born_host(), "10.1.2.3:4567".parse().unwrap());
        assert_eq!(view.store_host(), "127.0.0.1:10911".parse().unwrap());
        assert_eq!((view.reconsume_times(), view.prepared_transaction_offset()), (2, 99));
        assert_eq!((view.body(), view.tags_code()), (&b"body"[..], 2_598_919));
        assert_eq!((view.keys(), view.uniq_key()), (Some("k1 k2"), Some("U")));
        assert!(view.body_crc_fits());
    }

    #[test]
    fn ipv6_and_mapped_hosts() {
        let mut record = sample("T", b"x", b"");
        record.born_host = "[fe80::1]:1".parse().unwrap();
        record.store_host = "[::ffff:10.0.0.1]:2".parse().unwrap();
        let bytes = encoded(&record);
        let view = RecordView::parse(&bytes).unwrap();
        assert_eq!(view.born_host(), record.born_host);
        assert_eq!(view.store_host(), "10.0.0.1:2".parse().unwrap());
        assert_eq!(view.sys_flag() & (sys_flag::BORN_HOST_V6 | sys_flag::STORE_HOST_V6), sys_flag::BORN_HOST_V6);
        assert_eq!(again(&view), bytes);
    }

    #[test]
    fn long_topics_make_version_two() {
        for len in [127, 128, 300] {
            let topic = "t".repeat(len);
            let bytes = encoded(&sample(&topic, b"", b"a\x01b\x02"));
            let view = RecordView::parse(&bytes).unwrap();
            assert_eq!((view.topic(), view.version()), (&*topic, if len > 127 { Version::V2 } else { Version::V1 }));
        }
    }

    #[test]
    fn crc_property() {
        for properties in [&b""[..], b"a\x01b", b"a\x01b\x02"] {
            let mut record = sample("T", b"x", properties);
            record.crc_property = true;
            let mut bytes = encoded(&record);
            assert!(RecordView::parse(&bytes).unwrap().property_crc_fits());
            bytes[17] ^= 1;
            assert!(!RecordView::parse(&bytes).unwrap().property_crc_fits());
        }
        assert_eq!(&super::crc_property(1_234_567_890), b"__CRC32#\x010987654321\x02");
    }

    #[test]
    fn blank_and_nothing() {
        let mut bytes = [0; 100];
        assert_eq!(Entry::read(&bytes).unwrap_err(), RecordError::Magic(0));
        write_blank(bytes.first_chunk_mut().unwrap(), 100);
        assert!(matches!(Entry::read(&bytes), Ok(Entry::Blank(100))));
        assert!(RecordView::parse(&bytes).is_err());
        assert_eq!(Entry::read(&bytes[..7]).unwrap_err(), RecordError::Truncated);
    }

    proptest! {
        #[test]
        fn round_trip(
            topic in "[A-Za-z0-9_%|-]{0,300}",
            body in prop::collection::vec(any::<u8>(), 0..300),
            properties in prop::collection::vec(any::<u8>(), 0..300),
            numbers in any::<(i32, i32, i64, i64, i32, i64, i64)>(),
            v6 in any::<(bool, bool)>(),
        ) {
            let mut record = sample(&topic, &body, &properties);
            (record.queue_id, record.flag, record.queue_offset, record.phys_offset, ..) = numbers;
            (.., record.reconsume_times, record.store_timestamp, record.prepared_transaction_offset) = numbers;
            if v6.0 { record.born_host = "[2001:db8::7]:65535".parse().unwrap(); }
            if v6.1 { record.store_host = "[2001:db8::8]:0".parse().unwrap(); }
            let bytes = encoded(&record);
            let view = RecordView::parse(&bytes).unwrap();
            prop_assert_eq!(view.body(), &*body);
            prop_assert_eq!(view.topic(), &*topic);
            prop_assert_eq!(view.property_bytes(), &*properties);
            prop_assert_eq!(view.store_timestamp(), record.store_timestamp);
            prop_assert!(view.body_crc_fits());
            prop_assert_eq!(again(&view), bytes);
        }

        #[test]
        fn damaged_records_never_panic(
            at in 0usize..120, value: u8, cut in 0usize..140,
        ) {
            let mut bytes = encoded(&sample("Topic", b"some body", b"TAGS\x01a\x02"));
            if let Some(byte) = bytes.get_mut(at) { *byte = value; }
            bytes.truncate(cut);
            if let Ok(view) = RecordView::parse(&bytes) {
                let _ = format!("{view:?} {:?} {:?}", view.born_host(), view.store_host());
                let _ = (view.tags_code(), view.keys(), view.body_crc_fits(), view.property_crc_fits());
                prop_assert_eq!(view.size(), bytes.len());
            }
        }
    }
}
