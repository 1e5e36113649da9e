//! Servers with faults: names outside the target, wrong sizes and addresses, floods, silence.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use workspace_tests::{Finished, Reaction, ScriptedServer, Tree};

use crate::{Bed, cp_in, fails};

/// Deviations of the server from ordinary behaviour.
#[derive(Clone, Default)]
struct Faults {
    /// Greeting in place of the ordinary one.
    greeting: Option<Vec<u8>>,
    /// Lines of every directory listing.
    listing: Vec<u8>,
    /// Data of every file.
    data: Vec<u8>,
    /// Size in the reply to `MLST`.
    size: u64,
    /// Further facts in the reply to `MLST`.
    facts: &'static str,
    /// Address in the reply to `PASV`, in place of the server's.
    address: Option<Ipv4Addr>,
    /// Final reply of a transfer, in place of 226.
    end: Option<&'static str>,
    /// Refuses connections to its data ports.
    shut: bool,
    /// Digest in the reply to `CKSM`.
    digest: &'static str,
    /// Supports neither `MLST` nor `MLSD`.
    plain: bool,
    /// Cuts the next listing within its last line.
    torn: Arc<AtomicBool>,
    /// Closes the session at the next `MKD`.
    hangs_up: Arc<AtomicBool>,
    /// Refuses `MKD` late: when another session has ended, or after [`GRACE`].
    late: Option<SessionEnd>,
}

/// Whether a session has sent `QUIT`.
type SessionEnd = Arc<(Mutex<bool>, Condvar)>;

/// Time in which a session that ends too early would send `QUIT`.
const GRACE: Duration = Duration::from_millis(500);

/// Starts the server, which supports MODE S only.
fn serve(faults: Faults) -> Result<ScriptedServer> {
    Ok(ScriptedServer::start(move |line| faults.reaction(line))?)
}

impl Faults {
    fn reaction(&self, line: &str) -> Reaction {
        let (verb, path) = line.split_once(' ').unwrap_or((line, ""));
        let is_dir = path.ends_with("dir");
        let say = |text: String| Reaction::Say(text);
        match verb {
            "CONNECT" if let Some(greeting) = &self.greeting => Reaction::Raw(greeting.clone()),
            "FEAT" => Reaction::say("211-features\r\n MLST type*;size*;\r\n SIZE\r\n211 end"),
            "MLST" | "MLSD" if self.plain => Reaction::say("500 command not understood"),
            "MKD" if self.hangs_up.swap(false, Ordering::Relaxed) => {
                Reaction::HangUp(String::new())
            }
            "MKD" | "MLST" if path.ends_with("void") => Reaction::say("550 cannot"),
            "SIZE" if !is_dir => say(format!("213 {}", self.size)),
            "CWD" if is_dir => Reaction::say("250 there"),
            "MLST" if is_dir => say(format!("250-facts\r\n type=dir; {path}\r\n250 end")),
            "MLST" => say(format!(
                "250-facts\r\n type=file;size={};{} {path}\r\n250 end",
                self.size, self.facts
            )),
            "CKSM" => say(format!("213 {}", self.digest)),
            "PASV" if self.shut => Reaction::Shut,
            "PASV" if let Some(host) = self.address => Reaction::Announce(host),
            "MLSD" if self.torn.swap(false, Ordering::Relaxed) => Reaction::Send(
                vec![self.listing.split_at(self.listing.len() - 5).0.to_vec()],
                Box::new(Reaction::say("426 broken off")),
            ),
            "RETR" if self.shut => Reaction::say(self.end.unwrap_or("425 no connection")),
            "MLSD" => Reaction::send(&self.listing),
            "RETR" => Reaction::send(&self.data),
            "END" if let Some(end) = self.end => Reaction::say(end),
            "MKD" if let Some(end) = &self.late => {
                let (ended, told) = &**end;
                let ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
                drop(told.wait_timeout_while(ended, GRACE, |ended| !*ended));
                Reaction::say("553 a file is there")
            }
            "QUIT" if let Some((ended, told)) = self.late.as_deref() => {
                *ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
                told.notify_all();
                Reaction::Usual
            }
            "CONNECT" | "MODE" | "PORT" | "PASV" | "USER" | "PASS" | "TYPE" | "OPTS" | "ALLO"
            | "QUIT" | "END" | "MIDWAY" => Reaction::Usual,
            _ => Reaction::say("500 no"),
        }
    }
}

