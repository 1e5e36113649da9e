//! Answers that are not the file which was asked for, and URLs that are not to be kept.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::{fs, io, thread};

use anyhow::{Result, ensure};
use workspace_tests::Tree;

use super::server::{Answer, Web};
use super::{ABC, SENT, bytes, file};
use crate::{cp_in, fails};

#[test]
fn a_body_that_ends_early_is_never_a_file() -> Result<()> {
    for chunked in [false, true] {
        let here = Tree::new()?;
        let web = Web::start(move |_| Answer {
            body: bytes(0),
            until: Some(SENT),
            chunked,
            ..Answer::status(200)
        })?;
        let said = cp_in(&here, &["--retries", "0", &web.url("/f"), "f"])?;
        fails(&said, 1, &["the peer ended in the middle of its entity"])?;
        ensure!(here.names("")?.is_empty(), "{:?}", here.names("")?);
    }
    let here = Tree::new()?;
    let web = Web::start(|_| Answer {
        body: bytes(0),
        chunked: true,
        ..Answer::status(200)
    })?;
    cp_in(&here, &[&web.url("/f"), "f"])?.ok()?;
    ensure!(fs::read(here.path("f"))? == bytes(0), "it differs");
    Ok(())
}

#[test]
fn an_end_that_may_be_a_cut_needs_a_digest() -> Result<()> {
    let here = Tree::new()?;
    let web = Web::start_old(|request| {
        let answer = Answer {
            body: b"abc".to_vec(),
            chunked: true,
            ..Answer::status(200)
        };
        match request.target.as_str() {
            "/digest" => answer.with("Digest", format!("SHA-256={ABC}")),
            _ => answer,
        }
    })?;
    cp_in(&here, &[&web.url("/digest"), "f"])?.ok()?;
    let refused = cp_in(&here, &[&web.url("/none"), "g"])?;
    fails(&refused, 1, &["neither its length nor a digest"])?;
    ensure!(here.names("")? == ["f"], "{:?}", here.names("")?);
    Ok(())
}

#[test]
fn bytes_of_another_place_or_coding_are_never_a_file() -> Result<()> {
    let here = Tree::new()?;
    let web = Web::start(|request| {
        let abc = |status| Answer {
            body: b"abc".to_vec(),
            ..Answer::status(status)
        };
        match request.target.as_str() {
            "/part" if request.method == "GET" => abc(206).with("Content-Range", "bytes 5-7/*"),
            "/parts" if request.method == "GET" => {
                abc(206).with("Content-Type", "multipart/byteranges; boundary=x")
            }
            "/f" | "/f.gz" => abc(200).with("Content-Encoding", "gzip"),
            _ => abc(200),
        }
    })?;
    for (target, needle) in [
        ("/part", "/part: the server sends other bytes"),
        ("/parts", "/parts: the server sends other bytes"),
        ("/f", "/f: it comes compressed"),
    ] {
        fails(&cp_in(&here, &[&web.url(target), "g"])?, 1, &[needle])?;
    }
    ensure!(here.names("")?.is_empty(), "{:?}", here.names("")?);
    cp_in(&here, &[&web.url("/f.gz"), "g"])?.ok()?;
    ensure!(fs::read(here.path("g"))? == b"abc", "it differs");
    Ok(())
}

#[test]
fn a_status_is_told_without_its_body() -> Result<()> {
    let here = Tree::new()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/f", listener.local_addr()?);
    thread::spawn(move || {
        for _method in ["HEAD", "GET"] {
            let mut stream = BufReader::new(listener.accept()?.0);
            let mut line = String::new();
            while stream.read_line(&mut line)? > 2 {
                line.clear();
            }
            let answer = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 9\r\n\r\n";
            stream.get_mut().write_all(answer)?;
        }
        io::Result::Ok(())
    });
    let said = cp_in(&here, &["--retries", "0", &url, "f"])?;
    fails(&said, 1, &["/f: 403 Forbidden"])
}

#[test]
fn signatures_of_urls_are_in_no_log() -> Result<()> {
    let here = Tree::new()?;
    let web = Web::start(|request| match request.target.starts_with("/f") {
        true => file().answer(request),
        false => Answer::status(403),
    })?;
    for target in ["/f", "/g"] {
        let url = web.url(&format!("{target}?a=1&X-Amz-Signature=77a5"));
        let log = ["--log-file", "log", "--failed-list", "failed"];
        drop(cp_in(&here, &[&log[..], &[&url, "to"]].concat())?);
    }
    let log = fs::read_to_string(here.path("log"))?;
    for target in ["/f", "/g"] {
        let masked = web.url(&format!("{target}?a=1&X-Amz-Signature=***"));
        ensure!(log.contains(&masked), "{log}");
    }
    ensure!(!log.contains("77a5"), "{log}");
    ensure!(fs::read_to_string(here.path("failed"))? == "g\n");
    Ok(())
}
