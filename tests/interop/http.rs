//! The `http` driver against curl, lftp and Python's server: GET, PUT, both versions, chunks, TLS,
//! persistent connections.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use workspace_tests::{Daemon, Finished, Peer, Tree, run};
use xio_core::{
    BoxStream, Error, ErrorKind, Incoming, Listener, Passive, Stream, Target, Transport,
};
use xio_http::{Exchange, Http, HttpOptions, Response};
use xio_tcp::Tcp;
use xio_testkit::{Authority, Random};

use crate::bed::LIMIT;

const SIZE: usize = 3_000_017;

fn data() -> Vec<u8> {
    Random::new(31).bytes(SIZE)
}

type Stored = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// A server on a thread of its own; dropping the value ends it.
struct Site {
    addr: SocketAddr,
    stored: Stored,
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl Site {
    fn start(stack: &str) -> Result<Self> {
        let stack = xio::registry().stack(stack)?;
        let (tell, told) = std::sync::mpsc::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let stored = Stored::default();
        let store = Arc::clone(&stored);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let mut listener = stack.listen(&"127.0.0.1:0".parse()?).await?;
                let _ = tell.send(listener.info().local.context("an address")?);
                let serving = async {
                    loop {
                        let peer = listener.accept().await?;
                        let store = Arc::clone(&store);
                        tokio::spawn(async move {
                            let stream = peer.open().await?;
                            serve(stream, &store).await
                        });
                    }
                };
                tokio::select! {
                    ended = serving => ended,
                    _ = stopped => anyhow::Ok(()),
                }
            })
        });
        Ok(Self {
            addr: told.recv().context("the site listens")?,
            stored,
            _stop: stop,
        })
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.addr)
    }

    fn stored(&self, path: &str) -> Option<Vec<u8>> {
        self.stored.lock().ok()?.get(path).cloned()
    }
}

/// Answers one request: serves `/data`, stores the body of a PUT, and replies 404 to other paths.
async fn serve(mut stream: BoxStream, store: &Stored) -> Result<()> {
    let exchange = stream
        .info()
        .get::<Exchange>()
        .context("an exchange")?
        .clone();
    let request = exchange.request().context("a request")?;
    match (request.method.as_str(), request.target.as_str()) {
        ("GET", "/data") => stream.write_all(&data()).await?,
        ("HEAD", "/data") => {
            let mut response = Response::new(200)?;
            response.headers.push("Content-Length", SIZE.to_string())?;
            exchange.reply(response)?;
        }
        ("PUT", _) => {
            let mut body = Vec::new();
            stream.read_to_end(&mut body).await?;
            if let Ok(mut stored) = store.lock() {
                stored.insert(request.target, body);
            }
            exchange.reply(Response::new(201)?)?;
        }
        _ => {
            exchange.reply(Response::new(404)?)?;
            stream.write_all(b"there is no such thing\n").await?;
        }
    }
    stream.shutdown().await?;
    Ok(())
}

/// Runs curl, or returns nothing where it is missing.
fn curl(args: &[&str]) -> Result<Option<Finished>> {
    let Some(mut command) = Peer::Curl.require("interop: http with curl") else {
        return Ok(None);
    };
    command
        .args(["--silent", "--show-error", "--verbose"])
        .args(args);
    run(&mut command, LIMIT).map(Some)
}

#[test]
fn curl_gets() -> Result<()> {
    let (site, local) = (Site::start("tcp,http")?, Tree::new()?);
    let target = local.path("got").display().to_string();
    for version in ["--http1.0", "--http1.1"] {
        if let Some(finished) = curl(&[version, "--output", &target, &site.url("data")])? {
            finished.ok()?;
            ensure!(
                fs::read(local.path("got"))? == data(),
                "{version}: the copy differs"
            );
        }
    }
    Ok(())
}

#[test]
fn curl_requests_the_head() -> Result<()> {
    let site = Site::start("tcp,http")?;
    if let Some(finished) = curl(&["--head", &site.url("data")])? {
        let finished = finished.ok()?;
        let length = format!("Content-Length: {SIZE}");
        ensure!(finished.stdout.contains(&length), "{}", finished.report());
    }
    Ok(())
}

