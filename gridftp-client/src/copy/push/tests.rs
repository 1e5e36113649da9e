//! Directories are sent for as fast as a server makes them, and no faster.

use std::sync::Arc;
use std::time::Duration;

use ftp_proto::client::Settings;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::ask::{Dirs, make_dir};
use crate::copy::job::{DirJob, Item};
use crate::copy::shared::Shared;
use crate::copy::window::COMMANDS;
use crate::options::CopyOptions;
use crate::played;
use crate::progress::{Silent, Totals};

/// Directories of the tree.
const DIRS: usize = 3 * COMMANDS;

#[tokio::test(start_paused = true)]
async fn a_tree_of_directories_does_not_outrun_the_server() {
    // All that is sent for is on the wire, so that it can be counted.
    let mut settings = Settings::default();
    settings.window = 8 * DIRS;
    let (control, mut banner, far) = played::connect(settings);
    let shared = Arc::new(Shared::new(
        CopyOptions::default(),
        Arc::new(Silent),
        Arc::new(Totals::default()),
        None,
        None,
        None,
    ));
    let maker = tokio::spawn({
        let shared = Arc::clone(&shared);
        async move {
            banner.finish().await.unwrap();
            let mut dirs = Dirs::default();
            for n in 0..DIRS {
                let dir = DirJob::new(Vec::new(), format!("/{n}").into_bytes());
                shared.queue.push(Item::Dir(Box::new(dir)));
                let taken = shared.queue.next(|_| true).await.unwrap();
                make_dir(&control, &shared, taken, &mut dirs).await;
            }
            while shared.queue.next(|_| true).await.is_some() {}
        }
    });
    let (far, mut replies) = tokio::io::split(far);
    let mut lines = BufReader::new(far).lines();
    replies.write_all(b"220 ready\r\n").await.unwrap();
    let (mut made, mut unanswered) = (0, Vec::new());
    loop {
        // Time is paused: it passes only when nobody has anything left to do.
        match tokio::time::timeout(Duration::from_millis(1), lines.next_line()).await {
            Ok(line) => match line.unwrap() {
                Some(line) => unanswered.push(line),
                None => break,
            },
            Err(_) if unanswered.is_empty() => break,
            Err(_) => {
                assert!(unanswered.len() <= 2 * COMMANDS, "{}", unanswered.len());
                for line in unanswered.drain(..) {
                    made += usize::from(line.starts_with("MKD "));
                    let reply = if line == "QUIT" {
                        "221 bye"
                    } else {
                        "250 done"
                    };
                    let reply = format!("{reply}\r\n");
                    replies.write_all(reply.as_bytes()).await.unwrap();
                }
            }
        }
    }
    maker.await.unwrap();
    assert_eq!((made, shared.worst()), (DIRS, None));
}