/// Copies `path` from a server with `faults` into the directory `in` of a new tree.
fn fetch(faults: Faults, path: &str, flags: &[&str]) -> Result<(Tree, Finished)> {
    let tree = Tree::new()?;
    tree.dir("in")?;
    let url = serve(faults)?.url(path);
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
fn names_outside_the_target_are_refused() -> Result<()> {
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
    let faults = Faults {
        listing,
        data: b"abc".to_vec(),
        size: 3,
        ..Faults::default()
    };
    let (tree, finished) = fetch(faults, "dir", &["-r"])?;
    fails(&finished, 1, &["../out", "slash"])?;
    ensure!(tree.names("")? == ["in/dir/good"], "{:?}", tree.names("")?);
    Ok(())
}

#[test]
fn escape_codes_in_names_never_reach_the_terminal() -> Result<()> {
    let listing = b"type=file;size=3; a\x1b[2Jb\r\ntype=file;size=3; c\x1b]0;d/e\x07\r\n".to_vec();
    let faults = Faults {
        listing,
        data: b"abc".to_vec(),
        size: 3,
        ..Faults::default()
    };
    let (tree, finished) = fetch(faults.clone(), "dir", &["-r", "-v"])?;
    ensure!(
        !finished.report().contains('\u{1b}'),
        "{}",
        finished.report().escape_debug()
    );
    ensure!(tree.names("")?.len() == 1);
    let url = serve(faults)?.url("dir");
    let finished = cp_in(&tree, &["--list", &url])?.ok()?;
    ensure!(!finished.stdout.contains('\u{1b}') && finished.stdout.contains("\\u{1b}"));
    Ok(())
}

/// Some servers print bytes of names as `?`, so that two names look alike.
#[test]
fn two_objects_with_one_name_are_reported() -> Result<()> {
    let listing = b"type=file;size=3;unique=1-1; a?b\r\ntype=file;size=3;unique=1-2; a?b\r\n\
        type=file;size=3;unique=1-3; c \r\n";
    let faults = Faults {
        listing: listing.to_vec(),
        data: b"abc".to_vec(),
        size: 3,
        ..Faults::default()
    };
    let (tree, finished) = fetch(faults, "dir", &["-r"])?;
    fails(&finished, 1, &["a%3Fb", "two objects", "rename"])?;
    ensure!(
        tree.names("")? == ["in/dir/a?b", "in/dir/c "],
        "{}",
        finished.report()
    );
    Ok(())
}

#[test]
fn a_directory_that_contains_itself_is_an_error() -> Result<()> {
    // Without the fact Unique only the depth reveals it.
    let faults = Faults {
        listing: b"type=cdir; .\r\ntype=dir; dir\r\n".to_vec(),
        ..Faults::default()
    };
    let (_, finished) = fetch(faults, "dir", &["-r", "--dry-run"])?;
    fails(&finished, 1, &["leads back"])?;
    let listing = b"type=cdir;unique=1-1; .\r\ntype=dir;unique=1-1; dir\r\n".to_vec();
    let (_, finished) = fetch(
        Faults {
            listing,
            ..Faults::default()
        },
        "dir",
        &["-r"],
    )?;
    fails(&finished, 1, &["leads back"])
}

#[test]
fn a_download_of_the_wrong_size_fails() -> Result<()> {
    for size in [2, 4] {
        let faults = Faults {
            data: b"abc".to_vec(),
            size,
            ..Faults::default()
        };
        let (tree, finished) = fetch(faults, "file", &[])?;
        fails(&finished, 1, &["3 bytes came", "copy again"])?;
        ensure!(tree.names("")?.is_empty(), "{:?}", tree.names("")?);
    }
    Ok(())
}

#[test]
fn a_download_without_a_226_reply_fails() -> Result<()> {
    let faults = Faults {
        data: b"abc".to_vec(),
        size: 3,
        end: Some("451 read error"),
        ..Faults::default()
    };
    let (tree, finished) = fetch(faults, "file", &[])?;
    fails(&finished, 1, &["451 read error"])?;
    ensure!(tree.names("")?.is_empty(), "{:?}", tree.names("")?);
    Ok(())
}

#[test]
fn a_refused_file_behind_a_closed_data_port_is_not_retried() -> Result<()> {
    let faults = Faults {
        size: 3,
        end: Some("550 not for you"),
        shut: true,
        ..Faults::default()
    };
    let tree = Tree::new()?;
    let url = serve(faults)?.url("file");
    let finished = cp_in(&tree, &["--retries", "1", &url, "file"])?;
    fails(&finished, 1, &["550 not for you"])?;
    ensure!(!finished.stderr.contains("retry"), "{}", finished.report());
    Ok(())
}

#[test]
fn a_download_with_a_wrong_digest_is_not_published() -> Result<()> {
    let faults = Faults {
        data: b"abc".to_vec(),
        size: 3,
        digest: "0123456789abcdef0123456789abcdef",
        ..Faults::default()
    };
    let (tree, finished) = fetch(faults.clone(), "file", &["--verify=md5"])?;
    fails(&finished, 5, &["MD5", "0123456789abcdef", "do not use"])?;
    ensure!(tree.names("")?.is_empty(), "{:?}", tree.names("")?);
    let faults = Faults {
        digest: "900150983cd24fb0d6963f7d28e17f72",
        ..faults
    };
    fetch(faults, "file", &["--verify=md5"])?.1.ok().map(drop)
}

#[test]
fn a_foreign_address_in_a_pasv_reply_is_ignored() -> Result<()> {
    for address in [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::UNSPECIFIED] {
        let faults = Faults {
            data: b"abc".to_vec(),
            size: 3,
            address: Some(address),
            ..Faults::default()
        };
        let (tree, finished) = fetch(faults, "file", &["-v"])?;
        finished.ok()?;
        ensure!(tree.names("")? == ["in/file"]);
    }
    Ok(())
}

#[test]
fn a_greeting_of_another_protocol_is_an_error() -> Result<()> {
    let flood = vec![b'x'; 8 << 20];
    let endless = [b"220-more\r\n".repeat(1 << 20), b"220 end\r\n".to_vec()].concat();
    for greeting in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"\0\xff\xfe\r\n",
        &flood,
        &endless,
    ] {
        let faults = Faults {
            greeting: Some(greeting.to_vec()),
            ..Faults::default()
        };
        let (_, finished) = fetch(faults, "file", &[])?;
        fails(&finished, 3, &["connect"])?;
    }
    let faults = Faults {
        greeting: Some(b"421 too many users\r\n".to_vec()),
        ..Faults::default()
    };
    fails(&fetch(faults, "file", &[])?.1, 3, &["421 too many users"])
}

