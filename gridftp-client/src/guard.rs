//! `Guard`: the protection of one session, chosen by the user and the URL, and its handshakes.

use std::net::IpAddr;

use ftp_proto::client::Security as Steps;
use ftp_proto::security::{DataProtection, Level, Mechanism, is_anonymous};
use ftp_wire::command::Dcau;
use gsi::exchange::Delegation;
use xio::tls::{CertificateFault, Tickets, Tls, TlsEnd};
use xio_core::{BoxStream, DynLayer, DynStack, ErrorKind, Operation, Plan};

use crate::error::ConnectError;
use crate::grid::{DataCredential, Grid};
use crate::options::{ConnectOptions, Security};
use crate::url::{FTPS_PORT, Scheme, Site};

/// The protection of one session. Clones share its TLS sessions, so that data connections resume
/// that of the control connection.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    steps: Steps,
    /// The TLS of a protected session.
    tls: Option<(TlsEnd, Tickets)>,
    /// The Grid security of both channels, or of data alone.
    grid: Option<Box<Grid>>,
    /// Whether it was chosen for the password, and not asked for.
    for_password: bool,
}

impl Guard {
    /// Chooses the protection of a session with `site`, whose connection leads to `peer`.
    ///
    /// # Errors
    /// [`ConnectError::Choice`] for options that contradict each other.
    pub(crate) fn of(
        site: &Site,
        options: &ConnectOptions,
        peer: Option<IpAddr>,
    ) -> Result<Self, ConnectError> {
        let mut guard = Self {
            steps: steps(site, options, peer)?,
            tls: None,
            grid: None,
            for_password: options.security == Security::Auto
                && site.scheme == Scheme::Ftp
                && !demands(options),
        };
        if matches!(
            guard.steps,
            Steps::Implicit(_) | Steps::Explicit(Mechanism::Tls, _)
        ) {
            // TLS sessions are not shared between control connections: servers check that a data
            // connection resumes that of its own.
            let mut tls = Tls::client(options.roots.clone())
                .alpn(["ftp"])
                .handshake_timeout(options.connect_within);
            if let Some(identity) = &options.identity {
                tls = tls.client_identity(identity.clone());
            }
            let tls = tls.build_client(site.host.clone());
            guard.tls = Some(tls.map_err(|cause| tls_failed(site, cause))?);
        }
        Ok(guard)
    }

    /// Adds Grid security, where the session has that.
    pub(crate) fn with_grid(self, grid: Option<Grid>) -> Self {
        let grid = grid.map(Box::new);
        Self { grid, ..self }
    }

    /// The Grid security of both channels, or of data alone.
    pub(crate) fn grid(&self) -> Option<&Grid> {
        self.grid.as_deref()
    }

    /// As [`grid`](Self::grid).
    pub(crate) fn grid_mut(&mut self) -> Option<&mut Grid> {
        self.grid.as_deref_mut()
    }

    /// Whether data connections begin with a handshake of Grid security.
    pub(crate) fn has_grid_handshake(&self) -> bool {
        self.grid().is_some_and(Grid::authenticates)
    }

    /// Whether data connections are of TLS, without Grid security.
    pub(crate) fn has_data_tls(&self) -> bool {
        self.tls.is_some() && self.data() > Level::Clear
    }

    /// The steps of the login.
    pub(crate) fn steps(&self) -> Steps {
        self.steps
    }

    /// The protection of data connections.
    pub(crate) fn data(&self) -> Level {
        if let Some(grid) = &self.grid {
            return grid.protection().level;
        }
        match self.steps {
            Steps::Clear => Level::Clear,
            Steps::Explicit(_, level) | Steps::Implicit(level) => level,
        }
    }

    /// Whether it was chosen for the password, and not asked for.
    pub(crate) fn is_for_password(&self) -> bool {
        self.for_password
    }

    /// Runs the handshake on a control connection.
    pub(crate) async fn protect(&self, stream: BoxStream) -> xio_core::Result<BoxStream> {
        match &self.tls {
            Some((tls, _)) => Ok(Box::new(tls.open(stream, Operation::Connect).await?)),
            None => match &self.grid {
                Some(grid) => grid.initiate(stream).await,
                None => Ok(stream),
            },
        }
    }

    /// The failure of a handshake with `site`.
    pub(crate) fn failed(&self, site: &Site, cause: xio_core::Error) -> ConnectError {
        match &self.grid {
            Some(grid) => grid.failed(site, cause),
            None => tls_failed(site, cause),
        }
    }

