//! Copies of files of web servers.

mod odd;
mod proxy;
mod server;

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Result, ensure};
use workspace_tests::{Reaction, ScriptedServer, Tree, file_url};
use xio_testkit::Authority;
use xio_tls::Tls;

use crate::secured::identity;
use crate::{Bed, cp_in, fails};
use server::{Answer, File, Web};

/// Bytes of a file, and of those that come before a connection is cut.
const SIZE: usize = 3_000_000;
const SENT: usize = 1_000_003;

/// The SHA-256 digest of `abc`.
const ABC: &str = "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";

fn bytes(version: usize) -> Vec<u8> {
    let place = |at: usize| u8::try_from((at / 251 + at + version) % 251).unwrap_or(0);
    // It is the same again behind so many bytes.
    let first: Vec<_> = (0..251 * 251).map(place).collect();
    let mut all = first.repeat(SIZE.div_ceil(first.len()));
    all.truncate(SIZE);
    all
}

fn file() -> File {
    File {
        bytes: bytes(0),
        tag: "\"one\"",
    }
}

/// A server of one file, of which the first `cuts` answers with bytes are cut.
fn cut(file: &Arc<Mutex<File>>, cuts: usize) -> Result<Web> {
    let (file, left) = (Arc::clone(file), AtomicUsize::new(cuts));
    Web::start(move |request| {
        let mut answer = file
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .answer(request);
        let takes = |left: usize| left.checked_sub(1);
        let is_cut = request.method == "GET"
            && left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, takes)
                .is_ok();
        answer.until = is_cut.then_some(SENT);
        answer
    })
}

#[test]
fn a_file_lands_under_its_name_with_its_time() -> Result<()> {
    let here = Tree::new()?;
    let web = Web::start(|request| file().answer(request))?;
    here.dir("in")?;
    let url = web.url("/d/a%20b?key=%2F#part");
    let said = cp_in(&here, &["--preserve", &url, "in/"])?.ok()?;
    ensure!(fs::read(here.path("in/a b"))? == bytes(0), "it differs");
    let time = fs::metadata(here.path("in/a b"))?.modified()?;
    ensure!(time == UNIX_EPOCH + Duration::from_secs(784_111_777));
    let needle = "it tells no digest of files (Repr-Digest): copies are compared by size only";
    ensure!(said.stderr.contains(needle), "{}", said.report());
    let [get] = &web.gets()[..] else {
        anyhow::bail!("{:?}", web.gets());
    };
    ensure!(get.target == "/d/a%20b?key=%2F", "{}", get.target);
    // It is there, with the size and the time of its source.
    cp_in(&here, &["--sync", &url, "in/"])?.ok()?;
    ensure!(web.gets().len() == 1, "it is copied again");
    ensure!(here.names("in")? == ["a b"], "{:?}", here.names("in")?);
    Ok(())
}

#[test]
fn a_dry_run_asks_for_no_bytes() -> Result<()> {
    let here = Tree::new()?;
    let web = Web::start(|request| file().answer(request))?;
    let said = cp_in(&here, &["--dry-run", &web.url("/f"), "f"])?.ok()?;
    ensure!(said.stdout.contains(&web.url("/f")), "{}", said.report());
    ensure!(web.gets().is_empty() && here.names("")?.is_empty());
    Ok(())
}

#[test]
fn parts_of_files_are_asked_for_as_parts() -> Result<()> {
    let here = Tree::new()?;
    let web = Web::start(|request| file().answer(request))?;
    let list = format!("{} {}/f 1000,500\n", web.url("/f"), file_url(here.root()));
    fs::write(here.path("pairs"), list)?;
    cp_in(&here, &["--globus", "-f", "pairs"])?.ok()?;
    let part = fs::read(here.path("f"))?;
    ensure!(part.len() == 1500 && part[1000..] == bytes(0)[1000..1500]);
    ensure!(web.ranges() == ["bytes=1000-1499"], "{:?}", web.ranges());
    let whole = Web::start(|_| Answer {
        body: bytes(0),
        ..Answer::status(200)
    })?;
    let refused = cp_in(&here, &["--offset", "9", &whole.url("/f"), "g"])?;
    fails(&refused, 1, &["/f: the server sends no parts of it"])?;
    ensure!(!here.path("g").exists(), "it is not a part");
    Ok(())
}

