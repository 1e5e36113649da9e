//! Revocation lists tell their issuer, and revoke a number whatever its leading zeros.

use gsi::revocation::RevocationList;

/// `data` is the DER of a revocation list.
pub(crate) fn check(data: &[u8]) {
    let Ok(list) = RevocationList::parse(data) else {
        return;
    };
    assert_eq!(list.revokes(&[7]), list.revokes(&[0, 7]));
    let _ = (
        list.issuer().to_string(),
        list.this_update(),
        list.next_update(),
    );
}
