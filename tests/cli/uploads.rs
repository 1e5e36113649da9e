//! Uploads that break off, to servers with true and false replies about the stored bytes.

use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use workspace_tests::{Break, Reaction, Relay, ScriptedServer, Tree, binary, run, sha256_of};

use crate::{Bed, LIMIT, cp_in, fails};

const SIZE: usize = 3_000_001;
/// Stored bytes of the first upload.
const TAKEN: usize = 1_000_003;

/// Behaviour of a server after an upload broke off.
#[derive(Clone, Copy)]
struct Habits {
    /// Final reply of the broken upload; the session ends after a 2xx reply.
    first: &'static str,
    /// Reply to `REST`.
    rest: &'static str,
    /// Error reply to a `STOR` after `REST`, if any.
    behind: Option<&'static str>,
    /// Replaces a piece of the stored bytes by a hole.
    hole: bool,
    /// Replaces that piece only after the second upload.
    later: bool,
}

const PLAIN: Habits = Habits {
    first: "426 broken",
    rest: "350 go on",
    behind: None,
    hole: false,
    later: false,
};

/// Starts a server that stores by `STOR` and `APPE` in MODE S and renames no file.
fn serve(habits: Habits) -> Result<ScriptedServer> {
    let server = ScriptedServer::with(move |server, line| {
        let words: Vec<_> = line.split(' ').collect();
        let first = server.count("STOR") == 1 && server.count("APPE") == 0;
        let second = server.count("STOR") + server.count("APPE") == 2;
        match *words.as_slice() {
            ["FEAT"] => Reaction::say("211-features\r\n CKSM SHA256:10;\r\n SIZE\r\n211 end"),
            ["CKSM", _, offset, length, path] => digest(server, path, offset, length),
            ["MLST", _] => Reaction::Execute,
            ["REST", _] if !habits.rest.starts_with('3') => Reaction::say(habits.rest),
            ["STOR", _] if let Some(refusal) = habits.behind.filter(|_| is_restarted(server)) => {
                Reaction::say(refusal)
            }
            ["STOR", _] if first => Reaction::Until(TAKEN),
            ["MIDWAY" | "END", "STOR", path] if first => {
                if habits.hole {
                    punch(server, path);
                }
                match habits.first.starts_with('2') {
                    true => Reaction::HangUp(habits.first.to_owned()),
                    false => Reaction::say(habits.first),
                }
            }
            ["END", "STOR" | "APPE", path] if second && habits.later => {
                punch(server, path);
                Reaction::Usual
            }
            ["OPTS" | "MODE" | "MDTM" | "DELE" | "RNFR" | "LIST", ..] => Reaction::say("500 no"),
            _ => Reaction::Usual,
        }
    })?;
    Ok(server)
}

/// Says whether the last command follows a `REST`.
fn is_restarted(server: &ScriptedServer) -> bool {
    let commands = server.commands();
    let before = commands.iter().rev().nth(1);
    before.is_some_and(|line| line.starts_with("REST"))
}

/// Replaces a piece of a file by a hole.
fn punch(server: &ScriptedServer, path: &str) {
    let mut bytes = server.bytes(path).unwrap_or_default();
    bytes.splice(TAKEN / 2..TAKEN / 2 + 4096, [0; 4096]);
    server.file(path, bytes);
}

/// Replies to `CKSM`.
pub(crate) fn digest(server: &ScriptedServer, path: &str, offset: &str, length: &str) -> Reaction {
    let bytes = server.bytes(path).unwrap_or_default();
    let rest = offset
        .parse()
        .ok()
        .and_then(|offset: usize| bytes.get(offset..));
    let part = rest
        .unwrap_or_default()
        .take(length.parse().unwrap_or(u64::MAX));
    let digest = sha256_of(part).unwrap_or_default();
    Reaction::Say(format!("213 {digest}"))
}

/// Returns the verbs of `REST` and the transfer commands.
fn verbs(server: &ScriptedServer) -> Vec<String> {
    let verbs = server.commands().into_iter().filter_map(|line| {
        let verb = line.split(' ').next()?;
        matches!(verb, "REST" | "STOR" | "APPE" | "RETR").then(|| verb.to_owned())
    });
    verbs.collect()
}

/// Copies a file to such a server, and returns the number of stored bytes and the commands.
fn upload(from: &str, here: &Tree, source: &Path, habits: Habits) -> Result<(usize, Vec<String>)> {
    let server = serve(habits)?;
    // The directory may have to be created.
    let to = server.url("dir/file");
    // `--no-clobber` does not apply to the rest of the first attempt.
    let flags = ["--mode", "stream", "--no-clobber", "--debug", from, &to];
    let finished = cp_in(here, &flags)?.ok()?;
    ensure!(
        server.bytes("/dir/file") == Some(std::fs::read(source)?),
        "the copy differs: {}",
        finished.report()
    );
    Ok((server.received(), verbs(&server)))
}

