//! `OPTS`: option lists of RETR, PASV, MLST, MLSR, CKSM and UTF8 (GFD.20, RFC 2389).

use std::fmt;
use std::num::NonZero;

use crate::error::{BadCommand, BadCommandKind};
use crate::facts::FactSet;

/// Largest value of `Parallelism`.
pub const MAX_PARALLELISM: u32 = 1024;

/// Bytes of a stripe block for `StripeLayout=Blocked` without `BlockSize`.
pub const DEFAULT_STRIPE_BLOCK: u64 = 1 << 20;

/// A parsed `OPTS` command. Options absent from the command are `None` and keep their value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opts {
    /// `OPTS RETR …`.
    Retr {
        /// `Parallelism=a,b,c;`.
        parallelism: Option<Parallelism>,
        /// `StripeLayout=` and `BlockSize=`: bytes of a stripe block; 0 for one contiguous region a
        /// stripe.
        stripe_block: Option<u64>,
        /// `Markers=n;`: seconds between performance markers while sending; 0 for none.
        markers: Option<u32>,
    },
    /// `OPTS PASV|SPAS|EPSV AllowDelayed=0|1;`.
    Passive {
        /// Whether the address follows in a 127 or 129 instead of a 227 or 229.
        delayed: bool,
    },
    /// `OPTS SPAS Stripes=n;`.
    Stripes {
        /// Most hosts that listen for the next `SPAS`.
        most: NonZero<u32>,
    },
    /// `OPTS SPAS Command=RETR|STOR;`.
    SpasCommand {
        /// Whether `SPAS` lists the hosts that send a file, those of a `RETR`.
        retrieve: bool,
    },
    /// `OPTS MLST|MLSD facts;`: the known facts among them.
    Facts(FactSet),
    /// `OPTS MLSR …`.
    Mlsr {
        /// Facts, if any are named.
        facts: Option<FactSet>,
        /// `OnError=Fail|Continue;`.
        fail: Option<bool>,
        /// `TraverseSymbolicLinks=True|False;`.
        follow: Option<bool>,
    },
    /// `OPTS CKSM markers=n;`: seconds between 113 markers; 0 for none.
    Cksm {
        /// Seconds.
        markers: u32,
    },
    /// `OPTS UTF8 [ON]`.
    Utf8,
}

/// Numbers of connections of one transfer; both at least 1 and at most [`MAX_PARALLELISM`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parallelism {
    /// Connections that carry data from the start, the first number.
    pub start: u32,
    /// Connections that may carry data later, the third number; not below `start`.
    pub most: u32,
}

impl Parallelism {
    /// The same `n` connections all the time.
    pub const fn of(n: u32) -> Self {
        Self::up_to(n, n)
    }

    /// `start` connections, and up to `most` later, which are never fewer.
    pub const fn up_to(start: u32, most: u32) -> Self {
        let most = if most < start { start } else { most };
        Self { start, most }
    }
}

impl From<u32> for Parallelism {
    fn from(n: u32) -> Self {
        Self::of(n)
    }
}

impl Default for Parallelism {
    fn default() -> Self {
        Self::of(1)
    }
}

/// Writes `start,least,most`: the least is the start, as no connection is given up.
impl fmt::Display for Parallelism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, most } = self;
        write!(f, "{start},{start},{most}")
    }
}

type Parsed<T = Opts> = Result<T, (BadCommandKind, usize)>;

const MISSING: BadCommandKind = BadCommandKind::MissingArgument;
const OPTION: BadCommandKind = BadCommandKind::BadArgument("option");
const VALUE: BadCommandKind = BadCommandKind::BadArgument("option value");

impl Opts {
    /// Parses the text behind `OPTS` and a blank: a word, and options each ended by `;`, which is
    /// optional behind the last. Names and keys match in any case.
    ///
    /// # Errors
    ///
    /// [`BadCommand`], counting bytes from the start of `text`.
    pub fn parse(text: &[u8]) -> Result<Self, BadCommand> {
        Self::parse_at(text, 0)
    }