#[test]
fn curl_puts_by_length_and_in_chunks() -> Result<()> {
    let (site, local) = (Site::start("tcp,http")?, Tree::new()?);
    fs::write(local.path("sent"), data())?;
    let sent = local.path("sent").display().to_string();
    for (path, flags) in [
        ("by-length", &["--expect100-timeout", "60"][..]),
        ("by-length-1.0", &["--http1.0"]),
        ("in-chunks", &["--header", "Transfer-Encoding: chunked"]),
    ] {
        let (url, common) = (site.url(path), ["--fail", "--upload-file", &sent]);
        if let Some(finished) = curl(&[flags, &common, &[&url]].concat())? {
            let finished = finished.ok()?;
            ensure!(
                finished.stderr.contains("201 Created"),
                "{}",
                finished.report()
            );
            ensure!(
                site.stored(&format!("/{path}")) == Some(data()),
                "{path}: it differs"
            );
        }
    }
    Ok(())
}

#[test]
fn curl_gets_a_404_for_a_missing_file() -> Result<()> {
    let site = Site::start("tcp,http")?;
    if let Some(finished) = curl(&["--fail", &site.url("nothing")])? {
        let finished = finished.failed()?;
        ensure!(
            finished.stderr.contains("404 Not Found"),
            "{}",
            finished.report()
        );
    }
    Ok(())
}

#[test]
fn curl_gets_and_puts_over_tls() -> Result<()> {
    let local = Tree::new()?;
    let authority = Authority::new("interop authority");
    let ca = authority.write(local.root()).display().to_string();
    let host = authority
        .issue("host", &["127.0.0.1"])
        .write(local.root(), "host");
    let site = Site::start(&format!("tcp,tls:cert={},http", host.display()))?;
    let url = |path: &str| format!("https://{}/{path}", site.addr);
    let target = local.path("got").display().to_string();
    let flags = ["--cacert", &ca, "--http1.1"];
    if let Some(finished) = curl(&[&flags[..], &["--output", &target, &url("data")]].concat())? {
        finished.ok()?;
        ensure!(fs::read(local.path("got"))? == data(), "the copy differs");
    }
    let put = curl(
        &[
            &flags[..],
            &["--fail", "--upload-file", &target, &url("put")],
        ]
        .concat(),
    )?;
    if let Some(finished) = put {
        finished.ok()?;
        ensure!(
            site.stored("/put") == Some(data()),
            "the stored body differs"
        );
    }
    Ok(())
}

#[test]
fn curl_keeps_the_connection() -> Result<()> {
    let mut options = HttpOptions::default();
    options.persistent = true;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let stack = Tcp::default().push(Http::new().with_options(options));
        let mut listener = stack.listen(&"127.0.0.1:0".parse()?).await?;
        let addr = listener.info().local.context("an address")?;
        let urls: Vec<String> = (0..3).map(|i| format!("http://{addr}/{i}")).collect();
        let client = tokio::task::spawn_blocking(move || {
            curl(&urls.iter().map(String::as_str).collect::<Vec<_>>())
        });
        if Peer::Curl.find().is_none() {
            return client.await?.map(|_| ());
        }
        let mut stream = listener.accept().await?.open().await?;
        for round in 0..3 {
            ensure!(
                round == 0 || stream.accept().await?,
                "curl has ended the connection"
            );
            let request = stream.exchange().request().context("a request")?;
            ensure!(request.target == format!("/{round}"));
            stream
                .write_all(format!("answer {round};").as_bytes())
                .await?;
            stream.shutdown().await?;
        }
        ensure!(!stream.accept().await?, "curl sends another request");
        let finished = client.await??.context("curl is there")?.ok()?;
        ensure!(
            finished.stdout == "answer 0;answer 1;answer 2;",
            "{}",
            finished.report()
        );
        Ok(())
    })
}

