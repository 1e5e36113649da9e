//! Makes symbolic links at a server.

use std::collections::VecDeque;

use ftp_proto::client::FailureKind;
use ftp_wire::command::{Command, SiteCommand};
use ftp_wire::path::FtpPath;

use super::{Fate, LinkJob, There};
use crate::client::{Client, parse_mlst};
use crate::control::Replies;
use crate::copy::admission::moved;
use crate::copy::engine::connect_to;
use crate::copy::known::Known;
use crate::copy::making::make_parents;
use crate::copy::state::CopyState;
use crate::error::{ControlError, TransferError};
use crate::names;

/// Links that are under way at once.
const AT_ONCE: usize = 64;

const UNMADE: &str = "its destination makes no symbolic links";

/// Makes links over a session of its own, and keeps in `left` those to try again: behind the end of
/// that, or refused for now.
pub(super) async fn make(
    shared: &CopyState,
    left: &mut VecDeque<LinkJob>,
) -> Result<(), TransferError> {
    let Some(site) = &shared.destination else {
        return Ok(());
    };
    let client = connect_to(site, &shared.options, &shared.observer).await?;
    let maker = Maker {
        shared,
        client: &client,
    };
    let (mut again, mut reason) = (VecDeque::new(), None::<TransferError>);
    while !left.is_empty() && !reason.as_ref().is_some_and(TransferError::is_gone) {
        let some: Vec<_> = left.drain(..left.len().min(AT_ONCE)).collect();
        for (link, fate) in maker.make(some).await {
            match fate {
                Err(error) if error.is_transient() => {
                    again.push_back(link);
                    reason = Some(error);
                }
                fate => shared.end_link(&link, fate),
            }
        }
    }
    left.append(&mut again);
    if let Some(reason) = reason {
        return Err(reason);
    }
    client.close().await;
    Ok(())
}

/// A session that makes links. One task sends all its commands, so that none comes between two that
/// belong together.
struct Maker<'a> {
    shared: &'a CopyState,
    client: &'a Client,
}

impl Maker<'_> {
    async fn make(&self, links: Vec<LinkJob>) -> Vec<(LinkJob, Result<Fate, TransferError>)> {
        let looks: Vec<_> = links.iter().map(|link| self.look(link)).collect();
        let mut fates = Vec::with_capacity(links.len());
        for (link, look) in links.iter().zip(looks) {
            fates.push(self.fate(link, look).await);
        }
        let mut sent = Vec::with_capacity(links.len());
        for (link, fate) in links.iter().zip(fates) {
            let pair = fate.and_then(|fate| Ok((self.send(link, &fate)?, fate)));
            sent.push(pair);
        }
        let mut made = Vec::with_capacity(links.len());
        for (link, sent) in links.into_iter().zip(sent) {
            let ended = match sent {
                Ok((Some(pair), fate)) => self.end(&link, pair, fate).await,
                Ok((None, fate)) => Ok(fate),
                Err(error) => Err(error),
            };
            made.push((link, ended));
        }
        made
    }

    fn wire(&self, path: &[u8]) -> Result<FtpPath, TransferError> {
        let wire = self.client.control.path(path);
        wire.ok_or_else(|| TransferError::unsendable(path))
    }

    /// Asks for the object at the destination of a link; `None` where the server makes no links.
    fn look(&self, link: &LinkJob) -> Result<Option<Replies>, TransferError> {
        // Others make a link to an object of theirs that is there, or none.
        if !self.client.abilities.held {
            return Ok(None);
        }
        let at = self.wire(&link.to)?;
        Ok(Some(self.client.control.send(Command::Mlst(Some(at)))))
    }

    async fn fate(
        &self,
        link: &LinkJob,
        look: Result<Option<Replies>, TransferError>,
    ) -> Result<Fate, TransferError> {
        let Some(mut look) = look? else {
            return Ok(self.refused());
        };
        let server = Some((&self.client.control, &self.client.abilities));
        let parent = names::parent(&link.to);
        self.shared.check_parents(parent, server).await?;
        let told = look.told().await?;
        let there = match told.as_ref().and_then(parse_mlst) {
            None => There::Nothing,
            Some((entry, _)) => match (entry.target, entry.kind) {
                (Some(target), _) => There::Link(target),
                (None, kind) if kind.is_dir() => There::Dir,
                (None, _) => There::Other,
            },
        };
        let fate = self.shared.fate_of_link(link, &there)?;
        if matches!(fate, Fate::Planned) {
            self.shared.plan_link(link, &there, server).await?;
        }
        Ok(fate)
    }

    /// The fate of all links at a server that makes none.
    fn refused(&self) -> Fate {
        let what = "it makes no symbolic links that keep their targets, so they are left out; \
                    --links follow copies what they lead to";
        let shared = self.shared;
        shared.warn_once(&shared.links.told[1], shared.destination.as_ref(), what);
        Fate::Skipped(UNMADE)
    }

    /// Sends the commands that make a link, under a name beside its own where that is taken.
    fn send(&self, link: &LinkJob, fate: &Fate) -> Result<Option<[Replies; 2]>, TransferError> {
        let at = match fate {
            Fate::Made => self.wire(&link.to)?,
            Fate::Replaced => self.wire(&self.shared.beside(&link.to))?,
            _ => return Ok(None),
        };
        let target = SiteCommand::SymlinkFrom(self.wire(&link.target)?);
        let commands = [target, SiteCommand::SymlinkTo(at)];
        let send = |command| self.client.control.send(Command::Site(command));
        Ok(Some(commands.map(send)))
    }

    /// Reads the replies to [`send`](Self::send), and replaces an old object.
    async fn end(
        &self,
        link: &LinkJob,
        pair: [Replies; 2],
        fate: Fate,
    ) -> Result<Fate, TransferError> {
        let control = &self.client.control;
        let mut made = finish(pair).await;
        if made.as_ref().is_err_and(ControlError::is_not_found) {
            let parent = names::parent(&link.to);
            drop(make_parents(
                control,
                self.shared,
                parent,
                &mut Known::default(),
            ));
            if let Some(pair) = self.send(link, &fate)? {
                made = finish(pair).await;
            }
        }
        // Of an attempt whose session was lost.
        if matches!(fate, Fate::Replaced)
            && made
                .as_ref()
                .is_err_and(|error| error.kind() == Some(FailureKind::Exists))
        {
            let left = self.wire(&self.shared.beside(&link.to))?;
            control.send(Command::Dele(left)).finish().await?;
            if let Some(pair) = self.send(link, &fate)? {
                made = finish(pair).await;
            }
        }
        match made {
            Ok(()) => {}
            Err(error) if error.kind() == Some(FailureKind::Unsupported) => {
                return Ok(self.refused());
            }
            Err(error) => return Err(error.into()),
        }
        if !matches!(fate, Fate::Replaced) {
            return Ok(fate);
        }
        let (beside, to) = (
            self.wire(&self.shared.beside(&link.to))?,
            self.wire(&link.to)?,
        );
        let moved = async {
            let server = Some((control, &self.client.abilities));
            self.shared.set_aside(&link.to, server).await?;
            moved(control, beside.clone(), to).await?;
            Ok(())
        };
        if let Err(error) = moved.await {
            drop(control.send(Command::Dele(beside)).finish().await);
            return Err(error);
        }
        Ok(fate)
    }
}

async fn finish([mut from, mut to]: [Replies; 2]) -> Result<(), ControlError> {
    from.finish().await?;
    to.finish().await.map(drop)
}
