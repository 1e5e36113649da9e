//! `Command::parse(&[u8])`: the table of verbs, then one function per form of arguments.

use byte_ranges::text;

use crate::addr;
use crate::args::Args;
use crate::command::{Command, Dcau, Epsv, Eret, Esto, Event, Mode, Restart, Secret, Type};
use crate::error::{BadAddress, BadCommand, BadCommandKind};
use crate::opts::Opts;
use crate::site;

pub(crate) type Parsed<T = Command> = Result<T, (BadCommandKind, usize)>;
type Parser = fn(&mut Args<'_>) -> Parsed;

/// Most ranges in `REST`.
pub const MAX_RANGES: usize = 4096;

/// Verb, syntax for HELP, and parser of its arguments, in the order of [`Command`].
const VERBS: &[(&str, &str, Parser)] = &[
    ("USER", "USER <sp> name", |a| {
        a.text("name").map(Command::User)
    }),
    ("PASS", "PASS <sp> password", |a| {
        a.password().map(Secret::new).map(Command::Pass)
    }),
    ("ACCT", "ACCT <sp> account", |a| {
        a.text("account").map(Secret::new).map(Command::Acct)
    }),
    ("CWD", "CWD <sp> path", |a| a.path().map(Command::Cwd)),
    ("CDUP", "CDUP", |_| Ok(Command::Cdup)),
    ("QUIT", "QUIT", |_| Ok(Command::Quit)),
    ("PORT", "PORT <sp> h,h,h,h,p,p", port),
    ("EPRT", "EPRT <sp> |family|address|port|", eprt),
    ("SPOR", "SPOR 1*(<sp> address)", spor),
    ("PASV", "PASV", |_| Ok(Command::Pasv)),
    ("EPSV", "EPSV [<sp> 1|2|ALL]", epsv),
    ("SPAS", "SPAS [<sp> 1|2]", spas),
    ("TYPE", "TYPE <sp> A|I", type_code),
    ("STRU", "STRU <sp> F", |a| {
        a.letter("structure").map(Command::Stru)
    }),
    ("MODE", "MODE <sp> S|E", mode),
    ("RETR", "RETR <sp> path", |a| a.path().map(Command::Retr)),
    ("STOR", "STOR <sp> path", |a| a.path().map(Command::Stor)),
    ("APPE", "APPE <sp> path", |a| a.path().map(Command::Appe)),
    (
        "ERET",
        "ERET <sp> P <sp> offset <sp> length | module=\"arguments\" <sp> path",
        eret,
    ),
    (
        "ESTO",
        "ESTO <sp> A <sp> offset | module=\"arguments\" <sp> path",
        esto,
    ),
    ("ALLO", "ALLO <sp> bytes [<sp> R <sp> bytes]", allo),
    ("REST", "REST <sp> offset | ranges", rest),
    ("ABOR", "ABOR", |_| Ok(Command::Abor)),
    ("LIST", "LIST [<sp> path]", |a| {
        a.path_behind_options().map(Command::List)
    }),
    ("NLST", "NLST [<sp> path]", |a| {
        a.path_behind_options().map(Command::Nlst)
    }),
    ("MLSD", "MLSD [<sp> path]", |a| {
        a.optional_path().map(Command::Mlsd)
    }),
    ("MLSR", "MLSR [<sp> path]", |a| {
        a.optional_path().map(Command::Mlsr)
    }),
    ("MLST", "MLST [<sp> path]", |a| {
        a.optional_path().map(Command::Mlst)
    }),
    ("MLSC", "MLSC [<sp> path]", |a| {
        a.optional_path().map(Command::Mlsc)
    }),
    ("RNFR", "RNFR <sp> path", |a| a.path().map(Command::Rnfr)),
    ("RNTO", "RNTO <sp> path", |a| a.path().map(Command::Rnto)),
    ("DELE", "DELE <sp> path", |a| a.path().map(Command::Dele)),
    ("RMD", "RMD <sp> path", |a| a.path().map(Command::Rmd)),
    ("MKD", "MKD <sp> path", |a| a.path().map(Command::Mkd)),
    ("PWD", "PWD", |_| Ok(Command::Pwd)),
    ("SIZE", "SIZE <sp> path", |a| a.path().map(Command::Size)),
    ("MDTM", "MDTM <sp> path", |a| a.path().map(Command::Mdtm)),
    ("MFMT", "MFMT <sp> YYYYMMDDHHMMSS <sp> path", |a| {
        Ok(Command::Mfmt(a.time()?, a.path()?))
    }),
    (
        "CKSM",
        "CKSM <sp> algorithm <sp> offset <sp> length <sp> path",
        cksm,
    ),
    ("SCKS", "SCKS <sp> algorithm <sp> digest", scks),
    ("AVBL", "AVBL <sp> path", |a| a.path().map(Command::Avbl)),
    ("HELP", "HELP [<sp> command]", |a| {
        a.optional_word("command").map(Command::Help)
    }),
    ("NOOP", "NOOP", |_| Ok(Command::Noop)),
    ("FEAT", "FEAT", |_| Ok(Command::Feat)),
    ("OPTS", "OPTS <sp> command [<sp> options]", |_| {
        Err((BadCommandKind::MissingArgument, 0))
    }),
    ("SYST", "SYST", |_| Ok(Command::Syst)),
    ("STAT", "STAT [<sp> path]", |a| {
        a.path_behind_options().map(Command::Stat)
    }),
    ("LANG", "LANG [<sp> tag]", |a| {
        a.optional_word("language").map(Command::Lang)
    }),
    ("SBUF", "SBUF <sp> bytes", |a| {
        a.number("buffer size").map(Command::Sbuf)
    }),
    ("TREV", "TREV <sp> PERF|RESTART <sp> seconds", trev),
    ("SITE", "SITE <sp> command", |a| {
        site::parse(a).map(Command::Site)
    }),
    ("AUTH", "AUTH <sp> mechanism", |a| {
        a.text("mechanism").map(Command::Auth)
    }),
    ("ADAT", "ADAT <sp> base64", |a| {
        a.text("base64 data").map(Secret::new).map(Command::Adat)
    }),
    ("PBSZ", "PBSZ <sp> bytes", |a| {
        a.number("buffer size").map(Command::Pbsz)
    }),
    ("PROT", "PROT <sp> C|S|E|P", |a| {
        a.letter("protection level").map(Command::Prot)
    }),
    ("DCAU", "DCAU <sp> N|A|S [<sp> subject]", dcau),
    ("DCSC", "DCSC <sp> P <sp> base64 | D", |a| {
        a.text("credential").map(Secret::new).map(Command::Dcsc)
    }),
];

/// Verbs under their experimental names (RFC 1123 §4.1.3.1).
const ALIASES: &[(&str, &str)] = &[
    ("XPWD", "PWD"),
    ("XMKD", "MKD"),
    ("XRMD", "RMD"),
    ("XCUP", "CDUP"),
    ("XCWD", "CWD"),
];

/// Verbs of the specifications that are not implemented.
const ABSENT: &[&str] = &[
    "ABUF", "CCC", "CLNT", "CONF", "ENC", "HASH", "HOST", "LPRT", "LPSV", "MAIL", "MFF", "MIC",
    "MLFL", "MRCP", "MRSQ", "MSAM", "MSND", "MSOM", "RANG", "REIN", "SMNT", "STOU", "GET", "PUT",
];

/// The verbs and their syntax, for HELP.
pub fn verbs() -> impl Iterator<Item = (&'static str, &'static str)> {
    VERBS.iter().map(|(name, syntax, _)| (*name, *syntax))
}

/// The `SITE` subcommands and their syntax, for HELP.
pub fn site_verbs() -> impl Iterator<Item = (&'static str, &'static str)> {
    site::verbs()
}

impl Command {
    /// Parses one line, without its end.
    ///
    /// Verbs match in any case. Runs of blanks separate the words. A path is the rest of the line
    /// behind one blank; further blanks and control bytes are part of the name. Commands without
    /// arguments ignore the rest of the line.
    ///
    /// # Errors
    ///
    /// [`BadCommand`], which has the code of the reply.
    pub fn parse(line: &[u8]) -> Result<Self, BadCommand> {
        let end = line
            .iter()
            .position(|b| matches!(b, b' ' | b'\t'))
            .unwrap_or(line.len());
        let word = line.get(..end).unwrap_or_default();
        if line.trim_ascii().is_empty() {
            return Err(BadCommand::new(BadCommandKind::Empty, None, 0));
        }
        // `LineSplitter` returns no such line; lines of other origin are checked here.
        if let Some(at) = line.iter().position(|b| matches!(b, 0 | b'\r' | b'\n')) {
            return Err(BadCommand::new(
                BadCommandKind::BadArgument("byte"),
                None,
                at,
            ));
        }
        let Some((name, _, parse)) = find(word) else {
            let absent = ABSENT
                .iter()
                .find(|name| name.as_bytes().eq_ignore_ascii_case(word));
            return Err(match absent {
                Some(name) => BadCommand::new(BadCommandKind::NotImplemented, Some(name), 0),
                None => BadCommand::new(BadCommandKind::UnknownVerb, None, 0),
            });
        };
        let mut args = Args::new(line, end);
        if *name == "OPTS" {
            let (text, base) = args.rest();
            return Opts::parse_at(text, base).map(Self::Opts);
        }
        parse(&mut args).map_err(|(kind, at)| {
            let verb = if *name == "SITE" {
                site::name_in(line, end)
            } else {
                None
            };
            BadCommand::new(kind, verb.or(Some(name)), at)
        })
    }
}

fn find(word: &[u8]) -> Option<&'static (&'static str, &'static str, Parser)> {
    let word = word.to_ascii_uppercase();
    let alias = ALIASES.iter().find(|(alias, _)| alias.as_bytes() == word);
    let name = alias.map_or(word.as_slice(), |(_, name)| name.as_bytes());
    VERBS.iter().find(|(verb, ..)| verb.as_bytes() == name)
}

