//! Silence before a transfer and sessions that end around it, in paused time.

use std::os::unix::ffi::OsStringExt as _;
use std::sync::Arc;
use std::time::Duration;

use byte_ranges::RangeSet;
use ftp_proto::client::Settings;
use ftp_wire::command::{Command, Mode, Restart, Tag};
use ftp_wire::receipt::Extent;
use gridftp_data::{DataChannel, Options, Peers, Watch};
use gridftp_dsi::Sink as _;
use gridftp_dsi::types::ChecksumAlgorithm;
use mode_e::Header;
use tokio::io::AsyncWriteExt as _;
use xio_core::{Pool, Target};

use super::ask::{Asker, has_arrived};
use super::land::{open_sink, publish};
use super::receive::{Receiver, cut_off, end};
use super::{Asked, Landed, Sent, Stop};
use crate::abilities::{Abilities, Tags};
use crate::control::{Control, Replies};
use crate::copy::digests::DigestQuery;
use crate::copy::job::{DirJob, FileJob, Item};
use crate::copy::reach::Reach;
use crate::copy::state::CopyState;
use crate::copy::window::Window;
use crate::ls::Form;
use crate::played;
use crate::transfer::{Failure, SessionState, Transfer};

/// Takes the next file, whose transfer was asked for.
async fn next(shared: &CopyState, rest: Option<Replies>, transfer: Transfer) -> Asked {
    Asked {
        taken: shared.queue.next(|_| true).await.unwrap(),
        sent: Sent {
            again: None,
            rest,
            cut: None,
            transfer,
            tag: None,
            checksum: None,
            after: None,
            attributes: None,
            _under_way: Window::default().enter(0),
        },
    }
}

/// Receives a file in MODE S without a data connection, so that the attempt ends.
async fn take_alone(
    control: &Control,
    shared: &Arc<CopyState>,
    asked: Asked,
) -> Result<Option<Landed>, Stop> {
    let asker = Asker {
        control,
        abilities: &Abilities::default(),
        tags: None,
        numbers: &Tags::default(),
        shared,
        algorithm: None,
        mode: Mode::Stream,
        window: &Window::default(),
    };
    let mut channel = DataChannel::new(Options::default(), Pool::new(1 << 10, 1));
    let mut receiver = Receiver {
        abilities: &Abilities::default(),
        stripes: None,
        control,
        channel: &mut channel,
        shared,
        patience: None,
    };
    receiver.take_alone(&asker, asked).await
}

/// Asks for a file of a server that refuses it after a minute, and gives it five seconds to begin.
async fn slowly_refused(shared: &Arc<CopyState>) -> Result<Option<Landed>, Stop> {
    let (control, mut lines, mut replies) = played::greeted(Settings::default()).await;
    let job = FileJob::new(b"/tape".to_vec(), b"/nowhere".to_vec());
    shared.queue.push(Item::File(Box::new(job)));
    let from = control.path(b"/tape").unwrap();
    let asked = next(
        shared,
        None,
        Transfer::download(control.send(Command::Retr(from)), b""),
    )
    .await;
    let mut channel = DataChannel::new(Options::default(), Pool::new(1 << 10, 1));
    let mut receiver = Receiver {
        abilities: &Abilities::default(),
        stripes: None,
        control: &control,
        channel: &mut channel,
        shared,
        patience: Some(Duration::from_secs(5)),
    };
    let server = async {
        lines.next_line().await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        replies.write_all(b"550 no tape\r\n").await.unwrap();
        std::future::pending().await
    };
    tokio::select! {
        taken = receiver.take(asked) => taken,
        () = server => panic!("it waits to the end"),
    }
}

#[tokio::test(start_paused = true)]
async fn silence_is_waited_out_where_connections_are_no_question() {
    let shared = Arc::new(CopyState::plain());
    let taken = slowly_refused(&shared).await;
    assert!(
        matches!(taken, Err(Stop::Replace)),
        "it asks on another session"
    );
    assert_eq!(shared.reach(), Reach::Doubted);
    shared.note_reach(Reach::Trusted);
    assert!(matches!(slowly_refused(&shared).await, Ok(None)));
    assert_eq!(shared.reach(), Reach::Trusted);
}

