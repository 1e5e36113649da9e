//! Rows about end entities, authorities and the search for a path.

use gsi::oid;
use gsi::trust::TrustStore;
use gsi::verify::Verifier;
use rustls::pki_types::CertificateDer;

use crate::build::{
    Algorithm, Draft, Issued, NOW, SIGNS, at, extension, key_usage, keys, sequence, tlv,
};
use crate::table::{ALICE, ROOT, Table, alice, ca, root, store, user, verify};

const MIDDLE: &str = "/O=Grid/CN=Middle";

#[test]
fn paths_are_found_whatever_the_order() {
    let mut table = Table::default();
    let (root, alice) = (root(), alice());
    let trusted = store(&[&root]);
    let middle = ca(MIDDLE, &keys().middle).by(&root);
    let lower = ca("/O=Grid/CN=Other", &keys().other).by(&middle);
    let bob = user("/O=Grid/CN=Bob").by(&middle);
    let carol = user("/O=Grid/CN=Carol").by(&lower);
    table.accepts("without the root", &trusted, &[&alice], ALICE);
    table.accepts("with the root", &trusted, &[&alice, &root], ALICE);
    table.accepts(
        "through an authority",
        &trusted,
        &[&bob, &middle],
        "/O=Grid/CN=Bob",
    );
    table.accepts(
        "in order",
        &trusted,
        &[&carol, &lower, &middle, &root],
        "/O=Grid/CN=Carol",
    );
    table.accepts(
        "out of order",
        &trusted,
        &[&carol, &root, &middle, &lower],
        "/O=Grid/CN=Carol",
    );
    let twice = [
        &carol, &lower, &lower, &carol, &middle, &middle, &root, &root,
    ];
    table.accepts("duplicates", &trusted, &twice, "/O=Grid/CN=Carol");
    table.accepts("others between", &trusted, &[&alice, &carol, &lower], ALICE);
    let held = store(&[&root, &middle]);
    table.accepts(
        "the authority is held here",
        &held,
        &[&bob],
        "/O=Grid/CN=Bob",
    );
    table.refuses(
        "no link",
        &trusted,
        &[&carol, &lower],
        "UnknownIssuer",
        "/O=Grid/CN=Other",
    );
    table.refuses(
        "only a link is held",
        &store(&[&middle]),
        &[&bob],
        "UnknownIssuer",
        MIDDLE,
    );
    table.refuses(
        "nothing is held",
        &store(&[]),
        &[&alice, &root],
        "Untrusted",
        ROOT,
    );
    let itself = user(ALICE).by_itself();
    table.refuses("self-signed", &trusted, &[&itself], "Untrusted", ALICE);
    table.accepts(
        "self-signed and held",
        &store(&[&itself]),
        &[&itself],
        ALICE,
    );
    table.accepts("the anchor itself", &trusted, &[&root], ROOT);
    let many: Vec<&Issued> = vec![&alice; 101];
    table.refuses("too many", &trusted, &many, "TooMany", "");
    let large = user(ALICE)
        .with(extension(&[0x2a, 3], false, &[0; 40_000]))
        .by(&root);
    table.refuses("too large", &trusted, &[&large, &large], "TooLarge", "");
    table.refuses("none", &trusted, &[], "Empty", "");
    let junk = Issued {
        der: vec![0x30, 0],
        ..alice.clone()
    };
    table.refuses("junk behind", &trusted, &[&alice, &junk], "Malformed", "");
    let longer = Issued {
        der: [alice.der.clone(), vec![0]].concat(),
        ..alice.clone()
    };
    table.refuses("bytes behind", &trusted, &[&longer], "Malformed", "");
    table.end(19);
}

