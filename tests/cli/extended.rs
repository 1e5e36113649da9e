//! Servers that lie in MODE E: wrong end-of-data counts, gaps, overlaps, resets, and those that cannot reach us.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};
use rustix::net::sockopt::set_socket_linger;
use workspace_tests::{Finished, Host, Tree};

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

/// What the server does with the connections it makes for a file.
#[derive(Clone, Default)]
struct Lies {
    /// What each data connection carries.
    conns: Vec<Vec<u8>>,
    /// Whether the connections are reset after that, in the place of being closed.
    reset: bool,
    /// Whether they stay open after that, and no final reply comes.
    hang: bool,
    /// The reply to every `RETR` and listing of the root in MODE E that makes no connection; an empty one is none at all.
    unreachable: Option<&'static str>,
}

/// What one session is asked to do with a file, by its name.
type Files = dyn Fn(&str) -> Lies + Send + Sync;

/// Serves `abcdef` in MODE S, and what `files` says in MODE E, until the test's process ends.
fn serve(listing: Vec<u8>, files: Arc<Files>) -> Result<SocketAddr> {
    let door = TcpListener::bind("127.0.0.1:0")?;
    let addr = door.local_addr()?;
    thread::spawn(move || {
        for stream in door.incoming().flatten() {
            let (files, listing) = (Arc::clone(&files), listing.clone());
            thread::spawn(move || {
                // The client may hang up at any time.
                let _ended = session(stream, &listing, &*files);
            });
        }
    });
    Ok(addr)
}

fn session(mut control: TcpStream, listing: &[u8], files: &Files) -> Result<()> {
    control.write_all(b"220 ready\r\n")?;
    let lines = BufReader::new(control.try_clone()?).lines();
    let mut door: Option<TcpListener> = None;
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
                let n: Vec<u8> = rest.split(',').filter_map(|n| n.parse().ok()).collect();
                let [a, b, c, d, high, low] = n[..] else {
                    anyhow::bail!("PORT {rest}")
                };
                let at = (Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low]));
                port = Some(SocketAddr::from(at));
                "200 ok".to_owned()
            }
            "PASV" => {
                let at = TcpListener::bind("127.0.0.1:0")?;
                let port = at.local_addr()?.port();
                door = Some(at);
                format!("227 passive (127,0,0,1,{},{})", port >> 8, port & 255)
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
                let lies = Lies {
                    conns: vec![[data(0, listing), end(1)].concat()],
                    ..Lies::default()
                };
                connect(&mut control, port, &lies)?;
                "226 done".to_owned()
            }
            "RETR" if extended => {
                let lies = files(rest);
                match lies.unreachable {
                    Some("") => continue,
                    Some(reply) => reply.to_owned(),
                    None if port.is_none() => "425 no PORT".to_owned(),
                    None => {
                        let conns = connect(&mut control, port, &lies)?;
                        if lies.hang {
                            open.extend(conns);
                            continue;
                        }
                        if lies.reset {
                            port = None;
                            "426 Connection reset by peer".to_owned()
                        } else {
                            "226 done".to_owned()
                        }
                    }
                }
            }
            "RETR" => {
                let (mut to, _) = door.take().context("no PASV")?.accept()?;
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
    lies: &Lies,
) -> Result<Vec<TcpStream>> {
    let port = port.context("no PORT")?;
    let mut conns = Vec::new();
    for _ in &lies.conns {
        conns.push(TcpStream::connect(port)?);
    }
    control.write_all(b"150 coming\r\n")?;
    for (conn, bytes) in conns.iter_mut().zip(&lies.conns) {
        // A receiver that has seen enough may be gone.
        let _gone = conn.write_all(bytes);
        if lies.reset {
            set_socket_linger(&*conn, Some(std::time::Duration::ZERO))?;
        }
    }
    Ok(conns)
}

/// Fetches one file of six bytes, `abcdef`, from such a server.
fn fetch(lies: Lies, flags: &[&str]) -> Result<(Tree, Finished)> {
    let tree = Tree::new()?;
    let addr = serve(Vec::new(), Arc::new(move |_: &str| lies.clone()))?;
    let url = format!("ftp://{addr}/file");
    let flags = [&["--retries", "0", "--timeout", "8"], flags, &[&url, "out"]].concat();
    let finished = cp_in(&tree, &flags)?;
    Ok((tree, finished))
}

