//! Rows of a table: a store, a chain, and its verdict.

use gsi::certificate::ProxyRights;
use gsi::policy::SigningPolicy;
use gsi::revocation::RevocationList;
use gsi::trust::{TrustOptions, TrustStore};
use gsi::verify::{Peer, Refusal, Verifier};
use rustls::pki_types::CertificateDer;

use crate::build::{
    Draft, ENCIPHERS, Issued, Key, NOW, SIGNS, SIGNS_CERTIFICATES, at, authority, key_usage, keys,
    tlv,
};

pub(crate) const ROOT: &str = "/O=Grid/CN=Root";
pub(crate) const ALICE: &str = "/O=Grid/CN=Alice";

/// An authority to be signed.
pub(crate) fn ca(subject: &str, key: &'static Key) -> Draft {
    Draft::new(subject, key)
        .with(authority(None))
        .with(key_usage(SIGNS_CERTIFICATES))
}

/// The authority that most rows trust.
pub(crate) fn root() -> Issued {
    ca(ROOT, &keys().root).by_itself()
}

/// A user to be signed.
pub(crate) fn user(subject: &str) -> Draft {
    Draft::new(subject, &keys().user).with(key_usage(SIGNS))
}

pub(crate) fn alice() -> Issued {
    user(ALICE).by(&root())
}

/// A proxy of `issuer` to be signed, with this last common name.
pub(crate) fn proxy(issuer: &Issued, last: &str, extension: Option<Vec<u8>>) -> Draft {
    let draft = Draft::new("", &keys().proxy).change(|draft| {
        let last = crate::build::name(&format!("/CN={last}"));
        let content = |name: &[u8]| {
            let skip = if name[1] < 0x80 {
                2
            } else {
                2 + usize::from(name[1] & 0x7f)
            };
            name[skip..].to_vec()
        };
        draft.subject = tlv(0x30, &[content(&issuer.subject), content(&last)].concat());
        draft.extensions.extend(extension);
    });
    draft.with(key_usage(SIGNS | ENCIPHERS))
}

/// A store of authorities, each of which may sign every name.
pub(crate) fn store(authorities: &[&Issued]) -> TrustStore {
    with_options(TrustOptions::default(), authorities)
}

pub(crate) fn with_options(options: TrustOptions, authorities: &[&Issued]) -> TrustStore {
    let mut store = TrustStore::new(options);
    for authority in authorities {
        store.add_authority(authority.der()).unwrap();
    }
    allow(
        &mut store,
        &[ROOT, "/O=Grid/CN=Middle", "/O=Grid/CN=Other"],
        "*",
    );
    store
}

/// Lets authorities sign the names of a pattern.
pub(crate) fn allow(store: &mut TrustStore, authorities: &[&str], pattern: &str) {
    for authority in authorities {
        let text = format!(
            "access_id_CA X509 '{authority}'\npos_rights globus CA:sign\n\
             cond_subjects globus '\"{pattern}\"'\n"
        );
        let name = gsi::name::Name::from_der(&crate::build::name(authority)).unwrap();
        store.add_policy(name.hash(), SigningPolicy::parse(text.as_bytes()).unwrap());
    }
}

pub(crate) fn revoke(store: &mut TrustStore, list: &[u8]) {
    store.add_revocations(RevocationList::parse(list).unwrap());
}

/// The verdicts that differ from the table.
#[derive(Default)]
pub(crate) struct Table {
    rows: usize,
    wrong: Vec<String>,
}

impl Table {
    pub(crate) fn accepts(
        &mut self,
        row: &str,
        store: &dyn Verifier,
        chain: &[&Issued],
        identity: &str,
    ) {
        self.grants(row, store, chain, identity, ProxyRights::Full);
    }

    pub(crate) fn grants(
        &mut self,
        row: &str,
        store: &dyn Verifier,
        chain: &[&Issued],
        identity: &str,
        rights: ProxyRights,
    ) {
        self.rows += 1;
        match verify(store, chain) {
            Ok(peer) if peer.identity.to_string() == identity && peer.rights == rights => {}
            Ok(peer) => self
                .wrong
                .push(format!("{row}: {} {:?}", peer.identity, peer.rights)),
            Err(refusal) => self.wrong.push(format!("{row}: {refusal}")),
        }
    }

    /// Expects a rule, by the name of its variant, and the subject at fault.
    pub(crate) fn refuses(
        &mut self,
        row: &str,
        store: &dyn Verifier,
        chain: &[&Issued],
        rule: &str,
        subject: &str,
    ) {
        self.rows += 1;
        match verify(store, chain) {
            Ok(peer) => self
                .wrong
                .push(format!("{row}: accepted as {}", peer.identity)),
            Err(refusal) => {
                let variant = format!("{:?}", refusal.rule);
                let variant = variant
                    .split([' ', '('])
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                let blamed = refusal.subject.as_ref().map(ToString::to_string);
                if variant != rule || blamed.unwrap_or_default() != subject {
                    self.wrong.push(format!("{row}: {refusal}"));
                }
            }
        }
    }

    #[track_caller]
    pub(crate) fn end(self, rows: usize) {
        assert!(self.wrong.is_empty(), "{:#?}", self.wrong);
        assert_eq!(self.rows, rows);
    }
}

pub(crate) fn verify(store: &dyn Verifier, chain: &[&Issued]) -> Result<Peer, Refusal> {
    let chain: Vec<CertificateDer<'_>> = chain.iter().map(|issued| issued.der()).collect();
    store.verify(&chain, at(NOW))
}
