//! 111 range markers, 112 performance markers and 113 checksum markers, both directions (GFD.20).

use std::fmt;

use byte_ranges::{RangeSet, text};

use crate::error::BadMarker;
use crate::reply::{Code, Reply};
use crate::waits::Waits;

/// Most ranges in one 111; a server that has more sends another.
pub const MAX_RANGES: usize = 4096;

/// A progress report between the 150 and the end of a transfer or checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Marker {
    /// 111: the ranges stored since the last such marker, ends exclusive.
    Restart(RangeSet),
    /// 112: progress of one stripe.
    Perf(Perf),
    /// 113: progress of a checksum.
    Hash {
        /// Wall clock, tenths of a second since 1970.
        at: u64,
        /// Bytes hashed so far.
        bytes: u64,
    },
}

/// The fields of a 112.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Perf {
    /// Wall clock, tenths of a second since 1970.
    pub at: u64,
    /// Index of the stripe.
    pub stripe: u32,
    /// Bytes of this transfer and stripe so far.
    pub bytes: u64,
    /// Number of stripes.
    pub stripes: u32,
    /// Where the time of this transfer has gone so far: of our servers, which tell it of data that
    /// they send in a session with `SITE WAITS`.
    pub waits: Option<Waits>,
}

impl Perf {
    /// A marker of one stripe.
    pub const fn new(at: u64, stripe: u32, bytes: u64, stripes: u32) -> Self {
        Self {
            at,
            stripe,
            bytes,
            stripes,
            waits: None,
        }
    }
}

/// Seconds with one decimal.
struct Tenths(u64);

impl fmt::Display for Tenths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 10, self.0 % 10)
    }
}

impl Marker {
    /// The markers for `ranges`: several where there are more than [`MAX_RANGES`].
    pub fn restarts(ranges: &RangeSet) -> impl Iterator<Item = Self> {
        let mut rest = ranges.iter().peekable();
        std::iter::from_fn(move || {
            rest.peek()?;
            Some(Self::Restart(rest.by_ref().take(MAX_RANGES).collect()))
        })
    }

    /// The reply that carries it.
    pub fn to_reply(&self) -> Reply {
        match self {
            Self::Restart(ranges) => Reply::of::<111>(format!("Range Marker {ranges}")),
            Self::Perf(Perf {
                at,
                stripe,
                bytes,
                stripes,
                waits,
            }) => {
                let lines = [
                    format!("Timestamp: {}", Tenths(*at)),
                    format!("Stripe Index: {stripe}"),
                    format!("Stripe Bytes Transferred: {bytes}"),
                    format!("Total Stripe Count: {stripes}"),
                ];
                let waits = waits.map(|waits| format!("Waits: {waits}"));
                let lines = lines.into_iter().chain(waits);
                Reply::indented(Code::of::<112>(), "Perf Marker", lines, "End.")
            }
            Self::Hash { at, bytes } => Reply::indented(
                Code::of::<113>(),
                "Status Marker",
                [
                    format!("Timestamp: {}", Tenths(*at)),
                    format!("Bytes Processed: {bytes}"),
                ],
                "End.",
            ),
        }
    }

    /// The reply to `SITE HELD`: as a 111, with no ranges behind the label where nothing is kept.
    ///
    /// Ranges beyond [`MAX_RANGES`] are left out; the client sends those again.
    pub fn held(ranges: &RangeSet) -> Reply {
        let some: RangeSet = ranges.iter().take(MAX_RANGES).collect();
        Reply::of::<213>(format!("Range Marker {some}").trim_end())
    }

    /// Reads the reply to `SITE HELD`.
    ///
    /// # Errors
    /// [`BadMarker::Ranges`] when there are no ranges behind the label.
    pub fn parse_held(reply: &Reply) -> Result<RangeSet, BadMarker> {
        match ranges(reply)? {
            b"" => Ok(RangeSet::new()),
            text => text::parse(text, MAX_RANGES).map_err(|_| BadMarker::Ranges),
        }
    }

