//! The id that a broker gives a message: store host and physical offset in upper-case hex.
//!
//! 32 characters with an IPv4 host (4 bytes address, 4 bytes port, 8 bytes offset), 56 with an IPv6 one.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// See the module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageId {
    /// The broker that stored the message.
    pub host: SocketAddr,
    /// Where its record starts in that broker's commitlog.
    pub phys_offset: u64,
}

impl MessageId {
    /// Reads an id; `None` when the text is none.
    pub fn parse(text: &str) -> Option<MessageId> {
        let mut bytes = [0u8; 28];
        let bytes = bytes.get_mut(..text.len() / 2)?;
        if !text.len().is_multiple_of(2) {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().as_chunks::<2>().0) {
            let digit = |c: u8| char::from(c).to_digit(16);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        let (ip, rest) = match bytes.len() {
            16 => (IpAddr::from(Ipv4Addr::from(*bytes.first_chunk::<4>()?)), &bytes[4..]),
            28 => (IpAddr::from(Ipv6Addr::from(*bytes.first_chunk::<16>()?)), &bytes[16..]),
            _ => return None,
        };
        let port = u32::from_be_bytes(*rest.first_chunk::<4>()?);
        let offset = u64::from_be_bytes(*rest.last_chunk::<8>()?);
        Some(MessageId { host: SocketAddr::new(ip, u16::try_from(port).ok()?), phys_offset: offset })
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = [0u8; 28];
        let ip = match self.host.ip().to_canonical() {
            IpAddr::V4(ip) => {
                bytes[..4].copy_from_slice(&ip.octets());
                4
            }
            IpAddr::V6(ip) => {
                bytes[..16].copy_from_slice(&ip.octets());
                16
            }
        };
        bytes[ip..ip + 4].copy_from_slice(&u32::from(self.host.port()).to_be_bytes());
        bytes[ip + 4..ip + 12].copy_from_slice(&self.phys_offset.to_be_bytes());
        let mut text = [0u8; 56];
        for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(&bytes[..ip + 12]) {
            *pair = [b"0123456789ABCDEF"[usize::from(byte >> 4)], b"0123456789ABCDEF"[usize::from(byte & 15)]];
        }
        f.write_str(std::str::from_utf8(&text[..2 * (ip + 12)]).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let id = MessageId { host: "127.0.0.1:10911".parse().unwrap(), phys_offset: 0x1234_5678 };
        assert_eq!(id.to_string(), "7F00000100002A9F0000000012345678");
        assert_eq!(MessageId::parse(&id.to_string()), Some(id));
        assert_eq!(MessageId::parse(&id.to_string().to_lowercase()), Some(id));
        let id = MessageId { host: "[fe80::1]:10911".parse().unwrap(), phys_offset: 7 };
        assert_eq!(id.to_string(), "FE80000000000000000000000000000100002A9F0000000000000007");
        assert_eq!(MessageId::parse(&id.to_string()), Some(id));
        for bad in ["", "7F", "zz00000100002A9F0000000012345678", "7F00000100012A9F0000000012345678", "é"] {
            assert_eq!(MessageId::parse(bad), None, "{bad}");
        }
    }
}