    /// Whether the TLS tickets of the control connection are used up, by which data connections
    /// resume its session.
    pub(crate) fn is_spent(&self) -> bool {
        let tickets = self.tls.as_ref().map(|(_, tickets)| tickets);
        self.data() == Level::Private && tickets.is_some_and(Tickets::are_spent)
    }

    /// The stack of data connections with their protection on top.
    pub(crate) fn over(&self, stack: DynStack) -> DynStack {
        let (name, layer) = match (&self.tls, self.grid().and_then(Grid::layer)) {
            (Some((tls, _)), _) if self.has_data_tls() => ("tls", DynLayer::new(tls.clone())),
            (_, Some(gsi)) => ("gsi", DynLayer::new(gsi.clone())),
            _ => return stack,
        };
        let plan: Plan = name.parse().expect("it is the name of a driver");
        let entry = plan.entries().first().expect("it has one entry");
        stack.layer(layer, entry)
    }
}

/// Refuses options that contradict each other, whatever the site's address turns out to be.
///
/// # Errors
/// [`ConnectError::Choice`].
pub(crate) fn check(site: &Site, options: &ConnectOptions) -> Result<(), ConnectError> {
    steps(site, options, None).map(drop)
}

/// The protection of data connections by Grid security, for the sessions that have it.
///
/// # Errors
/// [`ConnectError::Choice`] for options that contradict each other.
pub(crate) fn grid_data(
    site: &Site,
    options: &ConnectOptions,
) -> Result<Option<DataProtection>, ConnectError> {
    let choice = |what, remedy| Err(ConnectError::Choice { what, remedy });
    let grid = &options.grid;
    let authentication = match (site.scheme, &grid.authentication) {
        (Scheme::Ftp | Scheme::Ftps | Scheme::Http | Scheme::Https, _) => return Ok(None),
        (Scheme::Ssh, Dcau::Own) if options.protect == Some(Level::Clear) => Dcau::None,
        (Scheme::Ssh, Dcau::Subject(_)) => {
            return choice(
                "dcau: data behind ssh has a credential of the session, and no subject",
                "leave out --dcau",
            );
        }
        (_, authentication) => authentication.clone(),
    };
    if authentication == Dcau::None {
        return match options.protect {
            Some(Level::Integrity | Level::Private) => choice(
                "dcau: none leaves nothing to protect data with",
                "leave out --dcau none, or write --protect clear",
            ),
            Some(Level::Clear) | None => Ok(Some(DataProtection::default())),
        };
    }
    let is_bare = site.scheme == Scheme::Grid && grid.delegation == Delegation::None;
    if is_bare && grid.data_credential != DataCredential::Session {
        return choice(
            "delegation: without it the server has no credential for data connections",
            "--data-cred auto makes one, and --dcau none leaves data in clear text",
        );
    }
    let level = options.protect.unwrap_or(Level::Private);
    Ok(Some(DataProtection::new(authentication, level)))
}

/// The failure of a handshake with `site`.
pub(crate) fn tls_failed(site: &Site, cause: xio_core::Error) -> ConnectError {
    let remedy = match CertificateFault::of(&cause) {
        Some(CertificateFault::UnknownAuthority) => "--ca FILE or FOLDER names that authority",
        Some(CertificateFault::WrongName) => "the URL must name the host as the certificate does",
        Some(CertificateFault::Time) => {
            "its administrator must renew it, unless this clock is wrong"
        }
        _ => "",
    };
    ConnectError::Tls {
        site: site.to_string(),
        cause: cause.into(),
        remedy,
    }
}

/// The failure of a handshake before the greeting.
pub(crate) fn implicit_failed(site: &Site, cause: xio_core::Error) -> ConnectError {
    match cause.kind() {
        ErrorKind::Protocol => ConnectError::Tls {
            site: site.to_string(),
            cause: cause.into(),
            remedy: "the server may greet in clear text: write ftp:// and --security tls",
        },
        _ => tls_failed(site, cause),
    }
}