    /// As [`parse`](Self::parse), for text that begins at byte `base` of its line.
    pub(crate) fn parse_at(text: &[u8], base: usize) -> Result<Self, BadCommand> {
        let text = text.trim_ascii_end();
        let end = text
            .iter()
            .position(u8::is_ascii_whitespace)
            .unwrap_or(text.len());
        let (what, rest) = text.split_at(end);
        let params = rest.trim_ascii_start();
        let items = Items {
            text: params,
            at: text.len() - params.len(),
        };
        let parsed = match what.to_ascii_uppercase().as_slice() {
            b"" => Err((MISSING, 0)),
            b"RETR" => retr(items),
            b"SPAS" if items.clone().next().is_some_and(|item| item.is("Stripes")) => alone(items)
                .and_then(|item| {
                    Ok(Self::Stripes {
                        most: item.number()?,
                    })
                }),
            b"SPAS" if items.clone().next().is_some_and(|item| item.is("Command")) => alone(items)
                .and_then(|item| {
                    Ok(Self::SpasCommand {
                        retrieve: item.either("STOR", "RETR")?,
                    })
                }),
            b"PASV" | b"SPAS" | b"EPSV" => {
                flag(items, "AllowDelayed").map(|delayed| Self::Passive { delayed })
            }
            // RFC 3659 §7.9: an empty list selects no facts.
            b"MLST" | b"MLSD" => Ok(Self::Facts(FactSet::parse(params))),
            b"MLSR" => mlsr(items),
            b"CKSM" => cksm(items),
            b"UTF8" if params.is_empty() || params.eq_ignore_ascii_case(b"ON") => Ok(Self::Utf8),
            b"UTF8" => Err((
                BadCommandKind::UnsupportedArgument("option value"),
                items.at,
            )),
            _ => Err((BadCommandKind::UnknownOpts, 0)),
        };
        parsed.map_err(|(kind, at)| BadCommand::new(kind, Some("OPTS"), base + at))
    }
}

/// `key=value;` items with their positions.
#[derive(Clone, Copy)]
struct Items<'a> {
    text: &'a [u8],
    at: usize,
}

struct Item<'a> {
    key: &'a [u8],
    value: &'a [u8],
    at: usize,
}

impl Item<'_> {
    fn is(&self, key: &str) -> bool {
        self.key.eq_ignore_ascii_case(key.as_bytes())
    }

    fn number<T: std::str::FromStr>(&self) -> Parsed<T> {
        number(self.value).ok_or((VALUE, self.at))
    }

    /// One of two words.
    fn either(&self, no: &str, yes: &str) -> Parsed<bool> {
        if self.value.eq_ignore_ascii_case(yes.as_bytes()) {
            Ok(true)
        } else if self.value.eq_ignore_ascii_case(no.as_bytes()) {
            Ok(false)
        } else {
            Err((VALUE, self.at))
        }
    }
}

fn number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    digits.first().filter(|b| b.is_ascii_digit())?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        loop {
            if self.text.is_empty() {
                return None;
            }
            let end = self
                .text
                .iter()
                .position(|b| *b == b';')
                .unwrap_or(self.text.len());
            let (item, rest) = self.text.split_at(end);
            let at = self.at;
            self.text = rest.get(1..).unwrap_or_default();
            self.at += end + 1;
            let item = item.trim_ascii();
            if item.is_empty() {
                continue;
            }
            let equals = item.iter().position(|b| *b == b'=');
            let (key, value) = match equals {
                Some(equals) => (item.get(..equals), item.get(equals + 1..)),
                None => (Some(item), None),
            };
            return Some(Item {
                key: key?,
                value: value.unwrap_or_default(),
                at,
            });
        }
    }
}

fn retr(items: Items<'_>) -> Parsed {
    let (mut parallelism, mut layout, mut size, mut markers) = (None, None, None, None);
    let mut any = false;
    for item in items {
        any = true;
        if item.is("Parallelism") {
            parallelism = Some(parse_parallelism(&item)?);
        } else if item.is("StripeLayout") {
            layout = Some(item.either("Partitioned", "Blocked")?);
        } else if item.is("BlockSize") {
            size = Some(item.number::<u64>()?);
            if size == Some(0) {
                return Err((VALUE, item.at));
            }
        } else if item.is("Markers") {
            markers = Some(item.number()?);
        } else {
            return Err((OPTION, item.at));
        }
    }
    if !any {
        return Err((MISSING, items.at));
    }
    let stripe_block = match layout {
        Some(false) => Some(0),
        Some(true) => Some(size.unwrap_or(DEFAULT_STRIPE_BLOCK)),
        None => size,
    };
    Ok(Opts::Retr {
        parallelism,
        stripe_block,
        markers,
    })
}