/// Checks that such a server makes the copy fail, and that nothing is left of it.
fn refused(conns: Vec<Vec<u8>>, reset: bool, hang: bool) -> Result<String> {
    let lies = Lies {
        conns,
        reset,
        hang,
        ..Lies::default()
    };
    let (tree, finished) = fetch(lies, &[])?;
    fails(&finished, 1, &["/file"])?;
    ensure!(tree.names("")?.is_empty(), "{:?}", tree.names("")?);
    Ok(finished.stderr)
}

fn taken(conns: Vec<Vec<u8>>) -> Result<()> {
    let lies = Lies {
        conns,
        ..Lies::default()
    };
    let (tree, finished) = fetch(lies, &[])?;
    finished.ok()?;
    ensure!(std::fs::read(tree.path("out"))? == b"abcdef");
    Ok(())
}

#[test]
fn blocks_may_come_in_any_order_on_any_connection() -> Result<()> {
    taken(vec![
        [data(4, b"ef"), block(EOD, 2, 0, b"ab")].concat(),
        [data(2, b"cd"), end(2)].concat(),
    ])?;
    // The same bytes twice do no harm.
    taken(vec![[data(0, b"abcd"), data(2, b"cdef"), end(1)].concat()])
}

#[test]
fn wrong_counts_of_ends_are_not_whole() -> Result<()> {
    let first = [data(0, b"abc"), block(EOD | CLOSE, 0, 0, b"")].concat();
    // Too few announced: what would be lost is missed.
    refused(
        vec![[data(0, b"abc"), end(1)].concat(), Vec::new()],
        false,
        false,
    )?;
    // Too many announced, and then silence or the end.
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
fn gaps_and_surplus_are_not_whole() -> Result<()> {
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
fn blocks_of_impossible_length_are_refused_at_once() -> Result<()> {
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
fn a_connection_that_ends_within_a_block_is_not_the_end() -> Result<()> {
    for reset in [false, true] {
        let said = refused(vec![block(0, 6, 0, b"abc")], reset, false)?;
        ensure!(!said.contains("firewall"), "{said}");
        refused(vec![data(0, b"abcdef")], reset, false)?;
    }
    Ok(())
}

#[test]
fn a_server_that_does_not_reach_us_is_used_in_mode_s() -> Result<()> {
    for reply in ["425 cannot connect", "500 Unable to connect to it", ""] {
        let lies = Lies {
            unreachable: Some(reply),
            ..Lies::default()
        };
        let (tree, finished) = fetch(lies.clone(), &["-v"])?;
        let said = finished.ok()?.stderr;
        ensure!(said.contains("using MODE S"), "{said}");
        ensure!(std::fs::read(tree.path("out"))? == b"abcdef");
        let silent = reply.is_empty();
        ensure!(said.contains("has not connected to us") == silent, "{said}");
        let (tree, finished) = fetch(lies, &["--mode", "extended"])?;
        fails(&finished, 2, &["--mode stream"])?;
        ensure!(silent || finished.stderr.contains("a firewall may stand between"));
        ensure!(tree.names("")?.is_empty());
    }
    Ok(())
}

/// A file that comes from a tape keeps its server silent, and a port may be free a moment later; a listing tells.
#[test]
fn a_server_that_is_slow_or_busy_stays_in_mode_e() -> Result<()> {
    for reply in ["", "425 no port is free"] {
        let times = AtomicUsize::new(0);
        let files = move |name: &str| Lies {
            conns: vec![[data(0, b"in <E>"), end(1)].concat()],
            unreachable: (name != "/" && times.fetch_add(1, Ordering::Relaxed) == 0)
                .then_some(reply),
            ..Lies::default()
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
fn a_file_that_fails_among_downloads_shifts_no_other() -> Result<()> {
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
            let mut lies = Lies {
                conns: vec![[data(0, &whole), end(1)].concat()],
                ..Lies::default()
            };
            if name.ends_with("20") && !breaks {
                lies.unreachable = Some("550 not this one");
            } else if name.ends_with("20") && times.fetch_add(1, Ordering::Relaxed) == 0 {
                lies = Lies {
                    conns: vec![block(0, 6, 0, b"zzz")],
                    reset: true,
                    ..Lies::default()
                };
            }
            lies
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

/// The destination takes for a file that the source announces and does not send the data of the next.
#[test]
fn a_file_that_does_not_come_between_servers_shifts_no_other() -> Result<()> {
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
        Lies {
            conns: vec![[data(0, &whole), end(1)].concat()],
            unreachable: first.then_some("150 coming\r\n425 no way to it"),
            ..Lies::default()
        }
    };
    let (here, there) = (Tree::new()?, Tree::new()?);
    // The last one waits in vain.
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
