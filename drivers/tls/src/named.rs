//! `Named`: the certificate of a server, for clients that ask for a host which it names.

use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::pki_types::ServerName;
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::info;

/// Refuses clients that ask for another host (RFC 6066 §3): an attacker led their connection here
/// from a server of another protocol.
///
/// A client that names no host, and a certificate without host names, are no fault.
#[derive(Debug)]
pub(crate) struct Named(pub(crate) Arc<dyn ResolvesServerCert>);

impl ResolvesServerCert for Named {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = hello.server_name().map(str::to_owned);
        let own = self.0.resolve(hello)?;
        asked.is_none_or(|asked| fits(&own, asked)).then_some(own)
    }
}

fn fits(own: &CertifiedKey, asked: String) -> bool {
    let Some(leaf) = own.cert.first() else {
        return true;
    };
    let names = info::names(leaf);
    if !names.iter().any(|name| name.starts_with("DNS:")) {
        return true;
    }
    let parsed = ParsedCertificate::try_from(leaf);
    let name = ServerName::try_from(asked);
    matches!((parsed, name), (Ok(parsed), Ok(name)) if verify_server_name(&parsed, &name).is_ok())
}
