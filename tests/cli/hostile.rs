//! Servers that lie: names that lead out of the target, wrong sizes and addresses, floods, silence.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use workspace_tests::{Finished, Tree};

use crate::{Bed, cp_in, fails};

/// What the server says and sends; everything else is ordinary.
#[derive(Clone, Default)]
struct Lies {
    /// Sent in the place of the ordinary greeting.
    greeting: Option<Vec<u8>>,
    /// Lines of every directory listing.
    listing: Vec<u8>,
    /// Data of every file.
    data: Vec<u8>,
    /// Size that `MLST` gives.
    size: u64,
    /// What else `MLST` says of a file.
    facts: &'static str,
    /// Address in the reply to `PASV`, in the place of the server's.
    address: Option<Ipv4Addr>,
    /// Final reply of a transfer, in the place of 226.
    end: Option<&'static str>,
    /// Whether nobody listens at its data ports.
    shut: bool,
    /// Digest that `CKSM` gives.
    digest: &'static str,
    /// Whether it knows neither `MLST` nor `MLSD`.
    plain: bool,
    /// Whether its next listing breaks off within the last line.
    torn: Arc<AtomicBool>,
    /// Whether it hangs up when the next directory is to be made.
    hangs_up: Arc<AtomicBool>,
    /// Whether it says late, when another session may have parted, that no directory can be made.
    late: Option<Parting>,
}

/// Whether a session has parted.
type Parting = Arc<(Mutex<bool>, Condvar)>;

/// Longest time for a session to part that must not.
const LATE: Duration = Duration::from_millis(500);

/// Serves in MODE S only, a thread each session, until the test's process ends.
fn serve(lies: Lies) -> Result<SocketAddr> {
    let door = TcpListener::bind("127.0.0.1:0")?;
    let addr = door.local_addr()?;
    let lies = Arc::new(lies);
    thread::spawn(move || {
        for stream in door.incoming().flatten() {
            let lies = Arc::clone(&lies);
            thread::spawn(move || {
                // The client may hang up at any time.
                let _ended = session(stream, &lies);
            });
        }
    });
    Ok(addr)
}

fn session(mut control: TcpStream, lies: &Lies) -> Result<()> {
    let greeting = lies
        .greeting
        .clone()
        .unwrap_or_else(|| b"220 ready\r\n".to_vec());
    control.write_all(&greeting)?;
    let lines = BufReader::new(control.try_clone()?).lines();
    let mut data: Option<TcpListener> = None;
    let mut port: Option<SocketAddr> = None;
    for line in lines {
        let line = line?;
        let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let reply = match verb {
            "USER" => "331 password".to_owned(),
            "PASS" => "230 in".to_owned(),
            "FEAT" => "211-features\r\n MLST type*;size*;\r\n SIZE\r\n211 end".to_owned(),
            "TYPE" | "OPTS" | "ALLO" => "200 ok".to_owned(),
            "MODE" if rest == "S" => "200 ok".to_owned(),
            "MLST" | "MLSD" if lies.plain => "500 command not understood".to_owned(),
            "MKD" if lies.hangs_up.swap(false, Ordering::Relaxed) => return Ok(()),
            "MKD" | "MLST" if rest.ends_with("void") => "550 cannot".to_owned(),
            "SIZE" if !rest.ends_with("dir") => format!("213 {}", lies.size),
            "CWD" if rest.ends_with("dir") => "250 there".to_owned(),
            "MLST" if rest.ends_with("dir") => format!("250-facts\r\n type=dir; {rest}\r\n250 end"),
            "MLST" => format!(
                "250-facts\r\n type=file;size={};{} {rest}\r\n250 end",
                lies.size, lies.facts
            ),
            "CKSM" => format!("213 {}", lies.digest),
            "PORT" => {
                let [high, low] = [4, 5].map(|at| rest.split(',').nth(at).unwrap_or_default());
                let [high, low] = [high.parse::<u16>()?, low.parse()?];
                port = Some((Ipv4Addr::LOCALHOST, high << 8 | low).into());
                "200 ok".to_owned()
            }
            "PASV" => {
                let door = TcpListener::bind("127.0.0.1:0")?;
                let port = door.local_addr()?.port();
                data = (!lies.shut).then_some(door);
                let [a, b, c, d] = lies.address.unwrap_or(Ipv4Addr::LOCALHOST).octets();
                format!("227 passive ({a},{b},{c},{d},{},{})", port >> 8, port & 255)
            }
            "MLSD" if lies.torn.swap(false, Ordering::Relaxed) => {
                let (mut to, _) = data.take().context("no PASV")?.accept()?;
                control.write_all(b"150 coming\r\n")?;
                let (most, _) = lies.listing.split_at(lies.listing.len() - 5);
                to.write_all(most)?;
                "426 broken off".to_owned()
            }
            "RETR" if lies.shut => lies.end.unwrap_or("425 no connection").to_owned(),
            "RETR" | "MLSD" => {
                let mut to = match port.take() {
                    Some(at) => TcpStream::connect(at)?,
                    None => data.take().context("no PASV")?.accept()?.0,
                };
                control.write_all(b"150 coming\r\n")?;
                to.write_all(if verb == "MLSD" {
                    &lies.listing
                } else {
                    &lies.data
                })?;
                drop(to);
                lies.end.unwrap_or("226 done").to_owned()
            }
            "MKD" if let Some(parting) = &lies.late => {
                let (parted, told) = &**parting;
                let parted = parted.lock().map_err(|_| anyhow!("a session failed"))?;
                drop(told.wait_timeout_while(parted, LATE, |parted| !*parted));
                "553 a file is there".to_owned()
            }
            "QUIT" => {
                if let Some((parted, told)) = lies.late.as_deref() {
                    *parted.lock().map_err(|_| anyhow!("a session failed"))? = true;
                    told.notify_all();
                }
                "221 bye".to_owned()
            }
            _ => "500 no".to_owned(),
        };
        control.write_all(format!("{reply}\r\n").as_bytes())?;
    }
    Ok(())
}

