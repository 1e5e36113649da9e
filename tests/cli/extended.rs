//! Servers with faults in MODE E: end-of-data counts, gaps, overlaps, resets, unreachable clients.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use rustix::net::sockopt::set_socket_linger;
use workspace_tests::{Finished, Host, Tree, host_port, passive, serve_sessions};

use crate::{cp_in, fails};

const EOF: u8 = 0x40;
const EOD: u8 = 0x08;
const CLOSE: u8 = 0x04;

/// One block of MODE E.
fn block(flags: u8, count: u64, offset: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![flags];
    out.extend(count.to_be_bytes());
    out.extend(offset.to_be_bytes());
    out.extend(payload);
    out
}

fn data(offset: u64, payload: &[u8]) -> Vec<u8> {
    block(0, payload.len() as u64, offset, payload)
}

fn end(eods: u64) -> Vec<u8> {
    block(EOF | EOD | CLOSE, 0, eods, b"")
}

/// Behaviour of the server's data connections for one file.
#[derive(Clone, Default)]
struct Faults {
    /// Bytes on each data connection.
    conns: Vec<Vec<u8>>,
    /// Resets the connections after their bytes instead of closing them.
    reset: bool,
    /// Keeps the connections open after their bytes, and sends no final reply.
    hang: bool,
    /// Reply to every `RETR` and listing of the root in MODE E, without a connection; empty for
    /// none.
    unreachable: Option<&'static str>,
}

/// Returns the faults for a file name.
type Files = dyn Fn(&str) -> Faults + Send + Sync;

/// Serves `abcdef` in MODE S, and the bytes of `files` in MODE E.
fn serve(listing: Vec<u8>, files: Arc<Files>) -> Result<SocketAddr> {
    serve_sessions(move |control| session(control, &listing, &*files))
}

fn session(mut control: TcpStream, listing: &[u8], files: &Files) -> Result<()> {
    control.write_all(b"220 ready\r\n")?;
    let lines = BufReader::new(control.try_clone()?).lines();
    let mut listener: Option<TcpListener> = None;
    let mut port = None;
    let mut extended = false;
    let mut open = Vec::new();
    for line in lines {
        let line = line?;
        let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let reply = match verb {
            "USER" => "331 password".to_owned(),
            "PASS" => "230 in".to_owned(),
            "FEAT" => "211-features\r\n MLST type*;size*;\r\n PARALLEL\r\n211 end".to_owned(),
            "MODE" => {
                extended = rest == "E";
                "200 ok".to_owned()
            }
            "TYPE" | "OPTS" | "REST" => "200 ok".to_owned(),
            "PORT" => {
                port = host_port(rest);
                "200 ok".to_owned()
            }
            "PASV" => {
                let (bound, reply) = passive(Ipv4Addr::LOCALHOST)?;
                listener = Some(bound);
                reply
            }
            "MLST" if rest.ends_with("dir") => format!("250-facts\r\n type=dir; {rest}\r\n250 end"),
            "MLST" => format!("250-facts\r\n type=file;size=6; {rest}\r\n250 end"),
            "MLSD" if rest == "/" && files(rest).unreachable.is_some() => {
                match files(rest).unreachable.unwrap_or_default() {
                    "" => continue,
                    reply => reply.to_owned(),
                }
            }
            "MLSD" if extended => {
                let faults = Faults {
                    conns: vec![[data(0, listing), end(1)].concat()],
                    ..Faults::default()
                };
                connect(&mut control, port, &faults)?;
                "226 done".to_owned()
            }
            "RETR" if extended => {
                let faults = files(rest);
                match faults.unreachable {
                    Some("") => continue,
                    Some(reply) => reply.to_owned(),
                    None if port.is_none() => "425 no PORT".to_owned(),
                    None => {
                        let conns = connect(&mut control, port, &faults)?;
                        if faults.hang {
                            open.extend(conns);
                            continue;
                        }
                        if faults.reset {
                            port = None;
                            "426 Connection reset by peer".to_owned()
                        } else {
                            "226 done".to_owned()
                        }
                    }
                }
            }
            "RETR" => {
                let (mut to, _) = listener.take().context("no PASV")?.accept()?;
                control.write_all(b"150 coming\r\n")?;
                to.write_all(b"abcdef")?;
                "226 done".to_owned()
            }
            "QUIT" => "221 bye".to_owned(),
            _ => "500 no".to_owned(),
        };
        control.write_all(format!("{reply}\r\n").as_bytes())?;
    }
    Ok(())
}

