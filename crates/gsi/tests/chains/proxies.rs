//! Rows about proxies of every format and right.

use gsi::certificate::{Certificate, Kind, ProxyFormat, ProxyRights};
use gsi::oid;
use gsi::trust::TrustOptions;

use crate::build::{
    Draft, ENCIPHERS, Issued, NOW, SIGNS, SIGNS_CERTIFICATES, draft, extension, key_usage, keys,
    name, rfc, sequence, tlv,
};
use crate::table::{ALICE, ROOT, Table, alice, ca, proxy, root, store, user, verify, with_options};

const ANY_LANGUAGE: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 21, 0];
const FULL: &[u8] = oid::INHERIT_ALL;
const LIMITED: &[u8] = oid::LIMITED;
const INDEPENDENT: &[u8] = oid::INDEPENDENT;

/// Proxies under Alice with these extensions, the last one first, and Alice.
fn under_alice(extensions: &[Vec<u8>]) -> Vec<Issued> {
    let mut chain = vec![alice()];
    for (index, extension) in extensions.iter().enumerate() {
        let last = (index + 1).to_string();
        let issued = proxy(&chain[0], &last, Some(extension.clone())).by(&chain[0]);
        chain.insert(0, issued);
    }
    chain
}

#[test]
fn rights_pass_down() {
    let mut table = Table::default();
    let trusted = store(&[&root()]);
    let mut grants = |row: &str, extensions: &[Vec<u8>], identity: &str, rights| {
        let chain = under_alice(extensions);
        table.grants(
            row,
            &trusted,
            &chain.iter().collect::<Vec<_>>(),
            identity,
            rights,
        );
    };
    use ProxyRights::{Full, Independent, Limited};
    grants("one", &[rfc(FULL, None)], ALICE, Full);
    grants("two", &[rfc(FULL, None), rfc(FULL, None)], ALICE, Full);
    grants("limited", &[rfc(LIMITED, None)], ALICE, Limited);
    grants(
        "limited at last",
        &[rfc(FULL, None), rfc(LIMITED, None)],
        ALICE,
        Limited,
    );
    grants(
        "limited twice",
        &[rfc(LIMITED, None), rfc(LIMITED, None)],
        ALICE,
        Limited,
    );
    let own = format!("{ALICE}/CN=1");
    grants("independent", &[rfc(INDEPENDENT, None)], &own, Independent);
    grants(
        "below it",
        &[rfc(INDEPENDENT, None), rfc(FULL, None)],
        &own,
        Independent,
    );
    let second = format!("{ALICE}/CN=1/CN=2");
    let both = [rfc(LIMITED, None), rfc(INDEPENDENT, None)];
    grants("independent of a limited one", &both, &second, Limited);
    grants("draft", &[draft(FULL, None)], ALICE, Full);
    grants(
        "draft, limited",
        &[draft(FULL, None), draft(LIMITED, None)],
        ALICE,
        Limited,
    );
    grants("length 0", &[rfc(FULL, Some(0))], ALICE, Full);
    grants(
        "length 1",
        &[rfc(FULL, Some(1)), rfc(FULL, None)],
        ALICE,
        Full,
    );
    grants(
        "draft, length 1",
        &[draft(FULL, Some(1)), draft(FULL, Some(0))],
        ALICE,
        Full,
    );
    table.end(13);
}

#[test]
fn rights_and_lengths_only_shrink() {
    let mut table = Table::default();
    let trusted = store(&[&root()]);
    let mut refuses = |row: &str, extensions: &[Vec<u8>], rule: &str, last: &str| {
        let chain = under_alice(extensions);
        let chain: Vec<&Issued> = chain.iter().collect();
        table.refuses(row, &trusted, &chain, rule, &format!("{ALICE}{last}"));
    };
    let full = || rfc(FULL, None);
    let two = "/CN=1/CN=2";
    refuses(
        "full of limited",
        &[rfc(LIMITED, None), full()],
        "ProxyRights",
        two,
    );
    let later = [full(), rfc(LIMITED, None), full()];
    refuses(
        "full of limited, later",
        &later,
        "ProxyRights",
        "/CN=1/CN=2/CN=3",
    );
    refuses(
        "draft of RFC",
        &[full(), draft(FULL, None)],
        "ProxyFormat",
        two,
    );
    refuses(
        "RFC of draft",
        &[draft(FULL, None), full()],
        "ProxyFormat",
        two,
    );
    refuses(
        "length 0",
        &[rfc(FULL, Some(0)), full()],
        "ProxyPathLength",
        "/CN=1",
    );
    let three = [full(), rfc(FULL, Some(1)), full(), full()];
    refuses("length 1", &three, "ProxyPathLength", two);
    refuses(
        "draft, length 0",
        &[draft(FULL, Some(0)), draft(FULL, None)],
        "ProxyPathLength",
        "/CN=1",
    );
    refuses(
        "any language",
        &[rfc(ANY_LANGUAGE, None)],
        "RestrictedProxy",
        "/CN=1",
    );
    refuses(
        "another language",
        &[rfc(&[0x2a, 3], None)],
        "RestrictedProxy",
        "/CN=1",
    );
    let language = sequence(&[&tlv(6, FULL), &tlv(4, b"read only")]);
    let policy = extension(oid::PROXY_CERT_INFO, true, &sequence(&[&language]));
    refuses("a policy", &[policy], "RestrictedProxy", "/CN=1");
    table.end(10);
}

