//! Names of servers and places that complete a word of the command line, for the functions of shells.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, Command, ValueHint};
use clap_complete::Shell;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::accounts::Accounts;
use super::connection::ConnectionFlags;
use super::settings::{Config, value_of};
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
    .remove(b'=')
    .remove(b'@');

/// A word to complete, in which a backslash makes a blank part of it.
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
    /// Divides `word`, which may give it to an option; `None` for one that names no directory of a
    /// server or a place.
    fn of(word: &'a [u8]) -> Option<Self> {
        let is_plain = !word.iter().any(|byte| b"'\"$`*?[".contains(byte));
        let (_, value) = value_of(word);
        let colon = value.iter().position(|byte| *byte == b':')?;
        let slash = value.iter().rposition(|byte| *byte == b'/');
        let (dir, begun) = value.split_at_checked(slash.unwrap_or(colon) + 1)?;
        let typed = word.strip_suffix(begun)?;
        is_plain.then(|| Self {
            typed,
            dir: OsString::from_vec(unescaped(dir)),
            begun: percent_decode(&unescaped(begun)).collect(),
        })
    }
}

fn unescaped(text: &[u8]) -> Vec<u8> {
    let is_kept = |byte: &u8| *byte != b'\\';
    text.iter().copied().filter(is_kept).collect()
}

/// The words that the beginning of the name of a place may become.
fn places(word: &[u8], known: impl Iterator<Item = String>) -> Vec<String> {
    let (option, begun) = value_of(word);
    let option = String::from_utf8_lossy(option);
    let begun = known.filter(|name| !word.is_empty() && name.as_bytes().starts_with(begun));
    begun.map(|name| format!("{option}{name}:")).collect()
}

