//! The server over a storage that fails, is slow and gives short reads: whole or nothing, and one
//! reply each.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gridftp_dsi::DynDsi;
use gridftp_dsi_posix::Posix;
use gridftp_server::Server;
use gridftp_server::config::{Access, Config, Options};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use xio_testkit::{Chaos, ChaosOptions};

use crate::support::{Data, EOD, EOF, Ftp, bytes, header, hidden, pasv_address};

/// Opens a storage of the files in a directory.
type Open = fn(&Path) -> Arc<dyn DynDsi>;

/// The storages below the faults: a directory, and an object store there.
const STORAGES: &[Open] = &[
    |root| Arc::new(Posix::open(root).unwrap()),
    #[cfg(feature = "object")]
    |root| {
        let index = root.with_extension("index");
        let mut config =
            gridftp_dsi_object::Config::new(format!("file://{}", root.display()), index);
        config.part = Some(64 << 10);
        Arc::new(gridftp_dsi_object::Objects::open(&config).unwrap())
    },
];

/// Runs a test over every storage, each in a directory of its own.
fn each(test: impl Fn(Open, &Path)) {
    for open in STORAGES {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir(&root).unwrap();
        test(*open, &root);
    }
}

/// A server over `dsi` that ends when it is dropped.
struct ChaosServer {
    address: std::net::SocketAddr,
    _stop: oneshot::Sender<()>,
    _runtime: Runtime,
}

impl ChaosServer {
    fn new(dsi: Arc<dyn DynDsi>) -> Self {
        let mut options = Options::default();
        options.bind = Some([127, 0, 0, 1].into());
        options.port = Some(0);
        options.anonymous = Some(Access::Rw);
        let runtime = Runtime::new().unwrap();
        let config = Config::check(&options).unwrap();
        let server = {
            let _inside = runtime.enter();
            Server::bind(config, dsi).unwrap()
        };
        let address = server.local_addr();
        let (stop, stopped) = oneshot::channel();
        runtime.spawn(server.run(async { drop(stopped.await) }, std::future::pending()));
        Self {
            address,
            _stop: stop,
            _runtime: runtime,
        }
    }

    fn login(&self) -> Ftp {
        let mut ftp = Ftp::connect(self.address);
        ftp.login("anonymous", "x");
        ftp.ok("TYPE I", 200);
        ftp
    }
}

/// Runs a transfer in MODE S; the final code, and the bytes of a download.
fn transfer(ftp: &mut Ftp, command: &str, sent: Option<&[u8]>) -> (u16, Vec<u8>) {
    let address = pasv_address(&ftp.ok("PASV", 227));
    let mut data = Data::connect(address);
    let first = ftp.cmd(command).code;
    if !(100..200).contains(&first) {
        return (first, Vec::new());
    }
    match sent {
        Some(bytes) => {
            use std::io::Write as _;
            // A failed store may end the connection at any byte.
            let written = data.0.write_all(bytes);
            drop(written.and_then(|()| data.0.shutdown(std::net::Shutdown::Write)));
            (ftp.outcome().code, Vec::new())
        }
        None => {
            use std::io::Read as _;
            let mut got = Vec::new();
            drop(data.0.read_to_end(&mut got));
            (ftp.outcome().code, got)
        }
    }
}

#[test]
fn files_are_whole_or_not_there_over_a_storage_that_fails() {
    each(|open, root| {
        let path = root.join("f");
        let mut options = ChaosOptions::default();
        (options.seed, options.fail, options.short) = (11, 4, true);
        options.delay = Duration::from_millis(1);
        let chaos = Chaos::new(open(root), options);
        let server = ChaosServer::new(Arc::new(chaos));
        let mut ftp = server.login();
        let mut stored: Option<Vec<u8>> = None;
        let (mut good, mut bad) = (0, 0);
        for round in 1..100 {
            let mut content = bytes(40_000 + 10_000 * round);
            content[0] = round as u8;
            let (code, _) = transfer(&mut ftp, "STOR f", Some(&content));
            match code {
                226 => stored = Some(content),
                _ => bad += 1,
            }
            assert_eq!(fs::read(&path).ok(), stored, "round {round}: {code}");
            let (code, got) = transfer(&mut ftp, "RETR f", None);
            if code == 226 {
                assert!(
                    Some(&got) == stored.as_ref(),
                    "round {round}: a wrong file behind a 226"
                );
                good += 1;
            }
            ftp.ok("NOOP", 200);
        }
        assert!(good > 5 && bad > 5, "{good} good, {bad} bad");
    });
}

