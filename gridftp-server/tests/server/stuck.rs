//! Storage that does not answer, or fails: the client can abort or is told, and everybody goes on.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use byte_ranges::RangeSet;
use bytes::{Bytes, BytesMut};
use gridftp_dsi::{
    Capabilities, ChecksumAlgorithm, Create, Dsi, DsiPath, Error, ErrorKind, Finish, Listing,
    Memory, Meta, Progress, Result, Sink, Source, Stat, User,
};
use gridftp_server::Server;
use gridftp_server::config::{Access, Config, Options};
use xio::ByteSize;

use tokio::sync::Semaphore;

use crate::support::{Data, EOD, EOF, Ftp, PATIENCE, bytes, header};

/// The operations in trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Open,
    Read,
    Block,
    List,
    Next,
    Write,
    Checkpoint,
    Finish,
    Tree,
}

/// The event at that point, once.
#[derive(Debug, Clone)]
enum What {
    /// No answer.
    Hang,
    /// No answer from then on.
    Stop,
    /// A failure.
    Fail(ErrorKind),
    /// An answer that takes as long as this has no permit.
    Wait(Arc<Semaphore>),
}

/// Storage that is in trouble once.
#[derive(Debug, Clone)]
struct Trouble {
    at: At,
    /// Number of operations that succeed first.
    after: u32,
    what: What,
    met: Arc<AtomicU32>,
}

impl Trouble {
    fn new(at: At, after: u32, what: What) -> Self {
        let met = Arc::new(AtomicU32::new(0));
        Self {
            at,
            after,
            what,
            met,
        }
    }

    async fn meet(&self, here: At) -> Result<()> {
        if here != self.at {
            return Ok(());
        }
        let before = self.met.fetch_add(1, Ordering::Relaxed);
        let stopped = matches!(self.what, What::Stop) && before > self.after;
        if before != self.after && !stopped {
            return Ok(());
        }
        match &self.what {
            What::Hang | What::Stop => std::future::pending().await,
            What::Fail(kind) => Err(Error::new(*kind, "test")),
            What::Wait(permits) => {
                permits.acquire().await.unwrap().forget();
                Ok(())
            }
        }
    }

    /// Waits until it is there.
    fn wait(&self) {
        let start = Instant::now();
        while self.met.load(Ordering::Relaxed) <= self.after {
            assert!(start.elapsed() < PATIENCE, "no trouble came");
            std::thread::yield_now();
        }
    }
}

/// Files in memory behind storage in trouble.
struct Stuck {
    inner: Memory,
    trouble: Trouble,
}

/// An open object of it.
struct Troubled<T> {
    inner: T,
    trouble: Trouble,
}

impl Source for Troubled<<Memory as Dsi>::Source> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    async fn read_at(&self, offset: u64, into: BytesMut) -> Result<BytesMut> {
        self.trouble.meet(At::Block).await?;
        self.inner.read_at(offset, into).await
    }
}

impl Listing for Troubled<<Memory as Dsi>::Listing> {
    async fn next(&mut self) -> Result<Vec<Stat>> {
        self.trouble.meet(At::Next).await?;
        self.inner.next().await
    }
}

impl Sink for Troubled<<Memory as Dsi>::Sink> {
    async fn write_at(&self, offset: u64, data: Bytes) -> Result<()> {
        self.trouble.meet(At::Write).await?;
        self.inner.write_at(offset, data).await
    }

    async fn checkpoint(&self, held: &RangeSet, durable: bool) -> Result<()> {
        self.trouble.meet(At::Checkpoint).await?;
        self.inner.checkpoint(held, durable).await
    }

    fn held(&self) -> RangeSet {
        self.inner.held()
    }

    async fn finish(self, done: Finish) -> Result<Stat> {
        self.trouble.meet(At::Finish).await?;
        self.inner.finish(done).await
    }

    fn takes_pipes(&self) -> bool {
        true
    }

    async fn take_pipe(&self, pipe: Arc<OwnedFd>, offset: u64, len: usize) -> Result<()> {
        let mut data = vec![0; len];
        let mut got = 0;
        while got < len {
            got += rustix::io::read(&pipe, &mut data[got..]).unwrap();
        }
        self.write_at(offset, data.into()).await
    }
}

impl Stuck {
    fn around<T>(&self, inner: T) -> Troubled<T> {
        Troubled {
            inner,
            trouble: self.trouble.clone(),
        }
    }
}

