//! Host-port forms of PASV, PORT, EPSV, EPRT, SPAS, SPOR (RFC 959, RFC 2428, GFD.20).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::command::Family;
use crate::error::BadAddress;
use crate::reply::{Code, Reply};

/// Most addresses in one list, one a stripe.
pub const MAX_ADDRESSES: usize = 256;

/// Parses `h,h,h,h,p,p` (RFC 959 §4.1.2); port 0 is refused.
///
/// # Errors
///
/// [`BadAddress::HostPort`].
pub fn parse_port(text: &[u8]) -> Result<SocketAddr, BadAddress> {
    let mut numbers = [0u8; 6];
    let mut fields = text.trim_ascii().split(|b| *b == b',');
    for number in &mut numbers {
        *number = fields
            .next()
            .and_then(decimal)
            .ok_or(BadAddress::HostPort)?;
    }
    if fields.next().is_some() {
        return Err(BadAddress::HostPort);
    }
    let [a, b, c, d, high, low] = numbers;
    match u16::from_be_bytes([high, low]) {
        0 => Err(BadAddress::HostPort),
        port => Ok(SocketAddr::from((Ipv4Addr::new(a, b, c, d), port))),
    }
}

/// Parses `|family|address|port|` (RFC 2428 §2); the first byte, `!` to `~`, is the delimiter.
///
/// # Errors
///
/// [`BadAddress::Extended`], or [`BadAddress::Family`] for a family other than 1 and 2.
pub fn parse_eprt(text: &[u8]) -> Result<SocketAddr, BadAddress> {
    let [family, host, port] = extended_fields(text)?;
    let port = decimal(port)
        .filter(|port| *port != 0)
        .ok_or(BadAddress::Extended)?;
    let ip = match parse_family(family)? {
        Family::V4 => parse_text::<Ipv4Addr>(host).map(IpAddr::V4),
        // A zone is valid on one host only, so none is accepted.
        Family::V6 => parse_text::<Ipv6Addr>(host).map(IpAddr::V6),
    };
    // An IPv4-mapped address becomes the IPv4 address, or rules about addresses could be evaded.
    let ip = ip.ok_or(BadAddress::Extended)?.to_canonical();
    Ok(SocketAddr::new(ip, port))
}

/// Parses either form, distinguished by the first character, as GCT does for striped lists.
///
/// # Errors
///
/// As [`parse_port`] and [`parse_eprt`]; [`BadAddress::Empty`].
pub fn parse_item(text: &[u8]) -> Result<SocketAddr, BadAddress> {
    match text.trim_ascii().first() {
        None => Err(BadAddress::Empty),
        Some(b'0'..=b'9') => parse_port(text),
        Some(_) => parse_eprt(text.trim_ascii()),
    }
}

/// Parses a list of addresses separated by blanks, as in SPOR (GFD.20).
///
/// # Errors
///
/// As [`parse_item`]; [`BadAddress::TooMany`] above [`MAX_ADDRESSES`].
pub fn parse_list(text: &[u8]) -> Result<Vec<SocketAddr>, BadAddress> {
    let mut list = Vec::new();
    for item in text
        .split(u8::is_ascii_whitespace)
        .filter(|item| !item.is_empty())
    {
        if list.len() == MAX_ADDRESSES {
            return Err(BadAddress::TooMany {
                limit: MAX_ADDRESSES,
            });
        }
        list.push(parse_item(item)?);
    }
    if list.is_empty() {
        Err(BadAddress::Empty)
    } else {
        Ok(list)
    }
}

/// Parses the number of an address family (RFC 2428 §2).
///
/// # Errors
///
/// [`BadAddress::Family`] for a number other than 1 and 2, [`BadAddress::Extended`] for no number.
pub fn parse_family(text: &[u8]) -> Result<Family, BadAddress> {
    match text {
        b"1" => Ok(Family::V4),
        b"2" => Ok(Family::V6),
        text if !text.is_empty() && text.iter().all(u8::is_ascii_digit) => Err(BadAddress::Family),
        _ => Err(BadAddress::Extended),
    }
}

