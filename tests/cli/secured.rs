//! TLS of control and data connections: certificates, and servers and third parties that break it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll};

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use workspace_tests::{Finished, Host, Tree, binary, run, same_file, same_tree};
use xio_core::{BoxStream, Info, Stream, Transform as _};
use xio_testkit::{Authority, Credential, Validity};
use xio_tls::{Identity, Roots, Tls};

use crate::{LIMIT, cp_in, fails};

/// The file of the server, longer than a record of TLS.
const FILE: &[u8] = &[7; 40_000];

/// The fault of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Refuses `AUTH`, as a third party on the way would.
    Stripped,
    /// Sends a reply in clear text behind that to `AUTH`.
    Injected,
    /// Sends nothing behind the reply to `AUTH`.
    Silent,
    /// Closes data connections without the end mark of TLS.
    Cut,
}

/// A TCP stream that is closed, and not reset, when it is dropped.
struct Plain(TcpStream);

impl AsyncRead for Plain {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Plain {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl Stream for Plain {
    fn describe(&self, _: &mut Info) {}
}

/// A server with one file at every path; it ends with its runtime.
struct Server {
    addr: SocketAddr,
    commands: Arc<Mutex<Vec<String>>>,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    fn start(host: IpAddr, tls: Tls, fault: Fault) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let listener = runtime.block_on(TcpListener::bind((host, 0)))?;
        let addr = listener.local_addr()?;
        let commands = Arc::<Mutex<Vec<_>>>::default();
        let (tls, log) = (Arc::new(tls), Arc::clone(&commands));
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, log) = (Arc::clone(&tls), Arc::clone(&log));
                tokio::spawn(async move { converse(stream, &tls, fault, &log).await });
            }
        });
        Ok(Self {
            addr,
            commands,
            _runtime: runtime,
        })
    }

    /// The URL of a file, with this text before the host and the port.
    fn url(&self, start: &str) -> String {
        format!("{start}:{}/file", self.addr.port())
    }

    /// The commands so far but `QUIT`.
    fn commands(&self) -> Vec<String> {
        let commands = self.commands.lock();
        let mut commands = commands.unwrap_or_else(PoisonError::into_inner).clone();
        commands.retain(|command| command != "QUIT");
        commands
    }

    fn clear(&self) {
        let commands = self.commands.lock();
        commands.unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Serves one control connection.
async fn converse(
    stream: TcpStream,
    tls: &Tls,
    fault: Fault,
    log: &Mutex<Vec<String>>,
) -> Result<()> {
    let here = stream.local_addr()?;
    let mut control: BoxStream = Box::new(Plain(stream));
    let (mut listener, mut protected) = (None, false);
    control.write_all(b"220 ready\r\n").await?;
    loop {
        let line = read_line(&mut control).await?;
        let verb = line.split(' ').next().unwrap_or_default().to_owned();
        protected |= line == "PROT P";
        log.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line.clone());
        let reply = match verb.as_str() {
            "AUTH" => match fault {
                Fault::Stripped => "500 AUTH not understood".to_owned(),
                Fault::Injected => "234 go on\r\n230 you are in".to_owned(),
                _ => "234 go on".to_owned(),
            },
            "USER" => "331 password".to_owned(),
            "PASS" => "230 in".to_owned(),
            "FEAT" => "211-features\r\n SIZE\r\n211 end".to_owned(),
            "SIZE" => format!("213 {}", FILE.len()),
            "PBSZ" | "PROT" | "TYPE" => "200 ok".to_owned(),
            "PASV" => {
                let data = TcpListener::bind((here.ip(), 0)).await?;
                let port = data.local_addr()?.port();
                listener = Some(data);
                let host = here.ip().to_string().replace('.', ",");
                format!("227 here ({host},{},{})", port >> 8, port & 0xff)
            }
            "RETR" | "LIST" => {
                control.write_all(b"150 comes\r\n").await?;
                let data = listener.take().context("no PASV")?;
                let (data, _) = data.accept().await?;
                let mut data: BoxStream = match protected {
                    true => Box::new(tls.respond(Plain(data)).await?),
                    false => Box::new(Plain(data)),
                };
                let bytes = match verb.as_str() {
                    "LIST" => b"-rw-r--r-- 1 a a 5 Jan  1 2020 file\r\n",
                    _ => FILE,
                };
                data.write_all(bytes).await?;
                match fault {
                    Fault::Cut => data.flush().await?,
                    _ => data.shutdown().await?,
                }
                "226 done".to_owned()
            }
            "QUIT" => "221 bye".to_owned(),
            _ => "500 what?".to_owned(),
        };
        control.write_all(format!("{reply}\r\n").as_bytes()).await?;
        if verb == "AUTH" && fault != Fault::Stripped {
            if fault == Fault::Silent {
                std::future::pending::<()>().await;
            }
            control = Box::new(tls.respond(control).await?);
        }
    }
}

