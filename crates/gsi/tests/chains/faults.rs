//! The faults of an authority that refuse all its certificates.

use gsi::certificate::Certificate;
use gsi::trust::{TrustOptions, TrustStore};

use crate::build::{Issued, NOW, at, keys, revocations};
use crate::table::{ROOT, allow, ca, revoke, root, store, with_options};

/// The faults by the names of their rules.
fn faults(store: &TrustStore, authority: &Issued) -> String {
    let authority = Certificate::parse(authority.der()).unwrap();
    let faults = store.faults(&authority, at(NOW));
    let names = faults.iter().map(|rule| {
        let rule = format!("{rule:?}");
        rule.split(' ').next().unwrap_or_default().to_owned()
    });
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_faults_of_an_authority_are_those_of_its_files() {
    let root = root();
    let list = |dates| revocations(&root, root.key, dates, &[7], &[]);
    let good = store(&[&root]);
    assert_eq!(faults(&good, &root), "");
    let with = |list: &[u8]| {
        let mut store = store(&[&root]);
        revoke(&mut store, list);
        faults(&store, &root)
    };
    assert_eq!(with(&list((NOW - 100, NOW + 100))), "");
    assert_eq!(with(&list((NOW - 200, NOW - 100))), "RevocationsExpired");
    assert_eq!(
        with(&list((NOW + 100, NOW + 200))),
        "RevocationsNotYetValid"
    );
    let forged = revocations(&root, &keys().other, (NOW - 100, NOW + 100), &[], &[]);
    assert_eq!(with(&forged), "RevocationsSignature");

    let mut bare = TrustStore::new(TrustOptions::default());
    bare.add_authority(root.der()).unwrap();
    assert_eq!(faults(&bare, &root), "NoPolicy");
    let mut narrow = with_options(TrustOptions::default(), &[&root]);
    allow(&mut narrow, &[ROOT], "/O=Grid/OU=Lab/*");
    assert_eq!(faults(&narrow, &root), "", "it need not sign its own name");
    let old = ca(ROOT, &keys().root).change(|draft| draft.to = NOW - 1);
    let old = old.by_itself();
    assert_eq!(faults(&store(&[&old]), &old), "Expired");
}
