//! The words of options for protections, as drivers and storages spell them.

use ftp_wire::command::{Dcau, Mode};

use crate::options::{Level, Security};

const LEVELS: [(&str, Level); 3] = [
    ("clear", Level::Clear),
    ("safe", Level::Integrity),
    ("private", Level::Private),
];

const SECURITIES: [(&str, Security); 4] = [
    ("auto", Security::Auto),
    ("none", Security::None),
    ("tls", Security::Tls),
    ("implicit", Security::Implicit),
];

fn named<T: Copy>(known: &[(&'static str, T)], word: &str) -> Option<T> {
    let found = known.iter().find(|(name, _)| *name == word);
    found.map(|(_, named)| *named)
}

fn name_of<T: PartialEq>(known: &[(&'static str, T)], value: &T) -> Option<&'static str> {
    let found = known.iter().find(|(_, named)| named == value);
    found.map(|(name, _)| *name)
}

/// Reads the protection of data: `clear`, `safe` or `private`.
pub fn level(word: &str) -> Option<Level> {
    named(&LEVELS, word)
}

/// The word for a protection of data.
pub fn of_level(level: Level) -> Option<&'static str> {
    name_of(&LEVELS, &level)
}

/// Reads the protection of control connections: `auto`, `none`, `tls` or `implicit`.
pub fn security(word: &str) -> Option<Security> {
    named(&SECURITIES, word)
}

/// The word for a protection of control connections.
pub fn of_security(security: Security) -> Option<&'static str> {
    name_of(&SECURITIES, &security)
}

/// Reads the identity of data connections: `self`, `none` or a subject.
pub fn dcau(word: &str) -> Option<Dcau> {
    match word {
        "self" => Some(Dcau::Own),
        "none" => Some(Dcau::None),
        subject if subject.starts_with('/') => Some(Dcau::Subject(subject.to_owned())),
        _ => None,
    }
}

/// The word for an identity of data connections.
pub fn of_dcau(peer: &Dcau) -> String {
    match peer {
        Dcau::Own => "self".to_owned(),
        Dcau::None => "none".to_owned(),
        Dcau::Subject(subject) => subject.clone(),
    }
}

/// Reads a transmission mode: `S` or `E`, in any case.
pub fn mode(word: &str) -> Option<Mode> {
    match word {
        "S" | "s" => Some(Mode::Stream),
        "E" | "e" => Some(Mode::Extended),
        _ => None,
    }
}

/// The letter of a transmission mode.
pub fn of_mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Extended => "E",
        _ => "S",
    }
}