/// The error of the address at byte `at`.
fn bad_address(bad: BadAddress, at: usize) -> (BadCommandKind, usize) {
    let kind = match bad {
        BadAddress::Family => BadCommandKind::UnsupportedFamily,
        BadAddress::Empty => BadCommandKind::MissingArgument,
        _ => BadCommandKind::BadArgument("address"),
    };
    (kind, at)
}

fn port(args: &mut Args<'_>) -> Parsed {
    let (text, at) = args.rest();
    addr::parse_port(text).map(Command::Port).map_err(|bad| {
        let bad = if text.is_empty() {
            BadAddress::Empty
        } else {
            bad
        };
        bad_address(bad, at)
    })
}

fn eprt(args: &mut Args<'_>) -> Parsed {
    let (text, at) = args.rest();
    let parsed = addr::parse_eprt(text.trim_ascii_end());
    parsed
        .map(Command::Eprt)
        .map_err(|bad| bad_address(bad, at))
}

fn spor(args: &mut Args<'_>) -> Parsed {
    let (text, at) = args.rest();
    addr::parse_list(text)
        .map(Command::Spor)
        .map_err(|bad| bad_address(bad, at))
}

fn epsv(args: &mut Args<'_>) -> Parsed {
    let Some((word, at)) = args.next() else {
        return Ok(Command::Epsv(Epsv::Any));
    };
    if word.eq_ignore_ascii_case(b"ALL") {
        return Ok(Command::Epsv(Epsv::All));
    }
    let family = addr::parse_family(word).map_err(|bad| bad_address(bad, at))?;
    Ok(Command::Epsv(Epsv::Family(family)))
}