#[test]
fn authorities_are_replaced_one_after_the_other() {
    let mut table = Table::default();
    let (root, alice) = (root(), alice());
    let rekeyed = ca(ROOT, &keys().other).by_itself();
    let renewed = ca(ROOT, &keys().root)
        .change(|draft| draft.serial = 8)
        .by_itself();
    let expired = ca(ROOT, &keys().root)
        .change(|draft| draft.to = NOW - 1)
        .by_itself();
    let bob = user("/O=Grid/CN=Bob").by(&rekeyed);
    let both = store(&[&rekeyed, &root]);
    table.accepts("the old key", &both, &[&alice], ALICE);
    table.accepts("the new key", &both, &[&bob], "/O=Grid/CN=Bob");
    table.accepts("the other one sent", &both, &[&alice, &rekeyed], ALICE);
    table.accepts(
        "the old certificate sent",
        &store(&[&renewed]),
        &[&alice, &root],
        ALICE,
    );
    table.accepts(
        "one expired",
        &store(&[&expired, &renewed]),
        &[&alice, &expired],
        ALICE,
    );
    table.refuses(
        "all expired",
        &store(&[&expired]),
        &[&alice],
        "Expired",
        ROOT,
    );
    table.refuses(
        "another key",
        &store(&[&rekeyed]),
        &[&alice],
        "BadSignature",
        ALICE,
    );
    table.end(7);
}

#[test]
fn crossed_authorities_end_after_bounded_work() {
    let mut table = Table::default();
    let (root, mut sent) = (root(), vec![alice()]);
    let (a, b) = ("/O=Grid/CN=Middle", "/O=Grid/CN=Other");
    // Each of the two signs the other many times over, and none leads to the root.
    for serial in 0..7 {
        let numbered = |draft: &mut Draft| draft.serial = serial;
        let other = Issued {
            key: &keys().other,
            ..ca(b, &keys().other).by_itself()
        };
        let middle = ca(a, &keys().middle).change(numbered).by(&other);
        sent.push(ca(b, &keys().other).change(numbered).by(&middle));
        sent.push(middle);
    }
    sent[0] = user(ALICE).by(&sent[2]);
    let all: Vec<&Issued> = sent.iter().collect();
    let trusted = store(&[&root]);
    let refusal = verify(&trusted, &all).unwrap_err();
    assert!(refusal.to_string().contains("unknown") || refusal.to_string().contains("checks"));
    sent.push(ca(a, &keys().middle).by(&root));
    let short: Vec<&Issued> = [0, 1, 2, 15].iter().map(|&index| &sent[index]).collect();
    table.accepts("crossed, with a way out", &trusted, &short, ALICE);
    table.end(1);
}

/// Row 49 of the hostile input, as the tables of this folder are.
#[test]
fn every_certificate_must_be_sound() {
    let mut table = Table::default();
    let root = root();
    let trusted = store(&[&root]);
    let mut refuses = |row: &str, draft: Draft, rule: &str| {
        table.refuses(row, &trusted, &[&draft.by(&root)], rule, ALICE);
    };
    refuses(
        "expired",
        user(ALICE).change(|draft| draft.to = NOW - 1),
        "Expired",
    );
    refuses(
        "not yet valid",
        user(ALICE).change(|draft| draft.from = NOW + 1),
        "NotYetValid",
    );
    refuses(
        "small key",
        user(ALICE).change(|draft| draft.key = &keys().small),
        "SmallKey",
    );
    let sha1 = user(ALICE).change(|draft| draft.algorithm = Some(Algorithm::Sha1));
    refuses("SHA-1", sha1, "Algorithm");
    let md5 = user(ALICE).change(|draft| draft.algorithm = Some(Algorithm::Md5));
    refuses("MD5", md5, "Algorithm");
    let unknown = extension(&[0x2a, 3, 4], true, &[5, 0]);
    refuses(
        "a critical extension",
        user(ALICE).with(unknown),
        "CriticalExtension",
    );
    let names = extension(
        oid::SUBJECT_ALT_NAME,
        true,
        &sequence(&[&tlv(0x82, b"lab")]),
    );
    refuses(
        "critical names",
        user(ALICE).with(names),
        "CriticalExtension",
    );
    let limits = extension(oid::NAME_CONSTRAINTS, false, &sequence(&[]));
    refuses(
        "limits on names",
        user(ALICE).with(limits),
        "NameConstraints",
    );
    let mut malformed = |row: &str, draft: Draft| {
        table.refuses(row, &trusted, &[&draft.by(&root)], "Malformed", "");
    };
    malformed("twice", user(ALICE).with(key_usage(SIGNS)));
    let two = user(ALICE).change(|draft| draft.inner_algorithm = Some(Algorithm::P384));
    malformed("two algorithms", two);
    malformed(
        "basic constraints",
        user(ALICE).with(extension(oid::BASIC_CONSTRAINTS, true, &[1])),
    );
    let odd = extension(
        oid::SUBJECT_ALT_NAME,
        false,
        &sequence(&[&tlv(0x82, &[0xff])]),
    );
    malformed("a host name that is no text", user(ALICE).with(odd));

    let alice = user(ALICE).by(&root);
    let mut broken = alice;
    *broken.der.last_mut().unwrap() ^= 1;
    table.refuses("signature", &trusted, &[&broken], "BadSignature", ALICE);
    let usage = extension(
        oid::EXTENDED_KEY_USAGE,
        true,
        &sequence(&[&tlv(6, &[0x2a, 3])]),
    );
    table.accepts(
        "any purpose",
        &trusted,
        &[&user(ALICE).with(usage).by(&root)],
        ALICE,
    );
    let kind = extension(oid::NS_CERT_TYPE, true, &[3, 2, 0, 0xa0]);
    table.accepts(
        "Netscape's type",
        &trusted,
        &[&user(ALICE).with(kind).by(&root)],
        ALICE,
    );
    let voms = extension(
        &[0x2b, 6, 1, 4, 1, 0xbe, 0x45, 100, 100, 5],
        false,
        &[0x30, 0],
    );
    table.accepts(
        "VOMS",
        &trusted,
        &[&user(ALICE).with(voms).by(&root)],
        ALICE,
    );
    let first_version = Draft::new(ALICE, &keys().user).change(|draft| draft.version = 0);
    table.accepts("version 1", &trusted, &[&first_version.by(&root)], ALICE);
    table.end(17);
}

