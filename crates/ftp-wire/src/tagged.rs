//! The modules `tag=` and `digest=` of `ESTO` and `ERET`, ours: a transfer whose ends tell what they
//! moved.
//!
//! `ESTO tag=17 path` stores as `STOR`, `ESTO tag=17,S,5 path` as `STOR` after `ALLO 5`,
//! `ESTO tag=17,E path` as `APPE`, `ESTO tag=17,A,100 path` as `ESTO A 100`; `ERET tag=17 path`
//! retrieves as `RETR`, `ERET tag=17,P,5,10 path` as `ERET P 5 10`. With `digest=` for `tag=`, both
//! ends digest all bytes and not only the first ones.
//!
//! In MODE E a tag precedes the data on each connection. Tag and name share a line, so that data
//! cannot be stored under the name of another command.
//!
//! In MODE S a trailer follows the data, see [`Tag`].

use std::fmt;

use crate::command::{Eret, Esto, Spot};
use crate::receipt::Extent;
use crate::write::Length;

/// The tag of a transfer, which precedes its data on each connection in MODE E.
///
/// MODE S has [`Extent::Whole`] alone, in `TYPE I`. Each file has a connection of its own there, so no
/// tag precedes its data, and the number means nothing. The data is that of all ranges which `REST`
/// does not name, in order. A trailer follows it: the hints of the digest (16 bytes each, as those in
/// MODE E; at most two for each 1,048,576 bytes of the file, and 2,048), `GFTP-dig`, the BLAKE3 digest
/// of the whole file (32 bytes), the number of hints (8 bytes, most significant first), and `GFTP-end`.
/// Where the sender does not know the digest there are no hints, and `GFTP-nil` stands before 32 zeros.
/// A stream without its trailer was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tag {
    /// Its number, higher than that of every transfer before it in the session.
    pub number: u64,
    /// Bytes that the receipts of the transfer prove.
    pub extent: Extent,
}

impl Tag {
    /// A tag for receipts that prove the bytes of `extent`.
    pub const fn new(number: u64, extent: Extent) -> Self {
        Self { number, extent }
    }
}

/// The text before the number of a tag.
const fn name(extent: Extent) -> &'static str {
    match extent {
        Extent::Head => "tag=",
        Extent::Whole => "digest=",
    }
}

/// The fields of a module's text, if it is one of these modules.
fn fields(module: &str) -> Option<(Tag, Vec<&str>)> {
    let mut extents = [Extent::Head, Extent::Whole].into_iter();
    let named = |extent| Some((extent, module.strip_prefix(name(extent))?));
    let (extent, text) = extents.find_map(named)?;
    let mut fields = text.split(',');
    let number = number(fields.next()?)?;
    Some((Tag { number, extent }, fields.collect()))
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", name(self.extent), self.number)
    }
}

pub(crate) fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

impl Esto {
    /// Reads a module.
    pub(crate) fn of_module(module: String) -> Self {
        let into = fields(&module).and_then(|(tag, rest)| {
            let spot = match rest.as_slice() {
                [] => Spot::Whole,
                ["S", size] => Spot::Sized(number(size)?),
                ["E"] => Spot::End,
                ["A", offset] => Spot::At(number(offset)?),
                _ => return None,
            };
            Some((tag, spot))
        });
        match into {
            Some((tag, spot)) => Self::Tagged { tag, spot },
            None => Self::Module(module),
        }
    }
}

impl Eret {
    /// Reads a module.
    pub(crate) fn of_module(module: String) -> Self {
        let of = fields(&module).and_then(|(tag, rest)| {
            let region = match rest.as_slice() {
                [] => None,
                ["P", offset, "-1"] => Some((number(offset)?, None)),
                ["P", offset, length] => {
                    let (offset, length) = (number(offset)?, number(length)?);
                    offset.checked_add(length)?;
                    Some((offset, Some(length)))
                }
                _ => return None,
            };
            Some((tag, region))
        });
        match of {
            Some((tag, region)) => Self::Tagged { tag, region },
            None => Self::Module(module),
        }
    }
}

impl fmt::Display for Esto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adjusted { offset } => write!(f, "A {offset}"),
            Self::Module(module) => f.write_str(module),
            Self::Tagged { tag, spot } => {
                write!(f, "{tag}")?;
                match spot {
                    Spot::Whole => Ok(()),
                    Spot::Sized(size) => write!(f, ",S,{size}"),
                    Spot::End => f.write_str(",E"),
                    Spot::At(offset) => write!(f, ",A,{offset}"),
                }
            }
        }
    }
}

impl fmt::Display for Eret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Partial { offset, length } => write!(f, "P {offset} {}", Length(*length)),
            Self::Module(module) => f.write_str(module),
            Self::Tagged { tag, region } => {
                write!(f, "{tag}")?;
                region.map_or(Ok(()), |(offset, length)| {
                    write!(f, ",P,{offset},{}", Length(length))
                })
            }
        }
    }
}
