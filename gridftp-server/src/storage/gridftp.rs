//! `gridftp`: the options of a storage that is another server.

use std::sync::Arc;
use std::time::Duration;

use ftp_wire::command::{Dcau, Mode};
use gridftp_dsi::DynDsi;
use gridftp_dsi_gridftp::options::{Level, Security};
use gridftp_dsi_gridftp::{Config, Gateway, words};
use xio::{BadValue, ByteSize, Entry, Error, ErrorKind, Operation, Options as _, Result, Setting};

use super::Defaults;

xio::options! {
    /// Options of another server.
    pub(super) struct GatewayOptions for "gridftp" {
        /// File or directory of the authorities of TLS servers; those of the system by default.
        ca: Option<String> = None, "ca", Setting::new().takes("a path", &["/etc/ssl/lab.pem"]).local();
        /// File with a certificate and its key, for TLS servers that ask for one.
        cert: Option<String> = None, "cert", Setting::new().takes("a path", &["/etc/gridftp/me.pem"]).local();
        /// Longest wait for a connection, for the login and for a free session.
        connect_timeout: Duration = Duration::from_secs(10), "connect_timeout", Setting::new().local();
        /// File of the credential for users without a delegated one.
        cred: Option<String> = None, "cred", Setting::new().takes("a path", &["/etc/gridftp/service.pem"]).local();
        /// Identity that both ends of a data connection demand of each other, with Grid security.
        dcau: Dcau = Dcau::Own, "dcau",
            Setting::with(
                "self, none or a subject",
                &["self", "none", "/O=Grid/CN=Alice"],
                |value| words::dcau(value.text()).ok_or(BadValue),
                |peer| Some(words::of_dcau(peer)),
            ).local();
        /// Whether users act there with the credential that they delegated.
        delegated: bool = true, "delegated", Setting::new().local();
        /// Longest wait for the word that the server has all of an upload.
        end_timeout: Duration = Duration::from_secs(300), "end_timeout", Setting::new().local();
        /// Time after which an idle session is closed.
        idle: Duration = Duration::from_secs(60), "idle", Setting::new().local();
        /// Age at which the hidden file of an upload that nobody continued is removed.
        keep: Duration = Duration::from_secs(7 * 24 * 3600), "keep", Setting::new().local();
        /// Transmission mode of the data.
        mode: Mode = Mode::Stream, "mode",
            Setting::with(
                "S or E",
                &["S", "E"],
                |value| words::mode(value.text()).ok_or(BadValue),
                |mode| Some(words::of_mode(*mode).to_owned()),
            ).local();
        /// Name of this gateway in those of its hidden files; that of the host by default.
        name: Option<String> = None, "name", Setting::new().takes("a name", &["north"]).local();
        /// File with the account, in the form of .netrc; anonymous by default.
        netrc: Option<String> = None, "netrc", Setting::new().takes("a path", &["/etc/gridftp/upstream"]).local();
        /// Protection of data; private by default where the control connection is protected.
        protect: Option<Level> = None, "protect",
            Setting::with(
                "clear, safe or private",
                &["clear", "safe", "private"],
                |value| words::level(value.text()).map(Some).ok_or(BadValue),
                |level| Some(words::of_level((*level)?)?.to_owned()),
            ).local();
        /// Longest wait for the reply to a command that moves no data.
        reply_timeout: Duration = Duration::from_secs(60), "reply_timeout", Setting::new().local();
        /// Protection of control connections; none allows passwords in clear text.
        security: Security = Security::Auto, "security",
            Setting::with(
                "auto, none, tls or implicit",
                &["auto", "none", "tls", "implicit"],
                |value| words::security(value.text()).ok_or(BadValue),
                |security| Some(words::of_security(*security)?.to_owned()),
            ).local();
        /// Most sessions at a time with one credential.
        sessions: u16 = 32, "sessions", Setting::new().only(|n| *n > 0).local();
        /// Longest time in which a transfer may move nothing.
        stall: Duration = Duration::from_secs(60), "stall", Setting::new().local();
        /// Number of data connections of a file, with mode=E.
        streams: u32 = 1, "streams",
            Setting::new()
                .takes("a number, 1 to 64", &["1", "64"])
                .only(|streams| (1..=64).contains(streams))
                .local();
        /// Subject of the server's certificate, where it is not for the host of the URL.
        subject: Option<String> = None, "subject", Setting::new().takes("a subject", &["/O=Grid/CN=dtn1"]).local();
        /// TCP buffer of data connections at both ends; the kernels choose by default.
        tcpbuffer: Option<ByteSize> = None, "tcpbuffer", Setting::new().local();
        /// The server and a directory there.
        url: Option<String> = None, "url", Setting::new().takes("a URL", &["gsiftp://dtn1.example.org/data"]).local();
    }
}

