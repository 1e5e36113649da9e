//! `Finding`: a fact about a set-up with its verdict and its remedy, as a line or an object.

use std::fmt;
use std::time::Duration;

use rustls::pki_types::UnixTime;
use serde::Serialize;

use crate::certificate::{Certificate, Kind, ProxyRights};
use crate::credential::Credential;
use crate::revocation::RevocationList;

/// Time before its end in which a certificate is to be renewed.
pub const RENEWAL: Duration = Duration::from_secs(30 * DAY);

/// Time before its end in which a proxy is to be replaced.
const REPLACEMENT: Duration = Duration::from_secs(3600);

/// Time before its end in which a revocation list is to be replaced.
const FETCH: Duration = Duration::from_secs(DAY);

const DAY: u64 = 24 * 3600;

/// The meaning of a fact for whoever keeps the set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Verdict {
    /// It is as it should be.
    Ok,
    /// It could not be examined for want of something before it.
    Skip,
    /// It works, and is to be looked at.
    Warn,
    /// Something does not work.
    Fail,
}

/// A fact, its verdict, and the remedy where there is something to mend.
///
/// Prints as one line, `FAIL  tls: certificate cert.pem: /CN=lab, expired 3 days ago; renew it`;
/// serializes as an object with the fields `verdict`, `topic`, `fact` and `remedy`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The verdict.
    pub verdict: Verdict,
    /// The part of the set-up, in one word.
    pub topic: &'static str,
    /// The fact.
    pub fact: String,
    /// The remedy.
    pub remedy: Option<String>,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Skip => "skip",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
        })
    }
}

impl Finding {
    fn new(verdict: Verdict, topic: &'static str, fact: String, remedy: Option<String>) -> Self {
        // Text of peers and of files stays on its line.
        let one_line = |text: String| match text.contains(char::is_control) {
            true => text.replace(char::is_control, "?"),
            false => text,
        };
        Self {
            verdict,
            topic,
            fact: one_line(fact),
            remedy: remedy.map(one_line).filter(|remedy| !remedy.is_empty()),
        }
    }

    /// A fact that is as it should be.
    pub fn ok(topic: &'static str, fact: impl Into<String>) -> Self {
        Self::new(Verdict::Ok, topic, fact.into(), None)
    }

    /// A fact that could not be examined.
    pub fn skip(topic: &'static str, fact: impl Into<String>) -> Self {
        Self::new(Verdict::Skip, topic, fact.into(), None)
    }

    /// A fact to be looked at.
    pub fn warn(topic: &'static str, fact: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Verdict::Warn, topic, fact.into(), Some(remedy.into()))
    }

    /// A fact that is a fault.
    pub fn fail(topic: &'static str, fact: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Verdict::Fail, topic, fact.into(), Some(remedy.into()))
    }

    /// The fault that an error tells, `fact; remedy` or a fact alone; then `otherwise` is the
    /// remedy.
    pub fn error(topic: &'static str, error: &str, otherwise: &str) -> Self {
        match error.split_once("; ") {
            Some((fact, remedy)) => Self::fail(topic, fact, remedy),
            None => Self::fail(topic, error, otherwise),
        }
    }

    /// Judges the dates of a certificate, which is to be renewed for the time `soon` before its end.
    pub fn certificate(
        topic: &'static str,
        name: &str,
        certificate: &Certificate,
        now: UnixTime,
        soon: Duration,
    ) -> Self {
        let (verdict, state) =
            validity(certificate.not_before(), certificate.not_after(), now, soon);
        let remedy = match verdict {
            Verdict::Ok => None,
            _ if now < certificate.not_before() => Some("set the clock, or wait until then"),
            Verdict::Warn => Some("renew it before then"),
            _ => Some("renew it"),
        };
        let fact = format!("{name}: {}, {state}", certificate.subject());
        Self::new(verdict, topic, fact, remedy.map(str::to_owned))
    }

    /// Judges the dates of a credential, and tells its kind and its identity.
    pub fn credential(
        topic: &'static str,
        name: &str,
        credential: &Credential,
        now: UnixTime,
    ) -> Self {
        let (kind, soon) = kind(credential.kind());
        let own = credential.certificate();
        let (verdict, state) = validity(own.not_before(), credential.not_after(), now, soon);
        let remedy = match verdict {
            Verdict::Ok => None,
            _ if now < own.not_before() => Some("set the clock, or wait until then"),
            _ if own.proxy().is_some() => Some("make a new one with `gridftp-cp proxy init`"),
            Verdict::Warn => Some("renew it before then"),
            _ => Some("renew it"),
        };
        let fact = format!("{name}: {kind} of {}, {state}", credential.identity());
        Self::new(verdict, topic, fact, remedy.map(str::to_owned))
    }

    /// Judges the age of a revocation list.
    pub fn revocations(
        topic: &'static str,
        name: &str,
        list: &RevocationList,
        now: UnixTime,
    ) -> Self {
        let end = list.next_update();
        let last = end.unwrap_or_else(|| UnixTime::since_unix_epoch(Duration::MAX));
        let (verdict, state) = validity(list.this_update(), last, now, FETCH);
        let state = match (verdict, end) {
            (Verdict::Ok, None) => "without an end".to_owned(),
            _ => state,
        };
        let remedy = match verdict {
            Verdict::Ok => None,
            _ if now < list.this_update() => Some("set the clock"),
            _ => Some("fetch a new one, as fetch-crl does"),
        };
        let fact = format!("{name}: revocation list, {state}");
        Self::new(verdict, topic, fact, remedy.map(str::to_owned))
    }
}

