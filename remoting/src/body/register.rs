//! The body of a broker's registration.
//!
//! Plain, it is JSON. Compressed, it is a zlib stream of parts, each a big-endian 4-byte length and so many bytes: the data version
//! as JSON; then a count and so many topic lines ([`TopicConfig::to_line`]); the filter servers as a JSON array; from
//! brokers of 5.0.0 on a count and so many static-topic mappings as JSON. Brokers before 3.0.11 send a
//! [`TopicConfigTable`] instead.

use std::io::{Read, Write};
use std::ops::Range;

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::data_version::DataVersion;
use super::fastjson::{self, JsonError};
use super::topic::{TopicConfig, TopicConfigAndMapping, TopicConfigTable};

/// Java's ordinal of the first version that sends filter servers.
pub const V3_0_11: i32 = 37;
/// Java's ordinal of the first version that sends mappings in a compressed body.
pub const V5_0_0: i32 = 413;

/// How many bytes a compressed body may hold.
pub const MAX_INFLATED: u64 = 512 * 1024 * 1024;

/// How far into a plain body the data version is looked for by [`peek`].
const PEEK: usize = 64 * 1024;

/// Java's `RegisterBrokerBody`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RegisterBrokerBody {
    /// `None` (from brokers before 3.0.11) leaves what is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter_server_list: Option<Vec<String>>,
    /// Topics and their version.
    pub topic_config_serialize_wrapper: TopicConfigAndMapping,
}

