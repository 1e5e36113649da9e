//! Size of the packets on the way to the server.

use gsi::finding::Finding;
use xio_core::PathStats;

use super::Visit;
use crate::client::Client;

const TOPIC: &str = "mtu";
/// Smallest packet that each link of IPv6 carries (RFC 8200 §5).
const LEAST: u32 = 1280;
/// Longest headers of a segment that are usual: IPv6, TCP and timestamps.
const HEADERS: u32 = 72;

impl Visit<'_> {
    /// Tells the size of the packets of the control connection, where the kernel does.
    pub(super) fn packets(&mut self, client: &Client) {
        if let Some(finding) = client.link.get::<PathStats>().and_then(judge) {
            self.tell(finding);
        }
    }
}

/// Judges the size of packets.
fn judge(path: &PathStats) -> Option<Finding> {
    // No packet of full size need have passed yet.
    let packet = path
        .path_mtu
        .map(|mtu| format!("path MTU {mtu} bytes as far as known"));
    let segment = path
        .segment
        .map(|mss| format!("segments of up to {mss} bytes"));
    let known: Vec<_> = [packet, segment].into_iter().flatten().collect();
    if known.is_empty() {
        return None;
    }
    let fact = format!("control connection: {}", known.join(", "));
    let is_small = path.path_mtu.is_some_and(|mtu| mtu < LEAST)
        || path
            .segment
            .is_some_and(|mss| mss.saturating_add(HEADERS) < LEAST);
    let remedy = "packets below 1280 bytes slow transfers down: see the MTU of the interfaces and \
                  tunnels on the way";
    Some(match is_small {
        true => Finding::warn(TOPIC, fact, remedy),
        false => Finding::ok(TOPIC, fact),
    })
}

#[cfg(test)]
mod tests {
    use gsi::finding::Verdict;

    use super::*;

    #[test]
    fn packets_below_those_of_each_link_are_warned_of() {
        let of = |mtu, mss| {
            let mut path = PathStats::new();
            (path.path_mtu, path.segment) = (mtu, mss);
            judge(&path).map(|finding| (finding.verdict, finding.fact))
        };
        let (verdict, fact) = of(Some(1500), Some(1448)).unwrap();
        assert_eq!(verdict, Verdict::Ok);
        assert!(
            fact.ends_with("path MTU 1500 bytes as far as known, segments of up to 1448 bytes")
        );
        for (mtu, mss, expected) in [
            (Some(1280), Some(1208), Verdict::Ok),
            (Some(1279), Some(1208), Verdict::Warn),
            // The other end, or a device on the way, allows less than the route here.
            (Some(1500), Some(1207), Verdict::Warn),
            (Some(576), None, Verdict::Warn),
            (None, Some(536), Verdict::Warn),
            (Some(65_535), Some(32_741), Verdict::Ok),
        ] {
            assert_eq!(of(mtu, mss).unwrap().0, expected, "{mtu:?} {mss:?}");
        }
        assert_eq!(of(None, None), None);
    }
}