async fn read_line(stream: &mut BoxStream) -> Result<String> {
    let mut line = Vec::new();
    loop {
        match stream.read_u8().await? {
            b'\n' => return Ok(String::from_utf8_lossy(&line).trim_end().to_owned()),
            byte => line.push(byte),
        }
    }
}

/// A server with this certificate, and a tree with its authority in `ca.pem`.
struct Bed {
    tree: Tree,
    server: Server,
}

impl Bed {
    /// A server on the loopback address with a valid certificate for it.
    fn new(fault: Fault) -> Result<Self> {
        let authority = Authority::new("test authority");
        let own = authority.issue("host", &["127.0.0.1"]);
        Self::with(&authority, &own, fault)
    }

    fn with(trusted: &Authority, own: &Credential, fault: Fault) -> Result<Self> {
        Self::on(Ipv4Addr::LOCALHOST.into(), trusted, own, fault)
    }

    fn on(host: IpAddr, trusted: &Authority, own: &Credential, fault: Fault) -> Result<Self> {
        let tree = Tree::new()?;
        drop(trusted.write(tree.root()));
        let tls = Tls::server(identity(own)?).build()?;
        let server = Server::start(host, tls, fault)?;
        Ok(Self { tree, server })
    }

    fn cp(&self, args: &[&str]) -> Result<Finished> {
        let common = ["--retries", "0", "--ca", "ca.pem"];
        cp_in(&self.tree, &[&common, args].concat())
    }

    /// Downloads the file to `out`.
    fn get(&self, flags: &[&str]) -> Result<Finished> {
        let url = self.server.url("ftps://ann:secret@127.0.0.1");
        self.cp(&[flags, &[&url, "out"]].concat())
    }
}

fn identity(own: &Credential) -> Result<Identity> {
    let (certificate, key) = (own.certificate.as_bytes(), own.key.as_bytes());
    Ok(Identity::pem(certificate, key)?)
}

