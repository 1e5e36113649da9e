//! The gridftp driver against our server: flags, positions, both modes, aborts; and against a
//! server that breaks off.

mod broken;

use std::io::{self, SeekFrom};
use std::net::SocketAddr;

use gridftp_server::config::{Access, Config, Options};
use gridftp_server::{Control, Server};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use xio::Stream;
use xio_testkit::Authority;

use super::*;

/// Both modes, in which everything is the same.
const MODES: [&str; 2] = ["mode=S", "mode=E;streams=4"];

/// A server over a temporary tree, in this runtime.
struct Remotely {
    folder: TempDir,
    address: SocketAddr,
    control: Control<gridftp_dsi_posix::Posix>,
}

impl Remotely {
    fn serve(access: Access) -> Self {
        Self::serve_with(access, |_| ())
    }

    fn serve_with(access: Access, choose: impl FnOnce(&mut Options)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.bind = Some([127, 0, 0, 1].into());
        options.port = Some(0);
        options.anonymous = Some(access);
        choose(&mut options);
        let files = gridftp_dsi_posix::Posix::open(folder.path()).unwrap();
        let server = Server::bind(Config::check(&options).unwrap(), files).unwrap();
        let (address, control) = (server.local_addr(), server.control());
        tokio::spawn(server.run(std::future::pending(), std::future::pending()));
        Self {
            folder,
            address,
            control,
        }
    }

    /// Waits until the server has done with every session.
    async fn at_rest(&self) {
        let quiet = async {
            while self.control.sessions() > 0 {
                tokio::task::yield_now().await;
            }
        };
        let limit = std::time::Duration::from_secs(20);
        tokio::time::timeout(limit, quiet).await.unwrap();
    }

    fn contact(&self, name: &str) -> Target {
        format!("ftp://{}/{name}", self.address).parse().unwrap()
    }

    async fn open(&self, options: &str, name: &str) -> Result<GridftpHandle> {
        gridftp(options).connect(&self.contact(name)).await
    }

    async fn write(&self, options: &str, name: &str, bytes: &[u8]) {
        let mut handle = self.open(options, name).await.unwrap();
        handle.write_all(bytes).await.unwrap();
        // Twice, since it is idempotent.
        handle.shutdown().await.unwrap();
        handle.shutdown().await.unwrap();
    }

    async fn read(&self, options: &str, name: &str) -> Vec<u8> {
        let mut handle = self.open(options, name).await.unwrap();
        let mut bytes = Vec::new();
        handle.read_to_end(&mut bytes).await.unwrap();
        // The end stays the end.
        assert_eq!(handle.read(&mut [0]).await.unwrap(), 0);
        bytes
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.folder.path().join(name), bytes).unwrap();
    }

    fn get(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join(name)).unwrap()
    }
}

fn gridftp(options: &str) -> Gridftp {
    Gridftp::new().with_options(options.parse().unwrap())
}

fn bytes(len: u32) -> Vec<u8> {
    (0..len)
        .map(|n| (n / 251 * 7 + n).to_le_bytes()[0])
        .collect()
}

#[tokio::test]
async fn flags_mean_the_same_as_in_fopen() {
    for mode in MODES {
        let far = Remotely::serve(Access::Rw);
        for missing in ["flags=r", "flags=r+"] {
            let options = format!("{missing};{mode}");
            let error = far.open(&options, "a").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            assert!(
                error
                    .to_string()
                    .starts_with("gridftp: connect: 127.0.0.1:")
            );
        }
        let with = |options: &str| format!("{options};{mode}");
        far.write(&with("flags=w"), "a", b"0123456789").await;
        far.write(&with("flags=r+"), "a", b"ab").await;
        assert_eq!(far.read(mode, "a").await, b"ab23456789");
        far.write(&with("flags=a"), "a", b"end").await;
        far.write(&with("flags=r+;offset=4"), "a", b"xy").await;
        assert_eq!(far.read(&with("offset=3"), "a").await, b"3xy6789end");
        far.write(&with("append=1"), "a", b"").await;
        assert_eq!(far.get("a").len(), 13);
        far.write(&with("flags=w+"), "a", b"new").await;
        assert_eq!(far.read(mode, "a").await, b"new");
        assert_eq!(far.read(&with("offset=1G"), "a").await, b"");
        far.write(&with("flags=w;offset=2"), "a", b"x").await;
        assert_eq!(far.get("a"), b"\0\0x");
        far.write(&with("flags=w"), "a", b"").await;
        assert_eq!(far.get("a"), b"");
    }
}

