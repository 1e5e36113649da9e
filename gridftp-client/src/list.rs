//! Listings of one directory or file.

use ftp_wire::command::{BufferSide, Command, Mode, Type};
use ftp_wire::facts::{Entry, FactSet};
use gridftp_data::{ReceivePlan, Watch};

use crate::client::Client;
use crate::control::Step;
use crate::copy::Lines;
use crate::error::TransferError;
use crate::url::show;

impl Client {
    /// Lists what is in the directory at `path`, or the file there; `each` gets every entry and
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
        mut each: impl FnMut(Entry, FactSet) + Send,
    ) -> Result<(), TransferError> {
        let wire = self.path(path)?;
        let mut bad = None;
        let mut lines = Lines::new(|line: &[u8]| match Entry::parse(line) {
            Ok((entry, _)) if matches!(&*entry.name, b"." | b"..") => {}
            Ok((entry, known)) => each(entry, known),
            Err(error) => {
                bad.get_or_insert(error);
            }
        });
        self.set_up_stream(BufferSide::Send).await?;
        let mut replies = self.control.send(Command::Mlsd(Some(wire)));
        let watch = Watch::new();
        let plan = ReceivePlan::new(Mode::Stream, Type::Image);
        let received = {
            let receive = self.channel.get().receive_chunks(&mut lines, &plan, &watch);
            tokio::pin!(receive);
            tokio::select! {
                received = &mut receive => received,
                first = replies.next() => match first {
                    Ok(Step::Preliminary(_)) => receive.await,
                    Ok(Step::Done(_)) => {
                        return Err(replies.misbehaved("the listing ended before it began").into());
                    }
                    Err(error) => return Err(error.into()),
                },
            }
        };
        received.map_err(|cause| self.data_error(&show(path), cause))?;
        replies.finish().await?;
        lines.finish();
        match bad {
            Some(error) => Err(replies
                .misbehaved(format!("line without facts: {error}"))
                .into()),
            None => Ok(()),
        }
    }
}