fn steps(
    site: &Site,
    options: &ConnectOptions,
    peer: Option<IpAddr>,
) -> Result<Steps, ConnectError> {
    let choice = |what, remedy| Err(ConnectError::Choice { what, remedy });
    let level = options.protect;
    let grid = grid_data(site, options)?;
    if level == Some(Level::Integrity) && grid.is_none() {
        let what = "protect: data that is safe but not private needs Grid security";
        return choice(what, "TLS has clear and private");
    }
    let demands = demands(options);
    let explicit = Steps::Explicit(Mechanism::Tls, level.unwrap_or(Level::Private));
    let implicit = Steps::Implicit(level.unwrap_or(Level::Private));
    match (site.scheme, options.security) {
        (Scheme::Http | Scheme::Https, _) => choice(
            "http: web servers have no sessions: they are sources of copies only",
            "write gsiftp://, ftp://, ftps:// or sshftp://",
        ),
        (Scheme::Ssh, Security::Auto | Security::None) if options.identity.is_none() => {
            Ok(Steps::Clear)
        }
        (Scheme::Ssh, _) => choice(
            "security: sshftp:// has the protection of ssh",
            "leave out --security and --cert",
        ),
        (Scheme::Grid, Security::Auto) if options.identity.is_none() => {
            let level = grid.map(|data| data.level).unwrap_or_default();
            Ok(Steps::Explicit(Mechanism::Gssapi, level))
        }
        (Scheme::Grid, _) => choice(
            "security: gsiftp:// has Grid security",
            "leave out --security; --cred names a credential, and not --cert",
        ),
        (Scheme::Ftps, Security::None) => choice(
            "security: none contradicts ftps://",
            "write ftp:// for clear text",
        ),
        (Scheme::Ftp, Security::None) if demands => choice(
            "security: none leaves nothing to protect data or to show a certificate",
            "leave out --protect and --cert, or ask for --security tls",
        ),
        (_, Security::Implicit) => Ok(implicit),
        (Scheme::Ftps, Security::Auto | Security::Tls) if site.port == FTPS_PORT => Ok(implicit),
        (Scheme::Ftps, Security::Auto) | (_, Security::Tls) => Ok(explicit),
        (Scheme::Ftp, Security::None) => Ok(Steps::Clear),
        (Scheme::Ftp, Security::Auto) => {
            let crosses = !peer.is_some_and(|peer| peer.to_canonical().is_loopback());
            let secret = has_password(site) && crosses;
            Ok(if demands || secret {
                explicit
            } else {
                Steps::Clear
            })
        }
    }
}

/// Says whether options besides the choice of protection need TLS.
fn demands(options: &ConnectOptions) -> bool {
    options.protect.unwrap_or_default() > Level::Clear || options.identity.is_some()
}

/// Says whether the login has a password that nobody else may know.
pub(crate) fn has_password(site: &Site) -> bool {
    let (Some(user), Some(password)) = (&site.user, &site.password) else {
        return false;
    };
    let password = password.reveal();
    // RFC 1635: anonymous logins send a mail address, or `guest`.
    let is_public = password.contains('@') || password == "guest" || is_anonymous(password);
    let is_nobody = is_anonymous(user) && is_public;
    !is_nobody && !password.is_empty()
}

#[cfg(test)]
mod tests {
    use ftp_wire::command::Secret;

    use super::*;
    use crate::url::Location;

    const FAR: &str = "192.0.2.1";
    const GSSAPI: Steps = Steps::Explicit(Mechanism::Gssapi, Level::Private);
    const EXPLICIT: Steps = Steps::Explicit(Mechanism::Tls, Level::Private);

    #[track_caller]
    fn chosen(url: &str, peer: &str, options: &ConnectOptions) -> Result<Steps, String> {
        let Ok(Location::Remote(remote)) = Location::parse(url) else {
            panic!("{url}");
        };
        let peer = Some(peer.parse().unwrap());
        steps(&remote.site, options, peer).map_err(|error| error.to_string())
    }

    #[test]
    fn a_password_crosses_no_network_in_clear_unless_told_to() {
        let mut options = ConnectOptions::default();
        for (url, peer, steps) in [
            ("ftp://ann:secret@h/", FAR, EXPLICIT),
            ("ftp://ann:secret@h/", "127.0.0.1", Steps::Clear),
            ("ftp://ann:secret@h/", "::ffff:127.0.0.1", Steps::Clear),
            ("ftp://ann:@h/", FAR, Steps::Clear),
            ("ftp://h/", FAR, Steps::Clear),
            ("ftp://Anonymous:me%40there@h/", FAR, Steps::Clear),
            ("ftp://ftp:guest@h/", FAR, Steps::Clear),
            ("ftp://FTP@h/", FAR, Steps::Clear),
            // The account may be one that is named so.
            ("ftp://ftp:secret@h/", FAR, EXPLICIT),
            ("ftp://ftp:secret@h/", "127.0.0.1", Steps::Clear),
            ("ftps://h/", "127.0.0.1", EXPLICIT),
            ("ftps://h:2811/", FAR, EXPLICIT),
            ("ftps://h:990/", FAR, Steps::Implicit(Level::Private)),
            ("sshftp://ann@h/", FAR, Steps::Clear),
            ("gsiftp://h/", FAR, GSSAPI),
            ("gsiftp://ann:secret@h/", "127.0.0.1", GSSAPI),
        ] {
            assert_eq!(chosen(url, peer, &options), Ok(steps), "{url} at {peer}");
        }
        options.security = Security::None;
        let clear = chosen("ftp://ann:secret@h/", FAR, &options);
        assert_eq!(clear, Ok(Steps::Clear));
        assert!(chosen("ftps://h/", FAR, &options).is_err());
        options.security = Security::Tls;
        assert_eq!(chosen("ftp://h/", "127.0.0.1", &options), Ok(EXPLICIT));
        let implicit = chosen("ftps://h:990/", FAR, &options);
        assert_eq!(implicit, Ok(Steps::Implicit(Level::Private)));
    }

