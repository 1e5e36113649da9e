//! Files of web servers, to this machine or to a server: each comes in order, by one request after
//! the other.

mod get;
mod input;
pub(super) mod output;
mod put;

use super::Stop;
use super::admission::Server;
use super::digests::padded;
use super::job::{Facts, FileJob};
use super::kept::Digest;
use super::pull::local;
use super::resolve::Destination;
use super::roots::{Root, add_chosen};
use super::same::Object;
use super::state::CopyState;
use super::tuning::Worker;
use crate::client::Client;
use crate::error::{ConnectError, TransferError};
use crate::names;
use crate::options::{CopyOptions, Verify};
use crate::url::{Location, Site, file_name};
use crate::verify;
use crate::web::{Answer, NO_DIGEST, Request, WebError, choose, facts, open};

/// Copies from the queue until nothing is left, to `client` or to this machine.
pub(super) async fn run(client: Option<Box<Client>>, worker: &Worker) -> Result<(), Stop> {
    match client {
        Some(client) => put::run(client, worker).await,
        None => {
            get::run(worker).await;
            Ok(())
        }
    }
}

/// Refuses requests for which HTTP has no words, before anything is connected.
pub(super) fn check(
    sources: &[Location],
    destination: &Location,
    options: &CopyOptions,
) -> Result<(), TransferError> {
    let is_web = |location: &Location| match location {
        Location::Remote(remote) => remote.site.scheme.is_web(),
        Location::Local(_) | Location::Stdio => false,
    };
    let refuse = |what, remedy| Err(TransferError::request(format!("usage: {what}"), remedy));
    if is_web(destination) {
        let what = format!("destination: {destination}: web servers are sources only");
        return refuse(
            what,
            "name a path, or a gsiftp://, ftp://, ftps:// or sshftp:// URL",
        );
    }
    let Some(source) = sources.iter().find(|source| is_web(source)) else {
        return Ok(());
    };
    let is_tree = options.recursive || options.choice.names.is_some();
    if is_tree
        || sources
            .iter()
            .any(|source| is_web(source) && source.means_contents())
    {
        let what = format!("source: {source}: web servers have no listings, and no directories");
        return refuse(what, "name each file, without --recursive");
    }
    Ok(())
}

/// Adds a source to the work.
pub(super) async fn add(
    shared: &CopyState,
    remote: &crate::url::Remote,
    to: &Destination,
) -> Result<(), TransferError> {
    let name = file_name(&remote.path);
    let target = match to.dir {
        true => {
            names::check(&name)?;
            names::join(&to.path, &name)
        }
        false => to.path.clone(),
    };
    let request = Request {
        site: &remote.site,
        target: &remote.path,
        part: (0, None),
        validator: None,
    };
    let facts = match Box::pin(facts(request, &shared.options.connect)).await {
        Ok(head) => head.facts,
        // A server that is not there is not waited for, before anything was copied.
        Err(error @ TransferError::Connect(ConnectError::Unreachable { .. })) => return Err(error),
        // The copy itself tries again.
        Err(error) if error.is_transient() => Facts::default(),
        Err(error) => return Err(error),
    };
    let root = Root {
        from: &remote.path,
        relative: &name,
        target,
        object: &Object::named(&remote.path),
    };
    add_chosen(shared, root, facts, to).await
}

/// The failure of an answer that does not have the bytes from `begin` on.
fn no_parts(answer: Answer, begin: u64) -> TransferError {
    let what = match begin {
        0 => "the server sends other bytes than those asked for",
        _ => "the server sends no parts of it",
    };
    let (url, what) = (answer.url, what.to_owned());
    WebError::Answer { url, what }.into()
}

impl CopyState {
    /// The web server of the sources.
    fn web_site(&self) -> &Site {
        match &self.source {
            Some(site) => site,
            None => unreachable!("the sources are at a web server"),
        }
    }

    /// Asks for the bytes of a file from `begin` on, which counts from its start.
    async fn ask_web(&self, job: &FileJob, begin: u64) -> Result<Answer, TransferError> {
        let offset = self.options.offset.unwrap_or(0);
        let end = self
            .options
            .length
            .map(|length| offset.saturating_add(length));
        let request = Request {
            site: self.web_site(),
            target: &job.from,
            part: (begin, end),
            validator: job.validator.as_deref(),
        };
        Box::pin(open(request, &self.options.connect)).await
    }

    /// The digest of the source that its copy is compared with, where it tells one.
    ///
    /// # Errors
    /// When the caller demands one that is not told, and when nothing tells a part of the file from
    /// the whole.
    fn web_digest(&self, answer: &Answer) -> Result<Option<Digest>, TransferError> {
        let site = self.web_site().to_string();
        let told = match self.is_partial() {
            true => &[][..],
            false => &answer.head.digests,
        };
        let chosen = choose(told, self.options.verify, &site)?;
        if chosen.is_none() && self.options.verify == Verify::Auto {
            self.undigested.note(&site, || NO_DIGEST.to_owned());
        }
        if chosen.is_none() && !answer.tells_its_end() {
            let what = "it tells neither its length nor a digest, and may be cut off anywhere";
            let (url, what) = (answer.url.clone(), what.to_owned());
            return Err(WebError::Answer { url, what }.into());
        }
        Ok(chosen)
    }

    /// The digests of a file at a web server and of its copy.
    pub(super) async fn web_digests(
        &self,
        job: &FileJob,
        destination: Option<Server<'_>>,
    ) -> Result<[String; 2], TransferError> {
        let request = Request {
            site: self.web_site(),
            target: &job.from,
            part: (0, None),
            validator: None,
        };
        let head = Box::pin(facts(request, &self.options.connect)).await?;
        let named = self.options.manner.algorithm;
        let is_known = |(algorithm, _): &&Digest| {
            named.is_none_or(|named| named == *algorithm)
                && destination.is_none_or(|(_, abilities)| abilities.knows(*algorithm))
        };
        let Some((algorithm, source)) = head.digests.iter().find(is_known).cloned() else {
            let what = "--checksum: the ends of the copy have no digest in common";
            let remedy = "use --sync, which compares sizes and times";
            return Err(TransferError::request(what, remedy));
        };
        let copy = match destination {
            None => verify::local(local(&job.to), algorithm, 0, None).await?,
            Some((control, _)) => {
                let wire = control.path(&job.to);
                let wire = wire.ok_or_else(|| TransferError::unsendable(&job.to))?;
                let mut asked = verify::ask(control, algorithm, 0, None, wire);
                padded(algorithm, asked.digest(|_| ()).await?)
            }
        };
        Ok([source, copy])
    }
}
