//! Defaults that depend on the machine, found the way the Java server finds them.

use std::net::{IpAddr, ToSocketAddrs};
use std::sync::OnceLock;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

/// Processors that this process may use, never less than 1.
pub fn cores() -> i32 {
    static CORES: OnceLock<i32> = OnceLock::new();
    *CORES.get_or_init(|| {
        std::thread::available_parallelism().ok().and_then(|cores| i32::try_from(cores.get()).ok()).unwrap_or(1)
    })
}

/// The default broker name: the host name if it resolves to an address, otherwise `DEFAULT_BROKER`.
pub fn broker_name() -> String {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| match host_name() {
        Some(name) if resolves(&name) => name,
        _ => "DEFAULT_BROKER".to_owned(),
    })
    .clone()
}

/// The address under which others reach this machine: an IPv4 address outside the private ranges if there is one,
/// otherwise a private one, otherwise IPv6 in brackets, otherwise what the host name resolves to.
pub fn local_address() -> String {
    static ADDRESS: OnceLock<String> = OnceLock::new();
    ADDRESS.get_or_init(|| text(choose(&interface_addresses()).or_else(host_address))).clone()
}

/// The user's home directory, or `.` when there is none.
pub fn user_home() -> String {
    std::env::home_dir()
        .filter(|home| !home.as_os_str().is_empty())
        .map_or_else(|| ".".to_owned(), |home| home.to_string_lossy().into_owned())
}

/// A path below the user's home directory.
pub fn below_home(relative: &str) -> String {
    format!("{}/{relative}", user_home())
}

/// An environment variable, if it is set.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn host_name() -> Option<String> {
    let name = nix::unistd::gethostname().ok()?.into_string().ok()?;
    (!name.is_empty()).then_some(name)
}

fn resolves(name: &str) -> bool {
    (name, 0).to_socket_addrs().is_ok_and(|mut addresses| addresses.next().is_some())
}

fn host_address() -> Option<IpAddr> {
    (host_name()?.as_str(), 0).to_socket_addrs().ok()?.map(|address| address.ip()).next()
}

fn text(address: Option<IpAddr>) -> String {
    match address {
        Some(IpAddr::V4(address)) => address.to_string(),
        Some(IpAddr::V6(address)) => format!("[{address}]"),
        None => "127.0.0.1".to_owned(),
    }
}

/// Addresses of interfaces that are up and neither bridges nor tunnels, in the order in which a JVM lists them:
/// the interface that the system names last comes first.
fn interface_addresses() -> Vec<IpAddr> {
    let Ok(interfaces) = getifaddrs() else { return Vec::new() };
    let mut addresses: Vec<IpAddr> = interfaces
        .filter(|interface| {
            interface.flags.contains(InterfaceFlags::IFF_UP)
                && !interface.flags.contains(InterfaceFlags::IFF_POINTOPOINT)
                && !is_bridge(&interface.interface_name)
        })
        .filter_map(|interface| {
            let address = interface.address?;
            if let Some(v4) = address.as_sockaddr_in() {
                return Some(IpAddr::V4(v4.ip()));
            }
            address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip()))
        })
        .collect();
    addresses.reverse();
    addresses
}

fn is_bridge(interface: &str) -> bool {
    std::path::Path::new("/sys/class/net").join(interface).join("bridge").exists()
}

fn choose(addresses: &[IpAddr]) -> Option<IpAddr> {
    let v4: Vec<_> = addresses.iter().filter(|address| address.is_ipv4() && !address.is_loopback()).collect();
    let v6: Vec<_> = addresses.iter().filter(|address| address.is_ipv6() && !address.is_loopback()).collect();
    let public = |address: &&&IpAddr| !is_internal(address);
    v4.iter()
        .find(public)
        .or_else(|| v4.last())
        .or_else(|| v6.iter().find(public))
        .or_else(|| v6.first())
        .map(|address| **address)
}

fn is_internal(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_private() || address.is_loopback(),
        // Site-local addresses (fec0::/10) are deprecated, but Java still treats them as internal.
        IpAddr::V6(address) => {
            address.is_unspecified()
                || address.is_unicast_link_local()
                || address.is_loopback()
                || address.segments()[0] & 0xffc0 == 0xfec0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_public_address_wins_then_the_last_private_one_then_ipv6() {
        let chosen = |texts: &[&str]| text(choose(&addresses(texts)));
        assert_eq!(chosen(&["10.0.0.1", "8.8.4.4", "192.168.1.1"]), "8.8.4.4");
        assert_eq!(chosen(&["10.0.0.1", "192.168.1.1", "127.0.0.1"]), "192.168.1.1");
        assert_eq!(chosen(&["172.31.0.9", "fe80::1"]), "172.31.0.9");
        assert_eq!(chosen(&["fe80::1", "2001:db8::5", "::1"]), "[2001:db8::5]");
        assert_eq!(chosen(&["fe80::1", "fec0::2"]), "[fe80::1]");
        assert_eq!(choose(&addresses(&["127.0.0.1", "::1"])), None);
    }

    #[test]
    fn this_machine_has_an_address_a_name_and_a_home() {
        let address = local_address();
        assert!(address.trim_matches(['[', ']']).parse::<IpAddr>().is_ok(), "{address}");
        assert!(!broker_name().is_empty());
        assert!(!user_home().is_empty());
        assert!(cores() >= 1);
    }
}