fn bad(fact: impl Into<String>) -> Error {
    Error::new(
        ErrorKind::BadOption,
        "gridftp",
        Operation::Plan,
        fact.into(),
    )
}

/// The settings of an entry.
pub(super) fn config(entry: &Entry) -> Result<Config> {
    let options = GatewayOptions::from_entry(entry)?;
    let url = options
        .url
        .ok_or_else(|| bad("the storage needs its url, as url=gsiftp://dtn1.example.org/data"))?;
    let mut config = Config::new(url);
    config.ca = options.ca.map(Into::into);
    config.cert = options.cert.map(Into::into);
    config.cred = options.cred.map(Into::into);
    config.netrc = options.netrc.map(Into::into);
    config.delegated = options.delegated;
    config.dcau = options.dcau;
    (config.keep, config.name) = (options.keep, options.name);
    config.protect = options.protect;
    config.security = options.security;
    config.subject = options.subject;
    (config.mode, config.streams) = (options.mode, options.streams);
    config.tcp_buffer = options.tcpbuffer.map(ByteSize::bytes);
    config.sessions = options.sessions.into();
    config.idle = options.idle;
    config.connect_timeout = options.connect_timeout;
    config.reply_timeout = options.reply_timeout;
    config.stall = options.stall;
    config.end_timeout = options.end_timeout;
    config
        .check()
        .map_err(|error| bad(crate::error::chain(&error)))?;
    Ok(config)
}

/// Opens the storage of an entry.
pub(super) fn open(entry: &Entry, _: &Defaults) -> gridftp_dsi::Result<Arc<dyn DynDsi>> {
    let config = config(entry).map_err(|error| {
        gridftp_dsi::Error::new(gridftp_dsi::ErrorKind::BadName, "open gateway").because(error)
    })?;
    Ok(Arc::new(Gateway::open(&config)?))
}

#[cfg(test)]
mod tests {
    use xio::Plan;

    use super::*;

    #[test]
    fn options_reach_the_gateway() {
        let text = "gridftp:url=gsiftp://h:1/d;cred=/c;dcau=none;protect=safe;mode=E;streams=4;\
                    sessions=2;idle=5s;security=tls;delegated=no;subject=/O=Grid;keep=60s;name=north";
        let plan: Plan = text.parse().unwrap();
        let config = config(&plan.entries()[0]).unwrap();
        assert_eq!(config.url, "gsiftp://h:1/d");
        assert_eq!(config.cred.as_deref(), Some("/c".as_ref()));
        assert_eq!(
            (config.dcau, config.protect),
            (Dcau::None, Some(Level::Integrity))
        );
        assert_eq!((config.mode, config.streams), (Mode::Extended, 4));
        assert_eq!((config.sessions, config.idle), (2, Duration::from_secs(5)));
        assert_eq!(config.security, Security::Tls);
        assert_eq!(
            (config.keep, config.name.as_deref()),
            (Duration::from_secs(60), Some("north"))
        );
        assert!(!config.delegated);
        assert_eq!(config.subject.as_deref(), Some("/O=Grid"));
    }
}
