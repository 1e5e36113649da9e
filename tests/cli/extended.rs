//! Servers with faults in MODE E: end-of-data counts, gaps, overlaps, resets, unreachable clients.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use workspace_tests::{Finished, Host, Reaction, ScriptedServer, Tree, block};

use crate::{cp_in, fails};

const EOF: u8 = 0x40;
const EOD: u8 = 0x08;
const CLOSE: u8 = 0x04;
const RESET: &str = "426 Connection reset by peer";

fn data(offset: u64, payload: &[u8]) -> Vec<u8> {
    block(0, payload.len() as u64, offset, payload)
}

fn end(eods: u64) -> Vec<u8> {
    block(EOF | EOD | CLOSE, 0, eods, b"")
}

/// Behaviour of the server's data connections for one file.
#[derive(Clone)]
struct Faults {
    /// Bytes on each data connection.
    conns: Vec<Vec<u8>>,
    /// The reaction after those bytes.
    then: Reaction,
    /// Reply to every `RETR` and listing of the root in MODE E, without a connection; empty for
    /// none.
    unreachable: Option<&'static str>,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            conns: Vec::new(),
            then: Reaction::Usual,
            unreachable: None,
        }
    }
}

impl Faults {
    fn reaction(self) -> Reaction {
        match self.unreachable {
            Some("") => Reaction::Raw(Vec::new()),
            Some(reply) => Reaction::say(reply),
            None => Reaction::Send(self.conns, Box::new(self.then)),
        }
    }
}

/// Serves `abcdef` in MODE S, and the bytes of `faults` of a file in MODE E; `names` are in `/dir`.
fn serve(
    names: &[String],
    faults: impl Fn(&str) -> Faults + Send + Sync + 'static,
) -> Result<ScriptedServer> {
    // A server that is busy with a transfer leaves the commands behind it unanswered.
    let silent = AtomicBool::new(false);
    let server = ScriptedServer::start(move |line| {
        let (verb, path) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "OPTS" | "CKSM" if silent.load(Ordering::Relaxed) => Reaction::Raw(Vec::new()),
            "FEAT" => Reaction::say("211-features\r\n MLST type*;size*;\r\n PARALLEL\r\n211 end"),
            "RETR" => {
                let faults = faults(path);
                silent.store(faults.unreachable == Some(""), Ordering::Relaxed);
                Reaction::Extended(Box::new(faults.reaction()))
            }
            "MLSD" if path == "/" && faults(path).unreachable.is_some() => faults(path).reaction(),
            "MODE" | "MLST" | "MLSD" => Reaction::Execute,
            "ABOR" | "SIZE" | "MDTM" | "CWD" | "LIST" => Reaction::say("500 no"),
            _ => Reaction::Usual,
        }
    })?;
    server.file("/file", "abcdef");
    for name in names {
        server.file(&format!("/dir/{name}"), "abcdef");
    }
    Ok(server)
}

/// Fetches one file of six bytes from such a server.
fn fetch(faults: Faults, flags: &[&str]) -> Result<(Tree, Finished)> {
    let tree = Tree::new()?;
    let url = serve(&[], move |_| faults.clone())?.url("file");
    let flags = [&["--retries", "0", "--timeout", "8"], flags, &[&url, "out"]].concat();
    let finished = cp_in(&tree, &flags)?;
    Ok((tree, finished))
}

/// Checks that such a server makes the copy fail, and that it leaves no file.
fn refused(conns: Vec<Vec<u8>>, then: Reaction) -> Result<String> {
    let faults = Faults {
        conns,
        then,
        unreachable: None,
    };
    let (tree, finished) = fetch(faults, &[])?;
    fails(&finished, 1, &["/file"])?;
    ensure!(tree.names("")?.is_empty(), "{:?}", tree.names("")?);
    Ok(finished.stderr)
}

fn taken(conns: Vec<Vec<u8>>) -> Result<()> {
    let faults = Faults {
        conns,
        ..Faults::default()
    };
    let (tree, finished) = fetch(faults, &[])?;
    finished.ok()?;
    ensure!(std::fs::read(tree.path("out"))? == b"abcdef");
    Ok(())
}

#[test]
fn blocks_may_arrive_in_any_order_on_any_connection() -> Result<()> {
    taken(vec![
        [data(4, b"ef"), block(EOD, 2, 0, b"ab")].concat(),
        [data(2, b"cd"), end(2)].concat(),
    ])?;
    // Bytes may repeat.
    taken(vec![[data(0, b"abcd"), data(2, b"cdef"), end(1)].concat()])
}

#[test]
fn wrong_end_of_data_counts_are_an_error() -> Result<()> {
    let first = [data(0, b"abc"), block(EOD | CLOSE, 0, 0, b"")].concat();
    // One too few announced.
    refused(
        vec![[data(0, b"abc"), end(1)].concat(), Vec::new()],
        Reaction::Usual,
    )?;
    // One too many announced, followed by the end or by silence.
    for then in [Reaction::Usual, Reaction::Hold] {
        refused(
            vec![first.clone(), [data(3, b"def"), end(3)].concat()],
            then,
        )?;
    }
    refused(
        vec![[data(0, b"abcdef"), end(u64::MAX)].concat()],
        Reaction::Hold,
    )?;
    Ok(())
}

#[test]
fn gaps_and_surplus_bytes_are_an_error() -> Result<()> {
    for blocks in [
        [data(0, b"ab"), data(3, b"def"), end(1)].concat(),
        [data(1, b"bcdef"), end(1)].concat(),
        [data(0, b"abcdefg"), end(1)].concat(),
        [data(0, b"abcdef"), data(1 << 40, b"x"), end(1)].concat(),
    ] {
        refused(vec![blocks], Reaction::Usual)?;
    }
    Ok(())
}