/// Initial, least and most connections (GFD.20 §3): each must be in range. The first rules, as in
/// GCT: a most below it is taken for it.
fn parse_parallelism(item: &Item<'_>) -> Parsed<Parallelism> {
    let bad = (VALUE, item.at);
    let mut numbers = Vec::new();
    for part in item.value.split(|b| *b == b',').take(4) {
        let n: u32 = number(part).ok_or(bad)?;
        if !(1..=MAX_PARALLELISM).contains(&n) {
            return Err(bad);
        }
        numbers.push(n);
    }
    match numbers.as_slice() {
        [start] | [start, _] => Ok(Parallelism::of(*start)),
        [start, _, most] => Ok(Parallelism::up_to(*start, *most)),
        _ => Err(bad),
    }
}

/// Parses a single option with the value 0 or 1.
fn flag(items: Items<'_>, key: &str) -> Parsed<bool> {
    let item = alone(items)?;
    match item.is(key) {
        true => item.either("0", "1"),
        false => Err((OPTION, item.at)),
    }
}

/// The one item.
fn alone(mut items: Items<'_>) -> Parsed<Item<'_>> {
    let item = items.next().ok_or((MISSING, items.at))?;
    match items.next() {
        Some(extra) => Err((OPTION, extra.at)),
        None => Ok(item),
    }
}

fn mlsr(items: Items<'_>) -> Parsed {
    let (mut facts, mut fail, mut follow) = (None::<FactSet>, None, None);
    let mut options = false;
    for item in items {
        if item.is("OnError") {
            fail = Some(item.either("Continue", "Fail")?);
            options = true;
        } else if item.is("TraverseSymbolicLinks") {
            follow = Some(item.either("False", "True")?);
            options = true;
        } else {
            let named = FactSet::parse(item.key);
            if !named.is_empty() {
                facts = Some(FactSet(facts.unwrap_or(FactSet::NONE).0 | named.0));
            }
        }
    }
    // Options alone keep the facts; an empty command selects none.
    if !options {
        facts.get_or_insert(FactSet::NONE);
    }
    Ok(Opts::Mlsr {
        facts,
        fail,
        follow,
    })
}

fn cksm(mut items: Items<'_>) -> Parsed {
    let item = items.next().ok_or((MISSING, items.at))?;
    if !item.is("markers") {
        return Err((OPTION, item.at));
    }
    Ok(Opts::Cksm {
        markers: item.number()?,
    })
}

/// Writes the text behind `OPTS` and a blank.
impl fmt::Display for Opts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retr {
                parallelism,
                stripe_block,
                markers,
            } => {
                f.write_str("RETR ")?;
                match stripe_block {
                    Some(0) => f.write_str("StripeLayout=Partitioned;")?,
                    Some(n) => write!(f, "StripeLayout=Blocked;BlockSize={n};")?,
                    None => {}
                }
                if let Some(n) = parallelism {
                    write!(f, "Parallelism={n};")?;
                }
                markers.map_or(Ok(()), |n| write!(f, "Markers={n};"))
            }
            Self::Passive { delayed } => write!(f, "PASV AllowDelayed={};", u8::from(*delayed)),
            Self::Stripes { most } => write!(f, "SPAS Stripes={most};"),
            Self::SpasCommand { retrieve: true } => f.write_str("SPAS Command=RETR;"),
            Self::SpasCommand { retrieve: false } => f.write_str("SPAS Command=STOR;"),
            Self::Facts(facts) => write!(f, "MLST {facts}"),
            Self::Mlsr {
                facts,
                fail,
                follow,
            } => {
                f.write_str("MLSR ")?;
                if let Some(facts) = facts {
                    write!(f, "{facts}")?;
                }
                if let Some(fail) = fail {
                    write!(f, "OnError={};", if *fail { "Fail" } else { "Continue" })?;
                }
                follow.map_or(Ok(()), |follow| {
                    write!(
                        f,
                        "TraverseSymbolicLinks={};",
                        if follow { "True" } else { "False" }
                    )
                })
            }
            Self::Cksm { markers } => write!(f, "CKSM markers={markers};"),
            Self::Utf8 => f.write_str("UTF8 ON"),
        }
    }
}

#[cfg(test)]
#[path = "opts_tests.rs"]
mod tests;
