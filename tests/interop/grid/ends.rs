//! Our ends of Grid security against the Globus server: the login with delegation, and data
//! channels in every protection and direction.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use gsi::certificate::ProxyRights;
use gsi::credential::Credential;
use gsi::exchange::Delegation;
use gsi::host::{Expected, Host as Name};
use gsi::proxy::ProxyOptions;
use gsi::trust::TrustOptions;
use rustls::pki_types::UnixTime;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use workspace_tests::{Finished, GridLab, Peer, run};
use xio::gsi::{
    AdatError, CredentialFiles, Established, Gsi, GssapiAcceptor, GssapiInitiator, GssapiStream,
    Judge, KeyPool, Level, TrustDirectory,
};
use xio_core::{BoxStream, Incoming, Listener, Passive, Target, Transport};
use xio_tcp::Tcp;
use xio_testkit::Random;

use crate::bed::LIMIT;

const SUITE: &str = "interop: Grid security with the Globus server";
const TLS12: (&str, &str) = ("GLOBUS_GSSAPI_MAX_TLS_PROTOCOL", "TLS1_2_VERSION");
/// Many records, and no multiple of one.
const SIZE: usize = 300_017;

pub(super) fn judge(lab: &GridLab) -> Result<Judge> {
    let trust = TrustDirectory::open(lab.grid().certificates(), TrustOptions::default())?;
    Ok(Judge::from(Arc::new(trust)))
}

/// Lines of a control channel, in clear or not.
pub(super) struct Session<S>(pub(super) S);

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    pub(super) async fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            line.push(self.0.read_u8().await?);
        }
        Ok(String::from_utf8(line)?)
    }

    /// Reads a reply whole.
    pub(super) async fn reply(&mut self) -> Result<String> {
        let mut text = String::new();
        loop {
            let line = self.line().await?;
            text.push_str(&line);
            let (code, mark) = line.split_at_checked(3).context("a short line")?;
            if mark.starts_with(' ') && code.bytes().all(|byte| byte.is_ascii_digit()) {
                return Ok(text);
            }
        }
    }

    pub(super) async fn command(&mut self, line: &str, expected: &str) -> Result<String> {
        self.0.write_all(format!("{line}\r\n").as_bytes()).await?;
        self.0.flush().await?;
        let reply = self.reply().await?;
        ensure!(reply.starts_with(expected), "{line}: {reply}");
        Ok(reply)
    }
}

/// Connects and authenticates by this credential.
pub(super) async fn authenticate(
    lab: &GridLab,
    addr: SocketAddr,
    credential: Credential,
    delegation: Delegation,
) -> Result<Established<BoxStream>> {
    let stream = xio::registry().stack("tcp")?;
    let mut clear = Session(stream.connect(&Target::from(addr)).await?);
    let banner = clear.reply().await?;
    ensure!(banner.starts_with("220"), "{banner}");
    clear.command("AUTH GSSAPI", "334 ").await?;
    let initiator = GssapiInitiator::new(credential, judge(lab)?)?.delegation(delegation);
    let expected = Expected::Host(Name::new("localhost"));
    let deadline = tokio::time::Instant::now() + LIMIT;
    let made = initiator.initiate(clear.0, "localhost", expected, deadline);
    Ok(made.await.map_err(|refused| refused.error)?)
}

/// Connects, authenticates and logs in.
pub(super) async fn login(
    lab: &GridLab,
    addr: SocketAddr,
    delegation: Delegation,
) -> Result<Session<GssapiStream<BoxStream>>> {
    let proxy = lab.proxy(&ProxyOptions::default());
    let established = authenticate(lab, addr, proxy, delegation).await?;
    ensure!(established.peer.identity.to_string() == "/O=Grid/OU=Lab/CN=localhost");
    let mut session = Session(established.stream);
    session.command("USER :globus-mapping:", "331").await?;
    session.command("PASS dummy", "230").await?;
    Ok(session)
}

pub(super) async fn limited<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(LIMIT, work).await?
}

