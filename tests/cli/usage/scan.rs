//! The messages in the sources, each of which has a row or a place in a list.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::rows::{COPIES, OTHERS, SETTINGS};

/// Fragments of the messages that other tests of these programs provoke.
const ELSEWHERE: &[&str] = &[
    "GLOBUS_TCP_PORT_RANGE:",
    "a chain of 0 certificates",
    "from https:// to http://",
    "has a file there: remove it, or name another one with --out",
    "have no checksum algorithm in common",
    "in clear text, and it was not sent",
    "it is no text",
    "it tells no time of",
    "its field Location is empty",
    "its value is not UTF-8",
    "larger than 1 MiB",
    "more than 64 MiB of receipts come before one signature",
    "no Base64",
    "no password and no terminal to ask on; use --netrc",
    "that is no URL of a web server",
    "the receipts before it are not those that",
    "there is no regular file there: name another one with --out",
    "to a directory, and web servers have no listings",
    "write https://; --security none sends",
    "write to another file",
];

/// Fragments of the messages that take a broken host, a session that ends at one moment, or another
/// caller: those of methods that the programs do not call, of checks that come behind others, of
/// silent trials, and of the completion of names.
const NOT_BY_A_COMMAND_LINE: &[&str] = &[
    ": no password",
    "a local path is no URL of a server",
    "usage: a module is name=",
    "a pipe takes exactly one source",
    "cannot be computed here",
    "is read from its start to its end",
    "it has no address",
    "its listing has ended",
    "looked up in vain",
    "no certificate",
    "no connection is left to copy it",
    "no data came in time",
    "no home directory to look for a user certificate in",
    "no home directory; name the file",
    "no raw command",
    "no source and destination",
    "no such command",
    "overwrite",
    "standard input: read",
    "the data passes this machine",
    "the handshake was given up",
    "the names of --files-from are of a directory",
    "the servers do not know each other",
    "the session ended before the copy was proven",
    "this source needs a file of its own",
];

/// Files with messages for tests alone, and one that rewrites those of other files.
const LEFT_OUT: [&str; 3] = [
    "globus/words.rs",
    "program/examples.rs",
    "settings/audit.rs",
];

/// Length in bytes of the shortest fragment that stands for a message; shorter ones are in many.
const TELLING: usize = 8;

/// The folder of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The text of all source files below a folder of the repository.
fn sources(folder: &str) -> Result<Vec<(PathBuf, String)>> {
    let mut folders = vec![root().join(folder)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = fs::read_to_string(&path)?;
                found.push((path, text));
            }
        }
    }
    Ok(found)
}

/// Beginnings of the statements that make messages.
const STATEMENTS: [&str; 3] = ["bail!(", "ensure!(", "anyhow!("];

/// Code in front of a literal that is a message, without its spaces.
const BEFORE_A_MESSAGE: [&str; 14] = [
    "choice(",
    "context(",
    "context(||format!(",
    "failed(",
    "refuse(",
    "request(",
    "source(place,",
    "Err(",
    "Err(format!(",
    "ok_or(",
    "ok_or_else(||",
    "ok_or_else(||format!(",
    "what:",
    "what:format!(",
];

/// The messages in the text of a source file: literals of [`STATEMENTS`], those behind
/// [`BEFORE_A_MESSAGE`], and those that begin as the messages of values do. The longest piece without
/// a value stands for each.
///
/// # Errors
/// A quote is in a literal that this does not read.
fn messages(text: &str) -> Result<Vec<String>> {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code = code.collect::<Vec<_>>().join("\n");
    let code = code.replace("\\\\", "\u{2}");
    let code = code.replace("\\\"", "\u{1}").replace("'\"'", "'\u{1}'");
    let quotes = code.matches('"').count();
    ensure!(quotes.is_multiple_of(2), "a quote opens no literal");
    let mut pieces = code.split('"');
    let mut statement = String::new();
    let mut found = Vec::new();
    while let (Some(before), Some(literal)) = (pieces.next(), pieces.next()) {
        statement.extend(before.split_whitespace());
        if let Some(end) = statement.rfind(';') {
            statement.drain(..=end);
        }
        let is_message = STATEMENTS.iter().any(|told| statement.contains(told))
            || BEFORE_A_MESSAGE
                .iter()
                .any(|code| statement.ends_with(code))
            || ["usage: ", "write "]
                .iter()
                .any(|start| literal.starts_with(start));
        let lines = literal.split("\\\n").map(str::trim_start);
        let literal = lines.collect::<String>();
        let fixed = literal
            .split('{')
            .map(|piece| piece.rsplit('}').next().unwrap_or(piece));
        let piece = fixed.max_by_key(|piece| piece.len()).unwrap_or_default();
        if is_message && piece.len() >= TELLING {
            let piece = piece.trim().replace('\u{1}', "\"");
            found.push(piece.replace('\u{2}', "\\"));
        }
    }
    Ok(found)
}

/// Returns whether a fragment stands for a message: it has all of it, or is a third of it.
fn tells(fragment: &str, message: &str) -> bool {
    let is_third = 3 * fragment.len() >= message.len() && message.contains(fragment);
    is_third || fragment.contains(message)
}

#[test]
fn no_message_of_a_macro_or_a_value_lacks_a_row() -> Result<()> {
    let rows = COPIES.iter().chain(OTHERS);
    let rows = rows.flat_map(|(.., needles)| *needles);
    let settings = SETTINGS.iter().flat_map(|(.., needles)| *needles);
    let others = ELSEWHERE.iter().chain(NOT_BY_A_COMMAND_LINE);
    let needles = rows
        .chain(settings)
        .chain(others)
        .filter(|needle| needle.len() >= TELLING);
    let needles: Vec<_> = needles.collect();
    let (mut missing, mut all) = (BTreeSet::new(), Vec::new());
    for (path, text) in sources("gridftp-client/src")? {
        if LEFT_OUT.iter().any(|file| path.ends_with(file)) {
            continue;
        }
        let found = messages(&text).with_context(|| path.display().to_string())?;
        all.extend(found.iter().cloned());
        for message in found {
            if !needles.iter().any(|needle| tells(needle, &message)) {
                missing.insert(format!("{}: {message}", path.display()));
            }
        }
    }
    ensure!(missing.is_empty(), "{missing:#?}");
    let stale = ELSEWHERE.iter().chain(NOT_BY_A_COMMAND_LINE);
    let stale: Vec<_> = stale
        .filter(|fragment| !all.iter().any(|message| tells(fragment, message)))
        .collect();
    ensure!(stale.is_empty(), "no message has {stale:?}");
    let tests = sources("tests/cli")?;
    let own = root().join("tests/cli/usage");
    let tests = tests.iter().filter(|(path, _)| !path.starts_with(&own));
    let tests = tests.flat_map(|(_, text)| text.lines());
    let tests: String = tests
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let lost = ELSEWHERE
        .iter()
        .filter(|fragment| !tests.contains(**fragment));
    let lost: Vec<_> = lost.collect();
    ensure!(lost.is_empty(), "no test looks for {lost:?}");
    Ok(())
}
