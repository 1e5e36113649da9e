//! Rows about revocation lists.

use gsi::oid;
use gsi::revocation::{BadRevocationList, RevocationList};

use crate::build::{NOW, extension, key_usage, keys, revocations, rfc, sequence, tlv};
use crate::table::{ALICE, ROOT, Table, alice, ca, proxy, revoke, root, store, user};

const NOW_VALID: (u64, u64) = (NOW - 100, NOW + 100);

#[test]
fn revoked_certificates_are_refused() {
    let mut table = Table::default();
    let (root, alice) = (root(), alice());
    let middle = ca("/O=Grid/CN=Middle", &keys().middle).change(|draft| draft.serial = 9);
    let middle = middle.by(&root);
    let bob = user("/O=Grid/CN=Bob").by(&middle);
    let list = |dates, serials: &[u8]| revocations(&root, root.key, dates, serials, &[]);
    let with = |list: &[u8]| {
        let mut store = store(&[&root]);
        revoke(&mut store, list);
        store
    };
    table.accepts(
        "another",
        &with(&list(NOW_VALID, &[6, 8])),
        &[&alice],
        ALICE,
    );
    table.accepts("nobody", &with(&list(NOW_VALID, &[])), &[&alice], ALICE);
    table.refuses(
        "the user",
        &with(&list(NOW_VALID, &[6, 7])),
        &[&alice],
        "Revoked",
        ALICE,
    );
    let chain = [&bob, &middle];
    let blamed = "/O=Grid/CN=Middle";
    table.refuses(
        "the authority",
        &with(&list(NOW_VALID, &[9])),
        &chain,
        "Revoked",
        blamed,
    );
    table.accepts(
        "that of another",
        &with(&list(NOW_VALID, &[7])),
        &chain,
        "/O=Grid/CN=Bob",
    );
    let below = proxy(&alice, "1", Some(rfc(oid::INHERIT_ALL, None))).by(&alice);
    let of_alice = [&below, &alice];
    table.refuses(
        "of a proxy",
        &with(&list(NOW_VALID, &[7])),
        &of_alice,
        "Revoked",
        ALICE,
    );
    let numbered = proxy(&alice, "1", Some(rfc(oid::INHERIT_ALL, None)));
    let numbered = numbered.change(|draft| draft.serial = 6).by(&alice);
    table.accepts(
        "not proxies",
        &with(&list(NOW_VALID, &[6])),
        &[&numbered, &alice],
        ALICE,
    );
    let old = list((NOW - 100, NOW - 1), &[]);
    table.refuses(
        "expired",
        &with(&old),
        &[&alice],
        "RevocationsExpired",
        ALICE,
    );
    let young = list((NOW + 1, NOW + 100), &[]);
    table.refuses(
        "too young",
        &with(&young),
        &[&alice],
        "RevocationsNotYetValid",
        ALICE,
    );
    let forged = revocations(&root, &keys().other, NOW_VALID, &[], &[]);
    table.refuses(
        "forged",
        &with(&forged),
        &[&alice],
        "RevocationsSignature",
        ALICE,
    );
    let mut several = with(&old);
    revoke(&mut several, &list(NOW_VALID, &[]));
    table.accepts("one in force", &several, &[&alice], ALICE);
    revoke(&mut several, &list((NOW - 200, NOW - 150), &[7]));
    table.refuses("an old one", &several, &[&alice], "Revoked", ALICE);
    let of_middle = revocations(&middle, middle.key, NOW_VALID, &[7], &[]);
    let blamed = "/O=Grid/CN=Bob";
    table.refuses(
        "of a sent authority",
        &with(&of_middle),
        &chain,
        "Revoked",
        blamed,
    );
    table.end(13);
}

#[test]
fn a_list_counts_for_the_name_of_the_authority_not_for_one_key() {
    let mut table = Table::default();
    let (root, alice) = (root(), alice());
    let rekeyed = ca(ROOT, &keys().other).by_itself();
    let list = revocations(&root, &keys().other, NOW_VALID, &[7], &[]);
    for first in [true, false] {
        let mut trusted = store(&[&root]);
        if first {
            revoke(&mut trusted, &list);
        }
        trusted.add_authority(rekeyed.der()).unwrap();
        if !first {
            revoke(&mut trusted, &list);
        }
        table.refuses("the new key", &trusted, &[&alice], "Revoked", ALICE);
    }
    let usage = crate::build::Draft::new(ROOT, &keys().root)
        .with(crate::build::authority(None))
        .with(key_usage(0x04))
        .by_itself();
    let mut trusted = store(&[&usage]);
    revoke(
        &mut trusted,
        &revocations(&root, root.key, NOW_VALID, &[], &[]),
    );
    table.refuses(
        "key usage",
        &trusted,
        &[&alice],
        "RevocationsSignature",
        ALICE,
    );
    table.end(3);
}

#[test]
fn partial_lists_are_no_lists() {
    let root = root();
    let list = |extensions: &[Vec<u8>]| {
        let der = revocations(&root, root.key, NOW_VALID, &[7], extensions);
        RevocationList::parse(&der)
    };
    let point = |value: &[u8]| extension(oid::ISSUING_DISTRIBUTION_POINT, true, value);
    let delta = extension(&[0x55, 0x1d, 27], true, &[2, 1, 1]);
    let number = extension(&[0x55, 0x1d, 20], false, &[2, 1, 1]);
    assert!(
        list(&[number, point(&sequence(&[&tlv(0xa0, &[])]))])
            .unwrap()
            .revokes(&[7])
    );
    let partial = list(&[point(&sequence(&[&tlv(0x81, &[0xff])]))]).unwrap_err();
    assert!(
        matches!(partial, BadRevocationList::Partial { .. }),
        "{partial}"
    );
    let unknown = list(&[delta]).unwrap_err();
    assert!(
        matches!(unknown, BadRevocationList::CriticalExtension { .. }),
        "{unknown}"
    );
    assert_eq!(
        RevocationList::parse(&[0x30, 0]).unwrap_err(),
        BadRevocationList::Malformed
    );
}
