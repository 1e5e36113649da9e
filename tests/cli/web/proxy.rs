//! Copies from web servers behind a proxy.

use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::TcpStream;
use workspace_tests::{Finished, Tree, run};
use xio_testkit::Authority;
use xio_tls::Tls;

use super::server::{Answer, Web, listen};
use super::{bytes, file};
use crate::secured::identity;
use crate::{LIMIT, command, fails};

/// The server of the tests, whose name nothing but the proxy knows.
const HOST: &str = "data.example.org";

/// The login of `ann:p%40ss`.
const LOGIN: &str = "\r\nProxy-Authorization: Basic YW5uOnBAc3M=\r\n";

/// A proxy; it ends with its runtime.
struct Proxy {
    addr: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    _runtime: tokio::runtime::Runtime,
}

/// The reaction of a proxy.
#[derive(Clone)]
enum Way {
    /// It leads to this server, whatever is asked for.
    To(SocketAddr),
    /// It answers with these bytes.
    Says(Vec<u8>),
    /// It answers nothing, until the client leaves.
    Silent,
    /// It answers so many requests with these bytes, and leads the next ones to this server.
    Late(usize, &'static [u8], SocketAddr),
}

impl Proxy {
    fn start(way: Way) -> Result<Self> {
        let (runtime, listener, addr) = listen()?;
        let heads = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&heads);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (way, told) = (way.clone(), Arc::clone(&told));
                // A client that is told to fail may leave first.
                tokio::spawn(async move { serve(stream, way, &told).await });
            }
        });
        Ok(Self {
            addr,
            heads,
            _runtime: runtime,
        })
    }

    fn url(&self, account: &str) -> String {
        format!("http://{account}{}", self.addr)
    }

    /// The heads of the requests so far.
    fn heads(&self) -> Vec<String> {
        let heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        heads.clone()
    }
}

async fn serve(mut near: TcpStream, way: Way, heads: &Mutex<Vec<String>>) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(near.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    let asked = {
        let mut heads = heads.lock().unwrap_or_else(PoisonError::into_inner);
        heads.push(head.clone());
        heads.len()
    };
    let way = match way {
        Way::Late(refused, says, _) if asked <= refused => Way::Says(says.to_vec()),
        Way::Late(_, _, to) => Way::To(to),
        way => way,
    };
    match way {
        Way::Late(..) => unreachable!("it is one of the others by now"),
        Way::Says(bytes) => {
            near.write_all(&bytes).await?;
            near.shutdown().await?;
        }
        Way::Silent => drop(near.read_u8().await),
        Way::To(server) => {
            let mut far = TcpStream::connect(server).await?;
            match head.starts_with("CONNECT ") {
                true => near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?,
                false => far.write_all(forwarded(&head).as_bytes()).await?,
            }
            copy_bidirectional(&mut near, &mut far).await?;
        }
    }
    Ok(())
}

/// The head as a proxy sends it on: for the path alone, without the fields for proxies.
fn forwarded(head: &str) -> String {
    let (method, rest) = head.split_once(" http://").unwrap_or_default();
    let (_, rest) = rest.split_once('/').unwrap_or_default();
    let lines = rest.split_inclusive("\r\n");
    let kept: String = lines.filter(|line| !line.starts_with("Proxy-")).collect();
    format!("{method} /{kept}")
}

/// Runs `gridftp-cp` with these variables.
fn cp(tree: &Tree, variables: &[(&str, &str)], args: &[&str]) -> Result<Finished> {
    let mut program = command(tree, args)?;
    run(program.envs(variables.to_vec()), LIMIT)
}

/// A TLS server of the file, and a folder with the certificate of its authority.
fn secured() -> Result<(Tree, Web)> {
    let here = Tree::new()?;
    let authority = Authority::new("test authority");
    drop(authority.write(here.root()));
    let own = authority.issue("host", &[HOST]);
    let tls = Tls::server(identity(&own)?).build()?;
    let web = Web::start_tls(tls, |request| file().answer(request))?;
    Ok((here, web))
}

#[test]
fn a_clear_source_is_asked_for_at_the_proxy() -> Result<()> {
    let here = Tree::new()?;
    let web = Web::start(|request| file().answer(request))?;
    let proxy = Proxy::start(Way::To(web.addr))?;
    let (variable, url) = (proxy.url("ann:p%40ss@"), format!("http://{HOST}/d/f?x=1"));
    cp(&here, &[("http_proxy", variable.as_str())], &[&url, "f"])?.ok()?;
    ensure!(fs::read(here.path("f"))? == bytes(0), "it differs");
    let heads = proxy.heads();
    ensure!(heads.len() == 2, "{heads:?}");
    let (line, host) = (
        format!(" {url} HTTP/1.1\r\n"),
        format!("\r\nHost: {HOST}\r\n"),
    );
    for head in heads {
        for part in [line.as_str(), host.as_str(), LOGIN] {
            ensure!(head.contains(part), "no {part:?} in {head}");
        }
    }
    Ok(())
}

