//! `Access`: protection, trust and credentials at one server, in place of those of the options.

use std::path::PathBuf;

use crate::options::{ConnectOptions, Delegation, Identity, Names, Roots, Security};

/// Protection, trust and credentials at one server; a field of `None` leaves that of
/// [`ConnectOptions`].
///
/// ```
/// use gridftp_client::Location;
/// use gridftp_client::options::{Access, Security};
///
/// let mut location = Location::parse("ftp://lab.example.org/run7")?;
/// if let Location::Remote(remote) = &mut location {
///     let mut access = Access::default();
///     access.security = Some(Security::Tls);
///     remote.site.access = Some(access.into());
/// }
/// # Ok::<(), gridftp_client::url::UrlError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Access {
    /// Protection of control connections.
    pub security: Option<Security>,
    /// The authorities that vouch for the server, and for those that a web server leads to.
    pub roots: Option<Roots>,
    /// The certificate that it gets where it asks for one.
    pub identity: Option<Identity>,
    /// File of the credential for Grid security; it replaces one in memory.
    pub credential: Option<PathBuf>,
    /// The rights that the server gets.
    pub delegation: Option<Delegation>,
    /// The subject of the server.
    pub subject: Option<String>,
    /// The rules for host names.
    pub names: Option<Names>,
    /// Path of `gridftp-server` on the host, which is reached through ssh.
    pub remote_program: Option<String>,
    /// Whether the address in a PASV reply is used although it is another than the server's.
    pub trust_pasv: Option<bool>,
}

impl Access {
    /// The options of a session with the server.
    pub(crate) fn over(&self, options: &ConnectOptions) -> ConnectOptions {
        let (mut options, own) = (options.clone(), self.clone());
        let grid = &mut options.grid;
        set(&mut options.security, own.security);
        set(&mut options.roots, own.roots);
        set(&mut options.identity, own.identity.map(Some));
        set(&mut options.remote_program, own.remote_program.map(Some));
        set(&mut options.trust_pasv, own.trust_pasv);
        if let Some(path) = own.credential {
            grid.use_file(path);
        }
        set(&mut grid.delegation, own.delegation);
        set(&mut grid.subject, own.subject.map(Some));
        set(&mut grid.names, own.names);
        options
    }
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}
