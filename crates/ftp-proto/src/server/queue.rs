//! `Queue`: the bounded queue of command lines, and the classes of lines before parsing.

use std::collections::VecDeque;

use ftp_wire::error::{BadCommand, BadCommandKind};
use ftp_wire::parse;
use ftp_wire::reply::{Code, Reply};
use zeroize::Zeroizing;

use super::settings::Bounds;

/// Capacity for commands, and for outputs, that an idle session keeps.
pub(super) const KEEP: usize = 16;

/// Commands received while another runs, in order.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Queued>,
    bytes: usize,
}

/// A queued command.
pub(super) enum Queued {
    /// Its line; never printed, and overwritten on drop, since it may hold a password.
    Line(Zeroizing<Box<[u8]>>),
    /// Cancelled by a later `ABOR`: it is answered, not run.
    Cancelled,
}

impl Queue {
    /// Adds a line; `false` when the bounds are reached.
    ///
    /// The last line may exceed them, so that a caller of [`has_room`](Self::has_room) is never
    /// refused; a line has a bound of its own.
    pub(super) fn push(&mut self, line: &[u8], bounds: Bounds) -> bool {
        if !self.has_room(bounds) {
            return false;
        }
        self.bytes += line.len();
        self.waiting
            .push_back(Queued::Line(Zeroizing::new(line.into())));
        true
    }

    /// Takes the oldest.
    pub(super) fn pop(&mut self) -> Option<Queued> {
        let next = self.waiting.pop_front()?;
        if let Queued::Line(line) = &next {
            self.bytes -= line.len();
        }
        if self.waiting.is_empty() {
            // The memory of a busy period is released.
            self.waiting.shrink_to(KEEP);
        }
        Some(next)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn has_room(&self, bounds: Bounds) -> bool {
        self.len() < bounds.commands && self.bytes < bounds.bytes
    }

    /// Cancels the queued commands selected by `which`.
    pub(super) fn cancel(&mut self, which: impl Fn(&[u8]) -> bool) {
        for queued in &mut self.waiting {
            if let Queued::Line(line) = queued
                && which(line)
            {
                self.bytes -= line.len();
                *queued = Queued::Cancelled;
            }
        }
    }

    pub(super) fn has_quit(&self) -> bool {
        self.waiting
            .iter()
            .any(|queued| matches!(queued, Queued::Line(line) if name(line) == "QUIT"))
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The command's name in upper case: its first word, or its first two for `SITE`. No other word is
/// copied, since it may be a password.
pub(super) fn name(line: &[u8]) -> String {
    let words = line.split(u8::is_ascii_whitespace);
    let mut words = words.filter(|word| !word.is_empty());
    let upper = |word: &[u8]| String::from_utf8_lossy(word).to_ascii_uppercase();
    let first = upper(words.next().unwrap_or_default());
    match words.next() {
        Some(second) if first == "SITE" => format!("SITE {}", upper(second)),
        _ => first,
    }
}

/// Says whether a command of this name exists.
pub(super) fn is_known(name: &str) -> bool {
    let verb = name.split(' ').next().unwrap_or(name);
    parse::verbs().any(|(known, _)| known == verb)
}

/// Says whether the line is `ABOR`.
pub(super) fn is_abort(line: &[u8]) -> bool {
    line.trim_ascii().eq_ignore_ascii_case(b"ABOR")
}

/// Says whether a first line belongs to another protocol: an HTTP request or an SSH greeting. Such
/// a peer would not understand a reply either.
pub(super) fn is_foreign(line: &[u8]) -> bool {
    let is_http = line
        .rsplit(|b| *b == b' ')
        .next()
        .is_some_and(|last| last.starts_with(b"HTTP/"));
    is_http || line.starts_with(b"SSH-")
}

/// The answer to a line that is no command, in the words of other servers.
///
/// `TYPE` and `MODE` echo the bad argument, without a line end.
pub(super) fn refusal(line: &[u8], bad: BadCommand) -> Reply {
    use BadCommandKind as Kind;
    let (verb, line) = (bad.verb().unwrap_or_default(), line.trim_ascii());
    let (code, text) = match bad.kind() {
        Kind::Empty | Kind::UnknownVerb => (Code::of::<500>(), "Command not supported."),
        Kind::UnknownSite => (Code::of::<500>(), "Invalid command."),
        Kind::NotImplemented => (Code::of::<502>(), "Command not implemented."),
        Kind::UnsupportedFamily => (
            Code::of::<522>(),
            "Network protocol not supported, use (1,2).",
        ),
        Kind::BadArgument(_) | Kind::UnsupportedArgument(_) | Kind::UnknownOpts => match verb {
            "TYPE" => {
                let text = format!("'{}' unrecognized type.", line.escape_ascii());
                return Reply::of::<501>(text);
            }
            "MODE" => {
                let text = format!("'{}' unrecognized transfer mode.", line.escape_ascii());
                return Reply::of::<501>(text);
            }
            "OPTS" => (Code::of::<500>(), "OPTS failed."),
            "PORT" | "SPOR" => (Code::of::<501>(), "Illegal PORT command."),
            "EPRT" => (Code::of::<501>(), "Malformed argument."),
            "EPSV" => (Code::of::<501>(), "Invalid network command."),
            "REST" => (Code::of::<501>(), "bad parameter."),
            "STRU" => (Code::of::<501>(), "Syntax error in parameter."),
            "SBUF" => (Code::of::<501>(), "Invalid Parameter."),
            "TREV" => (Code::of::<502>(), "Unsupported event."),
            "DCAU" => (Code::of::<504>(), "Bad DCAU mode."),
            "MFMT" => (Code::of::<501>(), "Invalid command arguments."),
            _ => (bad.code(), "Syntax error in parameters or arguments."),
        },
        _ if verb == "DCAU" && line.len() > verb.len() => {
            (Code::of::<501>(), "DCAU S expected subject.")
        }
        _ => (bad.code(), "Syntax error in parameters or arguments."),
    };
    Reply::new(code, text)
}
