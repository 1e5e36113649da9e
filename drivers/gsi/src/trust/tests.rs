//! A directory that changes under the store.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use gsi::certificate::Certificate;
use gsi::verify::Rule;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use xio_testkit::Grid;

use super::*;

/// A verifier that counts its searches.
#[derive(Debug)]
pub(crate) struct Counted(TrustDirectory, AtomicUsize);

impl Counted {
    pub(crate) fn new(grid: &Grid) -> Arc<Self> {
        Arc::new(Self(open(grid), AtomicUsize::new(0)))
    }

    pub(crate) fn count(&self) -> usize {
        self.1.load(Ordering::Relaxed)
    }
}

impl Verifier for Counted {
    fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<Peer, Refusal> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.verify(chain, now)
    }
}

/// A verifier whose verdict takes until another task of the same reactor has had its turn.
#[derive(Debug)]
pub(crate) struct Slow {
    directory: TrustDirectory,
    begun: UnboundedSender<()>,
    free: Mutex<mpsc::Receiver<()>>,
}

impl Slow {
    /// Returns a judge, and the other task.
    pub(crate) fn judge(grid: &Grid) -> (Judge, impl Future<Output = ()> + use<>) {
        let (begun, mut working): (_, UnboundedReceiver<()>) = unbounded_channel();
        let (go, free) = mpsc::channel();
        let slow = Self {
            directory: open(grid),
            begun,
            free: Mutex::new(free),
        };
        let other = async move {
            while working.recv().await.is_some() {
                let _ = go.send(());
            }
        };
        (Judge::new(Arc::new(slow)), other)
    }
}

impl Verifier for Slow {
    fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<Peer, Refusal> {
        self.begun.send(()).unwrap();
        let free = self.free.lock().unwrap().recv_timeout(INTERVAL * 10);
        free.map_err(|_| Refusal::new(None, Rule::Empty))?;
        self.directory.verify(chain, now)
    }
}

fn open(grid: &Grid) -> TrustDirectory {
    TrustDirectory::open(grid.certificates(), TrustOptions::default()).unwrap()
}

fn verdict(directory: &TrustDirectory, grid: &Grid, common: &str) -> Result<String, Rule> {
    let chain = grid.user(common);
    let verdict = directory.verify(chain.chain(), UnixTime::now());
    verdict
        .map(|peer| peer.identity.to_string())
        .map_err(|refusal| refusal.rule)
}

#[test]
fn a_revocation_list_counts_after_the_next_look() {
    let grid = Grid::new();
    let directory = open(&grid);
    let start = Instant::now();
    let alice = || verdict(&directory, &grid, "Alice Lab");
    assert_eq!(alice().unwrap(), "/O=Grid/OU=Lab/CN=Alice Lab");

    grid.revoke(&["Alice Lab"]);
    directory.refresh(start);
    assert!(alice().is_ok(), "too early to look");
    directory.refresh(start + 2 * INTERVAL);
    assert!(matches!(alice(), Err(Rule::Revoked { .. })));
    assert!(verdict(&directory, &grid, "Bob Lab").is_ok());

    let held = directory.store();
    directory.refresh(start + 4 * INTERVAL);
    assert!(Arc::ptr_eq(&held, &directory.store()), "nothing changed");
    grid.revoke(&[]);
    directory.refresh(start + 6 * INTERVAL);
    assert!(alice().is_ok());
}

#[test]
fn a_half_written_directory_counts_as_before() {
    let grid = Grid::new();
    grid.revoke(&["Alice Lab"]);
    let directory = open(&grid);
    let mut now = Instant::now();
    let mut look = || {
        now += INTERVAL;
        directory.refresh(now);
    };
    let alice = || verdict(&directory, &grid, "Alice Lab");

    // Each file broken in turn, then the directory gone.
    let hash = grid.hash();
    for end in ["0", "r0", "signing_policy"] {
        let file = grid.certificates().join(format!("{hash}.{end}"));
        let whole = fs::read_to_string(&file).unwrap();
        let half = &whole[..whole.len() / 2];
        grid.write(&format!("certificates/{hash}.{end}"), half, 0o644);
        look();
        assert!(matches!(alice(), Err(Rule::Revoked { .. })), "{end}");
        assert!(verdict(&directory, &grid, "Bob Lab").is_ok(), "{end}");
        grid.write(&format!("certificates/{hash}.{end}"), &whole, 0o644);
    }
    let aside = grid.folder().join("aside");
    fs::rename(grid.certificates(), &aside).unwrap();
    look();
    assert!(matches!(alice(), Err(Rule::Revoked { .. })));
    fs::rename(&aside, grid.certificates()).unwrap();
    fs::remove_file(grid.certificates().join(format!("{hash}.r0"))).unwrap();
    look();
    assert!(alice().is_ok());
}