#[test]
fn lftp_gets() -> Result<()> {
    let Some(mut lftp) = Peer::Lftp.require("interop: http with lftp") else {
        return Ok(());
    };
    let (site, local) = (Site::start("tcp,http")?, Tree::new()?);
    let target = local.path("got").display().to_string();
    let script = format!(
        "set net:max-retries 1; get {} -o {target}",
        site.url("data")
    );
    run(lftp.args(["--norc", "-c", &script]), LIMIT)?.ok()?;
    ensure!(fs::read(local.path("got"))? == data(), "the copy differs");
    Ok(())
}

/// Starts Python's file server over a folder, or the server of `script`.
fn python(folder: &Tree, script: &str) -> Result<Option<Daemon>> {
    let Some(mut command) = Peer::Python.require("interop: http with Python") else {
        return Ok(None);
    };
    let serving = |line: &str| {
        let port = line.split("port ").nth(1)?.split_whitespace().next()?;
        Some(SocketAddr::from(([127, 0, 0, 1], port.parse().ok()?)))
    };
    command.arg("-u").current_dir(folder.root());
    let command = match script {
        "" => command.args(["-m", "http.server", "--bind", "127.0.0.1", "0"]),
        script => command.args(["-c", script]),
    };
    Daemon::start(command, serving).map(Some)
}

fn ours<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async { tokio::time::timeout(LIMIT, work).await? })
}

fn at(addr: SocketAddr, path: &str) -> Result<Target> {
    Ok(format!("http://{addr}/{path}").parse()?)
}

#[test]
fn get_from_python() -> Result<()> {
    let tree = Tree::new()?;
    fs::create_dir(tree.path("a dir"))?;
    fs::write(tree.path("a dir/the file"), data())?;
    let Some(server) = python(&tree, "")? else {
        return Ok(());
    };
    for options in ["", ":version=1.0", ":delay_write_header=1"] {
        let stack = xio::registry().stack(&format!("tcp,http{options}"))?;
        ours(async {
            let mut stream = stack.connect(&at(server.addr(), "a dir/the file")?).await?;
            let mut got = Vec::new();
            stream.read_to_end(&mut got).await?;
            ensure!(got == data(), "the copy differs");
            let exchange = stream
                .info()
                .get::<Exchange>()
                .context("an exchange")?
                .clone();
            let response = exchange.response().context("a response")?;
            ensure!(response.headers.get("content-length") == Some(&*SIZE.to_string()));
            for (path, kind) in [
                ("nothing", ErrorKind::NotFound),
                ("a dir", ErrorKind::Unsupported),
            ] {
                let mut stream = stack.connect(&at(server.addr(), path)?).await?;
                let error = stream.read_to_end(&mut Vec::new()).await.expect_err(path);
                let error = Error::layer_of(&error).context("an error of ours")?;
                ensure!(error.kind() == kind, "{path}: {error}");
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// A server that stores the body of a PUT, by length or in chunks, and answers with its size.
const KEEPER: &str = r#"
import http.server
class Keeper(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_PUT(self):
        body = b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                body += self.rfile.read(size)
                self.rfile.readline()
                if size == 0:
                    break
        else:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        open(self.path[1:], "wb").write(body)
        answer = str(len(body)).encode()
        self.send_response(201)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
server = http.server.HTTPServer(("127.0.0.1", 0), Keeper)
print("port", server.server_address[1])
server.serve_forever()
"#;

#[test]
fn put_to_python() -> Result<()> {
    let tree = Tree::new()?;
    let Some(server) = python(&tree, KEEPER)? else {
        return Ok(());
    };
    for (path, options) in [
        ("chunked", "method=PUT".to_owned()),
        ("length", format!("method=PUT;length={SIZE}")),
        ("old", format!("method=PUT;version=1.0;length={SIZE}")),
    ] {
        let stack = xio::registry().stack(&format!("tcp,http:{options}"))?;
        ours(async {
            let mut stream = stack.connect(&at(server.addr(), path)?).await?;
            for block in data().chunks(100_000) {
                stream.write_all(block).await?;
            }
            stream.shutdown().await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            ensure!(answer == SIZE.to_string(), "{path}: {answer}");
            ensure!(
                fs::read(tree.path(path))? == data(),
                "{path}: the stored body differs"
            );
            Ok(())
        })?;
    }
    Ok(())
}
