//! The end of a file is read, in packets of full size.

use std::io;
use std::time::Instant;

use gsi::finding::Finding;

use super::data::{File, LOG, SLOW, STALLED, is_stalled};
use super::{Visit, disk};
use crate::client::Client;
use crate::error::TransferError;
use crate::file::ReadOptions;
use crate::url::show;

const TOPIC: &str = "data";
/// Bytes that are read.
const PART: u64 = 1 << 20;
/// Size of the smallest file that takes several packets.
const SMALLEST: u64 = 16 << 10;

impl Visit<'_> {
    /// Reads the last MiB of the URL's file; gives the session back unless it ended with that.
    pub(super) async fn part(&mut self, client: Client, file: Option<File>) -> Option<Client> {
        let Some(file) = file.filter(|file| file.size >= SMALLEST) else {
            return Some(client);
        };
        let part = file.size.min(PART);
        let options = ReadOptions::default().offset(file.size - part);
        let name = show(&file.path);
        let mut reader = client.into_reader(file.path, options);
        let (begun, mut got) = (Instant::now(), 0);
        let mut moved = begun;
        let reading = async {
            // The file may grow meanwhile.
            while got <= part {
                let piece = reader.piece().await?;
                if piece.is_empty() {
                    break;
                }
                got += piece.len() as u64;
                moved = Instant::now();
            }
            Ok::<_, io::Error>(())
        };
        let read = tokio::time::timeout(self.transfer_limit(), reading).await;
        let took = begun.elapsed();
        let what = format!("the last {part} bytes of {name}");
        let late = || format!("{what}: {got} came within {} s", took.as_secs());
        let finding = match read {
            Ok(Ok(())) if got >= part => {
                let rate = disk::rate(got, took);
                Finding::ok(TOPIC, format!("{what} in {took:.1?}, {rate} MiB/s"))
            }
            Ok(Ok(())) => {
                let fact = format!("{what}: {got} came, and then its end");
                Finding::warn(TOPIC, fact, "the file changes meanwhile")
            }
            Ok(Err(error)) if got == 0 && !is_of_stall(&error) => {
                Finding::error(TOPIC, &error.to_string(), LOG)
            }
            _ if moved.elapsed() >= self.limit => Finding::fail(TOPIC, late(), STALLED),
            Ok(Err(error)) => Finding::error(TOPIC, &error.to_string(), LOG),
            Err(_) => Finding::warn(TOPIC, late(), SLOW),
        };
        self.tell(finding);
        let stopped = tokio::time::timeout(self.transfer_limit(), reader.stop()).await;
        stopped.ok().flatten()
    }
}

/// Says whether reading failed by silence on an open data connection.
fn is_of_stall(error: &io::Error) -> bool {
    let cause = error
        .get_ref()
        .and_then(|cause| cause.downcast_ref::<TransferError>());
    cause.is_some_and(is_stalled)
}
