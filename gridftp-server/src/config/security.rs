//! The options of protection: TLS, and the demands on both channels.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use ftp_proto::security::{Demand, Demands, Level};
use gridftp_data::Network;
use serde::Deserialize;
use xio::tls::{Identity, Roots, Tls, TlsServer};

use super::{BadConfig, Options};
use crate::certificates::CertificateMap;

/// The application protocol of FTP over TLS (RFC 7301).
const ALPN: &str = "ftp";

/// Hosts other than a client's that clear data may be exchanged with.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(try_from = "String")]
#[non_exhaustive]
pub enum ThirdParty {
    /// None.
    #[default]
    Off,
    /// All, for users with a password.
    Users,
    /// All, for anonymous users too.
    All,
    /// Those of these networks, for everybody.
    Networks(Arc<[Network]>),
}

impl std::str::FromStr for ThirdParty {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "off" => Self::Off,
            "users" => Self::Users,
            "all" | "anonymous" => Self::All,
            networks => {
                let networks: Result<Arc<[Network]>, _> =
                    networks.split(',').map(str::parse).collect();
                Self::Networks(networks.map_err(
                    |_| "it takes off, users, anonymous, all, or networks such as 192.0.2.0/24",
                )?)
            }
        })
    }
}

impl TryFrom<String> for ThirdParty {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// A network, in the form of flags and of the file.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct NetworkOption(Network);

impl std::fmt::Display for NetworkOption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for NetworkOption {
    type Err = gridftp_data::BadNetwork;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl TryFrom<String> for NetworkOption {
    type Error = gridftp_data::BadNetwork;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// Protection of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Require {
    /// None.
    Clear,
    /// Against changes.
    Integrity,
    /// Against readers too.
    Private,
}

impl From<Require> for Level {
    fn from(require: Require) -> Self {
        match require {
            Require::Clear => Self::Clear,
            Require::Integrity => Self::Integrity,
            Require::Private => Self::Private,
        }
    }
}

/// The demands on the logins of a network: `NETWORK=LEVEL`, or `NETWORK=CONTROL/DATA`.
pub type NetworkDemand = DemandOn<Network>;

/// The demands on the logins of a user: `NAME=LEVEL`, or `NAME=CONTROL/DATA`.
pub type UserDemand = DemandOn<String>;

/// The demands on both channels for some logins.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "String", bound = "T: std::str::FromStr")]
pub struct DemandOn<T> {
    pub(crate) on: T,
    pub(crate) demand: Demand,
}

impl<T: std::str::FromStr> std::str::FromStr for DemandOn<T> {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (on, levels) = text.split_once('=')?;
            let (control, data) = levels.split_once('/').unwrap_or((levels, levels));
            let level = |name| Require::from_str(name, false).ok().map(Level::from);
            Some(Self {
                on: on.parse().ok()?,
                demand: Demand::new(level(control)?, level(data)?),
            })
        };
        parse().ok_or(
            "it takes a network or a name, and LEVEL or CONTROL/DATA, as 10.0.0.0/8=private/clear",
        )
    }
}

impl<T: std::str::FromStr> TryFrom<String> for DemandOn<T> {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// The demand on data connections to resume the TLS session of their control connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SessionReuse {
    /// Always.
    Required,
    /// From other hosts than the client's, and in TLS 1.2 once the client has done it.
    #[default]
    Optional,
}

/// TLS of the server.
#[derive(Debug, Clone)]
pub(crate) struct TlsPolicy {
    pub(crate) server: TlsServer,
    pub(crate) map: CertificateMap,
    pub(crate) reuse: SessionReuse,
}

/// The demands on both channels, by the client's address.
#[derive(Debug, Clone)]
pub(crate) struct Requirements {
    /// Of logins with a password; `None` for privacy except from loopback.
    control: Option<Level>,
    data: Level,
    /// Of anonymous logins; `None` where there are none, and the names are those of users.
    anonymous: Option<Demand>,
    clear_passwords: Vec<Network>,
    /// Of every login from a network, in place of all others; the first that matches counts.
    networks: Vec<NetworkDemand>,
    /// Of users by name, in addition.
    names: Arc<BTreeMap<String, Demand>>,
}

