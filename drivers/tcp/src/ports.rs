//! The ports that the kernel gives to sockets that name none, and those that it keeps back.

use std::sync::LazyLock;

use xio_core::PortRange;

/// Ports below this one are the system's.
const PRIVILEGED: u16 = 1024;

static RANGE: LazyLock<Option<PortRange>> = LazyLock::new(|| {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    range(&text)
});

static RESERVED: LazyLock<Vec<PortRange>> = LazyLock::new(|| {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_reserved_ports");
    reserved(&text.unwrap_or_default())
});

/// The range as it was when it was first asked for, the same for both families; `None` where the
/// kernel does not say.
pub(crate) fn of_kernel() -> Option<PortRange> {
    *RANGE
}

/// Whether the administrator reserved `port` for programs that ask for it by number.
pub(crate) fn is_reserved(port: u16) -> bool {
    RESERVED.iter().any(|range| range.contains(port))
}

fn range(text: &str) -> Option<PortRange> {
    let mut ends = text.split_ascii_whitespace().map(str::parse);
    let (Some(Ok(low)), Some(Ok(high)), None) = (ends.next(), ends.next(), ends.next()) else {
        return None;
    };
    PortRange::new(PRIVILEGED.max(low), high)
}

fn reserved(text: &str) -> Vec<PortRange> {
    let item = |item: &str| match item.parse() {
        Ok(port) => PortRange::new(port, port),
        Err(_) => item.parse().ok(),
    };
    text.trim().split(',').filter_map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_understood() {
        assert_eq!(range("32768\t60999\n"), PortRange::new(32_768, 60_999));
        assert_eq!(range("1 60999"), PortRange::new(1024, 60_999));
        assert_eq!(range("60999"), None);
        let expected = [(2811, 2811), (50_000, 51_000)];
        let expected = expected.map(|(low, high)| PortRange::new(low, high).unwrap());
        assert_eq!(reserved("2811,50000-51000\n"), expected);
        assert_eq!(reserved("\n"), []);
    }
}
