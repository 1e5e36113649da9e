//! `SITE`: the table of subcommands and the parsers of their arguments (GFD.20, GCT).

use std::num::NonZero;

use crate::args::{Args, digest};
use crate::attribute::Attribute;
use crate::command::{BufferSide, SiteCommand, StackSide, StorAttr};
use crate::error::BadCommandKind;
use crate::facts::TimeVal;
use crate::parse::Parsed;

type Parser = fn(&mut Args<'_>) -> Parsed<SiteCommand>;

/// Subcommand, syntax for HELP, and parser of its arguments.
const VERBS: &[(&str, &str, Parser)] = &[
    ("SITE HELP", "SITE HELP [<sp> command]", |a| {
        a.optional_word("command").map(SiteCommand::Help)
    }),
    ("SITE SBUF", "SITE SBUF <sp> bytes", |a| {
        buffer(a, BufferSide::Both)
    }),
    ("SITE BUFSIZE", "SITE BUFSIZE <sp> bytes", |a| {
        buffer(a, BufferSide::Both)
    }),
    ("SITE RETRBUFSIZE", "SITE RETRBUFSIZE <sp> bytes", |a| {
        buffer(a, BufferSide::Receive)
    }),
    ("SITE RBUFSZ", "SITE RBUFSZ <sp> bytes", |a| {
        buffer(a, BufferSide::Receive)
    }),
    ("SITE RBUFSIZ", "SITE RBUFSIZ <sp> bytes", |a| {
        buffer(a, BufferSide::Receive)
    }),
    ("SITE STORBUFSIZE", "SITE STORBUFSIZE <sp> bytes", |a| {
        buffer(a, BufferSide::Send)
    }),
    ("SITE SBUFSZ", "SITE SBUFSZ <sp> bytes", |a| {
        buffer(a, BufferSide::Send)
    }),
    ("SITE SBUFSIZ", "SITE SBUFSIZ <sp> bytes", |a| {
        buffer(a, BufferSide::Send)
    }),
    ("SITE CHMOD", "SITE CHMOD <sp> mode <sp> path", |a| {
        Ok(SiteCommand::Chmod(a.octal()?, a.path()?))
    }),
    ("SITE CHGRP", "SITE CHGRP <sp> group <sp> path", |a| {
        Ok(SiteCommand::Chgrp(a.word("group")?, a.path()?))
    }),
    (
        "SITE UTIME",
        "SITE UTIME <sp> YYYYMMDDHHMMSS <sp> path",
        |a| Ok(SiteCommand::Utime(a.time()?, a.path()?)),
    ),
    ("SITE SYMLINKFROM", "SITE SYMLINKFROM <sp> target", |a| {
        a.path().map(SiteCommand::SymlinkFrom)
    }),
    ("SITE SYMLINKTO", "SITE SYMLINKTO <sp> link", |a| {
        a.path().map(SiteCommand::SymlinkTo)
    }),
    (
        "SITE SYMLINK",
        "SITE SYMLINK <sp> target <sp> link",
        symlink,
    ),
    ("SITE RDEL", "SITE RDEL <sp> path", |a| {
        a.path().map(SiteCommand::Rdel)
    }),
    ("SITE HELD", "SITE HELD <sp> path", |a| {
        a.path().map(SiteCommand::Held)
    }),
    ("SITE DELHELD", "SITE DELHELD <sp> path", |a| {
        a.path().map(SiteCommand::DropHeld)
    }),
    ("SITE STAGE", "SITE STAGE <sp> seconds <sp> path", |a| {
        Ok(SiteCommand::Stage(a.number("timeout")?, a.path()?))
    }),
    ("SITE TRNC", "SITE TRNC <sp> length <sp> path", |a| {
        Ok(SiteCommand::Trnc(a.number("length")?, a.path()?))
    }),
    ("SITE XATTR", "SITE XATTR <sp> path", |a| {
        a.path().map(SiteCommand::Xattr)
    }),
    (
        "SITE SETXATTR",
        "SITE SETXATTR <sp> user.name=base64 <sp> path",
        set_xattr,
    ),
    ("SITE WHOAMI", "SITE WHOAMI", |_| Ok(SiteCommand::Whoami)),
    ("SITE WAITS", "SITE WAITS", |_| Ok(SiteCommand::Waits)),
    ("SITE RATE", "SITE RATE <sp> bytes-a-second | off", |a| {
        rate(a).map(SiteCommand::Rate)
    }),
    ("SITE VERSION", "SITE VERSION", |_| Ok(SiteCommand::Version)),
    (
        "SITE CLIENTINFO",
        "SITE CLIENTINFO <sp> key=\"value\";...",
        |a| a.text("client info").map(SiteCommand::ClientInfo),
    ),
    ("SITE TASKID", "SITE TASKID <sp> id", |a| {
        a.text("task id").map(SiteCommand::TaskId)
    }),
    (
        "SITE STORATTR",
        "SITE STORATTR <sp> modify=time;x.checksum.alg=digest;x.exclusive=1;",
        |a| stor_attr(a).map(SiteCommand::StorAttr),
    ),
    (
        "SITE SETNETSTACK",
        "SITE SETNETSTACK <sp> default|driver[:option=value;...],...",
        |a| stack(a, StackSide::Net),
    ),
    (
        "SITE SETDISKSTACK",
        "SITE SETDISKSTACK <sp> default|driver[:option=value;...],...",
        |a| stack(a, StackSide::Disk),
    ),
    ("SITE RESTRICT", "SITE RESTRICT <sp> paths", |a| {
        a.text("paths").map(SiteCommand::Restrict)
    }),
    ("SITE CHROOT", "SITE CHROOT <sp> path", |a| {
        a.path().map(SiteCommand::Chroot)
    }),
];

pub(crate) fn verbs() -> impl Iterator<Item = (&'static str, &'static str)> {
    VERBS.iter().map(|(name, syntax, _)| (*name, *syntax))
}

fn find(word: &[u8]) -> Option<&'static (&'static str, &'static str, Parser)> {
    let named = |name: &str| {
        name.as_bytes()
            .get(5..)
            .is_some_and(|n| n.eq_ignore_ascii_case(word))
    };
    VERBS.iter().find(|(name, ..)| named(name))
}

