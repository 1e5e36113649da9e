//! Listings of one directory or file.

use ftp_wire::path::FtpPath;

use ftp_wire::command::{BufferSide, Mode, Type};
use ftp_wire::facts::{Entry, FactSet};
use gridftp_data::{ReceivePlan, Watch};

use crate::client::Client;
use crate::copy::Lines;
use crate::error::TransferError;
use crate::ls::Form;
use crate::transfer::Transfer;

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
        mut each: impl FnMut(Entry, FactSet) + Send,
    ) -> Result<(), TransferError> {
        let wire = self.path(path)?;
        let mut form = Form::default().at(&self.abilities);
        loop {
            match self.list_as(form, wire.clone(), &mut each).await {
                Ok(0) if form == Form::All => form = Form::Plain,
                // Some say so of a missing object.
                Ok(0) if form == Form::Plain => return Ok(self.stat(path).await.map(drop)?),
                Ok(_) => return Ok(()),
                Err(TransferError::Control(refusal)) => match form.after(&refusal) {
                    Some(next) => form = next,
                    None => return Err(refusal.into()),
                },
                Err(error) => return Err(error),
            }
        }
    }

    /// Lists in one form; gives how many bytes came.
    async fn list_as(
        &mut self,
        form: Form,
        path: FtpPath,
        mut each: impl FnMut(Entry, FactSet) + Send,
    ) -> Result<u64, TransferError> {
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
        let received = transfer.run(&watch, data).await;
        received.map_err(|failure| failure.error)?;
        lines.finish();
        match bad {
            Some(error) => Err(transfer
                .replies()
                .misbehaved(format!("line without facts: {error}"))
                .into()),
            None => Ok(watch.bytes()),
        }
    }
}