/// Copies `path` from such a server into a directory within a tree, and returns both.
fn fetch(lies: Lies, path: &str, flags: &[&str]) -> Result<(Tree, Finished)> {
    let tree = Tree::new()?;
    tree.dir("in")?;
    let url = format!("ftp://{}/{path}", serve(lies)?);
    let finished = cp_in(
        &tree,
        &[
            &["--retries", "0", "--timeout", "20"],
            flags,
            &[&url, "in/"],
        ]
        .concat(),
    )?;
    Ok((tree, finished))
}

#[test]
fn names_that_lead_out_of_the_target_are_refused() -> Result<()> {
    let mut listing = b"type=cdir; .\r\ntype=pdir; ..\r\n".to_vec();
    for name in [
        "../out",
        "a/b",
        "/etc/out",
        "..",
        "sub/../../out",
        "nul\0l",
        ".",
    ] {
        listing.extend_from_slice(format!("type=file;size=3; {name}\r\n").as_bytes());
    }
    listing.extend_from_slice(b"type=dir; ../outdir\r\ntype=file;size=3; good\r\n");
    let lies = Lies {
        listing,
        data: b"abc".to_vec(),
        size: 3,
        ..Lies::default()
    };
    let (tree, finished) = fetch(lies, "dir", &["-r"])?;
    fails(&finished, 1, &["../out", "slash"])?;
    ensure!(tree.names("")? == ["in/dir/good"], "{:?}", tree.names("")?);
    Ok(())
}

#[test]
fn escape_codes_in_names_never_reach_the_terminal() -> Result<()> {
    let listing = b"type=file;size=3; a\x1b[2Jb\r\ntype=file;size=3; c\x1b]0;d/e\x07\r\n".to_vec();
    let lies = Lies {
        listing,
        data: b"abc".to_vec(),
        size: 3,
        ..Lies::default()
    };
    let (tree, finished) = fetch(lies.clone(), "dir", &["-r", "-v"])?;
    ensure!(
        !finished.report().contains('\u{1b}'),
        "{}",
        finished.report().escape_debug()
    );
    ensure!(tree.names("")?.len() == 1);
    let url = format!("ftp://{}/dir", serve(lies)?);
    let finished = cp_in(&tree, &["--list", &url])?.ok()?;
    ensure!(!finished.stdout.contains('\u{1b}') && finished.stdout.contains("\\u{1b}"));
    Ok(())
}

/// As of a server that prints bytes of names as `?`.
#[test]
fn two_objects_of_one_name_are_told() -> Result<()> {
    let listing = b"type=file;size=3;unique=1-1; a?b\r\ntype=file;size=3;unique=1-2; a?b\r\n\
        type=file;size=3;unique=1-3; c \r\n";
    let lies = Lies {
        listing: listing.to_vec(),
        data: b"abc".to_vec(),
        size: 3,
        ..Lies::default()
    };
    let (tree, finished) = fetch(lies, "dir", &["-r"])?;
    fails(&finished, 1, &["a%3Fb", "two objects", "rename"])?;
    ensure!(
        tree.names("")? == ["in/dir/a?b", "in/dir/c "],
        "{}",
        finished.report()
    );
    Ok(())
}