#[test]
fn the_protection_of_both_channels_is_told() -> Result<()> {
    let bed = Bed::new(Fault::None)?;
    let told = bed.get(&["-v"])?.ok()?;
    let line = "control TLS 1.3 TLS13_AES_256_GCM_SHA384, data private";
    ensure!(told.stderr.contains(line), "{}", told.report());
    ensure!(std::fs::read(bed.tree.path("out"))? == FILE);
    let commands = bed.server.commands();
    ensure!(
        commands.starts_with(&["AUTH TLS", "PBSZ 0", "PROT P", "USER ann"].map(str::to_owned)),
        "{commands:?}"
    );
    let told = bed.get(&["--json"])?.ok()?.stdout;
    ensure!(
        told.contains(r#""control":"TLS 1.3 TLS13_AES_256_GCM_SHA384","data":"private""#),
        "{told}"
    );
    Ok(())
}

#[test]
fn a_server_with_a_wrong_certificate_is_not_told_the_account() -> Result<()> {
    let (authority, stranger) = (Authority::new("ours"), Authority::new("a stranger's"));
    let host = ["127.0.0.1"];
    for (own, needles) in [
        (
            stranger.issue("host", &host),
            ["authority that is not trusted", "--ca FILE or FOLDER"],
        ),
        (
            authority.issue("host", &["other.example.org"]),
            ["not for 127.0.0.1 but for", "the URL must name the host"],
        ),
        (
            authority.issue_valid("host", &host, Validity::Expired),
            ["expired", "must renew it"],
        ),
        (
            authority.issue_valid("host", &host, Validity::NotYet),
            ["becomes valid in", "unless this clock is wrong"],
        ),
    ] {
        let bed = Bed::with(&authority, &own, Fault::None)?;
        fails(&bed.get(&[])?, 3, &needles)?;
        ensure!(bed.server.commands() == ["AUTH TLS"]);
        ensure!(!bed.tree.path("out").exists());
    }
    Ok(())
}

#[test]
fn a_server_that_asks_for_a_certificate_gets_it() -> Result<()> {
    let authority = Authority::new("test authority");
    let own = authority.issue("host", &["127.0.0.1"]);
    let tree = Tree::new()?;
    drop(authority.write(tree.root()));
    drop(authority.issue("ann", &[]).write(tree.root(), "ann"));
    let tls = Tls::server(identity(&own)?)
        .require_client_certificates(Roots::pem(authority.pem().as_bytes())?)
        .build()?;
    let server = Server::start(Ipv4Addr::LOCALHOST.into(), tls, Fault::None)?;
    let bed = Bed { tree, server };
    bed.get(&["--cert", "ann.pem"])?.ok()?;
    let needle = "it requires a certificate of us";
    fails(&bed.get(&[])?, 3, &[needle])?;
    fails(&bed.get(&["--key", "ann.pem"])?, 2, &["--cert"])
}

/// Whether the server has no TLS, or a third party took `AUTH` out of the conversation, is all the
/// same: the features that are listed do not matter.
#[test]
fn nothing_but_auth_goes_to_a_server_without_tls() -> Result<()> {
    let bed = Bed::new(Fault::Stripped)?;
    fails(
        &bed.get(&[])?,
        4,
        &["AUTH TLS: 500 AUTH not understood", "nothing else was sent"],
    )?;
    ensure!(bed.server.commands() == ["AUTH TLS"]);
    let url = bed.server.url("ftp://ann:secret@127.0.0.1");
    for flags in [["--security", "tls"], ["--protect", "private"]] {
        let refused = bed.cp(&[&flags[..], &[&url, "out"]].concat())?;
        fails(&refused, 4, &["AUTH TLS: 500"])?;
    }
    ensure!(bed.server.commands() == ["AUTH TLS"; 3]);
    Ok(())
}

/// The address of this machine that a network would see, if there is one; nothing is sent.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback()).then_some(ip)
}

#[test]
fn a_password_crosses_a_network_under_tls_or_not_at_all() -> Result<()> {
    use std::io::Write as _;
    let Some(host) = own_address() else {
        let _ = writeln!(
            io::stderr(),
            "SKIPPED passwords on a network: there is none"
        );
        return Ok(());
    };
    let authority = Authority::new("test authority");
    let own = authority.issue("host", &[&host.to_string()]);
    let bed = Bed::on(host, &authority, &own, Fault::None)?;
    let url = bed.server.url(&format!("ftp://ann:secret@{host}"));
    let told = bed.cp(&["-v", &url, "out"])?.ok()?;
    ensure!(told.stderr.contains("data private"), "{}", told.report());

    let bed = Bed::on(host, &authority, &own, Fault::Stripped)?;
    let url = bed.server.url(&format!("ftp://ann:secret@{host}"));
    fails(
        &bed.cp(&[&url, "out"])?,
        4,
        &["AUTH TLS: 500", "no password was sent", "--security none"],
    )?;
    ensure!(bed.server.commands() == ["AUTH TLS"]);
    // Without a password nothing is kept from anybody; and a person may send it all the same.
    bed.server.clear();
    let anonymous = bed.server.url(&format!("ftp://{host}"));
    bed.cp(&["--list", &anonymous])?;
    bed.cp(&["--security", "none", "--list", &url])?;
    let commands = bed.server.commands();
    ensure!(
        !commands.contains(&"AUTH TLS".to_owned()) && commands.contains(&"PASS secret".to_owned()),
        "{commands:?}"
    );
    Ok(())
}