impl Requirements {
    pub(super) fn new(options: &Options) -> Self {
        let level = |require: Option<Require>| require.map_or(Level::Clear, Level::from);
        let blocks = options.allow_clear_passwords.iter().flatten();
        let names = options.require_user.iter().flatten();
        Self {
            control: options.require_control.map(Level::from),
            data: level(options.require_data),
            anonymous: options.anonymous.map(|_| {
                Demand::new(
                    level(options.require_anonymous_control),
                    level(options.require_anonymous_data),
                )
            }),
            clear_passwords: blocks.map(|block| block.0).collect(),
            networks: options.require_from.clone().unwrap_or_default(),
            names: Arc::new(names.map(|rule| (rule.on.clone(), rule.demand)).collect()),
        }
    }

    /// Says whether users of some other host may log in on a clear channel.
    pub(super) fn allow_clear(&self) -> bool {
        self.control == Some(Level::Clear)
            || !self.clear_passwords.is_empty()
            || self
                .networks
                .iter()
                .any(|rule| rule.demand.control == Level::Clear)
    }

    /// The demands on a client.
    pub(crate) fn on(&self, peer: IpAddr) -> Demands {
        self.by_kind(peer).with_names(Arc::clone(&self.names))
    }

    fn by_kind(&self, peer: IpAddr) -> Demands {
        if let Some(rule) = self.networks.iter().find(|rule| rule.on.contains(peer)) {
            return Demands::new(rule.demand, rule.demand);
        }
        let allowed = self.clear_passwords.iter().any(|net| net.contains(peer));
        let control = match self.control {
            _ if allowed => Level::Clear,
            Some(level) => level,
            None => Demands::of_peer(peer).users.control,
        };
        let users = Demand::new(control, self.data);
        Demands::new(users, self.anonymous.unwrap_or(users))
    }
}

impl TlsPolicy {
    /// Reads the certificate, its key, the authorities of clients and the map; `None` without
    /// `tls-cert`.
    ///
    /// # Errors
    /// [`BadConfig`] for a file at fault, or an option without the one it needs.
    pub(super) fn load(options: &Options) -> Result<Option<Arc<Self>>, BadConfig> {
        let needs = |key, needed| Err(BadConfig::Needs { key, needed });
        let Some(cert) = &options.tls_cert else {
            return match options {
                Options {
                    tls_key: Some(_), ..
                } => needs("tls-key", "tls-cert"),
                Options {
                    tls_port: Some(_), ..
                } => needs("tls-port", "tls-cert"),
                Options {
                    tls_client_ca: Some(_),
                    ..
                } => needs("tls-client-ca", "tls-cert"),
                Options {
                    tls_map: Some(_), ..
                } => needs("tls-map", "tls-cert"),
                _ => Ok(None),
            };
        };
        if options.tls_map.is_some() && options.tls_client_ca.is_none() {
            return needs("tls-map", "tls-client-ca");
        }
        let at_fault = |key: &'static str| move |why| BadConfig::Tls { key, why };
        // Both may stand in one file.
        let key = options.tls_key.as_ref().unwrap_or(cert);
        let identity = Identity::pem_files(cert, key).map_err(at_fault("tls-cert"))?;
        let mut builder = Tls::server(identity).alpn([ALPN]);
        if let Some(authorities) = &options.tls_client_ca {
            let roots = Roots::pem_file(authorities).map_err(at_fault("tls-client-ca"))?;
            builder = builder.request_client_certificates(roots);
        }
        Ok(Some(Arc::new(Self {
            server: builder.build_server().map_err(at_fault("tls-cert"))?,
            map: read_map(options.tls_map.as_deref())?,
            reuse: options.tls_session_reuse.unwrap_or_default(),
        })))
    }
}

fn read_map(path: Option<&Path>) -> Result<CertificateMap, BadConfig> {
    let Some(path) = path else {
        return Ok(CertificateMap::default());
    };
    let read = |path: &Path| std::fs::read_to_string(path);
    let text = read(path).map_err(|error| BadConfig::Read(PathBuf::from(path), error))?;
    CertificateMap::parse(&text).map_err(|line| BadConfig::Map {
        path: path.into(),
        line,
    })
}

#[cfg(test)]
mod tests {
    use ftp_proto::security::LoginKind;

    use super::*;
    use crate::config::Access;

    fn demands(peer: &str, change: impl FnOnce(&mut Options)) -> Demands {
        let mut options = Options::default();
        change(&mut options);
        Requirements::new(&options).on(peer.parse().unwrap())
    }

