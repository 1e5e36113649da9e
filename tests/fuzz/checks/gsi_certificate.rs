//! Certificates keep their bytes; a proxy is named after its issuer.

use gsi::certificate::{Certificate, Kind};
use gsi::name::Name;

/// `data` is the DER of a certificate.
pub(crate) fn check(data: &[u8]) {
    let Ok(certificate) = Certificate::parse(data.into()) else {
        return;
    };
    assert_eq!(certificate.der().as_ref(), data);
    for name in [certificate.subject(), certificate.issuer()] {
        assert_eq!(Name::from_der(name.as_der()).as_ref(), Ok(name));
    }
    match certificate.kind() {
        Kind::Proxy(info) => {
            assert!(certificate.subject() != certificate.issuer());
            assert!(certificate.dns_names().is_empty() && certificate.ip_addresses().is_empty());
            assert_eq!(certificate.proxy(), Some(info));
        }
        _ => assert_eq!(certificate.proxy(), None),
    }
}
