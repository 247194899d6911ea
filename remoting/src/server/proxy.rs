//! The PROXY protocol header (HAProxy, versions 1 and 2) that a load balancer may put in front of a connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const V2_SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// The longest version 1 line, line end included.
const V1_LONGEST: usize = 107;
/// We take no longer version 2 address block (addresses and TLVs); the protocol allows 65,535.
const V2_LONGEST: usize = 4096;

/// What the first bytes of a connection are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// No PROXY header: frames begin at once.
    Frames,
    /// Perhaps the beginning of a PROXY header: more bytes will tell.
    NeedMore,
    /// A PROXY header of `len` bytes; no client address for LOCAL and UNKNOWN.
    Proxy { len: usize, client: Option<SocketAddr> },
    /// Began like one and is none: the connection is closed.
    Bad,
}

/// Looks at the first bytes of a connection.
pub(crate) fn detect(bytes: &[u8]) -> First {
    if starts_like(bytes, b"PROXY ") {
        return version_1(bytes);
    }
    if starts_like(bytes, &V2_SIGNATURE) {
        return version_2(bytes);
    }
    First::Frames
}

fn starts_like(bytes: &[u8], prefix: &[u8]) -> bool {
    let shared = bytes.len().min(prefix.len());
    shared > 0 && bytes[..shared] == prefix[..shared]
}

fn version_1(bytes: &[u8]) -> First {
    let window = &bytes[..bytes.len().min(V1_LONGEST)];
    let Some(end) = window.windows(2).position(|pair| pair == b"\r\n") else {
        return if bytes.len() < V1_LONGEST { First::NeedMore } else { First::Bad };
    };
    let len = end + 2;
    let Ok(line) = std::str::from_utf8(&bytes[..end]) else { return First::Bad };
    let mut words = line.split(' ').skip(1);
    match words.next() {
        Some("UNKNOWN") => First::Proxy { len, client: None },
        Some("TCP4" | "TCP6") => {
            let source = words.next().and_then(|ip| ip.parse::<IpAddr>().ok());
            let _destination = words.next();
            let port = words.next().and_then(|port| port.parse::<u16>().ok());
            match (source, port) {
                (Some(ip), Some(port)) => First::Proxy { len, client: Some(SocketAddr::new(ip, port)) },
                _ => First::Bad,
            }
        }
        _ => First::Bad,
    }
}

fn version_2(bytes: &[u8]) -> First {
    let Some(head) = bytes.get(12..16) else { return First::NeedMore };
    let (version, command, family) = (head[0] >> 4, head[0] & 15, head[1]);
    let block = usize::from(u16::from_be_bytes([head[2], head[3]]));
    if version != 2 || command > 1 || block > V2_LONGEST {
        return First::Bad;
    }
    let len = 16 + block;
    let Some(addresses) = bytes.get(16..len) else { return First::NeedMore };
    if command == 0 {
        return First::Proxy { len, client: None };
    }
    match family {
        0x11 if block >= 12 => {
            let ip = Ipv4Addr::new(addresses[0], addresses[1], addresses[2], addresses[3]);
            let port = u16::from_be_bytes([addresses[8], addresses[9]]);
            First::Proxy { len, client: Some((ip, port).into()) }
        }
        0x21 if block >= 36 => {
            let mut ip = [0; 16];
            ip.copy_from_slice(&addresses[..16]);
            let port = u16::from_be_bytes([addresses[32], addresses[33]]);
            First::Proxy { len, client: Some((Ipv6Addr::from(ip), port).into()) }
        }
        0x11 | 0x21 => First::Bad,
        _ => First::Proxy { len, client: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_line() {
        let line = b"PROXY TCP4 1.2.3.4 5.6.7.8 1111 2222\r\n";
        let client = Some("1.2.3.4:1111".parse().unwrap());
        assert_eq!(detect(line), First::Proxy { len: line.len(), client });
        for cut in 1..line.len() {
            assert_eq!(detect(&line[..cut]), First::NeedMore, "{cut}");
        }
        assert_eq!(detect(b"PROXY UNKNOWN\r\n\0\0"), First::Proxy { len: 15, client: None });
        assert_eq!(detect(b"PROXY TCP4 x y z\r\n"), First::Bad);
        assert_eq!(detect(&[b"PROXY ".as_slice(), &[b'x'; 200]].concat()), First::Bad);
    }

    #[test]
    fn version_2_block() {
        let mut block = V2_SIGNATURE.to_vec();
        block.extend([0x21, 0x11, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8, 0x04, 0x57, 0x08, 0xAE]);
        let client = Some("1.2.3.4:1111".parse().unwrap());
        assert_eq!(detect(&block), First::Proxy { len: 28, client });
        for cut in 1..block.len() {
            assert_eq!(detect(&block[..cut]), First::NeedMore, "{cut}");
        }
        block[12] = 0x31;
        assert_eq!(detect(&block), First::Bad);
    }

    #[test]
    fn frames_and_nothing() {
        assert_eq!(detect(&[0, 0, 1, 0]), First::Frames);
        assert_eq!(detect(b"GET / HTTP/1.1"), First::Frames);
        assert_eq!(detect(b""), First::Frames);
    }
}