#[test]
fn a_directory_that_contains_itself_ends() -> Result<()> {
    // Without the fact Unique only the depth can tell.
    let lies = Lies {
        listing: b"type=cdir; .\r\ntype=dir; dir\r\n".to_vec(),
        ..Lies::default()
    };
    let (_, finished) = fetch(lies, "dir", &["-r", "--dry-run"])?;
    fails(&finished, 1, &["leads back"])?;
    let listing = b"type=cdir;unique=1-1; .\r\ntype=dir;unique=1-1; dir\r\n".to_vec();
    let (_, finished) = fetch(
        Lies {
            listing,
            ..Lies::default()
        },
        "dir",
        &["-r"],
    )?;
    fails(&finished, 1, &["leads back"])
}

#[test]
fn too_little_and_too_much_are_not_whole() -> Result<()> {
    for size in [2, 4] {
        let lies = Lies {
            data: b"abc".to_vec(),
            size,
            ..Lies::default()
        };
        let (tree, finished) = fetch(lies, "file", &[])?;
        fails(&finished, 1, &["3 bytes came", "copy again"])?;
        ensure!(tree.names("")?.is_empty(), "{:?}", tree.names("")?);
    }
    Ok(())
}

#[test]
fn all_bytes_without_a_226_are_not_whole() -> Result<()> {
    let lies = Lies {
        data: b"abc".to_vec(),
        size: 3,
        end: Some("451 read error"),
        ..Lies::default()
    };
    let (tree, finished) = fetch(lies, "file", &[])?;
    fails(&finished, 1, &["451 read error"])?;
    ensure!(tree.names("")?.is_empty(), "{:?}", tree.names("")?);
    Ok(())
}

#[test]
fn a_file_that_is_refused_is_not_asked_for_again_although_its_data_port_is_shut() -> Result<()> {
    let lies = Lies {
        size: 3,
        end: Some("550 not for you"),
        shut: true,
        ..Lies::default()
    };
    let tree = Tree::new()?;
    let url = format!("ftp://{}/file", serve(lies)?);
    let finished = cp_in(&tree, &["--retries", "1", &url, "file"])?;
    fails(&finished, 1, &["550 not for you"])?;
    ensure!(!finished.stderr.contains("retry"), "{}", finished.report());
    Ok(())
}

#[test]
fn a_digest_that_differs_keeps_the_file_from_its_name() -> Result<()> {
    let lies = Lies {
        data: b"abc".to_vec(),
        size: 3,
        digest: "0123456789abcdef0123456789abcdef",
        ..Lies::default()
    };
    let (tree, finished) = fetch(lies.clone(), "file", &["--verify=md5"])?;
    fails(&finished, 5, &["MD5", "0123456789abcdef", "do not use"])?;
    ensure!(tree.names("")?.is_empty(), "{:?}", tree.names("")?);
    let lies = Lies {
        digest: "900150983cd24fb0d6963f7d28e17f72",
        ..lies
    };
    fetch(lies, "file", &["--verify=md5"])?.1.ok().map(drop)
}

#[test]
fn another_address_in_the_reply_to_pasv_is_not_followed() -> Result<()> {
    for address in [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::UNSPECIFIED] {
        let lies = Lies {
            data: b"abc".to_vec(),
            size: 3,
            address: Some(address),
            ..Lies::default()
        };
        let (tree, finished) = fetch(lies, "file", &["-v"])?;
        finished.ok()?;
        ensure!(tree.names("")? == ["in/file"]);
    }
    Ok(())
}

#[test]
fn what_is_no_ftp_server_is_said_so() -> Result<()> {
    let flood = vec![b'x'; 8 << 20];
    let endless = [b"220-more\r\n".repeat(1 << 20), b"220 end\r\n".to_vec()].concat();
    for greeting in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"\0\xff\xfe\r\n",
        &flood,
        &endless,
    ] {
        let lies = Lies {
            greeting: Some(greeting.to_vec()),
            ..Lies::default()
        };
        let (_, finished) = fetch(lies, "file", &[])?;
        fails(&finished, 3, &["connect"])?;
    }
    let lies = Lies {
        greeting: Some(b"421 too many users\r\n".to_vec()),
        ..Lies::default()
    };
    fails(&fetch(lies, "file", &[])?.1, 3, &["421 too many users"])
}