/// The three fields between four delimiters.
fn extended_fields(text: &[u8]) -> Result<[&[u8]; 3], BadAddress> {
    let (&delimiter, rest) = text.split_first().ok_or(BadAddress::Empty)?;
    if !delimiter.is_ascii_graphic() || delimiter.is_ascii_alphanumeric() {
        return Err(BadAddress::Extended);
    }
    let mut fields = rest.split(|b| *b == delimiter);
    let mut next = || fields.next().ok_or(BadAddress::Extended);
    let found = [next()?, next()?, next()?];
    // Behind the last delimiter there is one empty field.
    match (fields.next(), fields.next()) {
        (Some(b""), None) => Ok(found),
        _ => Err(BadAddress::Extended),
    }
}

fn decimal<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    // `parse` alone would accept a plus sign.
    text.first().filter(|b| b.is_ascii_digit())?;
    parse_text(text)
}

fn parse_text<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Writes `h,h,h,h,p,p`; `None` for an address that is neither IPv4 nor IPv4-mapped.
pub fn port_text(addr: SocketAddr) -> Option<String> {
    let IpAddr::V4(ip) = addr.ip().to_canonical() else {
        return None;
    };
    let [a, b, c, d] = ip.octets();
    let [high, low] = addr.port().to_be_bytes();
    Some(format!("{a},{b},{c},{d},{high},{low}"))
}

/// Writes `|family|address|port|`.
pub fn eprt_text(addr: SocketAddr) -> String {
    let ip = addr.ip().to_canonical();
    let family = if ip.is_ipv4() { 1 } else { 2 };
    format!("|{family}|{ip}|{}|", addr.port())
}

/// Writes a list for SPOR: each address in the short form where that is possible.
pub fn list_text(addrs: &[SocketAddr]) -> String {
    let items: Vec<_> = addrs
        .iter()
        .map(|a| port_text(*a).unwrap_or_else(|| eprt_text(*a)))
        .collect();
    items.join(" ")
}

const fn code(delayed: bool, now: Code, later: Code) -> Code {
    if delayed { later } else { now }
}

/// The reply to PASV: 227, or 127 when delayed; `None` for an address that is not IPv4.
pub fn pasv_reply(addr: SocketAddr, delayed: bool) -> Option<Reply> {
    let code = code(delayed, Code::of::<227>(), Code::of::<127>());
    Some(Reply::new(
        code,
        format!("Entering Passive Mode ({})", port_text(addr)?),
    ))
}

/// The reply to EPSV: 229, or 129 when delayed, with the port alone (RFC 2428 §3).
pub fn epsv_reply(port: u16, delayed: bool) -> Reply {
    let code = code(delayed, Code::of::<229>(), Code::of::<129>());
    Reply::new(code, format!("Entering Extended Passive Mode (|||{port}|)"))
}

/// The reply to EPSV for a data port on another host: with the address, as Globus servers write it
/// under `-epsv-ip`, and as no client of plain FTP reads it.
pub fn epsv_host_reply(addr: SocketAddr, delayed: bool) -> Reply {
    let code = code(delayed, Code::of::<229>(), Code::of::<129>());
    let address = eprt_text(addr);
    Reply::new(code, format!("Entering Extended Passive Mode ({address})"))
}

/// The reply to SPAS: 229, or 129 when delayed, one line a stripe.
///
/// `extended` selects `|family|address|port|`, as `SPAS 1` and `SPAS 2` do; without it only an
/// address that is not IPv4 gets that form. GCT counts line ends to learn the number of stripes,
/// so there are exactly one opening and one closing line, and no parentheses.
pub fn spas_reply(addrs: &[SocketAddr], extended: bool, delayed: bool) -> Reply {
    let code = code(delayed, Code::of::<229>(), Code::of::<129>());
    let item = |addr: &SocketAddr| {
        let short = if extended { None } else { port_text(*addr) };
        short.unwrap_or_else(|| eprt_text(*addr))
    };
    Reply::indented(
        code,
        "Entering Striped Passive Mode.",
        addrs.iter().map(item),
        "End",
    )
}

