//! OpenSSL's `s_server` and `s_client` against the `tls` driver: versions, directions,
//! certificates, resumption.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use workspace_tests::Openssl;
use xio_core::{
    BoxStream, DynStack, Error, Incoming, Listener, Passive, Stream, Target, Transport,
};
use xio_testkit::{Authority, Random};
use xio_tls::TlsInfo;

use crate::bed::LIMIT;

const SUITE: &str = "interop: tls with openssl";
/// Many records, and no multiple of a record.
const BULK: usize = 3_000_017;
/// Fits into a pipe, so that neither end blocks.
const LITTLE: usize = 50_000;

/// Certificates of one authority, and a folder for sent and received data.
struct Bed {
    folder: tempfile::TempDir,
    ca: String,
    host: String,
    user: String,
}

impl Bed {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let authority = Authority::new("interop authority");
        let text = |path: PathBuf| path.display().to_string();
        Ok(Self {
            ca: text(authority.write(folder.path())),
            host: text(
                authority
                    .issue("host", &["localhost"])
                    .write(folder.path(), "host"),
            ),
            user: text(
                authority
                    .issue("user one", &[])
                    .write(folder.path(), "user"),
            ),
            folder,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file whose bytes follow from `seed`.
    fn file(&self, name: &str, size: usize, seed: u64) -> Result<(PathBuf, Vec<u8>)> {
        let bytes = Random::new(seed).bytes(size);
        fs::write(self.path(name), &bytes)?;
        Ok((self.path(name), bytes))
    }

    fn stack(&self, options: &str) -> Result<DynStack> {
        Ok(xio::registry().stack(&format!("tcp,tls:ca={};{options}", self.ca))?)
    }
}

/// Runs our end, within a limit.
fn run<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async { tokio::time::timeout(LIMIT, work).await? })
}

fn info(stream: &BoxStream) -> Result<TlsInfo> {
    stream
        .info()
        .get::<TlsInfo>()
        .cloned()
        .context("the stack has a tls layer")
}

fn is_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let got = fs::read(path)?;
    ensure!(
        got == bytes,
        "{} bytes arrived of {}",
        got.len(),
        bytes.len()
    );
    Ok(())
}

/// Our end connects, both ends send, and both get the other's `close_notify`.
fn connects(openssl: &[&str], ours: &str, version: &str) -> Result<()> {
    let bed = Bed::new()?;
    let args = [&["-cert", &bed.host, "-CAfile", &bed.ca][..], openssl].concat();
    let received = bed.path("received");
    let Some(mut server) = Openssl::serve(SUITE, 1, &args, &received)? else {
        return Ok(());
    };
    let sent = Random::new(1).bytes(BULK);
    let back = Random::new(2).bytes(LITTLE);
    // The data waits in the pipe until a client connects.
    let mut stdin = server.stdin().context("a pipe")?;
    stdin.write_all(&back)?;
    let stack = bed.stack(&format!("name=localhost{ours}"))?;
    run(async {
        let mut stream = stack.connect(&Target::from(server.addr())).await?;
        ensure!(info(&stream)?.version == version, "{:?}", info(&stream)?);
        ensure!(info(&stream)?.peer_subject.as_deref() == Some("CN=host"));
        stream.write_all(&sent).await?;
        stream.flush().await?;
        let mut got = vec![0; back.len()];
        stream.read_exact(&mut got).await?;
        ensure!(got == back, "the received data differs");
        stream.shutdown().await?;
        let mut rest = Vec::new();
        stream
            .read_to_end(&mut rest)
            .await
            .context("the end of the peer")?;
        ensure!(rest.is_empty());
        Ok(())
    })?;
    server.wait(LIMIT)?;
    is_whole(&received, &sent)
}

#[test]
fn connect_with_1_3() -> Result<()> {
    connects(&["-tls1_3"], "", "TLS 1.3")
}

#[test]
fn connect_with_1_2() -> Result<()> {
    connects(&["-tls1_2"], "", "TLS 1.2")
}

#[test]
fn connect_with_1_2_and_a_session_id() -> Result<()> {
    connects(
        &[
            "-tls1_2",
            "-no_ticket",
            "-cipher",
            "ECDHE-ECDSA-CHACHA20-POLY1305",
        ],
        "",
        "TLS 1.2",
    )
}