fn spas(args: &mut Args<'_>) -> Parsed {
    let Some((word, at)) = args.next() else {
        return Ok(Command::Spas(None));
    };
    let family = addr::parse_family(word).map_err(|bad| bad_address(bad, at))?;
    Ok(Command::Spas(Some(family)))
}

/// Accepts `TYPE L 8` as `I`, and of the form codes of `A` those without effect on a host that does
/// not print: `N` and `T` (RFC 1123 §4.1.2.3).
fn type_code(args: &mut Args<'_>) -> Parsed {
    let (code, at) = args.require()?;
    let second = args.next();
    let form = second.map(|(word, _)| word.to_ascii_uppercase());
    match (code.to_ascii_uppercase().as_slice(), form.as_deref()) {
        (b"A", None | Some(b"N" | b"T")) => Ok(Command::Type(Type::Ascii)),
        (b"I", None) | (b"L", Some(b"8")) => Ok(Command::Type(Type::Image)),
        (b"A" | b"E" | b"L", _) => Err((BadCommandKind::UnsupportedArgument("type"), at)),
        (b"I", Some(_)) => Err((
            BadCommandKind::ExtraArgument,
            second.map_or(at, |(_, at)| at),
        )),
        _ => Err((BadCommandKind::BadArgument("type"), at)),
    }
}

