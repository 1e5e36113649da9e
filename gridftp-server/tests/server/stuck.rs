//! Storage that does not answer: the client can abort all the same, and goes on.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use byte_ranges::RangeSet;
use bytes::Bytes;
use gridftp_dsi::{
    Capabilities, ChecksumAlgorithm, Create, Dsi, DsiPath, Finish, Listing, Memory, Meta, Progress,
    Result, Sink, Stat, User,
};
use gridftp_server::Server;
use gridftp_server::config::{Access, Config, Options};

use crate::support::{Ftp, bytes, header};

/// What does not answer, the first time it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Open,
    Read,
    List,
    Next,
    Write,
    Checkpoint,
    Tree,
}

/// Files in memory behind storage that hangs once.
struct Stuck {
    inner: Memory,
    at: At,
    met: Arc<AtomicU32>,
}

/// An open file of it.
struct StuckSink {
    inner: <Memory as Dsi>::Sink,
    at: At,
    met: Arc<AtomicU32>,
}

/// A directory of it.
struct StuckListing {
    inner: <Memory as Dsi>::Listing,
    at: At,
    met: Arc<AtomicU32>,
}

impl Listing for StuckListing {
    async fn next(&mut self) -> Result<Vec<Stat>> {
        hang(self.at == At::Next, &self.met).await;
        self.inner.next().await
    }
}

async fn hang(hangs: bool, met: &AtomicU32) {
    if hangs && met.fetch_add(1, Ordering::Relaxed) == 0 {
        std::future::pending().await
    }
}

impl Sink for StuckSink {
    async fn write_at(&self, offset: u64, data: Bytes) -> Result<()> {
        hang(self.at == At::Write, &self.met).await;
        self.inner.write_at(offset, data).await
    }

    async fn checkpoint(&self, held: &RangeSet, durable: bool) -> Result<()> {
        hang(self.at == At::Checkpoint, &self.met).await;
        self.inner.checkpoint(held, durable).await
    }

    fn held(&self) -> RangeSet {
        self.inner.held()
    }

    async fn finish(self, done: Finish) -> Result<Stat> {
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

impl Dsi for Stuck {
    type Source = <Memory as Dsi>::Source;
    type Sink = StuckSink;
    type Listing = StuckListing;

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn stat(&self, user: &User, path: &DsiPath) -> Result<Stat> {
        self.inner.stat(user, path).await
    }

    async fn list(&self, user: &User, path: &DsiPath) -> Result<Self::Listing> {
        hang(self.at == At::List, &self.met).await;
        Ok(StuckListing {
            inner: self.inner.list(user, path).await?,
            at: self.at,
            met: Arc::clone(&self.met),
        })
    }

    async fn read(&self, user: &User, path: &DsiPath) -> Result<Self::Source> {
        hang(self.at == At::Read, &self.met).await;
        self.inner.read(user, path).await
    }

    async fn write(&self, user: &User, path: &DsiPath, how: Create) -> Result<StuckSink> {
        hang(self.at == At::Open, &self.met).await;
        Ok(StuckSink {
            inner: self.inner.write(user, path, how).await?,
            at: self.at,
            met: Arc::clone(&self.met),
        })
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
        hang(self.at == At::Tree, &self.met).await;
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

/// Runs `test` with a session of a server whose storage hangs once at `at`.
fn with_stuck(at: At, test: impl FnOnce(&mut Ftp, &dyn Fn())) {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.bind = Some([127, 0, 0, 1].into());
    options.port = Some(0);
    options.anonymous = Some(Access::Rw);
    options.root = Some(dir.path().into());
    options.stall_timeout = Some(if at == At::Next { 1 } else { 300 });
    let config = Config::check(&options).unwrap();
    // One thread, so that whatever keeps it keeps everybody.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let met = Arc::new(AtomicU32::new(0));
    let storage = Stuck {
        inner: Memory::new(),
        at,
        met: Arc::clone(&met),
    };
    let server = {
        let _inside = runtime.enter();
        Server::bind(config, storage).unwrap()
    };
    let address: SocketAddr = server.local_addr();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stop_when = async { drop(stopped.await) };
    let running = runtime.spawn(server.run(stop_when, std::future::pending()));
    let mut ftp = Ftp::connect(address);
    ftp.login("anonymous", "test@");
    ftp.ok("TYPE I", 200);
    test(&mut ftp, &|| {
        while met.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
    });
    drop((ftp, stop));
    drop(runtime.block_on(running));
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
fn what_waits_for_storage_can_be_aborted() {
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
fn an_eager_upload_can_be_aborted_while_it_is_opened() {
    with_stuck(At::Open, |ftp, wait| {
        ftp.ok("MODE E", 200);
        ftp.ok("OPTS STOR Eager=1;", 200);
        ftp.pasv();
        ftp.send("STOR f");
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

/// Nobody aborts here: the stall deadline does.
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