#[test]
fn a_proxy_is_of_an_end_entity_that_may_sign() {
    let mut table = Table::default();
    let root = root();
    let trusted = store(&[&root]);
    let info = || Some(rfc(FULL, None));
    let of_root = proxy(&root, "1", info()).by(&root);
    table.refuses(
        "of the root",
        &trusted,
        &[&of_root],
        "ProxyOfAuthority",
        &format!("{ROOT}/CN=1"),
    );
    let middle = ca("/O=Grid/CN=Middle", &keys().middle).by(&root);
    let of_middle = proxy(&middle, "1", info()).by(&middle);
    let blamed = "/O=Grid/CN=Middle/CN=1";
    table.refuses(
        "of a CA",
        &trusted,
        &[&of_middle, &middle],
        "ProxyOfAuthority",
        blamed,
    );
    let enciphers = Draft::new(ALICE, &keys().user)
        .with(key_usage(ENCIPHERS))
        .by(&root);
    let of_it = proxy(&enciphers, "1", info()).by(&enciphers);
    table.refuses(
        "key usage",
        &trusted,
        &[&of_it, &enciphers],
        "NoDigitalSignature",
        ALICE,
    );
    let plain = Draft::new(ALICE, &keys().user).by(&root);
    table.accepts(
        "no usage",
        &trusted,
        &[&proxy(&plain, "1", info()).by(&plain), &plain],
        ALICE,
    );

    let alice = alice();
    let first = format!("{ALICE}/CN=1");
    let one = || proxy(&alice, "1", info());
    let mut refuses = |row: &str, draft: Draft, rule: &str| {
        table.refuses(row, &trusted, &[&draft.by(&alice), &alice], rule, &first);
    };
    refuses(
        "expired",
        one().change(|draft| draft.to = NOW - 1),
        "Expired",
    );
    refuses(
        "not yet valid",
        one().change(|draft| draft.from = NOW + 1),
        "NotYetValid",
    );
    refuses(
        "small",
        one().change(|draft| draft.key = &keys().small),
        "SmallKey",
    );
    let odd = extension(&[0x2a, 3, 4], true, &[5, 0]);
    refuses("critical extension", one().with(odd), "CriticalExtension");
    let forged = one().signed(&alice.subject, &keys().other);
    table.refuses(
        "forged",
        &trusted,
        &[&forged, &alice],
        "BadSignature",
        &first,
    );
    table.refuses(
        "alone",
        &trusted,
        &[&one().by(&alice)],
        "UnknownIssuer",
        &first,
    );
    let late = user(ALICE).change(|draft| draft.to = NOW - 1).by(&root);
    let chain = [&one().by(&late), &late];
    table.refuses("of an expired user", &trusted, &chain, "Expired", ALICE);
    // The user passes the right to sign on to nobody but proxies.
    let user_below = user("/O=Grid/CN=Alice/CN=1").by(&alice);
    table.refuses(
        "no proxy",
        &trusted,
        &[&user_below, &alice],
        "NotAuthority",
        ALICE,
    );
    let of_proxy = one().by(&alice);
    let below = user("/O=Grid/CN=Bob").by(&of_proxy);
    let chain = [&below, &of_proxy, &alice];
    table.refuses(
        "a user of a proxy",
        &trusted,
        &chain,
        "NotAuthority",
        &first,
    );
    table.end(13);
}

#[test]
fn a_proxy_that_contradicts_itself_is_malformed() {
    let mut table = Table::default();
    let (trusted, alice) = (store(&[&root()]), alice());
    let info = || Some(rfc(FULL, None));
    let one = || proxy(&alice, "1", info());
    let mut malformed = |row: &str, draft: Draft| {
        table.refuses(row, &trusted, &[&draft.by(&alice), &alice], "Malformed", "");
    };
    malformed(
        "two names more",
        one().change(|d| d.subject = name(&format!("{ALICE}/CN=1/CN=2"))),
    );
    malformed(
        "no name more",
        one().change(|draft| draft.subject = name(ALICE)),
    );
    malformed(
        "no common name",
        one().change(|d| d.subject = name(&format!("{ALICE}/OU=1"))),
    );
    malformed(
        "another name",
        one().change(|draft| draft.subject = name("/O=Grid/CN=Bob/CN=1")),
    );
    malformed("both formats", one().with(draft(FULL, None)));
    malformed("legacy and RFC", proxy(&alice, "proxy", info()));
    malformed("an authority", one().with(crate::build::authority(None)));
    let language = sequence(&[&sequence(&[&tlv(6, FULL)])]);
    let gentle = extension(oid::PROXY_CERT_INFO, false, &language);
    malformed("not critical", proxy(&alice, "1", Some(gentle)));
    let host = extension(
        oid::SUBJECT_ALT_NAME,
        false,
        &sequence(&[&tlv(0x82, b"lab")]),
    );
    malformed("a host name", one().with(host));
    let value = |bytes: &[u8]| Some(extension(oid::PROXY_CERT_INFO, true, bytes));
    malformed("no language", proxy(&alice, "1", value(&sequence(&[]))));
    malformed(
        "bytes behind",
        proxy(&alice, "1", value(&[language, vec![0]].concat())),
    );
    let negative = sequence(&[&[2, 1, 0xff], &sequence(&[&tlv(6, FULL)])]);
    malformed("a length below 0", proxy(&alice, "1", value(&negative)));
    let order = sequence(&[&sequence(&[&tlv(6, FULL)]), &tlv(0xa1, &[2, 1, 3])]);
    malformed("the order of the draft", proxy(&alice, "1", value(&order)));
    table.end(13);
}

