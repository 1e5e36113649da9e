//! Writes commands for the wire, and for logs with secrets masked.

use std::fmt;
use std::io::Write as _;

use zeroize::Zeroizing;

use crate::addr;
use crate::command::{
    BufferSide, Command, Dcau, Epsv, Event, Family, Mode, Restart, Secret, SiteCommand, StackSide,
    StorAttr, Type,
};
use crate::path::FtpPath;

/// The text in place of a secret.
const MASK: &[u8] = b"****";

impl Command {
    /// The verb, upper case; `SITE` for every subcommand of it, and nothing for a raw line.
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::User(_) => "USER",
            Self::Pass(_) => "PASS",
            Self::Acct(_) => "ACCT",
            Self::Cwd(_) => "CWD",
            Self::Cdup => "CDUP",
            Self::Quit => "QUIT",
            Self::Port(_) => "PORT",
            Self::Eprt(_) => "EPRT",
            Self::Spor(_) => "SPOR",
            Self::Pasv => "PASV",
            Self::Epsv(_) => "EPSV",
            Self::Spas(_) => "SPAS",
            Self::Type(_) => "TYPE",
            Self::Stru(_) => "STRU",
            Self::Mode(_) => "MODE",
            Self::Retr(_) => "RETR",
            Self::Stor(_) => "STOR",
            Self::Appe(_) => "APPE",
            Self::Eret(..) => "ERET",
            Self::Esto(..) => "ESTO",
            Self::Allo(_) => "ALLO",
            Self::Rest(_) => "REST",
            Self::Abor => "ABOR",
            Self::List(_) | Self::ListAll(_) => "LIST",
            Self::Nlst(_) => "NLST",
            Self::Mlsd(_) => "MLSD",
            Self::Mlsr(_) => "MLSR",
            Self::Mlst(_) => "MLST",
            Self::Mlsc(_) => "MLSC",
            Self::Rnfr(_) => "RNFR",
            Self::Rnto(_) => "RNTO",
            Self::Dele(_) => "DELE",
            Self::Rmd(_) => "RMD",
            Self::Mkd(_) => "MKD",
            Self::Pwd => "PWD",
            Self::Size(_) => "SIZE",
            Self::Mdtm(_) => "MDTM",
            Self::Mfmt(..) => "MFMT",
            Self::Cksm { .. } => "CKSM",
            Self::Scks { .. } => "SCKS",
            Self::Avbl(_) => "AVBL",
            Self::Help(_) => "HELP",
            Self::Noop => "NOOP",
            Self::Feat => "FEAT",
            Self::Opts(_) => "OPTS",
            Self::Syst => "SYST",
            Self::Stat(_) => "STAT",
            Self::Lang(_) => "LANG",
            Self::Sbuf(_) => "SBUF",
            Self::Trev(..) => "TREV",
            Self::Site(_) => "SITE",
            Self::Raw(_) => "",
            Self::Auth(_) => "AUTH",
            Self::Adat(_) => "ADAT",
            Self::Pbsz(_) => "PBSZ",
            Self::Prot(_) => "PROT",
            Self::Dcau(_) => "DCAU",
            Self::Dcsc(_) => "DCSC",
        }
    }

    /// Appends the wire form, line end included.
    ///
    /// NUL, CR and LF within text become `?`, so that no argument can carry a second command.
    /// The byte 0xFF is doubled for Telnet (RFC 854). A path that begins with a blank, or with `-`
    /// where options are possible, gets the prefix `./`.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let mut line = Line::new(self.verb(), self.secret_len());
        self.arguments(&mut line, false);
        // Room for all of it, so that no copy of a secret is left behind by a reallocation.
        let doubled = line.0.iter().filter(|byte| **byte == 0xff).count();
        out.reserve(line.0.len() + doubled + 2);
        for &byte in line.0.iter() {
            out.push(if matches!(byte, 0 | b'\r' | b'\n') {
                b'?'
            } else {
                byte
            });
            if byte == 0xff {
                out.push(byte);
            }
        }
        out.extend_from_slice(b"\r\n");
    }

    /// The number of bytes of a secret argument.
    fn secret_len(&self) -> usize {
        match self {
            Self::Pass(secret) | Self::Acct(secret) | Self::Adat(secret) | Self::Dcsc(secret) => {
                secret.reveal().len()
            }
            _ => 0,
        }
    }

    fn arguments(&self, line: &mut Line, masked: bool) {
        match self {
            Self::Pass(secret) | Self::Acct(secret) | Self::Adat(secret) | Self::Dcsc(secret) => {
                line.word(shown(secret, masked));
            }
            Self::User(text) | Self::Auth(text) => line.word(text),
            Self::Cwd(path)
            | Self::Retr(path)
            | Self::Stor(path)
            | Self::Appe(path)
            | Self::Rnfr(path)
            | Self::Rnto(path)
            | Self::Dele(path)
            | Self::Rmd(path)
            | Self::Mkd(path)
            | Self::Size(path)
            | Self::Mdtm(path)
            | Self::Avbl(path) => line.path(path),
            Self::Mlsd(path) | Self::Mlsr(path) | Self::Mlst(path) | Self::Mlsc(path) => {
                path.iter().for_each(|path| line.path(path));
            }
            Self::ListAll(path) => line.on_path("-a", path),
            Self::Raw(whole) => line.0.extend_from_slice(whole.as_bytes()),
            Self::List(path) | Self::Nlst(path) | Self::Stat(path) => {
                path.iter().for_each(|path| line.path_behind_options(path));
            }
            Self::Cdup
            | Self::Quit
            | Self::Pasv
            | Self::Abor
            | Self::Pwd
            | Self::Noop
            | Self::Feat
            | Self::Syst
            | Self::Epsv(Epsv::Any)
            | Self::Spas(None)
            | Self::Help(None)
            | Self::Lang(None) => {}
            Self::Help(Some(text)) | Self::Lang(Some(text)) => line.word(text),
            // An IPv6 address in PORT is the caller's fault; the server refuses the form of EPRT.
            Self::Port(addr) => line.word(addr::list_text(&[*addr])),
            Self::Eprt(addr) => line.word(addr::eprt_text(*addr)),
            Self::Spor(addrs) => line.word(addr::list_text(addrs)),
            Self::Epsv(Epsv::All) => line.word("ALL"),
            Self::Epsv(Epsv::Family(family)) | Self::Spas(Some(family)) => {
                line.word(match family {
                    Family::V4 => "1",
                    Family::V6 => "2",
                });
            }
            Self::Type(Type::Ascii) => line.word("A"),
            Self::Type(Type::Image) => line.word("I"),
            Self::Mode(Mode::Stream) => line.word("S"),
            Self::Mode(Mode::Extended) => line.word("E"),
            Self::Stru(letter) | Self::Prot(letter) => line.show(letter),
            Self::Eret(eret, path) => line.on_path(eret, path),
            Self::Esto(esto, path) => line.on_path(esto, path),
            Self::Allo(n) | Self::Sbuf(n) | Self::Pbsz(n) | Self::Rest(Restart::Offset(n)) => {
                line.show(n);
            }
            Self::Rest(Restart::Ranges(ranges)) if ranges.is_empty() => line.word("0-0"),
            Self::Rest(Restart::Ranges(ranges)) => line.show(ranges),
            Self::Mfmt(time, path) => line.on_path(time, path),
            Self::Cksm {
                algorithm,
                offset,
                length,
                path,
            } => line.on_path(
                format_args!("{algorithm} {offset} {}", Length(*length)),
                path,
            ),
            Self::Scks { algorithm, digest } => line.show(format_args!("{algorithm} {digest}")),
            Self::Opts(opts) => line.show(opts),
            Self::Trev(Event::Perf, n) => line.show(format_args!("PERF {n}")),
            Self::Trev(Event::Restart, n) => line.show(format_args!("RESTART {n}")),
            Self::Dcau(Dcau::None) => line.word("N"),
            Self::Dcau(Dcau::Own) => line.word("A"),
            Self::Dcau(Dcau::Subject(subject)) => line.show(format_args!("S {subject}")),
            Self::Site(site) => site.arguments(line, masked),
        }
    }
}