#[test]
fn connect_with_a_client_certificate() -> Result<()> {
    let bed = Bed::new()?;
    for version in ["-tls1_2", "-tls1_3"] {
        let args = [
            "-cert",
            &bed.host,
            "-CAfile",
            &bed.ca,
            "-Verify",
            "1",
            "-verify_return_error",
            version,
        ];
        let Some(mut server) = Openssl::serve(SUITE, 2, &args, &bed.path("received"))? else {
            return Ok(());
        };
        let known = bed.stack(&format!("name=localhost;cert={}", bed.user))?;
        let bare = bed.stack("name=localhost")?;
        run(async {
            let mut stream = known.connect(&Target::from(server.addr())).await?;
            stream.write_all(b"known\n").await?;
            stream.shutdown().await?;
            stream.read_to_end(&mut Vec::new()).await?;
            // In TLS 1.3 the refusal comes after the handshake.
            let refused = match bare.connect(&Target::from(server.addr())).await {
                Err(error) => error.to_string(),
                Ok(mut stream) => match stream.read_to_end(&mut Vec::new()).await {
                    Err(error) => error.to_string(),
                    Ok(_) => "no refusal".to_owned(),
                },
            };
            ensure!(refused.contains("certificate"), "{version}: {refused}");
            Ok(())
        })?;
        server.wait(LIMIT)?;
        is_whole(&bed.path("received"), b"known\n")?;
    }
    Ok(())
}

#[test]
fn a_client_session_is_resumed() -> Result<()> {
    for (version, name) in [("-tls1_2", "TLS 1.2"), ("-tls1_3", "TLS 1.3")] {
        let bed = Bed::new()?;
        let args = ["-cert", &bed.host, version];
        let Some(mut server) = Openssl::serve(SUITE, 3, &args, &bed.path("received"))? else {
            return Ok(());
        };
        let stack = bed.stack("name=localhost")?;
        let seen = run(async {
            let mut seen = Vec::new();
            for _ in 0..3 {
                let mut stream = stack.connect(&Target::from(server.addr())).await?;
                ensure!(info(&stream)?.version == name);
                seen.push(info(&stream)?.resumed);
                stream.write_all(b"x\n").await?;
                stream.shutdown().await?;
                stream.read_to_end(&mut Vec::new()).await?;
            }
            Ok(seen)
        })?;
        ensure!(seen == [false, true, true], "{name}: {seen:?}");
        server.wait(LIMIT)?;
    }
    Ok(())
}

#[test]
fn a_killed_server_is_an_error() -> Result<()> {
    let bed = Bed::new()?;
    let Some(server) = Openssl::serve(SUITE, 1, &["-cert", &bed.host], &bed.path("received"))?
    else {
        return Ok(());
    };
    let stack = bed.stack("name=localhost")?;
    run(async {
        let mut stream = stack.connect(&Target::from(server.addr())).await?;
        stream.write_all(b"x\n").await?;
        drop(server);
        let error = stream
            .read_to_end(&mut Vec::new())
            .await
            .expect_err("there was no close_notify");
        ensure!(Error::layer_of(&error).is_some(), "{error}");
        Ok(())
    })
}

/// `s_client` connects, both ends send, and it gets our `close_notify`.
fn listens(openssl: &[&str], ours: &str, version: &str) -> Result<Option<TlsInfo>> {
    let bed = Bed::new()?;
    let (sent_from, sent) = bed.file("sent", BULK, 3)?;
    let back = Random::new(4).bytes(BULK);
    let received = bed.path("received");
    let stack = bed.stack(&format!("cert={}{ours}", bed.host))?;
    let args = [
        &[
            "-CAfile",
            &bed.ca,
            "-verify_return_error",
            "-verify_hostname",
            "localhost",
        ][..],
        openssl,
    ]
    .concat();
    let user = ["-cert", &bed.user];
    let args = if ours.contains("client_cert") {
        [&args[..], &user].concat()
    } else {
        args
    };
    let seen = run(async {
        let mut listener = stack.listen(&"127.0.0.1:0".parse()?).await?;
        let addr = listener.info().local.context("an address")?;
        let Some(mut client) = Openssl::connect(SUITE, addr, &args, &sent_from, &received)? else {
            return Ok(None);
        };
        let mut stream = listener.accept().await?.open().await?;
        let seen = info(&stream)?;
        ensure!(seen.version == version, "{seen:?}");
        let mut got = vec![0; sent.len()];
        stream.read_exact(&mut got).await?;
        ensure!(got == sent, "the received data differs");
        stream.write_all(&back).await?;
        stream.shutdown().await?;
        stream
            .read_to_end(&mut Vec::new())
            .await
            .context("the end of the peer")?;
        ensure!(client.wait(LIMIT)?, "s_client failed");
        Ok(Some(seen))
    })?;
    if seen.is_some() {
        is_whole(&received, &back)?;
    }
    Ok(seen)
}