#[test]
fn a_silent_server_is_given_up() -> Result<()> {
    let lies = Lies {
        greeting: Some(Vec::new()),
        ..Lies::default()
    };
    let tree = Tree::new()?;
    let url = format!("ftp://{}/file", serve(lies)?);
    let finished = cp_in(&tree, &["--retries", "0", "--timeout", "1", &url, "x"])?;
    fails(&finished, 3, &["connect", "in time"])
}

#[test]
fn a_listing_without_facts_is_an_error() -> Result<()> {
    let lies = Lies {
        listing: b"-rw-r--r-- 1 a a 3 Jan 1 00:00 file\r\n".to_vec(),
        ..Lies::default()
    };
    let (_, finished) = fetch(lies, "dir", &["-r"])?;
    fails(&finished, 1, &["list"])
}

#[test]
fn a_server_without_machine_listings_is_told_so() -> Result<()> {
    let lies = Lies {
        plain: true,
        data: b"abc".to_vec(),
        size: 3,
        ..Lies::default()
    };
    let (_, finished) = fetch(lies.clone(), "dir", &["-r"])?;
    fails(&finished, 1, &["LIST", "name each file"])?;
    let (tree, finished) = fetch(lies.clone(), "file", &[])?;
    finished.ok()?;
    ensure!(tree.names("")? == ["in/file"]);
    // What is there is not overwritten, although MLST does not tell of it.
    tree.file("up", 3, 1)?;
    let url = format!("ftp://{}/file", serve(lies)?);
    let finished = cp_in(&tree, &["-n", "-v", "up", &url])?.ok()?;
    ensure!(
        finished.stdout.contains("it exists"),
        "{}",
        finished.report()
    );
    Ok(())
}

#[test]
fn modes_from_a_server_never_give_rights() -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let lies = Lies {
        listing: b"type=file;size=3;UNIX.mode=06755; tool\r\n".to_vec(),
        data: b"abc".to_vec(),
        size: 3,
        ..Lies::default()
    };
    let (tree, finished) = fetch(lies, "dir", &["-r", "--preserve"])?;
    finished.ok()?;
    let mode = std::fs::metadata(tree.path("in/dir/tool"))?
        .permissions()
        .mode();
    ensure!(mode & 0o7777 == 0o755, "{mode:o}");
    Ok(())
}

#[test]
fn what_is_carried_over_is_what_was_read_and_not_what_was_listed() -> Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let lies = Lies {
        listing: b"type=file;size=2;modify=20010101000000;UNIX.mode=0600; file\r\n".to_vec(),
        data: b"abc".to_vec(),
        size: 3,
        facts: "modify=20200202020202;UNIX.mode=0640;",
        ..Lies::default()
    };
    let bed = Bed::new()?;
    let from = format!("ftp://{}/dir/", serve(lies)?);
    for (to, file) in [
        ("down/".to_owned(), bed.here.path("down/file")),
        (bed.url("over/"), bed.there.path("over/file")),
    ] {
        bed.cp(&["-r", "--preserve", "--retries", "0", &from, &to])?
            .ok()?;
        let meta = std::fs::metadata(file)?;
        let (time, mode) = (meta.mtime(), meta.mode() & 0o7777);
        ensure!((time, mode) == (1_580_608_922, 0o640), "{time}, {mode:o}");
    }
    Ok(())
}

/// Its server has none of the commands that set times and modes.
#[test]
fn directories_that_keep_their_new_times_are_told() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.dir("up/dir")?;
    bed.there.dir("up/dir")?;
    for from in ["up/", &bed.url("up/")] {
        let url = format!("ftp://{}/dir", serve(Lies::default())?);
        bed.cp(&["-r", from, &url])?.ok()?;
        let finished = bed.cp(&["-r", "--preserve", from, &url])?;
        fails(&finished, 1, &["up/dir: failed:", "500 no"])?;
    }
    Ok(())
}

#[test]
fn a_reply_as_large_as_a_book_is_cut_in_errors() -> Result<()> {
    let flood = [b"220-more\r\n".repeat(1000), b"220 end\r\n".to_vec()].concat();
    let refusal = [b"421-no ".repeat(100_000), b"\r\n421 end\r\n".to_vec()].concat();
    for greeting in [flood, refusal] {
        let lies = Lies {
            greeting: Some(greeting),
            data: b"abc".to_vec(),
            size: 4,
            ..Lies::default()
        };
        let (_, finished) = fetch(lies, "file", &[])?;
        ensure!(finished.stderr.len() < 3000, "{}", finished.stderr.len());
    }
    Ok(())
}