/// The text of a secret, or a mask.
fn shown(secret: &Secret, masked: bool) -> &[u8] {
    match masked {
        true => MASK,
        false => secret.reveal().as_bytes(),
    }
}

impl SiteCommand {
    fn arguments(&self, line: &mut Line, masked: bool) {
        match self {
            Self::Help(name) => {
                line.word("HELP");
                name.iter().for_each(|name| line.word(name));
            }
            Self::Buffer(side, bytes) => line.show(format_args!(
                "{} {bytes}",
                match side {
                    BufferSide::Both => "SBUF",
                    BufferSide::Receive => "RETRBUFSIZE",
                    BufferSide::Send => "STORBUFSIZE",
                }
            )),
            Self::Chmod(mode, path) => line.on_path(format_args!("CHMOD {mode:04o}"), path),
            Self::Chgrp(group, path) => line.on_path(format_args!("CHGRP {group}"), path),
            Self::Utime(time, path) => line.on_path(format_args!("UTIME {time}"), path),
            Self::Held(path) => line.on_path("HELD", path),
            Self::DropHeld(path) => line.on_path("DELHELD", path),
            Self::SymlinkFrom(target) => line.on_path("SYMLINKFROM", target),
            Self::SymlinkTo(link) => line.on_path("SYMLINKTO", link),
            Self::Symlink(target, link) => {
                line.on_path("SYMLINK", target);
                line.path(link);
            }
            Self::Rdel(path) => line.on_path("RDEL", path),
            Self::Stage(seconds, path) => line.on_path(format_args!("STAGE {seconds}"), path),
            Self::Trnc(length, path) => line.on_path(format_args!("TRNC {length}"), path),
            Self::Xattr(path) => line.on_path("XATTR", path),
            // Its value may be long, or private.
            Self::SetXattr(attribute, path) if masked => {
                line.on_path(format_args!("SETXATTR {attribute:#}"), path);
            }
            Self::SetXattr(attribute, path) => {
                line.on_path(format_args!("SETXATTR {attribute}"), path);
            }
            Self::Whoami => line.word("WHOAMI"),
            Self::Waits => line.word("WAITS"),
            Self::Rate(Some(rate)) => line.show(format_args!("RATE {rate}")),
            Self::Rate(None) => line.word("RATE off"),
            Self::Version => line.word("VERSION"),
            Self::ClientInfo(info) => line.show(format_args!("CLIENTINFO {info}")),
            Self::TaskId(id) => line.show(format_args!("TASKID {id}")),
            Self::StorAttr(attr) => {
                line.word("STORATTR ");
                if let Some(time) = attr.modified {
                    line.append(format_args!("modify={time};"));
                }
                if let Some((algorithm, digest)) = &attr.checksum {
                    line.append(format_args!("x.checksum.{algorithm}={digest};"));
                }
                if let Some(exclusive) = attr.exclusive {
                    line.append(format_args!("x.exclusive={};", u8::from(exclusive)));
                }
                if *attr == StorAttr::default() {
                    line.append(";");
                }
            }
            Self::Stack(side, stack) => line.show(format_args!(
                "{} {}",
                match side {
                    StackSide::Net => "SETNETSTACK",
                    StackSide::Disk => "SETDISKSTACK",
                },
                stack.as_deref().unwrap_or("default")
            )),
            Self::Restrict(paths) => line.show(format_args!("RESTRICT {paths}")),
            Self::Chroot(path) => line.on_path("CHROOT", path),
        }
    }
}

