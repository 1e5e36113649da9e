//! Nodes that fail under a transfer, on paused time and without sockets.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::Mutex;

use byte_ranges::{Range64, RangeSet};
use digest_tree::{Piece, Tree};
use ftp_proto::types::{Channel, ListForm};
use ftp_wire::command::Tag;
use ftp_wire::path::FtpPath;
use ftp_wire::receipt::Extent;
use ftp_wire::reply::{Code, Reply};
use futures_util::FutureExt as _;
use gridftp_cluster::{Failed, TransferKind};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use xio::rate::Bound;

use super::*;
use crate::data::store_tests::{Recorder, Recording, fail_by, store};
use crate::data::{Verdict, limit};
use crate::reply_for::reply_for;

/// Time of a failure after the beginning, and the silence after which a node counts as lost.
const FAILS: Duration = Duration::from_millis(2400);
const SILENCE: Duration = Duration::from_millis(3500);

/// The end of a node's transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Conduct {
    /// Its process is killed.
    Dies,
    /// Its process is stopped.
    Freezes,
    /// The client breaks its data connections.
    Breaks,
    /// It ends once it is told to.
    Obeys,
    /// It does not end.
    Stays,
}

/// A node that has received the block of its number.
struct Played {
    name: String,
    conduct: Conduct,
    begun: Instant,
    messages: VecDeque<FromNode>,
    aborted: Notify,
    /// The rates that it was told, and its transfer.
    heard: Mutex<Vec<ToNode>>,
    /// The word on the end of its data.
    ended: Mutex<Option<Option<Box<gridftp_cluster::Told>>>>,
}

impl Played {
    fn new((number, conduct): (u64, Conduct)) -> Self {
        let block = Range64::from_len(number * 10, 10).into_iter().collect();
        Self {
            name: format!("node{number}"),
            conduct,
            begun: Instant::now(),
            messages: [
                FromNode::Opened { reused: false },
                FromNode::Received(block),
            ]
            .into(),
            aborted: Notify::new(),
            heard: Mutex::default(),
            ended: Mutex::default(),
        }
    }
}

impl Session for Played {
    fn node(&self) -> &str {
        &self.name
    }

    async fn send(&self, request: ToNode) -> gridftp_cluster::Result<()> {
        match request {
            ToNode::Abort => self.aborted.notify_one(),
            ToNode::EndData(told) => *self.ended.lock().unwrap() = Some(told),
            ToNode::Rate(_) | ToNode::Transfer(_) => self.heard.lock().unwrap().push(request),
            _ => {}
        }
        Ok(())
    }

    async fn recv(&mut self) -> gridftp_cluster::Result<FromNode> {
        if let Some(message) = self.messages.pop_front() {
            return Ok(message);
        }
        let peer = self.name.clone();
        let fails = self.begun + FAILS;
        match self.conduct {
            Conduct::Dies => {
                sleep_until(fails).await;
                Err(gridftp_cluster::Error::Ended { peer })
            }
            Conduct::Freezes => {
                sleep_until(fails + SILENCE).await;
                let after = SILENCE;
                Err(gridftp_cluster::Error::Silent { peer, after })
            }
            Conduct::Breaks => {
                sleep_until(fails).await;
                Ok(failed("closed", Fault::Peer))
            }
            Conduct::Obeys => {
                self.aborted.notified().await;
                Ok(failed("aborted", Fault::Aborted))
            }
            Conduct::Stays => std::future::pending().await,
        }
    }
}

fn failed(text: &str, fault: Fault) -> FromNode {
    let reply = Reply::coded(Code::of::<426>(), [text]);
    FromNode::Failed(Box::new(Failed { reply, fault }))
}

/// A transfer of any kind.
fn request() -> Transfer {
    Transfer {
        kind: TransferKind::List {
            path: FtpPath::root(),
            form: ListForm::Long,
        },
        channel: Channel::new(Mode::Extended),
        perf_every: None,
        restart_every: None,
        drains: false,
        tag: None,
    }
}

/// Follows transfers of these nodes to their failure.
async fn follow(watch: &Watch, conducts: &[Conduct]) -> Error {
    let nodes = (0..).zip(conducts.iter().copied()).map(Played::new);
    let ended = follow_all(watch, &mut nodes.collect::<Vec<_>>()).await;
    ended.expect_err("a failure")
}