#[test]
fn listen_with_1_3() -> Result<()> {
    listens(&["-tls1_3"], "", "TLS 1.3").map(|_| ())
}

#[test]
fn listen_with_1_2() -> Result<()> {
    listens(&["-tls1_2"], "", "TLS 1.2").map(|_| ())
}

#[test]
fn listen_with_a_required_client_certificate() -> Result<()> {
    for (flag, version) in [("-tls1_2", "TLS 1.2"), ("-tls1_3", "TLS 1.3")] {
        if let Some(seen) = listens(&[flag], ";client_cert=required", version)? {
            ensure!(
                seen.peer_subject.as_deref() == Some("CN=user one"),
                "{seen:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn listen_with_alpn() -> Result<()> {
    let seen = listens(&["-alpn", "h2,ftp"], ";alpn=ftp", "TLS 1.3")?;
    ensure!(seen.is_none_or(|seen| seen.alpn.as_deref() == Some("ftp")));
    Ok(())
}

#[test]
fn a_server_session_is_resumed() -> Result<()> {
    for flag in ["-tls1_2", "-tls1_3"] {
        let bed = Bed::new()?;
        let (sent_from, _) = bed.file("sent", 10, 5)?;
        let session = bed.path("session").display().to_string();
        let stack = bed.stack(&format!("cert={}", bed.host))?;
        let seen = run(async {
            let mut listener = stack.listen(&"127.0.0.1:0".parse()?).await?;
            let addr = listener.info().local.context("an address")?;
            let mut seen = Vec::new();
            for option in ["-sess_out", "-sess_in"] {
                let args = ["-CAfile", &bed.ca, flag, option, &session];
                let received = bed.path("received");
                let client = Openssl::connect(SUITE, addr, &args, &sent_from, &received)?;
                let Some(mut client) = client else {
                    return Ok(None);
                };
                let mut stream = listener.accept().await?.open().await?;
                seen.push(info(&stream)?.resumed);
                stream.read_exact(&mut [0; 10]).await?;
                stream.write_all(b"x").await?;
                stream.shutdown().await?;
                stream.read_to_end(&mut Vec::new()).await?;
                client.wait(LIMIT)?;
            }
            Ok(Some(seen))
        })?;
        ensure!(seen.is_none_or(|seen| seen == [false, true]), "{flag}");
    }
    Ok(())
}

/// An end without `close_notify` is an error, unless the option allows it.
#[test]
fn an_end_without_close_notify() -> Result<()> {
    let bed = Bed::new()?;
    let (sent_from, _) = bed.file("sent", 10, 6)?;
    for (option, clean) in [("", false), (";close_notify=optional", true)] {
        let stack = bed.stack(&format!("cert={}{option}", bed.host))?;
        run(async {
            let mut listener = stack.listen(&"127.0.0.1:0".parse()?).await?;
            let addr = listener.info().local.context("an address")?;
            let relay = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
            let received = bed.path("received");
            let to = relay.local_addr()?;
            let Some(_client) =
                Openssl::connect(SUITE, to, &["-CAfile", &bed.ca], &sent_from, &received)?
            else {
                return Ok(());
            };
            let arrived = Notify::new();
            // The relay closes the TCP connection without an end of TLS, as a middlebox would.
            let (mut theirs, _) = relay.accept().await?;
            let mut ours = TcpStream::connect(addr).await?;
            let relaying = async {
                let mut buf = [0; 4096];
                let mut back = [0; 4096];
                loop {
                    tokio::select! {
                        n = theirs.read(&mut buf) => ours.write_all(&buf[..n?]).await?,
                        n = ours.read(&mut back) => theirs.write_all(&back[..n?]).await?,
                        () = arrived.notified() => break,
                    }
                }
                ours.shutdown().await?;
                anyhow::Ok(())
            };
            let reading = async {
                let mut stream = listener.accept().await?.open().await?;
                stream.read_exact(&mut [0; 10]).await?;
                arrived.notify_one();
                let ended = stream.read_to_end(&mut Vec::new()).await;
                ensure!(ended.is_ok() == clean, "{option}: {ended:?}");
                Ok(())
            };
            let (relayed, read) = tokio::join!(relaying, reading);
            relayed?;
            read
        })?;
    }
    Ok(())
}
