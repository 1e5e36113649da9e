//! The rules in force, in words: the demands on each kind of login, and the hosts of its data.

use std::net::{IpAddr, Ipv4Addr};

use ftp_proto::security::Level;
use gsi::finding::Finding;

use super::Site;
use crate::config::{Config, Options, SessionReuse, ThirdParty};

const TOPIC: &str = "policy";

/// A host that is neither this one nor of any network of the options.
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(0, 0, 0, 0));

impl Site<'_> {
    pub(super) fn policy(&mut self, config: &Config) {
        let findings = rules(config, self.options);
        self.findings.extend(findings);
    }
}

fn rules(config: &Config, options: &Options) -> Vec<Finding> {
    let policy = &config.policy;
    let demands = policy.requirements.on(ELSEWHERE);
    let data = |level| format!("data connections are {}", at_least(level));
    let mut findings = Vec::new();
    if options.users.is_some() {
        findings.push(passwords(config, demands.users.control));
        findings.push(Finding::ok(
            TOPIC,
            format!("users: their {}", data(demands.users.data)),
        ));
    }
    if let Some(allowed) = options
        .allow_clear_passwords
        .as_ref()
        .filter(|all| !all.is_empty())
    {
        let networks: Vec<_> = allowed.iter().map(ToString::to_string).collect();
        let fact = format!(
            "passwords from {} may cross in clear text",
            networks.join(", ")
        );
        let remedy = "leave out --allow-clear-passwords once all clients there have TLS";
        findings.push(Finding::warn(TOPIC, fact, remedy));
    }
    for rule in options.require_from.iter().flatten() {
        let fact = format!(
            "clients of {}: the control connection is {}, their {}",
            rule.on,
            at_least(rule.demand.control),
            data(rule.demand.data)
        );
        let is_open = options.users.is_some() && rule.demand.control == Level::Clear;
        findings.push(match is_open {
            true => Finding::warn(
                TOPIC,
                fact,
                "--require-from NETWORK=private keeps passwords secret",
            ),
            false => Finding::ok(TOPIC, fact),
        });
    }
    for rule in options.require_user.iter().flatten() {
        let (control, data) = (at_least(rule.demand.control), data(rule.demand.data));
        let fact = format!(
            "{}: the control connection is {control}, their {data}",
            rule.on
        );
        findings.push(Finding::ok(TOPIC, fact));
    }
    if options.anonymous.is_some() {
        let fact = format!(
            "anonymous users: the control connection is {}, their {}",
            at_least(demands.anonymous.control),
            data(demands.anonymous.data)
        );
        findings.push(Finding::ok(TOPIC, fact));
    }
    if policy.grid.is_some() {
        let fact = format!(
            "Grid users: the account is that of the grid-mapfile, the control connection is \
             private, their {}",
            data(demands.users.data)
        );
        findings.push(Finding::ok(TOPIC, fact));
    }
    if let Some(tls) = &policy.tls {
        findings.push(Finding::ok(TOPIC, match tls.reuse {
            SessionReuse::Required => "TLS: every data connection must resume the session",
            SessionReuse::Optional => {
                "TLS: data connections from other hosts than the client's must resume the session"
            }
        }));
    }
    findings.push(third_party(&config.third_party));
    findings
}

fn passwords(config: &Config, control: Level) -> Finding {
    if control == Level::Clear {
        let fact = "passwords from every host may cross in clear text";
        return Finding::warn(TOPIC, fact, "leave out --require-control clear");
    }
    if config.policy.needs_tls() {
        let fact = "users of other hosts cannot log in: passwords need TLS, and there is none";
        let remedy = "name a certificate by --tls-cert, or see --allow-clear-passwords";
        return Finding::warn(TOPIC, fact, remedy);
    }
    let fact = format!(
        "passwords from other hosts: the control connection is {}",
        at_least(control)
    );
    Finding::ok(TOPIC, fact)
}

fn third_party(rule: &ThirdParty) -> Finding {
    let fact = "clear data with other hosts than the client's";
    match rule {
        ThirdParty::Off => Finding::ok(TOPIC, format!("{fact} is refused")),
        ThirdParty::Users => Finding::ok(TOPIC, format!("{fact} is allowed to users")),
        ThirdParty::Networks(networks) => {
            let networks: Vec<_> = networks.iter().map(ToString::to_string).collect();
            Finding::ok(
                TOPIC,
                format!("{fact} is allowed in {}", networks.join(", ")),
            )
        }
        ThirdParty::All => Finding::warn(
            TOPIC,
            format!("{fact} is allowed to anybody, who can reach other hosts through this one"),
            "--third-party users, or the networks of those hosts",
        ),
    }
}

/// The least protection of a channel in words.
fn at_least(level: Level) -> &'static str {
    match level {
        Level::Clear => "in clear text or protected",
        Level::Integrity => "protected against changes or private",
        Level::Private => "private",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Access, Require};

    /// The rules of these options, one a line.
    fn told(change: impl FnOnce(&mut Options)) -> String {
        let folder = tempfile::tempdir().unwrap();
        let users = folder.path().join("users");
        std::fs::write(&users, "ann:*\n").unwrap();
        let mut options = Options {
            users: Some(users),
            ..Options::default()
        };
        change(&mut options);
        let config = Config::check(&options).unwrap();
        let lines = rules(&config, &options);
        lines
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn the_rules_of_each_login_are_told() {
        let plain = told(|_| ());
        for line in [
            "warn  policy: users of other hosts cannot log in: passwords need TLS",
            "ok    policy: users: their data connections are in clear text or protected",
            "ok    policy: clear data with other hosts than the client's is refused",
        ] {
            assert!(plain.contains(line), "no {line} in {plain}");
        }
        let open = told(|options| {
            options.allow_clear_passwords = Some(vec!["192.0.2.0/24".parse().unwrap()]);
            options.anonymous = Some(Access::Ro);
            options.require_anonymous_data = Some(Require::Private);
            options.require_data = Some(Require::Integrity);
            options.third_party = Some(ThirdParty::All);
            let rules = ["198.51.100.0/24=private", "203.0.113.0/24=clear"];
            options.require_from = Some(rules.map(|rule| rule.parse().unwrap()).into());
        });
        for line in [
            "ok    policy: passwords from other hosts: the control connection is private",
            "warn  policy: passwords from 192.0.2.0/24 may cross in clear text; leave out",
            "ok    policy: anonymous users: the control connection is in clear text or protected, \
             their data connections are private",
            "their data connections are protected against changes or private",
            "ok    policy: clients of 198.51.100.0/24: the control connection is private, their",
            "warn  policy: clients of 203.0.113.0/24: the control connection is in clear text or",
            "warn  policy: clear data with other hosts than the client's is allowed to anybody",
        ] {
            assert!(open.contains(line), "no {line} in {open}");
        }
        let clear = told(|options| options.require_control = Some(Require::Clear));
        let line = "warn  policy: passwords from every host may cross in clear text";
        assert!(clear.contains(line), "{clear}");
    }
}