    /// Reads a marker; `None` for another reply.
    ///
    /// Lines are found by their labels, in any order and with any blanks, as in GCT.
    pub fn from_reply(reply: &Reply) -> Option<Result<Self, BadMarker>> {
        Some(match reply.code().number() {
            111 => parse_restart(reply),
            112 => parse_perf(reply),
            113 => parse_hash(reply),
            _ => return None,
        })
    }
}

/// The text behind the label `Range Marker`.
fn ranges(reply: &Reply) -> Result<&[u8], BadMarker> {
    let line = reply.first_line().trim_ascii();
    let (label, ranges) = line
        .split_at_checked(b"Range Marker".len())
        .ok_or(BadMarker::Ranges)?;
    if !label.eq_ignore_ascii_case(b"Range Marker") {
        return Err(BadMarker::Ranges);
    }
    Ok(ranges.trim_ascii())
}

fn parse_restart(reply: &Reply) -> Result<Marker, BadMarker> {
    text::parse(ranges(reply)?, MAX_RANGES)
        .map(Marker::Restart)
        .map_err(|_| BadMarker::Ranges)
}

fn parse_perf(reply: &Reply) -> Result<Marker, BadMarker> {
    Ok(Marker::Perf(Perf {
        at: timestamp(reply)?,
        stripe: number(reply, "Stripe Index")?,
        bytes: number(reply, "Stripe Bytes Transferred")?,
        stripes: number(reply, "Total Stripe Count")?,
        waits: reply.field("Waits").and_then(|text| Waits::parse(&text)),
    }))
}

fn parse_hash(reply: &Reply) -> Result<Marker, BadMarker> {
    Ok(Marker::Hash {
        at: timestamp(reply)?,
        bytes: number(reply, "Bytes Processed")?,
    })
}

fn number<T: std::str::FromStr>(reply: &Reply, label: &'static str) -> Result<T, BadMarker> {
    let value = reply.field(label).and_then(|text| text.parse().ok());
    value.ok_or(BadMarker::Field(label))
}

/// Reads seconds with any number of decimals, to tenths.
fn timestamp(reply: &Reply) -> Result<u64, BadMarker> {
    let bad = BadMarker::Field("Timestamp");
    let text = reply.field("Timestamp").ok_or(bad)?;
    let (seconds, decimals) = text.split_once('.').unwrap_or((&text, "0"));
    let decimals_are_digits = decimals.bytes().all(|b| b.is_ascii_digit());
    let tenth = decimals
        .bytes()
        .next()
        .filter(|_| decimals_are_digits)
        .ok_or(bad)?
        - b'0';
    let seconds: u64 = seconds.parse().map_err(|_| bad)?;
    seconds
        .checked_mul(10)
        .and_then(|t| t.checked_add(u64::from(tenth)))
        .ok_or(bad)
}

#[cfg(test)]
mod tests {
    use byte_ranges::Range64;
    use proptest::prelude::*;

    use super::*;

    fn perf_lines(lines: &[&str]) -> Option<Result<Marker, BadMarker>> {
        let reply = Reply::indented(Code::of::<112>(), "Perf Marker", lines.to_vec(), "End.");
        Marker::from_reply(&reply)
    }

    #[test]
    fn writes_the_form_gct_writes() {
        let perf = Marker::Perf(Perf::new(17_952_027_521, 0, 10_485_760, 1)).to_reply();
        assert_eq!(
            perf.to_string(),
            "112-Perf Marker\r\n Timestamp: 1795202752.1\r\n Stripe Index: 0\r\n \
             Stripe Bytes Transferred: 10485760\r\n Total Stripe Count: 1\r\n112 End.\r\n"
        );
        let ranges = Marker::Restart("0-10,20-30".parse().unwrap()).to_reply();
        assert_eq!(ranges.to_string(), "111 Range Marker 0-10,20-30\r\n");
        let hash = Marker::Hash { at: 15, bytes: 9 }.to_reply();
        assert_eq!(
            hash.to_string(),
            "113-Status Marker\r\n Timestamp: 1.5\r\n Bytes Processed: 9\r\n113 End.\r\n"
        );
    }

