//! `CertificateMap`: the users that a client's certificate logs in.

use std::collections::BTreeSet;

use gsi::certificate::{BadCertificate, Certificate};
use xio::tls::TlsInfo;

/// Lines of a name in a certificate and the users that it logs in.
///
/// A name is the subject in the form of Grid tools (`/O=Example/CN=Ann`), or an alternative name
/// (`email:ann@example.org`, `DNS:host`, `URI:...`). Letters match in any case. A subject that
/// reads as another one in a line matches nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct CertificateMap(Vec<(String, Vec<String>)>);

impl CertificateMap {
    /// Parses lines of `"NAME" user[,user...]`; names without blanks need no quotes.
    ///
    /// # Errors
    /// The number of the first line at fault.
    pub(crate) fn parse(text: &str) -> Result<Self, usize> {
        let mut lines = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, users) = split(line).ok_or(index + 1)?;
            let users: Vec<String> = users.split(',').map(|user| user.trim().into()).collect();
            if name.is_empty() || users.iter().any(String::is_empty) {
                return Err(index + 1);
            }
            lines.push((name.to_owned(), users));
        }
        Ok(Self(lines))
    }

    /// The number of lines.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The users of all lines, each once, in the order of the alphabet.
    pub(crate) fn all_users(&self) -> BTreeSet<&str> {
        let users = self.0.iter().flat_map(|(_, users)| users);
        users.map(String::as_str).collect()
    }

    /// The identity of a verified certificate, and its users; `None` without one.
    ///
    /// # Errors
    /// The certificate cannot be read, and so logs in nobody.
    pub(crate) fn find(
        &self,
        peer: &TlsInfo,
    ) -> Result<Option<(String, Vec<String>)>, BadCertificate> {
        let Some(der) = peer.peer_certificates.first() else {
            return Ok(None);
        };
        let certificate = Certificate::parse(der.as_slice().into())?;
        let subject = certificate.subject().to_string();
        let own = certificate.subject().is_unambiguous().then_some(&subject);
        let users = self.users(own.into_iter().chain(&peer.peer_names));
        Ok(Some((subject, users)))
    }

    fn users<'a, N: Iterator<Item = &'a String> + Clone>(&self, names: N) -> Vec<String> {
        let of_peer = |name: &str| names.clone().any(|own| own.eq_ignore_ascii_case(name));
        let lines = self.0.iter().filter(|(name, _)| of_peer(name));
        lines.flat_map(|(_, users)| users.iter().cloned()).collect()
    }
}

/// The name and the rest of a line.
fn split(line: &str) -> Option<(&str, &str)> {
    match line.strip_prefix('"') {
        Some(rest) => rest.split_once('"'),
        None => line.split_once(char::is_whitespace),
    }
}

#[cfg(test)]
mod tests {
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject as _;
    use xio_testkit::Authority;

    use super::*;

    #[test]
    fn a_certificate_logs_in_the_users_of_its_names() {
        let map = "# people\n\"/CN=Ann Example\" ann,ops\nemail:bob@example.org bob\n";
        let map = CertificateMap::parse(map).unwrap();
        let users = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            map.users(names.iter()).join(",")
        };
        assert_eq!(users(&["/CN=Ann Example"]), "ann,ops");
        assert_eq!(users(&["/CN=x", "DNS:x", "email:Bob@example.org"]), "bob");
        assert_eq!(users(&["/CN=Somebody", "email:ann"]), "");
        assert_eq!(map.find(&TlsInfo::default()), Ok(None));
    }

    #[test]
    fn certificates_of_any_shape_log_in() {
        let map = CertificateMap::parse("\"/CN=Bob Example\" bob\n").unwrap();
        let authority = Authority::new("test authority");
        for hosts in [
            &[][..],
            &["host.example.org"],
            &["192.0.2.1", "host.example.org"],
        ] {
            let pem = authority.issue("Bob Example", hosts).certificate;
            let mut info = TlsInfo::default();
            let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
            info.peer_certificates = vec![der.to_vec()];
            let found = ("/CN=Bob Example".to_owned(), vec!["bob".to_owned()]);
            assert_eq!(map.find(&info), Ok(Some(found)), "{hosts:?}");
            info.peer_certificates = vec![b"no certificate".to_vec()];
            assert_eq!(map.find(&info), Err(BadCertificate::Malformed));
        }
    }

    /// Whatever the text, a line is one entry or the fault.
    #[test]
    fn any_text_is_a_map_or_has_a_line_at_fault() {
        let letters = b"\"\"/=,, \tan#\n\n";
        for seed in 0..2000 {
            let mut random = xio_testkit::Random::new(seed);
            let text = random.bytes(40);
            let text: Vec<u8> = text
                .iter()
                .map(|b| letters[usize::from(*b) % letters.len()])
                .collect();
            let text = String::from_utf8(text).unwrap();
            let lines = text.lines().count();
            match CertificateMap::parse(&text) {
                Ok(map) => {
                    assert!(map.0.len() <= lines, "{text:?}");
                    let whole = |(name, users): &(String, Vec<String>)| {
                        !name.is_empty() && !users.iter().any(String::is_empty)
                    };
                    assert!(map.0.iter().all(whole), "{text:?}");
                }
                Err(line) => assert!((1..=lines).contains(&line), "{text:?}: {line}"),
            }
        }
    }

    /// An authority that checks no values must not choose the account.
    #[test]
    fn a_name_that_reads_as_another_logs_in_nobody() {
        let map = "\"/CN=Org/CN=Ann\" ann\n\"/CN=host/lab\" lab\nDNS:x.example.org ops\n";
        let map = CertificateMap::parse(map).unwrap();
        let authority = Authority::new("test authority");
        for (common, hosts, expected) in [
            ("Org/CN=Ann", &[][..], &[][..]),
            ("Org/CN=Ann", &["x.example.org"], &["ops"]),
            ("host/lab", &[], &["lab"]),
        ] {
            let pem = authority.issue(common, hosts).certificate;
            let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
            let mut info = TlsInfo::default();
            info.peer_certificates = vec![der.to_vec()];
            info.peer_names = hosts.iter().map(|host| format!("DNS:{host}")).collect();
            let (subject, users) = map.find(&info).unwrap().unwrap();
            assert_eq!(subject, format!("/CN={common}"));
            assert_eq!(users, expected, "{common}");
        }
    }

    #[test]
    fn the_line_at_fault_is_numbered() {
        for (text, line) in [
            ("\"/CN=Ann ann", 1),
            ("\n/CN=Ann", 2),
            ("/CN=Ann ann,,bob", 1),
            ("\"\" ann", 1),
            ("\"/CN=Ann\"", 1),
        ] {
            assert_eq!(CertificateMap::parse(text).unwrap_err(), line, "{text}");
        }
    }
}
