//! Errors of rustls as errors of this layer: the end at fault, the fact and the remedy.

use rustls::pki_types::UnixTime;
use rustls::{
    AlertDescription, CertificateError, Error as Fault, InvalidMessage, PeerIncompatible,
};
use xio_core::{Error, ErrorKind, Operation};

pub(crate) const LAYER: &str = "tls";

/// The fault of a certificate that this end refused, for a caller's own advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificateFault {
    /// Its authority is not trusted.
    UnknownAuthority,
    /// It is for another host.
    WrongName,
    /// Its time is over, or has not come.
    Time,
    /// Another one.
    Other,
}

impl CertificateFault {
    /// The fault that made a handshake fail, if it was one of the peer's certificate.
    #[must_use]
    pub fn of(error: &Error) -> Option<Self> {
        let fault = std::error::Error::source(error)?.downcast_ref::<Fault>()?;
        let Fault::InvalidCertificate(why) = fault else {
            return None;
        };
        Some(match why {
            CertificateError::UnknownIssuer => Self::UnknownAuthority,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::WrongName
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Self::Time,
            _ => Self::Other,
        })
    }
}

/// Turns an error of rustls into one of this layer.
#[cold]
pub(crate) fn blame(fault: &Fault, op: Operation) -> Error {
    Error::new(kind(fault), LAYER, op, fact(fault)).with_source(fault.clone())
}

/// The error of a stream below that ends without close-notify.
#[cold]
pub(crate) fn truncated(op: Operation, fact: &str) -> Error {
    Error::new(ErrorKind::UnexpectedEof, LAYER, op, fact)
}

fn kind(fault: &Fault) -> ErrorKind {
    match fault {
        Fault::AlertReceived(AlertDescription::UserCanceled | AlertDescription::InternalError) => {
            ErrorKind::Reset
        }
        Fault::InvalidMessage(_)
        | Fault::InappropriateMessage { .. }
        | Fault::InappropriateHandshakeMessage { .. }
        | Fault::PeerMisbehaved(_)
        | Fault::PeerSentOversizedRecord => ErrorKind::Protocol,
        _ => ErrorKind::Security,
    }
}

fn fact(fault: &Fault) -> String {
    match fault {
        Fault::InvalidCertificate(why) => certificate(why),
        Fault::AlertReceived(alert) => refusal(*alert),
        Fault::NoCertificatesPresented => {
            "the peer showed no certificate, which this end requires".to_owned()
        }
        Fault::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => "the peer's bytes are not TLS; is it a plain port?".to_owned(),
        Fault::InvalidMessage(InvalidMessage::MessageTooLarge) | Fault::PeerSentOversizedRecord => {
            "the peer sent a record longer than the protocol allows, or something else than TLS"
                .to_owned()
        }
        Fault::DecryptError => {
            "a record is damaged: it was changed in transit, or the peer uses other keys".to_owned()
        }
        Fault::EncryptError => "the keys of this connection are used up; \
             only TLS 1.3 renews them, so see the option min at both ends"
            .to_owned(),
        Fault::General(why) if why == "no server certificate chain resolved" => {
            "the peer asks for a host that the certificate of this end is not for".to_owned()
        }
        Fault::NoApplicationProtocol => {
            "the peer speaks none of the application protocols named in alpn".to_owned()
        }
        Fault::PeerIncompatible(
            why @ (PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::SupportedVersionsExtensionRequired
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig),
        ) => format!("no TLS version in common ({why:?}); see the option min at both ends"),
        other => other.to_string(),
    }
}

/// The fault of the peer's certificate.
fn certificate(why: &CertificateError) -> String {
    match why {
        CertificateError::Expired => "the peer's certificate has expired".to_owned(),
        CertificateError::ExpiredContext { time, not_after } => format!(
            "the peer's certificate expired {} ago; it must be renewed, or this clock is wrong",
            span(*not_after, *time)
        ),
        CertificateError::NotValidYet => "the peer's certificate is not valid yet".to_owned(),
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "the peer's certificate becomes valid in {}; is this clock right?",
            span(*time, *not_before)
        ),
        CertificateError::UnknownIssuer => {
            "the peer's certificate comes from an authority that is not trusted here".to_owned()
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => format!(
            "the peer's certificate is not for {} but for {}; \
             connect by that name, or give it in the option name",
            expected.to_str(),
            listed(presented)
        ),
        CertificateError::NotValidForName => {
            "the peer's certificate is for another name".to_owned()
        }
        CertificateError::Revoked => "the peer's certificate was revoked".to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the peer's certificate is not meant for this end of a connection (extended key usage)"
                .to_owned()
        }
        // A verifier of the caller, with words of its own.
        CertificateError::Other(why) => why.to_string(),
        other => format!("the peer's certificate is not acceptable: {other}"),
    }
}

/// The first few names of a certificate.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 4;
    let shown: Vec<_> = names.iter().take(SHOWN).map(String::as_str).collect();
    match names.len() {
        0 => "no host at all".to_owned(),
        n if n > SHOWN => format!("{} and {} more", shown.join(", "), n - SHOWN),
        _ => shown.join(", "),
    }
}

/// The time between two instants, in the unit that a person would use.
fn span(from: UnixTime, to: UnixTime) -> String {
    let seconds = to.as_secs().saturating_sub(from.as_secs());
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} minutes", seconds / 60),
        7200..172_800 => format!("{} hours", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// The meaning of the peer's alert.
fn refusal(alert: AlertDescription) -> String {
    let why = match alert {
        AlertDescription::CertificateRequired => {
            "it requires a certificate of us; give one with cert and key"
        }
        AlertDescription::UnknownCA => "it does not trust the authority of our certificate",
        AlertDescription::CertificateExpired => "it says that our certificate has expired",
        AlertDescription::CertificateRevoked => "it says that our certificate was revoked",
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown => "it does not accept our certificate",
        AlertDescription::HandshakeFailure => {
            "it found no cipher in common, or requires a certificate of us"
        }
        AlertDescription::ProtocolVersion => {
            "it has no TLS version in common with this end; see min"
        }
        AlertDescription::NoApplicationProtocol => {
            "it speaks none of the application protocols named in alpn"
        }
        AlertDescription::UnrecognisedName => "it does not know the requested server name",
        AlertDescription::AccessDenied => "it denies access",
        AlertDescription::BadRecordMac | AlertDescription::DecryptError => {
            "it cannot decrypt the bytes of this end: something on the way changes them"
        }
        _ => "it broke the connection off",
    };
    format!("refused by the peer: {why} (alert {alert:?})")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn spans_are_in_the_unit_of_a_person() {
        let at = |s| UnixTime::since_unix_epoch(Duration::from_secs(s));
        assert_eq!(span(at(10), at(70)), "60 s");
        assert_eq!(span(at(0), at(3 * 86_400)), "3 days");
        assert_eq!(span(at(0), at(7199)), "119 minutes");
        assert_eq!(span(at(9), at(0)), "0 s");
    }

    #[test]
    fn an_alert_says_what_to_try() {
        let error = blame(
            &Fault::AlertReceived(AlertDescription::CertificateRequired),
            Operation::Read,
        );
        assert_eq!(error.kind(), ErrorKind::Security);
        assert!(error.to_string().contains("cert and key"), "{error}");
    }

    #[test]
    fn a_certificate_with_many_names_keeps_the_error_short() {
        let names: Vec<_> = (0..100).map(|i| format!("h{i}")).collect();
        assert_eq!(listed(&names), "h0, h1, h2, h3 and 96 more");
        assert_eq!(listed(&[]), "no host at all");
    }
}
