//! Words, checks and names of copies between two servers, and sessions that end over them.

mod growth;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use byte_ranges::RangeSet;
use ftp_proto::client::Settings;
use ftp_wire::command::{Command, Mode};
use ftp_wire::path::FtpPath;
use gridftp_dsi::types::ChecksumAlgorithm;
use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream,
};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::confirm::Step;
use super::{Moving, Pair};
use crate::abilities::Abilities;
use crate::control::Control;
use crate::copy::Stop;
use crate::copy::job::{FileJob, Item};
use crate::copy::known::Known;
use crate::copy::pipeline::Route as _;
use crate::copy::queue::Taken;
use crate::copy::state::CopyState;
use crate::copy::window::Window;
use crate::error::{ControlError, TransferError};
use crate::played;
use crate::url::Site;

/// Two sessions behind the greetings of their servers.
struct Bed {
    ends: [(Control, DuplexStream); 2],
    abilities: Abilities,
    shared: Arc<CopyState>,
}

impl Bed {
    async fn new() -> Self {
        let end = async || {
            let (control, mut banner, mut far) = played::connect(Settings::default());
            far.write_all(b"220 ready\r\n").await.unwrap();
            banner.finish().await.unwrap();
            (control, far)
        };
        Self {
            ends: [end().await, end().await],
            abilities: Abilities::default(),
            shared: Arc::new(CopyState::plain()),
        }
    }

    /// These sessions as they were opened for UDT.
    fn over_udt(mut self) -> Self {
        self.shared.tuning.change_stack(Some("udt"));
        for (control, _) in &mut self.ends {
            (_, control.left) = self.shared.tuning.stack();
        }
        self
    }

    /// The pair of these sessions, and the writers to its servers.
    fn pair(&mut self) -> (Pair<'_>, [&mut DuplexStream; 2]) {
        let [(source, from), (destination, to)] = &mut self.ends;
        let pair = Pair {
            source,
            destination,
            abilities: (&self.abilities, &self.abilities),
            shared: &self.shared,
            algorithm: None,
            mode: Mode::Extended,
            tags: None,
            handshake: false,
            port: Some(([127, 0, 0, 1], 1).into()),
        };
        (pair, [from, to])
    }
}

/// Waits until both servers have been asked.
async fn asked(servers: &mut [&mut DuplexStream; 2]) {
    for far in servers {
        far.read_exact(&mut [0; "RETR /file\r\n".len()])
            .await
            .unwrap();
    }
}

/// A file of this size that both servers were asked to move.
async fn moving(pair: &Pair<'_>, size: Option<u64>) -> Moving {
    let mut job = FileJob::new(b"/from".to_vec(), b"/to".to_vec());
    job.facts.size = size;
    pair.shared.queue.push(Item::File(Box::new(job)));
    let path = || FtpPath::new(b"/file".to_vec()).unwrap();
    Moving {
        taken: pair.shared.queue.next(|_| true).await.unwrap(),
        retrieve: pair.source.send(Command::Retr(path())),
        resumes: false,
        after: None,
        announced: None,
        store: pair.destination.send(Command::Stor(path())),
        tagged: true,
        proven: None,
        under_way: Window::default().enter(0),
    }
}

/// The last reply of a server that has moved three bytes, with their digest.
fn proven() -> String {
    format!("226 Bytes=3;BLAKE3={};\r\n", "01".repeat(32))
}

/// The channel of steps that were passed on, with this one in it.
fn passed(step: Step<Moving>) -> (mpsc::Sender<Step<Moving>>, mpsc::Receiver<Step<Moving>>) {
    let (moved, confirming) = mpsc::channel(1);
    assert!(moved.try_send(step).is_ok());
    (moved, confirming)
}