#[test]
fn blocks_of_impossible_length_are_refused() -> Result<()> {
    for (count, offset) in [(1 << 63, 0), (u64::MAX, 0), (6, u64::MAX - 2)] {
        refused(
            vec![[block(0, count, offset, b"abcdef"), end(1)].concat()],
            Reaction::Hold,
        )?;
    }
    Ok(())
}

#[test]
fn a_connection_that_ends_within_a_block_is_an_error() -> Result<()> {
    for then in [Reaction::Usual, Reaction::Reset(RESET.to_owned())] {
        let said = refused(vec![block(0, 6, 0, b"abc")], then.clone())?;
        ensure!(!said.contains("firewall"), "{said}");
        refused(vec![data(0, b"abcdef")], then)?;
    }
    Ok(())
}

#[test]
fn a_server_that_cannot_connect_to_the_client_is_used_in_mode_s() -> Result<()> {
    for reply in ["425 cannot connect", "500 Unable to connect to it", ""] {
        let faults = Faults {
            unreachable: Some(reply),
            ..Faults::default()
        };
        let (tree, finished) = fetch(faults.clone(), &["-v"])?;
        let said = finished.ok()?.stderr;
        ensure!(said.contains("using MODE S"), "{said}");
        ensure!(std::fs::read(tree.path("out"))? == b"abcdef");
        let silent = reply.is_empty();
        ensure!(said.contains("has not connected to us") == silent, "{said}");
        let (tree, finished) = fetch(faults, &["--mode", "extended"])?;
        fails(&finished, 2, &["--mode stream"])?;
        ensure!(silent || finished.stderr.contains("a firewall may stand between"));
        ensure!(tree.names("")?.is_empty());
    }
    Ok(())
}

/// A server may be silent while it fetches a file from tape, and lack a free port only for a
/// moment. A listing in MODE E shows that it can connect.
#[test]
fn a_server_that_is_slow_or_busy_stays_in_mode_e() -> Result<()> {
    for reply in ["", "425 no port is free"] {
        let times = AtomicUsize::new(0);
        let files = move |name: &str| Faults {
            conns: vec![[data(0, b"in <E>"), end(1)].concat()],
            unreachable: (name != "/" && times.fetch_add(1, Ordering::Relaxed) == 0)
                .then_some(reply),
            ..Faults::default()
        };
        let tree = Tree::new()?;
        let url = serve(&[], files)?.url("file");
        let flags = ["-v", "--retries", "0", "--timeout", "30", &url, "out"];
        let said = cp_in(&tree, &flags)?.ok()?.stderr;
        ensure!(!said.contains("MODE S"), "{reply}: {said}");
        ensure!(std::fs::read(tree.path("out"))? == b"in <E>", "{said}");
    }
    Ok(())
}

#[test]
fn a_failed_download_does_not_mix_up_the_others() -> Result<()> {
    let names: Vec<String> = (0..40).map(|n| format!("{n:02}")).collect();
    let content = |name: &str| format!("<{}>..", &name[name.len() - 2..]).into_bytes();
    for breaks in [false, true] {
        let times = AtomicUsize::new(0);
        let files = move |name: &str| {
            let whole = content(name);
            let mut faults = Faults {
                conns: vec![[data(0, &whole), end(1)].concat()],
                ..Faults::default()
            };
            if name.ends_with("20") && !breaks {
                faults.unreachable = Some("550 not this one");
            } else if name.ends_with("20") && times.fetch_add(1, Ordering::Relaxed) == 0 {
                faults = Faults {
                    conns: vec![block(0, 6, 0, b"zzz")],
                    then: Reaction::Reset(RESET.to_owned()),
                    ..Faults::default()
                };
            }
            faults
        };
        let tree = Tree::new()?;
        let url = serve(&names, files)?.url("dir");
        let finished = cp_in(&tree, &["-r", "-j", "1", "--timeout", "10", &url, "."])?;
        if breaks {
            finished.ok()?;
        } else {
            fails(&finished, 1, &["/dir/20", "not this one"])?;
        }
        for name in &names {
            let got = std::fs::read(tree.path(&format!("dir/{name}"))).ok();
            let want = (breaks || name != "20").then(|| content(name));
            ensure!(got == want, "{name}: {got:?}");
        }
        ensure!(tree.names("dir")?.len() == names.len() - usize::from(!breaks));
    }
    Ok(())
}

/// The source announces a file and does not send it, so the destination waits for its data.
#[test]
fn a_failed_third_party_copy_does_not_mix_up_the_others() -> Result<()> {
    let names: Vec<String> = (0..10).map(|n| format!("{n:02}")).collect();
    let content = |name: &str| format!("<{}>..", &name[name.len() - 2..]).into_bytes();
    let times = AtomicUsize::new(0);
    let files = move |name: &str| {
        let whole = content(name);
        let first = name.ends_with("03") && times.fetch_add(1, Ordering::Relaxed) == 0;
        Faults {
            conns: vec![[data(0, &whole), end(1)].concat()],
            unreachable: first.then_some("150 coming\r\n425 no way to it"),
            ..Faults::default()
        }
    };
    let (here, there) = (Tree::new()?, Tree::new()?);
    // The destination waits this long for data that does not come.
    let server = Host::ours_with(there.root(), &["--connect-timeout", "3"])?;
    let from = serve(&names, files)?.url("dir");
    let flags = ["-r", "-j", "1", "--debug", &from, &server.url("")];
    let finished = cp_in(&here, &flags)?.ok()?;
    for name in &names {
        let got = std::fs::read(there.path(&format!("dir/{name}"))).ok();
        ensure!(
            got == Some(content(name)),
            "{name}: {got:?}: {}",
            finished.report()
        );
    }
    Ok(())
}
