//! Keys after the last record that their cipher allows.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::{
    CipherSuiteCommon, ClientConfig, SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use xio_core::{Operation, Transform as _};
use xio_testkit::{Authority, Mem, MemHandle, Random};

use super::{HOST, drain, identity, roots};
use crate::handle::Receiving;
use crate::session::Session;
use crate::{Tls, TlsHandle};

/// Records that a key allows here; real suites allow some million.
const BEARS: u64 = 10;

fn common(known: &CipherSuiteCommon) -> CipherSuiteCommon {
    CipherSuiteCommon {
        suite: known.suite,
        hash_provider: known.hash_provider,
        confidentiality_limit: BEARS,
    }
}

/// A suite with keys for few records.
fn weak(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    match suite {
        SupportedCipherSuite::Tls13(known) => {
            SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
                common: common(&known.common),
                ..*known
            })))
        }
        SupportedCipherSuite::Tls12(known) => {
            SupportedCipherSuite::Tls12(Box::leak(Box::new(Tls12CipherSuite {
                common: common(&known.common),
                ..*known
            })))
        }
    }
}

/// A client with keys for few records, and its peer.
async fn open(suite: SupportedCipherSuite) -> (TlsHandle<MemHandle>, TlsHandle<MemHandle>) {
    let authority = Authority::new("test authority");
    let server = Tls::server(identity(&authority.issue("server", &[HOST])))
        .build()
        .unwrap();
    let provider = CryptoProvider {
        cipher_suites: vec![weak(suite)],
        ..aws_lc_rs::default_provider()
    };
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots(&authority).store().unwrap())
        .with_no_client_auth();
    let name = ServerName::try_from(HOST).unwrap();
    let session = Session::initiate(Arc::new(config), name).unwrap();
    let (near, far) = Mem::new().capacity(1 << 20).pair();
    let mut near = TlsHandle::new(near, session, Receiving::Marked, None);
    let (done, far) = tokio::join!(near.handshake(Operation::Connect), server.respond(far));
    done.unwrap();
    (near, far.unwrap())
}

#[tokio::test]
async fn keys_are_renewed_as_often_as_needed() {
    let suite = aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384;
    let (mut near, mut far) = open(suite).await;
    let bytes = Random::new(5).bytes(3_000_000);
    let sending = async {
        for part in bytes.chunks(70_000) {
            near.write_all(part).await.unwrap();
        }
        near.shutdown().await.unwrap();
    };
    let ((), (got, ended)) = tokio::join!(sending, drain(&mut far));
    ended.unwrap();
    assert!(got == bytes, "{} of {} bytes", got.len(), bytes.len());
    // The other direction went on meanwhile.
    far.write_all(b"taken").await.unwrap();
    far.shutdown().await.unwrap();
    let mut answer = String::new();
    near.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "taken");
}

#[tokio::test]
async fn keys_that_cannot_be_renewed_end_in_an_error() {
    let suite = aws_lc_rs::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384;
    let (mut near, mut far) = open(suite).await;
    let sending = async {
        loop {
            if let Err(error) = near.write_all(&[7; 16_384]).await {
                drop(near);
                return error.to_string();
            }
        }
    };
    let (error, (got, ended)) = tokio::join!(sending, drain(&mut far));
    assert!(
        error.starts_with("tls: write: ") && error.contains("only TLS 1.3 renews them"),
        "{error}"
    );
    // The sent bytes are right, and the peer learns that they are not all.
    assert!(got.iter().all(|byte| *byte == 7));
    assert!(ended.is_err(), "{} bytes looked whole", got.len());
}