/// Confirms a file over UDT with these replies of the servers, or leaves the sessions for TCP; gives
/// the file as it goes back.
async fn over_udt(replies: Option<&[u8]>) -> (Arc<CopyState>, Taken) {
    let mut bed = Bed::new().await.over_udt();
    let shared = Arc::clone(&bed.shared);
    let (pair, mut far) = bed.pair();
    let (_moved, confirming) = passed(Step::transfer(moving(&pair, None).await));
    let broken = CancellationToken::new();
    let servers = async {
        asked(&mut far).await;
        match replies {
            Some(replies) => {
                for end in &mut far {
                    end.write_all(replies).await.unwrap();
                }
            }
            None => shared.tuning.change_stack(None),
        }
    };
    let (ended, ()) = tokio::join!(pair.confirm_all(confirming, &broken), servers);
    assert!(matches!(ended, Err(Stop::Replace)), "{ended:?}");
    assert!(broken.is_cancelled());
    let back = shared.queue.next(|_| true).await.unwrap();
    (shared, back)
}

#[tokio::test(start_paused = true)]
async fn a_file_under_way_goes_back_where_its_sessions_are_left() {
    let (_shared, back) = over_udt(None).await;
    let job = back.file();
    assert!(job.left && job.failures == 0);
}

#[tokio::test(start_paused = true)]
async fn connections_that_break_over_udt_return_the_copy_to_tcp() {
    let (shared, back) = over_udt(Some(b"150 it begins\r\n426 it broke\r\n")).await;
    let job = back.file();
    assert!(job.left && job.failures == 0);
    assert_eq!(shared.tuning.stack().0, None);
}

/// Tells that a file of three bytes is copied, and waits until the size of the copy is asked for.
async fn copied(servers: &mut [&mut DuplexStream; 2]) {
    asked(servers).await;
    for end in servers.iter_mut() {
        end.write_all(proven().as_bytes()).await.unwrap();
    }
    let [_, to] = servers;
    to.read_exact(&mut [0; "SIZE /to\r\n".len()]).await.unwrap();
}

/// The sessions are left while the size of the copy is asked for.
#[tokio::test(start_paused = true)]
async fn the_next_sessions_check_a_file_whose_words_are_in() {
    let mut bed = Bed::new().await.over_udt();
    let shared = Arc::clone(&bed.shared);
    let (pair, mut far) = bed.pair();
    let (_moved, confirming) = passed(Step::transfer(moving(&pair, Some(3)).await));
    let broken = CancellationToken::new();
    let servers = async {
        copied(&mut far).await;
        shared.tuning.change_stack(None);
    };
    let (ended, ()) = tokio::join!(pair.confirm_all(confirming, &broken), servers);
    assert!(matches!(ended, Err(Stop::Replace)), "{ended:?}");
    let mut back = shared.queue.next(|_| true).await.unwrap();
    back.file_mut().hidden = FtpPath::new(b"/.to".to_vec());
    let mut next = Bed {
        shared: Arc::clone(&shared),
        ..Bed::new().await
    };
    let (pair, [_, to]) = next.pair();
    // The check is none of the requests, which end with the first session that breaks.
    let step = pair.ask(&mut Window::default(), back).await.ok().flatten();
    let step = pair.pass(&mut Known::default(), step.unwrap()).await;
    let (_, confirming) = passed(step.ok().flatten().unwrap());
    let broken = CancellationToken::new();
    let servers = async {
        let mut lines = BufReader::new(to).lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            let reply = match line.split(' ').next() {
                Some("SIZE") if line == "SIZE /.to" => "213 3\r\n",
                Some("RNFR") => {
                    broken.cancel();
                    "350 go on\r\n"
                }
                Some("RNTO") => "250 done\r\n",
                _ => "550 No such file.\r\n",
            };
            lines.get_mut().write_all(reply.as_bytes()).await.unwrap();
        }
    };
    tokio::select! {
        ended = pair.confirm_all(confirming, &broken) => assert!(ended.is_ok(), "{ended:?}"),
        () = servers => panic!("the session stays open"),
    }
    assert_eq!(shared.totals.counts().files_done, 1);
}