impl Dsi for Stuck {
    type Source = Troubled<<Memory as Dsi>::Source>;
    type Sink = Troubled<<Memory as Dsi>::Sink>;
    type Listing = Troubled<<Memory as Dsi>::Listing>;

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn stat(&self, user: &User, path: &DsiPath) -> Result<Stat> {
        self.inner.stat(user, path).await
    }

    async fn list(&self, user: &User, path: &DsiPath) -> Result<Self::Listing> {
        self.trouble.meet(At::List).await?;
        Ok(self.around(self.inner.list(user, path).await?))
    }

    async fn read(&self, user: &User, path: &DsiPath) -> Result<Self::Source> {
        self.trouble.meet(At::Read).await?;
        Ok(self.around(self.inner.read(user, path).await?))
    }

    async fn write(&self, user: &User, path: &DsiPath, how: Create) -> Result<Self::Sink> {
        self.trouble.meet(At::Open).await?;
        Ok(self.around(self.inner.write(user, path, how).await?))
    }

    async fn held(&self, user: &User, path: &DsiPath) -> Result<RangeSet> {
        self.inner.held(user, path).await
    }

    async fn make_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        self.inner.make_dir(user, path).await
    }

    async fn remove_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        self.inner.remove_dir(user, path).await
    }

    async fn remove(&self, user: &User, path: &DsiPath) -> Result<()> {
        self.inner.remove(user, path).await
    }

    async fn remove_tree(&self, user: &User, path: &DsiPath) -> Result<()> {
        self.trouble.meet(At::Tree).await?;
        self.inner.remove_tree(user, path).await
    }

    async fn rename(&self, user: &User, from: &DsiPath, to: &DsiPath) -> Result<()> {
        self.inner.rename(user, from, to).await
    }

    async fn symlink(&self, user: &User, target: &[u8], link: &DsiPath) -> Result<()> {
        self.inner.symlink(user, target, link).await
    }

    async fn set_meta(&self, user: &User, path: &DsiPath, meta: Meta) -> Result<()> {
        self.inner.set_meta(user, path, meta).await
    }

    async fn truncate(&self, user: &User, path: &DsiPath, length: u64) -> Result<()> {
        self.inner.truncate(user, path, length).await
    }

    async fn checksum(
        &self,
        user: &User,
        path: &DsiPath,
        algorithm: ChecksumAlgorithm,
        offset: u64,
        length: Option<u64>,
        progress: &Progress,
    ) -> Result<String> {
        self.inner
            .checksum(user, path, algorithm, offset, length, progress)
            .await
    }
}

/// Runs `test` with a session of a server whose storage is in trouble, and with its address.
fn with_trouble(trouble: &Trouble, test: impl FnOnce(&mut Ftp, SocketAddr)) {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.bind = Some([127, 0, 0, 1].into());
    options.port = Some(0);
    options.anonymous = Some(Access::Rw);
    options.root = Some(dir.path().into());
    options.stall_timeout = Some(if trouble.at == At::Next { 1 } else { 300 });
    if matches!(trouble.what, What::Stop) {
        // Eight blocks for all.
        options.block_size = Some(ByteSize::new(8 << 20));
    }
    let config = Config::check(&options).unwrap();
    // One thread, so that whatever keeps it keeps everybody.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let storage = Stuck {
        inner: Memory::new(),
        trouble: trouble.clone(),
    };
    let server = {
        let _inside = runtime.enter();
        Server::bind(config, storage).unwrap()
    };
    let address: SocketAddr = server.local_addr();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stop_when = async { drop(stopped.await) };
    let running = runtime.spawn(server.run(stop_when, std::future::pending()));
    test(&mut login(address), address);
    drop(stop);
    drop(runtime.block_on(running));
}

fn login(address: SocketAddr) -> Ftp {
    let mut ftp = Ftp::connect(address);
    ftp.login("anonymous", "test@");
    ftp.ok("TYPE I", 200);
    ftp
}

/// The same for storage that hangs, with a way to wait for that.
fn with_stuck(at: At, test: impl FnOnce(&mut Ftp, &dyn Fn())) {
    let trouble = Trouble::new(at, 0, What::Hang);
    with_trouble(&trouble, |ftp, _| test(ftp, &|| trouble.wait()));
}

/// Sends ABOR and takes both replies; then the session works as before.
fn abort(ftp: &mut Ftp) {
    ftp.send("ABOR");
    let reply = ftp.outcome();
    assert_eq!(reply.code, 426, "{reply:?}");
    assert_eq!(ftp.outcome().code, 226);
    ftp.ok("NOOP", 200);
    ftp.ok("MODE S", 200);
    assert_eq!(ftp.store("STOR after", b"after").code, 226);
    assert_eq!(ftp.fetch("after"), b"after");
}

