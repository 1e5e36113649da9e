//! Certificates with any one bit changed.

use gsi::oid;
use gsi::trust::TrustStore;
use gsi::verify::Verifier;
use rustls::pki_types::CertificateDer;

use crate::build::{NOW, at, rfc};
use crate::table::{alice, proxy, root, store};

#[track_caller]
fn check(store: &TrustStore, chain: &[CertificateDer<'static>], index: usize) {
    assert!(store.verify(chain, at(NOW)).is_ok());
    for bit in 0..chain[index].len() * 8 {
        let mut bytes = chain[index].to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let mut changed = chain.to_vec();
        changed[index] = bytes.into();
        assert!(
            store.verify(&changed, at(NOW)).is_err(),
            "byte {} bit {}",
            bit / 8,
            bit % 8
        );
    }
}

#[test]
fn no_bit_of_a_chain_may_change() {
    let (root, alice) = (root(), alice());
    let trusted = store(&[&root]);
    let proxy = proxy(&alice, "1", Some(rfc(oid::LIMITED, Some(1)))).by(&alice);
    let chain = [proxy.der(), alice.der()];
    check(&trusted, &chain, 0);
    check(&trusted, &chain, 1);
}
