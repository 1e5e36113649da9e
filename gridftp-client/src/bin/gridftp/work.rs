//! `Work`: the common part of all commands: places, sessions, failures, and the exit status.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use gridftp_client::error::TransferError;
use gridftp_client::options::ConnectOptions;
use gridftp_client::program::accounts::{Accounts, PlaceAccess};
use gridftp_client::program::connection::ConnectionFlags;
use gridftp_client::program::exit::Status;
use gridftp_client::program::grid::without_ends;
use gridftp_client::program::report::Report;
use gridftp_client::program::run::locate;
use gridftp_client::url::show;
use gridftp_client::{Location, names};
use serde_json::Value;

use crate::PROGRAM;
use crate::end::End;

/// Flags of every command.
#[derive(Debug, clap::Args)]
#[command(mut_args = without_ends)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,

    /// Write one JSON object a line instead of text; gridftp --help names the events and their
    /// fields. cat and head, which write bytes, refuse it
    #[arg(long)]
    pub(crate) json: bool,

    /// Write errors only, and of comparisons nothing
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Write the control conversation to standard error, passwords masked
    #[arg(long)]
    pub(crate) debug: bool,
}

impl Common {
    /// The form of the output.
    pub(crate) fn report(&self) -> Report {
        Report::of_lines(PROGRAM, self.json, self.quiet)
            .with_debug(self.debug)
            .of_entries(0)
    }
}

/// The state of a command.
pub(crate) struct Work<'a> {
    accounts: Accounts<'a>,
    options: Arc<ConnectOptions>,
    pub(crate) report: Arc<Report>,
    end: End,
    status: Status,
}

/// A path at one end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) location: Location,
    pub(crate) path: Vec<u8>,
}

impl<'a> Work<'a> {
    pub(crate) fn new(common: &'a Common, report: &Arc<Report>) -> anyhow::Result<Self> {
        Self::with(common, report, |_| ())
    }

    /// Begins with options of connections that `choose` completes.
    pub(crate) fn with(
        common: &'a Common,
        report: &Arc<Report>,
        choose: impl FnOnce(&mut ConnectOptions),
    ) -> anyhow::Result<Self> {
        let mut options = common.connection.options()?;
        choose(&mut options);
        Ok(Self {
            accounts: Accounts::new(&common.connection),
            options: Arc::new(options),
            report: Arc::clone(report),
            end: End::Local,
            status: Status::Done,
        })
    }

    /// Takes the access to the servers of places from the settings.
    pub(crate) fn with_places(mut self, places: &'a [PlaceAccess]) -> Self {
        self.accounts = self.accounts.with_places(places);
        self
    }

    /// Reads the text of a place.
    pub(crate) fn place(&mut self, text: &OsStr) -> anyhow::Result<Place> {
        let location = locate(text, &mut self.accounts, &self.report)?;
        let path = match &location {
            Location::Local(path) => path.as_os_str().as_bytes().to_vec(),
            Location::Remote(remote) => remote.path.clone(),
            _ => anyhow::bail!("usage: -: is no file of a server"),
        };
        Ok(Place { location, path })
    }

    /// Reads the text of a place at a server.
    pub(crate) fn remote(&mut self, text: &OsStr) -> anyhow::Result<Place> {
        let place = self.place(text)?;
        let is_remote = matches!(place.location, Location::Remote(_));
        let shown = show(text.as_bytes());
        anyhow::ensure!(is_remote, "usage: {shown}: is no URL of a server");
        Ok(place)
    }

    /// The end of a place; the session with the last server is used again.
    pub(crate) async fn at(&mut self, place: &Place) -> &mut End {
        if !self.end.is_of(&place.location) {
            let new = self.another(place);
            std::mem::replace(&mut self.end, new).close().await;
        }
        &mut self.end
    }

    /// An end of a place, with a session of its own.
    pub(crate) fn another(&self, place: &Place) -> End {
        let observer = Arc::clone(&self.report) as Arc<_>;
        End::of(&place.location, &self.options, observer)
    }

    /// The places that a text means: several, by name, where it is a pattern.
    pub(crate) async fn expand(&mut self, place: Place) -> Result<Vec<Place>, TransferError> {
        let pattern = match &place.location {
            Location::Remote(remote) => remote.pattern.clone(),
            _ => None,
        };
        let Some(pattern) = pattern else {
            return Ok(vec![place]);
        };
        let dir = names::parent(&place.path).to_vec();
        let mut found = self.at(&place).await.list(&dir).await?;
        found.retain(|object| ftp_wire::glob::matches(&pattern, object.name()));
        if found.is_empty() {
            return Err(TransferError::Source {
                path: place.url(),
                what: "no name there matches".to_owned(),
                remedy: "in a name, write * ? and [ as %2A, %3F and %5B",
            });
        }
        let named = |path| place.with_path(path);
        let paths = found.iter().map(|object| names::join(&dir, object.name()));
        Ok(paths.map(named).collect())
    }

    /// Does the same at all places, and tells the failures.
    pub(crate) async fn each(
        &mut self,
        places: Vec<Place>,
        mut act: impl AsyncFnMut(&mut Self, &Place) -> Result<(), TransferError>,
    ) {
        for place in places {
            match self.expand(place.clone()).await {
                Ok(all) => {
                    for place in all {
                        if let Err(error) = act(self, &place).await {
                            self.fail(&place, &error);
                        }
                    }
                }
                Err(error) => self.fail(&place, &error),
            }
        }
    }

    /// Tells a change as JSON; text tells failures alone.
    pub(crate) fn tell(&self, change: &Value) {
        if self.report.is_json() {
            self.report.emit(change);
        }
    }

    /// Tells the failure of one object; the worst class is that of the exit status.
    pub(crate) fn fail(&mut self, place: &Place, error: &TransferError) {
        self.report.failed(&place.url(), error);
        if self.status != Status::Verify {
            self.status = Status::of(error.class());
        }
    }

    /// Ends with the status of trees that differ.
    pub(crate) fn differ(&mut self) {
        self.status = Status::Verify;
    }

    /// Ends the session, and returns the exit status.
    pub(crate) async fn end(self) -> Status {
        self.end.close().await;
        self.status
    }
}

impl Place {
    /// Another path at the same end.
    pub(crate) fn with_path(&self, path: Vec<u8>) -> Self {
        let mut place = self.clone();
        match &mut place.location {
            Location::Remote(remote) => {
                remote.path.clone_from(&path);
                remote.pattern = None;
            }
            location => *location = Location::Local(OsStr::from_bytes(&path).into()),
        }
        Self { path, ..place }
    }

    /// The text that means it.
    pub(crate) fn url(&self) -> String {
        self.location.to_string()
    }
}