#[test]
fn a_mode_that_was_asked_for_is_not_replaced_in_silence() -> Result<()> {
    let lies = Lies {
        data: b"abc".to_vec(),
        size: 3,
        ..Lies::default()
    };
    let (tree, finished) = fetch(lies, "file", &["--mode", "extended"])?;
    fails(&finished, 3, &["MODE E", "--mode stream"])?;
    ensure!(tree.names("")?.is_empty());
    Ok(())
}

#[test]
fn names_that_a_server_would_maim_are_refused() -> Result<()> {
    let greeting = "220 vm GridFTP Server 13.24 (gcc64, 1) [Grid Community Toolkit 6.2] ready.\r\n";
    let lies = Lies {
        greeting: Some(greeting.into()),
        listing: "type=file;size=3; ü\r\ntype=file;size=3; u\r\ntype=dir; é\r\n".into(),
        data: b"abc".to_vec(),
        size: 3,
        ..Lies::default()
    };
    let (tree, finished) = fetch(lies.clone(), "dir", &["-r"])?;
    fails(&finished, 1, &["ü", "é", "no command to this server"])?;
    ensure!(tree.names("")? == ["in/dir/u"], "{:?}", tree.names("")?);
    tree.file("up/ä", 3, 1)?;
    tree.dir("empty/ö")?;
    let bed = Bed::new()?;
    bed.there.dir("empty/ö")?;
    for name in ["up", "empty", &bed.url("empty")] {
        let url = format!("ftp://{}/dir", serve(lies.clone())?);
        let finished = cp_in(&tree, &["-r", name, &url])?;
        fails(&finished, 1, &["no command to this server"])?;
    }
    Ok(())
}

#[test]
fn half_a_line_of_a_listing_names_no_file() -> Result<()> {
    let lies = Lies {
        listing: b"type=file;size=3; good\r\ntype=file;size=3; better\r\n".to_vec(),
        torn: Arc::new(AtomicBool::new(true)),
        data: b"abc".to_vec(),
        size: 3,
        ..Lies::default()
    };
    let tree = Tree::new()?;
    let url = format!("ftp://{}/dir", serve(lies.clone())?);
    let finished = cp_in(&tree, &["-r", &url, "in/"])?.ok()?;
    let names = tree.names("")?;
    ensure!(
        names == ["in/dir/better", "in/dir/good"],
        "{names:?} of {}",
        finished.report()
    );
    lies.torn.store(true, Ordering::Relaxed);
    let finished = cp_in(&tree, &["--list", &url])?;
    fails(&finished, 1, &["426 broken off"])?;
    ensure!(!finished.stdout.contains("bet"), "{}", finished.report());
    Ok(())
}

#[test]
fn a_directory_that_is_not_there_although_no_cause_is_named_is_told() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.dir("up/void")?;
    bed.there.dir("up/void")?;
    for from in ["up/", &bed.url("up/")] {
        let url = format!("ftp://{}/dir", serve(Lies::default())?);
        let finished = bed.cp(&["-r", from, &url])?;
        fails(&finished, 1, &["void", "550 cannot"])?;
    }
    Ok(())
}

/// Nothing but directories is left to do.
#[test]
fn a_session_that_ends_over_a_directory_is_replaced() -> Result<()> {
    let bed = Bed::new()?;
    for tree in [&bed.here, &bed.there] {
        tree.dir("up/adir")?;
        tree.dir("up/bdir")?;
    }
    for from in ["up/", &bed.url("up/")] {
        let lies = Lies {
            hangs_up: Arc::new(AtomicBool::new(true)),
            ..Lies::default()
        };
        let url = format!("ftp://{}/dir", serve(lies.clone())?);
        bed.cp(&["-r", from, &url])?.ok()?;
        ensure!(!lies.hangs_up.load(Ordering::Relaxed));
    }
    Ok(())
}

/// Nothing else is left to do when the server's word on the directory comes.
#[test]
fn a_directory_that_is_refused_last_of_all_is_told() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.dir("from/empty")?;
    let lies = Lies {
        late: Some(Parting::default()),
        ..Lies::default()
    };
    let url = format!("ftp://{}/dir", serve(lies)?);
    let finished = bed.cp(&["-r", "--preserve", &bed.url("from/"), &url])?;
    fails(&finished, 1, &["empty", "a file is there"])?;
    let told = finished
        .stderr
        .lines()
        .filter(|line| line.contains("empty"));
    ensure!(told.count() == 1, "not once: {}", finished.report());
    Ok(())
}