#[tokio::test]
async fn every_byte_arrives_in_order_in_both_modes() {
    let content = bytes(9_000_001);
    for mode in MODES {
        let far = Remotely::serve(Access::Rw);
        let mut handle = far.open(&format!("flags=w;{mode}"), "a").await.unwrap();
        for part in content.chunks(70_001) {
            handle.write_all(part).await.unwrap();
        }
        handle.shutdown().await.unwrap();
        assert!(far.get("a") == content, "{mode}: written otherwise");
        assert!(
            far.read(mode, "a").await == content,
            "{mode}: read otherwise"
        );
        let tail = far.read(&format!("offset=5000000;{mode}"), "a").await;
        assert!(tail == content[5_000_000..], "{mode}: another tail");
    }
}

#[tokio::test]
async fn it_is_sought_like_a_local_file() {
    let content = bytes(3_000_000);
    for mode in MODES {
        let far = Remotely::serve(Access::Rw);
        far.put("a", &content);
        let local = far.folder.path().join("a");
        let mut here = tokio::fs::File::open(local).await.unwrap();
        let mut there = far.open(mode, "a").await.unwrap();
        for to in [
            SeekFrom::Start(2_000_000),
            SeekFrom::Current(-1_500_000),
            SeekFrom::Current(70_000),
            SeekFrom::End(-3),
            SeekFrom::Start(0),
            SeekFrom::End(10),
        ] {
            assert_eq!(there.seek(to).await.unwrap(), here.seek(to).await.unwrap());
            let (mut a, mut b) = (Vec::new(), Vec::new());
            (&mut here).take(300_000).read_to_end(&mut a).await.unwrap();
            (&mut there)
                .take(300_000)
                .read_to_end(&mut b)
                .await
                .unwrap();
            assert!(a == b, "{mode}: {to:?}");
        }
        let error = there.seek(SeekFrom::End(-4_000_000)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(there.seek(SeekFrom::Start(7)).await.unwrap(), 7);
        assert_eq!(there.read_u8().await.unwrap(), content[7]);
    }
}

#[tokio::test]
async fn reading_and_writing_share_one_position() {
    for mode in MODES {
        let far = Remotely::serve(Access::Rw);
        far.put("a", b"0123456789");
        let mut handle = far.open(&format!("flags=r+;{mode}"), "a").await.unwrap();
        let mut word = [0; 2];
        handle.read_exact(&mut word).await.unwrap();
        handle.write_all(b"ab").await.unwrap();
        handle.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"45");
        handle.seek(SeekFrom::Start(8)).await.unwrap();
        handle.write_all(b"yz").await.unwrap();
        handle.write_all(b"!").await.unwrap();
        handle.flush().await.unwrap();
        handle.seek(SeekFrom::Start(1)).await.unwrap();
        let mut rest = Vec::new();
        handle.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"1ab4567yz!");
        handle.shutdown().await.unwrap();
        assert_eq!(
            handle.write(b"x").await.unwrap_err().kind(),
            io::ErrorKind::ConnectionReset
        );
        assert_eq!(far.get("a"), b"01ab4567yz!");
        assert_eq!(handle.position(), 11);
    }
}

#[tokio::test]
async fn a_dropped_writer_publishes_nothing() {
    for mode in MODES {
        let far = Remotely::serve(Access::Rw);
        far.put("a", b"before");
        let mut handle = far.open(&format!("flags=w;{mode}"), "a").await.unwrap();
        handle.write_all(&bytes(2_000_000)).await.unwrap();
        handle.flush().await.unwrap();
        drop(handle);
        drop(far.open("flags=w", "c").await.unwrap());
        far.at_rest().await;
        assert_eq!(far.get("a"), b"before");
        assert!(!far.folder.path().join("c").exists());
    }
}

#[tokio::test]
async fn a_refusal_is_the_error_of_the_write() {
    for mode in MODES {
        let far = Remotely::serve(Access::Ro);
        far.put("a", b"before");
        let mut handle = far.open(&format!("flags=w;{mode}"), "a").await.unwrap();
        handle.write_all(b"x").await.unwrap();
        let error = handle.shutdown().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        assert_eq!(Error::layer_of(&error).unwrap().layer(), "gridftp");
        assert!(error.to_string().contains("STOR"), "{error}");
        // And stays one.
        assert!(handle.write(b"y").await.is_err());
        assert!(handle.shutdown().await.is_err());
        assert_eq!(far.get("a"), b"before");
        let mut reader = far.open(mode, "a").await.unwrap();
        let error = reader.write(b"x").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        reader.shutdown().await.unwrap();
        assert_eq!(reader.read_u8().await.unwrap(), b'b');
    }
}