/// Logins under TLS 1.3 and 1.2.
#[tokio::test]
async fn we_log_in_at_the_globus_server() -> Result<()> {
    let lab = GridLab::new()?;
    let root = tempfile::tempdir()?;
    for variables in [&[][..], &[TLS12]] {
        let Some(server) = lab.globus(root.path(), variables, SUITE)? else {
            return Ok(());
        };
        for delegation in [Delegation::None, Delegation::Limited, Delegation::Full] {
            let work = async {
                let mut session = login(&lab, server.addr(), delegation).await?;
                let features = session.command("FEAT", "211").await?;
                ensure!(features.contains("DCAU"), "{features}");
                session.command("PWD", "257").await?;
                session.command("QUIT", "221").await?;
                Ok(())
            };
            let done = limited(work).await;
            done.with_context(|| format!("{variables:?} {delegation:?}: {}", server.output()))?;
        }
    }
    Ok(())
}

/// Serves one session of a client by this credential of the host up to the login, which it refuses.
/// Returns the exchange and the client's run.
pub(super) async fn served(
    lab: &GridLab,
    host: &Credential,
    client: impl FnOnce(u16) -> Result<Command>,
) -> Result<(Result<Established<BoxStream>, AdatError>, Finished)> {
    let acceptor = GssapiAcceptor::new(host, judge(lab)?, Arc::new(KeyPool::new(1)?))?;
    let stack = xio::registry().stack("tcp")?;
    let mut listener = stack.listen(&"127.0.0.1:0".parse()?).await?;
    let mut client = client(listener.info().local_addr()?.port())?;
    let client = tokio::task::spawn_blocking(move || run(&mut client, LIMIT));
    let accepted = limited(async {
        let mut clear = Session(listener.accept().await?.open().await?);
        clear.0.write_all(b"220 Lab ready.\r\n").await?;
        let auth = clear.line().await?;
        ensure!(auth == "AUTH GSSAPI\r\n", "{auth}");
        let proceed = b"334 Using authentication type; ADAT must follow.\r\n";
        clear.0.write_all(proceed).await?;
        let deadline = tokio::time::Instant::now() + LIMIT;
        let mut accepted = match acceptor.accept(clear.0, deadline).await {
            Ok(accepted) => accepted,
            Err(refused) => return Ok(Err(refused.error)),
        };
        let mut session = Session(&mut accepted.stream);
        let user = session.line().await?;
        ensure!(user == "USER :globus-mapping:\r\n", "{user}");
        let refusal = b"530-No account\r\n530 End.\r\n";
        session.0.write_all(refusal).await?;
        session.0.shutdown().await?;
        Ok(Ok(accepted))
    });
    let accepted = accepted.await?;
    Ok((accepted, client.await??))
}

/// Opens a data channel for one command, passively or actively, and returns it.
pub(super) async fn channel(
    session: &mut Session<GssapiStream<BoxStream>>,
    gsi: Gsi,
    passive: bool,
    command: &str,
) -> Result<BoxStream> {
    let stack = Tcp::default().push(gsi);
    if passive {
        let reply = session.command("PASV", "227").await?;
        let numbers = reply.split(['(', ')']).nth(1).context("no address")?;
        let numbers: Vec<&str> = numbers.split(',').collect();
        let &[.., high, low] = numbers.as_slice() else {
            bail!("{reply}");
        };
        let port = high.parse::<u16>()? * 256 + low.parse::<u16>()?;
        let at = Target::from(SocketAddr::from(([127, 0, 0, 1], port)));
        session.0.write_all(command.as_bytes()).await?;
        session.0.flush().await?;
        return Ok(stack.connect(&at).await?);
    }
    let mut listener = stack.listen(&"127.0.0.1:0".parse()?).await?;
    let port = listener.info().local_addr()?.port();
    let port = format!("PORT 127,0,0,1,{},{}", port >> 8, port & 0xff);
    session.command(&port, "200").await?;
    session.0.write_all(command.as_bytes()).await?;
    session.0.flush().await?;
    Ok(listener.accept().await?.open().await?)
}

