//! `Config`: the upstream, the account there and the bounds of its sessions.

use std::path::PathBuf;
use std::time::Duration;

use ftp_wire::command::{Dcau, Mode};
use gridftp_client::options::{Identity, Level, Roots, Security};
use gridftp_client::url::{Remote, Scheme};
use gridftp_client::{ConnectOptions, Location, netrc};
use gridftp_dsi::{Error, ErrorKind, Result};

/// The settings of a gateway.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// The directory at the upstream, as `gsiftp://host:2811/data`.
    pub url: String,
    /// File of the accounts, in the form of `.netrc`.
    pub netrc: Option<PathBuf>,
    /// File with the authorities of TLS servers, or directory of them; those of the system by
    /// default.
    pub ca: Option<PathBuf>,
    /// File with a certificate and its key, for TLS servers that ask for one.
    pub cert: Option<PathBuf>,
    /// File of the credential for users of Grid security without a delegated one.
    pub cred: Option<PathBuf>,
    /// Whether the delegated credential of a user is used in place of that one.
    pub delegated: bool,
    /// Identity that both ends of a data connection demand of each other, with Grid security.
    pub dcau: Dcau,
    /// Protection of data; private by default where the control connection is protected.
    pub protect: Option<Level>,
    /// Protection of control connections.
    pub security: Security,
    /// Subject of the upstream's certificate, where it is not for the host of the URL.
    pub subject: Option<String>,
    /// Age at which the hidden file of an upload that nobody continued is removed.
    pub keep: Duration,
    /// Transmission mode of the data.
    pub mode: Mode,
    /// Name of this gateway, by which its hidden files differ from those of another; that of the host
    /// by default.
    pub name: Option<String>,
    /// Number of data connections of a download, with MODE E; an upload has one.
    pub streams: u32,
    /// TCP buffer of data connections at both ends, in bytes; the kernels choose by default.
    pub tcp_buffer: Option<u64>,
    /// Most sessions at a time with one credential.
    pub sessions: usize,
    /// Time after which an idle session is closed.
    pub idle: Duration,
    /// Longest wait for a connection, for the login, and for one of the sessions to be free.
    pub connect_timeout: Duration,
    /// Longest wait for the reply to a command that moves no data.
    pub reply_timeout: Duration,
    /// Longest time in which a transfer may move nothing.
    pub stall: Duration,
    /// Longest wait for the upstream's word that it has all of an upload.
    pub end_timeout: Duration,
}

fn bad(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::BadName, "open gateway").because(why.into())
}

impl Config {
    /// The defaults for the directory that a URL names.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            netrc: None,
            ca: None,
            cert: None,
            cred: None,
            delegated: true,
            dcau: Dcau::Own,
            protect: None,
            security: Security::Auto,
            subject: None,
            keep: Duration::from_secs(7 * 24 * 3600),
            mode: Mode::Stream,
            name: None,
            streams: 1,
            tcp_buffer: None,
            sessions: 32,
            idle: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(10),
            reply_timeout: Duration::from_secs(60),
            stall: Duration::from_secs(60),
            end_timeout: Duration::from_secs(300),
        }
    }

    /// Checks the URL.
    ///
    /// # Errors
    /// [`ErrorKind::BadName`] with the fault and the remedy.
    pub fn check(&self) -> Result<()> {
        self.place().map(drop)
    }

    /// The upstream and the directory there.
    fn place(&self) -> Result<Remote> {
        let url = &self.url;
        let remote = match Location::parse(url) {
            Ok(Location::Remote(remote)) if !remote.site.scheme.is_web() => remote,
            Ok(_) => return Err(bad(format!("{url} is no server; write ftp://HOST/PATH"))),
            Err(error) => return Err(bad(error.to_string())),
        };
        if remote.site.scheme == Scheme::Ssh {
            return Err(bad(
                "a gateway does not go through ssh; use ftp://, ftps:// or gsiftp://",
            ));
        }
        if remote.site.password.is_some() {
            // Configurations and arguments are read by others.
            return Err(bad(
                "a password in the URL is readable by others; write it into a file and say netrc=FILE",
            ));
        }
        if remote.pattern.is_some() {
            return Err(bad(
                "the URL has wildcards; write * ? and [ as %2A, %3F and %5B",
            ));
        }
        Ok(remote)
    }

    /// The upstream with its account, and the options of sessions; reads the files.
    pub(crate) fn open(&self) -> Result<(Remote, ConnectOptions)> {
        let mut remote = self.place()?;
        if let Some(path) = &self.netrc {
            let site = &mut remote.site;
            let found = netrc::lookup(path, &site.host, site.user.as_deref());
            let found = found.map_err(|error| bad(error.to_string()))?;
            let account = found.ok_or_else(|| {
                bad(format!(
                    "{} has no account for {}",
                    path.display(),
                    site.host
                ))
            })?;
            site.user = account.user.or_else(|| site.user.take());
            site.password = account.password;
        }
        let mut options = ConnectOptions::default();
        options.mode = Some(self.mode);
        options.connect_within = self.connect_timeout;
        options.reach_within = self.connect_timeout;
        options.reply_within = self.reply_timeout;
        options.stall = self.stall;
        options.tcp_buffer = self.tcp_buffer;
        options.anonymous_password = "gridftp-gateway@".to_owned();
        options.security = self.security;
        options.protect = self.protect;
        options.grid.authentication = self.dcau.clone();
        options.grid.credential.clone_from(&self.cred);
        options.grid.subject.clone_from(&self.subject);
        let failed = |error: std::io::Error| bad(error.to_string());
        if let Some(path) = &self.ca {
            options.roots = Roots::pem_path(path).map_err(|error| failed(error.into()))?;
        }
        if let Some(path) = &self.cert {
            let identity = Identity::pem_files(path, path);
            options.identity = Some(identity.map_err(|error| failed(error.into()))?);
        }
        Ok((remote, options))
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn a_wrong_url_is_told_with_its_remedy() {
        for (url, part) in [
            ("/srv/data", "is no server"),
            ("http://host/x", "is no server"),
            ("gopher://host/x", "scheme"),
            ("sshftp://host/x", "ssh"),
            ("ftp://me:secret@host/x", "netrc=FILE"),
            ("ftp://host/*", "%2A"),
        ] {
            let error = Config::new(url).check().unwrap_err();
            let told = error.source().unwrap().to_string();
            assert!(told.contains(part), "{url}: {told}");
            assert!(!told.contains("secret"), "{told}");
        }
        assert!(Config::new("gsiftp://host/data").check().is_ok());
    }
}