#[test]
fn a_slow_storage_with_short_reads_and_other_orders_is_served_in_full() {
    each(|open, root| {
        let mut options = ChaosOptions::default();
        (options.seed, options.short, options.shuffle) = (5, true, true);
        options.delay = Duration::from_millis(1);
        let chaos = Chaos::new(open(root), options);
        let server = ChaosServer::new(Arc::new(chaos));
        let mut ftp = server.login();
        let content = bytes(700_000);
        for name in ["a", "b", "c", "d", "e", "g", "h"] {
            ftp.ok(&format!("MKD {name}"), 257);
        }
        assert_eq!(transfer(&mut ftp, "STOR f", Some(&content)).0, 226);
        assert_eq!(transfer(&mut ftp, "RETR f", None), (226, content.clone()));
        let (code, listed) = transfer(&mut ftp, "NLST", None);
        let mut names: Vec<&str> = std::str::from_utf8(&listed).unwrap().lines().collect();
        names.sort_unstable();
        assert_eq!(
            (code, names),
            (226, vec!["a", "b", "c", "d", "e", "f", "g", "h"])
        );
        ftp.ok("MODE E", 200);
        let mut data = ftp.data();
        ftp.ok("STOR e/new", 150);
        for at in (0..7).rev() {
            let from = at * 100_000;
            data.block(0, from as u64, &content[from..from + 100_000]);
        }
        data.end(1);
        assert_eq!(ftp.outcome().code, 226);
        assert!(fs::read(root.join("e/new")).unwrap() == content);
        assert!(hidden(root).iter().all(|name| name == ".gridftp-index"));
    });
}

#[test]
fn a_storage_that_crashed_serves_again_once_it_is_back() {
    each(|open, root| {
        let chaos = Arc::new(Chaos::new(open(root), ChaosOptions::default()));
        let server = ChaosServer::new(Arc::new(Arc::clone(&chaos) as Arc<dyn DynDsi>));
        let mut ftp = server.login();
        let content = bytes(100_000);
        assert_eq!(transfer(&mut ftp, "STOR f", Some(&content)).0, 226);
        chaos.crash();
        assert_eq!(transfer(&mut ftp, "RETR f", None).0, 451);
        assert_eq!(transfer(&mut ftp, "STOR new", Some(&content)).0, 451);
        ftp.ok("SIZE f", 451);
        chaos.restart();
        assert_eq!(transfer(&mut ftp, "RETR f", None), (226, content));
        assert!(!root.join("new").exists());
    });
}

/// The storage crashes after every number of operations, in the middle of an upload in MODE E.
#[test]
fn an_upload_over_a_storage_that_crashes_anywhere_is_whole_or_not_there() {
    each(|open, root| {
        let content = bytes(600_000);
        let (mut whole, mut broken) = (0, 0);
        for crash in 3..20 {
            let mut options = ChaosOptions::default();
            (options.seed, options.crash) = (crash, Some(crash));
            let chaos = Arc::new(Chaos::new(open(root), options));
            let server = ChaosServer::new(Arc::new(Arc::clone(&chaos) as Arc<dyn DynDsi>));
            let mut ftp = server.login();
            ftp.ok("MODE E", 200);
            let path = root.join("f");
            drop(fs::remove_file(&path));
            // The login has used some of them.
            chaos.restart();
            let mut data = ftp.data();
            let first = ftp.cmd("STOR f").code;
            if first == 150 {
                use std::io::Write as _;
                let mut blocks = Vec::new();
                for at in (0..6).rev() {
                    let from = at * 100_000;
                    blocks.push(header(0, 100_000, from as u64).to_vec());
                    blocks.push(content[from..][..100_000].to_vec());
                }
                blocks.push(header(EOF | EOD, 0, 1).to_vec());
                // A failed store may end the connection at any byte.
                drop(blocks.iter().try_for_each(|block| data.0.write_all(block)));
                drop(data);
                match ftp.outcome().code {
                    226 => whole += 1,
                    code => {
                        assert!((400..600).contains(&code), "crash {crash}: {code}");
                        broken += 1;
                    }
                }
            } else {
                assert!((400..600).contains(&first), "crash {crash}: {first}");
                broken += 1;
            }
            let there = fs::read(&path).ok();
            assert!(
                there.is_none_or(|there| there == content),
                "crash {crash}: a part"
            );
            // The session lives on, and the next upload is not hindered by the rest of this one.
            ftp.ok("NOOP", 200);
            let after = ChaosServer::new(open(root));
            let mut ftp = after.login();
            assert_eq!(transfer(&mut ftp, "STOR f", Some(&content)).0, 226);
            assert!(fs::read(&path).unwrap() == content, "crash {crash}");
        }
        assert!(whole > 5 && broken > 2, "{whole} whole, {broken} broken");
    });
}