/// The data address in a server's reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Passive {
    /// Addresses, one a stripe.
    Addrs(Vec<SocketAddr>),
    /// A port of the host at the other end of the control connection.
    Port(u16),
}

impl Passive {
    /// Reads 227, 229, 127 and 129, with or without parentheses, of one stripe or more.
    ///
    /// # Errors
    ///
    /// [`BadAddress`] when the reply has another code or no readable address.
    pub fn from_reply(reply: &Reply) -> Result<Self, BadAddress> {
        match reply.code().number() {
            127 | 227 => Self::from_pasv(reply.first_line()),
            129 | 229 if reply.lines().len() > 1 => Self::from_spas(reply),
            129 | 229 => Self::from_epsv(reply.first_line()),
            _ => Err(BadAddress::Reply),
        }
    }

    /// RFC 1123 §4.1.2.6: parentheses may be missing, so the text is searched for the numbers.
    fn from_pasv(text: &[u8]) -> Result<Self, BadAddress> {
        let open = text.iter().position(|b| *b == b'(').map_or(0, |at| at + 1);
        let text = text.get(open..).unwrap_or_default();
        let candidate = |item: &&[u8]| item.contains(&b',');
        let item = text
            .split(|b| !b.is_ascii_digit() && *b != b',')
            .find(candidate)
            .ok_or(BadAddress::Reply)?;
        let item = item.strip_suffix(b",").unwrap_or(item);
        Ok(Self::Addrs(vec![parse_port(item)?]))
    }

    fn from_epsv(text: &[u8]) -> Result<Self, BadAddress> {
        let open = text
            .iter()
            .position(|b| *b == b'(')
            .ok_or(BadAddress::Reply)?;
        let text = text.get(open + 1..).unwrap_or_default();
        let close = text
            .iter()
            .rposition(|b| *b == b')')
            .ok_or(BadAddress::Extended)?;
        let text = text.get(..close).unwrap_or_default();
        if text.first().is_some_and(u8::is_ascii_digit) {
            return Ok(Self::Addrs(vec![parse_port(text)?]));
        }
        let [_, host, port] = extended_fields(text)?;
        if host.is_empty() {
            let port = decimal(port).filter(|port| *port != 0);
            return port.map(Self::Port).ok_or(BadAddress::Extended);
        }
        Ok(Self::Addrs(vec![parse_eprt(text)?]))
    }

    fn from_spas(reply: &Reply) -> Result<Self, BadAddress> {
        let lines = reply.inner();
        if lines.is_empty() {
            return Err(BadAddress::Empty);
        }
        if lines.len() > MAX_ADDRESSES {
            return Err(BadAddress::TooMany {
                limit: MAX_ADDRESSES,
            });
        }
        lines
            .iter()
            .map(|line| parse_item(line))
            .collect::<Result<_, _>>()
            .map(Self::Addrs)
    }

    /// The addresses to connect to, where `peer` is the other end of the control connection.
    ///
    /// `peer` also replaces an unspecified address (`0.0.0.0`).
    pub fn resolve(&self, peer: IpAddr) -> Vec<SocketAddr> {
        match self {
            Self::Port(port) => vec![SocketAddr::new(peer, *port)],
            Self::Addrs(addrs) => {
                let known = |addr: &SocketAddr| {
                    let ip = if addr.ip().is_unspecified() {
                        peer
                    } else {
                        addr.ip()
                    };
                    SocketAddr::new(ip, addr.port())
                };
                addrs.iter().map(known).collect()
            }
        }
    }
}

#[cfg(test)]
#[path = "addr_tests.rs"]
mod tests;