#[test]
fn redirections_are_followed_and_no_account_goes_with_them() -> Result<()> {
    let here = Tree::new()?;
    let far = Web::start(|request| file().answer(request))?;
    let to = far.url("/signed?x=1");
    let near = Web::start(move |request| match request.target.as_str() {
        "/f" => Answer::status(302).with("Location", "/g"),
        "/loop" => Answer::status(302).with("Location", "/loop"),
        "/dir" => Answer::status(301).with("Location", "/dir/"),
        "/nowhere" => Answer::status(301).with("Location", ""),
        "/other" => Answer::status(301).with("Location", "ftp://localhost/f"),
        _ => Answer::status(307).with("Location", to.clone()),
    })?;
    let with_account = |target: &str| near.url(target).replace("http://", "http://ann:pw@");
    cp_in(&here, &[&with_account("/f"), "f"])?.ok()?;
    ensure!(fs::read(here.path("f"))? == bytes(0), "it differs");
    for request in near.gets() {
        let login = request.headers.get("Authorization");
        ensure!(login == Some("Basic YW5uOnB3"), "{request:?}");
    }
    for request in far.gets() {
        ensure!(request.headers.get("Authorization").is_none());
    }
    for (target, needle) in [
        ("/loop", "/loop: it leads from place to place"),
        (
            "/dir",
            "it leads to a directory, and web servers have no listings",
        ),
        ("/nowhere", "it leads nowhere: its field Location is empty"),
        (
            "/other",
            "it leads to something that is no URL of a web server",
        ),
    ] {
        let refused = cp_in(&here, &[&near.url(target), "g"])?;
        fails(&refused, 1, &[needle])?;
    }
    Ok(())
}

#[test]
fn a_cut_connection_is_made_again_behind_the_bytes_that_came() -> Result<()> {
    let here = Tree::new()?;
    let web = cut(&Arc::new(Mutex::new(file())), 2)?;
    cp_in(&here, &[&web.url("/f"), "f"])?.ok()?;
    ensure!(fs::read(here.path("f"))? == bytes(0), "it differs");
    let ranges = web.ranges();
    let wanted = [SENT, 2 * SENT].map(|begin| format!("bytes={begin}-"));
    ensure!(ranges == wanted, "{ranges:?}");
    ensure!(here.names("")? == ["f"], "{:?}", here.names("")?);
    Ok(())
}

#[test]
fn the_next_run_goes_on_with_the_same_version_only() -> Result<()> {
    for is_changed in [false, true] {
        let here = Tree::new()?;
        let source = Arc::new(Mutex::new(file()));
        let web = cut(&source, 1)?;
        let args = ["-c", "--retries", "0", &web.url("/f"), "f"];
        let said = cp_in(&here, &args)?;
        fails(&said, 1, &["are kept; the same command goes on"])?;
        ensure!(!here.path("f").exists(), "a part has the name");
        if is_changed {
            *source.lock().unwrap_or_else(PoisonError::into_inner) = File {
                bytes: bytes(1),
                tag: "\"two\"",
            };
        }
        let said = cp_in(&here, &args)?.ok()?;
        let (needle, version) = match is_changed {
            false => ("f: continuing at 976.57 KiB of 2.86 MiB", 0),
            true => ("f: begun anew", 1),
        };
        ensure!(said.stderr.contains(needle), "{}", said.report());
        ensure!(fs::read(here.path("f"))? == bytes(version), "it differs");
        let ranges = web.ranges();
        let wanted = format!("bytes={SENT}-");
        ensure!(ranges.contains(&wanted) != is_changed, "{ranges:?}");
        ensure!(here.names("")? == ["f"], "{:?}", here.names("")?);
    }
    Ok(())
}

#[test]
fn a_file_that_changes_between_two_attempts_is_begun_anew() -> Result<()> {
    let here = Tree::new()?;
    let is_first = AtomicBool::new(true);
    let web = Web::start(move |request| {
        let mut old = file().answer(request);
        if request.method == "HEAD" || is_first.swap(false, Ordering::SeqCst) {
            old.until = Some(SENT);
            return old;
        }
        let new = File {
            bytes: bytes(1),
            tag: "\"two\"",
        };
        new.answer(request)
    })?;
    let said = cp_in(&here, &[&web.url("/f"), "f"])?.ok()?;
    let needle = "f: begun anew: the source has changed";
    ensure!(said.stderr.contains(needle), "{}", said.report());
    ensure!(fs::read(here.path("f"))? == bytes(1), "it differs");
    Ok(())
}