/// Why a registration cannot be read. The peer's fault.
#[derive(Debug, Error)]
pub enum RegisterBodyError {
    /// Not a zlib stream, or one that ends too early.
    #[error("not a compressed registration: {0}")]
    Inflate(#[from] std::io::Error),
    /// A part that is not what belongs there.
    #[error("{0}")]
    Json(#[from] JsonError),
    /// A length or count below zero.
    #[error("a length of {0}")]
    Length(i32),
    /// A topic line that cannot be read.
    #[error("not a topic line: {0:?}")]
    TopicLine(String),
}

impl RegisterBrokerBody {
    /// Reads the body of a request. An empty one stands for no topics at version 0.
    ///
    /// `version` is the broker's (Java's ordinal, in the frame), `compressed` the header's field.
    ///
    /// # Errors
    /// Not in the format that version and flag promise.
    pub fn read(body: &[u8], compressed: bool, version: i32) -> Result<RegisterBrokerBody, RegisterBodyError> {
        if body.is_empty() {
            let filter_server_list = (version >= V3_0_11).then(Vec::new);
            return Ok(RegisterBrokerBody { filter_server_list, ..RegisterBrokerBody::default() });
        }
        if version < V3_0_11 {
            let table: TopicConfigTable = fastjson::from_slice(body)?;
            let wrapper = TopicConfigAndMapping {
                data_version: table.data_version,
                topic_config_table: table.topic_config_table,
                ..TopicConfigAndMapping::default()
            };
            return Ok(RegisterBrokerBody { filter_server_list: None, topic_config_serialize_wrapper: wrapper });
        }
        if compressed {
            return RegisterBrokerBody::inflate(body, version);
        }
        Ok(fastjson::from_slice(body)?)
    }

    /// Writes the plain form.
    ///
    /// # Errors
    /// None in practice.
    pub fn to_plain(&self) -> Result<Vec<u8>, JsonError> {
        fastjson::to_vec(self)
    }

    /// Writes the compressed form, mappings included.
    ///
    /// # Errors
    /// None in practice.
    pub fn to_compressed(&self) -> Result<Vec<u8>, RegisterBodyError> {
        let wrapper = &self.topic_config_serialize_wrapper;
        let mut out = ZlibEncoder::new(Vec::new(), Compression::best());
        put(&mut out, &fastjson::to_vec(&wrapper.data_version)?)?;
        out.write_all(&(wrapper.topic_config_table.len() as i32).to_be_bytes())?;
        for config in wrapper.topic_config_table.values() {
            put(&mut out, config.to_line().as_bytes())?;
        }
        put(&mut out, &fastjson::to_vec(self.filter_server_list.as_deref().unwrap_or_default())?)?;
        out.write_all(&(wrapper.topic_queue_mapping_info_map.len() as i32).to_be_bytes())?;
        for mapping in wrapper.topic_queue_mapping_info_map.values() {
            put(&mut out, &fastjson::to_vec(mapping)?)?;
        }
        Ok(out.finish()?)
    }

    fn inflate(body: &[u8], version: i32) -> Result<RegisterBrokerBody, RegisterBodyError> {
        let mut stream = ZlibDecoder::new(body).take(MAX_INFLATED);
        let mut wrapper = TopicConfigAndMapping { data_version: version_part(&mut stream)?, ..Default::default() };
        for _ in 0..length(&mut stream)? {
            let line = String::from_utf8_lossy(&part(&mut stream)?).into_owned();
            let config = TopicConfig::from_line(&line).ok_or(RegisterBodyError::TopicLine(line))?;
            wrapper.topic_config_table.insert(config.topic_name.clone(), config);
        }
        // Java goes on without the list when it cannot be read.
        let filter_server_list = Some(fastjson::from_slice(&part(&mut stream)?).unwrap_or_default());
        if version >= V5_0_0 {
            for _ in 0..length(&mut stream)? {
                let mapping: super::topic_queue_mapping::TopicQueueMappingInfo =
                    fastjson::from_slice(&part(&mut stream)?)?;
                wrapper.topic_queue_mapping_info_map.insert(mapping.topic.clone().unwrap_or_default(), mapping);
            }
        }
        Ok(RegisterBrokerBody { filter_server_list, topic_config_serialize_wrapper: wrapper })
    }
}

/// What can be told of a registration without reading its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peek {
    /// The version of the table.
    pub version: DataVersion,
    /// The part of the body that differs between registrations of the same content: Java puts the present time into the version
    /// of the mappings, which no name server reads. Empty in a compressed body.
    pub volatile: Range<usize>,
}

/// Looks at the head of a registration; `None` when it is not laid out as Java (and we) write it.
pub fn peek(body: &[u8], compressed: bool, version: i32) -> Option<Peek> {
    if version < V3_0_11 {
        return None;
    }
    if compressed {
        let version = version_part(&mut ZlibDecoder::new(body).take(PEEK as u64)).ok()?;
        return Some(Peek { version, volatile: 0..0 });
    }
    // Quotes inside of strings are escaped, so this cannot be the text of a filter server.
    const LEAD: &[u8] = br#""topicConfigSerializeWrapper":{"dataVersion":{"#;
    const MAPPING: &[u8] = br#","mappingDataVersion":{"#;
    let head = body.get(..PEEK).unwrap_or(body);
    let start = memchr::memmem::find(head, LEAD)? + LEAD.len() - 1;
    let end = start + memchr::memchr(b'}', head.get(start..)?)? + 1;
    let version = fastjson::from_slice(head.get(start..end)?).ok()?;
    let rest = head.get(end..)?;
    let length = if rest.starts_with(MAPPING) { memchr::memchr(b'}', rest)? + 1 } else { 0 };
    Some(Peek { version, volatile: end..end + length })
}

fn version_part(stream: &mut impl Read) -> Result<DataVersion, RegisterBodyError> {
    Ok(fastjson::from_slice(&part(stream)?)?)
}

fn length(stream: &mut impl Read) -> Result<u64, RegisterBodyError> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes)?;
    let length = i32::from_be_bytes(bytes);
    u64::try_from(length).map_err(|_| RegisterBodyError::Length(length))
}

