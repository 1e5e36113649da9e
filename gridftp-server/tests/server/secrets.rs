//! Secrets: none in the log, in the memory behind a login, or in a core dump.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use base64ct::{Base64, Encoding as _};
use gsi::credential::Credential;
use gsi::key::{KeyPair, KeySize};
use gsi::proxy::ProxyOptions;
use rustls_pki_types::UnixTime;
use tempfile::tempdir;
use xio::gsi::Level;
use xio_testkit::Authority;

use crate::grid_support::{Lab, clear, open, taken};
use crate::process::Daemon;
use crate::support::{Ftp, PATIENCE};
use crate::tls_support::{ANN, Secure, config, put_credential};

/// Neither tokens nor keys nor passwords nor data, whatever the level.
#[tokio::test]
async fn nothing_secret_reaches_the_log() {
    let (lab, root, files) = (Lab::new(), tempdir().unwrap(), tempdir().unwrap());
    fs::write(root.path().join("f"), "content of f").unwrap();
    let path = files.path().join("log");
    let log = File::create(&path).unwrap();
    let mut flags: Vec<String> = lab.flags().into();
    flags.extend(["--log-level".to_owned(), "trace".to_owned()]);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let daemon = Daemon::start_logging_to(log, root.path(), &flags);
    let mut ftp = lab.login(daemon.address).await;
    let own = lab
        .grid
        .proxy(&lab.grid.user("Alice Lab"), &ProxyOptions::limited());
    let pem = own.to_pem();
    let blob = Base64::encode_string(pem.as_bytes());
    ftp.ok(&format!("DCSC P {blob}"), 250).await;
    ftp.ok("PROT P", 200).await;
    let address = ftp.pasv().await;
    ftp.send("RETR f").await;
    let data = lab.data(&own, Level::Private);
    assert_eq!(taken(open(data, address).await).await, b"content of f");
    assert!(ftp.outcome().await.starts_with("226"));
    ftp.ok("DCSC P !!!!", 500).await;
    ftp.ok("QUIT", 221).await;
    let mut wrong = clear(daemon.address).await;
    wrong.ok("AUTH GSSAPI", 334).await;
    wrong.ok("ADAT U0VDUkVU", 530).await;
    drop((wrong, ftp));
    daemon.signal("TERM");
    daemon.end();
    let log = fs::read_to_string(&path).unwrap();
    assert!(log.contains("Alice Lab") && log.contains("RETR"), "{log}");
    let key: Vec<&str> = pem.lines().filter(|line| line.len() == 64).collect();
    let secrets = key
        .into_iter()
        .chain([&blob[..40], "ADAT", "U0VDUkVU", "dummy", "content of"]);
    for secret in secrets {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}

/// Says whether a process has these bytes in its memory.
fn remembers(pid: u32, secret: &[u8]) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    maps.lines()
        .filter(|line| line.contains(" rw"))
        .any(|line| {
            let range = line.split(' ').next().unwrap();
            let (start, end) = range.split_once('-').unwrap();
            let [start, end] = [start, end].map(|at| u64::from_str_radix(at, 16).unwrap());
            let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
            // Some regions cannot be read.
            let read = memory.read_exact_at(&mut bytes, start);
            read.is_ok() && bytes.windows(secret.len()).any(|window| window == secret)
        })
}

/// A server with the account `ann`, on a channel of either kind.
fn serve(root: &Path, files: &Path, authority: &Authority) -> Daemon {
    let (cert, users) = (files.join("server.pem"), files.join("users"));
    put_credential(&cert, &authority.issue("server", &["localhost"]));
    fs::write(&users, format!("{ANN}\n")).unwrap();
    let flags = [
        "--tls-cert",
        cert.to_str().unwrap(),
        "--users",
        users.to_str().unwrap(),
    ];
    Daemon::start(root, &flags)
}