    #[test]
    fn passwords_need_privacy_except_where_the_configuration_says_so() {
        let control = |peer: &str, change: fn(&mut Options)| demands(peer, change).users.control;
        let block = |text: &str| Some(vec![text.parse().unwrap()]);
        assert_eq!(control("192.0.2.1", |_| ()), Level::Private);
        assert_eq!(control("::1", |_| ()), Level::Clear);
        let strict = |o: &mut Options| o.require_control = Some(Require::Private);
        assert_eq!(control("::1", strict), Level::Private);
        let allowed = demands("192.0.2.1", |o| {
            strict(o);
            o.allow_clear_passwords = block("192.0.2.0/24");
        });
        assert_eq!(allowed.users.control, Level::Clear);
        let all = demands("192.0.2.1", |o| {
            o.require_data = Some(Require::Integrity);
            o.require_anonymous_control = Some(Require::Private);
            o.anonymous = Some(Access::Ro);
        });
        assert_eq!(all.users.data, Level::Integrity);
        assert_eq!(all.anonymous.control, Level::Private);
        assert_eq!(all.anonymous.data, Level::Clear);
        // Without anonymous logins the name may be that of an account with a password.
        let of_ftp = |o: fn(&mut Options)| {
            demands("192.0.2.1", o)
                .of(LoginKind::Anonymous, "ftp")
                .control
        };
        assert_eq!(of_ftp(|_| ()), Level::Private);
        assert_eq!(of_ftp(|o| o.anonymous = Some(Access::Ro)), Level::Clear);
    }

    #[test]
    fn a_user_may_have_demands_of_its_own() {
        let demands = demands("192.0.2.1", |o| {
            let rules = ["alice=private", "bob=clear/integrity"];
            o.require_user = Some(rules.map(|rule| rule.parse().unwrap()).into());
            o.require_control = Some(Require::Integrity);
        });
        for (name, control, data) in [
            ("alice", Level::Private, Level::Private),
            ("bob", Level::Integrity, Level::Integrity),
            ("carol", Level::Integrity, Level::Clear),
        ] {
            let demand = demands.of(LoginKind::User, name);
            assert_eq!(demand, Demand::new(control, data), "{name}");
        }
    }

    #[test]
    fn a_network_has_demands_of_its_own() {
        let demands = |peer: &str| {
            demands(peer, |o| {
                let rules = [
                    "192.0.2.9=clear",
                    "192.0.2.0/24=private/integrity",
                    "::/0=private",
                ];
                o.require_from = Some(rules.map(|rule| rule.parse().unwrap()).into());
                o.require_control = Some(Require::Integrity);
                o.allow_clear_passwords = Some(vec!["192.0.2.7".parse().unwrap()]);
                o.anonymous = Some(Access::Ro);
            })
        };
        let all = |control, data| {
            let demand = Demand::new(control, data);
            Demands::new(demand, demand)
        };
        assert_eq!(demands("192.0.2.9"), all(Level::Clear, Level::Clear));
        assert_eq!(demands("192.0.2.7"), all(Level::Private, Level::Integrity));
        assert_eq!(demands("2001:db8::1"), all(Level::Private, Level::Private));
        let elsewhere = demands("198.51.100.1");
        assert_eq!(elsewhere.users.control, Level::Integrity);
        assert_eq!(elsewhere.anonymous, Demand::default());
        for bad in [
            "192.0.2.0/24",
            "192.0.2.0/24=",
            "x=clear",
            "::/0=clear/",
            "::/0=P",
        ] {
            assert!(bad.parse::<NetworkDemand>().is_err(), "{bad}");
        }
    }

    #[test]
    fn third_parties_are_kinds_of_users_or_networks() {
        for (text, wanted) in [
            ("off", ThirdParty::Off),
            ("users", ThirdParty::Users),
            ("anonymous", ThirdParty::All),
            ("all", ThirdParty::All),
        ] {
            assert_eq!(text.parse(), Ok(wanted));
        }
        let networks: ThirdParty = "192.0.2.0/24,2001:db8::/32".parse().unwrap();
        assert!(matches!(networks, ThirdParty::Networks(list) if list.len() == 2));
        assert!("everybody".parse::<ThirdParty>().is_err());
    }

    #[test]
    fn options_of_tls_need_a_certificate() {
        let refused = |change: fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            TlsPolicy::load(&options).unwrap_err().to_string()
        };
        let said = refused(|o| o.tls_port = Some(990));
        assert_eq!(said, "config: tls-port needs tls-cert");
        let said = refused(|o| o.tls_cert = Some("/nonexistent".into()));
        assert_eq!(said, "config: tls-cert");
        assert!(TlsPolicy::load(&Options::default()).unwrap().is_none());
    }
}