#[test]
fn a_tls_source_is_reached_through_the_proxy() -> Result<()> {
    let (here, web) = secured()?;
    let proxy = Proxy::start(Way::To(web.addr))?;
    let (variable, url) = (proxy.url("ann:p%40ss@"), format!("https://bob:pw@{HOST}/f"));
    let args = ["-v", "--ca", "ca.pem", "--log-file", "log", &url, "f"];
    let said = cp(&here, &[("https_proxy", variable.as_str())], &args)?.ok()?;
    ensure!(fs::read(here.path("f"))? == bytes(0), "it differs");
    for head in proxy.heads() {
        let line = format!("CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\n");
        let is_own = head.starts_with(&line) && head.contains(LOGIN);
        ensure!(is_own && !head.contains("\r\nAuthorization"), "{head}");
    }
    ensure!(web.gets().len() == 1, "{:?}", web.gets());
    for request in web.gets() {
        ensure!(request.target == "/f", "{request:?}");
        ensure!(request.headers.get("Authorization").is_some());
        ensure!(request.headers.get("Proxy-Authorization").is_none());
    }
    let log = fs::read_to_string(here.path("log"))?;
    for secret in ["p@ss", "p%40ss", "YW5uOnBAc3M="] {
        let texts = [&said.stdout, &said.stderr, &log];
        ensure!(texts.iter().all(|text| !text.contains(secret)), "{secret}");
    }
    Ok(())
}

#[test]
fn a_server_that_the_proxy_does_not_reach_is_waited_for() -> Result<()> {
    let (here, web) = secured()?;
    // The request for the facts, and the attempts that --retries has.
    let says = b"HTTP/1.1 504 Gateway Timeout\r\n\r\n";
    let proxy = Proxy::start(Way::Late(3, says, web.addr))?;
    let (variable, url) = (proxy.url(""), format!("https://{HOST}/f"));
    let variables = [("https_proxy", variable.as_str())];
    let args = ["--ca", "ca.pem", "--retries", "1", &url, "f"];
    cp(&here, &variables, &args)?.ok()?;
    ensure!(fs::read(here.path("f"))? == bytes(0), "it differs");
    ensure!(proxy.heads().len() == 4, "{:?}", proxy.heads());
    Ok(())
}

#[test]
fn without_time_for_it_a_copy_through_a_proxy_ends_by_number() -> Result<()> {
    let here = Tree::new()?;
    let proxy = Proxy::start(Way::Says(b"HTTP/1.1 504 Late\r\n\r\n".to_vec()))?;
    let (variable, url) = (proxy.url(""), format!("https://{HOST}/f"));
    let variables = [("https_proxy", variable.as_str())];
    let args = ["--retries", "1", "--retry-for", "0", &url, "f"];
    fails(&cp(&here, &variables, &args)?, 3, &["504 Late"])?;
    ensure!(proxy.heads().len() == 3, "{:?}", proxy.heads());
    Ok(())
}

#[test]
fn hosts_of_no_proxy_are_reached_without_it() -> Result<()> {
    let here = Tree::new()?;
    let web = Web::start(|request| file().answer(request))?;
    let proxy = Proxy::start(Way::Says(b"HTTP/1.1 500 No\r\n\r\n".to_vec()))?;
    let variable = proxy.url("");
    for variables in [
        [
            ("http_proxy", variable.as_str()),
            ("no_proxy", "127.0.0.0/8"),
        ],
        // A CGI script has this one from the field Proxy of a request.
        [
            ("HTTP_PROXY", variable.as_str()),
            ("https_proxy", variable.as_str()),
        ],
    ] {
        cp(&here, &variables, &[&web.url("/f"), "f"])?.ok()?;
        ensure!(proxy.heads().is_empty(), "{:?}", proxy.heads());
    }
    Ok(())
}

#[test]
fn each_place_of_a_redirection_has_its_own_proxy() -> Result<()> {
    let here = Tree::new()?;
    let far = Web::start(|request| file().answer(request))?;
    let to = far.url("/g");
    let near = Web::start(move |_| Answer::status(302).with("Location", to.clone()))?;
    let proxy = Proxy::start(Way::To(near.addr))?;
    let variable = proxy.url("ann:p%40ss@");
    let variables = [("http_proxy", variable.as_str()), ("no_proxy", "127.0.0.1")];
    let url = format!("http://{HOST}/f");
    cp(&here, &variables, &[&url, "f"])?.ok()?;
    ensure!(fs::read(here.path("f"))? == bytes(0), "it differs");
    let heads = proxy.heads();
    let asks = format!(" {url} HTTP/1.1\r\n");
    ensure!(heads.len() == 2 && heads.iter().all(|head| head.contains(&asks)));
    ensure!(far.gets().len() == 1, "{:?}", far.gets());
    for request in far.gets() {
        ensure!(request.target == "/g", "{request:?}");
        ensure!(request.headers.get("Proxy-Authorization").is_none());
    }
    Ok(())
}

