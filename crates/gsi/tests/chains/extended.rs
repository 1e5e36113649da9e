//! Rows about the chain of one's own credential as a trust store (DCSC).

use std::sync::Arc;

use gsi::oid;

use crate::build::{Algorithm, Draft, NOW, keys, rfc};
use crate::table::{ALICE, Table, alice, ca, proxy, store, user};

const DCSC: &str = "/O=US/CN=Globus DCSC Cert";

#[test]
fn the_chain_of_ones_own_credential_is_trusted_by_its_bytes() {
    let mut table = Table::default();
    let empty = Arc::new(store(&[]));
    let md5 = |draft: &mut Draft| draft.algorithm = Some(Algorithm::Md5);
    let auto = Draft::new(DCSC, &keys().rsa).change(md5).by_itself();
    let own = empty.with_chain(&[auto.der()]).unwrap();
    table.accepts("signed with MD5", &own, &[&auto], DCSC);
    table.accepts("sent twice", &own, &[&auto, &auto], DCSC);
    let same_name = Draft::new(DCSC, &keys().rsa)
        .change(|draft| draft.serial = 8)
        .by_itself();
    table.accepts("of the same key", &own, &[&auto, &same_name], DCSC);
    let stranger = Draft::new(DCSC, &keys().user).change(md5).by_itself();
    table.refuses("of another key", &own, &[&stranger], "Algorithm", DCSC);
    let stranger = Draft::new(DCSC, &keys().user).by_itself();
    table.refuses("of another key", &own, &[&stranger], "BadSignature", DCSC);
    let below = proxy(&auto, "1", Some(rfc(oid::INHERIT_ALL, None))).by(&auto);
    table.accepts("a proxy of it", &own, &[&below, &auto], DCSC);
    let bob = user("/O=Grid/CN=Bob").by(&auto);
    table.refuses("it is no authority", &own, &[&bob], "NotAuthority", DCSC);
    let late = Draft::new(DCSC, &keys().rsa)
        .change(|draft| draft.to = NOW - 1)
        .by_itself();
    let expired = empty.with_chain(&[late.der()]).unwrap();
    table.refuses("expired", &expired, &[&late], "Expired", DCSC);
    table.refuses("not in the store", &*empty, &[&auto], "Untrusted", DCSC);
    table.end(9);
}

#[test]
fn an_authority_in_it_needs_no_policy() {
    let mut table = Table::default();
    let (root, alice) = (ca("/O=Lab/CN=Root", &keys().root).by_itself(), alice());
    let carol = user("/O=Lab/CN=Carol").by(&root);
    let empty = Arc::new(store(&[]));
    let own = empty.with_chain(&[carol.der(), root.der()]).unwrap();
    table.accepts("its authority", &own, &[&carol], "/O=Lab/CN=Carol");
    table.refuses("another's", &own, &[&alice], "UnknownIssuer", ALICE);
    let held = Arc::new(store(&[&root]));
    let own = held.with_chain(&[carol.der(), root.der()]).unwrap();
    table.refuses(
        "held here too",
        &own,
        &[&carol],
        "NoPolicy",
        "/O=Lab/CN=Carol",
    );
    let linked = crate::table::root();
    let middle = ca("/O=Grid/CN=Middle", &keys().middle).by(&linked);
    let bob = user("/O=Grid/CN=Bob").by(&middle);
    let own = Arc::new(store(&[&linked]))
        .with_chain(&[middle.der()])
        .unwrap();
    table.accepts("a link", &own, &[&bob], "/O=Grid/CN=Bob");
    table.end(4);
}