/// The manual's word: passwords are overwritten, in clear sessions and behind TLS, whether right or
/// wrong.
#[test]
fn a_password_does_not_stay_in_memory() {
    let (root, files, authority) = (tempdir().unwrap(), tempdir().unwrap(), Authority::new("a"));
    let daemon = serve(root.path(), files.path(), &authority);
    let mut ftp = Ftp::connect(daemon.address);
    ftp.ok("USER ann", 331);
    ftp.ok("PASS wrong horse", 530);
    ftp.login("ann", "open sesame");
    assert!(!remembers(daemon.pid(), b"wrong horse"), "in clear");
    assert!(!remembers(daemon.pid(), b"open sesame"), "in clear");
    let mut tls = Ftp::connect(daemon.address);
    tls.ok("AUTH TLS", 234);
    let mut tls = Secure::over(tls.stream, Arc::new(config(&authority, None))).unwrap();
    tls.ok("USER ann", 331);
    tls.ok("PASS wrong horse", 530);
    tls.ok("USER ann", 331);
    tls.ok("PASS open sesame", 230);
    assert!(!remembers(daemon.pid(), b"wrong horse"), "behind TLS");
    assert!(!remembers(daemon.pid(), b"open sesame"), "behind TLS");
    // The session's task is there, and so is the name.
    assert!(remembers(daemon.pid(), b"ann"));
}

/// The manual's word: the text from which the key of TLS was read is overwritten.
#[test]
fn the_text_of_the_key_of_tls_does_not_stay_in_memory() {
    let (root, files, authority) = (tempdir().unwrap(), tempdir().unwrap(), Authority::new("a"));
    let daemon = serve(root.path(), files.path(), &authority);
    let pem = fs::read_to_string(files.path().join("server.pem")).unwrap();
    let (_, key) = pem.split_once("PRIVATE KEY-----\n").unwrap();
    // The first line is of the algorithm.
    let secret = key.lines().nth(1).unwrap();
    assert_eq!(secret.len(), 64, "{key}");
    assert!(!remembers(daemon.pid(), secret.as_bytes()));
}

/// The manual's word: the text of a key is overwritten once it is read, and the key itself when it
/// is dropped, whether it serves or not.
#[tokio::test]
async fn a_key_does_not_stay_in_memory() {
    let (lab, root) = (Lab::new(), tempdir().unwrap());
    let flags = lab.flags();
    let daemon = Daemon::start(root.path(), &flags.each_ref().map(String::as_str));
    let mut ftp = lab.login(daemon.address).await;
    // Of a key of its own: the keys of the lab are shared.
    let key = KeyPair::generate(KeySize::default()).unwrap();
    let own = Credential::for_session(key, PATIENCE, UnixTime::now()).unwrap();
    let pem = own.to_pem();
    let (before, rest) = pem.split_once("-----BEGIN PRIVATE KEY-----\n").unwrap();
    let (text, _) = rest.split_once("-----END").unwrap();
    let key = Base64::decode_vec(&text.replace('\n', "")).unwrap();
    let blob = Base64::encode_string(pem.as_bytes());
    let within = (before.len() + 600) / 3 * 4;
    let texts = [
        &blob.as_bytes()[within..within + 40],
        &text.as_bytes()[605..645],
    ];
    let key = &key[400..440];
    let told = |secret: &[u8]| remembers(daemon.pid(), secret);
    // The reply may be here before the server has overwritten its buffers.
    let forgotten = async |ftp: &mut crate::grid_support::Session<_>, secret: &[u8]| {
        let mut looks = 0;
        while told(secret) && looks < 50 {
            looks += 1;
            ftp.ok("NOOP", 200).await;
        }
        looks < 50
    };

    ftp.ok(&format!("DCSC P {blob}"), 250).await;
    assert!(told(key), "the credential serves");
    for (which, text) in ["command", "PEM"].iter().zip(texts) {
        assert!(
            forgotten(&mut ftp, text).await,
            "the text of its {which} stays"
        );
    }
    ftp.ok("DCSC D", 250).await;
    assert!(forgotten(&mut ftp, key).await, "the key stays");
    // One that is broken behind the key.
    let broken = pem.replace("-----END PRIVATE", "*\n-----END PRIVATE");
    let broken = Base64::encode_string(broken.as_bytes());
    ftp.ok(&format!("DCSC P {broken}"), 500).await;
    ftp.ok(&format!("DCSC P {}", &blob[..blob.len() - 400]), 500)
        .await;
    assert!(forgotten(&mut ftp, key).await, "a key of no use stays");
    for (which, text) in ["command", "PEM"].iter().zip(texts) {
        assert!(
            forgotten(&mut ftp, text).await,
            "the {which} of a broken one stays"
        );
    }
    ftp.ok("NOOP", 200).await;
}

#[test]
fn a_server_leaves_no_core_dump() {
    let root = tempdir().unwrap();
    let daemon = Daemon::limited("-S -c $(ulimit -H -c)", root.path(), &["--anonymous", "ro"]);
    let limits = fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    let soft = core.and_then(|line| line.split_whitespace().nth(4));
    assert_eq!(soft, Some("0"), "{core:?}");
}