#[test]
fn a_password_goes_to_no_proxy_in_clear_text() -> Result<()> {
    let here = Tree::new()?;
    let web = Web::start(|request| file().answer(request))?;
    let proxy = Proxy::start(Way::To(web.addr))?;
    let (variable, url) = (proxy.url(""), format!("http://ann:pw@{HOST}/f"));
    let variables = [("http_proxy", variable.as_str())];
    fails(
        &cp(&here, &variables, &[&url, "f"])?,
        2,
        &[
            "in clear text, and it was not sent",
            "write https://; --security none sends it in clear text",
        ],
    )?;
    ensure!(proxy.heads().is_empty(), "{:?}", proxy.heads());
    cp(&here, &variables, &["--security", "none", &url, "f"])?.ok()?;
    ensure!(fs::read(here.path("f"))? == bytes(0), "it differs");
    Ok(())
}

#[test]
fn the_failure_of_a_proxy_names_it() -> Result<()> {
    let here = Tree::new()?;
    let endless = [b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'x'; 100_000]].concat();
    for (scheme, says, status, fact, why) in [
        (
            "https",
            b"HTTP/1.1 407 Who\r\nContent-Length: 0\r\n\r\n".to_vec(),
            4,
            "CONNECT data.example.org:443: 407 Who",
            "name an account in the URL of the proxy",
        ),
        (
            "https",
            b"HTTP/1.1 502 Bad Gateway\r\n\r\n".to_vec(),
            3,
            "CONNECT data.example.org:443: 502 Bad Gateway",
            "it does not reach the server",
        ),
        (
            "http",
            b"HTTP/1.1 407 Who\r\nContent-Length: 0\r\n\r\n".to_vec(),
            4,
            "http://data.example.org:80/f: 407 Who",
            "name an account in the URL of the proxy",
        ),
        ("https", endless, 1, "", "the head is longer than 64 KiB"),
        ("https", Vec::new(), 1, "", "ended without a response"),
    ] {
        let proxy = Proxy::start(Way::Says(says))?;
        let (variable, url) = (proxy.url("ann:secret@"), format!("{scheme}://{HOST}/f"));
        let args = ["--retries", "0", &url, "f"];
        let said = cp(&here, &[("all_proxy", variable.as_str())], &args)?;
        let named = format!("proxy {}: {fact}", proxy.addr);
        fails(&said, status, &[&named, why])?;
        ensure!(!said.stderr.contains("secret"), "{}", said.report());
    }
    ensure!(here.names("")?.is_empty(), "{:?}", here.names("")?);
    Ok(())
}

#[test]
fn a_proxy_that_does_not_answer_in_time_is_told() -> Result<()> {
    let here = Tree::new()?;
    let proxy = Proxy::start(Way::Silent)?;
    let (variable, url) = (proxy.url(""), format!("https://{HOST}/f"));
    let variables = [("https_proxy", variable.as_str())];
    let limits = ["--timeout", "1", "--retries", "0", "--retry-for", "0"];
    let said = cp(&here, &variables, &[&limits[..], &[&url, "f"]].concat())?;
    let fact = format!("proxy {}: CONNECT {HOST}:443: ", proxy.addr);
    fails(&said, 3, &[&fact, "it does not reach the server"])
}

#[test]
fn a_proxy_that_is_gone_or_of_another_kind_is_told() -> Result<()> {
    let here = Tree::new()?;
    let gone = Proxy::start(Way::Says(Vec::new()))?;
    let (addr, variable) = (gone.addr, gone.url(""));
    drop(gone);
    fs::write(here.path("file"), "x")?;
    let url = format!("https://{HOST}/f");
    let args = ["--retries", "0", &url, "f"];
    let said = cp(&here, &[("HTTPS_PROXY", variable.as_str())], &args)?;
    fails(&said, 3, &[&format!("proxy {addr}: connect: ")])?;
    for kind in ["socks5", "https"] {
        let variable = format!("{kind}://ann:secret@127.0.0.1");
        let variables = [("ALL_PROXY", variable.as_str())];
        let said = cp(&here, &variables, &args)?;
        let fact = format!("ALL_PROXY: {kind}:// proxies are not supported");
        fails(&said, 2, &[&fact, "http://HOST:PORT"])?;
        ensure!(!said.stderr.contains("secret"), "{}", said.report());
        // Other copies are not behind it.
        cp(&here, &variables, &["file", "copy"])?.ok()?;
    }
    Ok(())
}