/// A server that breaks off a part has failed, unless all of the part had arrived.
#[tokio::test(start_paused = true)]
async fn a_refusal_behind_less_than_the_part_fails_the_download() {
    for is_whole in [true, false] {
        let (control, mut lines, mut replies) = played::greeted(Settings::default()).await;
        let from = control.path(b"/file").unwrap();
        let mut transfer = Transfer::download(control.send(Command::Retr(from)), b"/file");
        lines.next_line().await.unwrap();
        let told = b"150 here it is\r\n426 the disk failed\r\n";
        replies.write_all(told).await.unwrap();
        let ended = cut_off(&mut transfer, is_whole).await;
        assert_eq!(ended.is_ok(), is_whole);
    }
}

/// Bytes of a source that changed before its transfer broke do not join the earlier ones.
#[tokio::test(start_paused = true)]
async fn a_changed_source_stays_changed_after_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let shared = Arc::new(CopyState::plain());
    let (control, _banner, _far) = played::connect(Settings::default());
    let to = dir.path().join("file").into_os_string().into_vec();
    let mut job = FileJob::new(b"/file".to_vec(), to);
    let sink = open_sink(&shared, &mut job, false).await.unwrap();
    job.held = RangeSet::up_to(3);
    job.changed = true;
    shared.queue.push(Item::File(Box::new(job)));
    let replies = control.send(Command::Noop);
    let failure = Failure::midway(replies.unanswered("it broke"), SessionState::Unanswered);
    let asked = next(&shared, None, Transfer::download(replies, b"/file")).await;
    let ended = end(&shared, asked, sink, &Watch::new(), Err(failure)).await;
    assert!(matches!(ended, Err(Stop::Replace)));
    let mut again = shared.queue.next(|_| true).await.unwrap();
    let Item::File(job) = again.item_mut() else {
        panic!("it is a file");
    };
    assert!(job.changed || job.held.is_empty());
}

/// Earlier bytes are of no use when the file comes from its start.
#[tokio::test(start_paused = true)]
async fn a_refused_restart_in_mode_s_begins_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let shared = Arc::new(CopyState::plain());
    let (control, mut lines, mut replies) = played::greeted(Settings::default()).await;
    let to = dir.path().join("file").into_os_string().into_vec();
    let mut job = FileJob::new(b"/file".to_vec(), to);
    job.sink = Some(open_sink(&shared, &mut job, false).await.unwrap());
    job.held = RangeSet::up_to(3);
    shared.queue.push(Item::File(Box::new(job)));
    let from = control.path(b"/file").unwrap();
    let asked = next(
        &shared,
        Some(control.send(Command::Rest(Restart::Offset(3)))),
        Transfer::download(control.send(Command::Retr(from)), b""),
    )
    .await;
    let server = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.starts_with("REST") {
                replies
                    .write_all(b"502 from the start only\r\n")
                    .await
                    .unwrap();
            }
        }
    };
    let taken = tokio::select! {
        taken = take_alone(&control, &shared, asked) => taken,
        () = server => panic!("the session stays open"),
    };
    assert!(matches!(taken, Err(Stop::Replace)));
    let mut again = shared.queue.next(|_| true).await.unwrap();
    let Item::File(job) = again.item_mut() else {
        panic!("it is a file");
    };
    assert!(job.held.is_empty(), "{:?}", job.held);
}