#[tokio::test(start_paused = true)]
async fn a_check_over_which_a_session_ends_is_made_again() {
    let mut bed = Bed::new().await;
    let shared = Arc::clone(&bed.shared);
    let (pair, mut far) = bed.pair();
    let (_, confirming) = passed(Step::transfer(moving(&pair, Some(3)).await));
    let broken = CancellationToken::new();
    let servers = async {
        copied(&mut far).await;
        let [_, to] = &mut far;
        to.shutdown().await.unwrap();
    };
    let (ended, ()) = tokio::join!(pair.confirm_all(confirming, &broken), servers);
    // Else they would take the file from the queue, to check it again, for ever.
    assert!(matches!(ended, Err(Stop::Replace)), "{ended:?}");
    assert!(broken.is_cancelled());
    let back = shared.queue.next(|_| true).await.unwrap();
    assert!(back.file().words.is_some() && back.file().failures == 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_over_the_name_of_a_copy_is_replaced() {
    let mut bed = Bed::new().await;
    let shared = Arc::clone(&bed.shared);
    let (pair, mut far) = bed.pair();
    let mut file = moving(&pair, Some(3)).await;
    file.taken.file_mut().hidden = FtpPath::new(b"/.copy.gridftp-0a1b2c3d".to_vec());
    let (_, confirming) = passed(Step::transfer(file));
    let broken = CancellationToken::new();
    let servers = async {
        copied(&mut far).await;
        let [_, to] = &mut far;
        to.write_all(b"213 3\r\n").await.unwrap();
        to.shutdown().await.unwrap();
    };
    let (ended, ()) = tokio::join!(pair.confirm_all(confirming, &broken), servers);
    assert!(matches!(ended, Err(Stop::Replace)), "{ended:?}");
    let back = shared.queue.next(|_| true).await.unwrap();
    assert!(back.file().words.is_none() && back.file().failures == 1);
}

/// A Globus server that computes a digest answers neither it nor `ABOR`.
#[tokio::test(start_paused = true)]
async fn a_source_with_other_commands_is_replaced_behind_a_refusal_and_not_told_to_stop() {
    for (asks, is_ended) in [(false, false), (true, false), (true, true)] {
        let mut bed = Bed::new().await;
        let (pair, mut far) = bed.pair();
        let file = moving(&pair, None).await;
        let _digest = asks.then(|| pair.source.send(Command::Noop));
        let servers = async {
            asked(&mut far).await;
            let [from, to] = far;
            let told: &[u8] = match is_ended {
                true => b"150 it begins\r\n226 it is sent\r\n",
                false => b"150 it begins\r\n",
            };
            from.write_all(told).await.unwrap();
            to.write_all(b"500 Is a directory\r\n").await.unwrap();
            let mut lines = BufReader::new(from).lines();
            let mut heard = Vec::new();
            while let Ok(Ok(Some(line))) =
                tokio::time::timeout(Duration::from_secs(9), lines.next_line()).await
            {
                heard.push(line);
            }
            heard
        };
        let (ended, heard) = tokio::join!(pair.begin(file), servers);
        assert_eq!(heard.contains(&"ABOR".to_owned()), !asks, "{heard:?}");
        if asks {
            assert!(matches!(ended, Err(Stop::Replace)), "{asks} {is_ended}");
        }
    }
}

/// The destination waits for a connection when the source has lost its own.
#[tokio::test(start_paused = true)]
async fn a_destination_that_waits_is_stopped_and_tells_the_host_that_it_refused() {
    let named = "426 data connections from 192.0.2.1 were refused: see --third-party\r\n";
    for (word, both) in [(named, true), ("426 Transfer aborted.\r\n", false)] {
        let mut bed = Bed::new().await;
        let (pair, mut far) = bed.pair();
        let mut file = moving(&pair, None).await;
        let servers = async {
            asked(&mut far).await;
            let [from, to] = far;
            let reset = b"150 it begins\r\n426 the peer reset it\r\n";
            from.write_all(reset).await.unwrap();
            let mut lines = BufReader::new(to).lines();
            assert_eq!(lines.next_line().await.unwrap().unwrap(), "ABOR");
            let replies = [word, "226 it is stopped\r\n"].concat();
            lines.get_mut().write_all(replies.as_bytes()).await.unwrap();
        };
        let (ended, ()) = tokio::join!(pair.confirm_one(&mut file), servers);
        let error = ended.unwrap_err().error;
        let told = error.to_string();
        assert!(told.contains("the peer reset it"), "{told}");
        assert_eq!(told.contains("192.0.2.1"), both, "{told}");
        let verb = if both { "STOR /file" } else { "RETR /file" };
        assert_eq!(error.fields().operation, Some(verb));
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_in_use_at_the_destination_are_asked_for_again() {
    for (refusal, anew) in [("450 Busy.\r\n", false), ("550 No.\r\n", true)] {
        let mut bed = Bed::new().await;
        let shared = Arc::clone(&bed.shared);
        let (pair, mut far) = bed.pair();
        let mut file = moving(&pair, None).await;
        file.resumes = true;
        file.taken.file_mut().held = RangeSet::up_to(5);
        let (_, confirming) = passed(Step::transfer(file));
        let broken = CancellationToken::new();
        let servers = async {
            asked(&mut far).await;
            let [from, to] = far;
            from.write_all(b"226 Bytes=3;\r\n").await.unwrap();
            to.write_all(refusal.as_bytes()).await.unwrap();
        };
        let (ended, ()) = tokio::join!(pair.confirm_all(confirming, &broken), servers);
        assert!(ended.is_ok(), "{ended:?}");
        let back = shared.queue.next(|_| true).await.unwrap();
        let job = back.file();
        assert_eq!((job.anew, job.held.is_empty()), (anew, anew), "{refusal}");
    }
}

#[tokio::test(start_paused = true)]
async fn uncompared_bytes_are_proven_by_a_digest() {
    for (source, want) in [
        (
            "226 Bytes=3;\r\n".to_owned(),
            Some(ChecksumAlgorithm::Blake3),
        ),
        (proven(), None),
    ] {
        let mut bed = Bed::new().await;
        let (pair, mut far) = bed.pair();
        let mut file = moving(&pair, None).await;
        let servers = async {
            asked(&mut far).await;
            let [from, to] = far;
            from.write_all(source.as_bytes()).await.unwrap();
            to.write_all(proven().as_bytes()).await.unwrap();
        };
        let (compared, ()) = tokio::join!(pair.confirm_one(&mut file), servers);
        compared.unwrap();
        assert_eq!(file.after, want);
        assert_eq!(file.proven.is_some(), want.is_none());
    }
}

/// Where no digest is to be had, the sizes are compared.
#[tokio::test(start_paused = true)]
async fn a_short_copy_is_found_where_a_digest_is_refused() {
    let mut bed = Bed::new().await;
    let (pair, [from, to]) = bed.pair();
    let mut job = FileJob::new(b"/file".to_vec(), b"/copy".to_vec());
    job.facts.size = Some(7);
    let check = pair.check(&job, None, Some(ChecksumAlgorithm::Blake3), None);
    let servers = async {
        let refused = b"500 no markers\r\n550 Permission denied.\r\n";
        let mut lines = BufReader::new(to).lines();
        for line in ["SIZE /copy", "OPTS ", "CKSM "] {
            let got = lines.next_line().await.unwrap().unwrap();
            assert!(got.starts_with(line), "{got}");
        }
        from.write_all(refused).await.unwrap();
        let replies = [b"213 3\r\n", &refused[..]].concat();
        lines.get_mut().write_all(&replies).await.unwrap();
    };
    let (checked, ()) = tokio::join!(check, servers);
    assert!(
        matches!(
            checked,
            Err(TransferError::Size {
                expected: 7,
                got: 3,
                ..
            })
        ),
        "{checked:?}"
    );
}