#[tokio::test]
async fn targets_without_a_remote_file_are_refused() {
    let far = Remotely::serve(Access::Rw);
    std::fs::create_dir(far.folder.path().join("folder")).unwrap();
    for (contact, part) in [
        ("dtn1:2811", "is on no server"),
        ("file:/etc/hosts", "is on no server"),
        ("http://dtn1/x", "is on no server"),
        ("gopher://dtn1/x", "unknown"),
        ("ftp://dtn1/", "names no file"),
        ("ftp:///x", "no host"),
        ("ftp://<CN=x>:dtn1/x", "needs Grid security"),
        (&far.contact("folder").to_string(), "is a directory"),
    ] {
        let to = contact.parse().unwrap();
        let error = Gridftp::default().connect(&to).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadTarget, "{contact}: {error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let nobody = "ftp://127.0.0.1:1/x".parse().unwrap();
    let error = Gridftp::default().connect(&nobody).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
}

#[tokio::test]
async fn a_read_and_a_write_that_were_given_up_lose_nothing() {
    let content = bytes(600_000);
    let far = Remotely::serve(Access::Rw);
    let mut writer = far.open("flags=w", "a").await.unwrap();
    let mut left = &content[..];
    while !left.is_empty() {
        tokio::select! {
            biased;
            n = writer.write(&left[..left.len().min(999)]) => left = &left[n.unwrap()..],
            () = tokio::task::yield_now() => {}
        }
    }
    writer.shutdown().await.unwrap();
    let mut reader = far.open("", "a").await.unwrap();
    let mut arrived = Vec::new();
    let mut buf = [0; 999];
    loop {
        tokio::select! {
            biased;
            n = reader.read(&mut buf) => match n.unwrap() {
                0 => break,
                n => arrived.extend_from_slice(&buf[..n]),
            },
            () = tokio::task::yield_now() => {}
        }
    }
    assert!(arrived == content);
}

#[tokio::test]
async fn a_stack_that_the_server_does_not_allow_is_refused() {
    let far = Remotely::serve(Access::Rw);
    for options in ["flags=w;stack=udt", "flags=w;disk_stack=file%2Ccompress"] {
        let error = far.open(options, "a").await.unwrap_err();
        assert!(
            error.to_string().contains("must allow its drivers"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn the_account_comes_from_contact_options_or_netrc() {
    let folder = tempfile::tempdir().unwrap();
    let netrc = folder.path().join("netrc");
    std::fs::write(&netrc, "machine dtn login me password secret\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&netrc, mode).unwrap();
    let user = |options: String, contact: &str| {
        let remote = gridftp(&options).remote(&contact.parse().unwrap()).unwrap();
        (remote.site.user, remote.site.password.is_some())
    };
    let named = |name: &str| Some(name.to_owned());
    let netrc = format!("netrc={}", netrc.display());
    assert_eq!(user(String::new(), "ftp://dtn/x"), (None, false));
    assert_eq!(
        user("user=you".into(), "ftp://dtn/x"),
        (named("you"), false)
    );
    assert_eq!(
        user("user=you".into(), "ftp://a:b@dtn/x"),
        (named("a"), true)
    );
    assert_eq!(user(netrc.clone(), "ftp://dtn/x"), (named("me"), true));
    assert_eq!(user(netrc, "ftp://other/x"), (None, false));
}

#[tokio::test]
async fn it_describes_itself() {
    let far = Remotely::serve(Access::Rw);
    let handle = far.open("flags=w", "a").await.unwrap();
    assert_eq!(handle.info().chain, ["gridftp"]);
    assert!(tokio::io::AsyncWrite::is_write_vectored(&handle));
    let mut registry = xio::registry();
    registry.register(driver());
    let stack = registry.stack("gridftp:mode=E;streams=2,count").unwrap();
    assert_eq!(stack.text(), "gridftp:mode=E;streams=2,count");
    let smaller = registry.restrict(&["gridftp", "tcp"]);
    assert!(smaller.get("gridftp").is_none());
}

#[tokio::test]
async fn a_file_is_written_and_read_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("test authority");
    let host = authority
        .issue("server", &["localhost"])
        .write(folder.path(), "host");
    let ca = authority.write(folder.path());
    let far = Remotely::serve_with(Access::Rw, |options| {
        options.tls_cert = Some(host.clone());
        options.tls_key = Some(host);
    });
    let contact: Target = format!("ftps://localhost:{}/a", far.address.port())
        .parse()
        .unwrap();
    let trusting = format!("ca={}", ca.display());
    let mut writer = gridftp(&format!("{trusting};flags=w"))
        .connect(&contact)
        .await
        .unwrap();
    writer.write_all(b"private").await.unwrap();
    writer.shutdown().await.unwrap();
    let mut text = String::new();
    let mut reader = gridftp(&trusting).connect(&contact).await.unwrap();
    reader.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "private");
    let error = gridftp("").connect(&contact).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[tokio::test]
async fn files_that_prove_an_identity_must_be_readable() {
    for (options, contact) in [
        ("ca=/nonexistent/ca", "ftps://dtn1/x"),
        ("cert=/nonexistent/me", "ftps://dtn1/x"),
        ("cred=/nonexistent/px", "gsiftp://<%2FCN=x>:dtn1/x"),
    ] {
        let error = gridftp(options)
            .connect(&contact.parse().unwrap())
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("/nonexistent/"),
            "{options}: {error}"
        );
    }
}