#[test]
fn a_silent_server_times_out() -> Result<()> {
    let faults = Faults {
        greeting: Some(Vec::new()),
        ..Faults::default()
    };
    let tree = Tree::new()?;
    let url = serve(faults)?.url("file");
    let finished = cp_in(&tree, &["--retries", "0", "--timeout", "1", &url, "x"])?;
    fails(&finished, 3, &["connect", "in time"])
}

#[test]
fn a_listing_without_facts_is_an_error() -> Result<()> {
    let faults = Faults {
        listing: b"-rw-r--r-- 1 a a 3 Jan 1 00:00 file\r\n".to_vec(),
        ..Faults::default()
    };
    let (_, finished) = fetch(faults, "dir", &["-r"])?;
    fails(&finished, 1, &["list"])
}

#[test]
fn without_listings_only_single_files_are_copied() -> Result<()> {
    let faults = Faults {
        plain: true,
        data: b"abc".to_vec(),
        size: 3,
        ..Faults::default()
    };
    let (_, finished) = fetch(faults.clone(), "dir", &["-r"])?;
    fails(&finished, 1, &["LIST", "name each file"])?;
    let (tree, finished) = fetch(faults.clone(), "file", &[])?;
    finished.ok()?;
    ensure!(tree.names("")? == ["in/file"]);
    // An existing file is not overwritten, although MLST does not reveal it.
    tree.file("up", 3, 1)?;
    let url = serve(faults)?.url("file");
    let finished = cp_in(&tree, &["-n", "-v", "up", &url])?.ok()?;
    ensure!(
        finished.stdout.contains("it exists"),
        "{}",
        finished.report()
    );
    Ok(())
}

