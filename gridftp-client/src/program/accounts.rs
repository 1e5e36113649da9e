//! Fills in accounts that the URLs leave out: from `--user`, a `.netrc`, or a prompt.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::netrc;
use crate::options::Access;
use crate::url::{Location, Scheme, Site};
use anyhow::{Context as _, bail};
use ftp_proto::security::is_anonymous;
use ftp_wire::command::Secret;

use crate::program::connection::ConnectionFlags;

/// The access to the server of a place, by the settings of that.
#[derive(Debug)]
pub struct PlaceAccess {
    /// The URLs on the command line that name the server.
    pub urls: Vec<OsString>,
    pub access: Arc<Access>,
}

/// Accounts asked for once, by server and name.
#[derive(Debug)]
pub struct Accounts<'a> {
    flags: &'a ConnectionFlags,
    places: &'a [PlaceAccess],
    prompted: HashMap<(String, String), Secret>,
    /// Whether a password may be asked for.
    asks: bool,
}

impl<'a> Accounts<'a> {
    pub fn new(flags: &'a ConnectionFlags) -> Self {
        Self {
            flags,
            places: &[],
            prompted: HashMap::new(),
            asks: true,
        }
    }

    /// Takes the access to the servers of places from the settings.
    #[must_use]
    pub fn with_places(self, places: &'a [PlaceAccess]) -> Self {
        Self { places, ..self }
    }

    /// Asks for no password: one that is nowhere else is missing.
    pub fn silent(flags: &'a ConnectionFlags) -> Self {
        Self {
            asks: false,
            ..Self::new(flags)
        }
    }

    /// Completes the account of a location that was written as `text`, and the access to the server
    /// of its place.
    pub fn complete(&mut self, location: &mut Location, text: &OsStr) -> anyhow::Result<()> {
        if let Location::Remote(remote) = location {
            let mut places = self.places.iter();
            let place = places.find(|place| place.urls.iter().any(|url| url == text));
            remote.site.access = place.map(|place| Arc::clone(&place.access));
            self.complete_site(&mut remote.site)?;
        }
        Ok(())
    }

    fn complete_site(&mut self, site: &mut Site) -> anyhow::Result<()> {
        // A web server gets an account only where that is named for its host.
        if site.user.is_none() && !site.scheme.is_web() {
            site.user.clone_from(&self.flags.user);
        }
        if matches!(site.scheme, Scheme::Grid | Scheme::Ssh) {
            // Certificates and ssh need no password.
            return Ok(());
        }
        if site.password.is_none()
            && let Some(path) = &self.flags.netrc
            && let Some(account) = netrc::lookup(
                &netrc_path(path.as_deref())?,
                &site.host,
                site.user.as_deref(),
            )?
        {
            site.user = site.user.take().or(account.user);
            site.password = account.password;
        }
        let Some(user) = &site.user else {
            return Ok(());
        };
        if site.password.is_some() || is_anonymous(user) {
            return Ok(());
        }
        let key = (site.to_string(), user.clone());
        if let Some(known) = self.prompted.get(&key) {
            site.password = Some(known.clone());
            return Ok(());
        }
        if !self.asks {
            bail!("login: {user} at {site}: no password");
        }
        let prompt = format!("Password of {} at {site}: ", user.escape_default());
        let Ok(typed) = rpassword::prompt_password(prompt) else {
            // The certificate may log in by itself.
            let own = site.access.as_ref().and_then(|at| at.identity.as_ref());
            if self.flags.cert.is_some() || own.is_some() {
                return Ok(());
            }
            bail!("login: {user} at {site}: no password and no terminal to ask on; use --netrc");
        };
        let secret = Secret::new(typed);
        self.prompted.insert(key, secret.clone());
        site.password = Some(secret);
        Ok(())
    }
}

/// The `.netrc` to read: the one named, that of `$NETRC`, or that of the home directory.
fn netrc_path(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) = named {
        return Ok(path.to_owned());
    }
    if let Some(path) = std::env::var_os("NETRC") {
        return Ok(path.into());
    }
    let home =
        std::env::home_dir().context("netrc: no home directory; name the file: --netrc=FILE")?;
    Ok(home.join(".netrc"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        connection: ConnectionFlags,
    }

    #[test]
    fn silent_accounts_ask_for_no_password() {
        // With a certificate, an account that is asked for is complete where no terminal is.
        let line = Line::parse_from(["program", "--cert", "file"]);
        let mut accounts = Accounts::silent(&line.connection);
        for (url, complete) in [
            ("ftp://ann@h/x", Err("login: ann at h:21: no password")),
            ("ftp://ann:pw@h/x", Ok(())),
            ("ftp://h/x", Ok(())),
            ("https://h/x", Ok(())),
            ("https://ann@h/x", Err("login: ann at h:443: no password")),
        ] {
            let mut location = Location::parse_os(url.as_ref()).unwrap();
            let done = accounts.complete(&mut location, url.as_ref());
            let done = done.map_err(|error| error.to_string());
            assert_eq!(done, complete.map_err(str::to_owned), "{url}");
        }
    }
}