#[test]
fn keys_and_signatures_of_every_accepted_kind() {
    let mut table = Table::default();
    let user = || user(ALICE);
    for (row, key) in [
        ("P-384", &keys().p384),
        ("Ed25519", &keys().ed25519),
        ("RSA", &keys().rsa),
    ] {
        let root = ca(ROOT, key).by_itself();
        let signed = user().change(|draft| draft.key = key).by(&root);
        table.accepts(row, &store(&[&root]), &[&signed], ALICE);
    }
    let root = ca(ROOT, &keys().rsa).by_itself();
    for (row, algorithm) in [("PSS", Algorithm::Pss), ("SHA-512", Algorithm::RsaSha512)] {
        let signed = user()
            .change(|draft| draft.algorithm = Some(algorithm))
            .by(&root);
        table.accepts(row, &store(&[&root]), &[&signed], ALICE);
    }
    let wrong = user()
        .change(|draft| draft.algorithm = Some(Algorithm::P256))
        .by(&root);
    table.refuses(
        "of another key",
        &store(&[&root]),
        &[&wrong],
        "BadSignature",
        ALICE,
    );
    let old = ca(ROOT, &keys().rsa).change(|draft| draft.algorithm = Some(Algorithm::Sha1));
    let old = old.by_itself();
    table.accepts(
        "an anchor with SHA-1",
        &store(&[&old]),
        &[&user().by(&old), &old],
        ALICE,
    );
    let small = ca(ROOT, &keys().small).by_itself();
    table.refuses(
        "small",
        &store(&[&small]),
        &[&user().by(&small)],
        "SmallKey",
        ROOT,
    );
    table.end(8);
}

#[test]
fn a_refusal_names_the_remedy() {
    let (root, alice) = (root(), alice());
    let mut none = TrustStore::default();
    none.add_authority(root.der()).unwrap();
    let refusal = verify(&none, &[&alice]).unwrap_err();
    let hash = gsi::name::Name::from_der(&root.subject).unwrap().hash();
    assert_eq!(
        refusal.to_string(),
        format!(
            "certificate of {ALICE}: no signing policy for its issuer {ROOT}: \
             add {hash:08x}.signing_policy to the CA directory"
        )
    );
    assert!(refusal.is_local());
    let late: Vec<CertificateDer<'_>> = vec![alice.der()];
    let refusal = store(&[&root]).verify(&late, at(NOW + 1001)).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "certificate of /O=Grid/CN=Root: it expired at Jan 15 08:16:40 2027 +00:00; \
         get a new one, or set the clock"
    );
    assert!(!refusal.is_local());
    let junk = Issued {
        der: vec![0x30, 0],
        ..alice.clone()
    };
    let refusal = verify(&none, &[&alice, &junk]).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "certificate 2 of the chain: the certificate is malformed"
    );
}
