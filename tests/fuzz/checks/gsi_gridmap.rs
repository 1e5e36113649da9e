//! Each line of a grid-mapfile is an entry or a fault, and a mapped name is in the file.

use gsi::gridmap::GridMap;
use gsi::name::Name;

/// `data` is a grid-mapfile.
pub(crate) fn check(data: &[u8]) {
    let map = GridMap::parse(data);
    let lines = data.split(|&byte| byte == b'\n').count();
    assert!(map.len() + map.faults().len() <= lines);
    // /CN=Alice
    let alice = [
        0x30, 0x10, 0x31, 0x0e, 0x30, 0x0c, 6, 3, 0x55, 4, 3, 0x0c, 5, b'A', b'l', b'i', b'c', b'e',
    ];
    let alice = Name::from_der(&alice).unwrap();
    if let Ok(name) = map.local_name(&alice, None) {
        assert!(!name.is_empty() && !name.contains([',', ' ', '\n', '\t']));
        assert!(
            data.windows(name.len())
                .any(|window| window == name.as_bytes())
        );
        assert_eq!(map.local_name(&alice, Some(&name)), Ok(name));
    }
}