#[test]
fn legacy_proxies_are_off_by_default() {
    let mut table = Table::default();
    let (root, alice) = (root(), alice());
    let strict = store(&[&root]);
    let lenient = with_options(TrustOptions::default().accept_legacy_proxies(), &[&root]);
    let full = proxy(&alice, "proxy", None).by(&alice);
    let limited = proxy(&full, "limited proxy", None).by(&full);
    let chain = [&full, &alice];
    table.refuses(
        "by default",
        &strict,
        &chain,
        "LegacyProxy",
        &format!("{ALICE}/CN=proxy"),
    );
    table.accepts("legacy", &lenient, &chain, ALICE);
    let chain = [&limited, &full, &alice];
    table.grants("limited", &lenient, &chain, ALICE, ProxyRights::Limited);
    let wider = proxy(&limited, "proxy", None).by(&limited);
    let blamed = format!("{ALICE}/CN=proxy/CN=limited proxy/CN=proxy");
    table.refuses(
        "wider",
        &lenient,
        &[&wider, &limited, &full, &alice],
        "ProxyRights",
        &blamed,
    );
    let rfc_below = proxy(&full, "1", Some(rfc(FULL, None))).by(&full);
    let blamed = format!("{ALICE}/CN=proxy/CN=1");
    table.refuses(
        "mixed",
        &lenient,
        &[&rfc_below, &full, &alice],
        "ProxyFormat",
        &blamed,
    );
    let rfc_above = proxy(&alice, "1", Some(rfc(FULL, None))).by(&alice);
    let below = proxy(&rfc_above, "proxy", None).by(&rfc_above);
    let blamed = format!("{ALICE}/CN=1/CN=proxy");
    table.refuses(
        "mixed",
        &lenient,
        &[&below, &rfc_above, &alice],
        "ProxyFormat",
        &blamed,
    );
    table.end(6);
}

#[test]
fn proxies_do_not_count_for_authorities_nor_ask_policies() {
    let mut table = Table::default();
    let usage = key_usage(SIGNS_CERTIFICATES);
    let root = Draft::new(ROOT, &keys().root)
        .with(crate::build::authority(Some(0)))
        .with(usage);
    let root = root.by_itself();
    let mut trusted = store(&[&root]);
    crate::table::allow(&mut trusted, &[ROOT], ALICE);
    let chain = under_alice(&[rfc(FULL, None), rfc(FULL, None), rfc(FULL, None)]);
    table.accepts("three", &trusted, &chain.iter().collect::<Vec<_>>(), ALICE);
    let mut order: Vec<&Issued> = chain.iter().collect();
    order[1..].reverse();
    table.accepts("out of order", &trusted, &order, ALICE);
    let chain = under_alice(&vec![rfc(FULL, None); 15]);
    let mut order: Vec<&Issued> = chain.iter().collect();
    table.accepts("fifteen", &trusted, &order, ALICE);
    order[1..].reverse();
    table.accepts("fifteen, out of order", &trusted, &order, ALICE);
    let chain = under_alice(&vec![rfc(FULL, None); 16]);
    let chain: Vec<&Issued> = chain.iter().collect();
    table.refuses("sixteen", &trusted, &chain, "TooMany", "");
    table.end(5);
}

#[test]
fn the_peer_of_a_chain_is_described() {
    let chain = under_alice(&[rfc(FULL, None), rfc(LIMITED, None)]);
    let sent: Vec<&Issued> = chain.iter().collect();
    let peer = verify(&store(&[&root()]), &sent).unwrap();
    assert_eq!(peer.subject.to_string(), format!("{ALICE}/CN=1/CN=2"));
    assert_eq!(peer.holder.subject(), &peer.identity);
    assert_eq!(
        (peer.format, peer.is_limited()),
        (Some(ProxyFormat::Rfc), true)
    );
    assert_eq!((peer.path.len(), peer.chain.len()), (4, 3));
    assert_eq!(peer.not_after.as_secs(), NOW + 1000);
    let last = Certificate::parse(chain[0].der()).unwrap();
    assert!(
        matches!(last.kind(), Kind::Proxy(info) if info.language == "1.3.6.1.4.1.3536.1.1.1.9")
    );
    assert_eq!(
        (last.key_bits(), last.may(SIGNS.reverse_bits().into())),
        (256, true)
    );
}