/// A server that confirms data which did not arrive owes no reply: its session goes on.
#[tokio::test(start_paused = true)]
async fn a_missing_connection_ends_the_session_only_without_a_reply() {
    for told in ["150 here it is\r\n226 sent\r\n", ""] {
        let dir = tempfile::tempdir().unwrap();
        let shared = Arc::new(CopyState::plain());
        let (control, mut lines, mut replies) = played::greeted(Settings::default()).await;
        let to = dir.path().join("file").into_os_string().into_vec();
        let job = FileJob::new(b"/file".to_vec(), to);
        shared.queue.push(Item::File(Box::new(job)));
        let from = control.path(b"/file").unwrap();
        let transfer = Transfer::download(control.send(Command::Retr(from)), b"");
        let asked = next(&shared, None, transfer).await;
        lines.next_line().await.unwrap();
        replies.write_all(told.as_bytes()).await.unwrap();
        match take_alone(&control, &shared, asked).await {
            Err(Stop::Channel) => assert!(!told.is_empty()),
            Err(Stop::Replace) => assert!(told.is_empty()),
            other => panic!("it has no connection: {:?}", other.map(|_| ())),
        }
    }
}

/// A server that has lost the digest of the bytes that it sent is asked for that of its file.
#[tokio::test]
async fn a_download_without_a_digest_in_its_receipt_is_compared_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let shared = Arc::new(CopyState::plain());
    let (control, mut lines, mut replies) = played::greeted(Settings::default()).await;
    let to = dir.path().join("file").into_os_string().into_vec();
    let job = FileJob::new(b"/file".to_vec(), to);
    shared.queue.push(Item::File(Box::new(job)));
    let from = control.path(b"/file").unwrap();
    let transfer = Transfer::download(control.send(Command::Retr(from)), b"/file");
    let mut asked = next(&shared, None, transfer).await;
    asked.sent.tag = Some(Tag::new(1, Extent::Whole));
    let mut channel = DataChannel::new(Options::default(), Pool::new(1 << 10, 1));
    let tcp = xio::registry().stack("tcp").unwrap();
    let here = Target::host("127.0.0.1", 0);
    let at = channel.listen(&tcp, &here, Peers::Any).await.unwrap();
    let mut receiver = Receiver {
        abilities: &Abilities::default(),
        stripes: None,
        control: &control,
        channel: &mut channel,
        shared: &shared,
        patience: None,
    };
    let server = async {
        lines.next_line().await.unwrap();
        let mut data = tokio::net::TcpStream::connect(at).await.unwrap();
        replies.write_all(b"150 here it is\r\n").await.unwrap();
        let heads = [Header::of_tag(1), Header::data(0, 3)];
        data.write_all(&heads.map(Header::to_bytes).concat())
            .await
            .unwrap();
        data.write_all(b"abc").await.unwrap();
        let ends = [Header::eof(1), Header::eod()];
        data.write_all(&ends.map(Header::to_bytes).concat())
            .await
            .unwrap();
        replies.write_all(b"226 Bytes=3;\r\n").await.unwrap();
        data
    };
    let (landed, _data) = tokio::join!(receiver.take(asked), server);
    let landed = landed.ok().flatten().unwrap();
    assert!(landed.checksum.is_some_and(|asked| asked.is_needed()));
    let mut line = lines.next_line().await.unwrap().unwrap();
    if line.starts_with("OPTS CKSM") {
        line = lines.next_line().await.unwrap().unwrap();
    }
    assert_eq!(line, "CKSM BLAKE3 0 -1 /file");
}

