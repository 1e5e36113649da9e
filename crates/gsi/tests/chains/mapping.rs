//! The grid-mapfile.

use gsi::gridmap::{GridMap, Mapping, Unmapped};
use gsi::name::Name;

use crate::build::name;
use crate::table::{alice, root, store, verify};

fn identity(text: &str) -> Name {
    Name::from_der(&name(text)).unwrap()
}

const MAP: &str = r#"
# the lab
"/O=Grid/CN=Alice" alice,operator staff
   "/O=Grid/CN=Bob"	bob
/O=Grid/CN=Carol carol
"/O=Grid/CN=Alice" mallory
"/O=Grid/USERID=7/CN=Dave" dave
"/O=Grid/CN=\"Q\" \\ \xc3\xa4" quoted
"/O=Grid/CN=Ümit" umit
"/O=Grid/CN=Pool" .grid
"/O=Grid/CN=open
"/O=Grid/CN=nobody"
"" empty
"#;

#[test]
fn the_first_line_of_an_identity_counts() {
    let map = GridMap::parse(MAP.as_bytes());
    let local = |text: &str, requested| map.local_name(&identity(text), requested);
    for (text, expected) in [
        ("/O=Grid/CN=Alice", "alice"),
        ("/O=GRID/CN=alice", "alice"),
        ("/O=Grid/CN=Bob", "bob"),
        ("/O=Grid/CN=Carol", "carol"),
        ("/O=Grid/UID=7/CN=Dave", "dave"),
        ("/O=Grid/CN=\"Q\" \\ ä", "quoted"),
        ("/O=Grid/CN=Ümit", "umit"),
    ] {
        assert_eq!(local(text, None).as_deref(), Ok(expected), "{text}");
    }
    assert_eq!(
        local("/O=Grid/CN=Alice", Some("staff")).as_deref(),
        Ok("staff")
    );
    let alice = identity("/O=Grid/CN=Alice");
    let name = "mallory".to_owned();
    assert_eq!(
        local("/O=Grid/CN=Alice", Some("mallory")),
        Err(Unmapped::NotListed {
            identity: alice,
            name
        })
    );
    let unknown = local("/O=Grid/CN=Eve", None).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "no line of the grid-mapfile maps /O=Grid/CN=Eve: add `\"/O=Grid/CN=Eve\" NAME`"
    );
    assert!(matches!(
        local("/O=Grid/CN=Pool", None),
        Err(Unmapped::Pool { .. })
    ));
    assert_eq!(map.len(), 7);
}

#[test]
fn faulty_lines_are_told_and_passed_over() {
    let map = GridMap::parse(MAP.as_bytes());
    let faults: Vec<String> = map.faults().iter().map(ToString::to_string).collect();
    assert_eq!(
        faults,
        [
            "grid-mapfile, line 11: the quote is not closed",
            "grid-mapfile, line 12: the local name is missing",
            "grid-mapfile, line 13: the identity is missing",
        ]
    );
}

#[test]
fn a_peer_is_mapped_by_its_identity() {
    let root = root();
    let peer = verify(&store(&[&root]), &[&alice()]).unwrap();
    let map: Box<dyn Mapping> = Box::new(GridMap::parse(MAP.as_bytes()));
    assert_eq!(map.map(&peer, Some("operator")).as_deref(), Ok("operator"));
}
