//! One token of a stranger gets an answer of the handshake or an error, and never a session; and so do
//! its records on a data channel.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use gsi::credential::Credential;
use gsi::exchange::{Acceptor, DataChannel, Fault, Mode, Step, record_length};
use gsi::tls::{Clients, Fixed, Tls};
use gsi::trust::{TrustOptions, TrustStore};
use rustls::ServerConfig;
use rustls::pki_types::UnixTime;

static TLS: LazyLock<(Tls, [Arc<ServerConfig>; 2])> = LazyLock::new(|| {
    let store = TrustStore::new(TrustOptions::default());
    let tls = Tls::new(Arc::new(store), Arc::new(Fixed(now())));
    let host = Credential::from_pem(include_bytes!("../corpus/gsi_credential/proxy")).unwrap();
    let config = tls.server(&host, Clients::Anonymous).unwrap();
    let data = tls.data_server(&host).unwrap();
    (tls, [Arc::new(config), Arc::new(data)])
});

fn now() -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(1_767_225_600))
}

/// `data` is the first token.
pub(crate) fn check(data: &[u8]) {
    let (tls, [config, of_data]) = &*TLS;
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
    let mut channel = DataChannel::respond(Arc::clone(of_data), Mode::Gsi).unwrap();
    let mut rest = data.to_vec();
    while let Ok(Some(length)) = record_length(&rest)
        && length <= rest.len()
        && channel.receive(&mut rest[..length]).is_ok()
    {
        rest.drain(..length);
        assert!(!channel.is_open());
    }
}