#[test]
fn refusals_have_statuses_and_remedies() -> Result<()> {
    let here = Tree::new()?;
    let (is_busy, is_first) = (AtomicBool::new(true), AtomicBool::new(true));
    let web = Web::start(move |request| match request.target.as_str() {
        "/401" => Answer::status(401),
        "/403" => Answer::status(403),
        "/404" => Answer::status(404),
        "/503" => Answer::status(503),
        "/busy" if request.method == "GET" && is_busy.swap(false, Ordering::SeqCst) => {
            Answer::status(503).with("Retry-After", "0")
        }
        "/until" if request.method == "GET" && is_first.swap(false, Ordering::SeqCst) => {
            Answer::status(503)
                .with("Date", "Sunday, 06-Nov-94 08:49:37 GMT")
                .with("Retry-After", "Sun, 06 Nov 1994 08:49:39 GMT")
        }
        _ => file().answer(request),
    })?;
    for (target, status, needles) in [
        ("/401", 4, ["/401: 401 Unauthorized", "--netrc"]),
        ("/403", 1, ["/403: 403 Forbidden", "may not read it"]),
        ("/404", 1, ["/404: 404 Not Found", "check the URL"]),
        (
            "/503",
            1,
            ["/503: 503 Service Unavailable", "try again later"],
        ),
        ("/d/", 2, ["web servers have no listings", "name each file"]),
    ] {
        let url = web.url(target);
        let said = cp_in(&here, &["--retries", "0", &url, "f"])?;
        fails(&said, status, &needles)?;
    }
    fails(
        &cp_in(&here, &["-r", &web.url("/f"), "f"])?,
        2,
        &["no listings"],
    )?;
    fails(&cp_in(&here, &["f", &web.url("/f")])?, 2, &["sources only"])?;
    fails(
        &cp_in(&here, &["--list", &web.url("/f")])?,
        2,
        &["sources of copies only"],
    )?;
    ensure!(here.names("")?.is_empty(), "{:?}", here.names("")?);
    cp_in(&here, &[&web.url("/busy"), "f"])?.ok()?;
    // The pause of the copy itself is half a second at most.
    let said = cp_in(&here, &[&web.url("/until"), "until"])?.ok()?;
    ensure!(said.took >= Duration::from_secs(2), "{}", said.report());
    let told = cp_in(&here, &["--json", "--retries", "0", &web.url("/404"), "g"])?.failed()?;
    let needle = r#""code":404"#;
    ensure!(
        told.stdout.contains(needle) || told.stderr.contains(needle),
        "{}",
        told.report()
    );
    Ok(())
}

#[test]
fn digests_of_the_server_prove_the_stored_bytes() -> Result<()> {
    let here = Tree::new()?;
    let body = b"abc".to_vec();
    let web = Web::start(move |request| {
        let right = format!("sha-256=:{ABC}:");
        let wrong = "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:";
        let answer = Answer {
            body: body.clone(),
            ..Answer::status(200)
        };
        match request.target.as_str() {
            "/right" => answer.with("Repr-Digest", right),
            "/wrong" => answer.with("Repr-Digest", wrong),
            _ => answer,
        }
    })?;
    let url = |target: &str| web.url(target);
    for verify in ["--verify=sha256", "--verify", "--verify=disk"] {
        let said = cp_in(&here, &["-v", verify, &url("/right"), "f"])?.ok()?;
        ensure!(said.stdout.contains("SHA256 ba7816bf"), "{}", said.report());
    }
    fails(
        &cp_in(&here, &["--retries", "0", &url("/wrong"), "g"])?,
        5,
        &["SHA256"],
    )?;
    let said = cp_in(&here, &["--verify", &url("/none"), "g"])?;
    fails(&said, 2, &["tells no digest", "without --verify"])?;
    ensure!(here.names("")? == ["f"], "{:?}", here.names("")?);
    Ok(())
}

