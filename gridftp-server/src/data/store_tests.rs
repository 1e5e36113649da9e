//! Tests of the end of failed uploads: the ranges that are kept, and those that are told.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use digest_tree::{GROUP, Piece, Tree};
use ftp_proto::types::Event;
use ftp_wire::receipt::Extent;
use gridftp_data::{Told, Watch};
use gridftp_dsi::{GroupValue, Stat};
use gridftp_dsi_posix::Posix;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::*;
use crate::config::{Config, Options};
use crate::data::Reporter;
use crate::error::NodeFault;
use crate::server::Shared;
use crate::transfer_log::Requester;

/// The conduct of a sink when ranges are recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Recording {
    Works,
    Fails,
    Hangs,
}

/// A sink that keeps its records in memory.
pub(crate) struct Recorder {
    conduct: Recording,
    records: Mutex<Vec<RangeSet>>,
}

impl Recorder {
    pub(crate) fn new(conduct: Recording) -> Self {
        let records = Mutex::default();
        Self { conduct, records }
    }

    fn records(&self) -> Vec<RangeSet> {
        self.records.lock().unwrap().clone()
    }
}

impl Sink for Recorder {
    async fn write_at(&self, _: u64, _: Bytes) -> gridftp_dsi::Result<()> {
        Ok(())
    }

    async fn checkpoint(&self, held: &RangeSet, _: bool) -> gridftp_dsi::Result<()> {
        match self.conduct {
            Recording::Works => {
                self.records.lock().unwrap().push(held.clone());
                Ok(())
            }
            Recording::Fails => Err(broken()),
            Recording::Hangs => std::future::pending().await,
        }
    }

    fn held(&self) -> RangeSet {
        RangeSet::new()
    }

    async fn groups(&self, _: &RangeSet) -> gridftp_dsi::Result<Option<Vec<GroupValue>>> {
        Ok(Some(Vec::new()))
    }

    async fn finish(self, _: Finish) -> gridftp_dsi::Result<Stat> {
        panic!("a failed upload is not finished")
    }
}

fn broken() -> gridftp_dsi::Error {
    gridftp_dsi::Error::new(ErrorKind::Io, "find data")
}

pub(crate) fn store() -> Store {
    Store {
        path: DsiPath::new(b"/f").unwrap(),
        into: Placement::Whole,
        held: RangeSet::new(),
        size: None,
        modified: None,
        checksum: None,
        proof: None,
        rules: StoreRules::default(),
    }
}

/// Runs an upload in MODE E of ten bytes which fails after `lasts`; returns its failure and the
/// ranges that the client is told.
async fn fail<X: Future<Output = Result<Verdict, Error>>>(
    store: &Store,
    sink: &Recorder,
    lasts: Duration,
    examine: impl Fn(RangeSet) -> X,
) -> (Error, Vec<RangeSet>) {
    let receiving = async |watch: &Watch| {
        watch.open(false);
        watch.record(&RangeSet::up_to(10)).unwrap();
        sleep(lasts).await;
        NodeFault::NoChannel.into()
    };
    fail_by(store, sink, receiving, examine).await
}

