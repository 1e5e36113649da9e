//! Names of servers that complete a word of the command line, for the functions of shells.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::sync::Arc;
use std::time::Duration;

use clap_complete::Shell;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::accounts::Accounts;
use super::connection::ConnectionFlags;
use crate::list::list;
use crate::options::CopyOptions;
use crate::progress::Silent;
use crate::url::{Location, Remote, Scheme};

/// Longest time for an answer: a person waits for it.
const WITHIN: Duration = Duration::from_secs(2);
/// Most names of an answer.
const MOST: usize = 10_000;

/// The bytes of a name that are encoded: all that a shell or a URL could take for something else.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'+')
    .remove(b',')
    .remove(b'@');

/// The word at the end of a command line, in which a backslash makes a blank part of it.
#[derive(Debug, PartialEq, Eq)]
struct Word<'a> {
    /// Its beginning as it is typed, up to the directory whose names complete it.
    typed: &'a [u8],
    /// The directory.
    dir: OsString,
    /// The beginning of the name.
    begun: Vec<u8>,
}

impl<'a> Word<'a> {
    /// The last word of `line`; `None` for one that names no directory of a server or a place.
    fn last_of(line: &'a [u8]) -> Option<Self> {
        let (mut start, mut is_escaped) = (0, false);
        for (at, byte) in line.iter().enumerate() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b' ' | b'\t' => start = at + 1,
                _ => {}
            }
        }
        let word = line.get(start..)?;
        let is_plain = !word.iter().any(|byte| b"'\"$`*?[".contains(byte));
        let colon = word.iter().position(|byte| *byte == b':')?;
        let slash = word.iter().rposition(|byte| *byte == b'/');
        let (typed, begun) = word.split_at_checked(slash.unwrap_or(colon) + 1)?;
        is_plain.then(|| Self {
            typed,
            dir: OsString::from_vec(unescaped(typed)),
            begun: percent_decode(&unescaped(begun)).collect(),
        })
    }
}

fn unescaped(text: &[u8]) -> Vec<u8> {
    let is_kept = |byte: &u8| *byte != b'\\';
    text.iter().copied().filter(is_kept).collect()
}

/// The words that the last word of `line` may become; none where that takes too long, or a password.
/// `parse` reads the flags that hold for a directory, and the URL that it stands for.
pub fn words(
    line: &OsStr,
    parse: impl FnOnce(&OsStr) -> Option<(ConnectionFlags, OsString)>,
) -> Vec<String> {
    // Without a terminal nothing can ask for a password on it.
    let Some(word) = Word::last_of(line.as_bytes()).filter(|_| rustix::process::setsid().is_ok())
    else {
        return Vec::new();
    };
    let names = parse(&word.dir).and_then(|(flags, url)| {
        let mut location = Location::parse_os(&url).ok()?;
        Accounts::silent(&flags).complete(&mut location).ok()?;
        let Location::Remote(remote) = location else {
            return None;
        };
        // The program ssh may ask in a window.
        let may_ask = remote.site.scheme == Scheme::Ssh || remote.pattern.is_some();
        (!may_ask).then(|| names(&flags, &remote, word.begun))?
    });
    let typed = String::from_utf8_lossy(word.typed);
    let whole = |name: String| format!("{typed}{name}");
    names.unwrap_or_default().into_iter().map(whole).collect()
}

/// The names in a directory that begin so, encoded.
fn names(flags: &ConnectionFlags, dir: &Remote, begun: Vec<u8>) -> Option<Vec<String>> {
    let mut options = CopyOptions::default().retries(0);
    options.connect = flags.options().ok()?;
    let runtime = Builder::new_current_thread().enable_all().build().ok()?;
    let (sent, found) = std::sync::mpsc::channel();
    let listing = list(dir, &options, Arc::new(Silent), move |entry, _| {
        let is_wanted = entry.name.starts_with(&begun) && !matches!(&*entry.name, b"." | b"..");
        if is_wanted {
            let slash = if entry.kind.is_dir() { "/" } else { "" };
            let name = percent_encode(&entry.name, ENCODED);
            let _gone = sent.send(format!("{name}{slash}"));
        }
    });
    let listed = runtime.block_on(async { timeout(WITHIN, Box::pin(listing)).await });
    // A look-up of a name may still block a thread.
    runtime.shutdown_background();
    listed.ok()?.ok()?;
    let mut names: Vec<_> = found.try_iter().take(MOST).collect();
    names.sort();
    Some(names)
}

/// Has the function `script` of a shell ask for the names of servers and places first, for words
/// with a colon.
pub(super) fn with_names(shell: Shell, name: &str, script: String) -> String {
    const BEGIN: &str = "() {\n";
    match shell {
        Shell::Bash => script.replacen(BEGIN, &format!("{BEGIN}{BASH}"), 1),
        Shell::Zsh => script.replacen(BEGIN, &format!("{BEGIN}{ZSH}"), 1),
        Shell::Fish => format!("{script}complete -c {name} {FISH}\n"),
        _ => script,
    }
}

/// Bash divides words at colons, so that the part behind the last one is completed.
const BASH: &str = r#"    local typed=${COMP_LINE:0:COMP_POINT}
    if [[ ${typed##*[[:blank:]]} == *:* ]]; then
        local cut= names
        mapfile -t names < <(gridftp-cp "--complete=$typed" 2>/dev/null </dev/null)
        if (( ${#names[@]} )); then
            [[ $COMP_WORDBREAKS == *:* ]] && cut=${names[0]%"${names[0]##*:}"}
            COMPREPLY=("${names[@]#"$cut"}")
            compopt -o nospace 2>/dev/null
            return 0
        fi
    fi
"#;

const ZSH: &str = r#"    if [[ $PREFIX == *:* ]]; then
        local -a names
        names=(${(f)"$(gridftp-cp "--complete=$PREFIX" 2>/dev/null </dev/null)"})
        (( $#names )) && compadd -Q -S '' -a names && return 0
    fi
"#;

const FISH: &str = r#"-n 'string match -q "*:*" -- (commandline -ct)' -a '(gridftp-cp --complete=(commandline -ct) 2>/dev/null </dev/null)'"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(line: &str) -> Option<(String, String, Vec<u8>)> {
        let word = Word::last_of(line.as_bytes())?;
        let typed = String::from_utf8(word.typed.to_vec()).unwrap();
        Some((typed, word.dir.into_string().unwrap(), word.begun))
    }

    #[test]
    fn the_last_word_has_a_directory_and_the_beginning_of_a_name() {
        let some = |typed: &str, dir: &str, begun: &str| {
            Some((typed.to_owned(), dir.to_owned(), begun.as_bytes().to_vec()))
        };
        for (line, expected) in [
            ("cp a ftp://h/d/p", some("ftp://h/d/", "ftp://h/d/", "p")),
            ("cp ftp://h/a%20", some("ftp://h/", "ftp://h/", "a ")),
            ("cp lab:", some("lab:", "lab:", "")),
            ("cp lab:/ru", some("lab:/", "lab:/", "ru")),
            (
                "cp ftp://h/a\\ b/c",
                some("ftp://h/a\\ b/", "ftp://h/a b/", "c"),
            ),
            ("cp ftp://h", some("ftp://", "ftp://", "h")),
            ("cp file", None),
            ("cp ", None),
            ("cp \"ftp://h/a", None),
            ("cp ftp://h/$x", None),
        ] {
            assert_eq!(parts(line), expected, "{line}");
        }
    }
}