/// Follows transfers of these nodes, of a session that has ended, to their end.
async fn follow_all(watch: &Watch, nodes: &mut [Played]) -> Result<Vec<Transferred>, Error> {
    let rate = AskedRate::of(&watch::Sender::default());
    follow_with(rate, watch, nodes, None).await
}

/// The same at a rate, of a file with this check.
async fn follow_with<'a>(
    rate: AskedRate,
    watch: &'a Watch,
    nodes: &mut [Played],
    unchanged: Option<&'a Check<'a>>,
) -> Result<Vec<Transferred>, Error> {
    let (events, _told) = mpsc::channel(64);
    let (consent, _asked) = mpsc::channel(1);
    let followed = Followed {
        watch,
        rate,
        events,
        stop: CancellationToken::new(),
        consent,
        limit: (Duration::from_secs(3), NodeFault::Silent),
        lost: CancellationToken::new(),
        unchanged,
        sent: AtomicUsize::new(0),
        nodes: nodes.len(),
    };
    let counts: Vec<_> = nodes.iter().map(|_| AtomicU64::new(0)).collect();
    let all = nodes.iter_mut().map(|node| (node, request())).zip(&counts);
    followed.all(all).await
}

#[tokio::test(start_paused = true)]
async fn the_client_is_told_of_a_lost_node_within_five_seconds() {
    for lost in [Conduct::Dies, Conduct::Freezes] {
        for (other, recording) in [
            (Conduct::Obeys, Recording::Works),
            (Conduct::Stays, Recording::Works),
            (Conduct::Obeys, Recording::Hangs),
            (Conduct::Stays, Recording::Hangs),
        ] {
            let row = format!("{lost:?} {other:?} {recording:?}");
            let sink = Recorder::new(recording);
            let conducts = [Conduct::Obeys, lost, other];
            let receiving = async |watch: &Watch| follow(watch, &conducts).await;
            let sound = |_| async { Ok(Verdict::Sound) };
            let begun = Instant::now();
            let (error, told) = fail_by(&store(), &sink, receiving, sound).await;
            let taken = begun.elapsed() - FAILS;
            assert!(taken <= Duration::from_secs(5), "{row}: {taken:?}");
            let reply = reply_for(&error);
            assert_eq!(reply.code(), Code::of::<426>(), "{row}");
            assert!(reply.text().contains("data node node1: lost"), "{row}");
            let told: RangeSet = told.iter().flatten().collect();
            let expected = match recording {
                Recording::Works => RangeSet::up_to(30),
                _ => RangeSet::new(),
            };
            assert_eq!(told, expected, "{row}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_node_is_named_in_place_of_the_connections_that_break_with_it() {
    for (conducts, named) in [
        ([Conduct::Breaks, Conduct::Dies], "node1: lost"),
        ([Conduct::Breaks, Conduct::Freezes], "node1: no answer"),
        ([Conduct::Dies, Conduct::Breaks], "node0: lost"),
        ([Conduct::Obeys, Conduct::Breaks], "closed"),
    ] {
        let error = follow(&Watch::new(), &conducts).await.to_string();
        assert!(error.contains(named), "{conducts:?}: {error}");
    }
}

/// The values of the part of a node, which begins at `offset`.
fn hashed(offset: u64, part: &[u8]) -> FromNode {
    let mut tree = Tree::of_part();
    tree.insert(Piece::of(offset, part));
    FromNode::Hashed(Box::new(tree.take_known()))
}

/// The parts of a file on two nodes.
const PARTS: ([u8; 2048], [u8; 1000]) = ([1; 2048], [2; 1000]);

/// The watch of a file, and two nodes that send its parts.
fn senders() -> (Watch, [Played; 2]) {
    let (one, two) = PARTS;
    let watch = Watch::new();
    watch.prove_parts(Tag::new(1, Extent::Whole), 0, 0);
    let ends = |offset, part: &[u8]| {
        let bytes = part.len() as u64;
        let done = Transferred {
            bytes,
            ..Transferred::default()
        };
        let done = FromNode::Transferred(Box::new(done));
        [hashed(offset, part), FromNode::Sent(bytes), done]
    };
    let mut nodes = [(0, Conduct::Stays), (1, Conduct::Stays)].map(Played::new);
    nodes[0].messages = ends(0, &one).into();
    nodes[1].messages = ends(2048, &two).into();
    (watch, nodes)
}

#[tokio::test(start_paused = true)]
async fn the_last_node_to_end_is_given_the_digest_of_all() {
    let (watch, mut nodes) = senders();
    let done = follow_all(&watch, &mut nodes).await.unwrap();
    assert_eq!(done.len(), 2);
    let told = nodes.map(|node| node.ended.into_inner().unwrap().expect("no word"));
    let mut whole = Tree::default();
    whole.insert(Piece::of(0, &[&PARTS.0[..], &PARTS.1].concat()));
    let told = told.map(|told| told.map(|told| told.digest));
    let last = Some(whole.digest(3048).unwrap().into());
    assert!(told == [None, last] || told == [last, None], "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn the_digest_of_a_file_that_has_changed_is_not_told() {
    let rate = || AskedRate::of(&watch::Sender::default());
    let changed = || gridftp_dsi::Error::new(gridftp_dsi::ErrorKind::Changed, "read").into();
    let check = || async move { Err(changed()) }.boxed();
    let (watch, mut nodes) = senders();
    let error = follow_with(rate(), &watch, &mut nodes, Some(&check)).await;
    assert!(error.unwrap_err().to_string().contains("changed"));
    let told = |nodes: [Played; 2]| nodes.map(|node| node.ended.into_inner().unwrap());
    // The other one had been told to end.
    assert!(told(nodes).contains(&None));
    let late = || std::future::pending().boxed();
    let (watch, mut nodes) = senders();
    let done = follow_with(rate(), &watch, &mut nodes, Some(&late)).await;
    assert_eq!(done.unwrap().len(), 2);
    assert_eq!(told(nodes), [Some(None), Some(None)]);
}

/// The storage does not answer, and the other node fails meanwhile.
#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_look_at_the_file() {
    let rate = AskedRate::of(&watch::Sender::default());
    let never = || std::future::pending().boxed();
    let mut nodes = [(0, Conduct::Breaks), (1, Conduct::Breaks)].map(Played::new);
    for node in &mut nodes {
        node.messages = [FromNode::Sent(0)].into();
    }
    let (bytes, begun) = (Watch::new(), Instant::now());
    let ended = follow_with(rate, &bytes, &mut nodes, Some(&never)).await;
    ended.expect_err("a failure");
    assert!(begun.elapsed() < LOOK, "{:?}", begun.elapsed());
    let told = nodes.map(|node| node.ended.into_inner().unwrap());
    assert!(told.contains(&None), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_is_told_its_share_of_the_rate_before_its_transfer_and_at_each_change() {
    let session = watch::Sender::default();
    let ask = |rate| session.send_modify(|bound: &mut Option<Bound>| limit(bound, rate));
    let rates = [1001, 1, 0].map(NonZero::new);
    let mut nodes = [(0, Conduct::Breaks), (1, Conduct::Obeys)].map(Played::new);
    ask(rates[0]);
    let (rate, bytes) = (AskedRate::of(&session), Watch::new());
    let changing = async {
        for rate in &rates[1..] {
            sleep(FAILS / 4).await;
            ask(*rate);
        }
    };
    let (ended, ()) = tokio::join!(follow_with(rate, &bytes, &mut nodes, None), changing);
    ended.expect_err("a failure");
    let [first, second, third] = [500, 1, 0].map(|share| ToNode::Rate(NonZero::new(share)));
    let transfer = ToNode::Transfer(Box::new(request()));
    let expected = [first, transfer, second, third];
    for node in nodes {
        assert_eq!(node.heard.into_inner().unwrap(), expected, "{}", node.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_of_a_client_that_asks_for_no_rate_is_told_none() {
    let mut nodes = [(0, Conduct::Breaks)].map(Played::new);
    let ended = follow_all(&Watch::new(), &mut nodes).await;
    ended.expect_err("a failure");
    let heard = nodes.map(|node| node.heard.into_inner().unwrap());
    assert_eq!(heard, [[ToNode::Transfer(Box::new(request()))]]);
}