/// As [`fail`], of an upload that ends with this failure.
pub(crate) async fn fail_by<X: Future<Output = Result<Verdict, Error>>>(
    store: &Store,
    sink: &Recorder,
    receiving: impl AsyncFnOnce(&Watch) -> Error,
    examine: impl Fn(RangeSet) -> X,
) -> (Error, Vec<RangeSet>) {
    let tree = tempfile::tempdir().unwrap();
    let config = Config::check(&Options::default()).unwrap();
    let shared = Shared::new(config, Posix::open(tree.path()).unwrap());
    let user = User::new("ann", DsiPath::root(), true);
    let (events, mut told) = mpsc::channel(64);
    let (_session, cancel) = oneshot::channel();
    let second = Some(Duration::from_secs(1));
    let mut reporter = Reporter::at(events, cancel, None, second);
    let watch = Watch::new();
    let mut context = Context {
        shared: &shared,
        user: &user,
        requester: Requester {
            user: "ann",
            task: "",
            peer: std::net::Ipv4Addr::LOCALHOST.into(),
            files: &AtomicUsize::new(0),
        },
        channel: &Channel::new(Mode::Extended),
        tag: None,
        rules: StoreRules::default(),
        watch: &watch,
        reporter: &mut reporter,
    };
    let receiving = async { Err::<Received, Error>(receiving(&watch).await) };
    let received = store.receive(&mut context, sink, 0, receiving, examine);
    let limit = Duration::from_secs(3600);
    let received = timeout(limit, received).await.expect("an end");
    drop(reporter);
    let mut ranges = Vec::new();
    while let Some(event) = told.recv().await {
        if let Event::Received(new) = event {
            ranges.push(new);
        }
    }
    (received.err().expect("a failure"), ranges)
}

#[test]
fn a_file_without_a_digest_on_arrival_is_to_have_one_of_the_sender() {
    let proven = |here: Option<&str>, told: Option<&str>, announced: Option<&str>| {
        let blake3 = |digest: &str| (ChecksumAlgorithm::Blake3, digest.to_owned());
        let mut finish = Finish::as_is();
        finish.checksum = announced.map(blake3);
        let owned = |digest: &str| digest.to_owned();
        let digests = (here.map(owned), told.map(owned));
        store().prove(digests, &mut finish).unwrap();
        finish.checksum.map(|(_, digest)| digest)
    };
    assert_eq!(proven(Some("aa"), Some("aa"), None), None);
    assert_eq!(proven(None, Some("aa"), None).as_deref(), Some("aa"));
    assert_eq!(proven(None, Some("aa"), Some("bb")).as_deref(), Some("bb"));
    assert_eq!(proven(Some("AA"), None, Some("aa")), None);
    assert_eq!(
        proven(Some("aa"), Some("aa"), Some("bb")).as_deref(),
        Some("bb")
    );
    assert_eq!(proven(None, None, None), None);
}

#[test]
fn bytes_of_an_earlier_upload_need_a_digest() {
    let mut store = store();
    store.held = RangeSet::up_to(7);
    let told = || (None, Some("aa".to_owned()));
    store.prove(told(), &mut Finish::as_is()).unwrap();
    let announced = || Finish::as_is().with_checksum(ChecksumAlgorithm::Blake3, "aa".to_owned());
    store.prove((None, None), &mut announced()).unwrap();
    let here = || (Some("aa".to_owned()), None);
    let unproven = store.prove(here(), &mut Finish::as_is());
    assert!(matches!(unproven, Err(Error::Unproven { held: 7 })));
    store.rules.in_place = true;
    store.prove(here(), &mut Finish::as_is()).unwrap();
}

const BRIEF: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn a_failed_upload_is_kept_and_told() {
    let sink = Recorder::new(Recording::Works);
    let sound = |_| async { Ok(Verdict::Sound) };
    let (error, told) = fail(&store(), &sink, BRIEF, sound).await;
    assert!(
        matches!(error, Error::Node(NodeFault::NoChannel)),
        "{error}"
    );
    assert_eq!(sink.records(), [RangeSet::up_to(10)]);
    assert_eq!(told, [RangeSet::up_to(10)]);
}

#[tokio::test(start_paused = true)]
async fn ranges_that_cannot_be_examined_are_neither_kept_nor_told() {
    let sink = Recorder::new(Recording::Works);
    let fails = |_| async { Err(broken().into()) };
    let (error, told) = fail(&store(), &sink, BRIEF, fails).await;
    assert!(
        matches!(error, Error::Node(NodeFault::NoChannel)),
        "{error}"
    );
    assert_eq!((sink.records(), told), (vec![], vec![]));
    let hangs = |_| std::future::pending();
    let (error, told) = fail(&store(), &sink, BRIEF, hangs).await;
    assert!(
        matches!(error, Error::Node(NodeFault::NoChannel)),
        "{error}"
    );
    assert_eq!((sink.records(), told), (vec![], vec![]));
}