#[test]
fn clear_text_behind_the_agreement_on_tls_ends_the_session() -> Result<()> {
    let bed = Bed::new(Fault::Injected)?;
    fails(
        &bed.get(&[])?,
        3,
        &["clear text followed the agreement on TLS"],
    )?;
    ensure!(bed.server.commands() == ["AUTH TLS"]);
    Ok(())
}

#[test]
fn a_handshake_that_does_not_come_ends_in_time() -> Result<()> {
    let bed = Bed::new(Fault::Silent)?;
    fails(&bed.get(&["--timeout", "1"])?, 3, &["within 1 s"])
}

#[test]
fn data_that_is_cut_off_is_not_taken_for_whole() -> Result<()> {
    let bed = Bed::new(Fault::Cut)?;
    let needle = "ended without close-notify";
    fails(&bed.get(&[])?, 1, &[needle])?;
    ensure!(!bed.tree.path("out").exists());
    let url = bed.server.url("ftps://ann:secret@127.0.0.1");
    fails(&bed.cp(&["--list", &url])?, 1, &[needle])
}

/// Our server over the second tree, whose certificate the authority in the first one has issued.
fn ours(flags: &[&str]) -> Result<(Tree, Tree, Host)> {
    let (local, there) = (Tree::new()?, Tree::new()?);
    let authority = Authority::new("test authority");
    drop(authority.write(local.root()));
    let own = authority.issue("host", &["127.0.0.1"]);
    let own = own.write(local.root(), "host").display().to_string();
    let server = Host::ours_with(there.root(), &[&["--tls-cert", &own], flags].concat())?;
    Ok((local, there, server))
}

/// Each connection of TLS 1.3 uses up a ticket, and one on which the server only reads brings none.
#[test]
fn data_connections_of_our_server_resume_as_it_demands() -> Result<()> {
    let (local, there, server) = ours(&["--tls-session-reuse", "required"])?;
    for n in 0..5 {
        local.file(&format!("tree/file{n}"), 5_000_001 + n, n)?;
    }
    let url = server.url("copy/").replace("ftp://", "ftps://");
    for flags in [
        &["-j", "1", "-p", "16"][..],
        &["-j", "3", "-p", "2"],
        &["-j", "1", "--mode", "stream"],
        &["-j", "3", "--mode", "stream"],
    ] {
        let cp = |args: &[&str]| {
            let common = ["--retries", "0", "--ca", "ca.pem", "-r"];
            cp_in(&local, &[&common, flags, args].concat())
        };
        cp(&["tree/", &url])?.ok()?;
        same_tree(&local.path("tree"), &there.path("copy"))?;
        cp(&[&url, "back"])?.ok()?;
        same_tree(&there.path("copy"), &local.path("back"))?;
        std::fs::remove_dir_all(local.path("back"))?;
        std::fs::remove_dir_all(there.path("copy"))?;
    }
    Ok(())
}

#[test]
fn a_certificate_needs_no_terminal_to_ask_for_a_password() -> Result<()> {
    let bed = Bed::new(Fault::None)?;
    let ann = Authority::new("clients").issue("ann", &[]);
    drop(ann.write(bed.tree.root(), "ann"));
    let url = bed.server.url("ftps://ann@127.0.0.1");
    fails(&detached(&bed, &[&url])?, 2, &["no terminal to ask on"])?;
    detached(&bed, &["--cert", "ann.pem", &url])?.ok().map(drop)
}

/// Gets a file without a terminal.
fn detached(bed: &Bed, flags: &[&str]) -> Result<Finished> {
    let mut command = Command::new("setsid");
    command.arg("--wait").arg(binary("gridftp-cp")?);
    command.args(["--ca", "ca.pem"]).args(flags).arg("out");
    run(command.current_dir(bed.tree.root()), LIMIT)
}

#[test]
fn no_password_is_asked_for_under_an_anonymous_name() -> Result<()> {
    let bed = Bed::new(Fault::None)?;
    for user in ["ftp", "FTP", "Anonymous"] {
        let url = bed.server.url(&format!("ftps://{user}@127.0.0.1"));
        detached(&bed, &[&url])?.ok().context(user)?;
    }
    Ok(())
}

