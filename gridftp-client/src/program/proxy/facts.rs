//! `Facts`: the facts about a proxy in a file, as `grid-proxy-info` words them, or as JSON.

use std::path::Path;

use ftp_wire::facts::TimeVal;
use gsi::certificate::{Kind, ProxyFormat, ProxyRights};
use gsi::credential::Credential;
use rustls_pki_types::UnixTime;
use serde_json::{Value, json};

/// A credential in a file at some time.
pub(super) struct Facts<'a> {
    pub(super) credential: &'a Credential,
    pub(super) path: &'a Path,
    pub(super) now: UnixTime,
}

impl Facts<'_> {
    /// Seconds until some certificate of the chain expires; 0 when one has.
    pub(super) fn left(&self) -> u64 {
        let end = self.credential.not_after().as_secs();
        end.saturating_sub(self.now.as_secs())
    }

    /// The size of the key in bits.
    pub(super) fn strength(&self) -> usize {
        self.credential.certificate().key_bits()
    }

    /// The instant of expiry, as `2026-11-23T09:44:48Z`.
    pub(super) fn expiry(&self) -> String {
        instant(self.credential.not_after())
    }

    /// The type, in the words of `grid-proxy-info`.
    pub(super) fn kind(&self) -> String {
        let proxy = match self.credential.kind() {
            Kind::Proxy(proxy) => proxy,
            Kind::Authority { .. } => return "certificate authority".to_owned(),
            _ => return "end entity credential".to_owned(),
        };
        let rights = match proxy.rights {
            ProxyRights::Full => "impersonation",
            other => rights(other),
        };
        match proxy.format {
            ProxyFormat::Draft => format!("Proxy draft (pre-RFC) compliant {rights} proxy"),
            ProxyFormat::Legacy => format!("{} legacy globus proxy", self::rights(proxy.rights)),
            _ => format!("RFC 3820 compliant {rights} proxy"),
        }
    }

    /// Hours, minutes and seconds until the expiry, and the days if there are any.
    pub(super) fn time_left(&self) -> String {
        let left = self.left();
        let (hours, minutes, seconds) = (left / 3600, left / 60 % 60, left % 60);
        let mut text = format!("{hours}:{minutes:02}:{seconds:02}");
        if hours >= 24 {
            // Of whole hours, rounded.
            let tenths = (hours * 10 + 12) / 24;
            text.push_str(&format!("  ({}.{} days)", tenths / 10, tenths % 10));
        }
        text
    }

    /// All facts, a line each.
    pub(super) fn text(&self) -> String {
        let credential = self.credential;
        [
            format!("subject  : {}", credential.subject()),
            format!("issuer   : {}", credential.certificate().issuer()),
            format!("identity : {}", credential.identity()),
            format!("type     : {}", self.kind()),
            format!("strength : {} bits", self.strength()),
            format!("path     : {}", self.path.display()),
            format!("timeleft : {}", self.time_left()),
        ]
        .join("\n")
    }

    /// All facts in an object.
    pub(super) fn json(&self) -> Value {
        let credential = self.credential;
        let proxy = credential.certificate().proxy();
        json!({
            "event": "proxy",
            "subject": credential.subject().to_string(),
            "issuer": credential.certificate().issuer().to_string(),
            "identity": credential.identity().to_string(),
            "type": self.kind(),
            "format": proxy.map(|proxy| format(proxy.format)),
            "rights": proxy.map(|proxy| rights(proxy.rights)),
            "path_length": proxy.and_then(|proxy| proxy.path_length),
            "strength": self.strength(),
            "path": self.path.to_string_lossy(),
            "expires": self.expiry(),
            "timeleft": self.left(),
        })
    }
}

fn format(format: ProxyFormat) -> &'static str {
    match format {
        ProxyFormat::Draft => "draft",
        ProxyFormat::Legacy => "legacy",
        _ => "rfc",
    }
}

fn rights(rights: ProxyRights) -> &'static str {
    match rights {
        ProxyRights::Full => "full",
        ProxyRights::Limited => "limited",
        ProxyRights::Independent => "independent",
        _ => "restricted",
    }
}

/// An instant as RFC 3339 writes it.
fn instant(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let digits = TimeVal::new(seconds, 0).to_string();
    let (date, clock) = digits.split_at_checked(8).unwrap_or((&digits, ""));
    let pairs = |text: &str, mark: &str| {
        let pairs: Vec<&str> = (0..text.len())
            .step_by(2)
            .filter_map(|at| text.get(at..at + 2))
            .collect();
        pairs.join(mark)
    };
    let (year, day) = date.split_at_checked(4).unwrap_or((date, ""));
    format!("{year}-{}T{}Z", pairs(day, "-"), pairs(clock, ":"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn instants_are_those_of_rfc_3339() {
        let at = |seconds| instant(UnixTime::since_unix_epoch(Duration::from_secs(seconds)));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(1_795_427_088), "2026-11-23T09:44:48Z");
    }
}