/// The reply names the false report, although the storage cannot forget it.
#[tokio::test(start_paused = true)]
async fn a_false_report_is_told_as_such() {
    for conduct in [Recording::Works, Recording::Fails, Recording::Hangs] {
        let sink = Recorder::new(conduct);
        let lies = |_| async { Ok(Verdict::False(NodeFault::Absent { at: 7 }.into())) };
        let (error, told) = fail(&store(), &sink, BRIEF, lies).await;
        let Error::Node(NodeFault::Absent { at: 7 }) = error else {
            panic!("{error}");
        };
        assert!(sink.records().iter().all(RangeSet::is_empty));
        assert!(told.is_empty(), "{told:?}");
    }
}

/// The process may be killed before the end.
#[tokio::test(start_paused = true)]
async fn a_false_report_is_not_recorded_while_the_upload_goes_on() {
    let lasting = Duration::from_secs(10);
    let sink = Recorder::new(Recording::Works);
    let lies = |_| async { Ok(Verdict::False(NodeFault::Absent { at: 7 }.into())) };
    let (_, told) = fail(&store(), &sink, lasting, lies).await;
    assert!(sink.records().iter().all(RangeSet::is_empty));
    assert!(told.is_empty(), "{told:?}");
    // One that the storage shows late is recorded then, and told.
    let late = AtomicU32::new(0);
    let shown = |_| {
        std::future::ready(match late.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(Verdict::False(NodeFault::Absent { at: 7 }.into())),
            _ => Ok(Verdict::Sound),
        })
    };
    let (_, told) = fail(&store(), &sink, lasting, shown).await;
    assert_eq!(sink.records().last(), Some(&RangeSet::up_to(10)));
    assert_eq!(told, [RangeSet::up_to(10)]);
}

/// The process may be killed before the end.
#[tokio::test(start_paused = true)]
async fn nothing_is_held_any_more_once_recorded_bytes_have_come_again() {
    let lasting = Duration::from_secs(10);
    let (sink, store) = (Recorder::new(Recording::Works), store());
    let calls = AtomicU32::new(0);
    let (calls, recorder, upload) = (&calls, &sink, &store);
    // The first report is sound, and recorded.
    let again = |_| async move {
        match calls.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(Verdict::Sound),
            1 => {
                let verdict = upload.repeated(recorder, 7).await;
                assert_eq!(recorder.records().last(), Some(&RangeSet::new()));
                Ok(verdict)
            }
            _ => Ok(Verdict::False(Error::Repeated { at: 7 })),
        }
    };
    let receiving = async |watch: &Watch| {
        watch.open(false);
        for end in [10, 20] {
            watch.record(&RangeSet::up_to(end)).unwrap();
            sleep(lasting).await;
        }
        NodeFault::NoChannel.into()
    };
    let (error, told) = fail_by(&store, &sink, receiving, again).await;
    assert!(matches!(error, Error::Repeated { at: 7 }), "{error}");
    assert_eq!(told, [RangeSet::up_to(10)]);
    let (first, rest) = (RangeSet::up_to(10), sink.records().split_off(1));
    assert_eq!(sink.records().first(), Some(&first));
    assert!(rest.iter().all(RangeSet::is_empty), "{rest:?}");
}

/// Of two groups the sender has another first one.
async fn corrupt(watch: &Watch) -> Error {
    let size = 2 * GROUP;
    watch.open(false);
    let mut tree = Tree::of_part();
    tree.insert(Piece::of(0, &vec![0; usize::try_from(size).unwrap()]));
    watch.prove_parts(Tag::new(1, Extent::Whole), 0, 0);
    watch.add_known(tree.take_known());
    watch.moved(size);
    watch.record(&RangeSet::up_to(size)).unwrap();
    tree = Tree::new();
    tree.insert(Piece::of(0, &vec![0; usize::try_from(size).unwrap()]));
    let mut hints: Vec<_> = (tree.sections(size).unwrap().iter())
        .map(|value| *value.first_chunk().unwrap())
        .collect();
    hints[0] = [7; 16];
    watch.note_told(Told::new([7; 32], hints));
    watch.compare().unwrap_err().into()
}