#[test]
fn set_id_bits_from_a_server_are_dropped() -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let faults = Faults {
        listing: b"type=file;size=3;UNIX.mode=06755; tool\r\n".to_vec(),
        data: b"abc".to_vec(),
        size: 3,
        ..Faults::default()
    };
    let (tree, finished) = fetch(faults, "dir", &["-r", "--preserve"])?;
    finished.ok()?;
    let mode = std::fs::metadata(tree.path("in/dir/tool"))?
        .permissions()
        .mode();
    ensure!(mode & 0o7777 == 0o755, "{mode:o}");
    Ok(())
}

#[test]
fn preserved_metadata_comes_from_the_file_and_not_from_the_listing() -> Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let faults = Faults {
        listing: b"type=file;size=2;modify=20010101000000;UNIX.mode=0600; file\r\n".to_vec(),
        data: b"abc".to_vec(),
        size: 3,
        facts: "modify=20200202020202;UNIX.mode=0640;",
        ..Faults::default()
    };
    let bed = Bed::new()?;
    let from = serve(faults)?.url("dir/");
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

/// The server has no command that sets times or modes.
#[test]
fn directory_times_that_cannot_be_set_are_reported() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.dir("up/dir")?;
    bed.there.dir("up/dir")?;
    for from in ["up/", &bed.url("up/")] {
        let url = serve(Faults::default())?.url("dir");
        bed.cp(&["-r", from, &url])?.ok()?;
        let finished = bed.cp(&["-r", "--preserve", from, &url])?;
        fails(&finished, 1, &["up/dir: failed:", "500 no"])?;
    }
    Ok(())
}

#[test]
fn huge_replies_are_cut_in_errors() -> Result<()> {
    let flood = [b"220-more\r\n".repeat(1000), b"220 end\r\n".to_vec()].concat();
    let refusal = [b"421-no ".repeat(100_000), b"\r\n421 end\r\n".to_vec()].concat();
    for greeting in [flood, refusal] {
        let faults = Faults {
            greeting: Some(greeting),
            data: b"abc".to_vec(),
            size: 4,
            ..Faults::default()
        };
        let (_, finished) = fetch(faults, "file", &[])?;
        ensure!(finished.stderr.len() < 3000, "{}", finished.stderr.len());
    }
    Ok(())
}

#[test]
fn a_requested_mode_is_not_replaced_silently() -> Result<()> {
    let faults = Faults {
        data: b"abc".to_vec(),
        size: 3,
        ..Faults::default()
    };
    let (tree, finished) = fetch(faults, "file", &["--mode", "extended"])?;
    fails(&finished, 3, &["MODE E", "--mode stream"])?;
    ensure!(tree.names("")?.is_empty());
    Ok(())
}

