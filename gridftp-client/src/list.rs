//! Listings of one directory or file.

use std::sync::Arc;

use ftp_wire::command::{BufferSide, Mode, Type};
use ftp_wire::facts::{Entry, FactSet};
use ftp_wire::path::FtpPath;
use gridftp_data::{ReceivePlan, Watch};

use crate::client::Client;
use crate::clock::now;
use crate::copy::{Lines, connect_to};
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
        let (mut told, mut found) = (false, false);
        let attempt = async {
            let connected = connect_to(&remote.site, options, &observer).await;
            let mut client = connected.map_err(TransferError::from)?;
            let listing = client.attempt_list(path, |entry, known| {
                told = true;
                if fits(&entry) {
                    found = true;
                    each(entry, known);
                }
            });
            listing.await?;
            client.close().await;
            Ok::<_, Failure>(())
        };
        let Err(failure) = attempt.await else {
            return match found || remote.pattern.is_none() {
                true => Ok(()),
                false => Err(TransferError::no_match(remote.to_string())),
            };
        };
        // Only a server that was there before is waited for.
        let unknown = failures == 0 && matches!(failure.error, TransferError::Connect(_));
        if failures == 0 {
            since = now();
        }
        failures += 1;
        let gone = failure.error.is_gone();
        let again = options.goes_on(failures, now() - since, gone);
        if told || unknown || !failure.is_transient() || !again {
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
        let listed = Box::pin(self.attempt_list(path, each)).await;
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::{SocketAddr, TcpListener};
    use std::sync::Mutex;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::url::Location;

    /// Serves one session; at its listing it ends, or lists one file.
    fn serve(listener: &TcpListener, lists: bool) {
        let (mut control, _) = listener.accept().unwrap();
        let mut commands = BufReader::new(control.try_clone().unwrap()).lines();
        let mut data = None;
        control.write_all(b"220 ready\r\n").unwrap();
        while let Some(Ok(line)) = commands.next() {
            let reply = match line.split(' ').next().unwrap_or_default() {
                "PASS" => "230 in".to_owned(),
                "USER" => "331 password".to_owned(),
                "TYPE" | "MODE" => "200 ok".to_owned(),
                "PASV" => {
                    let port = TcpListener::bind("127.0.0.1:0").unwrap();
                    let number = port.local_addr().unwrap().port();
                    data = Some(port);
                    format!("227 here (127,0,0,1,{},{})", number >> 8, number & 0xff)
                }
                "MLSD" if !lists => return,
                "MLSD" => {
                    control.write_all(b"150 comes\r\n").unwrap();
                    let (mut data, _) = data.take().unwrap().accept().unwrap();
                    data.write_all(b"type=file; name\r\n").unwrap();
                    drop(data);
                    "226 done".to_owned()
                }
                _ => "500 what?".to_owned(),
            };
            control
                .write_all(format!("{reply}\r\n").as_bytes())
                .unwrap();
        }
    }

    /// Opens the server again once it was found gone.
    struct Returning {
        at: SocketAddr,
        attempts: Mutex<u32>,
    }

    impl Observer for Returning {
        fn event(&self, event: &Event<'_>) {
            if let Event::Retrying { attempt: 2, .. } = event {
                let listener = TcpListener::bind(self.at).unwrap();
                thread::spawn(move || serve(&listener, true));
            }
            if let Event::Retrying { attempt, .. } = event {
                *self.attempts.lock().unwrap() = *attempt;
            }
        }
    }

    fn remote(url: &str) -> Remote {
        match Location::parse(url).unwrap() {
            Location::Remote(remote) => remote,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_listing_waits_for_a_server_that_was_there() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let session = thread::spawn(move || serve(&listener, false));
        let url = format!("ftp://anonymous@{at}/dir/");
        let from = remote(&url);
        let options = CopyOptions {
            backoff: Duration::from_millis(1),
            ..CopyOptions::default()
        };
        let attempts = Mutex::new(0);
        let observer = Arc::new(Returning { at, attempts });
        let mut names = Vec::new();
        let each = |entry: Entry, _| names.push(entry.name.to_vec());
        let told: Arc<dyn Observer> = Arc::<Returning>::clone(&observer);
        list(&from, &options, told, each).await.unwrap();
        session.join().unwrap();
        assert_eq!(names, [b"name"]);
        assert_eq!(*observer.attempts.lock().unwrap(), 2);
        // A server that was never there is not waited for.
        let nobody: Arc<dyn Observer> = observer;
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        let url = format!("ftp://anonymous@{}/", free.unwrap());
        let refused = list(&remote(&url), &options, nobody, |_, _| ()).await;
        assert!(matches!(refused, Err(TransferError::Connect(_))));
    }
}
