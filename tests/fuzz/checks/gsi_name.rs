//! Names keep their bytes, and their form of one line is printable ASCII.

use gsi::name::Name;

/// `data` is the DER of a name.
pub(crate) fn check(data: &[u8]) {
    let Ok(name) = Name::from_der(data) else {
        return;
    };
    assert_eq!(name.as_der(), data);
    let line = name.to_string();
    assert!(line.bytes().all(|byte| matches!(byte, b' '..=b'~')));
    assert!(line.is_empty() || line.starts_with('/'));
    let again = Name::from_der(name.as_der()).unwrap();
    assert_eq!(
        (&again, again.hash(), again.old_hash()),
        (&name, name.hash(), name.old_hash())
    );
    let _ = name.common_name();
}
