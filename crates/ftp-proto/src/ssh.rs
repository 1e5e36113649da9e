//! The words by which sshd tells a command the addresses of its connection.

use std::net::{IpAddr, SocketAddr};

/// Reads `SSH_CONNECTION`, "client port server port"; returns the addresses of the client and of the
/// server.
pub fn addresses(words: &str) -> Option<(SocketAddr, SocketAddr)> {
    let mut words = words.split_whitespace();
    let mut next = || {
        let ip: IpAddr = words.next()?.parse().ok()?;
        let port = words.next()?.parse().ok()?;
        Some(SocketAddr::new(ip.to_canonical(), port))
    };
    next().zip(next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_are_those_of_sshd() {
        let of = |words| {
            let (client, server) = addresses(words)?;
            Some(format!("{client} {server}"))
        };
        let told = of("192.0.2.1 4022 ::ffff:192.0.2.7 22");
        assert_eq!(told.as_deref(), Some("192.0.2.1:4022 192.0.2.7:22"));
        let told = of("::ffff:192.0.2.1 1 2001:db8::1 22");
        assert_eq!(told.as_deref(), Some("192.0.2.1:1 [2001:db8::1]:22"));
        let bad = [
            "",
            "192.0.2.1 4022",
            "a b c d",
            "UNKNOWN 65535 UNKNOWN 65535",
        ];
        assert!(bad.into_iter().all(|words| addresses(words).is_none()));
    }
}
