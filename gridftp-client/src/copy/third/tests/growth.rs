//! A copy that nobody tells of goes on as long as it grows.

use super::*;
use crate::copy::third::growth::{Beside, LOOK, Size};

/// Duration of the copy.
const LONG: Duration = Duration::from_secs(3 * 3600);

/// A copy that grows by one byte with each look, and only with the first so many.
struct Grows {
    size: u64,
    times: u64,
    /// Looks that fail before each one that does not.
    failures: u32,
    failed: u32,
}

impl Size for Grows {
    async fn size(&mut self) -> Result<u64, TransferError> {
        self.size = self.times.min(self.size + 1);
        if self.failed < self.failures {
            self.failed += 1;
            return Err(TransferError::source("/copy", "busy", ""));
        }
        self.failed = 0;
        Ok(self.size)
    }
}

/// A copy that both servers say nothing of but at the end; it grows so many times, and so many
/// looks fail before each that does not.
async fn silent(times: u64, failures: u32) -> (Result<(), ControlError>, u64) {
    let mut bed = Bed::new().await;
    let shared = Arc::clone(&bed.shared);
    let (pair, mut far) = bed.pair();
    let path = || FtpPath::new(b"/file".to_vec()).unwrap();
    let mut retrieve = pair.source.send(Command::Retr(path()));
    let mut store = pair.destination.send(Command::Stor(path()));
    let servers = async {
        asked(&mut far).await;
        let [from, to] = far;
        for reply in ["150 it begins\r\n", "226 done\r\n"] {
            from.write_all(reply.as_bytes()).await.unwrap();
            to.write_all(reply.as_bytes()).await.unwrap();
            tokio::time::sleep(LONG).await;
        }
    };
    let told = AtomicU64::new(0);
    let copy = Grows {
        size: 0,
        times,
        failures,
        failed: 0,
    };
    let ended = tokio::select! {
        ended = async {
            let (sent, stored) = tokio::join!(retrieve.ended(), store.ended());
            sent.and(stored)
        } => ended,
        never = pair.watch(&told, 0, copy) => match never {},
        () = servers => unreachable!("the client waits for no longer than the copy takes"),
    };
    (ended, shared.totals.counts().bytes_moved)
}

#[tokio::test(start_paused = true)]
async fn a_copy_without_markers_goes_on_while_it_grows() {
    let (ended, moved) = silent(u64::MAX, 0).await;
    ended.unwrap();
    assert!(moved >= LONG.as_secs() / LOOK.as_secs() - 1, "{moved}");
}

#[tokio::test(start_paused = true)]
async fn a_copy_whose_size_cannot_be_asked_at_times_goes_on_while_it_grows() {
    let (ended, moved) = silent(u64::MAX, 3).await;
    ended.unwrap();
    assert!(moved >= LONG.as_secs() / LOOK.as_secs() - 4, "{moved}");
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_grows_no_more_is_given_up() {
    let told = silent(10, 0).await.0.unwrap_err().to_string();
    assert!(told.contains("no reply in time"), "{told}");
}

/// Serves one session and gives the `SIZE` commands of it; ends it after so many.
async fn serve(listener: &TcpListener, greeting: &str, size: &str, looks: usize) -> Vec<String> {
    let (mut control, _) = listener.accept().await.unwrap();
    let (far, mut replies) = control.split();
    let mut lines = BufReader::new(far).lines();
    replies.write_all(greeting.as_bytes()).await.unwrap();
    let mut sizes = Vec::new();
    while let Ok(Some(line)) = lines.next_line().await {
        let reply = match line.get(..4) {
            Some("SIZE") => {
                sizes.push(line);
                size
            }
            Some("USER") => "230 in\r\n",
            _ => "200 well\r\n",
        };
        replies.write_all(reply.as_bytes()).await.unwrap();
        if sizes.len() == looks {
            break;
        }
    }
    sizes
}

/// A copy to `/to`, hidden under another name, and where its size is asked.
async fn hidden_copy() -> (CopyState, FileJob, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut shared = CopyState::plain();
    let port = listener.local_addr().unwrap().port();
    shared.destination = Some(Site::new("127.0.0.1", port));
    let mut job = FileJob::new(b"/from".to_vec(), b"/to".to_vec());
    job.hidden = FtpPath::new(b"/.to.gridftp-part".to_vec());
    (shared, job, listener)
}

#[tokio::test]
async fn the_size_of_a_copy_is_asked_over_a_session_of_its_own() {
    let (shared, job, listener) = hidden_copy().await;
    let server =
        tokio::spawn(async move { serve(&listener, "220 ready\r\n", "213 7\r\n", 3).await });
    let mut beside = Beside::of(&shared, &job).unwrap();
    for _ in 0..2 {
        assert_eq!(beside.size().await.unwrap(), 7);
    }
    drop(beside);
    assert_eq!(server.await.unwrap(), ["SIZE /.to.gridftp-part"; 2]);
}

/// Servers end sessions that say nothing for less than the time between two looks.
#[tokio::test]
async fn the_size_of_a_copy_is_asked_anew_where_the_session_for_it_failed_or_ended() {
    let (shared, job, listener) = hidden_copy().await;
    let (greeting, size) = ("220 ready\r\n", "213 7\r\n");
    let server = tokio::spawn(async move {
        serve(&listener, "421 too many\r\n", size, 1).await;
        serve(&listener, greeting, "550 no such file\r\n", 1).await;
        for _ in 0..2 {
            assert_eq!(serve(&listener, greeting, size, 1).await.len(), 1);
        }
    });
    let mut beside = Beside::of(&shared, &job).unwrap();
    for known in [false, false, true, true] {
        let size = beside.size().await;
        assert_eq!(size.ok(), known.then_some(7));
    }
    server.await.unwrap();
}