#[test]
fn work_that_waits_for_storage_can_be_aborted() {
    for (at, verb) in [
        (At::Open, "STOR f"),
        (At::Read, "RETR f"),
        (At::List, "MLSD"),
        (At::List, "MLSC"),
        (At::List, "STAT /"),
        (At::Tree, "SITE RDEL d"),
    ] {
        with_stuck(at, |ftp, wait| {
            ftp.pasv();
            ftp.send(verb);
            wait();
            abort(ftp);
        });
    }
}

#[test]
fn a_tagged_upload_can_be_aborted_while_it_is_opened() {
    with_stuck(At::Open, |ftp, wait| {
        ftp.ok("MODE E", 200);
        ftp.pasv();
        ftp.send("ESTO tag=1 f");
        wait();
        abort(ftp);
    });
}

#[test]
fn writing_can_be_aborted_in_every_mode() {
    for mode in ["S", "E"] {
        with_stuck(At::Write, |ftp, wait| {
            ftp.ok(&format!("MODE {mode}"), 200);
            let mut data = ftp.data();
            ftp.ok("STOR f", 150);
            if mode == "E" {
                // So long that it takes a pipe.
                data.write(&header(0, 1 << 20, 0));
            }
            data.write(&bytes(1000));
            wait();
            abort(ftp);
        });
    }
}

#[test]
fn recording_for_a_marker_can_be_aborted() {
    with_stuck(At::Checkpoint, |ftp, wait| {
        ftp.ok("MODE E", 200);
        ftp.ok("TREV RESTART 1", 200);
        let mut data = ftp.data();
        ftp.ok("STOR f", 150);
        data.write(&header(0, 1 << 20, 0));
        data.write(&bytes(1000));
        wait();
        abort(ftp);
    });
}

/// The stall deadline ends it without an abort.
#[test]
fn a_listing_whose_storage_stops_ends() {
    for mode in ["MODE S", "MODE E"] {
        with_stuck(At::Next, |ftp, _| {
            ftp.ok(mode, 200);
            let listener = ftp.port();
            ftp.send("MLSD");
            let (data, _) = listener.accept().unwrap();
            let code = ftp.outcome().code;
            let code = if code == 150 {
                ftp.outcome().code
            } else {
                code
            };
            assert!(code / 100 == 4, "{mode}: {code}");
            drop(data);
            ftp.ok("MODE S", 200);
            assert_eq!(ftp.store("STOR after", b"after").code, 226);
        });
    }
}

/// A block over the data connection, in either mode, and the end.
fn send(ftp: &mut Ftp, mode: &str, file: &[u8]) -> u16 {
    ftp.ok(&format!("MODE {mode}"), 200);
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    let framed = match mode {
        "S" => file.to_vec(),
        _ => [
            &header(0, file.len() as u64, 0)[..],
            file,
            &header(EOF | EOD, 0, 1),
        ]
        .concat(),
    };
    // The server may give up before all of it is taken.
    let _ = std::io::Write::write_all(&mut data.0, &framed);
    let _ = data.0.shutdown(std::net::Shutdown::Write);
    ftp.outcome().code
}

#[test]
fn a_failing_write_is_reported_and_the_old_file_stays() {
    for mode in ["S", "E"] {
        for (at, after) in [
            (At::Open, 1),
            (At::Write, 1),
            (At::Write, 4),
            (At::Finish, 1),
        ] {
            for (kind, code) in [
                (ErrorKind::Io, 451),
                // ESTALE of a network file system.
                (ErrorKind::Changed, 451),
                (ErrorKind::NoSpace, 552),
                (ErrorKind::Quota, 552),
            ] {
                let trouble = Trouble::new(at, after, What::Fail(kind));
                with_trouble(&trouble, |ftp, address| {
                    assert_eq!(login(address).store("STOR f", b"old").code, 226);
                    let file = bytes(3 << 20);
                    if at == At::Open {
                        ftp.pasv();
                        ftp.ok("STOR f", code);
                    } else {
                        let told = send(ftp, mode, &file);
                        assert_eq!(told, code, "{mode} {trouble:?}");
                    }
                    ftp.ok("MODE S", 200);
                    assert_eq!(ftp.fetch("f"), b"old", "{mode} {trouble:?}");
                    assert_eq!(send(ftp, mode, &file), 226);
                    ftp.ok("MODE S", 200);
                    assert!(ftp.fetch("f") == file);
                });
            }
        }
    }
}