/// Its removal is how trust is withdrawn in an emergency.
#[test]
fn the_removal_of_the_last_authority_takes_effect() {
    let grid = Grid::new();
    let directory = open(&grid);
    let start = Instant::now();
    let alice = || verdict(&directory, &grid, "Alice Lab");
    assert!(alice().is_ok());
    let root = grid.certificates().join(format!("{}.0", grid.hash()));
    let aside = grid.folder().join("aside");
    fs::rename(&root, &aside).unwrap();
    directory.refresh(start + INTERVAL);
    assert!(matches!(alice(), Err(Rule::UnknownIssuer { .. })));
    fs::rename(&aside, &root).unwrap();
    directory.refresh(start + 2 * INTERVAL);
    assert!(alice().is_ok());
}

#[test]
fn an_authority_is_trusted_under_its_own_hash_and_with_a_readable_list() {
    let grid = Grid::new();
    let certificates = grid.certificates();
    let own = certificates.join(format!("{}.0", grid.hash()));
    let other = certificates.join("01234567.0");
    fs::rename(&own, &other).unwrap();
    let error = TrustDirectory::open(&certificates, TrustOptions::default());
    assert!(matches!(error, Err(NoTrust::Empty(_))), "{error:?}");

    symlink(&other, &own).unwrap();
    assert!(verdict(&open(&grid), &grid, "Alice Lab").is_ok());

    grid.write(
        &format!("certificates/{}.r1", grid.hash()),
        "garbage",
        0o644,
    );
    let error = TrustDirectory::open(&certificates, TrustOptions::default());
    assert!(matches!(error, Err(NoTrust::Empty(_))), "{error:?}");
}

#[test]
fn a_new_list_that_cannot_be_read_takes_the_trust_away() {
    let grid = Grid::new();
    let directory = open(&grid);
    let start = Instant::now();
    let list = format!("certificates/{}.r0", grid.hash());
    grid.write(&list, "garbage", 0o644);
    directory.refresh(start + INTERVAL);
    let alice = || verdict(&directory, &grid, "Alice Lab");
    assert!(matches!(alice(), Err(Rule::UnknownIssuer { .. })));
    grid.revoke(&[]);
    directory.refresh(start + 2 * INTERVAL);
    assert!(alice().is_ok());
}

#[test]
fn both_hashes_name_an_authority() {
    let grid = Grid::new();
    let certificates = grid.certificates();
    let root = Certificate::parse(grid.root().clone()).unwrap();
    let old = format!("{:08x}", root.subject().old_hash());
    for end in ["0", "signing_policy"] {
        let new = certificates.join(format!("{}.{end}", grid.hash()));
        fs::rename(new, certificates.join(format!("{old}.{end}"))).unwrap();
    }
    assert!(verdict(&open(&grid), &grid, "Alice Lab").is_ok());
}

#[test]
fn a_directory_without_authorities_is_an_error_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path| {
        let opened = TrustDirectory::open(path, TrustOptions::default());
        opened.unwrap_err().to_string()
    };
    let empty = open(folder.path());
    assert!(empty.contains("openssl x509 -hash"), "{empty}");
    let missing = open(&folder.path().join("none"));
    assert!(missing.contains("X509_CERT_DIR"), "{missing}");
}

#[tokio::test]
async fn a_look_goes_on_another_thread() {
    let grid = Grid::new();
    let directory = Arc::new(open(&grid));
    // The last look was long ago.
    directory.loaded.lock().unwrap().looked = None;
    grid.revoke(&["Alice Lab"]);
    Judge::from(Arc::clone(&directory)).refreshed().await;
    let alice = verdict(&directory, &grid, "Alice Lab");
    assert!(matches!(alice, Err(Rule::Revoked { .. })));
}
