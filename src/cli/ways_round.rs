//! Ways round the warden: what of Cube listens on this machine where tenants may reach it. PURE but for reading /proc.
//!
//! Deliberately absent: any connection. What a firewall does cannot be seen from here, so this only ever warns.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `CubeMaster`, which asks nobody for a key.
const CUBE_MASTER: u16 = 8089;
/// The state of a listening socket in the kernel's tables.
const LISTENING: &str = "0A";

/// The addresses beyond loopback on which something of this machine listens on `port`.
pub(super) fn listening_on(port: u16) -> Vec<IpAddr> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    // Elsewhere than on Linux, or without /proc, nothing can be told.
    let tables = tables.iter().filter_map(|table| std::fs::read_to_string(table).ok());
    let mut found: Vec<IpAddr> = tables.flat_map(|table| exposed(&table, port)).collect();
    found.sort();
    found.dedup();
    found
}

/// The same for `CubeMaster`.
pub(super) fn cube_master() -> (u16, Vec<IpAddr>) {
    (CUBE_MASTER, listening_on(CUBE_MASTER))
}

/// What one of the kernel's tables says.
fn exposed(table: &str, port: u16) -> Vec<IpAddr> {
    let lines = table.lines().skip(1).filter_map(|line| {
        let mut columns = line.split_ascii_whitespace().skip(1);
        let (local, _remote, state) = (columns.next()?, columns.next()?, columns.next()?);
        let (address, listens_on) = local.split_once(':')?;
        let ours = state == LISTENING && u16::from_str_radix(listens_on, 16).ok()? == port;
        if ours { read_address(address) } else { None }
    });
    lines.filter(|address| !address.is_loopback()).collect()
}

/// Words of 32 bits in the machine's own order, hexadecimal.
fn read_address(text: &str) -> Option<IpAddr> {
    let words: Vec<[u8; 4]> = (0..text.len() / 8)
        .map(|at| u32::from_str_radix(text.get(8 * at..8 * at + 8)?, 16).ok().map(u32::to_ne_bytes))
        .collect::<Option<_>>()?;
    match words.as_slice() {
        [word] => Some(Ipv4Addr::from(*word).into()),
        [a, b, c, d] => {
            let bytes: [u8; 16] = [*a, *b, *c, *d].concat().try_into().ok()?;
            Some(Ipv6Addr::from(bytes).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn listeners_beyond_loopback_are_told_from_those_on_it_and_from_connections() {
        let v4 = "  sl  local_address rem_address   st tx_queue\n\
             0: 0100007F:0BB9 00000000:0000 0A 00000000:00000000\n\
             1: 00000000:0BB9 00000000:0000 0A 00000000:00000000\n\
             2: 0A00A8C0:0BB9 0100A8C0:1234 01 00000000:00000000\n\
             3: 0A00A8C0:1F99 00000000:0000 0A 00000000:00000000\n\
             torn";
        assert_eq!(exposed(v4, 3001), [IpAddr::V4(Ipv4Addr::UNSPECIFIED)]);
        assert_eq!(exposed(v4, CUBE_MASTER), [IpAddr::from([192, 168, 0, 10])]);
        let v6 = "  sl  local_address                         remote_address\n\
             0: 00000000000000000000000000000000:0BB9 00000000000000000000000000000000:0000 0A\n\
             1: 00000000000000000000000001000000:0BB9 00000000000000000000000000000000:0000 0A\n\
             2: 0000000000000000FFFF00000100007F:0BB9 00000000000000000000000000000000:0000 0A";
        assert_eq!(exposed(v6, 3001), [IpAddr::V6(Ipv6Addr::UNSPECIFIED)]);
    }
}