/// The words that `word` may become: places before a colon, and names of a server behind it, but
/// none where that takes too long, or a password.
/// `parse` reads the flags that hold for a directory, and the URL that it stands for.
pub fn words(
    word: &OsStr,
    parse: impl FnOnce(&OsStr) -> Option<(ConnectionFlags, OsString)>,
) -> Vec<String> {
    if !word.as_bytes().contains(&b':') {
        let known = Config::read().unwrap_or_default().places;
        return places(word.as_bytes(), known.into_keys());
    }
    // Without a terminal nothing can ask for a password on it.
    let Some(word) = Word::of(word.as_bytes()).filter(|_| rustix::process::setsid().is_ok()) else {
        return Vec::new();
    };
    let names = parse(&word.dir).and_then(|(flags, url)| {
        let mut location = Location::parse_os(&url).ok()?;
        let mut accounts = Accounts::silent(&flags);
        accounts.complete(&mut location, &url).ok()?;
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

/// The names in a directory that begin so, encoded: the first [`MOST`] in their order.
fn names(flags: &ConnectionFlags, dir: &Remote, begun: Vec<u8>) -> Option<Vec<String>> {
    let mut options = CopyOptions::default().retries(0);
    options.connect = flags.options().ok()?;
    let runtime = Builder::new_current_thread().enable_all().build().ok()?;
    let mut found = BTreeSet::new();
    let listing = list(dir, &options, Arc::new(Silent), |entry, _| {
        let is_wanted = entry.name.starts_with(&begun) && !matches!(&*entry.name, b"." | b"..");
        if is_wanted {
            let slash = if entry.kind.is_dir() { "/" } else { "" };
            let name = percent_encode(&entry.name, ENCODED);
            keep(&mut found, format!("{name}{slash}"));
        }
    });
    let listed = runtime.block_on(async { timeout(WITHIN, Box::pin(listing)).await });
    // A look-up of a name may still block a thread.
    runtime.shutdown_background();
    listed.ok()?.ok()?;
    Some(found.into_iter().collect())
}

/// Adds a name to the first [`MOST`]: a server may list any number.
fn keep(names: &mut BTreeSet<String>, name: String) {
    names.insert(name);
    if names.len() > MOST {
        names.pop_last();
    }
}

/// Has the functions `script` of a shell ask for the names of servers and places too.
pub(super) fn with_names(shell: Shell, command: &Command, script: String) -> String {
    const BEGIN: &str = "() {\n";
    let name = command.get_name();
    match (shell, script.split_once(BEGIN)) {
        (Shell::Bash, Some((own, rest))) => format!(
            "{own}{BEGIN}{BASH_BEFORE}    {own}_words \"$@\"\n{BASH_BEHIND}}}\n\n{own}_words{BEGIN}{rest}"
        ),
        (Shell::Zsh, Some((before, rest))) => format!("{before}{BEGIN}{ZSH}{rest}"),
        (Shell::Fish, _) => {
            let urls = url_options(command).map(|option| {
                let value = format!(r#"commandline -ct | string replace -- --{option}= """#);
                format!(
                    "complete -c {name} -l {option} -r -f -a '{}'\n",
                    fish(&value)
                )
            });
            let urls: String = urls.collect();
            let words = fish("commandline -ct");
            format!(
                "{script}complete -c {name} {NOT_LOCAL} -a '{words}'\ncomplete -c {name} {NO_FILES}\n{urls}"
            )
        }
        _ => script,
    }
}

/// The options of a command that have the URL of a server as their value.
fn url_options(command: &Command) -> impl Iterator<Item = &str> {
    let of_urls = |arg: &&Arg| arg.get_value_hint() == ValueHint::Url;
    let options = command.get_arguments().filter(of_urls);
    options.filter_map(Arg::get_long)
}

/// Bash divides words at more than blanks, colons, `=` and `@` among them, and completes the last part.
/// Other users can see the arguments of a program, so that it gets the one word.
const BASH_BEFORE: &str = r#"    local typed=${COMP_LINE:0:COMP_POINT}
    typed=${typed##*[[:blank:]]}
    local cut=${typed%"$2"} names
    if [[ $typed == *:* ]]; then
        mapfile -t names < <(gridftp-cp "--complete=$typed" 2>/dev/null </dev/null)
        if (( ${#names[@]} )); then
            COMPREPLY=()
            [[ ${names[0]} == "$cut"* ]] && COMPREPLY=("${names[@]#"$cut"}")
            compopt -o nospace 2>/dev/null
            return 0
        fi
    fi
"#;

/// A word that no option completes may begin the name of a place, or of a file.
const BASH_BEHIND: &str = r#"    (( ${#COMPREPLY[@]} )) && return 0
    if [[ $typed != *[:/]* && ( $typed == [!-]* || $typed == --*=* ) ]]; then
        mapfile -t names < <(gridftp-cp "--complete=$typed" 2>/dev/null </dev/null)
        if (( ${#names[@]} )); then
            mapfile -t COMPREPLY < <(printf '%s\n' "${names[@]#"$cut"}"; compgen -f -- "$2")
            compopt -o nospace 2>/dev/null
        fi
    fi
    return 0
"#;

const ZSH: &str = r#"    local -a names
    if [[ $PREFIX == *:* ]]; then
        names=(${(f)"$(gridftp-cp "--complete=$PREFIX" 2>/dev/null </dev/null)"})
        (( $#names )) && compadd -Q -S '' -a names && return 0
    elif [[ $PREFIX != */* && ( $PREFIX == [^-]* || $PREFIX == --*=* ) ]]; then
        names=(${(f)"$(gridftp-cp "--complete=$PREFIX" 2>/dev/null </dev/null)"})
        (( $#names )) && compadd -Q -S '' -a names
    fi
"#;

/// Fish completes the part behind a colon or `=` with the names of local files, unless it is told that
/// a word is none.
const NO_FILES: &str = r#"-f -n 'set -l word (commandline -ct); string match -q "*:*" -- $word; and not count $word* >/dev/null'"#;

/// A word that is no option and no path of this machine.
const NOT_LOCAL: &str = r#"-n 'string match -qr "^[^-/.~]" -- (commandline -ct)'"#;

/// The names that complete a word, which `word` tells.
fn fish(word: &str) -> String {
    format!("(gridftp-cp --complete=({word}) 2>/dev/null </dev/null)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(word: &str) -> Option<(String, String, Vec<u8>)> {
        let word = Word::of(word.as_bytes())?;
        let typed = String::from_utf8(word.typed.to_vec()).unwrap();
        Some((typed, word.dir.into_string().unwrap(), word.begun))
    }

    #[test]
    fn a_word_has_a_directory_and_the_beginning_of_a_name() {
        let some = |typed: &str, dir: &str, begun: &str| {
            Some((typed.to_owned(), dir.to_owned(), begun.as_bytes().to_vec()))
        };
        for (word, expected) in [
            ("ftp://h/d/p", some("ftp://h/d/", "ftp://h/d/", "p")),
            ("ftp://h/a%20", some("ftp://h/", "ftp://h/", "a ")),
            ("lab:", some("lab:", "lab:", "")),
            ("lab:/ru", some("lab:/", "lab:/", "ru")),
            (
                "ftp://h/a\\ b/c",
                some("ftp://h/a\\ b/", "ftp://h/a b/", "c"),
            ),
            ("ftp://h", some("ftp://", "ftp://", "h")),
            ("file", None),
            ("", None),
            ("\"ftp://h/a", None),
            ("ftp://h/$x", None),
            (
                "--list=ftp://h/d/p",
                some("--list=ftp://h/d/", "ftp://h/d/", "p"),
            ),
            ("--list=lab:ru", some("--list=lab:", "lab:", "ru")),
            ("--list=", None),
        ] {
            assert_eq!(parts(word), expected, "{word}");
        }
    }

    #[test]
    fn the_name_of_a_place_completes_a_word_before_a_colon() {
        let of = |word: &str| {
            let known = ["cern", "cesga", "lab"].map(str::to_owned);
            places(word.as_bytes(), known.into_iter())
        };
        for (word, expected) in [
            ("cer", &["cern:"][..]),
            ("ce", &["cern:", "cesga:"]),
            ("lab", &["lab:"]),
            ("--list=l", &["--list=lab:"]),
            ("--list=", &["--list=cern:", "--list=cesga:", "--list=lab:"]),
            ("--l", &[]),
            ("./cer", &[]),
            ("CER", &[]),
            ("", &[]),
        ] {
            assert_eq!(of(word), expected, "{word}");
        }
    }

    #[test]
    fn the_functions_of_shells_ask_for_names() {
        let url = Arg::new("url").long("url").value_hint(ValueHint::Url);
        let program = Command::new("prog").arg(url);
        let of = |shell: Shell| {
            let (mut program, mut script) = (program.clone(), Vec::<u8>::new());
            clap_complete::generate(shell, &mut program, "prog", &mut script);
            let script = String::from_utf8(script).unwrap();
            (script.clone(), with_names(shell, &program, script))
        };
        let (own, bash) = of(Shell::Bash);
        let own = own.replacen("_prog() {", "_prog_words() {", 1);
        assert!(
            bash.starts_with("_prog() {\n") && bash.ends_with(own.as_str()),
            "{bash}"
        );
        assert!(bash.contains("\n    _prog_words \"$@\"\n"), "{bash}");
        let (own, zsh) = of(Shell::Zsh);
        assert_eq!(zsh.replacen(ZSH, "", 1), own);
        let (own, fish) = of(Shell::Fish);
        let added = fish.strip_prefix(own.as_str()).unwrap();
        assert_eq!(added.matches("complete -c prog ").count(), 3, "{added}");
        assert!(added.contains("-l url -r -f -a '(gridftp-cp "), "{added}");
        let (own, other) = of(Shell::Elvish);
        assert_eq!(other, own);
    }

    #[test]
    fn the_first_names_are_kept_of_any_number() {
        let mut names = BTreeSet::new();
        for number in (0..3 * MOST).rev() {
            keep(&mut names, format!("{number:05}"));
            assert!(names.len() <= MOST);
        }
        assert!(names.into_iter().eq((0..MOST).map(|n| format!("{n:05}"))));
    }
}