/// Traps 1 to 3, 5 and 12 of Grid security: `PROT C`, `S` and `P`, both TLS roles, both
/// directions, TLS 1.3 and 1.2.
#[tokio::test]
async fn data_channels_of_the_globus_server() -> Result<()> {
    let lab = GridLab::new()?;
    let root = tempfile::tempdir()?;
    let bytes = Random::new(10).bytes(SIZE);
    fs::write(root.path().join("source"), &bytes)?;
    for variables in [&[][..], &[TLS12]] {
        let Some(server) = lab.globus(root.path(), variables, SUITE)? else {
            return Ok(());
        };
        let work = async {
            let mut session = login(&lab, server.addr(), Delegation::Limited).await?;
            session.command("PBSZ 1048576", "200").await?;
            session.command("TYPE I", "200").await?;
            for (letter, level) in [
                ("C", Level::Clear),
                ("S", Level::Safe),
                ("P", Level::Private),
            ] {
                session.command(&format!("PROT {letter}"), "200").await?;
                for passive in [true, false] {
                    let proxy = lab.proxy(&ProxyOptions::default());
                    let gsi = Gsi::new(&proxy, judge(&lab)?)?.level(level);
                    let source = server.path("source");
                    let get = format!("RETR {}\r\n", source.display());
                    let mut data = channel(&mut session, gsi.clone(), passive, &get).await?;
                    let mut received = Vec::new();
                    data.read_to_end(&mut received).await?;
                    finished(&mut session).await?;
                    ensure!(
                        received == bytes,
                        "{letter} {passive}: other bytes received"
                    );

                    let name = format!("put-{letter}-{passive}-{}", variables.len());
                    let put = format!("STOR {}\r\n", server.path(&name).display());
                    let mut data = channel(&mut session, gsi, passive, &put).await?;
                    data.write_all(&bytes).await?;
                    data.shutdown().await?;
                    finished(&mut session).await?;
                    drop(data);
                    let stored = fs::read(server.path(&name))?;
                    ensure!(stored == bytes, "{letter} {passive}: other bytes stored");
                }
            }
            Ok(())
        };
        let done = limited(work).await;
        done.with_context(|| format!("{variables:?}: {}", server.output()))?;
    }
    Ok(())
}

/// Reads the replies of a transfer.
async fn finished(session: &mut Session<GssapiStream<BoxStream>>) -> Result<()> {
    loop {
        let reply = session.reply().await?;
        match reply.get(..1) {
            Some("1") => {}
            Some("2") => return Ok(()),
            _ => bail!("{reply}"),
        }
    }
}

/// Another identity than one's own is refused by the server, with its words.
#[tokio::test]
async fn the_globus_server_refuses_another_identity() -> Result<()> {
    let lab = GridLab::new()?;
    let root = tempfile::tempdir()?;
    fs::write(root.path().join("source"), "bytes")?;
    let Some(server) = lab.globus(root.path(), &[], SUITE)? else {
        return Ok(());
    };
    limited(async {
        let mut session = login(&lab, server.addr(), Delegation::Limited).await?;
        let bob = lab.grid().user("Bob Lab");
        let gsi = Gsi::new(&bob, judge(&lab)?)?.expect(xio::gsi::Expect::Subject(lab.identity()));
        session.command("PROT P", "200").await?;
        let get = format!("RETR {}\r\n", server.path("source").display());
        // The client of TLS 1.3 is done before the server has looked at its certificate.
        if let Ok(mut data) = channel(&mut session, gsi, true, &get).await {
            let mut received = Vec::new();
            let _ = data.read_to_end(&mut received).await;
            ensure!(received.is_empty(), "the file was sent to another user");
        }
        let reply = session.reply().await?;
        ensure!(reply.contains("The peer authenticated as"), "{reply}");
        Ok(())
    })
    .await
}

/// `globus-url-copy` logs in at our end and delegates a limited proxy, under
/// TLS 1.3 and 1.2. The rest of the session is up to the server.
#[tokio::test]
async fn globus_url_copy_logs_in_at_our_end() -> Result<()> {
    let lab = GridLab::new()?;
    let host = CredentialFiles::pair(lab.path("hostcert.pem"), lab.path("hostkey.pem"));
    let host = host.read(rustix::process::geteuid().as_raw(), UnixTime::now())?;
    for variables in [&[][..], &[TLS12]] {
        let Some(mut command) = Peer::GlobusUrlCopy.require(SUITE) else {
            return Ok(());
        };
        lab.login(&mut command).envs(variables.iter().copied());
        let client = |port| {
            command.args(["-list", &format!("gsiftp://localhost:{port}/")]);
            Ok(command)
        };
        let (accepted, finished) = served(&lab, &host, client).await?;
        let accepted = accepted.with_context(|| format!("{variables:?}"))?;
        ensure!(accepted.peer.identity.to_string() == lab.identity());
        let delegated = accepted.delegated.context("nothing was delegated")?;
        let proxy = delegated.certificate().proxy().context("no proxy")?;
        ensure!(proxy.rights == ProxyRights::Limited, "{proxy:?}");
        ensure!(delegated.identity().to_string() == lab.identity());
        let told = format!("{finished:?}");
        ensure!(told.contains("No account"), "{told}");
    }
    Ok(())
}