    #[test]
    fn more_ranges_than_are_read_from_one_marker_go_into_several() {
        let many = MAX_RANGES as u64 + 10;
        let ranges: RangeSet = (0..many)
            .map(|n| Range64::new(2 * n, 2 * n + 1).unwrap())
            .collect();
        let mut told = RangeSet::new();
        let mut markers = 0;
        for marker in Marker::restarts(&ranges) {
            match Marker::from_reply(&marker.to_reply()).unwrap().unwrap() {
                Marker::Restart(part) => told.extend(part.iter()),
                other => panic!("{other:?}"),
            }
            markers += 1;
        }
        assert_eq!((markers, told), (2, ranges));
        assert_eq!(Marker::restarts(&RangeSet::new()).count(), 0);
    }

    #[test]
    fn reads_double_blanks_and_any_order() {
        let lines = [
            "Total Stripe Count: 4",
            "Stripe Index: 3",
            "Timestamp:  1795202752.1",
            "  Stripe Bytes Transferred: 5",
        ];
        let expected = Marker::Perf(Perf::new(17_952_027_521, 3, 5, 4));
        assert_eq!(perf_lines(&lines), Some(Ok(expected)));
    }

    #[test]
    fn waits_that_make_no_sense_are_none() {
        let mut perf = Perf::new(15, 0, 5, 1);
        perf.waits = Some(Waits::default());
        let mut reply = Marker::Perf(perf).to_reply();
        assert_eq!(Marker::from_reply(&reply), Some(Ok(Marker::Perf(perf))));
        let lines = [
            "Timestamp: 1.5",
            "Stripe Index: 0",
            "Stripe Bytes Transferred: 5",
            "Total Stripe Count: 1",
        ];
        perf.waits = None;
        for waits in ["Waits:", "Waits: later", "Waits: Moving=-1;"] {
            let lines = lines.into_iter().chain([waits]);
            reply = Reply::indented(Code::of::<112>(), "Perf Marker", lines, "End.");
            assert_eq!(Marker::from_reply(&reply), Some(Ok(Marker::Perf(perf))));
        }
    }

    #[test]
    fn a_missing_or_bad_field_is_named() {
        let field = |name| Some(Err(BadMarker::Field(name)));
        assert_eq!(perf_lines(&[]), field("Timestamp"));
        assert_eq!(perf_lines(&["Timestamp: 1.x"]), field("Timestamp"));
        assert_eq!(
            perf_lines(&["Timestamp: 99999999999999999999.1"]),
            field("Timestamp")
        );
        assert_eq!(
            perf_lines(&["Timestamp: 1", "Stripe Index: -1"]),
            field("Stripe Index")
        );
        let bad = Reply::of::<111>("Range Marker 5-3");
        assert_eq!(Marker::from_reply(&bad), Some(Err(BadMarker::Ranges)));
        let bad = Reply::of::<111>("restart at 5");
        assert_eq!(Marker::from_reply(&bad), Some(Err(BadMarker::Ranges)));
        assert_eq!(
            Marker::from_reply(&Reply::of::<150>("Beginning transfer.")),
            None
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_marker_round_trips(at in 0..u64::MAX, stripe: u32, bytes: u64, stripes: u32) {
            for marker in [
                Marker::Perf(Perf::new(at, stripe, bytes, stripes)),
                Marker::Hash { at, bytes },
                Marker::Restart(RangeSet::up_to(bytes)),
            ] {
                prop_assert_eq!(Marker::from_reply(&marker.to_reply()), Some(Ok(marker)));
            }
        }
    }
}