/// Prints one line without its end.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<5} {}: {}", self.verdict, self.topic, self.fact)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

/// The kind of a credential in words, and the time before its end in which it is to be renewed.
fn kind(kind: &Kind) -> (&'static str, Duration) {
    match kind {
        Kind::Proxy(proxy) if proxy.rights == ProxyRights::Limited => {
            ("limited proxy", REPLACEMENT)
        }
        Kind::Proxy(_) => ("proxy", REPLACEMENT),
        Kind::Authority { .. } => ("certificate of an authority", RENEWAL),
        Kind::EndEntity => ("certificate", RENEWAL),
    }
}

/// Judges a time of validity, and tells it in words.
fn validity(
    not_before: UnixTime,
    not_after: UnixTime,
    now: UnixTime,
    soon: Duration,
) -> (Verdict, String) {
    let between = |from: UnixTime, to: UnixTime| to.as_secs().saturating_sub(from.as_secs());
    if now < not_before {
        let wait = span(between(now, not_before));
        return (Verdict::Fail, format!("becomes valid in {wait}"));
    }
    if now > not_after {
        let gone = span(between(not_after, now));
        return (Verdict::Fail, format!("expired {gone} ago"));
    }
    let left = between(now, not_after);
    let verdict = match left < soon.as_secs() {
        true => Verdict::Warn,
        false => Verdict::Ok,
    };
    (verdict, format!("valid for {}", span(left)))
}

/// A time in words, in the largest unit of which there are at least two.
fn span(seconds: u64) -> String {
    let units = [(DAY, "days"), (3600, "hours"), (60, "minutes")];
    let fitting = units.into_iter().find(|(unit, _)| seconds / unit >= 2);
    match fitting {
        Some((unit, name)) => format!("{} {name}", seconds / unit),
        None => format!("{seconds} seconds"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{Lab, now};

    fn at(seconds: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }

    #[test]
    fn a_finding_is_one_line_with_its_remedy() {
        let finding = Finding::ok("ports", "port 2811 is free");
        assert_eq!(finding.to_string(), "ok    ports: port 2811 is free");
        let finding = Finding::fail("tls", "no key\nin it", "make one");
        assert_eq!(finding.to_string(), "FAIL  tls: no key?in it; make one");
        assert_eq!(
            Finding::skip("data", "not tried").to_string(),
            "skip  data: not tried"
        );
    }

    #[test]
    fn an_error_tells_its_own_remedy_or_gets_one() {
        let told = Finding::error("grid", "it expired; renew it", "look at it");
        let told = (told.fact.as_str(), told.remedy.as_deref());
        assert_eq!(told, ("it expired", Some("renew it")));
        let bare = Finding::error("grid", "it is broken", "look at it");
        assert_eq!(bare.remedy.as_deref(), Some("look at it"));
        let none = Finding::error("grid", "it is broken", "");
        assert_eq!(none.remedy, None);
    }

    #[test]
    fn validity_is_judged_at_a_time() {
        let judge = |now| validity(at(1000 * DAY), at(2000 * DAY), at(now), RENEWAL);
        for (now, verdict, words) in [
            (1000 * DAY, Verdict::Ok, "valid for 1000 days"),
            (1970 * DAY, Verdict::Ok, "valid for 30 days"),
            (1970 * DAY + 1, Verdict::Warn, "valid for 29 days"),
            (1999 * DAY, Verdict::Warn, "valid for 24 hours"),
            (2000 * DAY, Verdict::Warn, "valid for 0 seconds"),
            (2000 * DAY + 90, Verdict::Fail, "expired 90 seconds ago"),
            (2003 * DAY, Verdict::Fail, "expired 3 days ago"),
            (
                1000 * DAY - 300,
                Verdict::Fail,
                "becomes valid in 5 minutes",
            ),
        ] {
            assert_eq!(judge(now), (verdict, words.to_owned()), "at {now}");
        }
    }

    #[test]
    fn certificates_have_a_remedy_where_their_dates_are_not_right() {
        let host = Lab::get().host.certificate();
        let of = |now| {
            let found = Finding::certificate("grid", "host", host, now, RENEWAL);
            (found.verdict, found.remedy.unwrap_or_default())
        };
        assert_eq!(of(now()), (Verdict::Ok, String::new()));
        let end = host.not_after().as_secs();
        let renew = |text: &str| text.to_owned();
        assert_eq!(
            of(at(end - DAY)),
            (Verdict::Warn, renew("renew it before then"))
        );
        assert_eq!(of(at(end + 1)), (Verdict::Fail, renew("renew it")));
        let early = of(at(host.not_before().as_secs() - 1));
        assert_eq!(early.0, Verdict::Fail);
        assert!(early.1.contains("clock"), "{early:?}");
    }
}