/// A session that ends over the digest of a finished download costs another digest, and no bytes.
#[tokio::test(start_paused = true)]
async fn a_session_that_ends_over_a_digest_is_followed_by_another_digest() {
    let dir = tempfile::tempdir().unwrap();
    let shared = Arc::new(CopyState::plain());
    let path = dir.path().join("file");
    let to = path.clone().into_os_string().into_vec();
    let mut job = FileJob::new(b"/file".to_vec(), to);
    let sink = open_sink(&shared, &mut job, false).await.unwrap();
    sink.write_at(0, b"abc".as_slice().into()).await.unwrap();
    job.held = RangeSet::up_to(3);
    shared.queue.push(Item::File(Box::new(job)));
    let (control, mut lines, mut replies) = played::greeted(Settings::default()).await;
    let from = control.path(b"/file").unwrap();
    let needed = Some(ChecksumAlgorithm::Sha256);
    let landed = Landed {
        taken: shared.queue.next(|_| true).await.unwrap(),
        sink,
        size: 3,
        proven: None,
        received: None,
        checksum: DigestQuery::send(&control, needed, None, (0, None), from),
        after: None,
        attributes: None,
        asks_again: false,
        is_last: false,
    };
    let server = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.starts_with("CKSM") {
                break;
            }
            replies.write_all(b"500 no\r\n").await.unwrap();
        }
        replies.shutdown().await.unwrap();
    };
    tokio::join!(publish(&shared, landed), server);
    let back = shared.queue.next(|_| true).await.unwrap();
    assert!(has_arrived(&back));
    let (control, mut lines, mut replies) = played::greeted(Settings::default()).await;
    let asker = Asker {
        control: &control,
        abilities: &Abilities::default(),
        tags: None,
        numbers: &Tags::default(),
        shared: &shared,
        algorithm: None,
        mode: Mode::Stream,
        window: &Window::default(),
    };
    let landed = asker.ask_words(back).unwrap().unwrap();
    let server = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            let is_of_digest = line.starts_with("CKSM SHA256");
            assert!(is_of_digest || !line.starts_with("RETR"), "{line}");
            let reply = match is_of_digest {
                true => "213 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\r\n",
                false => "500 no\r\n",
            };
            replies.write_all(reply.as_bytes()).await.unwrap();
        }
    };
    tokio::select! {
        () = publish(&shared, landed) => {}
        () = server => panic!("the session stays open"),
    }
    assert_eq!(shared.totals.counts().files_done, 1);
    assert_eq!(std::fs::read(path).unwrap(), b"abc");
}

/// A session is left before the transfer begins: the file is queued again, without a failed attempt.
#[tokio::test(start_paused = true)]
async fn a_transfer_that_has_not_begun_is_left_with_its_session() {
    let shared = Arc::new(CopyState::plain());
    let (control, _lines, _replies) = played::greeted(Settings::default()).await;
    let job = FileJob::new(b"/file".to_vec(), b"/nowhere".to_vec());
    shared.queue.push(Item::File(Box::new(job)));
    let from = control.path(b"/file").unwrap();
    let transfer = Transfer::download(control.send(Command::Retr(from)), b"");
    let asked = next(&shared, None, transfer).await;
    let mut channel = DataChannel::new(Options::default(), Pool::new(1 << 10, 1));
    let mut receiver = Receiver {
        abilities: &Abilities::default(),
        stripes: None,
        control: &control,
        channel: &mut channel,
        shared: &shared,
        patience: None,
    };
    control.left.cancel();
    let taken = receiver.take(asked).await;
    assert!(matches!(taken, Err(Stop::Replace)));
    let mut again = shared.queue.next(|_| true).await.unwrap();
    assert_eq!(again.file_mut().failures, 0);
}

/// After a broken listing over UDT, the directory is listed over TCP without a failure.
#[tokio::test(start_paused = true)]
async fn a_listing_that_breaks_over_udt_is_no_failure() {
    let shared = Arc::new(CopyState::plain());
    shared.tuning.change_stack(Some("udt"));
    let (mut control, _lines, _replies) = played::greeted(Settings::default()).await;
    (_, control.left) = shared.tuning.stack();
    let job = DirJob::new(b"/dir".to_vec(), b"/nowhere".to_vec());
    shared.queue.push(Item::Dir(Box::new(job)));
    let from = control.path(b"/dir").unwrap();
    let replies = control.send(Form::default().command(from));
    let asked = next(&shared, None, Transfer::download(replies, b"/dir")).await;
    let taken = take_alone(&control, &shared, asked).await;
    assert!(matches!(taken, Err(Stop::Replace)));
    assert_eq!(shared.tuning.stack().0, None);
    let mut again = shared.queue.next(|_| true).await.unwrap();
    let Item::Dir(job) = again.item_mut() else {
        panic!("it is a directory");
    };
    assert_eq!(job.failures, 0);
}
