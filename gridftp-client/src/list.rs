//! Listings of one directory or file.

use std::sync::Arc;

use ftp_wire::command::{BufferSide, Mode, Type};
use ftp_wire::facts::{Entry, FactSet};
use ftp_wire::path::FtpPath;
use gridftp_data::{ReceivePlan, Watch};

use crate::client::Client;
use crate::clock::now;
use crate::copy::{Lines, connect};
use crate::error::TransferError;
use crate::ls::Form;
use crate::names;
use crate::options::CopyOptions;
use crate::progress::{Event, Observer};
use crate::transfer::{Failure, Transfer};
use crate::url::Remote;

/// Lists the directory or the file at a URL like [`Client::list`], in sessions of its own; of a
/// pattern, the names in its directory that match. A listing that fails before its first entry is
/// tried again as often as the transfer of a file.
///
/// # Errors
/// [`TransferError`]; no name matches, or the last attempt failed.
///
/// # Cancel safety
/// Dropping the future closes the connections.
pub async fn list(
    remote: &Remote,
    options: &CopyOptions,
    observer: Arc<dyn Observer>,
    mut each: impl FnMut(Entry, FactSet) + Send,
) -> Result<(), TransferError> {
    let path = match &remote.pattern {
        Some(_) => names::parent(&remote.path),
        None => &remote.path,
    };
    let fits = |entry: &Entry| match &remote.pattern {
        Some(pattern) => ftp_wire::glob::matches(pattern, &entry.name),
        None => true,
    };
    let (mut failures, mut since) = (0, now());
    loop {
        let mut client = connect(&remote.site, options, &observer).await?;
        let (mut told, mut found) = (false, false);
        let listing = client.attempt_list(path, |entry, known| {
            told = true;
            if fits(&entry) {
                found = true;
                each(entry, known);
            }
        });
        let Err(failure) = listing.await else {
            client.close().await;
            return match found || remote.pattern.is_none() {
                true => Ok(()),
                false => Err(TransferError::no_match(remote.to_string())),
            };
        };
        drop(client);
        if failures == 0 {
            since = now();
        }
        failures += 1;
        let gone = failure.error.is_gone();
        let again = options.goes_on(failures, now() - since, gone);
        if told || !failure.is_transient() || !again {
            return Err(failure.error);
        }
        observer.event(&Event::Retrying {
            source: &remote.to_string(),
            error: &failure.error,
            attempt: failures,
        });
        tokio::time::sleep(options.pause(failures)).await;
    }
}

impl Client {
    /// Lists the entries of the directory at `path`, or the file there; `each` gets every entry and
    /// which facts the server gave. `.` and `..` are left out.
    ///
    /// # Errors
    /// [`TransferError`]; a line that has no facts is the server's fault.
    ///
    /// # Cancel safety
    /// Dropping the future closes the data connection; the client can still be used.
    pub async fn list(
        &mut self,
        path: &[u8],
        each: impl FnMut(Entry, FactSet) + Send,
    ) -> Result<(), TransferError> {
        let listed = self.attempt_list(path, each).await;
        listed.map_err(|failure| failure.error)
    }

    /// As [`list`](Self::list), and tells whether another attempt may help.
    async fn attempt_list(
        &mut self,
        path: &[u8],
        mut each: impl FnMut(Entry, FactSet) + Send,
    ) -> Result<(), Failure> {
        let wire = self.path(path).map_err(TransferError::from)?;
        let mut form = Form::default().at(&self.abilities);
        loop {
            match self.list_as(form, wire.clone(), &mut each).await {
                Ok(0) if form == Form::All => form = Form::Plain,
                // Some say so of a missing object.
                Ok(0) if form == Form::Plain => {
                    let there = self.stat(path).await;
                    return Ok(there.map(drop).map_err(TransferError::from)?);
                }
                Ok(_) => return Ok(()),
                Err(failure) => {
                    let next = failure.error.control();
                    match next.and_then(|refusal| form.after(refusal)) {
                        Some(next) => form = next,
                        None => return Err(failure),
                    }
                }
            }
        }
    }

    /// Lists in one form; gives how many bytes came.
    async fn list_as(
        &mut self,
        form: Form,
        path: FtpPath,
        mut each: impl FnMut(Entry, FactSet) + Send,
    ) -> Result<u64, Failure> {
        let mut bad = None;
        let mut take = |line: &[u8]| match Entry::parse(line) {
            Ok((entry, _)) if matches!(&*entry.name, b"." | b"..") => {}
            Ok((entry, known)) => each(entry, known),
            Err(error) => {
                bad.get_or_insert(error);
            }
        };
        let mut lines = Lines::new(|line: &[u8]| form.line(line, &mut take));
        self.set_up_stream(BufferSide::Send).await?;
        let replies = self.control.send(form.command(path.clone()));
        let mut transfer = Transfer::download(replies, path.as_bytes());
        let watch = Watch::new();
        let plan = ReceivePlan::new(Mode::Stream, Type::Image);
        let data = self.channel.get().receive_chunks(&mut lines, &plan, &watch);
        transfer.run(&watch, data).await?;
        lines.finish();
        match bad {
            Some(error) => {
                let what = format!("line without facts: {error}");
                Err(TransferError::from(transfer.replies().misbehaved(what)).into())
            }
            None => Ok(watch.bytes()),
        }
    }
}
