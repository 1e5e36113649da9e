//! Object stores behind the storage interface and behind our server: versitygw and moto.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use gridftp_dsi_object::{Config, Objects};
use rustix::process::Signal;
use workspace_tests::{Host, ObjectServer, ObjectServerKind, Tree, binary, run, same_file};

use crate::bed::LIMIT;

/// The bucket of a server, below a prefix that tests bytes of keys.
fn config(server: &ObjectServer) -> Result<Config> {
    let mut config = Config::new("s3://bucket/a prefix/é%20", server.dir("index")?);
    config.endpoint = Some(server.endpoint());
    config.region = Some("us-east-1".to_owned());
    config.credentials = Some(server.keys());
    // The least that S3 takes, so that the suite moves little.
    config.part = Some(5 << 20);
    Ok(config)
}

fn suite(kind: ObjectServerKind) -> Result<()> {
    let Some(server) = ObjectServer::start(kind)? else {
        return Ok(());
    };
    let store = Objects::open(&config(&server)?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let report = runtime.block_on(xio_testkit::dsi_suite::run(&store));
    assert!(report.passed.len() > 25, "{report:?}");
    Ok(())
}

#[test]
fn versitygw_keeps_the_contract_of_storage() -> Result<()> {
    suite(ObjectServerKind::Versitygw)
}

#[test]
fn moto_keeps_the_contract_of_storage() -> Result<()> {
    suite(ObjectServerKind::Moto)
}

const SIZE: u64 = 100 << 20;

/// Most memory of a server that moves one such file: the pool, the parts and the read-ahead.
const MEMORY: u64 = 256 << 20;

/// Copies a file up and down through our server, in both modes, and names of all kinds.
fn through_the_server(kind: ObjectServerKind) -> Result<()> {
    let Some(server) = ObjectServer::start(kind)? else {
        return Ok(());
    };
    let tree = Tree::new()?;
    let file = tree.file("file", SIZE, 7)?;
    let index = server.dir("index")?;
    let host = Host::ours_with(tree.root(), &["--storage", &server.storage()?])?;
    let cp = |words: &[&str]| -> Result<()> {
        run(Command::new(binary("gridftp-cp")?).args(words), LIMIT)?.ok()?;
        Ok(())
    };
    let from = file.display().to_string();
    for streams in ["1", "4"] {
        let name = format!("p{streams} é#?%25");
        let (url, copy) = (host.url(&name), tree.path(&name));
        cp(&["-p", streams, &from, &url])?;
        cp(&["-p", streams, "--verify", &url, &copy.display().to_string()])?;
        same_file(&file, &copy)?;
    }
    let held = host.peak_memory()?;
    ensure!(held < MEMORY, "the server took {held} bytes");
    ensure!(server.orphans() == 0, "parts are left");
    ensure!(fs::read_dir(&index)?.count() == 0, "journals are left");
    ensure!(
        !host.output().contains(ObjectServer::SECRET),
        "the secret key is in the log"
    );
    Ok(())
}

#[test]
fn files_move_through_our_server_to_versitygw_and_back() -> Result<()> {
    through_the_server(ObjectServerKind::Versitygw)
}

#[test]
fn files_move_through_our_server_to_moto_and_back() -> Result<()> {
    through_the_server(ObjectServerKind::Moto)
}

/// A session of commands without their data connections.
struct Session(BufReader<TcpStream>);

impl Session {
    fn login(host: &Host) -> Result<Self> {
        let stream = TcpStream::connect(host.addr())?;
        stream.set_read_timeout(Some(LIMIT))?;
        let mut session = Self(BufReader::new(stream));
        session.reply("220")?;
        for (command, code) in [("USER ftp", "331"), ("PASS x", "230"), ("TYPE I", "200")] {
            session.ask(command, code)?;
        }
        Ok(session)
    }

    /// The last line of the next reply but markers, which must have this code.
    fn reply(&mut self, code: &str) -> Result<String> {
        loop {
            let mut line = String::new();
            ensure!(self.0.read_line(&mut line)? > 0, "the server closed");
            let is_last = line.as_bytes().get(3) == Some(&b' ') && !line.starts_with(' ');
            if is_last && !line.starts_with("11") {
                ensure!(line.starts_with(code), "{line} in place of {code}");
                return Ok(line);
            }
        }
    }

    fn ask(&mut self, command: &str, code: &str) -> Result<String> {
        write!(self.0.get_mut(), "{command}\r\n")?;
        self.reply(code)
    }

    /// Begins an upload and returns its data connection.
    fn store(&mut self, length: usize, commands: &[&str]) -> Result<TcpStream> {
        self.ask(&format!("ALLO {length}"), "200")?;
        let passive = self.ask("EPSV", "229")?;
        let port = passive.rsplit('|').nth(1).context("no port")?.parse()?;
        let data = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        for command in commands {
            let code = if command.starts_with("STOR") {
                "150"
            } else {
                "350"
            };
            self.ask(command, code)?;
        }
        Ok(data)
    }

    /// Bytes of `f` that the server keeps for a restart.
    fn held(&mut self) -> Result<usize> {
        let line = self.ask("SITE HELD f", "213")?;
        let end = line.trim_end().strip_prefix("213 Range Marker 0-");
        Ok(end.map_or(Ok(0), str::parse)?)
    }
}

/// The server is killed in the middle of an upload, which is continued, or begun anew.
#[test]
fn an_upload_to_versitygw_survives_a_kill_of_the_server() -> Result<()> {
    const PART: usize = 5 << 20;
    let Some(server) = ObjectServer::start(ObjectServerKind::Versitygw)? else {
        return Ok(());
    };
    let tree = Tree::new()?;
    let content = fs::read(tree.file("file", 3 * PART as u64 + 12_345, 11)?)?;
    let index = server.dir("index")?;
    let storage = format!("{};part=5M", server.storage()?);
    let object = || -> Result<Option<Vec<u8>>> {
        match fs::read(server.object("f")) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            read => Ok(Some(read?)),
        }
    };
    for continues in [true, false] {
        let host = Host::ours_with(tree.root(), &["--storage", &storage])?;
        let (mut session, mut watcher) = (Session::login(&host)?, Session::login(&host)?);
        let mut data = session.store(content.len(), &["STOR f"])?;
        data.write_all(content.get(..2 * PART + 1000).context("long enough")?)?;
        let begun = Instant::now();
        while watcher.held()? < 2 * PART {
            ensure!(begun.elapsed() < LIMIT, "the parts are not recorded");
            std::thread::yield_now();
        }
        host.signal(Signal::KILL)?;
        // The connections end with the process.
        ensure!(session.reply("").is_err(), "it lives");
        drop(host);
        ensure!(object()?.is_none(), "a part of the file is visible");
        ensure!(server.orphans() > 0, "nothing is kept");

        let host = Host::ours_with(tree.root(), &["--storage", &storage])?;
        let mut session = Session::login(&host)?;
        ensure!(session.held()? == 2 * PART, "the parts are not found");
        let (from, rest) = match continues {
            true => (2 * PART, format!("REST {}", 2 * PART)),
            false => (0, "REST 0".to_owned()),
        };
        let mut data = session.store(content.len(), &[&rest, "STOR f"])?;
        data.write_all(content.get(from..).context("long enough")?)?;
        drop(data);
        session.reply("226")?;
        ensure!(
            object()?.is_some_and(|object| object == content),
            "it differs"
        );
        ensure!(server.orphans() == 0, "parts are left");
        ensure!(fs::read_dir(&index)?.count() == 0, "a journal is left");
        fs::remove_file(server.object("f"))?;
    }
    Ok(())
}