    #[test]
    fn protection_of_data_is_had_or_refused() {
        let mut options = ConnectOptions {
            protect: Some(Level::Clear),
            ..ConnectOptions::default()
        };
        let clear = Ok(Steps::Explicit(Mechanism::Tls, Level::Clear));
        assert_eq!(chosen("ftps://h/", FAR, &options), clear);
        assert_eq!(chosen("ftp://h/", FAR, &options), Ok(Steps::Clear));
        options.protect = Some(Level::Private);
        assert_eq!(chosen("ftp://h/", "127.0.0.1", &options), Ok(EXPLICIT));
        options.security = Security::None;
        assert!(chosen("ftp://h/", FAR, &options).is_err());
        options.security = Security::Auto;
        options.protect = Some(Level::Integrity);
        for url in ["ftp://h/", "ftps://h/"] {
            let told = chosen(url, FAR, &options).unwrap_err();
            assert!(told.contains("needs Grid security"), "{told}");
        }
    }

    /// Data as the login protects it: the identities that are demanded, and the level.
    #[track_caller]
    fn data(url: &str, options: &ConnectOptions) -> Result<Option<DataProtection>, String> {
        let Ok(Location::Remote(remote)) = Location::parse(url) else {
            panic!("{url}");
        };
        grid_data(&remote.site, options).map_err(|error| error.to_string())
    }

    #[test]
    fn grid_security_protects_data_unless_told_not_to() {
        let mut options = ConnectOptions::default();
        let private = Ok(Some(DataProtection::new(Dcau::Own, Level::Private)));
        let nothing = Ok(Some(DataProtection::default()));
        assert_eq!(data("gsiftp://h/", &options), private);
        assert_eq!(data("sshftp://h/", &options), private);
        assert_eq!(data("ftps://h/", &options), Ok(None));
        options.protect = Some(Level::Clear);
        let proven = Ok(Some(DataProtection::new(Dcau::Own, Level::Clear)));
        assert_eq!(data("gsiftp://h/", &options), proven);
        assert_eq!(data("sshftp://h/", &options), nothing);
        options.grid.authentication = Dcau::None;
        assert_eq!(data("gsiftp://h/", &options), nothing);
        for level in [Level::Integrity, Level::Private] {
            options.protect = Some(level);
            for url in ["gsiftp://h/", "sshftp://h/"] {
                assert!(data(url, &options).is_err(), "{url} {level:?}");
            }
        }
    }

    /// Trap 7 of Grid security: such a server would prove that it is the host.
    #[test]
    fn authenticated_data_needs_delegation_or_a_credential_of_the_session() {
        let mut options = ConnectOptions::default();
        options.grid.delegation = Delegation::None;
        let told = data("gsiftp://h/", &options).unwrap_err();
        assert!(told.contains("--data-cred auto"), "{told}");
        options.grid.data_credential = DataCredential::Session;
        assert!(data("gsiftp://h/", &options).is_ok());
        options.grid.data_credential = DataCredential::Auto;
        options.grid.authentication = Dcau::None;
        assert!(data("gsiftp://h/", &options).is_ok());
        assert!(data("sshftp://h/", &options).is_ok());
    }

    #[test]
    fn the_name_of_anonymous_logins_is_no_secret() {
        let site = Site::new("h", 21);
        assert!(!has_password(&site));
        for (user, password, secret) in [
            ("ftp", "x@", false),
            ("ftp", "x", true),
            ("ann", "x@", true),
        ] {
            let site = site.clone().with_account(user, Some(Secret::new(password)));
            assert_eq!(has_password(&site), secret, "{user}");
        }
    }
}
