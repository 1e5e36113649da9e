//! Replaces data addresses in lines of the control connection.

use std::net::{Ipv4Addr, SocketAddr};

/// Replaces every data address in `line` by the result of `swap`.
///
/// Six comma-separated numbers are an address in the replies 227 and 127, in the indented lines of
/// a 229 to SPAS, and in PORT and SPOR. In a reply 229, `|||port|` is a port of `host`.
pub(crate) fn addresses(
    line: &str,
    host: Ipv4Addr,
    mut swap: impl FnMut(SocketAddr) -> SocketAddr,
) -> String {
    let carries = ["227 ", "127 ", "229", " ", "PORT ", "SPOR "]
        .iter()
        .any(|head| starts(line, head));
    if !carries {
        return line.to_owned();
    }
    if let Some((head, rest)) = line.split_once("(|||")
        && let Some((port, tail)) = rest.split_once("|)")
        && let Ok(port) = port.parse()
    {
        return format!("{head}(|||{}|){tail}", swap((host, port).into()).port());
    }
    let mut out = String::new();
    let mut rest = line;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let end = from
            .find(|c: char| !c.is_ascii_digit() && c != ',')
            .unwrap_or(from.len());
        let (numbers, after) = from.split_at(end);
        out.push_str(before);
        out.push_str(
            &host_port(numbers).map_or_else(|| numbers.to_owned(), |addr| six_numbers(swap(addr))),
        );
        rest = after;
    }
    out + rest
}

fn starts(line: &str, head: &str) -> bool {
    line.get(..head.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(head))
}

/// Parses the argument of `PORT`: six numbers separated by commas.
pub fn host_port(text: &str) -> Option<SocketAddr> {
    let numbers: Vec<u8> = text
        .split(',')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let [a, b, c, d, high, low] = numbers.try_into().ok()?;
    Some((Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low])).into())
}

/// Writes an IPv4 address and port as six numbers separated by commas.
fn six_numbers(addr: SocketAddr) -> String {
    let [high, low] = addr.port().to_be_bytes();
    format!("{},{high},{low}", addr.ip().to_string().replace('.', ","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plus_one(line: &str) -> String {
        addresses(line, Ipv4Addr::LOCALHOST, |addr| {
            SocketAddr::new(addr.ip(), addr.port() + 1)
        })
    }

    #[test]
    fn only_data_addresses_are_replaced() {
        for (line, want) in [
            (
                "227 Entering Passive Mode (127,0,0,1,4,1)\r\n",
                "227 Entering Passive Mode (127,0,0,1,4,2)\r\n",
            ),
            (
                "229 Entering Passive Mode (|||1025|)\r\n",
                "229 Entering Passive Mode (|||1026|)\r\n",
            ),
            (" 127,0,0,1,4,1\r\n", " 127,0,0,1,4,2\r\n"),
            ("PORT 127,0,0,1,4,1\r\n", "PORT 127,0,0,1,4,2\r\n"),
            (
                "SPOR 127,0,0,1,4,1 127,0,0,1,4,255\r\n",
                "SPOR 127,0,0,1,4,2 127,0,0,1,5,0\r\n",
            ),
            ("RETR 127,0,0,1,4,1\r\n", "RETR 127,0,0,1,4,1\r\n"),
            ("226 Transfer Complete.\r\n", "226 Transfer Complete.\r\n"),
        ] {
            assert_eq!(plus_one(line), want);
        }
    }
}
