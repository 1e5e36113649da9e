//! The environment variables of `globus-url-copy`, each with its effect or the reason of its refusal.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use gridftp_client::options::{ConnectOptions, PortRange};

/// Longest time to look up the name of this host.
const LOOK_UP: Duration = Duration::from_secs(30);

/// The choices of the environment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Environment {
    /// The host to tell servers that connect to this end, with the variable that names it.
    host: Option<(&'static str, String)>,
    /// Ports to connect from.
    source_ports: Option<PortRange>,
    /// Whether the source listens for data connections.
    pub(super) source_listens: bool,
    /// Whether servers connect to this end for downloads in MODE S.
    pub(super) no_passive: bool,
    /// The program to start behind `ssh`.
    pub(super) remote_program: Option<String>,
    /// Longest time without a byte; 0 for none.
    pub(super) stall: Option<Duration>,
}

impl Environment {
    /// Reads the variables. An error names the variable, and why it cannot be honoured.
    pub(super) fn read(
        variable: impl Fn(&'static str) -> Option<OsString>,
    ) -> Result<Self, String> {
        let text = |name: &'static str| {
            let value = variable(name).filter(|value| !value.is_empty());
            let value = value.map(OsString::into_string).transpose();
            value.map_err(|_| format!("{name}: it is no text"))
        };
        if text("GLOBUS_DOMAIN_NAME")?.is_some() {
            let why = "cannot be honoured: servers are told addresses; see GLOBUS_HOSTNAME";
            return Err(format!("GLOBUS_DOMAIN_NAME: {why}"));
        }
        let mut it = Self::default();
        for name in ["GLOBUS_FTP_CLIENT_DATA_IP", "GLOBUS_HOSTNAME"] {
            let host = text(name)?.map(|host| (name, host));
            it.host = it.host.or(host);
        }
        let name = "GLOBUS_TCP_SOURCE_RANGE";
        if let Some(range) = text(name)? {
            let ports = range.trim().replace(' ', ",").parse::<PortRange>();
            let bad = |_| format!("{name}: {range}: write a range of ports, as 50000,51000");
            it.source_ports = Some(ports.map_err(bad)?);
        }
        it.source_listens = text("GLOBUS_FTP_CLIENT_SOURCE_PASV")?.is_some();
        it.no_passive = text("GLOBUS_FTP_CLIENT_NO_SERVER_PASV")?.is_some();
        let name = "GLOBUS_REMOTE_SSHFTP";
        if let Some(program) = text(name)? {
            // The word is added anyway.
            let words = program.trim();
            let alone = words.strip_suffix(" --stdio").unwrap_or(words).trim_end();
            let is_one = !alone.is_empty() && !alone.contains(char::is_whitespace);
            if !is_one || alone.starts_with('-') {
                let why = "cannot be honoured: write one program without arguments";
                return Err(format!("{name}: {program}: {why}"));
            }
            it.remote_program = Some(alone.to_owned());
        }
        let name = "GUC_STALL_TIMEOUT";
        if let Some(seconds) = text(name)? {
            let number = seconds.trim().parse::<u64>();
            let number = number.map_err(|_| format!("{name}: {seconds}: is no number"))?;
            it.stall = Some(Duration::from_secs(number));
        }
        Ok(it)
    }

    /// Makes the choices for which there are no flags; looks up the host.
    pub(super) async fn choose(&self, options: &mut ConnectOptions) -> anyhow::Result<()> {
        options.source_ports = self.source_ports;
        if let Some((name, host)) = &self.host {
            let address = address(host).await;
            options.data_address = Some(address.with_context(|| format!("{name}: {host}"))?);
        }
        Ok(())
    }
}

/// The address of a host; of several the first of IPv4, which every server takes.
async fn address(host: &str) -> anyhow::Result<IpAddr> {
    if let Ok(address) = host.parse() {
        return Ok(address);
    }
    let looked_up = tokio::time::timeout(LOOK_UP, tokio::net::lookup_host((host, 0)));
    let mut found: Vec<SocketAddr> = looked_up.await.context("looked up in vain")??.collect();
    found.sort_by_key(|at| !at.is_ipv4());
    let first = found.first();
    first.map(SocketAddr::ip).context("it has no address")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<Environment, String> {
        Environment::read(|name| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn variables_have_an_effect() {
        assert_eq!(read(&[]), Ok(Environment::default()));
        assert_eq!(read(&[("GLOBUS_HOSTNAME", "")]), Ok(Environment::default()));
        let all = read(&[
            ("GLOBUS_HOSTNAME", "gate.example"),
            ("GLOBUS_FTP_CLIENT_DATA_IP", "192.0.2.7"),
            ("GLOBUS_TCP_SOURCE_RANGE", "50000,50010"),
            ("GLOBUS_FTP_CLIENT_SOURCE_PASV", "1"),
            ("GLOBUS_FTP_CLIENT_NO_SERVER_PASV", "1"),
            ("GLOBUS_REMOTE_SSHFTP", "/opt/gridftp-server --stdio"),
            ("GUC_STALL_TIMEOUT", "7"),
        ]);
        let expected = Environment {
            host: Some(("GLOBUS_FTP_CLIENT_DATA_IP", "192.0.2.7".to_owned())),
            source_ports: Some("50000-50010".parse().unwrap()),
            source_listens: true,
            no_passive: true,
            remote_program: Some("/opt/gridftp-server".to_owned()),
            stall: Some(Duration::from_secs(7)),
        };
        assert_eq!(all, Ok(expected));
    }

    #[test]
    fn variables_that_cannot_be_honoured_are_named() {
        for (name, value) in [
            ("GLOBUS_DOMAIN_NAME", "example.org"),
            ("GLOBUS_TCP_SOURCE_RANGE", "many"),
            ("GLOBUS_REMOTE_SSHFTP", "/opt/sshftp -x"),
            ("GLOBUS_REMOTE_SSHFTP", "--stdio"),
            ("GUC_STALL_TIMEOUT", "soon"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.starts_with(name), "{error}");
        }
    }

    #[tokio::test]
    async fn a_host_has_an_address() {
        let mut options = ConnectOptions::default();
        let named = read(&[("GLOBUS_HOSTNAME", "192.0.2.9")]).unwrap();
        named.choose(&mut options).await.unwrap();
        assert_eq!(options.data_address, Some(IpAddr::from([192, 0, 2, 9])));
    }
}