#[test]
fn a_tls_server_is_verified_and_tls_is_not_left() -> Result<()> {
    let here = Tree::new()?;
    let authority = Authority::new("test authority");
    drop(authority.write(here.root()));
    let own = authority.issue("host", &["127.0.0.1"]);
    let tls = Tls::server(identity(&own)?).build()?;
    let clear = Web::start(|request| file().answer(request))?;
    let to = clear.url("/f");
    let web = Web::start_tls(tls, move |request| match request.target.as_str() {
        "/clear" => Answer::status(302).with("Location", to.clone()),
        _ => file().answer(request),
    })?;
    let args = ["--ca", "ca.pem", "--retries", "0"];
    let url = web.url("/f").replace("https://", "https://ann:pw@");
    cp_in(&here, &[&args[..], &[&url, "f"]].concat())?.ok()?;
    ensure!(fs::read(here.path("f"))? == bytes(0), "it differs");
    let login = web.gets();
    let login = login
        .first()
        .and_then(|get| get.headers.get("Authorization"));
    ensure!(login == Some("Basic YW5uOnB3"), "{login:?}");
    let left = cp_in(&here, &[&args[..], &[&web.url("/clear"), "g"]].concat())?;
    fails(&left, 1, &["from https:// to http://"])?;
    ensure!(clear.gets().is_empty(), "TLS was left");
    let stranger = Authority::new("a stranger's");
    fs::write(here.path("ca.pem"), stranger.pem())?;
    let before = web.gets().len();
    let said = cp_in(&here, &[&args[..], &[&url, "g"]].concat())?;
    fails(
        &said,
        3,
        &["authority that is not trusted", "--ca FILE or FOLDER"],
    )?;
    ensure!(web.gets().len() == before && !here.path("g").exists());
    Ok(())
}

#[test]
fn a_file_goes_to_a_server_over_cut_connections() -> Result<()> {
    let bed = Bed::new()?;
    let web = cut(&Arc::new(Mutex::new(file())), 2)?;
    bed.there.dir("d")?;
    let said = bed
        .cp(&["-v", "--preserve", &web.url("/f"), &bed.url("d/")])?
        .ok()?;
    ensure!(fs::read(bed.there.path("d/f"))? == bytes(0), "it differs");
    let time = fs::metadata(bed.there.path("d/f"))?.modified()?;
    ensure!(time == UNIX_EPOCH + Duration::from_secs(784_111_777));
    ensure!(
        web.ranges().len() == 2,
        "{:?} {}",
        web.ranges(),
        said.report()
    );
    // It is there, with the size and the time of its source.
    let gets = web.gets().len();
    bed.cp(&["--sync", &web.url("/f"), &bed.url("d/")])?.ok()?;
    ensure!(web.gets().len() == gets, "it is copied again");
    Ok(())
}

#[test]
fn standard_output_gets_the_bytes_in_order() -> Result<()> {
    let here = Tree::new()?;
    let web = cut(
        &Arc::new(Mutex::new(File {
            bytes: vec![b'x'; SIZE],
            tag: "\"one\"",
        })),
        1,
    )?;
    let said = cp_in(&here, &[&web.url("/f"), "-"])?.ok()?;
    ensure!(said.stdout == "x".repeat(SIZE), "{}", said.stdout.len());
    ensure!(
        web.ranges() == [format!("bytes={SENT}-")],
        "{:?}",
        web.ranges()
    );
    Ok(())
}

#[test]
fn a_part_never_has_the_name_at_a_server() -> Result<()> {
    let here = Tree::new()?;
    let web = Web::start(|request| {
        let answer = file().answer(request);
        Answer {
            until: (request.target == "/cut").then_some(SENT),
            ..answer
        }
    })?;
    let cut = web.url("/cut");
    let bed = Bed::new()?;
    let said = bed.cp(&["--retries", "0", &cut, &bed.url("f")])?;
    fails(&said, 1, &["the peer ended in the middle of its entity"])?;
    ensure!(!bed.there.path("f").exists(), "a part has the name");
    // A server of another kind keeps broken uploads, so the file has another name meanwhile.
    let other = ScriptedServer::start(|_| Reaction::Usual)?;
    other.file("/f", "old");
    let said = cp_in(&here, &["--retries", "0", &cut, &other.url("f")])?;
    fails(&said, 1, &["the peer ended in the middle of its entity"])?;
    ensure!(other.files() == ["/f"], "{:?}", other.files());
    ensure!(
        other.bytes("/f") == Some(b"old".to_vec()),
        "it is not the old one"
    );
    cp_in(&here, &[&web.url("/whole"), &other.url("f")])?.ok()?;
    ensure!(other.files() == ["/f"], "{:?}", other.files());
    ensure!(other.bytes("/f") == Some(bytes(0)), "it differs");
    Ok(())
}