#[test]
fn names_that_the_server_cannot_carry_are_refused() -> Result<()> {
    let greeting = "220 vm GridFTP Server 13.24 (gcc64, 1) [Grid Community Toolkit 6.2] ready.\r\n";
    let faults = Faults {
        greeting: Some(greeting.into()),
        listing: "type=file;size=3; ü\r\ntype=file;size=3; u\r\ntype=dir; é\r\n".into(),
        data: b"abc".to_vec(),
        size: 3,
        ..Faults::default()
    };
    let (tree, finished) = fetch(faults.clone(), "dir", &["-r"])?;
    fails(&finished, 1, &["ü", "é", "no command to this server"])?;
    ensure!(tree.names("")? == ["in/dir/u"], "{:?}", tree.names("")?);
    tree.file("up/ä", 3, 1)?;
    tree.dir("empty/ö")?;
    let bed = Bed::new()?;
    bed.there.dir("empty/ö")?;
    for name in ["up", "empty", &bed.url("empty")] {
        let url = serve(faults.clone())?.url("dir");
        let finished = cp_in(&tree, &["-r", name, &url])?;
        fails(&finished, 1, &["no command to this server"])?;
    }
    Ok(())
}

#[test]
fn a_truncated_listing_line_names_no_file() -> Result<()> {
    let faults = Faults {
        listing: b"type=file;size=3; good\r\ntype=file;size=3; better\r\n".to_vec(),
        torn: Arc::new(AtomicBool::new(true)),
        data: b"abc".to_vec(),
        size: 3,
        ..Faults::default()
    };
    let tree = Tree::new()?;
    let url = serve(faults.clone())?.url("dir");
    let finished = cp_in(&tree, &["-r", &url, "in/"])?.ok()?;
    let names = tree.names("")?;
    ensure!(
        names == ["in/dir/better", "in/dir/good"],
        "{names:?} of {}",
        finished.report()
    );
    faults.torn.store(true, Ordering::Relaxed);
    let finished = cp_in(&tree, &["--list", &url])?;
    fails(&finished, 1, &["426 broken off"])?;
    ensure!(!finished.stdout.contains("bet"), "{}", finished.report());
    Ok(())
}

#[test]
fn a_directory_that_is_neither_created_nor_found_is_reported() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.dir("up/void")?;
    bed.there.dir("up/void")?;
    for from in ["up/", &bed.url("up/")] {
        let url = serve(Faults::default())?.url("dir");
        let finished = bed.cp(&["-r", from, &url])?;
        fails(&finished, 1, &["void", "550 cannot"])?;
    }
    Ok(())
}

/// The copies create directories only.
#[test]
fn a_session_that_ends_at_mkd_is_replaced() -> Result<()> {
    let bed = Bed::new()?;
    for tree in [&bed.here, &bed.there] {
        tree.dir("up/adir")?;
        tree.dir("up/bdir")?;
    }
    for from in ["up/", &bed.url("up/")] {
        let faults = Faults {
            hangs_up: Arc::new(AtomicBool::new(true)),
            ..Faults::default()
        };
        let url = serve(faults.clone())?.url("dir");
        bed.cp(&["-r", from, &url])?.ok()?;
        ensure!(!faults.hangs_up.load(Ordering::Relaxed));
    }
    Ok(())
}

/// The reply about the directory comes after all other work.
#[test]
fn a_directory_that_is_refused_last_is_reported_once() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.dir("from/empty")?;
    let faults = Faults {
        late: Some(SessionEnd::default()),
        ..Faults::default()
    };
    let url = serve(faults)?.url("dir");
    let finished = bed.cp(&["-r", "--preserve", &bed.url("from/"), &url])?;
    fails(&finished, 1, &["empty", "a file is there"])?;
    let told = finished
        .stderr
        .lines()
        .filter(|line| line.contains("empty"));
    ensure!(
        told.count() == 1,
        "not reported once: {}",
        finished.report()
    );
    Ok(())
}
