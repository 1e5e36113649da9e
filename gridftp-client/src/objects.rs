//! Questions to a server about one object, and changes of it, by the commands that it knows.

use ftp_proto::client::FailureKind;
use ftp_wire::command::{Command, SiteCommand};
use ftp_wire::facts::TimeVal;
use ftp_wire::marker::Marker;
use ftp_wire::path::FtpPath;
use ftp_wire::reply::Reply;

use crate::control::{Control, Replies};
use crate::error::ControlError;

impl Control {
    /// Asks for a modification time.
    pub(crate) fn send_modified(&self, time: TimeVal, path: FtpPath) -> Replies {
        self.send(match self.mfmt {
            true => Command::Mfmt(time, path),
            false => Command::Site(SiteCommand::Utime(time.whole(), path)),
        })
    }

    /// Says whether something is at `path`, in one way or another that the server knows.
    ///
    /// # Errors
    /// When it cannot tell: nothing may be overwritten then.
    pub(crate) async fn exists(&self, path: &FtpPath) -> Result<bool, ControlError> {
        let ask = async |command| self.send(command).finish().await;
        let kind = |told: &Result<Reply, ControlError>| told.as_ref().err()?.kind();
        let mut told = ask(Command::Mlst(Some(path.clone()))).await;
        if kind(&told) == Some(FailureKind::Unsupported) {
            told = ask(Command::Size(path.clone())).await;
            // A directory has no size.
            if kind(&told).is_some_and(|kind| kind != FailureKind::Unsupported) {
                told = ask(Command::Cwd(path.clone())).await;
            }
        }
        match told {
            Ok(_) => Ok(true),
            Err(error) => match error.kind() {
                Some(FailureKind::NotFound | FailureKind::Failed | FailureKind::NotADirectory) => {
                    Ok(false)
                }
                _ => Err(error),
            },
        }
    }
}

impl Replies {
    /// The final reply; `None` for a refusal.
    pub(crate) async fn told(&mut self) -> Result<Option<Reply>, ControlError> {
        match self.finish().await {
            Ok(reply) => Ok(Some(reply)),
            Err(ControlError::Refused { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The size in the reply to `SIZE`; `None` where the server does not tell.
    pub(crate) async fn size(&mut self) -> Result<Option<u64>, ControlError> {
        Ok(self.told().await?.and_then(|reply| reply.size()))
    }

    /// The digest in the reply to `CKSM`; `each` gets the numbers of bytes that the server says it
    /// has hashed meanwhile.
    pub(crate) async fn digest(
        &mut self,
        mut each: impl FnMut(u64),
    ) -> Result<String, ControlError> {
        let reply = self.finish_with(|reply| {
            if let Some(Ok(Marker::Hash { bytes, .. })) = Marker::from_reply(reply) {
                each(bytes);
            }
        });
        let digest = reply.await?.digest();
        digest.ok_or_else(|| self.misbehaved("no digest in the reply"))
    }
}