/// An unfinished command line, overwritten when dropped: it may hold a secret.
struct Line(Zeroizing<Vec<u8>>);

impl Line {
    /// Begins with the verb, with room for a secret.
    fn new(verb: &str, secret: usize) -> Self {
        let mut line = Zeroizing::new(Vec::with_capacity(verb.len() + 1 + secret));
        line.extend_from_slice(verb.as_bytes());
        Self(line)
    }

    fn word(&mut self, word: impl AsRef<[u8]>) {
        self.0.push(b' ');
        self.0.extend_from_slice(word.as_ref());
    }

    fn append(&mut self, text: impl fmt::Display) {
        write!(self.0, "{text}").expect("a Vec takes every write");
    }

    fn show(&mut self, text: impl fmt::Display) {
        self.0.push(b' ');
        self.append(text);
    }

    fn on_path(&mut self, words: impl fmt::Display, path: &FtpPath) {
        self.show(words);
        self.path(path);
    }

    fn path(&mut self, path: &FtpPath) {
        // A run of blanks separates two arguments, so no argument can begin with a blank.
        let blank = matches!(path.as_bytes().first(), Some(b' ' | b'\t'));
        self.0.extend_from_slice(if blank { b" ./" } else { b" " });
        self.0.extend_from_slice(path.as_bytes());
    }

    fn path_behind_options(&mut self, path: &FtpPath) {
        if path.as_bytes().first() == Some(&b'-') {
            self.0.extend_from_slice(b" ./");
            self.0.extend_from_slice(path.as_bytes());
        } else {
            self.path(path);
        }
    }
}

/// A number of bytes, or -1 for all of them.
pub(crate) struct Length(pub(crate) Option<u64>);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(length) => length.fmt(f),
            None => f.write_str("-1"),
        }
    }
}

/// Writes the form for logs: no line end, secrets masked, control characters escaped.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = Line::new(self.verb(), 0);
        self.arguments(&mut line, true);
        for c in String::from_utf8_lossy(&line.0).chars() {
            if c.is_control() {
                write!(f, "{}", c.escape_default())?;
            } else {
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