/// One part. Memory grows with what the stream really holds, not with the length that it announces.
fn part(stream: &mut impl Read) -> Result<Vec<u8>, RegisterBodyError> {
    let length = length(stream)?;
    let mut bytes = Vec::new();
    if stream.take(length).read_to_end(&mut bytes)? as u64 != length {
        return Err(RegisterBodyError::Inflate(std::io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(bytes)
}

fn put(out: &mut impl Write, part: &[u8]) -> std::io::Result<()> {
    out.write_all(&(part.len() as i32).to_be_bytes())?;
    out.write_all(part)
}

#[cfg(test)]
mod tests {
    use base64::Engine;

    use super::*;

    /// `RegisterBrokerBody.encode(true)` of Java 5.5.0 for one topic with an attribute and a mapping.
    const COMPRESSED: &str = "eNotjkELgkAQhbf+SDLX9uBKms6tQ0RQQSRdIpZ1m0pQV9b1EOJ/b41gHgzfvPcYxlg6gDZ948gChhw6pxxdyXalaX7AlTV5WLeAYp3FWSribJWE65ExNvNa5IFIpkmCy/60O2xlvtkFAywVIBQw2ea3+99sBygaVdN0ssBB99buH0fly4cQBY8w4kJgNHJ4lNZ9AJ+q6ogDtUa/AWP/oDbtlJfyVZlCVVL6HmfaUnuY/3anqnNPPXWA6fgFoVo+mw==";

    fn java() -> Vec<u8> {
        base64::engine::general_purpose::STANDARD.decode(COMPRESSED).unwrap()
    }

    #[test]
    fn compressed_by_java() {
        let bytes = java();
        let body = RegisterBrokerBody::read(&bytes, true, 513).unwrap();
        let wrapper = &body.topic_config_serialize_wrapper;
        assert_eq!(body.filter_server_list.as_deref(), Some(&[][..]));
        assert_eq!(wrapper.topic_config_table["T"].attributes["+a"], "b");
        assert_eq!(wrapper.topic_queue_mapping_info_map["T"].curr_id_map, [(0, 1), (2, 2), (11, 2)].into());
        assert_eq!(peek(&bytes, true, 513), Some(Peek { version: wrapper.data_version, volatile: 0..0 }));
        assert_eq!(RegisterBrokerBody::read(&body.to_compressed().unwrap(), true, 513).unwrap(), body);
        // A 4.9 broker sends no mappings, so they are not looked for.
        let old = RegisterBrokerBody::read(&bytes, true, 401).unwrap();
        assert!(old.topic_config_serialize_wrapper.topic_queue_mapping_info_map.is_empty());
    }

    #[test]
    fn plain() {
        let mut body = RegisterBrokerBody::read(&java(), true, 513).unwrap();
        body.filter_server_list = Some(vec!["10.0.0.1:9".into()]);
        let bytes = body.to_plain().unwrap();
        assert_eq!(RegisterBrokerBody::read(&bytes, false, 513).unwrap(), body);
        let version = body.topic_config_serialize_wrapper.data_version;
        let peek = peek(&bytes, false, 513).unwrap();
        assert_eq!(peek.version, version);
        let volatile = std::str::from_utf8(&bytes[peek.volatile]).unwrap();
        assert_eq!(volatile, r#","mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":0}"#);
        assert_eq!(
            RegisterBrokerBody::read(b"", false, 513).unwrap().topic_config_serialize_wrapper.data_version.timestamp,
            0
        );
    }

    #[test]
    fn old_brokers_send_the_table_only() {
        let table =
            br#"{"dataVersion":{"counter":3,"timestamp":7},"topicConfigTable":{"T":{"topicName":"T","perm":4}}}"#;
        let body = RegisterBrokerBody::read(table, false, 30).unwrap();
        assert_eq!(body.filter_server_list, None);
        assert_eq!(body.topic_config_serialize_wrapper.data_version.counter, 3);
        assert_eq!(body.topic_config_serialize_wrapper.topic_config_table["T"].perm, 4);
    }

    #[test]
    fn damaged_bodies_are_errors() {
        let bytes = java();
        assert!(RegisterBrokerBody::read(&bytes, false, 513).is_err(), "compressed, but said to be plain");
        for cut in [1, 10, bytes.len() / 2] {
            assert!(RegisterBrokerBody::read(&bytes[..cut], true, 513).is_err());
        }
        let mut huge = ZlibEncoder::new(Vec::new(), Compression::fast());
        huge.write_all(&i32::MAX.to_be_bytes()).unwrap();
        assert!(RegisterBrokerBody::read(&huge.finish().unwrap(), true, 513).is_err());
        let mut negative = ZlibEncoder::new(Vec::new(), Compression::fast());
        negative.write_all(&(-5i32).to_be_bytes()).unwrap();
        assert!(matches!(
            RegisterBrokerBody::read(&negative.finish().unwrap(), true, 513),
            Err(RegisterBodyError::Length(-5))
        ));
    }
}