#[tokio::test(start_paused = true)]
async fn of_a_corrupt_upload_only_bytes_are_kept_that_are_found() {
    let sink = Recorder::new(Recording::Works);
    let sound = |_| async { Ok(Verdict::Sound) };
    let (error, _) = fail_by(&store(), &sink, corrupt, sound).await;
    assert!(error.is_corrupt(), "{error}");
    let second: RangeSet = Range64::new(GROUP, 2 * GROUP).into_iter().collect();
    assert_eq!(sink.records(), [second]);
    let sink = Recorder::new(Recording::Works);
    let lies = |_| async { Ok(Verdict::False(NodeFault::Absent { at: 7 }.into())) };
    let (error, told) = fail_by(&store(), &sink, corrupt, lies).await;
    assert!(
        matches!(error, Error::Node(NodeFault::Absent { at: 7 })),
        "{error}"
    );
    assert_eq!((sink.records(), told), (vec![RangeSet::new()], vec![]));
}

/// Its partial file goes with it.
#[tokio::test(start_paused = true)]
async fn an_upload_with_a_digest_ahead_records_and_tells_nothing() {
    let sink = Recorder::new(Recording::Works);
    let store = Store {
        proof: Some(("MD5".into(), "00".into())),
        ..store()
    };
    let sound = |_| async { Ok(Verdict::Sound) };
    let (_, told) = fail(&store, &sink, Duration::from_secs(10), sound).await;
    assert_eq!((sink.records(), told), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_although_the_disk_does_not_answer() {
    // Before a record is due, and while one is written.
    for lasting in [BRIEF, Duration::from_secs(10)] {
        let sink = Recorder::new(Recording::Hangs);
        let sound = |_| async { Ok(Verdict::Sound) };
        let (error, told) = fail(&store(), &sink, lasting, sound).await;
        assert!(
            matches!(error, Error::Node(NodeFault::NoChannel)),
            "{error}"
        );
        assert!(told.is_empty(), "{told:?}");
    }
}

#[cfg(feature = "object")]
#[tokio::test]
async fn a_restart_whose_digest_would_come_too_late_is_refused_before_the_data() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("file"), "old").unwrap();
    let url = format!("file://{}", root.display());
    let mut config = gridftp_dsi_object::Config::new(url, dir.path().join("index"));
    config.part = Some(10);
    let objects = gridftp_dsi_object::Objects::open(&config).unwrap();
    let user = User::new("ann", DsiPath::root(), true);
    let mut store = Store {
        path: DsiPath::new(b"/file").unwrap(),
        into: Placement::Whole,
        held: RangeSet::up_to(10),
        size: Some(20),
        modified: None,
        checksum: Some(("MD5".into(), "0".repeat(32))),
        proof: None,
        rules: StoreRules::default(),
    };
    let size = store.size;
    let broken = objects.write(&user, &store.path, Create::Whole { size });
    let broken = broken.await.unwrap();
    broken.write_at(0, Bytes::from(vec![7; 10])).await.unwrap();
    broken.checkpoint(&store.held, true).await.unwrap();
    drop(broken);
    let mut how = Channel::new(Mode::Extended);
    how.ty = Type::Image;
    let refused = store.open(&objects, &user, &how, None).await.map(drop);
    let refused = refused.unwrap_err();
    let is_right = matches!(refused, Error::NothingToResume { missing: 0 });
    assert!(is_right, "{refused}");
    store.checksum = None;
    store.open(&objects, &user, &how, None).await.unwrap();
}