/// Both words of the `SITE` command in `line`, if known; its arguments begin at `at`.
pub(crate) fn name_in(line: &[u8], at: usize) -> Option<&'static str> {
    let (word, _) = Args::new(line, at).next()?;
    find(word).map(|(name, ..)| *name)
}

pub(crate) fn parse(args: &mut Args<'_>) -> Parsed<SiteCommand> {
    let (word, at) = args.require()?;
    let (.., parse) = find(word).ok_or((BadCommandKind::UnknownSite, at))?;
    parse(args)
}

fn buffer(args: &mut Args<'_>, side: BufferSide) -> Parsed<SiteCommand> {
    args.number("buffer size")
        .map(|bytes| SiteCommand::Buffer(side, bytes))
}

/// A rate of 0 is none, as the word is.
fn rate(args: &mut Args<'_>) -> Parsed<Option<NonZero<u64>>> {
    let (word, _) = args.peek()?;
    if word.eq_ignore_ascii_case(b"off") {
        return Ok(None);
    }
    args.number("rate").map(NonZero::new)
}

fn stack(args: &mut Args<'_>, side: StackSide) -> Parsed<SiteCommand> {
    let text = args.text("stack")?;
    let text = text.trim_ascii();
    let named = !text.eq_ignore_ascii_case("default");
    Ok(SiteCommand::Stack(side, named.then(|| text.to_owned())))
}

/// Parses the form that GCT's client library sends and GCT's server lacks; only the link's name can
/// hold a blank.
fn symlink(args: &mut Args<'_>) -> Parsed<SiteCommand> {
    let (target, at) = args.require()?;
    let target = crate::path::FtpPath::new(target);
    let target = target.ok_or((BadCommandKind::BadArgument("target"), at))?;
    Ok(SiteCommand::Symlink(target, args.path()?))
}

fn set_xattr(args: &mut Args<'_>) -> Parsed<SiteCommand> {
    let (text, at) = args.require()?;
    let attribute = Attribute::parse(text).ok_or((BadCommandKind::BadArgument("attribute"), at))?;
    Ok(SiteCommand::SetXattr(attribute, args.path()?))
}

fn stor_attr(args: &mut Args<'_>) -> Parsed<StorAttr> {
    let (text, start) = args.rest();
    if text.trim_ascii().is_empty() {
        return Err((BadCommandKind::MissingArgument, start));
    }
    let mut attr = StorAttr::default();
    let mut at = start;
    for item in text.split(|b| *b == b';') {
        let bad = (BadCommandKind::BadArgument("attribute"), at);
        at += item.len() + 1;
        let item = item.trim_ascii();
        if item.is_empty() {
            continue;
        }
        let equals = item.iter().position(|b| *b == b'=').ok_or(bad)?;
        let (key, value) = item.split_at(equals);
        let value = value.get(1..).unwrap_or_default();
        let key = key.to_ascii_lowercase();
        if key == b"modify" {
            attr.modified = Some(TimeVal::parse(value).ok_or(bad)?);
        } else if key == b"x.exclusive" {
            attr.exclusive = match value {
                b"0" => Some(false),
                b"1" => Some(true),
                _ => return Err(bad),
            };
        } else if let Some(algorithm) = key.strip_prefix(b"x.checksum.") {
            let algorithm = String::from_utf8(algorithm.to_vec()).map_err(|_| bad)?;
            attr.checksum = Some((algorithm, digest(value).ok_or(bad)?));
        }
        // Unknown attributes are no error: GCT's clients may send more than they need.
    }
    Ok(attr)
}

#[cfg(test)]
mod tests {
    use crate::command::Command;

    use super::*;

    #[test]
    fn a_rate_is_a_number_or_none() {
        let parse = |line: &str| Command::parse(line.as_bytes());
        for (line, rate) in [
            ("SITE RATE 1000", Some(1000)),
            ("site rate  18446744073709551615", Some(u64::MAX)),
            ("SITE RATE 0", None),
            ("SITE RATE OFF", None),
        ] {
            let rate = SiteCommand::Rate(rate.and_then(NonZero::new));
            assert_eq!(parse(line), Ok(Command::Site(rate)), "{line}");
        }
        for line in [
            "SITE RATE",
            "SITE RATE -1",
            "SITE RATE 1M",
            "SITE RATE 18446744073709551616",
        ] {
            assert_eq!(parse(line).unwrap_err().code().number(), 501, "{line}");
        }
        let off = Command::Site(SiteCommand::Rate(None));
        assert_eq!(off.to_string(), "SITE RATE off");
    }
}