#[test]
fn a_failing_read_is_told_and_is_no_end_of_the_file() {
    use ErrorKind::{Changed, Io};
    for (at, after, kind) in [
        (At::Read, 0, Io),
        (At::Block, 0, Io),
        (At::Block, 2, Io),
        (At::Block, 2, Changed),
    ] {
        let trouble = Trouble::new(at, after, What::Fail(kind));
        with_trouble(&trouble, |ftp, address| {
            let file = bytes(8 << 20);
            assert_eq!(ftp.store("STOR f", &file).code, 226);
            let mut data = ftp.data();
            ftp.send("RETR f");
            let mut got = Vec::new();
            let read = std::io::Read::read_to_end(&mut data.0, &mut got);
            let mut reply = ftp.outcome();
            if reply.code == 150 {
                assert!(read.is_err(), "{} bytes look whole", got.len());
                reply = ftp.outcome();
            }
            assert_eq!(reply.code, 451, "{at:?}: {reply:?}");
            assert!(login(address).fetch("f") == file);
            assert!(ftp.fetch("f") == file);
        });
    }
}

/// A sync may take a minute: the name shows afterwards, and no other session waits for it.
#[test]
fn a_slow_sync_keeps_its_own_upload_alone() {
    let permits = Arc::new(Semaphore::new(0));
    let trouble = Trouble::new(At::Finish, 0, What::Wait(Arc::clone(&permits)));
    with_trouble(&trouble, |ftp, address| {
        let mut data = ftp.data();
        ftp.ok("STOR f", 150);
        data.write(b"slow");
        data.finish();
        trouble.wait();
        let mut other = login(address);
        other.ok("SIZE f", 550);
        assert_eq!(other.store("STOR g", b"quick").code, 226);
        assert_eq!(other.fetch("g"), b"quick");
        permits.add_permits(1);
        assert_eq!(ftp.outcome().code, 226);
        assert_eq!(other.fetch("f"), b"slow");
    });
}

/// Whatever a session writes to a storage that does not take it, others have blocks as well.
#[test]
fn a_session_has_its_share_of_the_blocks_and_no_more() {
    let trouble = Trouble::new(At::Write, 1, What::Stop);
    with_trouble(&trouble, |ftp, address| {
        let mut other = login(address);
        assert_eq!(other.store("STOR f", b"file").code, 226);
        ftp.ok("MODE E", 200);
        let at = ftp.pasv();
        let mut connections: Vec<Data> = (0..16).map(|_| Data::connect(at)).collect();
        ftp.ok("STOR g", 150);
        for (i, data) in connections.iter_mut().enumerate() {
            data.block(0, i as u64 * 100_000, &bytes(100_000));
        }
        trouble.wait();
        // Each answer comes after a look at all connections; in memory a file is read by a block.
        for _ in 0..20 {
            other.ok("NOOP", 200);
        }
        assert_eq!(other.fetch("f"), b"file");
    });
}

/// Many clients look at the control connection only when they have sent all, and must get that far.
#[test]
fn a_client_that_sends_on_to_a_full_disk_hears_why() {
    let trouble = Trouble::new(At::Write, 0, What::Fail(ErrorKind::NoSpace));
    with_trouble(&trouble, |ftp, _| {
        let mut data = ftp.data();
        ftp.ok("STOR f", 150);
        let block = bytes(1 << 20);
        // More than sockets buffer.
        for _ in 0..40 {
            data.write(&block);
        }
        data.finish();
        assert_eq!(ftp.outcome().code, 552);
        ftp.ok("NOOP", 200);
    });
}

/// The client library of Globus sends nothing after the 552, and waits for the connection to break.
#[test]
fn a_client_of_gridftp_has_its_connection_reset() {
    for before in ["SITE CLIENTINFO appname=\"x\";", "MODE E"] {
        let trouble = Trouble::new(At::Write, 0, What::Fail(ErrorKind::NoSpace));
        with_trouble(&trouble, |ftp, _| {
            ftp.send(before);
            assert_eq!(ftp.reply().code / 100, 2);
            let mut data = ftp.data();
            ftp.ok("STOR f", 150);
            if before == "MODE E" {
                // The server may have closed before all of it is sent.
                drop(std::io::Write::write_all(
                    &mut data.0,
                    &header(0, 1 << 30, 0),
                ));
            }
            drop(std::io::Write::write_all(&mut data.0, &bytes(1 << 20)));
            assert_eq!(ftp.outcome().code, 552);
            let broken = std::io::Read::read(&mut data.0, &mut [0]);
            assert!(broken.is_err(), "{broken:?} after {before}");
            ftp.ok("NOOP", 200);
        });
    }
}
