//! One token of a stranger gets an answer of the handshake or an error, and never a session.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use gsi::credential::Credential;
use gsi::exchange::{Acceptor, Fault, Mode, Step};
use gsi::tls::{Clients, Fixed, Tls};
use gsi::trust::{TrustOptions, TrustStore};
use rustls::ServerConfig;
use rustls::pki_types::UnixTime;

static TLS: LazyLock<(Tls, Arc<ServerConfig>)> = LazyLock::new(|| {
    let store = TrustStore::new(TrustOptions::default());
    let tls = Tls::new(Arc::new(store), Arc::new(Fixed(now())));
    let host = Credential::from_pem(include_bytes!("../corpus/gsi_credential/proxy")).unwrap();
    let config = tls.server(&host, Clients::Anonymous).unwrap();
    (tls, Arc::new(config))
});

fn now() -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(1_767_225_600))
}

/// `data` is the first token.
pub(crate) fn check(data: &[u8]) {
    let (tls, config) = &*TLS;
    let verifier = Arc::clone(tls.verifier());
    let mut acceptor = Acceptor::new(Arc::clone(config), verifier, Mode::Gsi).unwrap();
    match acceptor.step(data, now()) {
        Ok(Step::Send(answer)) => assert_eq!(answer.first(), Some(&22)),
        Ok(step) => panic!("one token led to {step:?}"),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let after = acceptor.step(data, now()).unwrap_err();
            assert!(matches!(after.fault(), Fault::Misuse));
        }
    }
}