fn mode(args: &mut Args<'_>) -> Parsed {
    let at = args.at();
    match args.letter("mode")? {
        'S' => Ok(Command::Mode(Mode::Stream)),
        'E' => Ok(Command::Mode(Mode::Extended)),
        'B' | 'C' => Err((BadCommandKind::UnsupportedArgument("mode"), at)),
        _ => Err((BadCommandKind::BadArgument("mode"), at)),
    }
}

/// The operation of ERET or ESTO: a letter, or a module with its arguments up to the path.
fn operation(args: &mut Args<'_>, letter: u8) -> Parsed<Option<String>> {
    let (word, at) = args.peek()?;
    if word.eq_ignore_ascii_case(&[letter]) {
        args.next();
        return Ok(None);
    }
    let module = args
        .module()
        .ok_or((BadCommandKind::BadArgument("operation"), at))?;
    let module = String::from_utf8(module.to_vec());
    module
        .map(Some)
        .map_err(|_| (BadCommandKind::BadArgument("operation"), at))
}

fn eret(args: &mut Args<'_>) -> Parsed {
    let how = match operation(args, b'P')? {
        Some(module) => Eret::of_module(module),
        None => {
            let offset: u64 = args.number("offset")?;
            let at = args.at();
            let length = args.length()?;
            let fits = length.is_none_or(|length| offset.checked_add(length).is_some());
            if !fits {
                return Err((BadCommandKind::BadArgument("length"), at));
            }
            Eret::Partial { offset, length }
        }
    };
    Ok(Command::Eret(how, args.path()?))
}

fn esto(args: &mut Args<'_>) -> Parsed {
    let how = match operation(args, b'A')? {
        Some(module) => Esto::of_module(module),
        None => Esto::Adjusted {
            offset: args.number("offset")?,
        },
    };
    Ok(Command::Esto(how, args.path()?))
}

/// A record size has no effect on files without records, but must be a number (RFC 959 §4.1.3).
fn allo(args: &mut Args<'_>) -> Parsed {
    let bytes = args.number("size")?;
    if let Some((word, at)) = args.next() {
        if !word.eq_ignore_ascii_case(b"R") {
            return Err((BadCommandKind::ExtraArgument, at));
        }
        let _: u64 = args.number("record size")?;
    }
    Ok(Command::Allo(bytes))
}

fn rest(args: &mut Args<'_>) -> Parsed {
    let (word, at) = args.require()?;
    if word.iter().all(u8::is_ascii_digit) {
        return args
            .reread(at)
            .number("offset")
            .map(Restart::Offset)
            .map(Command::Rest);
    }
    let ranges = text::parse(word, MAX_RANGES);
    let ranges = ranges.map_err(|_| (BadCommandKind::BadArgument("ranges"), at))?;
    if let Some((_, at)) = args.next() {
        return Err((BadCommandKind::ExtraArgument, at));
    }
    Ok(Command::Rest(Restart::Ranges(ranges)))
}

fn cksm(args: &mut Args<'_>) -> Parsed {
    Ok(Command::Cksm {
        algorithm: args.word("algorithm")?,
        offset: args.number("offset")?,
        length: args.length()?,
        path: args.path()?,
    })
}

fn scks(args: &mut Args<'_>) -> Parsed {
    Ok(Command::Scks {
        algorithm: args.word("algorithm")?,
        digest: args.digest()?,
    })
}

fn trev(args: &mut Args<'_>) -> Parsed {
    let (word, at) = args.require()?;
    let event = match word.to_ascii_uppercase().as_slice() {
        b"PERF" => Event::Perf,
        b"RESTART" => Event::Restart,
        _ => return Err((BadCommandKind::UnsupportedArgument("event"), at)),
    };
    args.number("interval")
        .map(|seconds| Command::Trev(event, seconds))
}

fn dcau(args: &mut Args<'_>) -> Parsed {
    let at = args.at();
    match args.letter("mode")? {
        'N' => Ok(Command::Dcau(Dcau::None)),
        'A' => Ok(Command::Dcau(Dcau::Own)),
        'S' => args.text("subject").map(Dcau::Subject).map(Command::Dcau),
        _ => Err((BadCommandKind::UnsupportedArgument("mode"), at)),
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
