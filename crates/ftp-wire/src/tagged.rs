//! The module `tag=` of `ESTO` and `ERET`, ours: a MODE E transfer with a tag before its data.
//!
//! `ESTO tag=17 path` stores as `STOR`, `ESTO tag=17,S,5 path` as `STOR` after `ALLO 5`,
//! `ESTO tag=17,E path` as `APPE`, `ESTO tag=17,A,100 path` as `ESTO A 100`; `ERET tag=17 path`
//! retrieves as `RETR`, `ERET tag=17,P,5,10 path` as `ERET P 5 10`. Tag and name share a line, so
//! that data cannot be stored under the name of another command.

use std::fmt;

use crate::command::{Eret, Esto, Spot};
use crate::write::Length;

/// The text before the tag.
const NAME: &str = "tag=";

/// The fields of a module's text, if it is this module.
fn fields(module: &str) -> Option<(u64, Vec<&str>)> {
    let text = module.strip_prefix(NAME)?;
    let mut fields = text.split(',');
    let tag = number(fields.next()?)?;
    Some((tag, fields.collect()))
}

fn number(text: &str) -> Option<u64> {
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
                write!(f, "{NAME}{tag}")?;
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
                write!(f, "{NAME}{tag}")?;
                region.map_or(Ok(()), |(offset, length)| {
                    write!(f, ",P,{offset},{}", Length(length))
                })
            }
        }
    }
}