fn connect(
    control: &mut TcpStream,
    port: Option<SocketAddr>,
    faults: &Faults,
) -> Result<Vec<TcpStream>> {
    let port = port.context("no PORT")?;
    let mut conns = Vec::new();
    for _ in &faults.conns {
        conns.push(TcpStream::connect(port)?);
    }
    control.write_all(b"150 coming\r\n")?;
    for (conn, bytes) in conns.iter_mut().zip(&faults.conns) {
        // The receiver may have closed the connection already.
        let _gone = conn.write_all(bytes);
        if faults.reset {
            set_socket_linger(&*conn, Some(std::time::Duration::ZERO))?;
        }
    }
    Ok(conns)
}

/// Fetches one file of six bytes from such a server.
fn fetch(faults: Faults, flags: &[&str]) -> Result<(Tree, Finished)> {
    let tree = Tree::new()?;
    let addr = serve(Vec::new(), Arc::new(move |_: &str| faults.clone()))?;
    let url = format!("ftp://{addr}/file");
    let flags = [&["--retries", "0", "--timeout", "8"], flags, &[&url, "out"]].concat();
    let finished = cp_in(&tree, &flags)?;
    Ok((tree, finished))
}

/// Checks that such a server makes the copy fail, and that it leaves no file.
fn refused(conns: Vec<Vec<u8>>, reset: bool, hang: bool) -> Result<String> {
    let faults = Faults {
        conns,
        reset,
        hang,
        ..Faults::default()
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
        false,
        false,
    )?;
    // One too many announced, followed by the end or by silence.
    for hang in [false, true] {
        refused(
            vec![first.clone(), [data(3, b"def"), end(3)].concat()],
            false,
            hang,
        )?;
    }
    refused(
        vec![[data(0, b"abcdef"), end(u64::MAX)].concat()],
        false,
        true,
    )?;
    Ok(())
}

#[test]
fn gaps_and_surplus_bytes_are_an_error() -> Result<()> {
    refused(
        vec![[data(0, b"ab"), data(3, b"def"), end(1)].concat()],
        false,
        false,
    )?;
    refused(vec![[data(1, b"bcdef"), end(1)].concat()], false, false)?;
    refused(vec![[data(0, b"abcdefg"), end(1)].concat()], false, false)?;
    refused(
        vec![[data(0, b"abcdef"), data(1 << 40, b"x"), end(1)].concat()],
        false,
        false,
    )?;
    Ok(())
}

#[test]
fn blocks_of_impossible_length_are_refused() -> Result<()> {
    for (count, offset) in [(1 << 63, 0), (u64::MAX, 0), (6, u64::MAX - 2)] {
        refused(
            vec![[block(0, count, offset, b"abcdef"), end(1)].concat()],
            false,
            true,
        )?;
    }
    Ok(())
}

#[test]
fn a_connection_that_ends_within_a_block_is_an_error() -> Result<()> {
    for reset in [false, true] {
        let said = refused(vec![block(0, 6, 0, b"abc")], reset, false)?;
        ensure!(!said.contains("firewall"), "{said}");
        refused(vec![data(0, b"abcdef")], reset, false)?;
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
        let url = format!("ftp://{}/file", serve(Vec::new(), Arc::new(files))?);
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
    let mut listing = b"type=cdir; .\r\n".to_vec();
    for name in &names {
        listing.extend(format!("type=file;size=6; {name}\r\n").into_bytes());
    }
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
                    reset: true,
                    ..Faults::default()
                };
            }
            faults
        };
        let tree = Tree::new()?;
        let url = format!("ftp://{}/dir", serve(listing.clone(), Arc::new(files))?);
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
        ensure!(tree.names("")?.len() == names.len() - usize::from(!breaks));
    }
    Ok(())
}

/// The source announces a file and does not send it, so the destination waits for its data.
#[test]
fn a_failed_third_party_copy_does_not_mix_up_the_others() -> Result<()> {
    let names: Vec<String> = (0..10).map(|n| format!("{n:02}")).collect();
    let mut listing = b"type=cdir; .\r\n".to_vec();
    for name in &names {
        listing.extend(format!("type=file;size=6; {name}\r\n").into_bytes());
    }
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
    let from = format!("ftp://{}/dir", serve(listing, Arc::new(files))?);
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
