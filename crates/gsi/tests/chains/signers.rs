//! Authorities that sign: their constraints, and their signing policies.

use gsi::policy::SigningPolicy;
use gsi::trust::{TrustOptions, TrustStore};

use crate::build::{
    Draft, ENCIPHERS, Issued, SIGNS, SIGNS_CERTIFICATES, authority, key_usage, keys,
};
use crate::table::{ALICE, ROOT, Table, alice, allow, ca, root, store, user};

const MIDDLE: &str = "/O=Grid/CN=Middle";

#[test]
fn only_authorities_sign_and_only_as_many_as_allowed() {
    let mut table = Table::default();
    let (root, alice) = (root(), alice());
    let trusted = store(&[&root]);
    let below = user("/O=Grid/CN=Bob").by(&alice);
    table.refuses(
        "a user signs",
        &trusted,
        &[&below, &alice],
        "NotAuthority",
        ALICE,
    );
    let no_usage = Draft::new(MIDDLE, &keys().middle).with(authority(None));
    let bob = |issuer: &Issued| user("/O=Grid/CN=Bob").by(issuer);
    let plain = no_usage.clone().by(&root);
    table.accepts(
        "without key usage",
        &trusted,
        &[&bob(&plain), &plain],
        "/O=Grid/CN=Bob",
    );
    let signs = no_usage.with(key_usage(SIGNS)).by(&root);
    table.refuses(
        "key usage",
        &trusted,
        &[&bob(&signs), &signs],
        "NoCertSign",
        MIDDLE,
    );
    let middle = ca(MIDDLE, &keys().middle).by(&root);
    table.refuses("as a user", &trusted, &[&middle], "Authority", MIDDLE);
    let root_signs = Draft::new(ROOT, &keys().root)
        .with(authority(None))
        .with(key_usage(ENCIPHERS));
    let root_signs = root_signs.by_itself();
    table.refuses(
        "of the root",
        &store(&[&root_signs]),
        &[&alice],
        "NoCertSign",
        ROOT,
    );
    let first = Draft::new(ROOT, &keys().root)
        .change(|draft| draft.version = 0)
        .by_itself();
    table.accepts("a root of version 1", &store(&[&first]), &[&alice], ALICE);
    let plain_root = Draft::new(ROOT, &keys().root)
        .with(key_usage(0xff))
        .by_itself();
    table.refuses(
        "a root of version 3",
        &store(&[&plain_root]),
        &[&alice],
        "NotAuthority",
        ROOT,
    );

    let limited = |length| {
        let usage = key_usage(SIGNS_CERTIFICATES);
        let root = Draft::new(ROOT, &keys().root)
            .with(authority(Some(length)))
            .with(usage);
        store(&[&root.by_itself()])
    };
    let lower = ca("/O=Grid/CN=Other", &keys().other).by(&middle);
    let carol = user("/O=Grid/CN=Carol").by(&lower);
    let chain = [&carol, &lower, &middle];
    table.accepts("length 0", &limited(0), &[&alice], ALICE);
    let blamed = "/O=Grid/CN=Other";
    table.refuses(
        "a link as a user",
        &trusted,
        &chain[1..],
        "Authority",
        blamed,
    );
    let one = [&bob(&middle), &middle];
    table.refuses(
        "one under 0",
        &limited(0),
        &one,
        "AuthorityPathLength",
        ROOT,
    );
    table.accepts("one under 1", &limited(1), &one, "/O=Grid/CN=Bob");
    table.refuses(
        "two under 1",
        &limited(1),
        &chain,
        "AuthorityPathLength",
        ROOT,
    );
    table.accepts("two under 2", &limited(2), &chain, "/O=Grid/CN=Carol");
    let again = ca(MIDDLE, &keys().other).by(&middle);
    let bob = user("/O=Grid/CN=Bob").by(&again);
    let chain = [&bob, &again, &middle];
    table.accepts(
        "self-issued ones do not count",
        &limited(1),
        &chain,
        "/O=Grid/CN=Bob",
    );
    table.end(14);
}

#[test]
fn an_authority_signs_the_names_of_its_policy() {
    let mut table = Table::default();
    let (root, alice) = (root(), alice());
    let mut none = TrustStore::default();
    none.add_authority(root.der()).unwrap();
    table.refuses("no policy", &none, &[&alice], "NoPolicy", ALICE);
    let lenient = TrustOptions::default().allow_missing_policies();
    let mut trusted = TrustStore::new(lenient);
    trusted.add_authority(root.der()).unwrap();
    table.accepts("none needed", &trusted, &[&alice], ALICE);
    allow(&mut trusted, &[ROOT], "/O=Lab/*");
    table.refuses(
        "none needed, one there",
        &trusted,
        &[&alice],
        "PolicyForbids",
        ALICE,
    );
    let mut trusted = store(&[&root]);
    allow(&mut trusted, &[ROOT], "/o=grid/cn=ALICE");
    table.accepts("case", &trusted, &[&alice], ALICE);
    allow(&mut trusted, &[ROOT], "/O=Grid/UID=*");
    let uid = user("/O=Grid/UID=7").by(&root);
    table.accepts("alias", &trusted, &[&uid], "/O=Grid/UID=7");
    table.refuses("another name", &trusted, &[&alice], "PolicyForbids", ALICE);
    let hash = gsi::name::Name::from_der(&root.subject).unwrap();
    let other = SigningPolicy::parse(b"access_id_CA X509 /x\npos_rights globus CA:sign").unwrap();
    none.add_policy(hash.hash(), other);
    table.refuses(
        "another CA",
        &none,
        &[&alice],
        "PolicyWithoutAuthority",
        ALICE,
    );
    let old = format!(
        "access_id_CA X509 '{ROOT}'\npos_rights globus CA:sign\ncond_subjects globus '\"*\"'"
    );
    let mut named = TrustStore::default();
    named.add_authority(root.der()).unwrap();
    named.add_policy(
        hash.old_hash(),
        SigningPolicy::parse(old.as_bytes()).unwrap(),
    );
    table.accepts("under the old hash", &named, &[&alice], ALICE);
    let middle = ca(MIDDLE, &keys().middle).by(&root);
    let bob = user("/O=Grid/CN=Bob").by(&middle);
    let mut trusted = store(&[&root]);
    allow(&mut trusted, &[MIDDLE], "/O=Lab/*");
    let chain = [&bob, &middle];
    table.refuses(
        "of the link",
        &trusted,
        &chain,
        "PolicyForbids",
        "/O=Grid/CN=Bob",
    );
    table.end(9);
}
