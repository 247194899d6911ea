//! Ids for messages whose producer gave none, in the form of the client's own ids:
//! `[ip][pid u16][a number of the process u32][milliseconds since the month began u32][counter u16]` in hexadecimal
//! digits. Clients read the time and the host back out of it.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU16, Ordering};

/// Makes ids; one a broker.
#[derive(Debug)]
pub struct UniqueIds {
    /// Digits of ip, pid and process number.
    fixed: Vec<u8>,
    counter: AtomicU16,
}

impl UniqueIds {
    /// Ids that carry this address.
    pub fn new(ip: IpAddr) -> UniqueIds {
        let mut bytes = match ip {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        let pid = std::process::id();
        bytes.extend_from_slice(&(pid as u16).to_be_bytes());
        // Tells two processes with the same pid (containers) apart, as the class loader's hash does in Java.
        let salt =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
        bytes.extend_from_slice(&(salt ^ pid.rotate_left(16)).to_be_bytes());
        let mut fixed = vec![0; 2 * bytes.len()];
        write_hex(&bytes, &mut fixed);
        UniqueIds { fixed, counter: AtomicU16::new(0) }
    }

    /// Writes a new id at the end of `out`; `now` is in milliseconds since the epoch.
    pub fn write(&self, now: i64, out: &mut Vec<u8>) {
        let since = (now - month_start(now)) as u32;
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        let mut tail = [0; 12];
        write_hex(&since.to_be_bytes(), &mut tail[..8]);
        write_hex(&count.to_be_bytes(), &mut tail[8..]);
        out.extend_from_slice(&self.fixed);
        out.extend_from_slice(&tail);
    }
}

/// Two upper-case digits a byte, into the first `2 * bytes.len()` bytes of `out`.
fn write_hex(bytes: &[u8], out: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for (byte, pair) in bytes.iter().zip(out.chunks_exact_mut(2)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
}

/// The first millisecond (UTC) of the month that `now` lies in.
fn month_start(now: i64) -> i64 {
    const DAY: i64 = 86_400_000;
    let days = now.div_euclid(DAY);
    (days - day_of_month(days)) * DAY
}

/// Days since the first of the month, for days since 1970-01-01. The civil calendar in 400-year cycles that begin on a
/// first of March, so that the leap day ends a year.
fn day_of_month(days: i64) -> i64 {
    let in_cycle = (days + 719_468).rem_euclid(146_097);
    let year = (in_cycle - in_cycle / 1460 + in_cycle / 36_524 - in_cycle / 146_096) / 365;
    let in_year = in_cycle - (365 * year + year / 4 - year / 100);
    let month = (5 * in_year + 2) / 153;
    in_year - (153 * month + 2) / 5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_begin_where_they_should() {
        // 2026-11-29 19:44:40 UTC, 2024-02-29 00:00 UTC, 1970-01-01.
        assert_eq!(month_start(1_795_981_480_000), 1_793_491_200_000);
        assert_eq!(month_start(1_709_164_800_000), 1_706_745_600_000);
        assert_eq!(month_start(0), 0);
        let mut day = 0;
        for days in 0..40_000 {
            let today = day_of_month(days);
            assert!(today == day || today == 0, "{days}");
            day = today + 1;
        }
    }

    #[test]
    fn ids_have_the_clients_form_and_differ() {
        let ids = UniqueIds::new("127.0.0.1".parse().unwrap());
        let mut one = Vec::new();
        ids.write(1_795_981_480_000, &mut one);
        let mut two = Vec::new();
        ids.write(1_795_981_480_000, &mut two);
        assert_eq!(one.len(), 32);
        assert!(one.starts_with(b"7F000001"));
        assert_ne!(one, two);
        assert_eq!(&one[20..28], format!("{:08X}", 1_795_981_480_000u64 - 1_793_491_200_000).as_bytes());
        let mut six = Vec::new();
        UniqueIds::new("::1".parse().unwrap()).write(0, &mut six);
        assert_eq!(six.len(), 56);
    }
}