/// Runs `upload` from a local file and from a server.
fn both(habits: Habits, bytes: usize, commands: &[&str]) -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("file", SIZE as u64, 3)?;
    bed.there.file("file", SIZE as u64, 3)?;
    let source = bed.here.path("file");
    for from in ["file", &bed.url("file")] {
        let (taken, asked) = upload(from, &bed.here, &source, habits)?;
        ensure!(
            asked == commands,
            "{from}: {asked:?} instead of {commands:?}"
        );
        ensure!(taken == bytes, "{from}: {taken} bytes instead of {bytes}");
    }
    Ok(())
}

#[test]
fn an_upload_continues_behind_the_stored_bytes() -> Result<()> {
    both(PLAIN, SIZE, &["STOR", "REST", "STOR"])
}

#[test]
fn where_rest_is_refused_the_upload_continues_with_appe() -> Result<()> {
    let habits = Habits {
        rest: "502 no REST here",
        ..PLAIN
    };
    both(habits, SIZE, &["STOR", "REST", "APPE"])
}

#[test]
fn stored_bytes_with_a_hole_are_sent_again() -> Result<()> {
    let habits = Habits {
        hole: true,
        ..PLAIN
    };
    both(habits, SIZE + TAKEN, &["STOR", "STOR"])
}

#[test]
fn a_change_of_the_stored_bytes_is_noticed() -> Result<()> {
    let habits = Habits {
        later: true,
        ..PLAIN
    };
    both(habits, SIZE + SIZE, &["STOR", "REST", "STOR", "STOR"])
}

#[test]
fn a_refused_restart_is_not_repeated() -> Result<()> {
    let habits = Habits {
        behind: Some("451 not behind a REST"),
        ..PLAIN
    };
    both(habits, SIZE + TAKEN, &["STOR", "REST", "STOR", "STOR"])
}

/// The destination must not append the whole file to the stored bytes.
#[test]
fn a_source_without_rest_sends_the_whole_file_again() -> Result<()> {
    for (rest, asked) in [
        ("350 go on", ["RETR", "REST", "RETR"]),
        ("502 no REST here", ["RETR", "REST", "RETR"]),
    ] {
        let bed = Bed::new()?;
        let file = bed.here.file("file", SIZE as u64, 3)?;
        let source = serve(Habits { rest, ..PLAIN })?;
        source.file("/file", std::fs::read(file)?);
        // Paced, so that the destination has received the forwarded bytes.
        let plan = Break::Everything {
            after: TAKEN as u64,
        };
        let relay = Relay::paced(bed.server.addr(), plan, 4_000_000)?;
        let from = source.url("file");
        let to = bed.server.url_at(relay.addr(), "file");
        let finished = bed.cp(&["--mode", "stream", "--debug", &from, &to])?.ok()?;
        bed.same("file", "file")
            .with_context(|| finished.report())?;
        ensure!(verbs(&source) == asked, "{rest}: {:?}", source.commands());
        let (passed, all) = (relay.passed(), (SIZE + TAKEN) as u64);
        ensure!(
            relay.broke() && (passed < all) == rest.starts_with('3'),
            "{rest}: {passed} bytes passed: {}",
            finished.report()
        );
    }
    Ok(())
}

/// The server accepts the offset, and stores from the start.
#[test]
fn an_ignored_rest_is_noticed() -> Result<()> {
    let habits = Habits {
        rest: "200 never heard of it",
        ..PLAIN
    };
    both(habits, SIZE + SIZE, &["STOR", "REST", "STOR", "STOR"])
}

/// A 226 reply without a size check does not prove that the whole file was stored.
#[test]
fn a_session_lost_before_the_size_check_is_replaced() -> Result<()> {
    let habits = Habits {
        first: "226 done",
        ..PLAIN
    };
    both(habits, SIZE, &["STOR", "REST", "STOR"])
}

/// Standard input cannot be read again.
#[test]
fn an_upload_from_a_pipe_fails_when_its_size_check_is_lost() -> Result<()> {
    let habits = Habits {
        first: "226 done",
        ..PLAIN
    };
    let here = Tree::new()?;
    // The server stores it whole before the session is lost.
    here.file("file", 1000, 3)?;
    let server = serve(habits)?;
    let mut shell = Command::new("sh");
    shell.current_dir(here.root());
    shell.args(["-c", r#"exec "$0" - "$1" < file"#]);
    let copying = shell.arg(binary("gridftp-cp")?).arg(server.url("file"));
    fails(&run(copying, LIMIT)?, 3, &["SIZE"])
}