/// The subject of a certificate, with and without alternative names, logs its user in.
#[test]
fn a_certificate_logs_in_at_our_server() -> Result<()> {
    let (files, clients) = (Tree::new()?, Authority::new("clients"));
    let ca = clients.write(files.root()).display().to_string();
    for (file, text) in [("map", "/CN=ann ann\n"), ("users", "ann:*\n")] {
        std::fs::write(files.path(file), text)?;
    }
    let [map, users] = ["map", "users"].map(|file| files.path(file).display().to_string());
    let flags = ["--tls-client-ca", &ca, "--tls-map", &map, "--users", &users];
    let (local, there, server) = ours(&flags)?;
    there.file("file", 1000, 1)?;
    let url = server.url("file").replace("ftp://", "ftps://ann@");
    for (name, hosts) in [("bare", &[][..]), ("named", &["ann.example.org"])] {
        let own = clients.issue("ann", hosts).write(local.root(), name);
        let flags = ["--retries", "0", "--ca", "ca.pem", "--cert"];
        let own = own.display().to_string();
        cp_in(&local, &[&flags[..], &[&own, &url, "back"]].concat())?.ok()?;
        same_file(&there.path("file"), &local.path("back"))?;
    }
    Ok(())
}

#[test]
fn two_servers_leave_the_data_between_them_clear_or_do_not_copy() -> Result<()> {
    let (local, there, server) = ours(&[])?;
    there.file("file", 100_001, 1)?;
    let url = |name: &str| server.url(name).replace("ftp://", "ftps://");
    let cp = |flags: &[&str]| {
        let (from, to) = (url("file"), url("copy"));
        let common = ["--retries", "0", "--ca", "ca.pem"];
        cp_in(&local, &[&common, flags, &[&from, &to]].concat())
    };
    fails(
        &cp(&[])?,
        2,
        &[
            "cannot protect the data between them",
            "each would wait for the other's handshake",
            "--protect clear",
        ],
    )?;
    ensure!(!there.path("copy").exists());
    cp(&["--protect", "clear"])?.ok()?;
    same_file(&there.path("file"), &there.path("copy"))
}

/// The server waits for TLS, and the client for a greeting: for half a minute, if nothing is done.
#[test]
fn a_port_of_implicit_tls_is_told_as_that() -> Result<()> {
    let (local, there, server) = ours(&["--tls-port", "0"])?;
    there.file("file", 1000, 1)?;
    let output = server.output();
    let mut lines = output.lines();
    let address = lines.find_map(|line| line.strip_prefix("listening with TLS on "));
    let address = address.context("no TLS port")?;
    let get = |flags: &[&str], start: &str, at: &str| {
        let url = format!("{start}{at}/file");
        cp_in(
            &local,
            &[&["--ca", "ca.pem"], flags, &[&url, "out"]].concat(),
        )
    };
    let needles = ["speaks TLS", "--security implicit"];
    fails(&get(&[], "ftps://", address)?, 3, &needles)?;
    fails(
        &get(&["--security", "tls"], "ftp://", address)?,
        3,
        &needles,
    )?;
    get(&["--security", "implicit"], "ftps://", address)?.ok()?;
    let plain = server.addr().to_string();
    let needles = ["not TLS", "ftp:// and --security tls"];
    let failed = get(&["--security", "implicit"], "ftps://", &plain)?;
    fails(&failed, 3, &needles)?;
    get(&["--security", "tls"], "ftp://", &plain)?
        .ok()
        .map(drop)
}

#[test]
fn choices_that_contradict_each_other_are_refused() -> Result<()> {
    let tree = Tree::new()?;
    for (args, needle) in [
        (
            &["--security", "none", "ftps://127.0.0.1:1/x", "out"][..],
            "contradicts ftps://",
        ),
        (
            &["--protect", "safe", "ftps://127.0.0.1:1/x", "out"],
            "needs Grid security",
        ),
        (
            &["--ca", "missing.pem", "ftps://127.0.0.1:1/x", "out"],
            "missing.pem",
        ),
        (
            &["--security", "tls", "--list", "sshftp://h/x"],
            "has the protection of ssh",
        ),
    ] {
        fails(&cp_in(&tree, args)?, 2, &[needle])?;
    }
    Ok(())
}
